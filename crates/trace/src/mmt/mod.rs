//! The project's own format, `.mmt`; `docs/trace-format.md` specifies it.

mod codec;
mod container;
mod join;
mod reader;
mod writer;

pub(crate) use container::MAGIC;
pub use container::{Ending, Information, MMT_VERSION, Metadata, Totals};
pub use reader::MmtReader;
pub use writer::MmtWriter;
pub(crate) use writer::create_beside;
