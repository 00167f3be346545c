//! Translation: the TLBs, what is in front of them and beside them, and walks.

use super::{CoreMemory, EMPTY_PAGE, NO_PAGE, PAGES, Page};
use crate::bus::Bus;
use crate::cause::Cause;
use crate::core::{Core, Fault, MemoryType, Mmu, Side, Translation, Walk};
use crate::micro_tlb::{PageSet, places};
use crate::observer::Observer;
use crate::tlb::{Entry, TranslationBuffer, entry_of};

impl<C: Core> CoreMemory<C> {
    /// An entry of a micro TLB has left: the fast path must not use these pages of its side any
    /// more.
    fn invalidate_fast_path_at(&mut self, set: PageSet, side: Side) {
        for place in places(set) {
            match side {
                Side::Data => self.pages[place] = EMPTY_PAGE,
                Side::Instruction => self.fetch.invalidate_page_at(place),
            }
        }
    }

    /// The address as caches and TLBs see it.
    #[inline(always)]
    pub fn relocated(&self, address: u32) -> u32 {
        self.mmu.relocated(address)
    }

    /// The TLB of a side.
    pub fn tlb(&self, side: Side) -> &TranslationBuffer {
        match (side, &self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &self.itlb,
        }
    }

    /// The TLB of a side.
    pub fn tlb_mut(&mut self, side: Side) -> &mut TranslationBuffer {
        match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        }
    }

    /// The fault status if the present mode is refused an access.
    pub(crate) fn refusal(&self, page: &Translation, address: u32, write: bool) -> Option<u32> {
        self.mmu.refusal(page, address, write, self.privileged)
    }

    /// The same for a fetch.
    pub(crate) fn fetch_refusal(&self, page: &Translation, address: u32) -> Option<u32> {
        self.mmu.fetch_refusal(page, address, self.privileged)
    }

    fn walks_are_coherent(&self, address: u32) -> bool {
        C::COHERENT && self.mmu.walks_through_data_cache(address)
    }

    /// A descriptor as the hardware sees it that walks for an address.
    pub(crate) fn table_word(&self, bus: &Bus<C>, address: u32, physical: u32) -> u32 {
        if self.walks_are_coherent(address) {
            self.coherent_word(bus, physical)
        } else {
            bus.read_table_word(physical)
        }
    }

    /// Reads the tables in memory as the walking hardware does: it sees neither the data cache,
    /// unless it reads through it, nor the write buffer.
    pub(crate) fn walk_tables(&mut self, bus: &mut Bus<C>, address: u32, side: Side) -> Walk {
        let now = self.now();
        self.perform_due_stores(bus);
        self.write_buffer.retire(now, &mut bus.ram);
        let wait = self.write_buffer.transfer_ends_at(now);
        self.clock.charge_until(Cause::WriteBuffer, wait);
        self.write_buffer.retire(wait, &mut bus.ram);
        let counters = &mut self.statistics.counters;
        let (misses, cause) = match side {
            Side::Instruction => (&mut counters.itlb_misses, Cause::InstructionWalk),
            Side::Data => (&mut counters.dtlb_misses, Cause::DataWalk),
        };
        *misses += 1;
        let found = self.walk_from_kept(bus, address);
        if self.walks_are_coherent(address) {
            for &(at, _) in found.descriptors_read() {
                self.read_descriptor(bus, at, cause);
            }
        } else {
            let reads = found.descriptors_read().len() as u64;
            let cycles = reads * u64::from(self.timing.walk_read_cycles);
            self.write_buffer.give_way(wait, wait + cycles);
            self.charge(cause, cycles);
        }
        self.observe(bus, |observer, core, bus| observer.walked(core, bus, &found, address));
        found
    }

    /// A walk that begins behind what the walk cache has; otherwise that keeps what it reads.
    fn walk_from_kept(&mut self, bus: &Bus<C>, address: u32) -> Walk {
        let asid = self.mmu.asid();
        let kept = self.walk_cache.as_mut().and_then(|cache| cache.lookup(address, asid));
        let mut first = kept;
        let found = self.mmu.walk(address, |at| match first.take() {
            Some((_, value)) => value,
            None => self.table_word(bus, address, at),
        });
        match kept {
            Some(link) => {
                self.statistics.counters.walk_cache_hits += 1;
                found.with_kept_first(link)
            }
            None => {
                self.keep_link(address, &found);
                found
            }
        }
    }

    /// The translation of an address by the TLBs of a side, walking if need be.
    ///
    /// # Errors
    /// The tables have none.
    pub fn translation(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        side: Side,
    ) -> Result<Translation, Fault> {
        let asid = self.mmu.asid();
        if let Some(micro) = &mut self.micro_tlbs {
            if let Some(entry) = micro[side as usize].lookup(address, asid) {
                return Ok(entry.payload);
            }
            let cycles = self.micro_tlb_refill_cycles.into();
            self.clock.charge(Cause::MicroTlb, cycles);
            self.statistics.counters.micro_tlb_misses += 1;
        }
        self.advance_tlb_transfer(bus);
        let translation = match self.tlb_mut(side).lookup(address, asid) {
            Some(entry) => entry.payload,
            None => {
                let found = self.walk_tables(bus, address, side).result;
                let translation = found.map_err(|status| Fault::new(address, status))?;
                self.enter(address, asid, translation, side);
                translation
            }
        };
        if let Some(micro) = &mut self.micro_tlbs {
            let left = micro[side as usize].insert(entry_of(address, asid, translation));
            self.invalidate_fast_path_at(left, side);
        }
        Ok(translation)
    }

    /// The entry that serves an address on a side, for who only looks.
    pub fn peek_entry(&self, address: u32, side: Side) -> Option<&Entry> {
        let asid = self.mmu.asid();
        let micro = self.micro_tlbs.as_ref();
        let held = micro.and_then(|micro| micro[side as usize].peek(address, asid));
        held.or_else(|| self.tlb(side).peek(address, asid))
    }

    /// The entries of the micro TLBs, by [`Side`]; without any, none.
    pub fn micro_entries(&self, side: Side) -> impl Iterator<Item = &Entry> {
        self.micro_tlbs.iter().flat_map(move |micro| micro[side as usize].entries())
    }

    /// The fast path of a side has a page at this place because of the entry that was used last.
    pub(crate) fn note_page(&mut self, place: usize, side: Side) {
        if let Some(micro) = &mut self.micro_tlbs {
            micro[side as usize].note_page(place);
        }
    }

    /// The main TLB is maintained: the walk cache goes, what another core's TLB has sent, and the
    /// micro TLBs. Returns whether there are any of these, so that the fast path has forgotten all
    /// pages.
    pub(crate) fn begin_tlb_maintenance(&mut self) -> bool {
        if let Some(cache) = &mut self.walk_cache {
            cache.invalidate_all();
        }
        self.repeat_tlb_transfer();
        self.empty_micro_tlbs()
    }

    /// Empties the micro TLBs. Returns whether there are any.
    pub(crate) fn empty_micro_tlbs(&mut self) -> bool {
        let Some(micro) = &mut self.micro_tlbs else { return false };
        for side in micro {
            side.invalidate_all();
        }
        self.renew_pages();
        true
    }

    /// A mark for the ages of the data TLB's entries. What is in front of it forgets all pages, so
    /// that the next use of each is seen.
    pub fn mark_tlb_age(&mut self) {
        self.tlb_mut(Side::Data).mark_age();
        if !self.empty_micro_tlbs() {
            self.renew_pages();
        }
    }

    /// A register will be written that the entries of micro TLBs depend on.
    pub fn change_micro_tlb_registers(&mut self) {
        if self.register_writes_empty_micro_tlbs {
            self.empty_micro_tlbs();
        }
    }

    /// A translation enters a TLB, and the fast path forgets what leaves it.
    pub(crate) fn enter(&mut self, address: u32, asid: u16, translation: Translation, side: Side) {
        let left = self.tlb_mut(side).insert(address, asid, translation);
        // A micro TLB may have it still.
        if let (Some(left), None) = (left, &self.micro_tlbs) {
            self.invalidate_fast_path_of(left.virtual_address as u32, left.page_shift);
        }
    }

    /// Physical address and memory type for a data access, or why not.
    #[inline]
    pub(crate) fn translate_data(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        write: bool,
    ) -> Result<(u32, MemoryType), Fault> {
        if !self.mmu.is_on() {
            return Ok((address, self.mmu.untranslated_type(Side::Data)));
        }
        let index = (address >> 12) as usize % PAGES;
        let page = &self.pages[index];
        let tag = address & !0xfff | self.context;
        if tag == if write { page.write_tag } else { page.read_tag } {
            return Ok((page.physical | address & 0xfff, page.memory_type));
        }
        let translation = self.translation(bus, address, Side::Data)?;
        let refused = |write| self.refusal(&translation, address, write);
        if let Some(status) = refused(write) {
            return Err(Fault::new(address, status));
        }
        let memory_type = self.mmu.effective_type(translation.memory_type, Side::Data);
        let physical = translation.physical_of(address);
        if self.mmu.is_uniform(&translation) {
            let read_tag = if refused(false).is_none() { tag } else { NO_PAGE };
            let write_tag = if refused(true).is_none() { tag } else { NO_PAGE };
            // While somebody looks, the tags that skip the slow path stay empty.
            let cached = memory_type.is_cached() && !self.watched;
            let written_back = cached && memory_type.is_write_back();
            self.pages[index] = Page {
                load_tag: if cached { read_tag } else { NO_PAGE },
                store_tag: if written_back { write_tag } else { NO_PAGE },
                read_tag,
                write_tag,
                physical: physical & !0xfff,
                memory_type,
            };
            self.note_page(index, Side::Data);
        }
        Ok((physical, memory_type))
    }
}
