//! The rules for maintenance on several cores, which docs/checker-rules.md explains and argues for.

use super::changes::{Place, Unsafe};
use super::report::{Kind, Permitted, Report};
use super::tables::{FIRST, LATER, TABLE, Tables, UNLINKED, UNMAPPED};
use super::{Checker, Origin, Use, invalidate_translation_name, new_report, on_line};
use crate::bus::Bus;
use crate::core::{Core, Decode, Descriptor, Mmu, Side, Translation, Walk};
use crate::memory::CoreMemory;
use crate::observer::Store;

/// Pages up to this size are watched for other uses after their mapping was changed.
const MAX_WATCHED_SHIFT: u8 = 16;

/// What an invalidation of old entries or instructions needs beside it (rules 6 to 8, and 10).
pub(super) const BARRIERS: &str = "; a DSB before and after the invalidation, then an ISB";

/// Whether two pages differ in their permissions at most: then one may replace the other at once.
fn differ_in_permissions_only(one: &Translation, other: &Translation) -> bool {
    let less = |page: &Translation| Translation { permissions: 0, domain: 0, ..*page };
    less(one) == less(other)
}

/// Why an access would be refused.
pub(super) fn refusal<C: Core>(
    core: &CoreMemory<C>,
    mmu: &C::Mmu,
    used: &Use,
    page: &Translation,
) -> Option<u32> {
    let privileged = core.is_privileged();
    match used.side {
        Side::Data => mmu.refusal(page, used.address, used.write, privileged),
        Side::Instruction => mmu.fetch_refusal(page, used.address, privileged),
    }
}

fn place_of(origin: Origin) -> String {
    format!("at {:#010x} on core {}", origin.pc, origin.core)
}

/// Adds to an operation, before what is told beside it.
fn add_to_operation(missing: &mut String, text: &str) {
    let end = missing.find(';').unwrap_or(missing.len());
    missing.insert_str(end, text);
}

fn describe(descriptor: Descriptor) -> String {
    match descriptor {
        Descriptor::Invalid => "nothing".to_owned(),
        Descriptor::Table(at) => format!("the table at physical {at:#010x}"),
        Descriptor::Page(page) => {
            let kilobytes = 1u32 << (page.page_shift - 10);
            let memory_type = page.memory_type.name();
            format!("{kilobytes} KB of {memory_type} memory at physical {:#010x}", page.physical)
        }
    }
}

/// Both sides of a change; where they look alike, with what tells them apart.
fn describe_change(was: Descriptor, is: Descriptor) -> [String; 2] {
    let described = [was, is].map(describe);
    if described[0] != described[1] {
        return described;
    }
    [was, is].map(|descriptor| match descriptor {
        Descriptor::Page(page) => format!(
            "{}, {}, attributes {:#x}",
            describe(descriptor),
            if page.global { "global" } else { "of one space" },
            page.attributes
        ),
        _ => describe(descriptor),
    })
}

impl Checker {
    /// What was found, with the uses of old TLB entries whose invalidation never came.
    pub fn findings(&self) -> Vec<Report> {
        let mut all = self.reports.clone();
        for (change, report) in self.changes.deferred() {
            // Taken back, or over: the verdict of the next DSB would be that the use was permitted.
            let Some(change) = change else { continue };
            let same =
                |known: &&mut Report| (known.kind, known.since) == (report.kind, report.since);
            if let Some(known) = all.iter_mut().find(same) {
                known.times += report.times;
                continue;
            }
            let mut report = report.clone();
            if let Some(by) = change.incomplete_on(report.core) {
                report
                    .stale
                    .push_str(&format!("; the invalidation {} is not complete", place_of(by)));
            } else if let Some(by) = change.partly_invalidated_by() {
                report.stale.push_str(&format!(
                    "; the invalidation {} did not reach core {}",
                    place_of(by),
                    report.core
                ));
                add_to_operation(&mut report.missing, " on all cores");
            }
            report.missing.push_str(BARRIERS);
            all.push(report);
        }
        all
    }

    /// Uses of old TLB entries while their invalidation was under way.
    pub fn permitted(&self) -> impl Iterator<Item = &Permitted> {
        self.changes.permitted()
    }

    /// Whether one of a walk's descriptors was changed, and that is not over.
    pub(super) fn is_open(&self, found: &Walk) -> bool {
        !self.changes.is_empty()
            && found.descriptors().iter().any(|&(at, _)| self.changes.of(at).is_some())
    }

    /// An entry was used that is older than the tables. While its invalidation may still come that
    /// is permitted, unless its page serves something else by now, or the entry is of another
    /// space.
    pub(super) fn judge_old_entry(
        &mut self,
        found: &Walk,
        held: Option<Translation>,
        address: u32,
        mut report: Report,
    ) {
        let of_entry = |&(at, _): &(u32, u32)| {
            let change = self.changes.of(at)?;
            held.is_none_or(|held| change.may_have_given(&held, address)).then_some((at, change))
        };
        let Some((at, change)) = found.descriptors().iter().rev().find_map(of_entry) else {
            if self.line_uses.is_some() {
                report.missing.push_str(BARRIERS);
            }
            return self.report(report);
        };
        if change.is_complete_on(report.core) {
            return self.report(report);
        }
        // What was written last may be a register.
        report.since(change.origin);
        if let Some(by) = change.rewritten {
            report.stale.push_str(&format!("; the old page was written {} since", place_of(by)));
            add_to_operation(&mut report.missing, " before the page is used again");
            report.missing.push_str(BARRIERS);
            return self.report(report);
        }
        self.changes.defer(at, report);
    }

    /// An access was translated by what the tables say now. Was that sure?
    pub(super) fn check_progress<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        used: &Use,
        found: &Walk,
        physical: u32,
    ) {
        let this = (core.number, core.synchronisations);
        let Ok(now) = &found.result else { return };
        // Where the old entry means the same for this access, it may as well be used.
        let matters = |old: Descriptor| match old {
            Descriptor::Page(mut old) => {
                // A page's domain stands in the link to its table.
                if core
                    .mmu
                    .level_shift(0)
                    .is_some_and(|section| u32::from(old.page_shift) < section)
                {
                    old.domain = now.domain;
                }
                old.physical_of(used.address) != physical
                    || old.memory_type != now.memory_type
                    || refusal(core, &core.mmu, used, &old).is_some()
            }
            _ => true,
        };
        let Some((why, since)) = self.changes.judge(this, found.descriptors(), matters) else {
            return;
        };
        let mut report = new_report(core, Kind::MissingBarrier, used, physical);
        report.since(since);
        let what = "TLB invalidation";
        Self::explain_unsafe(
            &mut report,
            why,
            what,
            "the old TLB entry",
            "the store of the descriptor",
        );
        self.report(report);
    }

    /// The same for an instruction, which `mask` selects from a word of code.
    pub(super) fn check_code<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        used: &Use,
        physical: u32,
        (word, mask): (u32, u32),
    ) {
        let this = (core.number, core.synchronisations);
        let matters = |old: u32| {
            (old ^ word) & mask != 0 && !(mask == !0 && C::Decoder::may_replace(old, word))
        };
        let Some(why) = self.changes.judge_code(this, physical & !3, matters) else { return };
        let mut report = new_report(core, Kind::MissingBarrier, used, physical);
        let writer = self.writer(physical);
        report.since(Origin { pc: writer.pc, core: writer.core });
        let what = "instruction cache invalidation";
        Self::explain_unsafe(
            &mut report,
            why,
            what,
            "the old instruction",
            "the clean of the line",
        );
        self.report(report);
    }

    fn explain_unsafe(report: &mut Report, why: Unsafe, what: &str, old: &str, before: &str) {
        (report.stale, report.missing) = match why {
            Unsafe::Unordered(by) => (
                format!("{old} may have come back after the {what} {}", place_of(by)),
                format!("DSB between {before} and the {what}"),
            ),
            Unsafe::Incomplete(by) => (
                format!("the {what} {} is not complete: {old} may be used", place_of(by)),
                format!("DSB after the {what}, on core {}", by.core),
            ),
            Unsafe::Unsynchronised(by) => (
                format!(
                    "core {} may have begun this before the {what} {}",
                    report.core,
                    place_of(by)
                ),
                format!("ISB after the DSB that completes the {what}, on core {}", report.core),
            ),
        };
    }

    /// Registers of translation were written and the context was not synchronised since: does the
    /// access mean the same with the old ones?
    pub(super) fn check_registers<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        used: &Use,
        (before, since): (&C::Mmu, u32),
        now: &Walk,
    ) {
        let address = used.address;
        let Ok(now) = &now.result else { return };
        let same = if before.is_on() {
            let old = before.walk(address, |at| self.word(at).unwrap_or(0));
            old.result.is_ok_and(|old| {
                old.physical_of(address) == now.physical_of(address)
                    && (now.global || before.asid() == core.mmu.asid())
                    && refusal(core, before, used, &old) == refusal(core, &core.mmu, used, now)
            })
        } else {
            now.physical_of(address) == address
        };
        if same {
            return;
        }
        let mut report = new_report(core, Kind::MissingBarrier, used, now.physical_of(address));
        report.since = since;
        report.stale = "registers of translation were written, and the core may still use the old \
                        ones for this access"
            .to_owned();
        report.missing = "ISB after the write of the register".to_owned();
        self.report(report);
    }

    /// A load went through the caches or past them. May it have got an old word (it has, if
    /// `is_old`)?
    pub(super) fn check_load_type<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        used: &Use,
        physical: u32,
        cached: bool,
        is_old: bool,
    ) {
        let Some(uses) = &mut self.line_uses else { return };
        let may_be_old = if cached { uses.load(physical) } else { uses.load_past(physical) };
        if !may_be_old || is_old {
            return;
        }
        let writer = self.writer(physical);
        let names = core.mmu.maintenance();
        let mut report = new_report(core, Kind::MismatchedAttributes, used, physical);
        report.since(Origin { pc: writer.pc, core: writer.core });
        (report.stale, report.missing) = if cached {
            (
                format!(
                    "the word was stored past the caches, through {:#010x}, and they may still hold \
                     it as it was before",
                    writer.address
                ),
                on_line(names.invalidate_line, used.address),
            )
        } else {
            (
                format!(
                    "the word was stored through the caches, by {:#010x}, and may not be in memory",
                    writer.address
                ),
                on_line(names.clean_to_memory, writer.address),
            )
        };
        self.report(report);
    }

    /// A store goes past the caches. May these write an older line back over it?
    pub(super) fn check_store_past<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        used: &Use,
        physical: u32,
    ) {
        let dirty = self.line_uses.as_mut().and_then(|uses| uses.store_past(physical));
        let Some(dirty) = dirty else { return };
        let writer = self.writer(dirty);
        let mut report = new_report(core, Kind::MismatchedAttributes, used, physical);
        report.since(Origin { pc: writer.pc, core: writer.core });
        report.stale = format!(
            "{:#010x} of the same line was stored through the caches, which may write the line back \
             over this",
            writer.address
        );
        report.missing = format!(
            "{} and its invalidation, before the store",
            on_line(core.mmu.maintenance().clean_to_memory, writer.address)
        );
        self.report(report);
    }

    /// A word was loaded. Does an older store of another core wait than the reader has seen?
    pub(super) fn check_order<C: Core>(&mut self, core: &CoreMemory<C>, used: &Use, physical: u32) {
        let Some((waiting, later)) = self.store_order.load(core.number, physical) else { return };
        let mut report = new_report(core, Kind::MissingBarrier, used, physical);
        report.since(waiting);
        report.stale = format!(
            "the store {} waits for its line, and the one {} behind it was seen",
            place_of(waiting),
            place_of(later)
        );
        report.missing = format!("DMB between the two stores, on core {}", waiting.core);
        self.report(report);
    }

    /// Memory is written that holds descriptors, or did.
    pub(super) fn check_table_store<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        store: &Store,
    ) {
        let &Store { address, asid, physical, value, mask, .. } = store;
        let Some(old) = self.word(physical) else { return };
        let (new, flags) = (old & !mask | value & mask, self.tables.flags(physical));
        let origin = Origin { pc: store.pc, core: core.number };
        if flags & UNMAPPED != 0 {
            self.changes.rewrite(&self.tables, physical, (address, asid), origin);
        }
        if flags & UNLINKED != 0 && new != old {
            self.check_reuse(core, store, new);
        }
        let level = usize::from(flags & FIRST == 0);
        let shifts = [0, level].map(|level| core.mmu.level_shift(level));
        let [Some(first_shift), Some(shift)] = shifts else { return };
        if flags & (TABLE | UNLINKED) == 0 || old == new {
            return;
        }
        let walkers = self.tables.take_walkers(physical);
        if flags & TABLE == 0 {
            return;
        }
        let live = self.is_live(core, bus, physical, level, shift);
        // What no walk has read is in no TLB.
        let was = match walkers != 0 && live {
            true => core.mmu.descriptor(level, old),
            false => Descriptor::Invalid,
        };
        let is = core.mmu.descriptor(level, new);
        if was == Descriptor::Invalid && !live {
            return;
        }
        let place = self.tables.place_of(physical & !3, first_shift, shift, walkers);
        self.change_descriptor(core, store, (was, is), origin, place);
        self.clear_flags();
    }

    /// Whether a descriptor leads to a table that a walk has found by it, but for the one that is
    /// `gone`.
    fn has_link<C: Core>(&mut self, mmu: &C::Mmu, table: u32, gone: Option<u32>) -> bool {
        let (words, base) = (&self.words, self.base);
        self.tables.find_link(table, |at| {
            let word = words.get((at.wrapping_sub(base) >> 2) as usize);
            let leads = |&word: &u32| mmu.descriptor(0, word) == Descriptor::Table(table);
            gone != Some(at) && word.is_some_and(leads)
        })
    }

    /// Whether the table of a descriptor is one that walks may read: by the registers of some core,
    /// or by a descriptor that was seen to lead to it.
    fn is_live<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        descriptor: u32,
        level: usize,
        shift: u32,
    ) -> bool {
        if level > 0 {
            return self.has_link::<C>(&core.mmu, Tables::first_of_block(descriptor), None);
        }
        let word = |at: u32| self.word(at).unwrap_or(0);
        let address = self.tables.address_of(descriptor, shift);
        let reads = |one: &CoreMemory<C>| {
            let read = one.mmu.is_on().then(|| one.mmu.walk(address, word));
            read.is_some_and(|walk| walk.descriptors().iter().any(|&(at, _)| at == descriptor & !3))
        };
        reads(core) || bus.peers().any(reads)
    }

    /// A descriptor is replaced by another.
    fn change_descriptor<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        store: &Store,
        (was, is): (Descriptor, Descriptor),
        origin: Origin,
        place: Place,
    ) {
        let at = store.physical & !3;
        match (was, is) {
            (Descriptor::Invalid, Descriptor::Invalid) => {}
            (Descriptor::Invalid, _) => self.make(core, store, is, place.address),
            (Descriptor::Page(old), Descriptor::Page(new))
                if differ_in_permissions_only(&old, &new) =>
            {
                self.note_change(core, at, was, origin, true, place);
            }
            // Its domain, or what all of its pages have in common.
            (Descriptor::Table(old), Descriptor::Table(new)) if old == new => {}
            _ => {
                if is != Descriptor::Invalid {
                    let mut report = store_report(core, Kind::BreakBeforeMake, store);
                    report.since(origin);
                    let [before, after] = describe_change(was, is);
                    report.stale = format!(
                        "the descriptor of {:#010x} is changed from {before} to {after} at once",
                        place.address,
                    );
                    report.missing = format!(
                        "an invalid descriptor, DSB, {}, and DSB, before the new descriptor",
                        invalidate_translation_name(core, Side::Data)
                    );
                    self.report(report);
                }
                self.note_change(core, at, was, origin, false, place);
            }
        }
    }

    /// TLBs may hold what a descriptor was.
    fn note_change<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        at: u32,
        was: Descriptor,
        origin: Origin,
        permissions_only: bool,
        place: Place,
    ) {
        self.changes.note(at, was, origin, permissions_only, place);
        match was {
            _ if permissions_only => {}
            Descriptor::Page(page) if page.page_shift <= MAX_WATCHED_SHIFT => {
                let bytes = 1 << page.page_shift;
                let first = page.physical & !(bytes - 1);
                self.tables.set_flags(first, bytes, UNMAPPED, true);
            }
            Descriptor::Table(table) if !self.has_link::<C>(&core.mmu, table, Some(at)) => {
                self.tables.set_flags(table, Tables::BLOCK_BYTES, TABLE, false);
                self.tables.set_flags(table, Tables::BLOCK_BYTES, UNLINKED, true);
            }
            _ => {}
        }
    }

    /// A walk read one of the sixteen descriptors of a large page, so that a TLB holds the whole
    /// page. Those that are no longer, or not yet, the same count as changed: software writes them
    /// one by one.
    pub(super) fn note_other_sixteenths<C: Core>(&mut self, core: &CoreMemory<C>, found: &Walk) {
        let level = found.descriptors().len() - 1;
        let (read, value) = found.descriptors()[level];
        let shifts = [0, level].map(|level| core.mmu.level_shift(level));
        let [Some(first_shift), Some(shift)] = shifts else { return };
        let was = core.mmu.descriptor(level, value);
        for at in (read & !63..).step_by(4).take(16) {
            let Some(word) = self.word(at).filter(|&word| word != value) else { continue };
            let permissions_only = match (was, core.mmu.descriptor(level, word)) {
                (Descriptor::Page(old), Descriptor::Page(new)) => {
                    differ_in_permissions_only(&old, &new)
                }
                _ => false,
            };
            let writer = self.writer(at);
            let place = self.tables.place_of(at, first_shift, shift, 1 << core.number);
            let origin = Origin { pc: writer.pc, core: writer.core };
            self.note_change(core, at, was, origin, permissions_only, place);
        }
    }

    /// A descriptor becomes valid. Was it another before, which TLBs may hold?
    fn make<C: Core>(&mut self, core: &CoreMemory<C>, store: &Store, is: Descriptor, address: u32) {
        let at = store.physical & !3;
        let Some(change) = self.changes.of(at) else { return };
        let (was, since) = (change.old, change.origin);
        match (was, is) {
            _ if was == is => {
                if let Descriptor::Table(table) = was {
                    self.tables.set_flags(table, Tables::BLOCK_BYTES, LATER, true);
                }
                if change.had_others {
                    return self.changes.keep_page(at);
                }
                let walkers = self.changes.discard(at);
                return self.tables.give_walkers(at, walkers);
            }
            (Descriptor::Page(old), Descriptor::Page(new))
                if differ_in_permissions_only(&old, &new) =>
            {
                return self.changes.keep_page(at);
            }
            _ => {}
        }
        if change.is_complete() {
            return;
        }
        let mut report = store_report(core, Kind::BreakBeforeMake, store);
        report.since(since);
        let [before, after] = describe_change(was, is);
        report.stale = format!(
            "the descriptor of {address:#010x} is now {after}, and TLBs may hold {before}, which it was before"
        );
        report.missing = format!(
            "{} and DSB, before the new descriptor",
            invalidate_translation_name(core, Side::Data)
        );
        self.report(report);
    }

    /// Memory of a table is written that was taken out of the tables above.
    fn check_reuse<C: Core>(&mut self, core: &CoreMemory<C>, store: &Store, new: u32) {
        let table = Tables::first_of_block(store.physical);
        if core.mmu.descriptor(1, new) == Descriptor::Invalid {
            return;
        }
        let Some(since) = self.changes.unlinked_by(table) else { return };
        let mut report = store_report(core, Kind::TableReused, store);
        report.since(since);
        report.stale = format!(
            "the table at physical {table:#010x} is used for something else, and a walk may still \
             read it"
        );
        report.missing = format!(
            "{} and DSB, before the table is used again",
            invalidate_translation_name(core, Side::Data)
        );
        self.report(report);
    }

    /// What is over needs no watching.
    pub(super) fn clear_flags(&mut self) {
        for ended in std::mem::take(&mut self.changes.ended) {
            if self.changes.watches(&ended) {
                continue;
            }
            match ended {
                Descriptor::Page(page) if page.page_shift <= MAX_WATCHED_SHIFT => {
                    let bytes = 1 << page.page_shift;
                    let first = page.physical & !(bytes - 1);
                    self.tables.set_flags(first, bytes, UNMAPPED, false);
                }
                Descriptor::Table(table) => {
                    self.tables.set_flags(table, Tables::BLOCK_BYTES, UNLINKED, false);
                    if self.tables.flags(table) & TABLE == 0 {
                        self.tables.forget_table(table);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A report on a store, which may have been executed a while ago.
fn store_report<C: Core>(core: &CoreMemory<C>, kind: Kind, store: &Store) -> Report {
    Report { pc: store.pc, ..new_report(core, kind, &Use::of_store(store), store.physical) }
}
