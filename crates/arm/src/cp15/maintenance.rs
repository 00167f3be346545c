//! Maintenance of TLBs and instruction caches that a core does for itself or for all.

use mmulab_system::maintenance::{Maintenance, Scope};
use mmulab_system::memory::CoreMemory;

use super::Operation;
use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};

/// Tells observers of maintenance that others may have to wait for.
pub(super) fn announce<K: CacheKind>(
    memory: &mut CoreMemory<Cpu<K>>,
    bus: &mut Bus<K>,
    operation: Operation,
    value: u32,
    everywhere: bool,
) {
    let space = value as u16 & 0xff;
    let scope = match operation {
        Operation::InvalidateSharedTranslation { all_spaces } => {
            Scope::Address(value & !0xfff, (!all_spaces).then_some(space))
        }
        Operation::InvalidateSpace => Scope::Space(space),
        Operation::InvalidateTranslations { .. } => Scope::All,
        _ => {
            return memory.announce(bus, Maintenance::Instructions { line: None, everywhere });
        }
    };
    memory.announce(bus, Maintenance::Translations { scope, everywhere });
}

/// Maintenance that a core does for itself, or for another that broadcasts it.
pub(super) fn maintain<K: CacheKind>(
    memory: &mut CoreMemory<Cpu<K>>,
    bus: &mut Bus<K>,
    operation: Operation,
    value: u32,
) {
    match operation {
        Operation::InvalidateSharedTranslation { all_spaces } => {
            let space = (!all_spaces).then_some(value as u16 & 0xff);
            memory.invalidate_translation_of(bus, value & !0xfff, space);
        }
        Operation::InvalidateSpace => memory.invalidate_address_space(bus, value as u16 & 0xff),
        Operation::InvalidateTranslations { instructions, data } => {
            memory.invalidate_translations(bus, instructions, data);
        }
        Operation::InvalidateInstructions { data } => memory.invalidate_instructions(bus, data),
        _ => debug_assert!(false, "{operation:?} is for one core"),
    }
}
