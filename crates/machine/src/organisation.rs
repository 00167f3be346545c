//! Memory-management organisations: page tables, and the handlers or walkers that search them.
//!
//! The first seven follow Jacob and Mudge, "A Look at Several Memory Management Units, TLB-Refill
//! Mechanisms, and Page Table Organizations" (1998), section 3.1; `radix` is the multi-level table
//! of today's 64-bit machines.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ConfigurationError, PageSize,
    parts::{Replacement, Tlb, Ways},
};

/// Page tables, and the handlers or walkers that search them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Organisation {
    /// Two tiers walked bottom-up by software; the user table is virtual, the root table physical.
    Ultrix(TwoTier),
    /// Three tiers walked bottom-up by software; user and kernel tables are virtual.
    Mach(ThreeTier),
    /// Two tiers walked top-down by hardware; physical, cacheable tables.
    Intel(HardwareTwoTier),
    /// A hashed inverted table with a collision table, walked by software.
    PaRisc(Inverted),
    /// The same inverted table walked by hardware.
    InvertedHw(HardwareInverted),
    /// No TLB: software fills the last cache level on its misses, from the two tiers of `ultrix`.
    Notlb(TwoTier),
    /// Caches alone; nothing is translated.
    Base(Base),
    /// A multi-level table walked by hardware, with walk caches; physical.
    Radix(Radix),
}

impl Organisation {
    /// The word in the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Organisation::Ultrix(_) => "ultrix",
            Organisation::Mach(_) => "mach",
            Organisation::Intel(_) => "intel",
            Organisation::PaRisc(_) => "pa-risc",
            Organisation::InvertedHw(_) => "inverted-hw",
            Organisation::Notlb(_) => "notlb",
            Organisation::Base(_) => "base",
            Organisation::Radix(_) => "radix",
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        match self {
            Organisation::Ultrix(table) | Organisation::Notlb(table) => {
                let mut space =
                    Space::of(table.page_bytes, table.pte_bytes, table.user_space_bytes)?;
                space.check_handler("user_handler", &table.user_handler)?;
                space.check_handler("root_handler", &table.root_handler)?;
                space.check_tiers("user_table", &table.user_table, space.pages(), &table.root_table)
            }
            Organisation::Mach(table) => {
                let mut space =
                    Space::of(table.page_bytes, table.pte_bytes, table.user_space_bytes)?;
                space.check_handler("user_handler", &table.user_handler)?;
                space.check_handler("kernel_handler", &table.kernel_handler)?;
                space.check_handler("root_handler", &table.root_handler)?;
                let loads = &table.administrative_loads;
                let bytes = loads.stride_bytes.saturating_mul(u64::from(loads.count));
                space.check_region("administrative_loads", loads.base_address, bytes, 1)?;
                space.check_table("user_table", table.user_table.base_address, space.pages())?;
                let entries = ADDRESSES / space.page_bytes;
                space.check_tiers("kernel_table", &table.kernel_table, entries, &table.root_table)
            }
            Organisation::Intel(table) => {
                let mut space =
                    Space::of(table.page_bytes, table.pte_bytes, table.user_space_bytes)?;
                space.check_tiers("user_table", &table.user_table, space.pages(), &table.root_table)
            }
            Organisation::PaRisc(table) => {
                let mut space =
                    Space::of(table.page_bytes, table.pte_bytes, table.user_space_bytes)?;
                space.check_handler("user_handler", &table.user_handler)?;
                space.check_inverted(&table.hash_table, &table.collision_table)
            }
            Organisation::InvertedHw(table) => {
                let mut space =
                    Space::of(table.page_bytes, table.pte_bytes, table.user_space_bytes)?;
                space.check_inverted(&table.hash_table, &table.collision_table)
            }
            Organisation::Base(base) => check_user_space(base.user_space_bytes),
            Organisation::Radix(radix) => radix.check(),
        }
    }
}

/// Two tiers: a linear user table in virtual memory, mapped by a root table in physical memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TwoTier {
    /// Page size.
    pub page_bytes: u64,
    /// Size of a page-table entry in all tiers.
    pub pte_bytes: u64,
    /// The program's part of the address space, from 0; mapped regions of a 64-bit program are
    /// folded into it.
    pub user_space_bytes: u64,
    /// Runs on a TLB miss of the program (without a TLB: on a miss of the last cache level).
    pub user_handler: Handler,
    /// Runs when the user handler's load misses in turn.
    pub root_handler: Handler,
    /// Virtual, linear, one entry a page.
    pub user_table: Table,
    /// Physical, one entry a page of the user table.
    pub root_table: Table,
}

/// Three tiers: user and kernel tables in virtual memory, a root table in physical memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreeTier {
    /// Page size.
    pub page_bytes: u64,
    /// Size of a page-table entry in all tiers.
    pub pte_bytes: u64,
    /// The program's part of the address space, from 0; mapped regions of a 64-bit program are
    /// folded into it.
    pub user_space_bytes: u64,
    /// Runs on a TLB miss of the program.
    pub user_handler: Handler,
    /// Runs when the user handler's load misses the TLB.
    pub kernel_handler: Handler,
    /// Runs when the kernel handler's load misses the TLB.
    pub root_handler: Handler,
    /// What the root handler loads besides its page-table entry.
    pub administrative_loads: AdministrativeLoads,
    /// Virtual, linear, one entry a page of the program.
    pub user_table: Table,
    /// Virtual, linear, one entry a page of the kernel's address space (of the whole 32-bit space,
    /// indexed from 0).
    pub kernel_table: Table,
    /// Physical, one entry a page of the kernel table.
    pub root_table: Table,
}

/// Two tiers walked from the root down by a hardware state machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HardwareTwoTier {
    /// Page size.
    pub page_bytes: u64,
    /// Size of a page-table entry in both tiers.
    pub pte_bytes: u64,
    /// The program's part of the address space, from 0; mapped regions of a 64-bit program are
    /// folded into it.
    pub user_space_bytes: u64,
    /// The state machine.
    pub walker: Walker,
    /// Physical; one entry a page of user table.
    pub root_table: Table,
    /// Physical; the page that entry i of the root table points to stands i pages after the base.
    pub user_table: Table,
}

/// A hashed inverted table walked by software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inverted {
    /// Page size.
    pub page_bytes: u64,
    /// Size of an entry of either table.
    pub pte_bytes: u64,
    /// The program's part of the address space, from 0; mapped regions of a 64-bit program are
    /// folded into it.
    pub user_space_bytes: u64,
    /// Runs on a TLB miss.
    pub user_handler: Handler,
    /// Physical; the head of each chain.
    pub hash_table: HashTable,
    /// Physical; the rest of the chains, entries taken in the order in which pages are first
    /// mapped.
    pub collision_table: Table,
}

/// A hashed inverted table walked by a hardware state machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HardwareInverted {
    /// Page size.
    pub page_bytes: u64,
    /// Size of an entry of either table.
    pub pte_bytes: u64,
    /// The program's part of the address space, from 0; mapped regions of a 64-bit program are
    /// folded into it.
    pub user_space_bytes: u64,
    /// The state machine.
    pub walker: ChainWalker,
    /// Physical; the head of each chain.
    pub hash_table: HashTable,
    /// Physical; the rest of the chains, entries taken in the order in which pages are first
    /// mapped.
    pub collision_table: Table,
}

/// Caches alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The program's part of the address space, from 0; as in the organisations that it is the base
    /// of, so that both sides see the same addresses.
    pub user_space_bytes: u64,
}

/// A multi-level table walked by hardware.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Radix {
    /// Levels of the table for the smallest page.
    pub levels: u32,
    /// Bits of the address that index one level.
    pub index_bits: u32,
    /// Size of a page-table entry.
    pub pte_bytes: u64,
    /// Which pages the operating system gives the program.
    pub pages: Pages,
    /// Where the walker's loads enter the hierarchy.
    pub walk_starts_at: WalkStart,
    /// Cycles to begin a walk and to load its result into the TLB, once a walk.
    pub walk_overhead_cycles: u32,
    /// Cycles for one step, besides what the caches add below the level where the step's load hits.
    pub walk_step_cycles: u32,
    /// Holds entries of level 2, each of which names a last-level table (x86: PDE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_2: Option<WalkCache>,
    /// Holds entries of level 3 (x86: PDPTE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_3: Option<WalkCache>,
    /// Holds entries of level 4 (x86: PML4E).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_4: Option<WalkCache>,
    /// Address spaces whose translations stay at once, told apart by identifiers (x86: PCID, ARM
    /// and RISC-V: ASID) that the operating system gives in turn; with 1 a switch to another
    /// empties TLBs and walk caches. Needed to replay several programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_spaces: Option<u32>,
    /// Whether a walk is followed by one for the next page, beside the program: if that page has
    /// been touched and the second-level TLB does not have it, it is put there. Absent: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_next_page: Option<bool>,
    /// Walks that are done at a time. Absent or 1: the program waits for each whole walk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walkers: Option<u32>,
    /// With several walkers: the instructions whose walks are begun together, as many as the core
    /// issues while one waits (its reorder buffer).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_window_instructions: Option<u32>,
    /// The tables of a hypervisor, for a program in a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

impl Radix {
    /// Walkers and the instructions whose walks they begin together, where walks overlap.
    pub fn overlap(&self) -> Option<(u32, u32)> {
        let walkers = self.walkers.filter(|&walkers| walkers > 1)?;
        Some((walkers, self.walk_window_instructions?))
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        check_levels("organisation", self.levels, self.index_bits, self.pte_bytes)?;
        check_pages("organisation", self.levels, self.index_bits, self.pages.shift(|| true))?;
        // More than the 16 bits of an ASID no hardware has.
        if let Some(count) = self.address_spaces
            && !(1..=1 << 16).contains(&count)
        {
            return Err(ConfigurationError::new(
                "organisation.address_spaces",
                format!("{count} is not between 1 and 65536; with 1 a switch empties the TLBs"),
            ));
        }
        match (self.walkers, self.walk_window_instructions) {
            (None, None) | (Some(1), _) | (Some(2..=64), Some(1..)) => {}
            (None, Some(_)) => {
                return Err(ConfigurationError::new(
                    "organisation.walk_window_instructions",
                    "has no effect without organisation.walkers; set that, too",
                ));
            }
            (Some(2..=64), _) => {
                return Err(ConfigurationError::new(
                    "organisation.walk_window_instructions",
                    "must be given, at least 1, where there are several walkers: the size of the reorder buffer",
                ));
            }
            (Some(walkers), _) => {
                return Err(ConfigurationError::new(
                    "organisation.walkers",
                    format!("{walkers} is not between 1 and 64"),
                ));
            }
        }
        let caches = [&self.walk_cache_level_2, &self.walk_cache_level_3, &self.walk_cache_level_4];
        check_walk_caches("organisation", self.levels, self.index_bits, caches)?;
        self.host.as_ref().map_or(Ok(()), Host::check)
    }
}

/// The second dimension of walks: a hypervisor's tables map what the operating system takes for
/// physical memory, its tables included. x86: nested or extended page tables; ARM: stage 2; RISC-V:
/// G-stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The pages by which the hypervisor maps the guest's memory; "none" where the program runs on
    /// the computer itself.
    pub pages: HostPages,
    /// What the guest takes for its physical memory.
    pub guest_memory_bytes: u64,
    /// Levels of the hypervisor's table.
    pub levels: u32,
    /// Bits of the guest-physical address that index one level.
    pub index_bits: u32,
    /// Size of an entry.
    pub pte_bytes: u64,
    /// Holds entries of level 2 of the hypervisor's table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_2: Option<WalkCache>,
    /// Holds entries of level 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_3: Option<WalkCache>,
    /// Holds entries of level 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache_level_4: Option<WalkCache>,
    /// Holds translations of guest-physical pages, as long as the hypervisor's, for walks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_tlb: Option<WalkCache>,
}

/// The pages by which a hypervisor maps its guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostPages {
    /// There is no hypervisor.
    #[serde(rename = "none")]
    None,
    /// 4 KiB.
    #[serde(rename = "4K")]
    Small,
    /// 2 MiB.
    #[serde(rename = "2M")]
    Large,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Huge,
}

/// log2 of the root tables that may lie side by side, so that a table of one level less is enough:
/// up to 16 in ARM's stage 2 (DDI 0487, "Concatenated translation tables"), four in RISC-V's
/// G-stage (privileged architecture, "Guest Physical Address Translation").
const CONCATENATED_ROOTS_SHIFT: u32 = 4;

impl HostPages {
    /// log2 of their size.
    pub fn shift(self) -> Option<u32> {
        match self {
            HostPages::None => None,
            HostPages::Small => Some(12),
            HostPages::Large => Some(21),
            HostPages::Huge => Some(30),
        }
    }
}

impl Host {
    fn check(&self) -> Result<(), ConfigurationError> {
        check_levels("organisation.host", self.levels, self.index_bits, self.pte_bytes)?;
        if let Some(shift) = self.pages.shift() {
            check_pages("organisation.host", self.levels, self.index_bits, shift)?;
        }
        let caches = [&self.walk_cache_level_2, &self.walk_cache_level_3, &self.walk_cache_level_4];
        check_walk_caches("organisation.host", self.levels, self.index_bits, caches)?;
        if let Some(tlb) = &self.nested_tlb {
            check_walk_cache("organisation.host.nested_tlb", tlb)?;
        }
        let bytes = self.guest_memory_bytes;
        if !bytes.is_power_of_two() || !(1 << 30..=1 << 36).contains(&bytes) {
            return Err(ConfigurationError::new(
                "organisation.host.guest_memory_bytes",
                format!("{bytes} is not a power of two between 1 GiB and 64 GiB"),
            ));
        }
        let reach_shift =
            covered_shift(self.levels + 1, self.index_bits) + CONCATENATED_ROOTS_SHIFT;
        if bytes.ilog2() > reach_shift {
            return Err(ConfigurationError::new(
                "organisation.host.levels",
                format!(
                    "{} of {} index bits translate 2^{reach_shift} bytes, with 16 root tables side by side; guest_memory_bytes is {bytes}",
                    self.levels, self.index_bits
                ),
            ));
        }
        Ok(())
    }
}

/// That entries of some level map pages of `1 << page_shift` bytes.
fn check_pages(
    path: &str,
    levels: u32,
    index_bits: u32,
    page_shift: u32,
) -> Result<(), ConfigurationError> {
    if (0..levels).any(|above| PageSize::Size4K.shift() + above * index_bits == page_shift) {
        return Ok(());
    }
    Err(ConfigurationError::new(
        format!("{path}.pages"),
        format!("no level of {index_bits} index bits has pages of 2^{page_shift} bytes"),
    ))
}

fn check_levels(
    path: &str,
    levels: u32,
    index_bits: u32,
    pte_bytes: u64,
) -> Result<(), ConfigurationError> {
    if !(1..=5).contains(&levels) {
        return Err(ConfigurationError::new(
            format!("{path}.levels"),
            format!("{levels} is not between 1 and 5"),
        ));
    }
    if !(1..=16).contains(&index_bits) {
        return Err(ConfigurationError::new(
            format!("{path}.index_bits"),
            format!("{index_bits} is not between 1 and 16"),
        ));
    }
    if covered_shift(levels, index_bits) >= u64::BITS {
        return Err(ConfigurationError::new(
            format!("{path}.levels"),
            format!("{levels} of {index_bits} index bits are more than 64-bit addresses have"),
        ));
    }
    if !matches!(pte_bytes, 4 | 8 | 16) {
        return Err(ConfigurationError::new(
            format!("{path}.pte_bytes"),
            format!("{pte_bytes} is not 4, 8 or 16"),
        ));
    }
    Ok(())
}

/// log2 of the bytes that an entry of a level covers.
fn covered_shift(level: u32, index_bits: u32) -> u32 {
    PageSize::Size4K.shift() + (level - 1) * index_bits
}

/// log2 of the bytes that an entry of a walk cache covers at most.
const MAXIMUM_COVERED_SHIFT: u32 = 47;

/// Of levels 2 to 4, where they are.
fn check_walk_caches(
    path: &str,
    levels: u32,
    index_bits: u32,
    caches: [&Option<WalkCache>; 3],
) -> Result<(), ConfigurationError> {
    for (level, cache) in (2..).zip(caches) {
        let Some(cache) = cache else { continue };
        let path = format!("{path}.walk_cache_level_{level}");
        if level > levels {
            return Err(ConfigurationError::new(path, format!("lies above the {levels} levels")));
        }
        let shift = covered_shift(level, index_bits);
        if shift > MAXIMUM_COVERED_SHIFT {
            return Err(ConfigurationError::new(
                path,
                format!(
                    "an entry of this level covers 2^{shift} bytes, more than 2^{MAXIMUM_COVERED_SHIFT}; leave the table out"
                ),
            ));
        }
        check_walk_cache(&path, cache)?;
    }
    Ok(())
}

/// A walk cache is a small TLB; the rules of its shape are the same.
fn check_walk_cache(path: &str, cache: &WalkCache) -> Result<(), ConfigurationError> {
    Tlb {
        entries: cache.entries,
        ways: cache.ways,
        replacement: cache.replacement,
        protected_entries: 0,
        page_sizes: vec![PageSize::Size4K],
        latency_cycles: 0,
    }
    .check(path)
}

/// Which pages the operating system gives the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Pages {
    /// 4 KiB everywhere.
    #[serde(rename = "4K")]
    Small,
    /// 2 MiB everywhere.
    #[serde(rename = "2M")]
    Large,
    /// 1 GiB everywhere.
    #[serde(rename = "1G")]
    Huge,
    /// 2 MiB wherever an aligned block of that size lies wholly within anonymous memory, 4 KiB
    /// elsewhere, as with transparent huge pages always on: a block of which a page is present is
    /// promoted as soon as a growing mapping covers it.
    #[serde(rename = "mixed")]
    Mixed,
    /// As mixed, but a block whose first touch finds it covered in part only keeps its small pages:
    /// no daemon promotes it in the program's time.
    #[serde(rename = "on-fault")]
    OnFault,
}

impl Pages {
    /// log2 of the size of a page. `block_is_large` tells whether the 2 MiB around it are one page;
    /// it is asked only where both sizes occur.
    pub fn shift(self, block_is_large: impl FnOnce() -> bool) -> u32 {
        match self {
            Pages::Small => 12,
            Pages::Large => 21,
            Pages::Huge => 30,
            Pages::Mixed | Pages::OnFault => {
                if block_is_large() {
                    21
                } else {
                    12
                }
            }
        }
    }
}

/// Where a hardware walker's loads enter the cache hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WalkStart {
    /// At the first-level data cache.
    #[serde(rename = "l1d")]
    L1d,
    /// At the second level; at the first where there is no other.
    #[serde(rename = "l2")]
    L2,
}

/// A cache of upper-level table entries, searched before a walk begins at the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WalkCache {
    /// Entries.
    pub entries: u32,
    /// Entries a set; "full" is fully associative.
    pub ways: Ways,
    /// Which entry of a set gives way.
    pub replacement: Replacement,
}

/// A miss handler in unmapped space. It executes in the instruction caches from its base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handler {
    /// First instruction; aligned on a page.
    pub base_address: u64,
    /// Instructions executed each time, a cycle each.
    pub instructions: u32,
    /// Length of one instruction.
    pub instruction_bytes: u32,
}

impl Handler {
    /// The addresses of its code; of nothing where it has no instructions.
    pub fn bytes(&self) -> std::ops::RangeInclusive<u64> {
        let length = u64::from(self.instructions) * u64::from(self.instruction_bytes);
        self.base_address..=(self.base_address + length).wrapping_sub(1)
    }
}

/// A table in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its first byte.
    pub base_address: u64,
}

/// The heads of an inverted table's chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HashTable {
    /// Its first byte.
    pub base_address: u64,
    /// Number of heads; a power of two.
    pub entries: u32,
    /// The hash is (page XOR (page >> this)) modulo `entries`.
    pub hash_shift_bits: u32,
}

/// Loads of administrative data, `stride_bytes` apart from `base_address` on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdministrativeLoads {
    /// How many, each time.
    pub count: u32,
    /// Address of the first; unmapped.
    pub base_address: u64,
    /// Distance from one to the next.
    pub stride_bytes: u64,
}

/// A state machine that makes a fixed number of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Walker {
    /// Cycles of a walk whose loads all hit the first-level cache.
    pub cycles: u32,
}

/// A state machine that follows a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainWalker {
    /// Cycles of a walk that ends at the head, when its load hits the first-level cache.
    pub cycles: u32,
    /// Cycles for each further entry of the chain.
    pub cycles_per_link: u32,
}

/// Bytes of a 32-bit address space.
const ADDRESSES: u64 = 1 << 32;

/// The address space of the 32-bit organisations: the program's part, above it the operating
/// system's tables and handlers.
struct Space {
    page_bytes: u64,
    pte_bytes: u64,
    user_space_bytes: u64,
    /// The operating system's, in the order in which they were checked.
    regions: Vec<(&'static str, Range<u64>)>,
}

impl Space {
    fn of(
        page_bytes: u64,
        pte_bytes: u64,
        user_space_bytes: u64,
    ) -> Result<Self, ConfigurationError> {
        if page_bytes != 4096 {
            return Err(ConfigurationError::new(
                "organisation.page_bytes",
                format!("{page_bytes} is not 4096, the only page size of the 32-bit organisations"),
            ));
        }
        if !pte_bytes.is_power_of_two() || !(4..=64).contains(&pte_bytes) {
            return Err(ConfigurationError::new(
                "organisation.pte_bytes",
                format!("{pte_bytes} is not a power of two between 4 and 64"),
            ));
        }
        check_user_space(user_space_bytes)?;
        Ok(Self { page_bytes, pte_bytes, user_space_bytes, regions: Vec::new() })
    }

    /// The program's pages.
    fn pages(&self) -> u64 {
        self.user_space_bytes / self.page_bytes
    }

    fn check_handler(
        &mut self,
        name: &'static str,
        handler: &Handler,
    ) -> Result<(), ConfigurationError> {
        if !matches!(handler.instruction_bytes, 2 | 4 | 8) {
            return Err(ConfigurationError::new(
                format!("organisation.{name}.instruction_bytes"),
                format!("{} is not 2, 4 or 8", handler.instruction_bytes),
            ));
        }
        let bytes = u64::from(handler.instructions) * u64::from(handler.instruction_bytes);
        self.check_region(name, handler.base_address, bytes, self.page_bytes)
    }

    fn check_table(
        &mut self,
        name: &'static str,
        base: u64,
        entries: u64,
    ) -> Result<(), ConfigurationError> {
        self.check_region(name, base, entries * self.pte_bytes, self.pte_bytes)
    }

    /// A table, and the root table above it, which has an entry for each of its pages.
    fn check_tiers(
        &mut self,
        name: &'static str,
        table: &Table,
        entries: u64,
        root: &Table,
    ) -> Result<(), ConfigurationError> {
        self.check_table(name, table.base_address, entries)?;
        let pages = (entries * self.pte_bytes).div_ceil(self.page_bytes);
        self.check_table("root_table", root.base_address, pages)
    }

    /// Of a collision table each page of the program may need an entry.
    fn check_inverted(
        &mut self,
        hash: &HashTable,
        collisions: &Table,
    ) -> Result<(), ConfigurationError> {
        check_hash(hash)?;
        self.check_table("hash_table", hash.base_address, u64::from(hash.entries))?;
        self.check_table("collision_table", collisions.base_address, self.pages())
    }

    /// In the program's part the program's own lines and translations would serve the region's
    /// accesses, in another region that region's.
    fn check_region(
        &mut self,
        name: &'static str,
        base: u64,
        bytes: u64,
        alignment: u64,
    ) -> Result<(), ConfigurationError> {
        let region = base..base.saturating_add(bytes);
        let overlaps =
            |(_, other): &&(&str, Range<u64>)| region.start < other.end && other.start < region.end;
        let reason = if !base.is_multiple_of(alignment) {
            format!("is not aligned on {alignment} bytes")
        } else if base < self.user_space_bytes {
            format!("is within the program's space, which ends at {:#x}", self.user_space_bytes)
        } else if region.end > ADDRESSES {
            format!("leaves no room for its {bytes} bytes below {ADDRESSES:#x}")
        } else if let Some((other, taken)) = self.regions.iter().find(overlaps) {
            format!(
                "is too near: its {bytes} bytes overlap those of {other}, which lie from {:#x} to {:#x}",
                taken.start, taken.end
            )
        } else {
            if !region.is_empty() {
                self.regions.push((name, region));
            }
            return Ok(());
        };
        Err(ConfigurationError::new(
            format!("organisation.{name}.base_address"),
            format!("{base:#x} {reason}"),
        ))
    }
}

fn check_user_space(bytes: u64) -> Result<(), ConfigurationError> {
    if !bytes.is_power_of_two() || !(1 << 20..=1 << 31).contains(&bytes) {
        return Err(ConfigurationError::new(
            "organisation.user_space_bytes",
            format!("{bytes} is not a power of two between 1 MiB and 2 GiB"),
        ));
    }
    Ok(())
}

fn check_hash(table: &HashTable) -> Result<(), ConfigurationError> {
    if !table.entries.is_power_of_two() {
        return Err(ConfigurationError::new(
            "organisation.hash_table.entries",
            format!("{} is not a power of two", table.entries),
        ));
    }
    if !(1..=31).contains(&table.hash_shift_bits) {
        return Err(ConfigurationError::new(
            "organisation.hash_table.hash_shift_bits",
            format!("{} is not between 1 and 31", table.hash_shift_bits),
        ));
    }
    Ok(())
}
