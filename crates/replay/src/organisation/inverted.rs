//! The hashed inverted table of PA-RISC, shared by its software and its hardware walker.

use std::collections::BTreeMap;

use mmulab_machine::{HashTable, Table};

/// A hash table of page-table entries with a collision-resolution table.
///
/// A page enters the table when it is first looked up: into the head that its hash names if that is
/// free, otherwise at the end of that head's chain, in the next entry of the collision table.
/// Making the entry costs nothing, like every page initialisation of the study. Entries never
/// leave.
#[derive(Clone, Debug)]
pub struct InvertedTable {
    hash_base: u32,
    collision_base: u32,
    pte_bytes: u32,
    hash_shift_bits: u32,
    heads: usize,
    /// The heads of the hash table, then the entries of the collision table in use.
    entries: Vec<Entry>,
    lookups: u64,
    entries_searched: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// [`NO_PAGE`] in a head that is free.
    page: u32,
    /// The next entry of the chain; 0, a head, at its end.
    next: u32,
}

const NO_PAGE: u32 = u32::MAX;

/// How long the collision chains of an inverted table were.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ChainStatistics {
    /// Pages in the table.
    pub pages: u64,
    /// Heads of the hash table.
    pub heads: u64,
    /// Entries that a search for each page once would look at, a page: what the study expects to be
    /// 1.25 at a load of one half.
    pub mean_search_by_page: f64,
    /// Entries that the walks did look at, a walk.
    pub mean_search_by_walk: f64,
    /// The number of chains of each length that occurs, ascending.
    pub lengths: Vec<(u64, u64)>,
    /// Walks.
    #[serde(skip)]
    walks: u64,
    /// Entries that they looked at.
    #[serde(skip)]
    entries_searched: u64,
}

impl ChainStatistics {
    /// With the walks after `before` alone; the chains are as they are.
    pub fn since(mut self, before: &Self) -> Self {
        self.walks -= before.walks;
        self.entries_searched -= before.entries_searched;
        self.mean_search_by_walk = self.entries_searched as f64 / self.walks.max(1) as f64;
        self
    }
}

impl InvertedTable {
    /// An empty table.
    pub fn new(hash: &HashTable, collision: &Table, pte_bytes: u64) -> Self {
        Self {
            hash_base: hash.base_address as u32,
            collision_base: collision.base_address as u32,
            pte_bytes: pte_bytes as u32,
            hash_shift_bits: hash.hash_shift_bits,
            heads: hash.entries as usize,
            entries: vec![Entry { page: NO_PAGE, next: 0 }; hash.entries as usize],
            lookups: 0,
            entries_searched: 0,
        }
    }

    /// Searches for `page`: gives the addresses of the entries that are loaded to `load`, the last
    /// one its own; how many these are.
    pub fn search(&mut self, page: u32, mut load: impl FnMut(u32)) -> u32 {
        let hash = page ^ (page >> self.hash_shift_bits);
        let mut at = hash as usize & (self.heads - 1);
        if self.entries[at].page == NO_PAGE {
            self.entries[at].page = page;
        }
        let mut searched = 1;
        load(self.address(at));
        while self.entries[at].page != page {
            if self.entries[at].next == 0 {
                self.entries[at].next = self.entries.len() as u32;
                self.entries.push(Entry { page, next: 0 });
            }
            at = self.entries[at].next as usize;
            searched += 1;
            load(self.address(at));
        }
        self.lookups += 1;
        self.entries_searched += u64::from(searched);
        searched
    }

    fn address(&self, entry: usize) -> u32 {
        let (base, number) = match entry.checked_sub(self.heads) {
            None => (self.hash_base, entry),
            Some(collision) => (self.collision_base, collision),
        };
        base.wrapping_add(number as u32 * self.pte_bytes)
    }

    /// How long the chains are by now.
    pub fn statistics(&self) -> ChainStatistics {
        let mut by_length: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut pages, mut searched) = (0, 0);
        for &head in self.entries[..self.heads].iter().filter(|head| head.page != NO_PAGE) {
            let follow =
                |entry: &Entry| (entry.next != 0).then(|| self.entries[entry.next as usize]);
            let length = std::iter::successors(Some(head), follow).count() as u64;
            *by_length.entry(length).or_default() += 1;
            pages += length;
            searched += length * (length + 1) / 2;
        }
        ChainStatistics {
            pages,
            heads: self.heads as u64,
            mean_search_by_page: searched as f64 / pages.max(1) as f64,
            mean_search_by_walk: self.entries_searched as f64 / self.lookups.max(1) as f64,
            lengths: by_length.into_iter().collect(),
            walks: self.lookups,
            entries_searched: self.entries_searched,
        }
    }
}
