//! Shifts of Advanced SIMD by a constant, modified immediates, and conversions with fixed point
//! (ARM DDI 0406C, A7.4.4 and A7.4.6).

use super::float::SINGLE;
use super::three::shifted;
use super::{Vector, VectorRegisters, lane, mask, value, word_of};

/// Element by element: the function gets the operand and the destination.
pub(super) fn each(
    r: &mut VectorRegisters,
    o: Vector,
    mut f: impl FnMut(&mut VectorRegisters, u64, u64) -> u64,
) {
    let bits = o.bits();
    for register in 0..o.registers() {
        let (m, d) = (r.d[usize::from(o.m) + register], r.d[usize::from(o.d) + register]);
        let result = word_of(bits, |index| f(r, lane(m, index, bits), lane(d, index, bits)));
        r.d[usize::from(o.d) + register] = result;
    }
}

/// VSHR; `kind`: 1 rounds (VRSHR), 2 adds to the destination (VSRA, VRSRA).
pub fn right(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |_, m, d| {
        let result = shifted(value(m, o.bits(), o.unsigned), -i32::from(o.amount), o.kind & 1 != 0);
        if o.kind & 2 != 0 { d.wrapping_add(result as u64) } else { result as u64 }
    });
}

/// VSHL.
pub fn left(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |_, m, _| m << o.amount);
}

/// VSRI: the upper bits of the destination stay.
pub fn right_insert(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |_, m, d| {
        let kept = mask(o.bits()).checked_shr(o.amount.into()).unwrap_or(0);
        d & !kept | m.checked_shr(o.amount.into()).unwrap_or(0)
    });
}

/// VSLI: the lower bits stay.
pub fn left_insert(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |_, m, d| m << o.amount | d & !(!0 << o.amount));
}

/// VQSHL; `kind` 1: VQSHLU, from signed to unsigned.
pub fn saturating_left(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |r, m, _| {
        let result = value(m, o.bits(), o.unsigned) << o.amount;
        r.saturated(result, o.bits(), o.unsigned || o.kind == 1)
    });
}

/// VSHRN; `kind`: 1 rounds, 2 saturates, 4 to unsigned. Elements of the operand are twice as long.
pub fn right_narrow(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    let words = [r.d[usize::from(o.m)], r.d[usize::from(o.m) + 1]];
    let result = word_of(bits, |index| {
        let half = 32 / bits;
        let element = lane(words[(index / half) as usize], index % half, 2 * bits);
        let result =
            shifted(value(element, 2 * bits, o.unsigned), -i32::from(o.amount), o.kind & 1 != 0);
        if o.kind & 2 != 0 {
            r.saturated(result, bits, o.unsigned || o.kind & 4 != 0)
        } else {
            result as u64
        }
    });
    r.d[usize::from(o.d)] = result;
}

/// VSHLL, and VMOVL with an amount of 0. Elements of the result are twice as long.
pub fn left_long(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    let m = r.d[usize::from(o.m)];
    for register in 0..2 {
        r.d[usize::from(o.d) + register] = word_of(2 * bits, |index| {
            let element = lane(m, register as u32 * (32 / bits) + index, bits);
            (value(element, bits, o.unsigned) << o.amount) as u64
        });
    }
}

/// VCVT between floating and fixed point; `kind` 1: to fixed point, which rounds towards zero.
pub fn convert_fixed(r: &mut VectorRegisters, o: Vector) {
    let o = Vector { size: 2, ..o };
    r.standard(|r, e| {
        each(r, o, |_, m, _| {
            if o.kind == 1 {
                e.rounding = super::float::Rounding::Zero;
                e.convert_to_fixed(m, SINGLE, (32, !o.unsigned), o.amount.into())
            } else {
                e.convert_from_fixed(value(m, 32, o.unsigned) as i64, o.amount.into(), SINGLE)
            }
        });
    });
}

/// The 64 bits of an immediate (A7.4.6): eight bits, and how they are laid out.
pub fn expanded(cmode: u8, op: bool, bits: u8) -> u64 {
    let byte = u64::from(bits);
    let twice = |word: u64| word << 32 | word;
    let four_times = |half: u64| twice(half << 16 | half);
    match (cmode, op) {
        (0..=7, _) => twice(byte << (8 * (cmode >> 1))),
        (8..=11, _) => four_times(byte << (8 * (cmode >> 1 & 1))),
        (12, _) => twice(byte << 8 | 0xff),
        (13, _) => twice(byte << 16 | 0xffff),
        (14, false) => four_times(byte << 8 | byte),
        (14, true) => (0..8)
            .fold(0, |word, bit| word | if byte >> bit & 1 != 0 { 0xff << (8 * bit) } else { 0 }),
        _ => twice(u64::from(expanded_single(bits))),
    }
}

/// A floating-point constant of 32 bits (A7.5.1).
pub fn expanded_single(bits: u8) -> u32 {
    let bits = u32::from(bits);
    let exponent = if bits >> 6 & 1 != 0 { 0x1f << 25 } else { 1 << 30 };
    bits >> 7 << 31 | exponent | (bits & 0x3f) << 19
}

/// Of 64 bits.
pub fn expanded_double(bits: u8) -> u64 {
    let bits = u64::from(bits);
    let exponent = if bits >> 6 & 1 != 0 { 0xff << 54 } else { 1 << 62 };
    bits >> 7 << 63 | exponent | (bits & 0x3f) << 48
}

/// VMOV, VMVN, VORR, VBIC with an immediate; `n` has cmode, `unsigned` op.
pub fn immediate(r: &mut VectorRegisters, o: Vector) {
    let immediate = expanded(o.n, o.unsigned, o.amount);
    let first = usize::from(o.d);
    for d in &mut r.d[first..first + o.registers()] {
        *d = match (o.n, o.unsigned) {
            (0..=11, false) if o.n & 1 != 0 => *d | immediate,
            (0..=11, true) if o.n & 1 != 0 => *d & !immediate,
            (0..=13, true) => !immediate,
            _ => immediate,
        };
    }
}
