//! Intel XScale: IXP42X Developer's Manual 252480-006; XScale Core Developer's Manual 273473.

use mmulab_system::core::{MaintenanceNames, MemoryType, Side};

use super::CoreDescription;
use crate::cp15::{ANY, Operation::*, Register, Row, rows};
use crate::mmu::{BUFFERABLE, CACHEABLE, CacheTraits, EXTENDED, Registers, TableFormat};

const ROWS: &[Row] = &[
    // 3.5.1.3.
    Row::both(1, 0, 0, 1, AuxiliaryControl),
    // 3.5.1.8: maintenance.
    Row::write(7, 2, 0, 5, AllocateLine),
    Row::write(7, 5, 0, 1, InvalidateInstructionLine),
    Row::write(7, 5, 0, 6, InvalidateBranchBuffer),
    // 3.5.1.10: locking of lines. Nothing is locked at reset, so that unlocking all is done.
    Row::read(9, 2, 0, 0, Zero),
    Row::write(9, 1, ANY, 1, Nothing),
    Row::write(9, 2, ANY, 1, Nothing),
    Row::write(9, 2, ANY, 0, UnlockOnly),
    Row::write(9, 1, ANY, 0, NotModelled),
    // 3.5.1.11: walk for an address and lock the entry, or unlock all.
    Row::write(10, 4, ANY, 0, LockTranslation(Side::Instruction)),
    Row::write(10, 8, ANY, 0, LockTranslation(Side::Data)),
    Row::write(10, 4, ANY, 1, UnlockTranslations(Side::Instruction)),
    Row::write(10, 8, ANY, 1, UnlockTranslations(Side::Data)),
    Row::both(15, 1, 0, 0, Held(Register::CoprocessorAccess)),
];

/// The core.
pub static CORE: CoreDescription = CoreDescription {
    open_to_users: |_, _| false,
    rows: &[ROWS, rows::AFTER_SA1100, rows::COMMON],
    // Breakpoints.
    exists: |encoding| encoding.n == 14,
    has_power_control: true,
    has_debug_registers: false,
    has_generic_timers: false,
    has_performance_monitor: false,
    has_accumulator: true,
    preload_fills: true,
    extended_pages: true,
    // The manual does not say.
    quarter_entries: false,
    clears_branch_buffer: true,
    control_not_modelled: 0x80,
    // That it was a fetch, and neither why nor which domain (3.8.3.4.3): the extension bit,
    // status 0.
    fetch_fault_in_dfsr: Some(1 << 10),
    zero_bank: None,
    table_format: TableFormat::V5,
    memory_type,
    cached_type: |_| MemoryType::STRONGLY_ORDERED,
    adjusted_type,
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

/// X, C and B (3.1.1, tables of data cache and buffer behaviour): X without B is the mini data
/// cache.
fn memory_type(attributes: u8, caches: CacheTraits) -> MemoryType {
    let bufferable = attributes & BUFFERABLE != 0;
    let extended = attributes & EXTENDED != 0;
    if attributes & CACHEABLE == 0 {
        return MemoryType::uncached(bufferable);
    }
    MemoryType::write_through()
        .writing_back(bufferable || extended)
        .allocating(caches.write_allocates && bufferable && extended)
        .in_mini(caches.has_mini && extended && !bufferable)
        .buffered_when_uncached(bufferable)
}

/// MD in the auxiliary control register is the policy of the mini data cache: 1 fetches the lines
/// of stores that miss, 2 writes through (3.5.1.3).
fn adjusted_type(page: MemoryType, registers: &Registers) -> MemoryType {
    if !page.is_in_mini() {
        return page;
    }
    let policy = registers.actlr >> 4 & 3;
    page.writing_back(policy != 2).allocating(policy == 1)
}
