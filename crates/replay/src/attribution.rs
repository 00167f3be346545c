//! Which pages and which parts of the program its translation costs belong to.

use std::collections::HashMap;
use std::marker::PhantomData;

use mmulab_trace::Event;
use rangemap::RangeMap;

/// A page that has a number: neighbours in memory have neighbouring ones.
pub trait Numbered: Copy {
    /// The number.
    fn number(self) -> u64;

    /// The page that has this number.
    fn from_number(number: u64) -> Self;
}

impl Numbered for u32 {
    fn number(self) -> u64 {
        self.into()
    }

    fn from_number(number: u64) -> Self {
        number as u32
    }
}

/// Walks and their cycles by page. A walk belongs to the page whose translation was sought, and so
/// do the cycles of a look-up that a second-level TLB answered.
///
/// A walk is short enough for a hash of the page to show: its account is found by two loads, of
/// which the first is shared with its neighbours.
#[derive(Clone, Debug)]
pub struct Attribution<P> {
    chunks: Vec<Chunk>,
    /// For the low bits of a chunk's number, the place of such a chunk in `chunks`. All chunks of a
    /// 32-bit machine have different ones; others make each other be sought in `index`. Empty as
    /// long as nothing was added.
    places: Box<[u32]>,
    index: HashMap<u64, u32>,
    is_paused: bool,
    pages: PhantomData<P>,
}

/// The accounts of neighbouring pages.
#[derive(Clone, Debug)]
struct Chunk {
    number: u64,
    walks: Box<[PageWalks; CHUNK_PAGES]>,
}

const CHUNK_PAGES: usize = 64;
const PLACES: usize = (1 << 20) / CHUNK_PAGES;

/// What the translations of one page cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageWalks {
    /// Walks for instruction fetches.
    pub fetch_walks: u64,
    /// Walks for data references.
    pub data_walks: u64,
    /// Cycles of both and of second-level TLB look-ups, interrupts included.
    pub cycles: u64,
}

/// Who sought a translation, and whether that took a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// A fetch; a walk.
    WalkForFetch,
    /// A data reference; a walk.
    WalkForData,
    /// Either; a second-level TLB knew it.
    SecondLevelHit,
}

impl<P> Default for Attribution<P> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            places: Box::default(),
            index: HashMap::new(),
            is_paused: false,
            pages: PhantomData,
        }
    }
}

impl<P: Numbered> Attribution<P> {
    /// Finding the translation of `page` took `cycles`.
    #[inline]
    pub fn add(&mut self, page: P, sought: Sought, cycles: u64) {
        if self.is_paused {
            return;
        }
        let number = page.number() / CHUNK_PAGES as u64;
        let mut place = self.places.get(number as usize % PLACES).copied().unwrap_or(u32::MAX);
        if self.chunks.get(place as usize).is_none_or(|chunk| chunk.number != number) {
            place = self.seek(number);
        }
        let walks = &mut self.chunks[place as usize].walks[page.number() as usize % CHUNK_PAGES];
        walks.fetch_walks += u64::from(sought == Sought::WalkForFetch);
        walks.data_walks += u64::from(sought == Sought::WalkForData);
        walks.cycles += cycles;
    }

    /// Whether nothing is added from here on.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    #[cold]
    fn seek(&mut self, number: u64) -> u32 {
        let chunks = &mut self.chunks;
        if self.places.is_empty() {
            self.places = vec![0; PLACES].into();
        }
        let place = *self.index.entry(number).or_insert_with(|| {
            chunks.push(Chunk { number, walks: Box::new([PageWalks::default(); CHUNK_PAGES]) });
            chunks.len() as u32 - 1
        });
        self.places[number as usize % PLACES] = place;
        place
    }

    /// The pages whose translation cost something.
    pub fn pages(&self) -> impl Iterator<Item = (P, &PageWalks)> {
        let numbered = self.chunks.iter().flat_map(|chunk| {
            let first = chunk.number * CHUNK_PAGES as u64;
            (first..).zip(chunk.walks.iter())
        });
        numbered
            .filter(|(_, walks)| **walks != PageWalks::default())
            .map(|(number, walks)| (P::from_number(number), walks))
    }
}

/// What is mapped where in the program. A mapping is remembered until another one takes its place,
/// also after it is gone: costs are asked for at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    mappings: RangeMap<u64, Region>,
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
        let name = if name.is_empty() { "[anonymous]" } else { name };
        let region = Region { name: name.to_owned(), executable: *executable };
        self.mappings.insert(start..end, region);
    }

    /// What is mapped somewhere in a page: the part that begins last.
    pub fn of_page(&self, address: u64, page_bytes: u64) -> Region {
        let unknown = || Region { name: "[unknown]".to_owned(), executable: false };
        let page = address..address.saturating_add(page_bytes);
        self.mappings
            .overlapping(page)
            .next_back()
            .map_or_else(unknown, |(_, region)| region.clone())
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
