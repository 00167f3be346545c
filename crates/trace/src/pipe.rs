//! Reading from pipes that may be silent for long, with a question now and then whether to go on
//! waiting.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How long a wait lasts before the question.
const WAIT_MILLISECONDS: i32 = 100;

/// A file, or a pipe's end that is read without blocking for longer than the caller wants.
pub(crate) struct Waiting {
    file: File,
    keep_waiting: fn() -> bool,
}

impl Waiting {
    /// Opens a file or a pipe. A named pipe that nobody writes to yet is waited for when it is
    /// read.
    pub(crate) fn open(path: &Path, keep_waiting: fn() -> bool) -> io::Result<Self> {
        let file =
            std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file, keep_waiting })
    }

    /// The file itself, if it can be read in any order.
    pub(crate) fn seekable(&mut self) -> Option<io::Result<File>> {
        io::Seek::rewind(&mut self.file).ok().map(|()| self.file.try_clone())
    }

    /// Whether there is something to read, or the end, within the time of a wait.
    fn is_ready(&self) -> bool {
        let mut asked =
            libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry, whose descriptor is open.
        unsafe { libc::poll(&raw mut asked, 1, WAIT_MILLISECONDS) > 0 }
    }
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_ready() {
                match self.file.read(buffer) {
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::Interrupted
                        ) => {}
                    read => return read,
                }
            }
            if !(self.keep_waiting)() {
                return Err(io::Error::other("interrupted while waiting for the pipe"));
            }
        }
    }
}
