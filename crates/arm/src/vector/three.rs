//! Operations of Advanced SIMD on two operands (ARM DDI 0406C, A7.4.1 to A7.4.3).

use super::float::{Environment, SINGLE};
use super::{Vector, VectorRegisters, lane, mask, truth, value, word_of};

/// The second operand of an element.
fn second(r: &VectorRegisters, o: Vector, register: usize, index: u32) -> u64 {
    if o.by_scalar {
        lane(r.d[usize::from(o.m)], o.amount.into(), o.bits())
    } else {
        lane(r.d[usize::from(o.m) + register], index, o.bits())
    }
}

/// Element by element: the function gets both operands and the destination.
fn each(
    r: &mut VectorRegisters,
    o: Vector,
    mut f: impl FnMut(&mut VectorRegisters, u64, u64, u64) -> u64,
) {
    let bits = o.bits();
    let mut results = [0; 2];
    for (register, result) in results.iter_mut().enumerate().take(o.registers()) {
        let (n, d) = (r.d[usize::from(o.n) + register], r.d[usize::from(o.d) + register]);
        *result = word_of(bits, |index| {
            let b = second(r, o, register, index);
            f(r, lane(n, index, bits), b, lane(d, index, bits))
        });
    }
    let first = usize::from(o.d);
    r.d[first..first + o.registers()].copy_from_slice(&results[..o.registers()]);
}

/// The same with values.
fn each_value(
    r: &mut VectorRegisters,
    o: Vector,
    mut f: impl FnMut(&mut VectorRegisters, i128, i128, i128) -> i128,
) {
    let of = |element| value(element, o.bits(), o.unsigned);
    each(r, o, |r, a, b, d| f(r, of(a), of(b), of(d)) as u64);
}

macro_rules! by_value {
    ($($(#[$text:meta])* $name:ident = |$r:pat_param, $o:pat_param, $a:pat_param, $b:pat_param, $d:pat_param| $result:expr;)*) => {
        $($(#[$text])* pub fn $name(r: &mut VectorRegisters, o: Vector) {
            let $o = o;
            each_value(r, o, |$r, $a, $b, $d| $result);
        })*
    };
}

fn truth_value(holds: bool) -> i128 {
    if holds { -1 } else { 0 }
}

/// A product without carries.
fn polynomial(a: u64, b: u64, bits: u32) -> u64 {
    (0..bits).filter(|&bit| b >> bit & 1 != 0).fold(0, |product, bit| product ^ a << bit)
}

/// The upper half of a doubled product.
fn doubled_high(r: &mut VectorRegisters, a: i128, b: i128, bits: u32, round: bool) -> i128 {
    let round = if round { 1 << (bits - 1) } else { 0 };
    let high = (2 * a * b + round) >> bits;
    i128::from(r.saturated(high, bits, false))
}

by_value! {
    /// VHADD.
    halving_add = |_, _, a, b, _| (a + b) >> 1;
    /// VRHADD.
    rounding_halving_add = |_, _, a, b, _| (a + b + 1) >> 1;
    /// VHSUB.
    halving_subtract = |_, _, a, b, _| (a - b) >> 1;
    /// VQADD.
    saturating_add = |r, o, a, b, _| r.saturated(a + b, o.bits(), o.unsigned).into();
    /// VQSUB.
    saturating_subtract = |r, o, a, b, _| r.saturated(a - b, o.bits(), o.unsigned).into();
    /// VCGT.
    greater = |_, _, a, b, _| truth_value(a > b);
    /// VCGE.
    greater_or_equal = |_, _, a, b, _| truth_value(a >= b);
    /// VMAX.
    maximum = |_, _, a, b, _| a.max(b);
    /// VMIN.
    minimum = |_, _, a, b, _| a.min(b);
    /// VABD.
    absolute_difference = |_, _, a, b, _| (a - b).abs();
    /// VABA.
    add_absolute_difference = |_, _, a, b, d| d + (a - b).abs();
    /// VADD.
    add = |_, _, a, b, _| a + b;
    /// VSUB.
    subtract = |_, _, a, b, _| a - b;
    /// VTST.
    test = |_, _, a, b, _| truth_value(a & b != 0);
    /// VCEQ.
    equal = |_, _, a, b, _| truth_value(a == b);
    /// VMLA.
    multiply_add = |_, _, a, b, d| d + a * b;
    /// VMLS.
    multiply_subtract = |_, _, a, b, d| d - a * b;
    /// VMUL.
    multiply = |_, _, a, b, _| a * b;
    /// VQDMULH.
    doubling_multiply_high = |r, o, a, b, _| doubled_high(r, a, b, o.bits(), false);
    /// VQRDMULH.
    rounding_doubling_multiply_high = |r, o, a, b, _| doubled_high(r, a, b, o.bits(), true);
    /// VAND.
    and = |_, _, a, b, _| a & b;
    /// VBIC.
    bit_clear = |_, _, a, b, _| a & !b;
    /// VORR.
    or = |_, _, a, b, _| a | b;
    /// VORN.
    or_not = |_, _, a, b, _| a | !b;
    /// VEOR.
    exclusive_or = |_, _, a, b, _| a ^ b;
    /// VBSL.
    bitwise_select = |_, _, a, b, d| a & d | b & !d;
    /// VBIT.
    insert_if_true = |_, _, a, b, d| a & b | d & !b;
    /// VBIF.
    insert_if_false = |_, _, a, b, d| a & !b | d & b;
}

/// VMUL of polynomials.
pub fn multiply_polynomials(r: &mut VectorRegisters, o: Vector) {
    each(r, o, |_, a, b, _| polynomial(a, b, 8));
}

/// Shifts a value left, or right for a negative amount, which may be rounded.
pub(super) fn shifted(value: i128, amount: i32, round: bool) -> i128 {
    if amount >= 0 {
        // No element has more than 64 bits, and all of them are gone beyond that.
        return if amount > 63 {
            if value == 0 { 0 } else { value.signum() << 100 }
        } else {
            value << amount
        };
    }
    let right = (-amount).min(100);
    let half = if round { 1 << (right - 1) } else { 0 };
    (value + half) >> right
}

/// VSHL, VRSHL, VQSHL, VQRSHL: the first operand has the amounts. `kind`: 1 rounds, 2 saturates.
pub fn shift(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    each(r, o, |r, amount, element, _| {
        let amount = i32::from(amount as i8);
        let result = shifted(value(element, bits, o.unsigned), amount, o.kind & 1 != 0);
        if o.kind & 2 != 0 {
            r.saturated(result, bits, o.unsigned)
        } else if amount >= bits as i32 {
            0
        } else {
            result as u64
        }
    });
}

/// Pairs of neighbours: first those of the first operand.
fn pairs(
    r: &mut VectorRegisters,
    o: Vector,
    mut f: impl FnMut(&mut VectorRegisters, u64, u64) -> u64,
) {
    let bits = o.bits();
    let half = 32 / bits;
    let (n, m) = (r.d[usize::from(o.n)], r.d[usize::from(o.m)]);
    let result = word_of(bits, |index| {
        let (word, pair) = if index < half { (n, index) } else { (m, index - half) };
        f(r, lane(word, 2 * pair, bits), lane(word, 2 * pair + 1, bits))
    });
    r.d[usize::from(o.d)] = result;
}

/// VPMAX, and VPMIN with `kind` 1.
pub fn pairwise_extreme(r: &mut VectorRegisters, o: Vector) {
    let of = |element| value(element, o.bits(), o.unsigned);
    pairs(r, o, |_, a, b| if (of(a) > of(b)) == (o.kind == 0) { a } else { b });
}

/// VPADD.
pub fn pairwise_add(r: &mut VectorRegisters, o: Vector) {
    pairs(r, o, |_, a, b| a.wrapping_add(b));
}

// ---- Operands and results of different lengths ------------------------------------------------------

/// Results twice as long as the second operand, and as the first unless `wide`; the function gets
/// the destination too.
fn long(
    r: &mut VectorRegisters,
    o: Vector,
    wide: bool,
    mut f: impl FnMut(&mut VectorRegisters, i128, i128, i128) -> i128,
) {
    let bits = o.bits();
    let (n, d) = (usize::from(o.n), usize::from(o.d));
    let mut results = [0; 2];
    for (register, result) in results.iter_mut().enumerate() {
        *result = word_of(2 * bits, |index| {
            let place = register as u32 * (32 / bits) + index;
            let a = if wide {
                value(lane(r.d[n + register], index, 2 * bits), 2 * bits, o.unsigned)
            } else {
                value(lane(r.d[n], place, bits), bits, o.unsigned)
            };
            let b = value(second(r, o, 0, place), bits, o.unsigned);
            let old = value(lane(r.d[d + register], index, 2 * bits), 2 * bits, o.unsigned);
            f(r, a, b, old) as u64
        });
    }
    r.d[d..d + 2].copy_from_slice(&results);
}

/// VADDL, VADDW (`kind` 1).
pub fn add_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, o.kind & 1 != 0, |_, a, b, _| a + b);
}

/// VSUBL, VSUBW (`kind` 1).
pub fn subtract_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, o.kind & 1 != 0, |_, a, b, _| a - b);
}

/// VABDL.
pub fn absolute_difference_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, false, |_, a, b, _| (a - b).abs());
}

/// VABAL.
pub fn add_absolute_difference_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, false, |_, a, b, d| d + (a - b).abs());
}

/// VMULL.
pub fn multiply_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, false, |_, a, b, _| a * b);
}

/// VMLAL.
pub fn multiply_add_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, false, |_, a, b, d| d + a * b);
}

/// VMLSL.
pub fn multiply_subtract_long(r: &mut VectorRegisters, o: Vector) {
    long(r, o, false, |_, a, b, d| d - a * b);
}

/// VMULL of polynomials.
pub fn multiply_polynomials_long(r: &mut VectorRegisters, o: Vector) {
    let o = Vector { unsigned: true, ..o };
    long(r, o, false, |_, a, b, _| polynomial(a as u64, b as u64, 8).into());
}

/// VQDMULL; VQDMLAL with `kind` 1, VQDMLSL with 2.
pub fn doubling_multiply_long(r: &mut VectorRegisters, o: Vector) {
    let bits = 2 * o.bits();
    long(r, o, false, |r, a, b, d| {
        let product = value(r.saturated(2 * a * b, bits, false), bits, false);
        match o.kind {
            0 => product,
            1 => r.saturated(d + product, bits, false).into(),
            _ => r.saturated(d - product, bits, false).into(),
        }
    });
}

/// VADDHN; `kind`: 1 rounds (VRADDHN), 2 subtracts (VSUBHN, VRSUBHN).
pub fn add_high_narrow(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    let (n, m) = (usize::from(o.n), usize::from(o.m));
    let round = if o.kind & 1 != 0 { 1 << (bits - 1) } else { 0 };
    let result = word_of(bits, |index| {
        let (register, place) = ((index / (32 / bits)) as usize, index % (32 / bits));
        let a = lane(r.d[n + register], place, 2 * bits);
        let b = lane(r.d[m + register], place, 2 * bits);
        let sum = if o.kind & 2 != 0 { a.wrapping_sub(b) } else { a.wrapping_add(b) };
        (sum.wrapping_add(round) & mask(2 * bits)) >> bits
    });
    r.d[usize::from(o.d)] = result;
}

// ---- Floating point -----------------------------------------------------------------------------------

fn each_float(
    r: &mut VectorRegisters,
    o: Vector,
    mut f: impl FnMut(&mut Environment, u64, u64, u64) -> u64,
) {
    let o = Vector { size: 2, ..o };
    r.standard(|r, environment| each(r, o, |_, a, b, d| f(environment, a, b, d)));
}

const SIGN: u64 = SINGLE.sign_bit();

macro_rules! by_float {
    ($($(#[$text:meta])* $name:ident = |$e:pat_param, $a:pat_param, $b:pat_param, $d:pat_param| $result:expr;)*) => {
        $($(#[$text])* pub fn $name(r: &mut VectorRegisters, o: Vector) {
            each_float(r, o, |$e, $a, $b, $d| $result);
        })*
    };
}

by_float! {
    /// VADD.
    float_add = |e, a, b, _| e.add(a, b, SINGLE);
    /// VSUB.
    float_subtract = |e, a, b, _| e.subtract(a, b, SINGLE);
    /// VABD.
    float_absolute_difference = |e, a, b, _| e.subtract(a, b, SINGLE) & !SIGN;
    /// VMUL.
    float_multiply = |e, a, b, _| e.multiply(a, b, SINGLE);
    /// VMLA.
    float_multiply_add = |e, a, b, d| {
        let product = e.multiply(a, b, SINGLE);
        e.add(d, product, SINGLE)
    };
    /// VMLS.
    float_multiply_subtract = |e, a, b, d| {
        let product = e.multiply(a, b, SINGLE);
        e.add(d, product ^ SIGN, SINGLE)
    };
    /// VFMA.
    float_fused_add = |e, a, b, d| e.multiply_add(d, a, b, SINGLE);
    /// VFMS.
    float_fused_subtract = |e, a, b, d| e.multiply_add(d, a ^ SIGN, b, SINGLE);
    /// VCEQ.
    float_equal = |e, a, b, _| truth(e.compare(a, b, false, SINGLE) == 0b0110);
    /// VCGE.
    float_greater_or_equal = |e, a, b, _| truth(matches!(e.compare(a, b, true, SINGLE), 0b0110 | 0b0010));
    /// VCGT.
    float_greater = |e, a, b, _| truth(e.compare(a, b, true, SINGLE) == 0b0010);
    /// VACGE.
    float_absolute_greater_or_equal = |e, a, b, _| {
        truth(matches!(e.compare(a & !SIGN, b & !SIGN, true, SINGLE), 0b0110 | 0b0010))
    };
    /// VACGT.
    float_absolute_greater = |e, a, b, _| {
        truth(e.compare(a & !SIGN, b & !SIGN, true, SINGLE) == 0b0010)
    };
    /// VMAX.
    float_maximum = |e, a, b, _| e.extreme(a, b, true, SINGLE);
    /// VMIN.
    float_minimum = |e, a, b, _| e.extreme(a, b, false, SINGLE);
    /// VRECPS.
    reciprocal_step = |e, a, b, _| e.reciprocal_step(a, b);
    /// VRSQRTS.
    root_step = |e, a, b, _| e.root_step(a, b);
}

/// VPADD; VPMAX with `kind` 1, VPMIN with 2.
pub fn float_pairwise(r: &mut VectorRegisters, o: Vector) {
    let o = Vector { size: 2, ..o };
    r.standard(|r, e| {
        pairs(r, o, |_, a, b| match o.kind {
            0 => e.add(a, b, SINGLE),
            1 => e.extreme(a, b, true, SINGLE),
            _ => e.extreme(a, b, false, SINGLE),
        });
    });
}
