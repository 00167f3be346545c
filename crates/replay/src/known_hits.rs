//! References that are known to hit the first level, with what they touch there.

use mmulab_hardware::{Recency, prefetch};

use crate::address_space::SMALL_SHIFT;
use crate::caches::l0_filter::UNKNOWN;
use crate::program::{Program, StaticBlock};

/// What the TLB and the cache of one side's first level hold of what the program referenced lately.
///
/// A reference to a line and a page that are here hits both, and all that it changes is replacement state and
/// dirty bits of the two slots that stand beside them. It may lack what they hold, never the other way
/// round: whatever leaves a slot leaves here. Lines are known apart from pages, since a small TLB loses pages that
/// the cache still has many lines of.
#[derive(Clone, Debug)]
pub(crate) struct KnownHits {
    /// Numbers of lines (virtual addresses without their lowest bits), by their low bits; a power of two.
    known_lines: Box<[u64]>,
    /// For each of them, its slot in the cache.
    line_slots: Box<[u16]>,
    /// The line in each slot of the cache.
    lines: Box<[u64]>,
    /// Numbers of pages of `1 << SMALL_SHIFT` bytes, likewise; a larger page is here by its parts.
    known_pages: Box<[u64; PAGE_PLACES]>,
    /// For each of them, its slot in the TLB.
    page_slots: Box<[u16; PAGE_PLACES]>,
    /// The page in each slot of the TLB.
    pages: Box<[PageRange]>,
    line_shift: u32,
}

/// What a reference that hits touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Of the first-level cache.
    pub(crate) line: u16,
    /// Of the first-level TLB.
    pub(crate) page: u16,
}

/// What is known at the place of a reference.
struct Place {
    /// The line that is referenced.
    line: u64,
    /// 0 if that line is known.
    line_differs: u64,
    /// 0 if its page is, too.
    differs: u64,
    /// Of the first-level cache.
    line_slot: u16,
    /// Of the first-level TLB.
    page_slot: u16,
}

/// What was passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) blocks: usize,
    /// Data accesses of these blocks.
    pub(crate) accesses: usize,
    /// Instructions of these blocks.
    pub(crate) instructions: u64,
}

impl std::ops::AddAssign for Passed {
    fn add_assign(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.accesses += more.accesses;
        self.instructions += more.instructions;
    }
}

/// What references that hit a first level change.
pub(crate) struct HitState<'a> {
    /// Of the TLB; `None` if uses change nothing.
    pub(crate) pages: Option<Recency<'a>>,
    /// Of the cache; likewise.
    pub(crate) lines: Option<Recency<'a>>,
    /// Of the cache.
    pub(crate) dirty: &'a mut [u8],
}

/// The addresses of the page of `size_bytes` at `first`.
#[derive(Clone, Copy, Debug)]
struct PageRange {
    first: u64,
    size_bytes: u64,
}

/// No page is there.
const NO_PAGE: PageRange = PageRange { first: u64::MAX, size_bytes: 0 };
/// Known pages at most.
const PAGE_PLACES: usize = 1024;
/// Known lines for each slot of the cache: enough that two live lines seldom share a place.
const PLACES_PER_LINE: usize = 8;
/// More than these would no longer fit the first-level cache of the host.
const MAXIMUM_PLACES: usize = 4096;

/// How many blocks before its turn a block is fetched into the host's cache.
const BLOCKS_AHEAD: usize = 8;

/// Records uses for replacement, with its clock in a register. `IS_USED` is whether uses change anything.
struct Touches<'a, const IS_USED: bool> {
    clock: &'a mut u64,
    last_use: &'a mut [u64],
    now: u64,
}

impl<'a, const IS_USED: bool> Touches<'a, IS_USED> {
    fn new(recency: Recency<'a>) -> Self {
        let Recency { clock, last_use } = recency;
        Self { now: *clock, clock, last_use }
    }

    /// # Safety
    /// Unless `IS_USED` is false there must be such a slot.
    #[inline(always)]
    unsafe fn touch(&mut self, slot: u16) {
        if IS_USED {
            self.now += 1;
            // SAFETY: as above.
            unsafe { *self.last_use.get_unchecked_mut(usize::from(slot)) = self.now };
        }
    }

    fn finish(self) {
        *self.clock = self.now;
    }
}

/// Calls a method with whether uses of pages and lines change anything, and with what they change.
macro_rules! with_kinds {
    ($known:ident . $method:ident ( $state:ident, $($rest:expr),* )) => {{
        let HitState { pages, lines, dirty } = $state;
        assert!(pages.as_ref().is_none_or(|pages| pages.last_use.len() == $known.pages.len()));
        assert!(lines.as_ref().is_none_or(|lines| lines.last_use.len() == $known.lines.len()));
        assert_eq!(dirty.len(), $known.lines.len());
        let kinds = (pages.is_some(), lines.is_some());
        let (mut no_pages, mut no_lines) = (0, 0);
        let pages = pages.unwrap_or(Recency { clock: &mut no_pages, last_use: &mut [] });
        let lines = lines.unwrap_or(Recency { clock: &mut no_lines, last_use: &mut [] });
        match kinds {
            (false, false) => $known.$method::<false, false>(pages, lines, dirty, $($rest),*),
            (false, true) => $known.$method::<false, true>(pages, lines, dirty, $($rest),*),
            (true, false) => $known.$method::<true, false>(pages, lines, dirty, $($rest),*),
            (true, true) => $known.$method::<true, true>(pages, lines, dirty, $($rest),*),
        }
    }};
}

#[inline(always)]
fn page_place(page: u64) -> usize {
    page as usize % PAGE_PLACES
}

impl KnownHits {
    /// Knows nothing of a first level of so many slots, whose TLB takes pages of `1 << page_shift` bytes and larger
    /// ones; `None` if the slots are too many to be numbered, pages are smaller than `1 << SMALL_SHIFT` bytes or lines
    /// larger.
    pub(crate) fn new(
        cache_slots: u32,
        tlb_slots: u32,
        line_shift: u32,
        page_shift: u32,
    ) -> Option<Self> {
        if page_shift < SMALL_SHIFT || line_shift > SMALL_SHIFT {
            return None;
        }
        let fits = |slots: u32| (1..=1 << 16).contains(&slots).then_some(slots as usize);
        let (lines, pages) = (fits(cache_slots)?, fits(tlb_slots)?);
        let places = (lines * PLACES_PER_LINE).next_power_of_two().min(MAXIMUM_PLACES);
        Some(Self {
            known_lines: vec![UNKNOWN; places].into(),
            line_slots: vec![0; places].into(),
            lines: vec![UNKNOWN; lines].into(),
            known_pages: Box::new([UNKNOWN; PAGE_PLACES]),
            page_slots: Box::new([0; PAGE_PLACES]),
            pages: vec![NO_PAGE; pages].into(),
            line_shift,
        })
    }

    /// Where a reference to `address` is known if it is.
    #[inline(always)]
    fn place_of(&self, address: u64) -> Place {
        let (page, line) = (address >> SMALL_SHIFT, address >> self.line_shift);
        let (page_place, line_place) = (page_place(page), self.line_place(line));
        // SAFETY: `line_place` keeps below the length of both.
        let (known_line, line_slot) = unsafe {
            (
                *self.known_lines.get_unchecked(line_place),
                *self.line_slots.get_unchecked(line_place),
            )
        };
        Place {
            line,
            line_differs: known_line ^ line,
            differs: known_line ^ line | self.known_pages[page_place] ^ page,
            line_slot,
            page_slot: self.page_slots[page_place],
        }
    }

    /// What a reference to `address` touches, if it is known to hit.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64) -> Option<Slots> {
        let Place { differs, line_slot: line, page_slot: page, .. } = self.place_of(address);
        (differs == 0).then_some(Slots { line, page })
    }

    #[inline(always)]
    fn find_line(&self, line: u64) -> Option<u16> {
        let place = self.line_place(line);
        // SAFETY: `line_place` keeps below the length of both.
        let (known, slot) = unsafe {
            (*self.known_lines.get_unchecked(place), *self.line_slots.get_unchecked(place))
        };
        (known == line).then_some(slot)
    }

    /// The slot of the cache that holds the line of `address`, if it is known, whatever is known of its page.
    #[inline]
    pub(crate) fn find_in_cache(&self, address: u64) -> Option<u32> {
        self.find_line(address >> self.line_shift).map(u32::from)
    }

    #[inline(always)]
    fn line_place(&self, line: u64) -> usize {
        line as usize & (self.known_lines.len() - 1)
    }

    /// Fetches `blocks` up to the first whose fetches are not all known to hit. Writes to `stores`, which
    /// has room for all, whether each of their accesses writes.
    #[inline]
    pub(crate) fn fetch(
        &self,
        state: HitState<'_>,
        program: &Program<u64>,
        blocks: &[u32],
        stores: &mut [u8],
    ) -> Passed {
        with_kinds!(self.fetch_of_kind(state, program, blocks, stores))
    }

    #[inline]
    fn fetch_of_kind<const PAGES: bool, const LINES: bool>(
        &self,
        mut pages: Recency<'_>,
        mut lines: Recency<'_>,
        _dirty: &mut [u8],
        program: &Program<u64>,
        blocks: &[u32],
        stores: &mut [u8],
    ) -> Passed {
        let mut passed = Passed::default();
        loop {
            let (ahead, room) = (&blocks[passed.blocks..], &mut stores[passed.accesses..]);
            let (page_uses, line_uses) = (pages.reborrow(), lines.reborrow());
            passed += self.fetch_short::<PAGES, LINES>(page_uses, line_uses, program, ahead, room);
            // Few are longer, and of these most are known.
            let Some(&number) = blocks.get(passed.blocks) else { break };
            if !self.is_long(&program.blocks[number as usize]) {
                break;
            }
            let room = &mut stores[passed.accesses..];
            let (page_uses, line_uses) = (pages.reborrow(), lines.reborrow());
            let one = self.fetch_long::<PAGES, LINES>(page_uses, line_uses, program, number, room);
            if one.blocks == 0 {
                break;
            }
            passed += one;
        }
        passed
    }

    /// Fetches blocks up to the first whose lines are more than two, or in two pages, or not all known to hit.
    #[inline(never)]
    fn fetch_short<const PAGES: bool, const LINES: bool>(
        &self,
        pages: Recency<'_>,
        lines: Recency<'_>,
        program: &Program<u64>,
        blocks: &[u32],
        stores: &mut [u8],
    ) -> Passed {
        let mut passed = Passed::default();
        let mut pages = Touches::<PAGES>::new(pages);
        let mut lines = Touches::<LINES>::new(lines);
        for (place, &number) in blocks.iter().enumerate() {
            if let Some(&later) = blocks.get(place + BLOCKS_AHEAD) {
                prefetch(&program.blocks, later as usize);
            }
            let block = &program.blocks[number as usize];
            let (first, last) = (self.place_of(block.first), self.place_of(block.last));
            let lines_between = last.line.wrapping_sub(first.line) >> 1;
            let pages_between = (block.first ^ block.last) >> SMALL_SHIFT;
            // One jump for all that may be otherwise.
            if first.differs | last.line_differs | lines_between | pages_between != 0 {
                break;
            }
            // SAFETY: `learn_line` and `learn_page` check the slots, and `with_kinds` that there are as many uses.
            unsafe {
                pages.touch(first.page_slot);
                lines.touch(first.line_slot);
                lines.touch(last.line_slot);
            }
            program.copy_stores(block, &mut stores[passed.accesses..]);
            passed.blocks += 1;
            passed.accesses += usize::from(block.accesses);
            passed.instructions += u64::from(block.instructions);
        }
        lines.finish();
        pages.finish();
        passed
    }

    /// Fetches a block that is longer if all its fetches are known to hit.
    #[inline(never)]
    fn fetch_long<const PAGES: bool, const LINES: bool>(
        &self,
        pages: Recency<'_>,
        lines: Recency<'_>,
        program: &Program<u64>,
        number: u32,
        stores: &mut [u8],
    ) -> Passed {
        let block = &program.blocks[number as usize];
        let all = block.first >> self.line_shift..=block.last >> self.line_shift;
        let places = all.map(|line| self.place_of(block.first.max(line << self.line_shift)));
        // One at the end of the address space may have no lines.
        if places.clone().any(|place| place.differs != 0) || block.last < block.first {
            return Passed::default();
        }
        let mut pages = Touches::<PAGES>::new(pages);
        let mut lines = Touches::<LINES>::new(lines);
        for place in places {
            // SAFETY: as for short ones.
            unsafe {
                pages.touch(place.page_slot);
                lines.touch(place.line_slot);
            }
        }
        lines.finish();
        pages.finish();
        program.copy_stores(block, stores);
        Passed {
            blocks: 1,
            accesses: block.accesses.into(),
            instructions: block.instructions.into(),
        }
    }

    /// Whether a block has more than two lines, or is in two pages.
    #[inline(always)]
    fn is_long(&self, block: &StaticBlock<u64>) -> bool {
        let lines = (block.last >> self.line_shift).wrapping_sub(block.first >> self.line_shift);
        lines >> 1 | (block.first ^ block.last) >> SMALL_SHIFT != 0
    }

    /// Makes data references, of which none spans lines, up to the first that is not known to hit; how
    /// many these are.
    #[inline]
    pub(crate) fn load_and_store(
        &self,
        state: HitState<'_>,
        addresses: &[u64],
        stores: &[u8],
    ) -> usize {
        with_kinds!(self.load_and_store_of_kind(state, addresses, stores))
    }

    #[inline(never)]
    fn load_and_store_of_kind<const PAGES: bool, const LINES: bool>(
        &self,
        pages: Recency<'_>,
        lines: Recency<'_>,
        dirty: &mut [u8],
        addresses: &[u64],
        stores: &[u8],
    ) -> usize {
        let mut pages = Touches::<PAGES>::new(pages);
        let mut lines = Touches::<LINES>::new(lines);
        let mut made = 0;
        for (&address, &is_store) in addresses.iter().zip(stores) {
            let place = self.place_of(address);
            if place.differs != 0 {
                break;
            }
            // SAFETY: `learn_line` and `learn_page` check the slots, and `with_kinds` that there are as many uses
            // and dirty bits.
            unsafe {
                lines.touch(place.line_slot);
                pages.touch(place.page_slot);
                // Most stores find the line dirty: to look first keeps loads from waiting for stores.
                let dirty = dirty.get_unchecked_mut(usize::from(place.line_slot));
                if *dirty < is_store {
                    *dirty = is_store;
                }
            }
            made += 1;
        }
        lines.finish();
        pages.finish();
        made
    }

    /// The line of `address` is in a slot of the cache, in the place of what was there.
    #[inline]
    pub(crate) fn note_line(&mut self, slot: u32, address: u64) {
        let line = address >> self.line_shift;
        let old = std::mem::replace(&mut self.lines[slot as usize], line);
        let place = self.line_place(old);
        if old != line && self.known_lines[place] == old {
            self.known_lines[place] = UNKNOWN;
        }
    }

    /// The page of `1 << shift` bytes at `address` is in a slot of the TLB, in the place of what was
    /// there.
    #[inline]
    pub(crate) fn note_page(&mut self, slot: u32, address: u64, shift: u32) {
        let page = PageRange { first: address >> shift << shift, size_bytes: 1 << shift };
        let old = std::mem::replace(&mut self.pages[slot as usize], page);
        if old.size_bytes == 0 {
            return;
        }
        let (first, parts) = (old.first >> SMALL_SHIFT, old.size_bytes >> SMALL_SHIFT);
        // So many parts in a row have a place each.
        for part in first..first + parts.min(PAGE_PLACES as u64) {
            let known = &mut self.known_pages[page_place(part)];
            if known.wrapping_sub(first) < parts {
                *known = UNKNOWN;
            }
        }
    }

    /// Pages whose first address is `within` something have left the TLB, and may be elsewhere in memory when they
    /// come back: the cache need not have their lines any more, also of those that had left before.
    pub(crate) fn invalidate(&mut self, within: impl Fn(u64) -> bool) {
        for page in self.pages.iter_mut().filter(|page| within(page.first)) {
            *page = NO_PAGE;
        }
        self.known_pages.fill(UNKNOWN);
        self.known_lines.fill(UNKNOWN);
    }

    /// The slot of the TLB and log2 of the size in bytes of the page of `address`, if it is known.
    #[inline(always)]
    pub(crate) fn find_page(&self, address: u64) -> Option<(u32, u32)> {
        let page = address >> SMALL_SHIFT;
        let slot = self.page_slots[page_place(page)];
        (self.known_pages[page_place(page)] == page)
            .then(|| (slot.into(), self.pages[usize::from(slot)].size_bytes.trailing_zeros()))
    }

    /// The page of `address` is in a slot of the TLB, which has been noted.
    #[inline]
    pub(crate) fn learn_page(&mut self, slot: u32, address: u64) {
        assert!((slot as usize) < self.pages.len());
        let page = address >> SMALL_SHIFT;
        self.known_pages[page_place(page)] = page;
        self.page_slots[page_place(page)] = slot as u16;
    }

    /// The line of `address` is in a slot of the cache, which has been noted.
    #[inline]
    pub(crate) fn learn_line(&mut self, slot: u32, address: u64) {
        assert!((slot as usize) < self.lines.len());
        let line = address >> self.line_shift;
        let place = self.line_place(line);
        self.known_lines[place] = line;
        self.line_slots[place] = slot as u16;
    }
}
