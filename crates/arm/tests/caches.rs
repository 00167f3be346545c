//! The caches hold data: what nobody cleans or invalidates stays as it is, as on the chips.

mod support;

use mmulab_arm::Stop;
use mmulab_arm::checker::Kind;
use support::{Code, MACHINES, cached, machine, run, run_checked, uncached};

/// Tables with the program's own megabyte, the lab block, and megabytes 2 (cached) and 3 (uncached)
/// that both show physical megabyte 1.
fn with_alias() -> Code {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.section(2, cached(1)).section(3, uncached(1));
    code.put(0x10_0000, 0x11).enable();
    code.set(1, 0x20_0000).set(2, 0x30_0000).set(3, 0x22);
    code
}

/// Loads through both views into R4 (cached) and R5 (uncached), and ends.
fn look(code: &mut Code) {
    code.load(4, 1, 0).load(5, 2, 0).set(0, 0).exit_with(0);
}

#[test]
fn a_store_stays_in_the_line_until_it_is_cleaned() {
    for name in MACHINES {
        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 1, 0);
        look(&mut code);
        let stale = run(&machine(name, &[]), &code);
        assert_eq!((stale.register(4), stale.register(5)), (0x22, 0x11), "{name}");

        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 1, 0).system(1, 7, 10, 1).system(0, 7, 10, 4);
        look(&mut code);
        let clean = run(&machine(name, &[]), &code);
        assert_eq!((clean.register(4), clean.register(5)), (0x22, 0x22), "{name}");
    }
}

#[test]
fn a_line_stays_old_until_it_is_invalidated() {
    for name in MACHINES {
        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 2, 0);
        look(&mut code);
        let stale = run(&machine(name, &[]), &code);
        assert_eq!((stale.register(4), stale.register(5)), (0x11, 0x22), "{name}");

        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 2, 0).system(1, 7, 6, 1);
        look(&mut code);
        let right = run(&machine(name, &[]), &code);
        assert_eq!((right.register(4), right.register(5)), (0x22, 0x22), "{name}");
    }
}

#[test]
fn stores_that_miss_do_not_allocate() {
    for name in MACHINES {
        let mut code = with_alias();
        code.store(3, 1, 0).system(0, 7, 10, 4).load(5, 2, 0).set(0, 0).exit_with(0);
        assert_eq!(run(&machine(name, &[]), &code).register(5), 0x22, "{name}");
    }
}

#[test]
fn an_invalidate_loses_what_was_not_cleaned() {
    for name in MACHINES {
        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 1, 0).system(1, 7, 6, 1);
        look(&mut code);
        let lost = run_checked(&machine(name, &[]), &code);
        assert_eq!(lost.register(4), 0x11, "{name}");
        assert!(lost.outcome.checker.reports[0].text.contains("was dropped"), "{name}");
    }
}

#[test]
fn the_checker_names_what_was_forgotten() {
    for name in MACHINES {
        let mut code = with_alias();
        code.load(4, 1, 0);
        let store_at = code.here();
        code.store(3, 1, 0);
        look(&mut code);
        let found = run_checked(&machine(name, &[]), &code);
        let [report] = &found.outcome.checker.reports[..] else {
            panic!("{name}: {:?}", found.outcome.checker.reports)
        };
        assert_eq!(report.kind, Kind::StaleMemory, "{name}");
        assert_eq!((report.since, report.address), (store_at, 0x30_0000), "{name}");
        assert!(report.missing.contains("clean the data cache line"), "{name}: {}", report.missing);
    }
}

#[test]
fn correct_programs_are_silent_and_take_the_same_time_when_checked() {
    for name in MACHINES {
        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 1, 0).system(1, 7, 10, 1).system(0, 7, 10, 4);
        look(&mut code);
        let (plain, checked) =
            (run(&machine(name, &[]), &code), run_checked(&machine(name, &[]), &code));
        assert_eq!(checked.outcome.checker.reports, [], "{name}");
        assert_eq!(plain.outcome.causes, checked.outcome.causes, "{name}");
        assert_eq!(plain.outcome.cycles, checked.outcome.cycles, "{name}");
    }
}

#[test]
fn old_instructions_run_until_the_line_is_invalidated() {
    for name in MACHINES {
        // A function at 0x100000 of megabyte 1 that gives 1 in R0; rewritten, it gives 2.
        let program = |invalidate: bool| {
            let mut code = Code::new();
            code.section(0, cached(0)).section(1, uncached(1)).section(0x101, uncached(0x101));
            code.section(2, cached(1));
            code.put(0x10_0000, 0xe3a0_0001).put(0x10_0004, 0xe1a0_f00e).enable();
            code.set(1, 0x20_0000).set(2, 0x10_0000);
            // MOV LR, PC; MOV PC, R1
            code.word(0xe1a0_e00f).word(0xe1a0_f001);
            code.set(3, 0xe3a0_0002).store(3, 2, 0);
            if invalidate {
                code.system(1, 7, 5, 0);
            }
            code.word(0xe1a0_e00f).word(0xe1a0_f001).exit_with(0);
            code
        };
        assert_eq!(run(&machine(name, &[]), &program(false)).stop, Stop::Exit(1), "{name}");
        assert_eq!(run(&machine(name, &[]), &program(true)).stop, Stop::Exit(2), "{name}");
    }
}

#[test]
fn a_remapped_page_is_found_through_the_old_entry() {
    for name in MACHINES {
        let program = |invalidate: bool| {
            let mut code = Code::new();
            code.section(0, uncached(0)).section(0x101, uncached(0x101)).section(2, uncached(1));
            code.put(0x10_0000, 0x11).put(0x40_0000, 0x44).enable();
            code.set(1, 0x20_0000).load(4, 1, 0).section(2, uncached(4));
            if invalidate {
                code.system(1, 8, 7, 0);
            }
            code.load(0, 1, 0).exit_with(0);
            code
        };
        let stale = run_checked(&machine(name, &[]), &program(false));
        assert_eq!(stale.stop, Stop::Exit(0x11), "{name}");
        assert_eq!(stale.outcome.checker.reports[0].kind, Kind::StaleTlbEntry, "{name}");
        let right = run_checked(&machine(name, &[]), &program(true));
        assert_eq!(right.stop, Stop::Exit(0x44), "{name}");
        assert_eq!(right.outcome.checker.reports, [], "{name}");
    }
}

#[test]
fn the_whole_data_cache_can_be_cleaned_by_each_core_in_its_way() {
    // Dirties seven lines, cleans as the core's manual says, and sums what memory has.
    for name in MACHINES {
        let mut code = with_alias();
        for line in 0..7 {
            code.load(4, 1, line * 32).store(3, 1, line * 32);
        }
        match name {
            "arm926ej-s" => {
                // MRC p15, 0, R15, c7, c10, 3; BNE back
                code.word(0xee17_ff7a).word(0x1aff_fffd);
            }
            "at91rm9200" => {
                for segment in 0..8 {
                    for way in 0..64 {
                        code.set(6, way << 26 | segment << 5).system(6, 7, 10, 2);
                    }
                }
            }
            _ => {
                // Reading a window as large as the cache pushes the dirty lines out; it is page 4's.
                code.section(4, cached(4)).system(0, 8, 7, 0).set(6, 0x40_0000).set(7, 1024);
                // LDR R8, [R6], #32; SUBS R7, R7, #1; BNE back
                code.word(0xe496_8020).word(0xe257_7001).word(0x1aff_fffc);
            }
        }
        code.system(0, 7, 10, 4).set(0, 0);
        for line in 0..7 {
            code.load(5, 2, line * 32).word(0xe080_0005);
        }
        code.exit_with(0);
        assert_eq!(run(&machine(name, &[]), &code).stop, Stop::Exit(7 * 0x22), "{name}");
    }
}
