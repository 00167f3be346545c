//! L0 filters: references that are known to change nothing, so that the caches need not be asked.

use std::ops::Range;

use mmulab_hardware::Ledger;
use mmulab_machine::Handler;

use super::{CacheCounters, Caches, DirectMapped, Location, Side};
use crate::cause::{Cause, Role};
use crate::organisation::PAGE_SHIFT;
use crate::remap::SLAB_SHIFT;

/// Lines of one side whose reference by the program would change nothing: a direct-mapped first
/// level holds them, and the TLB holds their page.
///
/// It has an entry for each set of that first level, so whoever references a line evicts here what
/// is evicted there. It may lack a line that is there, never the other way round.
///
/// Data go by the addresses that the program uses, instructions by remapped ones. Remapping keeps
/// an address's offset within a slab, so it keeps the set too: where the first level is larger than
/// a slab, some of its sets share an entry.
///
/// Lines that could evict those of a handler, or be evicted by them, are never in it.
#[derive(Clone, Debug)]
pub(crate) struct L0Filter {
    /// The line number that each set is known to hold; at least one, a power of two.
    lines: Box<[u64]>,
    shift: u32,
    /// Whether a set may hold lines of handlers.
    is_guarded: Box<[bool]>,
}

/// No line: lines are at least two bytes long, so numbers end well below it.
pub(crate) const UNKNOWN: u64 = u64::MAX;

impl L0Filter {
    /// Knows nothing of a first level of `sets` sets (a power of two) with lines of `1 << shift`
    /// bytes, at most a page.
    ///
    /// Lines of the program collide with those of `handlers` where `index_bits` of the address
    /// agree.
    fn new(sets: usize, shift: u32, handlers: &[&Handler], index_bits: Range<u32>) -> Self {
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
    fn learn(&mut self, address: u64) {
        let line = address >> self.shift;
        let set = self.set(line);
        self.lines[set] = if self.is_guarded[set] { UNKNOWN } else { line };
    }

    /// Something else than the program's own fetch or access referenced `address`.
    #[inline]
    fn evict(&mut self, address: u64) {
        let set = self.set(address >> self.shift);
        self.lines[set] = UNKNOWN;
    }

    /// The page that begins at `address` has left the TLB.
    fn invalidate_page(&mut self, address: u64) {
        let page_lines = 1 << (PAGE_SHIFT - self.shift);
        let first = address >> self.shift;
        let set = self.set(first);
        let count = self.lines.len().min(page_lines);
        invalidate(&mut self.lines[set..set + count], first, page_lines as u64);
    }
}

/// Caches with an L0 filter before each side.
#[derive(Clone, Debug)]
pub(crate) struct Filtered<C> {
    caches: C,
    pub(crate) instruction: L0Filter,
    pub(crate) data: L0Filter,
}

impl<C: DirectMapped> Filtered<C> {
    /// Empty `caches`; `handlers` are all that a walk may run.
    pub(crate) fn new(caches: C, handlers: &[&Handler]) -> Self {
        let filter = |side, handlers| {
            let (sets, shift) = (caches.first_level_sets(side), caches.line_shift(side));
            L0Filter::new(sets, shift, handlers, caches.index_bits(side))
        };
        let (instruction, data) = (filter(Side::Instruction, handlers), filter(Side::Data, &[]));
        Self { caches, instruction, data }
    }

    /// The caches without the filters.
    pub(crate) fn into_inner(self) -> C {
        self.caches
    }
}

impl<C: DirectMapped> Caches for Filtered<C> {
    #[inline(always)]
    fn line_shift(&self, side: Side) -> u32 {
        self.caches.line_shift(side)
    }

    #[inline(always)]
    fn reference(&mut self, role: Role, at: Location, is_store: bool, ledger: &mut Ledger<Cause>) {
        self.caches.reference(role, at, is_store, ledger);
        let address = at.virtual_address;
        match role {
            Role::Fetch => self.instruction.learn(address),
            Role::Handler => {
                let is_foreseen = !self.instruction.is_clear_of_handlers(address, address);
                assert!(is_foreseen, "the filter was not told of this handler");
            }
            Role::Data | Role::Pte(_) => self.data.evict(address),
        }
    }

    /// Data are known by the address that the program uses. It has the same set as the remapped
    /// one.
    #[inline(always)]
    fn reference_data(
        &mut self,
        program_address: u64,
        at: Location,
        is_store: bool,
        ledger: &mut Ledger<Cause>,
    ) {
        self.caches.reference(Role::Data, at, is_store, ledger);
        self.data.learn(program_address);
    }

    fn translation_evicted(&mut self, side: Side, address: u64) {
        match side {
            Side::Instruction => self.instruction.invalidate_page(address),
            Side::Data => self.data.invalidate_page(address),
        }
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        self.caches.counters(references)
    }
}

/// Invalidates those of `lines` that are in the page of `page_lines` lines whose first is `first`.
#[inline]
pub(crate) fn invalidate(lines: &mut [u64], first: u64, page_lines: u64) {
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
