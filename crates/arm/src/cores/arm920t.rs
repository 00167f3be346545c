//! ARM920T: Technical Reference Manual, ARM DDI 0151C.

use mmulab_system::core::{MaintenanceNames, MemoryType, Side};

use super::{CoreDescription, plain_memory_type};
use crate::cp15::{ANY, Operation::*, Row, rows};
use crate::mmu::TableFormat;

const ROWS: &[Row] = &[
    // 2.3.10: base and victim. Ways below stay, and the next fill of each segment takes this one.
    Row::both(9, 0, ANY, 0, CacheLockdownBase(Side::Data)),
    Row::both(9, 0, ANY, 1, CacheLockdownBase(Side::Instruction)),
    // 2.3.13: base in bits 31 to 26, victim in 25 to 20, P in bit 0.
    Row::both(10, 0, ANY, 0, TlbLockdownBase(Side::Data)),
    Row::both(10, 0, ANY, 1, TlbLockdownBase(Side::Instruction)),
];

/// The core.
pub static CORE: CoreDescription = CoreDescription {
    open_to_users: |_, _| false,
    rows: &[ROWS, rows::AFTER_SA1100, rows::ARM9, rows::COMMON],
    // Test registers.
    exists: |encoding| encoding.n == 15,
    has_power_control: false,
    has_debug_registers: false,
    has_generic_timers: false,
    has_performance_monitor: false,
    has_accumulator: false,
    preload_fills: false,
    extended_pages: false,
    // 3.3.12: subpages.
    quarter_entries: true,
    clears_branch_buffer: false,
    control_not_modelled: 0x80,
    fetch_fault_in_dfsr: None,
    zero_bank: None,
    table_format: TableFormat::V5,
    memory_type: plain_memory_type,
    cached_type: |_| MemoryType::STRONGLY_ORDERED,
    adjusted_type: |page, _| page,
    instruction_fills: |_| true,
    maintenance: MaintenanceNames {
        invalidate_data_translation: rows::INVALIDATE_DATA_TRANSLATION_NAME,
        invalidate_fetch_translation: rows::INVALIDATE_FETCH_TRANSLATION_NAME,
        clean_line: rows::CLEAN_LINE_NAME,
        clean_to_memory: "",
        invalidate_line: rows::INVALIDATE_LINE_NAME,
        invalidate_instructions: rows::INVALIDATE_INSTRUCTION_LINE_NAME,
        drain: rows::DRAIN_NAME,
        empty_read_buffer: "",
        invalidate_whole: [""; 3],
    },
};
