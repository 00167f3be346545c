//! Machines that a recorded program is replayed on (`kind = "replay"`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parts::{check_first_level_latency, check_name};
use crate::{
    ConfigurationError, Organisation, PageSize, Radix,
    parts::{Cache, Tlb, Ways},
};

/// A machine for replay: a memory-management organisation, its TLBs, caches and costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayMachine {
    /// The name users type; the file's name without `.toml`.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// How the machine issues instructions.
    pub core: Core,
    /// Page tables, miss handlers or walkers.
    pub organisation: Organisation,
    /// Instruction TLB for small pages (or for all sizes it lists).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb: Option<Tlb>,
    /// Instruction TLB for large pages, where the core has a separate one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itlb_large: Option<Tlb>,
    /// Data TLB for small pages (or for all sizes it lists).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtlb: Option<Tlb>,
    /// Data TLB for large pages, where the core has a separate one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtlb_large: Option<Tlb>,
    /// Data TLB for huge pages, where the core has a separate one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtlb_huge: Option<Tlb>,
    /// Second-level TLB, shared by instructions and data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stlb: Option<Tlb>,
    /// Second-level TLB for huge pages, where the core has a separate one. It is looked up with
    /// `stlb`, at that one's latency; its own has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stlb_huge: Option<Tlb>,
    /// First-level cache of both sides together, instead of `l1i` and `l1d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1: Option<Cache>,
    /// First-level instruction cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1i: Option<Cache>,
    /// First-level data cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1d: Option<Cache>,
    /// Second-level cache; with `split = true` its sizes are those of each side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2: Option<Cache>,
    /// Third-level cache; with `split = true` its sizes are those of each side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3: Option<Cache>,
    /// What several cores share, and how one tells the others that a translation is gone. Needed to
    /// replay programs on several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicore: Option<Multicore>,
    /// Main memory.
    pub memory: Memory,
    /// What interrupts cost, and how many the operating system causes of its own accord.
    pub interrupts: Interrupts,
    /// Other values that are as likely as those which this file guesses. Results show what each of
    /// them does to the share of translation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guess>,
}

/// Values that are guessed together, by dotted path: a list of alternatives for each, of one
/// length. The first alternatives of all belong together, then the second, and so on.
pub type Guess = BTreeMap<String, Vec<Alternative>>;

/// A value that might stand in place of a guessed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Alternative {
    /// A number.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// A word.
    Word(String),
    /// A list of words.
    Words(Vec<String>),
}

/// One level of the cache hierarchy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheLevel<'a> {
    /// A cache for instructions and one for data.
    Split {
        /// Instruction side.
        instruction: &'a Cache,
        /// Data side.
        data: &'a Cache,
    },
    /// One cache for both.
    Unified(&'a Cache),
}

impl<'a> CacheLevel<'a> {
    /// Its one cache or two, instructions first.
    pub fn caches(&self) -> impl Iterator<Item = &'a Cache> + use<'a> {
        let (first, second) = match *self {
            CacheLevel::Split { instruction, data } => (instruction, Some(data)),
            CacheLevel::Unified(cache) => (cache, None),
        };
        std::iter::once(first).chain(second)
    }
}

impl ReplayMachine {
    /// The cache levels from the core outwards; `memory` follows the last.
    pub fn cache_levels(&self) -> Vec<CacheLevel<'_>> {
        let mut levels = Vec::new();
        match (&self.l1, &self.l1i, &self.l1d) {
            (Some(l1), _, _) => levels.push(CacheLevel::Unified(l1)),
            (None, Some(instruction), Some(data)) => {
                levels.push(CacheLevel::Split { instruction, data });
            }
            _ => {}
        }
        for cache in [&self.l2, &self.l3].into_iter().flatten() {
            levels.push(if cache.split == Some(true) {
                CacheLevel::Split { instruction: cache, data: cache }
            } else {
                CacheLevel::Unified(cache)
            });
        }
        levels
    }

    fn tlbs(&self) -> [(&'static str, &Option<Tlb>); 7] {
        [
            ("itlb", &self.itlb),
            ("itlb_large", &self.itlb_large),
            ("dtlb", &self.dtlb),
            ("dtlb_large", &self.dtlb_large),
            ("dtlb_huge", &self.dtlb_huge),
            ("stlb", &self.stlb),
            ("stlb_huge", &self.stlb_huge),
        ]
    }

    pub(crate) fn check(&self) -> Result<(), ConfigurationError> {
        check_name(&self.name)?;
        if self.core.instructions_per_cycle == 0 {
            return Err(ConfigurationError::new(
                "core.instructions_per_cycle",
                "must be at least 1",
            ));
        }
        self.check_caches()?;
        self.check_tlbs()?;
        self.check_multicore()?;
        self.organisation.check()?;
        if self.interrupts.costs_cycles.is_empty() {
            return Err(ConfigurationError::new(
                "interrupts.costs_cycles",
                "needs at least one cost",
            ));
        }
        if let Some(percent) = self.memory.fragmentation_percent {
            let reason = match &self.organisation {
                Organisation::Radix(_) if percent <= 100 => None,
                Organisation::Radix(_) => Some("must be at most 100".to_owned()),
                other => Some(format!(
                    "is only for organisation radix; {} has no large pages",
                    other.kind()
                )),
            };
            if let Some(reason) = reason {
                return Err(ConfigurationError::new("memory.fragmentation_percent", reason));
            }
        }
        if self.interrupts.copy_on_write_interval_instructions == Some(0) {
            return Err(ConfigurationError::new(
                "interrupts.copy_on_write_interval_instructions",
                "must be at least 1; leave the line out for no copy-on-write faults",
            ));
        }
        Ok(())
    }

    fn check_caches(&self) -> Result<(), ConfigurationError> {
        if self.l1.is_some() {
            for (path, side) in [("l1i", &self.l1i), ("l1d", &self.l1d)] {
                if side.is_some() {
                    return Err(ConfigurationError::new(
                        path,
                        "stands beside [l1]; give either [l1] (unified) or [l1i] and [l1d]",
                    ));
                }
            }
        } else if self.l1i.is_none() || self.l1d.is_none() {
            let path = if self.l1i.is_none() { "l1i" } else { "l1d" };
            return Err(ConfigurationError::new(
                path,
                "is missing; give [l1i] and [l1d], or [l1] (unified)",
            ));
        }
        if self.l3.is_some() && self.l2.is_none() {
            return Err(ConfigurationError::new("l3", "needs an [l2] above it"));
        }
        let mut unified = self.l1.is_some();
        for (path, cache, is_lower) in [
            ("l1", &self.l1, false),
            ("l1i", &self.l1i, false),
            ("l1d", &self.l1d, false),
            ("l2", &self.l2, true),
            ("l3", &self.l3, true),
        ] {
            let Some(cache) = cache else { continue };
            cache.check(path)?;
            if !is_lower {
                check_first_level_latency(path, cache.latency_cycles)?;
            }
            match (is_lower, cache.split) {
                (true, None) => {
                    return Err(ConfigurationError::new(
                        format!("{path}.split"),
                        "is missing; true gives each side a cache of this size, false one cache to both",
                    ));
                }
                (false, Some(_)) => {
                    return Err(ConfigurationError::new(
                        format!("{path}.split"),
                        "has no meaning here; [l1i] and [l1d] are split, [l1] is unified",
                    ));
                }
                (true, Some(true)) if unified => {
                    return Err(ConfigurationError::new(
                        format!("{path}.split"),
                        "cannot be true below a unified cache",
                    ));
                }
                (true, Some(split)) => unified = !split,
                (false, None) => {}
            }
        }
        Ok(())
    }

    fn check_multicore(&self) -> Result<(), ConfigurationError> {
        let Some(multicore) = &self.multicore else { return Ok(()) };
        if !matches!(self.organisation, Organisation::Radix(_)) {
            return Err(ConfigurationError::new(
                "multicore",
                format!(
                    "is only for organisation radix; {} has one core",
                    self.organisation.kind()
                ),
            ));
        }
        let levels = self.cache_levels().len();
        if !(2..=levels + 1).contains(&(multicore.first_shared_level as usize)) {
            return Err(ConfigurationError::new(
                "multicore.first_shared_level",
                format!(
                    "is not between 2 and {}; the first level is each core's own, and behind level {levels} is memory",
                    levels + 1
                ),
            ));
        }
        if multicore.shootdown == Shootdown::Broadcast && multicore.shootdown_interrupt_cycles > 0 {
            return Err(ConfigurationError::new(
                "multicore.shootdown_interrupt_cycles",
                "must be 0 where shootdown is \"broadcast\"; no core is interrupted",
            ));
        }
        Ok(())
    }

    /// Whether each side of the first level can hold the smallest translations that walks give.
    fn check_smallest_page(&self, table: &Radix) -> Result<(), ConfigurationError> {
        let own = table.pages.shift(|| false);
        let host = table.host.as_ref().and_then(|host| host.pages.shift());
        let smallest = host.map_or(own, |host| host.min(own));
        for (path, arrays) in [
            ("itlb.page_sizes", &[&self.itlb, &self.itlb_large][..]),
            ("dtlb.page_sizes", &[&self.dtlb, &self.dtlb_large, &self.dtlb_huge]),
        ] {
            let sizes = arrays.iter().copied().flatten().flat_map(|tlb| &tlb.page_sizes);
            if sizes.map(|size| size.shift()).min().is_some_and(|shift| shift > smallest) {
                return Err(ConfigurationError::new(
                    path,
                    format!(
                        "no array of this side holds pages of 2^{smallest} bytes or a part of them"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn check_tlbs(&self) -> Result<(), ConfigurationError> {
        let has_tlb = !matches!(self.organisation, Organisation::Notlb(_) | Organisation::Base(_));
        for (path, tlb) in self.tlbs() {
            match tlb {
                Some(_) if !has_tlb => {
                    return Err(ConfigurationError::new(
                        path,
                        format!("has no meaning for organisation {}", self.organisation.kind()),
                    ));
                }
                Some(tlb) => {
                    tlb.check(path)?;
                    if !path.starts_with("stlb") {
                        check_first_level_latency(path, tlb.latency_cycles)?;
                    }
                }
                None if has_tlb && matches!(path, "itlb" | "dtlb") => {
                    return Err(ConfigurationError::new(
                        path,
                        format!("is missing; organisation {} has a TLB", self.organisation.kind()),
                    ));
                }
                None => {}
            }
        }
        if self.stlb_huge.is_some() && self.stlb.is_none() {
            return Err(ConfigurationError::new(
                "stlb_huge",
                "needs [stlb], with which it is looked up",
            ));
        }
        if let Organisation::Radix(table) = &self.organisation
            && table.prefetch_next_page == Some(true)
            && self.stlb.is_none()
        {
            return Err(ConfigurationError::new(
                "organisation.prefetch_next_page",
                "needs [stlb], into which it prefetches",
            ));
        }
        if let Organisation::Radix(table) = &self.organisation {
            self.check_smallest_page(table)?;
        }
        let is_radix = matches!(self.organisation, Organisation::Radix(_));
        let page_faults = [
            ("small_page_fault_cycles", self.interrupts.small_page_fault_cycles),
            ("large_page_fault_cycles", self.interrupts.large_page_fault_cycles),
            ("file_page_fault_cycles", self.interrupts.file_page_fault_cycles),
            ("promotion_cycles", self.interrupts.promotion_cycles),
        ];
        if let Some((name, _)) = page_faults.iter().find(|(_, cost)| cost.is_some() && !is_radix) {
            return Err(ConfigurationError::new(
                format!("interrupts.{name}"),
                format!(
                    "is only for organisation radix; with {} no page faults are counted",
                    self.organisation.kind()
                ),
            ));
        }
        for (path, tlb) in self.tlbs() {
            let Some(tlb) = tlb else { continue };
            if !is_radix && !matches!(path, "itlb" | "dtlb") {
                return Err(ConfigurationError::new(
                    path,
                    format!(
                        "is only for organisation radix; {} has one array a side",
                        self.organisation.kind()
                    ),
                ));
            }
            if !is_radix && tlb.page_sizes != [PageSize::Size4K] {
                return Err(ConfigurationError::new(
                    format!("{path}.page_sizes"),
                    format!("must be [\"4K\"] for organisation {}", self.organisation.kind()),
                ));
            }
            let may_protect =
                matches!(self.organisation, Organisation::Ultrix(_) | Organisation::Mach(_));
            if tlb.protected_entries > 0 && !may_protect {
                return Err(ConfigurationError::new(
                    format!("{path}.protected_entries"),
                    format!(
                        "must be 0; organisation {} loads no kernel-level entries",
                        self.organisation.kind()
                    ),
                ));
            }
            if may_protect && tlb.protected_entries == 0 {
                return Err(ConfigurationError::new(
                    format!("{path}.protected_entries"),
                    "must be at least 1; the entries that map the page table live there",
                ));
            }
            if tlb.protected_entries > 0 && tlb.ways != Ways::Full {
                return Err(ConfigurationError::new(
                    format!("{path}.ways"),
                    "must be \"full\" in a TLB with protected entries",
                ));
            }
        }
        Ok(())
    }
}

/// How the machine issues instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Instructions issued per cycle when nothing stalls.
    pub instructions_per_cycle: u32,
}

/// What several cores share, and how one tells the others that a translation is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Multicore {
    /// The first level of caches that all cores share, as they do those below it: 2, 3, or one more
    /// than there are levels if they share memory alone.
    pub first_shared_level: u32,
    /// How other cores learn that pages are no longer mapped.
    pub shootdown: Shootdown,
    /// Cycles that the core which takes a mapping away waits for the others.
    pub shootdown_cycles: u32,
    /// Cycles that each core spends which is interrupted for that.
    pub shootdown_interrupt_cycles: u32,
}

/// How other cores learn that pages are no longer mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shootdown {
    /// By an interrupt to each core that runs the address space. One that ran it before drops all
    /// of its translations when it runs it again. Linux on x86 (`flush_tlb_func` and
    /// `choose_new_asid` in arch/x86/mm/tlb.c) and on RISC-V.
    Interrupt,
    /// By an instruction whose effect is broadcast to all cores (Arm ARM DDI 0487, D8.16: TLBI with
    /// IS), followed by a barrier.
    Broadcast,
}

/// Main memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Cycles added by a reference that misses the last cache.
    pub latency_cycles: u32,
    /// How pages get their frames, where any cache is physical.
    pub placement: Placement,
    /// Of a hundred blocks of 2 MiB that might be one large page, those for which the operating
    /// system finds no free one. Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation_percent: Option<u32>,
}

/// How pages get their physical frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// In the order in which pages are first touched.
    FirstTouch,
    /// A seeded permutation, so that frames of neighbouring pages are unrelated.
    Random,
}

/// What interrupts cost, and how many the operating system causes of its own accord.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    /// The costs of one interrupt for which results are reported side by side; the first is the one
    /// counted in totals unless a study asks for another.
    pub costs_cycles: Vec<u32>,
    /// Instructions between two copy-on-write faults; each is one interrupt. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_on_write_interval_instructions: Option<u64>,
    /// Cycles of the page fault at the first touch of a page of 4 KiB of anonymous memory: the
    /// exception, the kernel, and zeroing the page. Absent: such faults are counted and cost
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_page_fault_cycles: Option<u32>,
    /// The same for 2 MiB, and absent as there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_page_fault_cycles: Option<u32>,
    /// Cycles of the page fault at the first touch of a file's page, which is in memory. Absent as
    /// above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_page_fault_cycles: Option<u32>,
    /// Cycles for which the program waits while its small pages are copied to a large one.
    /// Absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion_cycles: Option<u32>,
}
