//! INTEL: a two-tier table on IA-32, walked top-down by a state machine.
//!
//! Both loads are physical, so they go through the data caches but not through the TLB; no
//! interrupt is taken and no handler is fetched.

use mmulab_machine::{Handler, HardwareTwoTier};

use super::{PAGE_SHIFT, PageTlb, Walk, WalkTarget};
use crate::cause::Tier;

/// The walk of INTEL.
#[derive(Clone, Debug)]
pub struct Intel {
    table: HardwareTwoTier,
}

impl Intel {
    /// Walks the table that a machine file describes.
    pub fn new(table: &HardwareTwoTier) -> Self {
        Self { table: table.clone() }
    }
}

impl Walk for Intel {
    fn handlers(&self) -> Vec<&Handler> {
        Vec::new()
    }

    fn walk(&mut self, page: u32, _data_tlb: &mut PageTlb, target: &mut impl WalkTarget) {
        let table = &self.table;
        let pte_bytes = table.pte_bytes as u32;
        // Page i of the user table belongs to entry i of the root table, so that the user table is
        // linear in effect.
        let user_offset = page * pte_bytes;
        let root_offset = (user_offset >> PAGE_SHIFT) * pte_bytes;
        target.work(table.walker.cycles);
        target.load(Tier::Root, (table.root_table.base_address as u32).wrapping_add(root_offset));
        target.load(Tier::User, (table.user_table.base_address as u32).wrapping_add(user_offset));
    }
}
