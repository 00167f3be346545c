//! Runs an image without the Python front end, for profiling:
//! `boot MACHINE.toml IMAGE [DTB [INITRD [APPEND]]]`. The environment may set `CHECK` (any value)
//! for the checker and `LIMIT` to a number of instructions.

use std::io::Write;

use mmulab_arm::{CacheKind, CoherentCaches, VirtualCaches, load};
use mmulab_machine::{Machine, SystemMachine};
use mmulab_system::{File, Host, Loaded, Request};

struct Terminal;

impl Host for Terminal {
    fn output(&mut self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next();
    let machine = Machine::load(next().ok_or("machine file?")?.as_ref())?;
    let Machine::System(machine) = machine else { return Err("not a system machine".into()) };
    let image = File::read(next().ok_or("image?")?.as_ref())?;
    let device_tree = next().map(|name| File::read(name.as_ref())).transpose()?;
    let initrd = next().map(|name| File::read(name.as_ref())).transpose()?;
    let request = Request { image: Some(image), initrd, device_tree, append: next() };
    let loaded = load(&request, machine.ram())?;
    match machine.coherence {
        Some(_) => run::<CoherentCaches>(&machine, &loaded),
        None => run::<VirtualCaches>(&machine, &loaded),
    }
}

fn run<K: CacheKind>(
    machine: &SystemMachine,
    loaded: &Loaded,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut system = mmulab_arm::system::<K>(machine)?;
    if std::env::var_os("CHECK").is_some() {
        system.start_checking();
    }
    system.load(loaded);
    let limit = std::env::var("LIMIT").ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let started = std::time::Instant::now();
    let stop = system.run(&mut Terminal, limit);
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("\n{stop:?} at {:#x}", system.core(0).pc());
    let (instructions, cycles) = (system.instructions(), system.cycles());
    eprintln!(
        "{instructions} instructions, {cycles} cycles, {seconds:.2} s, {:.1} MIPS",
        instructions as f64 / seconds / 1e6
    );
    for row in system.causes() {
        eprintln!("{:18} {:12} {:14}", row.cause, row.account.count, row.account.cycles);
    }
    eprintln!("{:?}", system.core(0).memory.statistics.counters);
    for report in system.reports() {
        eprintln!("{}", report.text);
    }
    Ok(())
}
