//! A part of a trace, to the instruction.

use std::ops::Range;

use crate::{Batch, Block, BlockId, BlockTable, Event, LineCrossing, Source, TraceError};

/// Instructions `skip` to `skip + count` of another source, as a source.
///
/// What was mapped before them, and which thread runs, stands before the first. A block that the
/// cut goes through is delivered in part.
pub struct Slice {
    source: Box<dyn Source>,
    /// Instructions still to be left out, and then to be delivered.
    skip: u64,
    left: u64,
    table: BlockTable,
    /// The number here of each of the source's blocks that was delivered; `NONE` for the others.
    numbers: Vec<BlockId>,
    /// What the source delivered last.
    inner: Batch,
    /// Events that came before the first instruction of the slice.
    before: Vec<Event>,
    begun: bool,
    /// Instructions of the source were seen that come after the slice.
    cut: bool,
}

const NONE: BlockId = BlockId::MAX;

impl Slice {
    /// Leaves out the first `skip` instructions and ends after `count` more, or with the trace.
    pub fn new(source: Box<dyn Source>, skip: u64, count: Option<u64>) -> Self {
        Self {
            source,
            skip,
            left: count.unwrap_or(u64::MAX),
            table: BlockTable::default(),
            numbers: Vec::new(),
            inner: Batch::default(),
            before: Vec::new(),
            begun: false,
            cut: false,
        }
    }

    /// The source of which this is a part.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Whether the slice, which has been read to its end, ended before the trace. What cannot be
    /// read stands after it, too.
    pub fn is_truncated(&mut self) -> bool {
        while self.left == 0 && !self.cut {
            match self.source.next_batch(&mut self.inner) {
                Ok(false) => break,
                Ok(true) => self.cut = !self.inner.blocks.is_empty(),
                Err(_) => self.cut = true,
            }
        }
        self.cut
    }

    /// Moves what belongs to the slice from `inner` to `batch`.
    fn take(&mut self, batch: &mut Batch) {
        let Self { source, inner, .. } = self;
        let source_blocks = source.table().blocks();
        self.numbers.resize(source_blocks.len(), NONE);
        let mut events = inner.events.drain(..).peekable();
        // Accesses of `inner` before the block, and the first of them that is delivered.
        let (mut access, mut first_access) = (0, None);
        for (place, &id) in inner.blocks.iter().enumerate() {
            if self.left == 0 {
                self.cut = true;
                break;
            }
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= place) {
                if self.begun {
                    batch.events.push((batch.blocks.len(), event));
                } else {
                    keep(&mut self.before, event);
                }
            }
            let block = &source_blocks[id as usize];
            let length = block.instruction_sizes_bytes.len() as u64;
            let begin = self.skip.min(length);
            let end = length.min(begin.saturating_add(self.left));
            self.skip -= begin;
            self.cut = end < length;
            let here = access..access + block.accesses.len();
            access = here.end;
            if begin == end {
                continue;
            }
            if !self.begun {
                self.begun = true;
                batch.events.extend(self.before.drain(..).map(|event| (0, event)));
            }
            self.left -= end - begin;
            let (number, accesses) = if end - begin == length {
                let number = &mut self.numbers[id as usize];
                if *number == NONE {
                    *number = self.table.push(block.clone());
                }
                (*number, here)
            } else {
                let (part, range) = part_of(block, begin as usize..end as usize);
                (self.table.push(part), here.start + range.start..here.start + range.end)
            };
            first_access.get_or_insert(accesses.start);
            batch.blocks.push(number);
            batch.addresses.extend_from_slice(&inner.addresses[accesses]);
        }
        if self.left > 0 {
            for (_, event) in events {
                if self.begun {
                    batch.events.push((batch.blocks.len(), event));
                } else {
                    keep(&mut self.before, event);
                }
            }
        }
        let first = first_access.unwrap_or(0) as u32;
        let last = first + batch.addresses.len() as u32;
        let here = inner.crossings.iter().filter(|one| (first..last).contains(&one.access));
        batch.crossings.extend(here.map(|one| LineCrossing { access: one.access - first, ..*one }));
    }
}

/// Keeps an event that came before the slice; of threads only the last matters, of regions those
/// that have not ended, as all do where another program begins.
fn keep(before: &mut Vec<Event>, event: Event) {
    match &event {
        Event::Thread(_) => before.retain(|one| !matches!(one, Event::Thread(_))),
        Event::Core(_) => before.retain(|one| !matches!(one, Event::Core(_))),
        Event::AddressSpace(_) => before.retain(|one| !matches!(one, Event::AddressSpace(_))),
        Event::Mark { name, begins: false } => {
            let begun = Event::Mark { name: name.clone(), begins: true };
            if let Some(place) = before.iter().rposition(|one| *one == begun) {
                before.remove(place);
            }
            return;
        }
        Event::Unmap { length_bytes: u64::MAX, .. } => {
            before.retain(|one| !matches!(one, Event::Mark { .. }));
        }
        Event::Map { .. } | Event::Unmap { .. } | Event::Mark { .. } => {}
    }
    before.push(event);
}

/// Some instructions of a block as a block of their own, and which of its accesses are theirs.
fn part_of(block: &Block, instructions: Range<usize>) -> (Block, Range<usize>) {
    let place = |instruction: usize| {
        block.accesses.partition_point(|access| usize::from(access.instruction) < instruction)
    };
    let accesses = place(instructions.start)..place(instructions.end);
    let before: u64 = block.instruction_sizes_bytes[..instructions.start]
        .iter()
        .map(|&size| u64::from(size))
        .sum();
    let mut part = Block {
        address: block.address.wrapping_add(before),
        instruction_sizes_bytes: block.instruction_sizes_bytes[instructions.clone()].to_vec(),
        accesses: block.accesses[accesses.clone()].to_vec(),
    };
    for access in &mut part.accesses {
        access.instruction -= instructions.start as u16;
    }
    (part, accesses)
}

impl Source for Slice {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while batch.blocks.is_empty() && batch.events.is_empty() {
            if self.left == 0 || !self.source.next_batch(&mut self.inner)? {
                return Ok(false);
            }
            self.take(batch);
        }
        Ok(true)
    }

    fn programs(&self) -> usize {
        self.source.programs()
    }

    fn program(&self) -> usize {
        self.source.program()
    }

    fn cores(&self) -> usize {
        self.source.cores()
    }

    fn command(&self) -> &[String] {
        self.source.command()
    }

    fn instruction_set(&self) -> &str {
        self.source.instruction_set()
    }

    fn truncation(&self) -> Option<&str> {
        self.source.truncation()
    }

    fn format(&self) -> &'static str {
        self.source.format()
    }
}
