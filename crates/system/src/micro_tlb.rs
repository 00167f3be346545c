//! A micro TLB: the few entries of one side in front of the main TLB.
//!
//! It holds entries of its own. What leaves the main TLB stays here until another entry takes its
//! place, or maintenance of the main TLB empties this one. Since the fast path stands for hits
//! here, each entry knows which pages the fast path has because of it. A hit changes nothing, so
//! that the fast path need not tell of one.

use mmulab_hardware::{GeometryError, Partition, Random, Slot, Tlb, TlbGeometry};
use mmulab_machine::MicroTlbShape;

use crate::core::Translation;
use crate::tlb::{Entry, replacement};

/// Places of the fast path's pages, a bit each.
pub(crate) type PageSet = [u64; 4];

/// The micro TLB of one side.
pub(crate) struct MicroTlb {
    tlb: Tlb<Translation>,
    /// The places of the fast path that are there because of each entry.
    pages: Box<[PageSet]>,
    /// The entry that was used last.
    last: Slot,
}

mmulab_state::state!(MicroTlb { tlb, pages, last });

impl MicroTlb {
    /// An empty one.
    pub(crate) fn new(
        shape: &MicroTlbShape,
        page_shifts: &[u32],
        random: Random,
    ) -> Result<MicroTlb, GeometryError> {
        let geometry = TlbGeometry {
            entries: shape.entries,
            ways: shape.entries,
            page_shifts: page_shifts.to_vec(),
            protected_ways: 0,
        };
        let tlb = Tlb::new(&geometry, replacement(shape.replacement), random)?;
        let pages = vec![PageSet::default(); shape.entries as usize].into();
        Ok(MicroTlb { tlb, pages, last: 0 })
    }

    /// The entry for an address in an address space.
    pub(crate) fn lookup(&mut self, address: u32, asid: u16) -> Option<&Entry> {
        self.last = self.tlb.find(u64::from(address), asid)?;
        self.tlb.entry(self.last)
    }

    /// The same for who only looks: nothing changes.
    pub(crate) fn peek(&self, address: u32, asid: u16) -> Option<&Entry> {
        self.tlb.entry(self.tlb.peek(u64::from(address), asid)?)
    }

    /// Takes an entry; gives the places of the fast path that were there because of the one that
    /// left.
    pub(crate) fn insert(&mut self, entry: Entry) -> PageSet {
        (self.last, _) = self.tlb.insert(entry, Partition::Normal);
        std::mem::take(&mut self.pages[self.last as usize])
    }

    /// The fast path has a page at this place because of the entry that was used last.
    pub(crate) fn note_page(&mut self, place: usize) {
        self.pages[self.last as usize][place / 64] |= 1 << (place % 64);
    }

    /// Empties it. The fast path must forget all pages.
    pub(crate) fn invalidate_all(&mut self) {
        self.tlb.invalidate_all();
        self.pages.fill(PageSet::default());
    }

    /// All entries, for the debugger.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.tlb.iter().map(|(_, entry)| entry)
    }
}

/// The places of a set.
pub(crate) fn places(set: PageSet) -> impl Iterator<Item = usize> {
    set.into_iter().enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(word * 64 + bit)
        })
    })
}
