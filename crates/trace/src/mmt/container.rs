//! What stands in an `.mmt` file besides the coded streams: header, chunk headers, index, footer.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::{AccessKind, Batch, BlockTable};

/// The first bytes of a file. A byte over 127 and both line ends show damage by text conversion.
pub(crate) const MAGIC: [u8; 8] = *b"\x89MMT\r\n\x1a\n";
/// The last bytes of a complete file.
pub(crate) const END_MAGIC: [u8; 8] = *b"MMT-END\n";
pub(crate) const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"chnk");
pub(crate) const INDEX_MAGIC: u32 = u32::from_le_bytes(*b"indx");
/// The version of the format that is written, and the only one that is read.
pub const MMT_VERSION: u32 = 3;

/// Limits that a reader may rely on, so that a damaged length cannot ask for much memory.
pub(crate) const MAX_METADATA_BYTES: usize = 16 << 20;
pub(crate) const MAX_CHUNK_BLOCKS: usize = 1 << 23;
pub(crate) const MAX_CHUNK_ADDRESSES: usize = 1 << 24;
pub(crate) const MAX_CHUNK_NEW_BLOCKS: usize = 1 << 20;
pub(crate) const MAX_BLOCKS: usize = 1 << 24;
pub(crate) const MAX_ACCESSES: usize = 1 << 26;
pub(crate) const MAX_DEFINITION_BYTES: usize = 64 << 20;
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Definitions, events, bases, block tokens, block escapes, address tokens, payload, crossings.
pub(crate) const STREAMS: usize = 8;
pub(crate) const CHUNK_HEADER_BYTES: usize = 4 + 4 + 4 + 4 + 8 + 4 + 4 + 8 * STREAMS + 8 + 8;
pub(crate) const INDEX_ENTRY_BYTES: usize = 8 + 8;
pub(crate) const FOOTER_BYTES: usize = 8 + 8 + 8 + 8;

/// What is known when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The recorded program and its arguments; of a process that went on with another program
    /// (exec) and was recorded to its end, the last one.
    pub command: Vec<String>,
    /// What made the trace.
    pub recorder: String,
    /// The instruction set, for instance `x86-64`.
    pub instruction_set: String,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// The program ended by itself with this exit code.
    Exited(i32),
    /// A signal with this number ended the program.
    Signalled(i32),
    /// The limit on instructions was reached.
    Limit,
    /// The user interrupted the recording.
    Interrupted,
    /// The trace was not made by running a program, or its end is not known.
    Unknown,
    /// The program replaced itself (`exec`) by one that was not recorded and ended with this exit
    /// code.
    Replaced(i32),
}

/// Sums over a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Instructions executed.
    pub instructions: u64,
    /// Blocks executed, as they stand in the file: those that the writer fused count as one.
    pub blocks: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// Modifies executed.
    pub modifies: u64,
    /// Blocks in the file's table, fused ones included.
    pub distinct_blocks: u64,
    /// Events.
    pub events: u64,
}

impl Totals {
    /// Adds a batch, whose blocks are in `table`.
    pub fn add(&mut self, table: &BlockTable, batch: &Batch) {
        for &id in &batch.blocks {
            let block = &table.blocks()[id as usize];
            self.instructions += block.instruction_sizes_bytes.len() as u64;
            for access in &block.accesses {
                *match access.kind {
                    AccessKind::Load => &mut self.loads,
                    AccessKind::Store => &mut self.stores,
                    AccessKind::Modify => &mut self.modifies,
                } += 1;
            }
        }
        self.blocks += batch.blocks.len() as u64;
        self.distinct_blocks = table.blocks().len() as u64;
        self.events += batch.events.len() as u64;
    }
}

/// What is known of a trace without replaying it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Information {
    /// What is known since the recording began.
    pub metadata: Metadata,
    /// Sums; of an incomplete trace only instructions and blocks of the whole chunks.
    pub totals: Totals,
    /// How the recording ended; nothing where the file is incomplete.
    pub termination: Option<Termination>,
    /// Number of whole chunks.
    pub chunks: u32,
    /// Size of the file.
    pub file_bytes: u64,
}

impl Information {
    /// Whether the recording was brought to its end.
    pub fn is_complete(&self) -> bool {
        self.termination.is_some()
    }

    /// Size on disk per executed instruction.
    pub fn bits_per_instruction(&self) -> f64 {
        8.0 * self.file_bytes as f64 / self.totals.instructions.max(1) as f64
    }
}

/// What is known at the end, as it stands in the index.
#[derive(Serialize, Deserialize)]
pub(crate) struct Conclusion {
    /// The name in files of format 3.
    #[serde(rename = "ending")]
    pub termination: Termination,
    pub totals: Totals,
    /// The last program that the process has loaded, if it was not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
}

/// Reads little-endian integers from the front of a slice.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }
}

/// Appends the checksum of what `bytes` holds.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let checksum = xxh3_64(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// The bytes before the checksum, if it is right.
pub(crate) fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_last_chunk()?;
    (xxh3_64(content) == u64::from_le_bytes(*checksum)).then_some(content)
}

/// The fixed part before a chunk's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub number: u32,
    pub blocks: u32,
    pub addresses: u32,
    pub instructions: u64,
    pub new_blocks: u32,
    pub events: u32,
    pub streams: [StreamLengths; STREAMS],
    pub body_checksum: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamLengths {
    pub raw_bytes: u32,
    pub stored_bytes: u32,
}

impl ChunkHeader {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES);
        for field in [CHUNK_MAGIC, self.number, self.blocks, self.addresses] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.instructions.to_le_bytes());
        for field in [self.new_blocks, self.events] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for stream in &self.streams {
            bytes.extend_from_slice(&stream.raw_bytes.to_le_bytes());
            bytes.extend_from_slice(&stream.stored_bytes.to_le_bytes());
        }
        bytes.extend_from_slice(&self.body_checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(unseal(bytes).ok_or("the checksum of its header does not match")?);
        let parsed = (|| {
            if fields.u32()? != CHUNK_MAGIC {
                return None;
            }
            let mut header = Self {
                number: fields.u32()?,
                blocks: fields.u32()?,
                addresses: fields.u32()?,
                instructions: fields.u64()?,
                new_blocks: fields.u32()?,
                events: fields.u32()?,
                ..Self::default()
            };
            for stream in &mut header.streams {
                stream.raw_bytes = fields.u32()?;
                stream.stored_bytes = fields.u32()?;
            }
            header.body_checksum = fields.u64()?;
            Some(header)
        })();
        let header = parsed.ok_or("it does not begin like a chunk")?;
        header.check_limits()?;
        Ok(header)
    }

    fn check_limits(&self) -> Result<(), &'static str> {
        let raw = |stream: usize| self.streams[stream].raw_bytes as usize;
        let plausible = self.blocks as usize <= MAX_CHUNK_BLOCKS
            && self.addresses as usize <= MAX_CHUNK_ADDRESSES
            && self.new_blocks as usize <= MAX_CHUNK_NEW_BLOCKS
            && raw(0) <= MAX_DEFINITION_BYTES
            && raw(1) <= MAX_EVENT_BYTES
            && raw(2) <= MAX_DEFINITION_BYTES
            && raw(3) <= MAX_CHUNK_BLOCKS / 4
            && raw(4) <= MAX_CHUNK_BLOCKS * 5
            && raw(5) <= MAX_CHUNK_ADDRESSES / 2
            && raw(6) <= MAX_CHUNK_ADDRESSES * 8
            && raw(7) <= MAX_CHUNK_ADDRESSES;
        if plausible { Ok(()) } else { Err("its header gives impossible lengths") }
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| u64::from(stream.stored_bytes)).sum()
    }
}
