//! The encodings of Advanced SIMD (ARM DDI 0406C, A7.4, A7.7 and A8.8). ARM and Thumb state differ
//! in where their first byte has U.
//!
//! Letters: `D` and `d`, `N` and `n`, `M` and `m` double registers, the highest bit apart; `z` size
//! of elements; `Q` quad registers; `U` unsigned; `i` immediate; `k` kind.

use crate::caches::CacheKind;
use crate::vector::{Operation, Vector, shift, three, two};

use super::decode::Decoded;
use super::execute::vector as handlers;
use super::op::Handler;
use super::pattern::{Fields, Pattern};
use super::table::{Row, Since};
use super::vfp::{data, vector};
use crate::cpu::Architecture::V7A;

fn register(f: &Fields, bit: u8, rest: u8) -> u8 {
    f.byte(bit) << 4 | f.byte(rest)
}

fn undefined<K: CacheKind>() -> Decoded<K> {
    Decoded::new(super::execute::undefined)
}

fn operands(f: &Fields) -> Vector {
    Vector {
        d: register(f, b'D', b'd'),
        n: register(f, b'N', b'n'),
        m: register(f, b'M', b'm'),
        size: f.byte(b'z'),
        quad: f.flag(b'Q'),
        unsigned: f.flag(b'U'),
        kind: f.byte(b'k'),
        ..Vector::default()
    }
}

/// An instruction whose quad registers have even numbers: all of the given ones.
fn even<K: CacheKind>(handler: Handler<K>, o: Vector, quads: [bool; 3]) -> Decoded<K> {
    let odd = [o.d, o.n, o.m].into_iter().zip(quads).any(|(number, quad)| quad && number & 1 != 0);
    if odd { undefined() } else { vector(handler, o) }
}

/// Three registers of the same length, with elements up to a size.
fn same<K: CacheKind>(handler: Handler<K>, f: &Fields, largest: u8, kind: u8) -> Decoded<K> {
    let o = operands(f);
    if o.size > largest {
        return undefined();
    }
    even(handler, Vector { kind, ..o }, [o.quad; 3])
}

/// The same without a size: bits, or floating point.
fn whole<K: CacheKind>(handler: Handler<K>, f: &Fields, size: u8) -> Decoded<K> {
    let o = Vector { size, ..operands(f) };
    even(handler, o, [o.quad; 3])
}

/// Neighbours in double registers.
fn pairwise<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    if f.flag(b'Q') { undefined() } else { same(handler, f, 2, kind) }
}

/// Two registers of multiplied elements: the smallest size is 16 bits.
fn doubling<K: CacheKind>(handler: Handler<K>, f: &Fields) -> Decoded<K> {
    if f.byte(b'z') == 0 { undefined() } else { same(handler, f, 2, 0) }
}

/// A destination that is twice as long; with kind 1 also the first operand.
fn long<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    let o = Vector { kind, ..operands(f) };
    even(handler, o, [true, kind & 1 != 0, false])
}

fn doubling_long<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    let o = Vector { kind, ..operands(f) };
    if o.size == 0 { undefined() } else { even(handler, o, [true, false, false]) }
}

fn high_narrow<K: CacheKind>(f: &Fields, kind: u8) -> Decoded<K> {
    let o = Vector { kind: kind | f.byte(b'U'), ..operands(f) };
    even(data!(three::add_high_narrow), o, [false, true, true])
}

/// The second operand is an element: its place is in `M` and `m`.
fn by_element(f: &Fields) -> Option<Vector> {
    let o = Vector { by_scalar: true, ..operands(f) };
    match o.size {
        1 => Some(Vector { m: o.m & 7, amount: o.m >> 3, ..o }),
        2 => Some(Vector { m: o.m & 15, amount: o.m >> 4, ..o }),
        _ => None,
    }
}

/// Of the same length; quad registers are in `U`.
fn scalar<K: CacheKind>(handler: Handler<K>, f: &Fields, float: bool) -> Decoded<K> {
    let quad = f.flag(b'U');
    match by_element(f) {
        Some(o) if !float || o.size == 2 => {
            even(handler, Vector { quad, unsigned: false, ..o }, [quad, quad, false])
        }
        _ => undefined(),
    }
}

fn scalar_long<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    match by_element(f) {
        Some(o) => even(handler, Vector { kind, ..o }, [true, false, false]),
        None => undefined(),
    }
}

/// The size that the immediate of a shift tells, and the immediate less the bits that tell it.
fn size_of(f: &Fields) -> (u8, u8) {
    let immediate = f.byte(b'i');
    if f.flag(b'L') {
        return (3, immediate);
    }
    let size = 4 - (immediate & 0x38).leading_zeros().min(4) as u8;
    (size, immediate.wrapping_sub(8 << size))
}

fn shift_right<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    let (size, rest) = size_of(f);
    let o = Vector { size, amount: (8u8 << size).wrapping_sub(rest), kind, ..operands(f) };
    even(handler, o, [o.quad, false, o.quad])
}

fn shift_left<K: CacheKind>(handler: Handler<K>, f: &Fields, kind: u8) -> Decoded<K> {
    let (size, amount) = size_of(f);
    let o = Vector { size, amount, kind, ..operands(f) };
    even(handler, o, [o.quad, false, o.quad])
}

/// The operand is twice as long, and a signed one unless that is in `U`.
fn shift_narrow<K: CacheKind>(f: &Fields, kind: u8, unsigned: bool) -> Decoded<K> {
    let (size, rest) = size_of(f);
    let kind = kind | f.byte(b'k');
    let o =
        Vector { size, amount: (8u8 << size).wrapping_sub(rest), kind, unsigned, ..operands(f) };
    even(data!(shift::right_narrow), o, [false, false, true])
}

fn shift_long<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (size, amount) = size_of(f);
    even(data!(shift::left_long), Vector { size, amount, ..operands(f) }, [true, false, false])
}

fn fixed_point<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (size, _) = size_of(f);
    let o = Vector { size, amount: 64 - f.byte(b'i').min(64), ..operands(f) };
    if size == 2 {
        even(data!(shift::convert_fixed), o, [o.quad, false, o.quad])
    } else {
        undefined()
    }
}

fn immediate<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (cmode, op) = (f.byte(b'c'), f.flag(b'o'));
    if (cmode, op) == (15, true) {
        return undefined();
    }
    let o = Vector { n: cmode, unsigned: op, amount: f.byte(b'i'), ..operands(f) };
    even(data!(shift::immediate), o, [o.quad, false, false])
}

/// One operand, with elements of these sizes.
fn one<K: CacheKind>(
    handler: Handler<K>,
    f: &Fields,
    sizes: std::ops::RangeInclusive<u8>,
    kind: u8,
) -> Decoded<K> {
    let o = Vector { kind, ..operands(f) };
    if !sizes.contains(&o.size) {
        return undefined();
    }
    even(handler, o, [o.quad, false, o.quad])
}

/// VREV: elements are smaller than what they are reversed in.
fn reverse<K: CacheKind>(f: &Fields, kind: u8) -> Decoded<K> {
    one(data!(two::reverse), f, 0..=kind - 1, kind)
}

/// VUZP and VZIP of double registers: two elements of 32 bits are for VTRN.
fn permute<K: CacheKind>(handler: Handler<K>, f: &Fields) -> Decoded<K> {
    one(handler, f, 0..=if f.flag(b'Q') { 2 } else { 1 }, 0)
}

fn move_narrow<K: CacheKind>(f: &Fields, kind: u8, unsigned: bool) -> Decoded<K> {
    let o = Vector { kind, unsigned, ..operands(f) };
    if o.size == 3 {
        return undefined();
    }
    even(data!(two::move_narrow), o, [false, false, true])
}

fn table<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let o = operands(f);
    let amount = f.byte(b'l') + 1;
    // A list that runs over the last register is unpredictable; here as on QEMU undefined.
    if o.n + amount > 32 {
        return undefined();
    }
    vector(data!(two::table), Vector { amount, ..o })
}

fn duplicate<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let place = f.byte(b'i');
    let size = place.trailing_zeros() as u8;
    if size > 2 {
        return undefined();
    }
    let o = Vector { size, amount: place >> (size + 1), ..operands(f) };
    even(data!(two::duplicate), o, [o.quad, false, false])
}

fn extract<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let o = Vector { amount: f.byte(b'i'), ..operands(f) };
    if !o.quad && o.amount > 7 {
        return undefined();
    }
    even(data!(two::extract), o, [o.quad; 3])
}

// ---- Loads and stores of elements and structures ----------------------------------------------------

/// Structures of `elements` each, in registers that are `spacing` apart, of `registers` in all.
fn structures<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let align = f.byte(b'a');
    let (elements, spacing, repeats, largest_align) = match f.byte(b'y') {
        0b0111 => (1, 1, 1, 1),
        0b1010 => (1, 1, 2, 2),
        0b0110 => (1, 1, 3, 1),
        0b0010 => (1, 1, 4, 3),
        0b1000 => (2, 1, 1, 2),
        0b1001 => (2, 2, 1, 2),
        0b0011 => (2, 2, 2, 3),
        0b0100 => (3, 1, 1, 1),
        0b0101 => (3, 2, 1, 1),
        0b0000 => (4, 1, 1, 3),
        0b0001 => (4, 2, 1, 3),
        _ => return undefined(),
    };
    let size = f.byte(b'z');
    let d = register(f, b'D', b'd');
    let last = d + (elements - 1) * spacing + repeats - 1;
    if align > largest_align || elements > 1 && size == 3 || last > 31 {
        return undefined();
    }
    let alignment = if align == 0 { 0 } else { 4 << align };
    let list = handlers::List { d, elements, spacing, repeats, size, alignment, index: 0 };
    let handler = if f.flag(b'L') { handlers::load_structures } else { handlers::store_structures };
    moved(handler, f, list)
}

fn moved<K: CacheKind>(handler: Handler<K>, f: &Fields, list: handlers::List) -> Decoded<K> {
    let mut decoded = Decoded::new(handler);
    (decoded.operands.rn, decoded.operands.rm) = (f.rn(), f.rm());
    decoded.operands.immediate = list.pack();
    decoded.reads(&[f.rn(), f.rm()])
}

/// One element of each register.
fn one_lane<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (size, bits) = (f.byte(b'z'), f.byte(b'a'));
    let elements = f.byte(b'y') + 1;
    let index = bits >> (size + 1);
    let wide = size > 0 && bits >> size & 1 != 0;
    let low = bits & ((1 << size) - 1) | if size == 0 { bits & 1 } else { 0 };
    // What the lowest bits ask of the address (A8.8.321 and its kin).
    let alignment = match (elements, size, low) {
        (_, _, 0) => 0,
        (1, 0, _) => return undefined(),
        (1, 1, 1) => 2,
        (1, 2, 3) => 4,
        (1, _, _) => return undefined(),
        (2, 0, 1) => 2,
        (2, 1, 1) => 4,
        (2, 2, 1) => 8,
        (4, 0, 1) => 4,
        (4, 1, 1) => 8,
        (4, 2, 1) => 8,
        (4, 2, 2) => 16,
        _ => return undefined(),
    };
    if elements == 1 && wide {
        return undefined();
    }
    let spacing = 1 + u8::from(wide);
    let d = register(f, b'D', b'd');
    if d + (elements - 1) * spacing > 31 {
        return undefined();
    }
    let list = handlers::List { d, elements, spacing, repeats: 1, size, alignment, index };
    moved(if f.flag(b'L') { handlers::load_lane } else { handlers::store_lane }, f, list)
}

/// One structure to all elements.
fn all_lanes<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let elements = f.byte(b'y') + 1;
    let (size, aligned) = (f.byte(b'z'), f.flag(b'a'));
    let bytes = elements << size.min(2);
    let alignment = match (elements, size, aligned) {
        (4, 3, true) => 16,
        (4, 3, false) | (1 | 2, 3, _) | (1, 0, true) | (3, _, true) | (3, 3, _) => {
            return undefined();
        }
        (4, 2, true) => 8,
        (_, _, true) => bytes,
        _ => 0,
    };
    let size = size.min(2);
    let d = register(f, b'D', b'd');
    // T: of one element two registers, of more every other one.
    let (spacing, repeats) = match (elements, f.flag(b'T')) {
        (1, both) => (1, 1 + u8::from(both)),
        (_, apart) => (1 + u8::from(apart), 1),
    };
    if d + (elements - 1) * spacing + repeats - 1 > 31 {
        return undefined();
    }
    let list = handlers::List { d, elements, spacing, repeats, size, alignment, index: 0 };
    moved(handlers::load_all_lanes, f, list)
}

macro_rules! rows {
    ($any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal,
     $(($name:literal, $section:literal, $first:ident $bits:literal) = |$f:ident| $form:expr;)*) => {
        vec![$(Row {
            name: $name,
            section: $section,
            since: Since::Version(V7A),
            pattern: Pattern::parse(first!($first, $any, $zero, $one, $immediate, $memory, $bits)),
            form: |$f, _| $form,
        }),*]
    };
}

/// The first byte: with any U, with U zero or one, with a bit of an immediate, of a load or store.
macro_rules! first {
    (any, $any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal, $bits:literal) => {
        concat!($any, $bits)
    };
    (zero, $any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal, $bits:literal) => {
        concat!($zero, $bits)
    };
    (one, $any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal, $bits:literal) => {
        concat!($one, $bits)
    };
    (immediate, $any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal, $bits:literal) => {
        concat!($immediate, $bits)
    };
    (memory, $any:literal, $zero:literal, $one:literal, $immediate:literal, $memory:literal, $bits:literal) => {
        concat!($memory, $bits)
    };
}

macro_rules! both_states {
    ($($rows:tt)*) => {
        /// The rows of ARM state.
        pub fn arm<K: CacheKind>() -> Vec<Row<K>> {
            rows!("1111 001U ", "1111 0010 ", "1111 0011 ", "1111 001i ", "1111 0100 ", $($rows)*)
        }

        /// The rows of Thumb state.
        pub fn thumb<K: CacheKind>() -> Vec<Row<K>> {
            rows!("111U 1111 ", "1110 1111 ", "1111 1111 ", "111i 1111 ", "1111 1001 ", $($rows)*)
        }
    };
}

both_states! {
    // Three registers of the same length (A7.4.1).
    ("VHADD", "A8.8.319", any "0Dzz nnnn dddd 0000 NQM0 mmmm") = |f| same(data!(three::halving_add), f, 2, 0);
    ("VQADD", "A8.8.357", any "0Dzz nnnn dddd 0000 NQM1 mmmm") = |f| same(data!(three::saturating_add), f, 3, 0);
    ("VRHADD", "A8.8.374", any "0Dzz nnnn dddd 0001 NQM0 mmmm") = |f| same(data!(three::rounding_halving_add), f, 2, 0);
    ("VAND", "A8.8.287", zero "0D00 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::and), f, 3);
    ("VBIC", "A8.8.289", zero "0D01 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::bit_clear), f, 3);
    ("VORR, VMOV", "A8.8.360", zero "0D10 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::or), f, 3);
    ("VORN", "A8.8.359", zero "0D11 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::or_not), f, 3);
    ("VEOR", "A8.8.315", one "0D00 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::exclusive_or), f, 3);
    ("VBSL", "A8.8.290", one "0D01 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::bitwise_select), f, 3);
    ("VBIT", "A8.8.290", one "0D10 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::insert_if_true), f, 3);
    ("VBIF", "A8.8.290", one "0D11 nnnn dddd 0001 NQM1 mmmm") = |f| whole(data!(three::insert_if_false), f, 3);
    ("VHSUB", "A8.8.319", any "0Dzz nnnn dddd 0010 NQM0 mmmm") = |f| same(data!(three::halving_subtract), f, 2, 0);
    ("VQSUB", "A8.8.371", any "0Dzz nnnn dddd 0010 NQM1 mmmm") = |f| same(data!(three::saturating_subtract), f, 3, 0);
    ("VCGT", "A8.8.295", any "0Dzz nnnn dddd 0011 NQM0 mmmm") = |f| same(data!(three::greater), f, 2, 0);
    ("VCGE", "A8.8.293", any "0Dzz nnnn dddd 0011 NQM1 mmmm") = |f| same(data!(three::greater_or_equal), f, 2, 0);
    ("VSHL", "A8.8.396", any "0Dzz nnnn dddd 0100 NQM0 mmmm") = |f| same(data!(three::shift), f, 3, 0);
    ("VQSHL", "A8.8.369", any "0Dzz nnnn dddd 0100 NQM1 mmmm") = |f| same(data!(three::shift), f, 3, 2);
    ("VRSHL", "A8.8.375", any "0Dzz nnnn dddd 0101 NQM0 mmmm") = |f| same(data!(three::shift), f, 3, 1);
    ("VQRSHL", "A8.8.366", any "0Dzz nnnn dddd 0101 NQM1 mmmm") = |f| same(data!(three::shift), f, 3, 3);
    ("VMAX", "A8.8.334", any "0Dzz nnnn dddd 0110 NQM0 mmmm") = |f| same(data!(three::maximum), f, 2, 0);
    ("VMIN", "A8.8.334", any "0Dzz nnnn dddd 0110 NQM1 mmmm") = |f| same(data!(three::minimum), f, 2, 0);
    ("VABD", "A8.8.278", any "0Dzz nnnn dddd 0111 NQM0 mmmm") = |f| same(data!(three::absolute_difference), f, 2, 0);
    ("VABA", "A8.8.277", any "0Dzz nnnn dddd 0111 NQM1 mmmm") = |f| same(data!(three::add_absolute_difference), f, 2, 0);
    ("VADD", "A8.8.282", zero "0Dzz nnnn dddd 1000 NQM0 mmmm") = |f| same(data!(three::add), f, 3, 0);
    ("VSUB", "A8.8.414", one "0Dzz nnnn dddd 1000 NQM0 mmmm") = |f| same(data!(three::subtract), f, 3, 0);
    ("VTST", "A8.8.421", zero "0Dzz nnnn dddd 1000 NQM1 mmmm") = |f| same(data!(three::test), f, 2, 0);
    ("VCEQ", "A8.8.291", one "0Dzz nnnn dddd 1000 NQM1 mmmm") = |f| same(data!(three::equal), f, 2, 0);
    ("VMLA", "A8.8.336", zero "0Dzz nnnn dddd 1001 NQM0 mmmm") = |f| same(data!(three::multiply_add), f, 2, 0);
    ("VMLS", "A8.8.336", one "0Dzz nnnn dddd 1001 NQM0 mmmm") = |f| same(data!(three::multiply_subtract), f, 2, 0);
    ("VMUL", "A8.8.350", zero "0Dzz nnnn dddd 1001 NQM1 mmmm") = |f| same(data!(three::multiply), f, 2, 0);
    ("VMUL", "A8.8.350", one "0Dzz nnnn dddd 1001 NQM1 mmmm") = |f| same(data!(three::multiply_polynomials), f, 0, 0);
    ("VPMAX", "A8.8.364", any "0Dzz nnnn dddd 1010 NQM0 mmmm") = |f| pairwise(data!(three::pairwise_extreme), f, 0);
    ("VPMIN", "A8.8.364", any "0Dzz nnnn dddd 1010 NQM1 mmmm") = |f| pairwise(data!(three::pairwise_extreme), f, 1);
    ("VQDMULH", "A8.8.360", zero "0Dzz nnnn dddd 1011 NQM0 mmmm") = |f| doubling(data!(three::doubling_multiply_high), f);
    ("VQRDMULH", "A8.8.365", one "0Dzz nnnn dddd 1011 NQM0 mmmm") = |f| doubling(data!(three::rounding_doubling_multiply_high), f);
    ("VPADD", "A8.8.362", zero "0Dzz nnnn dddd 1011 NQM1 mmmm") = |f| pairwise(data!(three::pairwise_add), f, 0);
    ("VFMA", "A8.8.317", zero "0D00 nnnn dddd 1100 NQM1 mmmm") = |f| whole(data!(three::float_fused_add), f, 2);
    ("VFMS", "A8.8.317", zero "0D10 nnnn dddd 1100 NQM1 mmmm") = |f| whole(data!(three::float_fused_subtract), f, 2);
    ("VADD", "A8.8.283", zero "0D00 nnnn dddd 1101 NQM0 mmmm") = |f| whole(data!(three::float_add), f, 2);
    ("VSUB", "A8.8.415", zero "0D10 nnnn dddd 1101 NQM0 mmmm") = |f| whole(data!(three::float_subtract), f, 2);
    ("VPADD", "A8.8.363", one "0D00 nnnn dddd 1101 N0M0 mmmm") = |f| vector(data!(three::float_pairwise), operands(f));
    ("VABD", "A8.8.279", one "0D10 nnnn dddd 1101 NQM0 mmmm") = |f| whole(data!(three::float_absolute_difference), f, 2);
    ("VMLA", "A8.8.337", zero "0D00 nnnn dddd 1101 NQM1 mmmm") = |f| whole(data!(three::float_multiply_add), f, 2);
    ("VMLS", "A8.8.337", zero "0D10 nnnn dddd 1101 NQM1 mmmm") = |f| whole(data!(three::float_multiply_subtract), f, 2);
    ("VMUL", "A8.8.351", one "0D00 nnnn dddd 1101 NQM1 mmmm") = |f| whole(data!(three::float_multiply), f, 2);
    ("VCEQ", "A8.8.291", zero "0D00 nnnn dddd 1110 NQM0 mmmm") = |f| whole(data!(three::float_equal), f, 2);
    ("VCGE", "A8.8.293", one "0D00 nnnn dddd 1110 NQM0 mmmm") = |f| whole(data!(three::float_greater_or_equal), f, 2);
    ("VCGT", "A8.8.295", one "0D10 nnnn dddd 1110 NQM0 mmmm") = |f| whole(data!(three::float_greater), f, 2);
    ("VACGE", "A8.8.281", one "0D00 nnnn dddd 1110 NQM1 mmmm") = |f| whole(data!(three::float_absolute_greater_or_equal), f, 2);
    ("VACGT", "A8.8.281", one "0D10 nnnn dddd 1110 NQM1 mmmm") = |f| whole(data!(three::float_absolute_greater), f, 2);
    ("VMAX", "A8.8.335", zero "0D00 nnnn dddd 1111 NQM0 mmmm") = |f| whole(data!(three::float_maximum), f, 2);
    ("VMIN", "A8.8.335", zero "0D10 nnnn dddd 1111 NQM0 mmmm") = |f| whole(data!(three::float_minimum), f, 2);
    ("VPMAX", "A8.8.365", one "0D00 nnnn dddd 1111 N0M0 mmmm") = |f| vector(data!(three::float_pairwise), Vector { kind: 1, ..operands(f) });
    ("VPMIN", "A8.8.365", one "0D10 nnnn dddd 1111 N0M0 mmmm") = |f| vector(data!(three::float_pairwise), Vector { kind: 2, ..operands(f) });
    ("VRECPS", "A8.8.372", zero "0D00 nnnn dddd 1111 NQM1 mmmm") = |f| whole(data!(three::reciprocal_step), f, 2);
    ("VRSQRTS", "A8.8.378", zero "0D10 nnnn dddd 1111 NQM1 mmmm") = |f| whole(data!(three::root_step), f, 2);

    // Three registers of different lengths (A7.4.2).
    ("VADDL", "A8.8.285", any "1Dzz nnnn dddd 0000 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::add_long), f, 0);
    ("VADDW", "A8.8.285", any "1Dzz nnnn dddd 0001 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::add_long), f, 1);
    ("VSUBL", "A8.8.417", any "1Dzz nnnn dddd 0010 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::subtract_long), f, 0);
    ("VSUBW", "A8.8.417", any "1Dzz nnnn dddd 0011 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::subtract_long), f, 1);
    ("VADDHN, VRADDHN", "A8.8.284", any "1Dzz nnnn dddd 0100 N0M0 mmmm ! ---- ---- --11") = |f| high_narrow(f, 0);
    ("VSUBHN, VRSUBHN", "A8.8.416", any "1Dzz nnnn dddd 0110 N0M0 mmmm ! ---- ---- --11") = |f| high_narrow(f, 2);
    ("VABAL", "A8.8.277", any "1Dzz nnnn dddd 0101 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::add_absolute_difference_long), f, 0);
    ("VABDL", "A8.8.278", any "1Dzz nnnn dddd 0111 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::absolute_difference_long), f, 0);
    ("VMLAL", "A8.8.336", any "1Dzz nnnn dddd 1000 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::multiply_add_long), f, 0);
    ("VMLSL", "A8.8.336", any "1Dzz nnnn dddd 1010 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::multiply_subtract_long), f, 0);
    ("VQDMLAL", "A8.8.358", zero "1Dzz nnnn dddd 1001 N0M0 mmmm ! ---- ---- --11") = |f| doubling_long(data!(three::doubling_multiply_long), f, 1);
    ("VQDMLSL", "A8.8.358", zero "1Dzz nnnn dddd 1011 N0M0 mmmm ! ---- ---- --11") = |f| doubling_long(data!(three::doubling_multiply_long), f, 2);
    ("VMULL", "A8.8.350", any "1Dzz nnnn dddd 1100 N0M0 mmmm ! ---- ---- --11") = |f| long(data!(three::multiply_long), f, 0);
    ("VQDMULL", "A8.8.361", zero "1Dzz nnnn dddd 1101 N0M0 mmmm ! ---- ---- --11") = |f| doubling_long(data!(three::doubling_multiply_long), f, 0);
    ("VMULL", "A8.8.350", zero "1D00 nnnn dddd 1110 N0M0 mmmm") = |f| long(data!(three::multiply_polynomials_long), f, 0);

    // Two registers and a scalar (A7.4.3).
    ("VMLA", "A8.8.338", any "1Dzz nnnn dddd 0000 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::multiply_add), f, false);
    ("VMLA", "A8.8.338", any "1Dzz nnnn dddd 0001 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::float_multiply_add), f, true);
    ("VMLAL", "A8.8.338", any "1Dzz nnnn dddd 0010 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::multiply_add_long), f, 0);
    ("VQDMLAL", "A8.8.358", zero "1Dzz nnnn dddd 0011 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::doubling_multiply_long), f, 1);
    ("VMLS", "A8.8.338", any "1Dzz nnnn dddd 0100 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::multiply_subtract), f, false);
    ("VMLS", "A8.8.338", any "1Dzz nnnn dddd 0101 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::float_multiply_subtract), f, true);
    ("VMLSL", "A8.8.338", any "1Dzz nnnn dddd 0110 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::multiply_subtract_long), f, 0);
    ("VQDMLSL", "A8.8.358", zero "1Dzz nnnn dddd 0111 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::doubling_multiply_long), f, 2);
    ("VMUL", "A8.8.352", any "1Dzz nnnn dddd 1000 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::multiply), f, false);
    ("VMUL", "A8.8.352", any "1Dzz nnnn dddd 1001 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::float_multiply), f, true);
    ("VMULL", "A8.8.352", any "1Dzz nnnn dddd 1010 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::multiply_long), f, 0);
    ("VQDMULL", "A8.8.361", zero "1Dzz nnnn dddd 1011 N1M0 mmmm ! ---- ---- --11") = |f| scalar_long(data!(three::doubling_multiply_long), f, 0);
    ("VQDMULH", "A8.8.360", any "1Dzz nnnn dddd 1100 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::doubling_multiply_high), f, false);
    ("VQRDMULH", "A8.8.365", any "1Dzz nnnn dddd 1101 N1M0 mmmm ! ---- ---- --11") = |f| scalar(data!(three::rounding_doubling_multiply_high), f, false);

    // Two registers and a shift amount (A7.4.4).
    ("VSHR", "A8.8.398", any "1Dii iiii dddd 0000 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_right(data!(shift::right), f, 0);
    ("VSRA", "A8.8.402", any "1Dii iiii dddd 0001 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_right(data!(shift::right), f, 2);
    ("VRSHR", "A8.8.376", any "1Dii iiii dddd 0010 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_right(data!(shift::right), f, 1);
    ("VRSRA", "A8.8.380", any "1Dii iiii dddd 0011 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_right(data!(shift::right), f, 3);
    ("VSRI", "A8.8.403", one "1Dii iiii dddd 0100 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_right(data!(shift::right_insert), f, 0);
    ("VSHL", "A8.8.395", zero "1Dii iiii dddd 0101 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_left(data!(shift::left), f, 0);
    ("VSLI", "A8.8.400", one "1Dii iiii dddd 0101 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_left(data!(shift::left_insert), f, 0);
    ("VQSHLU", "A8.8.370", one "1Dii iiii dddd 0110 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| signed_shift_left(f);
    ("VQSHL", "A8.8.370", any "1Dii iiii dddd 0111 LQM1 mmmm ! ---- ---- --00 0--- ---- ---- 0") = |f| shift_left(data!(shift::saturating_left), f, 0);
    ("VSHRN, VRSHRN", "A8.8.399", zero "1Dii iiii dddd 1000 0kM1 mmmm ! ---- ---- --00 0") = |f| shift_narrow(f, 0, true);
    ("VQSHRUN, VQRSHRUN", "A8.8.368", one "1Dii iiii dddd 1000 0kM1 mmmm ! ---- ---- --00 0") = |f| shift_narrow(f, 6, false);
    ("VQSHRN, VQRSHRN", "A8.8.368", any "1Dii iiii dddd 1001 0kM1 mmmm ! ---- ---- --00 0") = |f| shift_narrow(f, 2, f.flag(b'U'));
    ("VSHLL, VMOVL", "A8.8.397", any "1Dii iiii dddd 1010 00M1 mmmm ! ---- ---- --00 0") = |f| shift_long(f);
    ("VCVT", "A8.8.307", any "1Dii iiii dddd 111k 0QM1 mmmm ! ---- ---- --00 0") = |f| fixed_point(f);

    // One register and an immediate (A7.4.6).
    ("VMOV, VMVN, VORR, VBIC", "A8.8.339", immediate "1D00 0iii dddd cccc 0Qo1 iiii") = |f| immediate(f);

    // Two registers (A7.4.5).
    ("VREV64", "A8.8.373", one "1D11 zz00 dddd 0000 0QM0 mmmm") = |f| reverse(f, 3);
    ("VREV32", "A8.8.373", one "1D11 zz00 dddd 0000 1QM0 mmmm") = |f| reverse(f, 2);
    ("VREV16", "A8.8.373", one "1D11 zz00 dddd 0001 0QM0 mmmm") = |f| reverse(f, 1);
    ("VPADDL", "A8.8.363", one "1D11 zz00 dddd 0010 UQM0 mmmm") = |f| one(data!(two::pairwise_add_long), f, 0..=2, 0);
    ("VCLS", "A8.8.299", one "1D11 zz00 dddd 0100 0QM0 mmmm") = |f| one(data!(two::count_leading_sign), f, 0..=2, 0);
    ("VCLZ", "A8.8.302", one "1D11 zz00 dddd 0100 1QM0 mmmm") = |f| one(data!(two::count_leading_zeros), f, 0..=2, 0);
    ("VCNT", "A8.8.304", one "1D11 zz00 dddd 0101 0QM0 mmmm") = |f| one(data!(two::count_ones), f, 0..=0, 0);
    ("VMVN", "A8.8.354", one "1D11 zz00 dddd 0101 1QM0 mmmm") = |f| one(data!(two::not), f, 0..=0, 0);
    ("VPADAL", "A8.8.361", one "1D11 zz00 dddd 0110 UQM0 mmmm") = |f| one(data!(two::pairwise_add_long), f, 0..=2, 1);
    ("VQABS", "A8.8.356", one "1D11 zz00 dddd 0111 0QM0 mmmm") = |f| one(data!(two::saturating_absolute), f, 0..=2, 0);
    ("VQNEG", "A8.8.362", one "1D11 zz00 dddd 0111 1QM0 mmmm") = |f| one(data!(two::saturating_negate), f, 0..=2, 0);
    ("VCGT, VCGE", "A8.8.296", one "1D11 zz01 dddd 0000 kQM0 mmmm") = |f| one(data!(two::compare_with_zero), f, 0..=2, f.byte(b'k'));
    ("VCEQ, VCLE", "A8.8.292", one "1D11 zz01 dddd 0001 kQM0 mmmm") = |f| one(data!(two::compare_with_zero), f, 0..=2, 2 + f.byte(b'k'));
    ("VCLT", "A8.8.301", one "1D11 zz01 dddd 0010 0QM0 mmmm") = |f| one(data!(two::compare_with_zero), f, 0..=2, 4);
    ("VABS", "A8.8.280", one "1D11 zz01 dddd 0011 0QM0 mmmm") = |f| one(data!(two::absolute), f, 0..=2, 0);
    ("VNEG", "A8.8.355", one "1D11 zz01 dddd 0011 1QM0 mmmm") = |f| one(data!(two::negate), f, 0..=2, 0);
    ("VCGT, VCGE", "A8.8.296", one "1D11 zz01 dddd 0100 kQM0 mmmm") = |f| one(data!(two::float_compare_with_zero), f, 2..=2, f.byte(b'k'));
    ("VCEQ, VCLE", "A8.8.292", one "1D11 zz01 dddd 0101 kQM0 mmmm") = |f| one(data!(two::float_compare_with_zero), f, 2..=2, 2 + f.byte(b'k'));
    ("VCLT", "A8.8.301", one "1D11 zz01 dddd 0110 0QM0 mmmm") = |f| one(data!(two::float_compare_with_zero), f, 2..=2, 4);
    ("VABS", "A8.8.280", one "1D11 zz01 dddd 0111 0QM0 mmmm") = |f| one(data!(two::float_absolute), f, 2..=2, 0);
    ("VNEG", "A8.8.355", one "1D11 zz01 dddd 0111 1QM0 mmmm") = |f| one(data!(two::float_negate), f, 2..=2, 0);
    ("VSWP", "A8.8.418", one "1D11 zz10 dddd 0000 0QM0 mmmm") = |f| one(data!(two::swap), f, 0..=0, 0);
    ("VTRN", "A8.8.420", one "1D11 zz10 dddd 0000 1QM0 mmmm") = |f| one(data!(two::transpose), f, 0..=2, 0);
    ("VUZP", "A8.8.422", one "1D11 zz10 dddd 0001 0QM0 mmmm") = |f| permute(data!(two::unzip), f);
    ("VZIP", "A8.8.423", one "1D11 zz10 dddd 0001 1QM0 mmmm") = |f| permute(data!(two::zip), f);
    ("VMOVN", "A8.8.347", one "1D11 zz10 dddd 0010 00M0 mmmm") = |f| move_narrow(f, 0, true);
    ("VQMOVUN", "A8.8.361", one "1D11 zz10 dddd 0010 01M0 mmmm") = |f| move_narrow(f, 6, false);
    ("VQMOVN", "A8.8.361", one "1D11 zz10 dddd 0010 1UM0 mmmm") = |f| move_narrow(f, 2, f.flag(b'U'));
    ("VSHLL", "A8.8.397", one "1D11 zz10 dddd 0011 00M0 mmmm") = |f| shift_long_whole(f);
    ("VCVT", "A8.8.310", one "1D11 0110 dddd 0110 00M0 mmmm") = |f| even(data!(two::convert_half), Vector { kind: 1, ..operands(f) }, [false, false, true]);
    ("VCVT", "A8.8.310", one "1D11 0110 dddd 0111 00M0 mmmm") = |f| even(data!(two::convert_half), operands(f), [true, false, false]);
    ("VRECPE", "A8.8.371", one "1D11 zz11 dddd 0100 0QM0 mmmm") = |f| one(data!(two::reciprocal_estimate), f, 2..=2, 0);
    ("VRSQRTE", "A8.8.377", one "1D11 zz11 dddd 0100 1QM0 mmmm") = |f| one(data!(two::root_estimate), f, 2..=2, 0);
    ("VRECPE, VRSQRTE", "A8.8.371", one "1D11 zz11 dddd 0101 kQM0 mmmm") = |f| one(data!(two::float_estimate), f, 2..=2, f.byte(b'k'));
    ("VCVT", "A8.8.305", one "1D11 zz11 dddd 011k UQM0 mmmm") = |f| one(data!(two::convert_integer), f, 2..=2, f.byte(b'k'));

    // The rest (A7.4).
    ("VEXT", "A8.8.316", zero "1D11 nnnn dddd iiii NQM0 mmmm") = |f| extract(f);
    ("VTBL, VTBX", "A8.8.419", one "1D11 nnnn dddd 10ll NkM0 mmmm") = |f| table(f);
    ("VDUP", "A8.8.313", one "1D11 iiii dddd 1100 0QM0 mmmm") = |f| duplicate(f);

    // Elements and structures (A7.7).
    ("VLD1, VLD2, VLD3, VLD4, VST1, VST2, VST3, VST4", "A8.8.320", memory "0DL0 nnnn dddd yyyy zzaa mmmm") = |f| structures(f);
    ("VLD1, VLD2, VLD3, VLD4, VST1, VST2, VST3, VST4", "A8.8.321", memory "1DL0 nnnn dddd zzyy aaaa mmmm ! ---- ---- ---- ---- ---- 11") = |f| one_lane(f);
    ("VLD1, VLD2, VLD3, VLD4", "A8.8.322", memory "1D10 nnnn dddd 11yy zzTa mmmm") = |f| all_lanes(f);
}

/// VQSHLU: signed operands whatever U says.
fn signed_shift_left<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let (size, amount) = size_of(f);
    let o = Vector { size, amount, kind: 1, unsigned: false, ..operands(f) };
    even(data!(shift::saturating_left), o, [o.quad, false, o.quad])
}

/// VSHLL by the whole size of an element.
fn shift_long_whole<K: CacheKind>(f: &Fields) -> Decoded<K> {
    let o = operands(f);
    if o.size == 3 {
        return undefined();
    }
    even(data!(shift::left_long), Vector { amount: 8 << o.size, ..o }, [true, false, false])
}
