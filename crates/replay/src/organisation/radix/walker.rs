//! The hardware walker: a program's tables, and under a hypervisor the host's tables that map them.

use std::collections::HashMap;

use mmulab_hardware::{GeometryError, Partition, Random, Tlb, TlbEntry, TlbGeometry};
use mmulab_machine as machine;
use mmulab_machine::{Radix, ReplayMachine};

use super::tlb_level::Translation;
use crate::address_space::SMALL_SHIFT;
use crate::caches::replacement;
use crate::cause::Tier;
use crate::frames::Frames;

/// Walks tables and gives pages, and tables, their frames. It knows no data caches: each table
/// entry that it loads goes to a function of the caller, with its tier and its physical address.
/// What a core keeps of walks is in its [`WalkCaches`].
#[derive(Clone, Debug)]
pub(super) struct Walker {
    table: Table,
    /// Of the program's pages and tables; guest-physical where there is a host.
    frames: Frames,
    host: Option<Host>,
}

/// The second dimension: the tables by which a hypervisor maps guest-physical memory.
#[derive(Clone, Debug)]
struct Host {
    table: Table,
    frames: Frames,
    page_shift: u32,
}

/// What a core remembers of walks.
#[derive(Clone, Debug)]
pub(super) struct WalkCaches {
    own: Levels,
    host: Levels,
    /// Guest-physical pages with their frames.
    nested_tlb: Option<Tlb<u64>>,
}

/// Caches of a table's upper-level entries.
#[derive(Clone, Debug, Default)]
struct Levels(Vec<WalkCache>);

/// A multi-level table.
#[derive(Clone, Debug)]
struct Table {
    levels: u32,
    index_bits: u32,
    pte_bytes: u64,
    /// Physical address by level and covered addresses; one gets its frame when it is first walked
    /// through.
    tables: HashMap<(u32, u64), u64>,
}

/// A cache of entries of one level.
#[derive(Clone, Debug)]
struct WalkCache {
    level: u32,
    /// log2 of what an entry covers.
    shift: u32,
    entries: Tlb<()>,
}

impl Walker {
    pub(super) fn new(machine: &ReplayMachine, radix: &Radix, seed: u64) -> Self {
        let table = Table::new(radix.levels, radix.index_bits, radix.pte_bytes);
        let placement = machine.memory.placement;
        let host = radix.host.as_ref().filter(|host| host.pages.shift().is_some());
        let frames = match host {
            Some(host) => Frames::of_guest(placement, seed, host.guest_memory_bytes.ilog2()),
            None => Frames::new(placement, seed),
        };
        let host = host.map(|host| Host::new(host, placement, seed));
        Self { table, frames, host }
    }

    /// log2 of the host's pages, where there is a host.
    pub(super) fn host_page_shift(&self) -> Option<u32> {
        self.host.as_ref().map(|host| host.page_shift)
    }

    /// Translates `address`, in a page of `1 << page_shift` bytes, by a walk from the lowest level
    /// that a walk cache knows. What comes out is as large as the smaller one of that page and the
    /// host's. The second result is the number of walks in the host's tables.
    ///
    /// A walk cache knows where the next table is in the host's memory: Intel SDM 3C, 29.4.1,
    /// combined mappings. All other addresses of tables, and the one of the page, are the guest's,
    /// and the host translates them.
    pub(super) fn walk(
        &mut self,
        caches: &mut WalkCaches,
        address: u64,
        page_shift: u32,
        load: &mut impl FnMut(Tier, u64),
    ) -> (Translation, u64) {
        let Self { table, frames, host } = self;
        let mut host_walks = 0;
        let leaf = table.level_of(page_shift);
        let top = caches.own.first_level(table, address, leaf);
        for level in (leaf..=top).rev() {
            let mut entry = table.entry_address(level, address, frames);
            let is_known = level == top && top < table.levels;
            if let Some(host) = host {
                entry = if is_known {
                    host.physical_address(entry)
                } else {
                    host.translate(caches, entry, &mut host_walks, load)
                };
            }
            load(if level == leaf { Tier::User } else { Tier::Root }, entry);
            if level > leaf {
                caches.own.remember(level, address);
            }
        }
        let shift = host.as_ref().map_or(page_shift, |host| host.page_shift.min(page_shift));
        let page = address & !((1 << page_shift) - 1);
        let piece = address & ((1 << page_shift) - 1) & !((1 << shift) - 1);
        let mut frame = frames.physical_address(page, page_shift) | piece;
        if let Some(host) = host {
            frame = host.translate(caches, frame, &mut host_walks, load);
        }
        (Translation { shift, frame, slot: None }, host_walks)
    }
}

impl WalkCaches {
    /// # Errors
    /// A cache is impossible.
    pub(super) fn new(radix: &Radix, seed: u64) -> Result<Self, GeometryError> {
        // Streams from 130 on belong to the program's walk caches, from 150 on to the host.
        let own = Levels::new(
            radix.index_bits,
            [&radix.walk_cache_level_2, &radix.walk_cache_level_3, &radix.walk_cache_level_4],
            "organisation",
            |level| Random::stream(seed, 130 + u64::from(level)),
        )?;
        let host = radix.host.as_ref().and_then(|host| Some((host, host.pages.shift()?)));
        let Some((host, page_shift)) = host else {
            return Ok(Self { own, host: Levels::default(), nested_tlb: None });
        };
        let of_host = Levels::new(
            host.index_bits,
            [&host.walk_cache_level_2, &host.walk_cache_level_3, &host.walk_cache_level_4],
            "organisation.host",
            |level| Random::stream(seed, 150 + u64::from(level)),
        )?;
        let nested_tlb = host.nested_tlb.as_ref().map(|cache| {
            cache_of(cache, page_shift, Random::stream(seed, 150))
                .map_err(|error| GeometryError(format!("organisation.host.nested_tlb: {error}")))
        });
        Ok(Self { own, host: of_host, nested_tlb: nested_tlb.transpose()? })
    }

    /// Drops what is known of the program's addresses that are `within` something, down to where an
    /// entry covers more than `1 << most_shift` bytes. What the host maps stays.
    pub(super) fn invalidate(&mut self, most_shift: u32, within: impl Fn(u64) -> bool) {
        for cache in self.own.0.iter_mut().filter(|cache| cache.shift <= most_shift) {
            cache.entries.invalidate_where(|_, entry| within(entry.virtual_address));
        }
    }
}

impl Host {
    fn new(host: &machine::Host, placement: machine::Placement, seed: u64) -> Self {
        let table = Table::new(host.levels, host.index_bits, host.pte_bytes);
        let page_shift = host.pages.shift().unwrap_or(SMALL_SHIFT);
        Self { table, frames: Frames::of_host(placement, seed), page_shift }
    }

    /// Where a guest-physical address is in the host's memory.
    fn physical_address(&mut self, address: u64) -> u64 {
        let offset = address & ((1 << self.page_shift) - 1);
        self.frames.physical_address(address - offset, self.page_shift) | offset
    }

    /// Where a guest-physical address is in the host's memory, as the walker finds it: in the
    /// nested TLB or by a walk.
    fn translate(
        &mut self,
        caches: &mut WalkCaches,
        address: u64,
        host_walks: &mut u64,
        load: &mut impl FnMut(Tier, u64),
    ) -> u64 {
        let page_shift = self.page_shift;
        let WalkCaches { host: levels, nested_tlb, .. } = caches;
        let offset = address & ((1 << page_shift) - 1);
        if let Some(tlb) = nested_tlb
            && let Some(slot) = tlb.lookup(address, 0)
        {
            return tlb.payload(slot) | offset;
        }
        *host_walks += 1;
        let Self { table, frames, .. } = self;
        let leaf = table.level_of(page_shift);
        for level in (leaf..=levels.first_level(table, address, leaf)).rev() {
            load(Tier::Host, table.entry_address(level, address, frames));
            if level > leaf {
                levels.remember(level, address);
            }
        }
        let physical = self.physical_address(address);
        if let Some(tlb) = nested_tlb {
            let entry = TlbEntry {
                virtual_address: address - offset,
                page_shift,
                payload: physical - offset,
                ..TlbEntry::default()
            };
            tlb.insert(entry, Partition::Normal);
        }
        physical
    }
}

impl Table {
    fn new(levels: u32, index_bits: u32, pte_bytes: u64) -> Self {
        Self { levels, index_bits, pte_bytes, tables: HashMap::new() }
    }

    /// log2 of what one entry of a level (1 is the last) covers.
    fn shift(&self, level: u32) -> u32 {
        shift_of(level, self.index_bits)
    }

    /// The level of whose entries each maps a page of `1 << page_shift` bytes.
    fn level_of(&self, page_shift: u32) -> u32 {
        (page_shift - SMALL_SHIFT) / self.index_bits + 1
    }

    /// Physical address of the entry for `address` in its table of `level`. A table gets its frame
    /// when it is first walked through.
    fn entry_address(&mut self, level: u32, address: u64, frames: &mut Frames) -> u64 {
        let Self { index_bits, pte_bytes, .. } = *self;
        let shift = self.shift(level);
        let index = (address >> shift) & ((1 << index_bits) - 1);
        let covered = address.checked_shr(shift + index_bits).unwrap_or(0);
        let table_shift = (index_bits + pte_bytes.trailing_zeros()).max(SMALL_SHIFT);
        let table =
            *self.tables.entry((level, covered)).or_insert_with(|| frames.give(table_shift));
        table + index * pte_bytes
    }
}

impl Levels {
    fn new(
        index_bits: u32,
        caches: [&Option<machine::WalkCache>; 3],
        path: &str,
        random: impl Fn(u32) -> Random,
    ) -> Result<Self, GeometryError> {
        let mut levels = Vec::new();
        for (level, cache) in (2..).zip(caches) {
            let Some(cache) = cache else { continue };
            let shift = shift_of(level, index_bits);
            let entries = cache_of(cache, shift, random(level)).map_err(|error| {
                GeometryError(format!("{path}.walk_cache_level_{level}: {error}"))
            })?;
            levels.push(WalkCache { level, shift, entries });
        }
        Ok(Self(levels))
    }

    /// Where a walk down to level `leaf` begins: below the lowest entry that a walk cache knows, or
    /// at the root.
    fn first_level(&mut self, table: &Table, address: u64, leaf: u32) -> u32 {
        for WalkCache { level, entries, .. } in &mut self.0 {
            if *level > leaf && entries.lookup(address, 0).is_some() {
                return *level - 1;
            }
        }
        table.levels
    }

    /// Puts the entry of `level` that was loaded for `address` into the level's walk cache.
    fn remember(&mut self, level: u32, address: u64) {
        let Some(cache) = self.0.iter_mut().find(|cache| cache.level == level) else {
            return;
        };
        let entry = TlbEntry {
            virtual_address: address & !((1 << cache.shift) - 1),
            page_shift: cache.shift,
            ..TlbEntry::default()
        };
        cache.entries.insert(entry, Partition::Normal);
    }
}

/// log2 of what one entry of a level (1 is the last) covers.
fn shift_of(level: u32, index_bits: u32) -> u32 {
    SMALL_SHIFT + index_bits * (level - 1)
}

/// A TLB of the shape of a walk cache, of entries that cover `1 << shift` bytes.
fn cache_of<P: Copy + Default>(
    cache: &machine::WalkCache,
    shift: u32,
    random: Random,
) -> Result<Tlb<P>, GeometryError> {
    let geometry = TlbGeometry {
        entries: cache.entries,
        ways: cache.ways.count(u64::from(cache.entries)) as u32,
        page_shifts: vec![shift],
        protected_ways: 0,
    };
    Tlb::new(&geometry, replacement(cache.replacement), random)
}
