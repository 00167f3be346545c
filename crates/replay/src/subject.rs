//! Machines that share one replay.

use mmulab_machine::ReplayMachine;

use crate::attribution::{Numbered, Regions};
use crate::costs::{are_same_to_first_level, at_costs_of, do_the_same};
use crate::engine::EngineResult;
use crate::outcome::{Outcome, PageInProgram};

/// Gives `machine` to the first of the subjects from `first` on that can cover it, or to a new one;
/// the subject and the machine's place among its outcomes.
pub(crate) fn add_to_subjects(
    subjects: &mut Vec<Subject>,
    first: usize,
    machine: &ReplayMachine,
    cores: usize,
) -> (usize, usize) {
    let found =
        (first..subjects.len()).find_map(|at| Some((at, subjects[at].cover(machine, cores)?)));
    found.unwrap_or_else(|| {
        subjects.push(Subject::new(machine.clone()));
        (subjects.len() - 1, 0)
    })
}

/// A machine to be driven, and others that are found out beside it.
pub(crate) struct Subject {
    pub(crate) machine: ReplayMachine,
    /// Those whose first levels do the same, so that its engine drives their lower caches.
    pub(crate) followers: Vec<ReplayMachine>,
    /// Those that have outcomes after the first machine: 0 or a follower's place plus one, which
    /// does the same at the costs of that follower, and the machine.
    others: Vec<(usize, ReplayMachine)>,
}

impl Subject {
    pub(crate) fn new(machine: ReplayMachine) -> Self {
        Self { machine, followers: Vec::new(), others: Vec::new() }
    }

    /// Takes `machine` too, if it can be found out beside the own one, both with so many `cores`;
    /// its place among the outcomes.
    fn cover(&mut self, machine: &ReplayMachine, cores: usize) -> Option<usize> {
        let mut driven = std::iter::once(&self.machine).chain(&self.followers);
        let does_the_same = match driven.position(|driven| do_the_same(driven, machine)) {
            Some(place) => place,
            None if cores == 1 && are_same_to_first_level(&self.machine, machine) => {
                self.followers.push(machine.clone());
                self.followers.len()
            }
            None => return None,
        };
        self.others.push((does_the_same, machine.clone()));
        Some(self.others.len())
    }

    /// The outcome of the machine, then those of the others, given the results of the machine and
    /// of its followers.
    pub(crate) fn outcomes<P: Numbered>(
        &self,
        mut results: Vec<EngineResult<P>>,
        regions: &Regions,
        locate: impl Fn(&P) -> Option<PageInProgram>,
    ) -> Vec<Outcome> {
        let outcome = |(place, other): &(usize, ReplayMachine)| {
            let result = at_costs_of(&results[*place], other);
            Outcome::new(other, result, &Regions::default(), |_| None)
        };
        let others: Vec<Outcome> = self.others.iter().map(outcome).collect();
        let own = Outcome::new(&self.machine, results.swap_remove(0), regions, locate);
        std::iter::once(own).chain(others).collect()
    }
}
