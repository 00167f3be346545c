//! Cortex-A7 MPCore: Technical Reference Manual, ARM DDI 0464F.

use mmulab_system::board;
use mmulab_system::coherence::Point;
use mmulab_system::core::{MaintenanceNames, MemoryType};
use mmulab_system::maintenance::LineOperation;

use super::CoreDescription;
use crate::cp15::{ANY, Encoding, Operation::*, Register, Row, Version};
use crate::generic_timer::TimerRegister;
use crate::mmu::TableFormat;
use crate::mmu_v7::{WRITE_BACK, WRITE_BACK_ALLOCATE};
use crate::performance::MonitorRegister;

const INVALIDATE_ALL: crate::cp15::Operation =
    InvalidateTranslations { instructions: true, data: true };
const PHYSICAL: board::Timer = board::Timer::Physical;
const VIRTUAL: board::Timer = board::Timer::Virtual;
const BY_ADDRESS: crate::cp15::Operation = InvalidateSharedTranslation { all_spaces: false };
const BY_ADDRESS_IN_ALL: crate::cp15::Operation = InvalidateSharedTranslation { all_spaces: true };

/// 4.2, tables 4-2 to 4-16.
const ROWS: &[Row] = &[
    Row::read(0, 0, 0, 0, MainId),
    Row::read(0, 0, 0, 1, SmallestLines),
    Row::read(0, 0, 0, 2, Zero),
    Row::read(0, 0, 0, 3, Zero),
    Row::read(0, 0, 0, 4, MainId),
    Row::read(0, 0, 0, 5, MultiprocessorId),
    Row::read(0, 0, 0, 6, Zero),
    Row::read(0, 0, 0, 7, MainId),
    Row::read(0, 1, 0, 0, Fixed("id_pfr0")),
    Row::read(0, 1, 0, 1, Fixed("id_pfr1")),
    Row::read(0, 1, 0, 2, Fixed("id_dfr0")),
    Row::read(0, 1, 0, 3, Zero),
    Row::read(0, 1, 0, 4, Fixed("id_mmfr0")),
    Row::read(0, 1, 0, 5, Fixed("id_mmfr1")),
    Row::read(0, 1, 0, 6, Fixed("id_mmfr2")),
    Row::read(0, 1, 0, 7, Fixed("id_mmfr3")),
    Row::read(0, 2, 0, 0, Fixed("id_isar0")),
    Row::read(0, 2, 0, 1, Fixed("id_isar1")),
    Row::read(0, 2, 0, 2, Fixed("id_isar2")),
    Row::read(0, 2, 0, 3, Fixed("id_isar3")),
    Row::read(0, 2, 0, 4, Fixed("id_isar4")),
    // ID_ISAR5 to 7, and what ARMv8 has behind them.
    Row::read(0, ANY, 0, ANY, Zero),
    Row::read(0, 0, 1, 0, CacheSize),
    Row::read(0, 0, 1, 1, Fixed("clidr")),
    Row::read(0, 0, 1, 7, Zero),
    Row::both(0, 0, 2, 0, Held(Register::CacheSizeSelection)),
    Row::both(1, 0, 0, 0, Control),
    Row::both(1, 0, 0, 1, AuxiliaryControl),
    Row::both(1, 0, 0, 2, Held(Register::CoprocessorAccess)),
    Row::both(2, 0, 0, 0, TableBase),
    Row::both(2, 0, 0, 1, TableBase1),
    Row::both(2, 0, 0, 2, TableControl),
    Row::both(3, 0, 0, 0, Domains),
    Row::both(5, 0, 0, 0, DataFaultStatus),
    Row::both(5, 0, 0, 1, Held(Register::InstructionFaultStatus)),
    // Auxiliary fault status: reads as zero, ignores writes.
    Row::read(5, 1, 0, ANY, Zero),
    Row::write(5, 1, 0, ANY, Nothing),
    Row::both(6, 0, 0, 0, Held(Register::FaultAddress)),
    Row::both(6, 0, 0, 2, Held(Register::InstructionFaultAddress)),
    // Maintenance of caches: by address it reaches all cores, by set and way this one (6.2, 6.3).
    Row::write(7, 0, 0, 4, Wait),
    Row::write(7, 1, 0, 0, Broadcast(&InvalidateInstructions { data: false })),
    Row::write(7, 1, 0, 6, InvalidateBranchBuffer),
    Row::both(7, 4, 0, 0, Held(Register::PhysicalAddress)),
    Row::write(7, 5, 0, 0, InvalidateInstructions { data: false }),
    Row::write(7, 5, 0, 1, InvalidateSharedInstructionLine),
    // ISB, as an operation.
    Row::write(7, 5, 0, 4, Synchronise),
    Row::write(7, 5, 0, 6, InvalidateBranchBuffer),
    Row::write(7, 5, 0, 7, InvalidateBranchBuffer),
    Row::write(7, 6, 0, 1, LineTo(LineOperation::Invalidate, Point::Coherency)),
    Row::write(7, 6, 0, 2, SlotOfLevel(LineOperation::Invalidate)),
    Row::write(7, 10, 0, 1, LineTo(LineOperation::Clean, Point::Coherency)),
    Row::write(7, 10, 0, 2, SlotOfLevel(LineOperation::Clean)),
    // Address translation: for loads and stores, privileged ones first (ARM DDI 0406C, B4.2.4).
    Row::write(7, 8, 0, 0, TranslateAddress { write: false, privileged: true }),
    Row::write(7, 8, 0, 1, TranslateAddress { write: true, privileged: true }),
    Row::write(7, 8, 0, 2, TranslateAddress { write: false, privileged: false }),
    Row::write(7, 8, 0, 3, TranslateAddress { write: true, privileged: false }),
    // DSB and DMB, as operations.
    Row::write(7, 10, 0, 4, Drain),
    Row::write(7, 10, 0, 5, Drain),
    Row::write(7, 11, 0, 1, LineTo(LineOperation::Clean, Point::Unification)),
    Row::write(7, 14, 0, 1, LineTo(LineOperation::CleanAndInvalidate, Point::Coherency)),
    Row::write(7, 14, 0, 2, SlotOfLevel(LineOperation::CleanAndInvalidate)),
    // Maintenance of TLBs: of all cores, of instructions, of data, of both.
    Row::write(8, 3, 0, 0, Broadcast(&INVALIDATE_ALL)),
    Row::write(8, 3, 0, 1, Broadcast(&BY_ADDRESS)),
    Row::write(8, 3, 0, 2, Broadcast(&InvalidateSpace)),
    Row::write(8, 3, 0, 3, Broadcast(&BY_ADDRESS_IN_ALL)),
    Row::write(8, 5, 0, 0, INVALIDATE_ALL),
    Row::write(8, 5, 0, 1, BY_ADDRESS),
    Row::write(8, 5, 0, 2, InvalidateSpace),
    Row::write(8, 6, 0, 0, INVALIDATE_ALL),
    Row::write(8, 6, 0, 1, BY_ADDRESS),
    Row::write(8, 6, 0, 2, InvalidateSpace),
    Row::write(8, 7, 0, 0, INVALIDATE_ALL),
    Row::write(8, 7, 0, 1, BY_ADDRESS),
    Row::write(8, 7, 0, 2, InvalidateSpace),
    Row::write(8, 7, 0, 3, BY_ADDRESS_IN_ALL),
    Row::read(9, 0, 1, 2, Level2Control),
    Row::write(9, 0, 1, 2, NotModelled),
    // The performance monitor (chapter 11).
    Row::both(9, 12, 0, 0, Monitor(MonitorRegister::Control)),
    Row::both(9, 12, 0, 1, Monitor(MonitorRegister::Enable(true))),
    Row::both(9, 12, 0, 2, Monitor(MonitorRegister::Enable(false))),
    Row::both(9, 12, 0, 3, Monitor(MonitorRegister::Overflow)),
    Row::write(9, 12, 0, 4, Monitor(MonitorRegister::Increment)),
    Row::both(9, 12, 0, 5, Monitor(MonitorRegister::Selection)),
    Row::read(9, 12, 0, 6, Monitor(MonitorRegister::Events)),
    Row::read(9, 12, 0, 7, Zero),
    Row::both(9, 13, 0, 0, Monitor(MonitorRegister::Cycles)),
    Row::both(9, 13, 0, 1, Monitor(MonitorRegister::Type)),
    Row::both(9, 13, 0, 2, Monitor(MonitorRegister::Count)),
    Row::both(9, 14, 0, 0, Monitor(MonitorRegister::Users)),
    Row::both(9, 14, 0, 1, Monitor(MonitorRegister::Interrupts(true))),
    Row::both(9, 14, 0, 2, Monitor(MonitorRegister::Interrupts(false))),
    // Direct access to the TLB's memory (6.6.3).
    Row::write(15, 4, 3, 2, ReadTlbEntry),
    Row::read(15, 0, 3, 0, TlbData(0)),
    Row::read(15, 0, 3, 1, TlbData(1)),
    Row::read(15, 0, 3, 2, TlbData(2)),
    Row::both(10, 2, 0, 0, RegionRemap),
    Row::both(10, 2, 0, 1, NormalRemap),
    Row::both(12, 0, 0, 0, Held(Register::VectorBase)),
    Row::read(12, 1, 0, 0, PendingInterrupts),
    // The FCSE is not there: its register reads as zero and ignores writes.
    Row::read(13, 0, 0, 0, Zero),
    Row::write(13, 0, 0, 0, Nothing),
    Row::both(13, 0, 0, 1, AddressSpace),
    Row::both(13, 0, 0, 2, Held(Register::Thread(0))),
    Row::both(13, 0, 0, 3, Held(Register::Thread(1))),
    Row::both(13, 0, 0, 4, Held(Register::Thread(2))),
    Row::both(14, 0, 0, 0, Timer(TimerRegister::Frequency)),
    Row::both(14, 1, 0, 0, Timer(TimerRegister::Access)),
    Row::both(14, 2, 0, 0, Timer(TimerRegister::Value(PHYSICAL))),
    Row::both(14, 2, 0, 1, Timer(TimerRegister::Control(PHYSICAL))),
    Row::both(14, 3, 0, 0, Timer(TimerRegister::Value(VIRTUAL))),
    Row::both(14, 3, 0, 1, Timer(TimerRegister::Control(VIRTUAL))),
];

/// The interfaces of the thesis of 2018 on TLB migration, versions 1 to 4, and ours, version 5, in
/// encodings that the core leaves free; not of any core that is built.
const MIGRATION_ROWS: &[Row] = &[
    Row::write(15, 5, 3, 0, TlbPortStart(Version::V1)),
    Row::both(15, 5, 3, 1, TlbPortData(Version::V1, 0)),
    Row::both(15, 5, 3, 2, TlbPortData(Version::V1, 1)),
    Row::both(15, 5, 3, 3, TlbPortData(Version::V1, 2)),
    Row::write(15, 6, 3, 0, TlbPortStart(Version::V2)),
    Row::both(15, 6, 3, 1, TlbPortData(Version::V2, 0)),
    Row::both(15, 6, 3, 2, TlbPortData(Version::V2, 1)),
    Row::write(15, 7, 3, 0, TlbPortStart(Version::V3)),
    Row::both(15, 7, 3, 1, TlbPortData(Version::V3, 0)),
    Row::both(15, 7, 3, 2, TlbPortData(Version::V3, 1)),
    Row::write(15, 8, 3, 0, TlbPortStart(Version::V4)),
    Row::both(15, 8, 3, 1, TlbPortData(Version::V4, 0)),
    Row::both(15, 8, 3, 2, TlbPortData(Version::V4, 1)),
    Row::both(15, 9, 3, 0, TlbPortState(0)),
    Row::both(15, 9, 3, 1, TlbPortState(1)),
    Row::both(15, 9, 3, 2, TlbPortState(2)),
    Row::both(15, 9, 3, 3, TlbPortState(3)),
    Row::both(15, 10, 3, 0, TlbTransfer),
    Row::write(15, 10, 3, 1, TlbAgeMark),
];

/// What user mode may use: barriers, and its thread identifiers (table 4-13; ARM DDI 0406C,
/// B3.17.2).
fn open_to_users(encoding: Encoding, writes: bool) -> bool {
    match (encoding.n, encoding.m, encoding.opcode_1, encoding.opcode_2) {
        (7, 5, 0, 4) | (7, 10, 0, 4 | 5) => writes,
        (13, 0, 0, 2) => true,
        (13, 0, 0, 3) => !writes,
        _ => false,
    }
}

/// The core.
pub static CORE: CoreDescription = DESCRIPTION;

/// The core with interfaces to save and restore entries of its TLB.
pub static CORE_WITH_TLB_MIGRATION: CoreDescription =
    CoreDescription { rows: &[MIGRATION_ROWS, ROWS], ..DESCRIPTION };

const DESCRIPTION: CoreDescription = CoreDescription {
    open_to_users,
    rows: &[ROWS],
    // Counters of other sorts, address translation of the other security state, direct access to
    // the caches' memory.
    exists: |encoding| {
        matches!(encoding.n, 9 | 15) || encoding.n == 7 && matches!(encoding.m, 4 | 8)
    },
    has_power_control: false,
    has_debug_registers: true,
    has_generic_timers: true,
    has_performance_monitor: true,
    has_accumulator: false,
    preload_fills: true,
    extended_pages: false,
    quarter_entries: false,
    clears_branch_buffer: false,
    // EE: exceptions in big-endian order.
    control_not_modelled: 1 << 25,
    fetch_fault_in_dfsr: None,
    zero_bank: None,
    table_format: TableFormat::V7,
    // Its tables are not of that format.
    memory_type: |_, _| MemoryType::STRONGLY_ORDERED,
    cached_type,
    adjusted_type: |page, _| page,
    instruction_fills: |_| true,
    maintenance: MaintenanceNames {
        invalidate_data_translation: "invalidate the TLB entry (TLBIMVA), space (TLBIASID) or TLB (TLBIALL)",
        invalidate_fetch_translation: "invalidate the TLB entry (TLBIMVA), space (TLBIASID) or TLB (TLBIALL)",
        clean_line: "clean the data cache line of {line} (DCCMVAC or DCCMVAU)",
        clean_to_memory: "clean the data cache line of {line} to the point of coherency (DCCMVAC)",
        invalidate_line: "invalidate the data cache line of {line} (DCIMVAC)",
        invalidate_instructions: "invalidate the instruction cache line of {line} (ICIMVAU)",
        drain: "DSB",
        empty_read_buffer: "",
        invalidate_whole: ["ICIALLU", "DCISW of each set and way", "TLBIALL"],
    },
};

/// Write-through memory is treated as uncached (6.2).
fn cached_type(inner: u32) -> MemoryType {
    match inner {
        WRITE_BACK_ALLOCATE => MemoryType::write_back().allocating(true),
        WRITE_BACK => MemoryType::write_back(),
        _ => MemoryType::uncached(true),
    }
}
