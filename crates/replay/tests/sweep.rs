//! Units of a sweep against the plain replay of each configuration, counter by counter.

use std::path::Path;

use mmulab_machine::{Replacement, ReplayMachine, Ways, WritePolicy};
use mmulab_replay::sweep::{Sharing, units};
use mmulab_replay::{Options, Outcome, replay};
use mmulab_trace::{Access, AccessKind, Block, Source};
use proptest::prelude::*;

use crate::common::{VecSource, machine, random};

const ORGANISATIONS: [&str; 7] =
    ["ultrix", "mach", "intel", "pa-risc", "inverted-hw", "notlb", "base"];

/// What a configuration changes: sizes and lines are powers of two, as shifts.
#[derive(Clone, Debug)]
struct Changes {
    first_size: [u32; 2],
    second_size: u32,
    second_line: u32,
    latencies: [u32; 2],
}

fn changes() -> impl Strategy<Value = Changes> {
    ([7u32..14, 7u32..14], 8u32..17, 4u32..8, [0u32..40, 100u32..600]).prop_map(
        |(first_size, second_size, second_line, latencies)| Changes {
            first_size,
            second_size,
            second_line,
            latencies,
        },
    )
}

fn configuration(organisation: &str, first_line: [u32; 2], changes: &Changes) -> ReplayMachine {
    let [instruction, data] = changes.first_size.map(|shift| 1 << shift);
    let values: [(&str, u32); 8] = [
        ("l1i.size_bytes", instruction),
        ("l1i.line_bytes", 1 << first_line[0]),
        ("l1d.size_bytes", data),
        ("l1d.line_bytes", 1 << first_line[1]),
        ("l2.size_bytes", 1 << changes.second_size),
        ("l2.line_bytes", 1 << changes.second_line),
        ("l2.latency_cycles", changes.latencies[0]),
        ("memory.latency_cycles", changes.latencies[1]),
    ];
    let mut values: Vec<(String, String)> =
        values.iter().map(|(path, value)| ((*path).to_owned(), value.to_string())).collect();
    if !matches!(organisation, "notlb" | "base") {
        // Few entries, so that random programs walk often and nest.
        for tlb in ["itlb", "dtlb"] {
            let protected = if matches!(organisation, "ultrix" | "mach") { 2 } else { 0 };
            values.push((format!("{tlb}.entries"), "8".to_owned()));
            values.push((format!("{tlb}.protected_entries"), protected.to_string()));
        }
    }
    machine(organisation, &values)
}

/// The plain replay of one configuration, as a sweep reports it.
fn plain(source: &mut dyn Source, machine: &ReplayMachine, seed: u64) -> Outcome {
    let options = Options { seed, ..Options::default() };
    let mut outcome = replay(source, std::slice::from_ref(machine), options).unwrap().remove(0);
    outcome.regions.clear();
    outcome.pages.clear();
    outcome
}

/// Runs all configurations in units and each by itself, and compares.
fn assert_same(machines: &[ReplayMachine], seed: u64, open: impl Fn() -> Box<dyn Source>) {
    let mut places = Vec::new();
    for unit in units(machines) {
        let outcomes = unit.run(&mut *open(), seed, &|_| true).unwrap();
        assert_eq!(outcomes.len(), unit.places.len());
        for (place, outcome) in unit.places.iter().zip(outcomes) {
            assert_eq!(outcome, plain(&mut *open(), &machines[*place], seed), "{:?}", unit.sharing);
            places.push(*place);
        }
    }
    places.sort_unstable();
    assert_eq!(places, (0..machines.len()).collect::<Vec<_>>());
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..40, 0u64..4096).prop_map(|(page, offset)| 0x40_0000 + page * 4096 + offset),
        2 => (0u64..4, 0u64..256).prop_map(|(page, offset)| 0x40_0000 + page * 4096 + offset),
        1 => (0u64..40, 4080u64..4096).prop_map(|(page, offset)| 0x80_0000 + page * 4096 + offset),
        1 => (0u64..300).prop_map(|page| 0x5555_0000_0000 + page * 0x40_1040),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    let instruction = (1u8..16, prop::collection::vec(1u16..65, 0..3));
    (address(), prop::collection::vec(instruction, 1..9)).prop_map(|(address, instructions)| {
        Block {
            address,
            instruction_sizes_bytes: instructions.iter().map(|(size, _)| *size).collect(),
            accesses: (0u16..)
                .zip(&instructions)
                .flat_map(|(instruction, (_, sizes))| {
                    sizes.iter().map(move |&size_bytes| Access {
                        instruction,
                        size_bytes,
                        kind: if size_bytes % 3 == 0 {
                            AccessKind::Store
                        } else {
                            AccessKind::Load
                        },
                    })
                })
                .collect(),
        }
    })
}

type Program = (Vec<Block>, Vec<(usize, Vec<u64>)>);

fn program() -> impl Strategy<Value = Program> {
    let blocks = prop::collection::vec(block(), 1..25);
    let pool = prop::collection::vec(address(), 16);
    (blocks, pool).prop_flat_map(|(blocks, pool)| {
        let count = blocks.len();
        let data = prop_oneof![2 => prop::sample::select(pool), 1 => address()];
        let step = (0..count, prop::collection::vec(data, 16));
        prop::collection::vec(step, 1..300).prop_map(move |mut steps| {
            for (block, addresses) in &mut steps {
                addresses.truncate(blocks[*block].accesses.len());
            }
            (blocks.clone(), steps)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn units_equal_the_plain_replay(
        (blocks, executed) in program(),
        lines in prop::collection::vec([4u32..8, 4u32..8], 1..3),
        changes in prop::collection::vec(changes(), 1..7),
        organisation in prop::sample::select(&ORGANISATIONS[..]),
        seed in 0u64..4,
    ) {
        let machines: Vec<_> = lines
            .iter()
            .flat_map(|&line| changes.iter().map(move |changes| (line, changes)))
            .map(|(line, changes)| configuration(organisation, line, changes))
            .collect();
        assert_same(&machines, seed, || Box::new(VecSource::new(&blocks, &executed, &[], 50)));
    }
}

/// The caches below the first level of a random machine.
#[derive(Clone, Debug)]
struct LowerCaches {
    size: [u32; 2],
    line: [u32; 2],
    ways: [u32; 2],
    replacement: [Replacement; 2],
    write_policy: WritePolicy,
    write_allocate: bool,
    is_second_split: bool,
    has_third: bool,
    latency_cycles: u32,
}

fn lower_caches() -> impl Strategy<Value = LowerCaches> {
    let replacement = || {
        prop::sample::select(vec![
            Replacement::Random,
            Replacement::RoundRobin,
            Replacement::Lru,
            Replacement::Plru,
        ])
    };
    // Few values of the second level, so that third levels differ below equal ones.
    let shape = ([11u32..13, 12u32..16], [5u32..7, 5u32..8], [0u32..2, 0u32..4]);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (shape, [replacement(), replacement()], switches, 0u32..3).prop_map(
        |((size, line, ways), replacement, (back, write_allocate, split, has_third), cycles)| {
            LowerCaches {
                size,
                line,
                ways,
                replacement,
                write_policy: if back { WritePolicy::WriteBack } else { WritePolicy::WriteThrough },
                write_allocate,
                is_second_split: split,
                has_third,
                latency_cycles: 10 + cycles,
            }
        },
    )
}

impl LowerCaches {
    fn put_into(&self, machine: &ReplayMachine) -> ReplayMachine {
        let mut machine = machine.clone();
        for (place, cache) in [&mut machine.l2, &mut machine.l3].into_iter().flatten().enumerate() {
            cache.size_bytes = 1 << self.size[place];
            cache.line_bytes = 1 << self.line[place];
            cache.ways = Ways::Count(1 << self.ways[place]);
            cache.replacement = self.replacement[place];
            cache.write_policy = self.write_policy;
            cache.write_allocate = self.write_allocate;
            cache.split = Some(self.is_second_split && place == 0);
            cache.latency_cycles = self.latency_cycles;
        }
        machine.l3 = machine.l3.filter(|_| self.has_third);
        machine.memory.latency_cycles += self.latency_cycles;
        machine
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Machines of which one drives the lower caches of the others, beside some that do not fit.
    #[test]
    fn lower_caches_that_follow_equal_the_plain_replay(
        program in random::program(),
        first in random::small("x86-64"),
        second in random::small("cortex-a55"),
        lower in prop::collection::vec(lower_caches(), 1..9),
        seed in 0u64..4,
    ) {
        let mut machines = vec![first.clone(), second.clone()];
        for caches in &lower {
            machines.extend([caches.put_into(&first), caches.put_into(&second)]);
        }
        assert_same(&machines, seed, || Box::new(program.source()));
    }
}

/// What shares the first level is in one unit, wherever it stands in the list; what does not is cut
/// as ever.
#[test]
fn lower_caches_come_to_the_unit_of_their_first_level() {
    let with = |set: &[(&str, u64)]| {
        let set: Vec<_> = set.iter().map(|(p, v)| ((*p).to_owned(), v.to_string())).collect();
        machine("x86-64", &set)
    };
    let mut machines = Vec::new();
    for size in [256, 512] {
        machines.extend(
            (0..9).map(|n| with(&[("dtlb.entries", 4 << n), ("l2.size_bytes", size << 10)])),
        );
    }
    machines.push(with(&[
        ("dtlb.entries", 4),
        ("l3.size_bytes", 4 << 20),
        ("memory.latency_cycles", 9),
    ]));
    let places: Vec<_> = units(&machines).into_iter().map(|unit| unit.places).collect();
    let first: Vec<usize> = (0..8).chain(9..17).chain([18]).collect();
    assert_eq!(places, [first, vec![8, 17]]);
}

fn small_trace() -> Box<dyn Source> {
    mmulab_trace::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.mmt"))
        .unwrap()
}

/// Corners of the study's table 1 on a recorded program.
#[test]
fn units_equal_the_plain_replay_of_a_recorded_program() {
    let mut machines = Vec::new();
    for organisation in ORGANISATIONS {
        for first_size in [10, 16] {
            for second_size in [19, 21] {
                for (first_line, second_line) in [(7, 4), (6, 7)] {
                    let changes = [
                        ("l1i.size_bytes", 1_u32 << first_size),
                        ("l1d.size_bytes", 1 << first_size),
                        ("l1i.line_bytes", 1 << first_line),
                        ("l1d.line_bytes", 1 << first_line),
                        ("l2.size_bytes", 1 << second_size),
                        ("l2.line_bytes", 1 << second_line),
                    ];
                    let changes = changes.map(|(path, value)| (path.to_owned(), value.to_string()));
                    machines.push(machine(organisation, &changes));
                }
            }
        }
    }
    assert_same(&machines, 1, small_trace);
}

#[test]
fn what_shares_nothing_else_shares_the_decoding() {
    let two_ways = machine("intel", &[("l1d.ways".to_owned(), "2".to_owned())]);
    let machines = [
        two_ways,
        machine("x86-64", &[]),
        machine("cortex-a55", &[]),
        machine("intel", &[]),
        machine("notlb", &[]),
    ];
    let sharing: Vec<_> = units(&machines).iter().map(|unit| unit.sharing).collect();
    assert_eq!(sharing, [Sharing::Decoding, Sharing::SinglePass, Sharing::Interleaved]);
    assert_same(&machines, 1, small_trace);
}

/// Of two machines that differ in nothing one is run. What it did beside the program costs the
/// other nothing either.
#[test]
fn equal_machines_with_overlapping_walks_have_equal_outcomes() {
    let two_walkers = [
        ("organisation.walkers".to_owned(), "2".to_owned()),
        ("organisation.walk_window_instructions".to_owned(), "224".to_owned()),
        ("stlb.entries".to_owned(), "12".to_owned()),
    ];
    let overlapping = machine("x86-64", &two_walkers);
    let outcome = plain(&mut *small_trace(), &overlapping, 1);
    let overlapped = outcome.causes.iter().find(|account| account.name == "overlapped-walk");
    assert!(overlapped.is_some_and(|account| account.count > 0), "{overlapped:?}");
    assert_same(&[overlapping.clone(), overlapping], 1, small_trace);
}

/// Nine sizes of the first level do not fit in one unit, nor two machines that differ elsewhere.
#[test]
fn units_are_cut_where_sharing_ends() {
    let sized = |shift: u32| {
        machine("base", &[("l1d.size_bytes".to_owned(), (1_u64 << shift).to_string())])
    };
    let mut machines: Vec<_> = (10..19).map(sized).collect();
    machines.push(machine("base", &[("l1d.line_bytes".to_owned(), "32".to_owned())]));
    let lengths: Vec<_> = units(&machines).iter().map(|unit| unit.machines.len()).collect();
    assert_eq!(lengths, [8, 1, 1]);
    assert_same(&machines, 1, small_trace);
}
