//! What a replay found out.

use std::collections::BTreeMap;

use mmulab_hardware::{Account, Cause as _, Ledger};
use mmulab_machine::ReplayMachine;
use serde::Serialize;

use crate::attribution::{Attribution, Numbered, PageWalks, Region, Regions};
use crate::caches::CacheCounters;
use crate::cause::Cause;
use crate::engine::{EngineResult, hits_at_end};
use crate::organisation::{ChainStatistics, TlbCounters};
use crate::profile::CodeCost;

/// One program on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The machine's name.
    pub machine: String,
    /// Instructions of the program.
    pub instructions: u64,
    /// All cycles: the sum of the causes.
    pub cycles: u64,
    /// Count and cycles by cause, in the order of [`Cause::ALL`].
    pub causes: Vec<CauseAccount>,
    /// Cycles an instruction that the program's own cache misses cost.
    pub mcpi: f64,
    /// Cycles an instruction that finding translations costs, without interrupts.
    pub vmcpi: f64,
    /// Interrupts, and what they would cost at each of the machine's costs.
    pub interrupts: Interrupts,
    /// Part of all cycles that translation takes: VMCPI and its interrupts.
    pub translation_share: f64,
    /// Instructions between two TLB misses of the program (of the last TLB level, where there are
    /// two); absent where there is no TLB or no miss.
    pub mean_free_path: Option<f64>,
    /// Each TLB.
    pub tlbs: Vec<TlbCounters>,
    /// Each cache.
    pub caches: Vec<CacheCounters>,
    /// Collision chains, where the page table has them.
    pub chains: Option<ChainStatistics>,
    /// Translation costs by part of the program, the most expensive first.
    pub regions: Vec<RegionCost>,
    /// Translation costs by page, the most expensive first; none where several programs took turns.
    pub pages: Vec<PageCost>,
    /// What each of several programs did and cost; empty where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<CodeCost>,
    /// Files of the program whose names of functions were asked for: the result depends on them.
    pub symbol_files: Vec<String>,
}

/// What one cause did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CauseAccount {
    /// The cause's name.
    pub name: &'static str,
    /// How often.
    pub count: u64,
    /// For how many cycles.
    pub cycles: u64,
}

/// Interrupts of miss handlers and copy-on-write faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupts {
    /// How many there were.
    pub count: u64,
    /// (cost of one, cycles of all) for each cost of the machine; the first is in the total.
    pub cycles_at_cost: Vec<(u32, u64)>,
}

/// What translation costs in one part of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionCost {
    /// The file, `[heap]`, `[stack]`, ...
    pub name: String,
    /// Whether it holds code.
    pub executable: bool,
    /// Pages whose translation cost something: that were walked for, or found in a second-level
    /// TLB.
    pub pages: u64,
    /// Walks; a look-up that a second-level TLB answers is none.
    pub walks: u64,
    /// Their cycles and those of second-level TLB look-ups, interrupts included.
    pub cycles: u64,
}

/// What translation costs for one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageCost {
    /// Its address in the program.
    pub address: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The part of the program it belongs to.
    pub region: String,
    /// Walks for instruction fetches.
    pub fetch_walks: u64,
    /// Walks for data references.
    pub data_walks: u64,
    /// Their cycles and those of second-level TLB look-ups, interrupts included.
    pub cycles: u64,
}

/// How a page of a machine relates to the program.
pub(crate) struct PageInProgram {
    pub address: u64,
    pub size_bytes: u64,
}

impl Outcome {
    pub(crate) fn new<P: Numbered>(
        machine: &ReplayMachine,
        result: EngineResult<P>,
        regions: &Regions,
        locate: impl Fn(&P) -> Option<PageInProgram>,
    ) -> Self {
        let EngineResult {
            instructions,
            mut ledger,
            mut tlbs,
            mut caches,
            chains,
            tlb_walks,
            attribution,
            ..
        } = result;
        tlbs.iter_mut().for_each(|tlb| tlb.hits = hits_at_end(tlb.hits));
        caches.iter_mut().for_each(|cache| cache.hits = hits_at_end(cache.hits));
        let width = u64::from(machine.core.instructions_per_cycle.max(1));
        ledger.charge_many(Cause::Issue, instructions, instructions.div_ceil(width));
        let cost = machine.interrupts.costs_cycles.first().copied().unwrap_or(0);
        if let Some(interval) = machine.interrupts.copy_on_write_interval_instructions {
            let faults = instructions / interval.max(1);
            ledger.charge_many(Cause::CowInterrupt, faults, faults * u64::from(cost));
        }
        let per_instruction = |wanted: fn(Cause) -> bool| {
            cycles_of(&ledger, wanted) as f64 / instructions.max(1) as f64
        };
        let interrupts = ledger.account(Cause::Interrupt);
        let interrupt_count = interrupts.count + ledger.account(Cause::CowInterrupt).count;
        let translation = cycles_of(&ledger, Cause::is_vmcpi) + interrupts.cycles;
        let (regions, pages) = attribute(&attribution, regions, locate);
        Self {
            machine: machine.name.clone(),
            instructions,
            cycles: ledger.cycles(),
            causes: Cause::ALL
                .iter()
                .map(|&cause| (cause.name(), ledger.account(cause)))
                .map(|(name, Account { count, cycles })| CauseAccount { name, count, cycles })
                .collect(),
            mcpi: per_instruction(Cause::is_mcpi),
            vmcpi: per_instruction(Cause::is_vmcpi),
            interrupts: Interrupts {
                count: interrupt_count,
                cycles_at_cost: machine
                    .interrupts
                    .costs_cycles
                    .iter()
                    .map(|&cost| (cost, interrupt_count * u64::from(cost)))
                    .collect(),
            },
            translation_share: translation as f64 / ledger.cycles().max(1) as f64,
            mean_free_path: tlb_walks
                .filter(|&walks| walks > 0)
                .map(|walks| instructions as f64 / walks as f64),
            tlbs,
            caches,
            chains,
            regions,
            pages,
            programs: Vec::new(),
            symbol_files: Vec::new(),
        }
    }

    /// Leaves out the costs by region and by page.
    pub(crate) fn in_total(mut self) -> Self {
        self.regions.clear();
        self.pages.clear();
        self
    }

    /// The account of a cause by its name; zero if it never happened.
    pub fn cause(&self, name: &str) -> Account {
        self.causes
            .iter()
            .find(|cause| cause.name == name)
            .map(|cause| Account { count: cause.count, cycles: cause.cycles })
            .unwrap_or_default()
    }
}

fn cycles_of(ledger: &Ledger<Cause>, wanted: fn(Cause) -> bool) -> u64 {
    Cause::ALL
        .iter()
        .filter(|&&cause| wanted(cause))
        .map(|&cause| ledger.account(cause).cycles)
        .sum()
}

fn attribute<P: Numbered>(
    attribution: &Attribution<P>,
    regions: &Regions,
    locate: impl Fn(&P) -> Option<PageInProgram>,
) -> (Vec<RegionCost>, Vec<PageCost>) {
    // Where an access reaches behind a slab that was remapped, a page of the program has two pages
    // of the user space.
    let mut by_page: BTreeMap<(u64, u64), PageWalks> = BTreeMap::new();
    for (page, walks) in attribution.pages() {
        let Some(PageInProgram { address, size_bytes }) = locate(&page) else { continue };
        let sum = by_page.entry((address, size_bytes)).or_default();
        sum.fetch_walks += walks.fetch_walks;
        sum.data_walks += walks.data_walks;
        sum.cycles += walks.cycles;
    }
    let mut pages = Vec::new();
    let mut by_region: BTreeMap<Region, RegionCost> = BTreeMap::new();
    for ((address, size_bytes), walks) in by_page {
        let region = regions.of_page(address, size_bytes);
        pages.push(PageCost {
            address,
            size_bytes,
            region: region.name.clone(),
            fetch_walks: walks.fetch_walks,
            data_walks: walks.data_walks,
            cycles: walks.cycles,
        });
        let cost = by_region.entry(region.clone()).or_insert_with(|| RegionCost {
            name: region.name,
            executable: region.executable,
            pages: 0,
            walks: 0,
            cycles: 0,
        });
        cost.pages += 1;
        cost.walks += walks.fetch_walks + walks.data_walks;
        cost.cycles += walks.cycles;
    }
    pages.sort_by_key(|page| (std::cmp::Reverse(page.cycles), page.address));
    let mut by_region: Vec<_> = by_region.into_values().collect();
    by_region.sort_by_key(|region| std::cmp::Reverse(region.cycles));
    (by_region, pages)
}
