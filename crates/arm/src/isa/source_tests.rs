//! What an instruction reads, by experiment: with another value in a register, does anything else
//! come out? Then the register has to be among the sources that its row declares, or a load that is
//! late is not waited for.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::path::Path;

use mmulab_hardware::Random;
use mmulab_machine::Machine;
use mmulab_system::core::Flow;

use super::decode::{Decoder, State};
use super::table::Table;
use crate::System;
use crate::caches::{CacheKind, CoherentCaches};
use crate::cpu::{Architecture, mode};

/// Memory that registers point into, and as much of it as is compared.
const MEMORY: u32 = 0x4100_0000;
const WORDS: u32 = 2048;
const CODE: u32 = 0x4080_0000;
/// Rows whose instructions change the mode, wait, or reach devices and system registers. Forms of
/// their own declare what these read.
const LEFT_OUT: &[&str] = &[
    "MCR", "MRC", "MCRR", "MRRC", "CDP", "LDC", "STC", "SVC", "HVC", "SMC", "BKPT", "CPS", "MSR",
    "SETEND", "RFE", "SRS", "hint", "WFI", "WFE", "SEV", "NOP", "MRS", "VMSR", "DBG", "ERET",
    "SUBS PC", "IT",
];

/// All that an instruction can change.
#[derive(Clone, PartialEq, Eq)]
struct After {
    registers: [u32; 16],
    flags: u32,
    control: u32,
    pc: u32,
    vectors: [u64; 32],
    memory: Vec<u32>,
}

fn system() -> System<CoherentCaches> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/cortex-a7.toml");
    let machine = Machine::load(&path).unwrap().with(&[("cores", "1")]).unwrap();
    let Machine::System(machine) = machine else { panic!("a system machine") };
    crate::system(&machine).unwrap()
}

/// Executes an instruction on these registers; `None` if it ends elsewhere than in supervisor mode.
fn execute(
    system: &mut System<CoherentCaches>,
    word: u32,
    state: State,
    registers: &[u32; 16],
) -> Option<After> {
    for number in 0..WORDS {
        let value = number.wrapping_mul(0x9e37_79b1);
        system.bus.load(MEMORY + 4 * number, &value.to_le_bytes());
    }
    system.with_core(0, |cpu, bus| {
        cpu.set_cpsr(mode::SUPERVISOR | if state == State::Arm { 0 } else { 0x20 });
        cpu.registers = *registers;
        cpu.registers[15] = CODE + if state == State::Arm { 8 } else { 4 };
        cpu.flags = 5;
        cpu.memory.pc = CODE;
        cpu.vector.d = std::array::from_fn(|number| number as u64 * 0x0123_4567_89ab);
        cpu.vector.enabled = true;
        cpu.memory.mmu.registers.coprocessor_access = 0x00f0_0000;
        let decoded = cpu.memory.fetch.decoder_mut().decode(word, state);
        let flow = (decoded.op.handler)(cpu, bus, decoded.operands.into());
        cpu.memory.drain_write_buffer(bus);
        cpu.requests = Default::default();
        if cpu.mode() != mode::SUPERVISOR || matches!(flow, Flow::Synchronise) {
            return None;
        }
        let mut registers = cpu.registers;
        registers[15] = 0;
        let memory = (0..WORDS).map(|number| bus.ram.word(MEMORY + 4 * number)).collect();
        Some(After {
            registers,
            flags: cpu.flags,
            control: cpu.control,
            pc: cpu.memory.pc,
            vectors: cpu.vector.d,
            memory,
        })
    })
}

/// The registers that an instruction is seen to read.
fn seen_to_read(
    system: &mut System<CoherentCaches>,
    word: u32,
    state: State,
    random: &mut Random,
) -> u16 {
    let mut seen = 0;
    let registers: [u32; 16] = std::array::from_fn(|_| match random.below(4) {
        0 => random.below(64),
        1 => random.next_u64() as u32,
        _ => MEMORY + 0x1000 + 4 * random.below(256),
    });
    let Some(before) = execute(system, word, state, &registers) else { return 0 };
    for register in 0..15 {
        let mut others = registers;
        others[register] = match random.below(3) {
            0 => others[register].wrapping_add(4 << random.below(5)),
            1 => !others[register],
            _ => random.next_u64() as u32,
        };
        let Some(mut after) = execute(system, word, state, &others) else { continue };
        let kept = (before.registers[register], after.registers[register])
            == (registers[register], others[register]);
        if kept {
            after.registers[register] = before.registers[register];
        }
        if after != before {
            seen |= 1 << register;
        }
    }
    seen
}

fn check(name: &str, table: &Table<CoherentCaches>, state: State) -> usize {
    let decoder: Decoder<CoherentCaches> = {
        let timing = system().core(0).timing.clone();
        Decoder::new(Architecture::V7A, timing, false)
    };
    let (mut system, mut random) = (system(), Random::stream(5, table.rows().len() as u64));
    let (mut reading, mut wrong) = (BTreeSet::new(), Vec::new());
    for row in table.rows() {
        if LEFT_OUT.iter().any(|left_out| row.name.contains(left_out)) {
            continue;
        }
        for _ in 0..6 {
            let free = random.next_u64() as u32 & !row.pattern.mask;
            let word = (free | row.pattern.value) & (!0 >> (32 - row.pattern.width));
            if !row.pattern.matches(word) {
                continue;
            }
            let decoded = decoder.decode(word, state);
            let declared = decoded.sources | decoded.later_sources;
            let seen = seen_to_read(&mut system, word, state, &mut random);
            if seen != 0 {
                reading.insert((row.name, row.section));
            }
            if seen & !declared != 0 {
                wrong.push(format!(
                    "{name}: {} {word:08x} reads {seen:016b}, declares {declared:016b}",
                    row.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    reading.len()
}

#[test]
fn what_an_instruction_reads_is_declared() {
    let tables = &CoherentCaches::tables().from_v7;
    let seen = [
        check("ARM", &tables.conditional, State::Arm),
        check("ARM, unconditional", &tables.unconditional, State::Arm),
        check("Thumb", &tables.narrow, State::Narrow),
        check("Thumb, 32 bits", &tables.wide, State::Wide),
    ];
    // The experiment sees something: most rows read a register.
    assert!(seen[0] > 120 && seen[1] > 0 && seen[2] > 50 && seen[3] > 110, "{seen:?}");
}

/// A row that declares too little would be noticed.
#[test]
fn an_undeclared_source_is_seen() {
    let mut system = system();
    let mut random = Random::new(3);
    // STR R3, [R2] and MLA R1, R2, R3, R4.
    for (word, expected) in [(0xe582_3000, 1 << 2 | 1 << 3), (0xe021_4392, 7 << 2)] {
        let seen = (0..40)
            .fold(0, |all, _| all | seen_to_read(&mut system, word, State::Arm, &mut random));
        assert_eq!(seen, expected, "{word:08x}");
    }
}
