//! The cache hierarchy under a replayed program.
//!
//! [`SplitDirectMapped`] is the shape of the 1998 study and the fast one; [`Hierarchy`] is every
//! other. Both give the same for the shapes that both can be, and a test compares them. All take
//! references ([`Caches`]); what else a driver may ask of some of them is in traits of its own.

use std::ops::Range;

use mmulab_hardware::Ledger;
use mmulab_machine::{CacheLevel, ReplayMachine};

use crate::cause::{Cause, Role};

mod deferred;
mod follower;
mod hierarchy;
pub(crate) mod l0_filter;
mod split_direct_mapped;

pub(crate) use follower::{Counted, Follower};
pub use hierarchy::Hierarchy;
pub(crate) use hierarchy::replacement;
pub(crate) use l0_filter::Filtered;
pub use split_direct_mapped::SplitDirectMapped;
pub(crate) use split_direct_mapped::Tags;

/// How many levels a machine file can describe.
pub const MAXIMUM_LEVELS: usize = 3;

/// The two sides of a split level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instructions of the program and of handlers.
    Instruction,
    /// The program's data and page-table entries.
    Data,
}

impl Role {
    /// The side that this role references.
    pub fn side(self) -> Side {
        match self {
            Role::Fetch | Role::Handler => Side::Instruction,
            Role::Data | Role::Pte(_) => Side::Data,
        }
    }
}

/// A byte of memory by its virtual and its physical address. Where no cache is physical the two are
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// As the program, a handler or a walk addresses it.
    pub virtual_address: u64,
    /// Where it is.
    pub physical_address: u64,
}

impl Location {
    /// A byte whose virtual and physical address are the same.
    #[inline(always)]
    pub fn same(address: u64) -> Self {
        Self { virtual_address: address, physical_address: address }
    }
}

/// Caches that take references, fill, and charge what misses cost.
pub trait Caches {
    /// Whether any cache goes by physical addresses, so that a driver must know them.
    fn any_is_physical(&self) -> bool {
        false
    }

    /// Whether instructions and data share the first level.
    fn first_level_is_unified(&self) -> bool {
        false
    }

    /// log2 of the line size of the first level of a side.
    fn line_shift(&self, side: Side) -> u32;

    /// References the line of a byte, fills where it missed, and charges each miss to `ledger`.
    fn reference(&mut self, role: Role, at: Location, is_store: bool, ledger: &mut Ledger<Cause>);

    /// References the line of a byte of the program's data; `program_address` is its address before
    /// remapping.
    #[inline(always)]
    fn reference_data(
        &mut self,
        program_address: u64,
        at: Location,
        is_store: bool,
        ledger: &mut Ledger<Cause>,
    ) {
        let _ = program_address;
        self.reference(Role::Data, at, is_store, ledger);
    }

    /// The translation of the page of the program at `address` left the TLB of a side. Only who
    /// derives hits from translations has something to do.
    fn translation_evicted(&mut self, side: Side, address: u64) {
        let _ = (side, address);
    }

    /// What each cache did. `references` are those made to the first level, by side: a driver need
    /// not come here for a hit that changes nothing, so it counts them.
    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters>;
}

/// Split caches whose first levels are direct-mapped and virtual: a hit changes nothing, stores are
/// as loads, and instructions and data meet in no cache, so that an
/// [`L0Filter`](l0_filter::L0Filter) can stand before each side.
pub trait DirectMapped: Caches {
    /// How many sets the first level of a side has, the smallest where there are several.
    fn first_level_sets(&self, side: Side) -> usize;

    /// The bits of an address in which two must agree for their lines to evict each other in any
    /// cache of a side: those above the longest line and within the smallest cache.
    fn index_bits(&self, side: Side) -> Range<u32>;
}

/// Caches whose first level can be looked up without a reference, and where a hit changes nothing.
pub trait FirstLevelLookup: Caches {
    /// Whether the first level of a side holds `address`; of several, whether all do.
    fn holds(&self, side: Side, address: u32) -> bool;
}

/// Caches in which all levels can be looked up without a reference.
pub trait AllLevelsLookup: Caches {
    /// Whether a reference would miss every cache on a side. Changes nothing that matters.
    fn would_miss_all(&mut self, side: Side, at: Location) -> bool;
}

/// What one cache did, for the program and for walks and handlers together.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CacheCounters {
    /// `L1i`, `L1d`, `L2`, ...
    pub name: String,
    /// References that found their line.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Those of the misses that were stores; not known of split direct-mapped caches that treat
    /// stores as loads.
    pub store_misses: Option<u64>,
    /// Dirty lines that left it for the level below.
    pub write_backs: u64,
}

/// [`DirectMapped::index_bits`] of direct-mapped caches, each with its number of lines (a power of
/// two) and log2 of their length.
pub(crate) fn index_bits(caches: impl Iterator<Item = (usize, u32)> + Clone) -> Range<u32> {
    let longest = caches.clone().map(|(_, shift)| shift).max().unwrap_or(0);
    let smallest = caches.map(|(lines, shift)| lines.trailing_zeros() + shift).min().unwrap_or(0);
    longest.min(smallest)..smallest
}

/// Cycles added by a miss in each level.
pub(crate) fn miss_cycles(machine: &ReplayMachine) -> [u64; MAXIMUM_LEVELS] {
    let levels = machine.cache_levels();
    let mut cycles = [0; MAXIMUM_LEVELS];
    for (level, cycles) in cycles.iter_mut().enumerate().take(levels.len()) {
        *cycles = u64::from(match levels.get(level + 1) {
            Some(CacheLevel::Split { data, .. }) => data.latency_cycles,
            Some(CacheLevel::Unified(cache)) => cache.latency_cycles,
            None => machine.memory.latency_cycles,
        });
    }
    cycles
}
