//! References that are known to hit the first level, with what they touch there.

use mmulab_hardware::Touch;

use crate::program::Program;

/// Where the TLB and the cache of one side's first level hold what the program referenced lately.
///
/// A reference to a line and a page that are both here hits, and all that it changes is replacement
/// state and dirty bits of the two slots that [`KnownHits::find`] names. It may miss a hit that it
/// could know, never the other way round: a hint is verified by what the two slots hold.
#[derive(Clone, Debug)]
pub(crate) struct KnownHits {
    /// By the low bits of a line's number; a power of two of them.
    hints: Box<[Slots]>,
    /// The line (a virtual address without its lowest bits) in each slot of the cache.
    lines: Box<[u64]>,
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

/// What was passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) blocks: usize,
    /// Data accesses of these blocks.
    pub(crate) accesses: usize,
    /// Instructions of these blocks.
    pub(crate) instructions: u64,
}

/// The addresses `address` with `address & mask == first`.
#[derive(Clone, Copy, Debug)]
struct PageRange {
    first: u64,
    mask: u64,
}

/// No line: lines are at least two bytes long, so numbers end well below it.
const NO_LINE: u64 = u64::MAX;
/// No address is in it.
const NO_PAGE: PageRange = PageRange { first: 1, mask: 0 };
/// Hints a slot of the cache: enough that two live lines seldom share one.
const HINTS_PER_LINE: usize = 8;
/// More hints than these would no longer fit the first-level cache of the host.
const MAXIMUM_HINTS: usize = 4096;

impl KnownHits {
    /// Knows nothing of a first level of so many slots; `None` if they are too many to be numbered.
    pub(crate) fn new(cache_slots: u32, tlb_slots: u32, line_shift: u32) -> Option<Self> {
        let fits = |slots: u32| (1..=1 << 16).contains(&slots).then_some(slots as usize);
        let (lines, pages) = (fits(cache_slots)?, fits(tlb_slots)?);
        let hints = (lines * HINTS_PER_LINE).next_power_of_two().min(MAXIMUM_HINTS);
        Some(Self {
            hints: vec![Slots::default(); hints].into(),
            lines: vec![NO_LINE; lines].into(),
            pages: vec![NO_PAGE; pages].into(),
            line_shift,
        })
    }

    /// What a reference to `address` touches, if it is known to hit.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64) -> Option<Slots> {
        let line = address >> self.line_shift;
        let slots = self.hints[line as usize & (self.hints.len() - 1)];
        // SAFETY: `learn` checks both slots, and slot 0 of each is there.
        let (held, page) = unsafe {
            (
                *self.lines.get_unchecked(usize::from(slots.line)),
                *self.pages.get_unchecked(usize::from(slots.page)),
            )
        };
        (held == line && address & page.mask == page.first).then_some(slots)
    }

    /// Fetches `blocks` up to the first whose fetches are not all known to hit. Writes to `stores`, which
    /// has room for all, whether each of their accesses writes.
    #[inline]
    pub(crate) fn fetch(
        &self,
        mut page_uses: impl Touch,
        mut line_uses: impl Touch,
        program: &Program<u64>,
        blocks: &[u32],
        stores: &mut [u8],
    ) -> Passed {
        let mut passed = Passed::default();
        let mut last_page = None;
        let mut touch = |slots: Slots| {
            line_uses.touch(slots.line.into());
            // Using what was used last again changes nothing.
            if last_page != Some(slots.page) {
                last_page = Some(slots.page);
                page_uses.touch(slots.page.into());
            }
        };
        for &number in blocks {
            let block = &program.blocks[number as usize];
            // Most blocks have a line or two: these are passed over without a loop.
            let (Some(first), Some(last)) = (self.find(block.first), self.find(block.last)) else {
                break;
            };
            let lines = block.first >> self.line_shift..=block.last >> self.line_shift;
            if lines.end() - lines.start() >= 2 {
                let slots = lines.clone().map(|line| self.find(line << self.line_shift));
                if slots.clone().any(|slots| slots.is_none()) {
                    break;
                }
                slots.flatten().for_each(&mut touch);
            } else {
                touch(first);
                touch(last);
            }
            program.copy_stores(block, &mut stores[passed.accesses..]);
            passed.blocks += 1;
            passed.accesses += block.accesses as usize;
            passed.instructions += u64::from(block.instructions);
        }
        passed
    }

    /// Makes data references, of which none spans lines, up to the first that is not known to hit; how
    /// many these are.
    #[inline]
    pub(crate) fn load_and_store(
        &self,
        mut page_uses: impl Touch,
        mut line_uses: impl Touch,
        addresses: &[u64],
        stores: &[u8],
        dirty: &mut [u8],
    ) -> usize {
        for (made, (&address, &is_store)) in addresses.iter().zip(stores).enumerate() {
            let Some(slots) = self.find(address) else { return made };
            line_uses.touch(slots.line.into());
            page_uses.touch(slots.page.into());
            dirty[usize::from(slots.line)] |= is_store;
        }
        addresses.len()
    }

    /// The line of `address` is in a slot of the cache, in the place of what was there.
    #[inline]
    pub(crate) fn note_line(&mut self, slot: u32, address: u64) {
        self.lines[slot as usize] = address >> self.line_shift;
    }

    /// The page of `1 << shift` bytes at `address` is in a slot of the TLB, in the place of what was
    /// there.
    #[inline]
    pub(crate) fn note_page(&mut self, slot: u32, address: u64, shift: u32) {
        let mask = !((1 << shift) - 1);
        self.pages[slot as usize] = PageRange { first: address & mask, mask };
    }

    /// Pages whose first address is `within` something have left the TLB and have other frames from
    /// here on: what the cache holds of them is no longer theirs.
    pub(crate) fn invalidate(&mut self, within: impl Fn(u64) -> bool) {
        for page in self.pages.iter_mut().filter(|page| within(page.first)) {
            *page = NO_PAGE;
        }
        for line in self.lines.iter_mut().filter(|line| within(**line << self.line_shift)) {
            *line = NO_LINE;
        }
    }

    /// A reference to `address` touched `slots`, both of which have been noted.
    #[inline]
    pub(crate) fn learn(&mut self, address: u64, line: u32, page: u32) {
        assert!((line as usize) < self.lines.len() && (page as usize) < self.pages.len());
        let hint = (address >> self.line_shift) as usize & (self.hints.len() - 1);
        self.hints[hint] = Slots { line: line as u16, page: page as u16 };
    }
}
