//! The board: devices, interrupt routing and the instrumentation device (docs/board.md).

mod instrumentation;
mod pl011;
mod sp804;
mod system_registers;
mod vic;

use std::collections::VecDeque;

use crate::core::InterruptLines;
pub use instrumentation::{Instrumentation, Mark};
use pl011::Pl011;
use sp804::Sp804;
use system_registers::SystemRegisters;
use vic::Vic;

/// VIC line of the timers.
const TIMER_LINE: u32 = 4;
/// VIC line of the UART.
const UART_LINE: u32 = 12;

/// The board.
pub struct Board {
    /// Core clock, which all device time derives from.
    pub clock_hz: u64,
    /// Time in core cycles, as far as devices know.
    pub now: u64,
    /// The core whose access a device sees: some have registers for each.
    pub core: usize,
    uart: Pl011,
    timers: Sp804,
    vic: Vic,
    system: SystemRegisters,
    /// The instrumentation device.
    pub instrumentation: Instrumentation,
    /// Characters from the guest that nobody took yet.
    pub output: Vec<u8>,
    /// Characters for the guest.
    pub input: VecDeque<u8>,
    /// Accesses to addresses where nothing is: page, and the first PC.
    pub unassigned: Vec<(u32, u32)>,
    /// What SYS_GET_CMDLINE gives.
    pub command_line: String,
    /// The guest asked to end: its status.
    pub exit: Option<u8>,
    /// The guest rebooted.
    pub rebooted: bool,
}

impl Board {
    /// A board after reset.
    pub fn new(clock_hz: u64, cores: usize) -> Board {
        Board {
            clock_hz,
            now: 0,
            core: 0,
            uart: Pl011::new(),
            timers: Sp804::new(clock_hz),
            vic: Vic::default(),
            system: SystemRegisters::new(clock_hz),
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
        if self.unassigned.len() < 64 && !self.unassigned.iter().any(|&(known, _)| known == page) {
            self.unassigned.push((page, pc));
        }
    }

    /// A load from a device, of the word around the address.
    pub fn read(&mut self, physical: u32, pc: u32) -> u32 {
        let offset = physical & 0xfff;
        match physical >> 12 {
            0x10000 => self.system.read(offset, self.now),
            0x101e0 => 0,
            0x101e2 => self.timers.read(offset, self.now),
            0x10140 => {
                self.update_lines();
                self.vic.read(offset)
            }
            0x101f1 => {
                self.feed_uart();
                self.uart.read(offset)
            }
            _ => {
                self.note_unassigned(physical, pc);
                0
            }
        }
    }

    /// A store to a device.
    pub fn write(&mut self, physical: u32, value: u32, pc: u32) {
        let offset = physical & 0xfff;
        match physical >> 12 {
            0x10000 => {
                if self.system.write(offset, value) {
                    self.rebooted = true;
                }
            }
            0x101e0 => {}
            0x101e2 => self.timers.write(offset, value, self.now),
            0x10140 => self.vic.write(offset, value),
            0x101f1 => {
                if let Some(character) = self.uart.write(offset, value) {
                    self.output.push(character);
                }
            }
            _ => self.note_unassigned(physical, pc),
        }
    }

    fn feed_uart(&mut self) {
        while !self.input.is_empty() && self.uart.has_room() {
            if let Some(character) = self.input.pop_front() {
                self.uart.receive(character);
            }
        }
    }

    fn update_lines(&mut self) {
        self.feed_uart();
        self.vic.set_line(TIMER_LINE, self.timers.interrupts(self.now));
        self.vic.set_line(UART_LINE, self.uart.interrupts());
    }

    /// The interrupt inputs of a core at time `now`, as the controller routes them: a PL190 has outputs
    /// for one processor, which is core 0.
    pub fn interrupts(&mut self, core: usize, now: u64) -> InterruptLines {
        if core != Vic::PROCESSOR {
            return InterruptLines::default();
        }
        self.now = now;
        self.update_lines();
        self.vic.outputs()
    }

    /// When a device will next raise an interrupt by itself, if it will.
    pub fn next_event(&self) -> Option<u64> {
        self.timers.next_interrupt()
    }

    /// Whether the interrupts of devices can wake a core.
    pub fn interrupts_reach(&self, core: usize) -> bool {
        core == Vic::PROCESSOR
    }

    /// Whether input could still wake a waiting guest.
    pub fn listens(&self) -> bool {
        self.uart.listens()
    }
}
