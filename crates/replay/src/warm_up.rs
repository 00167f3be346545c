//! Where a trace stops warming up and begins to count.

use mmulab_trace::{Batch, Source, TraceError};

/// Delivers a source in batches of which one ends where the warm-up does: between two blocks, at the
/// first place where at least that many instructions are executed.
pub(crate) struct WarmUp<'a> {
    source: &'a mut dyn Source,
    /// Instructions still to be delivered for warming up.
    left: u64,
    /// The rest of the batch that was cut.
    rest: Batch,
}

impl<'a> WarmUp<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, instructions: u64) -> Self {
        Self { source, left: instructions, rest: Batch::default() }
    }

    pub(crate) fn source(&self) -> &dyn Source {
        self.source
    }

    /// Fills `batch` with what comes next; `false` at the end of the trace.
    pub(crate) fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if !self.rest.blocks.is_empty() {
            std::mem::swap(batch, &mut self.rest);
            self.rest.clear();
            return Ok(true);
        }
        if !self.source.next_batch(batch)? {
            return Ok(false);
        }
        if self.left > 0 {
            self.split(batch);
        }
        Ok(true)
    }

    /// Moves what follows the warm-up from `batch` into `rest`.
    fn split(&mut self, batch: &mut Batch) {
        let table = self.source.table().blocks();
        let (mut blocks, mut accesses) = (0, 0);
        for &number in batch.blocks.iter() {
            if self.left == 0 {
                break;
            }
            let block = &table[number as usize];
            let instructions = block.instruction_sizes_bytes.len() as u64;
            self.left = self.left.saturating_sub(instructions);
            accesses += block.accesses.len();
            blocks += 1;
        }
        let rest = &mut self.rest;
        rest.blocks.extend(batch.blocks.drain(blocks..));
        if rest.blocks.is_empty() {
            return;
        }
        rest.addresses.extend(batch.addresses.drain(accesses..));
        let crossings = batch.crossings.partition_point(|s| (s.access as usize) < accesses);
        rest.crossings.extend(batch.crossings.drain(crossings..).map(|mut crossing| {
            crossing.access -= accesses as u32;
            crossing
        }));
        let events = batch.events.partition_point(|(place, _)| *place < blocks);
        let later = batch.events.drain(events..).map(|(place, event)| (place - blocks, event));
        rest.events.extend(later);
    }
}
