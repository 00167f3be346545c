//! Data processing: arithmetic, logic, shifts, comparisons (ARM DDI 0100, A3.4 and A5.1).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};
use crate::isa::op::{PackedOperands, modifier};
use mmulab_system::core::Flow;

/// The operations by their encoding (A3.4).
pub const AND: u8 = 0;
/// Exclusive or.
pub const EOR: u8 = 1;
/// Subtract.
pub const SUB: u8 = 2;
/// Reverse subtract.
pub const RSB: u8 = 3;
/// Add.
pub const ADD: u8 = 4;
/// Add with carry.
pub const ADC: u8 = 5;
/// Subtract with carry.
pub const SBC: u8 = 6;
/// Reverse subtract with carry.
pub const RSC: u8 = 7;
/// Test.
pub const TST: u8 = 8;
/// Test equivalence.
pub const TEQ: u8 = 9;
/// Compare.
pub const CMP: u8 = 10;
/// Compare negated.
pub const CMN: u8 = 11;
/// Or.
pub const ORR: u8 = 12;
/// Move.
pub const MOV: u8 = 13;
/// Bit clear.
pub const BIC: u8 = 14;
/// Move negated.
pub const MVN: u8 = 15;
/// Or with the complement: not an encoding of ARM, an operation of 32-bit Thumb (ARM DDI 0406C,
/// A8.8.120).
pub const ORN: u8 = 16;

/// Second operand is an immediate.
pub const IMMEDIATE: u8 = 0;
/// Second operand is a register as it is.
pub const PLAIN: u8 = 1;
/// Second operand is a register shifted by a constant.
pub const SHIFTED: u8 = 2;
/// Second operand is a register shifted by a register.
pub const SHIFTED_BY_REGISTER: u8 = 3;

/// A shift by a constant, with the shifter's carry (A5.1). Amount 0 encodes the special cases.
#[inline(always)]
pub(super) fn shift_by_constant(value: u32, kind: u8, amount: u8, carry: u32) -> (u32, u32) {
    let amount = u32::from(amount);
    match (kind, amount) {
        (0, 0) => (value, carry),
        (0, _) => (value << amount, value >> (32 - amount) & 1),
        (1, 0) => (0, value >> 31),
        (1, _) => (value >> amount, value >> (amount - 1) & 1),
        (2, 0) => ((value as i32 >> 31) as u32, value >> 31),
        (2, _) => ((value as i32 >> amount) as u32, value >> (amount - 1) & 1),
        (_, 0) => (carry << 31 | value >> 1, value & 1),
        (_, _) => (value.rotate_right(amount), value >> (amount - 1) & 1),
    }
}

/// A shift by the low byte of a register (A5.1).
#[inline(always)]
fn shift_by_register(value: u32, kind: u8, amount: u32, carry: u32) -> (u32, u32) {
    let amount = amount & 0xff;
    if amount == 0 {
        return (value, carry);
    }
    match (kind, amount) {
        (0, 1..=31) => (value << amount, value >> (32 - amount) & 1),
        (0, 32) => (0, value & 1),
        (0, _) => (0, 0),
        (1, 1..=31) => (value >> amount, value >> (amount - 1) & 1),
        (1, 32) => (0, value >> 31),
        (1, _) => (0, 0),
        (2, 1..=31) => ((value as i32 >> amount) as u32, value >> (amount - 1) & 1),
        (2, _) => ((value as i32 >> 31) as u32, value >> 31),
        (_, _) => {
            let rotated = value.rotate_right(amount & 31);
            (rotated, rotated >> 31)
        }
    }
}

/// The second operand and the shifter's carry.
#[inline(always)]
fn second_operand<K: CacheKind, const FORM: u8>(cpu: &Cpu<K>, op: PackedOperands) -> (u32, u32) {
    match FORM {
        IMMEDIATE => {
            let carry = if op.shift() == 2 { cpu.carry() } else { u32::from(op.shift()) };
            (op.immediate, carry)
        }
        PLAIN => (cpu.register(op.rm()), cpu.carry()),
        SHIFTED => shift_by_constant(cpu.register(op.rm()), op.shift(), op.rs(), cpu.carry()),
        _ => {
            // The register read takes a cycle, after which R15 reads as the address plus 12.
            let value = cpu.register(op.rm()).wrapping_add(if op.rm() == 15 { 4 } else { 0 });
            shift_by_register(value, op.shift(), cpu.register(op.rs()), cpu.carry())
        }
    }
}

#[inline(always)]
fn compute<K: CacheKind, const OPERATION: u8, const FLAGS: bool>(
    cpu: &mut Cpu<K>,
    a: u32,
    b: u32,
    shifter_carry: u32,
) -> u32 {
    let carry = cpu.carry();
    if FLAGS {
        match OPERATION {
            SUB | CMP => cpu.add_with_flags(a, !b, 1),
            RSB => cpu.add_with_flags(b, !a, 1),
            ADD | CMN => cpu.add_with_flags(a, b, 0),
            ADC => cpu.add_with_flags(a, b, carry),
            SBC => cpu.add_with_flags(a, !b, carry),
            RSC => cpu.add_with_flags(b, !a, carry),
            _ => {
                let result = logical::<OPERATION>(a, b);
                cpu.set_logical_flags(result, shifter_carry);
                result
            }
        }
    } else {
        match OPERATION {
            SUB => a.wrapping_sub(b),
            RSB => b.wrapping_sub(a),
            ADD => a.wrapping_add(b),
            ADC => a.wrapping_add(b).wrapping_add(carry),
            SBC => a.wrapping_sub(b).wrapping_sub(1 - carry),
            RSC => b.wrapping_sub(a).wrapping_sub(1 - carry),
            _ => logical::<OPERATION>(a, b),
        }
    }
}

#[inline(always)]
fn logical<const OPERATION: u8>(a: u32, b: u32) -> u32 {
    match OPERATION {
        AND | TST => a & b,
        EOR | TEQ => a ^ b,
        ORR => a | b,
        MOV => b,
        BIC => a & !b,
        ORN => a | !b,
        _ => !b,
    }
}

/// Data processing (A3.4) that does not write R15.
pub fn data_processing<K: CacheKind, const OPERATION: u8, const FLAGS: bool, const FORM: u8>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (b, shifter_carry) = second_operand::<K, FORM>(cpu, op);
    let mut a = cpu.register(op.rn());
    if FORM == SHIFTED_BY_REGISTER && op.rn() == 15 {
        a = a.wrapping_add(4);
    }
    let result = compute::<K, OPERATION, FLAGS>(cpu, a, b, shifter_carry);
    if !matches!(OPERATION, TST | TEQ | CMP | CMN) {
        cpu.set_register(op.rd(), result);
    }
    Flow::Next
}

/// Data processing that writes R15: a branch, or with S a return from an exception.
pub fn data_processing_to_pc<K: CacheKind, const OPERATION: u8, const FORM: u8>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (b, _) = second_operand::<K, FORM>(cpu, op);
    let mut a = cpu.register(op.rn());
    if FORM == SHIFTED_BY_REGISTER && op.rn() == 15 {
        a = a.wrapping_add(4);
    }
    let result = compute::<K, OPERATION, false>(cpu, a, b, 0);
    cpu.written_pc();
    if op.is(modifier::FLAGS) {
        cpu.return_from_exception(result)
    } else {
        cpu.branch_computed(result)
    }
}

/// ADD Rd, PC, #immediate in Thumb state.
pub fn thumb_add_to_pc<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let value = (cpu.registers[15] & !3).wrapping_add(op.immediate);
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// CLZ.
pub fn count_leading_zeros<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let zeros = cpu.register(op.rm()).leading_zeros();
    cpu.set_register(op.rd(), zeros);
    Flow::Next
}
