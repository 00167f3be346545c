//! Many configurations of many machines on many traces.
//!
//! [`units`] cuts a list of configurations into units: configurations that one pass over a trace
//! serves together. A unit is what a thread works on, what a cluster hands out and what an
//! interrupted sweep need not do again. What a unit finds does not depend on who runs it or when.
//!
//! Three kinds of units, by how much their configurations share:
//!
//! - Organisations with a TLB, and `base`, on split direct-mapped caches: their walks do not depend
//!   on the caches, so one machine drives a [`single_pass`] of all of them.
//! - `notlb` on such caches walks when its own second level misses, so every configuration has
//!   caches of its own; those with the same first level are [`interleaved`], passed over together
//!   where all hit.
//! - Everything else replays side by side and shares the decoding. Of 64-bit machines that differ
//!   in caches below the first level alone only these are run for each.

mod interleaved;
mod single_pass;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;

use mmulab_hardware::GeometryError;
use mmulab_machine::{Organisation as Description, ReplayMachine};
use mmulab_trace::{Batch, Source};
use serde::{Deserialize, Serialize};

use crate::attribution::Regions;
use crate::caches::{CacheCounters, Filtered, SplitDirectMapped, miss_cycles};
use crate::costs::to_first_level;
use crate::engine::{Counts as _, Engine, EngineResult};
use crate::frames::Frames;
use crate::organisation::{IgnoresCaches, NoTlb};
use crate::outcome::Outcome;
use crate::program::{BatchSlice, Program};
use crate::remap::{DoesNotFit, SharedRemapping};
use crate::replay::{
    Options, OrganisationUser, ReplayError, replay_in_total, user_space_bytes, with_organisation,
};
use interleaved::{Interleaved, InterleavedWalks};
use single_pass::{MAX_FIRST_LEVELS, Member, Shape, SinglePass, shape};

/// Configurations that one pass over a trace serves together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// How they share the work.
    pub sharing: Sharing,
    /// Place of each in the list that was cut.
    pub places: Vec<usize>,
    /// The configurations.
    pub machines: Vec<ReplayMachine>,
}

/// How the configurations of a unit share work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One machine drives all caches.
    SinglePass,
    /// Those with the same first level are looked at together.
    Interleaved,
    /// The decoding, and all but the lower caches of machines that are the same down to the first
    /// level.
    Decoding,
}

impl Sharing {
    /// The most that the configurations of `machine`'s kind can share.
    fn of(machine: &ReplayMachine) -> Self {
        let is_fast_shape = SplitDirectMapped::shape(machine).is_some();
        match machine.organisation {
            _ if !is_fast_shape => Sharing::Decoding,
            Description::Radix(_) => Sharing::Decoding,
            Description::Notlb(_) => Sharing::Interleaved,
            _ => Sharing::SinglePass,
        }
    }

    /// Whether a unit that shares this way has room for `machine`, which is of its kind.
    fn admits(self, unit: &Unit, machine: &ReplayMachine) -> bool {
        match self {
            Sharing::Decoding if to_first_level(machine).is_none() => {
                unit.machines.len() < MAX_SIDE_BY_SIDE
            }
            Sharing::Decoding => unit.machines.len() < MAX_WITH_LOWER_CACHES,
            Sharing::Interleaved => unit.machines.len() < MAX_INTERLEAVED,
            Sharing::SinglePass => [0, 1].iter().all(|&side| {
                let with_it = unit.machines.iter().chain([machine]);
                let mut firsts: Vec<_> =
                    with_it.filter_map(member).map(|member| member.first[side]).collect();
                firsts.sort_unstable();
                firsts.dedup();
                firsts.len() <= MAX_FIRST_LEVELS
            }),
        }
    }

    /// What configurations must have in common to share this way, as text.
    fn common(self, machine: &ReplayMachine) -> String {
        if self == Sharing::Decoding {
            return format!("{:?}", to_first_level(machine));
        }
        let mut common = machine.clone();
        // Sizes and second-level lines may differ, and what a miss costs is multiplied at the end.
        common.memory.latency_cycles = 0;
        for cache in [&mut common.l1i, &mut common.l1d, &mut common.l2].into_iter().flatten() {
            cache.size_bytes = 0;
            cache.latency_cycles = 0;
        }
        if let Some(second) = &mut common.l2 {
            second.line_bytes = 0;
        }
        format!("{common:?}")
    }
}

/// Machines that are replayed side by side in one unit, but for those that bring no more than lower
/// caches.
const MAX_SIDE_BY_SIDE: usize = 8;

/// Machines in such a unit, these included: each has megabytes of caches.
const MAX_WITH_LOWER_CACHES: usize = 64;

/// Interleaved in one unit, of all shapes of the first level together: each has megabytes of
/// caches.
const MAX_INTERLEAVED: usize = 96;

/// Cuts configurations into units. The result depends on the list alone.
pub fn units(machines: &[ReplayMachine]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut open: HashMap<(Sharing, String), usize> = HashMap::new();
    let mut side_by_side = usize::MAX;
    for (place, machine) in machines.iter().enumerate() {
        let sharing = Sharing::of(machine);
        let found = open.entry((sharing, sharing.common(machine))).or_insert(usize::MAX);
        if !units.get(*found).is_some_and(|unit| sharing.admits(unit, machine)) {
            let has_room = |unit: &Unit| unit.machines.len() < MAX_SIDE_BY_SIDE;
            *found = match units.get(side_by_side) {
                Some(unit) if sharing == Sharing::Decoding && has_room(unit) => side_by_side,
                _ => {
                    units.push(Unit { sharing, places: Vec::new(), machines: Vec::new() });
                    units.len() - 1
                }
            };
            if sharing == Sharing::Decoding {
                side_by_side = *found;
            }
        }
        units[*found].places.push(place);
        units[*found].machines.push(machine.clone());
    }
    units
}

/// The caches of a machine as a member of a simulation; `None` where they have another shape.
fn member(machine: &ReplayMachine) -> Option<Member> {
    let [[l1i, l2i], [l1d, _]] = SplitDirectMapped::shape(machine)?;
    let [first_miss, second_miss, _] = miss_cycles(machine);
    Some(Member {
        first: [shape(l1i), shape(l1d)],
        second: shape(l2i),
        miss_cycles: [first_miss, second_miss],
    })
}

impl Unit {
    /// Replays the trace on all configurations; gives their outcomes in order, without the costs by
    /// region and by page.
    ///
    /// `progress` is called now and then with the number of instructions replayed; `false` stops.
    ///
    /// # Errors
    /// The trace is damaged, a configuration is impossible, or the program does not fit one.
    pub fn run(
        &self,
        source: &mut dyn Source,
        seed: u64,
        progress: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<Outcome>, ReplayError> {
        match self.sharing {
            Sharing::Decoding => self.run_side_by_side(source, seed, progress),
            Sharing::SinglePass => self.run_single_pass(source, seed, progress),
            Sharing::Interleaved => self.run_interleaved(source, progress),
        }
    }

    fn run_side_by_side(
        &self,
        source: &mut dyn Source,
        seed: u64,
        progress: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<Outcome>, ReplayError> {
        let threads = NonZeroUsize::new(1);
        let options = Options { seed, threads, progress: Some(progress), ..Options::default() };
        replay_in_total(source, &self.machines, options)
    }

    fn run_interleaved(
        &self,
        source: &mut dyn Source,
        progress: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<Outcome>, ReplayError> {
        let Some(first) = self.machines.first() else { return Ok(Vec::new()) };
        let Description::Notlb(table) = &first.organisation else { return Ok(Vec::new()) };
        let members: Vec<Member> = self.machines.iter().filter_map(member).collect();
        let groups = by_first_level(&members);
        let remapping = remapped_space(first);
        let engine = |places: &Vec<usize>| {
            let machines: Vec<_> = places.iter().map(|&place| &self.machines[place]).collect();
            let configurations = Interleaved::new(&machines, NoTlb::new(table))?;
            let frames = Frames::new_32_bit(first.memory.placement, 0);
            Some(Engine::new(InterleavedWalks, configurations, remapping.clone(), frames, 0))
        };
        let mut engines: Vec<_> = groups.values().filter_map(engine).collect();
        drive(source, first, &remapping, progress, |slice| {
            engines.iter_mut().try_fold(0, |_, engine| {
                engine.run(slice)?;
                Ok(engine.instructions())
            })
        })?;
        let mut outcomes: Vec<Option<Outcome>> = self.machines.iter().map(|_| None).collect();
        for (engine, places) in engines.into_iter().zip(groups.values()) {
            let driver = engine.counters();
            for (result, &place) in engine.into_caches().finish(&driver).into_iter().zip(places) {
                let machine = &self.machines[place];
                let outcome = Outcome::new(machine, result, &Regions::default(), |_| None);
                outcomes[place] = Some(outcome);
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn run_single_pass(
        &self,
        source: &mut dyn Source,
        seed: u64,
        progress: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<Outcome>, ReplayError> {
        let Some(first) = self.machines.first() else { return Ok(Vec::new()) };
        let members: Vec<Member> = self.machines.iter().filter_map(member).collect();
        let remapping = remapped_space(first);
        let build = BuildSinglePass {
            machine: first,
            seed,
            remapping: &remapping,
            single_pass: SinglePass::new(&members),
        };
        let mut engine = with_organisation(first, seed, build)
            .map_err(|reason| ReplayError::Machine { machine: first.name.clone(), reason })?;
        drive(source, first, &remapping, progress, |slice| engine.run(slice))?;
        let (result, simulation) = engine.finish();
        let outcomes = self.machines.iter().zip(&members).map(|(machine, member)| {
            let mut result = result.clone();
            result.caches = simulation.account(member, &mut result.ledger, &result.caches);
            Outcome::new(machine, result, &Regions::default(), |_| None)
        });
        Ok(outcomes.collect())
    }
}

/// The machines' places by the shapes of their first levels.
fn by_first_level(members: &[Member]) -> BTreeMap<[Shape; 2], Vec<usize>> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, member) in members.iter().enumerate() {
        groups.entry(member.first).or_default().push(place);
    }
    groups
}

/// Where a 32-bit machine sees the program.
fn remapped_space(machine: &ReplayMachine) -> SharedRemapping {
    SharedRemapping::new(user_space_bytes(&machine.organisation).unwrap_or(0))
}

/// Reads a trace as the 32-bit `machine` sees it, and hands every slice to `run`, which gives the
/// number of instructions run so far.
fn drive(
    source: &mut dyn Source,
    machine: &ReplayMachine,
    remapping: &SharedRemapping,
    progress: &(dyn Fn(u64) -> bool + Sync),
    mut run: impl FnMut(BatchSlice<'_, u32>) -> Result<u64, DoesNotFit>,
) -> Result<(), ReplayError> {
    let mut program = Program::default();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch)? {
        let learnt = program.learn_remapped(source.table().blocks(), &batch, remapping);
        let instructions = learnt
            .and_then(|()| run(program.slice(&batch)))
            .map_err(|reason| ReplayError::DoesNotFit { machine: machine.name.clone(), reason })?;
        if !progress(instructions) {
            return Err(ReplayError::Stopped);
        }
    }
    Ok(())
}

/// An engine over a single-pass simulation, whatever its organisation.
trait DrivesSinglePass {
    /// Runs a slice; the number of instructions run so far.
    fn run(&mut self, slice: BatchSlice<'_, u32>) -> Result<u64, DoesNotFit>;

    fn finish(self: Box<Self>) -> (EngineResult<u32>, SinglePass);
}

impl<O: IgnoresCaches> DrivesSinglePass for Engine<O, Filtered<SinglePass>> {
    fn run(&mut self, slice: BatchSlice<'_, u32>) -> Result<u64, DoesNotFit> {
        Engine::run(self, slice)?;
        Ok(self.instructions())
    }

    fn finish(self: Box<Self>) -> (EngineResult<u32>, SinglePass) {
        // What walks cost is each member's own; only their number is known here.
        (self.counters(), self.into_caches().into_inner())
    }
}

struct BuildSinglePass<'a> {
    machine: &'a ReplayMachine,
    seed: u64,
    remapping: &'a SharedRemapping,
    single_pass: SinglePass,
}

impl OrganisationUser for BuildSinglePass<'_> {
    type Output = Box<dyn DrivesSinglePass>;

    fn take<O>(self, organisation: O) -> Result<Self::Output, GeometryError>
    where
        O: IgnoresCaches + Send + 'static,
    {
        let Self { machine, seed, remapping, single_pass } = self;
        let frames = Frames::new_32_bit(machine.memory.placement, seed);
        let interrupt_cycles = machine.interrupts.costs_cycles.first().copied().unwrap_or(0);
        let remapping = remapping.clone();
        let caches = Filtered::new(single_pass, &organisation.handlers());
        Ok(Box::new(Engine::new(organisation, caches, remapping, frames, interrupt_cycles)))
    }
}

/// The references of each side, as if all had hit: misses are each configuration's own.
fn counters_without_misses(references: [u64; 2]) -> Vec<CacheCounters> {
    let all_hit = |hits| CacheCounters {
        name: String::new(),
        hits,
        misses: 0,
        store_misses: None,
        write_backs: 0,
    };
    references.map(all_hit).into()
}
