//! The encodings of ARM instructions (ARM DDI 0100I, A3 and A4.1).
//!
//! Letters: `c` condition; `n` Rn, `d` Rd, `m` Rm, `s` Rs; `e` Rd of a pair, halved; `i` immediate;
//! `r` rotation, `a` shift amount, `t` shift type; `l` register list; `k` byte mask of a status
//! register; `S` flags are set; `R` SPSR; `P` offset before the access, `U` offset added, `W` base
//! written back; `B` byte; `x`, `y` upper half of Rm, of Rs; `o`, `q` first and second opcode of a
//! coprocessor operation. Of MRS and MSR, `b` says that `x` and `k` are the number of a register of
//! another mode.
//!
//! What the manual calls unpredictable is not set apart: the rows take it as the cores do.

use crate::caches::CacheKind;
use crate::cpu::Architecture::{V4, V4T, V5T, V5TE, V7A};

use super::decode::{Decoded, Decoder};
use super::execute::alu::{
    ADC, ADD, AND, BIC, CMN, CMP, EOR, MOV, MVN, ORR, RSB, RSC, SBC, SUB, TEQ, TST,
};
use super::execute::{branch as branches, multiply as multiplies};
use super::forms::*;
use super::forms_v7::{banked_read, banked_register, banked_write};
use super::op::{CoprocessorAccess, Handler, modifier};
use super::pattern::{Fields, Pattern};
use super::table::{Form, Row, Since};
use super::{a32_v7, neon};

fn row<K: CacheKind>(
    name: &'static str,
    section: &'static str,
    since: Since,
    pattern: &str,
    form: Form<K>,
) -> Row<K> {
    Row { name, section, since, pattern: Pattern::parse(pattern), form }
}

/// Rows of instructions that have a condition.
macro_rules! rows {
    ($(($name:expr, $section:literal, $since:expr, $pattern:expr) = |$f:pat_param, $d:pat_param| $form:expr;)*) => {
        [$(row($name, $section, $since, $pattern, |fields, decoder| {
            let ($f, $d) = (fields, decoder);
            ($form).when(fields.byte(b'c'))
        })),*]
    };
}

const ALL: Since = Since::Version(V4);
const T: Since = Since::Version(V4T);
const V5: Since = Since::Version(V5T);
const E: Since = Since::Version(V5TE);
const OLD: Since = Since::Until(V5TE);

/// All encodings with a condition.
pub fn conditional<K: CacheKind>() -> impl Iterator<Item = Row<K>> {
    data_processing_rows()
        .into_iter()
        .flatten()
        .chain(multiplies_rows())
        .chain(miscellaneous_rows())
        .chain(words_and_bytes_rows().into_iter().flatten())
        .chain(halves_and_doubles_rows().into_iter().flatten())
        .chain(blocks_rows())
        .chain(branches_and_calls_rows())
        .chain(coprocessors_rows())
        .chain(a32_v7::conditional())
}

// ---- data processing (A3.4) -----------------------------------------------------------------------

/// The three rows of an operation, which differ in the shifter operand: a constant (A5.1.3), a
/// register shifted by a constant (A5.1.4, 5, 7, 9, 11, 13), a register shifted by a register
/// (A5.1.6, 8, 10, 12).
macro_rules! data_processing {
    ($operation:ident, $section:literal, $pattern:literal) => {
        rows! {
            (stringify!($operation), $section, ALL, concat!("cccc 001 ", $pattern, " rrrr iiiiiiii")) = |f, d| {
                operate::<K, $operation>(f, d, rotated(f.bits(b'i'), f.bits(b'r')))
            };
            (stringify!($operation), $section, ALL, concat!("cccc 000 ", $pattern, " aaaaa tt 0 mmmm")) = |f, d| {
                operate::<K, $operation>(f, d, Operand::Shifted(f.rm(), f.byte(b't'), f.byte(b'a')))
            };
            (stringify!($operation), $section, ALL, concat!("cccc 000 ", $pattern, " ssss 0 tt 1 mmmm")) = |f, d| {
                operate::<K, $operation>(f, d, Operand::ShiftedByRegister(f.rm(), f.byte(b't'), f.rs()))
            };
        }
    };
}

fn operate<K: CacheKind, const OPERATION: u8>(
    f: &Fields,
    d: &Decoder<K>,
    operand: Operand,
) -> Decoded<K> {
    // Comparisons have no other form than the one that sets the flags.
    let flags = f.flag(b'S') || matches!(OPERATION, TST | TEQ | CMP | CMN);
    data_processing(&d.timing, OPERATION, flags, (f.rd(), f.rn()), operand)
}

fn data_processing_rows<K: CacheKind>() -> [[Row<K>; 3]; 16] {
    [
        data_processing!(AND, "A4.1.4", "0000 S nnnn dddd"),
        data_processing!(EOR, "A4.1.18", "0001 S nnnn dddd"),
        data_processing!(SUB, "A4.1.106", "0010 S nnnn dddd"),
        data_processing!(RSB, "A4.1.60", "0011 S nnnn dddd"),
        data_processing!(ADD, "A4.1.3", "0100 S nnnn dddd"),
        data_processing!(ADC, "A4.1.2", "0101 S nnnn dddd"),
        data_processing!(SBC, "A4.1.65", "0110 S nnnn dddd"),
        data_processing!(RSC, "A4.1.61", "0111 S nnnn dddd"),
        data_processing!(TST, "A4.1.117", "1000 1 nnnn ----"),
        data_processing!(TEQ, "A4.1.116", "1001 1 nnnn ----"),
        data_processing!(CMP, "A4.1.15", "1010 1 nnnn ----"),
        data_processing!(CMN, "A4.1.14", "1011 1 nnnn ----"),
        data_processing!(ORR, "A4.1.42", "1100 S nnnn dddd"),
        data_processing!(MOV, "A4.1.35", "1101 S ---- dddd"),
        data_processing!(BIC, "A4.1.6", "1110 S nnnn dddd"),
        data_processing!(MVN, "A4.1.41", "1111 S ---- dddd"),
    ]
}

// ---- multiplies (A3.5) ----------------------------------------------------------------------------

fn of(f: &Fields) -> Factors {
    Factors { rd: f.rd(), rn: f.rn(), rm: f.rm(), rs: f.rs() }
}

/// Destination, Rm, Rn.
fn dmn(f: &Fields) -> (u8, u8, u8) {
    (f.rd(), f.rm(), f.rn())
}

fn multiplies_rows<K: CacheKind>() -> [Row<K>; 16] {
    rows! {
        ("MUL", "A4.1.40", ALL, "cccc 0000 000 S dddd ---- ssss 1001 mmmm") = |f, d| multiply(&d.timing, false, f.flag(b'S'), of(f));
        ("MLA", "A4.1.34", ALL, "cccc 0000 001 S dddd nnnn ssss 1001 mmmm") = |f, d| multiply(&d.timing, true, f.flag(b'S'), of(f));
        ("UMULL", "A4.1.129", ALL, "cccc 0000 100 S dddd nnnn ssss 1001 mmmm") = |f, d| multiply_long(&d.timing, false, false, f.flag(b'S'), of(f));
        ("UMLAL", "A4.1.128", ALL, "cccc 0000 101 S dddd nnnn ssss 1001 mmmm") = |f, d| multiply_long(&d.timing, false, true, f.flag(b'S'), of(f));
        ("SMULL", "A4.1.87", ALL, "cccc 0000 110 S dddd nnnn ssss 1001 mmmm") = |f, d| multiply_long(&d.timing, true, false, f.flag(b'S'), of(f));
        ("SMLAL", "A4.1.76", ALL, "cccc 0000 111 S dddd nnnn ssss 1001 mmmm") = |f, d| multiply_long(&d.timing, true, true, f.flag(b'S'), of(f));
        ("SMLAxy", "A4.1.74", E, "cccc 0001 0000 dddd nnnn ssss 1 y x 0 mmmm") = |f, d| multiply_half(&d.timing, halves!(f, half_accumulate), Addend::Word, of(f));
        ("SMLAWy", "A4.1.79", E, "cccc 0001 0010 dddd nnnn ssss 1 y 0 0 mmmm") = |f, d| multiply_half(&d.timing, halves!(f, y, wide_accumulate), Addend::Word, of(f));
        ("SMULWy", "A4.1.88", E, "cccc 0001 0010 dddd ---- ssss 1 y 1 0 mmmm") = |f, d| multiply_half(&d.timing, halves!(f, y, wide_multiply), Addend::None, of(f));
        ("SMLALxy", "A4.1.77", E, "cccc 0001 0100 dddd nnnn ssss 1 y x 0 mmmm") = |f, d| multiply_half(&d.timing, halves!(f, half_accumulate_long), Addend::Long, of(f));
        ("SMULxy", "A4.1.86", E, "cccc 0001 0110 dddd ---- ssss 1 y x 0 mmmm") = |f, d| multiply_half(&d.timing, halves!(f, half_multiply), Addend::None, of(f));
        ("QADD", "A4.1.46", E, "cccc 0001 0000 nnnn dddd ---- 0101 mmmm") = |f, d| saturating(&d.timing, multiplies::saturating::<K, false, false>, dmn(f));
        ("QSUB", "A4.1.52", E, "cccc 0001 0010 nnnn dddd ---- 0101 mmmm") = |f, d| saturating(&d.timing, multiplies::saturating::<K, false, true>, dmn(f));
        ("QDADD", "A4.1.50", E, "cccc 0001 0100 nnnn dddd ---- 0101 mmmm") = |f, d| saturating(&d.timing, multiplies::saturating::<K, true, false>, dmn(f));
        ("QDSUB", "A4.1.51", E, "cccc 0001 0110 nnnn dddd ---- 0101 mmmm") = |f, d| saturating(&d.timing, multiplies::saturating::<K, true, true>, dmn(f));
        ("CLZ", "A4.1.13", V5, "cccc 0001 0110 ---- dddd ---- 0001 mmmm") = |f, _| count_leading_zeros(f.rd(), f.rm());
    }
}

// ---- status registers, exchanging branches, swaps (A3.9, A3.3, A3.13) -----------------------------

fn miscellaneous_rows<K: CacheKind>() -> [Row<K>; 9] {
    rows! {
        ("MRS", "A4.1.38", ALL, "cccc 0001 0 R 00 kkkk dddd --bx 0000 ----") = |f, d| match banked_register(f, d) {
            Some(number) => banked_read(&d.timing, f.flag(b'R'), number, f.rd()),
            None => status_read(&d.timing, f.flag(b'R'), f.rd()),
        };
        ("MSR", "A4.1.39", ALL, "cccc 0001 0 R 10 kkkk ---- --bx 0000 mmmm") = |f, d| match banked_register(f, d) {
            Some(number) => banked_write(&d.timing, f.flag(b'R'), number, f.rm()),
            None => status_write(&d.timing, f.flag(b'R'), f.byte(b'k'), Operand::Register(f.rm())),
        };
        ("MSR", "A4.1.39", OLD, "cccc 0011 0 R 10 kkkk ---- rrrr iiiiiiii") = |f, d| status_write(&d.timing, f.flag(b'R'), f.byte(b'k'), rotated(f.bits(b'i'), f.bits(b'r')));
        ("BX", "A4.1.10", T, "cccc 0001 0010 ---- ---- ---- 0001 mmmm") = |f, _| branch_exchange(false, f.rm());
        // Without Jazelle it is BX (ARM DDI 0198D, 2.2).
        ("BXJ", "A4.1.11", E, "cccc 0001 0010 ---- ---- ---- 0010 mmmm") = |f, _| branch_exchange(false, f.rm());
        ("BLX (2)", "A4.1.9", V5, "cccc 0001 0010 ---- ---- ---- 0011 mmmm") = |f, _| branch_exchange(true, f.rm());
        ("BKPT", "A4.1.7", V5, "cccc 0001 0010 ---- ---- ---- 0111 ----") = |_, _| breakpoint();
        ("SWP", "A4.1.108", OLD, "cccc 0001 0000 nnnn dddd ---- 1001 mmmm") = |f, d| swap(&d.timing, false, dmn(f));
        ("SWPB", "A4.1.109", OLD, "cccc 0001 0100 nnnn dddd ---- 1001 mmmm") = |f, d| swap(&d.timing, true, dmn(f));
    }
}

// ---- loads and stores (A3.11) ---------------------------------------------------------------------

/// The modes that `P`, `U` and `W` choose.
pub(super) fn mode(f: &Fields) -> u8 {
    let chosen = |letter, modifier| if f.flag(letter) { modifier } else { 0 };
    chosen(b'U', modifier::UP) | chosen(b'P', modifier::BEFORE) | chosen(b'W', modifier::WRITE_BACK)
}

/// An address of mode 2 or 3 with a constant: `P` and `W` are given where they are no fields.
pub(super) fn immediate(f: &Fields, given: u8) -> Address {
    Address { rn: f.rn(), offset: Offset::Immediate(f.bits(b'i')), mode: mode(f) | given }
}

/// The same with a register, in mode 2 shifted by a constant.
pub(super) fn register(f: &Fields, given: u8) -> Address {
    let offset = Offset::Register(f.rm(), f.byte(b't'), f.byte(b'a'));
    Address { rn: f.rn(), offset, mode: mode(f) | given }
}

/// Post-indexed accesses with the permissions of user mode.
const AS_USER: u8 = modifier::WRITE_BACK | modifier::USER;

/// The six rows of a load or store of a word or byte, which differ in the addressing mode: with
/// offset and pre-indexed (A5.2.2 to 7), post-indexed (A5.2.8 to 10), and post-indexed as user
/// (LDRT and its like). The bits given are B and L.
macro_rules! word_or_byte {
    ($name:literal, $section:literal, $user:literal, $user_section:literal, $b:literal, $l:literal, $access:ident) => {
        rows! {
            ($name, $section, ALL, concat!("cccc 010 1 U ", $b, " W ", $l, " nnnn dddd iiiiiiiiiiii")) = |f, d| $access(&d.timing, f.rd(), immediate(f, modifier::BEFORE));
            ($name, $section, ALL, concat!("cccc 011 1 U ", $b, " W ", $l, " nnnn dddd aaaaa tt 0 mmmm")) = |f, d| $access(&d.timing, f.rd(), register(f, modifier::BEFORE));
            ($name, $section, ALL, concat!("cccc 010 0 U ", $b, " 0 ", $l, " nnnn dddd iiiiiiiiiiii")) = |f, d| $access(&d.timing, f.rd(), immediate(f, 0));
            ($name, $section, ALL, concat!("cccc 011 0 U ", $b, " 0 ", $l, " nnnn dddd aaaaa tt 0 mmmm")) = |f, d| $access(&d.timing, f.rd(), register(f, 0));
            ($user, $user_section, ALL, concat!("cccc 010 0 U ", $b, " 1 ", $l, " nnnn dddd iiiiiiiiiiii")) = |f, d| $access(&d.timing, f.rd(), immediate(f, AS_USER));
            ($user, $user_section, ALL, concat!("cccc 011 0 U ", $b, " 1 ", $l, " nnnn dddd aaaaa tt 0 mmmm")) = |f, d| $access(&d.timing, f.rd(), register(f, AS_USER));
        }
    };
}

fn words_and_bytes_rows<K: CacheKind>() -> [[Row<K>; 6]; 4] {
    [
        word_or_byte!("LDR", "A4.1.23", "LDRT", "A4.1.31", "0", "1", load_word),
        word_or_byte!("LDRB", "A4.1.24", "LDRBT", "A4.1.25", "1", "1", load_byte),
        word_or_byte!("STR", "A4.1.99", "STRT", "A4.1.105", "0", "0", store_word),
        word_or_byte!("STRB", "A4.1.100", "STRBT", "A4.1.101", "1", "0", store_byte),
    ]
}

/// An address of mode 3. From ARMv6T2 on, W of a post-indexed one asks for the permissions of user
/// mode (LDRHT and its like; ARM DDI 0406C, A5.2.9).
fn mode_3<K: CacheKind>(mut address: Address, d: &Decoder<K>) -> Address {
    let written = address.mode & modifier::WRITE_BACK != 0;
    if written && address.mode & modifier::BEFORE == 0 && d.architecture >= V7A {
        address.mode |= modifier::USER;
    }
    address
}

/// The two rows of addressing mode 3 (A5.3): an immediate in two pieces (A5.3.2, 4, 6), a register
/// (A5.3.3, 5, 7). The bits given are L, and S and H with their frame.
macro_rules! half_or_double {
    ($name:literal, $section:literal, $since:expr, $l:literal, $sh:literal, $rd:literal, |$f:ident, $d:ident, $address:ident| $form:expr) => {
        rows! {
            ($name, $section, $since, concat!("cccc 000 P U 1 W ", $l, " nnnn ", $rd, " iiii ", $sh, " iiii")) = |f, $d| { let ($f, $address) = (f, mode_3(immediate(f, 0), $d)); $form };
            ($name, $section, $since, concat!("cccc 000 P U 0 W ", $l, " nnnn ", $rd, " ---- ", $sh, " mmmm")) = |f, $d| { let ($f, $address) = (f, mode_3(register(f, 0), $d)); $form };
        }
    };
}

fn halves_and_doubles_rows<K: CacheKind>() -> [[Row<K>; 2]; 6] {
    [
        half_or_double!("LDRH", "A4.1.28", ALL, "1", "1011", "dddd", |f, d, address| load_half(
            &d.timing,
            f.rd(),
            address
        )),
        half_or_double!("LDRSB", "A4.1.29", ALL, "1", "1101", "dddd", |f, d, address| {
            load_signed_byte(&d.timing, f.rd(), address)
        }),
        half_or_double!("LDRSH", "A4.1.30", ALL, "1", "1111", "dddd", |f, d, address| {
            load_signed_half(&d.timing, f.rd(), address)
        }),
        half_or_double!("STRH", "A4.1.104", ALL, "0", "1011", "dddd", |f, d, address| store_half(
            &d.timing,
            f.rd(),
            address
        )),
        // An odd register is undefined (A4.1.26).
        half_or_double!("LDRD", "A4.1.26", E, "0", "1101", "eee0", |f, d, address| load_double(
            &d.timing,
            2 * f.byte(b'e'),
            address
        )),
        half_or_double!("STRD", "A4.1.102", E, "0", "1111", "eee0", |f, d, address| store_double(
            &d.timing,
            2 * f.byte(b'e'),
            address
        )),
    ]
}

fn blocks_rows<K: CacheKind>() -> [Row<K>; 5] {
    rows! {
        ("LDM (1)", "A4.1.20", ALL, "cccc 100 P U 0 W 1 nnnn llllllllllllllll") = |f, d| load_multiple(&d.timing, f.rn(), mode(f), f.bits(b'l'));
        ("LDM (2)", "A4.1.21", ALL, "cccc 100 P U 1 W 1 nnnn 0 lllllllllllllll") = |f, d| load_multiple(&d.timing, f.rn(), mode(f) | modifier::USER, f.bits(b'l'));
        ("LDM (3)", "A4.1.22", ALL, "cccc 100 P U 1 W 1 nnnn 1 lllllllllllllll") = |f, d| load_multiple(&d.timing, f.rn(), mode(f) | modifier::USER, 1 << PC | f.bits(b'l'));
        ("STM (1)", "A4.1.97", ALL, "cccc 100 P U 0 W 0 nnnn llllllllllllllll") = |f, d| store_multiple(&d.timing, f.rn(), mode(f), f.bits(b'l'));
        ("STM (2)", "A4.1.98", ALL, "cccc 100 P U 1 W 0 nnnn llllllllllllllll") = |f, d| store_multiple(&d.timing, f.rn(), mode(f) | modifier::USER, f.bits(b'l'));
    }
}

// ---- branches and calls (A3.3, A3.15) -------------------------------------------------------------

fn branches_and_calls_rows<K: CacheKind>() -> [Row<K>; 3] {
    rows! {
        ("B", "A4.1.5", ALL, "cccc 1010 iiiiiiiiiiiiiiiiiiiiiiii") = |f, _| branch(branches::branch, f.signed(b'i', 24) << 2);
        ("BL", "A4.1.5", ALL, "cccc 1011 iiiiiiiiiiiiiiiiiiiiiiii") = |f, _| branch(branches::branch_with_link, f.signed(b'i', 24) << 2);
        ("SWI", "A4.1.107", ALL, "cccc 1111 iiiiiiiiiiiiiiiiiiiiiiii") = |f, _| supervisor_call(f.bits(b'i'));
    }
}

// ---- coprocessors (A3.14) -------------------------------------------------------------------------
// Those that a core has; instructions of any other are undefined.

/// Whether an instruction reads or writes a register of a coprocessor.
type Direction = fn(u32, u32, u32, u32, u32) -> CoprocessorAccess;
const READ: Direction = CoprocessorAccess::read;
const WRITE: Direction = CoprocessorAccess::write;

/// The register that MCR or MRC names.
fn named(f: &Fields, coprocessor: u32, direction: Direction) -> CoprocessorAccess {
    direction(coprocessor, f.bits(b'o'), f.bits(b'n'), f.bits(b'm'), f.bits(b'q'))
}

/// Rm and Rs of an accumulation.
fn ms(f: &Fields) -> (u8, u8) {
    (f.rm(), f.rs())
}

/// The XScale's are in the Intel XScale Core Developer's Manual, 273473, 2.3.1.
fn coprocessors_rows<K: CacheKind>() -> [Row<K>; 9] {
    rows! {
        ("MCR p15", "A4.1.32", ALL, "cccc 1110 ooo 0 nnnn dddd 1111 qqq 1 mmmm") = |f, d| coprocessor_write(&d.timing, f.rd(), named(f, 15, WRITE));
        ("MRC p15", "A4.1.36", ALL, "cccc 1110 ooo 1 nnnn dddd 1111 qqq 1 mmmm") = |f, d| coprocessor_read(&d.timing, f.rd(), named(f, 15, READ));
        ("MCR p14", "A4.1.32", Since::XScale, "cccc 1110 ooo 0 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_write(&d.timing, f.rd(), named(f, 14, WRITE));
        ("MRC p14", "A4.1.36", Since::XScale, "cccc 1110 ooo 1 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_read(&d.timing, f.rd(), named(f, 14, READ));
        ("MIA", "273473, 2.3.1.1", Since::XScale, "cccc 1110 0010 0000 ssss 0000 0001 mmmm") = |f, _| accumulate(multiplies::accumulate, ms(f));
        ("MIAPH", "273473, 2.3.1.1", Since::XScale, "cccc 1110 0010 1000 ssss 0000 0001 mmmm") = |f, _| accumulate(multiplies::accumulate_pairs, ms(f));
        ("MIAxy", "273473, 2.3.1.1", Since::XScale, "cccc 1110 0010 11 x y ssss 0000 0001 mmmm") = |f, _| accumulate(halves!(f, accumulate_half), ms(f));
        ("MAR", "273473, 2.3.1.2", Since::XScale, "cccc 1100 0100 nnnn dddd 0000 0000 0000") = |f, _| accumulator_transfer(multiplies::accumulator_write, (f.rd(), f.rn()));
        ("MRA", "273473, 2.3.1.2", Since::XScale, "cccc 1100 0101 nnnn dddd 0000 0000 0000") = |f, _| accumulator_transfer(multiplies::accumulator_read, (f.rd(), f.rn()));
    }
}

// ---- without a condition (A3.16.7) ----------------------------------------------------------------

/// All encodings where others have condition 1111.
pub fn unconditional<K: CacheKind>() -> impl Iterator<Item = Row<K>> {
    unconditional_rows().into_iter().chain(a32_v7::unconditional_rows()).chain(neon::arm())
}

fn unconditional_rows<K: CacheKind>() -> [Row<K>; 3] {
    [
        // The offset has the half-word bit in H.
        row("BLX (1)", "A4.1.8", V5, "1111 101 H iiiiiiiiiiiiiiiiiiiiiiii", |f, _| {
            branch(branches::branch_with_link_to_thumb, f.signed(b'i', 24) << 2 | f.bits(b'H') << 1)
        }),
        row("PLD", "A4.1.45", OLD, "1111 010 1 U 101 nnnn 1111 iiiiiiiiiiii", |f, _| {
            preload(immediate(f, modifier::BEFORE))
        }),
        row("PLD", "A4.1.45", OLD, "1111 011 1 U 101 nnnn 1111 aaaaa tt 0 mmmm", |f, _| {
            preload(register(f, modifier::BEFORE))
        }),
    ]
}
