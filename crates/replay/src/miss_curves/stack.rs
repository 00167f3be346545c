//! The LRU stack of pages of one size.
//!
//! The two most recent pages are not in it: they change positions too often, and their order need
//! not be known. The [`WINDOW_PAGES`] pages below them are ranked directly. The rest, ordered by
//! the timestamp when they left those, are bits on a time axis, and a distance is a count of bits.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::{NO_PAGE, StackUpdate};

/// How many of the most recent pages are ranked directly.
const WINDOW_PAGES: usize = 64;

/// An LRU stack, with counts of the distances at which pages were found in it.
pub(super) struct Stack {
    /// The two most recent pages, in any order.
    pub(super) recent: [u32; 2],
    /// Where each of the other pages is.
    positions: Vec<Position>,
    /// The most recent pages, in any order: a page keeps its slot as long as it is window.
    window: [u32; WINDOW_PAGES],
    /// The distance of each of them from the first, so that a use moves none of them.
    ranks: [u8; WINDOW_PAGES],
    window_hits: [u64; WINDOW_PAGES],
    overflow: Overflow,
}

/// Where a page of a stack is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position(u32);

impl Position {
    /// Not in the stack: never used.
    const NEVER_USED: Position = Position(u32::MAX);
    const IN_OVERFLOW: u32 = 1 << 31;

    fn in_window(slot: usize) -> Self {
        Position(slot as u32)
    }

    /// At a timestamp of the time axis of [`Overflow`].
    fn in_overflow(timestamp: u32) -> Self {
        Position(timestamp | Self::IN_OVERFLOW)
    }

    #[inline]
    fn slot(self) -> Option<usize> {
        (self.0 < WINDOW_PAGES as u32).then_some(self.0 as usize)
    }

    fn timestamp(self) -> Option<u32> {
        (self != Self::NEVER_USED).then_some(self.0 & !Self::IN_OVERFLOW)
    }
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            recent: [NO_PAGE; 2],
            positions: Vec::new(),
            window: [NO_PAGE; WINDOW_PAGES],
            ranks: std::array::from_fn(|slot| slot as u8),
            window_hits: [0; WINDOW_PAGES],
            overflow: Overflow::default(),
        }
    }
}

impl Stack {
    /// Brings the updates among the two most recent pages, and leaves in their position those at
    /// the next larger page size; returns how many these are.
    ///
    /// There are `pages` pages so far, with [`NO_PAGE`]. At the larger size, they lie in the pages
    /// `enclosing` them, and `larger_recent` are the two most recent.
    pub(super) fn update(
        &mut self,
        updates: &mut [StackUpdate],
        pages: usize,
        enclosing: &[u32],
        larger_recent: [u32; 2],
    ) -> usize {
        self.positions.resize(pages, Position::NEVER_USED);
        #[cfg(target_arch = "x86_64")]
        if super::has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.update_avx2(updates, enclosing, larger_recent) };
        }
        let mut ranks = self.ranks;
        let left = self.update_with(
            updates,
            enclosing,
            larger_recent,
            &mut ranks,
            move_to_front,
            last_slot,
        );
        self.ranks = ranks;
        left
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn update_avx2(
        &mut self,
        updates: &mut [StackUpdate],
        enclosing: &[u32],
        larger_recent: [u32; 2],
    ) -> usize {
        let mut ranks = load(&self.ranks);
        let left = self.update_with(
            updates,
            enclosing,
            larger_recent,
            &mut ranks,
            |ranks, slot| move_to_front_avx2(ranks, slot),
            |ranks| last_slot_avx2(ranks),
        );
        self.ranks = store(ranks);
        left
    }

    /// [`Stack::bring`] with the ranks in a form of which two functions know how to bring a slot to
    /// the front and which is the last.
    #[inline(always)]
    fn update_with<R: Copy>(
        &mut self,
        updates: &mut [StackUpdate],
        enclosing: &[u32],
        larger_recent: [u32; 2],
        ranks: &mut R,
        move_to_front: impl Fn(&mut R, usize) -> u8,
        last_slot: impl Fn(&R) -> usize,
    ) -> usize {
        let Self { recent, positions, window, window_hits, overflow, .. } = self;
        let positions = &mut positions[..];
        // In registers for the while.
        let mut local_ranks = *ranks;
        let [mut one, mut other] = *recent;
        let [mut larger_one, mut larger_other] = larger_recent;
        let mut larger_updates = 0;
        for index in 0..updates.len() {
            let StackUpdate { page, kept } = updates[index];
            let evicted = one ^ other ^ kept;
            (one, other) = (page, kept);
            let position = positions[page as usize];
            if let Some(slot) = position.slot() {
                let rank = move_to_front(&mut local_ranks, slot);
                window_hits[usize::from(rank) % WINDOW_PAGES] += 1;
                window[slot] = evicted;
                positions[evicted as usize] = position;
            } else {
                // The last of the window ones makes room.
                overflow.find(position);
                let slot = last_slot(&local_ranks);
                if window[slot] != NO_PAGE {
                    overflow.push(window[slot], positions);
                }
                move_to_front(&mut local_ranks, slot);
                window[slot] = evicted;
                positions[evicted as usize] = Position::in_window(slot);
            }
            if enclosing.is_empty() {
                continue;
            }
            let page = enclosing[page as usize];
            let kept = enclosing[kept as usize];
            updates[larger_updates] = StackUpdate { page, kept };
            larger_updates += usize::from((page != larger_one) & (page != larger_other));
            larger_one = select_unpredictable(page != kept, page, larger_one);
            larger_other = select_unpredictable(page != kept, kept, larger_other);
        }
        *ranks = local_ranks;
        *recent = [one, other];
        larger_updates
    }

    /// The misses by number of entries, when `changes` look-ups were of another page than the one
    /// before.
    pub(super) fn misses(&self, changes: u64) -> Vec<u64> {
        let found = self.window_hits.iter().chain(&self.overflow.found);
        let updates = self.overflow.first_uses + found.clone().sum::<u64>();
        // By distance from the top. Repeats are hits in any TLB, so they need no count.
        let found = [0, changes - updates].into_iter().chain(found.copied());
        let pages = self.overflow.first_uses as usize;
        let found: Vec<u64> = found.chain(std::iter::repeat(0)).take(pages).collect();
        // From the largest TLB, which misses first uses alone, to the smallest.
        let mut misses = self.overflow.first_uses;
        let mut curve = vec![0; pages];
        for (entries, curve) in curve.iter_mut().enumerate().rev() {
            *curve = misses;
            misses += found[entries];
        }
        curve
    }
}

/// Moves the page in `slot` to the front, and returns where it was. No branch depends on that,
/// which nothing could predict.
#[inline(always)]
fn move_to_front(ranks: &mut [u8; WINDOW_PAGES], slot: usize) -> u8 {
    let old = ranks[slot];
    for rank in ranks {
        *rank = if *rank == old { 0 } else { *rank + u8::from(*rank < old) };
    }
    old
}

/// Ranks in two registers.
#[cfg(target_arch = "x86_64")]
type Registers = [__m256i; 2];

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn load(ranks: &[u8; WINDOW_PAGES]) -> Registers {
    let halves = ranks.as_ptr().cast::<__m256i>();
    // SAFETY: the array is two vectors long, and these loads need no alignment.
    unsafe { [_mm256_loadu_si256(halves), _mm256_loadu_si256(halves.add(1))] }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn store([low, high]: Registers) -> [u8; WINDOW_PAGES] {
    let mut ranks = [0; WINDOW_PAGES];
    let halves = ranks.as_mut_ptr().cast::<__m256i>();
    // SAFETY: the array is two vectors long, and these stores need no alignment.
    unsafe {
        _mm256_storeu_si256(halves, low);
        _mm256_storeu_si256(halves.add(1), high);
    }
    ranks
}

/// [`move_to_front`] without a way through memory.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn move_to_front_avx2(ranks: &mut Registers, slot: usize) -> u8 {
    let [low, high] = *ranks;
    let [word, low_byte, high_byte] =
        PICKS[slot % WINDOW_PAGES].map(|pick| _mm256_set1_epi32(pick));
    let old = _mm256_or_si256(
        _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(low, word), low_byte),
        _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(high, word), high_byte),
    );
    *ranks = [low, high].map(|ranks| {
        let moved_back = _mm256_sub_epi8(ranks, _mm256_cmpgt_epi8(old, ranks));
        _mm256_andnot_si256(_mm256_cmpeq_epi8(ranks, old), moved_back)
    });
    _mm256_extract_epi8::<0>(old) as u8
}

/// [`last_slot`] without a way through memory.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn last_slot_avx2(ranks: &Registers) -> usize {
    let last = _mm256_set1_epi8(WINDOW_PAGES as i8 - 1);
    let [low, high] =
        ranks.map(|ranks| _mm256_movemask_epi8(_mm256_cmpeq_epi8(ranks, last)) as u32);
    (u64::from(high) << 32 | u64::from(low)).trailing_zeros() as usize
}

/// By slot: which word of its half it is in, and which byte of that word it is in the lower and in
/// the upper half, four times over; -1, which picks a zero, for the half that it is not in.
#[cfg(target_arch = "x86_64")]
const PICKS: [[i32; 3]; WINDOW_PAGES] = {
    let mut picks = [[0, -1, -1]; WINDOW_PAGES];
    let mut slot = 0;
    while slot < WINDOW_PAGES {
        picks[slot][0] = slot as i32 / 4 % 8;
        picks[slot][1 + slot / 32] = slot as i32 % 4 * 0x0101_0101;
        slot += 1;
    }
    picks
};

/// The slot of the last of the window pages.
#[inline(always)]
fn last_slot(ranks: &[u8; WINDOW_PAGES]) -> usize {
    // A maximum, for that is vector instructions as well.
    let is_last = |rank| 0_u8.wrapping_sub(u8::from(rank == WINDOW_PAGES as u8 - 1));
    let slots = ranks.iter().zip(0_u8..).map(|(&rank, slot)| slot & is_last(rank));
    usize::from(slots.fold(0, u8::max))
}

/// The part of a stack below the window pages, in the order in which they left those.
///
/// Pages lie on a time axis in the order of their departure, one bit each; the number of bits
/// after a page's own is its distance. A Fenwick tree over words of the line sums them.
struct Overflow {
    axis: Vec<u64>,
    /// `sums[i]` counts the bits of the words from `i & (i + 1)` to `i`.
    sums: Vec<u32>,
    /// Which page lies at each timestamp, or lay there.
    page_at: Vec<u32>,
    pages: u32,
    /// By distance beyond [`WINDOW_PAGES`].
    found: Vec<u64>,
    first_uses: u64,
}

const SHORTEST_AXIS: usize = 1 << 10;

impl Default for Overflow {
    fn default() -> Self {
        Self {
            axis: vec![0; SHORTEST_AXIS / 64],
            sums: vec![0; SHORTEST_AXIS / 64],
            page_at: Vec::new(),
            pages: 0,
            found: Vec::new(),
            first_uses: 0,
        }
    }
}

impl Overflow {
    /// Takes out and counts the page at `position`.
    #[inline(never)]
    fn find(&mut self, position: Position) {
        let Some(timestamp) = position.timestamp() else {
            self.first_uses += 1;
            return;
        };
        let distance = self.remove(timestamp);
        if distance >= self.found.len() {
            self.found.resize(distance + 1, 0);
        }
        self.found[distance] += 1;
    }

    /// Takes out the page at `timestamp` and returns how many pages left the window ones after it
    /// did.
    fn remove(&mut self, timestamp: u32) -> usize {
        let (word, bit) = (timestamp as usize / 64, timestamp % 64);
        let up_to_bit = self.axis[word] & (u64::MAX >> (63 - bit));
        let before = self.bits_before(word) + up_to_bit.count_ones();
        let distance = self.pages - before;
        self.axis[word] &= !(1 << bit);
        self.add(word, -1);
        self.pages -= 1;
        distance as usize
    }

    /// Puts `page`, which is not here, on top.
    #[inline(never)]
    fn push(&mut self, page: u32, positions: &mut [Position]) {
        if self.page_at.len() == self.axis.len() * 64 {
            self.compact(positions);
        }
        let timestamp = self.page_at.len();
        self.page_at.push(page);
        self.axis[timestamp / 64] |= 1 << (timestamp % 64);
        self.add(timestamp / 64, 1);
        self.pages += 1;
        positions[page as usize] = Position::in_overflow(timestamp as u32);
    }

    /// Bits in the words before `word`.
    fn bits_before(&self, word: usize) -> u32 {
        let mut bits = 0;
        let mut end = word;
        while end > 0 {
            bits += self.sums[end - 1];
            end &= end - 1;
        }
        bits
    }

    fn add(&mut self, word: usize, change: i32) {
        let mut index = word;
        while index < self.sums.len() {
            self.sums[index] = self.sums[index].wrapping_add_signed(change);
            index |= index + 1;
        }
    }

    /// Moves the pages together, on a line long enough that this comes seldom.
    #[cold]
    fn compact(&mut self, positions: &mut [Position]) {
        let is_here = |timestamp: usize| self.axis[timestamp / 64] >> (timestamp % 64) & 1 == 1;
        let pages: Vec<u32> = (0..self.page_at.len())
            .filter(|timestamp| is_here(*timestamp))
            .map(|timestamp| self.page_at[timestamp])
            .collect();
        let words = (pages.len() * 4).next_power_of_two().max(SHORTEST_AXIS) / 64;
        self.axis = vec![0; words];
        self.sums = vec![0; words];
        self.page_at.clear();
        self.pages = 0;
        for page in pages {
            self.push(page, positions);
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn registers_rank_as_memory_does() {
        if !crate::miss_curves::has_avx2() {
            return;
        }
        let mut ranks: [u8; WINDOW_PAGES] = std::array::from_fn(|slot| slot as u8);
        // SAFETY: the processor has what these functions are compiled for; so below.
        let mut registers = unsafe { load(&ranks) };
        for step in 0..10_000_usize {
            let slot = step * step / 7 % WINDOW_PAGES;
            let rank = move_to_front(&mut ranks, slot);
            // SAFETY: see above.
            let (same_rank, same_ranks, same_last) = unsafe {
                let rank = move_to_front_avx2(&mut registers, slot);
                (rank, store(registers), last_slot_avx2(&registers))
            };
            assert_eq!((rank, ranks), (same_rank, same_ranks));
            assert_eq!(last_slot(&ranks), same_last);
            assert_eq!(ranks[same_last], WINDOW_PAGES as u8 - 1);
        }
    }
}
