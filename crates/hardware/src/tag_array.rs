//! The associative lookup that caches and TLBs share.

use crate::Random;
use crate::replacement::{Order, Recency, Replacement, Uses};

/// Where an entry sits: `set * ways + way`. Drivers index their own per-entry data with it.
pub type Slot = u32;

/// The two parts into which wired slots divide a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The ways that ordinary fills use.
    Normal,
    /// The lowest ways of each set, which ordinary fills never evict.
    Protected,
}

/// Why a structure of the wanted shape cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GeometryError(pub String);

/// The set to which a line or a page belongs: its number modulo the number of sets.
#[derive(Clone, Copy, Debug)]
pub struct SetIndex {
    sets: u32,
    /// For a power of two, which a mask serves faster than a division.
    mask: Option<u32>,
}

impl SetIndex {
    /// Of a structure that has `sets` sets, at least one.
    pub fn new(sets: u32) -> Self {
        Self { sets, mask: sets.is_power_of_two().then(|| sets - 1) }
    }

    /// The set of the line or page with this number.
    #[inline(always)]
    pub fn of(self, number: u64) -> u32 {
        match self.mask {
            Some(mask) => number as u32 & mask,
            None => (number % u64::from(self.sets)) as u32,
        }
    }
}

/// The tag of an empty slot. No address has it: tags are line or page numbers.
const EMPTY: u64 = u64::MAX;

/// Up to this many ways, lookups compare every tag.
const COMPARED_WAYS: u32 = 3;

/// Beyond this many ways, lookups go through hints; between the two, through fingerprints.
const FINGERPRINTED_WAYS: u32 = 16;

/// Tags in sets, found by (set, tag).
#[derive(Clone, Debug)]
pub struct TagArray {
    tags: Box<[u64]>,
    ways: u32,
    sets: u32,
    /// Ways below this one are protected from ordinary fills.
    protected_ways: u32,
    /// Ways that no fill takes, one bit each.
    closed_ways: u64,
    /// The way of the next fill of each set plus one, where software has chosen it; else 0. Empty
    /// until it does.
    aimed_ways: Box<[u16]>,
    /// Full ways of each set by partition, so that looking for an empty way costs nothing where
    /// there is none.
    occupied: Box<[[u16; 2]]>,
    /// The hash of the tag that was last put into each slot, so that a set is one line of the
    /// host's cache; then [`FINGERPRINTED_WAYS`] more. A match is verified by the tag. Empty when
    /// ways are few or many.
    fingerprints: Box<[u16]>,
    /// For each hash of a tag, the way where such a tag was last seen. A hint is verified by the
    /// tag, so a wrong one costs a scan and nothing else. Empty when ways are not many.
    hints: Box<[u16]>,
    hint_shift: u32,
    order: Order,
    /// For random replacement, also while another is chosen.
    random: Random,
}

mmulab_state::state!(TagArray {
    tags,
    protected_ways,
    closed_ways,
    occupied,
    fingerprints,
    hints,
    order,
    random,
} anew { aimed_ways } built { ways, sets, hint_shift });

/// 2^64 divided by the golden ratio: its product's high bits depend on all bits of a tag.
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline(always)]
fn fingerprint(tag: u64) -> u16 {
    (tag.wrapping_mul(HASH_FACTOR) >> 48) as u16
}

/// Fetches an element into the host's cache if there is a way to do that; where there is no such
/// element, something else.
#[inline(always)]
pub fn prefetch<T>(elements: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let element = elements.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch does nothing that a program could notice, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(element.cast()) };
    }
}

/// Which of `group` are `wanted`, one bit each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn matches(group: &[u16; FINGERPRINTED_WAYS as usize], wanted: u16) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_set1_epi16,
    };
    // SAFETY: every x86-64 processor has SSE2, and both loads are within the group.
    unsafe {
        let wanted = _mm_set1_epi16(wanted as i16);
        let group: *const __m128i = group.as_ptr().cast();
        let low = _mm_cmpeq_epi16(_mm_loadu_si128(group), wanted);
        let high = _mm_cmpeq_epi16(_mm_loadu_si128(group.add(1)), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
    }
}

/// Which of `group` are `wanted`, one bit each.
#[cfg(not(target_arch = "x86_64"))]
fn matches(group: &[u16; FINGERPRINTED_WAYS as usize], wanted: u16) -> u32 {
    (0..).zip(group).fold(0, |bits, (way, &held)| bits | u32::from(held == wanted) << way)
}

impl TagArray {
    /// An empty array. `random` is used by random replacement only.
    ///
    /// # Errors
    /// It is impossible.
    pub fn new(
        sets: u32,
        ways: u32,
        replacement: Replacement,
        random: Random,
    ) -> Result<Self, GeometryError> {
        if sets == 0 {
            return Err(GeometryError("0 sets: must be at least 1".to_owned()));
        }
        if ways == 0 || ways > u32::from(u16::MAX) {
            return Err(GeometryError(format!("{ways} ways: must be 1 to 65535")));
        }
        let slots = sets
            .checked_mul(ways)
            .filter(|&slots| slots <= 1 << 28)
            .ok_or_else(|| GeometryError(format!("{sets} sets of {ways} ways are too many")))?
            as usize;
        let order = Order::new(replacement, sets, ways)?;
        // Eight hints a slot keep two live tags from sharing one most of the time.
        let hints = if ways > FINGERPRINTED_WAYS { (slots * 8).next_power_of_two() } else { 0 };
        let has_fingerprints = (COMPARED_WAYS + 1..=FINGERPRINTED_WAYS).contains(&ways);
        let fingerprints = if has_fingerprints { slots + FINGERPRINTED_WAYS as usize } else { 0 };
        Ok(Self {
            tags: vec![EMPTY; slots].into(),
            ways,
            sets,
            protected_ways: 0,
            closed_ways: 0,
            aimed_ways: [].into(),
            occupied: vec![[0; 2]; sets as usize].into(),
            fingerprints: vec![0; fingerprints].into(),
            hints: vec![0; hints].into(),
            hint_shift: 64 - hints.max(2).trailing_zeros(),
            order,
            random,
        })
    }

    /// The number of sets.
    #[inline]
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Ways of a set.
    #[inline]
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.sets * self.ways
    }

    /// How many of the lowest ways of each set are protected.
    pub fn protected_ways(&self) -> u32 {
        self.protected_ways
    }

    /// Protects the lowest `ways` of every set from ordinary fills, from now on.
    ///
    /// # Errors
    /// No way would be left.
    pub fn protect_ways(&mut self, ways: u32) -> Result<(), GeometryError> {
        if ways >= self.ways {
            return Err(GeometryError(format!(
                "{ways} protected of {} ways: at least one must be left",
                self.ways
            )));
        }
        self.protected_ways = ways;
        self.occupied.fill([0; 2]);
        for slot in 0..self.slots() {
            if self.tag(slot).is_some() {
                *self.occupied_with(slot) += 1;
            }
        }
        Ok(())
    }

    /// Keeps fills from the ways whose bits are set, from now on. Ways from 64 on stay open.
    ///
    /// # Errors
    /// No way would be left.
    pub fn close_ways(&mut self, ways: u64) -> Result<(), GeometryError> {
        let existing = if self.ways >= 64 { !0 } else { (1 << self.ways) - 1 };
        if self.ways <= 64 && ways & existing == existing {
            return Err(GeometryError(format!("all {} ways closed: one must be left", self.ways)));
        }
        self.closed_ways = ways & existing;
        Ok(())
    }

    /// The next fill of each set takes `way`, and a round-robin pointer continues from there.
    pub fn aim(&mut self, way: u32) {
        let way = way.min(self.ways - 1) as u16;
        if let Order::RoundRobin(pointers) = &mut self.order {
            pointers.fill(way);
        } else {
            self.aimed_ways = vec![way + 1; self.sets as usize].into();
        }
    }

    /// The way that round robin takes next in the first set; otherwise the first that is not
    /// protected.
    pub fn next_fill(&self) -> u32 {
        let low = self.protected_ways;
        match &self.order {
            Order::RoundRobin(pointers) => u32::from(pointers[0]).clamp(low, self.ways - 1),
            _ => low,
        }
    }

    /// The ways that fills may take while some are closed, in ascending order.
    fn open_ways(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        let closed = self.closed_ways;
        (0..self.ways).filter(move |&way| way >= 64 || closed >> way & 1 == 0)
    }

    /// As [`TagArray::victim`], while ways are closed.
    #[cold]
    fn victim_among_open(&mut self, set: u32) -> Slot {
        let first = set * self.ways;
        let mut open = self.open_ways();
        if let Order::RoundRobin(pointers) = &mut self.order {
            let pointer = &mut pointers[2 * set as usize];
            let from = u32::from(*pointer);
            let next = open.clone().find(|&way| way >= from).or_else(|| open.next());
            let way = next.unwrap_or(0);
            *pointer = ((way + 1) % self.ways) as u16;
            return first + way;
        }
        if let Some(empty) = open.clone().find(|&way| self.tag(first + way).is_none()) {
            return first + empty;
        }
        let way = match &mut self.order {
            Order::Random => {
                let count = self.ways - self.closed_ways.count_ones();
                open.nth(self.random.below(count) as usize)
            }
            Order::RoundRobin(_) => unreachable!("handled above"),
            Order::Lru(uses) => open.min_by_key(|way| uses.last_use[(first + way) as usize]),
            Order::TreePseudoLru(uses) => {
                // Follow the bits, except into a half whose ways are all closed.
                let (mut start, mut width) = (0, self.ways);
                while width > 1 {
                    width /= 2;
                    let is_open =
                        |low: u32| open.clone().any(|way| (low..low + width).contains(&way));
                    let upper = is_open(start + width)
                        && (!is_open(start) || uses.points_up(first + start, width));
                    start += if upper { width } else { 0 };
                }
                Some(start)
            }
        };
        first + way.unwrap_or(0)
    }

    /// The count of full ways to which `slot` belongs.
    #[inline]
    fn occupied_with(&mut self, slot: Slot) -> &mut u16 {
        let (set, way) = (slot / self.ways, slot % self.ways);
        &mut self.occupied[set as usize][usize::from(way < self.protected_ways)]
    }

    /// Changes the replacement; what is held stays.
    ///
    /// # Errors
    /// It needs another number of ways.
    pub fn set_replacement(&mut self, replacement: Replacement) -> Result<(), GeometryError> {
        self.order = Order::new(replacement, self.sets, self.ways)?;
        Ok(())
    }

    /// Where `tag` is in `set`; changes nothing that affects replacement.
    #[inline(always)]
    pub fn find(&mut self, set: u32, tag: u64) -> Option<Slot> {
        let first = (set * self.ways) as usize;
        if self.hints.is_empty() {
            return self.find_unhinted(first, tag);
        }
        let hint = self.hint_of(tag);
        let slot = first + usize::from(self.hints[hint]);
        if self.tags[slot] == tag {
            return Some(slot as Slot);
        }
        self.find_by_scan(first, tag, hint)
    }

    #[cold]
    fn find_by_scan(&mut self, first: usize, tag: u64, hint: usize) -> Option<Slot> {
        let ways = &self.tags[first..first + self.ways as usize];
        let way = ways.iter().position(|&held| held == tag)?;
        self.hints[hint] = way as u16;
        Some((first + way) as Slot)
    }

    /// [`TagArray::find`] in the set whose first slot is `first`, where there are no hints.
    #[inline(always)]
    fn find_unhinted(&self, first: usize, tag: u64) -> Option<Slot> {
        if self.fingerprints.is_empty() {
            let ways = &self.tags[first..first + self.ways as usize];
            return ways.iter().position(|&held| held == tag).map(|way| (first + way) as Slot);
        }
        let group = self.fingerprints.get(first..)?.first_chunk()?;
        let mut matches = matches(group, fingerprint(tag)) & ((1 << self.ways) - 1);
        while matches != 0 {
            let slot = first + matches.trailing_zeros() as usize;
            if self.tags[slot] == tag {
                return Some(slot as Slot);
            }
            matches &= matches - 1;
        }
        None
    }

    /// [`TagArray::find`] for who only looks: not even a hint changes.
    pub fn peek(&self, set: u32, tag: u64) -> Option<Slot> {
        let first = (set * self.ways) as usize;
        if self.hints.is_empty() {
            return self.find_unhinted(first, tag);
        }
        let ways = &self.tags[first..first + self.ways as usize];
        let hint = usize::from(self.hints[self.hint_of(tag)]);
        let way =
            if ways[hint] == tag { hint } else { ways.iter().position(|&held| held == tag)? };
        Some((first + way) as Slot)
    }

    #[inline]
    fn hint_of(&self, tag: u64) -> usize {
        (tag.wrapping_mul(HASH_FACTOR) >> self.hint_shift) as usize
    }

    /// The tag in `slot`, if it holds one.
    #[inline]
    pub fn tag(&self, slot: Slot) -> Option<u64> {
        let tag = self.tags[slot as usize];
        (tag != EMPTY).then_some(tag)
    }

    /// What uses change; `None` if they change nothing.
    pub fn recency(&mut self) -> Option<Recency<'_>> {
        match &mut self.order {
            Order::Random | Order::RoundRobin(_) => None,
            Order::Lru(Uses { clock, last_use })
            | Order::TreePseudoLru(Uses { clock, last_use }) => Some(Recency { clock, last_use }),
        }
    }

    /// Records a use of `slot`.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        match &mut self.order {
            Order::Random | Order::RoundRobin(_) => {}
            Order::Lru(uses) | Order::TreePseudoLru(uses) => uses.touch(slot),
        }
    }

    /// The slot of `set` that the next fill evicts. Advances the generator or the pointer.
    #[inline]
    pub fn victim(&mut self, set: u32, partition: Partition) -> Slot {
        if let Some(aimed) = self.aimed_ways.get_mut(set as usize)
            && *aimed != 0
        {
            return set * self.ways + u32::from(std::mem::take(aimed)) - 1;
        }
        if self.closed_ways != 0 {
            return self.victim_among_open(set);
        }
        let (low, high) = match partition {
            Partition::Normal => (self.protected_ways, self.ways),
            Partition::Protected => (0, self.protected_ways),
        };
        debug_assert!(low < high, "no way of this partition");
        let first = set * self.ways;
        if let Order::RoundRobin(pointers) = &mut self.order {
            let pointer =
                &mut pointers[2 * set as usize + usize::from(low == 0 && high < self.ways)];
            let way = u32::from(*pointer).clamp(low, high - 1);
            *pointer = if way + 1 == high { low } else { way + 1 } as u16;
            return first + way;
        }
        if u32::from(self.occupied[set as usize][partition as usize]) < high - low {
            let ways = &self.tags[(first + low) as usize..(first + high) as usize];
            if let Some(empty) = ways.iter().position(|&tag| tag == EMPTY) {
                return first + low + empty as u32;
            }
        }
        match &mut self.order {
            Order::Random => first + low + self.random.below(high - low),
            Order::RoundRobin(_) => unreachable!("handled above"),
            Order::Lru(uses) => uses.least_recent(first + low, high - low),
            Order::TreePseudoLru(uses) => uses.tree_victim(first, self.ways, low..high),
        }
    }

    /// Puts `tag` into `slot`, records the use, and returns the tag that was there.
    #[inline]
    pub fn replace(&mut self, slot: Slot, tag: u64) -> Option<u64> {
        let old = std::mem::replace(&mut self.tags[slot as usize], tag);
        if old == EMPTY {
            *self.occupied_with(slot) += 1;
        }
        if !self.fingerprints.is_empty() {
            self.fingerprints[slot as usize] = fingerprint(tag);
        } else if !self.hints.is_empty() {
            let hint = self.hint_of(tag);
            self.hints[hint] = (slot % self.ways) as u16;
        }
        self.touch(slot);
        (old != EMPTY).then_some(old)
    }

    /// Empties `slot` and returns the tag that was there.
    pub fn remove(&mut self, slot: Slot) -> Option<u64> {
        let old = std::mem::replace(&mut self.tags[slot as usize], EMPTY);
        if old == EMPTY {
            return None;
        }
        *self.occupied_with(slot) -= 1;
        Some(old)
    }

    /// Empties everything. Replacement state stays, as in hardware.
    pub fn clear(&mut self) {
        self.tags.fill(EMPTY);
        self.occupied.fill([0; 2]);
    }

    /// The filled slots in ascending order, with their tags.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u64)> + '_ {
        self.tags
            .iter()
            .enumerate()
            .filter(|&(_, &tag)| tag != EMPTY)
            .map(|(slot, &tag)| (slot as Slot, tag))
    }
}
