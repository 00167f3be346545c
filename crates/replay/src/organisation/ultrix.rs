//! ULTRIX: a two-tier table on MIPS, walked bottom-up by software.
//!
//! The user table is a linear array in mapped kernel space; a root table in physical memory maps
//! it. The user handler's load of a user entry goes through the data TLB, and where that misses,
//! the root handler maps the page of the user table, in one of the protected slots.

use mmulab_machine::{Handler, TwoTier};

use super::{PAGE_SHIFT, PageTlb, Walk, WalkTarget};
use crate::cause::Tier;

/// The walk of ULTRIX.
#[derive(Clone, Debug)]
pub struct Ultrix {
    table: TwoTier,
}

impl Ultrix {
    /// Walks the table that a machine file describes.
    pub fn new(table: &TwoTier) -> Self {
        Self { table: table.clone() }
    }
}

/// Where the entries of a program page are in the two tiers.
pub(super) fn two_tier_entries(table: &TwoTier, page: u32) -> (u32, u32) {
    let user_offset = page * table.pte_bytes as u32;
    let user = (table.user_table.base_address as u32).wrapping_add(user_offset);
    let root_offset = (user_offset >> PAGE_SHIFT) * table.pte_bytes as u32;
    (user, (table.root_table.base_address as u32).wrapping_add(root_offset))
}

impl Walk for Ultrix {
    fn handlers(&self) -> Vec<&Handler> {
        vec![&self.table.user_handler, &self.table.root_handler]
    }

    fn walk(&mut self, page: u32, data_tlb: &mut PageTlb, target: &mut impl WalkTarget) {
        let (user_entry, root_entry) = two_tier_entries(&self.table, page);
        target.run_handler(Tier::User, &self.table.user_handler);
        if !data_tlb.lookup_nested(user_entry >> PAGE_SHIFT) {
            target.run_handler(Tier::Root, &self.table.root_handler);
            target.load(Tier::Root, root_entry);
            data_tlb.insert_protected(user_entry >> PAGE_SHIFT);
        }
        target.load(Tier::User, user_entry);
    }
}
