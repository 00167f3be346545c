//! The program's pages as the operating system sees them: what is mapped, which pages are large,
//! which have been touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use mmulab_hardware::Random;
use mmulab_machine::Pages;
use mmulab_trace::Event;
use rangemap::RangeMap;

/// log2 of the smallest page.
pub const SMALL_SHIFT: u32 = 12;
/// log2 of a large page.
pub const LARGE_SHIFT: u32 = 21;
/// Small pages in a large one.
const SMALL_IN_LARGE: u64 = 1 << (LARGE_SHIFT - SMALL_SHIFT);
/// Bytes of a file, aligned, that a page fault maps as far as they belong to one mapping: the
/// default of `fault_around_bytes` of Linux (mm/memory.c), whose page cache is taken to hold them.
const FAULT_AROUND_BYTES: u64 = 1 << 16;
/// Name of the program's stack, which is recorded with its maximum size.
const STACK: &str = "[stack]";

/// What a first touch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A small page of anonymous memory is zeroed and mapped.
    Small,
    /// A page of so many times 2 MiB is zeroed and mapped.
    Large(u64),
    /// Pages of a file that are in memory are mapped.
    File,
}

/// What a mapping event did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The addresses of which something has been touched before and is no longer mapped.
    pub unmapped: Option<Range<u64>>,
    /// First addresses of the blocks of 2 MiB with pages that change their size by it, and whether
    /// to a large one.
    pub resized: Vec<(u64, bool)>,
}

/// The mappings of a program and the pages that the operating system gives it.
///
/// With mixed pages each aligned block of 2 MiB is large as long as it lies wholly within one piece
/// of anonymous memory. That is the rule of Linux with `transparent_hugepage/enabled` set to
/// `always` and a background daemon (khugepaged, `max_ptes_none` at its default of 511) that never
/// lags: a block that is touched while the heap covers only part of it begins with small pages and
/// is promoted when the heap has grown over it (if none of them is present then, behind the fault
/// of the next), and one of which a part is unmapped goes back to small pages. Without the daemon
/// what begins small stays small, until nothing of the block is mapped any more: its table of small
/// pages is freed then (`free_pgtables` of mm/memory.c), and the next touch decides anew. Linux:
/// Documentation/admin-guide/mm/transhuge.rst.
///
/// A stack is mapped from its lowest touched page on (`expand_stack` of mm/mmap.c), as a heap that
/// grows downwards: of a block that it comes to page by page the last page is the one that covers
/// it.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    pages: Pages,
    /// Of a hundred blocks, those for which there is no large page.
    fragmentation_percent: u32,
    random: Random,
    /// Names; neighbours of one name are one.
    mappings: RangeMap<u64, String>,
    /// What each stack may still grow into, downwards from its end.
    stacks: Vec<Range<u64>>,
    /// The blocks that were touched, for mixed pages.
    blocks: BTreeMap<u64, Block>,
    /// Numbers of the small pages that are mapped because something touched them or a page around
    /// them.
    touched: BTreeSet<u64>,
}

/// A block of 2 MiB.
#[derive(Clone, Copy, Debug)]
struct Block {
    is_large: bool,
    /// Whether there is a large page for it.
    is_available: bool,
}

impl AddressSpace {
    /// One of which nothing is mapped. `random` decides which blocks fragmentation concerns.
    pub fn new(pages: Pages, fragmentation_percent: u32, random: Random) -> Self {
        Self {
            pages,
            fragmentation_percent,
            random,
            mappings: RangeMap::new(),
            stacks: Vec::new(),
            blocks: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Learns of a mapping event. What a mapping replaces is unmapped first.
    pub fn note(&mut self, event: &Event) -> Change {
        let (Event::Map { address, length_bytes, .. } | Event::Unmap { address, length_bytes }) =
            event
        else {
            return Change::default();
        };
        let range = *address..address.saturating_add(*length_bytes);
        if range.is_empty() {
            return Change::default();
        }
        let mut change = self.unmap(range.clone());
        if let Event::Map { name, .. } = event {
            change.resized.extend(self.map(range, name));
        }
        change
    }

    /// Blocks that are resized as `range`, of which nothing is mapped, becomes `name`.
    fn map(&mut self, range: Range<u64>, name: &str) -> Vec<(u64, bool)> {
        let blocks = blocks_of(&range);
        // Growth is seen where a TLB misses, and a page of 2 MiB or more that holds something else
        // need not miss.
        if name == STACK && self.pages.shift(|| false) == SMALL_SHIFT {
            self.stacks.push(range);
        } else {
            self.mappings.insert(range, name.to_owned());
        }
        self.resize(blocks)
    }

    /// What `range` held is gone, and its pages with it.
    fn unmap(&mut self, range: Range<u64>) -> Change {
        self.mappings.remove(range.clone());
        // A stack grows no farther than to what is mapped or gone below it.
        self.stacks.retain_mut(|room| {
            if range.start < room.end && room.start < range.end {
                room.start = range.end.min(room.end);
            }
            !room.is_empty()
        });
        let blocks = blocks_of(&range);
        let pages = self.pages_without_mapping(range);
        let mut change = Change::default();
        if pages.start < pages.end {
            let bytes = pages.start << SMALL_SHIFT..pages.end.saturating_mul(1 << SMALL_SHIFT);
            let gone: Vec<u64> = self.touched.range(pages).copied().collect();
            change.unmapped = (!gone.is_empty()).then_some(bytes);
            for page in gone {
                self.touched.remove(&page);
            }
        }
        let known = self.blocks.range(blocks.clone()).map(|(&number, _)| number);
        let empty: Vec<u64> = known.filter(|&number| self.is_empty(number)).collect();
        for number in empty {
            self.blocks.remove(&number);
        }
        change.resized = self.resize(blocks);
        change
    }

    /// Numbers of the small pages that are gone with the mappings of `unmapped`. A page at its edge
    /// that is mapped in part stays what it is: a small one whatever else of it is mapped, a large
    /// one of [`Pages::Large`] or [`Pages::Huge`] while something of it is.
    fn pages_without_mapping(&self, unmapped: Range<u64>) -> Range<u64> {
        let shift = self.pages.shift(|| false);
        if shift == SMALL_SHIFT {
            return unmapped.start.div_ceil(1 << SMALL_SHIFT)..unmapped.end >> SMALL_SHIFT;
        }
        let (first, last) = (unmapped.start >> shift, (unmapped.end - 1) >> shift);
        let first_gone = first + u64::from(self.is_mapped(first, shift));
        let first_kept = last + u64::from(!self.is_mapped(last, shift));
        let small = 1 << (shift - SMALL_SHIFT);
        first_gone * small..first_kept * small
    }

    /// Whether something of a page of `1 << shift` bytes is mapped.
    fn is_mapped(&self, page: u64, shift: u32) -> bool {
        let first = page << shift;
        // The last byte of the address space can't lie in a range.
        let last = first + ((1 << shift) - 1);
        self.mappings.overlaps(&(first..last))
    }

    /// A stack in which `address` lies, which is being touched, grows down to its page. First
    /// addresses of the blocks that become large by it, for the daemon; that of `address` with all
    /// of its pages touched.
    pub fn grow_stack(&mut self, address: u64) -> Vec<u64> {
        let Some(room) = self.stacks.iter_mut().find(|room| room.contains(&address)) else {
            return Vec::new();
        };
        let grown = room.start.max(address >> SMALL_SHIFT << SMALL_SHIFT)..room.end;
        room.end = grown.start;
        self.mappings.insert(grown.clone(), STACK.to_owned());
        let resized = self.resize(blocks_of(&grown));
        resized.into_iter().map(|(block, _)| block).collect()
    }

    /// Decides anew about those of some blocks that are known, whose mappings have changed; see
    /// [`Change::resized`].
    fn resize(&mut self, blocks: RangeInclusive<u64>) -> Vec<(u64, bool)> {
        let mut resized = Vec::new();
        let is_promoting = self.pages == Pages::Mixed;
        let mappings = &self.mappings;
        for (&number, block) in self.blocks.range_mut(blocks) {
            let was_large = block.is_large;
            block.is_large = block.is_available
                && (was_large || is_promoting)
                && covers(mappings, number)
                && (was_large || self.touched.range(small_pages(number)).next().is_some());
            if was_large != block.is_large {
                resized.push((number << LARGE_SHIFT, block.is_large));
                if block.is_large {
                    self.touched.extend(small_pages(number));
                }
            }
        }
        resized
    }

    /// Whether nothing of a block is mapped. What was touched without a known mapping counts as
    /// mapped.
    fn is_empty(&self, block: u64) -> bool {
        !self.is_mapped(block, LARGE_SHIFT)
            && self.touched.range(small_pages(block)).next().is_none()
    }

    /// log2 of the size of the page at `address`, which is being touched.
    pub fn page_shift(&mut self, address: u64) -> u32 {
        self.pages.shift(|| self.is_large(address))
    }

    fn is_large(&mut self, address: u64) -> bool {
        let number = address >> LARGE_SHIFT;
        if let Some(block) = self.blocks.get(&number) {
            return block.is_large;
        }
        let percent = self.fragmentation_percent;
        let is_available = percent == 0 || self.random.below(100) >= percent;
        let is_large = is_available && covers(&self.mappings, number);
        self.blocks.insert(number, Block { is_large, is_available });
        is_large
    }

    /// Whether the small page at `address`, which is about to be touched for the first time, has
    /// its block promoted behind its fault: nothing of the block was present when it was covered.
    /// All of the block is touched then.
    pub fn promotes(&mut self, address: u64) -> bool {
        // Asked at each walk.
        if self.pages != Pages::Mixed {
            return false;
        }
        let number = address >> LARGE_SHIFT;
        let Some(block) = self.blocks.get_mut(&number).filter(|block| !block.is_large) else {
            return false;
        };
        // With a page that is present it would be large already.
        block.is_large = block.is_available && covers(&self.mappings, number);
        if block.is_large {
            self.touched.extend(small_pages(number));
        }
        block.is_large
    }

    /// Whether a page of `1 << page_shift` bytes at `address` has been touched, so that a table
    /// maps it.
    pub fn maps(&self, address: u64, page_shift: u32) -> bool {
        let block = self.blocks.get(&(address >> LARGE_SHIFT));
        let own_shift = self.pages.shift(|| block.is_some_and(|block| block.is_large));
        own_shift == page_shift && self.touched.contains(&(address >> SMALL_SHIFT))
    }

    /// The page of `1 << page_shift` bytes at `address` is touched; the fault that this leads to,
    /// if it is the first time. Memory of which no mapping is known counts as anonymous.
    pub fn touch(&mut self, address: u64, page_shift: u32) -> Option<Fault> {
        let page = address >> SMALL_SHIFT;
        if self.touched.contains(&page) {
            return None;
        }
        if page_shift > SMALL_SHIFT {
            let pages = 1 << (page_shift - SMALL_SHIFT);
            let first = page & !(pages - 1);
            self.touched.extend(first..first + pages);
            return Some(Fault::Large(pages / SMALL_IN_LARGE));
        }
        let file = self.mappings.get_key_value(&address).filter(|(_, name)| !is_anonymous(name));
        let Some((range, _)) = file else {
            self.touched.insert(page);
            return Some(Fault::Small);
        };
        let around = address & !(FAULT_AROUND_BYTES - 1);
        let first = range.start.max(around) >> SMALL_SHIFT;
        let last = (range.end - 1).min(around | (FAULT_AROUND_BYTES - 1)) >> SMALL_SHIFT;
        self.touched.extend(first..=last);
        Some(Fault::File)
    }
}

fn is_anonymous(name: &str) -> bool {
    name.is_empty() || name.starts_with('[')
}

/// Numbers of the blocks that have something of a range.
fn blocks_of(range: &Range<u64>) -> RangeInclusive<u64> {
    range.start >> LARGE_SHIFT..=(range.end - 1) >> LARGE_SHIFT
}

/// Numbers of the small pages of a block.
fn small_pages(block: u64) -> Range<u64> {
    block * SMALL_IN_LARGE..(block + 1) * SMALL_IN_LARGE
}

/// Whether one piece of anonymous memory covers all of a block.
fn covers(mappings: &RangeMap<u64, String>, block: u64) -> bool {
    let first = block << LARGE_SHIFT;
    let last = first + ((1 << LARGE_SHIFT) - 1);
    let mapping = mappings.get_key_value(&first);
    mapping.is_some_and(|(range, name)| range.end > last && is_anonymous(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mixed() -> AddressSpace {
        AddressSpace::new(Pages::Mixed, 0, Random::stream(0, 0))
    }

    fn map(address: u64, length_bytes: u64, name: &str) -> Event {
        Event::Map { address, length_bytes, executable: false, name: name.to_owned() }
    }

    #[test]
    fn a_heap_that_grows_is_promoted_when_it_covers_the_block() {
        let mut pages = mixed();
        assert!(pages.note(&map(8 * MIB, MIB, "[heap]")).resized.is_empty());
        assert!(!pages.is_large(8 * MIB));
        pages.touch(8 * MIB, SMALL_SHIFT);
        assert!(pages.note(&map(9 * MIB, MIB / 2, "[heap]")).resized.is_empty());
        assert_eq!(pages.note(&map(9 * MIB + MIB / 2, MIB, "[heap]")).resized, [(8 * MIB, true)]);
        assert!(pages.is_large(9 * MIB));
        // What was not touched has nothing to promote.
        assert!(pages.note(&map(10 * MIB + MIB / 2, 4 * MIB, "[heap]")).resized.is_empty());
        assert!(pages.is_large(11 * MIB));
        assert!(!pages.is_large(14 * MIB));
    }

    #[test]
    fn a_block_is_split_when_part_of_it_goes_or_becomes_a_file() {
        let mut pages = mixed();
        pages.note(&map(2 * MIB, 8 * MIB, ""));
        assert!(pages.is_large(2 * MIB) && pages.is_large(4 * MIB) && pages.is_large(6 * MIB));
        pages.touch(2 * MIB, LARGE_SHIFT);
        let unmap = Event::Unmap { address: 3 * MIB, length_bytes: 4096 };
        assert_eq!(pages.note(&unmap).resized, [(2 * MIB, false)]);
        let file = map(5 * MIB, 3 * MIB, "/lib/c");
        assert_eq!(pages.note(&file).resized, [(4 * MIB, false)]);
        assert_eq!(pages.note(&map(3 * MIB, 4096, "")).resized, [(2 * MIB, true)]);
        assert!(pages.is_large(2 * MIB));
    }

    #[test]
    fn what_a_mapping_replaces_is_unmapped_first() {
        for (kind, resized) in [
            (Pages::OnFault, vec![(8 * MIB, false)]),
            (Pages::Mixed, vec![(8 * MIB, false), (8 * MIB, true)]),
        ] {
            let mut pages = AddressSpace::new(kind, 0, Random::stream(0, 0));
            pages.note(&map(8 * MIB, 2 * MIB, ""));
            assert_eq!(pages.page_shift(8 * MIB), LARGE_SHIFT);
            pages.touch(8 * MIB, LARGE_SHIFT);
            let change = pages.note(&map(9 * MIB, MIB / 2, ""));
            assert_eq!(change.unmapped, Some(9 * MIB..9 * MIB + MIB / 2));
            assert_eq!(change.resized, resized);
            let shift = pages.page_shift(9 * MIB);
            let fault = (kind == Pages::OnFault).then_some(Fault::Small);
            assert_eq!(pages.touch(9 * MIB, shift), fault);
        }
    }

    #[test]
    fn a_block_of_which_no_page_is_present_is_promoted_when_one_is_touched() {
        for (kind, percent, promotes) in
            [(Pages::Mixed, 0, true), (Pages::Mixed, 100, false), (Pages::OnFault, 0, false)]
        {
            let mut pages = AddressSpace::new(kind, percent, Random::stream(0, 0));
            pages.note(&map(9 * MIB, MIB / 2, ""));
            pages.note(&map(8 * MIB, MIB, ""));
            assert_eq!(pages.page_shift(8 * MIB), SMALL_SHIFT);
            assert!(!pages.promotes(8 * MIB), "it is not covered");
            assert_eq!(pages.touch(8 * MIB, SMALL_SHIFT), Some(Fault::Small));
            pages.note(&Event::Unmap { address: 8 * MIB, length_bytes: MIB });
            assert!(pages.note(&map(8 * MIB, MIB, "")).resized.is_empty());
            // It is covered now, and goes again before it is touched.
            let last = map(9 * MIB + MIB / 2, MIB / 2, "");
            assert!(pages.note(&last).resized.is_empty());
            let unmap = Event::Unmap { address: 9 * MIB + MIB / 2, length_bytes: MIB / 2 };
            assert_eq!(pages.note(&unmap), Change::default());
            assert!(pages.note(&last).resized.is_empty());
            assert_eq!(pages.page_shift(9 * MIB), SMALL_SHIFT);
            assert_eq!(pages.promotes(9 * MIB), promotes, "{kind:?} {percent}");
            assert_eq!(pages.page_shift(9 * MIB) == LARGE_SHIFT, promotes);
            assert_eq!(pages.maps(8 * MIB, LARGE_SHIFT), promotes);
            assert!(!pages.promotes(8 * MIB), "once");
        }
    }

    #[test]
    fn files_and_neighbours_of_another_name_make_no_large_page() {
        let mut pages = mixed();
        pages.note(&map(2 * MIB, 2 * MIB, "/bin/program"));
        pages.note(&map(4 * MIB, MIB, "[heap]"));
        pages.note(&map(5 * MIB, MIB, ""));
        assert!(!pages.is_large(2 * MIB) && !pages.is_large(4 * MIB));
    }

    #[test]
    fn the_last_block_of_the_address_space_is_one() {
        let mut pages = mixed();
        pages.note(&map(0u64.wrapping_sub(4 * MIB), u64::MAX, ""));
        assert!(pages.is_large(u64::MAX - 3 * MIB));
        assert!(!pages.is_large(u64::MAX));
    }

    #[test]
    fn without_the_daemon_what_begins_small_stays_small() {
        let mut pages = AddressSpace::new(Pages::OnFault, 0, Random::stream(0, 0));
        pages.note(&map(8 * MIB, MIB, "[heap]"));
        assert!(!pages.is_large(8 * MIB));
        assert!(pages.note(&map(9 * MIB, 3 * MIB, "[heap]")).resized.is_empty());
        assert!(!pages.is_large(9 * MIB) && pages.is_large(10 * MIB));
    }

    #[test]
    fn a_stack_covers_what_it_has_grown_over() {
        for kind in [Pages::OnFault, Pages::Mixed] {
            let mut pages = AddressSpace::new(kind, 0, Random::stream(0, 0));
            pages.note(&map(8 * MIB, 8 * MIB, STACK));
            // Page by page: the daemon promotes at the last one, which a fault of its own precedes.
            for page in (1..=512).rev() {
                let address = 14 * MIB + (page - 1) * 4096;
                let promoted = pages.grow_stack(address + 8);
                let expected = (kind == Pages::Mixed && page == 1).then_some(14 * MIB);
                assert_eq!(promoted, Vec::from_iter(expected), "{page}");
                let shift = pages.page_shift(address);
                assert_eq!(shift == LARGE_SHIFT, expected.is_some());
                assert_eq!(pages.touch(address, shift).is_none(), expected.is_some());
            }
            // Two blocks and a half at once: they are covered when they are touched.
            assert!(pages.grow_stack(9 * MIB).is_empty());
            assert_eq!(pages.page_shift(9 * MIB), SMALL_SHIFT);
            assert_eq!(pages.page_shift(10 * MIB), LARGE_SHIFT);
            assert_eq!(pages.page_shift(13 * MIB), LARGE_SHIFT);
            // What is mapped below ends its growth.
            pages.note(&map(8 * MIB, MIB / 2, ""));
            assert!(pages.grow_stack(8 * MIB).is_empty());
            pages.grow_stack(8 * MIB + MIB / 2);
            assert!(!pages.is_large(8 * MIB) && pages.stacks[0].is_empty());
            pages.note(&Event::Unmap { address: 0, length_bytes: u64::MAX });
            assert!(pages.stacks.is_empty());
        }
    }

    #[test]
    fn a_block_of_which_nothing_is_mapped_is_decided_anew() {
        for kind in [Pages::OnFault, Pages::Mixed] {
            let mut pages = AddressSpace::new(kind, 0, Random::stream(0, 0));
            pages.note(&map(8 * MIB, MIB, "[heap]"));
            let shift = pages.page_shift(8 * MIB);
            assert_eq!(pages.touch(8 * MIB, shift), Some(Fault::Small));
            // A part that is unmapped leaves the table of small pages, and so does a page without a
            // mapping.
            pages.note(&Event::Unmap { address: 8 * MIB, length_bytes: MIB / 2 });
            let shift = pages.page_shift(9 * MIB);
            assert_eq!(pages.touch(9 * MIB, shift), Some(Fault::Small));
            pages.note(&Event::Unmap { address: 8 * MIB, length_bytes: MIB });
            assert!(!pages.is_large(8 * MIB));
            let unmap = Event::Unmap { address: 8 * MIB, length_bytes: 2 * MIB };
            assert!(pages.note(&unmap).resized.is_empty());
            assert!(pages.note(&map(8 * MIB, 2 * MIB, "")).resized.is_empty());
            let shift = pages.page_shift(8 * MIB);
            assert_eq!(pages.touch(8 * MIB, shift), Some(Fault::Large(1)));
            // A mapping over all of it takes the old one away first.
            assert!(pages.note(&map(8 * MIB, 3 * MIB, "")).resized.is_empty());
            let shift = pages.page_shift(8 * MIB);
            assert_eq!(pages.touch(8 * MIB, shift), Some(Fault::Large(1)));
        }
    }

    #[test]
    fn fragmentation_leaves_its_part_of_the_blocks_small() {
        let count = |percent| {
            let mut pages = AddressSpace::new(Pages::Mixed, percent, Random::stream(7, 0));
            pages.note(&map(0, 2000 * MIB, ""));
            (0..1000).filter(|block| pages.is_large(block * 2 * MIB)).count()
        };
        assert_eq!((count(0), count(100)), (1000, 0));
        assert!((650..750).contains(&count(30)), "{}", count(30));
    }

    #[test]
    fn a_page_faults_once_until_it_is_unmapped() {
        let mut pages = mixed();
        pages.note(&map(MIB, MIB / 2, ""));
        assert_eq!(pages.touch(MIB + 5, SMALL_SHIFT), Some(Fault::Small));
        assert_eq!(pages.touch(MIB + 9, SMALL_SHIFT), None);
        let unmap = Event::Unmap { address: MIB, length_bytes: 4096 };
        assert_eq!(pages.note(&unmap).unmapped, Some(MIB..MIB + 4096));
        assert_eq!(pages.note(&unmap).unmapped, None);
        assert_eq!(pages.touch(MIB, SMALL_SHIFT), Some(Fault::Small));
    }

    #[test]
    fn a_page_of_a_bound_is_gone_with_the_last_of_its_mappings() {
        for (kind, shift) in [(Pages::Large, LARGE_SHIFT), (Pages::Huge, 30)] {
            let size = 1 << shift;
            let mut pages = AddressSpace::new(kind, 0, Random::stream(0, 0));
            pages.note(&map(size, size + MIB, ""));
            pages.note(&map(2 * size + MIB, MIB / 2, "/lib/c"));
            assert!(pages.touch(size, shift).is_some() && pages.touch(2 * size, shift).is_some());
            // A part of it comes and goes, from its first byte on and behind it.
            for address in [2 * size, 2 * size + MIB / 2] {
                let unmap = Event::Unmap { address, length_bytes: MIB / 2 };
                assert_eq!(pages.note(&unmap).unmapped, None);
                pages.note(&map(address, MIB / 2, ""));
                assert_eq!(pages.touch(address, shift), None);
            }
            // All of the first, and all but the file of the second.
            let unmap = Event::Unmap { address: size, length_bytes: size + MIB };
            assert_eq!(pages.note(&unmap).unmapped, Some(size..2 * size));
            assert_eq!(pages.touch(2 * size, shift), None);
            let unmap = Event::Unmap { address: 2 * size + MIB, length_bytes: MIB / 2 };
            assert_eq!(pages.note(&unmap).unmapped, Some(2 * size..3 * size));
            assert!(pages.touch(2 * size, shift).is_some());
        }
    }

    #[test]
    fn a_page_of_a_bound_stays_with_its_part_of_a_stack_touched_or_not() {
        let mut pages = AddressSpace::new(Pages::Large, 0, Random::stream(0, 0));
        pages.note(&map(3 * MIB, 3 * MIB, "[stack]"));
        pages.note(&map(2 * MIB, MIB, ""));
        assert_eq!(pages.touch(2 * MIB, LARGE_SHIFT), Some(Fault::Large(1)));
        let unmap = |address| Event::Unmap { address, length_bytes: MIB };
        assert_eq!(pages.note(&unmap(2 * MIB)).unmapped, None);
        assert_eq!(pages.note(&unmap(3 * MIB)).unmapped, Some(2 * MIB..4 * MIB));
    }

    #[test]
    fn a_file_fault_maps_what_is_around_within_the_mapping() {
        let mut pages = mixed();
        pages.note(&map(MIB + 0x2000, 0x1_2000, "/lib/c"));
        assert_eq!(pages.touch(MIB + 0x5000, SMALL_SHIFT), Some(Fault::File));
        assert_eq!(pages.touch(MIB + 0x2000, SMALL_SHIFT), None);
        assert_eq!(pages.touch(MIB + 0xf000, SMALL_SHIFT), None);
        assert_eq!(pages.touch(MIB + 0x1000, SMALL_SHIFT), Some(Fault::Small));
        assert_eq!(pages.touch(MIB + 0x1_0000, SMALL_SHIFT), Some(Fault::File));
    }

    #[test]
    fn a_promotion_touches_all_of_the_block() {
        let mut pages = mixed();
        pages.note(&map(8 * MIB, MIB, "[heap]"));
        pages.page_shift(8 * MIB);
        pages.touch(8 * MIB, SMALL_SHIFT);
        pages.note(&map(9 * MIB, MIB, "[heap]"));
        assert_eq!(pages.page_shift(9 * MIB), LARGE_SHIFT);
        assert_eq!(pages.touch(9 * MIB, LARGE_SHIFT), None);
        pages.note(&map(10 * MIB, 2 * MIB, ""));
        let shift = pages.page_shift(11 * MIB);
        assert_eq!(pages.touch(11 * MIB, shift), Some(Fault::Large(1)));
    }
}
