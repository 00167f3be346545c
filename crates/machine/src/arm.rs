//! Machines with an ARM core that execute kernels (`kind = "system"`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parts::{check_first_level_latency, check_name};
use crate::{
    Addressing, BoardKind, BufferShape, Cache, CachesAtReset, CoherenceShape, ConfigurationError,
    Guess, MemoryShape, MicroTlbShape, Platform, PrefetcherShape, Replacement, TlbShape,
    WalkCacheShape, Ways, WritePolicy, is_default,
};

/// A whole system around an ARM core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemMachine {
    /// The name users type; the file's name without `.toml`.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// Cores of this kind; they share the board.
    pub cores: u32,
    /// Cycles that one of several cores runs before the one that is furthest behind has its turn.
    pub interleave_cycles: u32,
    /// What caches and TLBs hold at reset: "invalid", or "unknown" where the checker shall demand
    /// that software invalidates them. Absent: "invalid".
    #[serde(default, skip_serializing_if = "is_default")]
    pub caches_at_reset: CachesAtReset,
    /// The devices around the cores.
    pub board: BoardKind,
    /// The core.
    pub core: ArmCore,
    /// Registers of the system control coprocessor that differ from core to core.
    pub registers: ArmRegisters,
    /// Cycles of the instructions.
    pub timing: ArmTiming,
    /// Instruction cache.
    pub icache: Cache,
    /// Data cache.
    pub dcache: Cache,
    /// Second small data cache, for pages with C = 1 and B = 0 (SA-1100) or X = 1 (XScale).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mini_dcache: Option<Cache>,
    /// Second level that all cores share, with lines as long as the first's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level_2: Option<Cache>,
    /// What coherence costs, on cores whose data caches are kept coherent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coherence: Option<CoherenceShape>,
    /// The TLB of instruction fetches; of data too where there is no `dtlb`.
    pub itlb: TlbShape,
    /// The TLB of data accesses, where it is one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtlb: Option<TlbShape>,
    /// The small TLBs in front of these, one for each side, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_tlb: Option<MicroTlbShape>,
    /// The data prefetcher, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<PrefetcherShape>,
    /// What keeps descriptors of the first level, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walk_cache: Option<WalkCacheShape>,
    /// The buffers between core and memory.
    pub buffers: BufferShape,
    /// Memory and what stands on the bus.
    pub memory: MemoryShape,
    /// Other values that are as likely as those which this file guesses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guess>,
}

/// The core's architecture and the parts of it that differ from core to core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmCore {
    /// Version of the instruction set.
    pub architecture: ArmArchitecture,
    /// Whose system control coprocessor: which registers and maintenance operations exist.
    pub coprocessor: ArmCoprocessor,
    /// Clock.
    pub clock_hz: u64,
    /// Main ID register (c0, c0, 0).
    pub main_id: u32,
    /// Class in bits 28 to 25 of the cache type register (c0, c0, 1): how caches are cleaned and
    /// locked; the rest of the register follows from the caches. Of no effect on a core without the
    /// register.
    pub cache_type_class: u32,
    /// What a data abort leaves in the base register.
    pub abort_model: AbortModel,
    /// Width of the process ID: 6 bits relocate within the lower 2 GB, 7 within all 4 GB.
    pub pid_bits: u32,
    /// Entries of the branch target buffer; 0 for none.
    pub branch_buffer_entries: u32,
    /// XScale: whether allocating a line of the data cache (c7, c2, 5) translates the address,
    /// which then is looked up in the TLB and walked for. Needed there, and there only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_allocation_translates: Option<bool>,
}

/// Version of the ARM architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArmArchitecture {
    /// Without Thumb.
    Armv4,
    /// With Thumb.
    Armv4t,
    /// With the DSP instructions, BLX, CLZ, BKPT, LDRD, STRD, PLD.
    Armv5te,
    /// ARMv7-A with the multiprocessing extensions and divisions, and with Thumb-2.
    Armv7a,
}

/// Whose system control coprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArmCoprocessor {
    /// Intel SA-1100.
    Sa1100,
    /// Intel XScale.
    Xscale,
    /// ARM920T.
    Arm920t,
    /// ARM926EJ-S.
    Arm926ejs,
    /// Cortex-A7 MPCore.
    CortexA7,
    /// Cortex-A7 MPCore with interfaces to save and restore entries of its TLB, as a thesis of 2018
    /// proposes them.
    CortexA7TlbMigration,
}

/// Reset values and writable bits of the system control coprocessor's registers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmRegisters {
    /// Control (c1, c0, 0).
    pub control: ArmRegister,
    /// Auxiliary control (c1, c0, 1), where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary_control: Option<ArmRegister>,
    /// Translation table base (c2).
    pub table_base: ArmRegister,
    /// Fault status of data accesses (c5, c0, 0).
    pub data_fault_status: ArmRegister,
    /// Fault status of instruction fetches (c5, c0, 1), where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_fault_status: Option<ArmRegister>,
    /// Cache debug control (c15, opcode 1 7), where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_debug: Option<ArmRegister>,
    /// Coprocessor access (c15, c1, 0), where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coprocessor_access: Option<ArmRegister>,
    /// Registers that only tell what the core is, by the names of its manual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fixed: BTreeMap<String, u32>,
}

/// One register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmRegister {
    /// Value after reset.
    pub reset: u32,
    /// Bits that software can change; the others keep their reset value.
    pub writable: u32,
}

impl ArmRegister {
    /// The register after `value` has been written to it.
    pub fn written(&self, value: u32) -> u32 {
        self.reset & !self.writable | value & self.writable
    }
}

/// What a data abort leaves in the base register of a load or store with write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AbortModel {
    /// Its value before the instruction.
    BaseRestored,
    /// Its updated value.
    BaseUpdated,
}

/// Cycles of the instructions when every access hits. A load-use stall is what an instruction waits
/// that uses the result right after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArmTiming {
    /// Added by a shift whose amount is in a register.
    pub register_shift_cycles: u8,
    /// Added by any taken branch or write of the PC that is not predicted.
    pub taken_branch_cycles: u8,
    /// Added further by a load of the PC.
    pub load_pc_cycles: u8,
    /// Stall after a load of a word.
    pub load_use_cycles: u8,
    /// Stall after a load of a byte or half-word.
    pub load_narrow_use_cycles: u8,
    /// LDM and STM: this and one a word, together at least `block_minimum_cycles`; not where R15 is
    /// loaded.
    pub block_base_cycles: u8,
    /// Least cycles of LDM and STM.
    pub block_minimum_cycles: u8,
    /// LDRD and STRD in all.
    pub double_cycles: u8,
    /// SWP in all.
    pub swap_cycles: u8,
    /// Multiply in all, before the following.
    pub multiply_cycles: u8,
    /// Added when the multiply sets flags.
    pub multiply_flags_cycles: u8,
    /// Added when the product is long, or a 16-bit one is added to a long sum.
    pub multiply_long_cycles: u8,
    /// Multiplier bits taken a cycle, with early termination (added cycles: one less than the
    /// groups of bits that are significant); 0 where the time is fixed.
    pub multiply_bits_a_cycle: u8,
    /// Stall after a multiply or saturating instruction, less `multiply_flags_cycles` where that is
    /// added.
    pub multiply_use_cycles: u8,
    /// The 16-bit multiplies and the saturating instructions, in all.
    pub dsp_cycles: u8,
    /// SDIV and UDIV in all. Needed on a core that has them (ARMv7-A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divide_cycles: Option<u8>,
    /// Reading a data register after a read of the TLB's memory (Cortex-A7); as
    /// `coprocessor_read_cycles` if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb_data_read_cycles: Option<u8>,
    /// MRS in all.
    pub status_read_cycles: u8,
    /// MSR that writes only flags, in all.
    pub flags_write_cycles: u8,
    /// MSR that writes the control field, in all.
    pub status_write_cycles: u8,
    /// A read of a coprocessor register, in all.
    pub coprocessor_read_cycles: u8,
    /// A write of a coprocessor register, in all, before what a maintenance operation adds.
    pub coprocessor_write_cycles: u8,
    /// Entry of an exception.
    pub exception_cycles: u8,
    /// A wrongly predicted branch, where there is a branch target buffer.
    pub branch_mispredicted_cycles: u8,
    /// A cache maintenance operation on one line, or a step of test-and-clean.
    pub line_operation_cycles: u8,
    /// An operation on a whole cache or TLB.
    pub whole_operation_cycles: u8,
}

impl SystemMachine {
    /// What is around the instruction set.
    pub fn platform(&self) -> Platform {
        Platform {
            name: self.name.clone(),
            cores: self.cores,
            interleave_cycles: self.interleave_cycles,
            caches_at_reset: self.caches_at_reset,
            clock_hz: self.core.clock_hz,
            icache: self.icache.clone(),
            dcache: self.dcache.clone(),
            mini_dcache: self.mini_dcache.clone(),
            level_2: self.level_2.clone(),
            coherence: self.coherence.clone(),
            board: self.board,
            itlb: self.itlb.clone(),
            dtlb: self.dtlb.clone(),
            micro_tlb: self.micro_tlb.clone(),
            prefetcher: self.prefetcher.clone(),
            walk_cache: self.walk_cache.clone(),
            buffers: self.buffers.clone(),
            memory: self.memory.clone(),
            line_operation_cycles: self.timing.line_operation_cycles,
            whole_operation_cycles: self.timing.whole_operation_cycles,
            // Other cores do not allocate lines by an operation.
            line_allocation_translates: self.core.line_allocation_translates.unwrap_or(true),
        }
    }

    /// The physical addresses of memory.
    pub fn ram(&self) -> std::ops::Range<u32> {
        let base = self.board.ram_base();
        base..base + self.memory.size_bytes as u32
    }

    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        check_name(&self.name)?;
        check_range("cores", self.cores, 1..=8)?;
        check_range("interleave_cycles", self.interleave_cycles, 1..=1 << 20)?;
        if self.caches_at_reset != CachesAtReset::Invalid
            && self.core.architecture != ArmArchitecture::Armv7a
        {
            return Err(ConfigurationError::new(
                "caches_at_reset",
                "\"unknown\" needs armv7a: older cores invalidate all at reset",
            ));
        }
        if self.core.pid_bits != 6 && self.core.pid_bits != 7 {
            return Err(ConfigurationError::new(
                "core.pid_bits",
                format!("{} is neither 6 nor 7", self.core.pid_bits),
            ));
        }
        if !(1_000_000..=10_000_000_000).contains(&self.core.clock_hz) {
            return Err(ConfigurationError::new(
                "core.clock_hz",
                format!("{} is not between 1 MHz and 10 GHz", self.core.clock_hz),
            ));
        }
        if self.core.architecture == ArmArchitecture::Armv7a && self.timing.divide_cycles.is_none()
        {
            return Err(ConfigurationError::new(
                "timing.divide_cycles",
                "is missing: ARMv7-A cores here divide",
            ));
        }
        let allocates_lines = self.core.coprocessor == ArmCoprocessor::Xscale;
        if allocates_lines != self.core.line_allocation_translates.is_some() {
            return Err(ConfigurationError::new(
                "core.line_allocation_translates",
                "is a value of XScale cores, and of no others",
            ));
        }
        check_range("core.cache_type_class", self.core.cache_type_class, 0..=15)?;
        let entries = self.core.branch_buffer_entries;
        if entries != 0 && (!entries.is_power_of_two() || entries > 4096) {
            return Err(ConfigurationError::new(
                "core.branch_buffer_entries",
                format!("{entries} is neither 0 nor a power of two up to 4096"),
            ));
        }
        for (path, cache) in [("icache", Some(&self.icache)), ("dcache", Some(&self.dcache))]
            .into_iter()
            .chain([("mini_dcache", self.mini_dcache.as_ref()), ("level_2", self.level_2.as_ref())])
        {
            let Some(cache) = cache else { continue };
            cache.check(path)?;
            if path != "level_2" {
                check_first_level_latency(path, cache.latency_cycles)?;
            }
            self.check_cache_kind(path, cache)?;
            // Line sizes are known when the simulator is compiled.
            let coherent = self.coherence.is_some();
            let line_bytes = if coherent && path != "icache" { 64 } else { 32 };
            if cache.line_bytes != line_bytes {
                return Err(ConfigurationError::new(
                    format!("{path}.line_bytes"),
                    format!("the lines of these cores have {line_bytes} bytes"),
                ));
            }
            if !cache.sets().is_power_of_two() {
                return Err(ConfigurationError::new(
                    format!("{path}.size_bytes"),
                    format!(
                        "makes {} sets; maintenance by set and way needs a power of two",
                        cache.sets()
                    ),
                ));
            }
            let most = if path == "level_2" { 1 << 22 } else { 1 << 17 };
            if cache.size_bytes > most {
                return Err(ConfigurationError::new(
                    format!("{path}.size_bytes"),
                    format!("this cache of these cores has at most {most} bytes"),
                ));
            }
        }
        for (path, cache) in [("icache", &self.icache), ("dcache", &self.dcache)] {
            // What the cache type register can say (ARM DDI 0100I, B6.5.1).
            let ways = cache.ways.count(cache.size_bytes / u64::from(cache.line_bytes));
            let whole_ways = if ways.is_multiple_of(3) { ways / 3 * 2 } else { ways };
            if !whole_ways.is_power_of_two() || whole_ways > 128 || cache.size_bytes < 512 {
                return Err(ConfigurationError::new(
                    format!("{path}.ways"),
                    format!(
                        "{ways} ways in {} bytes: the cache type register says 1, 2, 3, 4, 6, 8, \
                         12, ... up to 192 ways, and 512 bytes at least",
                        cache.size_bytes
                    ),
                ));
            }
        }
        for (path, tlb) in [("itlb", Some(&self.itlb)), ("dtlb", self.dtlb.as_ref())] {
            let Some(tlb) = tlb else { continue };
            check_tlb_entries(path, tlb.entries, tlb.ways)?;
        }
        if let Some(micro) = &self.micro_tlb {
            check_range("micro_tlb.entries", micro.entries, 1..=64)?;
            if !matches!(micro.replacement, Replacement::Random | Replacement::RoundRobin) {
                return Err(ConfigurationError::new(
                    "micro_tlb.replacement",
                    "is neither random nor round-robin: hits change nothing here",
                ));
            }
        }
        if let Some(prefetcher) = &self.prefetcher {
            if self.coherence.is_none() {
                return Err(ConfigurationError::new(
                    "prefetcher",
                    "needs coherence: no core with virtual caches has one",
                ));
            }
            for (name, number, range) in [
                ("prefetcher.misses", prefetcher.misses, 2..=16),
                ("prefetcher.max_stride_lines", prefetcher.max_stride_lines, 1..=64),
                ("prefetcher.outstanding", prefetcher.outstanding, 0..=16),
            ] {
                check_range(name, number, range)?;
            }
        }
        if let Some(walk_cache) = &self.walk_cache {
            check_tlb_entries("walk_cache", walk_cache.entries, walk_cache.ways)?;
            if self.core.architecture != ArmArchitecture::Armv7a {
                return Err(ConfigurationError::new(
                    "walk_cache",
                    "needs armv7a: no older core has one",
                ));
            }
        }
        let buffers = &self.buffers;
        if !matches!(buffers.write_entry_words, 1 | 2 | 4 | 8) {
            return Err(ConfigurationError::new(
                "buffers.write_entry_words",
                "is not 1, 2, 4 or 8",
            ));
        }
        if !(1..=64).contains(&buffers.write_entries)
            || buffers.write_words < buffers.write_entry_words
        {
            return Err(ConfigurationError::new(
                "buffers.write_entries",
                "needs 1 to 64 entries, and words for at least one of them",
            ));
        }
        for (name, number) in [
            ("buffers.outstanding_misses", buffers.outstanding_misses),
            ("buffers.store_lines", buffers.store_lines),
        ] {
            check_range(name, number, 0..=16)?;
            if number > 0 && self.coherence.is_none() {
                let reason = "needs coherence: cores with virtual caches wait for each miss here";
                return Err(ConfigurationError::new(name, reason));
            }
        }
        if self.level_2.is_some() && self.coherence.is_none() {
            return Err(ConfigurationError::new(
                "level_2",
                "needs coherence: only cores with coherent caches share a second level here",
            ));
        }
        if let BoardKind::Virt { timer_hz } = self.board
            && !(1..=self.core.clock_hz).contains(&timer_hz)
        {
            return Err(ConfigurationError::new(
                "board.timer_hz",
                format!("{timer_hz} is not between 1 Hz and the core's clock"),
            ));
        }
        let maximum_bytes = self.board.maximum_ram_bytes();
        if self.memory.size_bytes > maximum_bytes || !self.memory.size_bytes.is_multiple_of(1 << 20)
        {
            return Err(ConfigurationError::new(
                "memory.size_bytes",
                format!(
                    "{} is not a multiple of 1 MB up to {} MB, which is the most on this board",
                    self.memory.size_bytes,
                    maximum_bytes >> 20
                ),
            ));
        }
        Ok(())
    }

    /// What kind of cache it is belongs to the core; another value would have no effect.
    fn check_cache_kind(&self, path: &str, cache: &Cache) -> Result<(), ConfigurationError> {
        let coherent = self.coherence.is_some() && path != "icache";
        let of_dcache =
            |cores: &[ArmCoprocessor]| path == "dcache" && cores.contains(&self.core.coprocessor);
        check_fixed(path, "split", cache.split.unwrap_or(false), false)?;
        let addressing = if coherent { Addressing::Physical } else { Addressing::Virtual };
        check_fixed(path, "addressing", cache.addressing, addressing)?;
        if !of_dcache(&[ArmCoprocessor::Arm920t, ArmCoprocessor::Arm926ejs]) {
            check_fixed(path, "write_policy", cache.write_policy, WritePolicy::WriteBack)?;
        }
        if !of_dcache(&[ArmCoprocessor::Xscale]) {
            check_fixed(path, "write_allocate", cache.write_allocate, coherent)?;
        }
        Ok(())
    }
}

/// That a value is the only one that this core's cache can have.
fn check_fixed<Kind: PartialEq + Serialize>(
    path: &str,
    key: &str,
    value: Kind,
    fixed: Kind,
) -> Result<(), ConfigurationError> {
    if value == fixed {
        return Ok(());
    }
    let word = |value| {
        toml::Value::try_from(value).map_or_else(|_| String::new(), |word| word.to_string())
    };
    let reason = format!("{} would have no effect: this core has {}", word(value), word(fixed));
    Err(ConfigurationError::new(format!("{path}.{key}"), reason))
}

fn check_range(
    path: &str,
    number: u32,
    range: RangeInclusive<u32>,
) -> Result<(), ConfigurationError> {
    if range.contains(&number) {
        return Ok(());
    }
    let (first, last) = (range.start(), range.end());
    Err(ConfigurationError::new(path, format!("{number} is not between {first} and {last}")))
}

fn check_tlb_entries(path: &str, entries: u32, ways: Ways) -> Result<(), ConfigurationError> {
    let ways = ways.count(u64::from(entries));
    let sets = u64::from(entries).checked_div(ways).unwrap_or(0);
    if (1..=1024).contains(&entries) && sets * ways == u64::from(entries) && sets.is_power_of_two()
    {
        return Ok(());
    }
    Err(ConfigurationError::new(
        format!("{path}.entries"),
        format!("{entries} is not 1 to 1024 in a power of two of sets"),
    ))
}
