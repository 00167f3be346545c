//! The performance monitor of the Cortex-A7: a cycle counter and four event counters (ARM DDI
//! 0464F, chapter 11; ARM DDI 0406C, C12). An overflow sets its bit and interrupts nobody; filters
//! of modes are not modelled.

use mmulab_system::core::Core;
use mmulab_system::memory::CoreMemory;

/// Event counters.
const COUNTERS: usize = 4;
/// The place of the cycle counter in masks and arrays.
const CYCLE_COUNTER: usize = 31;
/// PMCR: all counters count.
const ENABLE: u32 = 1;
/// PMCR: written with one, sets the event counters to zero.
const RESET_EVENTS: u32 = 1 << 1;
/// The same for the cycle counter.
const RESET_CYCLES: u32 = 1 << 2;
/// PMCR: the cycle counter counts every 64th cycle.
const DIVIDE: u32 = 1 << 3;
/// PMCR: bits that are held: E, D, X, DP.
const HELD: u32 = ENABLE | DIVIDE | 1 << 4 | 1 << 5;
/// PMXEVTYPER: modes and security states that are not counted (ARM DDI 0406C, PMXEVTYPER).
const FILTERS: u32 = 0xf << 28;
/// All counters, as a mask.
const ALL: u32 = 1 << CYCLE_COUNTER | ((1 << COUNTERS) - 1);

/// Events that are counted (ARM DDI 0464F, table 11-24).
mod event {
    pub const SOFTWARE: u8 = 0x00;
    pub const L1_INSTRUCTION_REFILL: u8 = 0x01;
    pub const INSTRUCTION_TLB_REFILL: u8 = 0x02;
    pub const L1_DATA_REFILL: u8 = 0x03;
    pub const L1_DATA_ACCESS: u8 = 0x04;
    pub const DATA_TLB_REFILL: u8 = 0x05;
    pub const INSTRUCTIONS: u8 = 0x08;
    pub const EXCEPTIONS: u8 = 0x09;
    pub const CYCLES: u8 = 0x11;
    pub const L1_DATA_WRITE_BACK: u8 = 0x15;
    pub const L2_ACCESS: u8 = 0x16;
    pub const L2_REFILL: u8 = 0x17;
    /// All of them.
    pub const COUNTED: [u8; 12] = [
        SOFTWARE,
        L1_INSTRUCTION_REFILL,
        INSTRUCTION_TLB_REFILL,
        L1_DATA_REFILL,
        L1_DATA_ACCESS,
        DATA_TLB_REFILL,
        INSTRUCTIONS,
        EXCEPTIONS,
        CYCLES,
        L1_DATA_WRITE_BACK,
        L2_ACCESS,
        L2_REFILL,
    ];
}

/// A register of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorRegister {
    /// PMCR.
    Control,
    /// PMCNTENSET, or with `false` PMCNTENCLR: which counters count.
    Enable(bool),
    /// PMOVSR: which have overflowed.
    Overflow,
    /// PMSWINC.
    Increment,
    /// PMSELR.
    Selection,
    /// PMCEID0: which events there are.
    Events,
    /// PMCCNTR.
    Cycles,
    /// PMXEVTYPER of the selected counter.
    Type,
    /// PMXEVCNTR of the selected counter.
    Count,
    /// PMUSERENR.
    Users,
    /// PMINTENSET, or with `false` PMINTENCLR: held, and of no effect.
    Interrupts(bool),
}

/// The counters of a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monitor {
    control: u32,
    enabled: u32,
    overflowed: u32,
    interrupting: u32,
    selected: u32,
    users: bool,
    types: [u8; COUNTERS],
    values: [u32; COUNTERS],
    cycles: u32,
    /// What each event had come to when its counter was last brought up to date.
    seen: [u64; COUNTERS],
    cycles_seen: u64,
}

mmulab_state::state!(Monitor {
    control,
    enabled,
    overflowed,
    interrupting,
    selected,
    users,
    types,
    values,
    cycles,
    seen,
    cycles_seen,
});

/// What an event has come to since reset.
fn total<C: Core>(memory: &CoreMemory<C>, event: u8) -> u64 {
    let counters = &memory.statistics.counters;
    match event {
        event::L1_INSTRUCTION_REFILL => counters.icache_misses,
        event::INSTRUCTION_TLB_REFILL => counters.itlb_misses,
        event::L1_DATA_REFILL => counters.dcache_misses,
        event::L1_DATA_ACCESS => counters.data_accesses,
        event::DATA_TLB_REFILL => counters.dtlb_misses,
        event::INSTRUCTIONS => memory.clock.instructions(),
        event::EXCEPTIONS => counters.exceptions.iter().sum(),
        event::CYCLES => memory.now(),
        event::L1_DATA_WRITE_BACK => counters.lines_written_back,
        event::L2_ACCESS => counters.level_2_accesses,
        event::L2_REFILL => counters.level_2_misses,
        _ => 0,
    }
}

impl Monitor {
    /// Whether user mode may use its registers.
    pub fn open_to_users(&self) -> bool {
        self.users
    }

    fn cycle_total<C: Core>(&self, memory: &CoreMemory<C>) -> u64 {
        if self.control & DIVIDE != 0 { memory.now() / 64 } else { memory.now() }
    }

    /// Adds to a counter; one that passes its end is marked.
    fn count(&mut self, number: usize, events: u64) {
        let counter = match number {
            CYCLE_COUNTER => &mut self.cycles,
            _ => &mut self.values[number],
        };
        let sum = u64::from(*counter) + events;
        *counter = sum as u32;
        self.overflowed |= u32::from(sum > u32::MAX.into()) << number;
    }

    /// Brings the counters up to date.
    fn update<C: Core>(&mut self, memory: &CoreMemory<C>) {
        let counting = if self.control & ENABLE != 0 { self.enabled } else { 0 };
        let cycles = self.cycle_total(memory);
        if counting >> CYCLE_COUNTER != 0 {
            self.count(CYCLE_COUNTER, cycles - self.cycles_seen);
        }
        self.cycles_seen = cycles;
        for number in 0..COUNTERS {
            let now = total(memory, self.types[number]);
            if counting >> number & 1 != 0 {
                self.count(number, now - self.seen[number]);
            }
            self.seen[number] = now;
        }
    }

    /// MRC. PMCR says ARM, Cortex-A7 and four counters (ARM DDI 0464F, 11.4.1).
    pub fn read<C: Core>(&mut self, memory: &CoreMemory<C>, register: MonitorRegister) -> u32 {
        self.update(memory);
        let selected = self.selected as usize;
        match register {
            MonitorRegister::Control => 0x4107_0000 | (COUNTERS as u32) << 11 | self.control,
            MonitorRegister::Enable(_) => self.enabled,
            MonitorRegister::Overflow => self.overflowed,
            MonitorRegister::Selection => self.selected,
            MonitorRegister::Events => {
                event::COUNTED.iter().fold(0, |all, &event| all | 1 << event)
            }
            MonitorRegister::Cycles => self.cycles,
            MonitorRegister::Type => self.types.get(selected).copied().unwrap_or(0).into(),
            MonitorRegister::Count => self.values.get(selected).copied().unwrap_or(0),
            MonitorRegister::Users => self.users.into(),
            MonitorRegister::Interrupts(_) => self.interrupting,
            MonitorRegister::Increment => 0,
        }
    }

    /// MCR. Returns whether what was asked for is counted.
    pub fn write<C: Core>(
        &mut self,
        memory: &mut CoreMemory<C>,
        register: MonitorRegister,
        value: u32,
    ) -> bool {
        self.update(memory);
        let selected = self.selected as usize;
        let mut is_counted = true;
        match register {
            MonitorRegister::Control => {
                self.control = value & HELD;
                if value & RESET_EVENTS != 0 {
                    self.values = [0; COUNTERS];
                }
                if value & RESET_CYCLES != 0 {
                    self.cycles = 0;
                }
                self.cycles_seen = self.cycle_total(memory);
            }
            MonitorRegister::Enable(true) => self.enabled |= value & ALL,
            MonitorRegister::Enable(false) => self.enabled &= !value,
            MonitorRegister::Overflow => self.overflowed &= !value,
            MonitorRegister::Selection => self.selected = value & 31,
            MonitorRegister::Cycles => self.cycles = value,
            MonitorRegister::Type => {
                is_counted = event::COUNTED.contains(&(value as u8)) && value & FILTERS == 0;
                if let Some(held) = self.types.get_mut(selected) {
                    *held = value as u8;
                    self.seen[selected] = total(memory, value as u8);
                }
            }
            MonitorRegister::Count => {
                if let Some(held) = self.values.get_mut(selected) {
                    *held = value;
                }
            }
            MonitorRegister::Users => self.users = value & 1 != 0,
            MonitorRegister::Interrupts(true) => self.interrupting |= value & ALL,
            MonitorRegister::Interrupts(false) => self.interrupting &= !value,
            MonitorRegister::Increment => {
                for number in 0..COUNTERS {
                    let counts = self.control & ENABLE != 0 && self.enabled >> number & 1 != 0;
                    if value >> number & 1 != 0 && counts && self.types[number] == event::SOFTWARE {
                        self.count(number, 1);
                    }
                }
            }
            MonitorRegister::Events => {}
        }
        // Accesses that hit are counted on the slow path only.
        let accesses = |number: usize| {
            self.enabled >> number & 1 != 0 && self.types[number] == event::L1_DATA_ACCESS
        };
        let counts = self.control & ENABLE != 0 && (0..COUNTERS).any(accesses);
        memory.count_data_accesses(counts);
        is_counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_goes_round_between_two_looks_has_overflowed() {
        let mut monitor = Monitor::default();
        for number in [0, CYCLE_COUNTER] {
            monitor.count(number, u32::MAX.into());
            assert_eq!(monitor.overflowed >> number & 1, 0);
            monitor.count(number, (1 << 32) + 6);
            assert_eq!(monitor.overflowed >> number & 1, 1);
        }
        assert_eq!((monitor.values[0], monitor.cycles), (5, 5));
    }
}
