//! QEMU's `versatilepb`, as far as kernels need it.

use super::pl011::Pl011;
use super::sp804::Sp804;
use super::system_registers::SystemRegisters;
use super::vic::Vic;
use super::{Access, Effect};
use crate::core::InterruptLines;

/// VIC line of the timers.
const TIMER_LINE: u32 = 4;
/// VIC line of the UART.
const UART_LINE: u32 = 12;

/// The devices.
pub struct Versatile {
    pub uart: Pl011,
    timers: Sp804,
    vic: Vic,
    system: SystemRegisters,
}

mmulab_state::state!(Versatile { uart, timers, vic, system });

impl Versatile {
    pub fn new(clock_hz: u64) -> Versatile {
        Versatile {
            uart: Pl011::new(),
            timers: Sp804::new(clock_hz),
            vic: Vic::default(),
            system: SystemRegisters::new(clock_hz),
        }
    }

    /// A register; nothing where no device is.
    pub fn read(&mut self, access: Access) -> Option<u32> {
        let offset = access.physical & 0xfff;
        Some(match access.physical >> 12 {
            0x10000 => self.system.read(offset, access.now),
            0x101e0 => 0,
            0x101e2 => self.timers.read(offset, access.now),
            0x10140 => {
                self.update_lines(access.now);
                self.vic.read(offset)
            }
            0x101f1 => self.uart.read(offset),
            _ => return None,
        })
    }

    /// A register, and what comes of it; nothing where no device is.
    pub fn write(&mut self, access: Access, value: u32) -> Option<Effect> {
        let offset = access.physical & 0xfff;
        match access.physical >> 12 {
            0x10000 if self.system.write(offset, value) => return Some(Effect::Reboot),
            0x10000 | 0x101e0 => {}
            0x101e2 => self.timers.write(offset, value, access.now),
            0x10140 => self.vic.write(offset, value),
            0x101f1 => return Some(self.uart.write(offset, value).into()),
            _ => return None,
        }
        Some(Effect::None)
    }

    fn update_lines(&mut self, now: u64) {
        self.vic.set_line(TIMER_LINE, self.timers.interrupts(now));
        self.vic.set_line(UART_LINE, self.uart.interrupts());
    }

    /// The interrupt inputs of a core: the PL190 has outputs for one processor.
    pub fn interrupts(&mut self, core: usize, now: u64) -> InterruptLines {
        if !self.interrupts_reach(core) {
            return InterruptLines::default();
        }
        self.update_lines(now);
        self.vic.outputs()
    }

    /// Whether the interrupts of devices can wake a core.
    pub fn interrupts_reach(&self, core: usize) -> bool {
        core == Vic::PROCESSOR
    }

    /// When a device will next raise an interrupt by itself.
    pub fn next_event(&self) -> Option<u64> {
        self.timers.next_interrupt()
    }
}
