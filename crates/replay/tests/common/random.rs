//! Random programs, and machines that are small enough for them.

use mmulab_machine::ReplayMachine;
use mmulab_trace::{Access, AccessKind, Block, Event};
use proptest::prelude::*;

use super::{VecSource, machine};

/// A random program: blocks, the order in which they run, and where their accesses go.
#[derive(Clone, Debug)]
pub struct Random {
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Blocks by their places there, each with the addresses of its accesses.
    pub executed: Vec<(usize, Vec<u64>)>,
    /// With the index in `executed` before which each happens, ascending.
    pub events: Vec<(usize, Event)>,
}

impl Random {
    /// The program as a trace.
    pub fn source(&self) -> VecSource {
        VecSource::new(&self.blocks, &self.executed, &self.events, BATCH_BLOCKS)
    }
}

/// Blocks in a batch of the programs here.
pub const BATCH_BLOCKS: usize = 50;

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

/// Data addresses near the code, in a heap that is mapped in whole, and in a stack far up.
fn data() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..60, 0u64..4096).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..6, 0u64..256).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..1300, 0u64..4096).prop_map(|(page, offset)| 0x1000_0000 + page * 4096 + offset),
        2 => (0u64..30, 0u64..4096).prop_map(|(page, offset)| 0x7ffd_1230_0000 + page * 8192 + offset),
        1 => (0u64..12, 0u64..4096).prop_map(|(half, offset)| 0x7ffd_1200_0000 + (half << 19) + offset),
        1 => (0u64..600).prop_map(|page| 0x5555_0000_0000 + page * 0x40_1040),
    ]
}

/// Programs of up to 400 executed blocks, whose heap changes while they run.
pub fn program() -> impl Strategy<Value = Random> {
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
                (0, map(0x7ffd_1200_0000, 6 << 20, "[stack]")),
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
pub fn small(name: &'static str) -> impl Strategy<Value = ReplayMachine> {
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
    // What a hypervisor has, where there is one, and entries of its nested TLB.
    let host = (prop::sample::select(vec!["none", "none", "4K", "2M", "1G"]), 0u32..3);
    (shape, l1, l2, switches, tlb, (pages, host), 0u32..3).prop_map(
        move |(is_study, l1, l2, switches, tlb, (pages, host), ways)| {
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
                if name == "x86-64" {
                    put("organisation.host.pages", &host.0);
                    put("organisation.prefetch_next_page", &(ways == 1));
                    put("organisation.walkers", &if random_frames { 1 } else { 1 + host.1 });
                    put("organisation.walk_window_instructions", &(1 + 4 * ways));
                    put("organisation.host.nested_tlb.entries", &(4 << host.1));
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
