//! Regions of interest: what is counted inside and what outside are together what there is.

use std::collections::{BTreeMap, BTreeSet};

use mmulab_machine::{Organisation, ReplayMachine};
use mmulab_replay::{Options, Outcome, ReplayError, profile, replay};
use mmulab_trace::{Access, AccessKind, Block, Event, Slice};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::common::random::{BATCH_BLOCKS, Random, program, small};
use crate::common::{self, VecSource, for_each_organisation};

fn mark(name: &str, begins: bool) -> Event {
    Event::Mark { name: name.to_owned(), begins }
}

/// The counters of an outcome that add up; issue and copy-on-write faults are rounded for each
/// count, and hits cannot be negative.
fn counters(outcome: &Outcome) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::from([("instructions".to_owned(), outcome.instructions)]);
    let mut add = |name: String, count: u64| *all.entry(name).or_default() += count;
    for cause in outcome.causes.iter().filter(|it| !matches!(it.name, "issue" | "cow-interrupt")) {
        add(cause.name.to_owned(), cause.count);
        add(format!("{} cycles", cause.name), cause.cycles);
    }
    for tlb in &outcome.tlbs {
        add(format!("{} misses", tlb.name), tlb.misses);
    }
    for cache in &outcome.caches {
        add(format!("{} misses", cache.name), cache.misses);
        add(format!("{} write-backs", cache.name), cache.write_backs);
    }
    for page in &outcome.pages {
        add(format!("walks of {:#x}", page.address), page.fetch_walks + page.data_walks);
        add(format!("cycles of {:#x}", page.address), page.cycles);
    }
    all.retain(|_, count| *count > 0);
    all
}

fn sum(one: BTreeMap<String, u64>, other: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    other.into_iter().fold(one, |mut sum, (name, count)| {
        *sum.entry(name).or_default() += count;
        sum
    })
}

/// The program with marks at `places`: where one region ends the other begins.
fn marked(mut program: Random, places: &[usize], keeps_events: bool) -> Random {
    if !keeps_events {
        program.events.retain(|(place, _)| *place == 0);
    }
    program.events.push((0, mark("outside", true)));
    for (number, place) in places.iter().enumerate() {
        let (ends, begins) =
            if number % 2 == 0 { ("outside", "inside") } else { ("inside", "outside") };
        program.events.push((*place, mark(ends, false)));
        program.events.push((*place, mark(begins, true)));
    }
    program.events.sort_by_key(|(place, _)| *place);
    program
}

/// Two regions that make up a program, one from a place on, and who pays: all add up to the whole.
fn compare(
    machine: &ReplayMachine,
    program: Random,
    places: BTreeSet<usize>,
    seed: u64,
) -> Result<(), TestCaseError> {
    let places: Vec<usize> = places.into_iter().collect();
    // Where pages go in 32 bits depends on which mappings are known, which is by batch.
    let is_radix = matches!(machine.organisation, Organisation::Radix(_));
    let program = marked(program, &places, is_radix);
    prop_assume!(places[0] < program.executed.len());
    let run = |region| {
        let options = Options { seed, region, ..Options::default() };
        let machines = std::slice::from_ref(machine);
        replay(&mut program.source(), machines, options).unwrap().remove(0)
    };
    let whole = run(None);
    let (inside, outside) = (run(Some("inside")), run(Some("outside")));
    prop_assert_eq!(counters(&whole), sum(counters(&inside), counters(&outside)));
    // A region that begins and does not end is what follows a warm-up.
    let mut from = program.clone();
    from.events.push((places[0], mark("from here", true)));
    from.events.sort_by_key(|(place, _)| *place);
    let before = program.executed[..places[0]].iter();
    let warm_up =
        before.map(|(block, _)| program.blocks[*block].instruction_sizes_bytes.len() as u64).sum();
    let options = Options { seed, region: Some("from here"), ..Options::default() };
    let machines = std::slice::from_ref(machine);
    let marked = replay(&mut from.source(), machines, options).unwrap();
    let options = Options { seed, warm_up, ..Options::default() };
    prop_assert_eq!(marked, replay(&mut program.source(), machines, options).unwrap());

    // Who pays: an instruction at a time, and the same comes out.
    let options = Options { seed, ..Options::default() };
    let (outcome, paid) = profile(&mut program.source(), machine, options).unwrap();
    prop_assert_eq!(&outcome, &whole);
    for costs in [
        paid.lines.iter().map(|line| line.cost).collect::<Vec<_>>(),
        paid.paths.iter().map(|path| path.cost).collect(),
    ] {
        let total = |of: fn(&mmulab_replay::CodeCost) -> u64| -> u64 { costs.iter().map(of).sum() };
        let cycles: u64 = outcome
            .causes
            .iter()
            .filter(|it| !matches!(it.name, "issue" | "cow-interrupt"))
            .map(|it| it.cycles)
            .sum();
        prop_assert_eq!(total(|it| it.instructions), outcome.instructions);
        let walks = ["uhandler", "overlapped-walk"].map(|name| outcome.cause(name).count);
        prop_assert_eq!(total(|it| it.walks), walks.iter().sum::<u64>());
        prop_assert_eq!(
            total(|it| it.translation_cycles + it.page_fault_cycles + it.cache_cycles),
            cycles
        );
    }
    Ok(())
}

macro_rules! tests {
    ($($test:ident: $name:literal,)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(
                    machine in small($name),
                    program in program(),
                    places in prop::collection::btree_set(1usize..300, 1..40),
                    seed in 0u64..1000,
                ) {
                    compare(&machine, program, places, seed)?;
                }
            )*
        }
    };
}

for_each_organisation!(tests);

/// A promotion behind the last block belongs to what executed that.
#[test]
fn a_promotion_at_the_end_has_its_owner() {
    let access = Access { instruction: 0, size_bytes: 8, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![access] };
    let heap = |address, length_bytes| Event::Map {
        address,
        length_bytes,
        executable: false,
        name: "[heap]".to_owned(),
    };
    let begins = [(0, heap(0x80_0000, 0x1000))];
    let mut source = VecSource::new(&[block], &[(0, vec![0x80_0000])], &begins, BATCH_BLOCKS)
        .and_then(heap(0x80_1000, 0x1f_f000));
    let changes = [("organisation.pages", "mixed"), ("interrupts.promotion_cycles", "1000")]
        .map(|(path, value)| (path.to_owned(), value.to_owned()));
    let machine = common::machine("x86-64", &changes);
    let (outcome, paid) = profile(&mut source, &machine, Options::default()).unwrap();
    assert_eq!(outcome.cause("promotion").count, 1);
    assert_eq!(paid.lines.iter().map(|line| line.cost.page_fault_cycles).sum::<u64>(), 1000);
    assert_eq!(paid.paths.iter().map(|path| path.cost.page_fault_cycles).sum::<u64>(), 1000);
}

#[test]
fn a_region_that_never_comes_is_an_error() {
    let block = Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![] };
    let mut source = VecSource::new(&[block], &[(0, vec![])], &[], BATCH_BLOCKS);
    let machine = common::machine("x86-64", &[]);
    let options = Options { region: Some("solve"), ..Options::default() };
    let error = replay(&mut source, &[machine], options).unwrap_err();
    assert!(matches!(&error, ReplayError::NoSuchRegion { name } if name == "solve"), "{error}");
}

/// Called as `extern "C"` so that its symbol has its name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mmulab_test_of_regions(value: u64) -> u64 {
    std::hint::black_box(value) + 1
}

/// A mapping of this test's own program, in which the function above is known.
fn own_program() -> (Event, u64) {
    let address = mmulab_test_of_regions as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        let name = rest.split_whitespace().nth(4)?.to_owned();
        (start..end).contains(&address).then_some(Event::Map {
            address: start,
            length_bytes: end - start,
            executable: true,
            name,
        })
    };
    (maps.lines().find_map(parse).unwrap(), address)
}

/// A caller, the function with a callee, and again; the function's instructions and its callee's
/// count.
#[test]
fn a_function_counts_from_its_entry_to_its_return() {
    let (map, function) = own_program();
    assert_eq!(mmulab_test_of_regions(1), 2);
    let word = |instruction, kind| Access { instruction, size_bytes: 8, kind };
    let block = |address, instructions: usize, accesses| Block {
        address,
        instruction_sizes_bytes: vec![4; instructions],
        accesses,
    };
    let caller = 0x40_0000;
    let callee = 0x41_0000;
    let blocks = [
        // Two instructions and a call.
        block(caller, 3, vec![word(2, AccessKind::Store)]),
        // The function: an instruction and a call.
        block(function, 2, vec![word(1, AccessKind::Store)]),
        // What it calls: five instructions, the last returns.
        block(callee, 5, vec![word(4, AccessKind::Load)]),
        // The rest of the function, and its return.
        block(function + 8, 7, vec![word(6, AccessKind::Load)]),
        // The caller goes on, and jumps back.
        block(caller + 12, 11, vec![]),
    ];
    let once =
        [(0, vec![0x7000]), (1, vec![0x6000]), (2, vec![0x6000]), (3, vec![0x7000]), (4, vec![])];
    let executed: Vec<_> = (0..10).flat_map(|_| once.clone()).collect();
    let mut source = VecSource::new(&blocks, &executed, &[(0, map)], 7);
    let machine = common::machine("x86-64", &[]);
    let options = Options { region: Some("mmulab_test_of_regions"), ..Options::default() };
    let outcome = replay(&mut source, &[machine], options).unwrap().remove(0);
    assert_eq!(outcome.instructions, 10 * (2 + 5 + 7));
}

/// What `longjmp` left is noticed at the next call, which is as deep as the function was: its
/// callee does not count.
#[test]
fn a_function_that_longjmp_left_ends_at_the_next_call() {
    let (map, function) = own_program();
    let word = |instruction, kind| Access { instruction, size_bytes: 8, kind };
    let block = |address, instructions: usize, accesses| Block {
        address,
        instruction_sizes_bytes: vec![4; instructions],
        accesses,
    };
    let (caller, callee) = (0x40_0000, 0x41_0000);
    let blocks = [
        block(caller, 3, vec![word(2, AccessKind::Store)]),
        // The function, which jumps into its caller.
        block(function, 2, vec![]),
        block(caller + 12, 7, vec![word(6, AccessKind::Store)]),
        block(callee, 1000, vec![word(999, AccessKind::Load)]),
        block(caller + 40, 11, vec![]),
    ];
    let executed =
        [(0, vec![0x7000]), (1, vec![]), (2, vec![0x7000]), (3, vec![0x7000]), (4, vec![])];
    let mut source = VecSource::new(&blocks, &executed, &[(0, map)], 7);
    let machine = common::machine("x86-64", &[]);
    let options = Options { region: Some("mmulab_test_of_regions"), ..Options::default() };
    let outcome = replay(&mut source, &[machine], options).unwrap().remove(0);
    assert_eq!(outcome.instructions, 2 + 7);
}

/// `exec` takes all away: a mark that was open when it was called is not the next program's.
#[test]
fn a_mark_ends_where_another_program_begins() {
    let block = Block { address: 0x40_0000, instruction_sizes_bytes: vec![4; 3], accesses: vec![] };
    let exec = Event::Unmap { address: 0, length_bytes: u64::MAX };
    let executed = vec![(0, vec![]); 5];
    let events = [(1, mark("solve", true)), (1, mark("solve", true)), (3, exec)];
    let machine = common::machine("x86-64", &[]);
    for skip in [0, 4, 10] {
        let source = VecSource::new(std::slice::from_ref(&block), &executed, &events, 7);
        let mut slice = Slice::new(Box::new(source), skip, None);
        let options = Options { region: Some("solve"), ..Options::default() };
        let found = replay(&mut slice, std::slice::from_ref(&machine), options);
        match skip {
            0 => assert_eq!(found.unwrap()[0].instructions, 6),
            4 => assert_eq!(found.unwrap()[0].instructions, 5),
            _ => assert!(matches!(found, Err(ReplayError::NoSuchRegion { .. }))),
        }
    }
}
