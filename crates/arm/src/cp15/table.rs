//! Tables of the system control coprocessor: a row names a register or an operation, and what it
//! does.

use mmulab_system::coherence::Point;
use mmulab_system::core::Side;
use mmulab_system::maintenance::LineOperation;

use super::tlb_port::Version;
use crate::generic_timer::TimerRegister;
use crate::isa::CoprocessorAccess;
use crate::performance::MonitorRegister;

/// What a coprocessor instruction names: CRn, CRm, opcode 1, opcode 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// CRn.
    pub n: u8,
    /// CRm.
    pub m: u8,
    /// Opcode 1.
    pub opcode_1: u8,
    /// Opcode 2.
    pub opcode_2: u8,
}

impl Encoding {
    pub(super) fn of(access: CoprocessorAccess) -> Encoding {
        let (n, m, opcode_1, opcode_2) = access.fields();
        let [n, m, opcode_1, opcode_2] = [n, m, opcode_1, opcode_2].map(|field| field as u8);
        Encoding { n, m, opcode_1, opcode_2 }
    }

    pub(super) fn index(self) -> usize {
        let high = usize::from(self.n) << 10 | usize::from(self.m) << 6;
        high | usize::from(self.opcode_1) << 3 | usize::from(self.opcode_2)
    }
}

/// Different encodings.
pub(super) const ENCODINGS: usize = 1 << 14;

/// In a row: any value of the field.
pub const ANY: u8 = 0xff;
/// In a row, with a number in the low bits: any value up to it.
pub const UP_TO: u8 = 0x40;

/// One row of a core's table: a register, or an operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    n: u8,
    m: u8,
    opcode_1: u8,
    opcode_2: u8,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) operation: Operation,
}

impl Row {
    const fn new(encoding: [u8; 4], reads: bool, writes: bool, operation: Operation) -> Row {
        let [n, m, opcode_1, opcode_2] = encoding;
        Row { n, m, opcode_1, opcode_2, reads, writes, operation }
    }

    /// What MRC does.
    pub const fn read(n: u8, m: u8, opcode_1: u8, opcode_2: u8, operation: Operation) -> Row {
        Row::new([n, m, opcode_1, opcode_2], true, false, operation)
    }

    /// What MCR does.
    pub const fn write(n: u8, m: u8, opcode_1: u8, opcode_2: u8, operation: Operation) -> Row {
        Row::new([n, m, opcode_1, opcode_2], false, true, operation)
    }

    /// A register that MRC reads and MCR writes.
    pub const fn both(n: u8, m: u8, opcode_1: u8, opcode_2: u8, operation: Operation) -> Row {
        Row::new([n, m, opcode_1, opcode_2], true, true, operation)
    }

    pub(super) fn fits(&self, encoding: Encoding) -> bool {
        let fits = |field: u8, value: u8| match field {
            ANY => true,
            field if field & UP_TO != 0 => value <= field & 15,
            field => value == field,
        };
        fits(self.n, encoding.n)
            && fits(self.m, encoding.m)
            && fits(self.opcode_1, encoding.opcode_1)
            && fits(self.opcode_2, encoding.opcode_2)
    }
}

/// A register that just holds what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// Instruction fault status.
    InstructionFaultStatus,
    /// Fault address.
    FaultAddress,
    /// Context ID.
    ContextId,
    /// Coprocessor access.
    CoprocessorAccess,
    /// Fault address of instruction fetches.
    InstructionFaultAddress,
    /// Vector base address.
    VectorBase,
    /// Cache size selection.
    CacheSizeSelection,
    /// Physical address.
    PhysicalAddress,
    /// Thread identifier: written by user mode, read by it, privileged.
    Thread(u8),
}

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Gives the main ID register.
    MainId,
    /// Gives the cache type register.
    CacheType,
    /// Gives zero.
    Zero,
    /// Gives what the machine's file says under this name.
    Fixed(&'static str),
    /// Gives the number of the core among several (ARMv7).
    MultiprocessorId,
    /// Gives the number of cores that share the second level (Cortex-A7).
    Level2Control,
    /// Gives the shape of the cache that was selected (ARMv7).
    CacheSize,
    /// Gives the sizes of the caches' lines (ARMv7).
    SmallestLines,
    /// Translation table base 1 (ARMv6).
    TableBase1,
    /// Which of two tables is responsible for an address (ARMv6).
    TableControl,
    /// Primary region remap (ARMv7).
    RegionRemap,
    /// Normal memory remap (ARMv7).
    NormalRemap,
    /// The context ID, whose low bits are the address-space identifier (ARMv6).
    AddressSpace,
    /// Invalidates the TLB entries of an address in the address space beside it, or in all (ARMv7).
    InvalidateSharedTranslation {
        /// In all spaces.
        all_spaces: bool,
    },
    /// Invalidates the TLB entries of an address space (ARMv6).
    InvalidateSpace,
    /// Which interrupts are pending (ARMv7).
    PendingInterrupts,
    /// The control register.
    Control,
    /// The auxiliary control register of the XScale.
    AuxiliaryControl,
    /// The translation table base.
    TableBase,
    /// Domain access control.
    Domains,
    /// The fault status of data accesses.
    DataFaultStatus,
    /// The FCSE process ID.
    ProcessId,
    /// A register of the generic timers (ARMv7).
    Timer(TimerRegister),
    /// A register of the performance monitor (ARMv7).
    Monitor(MonitorRegister),
    /// Reads an entry of the TLB's memory into the data registers (Cortex-A7).
    ReadTlbEntry,
    /// A data register of such reads (Cortex-A7).
    TlbData(u8),
    /// The operation register of an interface to save and restore entries of the data TLB.
    TlbPortStart(Version),
    /// A data register of such an interface.
    TlbPortData(Version, u8),
    /// The state of a stream of such an interface.
    TlbPortState(u8),
    /// A write begins to take over entries of another core's data TLB; a read tells how many came.
    TlbTransfer,
    /// A mark for the ages of the data TLB's entries.
    TlbAgeMark,
    /// The cache debug control register of the ARM926EJ-S.
    CacheDebug,
    /// A register that just holds what is written.
    Held(Register),
    /// Invalidates the TLBs.
    InvalidateTranslations {
        /// Of instruction fetches.
        instructions: bool,
        /// Of data.
        data: bool,
    },
    /// Invalidates the TLB entries of a modified virtual address.
    InvalidateTranslation {
        /// Of instruction fetches.
        instructions: bool,
        /// Of data.
        data: bool,
    },
    /// Invalidates the instruction cache.
    InvalidateInstructions {
        /// The data caches too.
        data: bool,
    },
    /// Invalidates an instruction cache line by modified virtual address.
    InvalidateInstructionLine,
    /// The same by set and way.
    InvalidateInstructionSlot,
    /// Brings an instruction cache line in.
    PrefetchInstructionLine,
    /// Synchronises the context: an ISB as an operation (ARMv6).
    Synchronise,
    /// Empties the branch target buffer.
    InvalidateBranchBuffer,
    /// Invalidates the data caches.
    InvalidateData,
    /// Does something to a data cache line by modified virtual address.
    Line(LineOperation),
    /// The same by set and way.
    Slot(LineOperation),
    /// Does something to the line of an address, as far as this point, on all cores (ARMv7).
    LineTo(LineOperation, Point),
    /// Does something to a set and way of the level that the value names, on this core (ARMv7).
    SlotOfLevel(LineOperation),
    /// Invalidates the instruction cache line of an address on all cores (ARMv7).
    InvalidateSharedInstructionLine,
    /// Does an operation on this core, and on all others (ARMv7 with the multiprocessing
    /// extensions).
    Broadcast(&'static Operation),
    /// Cleans one dirty line, and gives in bit 30 whether there was none.
    TestAndClean {
        /// Invalidates the data cache once it is clean.
        invalidate: bool,
    },
    /// Translates an address for an access into the physical address register (ARMv7).
    TranslateAddress {
        /// A store.
        write: bool,
        /// Of a privileged mode.
        privileged: bool,
    },
    /// Takes a line of the data cache without reading memory.
    AllocateLine,
    /// Drains the write buffer.
    Drain,
    /// Waits for an interrupt.
    Wait,
    /// Empties the read buffer.
    EmptyReadBuffer,
    /// Empties the entry of the read buffer that CRm names.
    EmptyReadBufferEntry,
    /// Fetches 1, 4 or 8 words into an entry of the read buffer; CRm says which and how many.
    ReadAhead,
    /// Whether user mode may use the read buffer.
    OpenReadBuffer(bool),
    /// Lock bits of a cache, one a way.
    CacheLockdownWays(Side),
    /// Base and victim of a cache.
    CacheLockdownBase(Side),
    /// Victim and P of the TLB part for locked-down entries.
    TlbLockdownPart,
    /// Base, victim and P of a TLB.
    TlbLockdownBase(Side),
    /// Walks for an address and locks the entry.
    LockTranslation(Side),
    /// Unlocks a TLB.
    UnlockTranslations(Side),
    /// Does nothing for a value with bit 0 clear, and is not modelled for others.
    UnlockOnly,
    /// Rightly does nothing.
    Nothing,
    /// Is there and not modelled.
    NotModelled,
}

/// Rows and names that several cores share.
pub mod rows {
    use mmulab_system::maintenance::LineOperation;

    use super::{ANY, Operation::*, Register, Row};

    /// Rows of all cores, after their own.
    pub const COMMON: &[Row] = &[
        Row::both(1, 0, 0, 0, Control),
        Row::both(2, ANY, ANY, ANY, TableBase),
        Row::both(3, ANY, ANY, ANY, Domains),
        Row::both(5, ANY, ANY, ANY, DataFaultStatus),
        Row::both(6, ANY, ANY, ANY, Held(Register::FaultAddress)),
        Row::write(7, 5, 0, 0, InvalidateInstructions { data: false }),
        Row::write(7, 7, 0, 0, InvalidateInstructions { data: true }),
        Row::write(7, 6, 0, 0, InvalidateData),
        Row::write(7, 6, 0, 1, Line(LineOperation::Invalidate)),
        Row::write(7, 10, 0, 1, Line(LineOperation::Clean)),
        Row::write(7, 10, 0, 4, Drain),
        Row::write(8, 5, ANY, 0, InvalidateTranslations { instructions: true, data: false }),
        Row::write(8, 6, ANY, 0, InvalidateTranslations { instructions: false, data: true }),
        Row::write(8, 7, ANY, 0, InvalidateTranslations { instructions: true, data: true }),
        Row::both(13, 0, 0, 0, ProcessId),
    ];

    /// What the XScale, the ARM920T and the ARM926EJ-S have beyond the SA-1100, after their own:
    /// the cache type register, and single entries of the TLB of fetches.
    pub const AFTER_SA1100: &[Row] = &[
        Row::read(0, 0, 0, 1, CacheType),
        Row::read(0, ANY, 0, ANY, MainId),
        Row::write(8, 5, ANY, 1, InvalidateTranslation { instructions: true, data: false }),
        Row::write(8, 6, ANY, 1, InvalidateTranslation { instructions: false, data: true }),
    ];

    /// What the ARM920T and the ARM926EJ-S share beyond that: the status of refused fetches,
    /// waiting, prefetching, operations by set and way.
    pub const ARM9: &[Row] = &[
        Row::both(5, 0, 0, 1, Held(Register::InstructionFaultStatus)),
        Row::write(7, 0, 0, 4, Wait),
        Row::write(7, 5, 0, 1, InvalidateInstructionLine),
        Row::write(7, 5, 0, 2, InvalidateInstructionSlot),
        Row::write(7, 6, 0, 2, Slot(LineOperation::Invalidate)),
        Row::write(7, 10, 0, 2, Slot(LineOperation::Clean)),
        Row::write(7, 13, 0, 1, PrefetchInstructionLine),
        Row::write(7, 14, 0, 1, Line(LineOperation::CleanAndInvalidate)),
        Row::write(7, 14, 0, 2, Slot(LineOperation::CleanAndInvalidate)),
    ];

    /// Name of c8, c6.
    pub const INVALIDATE_DATA_TRANSLATION_NAME: &str =
        "invalidate the data TLB entry (c8, c6, 1) or TLB (c8, c6, 0)";
    /// Name of c8, c5.
    pub const INVALIDATE_FETCH_TRANSLATION_NAME: &str =
        "invalidate the instruction TLB entry (c8, c5, 1) or TLB (c8, c5, 0)";
    /// Name of c7, c10, 1.
    pub const CLEAN_LINE_NAME: &str =
        "clean the data cache line of {line} (c7, c10, 1), or the whole cache";
    /// Name of c7, c6, 1.
    pub const INVALIDATE_LINE_NAME: &str = "invalidate the data cache line of {line} (c7, c6, 1)";
    /// Name of c7, c5, 1.
    pub const INVALIDATE_INSTRUCTION_LINE_NAME: &str =
        "invalidate the instruction cache line of {line} (c7, c5, 1)";
    /// Name of c7, c10, 4.
    pub const DRAIN_NAME: &str = "drain the write buffer (c7, c10, 4)";
}
