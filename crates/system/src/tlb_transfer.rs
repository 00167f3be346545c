//! Entries that a core takes over from another core's data TLB while it executes.
//!
//! The core asks the other one for a few entries at a time, as for a line of a cache, and enters
//! those that it does not have. An answer takes what a line takes from cache to cache, a cycle for
//! each set that the other core looks at, and one for each entry. It is what the other core has
//! when it is asked. An invalidation that reaches the core before the answer is entered makes it
//! drop the answer and ask again: what it enters is in the other core's TLB, too, until an
//! invalidation takes it from both.

use crate::bus::Bus;
use crate::core::{Core, Mmu, Side};
use crate::memory::CoreMemory;
use crate::observer::Observer;
use crate::tlb::{Age, Entry, TranslationBuffer};

/// Entries of an answer: eight bytes each, as much as a line of 64.
const ENTRIES_OF_ANSWER: usize = 8;

/// What is under way to a core.
#[derive(Default)]
pub(crate) struct TlbTransfer {
    /// The other core, until all was taken over.
    source: Option<u32>,
    /// Which entries: of this address space, and not older than this.
    asid: u16,
    oldest: Age,
    /// The slot of the other core's TLB from which on it is asked, and the one behind what it
    /// looked at.
    first_slot: u32,
    next_slot: u32,
    /// Whether it was asked, and what it answered.
    asked: bool,
    answer: Vec<Entry>,
    /// When the answer is here; without one, since when the other core can be asked.
    time: u64,
    /// How many entries were entered.
    entered: u32,
}

mmulab_state::state!(TlbTransfer {
    source,
    asid,
    oldest,
    first_slot,
    next_slot,
    asked,
    answer,
    time,
    entered,
});

impl TlbTransfer {
    /// Asks for the next entries; how long the answer takes beside its way.
    fn ask(&mut self, tlb: &TranslationBuffer) -> u32 {
        self.next_slot = self.first_slot;
        self.asked = true;
        while self.next_slot < tlb.slots() && self.answer.len() < ENTRIES_OF_ANSWER {
            let left_out = tlb.age(self.next_slot) > self.oldest;
            let found = tlb.entry(self.next_slot);
            let of_space = found.filter(|entry| !entry.global && entry.asid == self.asid);
            self.answer.extend(of_space.filter(|_| !left_out));
            self.next_slot += 1;
        }
        let sets = self.next_slot.div_ceil(tlb.ways()) - self.first_slot / tlb.ways();
        sets + self.answer.len() as u32
    }

    fn forget_answer(&mut self) {
        self.asked = false;
        self.answer.clear();
    }
}

impl<C: Core> CoreMemory<C> {
    /// Begins to take over what another core's data TLB has of the address space that runs here.
    /// What was under way ends.
    pub fn begin_tlb_transfer(&mut self, bus: &mut Bus<C>, source: u32, oldest: Age) {
        self.end_tlb_transfer();
        let transfer = &mut self.tlb_transfer;
        (transfer.source, transfer.oldest) = (Some(source), oldest);
        (transfer.first_slot, transfer.entered) = (0, 0);
        (transfer.asid, transfer.time) = (self.mmu.asid(), self.clock.now());
        self.advance_tlb_transfer(bus);
    }

    /// Nothing more is taken over.
    pub(crate) fn end_tlb_transfer(&mut self) {
        self.tlb_transfer.source = None;
        self.tlb_transfer.forget_answer();
    }

    /// The registers that choose the address space changed.
    pub(crate) fn space_of_tlb_transfer_may_end(&mut self) {
        if self.mmu.asid() != self.tlb_transfer.asid {
            self.end_tlb_transfer();
        }
    }

    /// How many entries the last transfer has entered, and whether it goes on.
    pub fn tlb_transfer_state(&mut self, bus: &mut Bus<C>) -> (u32, bool) {
        self.advance_tlb_transfer(bus);
        (self.tlb_transfer.entered, self.tlb_transfer.source.is_some())
    }

    /// TLB entries are invalidated here: those of an answer that is on its way may be among them.
    pub(crate) fn repeat_tlb_transfer(&mut self) {
        if self.tlb_transfer.asked {
            self.tlb_transfer.forget_answer();
            self.tlb_transfer.time = self.clock.now();
        }
    }

    /// Enters what has arrived, and asks for more.
    #[inline]
    pub(crate) fn advance_tlb_transfer(&mut self, bus: &mut Bus<C>) {
        while let Some(source) = self.tlb_transfer.source
            && self.tlb_transfer.time <= self.clock.now()
        {
            self.step_tlb_transfer(bus, source);
        }
    }

    fn step_tlb_transfer(&mut self, bus: &mut Bus<C>, source: u32) {
        if self.tlb_transfer.asked {
            self.enter_answer(bus);
        }
        let Some(tlb) = bus.peer(source as usize).map(|peer| peer.tlb(Side::Data)) else {
            return self.end_tlb_transfer();
        };
        let transfer = &mut self.tlb_transfer;
        if transfer.first_slot == tlb.slots() {
            return self.end_tlb_transfer();
        }
        let cycles = self.coherence.transfer_cycles + transfer.ask(tlb);
        transfer.time += u64::from(cycles);
    }

    /// As walks would, but for entries that the core has itself by now.
    fn enter_answer(&mut self, bus: &mut Bus<C>) {
        let mut answer = std::mem::take(&mut self.tlb_transfer.answer);
        for entry in answer.drain(..) {
            let (address, asid) = (entry.virtual_address as u32, entry.asid);
            if self.tlb(Side::Data).peek(address, asid).is_none() {
                self.enter(address, asid, entry.payload, Side::Data);
                self.tlb_mut(Side::Data).mark_unused(address, asid);
                self.tlb_transfer.entered += 1;
            }
        }
        let transfer = &mut self.tlb_transfer;
        (transfer.answer, transfer.asked) = (answer, false);
        transfer.first_slot = transfer.next_slot;
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }
}
