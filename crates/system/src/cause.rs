//! The reasons to spend cycles on a system machine.

use mmulab_hardware::Cause as LedgerCause;

/// Why a cycle was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// Instructions, when nothing holds them up; the count is the instructions.
    Issue,
    /// An instruction waits for the result of the one before.
    Interlock,
    /// The pipeline refills after a taken or wrongly predicted branch.
    Branch,
    /// A multiplier that terminates early, but not at once.
    Multiply,
    /// Entry of an exception.
    Exception,
    /// A line comes into the instruction cache.
    InstructionMiss,
    /// A line comes into a data cache.
    DataMiss,
    /// The table walk for an instruction fetch.
    InstructionWalk,
    /// The table walk for a data access.
    DataWalk,
    /// The main TLB is looked up after a miss in a micro TLB.
    MicroTlb,
    /// A fetch, load or store that no cache or buffer serves.
    Uncached,
    /// The write buffer, or the write-back buffer, is full or in the way of a read.
    WriteBuffer,
    /// A store fetches its line, where stores allocate.
    WriteAllocate,
    /// Clean or invalidate operations on data cache lines.
    DataCacheOperation,
    /// Invalidate operations on the instruction cache.
    InstructionCacheOperation,
    /// Invalidate operations on the TLBs.
    TlbOperation,
    /// Draining the write buffer on request.
    Drain,
    /// Waiting for an interrupt.
    Idle,
    /// Turned off, until turned on.
    Off,
}

impl LedgerCause for Cause {
    const ALL: &'static [Self] = &[
        Cause::Issue,
        Cause::Interlock,
        Cause::Branch,
        Cause::Multiply,
        Cause::Exception,
        Cause::InstructionMiss,
        Cause::DataMiss,
        Cause::InstructionWalk,
        Cause::DataWalk,
        Cause::MicroTlb,
        Cause::Uncached,
        Cause::WriteBuffer,
        Cause::WriteAllocate,
        Cause::DataCacheOperation,
        Cause::InstructionCacheOperation,
        Cause::TlbOperation,
        Cause::Drain,
        Cause::Idle,
        Cause::Off,
    ];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Cause::Issue => "issue",
            Cause::Interlock => "interlock",
            Cause::Branch => "branch",
            Cause::Multiply => "multiply",
            Cause::Exception => "exception",
            Cause::InstructionMiss => "icache-miss",
            Cause::DataMiss => "dcache-miss",
            Cause::InstructionWalk => "itlb-walk",
            Cause::DataWalk => "dtlb-walk",
            Cause::MicroTlb => "micro-tlb",
            Cause::Uncached => "uncached",
            Cause::WriteBuffer => "write-buffer",
            Cause::WriteAllocate => "write-allocate",
            Cause::DataCacheOperation => "dcache-operation",
            Cause::InstructionCacheOperation => "icache-operation",
            Cause::TlbOperation => "tlb-operation",
            Cause::Drain => "drain",
            Cause::Idle => "idle",
            Cause::Off => "off",
        }
    }
}
