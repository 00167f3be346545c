//! A data cache that holds its data: tags, words, and which parts of each line are dirty.
//!
//! Nothing keeps the words right but what the driver does: two lines may hold the same physical
//! address and differ. The line's size is a type, `[u32; WORDS]`, and the driver says with each
//! look-up by which address the set is chosen and which the tag is compared with, so that both are
//! known at compile time: virtual and virtual, virtual and physical, physical and physical.

use std::ops::{Index, IndexMut};

use mmulab_state::Value;

use crate::cache::Cache;
use crate::coherence::State;

/// The words of a line.
pub trait Line: Copy + Index<usize, Output = u32> + IndexMut<usize> + AsRef<[u32]> + Value {
    /// How many, a power of two.
    const WORDS: usize;
    /// The same in bytes.
    const BYTES: u32 = 4 * Self::WORDS as u32;
    /// All words zero.
    const ZERO: Self;

    /// The words of a slice of this length.
    fn from_words(words: &[u32]) -> Self;

    /// The address of the line that an address is in.
    #[inline(always)]
    fn base(address: u32) -> u32 {
        address & !(Self::BYTES - 1)
    }

    /// Which word of its line an address is in.
    #[inline(always)]
    fn word(address: u32) -> usize {
        (address >> 2) as usize & (Self::WORDS - 1)
    }

    /// Which half of its line an address is in, as a bit: 1 or 2.
    #[inline(always)]
    fn half(address: u32) -> u8 {
        1 << ((address / (Self::BYTES / 2)) & 1)
    }

    /// The half that a word is in, as a bit.
    #[inline(always)]
    fn half_of_word(word: usize) -> u8 {
        1 << (word / (Self::WORDS / 2))
    }
}

impl<const N: usize> Line for [u32; N] {
    const WORDS: usize = {
        assert!(N.is_power_of_two() && N >= 2);
        N
    };
    const ZERO: Self = [0; N];

    #[inline(always)]
    fn from_words(words: &[u32]) -> Self {
        let mut line = [0; N];
        line.copy_from_slice(words);
        line
    }
}

/// The bits of the dirty halves of a line.
const DIRTY: u8 = 3;
/// Other caches may have copies of the line.
const SHARED: u8 = 4;

/// Entries of the table of hints.
const HINTS: usize = 2048;

/// A line that a fill evicts, or that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLine<L> {
    /// What its tag is compared with: the line's address of the kind that the driver tags with.
    pub tag: u32,
    /// Its physical address.
    pub physical: u32,
    /// Its dirty halves: bit 0 the lower, bit 1 the upper.
    pub dirty: u8,
    /// Its words.
    pub words: L,
}

/// A data cache with its data, and a second, smaller one beside it that takes the lines of some
/// pages (the mini data cache of the StrongARM and the XScale). Slots of the second follow those of
/// the first.
pub struct DataCache<L> {
    first: Cache,
    second: Option<Cache>,
    /// Address of the line in each slot, with bit 0 set; 0 is empty.
    tags: Box<[u32]>,
    physical: Box<[u32]>,
    words: Box<[L]>,
    /// The dirty halves, and [`SHARED`].
    flags: Box<[u8]>,
    /// The slot where a line was seen last, by the address of its access; verified by the tag.
    hints: Box<[u16; HINTS]>,
}

mmulab_state::state!(
    [L: Line] DataCache<L> { first, tags, physical, words, flags, hints } optional { second }
);

impl<L: Line> DataCache<L> {
    /// Empty caches, of lines of the size of `L`.
    ///
    /// # Panics
    /// The lines of `first` or `second` have another size: the driver has to check that.
    pub fn new(first: Cache, second: Option<Cache>) -> DataCache<L> {
        for cache in std::iter::once(&first).chain(&second) {
            assert_eq!(1 << cache.line_shift(), L::BYTES, "the driver's line size");
        }
        let slots = (first.slots() + second.as_ref().map_or(0, Cache::slots)) as usize;
        DataCache {
            first,
            second,
            tags: vec![0; slots].into(),
            physical: vec![0; slots].into(),
            words: vec![L::ZERO; slots].into(),
            flags: vec![0; slots].into(),
            hints: Box::new([0; HINTS]),
        }
    }

    /// The replacement and the sets of the first cache.
    pub fn first(&self) -> &Cache {
        &self.first
    }

    /// The same, for locking ways and choosing the replacement; its lines must not be changed.
    pub fn first_mut(&mut self) -> &mut Cache {
        &mut self.first
    }

    /// Whether there is a second cache.
    pub fn has_second(&self) -> bool {
        self.second.is_some()
    }

    /// Slots of both caches.
    pub fn slots(&self) -> usize {
        self.tags.len()
    }

    #[inline(always)]
    fn hint_of(address: u32) -> usize {
        (address / L::BYTES) as usize % HINTS
    }

    /// The slot of the line tagged `tag`, if the hint of `address` leads there: two comparisons.
    #[inline(always)]
    pub fn hinted(&self, address: u32, tag: u32) -> Option<usize> {
        let slot = usize::from(self.hints[Self::hint_of(address)]);
        (*self.tags.get(slot)? == L::base(tag) | 1).then_some(slot)
    }

    /// The slot of the line in the set of `index` tagged `tag`. `address` is the one that accesses
    /// it.
    #[inline(always)]
    pub fn find(&mut self, address: u32, index: u32, tag: u32) -> Option<usize> {
        if let Some(slot) = self.hinted(address, tag) {
            return Some(slot);
        }
        let line = u64::from(L::base(tag));
        let set = self.first.set_of(u64::from(index));
        let slot = match self.first.find_in_set(set, line) {
            Some(slot) => slot,
            None => {
                let second = self.second.as_mut()?;
                let set = second.set_of(u64::from(index));
                self.first.slots() + second.find_in_set(set, line)?
            }
        };
        self.hints[Self::hint_of(address)] = slot as u16;
        Some(slot as usize)
    }

    /// [`DataCache::find`] for who only looks.
    pub fn peek(&self, index: u32, tag: u32) -> Option<usize> {
        let line = u64::from(L::base(tag));
        let first = self.first.peek_in_set(self.first.set_of(u64::from(index)), line);
        let in_second = || {
            let second = self.second.as_ref()?;
            let slot = second.peek_in_set(second.set_of(u64::from(index)), line)?;
            Some(self.first.slots() + slot)
        };
        first.or_else(in_second).map(|slot| slot as usize)
    }

    /// A word of a slot.
    #[inline(always)]
    pub fn word(&self, slot: usize, address: u32) -> u32 {
        self.words[slot][L::word(address)]
    }

    /// The words of a slot.
    #[inline(always)]
    pub fn words(&self, slot: usize) -> &L {
        &self.words[slot]
    }

    /// Changes the masked bits of a word of a slot; whether that makes it dirty is another
    /// question.
    #[inline(always)]
    pub fn set_word(&mut self, slot: usize, address: u32, value: u32, mask: u32) {
        let word = &mut self.words[slot][L::word(address)];
        *word = *word & !mask | value & mask;
    }

    /// The half line of `address` is newer than memory from here on.
    #[inline(always)]
    pub fn mark_dirty(&mut self, slot: usize, address: u32) {
        self.flags[slot] |= L::half(address);
    }

    /// The dirty halves of a slot.
    #[inline(always)]
    pub fn dirty(&self, slot: usize) -> u8 {
        self.flags[slot] & DIRTY
    }

    /// Marks a slot clean and returns its dirty halves.
    pub fn clean(&mut self, slot: usize) -> u8 {
        let dirty = self.dirty(slot);
        self.flags[slot] &= !DIRTY;
        dirty
    }

    /// Whether other caches may have copies of the line in a slot, where caches are kept coherent.
    #[inline(always)]
    pub fn is_shared(&self, slot: usize) -> bool {
        self.flags[slot] & SHARED != 0
    }

    /// Sets whether other caches may have copies, and adds dirty halves.
    pub fn set_shared(&mut self, slot: usize, shared: bool, dirty: u8) {
        let shared = if shared { SHARED } else { 0 };
        self.flags[slot] = self.flags[slot] & DIRTY | dirty & DIRTY | shared;
    }

    /// The state of the line in a slot, where caches are kept coherent.
    pub fn state(&self, slot: usize) -> State {
        match self.tags[slot] {
            0 => State::Invalid,
            _ => State::of(self.dirty(slot) != 0, self.is_shared(slot)),
        }
    }

    /// Counts a use of a slot of the first cache for its replacement.
    pub fn touch(&mut self, slot: usize) {
        self.first.touch(slot as u32);
    }

    /// What each slot holds.
    pub fn lines(&self) -> impl Iterator<Item = (usize, HeldLine<L>)> + '_ {
        (0..self.slots()).filter_map(|slot| Some((slot, self.held(slot)?)))
    }

    /// The physical address of the line in a slot that holds one.
    #[inline(always)]
    pub fn physical(&self, slot: usize) -> u32 {
        self.physical[slot]
    }

    /// What a slot holds.
    pub fn held(&self, slot: usize) -> Option<HeldLine<L>> {
        (self.tags[slot] != 0).then(|| HeldLine {
            tag: self.tags[slot] & !1,
            physical: self.physical[slot],
            dirty: self.dirty(slot),
            words: self.words[slot],
        })
    }

    /// The slots that hold the line of a physical address, under whatever tag.
    pub fn copies(&self, physical: u32) -> impl Iterator<Item = usize> + '_ {
        let line = L::base(physical);
        (0..self.tags.len())
            .filter(move |&slot| self.tags[slot] != 0 && self.physical[slot] == line)
    }

    /// The next dirty slot of the first cache from `start` on, around its end.
    pub fn next_dirty(&self, start: usize) -> Option<usize> {
        let slots = self.first.slots() as usize;
        (start..slots).chain(0..start).find(|&slot| self.dirty(slot) != 0)
    }

    /// Makes room in the set of `index` for the line tagged `tag`, in the second cache or the
    /// first; returns the slot and what leaves it. The words are what they were until they are
    /// filled.
    pub fn allocate(
        &mut self,
        in_second: bool,
        index: u32,
        tag: u32,
    ) -> (usize, Option<HeldLine<L>>) {
        let line = u64::from(L::base(tag));
        let (cache, offset) = match (&mut self.second, in_second) {
            (Some(second), true) => (second, self.first.slots()),
            _ => (&mut self.first, 0),
        };
        let set = cache.set_of(u64::from(index));
        let slot = match cache.find_in_set(set, line) {
            Some(slot) => {
                cache.touch(slot);
                slot
            }
            None => {
                let slot = cache.victim_in_set(set);
                cache.replace(slot, line);
                slot
            }
        };
        let slot = (offset + slot) as usize;
        (slot, self.held(slot))
    }

    /// Enters the line of an allocated slot, clean.
    pub fn fill(&mut self, slot: usize, address: u32, tag: u32, physical: u32, words: L) {
        self.words[slot] = words;
        self.fill_tag(slot, tag, physical);
        self.hints[Self::hint_of(address)] = slot as u16;
    }

    /// The same with the words that happen to be there.
    pub fn fill_tag(&mut self, slot: usize, tag: u32, physical: u32) {
        self.tags[slot] = L::base(tag) | 1;
        self.physical[slot] = L::base(physical);
        self.flags[slot] = 0;
    }

    /// The next access of the line in a slot, by whichever address, looks for it:
    /// [`DataCache::hinted`] does not find it.
    pub fn discard_hints(&mut self, slot: usize) {
        let slot = slot as u16;
        // Each is written, so that many are looked at in one step.
        for hint in self.hints.iter_mut() {
            *hint = if *hint == slot { u16::MAX } else { *hint };
        }
    }

    /// Empties a slot without writing it back.
    pub fn invalidate(&mut self, slot: usize) {
        self.tags[slot] = 0;
        self.flags[slot] = 0;
        match (slot.checked_sub(self.first.slots() as usize), &mut self.second) {
            (Some(slot), Some(second)) => second.invalidate_slot(slot as u32),
            _ => self.first.invalidate_slot(slot as u32),
        };
    }

    /// Empties both caches without writing anything back.
    pub fn invalidate_all(&mut self) {
        self.tags.fill(0);
        self.flags.fill(0);
        self.first.invalidate_all();
        if let Some(second) = &mut self.second {
            second.invalidate_all();
        }
    }
}
