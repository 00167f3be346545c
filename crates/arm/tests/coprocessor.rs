//! The system control coprocessor against the manuals: identification, debug control, fault status,
//! and which writes do something at all.

use mmulab_arm::{CoherentCaches, CoprocessorAccess, System, VirtualCaches};
use mmulab_system::{Outcome, Transcript};

use crate::support::{
    self, Code, MACHINES, START, branch, cached, machine, mcr, mrc, run, run_limited, uncached,
};

/// Where the memory of `cortex-a7` begins.
const MEMORY_OF_VIRT: u32 = 0x4000_0000;
/// Memory that is not cached if the MMU is on, and the first-level table.
const UNCACHED: u32 = MEMORY_OF_VIRT + (1 << 20);
const TABLE: u32 = MEMORY_OF_VIRT + (2 << 20);

/// MCR p15, opcode_1, rd, cn, cm, opcode_2.
fn write_with(code: &mut Code, opcode_1: u32, rd: u32, n: u32, m: u32, opcode_2: u32) {
    code.word(mcr(opcode_1, rd, n, m, opcode_2));
}

/// The ID and cache type registers.
fn identification(name: &str, changes: &[(&str, &str)]) -> (u32, u32) {
    let mut code = Code::new();
    code.read_system(0, 0, 0, 0).read_system(1, 0, 0, 1);
    let run = run_limited(&machine(name, changes), &code.image(), false, 2);
    (run.register(0), run.register(1))
}

#[test]
fn identification_registers() {
    // ARM DDI 0198D, 2.3.1 and 2.3.2; ARM DDI 0151C, 2.3.2; 252480-006, 3.5.1.1; 278088-004, 5.2.1.
    for (name, id, cache_type) in [
        ("sa1100", 0x4401_a11b, 0x4401_a11b),
        ("ixp425", 0x6905_41d1, 0x0b1a_a1aa),
        ("at91rm9200", 0x4112_9200, 0x0d17_2172),
        ("arm926ej-s", 0x4106_9265, 0x1d15_2152),
    ] {
        assert_eq!(identification(name, &[]), (id, cache_type), "{name}");
    }
}

#[test]
fn the_cache_type_register_follows_from_the_caches() {
    // ARM DDI 0198D, table 2-8: 0b0011 is 4 KB, 0b1000 is 128 KB; 0b010 is 4 ways. M is for one and
    // a half times (ARM DDI 0100I, B6.5.1).
    for (changes, expected) in [
        (&[("dcache.size_bytes", "4K"), ("icache.size_bytes", "128K")][..], 0x1d0d_2212),
        (&[("dcache.size_bytes", "8K"), ("icache.size_bytes", "64K")][..], 0x1d11_21d2),
        (&[("dcache.ways", "1"), ("icache.ways", "2")][..], 0x1d14_214a),
        (&[("dcache.size_bytes", "24K"), ("dcache.ways", "3")][..], 0x1d14_e152),
    ] {
        assert_eq!(identification("arm926ej-s", changes).1, expected, "{changes:?}");
    }
}

/// Megabytes 2 (cached) and 3 (uncached) show physical megabyte 1, whose first word is 0x11. R1 and
/// R2 are their bases, R3 is 0x22.
fn with_alias() -> Code {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.section(2, cached(1)).section(3, uncached(1));
    code.put(0x10_0000, 0x11).enable();
    code.set(1, 0x20_0000).set(2, 0x30_0000).set(3, 0x22);
    code
}

#[test]
fn the_arm926_writes_through_while_write_back_is_disabled() {
    // ARM DDI 0198D, appendix B: bit 2 (DWB) of the cache debug control register.
    for (value, in_memory) in [(0, 0x11), (4, 0x22)] {
        let mut code = with_alias();
        // One load and store before, so that what is remembered of the page is put to the test.
        code.load(4, 1, 32).store(4, 1, 32).load(4, 1, 0);
        code.set(4, value);
        write_with(&mut code, 7, 4, 15, 0, 0);
        code.store(3, 1, 0).system(0, 7, 10, 4).load(5, 2, 0);
        // The line is not dirty: nothing is lost with it.
        code.system(1, 7, 6, 1).load(6, 1, 0);
        code.asm("mrc p15, 7, r12, c15, c0, 0");
        code.set(0, 0).exit_with(0);
        let run = run(&machine("arm926ej-s", &[]), &code);
        assert_eq!((run.register(5), run.register(6)), (in_memory, in_memory), "{value}");
        assert_eq!((run.register(12), run.outcome.notes.len()), (value, 0));
    }
}

#[test]
fn a_line_that_was_dirty_stays_so_while_write_back_is_disabled() {
    let mut code = with_alias();
    code.load(4, 1, 0).store(3, 1, 0).set(4, 4);
    write_with(&mut code, 7, 4, 15, 0, 0);
    code.store(3, 1, 4).system(0, 7, 10, 4).load(5, 2, 0).load(6, 2, 4);
    code.system(1, 7, 10, 1).system(0, 7, 10, 4).load(7, 2, 0).set(0, 0).exit_with(0);
    let run = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!((run.register(5), run.register(6), run.register(7)), (0x11, 0x22, 0x22));
}

#[test]
fn the_arm926_fills_no_lines_while_that_is_disabled() {
    // Bits 0 and 1: no fills of the data and instruction cache; what is there is hit.
    for (value, seen, misses) in [(0, 0x11, true), (1, 0x22, true), (2, 0x11, false)] {
        let mut code = with_alias();
        code.load(7, 1, 64);
        code.set(4, value);
        write_with(&mut code, 7, 4, 15, 0, 0);
        code.put(support::LAB + 0x18, 1).set(10, support::LAB).load(6, 10, 0x58);
        code.load(4, 1, 0).store(3, 2, 0).store(3, 2, 64).load(4, 1, 0).load(7, 1, 64);
        for _ in 0..64 {
            code.asm("mov r0, r0");
        }
        code.load(9, 10, 0x58).set(0, 0).exit_with(0);
        let run = run(&machine("arm926ej-s", &[]), &code);
        assert_eq!((run.register(4), run.register(7)), (seen, 0), "{value}");
        assert_eq!(run.register(9) > run.register(6), misses, "{value}");
    }
}

#[test]
fn the_xscale_says_in_its_fault_status_that_a_fetch_was_refused() {
    // 252480-006, 3.8.3.4.3, table 74: status 0b10000, where bit 10 is the first; the SA-1100
    // leaves its register as it is (278088-004, 5.2.6), the others have a second one.
    for (name, expected) in
        [("ixp425", (0x400, 0)), ("sa1100", (0, 0)), ("at91rm9200", (0, 5)), ("arm926ej-s", (0, 5))]
    {
        let mut code = Code::new();
        code.section(0, uncached(0)).section(0x101, uncached(0x101));
        let handler = START + 0x400;
        code.put(0xc, branch(0xc, handler)).enable();
        code.set(10, 0).system(10, 5, 0, 0);
        code.set(1, 0x5000_0000).asm("mov pc, r1");
        while code.here() < handler {
            code.asm("mov r0, r0");
        }
        code.read_system(2, 5, 0, 0).read_system(3, 5, 0, 1).set(0, 0).exit_with(0);
        let run = run(&machine(name, &[]), &code);
        let two = matches!(name, "at91rm9200" | "arm926ej-s");
        let seen = (run.register(2), if two { run.register(3) } else { 0 });
        assert_eq!(seen, expected, "{name}");
    }
}

/// The writes of coprocessor 15 that do something, by the manuals' tables: opcode_1, CRn, CRm,
/// opcode_2; `*` is any.
fn writes_with_effect(name: &str) -> Vec<[&'static str; 4]> {
    // Control; table base, domains, fault status and address, which do not look at the last two.
    let mut all = vec![["0", "1", "0", "0"], ["*", "2", "*", "*"], ["*", "3", "*", "*"]];
    all.extend([["*", "5", "*", "*"], ["*", "6", "*", "*"], ["0", "13", "0", "0"]]);
    // Caches and the write buffer: all, instructions, data, one line of data, clean one line,
    // drain.
    all.extend(["7 0", "5 0", "6 0", "6 1", "10 1", "10 4"].map(|operation| {
        let (m, opcode_2) = operation.split_once(' ').unwrap();
        ["0", "7", m, opcode_2]
    }));
    // TLBs: both, instructions, data, one entry of data.
    all.extend([["*", "8", "7", "0"], ["*", "8", "5", "0"], ["*", "8", "6", "0"]]);
    all.push(["*", "8", "6", "1"]);
    match name {
        "sa1100" => {
            // Wait for an interrupt; the read buffer.
            all.push(["0", "15", "8", "2"]);
            all.extend([["*", "9", "0", "0"], ["*", "9", "0", "4"], ["*", "9", "0", "5"]]);
            for m in ["0", "1", "2", "3"] {
                all.push(["*", "9", m, "1"]);
            }
            for m in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"] {
                all.push(["*", "9", m, "2"]);
            }
        }
        "ixp425" => {
            // One line or entry of instructions, allocate a line, the branch buffer.
            all.extend([["0", "7", "5", "1"], ["0", "7", "2", "5"], ["0", "7", "5", "6"]]);
            all.push(["*", "8", "5", "1"]);
            // Auxiliary control, access to coprocessors; nothing is locked, so unlocking is done.
            all.extend([["0", "1", "0", "1"], ["0", "15", "1", "0"]]);
            all.extend([["*", "9", "1", "1"], ["*", "9", "2", "0"], ["*", "9", "2", "1"]]);
            all.extend([["*", "10", "4", "0"], ["*", "10", "8", "0"]]);
            all.extend([["*", "10", "4", "1"], ["*", "10", "8", "1"]]);
        }
        _ => {
            // Lines by set and way, cleaned and invalidated together, prefetched; wait.
            for operation in ["5 1", "5 2", "6 2", "10 2", "14 1", "14 2", "13 1", "0 4"] {
                let (m, opcode_2) = operation.split_once(' ').unwrap();
                all.push(["0", "7", m, opcode_2]);
            }
            all.extend([["*", "9", "0", "0"], ["*", "9", "0", "1"], ["*", "10", "0", "0"]]);
            all.push(["*", "8", "5", "1"]);
            if name == "arm926ej-s" {
                all.extend([["*", "8", "7", "1"], ["0", "13", "0", "1"], ["7", "15", "0", "0"]]);
            } else {
                all.push(["*", "10", "0", "1"]);
            }
        }
    }
    all
}

#[test]
fn no_write_is_swallowed_without_a_note() {
    for name in MACHINES {
        let listed = writes_with_effect(name);
        let mut system =
            mmulab_arm::system::<VirtualCaches>(&machine(name, &[("memory.size_bytes", "1M")]))
                .unwrap();
        for encoding in 0..1 << 14 {
            let (opcode_1, n) = (encoding >> 11, encoding >> 7 & 15);
            let (m, opcode_2) = (encoding >> 3 & 15, encoding & 7);
            let access = CoprocessorAccess::write(15, opcode_1, n, m, opcode_2);
            let noted = system.with_core(0, |cpu, bus| {
                cpu.cp15.ignored = Default::default();
                assert_eq!(cpu.coprocessor_write(bus, access, 0), Ok(true));
                !cpu.cp15.ignored.operations.is_empty()
            });
            let is = |field: &str, value: u32| field == "*" || field.parse() == Ok(value);
            let has_effect = listed.iter().any(|[one, crn, crm, two]| {
                is(one, opcode_1) && is(crn, n) && is(crm, m) && is(two, opcode_2)
            });
            assert_ne!(noted, has_effect, "{name}: {access}");
        }
    }
}

#[test]
fn what_is_not_modelled_is_told_once() {
    let mut code = Code::new();
    for _ in 0..3 {
        code.set(4, 1);
        write_with(&mut code, 0, 4, 15, 0, 0); // debug override
        write_with(&mut code, 0, 5, 15, 0, 0);
    }
    code.read_system(4, 1, 0, 0).asm("orr r4, r4, #0x80").system(4, 1, 0, 0);
    code.set(0, 0).exit_with(0);
    for cores in ["1", "2"] {
        let side_by_side = [("cores", cores), ("interleave_cycles", "1")];
        let notes = run(&machine("arm926ej-s", &side_by_side), &code).outcome.notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("MCR p15, 0, c15, c0, 0 is not modelled"), "{notes:?}");
        assert!(notes[1].starts_with("MCR p15, 0, c1, c0, 0 is not modelled"), "{notes:?}");
    }
}

#[test]
fn more_operations_than_are_listed_are_counted() {
    let mut code = Code::new();
    for m in 0..16 {
        for opcode_2 in [5, 6, 7] {
            code.system(0, 4, m, opcode_2);
        }
    }
    code.set(0, 0).exit_with(0);
    let notes = run(&machine("arm926ej-s", &[]), &code).outcome.notes;
    assert_eq!(notes.len(), 33);
    assert!(notes[32].starts_with("16 uses of further"), "{}", notes[32]);
}

#[test]
fn the_second_level_tells_how_many_cores_there_are() {
    // L2CTLR, bits 25:24: one less; bit 23: an interrupt controller (ARM DDI 0464F, 4.2.10). Writes
    // do not reach them.
    let mut code = Code::new();
    write_with(&mut code, 1, 15, 9, 0, 2);
    code.word(mrc(1, 0, 9, 0, 2));
    let image = code.image_at(MEMORY_OF_VIRT);
    for cores in 1..=4_u32 {
        let machine = machine("cortex-a7", &[("cores", &cores.to_string())]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        system.load(&image);
        system.run(&mut Transcript::default(), 2);
        assert_eq!(system.core(0).registers[0], (cores - 1) << 24 | 1 << 23, "{cores} cores");
    }
}

#[test]
fn maintenance_that_is_refused_says_what_it_was() {
    // DCCMVAC and ICIMVAU of a megabyte without a descriptor: CM and WnR (ARM DDI 0406C, DFSR).
    for (m, opcode_2) in [(10, 1), (5, 1)] {
        let mut code = with_mmu();
        code.set(1, UNCACHED + (4 << 20)).system(1, 7, m, opcode_2);
        let (system, _) = cortex_a7_after(&code);
        let registers = &system.core(0).memory.mmu.registers;
        let expected = (1 << 13 | 1 << 11 | 5, UNCACHED + (4 << 20));
        assert_eq!((registers.dfsr, registers.far), expected, "c{m}");
    }
}

#[test]
fn a_store_across_pages_is_refused_at_the_second_page() {
    let end = TABLE; // Its megabyte has no descriptor.
    for (size, instruction) in [(4, "str r0, [r1]"), (2, "strh r0, [r1]")] {
        for distance in 1..size {
            let mut code = with_mmu();
            code.set(1, end - distance).asm(instruction);
            let registers = cortex_a7_after(&code).0.core(0).memory.mmu.registers;
            assert_eq!((registers.dfsr, registers.far), (1 << 11 | 5, end), "{size} {distance}");
        }
    }
}

#[test]
fn pending_interrupts_are_seen_while_they_are_masked() {
    // ISR, bits 7 and 6 (ARM DDI 0406C, B4.1.82): a software-generated interrupt 1, or none; as FIQ
    // or as IRQ.
    const DISTRIBUTOR: u32 = 0x0800_0000;
    for (generated, control, expected) in
        [(true, 1, 1 << 7), (true, 9, 1 << 6), (false, 1, 0), (true, 0, 0)]
    {
        let mut code = Code::new();
        code.put(DISTRIBUTOR, 1).put(DISTRIBUTOR + 0x1_0000, control);
        code.put(DISTRIBUTOR + 0x1_0004, 0xff);
        if generated {
            code.put(DISTRIBUTOR + 0xf00, 2 << 24 | 1);
        }
        code.read_system(3, 12, 1, 0);
        let found = cortex_a7_after(&code).0.core(0).registers[3];
        assert_eq!(found, expected, "{generated} {control}");
    }
}

#[test]
fn at_entry_everything_is_masked() {
    for name in MACHINES {
        let run =
            run_limited(&machine(name, &[]), &Code::new().asm("mrs r0, cpsr").image(), false, 1);
        assert_eq!(run.register(0), 0xd3, "{name}");
    }
    let mut code = Code::new();
    code.asm("mrs r0, cpsr");
    // ARMv6 and later mask asynchronous aborts, too (ARM DDI 0406C, B1.9.1).
    assert_eq!(cortex_a7_after(&code).0.core(0).registers[0], 0x1d3);
}

#[test]
fn a_core_that_goes_off_is_reset() {
    let fresh = cortex_a7_after(&Code::new()).0;
    let mut code = with_mmu();
    code.set(0, 0x00f0_0000).system(0, 1, 0, 2).set(1, 1 << 30).asm("vmsr fpexc, r1"); // CPACR
    code.set(0, 1).system(0, 2, 0, 2).system(0, 13, 0, 1).system(0, 13, 0, 2); // TTBCR, CONTEXTIDR, TPIDRURW
    code.set(0, 0x4000_0000).system(0, 12, 0, 0).system(0, 1, 0, 1); // VBAR, ACTLR
    code.set(0, 3).system(0, 14, 1, 0).system(0, 14, 2, 1).system(0, 14, 3, 1); // CNTKCTL, both timers
    code.set(0, 1).system(0, 9, 12, 0).system(0, 9, 12, 1).system(0, 9, 14, 0); // PMCR, PMCNTENSET, PMUSERENR
    code.set(0, 0x8400_0002).word(0xe140_0070).asm("b ."); // CPU_OFF, HVC
    let (mut system, outcome) = cortex_a7_after(&code);
    assert!(outcome.end.starts_with("all cores are off"), "{}", outcome.end);
    let after = system.core(0).memory.mmu.registers;
    let mut reset = fresh.core(0).memory.mmu.registers;
    // What the test itself has put there.
    (reset.ttbr, reset.dacr) = (0, 0);
    assert_eq!(format!("{after:x?}"), format!("{reset:x?}"));
    assert!(!system.core(0).vector.enabled);
    system.with_core(0, |core, bus| {
        for (n, m, opcode_2, value) in [
            (14, 1, 0, 0),
            (14, 2, 1, 0),
            (14, 3, 1, 0),
            (9, 12, 0, 0x4107_2000),
            (9, 12, 1, 0),
            (9, 14, 0, 0),
        ] {
            let access = CoprocessorAccess::read(15, 0, n, m, opcode_2);
            assert_eq!(core.coprocessor_read(bus, access), Some(value), "c{n}, c{m}, {opcode_2}");
        }
    });
}

#[test]
fn user_mode_does_not_return_from_exceptions() {
    // RFEIA SP of supervisor mode's CPSR, and SRSDB SP!, #0x13; unpredictable there, and no way out
    // of user mode.
    for instruction in [0xf89d_0a00, 0xf96d_0513] {
        let mut code = Code::new();
        code.set(0, MEMORY_OF_VIRT + 0x8000).asm("mov sp, r0");
        code.put(MEMORY_OF_VIRT + 0x8004, 0xd3);
        code.asm("msr cpsr_c, #0x10").asm("mov sp, r0").word(instruction);
        let core = cortex_a7_after(&code).0;
        assert_eq!(core.core(0).mode(), 0x1b, "{instruction:#x}");
        assert_eq!(core.core(0).stack_of(0x13), MEMORY_OF_VIRT + 0x8000, "{instruction:#x}");
    }
}

#[test]
fn registers_of_other_modes_are_read_and_written() {
    // MSR and MRS of SP_irq, R8_fiq, SPSR_abt, LR_usr (ARM DDI 0406C, B9.2.3).
    const PAIRS: [(u32, u32); 4] = [
        (0xe121_f300, 0xe101_1300),
        (0xe128_f200, 0xe108_2200),
        (0xe164_f300, 0xe144_3300),
        (0xe126_f200, 0xe106_4200),
    ];
    let mut code = Code::new();
    for (number, (write, _)) in PAIRS.into_iter().enumerate() {
        code.set(0, 0x10 + number as u32).word(write);
    }
    for (_, read) in PAIRS {
        code.word(read);
    }
    code.asm("mrs r0, cpsr").asm("msr cpsr_c, #0xd2").asm("mov r5, sp");
    let system = cortex_a7_after(&code).0;
    let registers = system.core(0).registers;
    assert_eq!(registers[0] & 0xff, 0xd3);
    assert_eq!(registers[1..6], [0x10, 0x11, 0x12, 0x13, 0x10]);
    // SP_mon, SPSR_usr, and any of them in user mode.
    for instructions in [&[0xe10d_5300][..], &[0xe146_5200], &[0xe321_f010, 0xe101_1300]] {
        let mut code = Code::new();
        for &word in instructions {
            code.word(word);
        }
        assert_eq!(cortex_a7_after(&code).0.core(0).mode(), 0x1b, "{instructions:x?}");
    }
}

#[test]
fn an_unaligned_access_counts_as_one() {
    // Event 0x04; within a line, and of two lines.
    for (offset, expected) in [(0, 1), (1, 1), (62, 2), (64, 1)] {
        for instruction in ["ldr r3, [r2]", "str r3, [r2]"] {
            let mut code = with_mmu();
            code.set(0, 0).system(0, 9, 12, 5).set(0, 4).system(0, 9, 13, 1); // PMSELR, PMXEVTYPER
            code.set(0, 1).system(0, 9, 12, 1).system(0, 9, 12, 0); // PMCNTENSET, PMCR
            code.set(2, MEMORY_OF_VIRT + 0x8000 + offset).asm(instruction);
            code.read_system(5, 9, 13, 2);
            let counted = cortex_a7_after(&code).0.core(0).registers[5];
            assert_eq!(counted, expected, "{instruction} {offset}");
        }
    }
}

#[test]
fn a_counter_that_software_makes_overflow_says_so() {
    // PMSWINC counts as event 0x00, and PMOVSR has the overflow of each counter (ARM DDI 0406C,
    // B4.1.122, B4.1.130).
    let mut code = Code::new();
    code.set(0, 1).system(0, 9, 12, 0).system(0, 9, 12, 1); // PMCR.E; PMCNTENSET
    code.set(1, 0).system(1, 9, 12, 5).system(1, 9, 13, 1); // PMSELR, PMXEVTYPER
    code.set(2, u32::MAX).system(2, 9, 13, 2); // PMXEVCNTR
    code.system(0, 9, 12, 4).read_system(3, 9, 13, 2).read_system(4, 9, 12, 3);
    code.system(0, 9, 12, 4).read_system(5, 9, 13, 2);
    assert_eq!(cortex_a7_after(&code).0.core(0).registers[3..6], [0, 1, 1]);
}

/// Code for [`cortex_a7_after`] that has turned on MMU and data cache; R0 is spoilt, and R1.
fn with_mmu() -> Code {
    let mut code = Code::new();
    code.read_system(0, 1, 0, 0).set(1, 0x1005).asm("orr r0, r0, r1").system(0, 1, 0, 0);
    code
}

/// A Cortex-A7 that has executed the code, and what it has to say.
fn cortex_a7_after(code: &Code) -> (System<CoherentCaches>, Outcome) {
    let machine = machine("cortex-a7", &[("cores", "1")]);
    let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
    system.load(&code.image_at(MEMORY_OF_VIRT));
    // Write-back and write-allocate, and beside it uncached; readable and writable by all,
    // domain 0.
    for (section, attributes) in [(MEMORY_OF_VIRT, 0x1c0e), (UNCACHED, 0x1c02)] {
        system.bus.load(TABLE + (section >> 20) * 4, &(section | attributes).to_le_bytes());
    }
    let registers = &mut system.core_mut(0).memory.mmu.registers;
    (registers.ttbr, registers.dacr) = (TABLE | 0x4a, 0x5555_5555);
    let stop = system.run(&mut Transcript::default(), code.words.len() as u64);
    let outcome = system.outcome(stop, 0.0);
    (system, outcome)
}

#[test]
fn the_monitor_counts_lines_and_what_uses_the_caches() {
    // Events 0x15, 0x04 and 0x16: lines written back by the data cache, its accesses, and those of
    // the second level.
    let counted = |stores: bool| {
        let mut code = with_mmu();
        for (counter, event) in [0x15, 0x04, 0x16].into_iter().enumerate() {
            code.set(0, counter as u32).system(0, 9, 12, 5); // PMSELR
            code.set(0, event).system(0, 9, 13, 1); // PMXEVTYPER
        }
        code.set(0, 7).system(0, 9, 12, 1).set(0, 1).system(0, 9, 12, 0); // PMCNTENSET, PMCR
        code.set(2, MEMORY_OF_VIRT + 0x8000).set(3, UNCACHED);
        // Both halves of the first line, one of the second.
        for offset in [0, 32, 64] {
            if stores {
                code.store(0, 2, offset);
            } else {
                code.load(0, 2, offset);
            }
        }
        code.load(1, 3, 0).system(2, 7, 14, 1).asm("add r2, r2, #64").system(2, 7, 14, 1); // DCCIMVAC
        for (counter, register) in [5, 6, 7].into_iter().enumerate() {
            code.set(0, counter as u32).system(0, 9, 12, 5).read_system(register, 9, 13, 2);
        }
        let registers = cortex_a7_after(&code).0.core(0).registers;
        [registers[5], registers[6], registers[7]]
    };
    let ([clean, loads, reads], [dirty, stores, accesses]) = (counted(false), counted(true));
    assert_eq!((clean, loads, dirty, stores), (0, 3, 2, 3));
    assert_eq!(accesses - reads, 2);
}

#[test]
fn a_filter_of_modes_is_not_swallowed() {
    for (event, notes) in [(8, 0), (1 << 31 | 8, 1)] {
        let mut code = Code::new();
        code.set(1, event).system(1, 9, 13, 1).read_system(2, 9, 13, 1); // PMXEVTYPER
        let (system, outcome) = cortex_a7_after(&code);
        assert_eq!((system.core(0).registers[2], outcome.notes.len()), (8, notes), "{event:#x}");
    }
}

#[test]
fn user_mode_reads_what_it_may_not_write() {
    // PMUSERENR always, CNTFRQ where CNTKCTL opens a counter (ARM DDI 0406C, PMUSERENR and CNTFRQ).
    for (n, m) in [(9, 14), (14, 0)] {
        for (reads, mode) in [(true, 0x10), (false, 0x1b)] {
            let mut code = Code::new();
            code.set(0, 3).system(0, 14, 1, 0); // CNTKCTL
            code.asm("msr cpsr_c, #0x10"); // user mode
            if reads {
                code.read_system(1, n, m, 0);
            } else {
                code.system(1, n, m, 0);
            }
            assert_eq!(cortex_a7_after(&code).0.core(0).mode(), mode, "c{n}, c{m}");
        }
    }
}
