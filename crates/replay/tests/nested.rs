//! Nested paging, by hand: how many table entries a walk in a virtual machine loads.

use mmulab_machine::{HostPages, Organisation, Pages, ReplayMachine};
use mmulab_replay::{Options, Outcome, replay};
use mmulab_trace::Block;

use crate::common::{self, VecSource};

/// Skylake in a virtual machine, without anything that remembers parts of walks.
fn bare(pages: Pages, host_pages: HostPages) -> ReplayMachine {
    let mut machine = common::machine("x86-64", &[]);
    let Organisation::Radix(table) = &mut machine.organisation else { unreachable!() };
    table.pages = pages;
    table.walk_cache_level_2 = None;
    table.walk_cache_level_3 = None;
    let host = table.host.as_mut().unwrap();
    host.pages = host_pages;
    host.walk_cache_level_2 = None;
    host.walk_cache_level_3 = None;
    host.walk_cache_level_4 = None;
    host.nested_tlb = None;
    machine
}

/// Fetches single instructions at these addresses.
fn fetch(machine: &ReplayMachine, addresses: &[u64]) -> Outcome {
    let block = |&address| Block { address, instruction_sizes_bytes: vec![4], accesses: vec![] };
    let blocks: Vec<Block> = addresses.iter().map(block).collect();
    let executed: Vec<(usize, Vec<u64>)> = (0..blocks.len()).map(|n| (n, vec![])).collect();
    let mut source = VecSource::new(&blocks, &executed, &[], 50);
    replay(&mut source, std::slice::from_ref(machine), Options::default()).unwrap().remove(0)
}

/// Entries of the guest's table and of the host's that one walk loads: each step costs 4 cycles.
fn loads_of_one_walk(pages: Pages, host_pages: HostPages) -> (u64, u64) {
    let outcome = fetch(&bare(pages, host_pages), &[0x40_0000]);
    assert_eq!(outcome.cause("uhandler").count, 1);
    (outcome.cause("uhandler").cycles / 4, outcome.cause("host-walk").cycles / 4)
}

#[test]
fn a_walk_of_two_four_level_tables_loads_24_entries() {
    assert_eq!(loads_of_one_walk(Pages::Small, HostPages::None), (4, 0));
    // Four tables of the guest and the page are at five guest-physical addresses.
    assert_eq!(loads_of_one_walk(Pages::Small, HostPages::Small), (4, 20));
    assert_eq!(loads_of_one_walk(Pages::Small, HostPages::Large), (4, 15));
    assert_eq!(loads_of_one_walk(Pages::Large, HostPages::Large), (3, 12));
    assert_eq!(loads_of_one_walk(Pages::Huge, HostPages::Huge), (2, 6));
}

#[test]
fn a_walk_cache_knows_where_the_next_table_is_in_the_host() {
    let mut machine = bare(Pages::Small, HostPages::Small);
    let with = common::machine("x86-64", &[]);
    let Organisation::Radix(with) = with.organisation else { unreachable!() };
    let Organisation::Radix(table) = &mut machine.organisation else { unreachable!() };
    table.walk_cache_level_2 = with.walk_cache_level_2;
    let outcome = fetch(&machine, &[0x40_0000, 0x40_1000]);
    // The second walk loads the last entry, whose table it knows, and translates the page.
    assert_eq!(outcome.cause("uhandler").cycles / 4, 4 + 1);
    assert_eq!(outcome.cause("host-walk").cycles / 4, 20 + 4);
    assert_eq!(outcome.cause("host-walk").count, 5 + 1);
}

#[test]
fn an_entry_is_in_one_place_whether_a_walk_cache_knows_its_table_or_not() {
    let with = common::machine("x86-64", &[]);
    let Organisation::Radix(with) = with.organisation else { unreachable!() };
    for host_pages in [HostPages::Small, HostPages::Large, HostPages::Huge] {
        let mut machine = bare(Pages::Small, host_pages);
        let Organisation::Radix(table) = &mut machine.organisation else { unreachable!() };
        table.walk_cache_level_2 = with.walk_cache_level_2.clone();
        let outcome = fetch(&machine, &[0x40_0000, 0x40_1000]);
        // The last entries of both pages are in one line, which the first walk brought.
        assert_eq!(outcome.cause("upte-L2").count, 1, "{host_pages:?}");
    }
}

#[test]
fn a_large_page_of_the_guest_takes_as_many_entries_as_the_host_has_pages_for_it() {
    let addresses: Vec<u64> = (0..8).map(|page| 0x40_0000 + page * 4096).collect();
    let walks = |host| fetch(&bare(Pages::Large, host), &addresses).cause("uhandler").count;
    assert_eq!([HostPages::None, HostPages::Small, HostPages::Large].map(walks), [1, 8, 1]);
}
