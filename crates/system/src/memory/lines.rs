//! The lines of the data caches: where they are found, how they come and go.

use mmulab_hardware::coherence::Request;
use mmulab_hardware::{HeldLine, Line};

use super::CoreMemory;
use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::{CacheAddress, Core, MemoryType, Side};
use crate::observer::Observer;

impl<C: Core> CoreMemory<C> {
    #[inline(always)]
    pub(super) fn by(kind: CacheAddress, address: u32, physical: u32) -> u32 {
        match kind {
            CacheAddress::Virtual => address,
            CacheAddress::Physical => physical,
        }
    }

    /// The slot that holds the line of an address.
    #[inline(always)]
    pub(crate) fn line_of(&mut self, address: u32, physical: u32) -> Option<usize> {
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        let found = self.dcache.find(address, index, tag);
        let line = C::DataLine::base(physical);
        let is_unused = || self.prefetcher.as_ref().is_some_and(|one| one.has_unused(line));
        if let Some(slot) = found
            && (self.fill_ends_at(physical).is_some()
                || self.store_buffer.awaits(line)
                || is_unused())
        {
            // Whoever uses it first has to wait for it, or carries a stream on, on the slow path.
            self.dcache.discard_hints(slot);
        }
        found
    }

    /// The slot of the line that serves an address which translates to `physical`, for who only
    /// looks.
    pub(crate) fn slot_held_for(&self, address: u32, physical: u32) -> Option<usize> {
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        self.dcache.hinted(address, tag).or_else(|| self.dcache.peek(index, tag))
    }

    /// Empties a slot without writing it back.
    pub(crate) fn discard_line(&mut self, bus: &mut Bus<C>, slot: usize) {
        self.observe_discard(bus, slot);
        self.dcache.invalidate(slot);
    }

    /// Empties the data caches without writing anything back.
    pub(crate) fn discard_all_lines(&mut self, bus: &mut Bus<C>) {
        if bus.is_observed() {
            for slot in 0..self.dcache.slots() {
                self.observe_discard(bus, slot);
            }
        }
        self.dcache.invalidate_all();
    }

    fn observe_discard(&mut self, bus: &mut Bus<C>, slot: usize) {
        if self.dcache.dirty(slot) == 0 {
            return;
        }
        self.observe(bus, |observer, core, bus| {
            if let Some(line) = core.dcache.held(slot) {
                observer.discarding(core, bus, &line);
            }
        });
    }

    pub(crate) fn count_write_back(&mut self, bus: &Bus<C>, line: &HeldLine<C::DataLine>) {
        let counters = &mut self.statistics.counters;
        counters.write_backs += u64::from(line.dirty.count_ones());
        counters.lines_written_back += u64::from(line.dirty != 0);
        counters.level_2_accesses += u64::from(line.dirty != 0 && bus.level_2.is_some());
    }

    /// Sends the dirty halves of a line towards memory; waits for room.
    pub(crate) fn write_back(
        &mut self,
        bus: &mut Bus<C>,
        line: &HeldLine<C::DataLine>,
        cause: Cause,
    ) {
        self.observe(bus, |observer, core, bus| observer.writing_back(core, bus, line));
        self.count_write_back(bus, line);
        if bus.region(line.physical) != Region::Ram {
            return;
        }
        if C::COHERENT {
            return bus.write_below(line);
        }
        let words = line.dirty.count_ones() * (C::DataLine::WORDS as u32 / 2);
        let mut now = self.now();
        self.write_buffer.retire(now, &mut bus.ram);
        loop {
            let room_at = self.write_buffer.room_for_line(now, words);
            if room_at <= now {
                break;
            }
            self.clock.charge_until(cause, room_at);
            now = self.now();
            self.write_buffer.retire(now, &mut bus.ram);
        }
        self.write_buffer.push_line(now, line.physical, &line.words, line.dirty);
    }

    /// Cleans a slot; what it held stays.
    pub(crate) fn clean_slot(&mut self, bus: &mut Bus<C>, slot: usize, cause: Cause) {
        if let Some(line) = self.dcache.held(slot)
            && line.dirty != 0
        {
            self.dcache.clean(slot);
            self.write_back(bus, &line, cause);
        }
    }

    /// Waits until memory is free for a read of the line at `physical`, then spends the read's
    /// time.
    pub(crate) fn occupy_memory(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        cycles: u32,
        cause: Cause,
    ) {
        if !self.write_buffer.is_empty() {
            // A read of what is still in the buffer waits for it: the buffers are coherent with the
            // core's own reads.
            let stored_at = self.write_buffer.line_ready_at(self.now(), physical);
            let free_at = self.write_buffer.transfer_ends_at(self.clock.time_beside());
            let wait = stored_at.max(free_at);
            self.clock.charge_until(Cause::WriteBuffer, wait);
            self.write_buffer.retire(stored_at.max(self.now()), &mut bus.ram);
            self.write_buffer.give_way(wait, wait + u64::from(cycles));
        }
        self.clock.charge_until(cause, self.read_buffer.memory_free_at);
        self.charge(cause, cycles);
    }

    /// Reads the line at `physical` from memory, by way of the second level where there is one,
    /// which takes it only if asked to.
    pub(crate) fn read_line<L: Line>(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        into_level_2: bool,
        cause: Cause,
    ) -> L {
        let line = L::base(physical);
        match bus.region(physical) {
            Region::Zero => {
                // Reading it is how the SA-1100 cleans its data cache.
                let since = self.now();
                self.charge(cause, self.timing.zero_bank_fill_cycles);
                self.statistics.line_operation(since, self.clock.now());
                return L::ZERO;
            }
            Region::Ram => {}
            _ => {
                self.charge(cause, self.timing.line_fill_cycles);
                let mut words = L::ZERO;
                for word in 0..L::WORDS {
                    words[word] = bus.board.read(line + word as u32 * 4, self.pc);
                }
                return words;
            }
        }
        if C::COHERENT {
            return self.read_below(bus, line, into_level_2, cause);
        }
        self.occupy_memory(bus, line, self.timing.line_fill_cycles, cause);
        bus.ram.line(line)
    }

    /// Brings the line of `address` into the data cache; returns its slot.
    pub(crate) fn fill(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        physical: u32,
        memory_type: MemoryType,
        cause: Cause,
    ) -> usize {
        self.await_fill_place();
        self.statistics.counters.dcache_misses += 1;
        if C::COHERENT && bus.region(physical) == Region::Ram {
            let unique = cause == Cause::WriteAllocate;
            let request = if unique { Request::Unique } else { Request::Read };
            return self.fill_coherent(bus, physical, request, cause);
        }
        let index = Self::by(C::DATA_INDEX, address, physical);
        let tag = Self::by(C::DATA_TAG, address, physical);
        let (slot, leaving) = self.dcache.allocate(memory_type.is_in_mini(), index, tag);
        // The new line is wanted first; the dirty one that leaves waits in a buffer.
        let words = self.read_line(bus, physical, false, cause);
        if let Some(leaving) = leaving
            && leaving.dirty != 0
        {
            self.write_back(bus, &leaving, Cause::WriteBuffer);
        }
        // A line that comes in while its own older self leaves (another alias) reads memory, which
        // is what the hardware does too.
        self.dcache.fill(slot, address, tag, physical, words);
        self.observe(bus, |observer, core, _| observer.filled(core, Side::Data, slot));
        slot
    }
}
