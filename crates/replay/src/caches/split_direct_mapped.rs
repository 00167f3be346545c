//! The shape of the 1998 study: two levels, split and direct-mapped.

use std::ops::Range;

use mmulab_hardware::Ledger;
use mmulab_machine as machine;
use mmulab_machine::{CacheLevel, ReplayMachine};

use super::{
    AllLevelsLookup, CacheCounters, Caches, DirectMapped, FirstLevelLookup, Location, Side,
    index_bits, miss_cycles,
};
use crate::cause::{Cause, Role};

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

    /// How often [`Tags::misses`] was true.
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
    #[inline(always)]
    fn line_shift(&self, side: Side) -> u32 {
        self.side(side)[0].shift
    }

    #[inline(always)]
    fn reference(&mut self, role: Role, at: Location, _is_store: bool, ledger: &mut Ledger<Cause>) {
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
            counters("L1i", l1i, references[0].wrapping_sub(l1i.misses)),
            counters("L1d", l1d, references[1].wrapping_sub(l1d.misses)),
            // All references enter at the first level.
            counters("L2i", l2i, l1i.misses - l2i.misses),
            counters("L2d", l2d, l1d.misses - l2d.misses),
        ]
    }
}

impl DirectMapped for SplitDirectMapped {
    fn first_level_sets(&self, side: Side) -> usize {
        self.side(side)[0].lines.len()
    }

    fn index_bits(&self, side: Side) -> Range<u32> {
        let shapes = self.side(side).each_ref().map(|tags| (tags.lines.len(), tags.shift));
        index_bits(shapes.into_iter())
    }
}

impl FirstLevelLookup for SplitDirectMapped {
    #[inline(always)]
    fn holds(&self, side: Side, address: u32) -> bool {
        self.side(side)[0].holds(address)
    }
}

impl AllLevelsLookup for SplitDirectMapped {
    #[inline]
    fn would_miss_all(&mut self, side: Side, at: Location) -> bool {
        !self.side(side).iter().any(|tags| tags.holds(at.virtual_address as u32))
    }
}
