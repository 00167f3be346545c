//! The TLBs of a 32-bit machine, with what was found for each page remembered.

use mmulab_hardware::{GeometryError, Partition, Random, SetIndex, TagArray};
use mmulab_machine as machine;

use super::PAGE_SHIFT;
use crate::caches::replacement;

/// Pages of a 32-bit address space.
const PAGES: usize = 1 << (32 - PAGE_SHIFT);

/// A TLB over the pages of a 32-bit address space.
///
/// The model is a [`TagArray`] of page numbers; beside it stands a bit for every page that says
/// whether the TLB holds it, so that the common case, a hit that changes nothing, is one load.
#[derive(Clone, Debug)]
pub struct PageTlb {
    tags: TagArray,
    set_index: SetIndex,
    /// A bit for each page, set while the TLB holds it.
    present: Box<[u64; PAGES / 64]>,
    hits_change_nothing: bool,
    misses: u64,
    nested_hits: u64,
    nested_misses: u64,
}

/// How often a TLB was asked and did not know.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TlbCounters {
    /// `itlb`, `dtlb`, `stlb`, ...
    pub name: String,
    /// References of the program that found their page.
    pub hits: u64,
    /// References of the program that did not.
    pub misses: u64,
    /// References to virtual page tables that found their page.
    pub nested_hits: u64,
    /// References to virtual page tables that did not.
    pub nested_misses: u64,
}

/// Where the bit of `page` is.
#[inline(always)]
fn word(page: u32) -> usize {
    page as usize / 64 % (PAGES / 64)
}

impl PageTlb {
    /// The TLB that `tlb` describes; `random` is used by random replacement only.
    ///
    /// # Errors
    /// It is impossible.
    pub fn new(tlb: &machine::Tlb, random: Random) -> Result<Self, GeometryError> {
        let ways = tlb.ways.count(u64::from(tlb.entries)) as u32;
        let mut tags = TagArray::new(tlb.sets(), ways, replacement(tlb.replacement), random)?;
        tags.protect_ways(tlb.protected_entries)?;
        let hits_change_nothing = matches!(
            tlb.replacement,
            machine::Replacement::Random | machine::Replacement::RoundRobin
        );
        let present: Box<[u64]> = vec![0; PAGES / 64].into();
        Ok(Self {
            set_index: SetIndex::new(tags.sets()),
            tags,
            present: present.try_into().unwrap_or_else(|_| unreachable!("made with this length")),
            hits_change_nothing,
            misses: 0,
            nested_hits: 0,
            nested_misses: 0,
        })
    }

    /// Whether a hit leaves replacement alone.
    pub fn hits_change_nothing(&self) -> bool {
        self.hits_change_nothing
    }

    /// Whether the TLB holds `page`. Changes nothing.
    #[inline(always)]
    pub fn holds(&self, page: u32) -> bool {
        self.present[word(page)] >> (page % 64) & 1 != 0
    }

    /// The program references `page`: whether the TLB holds it. A hit counts as a use.
    #[inline]
    pub fn lookup(&mut self, page: u32) -> bool {
        let hit = self.look(page);
        self.misses += u64::from(!hit);
        hit
    }

    /// A handler references `page` of a virtual page table.
    #[inline]
    pub fn lookup_nested(&mut self, page: u32) -> bool {
        let hit = self.look(page);
        self.nested_hits += u64::from(hit);
        self.nested_misses += u64::from(!hit);
        hit
    }

    #[inline]
    fn look(&mut self, page: u32) -> bool {
        if !self.holds(page) {
            return false;
        }
        if !self.hits_change_nothing {
            let slot = self.tags.find(self.set(page), page.into());
            debug_assert!(slot.is_some());
            slot.into_iter().for_each(|slot| self.tags.touch(slot));
        }
        true
    }

    #[inline]
    fn set(&self, page: u32) -> u32 {
        self.set_index.of(page.into())
    }

    /// Inserts a page of the program; which one it evicts.
    #[inline]
    pub fn insert(&mut self, page: u32) -> Option<u32> {
        self.insert_into(page, Partition::Normal)
    }

    /// Inserts a page of a virtual page table into the protected slots, where it evicts only its
    /// like.
    #[inline]
    pub fn insert_protected(&mut self, page: u32) {
        self.insert_into(page, Partition::Protected);
    }

    fn insert_into(&mut self, page: u32, partition: Partition) -> Option<u32> {
        let slot = self.tags.victim(self.set(page), partition);
        let evicted = self.tags.replace(slot, page.into()).map(|page| page as u32);
        if let Some(evicted) = evicted {
            self.present[word(evicted)] &= !(1 << (evicted % 64));
        }
        self.present[word(page)] |= 1 << (page % 64);
        evicted
    }

    /// How often the program missed.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// The counters, given how many references the program made.
    pub fn counters(&self, name: &str, references: u64) -> TlbCounters {
        TlbCounters {
            name: name.to_owned(),
            hits: references.wrapping_sub(self.misses),
            misses: self.misses,
            nested_hits: self.nested_hits,
            nested_misses: self.nested_misses,
        }
    }
}

/// The instruction and the data TLB.
#[derive(Clone, Debug)]
pub struct TlbPair {
    /// For fetches.
    pub instruction: PageTlb,
    /// For data, and for virtual page tables.
    pub data: PageTlb,
}

impl TlbPair {
    /// The TLBs of a 32-bit machine.
    ///
    /// # Errors
    /// One of them is impossible.
    pub fn new(
        instruction: &machine::Tlb,
        data: &machine::Tlb,
        seed: u64,
    ) -> Result<Self, GeometryError> {
        let named = |name: &str, result: Result<PageTlb, GeometryError>| {
            result.map_err(|error| GeometryError(format!("{name}: {error}")))
        };
        Ok(Self {
            instruction: named("itlb", PageTlb::new(instruction, Random::stream(seed, 1)))?,
            data: named("dtlb", PageTlb::new(data, Random::stream(seed, 2)))?,
        })
    }
}
