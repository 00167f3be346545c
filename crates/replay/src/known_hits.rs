//! References that are known to hit the first level, with what they touch there.

use mmulab_hardware::{Recency, prefetch};

use crate::address_space::SMALL_SHIFT;
use crate::caches::l0_filter::{UNKNOWN, invalidate};
use crate::program::Program;

/// What the TLB and the cache of one side's first level hold of what the program referenced lately.
///
/// A reference to a line that is here hits both, and all that it changes is replacement state and dirty
/// bits of the two slots that stand beside it. It may lack a line that both hold, never the other way
/// round: whatever leaves a slot leaves here.
#[derive(Clone, Debug)]
pub(crate) struct KnownHits {
    /// Numbers of lines (virtual addresses without their lowest bits), by their low bits; a power of two.
    known: Box<[u64]>,
    /// For each of them, where it is.
    slots: Box<[Slots]>,
    /// The line in each slot of the cache.
    lines: Box<[u64]>,
    /// The page in each slot of the TLB.
    pages: Box<[PageRange]>,
    /// The slot of a page that was translated lately, by the low bits of the number of the small page; verified by
    /// `pages`.
    page_slots: Box<[u16]>,
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

/// What was passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) blocks: usize,
    /// Data accesses of these blocks.
    pub(crate) accesses: usize,
    /// Instructions of these blocks.
    pub(crate) instructions: u64,
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
/// How many pages are remembered to be translated without a search of the TLB.
const PAGE_PLACES: usize = 256;
/// log2 of the smallest page that a TLB takes.
const SMALLEST_PAGE_SHIFT: u32 = 10;
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
fn page_place(address: u64) -> usize {
    (address >> SMALL_SHIFT) as usize % PAGE_PLACES
}

impl KnownHits {
    /// Knows nothing of a first level of N slots; `None` if they are too many to be numbered or
    /// lines may be longer than pages.
    pub(crate) fn new(cache_slots: u32, tlb_slots: u32, line_shift: u32) -> Option<Self> {
        if line_shift > SMALLEST_PAGE_SHIFT {
            return None;
        }
        let fits = |slots: u32| (1..=1 << 16).contains(&slots).then_some(slots as usize);
        let (lines, pages) = (fits(cache_slots)?, fits(tlb_slots)?);
        let places = (lines * PLACES_PER_LINE).next_power_of_two().min(MAXIMUM_PLACES);
        Some(Self {
            known: vec![UNKNOWN; places].into(),
            slots: vec![Slots::default(); places].into(),
            lines: vec![UNKNOWN; lines].into(),
            pages: vec![NO_PAGE; pages].into(),
            page_slots: vec![0; PAGE_PLACES].into(),
            line_shift,
        })
    }

    /// What a reference to `address` touches, if it is known to hit.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64) -> Option<Slots> {
        self.find_line(address >> self.line_shift)
    }

    #[inline(always)]
    fn find_line(&self, line: u64) -> Option<Slots> {
        let place = self.place(line);
        // SAFETY: `place` keeps below the length of both.
        let (known, slots) =
            unsafe { (*self.known.get_unchecked(place), *self.slots.get_unchecked(place)) };
        (known == line).then_some(slots)
    }

    #[inline(always)]
    fn place(&self, line: u64) -> usize {
        line as usize & (self.known.len() - 1)
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
        pages: Recency<'_>,
        lines: Recency<'_>,
        _dirty: &mut [u8],
        program: &Program<u64>,
        blocks: &[u32],
        stores: &mut [u8],
    ) -> Passed {
        let mut passed = Passed::default();
        let mut pages = Touches::<PAGES>::new(pages);
        let mut lines = Touches::<LINES>::new(lines);
        let mut touch = |slots: Slots| {
            // SAFETY: `learn` checks both slots, and `with_kinds` that there are as many uses.
            unsafe {
                lines.touch(slots.line);
                pages.touch(slots.page);
            }
        };
        for (place, &number) in blocks.iter().enumerate() {
            if let Some(&later) = blocks.get(place + BLOCKS_AHEAD) {
                prefetch(&program.blocks, later as usize);
            }
            let block = &program.blocks[number as usize];
            let (first, last) = (block.first >> self.line_shift, block.last >> self.line_shift);
            // Most blocks have a line or two: these are passed over without a loop.
            let (Some(at_first), Some(at_last)) = (self.find_line(first), self.find_line(last))
            else {
                break;
            };
            if last.wrapping_sub(first) >= 2 {
                let between = (first + 1..last).map(|line| self.find_line(line));
                if between.clone().any(|slots| slots.is_none()) {
                    break;
                }
                touch(at_first);
                between.flatten().for_each(&mut touch);
            } else {
                touch(at_first);
            }
            touch(at_last);
            program.copy_stores(block, &mut stores[passed.accesses..]);
            passed.blocks += 1;
            passed.accesses += block.accesses as usize;
            passed.instructions += u64::from(block.instructions);
        }
        lines.finish();
        pages.finish();
        passed
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

    #[inline]
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
            let Some(slots) = self.find(address) else { break };
            // SAFETY: `learn` checks both slots, and `with_kinds` that there are as many uses and dirty bits.
            unsafe {
                lines.touch(slots.line);
                pages.touch(slots.page);
                // Most stores find the line dirty: to look first keeps loads from waiting for stores.
                let dirty = dirty.get_unchecked_mut(usize::from(slots.line));
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
        let place = self.place(old);
        if old != line && self.known[place] == old {
            self.known[place] = UNKNOWN;
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
        let (first, page_lines) = (old.first >> self.line_shift, old.size_bytes >> self.line_shift);
        let count = page_lines.min(self.known.len() as u64) as usize;
        let place = self.place(first);
        invalidate(&mut self.known[place..place + count], first, page_lines);
    }

    /// Pages whose first address is `within` something have left the TLB. Their lines may still be in their slots.
    pub(crate) fn invalidate(&mut self, within: impl Fn(u64) -> bool) {
        for page in self.pages.iter_mut().filter(|page| within(page.first)) {
            *page = NO_PAGE;
        }
        // By their page and not by their address: a large page may begin within and reach beyond.
        for (known, slots) in self.known.iter_mut().zip(&self.slots) {
            if self.pages[usize::from(slots.page)].size_bytes == 0 {
                *known = UNKNOWN;
            }
        }
    }

    /// The slot of the TLB and the size in bytes of the page of `address`, if it was found lately and is still there.
    #[inline(always)]
    pub(crate) fn find_page(&self, address: u64) -> Option<(u32, u64)> {
        let slot = self.page_slots[page_place(address)];
        let PageRange { first, size_bytes } = self.pages[usize::from(slot)];
        ((address ^ first) < size_bytes).then_some((slot.into(), size_bytes))
    }

    /// The page of `address` was found in a slot of the TLB.
    #[inline]
    pub(crate) fn learn_page(&mut self, slot: u32, address: u64) {
        self.page_slots[page_place(address)] = slot as u16;
    }

    /// A reference to `address` touched `slots`, both of which have been noted.
    #[inline]
    pub(crate) fn learn(&mut self, address: u64, line: u32, page: u32) {
        assert!((line as usize) < self.lines.len() && (page as usize) < self.pages.len());
        let place = self.place(address >> self.line_shift);
        self.known[place] = address >> self.line_shift;
        self.slots[place] = Slots { line: line as u16, page: page as u16 };
    }
}
