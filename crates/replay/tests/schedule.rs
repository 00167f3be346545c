//! Several programs that take turns, against the slow model with a scheduler of its own.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../hardware/tests/slow/mod.rs"]
mod slow;
mod slow_replay;

use common::random::{Random, program, small};
use mmulab_machine::{Organisation, ReplayMachine};
use mmulab_replay::{CodeCost, Options, Outcome, ReplayError, replay};
use mmulab_trace::{Event, RoundRobin, Source};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use slow_replay::{Counts, Slow, counts_of};

/// The address that a program's address has in a schedule.
fn placed(address: u64, number: usize) -> u64 {
    address % (1 << 49) + ((number as u64) << 49)
}

fn placed_event(event: &Event, number: usize) -> Event {
    match event.clone() {
        Event::Map { address, length_bytes, executable, name } => {
            Event::Map { address: placed(address, number), length_bytes, executable, name }
        }
        Event::Unmap { address, length_bytes } => {
            Event::Unmap { address: placed(address, number), length_bytes }
        }
        other => other,
    }
}

/// What a program did, and cost beside issue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Share {
    instructions: u64,
    walks: u64,
    cycles: u64,
}

/// Runs the programs in turn on the slow model; the counts, and the share of each.
fn slowly(
    machine: &ReplayMachine,
    programs: &[Random],
    slice: u64,
    seed: u64,
) -> (Counts, Vec<Share>) {
    let mut slow = Slow::new(machine, seed);
    let mut places = vec![0; programs.len()];
    let mut shares = vec![Share::default(); programs.len()];
    while places.iter().zip(programs).any(|(&place, program)| place < program.executed.len()) {
        for (number, program) in programs.iter().enumerate() {
            if places[number] == program.executed.len() {
                continue;
            }
            let (cycles, walks) = (slow.counts.cycles(), slow.counts.walks());
            slow.note(&Event::AddressSpace(number as u32));
            let mut left = slice as i64;
            while left > 0 && places[number] < program.executed.len() {
                let place = places[number];
                for (_, event) in program.events.iter().filter(|(at, _)| *at == place) {
                    slow.note(&placed_event(event, number));
                }
                let (block, addresses) = &program.executed[place];
                let mut block = program.blocks[*block].clone();
                block.address = placed(block.address, number);
                let addresses: Vec<u64> =
                    addresses.iter().map(|&address| placed(address, number)).collect();
                slow.execute_block(&block, &addresses);
                left -= block.instruction_sizes_bytes.len() as i64;
                shares[number].instructions += block.instruction_sizes_bytes.len() as u64;
                places[number] += 1;
            }
            shares[number].walks += slow.counts.walks() - walks;
            shares[number].cycles += slow.counts.cycles() - cycles;
        }
    }
    slow.finish();
    (slow.counts, shares)
}

fn run(machine: &ReplayMachine, programs: &[Random], slice: u64, seed: u64) -> Outcome {
    let sources =
        programs.iter().map(|program| Box::new(program.source()) as Box<dyn Source>).collect();
    let mut schedule = RoundRobin::new(sources, slice);
    let options = Options { seed, ..Options::default() };
    replay(&mut schedule, std::slice::from_ref(machine), options).unwrap().remove(0)
}

fn share_of(cost: &CodeCost) -> Share {
    let CodeCost { instructions, walks, translation_cycles, page_fault_cycles, cache_cycles } =
        *cost;
    Share { instructions, walks, cycles: translation_cycles + page_fault_cycles + cache_cycles }
}

fn with_spaces(mut machine: ReplayMachine, count: u32) -> ReplayMachine {
    if let Organisation::Radix(table) = &mut machine.organisation {
        table.address_spaces = Some(count);
    }
    machine
}

macro_rules! machines {
    ($($test:ident: $name:literal,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(
                    machine in small($name),
                    programs in prop::collection::vec(program(), 1..5),
                    spaces in 1u32..5,
                    slice in prop_oneof![1u64..20, 1u64..1000],
                    seed in 0u64..1000,
                ) {
                    let machine = with_spaces(machine, spaces);
                    let outcome = run(&machine, &programs, slice, seed);
                    let (mut counts, shares) = slowly(&machine, &programs, slice, seed);
                    // Pages of several programs may have one address, and are not told.
                    prop_assert!(outcome.pages.is_empty());
                    counts.pages.clear();
                    prop_assert_eq!(counts_of(&outcome), counts);
                    prop_assert_eq!(outcome.programs.iter().map(share_of).collect::<Vec<_>>(), shares);
                }
            )*
        }
    };
}

machines! {
    x86_64: "x86-64",
    cortex_a55: "cortex-a55",
}

#[test]
fn machines_that_do_not_say_what_a_switch_does_are_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let one = program().new_tree(&mut runner).unwrap().current();
    for name in ["sifive-u74", "ultrix"] {
        let mut machine = common::machine(name, &[]);
        if let Organisation::Radix(table) = &mut machine.organisation {
            table.address_spaces = None;
        }
        let mut schedule = RoundRobin::new(vec![Box::new(one.source())], 100);
        let error = replay(&mut schedule, &[machine], Options::default()).unwrap_err();
        assert!(matches!(&error, ReplayError::Machine { .. }), "{error}");
    }
}

#[test]
fn one_program_in_turns_is_that_program() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let one = program().new_tree(&mut runner).unwrap().current();
    let machine = with_spaces(common::machine("x86-64", &[]), 1);
    let mut alone =
        replay(&mut one.source(), std::slice::from_ref(&machine), Options::default()).unwrap();
    alone[0].pages.clear();
    let mut outcome = run(&machine, &[one], 10, 0);
    assert_eq!(outcome.programs.len(), 1);
    outcome.programs.clear();
    assert_eq!(outcome, alone[0]);
}

/// With an identifier for each nothing is dropped, and without them each switch costs walks.
#[test]
fn identifiers_save_walks() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let programs: Vec<Random> =
        (0..3).map(|_| program().new_tree(&mut runner).unwrap().current()).collect();
    let walks = |count| {
        let machine = with_spaces(common::machine("x86-64", &[]), count);
        run(&machine, &programs, 50, 0).cause("uhandler").count
    };
    assert!(walks(1) > walks(3), "{} and {}", walks(1), walks(3));
    assert_eq!(walks(3), walks(4));
}
