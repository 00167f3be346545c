//! Translation of ARMv4 and ARMv5: registers, tables and permissions (ARM DDI 0100, part B, chapter
//! B3).

use mmulab_machine::{ArmRegister, ArmRegisters, SystemMachine};
use mmulab_system::core::{
    Descriptor, MaintenanceNames, MemoryType, Mmu, Side, Space, SpaceFormat, Translation, Walk,
};

use crate::cores::CoreDescription;

/// Attribute bit of a descriptor: a cache may hold the page (C).
pub const CACHEABLE: u8 = 1;
/// Attribute bit of a descriptor: writes may be buffered (B).
pub const BUFFERABLE: u8 = 2;
/// Attribute bit of a descriptor: the XScale's X.
pub const EXTENDED: u8 = 4;

/// Fault status codes (B3.7.1), for sections; pages are two more. The domain is in bits 7 to 4.
pub mod status {
    /// Alignment.
    pub const ALIGNMENT: u32 = 0x1;
    /// No descriptor.
    pub const TRANSLATION: u32 = 0x5;
    /// The domain allows no access.
    pub const DOMAIN: u32 = 0x9;
    /// The permission does not suffice.
    pub const PERMISSION: u32 = 0xd;
    /// Added for pages.
    pub const PAGE: u32 = 0x2;
    /// The access flag is clear (ARMv6K); for pages [`ACCESS_FLAG_PAGE`].
    pub const ACCESS_FLAG: u32 = 0x3;
    /// The same for pages.
    pub const ACCESS_FLAG_PAGE: u32 = 0x6;
    /// A store (ARMv6).
    pub const WRITE: u32 = 1 << 11;
    /// Maintenance of a cache (ARMv7 with large physical addresses).
    pub const MAINTENANCE: u32 = 1 << 13;
}

/// Control register bits (c1).
pub mod control {
    /// MMU on.
    pub const MMU: u32 = 1;
    /// Alignment checking.
    pub const ALIGNMENT: u32 = 1 << 1;
    /// Data cache on.
    pub const DATA_CACHE: u32 = 1 << 2;
    /// Write buffer on, where it can be off (SA-1100).
    pub const WRITE_BUFFER: u32 = 1 << 3;
    /// System protection.
    pub const SYSTEM: u32 = 1 << 8;
    /// ROM protection.
    pub const ROM: u32 = 1 << 9;
    /// Branch prediction on (XScale).
    pub const BRANCH_PREDICTION: u32 = 1 << 11;
    /// Instruction cache on.
    pub const INSTRUCTION_CACHE: u32 = 1 << 12;
    /// Exception vectors at 0xffff0000.
    pub const HIGH_VECTORS: u32 = 1 << 13;
    /// Round-robin cache replacement, where the core offers the choice.
    pub const ROUND_ROBIN: u32 = 1 << 14;
    /// SWP and SWPB exist (ARMv7 with the multiprocessing extensions).
    pub const SWAP: u32 = 1 << 10;
    /// What can be written is not executed (ARMv7 with the virtualization extensions).
    pub const WRITABLE_NOT_EXECUTED: u32 = 1 << 19;
    /// What user mode can write is not executed by privileged modes.
    pub const USER_WRITABLE_NOT_EXECUTED: u32 = 1 << 20;
    /// Attributes of pages come from two registers (ARMv7).
    pub const TYPE_REMAP: u32 = 1 << 28;
    /// Descriptors have an access flag (ARMv7).
    pub const ACCESS_FLAG: u32 = 1 << 29;
    /// Exceptions are taken in Thumb state (ARMv6T2).
    pub const THUMB_EXCEPTIONS: u32 = 1 << 30;
}

/// Registers of the system control coprocessor, by ARM's names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registers {
    /// c1.
    pub sctlr: u32,
    /// c1 opcode 1, auxiliary control (XScale).
    pub actlr: u32,
    /// c2, translation table base.
    pub ttbr: u32,
    /// c3, domain access control.
    pub dacr: u32,
    /// c5, data fault status.
    pub dfsr: u32,
    /// c5, instruction fault status.
    pub ifsr: u32,
    /// c6, fault address.
    pub far: u32,
    /// c13, FCSE process ID, in place.
    pub fcse_pid: u32,
    /// c13, context ID.
    pub context_id: u32,
    /// c15, coprocessor access (XScale).
    pub coprocessor_access: u32,
    /// c9, cache lockdown, instructions and data: by [`Side`].
    pub cache_lockdown: [u32; 2],
    /// c15 opcode 7, cache debug control (ARM926EJ-S).
    pub cache_debug: u32,
    /// c2, translation table base 1, and table control (ARMv6).
    pub ttbr1: u32,
    /// c2, translation table base control (ARMv6).
    pub ttbcr: u32,
    /// c5, instruction fault address (ARMv6T2).
    pub ifar: u32,
    /// c10, primary region remap (ARMv7).
    pub prrr: u32,
    /// c10, normal memory remap (ARMv7).
    pub nmrr: u32,
    /// c12, vector base address (ARMv7 with the security extensions).
    pub vbar: u32,
    /// c0, cache size selection (ARMv7).
    pub csselr: u32,
    /// c7, physical address (ARMv7 address translation).
    pub par: u32,
    /// c13, thread identifiers: written by user mode, read by it, privileged (ARMv6K).
    pub thread: [u32; 3],
}

mmulab_state::value!(Registers {
    sctlr,
    actlr,
    ttbr,
    dacr,
    dfsr,
    ifsr,
    far,
    fcse_pid,
    context_id,
    coprocessor_access,
    cache_lockdown,
    cache_debug,
    ttbr1,
    ttbcr,
    ifar,
    prrr,
    nmrr,
    vbar,
    csselr,
    par,
    thread,
});

impl Registers {
    /// What they hold out of reset.
    pub(crate) fn after_reset(bits: &ArmRegisters) -> Registers {
        let reset = |register: Option<ArmRegister>| register.unwrap_or_default().reset;
        Registers {
            sctlr: bits.control.reset,
            actlr: reset(bits.auxiliary_control),
            ttbr: bits.table_base.reset,
            dfsr: bits.data_fault_status.reset,
            ifsr: reset(bits.instruction_fault_status),
            cache_debug: reset(bits.cache_debug),
            coprocessor_access: reset(bits.coprocessor_access),
            ..Registers::default()
        }
    }
}

/// What the attribute bits of descriptors mean depends on more than the bits.
#[derive(Clone, Copy, Debug)]
pub struct CacheTraits {
    /// The data cache keeps stores, where the page lets it.
    pub writes_back: bool,
    /// The data cache fetches the line of a store that misses, where the page lets it.
    pub write_allocates: bool,
    /// There is a mini data cache.
    pub has_mini: bool,
}

/// Which descriptors the tables hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Of ARMv4 and ARMv5: permissions by quarter of a page, no address-space identifiers.
    V5,
    /// The short descriptors of ARMv7.
    V7,
}

/// The MMU of a core.
#[derive(Clone)]
pub struct ArmMmu {
    /// The registers.
    pub registers: Registers,
    pub(crate) core: &'static CoreDescription,
    pub(crate) caches: CacheTraits,
}

mmulab_state::state!(ArmMmu { registers } built { core, caches });
mmulab_state::value_like_given!(ArmMmu);

impl ArmMmu {
    /// The MMU out of reset.
    pub fn new(machine: &SystemMachine, core: &'static CoreDescription) -> ArmMmu {
        let write_back = mmulab_machine::WritePolicy::WriteBack;
        ArmMmu {
            registers: Registers::after_reset(&machine.registers),
            core,
            caches: CacheTraits {
                writes_back: machine.dcache.write_policy == write_back,
                write_allocates: machine.dcache.write_allocate,
                has_mini: machine.mini_dcache.is_some(),
            },
        }
    }

    #[inline(always)]
    fn is_v7(&self) -> bool {
        self.core.table_format == TableFormat::V7
    }

    #[inline(always)]
    pub(crate) fn has(&self, control: u32) -> bool {
        self.registers.sctlr & control != 0
    }
}

/// The registers that choose an address space, as results name them.
static SPACE: SpaceFormat = SpaceFormat {
    names: &["table", "process", "domains"],
    describe: |registers| match registers {
        [table, process, domains] => {
            format!("table {table:#x}, PID {process}, domains {domains:#x}")
        }
        _ => String::new(),
    },
};

impl Mmu for ArmMmu {
    const PAGE_SHIFTS: &'static [u32] = &[10, 12, 14, 16, 20, 24];
    const ALIGNMENT_FAULT: u32 = status::ALIGNMENT;

    /// The modified virtual address: the process ID relocates the lowest 32 MB.
    #[inline(always)]
    fn relocated(&self, address: u32) -> u32 {
        if address >> 25 == 0 { address | self.registers.fcse_pid } else { address }
    }

    #[inline(always)]
    fn is_on(&self) -> bool {
        self.has(control::MMU)
    }

    #[inline(always)]
    fn checks_alignment(&self) -> bool {
        self.has(control::ALIGNMENT)
    }

    fn reads_unaligned(&self) -> bool {
        self.is_v7()
    }

    fn asid(&self) -> u16 {
        if self.is_v7() { self.registers.context_id as u16 & 0xff } else { 0 }
    }

    fn untranslated_type(&self, side: Side) -> MemoryType {
        // With the MMU off, an enabled instruction cache takes everything (278088-004, 6.1;
        // ARM DDI 0198D, 3.1).
        if side == Side::Instruction && self.has(control::INSTRUCTION_CACHE) {
            MemoryType::write_through().filling((self.core.instruction_fills)(&self.registers))
        } else {
            MemoryType::STRONGLY_ORDERED
        }
    }

    fn effective_type(&self, page: MemoryType, side: Side) -> MemoryType {
        match side {
            Side::Instruction if self.has(control::INSTRUCTION_CACHE) => {
                // What a page says of stores does not concern fetches, but a second level takes the
                // lines of pages that are written back.
                let shared = self.is_v7() && page.is_write_back();
                let page = match page.is_cached() {
                    true => MemoryType::write_through().writing_back(shared),
                    false => MemoryType::STRONGLY_ORDERED,
                };
                page.filling((self.core.instruction_fills)(&self.registers))
            }
            Side::Instruction => page.with_caches_off(),
            Side::Data => {
                let caches_on = self.has(control::DATA_CACHE);
                let page = if caches_on { page } else { page.with_caches_off() };
                (self.core.adjusted_type)(page, &self.registers)
            }
        }
    }

    fn permission(&self, page: &Translation, address: u32) -> u8 {
        if self.is_v7() { page.permissions } else { permission(page, address) }
    }

    fn permission_state(&self) -> u64 {
        if self.is_v7() {
            return self.permission_state_v7();
        }
        let control = self.registers.sctlr
            & (control::MMU
                | control::DATA_CACHE
                | control::WRITE_BUFFER
                | control::SYSTEM
                | control::ROM);
        u64::from(self.registers.dacr) << 32 | u64::from(control)
    }

    /// The inner cacheability of the table base that is responsible, IRGN (ARM DDI 0406C, B4.1.154
    /// and B4.1.155).
    fn walks_through_data_cache(&self, address: u32) -> bool {
        self.is_v7() && self.has(control::DATA_CACHE) && self.base_of(address) & 0x41 != 0
    }

    fn walk(&self, address: u32, read: impl FnMut(u32) -> u32) -> Walk {
        if self.is_v7() {
            return self.walk_v7(address, read);
        }
        walk(self.registers.ttbr, address, self.core, self.caches, read)
    }

    fn level_shift(&self, level: usize) -> Option<u32> {
        if self.is_v7() { [20, 12].get(level).copied() } else { None }
    }

    fn descriptor(&self, level: usize, value: u32) -> Descriptor {
        if self.is_v7() { self.descriptor_v7(level, value) } else { Descriptor::Invalid }
    }

    /// B3.5, B3.6.
    #[inline(always)]
    fn refusal(
        &self,
        page: &Translation,
        address: u32,
        write: bool,
        privileged: bool,
    ) -> Option<u32> {
        let kind = if page.page_shift >= 20 { 0 } else { status::PAGE };
        let domain = u32::from(page.domain) << 4;
        match self.registers.dacr >> (2 * page.domain) & 3 {
            3 => return None,
            1 => {}
            // The reserved value behaves as no access.
            _ => return Some(domain | (status::DOMAIN + kind)),
        }
        if self.is_v7() {
            let allowed = self.allows_v7(page.permissions, write, privileged);
            return (!allowed).then_some(domain | (status::PERMISSION + kind));
        }
        let allowed = match permission(page, address) {
            0 => {
                let system = self.has(control::SYSTEM);
                let rom = self.has(control::ROM);
                !write && (system != rom) && (rom || privileged)
            }
            1 => privileged,
            2 => privileged || !write,
            _ => true,
        };
        (!allowed).then_some(domain | (status::PERMISSION + kind))
    }

    fn fetch_refusal(&self, page: &Translation, address: u32, privileged: bool) -> Option<u32> {
        let refused = self.refusal(page, address, false, privileged);
        if refused.is_some() || !self.is_v7() || self.may_execute_v7(page, privileged) {
            return refused;
        }
        let kind = if page.page_shift >= 20 { 0 } else { status::PAGE };
        Some(u32::from(page.domain) << 4 | (status::PERMISSION + kind))
    }

    fn is_uniform(&self, page: &Translation) -> bool {
        if self.is_v7() {
            return true;
        }
        match page.page_shift {
            10 => false,
            12 => page.permissions == (page.permissions & 3) * 0x55,
            _ => true,
        }
    }

    fn space(&self) -> Space {
        let Registers { ttbr, fcse_pid, dacr, context_id, .. } = self.registers;
        let process = if self.is_v7() { context_id } else { fcse_pid >> 25 };
        Space::new(&SPACE, &[ttbr, process, dacr])
    }

    fn maintenance(&self) -> &MaintenanceNames {
        &self.core.maintenance
    }
}

/// The permission bits for an address: small and large pages have one for each quarter, the others
/// four equal ones.
fn permission(page: &Translation, address: u32) -> u8 {
    let quarter = address >> (page.page_shift - 2) & 3;
    page.permissions >> (2 * quarter) & 3
}

/// Walks the tables at `table` for a modified virtual address (B3.3). `read` gives a word of
/// physical memory.
fn walk(
    table: u32,
    address: u32,
    core: &CoreDescription,
    caches: CacheTraits,
    mut read: impl FnMut(u32) -> u32,
) -> Walk {
    let extended = core.extended_pages;
    let first_address = table & 0xffff_c000 | address >> 20 << 2;
    let first = read(first_address);
    let domain = (first >> 5 & 15) as u8;
    let entry = |physical, permissions, page_shift, descriptor: u32, x: u32| {
        let attributes = attributes(descriptor, x);
        let memory_type = (core.memory_type)(attributes, caches);
        let global = true;
        Translation { physical, permissions, domain, attributes, memory_type, page_shift, global }
    };
    let at_first = |result| Walk::new(result, &[(first_address, first)]);
    let second_address = match first & 3 {
        0 => return at_first(Err(status::TRANSLATION)),
        1 => first & 0xffff_fc00 | (address >> 12 & 0xff) << 2,
        2 => {
            let x = if extended { first >> 12 & 1 } else { 0 };
            let permissions = (first >> 10 & 3) as u8 * 0x55;
            return at_first(Ok(entry(first & 0xfff0_0000, permissions, 20, first, x)));
        }
        _ => first & 0xffff_f000 | (address >> 10 & 0x3ff) << 2,
    };
    let fine = first & 3 == 3;
    let second = read(second_address);
    let equal_permissions = (second >> 4 & 3) as u8 * 0x55;
    let by_quarters = |physical: u32, page_shift: u8, x| {
        let permissions = (second >> 4) as u8;
        if !core.quarter_entries || permissions == (permissions & 3) * 0x55 {
            return entry(physical, permissions, page_shift, second, x);
        }
        let shift = page_shift - 2;
        let quarter = address >> shift & 3;
        let permissions = (permissions >> (2 * quarter) & 3) * 0x55;
        entry(physical | quarter << shift, permissions, shift, second, x)
    };
    let result = match second & 3 {
        1 => {
            let x = if extended { second >> 12 & 1 } else { 0 };
            Ok(by_quarters(second & 0xffff_0000, 16, x))
        }
        2 => Ok(by_quarters(second & 0xffff_f000, 12, 0)),
        // In a coarse table, 3 is the extended small page of the XScale and unpredictable
        // elsewhere; in a fine table it is a tiny page. Both have the X bit in the same place.
        3 if fine || extended => {
            let x = if extended { second >> 6 & 1 } else { 0 };
            let (mask, page_shift) = if fine { (0xffff_fc00, 10) } else { (0xffff_f000, 12) };
            Ok(entry(second & mask, equal_permissions, page_shift, second, x))
        }
        _ => Err(u32::from(domain) << 4 | (status::TRANSLATION + status::PAGE)),
    };
    Walk::new(result, &[(first_address, first), (second_address, second)])
}

fn attributes(descriptor: u32, x: u32) -> u8 {
    let cacheable = if descriptor & 8 != 0 { CACHEABLE } else { 0 };
    let bufferable = if descriptor & 4 != 0 { BUFFERABLE } else { 0 };
    cacheable | bufferable | if x != 0 { EXTENDED } else { 0 }
}
