//! Turns the records of the Valgrind tool into blocks and addresses.
//!
//! The records are those of `recorders/valgrind/stream.h`: change both.

use std::collections::HashMap;
use std::time::Duration;

use super::channel::{Arrival, Channel};
use crate::{Access, AccessKind, Batch, Block, BlockId, BlockTable, Event};

const DEFINE: u32 = 0xffff_ffff;
const THREAD: u32 = 0xffff_fffe;
const MAP: u32 = 0xffff_fffd;
const UNMAP: u32 = 0xffff_fffc;
const EXEC: u32 = 0xffff_fffb;
const EXEC_FAILED: u32 = 0xffff_fffa;
const EXIT: u32 = 0xffff_fff9;
const MARK: u32 = 0xffff_fff8;
/// Records from here on are not runs.
const FIRST_SPECIAL: u32 = MARK;
/// Address of a guarded access that was not made.
const NOT_MADE: u64 = u64::MAX;

/// Blocks in a batch: with their addresses they stay in a second-level cache.
const BATCH_BLOCKS: usize = 8192;

/// How long one call waits for the program.
const WAIT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The batch is full.
    Full,
    /// The program has nothing to give at the moment.
    Waiting,
    /// The process ended or was replaced.
    Ended,
}

/// What the tool calls a run: instructions without a way out between them.
struct Run {
    block: BlockId,
    instructions: u32,
    accesses: usize,
    /// Begins inside an instruction, and so belongs to the block before.
    continues: bool,
    /// For each access whether it is guarded; empty if none is.
    guarded: Vec<bool>,
}

/// What is needed of a run that neither continues a block nor has guarded accesses, as nearly all;
/// eight bytes, for the processor's caches.
#[derive(Clone, Copy)]
struct PlainRun {
    block: BlockId,
    instructions: u16,
    /// `NOT_PLAIN` if the run is of the other kind.
    accesses: u16,
}

const NOT_PLAIN: u16 = u16::MAX;

/// The recorded process as a stream of batches.
pub(super) struct RunStream {
    channel: Channel,
    /// How much of the channel's segment is used up.
    position: usize,
    runs: Vec<Run>,
    plain_runs: Vec<PlainRun>,
    table: BlockTable,
    numbers: HashMap<Block, BlockId>,
    /// Blocks with a run appended that continues their last instruction.
    continued: HashMap<(BlockId, BlockId), BlockId>,
    /// Blocks without the guarded accesses that were not made.
    variants: HashMap<(u32, Vec<bool>), BlockId>,
    threads: u32,
    thread_base: u32,
    instructions: u64,
    /// Forks made before an exec that is under way.
    exec: Option<u32>,
    exit_status: Option<i32>,
    cut: bool,
}

impl RunStream {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            position: 0,
            runs: Vec::new(),
            plain_runs: Vec::new(),
            table: BlockTable::default(),
            numbers: HashMap::new(),
            continued: HashMap::new(),
            variants: HashMap::new(),
            threads: 0,
            thread_base: 0,
            instructions: 0,
            exec: None,
            exit_status: None,
            cut: false,
        }
    }

    pub(super) fn table(&self) -> &BlockTable {
        &self.table
    }

    pub(super) fn process(&self) -> u32 {
        self.channel.process()
    }

    /// Whether the process would have executed more than the limit on instructions.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// After the end: the status with which the process ended, if it did so by itself.
    pub(super) fn exit_status(&self) -> Option<i32> {
        self.exit_status
    }

    /// After the end: whether the process went on with another program, and the forks before it.
    pub(super) fn exec(&self) -> Option<u32> {
        self.exec
    }

    /// Continues with the program that the process has loaded now.
    pub(super) fn exec_done(&mut self, channel: Channel, batch: &mut Batch) {
        batch.clear();
        batch.events.push((0, Event::Unmap { address: 0, length_bytes: u64::MAX }));
        self.channel = channel;
        self.position = 0;
        self.runs.clear();
        self.plain_runs.clear();
        self.continued.clear();
        self.variants.clear();
        self.thread_base = self.threads;
        self.exec = None;
    }

    /// Appends to `batch` until it is full, `max_instructions` are reached, or there is no more.
    pub(super) fn fill(
        &mut self,
        batch: &mut Batch,
        max_instructions: u64,
    ) -> Result<Progress, &'static str> {
        loop {
            let segment = self.channel.segment();
            if self.position == segment.len() {
                self.position = 0;
                match self.channel.receive(WAIT) {
                    Arrival::Segment => continue,
                    Arrival::Nothing => return Ok(Progress::Waiting),
                    Arrival::End => return Ok(Progress::Ended),
                }
            }
            // Plain runs, which are nearly all, as long as they come.
            while let Some((number, body)) = (Reader { bytes: &segment[self.position..] }).u32() {
                let run = self.plain_runs.get(number as usize);
                let Some(run) = run.filter(|run| run.accesses != NOT_PLAIN) else { break };
                if batch.blocks.len() >= BATCH_BLOCKS || self.instructions >= max_instructions {
                    break;
                }
                let accesses = usize::from(run.accesses);
                if !append_addresses(&mut batch.addresses, body.bytes, accesses) {
                    return Err("a run is cut off");
                }
                batch.blocks.push(run.block);
                self.instructions += u64::from(run.instructions);
                self.position += 4 + 8 * accesses;
            }
            if self.position == segment.len() {
                continue;
            }
            let record = Reader { bytes: &segment[self.position..] };
            let (number, body) = record.u32().ok_or("a record is cut off")?;
            if number >= FIRST_SPECIAL {
                let (length, rest) = body.u32().ok_or("a record is cut off")?;
                let body = rest.bytes.get(..length as usize).ok_or("a record is cut off")?.to_vec();
                self.position += 8 + body.len();
                self.special(number, Reader { bytes: &body }, batch)
                    .ok_or("a record makes no sense")?;
                continue;
            }
            let run = self.runs.get(number as usize).ok_or("an unknown run")?;
            // A block may still get a continuation while it is the last of the batch.
            if !run.continues {
                self.cut = self.instructions >= max_instructions;
                if self.cut || batch.blocks.len() >= BATCH_BLOCKS {
                    return Ok(Progress::Full);
                }
            }
            let addresses = body.bytes.get(..8 * run.accesses).ok_or("a run is cut off")?;
            self.position += 4 + addresses.len();
            let addresses =
                addresses.as_chunks().0.iter().map(|&address| u64::from_le_bytes(address));
            self.instructions += u64::from(run.instructions);
            let (continues, mut block) = (run.continues, run.block);
            if run.guarded.is_empty() {
                batch.addresses.extend(addresses);
            } else {
                let made: Vec<bool> = addresses
                    .clone()
                    .zip(&run.guarded)
                    .map(|(address, guarded)| !guarded || address != NOT_MADE)
                    .collect();
                let made_addresses = addresses.zip(&made).filter_map(|(a, &m)| m.then_some(a));
                batch.addresses.extend(made_addresses);
                block = self.variant(number, made);
            }
            if continues {
                self.continue_block(block, batch);
            } else {
                batch.blocks.push(block);
            }
        }
    }

    /// The block of a run in which only some guarded accesses were made.
    fn variant(&mut self, number: u32, made: Vec<bool>) -> BlockId {
        if let Some(&block) = self.variants.get(&(number, made.clone())) {
            return block;
        }
        let mut block = self.table.blocks()[self.runs[number as usize].block as usize].clone();
        let mut keep = made.iter();
        block.accesses.retain(|_| *keep.next().unwrap_or(&true));
        let id = self.number(block);
        self.variants.insert((number, made), id);
        id
    }

    /// Joins a run that begins inside an instruction to the block that holds its beginning.
    fn continue_block(&mut self, tail: BlockId, batch: &mut Batch) {
        let tail_block = &self.table.blocks()[tail as usize];
        let head = batch.blocks.last().copied();
        let head_block = head.map(|head| &self.table.blocks()[head as usize]);
        let Some((head, head_block)) = head.zip(head_block.filter(|head| {
            let start: u64 = head.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
            let last = head.instruction_sizes_bytes.last().map_or(0, |&size| u64::from(size));
            head.address.wrapping_add(start - last) == tail_block.address
        })) else {
            // The beginning was not recorded; the instruction counts here then.
            batch.blocks.push(tail);
            return;
        };
        // Its first instruction was counted with the head.
        self.instructions -= 1;
        let joined = match self.continued.get(&(head, tail)) {
            Some(&joined) => joined,
            None => {
                let mut block = head_block.clone();
                let shift = block.instruction_sizes_bytes.len() - 1;
                block
                    .instruction_sizes_bytes
                    .extend_from_slice(&tail_block.instruction_sizes_bytes[1..]);
                block.accesses.extend(tail_block.accesses.iter().map(|access| Access {
                    instruction: access.instruction + shift as u16,
                    ..*access
                }));
                let joined = self.number(block);
                self.continued.insert((head, tail), joined);
                joined
            }
        };
        if let Some(last) = batch.blocks.last_mut() {
            *last = joined;
        }
    }

    fn number(&mut self, block: Block) -> BlockId {
        if let Some(&number) = self.numbers.get(&block) {
            return number;
        }
        let number = self.table.push(block.clone());
        self.numbers.insert(block, number);
        number
    }

    fn special(&mut self, kind: u32, body: Reader<'_>, batch: &mut Batch) -> Option<()> {
        let at = batch.blocks.len();
        match kind {
            DEFINE => self.define(body)?,
            THREAD => {
                let thread = self.thread_base + body.u32()?.0;
                self.threads = self.threads.max(thread);
                batch.events.push((at, Event::Thread(thread)));
            }
            MAP => {
                let (address, body) = body.u64()?;
                let (length_bytes, body) = body.u64()?;
                let (executable, body) = body.u32()?;
                let (length, body) = body.u32()?;
                let name = String::from_utf8_lossy(body.bytes.get(..length as usize)?).into_owned();
                let executable = executable != 0;
                batch.events.push((at, Event::Map { address, length_bytes, executable, name }));
            }
            UNMAP => {
                let (address, body) = body.u64()?;
                let (length_bytes, _) = body.u64()?;
                batch.events.push((at, Event::Unmap { address, length_bytes }));
            }
            MARK => {
                let (begins, body) = body.u32()?;
                let name = String::from_utf8_lossy(body.bytes).into_owned();
                batch.events.push((at, Event::Mark { name, begins: begins != 0 }));
            }
            EXEC => self.exec = Some(body.u32()?.0),
            EXIT => self.exit_status = Some(body.u32()?.0 as i32),
            EXEC_FAILED => self.exec = None,
            _ => {}
        }
        Some(())
    }

    fn define(&mut self, body: Reader<'_>) -> Option<()> {
        let (number, body) = body.u32()?;
        let (continues, body) = body.u32()?;
        let (address, body) = body.u64()?;
        let (instructions, body) = body.u32()?;
        let (accesses, body) = body.u32()?;
        let (sizes, accesses_bytes) = body.bytes.split_at_checked(instructions as usize)?;
        let mut guarded = Vec::new();
        let mut list = Vec::new();
        for bytes in accesses_bytes.as_chunks::<6>().0 {
            let kind = match bytes[4] {
                0 => AccessKind::Load,
                1 => AccessKind::Store,
                _ => AccessKind::Modify,
            };
            list.push(Access {
                instruction: u16::from_le_bytes([bytes[0], bytes[1]]),
                size_bytes: u16::from_le_bytes([bytes[2], bytes[3]]),
                kind,
            });
            guarded.push(bytes[5] != 0);
        }
        // Runs are numbered in the order of their definition.
        if list.len() != accesses as usize || sizes.is_empty() || number as usize != self.runs.len()
        {
            return None;
        }
        if !guarded.contains(&true) {
            guarded.clear();
        }
        let accesses = list.len();
        let block =
            self.number(Block { address, instruction_sizes_bytes: sizes.to_vec(), accesses: list });
        let plain = continues == 0 && guarded.is_empty() && accesses < usize::from(NOT_PLAIN);
        self.plain_runs.push(PlainRun {
            block,
            instructions: u16::try_from(instructions).ok()?,
            accesses: if plain { accesses as u16 } else { NOT_PLAIN },
        });
        self.runs.push(Run { block, instructions, accesses, continues: continues != 0, guarded });
        Some(())
    }
}

/// Appends the `count` addresses at the front of `bytes`; `false` if there are not as many.
#[inline(always)]
fn append_addresses(addresses: &mut Vec<u64>, bytes: &[u8], count: usize) -> bool {
    if bytes.len() < 8 * count {
        return false;
    }
    addresses.reserve(count.max(4));
    let end = addresses.as_mut_ptr().wrapping_add(addresses.len()).cast::<u8>();
    // SAFETY: there is room for `count` and for four addresses, and `bytes` has as many as are
    // copied. Four at once, of which those that are not meant are overwritten later, is faster
    // than the right number. The recorder runs on x86, so the byte order is that of memory.
    unsafe {
        if count <= 4 && bytes.len() >= 32 {
            end.cast::<[u8; 32]>()
                .write_unaligned(bytes.as_ptr().cast::<[u8; 32]>().read_unaligned());
        } else {
            end.copy_from_nonoverlapping(bytes.as_ptr(), 8 * count);
        }
        addresses.set_len(addresses.len() + count);
    }
    true
}

/// Little-endian fields from the front of a slice.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn u32(self) -> Option<(u32, Self)> {
        let (field, bytes) = self.bytes.split_first_chunk()?;
        Some((u32::from_le_bytes(*field), Self { bytes }))
    }

    fn u64(self) -> Option<(u64, Self)> {
        let (field, bytes) = self.bytes.split_first_chunk()?;
        Some((u64::from_le_bytes(*field), Self { bytes }))
    }
}
