//! RAM, by physical address.

use mmulab_hardware::Line;

/// Words that begin at a physical address.
pub struct Ram {
    base: u32,
    words: Vec<u32>,
}

mmulab_state::state!(Ram {} sparse { words } built { base });

impl Ram {
    /// Zeros.
    pub fn new(base: u32, bytes: u32) -> Ram {
        Ram { base, words: vec![0; bytes as usize / 4] }
    }

    /// Where it begins.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// All words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    #[inline(always)]
    fn index(&self, physical: u32) -> usize {
        (physical.wrapping_sub(self.base) >> 2) as usize
    }

    /// Whether an address is in it.
    #[inline(always)]
    pub fn contains(&self, physical: u32) -> bool {
        self.index(physical) < self.words.len()
    }

    /// The word around an address; nothing outside.
    #[inline(always)]
    pub fn get(&self, physical: u32) -> Option<u32> {
        self.words.get(self.index(physical)).copied()
    }

    /// The word around an address, to be changed; nothing outside.
    #[inline(always)]
    pub fn get_mut(&mut self, physical: u32) -> Option<&mut u32> {
        let index = self.index(physical);
        self.words.get_mut(index)
    }

    /// The word around an address, which must be in it.
    #[inline(always)]
    pub fn word(&self, physical: u32) -> u32 {
        self.words[self.index(physical)]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn word_mut(&mut self, physical: u32) -> &mut u32 {
        let index = self.index(physical);
        &mut self.words[index]
    }

    /// The line around an address, all of which must be in it.
    #[inline(always)]
    pub fn line<L: Line>(&self, physical: u32) -> L {
        let first = self.index(L::base(physical));
        L::from_words(&self.words[first..first + L::WORDS])
    }
}
