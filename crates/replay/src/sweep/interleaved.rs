//! Interleaved configurations: hierarchies under an organisation that walks when the last cache
//! misses.
//!
//! Each has all caches of its own, since its walks evict lines of its own. But those whose first
//! levels have the same shape seldom differ in what these hold: the tags of their first levels are
//! interleaved in memory, so that one comparison of neighbouring words finds a line present in all
//! of them, and then there is nothing to do.

use std::cell::Cell;
use std::rc::Rc;

use mmulab_hardware::Ledger;
use mmulab_machine::ReplayMachine;

use crate::caches::{
    AllLevelsLookup, CacheCounters, Caches, FirstLevelLookup, Location, Side, SplitDirectMapped,
    Tags, miss_cycles,
};
use crate::cause::{Cause, Role};
use crate::engine::{Engine, EngineResult, Machine, RunSlice};
use crate::organisation::{NoTlb, OnCacheMiss, Organisation, PAGE_SHIFT};
use crate::program::BatchSlice;
use crate::remap::SharedRemapping;

/// Organisation of an engine over [`Interleaved`]: all pages are mapped, and each configuration
/// walks by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterleavedWalks;

impl Organisation for InterleavedWalks {}

impl OnCacheMiss<Interleaved> for InterleavedWalks {
    /// The walks themselves are part of [`Interleaved::reference`], where each configuration has
    /// its own.
    #[inline(always)]
    fn before_reference(
        &mut self,
        side: Side,
        at: Location,
        machine: &mut Machine<Interleaved>,
    ) -> bool {
        machine.caches.some_would_walk(side, at)
    }
}

impl RunSlice for Interleaved {
    fn run_slice<O: OnCacheMiss<Self>>(engine: &mut Engine<O, Self>, slice: BatchSlice<'_, u32>) {
        engine.run_looking_first(slice);
    }
}

/// The first levels of one side, interleaved.
#[derive(Clone, Debug)]
struct InterleavedTags {
    /// Line of each configuration in set 0, then of each configuration in set 1, ...
    lines: Rc<[Cell<u32>]>,
    configurations: usize,
    set_mask: u32,
    shift: u32,
}

impl InterleavedTags {
    fn new(sets: u64, line_bytes: u32, configurations: usize) -> Self {
        Self {
            lines: vec![Cell::new(Tags::EMPTY); sets as usize * configurations].into(),
            configurations,
            set_mask: sets as u32 - 1,
            shift: line_bytes.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn set(&self, address: u32) -> (u32, &[Cell<u32>]) {
        let line = address >> self.shift;
        let first = (line & self.set_mask) as usize * self.configurations;
        (line, &self.lines[first..first + self.configurations])
    }

    #[inline(always)]
    fn all_hold(&self, address: u32) -> bool {
        let (line, set) = self.set(address);
        set.iter().fold(0, |difference, held| difference | (held.get() ^ line)) == 0
    }
}

/// The caches of one configuration.
#[derive(Clone, Debug)]
struct Configuration {
    number: usize,
    first: [InterleavedTags; 2],
    first_misses: [u64; 2],
    second: [Tags; 2],
    miss_cycles: [u64; 2],
}

impl Caches for Configuration {
    fn line_shift(&self, side: Side) -> u32 {
        self.first[side as usize].shift
    }

    #[inline(always)]
    fn reference(&mut self, role: Role, at: Location, _is_store: bool, ledger: &mut Ledger<Cause>) {
        let address = at.virtual_address as u32;
        let side = role.side() as usize;
        let (line, set) = self.first[side].set(address);
        if set[self.number].replace(line) == line {
            return;
        }
        self.first_misses[side] += 1;
        ledger.charge(role.miss(0, 2), self.miss_cycles[0]);
        if self.second[side].misses(address) {
            ledger.charge(role.miss(1, 2), self.miss_cycles[1]);
        }
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        let counter = |name: &str, hits, misses| CacheCounters {
            name: name.to_owned(),
            hits,
            misses,
            store_misses: None,
            write_backs: 0,
        };
        let first = |side: usize, name| {
            let misses = self.first_misses[side];
            counter(name, references[side].saturating_sub(misses), misses)
        };
        let second = |side: usize, name| {
            let misses = self.second[side].miss_count();
            counter(name, self.first_misses[side].saturating_sub(misses), misses)
        };
        vec![first(0, "L1i"), first(1, "L1d"), second(0, "L2i"), second(1, "L2d")]
    }
}

impl AllLevelsLookup for Configuration {
    #[inline(always)]
    fn would_miss_all(&mut self, side: Side, at: Location) -> bool {
        let address = at.virtual_address as u32;
        let (line, set) = self.first[side as usize].set(address);
        set[self.number].get() != line && !self.second[side as usize].holds(address)
    }
}

/// Split two-level direct-mapped hierarchies with first levels of one shape.
#[derive(Clone, Debug)]
pub(super) struct Interleaved {
    first: [InterleavedTags; 2],
    organisation: NoTlb,
    machines: Vec<Machine<Configuration>>,
}

impl Interleaved {
    /// One configuration for each machine; `None` if one has caches of another shape.
    pub fn new(machines: &[&ReplayMachine], organisation: NoTlb) -> Option<Self> {
        let [[l1i, _], [l1d, _]] = SplitDirectMapped::shape(machines.first()?)?;
        let first = [l1i, l1d]
            .map(|cache| InterleavedTags::new(cache.sets(), cache.line_bytes, machines.len()));
        let configurations = machines.iter().enumerate().map(|(number, machine)| {
            let [[_, l2i], [_, l2d]] = SplitDirectMapped::shape(machine)?;
            let [first_miss, second_miss, _] = miss_cycles(machine);
            let configuration = Configuration {
                number,
                first: first.clone(),
                first_misses: [0; 2],
                second: [Tags::new(l2i), Tags::new(l2d)],
                miss_cycles: [first_miss, second_miss],
            };
            let interrupt_cycles = machine.interrupts.costs_cycles.first().copied().unwrap_or(0);
            // It takes no addresses of the program but those that were remapped before.
            Some(Machine::new(configuration, SharedRemapping::new(0), interrupt_cycles))
        });
        Some(Self { machines: configurations.collect::<Option<_>>()?, first, organisation })
    }

    /// Whether a reference would make some configuration walk.
    #[inline(always)]
    fn some_would_walk(&self, side: Side, at: Location) -> bool {
        let address = at.virtual_address as u32;
        let (line, set) = self.first[side as usize].set(address);
        set.iter().zip(&self.machines).any(|(held, machine)| {
            held.get() != line && !machine.caches.second[side as usize].holds(address)
        })
    }

    /// The result of each configuration, given that of the engine that drove them.
    pub fn finish(self, driver: &EngineResult<u32>) -> Vec<EngineResult<u32>> {
        let references = [driver.caches[0].hits, driver.caches[1].hits];
        let configurations = self.machines.into_iter().map(|machine| {
            let caches = machine.counters(references);
            EngineResult { ledger: machine.ledger, caches, ..driver.clone() }
        });
        configurations.collect()
    }
}

impl Caches for Interleaved {
    #[inline(always)]
    fn line_shift(&self, side: Side) -> u32 {
        self.first[side as usize].shift
    }

    /// The configurations that do not hold the line walk if they must, and fill.
    #[inline(always)]
    fn reference(&mut self, role: Role, at: Location, is_store: bool, _ledger: &mut Ledger<Cause>) {
        let Self { first, organisation, machines } = self;
        let side = role.side();
        let address = at.virtual_address as u32;
        let (line, set) = first[side as usize].set(address);
        let cause = role.miss(0, 2);
        for (held, machine) in set.iter().zip(machines) {
            if held.get() == line {
                continue;
            }
            let configuration = &mut machine.caches;
            if configuration.second[side as usize].holds(address) {
                // What `reference` would do, without looking again.
                held.set(line);
                configuration.first_misses[side as usize] += 1;
                machine.ledger.charge(cause, configuration.miss_cycles[0]);
                continue;
            }
            organisation.walk(address >> PAGE_SHIFT, machine);
            machine.caches.reference(role, at, is_store, &mut machine.ledger);
        }
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        super::counters_without_misses(references)
    }
}

impl FirstLevelLookup for Interleaved {
    #[inline(always)]
    fn holds(&self, side: Side, address: u32) -> bool {
        self.first[side as usize].all_hold(address)
    }
}
