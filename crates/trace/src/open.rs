//! Opens traces of every known format, told apart by content, packed or not, from files and pipes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::foreign;
use crate::mmt::{MAGIC, MmtReader};
use crate::pipe::Waiting;
use crate::zipped::ZippedParts;
use crate::{Source, TraceError};

/// How much of a file is looked at to recognise its format.
const START_BYTES: u64 = 4096;
const BUFFER_BYTES: usize = 1 << 16;

/// What unpacking an .xz file may need: the strongest usual setting needs a quarter of it.
const XZ_MEMORY_BYTES: u64 = 256 << 20;

const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";
/// Of the LZ4 Frame Format, 0x184d2204.
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// What a trace may be packed in. All readers continue with streams that are concatenated.
#[derive(Clone, Copy)]
enum Packing {
    Bzip2,
    Gzip,
    Xz,
    Zstd,
}

const PACKINGS: [(&[u8], Packing); 4] = [
    (b"BZh", Packing::Bzip2),
    (&[0x1f, 0x8b], Packing::Gzip),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Packing::Xz),
    (&[0x28, 0xb5, 0x2f, 0xfd], Packing::Zstd),
];

type Bytes = Box<dyn Read + Send>;

impl Packing {
    fn of(start: &[u8]) -> Option<Self> {
        PACKINGS.iter().find(|(magic, _)| start.starts_with(magic)).map(|&(_, packing)| packing)
    }

    fn unpack(self, packed: Bytes) -> io::Result<Bytes> {
        Ok(match self {
            Self::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?;
                Box::new(XzDecoder::new_stream(packed, stream))
            }
            // Refuses windows of more than 128 MB by itself.
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
        })
    }
}

/// How a trace is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Read an incomplete or damaged trace as far as it is whole, instead of refusing it.
    pub partial: bool,
    /// Asked ten times a second while a pipe has nothing to read; `false` ends the reading with an
    /// error.
    pub keep_waiting: fn() -> bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { partial: false, keep_waiting: || true }
    }
}

/// Opens a trace of any known format.
///
/// # Errors
/// The file cannot be read, is no trace, or is damaged or incomplete.
pub fn open(path: &Path) -> Result<Box<dyn Source>, TraceError> {
    open_with(path, &OpenOptions::default())
}

/// Opens a trace of any known format as `options` say. `path` may be a pipe, which is read once,
/// from its beginning to its end.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    if path.is_dir() {
        return open_threads(path, options);
    }
    let io = |error| TraceError::io(path, error);
    let mut file = Waiting::open(path, options.keep_waiting).map_err(io)?;
    let start = read_start(&mut file).map_err(io)?;
    if start.starts_with(&MAGIC)
        && let Some(file) = file.seekable()
    {
        return Ok(Box::new(MmtReader::from_file(path, file.map_err(io)?, options)?));
    }
    let zipped = if start.starts_with(&ZIP_MAGIC) { file.seekable() } else { None };
    let is_zipped = zipped.is_some();
    let packing = Packing::of(&start);
    let (mut stream, mut start) = begun(start, file);
    if packing.is_some() || zipped.is_some() {
        let mut unpacked: Bytes = match (packing, zipped) {
            (Some(packing), _) => packing.unpack(stream).map_err(io)?,
            (None, Some(file)) => Box::new(ZippedParts::new(path, file.map_err(io)?)?),
            (None, None) => stream,
        };
        let unpacked_start = read_start(&mut unpacked).map_err(|error| {
            TraceError::damaged(path, "start of the compressed data", &reading_problem(&error))
        })?;
        (stream, start) = begun(unpacked_start, unpacked);
    }
    if start.starts_with(&MAGIC) {
        let file = spooled(path, stream, options)?;
        return Ok(Box::new(MmtReader::from_file(path, file, options)?));
    }
    let whole = (start.len() as u64) < START_BYTES;
    let stream: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(BUFFER_BYTES, stream));
    if let Some(source) = foreign::recognise(path, stream, &start, whole, options.partial)? {
        return Ok(source);
    }
    let hint = if is_zipped {
        "what the zip archive holds is none".into()
    } else if start.is_empty() {
        "it is empty".into()
    } else if start.starts_with(&LZ4_MAGIC) {
        "it is compressed by lz4: expand it first".into()
    } else if start.starts_with(&ZIP_MAGIC) {
        "a zip archive is read from a file, not from a pipe".into()
    } else if start.starts_with(&MAGIC[..4]) {
        "it begins like a .mmt trace that was changed as if it were text".into()
    } else {
        foreign::unknown_drmemtrace(&start).unwrap_or_default()
    };
    let hint = if hint.is_empty() { hint } else { format!("; {hint}") };
    Err(TraceError::UnknownFormat { path: path.display().to_string(), hint })
}

/// How names of threads' files end.
const THREAD_ENDS: [&str; 6] =
    [".trace", ".trace.gz", ".trace.zip", ".trace.xz", ".trace.bz2", ".trace.zst"];

/// Opens a folder of drmemtrace: the files of its threads are in it, or in its folder `trace`.
fn open_threads(folder: &Path, options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let own = folder.join("trace");
    let within = if own.is_dir() { &own } else { folder };
    let io = |error| TraceError::io(within, error);
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(within).map_err(io)? {
        names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    // What is before the packing's name is the thread's.
    let mut threads: BTreeMap<&str, &str> = BTreeMap::new();
    for name in &names {
        let thread = THREAD_ENDS.iter().find_map(|end| name.strip_suffix(end));
        if let Some(other) = thread.and_then(|thread| threads.insert(thread, name)) {
            let problem = format!("{other} and {name} are the same thread's: remove one");
            return Err(TraceError::damaged(within, "its files", &problem));
        }
    }
    let is_left_out = |name: &&String| {
        name.strip_suffix(".trace.lz4").is_some_and(|thread| !threads.contains_key(thread))
    };
    if let Some(name) = names.iter().find(is_left_out) {
        let hint = "; it is compressed by lz4: expand it first".into();
        return Err(TraceError::UnknownFormat {
            path: within.join(name).display().to_string(),
            hint,
        });
    }
    let paths: Vec<PathBuf> = threads.values().map(|name| within.join(name)).collect();
    if paths.is_empty() {
        let hint = if folder.join("raw").is_dir() {
            "; it is a recording of drmemtrace that is not converted yet: \
             drrun -t drmemtrace -indir FOLDER -tool basic_counts"
        } else {
            "; it is a directory without files *.trace, *.trace.gz or *.trace.zip, or otherwise compressed ones"
        };
        let hint = hint.into();
        return Err(TraceError::UnknownFormat { path: folder.display().to_string(), hint });
    }
    let open = |path: PathBuf| {
        let io = |error| TraceError::io(&path, error);
        let mut file = File::open(&path).map_err(io)?;
        let start = read_start(&mut file).map_err(io)?;
        file.rewind().map_err(io)?;
        let stream: Bytes = match Packing::of(&start) {
            Some(packing) => packing.unpack(Box::new(file)).map_err(io)?,
            None if start.starts_with(&ZIP_MAGIC) => Box::new(ZippedParts::new(&path, file)?),
            None => Box::new(file),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stream: Box<dyn BufRead + Send> =
            Box::new(BufReader::with_capacity(BUFFER_BYTES, stream));
        Ok((name, stream))
    };
    let files = paths.into_iter().map(open).collect::<Result<Vec<_>, TraceError>>()?;
    Ok(foreign::threads(folder, files, options.partial))
}

/// What went wrong with reading, in a few words.
pub(crate) fn reading_problem(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the compressed file is cut off".into(),
        _ => error.to_string(),
    }
}

fn read_start(stream: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    stream.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// A stream of which the start was read already, from its beginning, and that start.
fn begun(start: Vec<u8>, rest: impl Read + Send + 'static) -> (Bytes, Vec<u8>) {
    (Box::new(Cursor::new(start.clone()).chain(rest)), start)
}

/// A .mmt trace that cannot be read out of order (packed, or in a pipe) as a file that can: its
/// index stands at its end. The file has no name and goes with the reader.
fn spooled(path: &Path, mut stream: Bytes, options: &OpenOptions) -> Result<File, TraceError> {
    let temporary = |error| TraceError::io(&std::env::temp_dir(), error);
    let mut file = tempfile::tempfile().map_err(temporary)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => io::Write::write_all(&mut file, &buffer[..length]).map_err(temporary)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The reader tells what is whole.
            Err(_) if options.partial => break,
            Err(error) => {
                return Err(TraceError::damaged(path, "packed trace", &reading_problem(&error)));
            }
        }
    }
    file.rewind().map_err(temporary)?;
    Ok(file)
}
