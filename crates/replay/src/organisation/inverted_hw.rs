//! INVERTED-HW: the inverted table walked by a state machine, which the study predicts to be best.

use mmulab_machine::{ChainWalker, Handler, HardwareInverted};

use super::{ChainStatistics, InvertedTable, PageTlb, Walk, WalkTarget};
use crate::cause::Tier;

/// The walk of an inverted table by hardware: no interrupt, no handler.
#[derive(Clone, Debug)]
pub struct InvertedHardware {
    walker: ChainWalker,
    table: InvertedTable,
}

impl InvertedHardware {
    /// Walks the table that a machine file describes.
    pub fn new(table: &HardwareInverted) -> Self {
        Self {
            walker: table.walker.clone(),
            table: InvertedTable::new(&table.hash_table, &table.collision_table, table.pte_bytes),
        }
    }
}

impl Walk for InvertedHardware {
    fn handlers(&self) -> Vec<&Handler> {
        Vec::new()
    }

    fn walk(&mut self, page: u32, _data_tlb: &mut PageTlb, target: &mut impl WalkTarget) {
        let searched = self.table.search(page, |entry| target.load(Tier::User, entry));
        target.work(self.walker.cycles + self.walker.cycles_per_link * (searched - 1));
    }

    fn chains(&self) -> Option<ChainStatistics> {
        Some(self.table.statistics())
    }
}
