//! The maintenance operations of a core, whatever its instruction set calls them: what they do to
//! caches, TLBs and buffers, what they cost, and how they are counted.

use mmulab_hardware::{Cache, GeometryError, Replacement};

use crate::bus::Bus;
use crate::cause::Cause;
use crate::coherence::Point;
use crate::core::{CacheAddress, Core, Mmu, Side, Translation};
use crate::line_fills::ALL_REGISTERS;
use crate::memory::CoreMemory;
use crate::observer::Observer;

/// What is done to a line of the data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOperation {
    /// Its dirty halves are written back.
    Clean,
    /// It is emptied.
    Invalidate,
    /// Both, in this order.
    CleanAndInvalidate,
}

/// Which TLB entries are invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// Those of an address space.
    Space(u16),
    /// Those of an address, in one space or in all.
    Address(u32, Option<u16>),
}

/// What a core turns on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The instruction cache.
    InstructionCache,
    /// The data cache.
    DataCache,
    /// The MMU, with its TLBs.
    Translation,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::InstructionCache => "the instruction cache",
            Unit::DataCache => "the data cache",
            Unit::Translation => "the MMU",
        }
    }
}

/// Maintenance that a core begins, and what makes it complete, as observers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// TLB entries are invalidated, of this core or `everywhere`.
    Translations {
        /// Which.
        scope: Scope,
        /// On all cores.
        everywhere: bool,
    },
    /// The data cache line of a physical address is cleaned or invalidated, as far as some point.
    Line {
        /// The address.
        physical: u32,
        /// Which of the two.
        operation: LineOperation,
        /// How far.
        point: Point,
    },
    /// A cache line is cleaned or invalidated by its set and way.
    Slot {
        /// The slot of the first level's data cache, if it is one of it.
        data: Option<usize>,
        /// Which of the two.
        operation: LineOperation,
    },
    /// Instruction cache lines are invalidated, of this core or `everywhere`.
    Instructions {
        /// The one of a physical address, or all.
        line: Option<u32>,
        /// On all cores.
        everywhere: bool,
    },
    /// All that the core did before is complete (DSB).
    Complete,
}

/// The slot that an operation by set and way names: the way in the top bits, the set above the
/// line's offset (ARM DDI 0198D, 2.3.9).
pub(crate) fn slot_by_index(cache: &Cache, value: u32) -> Option<usize> {
    let ways = cache.ways();
    let way_bits = ways.next_power_of_two().trailing_zeros();
    let way = if ways == 1 { 0 } else { value >> (32 - way_bits) };
    let set = value >> cache.line_shift() & (cache.sets() - 1);
    (way < ways).then_some((set * ways + way) as usize)
}

impl<C: Core> CoreMemory<C> {
    /// Caches or translation will be turned on.
    pub fn enable(&mut self, bus: &mut Bus<C>, units: &[Unit]) {
        self.observe(bus, |observer, core, _| observer.enabling(core, units));
    }

    /// Maintenance begins, behind the stores before it: it goes through the store buffer too, as on
    /// the Cortex-A53 (ARM DDI 0500D, 2.1.5).
    pub fn announce(&mut self, bus: &mut Bus<C>, maintenance: Maintenance) {
        self.await_stores(bus, Cause::Drain);
        self.observe(bus, |observer, core, bus| observer.maintaining(core, bus, maintenance));
    }

    /// Waits until everything that was stored is in memory, and maintenance is complete.
    pub fn complete_maintenance(&mut self, bus: &mut Bus<C>) {
        self.drain_write_buffer(bus);
        self.announce(bus, Maintenance::Complete);
    }

    // ---- TLBs ------------------------------------------------------------------------------

    /// Invalidates the TLBs of these sides. A TLB of both sides is emptied by an operation on
    /// either.
    pub fn invalidate_translations(&mut self, bus: &mut Bus<C>, instructions: bool, data: bool) {
        let since = self.now();
        if instructions || self.dtlb.is_none() {
            self.itlb.invalidate_all();
        }
        if let (true, Some(dtlb)) = (data, &mut self.dtlb) {
            dtlb.invalidate_all();
        }
        self.end_tlb_transfer();
        self.begin_tlb_maintenance();
        self.renew_pages();
        self.statistics.counters.tlb_flushes += 1;
        self.charge(Cause::TlbOperation, self.whole_operation_cycles);
        self.statistics.maintenance("TLB flush", since, self.clock.now());
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }

    /// Invalidates what the TLBs of these sides hold of an address, which no process ID relocates.
    pub fn invalidate_translation(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        instructions: bool,
        data: bool,
    ) {
        let asid = self.mmu.asid();
        let mut largest = 0;
        if instructions || self.dtlb.is_none() {
            largest = self.itlb.invalidate(address, asid);
        }
        if let (true, Some(dtlb)) = (data, &mut self.dtlb) {
            largest = largest.max(dtlb.invalidate(address, asid));
        }
        if !self.begin_tlb_maintenance() && largest > 0 {
            self.invalidate_fast_path_of(address >> largest << largest, largest);
        }
        self.statistics.counters.tlb_entry_flushes += 1;
        self.charge(Cause::TlbOperation, self.line_operation_cycles);
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }

    /// The same of one address space, whichever the core is in, or of all.
    pub fn invalidate_translation_of(&mut self, bus: &mut Bus<C>, address: u32, asid: Option<u16>) {
        let mut largest = 0;
        for tlb in std::iter::once(&mut self.itlb).chain(&mut self.dtlb) {
            largest = largest.max(tlb.invalidate_in(address, asid));
        }
        if !self.begin_tlb_maintenance() && largest > 0 {
            self.invalidate_fast_path_of(address >> largest << largest, largest);
        }
        self.statistics.counters.tlb_entry_flushes += 1;
        self.charge(Cause::TlbOperation, self.line_operation_cycles);
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }

    /// Invalidates what the TLBs hold of an address space.
    pub fn invalidate_address_space(&mut self, bus: &mut Bus<C>, asid: u16) {
        let since = self.now();
        for tlb in std::iter::once(&mut self.itlb).chain(&mut self.dtlb) {
            tlb.invalidate_asid(asid);
        }
        self.begin_tlb_maintenance();
        self.renew_pages();
        self.statistics.counters.tlb_flushes += 1;
        self.charge(Cause::TlbOperation, self.whole_operation_cycles);
        self.statistics.maintenance("TLB flush of a space", since, self.clock.now());
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }

    /// The registers that choose the address space changed; `counted` where that is a switch.
    pub fn space_changed(&mut self, bus: &mut Bus<C>, counted: bool) {
        self.statistics.counters.space_switches += u64::from(counted);
        self.space_of_tlb_transfer_may_end();
        self.statistics.change_space(self.clock.now(), self.mmu.space());
        self.observe(bus, |observer, core, _| observer.space_changed(core));
    }

    /// The tables or the translating control bits are others from here on.
    pub fn tables_changed(&mut self, bus: &mut Bus<C>) {
        self.observe(bus, |observer, core, bus| observer.tables_changed(core, bus));
    }

    /// Walks for an address and locks the entry in the TLB of a side.
    ///
    /// # Errors
    /// No entry would be left.
    pub fn lock_translation(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        side: Side,
    ) -> Result<(), GeometryError> {
        // Not `translation`, which would enter it in an ordinary place, too.
        let Ok(translation) = self.walk_tables(bus, address, side).result else { return Ok(()) };
        self.begin_tlb_maintenance();
        let asid = self.mmu.asid();
        let tlb = self.tlb_mut(side);
        tlb.invalidate(address, asid);
        let left = tlb.lock(address, asid, translation);
        if let Ok(Some(left)) = &left {
            self.invalidate_fast_path_of(left.virtual_address as u32, left.page_shift);
        }
        self.invalidate_fast_path_of(address, u32::from(translation.page_shift));
        left.map(drop)
    }

    /// Enters a translation for data that software gives in place of a walk, into the TLB and in
    /// the place of what translates its address there.
    pub fn enter_translation(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        asid: u16,
        translation: Translation,
    ) {
        self.tlb_mut(Side::Data).invalidate(address, asid);
        self.empty_micro_tlbs();
        self.enter(address, asid, translation, Side::Data);
        self.invalidate_fast_path_of(address, u32::from(translation.page_shift));
        self.observe(bus, |observer, core, bus| observer.translations_changed(core, bus));
    }

    // ---- The data caches -------------------------------------------------------------------

    fn end_line_operation(&mut self, since: u64) {
        self.statistics.line_operation(since, self.clock.now());
    }

    fn operate(&mut self, bus: &mut Bus<C>, slot: Option<usize>, operation: LineOperation) {
        let since = self.now();
        self.statistics.counters.line_operations += 1;
        self.charge(Cause::DataCacheOperation, self.line_operation_cycles);
        if let Some(slot) = slot {
            if operation != LineOperation::Invalidate {
                self.clean_slot(bus, slot, Cause::DataCacheOperation);
            }
            if operation != LineOperation::Clean {
                self.discard_line(bus, slot);
            }
        }
        self.end_line_operation(since);
    }

    /// Cleans or invalidates the data cache line of an address, which no process ID relocates.
    pub fn operate_on_line(&mut self, bus: &mut Bus<C>, address: u32, operation: LineOperation) {
        let virtually = C::DATA_INDEX == CacheAddress::Virtual && C::DATA_TAG == C::DATA_INDEX;
        let physical = if virtually || !self.mmu.is_on() {
            Some(address)
        } else {
            let found = self.translation(bus, address, Side::Data).ok();
            found.map(|translation| translation.physical_of(address))
        };
        let slot = physical.and_then(|physical| self.line_of(address, physical));
        self.operate(bus, slot, operation);
    }

    /// The same for the line in a set and way.
    pub fn operate_on_slot(&mut self, bus: &mut Bus<C>, index: u32, operation: LineOperation) {
        let slot = slot_by_index(self.dcache.first(), index);
        self.announce(bus, Maintenance::Slot { data: slot, operation });
        self.operate(bus, slot, operation);
    }

    /// Invalidates the data caches; dirty lines are lost.
    pub fn invalidate_data(&mut self, bus: &mut Bus<C>) {
        let since = self.now();
        self.discard_all_lines(bus);
        self.statistics.counters.dcache_flushes += 1;
        self.charge(Cause::DataCacheOperation, self.whole_operation_cycles);
        self.statistics.maintenance("dcache flush", since, self.clock.now());
    }

    /// Cleans one dirty line of the data cache, if there is one; else, with `invalidate`,
    /// invalidates the data caches. Returns whether there was none.
    pub fn clean_next_line(&mut self, bus: &mut Bus<C>, invalidate: bool) -> bool {
        let since = self.now();
        self.charge(Cause::DataCacheOperation, self.line_operation_cycles);
        let found = self.dcache.next_dirty(self.clean_pointer);
        if let Some(slot) = found {
            self.clean_pointer = slot;
            self.statistics.counters.line_operations += 1;
            self.clean_slot(bus, slot, Cause::DataCacheOperation);
        } else {
            self.statistics.counters.dcache_flushes += 1;
            if invalidate {
                self.discard_all_lines(bus);
            }
        }
        self.end_line_operation(since);
        found.is_none()
    }

    /// Takes a line of the data cache for an address without reading memory: its words are whatever
    /// they were, and a dirty victim leaves.
    pub fn allocate_line(&mut self, bus: &mut Bus<C>, address: u32) {
        let since = self.now();
        self.take_line(bus, address);
        self.charge(Cause::DataCacheOperation, self.line_operation_cycles);
        self.end_line_operation(since);
    }

    fn take_line(&mut self, bus: &mut Bus<C>, address: u32) {
        let address = self.relocated(address);
        let virtually = C::DATA_TAG == CacheAddress::Virtual;
        if virtually && self.line_of(address, address).is_some() {
            return;
        }
        // The victim leaves before the address is translated.
        let leave = |memory: &mut Self, bus: &mut Bus<C>, index: u32, tag: u32| {
            let (slot, leaving) = memory.dcache.allocate(false, index, tag);
            if let Some(leaving) = leaving
                && leaving.dirty != 0
            {
                memory.write_back(bus, &leaving, Cause::DataCacheOperation);
            }
            slot
        };
        let slot = if virtually {
            let slot = leave(self, bus, address, address);
            let physical = if self.line_allocation_translates {
                self.physical_or_same(bus, address)
            } else {
                address
            };
            self.dcache.fill_tag(slot, address, physical);
            slot
        } else {
            let physical = self.physical_or_same(bus, address);
            if self.line_of(address, physical).is_some() {
                return;
            }
            let index = match C::DATA_INDEX {
                CacheAddress::Virtual => address,
                CacheAddress::Physical => physical,
            };
            let slot = leave(self, bus, index, physical);
            self.dcache.fill_tag(slot, physical, physical);
            slot
        };
        self.observe(bus, |observer, core, _| observer.filled(core, Side::Data, slot));
    }

    fn physical_or_same(&mut self, bus: &mut Bus<C>, address: u32) -> u32 {
        if !self.mmu.is_on() {
            return address;
        }
        let found = self.translation(bus, address, Side::Data);
        found.map_or(address, |translation| translation.physical_of(address))
    }

    /// Waits until everything that was stored is in memory, and what was loaded is there.
    pub fn drain_write_buffer(&mut self, bus: &mut Bus<C>) {
        self.await_registers(ALL_REGISTERS);
        self.await_stores(bus, Cause::Drain);
        self.drain(bus, Cause::Drain);
        self.charge(Cause::Drain, 0u64);
    }

    // ---- The instruction cache ---------------------------------------------------------------

    /// Invalidates the instruction cache, and with `data` the data caches, whose dirty lines are
    /// lost.
    pub fn invalidate_instructions(&mut self, bus: &mut Bus<C>, data: bool) {
        let since = self.now();
        if data {
            self.discard_all_lines(bus);
            self.statistics.counters.dcache_flushes += 1;
        }
        self.fetch.invalidate_all();
        self.statistics.counters.icache_flushes += 1;
        self.charge(Cause::InstructionCacheOperation, self.whole_operation_cycles);
        let what = if data { "cache flush" } else { "icache flush" };
        self.statistics.maintenance(what, since, self.clock.now());
    }

    /// Invalidates the instruction cache line of an address, which no process ID relocates.
    pub fn invalidate_instruction_line(&mut self, bus: &mut Bus<C>, address: u32) {
        let since = self.now();
        let physical = match (C::FETCH_INDEX, C::FETCH_TAG) {
            (CacheAddress::Virtual, CacheAddress::Virtual) => address,
            _ => self.physical_or_same(bus, address),
        };
        self.fetch.invalidate(address, physical);
        self.end_instruction_line_operation(since);
    }

    /// The same for the line of a physical address in the set that an address chooses: what reaches
    /// other cores, whose tables may be others.
    pub fn invalidate_instruction_line_of(&mut self, address: u32, physical: u32) {
        let since = self.now();
        self.fetch.invalidate(address, physical);
        self.end_instruction_line_operation(since);
    }

    /// The same for the line in a set and way.
    pub fn invalidate_instruction_slot(&mut self, index: u32) {
        let since = self.now();
        if let Some(slot) = slot_by_index(&self.fetch.cache, index) {
            self.fetch.invalidate_slot(slot);
        }
        self.end_instruction_line_operation(since);
    }

    fn end_instruction_line_operation(&mut self, since: u64) {
        self.statistics.counters.line_operations += 1;
        self.charge(Cause::InstructionCacheOperation, self.line_operation_cycles);
        self.end_line_operation(since);
    }

    /// Brings a line into the instruction cache, for locking it down.
    pub fn prefetch_instruction_line(&mut self, bus: &mut Bus<C>, address: u32) {
        self.charge(Cause::InstructionCacheOperation, self.line_operation_cycles);
        self.prefetch_instructions(bus, address);
    }

    // ---- Replacement and lockdown --------------------------------------------------------------

    /// Whether a store joins an entry of the write buffer that an earlier instruction made.
    pub fn set_write_coalescing(&mut self, coalesces: bool) {
        self.write_buffer.set_coalescing(coalesces);
    }

    /// Replaces lines of both caches round robin, or as the machine's file says.
    pub fn choose_replacement(&mut self, round_robin: bool) {
        let [instructions, data] = self.replacement;
        for (cache, usual) in
            [(&mut self.fetch.cache, instructions), (self.dcache.first_mut(), data)]
        {
            let chosen = if round_robin { Replacement::RoundRobin } else { usual };
            // Round robin fits every cache, and the other is the one that it was made with.
            let fits = cache.set_replacement(chosen);
            debug_assert!(fits.is_ok());
        }
    }

    /// The cache of a side, for locking ways and aiming fills; its lines must not be changed.
    pub fn cache(&mut self, side: Side) -> &mut Cache {
        match side {
            Side::Instruction => &mut self.fetch.cache,
            Side::Data => self.dcache.first_mut(),
        }
    }
}
