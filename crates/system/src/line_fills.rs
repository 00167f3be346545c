//! Data line fills that go on while the core executes, and the registers that wait for them.
//!
//! A preload starts the fill of its line and lets execution go on; so does, on a core whose
//! [`Core::OVERLAPS_MISSES`](crate::core::Core::OVERLAPS_MISSES) is set, a load that misses. Its
//! registers are then *late*: the values are in them, since what executes does not depend on time,
//! and who reads one waits until the fill ends. The run loop asks before each instruction while any
//! register is late, and only then. As many fills are under way as there are places for; who needs
//! one more waits for the first to end. Another access to a line that is under way waits for it
//! too.

use mmulab_hardware::Line;

use crate::bus::Bus;
use crate::cause::Cause;
use crate::core::{Core, MemoryType};
use crate::memory::CoreMemory;

/// All registers, a bit each.
pub const ALL_REGISTERS: u16 = !0;

/// A fill, which is over once its end has passed.
#[derive(Clone, Copy, Default)]
struct Fill {
    /// Physical address of the line.
    line: u32,
    ends_at: u64,
}

mmulab_state::value!(Fill { line, ends_at });

/// The fills of one core.
pub(crate) struct LineFills {
    places: Box<[Fill]>,
    /// When the last of them ends.
    all_end_at: u64,
    /// The registers whose values come with a fill that may not have ended.
    late: u16,
    /// When the value of each of these is there.
    ready_at: [u64; 16],
}

mmulab_state::state!(LineFills { places, all_end_at, late, ready_at });

impl LineFills {
    pub(crate) fn new(places: u32) -> LineFills {
        let places = vec![Fill::default(); places as usize].into();
        LineFills { places, all_end_at: 0, late: 0, ready_at: [0; 16] }
    }

    /// The place whose fill ends first, and when that is.
    fn first_free(&self) -> Option<(usize, u64)> {
        let times = self.places.iter().map(|fill| fill.ends_at).enumerate();
        times.min_by_key(|&(_, ends_at)| ends_at)
    }

    /// When the fill of a line ends, if it is under way.
    #[inline(always)]
    fn ends_at(&self, line: u32, now: u64) -> Option<u64> {
        if self.all_end_at <= now {
            return None;
        }
        let found = self.places.iter().find(|fill| fill.line == line && fill.ends_at > now);
        found.map(|fill| fill.ends_at)
    }

    /// The latest of the times when the values of some registers are there.
    fn all_ready_at(&self, registers: u16) -> u64 {
        let waited = (0..16).filter(|register| registers >> register & 1 != 0);
        waited.map(|register| self.ready_at[register]).max().unwrap_or(0)
    }
}

impl<C: Core> CoreMemory<C> {
    /// When the line of a physical address is here, if its fill is under way.
    #[inline(always)]
    pub(crate) fn fill_ends_at(&self, physical: u32) -> Option<u64> {
        let (line, now) = (C::DataLine::base(physical), self.now());
        let ahead = || self.prefetcher.as_ref().and_then(|one| one.ends_at(line, now));
        self.line_fills.ends_at(line, now).or_else(ahead)
    }

    /// Waits for the line of a physical address, if its fill is under way.
    pub(crate) fn await_fill(&mut self, physical: u32) {
        if let Some(ends_at) = self.fill_ends_at(physical) {
            self.clock.charge_until(Cause::DataMiss, ends_at);
        }
    }

    /// Waits until there is a place for one more fill.
    pub(crate) fn await_fill_place(&mut self) {
        if let Some((_, free_at)) = self.line_fills.first_free() {
            self.clock.charge_until(Cause::DataMiss, free_at);
        }
    }

    /// Brings the line of `address` into the data cache beside execution; returns its slot and when
    /// it is there. Where the machine has no places for fills the core waits.
    pub(crate) fn fill_beside(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        physical: u32,
        memory_type: MemoryType,
        cause: Cause,
    ) -> (usize, u64) {
        self.await_fill_place();
        let Some((place, _)) = self.line_fills.first_free() else {
            let slot = self.fill(bus, address, physical, memory_type, cause);
            self.dcache.discard_hints(slot);
            return (slot, self.now());
        };
        self.clock.begin_beside();
        let slot = self.fill(bus, address, physical, memory_type, cause);
        let ends_at = self.now() + self.clock.end_beside();
        self.line_fills.places[place] = Fill { line: C::DataLine::base(physical), ends_at };
        self.line_fills.all_end_at = self.line_fills.all_end_at.max(ends_at);
        // Who uses it first has to wait for it, on the slow path.
        self.dcache.discard_hints(slot);
        (slot, ends_at)
    }

    /// Registers have their values at a time to come.
    pub(crate) fn deliver_late(&mut self, registers: u16, ready_at: u64) {
        let fills = &mut self.line_fills;
        fills.late |= registers;
        for (register, time) in fills.ready_at.iter_mut().enumerate() {
            if registers >> register & 1 != 0 {
                *time = ready_at;
            }
        }
        self.clock.hold();
    }

    /// Waits until the values of some registers, a bit each, are there.
    #[inline(always)]
    pub fn await_registers(&mut self, registers: u16) {
        if C::OVERLAPS_MISSES && self.line_fills.late & registers != 0 {
            self.await_late_registers(registers);
        }
    }

    #[inline(never)]
    fn await_late_registers(&mut self, registers: u16) {
        let ready_at = self.line_fills.all_ready_at(self.line_fills.late & registers);
        self.clock.charge_until(Cause::DataMiss, ready_at);
        self.settle_registers();
    }

    /// Forgets the registers whose values have come. Returns whether any is late.
    fn settle_registers(&mut self) -> bool {
        let (now, fills) = (self.clock.now(), &mut self.line_fills);
        for (register, &time) in fills.ready_at.iter().enumerate() {
            if time <= now {
                fills.late &= !(1 << register);
            }
        }
        if fills.late == 0 {
            self.clock.release();
        }
        fills.late != 0
    }

    /// Whether the run loop has to ask before each instruction what it reads.
    #[inline(always)]
    pub(crate) fn has_late_registers(&mut self) -> bool {
        if !C::OVERLAPS_MISSES || self.line_fills.late == 0 {
            return false;
        }
        let late = self.settle_registers();
        if late {
            self.clock.hold();
        }
        late
    }
}
