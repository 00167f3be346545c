//! The file of a state: a magic word, a checksum of what follows, a text that says what it is of,
//! and the bytes, compressed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{Damaged, Restorer, Saver, State};

const MAGIC: [u8; 8] = *b"mmulabS1";
/// Bytes of magic word and checksum.
const START: usize = 16;
/// Of zstd: the fastest of its ordinary ones. The others take longer than a boot saves.
const COMPRESSION: i32 = 1;

/// Why a state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    System {
        /// Of this file.
        path: PathBuf,
        /// By this.
        error: std::io::Error,
    },
    /// It is something else.
    #[error("{}: is no saved state; give a file that --save wrote", .0.display())]
    NoState(PathBuf),
    /// It is not what was written.
    #[error("{}: this saved state {damage}; save it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damaged,
    },
}

/// Passes bytes on and hashes them.
struct Hashed<W> {
    out: W,
    hash: Xxh3,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn write_to(file: File, header: &str, state: &dyn State) -> std::io::Result<()> {
    let mut out = Hashed { out: file, hash: Xxh3::new() };
    out.out.seek(SeekFrom::Start(START as u64))?;
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let mut compressed = zstd::Encoder::new(out, COMPRESSION)?;
    let mut saver = Saver::new(&mut compressed);
    state.save(&mut saver);
    saver.finish()?;
    let Hashed { out: mut file, hash } = compressed.finish()?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&MAGIC)?;
    file.write_all(&hash.digest().to_le_bytes())?;
    file.sync_all()
}

/// A name beside `path` for what will take its name, another one for each that writes there at
/// once.
pub fn unfinished_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{count}.part", std::process::id()));
    PathBuf::from(name)
}

/// Writes a state with a text that says what it is of. The file gets its name when it is complete.
///
/// # Errors
/// It cannot be written; nothing of it is left.
pub fn save(path: &Path, header: &str, state: &dyn State) -> std::io::Result<()> {
    let unfinished = unfinished_name(path);
    let written = File::create(&unfinished).and_then(|file| write_to(file, header, state));
    let named = written.and_then(|()| std::fs::rename(&unfinished, path));
    if named.is_err() {
        // What cannot be removed either is told by the error that there is.
        let _ = std::fs::remove_file(&unfinished);
    }
    named
}

/// A state that was read and is what was written.
pub struct SavedState {
    path: PathBuf,
    header: String,
    compressed: Vec<u8>,
}

impl SavedState {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is something else, or is damaged.
    pub fn read(path: &Path) -> Result<SavedState, FileError> {
        let failed = |error| FileError::System { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        let mut magic = Vec::new();
        (&file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(failed)?;
        if magic != MAGIC {
            return Err(FileError::NoState(path.to_owned()));
        }
        let mut body = Vec::new();
        (&file).read_to_end(&mut body).map_err(failed)?;
        let parts = || {
            let (checksum, body) = body.split_first_chunk()?;
            let right = u64::from_le_bytes(*checksum) == xxh3_64(body);
            let (length, body) = body.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (header, compressed) = body.split_at_checked(length)?;
            Some((str::from_utf8(header).ok().filter(|_| right)?, compressed))
        };
        let Some((header, compressed)) = parts() else {
            let damage = Damaged("is damaged");
            return Err(FileError::Damaged { path: path.to_owned(), damage });
        };
        Ok(SavedState {
            path: path.to_owned(),
            header: header.to_owned(),
            compressed: compressed.to_vec(),
        })
    }

    /// The text that says what it is of.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// Makes `state` what was saved, after `give` has [given](Restorer::give) what it refers to.
    ///
    /// # Errors
    /// It is of something else.
    pub fn restore(
        &self,
        state: &mut dyn State,
        give: impl FnOnce(&mut Restorer<'_>),
    ) -> Result<(), FileError> {
        let restored = || {
            let decoder = zstd::Decoder::new(&*self.compressed);
            let mut decoder = decoder.map_err(|_| Damaged("cannot be decompressed"))?;
            let mut restorer = Restorer::new(&mut decoder);
            give(&mut restorer);
            state.restore(&mut restorer)?;
            restorer.finish()
        };
        restored().map_err(|damage| FileError::Damaged { path: self.path.clone(), damage })
    }
}
