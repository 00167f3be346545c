//! Programs of four instructions, with every event worked out by hand.
//!
//! The caches are those of the shipped study machines: 64 KB L1 of 64-byte lines, 1 MB L2 of
//! 128-byte lines, split, direct-mapped; L1 has 1024 sets, L2 has 8192. A miss in L1 costs 20, one
//! in L2 500 on top; an interrupt costs 10.
//!
//! The program is one block, executed twice:
//!
//! ```text
//! 0x0040_0000  a nop of 4 bytes
//! 0x0040_0004  a load of 4 bytes from 0x1000_0008 (for the inverted tables: 0x0140_1008)
//! ```
//!
//! The user handler is at 0x8000_0000. Its first line and the program's only line fall into set 0
//! of L1 and of L2 alike, so that handler and program evict each other, which each account shows:
//! the second execution finds its line gone wherever a handler ran for the load of the first.

use mmulab_replay::{Options, Outcome, replay};
use mmulab_trace::{Access, AccessKind, Block};

use crate::common::{VecSource, machine};

const LOAD: u64 = 0x1000_0008;

fn run(name: &str, changes: &[(&str, &str)], load: u64) -> Outcome {
    let changes: Vec<_> =
        changes.iter().map(|(path, value)| (path.to_string(), value.to_string())).collect();
    let machine = machine(name, &changes);
    let access = Access { instruction: 1, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4, 4], accesses: vec![access] };
    let executed = [(0, vec![load]), (0, vec![load])];
    let mut source = VecSource::new(&[block], &executed, &[], 100);
    replay(&mut source, &[machine], Options::default()).unwrap().remove(0)
}

fn assert_causes(outcome: &Outcome, expected: &[(&str, u64, u64)]) {
    let happened = outcome.causes.iter().filter(|cause| cause.count > 0);
    let causes: Vec<_> = happened.map(|cause| (cause.name, cause.count, cause.cycles)).collect();
    assert_eq!(causes, expected);
    assert_eq!(outcome.cycles, expected.iter().map(|(_, _, cycles)| cycles).sum::<u64>());
    assert_eq!(outcome.instructions, 4);
}

const ULTRIX: [(&str, &str); 4] = [
    ("organisation.user_handler.base_address", "0x8000_0000"),
    ("organisation.root_handler.base_address", "0x8000_1000"),
    ("organisation.user_table.base_address", "0xc000_0000"),
    ("organisation.root_table.base_address", "0x8001_0000"),
];

/// First execution, nop: the I-TLB misses page 0x400. The user handler (one line) comes from
/// memory. Its load of the user entry at 0xc000_0000 + 0x400 x 4 = 0xc000_1000 misses the D-TLB, so
/// the root handler runs: 80 bytes are two L1 lines of one L2 line, so two misses in L1 and one in
/// L2. The root entry, 0x8001_0000 + 1 x 4, and then the user entry come from memory, then the
/// program's line, which evicts the user handler.
///
/// Load: the D-TLB misses page 0x10000. The user handler comes from memory again and evicts the
/// program's line. The user entry at 0xc004_0000 is on another page of the table, so the root
/// handler runs, now from L1; root entry 0x8001_0100 and user entry are new lines. Then the datum.
///
/// Second execution: both pages are mapped. The program's line is fetched from memory; the datum is
/// in L1.
#[test]
fn ultrix() {
    let outcome = run("ultrix", &ULTRIX, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 2, 40),
            ("L2i-miss", 2, 1000),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 2, 20),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
            ("rhandler", 2, 40),
            ("rpte-L2", 2, 40),
            ("rpte-MEM", 2, 1000),
            ("handler-L2", 1 + 2 + 1, 80),
            ("handler-MEM", 1 + 1 + 1, 1500),
            ("interrupt", 4, 40),
        ],
    );
    assert_eq!(outcome.mcpi, (40 + 1000 + 20 + 500) as f64 / 4.0);
    assert_eq!(outcome.vmcpi, 3720.0 / 4.0);
    assert_eq!(outcome.interrupts.cycles_at_cost, [(10, 40), (50, 200), (200, 800)]);
    assert_eq!(outcome.translation_share, (3720 + 40) as f64 / outcome.cycles as f64);
    assert_eq!(outcome.mean_free_path, Some(2.0));
    let misses = |tlb: usize| {
        let tlb = &outcome.tlbs[tlb];
        (tlb.name.as_str(), tlb.hits, tlb.misses, tlb.nested_hits, tlb.nested_misses)
    };
    assert_eq!(misses(0), ("itlb", 3, 1, 0, 0));
    assert_eq!(misses(1), ("dtlb", 1, 1, 0, 2));
    // Fetch: two interrupts, handlers 30, entries 1040, handler code 3 x 20 + 2 x 500. Load: two
    // interrupts, handlers 30, entries 1040, handler code 20 + 500.
    let pages: Vec<_> = outcome.pages.iter().map(|page| (page.address, page.cycles)).collect();
    assert_eq!(pages, [(0x40_0000, 20 + 30 + 1040 + 1060), (0x1000_0000, 20 + 30 + 1040 + 520)]);
}

/// As ULTRIX, with three tiers. Fetch: user entry 0xc020_1000 misses the D-TLB, kernel handler (two
/// L1 lines, one L2 line); kernel entry 0xffc0_0000 + 0xc0201 x 4 = 0xfff0_0804 misses it too, root
/// handler: 2000 bytes are 32 L1 lines of 16 L2 lines; ten administrative loads and the root entry
/// come from memory, then the kernel entry and the user entry.
///
/// Load: the user handler again from memory; user entry 0xc024_0000 misses the D-TLB, the kernel
/// handler hits L1; kernel entry 0xfff0_0900 is on a page that is mapped by now, but in a new line.
#[test]
fn mach() {
    let changes = [
        ("organisation.user_handler.base_address", "0x8000_0000"),
        ("organisation.kernel_handler.base_address", "0x8000_1000"),
        ("organisation.root_handler.base_address", "0x8000_2000"),
        ("organisation.user_table.base_address", "0xc020_0000"),
        ("organisation.kernel_table.base_address", "0xffc0_0000"),
        ("organisation.root_table.base_address", "0x8001_0000"),
        ("organisation.administrative_loads.base_address", "0x8001_4000"),
        ("organisation.administrative_loads.stride_bytes", "128"),
    ];
    let outcome = run("mach", &changes, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 2, 40),
            ("L2i-miss", 2, 1000),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 2, 20),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
            ("khandler", 2, 40),
            ("kpte-L2", 2, 40),
            ("kpte-MEM", 2, 1000),
            ("rhandler", 1, 500),
            ("rpte-L2", 10 + 1, 220),
            ("rpte-MEM", 10 + 1, 5500),
            ("handler-L2", 1 + 2 + 32 + 1, 720),
            ("handler-MEM", 1 + 1 + 16 + 1, 9500),
            ("interrupt", 5, 50),
        ],
    );
    assert_eq!((outcome.tlbs[1].nested_hits, outcome.tlbs[1].nested_misses), (1, 3));
}

/// Two walks of 7 cycles, each with a root and a user entry in lines of their own; no handler
/// evicts the program, so the second execution costs nothing but its issue. The user entry of the
/// load, 0x8044_0000, is in L1 set 0 and is evicted by the datum.
#[test]
fn intel() {
    let changes = [
        ("organisation.walker.cycles", "7"),
        ("organisation.root_table.base_address", "0x8001_0000"),
        ("organisation.user_table.base_address", "0x8040_0000"),
    ];
    let outcome = run("intel", &changes, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 1, 20),
            ("L2i-miss", 1, 500),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 2, 14),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
            ("rpte-L2", 2, 40),
            ("rpte-MEM", 2, 1000),
        ],
    );
    assert_eq!(outcome.interrupts.count, 0);
}

/// Page 0x400 hashes to head 0x400; so does the load's page 0x1401: 0x1401 XOR 0x1 is 0x1400.
///
/// Fetch: the handler, 80 bytes, takes two L1 lines of one L2 line from memory; the head of the
/// chain is free, and its entry at 0x8002_0000 + 0x400 x 16 comes from memory. The program's line
/// evicts the handler's first line from L1 and its line from L2.
///
/// Load: the handler's first line comes from memory, its second is in L1. The head is another
/// page's, and in L1; the first entry of the collision table comes from memory.
#[test]
fn pa_risc() {
    let changes = [
        ("organisation.user_handler.base_address", "0x8000_0000"),
        ("organisation.hash_table.base_address", "0x8002_0000"),
        ("organisation.collision_table.base_address", "0x8004_0000"),
    ];
    let outcome = run("pa-risc", &changes, 0x0140_1008);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 2, 40),
            ("L2i-miss", 2, 1000),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 2, 40),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
            ("handler-L2", 2 + 1, 60),
            ("handler-MEM", 1 + 1, 1000),
            ("interrupt", 2, 20),
        ],
    );
    let chains = outcome.chains.unwrap();
    assert_eq!((chains.pages, chains.lengths), (2, vec![(2, 1)]));
    assert_eq!((chains.mean_search_by_page, chains.mean_search_by_walk), (1.5, 1.5));
}

/// The same chain without a handler: 5 cycles to the head, 2 more for the link.
#[test]
fn inverted_hw() {
    let changes = [
        ("organisation.walker.cycles", "5"),
        ("organisation.walker.cycles_per_link", "2"),
        ("organisation.hash_table.base_address", "0x8002_0000"),
        ("organisation.collision_table.base_address", "0x8004_0000"),
    ];
    let outcome = run("inverted-hw", &changes, 0x0140_1008);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 1, 20),
            ("L2i-miss", 1, 500),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 2, 5 + 7),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
        ],
    );
}

/// Every miss of the program in L2 walks. The first two walk as ULTRIX does: user entries are in no
/// cache, so the root handler runs. For the second execution's fetch, the user handler is in L1,
/// where the load's walk left it, and so is the user entry: no root handler.
#[test]
fn notlb() {
    let outcome = run("notlb", &ULTRIX, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 2, 40),
            ("L2i-miss", 2, 1000),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("uhandler", 3, 30),
            ("upte-L2", 2, 40),
            ("upte-MEM", 2, 1000),
            ("rhandler", 2, 40),
            ("rpte-L2", 2, 40),
            ("rpte-MEM", 2, 1000),
            ("handler-L2", 1 + 2 + 1, 80),
            ("handler-MEM", 1 + 1 + 1, 1500),
            ("interrupt", 5, 50),
        ],
    );
    assert_eq!(outcome.mean_free_path, None);
}

/// The program's line and its datum come from memory once. One fault every two instructions is two.
#[test]
fn base() {
    let changes = [("interrupts.copy_on_write_interval_instructions", "2")];
    let outcome = run("base", &changes, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 4),
            ("L1i-miss", 1, 20),
            ("L2i-miss", 1, 500),
            ("L1d-miss", 1, 20),
            ("L2d-miss", 1, 500),
            ("cow-interrupt", 2, 20),
        ],
    );
    let hits = |cache: usize| {
        let cache = &outcome.caches[cache];
        (cache.name.as_str(), cache.hits, cache.misses)
    };
    assert_eq!(hits(0), ("L1i", 3, 1));
    assert_eq!(hits(1), ("L1d", 1, 1));
    assert_eq!(hits(2), ("L2i", 0, 1));
}

/// Four levels of 512 entries of 8 bytes; caches of level 2 and level 3 entries; frames in order.
///
/// Fetch: both TLB levels miss; four steps, each through a new table, so each entry comes from
/// memory.
///
/// Load: the level 2 cache holds the entry for 0x0040_0000 and not for 0x1000_0000, the level 3
/// cache that of the first gigabyte, so two steps: a new line of the level 2 table, a new
/// last-level table.
#[test]
fn radix() {
    let changes = [
        ("memory.placement", "first-touch"),
        ("organisation.pages", "4K"),
        ("organisation.walk_overhead_cycles", "1"),
        ("organisation.walk_step_cycles", "4"),
        ("stlb.latency_cycles", "9"),
        ("l2.latency_cycles", "8"),
        ("l3.latency_cycles", "32"),
        ("memory.latency_cycles", "200"),
        ("core.instructions_per_cycle", "4"),
        ("interrupts.small_page_fault_cycles", "1000"),
    ];
    let outcome = run("x86-64", &changes, LOAD);
    assert_causes(
        &outcome,
        &[
            ("issue", 4, 1),
            ("L1i-miss", 1, 8),
            ("L2i-miss", 1, 32),
            ("L3i-miss", 1, 200),
            ("L1d-miss", 1, 8),
            ("L2d-miss", 1, 32),
            ("L3d-miss", 1, 200),
            ("uhandler", 2, (1 + 4 * 4) + (1 + 2 * 4)),
            ("upte-L2", 2, 16),
            ("upte-L3", 2, 64),
            ("upte-MEM", 2, 400),
            ("rpte-L2", 3 + 1, 32),
            ("rpte-L3", 3 + 1, 128),
            ("rpte-MEM", 3 + 1, 800),
            ("stlb", 2, 18),
            // Each of the two pages is touched for the first time once; no mapping of a file is
            // known.
            ("small-page-fault", 2, 2000),
        ],
    );
    assert_eq!(outcome.mean_free_path, Some(2.0));
}

/// Slab 0xd01 of the program comes first and has place 0x501, slab 0x500 its own, and 0xd00 the
/// next one that is free, 0x502. An access that reaches behind it touches the first page of place
/// 0x503, which is nobody's: it counts as the page that follows in the program, and that has been
/// walked for at its own place already.
#[test]
fn a_page_behind_a_slab_is_listed_once() {
    let access = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
    let block =
        Block { address: 0x40_0000, instruction_sizes_bytes: vec![4], accesses: vec![access] };
    let executed = [0xd010_0000, 0x5000_0000, 0xd00f_fffe].map(|address| (0, vec![address]));
    let mut source = VecSource::new(&[block], &executed, &[], 100);
    let outcome = replay(&mut source, &[machine("intel", &[])], Options::default()).unwrap();
    let mut walks: Vec<_> =
        outcome[0].pages.iter().map(|page| (page.address, page.data_walks)).collect();
    walks.sort_unstable();
    let expected = [(0x40_0000, 0), (0x5000_0000, 1), (0xd00f_f000, 1), (0xd010_0000, 2)];
    assert_eq!(walks, expected);
    assert_eq!(outcome[0].regions[0].pages, 4);
}
