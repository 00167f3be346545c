//! Any hierarchy that a machine file can describe.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use mmulab_hardware::{Cache, CacheGeometry, GeometryError, Ledger, Random, Replacement, Slot};
use mmulab_machine as machine;
use mmulab_machine::{CacheLevel, ReplayMachine};

use super::{
    AllLevelsLookup, CacheCounters, Caches, Follower, Location, MAXIMUM_LEVELS, Side, miss_cycles,
};
use crate::cause::{Cause, Role};

/// Any hierarchy that a machine file can describe.
///
/// A miss in one level references the next, for the byte that missed, and then fills. Where lines
/// below are shorter than lines above, the rest of a line comes along without being looked up. A store marks the lines dirty in the
/// first write-back level that it reaches; write-through levels pass it on. What a dirty line or a
/// passed-on store does below happens in a write buffer: it costs no cycles and leaves replacement
/// alone. A dirty line goes down under the address of its first byte.
///
/// Nothing that a level does depends on those below it. So one hierarchy can drive the lower levels of
/// others that begin with the same levels: its [followers](Follower).
#[derive(Clone, Debug)]
pub struct Hierarchy {
    caches: Vec<Level>,
    /// For each side and level from `first` on, the index in `caches`.
    path: [Vec<usize>; 2],
    /// The first level that is here; those above are those of the hierarchy that this one follows.
    first: usize,
    miss_cycles: [u64; MAXIMUM_LEVELS],
    any_is_physical: bool,
    pub(super) followers: Vec<Follower>,
    /// What the levels below the first are still to be told, in order.
    pending: Vec<Pending>,
    /// Of these what a level asks of the next one; kept for its memory.
    below: Vec<Pending>,
    fetched_ahead: VecDeque<FetchedAhead>,
}

/// A fetch that missed the first level ahead of data references.
#[derive(Clone, Debug)]
struct FetchedAhead {
    /// Of its block.
    number: u32,
    at: Location,
    /// How many data references come before it, without and with those of its block.
    references: RangeInclusive<usize>,
}

/// What a level asks of those below it.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// A reference that missed the first level.
    Reference { role: Role, at: Location, is_store: bool },
    /// A store or a dirty line that nobody waits for.
    Write(Location),
}

/// How many requests the levels below the first are told at once. The tags of the first have arrived in the host's cache by then.
const PENDING: usize = 48;

#[derive(Clone, Debug)]
struct Level {
    name: String,
    cache: Cache,
    is_physical: bool,
    /// The virtual and physical address of each slot's line, by which a dirty line finds its way down. Empty where all
    /// caches go by the same address.
    locations: Box<[Location]>,
    is_write_back: bool,
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
    fn address(&self, at: Location) -> u64 {
        if self.is_physical { at.physical_address } else { at.virtual_address }
    }

    /// Fills with the line of a byte. Gives its slot, and the line that has to be written below: a dirty one that was
    /// there.
    #[inline(always)]
    fn fill(&mut self, at: Location) -> (Slot, Option<Location>) {
        let address = self.address(at);
        let slot = self.cache.victim(address);
        let evicted = self.cache.replace(slot, address);
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
        (slot, dirty)
    }
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
            pending: Vec::new(),
            below: Vec::new(),
            fetched_ahead: VecDeque::new(),
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

    /// [`Caches::reference`] that enters at `level`, which is 0 but for hardware walkers that bypass the
    /// first level. Gives the slot of that level that now holds the line; `None` after a store that does
    /// not allocate.
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

    /// [`Hierarchy::reference_slot`] that enters at the first level and tells those below later: nothing that the first
    /// does depends on them. What they charge is in the ledger that [`Hierarchy::settle`] is given.
    #[inline]
    pub(crate) fn reference_first_level(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        let side = role.side() as usize;
        let slot = if let Some(slot) = self.hit_first_level(side, at) {
            slot
        } else {
            self.miss_first_level(role, is_store, ledger);
            self.pending.push(Pending::Reference { role, at, is_store });
            let here = &mut self.caches[self.path[side][0]];
            if is_store && !here.allocates_on_store {
                self.pending.push(Pending::Write(at));
                return None;
            }
            let (slot, dirty) = here.fill(at);
            self.pending.extend(dirty.map(Pending::Write));
            slot
        };
        if is_store {
            let here = &mut self.caches[self.path[side][0]];
            if here.is_write_back {
                here.cache.mark_dirty(slot, 1);
            } else {
                self.pending.push(Pending::Write(at));
            }
        }
        if self.pending.len() >= PENDING {
            self.settle(ledger);
        }
        Some(slot)
    }

    /// A fetch of block `number` that is made ahead of data references that come before it, as many as `references` says, of
    /// which the block's own are the last: the levels below are told when these have been made
    /// ([`Hierarchy::release_fetches`]). The first level is split.
    #[inline]
    pub(crate) fn fetch_ahead(
        &mut self,
        at: Location,
        number: u32,
        references: RangeInclusive<usize>,
        ledger: &mut Ledger<Cause>,
    ) -> Slot {
        let side = Side::Instruction as usize;
        self.hit_first_level(side, at).unwrap_or_else(|| {
            self.miss_first_level(Role::Fetch, false, ledger);
            self.fetched_ahead.push_back(FetchedAhead { number, at, references });
            self.caches[self.path[side][0]].fill(at).0
        })
    }

    /// Of the data references of which fetches were made ahead, `made` have been made. `own_before` is how many of a block come
    /// before its fetch of an address; it is asked only where that tells.
    #[inline]
    pub(crate) fn release_fetches(&mut self, made: usize, own_before: impl Fn(u32, u64) -> usize) {
        while let Some(FetchedAhead { number, at, references }) = self.fetched_ahead.front() {
            let (first, last, at) = (*references.start(), *references.end(), *at);
            let is_later = first > made
                || last > made && first + own_before(*number, at.virtual_address) > made;
            if is_later {
                break;
            }
            self.fetched_ahead.pop_front();
            self.pending.push(Pending::Reference { role: Role::Fetch, at, is_store: false });
        }
    }

    #[inline(always)]
    fn hit_first_level(&mut self, side: usize, at: Location) -> Option<Slot> {
        let here = &mut self.caches[self.path[side][0]];
        let slot = here.cache.find(here.address(at))?;
        here.cache.touch(slot);
        here.hits += 1;
        Some(slot)
    }

    #[inline(always)]
    fn miss_first_level(&mut self, role: Role, is_store: bool, ledger: &mut Ledger<Cause>) {
        let (side, levels) = (role.side() as usize, self.levels());
        let here = &mut self.caches[self.path[side][0]];
        here.misses += 1;
        here.store_misses += u64::from(is_store);
        ledger.charge(role.miss(0, levels), self.miss_cycles[0]);
    }

    /// Tells the levels below the first what they have not been told yet.
    pub(crate) fn settle(&mut self, ledger: &mut Ledger<Cause>) {
        let levels = self.levels();
        let [mut requests, mut below] = [&mut self.pending, &mut self.below].map(std::mem::take);
        if !self.followers.is_empty() {
            for request in requests.drain(..) {
                match request {
                    Pending::Reference { role, at, is_store } => {
                        self.reference_from(1, role, at, is_store, 0, ledger);
                    }
                    Pending::Write(at) => self.write_below(1, at),
                }
            }
        }
        // A level at a time, since none depends on those below it.
        for number in 1..levels {
            for request in requests.drain(..) {
                match request {
                    Pending::Reference { role, at, is_store } => {
                        let here = &mut self.caches[self.path[role.side() as usize][number]];
                        if let Some(slot) = here.cache.find(here.address(at)) {
                            here.cache.touch(slot);
                            here.hits += 1;
                            continue;
                        }
                        here.misses += 1;
                        here.store_misses += u64::from(is_store);
                        ledger.charge(role.miss(number, levels), self.miss_cycles[number]);
                        below.push(request);
                        if !is_store || here.allocates_on_store {
                            below.extend(here.fill(at).1.map(Pending::Write));
                        }
                    }
                    Pending::Write(at) => {
                        let here = &mut self.caches[self.path[1][number]];
                        let found = here.is_write_back.then(|| here.cache.find(here.address(at)));
                        match found.flatten() {
                            Some(slot) => here.cache.mark_dirty(slot, 1),
                            None => below.push(request),
                        }
                    }
                }
            }
            std::mem::swap(&mut requests, &mut below);
        }
        requests.clear();
        [self.pending, self.below] = [requests, below];
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
            if found == level {
                self.prefetch(side, level + 1, at);
            }
            let here = &mut self.caches[self.path[side][found - self.first]];
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

    /// Fetches the tags of `at` in the levels from `level` on into the host's cache, for which it would have to wait
    /// where caches are large.
    pub(super) fn prefetch(&self, side: usize, level: usize, at: Location) {
        for &below in self.path[side].iter().skip(level.saturating_sub(self.first)) {
            let below = &self.caches[below];
            below.cache.prefetch(below.address(at));
        }
        for follower in &self.followers {
            follower.prefetch(side, level, at);
        }
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

    /// Takes the shared caches of `other`, all but the first `own`, in place of those that it lacks.
    pub(crate) fn take_shared(&mut self, own: usize, other: &mut Self) {
        self.caches.extend(other.caches.drain(own..));
    }

    /// What each cache did, together with those of other cores; hits of the first level follow from the `references` of
    /// each side.
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
