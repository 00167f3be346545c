//! What tells one core from another, other than the values in the machine's file: a file for each,
//! with the rows of its system control coprocessor, what the attribute bits of its tables mean, and
//! the names of its maintenance operations. Nothing outside of these files asks which core it is.

mod arm920t;
mod arm926ejs;
mod cortex_a7;
mod sa1100;
mod xscale;

use mmulab_machine::ArmCoprocessor;
use mmulab_system::core::{MaintenanceNames, MemoryType};

use crate::cp15::Row;
use crate::mmu::{CacheTraits, Registers, TableFormat};

/// A core.
#[derive(Debug)]
pub struct CoreDescription {
    /// Registers and operations of coprocessor 15; the first row that fits counts.
    pub rows: &'static [&'static [Row]],
    /// Registers and operations of user mode, which may use no others.
    pub open_to_users: fn(crate::cp15::Encoding, bool) -> bool,
    /// Whether a register or operation that has no row exists, and is just not modelled.
    pub exists: fn(crate::cp15::Encoding) -> bool,
    /// Coprocessor 14 holds clock and power control.
    pub has_power_control: bool,
    /// Coprocessor 14 holds debug registers, which are not modelled.
    pub has_debug_registers: bool,
    /// Coprocessor 15 has generic timers in c14.
    pub has_generic_timers: bool,
    /// Whether it has the performance monitor of ARMv7 (coprocessor 15, c9).
    pub has_performance_monitor: bool,
    /// Coprocessor 0 is the 40-bit accumulator.
    pub has_accumulator: bool,
    /// PLD fetches its line.
    pub preload_fills: bool,
    /// Descriptors have the X bit, and small pages an extended form.
    pub extended_pages: bool,
    /// Where the quarters of a page have other permissions, the TLB has an entry for each quarter.
    pub quarter_entries: bool,
    /// A write of the process ID or an invalidation of the instruction cache also empties the
    /// branch target buffer.
    pub clears_branch_buffer: bool,
    /// The bits of the control register that are kept and change nothing here.
    pub control_not_modelled: u32,
    /// What the data fault status says after a refused fetch, on a core that has one register for
    /// both.
    pub fetch_fault_in_dfsr: Option<u32>,
    /// A bank that reads as zero.
    pub zero_bank: Option<(u32, u32)>,
    /// Which descriptors its tables hold.
    pub table_format: TableFormat,
    /// What a page's attribute bits mean, of tables of ARMv5.
    pub memory_type: fn(u8, CacheTraits) -> MemoryType,
    /// What the inner cacheability of normal memory means, of tables of ARMv7: 0 uncached, 1
    /// write-back that allocates on stores, 2 write-through, 3 write-back.
    pub cached_type: fn(u32) -> MemoryType,
    /// A page's type as control, debug and auxiliary control registers leave it for data.
    pub adjusted_type: fn(MemoryType, &Registers) -> MemoryType,
    /// Whether the instruction cache takes new lines.
    pub instruction_fills: fn(&Registers) -> bool,
    /// The names of the maintenance operations in reports.
    pub maintenance: MaintenanceNames,
}

impl CoreDescription {
    /// The core that a machine's file names.
    pub fn of(coprocessor: ArmCoprocessor) -> &'static CoreDescription {
        match coprocessor {
            ArmCoprocessor::Sa1100 => &sa1100::CORE,
            ArmCoprocessor::Xscale => &xscale::CORE,
            ArmCoprocessor::Arm920t => &arm920t::CORE,
            ArmCoprocessor::Arm926ejs => &arm926ejs::CORE,
            ArmCoprocessor::CortexA7 => &cortex_a7::CORE,
            ArmCoprocessor::CortexA7TlbMigration => &cortex_a7::CORE_WITH_TLB_MIGRATION,
        }
    }
}

/// Cores whose C and B bits have the meaning of the ARM manuals (ARM DDI 0100, B5.4): write-back
/// with both, write-through with C, buffered with B.
fn plain_memory_type(attributes: u8, caches: CacheTraits) -> MemoryType {
    let bufferable = attributes & crate::mmu::BUFFERABLE != 0;
    if attributes & crate::mmu::CACHEABLE == 0 {
        MemoryType::uncached(bufferable)
    } else {
        MemoryType::write_through()
            .writing_back(bufferable && caches.writes_back)
            .buffered_when_uncached(bufferable)
    }
}
