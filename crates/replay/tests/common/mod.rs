//! What several tests need: the shipped machines with changes, and traces made on the spot.

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

#[allow(dead_code)] // Not every test makes its own trace.
/// A trace in memory, delivered in batches of a few blocks; a block becomes known with the batch
/// that runs it first, and mappings come before everything.
pub struct VecSource {
    table: BlockTable,
    batches: Vec<(BlockTable, Batch)>,
}

#[allow(dead_code)]
impl VecSource {
    /// `executed` are indices in `blocks`, each with the addresses of its accesses.
    pub fn new(
        blocks: &[Block],
        executed: &[(usize, Vec<u64>)],
        mappings: &[Event],
        batch_blocks: usize,
    ) -> Self {
        let mut table = BlockTable::default();
        let mut numbers = vec![None; blocks.len()];
        let mut batches = Vec::new();
        for chunk in executed.chunks(batch_blocks) {
            let mut batch = Batch::default();
            if batches.is_empty() {
                batch.events = mappings.iter().map(|event| (0, event.clone())).collect();
            }
            for (block, addresses) in chunk {
                let number =
                    *numbers[*block].get_or_insert_with(|| table.push(blocks[*block].clone()));
                batch.blocks.push(number);
                batch.addresses.extend_from_slice(addresses);
            }
            batch.find_straddles(table.blocks());
            batches.push((table.clone(), batch));
        }
        batches.reverse();
        Self { table: BlockTable::default(), batches }
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
