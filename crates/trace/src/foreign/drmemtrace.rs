//! DynamoRIO's drmemtrace: traces as its post-processing writes them, a file for each thread or
//! each core.
//!
//! Records and the numbers of their types: `clients/drcachesim/common/trace_entry.h` of DynamoRIO;
//! what they mean: its documentation, page "Trace Format".

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::mem;

use super::{Instruction, Records};
use crate::AccessKind;
use crate::open::reading_problem;

/// A type, a size, and an address or a value, little-endian and without padding. (32-bit tracers
/// write 8 bytes.)
const RECORD_BYTES: usize = 12;

const HEADER: u16 = 25;
/// Versions of the format that are known, all alike for us.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;

/// Bits of the marker that says what a trace has.
const FILTERED: u64 = 0x01 | 0x80 | 0x100 | 0x2000;
const INSTRUCTIONS_ONLY: u64 = 0x04;

/// Whether a stream that begins like this is such a trace.
pub(super) fn matches(start: &[u8]) -> bool {
    version(start).is_some_and(|version| VERSIONS.contains(&version))
}

/// What a stream is that begins like one of another version.
pub(crate) fn unknown_version(start: &[u8]) -> Option<String> {
    let version = version(start).filter(|version| *version <= 255)?;
    let (first, last) = (VERSIONS.start(), VERSIONS.end());
    Some(format!("it begins like drmemtrace of version {version}, and {first} to {last} are read"))
}

fn version(start: &[u8]) -> Option<u64> {
    let Record { kind, size, value } = Record::new(start.first_chunk()?);
    (kind == HEADER && size == 0).then_some(value)
}

#[derive(Clone, Copy, Debug)]
struct Record {
    kind: u16,
    size: u16,
    value: u64,
}

impl Record {
    fn new(bytes: &[u8; RECORD_BYTES]) -> Self {
        let [a, b, c, d, value @ ..] = *bytes;
        Self {
            kind: u16::from_le_bytes([a, b]),
            size: u16::from_le_bytes([c, d]),
            value: u64::from_le_bytes(value),
        }
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Access(AccessKind, u64, u16),
    Instruction(u64, u8),
    /// The lengths of instructions that follow the last one.
    Bundle([u8; 8], usize),
    Thread(u64),
    Time(u64),
    /// Whether what follows is the kernel's.
    Kernel(bool),
    /// Header, process, encoding, prefetch, flush, most markers.
    Nothing,
    End,
}

/// A place in the trace, and what is wrong there.
type Problem = (String, String);

/// Reads one file.
pub(super) struct DrmemtraceReader {
    stream: Box<dyn BufRead + Send>,
    records_read: u64,
    /// Numbers of threads, in order of appearance.
    threads: HashMap<u64, u32>,
    thread: u32,
    /// Of the last timestamp.
    time: u64,
    is_kernel: bool,
    /// The instruction whose record was read last.
    next: Option<(u64, u8)>,
    /// What is left of a bundle: the address, lengths and how many of these.
    bundle: (u64, [u8; 8], usize),
    /// Whether the last record was one that ends a trace; traces that were put together have
    /// several.
    is_complete: bool,
    has_ended: bool,
    /// What was wrong with a record after an instruction's own.
    problem: Option<Problem>,
}

impl DrmemtraceReader {
    pub(super) fn new(stream: Box<dyn BufRead + Send>) -> Self {
        Self {
            stream,
            records_read: 0,
            threads: HashMap::new(),
            thread: 0,
            time: 0,
            is_kernel: false,
            next: None,
            bundle: (0, [0; 8], 0),
            is_complete: false,
            has_ended: false,
            problem: None,
        }
    }

    fn problem(&self, problem: &str) -> Problem {
        (format!("record {}", self.records_read + 1), problem.to_owned())
    }

    /// `None` at the end.
    fn read(&mut self) -> Result<Option<Said>, Problem> {
        let mut bytes = [0; RECORD_BYTES];
        let mut length = 0;
        while length < RECORD_BYTES {
            match self.stream.read(&mut bytes[length..]) {
                Ok(0) if length > 0 => return Err(self.problem("the file ends inside it")),
                Ok(0) if self.is_complete => return Ok(None),
                Ok(0) => {
                    return Err(self.problem("the file ends before the record that ends a trace"));
                }
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.problem(&reading_problem(&error))),
            }
        }
        // A file in a folder comes here by its name.
        if self.records_read == 0 && !matches(&bytes) {
            let problem = unknown_version(&bytes).unwrap_or_else(|| {
                "it is no header of drmemtrace, which each *.trace of a folder is taken for; \
                 give a trace of another format by its own name"
                    .into()
            });
            return Err(self.problem(&problem));
        }
        let said = self.understand(Record::new(&bytes))?;
        self.records_read += 1;
        self.is_complete = said == Said::End;
        Ok(Some(said))
    }

    fn understand(&self, Record { kind, size, value }: Record) -> Result<Said, Problem> {
        let length = || {
            let length = u8::try_from(size).ok().filter(|length| (1..=15).contains(length));
            length.ok_or_else(|| self.problem(&format!("an instruction of {size} bytes")))
        };
        Ok(match kind {
            0 => Said::Access(AccessKind::Load, value, size),
            1 => Said::Access(AccessKind::Store, value, size),
            // Instructions by what they do; 29 repeats a string instruction.
            10..=16 | 29..=31 | 48 | 49 => Said::Instruction(value, length()?),
            17 => match value.to_le_bytes() {
                lengths if size <= 8 && lengths[..usize::from(size)].iter().all(|&one| one > 0) => {
                    Said::Bundle(lengths, size.into())
                }
                _ => return Err(self.problem("a bundle of impossible instructions")),
            },
            22 => Said::Thread(value),
            26 => Said::End,
            28 => match size {
                2 => Said::Time(value),
                9 if value & FILTERED != 0 => {
                    let problem = "it was filtered when it was recorded, so that references are missing: \
                         record it without filters";
                    return Err(self.problem(problem));
                }
                9 if value & INSTRUCTIONS_ONLY != 0 => {
                    return Err(self
                        .problem("it was recorded without data references: record it with them"));
                }
                // A system call's or a context switch's instructions in the kernel begin, and end.
                27 | 34 => Said::Kernel(true),
                28 | 35 => Said::Kernel(false),
                _ => Said::Nothing,
            },
            // Prefetches, flushes, ends of threads, processes, headers, encodings.
            2..=9 | 18..=21 | 23..=25 | 27 | 32..=47 => Said::Nothing,
            _ => return Err(self.problem(&format!("its type is {kind}, which is none"))),
        })
    }

    /// The next instruction's address and size, without what it accesses; `None` at the end.
    fn find_instruction(&mut self) -> Result<Option<(u64, u8)>, Problem> {
        loop {
            if let Some(next) = self.next.take() {
                return Ok(Some(next));
            }
            let (address, lengths, left) = self.bundle;
            if left > 0 {
                let [length, later @ ..] = lengths;
                let mut rest = [0; 8];
                rest[..7].copy_from_slice(&later);
                self.bundle = (address.wrapping_add(length.into()), rest, left - 1);
                return Ok(Some((address, length)));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.read()? {
                Some(said) => self.note(said),
                None => self.has_ended = true,
            }
        }
    }

    /// Takes note of what is no access.
    fn note(&mut self, said: Said) {
        match said {
            Said::Instruction(address, length) => {
                self.bundle = (address.wrapping_add(length.into()), [0; 8], 0);
                self.next = (!self.is_kernel).then_some((address, length));
            }
            Said::Bundle(lengths, count) if !self.is_kernel => {
                self.bundle = (self.bundle.0, lengths, count);
            }
            Said::Thread(number) => {
                let count = self.threads.len() as u32 + 1;
                self.thread = *self.threads.entry(number).or_insert(count);
            }
            Said::Time(time) => self.time = time,
            Said::Kernel(is_kernel) => self.is_kernel = is_kernel,
            Said::Bundle(..) | Said::Access(..) | Said::End | Said::Nothing => {}
        }
    }
}

impl Records for DrmemtraceReader {
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, Problem> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let Some((address, length)) = self.find_instruction()? else { return Ok(false) };
        instruction.begin(address, length);
        instruction.thread = self.thread;
        instruction.time = self.time;
        while self.next.is_none() && self.bundle.2 == 0 && !self.has_ended {
            match self.read() {
                Ok(Some(Said::Access(kind, address, size))) if !self.is_kernel => {
                    instruction.add_merging(kind, address, size);
                }
                Ok(Some(said)) => self.note(said),
                Ok(None) => self.has_ended = true,
                Err(problem) => {
                    // What stands before a damaged record is still delivered: the error comes with
                    // the next.
                    self.problem = Some(problem);
                    break;
                }
            }
        }
        Ok(true)
    }
}

/// Reads the files of several threads as one: the thread whose last timestamp is the earliest runs.
pub(super) struct ThreadsReader {
    files: Vec<OneThread>,
    running: usize,
    /// Numbers of threads, by file and number there, in order of appearance.
    numbers: HashMap<(usize, u32), u32>,
}

struct OneThread {
    name: String,
    reader: DrmemtraceReader,
    /// Its next instruction, if it is there.
    ahead: Instruction,
    is_ahead: bool,
    has_ended: bool,
}

impl ThreadsReader {
    /// Of files with their names.
    pub(super) fn new(files: Vec<(String, Box<dyn BufRead + Send>)>) -> Self {
        let one = |(name, stream)| {
            let reader = DrmemtraceReader::new(stream);
            OneThread {
                name,
                reader,
                ahead: Instruction::default(),
                is_ahead: false,
                has_ended: false,
            }
        };
        Self { files: files.into_iter().map(one).collect(), running: 0, numbers: HashMap::new() }
    }
}

impl Records for ThreadsReader {
    fn next(&mut self, instruction: &mut Instruction) -> Result<bool, Problem> {
        for OneThread { name, reader, ahead, is_ahead, has_ended } in &mut self.files {
            if !*is_ahead && !*has_ended {
                let more = reader.next(ahead);
                *is_ahead =
                    more.map_err(|(place, problem)| (format!("{name}: {place}"), problem))?;
                *has_ended = !*is_ahead;
            }
        }
        let waiting = self.files.iter().enumerate().filter(|(_, file)| file.is_ahead);
        let next =
            waiting.map(|(number, file)| (file.ahead.time, number != self.running, number)).min();
        let Some((.., number)) = next else { return Ok(false) };
        self.running = number;
        let file = &mut self.files[number];
        file.is_ahead = false;
        mem::swap(instruction, &mut file.ahead);
        let count = self.numbers.len() as u32 + 1;
        instruction.thread = *self.numbers.entry((number, instruction.thread)).or_insert(count);
        Ok(true)
    }
}
