//! The caches hold data: what nobody cleans or invalidates stays as it is, as on the chips.

use mmulab_system::Stop;
use mmulab_system::checker::Kind;

use crate::support::{
    self, Code, LAB, MACHINES, asm, cached, machine, run, run_checked, run_limited, uncached,
};

/// Tables with the program's own megabyte, the instrumentation device, and megabytes 2 (cached) and
/// 3 (uncached) that both show physical megabyte 1.
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

/// Its two cacheable views are of one physical page; whoever does all that the report says reads
/// the new word.
#[test]
fn the_checker_names_all_that_a_store_in_the_write_buffer_needs() {
    for name in MACHINES {
        let mut code = Code::new();
        code.section(0, cached(0)).section(0x101, uncached(0x101));
        code.section(2, cached(1)).section(3, cached(1)).put(0x10_0000, 0x11).enable();
        code.set(1, 0x20_0000).set(2, 0x30_0000).set(3, 0x22);
        code.load(4, 1, 0);
        for line in (1..6).rev() {
            code.store(3, 2, 0x100 * line); // the buffer has no time for the last
        }
        code.store(3, 2, 0).load(5, 1, 0).set(0, 0).exit_with(0);
        let found = run_checked(&machine(name, &[]), &code);
        let report = &found.outcome.checker.reports[0];
        assert_eq!((report.kind, found.register(5)), (Kind::StaleDataLine, 0x11), "{name}");
        assert_eq!(
            report.missing,
            "drain the write buffer (c7, c10, 4), then invalidate the data cache line of \
             0x00200000 (c7, c6, 1)",
            "{name}"
        );
    }
}

/// Both cacheable views have a dirty line of one place. To invalidate the older now would lose its
/// other words; whoever does what the report says reads all that was stored.
#[test]
fn the_checker_names_what_two_dirty_lines_of_one_place_need() {
    for name in MACHINES {
        let program = |mended: bool| {
            let mut code = Code::new();
            code.section(0, cached(0)).section(0x101, uncached(0x101));
            code.section(2, cached(1)).section(3, cached(1)).put(0x10_0000, 0x11).enable();
            code.set(1, 0x20_0000).set(2, 0x30_0000).set(3, 0x22).set(6, 0x33);
            code.load(4, 1, 0).store(3, 1, 0).store(3, 1, 4);
            if mended {
                code.system(1, 7, 10, 1).system(1, 7, 6, 1);
            }
            code.load(4, 2, 0).store(6, 2, 0);
            if mended {
                code.system(2, 7, 10, 1);
            }
            code.load(4, 1, 0).load(5, 1, 4).set(0, 0).exit_with(0);
            code
        };
        let found = run_checked(&machine(name, &[]), &program(false));
        let report = found.outcome.checker.reports.last().unwrap();
        assert_eq!((report.kind, found.register(4)), (Kind::StaleDataLine, 0x22), "{name}");
        let missing = "clean and invalidate the data cache line of 0x00200000 before that store, \
                       and clean the data cache line of 0x00300000 (c7, c10, 1) after it";
        assert_eq!(report.missing.replace(", or the whole cache", ""), missing, "{name}");
        let mended = run_checked(&machine(name, &[]), &program(true));
        assert_eq!(mended.outcome.checker.reports, [], "{name}");
        assert_eq!((mended.register(4), mended.register(5)), (0x33, 0x22), "{name}");
    }
}

/// The store waits in the write buffer when the older line follows it to memory.
#[test]
fn the_checker_names_the_line_that_overwrote_a_store_in_the_write_buffer() {
    const BUFFERABLE: u32 = 1 << 2;
    for name in MACHINES {
        let mut code = with_alias();
        code.section(3, uncached(1) | BUFFERABLE).set(6, 0x33);
        code.load(4, 1, 0).store(3, 1, 0).load(4, 2, 0x100).load(4, 1, 0x200); // the TLB entries
        code.store(6, 2, 0).system(1, 7, 10, 1).system(0, 7, 10, 4);
        code.load(5, 2, 0).set(0, 0).exit_with(0);
        let found = run_checked(&machine(name, &[]), &code);
        let report = found.outcome.checker.reports.last().unwrap();
        assert_eq!((report.kind, found.register(5)), (Kind::StaleMemory, 0x22), "{name}");
        assert_eq!(report.missing, "clean and invalidate 0x00200000 before the store", "{name}");
    }
}

/// A descriptor that is in the data cache, or the write buffer, is not where walks read it.
#[test]
fn the_checker_names_the_clean_of_a_descriptor_beside_the_stale_entry() {
    for name in MACHINES {
        let mut code = Code::new();
        // Megabyte 4 shows the tables through the cache.
        code.section(0, uncached(0)).section(0x101, uncached(0x101)).section(2, uncached(1));
        code.section(4, cached(0)).put(0x10_0000, 0x11).put(0x50_0000, 0x55).enable();
        code.set(1, 0x20_0000).load(4, 1, 0).set(2, 0x40_4008).set(3, uncached(5));
        code.load(4, 2, 0).store(3, 2, 0).load(0, 1, 0).exit_with(0);
        let found = run_checked(&machine(name, &[]), &code);
        let [report] = &found.outcome.checker.reports[..] else {
            panic!("{name}: {:?}", found.outcome.checker.reports)
        };
        assert_eq!((found.stop, report.kind), (Stop::Exit(0x11), Kind::StaleTlbEntry), "{name}");
        let first = "clean the data cache line of 0x00404000 (c7, c10, 1), and drain the write \
                     buffer (c7, c10, 4), then invalidate the ";
        let missing = report.missing.replace(", or the whole cache", "");
        assert!(missing.starts_with(first), "{name}: {missing}");
    }
}

#[test]
fn the_checker_says_where_a_store_went_that_a_stale_entry_misled() {
    for name in MACHINES {
        let mut code = Code::new();
        code.section(0, uncached(0)).section(0x101, uncached(0x101)).section(2, uncached(1));
        code.section(3, uncached(4)).set(1, 0x20_0000).set(2, 0x30_0000).set(3, 0x22).enable();
        code.load(4, 1, 0).section(2, uncached(4));
        code.store(3, 1, 0).load(5, 2, 0).set(0, 0).exit_with(0);
        let found = run_checked(&machine(name, &[]), &code);
        let [store, load] = &found.outcome.checker.reports[..] else {
            panic!("{name}: {:?}", found.outcome.checker.reports)
        };
        assert_eq!((store.kind, load.kind), (Kind::StaleTlbEntry, Kind::StaleMemory), "{name}");
        assert!(load.stale.ends_with("which went to physical 0x00100000 instead"), "{name}");
        assert_eq!(load.missing, "what the report of that store names", "{name}");
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
            code.put(0x10_0000, asm("mov r0, #1")).put(0x10_0004, asm("mov pc, lr")).enable();
            code.set(1, 0x20_0000).set(2, 0x10_0000);
            code.asm("mov lr, pc; mov pc, r1");
            code.set(3, asm("mov r0, #2")).store(3, 2, 0);
            if invalidate {
                code.system(1, 7, 5, 0);
            }
            code.asm("mov lr, pc; mov pc, r1").exit_with(0);
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

/// Where the quarters of a page have other permissions, a TLB of these cores has an entry for each:
/// all four are invalidated one by one (ARM DDI 0151C, 3.3.12; ARM DDI 0198D, 3.2.12).
#[test]
fn each_quarter_with_a_permission_of_its_own_is_an_entry_of_the_arm9() {
    let small = |physical: u32, permissions: u32| physical | permissions << 4 | 2;
    let large = |physical: u32, permissions: u32| physical | permissions << 4 | 1;
    // The first and the third quarter of each page are loaded before and after the change of the
    // table.
    let run = |name: &str, permissions: u32, invalidated: &[u32]| {
        let mut code = Code::new();
        code.section(0, uncached(0)).section(0x101, uncached(0x101)).section(4, 0x8001).enable();
        for megabyte in [1, 2] {
            code.put(0x8000, small(megabyte << 20, permissions));
            for entry in 0x10..0x20 {
                code.put(0x8000 + 4 * entry, large(megabyte << 20, permissions));
            }
            code.system(0, 7, 10, 4);
            for quarter in invalidated {
                code.set(1, 0x40_0000 + 0x400 * quarter).system(1, 8, 6, 1);
                code.set(1, 0x41_0000 + 0x4000 * quarter).system(1, 8, 6, 1);
            }
            for address in [0x40_0000, 0x40_0800, 0x41_0000, 0x41_8000] {
                code.set(1, address).load(2, 1, 0);
            }
        }
        code.set(0, 0).exit_with(0);
        let outcome = run_checked(&machine(name, &[]), &code).outcome;
        let reports = &outcome.checker.reports;
        assert!(reports.iter().all(|report| report.kind == Kind::StaleTlbEntry), "{name}");
        (reports.len(), outcome.events.dtlb_misses)
    };
    let (alike, unlike) = (0xff, 0xfb);
    for name in MACHINES {
        let is_arm9 = matches!(name, "arm926ej-s" | "at91rm9200");
        assert_eq!(run(name, alike, &[0]).0, 0, "{name}");
        assert_eq!(run(name, unlike, &[0, 2]).0, 0, "{name}");
        assert_eq!(run(name, unlike, &[0]).0, if is_arm9 { 2 } else { 0 }, "{name}");
        let more = run(name, unlike, &[0, 2]).1 - run(name, alike, &[0, 2]).1;
        assert_eq!(more, if is_arm9 { 4 } else { 0 }, "{name}");
    }
}

/// The X bit of the XScale is bit 6 of a tiny page, as of an extended small one (252480-006,
/// 3.8.3.2): with C and without B it is the mini data cache, with both it fetches the lines of
/// stores that miss.
#[test]
fn a_tiny_page_of_the_xscale_has_the_x_bit() {
    let misses = |table: u32, page: u32| {
        let mut code = Code::new();
        code.section(0, cached(0)).section(0x101, uncached(0x101)).section(4, 0x8000 | table);
        code.put(0x8000, 0x10_0033 | page).enable().set(1, 0x40_0000).set(2, LAB);
        code.load(3, 2, 0x5c).store(3, 1, 0).load(4, 2, 0x5c).asm("sub r0, r4, r3").exit_with(0);
        run(&machine("ixp425", &[]), &code).register(0)
    };
    for table in [1, 3] {
        assert_eq!(misses(table, 0xc), 0, "write-back, table {table}");
        assert_eq!(misses(table, 0x4c), 1, "write-back that allocates, table {table}");
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
                code.asm("mrc p15, 0, pc, c7, c10, 3; bne . - 4");
            }
            "at91rm9200" => {
                for segment in 0..8 {
                    for way in 0..64 {
                        code.set(6, way << 26 | segment << 5).system(6, 7, 10, 2);
                    }
                }
            }
            _ => {
                // Reading a window as large as the cache pushes the dirty lines out; it is page
                // 4's.
                code.section(4, cached(4)).system(0, 8, 7, 0).set(6, 0x40_0000).set(7, 1024);
                code.asm("ldr r8, [r6], #32; subs r7, r7, #1; bne . - 8");
            }
        }
        code.system(0, 7, 10, 4).set(0, 0);
        for line in 0..7 {
            code.load(5, 2, line * 32).asm("add r0, r0, r5");
        }
        code.exit_with(0);
        assert_eq!(run(&machine(name, &[]), &code).stop, Stop::Exit(7 * 0x22), "{name}");
    }
}

/// MCR p15, 0, R2, c9, ...: a read buffer operation on the uncached view of megabyte 1.
fn read_ahead(code: &mut Code, m: u32) -> &mut Code {
    code.system(2, 9, m, 2)
}

#[test]
fn the_read_buffer_serves_loads_until_it_is_emptied() {
    // Encodings as in RedBoot's header for the SA-1100: entry n, 8 words at once.
    for (empty, seen) in
        [(None, 0x11), (Some((0, 0)), 0x22), (Some((1, 1)), 0x22), (Some((2, 1)), 0x11)]
    {
        let mut code = with_alias();
        read_ahead(&mut code, 9).store(3, 2, 0).system(0, 7, 10, 4);
        if let Some((m, opcode_2)) = empty {
            code.system(0, 9, m, opcode_2);
        }
        look(&mut code);
        let run = run_checked(&machine("sa1100", &[]), &code);
        assert_eq!((run.stop, run.register(5)), (Stop::Exit(0), seen), "{empty:?}");
        let kinds: Vec<Kind> = run.outcome.checker.reports.iter().map(|one| one.kind).collect();
        let expected = if seen == 0x11 { vec![Kind::StaleReadBuffer] } else { vec![] };
        assert_eq!(kinds, expected, "{empty:?}");
    }
}

#[test]
fn the_read_buffer_holds_the_words_that_were_asked_for() {
    // 1, 4 or 8 words; then the words at offsets 0, 4, 16 are stored to past it and loaded.
    for (m, old) in [(0, [true, false, false]), (4, [true, true, false]), (8, [true; 3])] {
        let mut code = with_alias();
        read_ahead(&mut code, m);
        code.store(3, 2, 0).store(3, 2, 4).store(3, 2, 16);
        code.load(4, 2, 0).load(5, 2, 4).load(6, 2, 16).set(0, 0).exit_with(0);
        let run = run(&machine("sa1100", &[]), &code);
        let seen = [run.register(4), run.register(5), run.register(6)].map(|word| word != 0x22);
        assert_eq!(seen, old, "c{m}");
    }
}

#[test]
fn fetching_ahead_costs_nothing_and_the_load_waits_for_the_rest() {
    // Cycles of the load when N instructions lie between it and the fetch.
    let waited = |between: usize| {
        let mut code = with_alias();
        code.load(5, 2, 32).set(9, support::LAB); // the page's TLB entry
        read_ahead(&mut code, 8);
        for _ in 0..between {
            code.asm("mov r0, r0");
        }
        code.load(6, 9, 8).load(5, 2, 0).load(7, 9, 8).asm("sub r7, r7, r6");
        code.set(0, 0).exit_with(0);
        run(&machine("sa1100", &[]), &code).register(7)
    };
    let line_fill = 70;
    assert!(waited(200) < 5, "{}", waited(200));
    assert!(waited(0) > line_fill / 2, "{}", waited(0));
    // The instructions are in lines of eight, which come from the same memory.
    assert!(waited(8) < waited(0));
}

#[test]
fn user_mode_may_use_the_read_buffer_where_the_system_permits_it() {
    for (permitted, mode) in [(false, 0x1b), (true, 0x10)] {
        let mut code = Code::new();
        code.set(2, 0x10_0000).system(0, 9, 0, if permitted { 5 } else { 4 });
        code.asm("msr cpsr_c, #0x10").system(2, 9, 0, 2);
        let steps = code.words.len() as u64;
        let run = run_limited(&machine("sa1100", &[]), &code.image(), false, steps);
        assert_eq!(run.system.core(0).mode(), mode, "{permitted}");
    }
}

#[test]
fn the_rr_bit_chooses_the_replacement_while_running() {
    // Round robin loses every line of a set that is visited in turn with one line too many; random
    // replacement keeps some.
    for (name, ways) in [("arm926ej-s", 4), ("at91rm9200", 64)] {
        let misses = |round_robin: bool| {
            let sets = 16384 / 32 / ways;
            let mut code = with_alias();
            code.read_system(4, 1, 0, 0).set(5, 1 << 14);
            code.asm(if round_robin { "orr r4, r4, r5" } else { "bic r4, r4, r5" })
                .system(4, 1, 0, 0);
            code.set(7, 20).set(6, sets * 32);
            // The inner loop visits one set, the outer one repeats it.
            code.asm("mov r3, r1").set(2, ways + 1).asm("ldr r0, [r3], r6; subs r2, r2, #1");
            code.asm("bne . - 8; subs r7, r7, #1; bne . - 24").set(0, 0).exit_with(0);
            let run = run(&machine(name, &[]), &code);
            assert_eq!(run.stop, Stop::Exit(0));
            run.outcome.events.dcache_misses
        };
        assert_eq!(misses(true), u64::from(20 * (ways + 1)), "{name}");
        assert!(misses(false) < u64::from(18 * (ways + 1)), "{name}: {}", misses(false));
    }
}

#[test]
fn an_instruction_line_can_be_fetched_before_it_runs() {
    for name in ["arm926ej-s", "at91rm9200"] {
        // The word before and after a store past the cache tells when the line came in: it has the
        // old code.
        let executed = |prefetched: bool| {
            let mut code = with_alias();
            code.put(0x30_0000, asm("mov r4, #1")).put(0x30_0004, asm("mov pc, lr"));
            if prefetched {
                code.system(1, 7, 13, 1);
            }
            code.put(0x30_0000, asm("mov r4, #2"));
            code.asm("mov lr, pc; mov pc, r1").set(0, 0).exit_with(0);
            run(&machine(name, &[]), &code).register(4)
        };
        assert_eq!((executed(true), executed(false)), (1, 2), "{name}");
    }
}

/// Whether an allocated line's address is translated is a value of the machine; either way the
/// dirty lines of the set leave, and with it, each unmapped one is walked for.
#[test]
fn allocating_lines_cleans_the_cache_with_or_without_walks() {
    let lines = 32;
    let run = |translates: &str| {
        let mut code = with_alias();
        code.load(4, 1, 0).store(3, 1, 0);
        for line in 0..lines {
            // 32 ways of a set: 1 KB apart.
            code.set(6, 0xfff0_0000 + line * 1024).system(6, 7, 2, 5);
        }
        code.system(0, 7, 10, 4);
        look(&mut code);
        run(&machine("ixp425", &[("core.line_allocation_translates", translates)]), &code)
    };
    let (without, with) = (run("false"), run("true"));
    assert_eq!(without.register(5), 0x22);
    assert_eq!(with.register(5), 0x22);
    let walks = |run: &support::Run| run.outcome.causes["dtlb-walk"].count;
    assert_eq!(walks(&with) - walks(&without), u64::from(lines));
    assert!(with.outcome.cycles > without.outcome.cycles);
}
