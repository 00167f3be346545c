//! Caches that see what misses the levels of another hierarchy.

use mmulab_hardware::{GeometryError, Ledger};
use mmulab_machine::{Cache, CacheLevel, ReplayMachine};

use super::{CacheCounters, Hierarchy, Location};
use crate::cause::{Cause, Role, Tier};

/// The lower levels of a machine whose upper levels are those of another.
///
/// It is referenced when the level above it in the other hierarchy is missed, and written when that
/// one writes. Others may follow it in turn.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    /// Its place among all that follow the first hierarchy.
    number: usize,
    machine: ReplayMachine,
    hierarchy: Hierarchy,
    /// Misses of its own levels: those that the program waited for, and those beside it.
    ledgers: [Ledger<Cause>; 2],
    is_beside: bool,
}

/// What a machine counted: misses by cause and level, and each of its caches.
pub(crate) struct Counted {
    pub(crate) ledger: Ledger<Cause>,
    pub(crate) caches: Vec<CacheCounters>,
}

impl Follower {
    /// The program, or a walk, comes to `level`, because it missed those above or entered there.
    #[inline]
    pub(super) fn reference(
        &mut self,
        level: usize,
        role: Role,
        at: Location,
        is_store: bool,
        entered: usize,
    ) {
        if level == self.hierarchy.first_number() {
            let ledger = &mut self.ledgers[usize::from(self.is_beside)];
            self.hierarchy.reference_from(level, role, at, is_store, entered, ledger);
        }
    }

    /// A store or a dirty line comes to `level`.
    #[inline]
    pub(super) fn write(&mut self, level: usize, at: Location) {
        if level == self.hierarchy.first_number() {
            self.hierarchy.write_below(level, at);
        }
    }

    /// Adds what the machines here counted to `all`, given what the one that they follow did.
    fn count(&self, above: &Counted, all: &mut Vec<(usize, Counted)>) {
        let first = self.hierarchy.first_number();
        let mut ledger = Ledger::new();
        for &cause in <Cause as mmulab_hardware::Cause>::ALL {
            let from = if is_miss_from(first, self.hierarchy.levels(), cause) {
                &self.ledgers[0]
            } else {
                &above.ledger
            };
            let account = from.account(cause);
            ledger.charge_many(cause, account.count, account.cycles);
        }
        let own = self.hierarchy.counters_of_followed();
        let shared =
            self.machine.cache_levels()[..first].iter().flat_map(CacheLevel::caches).count();
        let mut caches = above.caches[..shared].to_vec();
        caches.extend(own);
        let counted = Counted { ledger, caches };
        self.hierarchy.count_followers(&counted, all);
        all.push((self.number, counted));
    }
}

impl Hierarchy {
    /// Adds the caches of `other`, whose first level is that of this hierarchy of `own`, as those
    /// of machine `number`.
    ///
    /// # Errors
    /// One of them is impossible.
    pub(crate) fn add_follower(
        &mut self,
        number: usize,
        own: &ReplayMachine,
        other: &ReplayMachine,
        seed: u64,
    ) -> Result<(), GeometryError> {
        let (ours, theirs) = (shapes(own), shapes(other));
        let shared = ours.iter().zip(&theirs).take_while(|(one, two)| one == two).count();
        let alike = |follower: &&mut Follower| {
            follower.hierarchy.first_number() == shared
                && shapes(&follower.machine)[shared] == theirs[shared]
        };
        if let Some(follower) = self.followers.iter_mut().find(alike) {
            let Follower { machine, hierarchy, .. } = follower;
            return hierarchy.add_follower(number, machine, other, seed);
        }
        self.followers.push(Follower {
            number,
            machine: other.clone(),
            hierarchy: Hierarchy::from_level(shared, other, seed)?,
            ledgers: [Ledger::new(), Ledger::new()],
            is_beside: false,
        });
        Ok(())
    }

    /// What followers do from here on is beside the program, which does not wait for it, or is not.
    pub(crate) fn set_followers_beside(&mut self, is_beside: bool) {
        for follower in &mut self.followers {
            follower.is_beside = is_beside;
            follower.hierarchy.set_followers_beside(is_beside);
        }
    }

    /// What the followers counted, in the order of their numbers, given what this hierarchy did.
    pub(crate) fn followers_counted(&self, own: Counted) -> Vec<Counted> {
        let mut all = Vec::new();
        self.count_followers(&own, &mut all);
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, counted)| counted).collect()
    }

    fn count_followers(&self, own: &Counted, all: &mut Vec<(usize, Counted)>) {
        self.followers.iter().for_each(|follower| follower.count(own, all));
    }
}

/// Whether a cause is that of a miss in level `first` or below.
fn is_miss_from(first: usize, levels: usize, cause: Cause) -> bool {
    let tiers = [Tier::User, Tier::Kernel, Tier::Root, Tier::Host].map(Role::Pte);
    let roles = tiers.into_iter().chain([Role::Fetch, Role::Data, Role::Handler]);
    roles.into_iter().any(|role| (first..levels).any(|level| role.miss(level, levels) == cause))
}

/// The caches of each level, without what a miss costs.
fn shapes(machine: &ReplayMachine) -> Vec<Vec<Cache>> {
    let without_costs = |cache: &Cache| Cache { latency_cycles: 0, ..cache.clone() };
    let shape = |level: &CacheLevel<'_>| level.caches().map(without_costs).collect();
    machine.cache_levels().iter().map(shape).collect()
}
