//! What the same events would cost on a machine that differs in costs alone.

use mmulab_hardware::{Cause as _, Ledger};
use mmulab_machine::{
    Cache, HostPages, Organisation, PageSize, Pages, Radix, Replacement, ReplayMachine, Tlb, Ways,
    WritePolicy,
};

use crate::attribution::{Attribution, Numbered};
use crate::caches::miss_cycles;
use crate::cause::{Cause, Role, Tier};
use crate::engine::EngineResult;

/// Whether two machines do the same with every program, so that they differ at most in what it
/// costs.
pub(crate) fn do_the_same(one: &ReplayMachine, other: &ReplayMachine) -> bool {
    without_costs(one) == without_costs(other)
}

/// Whether two machines differ at most in their caches below the first level and in costs, so that
/// nothing else does anything different on them: TLBs, walks and first levels know nothing of the
/// caches below.
pub(crate) fn are_same_to_first_level(one: &ReplayMachine, other: &ReplayMachine) -> bool {
    to_first_level(one).is_some_and(|one| Some(one) == to_first_level(other))
}

/// The machine without costs and without the sizes and the like of caches below the first level;
/// `None` if walks, or what is waited for, depend on these.
pub(crate) fn to_first_level(machine: &ReplayMachine) -> Option<ReplayMachine> {
    if table_of(machine)?.overlap().is_some() {
        return None;
    }
    let mut machine = without_costs(machine);
    for cache in [&mut machine.l2, &mut machine.l3].into_iter().flatten() {
        *cache = Cache {
            size_bytes: 0,
            line_bytes: 0,
            ways: Ways::Full,
            replacement: Replacement::Random,
            write_policy: WritePolicy::WriteBack,
            write_allocate: true,
            latency_cycles: 0,
            split: None,
            // All of a machine's caches together decide whether lines keep both of their addresses.
            addressing: cache.addressing,
        };
    }
    Some(machine)
}

fn table_of(machine: &ReplayMachine) -> Option<&Radix> {
    match &machine.organisation {
        Organisation::Radix(table) => Some(table),
        _ => None,
    }
}

/// The machine without what decides on costs only, and without what its pages never use.
fn without_costs(machine: &ReplayMachine) -> ReplayMachine {
    let mut machine = machine.clone();
    machine.name.clear();
    machine.title.clear();
    machine.guesses.clear();
    if table_of(&machine).is_some_and(|table| table.overlap().is_some()) {
        // How much of a walk is waited for depends on what others cost.
        return machine;
    }
    machine.memory.latency_cycles = 0;
    machine.interrupts.costs_cycles.clear();
    machine.interrupts.small_page_fault_cycles = None;
    machine.interrupts.large_page_fault_cycles = None;
    machine.interrupts.file_page_fault_cycles = None;
    machine.interrupts.promotion_cycles = None;
    if let Some(multicore) = &mut machine.multicore {
        multicore.shootdown_cycles = 0;
        multicore.shootdown_interrupt_cycles = 0;
    }
    for cache in [&mut machine.l2, &mut machine.l3].into_iter().flatten() {
        cache.latency_cycles = 0;
    }
    if let Some(stlb) = &mut machine.stlb {
        stlb.latency_cycles = 0;
    }
    let Organisation::Radix(table) = &mut machine.organisation else { return machine };
    table.walk_overhead_cycles = 0;
    table.walk_step_cycles = 0;
    table.host = table.host.take().filter(|host| host.pages != HostPages::None);
    let is_small = table.host.as_ref().is_some_and(|host| host.pages == HostPages::Small);
    if table.pages == Pages::Small || is_small {
        for array in [
            &mut machine.itlb,
            &mut machine.itlb_large,
            &mut machine.dtlb,
            &mut machine.dtlb_large,
            &mut machine.dtlb_huge,
            &mut machine.stlb,
            &mut machine.stlb_huge,
        ] {
            keep_small_pages(array);
        }
    }
    machine
}

/// Leaves of an array what pages of 4 KiB use.
fn keep_small_pages(array: &mut Option<Tlb>) {
    let Some(tlb) = array else { return };
    tlb.page_sizes.retain(|&size| size == PageSize::Size4K);
    if tlb.page_sizes.is_empty() {
        *array = None;
    }
}

/// The result at the costs of `machine`, which does the same as the machine that gave it; without
/// the costs by page.
pub(crate) fn at_costs_of<P: Numbered>(
    result: &EngineResult<P>,
    machine: &ReplayMachine,
) -> EngineResult<P> {
    // Where walks overlap, costs decide on what is waited for, so that those of both are equal.
    if table_of(machine).is_some_and(|table| table.overlap().is_some()) {
        return EngineResult { attribution: Attribution::default(), ..result.clone() };
    }
    let mut ledger = Ledger::new();
    for &cause in Cause::ALL {
        let account = result.ledger.account(cause);
        let cycles = match cost_of_one(cause, machine) {
            Some(cost) => account.count * cost,
            None => match &machine.organisation {
                Organisation::Radix(table) if cause == Cause::Uhandler => {
                    account.count * u64::from(table.walk_overhead_cycles)
                        + result.walk_steps * u64::from(table.walk_step_cycles)
                }
                Organisation::Radix(table) if cause == Cause::HostWalk => {
                    result.host_walk_steps * u64::from(table.walk_step_cycles)
                }
                _ => account.cycles,
            },
        };
        ledger.charge_many(cause, account.count, cycles);
    }
    EngineResult {
        instructions: result.instructions,
        ledger,
        tlbs: result.tlbs.clone(),
        caches: result.caches.clone(),
        chains: result.chains.clone(),
        tlb_walks: result.tlb_walks,
        walk_steps: result.walk_steps,
        host_walk_steps: result.host_walk_steps,
        attribution: Attribution::default(),
    }
}

/// Cycles of one event, where that is a value of the machine.
fn cost_of_one(cause: Cause, machine: &ReplayMachine) -> Option<u64> {
    match cause {
        Cause::Interrupt => machine.interrupts.costs_cycles.first().copied().map(u64::from),
        Cause::Stlb => machine.stlb.as_ref().map(|stlb| u64::from(stlb.latency_cycles)),
        Cause::Shootdown => machine.multicore.as_ref().map(|cores| cores.shootdown_cycles.into()),
        Cause::ShootdownInterrupt => {
            machine.multicore.as_ref().map(|cores| cores.shootdown_interrupt_cycles.into())
        }
        _ if cause.page_fault_cycles(machine).is_some() => cause.page_fault_cycles(machine),
        _ => {
            let levels = machine.cache_levels().len();
            let roles = [
                Role::Fetch,
                Role::Data,
                Role::Pte(Tier::User),
                Role::Pte(Tier::Kernel),
                Role::Pte(Tier::Root),
                Role::Pte(Tier::Host),
                Role::Handler,
            ];
            let missed =
                |&level: &usize| roles.iter().any(|role| role.miss(level, levels) == cause);
            (0..levels).find(missed).map(|level| miss_cycles(machine)[level])
        }
    }
}
