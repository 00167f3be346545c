//! A zip archive as one stream: its files one behind the other, as drmemtrace cuts a long trace.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use crate::TraceError;

/// The files of an archive in the order of its directory, of which one at a time is unpacked.
pub(crate) struct ZippedParts {
    file: File,
    parts: VecDeque<Part>,
    current: Option<Box<dyn Read + Send>>,
}

/// A file of the archive.
struct Part {
    offset_bytes: u64,
    packed_bytes: u64,
    is_deflated: bool,
}

impl ZippedParts {
    /// # Errors
    /// The archive's directory is damaged, or something in it is packed otherwise than drmemtrace
    /// does.
    pub(crate) fn new(path: &Path, file: File) -> Result<Self, TraceError> {
        let damaged =
            |problem: &str| TraceError::damaged(path, "directory of the zip archive", problem);
        let own = file.try_clone().map_err(|error| TraceError::io(path, error))?;
        let mut archive = ZipArchive::new(own).map_err(|error| damaged(&error.to_string()))?;
        let mut parts = VecDeque::new();
        for number in 0..archive.len() {
            let part = archive.by_index_raw(number).map_err(|error| damaged(&error.to_string()))?;
            let is_deflated = match part.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => return Err(damaged(&format!("{} is packed by {other}", part.name()))),
            };
            parts.push_back(Part {
                offset_bytes: part.data_start(),
                packed_bytes: part.compressed_size(),
                is_deflated,
            });
        }
        Ok(Self { file, parts, current: None })
    }
}

impl Read for ZippedParts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(current) = &mut self.current {
                let count = current.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            let Some(Part { offset_bytes, packed_bytes, is_deflated }) = self.parts.pop_front()
            else {
                return Ok(0);
            };
            self.file.seek(SeekFrom::Start(offset_bytes))?;
            let packed = self.file.try_clone()?.take(packed_bytes);
            self.current = Some(if is_deflated {
                Box::new(DeflateDecoder::new(packed))
            } else {
                Box::new(packed)
            });
        }
    }
}
