//! What each of several programs that take turns does and costs.

use mmulab_hardware::GeometryError;
use mmulab_machine::{Organisation, ReplayMachine};

use crate::outcome::Outcome;
use crate::profile::{CodeCost, Spent};
use crate::replay::{Machines, ReplayError};

/// An error where a machine does not say what an address-space switch does.
pub(crate) fn check_tells_address_spaces_apart(machine: &ReplayMachine) -> Result<(), ReplayError> {
    let reason = match &machine.organisation {
        Organisation::Radix(table) if table.levels > 4 => {
            "organisation.levels: a schedule needs addresses of 48 bits, and tables of 4 levels at most"
        }
        Organisation::Radix(table) if table.address_spaces.is_some() => return Ok(()),
        Organisation::Radix(_) => {
            "organisation.address_spaces: is missing; say how many address spaces the TLBs keep \
             apart, 1 if a switch empties them"
        }
        _ => "a schedule of several programs needs organisation radix, as x86-64 or zen5 have it",
    };
    let (machine, reason) = (machine.name.clone(), GeometryError(reason.to_owned()));
    Err(ReplayError::Machine { machine, reason })
}

/// Costs by machine and program.
pub(crate) struct ProgramCosts {
    /// 0 where there is no schedule.
    programs: usize,
    /// What each machine had spent when it was last looked at.
    before: Vec<CodeCost>,
    costs: Vec<Vec<CodeCost>>,
}

impl ProgramCosts {
    pub(crate) fn new(programs: usize, machines: usize) -> Self {
        Self {
            programs,
            before: vec![CodeCost::default(); machines],
            costs: vec![vec![CodeCost::default(); programs]; machines],
        }
    }

    /// What was spent since the last time belongs to a program, if it counts.
    pub(crate) fn add(&mut self, driven: &Machines, program: usize, counts: bool) {
        if self.programs == 0 {
            return;
        }
        for (place, engine) in &driven.flat.engines {
            let instructions = engine.instructions();
            let now = CodeCost { instructions, ..Spent::of(&**engine).cost };
            if counts {
                self.costs[*place][program] += now.since(&self.before[*place]);
            }
            self.before[*place] = now;
        }
    }

    /// Puts the costs into the outcomes of each machine. Those of its alternatives get none, and
    /// none keeps costs by page: one address stands for a page in each program.
    pub(crate) fn give(self, mut outcomes: Vec<Vec<Outcome>>) -> Vec<Vec<Outcome>> {
        if self.programs > 0 {
            for (of_machine, costs) in outcomes.iter_mut().zip(self.costs) {
                of_machine.iter_mut().for_each(|outcome| outcome.pages.clear());
                if let Some(own) = of_machine.first_mut() {
                    own.programs = costs;
                }
            }
        }
        outcomes
    }
}
