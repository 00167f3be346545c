//! The devices of QEMU's `virt` by their manuals: GICv2 (ARM IHI 0048B), generic timers (ARM DDI
//! 0406C, B8).

use mmulab_machine::BoardKind;
use mmulab_system::board::{Board, Timer};

const DISTRIBUTOR: u32 = 0x0800_0000;
const TYPE: u32 = DISTRIBUTOR + 0x004;
const IMPLEMENTER: u32 = DISTRIBUTOR + 0x008;
const GROUP: u32 = DISTRIBUTOR + 0x080;
const ENABLE: u32 = DISTRIBUTOR + 0x100;
const DISABLE: u32 = DISTRIBUTOR + 0x180;
const PENDING: u32 = DISTRIBUTOR + 0x200;
const NOT_PENDING: u32 = DISTRIBUTOR + 0x280;
const ACTIVE: u32 = DISTRIBUTOR + 0x300;
const PRIORITY: u32 = DISTRIBUTOR + 0x400;
const TARGET: u32 = DISTRIBUTOR + 0x800;
const CONFIGURATION: u32 = DISTRIBUTOR + 0xc00;
const GENERATE: u32 = DISTRIBUTOR + 0xf00;
const INTERFACE: u32 = 0x0801_0000;
const PRIORITY_MASK: u32 = INTERFACE + 0x04;
const BINARY_POINT: u32 = INTERFACE + 0x08;
const ACKNOWLEDGE: u32 = INTERFACE + 0x0c;
const END: u32 = INTERFACE + 0x10;
const RUNNING: u32 = INTERFACE + 0x14;
const HIGHEST: u32 = INTERFACE + 0x18;
const ACKNOWLEDGE_1: u32 = INTERFACE + 0x20;
const DEACTIVATE: u32 = INTERFACE + 0x1000;
const UART: u32 = 0x0900_0000;

const NONE: u32 = 1023;
const VIRTUAL_TIMER: u32 = 27;
const PHYSICAL_TIMER: u32 = 30;

/// Core cycles of one tick of the counter.
const TICK: u64 = 14;

struct Devices(Board);

impl Devices {
    /// A board with all interrupts let through.
    fn new(cores: usize) -> Devices {
        let kind = BoardKind::Virt { timer_hz: 1_000_000 };
        let mut devices = Devices(Board::new(kind, TICK * 1_000_000, cores));
        devices.write(0, DISTRIBUTOR, 3);
        for core in 0..cores {
            devices.write(core, INTERFACE, 1);
            devices.write(core, PRIORITY_MASK, 0xff);
        }
        devices
    }

    fn read(&mut self, core: usize, address: u32) -> u32 {
        self.0.core = core;
        self.0.read(address, 0)
    }

    fn write(&mut self, core: usize, address: u32, value: u32) {
        self.0.core = core;
        self.0.write(address, value, !0, 0);
    }

    fn write_byte(&mut self, core: usize, address: u32, value: u32) {
        let shift = 8 * (address & 3);
        self.0.core = core;
        self.0.write(address, value << shift, 0xff << shift, 0);
    }

    /// An interrupt of this priority that software makes pending, for core 0.
    fn raise(&mut self, id: u32, priority: u32) {
        self.write_byte(0, PRIORITY + id, priority);
        self.write_byte(0, TARGET + id, 1);
        self.write(0, ENABLE + id / 32 * 4, 1 << (id % 32));
        self.write(0, PENDING + id / 32 * 4, 1 << (id % 32));
    }

    fn irq(&mut self, core: usize) -> bool {
        let now = self.0.now;
        self.0.interrupts(core, now).irq
    }
}

#[test]
fn registers_after_reset() {
    let mut devices = Devices(Board::new(BoardKind::Virt { timer_hz: 1 }, 1, 4));
    for (address, value) in [
        (DISTRIBUTOR, 0),
        // Four cores, 288 interrupts.
        (TYPE, 3 << 5 | 8),
        (IMPLEMENTER, 0x43b),
        (GROUP, 0),
        (ENABLE, 0xffff),
        (ENABLE + 4, 0),
        (PENDING, 0),
        (PRIORITY, 0),
        (TARGET, 0x0101_0101),
        (TARGET + 32, 0),
        (CONFIGURATION, 0xaaaa_aaaa),
        (CONFIGURATION + 4, 0),
        (INTERFACE, 0),
        (PRIORITY_MASK, 0),
        (BINARY_POINT, 0),
        (INTERFACE + 0x1c, 1),
        (ACKNOWLEDGE, NONE),
        (RUNNING, 0xff),
        (HIGHEST, NONE),
        (DISTRIBUTOR + 0xfe8, 0x2b),
        (INTERFACE + 0xfc, 0x0002_043b),
    ] {
        assert_eq!(devices.read(0, address), value, "{address:#x}");
    }
}

#[test]
fn the_higher_priority_preempts_and_equal_ones_wait() {
    let mut devices = Devices::new(1);
    devices.raise(40, 0x80);
    assert!(devices.irq(0));
    assert_eq!(devices.read(0, HIGHEST), 40);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 40);
    // Active, no longer pending; the same priority does not preempt it (3.3.2).
    assert_eq!(devices.read(0, ACTIVE + 4), 1 << 8);
    assert_eq!((devices.read(0, PENDING + 4), devices.read(0, RUNNING)), (0, 0x80));
    devices.raise(41, 0x80);
    assert!(!devices.irq(0));
    assert_eq!((devices.read(0, HIGHEST), devices.read(0, ACKNOWLEDGE)), (41, NONE));
    devices.raise(50, 0x40);
    assert!(devices.irq(0));
    assert_eq!((devices.read(0, ACKNOWLEDGE), devices.read(0, RUNNING)), (50, 0x40));
    devices.write(0, END, 50);
    assert_eq!(devices.read(0, RUNNING), 0x80);
    devices.write(0, END, 40);
    assert_eq!((devices.read(0, RUNNING), devices.read(0, ACKNOWLEDGE)), (0xff, 41));
}

#[test]
fn the_binary_point_decides_what_preempts() {
    let mut devices = Devices::new(1);
    devices.raise(40, 0x84);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 40);
    devices.raise(41, 0x80);
    assert!(devices.irq(0));
    // Bits 7 to 3 are the group: both are of group 0x80 (table 3-2).
    devices.write(0, BINARY_POINT, 2);
    devices.write(0, END, 40);
    devices.raise(40, 0x84);
    devices.write(0, DISABLE + 4, 1 << 9);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 40);
    devices.write(0, ENABLE + 4, 1 << 9);
    assert!(!devices.irq(0));
    assert_eq!(devices.read(0, RUNNING), 0x80);
}

#[test]
fn the_priority_mask_holds_back_what_is_not_above_it() {
    let mut devices = Devices::new(1);
    devices.raise(40, 0x80);
    for (mask, passes) in [(0x80, false), (0x81, true), (0, false)] {
        devices.write(0, PRIORITY_MASK, mask);
        assert_eq!(devices.irq(0), passes, "{mask:#x}");
        assert_eq!(devices.read(0, HIGHEST), if passes { 40 } else { NONE });
    }
}

#[test]
fn software_generated_interrupts_tell_their_senders() {
    let mut devices = Devices::new(4);
    // From 2 and 3 to 1; from 0 to all others; from 1 to itself.
    devices.write(2, GENERATE, 2 << 16 | 5);
    devices.write(3, GENERATE, 2 << 16 | 5);
    devices.write(0, GENERATE, 1 << 24 | 6);
    devices.write(1, GENERATE, 2 << 24 | 7);
    let irqs: Vec<bool> = (0..4).map(|core| devices.irq(core)).collect();
    assert_eq!(irqs, [false, true, true, true]);
    // Of one core the senders come one by one, the lowest number first.
    for expected in [2 << 10 | 5, 3 << 10 | 5, 6, 1 << 10 | 7] {
        assert_eq!(devices.read(1, ACKNOWLEDGE), expected);
        assert_eq!(devices.read(1, ACKNOWLEDGE), NONE);
        devices.write(1, END, expected);
    }
    assert_eq!(devices.read(1, ACKNOWLEDGE), NONE);
    assert_eq!(devices.read(2, ACKNOWLEDGE), 6);
    // A pending one can be taken back, sender by sender (4.3.16).
    devices.write(1, GENERATE, 8 << 16 | 9);
    assert_eq!(devices.read(3, DISTRIBUTOR + 0xf28) >> 8, 2);
    devices.write_byte(3, DISTRIBUTOR + 0xf19, 2);
    assert_eq!(devices.read(3, PENDING) & 1 << 9, 0);
}

#[test]
fn a_shared_interrupt_goes_to_its_targets() {
    let mut devices = Devices::new(4);
    devices.raise(100, 0x10);
    devices.write_byte(0, TARGET + 100, 0b0110);
    let irqs: Vec<bool> = (0..4).map(|core| devices.irq(core)).collect();
    assert_eq!(irqs, [false, true, true, false]);
    // The first that takes it has it alone (1-N model, 3.1.2).
    assert_eq!((devices.read(2, ACKNOWLEDGE), devices.read(1, ACKNOWLEDGE)), (100, NONE));
    assert!(!devices.irq(1));
}

#[test]
fn groups_are_signalled_and_taken_apart() {
    let mut devices = Devices::new(1);
    devices.write(0, GROUP + 4, 1 << 8);
    devices.raise(40, 0x10);
    assert!(!devices.irq(0), "group 1 is not enabled at the interface");
    // Both groups, group 0 as FIQ.
    devices.write(0, INTERFACE, 0b1011);
    assert!(devices.irq(0));
    assert_eq!(devices.read(0, HIGHEST), 1022);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 1022);
    assert_eq!(devices.read(0, ACKNOWLEDGE_1), 40);
    devices.raise(41, 0x08);
    let lines = devices.0.interrupts(0, 0);
    assert!(lines.fiq && !lines.irq);
    assert_eq!(devices.read(0, ACKNOWLEDGE_1), NONE);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 41);
}

#[test]
fn the_end_can_be_split() {
    let mut devices = Devices::new(1);
    devices.write(0, INTERFACE, 1 << 9 | 1);
    devices.raise(40, 0x10);
    assert_eq!(devices.read(0, ACKNOWLEDGE), 40);
    devices.write(0, END, 40);
    assert_eq!((devices.read(0, RUNNING), devices.read(0, ACTIVE + 4)), (0xff, 1 << 8));
    devices.raise(40, 0x10);
    assert!(!devices.irq(0), "it is active");
    devices.write(0, DEACTIVATE, 40);
    assert!(devices.irq(0));
}

#[test]
fn a_level_stays_pending_and_an_edge_does_not() {
    for edge in [false, true] {
        let mut devices = Devices::new(1);
        devices.write(0, CONFIGURATION + 8, u32::from(edge) << 3);
        devices.write(0, ENABLE + 4, 2);
        // The transmit interrupt of the UART.
        devices.write(0, UART + 0x38, 1 << 5);
        devices.write(0, UART, 0);
        assert!(devices.irq(0));
        assert_eq!(devices.read(0, ACKNOWLEDGE), 33);
        devices.write(0, END, 33);
        assert_eq!(devices.irq(0), !edge);
        devices.write(0, NOT_PENDING + 4, 2);
        assert_eq!(devices.read(0, PENDING + 4), if edge { 0 } else { 2 });
        devices.write(0, UART + 0x44, 1 << 5);
        assert!(!devices.irq(0));
    }
}

#[test]
fn timers_interrupt_their_core_when_the_counter_reaches_the_value() {
    for (timer, id) in [(Timer::Virtual, VIRTUAL_TIMER), (Timer::Physical, PHYSICAL_TIMER)] {
        let mut devices = Devices::new(2);
        devices.write(1, ENABLE, 1 << id);
        devices.0.now = 3 * TICK + 1;
        let timers = devices.0.generic_timers().expect("the board has them");
        timers.set_value(1, timer, 5, 3 * TICK + 1);
        assert_eq!(timers.compare(1, timer), 8);
        timers.set_control(1, timer, 1);
        assert_eq!((timers.control(1, timer, 0), timers.value(1, timer, 10 * TICK)), (1, !0 - 1));
        assert_eq!(devices.0.next_event(), Some(8 * TICK));
        assert!(!devices.0.interrupts(1, 8 * TICK - 1).irq);
        assert!(devices.0.interrupts(1, 8 * TICK).irq);
        assert!(!devices.0.interrupts(0, 8 * TICK).irq);
        assert_eq!(devices.0.next_event(), None, "nothing more comes by itself");
        assert_eq!(devices.read(1, ACKNOWLEDGE), id);
        let timers = devices.0.generic_timers().expect("the board has them");
        assert_eq!(timers.control(1, timer, 8 * TICK), 5);
        // Masked, it is met and does not interrupt; later than now, it is not met.
        timers.set_control(1, timer, 3);
        assert_eq!(timers.control(1, timer, 8 * TICK), 7);
        assert!(!timers.interrupt(1, timer, 8 * TICK));
        timers.set_control(1, timer, 1);
        timers.set_value(1, timer, 1, 8 * TICK);
        assert!(!timers.interrupt(1, timer, 9 * TICK - 1) && timers.interrupt(1, timer, 9 * TICK));
        // A compare value that the counter never reaches.
        timers.set_compare(1, timer, u64::MAX);
        assert!(!timers.interrupt(1, timer, u64::MAX / 2));
        assert_eq!(devices.0.next_event(), None);
    }
}
