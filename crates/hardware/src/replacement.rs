//! Which slot makes room: the state that uses and fills change, and the victims that follow from
//! it.

use std::hint::select_unpredictable;
use std::ops::Range;

use crate::tag_array::{GeometryError, Slot};

/// Which entry makes room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// Any way with equal probability, from a seeded generator; an empty way is taken first.
    Random,
    /// A pointer per set (and partition) that advances with each fill, whether or not the way it
    /// points to holds anything: hardware pointers do not look.
    RoundRobin,
    /// The way whose last use is longest ago; an empty way is taken first.
    Lru,
    /// A binary tree of bits per set, each pointing away from the half used last; an empty way is
    /// taken first. Needs a power of two of ways.
    TreePseudoLru,
}

/// The state of a replacement.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Random,
    /// Two pointers a set: normal, protected.
    RoundRobin(Box<[u16]>),
    Lru(Uses),
    /// The bits of the trees are not kept: a bit points away from the half of the ways that was
    /// used last, which the times of use tell. So a use is one store, and only a victim costs a
    /// search.
    TreePseudoLru(Uses),
}

mmulab_state::value_enum!(Order { Random, RoundRobin(pointers), Lru(uses), TreePseudoLru(uses) });

/// When each slot was used last.
#[derive(Clone, Debug)]
pub(crate) struct Uses {
    /// Counts uses.
    pub(crate) clock: u64,
    /// The clock at the last use of each slot; 0 is never.
    pub(crate) last_use: Box<[u64]>,
}

mmulab_state::value!(Uses { clock, last_use });

impl Uses {
    fn new(slots: usize) -> Self {
        Self { clock: 0, last_use: vec![0; slots].into() }
    }

    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.clock += 1;
        self.last_use[slot as usize] = self.clock;
    }

    /// The slot that was used least recently of the `ways` from `first` on.
    #[inline]
    pub(crate) fn least_recent(&self, first: u32, ways: u32) -> Slot {
        let uses = &self.last_use[first as usize..][..ways as usize];
        // Where the number of ways is known, nothing depends on a jump.
        let way = match ways {
            4 => least_recent::<4>(uses),
            8 => least_recent::<8>(uses),
            12 => least_recent::<12>(uses),
            16 => least_recent::<16>(uses),
            _ => (0..ways).min_by_key(|&way| uses[way as usize]).unwrap_or(0),
        };
        first + way
    }

    /// The slot to which the bits of the tree of the `ways` from `first` on lead, except into a
    /// half that holds none of `partition`.
    #[inline]
    pub(crate) fn tree_victim(&self, first: u32, ways: u32, partition: Range<u32>) -> Slot {
        if partition == (0..ways) {
            let uses = &self.last_use[first as usize..][..ways as usize];
            match ways {
                2 => return first + tree_victim::<2>(uses),
                4 => return first + tree_victim::<4>(uses),
                8 => return first + tree_victim::<8>(uses),
                16 => return first + tree_victim::<16>(uses),
                _ => {}
            }
        }
        let (mut start, mut width) = (0, ways);
        while width > 1 {
            width /= 2;
            let middle = start + width;
            let upper = middle < partition.end
                && (middle <= partition.start || self.points_up(first + start, width));
            start += if upper { width } else { 0 };
        }
        first + start
    }

    /// Whether the tree's bit points to the upper half of the `2 * width` slots from `start` on.
    #[inline]
    pub(crate) fn points_up(&self, start: u32, width: u32) -> bool {
        let last = |start: u32| {
            let half = &self.last_use[start as usize..][..width as usize];
            half.iter().fold(0, |last, &time| last.max(time))
        };
        last(start) > last(start + width)
    }
}

/// The place of the least of `WAYS` times, the first of equal ones.
#[inline(always)]
fn least_recent<const WAYS: usize>(uses: &[u64]) -> u32 {
    let (mut oldest, mut place) = (uses[0], 0);
    for (way, &time) in (1..).zip(&uses[1..WAYS]) {
        place = select_unpredictable(time < oldest, way, place);
        oldest = select_unpredictable(time < oldest, time, oldest);
    }
    place
}

/// The way to which bits lead that point away from the half of `WAYS` that was used last.
#[inline(always)]
fn tree_victim<const WAYS: usize>(uses: &[u64]) -> u32 {
    let later = |one: u64, &other: &u64| select_unpredictable(other > one, other, one);
    let latest = |uses: &[u64]| uses.iter().fold(0, later);
    let mut left: [u64; WAYS] = std::array::from_fn(|way| uses[way]);
    let (mut width, mut place) = (WAYS, 0);
    while width > 1 {
        width /= 2;
        let upper = latest(&left[..width]) > latest(&left[width..2 * width]);
        place += select_unpredictable(upper, width as u32, 0);
        for way in 0..width {
            left[way] = select_unpredictable(upper, left[width + way], left[way]);
        }
    }
    place
}

impl Order {
    /// The state of a replacement before its first fill.
    pub(crate) fn new(
        replacement: Replacement,
        sets: u32,
        ways: u32,
    ) -> Result<Order, GeometryError> {
        let slots = (sets * ways) as usize;
        Ok(match replacement {
            Replacement::Random => Order::Random,
            Replacement::RoundRobin => Order::RoundRobin(vec![0; 2 * sets as usize].into()),
            Replacement::Lru => Order::Lru(Uses::new(slots)),
            Replacement::TreePseudoLru => {
                if !ways.is_power_of_two() {
                    return Err(GeometryError(format!(
                        "{ways} ways: tree pseudo-LRU needs a power of two"
                    )));
                }
                Order::TreePseudoLru(Uses::new(slots))
            }
        })
    }
}

/// What uses change in a tag array, so that a loop over many of them can keep it in registers.
#[derive(Debug)]
pub struct Recency<'a> {
    /// Counts uses: one for each, and each at another count.
    pub clock: &'a mut u64,
    /// The clock at the last use of each slot.
    pub last_use: &'a mut [u64],
}

impl Recency<'_> {
    /// The same for a while.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Recency<'_> {
        Recency { clock: self.clock, last_use: self.last_use }
    }
}
