//! Several traces as one: programs that take turns on one core or several.

use std::collections::{HashMap, VecDeque};

use crate::{Batch, BlockId, BlockTable, Event, LineCrossing, Source, TraceError};

/// Where the number of an address space begins in the addresses of a schedule. Programs have
/// addresses of 48 bits; those of the kernel's half keep a 49th when their upper bits are left out,
/// so that they are no others.
const SPACE_SHIFT: u32 = 49;
/// So that an address of a schedule has 56 bits, as many as TLBs compare.
const SPACE_BITS: u32 = 7;
/// How many programs a schedule may have.
pub const MOST_PROGRAMS: usize = 1 << SPACE_BITS;

/// How programs share cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// How many there are, at least 1.
    pub count: usize,
    /// Whether programs wait in one queue for whichever core is free, so that they migrate.
    /// Otherwise each thread has a core of its own, that with the fewest threads when it was first
    /// seen, and programs wait for that.
    pub one_queue: bool,
    /// How many instructions a core executes before the next one goes on, at least 1. Cores work
    /// side by side; a trace has one order, and this is how fine it is.
    pub turn_instructions: u64,
}

impl Cores {
    /// A single core.
    pub const ONE: Self = Self { count: 1, one_queue: true, turn_instructions: u64::MAX };
}

/// Programs that run in turn, each for a time slice, until all have ended.
///
/// Each has an address space of its own: the number of the program, from 0, stands above its
/// addresses. A time slice ends between two blocks, at the first place where at least so many
/// instructions are executed; then the program waits behind all others that wait. Before the first
/// block of the next program stands [`Event::AddressSpace`], and where another core goes on
/// [`Event::Core`] before that. Each batch is of one program.
///
/// A program's threads take turns as they did when it was recorded, each on its core.
pub struct RoundRobin {
    programs: Vec<Program>,
    slice_instructions: u64,
    cores: Vec<Core>,
    /// Programs that wait: for each core, or for all.
    queues: Vec<VecDeque<usize>>,
    turn_instructions: u64,
    /// The core whose turn it is, and the instructions left of the turn.
    core: usize,
    turn_left: u64,
    /// Whose batch was delivered last, and on which core.
    delivered: usize,
    delivered_on: usize,
    table: BlockTable,
}

#[derive(Clone, Copy, Default)]
struct Core {
    running: Option<Running>,
    /// Threads that were given to it.
    threads: usize,
}

#[derive(Clone, Copy)]
struct Running {
    program: usize,
    /// Instructions left of the time slice.
    left: u64,
    has_begun: bool,
}

struct Program {
    source: Box<dyn Source>,
    /// The number here of each of the source's blocks that was delivered; `NONE` for the others.
    numbers: Vec<BlockId>,
    /// What the source delivered last, and how much of it has been delivered.
    inner: Batch,
    done: Done,
    /// The core of each of its threads, by their numbers in the trace.
    homes: HashMap<u32, usize>,
    /// The thread that was the last to go on, and its core.
    thread: Option<u32>,
    home: usize,
}

#[derive(Clone, Copy, Default)]
struct Done {
    blocks: usize,
    addresses: usize,
    crossings: usize,
    events: usize,
}

const NONE: BlockId = BlockId::MAX;

fn thread_of(event: &Event) -> Option<u32> {
    if let Event::Thread(thread) = event { Some(*thread) } else { None }
}

impl RoundRobin {
    /// A schedule of `sources`, at most [`MOST_PROGRAMS`], with time slices of
    /// `slice_instructions`, at least 1.
    pub fn new(sources: Vec<Box<dyn Source>>, slice_instructions: u64, cores: Cores) -> Self {
        let Cores { count, one_queue, turn_instructions } = cores;
        assert!(sources.len() <= MOST_PROGRAMS && slice_instructions > 0);
        assert!(count > 0 && turn_instructions > 0);
        let mut queues = vec![VecDeque::new(); if one_queue { 1 } else { count }];
        let mut cores = vec![Core::default(); count];
        let mut program = |(number, source)| {
            let home = give_core(&mut cores);
            let waits_for = home % queues.len();
            queues[waits_for].push_back(number);
            Program {
                source,
                numbers: Vec::new(),
                inner: Batch::default(),
                done: Done::default(),
                homes: HashMap::new(),
                thread: None,
                home,
            }
        };
        Self {
            programs: sources.into_iter().enumerate().map(&mut program).collect(),
            slice_instructions,
            cores,
            queues,
            turn_instructions,
            core: 0,
            turn_left: turn_instructions,
            delivered: 0,
            delivered_on: 0,
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

    /// What goes on next on the core whose turn it is, or on the next one that has something;
    /// `None` when all have ended.
    fn next_running(&mut self) -> Option<Running> {
        for _ in 0..=self.cores.len() {
            if self.turn_left > 0 {
                let queue = self.core % self.queues.len();
                let running = self.cores[self.core].running.or_else(|| {
                    let program = self.queues[queue].pop_front()?;
                    Some(Running { program, left: self.slice_instructions, has_begun: false })
                });
                if running.is_some() {
                    return running;
                }
            }
            self.core = (self.core + 1) % self.cores.len();
            self.turn_left = self.turn_instructions;
        }
        None
    }

    /// A program waits for its core again, or for any.
    fn wait(&mut self, program: usize) {
        let queue = self.programs[program].home % self.queues.len();
        self.queues[queue].push_back(program);
    }
}

/// The core that has the fewest threads gets one more.
fn give_core(cores: &mut [Core]) -> usize {
    let fewest = (0..cores.len()).min_by_key(|&core| cores[core].threads).unwrap_or(0);
    cores[fewest].threads += 1;
    fewest
}

impl Program {
    /// Reads on where all blocks have been delivered; whether there is more. What stands behind the
    /// last block belongs to the next one: where a batch ends must change nothing.
    fn read_on(&mut self) -> Result<bool, TraceError> {
        if self.done.blocks < self.inner.blocks.len() {
            return Ok(true);
        }
        let behind = self.inner.events.split_off(self.done.events);
        self.done = Done::default();
        let is_more = self.source.next_batch(&mut self.inner)? || !behind.is_empty();
        self.inner.events.splice(0..0, behind.into_iter().map(|(_, event)| (0, event)));
        Ok(is_more)
    }

    /// How many of the events that are due only say which thread goes on.
    fn due_threads(&self) -> usize {
        let due = self.inner.events[self.done.events..].iter();
        due.take_while(|(at, event)| *at <= self.done.blocks && thread_of(event).is_some()).count()
    }

    /// The event, by its place in `inner`, by which the thread that goes on gives way to one that
    /// still does something here.
    fn change_of_thread(&self) -> Option<usize> {
        let events = &self.inner.events;
        let from = self.done.events + self.due_threads();
        let change =
            from + events[from..].iter().position(|(_, event)| thread_of(event).is_some())?;
        let is_something = |(at, event): &(usize, Event)| {
            *at < self.inner.blocks.len() || thread_of(event).is_none()
        };
        events[change..].iter().any(is_something).then_some(change)
    }

    /// Learns which thread goes on, and which core it has.
    fn find_home(&mut self, cores: &mut [Core]) {
        let due = &self.inner.events[self.done.events..][..self.due_threads()];
        let next = due.last().and_then(|(_, event)| thread_of(event));
        if let Some(thread) = next.or(self.thread) {
            // The first thread has the core that the program was given.
            let home = if self.homes.is_empty() { Some(self.home) } else { None };
            let given = self.homes.entry(thread);
            self.home = *given.or_insert_with(|| home.unwrap_or_else(|| give_core(cores)));
        }
    }

    /// Moves blocks from `inner` to `batch` until these have so many instructions, or another
    /// thread goes on where threads have cores; the number of their instructions.
    fn take(
        &mut self,
        space: u64,
        table: &mut BlockTable,
        threads_have_cores: bool,
        instructions: u64,
        batch: &mut Batch,
    ) -> u64 {
        let change = if threads_have_cores { self.change_of_thread() } else { None };
        let Self { source, numbers, inner, done, thread, .. } = self;
        let next_thread = change.map_or(usize::MAX, |place| inner.events[place].0);
        let blocks = source.table().blocks();
        numbers.resize(blocks.len(), NONE);
        let here = |address: u64| RoundRobin::own_address(address) | space;
        let mut end = *done;
        let mut executed = 0;
        while executed < instructions
            && end.blocks < next_thread
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
            executed += block.instruction_sizes_bytes.len() as u64;
            end.blocks += 1;
            end.addresses += block.accesses.len();
        }
        // An event before a block belongs to it; but what stands before another thread's turn is
        // still done by the thread before it. Where there are no blocks the program has ended.
        let is_last = inner.blocks.is_empty() || next_thread <= done.blocks;
        let belongs = |(at, _): &(usize, Event)| is_last || *at < end.blocks;
        end.events += inner.events[done.events..].partition_point(belongs);
        end.events = end.events.min(change.unwrap_or(usize::MAX));
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
                Event::Thread(number) => *thread = Some(*number),
                Event::Mark { .. } | Event::AddressSpace(_) | Event::Core(_) => {}
            }
            batch.events.push((at - done.blocks, event));
        }
        *done = end;
        executed
    }
}

impl Source for RoundRobin {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let threads_have_cores = self.queues.len() > 1;
        while let Some(mut running) = self.next_running() {
            let number = running.program;
            self.cores[self.core].running = None;
            let program = &mut self.programs[number];
            if !program.read_on()? {
                continue;
            }
            if threads_have_cores {
                program.find_home(&mut self.cores);
                if program.home != self.core {
                    self.wait(number);
                    continue;
                }
            }
            let is_on_other_core = self.core != self.delivered_on;
            if is_on_other_core {
                batch.events.push((0, Event::Core(self.core as u32)));
            }
            if is_on_other_core || !running.has_begun {
                batch.events.push((0, Event::AddressSpace(number as u32)));
            }
            running.has_begun = true;
            let most = running.left.min(self.turn_left);
            let space = (number as u64) << SPACE_SHIFT;
            let executed = program.take(space, &mut self.table, threads_have_cores, most, batch);
            running.left = running.left.saturating_sub(executed);
            self.turn_left = self.turn_left.saturating_sub(executed);
            (self.delivered, self.delivered_on) = (number, self.core);
            if running.left == 0 {
                self.wait(number);
            } else {
                self.cores[self.core].running = Some(running);
            }
            if !batch.blocks.is_empty() || !batch.events.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn programs(&self) -> usize {
        self.programs.len()
    }

    fn program(&self) -> usize {
        self.delivered
    }

    fn cores(&self) -> usize {
        self.cores.len()
    }
}
