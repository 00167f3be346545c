//! What an engine has counted.

use mmulab_hardware::{Cause as _, Ledger};

use crate::attribution::{Attribution, Numbered};
use crate::caches::CacheCounters;
use crate::cause::Cause;
use crate::organisation::{ChainStatistics, TlbCounters};

/// An engine that tells at any time what it has counted.
pub trait Counts<P> {
    /// What has happened so far, without walks by page.
    fn counters(&self) -> EngineResult<P>;

    /// What has happened so far on machines that follow this one and differ in their lower caches,
    /// at the costs of this one, given [`Counts::counters`].
    fn follower_counters(&self, own: &EngineResult<P>) -> Vec<EngineResult<P>> {
        let _ = own;
        Vec::new()
    }

    /// Walks by page.
    fn attribution(&mut self) -> &mut Attribution<P>;
}

/// Hits as they are reported: none where there were fewer.
pub fn hits_at_end(hits: u64) -> u64 {
    u64::try_from(hits.cast_signed()).unwrap_or(0)
}

/// What an engine has to say at the end of a program.
#[derive(Clone, Debug)]
pub struct EngineResult<P> {
    /// Instructions of the program.
    pub instructions: u64,
    /// Costs so far, without issue.
    pub ledger: Ledger<Cause>,
    /// TLBs.
    pub tlbs: Vec<TlbCounters>,
    /// Caches.
    pub caches: Vec<CacheCounters>,
    /// Collision chains.
    pub chains: Option<ChainStatistics>,
    /// Walks of a machine that has TLBs.
    pub tlb_walks: Option<u64>,
    /// Steps of hardware walks that cost cycles each.
    pub walk_steps: u64,
    /// Likewise in a hypervisor's tables.
    pub host_walk_steps: u64,
    /// Walks by page.
    pub attribution: Attribution<P>,
}

impl<P: Numbered> EngineResult<P> {
    /// What happened after `before`, an earlier result of the same engine; walks by page stay as
    /// they are.
    ///
    /// Hits are references less misses. Accesses that span lines or pages may miss twice, so that
    /// in a few instructions hits may be negative, modulo 2^64: [`hits_at_end`] is for results.
    pub fn since(mut self, before: &Self) -> Self {
        self.instructions -= before.instructions;
        let mut ledger = Ledger::new();
        for &cause in Cause::ALL {
            let (now, then) = (self.ledger.account(cause), before.ledger.account(cause));
            ledger.charge_many(cause, now.count - then.count, now.cycles - then.cycles);
        }
        self.ledger = ledger;
        for (tlb, earlier) in self.tlbs.iter_mut().zip(&before.tlbs) {
            tlb.hits = tlb.hits.wrapping_sub(earlier.hits);
            tlb.misses -= earlier.misses;
            tlb.nested_hits -= earlier.nested_hits;
            tlb.nested_misses -= earlier.nested_misses;
        }
        for (cache, earlier) in self.caches.iter_mut().zip(&before.caches) {
            cache.hits = cache.hits.wrapping_sub(earlier.hits);
            cache.misses -= earlier.misses;
            cache.write_backs -= earlier.write_backs;
            if let (Some(now), Some(then)) = (&mut cache.store_misses, earlier.store_misses) {
                *now -= then;
            }
        }
        self.chains = self.chains.zip(before.chains.as_ref()).map(|(now, then)| now.since(then));
        self.tlb_walks = self.tlb_walks.zip(before.tlb_walks).map(|(now, then)| now - then);
        self.walk_steps -= before.walk_steps;
        self.host_walk_steps -= before.host_walk_steps;
        self
    }
}
