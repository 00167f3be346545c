//! Lockdown of caches and TLBs by the procedures of the manuals.

use crate::support::{self, Code, cached, machine, run, uncached};

/// Lines of one set of a 16 KB cache of four ways are so far apart, and those of one segment of a
/// 16 KB cache of 64 ways as well, several times.
const SAME_SET_BYTES: u32 = 4096;
/// Loads that evict everything from a set that is not locked.
const CROWD: u32 = 250;

/// Megabyte 2 (cached) and 3 (uncached) show physical megabyte 1; megabyte 5 is cached, too. R1 and
/// R2 are bases of the first two, R5 of the last.
fn views() -> Code {
    let mut code = Code::new();
    code.section(0, uncached(0)).section(0x101, uncached(0x101));
    code.section(2, cached(1)).section(3, uncached(1)).section(5, cached(5));
    code.enable().set(1, 0x20_0000).set(2, 0x30_0000).set(5, 0x50_0000);
    code
}

/// Fills the set of the first line over and over from megabyte 5. Spoils R6, R7 and R8.
fn crowd(code: &mut Code) {
    code.set(6, 0x50_0000).set(7, CROWD).set(8, SAME_SET_BYTES);
    code.asm("ldr r9, [r6], r8; subs r7, r7, #1; bne . - 8");
}

/// Changes the first word in memory and loads it through the cache: 0 says that the line stayed.
fn ends_with_what_the_cache_says(code: &mut Code) {
    code.set(3, 0x22).store(3, 2, 0).load(0, 1, 0).exit_with(0);
}

#[test]
fn each_way_of_the_arm926_can_be_locked_as_its_manual_says() {
    // ARM DDI 0198D, 2.3.10: open only the way, load, then lock only the way.
    for way in 0..4 {
        for locked in [false, true] {
            let mut code = views();
            code.set(4, 0xfff0 | 0xf & !(1 << way)).system(4, 9, 0, 0).load(9, 1, 0);
            code.set(4, 0xfff0 | u32::from(locked) << way).system(4, 9, 0, 0);
            crowd(&mut code);
            code.read_system(3, 9, 0, 0).asm("mov r12, r3");
            ends_with_what_the_cache_says(&mut code);
            let run = run(&machine("arm926ej-s", &[]), &code);
            let expected = if locked { 0 } else { 0x22 };
            assert_eq!(run.register(0), expected, "way {way}, locked: {locked}");
            assert_eq!(run.register(12), 0xfff0 | u32::from(locked) << way);
        }
    }
}

#[test]
fn a_locked_way_of_the_arm926_is_no_longer_filled() {
    // Three ways locked and empty leave one: of two lines in use by turns none stays.
    for (locks, misses) in [(0, 2), (0b1110, 40)] {
        let mut code = views();
        code.set(4, 0xfff0 | locks).system(4, 9, 0, 0);
        for _ in 0..20 {
            code.load(9, 1, 0).load(9, 5, 0);
        }
        code.set(0, 0).exit_with(0);
        let run = run(&machine("arm926ej-s", &[]), &code);
        assert_eq!(run.outcome.events.dcache_misses, misses, "{locks:04b}");
    }
}

#[test]
fn lines_below_the_base_of_the_arm920_stay() {
    // ARM DDI 0151C, 2.3.10: base and victim 0, load, base and victim 1. The segment of an address
    // is in bits 5 to 7, and replacement is random or by turns.
    for round_robin in [0, 1 << 14] {
        for base in [0, 1] {
            let mut code = views();
            code.read_system(10, 1, 0, 0).set(11, round_robin).asm("orr r10, r10, r11");
            code.system(10, 1, 0, 0);
            crowd(&mut code);
            code.set(4, 0).system(4, 9, 0, 0).load(9, 1, 0);
            code.set(4, base << 26).system(4, 9, 0, 0);
            crowd(&mut code);
            code.read_system(3, 9, 0, 0).asm("mov r12, r3");
            ends_with_what_the_cache_says(&mut code);
            let run = run(&machine("at91rm9200", &[]), &code);
            let expected = if base == 1 { 0 } else { 0x22 };
            assert_eq!(run.register(0), expected, "base {base}, control {round_robin:#x}");
            assert_eq!(run.register(12), base << 26);
        }
    }
}

/// Loads by a locked-down translation of megabyte 2 after the tables have changed and the TLB was
/// emptied: 0x11 is what the old one shows, 0x44 what the new one shows.
fn locked_translation(lock: impl Fn(&mut Code), after: impl Fn(&mut Code)) -> Code {
    let mut code = Code::new();
    code.section(0, uncached(0)).section(0x101, uncached(0x101)).section(2, uncached(1));
    code.put(0x10_0000, 0x11).put(0x40_0000, 0x44).enable();
    // What the procedure itself needs is translated before (2.3.11 says so).
    code.set(10, support::LAB).load(9, 10, 0).set(1, 0x20_0000);
    lock(&mut code);
    code.section(2, uncached(4)).system(0, 8, 7, 0);
    after(&mut code);
    code.load(0, 1, 0).exit_with(0);
    code
}

#[test]
fn the_arm926_locks_translations_and_counts_its_victim() {
    // ARM DDI 0198D, 2.3.11: with P set the walk fills the entry that the victim names, and the
    // victim counts up; it can be read.
    let lock = |code: &mut Code| {
        code.system(1, 8, 7, 1).set(4, 7 << 26 | 1).system(4, 10, 0, 0).load(9, 1, 0);
        code.read_system(3, 10, 0, 0); // the victim of eight entries is 0 again
        code.set(4, 5 << 26).system(4, 10, 0, 0).read_system(12, 10, 0, 0);
    };
    let kept = run(&machine("arm926ej-s", &[]), &locked_translation(lock, |_| {}));
    assert_eq!((kept.register(0), kept.register(3), kept.register(12)), (0x11, 1, 5 << 26));
    // Invalidating its own address takes it away.
    let gone = locked_translation(lock, |code| {
        code.system(1, 8, 7, 1);
    });
    assert_eq!(run(&machine("arm926ej-s", &[]), &gone).register(0), 0x44);
    // Without P it goes where all go.
    let plain = locked_translation(
        |code| {
            code.set(4, 7 << 26).system(4, 10, 0, 0).load(9, 1, 0).read_system(3, 10, 0, 0);
        },
        |_| {},
    );
    let plain = run(&machine("arm926ej-s", &[]), &plain);
    assert_eq!((plain.register(0), plain.register(3)), (0x44, 7 << 26));
}

#[test]
fn the_arm920_locks_translations_and_counts_its_victim() {
    // ARM DDI 0151C, 2.3.13: base, victim and P of the data TLB; each walk counts the victim up.
    let lock = |preserve: u32| {
        move |code: &mut Code| {
            code.system(1, 8, 6, 1).set(4, preserve).system(4, 10, 0, 0).load(9, 1, 0);
            code.read_system(3, 10, 0, 0);
            code.set(4, 1 << 26 | 1 << 20).system(4, 10, 0, 0).read_system(12, 10, 0, 0);
        }
    };
    let kept = run(&machine("at91rm9200", &[]), &locked_translation(lock(1), |_| {}));
    assert_eq!((kept.register(0), kept.register(3)), (0x11, 1 << 20 | 1));
    assert_eq!(kept.register(12), 1 << 26 | 1 << 20);
    let plain = run(&machine("at91rm9200", &[]), &locked_translation(lock(0), |_| {}));
    assert_eq!((plain.register(0), plain.register(3)), (0x44, 1 << 20));
}

/// The XScale's lock operation puts the translation into the lowest entry that is not locked, and
/// nowhere else.
#[test]
fn locking_a_translation_of_the_xscale_takes_one_entry() {
    // Of four entries megabyte 7 has the first when 5 is locked there.
    let misses = |touched: &[u32]| {
        let mut code = Code::new();
        code.section(0, cached(0)).section(0x101, uncached(0x101));
        for megabyte in 2..8 {
            code.section(megabyte, uncached(1));
        }
        code.enable();
        for megabyte in [2, 3, 4, 6, 7] {
            code.set(1, megabyte << 20).load(2, 1, 0);
        }
        code.set(1, 5 << 20).system(1, 10, 8, 0);
        for &megabyte in touched {
            code.set(1, megabyte << 20).load(2, 1, 0);
        }
        code.set(0, 0).exit_with(0);
        run(&machine("ixp425", &[("dtlb.entries", "4")]), &code).outcome.events.dtlb_misses
    };
    assert_eq!(misses(&[3, 4, 6]), misses(&[]));
}
