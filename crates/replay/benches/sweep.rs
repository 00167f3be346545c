//! How long the cross product of the 1998 study's table 1 takes. Not a test of anything.
//!
//! `cargo bench -p mmulab-replay --bench sweep -- $PWD/TRACE.mmt [ORGANISATION...]` runs its units
//! one after the other on one thread, and prints the time of each, on the clock and on the
//! processor: on a busy computer the second is the one to compare.

mod processor;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mmulab_machine::{Machine, ReplayMachine};
use mmulab_replay::sweep::units;

const ORGANISATIONS: [&str; 6] = ["ultrix", "mach", "intel", "pa-risc", "notlb", "base"];

/// The configurations of one organisation: 8 L1 sizes x 3 L2 sizes x 16 pairs of line sizes.
fn cross_product(organisation: &str) -> Vec<ReplayMachine> {
    let file = format!("{}/../../machines/{organisation}.toml", env!("CARGO_MANIFEST_DIR"));
    let machine = match Machine::load(Path::new(&file)) {
        Ok(Machine::Replay(machine)) => *machine,
        Ok(_) => panic!("{organisation} is not for replay"),
        Err(error) => panic!("{error}"),
    };
    let mut configurations = Vec::new();
    for first_size in (10..18).map(|shift| 1_u64 << shift) {
        for second_size in (19..22).map(|shift| 1_u64 << shift) {
            for first_line in [16, 32, 64, 128] {
                for second_line in [16, 32, 64, 128] {
                    let mut machine = machine.clone();
                    for cache in [&mut machine.l1i, &mut machine.l1d].into_iter().flatten() {
                        (cache.size_bytes, cache.line_bytes) = (first_size, first_line);
                    }
                    if let Some(cache) = &mut machine.l2 {
                        (cache.size_bytes, cache.line_bytes) = (second_size, second_line);
                    }
                    configurations.push(machine);
                }
            }
        }
    }
    configurations
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some((trace, names)) = arguments.split_first() else {
        println!("give a trace: cargo bench -p mmulab-replay --bench sweep -- $PWD/TRACE.mmt");
        return;
    };
    let chosen = ORGANISATIONS
        .into_iter()
        .filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == name));
    let machines: Vec<_> = chosen.flat_map(cross_product).collect();
    let (start, processor_start) = (Instant::now(), processor::seconds());
    for unit in units(&machines) {
        let (clock, processor) = (Instant::now(), processor::seconds());
        let mut source =
            mmulab_trace::open(Path::new(trace)).unwrap_or_else(|error| panic!("{error}"));
        let instructions = AtomicU64::new(0);
        let progress = |done| {
            instructions.store(done, Ordering::Relaxed);
            true
        };
        let outcomes =
            unit.run(&mut *source, 1, &progress).unwrap_or_else(|error| panic!("{error}"));
        println!(
            "{:<8} {:?}, {} configurations, L1 line {:3}: {:7.2} s, on the processor {:7.2} s, \
             {} M instructions",
            unit.machines[0].name,
            unit.sharing,
            outcomes.len(),
            unit.machines[0].l1d.as_ref().map_or(0, |cache| cache.line_bytes),
            clock.elapsed().as_secs_f64(),
            processor::seconds() - processor,
            instructions.into_inner() / 1_000_000,
        );
    }
    println!(
        "{} configurations: {:.1} s, on the processor {:.1} s",
        machines.len(),
        start.elapsed().as_secs_f64(),
        processor::seconds() - processor_start,
    );
}
