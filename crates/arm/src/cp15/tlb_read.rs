//! Reading the TLB's memory by coprocessor operations (Cortex-A7: ARM DDI 0464F, 6.6.3): what an
//! entry looks like in the data registers.

use mmulab_system::core::Translation;
use mmulab_system::memory::CoreMemory;
use mmulab_system::tlb::Entry;

use crate::caches::CacheKind;
use crate::cpu::Cpu;
use crate::mmu_v7::{NEVER_EXECUTED, NOT_EXECUTED_PRIVILEGED};

/// Bit of the operation's value: the way.
const WAY_SHIFT: u32 = 31;
/// Indices of the main TLB; the walk cache and the IPA cache follow, which are not modelled and
/// read as invalid.
const MAIN_INDICES: u32 = 128;

/// The entry that the operation's value names, as the three data registers have it.
pub(super) fn descriptor<K: CacheKind>(memory: &CoreMemory<Cpu<K>>, value: u32) -> [u32; 3] {
    let (way, index) = (value >> WAY_SHIFT, value & 0xff);
    if index >= MAIN_INDICES {
        return [0; 3];
    }
    let bits = memory.itlb.entry_at(index, way).map_or(0, descriptor_of);
    [bits as u32, (bits >> 32) as u32, (bits >> 64) as u32]
}

/// The 86 bits of a valid entry (table 6-9). The size in bits 3 to 1 is encoded as the Cortex-A53's
/// short descriptors are (ARM DDI 0500D, table 6-13): twice the stage 1 size. No second stage, no
/// security state, and of the memory type the inner one with its shareability.
fn descriptor_of(entry: &Entry) -> u128 {
    let page: &Translation = &entry.payload;
    let size = match entry.page_shift {
        12 => 0,
        16 => 1,
        20 => 2,
        _ => 3,
    };
    let bit = |set: bool, place: u32| u128::from(set) << place;
    let inner = match (page.memory_type.is_cached(), page.memory_type.is_buffered()) {
        (true, _) => 1,
        (false, true) => 0,
        (false, false) => 3,
    };
    let kind = inner << 4 | u128::from(page.memory_type.is_shareable()) << 1;
    1 | size << 2
        | u128::from(entry.virtual_address as u32 >> 19) << 5
        | u128::from(entry.asid & 0xff) << 26
        | bit(!entry.global, 34)
        | u128::from(page.permissions & 7) << 35
        | u128::from(page.physical >> 12) << 41
        | bit(page.permissions & NOT_EXECUTED_PRIVILEGED != 0, 69)
        | bit(page.permissions & NEVER_EXECUTED != 0, 70)
        | kind << 72
        | u128::from(page.domain) << 78
        | size << 82
}
