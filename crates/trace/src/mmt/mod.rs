//! The project's own format, `.mmt`; `docs/trace-format.md` specifies it.

mod codec;
mod container;
mod fusion;
mod reader;
mod writer;

pub(crate) use container::MAGIC;
pub use container::{Information, MMT_VERSION, Metadata, Termination, Totals};
pub use reader::MmtReader;
pub use writer::MmtWriter;
pub(crate) use writer::{check_unlocked, create_beside};
