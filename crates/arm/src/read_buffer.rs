//! The SA-1100's read buffer: a few lines that software fetches ahead (278088-004, 6.4).
//!
//! A fetch does not stall; a load that finds its word here waits until it has come. Nothing but
//! software keeps the buffer right. That it goes by virtual addresses follows from Linux, which empties it at
//! each switch of address space (arch/arm/mm/proc-sa1100.S).

/// Words of one line that were fetched ahead.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// Modified virtual address of the line.
    line: u32,
    words: [u32; 8],
    /// Which words are here; 0 is empty.
    valid: u8,
    ready_at: u64,
}

/// The buffer; with no entries on the other cores.
pub struct ReadBuffer {
    entries: Vec<Entry>,
    /// Until when memory is busy with what was asked for.
    pub(crate) memory_free_at: u64,
    /// User mode may use it too.
    pub(crate) open_to_users: bool,
}

/// A fetch that is on its way.
pub struct Fetched {
    /// Modified virtual address.
    pub address: u32,
    /// How many words, from the address aligned to as many: 1, 4 or 8.
    pub count: u32,
    /// The line.
    pub words: [u32; 8],
    /// When the words are here.
    pub ready_at: u64,
}

impl ReadBuffer {
    /// An empty buffer.
    pub fn new(entries: u32) -> ReadBuffer {
        ReadBuffer {
            entries: vec![Entry::default(); entries as usize],
            memory_free_at: 0,
            open_to_users: false,
        }
    }

    /// The word at a modified virtual address and when it is here.
    #[inline]
    pub fn find(&self, address: u32) -> Option<(u32, u64)> {
        let word = address >> 2 & 7;
        let holds = |entry: &&Entry| entry.line == address & !31 && entry.valid >> word & 1 != 0;
        let entry = self.entries.iter().find(holds)?;
        Some((entry.words[word as usize], entry.ready_at))
    }

    /// Puts what was fetched into an entry.
    pub fn fill(&mut self, entry: usize, fetched: &Fetched) {
        self.memory_free_at = fetched.ready_at;
        if let Some(place) = self.entries.get_mut(entry) {
            let first = fetched.address >> 2 & 7 & !(fetched.count - 1);
            let valid = (((1u32 << fetched.count) - 1) << first) as u8;
            let (line, words, ready_at) = (fetched.address & !31, fetched.words, fetched.ready_at);
            *place = Entry { line, words, valid, ready_at };
        }
    }

    /// Empties an entry.
    pub fn drop_entry(&mut self, entry: usize) {
        if let Some(place) = self.entries.get_mut(entry) {
            place.valid = 0;
        }
    }

    /// Empties the buffer.
    pub fn drop_all(&mut self) {
        self.entries.fill(Entry::default());
    }
}
