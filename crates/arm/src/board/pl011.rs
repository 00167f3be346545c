//! PL011 UART (ARM DDI 0183G). Transmission takes no time.

use std::collections::VecDeque;

const RECEIVE: u32 = 1 << 4;
const TRANSMIT: u32 = 1 << 5;
const RECEIVE_TIMEOUT: u32 = 1 << 6;
const FIFO_ENTRIES: usize = 16;

/// The UART.
#[derive(Default)]
pub struct Pl011 {
    received: VecDeque<u8>,
    line_control: u32,
    control: u32,
    integer_divisor: u32,
    fraction_divisor: u32,
    fifo_levels: u32,
    mask: u32,
    raw: u32,
    dma: u32,
    low_power: u32,
}

impl Pl011 {
    /// Whether a character can be received.
    pub fn has_room(&self) -> bool {
        let entries = if self.line_control & 0x10 != 0 { FIFO_ENTRIES } else { 1 };
        self.received.len() < entries
    }

    /// Whether the guest wants to know of input.
    pub fn listens(&self) -> bool {
        self.mask & (RECEIVE | RECEIVE_TIMEOUT) != 0
    }

    /// A character arrives.
    pub fn receive(&mut self, character: u8) {
        self.received.push_back(character);
        self.raw |= RECEIVE | RECEIVE_TIMEOUT;
    }

    /// The interrupt output.
    pub fn interrupts(&self) -> bool {
        self.raw & self.mask != 0
    }

    /// A register.
    pub fn read(&mut self, offset: u32) -> u32 {
        match offset {
            0x00 => {
                let character = self.received.pop_front().unwrap_or(0);
                if self.received.is_empty() {
                    self.raw &= !(RECEIVE | RECEIVE_TIMEOUT);
                }
                u32::from(character)
            }
            // Transmitter empty; receiver as it is; clear to send and the like.
            0x18 => {
                0x80 | u32::from(self.received.is_empty()) << 4 | u32::from(!self.has_room()) << 6
            }
            0x20 => self.low_power,
            0x24 => self.integer_divisor,
            0x28 => self.fraction_divisor,
            0x2c => self.line_control,
            0x30 => self.control,
            0x34 => self.fifo_levels,
            0x38 => self.mask,
            0x3c => self.raw,
            0x40 => self.raw & self.mask,
            0x48 => self.dma,
            0xfe0 => 0x11,
            0xfe4 => 0x10,
            0xfe8 => 0x14,
            0xfec => 0x00,
            0xff0 => 0x0d,
            0xff4 => 0xf0,
            0xff8 => 0x05,
            0xffc => 0xb1,
            _ => 0,
        }
    }

    /// A register; a character that goes out is returned.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<u8> {
        match offset {
            0x00 => {
                // It has left before anybody can look: the transmit interrupt is raised.
                self.raw |= TRANSMIT;
                return Some(value as u8);
            }
            0x20 => self.low_power = value & 0xff,
            0x24 => self.integer_divisor = value & 0xffff,
            0x28 => self.fraction_divisor = value & 0x3f,
            0x2c => self.line_control = value & 0xff,
            0x30 => self.control = value & 0xff87,
            0x34 => self.fifo_levels = value & 0x3f,
            0x38 => self.mask = value & 0x7ff,
            0x44 => {
                self.raw &= !value;
                if !self.received.is_empty() && self.line_control & 0x10 == 0 {
                    self.raw |= RECEIVE;
                }
            }
            0x48 => self.dma = value & 7,
            _ => {}
        }
        None
    }
}
