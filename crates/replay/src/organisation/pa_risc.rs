//! PA-RISC: a hashed inverted table, walked by software at physical addresses.

use mmulab_machine::{Handler, Inverted};

use super::{ChainStatistics, InvertedTable, PageTlb, Walk, WalkTarget};
use crate::cause::Tier;

/// The walk of PA-RISC.
#[derive(Clone, Debug)]
pub struct PaRisc {
    handler: Handler,
    table: InvertedTable,
}

impl PaRisc {
    /// Walks the table that a machine file describes.
    pub fn new(table: &Inverted) -> Self {
        Self {
            handler: table.user_handler.clone(),
            table: InvertedTable::new(&table.hash_table, &table.collision_table, table.pte_bytes),
        }
    }
}

impl Walk for PaRisc {
    fn handlers(&self) -> Vec<&Handler> {
        vec![&self.handler]
    }

    fn walk(&mut self, page: u32, _data_tlb: &mut PageTlb, target: &mut impl WalkTarget) {
        target.run_handler(Tier::User, &self.handler);
        self.table.search(page, |entry| target.load(Tier::User, entry));
    }

    fn chains(&self) -> Option<ChainStatistics> {
        Some(self.table.statistics())
    }
}
