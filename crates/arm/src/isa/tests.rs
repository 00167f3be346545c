//! The tables as tables: no word has two rows, and the index finds what a search finds.

use mmulab_hardware::Random;

use super::decode::{Decoded, Decoder};
use super::execute::alu::ADD;
use super::forms::{constant, data_processing};
use super::op::{ALWAYS, Operands, PackedOperands};
use super::pattern::Pattern;
use super::table::{Choice, Row, Since, Table};
use super::{a32, t16};
use crate::cpu::Architecture;

fn tables() -> [(&'static str, Vec<&'static Row>); 3] {
    [
        ("ARM", a32::conditional().collect()),
        ("ARM, unconditional", a32::UNCONDITIONAL.iter().collect()),
        ("Thumb", t16::ROWS.iter().collect()),
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
    common && !left_out(a, b) && !left_out(b, a)
}

#[test]
fn no_two_rows_match_the_same_word() {
    for (name, rows) in tables() {
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
    let table = Table::new(t16::ROWS.iter(), Choice { high: 8, bits: 8, low: 4 });
    for half in 0..=0xffff_u32 {
        let matching: Vec<&Row> =
            t16::ROWS.iter().filter(|row| row.pattern.matches(half)).collect();
        assert!(matching.len() <= 1, "{half:04x}");
        assert_eq!(
            table.find(half).map(|row| row.section),
            matching.first().map(|row| row.section),
            "{half:04x}"
        );
        // Figures A6-1 and A6-2; the odd ones are the other halves of the 32-bit instructions of Thumb-2.
        let undefined = matches!(
            half,
            0xb100..=0xb3ff | 0xb600..=0xbbff | 0xbf00..=0xbfff | 0xde00..=0xdeff
        ) || half & 0xf801 == 0xe801;
        assert_eq!(matching.is_empty(), undefined, "{half:04x}");
    }
}

#[test]
fn the_index_finds_what_a_search_finds() {
    let mut random = Random::new(1);
    for (name, rows) in &tables()[..2] {
        let table = Table::new(rows.iter().copied(), Choice { high: 20, bits: 8, low: 4 });
        for choice in 0..0x1000_u32 {
            for _ in 0..64 {
                let rest = random.next_u64() as u32 & 0xf00f_ff0f;
                let word = choice >> 4 << 20 | (choice & 15) << 4 | rest;
                let mut matching = rows.iter().filter(|row| row.pattern.matches(word));
                let first = matching.next().map(|row| (row.name, row.section));
                assert!(matching.next().is_none(), "{name}: {word:08x}");
                let found = table.find(word).map(|row| (row.name, row.section));
                assert_eq!(found, first, "{name}: {word:08x}");
            }
        }
    }
}

/// A word of each row, with its free bits random, finds its row.
#[test]
fn every_row_is_found() {
    let mut random = Random::new(2);
    for (name, rows) in tables() {
        let width = rows[0].pattern.width;
        let (high, bits) = if width == 16 { (8, 8) } else { (20, 8) };
        let table = Table::new(rows.iter().copied(), Choice { high, bits, low: 4 });
        for row in rows {
            assert_eq!(row.pattern.width, width, "{name}: {}", row.name);
            for _ in 0..64 {
                let free = random.next_u64() as u32 & !row.pattern.mask;
                let word = (free | row.pattern.value) & (!0 >> (32 - width));
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
    for (name, rows) in tables() {
        for row in rows {
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

/// A row of 32-bit Thumb is a row like any other: ADDW (ARM DDI 0406C, A8.8.4, encoding T4).
#[test]
fn an_instruction_of_thumb_2_is_one_more_row() {
    static T32: [Row; 1] = [Row {
        name: "ADDW",
        section: "ARM DDI 0406C, A8.8.4",
        since: Since::Version(Architecture::V5TE),
        pattern: Pattern::parse("11110 i 1 0000 0 nnnn 0 iii dddd iiiiiiii"),
        form: |f, d| {
            data_processing(&d.timing, ADD, false, (f.rd(), f.rn()), constant(f.bits(b'i')))
        },
    }];
    let table = Table::new(T32.iter(), Choice { high: 20, bits: 12, low: 12 });
    let word = 0xf60a_20bc; // addw r0, r10, #0xabc
    let row = table.find(word).expect("the row");
    let decoder = decoder();
    let Decoded { op, operands, .. } = (row.form)(&row.pattern.fields(word), &decoder);
    assert_eq!((operands.rd, operands.rn, operands.immediate, op.passes), (0, 10, 0xabc, ALWAYS));
}

fn decoder() -> Decoder {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/ixp425.toml");
    let Ok(mmulab_machine::Machine::System(machine)) = mmulab_machine::Machine::load(&path) else {
        panic!("not a machine of ours");
    };
    Decoder::new(Architecture::V5TE, machine.timing.clone(), true)
}
