//! One TLB of a core, with the parts that software locks down.

use mmulab_hardware::{GeometryError, Partition, Random, Replacement, Slot, Tlb, TlbGeometry};
use mmulab_machine::{Replacement as ReplacementWord, TlbShape};

use crate::core::Translation;

/// An entry: a page, its address space, and what it is translated to.
pub type Entry = mmulab_hardware::TlbEntry<Translation>;

/// The entry of a page that an address is in.
pub(crate) fn entry_of(address: u32, asid: u16, translation: Translation) -> Entry {
    let shift = u32::from(translation.page_shift);
    Entry {
        virtual_address: u64::from(address >> shift << shift),
        page_shift: shift,
        asid,
        global: translation.global,
        payload: translation,
    }
}

/// The model's replacement for the machine file's word.
pub fn replacement(word: ReplacementWord) -> Replacement {
    match word {
        ReplacementWord::Random => Replacement::Random,
        ReplacementWord::RoundRobin => Replacement::RoundRobin,
        ReplacementWord::Lru => Replacement::Lru,
        ReplacementWord::Plru => Replacement::TreePseudoLru,
    }
}

/// How long ago an entry was used, in marks that software sets: [`IN_USE`] since the last one, 1
/// since the one before, 2 if it is longer ago; or that it was not used at all.
pub type Age = u8;
/// Used since the last mark.
pub const IN_USE: Age = 0;
const LONG_AGO: Age = 2;
/// Software entered it, and no access has used it.
pub const UNUSED: Age = 3;

/// One TLB of a core: the main part, and the part that only locked-down entries take, if the core
/// has one of its own for them (ARM DDI 0198D, 3.5).
pub struct TranslationBuffer {
    main: Tlb<Translation>,
    locked: Option<Tlb<Translation>>,
    /// Which slot of the locked-down part is next, and whether walks fill it.
    lock_next: (Slot, bool),
    /// Entries of the main part that the invalidation of all spares.
    preserved: Box<[bool]>,
    /// When entries of the main part were used.
    ages: Box<[Age]>,
    /// Where the next entry goes, once software has set it (c10 of the ARM920T), and whether it is
    /// to be preserved.
    victim: Option<(Slot, bool)>,
}

mmulab_state::state!(
    TranslationBuffer { main, lock_next, preserved, ages, victim } optional { locked }
);

impl TranslationBuffer {
    /// An empty TLB.
    ///
    /// # Errors
    /// The shape is impossible.
    pub fn new(
        shape: &TlbShape,
        page_shifts: &[u32],
        random: Random,
    ) -> Result<TranslationBuffer, GeometryError> {
        let ways = shape.ways.count(u64::from(shape.entries)) as u32;
        let main = Tlb::new(
            &TlbGeometry {
                entries: shape.entries,
                ways,
                page_shifts: page_shifts.to_vec(),
                protected_ways: 0,
            },
            replacement(shape.replacement),
            random.clone(),
        )?;
        let locked = if shape.lockdown_entries == 0 {
            None
        } else {
            let entries = shape.lockdown_entries;
            let page_shifts = page_shifts.to_vec();
            let geometry = TlbGeometry { entries, ways: entries, page_shifts, protected_ways: 0 };
            Some(Tlb::new(&geometry, Replacement::RoundRobin, random)?)
        };
        let preserved: Box<[bool]> = vec![false; main.slots() as usize].into();
        let ages = vec![IN_USE; main.slots() as usize].into();
        Ok(TranslationBuffer { main, locked, lock_next: (0, false), preserved, ages, victim: None })
    }

    /// The entry for an address in an address space; counts as a use.
    pub fn lookup(&mut self, address: u32, asid: u16) -> Option<&Entry> {
        if let Some(locked) = &mut self.locked
            && let Some(slot) = locked.find(u64::from(address), asid)
        {
            return locked.entry(slot);
        }
        let slot = self.main.lookup(u64::from(address), asid)?;
        self.ages[slot as usize] = IN_USE;
        self.main.entry(slot)
    }

    /// The same for who only looks: nothing changes.
    pub fn peek(&self, address: u32, asid: u16) -> Option<&Entry> {
        let address = u64::from(address);
        if let Some(locked) = &self.locked
            && let Some(slot) = locked.peek(address, asid)
        {
            return locked.entry(slot);
        }
        self.main.entry(self.main.peek(address, asid)?)
    }

    /// Enters a translation; returns the entry that left.
    pub fn insert(&mut self, address: u32, asid: u16, translation: Translation) -> Option<Entry> {
        let entry = entry_of(address, asid, translation);
        if let (Some(locked), (slot, true)) = (&mut self.locked, self.lock_next) {
            let slot = slot % locked.slots();
            self.lock_next.0 = (slot + 1) % locked.slots();
            return locked.insert_at(slot, entry);
        }
        let Some((slot, preserve)) = self.victim else {
            let (slot, left) = self.main.insert(entry, Partition::Normal);
            self.preserved[slot as usize] = false;
            self.ages[slot as usize] = IN_USE;
            return left;
        };
        let next = slot + 1;
        let next = if next == self.main.slots() { self.main.protected_ways() } else { next };
        self.victim = Some((next, preserve));
        self.preserved[slot as usize] = preserve;
        self.ages[slot as usize] = IN_USE;
        self.main.insert_at(slot, entry)
    }

    /// The entry of an address was not entered for an access: it is unused until one looks it up.
    pub fn mark_unused(&mut self, address: u32, asid: u16) {
        if let Some(slot) = self.main.peek(u64::from(address), asid) {
            self.ages[slot as usize] = UNUSED;
        }
    }

    /// The age of the entry in a slot of the main part.
    pub fn age(&self, slot: u32) -> Age {
        self.ages[slot as usize]
    }

    /// A mark: what was used before is one mark older.
    pub(crate) fn mark_age(&mut self) {
        for age in &mut self.ages {
            *age = if *age < LONG_AGO { *age + 1 } else { *age };
        }
    }

    /// Removes what translates an address, a locked-down entry too; returns the base-two logarithm
    /// of the largest page removed, or 0.
    pub fn invalidate(&mut self, address: u32, asid: u16) -> u32 {
        let mut largest = 0;
        for tlb in self.locked.iter_mut().chain([&mut self.main]) {
            while let Some(slot) = tlb.find(u64::from(address), asid) {
                let left = tlb.invalidate_slot(slot);
                largest = left.map_or(largest, |entry| largest.max(entry.page_shift));
            }
        }
        largest
    }

    /// The same in one address space, or with `None` in all.
    pub fn invalidate_in(&mut self, address: u32, asid: Option<u16>) -> u32 {
        let Some(asid) = asid else {
            let mut largest = 0;
            for tlb in self.locked.iter_mut().chain([&mut self.main]) {
                tlb.invalidate_where(|_, entry| {
                    let found =
                        entry.payload.first_of_page(address) == entry.virtual_address as u32;
                    largest = if found { largest.max(entry.page_shift) } else { largest };
                    found
                });
            }
            return largest;
        };
        self.invalidate(address, asid)
    }

    /// Whether the invalidation of all spares the entry of an address.
    pub fn is_locked(&self, address: u32, asid: u16) -> bool {
        let address = u64::from(address);
        self.locked.as_ref().is_some_and(|locked| locked.peek(address, asid).is_some())
            || self.main.peek(address, asid).is_some_and(|slot| self.preserved[slot as usize])
    }

    /// Empties the TLB except for what is locked down.
    pub fn invalidate_all(&mut self) {
        if self.preserved.contains(&true) {
            let preserved = &self.preserved;
            self.main.invalidate_where(|slot, _| !preserved[slot as usize]);
        } else {
            self.main.invalidate_all();
        }
    }

    /// Removes what an address space has, except for what is locked down.
    pub fn invalidate_asid(&mut self, asid: u16) {
        let preserved = &self.preserved;
        self.main.invalidate_where(|slot, entry| {
            !entry.global && entry.asid == asid && !preserved[slot as usize]
        });
    }

    /// The slot of the locked-down part that is next, and whether walks fill it.
    pub fn set_lockdown_part(&mut self, victim: u32, fills: bool) {
        self.lock_next = (victim, fills);
    }

    /// As set, the slot advanced by the walks since; `None` without a locked-down part.
    pub fn lockdown_part(&self) -> Option<(u32, bool)> {
        self.locked.as_ref().map(|_| self.lock_next)
    }

    /// Base, victim and whether the next entry is preserved, as set or advanced by the walks since.
    pub fn lockdown(&self) -> (u32, u32, bool) {
        let (victim, preserve) = self.victim.unwrap_or((self.main.next_fill(), false));
        (self.main.protected_ways(), victim, preserve)
    }

    /// The ARM920T's lockdown register: entries below `base` stay, the next one goes to `victim`,
    /// and with `preserve` the invalidation of all spares it.
    ///
    /// # Errors
    /// No entry would be left.
    pub fn set_lockdown(
        &mut self,
        base: u32,
        victim: u32,
        preserve: bool,
    ) -> Result<(), GeometryError> {
        self.main.protect_ways(base)?;
        self.victim = Some((victim.min(self.main.slots() - 1), preserve));
        Ok(())
    }

    /// The XScale's lock operation: puts a translation into the lowest entry that is not locked.
    ///
    /// # Errors
    /// All but the last are locked.
    pub fn lock(
        &mut self,
        address: u32,
        asid: u16,
        translation: Translation,
    ) -> Result<Option<Entry>, GeometryError> {
        let slot = self.main.protected_ways();
        self.main.protect_ways(slot + 1)?;
        self.victim = Some((slot, true));
        let left = self.insert(address, asid, translation);
        self.victim = None;
        Ok(left)
    }

    /// Nothing is locked any more.
    pub fn unlock(&mut self) {
        self.preserved.fill(false);
        if self.main.protect_ways(0).is_ok() {
            self.victim = None;
        }
    }

    /// The entry in a set and way of the main part.
    pub fn entry_at(&self, set: u32, way: u32) -> Option<&Entry> {
        let (slots, ways) = (self.main.slots(), self.main.ways());
        (way < ways && set < slots / ways).then(|| self.main.entry(set * ways + way)).flatten()
    }

    /// How many entries the main part has room for.
    pub fn slots(&self) -> u32 {
        self.main.slots()
    }

    /// How many of them are in one set.
    pub fn ways(&self) -> u32 {
        self.main.ways()
    }

    /// The entry in a slot of the main part.
    pub fn entry(&self, slot: u32) -> Option<&Entry> {
        (slot < self.slots()).then(|| self.main.entry(slot)).flatten()
    }

    /// All entries, for the debugger.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let locked = self.locked.iter().flat_map(|locked| locked.iter().map(|(_, entry)| entry));
        locked.chain(self.main.iter().map(|(_, entry)| entry))
    }
}
