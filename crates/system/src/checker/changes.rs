//! What several cores may still see of tables and code that were changed, and for how long: the
//! rules of docs/checker-rules.md, from ARM DDI 0406C, B3.10.1 and B2.2.

use std::collections::{BTreeMap, BTreeSet};

use mmulab_hardware::Line;

use crate::bus::Bus;
use crate::core::{Core, Descriptor, Translation};
use crate::maintenance::{LineOperation, Maintenance, Scope};
use crate::memory::CoreMemory;

use super::Origin;
use super::report::{Permitted, Report};
use super::tables::Tables;

/// Changes that are remembered: of as many pages of 4 KB as are in 1 GB. A kernel leaves few open,
/// but `fork` changes all.
const MAX_CHANGES: usize = 1 << 18;
/// Words of code under maintenance that are remembered.
const MAX_CODE: usize = 1 << 13;
/// Old contents of a word of code that are remembered; more than one if cores had different ones.
const MAX_OLD_CODE: usize = 4;
/// Words stored after maintenance that is not complete; from there on none are noted.
const MAX_PUBLISHED: usize = 1 << 12;
/// Uses of old entries that wait for a verdict.
const MAX_DEFERRED: usize = 1 << 10;

/// Why an access is not safe yet although it got the right answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsafe {
    /// The invalidation was not ordered after the store.
    Unordered(Origin),
    /// The invalidation is not complete.
    Incomplete(Origin),
    /// This core's context was not synchronised since.
    Unsynchronised(Origin),
}

/// Maintenance on its way: who invalidated, and which cores it reaches.
#[derive(Clone, Copy, Debug)]
struct Underway {
    by: Origin,
    reach: u32,
}

mmulab_state::value!(Underway { by, reach });

/// Notes maintenance beside that of other cores, together with what the core did before.
fn note_underway(all: &mut Vec<Underway>, by: Origin, reach: u32) {
    let before = all.iter().position(|underway| underway.by.core == by.core);
    let before = before.map_or(0, |at| all.swap_remove(at).reach);
    all.push(Underway { by, reach: reach | before });
}

/// How far the maintenance after a store has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Cores that have executed a DSB since.
    ordered_on: u32,
    /// The cores that an invalidation has reached which a DSB separates from the store.
    ordered_reach: u32,
    /// Invalidations that none does, with the cores that no other has reached.
    not_ordered: Vec<Underway>,
    /// At most one of each core.
    underway: Vec<Underway>,
    /// Cores of which it is complete, and whether these are all.
    complete: u32,
    is_complete: bool,
    /// Cores whose context has to be synchronised since, with their count of synchronisations.
    unsynchronised: Vec<(usize, u64)>,
    last: Option<Origin>,
}

mmulab_state::value!(Progress {
    ordered_on,
    ordered_reach,
    not_ordered,
    underway,
    complete,
    is_complete,
    unsynchronised,
    last,
});

impl Progress {
    fn invalidated(&mut self, writer: usize, by: Origin, reach: u32) {
        if self.ordered_on & (1 << writer | 1 << by.core) != 0 {
            self.ordered_reach |= reach;
        } else if reach & !self.ordered_reach != 0 {
            note_underway(&mut self.not_ordered, by, reach & !self.ordered_reach);
        }
        for invalidation in &mut self.not_ordered {
            // Where one before was not ordered, this one counts.
            self.complete &= !(invalidation.reach & self.ordered_reach);
            invalidation.reach &= !self.ordered_reach;
        }
        self.not_ordered.retain(|invalidation| invalidation.reach != 0);
        note_underway(&mut self.underway, by, reach);
        self.last = Some(by);
    }

    /// A core executed a DSB: the cores that its invalidation reached, if there was one, and of
    /// them those that none reached before.
    fn completed(&mut self, core: usize) -> Option<(u32, u32)> {
        self.ordered_on |= 1 << core;
        let at = self.underway.iter().position(|underway| underway.by.core == core)?;
        let reach = self.underway.swap_remove(at).reach;
        let first = reach & !self.complete;
        self.complete |= reach;
        Some((reach, first))
    }

    /// Of the cores of a mask, these alone have to be synchronised from now on.
    fn await_synchronisation(
        &mut self,
        cores: u32,
        waiting: impl IntoIterator<Item = (usize, u64)>,
    ) {
        self.unsynchronised.retain(|&(core, _)| cores >> core & 1 == 0);
        self.unsynchronised.extend(waiting);
    }

    /// Why an access of a core is not safe yet, if the core has reason to think that it is.
    fn judge(
        &mut self,
        core: usize,
        synchronisations: u64,
        told: impl Fn(usize) -> bool,
    ) -> Option<Unsafe> {
        let reaches = |invalidation: &&Underway| invalidation.reach >> core & 1 != 0;
        if let Some(invalidation) = self.not_ordered.iter().find(reaches) {
            return Some(Unsafe::Unordered(invalidation.by));
        }
        if !self.underway.is_empty() && self.complete >> core & 1 == 0 {
            let reaches_and_told = |one: &&Underway| reaches(one) && told(one.by.core);
            let known = self.underway.iter().find(reaches_and_told);
            return known.map(|underway| Unsafe::Incomplete(underway.by));
        }
        let at = self.unsynchronised.iter().position(|&(waiting, _)| waiting == core)?;
        if self.unsynchronised[at].1 == synchronisations {
            return self.last.map(Unsafe::Unsynchronised);
        }
        self.unsynchronised.swap_remove(at);
        None
    }
}

/// Where a descriptor stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The address that it translates, and the base-two logarithm of the bytes.
    pub(super) address: u32,
    pub(super) shift: u32,
    /// The address space, and its first-level table.
    pub(super) asid: u16,
    pub(super) table: u32,
    /// The cores whose walks have read it, a bit for each.
    pub(super) walkers: u32,
}

/// A descriptor that was changed, while a TLB may hold what it was.
pub(super) struct Change {
    /// What it was.
    pub(super) old: Descriptor,
    /// Who changed it.
    pub(super) origin: Origin,
    /// The permissions alone are others now.
    permissions_only: bool,
    /// It was something else before that, which TLBs may hold as well.
    pub(super) had_others: bool,
    /// What it translates: an address, the base-two logarithm of the bytes, and the space with its
    /// first-level table.
    address: u32,
    shift: u32,
    asid: u16,
    table: u32,
    /// The cores whose walks have read it, and those whose whole TLB was invalidated since,
    /// complete or not.
    walkers: u32,
    emptied: u32,
    progress: Progress,
    /// Who wrote to the old page since, by another address or in another space.
    pub(super) rewritten: Option<Origin>,
}

mmulab_state::value!(Change {
    old,
    origin,
    permissions_only,
    had_others,
    address,
    shift,
    asid,
    table,
    walkers,
    emptied,
    progress,
    rewritten,
});

impl Change {
    fn is_global(&self) -> bool {
        matches!(self.old, Descriptor::Page(page) if page.global)
    }

    fn is_covered(&self, tables: &Tables, scope: Scope) -> bool {
        // The space may have got another identifier since a walk read the descriptor.
        let is_of_space =
            |asid| asid == self.asid || tables.identifier_of(self.table) == Some(asid);
        match scope {
            Scope::All => true,
            Scope::Space(asid) => !self.is_global() && is_of_space(asid),
            Scope::Address(address, asid) => {
                (address ^ self.address) >> self.shift == 0
                    && asid.is_none_or(|asid| self.is_global() || is_of_space(asid))
            }
        }
    }

    /// An invalidation that covers it.
    fn invalidated(&mut self, scope: Scope, by: Origin, reach: u32) {
        self.progress.invalidated(self.origin.core, by, reach);
        if scope == Scope::All {
            self.emptied |= reach;
        }
    }

    /// The page that it was.
    fn page(&self) -> Option<Translation> {
        match self.old {
            Descriptor::Page(page) if !self.permissions_only => Some(page),
            _ => None,
        }
    }

    /// Whether the TLB entry that was `held` for an address can be what the descriptor was.
    pub(super) fn may_have_given(&self, held: &Translation, address: u32) -> bool {
        match self.old {
            Descriptor::Page(old) => {
                self.had_others || old.physical_of(address) == held.physical_of(address)
            }
            // Of a table there is no telling what it held.
            _ => true,
        }
    }

    /// The invalidation that was done, and did not reach every core.
    pub(super) fn partly_invalidated_by(&self) -> Option<Origin> {
        self.progress.last
    }

    /// The invalidation that has reached a core and is not complete.
    pub(super) fn incomplete_on(&self, core: usize) -> Option<Origin> {
        let reaches = |underway: &&Underway| underway.reach >> core & 1 != 0;
        self.progress.underway.iter().find(reaches).map(|underway| underway.by)
    }

    /// Whether no TLB of a core that has walked it has the old entry any more.
    pub(super) fn is_complete(&self) -> bool {
        self.progress.is_complete
    }

    /// The cores whose walks have read it, and of which no invalidation is complete.
    fn holders(&self) -> u32 {
        self.walkers & !self.progress.complete
    }

    /// Whether a core has no old entry any more.
    pub(super) fn is_complete_on(&self, core: usize) -> bool {
        self.progress.complete >> core & 1 != 0
    }
}

/// A word of code that was cleaned, while instruction caches held what it was.
struct Code {
    writer: usize,
    /// The cores whose caches did.
    held: u32,
    /// What it was.
    old: Vec<u32>,
    progress: Progress,
}

mmulab_state::value!(Code { writer, held, old, progress });

/// A core that has begun maintenance and not waited for its completion: what it has stored since,
/// and who has loaded any of it.
#[derive(Default)]
struct Unfinished {
    words: BTreeSet<u32>,
    told: u32,
}

mmulab_state::value!(Unfinished { words, told });

/// A use of an old entry, which is no error if the invalidation comes.
struct Deferred {
    descriptor: u32,
    report: Report,
}

mmulab_state::value!(Deferred { descriptor, report });

/// All changes that are not over.
#[derive(Default)]
pub(super) struct Changes {
    changes: BTreeMap<u32, Change>,
    /// By the physical address of the word.
    code: BTreeMap<u32, Code>,
    unfinished: BTreeMap<usize, Unfinished>,
    /// Another core was on when any of these began, who might be told.
    is_watched: bool,
    deferred: Vec<Deferred>,
    /// Uses of old entries that the architecture permitted, by the PC of the change.
    permitted: BTreeMap<u32, Permitted>,
    /// What left the list: flags of memory may be cleared.
    pub(super) ended: Vec<Descriptor>,
}

mmulab_state::state!(Changes { changes, code, unfinished, is_watched, deferred, permitted, ended });

fn all_cores<C: Core>(core: &CoreMemory<C>, bus: &Bus<C>) -> u32 {
    let others = bus.peers().filter(|peer| bus.is_on(peer.number));
    others.fold(1 << core.number, |all, peer| all | 1 << peer.number)
}

/// How often a core has been synchronised.
fn synchronisations<C: Core>(core: &CoreMemory<C>, bus: &Bus<C>, wanted: usize) -> Option<u64> {
    let mut cores = std::iter::once(core).chain(bus.peers());
    cores.find(|one| one.number == wanted).map(|one| one.synchronisations)
}

impl Changes {
    /// Whether accesses have to be looked at because a core's maintenance is not complete. A core
    /// that is alone knows of its own without.
    #[inline(always)]
    pub(super) fn are_unfinished(&self) -> bool {
        self.is_watched
    }

    /// Whether there are any of the tables.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The change of a descriptor.
    pub(super) fn of(&self, descriptor: u32) -> Option<&Change> {
        self.changes.get(&descriptor)
    }

    /// Notes the change of a descriptor.
    pub(super) fn note(
        &mut self,
        descriptor: u32,
        old: Descriptor,
        origin: Origin,
        permissions_only: bool,
        Place { address, shift, asid, table, walkers }: Place,
    ) {
        if self.changes.len() == MAX_CHANGES
            && let Some((_, dropped)) = self.changes.pop_first()
        {
            self.ended.push(dropped.old);
        }
        let shift = match old {
            Descriptor::Page(page) => shift.max(page.page_shift.into()),
            _ => shift,
        };
        let progress = Progress::default();
        // Who still has what it was before that has it all the more.
        let before = self.of(descriptor).filter(|before| !before.is_complete());
        let walkers = walkers | before.map_or(0, Change::holders);
        let change = Change {
            old,
            origin,
            permissions_only,
            had_others: before.is_some(),
            address,
            shift,
            asid,
            table,
            walkers,
            emptied: 0,
            progress,
            rewritten: None,
        };
        if let Some(before) = self.changes.insert(descriptor, change) {
            self.ended.push(before.old);
        }
    }

    /// The descriptor is what it was again: there is nothing old.
    pub(super) fn discard(&mut self, descriptor: u32) -> u32 {
        let Some(change) = self.changes.remove(&descriptor) else { return 0 };
        // A core whose whole TLB is invalidated has read nothing.
        let walkers = change.holders() & !change.emptied;
        self.ended.push(change.old);
        walkers
    }

    /// The page is mapped again, with other permissions.
    pub(super) fn keep_page(&mut self, descriptor: u32) {
        if let Some(change) = self.changes.get_mut(&descriptor) {
            change.permissions_only = true;
            change.rewritten = None;
        }
    }

    /// Whether a change that is not over watches some of what has ended.
    pub(super) fn watches(&self, ended: &Descriptor) -> bool {
        self.changes.values().any(|change| match (ended, &change.old) {
            (Descriptor::Page(ended), Descriptor::Page(page)) => {
                !change.permissions_only
                    && (ended.physical ^ page.physical) >> ended.page_shift.max(page.page_shift)
                        == 0
            }
            (ended, old) => ended == old,
        })
    }

    /// Somebody wrote to memory of a page whose mapping was changed, by `address` in the space
    /// `asid`.
    pub(super) fn rewrite(
        &mut self,
        tables: &Tables,
        physical: u32,
        (address, asid): (u32, u16),
        origin: Origin,
    ) {
        for change in self.changes.values_mut() {
            // By the old entry itself the page does not serve anything else.
            let by_old_entry = change.is_covered(tables, Scope::Address(address, Some(asid)));
            if let Some(page) = change.page()
                && !change.is_complete()
                && (page.physical ^ physical) >> page.page_shift == 0
                && !by_old_entry
            {
                change.rewritten.get_or_insert(origin);
            }
        }
    }

    /// Who took a table out of the tables above, if a walk may still read it.
    pub(super) fn unlinked_by(&self, table: u32) -> Option<Origin> {
        let of_table =
            |change: &&Change| change.old == Descriptor::Table(table) && !change.is_complete();
        self.changes.values().find(of_table).map(|change| change.origin)
    }

    /// Notes the use of an old entry; the verdict comes with the invalidation, or with the end.
    pub(super) fn defer(&mut self, descriptor: u32, report: Report) {
        let same = |known: &&mut Deferred| {
            let held = &known.report;
            known.descriptor == descriptor
                && (held.core, held.kind, held.pc) == (report.core, report.kind, report.pc)
        };
        if let Some(known) = self.deferred.iter_mut().find(same) {
            known.report.times += 1;
        } else if self.deferred.len() < MAX_DEFERRED {
            self.deferred.push(Deferred { descriptor, report });
        }
    }

    /// Uses of old entries whose invalidation has not come.
    pub(super) fn deferred(&self) -> impl Iterator<Item = (Option<&Change>, &Report)> {
        self.deferred.iter().map(|use_| (self.changes.get(&use_.descriptor), &use_.report))
    }

    /// Uses of old entries that the architecture permitted.
    pub(super) fn permitted(&self) -> impl Iterator<Item = &Permitted> {
        self.permitted.values()
    }

    /// A core stored a word.
    pub(super) fn stored(&mut self, core: usize, physical: u32) {
        if let Some(unfinished) = self.unfinished.get_mut(&core)
            && unfinished.words.len() < MAX_PUBLISHED
        {
            unfinished.words.insert(physical >> 2);
        }
    }

    /// A core loaded a word: what its writer did before is known to it.
    pub(super) fn loaded(&mut self, core: usize, physical: u32) {
        for unfinished in self.unfinished.values_mut() {
            if unfinished.words.contains(&(physical >> 2)) {
                unfinished.told |= 1 << core;
            }
        }
    }

    /// Why an access that was translated by these descriptors is not safe yet, where it matters to
    /// the access what one of them was.
    pub(super) fn judge(
        &mut self,
        core: (usize, u64),
        descriptors: &[(u32, u32)],
        matters: impl Fn(Descriptor) -> bool,
    ) -> Option<(Unsafe, Origin)> {
        let unfinished = &self.unfinished;
        let told = |by: usize| unfinished.get(&by).is_some_and(|one| one.told >> core.0 & 1 != 0);
        descriptors.iter().find_map(|(at, _)| {
            let change = self.changes.get_mut(at).filter(|change| matters(change.old))?;
            let found = change.progress.judge(core.0, core.1, told)?;
            Some((found, change.origin))
        })
    }

    /// Why the fetch of an instruction from this word is not safe yet, where it matters what the
    /// word was.
    pub(super) fn judge_code(
        &mut self,
        core: (usize, u64),
        word: u32,
        matters: impl Fn(u32) -> bool,
    ) -> Option<Unsafe> {
        let unfinished = &self.unfinished;
        let told = |by: usize| unfinished.get(&by).is_some_and(|one| one.told >> core.0 & 1 != 0);
        let code = self.code.get_mut(&word)?;
        let is_old_wrong = code.old.iter().any(|&old| matters(old));
        let found = is_old_wrong.then(|| code.progress.judge(core.0, core.1, told)).flatten();
        let progress = &code.progress;
        if code.held & !progress.complete == 0 && progress.unsynchronised.is_empty() {
            self.code.remove(&word);
        }
        found
    }

    /// Whether anything is known of the code in a line.
    pub(super) fn has_code<L: Line>(&self, line: u32) -> bool {
        self.code.range(line..=line + (L::BYTES - 1)).next().is_some()
    }

    /// A core does maintenance, or waits until it is complete.
    pub(super) fn maintain<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        tables: &Tables,
        maintenance: Maintenance,
        newest: impl Fn(u32) -> Option<u32>,
    ) {
        let by = Origin { pc: core.pc, core: core.number };
        let reach = |everywhere: bool| if everywhere { !0 } else { 1 << core.number };
        let mut begun = false;
        match maintenance {
            Maintenance::Translations { scope, everywhere } => {
                for change in
                    self.changes.values_mut().filter(|change| change.is_covered(tables, scope))
                {
                    change.invalidated(scope, by, reach(everywhere));
                    begun = true;
                }
            }
            Maintenance::Line { operation: LineOperation::Invalidate, .. }
            | Maintenance::Slot { .. } => {}
            Maintenance::Line { physical, .. } => {
                let first = C::DataLine::base(physical);
                for line in
                    (first..first + C::DataLine::BYTES).step_by(C::FetchLine::BYTES as usize)
                {
                    self.clean_code(core, bus, line, &newest);
                }
            }
            Maintenance::Instructions { line, everywhere } => {
                let wanted = line.map(C::FetchLine::base);
                for (&word, code) in &mut self.code {
                    if wanted.is_none_or(|wanted| wanted == C::FetchLine::base(word)) {
                        code.progress.invalidated(code.writer, by, reach(everywhere));
                        begun = true;
                    }
                }
            }
            Maintenance::Complete => self.complete(core, bus),
        }
        if begun {
            self.unfinished.entry(core.number).or_default().told |= 1 << core.number;
            self.is_watched |= all_cores(core, bus) != 1 << core.number;
        }
    }

    /// A line is cleaned: words that an instruction cache holds as they were are code that was
    /// changed.
    fn clean_code<C: Core>(
        &mut self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        line: u32,
        newest: impl Fn(u32) -> Option<u32>,
    ) {
        // An earlier change of a word still matters to cores that were not synchronised since.
        for code in
            self.code.range_mut(line..=line + (C::FetchLine::BYTES - 1)).map(|(_, code)| code)
        {
            if code.progress.complete != 0 && code.progress.underway.is_empty() {
                let waits = |&&(number, count): &&(usize, u64)| {
                    synchronisations(core, bus, number) == Some(count)
                };
                let waiting = code.progress.unsynchronised.iter().filter(waits);
                code.held = waiting.fold(0, |held, (number, _)| held | 1 << number);
            }
        }
        self.code.retain(|_, code| code.held != 0);
        for one in std::iter::once(core).chain(bus.peers()) {
            for words in one.fetch.copies(line) {
                for (address, &held) in (line..).step_by(4).zip(words.as_ref()) {
                    if newest(address).is_some_and(|newest| newest != held) {
                        self.note_code(core.number, one.number, address, held);
                    }
                }
            }
        }
    }

    /// A core cleans a word of code that the instruction cache of another, or its own, holds as it
    /// was.
    fn note_code(&mut self, writer: usize, holder: usize, word: u32, old: u32) {
        if self.code.len() == MAX_CODE && !self.code.contains_key(&word) {
            self.code.clear();
        }
        let new = || Code { writer, held: 0, old: Vec::new(), progress: Progress::default() };
        let code = self.code.entry(word).or_insert_with(new);
        code.writer = writer;
        code.held |= 1 << holder;
        code.progress = Progress::default();
        if !code.old.contains(&old) && code.old.len() < MAX_OLD_CODE {
            code.old.push(old);
        }
    }

    fn complete<C: Core>(&mut self, core: &CoreMemory<C>, bus: &Bus<C>) {
        self.unfinished.remove(&core.number);
        self.is_watched &= !self.unfinished.is_empty();
        // Of a change that was taken back there may be uses that wait for a verdict still.
        if self.changes.is_empty() && self.code.is_empty() && self.deferred.is_empty() {
            return;
        }
        let (all, number) = (all_cores(core, bus), core.number);
        for change in self.changes.values_mut() {
            // Other cores see the effect of a complete invalidation at once, this one after its
            // next synchronisation.
            let progress = &mut change.progress;
            if let Some((reach, first)) = progress.completed(number) {
                let wanted = change.walkers & all;
                progress.is_complete = progress.complete & wanted == wanted;
                let this = first & 1 << number;
                progress.await_synchronisation(
                    reach & !(1 << number) | this,
                    (this != 0).then_some((number, core.synchronisations)),
                );
            }
        }
        for code in self.code.values_mut() {
            if let Some((_, first)) = code.progress.completed(number) {
                let cores = std::iter::once(core).chain(bus.peers());
                let holders = cores.filter(|one| (code.held & first) >> one.number & 1 != 0);
                let waiting = holders.map(|one| (one.number, one.synchronisations));
                code.progress.await_synchronisation(first, waiting);
            }
        }
        let (changes, permitted) = (&self.changes, &mut self.permitted);
        self.deferred.retain(|Deferred { descriptor, report }| {
            let change = changes.get(descriptor);
            let over = change.is_none_or(|change| change.is_complete_on(report.core));
            if over {
                let noted = permitted.entry(report.since).or_default();
                noted.since = report.since;
                noted.uses += report.times;
                let cycles = core.now().saturating_sub(report.cycle);
                noted.longest_cycles = noted.longest_cycles.max(cycles);
            }
            !over
        });
        let ended = &mut self.ended;
        self.changes.retain(|_, change| {
            let progress = &change.progress;
            let waits = progress
                .unsynchronised
                .iter()
                .any(|&(waiting, count)| synchronisations(core, bus, waiting) == Some(count));
            let over = progress.is_complete
                && progress.underway.is_empty()
                && progress.not_ordered.is_empty()
                && !waits;
            if over {
                ended.push(change.old);
            }
            !over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::MemoryType;

    #[test]
    fn invalidations_of_two_cores_at_once_are_both_remembered() {
        let mut progress = Progress::default();
        // The writer's DSB, its invalidation for all, and another core's for itself before the
        // second DSB.
        progress.completed(0);
        progress.invalidated(0, Origin { pc: 0, core: 0 }, !0);
        progress.invalidated(0, Origin { pc: 4, core: 1 }, 1 << 1);
        assert_eq!(progress.completed(1), Some((1 << 1, 1 << 1)));
        assert_eq!(progress.complete, 1 << 1);
        assert_eq!(progress.completed(0), Some((!0, !(1 << 1))));
        assert_eq!(progress.complete, !0);
        assert_eq!(progress.completed(0), None);
    }

    #[test]
    fn an_invalidation_counts_as_the_first_where_those_before_were_not_ordered() {
        let mut progress = Progress::default();
        let by = |pc| Origin { pc, core: 0 };
        progress.invalidated(0, by(4), 1 << 0);
        assert_eq!(progress.completed(0), Some((1, 1)));
        progress.invalidated(0, by(8), !0);
        assert_eq!(progress.completed(0), Some((!0, !0)));
        progress.invalidated(0, by(12), !0);
        assert_eq!(progress.completed(0), Some((!0, 0)));
    }

    #[test]
    fn a_core_that_was_reached_need_not_wait_for_the_next_invalidation() {
        let (mut progress, by) = (Progress::default(), Origin { pc: 4, core: 0 });
        progress.completed(0);
        progress.invalidated(0, by, 1 << 0);
        progress.completed(0);
        progress.invalidated(0, by, !0);
        assert_eq!(progress.judge(0, 0, |_| true), None);
        assert_eq!(progress.judge(1, 0, |_| true), Some(Unsafe::Incomplete(by)));
    }

    /// Whether an access of a core is told that an invalidation was not ordered, and by which PC.
    fn unordered_on(progress: &mut Progress, core: usize) -> Option<u32> {
        match progress.judge(core, 0, |_| false) {
            Some(Unsafe::Unordered(by)) => Some(by.pc),
            _ => None,
        }
    }

    #[test]
    fn an_ordered_invalidation_makes_good_what_it_reaches_and_nothing_else() {
        let mut progress = Progress::default();
        // Core 0 stores; core 1 invalidates for itself, with no DSB on either.
        progress.invalidated(0, Origin { pc: 4, core: 1 }, 1 << 1);
        assert_eq!(unordered_on(&mut progress, 1), Some(4));
        assert_eq!(unordered_on(&mut progress, 2), None, "it was not reached");
        // Core 2 does it in the right order, for itself.
        progress.completed(2);
        progress.invalidated(0, Origin { pc: 8, core: 2 }, 1 << 2);
        assert_eq!(unordered_on(&mut progress, 1), Some(4), "core 1 has had no other");
        // And for all.
        progress.invalidated(0, Origin { pc: 12, core: 2 }, !0);
        assert_eq!(unordered_on(&mut progress, 1), None);
    }

    #[test]
    fn one_that_is_not_ordered_takes_nothing_back() {
        let mut progress = Progress::default();
        progress.completed(2);
        progress.invalidated(0, Origin { pc: 8, core: 2 }, !0);
        progress.invalidated(0, Origin { pc: 4, core: 1 }, !0);
        assert_eq!([0, 1, 2].map(|core| unordered_on(&mut progress, core)), [None; 3]);
    }

    #[test]
    fn one_that_is_not_ordered_takes_back_no_complete_one() {
        let mut progress = Progress::default();
        progress.completed(2);
        progress.invalidated(0, Origin { pc: 8, core: 2 }, !0);
        progress.completed(2);
        progress.invalidated(0, Origin { pc: 4, core: 1 }, !0);
        assert_eq!(progress.judge(1, 0, |_| true), None);
    }

    const DESCRIPTOR: u32 = 0x4010_8000;
    const ADDRESS: u32 = 0x8000_0000;

    fn page(physical: u32, global: bool) -> Translation {
        Translation {
            physical,
            permissions: 3,
            domain: 0,
            attributes: 0,
            memory_type: MemoryType::STRONGLY_ORDERED,
            page_shift: 12,
            global,
        }
    }

    /// A page that space 1 had at the address goes from its descriptor.
    fn unmap(changes: &mut Changes, old: Translation) {
        let place = Place { address: ADDRESS, shift: 12, asid: 1, table: 0x4010_0000, walkers: 1 };
        changes.note(DESCRIPTOR, Descriptor::Page(old), Origin { pc: 4, core: 0 }, false, place);
    }

    /// The state of a change that core 0 has made, after the DSBs of the cores of a mask.
    fn with_barriers(changes: &mut Changes, cores: u32) {
        let change = changes.changes.get_mut(&DESCRIPTOR).unwrap();
        (0..2).filter(|core| cores >> core & 1 != 0).for_each(|core| {
            change.progress.completed(core);
        });
    }

    fn invalidate(changes: &mut Changes, core: usize, scope: Scope) {
        let change = changes.changes.get_mut(&DESCRIPTOR).unwrap();
        change.invalidated(scope, Origin { pc: 8, core }, 1 << core);
    }

    #[test]
    fn a_page_that_is_mapped_as_it_was_is_in_no_tlb_that_was_invalidated_whole() {
        for (scope, holders) in [(Scope::All, 0), (Scope::Address(ADDRESS, None), 1)] {
            let mut changes = Changes::default();
            unmap(&mut changes, page(0x4020_0000, false));
            with_barriers(&mut changes, 1);
            invalidate(&mut changes, 0, scope);
            assert_eq!(changes.discard(DESCRIPTOR), holders, "{scope:?}");
        }
    }

    #[test]
    fn a_whole_tlb_that_is_invalidated_has_the_entry_until_the_dsb_of_who_did_it() {
        let mut changes = Changes::default();
        unmap(&mut changes, page(0x4020_0000, false));
        with_barriers(&mut changes, 1);
        invalidate(&mut changes, 0, Scope::All);
        for (core, holders) in [(1, 1), (0, 0)] {
            with_barriers(&mut changes, 1 << core);
            assert_eq!(changes.of(DESCRIPTOR).unwrap().holders(), holders);
        }
    }

    #[test]
    fn a_core_without_the_entry_does_not_have_it_by_a_later_change_of_another_core() {
        let mut changes = Changes::default();
        let place =
            |walkers| Place { address: ADDRESS, shift: 12, asid: 1, table: 0x4010_0000, walkers };
        let old = Descriptor::Page(page(0x4020_0000, false));
        changes.note(DESCRIPTOR, old, Origin { pc: 4, core: 0 }, true, place(0b11));
        with_barriers(&mut changes, 0b01);
        invalidate(&mut changes, 0, Scope::Address(ADDRESS, None));
        with_barriers(&mut changes, 0b01);
        changes.note(DESCRIPTOR, old, Origin { pc: 12, core: 1 }, false, place(0b10));
        assert_eq!(changes.of(DESCRIPTOR).unwrap().walkers, 0b10);
    }

    #[test]
    fn a_page_serves_something_else_when_it_is_written_otherwise_than_by_its_old_entry() {
        for (global, address, asid, is_rewritten) in [
            (false, ADDRESS + 8, 1, false),
            (false, ADDRESS + 8, 2, true),
            (false, ADDRESS + 0x1008, 1, true),
            (true, ADDRESS + 8, 2, false),
            (true, ADDRESS + 0x1008, 2, true),
        ] {
            let (tables, mut changes) = (Tables::new(0, 0, 1), Changes::default());
            unmap(&mut changes, page(0x4020_0000, global));
            changes.rewrite(&tables, 0x4020_1008, (address, asid), Origin { pc: 8, core: 0 });
            assert!(changes.of(DESCRIPTOR).unwrap().rewritten.is_none(), "another page");
            changes.rewrite(&tables, 0x4020_0008, (address, asid), Origin { pc: 8, core: 0 });
            let rewritten = changes.of(DESCRIPTOR).unwrap().rewritten.is_some();
            assert_eq!(rewritten, is_rewritten, "{global} {address:#x} {asid}");
        }
    }

    #[test]
    fn an_entry_is_old_if_the_descriptor_may_have_given_it() {
        let [first, second, other] =
            [0x4020_0000, 0x4020_1000, 0x4020_2000].map(|physical| page(physical, false));
        let mut changes = Changes::default();
        let may_have_given = |changes: &Changes, held| {
            changes.of(DESCRIPTOR).unwrap().may_have_given(held, ADDRESS + 8)
        };
        unmap(&mut changes, first);
        assert!(may_have_given(&changes, &first));
        assert!(!may_have_given(&changes, &other));
        // What it was before that may still be in a TLB.
        unmap(&mut changes, second);
        assert!(may_have_given(&changes, &first) && may_have_given(&changes, &second));
    }
}
