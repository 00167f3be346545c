//! The bytes of a state: little-endian numbers one after the other.

use std::any::Any;
use std::io::{Read, Write};

const BUFFER_BYTES: usize = 1 << 16;

/// The bytes are not what was expected. The text continues "the file ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(pub &'static str);

/// Takes the bytes of a state.
pub struct Saver<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    failed: Option<std::io::Error>,
}

impl<'a> Saver<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Saver<'a> {
        Saver { out, buffer: Vec::with_capacity(BUFFER_BYTES), failed: None }
    }

    /// Takes some bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the number of elements that follow.
    pub(crate) fn put_length(&mut self, length: usize) {
        self.put(&(length as u64).to_le_bytes());
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }
}

/// Gives the bytes of a state.
pub struct Restorer<'a> {
    input: &'a mut dyn Read,
    buffer: Vec<u8>,
    position: usize,
    given: Vec<Box<dyn Any>>,
}

impl<'a> Restorer<'a> {
    /// Reads from `input`.
    pub fn new(input: &'a mut dyn Read) -> Restorer<'a> {
        Restorer { input, buffer: Vec::new(), position: 0, given: Vec::new() }
    }

    /// Provides the one value of its type that states refer to and do not hold.
    pub fn give<T: Any>(&mut self, value: T) {
        self.given.push(Box::new(value));
    }

    /// What was given of a type.
    ///
    /// # Errors
    /// Nothing was.
    pub fn given<T: Any + Clone>(&self) -> Result<T, Damaged> {
        let found = self.given.iter().find_map(|value| value.downcast_ref::<T>());
        found.cloned().ok_or(Damaged("refers to what this machine does not have"))
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let mut bytes = [0; N];
        if let Some(found) = self.buffer.get(self.position..self.position + N) {
            bytes.copy_from_slice(found);
            self.position += N;
            return Ok(bytes);
        }
        self.take_slowly(&mut bytes)?;
        Ok(bytes)
    }

    #[cold]
    fn take_slowly(&mut self, bytes: &mut [u8]) -> Result<(), Damaged> {
        for byte in bytes {
            if self.position == self.buffer.len() {
                self.fill()?;
            }
            let Some(&next) = self.buffer.get(self.position) else {
                return Err(Damaged("ends too early"));
            };
            *byte = next;
            self.position += 1;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Damaged> {
        self.buffer.clear();
        self.position = 0;
        let mut part = Read::take(&mut *self.input, BUFFER_BYTES as u64);
        let read = part.read_to_end(&mut self.buffer);
        read.map(drop).map_err(|_| Damaged("cannot be decompressed"))
    }

    /// The number of elements that follow.
    pub(crate) fn length(&mut self) -> Result<usize, Damaged> {
        let length = u64::from_le_bytes(self.take()?);
        usize::try_from(length).map_err(|_| Damaged("has an impossible length"))
    }

    /// Checks that this many elements follow.
    pub(crate) fn expect_length(&mut self, length: usize) -> Result<(), Damaged> {
        if self.length()? == length {
            Ok(())
        } else {
            Err(Damaged("is of a machine of another shape"))
        }
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// Something does.
    pub fn finish(mut self) -> Result<(), Damaged> {
        if self.position == self.buffer.len() {
            self.fill()?;
        }
        if self.buffer.is_empty() { Ok(()) } else { Err(Damaged("goes on where it should end")) }
    }
}
