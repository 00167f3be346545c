//! Every organisation against its slow model, counter by counter, on random programs.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../hardware/tests/slow/mod.rs"]
mod slow;
mod slow_replay;

use std::collections::BTreeMap;

use common::{VecSource, machine};
use mmulab_machine::{Organisation, ReplayMachine};
use mmulab_replay::{Options, Outcome, replay, replay_with_alternatives};
use mmulab_trace::{Access, AccessKind, Block, Event};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use slow_replay::{Counts, Slow};

/// A random program: blocks, the order in which they run, and where their accesses go.
#[derive(Clone, Debug)]
struct Random {
    blocks: Vec<Block>,
    executed: Vec<(usize, Vec<u64>)>,
    /// With the index in `executed` before which each happens, ascending.
    events: Vec<(usize, Event)>,
}

/// Blocks in a batch of the programs here.
const BATCH_BLOCKS: usize = 50;

fn block() -> impl Strategy<Value = Block> {
    let address = prop_oneof![
        // A few pages, so that lines and pages conflict and repeat; one block in four crosses into
        // the next page.
        3 => (0u64..40, 0u64..4096).prop_map(|(page, offset)| 0x40_0000 + page * 4096 + offset),
        1 => (0u64..40, 4070u64..4096).prop_map(|(page, offset)| 0x40_0000 + page * 4096 + offset),
    ];
    let access = (0u16..8, prop_oneof![9 => 1u16..9, 1 => 16u16..65], 0u8..3);
    (address, prop::collection::vec(1u8..16, 1..9), prop::collection::vec(access, 0..5)).prop_map(
        |(address, instruction_sizes_bytes, accesses)| {
            let instructions = instruction_sizes_bytes.len() as u16;
            let mut accesses: Vec<Access> = accesses
                .into_iter()
                .map(|(instruction, size_bytes, kind)| Access {
                    instruction: instruction % instructions,
                    size_bytes,
                    kind: [AccessKind::Load, AccessKind::Store, AccessKind::Modify][kind as usize],
                })
                .collect();
            accesses.sort_by_key(|access| access.instruction);
            Block { address, instruction_sizes_bytes, accesses }
        },
    )
}

/// Data addresses near the code, in a heap that is mapped in whole, and far up.
fn data() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..60, 0u64..4096).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..6, 0u64..256).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..1300, 0u64..4096).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..30, 0u64..4096).prop_map(|(page, offset)| 0x7ffd_1230_0000 + page * 8192 + offset),
        1 => (0u64..600).prop_map(|page| 0x5555_0000_0000 + page * 0x40_1040),
    ]
}

fn program() -> impl Strategy<Value = Random> {
    let blocks = prop::collection::vec(block(), 1..30);
    (blocks, prop::collection::vec(data(), 20), prop::collection::vec(heap_event(), 0..12))
        .prop_flat_map(|(blocks, pool, events)| {
            let count = blocks.len();
            let address = prop_oneof![2 => prop::sample::select(pool), 1 => data()];
            let step = (0..count, prop::collection::vec(address, 5));
            (Just(blocks), prop::collection::vec(step, 1..400), Just(events))
        })
        .prop_map(|(blocks, steps, later)| {
            let executed = steps
                .into_iter()
                .map(|(block, mut addresses)| {
                    addresses.truncate(blocks[block].accesses.len());
                    (block, addresses)
                })
                .collect();
            let mut events = vec![
                (0, map(0x40_0000, 41 * 4096, "/bin/program")),
                (0, map(0x1000_0000, 3 << 20, "[heap]")),
                (0, map(0x7ffd_1230_0000, 60 * 4096, "[stack]")),
            ];
            events.extend(later);
            events.sort_by_key(|(place, _)| *place);
            Random { blocks, executed, events }
        })
}

fn map(address: u64, length_bytes: u64, name: &str) -> Event {
    Event::Map { address, length_bytes, executable: false, name: name.to_owned() }
}

/// The heap grows, shrinks, and a file or other memory takes a part of it.
fn heap_event() -> impl Strategy<Value = (usize, Event)> {
    let names = prop::sample::select(vec!["[heap]", "[heap]", "[heap]", "", "/lib/c", "unmap"]);
    (0usize..400, 0u64..10, 1u64..8, names).prop_map(|(place, start, length, name)| {
        let (address, length_bytes) = (0x1000_0000 + (start << 19), length << 19);
        let event = match name {
            "unmap" => Event::Unmap { address, length_bytes },
            name => map(address, length_bytes, name),
        };
        (place, event)
    })
}

/// Machines made small, so that everything happens often.
fn small(name: &'static str) -> impl Strategy<Value = ReplayMachine> {
    let is_radix = matches!(name, "x86-64" | "cortex-a55");
    let has_tlb = !matches!(name, "notlb" | "base");
    let replacement = || prop::sample::select(vec!["random", "round-robin", "lru", "plru"]);
    let write = || prop::sample::select(vec!["write-through", "write-back"]);
    // Half of the machines have the study's shape, which has a fast path of its own.
    let shape = any::<bool>();
    // Half of the others have a number of sets that is no power of two.
    let l1 = (9u32..13, prop::sample::select(vec![16u32, 32, 64]), replacement(), write());
    let l2 = (12u32..16, prop::sample::select(vec![32u32, 64, 128]), replacement(), write());
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), 0u32..3, any::<bool>());
    let tlb = (prop::sample::select(vec![8u32, 16, 24, 32, 128]), replacement(), any::<bool>());
    let pages = prop::sample::select(vec!["4K", "2M", "mixed", "on-fault", "1G"]);
    (shape, l1, l2, switches, tlb, pages, 0u32..3).prop_map(
        move |(is_study, l1, l2, switches, tlb, pages, ways)| {
            let (unified_l2, allocate, unified_l1, physical, random_frames) = switches;
            let mut set: Vec<(String, String)> = Vec::new();
            let mut put = |path: &str, value: &dyn ToString| {
                set.push((path.to_owned(), value.to_string()));
            };
            let is_study = is_study && !is_radix;
            let factor = if tlb.2 && !is_study { 3 } else { 1 };
            for side in ["l1i", "l1d"] {
                put(&format!("{side}.size_bytes"), &(factor << l1.0));
                put(&format!("{side}.line_bytes"), &l1.1);
                put(&format!("{side}.ways"), &if is_study { 1 } else { 1 << ways });
                if !is_study {
                    put(&format!("{side}.replacement"), &l1.2);
                    put(&format!("{side}.write_policy"), &l1.3);
                    put(&format!("{side}.write_allocate"), &allocate);
                    let addressing = if physical == 2 { "physical" } else { "virtual" };
                    put(&format!("{side}.addressing"), &addressing);
                }
            }
            put("l2.size_bytes", &(factor << l2.0));
            put("l2.line_bytes", &l2.1);
            put("l2.ways", &if is_study { 1 } else { 2 << ways });
            if !is_study {
                put("l2.split", &!unified_l2);
                put("l2.replacement", &l2.2);
                put("l2.write_policy", &l2.3);
                put("l2.write_allocate", &(allocate ^ unified_l1));
                put("l2.addressing", &if physical > 0 { "physical" } else { "virtual" });
            }
            put("memory.placement", &if random_frames { "random" } else { "first-touch" });
            if is_radix {
                put("l3.size_bytes", &65536);
                put("organisation.pages", &pages);
                if unified_l2 {
                    put("memory.fragmentation_percent", &40);
                    put("interrupts.small_page_fault_cycles", &1000);
                    put("interrupts.large_page_fault_cycles", &70_000);
                    put("interrupts.file_page_fault_cycles", &500);
                    put("interrupts.promotion_cycles", &90_000);
                }
                put("dtlb.entries", &tlb.0);
                // 24 entries, fully associative, are no binary tree.
                let is_tree = tlb.0 != 24 || name == "x86-64";
                put("dtlb.replacement", &if is_tree { tlb.1 } else { "lru" });
                put("stlb.entries", &if name == "x86-64" { 48 } else { 32 });
                put("itlb.entries", &8);
            } else if has_tlb {
                let protected = if matches!(name, "ultrix" | "mach") { 4 } else { 0 };
                for side in ["itlb", "dtlb"] {
                    put(&format!("{side}.entries"), &tlb.0);
                    put(&format!("{side}.protected_entries"), &protected);
                    put(&format!("{side}.replacement"), &tlb.1);
                    if tlb.0 == 24 {
                        // Six sets of four ways.
                        let ways = if protected > 0 { "\"full\"" } else { "4" };
                        put(&format!("{side}.ways"), &ways);
                    }
                    if tlb.0 == 24 && protected > 0 {
                        put(&format!("{side}.replacement"), &"lru");
                    }
                }
            }
            if matches!(name, "pa-risc" | "inverted-hw") {
                put("organisation.hash_table.entries", &16);
            }
            put("interrupts.copy_on_write_interval_instructions", &100);
            let mut machine = machine(name, &set);
            if unified_l1 && !is_study && unified_l2 {
                machine.l1i = None;
                machine.l1 = machine.l1d.take();
            }
            machine
        },
    )
}

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
        now.for_each(|(_, event)| slow.note(event));
        let (number, addresses) = &program.executed[place];
        slow.execute_block(&program.blocks[*number], addresses);
    }
    if warm == end {
        slow.end_warm_up();
    }
    slow.finish();
    slow.counts
}

fn counts_of(outcome: &Outcome) -> Counts {
    let nonzero = |pairs: Vec<(String, u64)>| -> BTreeMap<String, u64> {
        pairs.into_iter().filter(|&(_, count)| count > 0).collect()
    };
    let caches = &outcome.caches;
    let tlbs = &outcome.tlbs;
    Counts {
        causes: outcome
            .causes
            .iter()
            .filter(|cause| (cause.count, cause.cycles) != (0, 0))
            .map(|cause| (cause.name, (cause.count, cause.cycles)))
            .collect(),
        cache_misses: nonzero(caches.iter().map(|c| (c.name.clone(), c.misses)).collect()),
        write_backs: nonzero(caches.iter().map(|c| (c.name.clone(), c.write_backs)).collect()),
        tlb_misses: nonzero(tlbs.iter().map(|t| (t.name.clone(), t.misses)).collect()),
        nested_misses: tlbs.iter().map(|tlb| tlb.nested_misses).sum(),
        pages: outcome
            .pages
            .iter()
            .map(|page| {
                let walks = page.fetch_walks + page.data_walks;
                ((page.address, page.size_bytes), (walks, page.cycles))
            })
            .collect(),
    }
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

macro_rules! organisations {
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

organisations! {
    ultrix: "ultrix",
    mach: "mach",
    intel: "intel",
    pa_risc: "pa-risc",
    inverted_hw: "inverted-hw",
    notlb: "notlb",
    base: "base",
    x86_64: "x86-64",
    cortex_a55: "cortex-a55",
}

#[test]
fn results_depend_on_the_seed_and_not_on_the_threads() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let program = program().new_tree(&mut runner).unwrap().current();
    let names = ["ultrix", "mach", "intel", "pa-risc", "notlb", "base", "x86-64", "cortex-a55"];
    let machines: Vec<ReplayMachine> = names
        .iter()
        .map(|name| {
            let tlb = [("itlb.entries".to_owned(), "24".to_owned())];
            machine(name, if matches!(*name, "ultrix" | "mach") { &tlb } else { &[] })
        })
        .collect();
    let run = |seed, threads| {
        let mut source = VecSource::new(&program.blocks, &program.executed, &program.events, 7);
        let threads = std::num::NonZeroUsize::new(threads);
        replay(&mut source, &machines, Options { seed, threads, ..Options::default() }).unwrap()
    };
    let one = run(1, 1);
    assert_eq!(one, run(1, 3));
    assert_eq!(one.iter().map(|outcome| outcome.machine.as_str()).collect::<Vec<_>>(), names);
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
