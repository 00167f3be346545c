//! The checker: beside every access, would a coherent machine have given the same answer?
//!
//! It keeps what no cache can spoil: the newest value of each word of RAM, with the instruction and
//! the address that stored it. A fetch, load, store or table walk is compared with what a machine
//! would do that walks the current tables through the newest values, holds no stale translation and
//! has one copy of each word. docs/checker.md tells what counts and what does not.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::board::Board;
use crate::memory::{Fault, Memory, Side, Space, control};
use crate::mmu::{CACHEABLE, Translation, Walk, walk};

const GRANULE_SHIFT: u32 = 10;
const VERIFIED: usize = 256;
/// Reports kept; a guest that is wrong everywhere is told so often enough.
const MOST_REPORTS: usize = 1000;

/// What was stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A TLB entry disagrees with the tables.
    StaleTlbEntry,
    /// The MMU refused what the tables permit.
    SpuriousFault,
    /// A data cache line belongs to another physical address.
    DataHomonym,
    /// A data cache line is older than memory.
    StaleDataLine,
    /// A word of the read buffer is older than memory.
    StaleReadBuffer,
    /// Memory was read while newer data sat in a cache line or buffer, or after it was lost.
    StaleMemory,
    /// An instruction cache line belongs to another physical address.
    InstructionHomonym,
    /// An instruction cache line, or the memory it came from, holds old code.
    StaleInstruction,
    /// A table walk read an old descriptor.
    StaleWalk,
}

/// What a load got its word from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of the data cache or the minicache.
    DataCache,
    /// The SA-1100's read buffer.
    ReadBuffer,
    /// Memory.
    Memory,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// An instruction was fetched.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A table walk.
    Walk,
}

/// Where the newer value is that an access missed, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newer {
    /// In memory: the copy that was used is old.
    Memory,
    /// In a dirty line with this modified virtual address.
    DirtyLine(u32),
    /// In the write buffer.
    Buffer,
    /// Dropped by an invalidate at this PC.
    Dropped(u32),
    /// Overwritten in memory by an older dirty line that was written back (its address).
    Overwritten(u32),
    /// Not found.
    Unknown,
}

/// One finding, kept once for each cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What was stale.
    pub kind: Kind,
    /// What used it.
    pub access: AccessKind,
    /// Which core.
    pub core: usize,
    /// The instruction that used it.
    pub pc: u32,
    /// The same with symbol and source line.
    pub pc_place: String,
    /// Modified virtual address of the access.
    pub address: u32,
    /// Physical address that a coherent machine would have used.
    pub physical: u32,
    /// Translation table base at the time.
    pub table: u32,
    /// Process ID at the time.
    pub process: u32,
    /// Domain access control at the time.
    pub domains: u32,
    /// What was stale, in words.
    pub stale: String,
    /// The store or register write since which it has been stale; 0 if unknown.
    pub since: u32,
    /// The same with symbol and source line.
    pub since_place: String,
    /// The operation that would have prevented it.
    pub missing: String,
    /// Cycle of the first use.
    pub cycle: u64,
    /// Uses in all.
    pub times: u64,
    /// All of it in words.
    pub text: String,
}

impl Report {
    /// The report with the names of its places.
    pub fn with_places(&self, place: &dyn Fn(u32) -> String) -> Report {
        let mut report = self.clone();
        report.pc_place = place(self.pc);
        let since = match self.since {
            0 => String::new(),
            pc => {
                report.since_place = place(pc);
                format!(", since {}", report.since_place)
            }
        };
        let access = match self.access {
            AccessKind::Fetch => "fetch",
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Walk => "table walk",
        };
        let times = if self.times == 1 { "once".into() } else { format!("{} times", self.times) };
        report.text = format!(
            "{access} of {:#010x} at {} (core {}, table {:#x}, PID {}, domains {:#x}): {}{since}; \
             missing: {} ({times})",
            self.address,
            report.pc_place,
            self.core,
            self.table,
            self.process,
            self.domains,
            self.stale,
            self.missing
        );
        report
    }
}

/// Who stored a word last.
#[derive(Clone, Copy, Default)]
struct Writer {
    pc: u32,
    address: u32,
}

/// A page whose TLB entry agreed with the tables.
#[derive(Clone, Copy, Default)]
struct Verified {
    epoch: u64,
    tag: u32,
    side: u8,
    physical: u32,
}

/// What is used at the moment: enough to judge and to report.
struct Use {
    access: AccessKind,
    address: u32,
    side: Side,
    write: bool,
}

/// The checker's memory.
pub struct Checker {
    /// Newest value of each word of RAM.
    words: Vec<u32>,
    /// Who stored each word last: PC and address. Arrays of integers are allocated as zero pages.
    writers: Vec<[u32; 2]>,
    /// Granules of RAM that hold descriptors, and when one of them was last written.
    tables: Vec<bool>,
    table_written_at: Vec<u64>,
    /// Grows whenever a verified page may not be right any more.
    epoch: u64,
    verified: Vec<Verified>,
    /// The instruction line that was verified last, with the slot and the context it was for.
    verified_line: (u64, u32, usize, u32),
    /// Last write of TTB, or of the control register: PC and time.
    table_register: (u32, u64),
    /// Lines of RAM whose newest data is lost: by what.
    lost: BTreeMap<u32, Newer>,
    /// Pages whose TLB entry came from a walk that was reported, and since when the descriptor was stale:
    /// the entry has no other cause.
    stale_walks: BTreeSet<(u32, u32)>,
    causes: BTreeMap<(Kind, u32, u32), usize>,
    /// What was found, in order.
    pub reports: Vec<Report>,
}

impl Checker {
    /// A checker for a machine whose memory holds `ram` and whose caches are empty.
    pub fn new(ram: &[u32]) -> Checker {
        let granules = (ram.len() * 4) >> GRANULE_SHIFT;
        // Only what is not zero is copied: the rest of RAM stays untouched, and costs no memory.
        let mut words = vec![0; ram.len()];
        for (to, from) in words.chunks_mut(1024).zip(ram.chunks(1024)) {
            if from.iter().any(|&word| word != 0) {
                to.copy_from_slice(from);
            }
        }
        Checker {
            words,
            writers: vec![[0; 2]; ram.len()],
            tables: vec![false; granules + 1],
            table_written_at: vec![0; granules + 1],
            epoch: 1,
            verified: vec![Verified::default(); VERIFIED],
            verified_line: (0, 0, 0, 0),
            table_register: (0, 0),
            lost: BTreeMap::new(),
            stale_walks: BTreeSet::new(),
            causes: BTreeMap::new(),
            reports: Vec::new(),
        }
    }

    /// Something outside of the cores wrote memory: loaders and debuggers.
    pub fn written_from_outside(&mut self, physical: u32, value: u32) {
        if let Some(word) = self.words.get_mut((physical >> 2) as usize) {
            *word = value;
            self.epoch += 1;
        }
    }

    fn word(&self, physical: u32) -> Option<u32> {
        self.words.get((physical >> 2) as usize).copied()
    }

    fn writer(&self, physical: u32) -> Writer {
        let [pc, address] = self.writers.get((physical >> 2) as usize).copied().unwrap_or_default();
        Writer { pc, address }
    }

    /// The walk that a coherent machine would do; its descriptors are tables from here on.
    fn walk(&mut self, table: u32, address: u32, extended: bool) -> Walk {
        let found = walk(table, address, extended, |at| self.word(at).unwrap_or(0));
        self.note_tables(&found);
        found
    }

    /// The granules that a walk read hold tables from here on.
    fn note_tables(&mut self, found: &Walk) {
        for (at, _) in [Some(found.first), found.second].into_iter().flatten() {
            if let Some(granule) = self.tables.get_mut((at >> GRANULE_SHIFT) as usize) {
                *granule = true;
            }
        }
    }

    fn store(&mut self, physical: u32, value: u32, mask: u32, writer: Writer, now: u64) {
        let index = (physical >> 2) as usize;
        let Some(word) = self.words.get_mut(index) else { return };
        *word = *word & !mask | value & mask;
        self.writers[index] = [writer.pc, writer.address];
        let granule = (physical >> GRANULE_SHIFT) as usize;
        if self.tables[granule] {
            self.table_written_at[granule] = now;
            self.epoch += 1;
        }
        if !self.lost.is_empty() {
            // What is written anew is not lost any more; the line's other words may be, but a report
            // on them finds its cause without this record.
            self.lost.remove(&(physical & !31));
        }
    }

    fn report(&mut self, report: Report) {
        let key = (report.kind, report.since, if report.since == 0 { report.pc } else { 0 });
        if let Some(&index) = self.causes.get(&key) {
            self.reports[index].times += 1;
            return;
        }
        if self.reports.len() < MOST_REPORTS {
            self.causes.insert(key, self.reports.len());
            self.reports.push(report);
        }
    }
}

/// The address at which the page that a translation maps begins.
fn first_of_page(translation: &Translation, address: u32) -> u32 {
    address & !((1u32 << translation.page_shift) - 1)
}

/// The physical address that a translation gives.
fn physical_of(translation: &Translation, address: u32) -> u32 {
    let mask = (1u32 << translation.page_shift) - 1;
    translation.physical & !mask | address & mask
}

impl Memory {
    fn extended_pages(&self) -> bool {
        self.kind == mmulab_machine::ArmCoprocessor::Xscale
    }

    /// The TLB changed: what was verified must be looked at again.
    pub(crate) fn forget_verified(&mut self, board: &mut Board) {
        if let Some(checker) = &mut board.checker {
            checker.epoch += 1;
        }
    }

    /// The table base or the control register was written: from here on other tables count.
    pub(crate) fn check_space_change(&mut self, board: &mut Board) {
        let now = self.now();
        let pc = self.pc;
        if let Some(checker) = &mut board.checker {
            checker.epoch += 1;
            checker.table_register = (pc, now);
        }
    }

    fn new_report(&self, kind: Kind, used: &Use, physical: u32) -> Report {
        let space = Space {
            table: self.registers.table,
            process: self.registers.process >> 25,
            domains: self.registers.domains,
        };
        Report {
            kind,
            access: used.access,
            core: self.number,
            pc: self.pc,
            pc_place: String::new(),
            address: used.address,
            physical,
            table: space.table,
            process: space.process,
            domains: space.domains,
            stale: String::new(),
            since: 0,
            since_place: String::new(),
            missing: String::new(),
            cycle: self.now(),
            times: 1,
            text: String::new(),
        }
    }

    fn entry_now(&mut self, address: u32, side: Side) -> Option<Translation> {
        let tlb = match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        };
        tlb.lookup(address).map(|entry| entry.payload)
    }

    fn tlb_operation_name(&self, side: Side) -> &'static str {
        use mmulab_machine::ArmCoprocessor::*;
        match (side, self.kind) {
            (_, Arm926ejs) => "invalidate the TLB entry (c8, c7, 1) or the TLB (c8, c7, 0)",
            (Side::Data, _) => "invalidate the data TLB entry (c8, c6, 1) or TLB (c8, c6, 0)",
            (Side::Instruction, Sa1100) => "invalidate the instruction TLB (c8, c5, 0)",
            (Side::Instruction, _) => {
                "invalidate the instruction TLB entry (c8, c5, 1) or TLB (c8, c5, 0)"
            }
        }
    }

    /// Compares what the TLB said with the tables; gives the physical address that a coherent
    /// machine would use.
    fn check_translation(&mut self, checker: &mut Checker, used: &Use, physical: u32) -> u32 {
        if self.registers.control & control::MMU == 0 {
            return used.address;
        }
        let address = used.address;
        let tag = address & !0xfff | self.context();
        let side = u8::from(used.side == Side::Instruction) | u8::from(used.write) << 1;
        let index = ((address >> 12) as usize % VERIFIED) ^ (usize::from(side) << 6);
        let verified = checker.verified[index];
        if verified.epoch == checker.epoch && verified.tag == tag && verified.side == side {
            let right = verified.physical | address & 0xfff;
            if right == physical {
                return right;
            }
        }
        let table = self.registers.table;
        let found = checker.walk(table, address, self.extended_pages());
        let entry = self.entry_now(address, used.side);
        let (stale, right) = match (&found.result, &entry) {
            (Err(_), _) => (Some("the tables have no translation".to_owned()), physical),
            (Ok(right), entry) => {
                let right_physical = physical_of(right, address);
                let reason = if right_physical != physical
                    && entry.is_none_or(|entry| physical_of(&entry, address) != right_physical)
                {
                    Some(format!("the tables say physical {right_physical:#010x}"))
                } else if entry.is_some_and(|entry| entry.domain != right.domain) {
                    Some(format!("the tables say domain {}", right.domain))
                } else if entry.is_some_and(|entry| entry.attributes != right.attributes) {
                    Some("the tables say other cacheable and bufferable bits".to_owned())
                } else if self.refused(right, address, used.write).is_some() {
                    Some("the tables forbid the access".to_owned())
                } else {
                    None
                };
                if reason.is_none() && right.uniform() && right_physical == physical {
                    checker.verified[index] = Verified {
                        epoch: checker.epoch,
                        tag,
                        side,
                        physical: right_physical & !0xfff,
                    };
                }
                (reason, right_physical)
            }
        };
        if let Some(reason) = stale {
            let held = entry.map_or_else(
                || format!("physical {physical:#010x}"),
                |entry| {
                    format!(
                        "physical {:#010x}, domain {}",
                        physical_of(&entry, address),
                        entry.domain
                    )
                },
            );
            let mut report = self.new_report(Kind::StaleTlbEntry, used, right);
            report.stale = format!("the TLB holds {held}, but {reason}");
            report.since = self.table_change(checker, &found);
            if entry.is_some_and(|held| {
                checker.stale_walks.contains(&(first_of_page(&held, address), report.since))
            }) {
                return right;
            }
            report.missing = self.tlb_operation_name(used.side).to_owned();
            if self.is_locked(address, used.side) {
                report.missing = format!(
                    "{}; the entry is locked down and survives the invalidation of all",
                    report.missing
                );
            }
            checker.report(report);
        }
        right
    }

    fn is_locked(&mut self, address: u32, side: Side) -> bool {
        let tlb = match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        };
        tlb.is_locked(address)
    }

    /// The PC of what last changed a translation: the write of a descriptor, or of the table base.
    fn table_change(&self, checker: &Checker, found: &Walk) -> u32 {
        let time = |at: u32| {
            checker.table_written_at.get((at >> GRANULE_SHIFT) as usize).copied().unwrap_or(0)
        };
        let first = (time(found.first.0), checker.writer(found.first.0).pc);
        let second = found.second.map_or((0, 0), |(at, _)| (time(at), checker.writer(at).pc));
        let register = (checker.table_register.1, checker.table_register.0);
        [first, second, register].into_iter().max().map_or(0, |(_, pc)| pc)
    }

    /// Where the newest value of a word is, when an access got an older one.
    fn find_newer(&self, board: &Board, checker: &Checker, physical: u32, newest: u32) -> Newer {
        let line = physical & !31;
        let word = (physical >> 2 & 7) as usize;
        for slot in 0..self.line_tags.len() {
            if self.line_tags[slot] != 0
                && self.line_physical[slot] == line
                && self.dirty(slot) >> (word / 4) & 1 != 0
                && self.lines[slot][word] == newest
            {
                return Newer::DirtyLine(self.line_tags[slot] & !1);
            }
        }
        if self.buffer.entries().any(|entry| entry.line == line && entry.mask[word] != 0) {
            return Newer::Buffer;
        }
        if board.ram.get((physical >> 2) as usize) == Some(&newest) {
            return Newer::Memory;
        }
        checker.lost.get(&line).copied().unwrap_or(Newer::Unknown)
    }

    fn clean_operation_name(&self) -> &'static str {
        match self.kind {
            mmulab_machine::ArmCoprocessor::Sa1100 => "clean the data cache line (c7, c10, 1)",
            _ => "clean the data cache line (c7, c10, 1), or the whole cache",
        }
    }

    /// Fills in why an access got an old word.
    fn explain(&self, report: &mut Report, newer: Newer, writer: Writer, copy: &str, drop: &str) {
        report.since = writer.pc;
        let stored = if writer.pc == 0 {
            "what the loader put there".to_owned()
        } else {
            format!("what was stored through {:#010x}", writer.address)
        };
        let clean = self.clean_operation_name();
        let (place, missing) = match newer {
            Newer::Memory => ("is in memory".to_owned(), drop.to_owned()),
            Newer::DirtyLine(tag) => (
                format!("is in the dirty line {tag:#010x}"),
                if drop.is_empty() {
                    format!("{clean} of {tag:#010x} and drain the write buffer (c7, c10, 4)")
                } else {
                    format!("{clean} of {tag:#010x}, then {drop}")
                },
            ),
            Newer::Buffer => (
                "is in the write buffer".to_owned(),
                "drain the write buffer (c7, c10, 4)".to_owned(),
            ),
            Newer::Dropped(pc) => (
                "was dropped by an invalidate".to_owned(),
                format!("{clean} before the invalidate at {pc:#010x}"),
            ),
            Newer::Overwritten(tag) => (
                format!("was overwritten by the older dirty line {tag:#010x}"),
                format!("clean and invalidate {tag:#010x} before the store"),
            ),
            Newer::Unknown => ("is nowhere".to_owned(), "unknown".to_owned()),
        };
        report.stale = format!("{copy} is older than {stored}, which {place}");
        report.missing = missing;
    }

    /// After a load: `word` is the aligned word that it got, `physical` where the TLB sent it.
    pub(crate) fn check_load(
        &mut self,
        board: &mut Board,
        address: u32,
        physical: u32,
        source: Source,
        size: u32,
        word: u32,
    ) {
        let Some(mut checker) = board.checker.take() else { return };
        let used = Use { access: AccessKind::Load, address, side: Side::Data, write: false };
        let right = self.check_translation(&mut checker, &used, physical);
        let reported = right != physical
            || source == Source::DataCache
                && self.check_line_address(&mut checker, board, &used, right);
        if let (Some(newest), false) = (checker.word(right), reported) {
            let mask = byte_mask(address, size);
            if (newest ^ word) & mask != 0 {
                let mut newer = self.find_newer(board, &checker, right, newest);
                if (source, newer) == (Source::ReadBuffer, Newer::Buffer) {
                    // On its way to memory, where a new fetch finds it.
                    newer = Newer::Memory;
                }
                let (kind, copy, drop) = match (source, newer) {
                    (Source::ReadBuffer, _) => (
                        Kind::StaleReadBuffer,
                        "the read buffer",
                        "empty the read buffer (c9, c0, 0)".to_owned(),
                    ),
                    (Source::DataCache, Newer::Memory | Newer::DirtyLine(_) | Newer::Buffer) => (
                        Kind::StaleDataLine,
                        "the data cache line",
                        format!("invalidate the data cache line of {address:#010x} (c7, c6, 1)"),
                    ),
                    _ => (Kind::StaleMemory, "memory", String::new()),
                };
                let mut report = self.new_report(kind, &used, right);
                self.explain(&mut report, newer, checker.writer(right), copy, &drop);
                checker.report(report);
            }
        }
        board.checker = Some(checker);
    }

    /// Whether the line that serves an access is one of another physical address.
    fn check_line_address(
        &mut self,
        checker: &mut Checker,
        board: &Board,
        used: &Use,
        right: u32,
    ) -> bool {
        let Some(slot) = self.line_of(used.address) else { return false };
        let held = self.line_physical[slot];
        // Lines of devices and of the zero bank have no newest word to be compared with.
        if held == right & !31 || !board.is_ram(right) {
            return false;
        }
        let mut report = self.new_report(Kind::DataHomonym, used, right);
        report.stale = format!(
            "the data cache line is of physical {held:#010x}, the address is now physical {:#010x}",
            right & !31
        );
        let found = checker.walk(self.registers.table, used.address, self.extended_pages());
        report.since = self.table_change(checker, &found);
        report.missing = format!(
            "clean and invalidate the data cache line of {:#010x} at the change of its mapping",
            used.address & !31
        );
        checker.report(report);
        true
    }

    /// Before a store is done.
    pub(crate) fn check_store_access(
        &mut self,
        board: &mut Board,
        address: u32,
        physical: u32,
        attributes: u8,
        value: u32,
        mask: u32,
    ) {
        let Some(mut checker) = board.checker.take() else { return };
        let used = Use { access: AccessKind::Store, address, side: Side::Data, write: true };
        let right = self.check_translation(&mut checker, &used, physical);
        if right == physical && attributes & CACHEABLE != 0 {
            self.check_line_address(&mut checker, board, &used, right);
        }
        let now = self.now();
        checker.store(right, value, mask, Writer { pc: self.pc, address }, now);
        board.checker = Some(checker);
    }

    /// Before an instruction executes that was fetched into `slot`.
    #[inline]
    pub(crate) fn check_fetch(&mut self, board: &mut Board, pc: u32, slot: usize, length: u32) {
        let Some(checker) = &board.checker else { return };
        let address = self.modified(pc);
        let physical = self.fetch.line_physical[slot] | address & 31;
        if checker.verified_line == (checker.epoch, address & !31, slot, self.context()) {
            let word = self.fetch.lines[slot][(address >> 2 & 7) as usize];
            let same = |newest| (newest ^ word) & byte_mask(address, length) == 0;
            if checker.word(physical).is_none_or(same) {
                return;
            }
        }
        self.check_fetch_anew(board, address, physical, slot, length);
    }

    #[inline(never)]
    fn check_fetch_anew(
        &mut self,
        board: &mut Board,
        address: u32,
        physical: u32,
        slot: usize,
        length: u32,
    ) {
        let Some(mut checker) = board.checker.take() else { return };
        let used =
            Use { access: AccessKind::Fetch, address, side: Side::Instruction, write: false };
        let right = self.check_translation(&mut checker, &used, physical);
        if right != physical {
            let entry = self.entry_now(address, Side::Instruction);
            if entry.is_some_and(|entry| physical_of(&entry, address) == right) {
                let mut report = self.new_report(Kind::InstructionHomonym, &used, right);
                report.stale = format!(
                    "the instruction cache line is of physical {:#010x}, the address is now \
                     physical {:#010x}",
                    physical & !31,
                    right & !31
                );
                let found = checker.walk(self.registers.table, address, self.extended_pages());
                report.since = self.table_change(&checker, &found);
                report.missing = self.invalidate_instruction_name(address);
                checker.report(report);
            }
        } else if let Some(newest) = checker.word(right) {
            let word = self.fetch.lines[slot][(address >> 2 & 7) as usize];
            let mask = byte_mask(address, length);
            if (newest ^ word) & mask != 0 {
                let newer = self.find_newer(board, &checker, right, newest);
                let mut report = self.new_report(Kind::StaleInstruction, &used, right);
                self.explain(
                    &mut report,
                    newer,
                    checker.writer(right),
                    "the instruction that was fetched",
                    &self.invalidate_instruction_name(address),
                );
                checker.report(report);
            } else {
                let context = self.context();
                checker.verified_line = (checker.epoch, address & !31, slot, context);
            }
        }
        board.checker = Some(checker);
    }

    fn invalidate_instruction_name(&self, address: u32) -> String {
        match self.kind {
            mmulab_machine::ArmCoprocessor::Sa1100 => {
                "invalidate the instruction cache (c7, c5, 0)".to_owned()
            }
            _ => format!("invalidate the instruction cache line of {address:#010x} (c7, c5, 1)"),
        }
    }

    /// A load or store was refused.
    pub(crate) fn check_refusal(&mut self, board: &mut Board, fault: Fault, write: bool) {
        let access = if write { AccessKind::Store } else { AccessKind::Load };
        self.check_refused(board, &Use { access, address: fault.address, side: Side::Data, write });
    }

    /// A fetch was refused.
    pub(crate) fn check_fetch_refusal(&mut self, board: &mut Board, fault: Fault) {
        let used = Use {
            access: AccessKind::Fetch,
            address: fault.address,
            side: Side::Instruction,
            write: false,
        };
        self.check_refused(board, &used);
    }

    fn check_refused(&mut self, board: &mut Board, used: &Use) {
        let Some(mut checker) = board.checker.take() else { return };
        let found = checker.walk(self.registers.table, used.address, self.extended_pages());
        if let Ok(right) = &found.result
            && self.refused(right, used.address, used.write).is_none()
        {
            // A stale walk has its own report; here it is the entry that is old.
            if self.entry_now(used.address, used.side).is_some() {
                let physical = physical_of(right, used.address);
                let mut report = self.new_report(Kind::SpuriousFault, used, physical);
                report.stale = "the TLB entry forbids what the tables permit".to_owned();
                report.since = self.table_change(&checker, &found);
                report.missing = self.tlb_operation_name(used.side).to_owned();
                checker.report(report);
            }
        }
        board.checker = Some(checker);
    }

    /// A table walk read memory.
    pub(crate) fn check_walk(&mut self, board: &mut Board, found: &Walk, address: u32) {
        let Some(mut checker) = board.checker.take() else { return };
        checker.epoch += 1;
        checker.note_tables(found);
        let used = Use { access: AccessKind::Walk, address, side: Side::Data, write: false };
        for (at, value) in [Some(found.first), found.second].into_iter().flatten() {
            let Some(newest) = checker.word(at) else { continue };
            if newest != value {
                let newer = self.find_newer(board, &checker, at, newest);
                let mut report = self.new_report(Kind::StaleWalk, &used, at);
                self.explain(
                    &mut report,
                    newer,
                    checker.writer(at),
                    &format!("the descriptor at physical {at:#010x}"),
                    "",
                );
                if let Ok(entered) = &found.result {
                    checker.stale_walks.insert((first_of_page(entered, address), report.since));
                }
                checker.report(report);
                break;
            }
        }
        board.checker = Some(checker);
    }

    /// Dirty halves of a line go towards memory: if memory is newer, remember who spoilt it.
    pub(crate) fn check_write_back(
        &mut self,
        board: &mut Board,
        physical: u32,
        data: &[u32; 8],
        halves: u8,
        tag: u32,
    ) {
        let Some(checker) = &mut board.checker else { return };
        for (word, &held) in data.iter().enumerate() {
            let index = (physical >> 2) as usize + word;
            let (Some(&newest), Some(&now)) = (checker.words.get(index), board.ram.get(index))
            else {
                continue;
            };
            if halves >> (word / 4) & 1 != 0 && held != newest && now == newest {
                checker.lost.insert(physical & !31, Newer::Overwritten(tag & !1));
            }
        }
    }

    /// A dirty line is emptied without being written back.
    pub(crate) fn check_drop(&mut self, board: &mut Board, slot: usize) {
        let pc = self.pc;
        let (halves, physical) = (self.dirty(slot), self.line_physical[slot]);
        let Some(checker) = &mut board.checker else { return };
        if halves != 0 && self.line_tags[slot] != 0 {
            checker.lost.insert(physical & !31, Newer::Dropped(pc));
        }
    }
}

/// The bits of an aligned word that an access of `size` bytes reads.
fn byte_mask(address: u32, size: u32) -> u32 {
    match size {
        1 => 0xff << (8 * (address & 3)),
        2 => 0xffff << (8 * (address & 2)),
        _ => !0,
    }
}
