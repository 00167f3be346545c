//! How the addresses of a 64-bit program come to a 32-bit machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mmulab_trace::{Batch, Block, Event};

/// log2 of the slab: addresses keep their offset within 1 MiB.
pub(crate) const SLAB_SHIFT: u32 = 20;
const SLAB_BYTES: u64 = 1 << SLAB_SHIFT;

/// A function from the program's addresses to a user space of up to 2 GiB, built while it is used.
///
/// The program's address space is divided into slabs of 1 MiB. Each one that the program touches
/// gets a slab of the user space, for good: the one at the same address modulo the size of the
/// space if it is free, so that a program that fits stays where it is and low address bits keep
/// their meaning, otherwise the next free one. A mapped region of up to an eighth of the space is
/// moved as a whole, so that offsets within it are kept; a larger one (which may be a mere
/// reservation), and one that finds no free run of slabs, goes slab by slab as it is touched. The
/// result depends on the trace alone.
///
/// A block or a data access is remapped by its first byte and keeps its length, even where it
/// crosses into a slab that has gone elsewhere.
#[derive(Clone, Debug)]
pub struct Remapping {
    /// By slab of the user space, the slab of the program that it holds.
    owners: Vec<Option<u64>>,
    targets: BTreeMap<u64, u32>,
    /// Mapped regions as slabs, first to last, not overlapping.
    regions: BTreeMap<u64, u64>,
}

/// The program touches more than the user space has room for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program touches more than {space_mib} regions of 1 MiB and does not fit the machine's user \
     space of {space_mib} MiB; use a machine with a 64-bit organisation, such as x86-64"
)]
pub struct DoesNotFit {
    space_mib: usize,
}

impl Remapping {
    /// Remaps into a user space of `user_space_bytes` (a power of two of 1 MiB to 2 GiB).
    pub fn new(user_space_bytes: u64) -> Self {
        let slabs = (user_space_bytes >> SLAB_SHIFT).max(1);
        Self {
            owners: vec![None; slabs as usize],
            targets: BTreeMap::new(),
            regions: BTreeMap::new(),
        }
    }

    /// Learns of a mapping, so that its offsets can be kept.
    pub fn map(&mut self, address: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        let mut first = address >> SLAB_SHIFT;
        let mut last = address.saturating_add(length_bytes - 1) >> SLAB_SHIFT;
        // Regions that share a slab must move together: merge them.
        while let Some((&start, &end)) = self.regions.range(..=last).next_back() {
            if end < first {
                break;
            }
            self.regions.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.regions.insert(first, last);
    }

    /// Where `address` is in the user space.
    ///
    /// # Errors
    /// There is no room left.
    pub fn remap(&mut self, address: u64) -> Result<u32, DoesNotFit> {
        let slab = address >> SLAB_SHIFT;
        let target = match self.targets.get(&slab) {
            Some(&target) => target,
            None => self.choose(slab)?,
        };
        Ok(target << SLAB_SHIFT | address as u32 & (SLAB_BYTES - 1) as u32)
    }

    /// Whether `batch`, in which the blocks `new` are new, brings a mapping or code that has no
    /// place yet.
    pub(crate) fn would_learn(&self, batch: &Batch, new: &[Block]) -> bool {
        batch.events.iter().any(|(_, event)| matches!(event, Event::Map { .. }))
            || new.iter().any(|block| !self.targets.contains_key(&(block.address >> SLAB_SHIFT)))
    }

    /// Gives each of `addresses` its place.
    ///
    /// # Errors
    /// There is no room left.
    pub(crate) fn touch<'a>(
        &mut self,
        addresses: impl IntoIterator<Item = &'a u64>,
    ) -> Result<(), DoesNotFit> {
        // Slabs that were met, by their low bits: most accesses are to one of them.
        let mut met = [u64::MAX; 64];
        for &address in addresses {
            let slab = address >> SLAB_SHIFT;
            let place = &mut met[slab as usize % 64];
            if *place != slab {
                self.remap(address)?;
                *place = slab;
            }
        }
        Ok(())
    }

    fn choose(&mut self, slab: u64) -> Result<u32, DoesNotFit> {
        let size = self.owners.len() as u64;
        let region = self
            .regions
            .range(..=slab)
            .next_back()
            .filter(|&(_, &last)| last >= slab)
            .map(|(&first, &last)| (first, last));
        if let Some((first, last)) = region {
            // A region that grew keeps its displacement; a new one takes the first that has room.
            let neighbour = self
                .targets
                .range(first..=last)
                .next()
                .map(|(&g, &target)| (u64::from(target).wrapping_sub(g)) & (size - 1));
            let displacements = neighbour.into_iter().chain(0..size);
            for displacement in displacements {
                if last - first < (size / 8).max(1) && self.fits(first, last, displacement) {
                    for member in first..=last {
                        self.assign(
                            member,
                            (member.wrapping_add(displacement) & (size - 1)) as u32,
                        );
                    }
                    return Ok(self.targets[&slab]);
                }
            }
        }
        for displacement in 0..size {
            let target = (slab.wrapping_add(displacement) & (size - 1)) as u32;
            if self.owners[target as usize].is_none() {
                self.assign(slab, target);
                return Ok(target);
            }
        }
        Err(DoesNotFit { space_mib: self.owners.len() })
    }

    /// Whether all slabs of a region are free, or already there, at this displacement, and none
    /// wraps around the end of the space.
    fn fits(&self, first: u64, last: u64, displacement: u64) -> bool {
        let size = self.owners.len() as u64;
        let start = first.wrapping_add(displacement) & (size - 1);
        start + (last - first) < size
            && (first..=last).all(|slab| {
                let target = start + (slab - first);
                match self.owners[target as usize] {
                    Some(owner) => owner == slab,
                    None => !self.targets.contains_key(&slab),
                }
            })
    }

    fn assign(&mut self, slab: u64, target: u32) {
        self.owners[target as usize] = Some(slab);
        self.targets.insert(slab, target);
    }

    /// The program's address of a remapped one. Behind a slab that is the last for now it is what
    /// follows there in the program: an access may begin in the slab and end behind it. `None`
    /// elsewhere.
    pub fn original(&self, remapped: u32) -> Option<u64> {
        let index = (remapped >> SLAB_SHIFT) as usize;
        let owner = |index: usize| self.owners.get(index).copied().flatten();
        let slab = owner(index).or_else(|| Some(owner(index.checked_sub(1)?)? + 1))?;
        Some(slab << SLAB_SHIFT | u64::from(remapped) & (SLAB_BYTES - 1))
    }
}

/// A [`Remapping`] that machines share.
#[derive(Clone, Debug)]
pub struct SharedRemapping(Arc<Mutex<Remapping>>);

impl SharedRemapping {
    /// Remaps into a user space of `user_space_bytes` (a power of two of 1 MiB to 2 GiB).
    pub fn new(user_space_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Remapping::new(user_space_bytes))))
    }

    /// The remapping, while nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, Remapping> {
        // A thread that panics between two slabs leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine's own way through a [`SharedRemapping`]: it remembers what it was told.
///
/// Machines that run at the same time do not disturb each other's results: each of them asks for
/// every slab in the order in which the program touches them, so whoever comes first to a new one
/// gets it the same slab of the user space.
#[derive(Clone, Debug)]
pub(crate) struct RemappingView {
    remapping: SharedRemapping,
    /// What to subtract from an address to remap it, by the slab's number modulo the slabs of the
    /// user space: right for the one of them that was used last. A wrong difference lies a multiple
    /// of the space's size away from the right one, so it ends outside the space.
    differences: Box<[u64]>,
    /// The difference that led to each slab of the user space; [`NO_ADDRESS`] if none has.
    taken: Box<[u64]>,
    refusal: Option<DoesNotFit>,
}

/// No program has addresses from here on; a difference that is not known leads here.
const NO_ADDRESS: u64 = 1 << 63;

impl RemappingView {
    pub(crate) fn new(remapping: SharedRemapping) -> Self {
        let slabs = remapping.lock().owners.len();
        Self {
            remapping,
            differences: (0..slabs as u64).map(|slab| NO_ADDRESS | slab << SLAB_SHIFT).collect(),
            taken: vec![NO_ADDRESS; slabs].into(),
            refusal: None,
        }
    }

    /// Where `address` is in the user space; anywhere if that has no room left, which
    /// [`RemappingView::refusal`] then says.
    #[inline(always)]
    pub(crate) fn remap(&mut self, address: u64) -> u32 {
        let index = (address >> SLAB_SHIFT) as usize & (self.differences.len() - 1);
        let remapped = address.wrapping_sub(self.differences[index]);
        let space_bytes = (self.differences.len() as u64) << SLAB_SHIFT;
        if remapped >= space_bytes || address >= NO_ADDRESS {
            return self.ask(address);
        }
        remapped as u32
    }

    #[cold]
    fn ask(&mut self, address: u64) -> u32 {
        let remapped = self.remapping.lock().remap(address);
        match remapped {
            Ok(remapped) => {
                let difference = address.wrapping_sub(remapped.into());
                let slabs = self.differences.len();
                self.differences[(address >> SLAB_SHIFT) as usize & (slabs - 1)] = difference;
                self.taken[(remapped >> SLAB_SHIFT) as usize] = difference;
                remapped
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                0
            }
        }
    }

    /// The program's address of one that was remapped here; no program's address for any other.
    pub(crate) fn original(&self, remapped: u32) -> u64 {
        let taken = self.taken.get((remapped >> SLAB_SHIFT) as usize);
        u64::from(remapped).wrapping_add(*taken.unwrap_or(&NO_ADDRESS))
    }

    /// Why an address could not be remapped.
    pub(crate) fn refusal(&self) -> Option<&DoesNotFit> {
        self.refusal.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_32_bit_program_stays_where_it_is() {
        let mut remapping = Remapping::new(2 * GIB);
        for address in [0x0804_80f3, 0x7fff_fffc, 0, 0x4000_0000] {
            assert_eq!(remapping.remap(address), Ok(address as u32));
            assert_eq!(remapping.original(address as u32), Some(address));
        }
    }

    #[test]
    fn colliding_regions_keep_their_offsets() {
        let mut remapping = Remapping::new(2 * GIB);
        let (first, second) = (0x5555_5540_0000, 0x7fff_d540_0000);
        assert_eq!(first % (2 * GIB), second % (2 * GIB));
        remapping.map(first, 3 * MIB);
        remapping.map(second, 5 * MIB);
        let base = remapping.remap(first + 2 * MIB + 5).unwrap() - 5;
        assert_eq!(remapping.remap(first).unwrap(), base - 2 * MIB as u32);
        let other = remapping.remap(second + 4 * MIB).unwrap();
        for offset in 0..5 {
            let remapped = remapping.remap(second + offset * MIB + 77).unwrap();
            assert_eq!(remapped, other - 4 * MIB as u32 + (offset * MIB) as u32 + 77);
            assert_eq!(remapping.original(remapped), Some(second + offset * MIB + 77));
        }
    }

    #[test]
    fn a_region_that_grows_keeps_its_displacement() {
        let mut remapping = Remapping::new(2 * GIB);
        remapping.map(0x5555_5540_0000, MIB);
        let first = remapping.remap(0x5555_5540_0000).unwrap();
        remapping.map(0x5555_5550_0000, 8 * MIB);
        assert_eq!(remapping.remap(0x5555_5590_0000).unwrap(), first + 5 * MIB as u32);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut remapping = Remapping::new(4 * MIB);
        for slab in 0..4 {
            assert!(remapping.remap(slab * 7 * MIB).is_ok());
        }
        let refusal = remapping.remap(100 * MIB).unwrap_err().to_string();
        assert!(refusal.contains("does not fit the machine's user space of 4 MiB"), "{refusal}");
    }

    #[test]
    fn a_region_larger_than_the_space_is_scattered_as_it_is_touched() {
        let mut remapping = Remapping::new(16 * MIB);
        remapping.map(0x1_0000_0000, 64 * GIB);
        let targets: std::collections::BTreeSet<_> =
            (0..16).map(|n| remapping.remap(0x1_0000_0000 + n * 999 * MIB).unwrap()).collect();
        assert_eq!(targets.len(), 16);
    }
}
