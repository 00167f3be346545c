//! The instruction side: the instruction cache with its words and their decoded form.
//!
//! A line that comes in brings its words only; each instruction is decoded when it is first
//! executed. Decoding depends on nothing but the words of the line, so the decoded forms of lines
//! are kept in a pool, where a line that comes back with the same words finds them again. What
//! executes is always what the cache line holds: old code in a line that nobody invalidated is
//! executed as old code.

use mmulab_hardware::{Cache, Line};
use mmulab_state::{Damaged, Restorer, Saver, State, Value};

use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::{CacheAddress, Core, Decode, Fault, Following, MemoryType, Mmu, Side};
use crate::memory::CoreMemory;
use crate::observer::{Access, Observer};

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
    memory_type: MemoryType,
}

mmulab_state::value!(Page { tag, physical, memory_type });

const EMPTY_PAGE: Page = Page { tag: 0, physical: 0, memory_type: MemoryType::STRONGLY_ORDERED };

/// The instruction cache and what is decoded.
pub struct InstructionSide<C: Core> {
    pub(crate) cache: Cache,
    pub(crate) decoder: C::Decoder,
    /// Address of the line in each slot, with bit 0 set, while its place in the pool is its own; 0
    /// if it is empty, or another line has taken the index.
    line_tags: Box<[u32]>,
    pub(crate) line_physical: Box<[u32]>,
    pub(crate) lines: Box<[C::FetchLine]>,
    /// The pool of decoded lines, the words that each was decoded from, and the slot that uses it.
    decoded: Box<[C::Op]>,
    pool_words: Box<[C::FetchLine]>,
    pool_users: Box<[u32]>,
    /// The line of the pool that each slot uses.
    pool_indices: Box<[u32]>,
    /// Decoded narrow instructions by slot, and whether they are of the line that is there now.
    narrow: Box<[C::Op]>,
    narrow_ready: Box<[bool]>,
    hints: Box<[u16; LINE_HINTS]>,
    pages: Box<[Page; PAGES]>,
    /// The page that the last fetch was in, with its context; 0 for unknown.
    page: u32,
    page_physical: u32,
    page_type: MemoryType,
    /// What the last instruction delivers late, if the line did not say what comes next.
    pub late: Option<<C::Decoder as Decode>::Late>,
    /// Where words from uncached memory are decoded: one more slot.
    scratch: usize,
}

/// Set in the index of a half-word, to tell it from that of a word.
const NARROW_INDEX: u32 = 1 << 31;

/// What is saved and restored in place, in this order. Every field is named, so that none is
/// forgotten.
macro_rules! parts {
    ($side:expr) => {{
        let Self {
            cache,
            decoder: _,
            line_tags,
            line_physical,
            lines,
            decoded: _,
            pool_words,
            pool_users,
            pool_indices,
            narrow: _,
            narrow_ready,
            hints,
            pages,
            page,
            page_physical,
            page_type,
            late,
            scratch: _,
        } = $side;
        [
            cache,
            line_tags,
            line_physical,
            lines,
            pool_words,
            pool_users,
            pool_indices,
            narrow_ready,
            hints,
            pages,
            page,
            page_physical,
            page_type,
            late,
        ]
    }};
}

/// Decoded instructions refer to this program, and depend on words only: what is saved is which
/// there are.
impl<C: Core> State for InstructionSide<C> {
    fn save(&self, to: &mut Saver<'_>) {
        let parts: [&dyn State; 14] = parts!(self);
        parts.iter().for_each(|part| part.save(to));
        for op in self.decoded.iter().chain(&self.narrow) {
            C::Decoder::is_decoded(op).save(to);
        }
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        let parts: [&mut dyn State; 14] = parts!(self);
        parts.into_iter().try_for_each(|part| part.restore(from))?;
        for index in 0..self.decoded.len() as u32 {
            self.decoded[index as usize] = C::Decoder::undecoded(index);
            if bool::load(from)? {
                self.decode(index);
            }
        }
        for index in 0..self.narrow.len() as u32 {
            self.narrow[index as usize] = C::Decoder::undecoded(index | NARROW_INDEX);
            if bool::load(from)? {
                self.decode(index | NARROW_INDEX);
            }
        }
        Ok(())
    }
}

impl<C: Core> InstructionSide<C> {
    const WORDS: usize = C::FetchLine::WORDS;
    const HALVES: usize = 2 * C::FetchLine::WORDS;

    /// An empty instruction cache.
    pub fn new(cache: Cache, decoder: C::Decoder) -> InstructionSide<C> {
        let slots = cache.slots() as usize + 1;
        let narrow_slots = if C::HAS_NARROW { slots } else { 0 };
        InstructionSide {
            decoder,
            line_tags: vec![0; slots].into(),
            line_physical: vec![0; slots].into(),
            lines: vec![C::FetchLine::ZERO; slots].into(),
            decoded: (0..(POOL_LINES + 1) * Self::WORDS)
                .map(|index| C::Decoder::undecoded(index as u32))
                .collect(),
            pool_words: vec![C::FetchLine::ZERO; POOL_LINES + 1].into(),
            pool_users: vec![NO_SLOT; POOL_LINES + 1].into(),
            // The scratch slot has the last line for itself.
            pool_indices: vec![POOL_LINES as u32; slots].into(),
            narrow_ready: vec![true; slots].into(),
            narrow: (0..narrow_slots * Self::HALVES)
                .map(|index| C::Decoder::undecoded(index as u32 | NARROW_INDEX))
                .collect(),
            hints: Box::new([0; LINE_HINTS]),
            pages: Box::new([EMPTY_PAGE; PAGES]),
            page: 0,
            page_physical: 0,
            page_type: MemoryType::STRONGLY_ORDERED,
            late: None,
            scratch: slots - 1,
            cache,
        }
    }

    /// The copies of the line of a physical address, in sets of any colour.
    pub(crate) fn copies(&self, physical: u32) -> impl Iterator<Item = &C::FetchLine> {
        let way_bytes = self.cache.sets() << self.cache.line_shift();
        let colours = (0..way_bytes.max(4096)).step_by(4096);
        colours.filter_map(move |colour| {
            let set = self.cache.set_of(u64::from(physical & 0xfff | colour));
            let slot = self.cache.peek_in_set(set, u64::from(physical))? as usize;
            Some(&self.lines[slot])
        })
    }

    /// The next fetch must look at TLB and permissions again.
    #[inline]
    pub fn invalidate_current_page(&mut self) {
        self.page = 0;
    }

    /// As above, for all pages.
    pub fn invalidate_pages(&mut self) {
        self.page = 0;
        self.pages.fill(EMPTY_PAGE);
    }

    /// As above, for the page of an address.
    pub fn invalidate_page(&mut self, address: u32) {
        self.page = 0;
        self.pages[(address >> 12) as usize % PAGES] = EMPTY_PAGE;
    }

    /// As above, for the page at this place.
    pub(crate) fn invalidate_page_at(&mut self, place: usize) {
        self.page = 0;
        self.pages[place] = EMPTY_PAGE;
    }

    /// Where the decoded instructions of a slot begin. It stays while execution does not leave the
    /// line.
    #[inline(always)]
    pub(crate) fn decoded_line(&self, slot: usize) -> usize {
        self.pool_indices[slot] as usize * Self::WORDS
    }

    /// The decoded instruction of an index: of words, from [`InstructionSide::decoded_line`] on; of
    /// half-words, counted over all slots.
    #[inline(always)]
    pub(crate) fn op<const NARROW: bool>(&self, index: usize) -> C::Op {
        if NARROW { self.narrow[index] } else { self.decoded[index] }
    }

    /// Makes the narrow instructions of a slot those of its line.
    #[inline(always)]
    pub(crate) fn prepare_narrow(&mut self, slot: usize) {
        if !self.narrow_ready[slot] {
            self.narrow_ready[slot] = true;
            for half in slot * Self::HALVES..(slot + 1) * Self::HALVES {
                self.narrow[half] = C::Decoder::undecoded(half as u32 | NARROW_INDEX);
            }
        }
    }

    fn half(&self, index: usize) -> u16 {
        let word = self.lines[index / Self::HALVES][index % Self::HALVES / 2];
        (word >> (16 * (index & 1))) as u16
    }

    /// The half-word that is so many behind this one, if it is in the line; the scratch slot has
    /// one alone.
    fn half_ahead(&self, index: usize, distance: usize) -> Option<u16> {
        let is_alone = index / Self::HALVES == self.scratch;
        let is_in_line = !is_alone && index % Self::HALVES + distance < Self::HALVES;
        is_in_line.then(|| self.half(index + distance))
    }

    /// The index of the half-word at an address, in the line of a slot.
    fn half_index(slot: usize, address: u32) -> usize {
        slot * Self::HALVES + (address >> 1) as usize % Self::HALVES
    }

    /// Decodes the instruction that has this index.
    pub fn decode(&mut self, index: u32) {
        if index & NARROW_INDEX != 0 {
            let index = (index & !NARROW_INDEX) as usize;
            let following = [1, 2, 3].map(|distance| self.half_ahead(index, distance));
            self.narrow[index] = self.decoder.half(self.half(index), following);
        } else {
            let index = index as usize;
            let (line, word) = (index / Self::WORDS, index % Self::WORDS);
            let words = &self.pool_words[line];
            let alone = word == Self::WORDS - 1 || line == POOL_LINES;
            let following = (!alone).then(|| words[(word + 1) % Self::WORDS]);
            self.decoded[index] = self.decoder.word(words[word], following);
        }
    }

    #[inline(always)]
    fn by(kind: CacheAddress, address: u32, physical: u32) -> u32 {
        match kind {
            CacheAddress::Virtual => address,
            CacheAddress::Physical => physical,
        }
    }

    #[inline(always)]
    fn hint_of(address: u32) -> usize {
        (address / C::FetchLine::BYTES) as usize % LINE_HINTS
    }

    /// Fills a slot with the line of an address.
    fn install(&mut self, slot: usize, address: u32, physical: u32, words: C::FetchLine) {
        self.line_physical[slot] = C::FetchLine::base(physical);
        self.lines[slot] = words;
        self.narrow_ready[slot] = false;
        self.take_pool_line(slot, address, physical);
    }

    /// Gives a slot its place in the pool; a line of other words that had it will decode again.
    #[inline(never)]
    fn take_pool_line(&mut self, slot: usize, address: u32, physical: u32) {
        // The same code relocated to several processes has one index for each.
        let spread = (address >> 25).wrapping_mul(0x9e5);
        let line = self.line_physical[slot] / C::FetchLine::BYTES;
        let index = (line ^ spread) as usize % POOL_LINES;
        let user = self.pool_users[index];
        if user != slot as u32 {
            if let Some(tag) = self.line_tags.get_mut(user as usize)
                && self.pool_indices[user as usize] == index as u32
            {
                *tag = 0;
            }
            self.pool_users[index] = slot as u32;
        }
        if self.pool_words[index].as_ref() != self.lines[slot].as_ref() {
            self.pool_words[index] = self.lines[slot];
            for word in index * Self::WORDS..(index + 1) * Self::WORDS {
                self.decoded[word] = C::Decoder::undecoded(word as u32);
            }
        }
        self.pool_indices[slot] = index as u32;
        let tag = Self::by(C::FETCH_TAG, address, physical);
        self.line_tags[slot] = C::FetchLine::base(tag) | 1;
        self.hints[Self::hint_of(address)] = slot as u16;
    }

    /// Index and tag of the cache, for the line of an address.
    fn keys(&self, address: u32, physical: u32) -> (u32, u64) {
        let index = Self::by(C::FETCH_INDEX, address, physical);
        let tag = Self::by(C::FETCH_TAG, address, physical);
        (self.cache.set_of(u64::from(index)), u64::from(C::FetchLine::base(tag)))
    }

    fn find(&mut self, address: u32, physical: u32) -> Option<usize> {
        let (set, line) = self.keys(address, physical);
        let slot = self.cache.find_in_set(set, line)? as usize;
        if self.line_tags[slot] == 0 {
            self.take_pool_line(slot, address, physical);
        }
        self.hints[Self::hint_of(address)] = slot as u16;
        Some(slot)
    }

    /// The slot for a line that is to come in.
    fn allocate(&mut self, address: u32, physical: u32) -> usize {
        let (set, line) = self.keys(address, physical);
        let slot = self.cache.victim_in_set(set);
        self.cache.replace(slot, line);
        slot as usize
    }

    /// Changes a word in every copy of a line, for the debugger.
    pub(crate) fn poke(&mut self, line: u32, index: usize, put: impl Fn(&mut u32)) {
        // The scratch slot compares its word with memory at each fetch.
        for slot in 0..self.scratch {
            if self.line_physical[slot] == line {
                put(&mut self.lines[slot][index]);
                self.narrow_ready[slot] = false;
                // Its decoded form is taken again when it is next fetched.
                self.line_tags[slot] = 0;
            }
        }
    }

    /// The decoder, for an instruction that the line does not hold whole.
    pub fn decoder_mut(&mut self) -> &mut C::Decoder {
        &mut self.decoder
    }

    /// Empties the slot of an address.
    pub(crate) fn invalidate(&mut self, address: u32, physical: u32) {
        if let Some(slot) = self.find(address, physical) {
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

    /// The stall of the instruction at `pc`, in `slot`, for what the one before it delivers late.
    /// Of one that ends in the next line it is not known yet, and `late` stays.
    #[inline(never)]
    pub(crate) fn stall_across(&mut self, slot: usize, pc: u32, narrow: bool) -> u8 {
        let Some(late) = self.late else { return 0 };
        let next = if narrow {
            let index = Self::half_index(slot, pc);
            Following::Halves(self.half(index), self.half_ahead(index, 1))
        } else {
            Following::Word(self.lines[slot][C::FetchLine::word(pc)])
        };
        let Some(stall) = self.decoder.stall(late, next) else { return 0 };
        self.late = None;
        stall
    }
}

impl<C: Core> CoreMemory<C> {
    /// The half-word at an address, fetched as an instruction: the second of an instruction whose
    /// first one ends its line.
    ///
    /// # Errors
    /// The MMU refuses the fetch.
    pub fn fetch_half(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u16, Fault> {
        let slot = self.fetch_slot(bus, address)?;
        self.observe_fetch_at(bus, address, slot);
        Ok(self.fetch.half(InstructionSide::<C>::half_index(slot, address)))
    }

    /// The slot that holds the instruction at `pc`.
    #[inline(always)]
    pub(crate) fn fetch_slot(&mut self, bus: &mut Bus<C>, pc: u32) -> Result<usize, Fault> {
        let address = self.relocated(pc);
        let side = &self.fetch;
        if side.page == address & !0xfff | self.context() {
            let slot = usize::from(side.hints[InstructionSide::<C>::hint_of(address)]);
            let physical = side.page_physical | address & 0xfff;
            let tag = InstructionSide::<C>::by(C::FETCH_TAG, address, physical);
            if side.line_tags[slot] == C::FetchLine::base(tag) | 1 {
                return Ok(slot);
            }
        }
        self.fetch_slow(bus, address)
    }

    #[inline(never)]
    fn fetch_slow(&mut self, bus: &mut Bus<C>, address: u32) -> Result<usize, Fault> {
        let tag = address & !0xfff | self.context();
        if self.fetch.page != tag {
            let entry = self.fetch.pages[(address >> 12) as usize % PAGES];
            if entry.tag == tag {
                self.fetch.page = tag;
                self.fetch.page_physical = entry.physical;
                self.fetch.page_type = entry.memory_type;
            } else {
                let (physical, memory_type, uniform) = self.translate_fetch(bus, address)?;
                self.fetch.page = 0; // what follows is of this page
                self.fetch.page_physical = physical & !0xfff;
                self.fetch.page_type = memory_type;
                if uniform && memory_type.is_cached() {
                    let place = (address >> 12) as usize % PAGES;
                    self.fetch.page = tag;
                    self.fetch.pages[place] =
                        Page { tag, physical: physical & !0xfff, memory_type };
                    self.note_page(place, Side::Instruction);
                }
                // An unknown page is looked up at every line.
            }
        }
        let physical = self.fetch.page_physical | address & 0xfff;
        if bus.region(physical) == Region::Device {
            self.unmapped_fetch = Some((address, physical));
            self.request_exit();
        }
        if !self.fetch.page_type.is_cached() {
            return Ok(self.fetch_uncached(bus, address, physical));
        }
        let memory_type = self.fetch.page_type;
        Ok(self.instruction_line(bus, address, physical, memory_type))
    }

    /// Brings a line into the instruction cache before it is executed, as for locking it down. A
    /// fault is ignored.
    pub(crate) fn prefetch_instructions(&mut self, bus: &mut Bus<C>, address: u32) {
        let Ok((physical, memory_type, _)) = self.translate_fetch(bus, address) else { return };
        if memory_type.is_cached() && bus.region(physical) == Region::Ram {
            self.instruction_line(bus, address, physical, memory_type);
        }
    }

    /// The slot of a cacheable line, which comes in if it is not here and its type lets it.
    fn instruction_line(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        physical: u32,
        memory_type: MemoryType,
    ) -> usize {
        if let Some(slot) = self.fetch.find(address, physical) {
            return slot;
        }
        if !memory_type.fills() {
            return self.fetch_uncached(bus, address, physical);
        }
        self.statistics.counters.icache_misses += 1;
        let into_level_2 = memory_type.is_write_back();
        let words = self.read_line(bus, physical, into_level_2, Cause::InstructionMiss);
        let slot = self.fetch.allocate(address, physical);
        self.fetch.install(slot, address, physical, words);
        self.observe(bus, |observer, core, _| observer.filled(core, Side::Instruction, slot));
        slot
    }

    /// Physical address, memory type, and whether the whole 4 KB page is alike.
    fn translate_fetch(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
    ) -> Result<(u32, MemoryType, bool), Fault> {
        let side = Side::Instruction;
        if !self.mmu.is_on() {
            return Ok((address, self.mmu.untranslated_type(side), true));
        }
        let translation = self.translation(bus, address, side)?;
        if let Some(status) = self.fetch_refusal(&translation, address) {
            self.observe(bus, |observer, core, bus| {
                observer.refused(core, bus, Access::Fetch, address);
            });
            return Err(Fault::new(address, status));
        }
        let memory_type = self.mmu.effective_type(translation.memory_type, side);
        let uniform = self.mmu.is_uniform(&translation);
        Ok((translation.physical_of(address), memory_type, uniform))
    }

    /// Reads one word into the scratch slot. Its decoded form is kept if the word is the same as
    /// last time: decoding depends on nothing else.
    fn fetch_uncached(&mut self, bus: &mut Bus<C>, address: u32, physical: u32) -> usize {
        let word = self.read_uncached(bus, physical & !3);
        let side = &mut self.fetch;
        let slot = side.scratch;
        let index = C::FetchLine::word(address);
        side.line_physical[slot] = C::FetchLine::base(physical);
        if side.lines[slot][index] != word {
            side.lines[slot][index] = word;
            side.pool_words[POOL_LINES][index] = word;
            let decoded = POOL_LINES * C::FetchLine::WORDS + index;
            side.decoded[decoded] = C::Decoder::undecoded(decoded as u32);
            if C::HAS_NARROW {
                for half in 0..2 {
                    let half = (slot * C::FetchLine::WORDS + index) * 2 + half;
                    side.narrow[half] = C::Decoder::undecoded(half as u32 | NARROW_INDEX);
                }
            }
        }
        slot
    }

    /// Shows observers the fetch of a half-word that is not the first of its instruction.
    pub(crate) fn observe_fetch_at(&mut self, bus: &mut Bus<C>, address: u32, slot: usize) {
        let pc = std::mem::replace(&mut self.pc, address);
        self.observe(bus, |observer, core, bus| observer.fetched(core, bus, slot, 2));
        self.pc = pc;
    }

    /// Whether a slot is the one for uncached fetches, which holds one instruction.
    #[inline(always)]
    pub(crate) fn is_scratch(&self, slot: usize) -> bool {
        slot == self.fetch.scratch
    }
}
