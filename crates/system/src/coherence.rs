//! Coherent data caches: the lines of all cores, the shared second level below them, and the
//! monitors of exclusive accesses.
//!
//! A core whose [`Core::COHERENT`] is set keeps its data cache, which is indexed and tagged with
//! physical addresses, coherent with its peers' by the protocol of [`mmulab_hardware::coherence`].
//! A request goes to the peers' caches, then to the second level, then to memory. Stores to lines
//! that are not the only copy, and stores that miss, make them so first. What leaves a first level
//! goes into the second at once; buffers hide its time. Instruction caches are not kept coherent:
//! they read the second level, which is the point of unification.

use mmulab_hardware::coherence::{Request, State};
use mmulab_hardware::{DataCache, HeldLine, Line};

use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::{Core, Fault, MemoryType, Mmu, Side};
use crate::maintenance::{LineOperation, Maintenance};
use crate::memory::CoreMemory;
use crate::observer::Observer;

/// How far an operation on a line by address goes (ARM DDI 0406C, B2.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Where the instruction caches, data caches and table walks of all cores see the same: below
    /// the first level.
    Unification,
    /// Where all that access memory see the same: memory.
    Coherency,
}

/// What the peers gave for a request.
struct Answer<L> {
    words: Option<L>,
    shared: bool,
    dirty: u8,
}

impl<C: Core> Bus<C> {
    /// The cache that the cores share behind their own, if there is one.
    pub fn second_level_cache(&self) -> Option<&mmulab_hardware::Cache> {
        self.level_2.as_ref().map(|level_2| level_2.first())
    }

    /// A word of the second level, for who only looks.
    fn level_2_word(&self, physical: u32) -> Option<u32> {
        let level_2 = self.level_2.as_ref()?;
        Some(level_2.word(level_2.peek(physical, physical)?, physical))
    }

    /// A word as it is below the first level, for who only looks.
    pub(crate) fn word_below(&self, physical: u32) -> Option<u32> {
        self.level_2_word(physical).or_else(|| self.ram.get(physical))
    }

    /// Puts the dirty halves of a line into RAM.
    fn write_ram(&mut self, line: &HeldLine<C::DataLine>) {
        for (offset, &word) in line.words.as_ref().iter().enumerate() {
            if line.dirty & C::DataLine::half_of_word(offset) != 0
                && let Some(place) = self.ram.get_mut(line.physical + 4 * offset as u32)
            {
                *place = word;
            }
        }
    }

    /// Puts a line that leaves a first level into the second, or its dirty halves into RAM.
    pub(crate) fn write_below(&mut self, line: &HeldLine<C::DataLine>) {
        let Some(level_2) = &mut self.level_2 else { return self.write_ram(line) };
        let physical = line.physical;
        let (slot, leaving) = match level_2.find(physical, physical, physical) {
            Some(slot) => {
                level_2.touch(slot);
                (slot, None)
            }
            None => {
                let (slot, leaving) = level_2.allocate(false, physical, physical);
                level_2.fill(slot, physical, physical, physical, line.words);
                (slot, leaving)
            }
        };
        for (offset, &word) in line.words.as_ref().iter().enumerate() {
            if line.dirty & C::DataLine::half_of_word(offset) != 0 {
                level_2.set_word(slot, physical + 4 * offset as u32, word, !0);
            }
        }
        level_2.set_shared(slot, false, line.dirty);
        if let Some(leaving) = leaving {
            self.write_ram(&leaving);
        }
    }

    /// Something was stored to memory past the caches: exclusive accesses of the other cores fail.
    pub(crate) fn clear_monitors(&mut self, physical: u32) {
        for peer in self.cores.iter_mut().flatten() {
            let memory = peer.memory_mut();
            memory.monitor = memory.monitor.filter(|&line| line != C::DataLine::base(physical));
        }
    }

    /// Cleans or invalidates a slot of the second level.
    fn operate_on_level_2(&mut self, slot: usize, operation: LineOperation) {
        let Some(level_2) = &mut self.level_2 else { return };
        let Some(line) = level_2.held(slot) else { return };
        if operation != LineOperation::Clean {
            level_2.invalidate(slot);
        } else {
            level_2.clean(slot);
        }
        if operation != LineOperation::Invalidate {
            self.write_ram(&line);
        }
    }

    /// Checks that of each line there is one writer and one owner, that all copies are the same,
    /// and that those are what is below where none is dirty.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_coherence(&self) -> Result<(), String> {
        let copies = || {
            self.peers().flat_map(|core| {
                let lines = core.dcache.lines();
                lines.map(move |(slot, line)| (core.number, core.dcache.state(slot), line))
            })
        };
        for (core, state, line) in copies() {
            let mut dirty = state.is_dirty();
            for (other, other_state, copy) in copies() {
                if other == core || copy.physical != line.physical {
                    continue;
                }
                dirty |= other_state.is_dirty();
                if !state.may_stand_beside(other_state)
                    || copy.words.as_ref() != line.words.as_ref()
                {
                    return Err(format!(
                        "line {:#x}: {state:?} on core {core}, {other_state:?} on core {other}",
                        line.physical
                    ));
                }
            }
            let below = |offset| self.word_below(line.physical + 4 * offset as u32);
            let same = |(offset, &word)| below(offset) == Some(word);
            if !dirty && !line.words.as_ref().iter().enumerate().all(same) {
                return Err(format!("line {:#x}: clean, but memory differs", line.physical));
            }
        }
        Ok(())
    }
}

impl<C: Core> CoreMemory<C> {
    /// Answers another core's request for a line: what is in the cache, and the monitor, change.
    fn snoop(&mut self, line: u32, request: Request, answer: &mut Answer<C::DataLine>) {
        // A line that is watched counts as a copy, so that the other has to ask before it stores.
        let watched = self.monitor == Some(line);
        answer.shared |= watched;
        if request == Request::Unique && watched {
            self.monitor = None;
        }
        let Some(slot) = self.dcache.peek(line, line) else { return };
        let snoop = self.dcache.state(slot).snooped(request);
        if snoop.supplies {
            answer.words = Some(*self.dcache.words(slot));
        }
        if snoop.passes_dirty {
            answer.dirty |= self.dcache.dirty(slot);
        }
        if snoop.next == State::Invalid {
            self.dcache.invalidate(slot);
        } else {
            self.dcache.set_shared(slot, true, 0);
            answer.shared = true;
        }
    }

    fn ask_peers(&mut self, bus: &mut Bus<C>, line: u32, request: Request) -> Answer<C::DataLine> {
        let mut answer = Answer { words: None, shared: false, dirty: 0 };
        for peer in bus.cores.iter_mut().flatten() {
            peer.memory_mut().snoop(line, request, &mut answer);
        }
        answer
    }

    /// Reads part of a line below the first level: from the second level, or from memory, and then,
    /// with `allocate`, into the second level.
    pub(crate) fn read_below<L: Line>(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        allocate: bool,
        cause: Cause,
    ) -> L {
        let part = |words: &C::DataLine| {
            let first = C::DataLine::word(L::base(physical));
            L::from_words(&words.as_ref()[first..first + L::WORDS])
        };
        if let Some(level_2) = &mut bus.level_2 {
            self.clock.charge(cause, self.level_2_cycles.into());
            self.statistics.counters.level_2_accesses += 1;
            if let Some(slot) = level_2.find(physical, physical, physical) {
                level_2.touch(slot);
                return part(level_2.words(slot));
            }
        }
        self.statistics.counters.level_2_misses += 1;
        self.occupy_memory(bus, physical, self.timing.line_fill_cycles, cause);
        let line = C::DataLine::base(physical);
        let words: C::DataLine = bus.ram.line(line);
        if allocate && bus.level_2.is_some() {
            bus.write_below(&HeldLine { tag: line, physical: line, dirty: 0, words });
        }
        part(&words)
    }

    /// Brings a line of RAM into the data cache as a copy, or as the only one; returns its slot.
    pub(crate) fn fill_coherent(
        &mut self,
        bus: &mut Bus<C>,
        physical: u32,
        request: Request,
        cause: Cause,
    ) -> usize {
        let line = C::DataLine::base(physical);
        self.perform_due_stores(bus);
        let (slot, leaving) = self.dcache.allocate(false, line, line);
        if let Some(leaving) = leaving {
            self.leave(bus, &leaving);
        }
        let answer = self.ask_peers(bus, line, request);
        let words = match answer.words {
            Some(words) => {
                self.charge(cause, self.coherence.transfer_cycles);
                words
            }
            None => self.read_below(bus, line, false, cause),
        };
        self.dcache.fill(slot, line, line, line, words);
        self.dcache.set_shared(slot, answer.shared && request == Request::Read, answer.dirty);
        self.observe(bus, |observer, core, _| observer.filled(core, Side::Data, slot));
        slot
    }

    /// A line leaves the first level.
    fn leave(&mut self, bus: &mut Bus<C>, line: &HeldLine<C::DataLine>) {
        if line.dirty != 0 {
            self.observe(bus, |observer, core, bus| observer.writing_back(core, bus, line));
            self.count_write_back(bus, line);
        }
        bus.write_below(line);
    }

    /// Makes the line in a slot the only copy, before a store.
    pub(crate) fn make_unique(&mut self, bus: &mut Bus<C>, slot: usize, cause: Cause) {
        if self.dcache.is_shared(slot) {
            let answer = self.ask_peers(bus, self.dcache.physical(slot), Request::Unique);
            self.dcache.set_shared(slot, false, answer.dirty);
            self.charge(cause, self.coherence.upgrade_cycles);
        }
    }

    /// The word that the coherent caches hold, if any does, for who only looks.
    pub(crate) fn held_word(&self, bus: &Bus<C>, physical: u32) -> Option<u32> {
        // All copies are the same.
        let held = std::iter::once(self).chain(bus.peers()).find_map(|core| {
            let slot = core.dcache.peek(physical, physical)?;
            Some(core.dcache.word(slot, physical))
        });
        held.or_else(|| bus.level_2_word(physical))
    }

    /// The newest word that any coherent cache or memory has, for who only looks.
    pub(crate) fn coherent_word(&self, bus: &Bus<C>, physical: u32) -> u32 {
        self.held_word(bus, physical).or_else(|| bus.ram.get(physical)).unwrap_or(0)
    }

    /// A table walk reads a descriptor through the data cache.
    pub(crate) fn read_descriptor(&mut self, bus: &mut Bus<C>, physical: u32, cause: Cause) {
        if bus.region(physical) != Region::Ram {
            return;
        }
        self.charge(cause, self.coherence.walk_hit_cycles);
        if self.coherence.walks_pass_first_level {
            self.read_below::<C::DataLine>(bus, C::DataLine::base(physical), true, cause);
            return;
        }
        if self.line_of(physical, physical).is_none() {
            self.fill_coherent(bus, physical, Request::Read, cause);
        }
    }

    // ---- Maintenance ---------------------------------------------------------------------------

    /// Does an operation on this core, then on each of the others: a broadcast. Each spends its
    /// time.
    pub fn broadcast(
        &mut self,
        bus: &mut Bus<C>,
        mut operation: impl FnMut(&mut CoreMemory<C>, &mut Bus<C>),
    ) {
        operation(self, bus);
        for number in 0..bus.cores.len() {
            if let Some(mut peer) = bus.cores[number].take() {
                operation(peer.memory_mut(), bus);
                bus.cores[number] = Some(peer);
            }
        }
    }

    /// Cleans or invalidates the line of an address in the coherent caches of all cores, and with
    /// [`Point::Coherency`] in the second level.
    ///
    /// # Errors
    /// The address has no translation.
    pub fn operate_to(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        operation: LineOperation,
        point: Point,
    ) -> Result<(), Fault> {
        let since = self.now();
        self.statistics.counters.line_operations += 1;
        self.charge(Cause::DataCacheOperation, self.line_operation_cycles);
        let physical = self.physical_of(bus, address)?;
        self.announce(bus, Maintenance::Line { physical, operation, point });
        let (own, mut peers) = (self.take_copy(physical, operation), Vec::new());
        for peer in bus.cores.iter_mut().flatten() {
            peers.extend(peer.memory_mut().take_copy(physical, operation));
        }
        for line in own.into_iter().chain(peers).filter(|line| line.dirty != 0) {
            if operation == LineOperation::Invalidate {
                self.observe(bus, |observer, core, bus| observer.discarding(core, bus, &line));
            } else {
                self.leave(bus, &line);
            }
        }
        if point == Point::Coherency
            && let Some(slot) =
                bus.level_2.as_ref().and_then(|level_2| level_2.peek(physical, physical))
        {
            bus.operate_on_level_2(slot, operation);
        }
        self.statistics.line_operation(since, self.clock.now());
        Ok(())
    }

    /// Cleans or drops the copy of a line; returns what it was.
    fn take_copy(
        &mut self,
        physical: u32,
        operation: LineOperation,
    ) -> Option<HeldLine<C::DataLine>> {
        let slot = self.dcache.peek(physical, physical)?;
        let line = self.dcache.held(slot)?;
        if operation == LineOperation::Clean {
            self.dcache.clean(slot);
        } else {
            self.dcache.invalidate(slot);
        }
        Some(line)
    }

    /// Cleans or invalidates a set and way of the second level.
    pub fn operate_on_level_2_slot(
        &mut self,
        bus: &mut Bus<C>,
        index: u32,
        operation: LineOperation,
    ) {
        self.statistics.counters.line_operations += 1;
        self.charge(Cause::DataCacheOperation, self.line_operation_cycles);
        self.announce(bus, Maintenance::Slot { data: None, operation });
        let level_2 = bus.level_2.as_ref();
        let slot =
            level_2.and_then(|level_2| crate::maintenance::slot_by_index(level_2.first(), index));
        if let Some(slot) = slot {
            bus.operate_on_level_2(slot, operation);
        }
    }

    /// The physical address of a data address that no process ID relocates.
    ///
    /// # Errors
    /// The tables have no translation.
    pub fn physical_of(&mut self, bus: &mut Bus<C>, address: u32) -> Result<u32, Fault> {
        if !self.mmu.is_on() {
            return Ok(address);
        }
        Ok(self.translation(bus, address, Side::Data)?.physical_of(address))
    }

    // ---- Exclusive accesses and events ---------------------------------------------------------

    /// Loads a word and watches its line: a [`CoreMemory::store_exclusive`] succeeds until another
    /// core stores to the line.
    ///
    /// # Errors
    /// The MMU refuses the access, or the address is not aligned.
    pub fn load_exclusive(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
    ) -> Result<u32, Fault> {
        let (physical, _) = self.exclusive_target(bus, address, size, false)?;
        let value = match size {
            1 => self.load_byte(bus, address)?,
            2 => self.load_half(bus, address)?,
            _ => self.load_word(bus, address)?,
        };
        self.monitor = Some(C::DataLine::base(physical));
        Ok(value)
    }

    /// Stores if the line is still watched; whether it did.
    ///
    /// # Errors
    /// The MMU refuses the access, or the address is not aligned.
    pub fn store_exclusive(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        value: u32,
    ) -> Result<bool, Fault> {
        let (physical, memory_type) = self.exclusive_target(bus, address, size, true)?;
        let line = C::DataLine::base(physical);
        if self.monitor.take() != Some(line) {
            return Ok(false);
        }
        if memory_type.is_cached() {
            // No other core stores between the test and this store.
            self.own_line(bus, self.relocated(address), physical, memory_type);
        }
        match size {
            1 => self.store_byte(bus, address, value)?,
            2 => self.store_half(bus, address, value)?,
            _ => self.store_word(bus, address, value)?,
        }
        Ok(true)
    }

    /// A swap asks before it loads whether it may store, and waits for the line as the only copy
    /// where caches are coherent: so it loads and stores before another core does either.
    ///
    /// # Errors
    /// The store would be refused.
    pub fn begin_swap(&mut self, bus: &mut Bus<C>, address: u32, size: u32) -> Result<(), Fault> {
        self.check_store(bus, address, size)?;
        if C::COHERENT {
            let address = self.relocated(address);
            let (physical, memory_type) = self.translate_data(bus, address, true)?;
            if memory_type.is_cached() {
                self.own_line(bus, address, physical, memory_type);
            }
        }
        Ok(())
    }

    /// Watches no line any more.
    pub fn clear_exclusive(&mut self) {
        self.monitor = None;
    }

    fn exclusive_target(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        write: bool,
    ) -> Result<(u32, MemoryType), Fault> {
        let relocated = self.relocated(address);
        if address & (size - 1) != 0 {
            let fault = Fault::new(relocated, C::Mmu::ALIGNMENT_FAULT);
            return Err(if write { fault.of_store() } else { fault });
        }
        self.translate_data(bus, relocated, write)
    }

    /// Wakes the cores that wait for an event, or keeps them from waiting next time.
    pub fn send_event(&mut self, bus: &mut Bus<C>) {
        self.event = true;
        for peer in bus.cores.iter_mut().flatten() {
            peer.memory_mut().event = true;
        }
    }

    /// Takes the event, if there is one: then the core does not wait.
    pub fn take_event(&mut self) -> bool {
        std::mem::take(&mut self.event)
    }
}

/// The second level, of lines as long as the first's.
pub(crate) type Level2<C> = DataCache<<C as Core>::DataLine>;
