//! The references that change nothing, known at a glance.

use std::ops::Range;

use mmulab_machine::Handler;

use crate::organisation::PAGE_SHIFT;
use crate::remap::SLAB_SHIFT;

/// Lines of one side whose reference by the program would change nothing: a direct-mapped first level
/// holds them, and the TLB holds their page.
///
/// It has a place for each set of that first level, so whoever references a line displaces here what
/// is displaced there. It may forget a line that it could know, never the other way round.
///
/// Data go by the addresses that the program uses, instructions by remapped ones. Remapping keeps an
/// address's place within a slab, so it keeps the set too: where the first level is larger than a
/// slab, some of its sets share a place.
///
/// Lines that could displace those of a handler, or be displaced by them, are never at hand.
#[derive(Clone, Debug)]
pub(crate) struct L0Filter {
    /// The line number that each set is known to hold; at least one, a power of two.
    lines: Box<[u64]>,
    shift: u32,
    /// Whether a set may hold lines of handlers.
    is_guarded: Box<[bool]>,
}

/// No line: lines are at least four bytes long, so numbers end well below it.
const UNKNOWN: u64 = u64::MAX;

impl L0Filter {
    /// Knows nothing of a first level of `sets` sets (a power of two) with lines of `1 << shift` bytes,
    /// at most a page.
    ///
    /// Lines of the program collide with those of `handlers` where `index_bits` of the address agree.
    pub(crate) fn new(
        sets: usize,
        shift: u32,
        handlers: &[&Handler],
        index_bits: Range<u32>,
    ) -> Self {
        assert!(sets.is_power_of_two() && shift <= PAGE_SHIFT);
        let sets = sets.min(1 << (SLAB_SHIFT - shift));
        let end = index_bits.end.min(shift + sets.trailing_zeros());
        let index = |address: u64| (address & ((1 << end) - 1)) >> index_bits.start;
        let collides = |set: usize| {
            handlers.iter().filter(|handler| handler.instructions > 0).any(|handler| {
                let (first, last) = handler.bytes().into_inner();
                let mut lines = first >> index_bits.start..=last >> index_bits.start;
                lines.any(|line| index(line << index_bits.start) == index((set as u64) << shift))
            })
        };
        Self {
            lines: vec![UNKNOWN; sets].into(),
            shift,
            is_guarded: (0..sets).map(collides).collect(),
        }
    }

    /// Whether a reference to `address` would change nothing.
    #[inline(always)]
    pub(crate) fn has(&self, address: u64) -> bool {
        self.has_line(address >> self.shift)
    }

    /// Whether references to all bytes from `first` to `last` would change nothing.
    #[inline(always)]
    pub(crate) fn has_all(&self, first: u64, last: u64) -> bool {
        let (first, last) = (first >> self.shift, last >> self.shift);
        // Most blocks have a line or two: these are answered without a loop.
        self.has_line(first) & self.has_line(last)
            && (last.wrapping_sub(first) < 2 || self.has_lines_between(first, last))
    }

    #[inline(never)]
    fn has_lines_between(&self, first: u64, last: u64) -> bool {
        (first + 1..last).all(|line| self.has_line(line))
    }

    /// Whether the bytes from `first` to `last` are in no line that collides with a handler's.
    #[inline]
    pub(crate) fn is_clear_of_handlers(&self, first: u64, last: u64) -> bool {
        (first >> self.shift..=last >> self.shift).all(|line| !self.is_guarded[self.set(line)])
    }

    #[inline(always)]
    fn has_line(&self, line: u64) -> bool {
        // SAFETY: `set` keeps below the length, as that is a power of two.
        (unsafe { *self.lines.get_unchecked(self.set(line)) }) == line
    }

    #[inline(always)]
    fn set(&self, line: u64) -> usize {
        line as usize & (self.lines.len() - 1)
    }

    /// The program has referenced `address`, whose page is mapped.
    #[inline(always)]
    pub(crate) fn learn(&mut self, address: u64) {
        let line = address >> self.shift;
        let set = self.set(line);
        self.lines[set] = if self.is_guarded[set] { UNKNOWN } else { line };
    }

    /// What the program has not addressed so was referenced at `address`.
    #[inline]
    pub(crate) fn displace(&mut self, address: u64) {
        let set = self.set(address >> self.shift);
        self.lines[set] = UNKNOWN;
    }

    /// The page that begins at `address` has left the TLB.
    pub(crate) fn invalidate_page(&mut self, address: u64) {
        let page_lines = 1 << (PAGE_SHIFT - self.shift);
        let first = address >> self.shift;
        let set = self.set(first);
        let count = self.lines.len().min(page_lines);
        invalidate(&mut self.lines[set..set + count], first, page_lines as u64);
    }
}

/// Invalidates those of `lines` that are in the page of `page_lines` lines whose first is `first`.
fn invalidate(lines: &mut [u64], first: u64, page_lines: u64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { invalidate_avx2(lines, first, page_lines) };
    }
    invalidate_portable(lines, first, page_lines);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn invalidate_avx2(lines: &mut [u64], first: u64, page_lines: u64) {
    invalidate_portable(lines, first, page_lines);
}

#[inline(always)]
fn invalidate_portable(lines: &mut [u64], first: u64, page_lines: u64) {
    for line in lines {
        *line = if (*line ^ first) < page_lines { UNKNOWN } else { *line };
    }
}
