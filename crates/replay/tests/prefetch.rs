//! Prefetch into TLBs, by hand: which page is next, and whether a table maps it.

use mmulab_replay::{Options, replay};
use mmulab_trace::{Block, Event};

use crate::common::{self, VecSource};

/// Walks and prefetches when these pages of code are executed one after the other.
fn walks_and_prefetches(
    changes: &[(&str, &str)],
    pages: &[u64],
    events: &[(usize, Event)],
) -> [u64; 2] {
    let prefetch = ("organisation.prefetch_next_page", "true");
    let all = changes.iter().chain([&prefetch]);
    let all: Vec<_> = all.map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
    let machine = common::machine("x86-64", &all);
    let block = |page: &u64| Block {
        address: 0x40_0000 + page * 4096,
        instruction_sizes_bytes: vec![4],
        accesses: vec![],
    };
    let blocks: Vec<Block> = pages.iter().map(block).collect();
    let executed: Vec<(usize, Vec<u64>)> = (0..blocks.len()).map(|n| (n, vec![])).collect();
    let mut source = VecSource::new(&blocks, &executed, events, 50);
    let outcome = replay(&mut source, &[machine], Options::default()).unwrap().remove(0);
    ["uhandler", "tlb-prefetch"].map(|cause| outcome.cause(cause).count)
}

#[test]
fn a_file_s_page_fault_maps_the_next_page() {
    let file = Event::Map {
        address: 0x40_0000,
        length_bytes: 18 * 4096,
        executable: true,
        name: "/bin/program".to_owned(),
    };
    // Sixteen pages come with the first fault. The third page is walked for, since a hit prefetches
    // nothing.
    assert_eq!(walks_and_prefetches(&[], &[0, 1], &[(0, file.clone())]), [1, 1]);
    assert_eq!(walks_and_prefetches(&[], &[0, 1, 2], &[(0, file.clone())]), [2, 2]);
    assert_eq!(walks_and_prefetches(&[], &[15, 16], &[(0, file)]), [2, 1]);
    // Of anonymous memory the next page has not been touched.
    assert_eq!(walks_and_prefetches(&[], &[0, 1, 2], &[]), [3, 0]);
}

#[test]
fn behind_a_piece_of_a_large_page_comes_the_next_piece() {
    let large = [("organisation.pages", "2M"), ("organisation.host.pages", "4K")];
    assert_eq!(walks_and_prefetches(&large, &[0, 1], &[]), [1, 1]);
    assert_eq!(walks_and_prefetches(&large, &[0, 2], &[]), [2, 2]);
    // The next large page has not been touched.
    assert_eq!(walks_and_prefetches(&large, &[511], &[]), [1, 0]);
    assert_eq!(walks_and_prefetches(&large, &[513, 511], &[]), [2, 2]);
    // The second level knows its first piece.
    assert_eq!(walks_and_prefetches(&large, &[512, 511], &[]), [2, 1]);
}
