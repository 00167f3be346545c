//! Lines of a text trace, however long the file pretends that they are.

use std::io::{BufRead, Read};

use crate::open::reading_problem;

/// Longer lines are no trace.
const MAX_LINE_BYTES: u64 = 4096;

pub(super) struct Lines {
    stream: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(super) fn new(stream: Box<dyn BufRead + Send>) -> Self {
        Self { stream, line: Vec::new(), number: 0 }
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, (String, String)> {
        self.line.clear();
        self.number += 1;
        let limited = &mut self.stream.by_ref().take(MAX_LINE_BYTES);
        if let Err(error) = limited.read_until(b'\n', &mut self.line) {
            return Err(self.problem(&reading_problem(&error)));
        }
        if self.line.len() as u64 == MAX_LINE_BYTES && !self.line.ends_with(b"\n") {
            return Err(self.problem("the line is too long"));
        }
        Ok((!self.line.is_empty()).then(|| self.line.trim_ascii_end()))
    }

    /// An error at the line last read.
    pub(super) fn problem(&self, problem: &str) -> (String, String) {
        (format!("line {}", self.number), problem.into())
    }

    /// An error that quotes the line last read.
    pub(super) fn nonsense(&self, expected: &str) -> (String, String) {
        let line = self.line.trim_ascii_end();
        let quoted: String =
            String::from_utf8_lossy(&line[..line.len().min(40)]).escape_debug().collect();
        self.problem(&format!("`{quoted}` is not {expected}"))
    }
}

/// A hexadecimal number, with or without 0x.
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Whether the beginning of a file is of a text format: of the lines that say something most are
/// its references. A few that are not its own do not make it another format; the reader names them.
pub(super) fn mostly(start: &[u8], is_reference: impl Fn(&[u8]) -> Option<bool>) -> bool {
    let (mut references, mut foreign) = (0, 0);
    for line in first_lines(start) {
        match is_reference(line) {
            Some(true) => references += 1,
            Some(false) => {}
            None => foreign += 1,
        }
    }
    references > foreign
}

/// The first lines of a file's beginning, without one that may be cut off.
fn first_lines(start: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = start.iter().rposition(|&byte| byte == b'\n').map_or(start, |end| &start[..end]);
    whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).take(50)
}
