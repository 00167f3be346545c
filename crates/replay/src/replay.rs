//! One decode of a trace feeds many machines.

use std::num::NonZeroUsize;

use mmulab_hardware::{GeometryError, Ledger};
use mmulab_machine::{Organisation as Description, ReplayMachine};
use mmulab_trace::{Block, Source, TraceError};
use rayon::prelude::*;

use crate::attribution::{Numbered, Regions};
use crate::caches::{Filtered, Hierarchy, SplitDirectMapped};
use crate::cause::Cause;
use crate::counting::Counting;
use crate::engine::{Counts, Engine, EngineResult, RunSlice};
use crate::frames::Frames;
use crate::organisation::radix::{Page, RadixEngine};
use crate::organisation::{
    Base, IgnoresCaches, Intel, InvertedHardware, Mach, NoTlb, OnCacheMiss, PAGE_SHIFT, PaRisc,
    TlbPair, Ultrix, Walk, WithTlbs,
};
use crate::outcome::{Outcome, PageInProgram};
use crate::program::{BatchSlice, Program, StaticBlock};
use crate::program_costs::{ProgramCosts, check_tells_address_spaces_apart};
use crate::read_ahead::{BATCHES_BETWEEN_THREADS, ChargedTo, ReadAhead, Stretch};
use crate::remap::{DoesNotFit, SharedRemapping};
use crate::subject::{Subject, add_to_subjects};
use crate::watched::watched;

/// How to replay.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Where randomness starts: replacement, page placement. Equal seeds give equal results.
    pub seed: u64,
    /// Threads; `None` is one for each processor. Results do not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// Instructions to warm up with, which are replayed and not counted; to the end of a block.
    pub warm_up: u64,
    /// What to count: functions of this name, from their entry to their return and with all that
    /// they call, and regions that the program marks with it. The rest is replayed and not counted.
    /// `None`: all counts.
    pub region: Option<&'a str>,
    /// Called now and then, by the thread that called [`replay`], with the number of instructions
    /// replayed; `false` stops the replay.
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
    /// The program never came to the region of interest.
    #[error(
        "neither a function nor a marked region called {name} begins in the trace, or in the part \
         that was chosen of it; functions are known from the program's files, if they are where they were recorded and have \
         symbols, and were not inlined; marks from recordings by Valgrind"
    )]
    NoSuchRegion {
        /// Its name.
        name: String,
    },
    /// The region would begin and never end: returns are not known.
    #[error(
        "a region follows calls, which are found in x86 programs only; this one is for {instruction_set}"
    )]
    NoCalls {
        /// For what the program is.
        instruction_set: String,
    },
    /// The progress function said so.
    #[error("stopped")]
    Stopped,
}

/// Replays a trace on several machines at once.
///
/// # Errors
/// The trace is damaged, a machine is impossible, the program does not fit one or never comes to
/// the region, threads cannot be started, or `progress` said to stop.
pub fn replay(
    source: &mut dyn Source,
    machines: &[ReplayMachine],
    options: Options<'_>,
) -> Result<Vec<Outcome>, ReplayError> {
    let subjects: Vec<Subject> = machines.iter().cloned().map(Subject::new).collect();
    let outcomes = replay_subjects(source, &subjects, options)?;
    Ok(outcomes.into_iter().flatten().collect())
}

/// Replays a trace on several machines and on alternatives to each. The outcomes of alternatives
/// are without the costs by region and by page.
///
/// An alternative that differs from its machine only in what events cost is not run: nothing in a
/// replay depends on time, so the same events are given other prices. Of one that differs in caches
/// below the first level no more than these is run.
///
/// # Errors
/// As [`replay`].
pub fn replay_with_alternatives(
    source: &mut dyn Source,
    machines: &[(ReplayMachine, Vec<ReplayMachine>)],
    options: Options<'_>,
) -> Result<Vec<(Outcome, Vec<Outcome>)>, ReplayError> {
    let mut subjects: Vec<Subject> = Vec::new();
    let mut places = Vec::new();
    for (machine, alternatives) in machines {
        let own = subjects.len();
        subjects.push(Subject::new(machine.clone()));
        let found = alternatives
            .iter()
            .map(|other| add_to_subjects(&mut subjects, own, other, source.cores()));
        places.push((own, found.collect::<Vec<_>>()));
    }
    let outcomes = replay_subjects(source, &subjects, options)?;
    let of = |(subject, at): (usize, usize)| outcomes[subject][at].clone();
    let gather = |(own, found): (usize, Vec<(usize, usize)>)| {
        (of((own, 0)), found.into_iter().map(|place| of(place).in_total()).collect())
    };
    Ok(places.into_iter().map(gather).collect())
}

/// Replays a trace on machines that share what work they can. The outcomes are without the costs by
/// region and by page.
///
/// # Errors
/// As [`replay`].
pub(crate) fn replay_in_total(
    source: &mut dyn Source,
    machines: &[ReplayMachine],
    options: Options<'_>,
) -> Result<Vec<Outcome>, ReplayError> {
    let mut subjects: Vec<Subject> = Vec::new();
    let places: Vec<_> = machines
        .iter()
        .map(|machine| add_to_subjects(&mut subjects, 0, machine, source.cores()))
        .collect();
    let outcomes = replay_subjects(source, &subjects, options)?;
    Ok(places.into_iter().map(|(subject, at)| outcomes[subject][at].clone().in_total()).collect())
}

/// Drives all subjects; the outcomes of each.
fn replay_subjects(
    source: &mut dyn Source,
    machines: &[Subject],
    options: Options<'_>,
) -> Result<Vec<Vec<Outcome>>, ReplayError> {
    let Options { threads, progress, .. } = options;
    let threads = threads.or_else(|| std::thread::available_parallelism().ok());
    // There is no work for more than the machines and the reader. Never 0, which would mean the
    // same to the pool: rustc 1.95 concluded from the number's type that it cannot be, and started
    // no thread at all.
    let threads = threads.map_or(1, |threads| threads.get().min(machines.len() + 1));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    watched(progress, |goes_on| pool.install(|| replay_in_pool(source, machines, options, goes_on)))
}

/// The error for a machine that the program does not fit.
pub(crate) fn refusal(machines: &[Subject], (place, reason): Refused) -> ReplayError {
    ReplayError::DoesNotFit { machine: machines[place].machine.name.clone(), reason }
}

/// Machines that see the program alike.
pub(crate) struct Group<A> {
    pub(crate) program: Program<A>,
    /// Each with its place in the list of machines.
    pub(crate) engines: Vec<(usize, Box<dyn Driven<A>>)>,
}

impl<A> Default for Group<A> {
    fn default() -> Self {
        Self { program: Program::default(), engines: Vec::new() }
    }
}

type Work<'a> = Box<dyn FnOnce() -> Result<(), Refused> + Send + 'a>;

/// The place of a machine, and why the program does not fit it.
pub(crate) type Refused = (usize, DoesNotFit);

impl<A: Send + Sync + Copy> Group<A> {
    fn add_work<'a>(&'a mut self, stretch: &'a Stretch, work: &mut Vec<Work<'a>>) {
        let program = &self.program;
        for (place, engine) in &mut self.engines {
            work.push(Box::new(move || {
                let mut batches = stretch.batches();
                batches
                    .try_for_each(|(batch, _)| engine.run(program.slice(batch)))
                    .map_err(|reason| (*place, reason))
            }));
        }
    }
}

/// The machines, by how they see the program.
#[derive(Default)]
pub(crate) struct Machines {
    /// One for each size of user space.
    pub(crate) remapped: Vec<(SharedRemapping, Group<u32>)>,
    pub(crate) flat: Group<u64>,
}

impl Machines {
    /// Learns what `stretch` brings before it is run, as if each batch were run before the next one
    /// is learned of.
    pub(crate) fn learn(&mut self, table: &[Block], stretch: &Stretch) -> Result<(), Refused> {
        for (remapping, group) in &mut self.remapped {
            let place = group.engines[0].0;
            let learnt = group.program.learn_stretch(table, stretch, remapping);
            learnt.map_err(|reason| (place, reason))?;
        }
        if !self.flat.engines.is_empty()
            && let Some((_, known)) = stretch.batches().last()
        {
            self.flat.program.learn(&table[..known]);
        }
        Ok(())
    }

    /// Instructions run so far.
    pub(crate) fn instructions(&self) -> u64 {
        let flat = self.flat.engines.iter().map(|(_, engine)| engine.instructions());
        let remapped = self.remapped.iter().flat_map(|(_, group)| &group.engines);
        remapped.map(|(_, engine)| engine.instructions()).chain(flat).next().unwrap_or(0)
    }

    pub(crate) fn count(&mut self, counts: bool) {
        self.flat.engines.iter_mut().for_each(|(_, engine)| engine.count(counts));
        for (_, group) in &mut self.remapped {
            group.engines.iter_mut().for_each(|(_, engine)| engine.count(counts));
        }
    }

    /// The outcomes of each subject.
    pub(crate) fn finish(self, subjects: &[Subject], regions: &Regions) -> Vec<Vec<Outcome>> {
        let mut outcomes: Vec<Option<Vec<Outcome>>> = subjects.iter().map(|_| None).collect();
        for (remapping, group) in self.remapped {
            let remapping = remapping.lock();
            for (index, engine) in group.engines {
                let original = |address| remapping.original(address);
                outcomes[index] = Some(engine.finish(&subjects[index], regions, &original));
            }
        }
        for (index, engine) in self.flat.engines {
            outcomes[index] = Some(engine.finish(&subjects[index], regions, &|page| Some(page)));
        }
        outcomes.into_iter().flatten().collect()
    }

    fn run(&mut self, stretch: &Stretch) -> Result<(), Refused> {
        let mut work = Vec::new();
        for (_, group) in &mut self.remapped {
            group.add_work(stretch, &mut work);
        }
        self.flat.add_work(stretch, &mut work);
        let done: Vec<_> = work.into_par_iter().with_max_len(1).map(|run| run()).collect();
        done.into_iter().collect()
    }
}

/// A machine of any kind, being driven.
pub(crate) trait Driven<A>: Send {
    fn run(&mut self, slice: BatchSlice<'_, A>) -> Result<(), DoesNotFit>;

    /// Instructions run so far.
    fn instructions(&self) -> u64;

    /// What was spent so far, counted or not.
    fn ledger(&self) -> &Ledger<Cause>;

    /// Whether all references of a block, of which none spans lines, are known to hit the first
    /// level, so that it costs nothing; `false` where that cannot be told.
    fn is_known(&self, block: &StaticBlock<A>, addresses: &[u64]) -> bool;

    /// Whether what happens from here on counts; at first it does not.
    fn count(&mut self, counts: bool);

    fn finish(
        self: Box<Self>,
        subject: &Subject,
        regions: &Regions,
        original: &dyn Fn(A) -> Option<u64>,
    ) -> Vec<Outcome>;
}

/// An engine, of which not all that it does is counted.
struct Measured<E, P> {
    engine: E,
    counted: Counted<P>,
}

/// Results of an engine and of what follows it.
enum Counted<P> {
    /// What the engine does is counted, but for this.
    AllBut(Vec<EngineResult<P>>),
    /// What the engine does is not counted; this was before.
    Only(Vec<EngineResult<P>>),
}

impl<E: Counts<P>, P: Numbered> Measured<E, P> {
    fn new(mut engine: E) -> Self {
        engine.attribution().pause(true);
        let counted = Counted::Only(all_counters(&engine));
        Self { engine, counted }
    }

    fn count(&mut self, counts: bool) {
        let since = |before: &[EngineResult<P>]| {
            let now = all_counters(&self.engine).into_iter();
            now.zip(before).map(|(now, before)| now.since(before)).collect()
        };
        self.counted = match (&self.counted, counts) {
            (Counted::Only(before), true) => Counted::AllBut(since(before)),
            (Counted::AllBut(other), false) => Counted::Only(since(other)),
            _ => return,
        };
        self.engine.attribution().pause(!counts);
    }

    /// What was counted.
    fn results(mut self) -> Vec<EngineResult<P>> {
        self.count(false);
        let (Counted::Only(mut counted) | Counted::AllBut(mut counted)) = self.counted;
        counted[0].attribution = std::mem::take(self.engine.attribution());
        counted
    }
}

fn all_counters<P>(engine: &impl Counts<P>) -> Vec<EngineResult<P>> {
    let own = engine.counters();
    let followers = engine.follower_counters(&own);
    std::iter::once(own).chain(followers).collect()
}

impl<O, C> Driven<u32> for Measured<Engine<O, C>, u32>
where
    O: OnCacheMiss<C> + Send,
    C: RunSlice + Send,
{
    fn run(&mut self, slice: BatchSlice<'_, u32>) -> Result<(), DoesNotFit> {
        self.engine.run(slice)
    }

    fn instructions(&self) -> u64 {
        self.engine.instructions()
    }

    fn ledger(&self) -> &Ledger<Cause> {
        self.engine.ledger()
    }

    fn is_known(&self, _: &StaticBlock<u32>, _: &[u64]) -> bool {
        false
    }

    fn count(&mut self, counts: bool) {
        Measured::count(self, counts);
    }

    fn finish(
        self: Box<Self>,
        subject: &Subject,
        regions: &Regions,
        original: &dyn Fn(u32) -> Option<u64>,
    ) -> Vec<Outcome> {
        subject.outcomes(self.results(), regions, |&page| {
            let address = original(page << PAGE_SHIFT)?;
            Some(PageInProgram { address, size_bytes: 1 << PAGE_SHIFT })
        })
    }
}

impl Driven<u64> for Measured<RadixEngine, Page> {
    fn run(&mut self, slice: BatchSlice<'_, u64>) -> Result<(), DoesNotFit> {
        self.engine.run(slice);
        Ok(())
    }

    fn instructions(&self) -> u64 {
        self.engine.instructions()
    }

    fn ledger(&self) -> &Ledger<Cause> {
        self.engine.ledger()
    }

    fn is_known(&self, block: &StaticBlock<u64>, addresses: &[u64]) -> bool {
        self.engine.is_block_known(block, addresses)
    }

    fn count(&mut self, counts: bool) {
        Measured::count(self, counts);
    }

    fn finish(
        self: Box<Self>,
        subject: &Subject,
        regions: &Regions,
        _original: &dyn Fn(u64) -> Option<u64>,
    ) -> Vec<Outcome> {
        subject.outcomes(self.results(), regions, |page| {
            Some(PageInProgram { address: page.address, size_bytes: 1 << page.shift })
        })
    }
}

/// `continues` is told the number of instructions now and then.
fn replay_in_pool(
    source: &mut dyn Source,
    machines: &[Subject],
    options: Options<'_>,
    continues: impl Fn(u64) -> bool,
) -> Result<Vec<Vec<Outcome>>, ReplayError> {
    let Options { seed, warm_up, region, .. } = options;
    let most_batches = if rayon::current_num_threads() > 1 { BATCHES_BETWEEN_THREADS } else { 1 };
    let mut reader = ReadAhead::new(Counting::new(source, warm_up, region)?, most_batches);
    let source = reader.source().source();
    let programs = source.programs();
    if programs > 0 {
        machines
            .iter()
            .try_for_each(|subject| check_tells_address_spaces_apart(&subject.machine))?;
    }
    let mut driven = build(machines, seed, source.cores())?;
    let mut program_costs = ProgramCosts::new(programs, machines.len());
    let mut regions = Regions::default();
    let (mut current, mut next) = (Stretch::default(), Stretch::default());
    let refuse = |refused| refusal(machines, refused);
    reader.fill(&mut next)?;
    while !next.is_empty() {
        std::mem::swap(&mut current, &mut next);
        let events = current.batches().flat_map(|(batch, _)| &batch.events);
        events.for_each(|(_, event)| regions.note(event));
        driven.learn(reader.blocks(), &current).map_err(refuse)?;
        let ChargedTo { counts, program } = current.charged_to();
        driven.count(counts);
        // While the machines replay this stretch, the next one is decoded.
        let (decoded, run) = rayon::join(|| reader.fill(&mut next), || driven.run(&current));
        run.map_err(refuse)?;
        program_costs.add(&driven, program, counts);
        decoded?;
        if !continues(driven.instructions()) {
            return Err(ReplayError::Stopped);
        }
    }
    reader.source().check_region()?;
    let mut outcomes = program_costs.give(driven.finish(machines, &regions));
    let symbol_files: Vec<String> = reader.source().symbol_files().into_iter().collect();
    for outcome in outcomes.iter_mut().flatten() {
        outcome.symbol_files.clone_from(&symbol_files);
    }
    Ok(outcomes)
}

/// All machines at the start of a program, each with so many `cores`.
pub(crate) fn build(
    machines: &[Subject],
    seed: u64,
    cores: usize,
) -> Result<Machines, ReplayError> {
    let mut driven = Machines::default();
    let mut sizes = Vec::new();
    for (index, Subject { machine, followers, .. }) in machines.iter().enumerate() {
        let refuse = |reason| ReplayError::Machine { machine: machine.name.clone(), reason };
        let Some(bytes) = user_space_bytes(&machine.organisation) else {
            let engine = RadixEngine::new(machine, followers, seed, cores).map_err(refuse)?;
            driven.flat.engines.push((index, Box::new(Measured::new(engine))));
            continue;
        };
        let place = sizes.iter().position(|&size| size == bytes).unwrap_or_else(|| {
            sizes.push(bytes);
            driven.remapped.push((SharedRemapping::new(bytes), Group::default()));
            sizes.len() - 1
        });
        let (remapping, group) = &mut driven.remapped[place];
        let builder = BuildEngine { machine, seed, remapping };
        let engine = match &machine.organisation {
            Description::Notlb(table) => builder.without_tlb(NoTlb::new(table)),
            _ => with_organisation(machine, seed, builder),
        };
        let engine = engine.map_err(refuse)?;
        group.engines.push((index, engine));
    }
    Ok(driven)
}

/// The program's part of the address space; `None` where addresses are not remapped.
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

/// What to do with the organisation of a 32-bit machine that ignores the caches, whatever its type.
pub(crate) trait OrganisationUser {
    type Output;

    fn take<O>(self, organisation: O) -> Result<Self::Output, GeometryError>
    where
        O: IgnoresCaches + Send + 'static;
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
        Description::Base(_) => user.take(Base),
        Description::Notlb(_) | Description::Radix(_) => {
            Err(GeometryError("organisation: walks depend on the caches".to_owned()))
        }
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
    remapping: &'a SharedRemapping,
}

impl BuildEngine<'_> {
    fn engine<O, C>(self, organisation: O, caches: C) -> Box<dyn Driven<u32>>
    where
        O: OnCacheMiss<C> + Send + 'static,
        C: RunSlice + Send + 'static,
    {
        let Self { machine, seed, remapping } = self;
        let frames = Frames::new_32_bit(machine.memory.placement, seed);
        let interrupt_cycles = machine.interrupts.costs_cycles.first().copied().unwrap_or(0);
        let remapping = remapping.clone();
        let engine = Engine::new(organisation, caches, remapping, frames, interrupt_cycles);
        Box::new(Measured::new(engine))
    }

    fn without_tlb(self, organisation: NoTlb) -> Result<Box<dyn Driven<u32>>, GeometryError> {
        Ok(match SplitDirectMapped::new(self.machine) {
            Some(caches) => self.engine(organisation, caches),
            None => {
                let caches = Hierarchy::new(self.machine, self.seed)?;
                self.engine(organisation, caches)
            }
        })
    }
}

impl OrganisationUser for BuildEngine<'_> {
    type Output = Box<dyn Driven<u32>>;

    fn take<O>(self, organisation: O) -> Result<Self::Output, GeometryError>
    where
        O: IgnoresCaches + Send + 'static,
    {
        Ok(match SplitDirectMapped::new(self.machine) {
            Some(caches) => {
                let caches = Filtered::new(caches, &organisation.handlers());
                self.engine(organisation, caches)
            }
            None => {
                let caches = Hierarchy::new(self.machine, self.seed)?;
                self.engine(organisation, caches)
            }
        })
    }
}
