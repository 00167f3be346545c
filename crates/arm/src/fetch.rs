//! The instruction side: the instruction cache with its words and their decoded form.
//!
//! A line that comes in brings its words only; each instruction is decoded when it is first
//! executed. Decoding depends on nothing but the words of the line, so the decoded forms of ARM lines
//! are kept in a pool, where a line that comes back with the same words finds them again. What
//! executes is always what the cache line holds: old code in a line that nobody invalidated is
//! executed as old code.

use mmulab_hardware::{Access, Cache};

use crate::board::{Board, Region};
use crate::coprocessor::cache_debug;
use crate::cpu::{Cpu, Flow};
use crate::isa::{Decoder, Late, Op, Operands};
use crate::memory::{Fault, Memory, Side, control};
use crate::mmu::CACHEABLE;
use crate::timing::Cause;

const LINE_HINTS: usize = 2048;
const PAGES: usize = 64;
/// Lines whose decoded form is kept.
const POOL_LINES: usize = 16384;
const NO_SLOT: u32 = u32::MAX;

/// What is known of fetching from a 4 KB page in some context.
#[derive(Clone, Copy)]
struct Page {
    tag: u32,
    physical: u32,
    attributes: u8,
}

const EMPTY_PAGE: Page = Page { tag: 0, physical: 0, attributes: 0 };

/// The instruction cache and what is decoded.
pub struct InstructionSide {
    pub(crate) cache: Cache,
    pub(crate) decoder: Decoder,
    /// Address of the line in each slot, with bit 0 set, while its place in the pool is its own; 0 if
    /// it is empty, or another line has taken the place.
    line_tags: Box<[u32]>,
    pub(crate) line_physical: Box<[u32]>,
    pub(crate) lines: Box<[[u32; 8]]>,
    /// The pool of decoded ARM lines, the words that each was decoded from, and the slot that uses it.
    arm: Box<[Op]>,
    pool_words: Box<[[u32; 8]]>,
    pool_users: Box<[u32]>,
    /// The line of the pool that each slot uses.
    pool_places: Box<[u32]>,
    /// Decoded Thumb instructions by slot, and whether they are of the line that is there now.
    thumb: Box<[Op]>,
    thumb_ready: Box<[bool]>,
    hints: Box<[u16; LINE_HINTS]>,
    pages: Box<[Page; PAGES]>,
    /// The page that the last fetch was in, with its context; 0 for unknown.
    page: u32,
    page_physical: u32,
    page_attributes: u8,
    /// What the last instruction of the line that execution just left at its end delivers late.
    pub(crate) late: Late,
    /// Where words from uncached memory are decoded: one more slot.
    scratch: usize,
}

/// The handler of an instruction that is not decoded yet. `immediate` is its place: the index of its
/// word, or half-word with bit 31 set.
fn decode_first(cpu: &mut Cpu, _: &mut Board, place: Operands) -> Flow {
    cpu.memory.fetch.decode(place.immediate);
    Flow::Decoded
}

fn undecoded(place: u32) -> Op {
    // It costs nothing to find out.
    let mut op = Op { cost: 0, ..Op::new(decode_first) };
    op.operands.immediate = place;
    op
}

impl InstructionSide {
    /// An empty instruction cache.
    pub fn new(cache: Cache, decoder: Decoder) -> InstructionSide {
        let slots = cache.slots() as usize + 1;
        InstructionSide {
            decoder,
            line_tags: vec![0; slots].into(),
            line_physical: vec![0; slots].into(),
            lines: vec![[0; 8]; slots].into(),
            arm: (0..(POOL_LINES + 1) * 8).map(|place| undecoded(place as u32)).collect(),
            pool_words: vec![[0; 8]; POOL_LINES + 1].into(),
            pool_users: vec![NO_SLOT; POOL_LINES + 1].into(),
            // The scratch slot has the last line for itself.
            pool_places: vec![POOL_LINES as u32; slots].into(),
            thumb_ready: vec![true; slots].into(),
            thumb: (0..slots * 16).map(|place| undecoded(place as u32 | 1 << 31)).collect(),
            hints: vec![0; LINE_HINTS].try_into().unwrap_or_else(|_| unreachable!()),
            pages: vec![EMPTY_PAGE; PAGES].try_into().unwrap_or_else(|_| unreachable!()),
            page: 0,
            page_physical: 0,
            page_attributes: 0,
            late: Late::NONE,
            scratch: slots - 1,
            cache,
        }
    }

    /// The next fetch must look at TLB and permissions again.
    #[inline]
    pub fn forget_page(&mut self) {
        self.page = 0;
    }

    /// As above, for all pages.
    pub fn forget_pages(&mut self) {
        self.page = 0;
        self.pages.fill(EMPTY_PAGE);
    }

    /// As above, for the page of an address.
    pub fn forget_pages_of(&mut self, address: u32) {
        self.page = 0;
        self.pages[(address >> 12) as usize % PAGES] = EMPTY_PAGE;
    }

    /// Where the decoded instructions of a slot begin. It stays while execution does not leave the line.
    #[inline(always)]
    pub fn arm_line(&self, slot: usize) -> usize {
        self.pool_places[slot] as usize * 8
    }

    /// The decoded instruction at a word of a line.
    #[inline(always)]
    pub fn arm_op(&self, line: usize, word: usize) -> Op {
        self.arm[line + (word & 7)]
    }

    /// Makes the Thumb instructions of a slot those of its line.
    #[inline(always)]
    pub fn prepare_thumb(&mut self, slot: usize) {
        if !self.thumb_ready[slot] {
            self.thumb_ready[slot] = true;
            for half in slot * 16..slot * 16 + 16 {
                self.thumb[half] = undecoded(half as u32 | 1 << 31);
            }
        }
    }

    /// The decoded instruction at a half-word of a slot.
    #[inline(always)]
    pub fn thumb_op(&self, slot: usize, half: usize) -> Op {
        self.thumb[slot * 16 + (half & 15)]
    }

    fn half(&self, place: usize) -> u16 {
        let word = self.lines[place / 16][place % 16 / 2];
        (word >> (16 * (place & 1))) as u16
    }

    fn decode(&mut self, place: u32) {
        let cached = |slot: usize| slot != self.scratch;
        if place >> 31 != 0 {
            let place = (place & !(1 << 31)) as usize;
            let following = (place % 16 != 15 && cached(place / 16)).then(|| self.half(place + 1));
            self.thumb[place] = self.decoder.thumb(self.half(place), following);
        } else {
            let place = place as usize;
            let line = &self.pool_words[place / 8];
            let alone = place % 8 == 7 || place / 8 == POOL_LINES;
            let following = (!alone).then(|| line[(place + 1) % 8]);
            self.arm[place] = self.decoder.arm(line[place % 8], following);
        }
    }

    /// Fills a slot with the line of a modified virtual address.
    fn install(&mut self, slot: usize, address: u32, physical: u32, words: [u32; 8]) {
        self.line_physical[slot] = physical & !31;
        self.lines[slot] = words;
        self.thumb_ready[slot] = false;
        self.take_pool_line(slot, address);
    }

    /// Gives a slot its place in the pool; a line of other words that had it will decode anew.
    #[inline(never)]
    fn take_pool_line(&mut self, slot: usize, address: u32) {
        // The same code relocated to several processes has one place for each.
        let spread = (address >> 25).wrapping_mul(0x9e5);
        let place = ((self.line_physical[slot] >> 5 ^ spread) as usize) % POOL_LINES;
        let user = self.pool_users[place];
        if user != slot as u32 {
            if let Some(tag) = self.line_tags.get_mut(user as usize)
                && self.pool_places[user as usize] == place as u32
            {
                *tag = 0;
            }
            self.pool_users[place] = slot as u32;
        }
        if self.pool_words[place] != self.lines[slot] {
            self.pool_words[place] = self.lines[slot];
            for word in place * 8..place * 8 + 8 {
                self.arm[word] = undecoded(word as u32);
            }
        }
        self.pool_places[slot] = place as u32;
        self.line_tags[slot] = address & !31 | 1;
        self.hints[(address >> 5) as usize % LINE_HINTS] = slot as u16;
    }

    fn find(&mut self, address: u32) -> Option<usize> {
        let slot = self.cache.find(u64::from(address & !31))? as usize;
        if self.line_tags[slot] == 0 {
            self.take_pool_line(slot, address);
        }
        self.hints[(address >> 5) as usize % LINE_HINTS] = slot as u16;
        Some(slot)
    }

    /// Changes a word in every copy of a line, for the debugger.
    pub(crate) fn poke(&mut self, line: u32, index: usize, put: impl Fn(&mut u32)) {
        for slot in 0..self.lines.len() {
            if self.line_physical[slot] == line {
                put(&mut self.lines[slot][index]);
                self.thumb_ready[slot] = false;
                let tag = self.line_tags[slot];
                if tag != 0 {
                    self.take_pool_line(slot, tag);
                }
            }
        }
    }

    /// Empties the slot of an address.
    pub(crate) fn invalidate(&mut self, address: u32) {
        if let Some(slot) = self.find(address) {
            self.invalidate_slot(slot);
        }
    }

    pub(crate) fn invalidate_slot(&mut self, slot: usize) {
        self.line_tags[slot] = 0;
        self.cache.invalidate_slot(slot as u32);
    }

    /// Empties the cache.
    pub(crate) fn invalidate_all(&mut self) {
        self.line_tags.fill(0);
        self.cache.invalidate_all();
    }

    /// The stall of the instruction at `pc`, in `slot`, for the last one of the line before, whose
    /// result decoding that line could not see used.
    #[inline(never)]
    pub(crate) fn stall_across(&mut self, slot: usize, pc: u32, thumb: bool) -> u8 {
        let before = std::mem::replace(&mut self.late, Late::NONE);
        let word = self.lines[slot][(pc >> 2 & 7) as usize];
        let word = if thumb { word >> (8 * (pc & 2)) & 0xffff } else { word };
        self.decoder.stall(before, word, thumb)
    }
}

impl Memory {
    /// The slot that holds the instruction at `pc`.
    #[inline(always)]
    pub(crate) fn fetch_slot(&mut self, board: &mut Board, pc: u32) -> Result<usize, Fault> {
        let address = self.modified(pc);
        if self.fetch.page == address & !0xfff | self.context() {
            let slot = usize::from(self.fetch.hints[(address >> 5) as usize % LINE_HINTS]);
            if self.fetch.line_tags[slot] == address & !31 | 1 {
                return Ok(slot);
            }
        }
        self.fetch_slow(board, address)
    }

    #[inline(never)]
    fn fetch_slow(&mut self, board: &mut Board, address: u32) -> Result<usize, Fault> {
        let tag = address & !0xfff | self.context();
        if self.fetch.page != tag {
            let entry = self.fetch.pages[(address >> 12) as usize % PAGES];
            if entry.tag == tag {
                self.fetch.page = tag;
                self.fetch.page_physical = entry.physical;
                self.fetch.page_attributes = entry.attributes;
            } else {
                let (physical, attributes, uniform) = self.translate_fetch(board, address)?;
                self.fetch.page = 0; // what follows is of this page
                self.fetch.page_physical = physical & !0xfff;
                self.fetch.page_attributes = attributes;
                if uniform && attributes & CACHEABLE != 0 {
                    self.fetch.page = tag;
                    self.fetch.pages[(address >> 12) as usize % PAGES] =
                        Page { tag, physical: physical & !0xfff, attributes };
                }
                // An unknown page is looked up at every line.
            }
        }
        let physical = self.fetch.page_physical | address & 0xfff;
        if board.region(physical) == Region::Device {
            self.lost_fetch = Some((address, physical));
            self.request_attention();
        }
        if self.fetch.page_attributes & CACHEABLE == 0 {
            return Ok(self.fetch_uncached(board, address, physical));
        }
        Ok(self.instruction_line(board, address, physical))
    }

    /// Brings a line into the instruction cache before it is executed, as for locking it down (c7, c13, 1; ARM
    /// DDI 0151C, 4.2; ARM DDI 0198D, 2.3.9). A fault is ignored.
    pub(crate) fn prefetch_instructions(&mut self, board: &mut Board, address: u32) {
        let Ok((physical, attributes, _)) = self.translate_fetch(board, address) else { return };
        if attributes & CACHEABLE != 0 && board.region(physical) == Region::Ram {
            self.instruction_line(board, address, physical);
        }
    }

    /// The slot of a cacheable line, which comes in if it is not here.
    fn instruction_line(&mut self, board: &mut Board, address: u32, physical: u32) -> usize {
        if let Some(slot) = self.fetch.find(address) {
            return slot;
        }
        if self.registers.cache_debug & cache_debug::NO_INSTRUCTION_FILLS != 0 {
            return self.fetch_uncached(board, address, physical);
        }
        self.counters.icache_misses += 1;
        let words = self.read_line(board, physical, Cause::InstructionMiss);
        let slot = match self.fetch.cache.access(u64::from(address & !31)) {
            Access::Hit(slot) | Access::Miss { slot, .. } => slot as usize,
        };
        self.fetch.install(slot, address, physical, words);
        slot
    }

    /// Physical address, attributes, and whether the whole 4 KB page has the same.
    fn translate_fetch(
        &mut self,
        board: &mut Board,
        address: u32,
    ) -> Result<(u32, u8, bool), Fault> {
        let cached = self.registers.control & control::INSTRUCTION_CACHE != 0;
        if self.registers.control & control::MMU == 0 {
            // With the MMU off, an enabled instruction cache takes everything (278088-004, 6.1;
            // ARM DDI 0198D, 3.1).
            return Ok((address, if cached { CACHEABLE } else { 0 }, true));
        }
        let translation = self.translation(board, address, Side::Instruction)?;
        if let Some(status) = self.refused(&translation, address, false) {
            let fault = Fault { address, status, domain: translation.domain };
            self.check_fetch_refusal(board, fault);
            return Err(fault);
        }
        let offset_mask = (1u32 << translation.page_shift) - 1;
        let physical = translation.physical & !offset_mask | address & offset_mask;
        let attributes = if cached { translation.attributes } else { 0 };
        Ok((physical, attributes, translation.uniform()))
    }

    /// Reads one word into the scratch slot. Its decoded form is kept if the word is the same as
    /// last time: decoding depends on nothing else.
    fn fetch_uncached(&mut self, board: &mut Board, address: u32, physical: u32) -> usize {
        let word = self.read_uncached(board, physical & !3);
        let slot = self.fetch.scratch;
        let place = (address >> 2 & 7) as usize;
        self.fetch.line_physical[slot] = physical & !31;
        if self.fetch.lines[slot][place] != word {
            self.fetch.lines[slot][place] = word;
            self.fetch.pool_words[POOL_LINES][place] = word;
            self.fetch.arm[POOL_LINES * 8 + place] = undecoded((POOL_LINES * 8 + place) as u32);
            for half in 0..2 {
                let place = slot * 16 + place * 2 + half;
                self.fetch.thumb[place] = undecoded(place as u32 | 1 << 31);
            }
        }
        slot
    }

    /// Whether a slot is the one for uncached fetches, which holds one instruction.
    #[inline(always)]
    pub(crate) fn is_scratch(&self, slot: usize) -> bool {
        slot == self.fetch.scratch
    }
}
