//! Translation of ARMv7-A with short descriptors (ARM DDI 0406C, B3.5 to B3.8).

use mmulab_system::core::{Descriptor, MemoryType, Translation, Walk};

use crate::mmu::{ArmMmu, Registers, control, status};

/// Never executed, in the permissions of a translation, above the three bits AP.
pub(crate) const NEVER_EXECUTED: u8 = 1 << 3;
/// Not executed by privileged modes.
pub(crate) const NOT_EXECUTED_PRIVILEGED: u8 = 1 << 4;

/// Bits of TTBCR: with them, misses of table 0 or 1 do not walk.
const NO_WALKS_0: u32 = 1 << 4;
const NO_WALKS_1: u32 = 1 << 5;

/// What a descriptor says beside the address.
struct Page {
    physical: u32,
    page_shift: u8,
    domain: u8,
    /// AP[2:0].
    access: u32,
    never_executed: bool,
    /// TEX[2:0], C, B.
    attributes: u32,
    shareable: bool,
    global: bool,
}

impl ArmMmu {
    /// Whether the table of base 0 is responsible for an address (B3.5.4).
    fn is_in_table_0(&self, address: u32) -> bool {
        let width = self.registers.ttbcr & 7;
        width == 0 || address >> (32 - width) == 0
    }

    /// The table base that is responsible for an address, with its attributes.
    pub(crate) fn base_of(&self, address: u32) -> u32 {
        let Registers { ttbr, ttbr1, .. } = self.registers;
        if self.is_in_table_0(address) { ttbr } else { ttbr1 }
    }

    /// The first-level table that is responsible for an address, or that there is none (B3.5.4).
    fn table_of(&self, address: u32) -> Option<u32> {
        let registers = &self.registers;
        let width = registers.ttbcr & 7;
        if self.is_in_table_0(address) {
            let index = address << width >> width >> 20;
            let base = registers.ttbr & (!0 << (14 - width));
            (registers.ttbcr & NO_WALKS_0 == 0).then_some(base | index << 2)
        } else {
            let base = registers.ttbr1 & 0xffff_c000;
            (registers.ttbcr & NO_WALKS_1 == 0).then_some(base | address >> 20 << 2)
        }
    }

    /// Walks the tables for an address; `read` gives a word of physical memory.
    pub(crate) fn walk_v7(&self, address: u32, mut read: impl FnMut(u32) -> u32) -> Walk {
        let Some(first_address) = self.table_of(address) else {
            return Walk::new(Err(status::TRANSLATION), &[]);
        };
        let first = read(first_address);
        let domain = (first >> 5 & 15) as u8;
        let at_first = |result| Walk::new(result, &[(first_address, first)]);
        match first & 3 {
            0 => at_first(Err(status::TRANSLATION)),
            1 => {
                let second_address = first & 0xffff_fc00 | (address >> 12 & 0xff) << 2;
                let second = read(second_address);
                let no_privileged = first >> 2 & 1 != 0;
                let result = match second_level(second, domain) {
                    Some(page) => self.entry(&page, no_privileged),
                    None => Err(u32::from(domain) << 4 | (status::TRANSLATION + status::PAGE)),
                };
                Walk::new(result, &[(first_address, first), (second_address, second)])
            }
            _ => at_first(self.entry(&section(first, domain), first & 1 != 0)),
        }
    }

    /// What a descriptor of the first or second level is (B3.5.1). What has no access flag is no
    /// page here: no TLB holds it.
    pub(crate) fn descriptor_v7(&self, level: usize, value: u32) -> Descriptor {
        let page = match (level, value & 3) {
            (_, 0) => return Descriptor::Invalid,
            (0, 1) => return Descriptor::Table(value & 0xffff_fc00),
            (0, _) => Some(section(value, (value >> 5 & 15) as u8)),
            _ => second_level(value, 0),
        };
        let entry = page.and_then(|page| self.entry(&page, level == 0 && value & 1 != 0).ok());
        entry.map_or(Descriptor::Invalid, |mut page| {
            if self.has(control::TYPE_REMAP) {
                // TEX[2:1] are the operating system's own (B3.8.3).
                page.attributes &= !(3 << 3);
            }
            Descriptor::Page(page)
        })
    }

    /// The TLB entry of a page, or why it is none: without its access flag it stays out of the TLB
    /// (B3.7.4).
    fn entry(&self, page: &Page, not_executed_privileged: bool) -> Result<Translation, u32> {
        if self.has(control::ACCESS_FLAG) && page.access & 1 == 0 {
            let kind = match page.page_shift {
                20.. => status::ACCESS_FLAG,
                _ => status::ACCESS_FLAG_PAGE,
            };
            return Err(u32::from(page.domain) << 4 | kind);
        }
        let mut permissions = page.access as u8;
        if page.never_executed {
            permissions |= NEVER_EXECUTED;
        }
        if not_executed_privileged {
            permissions |= NOT_EXECUTED_PRIVILEGED;
        }
        Ok(Translation {
            physical: page.physical,
            permissions,
            domain: page.domain,
            attributes: page.attributes as u8 | u8::from(page.shareable) << 5,
            memory_type: self.memory_type_v7(page.attributes, page.shareable),
            page_shift: page.page_shift,
            global: page.global,
        })
    }

    /// What TEX, C, B and S mean (B3.8.2, B3.8.3).
    pub(crate) fn memory_type_v7(&self, attributes: u32, shareable: bool) -> MemoryType {
        if !self.has(control::TYPE_REMAP) {
            return match attributes {
                0 => MemoryType::STRONGLY_ORDERED,
                1 | 0b01000 => MemoryType::uncached(true),
                2 => (self.core.cached_type)(WRITE_THROUGH),
                3 => (self.core.cached_type)(WRITE_BACK),
                4 => MemoryType::uncached(true),
                7 => (self.core.cached_type)(WRITE_BACK_ALLOCATE),
                16.. => (self.core.cached_type)(attributes & 3),
                // Reserved, or the implementation's.
                _ => MemoryType::uncached(true),
            }
            .shareable(shareable);
        }
        let region = attributes & 7;
        let registers = &self.registers;
        match registers.prrr >> (2 * region) & 3 {
            0 => MemoryType::STRONGLY_ORDERED,
            1 => MemoryType::uncached(true),
            _ => {
                let is_shared = registers.prrr >> (18 + u32::from(shareable)) & 1 != 0;
                let inner = registers.nmrr >> (2 * region) & 3;
                (self.core.cached_type)(inner).shareable(is_shared)
            }
        }
    }

    /// Whether the permissions of a page let data be read or written (B3.7.1).
    #[inline(always)]
    pub(crate) fn allows_v7(&self, permissions: u8, write: bool, privileged: bool) -> bool {
        let mut access = permissions & 7;
        if self.has(control::ACCESS_FLAG) {
            // AP[0] is the access flag, and AP[2:1] say the rest as with AP[0] one.
            access |= 1;
        }
        match access {
            1 => privileged,
            2 => privileged || !write,
            3 => true,
            5 => privileged && !write,
            6 | 7 => !write,
            _ => false,
        }
    }

    /// Whether instructions of a page that may be read may be executed (B3.7.2).
    pub(crate) fn may_execute_v7(&self, page: &Translation, privileged: bool) -> bool {
        // A manager's domain has no permissions to check.
        if self.registers.dacr >> (2 * page.domain) & 3 == 3 {
            return true;
        }
        let writable = |privileged| self.allows_v7(page.permissions, true, privileged);
        let never = page.permissions & NEVER_EXECUTED != 0
            || self.has(control::WRITABLE_NOT_EXECUTED) && writable(privileged);
        let not_here = page.permissions & NOT_EXECUTED_PRIVILEGED != 0
            || self.has(control::USER_WRITABLE_NOT_EXECUTED) && writable(false);
        !(never || privileged && not_here)
    }

    /// What permissions and entries of the fast path depend on: domains, control bits, address
    /// space.
    pub(crate) fn permission_state_v7(&self) -> u64 {
        let bits = [
            control::MMU,
            control::DATA_CACHE,
            control::ACCESS_FLAG,
            control::TYPE_REMAP,
            control::WRITABLE_NOT_EXECUTED,
            control::USER_WRITABLE_NOT_EXECUTED,
        ];
        let set = bits.iter().enumerate().filter(|&(_, &bit)| self.has(bit));
        let control = set.fold(0, |all, (place, _)| all | 1u64 << place);
        let space = u64::from(self.registers.context_id & 0xff);
        u64::from(self.registers.dacr) << 32 | control << 8 | space
    }
}

/// Inner cacheability, as NMRR and TEX encode it (B3.8.2).
pub(crate) const WRITE_BACK_ALLOCATE: u32 = 1;
/// Write-through.
pub(crate) const WRITE_THROUGH: u32 = 2;
/// Write-back without allocation by stores.
pub(crate) const WRITE_BACK: u32 = 3;

/// A section or supersection (B3.5.1).
fn section(descriptor: u32, domain: u8) -> Page {
    let is_super = descriptor >> 18 & 1 != 0;
    let (page_shift, mask) = if is_super { (24, 0xff00_0000) } else { (20, 0xfff0_0000) };
    Page {
        physical: descriptor & mask,
        page_shift,
        domain: if is_super { 0 } else { domain },
        access: descriptor >> 15 << 2 & 4 | descriptor >> 10 & 3,
        never_executed: descriptor >> 4 & 1 != 0,
        attributes: descriptor >> 12 << 2 & 0x1c | descriptor >> 2 & 3,
        shareable: descriptor >> 16 & 1 != 0,
        global: descriptor >> 17 & 1 == 0,
    }
}

/// A large or small page; `None` without one.
fn second_level(descriptor: u32, domain: u8) -> Option<Page> {
    let large = match descriptor & 3 {
        0 => return None,
        1 => true,
        _ => false,
    };
    let (page_shift, mask) = if large { (16, 0xffff_0000) } else { (12, 0xffff_f000) };
    let (type_extension, never_executed) = if large {
        (descriptor >> 12, descriptor >> 15 & 1)
    } else {
        (descriptor >> 6, descriptor & 1)
    };
    Some(Page {
        physical: descriptor & mask,
        page_shift,
        domain,
        access: descriptor >> 9 << 2 & 4 | descriptor >> 4 & 3,
        never_executed: never_executed != 0,
        attributes: type_extension << 2 & 0x1c | descriptor >> 2 & 3,
        shareable: descriptor >> 10 & 1 != 0,
        global: descriptor >> 11 & 1 == 0,
    })
}
