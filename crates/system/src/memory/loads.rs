//! Loads: what they hit, and the way of those that hit nothing.

use mmulab_hardware::Line;

use super::{CoreMemory, PAGES, Page};
use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::{Core, Fault, MemoryType, Mmu};
use crate::observer::{Access, Load, Observer, Source};

impl<C: Core> CoreMemory<C> {
    /// The slot that can serve an access at once.
    #[inline(always)]
    pub(super) fn hinted(&self, page: &Page, address: u32) -> Option<usize> {
        let physical = page.physical | address & 0xfff;
        self.dcache.hinted(address, Self::by(C::DATA_TAG, address, physical))
    }

    /// The slot that the hint for an address leads to.
    pub(crate) fn hinted_slot(&self, address: u32, physical: u32) -> Option<usize> {
        self.dcache.hinted(address, Self::by(C::DATA_TAG, address, physical))
    }

    /// Physical address, slot and memory type of an access that the present mode may do and that
    /// hits the data cache, as far as the fast path's copies say.
    #[inline(always)]
    pub(crate) fn known_hit(
        &self,
        address: u32,
        access: Access,
    ) -> Option<(u32, usize, MemoryType)> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        let tag = if access == Access::Store { page.write_tag } else { page.read_tag };
        if tag != address & !0xfff | self.context || !page.memory_type.is_cached() {
            return None;
        }
        let slot = self.hinted(page, address)?;
        if C::COHERENT && access == Access::Store && self.dcache.is_shared(slot) {
            return None;
        }
        Some((page.physical | address & 0xfff, slot, page.memory_type))
    }

    #[inline(always)]
    fn fast_load(&self, address: u32, alignment: u32) -> Option<u32> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        // The low two bits of a tag are zero, so an unaligned address does not match.
        if page.load_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        Some(self.dcache.word(self.hinted(page, address)?, address))
    }

    /// Loads a word for some registers, a bit each, which may be late if it misses
    /// ([`crate::line_fills`]); for none of them the core waits. From an address that is not
    /// aligned it is the aligned word, rotated (as ARM DDI 0100, A4.1.23, has it), where the MMU
    /// neither checks alignment nor reads unaligned addresses.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_word_for(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        registers: u16,
    ) -> Result<u32, Fault> {
        match self.fast_load(self.relocated(address), 3) {
            Some(word) => Ok(word),
            None if address & 3 != 0 && self.mmu.reads_unaligned() => {
                self.load_unaligned(bus, address, 4, registers)
            }
            None => {
                let word = self.load_slow(bus, address, 4, registers)?;
                Ok(word.rotate_right(8 * (address & 3)))
            }
        }
    }

    /// Loads a half-word, likewise; bit 0 of the address is ignored where a word is rotated.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_half_for(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        registers: u16,
    ) -> Result<u32, Fault> {
        let word = match self.fast_load(self.relocated(address), 1) {
            Some(word) => word,
            None if address & 1 != 0 && self.mmu.reads_unaligned() => {
                return self.load_unaligned(bus, address, 2, registers);
            }
            None => self.load_slow(bus, address, 2, registers)?,
        };
        Ok(word >> (8 * (address & 2)) & 0xffff)
    }

    /// Loads a byte, likewise.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_byte_for(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        registers: u16,
    ) -> Result<u32, Fault> {
        let word = match self.fast_load(self.relocated(address), 0) {
            Some(word) => word,
            None => self.load_slow(bus, address, 1, registers)?,
        };
        Ok(word >> (8 * (address & 3)) & 0xff)
    }

    /// [`CoreMemory::load_word_for`] that waits for the word.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_word(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        self.load_word_for(bus, address, 0)
    }

    /// [`CoreMemory::load_half_for`] that waits for the half-word.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_half(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        self.load_half_for(bus, address, 0)
    }

    /// [`CoreMemory::load_byte_for`] that waits for the byte.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn load_byte(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        self.load_byte_for(bus, address, 0)
    }

    /// Refuses an address that is not a multiple of `size`, where that is checked.
    ///
    /// # Errors
    /// It is refused.
    pub fn check_alignment(&self, address: u32, size: u32) -> Result<(), Fault> {
        if address & (size - 1) != 0 && self.mmu.checks_alignment() {
            let address = self.relocated(address);
            return Err(Fault::new(address, C::Mmu::ALIGNMENT_FAULT));
        }
        Ok(())
    }

    /// Refuses an address of several words, or of an exclusive access, that is not a multiple of
    /// `size`.
    ///
    /// # Errors
    /// It is refused.
    pub fn check_strict_alignment(&self, address: u32, size: u32) -> Result<(), Fault> {
        if address & (size - 1) != 0 && self.mmu.reads_unaligned() {
            let address = self.relocated(address);
            return Err(Fault::new(address, C::Mmu::ALIGNMENT_FAULT));
        }
        self.check_alignment(address, size)
    }

    /// The bytes at an address that is not a multiple of `size`, one by one as the architecture has
    /// it.
    #[inline(never)]
    fn load_unaligned(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        registers: u16,
    ) -> Result<u32, Fault> {
        self.check_alignment(address, size)?;
        let mut value = 0;
        let before = self.statistics.counters.data_accesses;
        for byte in 0..size {
            value |= self.load_byte_for(bus, address.wrapping_add(byte), registers)? << (8 * byte);
        }
        self.count_as_one_access(before, address, size);
        Ok(value)
    }

    /// An access that was done byte by byte is one of the data cache, or one of each of two lines.
    pub(super) fn count_as_one_access(&mut self, before: u64, address: u32, size: u32) {
        let last = address.wrapping_add(size - 1);
        let lines = if C::DataLine::base(address) == C::DataLine::base(last) { 1 } else { 2 };
        let counted = &mut self.statistics.counters.data_accesses;
        *counted = (*counted).min(before + lines);
    }

    pub(super) fn observe_refusal(
        &mut self,
        bus: &mut Bus<C>,
        fault: Fault,
        access: Access,
    ) -> Fault {
        self.observe(bus, |observer, core, bus| {
            observer.refused(core, bus, access, fault.address);
        });
        fault
    }

    /// The aligned word around an address.
    #[inline(never)]
    fn load_slow(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        registers: u16,
    ) -> Result<u32, Fault> {
        self.check_alignment(address, size)?;
        let address = self.relocated(address);
        if let Some(word) = self.load_known(bus, address) {
            self.statistics.counters.data_accesses += 1;
            return Ok(word);
        }
        self.observe_access(bus, address, size, Access::Load);
        let (physical, memory_type) = self
            .translate_data(bus, address, false)
            .map_err(|fault| self.observe_refusal(bus, fault, Access::Load))?;
        let cached = memory_type.is_cached();
        self.statistics.counters.data_accesses += u64::from(cached);
        self.await_stores_to(bus, physical);
        let may_be_late = C::OVERLAPS_MISSES && registers != 0;
        match self.fill_ends_at(physical) {
            Some(ends_at) if may_be_late => self.deliver_late(registers, ends_at),
            Some(ends_at) => self.clock.charge_until(Cause::DataMiss, ends_at),
            None => {}
        }
        let slot = if cached { self.line_of(address, physical) } else { None };
        let ahead = if slot.is_none() { self.read_buffer.find(address) } else { None };
        let (word, source) = match (slot, ahead) {
            (Some(slot), _) => (self.dcache.word(slot, address), Source::DataCache),
            (None, Some((word, ready_at))) => {
                self.clock.charge_until(Cause::DataMiss, ready_at);
                (word, Source::ReadBuffer)
            }
            (None, None) if cached && memory_type.fills() && may_be_late => {
                let (slot, ends_at) =
                    self.fill_beside(bus, address, physical, memory_type, Cause::DataMiss);
                if ends_at > self.now() {
                    self.deliver_late(registers, ends_at);
                }
                (self.dcache.word(slot, address), Source::DataCache)
            }
            (None, None) if cached && memory_type.fills() => {
                let slot = self.fill(bus, address, physical, memory_type, Cause::DataMiss);
                (self.dcache.word(slot, address), Source::DataCache)
            }
            (None, None) => (self.read_uncached(bus, physical), Source::Memory),
        };
        let load = Load { address, physical, source, size, word };
        self.observe(bus, |observer, core, bus| observer.loaded(core, bus, &load));
        if C::COHERENT && cached {
            self.tell_prefetcher(bus, physical, slot.is_none());
        }
        Ok(word)
    }

    pub(crate) fn read_uncached(&mut self, bus: &mut Bus<C>, physical: u32) -> u32 {
        match bus.region(physical) {
            Region::Ram => {
                let cycles = self.timing.word_read_cycles;
                self.occupy_memory(bus, physical, cycles, Cause::Uncached);
                bus.ram.word(physical)
            }
            Region::Instrumentation => bus.read_instrumentation(self, physical),
            Region::Zero => 0,
            Region::Device => {
                self.drain(bus, Cause::WriteBuffer);
                self.charge(Cause::Uncached, self.timing.word_read_cycles);
                bus.board.now = self.now();
                bus.board.core = self.number;
                let word = bus.board.read(physical & !3, self.pc);
                self.request_exit();
                word
            }
        }
    }

    /// Waits until everything that was stored is in memory.
    pub(crate) fn drain(&mut self, bus: &mut Bus<C>, cause: Cause) {
        if !self.write_buffer.is_empty() {
            let done = self.write_buffer.empty_at(self.now());
            self.clock.charge_until(cause, done);
            self.write_buffer.retire(done, &mut bus.ram);
        }
    }

    /// Loads words from ascending addresses into the places of `loaded` that `list` has a bit for,
    /// and with `may_be_late` for the registers of the same numbers.
    ///
    /// # Errors
    /// The MMU refuses one of the accesses.
    pub fn load_block(
        &mut self,
        bus: &mut Bus<C>,
        start: u32,
        list: u32,
        loaded: &mut [u32; 16],
        may_be_late: bool,
    ) -> Result<(), Fault> {
        self.check_strict_alignment(start, 4)?;
        let mut address = start & !3;
        let mut rest = list;
        while rest != 0 {
            let number = rest.trailing_zeros() as usize & 15;
            rest &= rest - 1;
            loaded[number] = match self.fast_load(self.relocated(address), 3) {
                Some(word) => word,
                None => self.load_slow(bus, address, 4, u16::from(may_be_late) << number)?,
            };
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// Brings the line of an address into the data cache ahead of its use. A fault is ignored.
    pub fn preload(&mut self, bus: &mut Bus<C>, address: u32) {
        let address = self.relocated(address);
        let Ok((physical, memory_type)) = self.translate_data(bus, address, false) else { return };
        if memory_type.is_cached() && self.line_of(address, physical).is_none() {
            self.fill_beside(bus, address, physical, memory_type, Cause::DataMiss);
        }
    }
}
