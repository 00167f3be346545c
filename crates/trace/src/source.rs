//! The dynamic part of a trace, and the interface that every reader implements.

use crate::{BlockId, BlockTable};

/// Something that happened between two blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// From here on, blocks belong to this thread (numbered from 1 in order of appearance).
    Thread(u32),
    /// `length_bytes` from `address` became mapped; `name` is a file, `[heap]`, `[stack]` or empty.
    Map {
        /// First byte.
        address: u64,
        /// Length.
        length_bytes: u64,
        /// Whether instructions may be fetched from it.
        executable: bool,
        /// What is mapped there.
        name: String,
    },
    /// `length_bytes` from `address` became unmapped.
    Unmap {
        /// First byte.
        address: u64,
        /// Length.
        length_bytes: u64,
    },
}

/// A short stretch of execution, decoded. Reused from call to call: it allocates only while it grows.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The executed blocks, in program order; each is in the source's table.
    pub blocks: Vec<BlockId>,
    /// The addresses of all accesses of those blocks, in program order.
    pub addresses: Vec<u64>,
    /// Events, each with the index in `blocks` before which it happened, ascending.
    pub events: Vec<(usize, Event)>,
}

impl Batch {
    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.addresses.clear();
        self.events.clear();
    }
}

/// Why a trace cannot be read (or read on). One line each: the file, the place, the mend.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's word.
        error: std::io::Error,
    },
}

/// A trace being read, from a file of any known format or from a running recording.
pub trait Source: Send {
    /// The blocks known so far; a batch refers only to these.
    fn table(&self) -> &BlockTable;

    /// Fills `batch` (cleared first) with the next stretch; `false` at the end of the trace.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read; what was delivered before stands.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError>;
}
