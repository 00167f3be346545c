//! Stores that another core sees in another order than they were executed in, while some wait in a
//! store buffer.

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

/// The latest that a core has seen of another's stores.
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
    /// By core, in the order of execution.
    waiting: Vec<Vec<Waiting>>,
    /// How many these are.
    all_waiting: usize,
    /// The last store to its word, performed while an older one of the same core waits.
    overtaking: Vec<Waiting>,
    seen: Vec<Seen>,
}

mmulab_state::state!(StoreOrder { executed, waiting, all_waiting, overtaking, seen });

impl StoreOrder {
    /// Whether no store waits: then every store was seen in order.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.all_waiting == 0
    }

    /// Whether a load from these bytes has to be looked at.
    pub(super) fn concerns(&self, line: u32, bytes: u32) -> bool {
        let mut all = self.waiting.iter().flatten().chain(&self.overtaking);
        all.any(|store| store.word.wrapping_sub(line) < bytes)
    }

    /// A store was executed, and waits.
    pub(super) fn put_off(&mut self, physical: u32, by: Origin) {
        self.executed += 1;
        if self.waiting.len() <= by.core {
            self.waiting.resize(by.core + 1, Vec::new());
        }
        self.waiting[by.core].push(Waiting { word: physical & !3, by, number: self.executed });
        self.all_waiting += 1;
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
        let Some(own) = self.waiting.get_mut(by.core) else { return };
        if let Some(place) = own.iter().position(is_it) {
            let store = own.remove(place);
            self.all_waiting -= 1;
            self.perform(store);
        }
    }

    fn perform(&mut self, store: Waiting) {
        self.overtaking.retain(|other| other.word != store.word);
        let oldest = self.waiting.get(store.by.core).and_then(|own| own.first());
        match oldest {
            Some(oldest) if oldest.number < store.number => self.overtaking.push(store),
            Some(_) => {}
            None => {
                self.overtaking.retain(|other| other.by.core != store.by.core);
                self.seen.retain(|seen| seen.store.by.core != store.by.core);
            }
        }
    }

    /// A core has loaded a word. Whether a store to it waits on another core of which the reader
    /// has seen a later one: both stores' places.
    pub(super) fn load(&mut self, reader: usize, physical: u32) -> Option<(Origin, Origin)> {
        let word = physical & !3;
        let to_word = |store: &&Waiting| store.word == word && store.by.core != reader;
        if let Some(&store) = self.overtaking.iter().find(to_word) {
            let same =
                |seen: &&mut Seen| (seen.reader, seen.store.by.core) == (reader, store.by.core);
            match self.seen.iter_mut().find(same) {
                Some(seen) if seen.store.number < store.number => seen.store = store,
                Some(_) => {}
                None => self.seen.push(Seen { reader, store }),
            }
        }
        self.waiting.iter().flatten().filter(to_word).find_map(|waiting| {
            let later = self.seen.iter().find(|seen| {
                seen.reader == reader
                    && seen.store.by.core == waiting.by.core
                    && seen.store.number > waiting.number
            })?;
            Some((waiting.by, later.store.by))
        })
    }
}
