//! ARM926EJ-S: Technical Reference Manual, ARM DDI 0198D.

use mmulab_system::core::{MaintenanceNames, MemoryType, Side};

use super::{CoreDescription, plain_memory_type};
use crate::cp15::{ANY, Operation::*, Register, Row, rows};
use crate::mmu::{Registers, TableFormat};

/// Bits of the cache debug control register (appendix B): no fills of the data cache, none of the
/// instruction cache, every store writes through.
const NO_DATA_FILLS: u32 = 1;
const NO_INSTRUCTION_FILLS: u32 = 2;
const NO_WRITE_BACK: u32 = 4;

const ROWS: &[Row] = &[
    // 2.3.2; no tightly coupled memory.
    Row::read(0, 0, 0, 2, Zero),
    // 2.3.9: test and clean, with and without invalidating.
    Row::read(7, 10, 0, 3, TestAndClean { invalidate: false }),
    Row::read(7, 14, 0, 3, TestAndClean { invalidate: true }),
    // 2.3.8: one TLB of both sides.
    Row::write(8, 7, ANY, 1, InvalidateTranslation { instructions: true, data: true }),
    // 2.3.10: lock bits, one a way.
    Row::both(9, 0, ANY, 0, CacheLockdownWays(Side::Data)),
    Row::both(9, 0, ANY, 1, CacheLockdownWays(Side::Instruction)),
    // No tightly coupled memory.
    Row::read(9, 1, 0, 0, Zero),
    Row::read(9, 1, 0, 1, Zero),
    // 2.3.11: while P (bit 0) is set, walks fill the lockdown part, and the victim (28 to 26)
    // counts up.
    Row::both(10, 0, ANY, 0, TlbLockdownPart),
    Row::both(13, 0, 0, 1, Held(Register::ContextId)),
    Row::both(15, 0, 7, 0, CacheDebug),
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
    // 3.2.12: subpages.
    quarter_entries: true,
    clears_branch_buffer: false,
    // B, and L4: loads of the PC stay in ARM state.
    control_not_modelled: 0x8080,
    fetch_fault_in_dfsr: None,
    zero_bank: None,
    table_format: TableFormat::V5,
    memory_type: plain_memory_type,
    cached_type: |_| MemoryType::STRONGLY_ORDERED,
    adjusted_type,
    instruction_fills: |registers| registers.cache_debug & NO_INSTRUCTION_FILLS == 0,
    maintenance: MaintenanceNames {
        invalidate_data_translation: "invalidate the TLB entry (c8, c7, 1) or the TLB (c8, c7, 0)",
        invalidate_fetch_translation: "invalidate the TLB entry (c8, c7, 1) or the TLB (c8, c7, 0)",
        clean_line: rows::CLEAN_LINE_NAME,
        clean_to_memory: "",
        invalidate_line: rows::INVALIDATE_LINE_NAME,
        invalidate_instructions: rows::INVALIDATE_INSTRUCTION_LINE_NAME,
        drain: rows::DRAIN_NAME,
        empty_read_buffer: "",
        invalidate_whole: [""; 3],
    },
};

fn adjusted_type(page: MemoryType, registers: &Registers) -> MemoryType {
    let debug = registers.cache_debug;
    if debug == 0 {
        return page;
    }
    let page = page.filling(debug & NO_DATA_FILLS == 0);
    if debug & NO_WRITE_BACK == 0 {
        return page;
    }
    // Then a write-back page is as a write-through one. What is left of it with caches off is not
    // asked while they are on.
    page.writing_back(false).buffered_when_uncached(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_write_back_both_kinds_of_cached_page_are_the_same() {
        let registers = Registers { cache_debug: NO_WRITE_BACK, ..Registers::default() };
        let types = [MemoryType::write_back(), MemoryType::write_through()];
        let [write_back, write_through] = types.map(|page| adjusted_type(page, &registers));
        assert_eq!(write_back, write_through);
        assert_ne!(types[0], types[1]);
        let uncached = adjusted_type(MemoryType::uncached(true), &registers);
        assert!(uncached.is_buffered() && !uncached.is_cached());
    }
}
