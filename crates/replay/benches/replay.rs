//! How fast traces are replayed, decode included. Not a test of anything.
//!
//! `cargo bench -p mmulab-replay --bench replay -- $PWD/TRACE.mmt [MACHINE...]` replays the trace
//! on each machine alone and on all of them together, on one thread and on all, and prints millions
//! of instructions a second. Machines are those of the folder `machines`; without any, all are
//! taken.

mod processor;

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use mmulab_machine::{Machine, ReplayMachine};
use mmulab_replay::{Options, Outcome, replay};

fn load(path: &Path) -> Option<ReplayMachine> {
    match Machine::load(path) {
        Ok(Machine::Replay(machine)) => Some(*machine),
        Ok(Machine::System(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

fn run(trace: &Path, machines: &[ReplayMachine], threads: Option<usize>) -> (f64, Vec<Outcome>) {
    let mut source = mmulab_trace::open(trace).unwrap_or_else(|error| panic!("{error}"));
    let start = Instant::now();
    let threads = threads.and_then(NonZeroUsize::new);
    let outcomes = replay(source.as_mut(), machines, Options { threads, ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}"));
    (start.elapsed().as_secs_f64(), outcomes)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some((trace, names)) = arguments.split_first() else {
        println!(
            "give a trace: cargo bench -p mmulab-replay --bench replay -- $PWD/TRACE.mmt [MACHINE...]"
        );
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("machines: {error}"))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let machines: Vec<_> = files
        .iter()
        .filter_map(|path| load(path))
        .filter(|machine| names.is_empty() || names.contains(&machine.name))
        .collect();
    for name in names {
        let is_found = machines.iter().any(|machine| machine.name == *name);
        assert!(is_found, "{name}: there is no machine for recordings of that name");
    }
    let trace = Path::new(trace);
    let rate = |seconds: f64, outcomes: &[Outcome]| {
        let instructions: u64 = outcomes.iter().map(|outcome| outcome.instructions).sum();
        instructions as f64 / seconds / 1e6
    };
    let (seconds, _) = decode(trace);
    println!("{:<24} {seconds:8.3} s", "decode alone");
    for machine in &machines {
        let processor = processor::seconds();
        let (seconds, outcomes) = run(trace, std::slice::from_ref(machine), Some(1));
        let on_processor = processor::seconds() - processor;
        let [outcome] = &outcomes[..] else { continue };
        println!(
            "{:<24} {:8.3} s {:8.1} M instructions/s, on the processor {:8.1}   mcpi {:.4} vmcpi {:.4} interrupts {}",
            format!("{}, one thread", machine.name),
            seconds,
            rate(seconds, &outcomes),
            rate(on_processor, &outcomes),
            outcome.mcpi,
            outcome.vmcpi,
            outcome.interrupts.count,
        );
    }
    if machines.len() < 2 {
        return;
    }
    for (threads, what) in [(Some(1), "one thread"), (None, "all threads")] {
        let (seconds, outcomes) = run(trace, &machines, threads);
        let what = format!("{} machines, {what}", machines.len());
        println!("{what:<24} {seconds:8.3} s {:8.1} M instructions/s", rate(seconds, &outcomes));
    }
}

fn decode(trace: &Path) -> (f64, usize) {
    let mut source = mmulab_trace::open(trace).unwrap_or_else(|error| panic!("{error}"));
    let start = Instant::now();
    let mut batch = mmulab_trace::Batch::default();
    let mut blocks = 0;
    while source.next_batch(&mut batch).unwrap_or_else(|error| panic!("{error}")) {
        blocks += batch.blocks.len();
    }
    (start.elapsed().as_secs_f64(), blocks)
}
