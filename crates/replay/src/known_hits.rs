//! References that are known to hit the first level, with what they touch there.

use mmulab_hardware::{Recency, prefetch};

use crate::address_space::SMALL_SHIFT;
use crate::program::{Program, StaticBlock, USUAL_LINE_SHIFT, is_long};

/// What the TLB and the cache of one side's first level hold of what the program referenced lately.
///
/// A reference to a line and a page that are here hits both, and all that it changes is replacement
/// state and dirty bits of the two slots that stand beside them. It may lack what they hold, never
/// the other way round: whatever leaves a slot leaves here. Lines are known apart from pages, since
/// a small TLB loses pages that the cache still has many lines of.
#[derive(Clone, Debug)]
pub(crate) struct KnownHits {
    /// By numbers of lines: virtual addresses without their lowest bits.
    known_lines: KnownSlots<LINE_PLACES>,
    /// The line in each slot of the cache.
    lines: Box<[u64]>,
    /// By numbers of pages of `1 << SMALL_SHIFT` bytes; a larger page is here by its parts.
    known_pages: KnownSlots<PAGE_PLACES>,
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

/// Slots by the numbers of what they hold. `PLACES` is a power of two.
#[derive(Clone, Debug)]
struct KnownSlots<const PLACES: usize> {
    /// By the lowest bits of a number: its other bits, and below them the slot in [`SLOT_BITS`].
    words: Box<[u64; PLACES]>,
}

const SLOT_BITS: u32 = 16;
/// What [`KnownSlots::find`] gives is below this if the slot is known.
const SLOTS: u64 = 1 << SLOT_BITS;
/// The word where no slot is known. No number that fits has so many bits set.
const UNKNOWN: u64 = u64::MAX;

impl<const PLACES: usize> KnownSlots<PLACES> {
    const PLACE_BITS: u32 = PLACES.trailing_zeros();
    /// Numbers have at most so many bits.
    const NUMBER_BITS: u32 = 63 - SLOT_BITS + Self::PLACE_BITS;

    fn new() -> Self {
        Self { words: Box::new([UNKNOWN; PLACES]) }
    }

    /// The slot of a number if it is known, else [`SLOTS`] or more.
    #[inline(always)]
    fn find(&self, number: u64) -> u64 {
        self.words[number as usize % PLACES] ^ number >> Self::PLACE_BITS << SLOT_BITS
    }

    fn learn(&mut self, number: u64, slot: u16) {
        debug_assert!(number >> Self::NUMBER_BITS == 0);
        self.words[number as usize % PLACES] =
            number >> Self::PLACE_BITS << SLOT_BITS | u64::from(slot);
    }

    /// The number that is known in the place of `number`.
    fn in_place_of(&self, number: u64) -> u64 {
        let place = number as usize % PLACES;
        self.words[place] >> SLOT_BITS << Self::PLACE_BITS | place as u64
    }

    fn forget_place_of(&mut self, number: u64) {
        self.words[number as usize % PLACES] = UNKNOWN;
    }
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

/// No line is there. It is known nowhere, so that to forget it changes nothing.
const NO_LINE: u64 = u64::MAX;
/// No page is there.
const NO_PAGE: PageRange = PageRange { first: u64::MAX, size_bytes: 0 };
/// Known pages at most.
const PAGE_PLACES: usize = 1024;
/// Known lines at most: enough that two live lines seldom share a place; more would no longer fit
/// the first-level cache of the host.
const LINE_PLACES: usize = 4096;

/// How many blocks before its turn a block is fetched into the host's cache.
const BLOCKS_AHEAD: usize = 32;

/// Records uses for replacement, with its clock in a register. `IS_USED` is whether uses change
/// anything.
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

/// Calls a method for the kind of first level that is known: whether uses of pages and lines change
/// anything, and whether lines are of the usual size. It is given what they change.
macro_rules! with_kinds {
    ($known:ident . $method:ident ( $state:ident, $($rest:expr),* )) => {{
        let HitState { pages, lines, dirty } = $state;
        assert!(pages.as_ref().is_none_or(|pages| pages.last_use.len() == $known.pages.len()));
        assert!(lines.as_ref().is_none_or(|lines| lines.last_use.len() == $known.lines.len()));
        assert_eq!(dirty.len(), $known.lines.len());
        let kinds = (pages.is_some(), lines.is_some(), $known.line_shift == USUAL_LINE_SHIFT);
        let (mut no_pages, mut no_lines) = (0, 0);
        let pages = pages.unwrap_or(Recency { clock: &mut no_pages, last_use: &mut [] });
        let lines = lines.unwrap_or(Recency { clock: &mut no_lines, last_use: &mut [] });
        macro_rules! of_kind {
            ($pages:literal, $lines:literal, $usual:literal) => {
                $known.$method::<$pages, $lines, $usual>(pages, lines, dirty, $($rest),*)
            };
        }
        match kinds {
            (false, false, false) => of_kind!(false, false, false),
            (false, false, true) => of_kind!(false, false, true),
            (false, true, false) => of_kind!(false, true, false),
            (false, true, true) => of_kind!(false, true, true),
            (true, false, false) => of_kind!(true, false, false),
            (true, false, true) => of_kind!(true, false, true),
            (true, true, false) => of_kind!(true, true, false),
            (true, true, true) => of_kind!(true, true, true),
        }
    }};
}

impl KnownHits {
    /// Knows nothing of a first level of so many slots, whose TLB takes pages of `1 << page_shift`
    /// bytes and larger ones; `None` if the slots are too many to be numbered, pages are smaller
    /// than `1 << SMALL_SHIFT` bytes, lines larger, or lines so small that their numbers have too
    /// many bits.
    pub(crate) fn new(
        cache_slots: u32,
        tlb_slots: u32,
        line_shift: u32,
        page_shift: u32,
    ) -> Option<Self> {
        let fits_number = 64 - line_shift <= KnownSlots::<LINE_PLACES>::NUMBER_BITS;
        if page_shift < SMALL_SHIFT || line_shift > SMALL_SHIFT || !fits_number {
            return None;
        }
        let fits = |slots: u32| (1..=1 << 16).contains(&slots).then_some(slots as usize);
        let (lines, pages) = (fits(cache_slots)?, fits(tlb_slots)?);
        Some(Self {
            known_lines: KnownSlots::new(),
            lines: vec![NO_LINE; lines].into(),
            known_pages: KnownSlots::new(),
            pages: vec![NO_PAGE; pages].into(),
            line_shift,
        })
    }

    /// The slots of the cache and of the TLB that a reference to `address` touches, each [`SLOTS`]
    /// or more if it is not known.
    #[inline(always)]
    fn slots_of<const USUAL: bool>(&self, address: u64) -> (u64, u64) {
        let line = address >> self.shift::<USUAL>();
        (self.known_lines.find(line), self.known_pages.find(address >> SMALL_SHIFT))
    }

    /// log2 of the size of a line; with `USUAL` the compiler knows it.
    #[inline(always)]
    fn shift<const USUAL: bool>(&self) -> u32 {
        if USUAL { USUAL_LINE_SHIFT } else { self.line_shift }
    }

    /// What a reference to `address` touches, if it is known to hit.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64) -> Option<Slots> {
        let (line, page) = self.slots_of::<false>(address);
        (line | page < SLOTS).then_some(Slots { line: line as u16, page: page as u16 })
    }

    /// The slot of the cache that holds the line of `address`, if it is known, whatever is known of
    /// its page.
    #[inline]
    pub(crate) fn find_in_cache(&self, address: u64) -> Option<u32> {
        let slot = self.known_lines.find(address >> self.line_shift);
        (slot < SLOTS).then_some(slot as u32)
    }

    /// Fetches `blocks` up to the first whose fetches are not all known to hit. Writes to `stores`,
    /// which has room for all, whether each of their accesses writes.
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
    fn fetch_of_kind<const PAGES: bool, const LINES: bool, const USUAL: bool>(
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
            passed +=
                self.fetch_short::<PAGES, LINES, USUAL>(page_uses, line_uses, program, ahead, room);
            // Few are longer, and of these most are known.
            let Some(&number) = blocks.get(passed.blocks) else { break };
            if !self.is_long::<USUAL>(&program.blocks[number as usize]) {
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

    /// Fetches blocks up to the first whose lines are more than two, or in two pages, or not all
    /// known to hit.
    #[inline(never)]
    fn fetch_short<const PAGES: bool, const LINES: bool, const USUAL: bool>(
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
            let (first_line, page) = self.slots_of::<USUAL>(block.first);
            let last_line = self.known_lines.find(block.last >> self.shift::<USUAL>());
            let is_long = u64::from(self.is_long::<USUAL>(block));
            // One jump for all that may be otherwise.
            if first_line | last_line | page | is_long << SLOT_BITS >= SLOTS {
                break;
            }
            // SAFETY: `learn_line` and `learn_page` check the slots, and `with_kinds` that there
            // are as many uses.
            unsafe {
                pages.touch(page as u16);
                lines.touch(first_line as u16);
                lines.touch(last_line as u16);
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
        let slots =
            all.map(|line| self.slots_of::<false>(block.first.max(line << self.line_shift)));
        // One at the end of the address space may have no lines.
        if slots.clone().any(|(line, page)| line | page >= SLOTS) || block.last < block.first {
            return Passed::default();
        }
        let mut pages = Touches::<PAGES>::new(pages);
        let mut lines = Touches::<LINES>::new(lines);
        for (line, page) in slots {
            // SAFETY: as for short ones.
            unsafe {
                pages.touch(page as u16);
                lines.touch(line as u16);
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
    fn is_long<const USUAL: bool>(&self, block: &StaticBlock<u64>) -> bool {
        if USUAL { block.is_long } else { is_long(block.first, block.last, self.line_shift) }
    }

    /// Makes data references, of which none spans lines, up to the first that is not known to hit;
    /// how many these are.
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
    fn load_and_store_of_kind<const PAGES: bool, const LINES: bool, const USUAL: bool>(
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
            let (line, page) = self.slots_of::<USUAL>(address);
            if line | page >= SLOTS {
                break;
            }
            // SAFETY: `learn_line` and `learn_page` check the slots, and `with_kinds` that there
            // are as many uses and dirty bits.
            unsafe {
                lines.touch(line as u16);
                pages.touch(page as u16);
                // Most stores find the line dirty: to look first keeps loads from waiting for
                // stores.
                let dirty = dirty.get_unchecked_mut(usize::from(line as u16));
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
        if old != line && self.known_lines.find(old) < SLOTS {
            self.known_lines.forget_place_of(old);
        }
    }

    /// The page of `1 << shift` bytes at `address` is in a slot of the TLB, in the place of what
    /// was there.
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
            if self.known_pages.in_place_of(part).wrapping_sub(first) < parts {
                self.known_pages.forget_place_of(part);
            }
        }
    }

    /// Pages whose first address is `within` something have left the TLB, and may be elsewhere in
    /// memory when they come back: the cache need not have their lines any more, also of those that
    /// had left before.
    pub(crate) fn invalidate(&mut self, within: impl Fn(u64) -> bool) {
        for page in self.pages.iter_mut().filter(|page| within(page.first)) {
            *page = NO_PAGE;
        }
        self.known_pages.words.fill(UNKNOWN);
        self.known_lines.words.fill(UNKNOWN);
    }

    /// The slot of the TLB and log2 of the size in bytes of the page of `address`, if it is known.
    #[inline(always)]
    pub(crate) fn find_page(&self, address: u64) -> Option<(u32, u32)> {
        let slot = self.known_pages.find(address >> SMALL_SHIFT);
        (slot < SLOTS).then(|| (slot as u32, self.pages[slot as usize].size_bytes.trailing_zeros()))
    }

    /// The page of `address` is in a slot of the TLB, which has been noted.
    #[inline]
    pub(crate) fn learn_page(&mut self, slot: u32, address: u64) {
        assert!((slot as usize) < self.pages.len());
        self.known_pages.learn(address >> SMALL_SHIFT, slot as u16);
    }

    /// The line of `address` is in a slot of the cache, which has been noted.
    #[inline]
    pub(crate) fn learn_line(&mut self, slot: u32, address: u64) {
        assert!((slot as usize) < self.lines.len());
        self.known_lines.learn(address >> self.line_shift, slot as u16);
    }
}
