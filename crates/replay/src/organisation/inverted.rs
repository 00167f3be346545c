//! The hashed inverted table of PA-RISC, shared by its software and its hardware walker.

use std::collections::HashMap;

use mmulab_machine::{HashTable, Table};

/// A hash table of page-table entries with a collision-resolution table.
///
/// A page enters the table when it is first looked up: into the head that its hash names if that is
/// free, otherwise at the end of that head's chain, in the next entry of the collision table. Making
/// the entry costs nothing, like every page initialisation of the study. Entries never leave.
#[derive(Clone, Debug)]
pub struct InvertedTable {
    hash_base: u32,
    collision_base: u32,
    pte_bytes: u32,
    hash_shift_bits: u32,
    /// For each head, the pages of its chain in order, each with its entry's address.
    chains: Vec<Vec<(u32, u32)>>,
    collisions: u32,
    lookups: u64,
    entries_searched: u64,
}

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
}

impl InvertedTable {
    /// An empty table.
    pub fn new(hash: &HashTable, collision: &Table, pte_bytes: u64) -> Self {
        Self {
            hash_base: hash.base_address as u32,
            collision_base: collision.base_address as u32,
            pte_bytes: pte_bytes as u32,
            hash_shift_bits: hash.hash_shift_bits,
            chains: vec![Vec::new(); hash.entries as usize],
            collisions: 0,
            lookups: 0,
            entries_searched: 0,
        }
    }

    /// Searches for `page`: the addresses of the entries that are loaded, the last one its own.
    pub fn search(&mut self, page: u32) -> impl Iterator<Item = u32> + '_ {
        let hash = (page ^ (page >> self.hash_shift_bits)) as usize & (self.chains.len() - 1);
        let chain = &mut self.chains[hash];
        let found = chain.iter().position(|&(held, _)| held == page).unwrap_or_else(|| {
            let address = if chain.is_empty() {
                self.hash_base.wrapping_add(hash as u32 * self.pte_bytes)
            } else {
                self.collisions += 1;
                self.collision_base.wrapping_add((self.collisions - 1) * self.pte_bytes)
            };
            chain.push((page, address));
            chain.len() - 1
        });
        self.lookups += 1;
        self.entries_searched += found as u64 + 1;
        self.chains[hash][..=found].iter().map(|&(_, address)| address)
    }

    /// How long the chains are by now.
    pub fn statistics(&self) -> ChainStatistics {
        let mut by_length: HashMap<usize, u64> = HashMap::new();
        let (mut pages, mut searched) = (0u64, 0u64);
        for chain in self.chains.iter().filter(|chain| !chain.is_empty()) {
            *by_length.entry(chain.len()).or_default() += 1;
            pages += chain.len() as u64;
            searched += (chain.len() * (chain.len() + 1) / 2) as u64;
        }
        let longest = self.chains.iter().map(Vec::len).max().unwrap_or(0);
        ChainStatistics {
            pages,
            heads: self.chains.len() as u64,
            mean_search_by_page: searched as f64 / pages.max(1) as f64,
            mean_search_by_walk: self.entries_searched as f64 / self.lookups.max(1) as f64,
            lengths: (1..=longest)
                .filter_map(|length| Some((length as u64, *by_length.get(&length)?)))
                .collect(),
        }
    }
}
