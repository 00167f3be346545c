//! The system control coprocessor, CP15: what its registers and operations do.
//!
//! Which core has which is in [`crate::cores`]. Sources: Intel SA-1100 Developer's Manual
//! 278088-004, chapter 5; Intel IXP42X Developer's Manual 252480-006, 3.5; ARM920T TRM, ARM DDI
//! 0151C, 2.3; ARM926EJ-S TRM, ARM DDI 0198D, 2.3. An operation that the core does not have, or
//! that is not modelled, does nothing and is listed at the end of the run: no write is swallowed
//! without a note.

mod address_translation;
mod maintenance;
mod table;
mod tlb_port;
mod tlb_read;

use mmulab_machine::{ArmRegister, ArmRegisters, SystemMachine};
use mmulab_system::board::Timer;
use mmulab_system::core::{Fault, Side};
use mmulab_system::maintenance::{Maintenance, Unit};

use crate::caches::CacheKind;
use crate::cores::CoreDescription;
use crate::cpu::{Bus, Cpu};
use crate::generic_timer::TimerState;
use crate::isa::CoprocessorAccess;
use crate::mmu::{Registers, control};
use crate::performance::Monitor;
use maintenance::{announce, maintain};
use table::ENCODINGS;

pub use table::{ANY, Encoding, Operation, Register, Row, UP_TO, rows};
use tlb_port::TlbPort;
pub use tlb_port::Version;

/// Why a coprocessor operation did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The core does not have it.
    Core,
    /// The core has it, the model does not.
    Model,
}

mmulab_state::value_enum!(Lack { Core, Model });

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

mmulab_state::state!(Ignored { operations, further });

impl Ignored {
    fn note(&mut self, access: CoprocessorAccess, pc: u32, lack: Lack) {
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

/// The memo of an encoding that was not looked up yet, and of one that has no row.
const NOT_LOOKED_UP: u8 = 0xff;
const NO_ROW: u8 = 0xfe;

/// The system control coprocessor of a core.
pub struct Cp15 {
    rows: Vec<Row>,
    /// The row of each encoding, for MRC and MCR, once it was looked up.
    memo: [Box<[u8]>; 2],
    main_id: u32,
    cache_type_class: u32,
    pub(crate) bits: ArmRegisters,
    /// What the core holds of its generic timers.
    pub(crate) timer: TimerState,
    /// The performance monitor, on cores that have one.
    pub(crate) monitor: Monitor,
    /// What was last read from the TLB's memory.
    tlb_data: [u32; 3],
    /// Entries of the TLB that software saves and restores.
    pub(crate) tlb_port: TlbPort,
    process_mask: u32,
    write_coalesces: bool,
    /// Operations that did nothing.
    pub ignored: Ignored,
}

mmulab_state::state!(Cp15 {
    timer,
    monitor,
    tlb_data,
    tlb_port,
    ignored,
} built { rows, memo, main_id, cache_type_class, bits, process_mask, write_coalesces });

impl Cp15 {
    /// The coprocessor of a machine's core.
    pub fn new(machine: &SystemMachine, core: &'static CoreDescription) -> Cp15 {
        let rows: Vec<Row> = core.rows.iter().copied().flatten().copied().collect();
        debug_assert!(rows.len() < usize::from(NO_ROW));
        Cp15 {
            rows,
            memo: [0, 1].map(|_| vec![NOT_LOOKED_UP; ENCODINGS].into()),
            main_id: machine.core.main_id,
            cache_type_class: machine.core.cache_type_class,
            bits: machine.registers.clone(),
            timer: TimerState::default(),
            monitor: Monitor::default(),
            tlb_data: [0; 3],
            tlb_port: TlbPort::default(),
            process_mask: if machine.core.pid_bits == 6 { 0x7e00_0000 } else { 0xfe00_0000 },
            write_coalesces: machine.buffers.write_coalesces,
            ignored: Ignored::default(),
        }
    }

    /// A register that only tells what the core is, by its name in the machine's file.
    pub fn fixed(&self, name: &str) -> u32 {
        self.bits.fixed.get(name).copied().unwrap_or(0)
    }

    fn find(&mut self, encoding: Encoding, writes: bool) -> Option<Operation> {
        let memo = &mut self.memo[usize::from(writes)][encoding.index()];
        if *memo == NOT_LOOKED_UP {
            let of_this_kind = |row: &Row| if writes { row.writes } else { row.reads };
            let found = self.rows.iter().position(|row| of_this_kind(row) && row.fits(encoding));
            *memo = found.map_or(NO_ROW, |row| row as u8);
        }
        self.rows.get(usize::from(*memo)).map(|row| row.operation)
    }
}

impl<K: CacheKind> Cpu<K> {
    fn note(&mut self, access: CoprocessorAccess, lack: Lack) {
        self.cp15.ignored.note(access, self.memory.pc, lack);
    }

    /// An encoding without a row exists and is not modelled, or does not exist.
    fn note_no_row(&mut self, access: CoprocessorAccess) {
        let exists = (self.core.exists)(Encoding::of(access));
        self.note(access, if exists { Lack::Model } else { Lack::Core });
    }

    fn registers(&mut self) -> &mut Registers {
        &mut self.memory.mmu.registers
    }

    /// Whether user mode may execute a coprocessor instruction: what the core lets it, and uses of
    /// the SA-1100's read buffer while the system permits them.
    pub fn open_to_users(&self, access: CoprocessorAccess) -> bool {
        let encoding = Encoding::of(access);
        if self.core.has_generic_timers && (access.coprocessor(), encoding.n) == (15, 14) {
            return self.cp15.timer.is_open(encoding, access.is_read(), false);
        }
        if self.core.has_performance_monitor && (access.coprocessor(), encoding.n) == (15, 9) {
            // User mode may always read PMUSERENR (ARM DDI 0406C, PMUSERENR).
            return match (encoding.m, encoding.opcode_2) {
                (12 | 13, _) => self.cp15.monitor.open_to_users(),
                (14, 0) => access.is_read(),
                _ => false,
            };
        }
        let store = !access.is_read() && access.coprocessor() == 15;
        if access.coprocessor() == 15 && (self.core.open_to_users)(encoding, !access.is_read()) {
            return true;
        }
        self.memory.read_buffer.open_to_users
            && store
            && (encoding.n, encoding.opcode_1) == (9, 0)
            && matches!(encoding.opcode_2, 0..=2)
    }

    /// Whether coprocessor 0 may be used (c15, c1, bit 0 of the XScale).
    pub fn accumulator_enabled(&self) -> bool {
        self.memory.mmu.registers.coprocessor_access & 1 != 0
    }

    /// MRC; `None` is undefined.
    pub fn coprocessor_read(&mut self, bus: &mut Bus<K>, access: CoprocessorAccess) -> Option<u32> {
        match access.coprocessor() {
            15 => {}
            // Performance counters and debug registers are not modelled and read as zero.
            14 if self.core.has_power_control || self.core.has_debug_registers => {
                self.note(access, Lack::Model);
                return Some(0);
            }
            _ => return None,
        }
        let Some(operation) = self.cp15.find(Encoding::of(access), false) else {
            self.note_no_row(access);
            return Some(0);
        };
        let held = self.memory.mmu.registers;
        Some(match operation {
            Operation::MainId => self.cp15.main_id,
            Operation::Fixed(name) => self.cp15.bits.fixed.get(name).copied().unwrap_or(0),
            Operation::MultiprocessorId => 0x8000_0000 | self.memory.number as u32,
            // The number of cores less one in bits 25:24; bit 23: the interrupt controller is there
            // (DDI 0464F, 4.2.10).
            Operation::Level2Control => (bus.core_count() as u32 - 1) << 24 | 1 << 23,
            Operation::CacheSize => {
                let selection = held.csselr;
                self.cache_size(bus, selection)
            }
            Operation::SmallestLines => self.smallest_lines(),
            Operation::PendingInterrupts => {
                let lines = bus.board.interrupts(self.memory.number, self.memory.now());
                u32::from(lines.irq) << 7 | u32::from(lines.fiq) << 6
            }
            Operation::TableBase1 => held.ttbr1,
            Operation::TableControl => held.ttbcr,
            Operation::RegionRemap => held.prrr,
            Operation::NormalRemap => held.nmrr,
            Operation::AddressSpace => held.context_id,
            Operation::CacheType => self.cache_type(),
            Operation::Control => held.sctlr,
            Operation::AuxiliaryControl => held.actlr,
            Operation::TableBase => held.ttbr,
            Operation::Domains => held.dacr,
            Operation::DataFaultStatus => held.dfsr,
            Operation::ProcessId => held.fcse_pid,
            Operation::CacheDebug => held.cache_debug,
            Operation::Timer(register) => self.timer_register(bus, register).unwrap_or_else(|| {
                self.note(access, Lack::Model);
                0
            }),
            Operation::Monitor(register) => self.cp15.monitor.read(&self.memory, register),
            Operation::TlbData(number) => self.cp15.tlb_data[usize::from(number)],
            Operation::TlbPortData(version, register) => self.read_tlb_port(version, register),
            Operation::TlbPortState(register) => self.cp15.tlb_port.state(register),
            Operation::TlbTransfer => self.tlb_transfer(bus),
            Operation::Held(register) => *self.held(register),
            Operation::TestAndClean { invalidate } => {
                u32::from(self.memory.clean_next_line(bus, invalidate)) << 30
            }
            Operation::CacheLockdownWays(side) | Operation::CacheLockdownBase(side) => {
                held.cache_lockdown[side as usize]
            }
            Operation::TlbLockdownPart => self
                .memory
                .itlb
                .lockdown_part()
                .map_or(0, |(victim, fills)| victim << 26 | u32::from(fills)),
            Operation::TlbLockdownBase(side) => {
                let (base, victim, preserve) = self.memory.tlb(side).lockdown();
                base << 26 | victim << 20 | u32::from(preserve)
            }
            _ => 0,
        })
    }

    fn held(&mut self, register: Register) -> &mut u32 {
        let registers = self.registers();
        match register {
            Register::InstructionFaultStatus => &mut registers.ifsr,
            Register::FaultAddress => &mut registers.far,
            Register::ContextId => &mut registers.context_id,
            Register::CoprocessorAccess => &mut registers.coprocessor_access,
            Register::InstructionFaultAddress => &mut registers.ifar,
            Register::VectorBase => &mut registers.vbar,
            Register::CacheSizeSelection => &mut registers.csselr,
            Register::PhysicalAddress => &mut registers.par,
            Register::Thread(number) => &mut registers.thread[usize::from(number)],
        }
    }

    /// MCR; `false` is undefined.
    ///
    /// # Errors
    /// It is maintenance of an address that has no translation.
    pub fn coprocessor_write(
        &mut self,
        bus: &mut Bus<K>,
        access: CoprocessorAccess,
        value: u32,
    ) -> Result<bool, Fault> {
        match access.coprocessor() {
            15 => {}
            14 if self.core.has_debug_registers => {
                self.note(access, Lack::Model);
                return Ok(true);
            }
            14 if self.core.has_power_control => {
                // c7: power mode; 1 is idle, until an interrupt (252480-006, 3.5.3).
                if access.fields().0 == 7 && value & 3 == 1 {
                    self.wait_for_interrupt();
                } else {
                    self.note(access, Lack::Model);
                }
                return Ok(true);
            }
            _ => return Ok(false),
        }
        let encoding = Encoding::of(access);
        match self.cp15.find(encoding, true) {
            Some(operation) => self.write(bus, operation, encoding, access, value)?,
            None => self.note_no_row(access),
        }
        Ok(true)
    }

    fn write(
        &mut self,
        bus: &mut Bus<K>,
        operation: Operation,
        encoding: Encoding,
        access: CoprocessorAccess,
        value: u32,
    ) -> Result<(), Fault> {
        let memory = &mut self.memory;
        match operation {
            Operation::Control => self.write_control(bus, access, value),
            Operation::AuxiliaryControl => self.write_auxiliary(value),
            Operation::TableBase => self.write_table_base(bus, value),
            Operation::Domains => self.write_domains(bus, value),
            Operation::DataFaultStatus => {
                memory.mmu.registers.dfsr = self.cp15.bits.data_fault_status.written(value);
            }
            Operation::ProcessId => self.write_process(bus, value),
            Operation::CacheDebug => {
                let bits = self.cp15.bits.cache_debug.unwrap_or_default();
                memory.mmu.registers.cache_debug = bits.written(value);
                memory.renew_pages();
            }
            Operation::Held(register) => self.write_held(register, value),
            Operation::Timer(register) => {
                if !self.set_timer_register(bus, register, value) {
                    self.note(access, Lack::Model);
                }
            }
            Operation::Monitor(register) => {
                if !self.cp15.monitor.write(memory, register, value) {
                    self.note(access, Lack::Model);
                }
            }
            Operation::ReadTlbEntry => self.cp15.tlb_data = tlb_read::descriptor(memory, value),
            Operation::TlbPortStart(version) => self.start_tlb_port(bus, version, value),
            Operation::TlbPortData(version, register) => {
                self.write_tlb_port(bus, version, register, value);
            }
            Operation::TlbPortState(register) => self.cp15.tlb_port.set_state(register, value),
            Operation::TlbTransfer => self.start_tlb_transfer(bus, value),
            Operation::TlbAgeMark => self.memory.mark_tlb_age(),
            Operation::TableBase1 => {
                memory.change_translation_registers();
                memory.mmu.registers.ttbr1 = value;
                memory.space_changed(bus, false);
                memory.tables_changed(bus);
            }
            Operation::TableControl => {
                // The format of long descriptors is not modelled.
                if value >> 31 != 0 {
                    self.note(access, Lack::Model);
                }
                self.memory.change_translation_registers();
                self.registers().ttbcr = value & 0x37;
                self.memory.space_changed(bus, false);
                self.memory.tables_changed(bus);
            }
            Operation::RegionRemap => {
                memory.change_micro_tlb_registers();
                memory.mmu.registers.prrr = value;
                memory.renew_pages();
                memory.tables_changed(bus);
            }
            Operation::NormalRemap => {
                memory.change_micro_tlb_registers();
                memory.mmu.registers.nmrr = value;
                memory.renew_pages();
                memory.tables_changed(bus);
            }
            Operation::AddressSpace => {
                if value != memory.mmu.registers.context_id {
                    memory.change_translation_registers();
                    memory.mmu.registers.context_id = value;
                    memory.update_contexts();
                    memory.space_changed(bus, false);
                }
            }
            Operation::InvalidateSharedTranslation { .. }
            | Operation::InvalidateSpace
            | Operation::InvalidateTranslations { .. } => {
                announce(memory, bus, operation, value, false);
                maintain(memory, bus, operation, value);
            }
            Operation::Broadcast(operation) => {
                announce(memory, bus, *operation, value, true);
                memory.broadcast(bus, |memory, bus| maintain(memory, bus, *operation, value));
            }
            // These operations take the modified virtual address: the process ID is not applied.
            Operation::InvalidateTranslation { instructions, data } => {
                memory.invalidate_translation(bus, value, instructions, data);
            }
            Operation::InvalidateInstructions { data } => {
                announce(memory, bus, operation, value, false);
                memory.invalidate_instructions(bus, data);
                if self.core.clears_branch_buffer {
                    self.clear_branch_buffer();
                }
            }
            Operation::InvalidateInstructionLine => memory.invalidate_instruction_line(bus, value),
            Operation::InvalidateInstructionSlot => memory.invalidate_instruction_slot(value),
            Operation::PrefetchInstructionLine => memory.prefetch_instruction_line(bus, value),
            Operation::InvalidateBranchBuffer => self.clear_branch_buffer(),
            Operation::InvalidateData => memory.invalidate_data(bus),
            Operation::Line(operation) => memory.operate_on_line(bus, value, operation),
            Operation::Slot(operation) => memory.operate_on_slot(bus, value, operation),
            Operation::LineTo(operation, point) if K::COHERENT => {
                memory.operate_to(bus, value, operation, point)?;
            }
            Operation::LineTo(operation, _) => memory.operate_on_line(bus, value, operation),
            // The level, from 0, is above the lowest bit (ARM DDI 0406C, B4.2.1).
            Operation::SlotOfLevel(operation) => match value >> 1 & 7 {
                0 => memory.operate_on_slot(bus, value, operation),
                1 => memory.operate_on_level_2_slot(bus, value, operation),
                _ => {}
            },
            Operation::InvalidateSharedInstructionLine => {
                let physical = memory.physical_of(bus, value)?;
                let line = Some(physical);
                memory.announce(bus, Maintenance::Instructions { line, everywhere: true });
                memory.broadcast(bus, |memory, _| {
                    memory.invalidate_instruction_line_of(value, physical);
                });
            }
            Operation::TranslateAddress { write, privileged } => {
                let translated = self.translated_address(bus, value, write, privileged);
                self.registers().par = translated;
            }
            Operation::AllocateLine => memory.allocate_line(bus, value),
            // c10, 5 is DMB, which does not wait for maintenance.
            Operation::Drain if encoding.opcode_2 == 5 => memory.drain_write_buffer(bus),
            Operation::Drain => memory.complete_maintenance(bus),
            Operation::Synchronise => memory.synchronise_context(),
            Operation::Wait => self.wait_for_interrupt(),
            Operation::EmptyReadBuffer => memory.read_buffer.discard_all(),
            Operation::EmptyReadBufferEntry => memory.read_buffer.discard_entry(encoding.m.into()),
            Operation::ReadAhead => {
                let words = [1, 4, 8][usize::from(encoding.m >> 2)];
                memory.read_ahead(bus, usize::from(encoding.m & 3), words, value);
            }
            Operation::OpenReadBuffer(open) => memory.read_buffer.open_to_users = open,
            Operation::CacheLockdownWays(side) => {
                // To lock all ways is unpredictable; here the lock bits then stay as they were.
                if memory.cache(side).lock_ways(u64::from(value & 15)).is_ok() {
                    self.registers().cache_lockdown[side as usize] = 0xfff0 | value & 15;
                } else {
                    self.note(access, Lack::Model);
                }
            }
            Operation::CacheLockdownBase(side) => {
                let base = value >> 26;
                let cache = memory.cache(side);
                if cache.lock_ways((1 << base) - 1).is_ok() {
                    cache.aim_next_fill(base);
                    self.registers().cache_lockdown[side as usize] = base << 26;
                } else {
                    self.note(access, Lack::Model);
                }
            }
            Operation::TlbLockdownPart => {
                memory.itlb.set_lockdown_part(value >> 26 & 7, value & 1 != 0);
            }
            Operation::TlbLockdownBase(side) => {
                let tlb = memory.tlb_mut(side);
                if tlb.set_lockdown(value >> 26, value >> 20 & 63, value & 1 != 0).is_err() {
                    self.note(access, Lack::Core);
                }
            }
            Operation::LockTranslation(side) => {
                let address = memory.relocated(value);
                if memory.lock_translation(bus, address, side).is_err() {
                    self.note(access, Lack::Core);
                }
            }
            Operation::UnlockTranslations(side) => memory.tlb_mut(side).unlock(),
            Operation::UnlockOnly if value & 1 == 0 => {}
            Operation::UnlockOnly | Operation::NotModelled => self.note(access, Lack::Model),
            Operation::Nothing
            | Operation::MainId
            | Operation::TlbData(_)
            | Operation::Fixed(_)
            | Operation::MultiprocessorId
            | Operation::Level2Control
            | Operation::CacheSize
            | Operation::SmallestLines
            | Operation::PendingInterrupts
            | Operation::CacheType
            | Operation::Zero
            | Operation::TestAndClean { .. } => {}
        }
        Ok(())
    }

    fn write_held(&mut self, register: Register, value: u32) {
        let bits = &self.cp15.bits;
        let written = |bits: Option<ArmRegister>| bits.unwrap_or_default().written(value);
        let value = match register {
            Register::InstructionFaultStatus => written(bits.instruction_fault_status),
            Register::CoprocessorAccess => written(bits.coprocessor_access),
            Register::VectorBase => value & !0x1f,
            Register::CacheSizeSelection => value & 0xf,
            Register::InstructionFaultAddress | Register::PhysicalAddress | Register::Thread(_) => {
                value
            }
            Register::FaultAddress | Register::ContextId => value,
        };
        *self.held(register) = value;
    }

    /// The cache size register: geometry, and what it does on a miss, as the manual of the core has
    /// it. CCSIDR: what the cache can do, by the machine's file, and its shape (ARM DDI 0406C,
    /// B4.1.19).
    fn cache_size(&mut self, bus: &Bus<K>, selection: u32) -> u32 {
        let (name, cache) = match selection {
            0 => ("ccsidr_l1d", Some(&*self.memory.cache(Side::Data))),
            1 => ("ccsidr_l1i", Some(&*self.memory.cache(Side::Instruction))),
            2 => ("ccsidr_l2", bus.second_level_cache()),
            _ => return 0,
        };
        let Some(cache) = cache else { return 0 };
        let shape = (cache.sets() - 1) << 13 | (cache.ways() - 1) << 3 | (cache.line_shift() - 4);
        self.cp15.fixed(name) & 0xf000_0000 | shape
    }

    /// CTR: the lines of both caches in words, and the rest by the machine's file (ARM DDI 0406C,
    /// B4.1.42).
    fn smallest_lines(&mut self) -> u32 {
        let data = self.memory.cache(Side::Data).line_shift() - 2;
        let instructions = self.memory.cache(Side::Instruction).line_shift() - 2;
        self.cp15.fixed("ctr") & !0x000f_000f | data << 16 | instructions
    }

    /// MCRR; `false` is undefined.
    pub fn coprocessor_write_pair(
        &mut self,
        bus: &mut Bus<K>,
        access: CoprocessorAccess,
        value: u64,
    ) -> bool {
        let Encoding { m, opcode_1, .. } = Encoding::of(access);
        match (access.coprocessor(), m) {
            (15, 14) if self.core.has_generic_timers => self.set_timer_pair(bus, opcode_1, value),
            _ => false,
        }
    }

    /// MRRC; `None` is undefined.
    pub fn coprocessor_read_pair(
        &mut self,
        bus: &mut Bus<K>,
        access: CoprocessorAccess,
    ) -> Option<u64> {
        let Encoding { m, opcode_1, .. } = Encoding::of(access);
        match (access.coprocessor(), m) {
            (15, 14) if self.core.has_generic_timers => self.timer_pair(bus, opcode_1),
            _ => None,
        }
    }

    /// Whether user mode may execute MCRR or MRRC.
    pub fn pair_open_to_users(&self, access: CoprocessorAccess) -> bool {
        access.coprocessor() == 15
            && self.cp15.timer.is_open(Encoding::of(access), access.is_read(), true)
    }

    /// Puts the registers of the system, its timers and its performance monitor back to what they
    /// are after reset.
    pub(crate) fn reset_system(&mut self, bus: &mut Bus<K>) {
        *self.registers() = Registers::after_reset(&self.cp15.bits);
        self.cp15.timer = TimerState::default();
        self.cp15.monitor = Monitor::default();
        self.memory.count_data_accesses(false);
        if let Some(timers) = bus.board.generic_timers() {
            for timer in Timer::ALL {
                timers.set_control(self.memory.number, timer, 0);
            }
        }
        self.write_auxiliary(self.memory.mmu.registers.actlr);
        self.memory.space_changed(bus, false);
        self.memory.tables_changed(bus);
    }

    pub(crate) fn wait_for_interrupt(&mut self) {
        self.requests.waiting = true;
        self.memory.request_exit();
    }

    fn clear_branch_buffer(&mut self) {
        if let Some(buffer) = &mut self.branch_buffer {
            buffer.invalidate();
        }
    }

    /// The cache type register: the class of the core, separate caches, and the shape of each.
    fn cache_type(&mut self) -> u32 {
        let data = cache_shape(self.memory.cache(Side::Data));
        let instructions = cache_shape(self.memory.cache(Side::Instruction));
        self.cp15.cache_type_class << 25 | 1 << 24 | data << 12 | instructions
    }

    fn write_control(&mut self, bus: &mut Bus<K>, access: CoprocessorAccess, value: u32) {
        let old = self.registers().sctlr;
        if value & !old & self.core.control_not_modelled != 0 {
            self.note(access, Lack::Model);
        }
        let new = self.cp15.bits.control.written(value);
        // Linux writes the same value on every system call.
        if old == new {
            return;
        }
        if (old ^ new) & control::MMU != 0 {
            self.memory.change_translation_registers();
        }
        let units = [
            (control::INSTRUCTION_CACHE, Unit::InstructionCache),
            (control::DATA_CACHE, Unit::DataCache),
            (control::MMU, Unit::Translation),
        ];
        let enabled = units.iter().filter(|(bit, _)| new & !old & bit != 0).map(|&(_, unit)| unit);
        self.memory.enable(bus, &enabled.collect::<Vec<_>>());
        self.registers().sctlr = new;
        let translating = control::MMU
            | control::DATA_CACHE
            | control::WRITE_BUFFER
            | control::INSTRUCTION_CACHE
            | control::SYSTEM
            | control::ROM
            | control::TYPE_REMAP
            | control::ACCESS_FLAG
            | control::WRITABLE_NOT_EXECUTED
            | control::USER_WRITABLE_NOT_EXECUTED;
        if (old ^ new) & control::ROUND_ROBIN != 0 {
            // ARM DDI 0151C, 4.2 and 4.3; ARM DDI 0198D, 2.3.3.
            self.memory.choose_replacement(new & control::ROUND_ROBIN != 0);
        }
        if (old ^ new) & translating != 0 {
            self.memory.renew_pages();
            self.memory.tables_changed(bus);
        }
    }

    /// The auxiliary control register. That of the XScale: K keeps stores from joining in the write
    /// buffer, MD is the policy of the mini data cache (252480-006, 3.5.1.3). P says something to
    /// the bus. That of the Cortex-A7: L1PCTL permits so many data prefetches (ARM DDI 0464F,
    /// 4.3.28).
    fn write_auxiliary(&mut self, value: u32) {
        let value = self.cp15.bits.auxiliary_control.unwrap_or_default().written(value);
        self.registers().actlr = value;
        self.memory.set_write_coalescing(self.cp15.write_coalesces && value & 1 == 0);
        self.memory.limit_prefetches(value >> 13 & 3);
        self.memory.renew_pages();
    }

    fn write_table_base(&mut self, bus: &mut Bus<K>, value: u32) {
        let value = self.cp15.bits.table_base.written(value);
        if value != self.registers().ttbr {
            self.memory.change_translation_registers();
            self.registers().ttbr = value;
            self.memory.space_changed(bus, true);
            self.memory.tables_changed(bus);
        }
    }

    fn write_domains(&mut self, bus: &mut Bus<K>, value: u32) {
        if value != self.registers().dacr {
            self.memory.change_translation_registers();
            self.registers().dacr = value;
            self.memory.update_contexts();
            self.memory.space_changed(bus, false);
        }
    }

    fn write_process(&mut self, bus: &mut Bus<K>, value: u32) {
        let value = value & self.cp15.process_mask;
        if value != self.registers().fcse_pid {
            self.registers().fcse_pid = value;
            self.memory.fetch.invalidate_current_page();
            self.memory.space_changed(bus, true);
        }
        if self.core.clears_branch_buffer {
            self.clear_branch_buffer();
        }
    }
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
