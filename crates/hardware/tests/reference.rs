//! The models against slow and obvious ones, on random operations.
//!
//! The slow model is in `slow/mod.rs`.

use mmulab_hardware::{
    Access, Cache, CacheGeometry, Evicted, Partition, Random, Replacement, Tlb, TlbEntry,
    TlbGeometry,
};
use proptest::prelude::*;

use crate::slow::SlowSets as Reference;

fn replacement() -> impl Strategy<Value = Replacement> {
    prop_oneof![
        Just(Replacement::Random),
        Just(Replacement::RoundRobin),
        Just(Replacement::Lru),
        Just(Replacement::TreePseudoLru),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Access(u64),
    Dirty(u64, u8),
    Invalidate(u64),
    InvalidateSlot(u32),
    InvalidateAll,
    Lock(u64),
    Aim(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (0u64..4096).prop_map(Step::Access),
        6 => (0u64..4096, 1u8..4).prop_map(|(address, parts)| Step::Dirty(address, parts)),
        4 => (0u64..4096).prop_map(Step::Invalidate),
        4 => any::<u32>().prop_map(Step::InvalidateSlot),
        1 => Just(Step::InvalidateAll),
        1 => (0u64..16).prop_map(Step::Lock),
        1 => (0u32..8).prop_map(Step::Aim),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cache_does_what_the_reference_does(
        replacement in replacement(),
        sets in 1usize..13,
        ways in prop::sample::select(vec![1usize, 2, 3, 4, 8, 12, 16, 24, 32, 256]),
        seed: u64,
        steps in prop::collection::vec(step(), 1..400),
    ) {
        prop_assume!(ways.is_power_of_two() || replacement != Replacement::TreePseudoLru);
        let line = 16u64;
        let geometry =
            CacheGeometry { size_bytes: (sets * ways) as u64 * line, line_bytes: 16, ways: ways as u32 };
        let mut cache = Cache::new(geometry, replacement, Random::new(seed)).unwrap();
        let mut reference = Reference::new(sets, ways, replacement, Random::new(seed));
        let mut dirty = std::collections::HashMap::new();
        for step in steps {
            match step {
                Step::Access(address) => {
                    let (set, tag) = ((address / line) as usize % sets, address / line);
                    let expected = match reference.find(set, tag) {
                        Some(way) => {
                            reference.touch(set, way);
                            Access::Hit((set * ways + way) as u32)
                        }
                        None => {
                            let way = reference.victim(set, Partition::Normal);
                            let old = reference.sets[set].ways[way].replace(tag);
                            reference.touch(set, way);
                            Access::Miss {
                                slot: (set * ways + way) as u32,
                                evicted: old.map(|tag| Evicted {
                                    address: tag * line,
                                    dirty: dirty.remove(&tag).unwrap_or(0),
                                }),
                            }
                        }
                    };
                    prop_assert_eq!(cache.access(address), expected);
                }
                Step::Dirty(address, parts) => {
                    if let Some(slot) = cache.find(address) {
                        cache.mark_dirty(slot, parts);
                        *dirty.entry(address / line).or_insert(0) |= parts;
                    }
                }
                Step::Invalidate(address) => {
                    let (set, tag) = ((address / line) as usize % sets, address / line);
                    let expected = reference.find(set, tag).map(|way| {
                        reference.sets[set].ways[way] = None;
                        Evicted { address: tag * line, dirty: dirty.remove(&tag).unwrap_or(0) }
                    });
                    prop_assert_eq!(cache.invalidate(address), expected);
                }
                Step::InvalidateSlot(number) => {
                    let slot = number as usize % (sets * ways);
                    let expected = reference.sets[slot / ways].ways[slot % ways].take().map(|tag| {
                        Evicted { address: tag * line, dirty: dirty.remove(&tag).unwrap_or(0) }
                    });
                    prop_assert_eq!(cache.invalidate_slot(slot as u32), expected);
                }
                Step::InvalidateAll => {
                    cache.invalidate_all();
                    dirty.clear();
                    for set in &mut reference.sets {
                        set.ways.fill(None);
                    }
                }
                Step::Lock(locked) => {
                    if cache.lock_ways(locked).is_ok() {
                        let closed = (0..ways.min(64)).filter(|way| locked >> way & 1 != 0);
                        reference.closed = closed.collect();
                        prop_assert!(reference.closed.len() < ways);
                    } else {
                        prop_assert!((0..ways).all(|way| locked >> way & 1 != 0));
                    }
                }
                Step::Aim(way) => {
                    cache.aim_next_fill(way);
                    reference.aim(way as usize);
                }
            }
            let held: Vec<_> = cache.iter().map(|(slot, line)| (slot as usize, line)).collect();
            let mut expected = Vec::new();
            for (set, state) in reference.sets.iter().enumerate() {
                for (way, tag) in state.ways.iter().enumerate() {
                    if let Some(tag) = tag {
                        let dirty = dirty.get(tag).copied().unwrap_or(0);
                        let line = Evicted { address: tag * line, dirty };
                        expected.push((set * ways + way, line));
                    }
                }
            }
            prop_assert_eq!(held, expected);
        }
    }

    #[test]
    fn a_tlb_does_what_the_reference_does(
        replacement in replacement(),
        sets in 1usize..7,
        ways_log2 in 1u32..9,
        protected in 0u32..3,
        seed: u64,
        steps in prop::collection::vec(
            (0u8..20, 0u64..1 << 24, 0u16..3, any::<bool>(), any::<bool>(), any::<bool>()),
            1..400,
        ),
    ) {
        let ways = 1usize << ways_log2;
        let protected = protected.min(ways as u32 - 1);
        let geometry = TlbGeometry {
            entries: (sets * ways) as u32,
            ways: ways as u32,
            page_shifts: vec![12, 16, 20],
            protected_ways: protected,
        };
        let mut tlb: Tlb<u32> = Tlb::new(&geometry, replacement, Random::new(seed)).unwrap();
        let mut policy = Reference::new(sets, ways, replacement, Random::new(seed));
        policy.protected = protected as usize;
        let mut entries: Vec<Option<TlbEntry<u32>>> = vec![None; sets * ways];
        for (number, (what, address, asid, global, large, wired)) in steps.into_iter().enumerate() {
            let matches = |entry: &TlbEntry<u32>| {
                entry.virtual_address >> entry.page_shift == address >> entry.page_shift
                    && (entry.global || entry.asid == asid)
            };
            // Smaller pages before larger, private before global; two of a kind are avoided below.
            let expected = entries
                .iter()
                .enumerate()
                .filter_map(|(slot, entry)| entry.filter(|e| matches(e)).map(|e| (slot, e)))
                .min_by_key(|(_, entry)| (entry.page_shift, entry.global))
                .map(|(slot, _)| slot as u32);
            match what {
                0 => {
                    tlb.invalidate_page(address, asid);
                    for (slot, entry) in entries.iter_mut().enumerate() {
                        if entry.is_some_and(|entry| matches(&entry)) {
                            *entry = None;
                            policy.sets[slot / ways].ways[slot % ways] = None;
                        }
                    }
                }
                1 => {
                    tlb.invalidate_where(|_, entry| entry.asid == asid && !entry.global);
                    for (slot, entry) in entries.iter_mut().enumerate() {
                        if entry.is_some_and(|entry| entry.asid == asid && !entry.global) {
                            *entry = None;
                            policy.sets[slot / ways].ways[slot % ways] = None;
                        }
                    }
                }
                _ => {
                    let found = tlb.lookup(address, asid);
                    prop_assert_eq!(found, expected);
                    if let Some(slot) = found {
                        policy.touch(slot as usize / ways, slot as usize % ways);
                        prop_assert_eq!(tlb.entry(slot), entries[slot as usize].as_ref());
                        continue;
                    }
                    let page_shift = if large { 16 + 4 * u32::from(global) } else { 12 };
                    let entry = TlbEntry {
                        virtual_address: address >> page_shift << page_shift,
                        page_shift,
                        asid,
                        global,
                        payload: number as u32,
                    };
                    let partition = if wired && protected > 0 {
                        Partition::Protected
                    } else {
                        Partition::Normal
                    };
                    let set = (address >> page_shift) as usize % sets;
                    let way = policy.victim(set, partition);
                    policy.sets[set].ways[way] = Some(number as u64);
                    policy.touch(set, way);
                    let slot = set * ways + way;
                    let old = entries[slot].replace(entry);
                    prop_assert_eq!(tlb.insert(entry, partition), (slot as u32, old));
                }
            }
            let held: Vec<_> = tlb.iter().map(|(slot, entry)| (slot as usize, *entry)).collect();
            let expected: Vec<_> = entries
                .iter()
                .enumerate()
                .filter_map(|(slot, entry)| entry.map(|entry| (slot, entry)))
                .collect();
            prop_assert_eq!(held, expected);
        }
    }
}

#[test]
fn random_replacement_depends_on_the_seed_alone() {
    let geometry = CacheGeometry { size_bytes: 2048, line_bytes: 32, ways: 64 };
    let run = |seed| {
        let mut cache = Cache::new(geometry, Replacement::Random, Random::new(seed)).unwrap();
        (0..1000u64).map(|n| cache.access(n * n % 7919 * 32)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn impossible_shapes_are_refused_with_the_reason() {
    let shape = |size_bytes, line_bytes, ways, replacement| {
        let geometry = CacheGeometry { size_bytes, line_bytes, ways };
        Cache::new(geometry, replacement, Random::new(0)).err().map(|error| error.to_string())
    };
    assert_eq!(shape(1024, 32, 1, Replacement::Lru), None);
    assert_eq!(shape(3072, 32, 1, Replacement::Lru), None);
    for (size, line, ways, replacement, reason) in [
        (1024, 24, 1, Replacement::Lru, "line size 24 bytes: must be a power of two"),
        (1024, 0, 1, Replacement::Lru, "line size 0 bytes"),
        (1024, 32, 0, Replacement::Lru, "number of sets must be whole"),
        (1000, 32, 1, Replacement::Lru, "number of sets must be whole"),
        (16, 32, 1, Replacement::Lru, "number of sets must be whole"),
        (1536, 32, 3, Replacement::TreePseudoLru, "3 ways: tree pseudo-LRU needs a power of two"),
        (u64::MAX, 1, 1, Replacement::Lru, "sets are too many"),
    ] {
        let error = shape(size, line, ways, replacement).expect("refused");
        assert!(error.contains(reason), "{error}");
    }
}
