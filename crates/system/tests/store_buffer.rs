//! The store buffer: what other cores see of stores that wait for their line, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mmulab_hardware::Random;
use mmulab_machine::{BufferShape, Platform};
use mmulab_system::bus::Bus;
use mmulab_system::checker::Kind;
use mmulab_system::core::Core;
use mmulab_system::memory::CoreMemory;
use mmulab_system::observer::{Load, Observer, Store};
use mmulab_system::{Stop, System, Transcript};

use crate::toy::*;

type Coherent = Toy<true>;

const TABLES: u32 = 0x8000;
const DATA: u32 = 0x2_0000;

fn system(cores: u32, turn: u32, store_lines: u32, code: &[u32]) -> System<Coherent> {
    let base = coherent_platform(cores, turn);
    let buffers = BufferShape { store_lines, outstanding_misses: 2, ..base.buffers.clone() };
    let mut system = System::<Coherent>::new(&(), Platform { buffers, ..base }).unwrap();
    let tables: Vec<(u32, u32)> = (0..0x40)
        .map(|page| (TABLES + 4 * page, page << 12 | VALID | WRITABLE | CACHED | GLOBAL))
        .collect();
    system.load(&image(code, &tables));
    for number in 0..cores as usize {
        system.with_core(number, |core, _| {
            let memory = core.memory_mut();
            memory.mmu.registers = [TABLES, 1, 1, 0];
            memory.renew_pages();
        });
    }
    system
}

fn here(code: &[u32]) -> u32 {
    (START + 4 * code.len() as u32) / 4
}

// ---- Litmus tests ------------------------------------------------------------------------------

const X: u32 = DATA;
const Y: u32 = DATA + 0x400;

/// Core 0 has the line of Y, and stores to X and then to Y; core 1 waits for Y, then ends with X.
fn message_passing(barrier: bool) -> Vec<u32> {
    let mut code = Vec::new();
    for (register, value) in [(1, X), (2, Y), (3, 1), (4, 0)] {
        code.extend(set(register, value));
    }
    code.push(op(NUMBER, 5, 0, 0, 0));
    let reader = code.len();
    code.push(0);
    code.push(op(STORE, 4, 2, 0, 0));
    code.push(op(OPERATE, 0, 0, DRAIN, 0));
    code.push(op(STORE, 3, 1, 0, 0));
    if barrier {
        code.push(op(OPERATE, 0, 0, DRAIN, 0));
    }
    code.push(op(STORE, 3, 2, 0, 0));
    let spin = here(&code);
    code.push(op(BRANCH_NOT_EQUAL, 3, 4, 0, spin));
    // All that the reader executes is in the second level once it has begun.
    code.resize(code.len().next_multiple_of(16), 0);
    code[reader] = op(BRANCH_NOT_EQUAL, 5, 4, 0, here(&code));
    let wait = here(&code);
    code.push(op(LOAD, 7, 2, 0, 0));
    code.push(op(BRANCH_NOT_EQUAL, 7, 3, 0, wait));
    code.push(op(LOAD, 6, 1, 0, 0));
    code.push(op(EXIT, 6, 0, 0, 0));
    code
}

#[test]
fn a_message_may_come_before_its_contents_without_a_barrier_and_never_with_one() {
    let run = |barrier, turn, store_lines| {
        let code = message_passing(barrier);
        let place = code.iter().position(|&word| word == op(STORE, 3, 1, 0, 0)).unwrap();
        let store_to_x = START + 4 * place as u32;
        let mut system = system(2, turn, store_lines, &code);
        system.start_checking();
        let stop = system.run(&mut Transcript::default(), 100_000);
        // That the stores were seen in the other order is reported, and nothing else.
        let reports = system.reports();
        assert_eq!(reports.len(), usize::from(stop == Stop::Exit(0)), "{reports:?}");
        for report in reports {
            assert_eq!((report.kind, report.core, report.since_core), (Kind::MissingBarrier, 1, 0));
            assert_eq!((report.address, report.since), (X, store_to_x));
            assert!(report.missing.starts_with("DMB"), "{}", report.missing);
        }
        stop
    };
    let turns = [1, 2, 3, 5, 8, 13];
    let without: Vec<Stop> = turns.iter().map(|&turn| run(false, turn, 4)).collect();
    assert!(without.contains(&Stop::Exit(0)), "{without:?}");
    for turn in turns {
        assert_eq!(run(true, turn, 4), Stop::Exit(1), "turns of {turn}");
        assert_eq!(run(false, turn, 0), Stop::Exit(1), "without a store buffer, turns of {turn}");
    }
}

#[test]
fn both_cores_may_miss_the_others_store_without_barriers_and_never_with_them() {
    // Each core stores to its own word, of which both have copies, and loads the other's.
    for (barrier, expected) in [(false, [0, 0]), (true, [0, 1])] {
        let mut system = system(2, 100, 4, &[]);
        system.start_checking();
        for (number, address) in [(0, X), (0, Y), (1, X), (1, Y)] {
            system
                .with_core(number, |core, bus| core.memory_mut().load_word(bus, address))
                .unwrap();
        }
        let loaded = [(0, X, Y), (1, Y, X)].map(|(number, own, other)| {
            system.with_core(number, |core, bus| {
                let memory = core.memory_mut();
                memory.store_word(bus, own, 1).unwrap();
                if barrier {
                    memory.drain_write_buffer(bus);
                }
                memory.load_word(bus, other).unwrap()
            })
        });
        assert_eq!(loaded, expected, "barrier: {barrier}");
        assert!(system.reports().is_empty(), "{:?}", system.reports());
    }
}

#[test]
fn a_swap_and_an_exclusive_store_do_not_wait() {
    // Both cores have copies of the line, so that a plain store waits for its upgrade.
    for (kind, expected) in [("plain", 0), ("swap", 1), ("exclusive", 1)] {
        let mut system = system(2, 100, 4, &[]);
        for number in 0..2 {
            system.with_core(number, |core, bus| core.memory_mut().load_word(bus, X)).unwrap();
        }
        system.with_core(0, |core, bus| {
            let memory = core.memory_mut();
            match kind {
                "exclusive" => {
                    memory.load_exclusive(bus, X, 4).unwrap();
                    assert!(memory.store_exclusive(bus, X, 4, 1).unwrap());
                }
                _ => {
                    if kind == "swap" {
                        memory.begin_swap(bus, X, 4).unwrap();
                    }
                    memory.load_word(bus, X).unwrap();
                    memory.store_word(bus, X, 1).unwrap();
                }
            }
        });
        let seen = system.with_core(1, |core, bus| core.memory_mut().load_word(bus, X)).unwrap();
        assert_eq!(seen, expected, "{kind}");
        // Who looks on sees what the core itself would load.
        for (number, expected) in [(0, 1), (1, expected)] {
            let byte = system.with_core(number, |core, bus| core.memory_mut().peek(bus, X));
            assert_eq!(byte, Some(expected as u8), "{kind}, core {number}");
        }
    }
}

#[test]
fn two_cores_that_store_to_one_line_both_get_there() {
    // Each stores to its own word of one line until it has counted to 40; core 0 ends with both.
    let mut code = Vec::new();
    for (register, value) in [(1, X), (3, 1), (4, 0), (6, 40)] {
        code.extend(set(register, value));
    }
    code.push(op(NUMBER, 5, 0, 0, 0));
    code.extend([op(ADD, 2, 5, 5, 0), op(ADD, 2, 2, 2, 0), op(ADD, 2, 2, 1, 0)]);
    let again = here(&code);
    code.push(op(ADD, 7, 7, 3, 0));
    code.push(op(STORE, 7, 2, 0, 0));
    code.push(op(BRANCH_NOT_EQUAL, 7, 6, 0, again));
    let wait = here(&code);
    code.push(op(BRANCH_NOT_EQUAL, 5, 4, 0, wait));
    code.push(op(LOAD, 8, 1, 0, 4));
    code.push(op(BRANCH_NOT_EQUAL, 8, 6, 0, wait));
    code.push(op(LOAD, 9, 1, 0, 0));
    code.push(op(ADD, 8, 8, 9, 0));
    code.push(op(EXIT, 8, 0, 0, 0));
    for turn in [1, 2, 3, 7, 50] {
        for store_lines in [0, 1, 4] {
            let mut system = system(2, turn, store_lines, &code);
            system.start_checking();
            let stop = system.run(&mut Transcript::default(), 100_000);
            assert_eq!(stop, Stop::Exit(80), "turns of {turn}, {store_lines} lines");
            assert!(system.reports().is_empty(), "{:?}", system.reports());
        }
    }
}

// ---- Random programs ---------------------------------------------------------------------------

/// What all cores see, kept by who looks on: stores count when they are performed.
#[derive(Default)]
struct Seen {
    words: BTreeMap<u32, u32>,
    /// Stores that each core has executed and not performed.
    /// With their places in the order of execution.
    waiting: BTreeMap<usize, Vec<(usize, Store)>>,
    executed: usize,
    /// The store that each word is of: core and place.
    latest: BTreeMap<u32, (usize, usize)>,
    /// The latest store of one core that another has loaded from.
    known: BTreeMap<(usize, usize), usize>,
    /// Stores that waited when one behind them had been loaded from, and then their own word.
    passed: BTreeSet<u32>,
    put_off: usize,
    overtaken: usize,
    loads: usize,
}

#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Seen>>);

impl Seen {
    fn apply(&mut self, core: usize, number: usize, store: &Store) {
        self.latest.insert(store.physical & !3, (core, number));
        let word = self.words.entry(store.physical & !3).or_default();
        *word = *word & !store.mask | store.value & store.mask;
    }
}

impl Observer<Coherent> for Witness {
    fn loaded(&mut self, core: &CoreMemory<Coherent>, _: &Bus<Coherent>, load: &Load) {
        let seen = &mut *self.0.lock().unwrap();
        if load.physical < DATA {
            return;
        }
        seen.loads += 1;
        let word = seen.words.get(&(load.physical & !3)).copied().unwrap_or(0);
        assert_eq!(load.word, word, "core {} at {:#x}", core.number, load.physical);
        if let Some(&(writer, number)) = seen.latest.get(&(load.physical & !3)) {
            let known = seen.known.entry((core.number, writer)).or_default();
            *known = number.max(*known);
        }
        for (writer, waiting) in seen.waiting.iter().filter(|(writer, _)| **writer != core.number) {
            let known = seen.known.get(&(core.number, *writer)).copied().unwrap_or(0);
            let own = waiting.iter().filter(|(_, store)| store.physical & !3 == load.physical & !3);
            seen.passed.extend(own.filter(|(number, _)| *number < known).map(|(_, one)| one.pc));
        }
        let own = seen.waiting.entry(core.number).or_default();
        let passes = own.iter().any(|(_, store)| store.physical & !63 == load.physical & !63);
        assert!(!passes, "core {} has not its own store to {:#x}", core.number, load.physical);
    }

    fn storing(&mut self, core: &CoreMemory<Coherent>, _: &Bus<Coherent>, store: &Store) {
        let seen = &mut *self.0.lock().unwrap();
        let own = seen.waiting.entry(core.number).or_default();
        let same_line = |one: &Store| one.physical & !63 == store.physical & !63;
        assert!(own.iter().all(|(_, one)| !same_line(one)), "order in a line");
        seen.overtaken += usize::from(!own.is_empty());
        seen.executed += 1;
        seen.apply(core.number, seen.executed, store);
    }

    fn putting_off(&mut self, core: &CoreMemory<Coherent>, _: &Bus<Coherent>, store: &Store) {
        let seen = &mut *self.0.lock().unwrap();
        seen.executed += 1;
        let number = seen.executed;
        seen.waiting.entry(core.number).or_default().push((number, *store));
        seen.put_off += 1;
    }

    fn performing(&mut self, core: &CoreMemory<Coherent>, _: &Bus<Coherent>, store: &Store) {
        let seen = &mut *self.0.lock().unwrap();
        let own = seen.waiting.entry(core.number).or_default();
        let first = own.iter().position(|(_, one)| one.physical & !63 == store.physical & !63);
        let (number, waited) = own.remove(first.unwrap());
        assert_eq!(waited, *store, "once, and in program order of its line");
        seen.apply(core.number, number, store);
    }
}

/// Loads, stores and exclusive stores to a few lines, and now and then a barrier, in a loop; each
/// core enters it somewhere else.
fn random_program(random: &mut Random) -> Vec<u32> {
    let mut code = Vec::new();
    for register in 0..8 {
        code.extend(set(register, DATA + 64 * random.below(12)));
    }
    code.push(op(NUMBER, 12, 0, 0, 0));
    code.extend(set(13, 60));
    let again = here(&code);
    for _ in 0..90 {
        let (value, base) = (8 + random.below(4), random.below(8));
        let offset = 4 * random.below(3);
        code.push(match random.below(12) {
            0..4 => op(LOAD, value, base, 0, offset),
            4..9 => op(STORE, value, base, 0, offset),
            9 => op(LOAD_EXCLUSIVE, value, base, 0, offset),
            10 => op(STORE_EXCLUSIVE, value, base, 15, offset),
            _ if random.below(3) == 0 => op(OPERATE, 0, 0, DRAIN, 0),
            _ => op(ADD, value, value, 12, random.below(99)),
        });
    }
    code.extend(set(15, !0));
    code.push(op(ADD, 13, 13, 15, 0));
    code.extend(set(15, 0));
    code.push(op(BRANCH_NOT_EQUAL, 13, 15, 0, again));
    code.push(op(OPERATE, 0, 0, DRAIN, 0));
    // Nobody sends one.
    code.push(op(WAIT_FOR_EVENT, 0, 0, 0, 0));
    code
}

#[test]
fn each_load_gives_the_store_performed_last_and_each_store_is_performed_once() {
    let mut all = Seen::default();
    for seed in 0..80 {
        let mut random = Random::stream(5, seed);
        let cores = 1 + random.below(4);
        let turn = [1, 2, 5, 20, 100][random.below(5) as usize];
        let store_lines = [1, 2, 4][random.below(3) as usize];
        let code = random_program(&mut random);
        let run = |look: &dyn Fn(&mut System<Coherent>)| {
            let mut system = system(cores, turn, store_lines, &code);
            look(&mut system);
            assert_eq!(system.run(&mut Transcript::default(), 1_000_000), Stop::Deadlock);
            system.bus.check_coherence().unwrap();
            system
        };
        let witness = Witness::default();
        let looked_at = run(&|system| system.attach(Box::new(witness.clone())));
        let seen = std::mem::take(&mut *witness.0.lock().unwrap());
        assert!(seen.waiting.values().all(Vec::is_empty), "seed {seed}: the last barrier waits");
        // The fast paths do the same in the same time, and the checker finds nothing wrong.
        let fast = run(&|_| ());
        let checked = run(&|system| system.start_checking());
        let reports = checked.reports();
        assert!(reports.iter().all(|report| report.missing.starts_with("DMB")), "{reports:?}");
        let passed: BTreeSet<u32> = reports.iter().map(|report| report.since).collect();
        assert_eq!(passed, seen.passed, "seed {seed}");
        for system in [&fast, &checked] {
            assert_eq!(system.cycles(), looked_at.cycles(), "seed {seed}");
            for (core, one) in system.cores().zip(looked_at.cores()) {
                assert_eq!(core.registers, one.registers, "seed {seed}");
            }
        }
        all.put_off += seen.put_off;
        all.overtaken += seen.overtaken;
        all.loads += seen.loads;
        all.passed.extend(seen.passed);
    }
    assert!(all.put_off > 20_000 && all.overtaken > 10_000 && all.loads > 100_000);
    assert!(all.passed.len() > 10, "{:?}", all.passed);
}
