//! One core's view of memory: translation, the data caches with their data, the buffers, and time.
//!
//! The caches are indexed and tagged with the modified virtual address, and hold their own copies of
//! the words: nothing but the core's own maintenance operations keeps them right. Which line is
//! where, which one leaves and which is dirty is decided by [`mmulab_hardware::Cache`]; the arrays
//! here mirror its tags so that a hit costs two comparisons.
//!
//! A load or store that hits takes the fast path: the page's entry in `pages` (a direct-mapped copy
//! of what TLB, domains and permissions say for the present mode; dropped with the TLB entry) and
//! the line's place in `line_hints`. Everything else, and every access while the checker or a
//! watchpoint looks, takes the slow path.

use mmulab_hardware::{Access, Cache, CacheGeometry, GeometryError, Ledger, Random};
use mmulab_machine::{
    ArmArchitecture, ArmCoprocessor, Cache as CacheShape, SystemMachine, WritePolicy,
};

use crate::board::{Board, Region};
use crate::buffer::WriteBuffer;
use crate::checker::Source;
use crate::coprocessor::{Ignored, cache_debug};
use crate::cpu::{Exception, mode};
use crate::fetch::InstructionSide;
use crate::isa::Decoder;
use crate::mmu::{
    BUFFERABLE, CACHEABLE, EXTENDED, Translation, TranslationBuffer, Walk, replacement, status,
    walk,
};
use crate::read_buffer::{Fetched, ReadBuffer};
use crate::timing::Cause;

/// Why the MMU refused an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Modified virtual address.
    pub address: u32,
    /// Fault status, [`crate::mmu::status`].
    pub status: u8,
    /// Domain, where the status has one.
    pub domain: u8,
}

/// Control register bits (c1).
pub mod control {
    /// MMU on.
    pub const MMU: u32 = 1;
    /// Alignment checking.
    pub const ALIGNMENT: u32 = 1 << 1;
    /// Data cache on.
    pub const DATA_CACHE: u32 = 1 << 2;
    /// System protection.
    pub const SYSTEM: u32 = 1 << 8;
    /// ROM protection.
    pub const ROM: u32 = 1 << 9;
    /// Instruction cache on.
    pub const INSTRUCTION_CACHE: u32 = 1 << 12;
    /// Exception vectors at 0xffff0000.
    pub const HIGH_VECTORS: u32 = 1 << 13;
    /// Round-robin cache replacement, where the core offers the choice.
    pub const ROUND_ROBIN: u32 = 1 << 14;
}

/// Which side an access is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instruction fetch.
    Instruction,
    /// Load or store.
    Data,
}

/// An instruction of so many issue cycles, as `pending` counts it.
pub(crate) const fn issue_cost(cycles: u8) -> u64 {
    cycles as u64 | 1 << 44
}

/// So many stall cycles.
pub(crate) const fn stall_cost(cycles: u8) -> u64 {
    (cycles as u64) << 24
}

/// Two line operations that are further apart belong to different loops.
const LOOP_STEP_CYCLES: u64 = 200;
/// Fault status of a fetch that the XScale's MMU refused: the extension bit, and status 0.
const XSCALE_FETCH_FAULT: u32 = 1 << 10;
/// Entries of the page table copy of the fast path.
const PAGES: usize = 256;
/// Entries of the line hints.
const LINE_HINTS: usize = 2048;
/// Contexts that tags can tell apart: bits 11 to 2 of a tag.
const CONTEXTS: u32 = 1024;
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
    /// Attributes as the enabled caches leave them.
    attributes: u8,
}

const EMPTY_PAGE: Page = Page {
    load_tag: NO_PAGE,
    store_tag: NO_PAGE,
    read_tag: NO_PAGE,
    write_tag: NO_PAGE,
    physical: 0,
    attributes: 0,
};

/// Event counts beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Walks for instruction fetches.
    pub itlb_misses: u64,
    /// Walks for data.
    pub dtlb_misses: u64,
    /// Fills of the instruction cache.
    pub icache_misses: u64,
    /// Fills of the data caches.
    pub dcache_misses: u64,
    /// Half lines written back.
    pub write_backs: u64,
    /// Writes of another value to the TTB or the PID register, or of a DACR by a machine that never
    /// changes the others.
    pub space_switches: u64,
    /// Invalidations of a whole TLB.
    pub tlb_flushes: u64,
    /// Invalidations of single TLB entries.
    pub tlb_entry_flushes: u64,
    /// Invalidations of a whole instruction cache.
    pub icache_flushes: u64,
    /// Invalidations, or completed cleanings, of the whole data cache.
    pub dcache_flushes: u64,
    /// Clean or invalidate operations on single lines.
    pub line_operations: u64,
    /// Exceptions, by [`Exception`].
    pub exceptions: [u64; 6],
}

/// An address space, as far as the hardware can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space {
    /// Translation table base.
    pub table: u32,
    /// Process ID.
    pub process: u32,
    /// Domain access control.
    pub domains: u32,
}

/// Something for the timeline, with its time in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The address space is another one from here on.
    Space(Space),
    /// An exception is taken.
    Exception(Exception),
    /// A maintenance operation on a whole cache or TLB.
    Flush(&'static str, u64),
    /// The processor mode.
    Mode(u32),
}

/// System control coprocessor registers that are just held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// c1.
    pub control: u32,
    /// c2.
    pub table: u32,
    /// c3.
    pub domains: u32,
    /// c5, data.
    pub data_fault_status: u32,
    /// c5, instructions.
    pub fetch_fault_status: u32,
    /// c6.
    pub fault_address: u32,
    /// c13, process ID, in place.
    pub process: u32,
    /// c13, context.
    pub context: u32,
    /// c1 opcode 1, auxiliary control (XScale).
    pub auxiliary: u32,
    /// c15, coprocessor access (XScale).
    pub coprocessor_access: u32,
    /// c9, cache lockdown, data and instructions.
    pub cache_lockdown: [u32; 2],
    /// c15 opcode 7, cache debug control (ARM926EJ-S).
    pub cache_debug: u32,
}

/// One core's memory side.
pub struct Memory {
    /// Which core.
    pub number: usize,
    /// Whose coprocessor.
    pub kind: ArmCoprocessor,
    pub(crate) machine: SystemMachine,
    /// Cycles by cause and phase.
    pub ledger: Ledger<Cause>,
    /// Issue cycles (bits 0 to 23), stalls (24 to 43) and instructions (44 to 63) that are not in the
    /// ledger yet.
    pub(crate) pending: u64,
    /// The run loop looks up when the time has come here.
    pub(crate) attention_at: u64,
    /// Set where the run loop must look up before the next instruction.
    pub(crate) registers: Registers,
    pub(crate) process_mask: u32,
    mode: u32,
    mode_since: u64,
    mode_cycles: [u64; 32],
    pub(crate) space_since: u64,
    spaces: Vec<(Space, u64)>,
    current_space: usize,
    /// Event counts.
    pub counters: Counters,
    /// Kept only while a timeline is recorded.
    pub events: Option<Vec<(u64, Event)>>,
    /// The loop over lines that is being watched for the timeline: its start and end so far.
    line_loop: Option<(u64, u64)>,

    context: u32,
    user_context: u32,
    privileged_context: u32,
    /// Contexts in use: what they stand for and the tag bits of user and privileged mode.
    contexts: Vec<((u32, u32), u32)>,
    next_context: u32,
    pages: Box<[Page; PAGES]>,
    pub(crate) itlb: TranslationBuffer,
    pub(crate) dtlb: Option<TranslationBuffer>,

    pub(crate) fetch: InstructionSide,

    pub(crate) dcache: Cache,
    pub(crate) mini_dcache: Option<Cache>,
    /// Slots of the main data cache; those of the mini cache follow.
    pub(crate) main_slots: u32,
    /// Address of the line in each slot, with bit 0 set; 0 is empty.
    pub(crate) line_tags: Box<[u32]>,
    /// Physical address of the line in each slot.
    pub(crate) line_physical: Box<[u32]>,
    /// The words of each slot.
    pub(crate) lines: Box<[[u32; 8]]>,
    line_hints: Box<[u16; LINE_HINTS]>,
    pub(crate) test_pointer: u32,
    pub(crate) buffer: WriteBuffer,
    pub(crate) read_buffer: ReadBuffer,

    /// Set while the checker or a watchpoint wants to see every access.
    pub(crate) watched: bool,
    /// Address of the instruction that executes: it is here because everything that happens in
    /// memory is reported with it.
    pub(crate) pc: u32,
    /// Watchpoints of the debugger: address, length, on load, on store.
    pub watchpoints: Vec<crate::gdb::Watchpoint>,
    /// The watchpoint that was hit.
    pub watch_hit: Option<(u32, bool)>,
    /// Where instructions were fetched from although nothing is there: virtual and physical address.
    pub lost_fetch: Option<(u32, u32)>,
    /// Coprocessor operations that did nothing.
    pub ignored: Ignored,
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

impl Memory {
    /// The memory side of core `number` of `machine`, as out of reset.
    ///
    /// # Errors
    /// The shape of a cache or TLB is impossible.
    pub fn new(machine: &SystemMachine, number: usize) -> Result<Memory, GeometryError> {
        let random = |stream: u64| Random::stream(1, number as u64 * 8 + stream);
        let dcache = cache_model(&machine.dcache, random(0))?;
        let mini_dcache =
            machine.mini_dcache.as_ref().map(|shape| cache_model(shape, random(1))).transpose()?;
        let icache = cache_model(&machine.icache, random(2))?;
        let main_slots = dcache.slots();
        let slots = (main_slots + mini_dcache.as_ref().map_or(0, Cache::slots)) as usize;
        let architecture = match machine.core.architecture {
            ArmArchitecture::Armv4 => crate::cpu::Architecture::V4,
            ArmArchitecture::Armv4t => crate::cpu::Architecture::V4T,
            ArmArchitecture::Armv5te => crate::cpu::Architecture::V5TE,
        };
        let xscale = machine.core.coprocessor == ArmCoprocessor::Xscale;
        let decoder = Decoder::new(architecture, machine.timing.clone(), xscale);
        let mut memory = Memory {
            number,
            kind: machine.core.coprocessor,
            machine: machine.clone(),
            ledger: Ledger::new(),
            pending: 0,
            attention_at: 0,
            registers: Registers {
                control: crate::coprocessor::reset_control(machine.core.coprocessor),
                ..Registers::default()
            },
            process_mask: if machine.core.pid_bits == 6 { 0x7e00_0000 } else { 0xfe00_0000 },
            mode: mode::SUPERVISOR,
            mode_since: 0,
            mode_cycles: [0; 32],
            space_since: 0,
            spaces: vec![(Space::default(), 0)],
            current_space: 0,
            counters: Counters::default(),
            events: None,
            line_loop: None,
            context: 0,
            user_context: 0,
            privileged_context: 0,
            contexts: Vec::with_capacity(16),
            next_context: 1,
            pages: vec![EMPTY_PAGE; PAGES].try_into().unwrap_or_else(|_| unreachable!()),
            itlb: TranslationBuffer::new(&machine.itlb, random(3))?,
            dtlb: machine
                .dtlb
                .as_ref()
                .map(|shape| TranslationBuffer::new(shape, random(4)))
                .transpose()?,
            fetch: InstructionSide::new(icache, decoder),
            dcache,
            mini_dcache,
            main_slots,
            line_tags: vec![0; slots].into(),
            line_physical: vec![0; slots].into(),
            lines: vec![[0; 8]; slots].into(),
            line_hints: vec![0; LINE_HINTS].try_into().unwrap_or_else(|_| unreachable!()),
            test_pointer: 0,
            buffer: WriteBuffer::new(&machine.buffers, &machine.memory),
            read_buffer: ReadBuffer::new(machine.buffers.read_entries),
            watched: false,
            pc: 0,
            watchpoints: Vec::new(),
            watch_hit: None,
            lost_fetch: None,
            ignored: Ignored::default(),
        };
        memory.update_contexts();
        Ok(memory)
    }

    // ---- Time ------------------------------------------------------------------------------

    /// Cycles since reset.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.ledger.cycles() + (self.pending & 0xff_ffff) + (self.pending >> 24 & 0xf_ffff)
    }

    /// Instructions that are not in the ledger yet.
    #[inline(always)]
    pub(crate) fn pending_instructions(&self) -> u64 {
        self.pending >> 44
    }

    /// Spends cycles on `cause`.
    #[inline(always)]
    pub fn spend(&mut self, cause: Cause, cycles: impl Into<u64>) {
        self.ledger.charge(cause, cycles.into());
    }

    fn spend_until(&mut self, cause: Cause, time: u64) {
        let now = self.now();
        if time > now {
            self.ledger.charge(cause, time - now);
        }
    }

    /// Moves what the loop has gathered into the ledger.
    pub fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let (issue, stall, count) = (pending & 0xff_ffff, pending >> 24 & 0xf_ffff, pending >> 44);
        if count > 0 {
            self.ledger.charge_many(Cause::Issue, count, issue);
        }
        if stall > 0 {
            // Each stalled cycle counts: the stalls are gathered, not the instructions that had them.
            self.ledger.charge_many(Cause::Interlock, stall, stall);
        }
    }

    /// Makes the run loop look for interrupts and stops before the next instruction.
    pub fn request_attention(&mut self) {
        self.attention_at = 0;
    }

    /// Instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.ledger.account(Cause::Issue).count + self.pending_instructions()
    }

    /// Time from here on belongs to another mode.
    pub fn set_mode(&mut self, new: u32) {
        let now = self.now();
        self.mode_cycles[(self.mode & 31) as usize] += now - self.mode_since;
        self.mode_since = now;
        self.mode = new;
        self.context = if new == mode::USER { self.user_context } else { self.privileged_context };
        self.fetch.forget_page();
        if let Some(events) = &mut self.events {
            events.push((now, Event::Mode(new)));
        }
    }

    /// Cycles by mode bits.
    pub fn cycles_by_mode(&self) -> Vec<(u32, u64)> {
        let mut cycles = self.mode_cycles;
        cycles[(self.mode & 31) as usize] += self.now() - self.mode_since;
        (16..32)
            .filter(|&mode| cycles[mode as usize] > 0)
            .map(|m| (m, cycles[m as usize]))
            .collect()
    }

    /// Cycles by address space, in order of first use.
    pub fn cycles_by_space(&self) -> Vec<(Space, u64)> {
        let mut spaces = self.spaces.clone();
        spaces[self.current_space].1 += self.now() - self.space_since;
        spaces
    }

    /// The space registers changed: time from here on belongs to another space.
    pub(crate) fn change_space(&mut self) {
        let space = Space {
            table: self.registers.table,
            process: self.registers.process >> 25,
            domains: self.registers.domains,
        };
        let now = self.now();
        self.spaces[self.current_space].1 += now - self.space_since;
        self.space_since = now;
        // Recent spaces are near the end, and a switch goes mostly back to one of them.
        let found = self.spaces.iter().rposition(|(known, _)| *known == space);
        self.current_space = found.unwrap_or_else(|| {
            self.spaces.push((space, 0));
            self.spaces.len() - 1
        });
        if let Some(events) = &mut self.events {
            events.push((now, Event::Space(space)));
        }
    }

    pub(crate) fn note_exception(&mut self, exception: Exception) {
        self.counters.exceptions[exception as usize] += 1;
        let now = self.now();
        if let Some(events) = &mut self.events {
            events.push((now, Event::Exception(exception)));
        }
    }

    pub(crate) fn note_flush(&mut self, what: &'static str, since: u64) {
        let now = self.now();
        if let Some(events) = &mut self.events {
            events.push((since, Event::Flush(what, now - since)));
        }
    }

    /// An operation on a line began at `since` and has ended: one more step of the loop over lines by
    /// which most cores clean their data cache, or the first one of the next loop.
    pub(crate) fn note_line_operation(&mut self, since: u64) {
        if self.events.is_none() {
            return;
        }
        let now = self.now();
        match &mut self.line_loop {
            Some((_, end)) if since <= *end + LOOP_STEP_CYCLES => *end = now,
            _ => {
                self.end_line_loop();
                self.line_loop = Some((since, now));
            }
        }
    }

    /// Hands the last loop over lines to the timeline.
    pub(crate) fn end_line_loop(&mut self) {
        if let (Some((start, end)), Some(events)) = (self.line_loop.take(), &mut self.events) {
            events.push((start, Event::Flush("line operations", end - start)));
        }
    }

    // ---- Contexts and pages ---------------------------------------------------------------

    /// Whether exceptions go to the high vectors.
    pub fn high_vectors(&self) -> bool {
        self.registers.control & control::HIGH_VECTORS != 0
    }

    /// Fast-path tags carry a context: the mode's privilege with the domain and system bits under
    /// which the permission was found. A kernel that rewrites DACR on each entry goes to and fro
    /// between few of them.
    pub(crate) fn update_contexts(&mut self) {
        let key = (
            self.registers.domains,
            self.registers.control
                & (control::MMU | control::DATA_CACHE | control::SYSTEM | control::ROM),
        );
        let tag = match self.contexts.iter().find(|(known, _)| *known == key) {
            Some(&(_, tag)) => tag,
            None => {
                if self.next_context + 2 > CONTEXTS || self.contexts.len() == 16 {
                    self.forget_pages();
                }
                let tag = self.next_context << 2;
                self.next_context += 2;
                self.contexts.push((key, tag));
                tag
            }
        };
        self.user_context = tag;
        self.privileged_context = tag + 4;
        self.context =
            if self.mode == mode::USER { self.user_context } else { self.privileged_context };
        self.fetch.forget_page();
    }

    /// The tag bits of the present mode and domains.
    #[inline(always)]
    pub(crate) fn context(&self) -> u32 {
        self.context
    }

    /// Drops everything the fast path knows of pages. New context numbers do it, until they run out.
    pub(crate) fn forget_pages(&mut self) {
        self.contexts.clear();
        if self.next_context + 34 > CONTEXTS {
            self.pages.fill(EMPTY_PAGE);
            self.fetch.forget_pages();
            self.next_context = 1;
        }
        self.fetch.forget_page();
    }

    /// As above, and goes on with a new context.
    pub(crate) fn renew_pages(&mut self) {
        self.forget_pages();
        self.update_contexts();
    }

    /// A TLB entry has left: the fast path must not use it any more.
    pub(crate) fn forget_page(&mut self, address: u32, page_shift: u32) {
        if page_shift > 12 {
            // A section covers as many pages as there are entries.
            let mask = !((1u32 << page_shift) - 1);
            for page in self.pages.iter_mut() {
                let tag = page.read_tag | page.write_tag;
                if (tag ^ address) & mask == 0 || page.write_tag & mask == address & mask {
                    *page = EMPTY_PAGE;
                }
            }
            self.fetch.forget_pages();
        } else {
            self.pages[(address >> 12) as usize % PAGES] = EMPTY_PAGE;
            self.fetch.forget_pages_of(address);
        }
    }

    /// The modified virtual address: the process ID relocates the lowest 32 MB.
    #[inline(always)]
    pub fn modified(&self, address: u32) -> u32 {
        if address >> 25 == 0 { address | self.registers.process } else { address }
    }

    /// Runs `access` with the rights of user mode (LDRT and its like).
    pub fn as_user<T>(&mut self, access: impl FnOnce(&mut Memory) -> T) -> T {
        let (context, saved_mode) = (self.context, self.mode);
        self.context = self.user_context;
        self.mode = mode::USER;
        let result = access(self);
        self.context = context;
        self.mode = saved_mode;
        result
    }

    fn system_rom(&self) -> u32 {
        self.registers.control >> 8 & 3
    }

    /// Reads the tables in memory as the walking hardware does: it sees neither the data cache nor
    /// the write buffer.
    fn walk_tables(&mut self, board: &mut Board, address: u32, side: Side) -> Walk {
        let now = self.now();
        self.buffer.retire(now, &mut board.ram);
        let wait = self.buffer.transfer_ends_at(now);
        self.spend_until(Cause::WriteBuffer, wait);
        self.buffer.retire(wait, &mut board.ram);
        let extended = self.kind == ArmCoprocessor::Xscale;
        let found = walk(self.registers.table, address, extended, |at| board.read_table_word(at));
        let cycles = u64::from(found.reads()) * u64::from(self.machine.memory.walk_read_cycles);
        self.buffer.delay(cycles);
        let cause = match side {
            Side::Instruction => {
                self.counters.itlb_misses += 1;
                Cause::InstructionWalk
            }
            Side::Data => {
                self.counters.dtlb_misses += 1;
                Cause::DataWalk
            }
        };
        self.spend(cause, cycles);
        found
    }

    /// The translation of a modified virtual address by the TLB of a side, walking if need be.
    pub(crate) fn translation(
        &mut self,
        board: &mut Board,
        address: u32,
        side: Side,
    ) -> Result<Translation, Fault> {
        let tlb = match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        };
        if let Some(entry) = tlb.lookup(address) {
            return Ok(entry.payload);
        }
        let found = self.walk_tables(board, address, side);
        if board.checker.is_some() {
            self.check_walk(board, &found, address);
        }
        let translation =
            found.result.map_err(|(status, domain)| Fault { address, status, domain })?;
        let tlb = match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        };
        if let Some(left) = tlb.insert(address, translation) {
            self.forget_page(left.virtual_address as u32, left.page_shift);
        }
        Ok(translation)
    }

    /// Attributes of a page as the control register leaves them for data.
    fn data_attributes(&self, attributes: u8) -> u8 {
        if self.registers.control & control::DATA_CACHE == 0 {
            attributes & !CACHEABLE
        } else {
            attributes
        }
    }

    /// Physical address and attributes for a data access, or why not.
    #[inline]
    fn translate_data(
        &mut self,
        board: &mut Board,
        address: u32,
        write: bool,
    ) -> Result<(u32, u8), Fault> {
        if self.registers.control & control::MMU == 0 {
            return Ok((address, 0));
        }
        let index = (address >> 12) as usize % PAGES;
        let page = &self.pages[index];
        let tag = address & !0xfff | self.context;
        if tag == if write { page.write_tag } else { page.read_tag } {
            return Ok((page.physical | address & 0xfff, page.attributes));
        }
        let translation = self.translation(board, address, Side::Data)?;
        let privileged = self.mode != mode::USER;
        let (domains, system_rom) = (self.registers.domains, self.system_rom());
        let refused = |write| translation.refuses(address, write, privileged, domains, system_rom);
        let attributes = self.data_attributes(translation.attributes);
        let offset_mask = (1u32 << translation.page_shift) - 1;
        let physical = translation.physical & !offset_mask | address & offset_mask;
        if let Some(status) = refused(write) {
            return Err(Fault { address, status, domain: translation.domain });
        }
        if translation.uniform() {
            let read_tag = if refused(false).is_none() { tag } else { NO_PAGE };
            let write_tag = if refused(true).is_none() { tag } else { NO_PAGE };
            // While somebody looks, the tags that skip the slow path stay empty.
            let cached = attributes & CACHEABLE != 0 && !self.watched;
            let written_back = cached && self.writes_back(attributes);
            self.pages[index] = Page {
                load_tag: if cached { read_tag } else { NO_PAGE },
                store_tag: if written_back { write_tag } else { NO_PAGE },
                read_tag,
                write_tag,
                physical: physical & !0xfff,
                attributes,
            };
        }
        Ok((physical, attributes))
    }

    /// Whether a store that hits stays in the cache.
    fn writes_back(&self, attributes: u8) -> bool {
        match self.kind {
            // The minicache too is a write-back cache (278088-004, 6.2).
            ArmCoprocessor::Sa1100 => true,
            // The mini data cache takes its policy from MD in the auxiliary control register: 2 writes
            // through (252480-006, 3.5.1.3). The main one writes through with B = 0.
            ArmCoprocessor::Xscale if self.goes_to_mini(attributes) => {
                self.registers.auxiliary >> 4 & 3 != 2
            }
            ArmCoprocessor::Xscale => attributes & (BUFFERABLE | EXTENDED) != 0,
            ArmCoprocessor::Arm920t | ArmCoprocessor::Arm926ejs => {
                attributes & BUFFERABLE != 0
                    && self.machine.dcache.write_policy == WritePolicy::WriteBack
                    && self.registers.cache_debug & cache_debug::NO_WRITE_BACK == 0
            }
        }
    }

    /// Whether a line of a page with these attributes goes into the mini cache.
    fn goes_to_mini(&self, attributes: u8) -> bool {
        self.mini_dcache.is_some()
            && match self.kind {
                ArmCoprocessor::Sa1100 => attributes & BUFFERABLE == 0,
                _ => attributes & EXTENDED != 0 && attributes & BUFFERABLE == 0,
            }
    }

    /// Whether a store that misses fetches its line: XScale with X, C and B set, and its mini data cache
    /// where MD is 1 (252480-006, 3.5.1.3).
    fn allocates_on_write(&self, attributes: u8) -> bool {
        let all = CACHEABLE | BUFFERABLE | EXTENDED;
        self.machine.dcache.write_allocate && attributes & all == all
            || self.kind == ArmCoprocessor::Xscale
                && self.registers.auxiliary >> 4 & 3 == 1
                && self.goes_to_mini(attributes)
    }

    /// Whether a load that misses brings its line in.
    fn data_fills(&self) -> bool {
        self.registers.cache_debug & cache_debug::NO_DATA_FILLS == 0
    }

    // ---- The data caches -------------------------------------------------------------------

    /// The slot that holds the line of a modified virtual address.
    #[inline(always)]
    pub(crate) fn line_of(&mut self, address: u32) -> Option<usize> {
        let hint = &mut self.line_hints[(address >> 5) as usize % LINE_HINTS];
        let slot = usize::from(*hint);
        if self.line_tags.get(slot) == Some(&(address & !31 | 1)) {
            return Some(slot);
        }
        let line = u64::from(address & !31);
        let found = match self.dcache.find(line) {
            Some(slot) => slot,
            None => self.main_slots + self.mini_dcache.as_mut()?.find(line)?,
        };
        *hint = found as u16;
        Some(found as usize)
    }

    #[inline(always)]
    pub(crate) fn mark_dirty(&mut self, slot: usize, address: u32) {
        let half = 1 << (address >> 4 & 1);
        match slot.checked_sub(self.main_slots as usize) {
            None => self.dcache.mark_dirty(slot as u32, half),
            Some(slot) => {
                if let Some(mini) = &mut self.mini_dcache {
                    mini.mark_dirty(slot as u32, half);
                }
            }
        }
    }

    /// The dirty halves of a slot.
    pub(crate) fn dirty(&self, slot: usize) -> u8 {
        match (slot.checked_sub(self.main_slots as usize), &self.mini_dcache) {
            (Some(slot), Some(mini)) => mini.dirty(slot as u32),
            _ => self.dcache.dirty(slot as u32),
        }
    }

    /// Marks a slot clean and returns its dirty halves.
    pub(crate) fn take_dirty(&mut self, slot: usize) -> u8 {
        match (slot.checked_sub(self.main_slots as usize), &mut self.mini_dcache) {
            (Some(slot), Some(mini)) => mini.clean(slot as u32),
            _ => self.dcache.clean(slot as u32),
        }
    }

    /// Empties a slot without writing it back.
    pub(crate) fn drop_line(&mut self, board: &mut Board, slot: usize) {
        if board.checker.is_some() {
            self.check_drop(board, slot);
        }
        self.line_tags[slot] = 0;
        match (slot.checked_sub(self.main_slots as usize), &mut self.mini_dcache) {
            (Some(slot), Some(mini)) => mini.invalidate_slot(slot as u32),
            _ => self.dcache.invalidate_slot(slot as u32),
        };
    }

    /// Empties the data caches without writing anything back.
    pub(crate) fn drop_all_lines(&mut self, board: &mut Board) {
        if board.checker.is_some() {
            for slot in 0..self.line_tags.len() {
                self.check_drop(board, slot);
            }
        }
        self.line_tags.fill(0);
        self.dcache.invalidate_all();
        if let Some(mini) = &mut self.mini_dcache {
            mini.invalidate_all();
        }
    }

    /// Sends dirty halves of a line towards memory; waits for room.
    pub(crate) fn write_back(
        &mut self,
        board: &mut Board,
        (tag, physical): (u32, u32),
        data: &[u32; 8],
        halves: u8,
        cause: Cause,
    ) {
        if board.checker.is_some() {
            self.check_write_back(board, physical, data, halves, tag);
        }
        self.counters.write_backs += u64::from(halves.count_ones());
        if board.region(physical) != Region::Ram {
            return;
        }
        let words = halves.count_ones() * 4;
        let mut now = self.now();
        self.buffer.retire(now, &mut board.ram);
        loop {
            let room_at = self.buffer.room_for_line(now, words);
            if room_at <= now {
                break;
            }
            self.spend_until(cause, room_at);
            now = self.now();
            self.buffer.retire(now, &mut board.ram);
        }
        self.buffer.push_line(now, physical, data, halves);
    }

    /// Cleans a slot; what it held stays.
    pub(crate) fn clean_slot(&mut self, board: &mut Board, slot: usize, cause: Cause) {
        let halves = self.take_dirty(slot);
        if halves != 0 && self.line_tags[slot] != 0 {
            let (names, data) =
                ((self.line_tags[slot], self.line_physical[slot]), self.lines[slot]);
            self.write_back(board, names, &data, halves, cause);
        }
    }

    /// Waits until memory is free for a read of the line at `physical`, then spends the read's time.
    fn occupy_memory(&mut self, board: &mut Board, physical: u32, cycles: u32, cause: Cause) {
        if !self.buffer.is_empty() {
            let now = self.now();
            self.buffer.retire(now, &mut board.ram);
            // A read of what is still in the buffer waits for it: the buffers are coherent with the
            // core's own reads.
            let conflict = self.buffer.line_ready_at(now, physical);
            let wait = conflict.max(self.buffer.transfer_ends_at(now));
            self.spend_until(Cause::WriteBuffer, wait);
            self.buffer.retire(wait, &mut board.ram);
            self.buffer.delay(u64::from(cycles));
        }
        self.spend_until(cause, self.read_buffer.memory_free_at);
        self.spend(cause, cycles);
    }

    /// Reads the line at `physical` from memory.
    pub(crate) fn read_line(&mut self, board: &mut Board, physical: u32, cause: Cause) -> [u32; 8] {
        match board.region(physical) {
            Region::Zero => {
                // Reading it is how the SA-1100 cleans its data cache.
                let since = self.now();
                self.spend(cause, self.machine.memory.zero_bank_fill_cycles);
                self.note_line_operation(since);
                return [0; 8];
            }
            Region::Ram => {}
            _ => {
                self.spend(cause, self.machine.memory.line_fill_cycles);
                let pc = self.pc;
                return std::array::from_fn(|word| {
                    board.device_read((physical & !31) + word as u32 * 4, self.number, pc)
                });
            }
        }
        let line = physical & !31;
        self.occupy_memory(board, line, self.machine.memory.line_fill_cycles, cause);
        let first = (line >> 2) as usize;
        let mut words = [0; 8];
        words.copy_from_slice(&board.ram[first..first + 8]);
        words
    }

    /// Brings the line of `address` into the data cache; returns its slot.
    pub(crate) fn fill(
        &mut self,
        board: &mut Board,
        address: u32,
        physical: u32,
        attributes: u8,
        cause: Cause,
    ) -> usize {
        self.counters.dcache_misses += 1;
        let line = u64::from(address & !31);
        let to_mini = self.goes_to_mini(attributes);
        let access = match (to_mini, &mut self.mini_dcache) {
            (true, Some(mini)) => mini.access(line),
            _ => self.dcache.access(line),
        };
        let (slot, evicted) = match access {
            Access::Hit(slot) => (slot, None),
            Access::Miss { slot, evicted } => (slot, evicted),
        };
        let slot = (slot + if to_mini { self.main_slots } else { 0 }) as usize;
        let leaving = ((self.line_tags[slot], self.line_physical[slot]), self.lines[slot]);
        // The new line is wanted first; the dirty one that leaves waits in a buffer.
        let words = self.read_line(board, physical, cause);
        if let Some(evicted) = evicted
            && evicted.dirty != 0
        {
            self.write_back(board, leaving.0, &leaving.1, evicted.dirty, Cause::WriteBuffer);
        }
        // A line that comes in while its own older self leaves (another alias) reads memory, which is
        // what the hardware does too.
        self.line_tags[slot] = address & !31 | 1;
        self.line_physical[slot] = physical & !31;
        self.lines[slot] = words;
        self.line_hints[(address >> 5) as usize % LINE_HINTS] = slot as u16;
        slot
    }

    // ---- Loads -----------------------------------------------------------------------------

    #[inline(always)]
    fn fast_load(&self, address: u32, alignment: u32) -> Option<u32> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        // The low two bits of a tag are zero, so an unaligned address does not match.
        if page.load_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        let slot = usize::from(self.line_hints[(address >> 5) as usize % LINE_HINTS]);
        if *self.line_tags.get(slot)? != address & !31 | 1 {
            return None;
        }
        Some(self.lines[slot][(address >> 2 & 7) as usize])
    }

    /// LDR: an unaligned address gives the aligned word, rotated (ARM DDI 0100, A4.1.23).
    #[inline(always)]
    pub fn load_word(&mut self, board: &mut Board, address: u32) -> Result<u32, Fault> {
        match self.fast_load(self.modified(address), 3) {
            Some(word) => Ok(word),
            None => {
                let word = self.load_slow(board, address, 4)?;
                Ok(word.rotate_right(8 * (address & 3)))
            }
        }
    }

    /// LDRH. An odd address is unpredictable; bit 0 is ignored.
    #[inline(always)]
    pub fn load_half(&mut self, board: &mut Board, address: u32) -> Result<u32, Fault> {
        let word = match self.fast_load(self.modified(address), 1) {
            Some(word) => word,
            None => self.load_slow(board, address, 2)?,
        };
        Ok(word >> (8 * (address & 2)) & 0xffff)
    }

    /// LDRB.
    #[inline(always)]
    pub fn load_byte(&mut self, board: &mut Board, address: u32) -> Result<u32, Fault> {
        let word = match self.fast_load(self.modified(address), 0) {
            Some(word) => word,
            None => self.load_slow(board, address, 1)?,
        };
        Ok(word >> (8 * (address & 3)) & 0xff)
    }

    fn check_alignment(&self, address: u32, size: u32) -> Result<(), Fault> {
        if address & (size - 1) != 0 && self.registers.control & control::ALIGNMENT != 0 {
            let address = self.modified(address);
            return Err(Fault { address, status: status::ALIGNMENT, domain: 0 });
        }
        Ok(())
    }

    /// LDRD and STRD want eight-byte alignment when checking is on (A4.1.26).
    pub fn check_double_alignment(&self, address: u32) -> Result<(), Fault> {
        self.check_alignment(address, 8)
    }

    /// The aligned word around an address.
    #[inline(never)]
    fn load_slow(&mut self, board: &mut Board, address: u32, size: u32) -> Result<u32, Fault> {
        self.check_alignment(address, size)?;
        let address = self.modified(address);
        if self.watched {
            self.watch(address, size, false);
        }
        let (physical, attributes) = match self.translate_data(board, address, false) {
            Ok(found) => found,
            Err(fault) => {
                self.check_refusal(board, fault, false);
                return Err(fault);
            }
        };
        let cached = attributes & CACHEABLE != 0;
        let slot = if cached { self.line_of(address) } else { None };
        let ahead = if slot.is_none() { self.read_buffer.find(address) } else { None };
        let (word, source) = match (slot, ahead) {
            (Some(slot), _) => (self.lines[slot][(address >> 2 & 7) as usize], Source::DataCache),
            (None, Some((word, ready_at))) => {
                self.spend_until(Cause::DataMiss, ready_at);
                (word, Source::ReadBuffer)
            }
            (None, None) if cached && self.data_fills() => {
                let slot = self.fill(board, address, physical, attributes, Cause::DataMiss);
                (self.lines[slot][(address >> 2 & 7) as usize], Source::DataCache)
            }
            (None, None) => (self.read_uncached(board, physical), Source::Memory),
        };
        if board.checker.is_some() {
            self.check_load(board, address, physical, source, size, word);
        }
        Ok(word)
    }

    pub(crate) fn read_uncached(&mut self, board: &mut Board, physical: u32) -> u32 {
        match board.region(physical) {
            Region::Ram => {
                let cycles = self.machine.memory.word_read_cycles;
                self.occupy_memory(board, physical, cycles, Cause::Uncached);
                board.ram[(physical >> 2) as usize]
            }
            Region::Lab => self.lab_read(board, physical),
            Region::Zero => 0,
            _ => {
                self.drain(board, Cause::WriteBuffer);
                self.spend(Cause::Uncached, self.machine.memory.word_read_cycles);
                board.now = self.now();
                let word = board.device_read(physical & !3, self.number, self.pc);
                self.request_attention();
                word
            }
        }
    }

    /// Waits until everything that was stored is in memory.
    pub(crate) fn drain(&mut self, board: &mut Board, cause: Cause) {
        if !self.buffer.is_empty() {
            let done = self.buffer.empty_at(self.now());
            self.spend_until(cause, done);
            self.buffer.retire(done, &mut board.ram);
        }
    }

    /// LDM: fills `loaded` for the registers in `list` from ascending addresses.
    pub fn load_block(
        &mut self,
        board: &mut Board,
        start: u32,
        list: u32,
        loaded: &mut [u32; 16],
    ) -> Result<(), Fault> {
        self.check_alignment(start, 4)?;
        let mut address = start & !3;
        let mut rest = list;
        while rest != 0 {
            let number = rest.trailing_zeros() as usize & 15;
            rest &= rest - 1;
            loaded[number] = match self.fast_load(self.modified(address), 3) {
                Some(word) => word,
                None => self.load_slow(board, address, 4)?,
            };
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// PLD on a core where it fetches the line. A fault is ignored.
    pub fn preload(&mut self, board: &mut Board, address: u32) {
        let address = self.modified(address);
        let Ok((physical, attributes)) = self.translate_data(board, address, false) else { return };
        if attributes & CACHEABLE != 0 && self.line_of(address).is_none() {
            self.fill(board, address, physical, attributes, Cause::DataMiss);
        }
    }

    /// Whether coprocessor 0 may be used (c15, c1, bit 0 of the XScale).
    pub(crate) fn accumulator_enabled(&self) -> bool {
        self.registers.coprocessor_access & 1 != 0
    }

    /// Whether PLD fetches a line.
    pub fn preload_fills(&self) -> bool {
        self.kind == ArmCoprocessor::Xscale
    }

    // ---- Stores ----------------------------------------------------------------------------

    /// The slot that can take a store at once.
    #[inline(always)]
    fn fast_store(&self, address: u32, alignment: u32) -> Option<usize> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        if page.store_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        let slot = usize::from(self.line_hints[(address >> 5) as usize % LINE_HINTS]);
        (*self.line_tags.get(slot)? == address & !31 | 1).then_some(slot)
    }

    /// STR. The low two bits of the address are ignored (A4.1.99).
    #[inline(always)]
    pub fn store_word(&mut self, board: &mut Board, address: u32, value: u32) -> Result<(), Fault> {
        let modified = self.modified(address);
        match self.fast_store(modified, 3) {
            Some(slot) => {
                self.lines[slot][(modified >> 2 & 7) as usize] = value;
                self.mark_dirty(slot, modified);
                Ok(())
            }
            None => self.store_slow(board, address, 4, value, !0, false).map(drop),
        }
    }

    /// STRH.
    #[inline(always)]
    pub fn store_half(&mut self, board: &mut Board, address: u32, value: u32) -> Result<(), Fault> {
        let shift = 8 * (address & 2);
        self.store_part(board, address, 2, (value & 0xffff) << shift, 0xffff << shift)
    }

    /// STRB.
    #[inline(always)]
    pub fn store_byte(&mut self, board: &mut Board, address: u32, value: u32) -> Result<(), Fault> {
        let shift = 8 * (address & 3);
        self.store_part(board, address, 1, (value & 0xff) << shift, 0xff << shift)
    }

    #[inline(always)]
    fn store_part(
        &mut self,
        board: &mut Board,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
    ) -> Result<(), Fault> {
        let modified = self.modified(address);
        match self.fast_store(modified, size - 1) {
            Some(slot) => {
                let word = &mut self.lines[slot][(modified >> 2 & 7) as usize];
                *word = *word & !mask | value;
                self.mark_dirty(slot, modified);
                Ok(())
            }
            None => self.store_slow(board, address, size, value, mask, false).map(drop),
        }
    }

    /// STM: stores to ascending addresses; consecutive words share a buffer entry.
    pub fn store_block(
        &mut self,
        board: &mut Board,
        start: u32,
        values: &[u32],
    ) -> Result<(), Fault> {
        self.check_alignment(start, 4)?;
        let mut address = start & !3;
        let mut joins = false;
        for &value in values {
            let modified = self.modified(address);
            if let Some(slot) = self.fast_store(modified, 3) {
                self.lines[slot][(modified >> 2 & 7) as usize] = value;
                self.mark_dirty(slot, modified);
                joins = false;
            } else {
                joins = self.store_slow(board, address, 4, value, !0, joins)?;
            }
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// Whether a store would be permitted; SWP asks before it loads.
    pub fn check_store(&mut self, board: &mut Board, address: u32, size: u32) -> Result<(), Fault> {
        self.check_alignment(address, size)?;
        let address = self.modified(address);
        match self.translate_data(board, address, true) {
            Ok(_) => Ok(()),
            Err(fault) => {
                self.check_refusal(board, fault, true);
                Err(fault)
            }
        }
    }

    /// Returns whether the store went on to memory.
    #[inline(never)]
    fn store_slow(
        &mut self,
        board: &mut Board,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
        joins: bool,
    ) -> Result<bool, Fault> {
        self.check_alignment(address, size)?;
        let address = self.modified(address);
        if self.watched {
            self.watch(address, size, true);
        }
        let (physical, attributes) = match self.translate_data(board, address, true) {
            Ok(found) => found,
            Err(fault) => {
                self.check_refusal(board, fault, true);
                return Err(fault);
            }
        };
        if board.checker.is_some() {
            self.check_store_access(board, address, physical, attributes, value, mask);
        }
        if attributes & CACHEABLE != 0 {
            let mut slot = self.line_of(address);
            if slot.is_none() && self.allocates_on_write(attributes) {
                slot = Some(self.fill(board, address, physical, attributes, Cause::WriteAllocate));
            }
            if let Some(slot) = slot {
                let word = &mut self.lines[slot][(address >> 2 & 7) as usize];
                *word = *word & !mask | value & mask;
                if self.writes_back(attributes) {
                    self.mark_dirty(slot, address);
                    return Ok(false);
                }
            }
        }
        let buffered = match self.kind {
            // Misses of minicache pages and uncached pages alike stall (278088-004, 6.3).
            ArmCoprocessor::Sa1100 => attributes & BUFFERABLE != 0,
            _ => attributes & (BUFFERABLE | CACHEABLE) != 0,
        };
        self.write_memory(board, physical, value, mask, buffered, joins);
        Ok(true)
    }

    fn write_memory(
        &mut self,
        board: &mut Board,
        physical: u32,
        value: u32,
        mask: u32,
        buffered: bool,
        joins: bool,
    ) {
        match board.region(physical) {
            Region::Ram => {
                let mut now = self.now();
                self.buffer.retire(now, &mut board.ram);
                loop {
                    let room_at = self.buffer.room_for_store(now, physical, joins);
                    if room_at <= now {
                        break;
                    }
                    self.spend_until(Cause::WriteBuffer, room_at);
                    now = self.now();
                    self.buffer.retire(now, &mut board.ram);
                }
                self.buffer.push_store(now, physical, value, mask, joins);
                if !buffered {
                    self.drain(board, Cause::Uncached);
                }
            }
            Region::Lab => self.lab_write(board, physical, value),
            Region::Zero => {}
            _ => {
                self.drain(board, Cause::WriteBuffer);
                self.spend(Cause::Uncached, self.machine.memory.write_first_cycles);
                board.now = self.now();
                board.device_write(physical & !3, value, self.number, self.pc);
                self.request_attention();
            }
        }
    }

    // ---- The lab block ---------------------------------------------------------------------

    fn lab_read(&mut self, board: &mut Board, physical: u32) -> u32 {
        let counters = self.counters;
        match physical & 0xffc {
            0x08 => {
                let now = self.now();
                board.lab.latch = (now >> 32) as u32;
                now as u32
            }
            0x10 => {
                let count = self.instructions();
                board.lab.latch = (count >> 32) as u32;
                count as u32
            }
            0x38 => self.number as u32,
            0x44 => board.checker.as_ref().map_or(0, |checker| checker.reports.len() as u32),
            0x50 => counters.itlb_misses as u32,
            0x54 => counters.dtlb_misses as u32,
            0x58 => counters.icache_misses as u32,
            0x5c => counters.dcache_misses as u32,
            0x60 => counters.write_backs as u32,
            other => board.lab.read(other),
        }
    }

    fn lab_write(&mut self, board: &mut Board, physical: u32, value: u32) {
        let now = self.now();
        board.lab.write(physical & 0xffc, value, now, self.number);
        self.request_attention();
    }

    // ---- Faults ----------------------------------------------------------------------------

    /// Sets the fault registers for a data abort.
    pub fn record_data_fault(&mut self, fault: Fault) {
        self.registers.data_fault_status = u32::from(fault.status) | u32::from(fault.domain) << 4;
        self.registers.fault_address = fault.address;
    }

    /// Sets the instruction fault status, on the cores that have one. The XScale says in its one fault
    /// status register that it was a fetch, and neither why nor which domain (252480-006, 3.8.3.4.3).
    pub fn record_fetch_fault(&mut self, fault: Fault) {
        if self.kind == ArmCoprocessor::Xscale {
            self.registers.data_fault_status = XSCALE_FETCH_FAULT;
        }
        self.registers.fetch_fault_status = u32::from(fault.status) | u32::from(fault.domain) << 4;
    }

    /// BKPT: the instruction fault status says debug event (ARM DDI 0100, A2.6.5).
    pub fn record_breakpoint(&mut self) {
        self.registers.fetch_fault_status = 2;
    }

    /// Whether the present mode is privileged, as LDRT sees it.
    pub(crate) fn privileged(&self) -> bool {
        self.mode != mode::USER
    }

    pub(crate) fn refused(
        &self,
        translation: &Translation,
        address: u32,
        write: bool,
    ) -> Option<u8> {
        let privileged = self.privileged();
        let domains = self.registers.domains;
        translation.refuses(address, write, privileged, domains, self.system_rom())
    }

    // ---- Watching ----------------------------------------------------------------------------

    /// Sends every access through the slow path, or no longer.
    pub fn update_watching(&mut self, checking: bool) {
        let wanted = checking || !self.watchpoints.is_empty();
        if wanted != self.watched {
            self.watched = wanted;
            self.pages.fill(EMPTY_PAGE);
            self.fetch.forget_pages();
        }
    }

    fn watch(&mut self, address: u32, size: u32, store: bool) {
        for point in &self.watchpoints {
            let wanted = if store { point.on_store } else { point.on_load };
            let meets = address.wrapping_sub(point.address) < point.length
                || point.address.wrapping_sub(address) < size;
            if wanted && meets {
                self.watch_hit = Some((address, store));
                self.attention_at = 0;
            }
        }
    }

    // ---- The read buffer ----------------------------------------------------------------------

    /// Fetches words ahead into an entry of the SA-1100's read buffer. An address that the MMU refuses, or
    /// where no memory is, leaves the entry as it was: a guess.
    pub(crate) fn read_ahead(&mut self, board: &mut Board, entry: usize, count: u32, address: u32) {
        let address = self.modified(address);
        let Ok((physical, _)) = self.translate_data(board, address, false) else { return };
        if board.region(physical) != Region::Ram {
            return;
        }
        let memory = &self.machine.memory;
        let cycles =
            u64::from(if count == 1 { memory.word_read_cycles } else { memory.line_fill_cycles });
        // What was stored to the line goes first; then the core goes on while memory reads.
        let stored_at = self.buffer.line_ready_at(self.now(), physical);
        self.spend_until(Cause::WriteBuffer, stored_at);
        let now = self.now();
        self.buffer.retire(now, &mut board.ram);
        let free_at = self.read_buffer.memory_free_at.max(self.buffer.transfer_ends_at(now));
        self.buffer.delay(cycles);
        let first = (physical >> 2 & !7) as usize;
        let mut words = [0; 8];
        words.copy_from_slice(&board.ram[first..first + 8]);
        self.read_buffer
            .fill(entry, &Fetched { address, count, words, ready_at: free_at.max(now) + cycles });
    }
}
