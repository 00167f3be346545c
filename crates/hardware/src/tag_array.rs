//! The associative lookup and the replacement that caches and TLBs share.

use crate::Random;

/// Where an entry sits: `set * ways + way`. Drivers index their own per-entry data with it.
pub type Slot = u32;

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

/// The two parts into which wired slots divide a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The ways that ordinary fills use.
    Normal,
    /// The lowest ways of each set, which ordinary fills never evict.
    Protected,
}

/// Why a structure of the wanted shape cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GeometryError(pub String);

/// The set to which a line or a page belongs: its number modulo the number of sets.
#[derive(Clone, Copy, Debug)]
pub struct SetIndex {
    sets: u32,
    /// For a power of two, which a mask serves faster than a division.
    mask: Option<u32>,
}

impl SetIndex {
    /// Of a structure that has `sets` sets, at least one.
    pub fn new(sets: u32) -> Self {
        Self { sets, mask: sets.is_power_of_two().then(|| sets - 1) }
    }

    /// The set of the line or page with this number.
    #[inline(always)]
    pub fn of(self, number: u64) -> u32 {
        match self.mask {
            Some(mask) => number as u32 & mask,
            None => (number % u64::from(self.sets)) as u32,
        }
    }
}

/// The tag of an empty slot. No address has it: tags are line or page numbers.
const EMPTY: u64 = u64::MAX;

/// From this many ways on, lookups go through hints instead of comparing every way.
const HINTED_WAYS: u32 = 4;

/// Tags in sets, found by (set, tag).
#[derive(Clone, Debug)]
pub struct TagArray {
    tags: Box<[u64]>,
    ways: u32,
    sets: u32,
    /// Ways below this one are protected from ordinary fills.
    protected_ways: u32,
    /// Ways that no fill takes, one bit each.
    closed_ways: u64,
    /// The way of the next fill of each set plus one, where software has chosen it; else 0. Empty
    /// until it does.
    aimed_ways: Box<[u16]>,
    /// Full ways of each set by partition, so that looking for an empty way costs nothing where
    /// there is none.
    occupied: Box<[[u16; 2]]>,
    /// For each hash of a tag, the way where such a tag was last seen. A hint is verified by the
    /// tag, so a wrong one costs a scan and nothing else. Empty when ways are few.
    hints: Box<[u16]>,
    hint_shift: u32,
    order: Order,
    /// For random replacement, also while another is chosen.
    random: Random,
}

#[derive(Clone, Debug)]
enum Order {
    Random,
    /// Two pointers a set: normal, protected.
    RoundRobin(Box<[u16]>),
    Lru {
        clock: u64,
        last_use: Box<[u64]>,
    },
    /// Bit `n` of a set's words belongs to node `n` of the tree (root 1, children 2n and 2n+1) and
    /// is set when the victim is to be sought in the upper half.
    TreePseudoLru {
        trees: Box<[u64]>,
        /// For each way, the bits on its path and what a use sets them to; for trees of one word.
        paths: Box<[(u64, u64)]>,
    },
}

impl Order {
    /// The state of a replacement before its first fill.
    fn new(replacement: Replacement, sets: u32, ways: u32) -> Result<Order, GeometryError> {
        let slots = (sets * ways) as usize;
        Ok(match replacement {
            Replacement::Random => Order::Random,
            Replacement::RoundRobin => Order::RoundRobin(vec![0; 2 * sets as usize].into()),
            Replacement::Lru => Order::Lru { clock: 0, last_use: vec![0; slots].into() },
            Replacement::TreePseudoLru => {
                if !ways.is_power_of_two() {
                    return Err(GeometryError(format!(
                        "{ways} ways: tree pseudo-LRU needs a power of two"
                    )));
                }
                let paths = if ways > 64 { 0..0 } else { 0..ways };
                Order::TreePseudoLru {
                    trees: vec![0; sets as usize * tree_words(ways)].into(),
                    paths: paths.map(|way| tree_path(ways, way)).collect(),
                }
            }
        })
    }
}

/// Words that hold the tree of one set.
#[inline]
fn tree_words(ways: u32) -> usize {
    ways.div_ceil(64) as usize
}

/// The nodes on the path to a way, each with the bit that points away from it.
fn tree_nodes(ways: u32, way: u32) -> impl Iterator<Item = (u32, bool)> {
    // Leaf `ways + way`; a parent's bit is set when the way is in its lower half.
    let leaf = ways + way;
    (0..ways.trailing_zeros()).map(move |up| (leaf >> (up + 1), (leaf >> up) & 1 == 0))
}

/// The same as (bits on the path, those that a use sets) of a tree of one word.
fn tree_path(ways: u32, way: u32) -> (u64, u64) {
    tree_nodes(ways, way)
        .fold((0, 0), |(path, away), (node, bit)| (path | 1 << node, away | u64::from(bit) << node))
}

/// Records uses of slots, as [`TagArray::touch`] does: one kind a replacement, so that a loop over
/// many hits can be compiled for each.
pub trait Touch {
    /// Records a use of `slot`.
    fn touch(&mut self, slot: Slot);
}

/// The replacement state of a tag array, for [`Touch`].
#[derive(Debug)]
pub enum Recency<'a> {
    /// Uses change nothing.
    Unused(Untouched),
    /// Least recently used.
    Lru(LruRecency<'a>),
    /// Tree pseudo-LRU of at most 64 ways.
    Tree(TreeRecency<'a>),
}

/// Replacement that does not depend on uses.
#[derive(Debug)]
pub struct Untouched;

/// See [`Replacement::Lru`].
#[derive(Debug)]
pub struct LruRecency<'a> {
    clock: &'a mut u64,
    last_use: &'a mut [u64],
}

/// See [`Replacement::TreePseudoLru`].
#[derive(Debug)]
pub struct TreeRecency<'a> {
    trees: &'a mut [u64],
    paths: &'a [(u64, u64)],
    way_bits: u32,
}

impl Touch for Untouched {
    #[inline(always)]
    fn touch(&mut self, _slot: Slot) {}
}

impl Touch for LruRecency<'_> {
    #[inline(always)]
    fn touch(&mut self, slot: Slot) {
        *self.clock += 1;
        self.last_use[slot as usize] = *self.clock;
    }
}

impl Touch for TreeRecency<'_> {
    #[inline(always)]
    fn touch(&mut self, slot: Slot) {
        let (path, away) = self.paths[slot as usize & (self.paths.len() - 1)];
        let tree = &mut self.trees[slot as usize >> self.way_bits];
        *tree = *tree & !path | away;
    }
}

impl TagArray {
    /// An empty array. `random` is used by random replacement only.
    ///
    /// # Errors
    /// It is impossible.
    pub fn new(
        sets: u32,
        ways: u32,
        replacement: Replacement,
        random: Random,
    ) -> Result<Self, GeometryError> {
        if sets == 0 {
            return Err(GeometryError("0 sets: must be at least 1".to_owned()));
        }
        if ways == 0 || ways > u32::from(u16::MAX) {
            return Err(GeometryError(format!("{ways} ways: must be 1 to 65535")));
        }
        let slots = sets
            .checked_mul(ways)
            .filter(|&slots| slots <= 1 << 28)
            .ok_or_else(|| GeometryError(format!("{sets} sets of {ways} ways are too many")))?
            as usize;
        let order = Order::new(replacement, sets, ways)?;
        // Eight hints a slot keep two live tags from sharing one most of the time.
        let hints = if ways < HINTED_WAYS { 0 } else { (slots * 8).next_power_of_two() };
        Ok(Self {
            tags: vec![EMPTY; slots].into(),
            ways,
            sets,
            protected_ways: 0,
            closed_ways: 0,
            aimed_ways: [].into(),
            occupied: vec![[0; 2]; sets as usize].into(),
            hints: vec![0; hints].into(),
            hint_shift: 64 - hints.max(2).trailing_zeros(),
            order,
            random,
        })
    }

    /// The number of sets.
    #[inline]
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// Ways of a set.
    #[inline]
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// The number of slots.
    pub fn slots(&self) -> u32 {
        self.sets * self.ways
    }

    /// How many of the lowest ways of each set are protected.
    pub fn protected_ways(&self) -> u32 {
        self.protected_ways
    }

    /// Protects the lowest `ways` of every set from ordinary fills, from now on.
    ///
    /// # Errors
    /// No way would be left.
    pub fn protect_ways(&mut self, ways: u32) -> Result<(), GeometryError> {
        if ways >= self.ways {
            return Err(GeometryError(format!(
                "{ways} protected of {} ways: at least one must be left",
                self.ways
            )));
        }
        self.protected_ways = ways;
        self.occupied.fill([0; 2]);
        for slot in 0..self.slots() {
            if self.tag(slot).is_some() {
                *self.occupied_with(slot) += 1;
            }
        }
        Ok(())
    }

    /// Keeps fills from the ways whose bits are set, from now on. Ways from 64 on stay open.
    ///
    /// # Errors
    /// No way would be left.
    pub fn close_ways(&mut self, ways: u64) -> Result<(), GeometryError> {
        let existing = if self.ways >= 64 { !0 } else { (1 << self.ways) - 1 };
        if self.ways <= 64 && ways & existing == existing {
            return Err(GeometryError(format!("all {} ways closed: one must be left", self.ways)));
        }
        self.closed_ways = ways & existing;
        Ok(())
    }

    /// The next fill of each set takes `way`, and a round-robin pointer continues from there.
    pub fn aim(&mut self, way: u32) {
        let way = way.min(self.ways - 1) as u16;
        if let Order::RoundRobin(pointers) = &mut self.order {
            pointers.fill(way);
        } else {
            self.aimed_ways = vec![way + 1; self.sets as usize].into();
        }
    }

    /// The way that round robin takes next in the first set; otherwise the first that is not protected.
    pub fn next_fill(&self) -> u32 {
        let low = self.protected_ways;
        match &self.order {
            Order::RoundRobin(pointers) => u32::from(pointers[0]).clamp(low, self.ways - 1),
            _ => low,
        }
    }

    /// The ways that fills may take while some are closed, in ascending order.
    fn open_ways(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        let closed = self.closed_ways;
        (0..self.ways).filter(move |&way| way >= 64 || closed >> way & 1 == 0)
    }

    /// As [`TagArray::victim`], while ways are closed.
    #[cold]
    fn victim_among_open(&mut self, set: u32) -> Slot {
        let first = set * self.ways;
        let mut open = self.open_ways();
        if let Order::RoundRobin(pointers) = &mut self.order {
            let pointer = &mut pointers[2 * set as usize];
            let from = u32::from(*pointer);
            let next = open.clone().find(|&way| way >= from).or_else(|| open.next());
            let way = next.unwrap_or(0);
            *pointer = ((way + 1) % self.ways) as u16;
            return first + way;
        }
        if let Some(empty) = open.clone().find(|&way| self.tag(first + way).is_none()) {
            return first + empty;
        }
        let way = match &mut self.order {
            Order::Random => {
                let count = self.ways - self.closed_ways.count_ones();
                open.nth(self.random.below(count) as usize)
            }
            Order::RoundRobin(_) => unreachable!("handled above"),
            Order::Lru { last_use, .. } => open.min_by_key(|way| last_use[(first + way) as usize]),
            Order::TreePseudoLru { trees, .. } => {
                // Follow the bits, except into a half whose ways are all closed.
                let words = tree_words(self.ways);
                let tree = &trees[set as usize * words..][..words];
                let (mut node, mut start, mut width) = (1, 0, self.ways);
                while width > 1 {
                    width /= 2;
                    let is_open =
                        |low: u32| open.clone().any(|way| (low..low + width).contains(&way));
                    let upper = is_open(start + width)
                        && (!is_open(start) || tree[node as usize / 64] >> (node % 64) & 1 == 1);
                    start += if upper { width } else { 0 };
                    node = 2 * node + u32::from(upper);
                }
                Some(start)
            }
        };
        first + way.unwrap_or(0)
    }

    /// The count of full ways to which `slot` belongs.
    #[inline]
    fn occupied_with(&mut self, slot: Slot) -> &mut u16 {
        let (set, way) = (slot / self.ways, slot % self.ways);
        &mut self.occupied[set as usize][usize::from(way < self.protected_ways)]
    }

    /// Changes the replacement; what is held stays.
    ///
    /// # Errors
    /// It needs another number of ways.
    pub fn set_replacement(&mut self, replacement: Replacement) -> Result<(), GeometryError> {
        self.order = Order::new(replacement, self.sets, self.ways)?;
        Ok(())
    }

    /// Where `tag` is in `set`; changes nothing that affects replacement.
    #[inline]
    pub fn find(&mut self, set: u32, tag: u64) -> Option<Slot> {
        let first = (set * self.ways) as usize;
        if self.hints.is_empty() {
            let ways = &self.tags[first..first + self.ways as usize];
            return ways.iter().position(|&held| held == tag).map(|way| (first + way) as Slot);
        }
        let hint = self.hint_of(tag);
        let slot = first + usize::from(self.hints[hint]);
        if self.tags[slot] == tag {
            return Some(slot as Slot);
        }
        self.find_by_scan(first, tag, hint)
    }

    #[cold]
    fn find_by_scan(&mut self, first: usize, tag: u64, hint: usize) -> Option<Slot> {
        let ways = &self.tags[first..first + self.ways as usize];
        let way = ways.iter().position(|&held| held == tag)?;
        self.hints[hint] = way as u16;
        Some((first + way) as Slot)
    }

    /// [`TagArray::find`] for who only looks: not even a hint changes.
    pub fn peek(&self, set: u32, tag: u64) -> Option<Slot> {
        let first = (set * self.ways) as usize;
        let ways = &self.tags[first..first + self.ways as usize];
        let hinted = self.hints.get(self.hint_of(tag)).map(|&way| usize::from(way));
        let way = match hinted.filter(|&way| ways[way] == tag) {
            Some(way) => way,
            None => ways.iter().position(|&held| held == tag)?,
        };
        Some((first + way) as Slot)
    }

    #[inline]
    fn hint_of(&self, tag: u64) -> usize {
        (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.hint_shift) as usize
    }

    /// The tag in `slot`, if it holds one.
    #[inline]
    pub fn tag(&self, slot: Slot) -> Option<u64> {
        let tag = self.tags[slot as usize];
        (tag != EMPTY).then_some(tag)
    }

    /// The replacement state by its kind; `None` for a tree of more than 64 ways.
    pub fn recency(&mut self) -> Option<Recency<'_>> {
        Some(match &mut self.order {
            Order::Random | Order::RoundRobin(_) => Recency::Unused(Untouched),
            Order::Lru { clock, last_use } => Recency::Lru(LruRecency { clock, last_use }),
            Order::TreePseudoLru { trees, paths } => {
                if paths.is_empty() {
                    return None;
                }
                let way_bits = self.ways.trailing_zeros();
                Recency::Tree(TreeRecency { trees, paths, way_bits })
            }
        })
    }

    /// Records a use of `slot`.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        match &mut self.order {
            Order::Random | Order::RoundRobin(_) => {}
            Order::Lru { clock, last_use } => {
                *clock += 1;
                last_use[slot as usize] = *clock;
            }
            Order::TreePseudoLru { trees, paths } => {
                // The number of ways is a power of two.
                let way_bits = self.ways.trailing_zeros();
                let (set, way) = ((slot >> way_bits) as usize, slot & (self.ways - 1));
                if let Some((path, away)) = paths.get(way as usize) {
                    trees[set] = trees[set] & !path | away;
                    return;
                }
                let words = tree_words(self.ways);
                let tree = &mut trees[set * words..][..words];
                for (node, bit) in tree_nodes(self.ways, way) {
                    let (word, mask) = (&mut tree[node as usize / 64], 1 << (node % 64));
                    *word = *word & !mask | (u64::from(bit) << (node % 64));
                }
            }
        }
    }

    /// The slot of `set` that the next fill evicts. Advances the generator or the pointer.
    #[inline]
    pub fn victim(&mut self, set: u32, partition: Partition) -> Slot {
        if let Some(aimed) = self.aimed_ways.get_mut(set as usize)
            && *aimed != 0
        {
            return set * self.ways + u32::from(std::mem::take(aimed)) - 1;
        }
        if self.closed_ways != 0 {
            return self.victim_among_open(set);
        }
        let (low, high) = match partition {
            Partition::Normal => (self.protected_ways, self.ways),
            Partition::Protected => (0, self.protected_ways),
        };
        debug_assert!(low < high, "no way of this partition");
        let first = set * self.ways;
        if let Order::RoundRobin(pointers) = &mut self.order {
            let pointer =
                &mut pointers[2 * set as usize + usize::from(low == 0 && high < self.ways)];
            let way = u32::from(*pointer).clamp(low, high - 1);
            *pointer = if way + 1 == high { low } else { way + 1 } as u16;
            return first + way;
        }
        if u32::from(self.occupied[set as usize][partition as usize]) < high - low {
            let ways = &self.tags[(first + low) as usize..(first + high) as usize];
            if let Some(empty) = ways.iter().position(|&tag| tag == EMPTY) {
                return first + low + empty as u32;
            }
        }
        match &mut self.order {
            Order::Random => first + low + self.random.below(high - low),
            Order::RoundRobin(_) => unreachable!("handled above"),
            Order::Lru { last_use, .. } => {
                let mut oldest = first + low;
                for slot in oldest + 1..first + high {
                    if last_use[slot as usize] < last_use[oldest as usize] {
                        oldest = slot;
                    }
                }
                oldest
            }
            Order::TreePseudoLru { trees, .. } => {
                // Follow the bits, except into a half that holds no way of the partition.
                let words = tree_words(self.ways);
                let tree = &trees[set as usize * words..][..words];
                let (mut node, mut start, mut width) = (1, 0, self.ways);
                while width > 1 {
                    width /= 2;
                    let middle = start + width;
                    let upper = if middle >= high {
                        false
                    } else {
                        middle <= low || tree[node as usize / 64] >> (node % 64) & 1 == 1
                    };
                    start += if upper { width } else { 0 };
                    node = 2 * node + u32::from(upper);
                }
                first + start
            }
        }
    }

    /// Puts `tag` into `slot`, records the use, and returns the tag that was there.
    #[inline]
    pub fn replace(&mut self, slot: Slot, tag: u64) -> Option<u64> {
        let old = std::mem::replace(&mut self.tags[slot as usize], tag);
        if old == EMPTY {
            *self.occupied_with(slot) += 1;
        }
        if !self.hints.is_empty() {
            let hint = self.hint_of(tag);
            self.hints[hint] = (slot % self.ways) as u16;
        }
        self.touch(slot);
        (old != EMPTY).then_some(old)
    }

    /// Empties `slot` and returns the tag that was there.
    pub fn remove(&mut self, slot: Slot) -> Option<u64> {
        let old = std::mem::replace(&mut self.tags[slot as usize], EMPTY);
        if old == EMPTY {
            return None;
        }
        *self.occupied_with(slot) -= 1;
        Some(old)
    }

    /// Empties everything. Replacement state stays, as in hardware.
    pub fn clear(&mut self) {
        self.tags.fill(EMPTY);
        self.occupied.fill([0; 2]);
    }

    /// The filled slots in ascending order, with their tags.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, u64)> + '_ {
        self.tags
            .iter()
            .enumerate()
            .filter(|&(_, &tag)| tag != EMPTY)
            .map(|(slot, &tag)| (slot as Slot, tag))
    }
}
