//! Hardware structures: caches, TLBs, their replacement and the cycle ledger.
//!
//! Two drivers share these models: a recorded program (`mmulab-replay`) and a simulated processor
//! core (`mmulab-system`). They therefore know no operating system, no instruction set and no file
//! format, and they never decide what an event costs: they say **what happened and where**, and
//! the driver charges its [`Ledger`].
//!
//! * [`Cache`]: tags, replacement and dirty state, without data.
//! * [`DataCache`]: a cache with its words, and with separate addresses for index and tag.
//! * [`coherence`]: the MOESI protocol between caches, as states and requests.
//! * [`Tlb`]: translations of several page sizes with address-space identifiers, and a payload that
//!   the driver chooses (frame, permissions, domain).
//! * [`TagArray`]: what both are made of, and all there is to a TLB that knows page numbers alone.
//! * [`Ledger`]: cycles by cause and by phase; the causes always sum to the total.
//! * [`Random`]: the one source of randomness, seeded, so that equal inputs give equal results.
//!
//! Nothing here allocates after construction, except [`Ledger::enter_phase`] for a new phase and
//! [`TagArray::aim`].

mod cache;
pub mod coherence;
mod data_cache;
mod ledger;
mod random;
mod replacement;
mod tag_array;
mod tlb;

pub use cache::{Access, Cache, CacheGeometry, Evicted};
pub use data_cache::{DataCache, HeldLine, Line};
pub use ledger::{Account, Cause, Ledger};
pub use random::Random;
pub use replacement::{Recency, Replacement};
pub use tag_array::{GeometryError, Partition, SetIndex, Slot, TagArray, prefetch};
pub use tlb::{Tlb, TlbEntry, TlbGeometry};
