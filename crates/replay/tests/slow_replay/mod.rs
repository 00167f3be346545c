//! A slow and obvious model of every organisation, for comparison with the fast one.
//!
//! It makes one reference at a time, straight from the study's pseudocode, on sets that are lists.
//! It shares with the library only what is not under test here: the machine's description, the
//! random generator (so that both draw alike), the remapping and the frames, and the order of
//! causes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use mmulab_hardware::{Partition, Random, Replacement};
use mmulab_machine as machine;
use mmulab_machine::{
    Addressing, CacheLevel, HostPages, Organisation, Pages, ReplayMachine, WalkStart,
};
use mmulab_replay::Outcome;
use mmulab_replay::{Frames, Remapping};
use mmulab_trace::{AccessKind, Block, Event};

use crate::slow::SlowSets;

/// An instruction of the program, executed once, at remapped addresses where the machine remaps.
struct Instruction {
    address: u64,
    size: u64,
    /// (address, size, whether it writes).
    accesses: Vec<(u64, u64, bool)>,
}

/// What is counted: (count, cycles) by cause, and misses by structure.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub causes: BTreeMap<&'static str, (u64, u64)>,
    pub cache_misses: BTreeMap<String, u64>,
    pub write_backs: BTreeMap<String, u64>,
    pub tlb_misses: BTreeMap<String, u64>,
    pub nested_misses: u64,
    /// Walks and cycles by page of the program: by address and size.
    pub pages: BTreeMap<(u64, u64), (u64, u64)>,
}

impl Counts {
    /// One event more.
    pub fn add(&mut self, cause: &'static str, cycles: u64) {
        let account = self.causes.entry(cause).or_default();
        account.0 += 1;
        account.1 += cycles;
    }

    /// Walks that radix tables led to.
    #[allow(dead_code)] // Not every test asks.
    pub fn walks(&self) -> u64 {
        let count = |cause| self.causes.get(cause).map_or(0, |(count, _)| *count);
        count("uhandler") + count("overlapped-walk")
    }

    pub fn cycles(&self) -> u64 {
        self.causes.values().map(|(_, cycles)| cycles).sum()
    }
}

fn policy(replacement: machine::Replacement) -> Replacement {
    match replacement {
        machine::Replacement::Random => Replacement::Random,
        machine::Replacement::RoundRobin => Replacement::RoundRobin,
        machine::Replacement::Lru => Replacement::Lru,
        machine::Replacement::Plru => Replacement::TreePseudoLru,
    }
}

struct SlowCache {
    name: String,
    sets: SlowSets,
    line: u64,
    physical: bool,
    write_back: bool,
    allocate: bool,
    /// Both names of the line in each (set, way).
    names: HashMap<(usize, usize), (u64, u64)>,
    dirty: HashSet<(usize, usize)>,
}

impl SlowCache {
    fn place(&self, at: (u64, u64)) -> (usize, u64) {
        let line = if self.physical { at.1 } else { at.0 } / self.line;
        (line as usize % self.sets.sets.len(), line)
    }

    fn find(&self, at: (u64, u64)) -> Option<(usize, usize)> {
        let (set, line) = self.place(at);
        self.sets.find(set, line).map(|way| (set, way))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Fetch,
    Data,
    Upte,
    Kpte,
    Rpte,
    Hpte,
    Handler,
}

/// A page of a TLB: base and size.
type Entry = (u64, u64);

struct SlowTlb {
    sets: SlowSets,
    sizes: Vec<u64>,
    /// Frame of the page in each (set, way), with the page.
    entries: HashMap<(usize, usize), (Entry, u64)>,
}

impl SlowTlb {
    fn new(tlb: &machine::Tlb, random: Random) -> Self {
        let ways = tlb.ways.count(u64::from(tlb.entries)) as usize;
        let sets = tlb.entries as usize / ways;
        let mut slow = SlowSets::new(sets, ways, policy(tlb.replacement), random);
        slow.protected = tlb.protected_entries as usize;
        let sizes = tlb.page_sizes.iter().map(|size| size.bytes()).collect();
        Self { sets: slow, sizes, entries: HashMap::new() }
    }

    fn set(&self, address: u64, size: u64) -> usize {
        (address / size) as usize % self.sets.sets.len()
    }

    fn lookup(&mut self, address: u64) -> Option<(Entry, u64)> {
        let mut sizes = self.sizes.clone();
        sizes.sort();
        for size in sizes {
            let set = self.set(address, size);
            let page = (address / size * size, size);
            for way in 0..self.sets.sets[set].ways.len() {
                if self.entries.get(&(set, way)).is_some_and(|(held, _)| *held == page) {
                    self.sets.touch(set, way);
                    return self.entries.get(&(set, way)).copied();
                }
            }
        }
        None
    }

    /// Whether a look-up would find an address; no use.
    fn has(&self, address: u64) -> bool {
        let covers = |&(page, size): &Entry| page <= address && address - page < size;
        self.entries.values().any(|(held, _)| covers(held))
    }

    /// Drops the entries of pages for which a condition holds.
    fn drop_where(&mut self, condition: impl Fn(Entry) -> bool) {
        for set in 0..self.sets.sets.len() {
            for way in 0..self.sets.sets[set].ways.len() {
                if self.entries.get(&(set, way)).is_some_and(|&(page, _)| condition(page)) {
                    self.entries.remove(&(set, way));
                    self.sets.sets[set].ways[way] = None;
                }
            }
        }
    }

    fn insert(&mut self, page: Entry, frame: u64, partition: Partition) {
        let set = self.set(page.0, page.1);
        let way = self.sets.victim(set, partition);
        self.sets.sets[set].ways[way] = Some(page.0);
        self.sets.touch(set, way);
        self.entries.insert((set, way), (page, frame));
    }
}

/// What an event takes from TLBs.
pub enum Gone {
    /// Pages that begin within so many bytes from an address.
    Pages(u64, u64),
    /// All of a block of 2 MiB, tables included.
    Block(u64),
}

/// The machine.
pub struct Slow {
    machine: ReplayMachine,
    pub counts: Counts,
    caches: Vec<SlowCache>,
    /// Caches of the instruction side and of the data side, first level first.
    paths: [Vec<usize>; 2],
    costs: Vec<u64>,
    itlb: Vec<SlowTlb>,
    dtlb: Vec<SlowTlb>,
    stlb: Vec<SlowTlb>,
    walk_caches: BTreeMap<u32, SlowTlb>,
    /// Of a hypervisor.
    host_walk_caches: BTreeMap<u32, SlowTlb>,
    nested_tlb: Option<SlowTlb>,
    host_frames: Frames,
    host_tables: HashMap<(u32, u64), u64>,
    /// Address spaces in the order in which they got their identifier.
    with_identifier: VecDeque<u32>,
    /// Those of which something has gone since they ran here.
    outdated: HashSet<u32>,
    /// The address space that runs.
    space: Option<u32>,
    remapping: Remapping,
    frames: Frames,
    has_physical: bool,
    chains: HashMap<u64, Vec<(u64, u64)>>,
    collisions: u64,
    tables: HashMap<(u32, u64), u64>,
    /// What each page of 4 KiB is mapped to.
    mapped: HashMap<u64, String>,
    /// Pages that stacks may still grow into.
    stacks: Vec<Range<u64>>,
    /// For mixed pages: of each block of 2 MiB that was touched whether it is one page, and whether
    /// it can be.
    large: HashMap<u64, (bool, bool)>,
    fragmentation: Random,
    /// What the program's own touches took from TLBs, for other cores to learn of.
    pub gone: Vec<Gone>,
    /// Pages of 4 KiB that no longer fault.
    touched: HashSet<u64>,
    instructions: u64,
    /// Instructions that this core executed, the warm-up's too.
    executed: u64,
    /// Where walks overlap: the instruction whose walk began a window, and how long the walks in it
    /// take.
    window: (u64, Vec<u64>),
}

const PAGE: u64 = 4096;

impl Slow {
    pub fn new(machine: &ReplayMachine, seed: u64) -> Self {
        let mut caches = Vec::new();
        let mut paths = [Vec::new(), Vec::new()];
        let mut add = |name: String, cache: &machine::Cache| {
            let lines = cache.size_bytes / u64::from(cache.line_bytes);
            let ways = cache.ways.count(lines) as usize;
            let random = Random::stream(seed, 10 + caches.len() as u64);
            let sets = lines as usize / ways;
            caches.push(SlowCache {
                name,
                sets: SlowSets::new(sets, ways, policy(cache.replacement), random),
                line: u64::from(cache.line_bytes),
                physical: cache.addressing == Addressing::Physical,
                write_back: cache.write_policy == machine::WritePolicy::WriteBack,
                allocate: cache.write_allocate,
                names: HashMap::new(),
                dirty: HashSet::new(),
            });
            caches.len() - 1
        };
        let mut costs = Vec::new();
        for (number, level) in machine.cache_levels().iter().enumerate() {
            let latency = match level {
                CacheLevel::Split { instruction, data } => {
                    paths[0].push(add(format!("L{}i", number + 1), instruction));
                    paths[1].push(add(format!("L{}d", number + 1), data));
                    data.latency_cycles
                }
                CacheLevel::Unified(cache) => {
                    let index = add(format!("L{}", number + 1), cache);
                    paths[0].push(index);
                    paths[1].push(index);
                    cache.latency_cycles
                }
            };
            if number > 0 {
                costs.push(u64::from(latency));
            }
        }
        costs.push(u64::from(machine.memory.latency_cycles));
        let radix = matches!(machine.organisation, Organisation::Radix(_));
        let tlbs = |described: &[&Option<machine::Tlb>], first: u64| -> Vec<SlowTlb> {
            described
                .iter()
                .filter_map(|tlb| tlb.as_ref())
                .zip(first..)
                .map(|(tlb, stream)| SlowTlb::new(tlb, Random::stream(seed, stream)))
                .collect()
        };
        let mut walk_caches = BTreeMap::new();
        let mut host = None;
        let mut user_space = 1 << 31;
        match &machine.organisation {
            Organisation::Radix(table) => {
                let caches = [
                    &table.walk_cache_level_2,
                    &table.walk_cache_level_3,
                    &table.walk_cache_level_4,
                ];
                walk_caches = slow_walk_caches(caches, table.index_bits, seed, 130);
                host = table.host.clone().filter(|host| host.pages != HostPages::None);
            }
            organisation => user_space = mmulab_replay::user_space_bytes(organisation).unwrap(),
        }
        Self {
            counts: Counts::default(),
            has_physical: caches.iter().any(|cache| cache.physical),
            caches,
            paths,
            costs,
            itlb: tlbs(&[&machine.itlb, &machine.itlb_large], if radix { 100 } else { 1 }),
            dtlb: tlbs(
                &[&machine.dtlb, &machine.dtlb_large, &machine.dtlb_huge],
                if radix { 110 } else { 2 },
            ),
            stlb: tlbs(&[&machine.stlb, &machine.stlb_huge], 120),
            walk_caches,
            host_walk_caches: host.as_ref().map_or_else(BTreeMap::new, |host| {
                let caches =
                    [&host.walk_cache_level_2, &host.walk_cache_level_3, &host.walk_cache_level_4];
                slow_walk_caches(caches, host.index_bits, seed, 150)
            }),
            nested_tlb: host.as_ref().and_then(|host| {
                let size = 1 << host.pages.shift().unwrap();
                let random = Random::stream(seed, 150);
                host.nested_tlb.as_ref().map(|cache| slow_walk_cache(cache, size, random))
            }),
            host_frames: Frames::of_host(machine.memory.placement, seed),
            host_tables: HashMap::new(),
            remapping: Remapping::new(user_space),
            frames: match host {
                Some(host) => {
                    let shift = host.guest_memory_bytes.trailing_zeros();
                    Frames::of_guest(machine.memory.placement, seed, shift)
                }
                None if radix => Frames::new(machine.memory.placement, seed),
                None => Frames::new_32_bit(machine.memory.placement, seed),
            },
            chains: HashMap::new(),
            collisions: 0,
            tables: HashMap::new(),
            mapped: HashMap::new(),
            stacks: Vec::new(),
            large: HashMap::new(),
            fragmentation: Random::stream(seed, 140),
            gone: Vec::new(),
            touched: HashSet::new(),
            with_identifier: VecDeque::new(),
            outdated: HashSet::new(),
            space: None,
            instructions: 0,
            executed: 0,
            window: (0, Vec::new()),
            machine: machine.clone(),
        }
    }

    /// Learns of a mapping before the program starts; the remapping knows all of them at once.
    #[allow(dead_code)] // Not every test replays 32-bit machines.
    pub fn learn_mapping(&mut self, event: &Event) {
        if let Event::Map { address, length_bytes, .. } = event {
            self.remapping.map(*address, *length_bytes);
        }
    }

    /// Another core of the same machine goes on, with all that cores share; this one.
    #[allow(dead_code)] // Not every test has several.
    pub fn go_on_as(&mut self, mut other: Slow) -> Slow {
        std::mem::swap(self, &mut other);
        let level = self.machine.multicore.as_ref().unwrap().first_shared_level as usize - 1;
        let first = (0..2).filter_map(|side| self.paths[side].get(level)).min();
        let first = first.copied().unwrap_or(self.caches.len());
        self.caches[first..].swap_with_slice(&mut other.caches[first..]);
        std::mem::swap(&mut self.counts, &mut other.counts);
        std::mem::swap(&mut self.frames, &mut other.frames);
        std::mem::swap(&mut self.tables, &mut other.tables);
        std::mem::swap(&mut self.host_frames, &mut other.host_frames);
        std::mem::swap(&mut self.host_tables, &mut other.host_tables);
        std::mem::swap(&mut self.mapped, &mut other.mapped);
        std::mem::swap(&mut self.stacks, &mut other.stacks);
        std::mem::swap(&mut self.large, &mut other.large);
        std::mem::swap(&mut self.fragmentation, &mut other.fragmentation);
        std::mem::swap(&mut self.touched, &mut other.touched);
        std::mem::swap(&mut self.instructions, &mut other.instructions);
        other
    }

    /// What an event on another core does here; whether this one is interrupted for it.
    #[allow(dead_code)]
    pub fn learn_of(&mut self, gone: &Gone, space: u32) -> bool {
        use machine::Shootdown;
        let how = self.machine.multicore.as_ref().unwrap().shootdown;
        if how == Shootdown::Broadcast || self.space == Some(space) {
            self.forget(gone);
        } else if self.with_identifier.contains(&space) {
            self.outdated.insert(space);
        }
        how == Shootdown::Interrupt && self.space == Some(space)
    }

    fn forget(&mut self, gone: &Gone) {
        let tlbs = self.itlb.iter_mut().chain(&mut self.dtlb).chain(&mut self.stlb);
        match *gone {
            Gone::Pages(first, length) => {
                for tlb in tlbs {
                    tlb.drop_where(|(page, _)| page >= first && page - first < length);
                }
            }
            Gone::Block(block) => {
                for tlb in tlbs.chain(self.walk_caches.values_mut()) {
                    // What maps a part of the block, and what maps just that block.
                    tlb.drop_where(|(page, size)| size <= 1 << 21 && page >> 21 == block);
                }
            }
        }
    }

    /// A mapping event happens; what is gone by it. Mappings begin and end on pages here.
    pub fn note(&mut self, event: &Event) -> Vec<Gone> {
        let (address, length, name) = match event {
            Event::Map { address, length_bytes, name, .. } => {
                (*address, *length_bytes, name.as_str())
            }
            Event::Unmap { address, length_bytes } => (*address, *length_bytes, "/nothing"),
            Event::AddressSpace(space) => {
                self.switch_to(*space);
                return Vec::new();
            }
            Event::Thread(_) | Event::Mark { .. } | Event::Core(_) => return Vec::new(),
        };
        if !matches!(self.machine.organisation, Organisation::Radix(_)) {
            return Vec::new();
        }
        let pages = address / PAGE..(address + length) / PAGE;
        let mut gone = Vec::new();
        if name != "/nothing" && pages.clone().any(|page| self.mapped.contains_key(&page)) {
            gone = self.note(&Event::Unmap { address, length_bytes: length });
        }
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        for page in pages.clone() {
            self.mapped.remove(&page);
            for stack in &mut self.stacks {
                if stack.contains(&page) {
                    stack.start = page + 1;
                }
            }
        }
        // Where all pages are large one is gone when nothing of it is mapped.
        let size = match table.pages {
            Pages::Large => 512,
            Pages::Huge => 512 * 512,
            Pages::Small | Pages::Mixed | Pages::OnFault => 1,
        };
        let mapped: HashSet<u64> = self.mapped.keys().map(|page| page / size).collect();
        let around = pages.start / size * size..pages.end.next_multiple_of(size);
        let unmapped: Vec<u64> = around.filter(|page| !mapped.contains(&(page / size))).collect();
        let before = self.touched.len();
        unmapped.iter().for_each(|page| _ = self.touched.remove(page));
        // What was never touched is in no TLB.
        if self.touched.len() < before {
            gone.push(Gone::Pages(unmapped[0] * PAGE, unmapped.len() as u64 * PAGE));
        }
        let blocks: Vec<u64> = self.large.keys().copied().collect();
        let (mapped, touched) = (&self.mapped, &self.touched);
        let is_empty = |block: &u64| {
            (block * 512..(block + 1) * 512)
                .all(|page| !mapped.contains_key(&page) && !touched.contains(&page))
        };
        for block in blocks.into_iter().filter(is_empty) {
            self.large.remove(&block);
        }
        match name {
            "/nothing" => {}
            "[stack]" if size == 1 => self.stacks.push(pages),
            _ => self.mapped.extend(pages.map(|page| (page, name.to_owned()))),
        }
        gone.extend(self.resize_blocks());
        gone.iter().for_each(|gone| self.forget(gone));
        gone
    }

    /// The page of `address` and those between it and the grown part of its stack are mapped.
    fn grow_stack(&mut self, address: u64) {
        let page = address / PAGE;
        let Some(stack) = self.stacks.iter_mut().find(|stack| stack.contains(&page)) else {
            return;
        };
        self.mapped.extend((page..stack.end).map(|page| (page, "[stack]".to_owned())));
        stack.end = page;
        for gone in self.resize_blocks() {
            if matches!(gone, Gone::Block(block) if block == address >> 21) {
                let cycles = self.machine.interrupts.small_page_fault_cycles.unwrap_or(0);
                self.counts.add("small-page-fault", u64::from(cycles));
            }
            self.forget(&gone);
            self.gone.push(gone);
        }
    }

    /// Decides about all blocks anew; those that change.
    fn resize_blocks(&mut self) -> Vec<Gone> {
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        let daemon = table.pages == Pages::Mixed;
        let mut gone = Vec::new();
        let mut blocks: Vec<u64> = self.large.keys().copied().collect();
        blocks.sort();
        for block in blocks {
            let (was_large, can_be) = self.large[&block];
            let is_present =
                (block * 512..(block + 1) * 512).any(|page| self.touched.contains(&page));
            let may_be = can_be && (was_large || daemon && is_present);
            let is_large = may_be && self.is_anonymous_block(block);
            self.large.insert(block, (is_large, can_be));
            if is_large != was_large {
                gone.push(Gone::Block(block));
            }
            if is_large && !was_large {
                self.touched.extend(block * 512..(block + 1) * 512);
                let cycles = self.machine.interrupts.promotion_cycles.unwrap_or(0);
                self.counts.add("promotion", u64::from(cycles));
            }
        }
        gone
    }

    /// Another program runs. The oldest identifier goes to it where it has none.
    fn switch_to(&mut self, space: u32) {
        let Organisation::Radix(table) = &self.machine.organisation else { return };
        let most = table.address_spaces.unwrap() as usize;
        self.space = Some(space);
        if self.outdated.remove(&space) {
            self.drop_all_of(space);
        }
        if self.with_identifier.contains(&space) {
            return;
        }
        self.with_identifier.push_back(space);
        if self.with_identifier.len() > most {
            let gone = self.with_identifier.pop_front().unwrap();
            self.outdated.remove(&gone);
            self.drop_all_of(gone);
        }
    }

    fn drop_all_of(&mut self, space: u32) {
        let all = self.itlb.iter_mut().chain(&mut self.dtlb).chain(&mut self.stlb);
        for tlb in all.chain(self.walk_caches.values_mut()) {
            tlb.drop_where(|(page, _)| page >> 49 == u64::from(space));
        }
    }

    /// Whether all of a block of 2 MiB is one kind of anonymous memory.
    fn is_anonymous_block(&self, block: u64) -> bool {
        let first = self.mapped.get(&(block * 512));
        first.is_some_and(|name| name.is_empty() || name.starts_with('['))
            && (0..512).all(|page| self.mapped.get(&(block * 512 + page)) == first)
    }

    /// Whether a page is the first of its block to be present, and the daemon finds one that can be
    /// large.
    fn promotes_behind_a_fault(&self, address: u64) -> bool {
        let block = address >> 21;
        let Organisation::Radix(table) = &self.machine.organisation else { return false };
        table.pages == Pages::Mixed
            && self.large[&block] == (false, true)
            && self.is_anonymous_block(block)
            && (block * 512..(block + 1) * 512).all(|page| !self.touched.contains(&page))
    }

    /// A page is walked for: the first time it faults.
    fn touch(&mut self, address: u64, size: u64) {
        let page = address / PAGE;
        if self.touched.contains(&page) {
            return;
        }
        let costs = self.machine.interrupts.clone();
        let mut fault =
            |name, cycles: Option<u32>| self.counts.add(name, cycles.unwrap_or(0).into());
        if size > PAGE {
            for _ in 0..size >> 21 {
                fault("large-page-fault", costs.large_page_fault_cycles);
            }
            self.touched.extend(address / size * size / PAGE..(address / size + 1) * size / PAGE);
            return;
        }
        self.touched.insert(page);
        let name = self.mapped.get(&page);
        if name.is_none_or(|name| name.is_empty() || name.starts_with('[')) {
            return fault("small-page-fault", costs.small_page_fault_cycles);
        }
        fault("file-page-fault", costs.file_page_fault_cycles);
        let window = page / 16 * 16..page / 16 * 16 + 16;
        let same = |page: &u64| self.mapped.get(page) == name;
        self.touched.extend((page..window.end).take_while(same));
        self.touched.extend((window.start..page).rev().take_while(same));
    }

    /// Executes a block. It is remapped by its first byte and stays whole.
    pub fn execute_block(&mut self, block: &Block, addresses: &[u64]) {
        let is_radix = matches!(self.machine.organisation, Organisation::Radix(_));
        let mut address = if is_radix {
            block.address
        } else {
            u64::from(self.remapping.remap(block.address).unwrap())
        };
        let mut addresses = addresses.iter();
        for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
            let accesses = block
                .accesses
                .iter()
                .filter(|access| usize::from(access.instruction) == index)
                .map(|access| {
                    let address = *addresses.next().unwrap();
                    let address = if is_radix {
                        address
                    } else {
                        u64::from(self.remapping.remap(address).unwrap())
                    };
                    let is_store = access.kind != AccessKind::Load;
                    (address, u64::from(access.size_bytes), is_store)
                })
                .collect();
            self.execute(&Instruction { address, size: u64::from(size), accesses });
            address += u64::from(size);
        }
    }

    /// `while (i = get_next_instruction())` of the study, section 3.1.
    fn execute(&mut self, instruction: &Instruction) {
        self.instructions += 1;
        self.executed += 1;
        self.pieces(instruction.address, instruction.size, false, true);
        for &(address, size, is_store) in &instruction.accesses {
            self.pieces(address, size, is_store, false);
        }
    }

    /// A reference to each line that an instruction or an access touches, lower first.
    fn pieces(&mut self, address: u64, size: u64, is_store: bool, is_fetch: bool) {
        let radix = matches!(self.machine.organisation, Organisation::Radix(_));
        let first = address;
        let line = self.caches[self.paths[usize::from(!is_fetch)][0]].line;
        let mut byte = first;
        while byte < first + size.max(1) {
            if radix {
                let physical = self.translate_radix(byte, is_fetch);
                let who = if is_fetch { Who::Fetch } else { Who::Data };
                self.cache(who, (byte, physical), is_store, 0);
            } else {
                self.reference_32_bit(byte, is_store, is_fetch);
            }
            byte = (byte / line + 1) * line;
        }
    }

    fn reference_32_bit(&mut self, address: u64, is_store: bool, is_fetch: bool) {
        let page = address / PAGE * PAGE;
        let before = self.counts.cycles();
        let has_tlb = !self.itlb.is_empty();
        if has_tlb {
            let tlb = if is_fetch { &mut self.itlb[0] } else { &mut self.dtlb[0] };
            if tlb.lookup(address).is_none() {
                let name = if is_fetch { "itlb" } else { "dtlb" };
                *self.counts.tlb_misses.entry(name.into()).or_default() += 1;
                self.walk(page);
                let tlb = if is_fetch { &mut self.itlb[0] } else { &mut self.dtlb[0] };
                tlb.insert((page, PAGE), 0, Partition::Normal);
                self.attribute(page, before);
            }
        }
        let physical =
            if self.has_physical { self.frames.physical_address(address, 12) } else { address };
        let at = (address, physical);
        if matches!(self.machine.organisation, Organisation::Notlb(_)) {
            let nowhere = self.is_nowhere(usize::from(!is_fetch), at);
            if nowhere {
                let before = self.counts.cycles();
                self.walk(page);
                self.attribute(page, before);
            }
        }
        self.cache(if is_fetch { Who::Fetch } else { Who::Data }, at, is_store, 0);
    }

    fn attribute(&mut self, page: u64, before: u64) {
        let address = self.remapping.original(page as u32).unwrap();
        let cycles = self.counts.cycles() - before;
        let walks = self.counts.pages.entry((address, PAGE)).or_default();
        walks.0 += 1;
        walks.1 += cycles;
    }

    /// `walk_page_table( addr )`, organisation by organisation.
    fn walk(&mut self, page: u64) {
        let number = page / PAGE;
        let organisation = self.machine.organisation.clone();
        match &organisation {
            // tlbmiss_handler( UPT_HANDLER_BASE, 10 );
            // if (dtlb_miss( UPT_BASE + uptidx( addr ) )) {
            //     tlbmiss_handler( RPT_HANDLER_BASE, 20 );
            //     dcache_lookup( RPT_BASE + rptidx( addr ) );
            // }
            // dcache_lookup( UPT_BASE + uptidx( addr ) );
            Organisation::Ultrix(table) => {
                let upte = table.user_table.base_address + number * table.pte_bytes;
                let upt_page = (number * table.pte_bytes) / PAGE;
                self.handler("uhandler", &table.user_handler);
                if self.dtlb[0].lookup(upte).is_none() {
                    self.counts.nested_misses += 1;
                    self.handler("rhandler", &table.root_handler);
                    let rpte = table.root_table.base_address + upt_page * table.pte_bytes;
                    self.cache(Who::Rpte, (rpte, rpte), false, 0);
                    self.dtlb[0].insert((upte / PAGE * PAGE, PAGE), 0, Partition::Protected);
                }
                self.cache(Who::Upte, (upte, upte), false, 0);
            }
            Organisation::Notlb(table) => {
                let upte = table.user_table.base_address + number * table.pte_bytes;
                let upt_page = (number * table.pte_bytes) / PAGE;
                self.handler("uhandler", &table.user_handler);
                if self.is_nowhere(1, (upte, upte)) {
                    self.handler("rhandler", &table.root_handler);
                    let rpte = table.root_table.base_address + upt_page * table.pte_bytes;
                    self.cache(Who::Rpte, (rpte, rpte), false, 0);
                }
                self.cache(Who::Upte, (upte, upte), false, 0);
            }
            Organisation::Mach(table) => {
                let upte = table.user_table.base_address + number * table.pte_bytes;
                self.handler("uhandler", &table.user_handler);
                if self.dtlb[0].lookup(upte).is_none() {
                    self.counts.nested_misses += 1;
                    self.handler("khandler", &table.kernel_handler);
                    let kpte = table.kernel_table.base_address + upte / PAGE * table.pte_bytes;
                    if self.dtlb[0].lookup(kpte).is_none() {
                        self.counts.nested_misses += 1;
                        self.handler("rhandler", &table.root_handler);
                        for load in 0..u64::from(table.administrative_loads.count) {
                            let address = table.administrative_loads.base_address
                                + load * table.administrative_loads.stride_bytes;
                            self.cache(Who::Rpte, (address, address), false, 0);
                        }
                        let kernel_page = (kpte - table.kernel_table.base_address) / PAGE;
                        let rpte = table.root_table.base_address + kernel_page * table.pte_bytes;
                        self.cache(Who::Rpte, (rpte, rpte), false, 0);
                        self.dtlb[0].insert((kpte / PAGE * PAGE, PAGE), 0, Partition::Protected);
                    }
                    self.cache(Who::Kpte, (kpte, kpte), false, 0);
                    self.dtlb[0].insert((upte / PAGE * PAGE, PAGE), 0, Partition::Protected);
                }
                self.cache(Who::Upte, (upte, upte), false, 0);
            }
            Organisation::Intel(table) => {
                self.counts.add("uhandler", u64::from(table.walker.cycles));
                let upt_page = (number * table.pte_bytes) / PAGE;
                let rpte = table.root_table.base_address + upt_page * table.pte_bytes;
                self.cache(Who::Rpte, (rpte, rpte), false, 0);
                let upte = table.user_table.base_address + number * table.pte_bytes;
                self.cache(Who::Upte, (upte, upte), false, 0);
            }
            Organisation::PaRisc(table) => {
                self.handler("uhandler", &table.user_handler);
                let base = table.collision_table.base_address;
                self.chain(number, &table.hash_table, base, table.pte_bytes);
            }
            Organisation::InvertedHw(table) => {
                let base = table.collision_table.base_address;
                let links = self.chain(number, &table.hash_table, base, table.pte_bytes) - 1;
                let cycles = table.walker.cycles + table.walker.cycles_per_link * links;
                self.counts.add("uhandler", u64::from(cycles));
            }
            Organisation::Base(_) | Organisation::Radix(_) => unreachable!(),
        }
    }

    /// Loads the entries of a chain up to the page's own; how many there were.
    fn chain(
        &mut self,
        page: u64,
        hash: &machine::HashTable,
        collisions: u64,
        pte_bytes: u64,
    ) -> u32 {
        let head = (page ^ (page >> hash.hash_shift_bits)) % u64::from(hash.entries);
        let chain = self.chains.entry(head).or_default();
        if !chain.iter().any(|&(held, _)| held == page) {
            if chain.is_empty() {
                chain.push((page, hash.base_address + head * pte_bytes));
            } else {
                chain.push((page, collisions + self.collisions * pte_bytes));
                self.collisions += 1;
            }
        }
        let chain = chain.clone();
        let mut loads = 0;
        for (held, address) in chain {
            self.cache(Who::Upte, (address, address), false, 0);
            loads += 1;
            if held == page {
                break;
            }
        }
        loads
    }

    /// `tlbmiss_handler( base, n )`: an interrupt, and n instructions through the I-caches.
    fn handler(&mut self, cause: &'static str, handler: &machine::Handler) {
        let cost = u64::from(self.machine.interrupts.costs_cycles[0]);
        self.counts.add("interrupt", cost);
        self.counts.add(cause, u64::from(handler.instructions));
        for number in 0..u64::from(handler.instructions) {
            let address = handler.base_address + number * u64::from(handler.instruction_bytes);
            self.cache(Who::Handler, (address, address), false, 0);
        }
    }

    fn is_nowhere(&self, side: usize, at: (u64, u64)) -> bool {
        self.paths[side].iter().all(|&index| self.caches[index].find(at).is_none())
    }

    /// `icache_lookup` and `dcache_lookup`, entering at `level`.
    fn cache(&mut self, who: Who, at: (u64, u64), is_store: bool, level: usize) {
        self.look(who, at, is_store, level);
        if is_store {
            let cache = &mut self.caches[self.paths[1][level]];
            match cache.find(at) {
                Some(place) if cache.write_back => {
                    cache.dirty.insert(place);
                }
                _ => self.write(level + 1, at),
            }
        }
    }

    /// Looks in `level`; on a miss, the level below answers first, then this one is filled.
    fn look(&mut self, who: Who, at: (u64, u64), is_store: bool, level: usize) {
        let side = usize::from(!matches!(who, Who::Fetch | Who::Handler));
        let Some(&index) = self.paths[side].get(level) else { return };
        if let Some((set, way)) = self.caches[index].find(at) {
            self.caches[index].sets.touch(set, way);
            return;
        }
        let name = self.caches[index].name.clone();
        *self.counts.cache_misses.entry(name).or_default() += 1;
        let goes_to = if level + 1 == self.paths[side].len() { 2 } else { level };
        let cause = match who {
            Who::Fetch => ["L1i-miss", "L2i-miss", "L3i-miss"][level],
            Who::Data => ["L1d-miss", "L2d-miss", "L3d-miss"][level],
            Who::Upte => ["upte-L2", "upte-L3", "upte-MEM"][goes_to],
            Who::Kpte => ["kpte-L2", "kpte-L3", "kpte-MEM"][goes_to],
            Who::Rpte => ["rpte-L2", "rpte-L3", "rpte-MEM"][goes_to],
            Who::Hpte => ["hpte-L2", "hpte-L3", "hpte-MEM"][goes_to],
            Who::Handler => ["handler-L2", "handler-L3", "handler-MEM"][goes_to],
        };
        self.counts.add(cause, self.costs[level]);
        self.look(who, at, is_store, level + 1);
        if !is_store || self.caches[index].allocate {
            self.fill(index, level, at);
        }
    }

    fn fill(&mut self, index: usize, level: usize, at: (u64, u64)) {
        let cache = &mut self.caches[index];
        let (set, line) = cache.place(at);
        let way = cache.sets.victim(set, Partition::Normal);
        let old = cache.sets.sets[set].ways[way].replace(line);
        cache.sets.touch(set, way);
        let first = (at.0 / cache.line * cache.line, at.1 / cache.line * cache.line);
        let old_names = cache.names.insert((set, way), first);
        let was_dirty = cache.dirty.remove(&(set, way));
        if old.is_some() && was_dirty {
            let name = cache.name.clone();
            *self.counts.write_backs.entry(name).or_default() += 1;
            self.write(level + 1, old_names.unwrap());
        }
    }

    /// A store or a dirty line arrives at `level` through the write buffer.
    fn write(&mut self, level: usize, at: (u64, u64)) {
        for level in level..self.paths[1].len() {
            let cache = &mut self.caches[self.paths[1][level]];
            if cache.write_back
                && let Some(place) = cache.find(at)
            {
                cache.dirty.insert(place);
                return;
            }
        }
    }

    fn translate_radix(&mut self, address: u64, is_fetch: bool) -> u64 {
        self.grow_stack(address);
        let before = self.counts.cycles();
        let side = if is_fetch { &mut self.itlb } else { &mut self.dtlb };
        for tlb in side.iter_mut() {
            if let Some(((base, _), frame)) = tlb.lookup(address) {
                return frame + (address - base);
            }
        }
        let name = if is_fetch { "itlb" } else { "dtlb" };
        *self.counts.tlb_misses.entry(name.into()).or_default() += 1;
        let mut found = None;
        if !self.stlb.is_empty() {
            let latency = self.machine.stlb.as_ref().map_or(0, |stlb| stlb.latency_cycles);
            self.counts.add("stlb", u64::from(latency));
            found = self.stlb.iter_mut().find_map(|tlb| tlb.lookup(address));
            if found.is_none() {
                *self.counts.tlb_misses.entry("stlb".into()).or_default() += 1;
            }
        }
        let mut size = self.page_size(address);
        let promotes = found.is_none() && self.promotes_behind_a_fault(address);
        if promotes {
            size = 1 << 21;
            self.large.insert(address >> 21, (true, true));
            self.forget(&Gone::Block(address >> 21));
            self.gone.push(Gone::Block(address >> 21));
        }
        let page = address / size * size;
        let before_faults = self.counts.cycles();
        if promotes {
            self.touch(address, PAGE);
            let cycles = self.machine.interrupts.promotion_cycles.unwrap_or(0);
            self.counts.add("promotion", u64::from(cycles));
            self.touched.extend(page / PAGE..page / PAGE + 512);
        } else if found.is_none() {
            self.touch(address, size);
        }
        // Page faults are no part of what translation costs.
        let before = before + self.counts.cycles() - before_faults;
        let (translated, frame) = found.unwrap_or_else(|| {
            let before = self.counts.causes.clone();
            self.walk_radix(address, size);
            self.counts.pages.entry((page, size)).or_default().0 += 1;
            let frame = self.frames.physical_address(page, size.trailing_zeros());
            let (mapped, frame) = self.map_by_host(address, (page, size), frame);
            self.overlap(before);
            Self::insert(&mut self.stlb, address, mapped, frame);
            self.prefetch_behind(mapped, size);
            (mapped, frame)
        });
        let side = if is_fetch { &mut self.itlb } else { &mut self.dtlb };
        Self::insert(side, address, translated, frame);
        let cycles = self.counts.cycles() - before;
        self.counts.pages.entry((page, size)).or_default().1 += cycles;
        frame + (address - translated.0)
    }

    /// Into the array with the largest size that the page is made of.
    fn insert(tlbs: &mut [SlowTlb], address: u64, page: Entry, frame: u64) {
        let mut best: Option<(u64, usize)> = None;
        for (index, tlb) in tlbs.iter().enumerate() {
            for &size in tlb.sizes.iter().filter(|&&size| size <= page.1) {
                if best.is_none_or(|(largest, _)| size >= largest) {
                    best = Some((size, index));
                }
            }
        }
        let Some((size, index)) = best else { return };
        let piece = address / size * size;
        tlbs[index].insert((piece, size), frame + (piece - page.0), Partition::Normal);
    }

    fn page_size(&mut self, address: u64) -> u64 {
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        match table.pages {
            Pages::Small => PAGE,
            Pages::Large => 1 << 21,
            Pages::Huge => 1 << 30,
            Pages::Mixed | Pages::OnFault => {
                let block = address >> 21;
                if !self.large.contains_key(&block) {
                    let percent = self.machine.memory.fragmentation_percent.unwrap_or(0);
                    let can_be = percent == 0 || self.fragmentation.below(100) >= percent;
                    self.large.insert(block, (can_be && self.is_anonymous_block(block), can_be));
                }
                if self.large[&block].0 { 1 << 21 } else { PAGE }
            }
        }
    }

    fn walk_radix(&mut self, address: u64, size: u64) {
        let Organisation::Radix(table) = self.machine.organisation.clone() else { unreachable!() };
        let covered = |level: u32| 1u64 << (12 + table.index_bits * (level - 1));
        let leaf = (1..=table.levels).find(|&level| covered(level) == size).unwrap();
        let mut cycles = u64::from(table.walk_overhead_cycles);
        let mut start = table.levels;
        for (&level, cache) in &mut self.walk_caches {
            if level > leaf && cache.lookup(address).is_some() {
                start = level - 1;
                break;
            }
        }
        for level in (leaf..=start).rev() {
            cycles += u64::from(table.walk_step_cycles);
            let bytes = table.pte_bytes << table.index_bits;
            let frames = &mut self.frames;
            let prefix = (address / covered(level)) >> table.index_bits;
            let base = *self
                .tables
                .entry((level, prefix))
                .or_insert_with(|| frames.give(bytes.max(PAGE).trailing_zeros()));
            let mut entry =
                base + address / covered(level) % (1 << table.index_bits) * table.pte_bytes;
            let is_from_walk_cache = level == start && start != table.levels;
            entry =
                if is_from_walk_cache { self.host_place(entry) } else { self.host_address(entry) };
            let who = if level == leaf { Who::Upte } else { Who::Rpte };
            let at = (0xffff_8000_0000_0000 | entry, entry);
            let enters = match table.walk_starts_at {
                WalkStart::L1d => 0,
                WalkStart::L2 => 1.min(self.paths[1].len() - 1),
            };
            self.cache(who, at, false, enters);
            if level > leaf
                && let Some(cache) = self.walk_caches.get_mut(&level)
            {
                let base = address / covered(level) * covered(level);
                cache.insert((base, covered(level)), 0, Partition::Normal);
            }
        }
        self.counts.add("uhandler", cycles);
    }

    /// Takes back what a walk costs if it ran beside others, but for what the program waits for
    /// after these.
    fn overlap(&mut self, before: BTreeMap<&'static str, (u64, u64)>) {
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        let walkers = table.walkers.unwrap_or(1) as usize;
        if walkers == 1 {
            return;
        }
        let spent: u64 = before.values().map(|(_, cycles)| cycles).sum();
        let cycles = self.counts.cycles() - spent;
        let window = u64::from(table.walk_window_instructions.unwrap());
        let (first, walks) = &mut self.window;
        if walks.is_empty() || self.executed >= *first + window {
            (*first, *walks) = (self.executed, vec![cycles]);
            return;
        }
        let waited = cycles_of_all(walks, walkers);
        walks.push(cycles);
        let waits = cycles_of_all(walks, walkers) - waited;
        self.counts.causes = before;
        self.counts.add("overlapped-walk", waits);
    }

    /// Puts what is behind a piece of a page of `size` bytes into the second-level TLB, if a page
    /// of that size is there that a table maps.
    fn prefetch_behind(&mut self, piece: Entry, size: u64) {
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        let next = piece.0 + piece.1;
        let block_is_large = self.large.get(&(next >> 21)).is_some_and(|(is_large, _)| *is_large);
        let next_size = match table.pages {
            Pages::Small => PAGE,
            Pages::Large => 1 << 21,
            Pages::Huge => 1 << 30,
            Pages::Mixed | Pages::OnFault => {
                if block_is_large {
                    1 << 21
                } else {
                    PAGE
                }
            }
        };
        let is_mapped = next_size == size && self.touched.contains(&(next / PAGE));
        let is_known = self.stlb.iter().any(|tlb| tlb.has(next));
        if table.prefetch_next_page != Some(true) || !is_mapped || is_known {
            return;
        }
        let before = std::mem::take(&mut self.counts.causes);
        self.walk_radix(next, size);
        let page = next / size * size;
        let frame = self.frames.physical_address(page, size.trailing_zeros());
        let (mapped, frame) = self.map_by_host(next, (page, size), frame);
        Self::insert(&mut self.stlb, next, mapped, frame);
        self.counts.causes = before;
        self.counts.add("tlb-prefetch", 0);
    }

    /// What of a guest's page the TLBs get: as much as is in one page of the hypervisor.
    fn map_by_host(&mut self, address: u64, page: Entry, frame: u64) -> (Entry, u64) {
        let size = self.host_page_bytes().map_or(page.1, |host| host.min(page.1));
        let first = address / size * size;
        ((first, size), self.host_address(frame + (first - page.0)))
    }

    fn host_page_bytes(&self) -> Option<u64> {
        let Organisation::Radix(table) = &self.machine.organisation else { unreachable!() };
        Some(1 << table.host.as_ref()?.pages.shift()?)
    }

    /// Where a guest-physical address is, for one that is known.
    fn host_place(&mut self, address: u64) -> u64 {
        let Some(size) = self.host_page_bytes() else { return address };
        let page = address / size * size;
        self.host_frames.physical_address(page, size.trailing_zeros()) + (address - page)
    }

    /// Where a guest-physical address is, as the walker finds it.
    fn host_address(&mut self, address: u64) -> u64 {
        let Some(size) = self.host_page_bytes() else { return address };
        let Organisation::Radix(table) = self.machine.organisation.clone() else { unreachable!() };
        let host = table.host.unwrap();
        let page = address / size * size;
        let nested = self.nested_tlb.as_mut();
        if let Some((_, frame)) = nested.and_then(|tlb| tlb.lookup(address)) {
            return frame + (address - page);
        }
        let covered = |level: u32| 1u64 << (12 + host.index_bits * (level - 1));
        let leaf = (1..=host.levels).find(|&level| covered(level) == size).unwrap();
        let mut start = host.levels;
        for (&level, cache) in &mut self.host_walk_caches {
            if level > leaf && cache.lookup(address).is_some() {
                start = level - 1;
                break;
            }
        }
        let mut cycles = 0;
        for level in (leaf..=start).rev() {
            cycles += u64::from(table.walk_step_cycles);
            let bytes = host.pte_bytes << host.index_bits;
            let frames = &mut self.host_frames;
            let prefix = (address / covered(level)) >> host.index_bits;
            let base = *self
                .host_tables
                .entry((level, prefix))
                .or_insert_with(|| frames.give(bytes.max(PAGE).trailing_zeros()));
            let entry = base + address / covered(level) % (1 << host.index_bits) * host.pte_bytes;
            let enters = match table.walk_starts_at {
                WalkStart::L1d => 0,
                WalkStart::L2 => 1.min(self.paths[1].len() - 1),
            };
            self.cache(Who::Hpte, (0xffff_8000_0000_0000 | entry, entry), false, enters);
            if level > leaf
                && let Some(cache) = self.host_walk_caches.get_mut(&level)
            {
                let base = address / covered(level) * covered(level);
                cache.insert((base, covered(level)), 0, Partition::Normal);
            }
        }
        self.counts.add("host-walk", cycles);
        let place = self.host_place(address);
        if let Some(tlb) = &mut self.nested_tlb {
            tlb.insert((page, size), place - (address - page), Partition::Normal);
        }
        place
    }

    /// Forgets what was counted so far.
    #[allow(dead_code)] // Not every test warms up.
    pub fn end_warm_up(&mut self) {
        self.counts = Counts::default();
        self.instructions = 0;
    }

    /// What happens once, at the end.
    pub fn finish(&mut self) {
        let issued =
            self.instructions.div_ceil(u64::from(self.machine.core.instructions_per_cycle));
        if self.instructions > 0 {
            self.counts.causes.insert("issue", (self.instructions, issued));
        }
        if let Some(interval) = self.machine.interrupts.copy_on_write_interval_instructions {
            let faults = self.instructions / interval;
            let cost = u64::from(self.machine.interrupts.costs_cycles[0]);
            if faults > 0 {
                self.counts.causes.insert("cow-interrupt", (faults, faults * cost));
            }
        }
    }
}

/// Cycle by cycle: walkers without a walk take the next one, and all work on what they have.
fn cycles_of_all(walks: &[u64], walkers: usize) -> u64 {
    let mut waiting = walks.iter().copied().filter(|&cycles| cycles > 0);
    let mut at_work: Vec<u64> = Vec::new();
    let mut cycles = 0;
    loop {
        while at_work.len() < walkers
            && let Some(next) = waiting.next()
        {
            at_work.push(next);
        }
        if at_work.is_empty() {
            return cycles;
        }
        cycles += 1;
        at_work.iter_mut().for_each(|left| *left -= 1);
        at_work.retain(|&left| left > 0);
    }
}

fn slow_walk_caches(
    caches: [&Option<machine::WalkCache>; 3],
    index_bits: u32,
    seed: u64,
    first_stream: u64,
) -> BTreeMap<u32, SlowTlb> {
    (2..)
        .zip(caches)
        .filter_map(|(level, cache)| {
            let random = Random::stream(seed, first_stream + u64::from(level));
            let covered = 1 << (12 + index_bits * (level - 1));
            Some((level, slow_walk_cache(cache.as_ref()?, covered, random)))
        })
        .collect()
}

fn slow_walk_cache(cache: &machine::WalkCache, covered: u64, random: Random) -> SlowTlb {
    let ways = cache.ways.count(u64::from(cache.entries)) as usize;
    let sets = cache.entries as usize / ways;
    SlowTlb {
        sets: SlowSets::new(sets, ways, policy(cache.replacement), random),
        sizes: vec![covered],
        entries: HashMap::new(),
    }
}

/// What the slow model counts, from an outcome.
pub fn counts_of(outcome: &Outcome) -> Counts {
    let nonzero = |pairs: Vec<(String, u64)>| -> BTreeMap<String, u64> {
        pairs.into_iter().filter(|&(_, count)| count > 0).collect()
    };
    let caches = &outcome.caches;
    let tlbs = &outcome.tlbs;
    Counts {
        causes: outcome
            .causes
            .iter()
            .filter(|cause| (cause.count, cause.cycles) != (0, 0))
            .map(|cause| (cause.name, (cause.count, cause.cycles)))
            .collect(),
        cache_misses: nonzero(caches.iter().map(|c| (c.name.clone(), c.misses)).collect()),
        write_backs: nonzero(caches.iter().map(|c| (c.name.clone(), c.write_backs)).collect()),
        tlb_misses: nonzero(tlbs.iter().map(|t| (t.name.clone(), t.misses)).collect()),
        nested_misses: tlbs.iter().map(|tlb| tlb.nested_misses).sum(),
        pages: outcome
            .pages
            .iter()
            .map(|page| {
                let walks = page.fetch_walks + page.data_walks;
                ((page.address, page.size_bytes), (walks, page.cycles))
            })
            .collect(),
    }
}
