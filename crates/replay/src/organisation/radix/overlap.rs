//! Walks that several walkers do at a time.

/// Page-table walkers of a core that issues the instructions behind one that waits.
///
/// The walks of the instructions in one window are begun together, as if no address depended on
/// what another one loads, each by the walker that is free first. The program waits for each walk's
/// end in turn, so what a walk adds is the time between the last end so far and its own.
#[derive(Clone, Debug)]
pub(super) struct Walkers {
    window_instructions: u64,
    /// Number of the instruction with the first walk of the window.
    first: Option<u64>,
    /// When each walker is free, in cycles since that walk began.
    free: Box<[u64]>,
    /// Number of the next instruction when another core went on.
    left_at: u64,
}

impl Walkers {
    /// `count` walkers, at least one.
    pub(super) fn new(count: u32, window_instructions: u32) -> Self {
        Self {
            window_instructions: u64::from(window_instructions),
            first: None,
            free: vec![0; count as usize].into(),
            left_at: 0,
        }
    }

    /// Another core goes on with the instruction of this number.
    pub(super) fn leave(&mut self, instruction: u64) {
        self.left_at = instruction;
    }

    /// This core goes on with the instruction of this number; those since it was left are no part
    /// of its window.
    pub(super) fn go_on(&mut self, instruction: u64) {
        if let Some(first) = &mut self.first {
            *first += instruction - self.left_at;
        }
    }

    /// Whether a walk of the instruction with this number is in the window of one before.
    pub(super) fn overlaps(&self, instruction: u64) -> bool {
        self.first.is_some_and(|first| instruction - first < self.window_instructions)
    }

    /// How many of the `cycles` of a walk the program waits for.
    pub(super) fn wait(&mut self, instruction: u64, cycles: u64) -> u64 {
        if !self.overlaps(instruction) {
            self.first = Some(instruction);
            self.free.fill(0);
        }
        let waited = self.free.iter().copied().max().unwrap_or(0);
        let Some(walker) = self.free.iter_mut().min() else { return cycles };
        *walker += cycles;
        walker.saturating_sub(waited)
    }
}
