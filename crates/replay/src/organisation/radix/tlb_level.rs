//! The TLBs of one level, an array for each page size or one for several.

use mmulab_hardware::{GeometryError, Partition, Random, Tlb, TlbEntry, TlbGeometry};
use mmulab_machine as machine;

use crate::address_space::SMALL_SHIFT;
use crate::caches::{Location, replacement};

/// The TLBs of one level on one side: an array for each page size, or one for several.
#[derive(Clone, Debug)]
pub(super) struct TlbLevel {
    pub(super) arrays: Vec<Array>,
    /// The array for the smallest pages that the program has; hits of others are not known ahead.
    pub(super) main: usize,
    /// For each log2 of a page size what [`TlbLevel::array_for`] gives.
    array_for: [Option<(u32, usize)>; u64::BITS as usize],
    pub(super) misses: u64,
    pub(super) hits: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) tlb: Tlb<u64>,
    shifts: Vec<u32>,
}

impl Array {
    /// log2 of the smallest page that it takes.
    pub(super) fn smallest_shift(&self) -> u32 {
        self.shifts.first().copied().unwrap_or(SMALL_SHIFT)
    }
}

impl TlbLevel {
    pub(super) fn new(
        arrays: &[(&str, &Option<machine::Tlb>)],
        seed: u64,
        stream: u64,
    ) -> Result<Self, GeometryError> {
        let array_for = [None; u64::BITS as usize];
        let mut level = Self { arrays: Vec::new(), main: 0, array_for, misses: 0, hits: 0 };
        for (name, tlb) in arrays {
            let Some(tlb) = tlb else { continue };
            let mut shifts: Vec<u32> = tlb.page_sizes.iter().map(|size| size.shift()).collect();
            shifts.sort_unstable();
            let geometry = TlbGeometry {
                entries: tlb.entries,
                ways: tlb.ways.count(u64::from(tlb.entries)) as u32,
                page_shifts: shifts.clone(),
                protected_ways: 0,
            };
            // Streams from 100 on belong to the TLBs of this organisation.
            let random = Random::stream(seed, stream + level.arrays.len() as u64);
            let tlb = Tlb::new(&geometry, replacement(tlb.replacement), random)
                .map_err(|error| GeometryError(format!("{name}: {error}")))?;
            level.arrays.push(Array { tlb, shifts });
        }
        level.array_for = std::array::from_fn(|shift| level.find_array_for(shift as u32));
        Ok(level)
    }

    /// The entry that knows `address`. A hit counts as a use.
    #[inline]
    pub(super) fn lookup(&mut self, address: u64) -> Option<Translation> {
        for (number, array) in self.arrays.iter_mut().enumerate() {
            if let Some(slot) = array.tlb.lookup(address, 0) {
                self.hits += 1;
                let entry = array.tlb.entry(slot)?;
                return Some(Translation {
                    shift: entry.page_shift,
                    frame: entry.payload,
                    slot: (number == self.main).then_some(slot),
                });
            }
        }
        self.misses += 1;
        None
    }

    /// A hit of an entry of the main array that is known to be there; the frame of its page.
    #[inline]
    pub(super) fn use_main(&mut self, slot: u32) -> u64 {
        let tlb = &mut self.arrays[self.main].tlb;
        tlb.touch(slot);
        self.hits += 1;
        *tlb.payload(slot)
    }

    /// Whether some entry knows `address`; no use.
    pub(super) fn knows(&self, address: u64) -> bool {
        self.arrays.iter().any(|array| array.tlb.peek(address, 0).is_some())
    }

    /// log2 of the size of a page of `1 << page_shift` bytes in here, or of the largest piece of
    /// it, and the place of the array that takes it.
    #[inline]
    pub(super) fn array_for(&self, page_shift: u32) -> Option<(u32, usize)> {
        self.array_for.get(page_shift as usize).copied().flatten()
    }

    fn find_array_for(&self, page_shift: u32) -> Option<(u32, usize)> {
        let fitting =
            |array: &Array| array.shifts.iter().copied().filter(|&shift| shift <= page_shift).max();
        let arrays = self.arrays.iter().enumerate();
        arrays
            .filter_map(|(number, array)| Some((fitting(array)?, number)))
            .max_by_key(|(shift, _)| *shift)
    }

    /// Remembers that `address` is in a frame of `translation`. A page larger than any array holds
    /// is entered as the largest piece of it that one holds. Returns the entry, with no slot if
    /// there is none.
    pub(super) fn insert(&mut self, address: u64, translation: Translation) -> Translation {
        let Some((shift, number)) = self.array_for(translation.shift) else {
            return Translation { slot: None, ..translation };
        };
        let piece = address & ((1 << translation.shift) - 1) & !((1 << shift) - 1);
        let frame = translation.frame + piece;
        let entry = TlbEntry {
            virtual_address: address & !((1 << shift) - 1),
            page_shift: shift,
            payload: frame,
            ..TlbEntry::default()
        };
        let (slot, _) = self.arrays[number].tlb.insert(entry, Partition::Normal);
        Translation { shift, frame, slot: (number == self.main).then_some(slot) }
    }

    /// Drops the entries whose first address is `within` something.
    pub(super) fn invalidate(&mut self, within: impl Fn(u64) -> bool) {
        for array in &mut self.arrays {
            array.tlb.invalidate_where(|_, entry| within(entry.virtual_address));
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Translation {
    pub(super) shift: u32,
    pub(super) frame: u64,
    /// The slot of the first level's main array that knows it.
    pub(super) slot: Option<u32>,
}

impl Translation {
    /// Where `address`, which is in the page, is.
    #[inline]
    pub(super) fn location(&self, address: u64) -> Location {
        let offset = address & ((1 << self.shift) - 1);
        Location { virtual_address: address, physical_address: self.frame | offset }
    }
}
