//! Entries that a core takes over from another core's TLB, beside a slow model of the same rules: a
//! list for each TLB, and the time by addition.

use mmulab_hardware::Random;
use mmulab_machine::{Platform, TlbShape, Ways};
use mmulab_system::core::{Core, Side};
use mmulab_system::{Cause, System};

use crate::toy::*;

type Coherent = Toy<true>;

const CORES: usize = 3;
/// The TLB has one way, so that a page's slot is its number.
const SLOTS: u32 = 32;
const TABLES: u32 = 0x8000;
const TRANSFER_CYCLES: u64 = 8;
const ENTRIES_OF_ANSWER: usize = 8;

fn platform() -> Platform {
    let shape = coherent_platform(CORES as u32, 100);
    let itlb = TlbShape { entries: SLOTS, ways: Ways::Count(1), ..shape.itlb };
    // Tables change in memory: no second level keeps what was there.
    Platform { itlb, level_2: None, ..shape }
}

fn descriptor(frame: u32) -> u32 {
    frame << 12 | VALID | WRITABLE | CACHED
}

fn system() -> System<Coherent> {
    let mut system = System::<Coherent>::new(&(), platform()).unwrap();
    let words: Vec<(u32, u32)> =
        (0..SLOTS).map(|page| (TABLES + 4 * page, descriptor(page))).collect();
    system.load(&image(&[], &words));
    for number in 0..CORES {
        system.with_core(number, |core, _| {
            let memory = core.memory_mut();
            memory.mmu.registers = [TABLES, 1, 1, 0];
            memory.renew_pages();
        });
    }
    system
}

/// An entry: its space, its frame, and how many marks ago an access used it here, at most 2, or 3
/// if none did.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    space: u32,
    page: u32,
    frame: u32,
    age: u8,
}

#[derive(Clone, Default)]
struct Transfer {
    source: Option<usize>,
    oldest: u8,
    slot: usize,
    behind: usize,
    answer: Option<Vec<Held>>,
    time: u64,
    entered: u32,
}

#[derive(Clone, Default)]
struct SlowCore {
    space: u32,
    tlb: Vec<Option<Held>>,
    transfer: Transfer,
}

/// A rule that the model breaks, to show that it would be noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    EntersWhatWasInvalidated,
    EntersWhatItHas,
    TakesNoTime,
    IgnoresAge,
    GrowsOlderByUse,
    UnusedGrowsOlder,
    GoesOnInAnotherSpace,
    GoesOnAfterAll,
}

struct Slow {
    cores: Vec<SlowCore>,
    broken: Option<Broken>,
    /// How often an answer was thrown away.
    repeated: u32,
}

impl Slow {
    fn advance(&mut self, core: usize, now: u64) {
        while let Some(source) = self.cores[core].transfer.source {
            let mut transfer = self.cores[core].transfer.clone();
            if transfer.time > now && self.broken != Some(Broken::TakesNoTime) {
                return;
            }
            if let Some(answer) = transfer.answer.take() {
                for held in answer {
                    let place = &mut self.cores[core].tlb[held.page as usize];
                    let there = place.is_some_and(|own| own.space == held.space);
                    if !there || self.broken == Some(Broken::EntersWhatItHas) {
                        *place = Some(Held { age: 3, ..held });
                        transfer.entered += 1;
                    }
                }
                transfer.slot = transfer.behind;
            }
            if transfer.slot == SLOTS as usize {
                transfer.source = None;
            } else {
                let mut found = Vec::new();
                let mut slot = transfer.slot;
                while slot < SLOTS as usize && found.len() < ENTRIES_OF_ANSWER {
                    if let Some(held) = self.cores[source].tlb[slot]
                        && held.space == self.cores[core].space
                        && (held.age <= transfer.oldest || self.broken == Some(Broken::IgnoresAge))
                    {
                        found.push(held);
                    }
                    slot += 1;
                }
                transfer.time += TRANSFER_CYCLES + (slot - transfer.slot + found.len()) as u64;
                transfer.behind = slot;
                transfer.answer = Some(found);
            }
            self.cores[core].transfer = transfer;
        }
    }

    fn load(&mut self, core: usize, page: u32, frame: u32) -> u32 {
        let space = self.cores[core].space;
        let place = &mut self.cores[core].tlb[page as usize];
        let held = place.filter(|held| held.space == space);
        let frame = held.map_or(frame, |held| held.frame);
        let keeps_age = held.filter(|_| self.broken == Some(Broken::GrowsOlderByUse));
        *place = Some(Held { space, page, frame, age: keeps_age.map_or(0, |held| held.age) });
        frame
    }

    fn mark(&mut self, core: usize) {
        for held in self.cores[core].tlb.iter_mut().flatten() {
            held.age = match held.age {
                3 if self.broken == Some(Broken::UnusedGrowsOlder) => 2,
                3 => 3,
                age => 2.min(age + 1),
            };
        }
    }

    /// On one core, whose time it is.
    fn invalidate(&mut self, core: usize, now: u64, goes: impl Fn(&Held) -> bool) {
        let one = &mut self.cores[core];
        for place in &mut one.tlb {
            if place.as_ref().is_some_and(&goes) {
                *place = None;
            }
        }
        if self.broken != Some(Broken::EntersWhatWasInvalidated)
            && one.transfer.source.is_some()
            && one.transfer.answer.take().is_some()
        {
            one.transfer.time = now;
            self.repeated += 1;
        }
    }
}

fn held_by(core: &Coherent) -> Vec<Option<Held>> {
    let tlb = core.memory().tlb(Side::Data);
    (0..SLOTS)
        .map(|slot| {
            tlb.entry(slot).map(|entry| Held {
                space: entry.asid.into(),
                page: (entry.virtual_address >> 12) as u32,
                frame: entry.payload.physical >> 12,
                age: tlb.age(slot),
            })
        })
        .collect()
}

fn times(system: &System<Coherent>) -> Vec<u64> {
    system.cores().map(|core| core.memory().now()).collect()
}

/// Every operation of one core, after those entries came to it that are there by then. Gives the
/// entries that were taken over and how often an answer was thrown away.
fn compare(seed: u64, broken: Option<Broken>) -> Result<(u32, u32), String> {
    let mut system = system();
    let mut slow = Slow { cores: Vec::new(), broken, repeated: 0 };
    slow.cores.resize(
        CORES,
        SlowCore { space: 1, tlb: vec![None; SLOTS as usize], ..Default::default() },
    );
    let mut frames: Vec<u32> = (0..SLOTS).collect();
    let mut random = Random::new(seed);
    let mut below = |limit: u32| (random.next_u64() % u64::from(limit)) as u32;
    let mut taken_over = 0;
    for step in 0..3000 {
        let number = below(CORES as u32) as usize;
        let (action, page, cycles) = (below(100), below(SLOTS), below(40));
        let source = below(CORES as u32 + 1);
        let before = slow.cores[number].transfer.entered;
        slow.advance(number, times(&system)[number]);
        system.with_core(number, |core, bus| {
            core.memory_mut().tlb_transfer_state(bus);
        });
        let now = times(&system);
        match action {
            0..30 => {
                let expected = slow.load(number, page, frames[page as usize]);
                system.with_core(number, |core, bus| {
                    let memory = core.memory_mut();
                    let found = memory.translation(bus, page << 12, Side::Data).unwrap();
                    assert!(broken.is_some() || found.physical >> 12 == expected);
                });
            }
            30..34 => {
                slow.mark(number);
                system.with_core(number, |core, _| core.memory_mut().mark_tlb_age());
            }
            34..70 => system.with_core(number, |core, _| {
                core.memory_mut().charge(Cause::Idle, cycles);
            }),
            70..85 => {
                system.with_core(number, |core, bus| {
                    core.memory_mut().begin_tlb_transfer(bus, source, (page % 4) as u8);
                });
                let other = (source as usize) < CORES && source as usize != number;
                slow.cores[number].transfer = Transfer {
                    source: other.then_some(source as usize),
                    oldest: (page % 4) as u8,
                    time: now[number],
                    ..Default::default()
                };
                slow.advance(number, now[number]);
            }
            85..95 => {
                // The page moves to another frame, in all spaces, and no TLB keeps it.
                frames[page as usize] = (frames[page as usize] + 1) % SLOTS;
                let word = descriptor(frames[page as usize]);
                for core in 0..CORES {
                    system.with_core(core, |core, _| core.memory_mut().dcache.invalidate_all());
                }
                system.with_core(number, |core, bus| {
                    bus.load(TABLES + 4 * page, &word.to_le_bytes());
                    core.memory_mut().broadcast(bus, |memory, bus| {
                        memory.invalidate_translation_of(bus, page << 12, None);
                    });
                });
                for (core, &now) in now.iter().enumerate() {
                    slow.invalidate(core, now, |held| held.page == page);
                }
            }
            95..97 => {
                let space = slow.cores[number].space;
                system.with_core(number, |core, bus| core.operate(bus, INVALIDATE_SPACE, space));
                slow.invalidate(number, now[number], |held| held.space == space);
            }
            97 => {
                system.with_core(number, |core, bus| {
                    core.memory_mut().invalidate_translations(bus, true, true);
                });
                slow.invalidate(number, now[number], |_| true);
                if broken != Some(Broken::GoesOnAfterAll) {
                    slow.cores[number].transfer.source = None;
                }
            }
            _ => {
                let space = 1 + page % 2;
                let changed = slow.cores[number].space != space;
                slow.cores[number].space = space;
                if changed && broken != Some(Broken::GoesOnInAnotherSpace) {
                    slow.cores[number].transfer.source = None;
                }
                system.with_core(number, |core, bus| {
                    let memory = core.memory_mut();
                    memory.mmu.registers[ASID as usize] = space;
                    memory.space_changed(bus, false);
                    memory.renew_pages();
                });
            }
        }
        slow.advance(number, times(&system)[number]);
        let transfer = &slow.cores[number].transfer;
        let expected = (transfer.entered, transfer.source.is_some());
        taken_over += if action < 70 { expected.0 - before } else { 0 };
        let found = system.with_core(number, |core, bus| core.memory_mut().tlb_transfer_state(bus));
        if found != expected {
            return Err(format!("seed {seed}, step {step}, {action}: {found:?}, not {expected:?}"));
        }
        for (core, expected) in system.cores().zip(&slow.cores) {
            let found = held_by(core);
            if let Some(slot) = (0..SLOTS as usize).find(|&slot| found[slot] != expected.tlb[slot])
            {
                let (found, expected) = (found[slot], expected.tlb[slot]);
                return Err(format!(
                    "seed {seed}, step {step}, {action}: {found:?}, not {expected:?}"
                ));
            }
        }
    }
    Ok((taken_over, slow.repeated))
}

#[test]
fn what_is_taken_over_and_when_is_as_in_the_slow_model() {
    for seed in 0..20 {
        let (taken_over, repeated) = compare(seed, None).unwrap();
        assert!(taken_over > 100 && repeated > 20, "seed {seed}: {taken_over}, {repeated}");
    }
}

#[test]
fn a_model_that_breaks_a_rule_is_noticed() {
    for broken in [
        Broken::EntersWhatWasInvalidated,
        Broken::EntersWhatItHas,
        Broken::TakesNoTime,
        Broken::IgnoresAge,
        Broken::GrowsOlderByUse,
        Broken::UnusedGrowsOlder,
        Broken::GoesOnInAnotherSpace,
        Broken::GoesOnAfterAll,
    ] {
        assert!((0..20).any(|seed| compare(seed, Some(broken)).is_err()), "{broken:?}");
    }
}

#[test]
fn a_core_that_is_off_or_not_there_gives_nothing() {
    let mut system = system();
    system.with_core(0, |core, bus| {
        core.memory_mut().translation(bus, 0x3000, Side::Data).unwrap();
    });
    system.bus.turn_off(0);
    for source in [0, 1, 7] {
        let state = system.with_core(1, |core, bus| {
            core.memory_mut().begin_tlb_transfer(bus, source, 3);
            core.memory_mut().charge(Cause::Idle, 1000u32);
            core.memory_mut().tlb_transfer_state(bus)
        });
        assert_eq!(state, (0, false), "core {source}");
    }
}
