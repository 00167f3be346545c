//! Reads `.mmt` files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::codec::{Decoder, Layout, MAX_BLOCK_ACCESSES, PAYLOAD_START, take_varint, unzigzag};
use super::container::{
    CHUNK_HEADER_BYTES, ChunkHeader, Conclusion, END_MAGIC, FOOTER_BYTES, Fields,
    INDEX_ENTRY_BYTES, INDEX_MAGIC, Information, MAGIC, MAX_ACCESSES, MAX_BLOCKS,
    MAX_METADATA_BYTES, MMT_VERSION, Metadata, StreamLengths, Termination, Totals, unseal,
};
use crate::source::TAKE_PARTIAL;
use crate::{Access, AccessKind, Batch, Block, BlockTable, Event, OpenOptions, Source, TraceError};

/// Blocks in a batch: with their addresses they stay in a second-level cache.
const BATCH_BLOCKS: usize = 2048;

/// Reads a trace from its first chunk to its last.
pub struct MmtReader {
    path: PathBuf,
    file: File,
    information: Information,
    chunk_offsets: Vec<u64>,
    next_chunk: usize,
    /// Whether damage ends the trace instead of being an error.
    partial: bool,
    /// Why the trace ends early.
    truncation: Option<String>,
    table: BlockTable,
    layout: Layout,
    last_block_end: u64,
    decoder: Decoder,
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    /// Events of the chunk, with the index of the block in it.
    events: VecDeque<(usize, Event)>,
}

impl MmtReader {
    /// Opens a trace; with `options.partial` also one that is incomplete or damaged.
    ///
    /// # Errors
    /// The file cannot be read, is no such trace or, without `partial`, is incomplete.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| TraceError::io(path, error))?;
        Self::from_file(path, file, options)
    }

    /// The same for a file that is open already and stands at its beginning; `path` names it in
    /// errors.
    pub(crate) fn from_file(
        path: &Path,
        mut file: File,
        options: &OpenOptions,
    ) -> Result<Self, TraceError> {
        let io = |error| TraceError::io(path, error);
        let damaged = |problem: &str| {
            TraceError::damaged(path, "header", &format!("{problem}; record it again"))
        };
        let file_bytes = file.metadata().map_err(io)?.len();

        let mut start = [0; 16];
        file.read_exact(&mut start).map_err(|_| damaged("the file is too short for a trace"))?;
        let mut fields = Fields(&start[MAGIC.len()..]);
        let (version, length) = (fields.u32().unwrap_or(0), fields.u32().unwrap_or(0) as usize);
        if start[..MAGIC.len()] != MAGIC {
            return Err(TraceError::damaged(path, "header", "this is no .mmt trace"));
        }
        if version != MMT_VERSION {
            return Err(damaged(&format!(
                "it is written in version {version} of the format and this mmulab reads version {MMT_VERSION}"
            )));
        }
        if length > MAX_METADATA_BYTES || (length + 24) as u64 > file_bytes {
            return Err(damaged("its length is beyond the end of the file"));
        }
        let mut header = start.to_vec();
        header.resize(start.len() + length + 8, 0);
        file.read_exact(&mut header[start.len()..]).map_err(io)?;
        let content = unseal(&header).ok_or_else(|| damaged("the checksum does not match"))?;
        let metadata: Metadata = serde_json::from_slice(&content[start.len()..])
            .map_err(|error| damaged(&error.to_string()))?;

        let mut reader = Self {
            path: path.to_owned(),
            file,
            information: Information {
                metadata,
                totals: Totals::default(),
                termination: None,
                chunks: 0,
                file_bytes,
            },
            chunk_offsets: Vec::new(),
            next_chunk: 0,
            partial: options.partial,
            truncation: None,
            table: BlockTable::default(),
            layout: Layout::default(),
            last_block_end: 0,
            decoder: Decoder::default(),
            decompressor: zstd::bulk::Decompressor::new().map_err(io)?,
            stored: Vec::new(),
            events: VecDeque::new(),
        };
        match reader.read_index() {
            Ok(()) => {}
            Err(problem) => {
                let place = reader.scan_chunks(header.len() as u64)?;
                let instructions = reader.information.totals.instructions;
                let chunks = reader.chunk_offsets.len();
                let cut = format!(
                    "the trace is incomplete ({problem}): {place}; whole are {chunks} chunks with \
                     {instructions} instructions"
                );
                if !options.partial {
                    return Err(TraceError::Incomplete {
                        path: path.display().to_string(),
                        truncation: cut,
                        help: if instructions == 0 {
                            "record it again"
                        } else {
                            "--partial reads those (mmulab trace slice --partial writes them)"
                        },
                    });
                }
                reader.truncation = Some(cut);
            }
        }
        reader.information.chunks = reader.chunk_offsets.len() as u32;
        Ok(reader)
    }

    /// What is known without replaying.
    pub fn information(&self) -> &Information {
        &self.information
    }

    fn read_index(&mut self) -> Result<(), &'static str> {
        const UNREADABLE: &str = "it cannot be read";
        let file_bytes = self.information.file_bytes;
        let footer_offset =
            file_bytes.checked_sub(FOOTER_BYTES as u64).ok_or("it has no index at its end")?;
        let mut footer = [0; FOOTER_BYTES];
        self.file.seek(SeekFrom::Start(footer_offset)).map_err(|_| UNREADABLE)?;
        self.file.read_exact(&mut footer).map_err(|_| UNREADABLE)?;
        let (footer, end) = footer.split_at(FOOTER_BYTES - END_MAGIC.len());
        if end != END_MAGIC {
            return Err("it has no index at its end");
        }
        let mut fields = Fields(unseal(footer).ok_or("the checksum of its footer does not match")?);
        let offset = fields.u64().unwrap_or(0);
        let length = fields.u64().unwrap_or(0);
        if offset.checked_add(length) != Some(footer_offset) {
            return Err("its footer gives impossible lengths");
        }
        let mut index = Vec::new();
        self.file.seek(SeekFrom::Start(offset)).map_err(|_| UNREADABLE)?;
        (&self.file).take(length).read_to_end(&mut index).map_err(|_| UNREADABLE)?;
        let content = unseal(&index).ok_or("the checksum of its index does not match")?;
        let parsed = (|| {
            let mut fields = Fields(content);
            let (magic, chunks, length) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let (json, entries) = fields.0.split_at_checked(length as usize)?;
            let conclusion: Conclusion = serde_json::from_slice(json).ok()?;
            let plausible = magic == INDEX_MAGIC
                && entries.len() == (chunks as usize).checked_mul(INDEX_ENTRY_BYTES)?;
            plausible.then_some((conclusion, entries))
        })();
        let (conclusion, entries) = parsed.ok_or("its index makes no sense")?;
        self.information.totals = conclusion.totals;
        self.information.termination = Some(conclusion.termination);
        if let Some(command) = conclusion.command {
            self.information.metadata.command = command;
        }
        for entry in entries.as_chunks::<INDEX_ENTRY_BYTES>().0 {
            self.chunk_offsets.push(Fields(entry).u64().unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Finds the whole chunks of a file without index; says where the file ends.
    fn scan_chunks(&mut self, first_chunk: u64) -> Result<String, TraceError> {
        let mut offset = first_chunk;
        loop {
            let number = self.chunk_offsets.len();
            let left = self.information.file_bytes.saturating_sub(offset);
            if left == 0 {
                return Ok(format!("it ends where chunk {number} or the index should begin"));
            }
            let header = match self.read_chunk_header(offset, number as u32) {
                Ok(header) => header,
                Err(problem) => return Ok(format!("chunk {number}: {problem}")),
            };
            let length = CHUNK_HEADER_BYTES as u64 + header.body_bytes();
            if length > left {
                return Ok(format!("it ends inside chunk {number}"));
            }
            self.chunk_offsets.push(offset);
            self.information.totals.instructions += header.instructions;
            self.information.totals.blocks += u64::from(header.blocks);
            self.information.totals.distinct_blocks += u64::from(header.new_blocks);
            self.information.totals.events += u64::from(header.events);
            offset += length;
        }
    }

    fn read_chunk_header(&mut self, offset: u64, number: u32) -> Result<ChunkHeader, &'static str> {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|_| "the file ends inside its header")?;
        let header = ChunkHeader::from_bytes(&bytes)?;
        if header.number == number { Ok(header) } else { Err("another chunk stands in its place") }
    }

    /// Reads the header of chunk `number`, and its stored streams into `self.stored`.
    fn read_chunk(&mut self, number: usize) -> Result<ChunkHeader, &'static str> {
        let offset = self.chunk_offsets[number];
        let header = self.read_chunk_header(offset, number as u32)?;
        if header.body_bytes() > self.information.file_bytes {
            return Err("the file ends inside it");
        }
        self.stored.resize(header.body_bytes() as usize, 0);
        self.file.read_exact(&mut self.stored).map_err(|_| "the file ends inside it")?;
        if xxh3_64(&self.stored) != header.body_checksum {
            return Err("its checksum does not match");
        }
        Ok(header)
    }

    /// All events of the trace, without decoding the rest: what was mapped, and which threads ran.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn all_events(&mut self) -> Result<Vec<Event>, TraceError> {
        let mut events = Vec::new();
        for number in 0..self.chunk_offsets.len() {
            let read = self.chunk_events(number);
            let damaged =
                |problem| TraceError::damaged(&self.path, &format!("chunk {number}"), problem);
            events.extend(read.map_err(damaged)?.into_iter().map(|(_, event)| event));
        }
        Ok(events)
    }

    fn chunk_events(&mut self, number: usize) -> Result<VecDeque<(usize, Event)>, &'static str> {
        let header = self.read_chunk(number)?;
        let [definitions, events, ..] = header.streams;
        let stored =
            &self.stored[definitions.stored_bytes as usize..][..events.stored_bytes as usize];
        let mut stream = Vec::new();
        decompress(&mut self.decompressor, stored, events, &mut stream, 0)?;
        read_events(&stream, &header)
    }

    /// Reads chunk `number` and makes ready to decode it.
    fn load_chunk(&mut self, number: usize) -> Result<(), &'static str> {
        let header = self.read_chunk(number)?;
        let mut definitions = Vec::new();
        let mut events = Vec::new();
        let streams = self.decoder.streams();
        let targets = [
            &mut definitions,
            &mut events,
            &mut streams.bases,
            &mut streams.block_tokens,
            &mut streams.block_escapes,
            &mut streams.address_tokens,
            &mut streams.payload,
            &mut streams.crossings,
        ];
        let mut stored = self.stored.as_slice();
        let starts = [0, 0, 0, 0, 0, 0, PAYLOAD_START, 0];
        for ((target, lengths), start) in targets.into_iter().zip(&header.streams).zip(starts) {
            let (stream, rest) = stored.split_at(lengths.stored_bytes as usize);
            stored = rest;
            decompress(&mut self.decompressor, stream, *lengths, target, start)?;
        }
        self.define(&definitions, header.new_blocks)?;
        self.events = read_events(&events, &header)?;
        self.decoder.start(&self.layout, header.blocks as usize, header.addresses as usize)
    }

    fn define(&mut self, stream: &[u8], count: u32) -> Result<(), &'static str> {
        let mut position = 0;
        for _ in 0..count {
            let block = take_definition(stream, &mut position, &mut self.last_block_end)
                .ok_or("the definition of a block makes no sense")?;
            self.layout.push(&block.accesses);
            self.table.push(block);
            if self.layout.blocks() > MAX_BLOCKS || self.layout.accesses() >= MAX_ACCESSES {
                return Err("it defines more blocks than a trace may have");
            }
        }
        if position == stream.len() { Ok(()) } else { Err("it defines more blocks than it says") }
    }

    /// The error that names the chunk; or, where damage was asked to end the trace, that end.
    fn refuse(&mut self, chunk: usize, problem: &str) -> Result<bool, TraceError> {
        let is_first = chunk == 0 && self.decoder.blocks_done() == 0;
        self.decoder.stop();
        self.events.clear();
        if self.partial {
            self.truncation.get_or_insert_with(|| format!("chunk {chunk}: {problem}"));
            self.next_chunk = self.chunk_offsets.len();
            return Ok(false);
        }
        let mend = if is_first { "record it again" } else { TAKE_PARTIAL };
        let problem = format!("{problem}; {mend}");
        Err(TraceError::damaged(&self.path, &format!("chunk {chunk}"), &problem))
    }
}

impl Source for MmtReader {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while self.decoder.blocks_left() == 0 && self.events.is_empty() {
            if self.next_chunk == self.chunk_offsets.len() {
                return Ok(false);
            }
            self.next_chunk += 1;
            if let Err(problem) = self.load_chunk(self.next_chunk - 1) {
                // A damaged chunk must not be skipped by asking again.
                let chunk = std::mem::replace(&mut self.next_chunk, self.chunk_offsets.len()) - 1;
                return self.refuse(chunk, problem);
            }
        }
        let first = self.decoder.blocks_done();
        if let Err(problem) = self.decoder.decode(&self.layout, BATCH_BLOCKS, batch) {
            batch.clear();
            let chunk = std::mem::replace(&mut self.next_chunk, self.chunk_offsets.len()) - 1;
            return self.refuse(chunk, problem);
        }
        let end = self.decoder.blocks_done();
        let last = self.decoder.blocks_left() == 0;
        while self.events.front().is_some_and(|(at, _)| *at < end || last) {
            batch.events.extend(self.events.pop_front().map(|(at, event)| (at - first, event)));
        }
        Ok(true)
    }

    fn command(&self) -> &[String] {
        &self.information.metadata.command
    }

    fn instruction_set(&self) -> &str {
        &self.information.metadata.instruction_set
    }

    fn truncation(&self) -> Option<&str> {
        self.truncation.as_deref()
    }

    fn format(&self) -> &'static str {
        ".mmt"
    }

    fn information(&self) -> Option<&Information> {
        Some(&self.information)
    }
}

/// Decompresses a stream into `room` from `start` on.
fn decompress(
    decompressor: &mut zstd::bulk::Decompressor<'_>,
    stored: &[u8],
    lengths: StreamLengths,
    room: &mut Vec<u8>,
    start: usize,
) -> Result<(), &'static str> {
    room.resize(start + lengths.raw_bytes as usize, 0);
    let length = decompressor
        .decompress_to_buffer(stored, &mut room[start..])
        .map_err(|_| "a stream cannot be decompressed")?;
    if length == lengths.raw_bytes as usize { Ok(()) } else { Err("a stream has the wrong length") }
}

/// A chunk's events, each with the index in the chunk of the block before which it happened.
fn read_events(
    stream: &[u8],
    header: &ChunkHeader,
) -> Result<VecDeque<(usize, Event)>, &'static str> {
    let mut events = VecDeque::new();
    let mut position = 0;
    let mut block = 0usize;
    for _ in 0..header.events {
        let (step, event) = take_event(stream, &mut position).ok_or("an event makes no sense")?;
        block = block.saturating_add(step);
        if block > header.blocks as usize {
            return Err("an event stands after the last block");
        }
        events.push_back((block, event));
    }
    if position == stream.len() { Ok(events) } else { Err("it has more events than it says") }
}

fn take_definition(stream: &[u8], position: &mut usize, last_block_end: &mut u64) -> Option<Block> {
    let step = unzigzag(take_varint(stream, position)?);
    let address = last_block_end.wrapping_add(step as u64);
    let instructions = usize::try_from(take_varint(stream, position)?).ok()?;
    if instructions > usize::from(u16::MAX) {
        return None;
    }
    let sizes = stream.get(*position..position.checked_add(instructions)?)?.to_vec();
    *position += instructions;
    let length: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
    let count = usize::try_from(take_varint(stream, position)?).ok()?;
    if count > MAX_BLOCK_ACCESSES {
        return None;
    }
    let mut accesses = Vec::with_capacity(count);
    let mut instruction = 0u16;
    for _ in 0..count {
        let step = take_varint(stream, position)?;
        let kind = match step & 3 {
            0 => AccessKind::Load,
            1 => AccessKind::Store,
            2 => AccessKind::Modify,
            _ => return None,
        };
        instruction = instruction.checked_add(u16::try_from(step >> 2).ok()?)?;
        if usize::from(instruction) >= instructions {
            return None;
        }
        let size_bytes = u16::try_from(take_varint(stream, position)?).ok()?;
        accesses.push(Access { instruction, size_bytes, kind });
    }
    *last_block_end = address.wrapping_add(length);
    Some(Block { address, instruction_sizes_bytes: sizes, accesses })
}

fn take_event(stream: &[u8], position: &mut usize) -> Option<(usize, Event)> {
    let step = usize::try_from(take_varint(stream, position)?).ok()?;
    let kind = *stream.get(*position)?;
    *position += 1;
    let event = match kind {
        0 => Event::Thread(u32::try_from(take_varint(stream, position)?).ok()?),
        1 | 2 => {
            let address = take_varint(stream, position)?;
            let length_bytes = take_varint(stream, position)?;
            let name = take_name(stream, position)?;
            Event::Map { address, length_bytes, executable: kind == 2, name }
        }
        3 => Event::Unmap {
            address: take_varint(stream, position)?,
            length_bytes: take_varint(stream, position)?,
        },
        4 | 5 => Event::Mark { name: take_name(stream, position)?, begins: kind == 5 },
        _ => return None,
    };
    Some((step, event))
}

fn take_name(stream: &[u8], position: &mut usize) -> Option<String> {
    let length = usize::try_from(take_varint(stream, position)?).ok()?;
    let name = stream.get(*position..position.checked_add(length)?)?;
    *position += length;
    String::from_utf8(name.to_vec()).ok()
}

impl Termination {
    /// One line for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Exited(code) => format!("the program ended with exit code {code}"),
            Self::Signalled(signal) => format!("signal {signal} ended the program"),
            Self::Limit => "the limit on instructions was reached".into(),
            Self::Interrupted => "the recording was interrupted".into(),
            Self::Unknown => "not known".into(),
            Self::Replaced(code) => format!(
                "the program replaced itself by another one, which was not recorded (see \
                 --follow-children) and ended with exit code {code}"
            ),
        }
    }

    /// One word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Signalled(_) => "signalled",
            Self::Limit => "limit",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
            Self::Replaced(_) => "replaced",
        }
    }

    /// The exit status that a shell would tell of it: 128 + N for signal N, 130 for an interrupt;
    /// none where nobody knows the end.
    pub fn exit_status(&self) -> Option<i32> {
        match self {
            Self::Exited(code) | Self::Replaced(code) => Some(*code),
            Self::Signalled(signal) => Some(128 + signal),
            Self::Interrupted => Some(128 + libc::SIGINT),
            Self::Limit => Some(0),
            Self::Unknown => None,
        }
    }
}
