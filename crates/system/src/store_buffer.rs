//! The store buffer of a coherent core: stores to cacheable memory that wait for their line.
//!
//! A store whose line is here as the only copy is *performed* at once: all cores see it. Another
//! store asks for its line and waits in the buffer, and execution goes on. Until the line is here,
//! or is the only copy, the data cache has the old word, which other cores load and table walks
//! read; so a later store may be seen before it. A missing barrier shows, as on hardware: ARM DDI
//! 0406C, A3.8.2, orders stores to different lines by DMB and DSB only. The core's own loads from
//! the line wait, as do DMB, DSB, exclusive accesses to the line and maintenance.

use mmulab_hardware::Line;
use mmulab_hardware::coherence::Request;

use crate::bus::Bus;
use crate::cause::Cause;
use crate::core::{Core, MemoryType};
use crate::memory::CoreMemory;
use crate::observer::{Observer, Store};

/// A line that stores wait for.
#[derive(Clone, Copy)]
struct AwaitedLine {
    /// Its physical address.
    line: u32,
    /// When it is here as the only copy, if no other core takes it meanwhile.
    ready_at: u64,
}

mmulab_state::value!(AwaitedLine { line, ready_at });

/// The stores of one core that were executed and not performed.
pub(crate) struct StoreBuffer {
    /// Lines that may be awaited at a time.
    capacity: usize,
    /// In order of the first store to each.
    lines: Vec<AwaitedLine>,
    /// In program order.
    stores: Vec<Store>,
}

mmulab_state::state!(StoreBuffer { lines, stores } built { capacity });

impl StoreBuffer {
    pub(crate) fn new(capacity: u32) -> StoreBuffer {
        let capacity = capacity as usize;
        StoreBuffer {
            capacity,
            lines: Vec::with_capacity(capacity),
            stores: Vec::with_capacity(64 * capacity),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The place of a line in `lines`.
    fn place_of(&self, line: u32) -> Option<usize> {
        self.lines.iter().position(|awaited| awaited.line == line)
    }

    /// Whether a line is awaited.
    #[inline(always)]
    pub(crate) fn awaits(&self, line: u32) -> bool {
        self.place_of(line).is_some()
    }

    /// An aligned word as the core that stores sees it, if memory and caches have `word`.
    pub(crate) fn forward(&self, physical: u32, word: u32) -> u32 {
        let stores = self.stores.iter().filter(|store| store.physical & !3 == physical & !3);
        stores.fold(word, |word, store| word & !store.mask | store.value & store.mask)
    }
}

impl<C: Core> CoreMemory<C> {
    /// Stores to cacheable memory: at once if the line is here as the only copy, else by the store
    /// buffer, where there is one.
    pub(crate) fn store_coherent(
        &mut self,
        bus: &mut Bus<C>,
        store: &Store,
        memory_type: MemoryType,
    ) {
        let line = C::DataLine::base(store.physical);
        if let Some(place) = self.store_buffer.place_of(line) {
            if self.store_buffer.lines[place].ready_at > self.now() {
                return self.put_off(bus, store);
            }
            self.perform_stores_to(bus, place);
        }
        let slot = self.line_of(store.address, store.physical);
        let missed = slot.is_none();
        let is_here = self.fill_ends_at(store.physical).is_none();
        let owned = slot.filter(|&slot| is_here && !self.dcache.is_shared(slot));
        if owned.is_some() || self.store_buffer.capacity == 0 {
            self.observe(bus, |observer, core, bus| observer.storing(core, bus, store));
            let slot = match owned {
                Some(slot) => slot,
                None => self.own_line(bus, store.address, store.physical, memory_type),
            };
            self.dcache.set_word(slot, store.address, store.value, store.mask);
            self.dcache.mark_dirty(slot, store.address);
            return self.tell_prefetcher(bus, store.physical, missed);
        }
        while self.store_buffer.lines.len() >= self.store_buffer.capacity {
            self.await_first_line(bus, Cause::WriteBuffer);
        }
        let ready_at = self.request_line(bus, store, memory_type);
        self.store_buffer.lines.push(AwaitedLine { line, ready_at });
        self.put_off(bus, store);
        self.tell_prefetcher(bus, store.physical, missed);
    }

    /// A store waits for its line, which is awaited.
    fn put_off(&mut self, bus: &mut Bus<C>, store: &Store) {
        self.observe(bus, |observer, core, bus| observer.putting_off(core, bus, store));
        self.store_buffer.stores.push(*store);
    }

    /// Asks for the line of a store beside execution; returns when it is here as the only copy.
    fn request_line(&mut self, bus: &mut Bus<C>, store: &Store, memory_type: MemoryType) -> u64 {
        let Store { address, physical, .. } = *store;
        match self.line_of(address, physical) {
            Some(slot) => {
                let filled_at = self.fill_ends_at(physical).unwrap_or(self.now());
                self.clock.begin_beside();
                self.make_unique(bus, slot, Cause::WriteAllocate);
                // The core's own accesses have to wait, on the slow path.
                self.dcache.discard_hints(slot);
                filled_at + self.clock.end_beside()
            }
            None => self.fill_beside(bus, address, physical, memory_type, Cause::WriteAllocate).1,
        }
    }

    /// Waits for a line as the only copy; returns its slot.
    pub(crate) fn own_line(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        physical: u32,
        memory_type: MemoryType,
    ) -> usize {
        self.await_stores_to(bus, physical);
        self.await_fill(physical);
        let slot = match self.line_of(address, physical) {
            Some(slot) => slot,
            None => self.fill(bus, address, physical, memory_type, Cause::WriteAllocate),
        };
        self.make_unique(bus, slot, Cause::WriteAllocate);
        slot
    }

    /// Waits for the line that is here first, and performs the stores to it.
    fn await_first_line(&mut self, bus: &mut Bus<C>, cause: Cause) {
        let lines = self.store_buffer.lines.iter().enumerate();
        if let Some((place, awaited)) = lines.min_by_key(|(_, awaited)| awaited.ready_at) {
            self.clock.charge_until(cause, awaited.ready_at);
            self.perform_stores_to(bus, place);
        }
    }

    /// Waits until the stores to the line of a physical address are performed.
    #[inline(always)]
    pub(crate) fn await_stores_to(&mut self, bus: &mut Bus<C>, physical: u32) {
        if let Some(place) = self.store_buffer.place_of(C::DataLine::base(physical)) {
            self.clock.charge_until(Cause::WriteAllocate, self.store_buffer.lines[place].ready_at);
            self.perform_stores_to(bus, place);
        }
    }

    /// Waits until all stores are performed.
    #[inline(always)]
    pub fn await_stores(&mut self, bus: &mut Bus<C>, cause: Cause) {
        while !self.store_buffer.is_empty() {
            self.await_first_line(bus, cause);
        }
    }

    /// Performs the stores whose lines are here by now, and those that have left the write buffer:
    /// what another core may see of this one's stores in its time slice.
    #[inline(always)]
    pub(crate) fn perform_ready_stores(&mut self, bus: &mut Bus<C>) {
        self.write_buffer.retire(self.now(), &mut bus.ram);
        self.perform_stores_here(bus, |_, _| true);
    }

    /// Performs the stores whose lines are here by now as the only copies, which takes no time: a
    /// line that leaves the cache takes its stores along, and a walk reads them.
    #[inline(always)]
    pub(crate) fn perform_due_stores(&mut self, bus: &mut Bus<C>) {
        self.perform_stores_here(bus, |memory, line| {
            let slot = memory.dcache.peek(line, line);
            slot.is_some_and(|slot| !memory.dcache.is_shared(slot))
        });
    }

    /// Performs the stores to the lines that are here by now, of those that `is_meant` says.
    #[inline(always)]
    fn perform_stores_here(
        &mut self,
        bus: &mut Bus<C>,
        is_meant: impl Fn(&CoreMemory<C>, u32) -> bool,
    ) {
        if self.store_buffer.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(place) = self
            .store_buffer
            .lines
            .iter()
            .position(|awaited| awaited.ready_at <= now && is_meant(self, awaited.line))
        {
            self.perform_stores_to(bus, place);
        }
    }

    /// Performs the stores to an awaited line, whose time has come.
    #[inline(never)]
    fn perform_stores_to(&mut self, bus: &mut Bus<C>, place: usize) {
        let line = self.store_buffer.lines.remove(place).line;
        // Another core may have taken the line meanwhile, or a copy of it, or another line its slot
        // before it was here: then it is asked for again, and the core waits. It is not asked for a
        // third time, so that two cores cannot keep each other from storing.
        let slot = match self.dcache.peek(line, line) {
            Some(slot) => slot,
            None => self.fill_coherent(bus, line, Request::Unique, Cause::WriteAllocate),
        };
        self.make_unique(bus, slot, Cause::WriteAllocate);
        let mut stores = std::mem::take(&mut self.store_buffer.stores);
        stores.retain(|store| {
            if C::DataLine::base(store.physical) != line {
                return true;
            }
            self.observe(bus, |observer, core, bus| observer.performing(core, bus, store));
            self.dcache.set_word(slot, store.address, store.value, store.mask);
            self.dcache.mark_dirty(slot, store.address);
            false
        });
        self.store_buffer.stores = stores;
    }
}
