//! The encodings of 16-bit Thumb instructions (ARM DDI 0100I, A6 and A7.1).
//!
//! Letters: `d` Rd, `n` Rn, `m` Rm, `s` Rs (high registers have their upper bit apart); `i`
//! immediate; `a` shift amount; `l` register list; `L` R14 or R15 is in it too; `c` condition.

use crate::caches::CacheKind;
use crate::cpu::Architecture::{V4T, V5T, V5TE, V7A};

use super::decode::{Decoded, Decoder};
use super::execute::alu::{ADC, ADD, AND, BIC, CMN, CMP, EOR, MOV, MVN, ORR, RSB, SBC, SUB, TST};
use super::execute::branch as branches;
use super::execute::media;
use super::forms::*;
use super::forms_v7::*;
use super::op::InIt;
use super::op::modifier::{BEFORE, UP, WRITE_BACK};
use super::pattern::{Fields, Pattern};
use super::table::{Row, Since};

macro_rules! rows {
    ($(($name:expr, $section:literal, $since:expr, $pattern:expr) = |$f:pat_param, $d:pat_param| $form:expr;)*) => {
        [$(Row {
            name: $name,
            section: $section,
            since: $since,
            pattern: Pattern::parse($pattern),
            form: |$f, $d| $form,
        }),*]
    };
}

const T: Since = Since::Version(V4T);
const V5: Since = Since::Version(V5T);
const OLD: Since = Since::Until(V5TE);
const V7: Since = Since::Version(V7A);

/// An operation on Rd that sets the flags.
fn flags<K: CacheKind>(
    d: &Decoder<K>,
    operation: u8,
    registers: (u8, u8),
    operand: Operand,
) -> Decoded<K> {
    let mut decoded = data_processing(&d.timing, operation, true, registers, operand);
    if !matches!(operation, CMP | CMN | TST) {
        decoded.op.in_it = InIt::Quiet;
    }
    decoded
}

/// MUL, likewise.
fn product<K: CacheKind>(f: &Fields, d: &Decoder<K>) -> Decoded<K> {
    // The multiplier, at whose bits it may end early, is the destination.
    let registers = Factors { rd: f.rd(), rn: 0, rm: f.rm(), rs: f.rd() };
    let mut decoded = multiply(&d.timing, false, true, registers);
    decoded.op.in_it = InIt::Quiet;
    decoded
}

/// The same between Rd and Rm, the result to Rd.
fn two<K: CacheKind>(f: &Fields, d: &Decoder<K>, operation: u8) -> Decoded<K> {
    flags(d, operation, (f.rd(), f.rd()), Operand::Register(f.rm()))
}

/// A shift of Rm by a constant.
fn shift<K: CacheKind>(f: &Fields, d: &Decoder<K>, kind: u8) -> Decoded<K> {
    flags(d, MOV, (f.rd(), 0), Operand::Shifted(f.rm(), kind, f.byte(b'a')))
}

/// A shift of Rd by Rs.
fn shift_by_register<K: CacheKind>(f: &Fields, d: &Decoder<K>, kind: u8) -> Decoded<K> {
    flags(d, MOV, (f.rd(), 0), Operand::ShiftedByRegister(f.rd(), kind, f.rs()))
}

/// An operation that leaves the flags alone.
fn quiet<K: CacheKind>(
    d: &Decoder<K>,
    operation: u8,
    registers: (u8, u8),
    operand: Operand,
) -> Decoded<K> {
    data_processing(&d.timing, operation, false, registers, operand)
}

/// An address relative to Rn; `i` counts units of `size` bytes.
fn based(f: &Fields, size: u32) -> Address {
    Address::at(f.rn(), size * f.bits(b'i'))
}

/// An address relative to R13.
fn on_stack(f: &Fields) -> Address {
    Address::at(SP, 4 * f.bits(b'i'))
}

/// An address with an index.
fn indexed(f: &Fields) -> Address {
    Address::indexed(f.rn(), f.rm())
}

/// All 16-bit encodings.
pub fn rows<K: CacheKind>() -> impl Iterator<Item = Row<K>> {
    common_rows().into_iter().chain(from_v7_rows())
}

fn common_rows<K: CacheKind>() -> [Row<K>; 64] {
    rows! {
        // Shifts by a constant, additions and subtractions (A6.4.1).
        ("LSL (1)", "A7.1.38", T, "000 00 aaaaa mmm ddd") = |f, d| shift(f, d, LSL);
        ("LSR (1)", "A7.1.40", T, "000 01 aaaaa mmm ddd") = |f, d| shift(f, d, LSR);
        ("ASR (1)", "A7.1.11", T, "000 10 aaaaa mmm ddd") = |f, d| shift(f, d, ASR);
        ("ADD (3)", "A7.1.5", T, "000110 0 mmm nnn ddd") = |f, d| flags(d, ADD, (f.rd(), f.rn()), Operand::Register(f.rm()));
        ("SUB (3)", "A7.1.67", T, "000110 1 mmm nnn ddd") = |f, d| flags(d, SUB, (f.rd(), f.rn()), Operand::Register(f.rm()));
        ("ADD (1)", "A7.1.3", T, "000111 0 iii nnn ddd") = |f, d| flags(d, ADD, (f.rd(), f.rn()), constant(f.bits(b'i')));
        ("SUB (1)", "A7.1.65", T, "000111 1 iii nnn ddd") = |f, d| flags(d, SUB, (f.rd(), f.rn()), constant(f.bits(b'i')));
        ("MOV (1)", "A7.1.42", T, "001 00 ddd iiiiiiii") = |f, d| flags(d, MOV, (f.rd(), 0), constant(f.bits(b'i')));
        ("CMP (1)", "A7.1.21", T, "001 01 nnn iiiiiiii") = |f, d| flags(d, CMP, (0, f.rn()), constant(f.bits(b'i')));
        ("ADD (2)", "A7.1.4", T, "001 10 ddd iiiiiiii") = |f, d| flags(d, ADD, (f.rd(), f.rd()), constant(f.bits(b'i')));
        ("SUB (2)", "A7.1.66", T, "001 11 ddd iiiiiiii") = |f, d| flags(d, SUB, (f.rd(), f.rd()), constant(f.bits(b'i')));

        // Between two low registers (A6.4.2).
        ("AND", "A7.1.10", T, "010000 0000 mmm ddd") = |f, d| two(f, d, AND);
        ("EOR", "A7.1.26", T, "010000 0001 mmm ddd") = |f, d| two(f, d, EOR);
        ("LSL (2)", "A7.1.39", T, "010000 0010 sss ddd") = |f, d| shift_by_register(f, d, LSL);
        ("LSR (2)", "A7.1.41", T, "010000 0011 sss ddd") = |f, d| shift_by_register(f, d, LSR);
        ("ASR (2)", "A7.1.12", T, "010000 0100 sss ddd") = |f, d| shift_by_register(f, d, ASR);
        ("ADC", "A7.1.2", T, "010000 0101 mmm ddd") = |f, d| two(f, d, ADC);
        ("SBC", "A7.1.55", T, "010000 0110 mmm ddd") = |f, d| two(f, d, SBC);
        ("ROR", "A7.1.54", T, "010000 0111 sss ddd") = |f, d| shift_by_register(f, d, ROR);
        ("TST", "A7.1.72", T, "010000 1000 mmm nnn") = |f, d| flags(d, TST, (0, f.rn()), Operand::Register(f.rm()));
        ("NEG", "A7.1.47", T, "010000 1001 mmm ddd") = |f, d| flags(d, RSB, (f.rd(), f.rm()), constant(0));
        ("CMP (2)", "A7.1.22", T, "010000 1010 mmm nnn") = |f, d| flags(d, CMP, (0, f.rn()), Operand::Register(f.rm()));
        ("CMN", "A7.1.20", T, "010000 1011 mmm nnn") = |f, d| flags(d, CMN, (0, f.rn()), Operand::Register(f.rm()));
        ("ORR", "A7.1.48", T, "010000 1100 mmm ddd") = |f, d| two(f, d, ORR);
        ("MUL", "A7.1.45", T, "010000 1101 mmm ddd") = |f, d| product(f, d);
        ("BIC", "A7.1.15", T, "010000 1110 mmm ddd") = |f, d| two(f, d, BIC);
        ("MVN", "A7.1.46", T, "010000 1111 mmm ddd") = |f, d| flags(d, MVN, (f.rd(), 0), Operand::Register(f.rm()));

        // Between any registers, and branches to one (A6.4.3, A6.3).
        ("ADD (4)", "A7.1.6", T, "010001 00 d mmmm ddd") = |f, d| quiet(d, ADD, (f.rd(), f.rd()), Operand::Register(f.rm()));
        ("CMP (3)", "A7.1.23", T, "010001 01 n mmmm nnn") = |f, d| flags(d, CMP, (0, f.rn()), Operand::Register(f.rm()));
        ("MOV (3)", "A7.1.44", T, "010001 10 d mmmm ddd") = |f, d| quiet(d, MOV, (f.rd(), 0), Operand::Register(f.rm()));
        ("BX", "A7.1.19", T, "010001 11 0 mmmm ---") = |f, _| branch_exchange(false, f.rm());
        ("BLX (2)", "A7.1.18", V5, "010001 11 1 mmmm ---") = |f, _| branch_exchange(true, f.rm());

        // Loads and stores (A6.5).
        ("LDR (3)", "A7.1.30", T, "01001 ddd iiiiiiii") = |f, d| load_literal(&d.timing, f.rd(), 4 * f.bits(b'i'));
        ("STR (2)", "A7.1.59", T, "0101 000 mmm nnn ddd") = |f, d| store_word(&d.timing, f.rd(), indexed(f));
        ("STRH (2)", "A7.1.64", T, "0101 001 mmm nnn ddd") = |f, d| store_half(&d.timing, f.rd(), indexed(f));
        ("STRB (2)", "A7.1.62", T, "0101 010 mmm nnn ddd") = |f, d| store_byte(&d.timing, f.rd(), indexed(f));
        ("LDRSB", "A7.1.36", T, "0101 011 mmm nnn ddd") = |f, d| load_signed_byte(&d.timing, f.rd(), indexed(f));
        ("LDR (2)", "A7.1.29", T, "0101 100 mmm nnn ddd") = |f, d| load_word(&d.timing, f.rd(), indexed(f));
        ("LDRH (2)", "A7.1.35", T, "0101 101 mmm nnn ddd") = |f, d| load_half(&d.timing, f.rd(), indexed(f));
        ("LDRB (2)", "A7.1.33", T, "0101 110 mmm nnn ddd") = |f, d| load_byte(&d.timing, f.rd(), indexed(f));
        ("LDRSH", "A7.1.37", T, "0101 111 mmm nnn ddd") = |f, d| load_signed_half(&d.timing, f.rd(), indexed(f));
        ("STR (1)", "A7.1.58", T, "011 0 0 iiiii nnn ddd") = |f, d| store_word(&d.timing, f.rd(), based(f, 4));
        ("LDR (1)", "A7.1.28", T, "011 0 1 iiiii nnn ddd") = |f, d| load_word(&d.timing, f.rd(), based(f, 4));
        ("STRB (1)", "A7.1.61", T, "011 1 0 iiiii nnn ddd") = |f, d| store_byte(&d.timing, f.rd(), based(f, 1));
        ("LDRB (1)", "A7.1.32", T, "011 1 1 iiiii nnn ddd") = |f, d| load_byte(&d.timing, f.rd(), based(f, 1));
        ("STRH (1)", "A7.1.63", T, "1000 0 iiiii nnn ddd") = |f, d| store_half(&d.timing, f.rd(), based(f, 2));
        ("LDRH (1)", "A7.1.34", T, "1000 1 iiiii nnn ddd") = |f, d| load_half(&d.timing, f.rd(), based(f, 2));
        ("STR (3)", "A7.1.60", T, "1001 0 ddd iiiiiiii") = |f, d| store_word(&d.timing, f.rd(), on_stack(f));
        ("LDR (4)", "A7.1.31", T, "1001 1 ddd iiiiiiii") = |f, d| load_word(&d.timing, f.rd(), on_stack(f));

        // Addresses, the stack pointer, block transfers (A6.4.1, A6.6).
        ("ADD (5)", "A7.1.7", T, "1010 0 ddd iiiiiiii") = |f, _| add_to_pc(f.rd(), 4 * f.bits(b'i'));
        ("ADD (6)", "A7.1.8", T, "1010 1 ddd iiiiiiii") = |f, d| quiet(d, ADD, (f.rd(), SP), constant(4 * f.bits(b'i')));
        ("ADD (7)", "A7.1.9", T, "1011 0000 0 iiiiiii") = |f, d| quiet(d, ADD, (SP, SP), constant(4 * f.bits(b'i')));
        ("SUB (4)", "A7.1.68", T, "1011 0000 1 iiiiiii") = |f, d| quiet(d, SUB, (SP, SP), constant(4 * f.bits(b'i')));
        ("PUSH", "A7.1.50", T, "1011 0 10 L llllllll") = |f, d| store_multiple(&d.timing, SP, BEFORE | WRITE_BACK, f.bits(b'L') << LR | f.bits(b'l'));
        ("POP", "A7.1.49", T, "1011 1 10 L llllllll") = |f, d| load_multiple(&d.timing, SP, UP | WRITE_BACK, f.bits(b'L') << PC | f.bits(b'l'));
        ("BKPT", "A7.1.16", V5, "1011 1110 --------") = |_, _| breakpoint();
        ("STMIA", "A7.1.57", T, "1100 0 nnn llllllll") = |f, d| store_multiple(&d.timing, f.rn(), UP | WRITE_BACK, f.bits(b'l'));
        // The base is written back only if it is not loaded.
        ("LDMIA", "A7.1.27", T, "1100 1 nnn llllllll") = |f, d| load_multiple(&d.timing, f.rn(), if f.bits(b'l') >> f.rn() & 1 != 0 { UP } else { UP | WRITE_BACK }, f.bits(b'l'));

        // Branches and calls (A6.3, A6.7).
        ("B (1)", "A7.1.13", T, "1101 cccc iiiiiiii ! 1101 111") = |f, _| branch(branches::branch, f.signed(b'i', 8) << 1).when(f.byte(b'c'));
        ("SWI", "A7.1.69", T, "1101 1111 iiiiiiii") = |f, _| supervisor_call(f.bits(b'i'));
        ("B (2)", "A7.1.14", T, "1110 0 iiiiiiiiiii") = |f, _| branch(branches::branch, f.signed(b'i', 11) << 1);
        ("BLX (1), second half", "A7.1.17", OLD, "1110 1 iiiiiiiiii 0") = |f, _| branch(branches::thumb_link_suffix::<K, true>, f.bits(b'i') << 2);
        ("BL, BLX (1), first half", "A7.1.17", OLD, "1111 0 iiiiiiiiiii") = |f, _| link_prefix(f.signed(b'i', 11) << 12);
        ("BL, second half", "A7.1.17", OLD, "1111 1 iiiiiiiiiii") = |f, _| branch(branches::thumb_link_suffix::<K, false>, f.bits(b'i') << 1);
    }
}

/// What ARMv6 and ARMv7 added (ARM DDI 0406C, A8.8 and B9.3).
fn from_v7_rows<K: CacheKind>() -> [Row<K>; 12] {
    rows! {
        ("CBZ, CBNZ", "A8.8.29", V7, "1011 o 0 i 1 iiiii nnn") = |f, _| compare_and_branch(f.flag(b'o'), f.rn(), f.bits(b'i') << 1);
        ("SXTH", "A8.8.235", V7, "1011 0010 00 mmm ddd") = |f, _| extend(media::sxth(), f.rd(), PC, f.rm(), 0);
        ("SXTB", "A8.8.233", V7, "1011 0010 01 mmm ddd") = |f, _| extend(media::sxtb(), f.rd(), PC, f.rm(), 0);
        ("UXTH", "A8.8.276", V7, "1011 0010 10 mmm ddd") = |f, _| extend(media::uxth(), f.rd(), PC, f.rm(), 0);
        ("UXTB", "A8.8.274", V7, "1011 0010 11 mmm ddd") = |f, _| extend(media::uxtb(), f.rd(), PC, f.rm(), 0);
        ("SETEND", "A8.8.167", V7, "1011 0110 010 - e ---") = |f, _| set_endianness(f.flag(b'e'));
        ("CPS", "B9.3.1", V7, "1011 0110 011 p - aaa") = |f, _| change_state(Some(f.flag(b'p')), f.byte(b'a'), None);
        ("REV", "A8.8.145", V7, "1011 1010 00 mmm ddd") = |f, _| unary(media::reverse, f.rd(), f.rm());
        ("REV16", "A8.8.146", V7, "1011 1010 01 mmm ddd") = |f, _| unary(media::reverse_halves, f.rd(), f.rm());
        ("REVSH", "A8.8.147", V7, "1011 1010 11 mmm ddd") = |f, _| unary(media::reverse_signed_half, f.rd(), f.rm());
        ("NOP, YIELD, WFE, WFI, SEV", "A8.8.119", V7, "1011 1111 hhhh 0000") = |f, _| hint(f.bits(b'h'));
        ("IT", "A8.8.54", V7, "1011 1111 iiiiiiii ! 1011 1111 ---- 0000") = |f, _| if_then(f.byte(b'i'));
    }
}
