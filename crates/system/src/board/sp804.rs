//! SP804 dual timer (ARM DDI 0271D) at 1 MHz, driven by the core's clock.

const ENABLE: u32 = 0x80;
const PERIODIC: u32 = 0x40;
const INTERRUPT: u32 = 0x20;
const WIDE: u32 = 0x02;
const ONE_SHOT: u32 = 0x01;

/// One of the two counters. Its value is kept as of a tick, and computed from there.
struct Counter {
    control: u32,
    load: u32,
    /// Value at `since`. Of a 16-bit counter the upper half stays what it was until zero is
    /// reached.
    value: u32,
    /// Tick of the 1 MHz clock at which `value` was right; after a load it is the next one.
    since: u64,
    raised: bool,
}

mmulab_state::value!(Counter { control, load, value, since, raised });

impl Counter {
    /// A counter after reset (3.2).
    fn new() -> Counter {
        Counter { control: INTERRUPT, load: 0, value: !0, since: 0, raised: false }
    }

    /// The ticks that make one step of the counter, as a power of two.
    fn shift(&self) -> u32 {
        match self.control >> 2 & 3 {
            1 => 4,
            2 => 8,
            _ => 0,
        }
    }

    fn mask(&self) -> u32 {
        if self.control & WIDE != 0 { !0 } else { 0xffff }
    }

    fn is(&self, bit: u32) -> bool {
        self.control & bit != 0
    }

    /// Brings `value` up to `tick` of the 1 MHz clock.
    ///
    /// A periodic counter has its load value again when it reaches zero, so that the period is the
    /// load value; a free-running one passes through zero, so that its period is 2^16 or 2^32
    /// (3.3.1, and the intervals of 2.2.5). Zero raises the interrupt, once. A load value of 0
    /// raises it at each step.
    fn advance(&mut self, tick: u64) {
        if tick <= self.since {
            return;
        }
        let mut steps = (tick >> self.shift()) - (self.since >> self.shift());
        self.since = tick;
        if !self.is(ENABLE) || steps == 0 {
            return;
        }
        let (mask, load) = (self.mask(), self.load & self.mask());
        let mut left = self.value & mask;
        if left == 0 {
            if self.is(ONE_SHOT) {
                return;
            }
            // The step after zero loads again.
            steps -= 1;
            left = if self.is(PERIODIC) { load } else { mask };
        }
        if steps < u64::from(left) {
            self.value = self.value & !mask | (left - steps as u32);
            return;
        }
        self.raised = true;
        let beyond = steps - u64::from(left);
        self.value = if self.is(ONE_SHOT) {
            0
        } else if self.is(PERIODIC) {
            // At most the load value, which fits.
            if load == 0 { 0 } else { load - (beyond % u64::from(load)) as u32 }
        } else {
            let beyond = beyond % (u64::from(mask) + 1);
            if beyond == 0 { 0 } else { (u64::from(mask) + 1 - beyond) as u32 }
        };
    }

    /// Ticks of the 1 MHz clock at which it will next reach zero, if that raises its interrupt.
    fn next_zero(&self) -> Option<u64> {
        if !self.is(ENABLE) || !self.is(INTERRUPT) || self.raised {
            return None;
        }
        let steps = match self.value & self.mask() {
            0 if self.is(ONE_SHOT) => return None,
            0 if self.is(PERIODIC) => u64::from(self.load & self.mask()) + 1,
            0 => u64::from(self.mask()) + 1,
            left => u64::from(left),
        };
        Some(((self.since >> self.shift()) + steps) << self.shift())
    }

    fn interrupt(&self) -> bool {
        self.raised && self.is(INTERRUPT)
    }
}

/// Both timers.
pub struct Sp804 {
    counters: [Counter; 2],
    clock_hz: u64,
}

mmulab_state::state!(Sp804 { counters } built { clock_hz });

impl Sp804 {
    /// Timers after reset.
    pub fn new(clock_hz: u64) -> Sp804 {
        Sp804 { counters: [Counter::new(), Counter::new()], clock_hz }
    }

    fn ticks(&self, now: u64) -> u64 {
        (u128::from(now) * 1_000_000 / u128::from(self.clock_hz)) as u64
    }

    /// A register.
    pub fn read(&mut self, offset: u32, now: u64) -> u32 {
        let ticks = self.ticks(now);
        match offset {
            0x00..=0x3c => {
                let counter = &mut self.counters[(offset >> 5 & 1) as usize];
                counter.advance(ticks);
                match offset & 0x1c {
                    0x00 | 0x18 => counter.load,
                    0x04 => counter.value,
                    0x08 => counter.control,
                    0x10 => u32::from(counter.raised),
                    0x14 => u32::from(counter.interrupt()),
                    _ => 0,
                }
            }
            0xfe0 => 0x04,
            0xfe4 => 0x18,
            0xfe8 => 0x14,
            0xfec => 0x00,
            0xff0 => 0x0d,
            0xff4 => 0xf0,
            0xff8 => 0x05,
            0xffc => 0xb1,
            _ => 0,
        }
    }

    /// A register.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) {
        let ticks = self.ticks(now);
        if offset > 0x3c {
            return;
        }
        let counter = &mut self.counters[(offset >> 5 & 1) as usize];
        counter.advance(ticks);
        match offset & 0x1c {
            // The counter has it at the next tick; it reads so at once (3.3.1, 3.3.2).
            0x00 => {
                counter.load = value;
                counter.value = value;
                counter.since = ticks + 1;
                // Zero is not a valid load value: the interrupt comes at once.
                counter.raised |= counter.is(ENABLE) && value & counter.mask() == 0;
            }
            // Bit 4 is reserved and reads as zero (3.3.3).
            0x08 => counter.control = value & 0xef,
            0x0c => counter.raised = false,
            // Background load: takes effect at the next zero (3.3.7).
            0x18 => counter.load = value,
            _ => {}
        }
    }

    /// The common interrupt output.
    pub fn interrupts(&mut self, now: u64) -> bool {
        let ticks = self.ticks(now);
        for counter in &mut self.counters {
            counter.advance(ticks);
        }
        self.counters.iter().any(Counter::interrupt)
    }

    /// Core cycle at which a timer next raises its interrupt.
    pub fn next_interrupt(&self) -> Option<u64> {
        let ticks = self.counters.iter().filter_map(Counter::next_zero).min()?;
        // The first cycle at which `ticks` have passed.
        Some((u128::from(ticks) * u128::from(self.clock_hz)).div_ceil(1_000_000) as u64)
    }
}
