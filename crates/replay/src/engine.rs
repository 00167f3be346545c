//! Runs a program through an organisation and its caches.

use mmulab_hardware::{Cause as _, Ledger};
use mmulab_trace::LineCrossing;

use crate::attribution::{Attribution, Numbered, Sought};
use crate::caches::{CacheCounters, Caches, Location, Side};
use crate::cause::{Cause, Role, Tier};
use crate::frames::Frames;
use crate::l0_filter::L0Filter;
use crate::organisation::{
    ChainStatistics, Handler, Organisation, PAGE_SHIFT, TlbCounters, WalkTarget,
};
use crate::program::{BatchSlice, Program, StaticBlock};
use crate::remap::{DoesNotFit, RemappingView, SLAB_SHIFT, SharedRemapping};

/// A 32-bit machine being driven by a program.
///
/// The order of events is that of the study's pseudocode: for each instruction, its page is
/// translated and its line looked up, then the same for each of its data accesses. An instruction or
/// an access that spans two lines makes both references, lower line first, each after the translation
/// of its page.
///
/// Most blocks do none of this visibly: all their pages are mapped and all their lines present, and
/// where a hit changes nothing, looking is enough. [`Engine::run`] looks first and keeps to the exact
/// order of events where that matters.
#[derive(Clone, Debug)]
pub struct Engine<O, C> {
    organisation: O,
    machine: Machine<C>,
    /// Where the program's pages are, if any cache asks for that. Tables and handlers of the kernel
    /// are where their addresses say.
    frames: Option<Frames>,
    fetches_each_instruction: bool,
    data_references: u64,
    instructions: u64,
    attribution: Attribution<u32>,
    /// The accesses of the slice that span lines; kept for its memory.
    crossings: Vec<LineCrossing>,
}

/// The part of a machine that a walk works on.
#[derive(Clone, Debug)]
pub(crate) struct Machine<C> {
    pub(crate) caches: C,
    /// By side; of plain caches only.
    l0_filters: [L0Filter; 2],
    remapping: RemappingView,
    pub(crate) ledger: Ledger<Cause>,
    interrupt_cycles: u64,
    handler_instructions: u64,
    walk_loads: u64,
}

impl<C: Caches> Machine<C> {
    /// `handlers` are all that a walk may run.
    pub(crate) fn new(
        caches: C,
        remapping: SharedRemapping,
        interrupt_cycles: u32,
        handlers: &[&Handler],
    ) -> Self {
        let l0_filter = |side, handlers| match C::IS_PLAIN {
            true => {
                let (sets, shift) = (caches.first_level_sets(side), caches.line_shift(side));
                L0Filter::new(sets, shift, handlers, caches.index_bits(side))
            }
            false => L0Filter::new(1, 0, &[], 0..0),
        };
        let l0_filters = [l0_filter(Side::Instruction, handlers), l0_filter(Side::Data, &[])];
        Self {
            caches,
            l0_filters,
            remapping: RemappingView::new(remapping),
            ledger: Ledger::new(),
            interrupt_cycles: u64::from(interrupt_cycles),
            handler_instructions: 0,
            walk_loads: 0,
        }
    }

    /// References the line of a byte for `role`; the page of a byte of the program is mapped.
    #[inline(always)]
    fn reference(&mut self, role: Role, at: Location, is_store: bool) {
        self.caches.reference(role, at, is_store, 0, &mut self.ledger);
        if C::IS_PLAIN {
            let l0_filter = &mut self.l0_filters[role.side() as usize];
            let address = at.virtual_address;
            match role {
                Role::Fetch => l0_filter.learn(address),
                Role::Handler => {
                    assert!(
                        !l0_filter.is_clear_of_handlers(address, address),
                        "a handler unforeseen"
                    );
                }
                // Data come to hand by the address that the program uses.
                Role::Data | Role::Pte(_) => l0_filter.displace(address),
            }
        }
    }

    /// References the line of a byte of data, which the program has at `address`.
    #[inline(always)]
    fn reference_data(&mut self, address: u64, at: Location, is_store: bool) {
        self.reference(Role::Data, at, is_store);
        if C::IS_PLAIN {
            self.l0_filters[Side::Data as usize].learn(address);
        }
    }

    /// What the caches did; `references` are those of the program, by side.
    pub(crate) fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        let [fetches, data] = references;
        self.caches.counters([fetches + self.handler_instructions, data + self.walk_loads])
    }
}

impl<C: Caches> WalkTarget for Machine<C> {
    fn run_handler(&mut self, tier: Tier, handler: &Handler) {
        self.ledger.charge(Cause::Interrupt, self.interrupt_cycles);
        self.ledger.charge(tier.handler(), u64::from(handler.instructions));
        self.handler_instructions += u64::from(handler.instructions);
        if handler.instructions == 0 {
            return;
        }
        // One reference a line: the instructions of a line that follow its first hit it, since
        // nothing else happens while a handler runs.
        let shift = self.caches.line_shift(Side::Instruction);
        let (first, last) = handler.bytes().into_inner();
        for line in first >> shift..=last >> shift {
            self.reference(Role::Handler, Location::same(line << shift), false);
        }
    }

    fn work(&mut self, cycles: u32) {
        self.ledger.charge(Cause::Uhandler, u64::from(cycles));
    }

    fn load(&mut self, tier: Tier, address: u32) {
        self.walk_loads += 1;
        self.reference(Role::Pte(tier), Location::same(address.into()), false);
    }

    fn unmap(&mut self, side: Side, page: u32) {
        if C::IS_PLAIN {
            let first = page << PAGE_SHIFT;
            let address = match side {
                Side::Instruction => first.into(),
                Side::Data => self.remapping.original(first),
            };
            self.l0_filters[side as usize].invalidate_page(address);
        }
    }

    fn is_in_memory_only(&mut self, address: u32) -> bool {
        self.caches.is_in_memory_only(Side::Data, Location::same(address.into()))
    }
}

impl<O: Organisation, C: Caches> Engine<O, C> {
    /// An engine at the start of a program, its caches and TLBs empty.
    pub fn new(
        organisation: O,
        caches: C,
        remapping: SharedRemapping,
        frames: Frames,
        interrupt_cycles: u32,
    ) -> Self {
        Self {
            frames: caches.any_is_physical().then_some(frames),
            fetches_each_instruction: caches.first_level_is_unified(),
            machine: Machine::new(caches, remapping, interrupt_cycles, &organisation.handlers()),
            organisation,
            data_references: 0,
            instructions: 0,
            attribution: Attribution::default(),
            crossings: Vec::new(),
        }
    }

    /// Instructions run so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Runs a slice of the program.
    ///
    /// # Errors
    /// The machine's user space has no room for the program; the engine is of no more use.
    pub fn run(&mut self, slice: BatchSlice<'_, u32>) -> Result<(), DoesNotFit> {
        self.data_references += slice.addresses.len() as u64;
        let is_plain = C::IS_PLAIN && self.organisation.hits_change_nothing();
        let mut crossings = std::mem::take(&mut self.crossings);
        if is_plain {
            let shift = self.machine.caches.line_shift(Side::Data);
            slice.find_crossings(shift, &mut crossings);
        }
        if is_plain && !O::ACTS_ON_CACHE_MISSES {
            self.run_between_walks(slice, &crossings);
        } else {
            self.run_block_by_block(slice, &crossings, is_plain);
        }
        self.crossings = crossings;
        self.machine.remapping.refusal().map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// Runs a slice in the exact order of events, but passes over blocks that hit if hits change
    /// nothing.
    fn run_block_by_block(
        &mut self,
        slice: BatchSlice<'_, u32>,
        mut crossings: &[LineCrossing],
        hits_change_nothing: bool,
    ) {
        let mut made = 0;
        for &number in slice.blocks {
            let block = &slice.program.blocks[number as usize];
            let end = made + block.accesses as usize;
            let own = &slice.addresses[made..end];
            made = end;
            self.instructions += u64::from(block.instructions);
            let spans_lines = crossings.first().is_some_and(|s| (s.access as usize) < end);
            if !hits_change_nothing || spans_lines || !self.would_hit(block, own) {
                self.run_exactly(slice, block, own);
                crossings = after(crossings, end);
            }
        }
    }

    /// Whether every reference of a block would hit the first level of plain caches, if no access spans
    /// lines. Asked where there is no TLB.
    #[inline(always)]
    fn would_hit(&mut self, block: &StaticBlock<u32>, addresses: &[u64]) -> bool {
        let Machine { caches, remapping, .. } = &mut self.machine;
        let shift = caches.line_shift(Side::Instruction);
        let mut first = block.first;
        let mut hits = caches.holds(Side::Instruction, first);
        while first >> shift != block.last >> shift {
            first = ((first >> shift) + 1) << shift;
            hits &= caches.holds(Side::Instruction, first);
        }
        for &address in addresses {
            hits &= caches.holds(Side::Data, remapping.remap(address));
        }
        hits
    }

    /// Runs a slice on plain caches, from walk to walk.
    ///
    /// Instructions and data meet only in walks: a TLB changes when it misses, a walk for an
    /// instruction loads entries through the data caches, and a walk for data may fetch a handler. So
    /// blocks are fetched ahead up to one that walks or collides with a handler, and the data references
    /// up to there follow, walks and all. The block that stopped the first is then run in its exact order,
    /// unless it only collides with a handler and its own data run none.
    fn run_between_walks(&mut self, slice: BatchSlice<'_, u32>, crossings: &[LineCrossing]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.run_between_walks_avx2(slice, crossings) };
        }
        self.run_between_walks_portable(slice, crossings);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn run_between_walks_avx2(&mut self, slice: BatchSlice<'_, u32>, crossings: &[LineCrossing]) {
        self.run_between_walks_portable(slice, crossings);
    }

    #[inline(always)]
    fn run_between_walks_portable(
        &mut self,
        slice: BatchSlice<'_, u32>,
        mut crossings: &[LineCrossing],
    ) {
        let BatchSlice { program, blocks, addresses, .. } = slice;
        // Blocks before `fetched` are fetched, with all their accesses before `accesses_end`; accesses
        // before `made` are made.
        let (mut fetched, mut accesses_end, mut made) = (0, 0, 0);
        loop {
            let stopped_by = loop {
                let (passed, accesses) = self.pass_known_hits(program, &blocks[fetched..]);
                fetched += passed;
                accesses_end += accesses;
                let Some(&number) = blocks.get(fetched) else { break None };
                let block = &program.blocks[number as usize];
                if !self.fetch_ahead(block) {
                    break Some(block);
                }
                fetched += 1;
                accesses_end += block.accesses as usize;
                self.instructions += u64::from(block.instructions);
            };
            while made < accesses_end {
                let crossing = crossings.first().map_or(usize::MAX, |s| s.access as usize);
                let until = accesses_end.min(crossing);
                made += self.load_mapped(&addresses[made..until]);
                if made == accesses_end {
                    break;
                }
                // It walks, or spans lines.
                let mut last_byte = 0;
                if made == crossing {
                    last_byte = crossings[0].last_byte;
                    crossings = &crossings[1..];
                }
                self.access(addresses[made], last_byte, false);
                made += 1;
            }
            let Some(block) = stopped_by else { return };
            let page = block.first >> PAGE_SHIFT;
            if !self.organisation.is_fetch_mapped(page) {
                self.map_fetch(page);
                continue;
            }
            fetched += 1;
            accesses_end += block.accesses as usize;
            self.instructions += u64::from(block.instructions);
            let own = &addresses[made..accesses_end];
            let spans_lines = crossings.first().is_some_and(|s| (s.access as usize) < accesses_end);
            if self.is_mapped(block) && !spans_lines && self.are_data_mapped(own) {
                // It collides with a handler, and what it makes of data runs none.
                self.fetch_lines(block);
                continue;
            }
            self.run_exactly(slice, block, own);
            made = accesses_end;
            crossings = after(crossings, made);
        }
    }

    /// Passes over `blocks` up to the first whose fetches are not all at hand; how many these are and
    /// how many accesses they make.
    #[inline(always)]
    fn pass_known_hits(&mut self, program: &Program<u32>, blocks: &[u32]) -> (usize, usize) {
        let [l0_filter, _] = &self.machine.l0_filters;
        let (mut accesses, mut instructions) = (0, 0);
        let mut passed = 0;
        for &number in blocks {
            let block = &program.blocks[number as usize];
            if !l0_filter.has_all(block.first.into(), block.last.into()) {
                break;
            }
            passed += 1;
            accesses += block.accesses as usize;
            instructions += u64::from(block.instructions);
        }
        self.instructions += instructions;
        (passed, accesses)
    }

    /// Fetches a block before the data references that precede it are made, if that makes no
    /// difference: it does not walk itself, and walks for data do not matter to it.
    #[inline(always)]
    fn fetch_ahead(&mut self, block: &StaticBlock<u32>) -> bool {
        let is_clear = |l0_filter: &L0Filter| {
            l0_filter.is_clear_of_handlers(block.first.into(), block.last.into())
        };
        let is_free = self.is_mapped(block) && is_clear(&self.machine.l0_filters[0]);
        if is_free {
            self.fetch_lines(block);
        }
        is_free
    }

    /// Whether the pages of a block are mapped. One of more than two pages counts as not mapped.
    #[inline(always)]
    fn is_mapped(&self, block: &StaticBlock<u32>) -> bool {
        let (first, last) = (block.first, block.last);
        self.organisation.is_fetch_mapped(first >> PAGE_SHIFT)
            & self.organisation.is_fetch_mapped(last >> PAGE_SHIFT)
            & (last.wrapping_sub(first) < 1 << PAGE_SHIFT)
    }

    #[inline(always)]
    fn are_data_mapped(&mut self, addresses: &[u64]) -> bool {
        let Self { organisation, machine, .. } = self;
        let is_mapped =
            |address| organisation.is_data_mapped(machine.remapping.remap(address) >> PAGE_SHIFT);
        addresses.iter().copied().all(is_mapped)
    }

    /// References each line of a block whose pages are mapped.
    #[inline(always)]
    fn fetch_lines(&mut self, block: &StaticBlock<u32>) {
        let shift = self.machine.caches.line_shift(Side::Instruction);
        for line in block.first >> shift..=block.last >> shift {
            // A reference has the address of its first byte in the line: the next level may have
            // shorter lines.
            let first = block.first.max(line << shift);
            self.machine.reference(Role::Fetch, Location::same(first.into()), false);
        }
    }

    /// References the data of `addresses`, up to the first that would walk; how many these are.
    #[inline(always)]
    fn load_mapped(&mut self, addresses: &[u64]) -> usize {
        let mut made = 0;
        loop {
            let [_, l0_filter] = &self.machine.l0_filters;
            let mut ahead = addresses[made..].iter();
            let Some(found) = ahead.position(|&address| !l0_filter.has(address)) else {
                return addresses.len();
            };
            made += found;
            if !self.load(addresses[made]) {
                return made;
            }
            made += 1;
        }
    }

    /// References the data at `address`, unless its page is not mapped.
    #[inline]
    fn load(&mut self, address: u64) -> bool {
        let remapped = self.machine.remapping.remap(address);
        let is_mapped = self.organisation.is_data_mapped(remapped >> PAGE_SHIFT);
        if is_mapped {
            self.machine.reference_data(address, Location::same(remapped.into()), false);
        }
        is_mapped
    }

    /// Runs a block event by event.
    ///
    /// Of the fetches from one line, those after the first are left out as long as nothing came
    /// between that could have moved the line or its page: they would hit, and a hit on what was used
    /// last changes no replacement state.
    fn run_exactly(
        &mut self,
        slice: BatchSlice<'_, u32>,
        block: &StaticBlock<u32>,
        addresses: &[u64],
    ) {
        let shift = self.machine.caches.line_shift(Side::Instruction);
        let sizes = &slice.program.instruction_sizes[block.first_instruction as usize..]
            [..block.instructions as usize];
        let accesses = &slice.program.accesses[block.first_access as usize..];
        let stores = slice.program.stores(block);
        let mut accesses = addresses.iter().zip(accesses).zip(stores).peekable();
        let mut address = block.first;
        let mut fetched_line = None;
        for (number, &size) in sizes.iter().enumerate() {
            let last = address.wrapping_add(u32::from(size.max(1)) - 1);
            for line in address >> shift..=last.max(address) >> shift {
                if fetched_line != Some(line) {
                    self.fetch(address.max(line << shift));
                    fetched_line = Some(line);
                }
            }
            address = last.wrapping_add(1);
            let mut is_disturbed = self.fetches_each_instruction;
            while let Some(((&data, access), &is_store)) =
                accesses.next_if(|((_, access), _)| usize::from(access.instruction) <= number)
            {
                is_disturbed |= self.access(data, access.last_byte, is_store != 0);
            }
            if is_disturbed {
                fetched_line = None;
            }
        }
    }

    /// One fetch from one line.
    fn fetch(&mut self, address: u32) {
        self.map_fetch(address >> PAGE_SHIFT);
        let at = self.locate(address);
        self.before_reference(Role::Fetch, at);
        self.machine.reference(Role::Fetch, at, false);
    }

    /// Translates for a fetch.
    fn map_fetch(&mut self, page: u32) {
        let before = self.machine.ledger.cycles();
        if self.organisation.translate_fetch(page, &mut self.machine) {
            let cycles = self.machine.ledger.cycles() - before;
            self.attribution.add(page, Sought::WalkForFetch, cycles);
        }
    }

    /// One data access, of one line or more; whether it took a walk.
    fn access(&mut self, address: u64, last_byte: u16, is_store: bool) -> bool {
        let shift = self.machine.caches.line_shift(Side::Data);
        let first = self.machine.remapping.remap(address);
        let last = first.wrapping_add(u32::from(last_byte)).max(first);
        let mut walked = false;
        for line in first >> shift..=last >> shift {
            let piece = first.max(line << shift);
            let page = piece >> PAGE_SHIFT;
            let before = self.machine.ledger.cycles();
            if self.organisation.translate_data(page, &mut self.machine) {
                let cycles = self.machine.ledger.cycles() - before;
                self.attribution.add(page, Sought::WalkForData, cycles);
                walked = true;
            }
            let at = self.locate(piece);
            walked |= self.before_reference(Role::Data, at);
            // What reaches into another slab is not where the program's own address remaps to.
            if (piece ^ first) >> SLAB_SHIFT == 0 {
                let address = address.wrapping_add(u64::from(piece - first));
                self.machine.reference_data(address, at, is_store);
            } else {
                self.machine.reference(Role::Data, at, is_store);
            }
        }
        walked
    }

    #[inline(always)]
    fn locate(&mut self, address: u32) -> Location {
        let mut at = Location::same(address.into());
        if let Some(frames) = &mut self.frames {
            at.physical_address = frames.physical_address(at.virtual_address, PAGE_SHIFT);
        }
        at
    }

    /// What the organisation does about a reference that would leave the caches; whether it walked.
    #[inline(always)]
    fn before_reference(&mut self, role: Role, at: Location) -> bool {
        let walks =
            O::ACTS_ON_CACHE_MISSES && self.machine.caches.is_in_memory_only(role.side(), at);
        if walks {
            let before = self.machine.ledger.cycles();
            let page = at.virtual_address as u32 >> PAGE_SHIFT;
            self.organisation.before_fill(page, &mut self.machine);
            let cycles = self.machine.ledger.cycles() - before;
            let sought = match role {
                Role::Fetch => Sought::WalkForFetch,
                _ => Sought::WalkForData,
            };
            self.attribution.add(page, sought, cycles);
        }
        walks
    }
}

/// Those of `crossings` that are not among the accesses before `end`.
fn after(crossings: &[LineCrossing], end: usize) -> &[LineCrossing] {
    let passed = crossings.iter().take_while(|crossing| (crossing.access as usize) < end).count();
    &crossings[passed..]
}

/// What an engine has to say at the end of a program.
#[derive(Clone, Debug)]
pub struct EngineResult<P> {
    /// Instructions of the program.
    pub instructions: u64,
    /// Costs so far, without issue.
    pub ledger: Ledger<Cause>,
    /// TLBs.
    pub tlbs: Vec<TlbCounters>,
    /// Caches.
    pub caches: Vec<CacheCounters>,
    /// Collision chains.
    pub chains: Option<ChainStatistics>,
    /// Walks of a machine that has TLBs.
    pub tlb_walks: Option<u64>,
    /// Steps of hardware walks that cost cycles each.
    pub walk_steps: u64,
    /// Walks by page.
    pub attribution: Attribution<P>,
}

impl<P: Numbered> EngineResult<P> {
    /// What happened after `before`, an earlier result of the same engine.
    pub fn since(mut self, before: &Self) -> Self {
        self.instructions -= before.instructions;
        let mut ledger = Ledger::new();
        for &cause in Cause::ALL {
            let (now, then) = (self.ledger.account(cause), before.ledger.account(cause));
            ledger.charge_many(cause, now.count - then.count, now.cycles - then.cycles);
        }
        self.ledger = ledger;
        for (tlb, earlier) in self.tlbs.iter_mut().zip(&before.tlbs) {
            tlb.hits -= earlier.hits;
            tlb.misses -= earlier.misses;
            tlb.nested_hits -= earlier.nested_hits;
            tlb.nested_misses -= earlier.nested_misses;
        }
        for (cache, earlier) in self.caches.iter_mut().zip(&before.caches) {
            cache.hits -= earlier.hits;
            cache.misses -= earlier.misses;
            cache.write_backs -= earlier.write_backs;
            if let (Some(now), Some(then)) = (&mut cache.store_misses, earlier.store_misses) {
                *now -= then;
            }
        }
        self.chains = self.chains.zip(before.chains.as_ref()).map(|(now, then)| now.since(then));
        self.tlb_walks = self.tlb_walks.zip(before.tlb_walks).map(|(now, then)| now - then);
        self.walk_steps -= before.walk_steps;
        self.attribution = self.attribution.since(&before.attribution);
        self
    }
}

impl<O: Organisation, C: Caches> Engine<O, C> {
    /// What has happened so far.
    pub fn result(&self) -> EngineResult<u32> {
        let references = [self.instructions, self.data_references];
        let tlbs = self.organisation.tlb_counters(references);
        EngineResult {
            instructions: self.instructions,
            ledger: self.machine.ledger.clone(),
            tlb_walks: (!tlbs.is_empty()).then(|| tlbs.iter().map(|tlb| tlb.misses).sum()),
            tlbs,
            caches: self.machine.counters(references),
            chains: self.organisation.chains(),
            walk_steps: 0,
            attribution: self.attribution.clone(),
        }
    }

    /// Ends the run and gives the caches back.
    pub fn into_caches(self) -> C {
        self.machine.caches
    }
}
