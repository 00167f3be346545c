//! The generic timer (ARM DDI 0406C, B8): a counter for all cores, and of each core a physical and
//! a virtual timer that compare with it. Without virtualization both count alike.

/// Which of a core's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Of non-secure PL1.
    Physical,
    /// Virtual.
    Virtual,
}

impl Timer {
    /// Both.
    pub const ALL: [Timer; 2] = [Timer::Physical, Timer::Virtual];
}

/// A timer's control register: it runs.
const ENABLE: u32 = 1;
/// Its interrupt is masked.
const MASKED: u32 = 2;
/// Its condition is met.
const STATUS: u32 = 4;

const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Comparator {
    compare: u64,
    control: u32,
    /// Core cycle at which it raises its interrupt, if nobody has seen it raised yet.
    due: u64,
}

mmulab_state::value!(Comparator { compare, control, due });

/// The timers of all cores.
pub struct GenericTimers {
    clock_hz: u64,
    hz: u64,
    timers: Vec<[Comparator; 2]>,
}

mmulab_state::state!(GenericTimers { timers } built { clock_hz, hz });

impl GenericTimers {
    /// Timers after reset, with a counter of `hz`.
    pub fn new(clock_hz: u64, hz: u64, cores: usize) -> GenericTimers {
        let stopped = Comparator { compare: 0, control: 0, due: NEVER };
        GenericTimers { clock_hz, hz, timers: vec![[stopped; 2]; cores] }
    }

    /// The counter's frequency.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// The counter at a core cycle.
    pub fn count(&self, now: u64) -> u64 {
        (u128::from(now) * u128::from(self.hz) / u128::from(self.clock_hz)) as u64
    }

    /// The first core cycle at which the counter is at least `count`.
    fn cycle_of(&self, count: u64) -> u64 {
        let cycle = (u128::from(count) * u128::from(self.clock_hz)).div_ceil(self.hz.into());
        u64::try_from(cycle).unwrap_or(NEVER)
    }

    fn change(&mut self, core: usize, timer: Timer, change: impl FnOnce(&mut Comparator)) {
        let mut changed = self.timers[core][timer as usize];
        change(&mut changed);
        let runs = changed.control & (ENABLE | MASKED) == ENABLE;
        changed.due = if runs { self.cycle_of(changed.compare) } else { NEVER };
        self.timers[core][timer as usize] = changed;
    }

    /// CNTx_CTL.
    pub fn control(&self, core: usize, timer: Timer, now: u64) -> u32 {
        let timer = &self.timers[core][timer as usize];
        // The status is unknown while the timer is off (B8.1.5); here it reads as zero, as QEMU's
        // does.
        let met = timer.control & ENABLE != 0 && self.count(now) >= timer.compare;
        timer.control | if met { STATUS } else { 0 }
    }

    /// Writes CNTx_CTL.
    pub fn set_control(&mut self, core: usize, timer: Timer, value: u32) {
        self.change(core, timer, |timer| timer.control = value & (ENABLE | MASKED));
    }

    /// CNTx_CVAL.
    pub fn compare(&self, core: usize, timer: Timer) -> u64 {
        self.timers[core][timer as usize].compare
    }

    /// Writes CNTx_CVAL.
    pub fn set_compare(&mut self, core: usize, timer: Timer, value: u64) {
        self.change(core, timer, |timer| timer.compare = value);
    }

    /// CNTx_TVAL: what is left, as a signed number.
    pub fn value(&self, core: usize, timer: Timer, now: u64) -> u32 {
        self.compare(core, timer).wrapping_sub(self.count(now)) as u32
    }

    /// Writes CNTx_TVAL.
    pub fn set_value(&mut self, core: usize, timer: Timer, value: u32, now: u64) {
        let compare = self.count(now).wrapping_add(i64::from(value as i32) as u64);
        self.set_compare(core, timer, compare);
    }

    /// The interrupt output of a timer.
    pub fn interrupt(&mut self, core: usize, timer: Timer, now: u64) -> bool {
        let Comparator { compare, control, due } = self.timers[core][timer as usize];
        if control & (ENABLE | MASKED) != ENABLE || due != NEVER && now < due {
            return false;
        }
        self.timers[core][timer as usize].due = NEVER;
        // A timer that never comes due has not met its condition either.
        due != NEVER || self.count(now) >= compare
    }

    /// Core cycle at which a timer next raises its interrupt.
    pub fn next_interrupt(&self) -> Option<u64> {
        self.timers.iter().flatten().map(|timer| timer.due).filter(|&due| due != NEVER).min()
    }
}
