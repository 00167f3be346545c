//! Traces of other programs, turned into blocks of one instruction each.
//!
//! `docs/foreign-traces.md` says what each format lacks and what is assumed instead.

mod champsim;
mod din;
mod drmemtrace;
mod lackey;
mod lines;

use std::collections::HashMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use crate::source::TAKE_PARTIAL;
use crate::{Access, AccessKind, Batch, Block, BlockId, BlockTable, Event, Source, TraceError};

pub(crate) use drmemtrace::unknown_version as unknown_drmemtrace;

/// Blocks in a batch: with their addresses they stay in a second-level cache.
const BATCH_BLOCKS: usize = 8192;
/// Accesses of one instruction; what is beyond belongs to the same instruction executed again.
const MAX_ACCESSES: usize = 256;

/// One executed instruction.
#[derive(Debug, Default)]
struct Instruction {
    address: u64,
    size_bytes: u8,
    /// All of instruction 0.
    accesses: Vec<Access>,
    addresses: Vec<u64>,
    /// Who executed it, from 1; 0 where the format does not say.
    thread: u32,
    /// When, in the format's units.
    time: u64,
}

impl Instruction {
    fn begin(&mut self, address: u64, size_bytes: u8) {
        self.address = address;
        self.size_bytes = size_bytes;
        self.accesses.clear();
        self.addresses.clear();
    }

    fn add(&mut self, kind: AccessKind, address: u64, size_bytes: u16) {
        self.accesses.push(Access { instruction: 0, size_bytes, kind });
        self.addresses.push(address);
    }

    /// Likewise; a store to what was just loaded makes one read-modify-write of both.
    fn add_merging(&mut self, kind: AccessKind, address: u64, size_bytes: u16) {
        if kind == AccessKind::Store
            && self.addresses.last() == Some(&address)
            && let Some(last) = self.accesses.last_mut()
            && (last.kind, last.size_bytes) == (AccessKind::Load, size_bytes)
        {
            last.kind = AccessKind::Modify;
        } else {
            self.add(kind, address, size_bytes);
        }
    }
}

/// Reads one format.
trait Records: Send {
    /// Reads the next instruction; `false` at the end.
    ///
    /// # Errors
    /// The place and the problem.
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, (String, String)>;
}

/// The reader for a stream of a format that is known by its first bytes; `None` if it is not.
pub(crate) fn recognise(
    path: &Path,
    mut stream: Box<dyn BufRead + Send>,
    start: &[u8],
    whole: bool,
    partial: bool,
) -> Result<Option<Box<dyn Source>>, TraceError> {
    let (format, records): (_, Box<dyn Records>) = if drmemtrace::matches(start) {
        ("drmemtrace", Box::new(drmemtrace::DrmemtraceReader::new(stream)))
    } else if lackey::matches(start) {
        ("Valgrind lackey", Box::new(lackey::LackeyReader::new(stream)))
    } else if din::matches(start) {
        ("Dinero din", Box::new(din::DinReader::new(stream)))
    } else if let Some(layout) = champsim::matches(start, whole) {
        ("ChampSim", Box::new(champsim::ChampSimReader::new(stream, layout)))
    } else {
        // A stream that cannot be read says so rather than being called unknown.
        stream.fill_buf().map_err(|error| TraceError::io(path, error))?;
        return Ok(None);
    };
    Ok(Some(Box::new(ForeignSource::new(path, format, records, partial))))
}

/// The reader for the files of several threads, each with its name and what it holds.
pub(crate) fn threads(
    path: &Path,
    files: Vec<(String, Box<dyn BufRead + Send>)>,
    partial: bool,
) -> Box<dyn Source> {
    let records = Box::new(drmemtrace::ThreadsReader::new(files));
    Box::new(ForeignSource::new(path, "drmemtrace", records, partial))
}

/// A foreign trace as a source.
struct ForeignSource {
    path: PathBuf,
    format: &'static str,
    records: Box<dyn Records>,
    partial: bool,
    truncation: Option<String>,
    ended: bool,
    instruction: Instruction,
    thread: u32,
    table: BlockTable,
    /// The blocks that begin at an address: one for each size and pattern of accesses seen there.
    at_address: HashMap<u64, Vec<BlockId>>,
}

impl ForeignSource {
    fn new(path: &Path, format: &'static str, records: Box<dyn Records>, partial: bool) -> Self {
        Self {
            path: path.to_owned(),
            format,
            records,
            partial,
            truncation: None,
            ended: false,
            instruction: Instruction::default(),
            thread: 0,
            table: BlockTable::default(),
            at_address: HashMap::new(),
        }
    }

    fn block(&mut self) -> BlockId {
        let Instruction { address, size_bytes, accesses, .. } = &self.instruction;
        let here = self.at_address.entry(*address).or_default();
        let known = here.iter().position(|&id| {
            let block = &self.table.blocks()[id as usize];
            block.instruction_sizes_bytes == [*size_bytes] && block.accesses == *accesses
        });
        match known {
            Some(place) => {
                // The commonest pattern comes to the front.
                here.swap(place, place / 2);
                here[place / 2]
            }
            None => {
                let id = self.table.push(Block {
                    address: *address,
                    instruction_sizes_bytes: vec![*size_bytes],
                    accesses: accesses.clone(),
                });
                here.push(id);
                id
            }
        }
    }
}

impl Source for ForeignSource {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while !self.ended && batch.blocks.len() < BATCH_BLOCKS {
            match self.records.next(&mut self.instruction) {
                Ok(true) => {
                    if self.instruction.thread != self.thread {
                        self.thread = self.instruction.thread;
                        batch.events.push((batch.blocks.len(), Event::Thread(self.thread)));
                    }
                    let block = self.block();
                    batch.blocks.push(block);
                    batch.addresses.extend_from_slice(&self.instruction.addresses);
                }
                Ok(false) => self.ended = true,
                Err((place, problem)) => {
                    self.ended = true;
                    if !self.partial {
                        // Nothing may be before it: a whole trace of a kind that is not read.
                        let problem = if self.table.blocks().is_empty() {
                            problem
                        } else {
                            format!("{problem}; {TAKE_PARTIAL}")
                        };
                        return Err(TraceError::damaged(&self.path, &place, &problem));
                    }
                    self.truncation = Some(format!("{place}: {problem}"));
                }
            }
        }
        batch.find_crossings(self.table.blocks());
        Ok(!batch.blocks.is_empty())
    }

    fn truncation(&self) -> Option<&str> {
        self.truncation.as_deref()
    }

    fn format(&self) -> &'static str {
        self.format
    }
}
