//! Two ARM926EJ-S cores on one memory, without coherence: a program hands data from core 0 to
//! core 1. Where the writer does not clean its line, or the reader keeps its old one, the checker
//! says so with the places of both; the correct twin is silent. How finely the cores take turns
//! changes neither.

use mmulab_arm::VirtualCaches;
use mmulab_system::checker::{Kind, Report};
use mmulab_system::{Stop, Transcript};

use crate::support::{Code, LAB, START, cached, machine, uncached};

/// Where core 0 leaves the data, and the uncached word that says that it is there.
const DATA: u32 = 0x20_0000;
const FLAG: u32 = 0x30_0000;
/// The register of the instrumentation device that tells the core's number.
const CORE_NUMBER: u32 = 0x38;

struct Program {
    code: Code,
    /// The instruction that stores the data, and the one that loads it.
    store: u32,
    load: u32,
}

/// Branch to `target` under a condition, from `code.here()`.
fn branch(code: &mut Code, condition: u32, target: u32) {
    let offset = (target.wrapping_sub(code.here() + 8) >> 2) & 0xff_ffff;
    code.word(condition << 28 | 0x0a00_0000 | offset);
}

const NOT_EQUAL: u32 = 1;

/// Core 0 goes on behind this; R9 is the instrumentation device. The place of the branch that
/// another core takes.
fn core_0_goes_on(code: &mut Code) -> usize {
    code.load(0, 9, CORE_NUMBER).word(0xe350_0000).word(0); // CMP R0, #0
    code.words.len() - 1
}

/// Makes the branch of `core_0_goes_on` lead to `target`.
fn to_other_core(code: &mut Code, place: usize, target: u32) {
    let from = START + 4 * place as u32;
    code.words[place] = NOT_EQUAL << 28 | 0x0a00_0000 | (target - from - 8) >> 2 & 0xff_ffff;
}

/// Both cores load the data, so that both hold the line. Then core 0 stores 7 and sets the flag to
/// 2; core 1, which sets it to 1 when it has its line, waits for that and loads.
fn program(writer_cleans: bool, reader_invalidates: bool) -> Program {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.section(2, cached(2)).section(3, uncached(3)).enable();
    code.set(9, LAB).set(1, DATA).set(2, FLAG);
    let to_reader = core_0_goes_on(&mut code);
    // Core 0.
    code.load(3, 1, 0);
    let wait = code.here();
    code.load(4, 2, 0).word(0xe354_0001); // CMP R4, #1
    branch(&mut code, NOT_EQUAL, wait);
    code.set(3, 7);
    let store = code.here();
    code.store(3, 1, 0);
    if writer_cleans {
        code.system(1, 7, 10, 1).set(5, 0).system(5, 7, 10, 4);
    }
    code.set(4, 2).store(4, 2, 0);
    let idle = code.here();
    branch(&mut code, 14, idle);
    // Core 1.
    let reader = code.here();
    code.load(3, 1, 0).set(4, 1).store(4, 2, 0);
    let wait = code.here();
    code.load(4, 2, 0).word(0xe354_0002); // CMP R4, #2
    branch(&mut code, NOT_EQUAL, wait);
    if reader_invalidates {
        code.system(1, 7, 6, 1);
    }
    let load = code.here();
    code.load(0, 1, 0).exit_with(0);
    to_other_core(&mut code, to_reader, reader);
    Program { code, store, load }
}

/// Runs it; gives the status, which is what core 1 loaded, the reports, and the cycles.
fn run(program: &Program, interleave_cycles: &str) -> (Stop, Vec<Report>, u64) {
    let changes = [("cores", "2"), ("interleave_cycles", interleave_cycles)];
    let Ok(mut system) = mmulab_arm::system::<VirtualCaches>(&machine("arm926ej-s", &changes))
    else {
        panic!("two cores are a machine");
    };
    system.load(&program.code.image());
    system.start_checking();
    let stop = system.run(&mut Transcript::default(), 1_000_000);
    assert!(
        system.describe(stop).ends_with("on core 1"),
        "it ends the run: {}",
        system.describe(stop)
    );
    let reports = system.reports();
    (stop, reports, system.cycles())
}

const TURNS: [&str; 4] = ["1", "10", "100", "1000"];

#[test]
fn the_correct_twin_is_silent() {
    let program = program(true, true);
    for turns in TURNS {
        let (stop, reports, _) = run(&program, turns);
        assert_eq!((stop, reports.len()), (Stop::Exit(7), 0), "{turns}: {reports:?}");
    }
}

#[test]
fn a_writer_that_does_not_clean_is_reported_with_both_places() {
    let program = program(false, true);
    for turns in TURNS {
        let (stop, reports, _) = run(&program, turns);
        assert_eq!((stop, reports.len()), (Stop::Exit(0), 1), "{turns}: {reports:?}");
        let report = &reports[0];
        assert_eq!((report.core, report.pc), (1, program.load), "the reader");
        assert_eq!((report.since_core, report.since), (0, program.store), "the writer");
        assert!(report.stale.contains("dirty line 0x00200000 of core 0"), "{}", report.text);
        assert!(report.missing.contains("c7, c10, 1") && report.missing.contains("on core 0"));
        assert!(report.text.contains("on core 0"), "{}", report.text);
    }
}

#[test]
fn a_reader_that_keeps_its_line_is_reported_with_both_places() {
    let program = program(true, false);
    for turns in TURNS {
        let (stop, reports, _) = run(&program, turns);
        assert_eq!((stop, reports.len()), (Stop::Exit(0), 1), "{turns}: {reports:?}");
        let report = &reports[0];
        assert_eq!(report.kind, Kind::StaleDataLine);
        assert_eq!((report.core, report.pc), (1, program.load), "the reader");
        assert_eq!((report.since_core, report.since), (0, program.store), "the writer");
        assert!(report.missing.contains("invalidate the data cache line"), "{}", report.missing);
    }
}

#[test]
fn turns_decide_the_time_and_a_run_is_always_the_same() {
    let program = program(true, true);
    let mut times = Vec::new();
    for turns in TURNS {
        let first = run(&program, turns);
        assert_eq!(first, run(&program, turns), "{turns}");
        times.push(first.2);
    }
    // A core that waits for the other sees it at the end of its turn at the latest.
    for (turns, cycles) in TURNS.iter().zip(&times) {
        let late = cycles.abs_diff(times[0]);
        assert!(late <= 4 * turns.parse::<u64>().unwrap_or(0), "{turns}: {times:?}");
    }
}

/// A core that stores to buffered memory and then works in its registers for ever: the write buffer
/// needs no help.
#[test]
fn a_buffered_store_is_seen_though_its_core_never_uses_memory_again() {
    const BUFFERABLE: u32 = 4;
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.section(3, uncached(3) | BUFFERABLE).enable();
    code.set(9, LAB).set(2, FLAG);
    let to_reader = core_0_goes_on(&mut code);
    code.set(4, 1).store(4, 2, 0);
    let working = code.here();
    code.word(0xe281_1001); // ADD R1, R1, #1
    branch(&mut code, 14, working);
    let reader = code.here();
    code.load(4, 2, 0).word(0xe354_0001); // CMP R4, #1
    branch(&mut code, NOT_EQUAL, reader);
    code.exit_with(4);
    to_other_core(&mut code, to_reader, reader);
    for turns in TURNS {
        let changes = [("cores", "2"), ("interleave_cycles", turns)];
        let mut system = mmulab_arm::system::<VirtualCaches>(&machine("arm926ej-s", &changes))
            .expect("two cores are a machine");
        system.load(&code.image());
        assert_eq!(system.run(&mut Transcript::default(), 1_000_000), Stop::Exit(1), "{turns}");
    }
}

/// A core that waits for an interrupt executes nothing, however long another runs.
#[test]
fn a_core_that_waits_executes_nothing() {
    const LOOPS: u32 = 10_000;
    let mut code = Code::new();
    code.set(9, LAB);
    let to_waiter = core_0_goes_on(&mut code);
    code.set(1, LOOPS);
    let counting = code.here();
    code.word(0xe251_1001); // SUBS R1, R1, #1
    branch(&mut code, NOT_EQUAL, counting);
    code.exit_with(1);
    let waiter = code.here();
    code.system(0, 7, 0, 4); // Wait for interrupt: ARM DDI 0198, 2.3.7.
    branch(&mut code, 14, waiter);
    to_other_core(&mut code, to_waiter, waiter);
    for turns in TURNS {
        let changes = [("cores", "2"), ("interleave_cycles", turns)];
        let Ok(mut system) = mmulab_arm::system::<VirtualCaches>(&machine("arm926ej-s", &changes))
        else {
            panic!("two cores are a machine");
        };
        system.load(&code.image());
        assert_eq!(system.run(&mut Transcript::default(), 1_000_000), Stop::Exit(0));
        let executed = system.instructions();
        let beside_the_loop = executed - u64::from(2 * LOOPS);
        assert!(beside_the_loop < 30, "{turns}: {beside_the_loop} instructions beside the loop");
    }
}
