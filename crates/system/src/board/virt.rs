//! QEMU's `virt`, as far as kernels need it: GICv2, generic timers, PL011. Its map is in QEMU's
//! documentation of the board and in the device tree that it makes.

use super::generic_timer::{GenericTimers, Timer};
use super::gic::Gic;
use super::pl011::Pl011;
use super::{Access, Effect};
use crate::core::InterruptLines;

/// Interrupt of the UART: the second one that all cores share.
const UART_LINE: u32 = 33;

/// The private interrupt of a timer.
fn line_of(timer: Timer) -> u32 {
    match timer {
        Timer::Physical => 30,
        Timer::Virtual => 27,
    }
}

/// The devices.
pub struct Virt {
    pub uart: Pl011,
    pub timers: GenericTimers,
    gic: Gic,
}

mmulab_state::state!(Virt { uart, timers, gic });

impl Virt {
    pub fn new(clock_hz: u64, timer_hz: u64, cores: usize) -> Virt {
        Virt {
            uart: Pl011::new(),
            timers: GenericTimers::new(clock_hz, timer_hz, cores),
            gic: Gic::new(cores),
        }
    }

    /// A register; nothing where no device is.
    pub fn read(&mut self, access: Access) -> Option<u32> {
        let Access { physical, core, now, .. } = access;
        self.update_lines(core, now);
        Some(match physical >> 12 {
            0x0_8000 => self.gic.read_distributor(core, physical & 0xfff),
            0x0_8010 | 0x0_8011 => self.gic.read_interface(core, physical & 0x1fff),
            0x0_9000 => self.uart.read(physical & 0xfff),
            _ => return None,
        })
    }

    /// A register, and what comes of it; nothing where no device is.
    pub fn write(&mut self, access: Access, value: u32) -> Option<Effect> {
        let Access { physical, mask, core, now } = access;
        self.update_lines(core, now);
        match physical >> 12 {
            0x0_8000 => self.gic.write_distributor(core, physical & 0xfff, value, mask),
            0x0_8010 | 0x0_8011 => self.gic.write_interface(core, physical & 0x1fff, value, mask),
            0x0_9000 => return Some(self.uart.write(physical & 0xfff, value).into()),
            _ => return None,
        }
        Some(Effect::None)
    }

    fn update_lines(&mut self, core: usize, now: u64) {
        for timer in Timer::ALL {
            let level = self.timers.interrupt(core, timer, now);
            self.gic.set_line(core, line_of(timer), level);
        }
        self.gic.set_line(core, UART_LINE, self.uart.interrupts());
    }

    /// The interrupt inputs of a core.
    pub fn interrupts(&mut self, core: usize, now: u64) -> InterruptLines {
        self.update_lines(core, now);
        self.interrupts_so_far(core)
    }

    /// The same, without asking its timers, which would need its time.
    pub fn interrupts_so_far(&mut self, core: usize) -> InterruptLines {
        self.gic.outputs(core)
    }

    /// When a timer will next raise its interrupt.
    pub fn next_event(&self) -> Option<u64> {
        self.timers.next_interrupt()
    }
}
