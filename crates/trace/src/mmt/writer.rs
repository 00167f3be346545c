//! Writes `.mmt` files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use super::codec::{Encoder, Layout, MAX_BLOCK_ACCESSES, Streams, put_varint, zigzag};
use super::container::{
    ChunkHeader, Conclusion, END_MAGIC, Ending, INDEX_MAGIC, MAGIC, MAX_ACCESSES, MAX_BLOCKS,
    MAX_CHUNK_ADDRESSES, MAX_CHUNK_NEW_BLOCKS, MAX_METADATA_BYTES, MMT_VERSION, Metadata, STREAMS,
    StreamLengths, Totals, seal,
};
use crate::{AccessKind, Batch, Block, BlockTable, Event, TraceError};

/// A chunk is closed at this many blocks or addresses: long enough that learning the program anew
/// costs little, short enough to be held in memory.
const CHUNK_BLOCKS: usize = 1 << 22;
const CHUNK_ADDRESSES: usize = 1 << 23;
/// Blocks looked at together: with the most accesses that a block may have they fit in a chunk.
const PIECE_BLOCKS: usize = (MAX_CHUNK_ADDRESSES - CHUNK_ADDRESSES) / MAX_BLOCK_ACCESSES;
/// Events beyond this many close a chunk too.
const CHUNK_EVENT_BYTES: usize = 8 << 20;
/// Longer than any path; with a chunk's other events it stays in the format's limit.
const MAX_NAME_BYTES: usize = 1 << 20;
const CHUNK_DEFINITION_BYTES: usize = 32 << 20;
const COMPRESSION_LEVEL: i32 = 3;

/// A chunk that is being filled.
#[derive(Default)]
struct Pending {
    blocks: Vec<u32>,
    addresses: Vec<u64>,
    instructions: u64,
    definitions: Vec<u8>,
    /// Number of accesses of each block in `definitions`.
    new_blocks: Vec<u32>,
    events: Vec<u8>,
    event_count: u32,
    /// Block before which the last event stands.
    last_event: usize,
}

impl Pending {
    fn clear(&mut self) {
        self.blocks.clear();
        self.addresses.clear();
        self.instructions = 0;
        self.definitions.clear();
        self.new_blocks.clear();
        self.events.clear();
        self.event_count = 0;
        self.last_event = 0;
    }
}

/// What the writer must know of a block to count its executions; or sums of that.
#[derive(Clone, Copy, Default)]
struct BlockSums {
    instructions: u64,
    loads: u64,
    stores: u64,
    modifies: u64,
}

impl BlockSums {
    fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.modifies += other.modifies;
    }
}

/// Writes a trace. Chunks are coded, compressed and written by a thread of its own.
///
/// A file that was not brought to its end with [`MmtWriter::finish`] has no index; readers call it
/// incomplete and can read its whole chunks.
pub struct MmtWriter {
    path: PathBuf,
    pending: Pending,
    sums: Vec<BlockSums>,
    last_block_end: u64,
    accesses_defined: usize,
    totals: Totals,
    command: Option<Vec<String>>,
    chunks: Option<SyncSender<Pending>>,
    /// Written chunks, whose memory is used again.
    written: Receiver<Pending>,
    worker: Option<JoinHandle<std::io::Result<ChunkFile>>>,
}

impl MmtWriter {
    /// Creates the file and writes its header.
    ///
    /// # Errors
    /// The file cannot be created or written, or the command line is longer than the format allows.
    pub fn create(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let io = |error| TraceError::io(path, error);
        let json = serde_json::to_vec(metadata).map_err(|error| io(error.into()))?;
        if json.len() > MAX_METADATA_BYTES {
            return Err(io(std::io::Error::other("the command line is too long to be stored")));
        }
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&MMT_VERSION.to_le_bytes());
        header.extend_from_slice(&(json.len() as u32).to_le_bytes());
        header.extend_from_slice(&json);
        seal(&mut header);
        let file = create_with_header(path, &header).map_err(io)?;

        let (sender, receiver) = sync_channel::<Pending>(1);
        let (written_sender, written) = channel();
        let mut chunk_file = ChunkFile::new(file, header.len() as u64);
        let worker = std::thread::Builder::new()
            .name("mmt-writer".into())
            .spawn(move || {
                for pending in receiver {
                    chunk_file.write(&pending)?;
                    // Nobody is there to take it when the writer ends.
                    let _ = written_sender.send(pending);
                }
                Ok(chunk_file)
            })
            .map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            pending: Pending::default(),
            sums: Vec::new(),
            last_block_end: 0,
            accesses_defined: 0,
            totals: Totals::default(),
            command: None,
            chunks: Some(sender),
            written,
            worker: Some(worker),
        })
    }

    /// Appends a batch; `table` is the one that its block numbers refer to, always the same.
    ///
    /// # Errors
    /// The file cannot be written, or a block breaks a limit of the format.
    pub fn write(&mut self, table: &BlockTable, batch: &Batch) -> Result<(), TraceError> {
        self.define(&table.blocks()[self.sums.len()..])?;
        let mut events = batch.events.iter().peekable();
        let (mut block, mut address) = (0, 0);
        while block < batch.blocks.len() {
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= block) {
                self.put_event(event)?;
            }
            // Up to the next event, and not so many that a chunk could become too long.
            let end = (block + PIECE_BLOCKS).min(batch.blocks.len());
            let end = events.peek().map_or(end, |(at, _)| end.min(*at));
            let piece = &batch.blocks[block..end];
            let mut totals = BlockSums::default();
            for &block in piece {
                totals.add(&self.sums[block as usize]);
            }
            let accesses = (totals.loads + totals.stores + totals.modifies) as usize;
            let addresses = &batch.addresses[address..address + accesses];
            self.pending.blocks.extend_from_slice(piece);
            self.pending.addresses.extend_from_slice(addresses);
            self.pending.instructions += totals.instructions;
            self.totals.loads += totals.loads;
            self.totals.stores += totals.stores;
            self.totals.modifies += totals.modifies;
            (block, address) = (end, address + accesses);
            if self.pending.blocks.len() >= CHUNK_BLOCKS
                || self.pending.addresses.len() >= CHUNK_ADDRESSES
            {
                self.close_chunk()?;
            }
        }
        for (_, event) in events {
            self.put_event(event)?;
        }
        Ok(())
    }

    /// Writes what is pending as a chunk, so that it survives whatever comes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        let pending = &self.pending;
        if pending.blocks.is_empty() && pending.events.is_empty() && pending.new_blocks.is_empty() {
            return Ok(());
        }
        self.close_chunk()
    }

    /// Notes that the process goes on with another program.
    pub fn set_command(&mut self, command: Vec<String>) {
        self.command = Some(command);
    }

    /// Instructions written so far.
    pub fn instructions(&self) -> u64 {
        self.totals.instructions + self.pending.instructions
    }

    /// Writes the last chunk and the index; only now the file is complete.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self, ending: Ending) -> Result<Totals, TraceError> {
        self.flush()?;
        self.chunks = None;
        let path = self.path.clone();
        self.totals.distinct_blocks = self.sums.len() as u64;
        let totals = self.totals;
        let conclusion = Conclusion { ending, totals, command: self.command.take() };
        self.join()
            .and_then(|mut file| file.finish(&conclusion))
            .map_err(|error| TraceError::io(&path, error))?;
        Ok(totals)
    }

    fn define(&mut self, blocks: &[Block]) -> Result<(), TraceError> {
        for block in blocks {
            self.accesses_defined += block.accesses.len();
            let allowed = block.accesses.len() <= MAX_BLOCK_ACCESSES
                && block.instruction_sizes_bytes.len() <= usize::from(u16::MAX)
                && self.sums.len() < MAX_BLOCKS
                && self.accesses_defined < MAX_ACCESSES;
            if !allowed {
                return Err(self.beyond_format("too many or too long blocks"));
            }
            let count =
                |kind| block.accesses.iter().filter(|access| access.kind == kind).count() as u64;
            self.sums.push(BlockSums {
                instructions: block.instruction_sizes_bytes.len() as u64,
                loads: count(AccessKind::Load),
                stores: count(AccessKind::Store),
                modifies: count(AccessKind::Modify),
            });
            self.last_block_end =
                put_definition(&mut self.pending.definitions, block, self.last_block_end);
            self.pending.new_blocks.push(block.accesses.len() as u32);
            if self.pending.definitions.len() >= CHUNK_DEFINITION_BYTES
                || self.pending.new_blocks.len() == MAX_CHUNK_NEW_BLOCKS
            {
                self.close_chunk()?;
            }
        }
        Ok(())
    }

    fn beyond_format(&self, what: &str) -> TraceError {
        let message = format!("{what}: the format cannot hold them");
        TraceError::io(&self.path, std::io::Error::other(message))
    }

    fn put_event(&mut self, event: &Event) -> Result<(), TraceError> {
        if matches!(event, Event::Map { name, .. } if name.len() > MAX_NAME_BYTES) {
            return Err(self.beyond_format("too long names of mappings"));
        }
        self.totals.events += 1;
        let pending = &mut self.pending;
        let stream = &mut pending.events;
        put_varint(stream, (pending.blocks.len() - pending.last_event) as u64);
        pending.last_event = pending.blocks.len();
        pending.event_count += 1;
        match event {
            Event::Thread(number) => {
                stream.push(0);
                put_varint(stream, u64::from(*number));
            }
            Event::Map { address, length_bytes, executable, name } => {
                stream.push(1 + u8::from(*executable));
                put_varint(stream, *address);
                put_varint(stream, *length_bytes);
                put_varint(stream, name.len() as u64);
                stream.extend_from_slice(name.as_bytes());
            }
            Event::Unmap { address, length_bytes } => {
                stream.push(3);
                put_varint(stream, *address);
                put_varint(stream, *length_bytes);
            }
        }
        if stream.len() >= CHUNK_EVENT_BYTES { self.close_chunk() } else { Ok(()) }
    }

    fn close_chunk(&mut self) -> Result<(), TraceError> {
        self.totals.instructions += self.pending.instructions;
        self.totals.blocks += self.pending.blocks.len() as u64;
        let mut fresh = self.written.try_recv().unwrap_or_default();
        fresh.clear();
        let pending = std::mem::replace(&mut self.pending, fresh);
        if self.chunks.as_ref().is_some_and(|chunks| chunks.send(pending).is_ok()) {
            return Ok(());
        }
        // The thread is gone, and its result says why.
        let error = self.join().err();
        let error = error.unwrap_or_else(|| std::io::Error::other("the writing thread stopped"));
        Err(TraceError::io(&self.path, error))
    }

    fn join(&mut self) -> std::io::Result<ChunkFile> {
        let result = self.worker.take().map(JoinHandle::join);
        match result {
            Some(Ok(result)) => result,
            _ => Err(std::io::Error::other("the writing thread stopped")),
        }
    }
}

impl Drop for MmtWriter {
    fn drop(&mut self) {
        // Unfinished: what was handed to the thread is still written; no index follows.
        self.chunks = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// Creates a file beside `path` that may take its name; `path` must be free or a regular file.
pub(crate) fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    if path.exists() && !path.is_file() {
        return Err(io::Error::other("is no regular file, as a trace must be; give another name"));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    Ok((File::create(&temporary)?, temporary))
}

/// Creates a file that has its name only once its header is in it: a recording that is killed at
/// that moment, or finds the disk full, leaves what was there before.
fn create_with_header(path: &Path, header: &[u8]) -> io::Result<File> {
    // A link stays a link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (mut file, temporary) = create_beside(&path)?;
    let written = file.write_all(header).and_then(|()| fs::rename(&temporary, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(file)
}

/// Appends a block's definition and returns where the block ends.
fn put_definition(stream: &mut Vec<u8>, block: &Block, last_block_end: u64) -> u64 {
    put_varint(stream, zigzag(block.address.wrapping_sub(last_block_end) as i64));
    put_varint(stream, block.instruction_sizes_bytes.len() as u64);
    stream.extend_from_slice(&block.instruction_sizes_bytes);
    put_varint(stream, block.accesses.len() as u64);
    let mut last_instruction = 0;
    for access in &block.accesses {
        let kind = match access.kind {
            AccessKind::Load => 0,
            AccessKind::Store => 1,
            AccessKind::Modify => 2,
        };
        let step = access.instruction.wrapping_sub(last_instruction);
        put_varint(stream, u64::from(step) << 2 | kind);
        put_varint(stream, u64::from(access.size_bytes));
        last_instruction = access.instruction;
    }
    let length: u64 = block.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
    block.address.wrapping_add(length)
}

/// The thread's side: codes chunks into the file and keeps the index.
struct ChunkFile {
    file: File,
    offset: u64,
    layout: Layout,
    encoder: Encoder,
    streams: Streams,
    compressor: zstd::bulk::Compressor<'static>,
    /// Offset and instructions of each chunk.
    index: Vec<(u64, u64)>,
}

impl ChunkFile {
    fn new(file: File, offset: u64) -> Self {
        Self {
            file,
            offset,
            layout: Layout::default(),
            encoder: Encoder::default(),
            streams: Streams::default(),
            compressor: zstd::bulk::Compressor::default(),
            index: Vec::new(),
        }
    }

    fn write(&mut self, pending: &Pending) -> std::io::Result<()> {
        for &accesses in &pending.new_blocks {
            self.layout.push(accesses as usize);
        }
        self.encoder.encode(&self.layout, &pending.blocks, &pending.addresses, &mut self.streams);
        self.compressor.set_compression_level(COMPRESSION_LEVEL)?;
        let mut body = Vec::new();
        let mut lengths = [StreamLengths::default(); STREAMS];
        let raw: [&[u8]; STREAMS] = [
            &pending.definitions,
            &pending.events,
            &self.streams.bases,
            &self.streams.block_tokens,
            &self.streams.block_escapes,
            &self.streams.address_tokens,
            &self.streams.payload,
        ];
        for (stream, lengths) in raw.iter().zip(&mut lengths) {
            let stored = self.compressor.compress(stream)?;
            body.extend_from_slice(&stored);
            *lengths =
                StreamLengths { raw_bytes: stream.len() as u32, stored_bytes: stored.len() as u32 };
        }
        let header = ChunkHeader {
            number: self.index.len() as u32,
            blocks: pending.blocks.len() as u32,
            addresses: pending.addresses.len() as u32,
            instructions: pending.instructions,
            new_blocks: pending.new_blocks.len() as u32,
            events: pending.event_count,
            streams: lengths,
            body_checksum: xxh3_64(&body),
        };
        let mut bytes = header.to_bytes();
        bytes.append(&mut body);
        self.file.write_all(&bytes)?;
        self.index.push((self.offset, pending.instructions));
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self, conclusion: &Conclusion) -> std::io::Result<()> {
        let json = serde_json::to_vec(conclusion)?;
        let mut index = Vec::new();
        for field in [INDEX_MAGIC, self.index.len() as u32, json.len() as u32] {
            index.extend_from_slice(&field.to_le_bytes());
        }
        index.extend_from_slice(&json);
        for &(offset, instructions) in &self.index {
            index.extend_from_slice(&offset.to_le_bytes());
            index.extend_from_slice(&instructions.to_le_bytes());
        }
        seal(&mut index);
        let mut footer = Vec::new();
        footer.extend_from_slice(&self.offset.to_le_bytes());
        footer.extend_from_slice(&(index.len() as u64).to_le_bytes());
        seal(&mut footer);
        footer.extend_from_slice(&END_MAGIC);
        index.extend_from_slice(&footer);
        self.file.write_all(&index)
    }
}
