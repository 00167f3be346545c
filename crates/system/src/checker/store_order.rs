//! Stores that another core sees in another order than they were executed in, while some wait in a store buffer.

use super::Origin;

/// A store that was executed and not performed.
#[derive(Clone, Copy)]
struct Waiting {
    /// Physical address of its word.
    word: u32,
    by: Origin,
    /// Its place in the order of execution.
    number: u64,
}

mmulab_state::value!(Waiting { word, by, number });

/// What a core has seen of another's stores.
#[derive(Clone, Copy)]
struct Seen {
    reader: usize,
    /// A store that was performed before an older one.
    store: Waiting,
}

mmulab_state::value!(Seen { reader, store });

/// The stores of all cores that wait, and those that were performed before them.
#[derive(Default)]
pub(super) struct StoreOrder {
    executed: u64,
    waiting: Vec<Waiting>,
    /// The last store to its word, performed while an older one of the same core waits.
    overtaking: Vec<Waiting>,
    seen: Vec<Seen>,
}

mmulab_state::state!(StoreOrder { executed, waiting, overtaking, seen });

impl StoreOrder {
    /// Whether no store waits: then every store was seen in order.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a load from these bytes has to be looked at.
    pub(super) fn concerns(&self, line: u32, bytes: u32) -> bool {
        let mut all = self.waiting.iter().chain(&self.overtaking);
        all.any(|store| store.word.wrapping_sub(line) < bytes)
    }

    /// A store was executed, and waits.
    pub(super) fn put_off(&mut self, physical: u32, by: Origin) {
        self.executed += 1;
        self.waiting.push(Waiting { word: physical & !3, by, number: self.executed });
    }

    /// A store is performed that did not wait.
    pub(super) fn store(&mut self, physical: u32, by: Origin) {
        if !self.is_empty() {
            self.executed += 1;
            self.perform(Waiting { word: physical & !3, by, number: self.executed });
        }
    }

    /// A store is performed that waited.
    pub(super) fn perform_waiting(&mut self, physical: u32, by: Origin) {
        let is_it = |store: &Waiting| (store.word, store.by) == (physical & !3, by);
        if let Some(place) = self.waiting.iter().position(is_it) {
            let store = self.waiting.remove(place);
            self.perform(store);
        }
    }

    fn perform(&mut self, store: Waiting) {
        let of_core = |other: &Waiting| other.by.core == store.by.core;
        self.overtaking.retain(|other| other.word != store.word);
        if self.waiting.iter().any(|other| of_core(other) && other.number < store.number) {
            self.overtaking.push(store);
        } else if !self.waiting.iter().any(of_core) {
            self.overtaking.retain(|other| !of_core(other));
            self.seen.retain(|seen| !of_core(&seen.store));
        }
    }

    /// A core has loaded a word. Whether a store to it waits on another core of which the reader has seen a later
    /// one: both stores' places.
    pub(super) fn load(&mut self, reader: usize, physical: u32) -> Option<(Origin, Origin)> {
        let word = physical & !3;
        let to_word = |store: &&Waiting| store.word == word && store.by.core != reader;
        if let Some(&store) = self.overtaking.iter().find(to_word) {
            self.seen.push(Seen { reader, store });
        }
        self.waiting.iter().filter(to_word).find_map(|waiting| {
            let later = self.seen.iter().find(|seen| {
                seen.reader == reader
                    && seen.store.by.core == waiting.by.core
                    && seen.store.number > waiting.number
            })?;
            Some((waiting.by, later.store.by))
        })
    }
}
