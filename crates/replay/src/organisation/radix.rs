//! RADIX: today's 64-bit machines, with a multi-level table walked by hardware.
//!
//! First-level TLB arrays by page size on each side, a second level that both sides share, caches of
//! upper-level table entries, and table entries that live in the physical cache hierarchy with
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
use crate::program::{BatchSlice, Program, STORES_PADDING, StaticBlock};
use cores::{Core, FirstLevel, OtherCores};
pub use page::Page;
use tlb_level::Translation;
use walker::{Walker, no_such_pages};

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
    /// The machine at the start of a program, its caches and TLBs empty, with so many `cores`. It drives `followers` too,
    /// which differ from it in caches below the first level and in costs alone; these have one core.
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
        let walker = Walker::new(machine, &table, seed)?;
        let smallest = table.pages.shift(|| false);
        let wanted = table.pages.shift(|| true);
        if !walker.has_pages(wanted) {
            return Err(no_such_pages("organisation.pages", table.index_bits, wanted));
        }
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

    /// An event of the program. What is unmapped leaves the TLBs of all cores. Nothing of a block whose pages
    /// change their size stays in a TLB or a walk cache; it gets new frames and its table entries
    /// stay.
    fn note(&mut self, event: &Event) {
        match event {
            Event::AddressSpace(space) => return self.core.switch_to(*space),
            Event::Core(number) => {
                if let Some(others) = &mut self.other_cores {
                    others.switch_to(*number as usize, &mut self.core);
                }
                return;
            }
            _ => {}
        }
        let Change { unmapped, resized } = self.address_space.note(event);
        if let Some(unmapped) = unmapped {
            self.invalidate(&(unmapped.start..=unmapped.end - 1), false);
        }
        for (block, is_large) in resized {
            self.invalidate(&(block..=block | ((1 << LARGE_SHIFT) - 1)), true);
            if is_large {
                self.charge_page_faults(Cause::Promotion, 1);
            }
        }
    }

    /// Pages leave the TLBs of all cores, and with `tables` what walk caches know of tables below these.
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

    /// Whether all references of a block, of which none spans lines, are known to hit the first level.
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
            return self.run_between_fetch_misses(slice);
        }
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

    /// Runs a slice from one block whose fetches are not all known to hit to the next.
    ///
    /// A fetch that hits the first level touches nothing that data or walks use. So blocks are fetched
    /// ahead while all their fetches hit, and their data references follow.
    fn run_between_fetch_misses(&mut self, slice: BatchSlice<'_, u64>) {
        let BatchSlice { program, blocks, addresses, mut events, .. } = slice;
        let mut crossings = std::mem::take(&mut self.crossings);
        let mut stores = std::mem::take(&mut self.stores);
        slice.find_crossings(self.core.caches.line_shift(Side::Data), &mut crossings);
        let mut crossings_left = &crossings[..];
        stores.resize(addresses.len() + STORES_PADDING, 0);
        let (mut fetched, mut made) = (0, 0);
        loop {
            self.note_until(fetched, &mut events);
            let next_event = events.first().map_or(blocks.len(), |(place, _)| *place);
            let ahead = &blocks[fetched..blocks.len().min(next_event)];
            let passed = self.fetch_known(program, ahead, &mut stores[made..]);
            fetched += passed.blocks;
            let end = made + passed.accesses;
            while made < end {
                let crossing = crossings_left.first().map_or(usize::MAX, |s| s.access as usize);
                let until = end.min(crossing);
                self.load_and_store(&addresses[made..until], &stores[made..until]);
                made = until;
                if let Some((crossing, rest)) = crossings_left.split_first()
                    && made < end
                {
                    self.access(addresses[made], crossing.last_byte, stores[made] != 0);
                    crossings_left = rest;
                    made += 1;
                }
            }
            if fetched == next_event && !events.is_empty() {
                continue;
            }
            let Some(&number) = blocks.get(fetched) else { break };
            let block = &program.blocks[number as usize];
            let own = &addresses[made..made + block.accesses as usize];
            // Mostly it is the first line that is not known, and the others are.
            if !self.is_known(Side::Instruction, block.first) {
                self.reference(Role::Fetch, block.first, false);
                if self.is_known(Side::Instruction, block.first) {
                    continue;
                }
                self.core.fetched_line =
                    Some(block.first >> self.core.caches.line_shift(Side::Instruction));
            } else if crossings_left.first().is_none_or(|s| s.access as usize >= made + own.len())
                && self.run_fetches_first(program, block, own)
            {
                fetched += 1;
                made += own.len();
                continue;
            }
            self.run_block(slice, block, own);
            fetched += 1;
            made += own.len();
            let passed = crossings_left.iter().take_while(|s| (s.access as usize) < made).count();
            crossings_left = &crossings_left[passed..];
        }
        self.note_until(usize::MAX, &mut events);
        self.crossings = crossings;
        self.stores = stores;
    }

    /// Fetches `blocks` up to the first whose fetches are not all known to hit. Writes to `stores`, which
    /// has room for all, whether each of their accesses writes.
    fn fetch_known(&mut self, program: &Program<u64>, blocks: &[u32], stores: &mut [u8]) -> Passed {
        let Some((known, state)) = self.known_hits(Side::Instruction) else {
            return Passed::default();
        };
        let passed = known.fetch(state, program, blocks, stores);
        self.instructions += passed.instructions;
        // The line that was fetched last is another one now, and a known one need not be remembered.
        self.core.fetched_line = None;
        passed
    }

    /// Runs a block whose first line is known, all its fetches before its data references, of which none
    /// spans lines; `false` if that might be told from the order of events.
    ///
    /// If the data references are known to hit and no fetch walks, because all are from the page of the
    /// first, then the former touch nothing but the data side, and the latter all but that.
    fn run_fetches_first(
        &mut self,
        program: &Program<u64>,
        block: &StaticBlock<u64>,
        addresses: &[u64],
    ) -> bool {
        let is_one_page = (block.first ^ block.last) >> SMALL_SHIFT == 0;
        if !is_one_page || !addresses.iter().all(|&address| self.is_known(Side::Data, address)) {
            return false;
        }
        let shift = self.core.caches.line_shift(Side::Instruction);
        for line in block.first >> shift..=block.last >> shift {
            self.reference(Role::Fetch, block.first.max(line << shift), false);
        }
        self.core.fetched_line = None;
        self.instructions += u64::from(block.instructions);
        self.load_and_store(addresses, program.stores(block));
        true
    }

    /// Data references of which none spans lines.
    fn load_and_store(&mut self, addresses: &[u64], stores: &[u8]) {
        let mut made = 0;
        while made < addresses.len() {
            made += self.load_and_store_known(&addresses[made..], &stores[made..]);
            if let (Some(&address), Some(&is_store)) = (addresses.get(made), stores.get(made)) {
                self.look_up(Role::Data, address, is_store != 0);
                made += 1;
            }
        }
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
        let slot = self.core.caches.reference_slot(role, at, is_store, 0, &mut self.ledger);
        if let (Some(known), Some(slot)) = (&mut self.core.sides[side as usize].known, slot) {
            known.note_line(slot, address);
            known.learn_line(slot, address);
        }
    }

    /// Where `address` is.
    #[inline]
    fn translate(&mut self, side: Side, address: u64) -> Location {
        let FirstLevel { tlb, last_page, last, known } = &mut self.core.sides[side as usize];
        if let Some(known) = known {
            if let Some((slot, size_bytes)) = known.find_page(address) {
                let frame = tlb.use_main(slot);
                let offset = address & (size_bytes - 1);
                return Location { virtual_address: address, physical_address: frame | offset };
            }
        } else if address >> last.shift == *last_page {
            return last.location(address);
        }
        let translation = match tlb.lookup(address) {
            Some(translation) => translation,
            None => self.translate_slowly(side, address),
        };
        let first = &mut self.core.sides[side as usize];
        first.last = translation;
        first.last_page = address >> translation.shift;
        if let (Some(known), Some(slot)) = (&mut first.known, translation.slot) {
            known.learn_page(slot, address);
        }
        translation.location(address)
    }

    #[cold]
    fn translate_slowly(&mut self, side: Side, address: u64) -> Translation {
        let before = self.ledger.cycles();
        if !self.core.second.arrays.is_empty() {
            self.ledger.charge(Cause::Stlb, self.second_latency_cycles);
        }
        let page_shift = self.address_space.page_shift(address);
        let mut sought = Sought::SecondLevelHit;
        let translation = match self.core.second.lookup(address) {
            Some(translation) => translation,
            None => {
                let translation = self.walk(address, page_shift);
                sought = match side {
                    Side::Instruction => Sought::WalkForFetch,
                    Side::Data => Sought::WalkForData,
                };
                self.core.second.insert(address, translation);
                if self.table.prefetch_next_page == Some(true) {
                    self.prefetch_page_after(address, page_shift);
                }
                translation
            }
        };
        let page = Page { address: address & !((1 << page_shift) - 1), shift: page_shift };
        let cycles = self.ledger.cycles() - before;
        self.attribution.add(page, sought, cycles);
        if sought != Sought::SecondLevelHit
            && let Some(fault) = self.address_space.touch(address, page_shift)
        {
            let (cause, count) = match fault {
                Fault::Small => (Cause::SmallPageFault, 1),
                Fault::Large(count) => (Cause::LargePageFault, count),
                Fault::File => (Cause::FilePageFault, 1),
            };
            self.charge_page_faults(cause, count);
        }
        let FirstLevel { tlb, known, .. } = &mut self.core.sides[side as usize];
        let entry = tlb.insert(address, translation);
        if let (Some(known), Some(slot)) = (known, entry.slot) {
            known.note_page(slot, address, entry.shift);
        }
        entry
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

    /// Walks for the page behind that of `address`, if it is one of the same size that has been touched and the second
    /// level does not know, and puts it there. Nothing waits for it.
    fn prefetch_page_after(&mut self, address: u64, page_shift: u32) {
        let next = ((address >> page_shift) + 1) << page_shift;
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
