//! The encodings of VFPv4 (ARM DDI 0406C, A7.5 to A7.9 and A8.8), which ARM and Thumb state share:
//! in Thumb state the condition is always 1110.
//!
//! Letters: `D` and `d`, `N` and `n`, `M` and `m` registers, of which the capital is the lowest bit
//! in single precision and the highest in double precision; `z` double precision; `t`, `u`
//! registers of the core; `L` load, or to the core; `i` immediate.

use crate::caches::CacheKind;
use crate::vector::{Operation, Vector, scalar};

use super::decode::Decoded;
use super::execute::vector as handlers;
use super::op::{Handler, modifier};
use super::pattern::{Fields, Pattern};
use super::table::{Row, Since};
use crate::cpu::Architecture::V7A;
use mmulab_system::clock::Cost;

/// A data-processing instruction.
macro_rules! data {
    ($operation:path) => {
        (|cpu, _, op| handlers::data(cpu, op, $operation as Operation)) as Handler<K>
    };
}
pub(super) use data;

/// A data-processing instruction with its operands.
pub(super) fn vector<K: CacheKind>(handler: Handler<K>, operands: Vector) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    decoded.operands.immediate = operands.pack();
    decoded
}

/// The number of a register, of which the pattern has a bit apart.
fn number(f: &Fields, bit: u8, rest: u8, double: bool) -> u8 {
    if double { f.byte(bit) << 4 | f.byte(rest) } else { f.byte(rest) << 1 | f.byte(bit) }
}

fn precision(f: &Fields) -> (bool, u8) {
    let double = f.flag(b'z');
    (double, if double { 3 } else { 2 })
}

/// Operands of one precision.
fn operands(f: &Fields) -> Vector {
    let (double, size) = precision(f);
    Vector {
        d: number(f, b'D', b'd', double),
        n: number(f, b'N', b'n', double),
        m: number(f, b'M', b'm', double),
        size,
        ..Vector::default()
    }
}

/// With the bits in `k` as the kind.
fn of_kind(f: &Fields) -> Vector {
    Vector { kind: f.byte(b'k'), ..operands(f) }
}

/// With an immediate in `i`.
fn with_immediate(f: &Fields) -> Vector {
    Vector { amount: f.byte(b'i'), ..operands(f) }
}

/// Of which the destination has the other precision.
fn converted(f: &Fields) -> Vector {
    let (double, _) = precision(f);
    Vector { d: number(f, b'D', b'd', !double), ..operands(f) }
}

/// The integer is in a single register.
fn to_integer(f: &Fields) -> Vector {
    let unsigned = !f.flag(b's');
    Vector {
        d: number(f, b'D', b'd', false),
        unsigned,
        kind: u8::from(!f.flag(b'r')),
        ..operands(f)
    }
}

fn of_integer(f: &Fields) -> Vector {
    Vector { m: number(f, b'M', b'm', false), unsigned: !f.flag(b's'), ..operands(f) }
}

fn fixed(f: &Fields) -> Vector {
    let width = if f.flag(b'x') { 32 } else { 16u8 };
    let kind = f.byte(b'o') | f.byte(b'x') << 1;
    // More fraction bits than there are bits are unpredictable.
    let amount = width.saturating_sub(f.byte(b'i') << 1 | f.byte(b'j'));
    Vector { kind, amount, unsigned: f.flag(b'U'), ..operands(f) }
}

/// An element of a double register: its size and index, from the bits in `o`, `b`.
fn element(f: &Fields) -> Option<(u8, u8)> {
    let bits = f.byte(b'o') << 2 | f.byte(b'b');
    match bits {
        _ if bits & 8 != 0 => Some((0, bits & 7)),
        _ if bits & 1 != 0 => Some((1, bits >> 1 & 3)),
        _ if bits & 2 == 0 => Some((2, bits >> 2 & 1)),
        _ => None,
    }
}

fn undefined<K: CacheKind>() -> Decoded<K> {
    Decoded::new(super::execute::undefined)
}

fn move_element<K: CacheKind>(f: &Fields, to_core: bool) -> Decoded<K> {
    let Some((size, amount)) = element(f) else { return undefined() };
    if size == 2 && f.flag(b'U') {
        return undefined();
    }
    let d = number(f, b'N', b'n', true);
    let operands = Vector { d, size, amount, unsigned: f.flag(b'U'), ..Vector::default() };
    let handler = if to_core { handlers::element_to_core } else { handlers::element_from_core };
    with_core_register(vector(handler, operands), f.byte(b't'), to_core)
}

fn with_core_register<K: CacheKind>(
    mut decoded: Decoded<K>,
    register: u8,
    written: bool,
) -> Decoded<K> {
    decoded.operands.rd = register;
    if written { decoded } else { decoded.reads(&[register]) }
}

fn fill_from_core<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (d, quad) = (number(f, b'D', b'd', true), f.flag(b'Q'));
    let size = match f.byte(b'b') << 1 | f.byte(b'e') {
        0 => 2,
        1 => 1,
        2 => 0,
        _ => return undefined(),
    };
    if quad && d & 1 != 0 {
        return undefined();
    }
    let operands = Vector { d, size, quad, ..Vector::default() };
    with_core_register(vector(handlers::fill_from_core, operands), f.byte(b't'), false)
}

fn system_register<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let handler = if f.flag(b'L') { handlers::status_read } else { handlers::status_write };
    let mut decoded: Decoded<K> = Decoded::new(handler);
    decoded.operands.rn = f.byte(b'r');
    with_core_register(decoded, f.byte(b't'), f.flag(b'L'))
}

fn move_single<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let handler = if f.flag(b'L') { handlers::single_to_core } else { handlers::single_from_core };
    let operands = Vector { d: number(f, b'N', b'n', false), ..Vector::default() };
    with_core_register(vector(handler, operands), f.byte(b't'), f.flag(b'L'))
}

fn move_pair<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let handler = if f.flag(b'L') { handlers::pair_to_core } else { handlers::pair_from_core };
    let (double, size) = precision(f);
    let operands = Vector { d: number(f, b'M', b'm', double), size, ..Vector::default() };
    let mut decoded: Decoded<K> = vector(handler, operands);
    (decoded.operands.rd, decoded.operands.rn) = (f.byte(b't'), f.byte(b'u'));
    if f.flag(b'L') { decoded } else { decoded.reads(&[f.byte(b't'), f.byte(b'u')]) }
}

/// VLDR, VSTR, VLDM and VSTM: N words from an address on.
fn transfer<K: CacheKind>(f: &Fields, words: u32, offset: i32, modifiers: u8) -> Decoded<K> {
    let (double, _) = precision(f);
    let first = u32::from(number(f, b'D', b'd', double));
    let registers = if double { words / 2 } else { words };
    if registers == 0 || first + registers > 32 || double && registers > 16 {
        return undefined();
    }
    let handler = match (f.flag(b'L'), double) {
        (true, true) => handlers::load::<K, true> as Handler<K>,
        (true, false) => handlers::load::<K, false>,
        (false, true) => handlers::store::<K, true>,
        (false, false) => handlers::store::<K, false>,
    };
    let mut decoded = Decoded::new(handler);
    decoded.operands.rn = f.rn();
    // Words from the base to the first one, how many, and the first register.
    decoded.operands.immediate = (offset as u32) << 16 | words << 8 | first;
    decoded.operands.modifiers = modifiers;
    decoded.op.cost = Cost::issue(words.max(1) as u8);
    decoded.reads(&[f.rn()])
}

fn transfer_one<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let offset = f.bits(b'i') as i32 * if f.flag(b'U') { 1 } else { -1 };
    transfer(f, if f.flag(b'z') { 2 } else { 1 }, offset, 0)
}

fn transfer_up<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let write_back = if f.flag(b'W') { modifier::WRITE_BACK | modifier::UP } else { 0 };
    transfer(f, f.bits(b'i'), 0, write_back)
}

fn transfer_down<K: CacheKind>(f: &Fields) -> Decoded<K> {
    transfer(f, f.bits(b'i'), -(f.bits(b'i') as i32), modifier::WRITE_BACK)
}

macro_rules! rows {
    ($prefix:literal, $(($name:literal, $section:literal, $bits:literal) = |$f:ident| $form:expr;)*) => {
        vec![$(Row {
            name: $name,
            section: $section,
            since: Since::Version(V7A),
            pattern: Pattern::parse(concat!($prefix, $bits)),
            form: |$f, _| $form.when(if $prefix.as_bytes()[0] == b'c' { $f.byte(b'c') } else { 14 }),
        }),*]
    };
}

macro_rules! both_states {
    ($($rows:tt)*) => {
        /// The rows of ARM state.
        pub fn arm<K: CacheKind>() -> Vec<Row<K>> {
            rows!("cccc ", $($rows)*)
        }

        /// The rows of Thumb state.
        pub fn thumb<K: CacheKind>() -> Vec<Row<K>> {
            rows!("1110 ", $($rows)*)
        }
    };
}

both_states! {
    ("VMLA", "A8.8.337", "1110 0D00 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::multiply_add), operands(f));
    ("VMLS", "A8.8.337", "1110 0D00 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::multiply_subtract), operands(f));
    ("VNMLS", "A8.8.355", "1110 0D01 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::negated_multiply_subtract), operands(f));
    ("VNMLA", "A8.8.355", "1110 0D01 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::negated_multiply_add), operands(f));
    ("VMUL", "A8.8.351", "1110 0D10 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::multiply), operands(f));
    ("VNMUL", "A8.8.355", "1110 0D10 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::negated_multiply), operands(f));
    ("VADD", "A8.8.283", "1110 0D11 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::add), operands(f));
    ("VSUB", "A8.8.415", "1110 0D11 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::subtract), operands(f));
    ("VDIV", "A8.8.312", "1110 1D00 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::divide), operands(f));
    ("VFNMS", "A8.8.318", "1110 1D01 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::negated_fused_subtract), operands(f));
    ("VFNMA", "A8.8.318", "1110 1D01 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::negated_fused_add), operands(f));
    ("VFMA", "A8.8.317", "1110 1D10 nnnn dddd 101z N0M0 mmmm") = |f| vector(data!(scalar::fused_add), operands(f));
    ("VFMS", "A8.8.317", "1110 1D10 nnnn dddd 101z N1M0 mmmm") = |f| vector(data!(scalar::fused_subtract), operands(f));
    ("VMOV", "A8.8.339", "1110 1D11 iiii dddd 101z 0000 iiii") = |f| vector(data!(scalar::immediate), with_immediate(f));
    ("VMOV", "A8.8.340", "1110 1D11 0000 dddd 101z 01M0 mmmm") = |f| vector(data!(scalar::copy), operands(f));
    ("VABS", "A8.8.280", "1110 1D11 0000 dddd 101z 11M0 mmmm") = |f| vector(data!(scalar::absolute), operands(f));
    ("VNEG", "A8.8.354", "1110 1D11 0001 dddd 101z 01M0 mmmm") = |f| vector(data!(scalar::negate), operands(f));
    ("VSQRT", "A8.8.401", "1110 1D11 0001 dddd 101z 11M0 mmmm") = |f| vector(data!(scalar::square_root), operands(f));
    ("VCVTB, VCVTT", "A8.8.311", "1110 1D11 001k dddd 1010 k1M0 mmmm") = |f| vector(data!(scalar::convert_half), of_kind(f));
    ("VCMP, VCMPE", "A8.8.303", "1110 1D11 0100 dddd 101z k1M0 mmmm") = |f| vector(data!(scalar::compare), of_kind(f));
    ("VCMP, VCMPE", "A8.8.303", "1110 1D11 0101 dddd 101z k100 0000") = |f| vector(data!(scalar::compare), Vector { kind: f.byte(b'k') | 2, ..operands(f) });
    ("VCVT", "A8.8.309", "1110 1D11 0111 dddd 101z 11M0 mmmm") = |f| vector(data!(scalar::convert_precision), converted(f));
    ("VCVT", "A8.8.306", "1110 1D11 1000 dddd 101z s1M0 mmmm") = |f| vector(data!(scalar::of_integer), of_integer(f));
    ("VCVT, VCVTR", "A8.8.306", "1110 1D11 110s dddd 101z r1M0 mmmm") = |f| vector(data!(scalar::to_integer), to_integer(f));
    ("VCVT", "A8.8.308", "1110 1D11 1o1U dddd 101z x1j0 iiii") = |f| vector(data!(scalar::convert_fixed), fixed(f));
    ("VMOV", "A8.8.341", "1110 0oo0 nnnn tttt 1011 Nbb1 0000") = |f| move_element(f, false);
    ("VMOV", "A8.8.342", "1110 Uoo1 nnnn tttt 1011 Nbb1 0000") = |f| move_element(f, true);
    ("VDUP", "A8.8.314", "1110 1bQ0 dddd tttt 1011 D0e1 0000") = |f| fill_from_core(f);
    ("VMSR, VMRS", "A8.8.348", "1110 111L rrrr tttt 1010 0001 0000") = |f| system_register(f);
    ("VMOV", "A8.8.343", "1110 000L nnnn tttt 1010 N001 0000") = |f| move_single(f);
    ("VMOV", "A8.8.344", "1100 010L uuuu tttt 101z 00M1 mmmm") = |f| move_pair(f);
    ("VLDR, VSTR", "A8.8.333", "1101 UD0L nnnn dddd 101z iiiiiiii") = |f| transfer_one(f);
    ("VLDM, VSTM, VPUSH, VPOP", "A8.8.332", "1100 1DWL nnnn dddd 101z iiiiiiii") = |f| transfer_up(f);
    ("VLDM, VSTM, VPUSH, VPOP", "A8.8.332", "1101 0D1L nnnn dddd 101z iiiiiiii") = |f| transfer_down(f);
}
