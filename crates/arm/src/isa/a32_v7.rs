//! The encodings of ARM instructions that ARMv6 and ARMv7 brought (ARM DDI 0406C, A8.8 and B9.3).
//!
//! Letters as in `a32`, and: `n` first operand, `m` second operand, `a` addend; `w` width or
//! saturation; `l` lowest bit; `r` rotation of a byte; `x` halves of Rm exchanged, or rounding.

use crate::caches::CacheKind;
use crate::cpu::Architecture::V7A;

use super::a32::{immediate, mode, register};
use super::execute::alu::MOV;
use super::execute::{media, v7};
use super::forms::*;
use super::forms_v7::*;
use super::op::{CoprocessorAccess, Handler, modifier};
use super::pattern::{Fields, Pattern};
use super::table::{Form, Row, Since};
use super::vfp;

const V7: Since = Since::Version(V7A);

fn row<K: CacheKind>(
    name: &'static str,
    section: &'static str,
    pattern: &str,
    form: Form<K>,
) -> Row<K> {
    Row { name, section, since: V7, pattern: Pattern::parse(pattern), form }
}

macro_rules! rows {
    ($(($name:expr, $section:literal, $pattern:expr) = |$f:pat_param, $d:pat_param| $form:expr;)*) => {
        [$(row($name, $section, $pattern, |fields, decoder| {
            let ($f, $d) = (fields, decoder);
            ($form).when(fields.byte(b'c'))
        })),*]
    };
}

/// All encodings with a condition.
pub fn conditional<K: CacheKind>() -> impl Iterator<Item = Row<K>> {
    moves_and_fields_rows()
        .into_iter()
        .chain(parallel_rows().into_iter().flatten())
        .chain(multiplies_rows())
        .chain(exclusives_rows())
        .chain(system_rows())
        .chain(vfp::arm())
}

/// Destination, Rn, Rm.
fn dnm(f: &Fields) -> (u8, u8, u8) {
    (f.rd(), f.rn(), f.rm())
}

fn two<K: CacheKind>(handler: Handler<K>, f: &Fields) -> super::decode::Decoded<K> {
    let (rd, rn, rm) = dnm(f);
    binary(handler, rd, rn, rm)
}

fn extended<K: CacheKind>(kinds: [Handler<K>; 2], f: &Fields) -> super::decode::Decoded<K> {
    extend(kinds, f.rd(), f.rn(), f.rm(), f.byte(b'r'))
}

fn moves_and_fields_rows<K: CacheKind>() -> [Row<K>; 25] {
    rows! {
        ("MOVW", "A8.8.102", "cccc 0011 0000 iiii dddd iiiiiiiiiiii") = |f, d| data_processing(&d.timing, MOV, false, (f.rd(), 0), constant(f.bits(b'i')));
        ("MOVT", "A8.8.106", "cccc 0011 0100 iiii dddd iiiiiiiiiiii") = |f, _| move_top(f.rd(), f.bits(b'i'));
        ("BFC, BFI", "A8.8.20", "cccc 0111 110 hhhhh dddd lllll 001 nnnn") = |f, _| insert(f.rd(), f.rn(), f.byte(b'l'), f.byte(b'h'));
        ("SBFX", "A8.8.164", "cccc 0111 101 wwwww dddd lllll 101 nnnn") = |f, _| extract(true, f.rd(), f.rn(), f.byte(b'l'), f.bits(b'w') + 1);
        ("UBFX", "A8.8.246", "cccc 0111 111 wwwww dddd lllll 101 nnnn") = |f, _| extract(false, f.rd(), f.rn(), f.byte(b'l'), f.bits(b'w') + 1);
        ("SSAT", "A8.8.193", "cccc 0110 101 wwwww dddd iiiii r 01 nnnn") = |f, _| saturate(media::saturate_signed, f.rd(), f.rn(), f.byte(b'w') + 1, f.flag(b'r'), f.byte(b'i'));
        ("USAT", "A8.8.264", "cccc 0110 111 wwwww dddd iiiii r 01 nnnn") = |f, _| saturate(media::saturate_unsigned, f.rd(), f.rn(), f.byte(b'w'), f.flag(b'r'), f.byte(b'i'));
        ("SSAT16", "A8.8.194", "cccc 0110 1010 wwww dddd ---- 0011 nnnn") = |f, _| saturate(media::saturate_signed_halves, f.rd(), f.rn(), f.byte(b'w') + 1, false, 0);
        ("USAT16", "A8.8.265", "cccc 0110 1110 wwww dddd ---- 0011 nnnn") = |f, _| saturate(media::saturate_unsigned_halves, f.rd(), f.rn(), f.byte(b'w'), false, 0);
        ("SXTB16, SXTAB16", "A8.8.231", "cccc 0110 1000 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::sxtb16(), f);
        ("SXTB, SXTAB", "A8.8.230", "cccc 0110 1010 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::sxtb(), f);
        ("SXTH, SXTAH", "A8.8.232", "cccc 0110 1011 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::sxth(), f);
        ("UXTB16, UXTAB16", "A8.8.272", "cccc 0110 1100 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::uxtb16(), f);
        ("UXTB, UXTAB", "A8.8.271", "cccc 0110 1110 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::uxtb(), f);
        ("UXTH, UXTAH", "A8.8.273", "cccc 0110 1111 nnnn dddd rr -- 0111 mmmm") = |f, _| extended(media::uxth(), f);
        ("PKHBT", "A8.8.125", "cccc 0110 1000 nnnn dddd iiiii 0 01 mmmm") = |f, _| pack(f.rd(), f.rn(), f.rm(), false, f.bits(b'i'));
        ("PKHTB", "A8.8.125", "cccc 0110 1000 nnnn dddd iiiii 1 01 mmmm") = |f, _| pack(f.rd(), f.rn(), f.rm(), true, f.bits(b'i'));
        ("SEL", "A8.8.166", "cccc 0110 1000 nnnn dddd ---- 1011 mmmm") = |f, _| two(media::select, f);
        ("REV", "A8.8.145", "cccc 0110 1011 ---- dddd ---- 0011 mmmm") = |f, _| unary(media::reverse, f.rd(), f.rm());
        ("REV16", "A8.8.146", "cccc 0110 1011 ---- dddd ---- 1011 mmmm") = |f, _| unary(media::reverse_halves, f.rd(), f.rm());
        ("RBIT", "A8.8.144", "cccc 0110 1111 ---- dddd ---- 0011 mmmm") = |f, _| unary(media::reverse_bits, f.rd(), f.rm());
        ("REVSH", "A8.8.147", "cccc 0110 1111 ---- dddd ---- 1011 mmmm") = |f, _| unary(media::reverse_signed_half, f.rd(), f.rm());
        ("USAD8, USADA8", "A8.8.262", "cccc 0111 1000 dddd aaaa mmmm 0001 nnnn") = |f, d| media_multiply(&d.timing, media::absolute_differences, (f.rd(), f.byte(b'a'), f.rn(), f.rm()));
        ("SDIV", "A8.8.165", "cccc 0111 0001 dddd ---- mmmm 0001 nnnn") = |f, d| divide(&d.timing, media::divide::<K, true>, (f.rd(), f.rn(), f.rm()));
        ("UDIV", "A8.8.248", "cccc 0111 0011 dddd ---- mmmm 0001 nnnn") = |f, d| divide(&d.timing, media::divide::<K, false>, (f.rd(), f.rn(), f.rm()));
    }
}

// ---- parallel additions and subtractions (A5.4.1, A5.4.2) -----------------------------------------

macro_rules! parallel {
    ($prefix:literal, $kind:ident, $bits:literal) => {
        rows! {
            (concat!($prefix, "ADD16"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 0 00 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ADD16 }>, f);
            (concat!($prefix, "ASX"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 0 01 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ASX }>, f);
            (concat!($prefix, "SAX"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 0 10 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SAX }>, f);
            (concat!($prefix, "SUB16"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 0 11 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SUB16 }>, f);
            (concat!($prefix, "ADD8"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 1 00 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::ADD8 }>, f);
            (concat!($prefix, "SUB8"), "A5.4", concat!("cccc 0110 0", $bits, " nnnn dddd ---- 1 11 1 mmmm")) = |f, _| two(media::parallel::<K, { media::$kind }, { media::SUB8 }>, f);
        }
    };
}

fn parallel_rows<K: CacheKind>() -> [[Row<K>; 6]; 6] {
    [
        parallel!("S", SIGNED, "001"),
        parallel!("Q", SIGNED_SATURATING, "010"),
        parallel!("SH", SIGNED_HALVING, "011"),
        parallel!("U", UNSIGNED, "101"),
        parallel!("UQ", UNSIGNED_SATURATING, "110"),
        parallel!("UH", UNSIGNED_HALVING, "111"),
    ]
}

// ---- multiplies -----------------------------------------------------------------------------------

fn multiplies_rows<K: CacheKind>() -> [Row<K>; 9] {
    rows! {
        ("MLS", "A8.8.101", "cccc 0000 0110 dddd aaaa mmmm 1001 nnnn") = |f, d| media_multiply(&d.timing, media::multiply_subtract, danm(f));
        ("UMAAL", "A8.8.255", "cccc 0000 0100 dddd aaaa mmmm 1001 nnnn") = |f, d| media_multiply_long(&d.timing, media::multiply_add_add, danm(f));
        ("SMUAD, SMLAD", "A8.8.178", "cccc 0111 0000 dddd aaaa mmmm 00 x 1 nnnn") = |f, d| media_multiply(&d.timing, exchanged!(f, dual_multiply, false), danm(f));
        ("SMUSD, SMLSD", "A8.8.182", "cccc 0111 0000 dddd aaaa mmmm 01 x 1 nnnn") = |f, d| media_multiply(&d.timing, exchanged!(f, dual_multiply, true), danm(f));
        ("SMLALD", "A8.8.180", "cccc 0111 0100 dddd aaaa mmmm 00 x 1 nnnn") = |f, d| media_multiply_long(&d.timing, exchanged!(f, dual_multiply_long, false), danm(f));
        ("SMLSLD", "A8.8.183", "cccc 0111 0100 dddd aaaa mmmm 01 x 1 nnnn") = |f, d| media_multiply_long(&d.timing, exchanged!(f, dual_multiply_long, true), danm(f));
        ("SMMUL, SMMLA", "A8.8.184", "cccc 0111 0101 dddd aaaa mmmm 00 x 1 nnnn") = |f, d| media_multiply(&d.timing, exchanged!(f, multiply_top, false), danm(f));
        ("SMMLS", "A8.8.185", "cccc 0111 0101 dddd aaaa mmmm 11 x 1 nnnn") = |f, d| media_multiply(&d.timing, exchanged!(f, multiply_top, true), danm(f));
        ("SWP, SWPB", "A8.8.229", "cccc 0001 0 b 00 nnnn dddd ---- 1001 mmmm") = |f, d| swap_if_enabled(&d.timing, f.flag(b'b'), (f.rd(), f.rm(), f.rn()));
    }
}

// ---- exclusives -----------------------------------------------------------------------------------

fn exclusives_rows<K: CacheKind>() -> [Row<K>; 8] {
    rows! {
        ("STREX", "A8.8.212", "cccc 0001 1000 nnnn dddd ---- 1001 mmmm") = |f, _| store_exclusive(4, f.rd(), (f.rm(), PC, f.rn()), 0);
        ("LDREX", "A8.8.75", "cccc 0001 1001 nnnn dddd ---- 1001 ----") = |f, d| load_exclusive(&d.timing, 4, (f.rd(), PC, f.rn()), 0);
        ("STREXD", "A8.8.214", "cccc 0001 1010 nnnn dddd ---- 1001 mmm0") = |f, _| store_exclusive(8, f.rd(), (2 * f.rm(), 2 * f.rm() + 1, f.rn()), 0);
        ("LDREXD", "A8.8.77", "cccc 0001 1011 nnnn ddd0 ---- 1001 ----") = |f, d| load_exclusive(&d.timing, 8, (2 * f.rd(), 2 * f.rd() + 1, f.rn()), 0);
        ("STREXB", "A8.8.213", "cccc 0001 1100 nnnn dddd ---- 1001 mmmm") = |f, _| store_exclusive(1, f.rd(), (f.rm(), PC, f.rn()), 0);
        ("LDREXB", "A8.8.76", "cccc 0001 1101 nnnn dddd ---- 1001 ----") = |f, d| load_exclusive(&d.timing, 1, (f.rd(), PC, f.rn()), 0);
        ("STREXH", "A8.8.215", "cccc 0001 1110 nnnn dddd ---- 1001 mmmm") = |f, _| store_exclusive(2, f.rd(), (f.rm(), PC, f.rn()), 0);
        ("LDREXH", "A8.8.78", "cccc 0001 1111 nnnn dddd ---- 1001 ----") = |f, d| load_exclusive(&d.timing, 2, (f.rd(), PC, f.rn()), 0);
    }
}

// ---- status, hints, calls, coprocessors -----------------------------------------------------------

fn pair(f: &Fields) -> (u8, u8) {
    (f.rd(), f.byte(b't'))
}

/// The register that MCRR or MRRC names: CRm and the opcode.
fn named(
    f: &Fields,
    direction: fn(u32, u32, u32, u32, u32) -> CoprocessorAccess,
) -> CoprocessorAccess {
    direction(15, f.bits(b'o'), 0, f.bits(b'm'), 0)
}

/// The register of coprocessor 14, which has the debug registers.
fn debug_register(
    f: &Fields,
    direction: fn(u32, u32, u32, u32, u32) -> CoprocessorAccess,
) -> CoprocessorAccess {
    direction(14, f.bits(b'o'), f.bits(b'n'), f.bits(b'm'), f.bits(b'q'))
}

fn system_rows<K: CacheKind>() -> [Row<K>; 9] {
    rows! {
        ("MSR", "B9.3.11", "cccc 0011 0 R 10 kkkk ---- rrrr iiiiiiii ! ---- 0011 0010 0000") = |f, d| status_write(&d.timing, f.flag(b'R'), f.byte(b'k'), rotated(f.bits(b'i'), f.bits(b'r')));
        ("NOP, YIELD, WFE, WFI, SEV, DBG", "A8.8.119", "cccc 0011 0010 0000 ---- ---- hhhhhhhh") = |f, _| hint(f.bits(b'h'));
        ("HVC", "B9.3.4", "cccc 0001 0100 iiii iiii iiii 0111 iiii") = |f, _| monitor_call(v7::firmware_call, f.bits(b'i'));
        ("SMC", "B9.3.14", "cccc 0001 0110 ---- ---- ---- 0111 iiii") = |f, _| monitor_call(v7::firmware_call, f.bits(b'i'));
        ("ERET", "B9.3.3", "cccc 0001 0110 ---- ---- ---- 0110 ----") = |_, _| subtract_return(0);
        ("MCRR p15", "A8.8.99", "cccc 1100 0100 tttt dddd 1111 oooo mmmm") = |f, d| coprocessor_write_pair(&d.timing, pair(f), named(f, CoprocessorAccess::write));
        ("MRRC p15", "A8.8.108", "cccc 1100 0101 tttt dddd 1111 oooo mmmm") = |f, d| coprocessor_read_pair(&d.timing, pair(f), named(f, CoprocessorAccess::read));
        ("MCR p14", "A8.8.98", "cccc 1110 ooo 0 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_write(&d.timing, f.rd(), debug_register(f, CoprocessorAccess::write));
        ("MRC p14", "A8.8.107", "cccc 1110 ooo 1 nnnn dddd 1110 qqq 1 mmmm") = |f, d| coprocessor_read(&d.timing, f.rd(), debug_register(f, CoprocessorAccess::read));
    }
}

/// Where others have condition 1111.
pub fn unconditional_rows<K: CacheKind>() -> [Row<K>; 16] {
    [
        row("CPS", "B9.3.2", "1111 0001 0000 00 w 0 ------- --- 0 ooooo", |f, _| {
            change_state(None, 0, f.flag(b'w').then_some(f.byte(b'o')))
        }),
        row("CPSIE", "B9.3.2", "1111 0001 0000 10 w 0 ------- aaa 0 ooooo", |f, _| {
            change_state(Some(false), f.byte(b'a'), f.flag(b'w').then_some(f.byte(b'o')))
        }),
        row("CPSID", "B9.3.2", "1111 0001 0000 11 w 0 ------- aaa 0 ooooo", |f, _| {
            change_state(Some(true), f.byte(b'a'), f.flag(b'w').then_some(f.byte(b'o')))
        }),
        row("SETEND", "A8.8.167", "1111 0001 0000 ---1 0000 00 e - 0000 ----", |f, _| {
            set_endianness(f.flag(b'e'))
        }),
        row("CLREX", "A8.8.33", "1111 0101 0111 ---- ---- ---- 0001 ----", |_, _| {
            clear_exclusive()
        }),
        row("DSB", "A8.8.44", "1111 0101 0111 ---- ---- ---- 0100 ----", |_, _| {
            barrier(v7::data_synchronization_barrier)
        }),
        row("DMB", "A8.8.43", "1111 0101 0111 ---- ---- ---- 0101 ----", |_, _| {
            barrier(v7::data_memory_barrier)
        }),
        row("ISB", "A8.8.53", "1111 0101 0111 ---- ---- ---- 0110 ----", |_, _| {
            barrier(v7::instruction_synchronization_barrier)
        }),
        row("PLD", "A8.8.127", "1111 0101 U 101 nnnn ---- iiiiiiiiiiii", |f, _| {
            preload(immediate(f, modifier::BEFORE))
        }),
        row("PLD", "A8.8.128", "1111 0111 U 101 nnnn ---- aaaaa tt 0 mmmm", |f, _| {
            preload(register(f, modifier::BEFORE))
        }),
        row("PLDW", "A8.8.127", "1111 0101 U 001 nnnn ---- iiiiiiiiiiii", |f, _| {
            preload(immediate(f, modifier::BEFORE))
        }),
        row("PLDW", "A8.8.128", "1111 0111 U 001 nnnn ---- aaaaa tt 0 mmmm", |f, _| {
            preload(register(f, modifier::BEFORE))
        }),
        // PLI, and hints to come (A5.7.1).
        row("PLI", "A8.8.129", "1111 0100 - -01 ---- ---- ---- ---- ----", |_, _| nothing()),
        row("PLI", "A8.8.130", "1111 0110 - -01 ---- ---- ---- ---0 ----", |_, _| nothing()),
        row("SRS", "B9.3.16", "1111 100 P U 1 W 0 ---- ---- ---- --- ooooo", |f, _| {
            store_return_state(f.bits(b'o'), mode(f))
        }),
        row("RFE", "B9.3.13", "1111 100 P U 0 W 1 nnnn ---- ---- ---- ----", |f, _| {
            return_from_exception(f.rn(), mode(f))
        }),
    ]
}
