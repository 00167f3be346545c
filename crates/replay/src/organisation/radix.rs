//! RADIX: today's 64-bit machines, with a multi-level table walked by hardware.
//!
//! First-level TLB arrays by page size on each side, a second level that both sides share, caches
//! of upper-level table entries, and table entries that live in the physical cache hierarchy with
//! everything else. This organisation keeps the program's 64-bit addresses.

mod cores;
mod counts;
mod identifiers;
mod overlap;
mod page;
mod tlb_level;
mod walker;

use std::ops::RangeInclusive;

use mmulab_hardware::{GeometryError, Ledger, Random};
use mmulab_machine as machine;
use mmulab_machine::{Radix, ReplayMachine, WalkStart};
use mmulab_trace::{Event, LineCrossing};

use crate::address_space::{AddressSpace, Change, Fault, LARGE_SHIFT, SMALL_SHIFT};
use crate::attribution::{Attribution, Sought};
use crate::caches::{Caches, Hierarchy, Location, Side};
use crate::cause::{Cause, Role, Tier};
use crate::known_hits::{HitState, KnownHits, Passed};
use crate::program::{BatchSlice, Program, STORES_AT_ONCE, StaticBlock};
use cores::{Core, FirstLevel, OtherCores};
pub use page::Page;
use tlb_level::Translation;
use walker::Walker;

/// The causes of [`Cause::page_fault_cycles`], in their order.
const PAGE_FAULTS: [Cause; 4] =
    [Cause::SmallPageFault, Cause::LargePageFault, Cause::FilePageFault, Cause::Promotion];

/// Where the kernel maps all of physical memory; tables have these virtual addresses.
const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;

/// A 64-bit machine being driven by a program.
///
/// The order of events is that of the 32-bit machines: for each instruction, its page is translated
/// and its line looked up, then the same for each of its data accesses.
#[derive(Clone, Debug)]
pub struct RadixEngine {
    table: Radix,
    /// The core that runs.
    core: Core,
    other_cores: Option<OtherCores>,
    second_latency_cycles: u64,
    walker: Walker,
    address_space: AddressSpace,
    /// Of faults for small, large and file pages, and of a promotion.
    page_fault_cycles: [u64; 4],
    fetches_each_instruction: bool,
    ledger: Ledger<Cause>,
    /// What was spent beside the program, which nothing waits for.
    beside: Ledger<Cause>,
    instructions: u64,
    data_references: u64,
    walk_loads: u64,
    walks: u64,
    walk_steps: u64,
    host_walk_steps: u64,
    attribution: Attribution<Page>,
    /// The accesses of the slice that span lines, and for each access of blocks that are fetched
    /// whether it writes; kept for their memory.
    crossings: Vec<LineCrossing>,
    stores: Vec<u8>,
}

impl RadixEngine {
    /// The machine at the start of a program, its caches and TLBs empty, with so many `cores`. It
    /// drives `followers` too, which differ from it in caches below the first level and in costs
    /// alone; these have one core.
    ///
    /// # Errors
    /// A part of it is impossible, or it does not say what several cores share.
    pub fn new(
        machine: &ReplayMachine,
        followers: &[ReplayMachine],
        seed: u64,
        cores: usize,
    ) -> Result<Self, GeometryError> {
        let machine::Organisation::Radix(table) = &machine.organisation else {
            return Err(GeometryError("organisation: is not radix".to_owned()));
        };
        let table = table.clone();
        let walker = Walker::new(machine, &table, seed);
        let smallest = table.pages.shift(|| false);
        let smallest = walker.host_page_shift().map_or(smallest, |shift| shift.min(smallest));
        // Each core draws from streams of its own.
        let core = |number: usize| {
            let seed = seed.wrapping_add((number as u64) << 32);
            Core::new(machine, &table, Hierarchy::new(machine, seed)?, smallest, seed)
        };
        let mut first = core(0)?;
        for (number, follower) in followers.iter().enumerate() {
            first.caches.add_follower(number, machine, follower, seed)?;
        }
        let other_cores =
            (cores > 1).then(|| OtherCores::new(machine, cores - 1, core)).transpose()?;
        Ok(Self {
            fetches_each_instruction: first.caches.first_level_is_unified(),
            core: first,
            other_cores,
            second_latency_cycles: machine
                .stlb
                .as_ref()
                .map_or(0, |stlb| u64::from(stlb.latency_cycles)),
            walker,
            address_space: AddressSpace::new(
                table.pages,
                machine.memory.fragmentation_percent.unwrap_or(0),
                // Streams from 140 on belong to the operating system.
                Random::stream(seed, 140),
            ),
            page_fault_cycles: PAGE_FAULTS
                .map(|cause| cause.page_fault_cycles(machine).unwrap_or(0)),
            ledger: Ledger::new(),
            beside: Ledger::new(),
            instructions: 0,
            data_references: 0,
            walk_loads: 0,
            walks: 0,
            walk_steps: 0,
            host_walk_steps: 0,
            attribution: Attribution::default(),
            crossings: Vec::new(),
            stores: Vec::new(),
            table,
        })
    }

    /// An event of the program. What is unmapped leaves the TLBs of all cores. Nothing of a block
    /// whose pages change their size stays in a TLB or a walk cache; it gets new frames and its
    /// table entries stay.
    fn note(&mut self, event: &Event) {
        match event {
            Event::AddressSpace(space) => return self.core.switch_to(*space),
            Event::Core(number) => {
                self.core.caches.settle(&mut self.ledger);
                if let Some(others) = &mut self.other_cores {
                    others.switch_to(*number as usize, &mut self.core, self.instructions);
                }
                return;
            }
            _ => {}
        }
        let Change { unmapped, resized } = self.address_space.note(event);
        if let Some(unmapped) = unmapped {
            self.invalidate(&(unmapped.start..=unmapped.end - 1), false);
        }
        resized.into_iter().for_each(|(block, is_large)| self.resize(block, is_large));
    }

    /// The pages of the block of 2 MiB at `block` change their size.
    fn resize(&mut self, block: u64, is_large: bool) {
        self.invalidate(&(block..=block | ((1 << LARGE_SHIFT) - 1)), true);
        if is_large {
            self.charge_page_faults(Cause::Promotion, 1);
        }
    }

    /// Pages leave the TLBs of all cores, and with `tables` what walk caches know of tables below
    /// these.
    fn invalidate(&mut self, pages: &RangeInclusive<u64>, tables: bool) {
        self.core.invalidate(pages, tables);
        if let Some(others) = &mut self.other_cores {
            others.shoot_down(pages, tables, &mut self.ledger);
        }
    }

    fn charge_page_faults(&mut self, cause: Cause, count: u64) {
        let cycles = self.page_fault_cycles[cause as usize - PAGE_FAULTS[0] as usize];
        self.ledger.charge_many(cause, count, count * cycles);
    }

    /// Costs so far, without issue.
    pub fn ledger(&self) -> &Ledger<Cause> {
        &self.ledger
    }

    /// Whether all references of a block, of which none spans lines, are known to hit the first
    /// level.
    pub fn is_block_known(&self, block: &StaticBlock<u64>, addresses: &[u64]) -> bool {
        let shift = self.core.caches.line_shift(Side::Instruction);
        (block.first >> shift..=block.last >> shift)
            .all(|line| self.is_known(Side::Instruction, line << shift))
            && addresses.iter().all(|&address| self.is_known(Side::Data, address))
    }

    /// Instructions run so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Runs a slice of the program.
    pub fn run(&mut self, slice: BatchSlice<'_, u64>) {
        self.data_references += slice.addresses.len() as u64;
        if self.core.sides.iter().all(|side| side.known.is_some()) {
            self.run_fetches_ahead(slice);
        } else {
            self.run_blocks(slice);
        }
        self.core.caches.settle(&mut self.ledger);
    }

    /// Runs a slice block by block.
    fn run_blocks(&mut self, slice: BatchSlice<'_, u64>) {
        let mut addresses = slice.addresses;
        let mut events = slice.events;
        for (place, &number) in slice.blocks.iter().enumerate() {
            self.note_until(place, &mut events);
            let block = &slice.program.blocks[number as usize];
            let (own, rest) = addresses.split_at(block.accesses as usize);
            addresses = rest;
            self.run_block(slice, block, own);
        }
        self.note_until(usize::MAX, &mut events);
    }

    /// Learns of the mapping events up to a block of the slice; those after it are left.
    fn note_until(&mut self, place: usize, events: &mut &[(usize, Event)]) {
        while let Some(((at, event), later)) = events.split_first() {
            if *at > place {
                break;
            }
            self.note(event);
            *events = later;
        }
    }

    /// Runs a slice with fetches ahead of data references, as far as the two cannot be told apart.
    ///
    /// Each side has caches and TLBs of its own in the first level, and what these hold depends on
    /// nothing below them. So blocks are fetched ahead until one needs a translation that the first
    /// level lacks; then their data references follow. What misses goes to the levels that both
    /// share in the order of the program.
    fn run_fetches_ahead(&mut self, slice: BatchSlice<'_, u64>) {
        let BatchSlice { program, blocks, mut events, .. } = slice;
        let mut crossings = std::mem::take(&mut self.crossings);
        let mut stores = std::mem::take(&mut self.stores);
        slice.find_crossings(self.core.caches.line_shift(Side::Data), &mut crossings);
        stores.resize(slice.addresses.len() + STORES_AT_ONCE, 0);
        let mut data =
            DataReferences { program, addresses: slice.addresses, crossings: &crossings, made: 0 };
        // Blocks that were fetched, and how many accesses these make.
        let (mut fetched, mut end) = (0, 0);
        loop {
            self.note_until(fetched, &mut events);
            let next_event = events.first().map_or(blocks.len(), |(place, _)| *place);
            loop {
                let ahead = &blocks[fetched..blocks.len().min(next_event)];
                let passed = self.fetch_known(program, ahead, &mut stores[end..]);
                fetched += passed.blocks;
                end += passed.accesses;
                let Some(&number) = ahead.get(passed.blocks) else { break };
                let block = &program.blocks[number as usize];
                let accesses = block.accesses as usize;
                if (block.first ^ block.last) >> SMALL_SHIFT == 0 {
                    let page = match self.translate_in_first_level(Side::Instruction, block.first) {
                        Some(page) => page,
                        None => {
                            self.make_references(&mut data, &stores, end);
                            self.translate_slowly(Side::Instruction, block.first)
                        }
                    };
                    self.fetch_lines(number, block, page, end);
                    program.copy_stores(block, &mut stores[end..]);
                } else {
                    self.make_references(&mut data, &stores, end);
                    self.run_block(slice, block, &slice.addresses[end..][..accesses]);
                    data.skip(accesses);
                }
                fetched += 1;
                end += accesses;
            }
            self.make_references(&mut data, &stores, end);
            if fetched == blocks.len() {
                break;
            }
        }
        self.note_until(usize::MAX, &mut events);
        self.crossings = crossings;
        self.stores = stores;
    }

    /// Makes the data references up to `end`, and tells the levels below of fetches before them.
    fn make_references(&mut self, data: &mut DataReferences<'_>, stores: &[u8], end: usize) {
        while data.made < end {
            let crossing = data.crossings.first().map_or(usize::MAX, |s| s.access as usize);
            let until = end.min(crossing);
            self.load_and_store(data, stores, until);
            if let Some((crossing, rest)) = data.crossings.split_first()
                && until < end
            {
                self.release_fetches(data);
                self.access(data.addresses[until], crossing.last_byte, stores[until] != 0);
                data.crossings = rest;
                data.made += 1;
            }
        }
        self.release_fetches(data);
    }

    /// Fetches `blocks` up to the first whose fetches are not all known to hit. Writes to `stores`,
    /// which has room for all, whether each of their accesses writes.
    fn fetch_known(&mut self, program: &Program<u64>, blocks: &[u32], stores: &mut [u8]) -> Passed {
        let Some((known, state)) = self.known_hits(Side::Instruction) else {
            return Passed::default();
        };
        let passed = known.fetch(state, program, blocks, stores);
        self.instructions += passed.instructions;
        // The line that was fetched last is another one now, and a known one need not be
        // remembered.
        self.core.fetched_line = None;
        passed
    }

    /// Fetches the lines of block `number`, which lies in `page`, ahead of the data references that
    /// are to be made before it.
    fn fetch_lines(
        &mut self,
        number: u32,
        block: &StaticBlock<u64>,
        page: Translation,
        references_before: usize,
    ) {
        let shift = self.core.caches.line_shift(Side::Instruction);
        let Core { caches, sides, fetched_line, .. } = &mut self.core;
        let Some(known) = &mut sides[Side::Instruction as usize].known else { return };
        for line in block.first >> shift..=block.last >> shift {
            let address = block.first.max(line << shift);
            if let Some(slot) = known.find_in_cache(address) {
                caches.first_level(Side::Instruction).touch(slot);
                continue;
            }
            let own = if address == block.first { 0 } else { usize::from(block.accesses) };
            let references = references_before..=references_before + own;
            let at = page.location(address);
            if let Some(slot) = caches.fetch_ahead(at, number, references, &mut self.ledger) {
                known.note_line(slot, address);
                known.learn_line(slot, address);
            }
        }
        *fetched_line = None;
        self.instructions += u64::from(block.instructions);
    }

    /// Makes the data references up to `end`, of which none spans lines.
    fn load_and_store(&mut self, data: &mut DataReferences<'_>, stores: &[u8], end: usize) {
        while data.made < end {
            let left = data.made..end;
            data.made += self.load_and_store_known(&data.addresses[left.clone()], &stores[left]);
            if data.made < end {
                self.release_fetches(data);
                self.look_up(Role::Data, data.addresses[data.made], stores[data.made] != 0);
                data.made += 1;
            }
        }
    }

    /// Tells the levels below of fetches that were made ahead, up to the data reference that is
    /// next.
    #[inline]
    fn release_fetches(&mut self, data: &DataReferences<'_>) {
        self.core.caches.release_fetches(data.made, |number, address| {
            data.program.accesses_before(&data.program.blocks[number as usize], address)
        });
    }

    /// Data references up to the first that is not known to hit; how many these are.
    fn load_and_store_known(&mut self, addresses: &[u64], stores: &[u8]) -> usize {
        let Some((known, state)) = self.known_hits(Side::Data) else { return 0 };
        known.load_and_store(state, addresses, stores)
    }

    /// What is known to hit the first level of a side, and what such hits change.
    #[inline(always)]
    fn known_hits(&mut self, side: Side) -> Option<(&KnownHits, HitState<'_>)> {
        let FirstLevel { tlb, known, .. } = &mut self.core.sides[side as usize];
        let pages = tlb.arrays[tlb.main].tlb.recency();
        let (lines, dirty) = self.core.caches.first_level(side).hit_state();
        Some((known.as_ref()?, HitState { pages, lines, dirty }))
    }

    /// Runs a block event by event.
    fn run_block(
        &mut self,
        slice: BatchSlice<'_, u64>,
        block: &StaticBlock<u64>,
        addresses: &[u64],
    ) {
        let shift = self.core.caches.line_shift(Side::Instruction);
        let sizes = &slice.program.instruction_sizes[block.first_instruction as usize..]
            [..block.instructions as usize];
        let accesses = &slice.program.accesses[block.first_access as usize..];
        let stores = slice.program.stores(block);
        let mut accesses = addresses.iter().zip(accesses).zip(stores).peekable();
        let mut address = block.first;
        for (number, &size) in sizes.iter().enumerate() {
            let last = address.wrapping_add(u64::from(size.max(1)) - 1).max(address);
            for line in address >> shift..=last >> shift {
                if self.core.fetched_line != Some(line) {
                    self.reference(Role::Fetch, address.max(line << shift), false);
                    self.core.fetched_line = Some(line);
                }
            }
            address = last.wrapping_add(1);
            while let Some(((&data, access), &is_store)) =
                accesses.next_if(|((_, access), _)| usize::from(access.instruction) <= number)
            {
                self.access(data, access.last_byte, is_store != 0);
            }
            if self.fetches_each_instruction {
                self.core.fetched_line = None;
            }
            self.instructions += 1;
        }
    }

    #[inline]
    fn access(&mut self, address: u64, last_byte: u16, is_store: bool) {
        let shift = self.core.caches.line_shift(Side::Data);
        let last = address.wrapping_add(u64::from(last_byte)).max(address);
        for line in address >> shift..=last >> shift {
            self.reference(Role::Data, address.max(line << shift), is_store);
        }
    }

    fn is_known(&self, side: Side, address: u64) -> bool {
        self.core.sides[side as usize]
            .known
            .as_ref()
            .is_some_and(|known| known.find(address).is_some())
    }

    /// Translates a reference of the program and looks its line up.
    #[inline]
    fn reference(&mut self, role: Role, address: u64, is_store: bool) {
        let side = role.side();
        let FirstLevel { tlb, known, .. } = &mut self.core.sides[side as usize];
        if let Some(slots) = known.as_ref().and_then(|known| known.find(address)) {
            let cache = self.core.caches.first_level(side);
            cache.touch(slots.line.into());
            cache.mark_dirty(slots.line.into(), is_store.into());
            tlb.arrays[tlb.main].tlb.touch(slots.page.into());
        } else {
            self.look_up(role, address, is_store);
        }
    }

    /// A reference of the program whose line or page is not known.
    #[inline(never)]
    fn look_up(&mut self, role: Role, address: u64, is_store: bool) {
        let side = role.side();
        let at = self.translate(side, address);
        // Not before: a walk may have evicted it.
        let known = self.core.sides[side as usize].known.as_ref();
        if let Some(slot) = known.and_then(|known| known.find_in_cache(address)) {
            let cache = self.core.caches.first_level(side);
            cache.touch(slot);
            cache.mark_dirty(slot, is_store.into());
            return;
        }
        let slot = self.core.caches.reference_first_level(role, at, is_store, &mut self.ledger);
        if let (Some(known), Some(slot)) = (&mut self.core.sides[side as usize].known, slot) {
            known.note_line(slot, address);
            known.learn_line(slot, address);
        }
    }

    /// Where `address` is.
    #[inline]
    fn translate(&mut self, side: Side, address: u64) -> Location {
        let FirstLevel { last_page, last, known, .. } = &self.core.sides[side as usize];
        if known.is_none() && address >> SMALL_SHIFT == *last_page {
            return last.location(address);
        }
        let page = match self.translate_in_first_level(side, address) {
            Some(page) => page,
            None => self.translate_slowly(side, address),
        };
        page.location(address)
    }

    /// The page of `address`, if the first-level TLB has it.
    #[inline]
    fn translate_in_first_level(&mut self, side: Side, address: u64) -> Option<Translation> {
        let first = &mut self.core.sides[side as usize];
        if let Some((slot, shift)) = first.known.as_ref().and_then(|known| known.find_page(address))
        {
            return Some(Translation { shift, frame: first.tlb.use_main(slot), slot: Some(slot) });
        }
        let page = first.tlb.lookup(address)?;
        first.remember(address, page);
        Some(page)
    }

    #[cold]
    fn translate_slowly(&mut self, side: Side, address: u64) -> Translation {
        let mut cycles = 0;
        if !self.core.second.arrays.is_empty() {
            cycles = self.second_latency_cycles;
            self.ledger.charge(Cause::Stlb, cycles);
        }
        for block in self.address_space.grow_stack(address) {
            if block == address >> LARGE_SHIFT << LARGE_SHIFT {
                // The page's own fault comes before.
                self.charge_page_faults(Cause::SmallPageFault, 1);
            }
            self.resize(block, true);
        }
        let mut page_shift = self.address_space.page_shift(address);
        let mut sought = Sought::SecondLevelHit;
        let translation = match self.core.second.lookup(address) {
            Some(translation) => translation,
            None => {
                if self.address_space.promotes(address) {
                    // What walks again behind the fault finds the large page.
                    self.charge_page_faults(Cause::SmallPageFault, 1);
                    self.resize(address >> LARGE_SHIFT << LARGE_SHIFT, true);
                    page_shift = LARGE_SHIFT;
                }
                self.touch(address, page_shift);
                // The walk's entries come through the same caches.
                self.core.caches.settle(&mut self.ledger);
                let before = self.ledger.cycles();
                let translation = self.walk(address, page_shift);
                sought = match side {
                    Side::Instruction => Sought::WalkForFetch,
                    Side::Data => Sought::WalkForData,
                };
                self.core.second.insert(address, translation);
                if self.table.prefetch_next_page == Some(true) {
                    self.prefetch_page_after(address, page_shift, translation.shift);
                }
                cycles += self.ledger.cycles() - before;
                translation
            }
        };
        let page = Page { address: address & !((1 << page_shift) - 1), shift: page_shift };
        self.attribution.add(page, sought, cycles);
        let FirstLevel { tlb, known, .. } = &mut self.core.sides[side as usize];
        let entry = tlb.insert(address, translation);
        if let (Some(known), Some(slot)) = (known, entry.slot) {
            known.note_page(slot, address, entry.shift);
        }
        self.core.sides[side as usize].remember(address, entry);
        entry
    }

    /// The page of `1 << page_shift` bytes at `address` is touched, which is a page fault the first
    /// time.
    fn touch(&mut self, address: u64, page_shift: u32) {
        let (cause, count) = match self.address_space.touch(address, page_shift) {
            None => return,
            Some(Fault::Small) => (Cause::SmallPageFault, 1),
            Some(Fault::Large(count)) => (Cause::LargePageFault, count),
            Some(Fault::File) => (Cause::FilePageFault, 1),
        };
        self.charge_page_faults(cause, count);
    }

    /// Walks the tables, and the program waits.
    fn walk(&mut self, address: u64, page_shift: u32) -> Translation {
        let instruction = self.instructions;
        let is_beside =
            self.core.walkers.as_ref().is_some_and(|walkers| walkers.overlaps(instruction));
        let before = if is_beside { &self.beside } else { &self.ledger }.cycles();
        let (translation, steps) = self.load_entries(address, page_shift, !is_beside);
        let ledger = if is_beside { &mut self.beside } else { &mut self.ledger };
        let cycles = |steps: u64| steps * u64::from(self.table.walk_step_cycles);
        let overhead_cycles = u64::from(self.table.walk_overhead_cycles);
        ledger.charge(Cause::Uhandler, overhead_cycles + cycles(steps.own));
        ledger.charge_many(Cause::HostWalk, steps.host_walks, cycles(steps.host));
        let cycles = ledger.cycles() - before;
        if let Some(walkers) = &mut self.core.walkers {
            let waited_cycles = walkers.wait(instruction, cycles);
            if is_beside {
                self.ledger.charge(Cause::OverlappedWalk, waited_cycles);
            }
        }
        self.walks += 1;
        self.walk_steps += steps.own;
        self.host_walk_steps += steps.host;
        translation
    }

    /// Walks for what is behind the `1 << shift` bytes at `address` that a walk has translated,
    /// which are a page of `1 << page_shift` bytes or as much of it as the host maps together, if a
    /// page of that size is there that a table maps and the second level does not know it, and puts
    /// it there. Nothing waits for it.
    fn prefetch_page_after(&mut self, address: u64, page_shift: u32, shift: u32) {
        let next = ((address >> shift) + 1) << shift;
        if self.address_space.maps(next, page_shift) && !self.core.second.knows(next) {
            self.core.caches.set_followers_beside(true);
            let (translation, _) = self.load_entries(next, page_shift, false);
            self.core.caches.set_followers_beside(false);
            self.core.second.insert(next, translation);
            self.ledger.charge(Cause::TlbPrefetch, 0);
        }
    }

    /// Walks the tables, whose entries come through the caches.
    fn load_entries(
        &mut self,
        address: u64,
        page_shift: u32,
        is_waited_for: bool,
    ) -> (Translation, WalkSteps) {
        let Self { table, walker, core, ledger, beside, .. } = self;
        let Core { caches, sides, walk_caches, .. } = core;
        let ledger = if is_waited_for { ledger } else { beside };
        let entry_level = match table.walk_starts_at {
            WalkStart::L1d => 0,
            WalkStart::L2 => 1.min(caches.levels() - 1),
        };
        let mut steps = WalkSteps::default();
        let (translation, host_walks) =
            walker.walk(walk_caches, address, page_shift, &mut |tier, entry| {
                *if tier == Tier::Host { &mut steps.host } else { &mut steps.own } += 1;
                let at = Location { virtual_address: DIRECT_MAP | entry, physical_address: entry };
                let slot = caches.reference_slot(Role::Pte(tier), at, false, entry_level, ledger);
                if let (Some(known), Some(slot), 0) =
                    (&mut sides[Side::Data as usize].known, slot, entry_level)
                {
                    known.note_line(slot, at.virtual_address);
                }
            });
        steps.host_walks = host_walks;
        self.walk_loads += if entry_level == 0 { steps.own + steps.host } else { 0 };
        (translation, steps)
    }
}

/// The data references of a slice.
struct DataReferences<'a> {
    program: &'a Program<u64>,
    addresses: &'a [u64],
    /// Those of them from place `made` on that span lines.
    crossings: &'a [LineCrossing],
    /// How many were made.
    made: usize,
}

impl DataReferences<'_> {
    /// The next `count` are made by somebody else.
    fn skip(&mut self, count: usize) {
        self.made += count;
        let passed = self.crossings.iter().take_while(|s| (s.access as usize) < self.made).count();
        self.crossings = &self.crossings[passed..];
    }
}

/// Entries that a walk loads.
#[derive(Clone, Copy, Debug, Default)]
struct WalkSteps {
    /// Of the program's table.
    own: u64,
    /// Of the hypervisor's.
    host: u64,
    /// How often the latter was walked.
    host_walks: u64,
}
