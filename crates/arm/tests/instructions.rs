//! One case and more of each class of instructions, with the results that the manual gives.

mod support;

use mmulab_arm::Stop;
use support::{Code, START, machine, run, run_limited};

/// Executes one instruction after setting R1 to R4; gives R0, R1 and the flags.
fn one(name: &str, word: u32, inputs: [u32; 4], carry: bool) -> (u32, u32, u32) {
    let mut code = Code::new();
    for (number, value) in inputs.into_iter().enumerate() {
        code.set(number as u32 + 1, value);
    }
    code.set(0, 0);
    // CMP R0, #1 clears C; CMP R0, #0 sets it.
    code.word(if carry { 0xe350_0000 } else { 0xe350_0001 });
    code.word(word);
    let steps = code.words.len() as u64;
    let run = run_limited(&machine(name, &[]), &code.image(), false, steps);
    assert_eq!(run.stop, Stop::Limit);
    (run.register(0), run.register(1), run.system.cores[0].flags)
}

fn result(word: u32, inputs: [u32; 4]) -> u32 {
    one("arm926ej-s", word, inputs, false).0
}

const N: u32 = 8;
const Z: u32 = 4;
const C: u32 = 2;
const V: u32 = 1;

#[test]
fn arithmetic_sets_the_four_flags() {
    let adds = 0xe091_0002; // ADDS R0, R1, R2
    let case = |word, a, b, carry| {
        let (value, _, flags) = one("arm926ej-s", word, [a, b, 0, 0], carry);
        (value, flags)
    };
    assert_eq!(case(adds, 1, 2, false), (3, 0));
    assert_eq!(case(adds, 0xffff_ffff, 1, false), (0, Z | C));
    assert_eq!(case(adds, 0x7fff_ffff, 1, false), (0x8000_0000, N | V));
    let subs = 0xe051_0002; // SUBS R0, R1, R2
    assert_eq!(case(subs, 5, 5, false), (0, Z | C));
    assert_eq!(case(subs, 4, 5, false), (0xffff_ffff, N));
    assert_eq!(case(subs, 0x8000_0000, 1, false), (0x7fff_ffff, C | V));
    let adcs = 0xe0b1_0002; // ADCS R0, R1, R2
    assert_eq!(case(adcs, 1, 2, true), (4, 0));
    let sbcs = 0xe0d1_0002; // SBCS R0, R1, R2: borrows when C is clear
    assert_eq!(case(sbcs, 5, 2, false), (2, C));
    assert_eq!(case(sbcs, 5, 2, true), (3, C));
    let rscs = 0xe0f1_0002; // RSCS R0, R1, R2
    assert_eq!(case(rscs, 2, 5, true), (3, C));
}

#[test]
fn the_shifter_gives_its_carry_to_logical_instructions() {
    let flags = |word, value| one("arm926ej-s", word, [0, value, 33, 0], false);
    // MOVS R0, R2, LSL #1; LSR #32; ASR #32; RRX
    assert_eq!(flags(0xe1b0_0082, 0x8000_0001), (2, 0, C));
    assert_eq!(flags(0xe1b0_0022, 0x8000_0001), (0, 0, Z | C));
    assert_eq!(flags(0xe1b0_0042, 0x8000_0001), (0xffff_ffff, 0, N | C));
    assert_eq!(flags(0xe1b0_0062, 0x8000_0001), (0x4000_0000, 0, C));
    // By R3 = 33: LSL and LSR leave nothing, ROR turns by one.
    assert_eq!(flags(0xe1b0_0312, 1), (0, 0, Z));
    assert_eq!(flags(0xe1b0_0372, 1), (0x8000_0000, 0, N | C));
    // MOVS R0, #0x80000000: a rotated constant gives its top bit.
    assert_eq!(flags(0xe3b0_0102, 0), (0x8000_0000, 0, N | C));
}

#[test]
fn multiplies() {
    assert_eq!(result(0xe000_0291, [7, 6, 0, 0]), 42); // MUL R0, R1, R2
    assert_eq!(result(0xe020_3291, [7, 6, 5, 0]), 47); // MLA R0, R1, R2, R3
    // UMULL R0, R1, R2, R3 and SMULL: Rd is the high half.
    let long = |word| {
        let (low, high, _) = one("arm926ej-s", word, [0, 0xffff_ffff, 2, 0], false);
        (low, high)
    };
    assert_eq!(long(0xe081_0392), (0xffff_fffe, 1));
    assert_eq!(long(0xe0c1_0392), (0xffff_fffe, 0xffff_ffff));
    assert_eq!(result(0xe160_02e1, [0x0003_0000, 0x0005_0000, 0, 0]), 15); // SMULTT R0, R1, R2
    assert_eq!(result(0xe100_3281, [3, 5, 0x10, 0]), 0x1f); // SMLABB R0, R1, R2, R3
    assert_eq!(result(0xe120_02e1, [0x1_0000, 0x7_0000, 0, 0]), 7); // SMULWT R0, R1, R2
}

#[test]
fn saturation_stays_at_the_limits_and_sets_q() {
    let qadd = |a, b| {
        let mut code = Code::new();
        code.set(1, a).set(2, b).word(0xe102_0051); // QADD R0, R1, R2
        code.word(0xe10f_3000); // MRS R3, CPSR
        let steps = code.words.len() as u64;
        let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
        (run.register(0), run.register(3) >> 27 & 1)
    };
    assert_eq!(qadd(1, 2), (3, 0));
    assert_eq!(qadd(0x7fff_ffff, 1), (0x7fff_ffff, 1));
    assert_eq!(qadd(0x8000_0000, 0xffff_ffff), (0x8000_0000, 1));
}

#[test]
fn counting_zeros_and_conditions() {
    assert_eq!(result(0xe16f_0f11, [0x0001_0000, 0, 0, 0]), 15); // CLZ R0, R1
    assert_eq!(result(0xe16f_0f11, [0, 0, 0, 0]), 32);
    // MOVEQ R0, R1 after CMP R0, #1 (not equal) and CMP R0, #0 (equal)
    assert_eq!(one("arm926ej-s", 0x01a0_0001, [9, 0, 0, 0], false).0, 0);
    assert_eq!(one("arm926ej-s", 0x01a0_0001, [9, 0, 0, 0], true).0, 9);
}

/// Puts a pattern at 0x8000 and executes with R1 pointing there.
fn with_memory(word: u32, offset: u32) -> (u32, u32) {
    let mut code = Code::new();
    code.put(0x8000, 0x4433_82f1).put(0x8004, 0x8877_6655).set(1, 0x8000 + offset).set(2, 4);
    code.word(word);
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    (run.register(0), run.register(1))
}

#[test]
fn loads_in_every_addressing_mode() {
    assert_eq!(with_memory(0xe591_0004, 0), (0x8877_6655, 0x8000)); // LDR R0, [R1, #4]
    assert_eq!(with_memory(0xe5b1_0004, 0), (0x8877_6655, 0x8004)); // LDR R0, [R1, #4]!
    assert_eq!(with_memory(0xe491_0004, 0), (0x4433_82f1, 0x8004)); // LDR R0, [R1], #4
    assert_eq!(with_memory(0xe791_0002, 0), (0x8877_6655, 0x8000)); // LDR R0, [R1, R2]
    assert_eq!(with_memory(0xe711_0002, 4), (0x4433_82f1, 0x8004)); // LDR R0, [R1, -R2]
    assert_eq!(with_memory(0xe5d1_0001, 0), (0x82, 0x8000)); // LDRB R0, [R1, #1]
    assert_eq!(with_memory(0xe1d1_00b0, 0), (0x82f1, 0x8000)); // LDRH R0, [R1]
    assert_eq!(with_memory(0xe1d1_00d1, 0), (0xffff_ff82, 0x8000)); // LDRSB R0, [R1, #1]
    assert_eq!(with_memory(0xe1d1_00f0, 0), (0xffff_82f1, 0x8000)); // LDRSH R0, [R1]
    assert_eq!(with_memory(0xe1c1_00d0, 0), (0x4433_82f1, 0x8877_6655)); // LDRD R0, [R1]
}

#[test]
fn an_unaligned_word_is_rotated() {
    // A4.1.23: the byte addressed comes lowest.
    assert_eq!(with_memory(0xe591_0000, 1).0, 0xf144_3382);
    assert_eq!(with_memory(0xe591_0000, 2).0, 0x82f1_4433);
}

#[test]
fn block_transfers_go_up_and_down() {
    // LDMIA R1, {R0, R3}; LDMDB R1!, {R0, R3} from behind the pattern
    assert_eq!(with_memory(0xe891_0009, 0), (0x4433_82f1, 0x8000));
    assert_eq!(with_memory(0xe931_0009, 8), (0x4433_82f1, 0x8000));
    // LDMIB R1, {R0}: the word after
    assert_eq!(with_memory(0xe991_0001, 0).0, 0x8877_6655);
}

#[test]
fn swap_exchanges_register_and_memory() {
    let mut code = Code::new();
    code.put(0x8000, 0x1234).set(1, 0x8000).set(2, 0x5678);
    code.word(0xe101_0092).load(3, 1, 0); // SWP R0, R2, [R1]
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("sa1100", &[]), &code.image(), false, steps);
    assert_eq!((run.register(0), run.register(3)), (0x1234, 0x5678));
}

#[test]
fn each_mode_has_its_own_stack_pointer() {
    let mut code = Code::new();
    code.set(13, 0x111).word(0xe321_f0d2).set(13, 0x222); // MSR CPSR_c, #0xd2: IRQ mode
    code.word(0xe321_f0d1).set(8, 0x333).word(0xe321_f0d3); // FIQ mode has R8; back to supervisor
    code.word(0xe1a0_000d).word(0xe1a0_1008); // MOV R0, R13; MOV R1, R8
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    assert_eq!((run.register(0), run.register(1)), (0x111, 0));
}

#[test]
fn an_undefined_instruction_goes_to_its_vector() {
    for (name, word) in [
        ("sa1100", 0xe12f_ff11),     // BX on ARMv4
        ("at91rm9200", 0xe16f_0f11), // CLZ before version 5
        ("arm926ej-s", 0xe7f0_00f0), // undefined everywhere
    ] {
        let mut code = Code::new();
        code.put(4, 0xe3a0_0007); // MOV R0, #7 at the vector
        let at = code.here();
        code.word(word);
        let steps = code.words.len() as u64 + 1;
        let run = run_limited(&machine(name, &[]), &code.image(), false, steps);
        assert_eq!((run.register(0), run.register(14)), (7, at + 4), "{name}");
        assert_eq!(run.system.cores[0].mode(), 0x1b, "{name}");
    }
}

#[test]
fn a_supervisor_call_from_user_mode_saves_where_it_came_from() {
    let mut code = Code::new();
    code.put(8, 0xe14f_0000); // MRS R0, SPSR at the vector
    code.word(0xe321_f010); // MSR CPSR_c, #0x10: user mode
    let at = code.here();
    code.word(0xef00_0000);
    let steps = code.words.len() as u64 + 1;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    assert_eq!(run.register(0) & 0xff, 0x10);
    assert_eq!(run.register(14), at + 4);
}

#[test]
fn thumb_code_runs_where_the_core_has_it() {
    // ADD R0, PC, #1; BX R0; then in Thumb: MOV R0, #5; ADD R0, #2; LSL R0, R0, #3; BL +2 over B .
    let thumb = [0x2005_u16, 0x3002, 0x00c0, 0xf000, 0xf801, 0xe7fe, 0x3001];
    for name in ["at91rm9200", "ixp425", "arm926ej-s"] {
        let mut code = Code::new();
        code.word(0xe28f_0001).word(0xe12f_ff10);
        let thumb_at = code.here();
        for pair in thumb.chunks(2) {
            let high = pair.get(1).copied().unwrap_or(0xe7fe);
            code.word(u32::from(pair[0]) | u32::from(high) << 16);
        }
        let run = run_limited(&machine(name, &[]), &code.image(), false, 8);
        assert_eq!(run.register(0), 57, "{name}");
        assert_eq!(run.register(14), (thumb_at + 10) | 1, "{name}");
        assert!(run.system.cores[0].thumb(), "{name}");
    }
}

#[test]
fn a_branch_to_itself_with_interrupts_masked_ends_the_run() {
    let mut code = Code::new();
    code.word(0xeaff_fffe);
    let stuck = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(stuck.stop, Stop::Hang);
    assert!(stuck.outcome.end.contains(&format!("{START:#010x}")), "{}", stuck.outcome.end);
}

#[test]
fn the_xscale_accumulates_in_forty_bits() {
    let program = |enabled: u32| {
        let mut code = Code::new();
        code.put(4, 0xe3a0_0063); // MOV R0, #99 at the undefined vector
        // c15, c1: access to coprocessor 0; R1 = 0xff and 0xffffffff into the accumulator: -1.
        code.set(0, enabled).system(0, 15, 1, 0).set(1, 0xffff_ffff).set(2, 0xff);
        code.word(0xec42_1000); // MAR acc0, R1, R2
        code.set(3, 5).set(4, 0xffff_fffd);
        code.word(0xee20_4013); // MIA acc0, R3, R4: adds 5 x -3
        code.word(0xec51_0000); // MRA R0, R1, acc0
        let steps = if enabled != 0 { code.words.len() } else { code.words.len() - 5 };
        run_limited(&machine("ixp425", &[]), &code.image(), false, steps as u64)
    };
    let summed = program(1);
    assert_eq!((summed.register(0), summed.register(1)), (0xffff_fff0, 0xffff_ffff));
    assert_eq!(program(0).system.cores[0].mode(), 0x1b, "without access it is undefined");
}
