//! Cycles as documented: instructions that hit, measured by the program itself on the
//! instrumentation device's counter, and the events that the papers give figures for.
//! docs/timing.md has the same tables.

use mmulab_system::Stop;

use crate::support::{Code, LAB, MACHINES, cached, machine, run, uncached};

/// Tables: the program's megabyte cached, physical megabyte 1 cached at 2, the instrumentation
/// device, and the zero bank of the SA-1100 cached.
fn prepared() -> Code {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101)).section(2, cached(1));
    code.section(0xe00, cached(0xe00)).enable();
    code.set(9, LAB).set(1, 0x20_0000).set(2, 3).set(3, 5);
    code
}

/// Cycles between two readings of the counter around `body`, the second time it runs.
fn measured(name: &str, body: &str) -> u32 {
    let mut code = prepared();
    code.set(8, 2);
    let back = code.here();
    code.load(5, 9, 8).asm("mov r0, r0");
    code.asm(body);
    code.load(6, 9, 8).asm("sub r0, r6, r5; subs r8, r8, #1");
    code.branch_not_equal(back).asm("mov r7, r0").set(0, 0).exit_with(0);
    let run = run(&machine(name, &[]), &code);
    assert_eq!(run.stop, Stop::Exit(0));
    run.register(7)
}

fn cost(name: &str, body: &str) -> u32 {
    measured(name, body) - measured(name, "")
}

#[test]
fn documented_instruction_timings() {
    // Instructions; cycles on arm926ej-s, at91rm9200, sa1100, ixp425.
    let table: [(&str, &str, [u32; 4]); 13] = [
        ("ADD", "add r3, r3, r2", [1, 1, 1, 1]),
        ("ADD with a shift by register", "add r3, r3, r3, lsl r2", [2, 2, 2, 2]),
        ("LDR", "ldr r4, [r1]", [1, 1, 1, 1]),
        ("LDR and use", "ldr r4, [r1]; add r4, r4, r4", [3, 3, 3, 4]),
        ("LDR, another, use", "ldr r4, [r1]; add r3, r3, r2; add r4, r4, r4", [3, 3, 3, 3]),
        ("LDRB and use", "ldrb r4, [r1]; add r4, r4, r4", [4, 4, 3, 4]),
        ("STR of a line that is there", "ldr r4, [r1]; add r3, r3, r2; str r3, [r1]", [3, 3, 3, 3]),
        ("LDMIA of four", "ldmia r1, {r4, r10, r11, r12}; add r3, r3, r2", [5, 5, 5, 7]),
        ("LDR of R0 and MRS, which reads no register", "ldr r0, [r1]; mrs r3, cpsr", [3, 2, 2, 2]),
        ("LDR and an instruction that reads R15", "ldr r4, [r1]; add r3, pc, r2", [2, 2, 2, 2]),
        ("B to the next but one", "b . + 8; add r3, r3, r2", [3, 3, 2, 1]),
        ("MUL by 3", "mul r4, r1, r3", [2, 2, 1, 1]),
        ("an instruction that its condition skips", "addeq r3, r3, r2", [1, 1, 1, 1]),
    ];
    for (what, body, expected) in table {
        for (name, expected) in
            ["arm926ej-s", "at91rm9200", "sa1100", "ixp425"].into_iter().zip(expected)
        {
            assert_eq!(cost(name, body), expected, "{what} on {name}");
        }
    }
}

/// What stands behind a load of R15 does not follow it: here the load goes there by a jump.
#[test]
fn a_load_of_the_pc_stalls_nothing_behind_it() {
    for name in MACHINES {
        let jump = "add r0, pc, #4; str r0, [r1]; ldr pc, [r1]";
        let reads_pc = cost(name, &format!("{jump}; add r3, pc, r2"));
        assert_eq!(reads_pc, cost(name, &format!("{jump}; add r3, r3, r2")), "{name}");
    }
}

/// Cycles of a loop over `count` lines from `window`, which loads each line once; R12 counts.
fn sweep(code: &mut Code, window: u32, count: u32) {
    code.set(7, window).set(12, count);
    code.asm("ldr r4, [r7], #32; subs r12, r12, #1; bne . - 8");
}

/// Cycles of the part of a program between `begin` and the end, by the counter.
fn cycles_of(name: &str, before: impl Fn(&mut Code), part: impl Fn(&mut Code)) -> u32 {
    let mut code = prepared();
    before(&mut code);
    code.load(5, 9, 8);
    part(&mut code);
    code.load(6, 9, 8).asm("sub r0, r6, r5; mov r7, r0").set(0, 0).exit_with(0);
    let run = run(&machine(name, &[]), &code);
    assert_eq!(run.stop, Stop::Exit(0));
    run.register(7)
}

#[test]
fn the_strongarm_flushes_as_the_paper_measured() {
    // FASS 2003, section 5: a line miss about 70 cycles, a TLB miss about 45, a whole-cache flush
    // 1,000 to 18,000.
    let name = "sa1100";
    let fills = cycles_of(name, |_| {}, |code| sweep(code, 0x20_0000, 64)) / 64;
    assert!((70..80).contains(&fills), "a line miss with its loop: {fills}");

    let warm = |code: &mut Code| sweep(code, 0x20_0000, 1);
    let hit = cycles_of(name, warm, |code| _ = code.load(4, 1, 0));
    let with_walk = cycles_of(
        name,
        |code| {
            warm(code);
            code.system(0, 8, 6, 0);
        },
        |code| _ = code.load(4, 1, 0),
    );
    // A section takes one descriptor; the paper's 45 are two, of a page.
    assert_eq!(with_walk - hit, 22);

    let zero_bank = |code: &mut Code| sweep(code, 0xe000_0000, 256);
    let clean = cycles_of(name, zero_bank, zero_bank);
    assert!((900..1500).contains(&clean), "a clean flush: {clean}");
    let dirty = cycles_of(
        name,
        |code| {
            // Fill the cache, then dirty both halves of each line.
            sweep(code, 0x20_0000, 256);
            code.set(7, 0x20_0000).set(12, 512);
            code.asm("str r4, [r7], #16; subs r12, r12, #1; bne . - 8");
        },
        zero_bank,
    );
    assert!((16_000..19_000).contains(&dirty), "a dirty flush: {dirty}");
}

#[test]
fn multiplies_that_set_flags_or_add_to_a_long_sum() {
    // MULS stalls nothing behind it: ARM DDI 0214B, 9.9.1, of a core with a like multiplier; IXP45X
    // manual 306262-004, 3.10.5.3. SMLALxy issues in two cycles: IXP42X manual 252480-006, 3.9.4.4.
    for (name, flags, sum) in [("arm926ej-s", 4, 2), ("ixp425", 3, 2)] {
        assert_eq!(cost(name, "muls r4, r1, r3; add r4, r4, r4"), flags + 1, "{name}");
        assert_eq!(cost(name, "umulls r4, r10, r3, r2; add r4, r4, r4"), flags + 2, "{name}");
        assert_eq!(cost(name, "smlalbb r3, r4, r1, r2"), sum, "{name}");
    }
}

/// IXP45X manual 306262-004, table 82: LDM of n registers with R15 takes 10 + max(0, n - 3); STM
/// 2 + n.
#[test]
fn the_xscale_loads_the_pc_among_others() {
    let [two, three, four] = [
        "add r4, pc, #4; stmia r1, {r3, r4}; ldmia r1, {r3, pc}",
        "add r4, pc, #4; stmia r1, {r2, r3, r4}; ldmia r1, {r2, r3, pc}",
        "add r4, pc, #4; stmia r1, {r0, r2, r3, r4}; ldmia r1, {r0, r2, r3, pc}",
    ];
    for (body, expected) in [(two, 1 + 4 + 10), (three, 1 + 5 + 10), (four, 1 + 6 + 11)] {
        assert_eq!(cost("ixp425", body), expected, "{body}");
    }
}

/// The two words of STRD are a burst, as those of STM (ARM DDI 0198D, 6.3).
#[test]
fn a_double_store_is_one_entry_of_the_write_buffer() {
    let drained =
        |body: &str| cycles_of("arm926ej-s", |_| {}, |code| _ = code.asm(body).system(0, 7, 10, 4));
    assert_eq!(drained("strd r2, [r1]"), drained("stmia r1, {r2, r3}"));
}

/// Without W in the SA-1100's control register a store waits for the memory (278088-004, 5.2.2).
#[test]
fn the_strongarm_has_a_write_buffer_only_while_software_asks_for_it() {
    let store = |clear: u32| {
        let toggle = |code: &mut Code| {
            code.read_system(10, 1, 0, 0).set(11, clear).asm("bic r10, r10, r11");
            code.system(10, 1, 0, 0).asm("str r3, [r1, #64]").system(0, 7, 10, 4);
        };
        cycles_of("sa1100", toggle, |code| _ = code.asm("str r3, [r1]"))
    };
    assert_eq!(store(8), store(0) + 28);
}

/// 80200 manual 273411, 5.2.1: the branch target buffer is off until software turns it on by Z.
#[test]
fn branches_are_predicted_only_while_software_asks_for_it() {
    let loop_cycles = |set: u32, clear: u32| {
        let toggle = |code: &mut Code| {
            code.read_system(10, 1, 0, 0).set(11, set).asm("orr r10, r10, r11");
            code.set(11, clear).asm("bic r10, r10, r11").system(10, 1, 0, 0);
        };
        cycles_of("ixp425", toggle, |code| {
            code.set(12, 100);
            code.asm("subs r12, r12, #1; bne . - 4");
        })
    };
    let predicted = loop_cycles(0x800, 0);
    assert_eq!(loop_cycles(0, 0x800) - predicted, 4 * (99 - 2), "but the first and the last");
}
