//! SP804 dual timer (ARM DDI 0271D) at 1 MHz, driven by the core's clock.

const ENABLE: u32 = 0x80;
const PERIODIC: u32 = 0x40;
const INTERRUPT: u32 = 0x20;
const WIDE: u32 = 0x02;
const ONE_SHOT: u32 = 0x01;

/// One of the two counters. Its value is kept as of a tick, and computed from there.
#[derive(Default)]
struct Counter {
    control: u32,
    load: u32,
    /// Value at `since`.
    value: u32,
    /// Prescaled ticks at which `value` was right.
    since: u64,
    raised: bool,
}

impl Counter {
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

    /// What the counter starts again from after zero.
    fn reload(&self) -> u32 {
        if self.control & PERIODIC != 0 { self.load & self.mask() } else { self.mask() }
    }

    /// Brings `value` up to `ticks` of the 1 MHz clock.
    fn advance(&mut self, ticks: u64) {
        let now = ticks >> self.shift();
        let mut elapsed = now - self.since.min(now);
        self.since = now;
        if self.control & ENABLE == 0 || elapsed == 0 {
            return;
        }
        let value = u64::from(self.value);
        if elapsed < value {
            self.value -= elapsed as u32;
            return;
        }
        if value > 0 || self.control & ONE_SHOT == 0 {
            self.raised = true;
        }
        if self.control & ONE_SHOT != 0 {
            self.value = 0;
            return;
        }
        // Zero is reached after `value` ticks; the next tick loads anew.
        elapsed -= value;
        let period = u64::from(self.reload()) + 1;
        let rest = elapsed % period;
        self.value = if rest == 0 { 0 } else { (period - rest) as u32 };
    }

    /// 1 MHz ticks at which it will next reach zero.
    fn next_zero(&self) -> Option<u64> {
        if self.control & ENABLE == 0 || self.control & INTERRUPT == 0 || self.raised {
            return None;
        }
        let distance = match self.value {
            0 if self.control & ONE_SHOT != 0 => return None,
            0 => u64::from(self.reload()) + 1,
            value => u64::from(value),
        };
        Some((self.since + distance) << self.shift())
    }

    fn interrupt(&self) -> bool {
        self.raised && self.control & INTERRUPT != 0
    }
}

/// Both timers.
pub struct Sp804 {
    counters: [Counter; 2],
    clock_hz: u64,
}

impl Sp804 {
    /// Timers after reset.
    pub fn new(clock_hz: u64) -> Sp804 {
        let counter = || Counter { control: INTERRUPT, value: 0xffff, ..Counter::default() };
        Sp804 { counters: [counter(), counter()], clock_hz }
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
            0x00 => {
                counter.load = value;
                counter.value = value & counter.mask();
            }
            0x08 => {
                counter.control = value & 0xff;
                counter.since = ticks >> counter.shift();
                counter.value &= counter.mask();
            }
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
