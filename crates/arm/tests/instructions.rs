//! One case and more of each class of instructions, with the results that the manual gives.

use mmulab_arm::CoherentCaches;
use mmulab_system::{Stop, Transcript};

use crate::support::{
    Code, START, asm, branch, ldr, machine, mcr, mov, mrc, orr, run, run_limited, str,
};

/// Executes one instruction after setting R1 to R4; gives R0, R1 and the flags.
fn one(name: &str, instruction: &str, inputs: [u32; 4], carry: bool) -> (u32, u32, u32) {
    let mut code = Code::new();
    for (number, value) in inputs.into_iter().enumerate() {
        code.set(number as u32 + 1, value);
    }
    code.set(0, 0);
    // CMP R0, #1 clears C; CMP R0, #0 sets it.
    code.asm(if carry { "cmp r0, #0" } else { "cmp r0, #1" });
    code.asm(instruction);
    let steps = code.words.len() as u64;
    let run = run_limited(&machine(name, &[]), &code.image(), false, steps);
    assert_eq!(run.stop, Stop::Limit);
    (run.register(0), run.register(1), run.system.core(0).flags)
}

fn result(instruction: &str, inputs: [u32; 4]) -> u32 {
    one("arm926ej-s", instruction, inputs, false).0
}

const N: u32 = 8;
const Z: u32 = 4;
const C: u32 = 2;
const V: u32 = 1;

#[test]
fn arithmetic_sets_the_four_flags() {
    let adds = "adds r0, r1, r2";
    let case = |instruction, a, b, carry| {
        let (value, _, flags) = one("arm926ej-s", instruction, [a, b, 0, 0], carry);
        (value, flags)
    };
    assert_eq!(case(adds, 1, 2, false), (3, 0));
    assert_eq!(case(adds, 0xffff_ffff, 1, false), (0, Z | C));
    assert_eq!(case(adds, 0x7fff_ffff, 1, false), (0x8000_0000, N | V));
    let subs = "subs r0, r1, r2";
    assert_eq!(case(subs, 5, 5, false), (0, Z | C));
    assert_eq!(case(subs, 4, 5, false), (0xffff_ffff, N));
    assert_eq!(case(subs, 0x8000_0000, 1, false), (0x7fff_ffff, C | V));
    let adcs = "adcs r0, r1, r2";
    assert_eq!(case(adcs, 1, 2, true), (4, 0));
    let sbcs = "sbcs r0, r1, r2"; // borrows when C is clear
    assert_eq!(case(sbcs, 5, 2, false), (2, C));
    assert_eq!(case(sbcs, 5, 2, true), (3, C));
    let rscs = "rscs r0, r1, r2";
    assert_eq!(case(rscs, 2, 5, true), (3, C));
}

#[test]
fn the_shifter_gives_its_carry_to_logical_instructions() {
    let flags = |instruction, value| one("arm926ej-s", instruction, [0, value, 33, 0], false);
    assert_eq!(flags("movs r0, r2, lsl #1", 0x8000_0001), (2, 0, C));
    assert_eq!(flags("movs r0, r2, lsr #32", 0x8000_0001), (0, 0, Z | C));
    assert_eq!(flags("movs r0, r2, asr #32", 0x8000_0001), (0xffff_ffff, 0, N | C));
    assert_eq!(flags("movs r0, r2, rrx", 0x8000_0001), (0x4000_0000, 0, C));
    // By R3 = 33: LSL and LSR leave nothing, ROR turns by one.
    assert_eq!(flags("movs r0, r2, lsl r3", 1), (0, 0, Z));
    assert_eq!(flags("movs r0, r2, ror r3", 1), (0x8000_0000, 0, N | C));
    // A rotated constant gives its top bit.
    assert_eq!(flags("movs r0, #0x80000000", 0), (0x8000_0000, 0, N | C));
}

#[test]
fn multiplies() {
    assert_eq!(result("mul r0, r1, r2", [7, 6, 0, 0]), 42);
    assert_eq!(result("mla r0, r1, r2, r3", [7, 6, 5, 0]), 47);
    // UMULL R0, R1, R2, R3 and SMULL: Rd is the high half.
    let long = |instruction| {
        let (low, high, _) = one("arm926ej-s", instruction, [0, 0xffff_ffff, 2, 0], false);
        (low, high)
    };
    assert_eq!(long("umull r0, r1, r2, r3"), (0xffff_fffe, 1));
    assert_eq!(long("smull r0, r1, r2, r3"), (0xffff_fffe, 0xffff_ffff));
    assert_eq!(result("smultt r0, r1, r2", [0x0003_0000, 0x0005_0000, 0, 0]), 15);
    assert_eq!(result("smlabb r0, r1, r2, r3", [3, 5, 0x10, 0]), 0x1f);
    assert_eq!(result("smulwt r0, r1, r2", [0x1_0000, 0x7_0000, 0, 0]), 7);
}

#[test]
fn saturation_stays_at_the_limits_and_sets_q() {
    let qadd = |a, b| {
        let mut code = Code::new();
        code.set(1, a).set(2, b).asm("qadd r0, r1, r2");
        code.asm("mrs r3, cpsr");
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
    assert_eq!(result("clz r0, r1", [0x0001_0000, 0, 0, 0]), 15);
    assert_eq!(result("clz r0, r1", [0, 0, 0, 0]), 32);
    // After a comparison of R0 with 1 and with 0.
    assert_eq!(one("arm926ej-s", "moveq r0, r1", [9, 0, 0, 0], false).0, 0);
    assert_eq!(one("arm926ej-s", "moveq r0, r1", [9, 0, 0, 0], true).0, 9);
}

/// Puts a pattern at 0x8000 and executes with R1 pointing there.
fn with_memory(instruction: &str, offset: u32) -> (u32, u32) {
    let mut code = Code::new();
    code.put(0x8000, 0x4433_82f1).put(0x8004, 0x8877_6655).set(1, 0x8000 + offset).set(2, 4);
    code.asm(instruction);
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    (run.register(0), run.register(1))
}

#[test]
fn loads_in_every_addressing_mode() {
    assert_eq!(with_memory("ldr r0, [r1, #4]", 0), (0x8877_6655, 0x8000));
    assert_eq!(with_memory("ldr r0, [r1, #4]!", 0), (0x8877_6655, 0x8004));
    assert_eq!(with_memory("ldr r0, [r1], #4", 0), (0x4433_82f1, 0x8004));
    assert_eq!(with_memory("ldr r0, [r1, r2]", 0), (0x8877_6655, 0x8000));
    assert_eq!(with_memory("ldr r0, [r1, -r2]", 4), (0x4433_82f1, 0x8004));
    assert_eq!(with_memory("ldrb r0, [r1, #1]", 0), (0x82, 0x8000));
    assert_eq!(with_memory("ldrh r0, [r1]", 0), (0x82f1, 0x8000));
    assert_eq!(with_memory("ldrsb r0, [r1, #1]", 0), (0xffff_ff82, 0x8000));
    assert_eq!(with_memory("ldrsh r0, [r1]", 0), (0xffff_82f1, 0x8000));
    assert_eq!(with_memory("ldrd r0, [r1]", 0), (0x4433_82f1, 0x8877_6655));
}

#[test]
fn an_unaligned_word_is_rotated() {
    // A4.1.23: the byte addressed comes lowest.
    assert_eq!(with_memory("ldr r0, [r1]", 1).0, 0xf144_3382);
    assert_eq!(with_memory("ldr r0, [r1]", 2).0, 0x82f1_4433);
}

#[test]
fn block_transfers_go_up_and_down() {
    // Up from the pattern, down from behind it.
    assert_eq!(with_memory("ldmia r1, {r0, r3}", 0), (0x4433_82f1, 0x8000));
    assert_eq!(with_memory("ldmdb r1!, {r0, r3}", 8), (0x4433_82f1, 0x8000));
    // The word after.
    assert_eq!(with_memory("ldmib r1, {r0}", 0).0, 0x8877_6655);
}

#[test]
fn swap_exchanges_register_and_memory() {
    let mut code = Code::new();
    code.put(0x8000, 0x1234).set(1, 0x8000).set(2, 0x5678);
    code.asm("swp r0, r2, [r1]").load(3, 1, 0);
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("sa1100", &[]), &code.image(), false, steps);
    assert_eq!((run.register(0), run.register(3)), (0x1234, 0x5678));
}

#[test]
fn each_mode_has_its_own_stack_pointer() {
    let mut code = Code::new();
    code.set(13, 0x111).asm("msr cpsr_c, #0xd2").set(13, 0x222); // IRQ mode
    code.asm("msr cpsr_c, #0xd1").set(8, 0x333).asm("msr cpsr_c, #0xd3"); // FIQ mode has its own R8
    code.asm("mov r0, sp; mov r1, r8");
    let steps = code.words.len() as u64;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    assert_eq!((run.register(0), run.register(1)), (0x111, 0));
}

#[test]
fn an_undefined_instruction_goes_to_its_vector() {
    for (name, instruction) in [
        ("sa1100", "bx r1"),          // before version 4T
        ("at91rm9200", "clz r0, r1"), // before version 5
        ("arm926ej-s", "udf #0"),
    ] {
        let mut code = Code::new();
        code.put(4, asm("mov r0, #7"));
        let at = code.here();
        code.asm(instruction);
        let steps = code.words.len() as u64 + 1;
        let run = run_limited(&machine(name, &[]), &code.image(), false, steps);
        assert_eq!((run.register(0), run.register(14)), (7, at + 4), "{name}");
        assert_eq!(run.system.core(0).mode(), 0x1b, "{name}");
    }
}

#[test]
fn a_supervisor_call_from_user_mode_saves_where_it_came_from() {
    let mut code = Code::new();
    code.put(8, asm("mrs r0, spsr"));
    code.asm("msr cpsr_c, #0x10"); // user mode
    let at = code.here();
    code.asm("svc #0");
    let steps = code.words.len() as u64 + 1;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    assert_eq!(run.register(0) & 0xff, 0x10);
    assert_eq!(run.register(14), at + 4);
}

#[test]
fn thumb_code_runs_where_the_core_has_it() {
    for name in ["at91rm9200", "ixp425", "arm926ej-s"] {
        let mut code = Code::new();
        code.asm("add r0, pc, #1; bx r0");
        let thumb_at = code.here();
        code.thumb("mov r0, #5; add r0, #2; lsl r0, r0, #3; bl . + 6; b .; add r0, #1");
        let run = run_limited(&machine(name, &[]), &code.image(), false, 8);
        assert_eq!(run.register(0), 57, "{name}");
        assert_eq!(run.register(14), (thumb_at + 10) | 1, "{name}");
        assert!(run.system.core(0).thumb(), "{name}");
    }
}

/// ARM DDI 0406C, A8.8.24: BKPT does not ask for the condition.
#[test]
fn a_breakpoint_in_an_it_block_is_executed_whatever_the_condition() {
    let mut code = Code::new();
    code.asm("add r0, pc, #1; bx r0");
    let at = code.here() + 4;
    code.word(0xbf18_4280); // cmp r0, r0; it ne
    code.word(0xe7fe_be01); // bkpt #1; b .
    let armv7a = machine("../guests/conformance/armv7a", &[]);
    let mut system = mmulab_arm::system::<CoherentCaches>(&armv7a).unwrap();
    system.load(&code.image());
    system.run(&mut Transcript::default(), 5);
    let core = system.core(0);
    assert_eq!((core.mode(), core.registers[14]), (0x17, at + 4));
    // It is in the block when it is executed again.
    assert_eq!(core.spsr() & 0x0600_fc00, 0x1800);
}

#[test]
fn a_branch_to_itself_with_interrupts_masked_ends_the_run() {
    let mut code = Code::new();
    code.asm("b .");
    let stuck = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(stuck.stop, Stop::Hang);
    assert!(stuck.outcome.end.contains(&format!("{START:#010x}")), "{}", stuck.outcome.end);
}

#[test]
fn the_xscale_accumulates_in_forty_bits() {
    let program = |enabled: u32| {
        let mut code = Code::new();
        code.put(4, asm("mov r0, #99"));
        // c15, c1: access to coprocessor 0; R1 = 0xff and 0xffffffff into the accumulator: -1.
        code.set(0, enabled).system(0, 15, 1, 0).set(1, 0xffff_ffff).set(2, 0xff);
        code.asm("mar acc0, r1, r2");
        code.set(3, 5).set(4, 0xffff_fffd);
        code.asm("mia acc0, r3, r4"); // adds 5 x -3
        code.asm("mra r0, r1, acc0");
        let steps = if enabled != 0 { code.words.len() } else { code.words.len() - 5 };
        run_limited(&machine("ixp425", &[]), &code.image(), false, steps as u64)
    };
    let summed = program(1);
    assert_eq!((summed.register(0), summed.register(1)), (0xffff_fff0, 0xffff_ffff));
    assert_eq!(program(0).system.core(0).mode(), 0x1b, "without access it is undefined");
}

/// CPACR and FPEXC both have to let them in (ARM DDI 0406C, B1.11.3 and B1.11.4).
#[test]
fn vector_registers_are_undefined_until_they_are_enabled() {
    const FULL: u32 = 0xf << 20;
    const PRIVILEGED: u32 = 5 << 20;
    const ON: u32 = 1 << 30;
    for (access, on, works) in
        [(FULL, ON, true), (PRIVILEGED, ON, true), (FULL, 0, false), (0, ON, false)]
    {
        let mut code = Code::new();
        code.set(1, access).system(1, 1, 0, 2).set(2, on).set(3, 0x4000_0000);
        code.asm("vmsr fpexc, r2").asm("vmov s0, r3").asm("vmul.f32 s0, s0, s0");
        code.asm("vmov r4, s0");
        let steps = code.words.len() as u64;
        let armv7a = machine("../guests/conformance/armv7a", &[]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&armv7a).unwrap();
        system.load(&code.image());
        system.run(&mut Transcript::default(), steps);
        assert_eq!(system.core(0).mode() == 0x1b, !works, "{access:#x} {on:#x}");
        assert_eq!(system.core(0).registers[4] == 0x4080_0000, works);
    }
    // Before ARMv7 there are none.
    let mut code = Code::new();
    code.asm("vmov s0, r3");
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, 1);
    assert_eq!(run.system.core(0).mode(), 0x1b);
}

#[test]
fn what_the_tests_compute_is_what_the_assembler_gives() {
    assert_eq!(mov(3, 0x81), asm("mov r3, #0x81"));
    assert_eq!(orr(10, 0x81, 12), asm("orr r10, r10, #0x8100"));
    assert_eq!(ldr(2, 13, 0xabc), asm("ldr r2, [sp, #0xabc]"));
    assert_eq!(str(2, 13, 0xabc), asm("str r2, [sp, #0xabc]"));
    assert_eq!(mcr(1, 2, 15, 4, 5), asm("mcr p15, 1, r2, c15, c4, 5"));
    assert_eq!(mrc(7, 12, 9, 14, 3), asm("mrc p15, 7, r12, c9, c14, 3"));
    assert_eq!(branch(0x1_0000, 0x1_0100), asm("b . + 0x100"));
    assert_eq!(branch(0x1_0000, 0xff00), asm("b . - 0x100"));
}
