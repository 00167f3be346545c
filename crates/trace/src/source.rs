//! The dynamic part of a trace, and the interface that every reader implements.

use std::path::Path;

use crate::{Block, BlockId, BlockTable, Information};

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
    /// From here on, blocks belong to the program with this number, of several that take turns.
    AddressSpace(u32),
    /// From here on, blocks are executed on this core, of several. What runs on it follows as
    /// [`Event::AddressSpace`].
    Core(u32),
    /// The program said that a region of interest begins or ends here, for all of its threads.
    Mark {
        /// What it calls the region.
        name: String,
        /// Whether it begins.
        begins: bool,
    },
}

/// A short piece of execution, decoded. Reused from call to call: it allocates only while it grows.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The executed blocks, in program order; each is in the source's table.
    pub blocks: Vec<BlockId>,
    /// The addresses of all accesses of those blocks, in program order.
    pub addresses: Vec<u64>,
    /// The accesses that span a multiple of [`CROSSING_BYTES`], ascending. No others can span two
    /// lines, or pages, of that length or a multiple of it.
    pub crossings: Vec<LineCrossing>,
    /// Events, each with the index in `blocks` before which it happened, ascending.
    pub events: Vec<(usize, Event)>,
}

/// The shortest length of lines for which a batch tells the accesses that may span two.
pub const CROSSING_BYTES: u64 = 16;

/// An access whose first and last byte lie on either side of a multiple of [`CROSSING_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCrossing {
    /// Its place among the addresses of the batch.
    pub access: u32,
    /// What to add to its address for its last byte.
    pub last_byte: u16,
}

impl LineCrossing {
    /// Whether an access from `address` to `last_byte` behind it is one.
    pub(crate) fn is_at(address: u64, last_byte: u16) -> bool {
        (address ^ address.wrapping_add(last_byte.into())) >= CROSSING_BYTES
    }
}

impl Batch {
    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.addresses.clear();
        self.crossings.clear();
        self.events.clear();
    }

    /// Finds the crossings by looking at every access; `table` has the batch's blocks.
    pub fn find_crossings(&mut self, table: &[Block]) {
        self.crossings.clear();
        let accesses = self.blocks.iter().flat_map(|&block| &table[block as usize].accesses);
        let spanning =
            accesses.zip(&self.addresses).enumerate().filter_map(|(place, (access, &first))| {
                let crossing = LineCrossing { access: place as u32, last_byte: access.last_byte() };
                LineCrossing::is_at(first, crossing.last_byte).then_some(crossing)
            });
        self.crossings.extend(spanning);
    }
}

/// Why a trace cannot be read (or read on) or made. One line each: the file, the location in it,
/// what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{path}: {}", in_words(error))]
    Io {
        /// The file.
        path: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// The file does not hold what its format demands.
    #[error("{path}: {place}: {problem}")]
    Damaged {
        /// The file.
        path: String,
        /// Where in it: a chunk, a line, a record.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// The recording was killed, or the file's end is lost.
    #[error("{path}: {truncation}; {help}")]
    Incomplete {
        /// The file.
        path: String,
        /// What is missing and what is there.
        truncation: String,
        /// What to do.
        help: &'static str,
    },
    /// The file's content is of none of the known formats.
    #[error(
        "{path}: this is no trace of a known format (.mmt, drmemtrace, ChampSim, Valgrind lackey or \
         Dinero din){hint}"
    )]
    UnknownFormat {
        /// The file.
        path: String,
        /// What it seems to be, and what to do; or empty.
        hint: String,
    },
    /// A program that recording needs is missing.
    #[error("{what}; {help}")]
    NotInstalled {
        /// What is missing.
        what: String,
        /// How to get it.
        help: String,
    },
    /// The program to be recorded is not there.
    #[error("there is no program {program}; give a path or a name in PATH")]
    NoSuchProgram {
        /// Its name as given.
        program: String,
    },
    /// The program to be recorded is there, but Valgrind cannot run it.
    #[error("recording {program}: {problem}")]
    CannotBeRecorded {
        /// Its name as given.
        program: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The recording failed.
    #[error("recording {program}: {problem}")]
    Recording {
        /// The program to be recorded.
        program: String,
        /// What happened.
        problem: String,
    },
}

/// What the system says, without its number.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

impl TraceError {
    /// Whether the machine failed rather than that the input was bad: a full disk, for instance.
    pub fn is_failure(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Self::Io { error, .. } => {
                matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
                    || error.raw_os_error() == Some(libc::EIO)
            }
            Self::Recording { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), error }
    }

    pub(crate) fn damaged(path: &Path, place: &str, problem: &str) -> Self {
        Self::Damaged {
            path: path.display().to_string(),
            place: place.into(),
            problem: problem.into(),
        }
    }
}

/// What to do about a trace that is good up to some place.
pub(crate) const TAKE_PARTIAL: &str =
    "--partial takes what is before it (mmulab trace slice --partial writes it)";

/// A trace being read, from a file of any known format or from a running recording.
pub trait Source: Send {
    /// The blocks known so far; a batch refers only to these.
    fn table(&self) -> &BlockTable;

    /// Fills `batch` (cleared first) with the next piece; `false` at the end of the trace.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read; what was delivered before stands.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError>;

    /// The recorded program and its arguments, where the trace says.
    fn command(&self) -> &[String] {
        &[]
    }

    /// The recorded program's instruction set; empty where the trace does not say.
    fn instruction_set(&self) -> &str {
        ""
    }

    /// Why the trace ends before the recording did, for one that was opened as partial; known for
    /// certain only at the end.
    fn truncation(&self) -> Option<&str> {
        None
    }

    /// The name of the format that it is read from; empty for what is not read from a file.
    fn format(&self) -> &'static str {
        ""
    }

    /// How many programs take turns; 0 where it is one program's trace.
    fn programs(&self) -> usize {
        0
    }

    /// The number of the program to which the batch that was delivered last belongs.
    fn program(&self) -> usize {
        0
    }

    /// How many cores the programs run on.
    fn cores(&self) -> usize {
        1
    }

    /// What the trace says of itself; nothing where the only way to know is to read it all.
    fn information(&self) -> Option<&Information> {
        None
    }
}
