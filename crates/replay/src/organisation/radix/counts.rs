//! What a radix machine counted, on all of its cores.

use super::cores::OtherCores;
use super::{Page, RadixEngine};
use crate::attribution::Attribution;
use crate::caches::{Counted, Side};
use crate::engine::{Counts, EngineResult};
use crate::organisation::TlbCounters;

impl Counts<Page> for RadixEngine {
    fn counters(&self) -> EngineResult<Page> {
        let references = [self.instructions, self.data_references];
        let others = || self.other_cores.iter().flat_map(OtherCores::iter);
        let all = || std::iter::once(&self.core).chain(others());
        let counters = |name: &str, hits, misses| TlbCounters {
            name: name.to_owned(),
            hits,
            misses,
            nested_hits: 0,
            nested_misses: 0,
        };
        let first = |(name, side): (_, Side)| {
            let misses = all().map(|core| core.sides[side as usize].tlb.misses).sum();
            counters(name, references[side as usize].wrapping_sub(misses), misses)
        };
        let mut tlbs: Vec<TlbCounters> =
            [("itlb", Side::Instruction), ("dtlb", Side::Data)].map(first).into();
        if !self.core.second.arrays.is_empty() {
            let hits = all().map(|core| core.second.hits).sum();
            let misses = all().map(|core| core.second.misses).sum();
            tlbs.push(counters("stlb", hits, misses));
        }
        let [fetches, data] = references;
        let others = others().map(|core| &core.caches);
        let caches = self.core.caches.counters_with(others, [fetches, data + self.walk_loads]);
        EngineResult {
            instructions: self.instructions,
            ledger: self.ledger.clone(),
            tlbs,
            caches,
            chains: None,
            tlb_walks: Some(self.walks),
            walk_steps: self.walk_steps,
            host_walk_steps: self.host_walk_steps,
            attribution: Attribution::default(),
        }
    }

    fn follower_counters(&self, own: &EngineResult<Page>) -> Vec<EngineResult<Page>> {
        let counted = Counted { ledger: own.ledger.clone(), caches: own.caches.clone() };
        let result = |Counted { ledger, caches }| EngineResult { ledger, caches, ..own.clone() };
        self.core.caches.followers_counted(counted).into_iter().map(result).collect()
    }

    fn attribution(&mut self) -> &mut Attribution<Page> {
        &mut self.attribution
    }
}
