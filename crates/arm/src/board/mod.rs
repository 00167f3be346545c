//! The board: RAM, devices and the lab block (docs/board.md). Shared by all cores.

mod lab;
mod pl011;
pub mod semihosting;
mod sp804;
mod system_registers;
mod vic;

use std::collections::VecDeque;

pub use lab::{Lab, Mark};
use pl011::Pl011;
use sp804::Sp804;
use system_registers::SystemRegisters;
use vic::Vic;

/// What answers at a physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Memory.
    Ram,
    /// The SA-1100's zero bank.
    Zero,
    /// The lab block.
    Lab,
    /// A device, or nothing.
    Device,
}

/// VIC line of the timers.
const TIMER_LINE: u32 = 4;
/// VIC line of the UART.
const UART_LINE: u32 = 12;

/// The board.
pub struct Board {
    /// RAM, in words, from physical address 0.
    pub ram: Vec<u32>,
    ram_bytes: u32,
    zero_bank: bool,
    /// Core clock, which all device time derives from.
    pub clock_hz: u64,
    /// Time in core cycles, as far as devices know.
    pub now: u64,
    uart: Pl011,
    timers: Sp804,
    vic: Vic,
    system: SystemRegisters,
    /// The lab block.
    pub lab: Lab,
    /// The checker, with `--check`: it knows the newest value of all of RAM, so there is one.
    pub checker: Option<Box<crate::checker::Checker>>,
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
    pub fn new(ram_bytes: u32, clock_hz: u64, cores: usize, zero_bank: bool) -> Board {
        Board {
            ram: vec![0; ram_bytes as usize / 4],
            ram_bytes,
            zero_bank,
            clock_hz,
            now: 0,
            uart: Pl011::new(),
            timers: Sp804::new(clock_hz),
            vic: Vic::default(),
            system: SystemRegisters::new(clock_hz),
            lab: Lab::new(clock_hz, cores),
            checker: None,
            output: Vec::new(),
            input: VecDeque::new(),
            unassigned: Vec::new(),
            command_line: String::new(),
            exit: None,
            rebooted: false,
        }
    }

    /// What answers at a physical address.
    #[inline(always)]
    pub fn region(&self, physical: u32) -> Region {
        if physical < self.ram_bytes {
            Region::Ram
        } else if physical >> 12 == 0x101ff {
            Region::Lab
        } else if self.zero_bank && physical >> 27 == 0xe000_0000 >> 27 {
            Region::Zero
        } else {
            Region::Device
        }
    }

    /// Whether an address is in RAM.
    pub fn is_ram(&self, physical: u32) -> bool {
        physical < self.ram_bytes
    }

    /// RAM size.
    pub fn ram_bytes(&self) -> u32 {
        self.ram_bytes
    }

    /// A word of the translation tables; outside of RAM there is none.
    #[inline]
    pub fn read_table_word(&self, physical: u32) -> u32 {
        self.ram.get((physical >> 2) as usize).copied().unwrap_or(0)
    }

    fn note_unassigned(&mut self, physical: u32, pc: u32) {
        let page = physical & !0xfff;
        if self.unassigned.len() < 64 && !self.unassigned.iter().any(|&(known, _)| known == page) {
            self.unassigned.push((page, pc));
        }
    }

    /// A load from a device, of the word around the address.
    pub fn device_read(&mut self, physical: u32, _core: usize, pc: u32) -> u32 {
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
    pub fn device_write(&mut self, physical: u32, value: u32, _core: usize, pc: u32) {
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

    /// IRQ and FIQ at time `now`.
    pub fn interrupts(&mut self, now: u64) -> (bool, bool) {
        self.now = now;
        self.update_lines();
        self.vic.outputs()
    }

    /// When a device will next raise an interrupt by itself, if it will.
    pub fn next_event(&self) -> Option<u64> {
        self.timers.next_interrupt()
    }

    /// Whether input could still wake a waiting guest.
    pub fn listens(&self) -> bool {
        self.uart.listens()
    }

    /// Puts bytes into RAM; they must fit.
    pub fn load(&mut self, address: u32, bytes: &[u8]) {
        for (offset, &byte) in bytes.iter().enumerate() {
            let at = address as usize + offset;
            let shift = 8 * (at % 4);
            let word = &mut self.ram[at / 4];
            *word = *word & !(0xff << shift) | u32::from(byte) << shift;
        }
    }

    /// A byte of RAM, for the debugger and semihosting.
    pub fn byte(&self, address: u32) -> Option<u8> {
        let word = self.ram.get((address >> 2) as usize)?;
        Some((word >> (8 * (address & 3))) as u8)
    }
}
