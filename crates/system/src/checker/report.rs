//! What the checker tells: one finding with both sides of it.

use serde::Serialize;

use crate::core::Space;

/// What was stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A TLB entry disagrees with the tables.
    StaleTlbEntry,
    /// The MMU refused what the tables permit.
    SpuriousFault,
    /// A data cache line belongs to another physical address.
    DataHomonym,
    /// A data cache line is older than memory.
    StaleDataLine,
    /// A word of the read buffer is older than memory.
    StaleReadBuffer,
    /// Memory was read while newer data sat in a cache line or buffer, or after it was lost.
    StaleMemory,
    /// An instruction cache line belongs to another physical address.
    InstructionHomonym,
    /// An instruction cache line, or the memory it came from, holds old code.
    StaleInstruction,
    /// A table walk read an old descriptor.
    StaleWalk,
    /// An access got the right answer, but only a barrier would have made that sure.
    MissingBarrier,
    /// A descriptor was replaced while TLBs may hold what it was.
    BreakBeforeMake,
    /// A table that a walk may still read was written with something else.
    TableReused,
    /// Memory was used through the caches and past them, without maintenance in between.
    MismatchedAttributes,
    /// A cache or TLB was turned on before it was invalidated.
    NotInvalidated,
}

mmulab_state::value_enum!(Kind {
    StaleTlbEntry,
    SpuriousFault,
    DataHomonym,
    StaleDataLine,
    StaleReadBuffer,
    StaleMemory,
    InstructionHomonym,
    StaleInstruction,
    StaleWalk,
    MissingBarrier,
    BreakBeforeMake,
    TableReused,
    MismatchedAttributes,
    NotInvalidated,
});

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// An instruction was fetched.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A table walk.
    Walk,
}

mmulab_state::value_enum!(AccessKind { Fetch, Load, Store, Walk });

/// Uses of TLB entries older than the tables while their invalidation was under way, which the
/// architecture permits on several cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Permitted {
    /// The store that changed the tables.
    pub since: u32,
    /// The same with symbol and source line.
    pub since_location: String,
    /// Uses in all.
    pub uses: u64,
    /// Longest time from a use to the end of the invalidation, by the clock of the core that ended
    /// it.
    pub longest_cycles: u64,
}

mmulab_state::value!(Permitted { since, since_location, uses, longest_cycles });

/// One finding, kept once for each cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What was stale.
    pub kind: Kind,
    /// What used it.
    pub access: AccessKind,
    /// Which core.
    pub core: usize,
    /// The instruction that used it.
    pub pc: u32,
    /// The same with symbol and source line.
    pub pc_location: String,
    /// Modified virtual address of the access.
    pub address: u32,
    /// Physical address that a coherent machine would have used.
    pub physical: u32,
    /// The address space at the time: its registers.
    #[serde(flatten)]
    pub space: Space,
    /// What was stale, in words.
    pub stale: String,
    /// The store or register write since which it has been stale; 0 if unknown.
    pub since: u32,
    /// The core that did it.
    pub since_core: usize,
    /// The same with symbol and source line.
    pub since_location: String,
    /// The operation that would have prevented it.
    pub missing: String,
    /// Cycle of the first use.
    pub cycle: u64,
    /// Uses in all.
    pub times: u64,
    /// All of it in words.
    pub text: String,
}

mmulab_state::value!(Report {
    kind,
    access,
    core,
    pc,
    pc_location,
    address,
    physical,
    space,
    stale,
    since,
    since_core,
    since_location,
    missing,
    cycle,
    times,
    text,
});

impl Report {
    /// The report with the symbols of its addresses.
    pub fn with_locations(&self, location: &dyn Fn(u32) -> String) -> Report {
        let mut report = self.clone();
        report.pc_location = location(self.pc);
        let since = match self.since {
            0 => String::new(),
            pc => {
                report.since_location = location(pc);
                let core = match self.since_core {
                    core if core == self.core => String::new(),
                    core => format!(" on core {core}"),
                };
                format!(", since {}{core}", report.since_location)
            }
        };
        let access = match self.access {
            AccessKind::Fetch => "fetch",
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Walk => "table walk",
        };
        let times = if self.times == 1 { "once".into() } else { format!("{} times", self.times) };
        report.text = format!(
            "{access} of {:#010x} at {} (core {}, {}): {}{since}; missing: {} ({times})",
            self.address,
            report.pc_location,
            self.core,
            self.space.describe(),
            self.stale,
            self.missing
        );
        report
    }
}
