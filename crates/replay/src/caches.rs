//! The cache hierarchy under a replayed program.
//!
//! [`SplitDirectMapped`] is the study's shape and the fast one; [`Hierarchy`] is every other. Both
//! do the same for the shapes that both can be, and a test says so.

use std::ops::Range;

use mmulab_hardware::{Cache, CacheGeometry, GeometryError, Ledger, Random, Replacement, Slot};
use mmulab_machine as machine;
use mmulab_machine::{CacheLevel, ReplayMachine};

use crate::cause::{Cause, Role};

/// How many levels a machine file can describe.
pub const MAXIMUM_LEVELS: usize = 3;

/// The two sides of a split level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instructions of the program and of handlers.
    Instruction,
    /// The program's data and page-table entries.
    Data,
}

impl Role {
    /// The side that this role references.
    pub fn side(self) -> Side {
        match self {
            Role::Fetch | Role::Handler => Side::Instruction,
            Role::Data | Role::Pte(_) => Side::Data,
        }
    }
}

/// A byte of memory by both its names. Where no cache is physical the two are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// As the program, a handler or a walk addresses it.
    pub virtual_address: u64,
    /// Where it is.
    pub physical_address: u64,
}

impl Location {
    /// A byte that has one name only.
    #[inline(always)]
    pub fn same(address: u64) -> Self {
        Self { virtual_address: address, physical_address: address }
    }
}

/// Caches that take references and charge what they cost. What is not said otherwise is true of two
/// split levels of virtual caches.
pub trait Caches {
    /// Whether hits in the first level change nothing, stores are as loads, and instructions and data
    /// meet in no cache. Then a slice of hits can be passed over after looking, and the order of
    /// instruction and data references does not matter between walks.
    const IS_PLAIN: bool;

    /// Whether any cache goes by physical addresses, so that a driver must know them.
    fn any_is_physical(&self) -> bool {
        false
    }

    /// Whether instructions and data share the first level.
    fn first_level_is_unified(&self) -> bool {
        false
    }

    /// log2 of the line size of the first level of a side.
    fn line_shift(&self, side: Side) -> u32;

    /// The number of levels.
    fn levels(&self) -> usize {
        2
    }

    /// How many sets the first level of a side has, the smallest of many. Only asked of plain caches.
    fn first_level_sets(&self, side: Side) -> usize;

    /// The bits of an address in which two must agree for their lines to displace each other in any
    /// cache of a side: those above the longest line and within the smallest cache. Only asked of plain
    /// caches.
    fn index_bits(&self, side: Side) -> Range<u32>;

    /// Whether the first level of a side holds `address`. Changes nothing. Only asked of plain caches,
    /// where there is no TLB.
    fn holds(&self, side: Side, address: u32) -> bool;

    /// Whether no cache on a side holds the byte. Changes nothing that matters.
    fn is_in_memory_only(&mut self, side: Side, at: Location) -> bool;

    /// References the line of a byte, fills where it missed, and charges each miss to `ledger`.
    ///
    /// `level` is where the reference enters: 0, except for hardware walkers of 64-bit machines that
    /// bypass the first level.
    fn reference(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        level: usize,
        ledger: &mut Ledger<Cause>,
    );

    /// What each cache did. `references` are those made to the first level, by side: a driver need
    /// not come here for a hit that changes nothing, so it counts them.
    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters>;
}

/// What one cache did, for the program and for walks and handlers together.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CacheCounters {
    /// `L1i`, `L1d`, `L2`, ...
    pub name: String,
    /// References that found their line.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Those of the misses that were stores; not known of split direct-mapped caches that treat
    /// stores as loads.
    pub store_misses: Option<u64>,
    /// Dirty lines that left it for the level below.
    pub write_backs: u64,
}

/// [`Caches::index_bits`] of direct-mapped caches, each with its number of lines (a power of two) and
/// log2 of their length.
pub(crate) fn index_bits(caches: impl Iterator<Item = (usize, u32)> + Clone) -> Range<u32> {
    let longest = caches.clone().map(|(_, shift)| shift).max().unwrap_or(0);
    let smallest = caches.map(|(lines, shift)| lines.trailing_zeros() + shift).min().unwrap_or(0);
    longest.min(smallest)..smallest
}

/// Cycles added by a miss in each level.
pub(crate) fn miss_cycles(machine: &ReplayMachine) -> [u64; MAXIMUM_LEVELS] {
    let levels = machine.cache_levels();
    let mut cycles = [0; MAXIMUM_LEVELS];
    for (level, cycles) in cycles.iter_mut().enumerate().take(levels.len()) {
        *cycles = u64::from(match levels.get(level + 1) {
            Some(CacheLevel::Split { data, .. }) => data.latency_cycles,
            Some(CacheLevel::Unified(cache)) => cache.latency_cycles,
            None => machine.memory.latency_cycles,
        });
    }
    cycles
}

/// Two levels, split and direct-mapped, that allocate on every miss: tags and nothing else.
#[derive(Clone, Debug)]
pub struct SplitDirectMapped {
    instruction: [Tags; 2],
    data: [Tags; 2],
    miss_cycles: [u64; 2],
}

/// The tags of a direct-mapped cache: the line number that each set holds.
#[derive(Clone, Debug)]
pub(crate) struct Tags {
    lines: Box<[u32]>,
    shift: u32,
    misses: u64,
}

impl Tags {
    /// No line: lines are at least four bytes long, so numbers end well below it.
    pub(crate) const EMPTY: u32 = u32::MAX;

    pub(crate) fn new(cache: &machine::Cache) -> Self {
        Self {
            lines: vec![Self::EMPTY; cache.sets() as usize].into(),
            shift: cache.line_bytes.trailing_zeros(),
            misses: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn holds(&self, address: u32) -> bool {
        let line = address >> self.shift;
        self.lines[line as usize & (self.lines.len() - 1)] == line
    }

    #[inline(always)]
    pub(crate) fn misses(&mut self, address: u32) -> bool {
        let line = address >> self.shift;
        let set = line as usize & (self.lines.len() - 1);
        if self.lines[set] == line {
            return false;
        }
        self.lines[set] = line;
        self.misses += 1;
        true
    }

    /// How often [`Tags::misses`] said yes.
    pub(crate) fn miss_count(&self) -> u64 {
        self.misses
    }
}

/// Misses of one role that are still to be charged.
#[derive(Clone, Copy, Debug, Default)]
struct Misses {
    first: u64,
    second: u64,
}

impl Misses {
    #[inline]
    fn charge(self, role: Role, miss_cycles: [u64; 2], ledger: &mut Ledger<Cause>) {
        if self.first == 0 {
            return;
        }
        ledger.charge_many(role.miss(0, 2), self.first, self.first * miss_cycles[0]);
        ledger.charge_many(role.miss(1, 2), self.second, self.second * miss_cycles[1]);
    }
}

impl SplitDirectMapped {
    /// The caches of `machine`, if they have this shape.
    pub fn new(machine: &ReplayMachine) -> Option<Self> {
        let [[l1i, l2i], [l1d, l2d]] = Self::shape(machine)?;
        let [first, second, _] = miss_cycles(machine);
        Some(Self {
            instruction: [Tags::new(l1i), Tags::new(l2i)],
            data: [Tags::new(l1d), Tags::new(l2d)],
            miss_cycles: [first, second],
        })
    }

    /// The two levels of each side of `machine`, if its caches have this shape.
    pub(crate) fn shape(machine: &ReplayMachine) -> Option<[[&machine::Cache; 2]; 2]> {
        let levels = machine.cache_levels();
        let [
            CacheLevel::Split { instruction: l1i, data: l1d },
            CacheLevel::Split { instruction: l2i, data: l2d },
        ] = levels[..]
        else {
            return None;
        };
        // Write-back changes nothing here but a traffic count, which `Hierarchy` keeps.
        let fits = |cache: &&machine::Cache| {
            cache.addressing == machine::Addressing::Virtual
                && cache.ways.count(cache.size_bytes / u64::from(cache.line_bytes)) == 1
                && cache.sets().is_power_of_two()
                && cache.write_allocate
                && cache.write_policy == machine::WritePolicy::WriteThrough
        };
        [l1i, l1d, l2i, l2d].iter().all(fits).then_some([[l1i, l2i], [l1d, l2d]])
    }

    #[inline(always)]
    fn side(&self, side: Side) -> &[Tags; 2] {
        match side {
            Side::Instruction => &self.instruction,
            Side::Data => &self.data,
        }
    }
}

impl Caches for SplitDirectMapped {
    const IS_PLAIN: bool = true;

    #[inline(always)]
    fn line_shift(&self, side: Side) -> u32 {
        self.side(side)[0].shift
    }

    fn first_level_sets(&self, side: Side) -> usize {
        self.side(side)[0].lines.len()
    }

    fn index_bits(&self, side: Side) -> Range<u32> {
        let shapes = self.side(side).each_ref().map(|tags| (tags.lines.len(), tags.shift));
        index_bits(shapes.into_iter())
    }

    #[inline(always)]
    fn holds(&self, side: Side, address: u32) -> bool {
        self.side(side)[0].holds(address)
    }

    #[inline]
    fn is_in_memory_only(&mut self, side: Side, at: Location) -> bool {
        !self.side(side).iter().any(|tags| tags.holds(at.virtual_address as u32))
    }

    #[inline(always)]
    fn reference(
        &mut self,
        role: Role,
        at: Location,
        _is_store: bool,
        _level: usize,
        ledger: &mut Ledger<Cause>,
    ) {
        let address = at.virtual_address as u32;
        let [first, second] = match role.side() {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        };
        if first.misses(address) {
            let misses = Misses { first: 1, second: u64::from(second.misses(address)) };
            misses.charge(role, self.miss_cycles, ledger);
        }
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        let counters = |name: &str, tags: &Tags, hits| CacheCounters {
            name: name.to_owned(),
            hits,
            misses: tags.misses,
            store_misses: None,
            write_backs: 0,
        };
        let [l1i, l2i] = &self.instruction;
        let [l1d, l2d] = &self.data;
        vec![
            counters("L1i", l1i, references[0].saturating_sub(l1i.misses)),
            counters("L1d", l1d, references[1].saturating_sub(l1d.misses)),
            // All references enter at the first level.
            counters("L2i", l2i, l1i.misses - l2i.misses),
            counters("L2d", l2d, l1d.misses - l2d.misses),
        ]
    }
}

/// Any hierarchy that a machine file can describe.
///
/// A miss in one level references the next, for the byte that missed, and then fills. Where lines
/// below are shorter than lines above, the rest of a line comes along without being looked up. A store marks the lines dirty in the
/// first write-back level that it reaches; write-through levels pass it on. What a dirty line or a
/// passed-on store does below happens in a write buffer: it costs no cycles and leaves replacement
/// alone. A dirty line goes down under the address of its first byte.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    caches: Vec<Level>,
    /// For each side and level, the index in `caches`.
    path: [Vec<usize>; 2],
    miss_cycles: [u64; MAXIMUM_LEVELS],
    any_is_physical: bool,
}

#[derive(Clone, Debug)]
struct Level {
    name: String,
    cache: Cache,
    is_physical: bool,
    /// Both names of each slot's line, by which a dirty line finds its way down. Empty where all
    /// caches go by the same name.
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
    /// The name by which this cache knows a byte.
    #[inline]
    fn address(&self, at: Location) -> u64 {
        if self.is_physical { at.physical_address } else { at.virtual_address }
    }
}

impl Hierarchy {
    /// The caches of `machine`.
    ///
    /// # Errors
    /// One of them is impossible.
    pub fn new(machine: &ReplayMachine, seed: u64) -> Result<Self, GeometryError> {
        let mut hierarchy = Self {
            caches: Vec::new(),
            path: [Vec::new(), Vec::new()],
            miss_cycles: miss_cycles(machine),
            any_is_physical: false,
        };
        for (number, level) in machine.cache_levels().iter().enumerate() {
            let number = number + 1;
            match level {
                CacheLevel::Split { instruction, data } => {
                    let instruction = hierarchy.add(format!("L{number}i"), instruction, seed)?;
                    let data = hierarchy.add(format!("L{number}d"), data, seed)?;
                    hierarchy.path[0].push(instruction);
                    hierarchy.path[1].push(data);
                }
                CacheLevel::Unified(cache) => {
                    let unified = hierarchy.add(format!("L{number}"), cache, seed)?;
                    hierarchy.path[0].push(unified);
                    hierarchy.path[1].push(unified);
                }
            }
        }
        let caches = &mut hierarchy.caches;
        hierarchy.any_is_physical = caches.iter().any(|level| level.is_physical);
        if hierarchy.any_is_physical && !caches.iter().all(|level| level.is_physical) {
            for level in caches.iter_mut() {
                level.locations = vec![Location::default(); level.cache.slots() as usize].into();
            }
        }
        Ok(hierarchy)
    }

    fn add(
        &mut self,
        name: String,
        cache: &machine::Cache,
        seed: u64,
    ) -> Result<usize, GeometryError> {
        let ways = cache.ways.count(cache.size_bytes / u64::from(cache.line_bytes));
        let geometry = CacheGeometry {
            size_bytes: cache.size_bytes,
            line_bytes: cache.line_bytes,
            ways: u32::try_from(ways)
                .map_err(|_| GeometryError(format!("{name}: {ways} ways are too many")))?,
        };
        // Streams 0 to 9 belong to TLBs and frames.
        let random = Random::stream(seed, 10 + self.caches.len() as u64);
        let cache_model = Cache::new(geometry, replacement(cache.replacement), random)
            .map_err(|error| GeometryError(format!("{name}: {error}")))?;
        self.caches.push(Level {
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
        });
        Ok(self.caches.len() - 1)
    }

    /// A store or a dirty line arrives from above at `level` of the data side without waiting.
    fn write_below(&mut self, level: usize, at: Location) {
        for &index in &self.path[1][level..] {
            let below = &mut self.caches[index];
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
        let here = &mut self.caches[self.path[1][level]];
        if here.is_write_back {
            here.cache.mark_dirty(slot, 1);
        } else {
            self.write_below(level + 1, at);
        }
    }

    /// [`Caches::reference`] that tells the slot of the level where the reference entered that now
    /// holds the line; `None` after a store that does not allocate.
    pub(crate) fn reference_slot(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        level: usize,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        let side = role.side() as usize;
        let levels = self.path[side].len();
        let mut found = level;
        let mut entered = None;
        while found < levels {
            let here = &mut self.caches[self.path[side][found]];
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
        // that it displaces finds them as they will be.
        for fill in (level..found).rev() {
            let here = &mut self.caches[self.path[side][fill]];
            if is_store && !here.allocates_on_store {
                if fill == level {
                    self.write_below(level + 1, at);
                }
                continue;
            }
            let address = here.address(at);
            let slot = here.cache.victim(address);
            let evicted = here.cache.replace(slot, address);
            let line = !0 << here.cache.line_shift();
            let first = Location {
                virtual_address: at.virtual_address & line,
                physical_address: at.physical_address & line,
            };
            let old = match here.locations.get_mut(slot as usize) {
                Some(location) => Some(std::mem::replace(location, first)),
                None => evicted.map(|evicted| Location::same(evicted.address)),
            };
            if let (Some(evicted), Some(old)) = (evicted, old)
                && evicted.dirty != 0
            {
                here.write_backs += 1;
                self.write_below(fill + 1, old);
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

    /// Whether a load or store that hits the first level concerns no other.
    pub(crate) fn first_level_keeps_stores(&self) -> bool {
        self.caches[self.path[Side::Data as usize][0]].is_write_back
    }

    /// The first level of a side, for hits that are known without a look-up.
    #[inline(always)]
    pub(crate) fn first_level(&mut self, side: Side) -> &mut Cache {
        &mut self.caches[self.path[side as usize][0]].cache
    }
}

impl Caches for Hierarchy {
    const IS_PLAIN: bool = false;

    fn any_is_physical(&self) -> bool {
        self.any_is_physical
    }

    fn first_level_is_unified(&self) -> bool {
        self.path[0][0] == self.path[1][0]
    }

    fn line_shift(&self, side: Side) -> u32 {
        self.caches[self.path[side as usize][0]].cache.line_shift()
    }

    fn levels(&self) -> usize {
        self.path[0].len()
    }

    fn first_level_sets(&self, _side: Side) -> usize {
        1
    }

    fn index_bits(&self, _side: Side) -> Range<u32> {
        0..0
    }

    fn holds(&self, _side: Side, _address: u32) -> bool {
        false
    }

    fn is_in_memory_only(&mut self, side: Side, at: Location) -> bool {
        let caches = &mut self.caches;
        !self.path[side as usize].iter().any(|&index| {
            let address = caches[index].address(at);
            caches[index].cache.find(address).is_some()
        })
    }

    #[inline]
    fn reference(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        level: usize,
        ledger: &mut Ledger<Cause>,
    ) {
        self.reference_slot(role, at, is_store, level, ledger);
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        self.caches
            .iter()
            .enumerate()
            .map(|(index, level)| {
                let first_of: u64 = (0..2)
                    .filter(|&side| self.path[side][0] == index)
                    .map(|side| references[side])
                    .sum();
                let is_first = self.path.iter().any(|path| path[0] == index);
                CacheCounters {
                    name: level.name.clone(),
                    hits: if is_first { first_of.saturating_sub(level.misses) } else { level.hits },
                    misses: level.misses,
                    store_misses: Some(level.store_misses),
                    write_backs: level.write_backs,
                }
            })
            .collect()
    }
}
