//! PL011 UART (ARM DDI 0183G). Transmission takes no time, and a character that comes in is late at
//! once: the receive timeout does not wait. Like QEMU's it works also while it is disabled.

use std::collections::VecDeque;

const RECEIVE: u32 = 1 << 4;
const TRANSMIT: u32 = 1 << 5;
const RECEIVE_TIMEOUT: u32 = 1 << 6;
const OVERRUN: u32 = 1 << 10;
const FIFO_ENTRIES: usize = 16;
/// Line control: the FIFOs are on.
const FIFO_ENABLE: u32 = 1 << 4;
/// Control: what is sent is received.
const LOOPBACK: u32 = 1 << 7;
/// Receive status: a character was lost.
const LOST: u32 = 1 << 3;

/// The UART.
pub struct Pl011 {
    received: VecDeque<u8>,
    receive_status: u32,
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

mmulab_state::state!(Pl011 {
    received,
    receive_status,
    line_control,
    control,
    integer_divisor,
    fraction_divisor,
    fifo_levels,
    mask,
    raw,
    dma,
    low_power,
});

impl Pl011 {
    /// The UART after reset (table 3-1): transmitter and receiver enabled, both FIFO levels at a
    /// half.
    pub fn new() -> Pl011 {
        Pl011 {
            received: VecDeque::with_capacity(FIFO_ENTRIES),
            receive_status: 0,
            line_control: 0,
            control: 0x300,
            integer_divisor: 0,
            fraction_divisor: 0,
            fifo_levels: 0x12,
            mask: 0,
            raw: 0,
            dma: 0,
            low_power: 0,
        }
    }

    /// Whether a character can be received.
    pub fn has_room(&self) -> bool {
        let entries = if self.line_control & FIFO_ENABLE != 0 { FIFO_ENTRIES } else { 1 };
        self.received.len() < entries
    }

    /// Characters that raise the receive interrupt (3.3.9).
    fn receive_level(&self) -> usize {
        if self.line_control & FIFO_ENABLE == 0 {
            return 1;
        }
        // An eighth, a quarter, a half, three quarters, seven eighths; the rest is reserved.
        [2, 4, 8, 12, 14][(self.fifo_levels >> 3 & 7).min(4) as usize]
    }

    /// Whether the guest wants to know of input.
    pub fn listens(&self) -> bool {
        self.mask & (RECEIVE | RECEIVE_TIMEOUT) != 0
    }

    /// A character arrives. Without room it is lost.
    pub fn receive(&mut self, character: u8) {
        if !self.has_room() {
            self.receive_status |= LOST;
            self.raw |= OVERRUN;
            return;
        }
        self.received.push_back(character);
        self.raw |= RECEIVE_TIMEOUT;
        if self.received.len() >= self.receive_level() {
            self.raw |= RECEIVE;
        }
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
                if self.received.len() < self.receive_level() {
                    self.raw &= !RECEIVE;
                }
                if self.received.is_empty() {
                    self.raw &= !RECEIVE_TIMEOUT;
                }
                u32::from(character)
            }
            0x04 => self.receive_status,
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
                if self.control & LOOPBACK == 0 {
                    return Some(value as u8);
                }
                self.receive(value as u8);
            }
            // Any write clears the errors (3.3.2).
            0x04 => self.receive_status = 0,
            0x20 => self.low_power = value & 0xff,
            0x24 => self.integer_divisor = value & 0xffff,
            0x28 => self.fraction_divisor = value & 0x3f,
            0x2c => self.line_control = value & 0xff,
            0x30 => self.control = value & 0xff87,
            0x34 => self.fifo_levels = value & 0x3f,
            0x38 => self.mask = value & 0x7ff,
            0x44 => self.raw &= !value,
            0x48 => self.dma = value & 7,
            _ => {}
        }
        None
    }
}
