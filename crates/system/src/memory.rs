//! One core's view of memory: translation, the data caches with their data, the buffers, and time.
//!
//! Nothing but the core's own maintenance operations keeps the caches right: they hold copies of
//! the words. By which address they are indexed and tagged is a constant of the core.
//!
//! A load or store that hits takes the fast path: the page's entry in `pages` (a direct-mapped copy
//! of what TLB, domains and permissions say for the present mode; dropped with the TLB entry) and
//! the line's place that the data cache's hint gives. Everything else, and every access while an
//! observer looks, takes the slow path.

mod lines;
mod loads;
mod stores;
mod translation;

use mmulab_hardware::{Cache, CacheGeometry, DataCache, GeometryError, Line, Random};
use mmulab_machine::{Cache as CacheShape, CoherenceShape, MemoryShape, MicroTlbShape, Platform};

use crate::cause::Cause;
use crate::clock::Clock;
use crate::core::{CacheAddress, Core, MemoryType, Mmu};
use crate::fetch::InstructionSide;
use crate::line_fills::LineFills;
use crate::micro_tlb::MicroTlb;
use crate::prefetcher::Prefetcher;
use crate::read_buffer::ReadBuffer;
use crate::statistics::Statistics;
use crate::store_buffer::StoreBuffer;
use crate::tlb::{TranslationBuffer, replacement};
use crate::tlb_transfer::TlbTransfer;
use crate::walk_cache::WalkCache;
use crate::write_buffer::WriteBuffer;

/// Entries of the page table copy of the fast path.
const PAGES: usize = 256;
/// Contexts that tags can tell apart: bits 11 to 2 of a tag.
const CONTEXTS: u32 = 1024;
/// States of domains and permissions that are remembered with their contexts.
const KNOWN_CONTEXTS: usize = 16;
/// A tag that no access has: its context is 0.
const NO_PAGE: u32 = 0;

/// What is known of a 4 KB page in some context. A tag is the page's address and the context.
#[derive(Clone, Copy)]
struct Page {
    /// Matches loads that the data cache may serve at once.
    load_tag: u32,
    /// Matches stores that a write-back line may take at once.
    store_tag: u32,
    /// Matches permitted loads.
    read_tag: u32,
    /// Matches permitted stores.
    write_tag: u32,
    /// Physical address.
    physical: u32,
    /// How it may be cached, as the control registers leave it.
    memory_type: MemoryType,
}

mmulab_state::value!(Page { load_tag, store_tag, read_tag, write_tag, physical, memory_type });

const EMPTY_PAGE: Page = Page {
    load_tag: NO_PAGE,
    store_tag: NO_PAGE,
    read_tag: NO_PAGE,
    write_tag: NO_PAGE,
    physical: 0,
    memory_type: MemoryType::STRONGLY_ORDERED,
};

/// One core's memory side.
pub struct CoreMemory<C: Core> {
    /// Which core.
    pub number: usize,
    /// The registers that rule translation.
    pub mmu: C::Mmu,
    /// Cycles by cause and phase.
    pub clock: Clock,
    /// Events, and time by mode and space.
    pub statistics: Statistics,
    /// Address of the instruction that executes: it is here because everything that happens in
    /// memory is reported with it.
    pub pc: u32,
    /// Where instructions were fetched from although nothing is there: virtual and physical
    /// address.
    pub(crate) unmapped_fetch: Option<(u32, u32)>,

    privileged: bool,
    context: u32,
    user_context: u32,
    privileged_context: u32,
    /// Contexts in use: what they stand for and the tag bits of user and privileged mode.
    contexts: Vec<(u64, u32)>,
    next_context: u32,
    pages: Box<[Page; PAGES]>,
    /// The TLB of instruction fetches; of data too where there is no other.
    pub itlb: TranslationBuffer,
    /// The TLB of data.
    pub dtlb: Option<TranslationBuffer>,
    /// The TLBs in front of these, by side.
    micro_tlbs: Option<[MicroTlb; 2]>,
    micro_tlb_refill_cycles: u32,
    register_writes_empty_micro_tlbs: bool,
    pub(crate) walk_cache: Option<WalkCache>,
    /// Entries that come from another core's TLB.
    pub(crate) tlb_transfer: TlbTransfer,

    /// The instruction cache and what is decoded of it.
    pub fetch: InstructionSide<C>,
    /// The data caches.
    pub dcache: DataCache<C::DataLine>,
    pub(crate) write_buffer: WriteBuffer<C::DataLine>,
    /// Stores that wait for their line.
    pub(crate) store_buffer: StoreBuffer,
    /// The read buffer that software controls.
    pub read_buffer: ReadBuffer<C::DataLine>,
    /// The line fills that go on beside execution.
    pub(crate) line_fills: LineFills,
    /// Who fills lines ahead of misses.
    pub(crate) prefetcher: Option<Prefetcher>,
    /// Where the search for a dirty line continues.
    pub(crate) clean_pointer: usize,
    pub(crate) timing: MemoryShape,
    pub(crate) line_operation_cycles: u8,
    pub(crate) whole_operation_cycles: u8,
    pub(crate) line_allocation_translates: bool,
    /// What the shape of the caches says of their replacement, instructions and data.
    pub(crate) replacement: [mmulab_hardware::Replacement; 2],

    pub(crate) coherence: CoherenceShape,
    pub(crate) level_2_cycles: u32,
    /// The physical address of the line that exclusive accesses watch.
    pub(crate) monitor: Option<u32>,
    /// An event was sent that nobody waited for yet.
    pub event: bool,

    /// Set while every access takes the slow path: an observer wants to see it, or it is counted.
    pub(crate) watched: bool,
    observed: bool,
    counts_data_accesses: bool,
    /// The rest of the line that executes needs no look of the checker.
    pub(crate) fetch_known: bool,
    /// How often the context was synchronised: by an ISB, an exception, or the return from one.
    pub(crate) synchronisations: u64,
    /// While observed: the registers of translation as they were before the first write since the
    /// context was synchronised, and the PC of that write. The core may still use them.
    pub(crate) unsynchronised: Option<(C::Mmu, u32)>,
}

mmulab_state::state!([C: Core] CoreMemory<C> {
    mmu,
    clock,
    statistics,
    pc,
    unmapped_fetch,
    privileged,
    context,
    user_context,
    privileged_context,
    contexts,
    next_context,
    pages,
    itlb,
    tlb_transfer,
    fetch,
    dcache,
    write_buffer,
    store_buffer,
    read_buffer,
    line_fills,
    clean_pointer,
    monitor,
    event,
    watched,
    counts_data_accesses,
    fetch_known,
    synchronisations,
    unsynchronised,
} optional { dtlb, micro_tlbs, walk_cache, prefetcher } built {
    number,
    micro_tlb_refill_cycles,
    register_writes_empty_micro_tlbs,
    timing,
    line_operation_cycles,
    whole_operation_cycles,
    line_allocation_translates,
    replacement,
    coherence,
    level_2_cycles,
    observed,
});

fn cache_model(shape: &CacheShape, random: Random) -> Result<Cache, GeometryError> {
    let lines = shape.size_bytes / u64::from(shape.line_bytes);
    Cache::new(
        CacheGeometry {
            size_bytes: shape.size_bytes,
            line_bytes: shape.line_bytes,
            ways: shape.ways.count(lines) as u32,
        },
        replacement(shape.replacement),
        random,
    )
}

/// The tags of a cache whose lines have the size of `L`.
pub(crate) fn cache_of_lines<L: Line>(
    what: &str,
    shape: &CacheShape,
    random: Random,
) -> Result<Cache, GeometryError> {
    if shape.line_bytes != L::BYTES {
        let (given, needed) = (shape.line_bytes, L::BYTES);
        return Err(GeometryError(format!(
            "{what}: lines of {given} bytes; the lines of these cores have {needed}"
        )));
    }
    cache_model(shape, random)
}

impl<C: Core> CoreMemory<C> {
    /// The memory side of core `number`, as out of reset, in `mode`, which is privileged.
    ///
    /// # Errors
    /// The shape of a cache or TLB is impossible.
    pub fn new(
        platform: &Platform,
        number: usize,
        mmu: C::Mmu,
        decoder: C::Decoder,
        mode: u32,
    ) -> Result<CoreMemory<C>, GeometryError> {
        let random = |stream: u64| Random::stream(1, number as u64 * 8 + stream);
        const {
            let physical = matches!(C::DATA_INDEX, CacheAddress::Physical)
                && matches!(C::DATA_TAG, CacheAddress::Physical);
            assert!(physical || !C::COHERENT, "coherent data caches go by physical addresses");
            assert!(C::FetchLine::BYTES <= C::DataLine::BYTES || !C::COHERENT);
        }
        if platform.coherence.is_some() != C::COHERENT {
            let wanted = if C::COHERENT { "these cores need it" } else { "these cores have none" };
            return Err(GeometryError(format!("coherence: {wanted}")));
        }
        let dcache = cache_of_lines::<C::DataLine>("dcache", &platform.dcache, random(0))?;
        let mini = platform.mini_dcache.as_ref();
        let mini_dcache = mini
            .map(|shape| cache_of_lines::<C::DataLine>("mini_dcache", shape, random(1)))
            .transpose()?;
        let icache = cache_of_lines::<C::FetchLine>("icache", &platform.icache, random(2))?;
        let shifts = C::Mmu::PAGE_SHIFTS;
        let dtlb = platform.dtlb.as_ref();
        let micro_tlb = |shape: &MicroTlbShape| {
            let new = |stream| MicroTlb::new(shape, shifts, random(stream));
            Ok::<_, GeometryError>([new(5)?, new(6)?])
        };
        let micro_tlbs = platform.micro_tlb.as_ref().map(micro_tlb).transpose()?;
        let walk_cache = platform.walk_cache.as_ref().zip(mmu.level_shift(0));
        let walk_cache =
            walk_cache.map(|(shape, shift)| WalkCache::new(shape, shift, random(7))).transpose()?;
        let space = mmu.space();
        let mut memory = CoreMemory {
            number,
            mmu,
            clock: Clock::new(),
            statistics: Statistics::new(mode, space),
            pc: 0,
            unmapped_fetch: None,
            privileged: true,
            context: 0,
            user_context: 0,
            privileged_context: 0,
            contexts: Vec::with_capacity(KNOWN_CONTEXTS),
            next_context: 1,
            pages: Box::new([EMPTY_PAGE; PAGES]),
            itlb: TranslationBuffer::new(&platform.itlb, shifts, random(3))?,
            dtlb: dtlb.map(|shape| TranslationBuffer::new(shape, shifts, random(4))).transpose()?,
            micro_tlbs,
            micro_tlb_refill_cycles: platform.micro_tlb.as_ref().map_or(0, |one| one.refill_cycles),
            register_writes_empty_micro_tlbs: platform
                .micro_tlb
                .as_ref()
                .is_some_and(|one| one.emptied_by_register_writes),
            walk_cache,
            tlb_transfer: TlbTransfer::default(),
            fetch: InstructionSide::new(icache, decoder),
            dcache: DataCache::new(dcache, mini_dcache),
            write_buffer: WriteBuffer::new(&platform.buffers, &platform.memory),
            store_buffer: StoreBuffer::new(platform.buffers.store_lines),
            read_buffer: ReadBuffer::new(platform.buffers.read_entries),
            line_fills: LineFills::new(platform.buffers.outstanding_misses),
            prefetcher: platform.prefetcher.as_ref().map(Prefetcher::new),
            clean_pointer: 0,
            timing: platform.memory.clone(),
            line_operation_cycles: platform.line_operation_cycles,
            whole_operation_cycles: platform.whole_operation_cycles,
            line_allocation_translates: platform.line_allocation_translates,
            replacement: [&platform.icache, &platform.dcache]
                .map(|shape| replacement(shape.replacement)),
            coherence: platform.coherence.clone().unwrap_or_default(),
            level_2_cycles: platform.level_2.as_ref().map_or(0, |shape| shape.latency_cycles),
            monitor: None,
            event: false,
            watched: false,
            observed: false,
            counts_data_accesses: false,
            fetch_known: false,
            synchronisations: 0,
            unsynchronised: None,
        };
        memory.update_contexts();
        Ok(memory)
    }

    // ---- Time ------------------------------------------------------------------------------

    /// Cycles since reset.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Spends cycles on `cause`.
    #[inline(always)]
    pub fn charge(&mut self, cause: Cause, cycles: impl Into<u64>) {
        self.clock.charge(cause, cycles.into());
    }

    /// Makes the run loop look for interrupts and stops before the next instruction.
    #[inline(always)]
    pub fn request_exit(&mut self) {
        self.clock.request_exit();
    }

    /// The mode is another one from here on.
    pub fn set_mode(&mut self, mode: u32, privileged: bool) {
        self.statistics.change_mode(self.clock.now(), self.clock.instructions(), mode);
        self.privileged = privileged;
        self.context = if privileged { self.privileged_context } else { self.user_context };
        self.fetch.invalidate_current_page();
    }

    /// What was done to registers and complete maintenance counts for the instructions that follow:
    /// an ISB, an exception, or the return from one.
    #[inline(always)]
    pub fn synchronise_context(&mut self) {
        self.synchronisations += 1;
        if self.watched {
            self.unsynchronised = None;
        }
    }

    /// A register that rules translation will be written.
    pub fn change_translation_registers(&mut self) {
        self.change_micro_tlb_registers();
        if self.watched && self.mmu.level_shift(0).is_some() {
            self.fetch_known = false;
            if self.unsynchronised.is_none() {
                self.unsynchronised = Some((self.mmu.clone(), self.pc));
            }
        }
    }

    /// An exception is taken.
    pub fn note_exception(&mut self, number: usize) {
        self.synchronise_context();
        self.statistics.exception(self.clock.now(), number);
    }

    // ---- Contexts and pages ---------------------------------------------------------------

    /// Domains or permissions changed. Fast-path tags carry a context: the mode's privilege with
    /// the state under which the permission was found. A kernel that rewrites its domain register
    /// on each entry goes to and fro between few of them.
    pub fn update_contexts(&mut self) {
        let key = self.mmu.permission_state();
        let tag = match self.contexts.iter().find(|(known, _)| *known == key) {
            Some(&(_, tag)) => tag,
            None => {
                if self.next_context + 2 > CONTEXTS || self.contexts.len() == KNOWN_CONTEXTS {
                    self.invalidate_fast_path();
                }
                let tag = self.next_context << 2;
                self.next_context += 2;
                self.contexts.push((key, tag));
                tag
            }
        };
        self.user_context = tag;
        self.privileged_context = tag + 4;
        self.context = if self.privileged { self.privileged_context } else { self.user_context };
        self.fetch.invalidate_current_page();
    }

    /// The tag bits of the present mode and permissions.
    #[inline(always)]
    pub(crate) fn context(&self) -> u32 {
        self.context
    }

    /// Discards everything the fast path knows of pages. New context numbers do it, until they run
    /// out.
    fn invalidate_fast_path(&mut self) {
        self.contexts.clear();
        if self.next_context + 2 * (KNOWN_CONTEXTS as u32 + 1) > CONTEXTS {
            self.pages.fill(EMPTY_PAGE);
            self.fetch.invalidate_pages();
            self.next_context = 1;
        }
        self.fetch.invalidate_current_page();
    }

    /// TLBs or control registers changed: discards everything the fast path knows of pages.
    pub fn renew_pages(&mut self) {
        self.invalidate_fast_path();
        self.update_contexts();
    }

    /// A TLB entry has left: the fast path must not use it any more.
    pub(crate) fn invalidate_fast_path_of(&mut self, address: u32, page_shift: u32) {
        if page_shift > 12 {
            // A section covers as many pages as there are entries.
            let mask = !((1u32 << page_shift) - 1);
            for page in self.pages.iter_mut() {
                let tag = page.read_tag | page.write_tag;
                if (tag ^ address) & mask == 0 || page.write_tag & mask == address & mask {
                    *page = EMPTY_PAGE;
                }
            }
            self.fetch.invalidate_pages();
        } else {
            self.pages[(address >> 12) as usize % PAGES] = EMPTY_PAGE;
            self.fetch.invalidate_page(address);
        }
    }

    /// Runs `access` with the rights of user mode.
    pub fn as_user<T>(&mut self, access: impl FnOnce(&mut CoreMemory<C>) -> T) -> T {
        let privileged = self.set_privileged(false);
        let result = access(self);
        self.set_privileged(privileged);
        result
    }

    /// Accesses have other rights from here on, whatever the mode; returns which they had.
    pub fn set_privileged(&mut self, privileged: bool) -> bool {
        self.context = if privileged { self.privileged_context } else { self.user_context };
        std::mem::replace(&mut self.privileged, privileged)
    }

    /// Whether accesses have the rights of a privileged mode.
    pub(crate) fn is_privileged(&self) -> bool {
        self.privileged
    }

    /// An observer wants to see every access, or no longer.
    pub(crate) fn set_observed(&mut self, observed: bool) {
        self.observed = observed;
        self.update_watched();
    }

    /// Counts loads and stores of the data cache from here on, or no longer: it takes time, as none
    /// takes the fast path meanwhile.
    pub fn count_data_accesses(&mut self, counts: bool) {
        self.counts_data_accesses = counts;
        self.update_watched();
    }

    /// Sends every access through the slow path, or no longer.
    pub(crate) fn update_watched(&mut self) {
        let watched = self.observed || self.counts_data_accesses;
        if watched != self.watched {
            self.watched = watched;
            self.pages.fill(EMPTY_PAGE);
            self.fetch.invalidate_pages();
        }
    }
}
