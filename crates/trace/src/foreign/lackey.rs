//! What `valgrind --tool=lackey --trace-mem=yes` prints.
//!
//! `I  04016b80,3` is an instruction, and ` L`, ` S` and ` M` lines after it are its accesses.

use std::io::BufRead;

use super::lines::{Lines, hexadecimal, mostly};
use super::{Instruction, MAX_ACCESSES, Records};
use crate::AccessKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Instruction(u64, u8),
    Access(AccessKind, u64, u16),
    /// Valgrind's own messages and empty lines.
    Other,
}

fn parse(line: &[u8]) -> Option<Line> {
    if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
        return Some(Line::Other);
    }
    let (kind, rest) = line.split_at_checked(3)?;
    let comma = rest.iter().position(|&byte| byte == b',')?;
    let address = hexadecimal(&rest[..comma])?;
    let size: u16 = std::str::from_utf8(&rest[comma + 1..]).ok()?.parse().ok()?;
    Some(match kind {
        b"I  " => Line::Instruction(address, u8::try_from(size).ok()?),
        b" L " => Line::Access(AccessKind::Load, address, size),
        b" S " => Line::Access(AccessKind::Store, address, size),
        b" M " => Line::Access(AccessKind::Modify, address, size),
        _ => return None,
    })
}

/// What `mmulab trace dump` notes between instructions; any number of these may come before the
/// first.
const NOTES: [&[u8]; 6] = [b"map ", b"unmap ", b"thread ", b"program ", b"core ", b"region "];

pub(super) fn matches(start: &[u8]) -> bool {
    let note = start.strip_prefix(b"-- ");
    if note.is_some_and(|note| NOTES.iter().any(|begin| note.starts_with(begin))) {
        return true;
    }
    mostly(start, |line| parse(line).map(|line| line != Line::Other))
}

pub(super) struct LackeyReader {
    lines: Lines,
    /// The instruction whose line was read to find the end of the one before.
    next: Option<(u64, u8)>,
    ended: bool,
}

impl LackeyReader {
    pub(super) fn new(stream: Box<dyn BufRead + Send>) -> Self {
        Self { lines: Lines::new(stream), next: None, ended: false }
    }
}

impl Records for LackeyReader {
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, (String, String)> {
        let mut begun = self.next.take();
        if let Some((address, size_bytes)) = begun {
            instruction.begin(address, size_bytes);
        }
        while !self.ended {
            let Some(line) = self.lines.next()? else {
                self.ended = true;
                break;
            };
            match parse(line) {
                Some(Line::Other) => {}
                Some(Line::Instruction(address, size_bytes)) => {
                    if begun.is_some() {
                        self.next = Some((address, size_bytes));
                        return Ok(true);
                    }
                    begun = Some((address, size_bytes));
                    instruction.begin(address, size_bytes);
                }
                Some(Line::Access(..)) if begun.is_none() => {
                    return Err(self.lines.problem(
                        "an access stands before any instruction; remove the lines before the first one",
                    ));
                }
                Some(Line::Access(kind, address, size_bytes)) => {
                    if instruction.accesses.len() == MAX_ACCESSES {
                        return Err(self.lines.problem(&format!(
                            "an instruction has more than {MAX_ACCESSES} accesses; is a line that begins with I missing?"
                        )));
                    }
                    instruction.add(kind, address, size_bytes);
                }
                None => {
                    return Err(self.lines.nonsense(
                        "a line of lackey's; remove it, or record with --log-file=FILE",
                    ));
                }
            }
        }
        Ok(begun.is_some())
    }
}
