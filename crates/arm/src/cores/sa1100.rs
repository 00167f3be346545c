//! Intel SA-1100 (StrongARM): Developer's Manual 278088-004.

use mmulab_system::core::{MaintenanceNames, MemoryType};

use super::CoreDescription;
use crate::cp15::{ANY, Encoding, Operation::*, Row, UP_TO, rows};
use crate::mmu::{BUFFERABLE, CACHEABLE, CacheTraits, Registers, TableFormat, control};

const ROWS: &[Row] = &[
    // 5.2.1: no cache type register; the row reads as the ID.
    Row::read(0, ANY, 0, ANY, MainId),
    // 5.2.8: single entries of the data TLB only.
    Row::write(8, 6, ANY, 1, InvalidateTranslation { instructions: false, data: true }),
    // 6.4: the read buffer.
    Row::write(9, 0, ANY, 0, EmptyReadBuffer),
    Row::write(9, UP_TO | 3, ANY, 1, EmptyReadBufferEntry),
    Row::write(9, UP_TO | 11, ANY, 2, ReadAhead),
    Row::write(9, 0, ANY, 4, OpenReadBuffer(false)),
    Row::write(9, 0, ANY, 5, OpenReadBuffer(true)),
    // 5.2.13: wait for interrupt.
    Row::write(15, 8, 0, 2, Wait),
];

/// The core.
pub static CORE: CoreDescription = CoreDescription {
    open_to_users: |_, _| false,
    rows: &[ROWS, rows::COMMON],
    // Clock switching on and off; breakpoints.
    exists: |Encoding { n, m, opcode_1, opcode_2 }| {
        n == 15 && matches!((m, opcode_1, opcode_2), (1 | 2, 0, 2)) || n == 14
    },
    has_power_control: false,
    has_debug_registers: false,
    has_generic_timers: false,
    has_performance_monitor: false,
    has_accumulator: false,
    preload_fills: false,
    extended_pages: false,
    // The manual does not say.
    quarter_entries: false,
    clears_branch_buffer: false,
    control_not_modelled: 0x80,
    fetch_fault_in_dfsr: None,
    zero_bank: Some((0xe000_0000, 0xe800_0000)),
    table_format: TableFormat::V5,
    memory_type,
    cached_type: |_| MemoryType::STRONGLY_ORDERED,
    adjusted_type,
    instruction_fills: |_| true,
    maintenance: MaintenanceNames {
        invalidate_data_translation: "invalidate the data TLB entry (c8, c6, 1) or TLB (c8, c6, 0)",
        invalidate_fetch_translation: "invalidate the instruction TLB (c8, c5, 0)",
        clean_line: "clean the data cache line of {line} (c7, c10, 1)",
        clean_to_memory: "",
        invalidate_line: rows::INVALIDATE_LINE_NAME,
        invalidate_instructions: "invalidate the instruction cache (c7, c5, 0)",
        drain: rows::DRAIN_NAME,
        empty_read_buffer: "empty the read buffer (c9, c0, 0)",
        invalidate_whole: [""; 3],
    },
};

/// Both data caches write back (6.2); the mini data cache takes pages with C and without B. Misses
/// of its pages and uncached pages alike stall (6.3).
fn memory_type(attributes: u8, caches: CacheTraits) -> MemoryType {
    let bufferable = attributes & BUFFERABLE != 0;
    if attributes & CACHEABLE == 0 {
        return MemoryType::uncached(bufferable);
    }
    MemoryType::write_back()
        .in_mini(caches.has_mini && !bufferable)
        .buffered(bufferable)
        .buffered_when_uncached(bufferable)
}

/// Without W in the control register no store waits in the write buffer (5.2.2).
fn adjusted_type(page: MemoryType, registers: &Registers) -> MemoryType {
    if registers.sctlr & control::WRITE_BUFFER != 0 { page } else { page.buffered(false) }
}
