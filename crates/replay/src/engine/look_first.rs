//! Caches without a TLB before them: a block whose lines are all in the first level is passed over.

use mmulab_trace::LineCrossing;

use super::{Engine, Machine, RunSlice, after};
use crate::caches::{FirstLevelLookup, Side, SplitDirectMapped};
use crate::organisation::OnCacheMiss;
use crate::program::{BatchSlice, StaticBlock};

impl RunSlice for SplitDirectMapped {
    fn run_slice<O: OnCacheMiss<Self>>(engine: &mut Engine<O, Self>, slice: BatchSlice<'_, u32>) {
        engine.run_looking_first(slice);
    }
}

impl<O: OnCacheMiss<C>, C: FirstLevelLookup> Engine<O, C> {
    /// Runs a slice in the exact order of events, but passes over blocks that hit.
    pub(crate) fn run_looking_first(&mut self, slice: BatchSlice<'_, u32>) {
        let mut found = std::mem::take(&mut self.crossings);
        slice.find_crossings(self.machine.caches.line_shift(Side::Data), &mut found);
        let mut crossings: &[LineCrossing] = &found;
        let mut made = 0;
        for &number in slice.blocks {
            let block = &slice.program.blocks[number as usize];
            let end = made + block.accesses as usize;
            let own = &slice.addresses[made..end];
            made = end;
            self.instructions += u64::from(block.instructions);
            let spans_lines = crossings.first().is_some_and(|s| (s.access as usize) < end);
            if spans_lines || !self.would_hit(block, own) {
                self.run_exactly(slice, block, own);
                crossings = after(crossings, end);
            }
        }
        self.crossings = found;
    }

    /// Whether every reference of a block would hit the first level, if no access spans lines.
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
}
