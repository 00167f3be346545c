//! What the checker has found right, so that it need not look again: pages whose translation agreed
//! with the tables, and cache lines whose words were all the newest. Most accesses are of this
//! kind.

/// Pages of each side that are remembered.
const PAGES: usize = 256;
/// Stores are noted for pieces of memory of this size: no line is smaller.
const PIECE_SHIFT: u32 = 5;
/// Slots of a data cache that can be told apart in a [`Holder`].
const SLOTS: usize = 4095;

/// A page whose translation agreed with the tables.
#[derive(Clone, Copy, Default)]
struct Page {
    epoch: u64,
    key: u64,
    physical: u32,
}

mmulab_state::value!(Page { epoch, key, physical });

/// An instruction cache line whose words were all the newest.
#[derive(Clone, Copy, Default)]
struct FetchLine {
    epoch: u64,
    /// Its address and the context of the page that it was fetched by.
    key: u64,
}

mmulab_state::value!(FetchLine { epoch, key });

/// A slot of some core's data cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder(u16);

impl Holder {
    const NONE: Holder = Holder(0);

    /// A slot of a core; none if there are too many to tell them apart.
    fn new(core: usize, slot: usize) -> Holder {
        if core < 16 && slot < SLOTS {
            Holder((core << 12 | (slot + 1)) as u16)
        } else {
            Holder::NONE
        }
    }
}

/// Everything that is known.
pub(super) struct Known {
    /// Where RAM begins.
    base: u32,
    /// Grows whenever a translation may not be right any more. What was noted in an earlier epoch
    /// does not count.
    epoch: u64,
    /// Grows with `epoch`, and whenever a known line of instructions may be old.
    fetch_epoch: u64,
    pages: Box<[Page; PAGES]>,
    /// The epoch in which the line of a [`Holder`] was compared.
    data_lines: Vec<u64>,
    /// By core and slot.
    fetch_lines: Vec<Vec<FetchLine>>,
    /// The data cache line that is known to have the newest words of each piece of RAM: at most
    /// one.
    holders: Vec<u16>,
    /// Whether a known line of instructions is of this piece.
    code: Vec<bool>,
}

mmulab_state::state!(Known {
    epoch,
    fetch_epoch,
    pages,
    data_lines,
    fetch_lines,
} sparse { holders, code } built { base });

impl Known {
    /// Nothing, of a RAM of this many words from `base` on.
    pub(super) fn new(base: u32, words: usize) -> Known {
        let pieces = ((words * 4) >> PIECE_SHIFT) + 1;
        Known {
            base,
            epoch: 1,
            fetch_epoch: 1,
            pages: Box::new([Page::default(); PAGES]),
            data_lines: Vec::new(),
            fetch_lines: Vec::new(),
            holders: vec![0; pieces],
            code: vec![false; pieces],
        }
    }

    /// Translations may not be right any more.
    pub(super) fn discard_pages(&mut self) {
        self.epoch += 1;
        self.fetch_epoch += 1;
    }

    /// The pieces of some bytes of RAM.
    fn pieces(&self, physical: u32, bytes: u32) -> std::ops::Range<usize> {
        let first = (physical.wrapping_sub(self.base) >> PIECE_SHIFT) as usize;
        first..first + (bytes >> PIECE_SHIFT) as usize
    }

    #[inline(always)]
    fn page_index(tag: u32, kind: u8) -> usize {
        ((tag >> 12) as usize % PAGES) ^ (usize::from(kind) << 6)
    }

    #[inline(always)]
    fn page_key(core: usize, tag: u32, kind: u8) -> u64 {
        (core as u64) << 40 | u64::from(kind) << 32 | u64::from(tag)
    }

    /// Whether a page is known to be at the physical address of `physical`. Its tag is its address
    /// with the context; the kind of access is one of four.
    #[inline(always)]
    pub(super) fn has_page(&self, core: usize, tag: u32, kind: u8, physical: u32) -> bool {
        let page = &self.pages[Self::page_index(tag, kind)];
        page.epoch == self.epoch
            && page.key == Self::page_key(core, tag, kind)
            && page.physical == physical & !0xfff
    }

    pub(super) fn note_page(&mut self, core: usize, tag: u32, kind: u8, physical: u32) {
        self.pages[Self::page_index(tag, kind)] = Page {
            epoch: self.epoch,
            key: Self::page_key(core, tag, kind),
            physical: physical & !0xfff,
        };
    }

    /// Whether all words of the data cache line in a slot are known to be the newest.
    #[inline(always)]
    pub(super) fn data_line(&self, core: usize, slot: usize) -> Option<Holder> {
        let holder = Holder::new(core, slot);
        (self.data_lines.get(usize::from(holder.0)) == Some(&self.epoch)).then_some(holder)
    }

    /// Notes that all words of the data cache line in a slot are the newest.
    pub(super) fn note_data_line(&mut self, core: usize, slot: usize, physical: u32, bytes: u32) {
        let holder = Holder::new(core, slot);
        if holder == Holder::NONE {
            return;
        }
        if self.data_lines.len() <= usize::from(holder.0) {
            self.data_lines.resize((core + 1) << 12, 0);
        }
        for piece in self.pieces(physical, bytes) {
            let Some(place) = self.holders.get_mut(piece) else { return };
            // A second copy: stores are followed for one only.
            let before = std::mem::replace(place, holder.0);
            if before != holder.0 {
                self.data_lines[usize::from(before)] = 0;
            }
        }
        self.data_lines[usize::from(holder.0)] = self.epoch;
    }

    /// A slot of a data cache has another line, or the words of a line were read again.
    pub(super) fn discard_data_line(&mut self, core: usize, slot: usize) {
        if let Some(epoch) = self.data_lines.get_mut(usize::from(Holder::new(core, slot).0)) {
            *epoch = 0;
        }
    }

    /// Nobody is known to have the newest words of some bytes of RAM.
    pub(super) fn discard_holders(&mut self, physical: u32, bytes: u32) {
        for piece in self.pieces(physical, bytes) {
            let holder = self.holders.get_mut(piece).map_or(0, std::mem::take);
            if let Some(epoch) = self.data_lines.get_mut(usize::from(holder)) {
                *epoch = 0;
            }
        }
    }

    #[inline(always)]
    fn fetch_key(line: u32, context: u32) -> u64 {
        u64::from(context) << 32 | u64::from(line)
    }

    /// Whether all words of an instruction cache line are known to be the newest, and its page to
    /// be right.
    #[inline(always)]
    pub(super) fn has_fetch_line(&self, core: usize, slot: usize, line: u32, context: u32) -> bool {
        let known = self.fetch_lines.get(core).and_then(|slots| slots.get(slot));
        known.is_some_and(|known| {
            known.epoch == self.fetch_epoch && known.key == Self::fetch_key(line, context)
        })
    }

    /// Notes that all words of an instruction cache line of `bytes` bytes are the newest.
    pub(super) fn note_fetch_line(
        &mut self,
        (core, slot): (usize, usize),
        (line, context): (u32, u32),
        (physical, bytes): (u32, u32),
    ) {
        for piece in self.pieces(physical, bytes) {
            let Some(place) = self.code.get_mut(piece) else { return };
            *place = true;
        }
        if self.fetch_lines.len() <= core {
            self.fetch_lines.resize(core + 1, Vec::new());
        }
        let slots = &mut self.fetch_lines[core];
        if slots.len() <= slot {
            slots.resize(slot + 1, FetchLine::default());
        }
        slots[slot] = FetchLine { epoch: self.fetch_epoch, key: Self::fetch_key(line, context) };
    }

    /// A slot of an instruction cache has another line, or the words of a line were read again.
    pub(super) fn discard_fetch_line(&mut self, core: usize, slot: usize) {
        if let Some(line) = self.fetch_lines.get_mut(core).and_then(|slots| slots.get_mut(slot)) {
            line.epoch = 0;
        }
    }

    /// Something was stored to a word of RAM, `through` a data cache line that has it now: other
    /// lines may be old. Returns whether instructions may be.
    #[inline(always)]
    pub(super) fn stored(&mut self, physical: u32, through: Option<Holder>) -> bool {
        let piece = (physical.wrapping_sub(self.base) >> PIECE_SHIFT) as usize;
        let through = through.unwrap_or(Holder::NONE);
        let holder = self.holders[piece];
        if holder != through.0 && holder != 0 {
            self.data_lines[usize::from(holder)] = 0;
            self.holders[piece] = 0;
        }
        let code = std::mem::take(&mut self.code[piece]);
        if code {
            self.fetch_epoch += 1;
        }
        code
    }
}
