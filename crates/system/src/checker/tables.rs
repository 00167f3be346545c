//! Which memory holds descriptors, and what each of them translates.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::Walk;

use super::changes::Place;

/// Tables are noted by blocks of this size.
const BLOCK_SHIFT: u32 = 10;
/// Links to tables that are remembered beside the one of each.
const MAX_OTHER_LINKS: usize = 1 << 16;
/// Descriptors of a block.
const DESCRIPTORS: u32 = 1 << (BLOCK_SHIFT - 2);

/// What the flags of a block say: a walk of the checker read it as a table of the first or of a
/// later level; a change of the tables took it out, and a walk may still read it; or it is of a
/// page whose mapping was changed, and a TLB may still hold the old one.
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
    /// The descriptor that links it to the level above: of several the one that was walked last.
    link: u32,
}

mmulab_state::value!(Block { flags, asid, first_address, link });

/// The space that a core is in.
#[derive(Clone, Copy, Default)]
struct Entered {
    table: u32,
    asid: u16,
    /// The identifier was written since the core is in the table; and what it was before, if that
    /// was written, too.
    was_written: bool,
    written_before: Option<u16>,
}

mmulab_state::value!(Entered { table, asid, was_written, written_before });

/// What is known of all memory.
pub(super) struct Tables {
    base: u32,
    blocks: Vec<Block>,
    /// By block and descriptor the other links to it, with the identifier and the first address of
    /// their walks.
    other_links: BTreeMap<(u32, u32), (u16, u32)>,
    /// For each core a bit for each word of memory: a walk read it as a descriptor since it was
    /// last written.
    walked: Vec<Vec<u32>>,
    /// For each core the blocks that such words are in.
    walked_blocks: Vec<BTreeSet<u32>>,
    /// When a descriptor was last written.
    written_at: BTreeMap<u32, u64>,
    /// By core, the space that it is in.
    entered: Vec<Entered>,
    /// The address-space identifier that a first-level table was last used with.
    identifiers: BTreeMap<u32, u16>,
}

mmulab_state::state!(Tables {
    other_links,
    walked,
    walked_blocks,
    written_at,
    entered,
    identifiers,
} sparse { blocks } built { base });

impl Tables {
    /// Of a RAM of this many words from `base` on, none known.
    pub(super) fn new(base: u32, words: usize, cores: usize) -> Tables {
        let blocks = ((words * 4) >> BLOCK_SHIFT) + 1;
        let walked = (0..cores).map(|_| vec![0; words.div_ceil(32)]).collect();
        let walked_blocks = vec![BTreeSet::new(); cores];
        Tables {
            base,
            blocks: vec![Block::default(); blocks],
            other_links: BTreeMap::new(),
            walked,
            walked_blocks,
            written_at: BTreeMap::new(),
            entered: vec![Entered::default(); cores],
            identifiers: BTreeMap::new(),
        }
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

    /// What a core's walk for an address read are tables from here on. Returns whether the last
    /// descriptor is one of the sixteen of a large page, and is read for the first time since it
    /// was written.
    pub(super) fn note_walk(
        &mut self,
        core: usize,
        found: &Walk,
        address: u32,
        asid: u16,
        level_shift: impl Fn(usize) -> Option<u32>,
    ) -> bool {
        let (mut link, mut is_new_sixteenth) = (0, false);
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
            let is_known = block.asid == asid && block.flags == flags && block.link == above;
            if *bits & bit != 0 && is_known {
                continue;
            }
            // One of the sixteen descriptors of a large page speaks for all.
            let is_sixteenth = level + 1 == found.descriptors().len()
                && found.result.as_ref().is_ok_and(|page| matches!(page.page_shift, 16 | 24));
            is_new_sixteenth |= is_sixteenth && *bits & bit == 0;
            *bits |= if is_sixteenth { 0xffff << (word & 16) } else { bit };
            self.walked_blocks[core].insert(number as u32);
            block.flags = flags;
            if let Some(shift) = level_shift(level) {
                if block.link != 0 && block.link != above {
                    let number = number as u32;
                    self.other_links.remove(&(number, above));
                    if self.other_links.len() == MAX_OTHER_LINKS {
                        self.other_links.pop_first();
                    }
                    let walked = (block.asid, block.first_address);
                    self.other_links.insert((number, block.link), walked);
                }
                let index = at >> 2 & (DESCRIPTORS - 1);
                block.first_address = (address >> shift).wrapping_sub(index) << shift;
                block.asid = asid;
                block.link = above;
            }
        }
        is_new_sixteenth
    }

    /// The cores, a bit for each, whose walks read a descriptor since it was last written; it is
    /// written now.
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

    /// A table is none any more, nor in a TLB: what it becomes is new.
    pub(super) fn forget_table(&mut self, table: u32) {
        let first = table.wrapping_sub(self.base) as usize >> 7;
        for walked in &mut self.walked {
            walked
                .iter_mut()
                .skip(first)
                .take(DESCRIPTORS as usize / 32)
                .for_each(|bits| *bits = 0);
        }
    }

    /// The address that a descriptor translates, its level being `1 << shift` bytes a descriptor.
    pub(super) fn address_of(&self, descriptor: u32, shift: u32) -> u32 {
        let index = descriptor >> 2 & (DESCRIPTORS - 1);
        self.blocks[self.block(descriptor)].first_address.wrapping_add(index << shift)
    }

    /// The address-space identifier of a descriptor's space: that of the last walk through the
    /// table above, since the space may have got another one since this descriptor was read.
    fn asid_of(&self, descriptor: u32) -> u16 {
        let block = &self.blocks[self.block(descriptor)];
        let above = (block.flags & LATER != 0).then(|| self.blocks.get(self.block(block.link)));
        above.flatten().unwrap_or(block).asid
    }

    /// A core's address-space identifier or first-level table is another.
    pub(super) fn enter(&mut self, core: usize, asid: u16, table: u32) {
        let now = &mut self.entered[core];
        if table != now.table {
            // A second identifier, with which the core leaves, is a reserved one (ARM B3.10.4): not
            // the space's.
            if let Some(own) = now.written_before {
                self.identifiers.insert(now.table, own);
            }
            *now = Entered { table, asid, ..Entered::default() };
        } else if asid != now.asid {
            let written_before = now.was_written.then_some(now.asid);
            *now = Entered { table, asid, was_written: true, written_before };
        }
        self.identifiers.insert(table, asid);
    }

    /// The address-space identifier that a first-level table was last used with.
    pub(super) fn identifier_of(&self, table: u32) -> Option<u16> {
        self.identifiers.get(&table).copied()
    }

    /// Where a descriptor of `1 << shift` bytes stands, those of the first level being of
    /// `1 << first_shift`, that these cores' walks have read.
    pub(super) fn place_of(
        &self,
        descriptor: u32,
        first_shift: u32,
        shift: u32,
        walkers: u32,
    ) -> Place {
        let address = self.address_of(descriptor, shift);
        let block = &self.blocks[self.block(descriptor)];
        let first = if block.flags & LATER != 0 { block.link } else { descriptor };
        let table = first.wrapping_sub(address >> first_shift << 2);
        Place { address, shift, asid: self.asid_of(descriptor), table, walkers }
    }

    /// Whether some link `leads` to a table, which then counts as walked by that.
    pub(super) fn find_link(&mut self, table: u32, leads: impl Fn(u32) -> bool) -> bool {
        let number = self.block(table);
        let Some(block) = self.blocks.get_mut(number) else { return false };
        if leads(block.link) {
            return true;
        }
        let of_block = (number as u32, 0)..=(number as u32, u32::MAX);
        let found = self.other_links.range(of_block).find(|&(&(_, link), _)| leads(link));
        let Some((&key, &(asid, first_address))) = found else { return false };
        self.other_links.remove(&key);
        self.other_links.insert((key.0, block.link), (block.asid, block.first_address));
        *block = Block { flags: block.flags, asid, first_address, link: key.1 };
        true
    }

    /// Where the block of an address begins.
    pub(super) fn first_of_block(physical: u32) -> u32 {
        physical >> BLOCK_SHIFT << BLOCK_SHIFT
    }

    /// Bytes of a block.
    pub(super) const BLOCK_BYTES: u32 = 1 << BLOCK_SHIFT;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_held_that_is_none_any_more_was_not_walked() {
        let (mut tables, [table, next]) = (Tables::new(0, 0x200, 2), [0x400, 0x800]);
        for (core, descriptor) in [(0, table), (1, table + 0x3fc), (1, table - 4)] {
            tables.give_walkers(descriptor, 1 << core);
        }
        tables.forget_table(table);
        assert_eq!([table, next - 4, table - 4].map(|at| tables.take_walkers(at)), [0, 0, 2]);
    }

    /// The identifiers of two spaces, tables 1 and 2, after what one core writes: an identifier, or
    /// a table.
    fn identifiers(writes: &[(u16, u32)]) -> [Option<u16>; 2] {
        let mut tables = Tables::new(0, 0, 1);
        for &(asid, table) in writes {
            tables.enter(0, asid, table);
        }
        [1, 2].map(|table| tables.identifier_of(table))
    }

    #[test]
    fn a_table_stands_where_a_link_leads_to_it_that_is_left() {
        let mut tables = Tables::new(0, 0x1000, 1);
        let walks = [(0x2020, 0x0080_2000, 1), (0x3024, 0x0090_2000, 2)];
        for (link, address, asid) in walks {
            let found = Walk::new(Err(0), &[(link, 0), (0x408, 0)]);
            tables.note_walk(0, &found, address, asid, |level| Some([20, 12][level]));
        }
        for ((link, address, asid), table) in walks.into_iter().zip([0x2000, 0x3000]) {
            assert!(tables.find_link(0x400, |at| at == link));
            let place = tables.place_of(0x408, 20, 12, 0);
            assert_eq!((place.address, place.asid, place.table), (address, asid, table));
        }
        assert!(!tables.find_link(0x400, |_| false));
    }

    #[test]
    fn the_identifier_that_is_reserved_for_a_change_of_tables_is_not_the_space_s() {
        let there = [(0, 1), (5, 1), (0, 1), (0, 2), (6, 2)];
        assert_eq!(identifiers(&there), [Some(5), Some(6)]);
        // The first space gets another one, uses nothing, and is left.
        let renewed = [(0, 2), (0, 1), (7, 1), (0, 1), (0, 2), (6, 2)];
        assert_eq!(identifiers(&[&there[..], &renewed].concat()), [Some(7), Some(6)]);
    }

    #[test]
    fn a_reserved_table_serves_as_well() {
        let writes = [(5, 9), (5, 1), (5, 9), (6, 9), (6, 2), (6, 9), (5, 9), (5, 1)];
        assert_eq!(identifiers(&writes), [Some(5), Some(6)]);
    }

    #[test]
    fn the_table_may_be_written_before_the_identifier() {
        let writes = [(0, 1), (5, 1), (5, 2), (6, 2), (6, 1), (5, 1)];
        assert_eq!(identifiers(&writes), [Some(5), Some(6)]);
    }
}
