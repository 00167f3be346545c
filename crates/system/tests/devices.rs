//! The devices by their manuals, register by register: SP804 (ARM DDI 0271D), PL190 (ARM DDI
//! 0181E), PL011 (ARM DDI 0183G).

use mmulab_hardware::Random;
use mmulab_machine::BoardKind;
use mmulab_system::board::{Board, Instrumentation};

const TIMER: u32 = 0x101e_2000;
const LOAD: u32 = TIMER;
const VALUE: u32 = TIMER + 0x04;
const CONTROL: u32 = TIMER + 0x08;
const CLEAR: u32 = TIMER + 0x0c;
const RAW: u32 = TIMER + 0x10;
const MASKED: u32 = TIMER + 0x14;
const BACKGROUND: u32 = TIMER + 0x18;
const ENABLE: u32 = 0x80;
const PERIODIC: u32 = 0x40;
const INTERRUPT: u32 = 0x20;
const WIDE: u32 = 0x02;
const ONE_SHOT: u32 = 0x01;

const VIC: u32 = 0x1014_0000;
const TIMER_BIT: u32 = 1 << 4;
const UART: u32 = 0x101f_1000;
const UART_BIT: u32 = 1 << 12;

/// Core cycles of one tick of the timer.
const TICK: u64 = 10;

struct Devices(Board);

impl Devices {
    fn new() -> Devices {
        Devices(Board::new(BoardKind::Versatilepb {}, TICK * 1_000_000, 1))
    }

    /// IRQ and FIQ at a time.
    fn interrupts(&mut self, now: u64) -> (bool, bool) {
        let lines = self.0.interrupts(0, now);
        (lines.irq, lines.fiq)
    }

    fn read(&mut self, address: u32) -> u32 {
        self.0.read(address, 0)
    }

    fn write(&mut self, address: u32, value: u32) {
        self.0.write(address, value, !0, 0);
    }

    fn go_to(&mut self, tick: u64) {
        self.0.now = tick * TICK;
    }

    /// Counts the interrupts until a tick, each cleared `late_cycles` after it comes, and gives the
    /// ticks at which they came.
    fn interrupts_until(&mut self, last_tick: u64, late_cycles: u64) -> Vec<u64> {
        let mut ticks = Vec::new();
        while let Some(next) = self.0.next_event().filter(|&next| next <= last_tick * TICK) {
            let (irq, _) = self.interrupts(next);
            assert!(irq, "the machine was woken at {next} for nothing");
            ticks.push(next / TICK);
            self.0.now = next + late_cycles;
            self.write(CLEAR, 0);
        }
        ticks
    }
}

#[test]
fn registers_after_reset() {
    let mut devices = Devices::new();
    // ARM DDI 0271D, table 3-1; ARM DDI 0181E, table 3-1; ARM DDI 0183G, table 3-1.
    for (address, value) in [
        (LOAD, 0),
        (VALUE, 0xffff_ffff),
        (CONTROL, 0x20),
        (RAW, 0),
        (MASKED, 0),
        (BACKGROUND, 0),
        (TIMER + 0x20, 0),
        (TIMER + 0x24, 0xffff_ffff),
        (TIMER + 0x28, 0x20),
        (TIMER + 0xfe0, 0x04),
        (TIMER + 0xfe4, 0x18),
        (VIC, 0),
        (VIC + 0x08, 0),
        (VIC + 0x0c, 0),
        (VIC + 0x10, 0),
        (VIC + 0x200, 0),
        (VIC + 0xfe0, 0x90),
        (VIC + 0xfe4, 0x11),
        (UART + 0x04, 0),
        (UART + 0x18, 0x90),
        (UART + 0x24, 0),
        (UART + 0x2c, 0),
        (UART + 0x30, 0x300),
        (UART + 0x34, 0x12),
        (UART + 0x38, 0),
        (UART + 0x3c, 0),
        (UART + 0xfe0, 0x11),
        (UART + 0xfe4, 0x10),
    ] {
        assert_eq!(devices.read(address), value, "{address:#x}");
    }
}

#[test]
fn a_periodic_timer_interrupts_once_a_load_value() {
    // However late the handler clears it: within the tick of the interrupt, or after it.
    for late_cycles in [0, 1, TICK - 1, TICK, 3 * TICK] {
        for load in [5, 100, 1000] {
            let mut devices = Devices::new();
            devices.write(VIC + 0x10, TIMER_BIT);
            devices.write(LOAD, load);
            devices.write(CONTROL, ENABLE | PERIODIC | INTERRUPT | WIDE);
            // The value is in the counter from the next tick on (3.3.1).
            let expected: Vec<u64> = (1..=100).map(|n| 1 + n * u64::from(load)).collect();
            let last = *expected.last().expect("a hundred");
            assert_eq!(devices.interrupts_until(last, late_cycles), expected, "{load}");
        }
    }
}

#[test]
fn a_free_running_timer_interrupts_once_a_whole_round() {
    let mut devices = Devices::new();
    devices.write(VIC + 0x10, TIMER_BIT);
    devices.write(LOAD, 0x10);
    devices.write(CONTROL, ENABLE | INTERRUPT);
    let first = 0x11;
    let expected: Vec<u64> = (0..5).map(|n| first + n * 0x1_0000).collect();
    assert_eq!(devices.interrupts_until(first + 0x4_8000, 0), expected);
}

#[test]
fn a_one_shot_timer_stops_at_zero_until_it_is_loaded() {
    let mut devices = Devices::new();
    devices.write(VIC + 0x10, TIMER_BIT);
    devices.write(LOAD, 10);
    devices.write(CONTROL, ENABLE | PERIODIC | INTERRUPT | WIDE | ONE_SHOT);
    assert_eq!(devices.interrupts_until(1_000_000, 0), [11]);
    devices.go_to(500);
    assert_eq!((devices.read(VALUE), devices.read(RAW)), (0, 0));
    devices.write(LOAD, 20);
    assert_eq!(devices.interrupts_until(1_000_000, 0), [521]);
}

#[test]
fn the_value_counts_down_and_a_background_load_waits_for_zero() {
    let mut devices = Devices::new();
    devices.write(CONTROL, ENABLE | PERIODIC | WIDE);
    devices.write(LOAD, 3);
    assert_eq!(devices.read(VALUE), 3, "it reads so at once");
    devices.write(BACKGROUND, 5);
    assert_eq!((devices.read(LOAD), devices.read(VALUE)), (5, 3));
    let values: Vec<u32> = (1..=12)
        .map(|tick| {
            devices.go_to(tick);
            devices.read(VALUE)
        })
        .collect();
    assert_eq!(values, [3, 2, 1, 5, 4, 3, 2, 1, 5, 4, 3, 2]);
    // The interrupt is masked by the control register, not forgotten.
    assert_eq!((devices.read(RAW), devices.read(MASKED)), (1, 0));
    devices.write(CONTROL, ENABLE | PERIODIC | WIDE | INTERRUPT);
    assert_eq!(devices.read(MASKED), 1);
    devices.write(CLEAR, 0);
    assert_eq!(devices.read(RAW), 0);
}

#[test]
fn the_prescaler_divides_the_clock() {
    for (bits, divisor) in [(0, 1), (1, 16), (2, 256)] {
        let mut devices = Devices::new();
        devices.write(VIC + 0x10, TIMER_BIT);
        devices.write(CONTROL, bits << 2 | ENABLE | PERIODIC | INTERRUPT | WIDE);
        devices.write(LOAD, 7);
        let seen = devices.interrupts_until(100 * divisor, 0);
        assert!(seen.len() >= 13);
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|&gap| gap == 7 * divisor), "{divisor}: {gaps:?}");
    }
}

#[test]
fn a_load_value_of_zero_interrupts_at_once() {
    let mut devices = Devices::new();
    devices.write(CONTROL, ENABLE | PERIODIC | INTERRUPT | WIDE);
    devices.write(LOAD, 0);
    assert_eq!(devices.read(MASKED), 1);
}

/// The timer one tick at a time, as the manual tells it.
#[derive(Clone, Default)]
struct SlowCounter {
    control: u32,
    load: u32,
    value: u32,
    /// A load waits for the next tick.
    loading: bool,
    raised: bool,
}

impl SlowCounter {
    fn tick(&mut self, now: u64) {
        if std::mem::take(&mut self.loading) {
            return;
        }
        let divisor = [1, 16, 256, 1][(self.control >> 2 & 3) as usize];
        if self.control & ENABLE == 0 || !now.is_multiple_of(divisor) {
            return;
        }
        let mask = if self.control & WIDE != 0 { !0 } else { 0xffff };
        let (upper, mut value) = (self.value & !mask, self.value & mask);
        if value == 0 {
            if self.control & ONE_SHOT != 0 {
                return;
            }
            value = if self.control & PERIODIC != 0 { self.load & mask } else { mask };
            self.value = upper | value;
            if value != 0 {
                return;
            }
            self.raised = true;
            self.value = 0;
            return;
        }
        self.value = upper | (value - 1);
        if value == 1 {
            self.raised = true;
            let reloads = self.control & (PERIODIC | ONE_SHOT) == PERIODIC;
            self.value = if reloads { self.load & mask } else { 0 };
        }
    }
}

#[test]
fn the_timer_does_what_a_slow_one_does() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut devices = Devices::new();
        devices.write(VIC + 0x10, TIMER_BIT);
        let mut slow = SlowCounter { control: INTERRUPT, value: !0, ..SlowCounter::default() };
        let mut tick = 0;
        for _ in 0..60 {
            let ahead = u64::from(random.below(40)) * u64::from(1 + random.below(20));
            for _ in 0..ahead {
                tick += 1;
                slow.tick(tick);
                // What it says of its next interrupt is true at each tick until then.
                if slow.raised && slow.control & INTERRUPT != 0 {
                    devices.go_to(tick);
                    assert_eq!(devices.read(MASKED), 1, "seed {seed}, tick {tick}");
                }
            }
            devices.go_to(tick);
            let seen = [VALUE, LOAD, CONTROL, RAW].map(|address| devices.read(address));
            let expected = [slow.value, slow.load, slow.control, u32::from(slow.raised)];
            assert_eq!(seen, expected, "seed {seed}, tick {tick}");
            match random.below(5) {
                0 => {
                    let load = 1 + random.below(70);
                    devices.write(LOAD, load);
                    (slow.load, slow.value, slow.loading) = (load, load, true);
                }
                1 => {
                    slow.load = 1 + random.below(70);
                    devices.write(BACKGROUND, slow.load);
                }
                2 => {
                    slow.control = random.below(256) & 0xef;
                    devices.write(CONTROL, slow.control);
                }
                3 => {
                    slow.raised = false;
                    devices.write(CLEAR, 0);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn interrupts_are_enabled_forced_and_sent_to_fiq() {
    let mut devices = Devices::new();
    devices.write(VIC + 0x18, 0x31); // soft
    assert_eq!((devices.read(VIC + 8), devices.read(VIC)), (0x31, 0));
    devices.write(VIC + 0x10, 0x11);
    devices.write(VIC + 0x0c, 0x10);
    assert_eq!((devices.read(VIC), devices.read(VIC + 4)), (0x01, 0x10));
    assert_eq!(devices.interrupts(0), (true, true));
    devices.write(VIC + 0x14, 0x01); // enable clear
    devices.write(VIC + 0x1c, 0x10); // soft clear
    assert_eq!((devices.read(VIC + 0x10), devices.read(VIC + 0x18)), (0x10, 0x21));
    assert_eq!(devices.interrupts(0), (false, false));
}

#[test]
fn vectors_are_served_by_priority_and_hold_back_the_lower_ones() {
    let mut devices = Devices::new();
    devices.write(VIC + 0x34, 0xdef0);
    devices.write(VIC + 0x10, 0xe);
    for (slot, line) in [(0, 3), (5, 1)] {
        devices.write(VIC + 0x100 + 4 * slot, 0x1000 + line);
        devices.write(VIC + 0x200 + 4 * slot, 0x20 | line);
    }
    devices.write(VIC + 0x18, 1 << 2); // no vector of its own
    assert_eq!(devices.read(VIC + 0x30), 0xdef0);
    assert_eq!(devices.interrupts(0), (false, false), "in service");
    devices.write(VIC + 0x18, 1 << 1);
    assert_eq!(devices.interrupts(0), (true, false));
    assert_eq!(devices.read(VIC + 0x30), 0x1001);
    // Reading again changes nothing: what is pending is not of higher priority.
    assert_eq!(devices.read(VIC + 0x30), 0x1001);
    devices.write(VIC + 0x18, 1 << 3);
    assert_eq!(devices.read(VIC + 0x30), 0x1003);
    devices.write(VIC + 0x1c, 1 << 3 | 1 << 1);
    devices.write(VIC + 0x30, 0); // end of line 3's
    assert_eq!(devices.interrupts(0), (false, false));
    devices.write(VIC + 0x30, 0); // of line 1's
    assert_eq!(devices.interrupts(0), (false, false), "line 2's is still in service");
    devices.write(VIC + 0x30, 0);
    assert_eq!(devices.interrupts(0), (true, false));
}

#[test]
fn the_receiver_interrupts_at_its_level_and_at_the_timeout() {
    const RECEIVE: u32 = 1 << 4;
    const TIMEOUT: u32 = 1 << 6;
    let mut devices = Devices::new();
    devices.write(VIC + 0x10, UART_BIT);
    devices.write(UART + 0x38, RECEIVE);
    devices.write(UART + 0x2c, 0x70); // FIFOs on; the level is a half, eight characters
    devices.0.input.extend([b'a'; 7]);
    assert_eq!(devices.interrupts(0), (false, false));
    assert_eq!(devices.read(UART + 0x3c), TIMEOUT);
    devices.0.input.push_back(b'b');
    assert_eq!(devices.interrupts(0), (true, false));
    assert_eq!(devices.read(UART), u32::from(b'a'));
    assert_eq!((devices.interrupts(0), devices.read(UART + 0x3c)), ((false, false), TIMEOUT));
    for _ in 0..6 {
        devices.read(UART);
    }
    assert_eq!((devices.read(UART), devices.read(UART + 0x3c)), (u32::from(b'b'), 0));
    assert_eq!(devices.read(UART + 0x18), 0x90);
    // Without FIFOs one character is all there is room for.
    devices.write(UART + 0x2c, 0x60);
    devices.0.input.extend(b"xy");
    assert_eq!(devices.interrupts(0), (true, false));
    assert_eq!(devices.read(UART + 0x18), 0xc0, "full");
    devices.write(UART + 0x44, RECEIVE | TIMEOUT);
    assert_eq!(devices.read(UART + 0x3c), 0);
    assert_eq!(devices.read(UART), u32::from(b'x'));
    assert_eq!(devices.read(UART), u32::from(b'y'));
}

#[test]
fn what_is_sent_in_loopback_is_received() {
    let mut devices = Devices::new();
    devices.write(UART + 0x30, 0x381);
    devices.write(UART, u32::from(b'q'));
    devices.write(UART, u32::from(b'r')); // no room for it
    assert_eq!(devices.read(UART + 4), 8, "overrun");
    assert_eq!(devices.read(UART + 0x3c) & 1 << 10, 1 << 10);
    devices.write(UART + 4, 0);
    assert_eq!((devices.read(UART), devices.read(UART + 4)), (u32::from(b'q'), 0));
    assert!(devices.0.output.is_empty());
}

/// The instrumentation device is ours; docs/board.md describes it.
#[test]
fn a_name_holds_64_characters_of_latin_1() {
    let mut device = Instrumentation::new(1, 1);
    for _ in 0..70 {
        device.write(0x2c, 0xe9, 0, 0);
    }
    device.write(0x30, 3, 0, 0);
    assert_eq!(device.phase_name(3), "\u{e9}".repeat(64));
}
