//! How fast miss curves are counted, decode included. Not a test of anything.
//!
//! `cargo bench -p mmulab-replay --bench miss_curves -- $PWD/TRACE.mmt` prints the rate of three
//! runs on two threads, and of three that count what was read before.

mod processor;

use std::path::Path;
use std::time::Instant;

use mmulab_machine::PageSize;
use mmulab_replay::{MissCurveCounter, MissCurves, Stream, miss_curves};
use mmulab_trace::{Batch, BlockTable};

/// When something began, by the clock and by the processor.
struct Start(Instant, f64);

fn now() -> Start {
    Start(Instant::now(), processor::seconds())
}

fn report(what: &str, start: &Start, result: &MissCurves) {
    let on_processor = processor::seconds() - start.1;
    let seconds = start.0.elapsed().as_secs_f64();
    let references =
        result.curve(Stream::Unified, PageSize::Size4K).map_or(0, |curve| curve.references);
    println!(
        "{what:<24} {seconds:7.3} s, {:6.1} M references/s, on the processor {on_processor:7.2} s, \
         {:6.1} M references/s",
        references as f64 / seconds / 1e6,
        references as f64 / on_processor / 1e6,
    );
}

/// The start of a trace, in memory.
fn load(trace: &Path, most_blocks: usize) -> (BlockTable, Vec<Batch>) {
    let mut source = mmulab_trace::open(trace).unwrap_or_else(|error| panic!("{error}"));
    let mut batches = Vec::new();
    let mut blocks = 0;
    while blocks < most_blocks {
        let mut batch = Batch::default();
        if !source.next_batch(&mut batch).unwrap_or_else(|error| panic!("{error}")) {
            break;
        }
        blocks += batch.blocks.len();
        batches.push(batch);
    }
    (source.table().clone(), batches)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [trace] = &arguments[..] else {
        println!(
            "give a trace: cargo bench -p mmulab-replay --bench miss_curves -- $PWD/TRACE.mmt"
        );
        return;
    };
    let trace = Path::new(trace);
    for _ in 0..3 {
        let start = now();
        let mut source = mmulab_trace::open(trace).unwrap_or_else(|error| panic!("{error}"));
        let result = miss_curves(&mut *source, &|_| true).unwrap_or_else(|error| panic!("{error}"));
        report("from the file", &start, &result);
    }
    let (table, batches) = load(trace, 20_000_000);
    for _ in 0..3 {
        let start = now();
        let mut counter = MissCurveCounter::default();
        counter.learn(table.blocks());
        batches.iter().for_each(|batch| counter.count(batch));
        report("from memory", &start, &counter.finish());
    }
}
