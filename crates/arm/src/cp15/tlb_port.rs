//! Entries of the data TLB that software saves and restores: the four interfaces that Landsberg's
//! thesis of 2018 designs ("Analyzing and Optimizing TLB-Induced Thread Migration Costs on
//! Linux/ARM", chapter 5); and a fifth of ours, by which a core takes them over from another one.
//!
//! An entry is 55 bits, with 9 more where the interface does not filter. What each holds is in
//! `docs/tlb-migration.md`; only privileged modes have access.

use mmulab_system::Cause;
use mmulab_system::core::{Side, Translation};
use mmulab_system::memory::CoreMemory;
use mmulab_system::tlb::{Age, Entry, UNUSED};

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};

/// Which of the thesis's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Three registers, entries by index; [`COMMIT`] as the index enters what was written.
    V1,
    /// Two registers, entries by index; writing the second enters them.
    V2,
    /// Two registers, a stream of the entries of one address space.
    V3,
    /// The same, seven bytes an entry.
    V4,
}

/// As an index: enter the entry in the data registers (version 1).
const COMMIT: u32 = !0;
/// Bytes of an entry in a packed stream, and its bits.
const PACKED_BYTES: u32 = 7;
const PACKED_BITS: u64 = (1 << (8 * PACKED_BYTES)) - 1;
/// Bytes of a register.
const REGISTER_BYTES: u32 = 4;

/// Fields of an entry, by their lowest bits. A valid entry is never zero, so that zeros end a
/// stream.
const VALID: u64 = 1;
const SECTION: u32 = 1;
const VIRTUAL: u32 = 2;
const PHYSICAL: u32 = 22;
const PERMISSIONS: u32 = 42;
const ATTRIBUTES: u32 = 47;
const DOMAIN: u32 = 53;
/// Of the operation registers of versions 3 and 4: the space; and, of version 5, too, how many of
/// the ages are left out, from the highest on.
const STREAM_SPACE: u32 = 0xff;
const STREAM_AGES: u32 = 3 << 8;
/// Of entries by index only.
const SPACE: u32 = 55;
const GLOBAL: u32 = 63;
/// The largest domain that an entry has room for.
const MAX_DOMAIN: u8 = 3;

/// The registers of the interfaces, and where a stream stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlbPort {
    data: [u32; 3],
    /// The address space of the stream, and [`STREAM_AGES`].
    space: u32,
    /// The slot of the TLB that the stream looks at next.
    next_slot: u32,
    /// Bytes of a packed stream that were not read yet, or do not make an entry yet, and their
    /// number.
    bytes: u128,
    byte_count: u32,
}

mmulab_state::state!(TlbPort { data, space, next_slot, bytes, byte_count });

impl TlbPort {
    /// The register of the state of a stream, which an exception handler that uses the interface
    /// itself saves and writes back behind the data registers: the next slot with the number of
    /// bytes in bits 31 to 16, the space, and the bytes.
    pub(super) fn state(&self, register: u8) -> u32 {
        match register {
            0 => self.next_slot | self.byte_count << 16,
            1 => self.space,
            2 => self.bytes as u32,
            _ => (self.bytes >> 32) as u32,
        }
    }

    /// Writes it.
    pub(super) fn set_state(&mut self, register: u8, value: u32) {
        let replaced = |bytes: u128, place: u32| {
            bytes & !(u128::from(u32::MAX) << place) | u128::from(value) << place
        };
        match register {
            0 => (self.next_slot, self.byte_count) = (value & 0xffff, (value >> 16) % PACKED_BYTES),
            1 => self.space = value & (STREAM_SPACE | STREAM_AGES),
            2 => self.bytes = replaced(self.bytes, 0),
            _ => self.bytes = replaced(self.bytes, 32),
        }
    }

    fn set_entry(&mut self, entry: u64) {
        self.data = [entry as u32, (entry >> 32) as u32, 0];
    }

    fn entry(&self) -> u64 {
        u64::from(self.data[1]) << 32 | u64::from(self.data[0])
    }

    /// The next entry of the stream, or zero at its end. To look for it takes a cycle a set.
    fn next_entry<K: CacheKind>(&mut self, memory: &mut CoreMemory<Cpu<K>>) -> u64 {
        let ways = memory.tlb(Side::Data).ways();
        let first_set = self.next_slot / ways;
        let entry = self.find_entry(memory);
        memory.charge(Cause::TlbOperation, self.next_slot / ways - first_set);
        entry
    }

    fn find_entry<K: CacheKind>(&mut self, memory: &CoreMemory<Cpu<K>>) -> u64 {
        let tlb = memory.tlb(Side::Data);
        while self.next_slot < tlb.slots() {
            let found = tlb.entry(self.next_slot);
            let left_out = tlb.age(self.next_slot) > oldest(self.space);
            self.next_slot += 1;
            let of_space = found.filter(|entry| {
                !left_out && !entry.global && u32::from(entry.asid) == self.space & STREAM_SPACE
            });
            if let Some(entry) = of_space.and_then(encoded) {
                return entry;
            }
        }
        0
    }

    fn take_bytes(&mut self, count: u32) -> u64 {
        let taken = self.bytes as u64 & (!0 >> (64 - 8 * count));
        self.bytes >>= 8 * count;
        self.byte_count -= count;
        taken
    }

    fn put_bytes(&mut self, value: u64, count: u32) {
        self.bytes |= u128::from(value) << (8 * self.byte_count);
        self.byte_count += count;
    }
}

/// The oldest entries of a stream, by what was written to begin it.
fn oldest(operation: u32) -> Age {
    UNUSED - ((operation & STREAM_AGES) >> STREAM_AGES.trailing_zeros()) as Age
}

/// The 55 bits of an entry; `None` if it is of a size or domain that they have no room for.
fn encoded(entry: &Entry) -> Option<u64> {
    let page = &entry.payload;
    let section = match entry.page_shift {
        12 => 0,
        20 => 1,
        _ => return None,
    };
    (page.domain <= MAX_DOMAIN).then(|| {
        VALID
            | section << SECTION
            | entry.virtual_address >> 12 << VIRTUAL
            | u64::from(page.physical >> 12) << PHYSICAL
            | u64::from(page.permissions) << PERMISSIONS
            | u64::from(page.attributes) << ATTRIBUTES
            | u64::from(page.domain) << DOMAIN
    })
}

/// The same with address space and global bit, as entries by index have it; zero if there is none.
fn encoded_whole(entry: Option<&Entry>) -> u64 {
    let whole = entry.and_then(|entry| {
        let beside = u64::from(entry.asid & 0xff) << SPACE | u64::from(entry.global) << GLOBAL;
        encoded(entry).map(|bits| bits | beside)
    });
    whole.unwrap_or(0)
}

/// Of version 5: the core whose entries are taken over; of what is read, whether more are to come.
const SOURCE: u32 = 0xff;
const UNDER_WAY: u32 = 1 << 31;

impl<K: CacheKind> Cpu<K> {
    /// Version 5: begins to take over the entries of the space that runs from another core, all or
    /// those that are not too old there ([`STREAM_AGES`]).
    pub(super) fn start_tlb_transfer(&mut self, bus: &mut Bus<K>, value: u32) {
        self.memory.begin_tlb_transfer(bus, value & SOURCE, oldest(value));
    }

    /// How many came so far, and whether more are to come.
    pub(super) fn tlb_transfer(&mut self, bus: &mut Bus<K>) -> u32 {
        let (entered, under_way) = self.memory.tlb_transfer_state(bus);
        entered | if under_way { UNDER_WAY } else { 0 }
    }

    /// A write of the operation register: an index, or the address space of a stream that begins.
    pub(super) fn start_tlb_port(&mut self, bus: &mut Bus<K>, version: Version, value: u32) {
        let port = &mut self.cp15.tlb_port;
        match version {
            Version::V1 if value == COMMIT => {
                let entry = port.entry();
                self.enter_tlb_entry(bus, entry, (entry >> SPACE) as u16 & 0xff);
            }
            Version::V1 | Version::V2 => {
                port.set_entry(encoded_whole(self.memory.tlb(Side::Data).entry(value)));
            }
            Version::V3 | Version::V4 => {
                let space = value & (STREAM_SPACE | STREAM_AGES);
                *port = TlbPort { space, ..TlbPort::default() };
            }
        }
    }

    /// A read of a data register.
    pub(super) fn read_tlb_port(&mut self, version: Version, register: u8) -> u32 {
        let port = &mut self.cp15.tlb_port;
        match version {
            Version::V3 if register == 0 => {
                let entry = port.next_entry(&mut self.memory);
                port.set_entry(entry);
            }
            Version::V4 => {
                if port.byte_count < REGISTER_BYTES {
                    // At the end these are zeros.
                    let entry = port.next_entry(&mut self.memory);
                    port.put_bytes(entry, PACKED_BYTES);
                }
                return port.take_bytes(REGISTER_BYTES) as u32;
            }
            _ => {}
        }
        port.data[usize::from(register)]
    }

    /// A write of a data register.
    pub(super) fn write_tlb_port(
        &mut self,
        bus: &mut Bus<K>,
        version: Version,
        register: u8,
        value: u32,
    ) {
        let port = &mut self.cp15.tlb_port;
        if version == Version::V4 {
            port.put_bytes(u64::from(value), REGISTER_BYTES);
            if port.byte_count < PACKED_BYTES {
                return;
            }
            let entry = port.take_bytes(PACKED_BYTES) & PACKED_BITS;
            if entry & VALID == 0 {
                // What follows is another stream.
                (port.bytes, port.byte_count) = (0, 0);
                return;
            }
            let space = (port.space & STREAM_SPACE) as u16;
            self.enter_tlb_entry(bus, entry, space);
            return;
        }
        port.data[usize::from(register)] = value;
        let entry = port.entry();
        match (version, register) {
            (Version::V2, 1) => self.enter_tlb_entry(bus, entry, (entry >> SPACE) as u16 & 0xff),
            (Version::V3, 1) => {
                let space = (port.space & STREAM_SPACE) as u16;
                self.enter_tlb_entry(bus, entry & !(!0 << SPACE), space);
            }
            _ => {}
        }
    }

    /// Enters an entry as a walk would; one that is not valid is ignored. Its memory type follows
    /// from its attributes and the present remap registers.
    fn enter_tlb_entry(&mut self, bus: &mut Bus<K>, entry: u64, space: u16) {
        if entry & VALID == 0 {
            return;
        }
        let field = |place: u32, bits: u32| (entry >> place) as u32 & ((1 << bits) - 1);
        let attributes = field(ATTRIBUTES, 6);
        let page_shift = if field(SECTION, 1) != 0 { 20 } else { 12 };
        let translation = Translation {
            physical: field(PHYSICAL, 20) << 12 >> page_shift << page_shift,
            permissions: field(PERMISSIONS, 5) as u8,
            domain: field(DOMAIN, 2) as u8,
            attributes: attributes as u8,
            memory_type: self.memory.mmu.memory_type_v7(attributes & 0x1f, attributes >> 5 != 0),
            page_shift,
            global: field(GLOBAL, 1) != 0,
        };
        let address = field(VIRTUAL, 20) << 12;
        self.memory.enter_translation(bus, address, space, translation);
        self.memory.tlb_mut(Side::Data).mark_unused(address, space);
    }
}
