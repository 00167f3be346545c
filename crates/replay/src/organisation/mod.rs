//! Memory-management organisations: what happens when no TLB holds a translation.
//!
//! One file holds one organisation. Most of them search a table when a TLB misses: these are a
//! [`Walk`], and [`WithTlbs`] gives it its TLBs. `notlb` acts when a reference leaves the last
//! cache, `base` never, and [`radix`] translates to physical addresses.
//!
//! A walk does not know the caches: it tells a [`WalkTarget`] which handlers run and which entries
//! are loaded, in order. The plain replay's target performs and charges each at once; another
//! target may record them and apply them to many caches.

mod base;
mod intel;
mod inverted;
mod inverted_hw;
mod mach;
mod notlb;
mod pa_risc;
pub mod radix;
mod tlbs;
mod ultrix;

pub use base::Base;
pub use intel::Intel;
pub use inverted::{ChainStatistics, InvertedTable};
pub use inverted_hw::InvertedHardware;
pub use mach::Mach;
pub use mmulab_machine::Handler;
pub use notlb::NoTlb;
pub use pa_risc::PaRisc;
pub use tlbs::{PageTlb, TlbCounters, TlbPair};
pub use ultrix::Ultrix;

use crate::caches::{Location, Side};
use crate::cause::Tier;
use crate::engine::Machine;

/// Page size of the 32-bit organisations, as a shift: 4 KiB.
pub const PAGE_SHIFT: u32 = 12;

/// Where the references of a walk go.
pub trait WalkTarget {
    /// An interrupt is taken and `handler` executes from its first to its last instruction.
    fn run_handler(&mut self, tier: Tier, handler: &Handler);

    /// A state machine works for `cycles`.
    fn work(&mut self, cycles: u32);

    /// An entry of `tier` at `address` is loaded through the data caches.
    fn load(&mut self, tier: Tier, address: u32);

    /// The translation of `page` leaves the TLB of a side.
    fn unmap(&mut self, side: Side, page: u32);
}

/// A [`WalkTarget`] whose caches can be asked.
pub trait LookupTarget: WalkTarget {
    /// Whether a load of `address` would miss every data cache.
    fn would_miss_all(&mut self, address: u32) -> bool;
}

/// How an organisation finds the translation of a page of the program.
pub trait Walk {
    /// Searches the table for `page`. `data_tlb` is the TLB that maps a virtual page table.
    fn walk(&mut self, page: u32, data_tlb: &mut PageTlb, target: &mut impl WalkTarget);

    /// All handlers that it may run.
    fn handlers(&self) -> Vec<&Handler>;

    /// How long the collision chains were, for an organisation that has any.
    fn chains(&self) -> Option<ChainStatistics> {
        None
    }
}

/// Memory management as the replay of a 32-bit machine sees it. Pages are remapped page numbers.
/// What an organisation leaves out is what one without a TLB does: every page is mapped.
pub trait Organisation {
    /// Whether a TLB hit changes nothing.
    fn hits_change_nothing(&self) -> bool {
        true
    }

    /// Whether a fetch from `page` would hit the TLB.
    #[inline(always)]
    fn is_fetch_mapped(&self, page: u32) -> bool {
        let _ = page;
        true
    }

    /// Whether a data reference to `page` would hit the TLB.
    #[inline(always)]
    fn is_data_mapped(&self, page: u32) -> bool {
        let _ = page;
        true
    }

    /// A fetch from `page` is translated; whether that took a walk.
    #[inline(always)]
    fn translate_fetch(&mut self, page: u32, target: &mut impl WalkTarget) -> bool {
        let _ = (page, target);
        false
    }

    /// A data reference to `page` is translated; whether that took a walk.
    #[inline(always)]
    fn translate_data(&mut self, page: u32, target: &mut impl WalkTarget) -> bool {
        let _ = (page, target);
        false
    }

    /// All handlers that it may run.
    fn handlers(&self) -> Vec<&Handler> {
        Vec::new()
    }

    /// How often the organisation's TLBs hit and missed, given the references made to each side.
    fn tlb_counters(&self, references: [u64; 2]) -> Vec<TlbCounters> {
        let _ = references;
        Vec::new()
    }

    /// How long the collision chains were, for an organisation that has any.
    fn chains(&self) -> Option<ChainStatistics> {
        None
    }
}

/// What an organisation does before a reference to caches of this kind.
pub trait OnCacheMiss<C>: Organisation {
    /// The program is about to reference a byte; whether that takes a walk.
    fn before_reference(&mut self, side: Side, at: Location, machine: &mut Machine<C>) -> bool;
}

/// Organisations to which it is all the same what the caches hold.
pub trait IgnoresCaches: Organisation {}

impl<O: IgnoresCaches, C> OnCacheMiss<C> for O {
    #[inline(always)]
    fn before_reference(&mut self, _: Side, _: Location, _: &mut Machine<C>) -> bool {
        false
    }
}

/// An organisation that walks when a TLB misses.
#[derive(Clone, Debug)]
pub struct WithTlbs<W> {
    tlbs: TlbPair,
    walk: W,
}

impl<W: Walk> WithTlbs<W> {
    /// Joins a walk and the TLBs that it refills.
    pub fn new(tlbs: TlbPair, walk: W) -> Self {
        Self { tlbs, walk }
    }
}

impl<W: Walk> IgnoresCaches for WithTlbs<W> {}

impl<W: Walk> Organisation for WithTlbs<W> {
    fn hits_change_nothing(&self) -> bool {
        self.tlbs.instruction.hits_change_nothing() && self.tlbs.data.hits_change_nothing()
    }

    #[inline(always)]
    fn is_fetch_mapped(&self, page: u32) -> bool {
        self.tlbs.instruction.holds(page)
    }

    #[inline(always)]
    fn is_data_mapped(&self, page: u32) -> bool {
        self.tlbs.data.holds(page)
    }

    #[inline]
    fn translate_fetch(&mut self, page: u32, target: &mut impl WalkTarget) -> bool {
        if self.tlbs.instruction.lookup(page) {
            return false;
        }
        self.walk.walk(page, &mut self.tlbs.data, target);
        if let Some(evicted) = self.tlbs.instruction.insert(page) {
            target.unmap(Side::Instruction, evicted);
        }
        true
    }

    #[inline]
    fn translate_data(&mut self, page: u32, target: &mut impl WalkTarget) -> bool {
        if self.tlbs.data.lookup(page) {
            return false;
        }
        self.walk.walk(page, &mut self.tlbs.data, target);
        if let Some(evicted) = self.tlbs.data.insert(page) {
            target.unmap(Side::Data, evicted);
        }
        true
    }

    fn handlers(&self) -> Vec<&Handler> {
        self.walk.handlers()
    }

    fn tlb_counters(&self, references: [u64; 2]) -> Vec<TlbCounters> {
        vec![
            self.tlbs.instruction.counters("itlb", references[0]),
            self.tlbs.data.counters("dtlb", references[1]),
        ]
    }

    fn chains(&self) -> Option<ChainStatistics> {
        self.walk.chains()
    }
}
