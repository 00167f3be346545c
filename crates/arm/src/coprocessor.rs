//! The system control coprocessor, CP15: which registers and operations each core has, and what
//! they do.
//!
//! Sources: Intel SA-1100 Developer's Manual 278088-004, chapter 5; Intel IXP42X Developer's Manual
//! 252480-006, 3.5; ARM920T TRM, ARM DDI 0151C, 2.3; ARM926EJ-S TRM, ARM DDI 0198D, 2.3.
//! An operation that the core does not have, or that is not modelled, does nothing and is listed at the
//! end of the run: no write is swallowed without a note.

use mmulab_hardware::Replacement;
use mmulab_machine::ArmCoprocessor::{self, *};

use crate::board::Board;
use crate::isa::CoprocessorAccess;
use crate::memory::{Memory, Side, control};
use crate::mmu::replacement;
use crate::timing::Cause;

/// What a write asks of the core itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Wait for an interrupt.
    Wait,
    /// Forget the branch target buffer.
    BranchBuffer,
}

/// The control register after reset: the bits that read as one.
pub fn reset_control(kind: ArmCoprocessor) -> u32 {
    match kind {
        Sa1100 => 0x70,
        Xscale => 0x78,
        Arm920t => 0x78,
        Arm926ejs => 0x0005_0078,
    }
}

/// Bits of the control register that software can change.
fn writable_control(kind: ArmCoprocessor) -> u32 {
    let common = control::MMU
        | control::ALIGNMENT
        | control::DATA_CACHE
        | control::SYSTEM
        | control::ROM
        | control::INSTRUCTION_CACHE
        | control::HIGH_VECTORS;
    match kind {
        // W (bit 3) and B (bit 7).
        Sa1100 => common | 0x88,
        // B and Z (bit 11).
        Xscale => common | 0x880,
        // B, RR, nF and iA (bits 30, 31).
        Arm920t => common | 0xc000_4080,
        // B, RR and L4.
        Arm926ejs => common | 0xc080,
    }
}

/// Bits of the control register that are kept and change nothing here: B (big-endian data) and, of the
/// ARM926EJ-S, L4 (loads of the PC stay in ARM state).
fn control_not_modelled(kind: ArmCoprocessor) -> u32 {
    match kind {
        Arm926ejs => 0x8080,
        _ => 0x80,
    }
}

/// The cache debug control register of the ARM926EJ-S (ARM DDI 0198D, appendix B).
pub mod cache_debug {
    /// No fills of the data cache.
    pub const NO_DATA_FILLS: u32 = 1;
    /// No fills of the instruction cache.
    pub const NO_INSTRUCTION_FILLS: u32 = 2;
    /// Every store writes through.
    pub const NO_WRITE_BACK: u32 = 4;
}

/// Why a coprocessor operation did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The core does not have it.
    Core,
    /// The core has it, the model does not.
    Model,
}

/// Different operations that are listed at the end of the run; of the rest, the number.
const LISTED_OPERATIONS: usize = 32;

/// Operations that did nothing.
#[derive(Debug, Default)]
pub struct Ignored {
    /// The first of each kind: the access, its PC, and why.
    pub operations: Vec<(CoprocessorAccess, u32, Lack)>,
    /// How many uses of further kinds there were.
    pub further: u64,
}

impl Ignored {
    fn note(&mut self, access: CoprocessorAccess, pc: u32, lack: Lack) {
        // The register that is read or written (bits 15 to 12) and the condition make no difference.
        if self.operations.iter().any(|&(known, ..)| known == access) {
            return;
        }
        if self.operations.len() < LISTED_OPERATIONS {
            self.operations.push((access, pc, lack));
        } else {
            self.further += 1;
        }
    }
}

impl Memory {
    fn unknown(&mut self, access: CoprocessorAccess) {
        self.ignored.note(access, self.pc, Lack::Core);
    }

    fn not_modelled(&mut self, access: CoprocessorAccess) {
        self.ignored.note(access, self.pc, Lack::Model);
    }

    /// Whether user mode may execute a coprocessor instruction: only uses of the SA-1100's read buffer, while
    /// the system permits them.
    pub fn open_to_users(&self, access: CoprocessorAccess) -> bool {
        let (n, _, opcode_1, opcode_2) = access.fields();
        let store = !access.is_read() && access.coprocessor() == 15;
        self.read_buffer.open_to_users
            && store
            && (n, opcode_1) == (9, 0)
            && matches!(opcode_2, 0..=2)
    }

    /// MRC p15; `None` is undefined.
    pub fn coprocessor_read(
        &mut self,
        board: &mut Board,
        access: CoprocessorAccess,
    ) -> Option<u32> {
        if access.coprocessor() != 15 {
            return self.other_coprocessor_read(access);
        }
        let (n, m, opcode_1, opcode_2) = access.fields();
        let kind = self.kind;
        let registers = &self.registers;
        Some(match (n, m, opcode_1, opcode_2) {
            (0, 0, 0, 1) if kind != Sa1100 => self.cache_type(),
            (0, 0, 0, 2) if kind == Arm926ejs => 0,
            (0, _, 0, _) => self.machine.core.main_id,
            (1, 0, 0, 0) => registers.control,
            (1, 0, 0, 1) if kind == Xscale => registers.auxiliary,
            (2, ..) => registers.table,
            (3, ..) => registers.domains,
            (5, 0, 0, 1) if matches!(kind, Arm926ejs | Arm920t) => registers.fetch_fault_status,
            (5, ..) => registers.data_fault_status,
            (6, ..) => registers.fault_address,
            (7, 10, 0, 3) if kind == Arm926ejs => self.test_and_clean(board, false),
            (7, 14, 0, 3) if kind == Arm926ejs => self.test_and_clean(board, true),
            (9, 0, 0, 0) if matches!(kind, Arm926ejs | Arm920t) => registers.cache_lockdown[0],
            (9, 0, 0, 1) if matches!(kind, Arm926ejs | Arm920t) => registers.cache_lockdown[1],
            (9, 1, 0, 0 | 1) if kind == Arm926ejs => 0,
            (9, 2, 0, 0) if kind == Xscale => 0,
            (10, 0, 0, 0) if kind == Arm926ejs => self.itlb.lockdown_part().map_or(0, victim_and_p),
            (10, 0, 0, side @ (0 | 1)) if kind == Arm920t => {
                let tlb = match (side, &self.dtlb) {
                    (0, Some(dtlb)) => dtlb,
                    _ => &self.itlb,
                };
                let (base, victim, preserve) = tlb.lockdown();
                base << 26 | victim << 20 | u32::from(preserve)
            }
            (13, 0, 0, 0) => registers.process,
            (13, 0, 0, 1) if kind == Arm926ejs => registers.context,
            (15, 1, 0, 0) if kind == Xscale => registers.coprocessor_access,
            (15, 0, 7, 0) if kind == Arm926ejs => registers.cache_debug,
            _ => {
                self.note_ignored(access);
                0
            }
        })
    }

    /// MCR p15; `None` is undefined.
    pub fn coprocessor_write(
        &mut self,
        board: &mut Board,
        access: CoprocessorAccess,
        value: u32,
    ) -> Option<Effect> {
        if access.coprocessor() != 15 {
            return self.other_coprocessor_write(access, value);
        }
        let (n, m, opcode_1, opcode_2) = access.fields();
        let kind = self.kind;
        match (n, m, opcode_1, opcode_2) {
            (1, 0, 0, 0) => {
                if value & !self.registers.control & control_not_modelled(kind) != 0 {
                    self.not_modelled(access);
                }
                self.write_control(board, value);
            }
            (1, 0, 0, 1) if kind == Xscale => self.write_auxiliary(value),
            (2, ..) => self.write_table(board, value),
            (3, ..) => self.write_domains(value),
            (5, 0, 0, 1) if matches!(kind, Arm926ejs | Arm920t) => {
                self.registers.fetch_fault_status = value & 0xff;
            }
            // Of the XScale also the extension of the status and the debug event (252480-006, 3.5.1.6).
            (5, ..) if kind == Xscale => self.registers.data_fault_status = value & 0x6ff,
            (5, ..) => self.registers.data_fault_status = value & 0xff,
            (6, ..) => self.registers.fault_address = value,
            (7, ..) => return Some(self.cache_operation(board, access, value)),
            (8, ..) => {
                self.tlb_operation(access, value);
                self.forget_verified(board);
            }
            (9, ..) => self.lockdown_operation(board, access, value),
            (10, ..) => self.tlb_lockdown(board, access, value),
            (13, 0, 0, 0) => {
                self.write_process(value);
                if kind == Xscale {
                    return Some(Effect::BranchBuffer);
                }
            }
            (13, 0, 0, 1) if kind == Arm926ejs => self.registers.context = value,
            (15, 8, 0, 2) if kind == Sa1100 => return Some(Effect::Wait),
            (15, 1, 0, 0) if kind == Xscale => self.registers.coprocessor_access = value & 0x3fff,
            (15, 0, 7, 0) if kind == Arm926ejs => {
                self.registers.cache_debug = value & 7;
                self.renew_pages();
            }
            _ => self.note_ignored(access),
        }
        Some(Effect::None)
    }

    /// What no other rule knows: test, debug and clock registers are there and not modelled, the rest
    /// is not there.
    fn note_ignored(&mut self, access: CoprocessorAccess) {
        let (n, m, opcode_1, opcode_2) = access.fields();
        let exists = match self.kind {
            // Clock switching on and off; breakpoints.
            Sa1100 => n == 15 && matches!((m, opcode_1, opcode_2), (1 | 2, 0, 2)) || n == 14,
            // Breakpoints.
            Xscale => n == 14,
            // Test registers.
            Arm920t | Arm926ejs => n == 15,
        };
        if exists { self.not_modelled(access) } else { self.unknown(access) }
    }

    /// The auxiliary control register of the XScale: K keeps stores from joining in the write buffer,
    /// MD is the policy of the mini data cache (252480-006, 3.5.1.3). P says something to the bus.
    fn write_auxiliary(&mut self, value: u32) {
        self.registers.auxiliary = value & 0x33;
        self.buffer.set_coalescing(self.machine.buffers.write_coalesces && value & 1 == 0);
        self.renew_pages();
    }

    /// Coprocessor 14 of the XScale: clock and power; performance counters and debug registers are not
    /// modelled and read as zero.
    fn other_coprocessor_read(&mut self, access: CoprocessorAccess) -> Option<u32> {
        if self.kind != Xscale || access.coprocessor() != 14 {
            return None;
        }
        self.not_modelled(access);
        Some(0)
    }

    fn other_coprocessor_write(&mut self, access: CoprocessorAccess, value: u32) -> Option<Effect> {
        if self.kind != Xscale || access.coprocessor() != 14 {
            return None;
        }
        // c7: power mode; 1 is idle, until an interrupt (252480-006, 3.5.3).
        if access.fields().0 == 7 && value & 3 == 1 {
            return Some(Effect::Wait);
        }
        self.not_modelled(access);
        Some(Effect::None)
    }

    /// The cache type register: the class of the core, separate caches, and the shape of each.
    fn cache_type(&self) -> u32 {
        self.machine.core.cache_type_class << 25
            | 1 << 24
            | cache_shape(&self.dcache) << 12
            | cache_shape(&self.fetch.cache)
    }

    fn write_control(&mut self, board: &mut Board, value: u32) {
        let writable = writable_control(self.kind);
        let old = self.registers.control;
        let new = old & !writable | value & writable;
        // Linux writes the same value on every system call.
        if old == new {
            return;
        }
        self.registers.control = new;
        let translating = control::MMU
            | control::DATA_CACHE
            | control::INSTRUCTION_CACHE
            | control::SYSTEM
            | control::ROM;
        if (old ^ new) & control::ROUND_ROBIN != 0 {
            self.choose_replacement();
        }
        if (old ^ new) & translating != 0 {
            self.renew_pages();
            self.check_space_change(board);
        }
    }

    /// The RR bit: round robin in both caches, or what the core does at reset (ARM DDI 0151C, 4.2 and 4.3; ARM
    /// DDI 0198D, 2.3.3).
    fn choose_replacement(&mut self) {
        let round_robin = self.registers.control & control::ROUND_ROBIN != 0;
        for (cache, shape) in [
            (&mut self.dcache, &self.machine.dcache),
            (&mut self.fetch.cache, &self.machine.icache),
        ] {
            let chosen =
                if round_robin { Replacement::RoundRobin } else { replacement(shape.replacement) };
            // Round robin fits every cache, and the other is the one that it was made with.
            let fits = cache.set_replacement(chosen);
            debug_assert!(fits.is_ok());
        }
    }

    fn write_table(&mut self, board: &mut Board, value: u32) {
        let value = value & 0xffff_c000;
        if value != self.registers.table {
            self.counters.space_switches += 1;
            self.registers.table = value;
            self.change_space();
            self.check_space_change(board);
        }
    }

    fn write_domains(&mut self, value: u32) {
        if value != self.registers.domains {
            self.registers.domains = value;
            self.update_contexts();
            self.change_space();
        }
    }

    fn write_process(&mut self, value: u32) {
        let value = value & self.process_mask;
        if value != self.registers.process {
            self.counters.space_switches += 1;
            self.registers.process = value;
            self.fetch.forget_page();
            self.change_space();
        }
    }

    /// c8: which TLB entries go. A TLB of one side only is spared by operations on the other.
    fn tlb_operation(&mut self, access: CoprocessorAccess, value: u32) {
        let (_, m, _, opcode_2) = access.fields();
        let since = self.now();
        let (fetch_side, data_side) = (m & 1 != 0, m & 2 != 0);
        let known = match opcode_2 {
            0 => matches!(m, 5..=7),
            // The SA-1100 invalidates single entries of the data TLB only.
            1 => match self.kind {
                Sa1100 => m == 6,
                Arm920t | Xscale => matches!(m, 5 | 6),
                Arm926ejs => matches!(m, 5..=7),
            },
            _ => false,
        };
        if !known {
            return self.unknown(access);
        }
        if opcode_2 == 0 {
            // A unified TLB is emptied by each of the three (ARM DDI 0198D, 2.3.8).
            if fetch_side || self.dtlb.is_none() {
                self.itlb.invalidate_all();
            }
            if let (true, Some(dtlb)) = (data_side, &mut self.dtlb) {
                dtlb.invalidate_all();
            }
            self.renew_pages();
            self.counters.tlb_flushes += 1;
            self.spend(Cause::TlbOperation, self.machine.timing.whole_operation_cycles);
            self.note_flush("TLB flush", since);
        } else {
            // These operations take the modified virtual address: the process ID is not applied.
            let mut largest = 0;
            if fetch_side || self.dtlb.is_none() {
                largest = self.itlb.invalidate(value);
            }
            if let (true, Some(dtlb)) = (data_side, &mut self.dtlb) {
                largest = largest.max(dtlb.invalidate(value));
            }
            if largest > 0 {
                self.forget_page(value >> largest << largest, largest);
            }
            self.counters.tlb_entry_flushes += 1;
            self.spend(Cause::TlbOperation, self.machine.timing.line_operation_cycles);
        }
    }

    /// c7: caches and buffers.
    fn cache_operation(
        &mut self,
        board: &mut Board,
        access: CoprocessorAccess,
        value: u32,
    ) -> Effect {
        let (_, m, opcode_1, opcode_2) = access.fields();
        let kind = self.kind;
        let timing = &self.machine.timing;
        let (line_cycles, whole_cycles) =
            (timing.line_operation_cycles, timing.whole_operation_cycles);
        let since = self.now();
        if opcode_1 != 0 {
            self.unknown(access);
            return Effect::None;
        }
        let by_index = matches!(kind, Arm920t | Arm926ejs);
        let sa1100 = kind == Sa1100;
        match (m, opcode_2) {
            (0, 4) if by_index => return Effect::Wait,
            (2, 5) if kind == Xscale => {
                self.allocate_line(board, value);
                self.spend(Cause::DataCacheOperation, line_cycles);
                self.note_line_operation(since);
            }
            (5, 0) | (7, 0) => {
                if m == 7 {
                    self.drop_all_lines(board);
                    self.counters.dcache_flushes += 1;
                }
                self.fetch.invalidate_all();
                self.counters.icache_flushes += 1;
                self.spend(Cause::InstructionCacheOperation, whole_cycles);
                self.note_flush(if m == 7 { "cache flush" } else { "icache flush" }, since);
                if kind == Xscale {
                    return Effect::BranchBuffer;
                }
            }
            (5, 1) if !sa1100 => {
                self.fetch.invalidate(value);
                self.counters.line_operations += 1;
                self.spend(Cause::InstructionCacheOperation, line_cycles);
                self.note_line_operation(since);
            }
            (5, 2) if by_index => {
                if let Some(slot) = slot_by_index(&self.fetch.cache, value) {
                    self.fetch.invalidate_slot(slot);
                }
                self.counters.line_operations += 1;
                self.spend(Cause::InstructionCacheOperation, line_cycles);
                self.note_line_operation(since);
            }
            (5, 6) if kind == Xscale => return Effect::BranchBuffer,
            (6, 0) => {
                self.drop_all_lines(board);
                self.counters.dcache_flushes += 1;
                self.spend(Cause::DataCacheOperation, whole_cycles);
                self.note_flush("dcache flush", since);
            }
            (6, 1) => self.line_operation(board, value, false, true),
            (6, 2) if by_index => self.index_operation(board, value, false, true),
            (10, 1) => self.line_operation(board, value, true, false),
            (10, 2) if by_index => self.index_operation(board, value, true, false),
            (10, 4) => {
                self.drain(board, Cause::Drain);
                self.spend(Cause::Drain, 0u64);
            }
            (13, 1) if by_index => {
                self.spend(Cause::InstructionCacheOperation, line_cycles);
                self.prefetch_instructions(board, value);
            }
            (14, 1) if by_index => self.line_operation(board, value, true, true),
            (14, 2) if by_index => self.index_operation(board, value, true, true),
            _ => self.unknown(access),
        }
        Effect::None
    }

    /// A clean or invalidate by modified virtual address. The process ID is not applied (ARM DDI
    /// 0198D, 2.3.13).
    fn line_operation(&mut self, board: &mut Board, address: u32, clean: bool, invalidate: bool) {
        let since = self.now();
        self.counters.line_operations += 1;
        self.spend(Cause::DataCacheOperation, self.machine.timing.line_operation_cycles);
        if let Some(slot) = self.line_of(address) {
            self.slot_operation(board, slot, clean, invalidate);
        }
        self.note_line_operation(since);
    }

    fn index_operation(&mut self, board: &mut Board, value: u32, clean: bool, invalidate: bool) {
        let since = self.now();
        self.counters.line_operations += 1;
        self.spend(Cause::DataCacheOperation, self.machine.timing.line_operation_cycles);
        if let Some(slot) = slot_by_index(&self.dcache, value) {
            self.slot_operation(board, slot, clean, invalidate);
        }
        self.note_line_operation(since);
    }

    fn slot_operation(&mut self, board: &mut Board, slot: usize, clean: bool, invalidate: bool) {
        if clean {
            self.clean_slot(board, slot, Cause::DataCacheOperation);
        }
        if invalidate {
            self.drop_line(board, slot);
        }
    }

    /// One step of the ARM926EJ-S's test-and-clean (ARM DDI 0198D, 2.3.9): cleans a dirty line if
    /// there is one, and tells in bit 30 whether the cache was clean before.
    fn test_and_clean(&mut self, board: &mut Board, invalidate: bool) -> u32 {
        let since = self.now();
        self.spend(Cause::DataCacheOperation, self.machine.timing.line_operation_cycles);
        let slots = self.main_slots;
        for step in 0..slots {
            let slot = (self.test_pointer + step) % slots;
            if self.dcache.dirty(slot) != 0 {
                self.test_pointer = slot;
                self.counters.line_operations += 1;
                self.clean_slot(board, slot as usize, Cause::DataCacheOperation);
                self.note_line_operation(since);
                return 0;
            }
        }
        self.counters.dcache_flushes += 1;
        if invalidate {
            self.drop_all_lines(board);
        }
        self.note_line_operation(since);
        1 << 30
    }

    /// The XScale's line allocate (252480-006, 3.5.1.8): a tag is taken and a dirty victim leaves;
    /// memory is not read, so that the line's words are whatever they were.
    fn allocate_line(&mut self, board: &mut Board, address: u32) {
        let address = self.modified(address);
        if self.line_of(address).is_some() {
            return;
        }
        let slot = self.dcache.victim(u64::from(address & !31));
        let slot_index = slot as usize;
        let old =
            ((self.line_tags[slot_index], self.line_physical[slot_index]), self.lines[slot_index]);
        if let Some(evicted) = self.dcache.replace(slot, u64::from(address & !31))
            && evicted.dirty != 0
        {
            self.write_back(board, old.0, &old.1, evicted.dirty, Cause::DataCacheOperation);
        }
        let slot = slot as usize;
        self.line_tags[slot] = address & !31 | 1;
        self.line_physical[slot] = self.physical_for_allocation(board, address);
    }

    fn physical_for_allocation(&mut self, board: &mut Board, address: u32) -> u32 {
        if self.registers.control & control::MMU == 0 {
            return address & !31;
        }
        match self.translation(board, address, Side::Data) {
            Ok(found) => {
                let mask = (1u32 << found.page_shift) - 1;
                (found.physical & !mask | address & mask) & !31
            }
            Err(_) => address & !31,
        }
    }

    /// c9: cache lockdown, and the SA-1100's read buffer.
    fn lockdown_operation(&mut self, board: &mut Board, access: CoprocessorAccess, value: u32) {
        let (_, m, _, opcode_2) = access.fields();
        match (self.kind, m, opcode_2) {
            // The read buffer (278088-004, 6.4): empty it, empty an entry, fetch 1, 4 or 8 words into an
            // entry, keep user mode from it or not.
            (Sa1100, 0, 0) => self.read_buffer.drop_all(),
            (Sa1100, 0..=3, 1) => self.read_buffer.drop_entry(m as usize),
            (Sa1100, 0..=11, 2) => {
                self.read_ahead(board, (m & 3) as usize, [1, 4, 8][(m >> 2) as usize], value);
            }
            (Sa1100, 0, 4 | 5) => self.read_buffer.open_to_users = opcode_2 == 5,
            // Lock bits, one a way (ARM DDI 0198D, 2.3.10). To lock all ways is unpredictable; here the
            // lock bits then stay as they were.
            (Arm926ejs, 0, side @ (0 | 1)) => {
                let cache = if side == 0 { &mut self.dcache } else { &mut self.fetch.cache };
                if cache.lock_ways(u64::from(value & 15)).is_ok() {
                    self.registers.cache_lockdown[side as usize] = 0xfff0 | value & 15;
                } else {
                    self.not_modelled(access);
                }
            }
            // Base and victim: ways below stay, and the next fill of each segment takes this one (ARM DDI
            // 0151C, 2.3.10).
            (Arm920t, 0, side @ (0 | 1)) => {
                let base = value >> 26;
                let cache = if side == 0 { &mut self.dcache } else { &mut self.fetch.cache };
                if cache.lock_ways((1 << base) - 1).is_ok() {
                    cache.aim_next_fill(base);
                    self.registers.cache_lockdown[side as usize] = base << 26;
                } else {
                    self.not_modelled(access);
                }
            }
            // Locking of lines. Nothing is locked at reset, so that unlocking all is done.
            (Xscale, 1 | 2, 1) => {}
            (Xscale, 2, 0) if value & 1 == 0 => {}
            (Xscale, 1 | 2, 0) => self.not_modelled(access),
            _ => self.unknown(access),
        }
    }

    /// c10: TLB lockdown.
    fn tlb_lockdown(&mut self, board: &mut Board, access: CoprocessorAccess, value: u32) {
        let (_, m, _, opcode_2) = access.fields();
        match (self.kind, m, opcode_2) {
            // P in bit 0, victim in bits 28 to 26: while P is set, walks fill the lockdown part, and the
            // victim counts up (ARM DDI 0198D, 2.3.11).
            (Arm926ejs, 0, 0) => self.itlb.set_lockdown_part(value >> 26 & 7, value & 1 != 0),
            // Base in bits 31 to 26, victim in 25 to 20, P in bit 0 (ARM DDI 0151C, 2.3.13).
            (Arm920t, 0, side @ (0 | 1)) => {
                let tlb = match (side, &mut self.dtlb) {
                    (0, Some(dtlb)) => dtlb,
                    _ => &mut self.itlb,
                };
                if tlb.set_lockdown(value >> 26, value >> 20 & 63, value & 1 != 0).is_err() {
                    self.unknown(access);
                }
            }
            // c4 and c8: walk for an address and lock the entry, or unlock all (252480-006,
            // 3.5.1.11).
            (Xscale, 4 | 8, 0) => {
                let side = if m == 4 { Side::Instruction } else { Side::Data };
                let address = self.modified(value);
                let Ok(translation) = self.translation(board, address, side) else { return };
                let tlb = match (side, &mut self.dtlb) {
                    (Side::Data, Some(dtlb)) => dtlb,
                    _ => &mut self.itlb,
                };
                tlb.invalidate(address);
                match tlb.lock(address, translation) {
                    Ok(Some(left)) => {
                        self.forget_page(left.virtual_address as u32, left.page_shift);
                    }
                    Ok(None) => {}
                    Err(_) => self.unknown(access),
                }
                self.forget_page(address, u32::from(translation.page_shift));
            }
            (Xscale, 4, 1) => self.itlb.unlock(),
            (Xscale, 8, 1) => {
                if let Some(dtlb) = &mut self.dtlb {
                    dtlb.unlock();
                }
            }
            _ => self.unknown(access),
        }
    }
}

/// The TLB lockdown register of the ARM926EJ-S.
fn victim_and_p((victim, preserve): (u32, bool)) -> u32 {
    victim << 26 | u32::from(preserve)
}

/// One half of the cache type register: size, associativity and line length, with the bit M for one
/// and a half times of what the first two say (ARM DDI 0100I, B6.5.1; ARM DDI 0198D, 2.3.2).
fn cache_shape(cache: &mmulab_hardware::Cache) -> u32 {
    let ways = cache.ways();
    let by_half = u32::from(ways.is_multiple_of(3));
    let whole_ways = if by_half == 1 { ways / 3 * 2 } else { ways };
    let bytes = (whole_ways * cache.sets()) << cache.line_shift();
    let associativity = if ways == 1 { 0 } else { whole_ways.trailing_zeros() };
    // A size of 512 bytes is 0, a line of 8 bytes is 0.
    (bytes.trailing_zeros() - 9) << 6 | associativity << 3 | by_half << 2 | (cache.line_shift() - 3)
}

/// The slot that an operation by set and way names: the way in the top bits, the set above the
/// line's offset (ARM DDI 0198D, 2.3.9).
fn slot_by_index(cache: &mmulab_hardware::Cache, value: u32) -> Option<usize> {
    let ways = cache.ways();
    let way_bits = ways.next_power_of_two().trailing_zeros();
    let way = if ways == 1 { 0 } else { value >> (32 - way_bits) };
    let set = value >> cache.line_shift() & (cache.sets() - 1);
    (way < ways).then_some((set * ways + way) as usize)
}
