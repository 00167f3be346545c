//! Decoded instructions.

use crate::caches::{CacheKind, VirtualCaches};
use std::fmt;

use crate::cpu::{Bus, Cpu};
use mmulab_system::clock::Cost;
use mmulab_system::core::Flow;

/// Executes one decoded instruction.
pub type Handler<K> = fn(&mut Cpu<K>, &mut Bus<K>, PackedOperands) -> Flow;

/// A decoded instruction.
#[derive(Clone, Copy)]
pub struct Op<K: CacheKind> {
    /// What executes it.
    pub handler: Handler<K>,
    /// Issue and stall cycles.
    pub cost: Cost,
    /// On what.
    pub operands: PackedOperands,
    /// Under which flags it is executed; see [`CONDITIONS`].
    pub passes: u16,
    /// The registers that it reads, a bit each: while one is late, it waits.
    pub sources: u16,
    /// Bytes of the instruction; 0 while it is not decoded.
    pub length: u8,
    /// What an IT block changes of it.
    pub in_it: InIt,
    /// Registers whose values come late, if it is not known yet whether the next instruction reads
    /// them: it is in another line.
    pub late: Late,
}

/// What an IT block changes of an instruction (ARM DDI 0406C, A8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InIt {
    /// It is executed under the condition that the block gives it.
    Conditional,
    /// The same, and it leaves the condition flags alone.
    Quiet,
    /// Nothing: it is executed whatever the condition.
    Unconditional,
}

/// What an instruction works on. What a field means beside its name is the handler's business.
#[derive(Clone, Copy, Default)]
pub struct Operands {
    /// Immediate operand, offset (signed where the handler takes no [`modifier::UP`]), register
    /// list, or [`CoprocessorAccess`].
    pub immediate: u32,
    /// Destination, or what is stored.
    pub rd: u8,
    /// First operand or base.
    pub rn: u8,
    /// Second operand or index.
    pub rm: u8,
    /// Shift amount, or the register that holds it; number of registers in a list.
    pub rs: u8,
    /// Shift type; for an immediate operand of a logical instruction, the carry (2 for unchanged);
    /// for MSR the byte mask.
    pub shift: u8,
    /// Bits of [`modifier`].
    pub modifiers: u8,
}

/// The same as a handler gets it: small enough for two registers of the host.
#[derive(Clone, Copy)]
pub struct PackedOperands {
    /// As in [`Operands`].
    pub immediate: u32,
    rest: u32,
}

const _: () = assert!(size_of::<Op<VirtualCaches>>() == 32, "the run loop finds one by a shift");

/// What changes an instruction within its handler.
pub mod modifier {
    /// The offset is added to the base, not subtracted.
    pub const UP: u8 = 1;
    /// The offset is applied before the access, not after it.
    pub const BEFORE: u8 = 2;
    /// The base is written back.
    pub const WRITE_BACK: u8 = 4;
    /// The offset is a register.
    pub const REGISTER_OFFSET: u8 = 8;
    /// The access is one of user mode (LDRT and its like); the registers are those of user mode, or
    /// CPSR is restored (LDM and STM with `^`).
    pub const USER: u8 = 16;
    /// The condition flags are set.
    pub const FLAGS: u8 = 32;
    /// SPSR is meant, not CPSR.
    pub const SAVED: u8 = 64;
    /// A branch that a branch target buffer predicts.
    pub const PREDICTED: u8 = 128;
}

/// At most two registers that an instruction delivers late. R15 is never one: what comes next is
/// elsewhere then, and the branch has its own cost.
#[derive(Clone, Copy)]
pub struct Late {
    /// A register in each half; 15 for none.
    registers: u8,
    cycles: u8,
}

mmulab_state::value!(Late { registers, cycles });

impl Late {
    /// Nothing is late.
    pub const NONE: Late = Late { registers: 0xff, cycles: 0 };

    /// The registers, 15 for none, and how long an instruction waits that comes next and reads one.
    pub fn new(registers: (u8, u8), cycles: u8) -> Late {
        let registers = registers.1 << 4 | registers.0;
        if registers == 0xff { Late::NONE } else { Late { registers, cycles } }
    }

    /// Whether anything is late.
    #[inline(always)]
    pub fn is_some(self) -> bool {
        self.cycles != 0
    }

    /// Cycles that an instruction waits which comes next and reads the registers `sources`.
    #[inline]
    pub fn stall(self, sources: u16) -> u8 {
        let late = 1 << (self.registers & 15) | 1 << (self.registers >> 4);
        if late & 0x7fff & sources != 0 { self.cycles } else { 0 }
    }
}

impl<K: CacheKind> Op<K> {
    /// An unconditional instruction of one cycle without operands.
    pub const fn new(handler: Handler<K>) -> Op<K> {
        Op {
            handler,
            cost: Cost::issue(1),
            operands: PackedOperands { immediate: 0, rest: 0 },
            passes: ALWAYS,
            sources: 0,
            length: 4,
            in_it: InIt::Conditional,
            late: Late::NONE,
        }
    }
}

impl From<Operands> for PackedOperands {
    fn from(operands: Operands) -> PackedOperands {
        let Operands { immediate, rd, rn, rm, rs, shift, modifiers } = operands;
        debug_assert!(rd < 16 && rn < 16 && rm < 16 && rs < 32 && shift < 16);
        let packed = [(rd, 0), (rn, 4), (rm, 8), (rs, 12), (shift, 20), (modifiers, 24)];
        let rest = packed.iter().fold(0, |all, &(field, low)| all | u32::from(field) << low);
        PackedOperands { immediate, rest }
    }
}

impl PackedOperands {
    #[inline(always)]
    pub fn rd(self) -> u8 {
        self.rest as u8 & 15
    }

    #[inline(always)]
    pub fn rn(self) -> u8 {
        (self.rest >> 4) as u8 & 15
    }

    #[inline(always)]
    pub fn rm(self) -> u8 {
        (self.rest >> 8) as u8 & 15
    }

    #[inline(always)]
    pub fn rs(self) -> u8 {
        (self.rest >> 12) as u8 & 31
    }

    #[inline(always)]
    pub fn shift(self) -> u8 {
        (self.rest >> 20) as u8 & 15
    }

    /// Whether any of the given modifiers is there.
    #[inline(always)]
    pub fn is(self, modifiers: u8) -> bool {
        (self.rest >> 24) as u8 & modifiers != 0
    }
}

/// An access to a register of a coprocessor, or an operation of it: an MRC or MCR without the ARM
/// register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoprocessorAccess(u32);

mmulab_state::value!(tuple CoprocessorAccess);

impl CoprocessorAccess {
    const READ: u32 = 1 << 20;

    /// As in `MRC p15, opcode_1, R0, cN, cM, opcode_2`.
    pub const fn read(coprocessor: u32, opcode_1: u32, n: u32, m: u32, opcode_2: u32) -> Self {
        let write = CoprocessorAccess::write(coprocessor, opcode_1, n, m, opcode_2);
        CoprocessorAccess(CoprocessorAccess::READ | write.0)
    }

    /// As in `MCR p15, opcode_1, R0, cN, cM, opcode_2`.
    pub const fn write(coprocessor: u32, opcode_1: u32, n: u32, m: u32, opcode_2: u32) -> Self {
        CoprocessorAccess(coprocessor << 16 | opcode_1 << 12 | n << 8 | m << 4 | opcode_2)
    }

    /// Whether the coprocessor is read, by MRC.
    pub fn is_read(self) -> bool {
        self.0 & CoprocessorAccess::READ != 0
    }

    /// The coprocessor's number.
    pub fn coprocessor(self) -> u32 {
        self.0 >> 16 & 15
    }

    /// Primary register CRn, secondary register CRm, opcode_1, opcode_2.
    pub fn fields(self) -> (u32, u32, u32, u32) {
        (self.0 >> 8 & 15, self.0 >> 4 & 15, self.0 >> 12 & 15, self.0 & 15)
    }
}

/// What an operation's immediate holds.
impl From<PackedOperands> for CoprocessorAccess {
    fn from(op: PackedOperands) -> CoprocessorAccess {
        CoprocessorAccess(op.immediate)
    }
}

/// The immediate that holds it.
impl From<CoprocessorAccess> for u32 {
    fn from(access: CoprocessorAccess) -> u32 {
        access.0
    }
}

/// As in the manuals: `MCR p15, 0, c7, c14, 1`.
impl fmt::Display for CoprocessorAccess {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        let (n, m, opcode_1, opcode_2) = self.fields();
        let name = if self.is_read() { "MRC" } else { "MCR" };
        write!(text, "{name} p{}, {opcode_1}, c{n}, c{m}, {opcode_2}", self.coprocessor())
    }
}

/// Any flags let the condition 14 pass.
pub const ALWAYS: u16 = 0xffff;

/// Which flags let a condition pass: bit n of entry c is set if flags n satisfy condition c (A3.2).
pub static CONDITIONS: [u16; 16] = conditions();

const fn conditions() -> [u16; 16] {
    let mut table = [0; 16];
    let mut condition = 0;
    while condition < 16 {
        let mut flags = 0;
        while flags < 16 {
            let (n, z, c, v) = (flags & 8 != 0, flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
            let passes = match condition >> 1 {
                0 => z,
                1 => c,
                2 => n,
                3 => v,
                4 => c && !z,
                5 => n == v,
                6 => n == v && !z,
                _ => true,
            };
            if passes != (condition & 1 != 0 && condition < 14) {
                table[condition] |= 1 << flags;
            }
            flags += 1;
        }
        condition += 1;
    }
    table
}
