//! The boards: devices, interrupt routing and the instrumentation device (docs/board.md).

mod generic_timer;
mod gic;
mod instrumentation;
mod pl011;
mod sp804;
mod system_registers;
mod versatile;
mod vic;
mod virt;

use std::collections::VecDeque;

use mmulab_machine::BoardKind;
use mmulab_state::{Damaged, Restorer, Saver, State};

use crate::core::InterruptLines;
pub use generic_timer::{GenericTimers, Timer};
pub use instrumentation::{Instrumentation, Mark};
use pl011::Pl011;
use versatile::Versatile;
use virt::Virt;

/// An access to a device.
#[derive(Clone, Copy)]
struct Access {
    /// Address of the word.
    physical: u32,
    /// The bytes of it that a store writes.
    mask: u32,
    /// Which core makes it.
    core: usize,
    /// When, in core cycles.
    now: u64,
}

/// What a store to a device causes outside of it.
enum Effect {
    None,
    /// A character goes out.
    Output(u8),
    Reboot,
}

/// A character that a UART may send.
impl From<Option<u8>> for Effect {
    fn from(character: Option<u8>) -> Effect {
        character.map_or(Effect::None, Effect::Output)
    }
}

/// The devices of each board.
enum Devices {
    Versatile(Box<Versatile>),
    Virt(Box<Virt>),
}

impl State for Devices {
    fn save(&self, to: &mut Saver<'_>) {
        match self {
            Devices::Versatile(devices) => devices.save(to),
            Devices::Virt(devices) => devices.save(to),
        }
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        match self {
            Devices::Versatile(devices) => devices.restore(from),
            Devices::Virt(devices) => devices.restore(from),
        }
    }
}

/// Of how many pages where nothing is accesses are listed, since a guest may try all.
pub const LISTED_PAGES: usize = 64;

/// The board.
pub struct Board {
    /// Core clock, which all device time derives from.
    pub clock_hz: u64,
    /// Time in core cycles, as far as devices know.
    pub now: u64,
    /// The core whose access a device sees: some have registers for each.
    pub core: usize,
    devices: Devices,
    /// The instrumentation device.
    pub instrumentation: Instrumentation,
    /// Characters from the guest that nobody took yet.
    pub output: Vec<u8>,
    /// Characters for the guest.
    pub input: VecDeque<u8>,
    /// Accesses to addresses where nothing is: page, and the first PC; of [`LISTED_PAGES`] pages.
    pub unassigned: Vec<(u32, u32)>,
    /// What SYS_GET_CMDLINE gives.
    pub command_line: String,
    /// The guest asked to end: its status.
    pub exit: Option<u8>,
    /// The guest rebooted.
    pub rebooted: bool,
}

mmulab_state::state!(Board {
    now,
    core,
    devices,
    instrumentation,
    output,
    input,
    unassigned,
    command_line,
    exit,
    rebooted,
} built { clock_hz });

impl Board {
    /// A board after reset.
    pub fn new(kind: BoardKind, clock_hz: u64, cores: usize) -> Board {
        let devices = match kind {
            BoardKind::Versatilepb {} => Devices::Versatile(Versatile::new(clock_hz).into()),
            BoardKind::Virt { timer_hz } => {
                Devices::Virt(Virt::new(clock_hz, timer_hz, cores).into())
            }
        };
        Board {
            clock_hz,
            now: 0,
            core: 0,
            devices,
            instrumentation: Instrumentation::new(clock_hz, cores),
            output: Vec::new(),
            input: VecDeque::new(),
            unassigned: Vec::new(),
            command_line: String::new(),
            exit: None,
            rebooted: false,
        }
    }

    /// Whether a physical address is the instrumentation device's.
    #[inline(always)]
    pub fn is_instrumentation(&self, physical: u32) -> bool {
        physical >> 12 == 0x101ff
    }

    fn note_unassigned(&mut self, physical: u32, pc: u32) {
        let page = physical & !0xfff;
        if self.unassigned.len() < LISTED_PAGES
            && !self.unassigned.iter().any(|&(known, _)| known == page)
        {
            self.unassigned.push((page, pc));
        }
    }

    fn access(&self, physical: u32, mask: u32) -> Access {
        Access { physical, mask, core: self.core, now: self.now }
    }

    /// A load from a device, of the word around the address.
    pub fn read(&mut self, physical: u32, pc: u32) -> u32 {
        self.feed_uart();
        let access = self.access(physical & !3, !0);
        let value = match &mut self.devices {
            Devices::Versatile(devices) => devices.read(access),
            Devices::Virt(devices) => devices.read(access),
        };
        value.unwrap_or_else(|| {
            self.note_unassigned(physical, pc);
            0
        })
    }

    /// A store to a device: the bytes in `mask` of the word around the address.
    pub fn write(&mut self, physical: u32, value: u32, mask: u32, pc: u32) {
        let access = self.access(physical & !3, mask);
        let effect = match &mut self.devices {
            Devices::Versatile(devices) => devices.write(access, value),
            Devices::Virt(devices) => devices.write(access, value),
        };
        match effect {
            Some(Effect::None) => {}
            Some(Effect::Output(character)) => self.output.push(character),
            Some(Effect::Reboot) => self.rebooted = true,
            None => self.note_unassigned(physical, pc),
        }
    }

    fn uart(&mut self) -> &mut Pl011 {
        match &mut self.devices {
            Devices::Versatile(devices) => &mut devices.uart,
            Devices::Virt(devices) => &mut devices.uart,
        }
    }

    fn feed_uart(&mut self) {
        while !self.input.is_empty() && self.uart().has_room() {
            if let Some(character) = self.input.pop_front() {
                self.uart().receive(character);
            }
        }
    }

    /// The interrupt inputs of a core at time `now`, as the controller routes them.
    pub fn interrupts(&mut self, core: usize, now: u64) -> InterruptLines {
        self.now = now;
        self.feed_uart();
        match &mut self.devices {
            Devices::Versatile(devices) => devices.interrupts(core, now),
            Devices::Virt(devices) => devices.interrupts(core, now),
        }
    }

    /// Whether a core has an interrupt that its devices or another core have sent, as far as its
    /// own time has come.
    pub(crate) fn is_interrupted(&mut self, core: usize) -> bool {
        let lines = match &mut self.devices {
            Devices::Versatile(devices) => devices.interrupts(core, self.now),
            Devices::Virt(devices) => devices.interrupts_so_far(core),
        };
        lines.irq || lines.fiq
    }

    /// When a device will next raise an interrupt by itself, if it will.
    pub fn next_event(&self) -> Option<u64> {
        match &self.devices {
            Devices::Versatile(devices) => devices.next_event(),
            Devices::Virt(devices) => devices.next_event(),
        }
    }

    /// Whether the interrupts of devices can wake a core.
    pub fn interrupts_reach(&self, core: usize) -> bool {
        match &self.devices {
            Devices::Versatile(devices) => devices.interrupts_reach(core),
            Devices::Virt(_) => true,
        }
    }

    /// Whether input could still wake a waiting guest.
    pub fn listens(&self) -> bool {
        match &self.devices {
            Devices::Versatile(devices) => devices.uart.listens(),
            Devices::Virt(devices) => devices.uart.listens(),
        }
    }

    /// The timers that the cores reach by registers of their own, if the board has them.
    pub fn generic_timers(&mut self) -> Option<&mut GenericTimers> {
        match &mut self.devices {
            Devices::Versatile(_) => None,
            Devices::Virt(devices) => Some(&mut devices.timers),
        }
    }

    /// Whether there is firmware that turns cores on and off: then only core 0 starts by itself.
    pub fn has_power_firmware(&self) -> bool {
        matches!(self.devices, Devices::Virt(_))
    }
}
