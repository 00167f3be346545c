//! Operations of Advanced SIMD on one operand, and those that move elements (ARM DDI 0406C,
//! A7.4.5).

use super::estimate::{estimate_reciprocal, estimate_root};
use super::float::{HALF, Rounding, SINGLE};
use super::shift::each;
use super::{Vector, VectorRegisters, lane, mask, truth, value, word_of};

/// VREV: `kind` is the base-two logarithm of the bytes that are reversed.
pub fn reverse(r: &mut VectorRegisters, o: Vector) {
    let group = (8u32 << o.kind) / o.bits();
    for register in 0..o.registers() {
        let m = r.d[usize::from(o.m) + register];
        r.d[usize::from(o.d) + register] =
            word_of(o.bits(), |index| lane(m, index ^ (group - 1), o.bits()));
    }
}

/// VPADDL; `kind` 1 adds to the destination (VPADAL).
pub fn pairwise_add_long(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    for register in 0..o.registers() {
        let m = r.d[usize::from(o.m) + register];
        let d = r.d[usize::from(o.d) + register];
        r.d[usize::from(o.d) + register] = word_of(2 * bits, |index| {
            let of = |place| value(lane(m, place, bits), bits, o.unsigned);
            let sum = (of(2 * index) + of(2 * index + 1)) as u64;
            if o.kind == 1 { sum.wrapping_add(lane(d, index, 2 * bits)) } else { sum }
        });
    }
}

macro_rules! by_element {
    ($($(#[$text:meta])* $name:ident = |$r:pat_param, $o:pat_param, $m:pat_param| $result:expr;)*) => {
        $($(#[$text])* pub fn $name(r: &mut VectorRegisters, o: Vector) {
            let $o = o;
            each(r, o, |$r, $m, _| $result);
        })*
    };
}

by_element! {
    /// VCLS.
    count_leading_sign = |_, o, m| {
        let extended = value(m, o.bits(), false) as i64;
        u64::from((extended ^ extended >> 63).leading_zeros()) - u64::from(64 - o.bits()) - 1
    };
    /// VCLZ.
    count_leading_zeros = |_, o, m| u64::from(m.leading_zeros()) - u64::from(64 - o.bits());
    /// VCNT.
    count_ones = |_, _, m| m.count_ones().into();
    /// VMVN.
    not = |_, _, m| !m;
    /// VQABS.
    saturating_absolute = |r, o, m| r.saturated(value(m, o.bits(), false).abs(), o.bits(), false);
    /// VQNEG.
    saturating_negate = |r, o, m| r.saturated(-value(m, o.bits(), false), o.bits(), false);
    /// VCGT, VCGE, VCEQ, VCLE, VCLT with zero, by `kind`.
    compare_with_zero = |_, o, m| {
        let m = value(m, o.bits(), false);
        truth(match o.kind {
            0 => m > 0,
            1 => m >= 0,
            2 => m == 0,
            3 => m <= 0,
            _ => m < 0,
        })
    };
    /// VABS.
    absolute = |_, o, m| value(m, o.bits(), false).unsigned_abs() as u64;
    /// VNEG.
    negate = |_, _, m| m.wrapping_neg();
    /// VABS of floating point.
    float_absolute = |_, _, m| m & !SINGLE.sign_bit();
    /// VNEG of floating point.
    float_negate = |_, _, m| m ^ SINGLE.sign_bit();
    /// VRECPE of integers.
    reciprocal_estimate = |_, _, m| {
        let estimate = if m >> 31 == 0 { 0x1ff } else { estimate_reciprocal(m as u32 >> 23) };
        if m >> 31 == 0 { 0xffff_ffff } else { u64::from(estimate) << 23 }
    };
    /// VRSQRTE of integers.
    root_estimate = |_, _, m| {
        if m >> 30 == 0 { 0xffff_ffff } else { u64::from(estimate_root(m as u32 >> 23)) << 23 }
    };
}

/// VCGT, VCGE, VCEQ, VCLE, VCLT of floating point with zero, by `kind`.
pub fn float_compare_with_zero(r: &mut VectorRegisters, o: Vector) {
    r.standard(|r, e| {
        each(r, o, |_, m, _| {
            let flags = e.compare(m, 0, o.kind != 2, SINGLE);
            truth(match o.kind {
                0 => flags == 0b0010,
                1 => matches!(flags, 0b0010 | 0b0110),
                2 => flags == 0b0110,
                3 => matches!(flags, 0b1000 | 0b0110),
                _ => flags == 0b1000,
            })
        });
    });
}

/// VRECPE; VRSQRTE with `kind` 1.
pub fn float_estimate(r: &mut VectorRegisters, o: Vector) {
    r.standard(|r, e| {
        each(
            r,
            o,
            |_, m, _| {
                if o.kind == 1 { e.root_estimate(m) } else { e.reciprocal_estimate(m) }
            },
        );
    });
}

/// VCVT between floating point and integers; `kind` 1: to integers, rounded towards zero.
pub fn convert_integer(r: &mut VectorRegisters, o: Vector) {
    r.standard(|r, e| {
        each(r, o, |_, m, _| {
            if o.kind == 1 {
                e.rounding = Rounding::Zero;
                e.convert_to_fixed(m, SINGLE, (32, !o.unsigned), 0)
            } else {
                e.convert_from_fixed(value(m, 32, o.unsigned) as i64, 0, SINGLE)
            }
        });
    });
}

/// VCVT from half precision; with `kind` 1, to it.
pub fn convert_half(r: &mut VectorRegisters, o: Vector) {
    let (m, d) = (usize::from(o.m), usize::from(o.d));
    r.standard(|r, e| {
        if o.kind == 1 {
            let words = [r.d[m], r.d[m + 1]];
            r.d[d] = word_of(16, |index| {
                e.convert(lane(words[(index / 2) as usize], index % 2, 32), SINGLE, HALF)
            });
        } else {
            let word = r.d[m];
            for register in 0..2 {
                r.d[d + register] = word_of(32, |index| {
                    e.convert(lane(word, 2 * register as u32 + index, 16), HALF, SINGLE)
                });
            }
        }
    });
}

/// VMOVN; `kind`: 2 saturates, 4 to unsigned (VQMOVN, VQMOVUN).
pub fn move_narrow(r: &mut VectorRegisters, o: Vector) {
    super::shift::right_narrow(r, Vector { amount: 0, ..o });
}

/// VSWP.
pub fn swap(r: &mut VectorRegisters, o: Vector) {
    for register in 0..o.registers() {
        r.d.swap(usize::from(o.d) + register, usize::from(o.m) + register);
    }
}

/// VTRN.
pub fn transpose(r: &mut VectorRegisters, o: Vector) {
    let bits = o.bits();
    for register in 0..o.registers() {
        let (d, m) = (usize::from(o.d) + register, usize::from(o.m) + register);
        let (a, b) = (r.d[d], r.d[m]);
        let pick = |odd: u32| {
            word_of(bits, |index| {
                let word = if index & 1 == 0 { a } else { b };
                lane(word, index & !1 | odd, bits)
            })
        };
        if d == m {
            // QEMU and the manual's order of assignments: both results go to one register.
            r.d[d] = pick(1);
        } else {
            (r.d[d], r.d[m]) = (pick(0), pick(1));
        }
    }
}

/// The elements of both registers in another order: `place` gives where each comes from.
fn permute(r: &mut VectorRegisters, o: Vector, place: impl Fn(u32, u32) -> u32) {
    let (bits, count) = (o.bits(), o.registers());
    let (d, m) = (usize::from(o.d), usize::from(o.m));
    let mut words = [0; 4];
    words[..count].copy_from_slice(&r.d[d..d + count]);
    words[count..2 * count].copy_from_slice(&r.d[m..m + count]);
    let in_word = 64 / bits;
    let elements = in_word * count as u32;
    let mut results = [0; 4];
    for (number, result) in results.iter_mut().enumerate().take(2 * count) {
        *result = word_of(bits, |index| {
            let from = place(number as u32 * in_word + index, elements);
            lane(words[(from / in_word) as usize], from % in_word, bits)
        });
    }
    r.d[d..d + count].copy_from_slice(&results[..count]);
    r.d[m..m + count].copy_from_slice(&results[count..2 * count]);
}

/// VUZP.
pub fn unzip(r: &mut VectorRegisters, o: Vector) {
    permute(
        r,
        o,
        |index, elements| {
            if index < elements { 2 * index } else { 2 * (index - elements) + 1 }
        },
    );
}

/// VZIP.
pub fn zip(r: &mut VectorRegisters, o: Vector) {
    permute(r, o, |index, elements| index / 2 + (index & 1) * elements);
}

/// VEXT: from byte `amount` of the two operands, one behind the other.
pub fn extract(r: &mut VectorRegisters, o: Vector) {
    let count = o.registers();
    let mut bytes = [0; 32];
    for register in 0..count {
        let (n, m) = (r.d[usize::from(o.n) + register], r.d[usize::from(o.m) + register]);
        bytes[8 * register..][..8].copy_from_slice(&n.to_le_bytes());
        bytes[8 * (count + register)..][..8].copy_from_slice(&m.to_le_bytes());
    }
    for register in 0..count {
        let first = usize::from(o.amount) + 8 * register;
        r.d[usize::from(o.d) + register] = word_of(8, |index| bytes[first + index as usize].into());
    }
}

/// VTBL; with `kind` 1 elements whose index is not in the table stay (VTBX). `amount` registers
/// from `n`.
pub fn table(r: &mut VectorRegisters, o: Vector) {
    let (m, d) = (r.d[usize::from(o.m)], r.d[usize::from(o.d)]);
    let result = word_of(8, |index| {
        let wanted = lane(m, index, 8) as u32;
        if wanted < 8 * u32::from(o.amount) {
            // A list that runs over the last register is unpredictable.
            lane(r.d[(usize::from(o.n) + wanted as usize / 8) & 31], wanted % 8, 8)
        } else if o.kind == 1 {
            lane(d, index, 8)
        } else {
            0
        }
    });
    r.d[usize::from(o.d)] = result;
}

/// VDUP of an element.
pub fn duplicate(r: &mut VectorRegisters, o: Vector) {
    let element = lane(r.d[usize::from(o.m)], o.amount.into(), o.bits());
    fill(r, o, element);
}

/// All elements of the destination get a value.
pub fn fill(r: &mut VectorRegisters, o: Vector, element: u64) {
    for register in 0..o.registers() {
        r.d[usize::from(o.d) + register] = word_of(o.bits(), |_| element & mask(o.bits()));
    }
}
