//! Several programs that take turns, against the slow model with a scheduler of its own.

use std::collections::{BTreeMap, VecDeque};

use mmulab_machine::{Organisation, ReplayMachine, Shootdown};
use mmulab_replay::{CodeCost, Options, Outcome, ReplayError, replay};
use mmulab_trace::{Access, AccessKind, Block, Cores, Event, RoundRobin, Source};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::common::random::{Random, program, small};
use crate::common::{self, VecSource};
use crate::slow_replay::{Counts, Gone, Slow, counts_of};

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

/// The cores of the slow machine.
struct SlowCores {
    running: Slow,
    number: usize,
    /// By number, but for the one that runs.
    others: Vec<Option<Slow>>,
}

impl SlowCores {
    fn new(machine: &ReplayMachine, seed: u64, count: usize) -> Self {
        let core = |number: usize| Slow::new(machine, seed + ((number as u64) << 32));
        let others = (0..count).map(|number| (number > 0).then(|| core(number))).collect();
        Self { running: core(0), number: 0, others }
    }

    fn switch_to(&mut self, number: usize) {
        if let Some(next) = self.others[number].take() {
            self.others[self.number] = Some(self.running.go_on_as(next));
            self.number = number;
        }
    }

    fn note(&mut self, machine: &ReplayMachine, event: &Event, space: u32) {
        let gone = self.running.note(event);
        self.tell(machine, gone, space);
    }

    /// The other cores learn of what is gone.
    fn tell(&mut self, machine: &ReplayMachine, gone: Vec<Gone>, space: u32) {
        for gone in gone {
            let others = self.others.iter_mut().flatten();
            let interrupted = others.filter_map(|core| core.learn_of(&gone, space).then_some(()));
            let interrupted = interrupted.count();
            let Some(costs) = machine.multicore.as_ref().filter(|_| self.others.len() > 1) else {
                continue;
            };
            if interrupted > 0 || costs.shootdown == Shootdown::Broadcast {
                self.running.counts.add("shootdown", costs.shootdown_cycles.into());
            }
            for _ in 0..interrupted {
                let cycles = costs.shootdown_interrupt_cycles.into();
                self.running.counts.add("shootdown-interrupt", cycles);
            }
        }
    }
}

/// A program of the slow schedule.
#[derive(Clone)]
struct SlowProgram {
    place: usize,
    /// Events that have happened.
    noted: usize,
    /// By thread.
    homes: BTreeMap<u32, usize>,
    home: usize,
}

/// Runs the programs in turn on the slow model, block by block; the counts, and the share of each.
fn slowly(
    machine: &ReplayMachine,
    programs: &[Random],
    slice: u64,
    seed: u64,
    cores: Cores,
) -> (Counts, Vec<Share>) {
    let mut slow = SlowCores::new(machine, seed, cores.count);
    let mut shares = vec![Share::default(); programs.len()];
    let mut threads = vec![0; cores.count];
    let mut queues = vec![VecDeque::new(); cores.count];
    let queue_of = |core: usize| if cores.one_queue { 0 } else { core };
    let mut give = || {
        let least = *threads.iter().min().unwrap();
        let core = threads.iter().position(|&count| count == least).unwrap();
        threads[core] += 1;
        core
    };
    let mut states = Vec::new();
    for number in 0..programs.len() {
        let home = give();
        queues[queue_of(home)].push_back(number);
        states.push(SlowProgram { place: 0, noted: 0, homes: BTreeMap::new(), home });
    }
    // Of each core: the program that runs, and instructions left of its slice.
    let mut runs: Vec<Option<(usize, i64)>> = vec![None; cores.count];
    let mut core = 0;
    let mut turn = i128::from(cores.turn_instructions);
    loop {
        let is_idle = runs.iter().all(Option::is_none) && queues.iter().all(VecDeque::is_empty);
        if is_idle {
            break;
        }
        if runs[core].is_none() {
            runs[core] = queues[queue_of(core)].pop_front().map(|program| (program, slice as i64));
        }
        let (Some((number, left)), 1..) = (runs[core], turn) else {
            if runs[core].is_some_and(|(_, left)| left == slice as i64) && turn <= 0 {
                // It has not begun, and waits on.
                let (number, _) = runs[core].take().unwrap();
                queues[queue_of(core)].push_front(number);
            }
            core = (core + 1) % cores.count;
            turn = i128::from(cores.turn_instructions);
            continue;
        };
        let (program, state) = (&programs[number], &mut states[number]);
        if state.place == program.executed.len() {
            runs[core] = None;
            continue;
        }
        let due = |noted: usize| {
            program.events[noted..]
                .iter()
                .take_while(|(at, _)| *at <= state.place)
                .map(|(_, event)| event)
        };
        let mut events: Vec<Event> = due(state.noted).cloned().collect();
        if !cores.one_queue {
            let is_thread = |event: &Event| matches!(event, Event::Thread(_));
            // A thread that does nothing needs no core; one that only unmaps does.
            let names = events.iter().take_while(|event| is_thread(event)).count();
            if let Some(Event::Thread(thread)) = events[..names].last() {
                if state.homes.is_empty() {
                    state.homes.insert(*thread, state.home);
                }
                state.home = *state.homes.entry(*thread).or_insert_with(&mut give);
            }
            if state.home != core {
                queues[state.home].push_back(number);
                runs[core] = None;
                continue;
            }
            if let Some(more) = events[names..].iter().position(is_thread) {
                events.truncate(names + more);
            }
        }
        let is_before_another_thread = events.len() < due(state.noted).count();
        state.noted += events.len();
        slow.switch_to(core);
        let counts = &slow.running.counts;
        let (cycles, walks) = (counts.cycles(), counts.walks());
        slow.note(machine, &Event::AddressSpace(number as u32), number as u32);
        for event in &events {
            slow.note(machine, &placed_event(event, number), number as u32);
        }
        if is_before_another_thread {
            shares[number].walks += slow.running.counts.walks() - walks;
            shares[number].cycles += slow.running.counts.cycles() - cycles;
            continue;
        }
        let (block, addresses) = &program.executed[state.place];
        let mut block = program.blocks[*block].clone();
        block.address = placed(block.address, number);
        let addresses: Vec<u64> =
            addresses.iter().map(|&address| placed(address, number)).collect();
        slow.running.execute_block(&block, &addresses);
        let gone = std::mem::take(&mut slow.running.gone);
        slow.tell(machine, gone, number as u32);
        state.place += 1;
        let instructions = block.instruction_sizes_bytes.len();
        shares[number].instructions += instructions as u64;
        shares[number].walks += slow.running.counts.walks() - walks;
        shares[number].cycles += slow.running.counts.cycles() - cycles;
        turn -= instructions as i128;
        let left = left - instructions as i64;
        runs[core] = (left > 0).then_some((number, left));
        if left <= 0 {
            queues[queue_of(state.home)].push_back(number);
        }
    }
    slow.running.finish();
    (slow.running.counts, shares)
}

fn run(
    machine: &ReplayMachine,
    programs: &[Random],
    slice: u64,
    seed: u64,
    cores: Cores,
) -> Outcome {
    run_sources(machine, programs.iter().map(Random::source).collect(), slice, seed, cores)
}

fn run_sources(
    machine: &ReplayMachine,
    sources: Vec<VecSource>,
    slice: u64,
    seed: u64,
    cores: Cores,
) -> Outcome {
    let sources = sources.into_iter().map(|it| Box::new(it) as Box<dyn Source>).collect();
    let mut schedule = RoundRobin::new(sources, slice, cores);
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

/// One core half of the time.
fn cores() -> impl Strategy<Value = Cores> {
    let several = (2usize..5, any::<bool>(), prop_oneof![1u64..20, 1u64..1000]);
    let several = several.prop_map(|(count, one_queue, turn_instructions)| Cores {
        count,
        one_queue,
        turn_instructions,
    });
    prop_oneof![Just(Cores::ONE), several]
}

/// A program in which one thread goes on after the other.
fn threaded() -> impl Strategy<Value = Random> {
    let threads = prop::collection::vec((0usize..400, 1u32..5), 0..12);
    (program(), threads).prop_map(|(mut program, threads)| {
        let threads = threads.into_iter().map(|(at, thread)| (at, Event::Thread(thread)));
        program.events.extend(threads);
        program.events.sort_by_key(|(at, _)| *at);
        program
    })
}

macro_rules! machines {
    ($($test:ident: $name:literal,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(
                    machine in small($name),
                    programs in prop::collection::vec(threaded(), 1..5),
                    spaces in 1u32..5,
                    slice in prop_oneof![1u64..20, 1u64..1000],
                    seed in 0u64..1000,
                    (cores, first_shared_level, is_broadcast) in (cores(), 2u32..5, any::<bool>()),
                ) {
                    let mut machine = with_spaces(machine, spaces);
                    let multicore = machine.multicore.as_mut().unwrap();
                    multicore.first_shared_level = first_shared_level;
                    if is_broadcast {
                        multicore.shootdown = Shootdown::Broadcast;
                    }
                    let outcome = run(&machine, &programs, slice, seed, cores);
                    let (mut counts, shares) = slowly(&machine, &programs, slice, seed, cores);
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
        let mut schedule = RoundRobin::new(vec![Box::new(one.source())], 100, Cores::ONE);
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
    let mut outcome = run(&machine, &[one], 10, 0, Cores::ONE);
    assert_eq!(outcome.programs.len(), 1);
    outcome.programs.clear();
    assert_eq!(outcome, alone[0]);
}

/// What stands behind the last block of a chunk happens in the next turn, as it does before the
/// first one of another.
#[test]
fn where_a_batch_ends_changes_nothing() {
    let machine = with_spaces(common::machine("x86-64", &[]), 2);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for turn in 0..40 {
        let programs: Vec<Random> =
            (0..3).map(|_| threaded().new_tree(&mut runner).unwrap().current()).collect();
        let sources = |is_early: bool| {
            let source = |it: &Random| VecSource::new(&it.blocks, &it.executed, &it.events, 3);
            let source = |it| if is_early { source(it).early() } else { source(it) };
            programs.iter().map(source).collect()
        };
        let cores = Cores { count: 1 + turn % 2, one_queue: turn % 4 == 3, turn_instructions: 20 };
        let early = run_sources(&machine, sources(true), 5, 0, cores);
        assert_eq!(early, run_sources(&machine, sources(false), 5, 0, cores), "{turn}");
    }
}

/// With an identifier for each nothing is dropped, and without them each switch costs walks.
#[test]
fn identifiers_save_walks() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let programs: Vec<Random> =
        (0..3).map(|_| program().new_tree(&mut runner).unwrap().current()).collect();
    let walks = |count| {
        let machine = with_spaces(common::machine("x86-64", &[]), count);
        run(&machine, &programs, 50, 0, Cores::ONE).cause("uhandler").count
    };
    assert!(walks(1) > walks(3), "{} and {}", walks(1), walks(3));
    assert_eq!(walks(3), walks(4));
}

/// A block that loads one word.
fn load() -> Block {
    let access = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![access] }
}

/// A program that loads from these pages of its heap in turn.
fn loads(pages: &[u64], events: &[(usize, Event)]) -> Random {
    let map = |address, length_bytes, name: &str| {
        (0, Event::Map { address, length_bytes, executable: false, name: name.to_owned() })
    };
    let mut all = vec![map(0x40_0000, 4096, "/bin/program"), map(0x1000_0000, 1 << 16, "[heap]")];
    all.extend_from_slice(events);
    let executed = pages.iter().map(|page| (0, vec![0x1000_0000 + (page << 12)])).collect();
    Random { blocks: vec![load()], executed, events: all }
}

/// Shootdowns, interrupts for them, and walks on two cores.
fn shootdowns(shootdown: Shootdown, programs: &[Random], slice: u64) -> [u64; 3] {
    shootdowns_of("4K", shootdown, programs, slice)
}

fn shootdowns_of(pages: &str, shootdown: Shootdown, programs: &[Random], slice: u64) -> [u64; 3] {
    let pages = [("organisation.pages".to_owned(), pages.to_owned())];
    let mut machine = with_spaces(common::machine("x86-64", &pages), 6);
    let multicore = machine.multicore.as_mut().unwrap();
    multicore.shootdown = shootdown;
    let cores = Cores { count: 2, one_queue: false, turn_instructions: 1 };
    let outcome = run(&machine, programs, slice, 0, cores);
    ["shootdown", "shootdown-interrupt", "uhandler"].map(|cause| outcome.cause(cause).count)
}

#[test]
fn what_one_thread_unmaps_is_gone_from_the_core_of_another() {
    let unmap = Event::Unmap { address: 0x1000_1000, length_bytes: 4096 };
    let [first, second, again] = [1, 2, 1].map(Event::Thread);
    // The second thread's core knows page 1; the first one unmaps it.
    let events = [(0, first), (1, second.clone()), (2, again), (2, unmap), (3, second)];
    let program = loads(&[1, 1, 0, 1], &events);
    // Both cores walk for the code and for page 1, the first one for page 0, and the second one
    // once more for page 1.
    let programs = [program];
    assert_eq!(shootdowns(Shootdown::Interrupt, &programs, 1000), [1, 1, 6]);
    assert_eq!(shootdowns(Shootdown::Broadcast, &programs, 1000), [1, 0, 6]);
    let untouched = Event::Unmap { address: 0x1000_9000, length_bytes: 4096 };
    let program = loads(&[1, 1, 0, 1], &[events[0].clone(), events[1].clone(), (2, untouched)]);
    assert_eq!(shootdowns(Shootdown::Interrupt, &[program], 1000)[..2], [0, 0]);
}

/// Of three threads the second one unmaps before the third one goes on: one other core has run the
/// program.
#[test]
fn what_a_thread_unmaps_last_is_unmapped_on_its_core() {
    let unmap = Event::Unmap { address: 0x1000_1000, length_bytes: 4096 };
    let [first, second, again] = [1, 2, 1].map(Event::Thread);
    let alone = loads(&[1, 0], &[(0, first.clone()), (1, unmap.clone()), (1, second.clone())]);
    assert_eq!(shootdowns(Shootdown::Interrupt, &[alone], 1000)[..2], [0, 0]);
    // The second thread executes nothing, and unmaps all the same.
    let events = [(0, first), (1, second), (1, unmap), (1, again)];
    assert_eq!(shootdowns(Shootdown::Interrupt, &[loads(&[1, 0], &events)], 1000)[..2], [1, 1]);
}

#[test]
fn a_block_of_2_mib_that_is_unmapped_is_shot_down_once() {
    let (address, length_bytes) = (0x1000_0000, 2 << 20);
    let map = Event::Map { address, length_bytes, executable: false, name: "[heap]".to_owned() };
    let [first, second, again] = [1, 2, 1].map(Event::Thread);
    let unmap = Event::Unmap { address, length_bytes };
    let events = [(0, map), (0, first), (1, second), (2, again), (2, unmap)];
    let programs = [loads(&[1, 1, 0], &events)];
    for pages in ["4K", "on-fault", "mixed"] {
        assert_eq!(
            shootdowns_of(pages, Shootdown::Interrupt, &programs, 1000)[..2],
            [1, 1],
            "{pages}"
        );
    }
}

/// The first thread's core knows the block's table when the second one's touch makes the block one
/// page.
#[test]
fn a_block_that_is_promoted_behind_a_fault_is_shot_down() {
    let (heap, quarter) = (0x1000_0000, 1 << 19);
    let map = |part, parts| Event::Map {
        address: heap + part * quarter,
        length_bytes: parts * quarter,
        executable: false,
        name: "[heap]".to_owned(),
    };
    let unmap = Event::Unmap { address: heap, length_bytes: quarter };
    let [first, second, again] = [1, 2, 1].map(Event::Thread);
    let before = [(0, Event::Unmap { address: heap, length_bytes: 1 << 16 }), (0, map(0, 3))];
    let covered = [(1, second), (1, unmap), (1, map(0, 1)), (1, map(3, 1)), (2, again)];
    let events = [&before[..], &[(0, first)], &covered].concat();
    // The unmapped page is shot down in any case.
    for (pages, touched, expected) in [
        ("on-fault", [1, 1, 1], [1, 1]),
        ("mixed", [1, 1, 1], [2, 2]),
        ("mixed", [1, 600, 600], [1, 1]),
    ] {
        let programs = [loads(&touched, &events)];
        let found = shootdowns_of(pages, Shootdown::Interrupt, &programs, 1000);
        assert_eq!(found[..2], expected, "{pages} {touched:?}");
    }
}

/// A core that runs another address space is left alone, and drops all of the first when that
/// returns.
#[test]
fn a_core_that_runs_another_program_learns_late() {
    let unmap = Event::Unmap { address: 0x1000_1000, length_bytes: 4096 };
    let [first, second, again] = [1, 2, 1].map(Event::Thread);
    let events = [(0, first), (1, second.clone()), (2, again), (6, unmap), (7, second)];
    // The other program has the first core, which then gets the second thread, too.
    let other = loads(&[4; 40], &[]);
    let program = loads(&[1, 1, 0, 0, 0, 0, 0, 2], &events);
    let kept = loads(&[1, 1, 0, 0, 0, 0, 0, 1], &[&events[..3], &events[4..]].concat());
    let [shootdown, interrupts, _] =
        shootdowns(Shootdown::Interrupt, &[other.clone(), program.clone()], 1);
    assert_eq!([shootdown, interrupts], [0, 0]);
    let walks = |how, program: &Random| shootdowns(how, &[other.clone(), program.clone()], 1)[2];
    // Page 2 instead of page 1 is one walk more; the code of the program is walked for again where
    // all was dropped.
    assert_eq!(walks(Shootdown::Broadcast, &program), walks(Shootdown::Broadcast, &kept) + 1);
    assert_eq!(walks(Shootdown::Interrupt, &program), walks(Shootdown::Broadcast, &program) + 1);
}
