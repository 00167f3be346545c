//! The Cortex-A7's TLBs, walk cache, overlapping misses, store buffer and prefetcher beside a slow
//! model of the same rules: lists that are searched from the front, no fast path, and the time by
//! addition. And small programs, worked out by hand.

use std::collections::{BTreeMap, BTreeSet};

use mmulab_arm::{CoherentCaches, CoprocessorAccess, Cpu, System};
use mmulab_hardware::Random;
use mmulab_system::bus::Bus;
use mmulab_system::checker::Kind;
use mmulab_system::coherence::Point;
use mmulab_system::core::Side;
use mmulab_system::maintenance::LineOperation;
use mmulab_system::memory::CoreMemory;
use mmulab_system::{Cause, Loaded, Transcript};

use crate::support;

type Memory = CoreMemory<Cpu<CoherentCaches>>;

const TABLE: u32 = 0x4010_0000;
const SECOND_LEVEL: u32 = 0x4010_8000;
const MAIN_SETS: u32 = 128;
const MICRO_ENTRIES: usize = 10;
const REGISTERS: u16 = 8;

/// A page or section of the tables, and a line of it that is accessed.
#[derive(Clone, Copy)]
struct Target {
    address: u32,
    physical: u32,
    shift: u32,
    global: bool,
}

/// Pages that meet in few sets of the main TLB, in megabytes that meet in few sets of the walk
/// cache, and two sections. Every line is in another set of the data cache.
fn targets() -> Vec<Target> {
    let mut all = Vec::new();
    let line = |number: u32| {
        let place = number % 56;
        (place + place / 7 + 1) * 64
    };
    let parity = |number: u32| (number / 56) & 1;
    for megabyte in [0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35, 36, 37, 38, 39, 64, 65, 66, 67] {
        for page in [0, 3, 128, 131] {
            let number = all.len() as u32;
            all.push(Target {
                address: 0x8000_0000 + (megabyte << 20) + (page << 12) + line(number),
                physical: 0x4200_0000 + (number << 13) + (parity(number) << 12) + line(number),
                shift: 12,
                global: page == 3,
            });
        }
    }
    for section in [0, 1] {
        for page in 0..6 {
            let number = all.len() as u32;
            let offset = ((2 * page + parity(number)) << 12) + line(number);
            all.push(Target {
                address: 0xa000_0000 + (section << 20) + offset,
                physical: 0x4400_0000 + (section << 20) + offset,
                shift: 20,
                global: true,
            });
        }
    }
    all
}

/// The descriptors of the targets: addresses and values.
fn descriptors(targets: &[Target]) -> BTreeMap<u32, u32> {
    let mut words = BTreeMap::new();
    let mut tables: BTreeMap<u32, u32> = BTreeMap::new();
    for target in targets {
        let first = TABLE + (target.address >> 20) * 4;
        if target.shift == 20 {
            // Write-back and write-allocate, readable and writable by all, domain 0.
            words.insert(first, target.physical & 0xfff0_0000 | 0x1c0e);
            continue;
        }
        let count = tables.len() as u32;
        let table = *tables.entry(target.address >> 20).or_insert(SECOND_LEVEL + count * 0x400);
        words.insert(first, table | 1);
        let private = if target.global { 0 } else { 0x800 };
        let value = target.physical & !0xfff | 0x07e | private;
        words.insert(table + (target.address >> 12 & 0xff) * 4, value);
    }
    words
}

fn system(checked: bool) -> System<CoherentCaches> {
    // One line of stores, as two fills are under way at a time and no line here is another core's
    // too. More ways, so that no line has to leave.
    let changes = [
        ("cores", "1"),
        ("buffers.store_lines", "1"),
        ("dcache.size_bytes", "65536"),
        ("dcache.ways", "8"),
    ];
    let machine = support::machine("cortex-a7", &changes);
    let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
    for (address, value) in descriptors(&targets()) {
        system.bus.load(address, &value.to_le_bytes());
    }
    if checked {
        system.start_checking();
    }
    let registers = &mut system.core_mut(0).memory.mmu.registers;
    registers.ttbr = TABLE | 0x4a;
    registers.dacr = 0x5555_5555;
    registers.context_id = 1;
    registers.sctlr |= 0x1005;
    system.core_mut(0).memory.renew_pages();
    system
}

/// What a TLB holds: where a page begins, its size, its space (none: global).
type Held = (u32, u32, Option<u16>);

/// A megabyte whose table the walk cache knows, and its space.
type Link = (u32, u16);

/// A rule that the slow model breaks, to show that the comparison notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    ThirdPlace,
    MicroTlbsKept,
    WalkCacheKept,
    WalkCacheOfAllSpaces,
    MicroTlbsInclusive,
    OverwrittenIsReady,
    SecondAwaitedLine,
    LoadBeforeStore,
    BarrierBeforeStores,
    StoreAwaitsItsLine,
    NoPrefetcher,
    StreamOfTwo,
    StrideOfFive,
    FourthPrefetch,
    StreamLeavesItsPage,
    HitEndsStream,
    UseDoesNotCarryOn,
}

/// The slow model. Its costs are those of the machine's file.
struct Slow {
    broken: Option<Broken>,
    now: u64,
    words: BTreeMap<u32, u32>,
    space: u16,
    micro: [(Vec<Option<Held>>, usize); 2],
    main: Vec<([Option<Held>; 2], usize)>,
    walk_cache: Vec<([Option<Link>; 2], usize)>,
    data_lines: BTreeSet<u32>,
    fetch_lines: BTreeSet<u32>,
    fills: Vec<(u32, u64)>,
    /// Lines that stores wait for, and when they are here.
    awaited: BTreeMap<u32, u64>,
    late: BTreeMap<u16, u64>,
    /// Lines of the last misses, and of uses that carried a stream on, the newest last.
    missed: Vec<u32>,
    /// Lines filled ahead, when they are here, and whether they are unused and of the stream.
    ahead: Vec<(u32, u64, bool)>,
    costs: Costs,
}

struct Costs {
    refill: u64,
    descriptor: u64,
    miss: u64,
    line_operation: u64,
    whole_operation: u64,
}

impl Slow {
    fn new(broken: Option<Broken>) -> Slow {
        let machine = support::machine("cortex-a7", &[]);
        let coherence = machine.coherence.as_ref().unwrap();
        let level_2 = machine.level_2.as_ref().unwrap();
        Slow {
            broken,
            now: 0,
            words: descriptors(&targets()),
            space: 1,
            micro: [0, 1].map(|_| (vec![None; MICRO_ENTRIES], 0)),
            main: vec![([None; 2], 0); MAIN_SETS as usize],
            walk_cache: vec![([None; 2], 0); 32],
            data_lines: BTreeSet::new(),
            fetch_lines: BTreeSet::new(),
            fills: vec![(0, 0); if broken == Some(Broken::ThirdPlace) { 3 } else { 2 }],
            awaited: BTreeMap::new(),
            late: BTreeMap::new(),
            missed: Vec::new(),
            ahead: Vec::new(),
            costs: Costs {
                refill: machine.micro_tlb.as_ref().unwrap().refill_cycles.into(),
                descriptor: coherence.walk_hit_cycles.into(),
                miss: u64::from(level_2.latency_cycles + machine.memory.line_fill_cycles),
                line_operation: machine.timing.line_operation_cycles.into(),
                whole_operation: machine.timing.whole_operation_cycles.into(),
            },
        }
    }

    fn serves(&self, held: Held, address: u32) -> bool {
        let (first, shift, space) = held;
        address >> shift == first >> shift && space.is_none_or(|space| space == self.space)
    }

    fn read_descriptor(&mut self, at: u32) -> u32 {
        self.now += self.costs.descriptor;
        if self.data_lines.insert(at & !63) {
            self.now += self.costs.miss;
        }
        self.words[&at]
    }

    fn walk(&mut self, address: u32) -> Held {
        let megabyte = address >> 20;
        let first_at = TABLE + megabyte * 4;
        let all_spaces = self.broken == Some(Broken::WalkCacheOfAllSpaces);
        let mut links = self.walk_cache[(megabyte & 31) as usize].0.into_iter().flatten();
        let kept = links.any(|(one, space)| one == megabyte && (all_spaces || space == self.space));
        let first = if kept { self.words[&first_at] } else { self.read_descriptor(first_at) };
        if first & 3 != 1 {
            return (megabyte << 20, 20, None);
        }
        if !kept {
            let (ways, next) = &mut self.walk_cache[(megabyte & 31) as usize];
            ways[*next] = Some((megabyte, self.space));
            *next = (*next + 1) % 2;
        }
        let second = self.read_descriptor((first & !0x3ff) + (address >> 12 & 0xff) * 4);
        (address & !0xfff, 12, (second & 0x800 != 0).then_some(self.space))
    }

    fn translate(&mut self, address: u32, side: Side) {
        let side = side as usize;
        if self.micro[side].0.iter().flatten().any(|&held| self.serves(held, address)) {
            return;
        }
        self.now += self.costs.refill;
        let found = self.main.iter().flat_map(|(ways, _)| ways.iter().flatten());
        let found = found.copied().find(|&held| self.serves(held, address));
        let held = found.unwrap_or_else(|| {
            let held = self.walk(address);
            let (ways, next) = &mut self.main[(held.0 >> held.1) as usize % MAIN_SETS as usize];
            let left = ways[*next].replace(held);
            *next = (*next + 1) % 2;
            if self.broken == Some(Broken::MicroTlbsInclusive) {
                for entry in self.micro.iter_mut().flat_map(|(entries, _)| entries) {
                    *entry = entry.filter(|_| *entry != left);
                }
            }
            held
        });
        let (entries, next) = &mut self.micro[side];
        entries[*next] = Some(held);
        *next = (*next + 1) % MICRO_ENTRIES;
    }

    fn under_way(&self, line: u32) -> Option<u64> {
        let ahead = self.ahead.iter().map(|&(one, ends, _)| (one, ends));
        let mut all = self.fills.iter().copied().chain(ahead);
        all.find(|&(one, ends)| one == line && ends > self.now).map(|(_, ends)| ends)
    }

    fn place(&mut self) -> usize {
        let first = self.fills.iter().enumerate().min_by_key(|(_, (_, ends))| ends);
        let (place, _) = first.unwrap();
        self.now = self.now.max(self.fills[place].1);
        place
    }

    fn begin_fill(&mut self, line: u32) -> u64 {
        let place = self.place();
        let ends = self.now + self.costs.miss;
        self.fills[place] = (line, ends);
        self.data_lines.insert(line);
        ends
    }

    fn load(&mut self, target: &Target, register: Option<u16>) {
        self.translate(target.address, Side::Data);
        let line = target.physical & !63;
        if let Some(&ends) = self.awaited.get(&line)
            && self.broken != Some(Broken::LoadBeforeStore)
        {
            self.now = self.now.max(ends);
        }
        if let Some(ends) = self.under_way(line) {
            match register {
                Some(register) => _ = self.late.insert(register, ends),
                None => self.now = ends,
            }
        }
        let hits = self.data_lines.contains(&line);
        match register {
            Some(register) if !hits => {
                let ends = self.begin_fill(line);
                self.late.insert(register, ends);
            }
            // A hit does not end the wait for an older load of the same register.
            Some(register)
                if self.broken == Some(Broken::OverwrittenIsReady)
                    && self.under_way(line).is_none() =>
            {
                self.late.remove(&register);
            }
            None if !hits => self.fill(line),
            _ => {}
        }
        self.tell_prefetcher(line, !hits);
    }

    /// The bytes between the last misses, if so many follow each other at one distance.
    fn stride(&self) -> Option<u32> {
        let misses = if self.broken == Some(Broken::StreamOfTwo) { 2 } else { 3 };
        let tail = &self.missed[self.missed.len().checked_sub(misses)?..];
        let stride = tail[1].wrapping_sub(tail[0]);
        let lines = (stride as i32 / 64).abs();
        let most = if self.broken == Some(Broken::StrideOfFive) { 5 } else { 4 };
        let same = tail.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
        (same && (1..=most).contains(&lines)).then_some(stride)
    }

    fn tell_prefetcher(&mut self, line: u32, missed: bool) {
        if self.broken == Some(Broken::NoPrefetcher) {
            return;
        }
        if missed {
            let before = self.missed.last().map(|&last| line.wrapping_sub(last));
            let tail = self.missed.len().checked_sub(2).map(|from| &self.missed[from..]);
            if before != tail.map(|pair| pair[1].wrapping_sub(pair[0])) {
                self.ahead.iter_mut().for_each(|(_, _, unused)| *unused = false);
            }
            self.ahead.iter_mut().filter(|one| one.0 == line).for_each(|one| one.2 = false);
            self.missed.push(line);
        } else {
            if self.broken == Some(Broken::HitEndsStream) {
                self.missed.clear();
            }
            let first = self.ahead.iter_mut().find(|(one, _, unused)| *one == line && *unused);
            let Some(first) = first else { return };
            first.2 = false;
            let expected = self.missed.len().checked_sub(2).map(|from| {
                let pair = &self.missed[from..];
                pair[1].wrapping_add(pair[1].wrapping_sub(pair[0]))
            });
            if expected != Some(line) || self.broken == Some(Broken::UseDoesNotCarryOn) {
                return;
            }
            self.missed.push(line);
        }
        let Some(stride) = self.stride() else { return };
        let most = if self.broken == Some(Broken::FourthPrefetch) { 4 } else { 3 };
        let now = self.now;
        self.ahead.retain(|&(_, ends, unused)| ends > now || unused);
        let pages = if self.broken == Some(Broken::StreamLeavesItsPage) { 13 } else { 12 };
        let next = (1..=most).map(|step| line.wrapping_add(stride.wrapping_mul(step)));
        for next in next.take_while(|next| next >> pages == line >> pages) {
            if self.data_lines.contains(&next) {
                continue;
            }
            if self.ahead.len() == most as usize {
                return;
            }
            self.data_lines.insert(next);
            self.ahead.push((next, now + self.costs.miss, true));
        }
    }

    fn fill(&mut self, line: u32) {
        self.place();
        self.now += self.costs.miss;
        self.data_lines.insert(line);
    }

    fn store(&mut self, target: &Target) {
        self.translate(target.address, Side::Data);
        let line = target.physical & !63;
        let now = self.now;
        self.awaited.retain(|_, ends| *ends > now);
        if self.awaited.contains_key(&line) {
            if self.broken == Some(Broken::StoreAwaitsItsLine) {
                self.now = self.awaited[&line];
            }
            return;
        }
        let under_way = self.under_way(line);
        let missed = !self.data_lines.contains(&line);
        if under_way.is_none() && !missed {
            return self.tell_prefetcher(line, false);
        }
        let most = if self.broken == Some(Broken::SecondAwaitedLine) { 2 } else { 1 };
        if self.awaited.len() == most {
            self.now = *self.awaited.values().min().unwrap();
        }
        let ends = self.under_way(line).unwrap_or(self.now);
        let here = self.data_lines.contains(&line);
        let ends = if here { ends } else { self.begin_fill(line) };
        self.awaited.insert(line, ends);
        self.tell_prefetcher(line, missed);
    }

    fn wait_for_stores(&mut self) {
        if self.broken != Some(Broken::BarrierBeforeStores) {
            self.now = self.awaited.values().copied().fold(self.now, u64::max);
        }
        self.awaited.clear();
    }

    fn preload(&mut self, target: &Target) {
        self.translate(target.address, Side::Data);
        let line = target.physical & !63;
        if !self.data_lines.contains(&line) {
            self.begin_fill(line);
        }
    }

    fn fetch(&mut self, target: &Target) {
        self.translate(target.address, Side::Instruction);
        // Its own pages: a line of 64 bytes that the second level gets and one of 32.
        if self.fetch_lines.insert(target.physical & !63) {
            self.now += self.costs.miss;
        }
    }

    fn wait(&mut self, registers: u16) {
        let waited = self.late.iter().filter(|&(register, _)| registers >> register & 1 != 0);
        self.now = waited.map(|(_, &ends)| ends).fold(self.now, u64::max);
        let now = self.now;
        self.late.retain(|_, ends| *ends > now);
    }

    fn invalidate(&mut self, goes: impl Fn(&Held) -> bool) {
        if self.broken != Some(Broken::MicroTlbsKept) {
            for (entries, _) in &mut self.micro {
                entries.fill(None);
            }
        }
        if self.broken != Some(Broken::WalkCacheKept) {
            for (ways, _) in &mut self.walk_cache {
                *ways = [None; 2];
            }
        }
        for way in self.main.iter_mut().flat_map(|(ways, _)| ways) {
            *way = way.filter(|held| !goes(held));
        }
    }

    fn contents(&self) -> [Vec<Held>; 3] {
        let sorted = |entries: Vec<Held>| {
            let mut entries = entries;
            entries.sort_unstable();
            entries
        };
        let micro = |side: usize| sorted(self.micro[side].0.iter().flatten().copied().collect());
        let main = self.main.iter().flat_map(|(ways, _)| ways.iter().flatten().copied());
        [micro(0), micro(1), sorted(main.collect())]
    }
}

fn contents(memory: &Memory) -> [Vec<Held>; 3] {
    let sorted = |entries: &mut dyn Iterator<Item = &mmulab_system::tlb::Entry>| {
        let mut held: Vec<Held> = entries
            .map(|entry| {
                let space = (!entry.global).then_some(entry.asid);
                (entry.virtual_address as u32, entry.page_shift, space)
            })
            .collect();
        held.sort_unstable();
        held
    };
    [
        sorted(&mut memory.micro_entries(Side::Instruction)),
        sorted(&mut memory.micro_entries(Side::Data)),
        sorted(&mut memory.itlb.entries()),
    ]
}

/// Cleans and invalidates the line of a target on both.
fn discard(
    memory: &mut Memory,
    bus: &mut Bus<Cpu<CoherentCaches>>,
    slow: &mut Slow,
    target: &Target,
) {
    let operation = LineOperation::CleanAndInvalidate;
    memory.operate_to(bus, target.address, operation, Point::Coherency).unwrap();
    slow.now += slow.costs.line_operation;
    slow.translate(target.address, Side::Data);
    slow.wait_for_stores();
    slow.data_lines.remove(&(target.physical & !63));
}

/// One random step on both.
fn step(
    random: &mut Random,
    targets: &[Target],
    memory: &mut Memory,
    bus: &mut Bus<Cpu<CoherentCaches>>,
    slow: &mut Slow,
) -> String {
    // Most accesses are to a few pages, so that there are hits.
    let reach = [12, 30, 80][random.below(3) as usize];
    let data = &targets[..targets.len() - 12];
    let sections = &targets[targets.len() - 12..];
    let chosen = random.below(reach + 4);
    let target = match chosen {
        0..4 => &sections[random.below(10) as usize],
        _ => &data[(chosen - 4) as usize % (data.len() - 8)],
    };
    let register = random.below(u32::from(REGISTERS)) as u16;
    let address = target.address;
    match random.below(40) {
        0..18 => {
            memory.load_word_for(bus, address, 1 << register).unwrap();
            slow.load(target, Some(register));
            format!("load {address:#x} for R{register}")
        }
        18 => {
            memory.load_word(bus, address).unwrap();
            slow.load(target, None);
            format!("load {address:#x}")
        }
        19..25 => {
            memory.store_word(bus, address, register.into()).unwrap();
            slow.store(target);
            format!("store {address:#x}")
        }
        25 | 26 => {
            memory.preload(bus, address);
            slow.preload(target);
            format!("preload {address:#x}")
        }
        27..29 => {
            let registers = 1 << register | 1 << random.below(u32::from(REGISTERS));
            memory.await_registers(registers);
            slow.wait(registers);
            format!("wait for registers {registers:#x}")
        }
        29..33 => {
            // The last eight pages, and the last two places of the sections, are fetched from and
            // not loaded.
            let target = match random.below(10) {
                place @ 0..2 => &sections[10 + place as usize],
                place => &data[data.len() - 10 + place as usize],
            };
            memory.fetch_half(bus, target.address).unwrap();
            slow.fetch(target);
            format!("fetch {:#x}", target.address)
        }
        33 => {
            slow.space = 3 - slow.space;
            memory.mmu.registers.context_id = slow.space.into();
            memory.update_contexts();
            format!("space {}", slow.space)
        }
        34 if random.below(4) == 0 => {
            let space = random.below(2) as u16 + 1;
            memory.invalidate_translation_of(bus, address & !0xfff, Some(space));
            slow.now += slow.costs.line_operation;
            let covered = |held: &Held| {
                held.0 >> held.1 == address >> held.1 && held.2.is_none_or(|one| one == space)
            };
            slow.invalidate(covered);
            format!("invalidate {address:#x} of {space}")
        }
        35 if random.below(20) == 0 => {
            memory.invalidate_address_space(bus, slow.space);
            slow.now += slow.costs.whole_operation;
            let space = slow.space;
            slow.invalidate(|held| held.2 == Some(space));
            "invalidate the space".to_owned()
        }
        36 if random.below(20) == 0 => {
            memory.invalidate_translations(bus, true, true);
            slow.now += slow.costs.whole_operation;
            slow.invalidate(|_| true);
            "invalidate all".to_owned()
        }
        37 => {
            discard(memory, bus, slow, target);
            format!("discard the line of {address:#x}")
        }
        38 => {
            memory.drain_write_buffer(bus);
            slow.wait(!0);
            slow.wait_for_stores();
            "barrier".to_owned()
        }
        39 => {
            // Some lines of two pages at a distance, perhaps discarded first.
            let place = |number: u32| Target {
                address: 0xa014_0000 + 64 * number,
                physical: 0x4414_0000 + 64 * number,
                ..sections[0]
            };
            if random.below(2) == 0 {
                for target in (0..128).map(place) {
                    if slow.data_lines.contains(&(target.physical & !63)) {
                        discard(memory, bus, slow, &target);
                    }
                }
            }
            let (mut number, stride) = (random.below(128), random.below(13) as i32 - 6);
            let count = 2 + random.below(9);
            for _ in 0..count {
                let target = place(number);
                match random.below(4) {
                    0 => {
                        memory.store_word(bus, target.address, register.into()).unwrap();
                        slow.store(&target);
                    }
                    1 => {
                        memory.load_word(bus, target.address).unwrap();
                        slow.load(&target, None);
                    }
                    _ => {
                        memory.load_word_for(bus, target.address, 1 << register).unwrap();
                        slow.load(&target, Some(register));
                    }
                }
                let cycles = random.below(4) * random.below(60);
                memory.charge(Cause::Issue, cycles);
                slow.now += u64::from(cycles);
                if random.below(12) > 0 {
                    number = (number as i32 + stride).rem_euclid(128) as u32;
                }
            }
            format!("{count} lines at a distance of {stride}")
        }
        _ => {
            let cycles = random.below(200);
            memory.charge(Cause::Issue, cycles);
            slow.now += u64::from(cycles);
            format!("{cycles} cycles")
        }
    }
}

/// Random steps on both. The step and the last ones before it where they differ, if they do.
fn compare(seed: u64, broken: Option<Broken>) -> Result<(), String> {
    let targets = targets();
    let mut random = Random::stream(77, seed);
    let (mut system, mut slow) = (system(seed % 2 == 1), Slow::new(broken));
    system.with_core(0, |core, bus| {
        let memory = &mut core.memory;
        let mut last = Vec::new();
        for number in 0..4000 {
            last.push(step(&mut random, &targets, memory, bus, &mut slow));
            let same_time = memory.now() == slow.now;
            if !same_time || number % 8 == 0 && contents(memory) != slow.contents() {
                let tail = &last[last.len().saturating_sub(12)..];
                let (now, expected) = (memory.now(), slow.now);
                return Err(format!("step {number}: {now}, not {expected}, after {tail:#?}"));
            }
        }
        let waited = memory.clock.account(Cause::DataMiss).cycles;
        let counters = &memory.statistics.counters;
        assert!(waited > 0 && counters.walk_cache_hits > 50, "{waited} {counters:?}");
        assert!(counters.micro_tlb_misses > counters.dtlb_misses + counters.itlb_misses + 100);
        assert!(counters.data_prefetches > 50, "{counters:?}");
        Ok(())
    })?;
    assert_eq!(system.reports().len(), 0);
    Ok(())
}

#[test]
fn random_accesses_take_as_long_as_in_the_slow_model() {
    for seed in 0..12 {
        if let Err(difference) = compare(seed, None) {
            panic!("seed {seed}: {difference}");
        }
    }
}

#[test]
fn a_model_that_breaks_a_rule_is_noticed() {
    for broken in [
        Broken::ThirdPlace,
        Broken::MicroTlbsKept,
        Broken::WalkCacheKept,
        Broken::WalkCacheOfAllSpaces,
        Broken::MicroTlbsInclusive,
        Broken::OverwrittenIsReady,
        Broken::SecondAwaitedLine,
        Broken::LoadBeforeStore,
        Broken::BarrierBeforeStores,
        Broken::StoreAwaitsItsLine,
        Broken::NoPrefetcher,
        Broken::StreamOfTwo,
        Broken::StrideOfFive,
        Broken::FourthPrefetch,
        Broken::StreamLeavesItsPage,
        Broken::HitEndsStream,
        Broken::UseDoesNotCarryOn,
    ] {
        assert!((0..4).any(|seed| compare(seed, Some(broken)).is_err()), "{broken:?}");
    }
}

#[test]
fn address_translation_tells_place_attributes_and_refusals() {
    let read = CoprocessorAccess::read(15, 0, 7, 4, 0);
    let operation = |number: u32| CoprocessorAccess::write(15, 0, 7, 8, number);
    let mut system = system(false);
    let second = SECOND_LEVEL + 4;
    // Page 1: privileged modes read, users nothing; inner and outer write-back write-allocate,
    // shareable.
    let descriptor: u32 = 0x4234_5000 | 1 << 10 | 1 << 9 | 1 << 6 | 1 << 4 | 0xe;
    system.bus.load(second, &descriptor.to_le_bytes());
    let section = 0xa00a_bcde;
    system.with_core(0, |core, bus| {
        let mut translate = |number, address| {
            assert_eq!(core.coprocessor_write(bus, operation(number), address), Ok(true));
            core.coprocessor_read(bus, read).unwrap()
        };
        let page = 0x8000_1234;
        // ARM DDI 0406C, B4.1.112: PA, SH, inner, outer.
        assert_eq!(translate(0, page), 0x4234_5000 | 1 << 7 | 5 << 4 | 1 << 2);
        // F, and the fault status of a page's permission.
        assert_eq!([1, 2, 3].map(|number| translate(number, page)), [0xf << 1 | 1; 3]);
        assert_eq!(translate(3, section), 0x440a_b000 | 5 << 4 | 1 << 2);
        // A section and a page without descriptors.
        assert_eq!(translate(0, 0xc000_0000), 0x5 << 1 | 1);
        assert_eq!(translate(0, 0x8000_2000), 0x7 << 1 | 1);
        core.memory.mmu.registers.sctlr &= !1;
        assert_eq!(core.coprocessor_write(bus, operation(0), page), Ok(true));
        assert_eq!(core.coprocessor_read(bus, read), Some(0x8000_1000 | 1 << 7 | 1 << 4));
    });
}

/// As GCC has it: a product comes a cycle after its instruction, a quotient when the division ends.
#[test]
fn a_product_is_waited_for_and_a_quotient_is_not() {
    // MUL R1, R2, R3 and UDIV R1, R2, R3; ADD R0, R1, R1.
    for (first, cycles) in [(0xe001_0392_u32, 1 + 1 + 1), (0xe731_f312, 5 + 1)] {
        let machine = support::machine("cortex-a7", &[("cores", "1")]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        let start = 0x4001_0000;
        let bytes = [first, 0xe081_0001].iter().flat_map(|word| word.to_le_bytes()).collect();
        system.load(&Loaded { segments: vec![(start, bytes)], entry: start, ..Loaded::default() });
        system.run(&mut Transcript::default(), 2);
        let fetched = 2 * u64::from(machine.memory.word_read_cycles);
        assert_eq!(system.core(0).memory.now() - fetched, cycles, "{first:#x}");
    }
}

#[test]
fn cps_in_thumb_state_masks_and_unmasks() {
    // ARM DDI 0406C, B9.3.1: CPSID I; MRS R0, CPSR; CPSIE I; MRS R1, CPSR; CPSIE F; MRS R2, CPSR.
    let halves: [u16; 9] = [0xb672, 0xf3ef, 0x8000, 0xb662, 0xf3ef, 0x8100, 0xb661, 0xf3ef, 0x8200];
    let machine = support::machine("cortex-a7", &[("cores", "1")]);
    let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
    let start = 0x4001_0000;
    let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    system.load(&Loaded { segments: vec![(start, bytes)], entry: start | 1, ..Loaded::default() });
    system.run(&mut Transcript::default(), 6);
    let core = system.core_mut(0);
    let masks = [0, 1, 2].map(|number| core.registers[number] & 0xc0);
    assert_eq!(masks, [0xc0, 0x40, 0]);
}

#[test]
fn what_is_delivered_late_is_waited_for_wherever_lines_end() {
    // SCTLR.I to what R0 says, so that code is cached or not; both halves of a line, then the next
    // one.
    let begin = [0xee01, 0x0f10];
    let makes_late = [
        (0, vec![0xf8d2, 0x0000]), // LDR.W R0, [R2]
        (0, vec![0x6810]),         // LDR R0, [R2]
        (3, vec![0xfb05, 0xf306]), // MUL.W R3, R5, R6
        (3, vec![0x436b]),         // MULS R3, R5, R3
    ];
    let cycles = |cached: bool, nops: usize, late: &[u16], uses: &[u16]| {
        let machine = support::machine("cortex-a7", &[("cores", "1")]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        let start = 0x4001_0000;
        let nop = vec![0xbf00; nops];
        let halves = [&begin, &nop[..], late, uses, &[0xe7fe]].concat();
        let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let segments = vec![(start, bytes)];
        system.load(&Loaded { segments, entry: start | 1, ..Loaded::default() });
        let registers = &mut system.core_mut(0).registers;
        (registers[0], registers[2]) = (0xc5_0078 | u32::from(cached) << 12, 0x4002_0000);
        system.run(&mut Transcript::default(), nops as u64 + 3);
        system.core(0).memory.now()
    };
    // Where the first of the two is one of the last four half-words of a line.
    for (cached, places) in [(false, 0..2), (true, 26..30)] {
        for nops in places {
            for (register, late) in &makes_late {
                // ADD.W R4, R5, Rm; ADD.W R4, Rn, R5; ADDS R4, Rn, #1.
                let uses = [
                    |register: u16| vec![0xeb05, 0x0400 | register],
                    |register: u16| vec![0xeb00 | register, 0x0405],
                    |register: u16| vec![0x1c44 | register << 3],
                ];
                for (number, add) in uses.iter().enumerate() {
                    let [used, unused] =
                        [*register, 6].map(|r| cycles(cached, nops, late, &add(r)));
                    assert_eq!(used, unused + 1, "{cached} {nops} {late:x?} {number}");
                }
            }
        }
    }
}

#[test]
fn walks_are_cacheable_as_their_own_table_base_says() {
    // ARM DDI 0406C, B4.1.155: table base 0 is cleared and unused, base 1 has its attributes.
    for (attributes, reports) in [(0x4a, 0), (0, 1)] {
        let mut system = system(false);
        let entry = 0x9000_0000;
        // The table's own megabyte, cacheable.
        system.bus.load(TABLE + (TABLE >> 20) * 4, &(TABLE | 0x1c0e).to_le_bytes());
        system.start_checking();
        system.with_core(0, |core, bus| {
            let memory = &mut core.memory;
            let registers = &mut memory.mmu.registers;
            (registers.ttbr, registers.ttbr1) = (0, TABLE | attributes);
            registers.ttbcr = 1 << 4 | 2;
            memory.renew_pages();
            memory.store_word(bus, TABLE + (entry >> 20) * 4, 0x4600_0c0e).unwrap();
            memory.complete_maintenance(bus);
            assert_eq!(memory.load_word(bus, entry).is_ok(), reports == 0);
        });
        assert_eq!(system.reports().len(), reports, "{attributes:#x}");
    }
}

#[test]
fn a_report_names_the_write_of_a_remap_register() {
    // PRRR and NMRR; the page's type changes, and its TLB entry stays.
    for (opcode_2, value) in [(0, 0xfff0_5554), (1, 0)] {
        let mut system = system(false);
        let entry = 0x9000_0000;
        system.bus.load(TABLE + (entry >> 20) * 4, &0x4600_0c0e_u32.to_le_bytes());
        system.start_checking();
        system.with_core(0, |core, bus| {
            let registers = &mut core.memory.mmu.registers;
            // All normal memory, write-back.
            (registers.prrr, registers.nmrr) = (0xaaaa, 0xffff_ffff);
            core.memory.pc = 0x100;
            let control = core.memory.mmu.registers.sctlr | 1 << 28;
            let write = CoprocessorAccess::write(15, 0, 1, 0, 0);
            assert!(core.coprocessor_write(bus, write, control).is_ok());
            core.memory.load_word(bus, entry).unwrap();
            core.memory.pc = 0x200;
            let write = CoprocessorAccess::write(15, 0, 10, 2, opcode_2);
            assert!(core.coprocessor_write(bus, write, value).is_ok());
            core.memory.load_word(bus, entry).unwrap();
        });
        let found: Vec<_> = system.reports().iter().map(|one| (one.kind, one.since)).collect();
        assert_eq!(found, [(Kind::StaleTlbEntry, 0x200)], "{opcode_2}");
    }
}

#[test]
fn what_is_turned_on_must_have_been_invalidated_where_reset_does_not() {
    // ICIALLU; DCISW of all sets and ways, or of all but one; TLBIALL. Then all are turned on at
    // once.
    let control = CoprocessorAccess::write(15, 0, 1, 0, 0);
    let [instructions, translations] = [(5, 0), (7, 0)]
        .map(|(m, two)| CoprocessorAccess::write(15, 0, if m == 5 { 7 } else { 8 }, m, two));
    let [invalidate, clean, both] = [6, 10, 14].map(|m| CoprocessorAccess::write(15, 0, 7, m, 2));
    let cases = [
        ("unknown", true, (512, invalidate), true, ""),
        ("unknown", true, (512, both), true, "DCISW of each set and way"),
        ("unknown", true, (512, clean), true, "DCISW of each set and way"),
        ("unknown", false, (512, invalidate), true, "ICIALLU"),
        ("unknown", true, (511, invalidate), true, "DCISW of each set and way"),
        ("unknown", true, (512, invalidate), false, "TLBIALL"),
        ("unknown", false, (0, clean), false, "ICIALLU and DCISW of each set and way and TLBIALL"),
        ("invalid", false, (0, clean), false, ""),
    ];
    for (at_reset, of_instructions, (lines, line), of_translations, missing) in cases {
        let machine =
            support::machine("cortex-a7", &[("cores", "2"), ("caches_at_reset", at_reset)]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        system.start_checking();
        // The other core's maintenance is not this one's.
        for number in [1, 0] {
            system.with_core(number, |core, bus| {
                let mut write = |to, value| assert!(core.coprocessor_write(bus, to, value).is_ok());
                if of_instructions || number == 1 {
                    write(instructions, 0);
                }
                let (lines, line) = if number == 1 { (512, invalidate) } else { (lines, line) };
                for slot in 0..lines {
                    write(line, (slot / 128) << 30 | (slot % 128) << 6);
                }
                if of_translations || number == 1 {
                    write(translations, 0);
                }
                write(control, 0x00c5_0078 | 0x1005);
            });
        }
        let found: Vec<_> =
            system.reports().into_iter().map(|one| (one.kind, one.core, one.missing)).collect();
        let expected = (Kind::NotInvalidated, 0, format!("{missing}, before"));
        let expected = if missing.is_empty() { vec![] } else { vec![expected] };
        assert_eq!(found, expected, "{at_reset}");
    }
}

#[test]
fn what_is_broadcast_does_not_reach_a_core_that_is_off() {
    // ICIALLUIS and TLBIALLIS of core 0; then core 1 turns on its MMU and instruction cache.
    let [instructions, translations] =
        [(7, 1), (8, 3)].map(|(n, m)| CoprocessorAccess::write(15, 0, n, m, 0));
    let control = CoprocessorAccess::write(15, 0, 1, 0, 0);
    for (is_on, missing) in [(true, vec![]), (false, vec!["ICIALLU and TLBIALL, before"])] {
        let machine =
            support::machine("cortex-a7", &[("cores", "2"), ("caches_at_reset", "unknown")]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        system.start_checking();
        if !is_on {
            system.bus.turn_off(1);
        }
        system.with_core(0, |core, bus| {
            assert!(core.coprocessor_write(bus, instructions, 0).is_ok());
            assert!(core.coprocessor_write(bus, translations, 0).is_ok());
        });
        system.with_core(1, |core, bus| {
            assert!(core.coprocessor_write(bus, control, 0x00c5_0078 | 0x1001).is_ok());
        });
        let found: Vec<_> = system.reports().into_iter().map(|one| one.missing).collect();
        assert_eq!(found, missing);
    }
}

#[test]
fn execute_never_is_a_permission_like_the_others() {
    // The descriptor's XN when the entry is filled and afterwards, and what the checker says of a
    // fetch.
    const XN: u32 = 1 << 4;
    for (before, after, kinds) in
        [(XN, XN, vec![]), (0, XN, vec![Kind::StaleTlbEntry]), (XN, 0, vec![Kind::SpuriousFault])]
    {
        let mut system = system(false);
        let entry = 0x9000_0000;
        let descriptor = TABLE + (entry >> 20) * 4;
        system.bus.load(TABLE + (TABLE >> 20) * 4, &(TABLE | 0x1c0e).to_le_bytes());
        system.bus.load(descriptor, &(0x4600_1c0e | before).to_le_bytes());
        system.start_checking();
        system.with_core(0, |core, bus| {
            let memory = &mut core.memory;
            memory.load_word(bus, entry).unwrap();
            memory.store_word(bus, descriptor, 0x4600_1c0e | after).unwrap();
            assert_eq!(memory.fetch_half(bus, entry).is_err(), before == XN);
        });
        let found: Vec<_> = system.reports().iter().map(|report| report.kind).collect();
        assert_eq!(found, kinds, "{before:#x} {after:#x}");
    }
}

#[test]
fn a_core_that_has_invalidated_all_is_no_walker_any_more() {
    // Core 1 reads a page and may invalidate all; then core 0 replaces the page at once.
    let entry = 0x9000_0000;
    let descriptor = TABLE + (entry >> 20) * 4;
    for (invalidates, again, kinds) in [
        (true, false, vec![]),
        (true, true, vec![Kind::BreakBeforeMake]),
        (false, false, vec![Kind::BreakBeforeMake]),
    ] {
        let machine = support::machine("cortex-a7", &[("cores", "2")]);
        let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
        system.bus.load(TABLE + (TABLE >> 20) * 4, &(TABLE | 0x1c0e).to_le_bytes());
        system.bus.load(descriptor, &0x4600_1c0e_u32.to_le_bytes());
        system.start_checking();
        for number in 0..2 {
            let registers = &mut system.core_mut(number).memory.mmu.registers;
            (registers.ttbr, registers.dacr) = (TABLE | 0x4a, 0x5555_5555);
            registers.sctlr |= 0x1005;
            system.core_mut(number).memory.renew_pages();
        }
        system.with_core(1, |core, bus| {
            core.memory.load_word(bus, entry).unwrap();
            if invalidates {
                let all = CoprocessorAccess::write(15, 0, 8, 7, 0);
                let barrier = CoprocessorAccess::write(15, 0, 7, 10, 4);
                core.coprocessor_write(bus, all, 0).unwrap();
                core.coprocessor_write(bus, barrier, 0).unwrap();
            }
            if again {
                core.memory.load_word(bus, entry).unwrap();
            }
        });
        system.with_core(0, |core, bus| {
            core.memory.store_word(bus, descriptor, 0x4700_1c0e).unwrap();
            core.memory.complete_maintenance(bus);
        });
        let found: Vec<_> = system.reports().iter().map(|report| report.kind).collect();
        assert_eq!(found, kinds, "invalidates: {invalidates}, reads again: {again}");
    }
}

/// As the debugger sees them: a store past the caches in the write buffer, and one through them in
/// the store buffer; each by the mapping that it came by, as a load would.
#[test]
fn who_looks_at_memory_sees_what_waits_in_the_buffers() {
    let mut system = system(false);
    // Normal memory, not cacheable (ARM DDI 0406C, table B3-10: TEX 1, C 0, B 0).
    system.bus.load(TABLE + (0xb00 << 2), &0x4400_1c02_u32.to_le_bytes());
    let (past, through, physical) = (0xb000_2000, 0xa000_2000, 0x4400_2000);
    system.with_core(0, |core, bus| {
        let memory = &mut core.memory;
        memory.load_word(bus, past + 0x100).unwrap(); // the TLB entries
        memory.load_word(bus, through + 0x100).unwrap();
        memory.store_word(bus, past, 0x11).unwrap();
        assert_eq!((bus.ram.get(physical), memory.peek(bus, past)), (Some(0), Some(0x11)));
        memory.complete_maintenance(bus);
        memory.store_word(bus, through, 0x22).unwrap();
        assert_eq!((memory.peek(bus, through), memory.peek(bus, past)), (Some(0x22), Some(0x11)));
        assert_eq!(memory.load_word(bus, through), Ok(0x22));
        assert_eq!(memory.load_word(bus, past), Ok(0x11));
    });
}

/// A store to a descriptor waits for its line and no longer, also where the time slice goes on.
#[test]
fn a_walk_reads_what_was_stored_as_soon_as_its_line_is_here() {
    for (passed, found) in [(100_u64, false), (200, true)] {
        let mut system = system(false);
        system.bus.load(TABLE + (0x401 << 2), &(TABLE | 0x1c0e).to_le_bytes());
        system.with_core(0, |core, bus| {
            let memory = &mut core.memory;
            memory.load_word(bus, TABLE).unwrap(); // the TLB entry
            memory.store_word(bus, TABLE + (0xb01 << 2), 0x4400_1c0e).unwrap();
            memory.charge(Cause::Idle, passed);
            assert_eq!(memory.load_word(bus, 0xb010_0000).is_ok(), found, "{passed} cycles later");
        });
    }
}

/// A fill that finds memory busy with a store past the caches looks into the second level
/// meanwhile, whether the core waits for it or goes on; and two fills that it does not wait for
/// both go ahead of the store behind.
#[test]
fn fills_wait_for_the_transfer_that_memory_is_busy_with_and_for_no_other() {
    for (registers, all) in [(0, 100 + 146 + 100 + 146), (1 << 3 | 1 << 4, 100 + 146)] {
        let mut system = system(false);
        // Normal memory, not cacheable.
        system.bus.load(TABLE + (0xb00 << 2), &0x4400_1c02_u32.to_le_bytes());
        let (past, through) = (0xb000_0000, 0xa000_2000);
        system.with_core(0, |core, bus| {
            let memory = &mut core.memory;
            memory.load_word(bus, past).unwrap(); // the TLB entries
            memory.load_word(bus, through + 0x100).unwrap();
            let before = memory.now();
            memory.store_word(bus, past, 1).unwrap();
            memory.store_word(bus, past + 0x40, 2).unwrap();
            memory.load_word_for(bus, through, registers & 1 << 3).unwrap();
            memory.load_word_for(bus, through + 0x400, registers & 1 << 4).unwrap();
            memory.await_registers(registers);
            assert_eq!(memory.now() - before, all, "registers: {registers:#x}");
        });
    }
}
