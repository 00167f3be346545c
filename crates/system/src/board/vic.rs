//! PL190 vectored interrupt controller (ARM DDI 0181E).

use crate::core::InterruptLines;

/// Lower than any priority.
const LOWEST: u32 = 17;

/// The controller.
#[derive(Default)]
pub struct Vic {
    lines: u32,
    soft: u32,
    enabled: u32,
    /// Lines that go to FIQ.
    fast: u32,
    protection: u32,
    default_vector: u32,
    vectors: [u32; 16],
    controls: [u32; 16],
    /// Priorities of the vectored interrupts in service, 16 being the default vector.
    in_service: Vec<u32>,
}

mmulab_state::state!(Vic {
    lines,
    soft,
    enabled,
    fast,
    protection,
    default_vector,
    vectors,
    controls,
    in_service,
});

impl Vic {
    /// The core that its outputs are wired to.
    pub const PROCESSOR: usize = 0;

    /// Sets the level of an input.
    pub fn set_line(&mut self, line: u32, level: bool) {
        self.lines = self.lines & !(1 << line) | u32::from(level) << line;
    }

    fn raw(&self) -> u32 {
        self.lines | self.soft
    }

    fn pending_irq(&self) -> u32 {
        self.raw() & self.enabled & !self.fast
    }

    /// IRQ and FIQ. A vectored interrupt in service holds back those of no higher priority.
    pub fn outputs(&self) -> InterruptLines {
        let pending = self.pending_irq();
        let limit = self.in_service.last().copied().unwrap_or(LOWEST);
        let irq = pending != 0 && self.highest(pending) < limit;
        InterruptLines { irq, fiq: self.raw() & self.enabled & self.fast != 0 }
    }

    fn highest(&self, pending: u32) -> u32 {
        (0..16)
            .find(|&slot| {
                let control = self.controls[slot];
                control & 0x20 != 0 && pending >> (control & 31) & 1 != 0
            })
            .map_or(16, |slot| slot as u32)
    }

    /// A register.
    pub fn read(&mut self, offset: u32) -> u32 {
        match offset {
            0x000 => self.pending_irq(),
            0x004 => self.raw() & self.enabled & self.fast,
            0x008 => self.raw(),
            0x00c => self.fast,
            0x010 => self.enabled,
            0x018 => self.soft,
            0x020 => self.protection,
            0x030 => {
                // Reading the vector address takes the interrupt into service, if it is of higher
                // priority than the one that is (2.2.3). Without either the value is undefined.
                let pending = self.pending_irq();
                let current = self.in_service.last().copied();
                let highest = if pending == 0 { LOWEST } else { self.highest(pending) };
                if pending != 0 && highest < current.unwrap_or(LOWEST) {
                    self.in_service.push(highest);
                }
                let serving = self.in_service.last().copied().unwrap_or(LOWEST);
                self.vectors.get(serving as usize).copied().unwrap_or(self.default_vector)
            }
            0x034 => self.default_vector,
            0x100..=0x13c => self.vectors[(offset - 0x100) as usize / 4],
            0x200..=0x23c => self.controls[(offset - 0x200) as usize / 4],
            0xfe0 => 0x90,
            0xfe4 => 0x11,
            0xfe8 => 0x04,
            0xfec => 0x00,
            0xff0 => 0x0d,
            0xff4 => 0xf0,
            0xff8 => 0x05,
            0xffc => 0xb1,
            _ => 0,
        }
    }

    /// A register.
    pub fn write(&mut self, offset: u32, value: u32) {
        match offset {
            0x00c => self.fast = value,
            0x010 => self.enabled |= value,
            0x014 => self.enabled &= !value,
            0x018 => self.soft |= value,
            0x01c => self.soft &= !value,
            0x020 => self.protection = value & 1,
            // Any write ends the interrupt in service.
            0x030 => {
                self.in_service.pop();
            }
            0x034 => self.default_vector = value,
            0x100..=0x13c => self.vectors[(offset - 0x100) as usize / 4] = value,
            0x200..=0x23c => self.controls[(offset - 0x200) as usize / 4] = value & 0x3f,
            _ => {}
        }
    }
}
