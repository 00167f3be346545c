//! What each core has of its own, and how one tells the others that translations are gone.

use std::ops::RangeInclusive;

use mmulab_hardware::{GeometryError, Ledger};
use mmulab_machine::{CacheLevel, Radix, ReplayMachine, Shootdown};
use mmulab_trace::RoundRobin;

use super::identifiers::Identifiers;
use super::overlap::Walkers;
use super::tlb_level::{TlbLevel, Translation};
use super::walker::WalkCaches;
use crate::address_space::{LARGE_SHIFT, SMALL_SHIFT};
use crate::caches::{Caches, Hierarchy, Side};
use crate::cause::Cause;
use crate::known_hits::KnownHits;

/// One side's first level, with the translation that it gave last.
///
/// Asking again for the small page that was asked for last changes no replacement state, so it need
/// not be asked. A large page may stand beside a piece of it, which a second level that breaks it
/// down gave, and which is found before it.
#[derive(Clone, Debug)]
pub(super) struct FirstLevel {
    pub(super) tlb: TlbLevel,
    /// Number of that small page.
    pub(super) last_page: u64,
    pub(super) last: Translation,
    /// Where hits of the first level touch nothing else, so that they can be known.
    pub(super) known: Option<KnownHits>,
}

impl FirstLevel {
    /// The page of `address` was given last.
    #[inline]
    pub(super) fn remember(&mut self, address: u64, page: Translation) {
        self.last = page;
        self.last_page = address >> SMALL_SHIFT;
        if let (Some(known), Some(slot)) = (&mut self.known, page.slot) {
            known.learn_page(slot, address);
        }
    }
}

/// TLBs, walk caches and caches of a core. Those caches that it shares are in the core that runs.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) sides: [FirstLevel; 2],
    pub(super) second: TlbLevel,
    pub(super) walk_caches: WalkCaches,
    /// Where walks overlap.
    pub(super) walkers: Option<Walkers>,
    identifiers: Identifiers,
    /// The address space that it runs.
    space: Option<u32>,
    pub(super) caches: Hierarchy,
    /// The line that was fetched last. Nothing but fetches uses a split first level's instruction
    /// side, so fetching the line again would change nothing.
    pub(super) fetched_line: Option<u64>,
}

impl Core {
    /// A core whose structures are empty, with `caches`, where the smallest translation is of
    /// `1 << smallest` bytes.
    ///
    /// # Errors
    /// A part of it is impossible.
    pub(super) fn new(
        machine: &ReplayMachine,
        table: &Radix,
        mut caches: Hierarchy,
        smallest: u32,
        seed: u64,
    ) -> Result<Self, GeometryError> {
        let side = |arrays: &[(&str, &Option<mmulab_machine::Tlb>)], stream| {
            TlbLevel::new(arrays, seed, stream).map(|tlb| FirstLevel {
                tlb,
                last_page: u64::MAX,
                last: Translation { shift: SMALL_SHIFT, frame: 0, slot: None },
                known: None,
            })
        };
        let mut sides = [
            side(&[("itlb", &machine.itlb), ("itlb_large", &machine.itlb_large)], 100)?,
            side(
                &[
                    ("dtlb", &machine.dtlb),
                    ("dtlb_large", &machine.dtlb_large),
                    ("dtlb_huge", &machine.dtlb_huge),
                ],
                110,
            )?,
        ];
        let walkers = table.overlap().map(|(count, window)| Walkers::new(count, window));
        let passes_over_known_hits = walkers.is_none()
            && !caches.first_level_is_unified()
            && caches.first_level_keeps_stores();
        if passes_over_known_hits {
            for (first, side) in sides.iter_mut().zip([Side::Instruction, Side::Data]) {
                first.tlb.main = first.tlb.array_for(smallest).map_or(0, |(_, number)| number);
                let Some(array) = first.tlb.arrays.get_mut(first.tlb.main) else { continue };
                let cache = caches.first_level(side);
                first.known = KnownHits::new(
                    cache.slots(),
                    array.tlb.slots(),
                    cache.line_shift(),
                    array.smallest_shift(),
                );
            }
        }
        Ok(Self {
            sides,
            second: TlbLevel::new(
                &[("stlb", &machine.stlb), ("stlb_huge", &machine.stlb_huge)],
                seed,
                120,
            )?,
            walk_caches: WalkCaches::new(table, seed)?,
            walkers,
            identifiers: Identifiers::new(table.address_spaces.unwrap_or(1)),
            space: None,
            caches,
            fetched_line: None,
        })
    }

    /// Another address space runs here.
    pub(super) fn switch_to(&mut self, space: u32) {
        self.space = Some(space);
        if let Some(gone) = self.identifiers.switch_to(space) {
            let is_gone = |address| RoundRobin::space(address) == gone;
            self.invalidate_pages(is_gone);
            self.walk_caches.invalidate(u32::MAX, is_gone);
        }
    }

    /// Pages that begin in a range leave the TLBs, and with `tables` what walk caches know of
    /// tables below it, which is a block of 2 MiB.
    pub(super) fn invalidate(&mut self, pages: &RangeInclusive<u64>, tables: bool) {
        let is_within = |address| pages.contains(&address);
        self.invalidate_pages(is_within);
        if tables {
            self.walk_caches.invalidate(LARGE_SHIFT, is_within);
        }
    }

    fn invalidate_pages(&mut self, is_within: impl Fn(u64) -> bool) {
        for side in &mut self.sides {
            side.tlb.invalidate(&is_within);
            side.last_page = u64::MAX;
            if let Some(known) = &mut side.known {
                known.invalidate(&is_within);
            }
        }
        self.second.invalidate(&is_within);
        self.fetched_line = None;
    }
}

/// The cores whose turn it is not.
#[derive(Clone, Debug)]
pub(super) struct OtherCores {
    /// By number; `None` for the one that runs.
    cores: Vec<Option<Core>>,
    running: usize,
    /// How many of a hierarchy's caches belong to one core alone.
    own_caches: usize,
    shootdown: Shootdown,
    shootdown_cycles: u64,
    shootdown_interrupt_cycles: u64,
}

impl OtherCores {
    /// All but core 0, which runs. `core` makes the one with a number; `others` are how many there
    /// are.
    ///
    /// # Errors
    /// The machine does not say what cores share.
    pub(super) fn new(
        machine: &ReplayMachine,
        others: usize,
        core: impl Fn(usize) -> Result<Core, GeometryError>,
    ) -> Result<Self, GeometryError> {
        let Some(multicore) = &machine.multicore else {
            let what = "multicore: is missing; say what several cores share, as x86-64 does";
            return Err(GeometryError(what.to_owned()));
        };
        let levels = &machine.cache_levels()[..multicore.first_shared_level as usize - 1];
        let own_caches = levels.iter().flat_map(CacheLevel::caches).count();
        let mut cores = vec![None];
        for number in 1..=others {
            let mut core = core(number)?;
            core.caches.drop_shared(own_caches);
            cores.push(Some(core));
        }
        Ok(Self {
            cores,
            running: 0,
            own_caches,
            shootdown: multicore.shootdown,
            shootdown_cycles: multicore.shootdown_cycles.into(),
            shootdown_interrupt_cycles: multicore.shootdown_interrupt_cycles.into(),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.cores.iter().flatten()
    }

    /// Core `number` goes on in place of the one that `runs`, with the instruction of this number.
    pub(super) fn switch_to(&mut self, number: usize, runs: &mut Core, instruction: u64) {
        let Some(mut next) = self.cores[number].take() else { return };
        if let Some(walkers) = &mut runs.walkers {
            walkers.leave(instruction);
        }
        if let Some(walkers) = &mut next.walkers {
            walkers.go_on(instruction);
        }
        next.caches.take_shared(self.own_caches, &mut runs.caches);
        self.cores[self.running] = Some(std::mem::replace(runs, next));
        self.running = number;
    }

    /// Tells the others that the core which runs has taken pages of its address space away;
    /// `ledger` gets what that costs on all cores.
    pub(super) fn shoot_down(
        &mut self,
        pages: &RangeInclusive<u64>,
        tables: bool,
        ledger: &mut Ledger<Cause>,
    ) {
        let space = RoundRobin::space(*pages.start());
        let is_broadcast = self.shootdown == Shootdown::Broadcast;
        let mut interrupted = 0;
        for core in self.cores.iter_mut().flatten() {
            if is_broadcast {
                core.invalidate(pages, tables);
            } else if core.space == Some(space) {
                core.invalidate(pages, tables);
                interrupted += 1;
            } else {
                core.identifiers.outdate(space);
            }
        }
        if is_broadcast || interrupted > 0 {
            ledger.charge(Cause::Shootdown, self.shootdown_cycles);
        }
        let cycles = interrupted * self.shootdown_interrupt_cycles;
        ledger.charge_many(Cause::ShootdownInterrupt, interrupted, cycles);
    }
}
