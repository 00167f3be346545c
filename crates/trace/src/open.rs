//! Opens traces of every known format, told apart by content.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::mmt::{MAGIC, MmtReader};
use crate::{Source, TraceError};

/// How a trace is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Read an incomplete or damaged trace as far as it is whole, instead of refusing it.
    pub partial: bool,
}

/// Opens a trace of any known format.
///
/// # Errors
/// The file cannot be read, is no trace, or is damaged or incomplete.
pub fn open(path: &Path) -> Result<Box<dyn Source>, TraceError> {
    open_with(path, &OpenOptions::default())
}

/// Opens a trace of any known format as `options` say.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut start))
        .map_err(|error| TraceError::io(path, error))?;
    if start.starts_with(&MAGIC) {
        return Ok(Box::new(MmtReader::open(path, options)?));
    }
    let hint = String::new();
    Err(TraceError::UnknownFormat { path: path.display().to_string(), hint })
}
