//! Which memory holds descriptors, and what each of them translates.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Walk;

/// Tables are noted by blocks of this size.
const BLOCK_SHIFT: u32 = 10;
/// Descriptors of a block.
const DESCRIPTORS: u32 = 1 << (BLOCK_SHIFT - 2);

/// What the flags of a block say: a walk of the checker read it as a table of the first or of a later level;
/// a change of the tables took it out, and a walk may still read it; or it is of a page whose mapping was
/// changed, and a TLB may still hold the old one.
pub(super) const FIRST: u8 = 1;
pub(super) const LATER: u8 = 2;
pub(super) const TABLE: u8 = FIRST | LATER;
pub(super) const UNLINKED: u8 = 4;
pub(super) const UNMAPPED: u8 = 8;

/// What is known of a block of memory that holds descriptors.
#[derive(Clone, Copy, Default, PartialEq)]
struct Block {
    flags: u8,
    /// The address-space identifier that it was last walked with.
    asid: u16,
    /// The address that its first descriptor translates.
    first_address: u32,
    /// The descriptor that links it to the level above.
    link: u32,
}

mmulab_state::value!(Block { flags, asid, first_address, link });

/// What is known of all memory.
pub(super) struct Tables {
    base: u32,
    blocks: Vec<Block>,
    /// For each core a bit for each word of memory: a walk read it as a descriptor since it was last written.
    walked: Vec<Vec<u32>>,
    /// For each core the blocks that such words are in.
    walked_blocks: Vec<BTreeSet<u32>>,
    /// When a descriptor was last written.
    written_at: BTreeMap<u32, u64>,
}

mmulab_state::state!(Tables { walked, walked_blocks, written_at } sparse { blocks } built { base });

impl Tables {
    /// Of a RAM of this many words from `base` on, none known.
    pub(super) fn new(base: u32, words: usize, cores: usize) -> Tables {
        let blocks = ((words * 4) >> BLOCK_SHIFT) + 1;
        let walked = (0..cores).map(|_| vec![0; words.div_ceil(32)]).collect();
        let walked_blocks = vec![BTreeSet::new(); cores];
        let written_at = BTreeMap::new();
        Tables { base, blocks: vec![Block::default(); blocks], walked, walked_blocks, written_at }
    }

    #[inline(always)]
    fn block(&self, physical: u32) -> usize {
        (physical.wrapping_sub(self.base) >> BLOCK_SHIFT) as usize
    }

    /// The flags of the block of an address.
    #[inline(always)]
    pub(super) fn flags(&self, physical: u32) -> u8 {
        self.blocks.get(self.block(physical)).map_or(0, |block| block.flags)
    }

    /// Sets or clears flags of all blocks of some bytes.
    pub(super) fn set_flags(&mut self, physical: u32, bytes: u32, flags: u8, value: bool) {
        for offset in (0..bytes).step_by(1 << BLOCK_SHIFT) {
            let block = self.block(physical.wrapping_add(offset));
            if let Some(block) = self.blocks.get_mut(block) {
                block.flags = if value { block.flags | flags } else { block.flags & !flags };
            }
        }
    }

    /// A descriptor was written.
    pub(super) fn note_write(&mut self, physical: u32, now: u64) {
        self.written_at.insert(physical & !3, now);
    }

    /// When a descriptor was last written.
    pub(super) fn written_at(&self, physical: u32) -> u64 {
        self.written_at.get(&(physical & !3)).copied().unwrap_or_default()
    }

    /// What a core's walk for an address read are tables from here on.
    pub(super) fn note_walk(
        &mut self,
        core: usize,
        found: &Walk,
        address: u32,
        asid: u16,
        level_shift: impl Fn(usize) -> Option<u32>,
    ) {
        let mut link = 0;
        for (level, &(at, _)) in found.descriptors().iter().enumerate() {
            let (number, word) = (self.block(at), at.wrapping_sub(self.base) as usize >> 2);
            let above = std::mem::replace(&mut link, at);
            if level == 0 && found.first_was_kept() {
                continue;
            }
            let (Some(block), Some(bits)) =
                (self.blocks.get_mut(number), self.walked[core].get_mut(word >> 5))
            else {
                continue;
            };
            let bit = 1 << (word & 31);
            let flags = block.flags & !TABLE | if level == 0 { FIRST } else { LATER };
            if *bits & bit != 0 && block.asid == asid && block.flags == flags {
                continue;
            }
            // One of the sixteen descriptors of a large page speaks for all.
            let is_sixteenth = level + 1 == found.descriptors().len()
                && found.result.as_ref().is_ok_and(|page| matches!(page.page_shift, 16 | 24));
            *bits |= if is_sixteenth { 0xffff << (word & 16) } else { bit };
            self.walked_blocks[core].insert(number as u32);
            block.flags = flags;
            if let Some(shift) = level_shift(level) {
                let index = at >> 2 & (DESCRIPTORS - 1);
                block.first_address = (address >> shift).wrapping_sub(index) << shift;
                block.asid = asid;
                block.link = above;
            }
        }
    }

    /// The cores, a bit for each, whose walks read a descriptor since it was last written; it is written now.
    pub(super) fn take_walkers(&mut self, descriptor: u32) -> u32 {
        let word = descriptor.wrapping_sub(self.base) as usize >> 2;
        let mut walkers = 0;
        for (core, walked) in self.walked.iter_mut().enumerate() {
            let Some(bits) = walked.get_mut(word >> 5) else { return 0 };
            walkers |= (*bits >> (word & 31) & 1) << core;
            *bits &= !(1 << (word & 31));
        }
        walkers
    }

    /// A descriptor is what it was when these cores' walks read it.
    pub(super) fn give_walkers(&mut self, descriptor: u32, walkers: u32) {
        let (word, block) =
            (descriptor.wrapping_sub(self.base) as usize >> 2, self.block(descriptor));
        for (core, walked) in self.walked.iter_mut().enumerate() {
            if walkers >> core & 1 != 0
                && let Some(bits) = walked.get_mut(word >> 5)
            {
                *bits |= 1 << (word & 31);
                self.walked_blocks[core].insert(block as u32);
            }
        }
    }

    /// A core invalidates all that its walks have read.
    pub(super) fn forget_walks(&mut self, core: usize) {
        const WORDS: usize = DESCRIPTORS as usize / 32;
        for block in std::mem::take(&mut self.walked_blocks[core]) {
            let first = block as usize * WORDS;
            self.walked[core].iter_mut().skip(first).take(WORDS).for_each(|bits| *bits = 0);
        }
    }

    /// The address that a descriptor translates, its level being `1 << shift` bytes a descriptor.
    pub(super) fn address_of(&self, descriptor: u32, shift: u32) -> u32 {
        let index = descriptor >> 2 & (DESCRIPTORS - 1);
        self.blocks[self.block(descriptor)].first_address.wrapping_add(index << shift)
    }

    /// The address-space identifier of a descriptor's space: that of the last walk through the table above, since the
    /// space may have got another one since this descriptor was read.
    pub(super) fn asid_of(&self, descriptor: u32) -> u16 {
        let block = &self.blocks[self.block(descriptor)];
        let above = (block.flags & LATER != 0).then(|| self.blocks.get(self.block(block.link)));
        above.flatten().unwrap_or(block).asid
    }

    /// The descriptor that links a table to the level above.
    pub(super) fn link_of(&self, descriptor: u32) -> u32 {
        self.blocks[self.block(descriptor)].link
    }

    /// Where the block of an address begins.
    pub(super) fn first_of_block(physical: u32) -> u32 {
        physical >> BLOCK_SHIFT << BLOCK_SHIFT
    }

    /// Bytes of a block.
    pub(super) const BLOCK_BYTES: u32 = 1 << BLOCK_SHIFT;
}
