//! Forms: from the fields of a row to an [`Op`] with its handler, operands and timing.
//!
//! Each function here makes one kind of instruction from its operands; the tables of both
//! instruction sets say which field is which operand.

use crate::caches::CacheKind;
use mmulab_machine::ArmTiming;

use mmulab_system::clock::Cost;

use super::decode::Decoded;
use super::execute::alu::*;
use super::execute::load_store::*;
use super::execute::{alu, branch, load_store, multiply, system};
use super::op::{CONDITIONS, CoprocessorAccess, Handler, InIt, Late, Op, Operands, modifier};

/// R13.
pub const SP: u8 = 13;
/// R14.
pub const LR: u8 = 14;
/// R15.
pub const PC: u8 = 15;

/// Left and right shifts (A5.1), by their encoding.
pub const LSL: u8 = 0;
/// Logical right.
pub const LSR: u8 = 1;
/// Arithmetic right.
pub const ASR: u8 = 2;
/// Rotation; by a constant of 0, through the carry.
pub const ROR: u8 = 3;

fn set_of(registers: &[u8]) -> u16 {
    registers.iter().fold(0, |set, &register| set | 1 << register)
}

impl<K: CacheKind> Decoded<K> {
    /// Without operands.
    pub fn new(handler: Handler<K>) -> Decoded<K> {
        let operands = Operands::default();
        Decoded { op: Op::new(handler), operands, sources: 0, later_sources: 0 }
    }

    /// Under a condition; without it, it is executed always.
    pub fn when(mut self, condition: u8) -> Decoded<K> {
        self.op.passes = CONDITIONS[usize::from(condition)];
        self
    }

    pub(super) fn reads(mut self, registers: &[u8]) -> Decoded<K> {
        self.sources |= set_of(registers);
        self
    }

    pub(super) fn reads_later(mut self, registers: &[u8]) -> Decoded<K> {
        self.later_sources |= set_of(registers);
        self
    }

    pub(super) fn delivers(self, register: u8, cycles: u8) -> Decoded<K> {
        self.delivers_two(register, PC, cycles)
    }

    pub(super) fn delivers_two(mut self, first: u8, second: u8, cycles: u8) -> Decoded<K> {
        self.op.late = Late::new((first, second), cycles);
        self
    }

    pub(super) fn takes(mut self, cycles: u8) -> Decoded<K> {
        self.op.cost = Cost::issue(cycles);
        self
    }
}

pub(super) fn modifiers(given: &[(bool, u8)]) -> u8 {
    given.iter().filter(|one| one.0).fold(0, |all, one| all | one.1)
}

// ---- data processing ------------------------------------------------------------------------------

/// The second operand of data processing (A5.1).
#[derive(Clone, Copy)]
pub enum Operand {
    /// A constant; the second is the carry that it gives a logical instruction, 2 for none.
    Immediate(u32, u8),
    /// A register as it is.
    Register(u8),
    /// A register, shift type, and amount (0 has the special meanings of A5.1).
    Shifted(u8, u8, u8),
    /// A register, shift type, and the register that holds the amount.
    ShiftedByRegister(u8, u8, u8),
}

/// The constant of an ARM instruction: eight bits rotated right by twice the rotation (A5.1.3).
pub fn rotated(bits: u32, rotation: u32) -> Operand {
    let value = bits.rotate_right(2 * rotation);
    Operand::Immediate(value, if rotation == 0 { 2 } else { (value >> 31) as u8 })
}

/// A constant that leaves the carry alone.
pub fn constant(value: u32) -> Operand {
    Operand::Immediate(value, 2)
}

macro_rules! data_processing_handlers {
    ($($operation:ident),*) => {
        [$(data_processing_handlers!(@forms $operation)),*]
    };
    (@forms $operation:ident) => {
        [
            data_processing_handlers!(@variants $operation, IMMEDIATE),
            data_processing_handlers!(@variants $operation, PLAIN),
            data_processing_handlers!(@variants $operation, SHIFTED),
            data_processing_handlers!(@variants $operation, SHIFTED_BY_REGISTER),
        ]
    };
    (@variants $operation:ident, $form:ident) => {
        [
            alu::data_processing::<K, $operation, false, $form> as Handler<K>,
            alu::data_processing::<K, $operation, true, $form> as Handler<K>,
            alu::data_processing_to_pc::<K, $operation, $form> as Handler<K>,
        ]
    };
}

/// Handlers by operation, form, and: no flags, flags, to R15.
fn data_processing_handlers<K: CacheKind>() -> &'static [[[Handler<K>; 3]; 4]; 17] {
    const {
        &data_processing_handlers![
            AND, EOR, SUB, RSB, ADD, ADC, SBC, RSC, TST, TEQ, CMP, CMN, ORR, MOV, BIC, MVN, ORN
        ]
    }
}

/// An operation with two operands, of which moves have only the second, and comparisons no result.
pub fn data_processing<K: CacheKind>(
    timing: &ArmTiming,
    operation: u8,
    flags: bool,
    (rd, rn): (u8, u8),
    operand: Operand,
) -> Decoded<K> {
    let compares = matches!(operation, TST | TEQ | CMP | CMN);
    let variant = if rd == PC && !compares { 2 } else { usize::from(flags) };
    let handler =
        |form: u8| data_processing_handlers()[usize::from(operation)][usize::from(form)][variant];
    let mut decoded = match operand {
        Operand::Immediate(value, carry) => {
            let mut decoded = Decoded::new(handler(IMMEDIATE));
            (decoded.operands.immediate, decoded.operands.shift) = (value, carry);
            decoded
        }
        Operand::Register(rm) | Operand::Shifted(rm, LSL, 0) => {
            let mut decoded = Decoded::new(handler(PLAIN));
            decoded.operands.rm = rm;
            decoded.reads(&[rm])
        }
        Operand::Shifted(rm, kind, amount) => {
            let mut decoded = Decoded::new(handler(SHIFTED));
            (decoded.operands.rm, decoded.operands.shift, decoded.operands.rs) = (rm, kind, amount);
            decoded.reads(&[rm])
        }
        Operand::ShiftedByRegister(rm, kind, rs) => {
            let mut decoded = Decoded::new(handler(SHIFTED_BY_REGISTER));
            (decoded.operands.rm, decoded.operands.shift, decoded.operands.rs) = (rm, kind, rs);
            decoded.reads(&[rm, rs]).takes(1 + timing.register_shift_cycles)
        }
    };
    (decoded.operands.rd, decoded.operands.rn) = (rd, rn);
    decoded.operands.modifiers = modifiers(&[(flags, modifier::FLAGS)]);
    if matches!(operation, MOV | MVN) { decoded } else { decoded.reads(&[rn]) }
}

/// Thumb's ADD of a constant to R15, whose bit 1 it ignores.
pub fn add_to_pc<K: CacheKind>(rd: u8, immediate: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(alu::thumb_add_to_pc);
    (decoded.operands.rd, decoded.operands.immediate) = (rd, immediate);
    decoded
}

/// CLZ.
pub fn count_leading_zeros<K: CacheKind>(rd: u8, rm: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(alu::count_leading_zeros);
    (decoded.operands.rd, decoded.operands.rm) = (rd, rm);
    decoded.reads(&[rm])
}

// ---- multiplies -----------------------------------------------------------------------------------

/// Registers of a multiply: destination (of a long one the upper half), what is added (of a long
/// one the lower half), and the two factors.
#[derive(Clone, Copy)]
pub struct Factors {
    /// Destination, or its upper half.
    pub rd: u8,
    /// Addend, or the lower half of destination and addend.
    pub rn: u8,
    /// First factor.
    pub rm: u8,
    /// Second factor, at whose significant bits a multiplier may end early.
    pub rs: u8,
}

fn factors<K: CacheKind>(handler: Handler<K>, registers: Factors) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    let Factors { rd, rn, rm, rs } = registers;
    (decoded.operands.rd, decoded.operands.rn, decoded.operands.rm, decoded.operands.rs) =
        (rd, rn, rm, rs);
    decoded.reads(&[rm, rs])
}

/// How late a product is: not while the instruction itself waits for the flags.
fn use_cycles(timing: &ArmTiming, flags_cycles: u8) -> u8 {
    timing.multiply_use_cycles.saturating_sub(flags_cycles)
}

/// MUL and MLA.
pub fn multiply<K: CacheKind>(
    timing: &ArmTiming,
    accumulate: bool,
    flags: bool,
    registers: Factors,
) -> Decoded<K> {
    let handler = match (accumulate, flags) {
        (false, false) => multiply::multiply::<K, false, false>,
        (false, true) => multiply::multiply::<K, false, true>,
        (true, false) => multiply::multiply::<K, true, false>,
        (true, true) => multiply::multiply::<K, true, true>,
    };
    let flags_cycles = if flags { timing.multiply_flags_cycles } else { 0 };
    let decoded = factors(handler, registers)
        .takes(timing.multiply_cycles + flags_cycles)
        .delivers(registers.rd, use_cycles(timing, flags_cycles));
    if accumulate { decoded.reads(&[registers.rn]) } else { decoded }
}

/// UMULL, UMLAL, SMULL, SMLAL. Only the lower half of what is added is wanted in the first cycle.
pub fn multiply_long<K: CacheKind>(
    timing: &ArmTiming,
    signed: bool,
    accumulate: bool,
    flags: bool,
    registers: Factors,
) -> Decoded<K> {
    let handler = match (signed, accumulate) {
        (false, false) => multiply::multiply_long::<K, false, false>,
        (false, true) => multiply::multiply_long::<K, false, true>,
        (true, false) => multiply::multiply_long::<K, true, false>,
        (true, true) => multiply::multiply_long::<K, true, true>,
    };
    let flags_cycles = if flags { timing.multiply_flags_cycles } else { 0 };
    let mut decoded = factors(handler, registers)
        .takes(timing.multiply_cycles + timing.multiply_long_cycles + flags_cycles)
        .delivers_two(registers.rd, registers.rn, use_cycles(timing, flags_cycles));
    decoded.operands.modifiers = modifiers(&[(flags, modifier::FLAGS)]);
    if accumulate { decoded.reads(&[registers.rn]).reads_later(&[registers.rd]) } else { decoded }
}

/// What the 16-bit multiplies add, beside the factors that they read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Addend {
    /// Nothing.
    None,
    /// A register.
    Word,
    /// Two registers, which also receive the result.
    Long,
}

/// The multiplies of 16-bit factors; the handler knows which halves.
pub fn multiply_half<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    addend: Addend,
    registers: Factors,
) -> Decoded<K> {
    // SMLALxy takes two (IXP42X manual 252480-006, 3.9.4.4); its lower half is there in time.
    let long_cycles = if addend == Addend::Long { timing.multiply_long_cycles } else { 0 };
    let decoded = factors(handler, registers)
        .takes(timing.dsp_cycles + long_cycles)
        .delivers(registers.rd, timing.multiply_use_cycles);
    match addend {
        Addend::None => decoded,
        Addend::Word => decoded.reads(&[registers.rn]),
        Addend::Long => decoded.reads(&[registers.rn, registers.rd]),
    }
}

/// QADD, QSUB, QDADD, QDSUB.
pub fn saturating<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    (rd, rm, rn): (u8, u8, u8),
) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rm, decoded.operands.rn) = (rd, rm, rn);
    decoded.takes(timing.dsp_cycles).reads(&[rm, rn]).delivers(rd, timing.multiply_use_cycles)
}

/// MIA and its like; the handler knows which halves. It waits for Rs only, as the model has it.
pub fn accumulate<K: CacheKind>(handler: Handler<K>, (rm, rs): (u8, u8)) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rm, decoded.operands.rs) = (rm, rs);
    decoded.reads(&[rs])
}

/// MAR and MRA.
pub fn accumulator_transfer<K: CacheKind>(
    handler: Handler<K>,
    (low, high): (u8, u8),
) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rn) = (low, high);
    decoded.takes(2)
}

// ---- loads and stores -----------------------------------------------------------------------------

/// Where a load or store goes (A5.2, A5.3).
#[derive(Clone, Copy)]
pub struct Address {
    /// The base register.
    pub rn: u8,
    /// What is added to it or subtracted.
    pub offset: Offset,
    /// Of [`modifier`]: `UP`, `BEFORE`, `WRITE_BACK`, `USER`.
    pub mode: u8,
}

/// The offset of an address.
#[derive(Clone, Copy)]
pub enum Offset {
    /// A constant.
    Immediate(u32),
    /// A register, shift type, and amount.
    Register(u8, u8, u8),
}

impl Address {
    /// A base and a constant that is added.
    pub fn at(rn: u8, offset: u32) -> Address {
        let mode = modifier::UP | modifier::BEFORE;
        Address { rn, offset: Offset::Immediate(offset), mode }
    }

    /// The sum of two registers.
    pub fn indexed(rn: u8, rm: u8) -> Address {
        Address { offset: Offset::Register(rm, LSL, 0), ..Address::at(rn, 0) }
    }

    fn up(&self) -> bool {
        self.mode & modifier::UP != 0
    }

    /// Whether the base stays as it is.
    fn is_plain(&self) -> bool {
        let looked_at = modifier::BEFORE | modifier::WRITE_BACK | modifier::USER;
        self.mode & looked_at == modifier::BEFORE
    }

    /// An instruction with this address, in full.
    fn general<K: CacheKind>(&self, handler: Handler<K>) -> Decoded<K> {
        let mut decoded = Decoded::new(handler);
        decoded.operands.modifiers = self.mode;
        decoded.operands.rn = self.rn;
        match self.offset {
            Offset::Immediate(offset) => decoded.operands.immediate = offset,
            Offset::Register(rm, kind, amount) => {
                (decoded.operands.rm, decoded.operands.shift, decoded.operands.rs) =
                    (rm, kind, amount);
                decoded.operands.modifiers |= modifier::REGISTER_OFFSET;
                decoded = decoded.reads(&[rm]);
            }
        }
        decoded.reads(&[self.rn])
    }

    /// The same, with the sign in the immediate.
    fn signed<K: CacheKind>(&self, handler: Handler<K>) -> Decoded<K> {
        let mut decoded = self.general(handler);
        if !self.up() {
            decoded.operands.immediate = decoded.operands.immediate.wrapping_neg();
        }
        decoded
    }
}

/// Handlers of one size of access: with a constant offset, with an added register, with anything.
struct Handlers<K: CacheKind> {
    offset: Handler<K>,
    indexed: Handler<K>,
    general: Handler<K>,
}

impl<K: CacheKind> Handlers<K> {
    const fn of<const LOAD: bool, const BYTE: bool>() -> Handlers<K> {
        Handlers {
            offset: load_store::word_or_byte_offset::<K, LOAD, BYTE>,
            indexed: load_store::word_or_byte_indexed::<K, LOAD, BYTE>,
            general: load_store::word_or_byte_general::<K, LOAD, BYTE>,
        }
    }

    fn decode(&self, rd: u8, address: Address, to_pc: bool) -> Decoded<K> {
        let mut decoded = match address.offset {
            Offset::Immediate(_) if address.is_plain() && !to_pc => address.signed(self.offset),
            Offset::Register(_, LSL, _) if address.is_plain() && address.up() && !to_pc => {
                address.general(self.indexed)
            }
            _ => address.general(self.general),
        };
        decoded.operands.rd = rd;
        decoded
    }
}

/// LDR.
pub fn load_word<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    Handlers::of::<true, false>().decode(rd, address, rd == PC).delivers(rd, timing.load_use_cycles)
}

/// LDRB.
pub fn load_byte<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    Handlers::of::<true, true>()
        .decode(rd, address, rd == PC)
        .delivers(rd, timing.load_narrow_use_cycles)
}

/// STR.
pub fn store_word<K: CacheKind>(_: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    Handlers::of::<false, false>().decode(rd, address, false).reads_later(&[rd])
}

/// STRB.
pub fn store_byte<K: CacheKind>(_: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    Handlers::of::<false, true>().decode(rd, address, false).reads_later(&[rd])
}

/// The loads and stores of addressing mode 3 (A5.3) but LDRD and STRD.
fn extra<K: CacheKind, const KIND: u8>(rd: u8, address: Address) -> Decoded<K> {
    let mut decoded = match address.offset {
        Offset::Immediate(_) if address.is_plain() => {
            address.signed(load_store::extra_offset::<K, KIND>)
        }
        _ => address.general(load_store::extra_general::<K, KIND>),
    };
    decoded.operands.rd = rd;
    decoded
}

/// LDRH.
pub fn load_half<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    extra::<K, LOAD_HALF>(rd, address).delivers(rd, timing.load_narrow_use_cycles)
}

/// LDRSB.
pub fn load_signed_byte<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    extra::<K, LOAD_SIGNED_BYTE>(rd, address).delivers(rd, timing.load_narrow_use_cycles)
}

/// LDRSH.
pub fn load_signed_half<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    extra::<K, LOAD_SIGNED_HALF>(rd, address).delivers(rd, timing.load_narrow_use_cycles)
}

/// STRH.
pub fn store_half<K: CacheKind>(_: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    extra::<K, STORE_HALF>(rd, address).reads_later(&[rd])
}

/// LDRD, whose second register comes last.
pub fn load_double<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    load_pair(timing, (rd, rd + 1), address)
}

/// LDRD of any two registers.
pub fn load_pair<K: CacheKind>(
    timing: &ArmTiming,
    (first, second): (u8, u8),
    address: Address,
) -> Decoded<K> {
    let mut decoded = extra::<K, LOAD_DOUBLE>(first, address);
    decoded.operands.rs = second;
    decoded.takes(timing.double_cycles).delivers(second, timing.load_use_cycles)
}

/// STRD.
pub fn store_double<K: CacheKind>(timing: &ArmTiming, rd: u8, address: Address) -> Decoded<K> {
    store_pair(timing, (rd, rd + 1), address)
}

/// STRD of any two registers.
pub fn store_pair<K: CacheKind>(
    timing: &ArmTiming,
    (first, second): (u8, u8),
    address: Address,
) -> Decoded<K> {
    let mut decoded = extra::<K, STORE_DOUBLE>(first, address);
    decoded.operands.rs = second;
    decoded.takes(timing.double_cycles).reads_later(&[first, second])
}

/// Thumb's load relative to R15, whose bit 1 it ignores.
pub fn load_literal<K: CacheKind>(timing: &ArmTiming, rd: u8, offset: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(load_store::thumb_load_literal);
    (decoded.operands.rd, decoded.operands.immediate) = (rd, offset);
    decoded.delivers(rd, timing.load_use_cycles)
}

/// PLD.
pub fn preload<K: CacheKind>(address: Address) -> Decoded<K> {
    address.general(load_store::preload)
}

fn block<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    rn: u8,
    mode: u8,
    list: u32,
    base_cycles: u8,
) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    let count = list.count_ones() as u8;
    (decoded.operands.rn, decoded.operands.modifiers) = (rn, mode);
    (decoded.operands.immediate, decoded.operands.rs) = (list, count);
    let cycles = (base_cycles + count).max(timing.block_minimum_cycles);
    decoded.reads(&[rn]).takes(cycles)
}

/// LDM; the mode is of [`modifier`]: `UP`, `BEFORE`, `WRITE_BACK`, `USER`.
pub fn load_multiple<K: CacheKind>(timing: &ArmTiming, rn: u8, mode: u8, list: u32) -> Decoded<K> {
    // XScale: 10 + max(0, n - 3) with R15 (IXP45X manual 306262-004, table 82); `load_pc_cycles`
    // has the base.
    let base_cycles = if list >> 15 & 1 != 0 { 0 } else { timing.block_base_cycles };
    let decoded = block(timing, load_store::load_multiple, rn, mode, list, base_cycles);
    // The last register arrives like that of a single load.
    match list {
        0 => decoded,
        _ => decoded.delivers(list.ilog2() as u8, timing.load_use_cycles),
    }
}

/// STM, likewise.
pub fn store_multiple<K: CacheKind>(timing: &ArmTiming, rn: u8, mode: u8, list: u32) -> Decoded<K> {
    let base_cycles = timing.block_base_cycles;
    let mut decoded = block(timing, load_store::store_multiple, rn, mode, list, base_cycles);
    decoded.later_sources = list as u16;
    decoded
}

/// SWP and SWPB.
pub fn swap<K: CacheKind>(
    timing: &ArmTiming,
    byte: bool,
    (rd, rm, rn): (u8, u8, u8),
) -> Decoded<K> {
    let handler = if byte { load_store::swap::<K, true> } else { load_store::swap::<K, false> };
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rm, decoded.operands.rn) = (rd, rm, rn);
    decoded.reads(&[rm, rn]).takes(timing.swap_cycles).delivers(rd, timing.load_use_cycles)
}

// ---- branches -------------------------------------------------------------------------------------

/// B, BL and their like; the offset is from R15.
pub fn branch<K: CacheKind>(handler: Handler<K>, offset: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    decoded.operands.immediate = offset;
    decoded.operands.modifiers = modifier::PREDICTED;
    decoded
}

/// First half of Thumb's BL and BLX.
pub fn link_prefix<K: CacheKind>(offset: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(branch::thumb_link_prefix);
    decoded.operands.immediate = offset;
    decoded
}

/// BX, and BLX with a register.
pub fn branch_exchange<K: CacheKind>(link: bool, rm: u8) -> Decoded<K> {
    let handler =
        if link { branch::branch_exchange::<K, true> } else { branch::branch_exchange::<K, false> };
    let mut decoded = Decoded::new(handler);
    decoded.operands.rm = rm;
    decoded.reads(&[rm])
}

// ---- system ---------------------------------------------------------------------------------------

/// MRS.
pub fn status_read<K: CacheKind>(timing: &ArmTiming, saved: bool, rd: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(system::status_read);
    decoded.operands.rd = rd;
    decoded.operands.modifiers = modifiers(&[(saved, modifier::SAVED)]);
    decoded.takes(timing.status_read_cycles)
}

/// MSR of the bytes in `mask`.
pub fn status_write<K: CacheKind>(
    timing: &ArmTiming,
    saved: bool,
    mask: u8,
    operand: Operand,
) -> Decoded<K> {
    let mut decoded = match operand {
        Operand::Immediate(value, _) => {
            let mut decoded = Decoded::new(system::status_write::<K, IMMEDIATE>);
            decoded.operands.immediate = value;
            decoded
        }
        Operand::Register(rm) | Operand::Shifted(rm, ..) | Operand::ShiftedByRegister(rm, ..) => {
            let mut decoded = Decoded::new(system::status_write::<K, PLAIN>);
            decoded.operands.rm = rm;
            decoded.reads(&[rm])
        }
    };
    decoded.operands.shift = mask;
    decoded.operands.modifiers = modifiers(&[(saved, modifier::SAVED)]);
    let only_flags = mask & 7 == 0;
    decoded.takes(if only_flags { timing.flags_write_cycles } else { timing.status_write_cycles })
}

/// SVC.
pub fn supervisor_call<K: CacheKind>(number: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(system::supervisor_call);
    decoded.operands.immediate = number;
    // Of semihosting.
    decoded.reads_later(&[0, 1])
}

/// BKPT, which no IT block makes conditional (ARM DDI 0406C, A8.8.24).
pub fn breakpoint<K: CacheKind>() -> Decoded<K> {
    let mut decoded = Decoded::new(system::breakpoint);
    decoded.op.in_it = InIt::Unconditional;
    decoded
}

/// MRC.
pub fn coprocessor_read<K: CacheKind>(
    timing: &ArmTiming,
    rd: u8,
    access: CoprocessorAccess,
) -> Decoded<K> {
    let mut decoded = Decoded::new(system::coprocessor_read);
    (decoded.operands.rd, decoded.operands.immediate) = (rd, access.into());
    let of_tlb_data =
        access.coprocessor() == 15 && matches!(access.fields(), (15, 0 | 5..=9, 3, _));
    let tlb_data = timing.tlb_data_read_cycles.filter(|_| of_tlb_data);
    decoded.takes(tlb_data.unwrap_or(timing.coprocessor_read_cycles))
}

/// MCR.
pub fn coprocessor_write<K: CacheKind>(
    timing: &ArmTiming,
    rd: u8,
    access: CoprocessorAccess,
) -> Decoded<K> {
    let mut decoded = Decoded::new(system::coprocessor_write);
    (decoded.operands.rd, decoded.operands.immediate) = (rd, access.into());
    decoded.reads(&[rd]).takes(timing.coprocessor_write_cycles)
}

/// The handler of a 16-bit multiply for the halves that `x` and `y` choose.
macro_rules! halves {
    ($f:ident, $handler:ident) => {
        match ($f.flag(b'x'), $f.flag(b'y')) {
            (false, false) => multiplies::$handler::<K, false, false> as Handler<K>,
            (false, true) => multiplies::$handler::<K, false, true>,
            (true, false) => multiplies::$handler::<K, true, false>,
            (true, true) => multiplies::$handler::<K, true, true>,
        }
    };
    ($f:ident, y, $handler:ident) => {
        if $f.flag(b'y') {
            multiplies::$handler::<K, true> as Handler<K>
        } else {
            multiplies::$handler::<K, false>
        }
    };
}
pub(super) use halves;
