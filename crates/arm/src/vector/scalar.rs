//! Data processing of VFP on single numbers (ARM DDI 0406C, A7.5). `size` is 2 for single precision
//! and 3 for double; registers are numbered in that precision.

use super::float::{DOUBLE, Environment, Format, HALF, Rounding, SINGLE};
use super::shift::{expanded_double, expanded_single};
use super::{Vector, VectorRegisters};

fn format(o: Vector) -> Format {
    if o.size == 3 { DOUBLE } else { SINGLE }
}

fn read(r: &VectorRegisters, number: u8, double: bool) -> u64 {
    if double { r.d[usize::from(number)] } else { r.single(number).into() }
}

fn write(r: &mut VectorRegisters, number: u8, double: bool, value: u64) {
    if double {
        r.d[usize::from(number)] = value;
    } else {
        r.set_single(number, value as u32);
    }
}

/// Arithmetic in the modes of FPSCR.
fn with_modes<T>(r: &mut VectorRegisters, work: impl FnOnce(&mut Environment) -> T) -> T {
    let mut environment = Environment::of(r.fpscr);
    let result = work(&mut environment);
    r.fpscr |= environment.raised;
    result
}

/// The function gets the modes, the format, both operands and the destination.
fn calculate(
    r: &mut VectorRegisters,
    o: Vector,
    f: impl FnOnce(&mut Environment, Format, u64, u64, u64) -> u64,
) {
    let double = o.size == 3;
    let [n, m, d] = [o.n, o.m, o.d].map(|number| read(r, number, double));
    let result = with_modes(r, |e| f(e, format(o), n, m, d));
    write(r, o.d, double, result);
}

macro_rules! operations {
    ($($(#[$text:meta])* $name:ident = |$e:pat_param, $f:pat_param, $n:pat_param, $m:pat_param, $d:pat_param| $result:expr;)*) => {
        $($(#[$text])* pub fn $name(r: &mut VectorRegisters, o: Vector) {
            calculate(r, o, |$e, $f, $n, $m, $d| $result);
        })*
    };
}

operations! {
    /// VMLA.
    multiply_add = |e, f, n, m, d| {
        let product = e.multiply(n, m, f);
        e.add(d, product, f)
    };
    /// VMLS.
    multiply_subtract = |e, f, n, m, d| {
        let product = e.multiply(n, m, f);
        e.add(d, product ^ f.sign_bit(), f)
    };
    /// VNMLA.
    negated_multiply_add = |e, f, n, m, d| {
        let product = e.multiply(n, m, f);
        e.add(d ^ f.sign_bit(), product ^ f.sign_bit(), f)
    };
    /// VNMLS.
    negated_multiply_subtract = |e, f, n, m, d| {
        let product = e.multiply(n, m, f);
        e.add(d ^ f.sign_bit(), product, f)
    };
    /// VMUL.
    multiply = |e, f, n, m, _| e.multiply(n, m, f);
    /// VNMUL.
    negated_multiply = |e, f, n, m, _| e.multiply(n, m, f) ^ f.sign_bit();
    /// VADD.
    add = |e, f, n, m, _| e.add(n, m, f);
    /// VSUB.
    subtract = |e, f, n, m, _| e.subtract(n, m, f);
    /// VDIV.
    divide = |e, f, n, m, _| e.divide(n, m, f);
    /// VFMA.
    fused_add = |e, f, n, m, d| e.multiply_add(d, n, m, f);
    /// VFMS.
    fused_subtract = |e, f, n, m, d| e.multiply_add(d, n ^ f.sign_bit(), m, f);
    /// VFNMA.
    negated_fused_add = |e, f, n, m, d| e.multiply_add(d ^ f.sign_bit(), n ^ f.sign_bit(), m, f);
    /// VFNMS.
    negated_fused_subtract = |e, f, n, m, d| e.multiply_add(d ^ f.sign_bit(), n, m, f);
    /// VABS.
    absolute = |_, f, _, m, _| m & !f.sign_bit();
    /// VNEG.
    negate = |_, f, _, m, _| m ^ f.sign_bit();
    /// VMOV between registers.
    copy = |_, _, _, m, _| m;
    /// VSQRT.
    square_root = |e, f, _, m, _| e.square_root(m, f);
}

/// VMOV of an immediate.
pub fn immediate(r: &mut VectorRegisters, o: Vector) {
    let value =
        if o.size == 3 { expanded_double(o.amount) } else { expanded_single(o.amount).into() };
    write(r, o.d, o.size == 3, value);
}

/// VCMP and VCMPE; `kind`: 1 signals quiet NaNs, 2 compares with zero.
pub fn compare(r: &mut VectorRegisters, o: Vector) {
    let double = o.size == 3;
    let d = read(r, o.d, double);
    let m = if o.kind & 2 != 0 { 0 } else { read(r, o.m, double) };
    let flags = with_modes(r, |e| e.compare(d, m, o.kind & 1 != 0, format(o)));
    r.fpscr = r.fpscr & 0x0fff_ffff | flags << 28;
}

/// VCVT between double and single precision; `size` is that of the operand.
pub fn convert_precision(r: &mut VectorRegisters, o: Vector) {
    let double = o.size == 3;
    let m = read(r, o.m, double);
    let to = if double { SINGLE } else { DOUBLE };
    let result = with_modes(r, |e| e.convert(m, format(o), to));
    write(r, o.d, !double, result);
}

/// VCVTB and VCVTT; `kind`: 1 the upper half, 2 to half precision.
pub fn convert_half(r: &mut VectorRegisters, o: Vector) {
    let shift = 16 * (o.kind & 1);
    let m = r.single(o.m);
    let result = if o.kind & 2 != 0 {
        let half = with_modes(r, |e| e.convert(m.into(), SINGLE, HALF)) as u32;
        r.single(o.d) & !(0xffff << shift) | half << shift
    } else {
        let half = u64::from(m >> shift & 0xffff);
        with_modes(r, |e| e.convert(half, HALF, SINGLE)) as u32
    };
    r.set_single(o.d, result);
}

/// VCVT to an integer in a single register; `kind` 1 rounds as FPSCR says (VCVTR), not towards
/// zero.
pub fn to_integer(r: &mut VectorRegisters, o: Vector) {
    let m = read(r, o.m, o.size == 3);
    let result = with_modes(r, |e| {
        if o.kind == 0 {
            e.rounding = Rounding::Zero;
        }
        e.convert_to_fixed(m, format(o), (32, !o.unsigned), 0)
    });
    r.set_single(o.d, result as u32);
}

/// VCVT from an integer in a single register.
pub fn of_integer(r: &mut VectorRegisters, o: Vector) {
    let m = r.single(o.m);
    let value = if o.unsigned { i64::from(m) } else { i64::from(m as i32) };
    let result = with_modes(r, |e| e.convert_from_fixed(value, 0, format(o)));
    write(r, o.d, o.size == 3, result);
}

/// VCVT between floating and fixed point, in place; `kind`: 1 to fixed point, 2 of 32 bits, not 16.
pub fn convert_fixed(r: &mut VectorRegisters, o: Vector) {
    let double = o.size == 3;
    let width = if o.kind & 2 != 0 { 32 } else { 16 };
    let d = read(r, o.d, double);
    let result = with_modes(r, |e| {
        if o.kind & 1 != 0 {
            e.rounding = Rounding::Zero;
            let fixed = e.convert_to_fixed(d, format(o), (width, !o.unsigned), o.amount.into());
            // The register is filled with copies of the sign (A8.8.308).
            let narrowed = if width == 16 && !o.unsigned { fixed as i16 as u64 } else { fixed };
            if !double {
                narrowed & 0xffff_ffff
            } else if width == 32 {
                if o.unsigned { fixed & 0xffff_ffff } else { i64::from(fixed as i32) as u64 }
            } else {
                narrowed
            }
        } else {
            e.rounding = Rounding::Nearest;
            let value = super::value(d, width, o.unsigned) as i64;
            e.convert_from_fixed(value, o.amount.into(), format(o))
        }
    });
    write(r, o.d, double, result);
}
