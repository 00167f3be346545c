//! Runs a program through an organisation and its caches.

use mmulab_hardware::Ledger;
use mmulab_trace::LineCrossing;

use crate::attribution::{Attribution, Sought};
use crate::caches::{AllLevelsLookup, CacheCounters, Caches, Hierarchy, Location, Side};
use crate::cause::{Cause, Role, Tier};
use crate::frames::Frames;
use crate::organisation::{Handler, LookupTarget, OnCacheMiss, PAGE_SHIFT, WalkTarget};
use crate::program::{BatchSlice, StaticBlock};
use crate::remap::{DoesNotFit, RemappingView, SLAB_SHIFT, SharedRemapping};

mod between_walks;
mod look_first;
mod result;

pub use result::{Counts, EngineResult, hits_at_end};

/// How an engine runs a slice of the program on caches of this kind.
pub trait RunSlice: Caches + Sized {
    /// Runs a slice.
    fn run_slice<O: OnCacheMiss<Self>>(engine: &mut Engine<O, Self>, slice: BatchSlice<'_, u32>);
}

impl RunSlice for Hierarchy {
    fn run_slice<O: OnCacheMiss<Self>>(engine: &mut Engine<O, Self>, slice: BatchSlice<'_, u32>) {
        engine.run_event_by_event(slice);
    }
}

/// A 32-bit machine being driven by a program.
///
/// The order of events is that of the study's pseudocode: for each instruction, its page is
/// translated and its line looked up, then the same for each of its data accesses. An instruction
/// or an access that spans two lines makes both references, lower line first, each after the
/// translation of its page.
///
/// Most blocks do none of this visibly: all their pages are mapped and all their lines present, and
/// where a hit changes nothing, looking is enough. How [`Engine::run`] looks depends on the caches
/// ([`RunSlice`]); it keeps to the exact order of events where that matters.
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
pub struct Machine<C> {
    pub(crate) caches: C,
    remapping: RemappingView,
    pub(crate) ledger: Ledger<Cause>,
    interrupt_cycles: u64,
    handler_instructions: u64,
    walk_loads: u64,
}

impl<C: Caches> Machine<C> {
    pub(crate) fn new(caches: C, remapping: SharedRemapping, interrupt_cycles: u32) -> Self {
        Self {
            caches,
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
        self.caches.reference(role, at, is_store, &mut self.ledger);
    }

    /// References the line of a byte of data, which the program has at `program_address`.
    #[inline(always)]
    fn reference_data(&mut self, program_address: u64, at: Location, is_store: bool) {
        self.caches.reference_data(program_address, at, is_store, &mut self.ledger);
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
        let first = page << PAGE_SHIFT;
        let address = match side {
            Side::Instruction => first.into(),
            Side::Data => self.remapping.original(first),
        };
        self.caches.translation_evicted(side, address);
    }
}

impl<C: AllLevelsLookup> LookupTarget for Machine<C> {
    fn would_miss_all(&mut self, address: u32) -> bool {
        self.caches.would_miss_all(Side::Data, Location::same(address.into()))
    }
}

impl<O: OnCacheMiss<C>, C: Caches> Engine<O, C> {
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
            machine: Machine::new(caches, remapping, interrupt_cycles),
            organisation,
            data_references: 0,
            instructions: 0,
            attribution: Attribution::default(),
            crossings: Vec::new(),
        }
    }

    /// Costs so far, without issue.
    pub fn ledger(&self) -> &Ledger<Cause> {
        &self.machine.ledger
    }

    /// Instructions run so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Runs a slice of the program.
    ///
    /// # Errors
    /// The machine's user space has no room for the program; the engine is of no more use.
    pub fn run(&mut self, slice: BatchSlice<'_, u32>) -> Result<(), DoesNotFit>
    where
        C: RunSlice,
    {
        self.data_references += slice.addresses.len() as u64;
        C::run_slice(self, slice);
        self.machine.remapping.refusal().map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// Runs a slice event by event.
    fn run_event_by_event(&mut self, slice: BatchSlice<'_, u32>) {
        let mut made = 0;
        for &number in slice.blocks {
            let block = &slice.program.blocks[number as usize];
            let end = made + block.accesses as usize;
            self.instructions += u64::from(block.instructions);
            self.run_exactly(slice, block, &slice.addresses[made..end]);
            made = end;
        }
    }

    /// Runs a block event by event.
    ///
    /// Of the fetches from one line, those after the first are left out as long as nothing came
    /// between that could have moved the line or its page: they would hit, and a hit on what was
    /// used last changes no replacement state.
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
        let before = self.machine.ledger.cycles();
        let walked = self.organisation.before_reference(role.side(), at, &mut self.machine);
        if walked {
            let cycles = self.machine.ledger.cycles() - before;
            let sought = match role {
                Role::Fetch => Sought::WalkForFetch,
                _ => Sought::WalkForData,
            };
            self.attribution.add(at.virtual_address as u32 >> PAGE_SHIFT, sought, cycles);
        }
        walked
    }

    /// Ends the run and gives the caches back.
    pub fn into_caches(self) -> C {
        self.machine.caches
    }
}

impl<O: OnCacheMiss<C>, C: Caches> Counts<u32> for Engine<O, C> {
    fn counters(&self) -> EngineResult<u32> {
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
            host_walk_steps: 0,
            attribution: Attribution::default(),
        }
    }

    fn attribution(&mut self) -> &mut Attribution<u32> {
        &mut self.attribution
    }
}

/// Those of `crossings` that are not among the accesses before `end`.
fn after(crossings: &[LineCrossing], end: usize) -> &[LineCrossing] {
    let passed = crossings.iter().take_while(|crossing| (crossing.access as usize) < end).count();
    &crossings[passed..]
}
