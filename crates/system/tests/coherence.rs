//! Coherent cores against one flat memory, and programs that depend on coherence.

use mmulab_hardware::Random;
use mmulab_machine::Platform;
use mmulab_system::checker::Kind;
use mmulab_system::coherence::Point;
use mmulab_system::core::Core;
use mmulab_system::maintenance::LineOperation;
use mmulab_system::{Stop, System, Transcript};

use crate::toy::*;

type Coherent = Toy<true>;

const TABLES: u32 = 0x8000;
const DATA: u32 = 0x2_0000;
/// Sixteen pages are translated as they are, from 0; the data is shared by all.
const PAGES: u32 = 0x40;

fn tables() -> Vec<(u32, u32)> {
    let mut words: Vec<(u32, u32)> = (0..PAGES)
        .map(|page| (TABLES + 4 * page, page << 12 | VALID | WRITABLE | CACHED | GLOBAL))
        .collect();
    // Page 0x30 once more at 0x3f, for addresses of which only the page differs.
    words[0x3f].1 = 0x3_0000 | VALID | WRITABLE | CACHED;
    words
}

fn system(platform: Platform, code: &[u32]) -> System<Coherent> {
    let mut system = System::<Coherent>::new(&(), platform).unwrap();
    system.load(&image(code, &tables()));
    for number in 0..system.cores().count() {
        system.with_core(number, |core, _| {
            let memory = core.memory_mut();
            memory.mmu.registers = [TABLES, 1, 1, 0];
            memory.renew_pages();
        });
    }
    system
}

/// What each core does next, at random; the memory is flat and says what each load must give.
struct Flat {
    words: Vec<u32>,
    /// The line that each core's exclusive accesses watch. An exclusive store may fail without
    /// reason where hardware lets it, but not succeed.
    watched: Vec<Option<u32>>,
}

impl Flat {
    fn store(&mut self, core: usize, address: u32, value: u32) {
        self.words[((address - DATA) / 4) as usize] = value;
        let line = address & !63;
        for (other, watched) in self.watched.iter_mut().enumerate() {
            if other != core && *watched == Some(line) {
                *watched = None;
            }
        }
    }
}

fn random_accesses(seed: u64, cores: u32, steps: u32, platform: Platform) -> (u32, u32) {
    let mut system = system(platform, &[]);
    // Without the checker stores take their fast path.
    if seed.is_multiple_of(2) {
        system.start_checking();
    }
    let mut random = Random::new(seed);
    let mut below = |limit: u32| (random.next_u64() % u64::from(limit)) as u32;
    // Three times as many lines as a first level has, few of them often.
    let bytes = 3 * 1024 + 4096;
    let mut flat = Flat { words: vec![0; bytes / 4], watched: vec![None; cores as usize] };
    let (mut stored, mut failed) = (0, 0);
    for step in 0..steps {
        let number = below(cores) as usize;
        let span = if below(4) == 0 { bytes as u32 } else { 256 };
        let address = DATA + below(span / 4) * 4;
        let action = below(20);
        let expected = flat.words[((address - DATA) / 4) as usize];
        let place =
            format!("seed {seed}, step {step}: action {action} at {address:#x}, core {number}");
        system.with_core(number, |core, bus| {
            let memory = core.memory_mut();
            match action {
                0..=7 => assert_eq!(memory.load_word(bus, address), Ok(expected), "{place}"),
                8..=12 => {
                    memory.store_word(bus, address, step).unwrap();
                    flat.store(number, address, step);
                }
                13 => {
                    memory.store_byte(bus, address + 1, step & 0xff).unwrap();
                    flat.store(number, address, expected & !0xff00 | (step & 0xff) << 8);
                }
                14 | 15 => {
                    assert_eq!(memory.load_exclusive(bus, address, 4), Ok(expected), "{place}");
                    flat.watched[number] = Some(address & !63);
                }
                16 | 17 => {
                    let may = flat.watched[number] == Some(address & !63);
                    let did = memory.store_exclusive(bus, address, 4, step).unwrap();
                    assert_eq!(did, may, "{place}");
                    if did {
                        flat.store(number, address, step);
                        stored += 1;
                    } else {
                        failed += 1;
                    }
                    flat.watched[number] = None;
                }
                _ => {
                    // None of these loses data.
                    let operation = match below(2) {
                        0 => LineOperation::Clean,
                        _ => LineOperation::CleanAndInvalidate,
                    };
                    match below(4) {
                        0 => {
                            memory.operate_to(bus, address, operation, Point::Unification).unwrap()
                        }
                        1 => memory.operate_to(bus, address, operation, Point::Coherency).unwrap(),
                        2 => memory.operate_on_slot(bus, below(16) << 6, operation),
                        _ => memory.operate_on_level_2_slot(bus, below(64) << 6, operation),
                    }
                }
            }
        });
        system.bus.check_coherence().unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert!(system.reports().is_empty(), "{:?}", system.reports());
    (stored, failed)
}

#[test]
fn every_load_gives_what_was_stored_last() {
    for seed in 0..12 {
        let cores = 2 + (seed % 3) as u32;
        let (stored, failed) = random_accesses(seed, cores, 4000, coherent_platform(cores, 100));
        assert!(stored > 10 && failed > 100, "{stored} exclusive stores, {failed} failed");
    }
}

#[test]
fn without_a_second_level_too() {
    for seed in 100..104 {
        let platform = Platform { level_2: None, ..coherent_platform(3, 100) };
        random_accesses(seed, 3, 4000, platform);
    }
}

const LOCK: u32 = DATA;
const COUNT: u32 = DATA + 0x100;
const DONE: u32 = DATA + 0x200;

fn here(code: &[u32]) -> u32 {
    (START + 4 * code.len() as u32) / 4
}

/// Each core adds one to a counter under a spin lock, `times` times; core 0 waits for the others
/// and ends with the counter.
fn spin_lock_program(times: u32, cores: u32, locks: bool) -> Vec<u32> {
    let mut code = Vec::new();
    for (register, value) in [(1, LOCK), (2, COUNT), (3, DONE), (4, times), (5, 0), (6, 1)] {
        code.extend(set(register, value));
    }
    let again = here(&code);
    let acquire = here(&code);
    if locks {
        code.push(op(LOAD_EXCLUSIVE, 7, 1, 0, 0));
        code.push(op(BRANCH_NOT_EQUAL, 7, 5, 0, acquire));
        code.push(op(STORE_EXCLUSIVE, 6, 1, 7, 0));
        code.push(op(BRANCH_NOT_EQUAL, 7, 5, 0, acquire));
    }
    code.push(op(LOAD, 8, 2, 0, 0));
    code.push(op(ADD, 8, 8, 6, 0));
    // A turn ends at the end of an instruction line at the earliest: the store is in another one.
    code.extend([op(ADD, 9, 9, 9, 0); 4]);
    code.push(op(STORE, 8, 2, 0, 0));
    if locks {
        code.push(op(STORE, 5, 1, 0, 0));
    }
    code.extend(set(9, !0));
    code.push(op(ADD, 4, 4, 9, 0));
    code.push(op(BRANCH_NOT_EQUAL, 4, 5, 0, again));
    // One more has finished.
    let finish = here(&code);
    code.push(op(LOAD_EXCLUSIVE, 8, 3, 0, 0));
    code.push(op(ADD, 8, 8, 6, 0));
    code.push(op(STORE_EXCLUSIVE, 8, 3, 7, 0));
    code.push(op(BRANCH_NOT_EQUAL, 7, 5, 0, finish));
    code.push(op(SEND_EVENT, 0, 0, 0, 0));
    // Every core waits until all have.
    code.extend(set(10, cores));
    let wait = here(&code);
    code.push(op(WAIT_FOR_EVENT, 0, 0, 0, 0));
    code.push(op(LOAD, 8, 3, 0, 0));
    code.push(op(BRANCH_NOT_EQUAL, 8, 10, 0, wait));
    code.push(op(LOAD, 8, 2, 0, 0));
    code.push(op(EXIT, 8, 0, 0, 0));
    code
}

fn run_spin_lock(times: u32, cores: u32, turn: u32, locks: bool) -> (System<Coherent>, Stop) {
    let program = spin_lock_program(times, cores, locks);
    let mut system = system(coherent_platform(cores, turn), &program);
    system.start_checking();
    let stop = system.run(&mut Transcript::default(), 1_000_000);
    (system, stop)
}

#[test]
fn a_spin_lock_protects_a_counter_at_every_granularity() {
    for turn in [1, 2, 3, 7, 20, 100, 1000] {
        for cores in [2, 4] {
            let (system, stop) = run_spin_lock(50, cores, turn, true);
            assert_eq!(stop, Stop::Exit((50 * cores) as u8), "{cores} cores, turns of {turn}");
            assert!(system.reports().is_empty(), "{:?}", system.reports());
            system.bus.check_coherence().unwrap();
            let (again, _) = run_spin_lock(50, cores, turn, true);
            assert_eq!(system.cycles(), again.cycles(), "the same input, the same time");
        }
    }
}

#[test]
fn without_the_lock_counts_are_lost() {
    let lost = [1, 2, 3, 7].map(|turn| run_spin_lock(50, 2, turn, false).1);
    assert!(lost.iter().any(|&stop| stop != Stop::Exit(100)), "{lost:?}");
}

#[test]
fn a_line_that_moves_between_cores_stays_dirty_and_is_not_written_back() {
    let mut system = system(coherent_platform(2, 100), &[]);
    for step in 0..10 {
        system.with_core(step % 2, |core, bus| {
            core.memory_mut().store_word(bus, DATA, step as u32).unwrap();
        });
    }
    for core in system.cores() {
        let counters = core.memory().statistics.counters;
        assert_eq!((counters.dcache_misses, counters.write_backs), (5, 0), "five moves");
    }
}

/// Core 0 writes an instruction over another; the cores execute it after the given operations.
fn patch(clean: bool, everywhere: Option<u32>) -> (Stop, Vec<Kind>) {
    const PATCHED: u32 = 0x3000;
    let mut code = set(1, DATA).to_vec();
    code.extend(set(2, PATCHED));
    code.extend(set(3, op(SET, 12, 0, 0, 2)));
    code.push(op(SET, 6, 0, 0, 1));
    code.push(op(NUMBER, 4, 0, 0, 0));
    // Both have executed the old one before core 0 continues.
    let call = |code: &mut Vec<u32>, back: u32| {
        code.extend(set(11, back));
        code.push(op(BRANCH_NOT_EQUAL, 2, 0, 0, PATCHED / 4));
    };
    let back = START + 4 * (code.len() as u32 + 3);
    call(&mut code, back);
    let others = code.len();
    code.push(0); // core 1: below
    let wait = here(&code);
    code.push(op(LOAD, 5, 1, 0, 0));
    code.push(op(BRANCH_NOT_EQUAL, 5, 6, 0, wait));
    code.push(op(STORE, 3, 2, 0, 0));
    if clean {
        code.push(op(OPERATE, 2, 0, CLEAN_TO_UNIFICATION, 0));
    }
    if let Some(operation) = everywhere {
        code.push(op(OPERATE, 2, 0, operation, 0));
    }
    code.push(op(STORE, 6, 1, 0, 0x40));
    let spin = here(&code);
    code.push(op(BRANCH_NOT_EQUAL, 2, 0, 0, spin));
    code[others] = op(BRANCH_NOT_EQUAL, 4, 0, 0, here(&code));
    code.push(op(STORE, 6, 1, 0, 0));
    let wait = here(&code);
    code.push(op(LOAD, 5, 1, 0, 0x40));
    code.push(op(BRANCH_NOT_EQUAL, 5, 6, 0, wait));
    let end = START + 4 * (code.len() as u32 + 3);
    call(&mut code, end);
    code.push(op(EXIT, 12, 0, 0, 0));
    let mut words = tables();
    // What is patched: r12 = 1, and back to where r11 says, which is one of two places.
    words.push((PATCHED, op(SET, 12, 0, 0, 1)));
    words.extend([
        (PATCHED + 4, SET << 24 | 13 << 20 | back),
        (PATCHED + 8, op(BRANCH_NOT_EQUAL, 11, 13, 0, end / 4)),
        (PATCHED + 12, op(BRANCH_NOT_EQUAL, 2, 0, 0, back / 4)),
    ]);
    let mut system = system(coherent_platform(2, 50), &[]);
    system.load(&image(&code, &words));
    system.start_checking();
    let stop = system.run(&mut Transcript::default(), 10_000);
    (stop, system.reports().iter().map(|report| report.kind).collect())
}

#[test]
fn instructions_are_not_coherent_and_the_checker_says_so() {
    let everywhere = Some(INVALIDATE_INSTRUCTIONS_EVERYWHERE);
    assert_eq!(patch(true, everywhere), (Stop::Exit(2), vec![]));
    // The other core's line stays old.
    let stale = vec![Kind::StaleInstruction];
    assert_eq!(patch(true, Some(INVALIDATE_INSTRUCTIONS)), (Stop::Exit(1), stale.clone()));
    // The new instruction is in the data cache only, and fetches do not look there.
    assert_eq!(patch(false, everywhere), (Stop::Exit(1), stale));
}

/// Core 0 changes a page of both; core 1 has a translation of it.
fn remap(operation: u32) -> (Vec<Kind>, usize) {
    let mut system = system(coherent_platform(2, 50), &[]);
    system.start_checking();
    let page = 0x3_f000;
    for number in [1, 0] {
        system.with_core(number, |core, bus| core.memory_mut().load_word(bus, page).unwrap());
    }
    system.with_core(0, |core, bus| {
        let descriptor = 0x3_1000 | VALID | WRITABLE | CACHED;
        core.memory_mut().store_word(bus, TABLES + 4 * 0x3f, descriptor).unwrap();
        core.operate(bus, operation, page);
    });
    system.with_core(1, |core, bus| core.memory_mut().load_word(bus, page).unwrap());
    let reports = system.reports();
    (
        reports.iter().map(|report| report.kind).collect(),
        reports.first().map_or(9, |report| report.core),
    )
}

#[test]
fn a_translation_that_only_one_core_invalidates_is_stale_on_the_other() {
    // The descriptor is still dirty in core 0's cache: walks see it there.
    assert_eq!(remap(INVALIDATE_PAGE_EVERYWHERE), (vec![], 9));
    assert_eq!(remap(INVALIDATE_PAGE), (vec![Kind::StaleTlbEntry], 1));
}

#[test]
fn two_table_bases_and_spaces_are_told_apart() {
    const HIGH: u32 = 0xa000;
    let mut system = system(coherent_platform(1, 100), &[]);
    system.start_checking();
    let page = |at: u32, flags| at | VALID | WRITABLE | CACHED | flags;
    system.bus.load(HIGH + 4 * 2, &page(0x3_2000, GLOBAL).to_le_bytes());
    system.bus.load(HIGH + 4 * 3, &page(0x3_3000, 0).to_le_bytes());
    system.start_checking();
    system.with_core(0, |core, bus| {
        let memory = core.memory_mut();
        memory.mmu.registers = [TABLES, 1, 1, HIGH];
        memory.renew_pages();
        memory.store_word(bus, 0x8000_2000, 22).unwrap();
        memory.store_word(bus, 0x8000_3000, 33).unwrap();
        assert_eq!(memory.load_word(bus, 0x3_2000), Ok(22), "the same line by its other address");
        assert_eq!(memory.load_word(bus, 0x3_3000), Ok(33));
        let misses = memory.statistics.counters.dtlb_misses;
        // Another space: the global page's entry serves, the other page is walked for.
        memory.mmu.registers[ASID as usize] = 2;
        memory.update_contexts();
        assert_eq!(memory.load_word(bus, 0x8000_2000), Ok(22));
        assert_eq!(memory.statistics.counters.dtlb_misses, misses);
        assert_eq!(memory.load_word(bus, 0x8000_3000), Ok(33));
        assert_eq!(memory.statistics.counters.dtlb_misses, misses + 1);
        // Back: its entry is still there.
        memory.mmu.registers[ASID as usize] = 1;
        memory.update_contexts();
        assert_eq!(memory.load_word(bus, 0x8000_3000), Ok(33));
        assert_eq!(memory.statistics.counters.dtlb_misses, misses + 1);
    });
    assert!(system.reports().is_empty(), "{:?}", system.reports());
}
