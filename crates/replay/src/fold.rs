//! How the addresses of a 64-bit program come to a 32-bit machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// log2 of the granule: addresses keep their place within 1 MiB.
pub(crate) const GRANULE_SHIFT: u32 = 20;
const GRANULE_BYTES: u64 = 1 << GRANULE_SHIFT;

/// A function from the program's addresses to a user space of up to 2 GiB, built while it is used.
///
/// The program's address space is cut into granules of 1 MiB. Each one that the program touches gets
/// a granule of the user space, for good: the one at the same address modulo the size of the space if
/// it is free, so that a program that fits stays where it is and low address bits keep their meaning,
/// otherwise the next free one. A mapped region of up to an eighth of the space is moved as a whole,
/// so that offsets within it are kept; a larger one (which may be a mere reservation), and one that
/// finds no free run of granules, goes granule by granule as it is touched. The result depends on
/// the trace alone.
///
/// A block or a data access is folded by its first byte and keeps its length, even where it crosses
/// into a granule that has gone elsewhere.
#[derive(Clone, Debug)]
pub struct Fold {
    /// Granule of the program, by granule of the user space.
    owners: Vec<Option<u64>>,
    placed: BTreeMap<u64, u32>,
    /// Mapped regions as granules, first to last, not overlapping.
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

impl Fold {
    /// Folds into a user space of `user_space_bytes` (a power of two of 1 MiB to 2 GiB).
    pub fn new(user_space_bytes: u64) -> Self {
        let granules = (user_space_bytes >> GRANULE_SHIFT).max(1);
        Self {
            owners: vec![None; granules as usize],
            placed: BTreeMap::new(),
            regions: BTreeMap::new(),
        }
    }

    /// Learns of a mapping, so that its offsets can be kept.
    pub fn map(&mut self, address: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        let mut first = address >> GRANULE_SHIFT;
        let mut last = address.saturating_add(length_bytes - 1) >> GRANULE_SHIFT;
        // Regions that share a granule must move together: merge them.
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
    pub fn fold(&mut self, address: u64) -> Result<u32, DoesNotFit> {
        let granule = address >> GRANULE_SHIFT;
        let place = match self.placed.get(&granule) {
            Some(&place) => place,
            None => self.place(granule)?,
        };
        Ok(place << GRANULE_SHIFT | address as u32 & (GRANULE_BYTES - 1) as u32)
    }

    fn place(&mut self, granule: u64) -> Result<u32, DoesNotFit> {
        let size = self.owners.len() as u64;
        let region = self
            .regions
            .range(..=granule)
            .next_back()
            .filter(|&(_, &last)| last >= granule)
            .map(|(&first, &last)| (first, last));
        if let Some((first, last)) = region {
            // A region that grew keeps its displacement; a new one takes the first that has room.
            let neighbour = self
                .placed
                .range(first..=last)
                .next()
                .map(|(&g, &place)| (u64::from(place).wrapping_sub(g)) & (size - 1));
            let displacements = neighbour.into_iter().chain(0..size);
            for displacement in displacements {
                if last - first < (size / 8).max(1) && self.fits(first, last, displacement) {
                    for member in first..=last {
                        self.assign(
                            member,
                            (member.wrapping_add(displacement) & (size - 1)) as u32,
                        );
                    }
                    return Ok(self.placed[&granule]);
                }
            }
        }
        for displacement in 0..size {
            let place = (granule.wrapping_add(displacement) & (size - 1)) as u32;
            if self.owners[place as usize].is_none() {
                self.assign(granule, place);
                return Ok(place);
            }
        }
        Err(DoesNotFit { space_mib: self.owners.len() })
    }

    /// Whether all granules of a region are free, or already there, at this displacement, and none
    /// wraps around the end of the space.
    fn fits(&self, first: u64, last: u64, displacement: u64) -> bool {
        let size = self.owners.len() as u64;
        let start = first.wrapping_add(displacement) & (size - 1);
        start + (last - first) < size
            && (first..=last).all(|granule| {
                let place = start + (granule - first);
                match self.owners[place as usize] {
                    Some(owner) => owner == granule,
                    None => !self.placed.contains_key(&granule),
                }
            })
    }

    fn assign(&mut self, granule: u64, place: u32) {
        self.owners[place as usize] = Some(granule);
        self.placed.insert(granule, place);
    }

    /// The program's address of a folded one; `None` for what no program address folds to.
    pub fn unfold(&self, folded: u32) -> Option<u64> {
        let granule = (*self.owners.get((folded >> GRANULE_SHIFT) as usize)?)?;
        Some(granule << GRANULE_SHIFT | u64::from(folded) & (GRANULE_BYTES - 1))
    }
}

/// A [`Fold`] that machines share.
#[derive(Clone, Debug)]
pub struct SharedFold(Arc<Mutex<Fold>>);

impl SharedFold {
    /// Folds into a user space of `user_space_bytes` (a power of two of 1 MiB to 2 GiB).
    pub fn new(user_space_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Fold::new(user_space_bytes))))
    }

    /// The fold, while nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, Fold> {
        // A thread that panics between two granules leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine's own way through a [`SharedFold`]: it remembers what it was told.
///
/// Machines that run at the same time do not disturb each other's results: each of them asks for
/// every granule in the order in which the program touches them, so whoever comes first to a new one
/// gets it the same place.
#[derive(Clone, Debug)]
pub(crate) struct FoldedView {
    fold: SharedFold,
    /// What to take from an address to fold it, by the granule's number modulo the granules of the
    /// user space: right for the one of them that was used last. A wrong difference lies a multiple
    /// of the space's size away from the right one, so it ends outside the space.
    differences: Box<[u64]>,
    /// The difference that led to each granule of the user space; [`NO_ADDRESS`] if none has.
    taken: Box<[u64]>,
    refusal: Option<DoesNotFit>,
}

/// No program has addresses from here on; a difference that is not known leads here.
const NO_ADDRESS: u64 = 1 << 63;

impl FoldedView {
    pub(crate) fn new(fold: SharedFold) -> Self {
        let granules = fold.lock().owners.len();
        Self {
            fold,
            differences: (0..granules as u64)
                .map(|granule| NO_ADDRESS | granule << GRANULE_SHIFT)
                .collect(),
            taken: vec![NO_ADDRESS; granules].into(),
            refusal: None,
        }
    }

    /// Where `address` is in the user space; anywhere if that has no room left, which
    /// [`FoldedView::refusal`] then says.
    #[inline(always)]
    pub(crate) fn fold(&mut self, address: u64) -> u32 {
        let index = (address >> GRANULE_SHIFT) as usize & (self.differences.len() - 1);
        let folded = address.wrapping_sub(self.differences[index]);
        let space_bytes = (self.differences.len() as u64) << GRANULE_SHIFT;
        if folded >= space_bytes || address >= NO_ADDRESS {
            return self.ask(address);
        }
        folded as u32
    }

    #[cold]
    fn ask(&mut self, address: u64) -> u32 {
        let folded = self.fold.lock().fold(address);
        match folded {
            Ok(folded) => {
                let difference = address.wrapping_sub(folded.into());
                let granules = self.differences.len();
                self.differences[(address >> GRANULE_SHIFT) as usize & (granules - 1)] = difference;
                self.taken[(folded >> GRANULE_SHIFT) as usize] = difference;
                folded
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                0
            }
        }
    }

    /// The program's address of one that was folded here; no program's address for any other.
    pub(crate) fn unfold(&self, folded: u32) -> u64 {
        let taken = self.taken.get((folded >> GRANULE_SHIFT) as usize);
        u64::from(folded).wrapping_add(*taken.unwrap_or(&NO_ADDRESS))
    }

    /// Why an address could not be folded.
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
        let mut fold = Fold::new(2 * GIB);
        for address in [0x0804_80f3, 0x7fff_fffc, 0, 0x4000_0000] {
            assert_eq!(fold.fold(address), Ok(address as u32));
            assert_eq!(fold.unfold(address as u32), Some(address));
        }
    }

    #[test]
    fn colliding_regions_keep_their_offsets() {
        let mut fold = Fold::new(2 * GIB);
        let (first, second) = (0x5555_5540_0000, 0x7fff_d540_0000);
        assert_eq!(first % (2 * GIB), second % (2 * GIB));
        fold.map(first, 3 * MIB);
        fold.map(second, 5 * MIB);
        let base = fold.fold(first + 2 * MIB + 5).unwrap() - 5;
        assert_eq!(fold.fold(first).unwrap(), base - 2 * MIB as u32);
        let other = fold.fold(second + 4 * MIB).unwrap();
        for offset in 0..5 {
            let folded = fold.fold(second + offset * MIB + 77).unwrap();
            assert_eq!(folded, other - 4 * MIB as u32 + (offset * MIB) as u32 + 77);
            assert_eq!(fold.unfold(folded), Some(second + offset * MIB + 77));
        }
    }

    #[test]
    fn a_region_that_grows_keeps_its_displacement() {
        let mut fold = Fold::new(2 * GIB);
        fold.map(0x5555_5540_0000, MIB);
        let first = fold.fold(0x5555_5540_0000).unwrap();
        fold.map(0x5555_5550_0000, 8 * MIB);
        assert_eq!(fold.fold(0x5555_5590_0000).unwrap(), first + 5 * MIB as u32);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut fold = Fold::new(4 * MIB);
        for granule in 0..4 {
            assert!(fold.fold(granule * 7 * MIB).is_ok());
        }
        let refusal = fold.fold(100 * MIB).unwrap_err().to_string();
        assert!(refusal.contains("does not fit the machine's user space of 4 MiB"), "{refusal}");
    }

    #[test]
    fn a_region_larger_than_the_space_is_scattered_as_it_is_touched() {
        let mut fold = Fold::new(16 * MIB);
        fold.map(0x1_0000_0000, 64 * GIB);
        let places: std::collections::BTreeSet<_> =
            (0..16).map(|n| fold.fold(0x1_0000_0000 + n * 999 * MIB).unwrap()).collect();
        assert_eq!(places.len(), 16);
    }
}
