//! The encodings of 32-bit Thumb instructions (ARM DDI 0406C, A6.3 and A8.8), the first half-word
//! above the second.
//!
//! Letters: `n` Rn, `d` Rd or Rt, `m` Rm, `a` Ra, `t` Rt2; `i` immediate; `S` flags are set; `P`,
//! `U`, `W` addressing; `l` lowest bit or register list; `w` width; `k` shift type; `s` sign of an
//! offset.

use crate::caches::CacheKind;
use mmulab_machine::ArmTiming;

use crate::cpu::Architecture::V7A;

use super::a32::mode;
use super::decode::{Decoded, Decoder};
use super::execute::alu::{
    ADC, ADD, AND, BIC, CMN, CMP, EOR, MOV, MVN, ORN, ORR, RSB, SBC, SUB, TEQ, TST,
};
use super::execute::branch as branches;
use super::execute::{media, multiply as multiplies, thumb2, v7};
use super::forms::*;
use super::forms_v7::*;
use super::op::modifier::{BEFORE, UP, USER, WRITE_BACK};
use super::op::{CoprocessorAccess, Handler};
use super::pattern::{Fields, Pattern};
use super::table::{Row, Since};
use super::{neon, vfp};

macro_rules! rows {
    ($(($name:expr, $section:literal, $pattern:expr) = |$f:pat_param, $d:pat_param| $form:expr;)*) => {
        [$(Row {
            name: $name,
            section: $section,
            since: Since::Version(V7A),
            pattern: Pattern::parse($pattern),
            form: |$f, $d| $form,
        }),*]
    };
}

/// All 32-bit encodings.
pub fn rows<K: CacheKind>() -> impl Iterator<Item = Row<K>> {
    data_processing_rows()
        .into_iter()
        .flatten()
        .chain(plain_rows())
        .chain(branches_rows())
        .chain(system_rows())
        .chain(blocks_rows())
        .chain(doubles_and_exclusives_rows())
        .chain(singles_rows().into_iter().flatten())
        .chain(literals_rows())
        .chain(registers_rows())
        .chain(parallel_rows().into_iter().flatten())
        .chain(multiplies_rows())
        .chain(coprocessors_rows())
        .chain(vfp::thumb())
        .chain(neon::thumb())
}

// ---- data processing ------------------------------------------------------------------------------

/// A modified immediate constant (A6.3.2): a byte repeated, or one rotated right.
fn modified(bits: u32) -> Operand {
    let byte = bits & 0xff;
    match bits >> 8 {
        0 => constant(byte),
        1 => constant(byte << 16 | byte),
        2 => constant(byte << 24 | byte << 8),
        3 => constant(byte * 0x0101_0101),
        _ => {
            let value = (0x80 | bits & 0x7f).rotate_right(bits >> 7);
            Operand::Immediate(value, (value >> 31) as u8)
        }
    }
}

/// An operation, which with Rd R15 and S may be a comparison, and with Rn R15 a move.
fn operate<K: CacheKind>(
    f: &Fields,
    d: &Decoder<K>,
    operation: u8,
    operand: Operand,
    comparison: Option<u8>,
    moving: Option<u8>,
) -> Decoded<K> {
    let (rd, rn) = (f.rd(), f.rn());
    let flags = f.flag(b'S');
    match (comparison, moving) {
        (Some(comparison), _) if rd == PC && flags => {
            data_processing(&d.timing, comparison, true, (0, rn), operand)
        }
        (_, Some(moving)) if rn == PC => {
            data_processing(&d.timing, moving, flags, (rd, 0), operand)
        }
        _ => data_processing(&d.timing, operation, flags, (rd, rn), operand),
    }
}

/// The two rows of an operation: with a modified immediate constant (A6.3.1), with a shifted
/// register (A6.3.11).
macro_rules! data_processing {
    ($name:literal, $section:literal, $operation:ident, $bits:literal, $comparison:expr, $moving:expr) => {
        rows! {
            ($name, $section, concat!("11110 i 0 ", $bits, " S nnnn 0 iii dddd iiiiiiii")) = |f, d| operate(f, d, $operation, modified(f.bits(b'i')), $comparison, $moving);
            ($name, $section, concat!("1110101 ", $bits, " S nnnn 0 iii dddd ii kk mmmm")) = |f, d| operate(f, d, $operation, Operand::Shifted(f.rm(), f.byte(b'k'), f.byte(b'i')), $comparison, $moving);
        }
    };
}

fn data_processing_rows<K: CacheKind>() -> [[Row<K>; 2]; 10] {
    [
        data_processing!("AND, TST", "A8.8.13", AND, "0000", Some(TST), None),
        data_processing!("BIC", "A8.8.21", BIC, "0001", None, None),
        data_processing!("ORR, MOV", "A8.8.122", ORR, "0010", None, Some(MOV)),
        data_processing!("ORN, MVN", "A8.8.120", ORN, "0011", None, Some(MVN)),
        data_processing!("EOR, TEQ", "A8.8.46", EOR, "0100", Some(TEQ), None),
        data_processing!("ADD, CMN", "A8.8.4", ADD, "1000", Some(CMN), None),
        data_processing!("ADC", "A8.8.1", ADC, "1010", None, None),
        data_processing!("SBC", "A8.8.161", SBC, "1011", None, None),
        data_processing!("SUB, CMP", "A8.8.221", SUB, "1101", Some(CMP), None),
        data_processing!("RSB", "A8.8.152", RSB, "1110", None, None),
    ]
}

/// ADDW and SUBW, which with R15 are ADR.
fn add_wide<K: CacheKind>(f: &Fields, d: &Decoder<K>, operation: u8) -> Decoded<K> {
    let offset = f.bits(b'i');
    match (f.rn(), operation) {
        (PC, ADD) => add_to_pc(f.rd(), offset),
        (PC, _) => add_to_pc(f.rd(), offset.wrapping_neg()),
        (rn, _) => data_processing(&d.timing, operation, false, (f.rd(), rn), constant(offset)),
    }
}

/// Plain binary immediates (A6.3.3), and PKH.
fn plain_rows<K: CacheKind>() -> [Row<K>; 14] {
    rows! {
        ("ADDW, ADR", "A8.8.4", "11110 i 1 0000 0 nnnn 0 iii dddd iiiiiiii") = |f, d| add_wide(f, d, ADD);
        ("SUBW, ADR", "A8.8.221", "11110 i 1 0101 0 nnnn 0 iii dddd iiiiiiii") = |f, d| add_wide(f, d, SUB);
        ("MOVW", "A8.8.102", "11110 i 1 0010 0 jjjj 0 iii dddd iiiiiiii") = |f, d| data_processing(&d.timing, MOV, false, (f.rd(), 0), constant(f.bits(b'j') << 12 | f.bits(b'i')));
        ("MOVT", "A8.8.106", "11110 i 1 0110 0 jjjj 0 iii dddd iiiiiiii") = |f, _| move_top(f.rd(), f.bits(b'j') << 12 | f.bits(b'i'));
        ("SSAT", "A8.8.193", "11110 - 1 1000 0 nnnn 0 iii dddd ii - wwwww") = |f, _| saturate(media::saturate_signed, f.rd(), f.rn(), f.byte(b'w') + 1, false, f.byte(b'i'));
        ("SSAT", "A8.8.193", "11110 - 1 1001 0 nnnn 0 iii dddd ii - wwwww ! 11110 - 1 1001 0 ---- - 000 ---- 00") = |f, _| saturate(media::saturate_signed, f.rd(), f.rn(), f.byte(b'w') + 1, true, f.byte(b'i'));
        ("SSAT16", "A8.8.194", "11110 - 1 1001 0 nnnn 0 000 dddd 00 -- wwww") = |f, _| saturate(media::saturate_signed_halves, f.rd(), f.rn(), f.byte(b'w') + 1, false, 0);
        ("SBFX", "A8.8.164", "11110 - 1 1010 0 nnnn 0 lll dddd ll - wwwww") = |f, _| extract(true, f.rd(), f.rn(), f.byte(b'l'), f.bits(b'w') + 1);
        ("BFC, BFI", "A8.8.20", "11110 - 1 1011 0 nnnn 0 lll dddd ll - hhhhh") = |f, _| insert(f.rd(), f.rn(), f.byte(b'l'), f.byte(b'h'));
        ("USAT", "A8.8.264", "11110 - 1 1100 0 nnnn 0 iii dddd ii - wwwww") = |f, _| saturate(media::saturate_unsigned, f.rd(), f.rn(), f.byte(b'w'), false, f.byte(b'i'));
        ("USAT", "A8.8.264", "11110 - 1 1101 0 nnnn 0 iii dddd ii - wwwww ! 11110 - 1 1101 0 ---- - 000 ---- 00") = |f, _| saturate(media::saturate_unsigned, f.rd(), f.rn(), f.byte(b'w'), true, f.byte(b'i'));
        ("USAT16", "A8.8.265", "11110 - 1 1101 0 nnnn 0 000 dddd 00 -- wwww") = |f, _| saturate(media::saturate_unsigned_halves, f.rd(), f.rn(), f.byte(b'w'), false, 0);
        ("UBFX", "A8.8.246", "11110 - 1 1110 0 nnnn 0 lll dddd ll - wwwww") = |f, _| extract(false, f.rd(), f.rn(), f.byte(b'l'), f.bits(b'w') + 1);
        ("PKHBT, PKHTB", "A8.8.125", "1110101 0110 0 nnnn 0 iii dddd ii k 0 mmmm") = |f, _| pack(f.rd(), f.rn(), f.rm(), f.flag(b'k'), f.bits(b'i'));
    }
}

// ---- branches (A6.3.4) ----------------------------------------------------------------------------

/// The offset of a long branch, whose immediate counts units of `1 << shift`: J1 and J2 are
/// exclusive-nor of the sign and the next lower bits.
fn long_offset(f: &Fields, shift: u32) -> u32 {
    let sign = f.bits(b's');
    let (upper, lower) = (f.bits(b'j') ^ sign ^ 1, f.bits(b'h') ^ sign ^ 1);
    let offset = sign << 24 | upper << 23 | lower << 22 | f.bits(b'i') << shift;
    ((offset << 7) as i32 >> 7) as u32
}

/// The offset of a conditional branch.
fn short_offset(f: &Fields) -> u32 {
    let sign = f.bits(b's');
    let offset = sign << 20 | f.bits(b'h') << 19 | f.bits(b'j') << 18 | f.bits(b'i') << 1;
    ((offset << 11) as i32 >> 11) as u32
}

fn branches_rows<K: CacheKind>() -> [Row<K>; 4] {
    rows! {
        ("B", "A8.8.18", "11110 s cccc iiiiii 10 j 0 h iiiiiiiiiii ! 11110 - 111") = |f, _| branch(branches::branch, short_offset(f)).when(f.byte(b'c'));
        ("B", "A8.8.18", "11110 s iiiiiiiiii 10 j 1 h iiiiiiiiiii") = |f, _| branch(branches::branch, long_offset(f, 1));
        ("BL", "A8.8.25", "11110 s iiiiiiiiii 11 j 1 h iiiiiiiiiii") = |f, _| branch(thumb2::branch_with_link::<K, false>, long_offset(f, 1));
        ("BLX", "A8.8.25", "11110 s iiiiiiiiii 11 j 0 h iiiiiiiiii 0") = |f, _| branch(thumb2::branch_with_link::<K, true>, long_offset(f, 2));
    }
}

// ---- status, hints, calls (A6.3.4) ----------------------------------------------------------------

fn system_rows<K: CacheKind>() -> [Row<K>; 15] {
    rows! {
        ("MSR", "B9.3.12", "11110 011100 R nnnn 10 - 0 kkkk -- b x ----") = |f, d| match banked_register(f, d) {
            Some(number) => banked_write(&d.timing, f.flag(b'R'), number, f.rn()),
            None => status_write(&d.timing, f.flag(b'R'), f.byte(b'k'), Operand::Register(f.rn())),
        };
        ("NOP, YIELD, WFE, WFI, SEV, DBG", "A8.8.119", "11110 011101 0 ---- 10 - 0 - 000 hhhhhhhh") = |f, _| hint(f.bits(b'h'));
        ("CPS", "B9.3.1", "11110 011101 0 ---- 10 - 0 - 00 1 --- ooooo") = |f, _| change_state(None, 0, Some(f.byte(b'o')));
        ("CPSIE", "B9.3.1", "11110 011101 0 ---- 10 - 0 - 10 w aaa ooooo") = |f, _| change_state(Some(false), f.byte(b'a'), f.flag(b'w').then_some(f.byte(b'o')));
        ("CPSID", "B9.3.1", "11110 011101 0 ---- 10 - 0 - 11 w aaa ooooo") = |f, _| change_state(Some(true), f.byte(b'a'), f.flag(b'w').then_some(f.byte(b'o')));
        ("CLREX", "A8.8.33", "11110 011101 1 ---- 10 - 0 ---- 0010 ----") = |_, _| clear_exclusive();
        ("DSB", "A8.8.44", "11110 011101 1 ---- 10 - 0 ---- 0100 ----") = |_, _| barrier(v7::data_synchronization_barrier);
        ("DMB", "A8.8.43", "11110 011101 1 ---- 10 - 0 ---- 0101 ----") = |_, _| barrier(v7::data_memory_barrier);
        ("ISB", "A8.8.53", "11110 011101 1 ---- 10 - 0 ---- 0110 ----") = |_, _| barrier(v7::instruction_synchronization_barrier);
        // Without Jazelle it is BX (ARM DDI 0464F, 3.1).
        ("BXJ", "A8.8.28", "11110 011110 0 mmmm 10 - 0 ---- ---- ----") = |f, _| branch_exchange(false, f.rm());
        ("SUBS PC, LR and ERET", "B9.3.19", "11110 011110 1 ---- 10 - 0 ---- iiiiiiii") = |f, _| subtract_return(f.bits(b'i'));
        ("MRS", "B9.3.8", "11110 011111 R kkkk 10 - 0 dddd -- b x ----") = |f, d| match banked_register(f, d) {
            Some(number) => banked_read(&d.timing, f.flag(b'R'), number, f.rd()),
            None => status_read(&d.timing, f.flag(b'R'), f.rd()),
        };
        ("HVC", "B9.3.4", "11110 111111 0 iiii 1000 iiiiiiiiiiii") = |f, _| monitor_call(v7::firmware_call, f.bits(b'i'));
        ("SMC", "B9.3.14", "11110 111111 1 iiii 1000 ------------") = |f, _| monitor_call(v7::firmware_call, f.bits(b'i'));
        ("CPS", "B9.3.1", "11110 011101 0 ---- 10 - 0 - 01 - --- -----") = |_, _| nothing();
    }
}

// ---- blocks (A6.3.5) ------------------------------------------------------------------------------

fn blocks_rows<K: CacheKind>() -> [Row<K>; 8] {
    rows! {
        ("STM", "A8.8.199", "1110100 01 0 W 0 nnnn llllllllllllllll") = |f, d| store_multiple(&d.timing, f.rn(), mode(f) | UP, f.bits(b'l'));
        ("LDM", "A8.8.58", "1110100 01 0 W 1 nnnn llllllllllllllll") = |f, d| load_multiple(&d.timing, f.rn(), mode(f) | UP, f.bits(b'l'));
        ("STMDB", "A8.8.201", "1110100 10 0 W 0 nnnn llllllllllllllll") = |f, d| store_multiple(&d.timing, f.rn(), mode(f) | BEFORE, f.bits(b'l'));
        ("LDMDB", "A8.8.60", "1110100 10 0 W 1 nnnn llllllllllllllll") = |f, d| load_multiple(&d.timing, f.rn(), mode(f) | BEFORE, f.bits(b'l'));
        ("SRSDB", "B9.3.15", "1110100 00 0 W 0 ---- ---- ---- --- ooooo") = |f, _| store_return_state(f.bits(b'o'), mode(f) | BEFORE);
        ("SRSIA", "B9.3.15", "1110100 11 0 W 0 ---- ---- ---- --- ooooo") = |f, _| store_return_state(f.bits(b'o'), mode(f) | UP);
        ("RFEDB", "B9.3.13", "1110100 00 0 W 1 nnnn ---- ---- ---- ----") = |f, _| return_from_exception(f.rn(), mode(f) | BEFORE);
        ("RFEIA", "B9.3.13", "1110100 11 0 W 1 nnnn ---- ---- ---- ----") = |f, _| return_from_exception(f.rn(), mode(f) | UP);
    }
}

// ---- doubles, exclusives, table branches (A6.3.6) -------------------------------------------------

/// The address of a double in units of words.
fn double_address(f: &Fields, given: u8) -> Address {
    Address { rn: f.rn(), offset: Offset::Immediate(4 * f.bits(b'i')), mode: mode(f) | given }
}

fn pair(f: &Fields) -> (u8, u8) {
    (f.rd(), f.byte(b't'))
}

fn load_double_from<K: CacheKind>(f: &Fields, d: &Decoder<K>, given: u8) -> Decoded<K> {
    if f.rn() == PC {
        let (rt, rt2) = pair(f);
        let offset = 4 * f.bits(b'i');
        let offset = if f.flag(b'U') { offset } else { offset.wrapping_neg() };
        return literal(&d.timing, thumb2::literal_double, rt, rt2, offset);
    }
    load_pair(&d.timing, pair(f), double_address(f, given))
}

fn exclusive_registers(f: &Fields) -> (u8, u8, u8) {
    (f.rd(), f.byte(b't'), f.rn())
}

fn one_exclusive(f: &Fields) -> (u8, u8, u8) {
    (f.rd(), PC, f.rn())
}

fn doubles_and_exclusives_rows<K: CacheKind>() -> [Row<K>; 14] {
    rows! {
        ("STRD", "A8.8.210", "1110100 0 U 1 1 0 nnnn dddd tttt iiiiiiii") = |f, d| store_pair(&d.timing, pair(f), double_address(f, WRITE_BACK));
        ("STRD", "A8.8.210", "1110100 1 U 1 W 0 nnnn dddd tttt iiiiiiii") = |f, d| store_pair(&d.timing, pair(f), double_address(f, BEFORE));
        ("LDRD", "A8.8.72", "1110100 0 U 1 1 1 nnnn dddd tttt iiiiiiii") = |f, d| load_double_from(f, d, WRITE_BACK);
        ("LDRD", "A8.8.72", "1110100 1 U 1 W 1 nnnn dddd tttt iiiiiiii") = |f, d| load_double_from(f, d, BEFORE);
        ("STREX", "A8.8.212", "1110100 0010 0 nnnn dddd tttt iiiiiiii") = |f, _| store_exclusive(4, f.byte(b't'), one_exclusive(f), 4 * f.bits(b'i'));
        ("LDREX", "A8.8.75", "1110100 0010 1 nnnn dddd ---- iiiiiiii") = |f, d| load_exclusive(&d.timing, 4, one_exclusive(f), 4 * f.bits(b'i'));
        ("STREXB", "A8.8.213", "1110100 0110 0 nnnn dddd ---- 0100 oooo") = |f, _| store_exclusive(1, f.byte(b'o'), one_exclusive(f), 0);
        ("STREXH", "A8.8.215", "1110100 0110 0 nnnn dddd ---- 0101 oooo") = |f, _| store_exclusive(2, f.byte(b'o'), one_exclusive(f), 0);
        ("STREXD", "A8.8.214", "1110100 0110 0 nnnn dddd tttt 0111 oooo") = |f, _| store_exclusive(8, f.byte(b'o'), exclusive_registers(f), 0);
        ("LDREXB", "A8.8.76", "1110100 0110 1 nnnn dddd ---- 0100 ----") = |f, d| load_exclusive(&d.timing, 1, one_exclusive(f), 0);
        ("LDREXH", "A8.8.78", "1110100 0110 1 nnnn dddd ---- 0101 ----") = |f, d| load_exclusive(&d.timing, 2, one_exclusive(f), 0);
        ("LDREXD", "A8.8.77", "1110100 0110 1 nnnn dddd tttt 0111 ----") = |f, d| load_exclusive(&d.timing, 8, exclusive_registers(f), 0);
        ("TBB", "A8.8.237", "1110100 0110 1 nnnn ---- ---- 0000 mmmm") = |f, _| table_branch(false, f.rn(), f.rm());
        ("TBH", "A8.8.237", "1110100 0110 1 nnnn ---- ---- 0001 mmmm") = |f, _| table_branch(true, f.rn(), f.rm());
    }
}

// ---- single loads and stores (A6.3.7 to A6.3.10) --------------------------------------------------

type Access<K> = fn(&ArmTiming, u8, Address) -> Decoded<K>;

fn at_offset<K: CacheKind>(f: &Fields, d: &Decoder<K>, access: Access<K>) -> Decoded<K> {
    access(&d.timing, f.rd(), Address::at(f.rn(), f.bits(b'i')))
}

fn indexed<K: CacheKind>(f: &Fields, d: &Decoder<K>, access: Access<K>) -> Decoded<K> {
    let offset = Offset::Register(f.rm(), LSL, f.byte(b'a'));
    access(&d.timing, f.rd(), Address { offset, ..Address::at(f.rn(), 0) })
}

fn based<K: CacheKind>(f: &Fields, d: &Decoder<K>, access: Access<K>, given: u8) -> Decoded<K> {
    let offset = Offset::Immediate(f.bits(b'i'));
    access(&d.timing, f.rd(), Address { rn: f.rn(), offset, mode: mode(f) | given })
}

/// The six rows of a load or store: with an offset of 12 bits, with a register shifted left, below
/// the base, pre-indexed, post-indexed, and as user. A load from R15 is literal, and one of a byte
/// or half to R15 a hint.
macro_rules! single {
    ($name:literal, $section:literal, $access:ident, $s:literal, $size:literal, $l:literal, $hint_or_literal:literal, $is_hint:literal) => {
        rows! {
            ($name, $section, concat!("1111100 ", $s, " 1 ", $size, " ", $l, " nnnn dddd iiiiiiiiiiii ! ", $hint_or_literal)) = |f, d| at_offset(f, d, unless_hint(f, $is_hint, $access));
            ($name, $section, concat!("1111100 ", $s, " 0 ", $size, " ", $l, " nnnn dddd 000000 aa mmmm ! ", $hint_or_literal)) = |f, d| indexed(f, d, unless_hint(f, $is_hint, $access));
            ($name, $section, concat!("1111100 ", $s, " 0 ", $size, " ", $l, " nnnn dddd 1100 iiiiiiii ! ", $hint_or_literal)) = |f, d| based(f, d, unless_hint(f, $is_hint, $access), BEFORE);
            ($name, $section, concat!("1111100 ", $s, " 0 ", $size, " ", $l, " nnnn dddd 11 U 1 iiiiiiii ! ", $hint_or_literal)) = |f, d| based(f, d, $access, BEFORE | WRITE_BACK);
            ($name, $section, concat!("1111100 ", $s, " 0 ", $size, " ", $l, " nnnn dddd 10 U 1 iiiiiiii ! ", $hint_or_literal)) = |f, d| based(f, d, $access, WRITE_BACK);
            (concat!($name, "T"), $section, concat!("1111100 ", $s, " 0 ", $size, " ", $l, " nnnn dddd 1110 iiiiiiii ! ", $hint_or_literal)) = |f, d| based(f, d, $access, BEFORE | UP | USER);
        }
    };
}

/// The access; of a byte or half-word that would be loaded into R15, its preload.
fn unless_hint<K: CacheKind>(f: &Fields, can_be_hint: bool, access: Access<K>) -> Access<K> {
    if can_be_hint && f.rd() == PC { |_, _, address| preload(address) } else { access }
}

fn singles_rows<K: CacheKind>() -> [[Row<K>; 6]; 8] {
    [
        single!("STRB", "A8.8.206", store_byte, "0", "00", "0", "---- ---- ---- 1111", false),
        single!("STRH", "A8.8.216", store_half, "0", "01", "0", "---- ---- ---- 1111", false),
        single!("STR", "A8.8.203", store_word, "0", "10", "0", "---- ---- ---- 1111", false),
        single!("LDRB", "A8.8.67", load_byte, "0", "00", "1", "---- ---- ---- 1111", true),
        single!("LDRH", "A8.8.79", load_half, "0", "01", "1", "---- ---- ---- 1111", true),
        single!("LDR", "A8.8.62", load_word, "0", "10", "1", "---- ---- ---- 1111", false),
        single!("LDRSB", "A8.8.83", load_signed_byte, "1", "00", "1", "---- ---- ---- 1111", true),
        single!("LDRSH", "A8.8.87", load_signed_half, "1", "01", "1", "---- ---- ---- 1111", true),
    ]
}

fn from_literal<K: CacheKind>(f: &Fields, d: &Decoder<K>, handler: Handler<K>) -> Decoded<K> {
    let offset = f.bits(b'i');
    let offset = if f.flag(b'U') { offset } else { offset.wrapping_neg() };
    literal(&d.timing, handler, f.rd(), PC, offset)
}

/// The same; to R15 it is a hint.
fn narrow_literal<K: CacheKind>(f: &Fields, d: &Decoder<K>, handler: Handler<K>) -> Decoded<K> {
    if f.rd() == PC { nothing() } else { from_literal(f, d, handler) }
}

fn literals_rows<K: CacheKind>() -> [Row<K>; 5] {
    rows! {
        ("LDRB", "A8.8.69", "1111100 0 U 00 1 1111 dddd iiiiiiiiiiii") = |f, d| narrow_literal(f, d, thumb2::literal::<K, { thumb2::BYTE }>);
        ("LDRH", "A8.8.81", "1111100 0 U 01 1 1111 dddd iiiiiiiiiiii") = |f, d| narrow_literal(f, d, thumb2::literal::<K, { thumb2::HALF }>);
        ("LDR", "A8.8.64", "1111100 0 U 10 1 1111 dddd iiiiiiiiiiii") = |f, d| from_literal(f, d, thumb2::literal::<K, { thumb2::WORD }>);
        ("LDRSB", "A8.8.85", "1111100 1 U 00 1 1111 dddd iiiiiiiiiiii") = |f, d| narrow_literal(f, d, thumb2::literal::<K, { thumb2::SIGNED_BYTE }>);
        ("LDRSH", "A8.8.89", "1111100 1 U 01 1 1111 dddd iiiiiiiiiiii") = |f, d| narrow_literal(f, d, thumb2::literal::<K, { thumb2::SIGNED_HALF }>);
    }
}

// ---- registers (A6.3.12, A6.3.15) -----------------------------------------------------------------

fn two<K: CacheKind>(handler: Handler<K>, f: &Fields) -> Decoded<K> {
    binary(handler, f.rd(), f.rn(), f.rm())
}

fn extended<K: CacheKind>(kinds: [Handler<K>; 2], f: &Fields) -> Decoded<K> {
    extend(kinds, f.rd(), f.rn(), f.rm(), f.byte(b'r'))
}

fn saturated<K: CacheKind>(f: &Fields, d: &Decoder<K>, handler: Handler<K>) -> Decoded<K> {
    saturating(&d.timing, handler, (f.rd(), f.rm(), f.rn()))
}

fn registers_rows<K: CacheKind>() -> [Row<K>; 17] {
    rows! {
        ("LSL, LSR, ASR, ROR", "A8.8.95", "11111010 0 kk S nnnn 1111 dddd 0000 mmmm") = |f, d| data_processing(&d.timing, MOV, f.flag(b'S'), (f.rd(), 0), Operand::ShiftedByRegister(f.rn(), f.byte(b'k'), f.rm()));
        ("SXTH, SXTAH", "A8.8.232", "11111010 0 000 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::sxth(), f);
        ("UXTH, UXTAH", "A8.8.273", "11111010 0 001 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::uxth(), f);
        ("SXTB16, SXTAB16", "A8.8.231", "11111010 0 010 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::sxtb16(), f);
        ("UXTB16, UXTAB16", "A8.8.272", "11111010 0 011 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::uxtb16(), f);
        ("SXTB, SXTAB", "A8.8.230", "11111010 0 100 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::sxtb(), f);
        ("UXTB, UXTAB", "A8.8.271", "11111010 0 101 nnnn 1111 dddd 1 - rr mmmm") = |f, _| extended(media::uxtb(), f);
        ("QADD", "A8.8.134", "11111010 1000 nnnn 1111 dddd 1000 mmmm") = |f, d| saturated(f, d, multiplies::saturating::<K, false, false>);
        ("QDADD", "A8.8.138", "11111010 1000 nnnn 1111 dddd 1001 mmmm") = |f, d| saturated(f, d, multiplies::saturating::<K, true, false>);
        ("QSUB", "A8.8.141", "11111010 1000 nnnn 1111 dddd 1010 mmmm") = |f, d| saturated(f, d, multiplies::saturating::<K, false, true>);
        ("QDSUB", "A8.8.139", "11111010 1000 nnnn 1111 dddd 1011 mmmm") = |f, d| saturated(f, d, multiplies::saturating::<K, true, true>);
        ("REV", "A8.8.145", "11111010 1001 ---- 1111 dddd 1000 mmmm") = |f, _| unary(media::reverse, f.rd(), f.rm());
        ("REV16", "A8.8.146", "11111010 1001 ---- 1111 dddd 1001 mmmm") = |f, _| unary(media::reverse_halves, f.rd(), f.rm());
        ("RBIT", "A8.8.144", "11111010 1001 ---- 1111 dddd 1010 mmmm") = |f, _| unary(media::reverse_bits, f.rd(), f.rm());
        ("REVSH", "A8.8.147", "11111010 1001 ---- 1111 dddd 1011 mmmm") = |f, _| unary(media::reverse_signed_half, f.rd(), f.rm());
        ("SEL", "A8.8.166", "11111010 1010 nnnn 1111 dddd 1000 mmmm") = |f, _| two(media::select, f);
        ("CLZ", "A8.8.33", "11111010 1011 ---- 1111 dddd 1000 mmmm") = |f, _| count_leading_zeros(f.rd(), f.rm());
    }
}

/// Parallel additions and subtractions (A6.3.13, A6.3.14).
macro_rules! parallel {
    ($prefix:literal, $kind:ident, $bits:literal) => {
        rows! {
            (concat!($prefix, "ADD8"), "A6.3.13", concat!("11111010 1000 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ADD8 }>, f);
            (concat!($prefix, "ADD16"), "A6.3.13", concat!("11111010 1001 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ADD16 }>, f);
            (concat!($prefix, "ASX"), "A6.3.13", concat!("11111010 1010 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ASX }>, f);
            (concat!($prefix, "SUB8"), "A6.3.13", concat!("11111010 1100 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SUB8 }>, f);
            (concat!($prefix, "SUB16"), "A6.3.13", concat!("11111010 1101 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SUB16 }>, f);
            (concat!($prefix, "SAX"), "A6.3.13", concat!("11111010 1110 nnnn 1111 dddd 0", $bits, " mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SAX }>, f);
        }
    };
}

fn parallel_rows<K: CacheKind>() -> [[Row<K>; 6]; 6] {
    [
        parallel!("S", SIGNED, "000"),
        parallel!("Q", SIGNED_SATURATING, "001"),
        parallel!("SH", SIGNED_HALVING, "010"),
        parallel!("U", UNSIGNED, "100"),
        parallel!("UQ", UNSIGNED_SATURATING, "101"),
        parallel!("UH", UNSIGNED_HALVING, "110"),
    ]
}

// ---- multiplies and divisions (A6.3.16, A6.3.17) --------------------------------------------------

/// As the forms of ARM name them: Rm and Rs are the factors.
fn factors(f: &Fields) -> Factors {
    Factors { rd: f.rd(), rn: f.byte(b'a'), rm: f.rn(), rs: f.rm() }
}

/// Of a long multiply: `d` is the upper half, `a` the lower.
fn long<K: CacheKind>(f: &Fields, d: &Decoder<K>, signed: bool, accumulate: bool) -> Decoded<K> {
    multiply_long(&d.timing, signed, accumulate, false, factors(f))
}

/// With an addend or, where that is R15, without.
fn half<K: CacheKind>(
    f: &Fields,
    d: &Decoder<K>,
    with: Handler<K>,
    without: Handler<K>,
) -> Decoded<K> {
    if f.byte(b'a') == PC {
        multiply_half(&d.timing, without, Addend::None, factors(f))
    } else {
        multiply_half(&d.timing, with, Addend::Word, factors(f))
    }
}

fn multiplies_rows<K: CacheKind>() -> [Row<K>; 19] {
    rows! {
        ("MUL, MLA", "A8.8.100", "11111011 0000 nnnn aaaa dddd 0000 mmmm") = |f, d| multiply(&d.timing, f.byte(b'a') != PC, false, factors(f));
        ("MLS", "A8.8.101", "11111011 0000 nnnn aaaa dddd 0001 mmmm") = |f, d| media_multiply(&d.timing, media::multiply_subtract, danm(f));
        ("SMULxy, SMLAxy", "A8.8.176", "11111011 0001 nnnn aaaa dddd 00 x y mmmm") = |f, d| half(f, d, halves!(f, half_accumulate), halves!(f, half_multiply));
        ("SMUAD, SMLAD", "A8.8.178", "11111011 0010 nnnn aaaa dddd 000 x mmmm") = |f, d| media_multiply(&d.timing, exchanged!(f, dual_multiply, false), danm(f));
        ("SMULWy, SMLAWy", "A8.8.181", "11111011 0011 nnnn aaaa dddd 000 y mmmm") = |f, d| half(f, d, halves!(f, y, wide_accumulate), halves!(f, y, wide_multiply));
        ("SMUSD, SMLSD", "A8.8.182", "11111011 0100 nnnn aaaa dddd 000 x mmmm") = |f, d| media_multiply(&d.timing, exchanged!(f, dual_multiply, true), danm(f));
        ("SMMUL, SMMLA", "A8.8.184", "11111011 0101 nnnn aaaa dddd 000 x mmmm") = |f, d| media_multiply(&d.timing, exchanged!(f, multiply_top, false), danm(f));
        ("SMMLS", "A8.8.185", "11111011 0110 nnnn aaaa dddd 000 x mmmm") = |f, d| media_multiply(&d.timing, exchanged!(f, multiply_top, true), danm(f));
        ("USAD8, USADA8", "A8.8.262", "11111011 0111 nnnn aaaa dddd 0000 mmmm") = |f, d| media_multiply(&d.timing, media::absolute_differences, danm(f));
        ("SMULL", "A8.8.189", "11111011 1000 nnnn aaaa dddd 0000 mmmm") = |f, d| long(f, d, true, false);
        ("SDIV", "A8.8.165", "11111011 1001 nnnn ---- dddd 1111 mmmm") = |f, d| divide(&d.timing, media::divide::<K, true>, (f.rd(), f.rn(), f.rm()));
        ("UMULL", "A8.8.257", "11111011 1010 nnnn aaaa dddd 0000 mmmm") = |f, d| long(f, d, false, false);
        ("UDIV", "A8.8.248", "11111011 1011 nnnn ---- dddd 1111 mmmm") = |f, d| divide(&d.timing, media::divide::<K, false>, (f.rd(), f.rn(), f.rm()));
        ("SMLAL", "A8.8.178", "11111011 1100 nnnn aaaa dddd 0000 mmmm") = |f, d| long(f, d, true, true);
        ("SMLALxy", "A8.8.179", "11111011 1100 nnnn aaaa dddd 10 x y mmmm") = |f, d| multiply_half(&d.timing, halves!(f, half_accumulate_long), Addend::Long, factors(f));
        ("SMLALD", "A8.8.180", "11111011 1100 nnnn aaaa dddd 110 x mmmm") = |f, d| media_multiply_long(&d.timing, exchanged!(f, dual_multiply_long, false), danm(f));
        ("SMLSLD", "A8.8.183", "11111011 1101 nnnn aaaa dddd 110 x mmmm") = |f, d| media_multiply_long(&d.timing, exchanged!(f, dual_multiply_long, true), danm(f));
        ("UMLAL", "A8.8.256", "11111011 1110 nnnn aaaa dddd 0000 mmmm") = |f, d| long(f, d, false, true);
        ("UMAAL", "A8.8.255", "11111011 1110 nnnn aaaa dddd 0110 mmmm") = |f, d| media_multiply_long(&d.timing, media::multiply_add_add, danm(f));
    }
}

// ---- coprocessors (A6.3.18) -----------------------------------------------------------------------

/// As in ARM state, where the condition is 14.
fn coprocessors_rows<K: CacheKind>() -> [Row<K>; 6] {
    rows! {
        ("MCR p15", "A8.8.98", "1110 1110 ooo 0 nnnn dddd 1111 qqq 1 mmmm") = |f, d| coprocessor_write(&d.timing, f.rd(), named(f, 15, CoprocessorAccess::write));
        ("MRC p15", "A8.8.107", "1110 1110 ooo 1 nnnn dddd 1111 qqq 1 mmmm") = |f, d| coprocessor_read(&d.timing, f.rd(), named(f, 15, CoprocessorAccess::read));
        ("MCR p14", "A8.8.98", "1110 1110 ooo 0 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_write(&d.timing, f.rd(), named(f, 14, CoprocessorAccess::write));
        ("MRC p14", "A8.8.107", "1110 1110 ooo 1 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_read(&d.timing, f.rd(), named(f, 14, CoprocessorAccess::read));
        ("MCRR p15", "A8.8.99", "1110 1100 0100 tttt dddd 1111 oooo mmmm") = |f, d| coprocessor_write_pair(&d.timing, pair(f), CoprocessorAccess::write(15, f.bits(b'o'), 0, f.bits(b'm'), 0));
        ("MRRC p15", "A8.8.108", "1110 1100 0101 tttt dddd 1111 oooo mmmm") = |f, d| coprocessor_read_pair(&d.timing, pair(f), CoprocessorAccess::read(15, f.bits(b'o'), 0, f.bits(b'm'), 0));
    }
}

fn named(
    f: &Fields,
    coprocessor: u32,
    direction: fn(u32, u32, u32, u32, u32) -> CoprocessorAccess,
) -> CoprocessorAccess {
    direction(coprocessor, f.bits(b'o'), f.bits(b'n'), f.bits(b'm'), f.bits(b'q'))
}
