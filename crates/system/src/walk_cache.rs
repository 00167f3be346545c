//! The walk cache: descriptors of the first level that point to a table, so that a walk reads only
//! the last one.

use mmulab_hardware::{GeometryError, Partition, Random, Tlb, TlbEntry, TlbGeometry};
use mmulab_machine::WalkCacheShape;

use crate::core::{Core, Descriptor, Mmu, Walk};
use crate::memory::CoreMemory;
use crate::tlb::replacement;

/// Physical address and value of a descriptor.
pub(crate) type Link = (u32, u32);

/// The descriptors that a core's walks have read.
pub(crate) struct WalkCache {
    links: Tlb<Link>,
    /// Base-two logarithm of the bytes that a descriptor stands for.
    shift: u32,
}

mmulab_state::state!(WalkCache { links } built { shift });

impl WalkCache {
    /// An empty one, of a format whose first level has descriptors for `1 << shift` bytes.
    pub(crate) fn new(
        shape: &WalkCacheShape,
        shift: u32,
        random: Random,
    ) -> Result<WalkCache, GeometryError> {
        let geometry = TlbGeometry {
            entries: shape.entries,
            ways: shape.ways.count(u64::from(shape.entries)) as u32,
            page_shifts: vec![shift],
            protected_ways: 0,
        };
        let links = Tlb::new(&geometry, replacement(shape.replacement), random)?;
        Ok(WalkCache { links, shift })
    }

    /// The descriptor for an address in an address space; counts as a use.
    pub(crate) fn lookup(&mut self, address: u32, asid: u16) -> Option<Link> {
        let slot = self.links.lookup(u64::from(address), asid)?;
        Some(*self.links.payload(slot))
    }

    /// The same for who only looks.
    pub(crate) fn peek(&self, address: u32, asid: u16) -> Option<Link> {
        let slot = self.links.peek(u64::from(address), asid)?;
        Some(*self.links.payload(slot))
    }

    /// Keeps a descriptor. It belongs to its address space, whatever the pages behind it.
    fn insert(&mut self, address: u32, asid: u16, link: Link) {
        let entry = TlbEntry {
            virtual_address: u64::from(address >> self.shift << self.shift),
            page_shift: self.shift,
            asid,
            global: false,
            payload: link,
        };
        self.links.insert(entry, Partition::Normal);
    }

    /// Empties it.
    pub(crate) fn invalidate_all(&mut self) {
        self.links.invalidate_all();
    }
}

impl<C: Core> CoreMemory<C> {
    /// Keeps the first descriptor of a walk that began at the first level, if it points to a table.
    pub(crate) fn keep_link(&mut self, address: u32, found: &Walk) {
        let asid = self.mmu.asid();
        if let Some(cache) = &mut self.walk_cache
            && let Some(&link) = found.descriptors().first()
            && matches!(self.mmu.descriptor(0, link.1), Descriptor::Table(_))
        {
            cache.insert(address, asid, link);
        }
    }

    /// The descriptor that the walk cache has for an address, for who only looks.
    pub(crate) fn kept_link(&self, address: u32) -> Option<Link> {
        self.walk_cache.as_ref()?.peek(address, self.mmu.asid())
    }
}
