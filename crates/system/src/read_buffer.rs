//! The SA-1100's read buffer: a few lines that software fetches ahead (278088-004, 6.4).
//!
//! A fetch does not stall; a load that finds its word here waits until it has come. Nothing but
//! software keeps the buffer right. That it goes by virtual addresses follows from Linux, which
//! empties it at each switch of address space (arch/arm/mm/proc-sa1100.S).

use mmulab_hardware::Line;

/// Words of one line that were fetched ahead.
#[derive(Clone, Copy)]
struct Entry<L> {
    /// Modified virtual address of the line.
    line: u32,
    words: L,
    /// Which words are here; 0 is empty.
    valid: u32,
    ready_at: u64,
}

mmulab_state::value!([L: Line] Entry<L> { line, words, valid, ready_at });

/// The buffer; with no entries on the other cores.
pub struct ReadBuffer<L> {
    entries: Vec<Entry<L>>,
    /// Until when memory is busy with what was asked for.
    pub(crate) memory_free_at: u64,
    /// User mode may use it too.
    pub open_to_users: bool,
}

mmulab_state::state!([L: Line] ReadBuffer<L> { entries, memory_free_at, open_to_users });

/// A fetch that is on its way.
pub struct Fetched<L> {
    /// Modified virtual address.
    pub address: u32,
    /// How many words, from the address aligned to as many: 1, 4 or 8.
    pub count: u32,
    /// The line.
    pub words: L,
    /// When the words are here.
    pub ready_at: u64,
}

impl<L: Line> ReadBuffer<L> {
    const EMPTY: Entry<L> = Entry { line: 0, words: L::ZERO, valid: 0, ready_at: 0 };

    /// An empty buffer.
    pub fn new(entries: u32) -> ReadBuffer<L> {
        ReadBuffer {
            entries: vec![Self::EMPTY; entries as usize],
            memory_free_at: 0,
            open_to_users: false,
        }
    }

    /// The word at a modified virtual address and when it is here.
    #[inline]
    pub fn find(&self, address: u32) -> Option<(u32, u64)> {
        let word = L::word(address);
        let holds =
            |entry: &&Entry<L>| entry.line == L::base(address) && entry.valid >> word & 1 != 0;
        let entry = self.entries.iter().find(holds)?;
        Some((entry.words[word], entry.ready_at))
    }

    /// Puts what was fetched into an entry.
    pub fn fill(&mut self, entry: usize, fetched: &Fetched<L>) {
        self.memory_free_at = fetched.ready_at;
        if let Some(place) = self.entries.get_mut(entry) {
            let first = L::word(fetched.address) & !(fetched.count as usize - 1);
            let valid = ((1u32 << fetched.count) - 1) << first;
            let line = L::base(fetched.address);
            let (words, ready_at) = (fetched.words, fetched.ready_at);
            *place = Entry { line, words, valid, ready_at };
        }
    }

    /// Empties an entry.
    pub fn discard_entry(&mut self, entry: usize) {
        if let Some(place) = self.entries.get_mut(entry) {
            place.valid = 0;
        }
    }

    /// Empties the buffer.
    pub fn discard_all(&mut self) {
        self.entries.fill(Self::EMPTY);
    }
}
