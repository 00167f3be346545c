//! NOTLB: virtual caches that software fills, and no TLB.
//!
//! A reference of the program that misses every cache interrupts; the user handler loads the user
//! entry, whose address is virtual too, so that where it is in no cache either, the root handler
//! runs first. The root table and the handlers are in unmapped space and cannot miss in this sense.

use mmulab_machine::{Handler, TwoTier};

use super::ultrix::two_tier_entries;
use super::{LookupTarget, OnCacheMiss, Organisation, PAGE_SHIFT};
use crate::caches::{AllLevelsLookup, Location, Side};
use crate::cause::Tier;
use crate::engine::Machine;

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

    /// Walks for a reference to `page`, which is about to be filled from memory.
    pub(crate) fn walk(&self, page: u32, target: &mut impl LookupTarget) {
        let (user_entry, root_entry) = two_tier_entries(&self.table, page);
        target.run_handler(Tier::User, &self.table.user_handler);
        if target.would_miss_all(user_entry) {
            target.run_handler(Tier::Root, &self.table.root_handler);
            target.load(Tier::Root, root_entry);
        }
        target.load(Tier::User, user_entry);
    }
}

impl<C: AllLevelsLookup> OnCacheMiss<C> for NoTlb {
    #[inline(always)]
    fn before_reference(&mut self, side: Side, at: Location, machine: &mut Machine<C>) -> bool {
        let walks = machine.caches.would_miss_all(side, at);
        if walks {
            self.walk(at.virtual_address as u32 >> PAGE_SHIFT, machine);
        }
        walks
    }
}

impl Organisation for NoTlb {
    fn handlers(&self) -> Vec<&Handler> {
        vec![&self.table.user_handler, &self.table.root_handler]
    }
}
