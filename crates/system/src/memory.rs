//! One core's view of memory: translation, the data caches with their data, the buffers, and time.
//!
//! Nothing but the core's own maintenance operations keeps the caches right: they hold copies of the
//! words. By which address they are indexed and tagged is a constant of the core.
//!
//! A load or store that hits takes the fast path: the page's entry in `pages` (a direct-mapped copy
//! of what TLB, domains and permissions say for the present mode; dropped with the TLB entry) and
//! the line's place that the data cache's hint gives. Everything else, and every access while an
//! observer looks, takes the slow path.

use mmulab_hardware::coherence::Request;
use mmulab_hardware::{Cache, CacheGeometry, DataCache, GeometryError, HeldLine, Line, Random};
use mmulab_machine::{Cache as CacheShape, CoherenceShape, MemoryShape, Platform};

use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::clock::Clock;
use crate::core::{CacheAddress, Core, Fault, MemoryType, Mmu, Side, Translation, Walk};
use crate::fetch::InstructionSide;
use crate::observer::{Access, Load, Observer, Source, Store};
use crate::read_buffer::{Fetched, ReadBuffer};
use crate::statistics::Statistics;
use crate::tlb::{TranslationBuffer, replacement};
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
    /// Where instructions were fetched from although nothing is there: virtual and physical address.
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

    /// The instruction cache and what is decoded of it.
    pub fetch: InstructionSide<C>,
    /// The data caches.
    pub dcache: DataCache<C::DataLine>,
    pub(crate) write_buffer: WriteBuffer<C::DataLine>,
    /// The read buffer that software controls.
    pub read_buffer: ReadBuffer<C::DataLine>,
    /// Where the search for a dirty line continues.
    pub(crate) clean_pointer: usize,
    pub(crate) timing: MemoryShape,
    pub(crate) line_operation_cycles: u8,
    pub(crate) whole_operation_cycles: u8,
    /// What the shape of the caches says of their replacement, instructions and data.
    pub(crate) replacement: [mmulab_hardware::Replacement; 2],

    pub(crate) coherence: CoherenceShape,
    pub(crate) level_2_cycles: u32,
    /// The physical address of the line that exclusive accesses watch.
    pub(crate) monitor: Option<u32>,
    /// An event was sent that nobody waited for yet.
    pub event: bool,

    /// Set while an observer wants to see every access.
    pub(crate) watched: bool,
    /// The rest of the line that executes needs no look of the checker.
    pub(crate) fetch_known: bool,
}

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
            fetch: InstructionSide::new(icache, decoder),
            dcache: DataCache::new(dcache, mini_dcache),
            write_buffer: WriteBuffer::new(&platform.buffers, &platform.memory),
            read_buffer: ReadBuffer::new(platform.buffers.read_entries),
            clean_pointer: 0,
            timing: platform.memory.clone(),
            line_operation_cycles: platform.line_operation_cycles,
            whole_operation_cycles: platform.whole_operation_cycles,
            replacement: [&platform.icache, &platform.dcache]
                .map(|shape| replacement(shape.replacement)),
            coherence: platform.coherence.clone().unwrap_or_default(),
            level_2_cycles: platform.level_2.as_ref().map_or(0, |shape| shape.latency_cycles),
            monitor: None,
            event: false,
            watched: false,
            fetch_known: false,
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
        self.statistics.change_mode(self.clock.now(), mode);
        self.privileged = privileged;
        self.context = if privileged { self.privileged_context } else { self.user_context };
        self.fetch.invalidate_current_page();
    }

    /// The registers that choose the address space changed; `counted` where that is a switch.
    pub fn space_changed(&mut self, counted: bool) {
        self.statistics.counters.space_switches += u64::from(counted);
        self.statistics.change_space(self.clock.now(), self.mmu.space());
    }

    /// An exception is taken.
    pub fn note_exception(&mut self, number: usize) {
        self.statistics.exception(self.clock.now(), number);
    }

    // ---- Contexts and pages ---------------------------------------------------------------

    /// Domains or permissions changed. Fast-path tags carry a context: the mode's privilege with the
    /// state under which the permission was found. A kernel that rewrites its domain register on
    /// each entry goes to and fro between few of them.
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

    /// Discards everything the fast path knows of pages. New context numbers do it, until they run out.
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

    /// Sends every access through the slow path, or no longer.
    pub(crate) fn set_watched(&mut self, watched: bool) {
        if watched != self.watched {
            self.watched = watched;
            self.pages.fill(EMPTY_PAGE);
            self.fetch.invalidate_pages();
        }
    }

    // ---- Translation -----------------------------------------------------------------------

    /// The address as caches and TLBs see it.
    #[inline(always)]
    pub fn relocated(&self, address: u32) -> u32 {
        self.mmu.relocated(address)
    }

    /// The TLB of a side.
    pub fn tlb(&self, side: Side) -> &TranslationBuffer {
        match (side, &self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &self.itlb,
        }
    }

    /// The TLB of a side.
    pub fn tlb_mut(&mut self, side: Side) -> &mut TranslationBuffer {
        match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        }
    }

    /// The fault status if the present mode is refused an access.
    pub(crate) fn refusal(&self, page: &Translation, address: u32, write: bool) -> Option<u32> {
        self.mmu.refusal(page, address, write, self.privileged)
    }

    /// The same for a fetch.
    pub(crate) fn fetch_refusal(&self, page: &Translation, address: u32) -> Option<u32> {
        self.mmu.fetch_refusal(page, address, self.privileged)
    }

    /// Reads the tables in memory as the walking hardware does: it sees neither the data cache, unless
    /// it reads through it, nor the write buffer.
    fn walk_tables(&mut self, bus: &mut Bus<C>, address: u32, side: Side) -> Walk {
        let now = self.now();
        self.write_buffer.retire(now, &mut bus.ram);
        let wait = self.write_buffer.transfer_ends_at(now);
        self.clock.charge_until(Cause::WriteBuffer, wait);
        self.write_buffer.retire(wait, &mut bus.ram);
        let counters = &mut self.statistics.counters;
        let (misses, cause) = match side {
            Side::Instruction => (&mut counters.itlb_misses, Cause::InstructionWalk),
            Side::Data => (&mut counters.dtlb_misses, Cause::DataWalk),
        };
        *misses += 1;
        if C::COHERENT && self.mmu.walks_through_data_cache() {
            let found = self.mmu.walk(address, |at| self.coherent_word(bus, at));
            for &(at, _) in found.descriptors() {
                self.read_descriptor(bus, at, cause);
            }
            return found;
        }
        let found = self.mmu.walk(address, |at| bus.read_table_word(at));
        let reads = found.descriptors().len() as u64;
        let cycles = reads * u64::from(self.timing.walk_read_cycles);
        self.write_buffer.delay(cycles);
        self.charge(cause, cycles);
        found
    }

    /// The translation of an address by the TLB of a side, walking if need be.
    ///
    /// # Errors
    /// The tables have none.
    pub fn translation(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        side: Side,
    ) -> Result<Translation, Fault> {
        let asid = self.mmu.asid();
        if let Some(entry) = self.tlb_mut(side).lookup(address, asid) {
            return Ok(entry.payload);
        }
        let found = self.walk_tables(bus, address, side);
        self.observe(bus, |observer, core, bus| observer.walked(core, bus, &found, address));
        let translation = found.result.map_err(|status| Fault::new(address, status))?;
        if let Some(left) = self.tlb_mut(side).insert(address, asid, translation) {
            self.invalidate_fast_path_of(left.virtual_address as u32, left.page_shift);
        }
        Ok(translation)
    }

    /// Physical address and memory type for a data access, or why not.
    #[inline]
    pub(crate) fn translate_data(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        write: bool,
    ) -> Result<(u32, MemoryType), Fault> {
        if !self.mmu.is_on() {
            return Ok((address, self.mmu.untranslated_type(Side::Data)));
        }
        let index = (address >> 12) as usize % PAGES;
        let page = &self.pages[index];
        let tag = address & !0xfff | self.context;
        if tag == if write { page.write_tag } else { page.read_tag } {
            return Ok((page.physical | address & 0xfff, page.memory_type));
        }
        let translation = self.translation(bus, address, Side::Data)?;
        let refused = |write| self.refusal(&translation, address, write);
        if let Some(status) = refused(write) {
            return Err(Fault::new(address, status));
        }
        let memory_type = self.mmu.effective_type(translation.memory_type, Side::Data);
        let physical = translation.physical_of(address);
        if self.mmu.is_uniform(&translation) {
            let read_tag = if refused(false).is_none() { tag } else { NO_PAGE };
            let write_tag = if refused(true).is_none() { tag } else { NO_PAGE };
            // While somebody looks, the tags that skip the slow path stay empty.
            let cached = memory_type.is_cached() && !self.watched;
            let written_back = cached && memory_type.is_write_back();
            self.pages[index] = Page {
                load_tag: if cached { read_tag } else { NO_PAGE },
                store_tag: if written_back { write_tag } else { NO_PAGE },
                read_tag,
                write_tag,
                physical: physical & !0xfff,
                memory_type,
            };
        }
        Ok((physical, memory_type))
    }

    // ---- The data caches -------------------------------------------------------------------

    #[inline(always)]
    fn by(kind: CacheAddress, address: u32, physical: u32) -> u32 {
        match kind {
            CacheAddress::Virtual => address,
            CacheAddress::Physical => physical,
        }
    }

    /// The slot that holds the line of an address.
    #[inline(always)]
    pub(crate) fn line_of(&mut self, address: u32, physical: u32) -> Option<usize> {
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        self.dcache.find(address, index, tag)
    }

    /// The physical address of the line that serves an address which translates to `physical`, for who
    /// only looks.
    pub(crate) fn line_held_for(&self, address: u32, physical: u32) -> Option<u32> {
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        let slot = match self.dcache.hinted(address, tag) {
            Some(slot) => slot,
            None => self.dcache.peek(index, tag)?,
        };
        Some(self.dcache.physical(slot))
    }

    /// Empties a slot without writing it back.
    pub(crate) fn discard_line(&mut self, bus: &mut Bus<C>, slot: usize) {
        self.observe_discard(bus, slot);
        self.dcache.invalidate(slot);
    }

    /// Empties the data caches without writing anything back.
    pub(crate) fn discard_all_lines(&mut self, bus: &mut Bus<C>) {
        if bus.is_observed() {
            for slot in 0..self.dcache.slots() {
                self.observe_discard(bus, slot);
            }
        }
        self.dcache.invalidate_all();
    }

    fn observe_discard(&mut self, bus: &mut Bus<C>, slot: usize) {
        if self.dcache.dirty(slot) == 0 {
            return;
        }
        self.observe(bus, |observer, core, bus| {
            if let Some(line) = core.dcache.held(slot) {
                observer.discarding(core, bus, &line);
            }
        });
    }

    /// Sends the dirty halves of a line towards memory; waits for room.
    pub(crate) fn write_back(
        &mut self,
        bus: &mut Bus<C>,
        line: &HeldLine<C::DataLine>,
        cause: Cause,
    ) {
        self.observe(bus, |observer, core, bus| observer.writing_back(core, bus, line));
        self.statistics.counters.write_backs += u64::from(line.dirty.count_ones());
        if bus.region(line.physical) != Region::Ram {
            return;
        }
        if C::COHERENT {
            return bus.write_below(line);
        }
        let words = line.dirty.count_ones() * (C::DataLine::WORDS as u32 / 2);
        let mut now = self.now();
        self.write_buffer.retire(now, &mut bus.ram);
        loop {
            let room_at = self.write_buffer.room_for_line(now, words);
            if room_at <= now {
                break;
            }
            self.clock.charge_until(cause, room_at);
            now = self.now();
            self.write_buffer.retire(now, &mut bus.ram);
        }
        self.write_buffer.push_line(now, line.physical, &line.words, line.dirty);
    }

    /// Cleans a slot; what it held stays.
    pub(crate) fn clean_slot(&mut self, bus: &mut Bus<C>, slot: usize, cause: Cause) {
        if let Some(line) = self.dcache.held(slot)
            && line.dirty != 0
        {
            self.dcache.clean(slot);
            self.write_back(bus, &line, cause);
        }
    }

    /// Waits until memory is free for a read of the line at `physical`, then spends the read's time.
    pub(crate) fn occupy_memory(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        cycles: u32,
        cause: Cause,
    ) {
        if !self.write_buffer.is_empty() {
            let now = self.now();
            self.write_buffer.retire(now, &mut bus.ram);
            // A read of what is still in the buffer waits for it: the buffers are coherent with the
            // core's own reads.
            let conflict = self.write_buffer.line_ready_at(now, physical);
            let wait = conflict.max(self.write_buffer.transfer_ends_at(now));
            self.clock.charge_until(Cause::WriteBuffer, wait);
            self.write_buffer.retire(wait, &mut bus.ram);
            self.write_buffer.delay(u64::from(cycles));
        }
        self.clock.charge_until(cause, self.read_buffer.memory_free_at);
        self.charge(cause, cycles);
    }

    /// Reads the line at `physical` from memory, by way of the second level where there is one, which
    /// takes it only if asked to.
    pub(crate) fn read_line<L: Line>(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        into_level_2: bool,
        cause: Cause,
    ) -> L {
        let line = L::base(physical);
        match bus.region(physical) {
            Region::Zero => {
                // Reading it is how the SA-1100 cleans its data cache.
                let since = self.now();
                self.charge(cause, self.timing.zero_bank_fill_cycles);
                self.statistics.line_operation(since, self.clock.now());
                return L::ZERO;
            }
            Region::Ram => {}
            _ => {
                self.charge(cause, self.timing.line_fill_cycles);
                let mut words = L::ZERO;
                for word in 0..L::WORDS {
                    words[word] = bus.board.read(line + word as u32 * 4, self.pc);
                }
                return words;
            }
        }
        if C::COHERENT {
            return self.read_below(bus, line, into_level_2, cause);
        }
        self.occupy_memory(bus, line, self.timing.line_fill_cycles, cause);
        bus.ram.line(line)
    }

    /// Brings the line of `address` into the data cache; returns its slot.
    pub(crate) fn fill(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        physical: u32,
        memory_type: MemoryType,
        cause: Cause,
    ) -> usize {
        self.statistics.counters.dcache_misses += 1;
        if C::COHERENT && bus.region(physical) == Region::Ram {
            let unique = cause == Cause::WriteAllocate;
            let request = if unique { Request::Unique } else { Request::Read };
            return self.fill_coherent(bus, physical, request, cause);
        }
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        let (slot, leaving) = self.dcache.allocate(memory_type.is_in_mini(), index, tag);
        // The new line is wanted first; the dirty one that leaves waits in a buffer.
        let words = self.read_line(bus, physical, false, cause);
        if let Some(leaving) = leaving
            && leaving.dirty != 0
        {
            self.write_back(bus, &leaving, Cause::WriteBuffer);
        }
        // A line that comes in while its own older self leaves (another alias) reads memory, which is
        // what the hardware does too.
        self.dcache.fill(slot, address, tag, physical, words);
        self.observe(bus, |observer, core, _| observer.filled(core, Side::Data, slot));
        slot
    }

    // ---- Loads -----------------------------------------------------------------------------

    /// The slot that can serve an access at once.
    #[inline(always)]
    fn hinted(&self, page: &Page, address: u32) -> Option<usize> {
        let physical = page.physical | address & 0xfff;
        self.dcache.hinted(address, Self::by(C::DATA_TAG, address, physical))
    }

    /// The slot that the hint for an address leads to.
    pub(crate) fn hinted_slot(&self, address: u32, physical: u32) -> Option<usize> {
        self.dcache.hinted(address, Self::by(C::DATA_TAG, address, physical))
    }

    /// Physical address, slot and memory type of an access that the present mode may do and that hits
    /// the data cache, as far as the fast path's copies say.
    #[inline(always)]
    pub(crate) fn known_hit(
        &self,
        address: u32,
        access: Access,
    ) -> Option<(u32, usize, MemoryType)> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        let tag = if access == Access::Store { page.write_tag } else { page.read_tag };
        if tag != address & !0xfff | self.context || !page.memory_type.is_cached() {
            return None;
        }
        let slot = self.hinted(page, address)?;
        if C::COHERENT && access == Access::Store && self.dcache.is_shared(slot) {
            return None;
        }
        Some((page.physical | address & 0xfff, slot, page.memory_type))
    }

    #[inline(always)]
    fn fast_load(&self, address: u32, alignment: u32) -> Option<u32> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        // The low two bits of a tag are zero, so an unaligned address does not match.
        if page.load_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        Some(self.dcache.word(self.hinted(page, address)?, address))
    }

    /// Loads a word; from an address that is not aligned, the aligned word, rotated (as ARM DDI 0100,
    /// A4.1.23, has it) where the MMU does not check alignment.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_word(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        match self.fast_load(self.relocated(address), 3) {
            Some(word) => Ok(word),
            None if address & 3 != 0 && self.mmu.reads_unaligned() => {
                self.load_unaligned(bus, address, 4)
            }
            None => {
                let word = self.load_slow(bus, address, 4)?;
                Ok(word.rotate_right(8 * (address & 3)))
            }
        }
    }

    /// Loads a half-word; bit 0 of the address is ignored.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_half(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        let word = match self.fast_load(self.relocated(address), 1) {
            Some(word) => word,
            None if address & 1 != 0 && self.mmu.reads_unaligned() => {
                return self.load_unaligned(bus, address, 2);
            }
            None => self.load_slow(bus, address, 2)?,
        };
        Ok(word >> (8 * (address & 2)) & 0xffff)
    }

    /// Loads a byte.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_byte(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        let word = match self.fast_load(self.relocated(address), 0) {
            Some(word) => word,
            None => self.load_slow(bus, address, 1)?,
        };
        Ok(word >> (8 * (address & 3)) & 0xff)
    }

    /// Refuses an address that is not a multiple of `size`, where that is checked.
    ///
    /// # Errors
    /// It is refused.
    pub fn check_alignment(&self, address: u32, size: u32) -> Result<(), Fault> {
        if address & (size - 1) != 0 && self.mmu.checks_alignment() {
            let address = self.relocated(address);
            return Err(Fault::new(address, C::Mmu::ALIGNMENT_FAULT));
        }
        Ok(())
    }

    /// Refuses an address of several words, or of an exclusive access, that is not a multiple of
    /// `size`.
    ///
    /// # Errors
    /// It is refused.
    pub fn check_strict_alignment(&self, address: u32, size: u32) -> Result<(), Fault> {
        if address & (size - 1) != 0 && self.mmu.reads_unaligned() {
            let address = self.relocated(address);
            return Err(Fault::new(address, C::Mmu::ALIGNMENT_FAULT));
        }
        self.check_alignment(address, size)
    }

    /// The bytes at an address that is not a multiple of `size`, one by one as the architecture has it.
    #[inline(never)]
    fn load_unaligned(&mut self, bus: &mut Bus<C>, address: u32, size: u32) -> Result<u32, Fault> {
        self.check_alignment(address, size)?;
        let mut value = 0;
        for byte in 0..size {
            value |= self.load_byte(bus, address.wrapping_add(byte))? << (8 * byte);
        }
        Ok(value)
    }

    /// The same for a store; nothing is stored if any byte is refused.
    #[inline(never)]
    fn store_unaligned(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
    ) -> Result<(), Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        self.check_store(bus, address, 1)?;
        self.check_store(bus, address.wrapping_add(size - 1), 1)?;
        for byte in 0..size {
            self.store_byte(bus, address.wrapping_add(byte), value >> (8 * byte))?;
        }
        Ok(())
    }

    fn observe_refusal(&mut self, bus: &mut Bus<C>, fault: Fault, access: Access) -> Fault {
        self.observe(bus, |observer, core, bus| {
            observer.refused(core, bus, access, fault.address);
        });
        fault
    }

    /// The aligned word around an address.
    #[inline(never)]
    fn load_slow(&mut self, bus: &mut Bus<C>, address: u32, size: u32) -> Result<u32, Fault> {
        self.check_alignment(address, size)?;
        let address = self.relocated(address);
        if let Some(word) = self.load_known(bus, address) {
            return Ok(word);
        }
        self.observe_access(bus, address, size, Access::Load);
        let (physical, memory_type) = self
            .translate_data(bus, address, false)
            .map_err(|fault| self.observe_refusal(bus, fault, Access::Load))?;
        let cached = memory_type.is_cached();
        let slot = if cached { self.line_of(address, physical) } else { None };
        let ahead = if slot.is_none() { self.read_buffer.find(address) } else { None };
        let (word, source) = match (slot, ahead) {
            (Some(slot), _) => (self.dcache.word(slot, address), Source::DataCache),
            (None, Some((word, ready_at))) => {
                self.clock.charge_until(Cause::DataMiss, ready_at);
                (word, Source::ReadBuffer)
            }
            (None, None) if cached && memory_type.fills() => {
                let slot = self.fill(bus, address, physical, memory_type, Cause::DataMiss);
                (self.dcache.word(slot, address), Source::DataCache)
            }
            (None, None) => (self.read_uncached(bus, physical), Source::Memory),
        };
        let load = Load { address, physical, source, size, word };
        self.observe(bus, |observer, core, bus| observer.loaded(core, bus, &load));
        Ok(word)
    }

    pub(crate) fn read_uncached(&mut self, bus: &mut Bus<C>, physical: u32) -> u32 {
        match bus.region(physical) {
            Region::Ram => {
                let cycles = self.timing.word_read_cycles;
                self.occupy_memory(bus, physical, cycles, Cause::Uncached);
                bus.ram.word(physical)
            }
            Region::Instrumentation => bus.read_instrumentation(self, physical),
            Region::Zero => 0,
            Region::Device => {
                self.drain(bus, Cause::WriteBuffer);
                self.charge(Cause::Uncached, self.timing.word_read_cycles);
                bus.board.now = self.now();
                bus.board.core = self.number;
                let word = bus.board.read(physical & !3, self.pc);
                self.request_exit();
                word
            }
        }
    }

    /// Waits until everything that was stored is in memory.
    pub(crate) fn drain(&mut self, bus: &mut Bus<C>, cause: Cause) {
        if !self.write_buffer.is_empty() {
            let done = self.write_buffer.empty_at(self.now());
            self.clock.charge_until(cause, done);
            self.write_buffer.retire(done, &mut bus.ram);
        }
    }

    /// Loads words from ascending addresses into the places of `loaded` that `list` has a bit for.
    ///
    /// # Errors
    /// The MMU refuses one of the accesses.
    pub fn load_block(
        &mut self,
        bus: &mut Bus<C>,
        start: u32,
        list: u32,
        loaded: &mut [u32; 16],
    ) -> Result<(), Fault> {
        self.check_strict_alignment(start, 4)?;
        let mut address = start & !3;
        let mut rest = list;
        while rest != 0 {
            let number = rest.trailing_zeros() as usize & 15;
            rest &= rest - 1;
            loaded[number] = match self.fast_load(self.relocated(address), 3) {
                Some(word) => word,
                None => self.load_slow(bus, address, 4)?,
            };
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// Brings the line of an address into the data cache ahead of its use. A fault is ignored.
    pub fn preload(&mut self, bus: &mut Bus<C>, address: u32) {
        let address = self.relocated(address);
        let Ok((physical, memory_type)) = self.translate_data(bus, address, false) else { return };
        if memory_type.is_cached() && self.line_of(address, physical).is_none() {
            self.fill(bus, address, physical, memory_type, Cause::DataMiss);
        }
    }

    // ---- Stores ----------------------------------------------------------------------------

    /// The slot that can take a store at once.
    #[inline(always)]
    fn fast_store(&self, address: u32, alignment: u32) -> Option<usize> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        if page.store_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        let slot = self.hinted(page, address)?;
        if C::COHERENT && self.dcache.is_shared(slot) {
            return None;
        }
        Some(slot)
    }

    /// Stores a word. The low two bits of the address are ignored where they are not checked.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_word(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        if address & 3 != 0 && self.mmu.reads_unaligned() {
            return self.store_unaligned(bus, address, 4, value);
        }
        self.store_part(bus, address, 4, value, !0)
    }

    /// Stores a half-word; bit 0 of the address is ignored where it is not checked.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_half(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        if address & 1 != 0 && self.mmu.reads_unaligned() {
            return self.store_unaligned(bus, address, 2, value);
        }
        let shift = 8 * (address & 2);
        self.store_part(bus, address, 2, (value & 0xffff) << shift, 0xffff << shift)
    }

    /// Stores a byte.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_byte(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        let shift = 8 * (address & 3);
        self.store_part(bus, address, 1, (value & 0xff) << shift, 0xff << shift)
    }

    #[inline(always)]
    fn store_part(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
    ) -> Result<(), Fault> {
        let relocated = self.relocated(address);
        match self.fast_store(relocated, size - 1) {
            Some(slot) => {
                self.dcache.set_word(slot, relocated, value, mask);
                self.dcache.mark_dirty(slot, relocated);
                Ok(())
            }
            None => self.store_slow(bus, address, size, value, mask, false).map(drop),
        }
    }

    /// Stores words to ascending addresses; consecutive ones share an entry of the write buffer.
    ///
    /// # Errors
    /// The MMU refuses one of the accesses.
    pub fn store_block(
        &mut self,
        bus: &mut Bus<C>,
        start: u32,
        values: &[u32],
    ) -> Result<(), Fault> {
        self.check_strict_alignment(start, 4).map_err(Fault::of_store)?;
        let mut address = start & !3;
        let mut joins = false;
        for &value in values {
            let relocated = self.relocated(address);
            if let Some(slot) = self.fast_store(relocated, 3) {
                self.dcache.set_word(slot, relocated, value, !0);
                self.dcache.mark_dirty(slot, relocated);
                joins = false;
            } else {
                joins = self.store_slow(bus, address, 4, value, !0, joins)?;
            }
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// Whether a store would be permitted: a swap asks before it loads.
    ///
    /// # Errors
    /// It would be refused.
    pub fn check_store(&mut self, bus: &mut Bus<C>, address: u32, size: u32) -> Result<(), Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        let address = self.relocated(address);
        self.translate_data(bus, address, true)
            .map(drop)
            .map_err(|fault| self.observe_refusal(bus, fault.of_store(), Access::Store))
    }

    /// Returns whether the store went on to memory.
    #[inline(never)]
    fn store_slow(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
        joins: bool,
    ) -> Result<bool, Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        let address = self.relocated(address);
        if self.store_known(bus, address, value, mask) {
            return Ok(false);
        }
        self.observe_access(bus, address, size, Access::Store);
        let (physical, memory_type) = self
            .translate_data(bus, address, true)
            .map_err(|fault| self.observe_refusal(bus, fault.of_store(), Access::Store))?;
        let cached = memory_type.is_cached();
        let store = Store { address, physical, cached, value, mask };
        self.observe(bus, |observer, core, bus| observer.storing(core, bus, &store));
        if cached {
            let mut slot = self.line_of(address, physical);
            if slot.is_none() && (C::COHERENT || memory_type.allocates_on_write()) {
                let cause = Cause::WriteAllocate;
                slot = Some(self.fill(bus, address, physical, memory_type, cause));
            }
            if let Some(slot) = slot {
                if C::COHERENT {
                    self.make_unique(bus, slot, Cause::WriteAllocate);
                }
                self.dcache.set_word(slot, address, value, mask);
                if C::COHERENT || memory_type.is_write_back() {
                    self.dcache.mark_dirty(slot, address);
                    return Ok(false);
                }
            }
        }
        self.write_memory(bus, physical, value, mask, memory_type.is_buffered(), joins);
        Ok(true)
    }

    fn write_memory(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        value: u32,
        mask: u32,
        buffered: bool,
        joins: bool,
    ) {
        match bus.region(physical) {
            Region::Ram => {
                let mut now = self.now();
                self.write_buffer.retire(now, &mut bus.ram);
                loop {
                    let room_at = self.write_buffer.room_for_store(now, physical, joins);
                    if room_at <= now {
                        break;
                    }
                    self.clock.charge_until(Cause::WriteBuffer, room_at);
                    now = self.now();
                    self.write_buffer.retire(now, &mut bus.ram);
                }
                self.write_buffer.push_store(now, physical, value, mask, joins);
                if C::COHERENT {
                    bus.clear_monitors(physical);
                }
                if !buffered {
                    self.drain(bus, Cause::Uncached);
                }
            }
            Region::Instrumentation => {
                bus.board.instrumentation.write(physical, value, self.now(), self.number);
                self.request_exit();
            }
            Region::Zero => {}
            Region::Device => {
                self.drain(bus, Cause::WriteBuffer);
                self.charge(Cause::Uncached, self.timing.write_first_cycles);
                bus.board.now = self.now();
                bus.board.core = self.number;
                bus.board.write(physical, value, mask, self.pc);
                self.request_exit();
            }
        }
    }

    // ---- The read buffer ----------------------------------------------------------------------

    /// Fetches words ahead into an entry of the read buffer. An address that the MMU refuses, or
    /// where no memory is, leaves the entry as it was: a guess.
    pub fn read_ahead(&mut self, bus: &mut Bus<C>, entry: usize, count: u32, address: u32) {
        let address = self.relocated(address);
        let Ok((physical, _)) = self.translate_data(bus, address, false) else { return };
        if bus.region(physical) != Region::Ram {
            return;
        }
        let timing = &self.timing;
        let cycles =
            u64::from(if count == 1 { timing.word_read_cycles } else { timing.line_fill_cycles });
        // What was stored to the line goes first; then the core continues while memory reads.
        let stored_at = self.write_buffer.line_ready_at(self.now(), physical);
        self.clock.charge_until(Cause::WriteBuffer, stored_at);
        let now = self.now();
        self.write_buffer.retire(now, &mut bus.ram);
        let free_at = self.read_buffer.memory_free_at.max(self.write_buffer.transfer_ends_at(now));
        self.write_buffer.delay(cycles);
        let words = bus.ram.line(physical);
        let ready_at = free_at.max(now) + cycles;
        self.read_buffer.fill(entry, &Fetched { address, count, words, ready_at });
    }
}
