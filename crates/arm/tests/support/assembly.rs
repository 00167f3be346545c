//! Instructions by their names.
//!
//! `assembled.txt` has the words that the GNU assembler gives for the instructions that the tests
//! use, so that the tests need no assembler. `assemble.py` beside it adds instructions; a test on
//! the Python side, where there is an assembler, compares.

use std::collections::HashMap;
use std::sync::LazyLock;

static ASSEMBLED: LazyLock<HashMap<&str, u32>> = LazyLock::new(|| {
    let lines = include_str!("assembled.txt").lines();
    lines
        .map(|line| {
            let (word, text) = line.split_once(' ').unwrap();
            (text, u32::from_str_radix(word, 16).unwrap())
        })
        .collect()
});

/// The instructions of a text, which `;` separates.
pub fn instructions(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|one| !one.is_empty())
}

/// The word of an ARM instruction; after "thumb ", a half-word, or two, the first one above.
pub fn asm(instruction: &str) -> u32 {
    *ASSEMBLED.get(instruction).unwrap_or_else(|| {
        panic!("type: python3 crates/arm/tests/support/assemble.py '{instruction}'")
    })
}

// Instructions with operands that a program computes.

/// MOV rd, #byte.
pub fn mov(rd: u32, byte: u32) -> u32 {
    0xe3a0_0000 | rd << 12 | byte
}

/// ORR rd, rd, #byte rotated right by twice the rotation.
pub fn orr(rd: u32, byte: u32, rotation: u32) -> u32 {
    0xe380_0000 | rd << 16 | rd << 12 | rotation << 8 | byte
}

/// LDR rd, [rn, #offset].
pub fn ldr(rd: u32, rn: u32, offset: u32) -> u32 {
    0xe590_0000 | rn << 16 | rd << 12 | offset
}

/// STR rd, [rn, #offset].
pub fn str(rd: u32, rn: u32, offset: u32) -> u32 {
    0xe580_0000 | rn << 16 | rd << 12 | offset
}

/// MCR p15, opcode_1, rd, cn, cm, opcode_2.
pub fn mcr(opcode_1: u32, rd: u32, n: u32, m: u32, opcode_2: u32) -> u32 {
    0xee00_0f10 | opcode_1 << 21 | n << 16 | rd << 12 | opcode_2 << 5 | m
}

/// MRC p15, opcode_1, rd, cn, cm, opcode_2.
pub fn mrc(opcode_1: u32, rd: u32, n: u32, m: u32, opcode_2: u32) -> u32 {
    mcr(opcode_1, rd, n, m, opcode_2) | 1 << 20
}

/// B at an address to another.
pub fn branch(from: u32, to: u32) -> u32 {
    0xea00_0000 | to.wrapping_sub(from + 8) >> 2 & 0xff_ffff
}
