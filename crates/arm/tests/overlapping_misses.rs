//! Misses that overlap on the Cortex-A7, worked out by hand: a few instructions of one line, their
//! code and the TLB entries already there.

use mmulab_arm::CoherentCaches;
use mmulab_system::Transcript;

use crate::support::{self, Code};

const CODE: u32 = 0x4080_0000;
const TABLE: u32 = 0x4010_0000;
const DATA: u32 = 0x4200_0000;
/// A line that misses: ten of the second level's latency and 146 of memory.
const MISS: u64 = 156;

/// Cycles of up to six instructions. R8, R9 and R11 point to lines that miss, R10 to one that hits.
fn cycles(changes: &[(&str, &str)], checked: bool, body: &str) -> u64 {
    let mut code = Code::new();
    // The line before brings the entries of the TLBs and the line that hits; one instruction of the
    // line itself brings the line.
    code.asm("ldr r0, [r10]; add r0, r0, r0; mov r0, r0; mov r0, r0");
    code.asm("mov r0, r0; mov r0, r0; mov r0, r0; mov r0, r0; mov r0, r0");
    let prepared = code.words.len() as u64;
    code.asm(body);
    let all = code.words.len() as u64;
    assert!(all <= 15, "the instructions are in one line");
    code.asm("mov r0, r0");
    let changes = [&[("cores", "1")], changes].concat();
    let machine = support::machine("cortex-a7", &changes);
    let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
    system.load(&code.image_at(CODE));
    for megabyte in [CODE >> 20, DATA >> 20] {
        let section = megabyte << 20 | 0x1c0e;
        system.bus.load(TABLE + 4 * megabyte, &section.to_le_bytes());
    }
    if checked {
        system.start_checking();
    }
    let cpu = system.core_mut(0);
    for (register, line) in [(8, 1), (9, 2), (10, 3), (11, 4)] {
        cpu.registers[register] = DATA + 64 * line;
    }
    let registers = &mut cpu.memory.mmu.registers;
    (registers.ttbr, registers.dacr) = (TABLE | 0x4a, 0x5555_5555);
    registers.sctlr |= 0x1005;
    cpu.memory.renew_pages();
    let mut host = Transcript::default();
    system.run(&mut host, prepared);
    let before = system.core(0).memory.now();
    system.run(&mut host, all);
    assert_eq!(system.reports().len(), 0);
    system.core(0).memory.now() - before
}

#[test]
fn who_uses_a_late_register_waits_and_nothing_else_does() {
    // The body, and its cycles from when the first instruction is issued.
    let table = [
        // The use waits; with the cycle between a load and its use, which is over when the fill
        // begins.
        ("ldr r1, [r8]; add r0, r1, r1", 2 + MISS + 1),
        // Two fills at once: the second begins two cycles after the first.
        ("ldr r1, [r8]; ldr r2, [r9]; add r0, r1, r2", 3 + MISS + 1),
        // Nobody uses it.
        ("ldr r1, [r8]; add r0, r2, r3; add r0, r2, r3", 3),
        // What stands between is in the shadow of the miss, a hit too.
        ("ldr r1, [r8]; ldr r4, [r10]; add r4, r4, r4; add r0, r1, r1", 1 + MISS + 1),
        // A third miss waits until the first fill has ended, after the cycle between it and its
        // use.
        ("ldr r1, [r8]; ldr r2, [r9]; ldr r3, [r11]; add r0, r3, r3", 1 + 2 * MISS + 1),
        // Another word of a line that is under way comes with it.
        ("ldr r1, [r8]; ldr r2, [r8, #4]; add r0, r2, r2", 1 + MISS + 1),
        // What is stored, and where, is read.
        ("ldr r1, [r8]; str r1, [r10]", 1 + MISS + 1),
        ("ldr r1, [r8]; add r0, r2, r2; strb r2, [r10, r1]", 1 + MISS + 1),
        ("ldr r1, [r8]; add r0, r2, r2; stmia r10, {r1, r2}", 1 + MISS + 2),
        // Each kind of load: bytes, half-words, pairs and lists.
        ("ldrb r1, [r8]; add r0, r1, r1", 2 + MISS + 1),
        ("ldrsh r1, [r8]; add r0, r1, r1", 2 + MISS + 1),
        ("ldrd r2, r3, [r8]; add r0, r2, r2; add r0, r3, r3", 1 + MISS + 2),
        ("ldmia r8, {r1, r2}; ldr r3, [r9]; add r0, r1, r1; add r0, r3, r3", 3 + MISS + 1),
        // A register that is written again is waited for all the same.
        ("ldr r1, [r8]; mov r1, r2; add r0, r1, r1", 1 + MISS + 1),
        // An instruction whose condition fails has waited for what it would read.
        ("cmp r0, r0; ldr r1, [r8]; addne r0, r1, r1", 1 + 2 + MISS + 1),
        // Preloads take the same places as loads.
        ("pld [r8]; pld [r9]; ldr r1, [r11]; add r0, r1, r1", 1 + 2 * MISS + 1),
        ("pld [r8]; add r0, r2, r2; ldr r1, [r8]; add r0, r1, r1", 1 + MISS + 1),
        // DSB and DMB, as operations, wait for all.
        ("ldr r1, [r8]; mcr p15, 0, r0, c7, c10, 4; add r0, r2, r2", 1 + MISS + 1),
        ("ldr r1, [r8]; mcr p15, 0, r0, c7, c10, 5", 1 + MISS),
        // A store waits for its line in the store buffer, missing or under way; a load from the
        // line waits for it.
        ("str r1, [r8]; add r0, r2, r2", 2),
        ("ldr r1, [r8]; str r2, [r8, #4]; add r0, r2, r2", 3),
        ("str r1, [r8]; str r2, [r8, #4]; ldr r3, [r10]; ldr r4, [r8]", 1 + MISS),
        ("str r1, [r8]; mcr p15, 0, r0, c7, c10, 5", 1 + MISS),
        // It needs a place for the fill.
        ("str r1, [r8]; str r1, [r9]; str r1, [r11]", 1 + MISS),
    ];
    for (body, expected) in table {
        for checked in [false, true] {
            assert_eq!(cycles(&[], checked, body), expected, "{body} (checked: {checked})");
        }
    }
}

#[test]
fn without_places_for_fills_a_miss_blocks() {
    let changes = [("buffers.outstanding_misses", "0")];
    let both = "ldr r1, [r8]; ldr r2, [r9]; add r0, r1, r2";
    assert_eq!(cycles(&changes, false, both), 4 + 2 * MISS);
    assert_eq!(cycles(&changes, false, "ldr r1, [r8]; add r0, r2, r3"), 2 + MISS);
    assert_eq!(cycles(&changes, false, "pld [r8]; add r0, r2, r3"), 2 + MISS);
    // One place: the second miss waits for the first.
    let changes = [("buffers.outstanding_misses", "1")];
    assert_eq!(cycles(&changes, false, both), 1 + 2 * MISS + 1);
}

#[test]
fn a_line_leaves_with_the_stores_whose_time_has_come() {
    // Eight lines, direct-mapped. The line that is stored to has long been here when another takes
    // its slot.
    let changes =
        [("dcache.size_bytes", "512"), ("dcache.ways", "1"), ("prefetcher.outstanding", "0")];
    let body = "str r1, [r8]; ldr r2, [r9]; add r0, r2, r2; ldr r3, [r8, #512]; add r0, r3, r3";
    for checked in [false, true] {
        assert_eq!(cycles(&changes, checked, body), 3 + MISS + 1 + 2 + MISS + 1);
    }
}
