//! Direct-mapped caches under TLBs: what L0 filters know is passed over from one walk to the next.

use mmulab_trace::LineCrossing;

use super::{Engine, RunSlice, after};
use crate::caches::l0_filter::L0Filter;
use crate::caches::{Caches, DirectMapped, Filtered, Location, Side};
use crate::cause::Role;
use crate::organisation::{OnCacheMiss, PAGE_SHIFT};
use crate::program::{BatchSlice, Program, StaticBlock};

impl<C: DirectMapped> RunSlice for Filtered<C> {
    fn run_slice<O: OnCacheMiss<Self>>(engine: &mut Engine<O, Self>, slice: BatchSlice<'_, u32>) {
        if !engine.organisation.hits_change_nothing() {
            return engine.run_event_by_event(slice);
        }
        let mut crossings = std::mem::take(&mut engine.crossings);
        slice.find_crossings(engine.machine.caches.line_shift(Side::Data), &mut crossings);
        engine.run_between_walks(slice, &crossings);
        engine.crossings = crossings;
    }
}

impl<O: OnCacheMiss<Filtered<C>>, C: DirectMapped> Engine<O, Filtered<C>> {
    /// Runs a slice from walk to walk.
    ///
    /// Instructions and data meet only in walks: a TLB changes when it misses, a walk for an
    /// instruction loads entries through the data caches, and a walk for data may fetch a handler.
    /// So blocks are fetched ahead up to one that walks or collides with a handler, and the data
    /// references up to there follow, walks and all. The block that stopped the first is then run
    /// in its exact order, unless it only collides with a handler and its own data run none.
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
        // Blocks before `fetched` are fetched, with all their accesses before `accesses_end`;
        // accesses before `made` are made.
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

    /// Passes over `blocks` up to the first whose fetches are not all known to hit; how many these
    /// are and how many accesses they make.
    #[inline(always)]
    fn pass_known_hits(&mut self, program: &Program<u32>, blocks: &[u32]) -> (usize, usize) {
        let l0_filter = &self.machine.caches.instruction;
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
        let is_free = self.is_mapped(block) && is_clear(&self.machine.caches.instruction);
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
            let l0_filter = &self.machine.caches.data;
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
}
