//! What ARMv6 and ARMv7 do between registers: bit fields, extensions, reversals, saturation,
//! parallel arithmetic, dual multiplies, division (ARM DDI 0406C, A4.4 and A8.8).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu, SATURATED};
use crate::isa::op::{Handler, PackedOperands};
use mmulab_system::core::Flow;

/// Handlers that compute Rd from Rn and Rm.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident($cpu:ident, $op:ident, $n:ident, $m:ident) $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[allow(unused_variables, reason = "not all use both operands")]
            pub fn $name<K: CacheKind>($cpu: &mut Cpu<K>, _: &mut Bus<K>, $op: PackedOperands) -> Flow {
                let ($n, $m) = ($cpu.register($op.rn()), $cpu.register($op.rm()));
                let result: u32 = $body;
                $cpu.set_register($op.rd(), result);
                Flow::Next
            }
        )*
    };
}

binary! {
    /// MOVT.
    move_top(cpu, op, n, m) m & 0xffff | op.immediate;
    /// BFI; the immediate is the field's mask.
    insert_field(cpu, op, n, m) m & !op.immediate | n << op.rs() & op.immediate;
    /// BFC.
    clear_field(cpu, op, n, m) m & !op.immediate;
    /// REV.
    reverse(cpu, op, n, m) m.swap_bytes();
    /// REV16.
    reverse_halves(cpu, op, n, m) m.swap_bytes().rotate_left(16);
    /// REVSH.
    reverse_signed_half(cpu, op, n, m) (m as u16).swap_bytes() as i16 as u32;
    /// RBIT.
    reverse_bits(cpu, op, n, m) m.reverse_bits();
    /// PKHBT.
    pack_bottom(cpu, op, n, m) n & 0xffff | m << op.immediate & 0xffff_0000;
    /// PKHTB.
    pack_top(cpu, op, n, m) {
        n & 0xffff_0000 | (i64::from(m as i32) >> op.immediate) as u32 & 0xffff
    };
    /// SEL.
    select(cpu, op, n, m) {
        let mask = byte_mask(cpu.control >> 16);
        n & mask | m & !mask
    };
    /// SSAT.
    saturate_signed(cpu, op, n, m) {
        let limit = 1i64 << (op.immediate - 1);
        saturate(cpu, shifted(op, n), -limit, limit - 1)
    };
    /// USAT.
    saturate_unsigned(cpu, op, n, m) saturate(cpu, shifted(op, n), 0, (1 << op.immediate) - 1);
    /// SSAT16.
    saturate_signed_halves(cpu, op, n, m) {
        let limit = 1i64 << (op.immediate - 1);
        saturate_halves(cpu, n, -limit, limit - 1)
    };
    /// USAT16.
    saturate_unsigned_halves(cpu, op, n, m) saturate_halves(cpu, n, 0, (1 << op.immediate) - 1);
    /// MLS.
    multiply_subtract(cpu, op, n, m) cpu.register(op.rs()).wrapping_sub(n.wrapping_mul(m));
    /// USAD8 and USADA8.
    absolute_differences(cpu, op, n, m) {
        let pairs = n.to_le_bytes().into_iter().zip(m.to_le_bytes());
        let sum = pairs.map(|(n, m)| u32::from(n.abs_diff(m))).sum::<u32>();
        sum.wrapping_add(addend(cpu, op))
    };
}

/// All ones in each byte whose bit is set in the lowest four of `bits`.
fn byte_mask(bits: u32) -> u32 {
    (0..4).filter(|byte| bits >> byte & 1 != 0).fold(0, |mask, byte| mask | 0xff << (8 * byte))
}

/// Ra, or nothing if it is R15.
fn addend<K: CacheKind>(cpu: &Cpu<K>, op: PackedOperands) -> u32 {
    if op.rs() == 15 { 0 } else { cpu.register(op.rs()) }
}

/// SBFX and UBFX.
pub fn extract<K: CacheKind, const SIGNED: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    // A field that ends above the register has an end that the manual leaves open.
    let unused = 32 - op.immediate.min(32);
    let low = u32::from(op.rs());
    let value = cpu.register(op.rn());
    let result = if SIGNED {
        (value << unused.saturating_sub(low)) as i32 >> unused
    } else {
        (value << unused.saturating_sub(low) >> unused) as i32
    };
    cpu.set_register(op.rd(), result as u32);
    Flow::Next
}

// ---- extensions -----------------------------------------------------------------------------------

const SIGNED_BYTE: u8 = 0;
const SIGNED_HALF: u8 = 1;
const SIGNED_BYTES: u8 = 2;
const UNSIGNED_BYTE: u8 = 3;
const UNSIGNED_HALF: u8 = 4;
const UNSIGNED_BYTES: u8 = 5;

/// SXTB and SXTAB: without and with addition.
pub fn sxtb<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, SIGNED_BYTE, false>, extend::<K, SIGNED_BYTE, true>]
}
/// SXTH and SXTAH.
pub fn sxth<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, SIGNED_HALF, false>, extend::<K, SIGNED_HALF, true>]
}
/// SXTB16 and SXTAB16.
pub fn sxtb16<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, SIGNED_BYTES, false>, extend::<K, SIGNED_BYTES, true>]
}
/// UXTB and UXTAB.
pub fn uxtb<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, UNSIGNED_BYTE, false>, extend::<K, UNSIGNED_BYTE, true>]
}
/// UXTH and UXTAH.
pub fn uxth<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, UNSIGNED_HALF, false>, extend::<K, UNSIGNED_HALF, true>]
}
/// UXTB16 and UXTAB16.
pub fn uxtb16<K: CacheKind>() -> [Handler<K>; 2] {
    [extend::<K, UNSIGNED_BYTES, false>, extend::<K, UNSIGNED_BYTES, true>]
}

fn extend<K: CacheKind, const KIND: u8, const ADD: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let value = cpu.register(op.rm()).rotate_right(op.immediate);
    let extended = match KIND {
        SIGNED_BYTE => value as i8 as u32,
        SIGNED_HALF => value as i16 as u32,
        SIGNED_BYTES => value as i8 as u16 as u32 | ((value >> 16) as i8 as u16 as u32) << 16,
        UNSIGNED_BYTE => value & 0xff,
        UNSIGNED_HALF => value & 0xffff,
        _ => value & 0x00ff_00ff,
    };
    let result = match (ADD, KIND) {
        (false, _) => extended,
        (true, SIGNED_BYTES | UNSIGNED_BYTES) => {
            let n = cpu.register(op.rn());
            let low = n.wrapping_add(extended) & 0xffff;
            low | (n >> 16).wrapping_add(extended >> 16) << 16
        }
        (true, _) => cpu.register(op.rn()).wrapping_add(extended),
    };
    cpu.set_register(op.rd(), result);
    Flow::Next
}

// ---- saturation -----------------------------------------------------------------------------------

/// The operand of SSAT and USAT.
fn shifted(op: PackedOperands, value: u32) -> i64 {
    let value = value as i32;
    i64::from(if op.shift() == 1 { value >> op.rs() } else { value << op.rs() })
}

fn saturate<K: CacheKind>(cpu: &mut Cpu<K>, value: i64, least: i64, most: i64) -> u32 {
    if !(least..=most).contains(&value) {
        cpu.control |= SATURATED;
    }
    value.clamp(least, most) as u32
}

fn saturate_halves<K: CacheKind>(cpu: &mut Cpu<K>, value: u32, least: i64, most: i64) -> u32 {
    let low = saturate(cpu, i64::from(value as i16), least, most);
    let high = saturate(cpu, i64::from((value >> 16) as i16), least, most);
    low & 0xffff | high << 16
}

// ---- parallel additions and subtractions ----------------------------------------------------------

/// SADD16 and its like.
pub const SIGNED: u8 = 0;
/// QADD16 and its like.
pub const SIGNED_SATURATING: u8 = 1;
/// SHADD16 and its like.
pub const SIGNED_HALVING: u8 = 2;
/// UADD16 and its like.
pub const UNSIGNED: u8 = 3;
/// UQADD16 and its like.
pub const UNSIGNED_SATURATING: u8 = 4;
/// UHADD16 and its like.
pub const UNSIGNED_HALVING: u8 = 5;

/// Additions of halves.
pub const ADD16: u8 = 0;
/// Addition of the upper, subtraction of the lower halves, Rm exchanged.
pub const ASX: u8 = 1;
/// Subtraction of the upper, addition of the lower halves, Rm exchanged.
pub const SAX: u8 = 2;
/// Subtractions of halves.
pub const SUB16: u8 = 3;
/// Additions of bytes.
pub const ADD8: u8 = 4;
/// Subtractions of bytes.
pub const SUB8: u8 = 5;

/// One lane of `bits`: the result and whether its GE bits are set.
#[inline(always)]
fn lane<const KIND: u8>(n: u32, m: u32, bits: u32, subtract: bool) -> (u32, bool) {
    let signed = matches!(KIND, SIGNED | SIGNED_SATURATING | SIGNED_HALVING);
    let widened = |value: u32| {
        let unused = 32 - bits;
        if signed { (value << unused) as i32 >> unused } else { (value << unused >> unused) as i32 }
    };
    let (n, m) = (widened(n), widened(m));
    let exact = if subtract { n - m } else { n + m };
    let result = match KIND {
        SIGNED_SATURATING => exact.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1),
        UNSIGNED_SATURATING => exact.clamp(0, (1 << bits) - 1),
        SIGNED_HALVING | UNSIGNED_HALVING => exact >> 1,
        _ => exact,
    };
    let greater = if signed || subtract { exact >= 0 } else { exact >= 1 << bits };
    (result as u32 & (!0 >> (32 - bits)), greater)
}

/// A parallel addition or subtraction.
pub fn parallel<K: CacheKind, const KIND: u8, const OPERATION: u8>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (n, m) = (cpu.register(op.rn()), cpu.register(op.rm()));
    let mut result = 0;
    let mut greater = 0;
    if matches!(OPERATION, ADD8 | SUB8) {
        for byte in 0..4 {
            let shift = 8 * byte;
            let (value, ge) = lane::<KIND>(n >> shift, m >> shift, 8, OPERATION == SUB8);
            result |= value << shift;
            greater |= u32::from(ge) << byte;
        }
    } else {
        let m = if matches!(OPERATION, ASX | SAX) { m.rotate_left(16) } else { m };
        let (low, low_ge) = lane::<KIND>(n, m, 16, matches!(OPERATION, ASX | SUB16));
        let (high, high_ge) = lane::<KIND>(n >> 16, m >> 16, 16, matches!(OPERATION, SAX | SUB16));
        result = high << 16 | low;
        greater = (u32::from(low_ge) * 3) | (u32::from(high_ge) * 12);
    }
    cpu.set_register(op.rd(), result);
    if matches!(KIND, SIGNED | UNSIGNED) {
        cpu.control = cpu.control & !0xf_0000 | greater << 16;
    }
    Flow::Next
}

// ---- multiplies and divisions ---------------------------------------------------------------------

/// The two products of the halves of Rn and Rm, lower and upper.
#[inline(always)]
fn products<K: CacheKind, const EXCHANGE: bool>(cpu: &Cpu<K>, op: PackedOperands) -> (i64, i64) {
    let n = cpu.register(op.rn());
    let m = cpu.register(op.rm());
    let m = if EXCHANGE { m.rotate_left(16) } else { m };
    let product = |n: u32, m: u32| i64::from(n as i16) * i64::from(m as i16);
    (product(n, m), product(n >> 16, m >> 16))
}

/// SMUAD, SMLAD, SMUSD, SMLSD: an overflow is told in Q.
pub fn dual_multiply<K: CacheKind, const SUBTRACT: bool, const EXCHANGE: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (low, high) = products::<K, EXCHANGE>(cpu, op);
    let sum = if SUBTRACT { low - high } else { low + high };
    let result = sum + i64::from(addend(cpu, op) as i32);
    if i64::from(result as i32) != result {
        cpu.control |= SATURATED;
    }
    cpu.set_register(op.rd(), result as u32);
    Flow::Next
}

/// SMLALD and SMLSLD: Rd is the upper half, Ra the lower.
pub fn dual_multiply_long<K: CacheKind, const SUBTRACT: bool, const EXCHANGE: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (low, high) = products::<K, EXCHANGE>(cpu, op);
    let sum = if SUBTRACT { low - high } else { low + high };
    let old = u64::from(cpu.register(op.rd())) << 32 | u64::from(cpu.register(op.rs()));
    let result = old.wrapping_add(sum as u64);
    cpu.set_register(op.rs(), result as u32);
    cpu.set_register(op.rd(), (result >> 32) as u32);
    Flow::Next
}

/// SMMUL, SMMLA, SMMLS: the upper half of the sum, perhaps rounded.
pub fn multiply_top<K: CacheKind, const SUBTRACT: bool, const ROUND: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (n, m) = (cpu.register(op.rn()) as i32, cpu.register(op.rm()) as i32);
    let product = i64::from(n) * i64::from(m);
    let added = i64::from(addend(cpu, op)) << 32;
    let sum = if SUBTRACT { added.wrapping_sub(product) } else { added.wrapping_add(product) };
    let sum = if ROUND { sum.wrapping_add(0x8000_0000) } else { sum };
    cpu.set_register(op.rd(), (sum >> 32) as u32);
    Flow::Next
}

/// UMAAL: Rd is the upper half, Ra the lower.
pub fn multiply_add_add<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let product = u64::from(cpu.register(op.rn())) * u64::from(cpu.register(op.rm()));
    let sum = product + u64::from(cpu.register(op.rd())) + u64::from(cpu.register(op.rs()));
    cpu.set_register(op.rs(), sum as u32);
    cpu.set_register(op.rd(), (sum >> 32) as u32);
    Flow::Next
}

/// SDIV and UDIV; a division by zero gives zero.
pub fn divide<K: CacheKind, const SIGNED: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (n, m) = (cpu.register(op.rn()), cpu.register(op.rm()));
    let result = match (m, SIGNED) {
        (0, _) => 0,
        (_, true) => (n as i32).wrapping_div(m as i32) as u32,
        (_, false) => n / m,
    };
    cpu.set_register(op.rd(), result);
    Flow::Next
}
