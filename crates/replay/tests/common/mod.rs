//! What several tests need: the shipped machines with changes, and traces made on the spot.

pub mod random;

use std::path::Path;

use mmulab_machine::{Machine, ReplayMachine};
use mmulab_trace::{Batch, Block, BlockTable, Event, Source, TraceError};

/// A machine of the folder `machines`, with values changed.
pub fn machine(name: &str, changes: &[(String, String)]) -> ReplayMachine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../machines/{name}.toml"));
    let changes: Vec<(&str, &str)> =
        changes.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
    match Machine::load(&path).and_then(|machine| machine.with(&changes)) {
        Ok(Machine::Replay(machine)) => *machine,
        Ok(_) => panic!("{name} is not for replay"),
        Err(error) => panic!("{error}"),
    }
}

/// A trace in memory, delivered in batches of a few blocks; a block becomes known with the batch
/// that runs it first.
pub struct VecSource {
    table: BlockTable,
    batches: Vec<(BlockTable, Batch)>,
}

#[allow(dead_code)]
impl VecSource {
    /// `executed` are indices in `blocks`, each with the addresses of its accesses; `events` have
    /// the index in `executed` before which they happen, ascending.
    pub fn new(
        blocks: &[Block],
        executed: &[(usize, Vec<u64>)],
        events: &[(usize, Event)],
        batch_blocks: usize,
    ) -> Self {
        let mut table = BlockTable::default();
        let mut numbers = vec![None; blocks.len()];
        let mut batches = Vec::new();
        for (first, chunk) in (0..).step_by(batch_blocks).zip(executed.chunks(batch_blocks)) {
            let mut batch = Batch::default();
            let own =
                events.iter().filter(|(place, _)| (first..first + chunk.len()).contains(place));
            batch.events.extend(own.map(|(place, event)| (place - first, event.clone())));
            for (block, addresses) in chunk {
                let number =
                    *numbers[*block].get_or_insert_with(|| table.push(blocks[*block].clone()));
                batch.blocks.push(number);
                batch.addresses.extend_from_slice(addresses);
            }
            batch.find_crossings(table.blocks());
            batches.push((table.clone(), batch));
        }
        batches.reverse();
        Self { table: BlockTable::default(), batches }
    }

    /// With what happens between two batches behind the first one, not before the second.
    pub fn early(mut self) -> Self {
        for next in (0..self.batches.len().saturating_sub(1)).rev() {
            let (_, batch) = &mut self.batches[next];
            let here = batch.events.partition_point(|(at, _)| *at == 0);
            let between: Vec<_> = batch.events.drain(..here).collect();
            let (_, before) = &mut self.batches[next + 1];
            let end = before.blocks.len();
            before.events.extend(between.into_iter().map(|(_, event)| (end, event)));
        }
        self
    }

    /// With an event behind the last block.
    pub fn and_then(mut self, event: Event) -> Self {
        let (_, last) = &mut self.batches[0];
        last.events.push((last.blocks.len(), event));
        self
    }
}

impl Source for VecSource {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let Some((table, next)) = self.batches.pop() else { return Ok(false) };
        self.table = table;
        *batch = next;
        Ok(true)
    }
}

/// Calls a macro with the names of tests and of their machines, one an organisation.
macro_rules! for_each_organisation {
    ($tests:ident) => {
        $tests! {
            ultrix: "ultrix",
            mach: "mach",
            intel: "intel",
            pa_risc: "pa-risc",
            inverted_hw: "inverted-hw",
            notlb: "notlb",
            base: "base",
            x86_64: "x86-64",
            cortex_a55: "cortex-a55",
        }
    };
}
pub(crate) use for_each_organisation;
