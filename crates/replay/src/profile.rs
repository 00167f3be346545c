//! Which functions and lines of the program its costs belong to.
//!
//! The program is replayed an instruction at a time, except for blocks that are known to cost
//! nothing, so that each cycle belongs to the instruction that spent it and the totals are those of
//! a plain replay.

mod code;
mod paths;

use mmulab_hardware::{Cause as _, Ledger};
use mmulab_machine::ReplayMachine;
use mmulab_symbols::ProgramSymbols;
use mmulab_trace::{Batch, Event, LineCrossing, Source};

use crate::attribution::Regions;
use crate::cause::Cause;
use crate::counting::Counting;
use crate::outcome::Outcome;
use crate::program::{BatchSlice, Program};
use crate::read_ahead::{ReadAhead, Stretch};
use crate::replay::{Driven, Group, Options, ReplayError, build, refusal};
use crate::subject::Subject;
use crate::watched::watched;
use code::Code;
use paths::Paths;

pub use code::{CodeCost, Function, LineCost, PathCost, Profile};

/// Replays a trace on one machine and attributes what it costs to functions, source lines and paths
/// of calls. `threads` of the options have no meaning.
///
/// # Errors
/// As [`crate::replay()`].
pub fn profile(
    source: &mut dyn Source,
    machine: &ReplayMachine,
    options: Options<'_>,
) -> Result<(Outcome, Profile), ReplayError> {
    watched(options.progress, |continues| profile_to_end(source, machine, options, continues))
}

fn profile_to_end(
    source: &mut dyn Source,
    machine: &ReplayMachine,
    options: Options<'_>,
    continues: impl Fn(u64) -> bool,
) -> Result<(Outcome, Profile), ReplayError> {
    let Options { seed, warm_up, region, .. } = options;
    let mut reader = ReadAhead::new(Counting::new(source, warm_up, region)?, 1);
    let subjects = [Subject::new(machine.clone())];
    let mut driven = build(&subjects, seed, 1)?;
    let mut regions = Regions::default();
    let mut symbols = ProgramSymbols::default();
    let mut paths = Paths::default();
    let mut code = Code::default();
    let (mut single_u32, mut single_u64) = (Program::<u32>::default(), Program::<u64>::default());
    let mut stretch = Stretch::default();
    loop {
        reader.fill(&mut stretch)?;
        let Some((batch, _)) = stretch.batches().next() else { break };
        let counts = stretch.charged_to().counts;
        for (_, event) in &batch.events {
            regions.note(event);
            if let Event::Map { address, length_bytes, executable: true, name } = event {
                symbols.map_code(*address, *length_bytes, name);
            }
        }
        let table = reader.source().source().table();
        driven.learn(table.blocks(), &stretch).map_err(|refused| refusal(&subjects, refused))?;
        driven.count(counts);
        let executed = Executed { table, batch, counts };
        for (_, group) in &mut driven.remapped {
            let after = |first: u32, bytes| first.wrapping_add(bytes as u32);
            single_u32.learn_instructions(&group.program, after);
            let run = executed.run(group, &single_u32, &mut paths, &mut code);
            run.map_err(|refused| refusal(&subjects, refused))?;
        }
        if !driven.flat.engines.is_empty() {
            single_u64.learn_instructions(&driven.flat.program, u64::wrapping_add);
            let run = executed.run(&mut driven.flat, &single_u64, &mut paths, &mut code);
            run.map_err(|refused| refusal(&subjects, refused))?;
        }
        if !continues(driven.instructions()) {
            return Err(ReplayError::Stopped);
        }
    }
    reader.source().check_region()?;
    let profile = code.profile(reader.blocks(), &paths, &mut symbols);
    let outcome = driven.finish(&subjects, &regions).into_iter().flatten().next();
    let mut outcome = outcome.unwrap_or_else(|| unreachable!("there is one subject"));
    let symbol_files = &symbols.sources() | &reader.source().symbol_files();
    outcome.symbol_files = symbol_files.into_iter().collect();
    Ok((outcome, profile))
}

/// A batch of the trace.
struct Executed<'a> {
    table: &'a mmulab_trace::BlockTable,
    batch: &'a Batch,
    counts: bool,
}

impl Executed<'_> {
    /// Runs the batch on the one machine of `group`; `single` has the program's instructions as
    /// blocks.
    fn run<A: Send + Sync + Copy>(
        &self,
        group: &mut Group<A>,
        single: &Program<A>,
        paths: &mut Paths,
        code: &mut Code,
    ) -> Result<(), crate::replay::Refused> {
        let Group { program, engines } = group;
        let Some((place, engine)) = engines.first_mut() else { return Ok(()) };
        let whole = program.slice(self.batch);
        let mut crossings = whole.crossings;
        let mut events = whole.events;
        let mut spent = Spent::of(&**engine);
        let mut made = 0;
        let refused = |reason| (*place, reason);
        for (at, number) in whole.blocks.iter().enumerate() {
            let here = events.partition_point(|(place, _)| *place <= at);
            for (_, event) in &events[..here] {
                paths.note(event);
            }
            let own_events = events[..here].iter().map(|(_, event)| (0, event.clone())).collect();
            let before: Vec<(usize, Event)> = own_events;
            events = &events[here..];
            let path = paths.step(self.table, *number, &whole.addresses[made..]);
            let block = &program.blocks[*number as usize];
            let end = made + block.accesses as usize;
            let own = &whole.addresses[made..end];
            let spans_lines = crossings.first().is_some_and(|one| (one.access as usize) < end);
            if self.counts {
                code.execute(path, *number);
            }
            code.reach(path, block.first_instruction + block.instructions.saturating_sub(1));
            if before.is_empty() && !spans_lines && engine.is_known(block, own) {
                let blocks = std::slice::from_ref(number);
                let slice = BatchSlice { blocks, addresses: own, crossings: &[], ..whole };
                engine.run(BatchSlice { events: &[], ..slice }).map_err(refused)?;
                made = end;
                continue;
            }
            let mut events_left = &before[..];
            for instruction in 0..block.instructions {
                let number = block.first_instruction + instruction;
                let end = made + single.blocks[number as usize].accesses as usize;
                let (here, later) = crossings
                    .split_at(crossings.partition_point(|one| (one.access as usize) < end));
                crossings = later;
                let rebased: Vec<LineCrossing> = here
                    .iter()
                    .map(|one| LineCrossing { access: one.access - made as u32, ..*one })
                    .collect();
                let slice = BatchSlice {
                    program: single,
                    blocks: &[number],
                    addresses: &whole.addresses[made..end],
                    crossings: &rebased,
                    events: std::mem::take(&mut events_left),
                };
                engine.run(slice).map_err(refused)?;
                made = end;
                let cost = spent.since(&**engine);
                if self.counts
                    && let Some(cost) = cost
                {
                    code.spend(path, number, cost);
                }
            }
        }
        if !events.is_empty() {
            events.iter().for_each(|(_, event)| paths.note(event));
            let rest: Vec<(usize, Event)> =
                events.iter().map(|(_, event)| (0, event.clone())).collect();
            let slice = BatchSlice { blocks: &[], addresses: &[], crossings: &[], ..whole };
            engine.run(BatchSlice { events: &rest, ..slice }).map_err(refused)?;
            // A promotion, behind what the program asked for memory with.
            if self.counts
                && let Some(cost) = spent.since(&**engine)
            {
                code.spend_last(cost);
            }
        }
        Ok(())
    }
}

/// What an engine has spent, and when that was looked up.
pub(crate) struct Spent {
    cycles: u64,
    walks: u64,
    pub(crate) cost: CodeCost,
}

impl Spent {
    pub(crate) fn of<A>(engine: &dyn Driven<A>) -> Self {
        let ledger = engine.ledger();
        let mut cost = CodeCost::default();
        for &cause in Cause::ALL {
            let cycles = ledger.account(cause).cycles;
            if cause.is_mcpi() {
                cost.cache_cycles += cycles;
            } else if cause.is_vmcpi() || cause == Cause::Interrupt {
                cost.translation_cycles += cycles;
            } else {
                cost.page_fault_cycles += cycles;
            }
        }
        cost.walks = walks(ledger);
        Self { cycles: ledger.cycles(), walks: cost.walks, cost }
    }

    /// What was spent since the last time; `None` if nothing.
    fn since<A>(&mut self, engine: &dyn Driven<A>) -> Option<CodeCost> {
        let ledger = engine.ledger();
        if ledger.cycles() == self.cycles && walks(ledger) == self.walks {
            return None;
        }
        let now = Self::of(engine);
        let cost = now.cost.since(&self.cost);
        *self = now;
        Some(cost)
    }
}

fn walks(ledger: &Ledger<Cause>) -> u64 {
    ledger.account(Cause::Uhandler).count + ledger.account(Cause::OverlappedWalk).count
}
