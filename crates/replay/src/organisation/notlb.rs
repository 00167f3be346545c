//! NOTLB: virtual caches that software fills, and no TLB.
//!
//! A reference of the program that misses every cache interrupts; the user handler loads the user
//! entry, whose address is virtual too, so that where it is in no cache either, the root handler runs
//! first. The root table and the handlers are in unmapped space and cannot miss in this sense.

use mmulab_machine::{Handler, TwoTier};

use super::ultrix::two_tier_entries;
use super::{Organisation, WalkTarget};
use crate::cause::Tier;

/// Memory management of NOTLB.
#[derive(Clone, Debug)]
pub struct NoTlb {
    table: TwoTier,
}

impl NoTlb {
    /// Walks the table that a machine file describes.
    pub fn new(table: &TwoTier) -> Self {
        Self { table: table.clone() }
    }
}

impl Organisation for NoTlb {
    const ACTS_ON_CACHE_MISSES: bool = true;

    fn handlers(&self) -> Vec<&Handler> {
        vec![&self.table.user_handler, &self.table.root_handler]
    }

    fn before_fill(&mut self, page: u32, target: &mut impl WalkTarget) {
        let (user_entry, root_entry) = two_tier_entries(&self.table, page);
        target.run_handler(Tier::User, &self.table.user_handler);
        if target.is_in_memory_only(user_entry) {
            target.run_handler(Tier::Root, &self.table.root_handler);
            target.load(Tier::Root, root_entry);
        }
        target.load(Tier::User, user_entry);
    }
}
