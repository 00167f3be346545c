//! The checker: beside every access, would a coherent machine have given the same answer?
//!
//! It keeps what no cache can spoil: the newest value of each word of RAM, with the instruction and
//! the address that stored it. A fetch, load, store or table walk is compared with what a machine
//! would do that walks the current tables through the newest values, holds no stale translation and
//! has one copy of each word. docs/checker.md tells what counts and what does not.

mod attributes;
mod changes;
mod explain;
mod known;
mod report;
mod reset;
mod rules;
mod store_order;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use mmulab_hardware::{HeldLine, Line};
use mmulab_machine::CachesAtReset;

use crate::bus::Bus;
use crate::core::{Core, Mmu, Side, Translation, Walk};
use crate::maintenance::{Maintenance, Scope, Unit};
use crate::memory::CoreMemory;
use crate::observer::{Access, Load, Observer, Source, Store};
use crate::ram::Ram;

use attributes::LineUses;
use changes::Changes;
use explain::{Newer, OldCopy};
use known::{Holder, Known};
pub use report::{AccessKind, Kind, Permitted, Report};
use reset::Invalidated;
use store_order::StoreOrder;
use tables::Tables;

/// Reports kept; a guest that is wrong everywhere is told so often enough.
pub(crate) const MAX_REPORTS: usize = 1000;

/// Who stored a word last.
#[derive(Clone, Copy, Default)]
struct Writer {
    pc: u32,
    address: u32,
    core: usize,
}

/// What is used at the moment: enough to judge and to report.
struct Use {
    access: AccessKind,
    address: u32,
    side: Side,
    write: bool,
}

impl Use {
    fn new(access: Access, address: u32) -> Use {
        let (access, side, write) = match access {
            Access::Fetch => (AccessKind::Fetch, Side::Instruction, false),
            Access::Load => (AccessKind::Load, Side::Data, false),
            Access::Store => (AccessKind::Store, Side::Data, true),
        };
        Use { access, address, side, write }
    }

    fn of_store(store: &Store) -> Use {
        Use::new(Access::Store, store.address)
    }

    /// What [`Known`] tells pages apart by.
    #[inline(always)]
    fn kind(&self) -> u8 {
        u8::from(self.side == Side::Instruction) | u8::from(self.write) << 1
    }
}

/// The checker's memory.
pub struct Checker {
    /// Where RAM begins.
    base: u32,
    /// Newest value of each word of RAM.
    words: Vec<u32>,
    /// Who stored each word last: PC and address. Arrays of integers are allocated as zero pages.
    writers: Vec<[u32; 2]>,
    /// On which core; empty while only core 0 has stored.
    writer_cores: Vec<u8>,
    /// Where the descriptors are.
    tables: Tables,
    /// Changes of tables and code that are not over on every core.
    changes: Changes,
    /// By core, where caches and TLBs hold anything at reset: what was invalidated since.
    invalidated: Vec<Invalidated>,
    /// In which order stores are seen.
    store_order: StoreOrder,
    /// What caches may hold, where software must not rely on what they do hold.
    line_uses: Option<LineUses>,
    /// What needs no second look.
    known: Known,
    /// Last write of each core's table base or control register: time and PC.
    table_registers: Vec<(u64, u32)>,
    /// Words of RAM whose newest value is lost: by what.
    lost: BTreeMap<u32, Newer>,
    /// By core, space and page the TLB entries that came from a walk that was reported: they have
    /// no other cause.
    stale_walks: BTreeSet<(usize, u16, u32)>,
    causes: BTreeMap<(Kind, u32, u32), usize>,
    /// What was found, in order.
    pub reports: Vec<Report>,
}

mmulab_state::state!(Checker {
    tables,
    changes,
    invalidated,
    store_order,
    known,
    table_registers,
    lost,
    stale_walks,
    causes,
    reports,
} anew { writer_cores } optional { line_uses } sparse { words, writers } built { base });

impl Checker {
    /// A checker for a machine of some cores whose memory holds `ram` and whose caches are empty,
    /// or hold anything.
    pub fn new<C: Core>(ram: &Ram, cores: usize, at_reset: CachesAtReset) -> Checker {
        let (base, ram) = (ram.base(), ram.words());
        // Only what is not zero is copied: the rest of RAM stays untouched, and costs no memory.
        let mut words = vec![0; ram.len()];
        for (to, from) in words.chunks_mut(1024).zip(ram.chunks(1024)) {
            if from.iter().any(|&word| word != 0) {
                to.copy_from_slice(from);
            }
        }
        Checker {
            base,
            words,
            writers: vec![[0; 2]; ram.len()],
            writer_cores: Vec::new(),
            tables: Tables::new(base, ram.len(), cores),
            changes: Changes::default(),
            invalidated: match at_reset {
                CachesAtReset::Invalid => Vec::new(),
                CachesAtReset::Unknown => vec![Invalidated::default(); cores],
            },
            store_order: StoreOrder::default(),
            line_uses: C::COHERENT.then(|| LineUses::new(base, ram.len())),
            known: Known::new(base, ram.len()),
            table_registers: Vec::new(),
            lost: BTreeMap::new(),
            stale_walks: BTreeSet::new(),
            causes: BTreeMap::new(),
            reports: Vec::new(),
        }
    }

    /// The place of a word.
    #[inline(always)]
    fn index(&self, physical: u32) -> usize {
        (physical.wrapping_sub(self.base) >> 2) as usize
    }

    fn word(&self, physical: u32) -> Option<u32> {
        self.words.get(self.index(physical)).copied()
    }

    fn writer(&self, physical: u32) -> Writer {
        let index = self.index(physical);
        let [pc, address] = self.writers.get(index).copied().unwrap_or_default();
        let core = self.writer_cores.get(index).copied().unwrap_or_default();
        Writer { pc, address, core: usize::from(core) }
    }

    /// The walk that a coherent machine would do; its descriptors are tables from here on.
    fn walk<C: Core>(&mut self, core: &CoreMemory<C>, address: u32) -> Walk {
        let found = core.mmu.walk(address, |at| self.word(at).unwrap_or(0));
        self.note_tables(core, &found, address);
        found
    }

    /// The blocks that a walk read hold tables from here on.
    fn note_tables<C: Core>(&mut self, core: &CoreMemory<C>, found: &Walk, address: u32) {
        let mmu = &core.mmu;
        let shift = |level| mmu.level_shift(level);
        if self.tables.note_walk(core.number, found, address, mmu.asid(), shift) {
            self.note_other_sixteenths(core, found);
        }
    }

    /// Notes a store, which went through the caches if it is `cached`, and `through` a data cache
    /// line that is known to have the newest words, or elsewhere. Returns whether what is known of
    /// instructions changed.
    #[inline(always)]
    fn store(
        &mut self,
        physical: u32,
        (value, mask): (u32, u32),
        writer: Writer,
        now: u64,
        cached: bool,
        through: Option<Holder>,
    ) -> bool {
        let index = self.index(physical);
        let Some(word) = self.words.get_mut(index) else { return false };
        *word = *word & !mask | value & mask;
        self.writers[index] = [writer.pc, writer.address];
        if writer.core != 0 && self.writer_cores.is_empty() {
            self.writer_cores = vec![0; self.words.len()];
        }
        if let Some(core) = self.writer_cores.get_mut(index) {
            *core = writer.core as u8;
        }
        if let (Some(uses), true) = (&mut self.line_uses, cached) {
            uses.store(physical, mask);
        }
        let mut changed = self.known.stored(physical, through);
        if self.tables.flags(physical) & tables::TABLE != 0 {
            self.tables.note_write(physical, now);
            self.known.discard_pages();
            changed = true;
        }
        if self.changes.are_unfinished() {
            self.changes.stored(writer.core, physical);
        }
        if !self.lost.is_empty() && mask == !0 {
            self.lost.remove(&(physical & !3)); // what is written again is not lost any more
        }
        changed
    }

    fn report(&mut self, report: Report) {
        let key = (report.kind, report.since, if report.since == 0 { report.pc } else { 0 });
        if let Some(&index) = self.causes.get(&key) {
            self.reports[index].times += 1;
            return;
        }
        if self.reports.len() < MAX_REPORTS {
            self.causes.insert(key, self.reports.len());
            self.reports.push(report);
        }
    }
}

/// What last changed a translation, or stored a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    pc: u32,
    core: usize,
}

mmulab_state::value!(Origin { pc, core });

fn new_report<C: Core>(core: &CoreMemory<C>, kind: Kind, used: &Use, physical: u32) -> Report {
    Report {
        kind,
        access: used.access,
        core: core.number,
        pc: core.pc,
        pc_location: String::new(),
        address: used.address,
        physical,
        space: core.mmu.space(),
        stale: String::new(),
        since: 0,
        since_core: core.number,
        since_location: String::new(),
        missing: String::new(),
        cycle: core.now(),
        times: 1,
        text: String::new(),
    }
}

impl Report {
    fn since(&mut self, origin: Origin) {
        self.since = origin.pc;
        self.since_core = origin.core;
    }
}

/// What an entry of a TLB is known by: the core, the space and the page.
fn identity<C: Core>(core: &CoreMemory<C>, entry: &Translation, address: u32) -> (usize, u16, u32) {
    (core.number, core.mmu.asid(), entry.first_of_page(address))
}

fn entry_now<C: Core>(core: &CoreMemory<C>, used: &Use) -> Option<Translation> {
    core.peek_entry(used.address, used.side).map(|entry| entry.payload)
}

fn invalidate_translation_name<C: Core>(core: &CoreMemory<C>, side: Side) -> &'static str {
    let names = core.mmu.maintenance();
    match side {
        Side::Data => names.invalidate_data_translation,
        Side::Instruction => names.invalidate_fetch_translation,
    }
}

/// An operation's name with the address of the line that it is for.
fn on_line(name: &str, address: u32) -> String {
    name.replace("{line}", &format!("{address:#010x}"))
}

impl Checker {
    /// Compares what the TLB said with the tables; gives the physical address that a coherent
    /// machine would use.
    fn check_translation<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        used: &Use,
        physical: u32,
    ) -> u32 {
        if !core.mmu.is_on() {
            return used.address;
        }
        let address = used.address;
        let (tag, kind) = (address & !0xfff | core.context(), used.kind());
        if core.unsynchronised.is_none() && self.known.has_page(core.number, tag, kind, physical) {
            return physical;
        }
        let found = self.walk(core, address);
        let is_open = self.is_open(&found);
        let entry = entry_now(core, used);
        // Attribute bits that mean the same as the control registers are now make no difference.
        let effective = |page: Translation| core.mmu.effective_type(page.memory_type, used.side);
        let (stale, right) = match (&found.result, &entry) {
            (Err(_), _) => (Some("the tables have no translation".to_owned()), physical),
            (Ok(right), entry) => {
                let right_physical = right.physical_of(address);
                let reason = if right_physical != physical
                    && entry.is_none_or(|entry| entry.physical_of(address) != right_physical)
                {
                    Some(format!("the tables say physical {right_physical:#010x}"))
                } else if entry.is_some_and(|entry| entry.domain != right.domain) {
                    Some(format!("the tables say domain {}", right.domain))
                } else if entry.is_some_and(|entry| effective(entry) != effective(*right)) {
                    Some("the tables say other cacheable and bufferable bits".to_owned())
                } else if rules::refusal(core, &core.mmu, used, right).is_some() {
                    Some("the tables forbid the access".to_owned())
                } else {
                    None
                };
                let settled = core.unsynchronised.is_none() && !is_open;
                if reason.is_none()
                    && settled
                    && core.mmu.is_uniform(right)
                    && right_physical == physical
                {
                    self.known.note_page(core.number, tag, kind, physical);
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
                        entry.physical_of(address),
                        entry.domain
                    )
                },
            );
            let mut report = new_report(core, Kind::StaleTlbEntry, used, right);
            report.stale = format!("the TLB holds {held}, but {reason}");
            report.since(self.table_change(core, &found));
            if entry.is_some_and(|held| self.stale_walks.contains(&identity(core, &held, address)))
            {
                return right;
            }
            report.missing = self.invalidation(core, bus, used, &found);
            if core.tlb(used.side).is_locked(address, core.mmu.asid()) {
                report.missing = format!(
                    "{}; the entry is locked down and survives the invalidation of all",
                    report.missing
                );
            } else if core.mmu.asid() != 0 && entry.is_some_and(|held| held.global) {
                report.missing =
                    format!("{}; the entry is global, so it serves all spaces", report.missing);
            }
            self.judge_old_entry(&found, entry, address, report);
        } else {
            if is_open {
                self.check_progress(core, used, &found, right);
            }
            if let Some((before, since)) = &core.unsynchronised {
                self.check_registers(core, used, (before, *since), &found);
            }
        }
        right
    }

    /// Where the newest value of a descriptor is, when a walk reads an older one, and what the walk
    /// reads.
    fn find_newer_descriptor<C: Core>(
        &self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        at: u32,
        newest: u32,
    ) -> (Newer, OldCopy) {
        let newer = self.find_newer(core, bus, at, newest);
        // Walks of these cores look into the data cache.
        let drop = on_line(core.mmu.maintenance().invalidate_line, at);
        let is_held = C::COHERENT && newer == Newer::Memory;
        (newer, if is_held { OldCopy::Clean(drop) } else { OldCopy::None })
    }

    /// What lets an access find the translation of the current tables: the invalidation of the old
    /// entry, after what brings the descriptors to where the next walk reads them.
    fn invalidation<C: Core>(
        &self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        used: &Use,
        found: &Walk,
    ) -> String {
        let invalidate = invalidate_translation_name(core, used.side);
        let unseen = found
            .descriptors()
            .iter()
            .find(|&&(at, newest)| core.table_word(bus, used.address, at) != newest);
        let Some(&(at, newest)) = unseen else { return invalidate.to_owned() };
        let (newer, copy) = self.find_newer_descriptor(core, bus, at, newest);
        format!("{}, then {invalidate}", self.place_and_operation(core, newer, at, &copy).1)
    }

    /// What last changed a translation: the write of a descriptor, or of the table base.
    fn table_change<C: Core>(&self, core: &CoreMemory<C>, found: &Walk) -> Origin {
        let descriptors = found.descriptors().iter().map(|&(at, _)| {
            let writer = self.writer(at);
            (self.tables.written_at(at), writer.pc, writer.core)
        });
        let register = self.table_registers.get(core.number).copied().unwrap_or_default();
        let register = (register.0, register.1, core.number);
        let (_, pc, core) = descriptors.chain([register]).max().unwrap_or(register);
        Origin { pc, core }
    }

    /// The physical line that the line is of that serves an access, if it is another.
    fn check_line_address<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        used: &Use,
        right: u32,
    ) -> Option<u32> {
        let held = core.dcache.physical(core.slot_held_for(used.address, right)?);
        // Lines of devices and of the zero bank have no newest word to be compared with.
        if held == C::DataLine::base(right) || !bus.is_ram(right) {
            return None;
        }
        let mut report = new_report(core, Kind::DataHomonym, used, right);
        report.stale = format!(
            "the data cache line is of physical {held:#010x}, the address is now physical {:#010x}",
            C::DataLine::base(right)
        );
        let found = self.walk(core, used.address);
        report.since(self.table_change(core, &found));
        report.missing = format!(
            "clean and invalidate the data cache line of {:#010x} at the change of its mapping",
            C::DataLine::base(used.address)
        );
        self.report(report);
        Some(held)
    }

    #[inline(never)]
    fn check_fetch<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        address: u32,
        physical: u32,
        slot: usize,
        length: u32,
    ) -> bool {
        let used = Use::new(Access::Fetch, address);
        let right = self.check_translation(core, bus, &used, physical);
        let names = core.mmu.maintenance();
        let invalidate = on_line(names.invalidate_instructions, address);
        if right != physical {
            let entry = entry_now(core, &used);
            if entry.is_some_and(|entry| entry.physical_of(address) == right) {
                let mut report = new_report(core, Kind::InstructionHomonym, &used, right);
                report.stale = format!(
                    "the instruction cache line is of physical {:#010x}, the address is now \
                     physical {:#010x}",
                    C::FetchLine::base(physical),
                    C::FetchLine::base(right)
                );
                let found = self.walk(core, address);
                report.since(self.table_change(core, &found));
                report.missing = invalidate;
                self.report(report);
            }
        } else if let Some(newest) = self.word(right) {
            let word = core.fetch.lines[slot][C::FetchLine::word(address)];
            let mask = byte_mask(address, length);
            if (newest ^ word) & mask != 0 {
                let newer = self.find_newer(core, bus, right, newest);
                let mut report = new_report(core, Kind::StaleInstruction, &used, right);
                let invalidate =
                    format!("{invalidate}{}", if C::COHERENT { rules::BARRIERS } else { "" });
                // A store past the caches leaves what these hold of the line, which the next fetch
                // finds.
                let passed = matches!(newer, Newer::Memory | Newer::Buffer);
                let copy = match core.held_word(bus, right) {
                    Some(held) if passed && C::COHERENT && held != newest => {
                        let drop = on_line(names.invalidate_line, address);
                        OldCopy::Clean(format!("{drop}, then {invalidate}"))
                    }
                    _ => OldCopy::Clean(invalidate),
                };
                let what = "the instruction that was fetched";
                self.explain(core, &mut report, newer, right, what, &copy);
                self.report(report);
            } else if self.changes.has_code::<C::FetchLine>(C::FetchLine::base(right)) {
                self.check_code(core, &used, right, (newest, mask));
            } else {
                return self.know_fetch_line(core, address, right, slot);
            }
        }
        false
    }

    /// If all words of an instruction cache line are the newest, notes it: its instructions need no
    /// look. Its page is right.
    fn know_fetch_line<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        address: u32,
        physical: u32,
        slot: usize,
    ) -> bool {
        let (line, bytes) = (C::FetchLine::base(physical), C::FetchLine::BYTES);
        let used = Use::new(Access::Fetch, address);
        let tag = address & !0xfff | core.context();
        let translated =
            !core.mmu.is_on() || self.known.has_page(core.number, tag, used.kind(), physical);
        let first = self.index(line);
        let newest = self.words.get(first..first + C::FetchLine::WORDS);
        if core.is_scratch(slot) || !translated || newest != Some(core.fetch.lines[slot].as_ref()) {
            return false;
        }
        let place = (C::FetchLine::base(address), core.context());
        self.known.note_fetch_line((core.number, slot), place, (line, bytes));
        true
    }

    /// Whether the instructions of a line need no look.
    #[inline(always)]
    pub(crate) fn knows_fetch_line<C: Core>(&self, core: &CoreMemory<C>, slot: usize) -> bool {
        if core.unsynchronised.is_some() {
            return false;
        }
        let line = C::FetchLine::base(core.relocated(core.pc));
        self.known.has_fetch_line(core.number, slot, line, core.context())
    }

    /// Looks at an instruction. Returns whether the rest of its line needs no look.
    pub(crate) fn look_at_fetch<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        slot: usize,
        length: u32,
    ) -> bool {
        let address = core.relocated(core.pc);
        let physical = core.fetch.line_physical[slot] | address & (C::FetchLine::BYTES - 1);
        self.check_fetch(core, bus, address, physical, slot, length)
    }

    /// If all words of a data cache line are the newest, notes it. The line is of this physical
    /// address, and the page is right.
    fn know_data_line<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        address: u32,
        physical: u32,
    ) -> Option<Holder> {
        let slot = core.hinted_slot(address, physical)?;
        let line = C::DataLine::base(physical);
        if !self.store_order.is_empty() && self.store_order.concerns(line, C::DataLine::BYTES) {
            return None;
        }
        if let Some(holder) = self.known.data_line(core.number, slot) {
            return Some(holder);
        }
        if self.line_uses.as_mut().is_some_and(|uses| uses.was_passed(line)) {
            return None;
        }
        let first = self.index(C::DataLine::base(physical));
        let newest = self.words.get(first..first + C::DataLine::WORDS)?;
        if core.dcache.physical(slot) != C::DataLine::base(physical)
            || core.dcache.words(slot).as_ref() != newest
        {
            return None;
        }
        self.known.note_data_line(core.number, slot, line, C::DataLine::BYTES);
        self.known.data_line(core.number, slot)
    }

    /// Whether a load from a slot of the data cache needs no look.
    #[inline(always)]
    pub(crate) fn knows_load<C: Core>(
        &self,
        core: &CoreMemory<C>,
        address: u32,
        physical: u32,
        slot: usize,
    ) -> bool {
        let tag = address & !0xfff | core.context();
        core.unsynchronised.is_none()
            && !self.changes.are_unfinished()
            && self.known.has_page(core.number, tag, 0, physical)
            && self.known.data_line(core.number, slot).is_some()
    }

    /// A store is seen by all cores from here on. A coherent machine would do it at the physical
    /// address `right`.
    fn perform<C: Core>(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store, right: u32) {
        let &Store { pc, address, physical, cached, value, mask, .. } = store;
        let used = Use::of_store(store);
        let (mut through, mut misplaced) = (None, None);
        if right != physical {
            misplaced = Some(physical);
        } else if cached {
            let other_line = self.check_line_address(core, bus, &used, right);
            misplaced = other_line.map(|line| line + right % C::DataLine::BYTES);
            if misplaced.is_none() {
                through = self.know_data_line(core, address, right);
            }
        }
        let writer = Writer { pc, address, core: core.number };
        if self.tables.flags(right) != 0 {
            self.check_table_store(core, bus, &Store { physical: right, ..*store });
        }
        if !cached {
            self.check_store_past(core, &used, right);
        }
        self.store(right, (value, mask), writer, core.now(), cached, through);
        if let Some(place) = misplaced {
            self.lost.insert(right & !3, Newer::Misplaced(place & !3));
            self.lost.insert(place & !3, Newer::Misled(pc));
        }
    }

    /// Notes a store to a slot of the data cache, if it needs no look: whether what is known of
    /// instructions changed.
    #[inline(always)]
    pub(crate) fn store_known<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        store: &Store,
        slot: usize,
    ) -> Option<bool> {
        let &Store { pc, address, physical, value, mask, .. } = store;
        let tag = address & !0xfff | core.context();
        if core.unsynchronised.is_some()
            || !self.known.has_page(core.number, tag, 2, physical)
            || self.tables.flags(physical) != 0
        {
            return None;
        }
        let holder = self.known.data_line(core.number, slot)?;
        self.store_order.store(physical, Origin { pc, core: core.number });
        let writer = Writer { pc, address, core: core.number };
        Some(self.store(physical, (value, mask), writer, core.now(), true, Some(holder)))
    }
}

impl<C: Core> Observer<C> for Checker {
    fn fetched(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, slot: usize, length: u32) {
        if !self.knows_fetch_line(core, slot) {
            self.look_at_fetch(core, bus, slot, length);
        }
    }

    fn filled(&mut self, core: &CoreMemory<C>, side: Side, slot: usize) {
        match side {
            Side::Instruction => self.known.discard_fetch_line(core.number, slot),
            Side::Data => self.known.discard_data_line(core.number, slot),
        }
    }

    fn loaded(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, load: &Load) {
        let &Load { address, physical, source, size, word } = load;
        let used = Use::new(Access::Load, address);
        let right = self.check_translation(core, bus, &used, physical);
        let reported = right != physical
            || source == Source::DataCache
                && self.check_line_address(core, bus, &used, right).is_some();
        if self.changes.are_unfinished() {
            self.changes.loaded(core.number, right);
        }
        if !self.store_order.is_empty() {
            self.check_order(core, &used, right);
        }
        let (Some(newest), false) = (self.word(right), reported) else { return };
        let is_old = (newest ^ word) & byte_mask(address, size) != 0;
        self.check_load_type(core, &used, right, source == Source::DataCache, is_old);
        if !is_old {
            if source == Source::DataCache {
                self.know_data_line(core, address, right);
            }
            return;
        }
        let mut newer = self.find_newer(core, bus, right, newest);
        if (source, newer) == (Source::ReadBuffer, Newer::Buffer) {
            // On its way to memory, where a new fetch finds it.
            newer = Newer::Memory;
        }
        let names = core.mmu.maintenance();
        let (kind, what, copy) = match (source, newer) {
            (Source::ReadBuffer, _) => {
                let drop = names.empty_read_buffer.to_owned();
                (Kind::StaleReadBuffer, "the read buffer", OldCopy::Clean(drop))
            }
            (
                Source::DataCache,
                Newer::Memory
                | Newer::SecondLevel
                | Newer::DirtyLine(_)
                | Newer::Buffer
                | Newer::DirtyElsewhere(..)
                | Newer::BufferElsewhere(_),
            ) => {
                let slot = core.slot_held_for(address, right);
                let copy = match slot.is_some_and(|slot| core.dcache.dirty(slot) != 0) {
                    true => OldCopy::Dirty(format!(
                        "clean and invalidate the data cache line of {address:#010x}"
                    )),
                    false => OldCopy::Clean(on_line(names.invalidate_line, address)),
                };
                (Kind::StaleDataLine, "the data cache line", copy)
            }
            _ => (Kind::StaleMemory, "memory", OldCopy::None),
        };
        let mut report = new_report(core, kind, &used, right);
        self.explain(core, &mut report, newer, right, what, &copy);
        self.report(report);
    }

    fn storing(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        let right = self.check_translation(core, bus, &Use::of_store(store), store.physical);
        self.store_order.store(right, Origin { pc: store.pc, core: core.number });
        self.perform(core, bus, store, right);
    }

    fn putting_off(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        self.check_translation(core, bus, &Use::of_store(store), store.physical);
        self.known.discard_holders(C::DataLine::base(store.physical), C::DataLine::BYTES);
        self.store_order.put_off(store.physical, Origin { pc: store.pc, core: core.number });
    }

    fn performing(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        let by = Origin { pc: store.pc, core: core.number };
        self.store_order.perform_waiting(store.physical, by);
        self.perform(core, bus, store, store.physical);
    }

    fn refused(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, access: Access, address: u32) {
        let used = Use::new(access, address);
        let found = self.walk(core, address);
        // A stale walk has its own report; here it is the entry that is old, or what the walk began
        // with.
        let entry = entry_now(core, &used);
        let stale = if entry.is_some() {
            "the TLB entry forbids what the tables permit"
        } else if core
            .kept_link(address)
            .is_some_and(|kept| found.descriptors().first() != Some(&kept))
        {
            "the walk cache holds a descriptor that is not in the tables any more"
        } else {
            return;
        };
        if let Ok(right) = &found.result
            && rules::refusal(core, &core.mmu, &used, right).is_none()
        {
            let physical = right.physical_of(address);
            let mut report = new_report(core, Kind::SpuriousFault, &used, physical);
            report.stale = stale.to_owned();
            report.since(self.table_change(core, &found));
            report.missing = self.invalidation(core, bus, &used, &found);
            self.judge_old_entry(&found, entry, address, report);
        }
    }

    fn walked(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, found: &Walk, address: u32) {
        self.known.discard_pages();
        self.note_tables(core, found, address);
        let used = Use { access: AccessKind::Walk, ..Use::new(Access::Load, address) };
        for &(at, value) in found.descriptors_read() {
            let Some(newest) = self.word(at) else { continue };
            if newest != value {
                let (newer, copy) = self.find_newer_descriptor(core, bus, at, newest);
                let mut report = new_report(core, Kind::StaleWalk, &used, at);
                let what = format!("the descriptor at physical {at:#010x}");
                self.explain(core, &mut report, newer, at, &what, &copy);
                if let Ok(entered) = &found.result {
                    self.stale_walks.insert(identity(core, entered, address));
                }
                self.report(report);
                return;
            }
        }
        if let (Ok(entered), false) = (&found.result, self.stale_walks.is_empty()) {
            self.stale_walks.remove(&identity(core, entered, address));
        }
    }

    /// If memory, or what waits in the write buffer, is newer than what is written back, remember
    /// who spoilt it.
    fn writing_back(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, line: &HeldLine<C::DataLine>) {
        for (word, &held) in line.words.as_ref().iter().enumerate() {
            let at = line.physical + 4 * word as u32;
            let (Some(newest), Some(now)) = (self.word(at), bus.ram.get(at)) else {
                continue;
            };
            let dirty = line.dirty & C::DataLine::half_of_word(word) != 0;
            if dirty && held != newest && (now == newest || explain::is_buffered(core, at)) {
                self.lost.insert(at, Newer::Overwritten(line.tag));
            }
        }
    }

    fn discarding(&mut self, core: &CoreMemory<C>, _: &Bus<C>, line: &HeldLine<C::DataLine>) {
        if line.dirty != 0 {
            for offset in (0..C::DataLine::BYTES).step_by(4) {
                self.lost.insert(line.physical + offset, Newer::Dropped(core.pc));
            }
        }
    }

    fn translations_changed(&mut self, _: &CoreMemory<C>, _: &Bus<C>) {
        self.known.discard_pages();
    }

    fn space_changed(&mut self, core: &CoreMemory<C>) {
        if core.mmu.level_shift(0).is_some() {
            let first = core.mmu.walk(0, |_| 0).descriptors().first().copied();
            self.tables.enter(core.number, core.mmu.asid(), first.unwrap_or_default().0);
        }
    }

    fn tables_changed(&mut self, core: &CoreMemory<C>, _: &Bus<C>) {
        self.known.discard_pages();
        if self.table_registers.len() <= core.number {
            self.table_registers.resize(core.number + 1, (0, 0));
        }
        self.table_registers[core.number] = (core.now(), core.pc);
    }

    fn maintaining(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, maintenance: Maintenance) {
        for (number, invalidated) in self.invalidated.iter_mut().enumerate() {
            if bus.is_on(number) {
                invalidated.note(maintenance, number == core.number);
            }
        }
        if let Some(uses) = &mut self.line_uses {
            match maintenance {
                Maintenance::Line { physical, operation, point } => {
                    uses.operate(physical, operation, point);
                    self.known.discard_holders(C::DataLine::base(physical), C::DataLine::BYTES);
                }
                Maintenance::Slot { operation, .. } => {
                    uses.operate_by_slot(operation);
                    // Loads that need no look do not tell of the lines that they use from here on.
                    self.known.discard_pages();
                }
                _ => {}
            }
        }
        if core.mmu.level_shift(0).is_some() {
            let (words, base) = (&self.words, self.base);
            let newest = |at: u32| words.get((at.wrapping_sub(base) >> 2) as usize).copied();
            self.changes.maintain(core, bus, &self.tables, maintenance, newest);
            if let Maintenance::Translations { scope: Scope::All, everywhere } = maintenance {
                let cores = 0..bus.core_count();
                cores
                    .filter(|&number| everywhere || number == core.number)
                    .for_each(|number| self.tables.forget_walks(number));
            }
            self.clear_flags();
        }
    }

    fn enabling(&mut self, core: &CoreMemory<C>, units: &[Unit]) {
        self.check_enabling(core, units);
    }

    fn written_from_outside(&mut self, physical: u32, word: u32) {
        let index = self.index(physical);
        if let Some(known) = self.words.get_mut(index) {
            *known = word;
            self.known.discard_pages();
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
