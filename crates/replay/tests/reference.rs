//! Every organisation against its slow model, counter by counter, on random programs.

use std::collections::HashSet;

use mmulab_machine::{Organisation, ReplayMachine};
use mmulab_replay::{Options, Outcome, replay, replay_with_alternatives};
use mmulab_trace::{Access, AccessKind, Block, Event};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::common::random::{BATCH_BLOCKS, Random, program, small};
use crate::common::{VecSource, for_each_organisation, machine};
use crate::slow_replay::{Counts, Slow, counts_of};

/// The place in the program where at least `instructions` are executed.
fn place_after(program: &Random, instructions: u64) -> usize {
    let mut left = instructions as i64;
    let mut place = 0;
    while left > 0 && place < program.executed.len() {
        left -= program.blocks[program.executed[place].0].instruction_sizes_bytes.len() as i64;
        place += 1;
    }
    place
}

fn slowly(machine: &ReplayMachine, program: &Random, seed: u64, warm_up: u64) -> Counts {
    let warm = place_after(program, warm_up);
    let end = program.executed.len();
    let mut slow = Slow::new(machine, seed);
    // Where the program's pages go in 32 bits is known a batch at a time, and one is cut where the
    // warm-up ends.
    let begins_batch = |place: &usize| place.is_multiple_of(BATCH_BLOCKS) || *place == warm;
    let batches: Vec<usize> = (0..end).filter(begins_batch).collect();
    for place in 0..end {
        if let Some(at) = batches.iter().position(|&first| first == place) {
            let batch = place..batches.get(at + 1).copied().unwrap_or(end);
            let own = program.events.iter().filter(|(at, _)| batch.contains(at));
            own.for_each(|(_, event)| slow.learn_mapping(event));
        }
        if place == warm {
            slow.end_warm_up();
        }
        let now = program.events.iter().filter(|(at, _)| *at == place);
        now.for_each(|(_, event)| drop(slow.note(event)));
        let (number, addresses) = &program.executed[place];
        slow.execute_block(&program.blocks[*number], addresses);
    }
    if warm == end {
        slow.end_warm_up();
    }
    slow.finish();
    slow.counts
}

fn compare(
    machine: &ReplayMachine,
    program: &Random,
    seed: u64,
    warm_up: u64,
) -> Result<(), TestCaseError> {
    let mut source =
        VecSource::new(&program.blocks, &program.executed, &program.events, BATCH_BLOCKS);
    let options = Options { seed, warm_up, ..Options::default() };
    let outcomes = replay(&mut source, std::slice::from_ref(machine), options).unwrap();
    let [outcome] = &outcomes[..] else { panic!("one machine, one outcome") };
    let sum: u64 = outcome.causes.iter().map(|cause| cause.cycles).sum();
    prop_assert_eq!(sum, outcome.cycles);
    prop_assert_eq!(walks_by_region(outcome), walks_by_other_counters(machine, outcome));
    prop_assert_eq!(counts_of(outcome), slowly(machine, program, seed, warm_up));
    Ok(())
}

/// All walks that regions, and pages, were charged with.
fn walks_by_region(outcome: &Outcome) -> u64 {
    let by_page: u64 = outcome.pages.iter().map(|page| page.fetch_walks + page.data_walks).sum();
    let by_region = outcome.regions.iter().map(|region| region.walks).sum();
    assert_eq!(by_page, by_region);
    by_region
}

/// The same number from counters that know nothing of pages: the misses of the last TLB level, or,
/// without a TLB, how often the user handler ran.
fn walks_by_other_counters(machine: &ReplayMachine, outcome: &Outcome) -> u64 {
    let misses =
        |name: &str| outcome.tlbs.iter().find(|tlb| tlb.name == name).map(|tlb| tlb.misses);
    let first_level = || misses("itlb").unwrap_or(0) + misses("dtlb").unwrap_or(0);
    match machine.organisation {
        Organisation::Notlb(_) => outcome.cause("uhandler").count,
        _ => misses("stlb").unwrap_or_else(first_level),
    }
}

macro_rules! tests {
    ($($test:ident: $name:literal,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(
                    machine in small($name), program in program(), seed in 0u64..1000, warm_up in warm_up(),
                ) {
                    compare(&machine, &program, seed, warm_up)?;
                }
            )*
        }
    };
}

for_each_organisation!(tests);

/// A machine, of which what a random TLB holds is fewer pages than a random program has.
fn with_few_entries(name: &str) -> ReplayMachine {
    let entries = [("itlb.entries".to_owned(), "24".to_owned())];
    machine(name, if matches!(name, "ultrix" | "mach") { &entries } else { &[] })
}

#[test]
fn the_seed_decides_what_is_replaced_at_random() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut drawn = std::iter::repeat_with(|| program().new_tree(&mut runner).unwrap().current());
    // One whose code lies on few pages replaces nothing.
    let pages = |program: &Random| {
        let executed =
            program.executed.iter().map(|(block, _)| program.blocks[*block].address >> 12);
        executed.collect::<HashSet<u64>>().len()
    };
    let program = drawn.find(|program| pages(program) >= 16).unwrap();
    let machines = ["mach", "x86-64"].map(with_few_entries);
    let run = |seed| {
        let mut source = VecSource::new(&program.blocks, &program.executed, &program.events, 7);
        replay(&mut source, &machines, Options { seed, ..Options::default() }).unwrap()
    };
    let (first, second) = (run(1), run(2));
    assert_ne!(first[0], second[0]);
    assert_eq!(first[1], second[1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// On several threads many batches are learned of before any is run, and with a warm-up of any
    /// length.
    #[test]
    fn several_threads_give_what_one_gives(
        program in program(), batch_blocks in 1usize..30, warm_up in warm_up(),
    ) {
        let names = ["ultrix", "mach", "intel", "pa-risc", "notlb", "base", "x86-64", "cortex-a55"];
        let machines = names.map(with_few_entries);
        let run = |threads| {
            let (executed, events) = (&program.executed, &program.events);
            let mut source = VecSource::new(&program.blocks, executed, events, batch_blocks);
            let threads = std::num::NonZeroUsize::new(threads);
            let options = Options { threads, warm_up, ..Options::default() };
            replay(&mut source, &machines, options).unwrap()
        };
        let one = run(1);
        prop_assert_eq!(one.iter().map(|outcome| outcome.machine.as_str()).collect::<Vec<_>>(), names);
        prop_assert_eq!(one, run(3));
    }
}

/// A store begins in the last line of a slab of remapped addresses, and ends where no other is.
#[test]
fn an_access_beyond_its_slab_is_charged_to_the_next_page() {
    let modify = Access { instruction: 0, size_bytes: 16, kind: AccessKind::Modify };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![modify] };
    let executed = vec![(0, vec![0x104f_fff2])];
    let program = Random { blocks: vec![block], executed, events: vec![] };
    for name in ["notlb", "intel", "ultrix", "pa-risc"] {
        let changes = [("l1d.line_bytes", "16"), ("l1i.line_bytes", "16")];
        let changes = changes.map(|(path, value)| (path.to_owned(), value.to_owned()));
        compare(&machine(name, &changes), &program, 1, 0).unwrap();
    }
}

/// What is unmapped is the first half of a large page of which nothing else is mapped, so that its
/// TLB entry is gone for the second half, too.
#[test]
fn a_large_page_of_which_nothing_is_mapped_any_more_is_walked_for_again() {
    let (heap, half) = (0x1000_0000, 1 << 20);
    let unmap = Event::Unmap { address: heap, length_bytes: half };
    let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![load] };
    let in_the_second_half = (0, vec![heap + half]);
    let mut executed = vec![in_the_second_half; 9];
    executed.push((0, vec![heap]));
    let program = Random { blocks: vec![block], executed, events: vec![(6, unmap)] };
    for pages in ["2M", "1G"] {
        let machine = machine("x86-64", &[("organisation.pages".to_owned(), pages.to_owned())]);
        compare(&machine, &program, 1, 0).unwrap();
    }
}

/// What is unmapped is the second half of a large page, whose TLB entry stays. A line there is
/// evicted like any other.
#[test]
fn lines_of_a_large_page_of_which_a_part_is_unmapped_can_be_evicted() {
    let heap = 0x1000_0000;
    let line = heap + (1 << 20);
    let map =
        Event::Map { address: heap, length_bytes: 1 << 21, executable: false, name: String::new() };
    let unmap = Event::Unmap { address: line, length_bytes: 1 << 20 };
    let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![load] };
    let conflicting = (1..20).map(|page| (0, vec![heap + page * 4096]));
    let mut executed = vec![(0, vec![line]); 4];
    executed.extend(conflicting);
    executed.push((0, vec![line]));
    let program = Random { blocks: vec![block], executed, events: vec![(0, map), (4, unmap)] };
    let machine = machine("x86-64", &[("organisation.pages".to_owned(), "2M".to_owned())]);
    compare(&machine, &program, 1, 0).unwrap();
}

/// Nothing of a block is present when it is covered: the daemon promotes it behind the fault of the
/// next page, and the walk cache forgets its table.
#[test]
fn a_block_that_is_covered_while_none_of_it_is_present_is_promoted_behind_a_fault() {
    let (heap, half) = (0x1000_0000, 1 << 20);
    let map = |address, length_bytes| Event::Map {
        address,
        length_bytes,
        executable: false,
        name: String::new(),
    };
    let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![load] };
    let executed = [0, 1, 1, 200, 300].map(|page| (0, vec![heap + page * 4096])).to_vec();
    let events = vec![
        (0, map(heap + half, half / 2)),
        (0, map(heap, half)),
        (1, Event::Unmap { address: heap, length_bytes: half }),
        (1, map(heap, half)),
        (1, map(heap + half + half / 2, half / 2)),
    ];
    let program = Random { blocks: vec![block], executed, events };
    // Small faults are of the code, of the first page, and of one or all later ones.
    for (pages, faults) in [("mixed", [3, 1]), ("on-fault", [5, 0])] {
        let machine = machine("x86-64", &[("organisation.pages".to_owned(), pages.to_owned())]);
        compare(&machine, &program, 1, 0).unwrap();
        let counts = slowly(&machine, &program, 1, 0).causes;
        let found = ["small-page-fault", "promotion"]
            .map(|cause| counts.get(cause).map_or(0, |(count, _)| *count));
        assert_eq!(found, faults, "{pages}");
    }
}

/// A real program: the start of the recording that is shipped as an example.
#[test]
fn a_recorded_program() {
    let trace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.mmt");
    let mut source = mmulab_trace::open(&trace).unwrap();
    let (mut batch, mut blocks, mut executed) = (mmulab_trace::Batch::default(), vec![], vec![]);
    let mut events = Vec::new();
    while executed.len() < 40_000 && source.next_batch(&mut batch).unwrap() {
        blocks = source.table().blocks().to_vec();
        let first = executed.len();
        let mut addresses = batch.addresses.iter().copied();
        for &block in &batch.blocks {
            let own = addresses.by_ref().take(blocks[block as usize].accesses.len()).collect();
            executed.push((block as usize, own));
        }
        let later = |(place, event)| (first + place, event);
        events.extend(batch.events.drain(..).map(later));
    }
    let program = Random { blocks, executed, events };
    let small = |name: &str| {
        let mut set = vec![("l2.size_bytes", "65536"), ("l1i.size_bytes", "4096")];
        set.push(("l1d.size_bytes", "4096"));
        match name {
            "x86-64" => set.extend([("organisation.pages", "mixed"), ("dtlb.entries", "8")]),
            "base" | "notlb" => {}
            "ultrix" => set.extend([("dtlb.entries", "24"), ("itlb.entries", "20")]),
            _ => set.extend([("dtlb.entries", "12"), ("itlb.entries", "6")]),
        }
        let set: Vec<_> = set.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
        machine(name, &set)
    };
    for name in ["ultrix", "intel", "pa-risc", "notlb", "base", "x86-64"] {
        compare(&small(name), &program, 3, 0).unwrap();
    }
    for name in ["ultrix", "notlb", "x86-64"] {
        compare(&small(name), &program, 3, 30_000).unwrap();
    }
}

/// Other costs of the same events, and other machines: each alternative is what it is by itself.
#[test]
fn alternatives_are_what_they_are_alone() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for name in ["ultrix", "pa-risc", "notlb", "inverted-hw", "x86-64", "cortex-a55"] {
        let mut one = small(name).new_tree(&mut runner).unwrap().current();
        one.interrupts.costs_cycles = vec![10, 50];
        let alternatives = alternatives_to(&one);
        let program = program().new_tree(&mut runner).unwrap().current();
        let source =
            || VecSource::new(&program.blocks, &program.executed, &program.events, BATCH_BLOCKS);
        let options = Options { seed: 5, ..Options::default() };
        let together = replay_with_alternatives(
            &mut source(),
            &[(one.clone(), alternatives.clone())],
            options,
        )
        .unwrap();
        assert_eq!(vec![together[0].0.clone()], replay(&mut source(), &[one], options).unwrap());
        let mut alone = replay(&mut source(), &alternatives, options).unwrap();
        for outcome in &mut alone {
            outcome.regions.clear();
            outcome.pages.clear();
        }
        assert_eq!(together[0].1, alone, "{name}");
        let cycles: std::collections::BTreeSet<u64> = alone.iter().map(|o| o.cycles).collect();
        assert!(cycles.len() > 2, "{name}: the alternatives make no difference");
    }
}

/// Every cost changed by itself, all together, and machines that do something else.
fn alternatives_to(machine: &ReplayMachine) -> Vec<ReplayMachine> {
    let mut all = machine.clone();
    let mut others = Vec::new();
    let mut add = |change: &dyn Fn(&mut ReplayMachine)| {
        let mut other = machine.clone();
        change(&mut other);
        change(&mut all);
        others.push(other);
    };
    add(&|machine| machine.memory.latency_cycles += 77);
    add(&|machine| machine.interrupts.costs_cycles = vec![23]);
    for cache in [0, 1] {
        add(&|machine| {
            if let Some(cache) = [&mut machine.l2, &mut machine.l3][cache] {
                cache.latency_cycles += 5;
            }
        });
    }
    add(&|machine| {
        if let Some(stlb) = &mut machine.stlb {
            stlb.latency_cycles += 2;
        }
    });
    add(&|machine| {
        if let Organisation::Radix(table) = &mut machine.organisation {
            table.walk_overhead_cycles += 3;
            table.walk_step_cycles += 1;
        }
    });
    add(&|machine| {
        if let Some(cache) = machine.l2.as_mut().filter(|cache| cache.ways.count(1) > 1) {
            cache.replacement = mmulab_machine::Replacement::Lru;
        }
    });
    others.push(all);
    others
}

fn warm_up() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 2 => 1u64..1200]
}

/// Five large pages take turns in a TLB of four entries, each by a small part of its own and then
/// by its first.
#[test]
fn a_large_page_that_leaves_the_tlb_is_not_known_by_any_part() {
    let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![load] };
    let pages = (0..5u64).cycle().take(50);
    let first = |page: u64| 0x1000_0000 + (page << 21);
    let executed = pages
        .flat_map(|page| [first(page) + ((page + 1) << 12), first(page)].map(|at| (0, vec![at])))
        .collect();
    let program = Random { blocks: vec![block], executed, events: vec![] };
    let changes = [("organisation.pages", "2M"), ("dtlb_large.entries", "4")];
    let changes = changes.map(|(path, value)| (path.to_owned(), value.to_owned()));
    compare(&machine("x86-64", &changes), &program, 1, 0).unwrap();
}

/// A second level that holds no pages of 1 GB gives pieces of them, and a piece is found before the
/// whole page beside it: however hits are looked up, that is the one used.
#[test]
fn a_piece_beside_its_large_page_is_the_one_that_is_used() {
    let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![load] };
    let at = |page: u64, piece: u64| (0, vec![(0x40 + page) << 30 | piece << 21]);
    // The piece of some page, another part of some page, which is walked for, and a piece again.
    let some = |turn: u64| {
        let mixed = turn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        mixed >> 33
    };
    let round = |turn| {
        let page = some(turn) % 9;
        [at(page, 0), at(page, 1 + some(turn + 7777) % 5), at(page, 0)]
    };
    let executed = (0..1000).flat_map(round).collect();
    let program = Random { blocks: vec![block], executed, events: vec![] };
    for kind in ["write-back", "write-through"] {
        let changes = [("organisation.pages", "1G"), ("dtlb.entries", "6"), ("stlb.entries", "16")];
        let changes = [&changes[..], &[("stlb.ways", "16"), ("l1d.write_policy", kind)]].concat();
        let changes: Vec<_> =
            changes.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect();
        compare(&machine("zen5", &changes), &program, 1, 0).unwrap();
    }
}
