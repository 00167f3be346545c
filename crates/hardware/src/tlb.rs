//! A translation lookaside buffer.

use mmulab_state::Value;

use crate::Random;
use crate::replacement::{Recency, Replacement};
use crate::tag_array::{GeometryError, Partition, SetIndex, Slot, TagArray};

/// The shape of a TLB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlbGeometry {
    /// Entries in all.
    pub entries: u32,
    /// Ways of a set; as many as entries is fully associative.
    pub ways: u32,
    /// log2 of the page sizes it can hold, ascending, each 10 to 47.
    pub page_shifts: Vec<u32>,
    /// The lowest slots of each set, which ordinary insertions never evict.
    pub protected_ways: u32,
}

/// One translation. `P` is what the driver wants back on a hit: frame, permissions, domain, ...
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbEntry<P> {
    /// First virtual address of the page.
    pub virtual_address: u64,
    /// log2 of the page size: one of the geometry's.
    pub page_shift: u32,
    /// The address space it belongs to.
    pub asid: u16,
    /// Whether it holds in every address space.
    pub global: bool,
    /// The driver's part.
    pub payload: P,
}

mmulab_state::value!([P: Value] TlbEntry<P> { virtual_address, page_shift, asid, global, payload });

/// A TLB: entries of one or several page sizes, told apart by address-space identifier.
///
/// Virtual addresses have at most 56 significant bits. Two levels are two of these: the driver
/// decides what moves between them, because machines differ in it.
#[derive(Clone, Debug)]
pub struct Tlb<P> {
    tags: TagArray,
    entries: Box<[TlbEntry<P>]>,
    /// For each page size, how many entries are (private, global): a lookup tries only the kinds
    /// that are there, which for most programs is one.
    sizes: Box<[(u32, u32, u32)]>,
    set_index: SetIndex,
}

mmulab_state::state!([P: Value] Tlb<P> { tags, entries, sizes } built { set_index });

/// The lookup key: page number, page size, address space and globality in one word.
///
/// The bit below the page number is set and those below it are dropped, which tells pages of
/// different size at the same address apart.
#[inline]
fn key(virtual_address: u64, page_shift: u32, asid: u16, global: bool) -> u64 {
    let page = (virtual_address >> page_shift << 1 | 1) << (page_shift - 1);
    let space = if global { 0 } else { u64::from(asid) };
    (page >> 9 & ((1 << 47) - 1)) | u64::from(global) << 47 | space << 48
}

/// Probes for each page size that is there: smaller pages before larger, private before global.
#[inline(always)]
fn search(
    sizes: &[(u32, u32, u32)],
    set_index: SetIndex,
    address: u64,
    asid: u16,
    mut probe: impl FnMut(u32, u64) -> Option<Slot>,
) -> Option<Slot> {
    for &(shift, private, global) in sizes {
        let set = set_index.of(address >> shift);
        for (entries, is_global) in [(private, false), (global, true)] {
            if entries > 0 {
                let found = probe(set, key(address, shift, asid, is_global));
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

impl<P: Copy + Default> Tlb<P> {
    /// An empty TLB. `random` is used by random replacement only.
    ///
    /// # Errors
    /// The geometry is impossible.
    pub fn new(
        geometry: &TlbGeometry,
        replacement: Replacement,
        random: Random,
    ) -> Result<Self, GeometryError> {
        let TlbGeometry { entries, ways, ref page_shifts, protected_ways } = *geometry;
        if ways == 0 || entries == 0 || entries % ways != 0 {
            return Err(GeometryError(format!(
                "{entries} entries in {ways} ways: entries must be a multiple of the ways"
            )));
        }
        if page_shifts.is_empty() || page_shifts.iter().any(|shift| !(10..=47).contains(shift)) {
            return Err(GeometryError("page sizes must be 1 KiB to 128 TiB".to_owned()));
        }
        let mut tags = TagArray::new(entries / ways, ways, replacement, random)?;
        if protected_ways > 0 {
            tags.protect_ways(protected_ways)?;
        }
        Ok(Self {
            entries: vec![TlbEntry::default(); entries as usize].into(),
            sizes: page_shifts.iter().map(|&shift| (shift, 0, 0)).collect(),
            set_index: SetIndex::new(tags.sets()),
            tags,
        })
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.tags.slots()
    }

    /// Entries of a set.
    pub fn ways(&self) -> u32 {
        self.tags.ways()
    }

    /// Where the translation of `virtual_address` in `asid` is; changes nothing that affects
    /// replacement. Smaller pages are found before larger, private before global.
    #[inline]
    pub fn find(&mut self, virtual_address: u64, asid: u16) -> Option<Slot> {
        let tags = &mut self.tags;
        let find = |set, key| tags.find(set, key);
        search(&self.sizes, self.set_index, virtual_address, asid, find)
    }

    /// [`Tlb::find`] for who only looks.
    pub fn peek(&self, virtual_address: u64, asid: u16) -> Option<Slot> {
        let peek = |set, key| self.tags.peek(set, key);
        search(&self.sizes, self.set_index, virtual_address, asid, peek)
    }

    /// [`Tlb::find`] that counts as a use: what the hardware does on each access.
    #[inline]
    pub fn lookup(&mut self, virtual_address: u64, asid: u16) -> Option<Slot> {
        let slot = self.find(virtual_address, asid)?;
        self.tags.touch(slot);
        Some(slot)
    }

    /// Records a use of `slot` for replacement.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.tags.touch(slot);
    }

    /// What uses change ([`TagArray::recency`]).
    pub fn recency(&mut self) -> Option<Recency<'_>> {
        self.tags.recency()
    }

    /// The entry in `slot`, if it holds one.
    #[inline]
    pub fn entry(&self, slot: Slot) -> Option<&TlbEntry<P>> {
        self.tags.tag(slot)?;
        Some(&self.entries[slot as usize])
    }

    /// The driver's part of the entry in `slot`, which must be one that a lookup returned.
    #[inline]
    pub fn payload(&self, slot: Slot) -> &P {
        &self.entries[slot as usize].payload
    }

    /// Inserts where replacement says, within `partition`; returns the slot and what left it.
    ///
    /// Inserting a page that is present makes a second entry, as in hardware that does not look:
    /// look first where that can happen.
    #[inline]
    pub fn insert(
        &mut self,
        entry: TlbEntry<P>,
        partition: Partition,
    ) -> (Slot, Option<TlbEntry<P>>) {
        let set = self.set_index.of(entry.virtual_address >> entry.page_shift);
        let slot = self.tags.victim(set, partition);
        (slot, self.insert_at(slot, entry))
    }

    /// Inserts at a slot of the driver's choice (an indexed write), which must be in the set of
    /// the page; returns what left it.
    #[inline]
    pub fn insert_at(&mut self, slot: Slot, entry: TlbEntry<P>) -> Option<TlbEntry<P>> {
        let TlbEntry { virtual_address, page_shift, asid, global, .. } = entry;
        let new = key(virtual_address, page_shift, asid, global);
        let evicted = self.tags.replace(slot, new).is_some();
        let old = std::mem::replace(&mut self.entries[slot as usize], entry);
        let is_alike = evicted && (page_shift, global) == (old.page_shift, old.global);
        if !is_alike {
            self.count(page_shift, global, 1);
            if evicted {
                self.count(old.page_shift, old.global, -1);
            }
        }
        evicted.then_some(old)
    }

    fn count(&mut self, page_shift: u32, global: bool, change: i32) {
        let size = self.sizes.iter_mut().find(|(shift, ..)| *shift == page_shift);
        debug_assert!(size.is_some(), "a page size that this TLB was not made for");
        if let Some((_, private_entries, global_entries)) = size {
            let count = if global { global_entries } else { private_entries };
            *count = count.wrapping_add_signed(change);
        }
    }

    /// Empties `slot` and returns what was there.
    pub fn invalidate_slot(&mut self, slot: Slot) -> Option<TlbEntry<P>> {
        self.tags.remove(slot)?;
        let old = self.entries[slot as usize];
        self.count(old.page_shift, old.global, -1);
        Some(old)
    }

    /// Removes every translation of `virtual_address` that a lookup in `asid` could find, of any
    /// page size; returns how many there were.
    pub fn invalidate_page(&mut self, virtual_address: u64, asid: u16) -> u32 {
        let mut removed = 0;
        while let Some(slot) = self.find(virtual_address, asid) {
            self.invalidate_slot(slot);
            removed += 1;
        }
        removed
    }

    /// Removes the entries for which `condition` holds: an address space, everything that is not
    /// locked, a domain, ...
    pub fn invalidate_where(&mut self, mut condition: impl FnMut(Slot, &TlbEntry<P>) -> bool) {
        for slot in 0..self.slots() {
            if self.entry(slot).is_some_and(|entry| condition(slot, entry)) {
                self.invalidate_slot(slot);
            }
        }
    }

    /// Empties the TLB, protected slots included.
    pub fn invalidate_all(&mut self) {
        self.tags.clear();
        for (_, private, global) in &mut self.sizes {
            (*private, *global) = (0, 0);
        }
    }

    /// The way that round robin takes next in the first set; otherwise the first way.
    pub fn next_fill(&self) -> u32 {
        self.tags.next_fill()
    }

    /// Protects the lowest `ways` of every set from ordinary insertions, from now on.
    ///
    /// # Errors
    /// No way would be left.
    pub fn protect_ways(&mut self, ways: u32) -> Result<(), GeometryError> {
        self.tags.protect_ways(ways)
    }

    /// How many of the lowest ways of each set are protected.
    pub fn protected_ways(&self) -> u32 {
        self.tags.protected_ways()
    }

    /// The filled slots in ascending order, with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &TlbEntry<P>)> + '_ {
        self.tags.iter().map(|(slot, _)| (slot, &self.entries[slot as usize]))
    }
}
