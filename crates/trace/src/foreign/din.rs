//! Dinero's `din`: a label (0 read, 1 write, 2 instruction fetch) and a hexadecimal address a line.

use std::io::BufRead;

use super::lines::{Lines, hexadecimal, mostly};
use super::{Instruction, MAX_ACCESSES, Records};
use crate::AccessKind;

/// The format has no sizes; it comes from machines with 32-bit words and instructions.
const WORD_BYTES: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Fetch(u64),
    Access(AccessKind, u64),
    /// Empty, or one of the labels 3 (unknown) and 4 (flush), which make no reference.
    Other,
}

fn parse(line: &[u8]) -> Option<Line> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let Some(label) = fields.next() else { return Some(Line::Other) };
    let address = fields.next().and_then(hexadecimal);
    Some(match label {
        b"0" => Line::Access(AccessKind::Load, address?),
        b"1" => Line::Access(AccessKind::Store, address?),
        b"2" => Line::Fetch(address?),
        b"3" | b"4" => Line::Other,
        _ => return None,
    })
}

pub(super) fn matches(start: &[u8]) -> bool {
    mostly(start, |line| parse(line).map(|line| line != Line::Other))
}

pub(super) struct DinReader {
    lines: Lines,
    /// The line that was read to find the end of the instruction before.
    next: Option<Line>,
    ended: bool,
}

impl DinReader {
    pub(super) fn new(stream: Box<dyn BufRead + Send>) -> Self {
        Self { lines: Lines::new(stream), next: None, ended: false }
    }

    fn line(&mut self) -> Result<Option<Line>, (String, String)> {
        if let Some(line) = self.next.take() {
            return Ok(Some(line));
        }
        if self.ended {
            return Ok(None);
        }
        match self.lines.next()? {
            None => {
                self.ended = true;
                Ok(None)
            }
            Some(line) => match parse(line) {
                Some(line) => Ok(Some(line)),
                None => Err(self.lines.nonsense("a label and an address; remove it")),
            },
        }
    }
}

impl Records for DinReader {
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, (String, String)> {
        let mut begun = false;
        while let Some(line) = self.line()? {
            match line {
                Line::Other => {}
                Line::Fetch(address) => {
                    if begun {
                        self.next = Some(line);
                        return Ok(true);
                    }
                    begun = true;
                    instruction.begin(address, WORD_BYTES);
                }
                Line::Access(kind, address) => {
                    if instruction.accesses.len() == MAX_ACCESSES && begun {
                        self.next = Some(line);
                        return Ok(true);
                    }
                    if !begun {
                        // Data without an instruction: it needs one to belong to, which is the last
                        // one, or at the beginning of a trace one at 0.
                        begun = true;
                        instruction.begin(instruction.address, WORD_BYTES);
                    }
                    instruction.add(kind, address, u16::from(WORD_BYTES));
                }
            }
        }
        Ok(begun)
    }
}
