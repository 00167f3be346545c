//! Which pages and which parts of the program its translation costs belong to.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use mmulab_trace::Event;

/// Walks and their cycles by page. A walk belongs to the page whose translation was sought.
#[derive(Clone, Debug)]
pub struct Attribution<P> {
    index: HashMap<P, usize, BuildHasherDefault<PageHasher>>,
    pages: Vec<(P, PageWalks)>,
}

/// What the translations of one page cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageWalks {
    /// Walks for instruction fetches.
    pub fetch_walks: u64,
    /// Walks for data references.
    pub data_walks: u64,
    /// Cycles of both, interrupts included.
    pub cycles: u64,
}

/// A hash of page numbers. A walk is short enough for the standard library's hash to show.
#[derive(Clone, Copy, Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table takes its slot from the low bits and its check from the high ones: a
        // multiplication fills the high ones, and turning the word brings them down too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}

impl<P> Default for Attribution<P> {
    fn default() -> Self {
        Self { index: HashMap::default(), pages: Vec::new() }
    }
}

impl<P: Copy + Eq + Hash> Attribution<P> {
    /// A walk for `page` took `cycles`.
    pub fn add(&mut self, page: P, is_fetch: bool, cycles: u64) {
        let next = self.pages.len();
        let index = *self.index.entry(page).or_insert(next);
        if index == next {
            self.pages.push((page, PageWalks::default()));
        }
        let walks = &mut self.pages[index].1;
        if is_fetch {
            walks.fetch_walks += 1;
        } else {
            walks.data_walks += 1;
        }
        walks.cycles += cycles;
    }

    /// The pages, in order of first walk.
    pub fn pages(&self) -> &[(P, PageWalks)] {
        &self.pages
    }
}

/// What is mapped where in the program. A mapping is remembered until another one takes its place,
/// also after it is gone: costs are asked for at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// End and description, by start. Not overlapping.
    mappings: BTreeMap<u64, (u64, Region)>,
}

/// A part of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The file mapped there, `[heap]`, `[stack]`, `[anonymous]`; `[unknown]` where the trace is
    /// silent.
    pub name: String,
    /// Whether it holds code.
    pub executable: bool,
}

impl Regions {
    /// Learns of a mapping event.
    pub fn note(&mut self, event: &Event) {
        let Event::Map { address, length_bytes, executable, name } = event else { return };
        let (start, end) = (*address, address.saturating_add(*length_bytes));
        if start == end {
            return;
        }
        // What the new mapping overlaps is cut back to its parts outside.
        while let Some((&old_start, &(old_end, _))) = self.mappings.range(..end).next_back() {
            if old_end <= start {
                break;
            }
            let Some((_, region)) = self.mappings.remove(&old_start) else { break };
            if old_end > end {
                self.mappings.insert(end, (old_end, region.clone()));
            }
            if old_start < start {
                self.mappings.insert(old_start, (start, region));
            }
        }
        let name = if name.is_empty() { "[anonymous]" } else { name };
        let region = Region { name: name.to_owned(), executable: *executable };
        self.mappings.insert(start, (end, region));
    }

    /// Whether one mapping without a file covers all of a range.
    pub fn is_anonymous_throughout(&self, address: u64, length_bytes: u64) -> bool {
        self.mappings.range(..=address).next_back().is_some_and(|(_, (end, region))| {
            *end >= address.saturating_add(length_bytes) && region.name.starts_with('[')
        })
    }

    /// What is mapped somewhere in a page: the part that begins last.
    pub fn of_page(&self, address: u64, page_bytes: u64) -> Region {
        self.mappings
            .range(..address.saturating_add(page_bytes))
            .next_back()
            .filter(|(_, (end, _))| *end > address)
            .map_or_else(
                || Region { name: "[unknown]".to_owned(), executable: false },
                |(_, (_, region))| region.clone(),
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(address: u64, length_bytes: u64, name: &str) -> Event {
        Event::Map { address, length_bytes, executable: false, name: name.to_owned() }
    }

    #[test]
    fn a_later_mapping_cuts_into_earlier_ones() {
        let mut regions = Regions::default();
        regions.note(&map(0x1000, 0x9000, "a"));
        regions.note(&map(0x3000, 0x2000, "b"));
        regions.note(&map(0x4000, 0x4000, ""));
        regions.note(&map(0x9_0000, 0, "nothing"));
        let name = |page: u64| regions.of_page(page, 0x1000).name;
        assert_eq!(name(0x1000), "a");
        assert_eq!(name(0x3000), "b");
        assert_eq!(name(0x4000), "[anonymous]");
        assert_eq!(name(0x7000), "[anonymous]");
        assert_eq!(name(0x8000), "a");
        assert_eq!(name(0xa000), "[unknown]");
        assert_eq!(name(0x9_0000), "[unknown]");
        assert_eq!(name(0), "[unknown]");
    }
}
