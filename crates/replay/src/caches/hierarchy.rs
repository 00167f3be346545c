//! Any hierarchy that a machine file can describe.

use mmulab_hardware::{
    Access, Cache, CacheGeometry, Evicted, GeometryError, Ledger, Random, Replacement, Slot,
};
use mmulab_machine as machine;
use mmulab_machine::{CacheLevel, ReplayMachine};

use super::deferred::Deferred;
use super::{
    AllLevelsLookup, CacheCounters, Caches, Follower, Location, MAXIMUM_LEVELS, Side, miss_cycles,
};
use crate::cause::{Cause, Role};

/// Any hierarchy that a machine file can describe.
///
/// A miss in one level references the next, for the byte that missed, and then fills. Where lines
/// below are shorter than lines above, the rest of a line comes along without being looked up. A
/// store marks the lines dirty in the first write-back level that it reaches; write-through levels
/// pass it on. What a dirty line or a passed-on store does below happens in a write buffer: it
/// costs no cycles and leaves replacement alone. A dirty line goes down under the address of its
/// first byte.
///
/// Nothing that a level does depends on those below it. So one hierarchy can drive the lower levels
/// of others that begin with the same levels: its [followers](Follower).
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub(super) caches: Vec<Level>,
    /// For each side and level from `first` on, the index in `caches`.
    pub(super) path: [Vec<usize>; 2],
    /// The first level that is here; those above are those of the hierarchy that this one follows.
    first: usize,
    pub(super) miss_cycles: [u64; MAXIMUM_LEVELS],
    any_is_physical: bool,
    pub(super) followers: Vec<Follower>,
    pub(super) deferred: Deferred,
}

#[derive(Clone, Debug)]
pub(super) struct Level {
    name: String,
    pub(super) cache: Cache,
    is_physical: bool,
    /// The virtual and physical address of each slot's line, by which a dirty line finds its way
    /// down. Empty where all caches go by the same address.
    locations: Box<[Location]>,
    pub(super) is_write_back: bool,
    allocates_on_store: bool,
    hits: u64,
    misses: u64,
    store_misses: u64,
    write_backs: u64,
}

pub(crate) fn replacement(replacement: machine::Replacement) -> Replacement {
    match replacement {
        machine::Replacement::Random => Replacement::Random,
        machine::Replacement::RoundRobin => Replacement::RoundRobin,
        machine::Replacement::Lru => Replacement::Lru,
        machine::Replacement::Plru => Replacement::TreePseudoLru,
    }
}

impl Level {
    fn new(name: String, cache: &machine::Cache, random: Random) -> Result<Self, GeometryError> {
        let ways = cache.ways.count(cache.size_bytes / u64::from(cache.line_bytes));
        let geometry = CacheGeometry {
            size_bytes: cache.size_bytes,
            line_bytes: cache.line_bytes,
            ways: u32::try_from(ways)
                .map_err(|_| GeometryError(format!("{name}: {ways} ways are too many")))?,
        };
        let cache_model = Cache::new(geometry, replacement(cache.replacement), random)
            .map_err(|error| GeometryError(format!("{name}: {error}")))?;
        Ok(Self {
            name,
            cache: cache_model,
            is_physical: cache.addressing == machine::Addressing::Physical,
            locations: Box::default(),
            is_write_back: cache.write_policy == machine::WritePolicy::WriteBack,
            allocates_on_store: cache.write_allocate,
            hits: 0,
            misses: 0,
            store_misses: 0,
            write_backs: 0,
        })
    }

    /// The address by which this cache knows a byte.
    #[inline]
    pub(super) fn address(&self, at: Location) -> u64 {
        if self.is_physical { at.physical_address } else { at.virtual_address }
    }

    /// References the line of a byte, and fills with it if it is not here, unless that is for
    /// stores that do not allocate.
    #[inline(always)]
    pub(super) fn reference(&mut self, at: Location, is_store: bool) -> Referenced {
        let address = self.address(at);
        let stays_out = is_store && !self.allocates_on_store && self.cache.find(address).is_none();
        let (slot, evicted) = if stays_out {
            (None, None)
        } else {
            match self.cache.access(address) {
                Access::Hit(slot) => {
                    self.hits += 1;
                    return Referenced { slot: Some(slot), is_hit: true, dirty: None };
                }
                Access::Miss { slot, evicted } => (Some(slot), evicted),
            }
        };
        self.misses += 1;
        self.store_misses += u64::from(is_store);
        let dirty = slot.and_then(|slot| self.note_fill(slot, evicted, at));
        Referenced { slot, is_hit: false, dirty }
    }

    /// Fills with the line of a byte. Gives its slot, and the line that has to be written below.
    fn fill(&mut self, at: Location) -> (Slot, Option<Location>) {
        let address = self.address(at);
        let slot = self.cache.victim(address);
        let evicted = self.cache.replace(slot, address);
        (slot, self.note_fill(slot, evicted, at))
    }

    /// The line of a byte is in `slot` in place of what was `evicted`; what has to be written
    /// below: that, if it is dirty.
    #[inline(always)]
    fn note_fill(
        &mut self,
        slot: Slot,
        evicted: Option<Evicted>,
        at: Location,
    ) -> Option<Location> {
        let line = !0 << self.cache.line_shift();
        let first = Location {
            virtual_address: at.virtual_address & line,
            physical_address: at.physical_address & line,
        };
        let old = match self.locations.get_mut(slot as usize) {
            Some(location) => Some(std::mem::replace(location, first)),
            None => evicted.map(|evicted| Location::same(evicted.address)),
        };
        let dirty = old.filter(|_| evicted.is_some_and(|evicted| evicted.dirty != 0));
        self.write_backs += u64::from(dirty.is_some());
        dirty
    }
}

/// What a reference found in a cache.
pub(super) struct Referenced {
    /// Where the line is now, if it is.
    pub(super) slot: Option<Slot>,
    pub(super) is_hit: bool,
    /// The line that has to be written below.
    pub(super) dirty: Option<Location>,
}

impl Hierarchy {
    /// The caches of `machine`.
    ///
    /// # Errors
    /// One of them is impossible.
    pub fn new(machine: &ReplayMachine, seed: u64) -> Result<Self, GeometryError> {
        Self::from_level(0, machine, seed)
    }

    /// The caches of `machine` from level `first` on.
    pub(super) fn from_level(
        first: usize,
        machine: &ReplayMachine,
        seed: u64,
    ) -> Result<Self, GeometryError> {
        let levels = machine.cache_levels();
        let caches = levels.iter().flat_map(CacheLevel::caches);
        let physical = caches.filter(|cache| cache.addressing == machine::Addressing::Physical);
        let physical = physical.count();
        let count = levels.iter().flat_map(CacheLevel::caches).count();
        let mut hierarchy = Self {
            caches: Vec::new(),
            path: [Vec::new(), Vec::new()],
            first,
            miss_cycles: miss_cycles(machine),
            any_is_physical: physical > 0,
            followers: Vec::new(),
            deferred: Deferred::default(),
        };
        let above: usize = levels[..first].iter().map(|level| level.caches().count()).sum();
        // Streams 0 to 9 belong to TLBs and frames.
        let mut streams = (10 + above as u64..).map(|stream| Random::stream(seed, stream));
        for (number, level) in levels.iter().enumerate().skip(first) {
            let number = number + 1;
            let mut add = |name, cache| {
                let random = streams.next().unwrap_or_else(|| unreachable!("there is no last"));
                hierarchy.caches.push(Level::new(name, cache, random)?);
                Ok(hierarchy.caches.len() - 1)
            };
            let [instruction, data] = match level {
                CacheLevel::Split { instruction, data } => {
                    [add(format!("L{number}i"), instruction)?, add(format!("L{number}d"), data)?]
                }
                CacheLevel::Unified(cache) => [add(format!("L{number}"), cache)?; 2],
            };
            hierarchy.path[0].push(instruction);
            hierarchy.path[1].push(data);
        }
        if physical > 0 && physical < count {
            for level in &mut hierarchy.caches {
                level.locations = vec![Location::default(); level.cache.slots() as usize].into();
            }
        }
        Ok(hierarchy)
    }

    /// A store or a dirty line arrives from above at `level` of the data side without waiting.
    pub(super) fn write_below(&mut self, level: usize, at: Location) {
        let levels = self.levels();
        for level in level..levels {
            for follower in &mut self.followers {
                follower.write(level, at);
            }
            let below = &mut self.caches[self.path[1][level - self.first]];
            if below.is_write_back {
                let address = below.address(at);
                if let Some(slot) = below.cache.find(address) {
                    below.cache.mark_dirty(slot, 1);
                    return;
                }
            }
        }
    }

    fn store_hit(&mut self, level: usize, slot: Slot, at: Location) {
        let here = &mut self.caches[self.path[1][level - self.first]];
        if here.is_write_back {
            here.cache.mark_dirty(slot, 1);
        } else {
            self.write_below(level + 1, at);
        }
    }

    /// [`Caches::reference`] that enters at `level`, which is 0 but for hardware walkers that
    /// bypass the first level. Gives the slot of that level that now holds the line; `None` after a
    /// store that does not allocate.
    pub(crate) fn reference_slot(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        level: usize,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        self.reference_from(level, role, at, is_store, level, ledger)
    }

    /// [`Hierarchy::reference_slot`] at `start`, because those from `level` to there missed.
    pub(super) fn reference_from(
        &mut self,
        start: usize,
        role: Role,
        at: Location,
        is_store: bool,
        level: usize,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        let side = role.side() as usize;
        let levels = self.levels();
        let mut found = start;
        let mut entered = None;
        while found < levels {
            for follower in &mut self.followers {
                follower.reference(found, role, at, is_store, level);
            }
            let here = &mut self.caches[self.path[side][found - self.first]];
            if let Some(slot) = here.cache.find(here.address(at)) {
                here.cache.touch(slot);
                here.hits += 1;
                if found == level {
                    if is_store {
                        self.store_hit(found, slot, at);
                    }
                    return Some(slot);
                }
                break;
            }
            here.misses += 1;
            here.store_misses += u64::from(is_store);
            ledger.charge(role.miss(found, levels), self.miss_cycles[found]);
            found += 1;
        }
        // Fills run upwards: a level is filled when those below it have the line, so the dirty line
        // that it evicts finds them as they will be.
        for fill in (start..found).rev() {
            let here = &mut self.caches[self.path[side][fill - self.first]];
            if is_store && !here.allocates_on_store {
                if fill == level {
                    self.write_below(level + 1, at);
                }
                continue;
            }
            let (slot, dirty) = here.fill(at);
            if let Some(dirty) = dirty {
                self.write_below(fill + 1, dirty);
            }
            if fill == level {
                entered = Some(slot);
                if is_store {
                    self.store_hit(fill, slot, at);
                }
            }
        }
        entered
    }

    /// The number of its first level: 0, but for lower levels that follow others.
    #[inline]
    pub(super) fn first_number(&self) -> usize {
        self.first
    }

    /// The number of levels, those above included.
    #[inline]
    pub(crate) fn levels(&self) -> usize {
        self.first + self.path[0].len()
    }

    /// Whether a load or store that hits the first level concerns no other.
    pub(crate) fn first_level_keeps_stores(&self) -> bool {
        self.caches[self.path[Side::Data as usize][0]].is_write_back
    }

    /// Leaves the first `own` caches, which a core does not share with others.
    pub(crate) fn drop_shared(&mut self, own: usize) {
        self.caches.truncate(own);
    }

    /// Takes the shared caches of `other`, all but the first `own`, in place of those that it
    /// lacks.
    pub(crate) fn take_shared(&mut self, own: usize, other: &mut Self) {
        self.caches.extend(other.caches.drain(own..));
    }

    /// What each cache did, together with those of other cores; hits of the first level follow from
    /// the `references` of each side.
    pub(crate) fn counters_with<'a>(
        &self,
        others: impl Iterator<Item = &'a Self>,
        references: [u64; 2],
    ) -> Vec<CacheCounters> {
        let mut counters = self.counters_of_followed();
        for other in others {
            for (own, other) in counters.iter_mut().zip(&other.caches) {
                own.hits += other.hits;
                own.misses += other.misses;
                own.store_misses = own.store_misses.map(|misses| misses + other.store_misses);
                own.write_backs += other.write_backs;
            }
        }
        for (index, counter) in counters.iter_mut().enumerate() {
            let sides = (0..2).filter(|&side| self.path[side][0] == index);
            let references: Option<u64> = sides.map(|side| references[side]).reduce(|a, b| a + b);
            if let Some(references) = references {
                counter.hits = references.wrapping_sub(counter.misses);
            }
        }
        counters
    }

    /// The first level of a side, for hits that are known without a look-up.
    #[inline(always)]
    pub(crate) fn first_level(&mut self, side: Side) -> &mut Cache {
        &mut self.caches[self.path[side as usize][0]].cache
    }
}

impl Hierarchy {
    /// What each cache did that is referenced here alone, as are all but a machine's first level.
    pub(super) fn counters_of_followed(&self) -> Vec<CacheCounters> {
        let counters = |level: &Level| CacheCounters {
            name: level.name.clone(),
            hits: level.hits,
            misses: level.misses,
            store_misses: Some(level.store_misses),
            write_backs: level.write_backs,
        };
        self.caches.iter().map(counters).collect()
    }
}

impl Caches for Hierarchy {
    fn any_is_physical(&self) -> bool {
        self.any_is_physical
    }

    fn first_level_is_unified(&self) -> bool {
        self.path[0][0] == self.path[1][0]
    }

    fn line_shift(&self, side: Side) -> u32 {
        self.caches[self.path[side as usize][0]].cache.line_shift()
    }

    #[inline]
    fn reference(&mut self, role: Role, at: Location, is_store: bool, ledger: &mut Ledger<Cause>) {
        self.reference_slot(role, at, is_store, 0, ledger);
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        self.counters_with(std::iter::empty(), references)
    }
}

impl AllLevelsLookup for Hierarchy {
    fn would_miss_all(&mut self, side: Side, at: Location) -> bool {
        let caches = &mut self.caches;
        !self.path[side as usize].iter().any(|&index| {
            let address = caches[index].address(at);
            caches[index].cache.find(address).is_some()
        })
    }
}
