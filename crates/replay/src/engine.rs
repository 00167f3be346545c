//! Runs a program through an organisation and its caches.

use mmulab_hardware::Ledger;

use crate::attribution::Attribution;
use crate::caches::{CacheCounters, Caches, Location, Side};
use crate::cause::{Cause, Role, Tier};
use crate::frames::Frames;
use crate::organisation::{
    ChainStatistics, Handler, Organisation, PAGE_SHIFT, TlbCounters, WalkTarget,
};
use crate::program::{Program, StaticBlock, Straddle, Stretch};

/// Blocks that are looked over at once for a walk: about as many as lie between two walks of a
/// program with poor locality, so that little is looked at twice.
const CHUNK: usize = 32;

/// A 32-bit machine being driven by a program.
///
/// The order of events is that of the study's pseudocode: for each instruction, its page is
/// translated and its line looked up, then the same for each of its data accesses. An instruction or
/// an access that spans two lines makes both references, lower line first, each after the translation
/// of its page.
///
/// Most blocks do none of this visibly: all their pages are mapped and all their lines present, and
/// where a hit changes nothing, looking is enough. [`Engine::run`] looks first, without changing
/// anything, and hands every other block to the exact order of events.
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
}

/// The part of a machine that a walk works on.
#[derive(Clone, Debug)]
struct Machine<C> {
    caches: C,
    ledger: Ledger<Cause>,
    interrupt_cycles: u64,
    handler_instructions: u64,
    walk_loads: u64,
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
        let length = u64::from(handler.instructions) * u64::from(handler.instruction_bytes);
        let last = handler.base_address + length - 1;
        for line in handler.base_address >> shift..=last >> shift {
            self.caches.reference(
                Role::Handler,
                Location::same(line << shift),
                false,
                0,
                &mut self.ledger,
            );
        }
    }

    fn work(&mut self, cycles: u32) {
        self.ledger.charge(Cause::Uhandler, u64::from(cycles));
    }

    fn load(&mut self, tier: Tier, address: u32) {
        self.walk_loads += 1;
        let at = Location::same(address.into());
        self.caches.reference(Role::Pte(tier), at, false, 0, &mut self.ledger);
    }

    fn is_in_memory_only(&mut self, address: u32) -> bool {
        self.caches.is_in_memory_only(Side::Data, Location::same(address.into()))
    }
}

impl<O: Organisation, C: Caches> Engine<O, C> {
    /// An engine at the start of a program, its caches and TLBs empty.
    pub fn new(organisation: O, caches: C, frames: Frames, interrupt_cycles: u32) -> Self {
        let interrupt_cycles = u64::from(interrupt_cycles);
        Self {
            organisation,
            frames: caches.any_is_physical().then_some(frames),
            fetches_each_instruction: caches.first_level_is_unified(),
            machine: Machine {
                caches,
                ledger: Ledger::new(),
                interrupt_cycles,
                handler_instructions: 0,
                walk_loads: 0,
            },
            data_references: 0,
            instructions: 0,
            attribution: Attribution::default(),
        }
    }

    /// Runs a stretch of the program.
    pub fn run(&mut self, stretch: Stretch<'_, u32>) {
        self.data_references += stretch.addresses.len() as u64;
        let is_plain = C::IS_PLAIN && self.organisation.hits_change_nothing();
        if is_plain && !O::ACTS_ON_CACHE_MISSES {
            self.run_between_walks(stretch);
            return;
        }
        let mut addresses = stretch.addresses;
        for &number in stretch.blocks {
            let block = &stretch.program.blocks[number as usize];
            let (own, rest) = addresses.split_at(block.accesses as usize);
            addresses = rest;
            self.instructions += u64::from(block.instructions);
            if !is_plain || !self.would_hit(stretch, block, own) {
                self.run_exactly(stretch, block, own);
            }
        }
    }

    /// Runs a stretch on plain caches, from walk to walk.
    ///
    /// A TLB changes only when it misses. So a run of blocks whose pages are all mapped will not
    /// walk; without walks, instructions and data go their own ways, and each side's references can
    /// be made in one sweep. The block that walks is run in its exact order.
    fn run_between_walks(&mut self, stretch: Stretch<'_, u32>) {
        let Stretch { program, mut blocks, mut addresses, mut straddles } = stretch;
        let mut first_access = 0;
        while !blocks.is_empty() {
            let (chunk, _) = blocks.split_at(blocks.len().min(CHUNK));
            let (mapped, accesses) =
                self.mapped_prefix(program, chunk, addresses, straddles, first_access);
            let (chunk, rest) = blocks.split_at(mapped);
            let (own, others) = addresses.split_at(accesses);
            self.fetch_all(program, chunk);
            let spanning = self.reference_all(own, straddles, first_access);
            straddles = &straddles[spanning..];
            (blocks, addresses) = (rest, others);
            first_access += accesses;
            if mapped == CHUNK {
                continue;
            }
            // The next block walks, or is not worth deciding about.
            let Some((&number, rest)) = blocks.split_first() else { break };
            let block = &program.blocks[number as usize];
            let (own, others) = addresses.split_at(block.accesses as usize);
            self.instructions += u64::from(block.instructions);
            self.run_exactly(stretch, block, own);
            (blocks, addresses) = (rest, others);
            first_access += own.len();
            let passed = straddles.iter().take_while(|s| (s.access as usize) < first_access);
            straddles = &straddles[passed.count()..];
        }
    }

    /// How many blocks from the first on find all their pages mapped, and how many accesses they make.
    #[inline]
    fn mapped_prefix(
        &self,
        program: &Program<u32>,
        blocks: &[u32],
        addresses: &[u32],
        straddles: &[Straddle],
        first_access: usize,
    ) -> (usize, usize) {
        let mut accesses = 0;
        let mut mapped = true;
        for &number in blocks {
            let block = &program.blocks[number as usize];
            accesses += block.accesses as usize;
            mapped &= self.is_block_mapped(block);
        }
        for &address in &addresses[..accesses] {
            mapped &= self.organisation.is_data_mapped(address >> PAGE_SHIFT);
        }
        for straddle in straddles {
            let Some(address) = addresses[..accesses].get(straddle.access as usize - first_access)
            else {
                break;
            };
            let last = address.wrapping_add(u32::from(straddle.last_byte));
            mapped &= self.organisation.is_data_mapped(last >> PAGE_SHIFT);
        }
        if mapped { (blocks.len(), accesses) } else { self.find_walk(program, blocks, addresses) }
    }

    #[cold]
    fn find_walk(
        &self,
        program: &Program<u32>,
        blocks: &[u32],
        addresses: &[u32],
    ) -> (usize, usize) {
        let mut accesses = 0;
        for (count, &number) in blocks.iter().enumerate() {
            let block = &program.blocks[number as usize];
            let own = &addresses[accesses..][..block.accesses as usize];
            let reaches = &program.accesses[block.first_access as usize..];
            let is_data_mapped = own.iter().zip(reaches).all(|(&address, access)| {
                let last = address.wrapping_add(u32::from(access.last_byte));
                self.organisation.is_data_mapped(address >> PAGE_SHIFT)
                    && self.organisation.is_data_mapped(last >> PAGE_SHIFT)
            });
            if !self.is_block_mapped(block) || !is_data_mapped {
                return (count, accesses);
            }
            accesses += own.len();
        }
        (blocks.len(), accesses)
    }

    #[inline(always)]
    fn is_block_mapped(&self, block: &StaticBlock<u32>) -> bool {
        // A block of more than two pages counts as not mapped and is run in its exact order.
        self.organisation.is_fetch_mapped(block.first >> PAGE_SHIFT)
            & self.organisation.is_fetch_mapped(block.last >> PAGE_SHIFT)
            & (block.last.wrapping_sub(block.first) < 1 << PAGE_SHIFT)
    }

    /// Fetches blocks that will not walk: a reference for each line.
    #[inline]
    fn fetch_all(&mut self, program: &Program<u32>, blocks: &[u32]) {
        let Machine { caches, ledger, .. } = &mut self.machine;
        let shift = caches.line_shift(Side::Instruction);
        let mut instructions = 0;
        for &number in blocks {
            let block = &program.blocks[number as usize];
            instructions += u64::from(block.instructions);
            // A reference has the address of its first byte in the line: the next level may have
            // shorter lines.
            let mut first = block.first;
            let mut at = Location::same(first.into());
            caches.reference(Role::Fetch, at, false, 0, ledger);
            while first >> shift != block.last >> shift {
                first = ((first >> shift) + 1) << shift;
                at = Location::same(first.into());
                caches.reference(Role::Fetch, at, false, 0, ledger);
            }
        }
        self.instructions += instructions;
    }

    /// References the data of blocks that will not walk; `straddles` are the accesses from
    /// `first_access` on that may span lines. How many of them were among the addresses.
    #[inline]
    fn reference_all(
        &mut self,
        addresses: &[u32],
        straddles: &[Straddle],
        first_access: usize,
    ) -> usize {
        let Machine { caches, ledger, .. } = &mut self.machine;
        let shift = caches.line_shift(Side::Data);
        let mut done = 0;
        let mut passed = 0;
        loop {
            let next =
                straddles.get(passed).map(|straddle| straddle.access as usize - first_access);
            let end = next.map_or(addresses.len(), |next| (next + 1).min(addresses.len()));
            for &address in &addresses[done..end] {
                caches.reference(Role::Data, Location::same(address.into()), false, 0, ledger);
            }
            done = end;
            let Some(straddle) = straddles.get(passed).filter(|_| next.is_some_and(|n| n < end))
            else {
                return passed;
            };
            passed += 1;
            let mut first = addresses[end - 1];
            let last = first.wrapping_add(u32::from(straddle.last_byte)).max(first);
            while first >> shift != last >> shift {
                first = ((first >> shift) + 1) << shift;
                caches.reference(Role::Data, Location::same(first.into()), false, 0, ledger);
            }
        }
    }

    /// Whether every reference of a block would be translated at once and hit the first level of
    /// plain caches.
    #[inline(always)]
    fn would_hit(
        &self,
        stretch: Stretch<'_, u32>,
        block: &StaticBlock<u32>,
        addresses: &[u32],
    ) -> bool {
        let caches = &self.machine.caches;
        let mut hits = self.is_block_mapped(block);
        let shift = caches.line_shift(Side::Instruction);
        let mut first = block.first;
        hits &= caches.holds(Side::Instruction, first);
        while first >> shift != block.last >> shift {
            first = ((first >> shift) + 1) << shift;
            hits &= caches.holds(Side::Instruction, first);
        }
        let shift = caches.line_shift(Side::Data);
        let accesses = &stretch.program.accesses[block.first_access as usize..];
        for (&address, access) in addresses.iter().zip(accesses) {
            let last = address.wrapping_add(u32::from(access.last_byte));
            hits &= self.organisation.is_data_mapped(address >> PAGE_SHIFT);
            hits &= caches.holds(Side::Data, address);
            hits &= (address ^ last) >> shift == 0;
        }
        hits
    }

    /// Runs a block event by event.
    ///
    /// Of the fetches from one line, those after the first are left out as long as nothing came
    /// between that could have moved the line or its page: they would hit, and a hit on what was used
    /// last changes no replacement state.
    fn run_exactly(
        &mut self,
        stretch: Stretch<'_, u32>,
        block: &StaticBlock<u32>,
        addresses: &[u32],
    ) {
        let shift = self.machine.caches.line_shift(Side::Instruction);
        let sizes = &stretch.program.instruction_sizes[block.first_instruction as usize..]
            [..block.instructions as usize];
        let accesses = &stretch.program.accesses[block.first_access as usize..];
        let mut accesses = addresses.iter().zip(accesses).peekable();
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
            while let Some((&data, access)) =
                accesses.next_if(|(_, access)| usize::from(access.instruction) <= number)
            {
                is_disturbed |= self.access(data, access.last_byte, access.is_store);
            }
            if is_disturbed {
                fetched_line = None;
            }
        }
    }

    /// One fetch from one line.
    fn fetch(&mut self, address: u32) {
        let page = address >> PAGE_SHIFT;
        let before = self.machine.ledger.cycles();
        if self.organisation.translate_fetch(page, &mut self.machine) {
            self.attribution.add(page, true, self.machine.ledger.cycles() - before);
        }
        self.refer(Role::Fetch, address, false);
    }

    /// One data access, of one line or more; whether it took a walk.
    fn access(&mut self, address: u32, last_byte: u16, is_store: bool) -> bool {
        let shift = self.machine.caches.line_shift(Side::Data);
        let last = address.wrapping_add(u32::from(last_byte)).max(address);
        let mut walked = false;
        for line in address >> shift..=last >> shift {
            let piece = address.max(line << shift);
            let page = piece >> PAGE_SHIFT;
            let before = self.machine.ledger.cycles();
            if self.organisation.translate_data(page, &mut self.machine) {
                self.attribution.add(page, false, self.machine.ledger.cycles() - before);
                walked = true;
            }
            walked |= self.refer(Role::Data, piece, is_store);
        }
        walked
    }

    /// One reference to the caches, with what the organisation does about it; whether it walked.
    fn refer(&mut self, role: Role, address: u32, is_store: bool) -> bool {
        let mut at = Location::same(address.into());
        if let Some(frames) = &mut self.frames {
            at.physical_address = frames.physical_address(at.virtual_address, PAGE_SHIFT);
        }
        let mut walks = false;
        if O::ACTS_ON_CACHE_MISSES {
            walks = self.machine.caches.is_in_memory_only(role.side(), at);
            if walks {
                let before = self.machine.ledger.cycles();
                let page = address >> PAGE_SHIFT;
                self.organisation.before_fill(page, &mut self.machine);
                let cycles = self.machine.ledger.cycles() - before;
                self.attribution.add(page, role == Role::Fetch, cycles);
            }
        }
        let Machine { caches, ledger, .. } = &mut self.machine;
        caches.reference(role, at, is_store, 0, ledger);
        walks
    }
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
    /// Walks by page.
    pub attribution: Attribution<P>,
}

impl<O: Organisation, C: Caches> Engine<O, C> {
    /// Ends the run.
    pub fn finish(self) -> EngineResult<u32> {
        let references = [self.instructions, self.data_references];
        let Machine { caches, ledger, handler_instructions, walk_loads, .. } = self.machine;
        let tlbs = self.organisation.tlb_counters(references);
        EngineResult {
            instructions: self.instructions,
            ledger,
            tlb_walks: (!tlbs.is_empty()).then(|| tlbs.iter().map(|tlb| tlb.misses).sum()),
            tlbs,
            caches: caches
                .counters([references[0] + handler_instructions, references[1] + walk_loads]),
            chains: self.organisation.chains(),
            attribution: self.attribution,
        }
    }
}
