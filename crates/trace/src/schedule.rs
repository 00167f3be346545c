//! Several traces as one: programs that take turns on a core.

use crate::{Batch, BlockId, BlockTable, Event, LineCrossing, Source, TraceError};

/// Where the number of an address space begins in the addresses of a schedule. Programs have addresses of 48 bits; those
/// of the kernel's half keep a 49th when their upper bits are left out, so that they are no others.
const SPACE_SHIFT: u32 = 49;
/// So that an address of a schedule has 56 bits, as many as TLBs compare.
const SPACE_BITS: u32 = 7;
/// How many programs a schedule may have.
pub const MOST_PROGRAMS: usize = 1 << SPACE_BITS;

/// Programs that run in turn, each for a time slice, until all have ended.
///
/// Each has an address space of its own: the number of the program, from 0, stands above its
/// addresses. A time slice ends between two blocks, at the first place where at least so many instructions are
/// executed; before the first block of the next program stands [`Event::AddressSpace`]. Each batch is of one program.
pub struct RoundRobin {
    programs: Vec<Program>,
    slice_instructions: u64,
    running: usize,
    /// Whose batch was delivered last.
    delivered: usize,
    /// Instructions left of the time slice; `None` before its first block.
    left: Option<u64>,
    table: BlockTable,
}

struct Program {
    source: Box<dyn Source>,
    /// The number here of each of the source's blocks that was delivered; `NONE` for the others.
    numbers: Vec<BlockId>,
    /// What the source delivered last, and how much of it has been delivered.
    inner: Batch,
    done: Done,
    has_ended: bool,
}

#[derive(Clone, Copy, Default)]
struct Done {
    blocks: usize,
    addresses: usize,
    crossings: usize,
    events: usize,
}

const NONE: BlockId = BlockId::MAX;

impl RoundRobin {
    /// A schedule of `sources`, at most [`MOST_PROGRAMS`], with time slices of `slice_instructions`, at least 1.
    pub fn new(sources: Vec<Box<dyn Source>>, slice_instructions: u64) -> Self {
        assert!(sources.len() <= MOST_PROGRAMS && slice_instructions > 0);
        let program = |source| Program {
            source,
            numbers: Vec::new(),
            inner: Batch::default(),
            done: Done::default(),
            has_ended: false,
        };
        Self {
            programs: sources.into_iter().map(program).collect(),
            slice_instructions,
            running: 0,
            delivered: 0,
            left: None,
            table: BlockTable::default(),
        }
    }

    /// The number of the program to which an address of the schedule belongs.
    #[inline]
    pub fn space(address: u64) -> u32 {
        (address >> SPACE_SHIFT) as u32
    }

    /// The address in its own program of an address of the schedule.
    pub fn own_address(address: u64) -> u64 {
        address & ((1 << SPACE_SHIFT) - 1)
    }

    /// The next program that has not ended, which may be the same.
    fn switch(&mut self) -> bool {
        let count = self.programs.len();
        let next = (1..=count)
            .map(|step| (self.running + step) % count)
            .find(|&number| !self.programs[number].has_ended);
        self.left = None;
        next.inspect(|&next| self.running = next).is_some()
    }
}

impl Program {
    /// Moves blocks from `inner` to `batch` until a time slice has `left` no more instructions.
    fn take(&mut self, space: u64, table: &mut BlockTable, left: &mut u64, batch: &mut Batch) {
        let Self { source, numbers, inner, done, .. } = self;
        let blocks = source.table().blocks();
        numbers.resize(blocks.len(), NONE);
        let here = |address: u64| RoundRobin::own_address(address) | space;
        let mut end = *done;
        while *left > 0
            && let Some(&id) = inner.blocks.get(end.blocks)
        {
            let block = &blocks[id as usize];
            let number = &mut numbers[id as usize];
            if *number == NONE {
                let mut own = block.clone();
                own.address = here(own.address);
                *number = table.push(own);
            }
            batch.blocks.push(*number);
            *left = left.saturating_sub(block.instruction_sizes_bytes.len() as u64);
            end.blocks += 1;
            end.addresses += block.accesses.len();
        }
        // An event before a block belongs to it, and what follows the last block to that.
        let is_last = end.blocks == inner.blocks.len();
        let belongs = |(at, _): &(usize, Event)| is_last || *at < end.blocks;
        end.events += inner.events[done.events..].partition_point(belongs);
        let crosses = |one: &LineCrossing| (one.access as usize) < end.addresses;
        end.crossings += inner.crossings[done.crossings..].partition_point(crosses);
        let addresses = &inner.addresses[done.addresses..end.addresses];
        batch.addresses.extend(addresses.iter().map(|&address| here(address)));
        let crossings = &inner.crossings[done.crossings..end.crossings];
        batch.crossings.extend(
            crossings
                .iter()
                .map(|one| LineCrossing { access: one.access - done.addresses as u32, ..*one }),
        );
        for (at, event) in &inner.events[done.events..end.events] {
            let mut event = event.clone();
            match &mut event {
                Event::Map { address, .. } => *address = here(*address),
                Event::Unmap { address, length_bytes } => {
                    let own = RoundRobin::own_address(*address);
                    *length_bytes = (*length_bytes).min((1 << SPACE_SHIFT) - own);
                    *address = here(*address);
                }
                Event::Thread(_) | Event::Mark { .. } | Event::AddressSpace(_) => {}
            }
            batch.events.push((at - done.blocks, event));
        }
        *done = end;
    }
}

impl Source for RoundRobin {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        loop {
            let running = self.running;
            let Some(program) = self.programs.get_mut(running) else { return Ok(false) };
            if !program.has_ended && program.done.blocks == program.inner.blocks.len() {
                program.done = Done::default();
                program.has_ended = !program.source.next_batch(&mut program.inner)?;
            }
            if program.has_ended {
                if !self.switch() {
                    return Ok(false);
                }
                continue;
            }
            if self.left.is_none() {
                batch.events.push((0, Event::AddressSpace(running as u32)));
            }
            let left = self.left.get_or_insert(self.slice_instructions);
            let space = (running as u64) << SPACE_SHIFT;
            program.take(space, &mut self.table, left, batch);
            self.delivered = running;
            if *left == 0 {
                self.switch();
            } else if batch.blocks.is_empty() && batch.events.is_empty() {
                continue;
            }
            return Ok(true);
        }
    }

    fn programs(&self) -> usize {
        self.programs.len()
    }

    fn program(&self) -> usize {
        self.delivered
    }
}
