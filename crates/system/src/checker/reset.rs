//! Caches and TLBs whose contents are unknown from reset on, until software has invalidated them.

use std::collections::BTreeSet;

use super::report::Kind;
use super::{Checker, Use, new_report};
use crate::core::{Core, Mmu};
use crate::maintenance::{LineOperation, Maintenance, Scope, Unit};
use crate::memory::CoreMemory;
use crate::observer::Access;

/// What of one core was invalidated since reset.
#[derive(Clone, Default)]
pub(super) struct Invalidated {
    instructions: bool,
    translations: bool,
    /// Slots of the data cache.
    slots: BTreeSet<u64>,
}

mmulab_state::value!(Invalidated { instructions, translations, slots });

impl Invalidated {
    /// A core's own maintenance, or that of another `everywhere`.
    pub(super) fn note(&mut self, maintenance: Maintenance, own: bool) {
        match maintenance {
            Maintenance::Instructions { line: None, everywhere } if own || everywhere => {
                self.instructions = true;
            }
            Maintenance::Translations { scope: Scope::All, everywhere } if own || everywhere => {
                self.translations = true;
            }
            // A clean would write what was there at reset to memory, and leaves it valid.
            Maintenance::Slot { data: Some(slot), operation: LineOperation::Invalidate } if own => {
                self.slots.insert(slot as u64);
            }
            _ => {}
        }
    }
}

impl Checker {
    /// A core turns on caches or translation. Is what they hold known?
    pub(super) fn check_enabling<C: Core>(&mut self, core: &CoreMemory<C>, units: &[Unit]) {
        let Some(invalidated) = self.invalidated.get(core.number) else { return };
        let is_unknown = |unit: &&Unit| match unit {
            Unit::InstructionCache => !invalidated.instructions,
            Unit::DataCache => invalidated.slots.len() < core.dcache.slots(),
            Unit::Translation => !invalidated.translations,
        };
        let unknown: Vec<Unit> = units.iter().filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return;
        }
        let names = |name: &dyn Fn(Unit) -> &'static str| {
            unknown.iter().map(|&unit| name(unit)).collect::<Vec<_>>().join(" and ")
        };
        let used = Use::new(Access::Fetch, core.pc);
        let mut report = new_report(core, Kind::NotInvalidated, &used, core.pc);
        let what = names(&Unit::name);
        report.stale = format!("turned on with what was there at reset: {what}");
        let operations = names(&|unit| core.mmu.maintenance().invalidate_whole[unit as usize]);
        report.missing = format!("{operations}, before");
        self.report(report);
    }
}
