//! Forms of what ARMv6 and ARMv7 added, shared by ARM and Thumb.

use crate::caches::CacheKind;
use crate::cpu::Architecture;
use mmulab_machine::ArmTiming;

use super::decode::{Decoded, Decoder};
use super::execute::{exclusive, load_store, media, system, thumb2, v7};
use super::forms::{LR, PC, SP, modifiers, swap};
use super::op::{CoprocessorAccess, Handler, modifier};
use super::pattern::Fields;

// ---- registers to a register ----------------------------------------------------------------------

/// An operation on Rm.
pub fn unary<K: CacheKind>(handler: Handler<K>, rd: u8, rm: u8) -> Decoded<K> {
    binary(handler, rd, PC, rm)
}

/// An operation on Rn and Rm.
pub fn binary<K: CacheKind>(handler: Handler<K>, rd: u8, rn: u8, rm: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rn, decoded.operands.rm) = (rd, rn, rm);
    decoded.reads(&[rn, rm])
}

/// The same with a register that is added or is the lower half of the result.
pub fn ternary<K: CacheKind>(handler: Handler<K>, rd: u8, ra: u8, rn: u8, rm: u8) -> Decoded<K> {
    let mut decoded = binary(handler, rd, rn, rm);
    decoded.operands.rs = ra;
    decoded.reads(&[ra])
}

/// A multiply with 16-bit or most-significant-word arithmetic, or a division; `ra` is 15 where
/// nothing is added.
pub fn media_multiply<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    (rd, ra, rn, rm): (u8, u8, u8, u8),
) -> Decoded<K> {
    ternary(handler, rd, ra, rn, rm)
        .takes(timing.dsp_cycles)
        .delivers(rd, timing.multiply_use_cycles)
}

/// The same with a sum of 64 bits, of which Rd is the upper half.
pub fn media_multiply_long<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    (rd, ra, rn, rm): (u8, u8, u8, u8),
) -> Decoded<K> {
    media_multiply(timing, handler, (rd, ra, rn, rm)).reads_later(&[rd])
}

/// SDIV and UDIV.
pub fn divide<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    (rd, rn, rm): (u8, u8, u8),
) -> Decoded<K> {
    binary(handler, rd, rn, rm).takes(timing.divide_cycles.unwrap_or(1))
}

/// Extends a rotated byte, half-word or pair of bytes, and adds it to Rn unless that is R15.
pub fn extend<K: CacheKind>(
    kinds: [Handler<K>; 2],
    rd: u8,
    rn: u8,
    rm: u8,
    rotation: u8,
) -> Decoded<K> {
    let mut decoded = binary(kinds[usize::from(rn != PC)], rd, rn, rm);
    decoded.operands.immediate = 8 * u32::from(rotation);
    decoded
}

/// PKHBT and PKHTB: Rm is shifted left, or with `top` right.
pub fn pack<K: CacheKind>(rd: u8, rn: u8, rm: u8, top: bool, amount: u32) -> Decoded<K> {
    let handler = if top { media::pack_top } else { media::pack_bottom };
    let mut decoded = binary(handler, rd, rn, rm);
    decoded.operands.immediate = if top && amount == 0 { 32 } else { amount };
    decoded
}

/// SSAT and USAT: to `bits`, after a shift.
pub fn saturate<K: CacheKind>(
    handler: Handler<K>,
    rd: u8,
    rn: u8,
    bits: u8,
    right: bool,
    amount: u8,
) -> Decoded<K> {
    let mut decoded = binary(handler, rd, rn, PC);
    let amount = if right && amount == 0 { 31 } else { amount };
    decoded.operands.rs = amount;
    decoded.operands.shift = u8::from(right);
    decoded.operands.immediate = u32::from(bits);
    decoded
}

/// SBFX and UBFX.
pub fn extract<K: CacheKind>(signed: bool, rd: u8, rn: u8, low: u8, width: u32) -> Decoded<K> {
    let handler = if signed { media::extract::<K, true> } else { media::extract::<K, false> };
    let mut decoded = binary(handler, rd, rn, PC);
    decoded.operands.rs = low;
    decoded.operands.immediate = width;
    decoded
}

/// BFI, and BFC with R15: bits `low` to `high` of Rd.
pub fn insert<K: CacheKind>(rd: u8, rn: u8, low: u8, high: u8) -> Decoded<K> {
    // The manual leaves a field that ends before it begins open; here it is empty.
    let width = (high + 1).saturating_sub(low);
    let handler = if rn == PC { media::clear_field } else { media::insert_field };
    let mut decoded = binary(handler, rd, rn, rd);
    decoded.operands.rs = low;
    decoded.operands.immediate = (((1u64 << width) - 1) << low) as u32;
    decoded
}

/// MOVT.
pub fn move_top<K: CacheKind>(rd: u8, value: u32) -> Decoded<K> {
    let mut decoded = binary(media::move_top, rd, PC, rd);
    decoded.operands.immediate = value << 16;
    decoded
}

// ---- memory ---------------------------------------------------------------------------------------

/// LDREX and its like; `rt2` is of LDREXD.
pub fn load_exclusive<K: CacheKind>(
    timing: &ArmTiming,
    bytes: u8,
    (rt, rt2, rn): (u8, u8, u8),
    offset: u32,
) -> Decoded<K> {
    let handler = match bytes {
        1 => exclusive::load::<K, 1> as Handler<K>,
        2 => exclusive::load::<K, 2>,
        4 => exclusive::load::<K, 4>,
        _ => exclusive::load::<K, 8>,
    };
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rs, decoded.operands.rn) = (rt, rt2, rn);
    decoded.operands.immediate = offset;
    decoded.reads(&[rn]).delivers_two(rt, rt2, timing.load_use_cycles)
}

/// STREX and its like; Rd tells how it went.
pub fn store_exclusive<K: CacheKind>(
    bytes: u8,
    rd: u8,
    (rt, rt2, rn): (u8, u8, u8),
    offset: u32,
) -> Decoded<K> {
    let handler = match bytes {
        1 => exclusive::store::<K, 1> as Handler<K>,
        2 => exclusive::store::<K, 2>,
        4 => exclusive::store::<K, 4>,
        _ => exclusive::store::<K, 8>,
    };
    let mut decoded = binary(handler, rd, rn, rt);
    decoded.operands.rs = rt2;
    decoded.operands.immediate = offset;
    decoded.reads_later(&[rt2])
}

/// SWP and SWPB, which the control register can take away.
pub fn swap_if_enabled<K: CacheKind>(
    timing: &ArmTiming,
    byte: bool,
    registers: (u8, u8, u8),
) -> Decoded<K> {
    let mut decoded = swap(timing, byte, registers);
    decoded.op.handler = if byte {
        exclusive::swap_if_enabled::<K, true>
    } else {
        exclusive::swap_if_enabled::<K, false>
    };
    decoded
}

/// CLREX.
pub fn clear_exclusive<K: CacheKind>() -> Decoded<K> {
    Decoded::new(exclusive::clear)
}

/// A load relative to R15 in Thumb state, of a kind of [`thumb2::literal`].
pub fn literal<K: CacheKind>(
    timing: &ArmTiming,
    handler: Handler<K>,
    rt: u8,
    rt2: u8,
    offset: u32,
) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rd, decoded.operands.rs) = (rt, rt2);
    decoded.operands.immediate = offset;
    decoded.delivers_two(rt, rt2, timing.load_use_cycles)
}

/// TBB and TBH.
pub fn table_branch<K: CacheKind>(half: bool, rn: u8, rm: u8) -> Decoded<K> {
    let handler =
        if half { thumb2::table_branch::<K, true> } else { thumb2::table_branch::<K, false> };
    binary(handler, 0, rn, rm)
}

/// The number of a register of another mode that MRS or MSR names, on cores with the Virtualization
/// Extensions (ARM DDI 0406C, B9.2.3).
pub fn banked_register<K: CacheKind>(f: &Fields, decoder: &Decoder<K>) -> Option<u32> {
    let is_one = decoder.architecture >= Architecture::V7A && f.flag(b'b');
    is_one.then(|| f.bits(b'x') << 4 | f.bits(b'k'))
}

/// MRS of a register of another mode.
pub fn banked_read<K: CacheKind>(
    timing: &ArmTiming,
    saved: bool,
    number: u32,
    rd: u8,
) -> Decoded<K> {
    let mut decoded = Decoded::new(system::banked_read);
    (decoded.operands.rd, decoded.operands.immediate) = (rd, number);
    decoded.operands.modifiers = modifiers(&[(saved, modifier::SAVED)]);
    decoded.takes(timing.status_read_cycles)
}

/// MSR of one.
pub fn banked_write<K: CacheKind>(
    timing: &ArmTiming,
    saved: bool,
    number: u32,
    rm: u8,
) -> Decoded<K> {
    let mut decoded = Decoded::new(system::banked_write);
    (decoded.operands.rm, decoded.operands.immediate) = (rm, number);
    decoded.operands.modifiers = modifiers(&[(saved, modifier::SAVED)]);
    decoded.reads(&[rm]).takes(timing.flags_write_cycles)
}

/// RFE; the mode is of [`modifier`].
pub fn return_from_exception<K: CacheKind>(rn: u8, mode: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(load_store::return_from_exception);
    (decoded.operands.rn, decoded.operands.modifiers) = (rn, mode);
    // As a list of two registers.
    decoded.operands.rs = 2;
    decoded.reads(&[rn])
}

/// SRS to the stack of a mode.
pub fn store_return_state<K: CacheKind>(of_mode: u32, mode: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(load_store::store_return_state);
    (decoded.operands.immediate, decoded.operands.modifiers) = (of_mode, mode);
    decoded.reads_later(&[SP, LR])
}

// ---- branches in Thumb state ----------------------------------------------------------------------

/// CBZ and CBNZ.
pub fn compare_and_branch<K: CacheKind>(nonzero: bool, rn: u8, offset: u32) -> Decoded<K> {
    let handler = if nonzero {
        thumb2::compare_and_branch::<K, true>
    } else {
        thumb2::compare_and_branch::<K, false>
    };
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rn, decoded.operands.immediate) = (rn, offset);
    decoded.operands.modifiers = modifier::PREDICTED;
    decoded.reads(&[rn])
}

/// IT, with its first condition and mask.
pub fn if_then<K: CacheKind>(state: u8) -> Decoded<K> {
    let mut decoded = Decoded::new(thumb2::if_then);
    decoded.operands.immediate = u32::from(state);
    decoded
}

// ---- system ---------------------------------------------------------------------------------------

/// What does nothing that can be seen here.
pub fn nothing<K: CacheKind>() -> Decoded<K> {
    Decoded::new(v7::nothing)
}

/// NOP, YIELD, WFE, WFI, SEV and hints to come.
pub fn hint<K: CacheKind>(number: u32) -> Decoded<K> {
    Decoded::new(match number {
        2 => v7::wait_for_event,
        3 => v7::wait_for_interrupt,
        4 => v7::send_event,
        _ => v7::nothing,
    })
}

/// SETEND.
pub fn set_endianness<K: CacheKind>(big: bool) -> Decoded<K> {
    if big { Decoded::new(v7::undefined_big_endian) } else { nothing() }
}

/// CPS: whether the masks A, I, F of `masks` are set, or left alone; and the new mode.
pub fn change_state<K: CacheKind>(set: Option<bool>, masks: u8, mode: Option<u8>) -> Decoded<K> {
    let mut decoded = Decoded::new(v7::change_state);
    let (clears, sets) = match set {
        None => (0, 0),
        Some(false) => (u32::from(masks) << 6, 0),
        Some(true) => (0, u32::from(masks) << 6),
    };
    let mode = mode.map_or(0, |mode| 0x100 | u32::from(mode));
    decoded.operands.immediate = mode << 16;
    decoded.operands.immediate |= sets;
    decoded.operands.rn = (clears >> 6) as u8;
    decoded
}

/// DSB and DMB.
pub fn barrier<K: CacheKind>(handler: Handler<K>) -> Decoded<K> {
    Decoded::new(handler)
}

/// HVC and SMC.
pub fn monitor_call<K: CacheKind>(handler: Handler<K>, number: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    decoded.operands.immediate = number;
    // The arguments of a call of firmware.
    decoded.reads_later(&[0, 1, 2, 3])
}

/// SUBS PC, LR, and ERET, in Thumb state.
pub fn subtract_return<K: CacheKind>(amount: u32) -> Decoded<K> {
    let mut decoded = Decoded::new(v7::subtract_return);
    decoded.operands.immediate = amount;
    decoded.reads_later(&[LR])
}

/// MCRR.
pub fn coprocessor_write_pair<K: CacheKind>(
    timing: &ArmTiming,
    (low, high): (u8, u8),
    access: CoprocessorAccess,
) -> Decoded<K> {
    let mut decoded = Decoded::new(v7::coprocessor_write_pair);
    (decoded.operands.rd, decoded.operands.rn) = (low, high);
    decoded.operands.immediate = access.into();
    decoded.reads(&[low, high]).takes(timing.coprocessor_write_cycles)
}

/// MRRC.
pub fn coprocessor_read_pair<K: CacheKind>(
    timing: &ArmTiming,
    (low, high): (u8, u8),
    access: CoprocessorAccess,
) -> Decoded<K> {
    let mut decoded = Decoded::new(v7::coprocessor_read_pair);
    (decoded.operands.rd, decoded.operands.rn) = (low, high);
    decoded.operands.immediate = access.into();
    decoded.takes(timing.coprocessor_read_cycles)
}

/// Destination, addend, Rn, Rm.
pub fn danm(f: &Fields) -> (u8, u8, u8, u8) {
    (f.rd(), f.byte(b'a'), f.rn(), f.rm())
}

/// The handler with or without what `x` chooses: halves of Rm exchanged, or rounding.
macro_rules! exchanged {
    ($f:ident, $handler:ident $(, $generic:literal)*) => {
        if $f.flag(b'x') {
            media::$handler::<K, $($generic,)* true> as Handler<K>
        } else {
            media::$handler::<K, $($generic,)* false>
        }
    };
}
pub(super) use exchanged;
