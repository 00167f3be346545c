//! One decode of a trace feeds many machines.

use std::num::NonZeroUsize;

use mmulab_hardware::GeometryError;
use mmulab_machine::{CacheLevel, Organisation as Description, ReplayMachine};
use mmulab_trace::{Batch, Event, Source, TraceError};
use rayon::prelude::*;

use crate::attribution::Regions;
use crate::caches::{Caches, Hierarchy, SplitDirectMapped};
use crate::engine::Engine;
use crate::fold::{DoesNotFit, Fold};
use crate::frames::Frames;
use crate::organisation::radix::RadixEngine;
use crate::organisation::{
    Base, Intel, InvertedHardware, Mach, NoTlb, Organisation, PAGE_SHIFT, PaRisc, TlbPair, Ultrix,
    Walk, WithTlbs,
};
use crate::outcome::{Outcome, PageInProgram};
use crate::program::{Execution, Feed, Flat, Program, Stretch};

/// How to replay.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Where randomness starts: replacement, page placement. Equal seeds give equal results.
    pub seed: u64,
    /// Threads; `None` is one for each processor. Results do not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// Called now and then with the number of instructions replayed; `false` stops the replay.
    pub progress: Option<&'a (dyn Fn(u64) -> bool + Sync)>,
}

/// Why a replay has no result. One line.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The program is too large for a 32-bit machine.
    #[error("machine {machine}: {reason}")]
    DoesNotFit {
        /// The machine.
        machine: String,
        /// What does not fit.
        reason: DoesNotFit,
    },
    /// The machine cannot be built.
    #[error("machine {machine}: {reason}")]
    Machine {
        /// The machine.
        machine: String,
        /// What is wrong with it.
        reason: GeometryError,
    },
    /// The threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The progress function said so.
    #[error("stopped")]
    Stopped,
}

/// Replays a trace on several machines at once.
///
/// # Errors
/// The trace is damaged, a machine is impossible, or the program does not fit one.
pub fn replay(
    source: &mut dyn Source,
    machines: &[ReplayMachine],
    options: Options<'_>,
) -> Result<Vec<Outcome>, ReplayError> {
    let threads = options.threads.map_or(0, NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| replay_in_pool(source, machines, options))
}

/// The side that reads ahead.
struct Decoder<'a> {
    source: &'a mut dyn Source,
    /// One for each size of user space, with a machine that has it, for messages.
    folded: Vec<(Feed<Fold>, String)>,
    flat: Option<Feed<Flat>>,
    regions: Regions,
}

impl Decoder<'_> {
    fn next(&mut self, batch: &mut Batch) -> Result<bool, ReplayError> {
        if !self.source.next_batch(batch)? {
            return Ok(false);
        }
        for (_, event) in &batch.events {
            self.regions.note(event);
        }
        let blocks = self.source.table().blocks();
        let feed =
            |reason, machine: &str| ReplayError::DoesNotFit { machine: machine.to_owned(), reason };
        for (folded, machine) in &mut self.folded {
            folded.prepare(blocks, batch).map_err(|reason| feed(reason, machine))?;
        }
        if let Some(flat) = &mut self.flat {
            flat.prepare(blocks, batch).map_err(|reason| feed(reason, ""))?;
        }
        Ok(true)
    }
}

/// Machines that see the program alike, and how they see it.
struct Group<A> {
    program: Program<A>,
    execution: Execution<A>,
    /// Each with its place in the list of machines.
    engines: Vec<(usize, Box<dyn Driven<A>>)>,
}

impl<A> Default for Group<A> {
    fn default() -> Self {
        Self { program: Program::default(), execution: Execution::default(), engines: Vec::new() }
    }
}

type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

impl<A: Send + Sync + Copy> Group<A> {
    fn add_work<'a>(&'a mut self, blocks: &'a [u32], work: &mut Vec<Work<'a>>) {
        let stretch = self.execution.stretch(&self.program, blocks);
        for (_, engine) in &mut self.engines {
            work.push(Box::new(move || engine.run(stretch)));
        }
    }
}

/// The side that replays.
#[derive(Default)]
struct Machines {
    folded: Vec<Group<u32>>,
    flat: Group<u64>,
}

impl Machines {
    fn adopt(&mut self, decoder: &mut Decoder<'_>, batch: &Batch) {
        for (group, (feed, _)) in self.folded.iter_mut().zip(&mut decoder.folded) {
            feed.deliver(&mut group.program, &mut group.execution);
        }
        if let Some(feed) = &mut decoder.flat {
            feed.deliver(&mut self.flat.program, &mut self.flat.execution);
        }
        for (_, engine) in &mut self.flat.engines {
            batch.events.iter().for_each(|(_, event)| engine.note(event));
        }
    }

    /// Instructions of the current batch.
    fn instructions(&self) -> u64 {
        let flat = self.flat.execution.instructions();
        self.folded.first().map_or(flat, |group| group.execution.instructions())
    }

    fn run(&mut self, blocks: &[u32]) {
        let mut work = Vec::new();
        for group in &mut self.folded {
            group.add_work(blocks, &mut work);
        }
        self.flat.add_work(blocks, &mut work);
        work.into_par_iter().with_max_len(1).for_each(|run| run());
    }
}

/// A machine of any kind, being driven.
trait Driven<A>: Send {
    fn note(&mut self, _event: &Event) {}

    fn run(&mut self, stretch: Stretch<'_, A>);

    fn finish(
        self: Box<Self>,
        machine: &ReplayMachine,
        regions: &Regions,
        unfold: &dyn Fn(A) -> Option<u64>,
    ) -> Outcome;
}

impl<O: Organisation + Send, C: Caches + Send> Driven<u32> for Engine<O, C> {
    fn run(&mut self, stretch: Stretch<'_, u32>) {
        Engine::run(self, stretch);
    }

    fn finish(
        self: Box<Self>,
        machine: &ReplayMachine,
        regions: &Regions,
        unfold: &dyn Fn(u32) -> Option<u64>,
    ) -> Outcome {
        Outcome::new(machine, Engine::finish(*self), regions, |&page| {
            let address = unfold(page << PAGE_SHIFT)?;
            Some(PageInProgram { address, size_bytes: 1 << PAGE_SHIFT })
        })
    }
}

impl Driven<u64> for RadixEngine {
    fn note(&mut self, event: &Event) {
        RadixEngine::note(self, event);
    }

    fn run(&mut self, stretch: Stretch<'_, u64>) {
        RadixEngine::run(self, stretch);
    }

    fn finish(
        self: Box<Self>,
        machine: &ReplayMachine,
        regions: &Regions,
        _unfold: &dyn Fn(u64) -> Option<u64>,
    ) -> Outcome {
        Outcome::new(machine, RadixEngine::finish(*self), regions, |page| {
            Some(PageInProgram { address: page.address, size_bytes: 1 << page.shift })
        })
    }
}

fn replay_in_pool(
    source: &mut dyn Source,
    machines: &[ReplayMachine],
    options: Options<'_>,
) -> Result<Vec<Outcome>, ReplayError> {
    let mut decoder =
        Decoder { source, folded: Vec::new(), flat: None, regions: Regions::default() };
    let mut driven = build(machines, options.seed, &mut decoder)?;
    let mut current = Batch::default();
    let mut next = Batch::default();
    let mut instructions = 0;
    let mut more = decoder.next(&mut next)?;
    while more {
        std::mem::swap(&mut current, &mut next);
        driven.adopt(&mut decoder, &current);
        // While the machines replay this batch, the next one is decoded.
        let (decoded, ()) = rayon::join(|| decoder.next(&mut next), || driven.run(&current.blocks));
        more = decoded?;
        if let Some(progress) = options.progress {
            instructions += driven.instructions();
            if !progress(instructions) {
                return Err(ReplayError::Stopped);
            }
        }
    }
    let Decoder { folded, regions, .. } = decoder;
    let mut outcomes: Vec<Option<Outcome>> = machines.iter().map(|_| None).collect();
    for (group, (feed, _)) in driven.folded.into_iter().zip(folded) {
        for (index, engine) in group.engines {
            let unfold = |address| feed.space.unfold(address);
            outcomes[index] = Some(engine.finish(&machines[index], &regions, &unfold));
        }
    }
    for (index, engine) in driven.flat.engines {
        outcomes[index] = Some(engine.finish(&machines[index], &regions, &|page| Some(page)));
    }
    Ok(outcomes.into_iter().flatten().collect())
}

fn build(
    machines: &[ReplayMachine],
    seed: u64,
    decoder: &mut Decoder<'_>,
) -> Result<Machines, ReplayError> {
    let mut driven = Machines::default();
    let mut sizes = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let refuse = |reason| ReplayError::Machine { machine: machine.name.clone(), reason };
        let Some(bytes) = user_space_bytes(&machine.organisation) else {
            let engine = RadixEngine::new(machine, seed).map_err(refuse)?;
            // These machines look at each access anyway.
            decoder.flat.get_or_insert_with(|| Feed::new(Flat, 63));
            driven.flat.engines.push((index, Box::new(engine)));
            continue;
        };
        let engine =
            with_organisation(machine, seed, BuildEngine { machine, seed }).map_err(refuse)?;
        let place = sizes.iter().position(|&size| size == bytes).unwrap_or_else(|| {
            sizes.push(bytes);
            decoder.folded.push((Feed::new(Fold::new(bytes), PAGE_SHIFT), machine.name.clone()));
            driven.folded.push(Group::default());
            sizes.len() - 1
        });
        decoder.folded[place].0.include_line(data_line_shift(machine));
        driven.folded[place].engines.push((index, engine));
    }
    Ok(driven)
}

pub(crate) fn data_line_shift(machine: &ReplayMachine) -> u32 {
    match machine.cache_levels().first() {
        Some(CacheLevel::Split { data, .. }) => data.line_bytes.trailing_zeros(),
        Some(CacheLevel::Unified(cache)) => cache.line_bytes.trailing_zeros(),
        None => PAGE_SHIFT,
    }
}

/// The program's part of the address space; `None` where addresses are not folded.
pub fn user_space_bytes(organisation: &Description) -> Option<u64> {
    match organisation {
        Description::Ultrix(table) | Description::Notlb(table) => Some(table.user_space_bytes),
        Description::Mach(table) => Some(table.user_space_bytes),
        Description::Intel(table) => Some(table.user_space_bytes),
        Description::PaRisc(table) => Some(table.user_space_bytes),
        Description::InvertedHw(table) => Some(table.user_space_bytes),
        Description::Base(base) => Some(base.user_space_bytes),
        Description::Radix(_) => None,
    }
}

/// What to do with the organisation of a 32-bit machine, whatever its type.
pub(crate) trait OrganisationUser {
    type Output;

    fn take<O>(self, organisation: O) -> Result<Self::Output, GeometryError>
    where
        O: Organisation + Send + 'static;
}

/// Makes the organisation of `machine` and hands it to `user`.
pub(crate) fn with_organisation<U: OrganisationUser>(
    machine: &ReplayMachine,
    seed: u64,
    user: U,
) -> Result<U::Output, GeometryError> {
    match &machine.organisation {
        Description::Ultrix(table) => with_tlbs(machine, seed, Ultrix::new(table), user),
        Description::Mach(table) => with_tlbs(machine, seed, Mach::new(table), user),
        Description::Intel(table) => with_tlbs(machine, seed, Intel::new(table), user),
        Description::PaRisc(table) => with_tlbs(machine, seed, PaRisc::new(table), user),
        Description::InvertedHw(table) => {
            with_tlbs(machine, seed, InvertedHardware::new(table), user)
        }
        Description::Notlb(table) => user.take(NoTlb::new(table)),
        Description::Base(_) => user.take(Base),
        Description::Radix(_) => Err(GeometryError("organisation: is not a 32-bit one".to_owned())),
    }
}

fn with_tlbs<W, U>(
    machine: &ReplayMachine,
    seed: u64,
    walk: W,
    user: U,
) -> Result<U::Output, GeometryError>
where
    W: Walk + Send + 'static,
    U: OrganisationUser,
{
    let (Some(itlb), Some(dtlb)) = (&machine.itlb, &machine.dtlb) else {
        return Err(GeometryError("itlb or dtlb is missing".to_owned()));
    };
    user.take(WithTlbs::new(TlbPair::new(itlb, dtlb, seed)?, walk))
}

/// Drives a machine of its own with an organisation.
struct BuildEngine<'a> {
    machine: &'a ReplayMachine,
    seed: u64,
}

impl OrganisationUser for BuildEngine<'_> {
    type Output = Box<dyn Driven<u32>>;

    fn take<O>(self, organisation: O) -> Result<Self::Output, GeometryError>
    where
        O: Organisation + Send + 'static,
    {
        let Self { machine, seed } = self;
        let frames = Frames::new_32_bit(machine.memory.placement, seed);
        let interrupt_cycles = machine.interrupts.costs_cycles.first().copied().unwrap_or(0);
        Ok(match SplitDirectMapped::new(machine) {
            Some(caches) => Box::new(Engine::new(organisation, caches, frames, interrupt_cycles)),
            None => {
                let caches = Hierarchy::new(machine, seed)?;
                Box::new(Engine::new(organisation, caches, frames, interrupt_cycles))
            }
        })
    }
}
