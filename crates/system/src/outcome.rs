//! The result of a run, as the commands and the Python API give it.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::board::LISTED_PAGES;
use crate::checker::MAX_REPORTS;
use crate::core::{Core, Decode, Space, Taken};
use crate::system::{CauseRow, Stop, System};

/// Events and cycles of a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CauseCost {
    /// How often.
    pub count: u64,
    /// For how long in all.
    pub cycles: u64,
}

/// Cycles of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Name, or the number that the guest gave; "0" from the start.
    pub name: String,
    /// Instructions executed in it.
    pub instructions: u64,
    /// Cycles spent in it.
    pub cycles: u64,
    /// The cycles by cause.
    pub causes: BTreeMap<&'static str, CauseCost>,
}

/// Cycles in one processor mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModeCycles {
    /// Its name.
    pub mode: &'static str,
    /// Cycles.
    pub cycles: u64,
}

/// Cycles in one address space: a combination of the registers that choose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpaceCycles {
    /// The registers.
    #[serde(flatten)]
    pub space: Space,
    /// Cycles.
    pub cycles: u64,
}

/// Event counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Changes of the translation table base or the process ID.
    pub space_switches: u64,
    /// Invalidations of whole TLBs.
    pub tlb_flushes: u64,
    /// Invalidations of single TLB entries.
    pub tlb_entry_flushes: u64,
    /// Invalidations of the whole instruction cache.
    pub icache_flushes: u64,
    /// Invalidations or completed cleanings of the whole data cache.
    pub dcache_flushes: u64,
    /// Clean and invalidate operations on single lines.
    pub line_operations: u64,
    /// Table walks for fetches.
    pub itlb_misses: u64,
    /// Table walks for data.
    pub dtlb_misses: u64,
    /// Misses of the micro TLBs.
    pub micro_tlb_misses: u64,
    /// Table walks whose first descriptor the walk cache had.
    pub walk_cache_hits: u64,
    /// Instruction cache line fills.
    pub icache_misses: u64,
    /// Data cache line fills.
    pub dcache_misses: u64,
    /// Data cache line fills that a prefetcher began.
    pub data_prefetches: u64,
    /// Half lines written back.
    pub write_backs: u64,
    /// Exceptions by name.
    pub exceptions: BTreeMap<&'static str, u64>,
}

/// What the checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckerOutcome {
    /// Whether it looked at all.
    pub enabled: bool,
    /// One report a cause.
    pub reports: Vec<crate::checker::Report>,
    /// Uses of old TLB entries that the architecture permits.
    pub permitted: Vec<crate::checker::Permitted>,
}

/// The result of a run. All but `seconds` is the same each time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The machine's name.
    pub machine: String,
    /// Why it ended, in a sentence.
    pub end: String,
    /// A word for why: exit, reboot, limit, saved, interrupted, debugger, hang, deadlock,
    /// vector-loop, empty-vector, lost-fetch.
    pub reason: &'static str,
    /// The status that the guest gave; 0 for a reboot; none if it did not end by itself.
    pub exit: Option<u8>,
    /// Instructions of all cores.
    pub instructions: u64,
    /// Cycles of the core that ran longest.
    pub cycles: u64,
    /// Core clock, to turn cycles into time.
    pub clock_hz: u64,
    /// Cycles by cause, over all cores.
    pub causes: BTreeMap<&'static str, CauseCost>,
    /// Cycles by phase, in order of first entry.
    pub phases: Vec<Phase>,
    /// Cycles by processor mode.
    pub modes: Vec<ModeCycles>,
    /// Cycles by address space, in order of first use.
    pub spaces: Vec<SpaceCycles>,
    /// Event counts.
    pub events: Events,
    /// The checker's findings.
    pub checker: CheckerOutcome,
    /// Things worth knowing about the guest: accesses to nothing, operations the core does not
    /// have.
    pub notes: Vec<String>,
    /// Time of the host.
    pub seconds: f64,
}

fn costs(rows: &[CauseRow]) -> BTreeMap<&'static str, CauseCost> {
    rows.iter()
        .map(|row| (row.cause, CauseCost { count: row.account.count, cycles: row.account.cycles }))
        .collect()
}

impl Stop {
    /// A word for the reason.
    pub fn word(&self) -> &'static str {
        match self {
            Stop::Exit(_) => "exit",
            Stop::Reboot => "reboot",
            Stop::Limit | Stop::TimeLimit => "limit",
            Stop::SavePoint => "saved",
            Stop::Interrupted => "interrupted",
            Stop::Hang => "hang",
            Stop::Deadlock => "deadlock",
            Stop::VectorLoop(_) => "vector-loop",
            Stop::EmptyVector(_) => "empty-vector",
            Stop::LostFetch { .. } => "lost-fetch",
            Stop::Debugger => "debugger",
        }
    }
}

impl<C: Core> System<C> {
    /// The name of the instruction that was undefined on this core, if it is one of another core.
    fn lacking(&self, taken: &Taken) -> Option<String> {
        let narrow = taken.undefined?;
        let memory = self.core(0).memory();
        let word = memory.peek_instruction(&self.bus, taken.cause)?;
        let word = if narrow { word >> (8 * (taken.cause & 2)) & 0xffff } else { word };
        memory.fetch.decoder.lacking(word, narrow)
    }

    /// Why it ended, in a sentence with the PC.
    pub fn describe(&self, stop: Stop) -> String {
        let core = self.debugging.stopped;
        let mut pc = self.location(self.core(core).memory().pc);
        if self.bus.cores.len() > 1 {
            pc.push_str(&format!(" on core {core}"));
        }
        match stop {
            Stop::Exit(status) => format!("the guest ended with status {status} at {pc}"),
            Stop::Reboot => "the guest rebooted".to_owned(),
            Stop::Limit => format!("the instruction limit was reached at {pc}"),
            Stop::TimeLimit => format!("the time limit was reached at {pc}"),
            Stop::SavePoint => format!("the run was to be saved at {pc}"),
            Stop::Interrupted => format!("interrupted at {pc}"),
            Stop::Hang => {
                format!("the guest hangs: a branch to itself at {pc} with interrupts masked")
            }
            Stop::Deadlock if (0..self.bus.core_count()).all(|number| !self.bus.is_on(number)) => {
                format!("all cores are off: the one that ran last went off at {pc}")
            }
            Stop::Deadlock => format!(
                "the guest waits at {pc} for an interrupt that cannot come: no timer runs whose interrupt is \
                 enabled, and {}",
                match self.bus.board.listens() {
                    true => "the console's input is at its end",
                    false => "nothing listens to the console",
                }
            ),
            Stop::VectorLoop(taken) => format!(
                "the guest is lost: the instruction at the vector {:#010x} causes the very \
                 exception ({}) it should handle; is the vector page mapped and filled? The first \
                 such exception returned to {}",
                taken.vector,
                taken.exception,
                self.location(taken.link)
            ),
            Stop::EmptyVector(taken) => {
                let lacking = self.lacking(&taken);
                format!(
                    "the guest is lost: the {} at {} went to the vector {:#010x}, which holds zero{}",
                    taken.exception,
                    self.location(taken.cause),
                    taken.vector,
                    lacking
                        .map_or(String::new(), |name| format!("; this core does not have {name}"))
                )
            }
            Stop::LostFetch { address, physical } => format!(
                "the guest executes from {}, physical {physical:#010x}, where nothing is",
                self.location(address)
            ),
            Stop::Debugger => format!("the debugger left it at {pc}"),
        }
    }

    /// An address with its symbol and source line, as far as the image tells.
    pub fn location(&self, address: u32) -> String {
        match self.symbols.as_ref().and_then(|symbols| symbols.describe(address)) {
            Some(location) => format!("{address:#010x} ({location})"),
            None => format!("{address:#010x}"),
        }
    }

    /// The result of a run that ended by `stop` after `seconds` of the host's time.
    pub fn outcome(&self, stop: Stop, seconds: f64) -> Outcome {
        let phases = self
            .phases()
            .into_iter()
            .map(|(name, rows)| {
                let causes = costs(&rows);
                Phase {
                    name,
                    instructions: causes.get("issue").map_or(0, |issue| issue.count),
                    cycles: rows.iter().map(|row| row.account.cycles).sum(),
                    causes,
                }
            })
            .collect();
        Outcome {
            machine: self.platform.name.clone(),
            end: self.describe(stop),
            reason: stop.word(),
            exit: match stop {
                Stop::Exit(status) => Some(status),
                Stop::Reboot => Some(0),
                _ => None,
            },
            instructions: self.instructions(),
            cycles: self.cycles(),
            clock_hz: self.platform.clock_hz,
            causes: costs(&self.causes()),
            phases,
            modes: self
                .modes()
                .into_iter()
                .map(|(mode, cycles)| ModeCycles { mode, cycles })
                .collect(),
            spaces: self
                .spaces()
                .into_iter()
                .map(|(space, cycles)| SpaceCycles { space, cycles })
                .collect(),
            events: self.events(),
            checker: CheckerOutcome {
                enabled: self.checker().is_some(),
                reports: self.reports(),
                permitted: self.permitted(),
            },
            notes: self.notes(),
            seconds,
        }
    }

    fn events(&self) -> Events {
        let mut events = Events::default();
        for core in self.cores() {
            let counters = &core.memory().statistics.counters;
            events.space_switches += counters.space_switches;
            events.tlb_flushes += counters.tlb_flushes;
            events.tlb_entry_flushes += counters.tlb_entry_flushes;
            events.icache_flushes += counters.icache_flushes;
            events.dcache_flushes += counters.dcache_flushes;
            events.line_operations += counters.line_operations;
            events.itlb_misses += counters.itlb_misses;
            events.dtlb_misses += counters.dtlb_misses;
            events.micro_tlb_misses += counters.micro_tlb_misses;
            events.walk_cache_hits += counters.walk_cache_hits;
            events.icache_misses += counters.icache_misses;
            events.dcache_misses += counters.dcache_misses;
            events.data_prefetches += counters.data_prefetches;
            events.write_backs += counters.write_backs;
            for (exception, count) in C::EXCEPTIONS.iter().zip(counters.exceptions) {
                *events.exceptions.entry(exception).or_default() += count;
            }
        }
        events
    }

    /// The checker's reports of all cores.
    pub fn reports(&self) -> Vec<crate::checker::Report> {
        let reports = self.checker().into_iter().flat_map(|checker| checker.findings());
        reports.map(|report| report.with_locations(&|address| self.location(address))).collect()
    }

    fn permitted(&self) -> Vec<crate::checker::Permitted> {
        let all = self.checker().into_iter().flat_map(|checker| checker.permitted());
        let located = |one: &crate::checker::Permitted| crate::checker::Permitted {
            since_location: self.location(one.since),
            ..one.clone()
        };
        all.map(located).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let unassigned = &self.bus.board.unassigned;
        for pages in unassigned.chunk_by(|(_, one_pc), (_, next_pc)| one_pc == next_pc) {
            let (first, pc) = pages[0];
            let others = match pages.iter().map(|&(page, _)| page).max() {
                Some(last) if pages.len() > 1 => {
                    format!(" and {} other pages, up to {last:#010x}", pages.len() - 1)
                }
                _ => String::new(),
            };
            notes.push(format!(
                "nothing is at physical {first:#010x}{others}: reads gave 0, writes were lost (first at {})",
                self.location(pc)
            ));
        }
        if unassigned.len() == LISTED_PAGES {
            notes.push(format!(
                "of accesses to nothing only those of the first {LISTED_PAGES} pages are listed"
            ));
        }
        if self.bus.checker_reports() == MAX_REPORTS {
            notes.push(format!(
                "of the checker's reports only those of the first {MAX_REPORTS} causes are kept"
            ));
        }
        for (placed, further) in self.cores().map(Core::notes) {
            let placed = placed.into_iter();
            notes.extend(
                placed.map(|(note, pc)| format!("{note} (first at {})", self.location(pc))),
            );
            notes.extend(further);
        }
        let mut told = HashSet::new();
        notes.retain(|note| told.insert(note.clone())); // cores that did the same
        notes
    }
}
