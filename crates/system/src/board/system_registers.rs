//! The system registers of the Versatile board (ARM DUI 0225D, 4.2).

const UNLOCK: u32 = 0xa05f;

/// The registers that are more than constants.
pub struct SystemRegisters {
    clock_hz: u64,
    leds: u32,
    lock: u32,
    flags: u32,
    sticky_flags: u32,
}

mmulab_state::state!(
    SystemRegisters { leds, lock, flags, sticky_flags } built { clock_hz }
);

impl SystemRegisters {
    /// Registers after reset.
    pub fn new(clock_hz: u64) -> SystemRegisters {
        SystemRegisters { clock_hz, leds: 0, lock: 0, flags: 0, sticky_flags: 0 }
    }

    fn scaled(&self, now: u64, hz: u64) -> u32 {
        (u128::from(now) * u128::from(hz) / u128::from(self.clock_hz)) as u32
    }

    /// A register.
    pub fn read(&self, offset: u32, now: u64) -> u32 {
        match offset {
            0x00 => 0x4100_7004,
            0x08 => self.leds,
            0x20 => self.lock,
            0x24 => self.scaled(now, 100),
            0x30 => self.flags,
            0x38 => self.sticky_flags,
            0x5c => self.scaled(now, 24_000_000),
            _ => 0,
        }
    }

    /// A register; whether the write resets the board.
    pub fn write(&mut self, offset: u32, value: u32) -> bool {
        let unlocked = self.lock == UNLOCK;
        match offset {
            0x08 => self.leds = value & 0xff,
            0x20 => self.lock = if value == UNLOCK { value } else { value & 0x7fff },
            0x30 => self.flags |= value,
            0x34 => self.flags &= !value,
            0x38 => self.sticky_flags |= value,
            0x3c => self.sticky_flags &= !value,
            // Bit 8 asks for the reset; the low bits say how deep.
            0x40 => return unlocked && value & 0x100 != 0,
            _ => {}
        }
        false
    }
}
