//! The instrumentation device: measuring from within the guest (docs/board.md).

use crate::core::Core;
use crate::memory::CoreMemory;

const NAME_LENGTH: usize = 64;

/// What a guest said about its own progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A phase starts.
    Phase(u32),
    /// Something happened.
    Event(u32),
    /// Something begins.
    Begin(u32),
    /// It ends.
    End(u32),
}

mmulab_state::value_enum!(Mark { Phase(number), Event(number), Begin(number), End(number) });

/// The device's registers.
pub struct Instrumentation {
    clock_hz: u64,
    cores: usize,
    /// High half of the counter that was read last.
    latch: u32,
    /// Present phase.
    pub phase: u32,
    /// The phase changed, and the ledgers do not know yet.
    pub phase_changed: bool,
    /// The guest's exit status.
    pub exit: Option<u8>,
    /// Names of phases and events, by number.
    pub phase_names: Vec<(u32, String)>,
    /// As above.
    pub event_names: Vec<(u32, String)>,
    /// Marks with their time and core; the timeline takes them.
    pub marks: Vec<(u64, usize, Mark)>,
    spelled: String,
}

mmulab_state::state!(Instrumentation {
    latch,
    phase,
    phase_changed,
    exit,
    phase_names,
    event_names,
    marks,
    spelled,
} built { clock_hz, cores });

fn name(names: &mut Vec<(u32, String)>, number: u32, name: String) {
    match names.iter_mut().find(|(known, _)| *known == number) {
        Some(place) => place.1 = name,
        None => names.push((number, name)),
    }
}

impl Instrumentation {
    /// The device after reset.
    pub fn new(clock_hz: u64, cores: usize) -> Instrumentation {
        Instrumentation {
            clock_hz,
            cores,
            latch: 0,
            phase: 0,
            phase_changed: false,
            exit: None,
            phase_names: Vec::new(),
            event_names: Vec::new(),
            marks: Vec::new(),
            spelled: String::new(),
        }
    }

    /// What the results call a phase.
    pub fn phase_name(&self, phase: u32) -> String {
        self.phase_names
            .iter()
            .find(|(known, _)| *known == phase)
            .map_or_else(|| phase.to_string(), |(_, name)| name.clone())
    }

    /// What the timeline calls a mark.
    pub fn mark_name(&self, mark: Mark) -> String {
        let (Mark::Event(number) | Mark::Begin(number) | Mark::End(number)) = mark else {
            let Mark::Phase(phase) = mark else { return String::new() };
            return self.phase_name(phase);
        };
        self.event_names
            .iter()
            .find(|(known, _)| *known == number)
            .map_or_else(|| format!("event {number}"), |(_, name)| name.clone())
    }

    /// A register, as the core of `memory` reads it; `reports` is what the checker has found.
    pub(crate) fn read<C: Core>(
        &mut self,
        physical: u32,
        memory: &CoreMemory<C>,
        reports: usize,
    ) -> u32 {
        let counters = &memory.statistics.counters;
        match physical & 0xffc {
            0x00 => 0x4d4d_554c,
            0x04 => 1,
            0x08 => self.low_half(memory.now()),
            0x10 => self.low_half(memory.clock.instructions()),
            0x0c | 0x14 => self.latch,
            0x18 => self.phase,
            0x38 => memory.number as u32,
            0x3c => self.cores as u32,
            0x40 => self.clock_hz as u32,
            0x44 => reports as u32,
            0x50 => counters.itlb_misses as u32,
            0x54 => counters.dtlb_misses as u32,
            0x58 => counters.icache_misses as u32,
            0x5c => counters.dcache_misses as u32,
            0x60 => counters.write_backs as u32,
            _ => 0,
        }
    }

    /// The low half of a counter; the high one is kept for the next read.
    fn low_half(&mut self, counter: u64) -> u32 {
        self.latch = (counter >> 32) as u32;
        counter as u32
    }

    /// A register, written at time `now` by a core.
    pub fn write(&mut self, physical: u32, value: u32, now: u64, core: usize) {
        match physical & 0xffc {
            0x18 => {
                self.phase = value;
                self.phase_changed = true;
                self.marks.push((now, core, Mark::Phase(value)));
            }
            0x1c => self.exit = Some(value as u8),
            0x20 => self.marks.push((now, core, Mark::Event(value))),
            0x24 => self.marks.push((now, core, Mark::Begin(value))),
            0x28 => self.marks.push((now, core, Mark::End(value))),
            0x2c if self.spelled.chars().count() < NAME_LENGTH => {
                self.spelled.push(char::from(value as u8));
            }
            0x30 => name(&mut self.phase_names, value, std::mem::take(&mut self.spelled)),
            0x34 => name(&mut self.event_names, value, std::mem::take(&mut self.spelled)),
            _ => {}
        }
    }
}
