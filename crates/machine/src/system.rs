//! What system machines have around their instruction set: TLBs, buffers, memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cache, Replacement, Ways};

/// What caches and TLBs hold at reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CachesAtReset {
    /// Nothing: hardware or firmware has invalidated them.
    #[default]
    Invalid,
    /// Anything: software has to invalidate them before it turns them on. The model's are empty all
    /// the same; the checker demands it.
    Unknown,
}

/// A system machine without its instruction set: what the system's simulator needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// The machine's name.
    pub name: String,
    /// Cores; they share the board.
    pub cores: u32,
    /// Cycles that one of several cores runs before the one that is furthest behind has its turn.
    pub interleave_cycles: u32,
    /// What caches and TLBs hold at reset.
    pub caches_at_reset: CachesAtReset,
    /// Clock of the cores.
    pub clock_hz: u64,
    /// Instruction cache of each core.
    pub icache: Cache,
    /// Data cache of each core.
    pub dcache: Cache,
    /// A second, small data cache for pages that ask for it.
    pub mini_dcache: Option<Cache>,
    /// The second level that all cores share, where there is one. Its latency is what a reference
    /// adds that missed the first level.
    pub level_2: Option<Cache>,
    /// What coherence costs, of cores whose data caches are kept coherent.
    pub coherence: Option<CoherenceShape>,
    /// The devices around the cores.
    pub board: BoardKind,
    /// The TLB of instruction fetches; of data too where there is no `dtlb`.
    pub itlb: TlbShape,
    /// The TLB of data accesses, where it is one of its own.
    pub dtlb: Option<TlbShape>,
    /// The small TLBs in front of these, one for each side, where there are any.
    pub micro_tlb: Option<MicroTlbShape>,
    /// The data prefetchers; none on most cores.
    pub prefetcher: Option<PrefetcherShape>,
    /// What keeps descriptors of the first level, where there is one.
    pub walk_cache: Option<WalkCacheShape>,
    /// The buffers between a core and memory.
    pub buffers: BufferShape,
    /// Memory and what stands on the bus.
    pub memory: MemoryShape,
    /// A maintenance operation on one line or one TLB entry.
    pub line_operation_cycles: u8,
    /// A maintenance operation on a whole cache or TLB.
    pub whole_operation_cycles: u8,
    /// Whether an operation that allocates a data line translates its address.
    pub line_allocation_translates: bool,
}

/// The devices around the cores, and where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum BoardKind {
    /// Of QEMU's `versatilepb`: memory from 0, PL190, SP804, PL011.
    Versatilepb {},
    /// Of QEMU's `virt`: memory from 1 GB, GICv2, generic timers, PL011, and firmware with PSCI.
    Virt {
        /// Frequency of the generic timers' counter.
        timer_hz: u64,
    },
}

impl BoardKind {
    /// Where memory begins.
    pub fn ram_base(&self) -> u32 {
        match self {
            BoardKind::Versatilepb {} => 0,
            BoardKind::Virt { .. } => 0x4000_0000,
        }
    }

    /// More memory than any of the machines has, and short of what follows it.
    pub fn maximum_ram_bytes(&self) -> u64 {
        match self {
            BoardKind::Versatilepb {} => 0x1000_0000,
            BoardKind::Virt { .. } => 0x4000_0000,
        }
    }
}

/// Costs of coherence between the data caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoherenceShape {
    /// A line comes from another core's cache.
    pub transfer_cycles: u32,
    /// Other copies are invalidated before a store to a line that is here.
    pub upgrade_cycles: u32,
    /// A table walk reads a descriptor through the data cache; a miss adds its own.
    pub walk_hit_cycles: u32,
    /// Table walks read descriptors from the second level and leave the first as it is, whose newer
    /// lines they see. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub walks_pass_first_level: bool,
}

/// One TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlbShape {
    /// Entries, less those of `lockdown_entries`.
    pub entries: u32,
    /// Entries a set; "full" is fully associative.
    pub ways: Ways,
    /// Which entry of a set gives way.
    pub replacement: Replacement,
    /// Entries of a fully associative part that only locked-down translations take.
    pub lockdown_entries: u32,
}

/// The fully associative TLBs in front of the main TLB, one for each side. Maintenance of the main
/// TLB empties both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MicroTlbShape {
    /// Entries of each side, 1 to 64.
    pub entries: u32,
    /// Which entry gives way: "random" or "round-robin", which hits do not change.
    pub replacement: Replacement,
    /// Looking up the main TLB after a miss.
    pub refill_cycles: u32,
    /// Whether a write of a register that rules translation (table bases, address space, domains,
    /// memory types) empties them; one of TTBR0, CONTEXTIDR or DACR that changes nothing does not.
    pub emptied_by_register_writes: bool,
}

/// The data prefetcher of each core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefetcherShape {
    /// Misses in a row at one distance that begin a stream, 2 to 16.
    pub misses: u32,
    /// The longest distance, in lines, up or down, 1 to 64.
    pub max_stride_lines: u32,
    /// Fills that may be under way at a time, 0 to 16, unless software permits fewer.
    pub outstanding: u32,
}

/// The cache of descriptors of the first level that point to a table. Any TLB maintenance empties
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WalkCacheShape {
    /// Descriptors that it holds.
    pub entries: u32,
    /// Entries a set; "full" is fully associative.
    pub ways: Ways,
    /// Which entry of a set gives way.
    pub replacement: Replacement,
}

/// The buffers between core and memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BufferShape {
    /// Addresses the write buffer holds.
    pub write_entries: u32,
    /// Words the write buffer holds in all.
    pub write_words: u32,
    /// Words one address of it covers, as an aligned block.
    pub write_entry_words: u32,
    /// Whether a store joins an entry of the same block that an earlier instruction made.
    pub write_coalesces: bool,
    /// Lines that a separate write-back buffer holds; 0 where write-backs go through the write
    /// buffer.
    pub write_back_entries: u32,
    /// Lines of the software-controlled read buffer; 0 for none.
    pub read_entries: u32,
    /// Data line fills that may be under way while execution goes on, of preload instructions and
    /// of loads, whose registers are waited for where they are used. With 0, or absent, both wait
    /// for each fill.
    #[serde(default, skip_serializing_if = "is_default")]
    pub outstanding_misses: u32,
    /// Lines that stores may wait for in the store buffer while execution goes on. With 0, or
    /// absent, a store waits until its line is the core's only copy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub store_lines: u32,
}

/// Whether a value need not be written down.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Memory and what stands on the bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryShape {
    /// RAM, from where the board has it on.
    pub size_bytes: u64,
    /// A line fill, from the miss to the end of the stall.
    pub line_fill_cycles: u32,
    /// One descriptor read by the table walk.
    pub walk_read_cycles: u32,
    /// A read of one word that no cache serves.
    pub word_read_cycles: u32,
    /// The first word of a write at the memory.
    pub write_first_cycles: u32,
    /// Each following word of the same burst.
    pub write_next_cycles: u32,
    /// A line fill from a bank that reads as zero, which the SA-1100 has at 0xe0000000.
    pub zero_bank_fill_cycles: u32,
}
