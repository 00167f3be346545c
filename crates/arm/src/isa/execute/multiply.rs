//! Multiplies, saturating arithmetic and the 40-bit accumulator of the XScale.

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu, SATURATED};
use crate::isa::op::{PackedOperands, modifier};
use mmulab_system::Cause;
use mmulab_system::core::Flow;

/// Cycles that the early termination of a multiplier adds: it stops when the bits left are all
/// zeros, or (signed) all ones.
#[inline(always)]
fn early_termination<K: CacheKind>(cpu: &mut Cpu<K>, multiplier: u32, signed: bool) {
    let step = u32::from(cpu.timing.multiply_bits_a_cycle);
    if step == 0 {
        return;
    }
    let folded = if signed { multiplier ^ (multiplier as i32 >> 31) as u32 } else { multiplier };
    let significant = 32 - folded.leading_zeros();
    let extra = significant.div_ceil(step).max(1) - 1;
    cpu.memory.charge(Cause::Multiply, extra as u8);
}

/// MUL and MLA (A4.1.34, A4.1.40). The carry is left alone, as from version 5 on.
pub fn multiply<K: CacheKind, const ACCUMULATE: bool, const FLAGS: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let multiplier = cpu.register(op.rs());
    let mut result = cpu.register(op.rm()).wrapping_mul(multiplier);
    if ACCUMULATE {
        result = result.wrapping_add(cpu.register(op.rn()));
    }
    early_termination(cpu, multiplier, true);
    cpu.set_register(op.rd(), result);
    if FLAGS {
        cpu.set_logical_flags(result, cpu.carry());
    }
    Flow::Next
}

/// UMULL, UMLAL, SMULL, SMLAL. Rd is the high half, Rn the low one.
pub fn multiply_long<K: CacheKind, const SIGNED: bool, const ACCUMULATE: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (a, b) = (cpu.register(op.rm()), cpu.register(op.rs()));
    let mut result = if SIGNED {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    } else {
        u64::from(a) * u64::from(b)
    };
    if ACCUMULATE {
        let old = u64::from(cpu.register(op.rd())) << 32 | u64::from(cpu.register(op.rn()));
        result = result.wrapping_add(old);
    }
    early_termination(cpu, b, SIGNED);
    cpu.set_register(op.rn(), result as u32);
    cpu.set_register(op.rd(), (result >> 32) as u32);
    if op.is(modifier::FLAGS) {
        let zero = u32::from(result == 0);
        cpu.flags = ((result >> 63) as u32) << 3 | zero << 2 | cpu.flags & 3;
    }
    Flow::Next
}

#[inline(always)]
fn half_of(value: u32, top: bool) -> i32 {
    i32::from(if top { (value >> 16) as i16 } else { value as i16 })
}

/// The product of two halves.
#[inline(always)]
fn product<K: CacheKind, const X: bool, const Y: bool>(cpu: &Cpu<K>, op: PackedOperands) -> i32 {
    half_of(cpu.register(op.rm()), X) * half_of(cpu.register(op.rs()), Y)
}

/// The upper 32 bits of the product of a word and a half.
#[inline(always)]
fn wide_product<K: CacheKind, const Y: bool>(cpu: &Cpu<K>, op: PackedOperands) -> i32 {
    let (word, half) = (cpu.register(op.rm()) as i32, half_of(cpu.register(op.rs()), Y));
    ((i64::from(word) * i64::from(half)) >> 16) as i32
}

/// SMLAxy (A4.1.74).
pub fn half_accumulate<K: CacheKind, const X: bool, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let product = product::<K, X, Y>(cpu, op);
    add_product(cpu, op, product);
    Flow::Next
}

/// SMLAWy (A4.1.79).
pub fn wide_accumulate<K: CacheKind, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let product = wide_product::<K, Y>(cpu, op);
    add_product(cpu, op, product);
    Flow::Next
}

/// SMULWy (A4.1.88).
pub fn wide_multiply<K: CacheKind, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let product = wide_product::<K, Y>(cpu, op);
    cpu.set_register(op.rd(), product as u32);
    Flow::Next
}

/// SMLALxy (A4.1.77).
pub fn half_accumulate_long<K: CacheKind, const X: bool, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let old = u64::from(cpu.register(op.rd())) << 32 | u64::from(cpu.register(op.rn()));
    let result = old.wrapping_add(i64::from(product::<K, X, Y>(cpu, op)) as u64);
    cpu.set_register(op.rn(), result as u32);
    cpu.set_register(op.rd(), (result >> 32) as u32);
    Flow::Next
}

/// SMULxy (A4.1.86).
pub fn half_multiply<K: CacheKind, const X: bool, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let product = product::<K, X, Y>(cpu, op);
    cpu.set_register(op.rd(), product as u32);
    Flow::Next
}

/// Adds Rn; an overflow is only told, in Q.
fn add_product<K: CacheKind>(cpu: &mut Cpu<K>, op: PackedOperands, product: i32) {
    let (result, overflow) = product.overflowing_add(cpu.register(op.rn()) as i32);
    if overflow {
        cpu.control |= SATURATED;
    }
    cpu.set_register(op.rd(), result as u32);
}

/// QADD, QSUB, QDADD, QDSUB (A4.1.46, 50, 51, 52).
pub fn saturating<K: CacheKind, const DOUBLE: bool, const SUBTRACT: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let a = cpu.register(op.rm()) as i32;
    let mut b = cpu.register(op.rn()) as i32;
    let mut saturated = false;
    if DOUBLE {
        saturated |= b.checked_mul(2).is_none();
        b = b.saturating_mul(2);
    }
    let result = if SUBTRACT {
        saturated |= a.checked_sub(b).is_none();
        a.saturating_sub(b)
    } else {
        saturated |= a.checked_add(b).is_none();
        a.saturating_add(b)
    };
    if saturated {
        cpu.control |= SATURATED;
    }
    cpu.set_register(op.rd(), result as u32);
    Flow::Next
}

/// Keeps 40 bits of a sum.
fn forty_bits(value: i64) -> i64 {
    value << 24 >> 24
}

/// MAR of the XScale (273473, 2.3.1.2).
pub fn accumulator_write<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.accumulator_enabled() {
        return cpu.undefined();
    }
    let value = u64::from(cpu.register(op.rn())) << 32 | u64::from(cpu.register(op.rd()));
    cpu.accumulator = forty_bits(value as i64);
    Flow::Next
}

/// MRA.
pub fn accumulator_read<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.accumulator_enabled() {
        return cpu.undefined();
    }
    let value = cpu.accumulator;
    cpu.set_register(op.rd(), value as u32);
    cpu.set_register(op.rn(), (value >> 32) as u32);
    Flow::Next
}

fn add_to_accumulator<K: CacheKind>(
    cpu: &mut Cpu<K>,
    op: PackedOperands,
    sum: fn(u32, u32) -> i64,
) -> Flow {
    if !cpu.accumulator_enabled() {
        return cpu.undefined();
    }
    let sum = sum(cpu.register(op.rm()), cpu.register(op.rs()));
    cpu.accumulator = forty_bits(cpu.accumulator.wrapping_add(sum));
    Flow::Next
}

fn long_product(a: u32, x: bool, b: u32, y: bool) -> i64 {
    i64::from(half_of(a, x)) * i64::from(half_of(b, y))
}

/// MIA of the XScale (273473, 2.3.1.1).
pub fn accumulate<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    add_to_accumulator(cpu, op, |a, b| i64::from(a as i32) * i64::from(b as i32))
}

/// MIAPH: the products of the lower and of the upper halves.
pub fn accumulate_pairs<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    add_to_accumulator(cpu, op, |a, b| {
        long_product(a, false, b, false) + long_product(a, true, b, true)
    })
}

/// MIAxy.
pub fn accumulate_half<K: CacheKind, const X: bool, const Y: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    add_to_accumulator(cpu, op, |a, b| long_product(a, X, b, Y))
}
