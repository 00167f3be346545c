//! A cache: which lines it holds, which one leaves, which are dirty.

use crate::Random;
use crate::replacement::{Recency, Replacement};
use crate::tag_array::{GeometryError, Partition, SetIndex, Slot, TagArray};

/// The shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheGeometry {
    /// Capacity.
    pub size_bytes: u64,
    /// Line size, a power of two.
    pub line_bytes: u32,
    /// Ways of a set: 1 is direct-mapped, all the lines is fully associative.
    pub ways: u32,
}

impl CacheGeometry {
    /// The number of sets.
    ///
    /// # Errors
    /// The three numbers do not fit together.
    pub fn sets(&self) -> Result<u32, GeometryError> {
        let Self { size_bytes, line_bytes, ways } = *self;
        if !line_bytes.is_power_of_two() {
            return Err(GeometryError(format!(
                "line size {line_bytes} bytes: must be a power of two"
            )));
        }
        let set_bytes = u64::from(line_bytes) * u64::from(ways);
        let sets = size_bytes.checked_div(set_bytes).unwrap_or(0);
        if sets == 0 || sets * set_bytes != size_bytes {
            return Err(GeometryError(format!(
                "{size_bytes} bytes in lines of {line_bytes} and {ways} ways: \
                 the number of sets must be whole"
            )));
        }
        u32::try_from(sets).map_err(|_| GeometryError(format!("{sets} sets are too many")))
    }
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its address (of its first byte).
    pub address: u64,
    /// Its dirty parts, as the driver set them; 0 is clean.
    pub dirty: u8,
}

/// What [`Cache::access`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The line is here.
    Hit(Slot),
    /// The line was not here and now is.
    Miss {
        /// Where it went.
        slot: Slot,
        /// What it evicted.
        evicted: Option<Evicted>,
    },
}

/// Tags, replacement and dirty state of one cache.
///
/// Addresses are whatever the driver uses: virtual, modified virtual or physical. A cache that is
/// indexed with one address and tagged with another passes its set to the `_in_set` functions.
#[derive(Clone, Debug)]
pub struct Cache {
    tags: TagArray,
    dirty: Box<[u8]>,
    line_shift: u32,
    set_index: SetIndex,
}

mmulab_state::state!(Cache { tags, dirty } built { line_shift, set_index });

impl Cache {
    /// An empty cache. `random` is used by random replacement only.
    ///
    /// # Errors
    /// The geometry is impossible.
    pub fn new(
        geometry: CacheGeometry,
        replacement: Replacement,
        random: Random,
    ) -> Result<Self, GeometryError> {
        let sets = geometry.sets()?;
        let tags = TagArray::new(sets, geometry.ways, replacement, random)?;
        Ok(Self {
            dirty: vec![0; tags.slots() as usize].into(),
            tags,
            line_shift: geometry.line_bytes.trailing_zeros(),
            set_index: SetIndex::new(sets),
        })
    }

    /// The number of sets.
    pub fn sets(&self) -> u32 {
        self.tags.sets()
    }

    /// The ways of a set.
    pub fn ways(&self) -> u32 {
        self.tags.ways()
    }

    /// Sets times ways: slots are below it.
    pub fn slots(&self) -> u32 {
        self.tags.slots()
    }

    /// log2 of the line size.
    #[inline]
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// The set to which `address` belongs.
    #[inline]
    pub fn set_of(&self, address: u64) -> u32 {
        self.set_index.of(address >> self.line_shift)
    }

    /// Where the line of `address` is; changes nothing that affects replacement.
    #[inline]
    pub fn find(&mut self, address: u64) -> Option<Slot> {
        self.find_in_set(self.set_of(address), address)
    }

    /// [`Cache::find`] in a set of the driver's choice.
    #[inline]
    pub fn find_in_set(&mut self, set: u32, address: u64) -> Option<Slot> {
        self.tags.find(set, address >> self.line_shift)
    }

    /// [`Cache::find_in_set`] for who only looks.
    pub fn peek_in_set(&self, set: u32, address: u64) -> Option<Slot> {
        self.tags.peek(set, address >> self.line_shift)
    }

    /// Records a use of `slot` for replacement.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.tags.touch(slot);
    }

    /// The slot that a fill with `address` evicts. Advances the generator or the pointer, so
    /// call it once a fill.
    #[inline]
    pub fn victim(&mut self, address: u64) -> Slot {
        self.victim_in_set(self.set_of(address))
    }

    /// [`Cache::victim`] in a set of the driver's choice.
    #[inline]
    pub fn victim_in_set(&mut self, set: u32) -> Slot {
        self.tags.victim(set, Partition::Normal)
    }

    /// Puts the line of `address`, clean, into `slot`, records the use and returns what it
    /// evicts.
    #[inline]
    pub fn replace(&mut self, slot: Slot, address: u64) -> Option<Evicted> {
        let line = self.tags.replace(slot, address >> self.line_shift)?;
        let dirty = std::mem::take(&mut self.dirty[slot as usize]);
        Some(Evicted { address: line << self.line_shift, dirty })
    }

    /// One reference that allocates: find and touch, or evict and fill.
    #[inline]
    pub fn access(&mut self, address: u64) -> Access {
        let line = address >> self.line_shift;
        let set = self.set_index.of(line);
        if let Some(slot) = self.tags.find(set, line) {
            self.touch(slot);
            return Access::Hit(slot);
        }
        let slot = self.victim_in_set(set);
        Access::Miss { slot, evicted: self.replace(slot, address) }
    }

    /// The address of the line in `slot`, if it holds one.
    #[inline]
    pub fn address(&self, slot: Slot) -> Option<u64> {
        Some(self.tags.tag(slot)? << self.line_shift)
    }

    /// The dirty parts of `slot`.
    #[inline]
    pub fn dirty(&self, slot: Slot) -> u8 {
        self.dirty[slot as usize]
    }

    /// Marks parts of `slot` dirty, one bit a part (a whole line, halves, ...).
    #[inline]
    pub fn mark_dirty(&mut self, slot: Slot, parts: u8) {
        self.dirty[slot as usize] |= parts;
    }

    /// What uses change ([`TagArray::recency`]), and the dirty parts of all slots: what hits
    /// change.
    pub fn hit_state(&mut self) -> (Option<Recency<'_>>, &mut [u8]) {
        (self.tags.recency(), &mut self.dirty)
    }

    /// Marks `slot` clean and returns which parts were dirty.
    #[inline]
    pub fn clean(&mut self, slot: Slot) -> u8 {
        std::mem::take(&mut self.dirty[slot as usize])
    }

    /// Empties `slot` and returns what was there; writing back is the driver's affair.
    pub fn invalidate_slot(&mut self, slot: Slot) -> Option<Evicted> {
        let line = self.tags.remove(slot)?;
        let dirty = self.clean(slot);
        Some(Evicted { address: line << self.line_shift, dirty })
    }

    /// Empties the slot that holds `address` and returns what was there.
    pub fn invalidate(&mut self, address: u64) -> Option<Evicted> {
        let slot = self.find(address)?;
        self.invalidate_slot(slot)
    }

    /// Empties the cache, dirty lines included.
    pub fn invalidate_all(&mut self) {
        self.tags.clear();
        self.dirty.fill(0);
    }

    /// The filled slots in ascending order, with the address and the dirty parts of each.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Evicted)> + '_ {
        self.tags.iter().map(|(slot, line)| {
            let dirty = self.dirty[slot as usize];
            (slot, Evicted { address: line << self.line_shift, dirty })
        })
    }

    /// Changes which line gives way from the next fill on; what is in the cache stays. Random
    /// replacement continues where it was.
    ///
    /// # Errors
    /// The replacement does not fit the number of ways.
    pub fn set_replacement(&mut self, replacement: Replacement) -> Result<(), GeometryError> {
        self.tags.set_replacement(replacement)
    }

    /// Locks the ways whose bits are set, in every set and from now on: what they hold stays, and
    /// fills use the others. Ways from 64 on cannot be locked.
    ///
    /// # Errors
    /// No way would be left.
    pub fn lock_ways(&mut self, ways: u64) -> Result<(), GeometryError> {
        self.tags.close_ways(ways)
    }

    /// The next fill of each set goes into `way`, and round robin continues from there: software
    /// has written the victim pointers.
    pub fn aim_next_fill(&mut self, way: u32) {
        self.tags.aim(way);
    }
}
