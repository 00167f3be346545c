//! Opens traces of every known format, told apart by content.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::foreign;
use crate::mmt::{MAGIC, MmtReader};
use crate::{Source, TraceError};

/// How much of a file is looked at to recognise its format.
const START_BYTES: u64 = 4096;

/// What unpacking an .xz file may need: the strongest usual setting needs a quarter of it.
const XZ_MEMORY_BYTES: u64 = 256 << 20;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

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
    let io = |error| TraceError::io(path, error);
    let mut file = File::open(path).map_err(io)?;
    let start = read_start(&mut file).map_err(io)?;
    if start.starts_with(&MAGIC) {
        return Ok(Box::new(MmtReader::open(path, options)?));
    }
    file.rewind().map_err(io)?;
    let (stream, start): (Box<dyn BufRead + Send>, _) = if start.starts_with(&XZ_MAGIC) {
        decompressed(path, file, xz_decoder)?
    } else if start.starts_with(&GZIP_MAGIC) {
        decompressed(path, file, |file| Ok(MultiGzDecoder::new(file)))?
    } else {
        (Box::new(BufReader::with_capacity(1 << 16, file)), start)
    };
    let whole = (start.len() as u64) < START_BYTES;
    if let Some(source) = foreign::recognise(path, stream, &start, whole, options.partial)? {
        return Ok(source);
    }
    let hint = if start.is_empty() {
        "; the file is empty"
    } else if start.starts_with(&MAGIC) {
        "; it is a compressed .mmt trace, which is read only uncompressed"
    } else if start.starts_with(&ZIP_MAGIC) {
        "; it may be a zip of drmemtrace, which is not read: convert it first"
    } else if start.starts_with(&ZSTD_MAGIC) {
        "; it is compressed by zstd: uncompress it first"
    } else if start.starts_with(&MAGIC[..4]) {
        "; it begins like a .mmt trace that was changed as if it were text"
    } else {
        ""
    };
    Err(TraceError::UnknownFormat { path: path.display().to_string(), hint: hint.into() })
}

fn read_start(stream: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    stream.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// Reads streams that stand one behind the other, and refuses those that need much memory.
fn xz_decoder(file: File) -> std::io::Result<XzDecoder<File>> {
    let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?;
    Ok(XzDecoder::new_stream(file, stream))
}

/// A decompressing stream, from its beginning, and what it begins with.
fn decompressed<D: Read + Send + 'static>(
    path: &Path,
    mut file: File,
    decoder: impl Fn(File) -> std::io::Result<D>,
) -> Result<(Box<dyn BufRead + Send>, Vec<u8>), TraceError> {
    let io = |error| TraceError::io(path, error);
    let mut first = decoder(file.try_clone().map_err(io)?).map_err(io)?;
    let start = read_start(&mut first).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::UnexpectedEof => "it is cut off".into(),
            _ => error.to_string(),
        };
        TraceError::damaged(path, "start of the compressed data", &problem)
    })?;
    file.rewind().map_err(io)?;
    Ok((Box::new(BufReader::with_capacity(1 << 16, decoder(file).map_err(io)?)), start))
}
