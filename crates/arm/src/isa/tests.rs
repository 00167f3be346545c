//! The tables as tables: no word has two rows, and the index finds what a search finds.

use mmulab_hardware::Random;

use super::decode::{Decoder, Tables};
use super::op::{Operands, PackedOperands};
use super::pattern::Pattern;
use super::table::{Row, Table};
use crate::caches::{CacheKind, VirtualCaches};
use crate::cpu::Architecture;

/// The tables of cores before ARMv7.
fn before_v7() -> &'static Tables<VirtualCaches> {
    &VirtualCaches::tables().before_v7
}

/// The tables of cores from ARMv7 on.
fn from_v7() -> &'static Tables<VirtualCaches> {
    &VirtualCaches::tables().from_v7
}

/// The tables of both generations of cores, with their rows and how they are told apart.
fn tables() -> [(&'static str, &'static Table<VirtualCaches>); 8] {
    [
        ("ARM", &before_v7().conditional),
        ("ARM, unconditional", &before_v7().unconditional),
        ("Thumb", &before_v7().narrow),
        ("Thumb, 32 bits, before there were any", &before_v7().wide),
        ("ARMv7", &from_v7().conditional),
        ("ARMv7, unconditional", &from_v7().unconditional),
        ("ARMv7, Thumb", &from_v7().narrow),
        ("ARMv7, Thumb, 32 bits", &from_v7().wide),
    ]
}

/// Whether there is a word that both patterns match. What one of them leaves out counts only if it
/// leaves out all that they have in common.
fn overlap(a: &Pattern, b: &Pattern) -> bool {
    let common = (a.value ^ b.value) & a.mask & b.mask == 0;
    let left_out = |a: &Pattern, b: &Pattern| {
        let (mask, value) = (a.mask | b.mask, a.value | b.value);
        a.except_mask != 0
            && a.except_mask & !mask == 0
            && (value ^ a.except_value) & a.except_mask == 0
    };
    // The bits of a condition are in no mask: words that begin with 1111 are in no table of these.
    common && !left_out(a, b) && !left_out(b, a)
}

#[test]
fn no_two_rows_match_the_same_word() {
    for (name, table) in tables() {
        let rows = table.rows();
        for (number, a) in rows.iter().enumerate() {
            for b in &rows[number + 1..] {
                let (a_name, b_name) = (a.name, b.name);
                assert!(!overlap(&a.pattern, &b.pattern), "{name}: {a_name} and {b_name}");
            }
        }
    }
}

#[test]
fn the_check_for_overlap_finds_one() {
    let overlap = |a, b| overlap(&Pattern::parse(a), &Pattern::parse(b));
    assert!(overlap("0100 dddd nnnn mmmm", "01-0 dddd nnnn mmmm"));
    assert!(!overlap("0100 dddd nnnn mmmm", "0110 dddd nnnn mmmm"));
    assert!(overlap("1101 cccc iiiiiiii", "1101 1111 iiiiiiii"));
    assert!(!overlap("1101 cccc iiiiiiii ! 1101 111", "1101 1111 iiiiiiii"));
    assert!(overlap("1101 cccc iiiiiiii ! 1101 111", "1101 0111 iiiiiiii"));
}

#[test]
fn every_thumb_half_word_has_one_row_or_is_undefined() {
    for (v7, table) in [(false, &before_v7().narrow), (true, &from_v7().narrow)] {
        for half in 0..=0xffff_u32 {
            let matching = table.rows().iter().filter(|row| row.pattern.matches(half));
            let matching: Vec<&Row<VirtualCaches>> = matching.collect();
            assert!(matching.len() <= 1, "{half:04x}");
            let found = table.find(half).map(|row| row.section);
            assert_eq!(found, matching.first().map(|row| row.section), "{half:04x}");
            let undefined = if v7 {
                // ARM DDI 0406C, A6.2; the last are the beginnings of 32-bit instructions.
                matches!(
                    half,
                    0xb600..=0xb63f | 0xb680..=0xb8ff | 0xba80..=0xbabf
                        | 0xde00..=0xdeff | 0xe800..=0xffff
                )
            } else {
                // Figures A6-1 and A6-2; the odd ones are the other halves of the 32-bit
                // instructions of Thumb-2.
                matches!(
                    half,
                    0xb100..=0xb3ff | 0xb600..=0xbbff | 0xbf00..=0xbfff | 0xde00..=0xdeff
                ) || half & 0xf801 == 0xe801
            };
            assert_eq!(matching.is_empty(), undefined, "{half:04x}");
        }
    }
}

#[test]
fn shifted_registers_with_bit_15_set_are_undefined_in_thumb_2() {
    // ARM DDI 0406C, A6.3.11: it should be zero. AND with R15, ADD, PKHBT.
    for word in [0xea00_0ffe_u32, 0xeb01_0002, 0xeac1_0002] {
        assert!(from_v7().wide.find(word).is_some(), "{word:08x}");
        assert!(from_v7().wide.find(word | 0x8000).is_none(), "{word:08x}");
    }
}

#[test]
fn the_index_finds_what_a_search_finds() {
    let mut random = Random::new(1);
    for (name, table) in tables() {
        if table.rows().first().is_none_or(|row| row.pattern.width == 16) {
            continue;
        }
        for _ in 0..1 << 19 {
            let word = random.next_u64() as u32;
            let mut matching = table.rows().iter().filter(|row| row.pattern.matches(word));
            let first = matching.next().map(|row| (row.name, row.section));
            assert!(matching.next().is_none(), "{name}: {word:08x}");
            let found = table.find(word).map(|row| (row.name, row.section));
            assert_eq!(found, first, "{name}: {word:08x}");
        }
    }
}

/// A word of each row, with its free bits random, finds its row.
#[test]
fn every_row_is_found() {
    let mut random = Random::new(2);
    for (name, table) in tables() {
        for row in table.rows() {
            for _ in 0..64 {
                let free = random.next_u64() as u32 & !row.pattern.mask;
                let word = (free | row.pattern.value) & (!0 >> (32 - row.pattern.width));
                if row.pattern.matches(word) {
                    let found = table.find(word).map(|found| (found.name, found.section));
                    assert_eq!(found, Some((row.name, row.section)), "{name}: {word:08x}");
                }
            }
        }
    }
}

/// What a handler gets of random words of each row is what the row's form gave it.
#[test]
fn operands_survive_packing() {
    let decoder = decoder();
    let mut random = Random::new(3);
    for (name, table) in tables() {
        for row in table.rows() {
            for _ in 0..64 {
                let free = random.next_u64() as u32 & !row.pattern.mask;
                let word = (free | row.pattern.value) & (!0 >> (32 - row.pattern.width));
                let operands = (row.form)(&row.pattern.fields(word), &decoder).operands;
                let packed = PackedOperands::from(operands);
                let Operands { immediate, rd, rn, rm, rs, shift, modifiers } = operands;
                let place = format!("{name}: {word:08x}");
                assert_eq!((packed.immediate, packed.shift()), (immediate, shift), "{place}");
                let registers = (packed.rd(), packed.rn(), packed.rm(), packed.rs());
                assert_eq!(registers, (rd, rn, rm, rs), "{place}");
                assert!((0..8).all(|bit| packed.is(1 << bit) == (modifiers >> bit & 1 != 0)));
            }
        }
    }
}

#[test]
#[allow(clippy::unusual_byte_groupings, reason = "grouped as the pattern is")]
fn fields_in_pieces_are_put_together() {
    let pattern = Pattern::parse("11110 i 1 0000 0 nnnn 0 iii dddd iiiiiiii");
    let word = 0b11110_1_1_0000_0_0101_0_010_1001_11000011;
    assert!(pattern.matches(word) && !pattern.matches(word | 0x8000));
    let fields = pattern.fields(word);
    assert_eq!((fields.bits(b'i'), fields.rd(), fields.rn()), (0b1_010_1100_0011, 9, 5));
    assert_eq!(fields.signed(b'i', 12), 0xffff_fac3);
}

fn decoder() -> Decoder<VirtualCaches> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/ixp425.toml");
    let Ok(mmulab_machine::Machine::System(machine)) = mmulab_machine::Machine::load(&path) else {
        panic!("not a machine of ours");
    };
    Decoder::new(Architecture::V5TE, machine.timing.clone(), true)
}

/// What a disassembler calls what is another encoding of the same, or has a name of its own.
const SYNONYMS: [(&str, &[&str]); 20] = [
    ("LSL", &["MOV"]),
    ("LSR", &["MOV"]),
    ("ASR", &["MOV"]),
    ("ROR", &["MOV"]),
    ("RSB", &["NEG"]),
    ("PUSH", &["STM", "STMDB", "STR"]),
    ("POP", &["LDM", "LDR"]),
    ("LDMIB", &["LDM"]),
    ("LDMDB", &["LDM"]),
    ("STMIB", &["STM"]),
    ("STMDB", &["STM"]),
    ("LDM", &["LDMIA"]),
    ("VLDMIA", &["VLDM"]),
    ("VSTMIA", &["VSTM"]),
    ("STM", &["STMIA"]),
    ("ADR", &["ADD", "SUB"]),
    ("SVC", &["SWI"]),
    ("HINT", &["NOP"]),
    ("SMLABB", &["SMLAXY"]),
    // Of a load to R15 (ARM DDI 0406C, A6.3.9).
    ("PLD", &["LDRB"]),
];

/// Whether a row's name, a list of mnemonics, has that of a disassembler, which may end in S, a
/// condition and a width.
fn is_called(row: &str, mnemonic: &str) -> bool {
    const CONDITIONS: [&str; 15] =
        ["", "EQ", "NE", "HS", "LO", "MI", "PL", "VS", "VC", "HI", "LS", "GE", "LT", "GT", "LE"];
    // A vector instruction has its types behind a full stop.
    let called = mnemonic.split('.').next().unwrap_or_default().to_uppercase();
    row.split([',', ' ']).map(str::to_uppercase).filter(|name| !name.is_empty()).any(|name| {
        CONDITIONS.iter().any(|condition| {
            ["", "S"].iter().any(|flags| {
                let bases = [
                    called.strip_suffix(&format!("{flags}{condition}")),
                    called.strip_suffix(&format!("{condition}{flags}")),
                ];
                bases.into_iter().flatten().any(|base| {
                    let synonyms = SYNONYMS.iter().find(|known| known.0 == base);
                    base == name || synonyms.is_some_and(|known| known.1.contains(&&*name))
                })
            })
        }) || name == "IT" && called.starts_with("IT")
    })
}

#[test]
fn names_of_a_disassembler_are_matched() {
    for (row, mnemonic, expected) in [
        ("AND, TST", "tstne", true),
        ("LDM (1)", "popeq", true),
        ("MOV", "lsls.w", true),
        ("ADD", "addseq", true),
        ("ADD", "adc", false),
        ("BIC", "b", false),
        ("SUB", "sbc", false),
    ] {
        assert_eq!(is_called(row, mnemonic), expected, "{row} {mnemonic}");
    }
}

/// Every encoding that a Linux and its programs executed has the row that a disassembler names.
/// `MMULAB_ENCODINGS` may name a file with more of them.
#[test]
fn encodings_that_ran_decode_as_disassembled() {
    let committed = include_str!("data/encodings.txt").to_owned();
    let all = match std::env::var_os("MMULAB_ENCODINGS") {
        Some(path) => std::fs::read_to_string(path).expect("the file of encodings"),
        None => committed,
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in all.lines().filter(|line| !line.starts_with('#')) {
        let [state, word, mnemonic] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not a line of three words: {line}");
        };
        let word = u32::from_str_radix(word, 16).expect("a number");
        let table = match state {
            "narrow" => &from_v7().narrow,
            "wide" => &from_v7().wide,
            _ if word >> 28 == 15 => &from_v7().unconditional,
            _ => &from_v7().conditional,
        };
        let row = table.find(word).map(|row| row.name);
        if !row.is_some_and(|name| is_called(name, mnemonic)) {
            wrong.push(format!("{line}: {row:?}"));
        }
        checked += 1;
    }
    assert!(checked > 500);
    assert!(wrong.is_empty(), "{} of {checked}: {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
}
