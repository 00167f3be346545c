//! Writes `.mmt` files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use super::codec::{Encoder, Layout, MAX_BLOCK_ACCESSES, Streams, put_varint, zigzag};
use super::container::{
    ChunkHeader, Conclusion, END_MAGIC, INDEX_MAGIC, MAGIC, MAX_ACCESSES, MAX_BLOCKS,
    MAX_CHUNK_ADDRESSES, MAX_CHUNK_NEW_BLOCKS, MAX_METADATA_BYTES, MMT_VERSION, Metadata, STREAMS,
    StreamLengths, Termination, Totals, seal,
};
use super::fusion::{BlockFusion, FUSED_ACCESSES, FUSED_BLOCKS};
use crate::{AccessKind, Batch, Block, BlockId, BlockTable, Event, TraceError};

/// A chunk is closed at this many blocks or addresses: long enough that learning the program again
/// costs little, short enough to be held in memory.
const CHUNK_BLOCKS: usize = 1 << 22;
const CHUNK_ADDRESSES: usize = 1 << 23;
/// Blocks looked at together: with the most accesses that a block may have they fit in a chunk.
const PIECE_BLOCKS: usize = (MAX_CHUNK_ADDRESSES - CHUNK_ADDRESSES) / MAX_BLOCK_ACCESSES;
/// Events and definitions beyond this much close a chunk too.
const CHUNK_EVENT_BYTES: usize = 8 << 20;
const CHUNK_DEFINITION_BYTES: usize = 32 << 20;
const CHUNK_NEW_BLOCKS: usize = MAX_CHUNK_NEW_BLOCKS / 2;
/// Longer than any path; with a chunk's other events it stays in the format's limit.
const MAX_NAME_BYTES: usize = 1 << 20;
const COMPRESSION_LEVEL: i32 = 3;

/// A chunk that is being filled.
#[derive(Default)]
struct Pending {
    /// By the source's numbers.
    blocks: Vec<BlockId>,
    addresses: Vec<u64>,
    instructions: u64,
    new_blocks: Vec<Block>,
    /// At most as many bytes as the definitions of `new_blocks` take.
    definition_bytes: usize,
    /// Each with the index in `blocks` before which it happened.
    events: Vec<(usize, Event)>,
    /// At most as many bytes as the events take.
    event_bytes: usize,
}

impl Pending {
    fn clear(&mut self) {
        self.blocks.clear();
        self.addresses.clear();
        self.instructions = 0;
        self.new_blocks.clear();
        self.definition_bytes = 0;
        self.events.clear();
        self.event_bytes = 0;
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

/// Writes a trace. Chunks are coded, compressed and written by a thread of its own, which also
/// fuses blocks that are executed one after the other and are contiguous in memory: the file has
/// the same instructions and accesses in the same order, but in fewer blocks, with numbers of their
/// own.
///
/// A file that was not brought to its end with [`MmtWriter::finish`] has no index; readers call it
/// incomplete and can read its whole chunks.
pub struct MmtWriter {
    path: PathBuf,
    pending: Pending,
    sums: Vec<BlockSums>,
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
                for mut pending in receiver {
                    chunk_file.write(&mut pending)?;
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
            // Up to the next event, and few enough that no chunk can become too long.
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

    /// Notes that the process continues with another program.
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
    pub fn finish(mut self, termination: Termination) -> Result<Totals, TraceError> {
        self.flush()?;
        self.chunks = None;
        let (path, mut totals) = (self.path.clone(), self.totals);
        let command = self.command.take();
        self.join()
            .and_then(|mut file| {
                totals.blocks = file.blocks;
                totals.distinct_blocks = file.fusion.blocks().len() as u64;
                file.finish(&Conclusion { termination, totals, command })
            })
            .map_err(|error| TraceError::io(&path, error))?;
        Ok(totals)
    }

    fn define(&mut self, blocks: &[Block]) -> Result<(), TraceError> {
        for block in blocks {
            self.accesses_defined += block.accesses.len();
            let allowed = block.accesses.len() <= MAX_BLOCK_ACCESSES
                && block.instruction_sizes_bytes.len() <= usize::from(u16::MAX)
                && self.sums.len() < MAX_BLOCKS - FUSED_BLOCKS
                && self.accesses_defined < MAX_ACCESSES - FUSED_ACCESSES;
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
            self.pending.definition_bytes += most_definition_bytes(block);
            self.pending.new_blocks.push(block.clone());
            if self.pending.definition_bytes >= CHUNK_DEFINITION_BYTES
                || self.pending.new_blocks.len() == CHUNK_NEW_BLOCKS
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
        if matches!(event, Event::AddressSpace(_) | Event::Core(_)) {
            return Err(self.beyond_format("several programs"));
        }
        if name_of(event).len() > MAX_NAME_BYTES {
            return Err(self.beyond_format("too long names of mappings or regions"));
        }
        self.totals.events += 1;
        let pending = &mut self.pending;
        pending.event_bytes += most_event_bytes(event);
        pending.events.push((pending.blocks.len(), event.clone()));
        if pending.event_bytes >= CHUNK_EVENT_BYTES { self.close_chunk() } else { Ok(()) }
    }

    fn close_chunk(&mut self) -> Result<(), TraceError> {
        self.totals.instructions += self.pending.instructions;
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
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_file_name(format!(".{name}.{unique}"));
    Ok((File::create(&temporary)?, temporary))
}

/// Creates a file that has its name only once its header is in it: a recording that is killed at
/// that moment, or finds the disk full, leaves what was there before. As long as it is open it is
/// locked.
fn create_with_header(path: &Path, header: &[u8]) -> io::Result<File> {
    let path = behind_links(path);
    let (mut file, temporary) = create_beside(&path)?;
    let written = lock(&file)
        .and_then(|()| file.write_all(header))
        .and_then(|()| give_name(&temporary, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(file)
}

/// The file that a link leads to, there or not: a link stays a link.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path.pop();
        path.push(target);
    }
    path
}

/// Renames a locked file. A file that another writer has locked keeps the name, also when two try
/// at once: a free name is taken by a link, which fails where there is a file; who takes the place
/// of a file holds its lock, and it still has the name then.
fn give_name(temporary: &Path, path: &Path) -> io::Result<()> {
    loop {
        match File::open(path) {
            Ok(old) => {
                lock(&old)?;
                if fs::metadata(path).is_ok_and(|named| is_same(&named, &old)) {
                    return fs::rename(temporary, path);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match fs::hard_link(temporary, path) {
                    Ok(()) => return fs::remove_file(temporary),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    // A file system without links.
                    Err(_) => return fs::rename(temporary, path),
                }
            }
            // A file that may be replaced but not read.
            Err(_) => return fs::rename(temporary, path),
        }
    }
}

fn is_same(named: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|opened| (opened.dev(), opened.ino()) == (named.dev(), named.ino()))
}

/// Fails where another writer has the file at `path`.
pub(crate) fn check_unlocked(path: &Path) -> io::Result<()> {
    File::open(path).map_or(Ok(()), |file| lock(&file))
}

/// Keeps other writers away until the file is closed. A file system without locks keeps nobody
/// away.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
    {
        return Err(io::Error::other(
            "another mmulab writes there; wait for its end, or name another file",
        ));
    }
    Ok(())
}

/// The most that the definition of `block` can take: ten bytes for the longest number.
fn most_definition_bytes(block: &Block) -> usize {
    16 + block.instruction_sizes_bytes.len() + 6 * block.accesses.len()
}

/// The most that `event` can take.
fn most_event_bytes(event: &Event) -> usize {
    32 + name_of(event).len()
}

/// What is named by an event; empty where nothing is.
fn name_of(event: &Event) -> &str {
    match event {
        Event::Map { name, .. } | Event::Mark { name, .. } => name,
        Event::Thread(_) | Event::Unmap { .. } | Event::AddressSpace(_) | Event::Core(_) => "",
    }
}

/// Appends an event that happened `step` blocks after the one before it.
fn put_event(stream: &mut Vec<u8>, step: usize, event: &Event) {
    put_varint(stream, step as u64);
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
        Event::AddressSpace(_) | Event::Core(_) => unreachable!("refused before"),
        Event::Mark { name, begins } => {
            stream.push(4 + u8::from(*begins));
            put_varint(stream, name.len() as u64);
            stream.extend_from_slice(name.as_bytes());
        }
    }
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
    fusion: BlockFusion,
    /// The executed blocks of the chunk.
    executed: Vec<BlockId>,
    layout: Layout,
    last_block_end: u64,
    encoder: Encoder,
    streams: Streams,
    compressor: zstd::bulk::Compressor<'static>,
    /// Offset and instructions of each chunk.
    index: Vec<(u64, u64)>,
    /// Executed in all chunks.
    blocks: u64,
}

impl ChunkFile {
    fn new(file: File, offset: u64) -> Self {
        Self {
            file,
            offset,
            fusion: BlockFusion::default(),
            executed: Vec::new(),
            layout: Layout::default(),
            last_block_end: 0,
            encoder: Encoder::default(),
            streams: Streams::default(),
            compressor: zstd::bulk::Compressor::default(),
            index: Vec::new(),
            blocks: 0,
        }
    }

    fn write(&mut self, pending: &mut Pending) -> std::io::Result<()> {
        for block in pending.new_blocks.drain(..) {
            self.fusion.define(block);
        }
        let events = self.fuse(pending);
        let (mut definitions, defined_before) = (Vec::new(), self.layout.blocks());
        for block in &self.fusion.blocks()[defined_before..] {
            self.layout.push(&block.accesses);
            self.last_block_end = put_definition(&mut definitions, block, self.last_block_end);
        }
        self.encoder.encode(&self.layout, &self.executed, &pending.addresses, &mut self.streams);
        self.compressor.set_compression_level(COMPRESSION_LEVEL)?;
        let mut body = Vec::new();
        let mut lengths = [StreamLengths::default(); STREAMS];
        let raw: [&[u8]; STREAMS] = [
            &definitions,
            &events,
            &self.streams.bases,
            &self.streams.block_tokens,
            &self.streams.block_escapes,
            &self.streams.address_tokens,
            &self.streams.payload,
            &self.streams.crossings,
        ];
        for (stream, lengths) in raw.iter().zip(&mut lengths) {
            let stored = self.compressor.compress(stream)?;
            body.extend_from_slice(&stored);
            *lengths =
                StreamLengths { raw_bytes: stream.len() as u32, stored_bytes: stored.len() as u32 };
        }
        let header = ChunkHeader {
            number: self.index.len() as u32,
            blocks: self.executed.len() as u32,
            addresses: pending.addresses.len() as u32,
            instructions: pending.instructions,
            new_blocks: (self.layout.blocks() - defined_before) as u32,
            events: pending.events.len() as u32,
            streams: lengths,
            body_checksum: xxh3_64(&body),
        };
        let mut bytes = header.to_bytes();
        bytes.append(&mut body);
        self.file.write_all(&bytes)?;
        self.index.push((self.offset, pending.instructions));
        self.offset += bytes.len() as u64;
        self.blocks += self.executed.len() as u64;
        Ok(())
    }

    /// Makes `executed` of the pending blocks, fused but not across an event; gives the stream of
    /// events.
    fn fuse(&mut self, pending: &Pending) -> Vec<u8> {
        let (mut events, mut start, mut last_event) = (Vec::new(), 0, 0);
        self.fusion.begin_chunk();
        self.executed.clear();
        for (at, event) in &pending.events {
            self.fusion.fuse(&pending.blocks[start..*at], &mut self.executed);
            put_event(&mut events, self.executed.len() - last_event, event);
            (start, last_event) = (*at, self.executed.len());
        }
        self.fusion.fuse(&pending.blocks[start..], &mut self.executed);
        events
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
