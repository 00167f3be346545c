//! The references that change nothing, known at a glance.

use crate::organisation::PAGE_SHIFT;

/// Lines of one side whose reference by the program would change nothing: a direct-mapped first level
/// holds them, and the TLB holds their page.
///
/// It has a place for each set of that first level, so whoever references a line displaces here what
/// is displaced there. It may forget a line that it could know, never the other way round.
#[derive(Clone, Debug)]
pub(crate) struct AtHand {
    /// The line number that each set is known to hold; at least one, a power of two.
    lines: Box<[u32]>,
    shift: u32,
    /// How often something was forgotten for a walk.
    losses: u64,
}

/// No line: lines are at least four bytes long, so numbers end well below it.
const UNKNOWN: u32 = u32::MAX;

impl AtHand {
    /// Knows nothing of a first level of `sets` sets (a power of two) with lines of `1 << shift` bytes,
    /// at most a page.
    pub(crate) fn new(sets: usize, shift: u32) -> Self {
        assert!(sets.is_power_of_two() && shift <= PAGE_SHIFT);
        Self { lines: vec![UNKNOWN; sets].into(), shift, losses: 0 }
    }

    /// Whether a reference to `address` would change nothing.
    #[inline(always)]
    pub(crate) fn has(&self, address: u32) -> bool {
        self.has_line(address >> self.shift)
    }

    /// Whether references to all bytes from `first` to `last` would change nothing.
    #[inline(always)]
    pub(crate) fn has_all(&self, first: u32, last: u32) -> bool {
        let (first, last) = (first >> self.shift, last >> self.shift);
        // Most blocks have a line or two: these are answered without a loop.
        self.has_line(first) & self.has_line(last)
            && (last.wrapping_sub(first) < 2 || (first + 1..last).all(|line| self.has_line(line)))
    }

    #[inline(always)]
    fn has_line(&self, line: u32) -> bool {
        // SAFETY: `set` keeps below the length, as that is a power of two.
        (unsafe { *self.lines.get_unchecked(self.set(line)) }) == line
    }

    #[inline(always)]
    fn set(&self, line: u32) -> usize {
        line as usize & (self.lines.len() - 1)
    }

    /// The program has referenced `address`, whose page is mapped.
    #[inline(always)]
    pub(crate) fn learn(&mut self, address: u32) {
        let line = address >> self.shift;
        let set = self.set(line);
        self.lines[set] = line;
    }

    /// A walk has referenced `address`.
    #[inline]
    pub(crate) fn displace(&mut self, address: u32) {
        let set = self.set(address >> self.shift);
        self.losses += u64::from(self.lines[set] != UNKNOWN);
        self.lines[set] = UNKNOWN;
    }

    /// `page` has left the TLB.
    pub(crate) fn forget_page(&mut self, page: u32) {
        let shift = PAGE_SHIFT - self.shift;
        let count = self.lines.len().min(1 << shift);
        let first = self.set(page << shift);
        for line in &mut self.lines[first..first + count] {
            if *line >> shift == page {
                *line = UNKNOWN;
            }
        }
        self.losses += 1;
    }

    /// A number that grows when something that was at hand no longer is, other than through
    /// [`AtHand::learn`].
    #[inline]
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }
}
