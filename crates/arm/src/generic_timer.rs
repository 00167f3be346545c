//! How a core reaches its generic timers: coprocessor 15, c14 (ARM DDI 0406C, B8.1 and B8.2). The
//! event stream (CNTKCTL.EVNTEN) is not modelled: the bits are held.

use crate::caches::CacheKind;
use mmulab_system::board::Timer;

use crate::cp15::Encoding;
use crate::cpu::{Bus, Cpu};

/// A register of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRegister {
    /// CNTFRQ: what the boot loader says about the counter.
    Frequency,
    /// CNTKCTL: what user mode may use.
    Access,
    /// CNTx_TVAL.
    Value(Timer),
    /// CNTx_CTL.
    Control(Timer),
}

/// CNTKCTL: user mode may read the physical counter.
const PHYSICAL_COUNTER: u32 = 1;
/// The virtual counter.
const VIRTUAL_COUNTER: u32 = 1 << 1;
/// User mode may use the virtual timer.
const VIRTUAL_TIMER: u32 = 1 << 8;
/// The physical timer.
const PHYSICAL_TIMER: u32 = 1 << 9;
/// All bits that CNTKCTL has (B4.1.26).
const ACCESS_BITS: u32 = 0x3ff;

/// What the core itself holds of its timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimerState {
    frequency: Option<u32>,
    access: u32,
}

mmulab_state::state!(TimerState { frequency, access });

impl TimerState {
    /// Whether user mode may read or write a register of c14 (B8.1.3 and B8.1.4); `opcode_1` and
    /// CRm name one of 64 bits.
    pub fn is_open(&self, encoding: Encoding, is_read: bool, pair: bool) -> bool {
        let needed = match (encoding.m, if pair { encoding.opcode_1 } else { encoding.opcode_2 }) {
            (14, 0) if pair => PHYSICAL_COUNTER,
            (14, 1) if pair => VIRTUAL_COUNTER,
            (14, 2) if pair => PHYSICAL_TIMER,
            (14, 3) if pair => VIRTUAL_TIMER,
            // CNTFRQ is for reading only there.
            (0, 0) if is_read => PHYSICAL_COUNTER | VIRTUAL_COUNTER,
            (2, _) => PHYSICAL_TIMER,
            (3, _) => VIRTUAL_TIMER,
            _ => 0,
        };
        self.access & needed != 0
    }
}

impl<K: CacheKind> Cpu<K> {
    /// MRC of a timer register; nothing on a board without timers.
    pub(crate) fn timer_register(&self, bus: &mut Bus<K>, register: TimerRegister) -> Option<u32> {
        let (core, now) = (self.memory.number, self.memory.now());
        let timers = bus.board.generic_timers()?;
        Some(match register {
            TimerRegister::Frequency => self.cp15.timer.frequency.unwrap_or(timers.hz() as u32),
            TimerRegister::Access => self.cp15.timer.access,
            TimerRegister::Value(timer) => timers.value(core, timer, now),
            TimerRegister::Control(timer) => timers.control(core, timer, now),
        })
    }

    /// MCR of it; whether the board has timers.
    pub(crate) fn set_timer_register(
        &mut self,
        bus: &mut Bus<K>,
        register: TimerRegister,
        value: u32,
    ) -> bool {
        let (core, now) = (self.memory.number, self.memory.now());
        let Some(timers) = bus.board.generic_timers() else { return false };
        match register {
            TimerRegister::Frequency => self.cp15.timer.frequency = Some(value),
            TimerRegister::Access => self.cp15.timer.access = value & ACCESS_BITS,
            TimerRegister::Value(timer) => timers.set_value(core, timer, value, now),
            TimerRegister::Control(timer) => timers.set_control(core, timer, value),
        }
        // The next interrupt may come at another time.
        self.memory.request_exit();
        true
    }

    /// MRRC of c14: the counters and the compare values.
    pub(crate) fn timer_pair(&self, bus: &mut Bus<K>, opcode_1: u8) -> Option<u64> {
        let (core, now) = (self.memory.number, self.memory.now());
        let timers = bus.board.generic_timers()?;
        match opcode_1 {
            0 | 1 => Some(timers.count(now)),
            2 => Some(timers.compare(core, Timer::Physical)),
            3 => Some(timers.compare(core, Timer::Virtual)),
            _ => None,
        }
    }

    /// MCRR of c14.
    pub(crate) fn set_timer_pair(&mut self, bus: &mut Bus<K>, opcode_1: u8, value: u64) -> bool {
        let timer = match opcode_1 {
            2 => Timer::Physical,
            3 => Timer::Virtual,
            _ => return false,
        };
        let Some(timers) = bus.board.generic_timers() else { return false };
        timers.set_compare(self.memory.number, timer, value);
        self.memory.request_exit();
        true
    }
}
