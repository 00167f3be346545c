//! A run that was saved and restored goes on as if nothing had happened: random guests on every
//! kind of machine end in the same state, byte by byte, whether they were saved on the way,
//! restored, or neither.

use std::path::PathBuf;

use mmulab_arm::{CacheKind, CoherentCaches, System, VirtualCaches};
use mmulab_hardware::Random;
use mmulab_machine::SystemMachine;
use mmulab_state::{Damaged, Restorer, SavedState, Saver, State};
use mmulab_system::timeline::Timeline;
use mmulab_system::{Loaded, SavePoint, Stop, Transcript};

use crate::support;

/// Virtual addresses; RAM begins at the first, and the sections behind it are where it has them.
const TABLE: u32 = 0x4000;
const CODE: u32 = 0x1_0000;
/// Two descriptors for the section at 4 MB, which the guest exchanges.
const DESCRIPTORS: u32 = 0x3000;

/// The table of the pages at 44 MB.
const PAGES: u32 = 0x3400;

const ALWAYS: u32 = 0xe000_0000;

/// A guest that executes random instructions in a circle.
struct Guest {
    random: Random,
    has_thumb: bool,
    words: Vec<u32>,
}

impl Guest {
    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound)
    }

    fn put(&mut self, words: &[u32]) {
        self.words.extend_from_slice(words);
    }

    /// R7 = part of a register's value, a multiple of four below 1 MB.
    fn offset(&mut self) {
        let from = self.below(7);
        // MOV r7, from, LSR #12; BIC r7, r7, #3.
        self.put(&[0xe1a0_7620 | from, 0xe3c7_7003]);
    }

    /// A register with an address of data, cached, cached, cached again by another address, or
    /// uncached.
    fn base(&mut self) -> u32 {
        8 + self.below(4)
    }

    /// One or a few instructions of some kind.
    fn step(&mut self) {
        let (rd, rn, rm, base) = (self.below(7), self.below(7), self.below(7), self.base());
        match self.below(30) {
            0..=5 => {
                let (operation, shift, flags) = (self.below(8), self.below(32), self.below(2));
                let condition = if self.below(2) == 0 { ALWAYS } else { self.below(14) << 28 };
                let operands = rn << 16 | rd << 12 | shift << 7 | self.below(4) << 5 | rm;
                self.put(&[condition | operation << 21 | flags << 20 | operands]);
            }
            6..=11 => {
                self.offset();
                // LDR, STR, LDRB or STRB rd, [base, r7].
                let kind =
                    [0xe790_0007, 0xe780_0007, 0xe7d0_0007, 0xe7c0_0007][self.below(4) as usize];
                self.put(&[kind | base << 16 | rd << 12]);
            }
            12 => {
                let (kind, list) = (self.below(2) << 20, self.below(0x7f) + 1);
                self.put(&[0xe880_0000 | kind | base << 16 | list]);
            }
            13..=15 => {
                self.offset();
                // ADD r7, base, r7; then an operation on caches, TLBs or buffers with R7.
                let operations = [
                    (7, 10, 1),
                    (7, 6, 1),
                    (7, 14, 1),
                    (7, 5, 1),
                    (7, 5, 0),
                    (7, 10, 4),
                    (7, 5, 4),
                    (7, 10, 5),
                    (7, 11, 1),
                    (8, 7, 0),
                    (8, 7, 1),
                    (8, 6, 1),
                    (8, 3, 1),
                ];
                let (n, m, opcode_2) = operations[self.below(operations.len() as u32) as usize];
                self.put(&[0xe080_7007 | base << 16, support::mcr(0, 7, n, m, opcode_2)]);
            }
            16 => self.put(&[0xef00_0000]), // SVC
            24 => {
                // MOV rd, r13 or r14; ADD r13, r13, rn: registers that modes have of their own.
                let own = 13 + self.below(2);
                self.put(&[0xe1a0_0000 | rd << 12 | own, 0xe08d_d000 | rn]);
            }
            25 => {
                // D0 from two registers, added, and back, FPSCR; the XScale's accumulator.
                let more = [
                    &[0xec41_0b10, 0xee30_0b01, 0xeeb0_1b40][..],
                    &[0xec53_2b10, 0xeef1_4a10],
                    &[0xeee1_5a10, 0xee00_6a90],
                    &[0xec41_0000, 0xee20_1012],
                    &[0xec51_0000],
                ];
                let chosen = self.below(more.len() as u32) as usize;
                self.put(more[chosen]);
            }
            26..=27 => {
                // A register of the performance monitor, of the timers or of the TLB's memory.
                let registers = [
                    (0, 9, 12, 0),
                    (0, 9, 12, 1),
                    (0, 9, 12, 3),
                    (0, 9, 12, 5),
                    (0, 9, 13, 0),
                    (0, 9, 13, 1),
                    (0, 9, 13, 2),
                    (0, 9, 14, 0),
                    (0, 9, 14, 1),
                    (0, 14, 0, 0),
                    (0, 14, 1, 0),
                    (3, 15, 4, 2),
                    (3, 15, 0, 0),
                    (3, 15, 0, 1),
                ];
                let (opcode_1, n, m, opcode_2) = registers[self.below(14) as usize];
                let written = support::mcr(opcode_1, rn, n, m, opcode_2);
                let read = support::mrc(opcode_1, rd, n, m, opcode_2);
                let access = if self.below(2) == 0 { written } else { read };
                self.put(&[access]);
            }
            28 => {
                // Lockdown, or the read buffer: of a small number, or of an address.
                self.offset();
                let operand = if self.below(2) == 0 {
                    0xe200_7003 | rn << 16
                } else {
                    0xe080_7007 | base << 16
                };
                let (n, m) =
                    [(9, 0), (9, 1), (9, 2), (10, 0), (10, 4), (10, 8)][self.below(6) as usize];
                let opcode_2 = self.below(2);
                self.put(&[operand, support::mcr(0, 7, n, m, opcode_2)]);
            }
            29 => {
                // Words of twelve sections, more than a micro TLB has entries: MOV r7, #32 MB; LDR,
                // ADD of 1 MB.
                self.put(&[0xe3a0_7402]);
                self.put(&[0xe597_0000 | rd << 12, 0xe287_7601].repeat(12));
                // And of six pages: MOV r7, #44 MB; LDR, ADD of 4 KB.
                self.put(&[0xe3a0_750b]);
                self.put(&[0xe597_0000 | rd << 12, 0xe287_7a01].repeat(6));
            }
            17 => self.put(&[0xe3a0_7606, 0xe597_0000]), // a load from 6 MB, where nothing is mapped
            18 => {
                // MSR cpsr_c: another mode, interrupts masked.
                let mode = [0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f][self.below(6) as usize];
                self.put(&[0xe321_f0c0 | mode]);
            }
            19 if self.has_thumb => {
                // To Thumb state, two additions, and back.
                self.put(&[0xe28f_7001, 0xe12f_ff17, 0x1889_1840, 0x46c0_4778]);
            }
            20 => {
                // A phase, an event or the time; AND r7, rn, #3.
                self.put(&[0xe200_7003 | rn << 16]);
                let access = [0xe58c_7018, 0xe58c_7020, 0xe59c_0008][self.below(3) as usize];
                self.put(&[access]);
            }
            21 => self.put(&[0xe3a0_0003, 0xe1a0_1008, 0xef12_3456]), // prints a character
            22 => {
                let more: [&[u32]; 7] = [
                    // LDREX r0, [r8] and additions; STREX r1, r2, [r8].
                    &[0xe198_0f9f, 0xe083_3004, 0xe083_3004, 0xe083_3004, 0xe083_3004, 0xe083_3004],
                    &[0xe188_1f92],
                    &[0xf5d8_f040],              // PLD [r8, #64]
                    &[0xe320_f004, 0xe320_f002], // SEV; WFE
                    &[0xe320_f004],              // SEV
                    &[0xe200_7003, 0xee0d_7f30], // address space R0 & 3
                    &[0xee20_1012],              // MIA acc0, r2, r1 (XScale)
                ];
                let chosen = self.below(more.len() as u32) as usize;
                self.put(more[chosen]);
            }
            _ => {
                // The section at 4 MB becomes another one.
                let which = 4 * self.below(2);
                self.put(&[0xe3a0_7a03, 0xe597_0000 | which, 0xe3a0_7901, 0xe587_0010]);
            }
        }
    }

    fn new(seed: u64, has_thumb: bool) -> Guest {
        let mut guest = Guest { random: Random::new(seed), has_thumb, words: Vec::new() };
        // The bases of data, and the instrumentation device, in the registers that FIQ mode has of
        // its own, too. Coprocessors and VFP are on; MVN r7, #0; MOV r7, #1 << 30; VMSR fpexc, r7.
        guest.put(&[0xe3e0_7000, support::mcr(0, 7, 1, 0, 2), support::mcr(0, 7, 15, 1, 0)]);
        guest.put(&[0xe3a0_7101, 0xeee8_7a10]);
        let bases = [0xe3a0_8602, 0xe3a0_9603, 0xe3a0_a604, 0xe3a0_b605];
        let device = [0xe3a0_c201, 0xe38c_c601, 0xe38c_caff];
        for mode in [0x11, 0x13] {
            guest.put(&[0xe321_f0c0 | mode]);
            guest.put(&bases);
            guest.put(&device);
        }
        while guest.words.len() < 1500 {
            guest.step();
        }
        let back = guest.words.len() as u32;
        guest.words.push(0xea00_0000 | (back + 2).wrapping_neg() & 0xff_ffff);
        guest
    }
}

fn put_word<K: CacheKind>(system: &mut System<K>, address: u32, word: u32) {
    let base = system.bus.ram.base();
    system.bus.load(base + address, &word.to_le_bytes());
}

/// A machine with nothing in it.
fn empty<K: CacheKind>(machine: &SystemMachine, checked: bool) -> System<K> {
    let mut system = mmulab_arm::system::<K>(machine).unwrap();
    if checked {
        system.start_checking();
    }
    system
}

/// A machine with a guest that all of its cores execute, translation and caches on.
fn loaded<K: CacheKind>(machine: &SystemMachine, guest: &Guest, checked: bool) -> System<K> {
    let mut system = empty::<K>(machine, false);
    let base = system.bus.ram.base();
    let bytes = guest.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let segments = vec![(base + CODE, bytes)];
    system.load(&Loaded { segments, entry: CODE, ..Loaded::default() });
    // Every exception returns behind the instruction that caused it: MOVS pc, lr; SUBS pc, lr, #4
    // for aborts.
    for vector in 0..8 {
        let word = if matches!(vector, 3..=7) { 0xe25e_f004 } else { 0xe1b0_f00e };
        put_word(&mut system, 4 * vector, word);
    }
    let v7 = machine.coherence.is_some();
    let xscale = machine.name == "ixp425";
    let cached = if v7 { 0x1_1c0e } else { 0xc1e };
    let uncached = if v7 { 0x1c02 } else { 0xc12 };
    for (megabyte, physical, kind) in [
        (0, base, cached),
        (2, base + 0x20_0000, cached),
        (3, base + 0x30_0000, cached),
        (4, base + 0x20_0000, cached),
        // In the mini data cache of the SA-1100 and the XScale, and uncached or written through
        // elsewhere.
        (
            5,
            base + 0x30_0000,
            if v7 {
                uncached
            } else if xscale {
                0x1c1a
            } else {
                0xc1a
            },
        ),
        (0x101, 0x1010_0000, uncached),
    ] {
        put_word(&mut system, TABLE + 4 * megabyte, physical | kind);
    }
    for megabyte in 32..44 {
        put_word(&mut system, TABLE + 4 * megabyte, (base + 0x20_0000) | cached);
    }
    put_word(&mut system, TABLE + 4 * 44, (base + PAGES) | if v7 { 0x1 } else { 0x11 });
    for page in 0..256 {
        let kind = if v7 { 0x47e } else { 0xffe };
        put_word(&mut system, PAGES + 4 * page, (base + 0x20_0000 + 4096 * page) | kind);
    }
    put_word(&mut system, DESCRIPTORS, (base + 0x20_0000) | cached);
    put_word(&mut system, DESCRIPTORS + 4, (base + 0x30_0000) | cached);
    for number in 0..machine.cores as usize {
        if number > 0 && v7 {
            system.bus.turn_on(number, CODE, 0, 0);
        }
        let cpu = system.core_mut(number);
        for register in 0..7 {
            cpu.registers[register] = (register as u32 + 1) * 0x0123_4567 * (number as u32 + 1);
        }
        let registers = &mut cpu.memory.mmu.registers;
        (registers.ttbr, registers.dacr) =
            ((base + TABLE) | if v7 { 0x4a } else { 0 }, 0x5555_5555);
        // The XScale's branch target buffer, too.
        registers.sctlr |= 0x180d;
        cpu.memory.renew_pages();
    }
    if checked {
        system.start_checking();
    }
    system
}

/// The state of a machine.
fn state<K: CacheKind>(system: &System<K>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut saver = Saver::new(&mut bytes);
    system.save(&mut saver);
    saver.finish().unwrap();
    bytes
}

/// A file of this test's own.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("mmulab-saved-states-{}-{name}", std::process::id()))
}

/// What a run came to: its end and result, what it printed, and the machine's state.
#[derive(PartialEq)]
struct End {
    stop: Stop,
    outcome: String,
    text: Vec<u8>,
    state: Vec<u8>,
}

fn run<K: CacheKind>(system: &mut System<K>, mut text: Vec<u8>, limit: u64) -> End {
    let mut host = Transcript::default();
    let stop = system.run(&mut host, limit);
    text.extend(host.text);
    End { stop, outcome: format!("{:?}", system.outcome(stop, 0.0)), text, state: state(system) }
}

fn assert_same(one: &End, other: &End, what: &str) {
    assert_eq!(one.stop, other.stop, "{what}");
    assert_eq!(one.outcome, other.outcome, "{what}");
    assert!(one.text == other.text, "{what}: the console");
    let differs = one.state.iter().zip(&other.state).position(|(one, other)| one != other);
    assert_eq!(
        differs,
        None,
        "{what}: first byte of the state that differs, of {}",
        one.state.len()
    );
    assert_eq!(one.state.len(), other.state.len(), "{what}");
}

/// Runs a guest to the end at once; saved on the way; and restored from there, at eight places.
fn compare<K: CacheKind>(machine: &SystemMachine, seed: u64, checked: bool) {
    let what =
        format!("{} with {} cores, seed {seed}, checked {checked}", machine.name, machine.cores);
    let guest = Guest::new(seed, machine.name != "sa1100");
    let limit = 60_000;
    let reference = run(&mut loaded::<K>(machine, &guest, checked), Vec::new(), limit);
    assert_eq!(reference.stop, Stop::Limit, "{what}: the guest lives on");

    let path = file(&format!("{}-{}-{seed}-{checked}", machine.name, machine.cores));
    let mut saving = loaded::<K>(machine, &guest, checked);
    let mut text = Vec::new();
    let mut random = Random::stream(seed, 1);
    let mut places: Vec<u32> = (0..8).map(|_| random.below(55_000)).collect();
    places.sort_unstable();
    for at in places {
        saving.save_point = SavePoint::Instructions(at.into());
        let middle = run(&mut saving, text, limit);
        assert_eq!(middle.stop, Stop::SavePoint, "{what}");
        text = middle.text;
        saving.save_state(&path, "of a test").unwrap();
        let saved = SavedState::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(saved.header(), "of a test");
        let mut restored = empty::<K>(machine, checked);
        restored.restore_state(&saved).unwrap();
        assert!(state(&restored) == middle.state, "{what}: the state right after it was restored");
        let end = run(&mut restored, text.clone(), limit);
        assert_same(&reference, &end, &format!("{what}, restored at {at}"));
    }
    let end = run(&mut saving, text, limit);
    assert_same(&reference, &end, &format!("{what}, after it was saved"));
}

const SEEDS: std::ops::Range<u64> = 0..4;

fn small(name: &str, cores: &str) -> SystemMachine {
    support::machine(name, &[("memory.size_bytes", "8388608"), ("cores", cores)])
}

#[test]
fn cores_with_virtual_caches_go_on_where_they_were_saved() {
    for name in support::MACHINES {
        for seed in SEEDS {
            compare::<VirtualCaches>(&small(name, "1"), seed, seed % 2 == 1);
        }
    }
    compare::<VirtualCaches>(&small("arm926ej-s", "2"), 7, false);
    compare::<VirtualCaches>(&small("arm926ej-s", "2"), 8, true);
}

#[test]
fn coherent_cores_go_on_where_they_were_saved() {
    for seed in SEEDS {
        for cores in ["1", "2", "4"] {
            compare::<CoherentCaches>(&small("cortex-a7", cores), seed, seed % 2 == 1);
        }
        compare::<CoherentCaches>(&small("gem5-vexpress", "2"), seed, seed % 2 == 0);
    }
}

/// The state of a machine on the way of a guest, checked, as bytes.
fn some_state<K: CacheKind>(machine: &SystemMachine) -> Vec<u8> {
    let mut system = loaded::<K>(machine, &Guest::new(5, true), true);
    system.run(&mut Transcript::default(), 20_000);
    state(&system)
}

/// What a file holds whose content is `bytes`.
struct Raw(Vec<u8>);

impl State for Raw {
    fn save(&self, to: &mut Saver<'_>) {
        to.put(&self.0);
    }

    fn restore(&mut self, _: &mut Restorer<'_>) -> Result<(), Damaged> {
        unreachable!("it is written only")
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let path = file("damaged");
    let system = empty::<VirtualCaches>(&small("arm926ej-s", "1"), false);
    system.save_state(&path, "of a test").unwrap();
    let right = std::fs::read(&path).unwrap();
    let mut random = Random::new(9);
    for round in 0..400 {
        let mut bytes = right.clone();
        let place = random.below(bytes.len() as u32) as usize;
        match round % 3 {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes.truncate(place),
            _ => bytes.push(0),
        }
        std::fs::write(&path, &bytes).unwrap();
        assert!(SavedState::read(&path).is_err(), "round {round}, place {place}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn whole_files_of_all_that_save_at_once_get_the_name() {
    let path = file("at-once");
    for round in 0..50 {
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (path, raw) = (&path, Raw(vec![number; 100_000]));
                scope.spawn(move || mmulab_state::save(path, "", &raw).unwrap());
            }
        });
        assert!(SavedState::read(&path).is_ok(), "round {round}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// A file whose checksum is right and whose content is not was forged. It is restored or refused,
/// but nothing breaks.
fn forge<K: CacheKind>(machine: &SystemMachine) {
    let path = file(&format!("forged-{}", machine.name));
    let right = some_state::<K>(machine);
    let mut random = Random::new(11);
    let mut refused = 0;
    for round in 0..60 {
        let mut bytes = right.clone();
        for _ in 0..random.below(20) + 1 {
            let place = random.below(bytes.len() as u32) as usize;
            bytes[place] = random.below(256) as u8;
        }
        if round % 4 == 0 {
            bytes.truncate(random.below(bytes.len() as u32) as usize);
        }
        mmulab_state::save(&path, "", &Raw(bytes)).unwrap();
        let saved = SavedState::read(&path).unwrap();
        refused += u32::from(empty::<K>(machine, true).restore_state(&saved).is_err());
    }
    assert!(refused >= 15, "what ends too early is refused: {refused}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_forged_state_breaks_nothing_while_it_is_read() {
    forge::<VirtualCaches>(&small("ixp425", "1"));
    forge::<CoherentCaches>(&small("cortex-a7", "2"));
}

#[test]
fn a_state_of_another_machine_is_refused() {
    let path = file("another");
    let machine = small("arm926ej-s", "1");
    empty::<VirtualCaches>(&machine, false).save_state(&path, "").unwrap();
    let saved = SavedState::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let refusal = |machine: &SystemMachine, checked: bool| {
        let refused = empty::<VirtualCaches>(machine, checked).restore_state(&saved);
        refused.unwrap_err().to_string()
    };
    assert!(refusal(&machine, true).contains("was saved with the checker off"));
    let mut smaller = machine.clone();
    smaller.memory.size_bytes /= 2;
    assert!(refusal(&smaller, false).contains("a machine of another shape"));
}

/// The events of a timeline but for counters and loops over lines, each with its core and the cycle
/// when it begins.
fn events(path: &std::path::Path, clock_hz: u64) -> Vec<(usize, u64, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let number = |line: &str, name: &str| -> Option<f64> {
        let rest = line.split_once(&format!("\"{name}\":"))?.1;
        rest.split([',', '}']).next()?.parse().ok()
    };
    let told = |line: &&str| !line.contains("\"ph\":\"C\"") && !line.contains("line operations");
    let event = |line: &str| {
        let cycle = (number(line, "ts")? * clock_hz as f64 / 1e6).round();
        let line = line.trim_end_matches(',').to_owned();
        Some((number(line.as_str(), "pid")? as usize, cycle as u64, line))
    };
    text.lines().filter(told).filter_map(event).collect()
}

fn compare_timelines<K: CacheKind>(machine: &SystemMachine) {
    let guest = Guest::new(3, true);
    let clock_hz = machine.core.clock_hz;
    let (whole, rest) = (file("whole"), file("rest"));
    let path = file(&format!("timeline-{}", machine.name));
    let record = |system: &mut System<K>, to: &std::path::Path| {
        let timeline = Timeline::create(to, clock_hz, machine.cores as usize).unwrap();
        system.start_timeline(timeline);
    };
    let mut saving = loaded::<K>(machine, &guest, false);
    record(&mut saving, &whole);
    saving.save_point = SavePoint::Instructions(20_000);
    saving.run(&mut Transcript::default(), 40_000);
    saving.save_state(&path, "").unwrap();
    let mut restored = empty::<K>(machine, false);
    restored.restore_state(&SavedState::read(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let since: Vec<u64> = restored.cores().map(|core| core.memory.now()).collect();
    record(&mut restored, &rest);
    for system in [&mut saving, &mut restored] {
        system.run(&mut Transcript::default(), 40_000);
        system.finish_timeline().unwrap();
    }
    let (whole, rest) = (events(&whole, clock_hz), events(&rest, clock_hz));
    assert!(rest.len() > 100, "{}", rest.len());
    // The slices in which the restored cores are began earlier in the other.
    let later = |(core, cycle, _): &&(usize, u64, String)| *cycle > since[*core] + 1;
    for event in rest.iter().filter(later) {
        assert!(whole.contains(event), "{}: only when restored: {event:?}", machine.name);
    }
    for event in whole.iter().filter(later) {
        assert!(rest.contains(event), "{}: not when restored: {event:?}", machine.name);
    }
}

#[test]
fn a_timeline_of_what_follows_shows_what_follows() {
    compare_timelines::<VirtualCaches>(&small("arm926ej-s", "1"));
    compare_timelines::<CoherentCaches>(&small("cortex-a7", "2"));
}
