//! ChampSim's fixed-length records, of both kinds.

use std::io::{BufRead, Read};

use super::{Instruction, Records};
use crate::AccessKind;
use crate::open::reading_problem;

/// The format has no access sizes; its programs are 64-bit.
const ACCESS_BYTES: u16 = 8;
/// The size of an instruction that is not followed by the next one in memory.
const UNKNOWN_SIZE_BYTES: u8 = 4;
/// The longest instruction of x86.
const MAX_SIZE_BYTES: u64 = 15;

/// Where things are in a record. All integers are little-endian; the instruction's address comes
/// first, then a byte that says whether it is a branch and one whether that was taken. An address
/// of 0 means no access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    record_bytes: usize,
    destinations: usize,
    destinations_offset: usize,
    sources_offset: usize,
}

const SOURCES: usize = 4;

/// Packed by chance: 8 + 2 + 2 + 4 bytes, two and four addresses.
const ORDINARY: Layout =
    Layout { record_bytes: 64, destinations: 2, destinations_offset: 16, sources_offset: 32 };
/// The CloudSuite variant has four destinations and two more bytes at the end, and is padded.
const CLOUDSUITE: Layout =
    Layout { record_bytes: 96, destinations: 4, destinations_offset: 24, sources_offset: 56 };

fn word(record: &[u8], offset: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[offset..offset + 8]);
    u64::from_le_bytes(bytes)
}

/// The layout that the beginning of a file has, if any; `whole` says that `start` is all of it.
///
/// There is no magic number. The flags must be flags, and most instructions that are no taken
/// branch must be followed by their neighbour.
pub(super) fn matches(start: &[u8], whole: bool) -> Option<Layout> {
    [ORDINARY, CLOUDSUITE].into_iter().find(|layout| {
        if start.len() < layout.record_bytes
            || whole && !start.len().is_multiple_of(layout.record_bytes)
        {
            return false;
        }
        let records: Vec<_> = start.chunks_exact(layout.record_bytes).collect();
        let flags = records
            .iter()
            .all(|record| record[8] <= 1 && record[9] <= record[8] && word(record, 0) != 0);
        let straight = records.windows(2).filter(|pair| pair[0][9] == 0);
        let (total, sequential) = straight.fold((0, 0), |(total, sequential), pair| {
            let distance = word(pair[1], 0).wrapping_sub(word(pair[0], 0));
            (total + 1, sequential + usize::from(distance <= MAX_SIZE_BYTES))
        });
        flags && 2 * sequential >= total
    })
}

pub(super) struct ChampSimReader {
    stream: Box<dyn BufRead + Send>,
    layout: Layout,
    /// The record being worked on, and the one after it, which tells the instruction's size.
    record: Vec<u8>,
    next: Vec<u8>,
    records_read: u64,
    /// What was wrong with the record after the one being worked on.
    problem: Option<(String, String)>,
}

impl ChampSimReader {
    pub(super) fn new(stream: Box<dyn BufRead + Send>, layout: Layout) -> Self {
        Self {
            stream,
            layout,
            record: Vec::new(),
            next: Vec::new(),
            records_read: 0,
            problem: None,
        }
    }

    /// Reads a record into `next`, which is empty at the end.
    fn read(&mut self) -> Result<(), (String, String)> {
        let problem = |problem: &str| (format!("record {}", self.records_read + 1), problem.into());
        self.next.clear();
        let limited = &mut self.stream.by_ref().take(self.layout.record_bytes as u64);
        match limited.read_to_end(&mut self.next) {
            Err(error) => Err(problem(&reading_problem(&error))),
            Ok(0) => Ok(()),
            Ok(length) if length < self.layout.record_bytes => {
                Err(problem("the file ends inside it"))
            }
            Ok(_) if self.next[8] > 1 || self.next[9] > 1 => {
                Err(problem("its branch flags are neither 0 nor 1"))
            }
            Ok(_) => {
                self.records_read += 1;
                Ok(())
            }
        }
    }
}

impl Records for ChampSimReader {
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, (String, String)> {
        if self.records_read == 0 {
            self.read()?;
        }
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        std::mem::swap(&mut self.record, &mut self.next);
        if self.record.is_empty() {
            return Ok(false);
        }
        // What stands before a damaged record is still delivered: the error comes with the next.
        if let Err(problem) = self.read() {
            self.next.clear();
            self.problem = Some(problem);
        }
        let address = word(&self.record, 0);
        let distance =
            if self.next.len() < 8 { 0 } else { word(&self.next, 0).wrapping_sub(address) };
        let size = match distance {
            1..=MAX_SIZE_BYTES => distance as u8,
            _ => UNKNOWN_SIZE_BYTES,
        };
        instruction.begin(address, size);
        let addresses =
            |offset: usize, count: usize| (0..count).map(move |index| offset + 8 * index);
        let layout = self.layout;
        let written: Vec<u64> = addresses(layout.destinations_offset, layout.destinations)
            .map(|offset| word(&self.record, offset))
            .filter(|&address| address != 0)
            .collect();
        for offset in addresses(layout.sources_offset, SOURCES) {
            match word(&self.record, offset) {
                0 => {}
                address if written.contains(&address) => {
                    instruction.add(AccessKind::Modify, address, ACCESS_BYTES);
                }
                address => instruction.add(AccessKind::Load, address, ACCESS_BYTES),
            }
        }
        for &address in &written {
            if !instruction.addresses.contains(&address) {
                instruction.add(AccessKind::Store, address, ACCESS_BYTES);
            }
        }
        Ok(true)
    }
}
