//! Recorded programs: what they executed, in order, whatever file it comes from.
//!
//! A program repeats its basic blocks, so the static part of a block (its instructions and where
//! they touch memory) is stored once in a [`BlockTable`]; the dynamic part is a sequence of block
//! numbers and data addresses, delivered a [`Batch`] at a time by a [`Source`].

mod block;
mod calls;
mod foreign;
mod mmt;
mod open;
mod pipe;
mod record;
mod schedule;
mod slice;
mod source;
mod text;
mod zipped;

pub use block::{Access, AccessKind, Block, BlockId, BlockTable};
pub use calls::{Calls, Change, Frame};
pub use mmt::{Information, MMT_VERSION, Metadata, MmtReader, MmtWriter, Termination, Totals};
pub use open::{OpenOptions, open, open_with};
pub use record::{LiveRecording, RecordOptions, Summary, record, record_live};
pub use schedule::{Cores, MOST_PROGRAMS, RoundRobin};
pub use slice::Slice;
pub use source::{Batch, CROSSING_BYTES, Event, LineCrossing, Source, TraceError};
pub use text::dump;
