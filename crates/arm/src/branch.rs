//! The branch target buffer of the XScale core: direct mapped, two history bits an entry
//! (Intel 80200 manual 273411, chapter 5).

/// Direct-mapped branch target buffer. Only its predictions matter here, so an entry holds the
/// branch's address and its history.
pub struct BranchBuffer {
    entries: Vec<(u32, u8)>,
}

mmulab_state::state!(BranchBuffer { entries });

impl BranchBuffer {
    /// An empty buffer; `entries` is a power of two.
    pub fn new(entries: u32) -> BranchBuffer {
        BranchBuffer { entries: vec![(1, 0); entries as usize] }
    }

    /// A branch at `address` was taken; whether that had been predicted.
    pub fn taken(&mut self, address: u32) -> bool {
        let index = (address >> 2) as usize & (self.entries.len() - 1);
        let (owner, history) = &mut self.entries[index];
        if *owner == address {
            let predicted = *history >= 2;
            *history = (*history + 1).min(3);
            predicted
        } else {
            // A taken branch enters the buffer weakly taken.
            *owner = address;
            *history = 2;
            false
        }
    }

    /// A conditional branch at `address` was not taken; whether that had been predicted.
    pub fn not_taken(&mut self, address: u32) -> bool {
        let index = (address >> 2) as usize & (self.entries.len() - 1);
        let (owner, history) = &mut self.entries[index];
        if *owner != address {
            return true;
        }
        let predicted = *history < 2;
        *history = history.saturating_sub(1);
        predicted
    }

    /// Invalidates all entries.
    pub fn invalidate(&mut self) {
        // Odd, so no branch has it.
        self.entries.fill((1, 0));
    }
}
