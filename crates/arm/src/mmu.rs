//! Translation: tables, TLB entries and permissions (ARM DDI 0100, part B, chapter B3).

use mmulab_hardware::{
    GeometryError, Partition, Random, Replacement, Slot, Tlb, TlbEntry, TlbGeometry,
};
use mmulab_machine::{ArmTlb, Replacement as ReplacementWord};

/// Page attribute: a data or instruction cache may hold it (C).
pub const CACHEABLE: u8 = 1;
/// Page attribute: writes may be buffered (B).
pub const BUFFERABLE: u8 = 2;
/// Page attribute: the XScale's X bit.
pub const EXTENDED: u8 = 4;

/// Fault status codes (B3.7.1), for sections; pages are two more.
pub mod status {
    /// Alignment.
    pub const ALIGNMENT: u8 = 0x1;
    /// No descriptor.
    pub const TRANSLATION: u8 = 0x5;
    /// The domain allows no access.
    pub const DOMAIN: u8 = 0x9;
    /// The permission does not suffice.
    pub const PERMISSION: u8 = 0xd;
    /// Added for pages.
    pub const PAGE: u8 = 0x2;
}

/// What a TLB entry holds beside its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Physical address of the page.
    pub physical: u32,
    /// Access permissions of the four quarters, two bits each.
    pub permissions: u8,
    /// Domain.
    pub domain: u8,
    /// [`CACHEABLE`], [`BUFFERABLE`], [`EXTENDED`].
    pub attributes: u8,
    /// Base-two logarithm of the page's bytes.
    pub page_shift: u8,
}

impl Translation {
    /// Whether it came from a first-level descriptor.
    pub fn is_section(&self) -> bool {
        self.page_shift == 20
    }

    /// The permission bits for an address.
    pub fn permission(&self, address: u32) -> u8 {
        // Quarters exist for small and large pages; the others have four equal ones.
        let quarter = address >> (self.page_shift - 2) & 3;
        self.permissions >> (2 * quarter) & 3
    }

    /// Whether all of a 4 KB page has one permission.
    pub fn uniform(&self) -> bool {
        match self.page_shift {
            10 => false,
            12 => self.permissions == (self.permissions & 3) * 0x55,
            _ => true,
        }
    }

    /// The status code if an access is refused (B3.5, B3.6). `system_rom` holds the S and R bits of
    /// the control register, S in bit 0.
    pub fn refuses(
        &self,
        address: u32,
        write: bool,
        privileged: bool,
        domains: u32,
        system_rom: u32,
    ) -> Option<u8> {
        let page = if self.is_section() { 0 } else { status::PAGE };
        match domains >> (2 * self.domain) & 3 {
            3 => return None,
            1 => {}
            // The reserved value behaves as no access.
            _ => return Some(status::DOMAIN + page),
        }
        let allowed = match self.permission(address) {
            0 => {
                !write
                    && match system_rom {
                        1 => privileged,
                        2 => true,
                        _ => false,
                    }
            }
            1 => privileged,
            2 => privileged || !write,
            _ => true,
        };
        (!allowed).then_some(status::PERMISSION + page)
    }
}

/// The outcome of reading the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The translation, or the status code and the domain.
    pub result: Result<Translation, (u8, u8)>,
    /// Address of the first-level descriptor and its value.
    pub first: (u32, u32),
    /// Address of the second-level descriptor and its value.
    pub second: Option<(u32, u32)>,
}

impl Walk {
    /// How many descriptors were read.
    pub fn reads(&self) -> u32 {
        1 + u32::from(self.second.is_some())
    }
}

/// Walks the tables at `table` for a modified virtual address (B3.3). `read` gives a word of
/// physical memory. `extended` says whether the descriptors of small pages of an XScale exist.
pub fn walk(table: u32, address: u32, extended: bool, mut read: impl FnMut(u32) -> u32) -> Walk {
    let first_address = table & 0xffff_c000 | address >> 20 << 2;
    let first = read(first_address);
    let domain = (first >> 5 & 15) as u8;
    let at_first = |result| Walk { result, first: (first_address, first), second: None };
    let second_address = match first & 3 {
        0 => return at_first(Err((status::TRANSLATION, 0))),
        1 => first & 0xffff_fc00 | (address >> 12 & 0xff) << 2,
        2 => {
            return at_first(Ok(Translation {
                physical: first & 0xfff0_0000,
                permissions: (first >> 10 & 3) as u8 * 0x55,
                domain,
                attributes: attributes(first, if extended { first >> 12 & 1 } else { 0 }),
                page_shift: 20,
            }));
        }
        _ => first & 0xffff_f000 | (address >> 10 & 0x3ff) << 2,
    };
    let fine = first & 3 == 3;
    let second = read(second_address);
    let page = |physical, permissions, page_shift, x| {
        let attributes = attributes(second, x);
        Ok(Translation { physical, permissions, domain, attributes, page_shift })
    };
    let result = match second & 3 {
        1 => page(
            second & 0xffff_0000,
            (second >> 4) as u8,
            16,
            if extended { second >> 12 & 1 } else { 0 },
        ),
        2 => page(second & 0xffff_f000, (second >> 4) as u8, 12, 0),
        // In a coarse table, 3 is the extended small page of the XScale and unpredictable elsewhere;
        // in a fine table it is a tiny page.
        3 if fine => page(second & 0xffff_fc00, (second >> 4 & 3) as u8 * 0x55, 10, 0),
        3 if extended => {
            page(second & 0xffff_f000, (second >> 4 & 3) as u8 * 0x55, 12, second >> 6 & 1)
        }
        _ => Err((status::TRANSLATION + status::PAGE, domain)),
    };
    Walk { result, first: (first_address, first), second: Some((second_address, second)) }
}

fn attributes(descriptor: u32, x: u32) -> u8 {
    let cacheable = if descriptor & 8 != 0 { CACHEABLE } else { 0 };
    let bufferable = if descriptor & 4 != 0 { BUFFERABLE } else { 0 };
    cacheable | bufferable | if x != 0 { EXTENDED } else { 0 }
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

/// One TLB of a core: the main part, and the part that only locked-down entries take, if the core
/// has one of its own for them (ARM DDI 0198D, 3.5).
pub struct TranslationBuffer {
    main: Tlb<Translation>,
    locked: Option<Tlb<Translation>>,
    /// Which slot of the locked-down part is next, and whether walks fill it (c10 of the ARM926EJ-S).
    lock_next: (Slot, bool),
    /// Entries of the main part that the invalidation of all spares.
    preserved: Box<[bool]>,
    /// Where the next entry goes, once software has set it (c10 of the ARM920T), and whether it is
    /// to be preserved.
    victim: Option<(Slot, bool)>,
}

impl TranslationBuffer {
    /// An empty TLB.
    pub fn new(shape: &ArmTlb, random: Random) -> Result<TranslationBuffer, GeometryError> {
        let page_shifts = vec![10, 12, 16, 20];
        let ways = shape.ways.count(u64::from(shape.entries)) as u32;
        let main = Tlb::new(
            &TlbGeometry {
                entries: shape.entries,
                ways,
                page_shifts: page_shifts.clone(),
                protected_ways: 0,
            },
            replacement(shape.replacement),
            random.clone(),
        )?;
        let locked = if shape.lockdown_entries == 0 {
            None
        } else {
            let entries = shape.lockdown_entries;
            let geometry = TlbGeometry { entries, ways: entries, page_shifts, protected_ways: 0 };
            Some(Tlb::new(&geometry, Replacement::RoundRobin, random)?)
        };
        let preserved = vec![false; main.slots() as usize].into();
        Ok(TranslationBuffer { main, locked, lock_next: (0, false), preserved, victim: None })
    }

    /// The entry for an address.
    pub fn lookup(&mut self, address: u32) -> Option<&TlbEntry<Translation>> {
        if let Some(locked) = &mut self.locked
            && let Some(slot) = locked.find(u64::from(address), 0)
        {
            return locked.entry(slot);
        }
        let slot = self.main.lookup(u64::from(address), 0)?;
        self.main.entry(slot)
    }

    /// Enters a translation; returns the entry that left.
    pub fn insert(
        &mut self,
        address: u32,
        translation: Translation,
    ) -> Option<TlbEntry<Translation>> {
        let shift = u32::from(translation.page_shift);
        let entry = TlbEntry {
            virtual_address: u64::from(address >> shift << shift),
            page_shift: shift,
            asid: 0,
            global: true,
            payload: translation,
        };
        if let (Some(locked), (slot, true)) = (&mut self.locked, self.lock_next) {
            let slot = slot % locked.slots();
            self.lock_next.0 = (slot + 1) % locked.slots();
            return locked.insert_at(slot, entry);
        }
        let Some((slot, preserve)) = self.victim else {
            let (slot, left) = self.main.insert(entry, Partition::Normal);
            self.preserved[slot as usize] = false;
            return left;
        };
        let next = slot + 1;
        let next = if next == self.main.slots() { self.main.protected_ways() } else { next };
        self.victim = Some((next, preserve));
        self.preserved[slot as usize] = preserve;
        self.main.insert_at(slot, entry)
    }

    /// Removes what translates an address, a locked-down entry too; returns the base-two logarithm
    /// of the largest page removed, or 0.
    pub fn invalidate(&mut self, address: u32) -> u32 {
        let mut largest = 0;
        for tlb in self.locked.iter_mut().chain([&mut self.main]) {
            while let Some(slot) = tlb.find(u64::from(address), 0) {
                let left = tlb.invalidate_slot(slot);
                largest = left.map_or(largest, |entry| largest.max(entry.page_shift));
            }
        }
        largest
    }

    /// Whether the invalidation of all spares the entry of an address.
    pub fn is_locked(&mut self, address: u32) -> bool {
        if self.locked.as_mut().is_some_and(|locked| locked.find(u64::from(address), 0).is_some()) {
            return true;
        }
        let slot = self.main.find(u64::from(address), 0);
        slot.is_some_and(|slot| self.preserved[slot as usize])
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

    /// The ARM926EJ-S's lockdown register: the slot of the locked-down part that is next, and whether
    /// walks fill it.
    pub fn set_lockdown_part(&mut self, victim: u32, fills: bool) {
        self.lock_next = (victim, fills);
    }

    /// As set, the slot advanced by the walks since; `None` without a locked-down part.
    pub fn lockdown_part(&self) -> Option<(u32, bool)> {
        self.locked.as_ref().map(|_| self.lock_next)
    }

    /// Base, victim and whether the next entry is preserved, as the ARM920T's lockdown register reads.
    pub fn lockdown(&self) -> (u32, u32, bool) {
        let (victim, preserve) = self.victim.unwrap_or((self.main.next_fill(), false));
        (self.main.protected_ways(), victim, preserve)
    }

    /// The ARM920T's lockdown register: entries below `base` stay, the next one goes to `victim`, and
    /// with `preserve` the invalidation of all spares it.
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
        translation: Translation,
    ) -> Result<Option<TlbEntry<Translation>>, GeometryError> {
        let slot = self.main.protected_ways();
        self.main.protect_ways(slot + 1)?;
        self.victim = Some((slot, true));
        let left = self.insert(address, translation);
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

    /// All entries, for the debugger.
    pub fn entries(&self) -> impl Iterator<Item = &TlbEntry<Translation>> {
        let locked = self.locked.iter().flat_map(|locked| locked.iter().map(|(_, entry)| entry));
        locked.chain(self.main.iter().map(|(_, entry)| entry))
    }
}
