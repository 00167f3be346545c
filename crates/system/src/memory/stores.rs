//! Stores, by the data caches or past them, and reads into the read buffer that software controls.

use super::{CoreMemory, PAGES};
use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::{Core, Fault, Mmu};
use crate::observer::{Access, Observer, Store};
use crate::read_buffer::Fetched;

impl<C: Core> CoreMemory<C> {
    /// The slot that can take a store at once.
    #[inline(always)]
    fn fast_store(&self, address: u32, alignment: u32) -> Option<usize> {
        let page = &self.pages[(address >> 12) as usize % PAGES];
        if page.store_tag != address & (!0xfff | alignment) | self.context {
            return None;
        }
        let slot = self.hinted(page, address)?;
        if C::COHERENT && self.dcache.is_shared(slot) {
            return None;
        }
        Some(slot)
    }

    /// Stores a word. The low two bits of the address are ignored where the MMU neither checks
    /// alignment nor reads unaligned addresses.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_word(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        if address & 3 != 0 && self.mmu.reads_unaligned() {
            return self.store_unaligned(bus, address, 4, value);
        }
        self.store_part(bus, address, 4, value, !0)
    }

    /// Stores a half-word; bit 0 of the address likewise.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_half(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        if address & 1 != 0 && self.mmu.reads_unaligned() {
            return self.store_unaligned(bus, address, 2, value);
        }
        let shift = 8 * (address & 2);
        self.store_part(bus, address, 2, (value & 0xffff) << shift, 0xffff << shift)
    }

    /// Stores a byte.
    ///
    /// # Errors
    /// The MMU refuses the access.
    #[inline(always)]
    pub fn store_byte(&mut self, bus: &mut Bus<C>, address: u32, value: u32) -> Result<(), Fault> {
        let shift = 8 * (address & 3);
        self.store_part(bus, address, 1, (value & 0xff) << shift, 0xff << shift)
    }

    #[inline(always)]
    fn store_part(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
    ) -> Result<(), Fault> {
        let relocated = self.relocated(address);
        match self.fast_store(relocated, size - 1) {
            Some(slot) => {
                self.dcache.set_word(slot, relocated, value, mask);
                self.dcache.mark_dirty(slot, relocated);
                Ok(())
            }
            None => self.store_slow(bus, address, size, value, mask, false).map(drop),
        }
    }

    /// Stores words to ascending addresses; consecutive ones share an entry of the write buffer.
    ///
    /// # Errors
    /// The MMU refuses one of the accesses.
    pub fn store_block(
        &mut self,
        bus: &mut Bus<C>,
        start: u32,
        values: &[u32],
    ) -> Result<(), Fault> {
        self.check_strict_alignment(start, 4).map_err(Fault::of_store)?;
        let mut address = start & !3;
        let mut joins = false;
        for &value in values {
            let relocated = self.relocated(address);
            if let Some(slot) = self.fast_store(relocated, 3) {
                self.dcache.set_word(slot, relocated, value, !0);
                self.dcache.mark_dirty(slot, relocated);
                joins = false;
            } else {
                joins = self.store_slow(bus, address, 4, value, !0, joins)?;
            }
            address = address.wrapping_add(4);
        }
        Ok(())
    }

    /// Whether a store would be permitted.
    ///
    /// # Errors
    /// It would be refused.
    pub fn check_store(&mut self, bus: &mut Bus<C>, address: u32, size: u32) -> Result<(), Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        let address = self.relocated(address);
        self.translate_data(bus, address, true)
            .map(drop)
            .map_err(|fault| self.observe_refusal(bus, fault.of_store(), Access::Store))
    }

    /// Stores the bytes at an address that is not a multiple of `size`, one by one as the
    /// architecture has it; nothing is stored if any byte is refused.
    #[inline(never)]
    fn store_unaligned(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
    ) -> Result<(), Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        self.check_store(bus, address, 1)?;
        // Where its last word lies in another page that is refused, the fault names that page's
        // first byte.
        self.check_store(bus, address.wrapping_add(size - 1) & !3, 1)?;
        let before = self.statistics.counters.data_accesses;
        for byte in 0..size {
            self.store_byte(bus, address.wrapping_add(byte), value >> (8 * byte))?;
        }
        self.count_as_one_access(before, address, size);
        Ok(())
    }

    /// Returns whether the store went on to memory.
    #[inline(never)]
    fn store_slow(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
        mask: u32,
        joins: bool,
    ) -> Result<bool, Fault> {
        self.check_alignment(address, size).map_err(Fault::of_store)?;
        let address = self.relocated(address);
        if self.store_known(bus, address, value, mask) {
            self.statistics.counters.data_accesses += 1;
            return Ok(false);
        }
        self.observe_access(bus, address, size, Access::Store);
        let (physical, memory_type) = self
            .translate_data(bus, address, true)
            .map_err(|fault| self.observe_refusal(bus, fault.of_store(), Access::Store))?;
        let cached = memory_type.is_cached();
        self.statistics.counters.data_accesses += u64::from(cached);
        let asid = self.mmu.asid();
        let store = Store { pc: self.pc, address, asid, physical, cached, value, mask };
        if C::COHERENT && cached {
            self.store_coherent(bus, &store, memory_type);
            return Ok(false);
        }
        self.observe(bus, |observer, core, bus| observer.storing(core, bus, &store));
        if cached {
            let mut slot = self.line_of(address, physical);
            if slot.is_none() && memory_type.allocates_on_write() {
                let cause = Cause::WriteAllocate;
                slot = Some(self.fill(bus, address, physical, memory_type, cause));
            }
            if let Some(slot) = slot {
                self.dcache.set_word(slot, address, value, mask);
                if memory_type.is_write_back() {
                    self.dcache.mark_dirty(slot, address);
                    return Ok(false);
                }
            }
        }
        self.write_memory(bus, physical, value, mask, memory_type.is_buffered(), joins);
        Ok(true)
    }

    fn write_memory(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        value: u32,
        mask: u32,
        buffered: bool,
        joins: bool,
    ) {
        match bus.region(physical) {
            Region::Ram => {
                let mut now = self.now();
                self.write_buffer.retire(now, &mut bus.ram);
                loop {
                    let room_at = self.write_buffer.room_for_store(now, physical, joins);
                    if room_at <= now {
                        break;
                    }
                    self.clock.charge_until(Cause::WriteBuffer, room_at);
                    now = self.now();
                    self.write_buffer.retire(now, &mut bus.ram);
                }
                self.write_buffer.push_store(now, physical, value, mask, joins);
                if C::COHERENT {
                    bus.clear_monitors(physical);
                }
                if !buffered {
                    self.drain(bus, Cause::Uncached);
                }
            }
            Region::Instrumentation => {
                bus.board.instrumentation.write(physical, value, self.now(), self.number);
                self.request_exit();
            }
            Region::Zero => {}
            Region::Device => {
                self.drain(bus, Cause::WriteBuffer);
                self.charge(Cause::Uncached, self.timing.write_first_cycles);
                bus.board.now = self.now();
                bus.board.core = self.number;
                bus.board.write(physical, value, mask, self.pc);
                self.request_exit();
            }
        }
    }

    // ---- The read buffer ----------------------------------------------------------------------

    /// Fetches words ahead into an entry of the read buffer. An address that the MMU refuses, or
    /// where no memory is, leaves the entry as it was: a guess.
    pub fn read_ahead(&mut self, bus: &mut Bus<C>, entry: usize, count: u32, address: u32) {
        let address = self.relocated(address);
        let Ok((physical, _)) = self.translate_data(bus, address, false) else { return };
        if bus.region(physical) != Region::Ram {
            return;
        }
        let timing = &self.timing;
        let cycles =
            u64::from(if count == 1 { timing.word_read_cycles } else { timing.line_fill_cycles });
        // What was stored to the line goes first; then the core continues while memory reads.
        let stored_at = self.write_buffer.line_ready_at(self.now(), physical);
        self.clock.charge_until(Cause::WriteBuffer, stored_at);
        let now = self.now();
        self.write_buffer.retire(now, &mut bus.ram);
        let free_at = self.read_buffer.memory_free_at.max(self.write_buffer.transfer_ends_at(now));
        let words = bus.ram.line(physical);
        let starts_at = free_at.max(now);
        let ready_at = starts_at + cycles;
        self.write_buffer.give_way(starts_at, ready_at);
        self.read_buffer.fill(entry, &Fetched { address, count, words, ready_at });
    }
}
