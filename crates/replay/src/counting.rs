//! Which of a trace's blocks count: what follows the warm-up, within the region of interest.

use std::collections::{BTreeSet, HashMap};

use mmulab_symbols::ProgramSymbols;
use mmulab_trace::{Batch, BlockTable, Calls, Event, LineCrossing, Source, TraceError};

use crate::replay::ReplayError;

/// Delivers a source in batches of which all blocks count or none does.
///
/// The warm-up ends between two blocks, at the first place where at least that many instructions
/// are executed. A region of interest is what functions of a name do from their entry to their
/// return, with all that they call, and what is between two marks of that name that the program
/// makes (`mmulab.h`); all executions of it together.
pub(crate) struct Counting<'a> {
    source: &'a mut dyn Source,
    /// Instructions still to be delivered for warming up.
    warm_up: u64,
    region: Option<RegionTracker<'a>>,
    /// What the source delivered last.
    whole: Batch,
    /// How much of it has been delivered.
    done: Position,
    /// How many of its events the region knows: those before the next block are known before they
    /// are delivered.
    noted: usize,
    /// Whether the next block of `whole` counts, where that was found out already.
    next_counts: Option<bool>,
    /// Whether the last delivered block counts.
    counts: bool,
}

/// A place between two blocks of a batch.
#[derive(Clone, Copy, Default)]
struct Position {
    blocks: usize,
    addresses: usize,
    crossings: usize,
    events: usize,
}

impl<'a> Counting<'a> {
    /// What counts of a source.
    ///
    /// # Errors
    /// There is a region, and the calls by which it is followed are not found in such programs.
    pub(crate) fn new(
        source: &'a mut dyn Source,
        warm_up: u64,
        region: Option<&'a str>,
    ) -> Result<Self, ReplayError> {
        let instruction_set = source.instruction_set();
        if region.is_some() && !instruction_set.is_empty() && !instruction_set.starts_with("x86") {
            let instruction_set = instruction_set.to_owned();
            return Err(ReplayError::NoCalls { instruction_set });
        }
        Ok(Self {
            source,
            warm_up,
            region: region.map(RegionTracker::new),
            whole: Batch::default(),
            done: Position::default(),
            noted: 0,
            next_counts: None,
            counts: false,
        })
    }

    pub(crate) fn source(&self) -> &dyn Source {
        self.source
    }

    /// The program to which the batch belongs that was delivered last.
    pub(crate) fn program(&self) -> usize {
        self.source.program()
    }

    /// At the end of the trace: an error if it never came to the region.
    pub(crate) fn check_region(&self) -> Result<(), ReplayError> {
        match &self.region {
            Some(region) if !region.was_seen => {
                Err(ReplayError::NoSuchRegion { name: region.name.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The files that were asked for the region's name.
    pub(crate) fn symbol_files(&self) -> BTreeSet<String> {
        self.region.as_ref().map(|region| region.symbols.sources()).unwrap_or_default()
    }

    /// Fills `batch` with what comes next, and says whether it counts; `None` at the end of the
    /// trace.
    pub(crate) fn next_batch(&mut self, batch: &mut Batch) -> Result<Option<bool>, TraceError> {
        if self.done.blocks == self.whole.blocks.len() {
            self.done = Position::default();
            self.noted = 0;
            self.whole.clear();
            if self.region.is_none() && self.warm_up == 0 {
                return Ok(self.source.next_batch(batch)?.then_some(true));
            }
            if !self.source.next_batch(&mut self.whole)? {
                return Ok(None);
            }
        }
        self.take(batch);
        Ok(Some(self.counts))
    }

    /// Moves on to the next block that counts otherwise, and puts what is before it into `batch`.
    fn take(&mut self, batch: &mut Batch) {
        let Self { source, whole, done, .. } = self;
        let table = source.table();
        let mut end = *done;
        let mut piece = None;
        while let Some(&number) = whole.blocks.get(end.blocks) {
            let block = &table.blocks()[number as usize];
            let counts = self.next_counts.take().unwrap_or_else(|| {
                let is_warm = self.warm_up == 0;
                let addresses = &whole.addresses[end.addresses..];
                let region = self.region.as_mut();
                let is_inside = region.is_none_or(|region| {
                    while let Some((at, event)) = whole.events.get(self.noted)
                        && *at <= end.blocks
                    {
                        region.note(event);
                        self.noted += 1;
                    }
                    region.step(table, number, addresses)
                });
                is_warm && is_inside
            });
            if *piece.get_or_insert(counts) != counts {
                self.next_counts = Some(counts);
                break;
            }
            self.warm_up = self.warm_up.saturating_sub(block.instruction_sizes_bytes.len() as u64);
            end.blocks += 1;
            end.addresses += block.accesses.len();
        }
        self.counts = piece.unwrap_or(self.counts);
        let is_last = end.blocks == whole.blocks.len();
        if let Some(region) = &mut self.region
            && is_last
        {
            whole.events[self.noted..].iter().for_each(|(_, event)| region.note(event));
            self.noted = whole.events.len();
        }
        if is_last && done.blocks == 0 {
            std::mem::swap(batch, whole);
            whole.clear();
            *done = Position::default();
            return;
        }
        // An event before a block belongs to it, and what follows the last block to that.
        let belongs = |(at, _): &(usize, Event)| is_last || *at < end.blocks;
        end.events = done.events + whole.events[done.events..].partition_point(belongs);
        let crossings = &whole.crossings[done.crossings..];
        let crosses = |one: &LineCrossing| (one.access as usize) < end.addresses;
        end.crossings = done.crossings + crossings.partition_point(crosses);
        batch.clear();
        batch.blocks.extend_from_slice(&whole.blocks[done.blocks..end.blocks]);
        batch.addresses.extend_from_slice(&whole.addresses[done.addresses..end.addresses]);
        let crossings = &whole.crossings[done.crossings..end.crossings];
        batch.crossings.extend(
            crossings
                .iter()
                .map(|one| LineCrossing { access: one.access - done.addresses as u32, ..*one }),
        );
        let events = &whole.events[done.events..end.events];
        batch.events.extend(events.iter().map(|(at, event)| (at - done.blocks, event.clone())));
        *done = end;
    }
}

/// Follows a program in and out of a region.
struct RegionTracker<'a> {
    name: &'a str,
    symbols: ProgramSymbols,
    was_seen: bool,
    /// Marks that have begun and not ended.
    marks: u64,
    /// First addresses of the functions.
    entries: Vec<u64>,
    calls: Calls,
    /// By thread that is inside the function: the calls that it is in as long as it is.
    inside: HashMap<u32, usize>,
}

impl<'a> RegionTracker<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            symbols: ProgramSymbols::default(),
            was_seen: false,
            marks: 0,
            entries: Vec::new(),
            calls: Calls::default(),
            inside: HashMap::new(),
        }
    }

    fn note(&mut self, event: &Event) {
        self.calls.note(event);
        match event {
            Event::Map { address, length_bytes, executable: true, name } => {
                self.symbols.map_code(*address, *length_bytes, name);
                let covered = *address..address.saturating_add(*length_bytes);
                self.entries.retain(|entry| !covered.contains(entry));
                let functions = self.symbols.functions(*address, self.name);
                self.entries.extend(functions.into_iter().filter(|entry| covered.contains(entry)));
            }
            Event::Unmap { address, length_bytes } => {
                let end = address.saturating_add(*length_bytes);
                self.entries.retain(|entry| !(*address..end).contains(entry));
                if *length_bytes == u64::MAX {
                    // Another program begins, and this one's functions and marks end with it.
                    self.inside.clear();
                    self.marks = 0;
                }
            }
            Event::Mark { name, begins } if name == self.name => {
                self.was_seen = true;
                self.marks = if *begins { self.marks + 1 } else { self.marks.saturating_sub(1) };
            }
            _ => {}
        }
    }

    /// Whether the block that is about to execute is inside.
    fn step(&mut self, table: &BlockTable, block: u32, addresses: &[u64]) -> bool {
        let is_call = self.calls.step(table, block, addresses).is_call;
        let (thread, depth) = (self.calls.thread(), self.calls.frames().len());
        // A call after `longjmp` may be as deep as what that left.
        let least = depth - usize::from(is_call);
        if self.inside.get(&thread).is_some_and(|entered| least < *entered) {
            self.inside.remove(&thread);
        }
        let mut is_inside = self.inside.contains_key(&thread);
        if !is_inside && self.entries.contains(&table.blocks()[block as usize].address) {
            self.was_seen = true;
            self.inside.insert(thread, depth);
            is_inside = true;
        }
        is_inside || self.marks > 0
    }
}
