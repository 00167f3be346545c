//! From instruction words to [`Op`]s: the choice of the handler and the cost of each instruction.
//!
//! A Thumb instruction is decoded as the ARM instruction that it abbreviates (ARM DDI 0100, A7.1
//! gives the equivalence for each); the few that have no equivalent have handlers of their own.

use mmulab_machine::ArmTiming;

use crate::cpu::Architecture;
use crate::execute::{self as ex, *};

/// Set in the condition of an instruction at the end of its line whose result comes late: whether
/// that stalls is known when the next line is.
pub const LATE: u8 = 0x10;

/// What decoding depends on.
#[derive(Clone)]
pub struct Decoder {
    /// The core's architecture version.
    pub architecture: Architecture,
    /// The core's instruction timing.
    pub timing: ArmTiming,
    /// Whether it has the XScale's 40-bit accumulator as coprocessor 0.
    pub accumulator: bool,
}

macro_rules! data_processing_row {
    ($opcode:literal, $form:ident) => {
        [
            ex::data_processing::<$opcode, false, $form> as Handler,
            ex::data_processing::<$opcode, true, $form> as Handler,
            ex::data_processing_to_pc::<$opcode, $form> as Handler,
        ]
    };
}

macro_rules! data_processing_rows {
    ($form:ident) => {
        [
            data_processing_row!(0, $form),
            data_processing_row!(1, $form),
            data_processing_row!(2, $form),
            data_processing_row!(3, $form),
            data_processing_row!(4, $form),
            data_processing_row!(5, $form),
            data_processing_row!(6, $form),
            data_processing_row!(7, $form),
            data_processing_row!(8, $form),
            data_processing_row!(9, $form),
            data_processing_row!(10, $form),
            data_processing_row!(11, $form),
            data_processing_row!(12, $form),
            data_processing_row!(13, $form),
            data_processing_row!(14, $form),
            data_processing_row!(15, $form),
        ]
    };
}

/// Handlers by form, opcode, and: no flags, flags, to R15.
static DATA_PROCESSING: [[[Handler; 3]; 16]; 4] = [
    data_processing_rows!(IMMEDIATE),
    data_processing_rows!(PLAIN),
    data_processing_rows!(SHIFTED),
    data_processing_rows!(SHIFTED_BY_REGISTER),
];

fn field(word: u32, low: u32) -> u8 {
    (word >> low & 15) as u8
}

fn sign_extend(value: u32, bits: u32) -> u32 {
    ((value << (32 - bits)) as i32 >> (32 - bits)) as u32
}

impl Decoder {
    fn blank(&self, word: u32) -> Op {
        Op {
            handler: ex::undefined,
            immediate: 0,
            word,
            condition: field(word, 28),
            rd: field(word, 12),
            rn: field(word, 16),
            rm: field(word, 0),
            rs: field(word, 8),
            shift: 0,
            issue: 1,
            stall: 0,
        }
    }

    /// Decodes an ARM instruction; `following` is the word after it, where it is known.
    pub fn arm(&self, word: u32, following: Option<u32>) -> Op {
        let mut op = self.blank(word);
        if op.condition == 15 {
            self.unconditional(&mut op);
        } else {
            match word >> 25 & 7 {
                0 if word & 0x90 == 0x90 => self.multiply_or_extra(&mut op),
                0 if word >> 23 & 3 == 2 && word >> 20 & 1 == 0 => self.miscellaneous(&mut op),
                1 if word >> 20 & 0x1b == 0x12 => self.status_write(&mut op),
                // The MRS of an immediate does not exist.
                1 if word >> 20 & 0x1b == 0x10 => {}
                0 | 1 => self.data_processing(&mut op),
                2 => self.transfer(&mut op),
                3 if word & 0x10 == 0 => self.transfer(&mut op),
                4 => self.block(&mut op),
                5 => {
                    op.immediate = sign_extend(word, 24) << 2;
                    op.handler =
                        if word >> 24 & 1 != 0 { ex::branch_with_link } else { ex::branch };
                }
                6 if self.accumulator && word & 0x0fe0_0fff == 0x0c40_0000 => {
                    op.handler = ex::accumulator_transfer;
                    op.issue = 2;
                }
                7 => self.coprocessor_or_call(&mut op),
                _ => {}
            }
        }
        match following {
            Some(following) => op.stall = self.stall(word, following),
            None if self.results(word).0 & !PC != 0 && self.results(word).1 > 0 => {
                op.condition |= LATE;
            }
            None => {}
        }
        op
    }

    /// The space of condition 1111: version 5 put BLX and PLD there; before, it is unpredictable, and
    /// taken as undefined here (A3.2.1).
    fn unconditional(&self, op: &mut Op) {
        op.condition = 14;
        if self.architecture < Architecture::V5TE {
            return;
        }
        let word = op.word;
        if word >> 25 & 7 == 5 {
            op.immediate = sign_extend(word, 24) << 2 | word >> 23 & 2;
            op.handler = ex::branch_with_link_to_thumb;
        } else if word & 0x0d70_f000 == 0x0550_f000 && (word >> 25 & 1 == 0 || word & 0x10 == 0) {
            self.shift_fields(op);
            op.immediate = word & 0xfff;
            op.handler = ex::preload;
        }
    }

    fn shift_fields(&self, op: &mut Op) {
        op.shift = (op.word >> 5 & 3) as u8;
        op.rs = (op.word >> 7 & 31) as u8;
    }

    fn data_processing(&self, op: &mut Op) {
        let word = op.word;
        let opcode = (word >> 21 & 15) as usize;
        let form = if word >> 25 & 1 != 0 {
            let rotation = word >> 7 & 30;
            op.immediate = (word & 0xff).rotate_right(rotation);
            op.shift = if rotation == 0 { 2 } else { (op.immediate >> 31) as u8 };
            IMMEDIATE
        } else if word & 0x10 != 0 {
            op.shift = (word >> 5 & 3) as u8;
            op.issue += self.timing.register_shift_cycles;
            SHIFTED_BY_REGISTER
        } else if word & 0xff0 == 0 {
            PLAIN
        } else {
            self.shift_fields(op);
            SHIFTED
        };
        let flags = (word >> 20 & 1) as usize;
        // The comparisons have no destination; with R15 in its place they are the 26-bit TEQP forms,
        // which these cores take as the plain ones.
        let variant = if op.rd == 15 && !(8..=11).contains(&opcode) { 2 } else { flags };
        op.handler = DATA_PROCESSING[usize::from(form)][opcode][variant];
    }

    fn status_write(&self, op: &mut Op) {
        let word = op.word;
        op.issue = if word >> 16 & 7 != 0 {
            self.timing.status_write_cycles
        } else {
            self.timing.flags_write_cycles
        };
        if word >> 25 & 1 != 0 {
            op.immediate = (word & 0xff).rotate_right(word >> 7 & 30);
            op.handler = ex::status_write::<IMMEDIATE>;
        } else {
            op.handler = ex::status_write::<PLAIN>;
        }
    }

    fn miscellaneous(&self, op: &mut Op) {
        let word = op.word;
        let v5 = self.architecture >= Architecture::V5TE;
        match (word >> 4 & 15, word >> 21 & 3) {
            (0, 0 | 2) => {
                op.handler = ex::status_read;
                op.issue = self.timing.status_read_cycles;
            }
            (0, _) => self.status_write(op),
            (1, 1) if self.architecture >= Architecture::V4T => {
                op.handler = ex::branch_exchange::<false>;
            }
            (1, 3) if v5 => op.handler = ex::count_leading_zeros,
            // BXJ: without Jazelle it is BX (ARM DDI 0198D, 2.2).
            (2, 1) if v5 => op.handler = ex::branch_exchange::<false>,
            (3, 1) if v5 => op.handler = ex::branch_exchange::<true>,
            (5, _) if v5 => {
                op.handler = ex::saturating;
                op.issue = self.timing.dsp_cycles;
            }
            (7, 1) if v5 => op.handler = ex::breakpoint,
            (8 | 10 | 12 | 14, _) if v5 => {
                // The destination of the multiplies stands where others have Rn.
                std::mem::swap(&mut op.rd, &mut op.rn);
                op.handler = ex::multiply_half;
                op.issue = self.timing.dsp_cycles;
            }
            _ => {}
        }
    }

    fn multiply_or_extra(&self, op: &mut Op) {
        let word = op.word;
        if word & 0x60 != 0 {
            return self.extra(op);
        }
        let flags = word >> 20 & 1 != 0;
        let timing = &self.timing;
        match word >> 21 & 15 {
            0 | 1 => {
                std::mem::swap(&mut op.rd, &mut op.rn);
                op.handler = match (word >> 21 & 1 != 0, flags) {
                    (false, false) => ex::multiply::<false, false>,
                    (false, true) => ex::multiply::<false, true>,
                    (true, false) => ex::multiply::<true, false>,
                    (true, true) => ex::multiply::<true, true>,
                };
                op.issue =
                    timing.multiply_cycles + if flags { timing.multiply_flags_cycles } else { 0 };
            }
            4..=7 => {
                std::mem::swap(&mut op.rd, &mut op.rn);
                op.handler = match word >> 21 & 3 {
                    0 => ex::multiply_long::<false, false>,
                    1 => ex::multiply_long::<false, true>,
                    2 => ex::multiply_long::<true, false>,
                    _ => ex::multiply_long::<true, true>,
                };
                op.issue = timing.multiply_cycles
                    + timing.multiply_long_cycles
                    + if flags { timing.multiply_flags_cycles } else { 0 };
            }
            8 | 10 if !flags => {
                op.handler = if word >> 22 & 1 != 0 { ex::swap::<true> } else { ex::swap::<false> };
                op.issue = timing.swap_cycles;
            }
            _ => {}
        }
    }

    fn extra(&self, op: &mut Op) {
        let word = op.word;
        let load = word >> 20 & 1 != 0;
        let kind = match (load, word >> 5 & 3) {
            (false, 1) => STORE_HALF,
            (true, 1) => LOAD_HALF,
            (true, 2) => LOAD_SIGNED_BYTE,
            (true, _) => LOAD_SIGNED_HALF,
            // An odd register is undefined for the double forms (A4.1.26).
            (false, _) if self.architecture < Architecture::V5TE || op.rd & 1 != 0 => return,
            (false, 2) => LOAD_DOUBLE,
            (false, _) => STORE_DOUBLE,
        };
        if kind >= LOAD_DOUBLE {
            op.issue = self.timing.double_cycles;
        }
        let offset = word >> 4 & 0xf0 | word & 15;
        let constant = word >> 22 & 1 != 0;
        let simple = constant && word >> 24 & 1 != 0 && word >> 21 & 1 == 0;
        op.immediate = if simple && word >> 23 & 1 == 0 { offset.wrapping_neg() } else { offset };
        op.handler = match (kind, simple) {
            (STORE_HALF, true) => ex::transfer_extra_offset::<STORE_HALF>,
            (LOAD_HALF, true) => ex::transfer_extra_offset::<LOAD_HALF>,
            (LOAD_SIGNED_BYTE, true) => ex::transfer_extra_offset::<LOAD_SIGNED_BYTE>,
            (LOAD_SIGNED_HALF, true) => ex::transfer_extra_offset::<LOAD_SIGNED_HALF>,
            (LOAD_DOUBLE, true) => ex::transfer_extra_offset::<LOAD_DOUBLE>,
            (_, true) => ex::transfer_extra_offset::<STORE_DOUBLE>,
            (STORE_HALF, false) => ex::transfer_extra_general::<STORE_HALF>,
            (LOAD_HALF, false) => ex::transfer_extra_general::<LOAD_HALF>,
            (LOAD_SIGNED_BYTE, false) => ex::transfer_extra_general::<LOAD_SIGNED_BYTE>,
            (LOAD_SIGNED_HALF, false) => ex::transfer_extra_general::<LOAD_SIGNED_HALF>,
            (LOAD_DOUBLE, false) => ex::transfer_extra_general::<LOAD_DOUBLE>,
            (_, false) => ex::transfer_extra_general::<STORE_DOUBLE>,
        };
    }

    fn transfer(&self, op: &mut Op) {
        let word = op.word;
        let (load, byte) = (word >> 20 & 1 != 0, word >> 22 & 1 != 0);
        let by_register = word >> 25 & 1 != 0;
        let offset_only = word >> 24 & 1 != 0 && word >> 21 & 1 == 0;
        let up = word >> 23 & 1 != 0;
        let to_pc = load && op.rd == 15;
        self.shift_fields(op);
        op.immediate = word & 0xfff;
        if offset_only && !to_pc && !by_register {
            if !up {
                op.immediate = op.immediate.wrapping_neg();
            }
            op.handler = match (load, byte) {
                (false, false) => ex::transfer_offset::<false, false>,
                (false, true) => ex::transfer_offset::<false, true>,
                (true, false) => ex::transfer_offset::<true, false>,
                (true, true) => ex::transfer_offset::<true, true>,
            };
        } else if offset_only && !to_pc && up && op.shift == 0 {
            op.handler = match (load, byte) {
                (false, false) => ex::transfer_indexed::<false, false>,
                (false, true) => ex::transfer_indexed::<false, true>,
                (true, false) => ex::transfer_indexed::<true, false>,
                (true, true) => ex::transfer_indexed::<true, true>,
            };
        } else {
            op.handler = match (load, byte) {
                (false, false) => ex::transfer_general::<false, false>,
                (false, true) => ex::transfer_general::<false, true>,
                (true, false) => ex::transfer_general::<true, false>,
                (true, true) => ex::transfer_general::<true, true>,
            };
        }
    }

    fn block(&self, op: &mut Op) {
        let count = (op.word & 0xffff).count_ones() as u8;
        op.issue = (self.timing.block_base_cycles + count).max(self.timing.block_minimum_cycles);
        op.handler = if op.word >> 20 & 1 != 0 { ex::load_multiple } else { ex::store_multiple };
    }

    fn coprocessor_or_call(&self, op: &mut Op) {
        let word = op.word;
        if word >> 24 & 1 != 0 {
            op.handler = ex::supervisor_call;
        } else if self.accumulator && word & 0x0ff0_0ff0 == 0x0e20_0010 {
            op.handler = ex::accumulate;
        } else if word & 0xf10 == 0xf10 || self.accumulator && word & 0xf10 == 0xe10 {
            if word >> 20 & 1 != 0 {
                op.handler = ex::coprocessor_read;
                op.issue = self.timing.coprocessor_read_cycles;
            } else {
                op.handler = ex::coprocessor_write;
                op.issue = self.timing.coprocessor_write_cycles;
            }
        }
    }

    /// The stall of the instruction after `word`, which waits for its result. It is charged to
    /// `word`, so that a branch into `following` does not pay.
    pub fn stall(&self, word: u32, following: u32) -> u8 {
        let (results, cycles) = self.results(word);
        // A load of R15 branches: what stands after it does not follow it.
        if results & sources(following) & !PC != 0 { cycles } else { 0 }
    }

    /// As above, where a Thumb instruction follows.
    pub fn stall_thumb(&self, word: u32, following: u16) -> u8 {
        let following = match thumb_as_arm(following) {
            Some(following) => following,
            // BX and BLX read their target register in both states.
            None if following & 0xff00 == 0x4700 => BRANCH_EXCHANGE | u32::from(following) >> 3 & 15,
            None => return 0,
        };
        self.stall(word, following)
    }

    /// Registers that `word` delivers late, and by how many cycles.
    fn results(&self, word: u32) -> (u32, u8) {
        let timing = &self.timing;
        let rd = 1 << (word >> 12 & 15);
        let multiplied = 1 << (word >> 16 & 15);
        if word >> 28 == 15 {
            return (0, 0);
        }
        match word >> 25 & 7 {
            0 if word & 0x90 == 0x90 => match (word >> 5 & 3, word >> 20 & 1) {
                (0, _) => match word >> 23 & 3 {
                    0 => (multiplied, timing.multiply_use_cycles),
                    1 => (multiplied | rd, timing.multiply_use_cycles),
                    _ => (rd, timing.load_use_cycles),
                },
                (_, 1) => (rd, timing.load_narrow_use_cycles),
                (2, _) => (rd << 1, timing.load_use_cycles),
                _ => (0, 0),
            },
            0 if word >> 23 & 3 == 2 && word >> 20 & 1 == 0 => match word >> 4 & 15 {
                5 => (rd, timing.multiply_use_cycles),
                8 | 10 | 12 | 14 => (multiplied, timing.multiply_use_cycles),
                _ => (0, 0),
            },
            2 | 3 if word >> 20 & 1 != 0 => {
                let narrow = word >> 22 & 1 != 0;
                (rd, if narrow { timing.load_narrow_use_cycles } else { timing.load_use_cycles })
            }
            // The last register of a block load arrives like that of a single one.
            4 if word >> 20 & 1 != 0 && word & 0xffff != 0 => {
                (1 << (31 - (word & 0xffff).leading_zeros()), timing.load_use_cycles)
            }
            _ => (0, 0),
        }
    }

    /// Decodes a Thumb instruction; `following` is the half-word after it, where it is known.
    pub fn thumb(&self, half: u16, following: Option<u16>) -> Op {
        let word = u32::from(half);
        let mut op = match thumb_as_arm(half) {
            Some(equivalent) => {
                let mut op = self.arm(equivalent, None);
                if let Some(following) = following {
                    op.condition &= !LATE;
                    op.stall = self.stall_thumb(equivalent, following);
                }
                op
            }
            None => {
                let mut op = self.blank(0xe000_0000 | word);
                op.rd = (word >> 8 & 7) as u8;
                op.rm = (word >> 3 & 15) as u8;
                self.thumb_only(&mut op, word);
                if word >> 11 == 0b01001 {
                    // A literal load is an LDR relative to R15 for what follows.
                    let equivalent = 0xe59f_0000 | (word & 0x700) << 4;
                    match following {
                        Some(following) => op.stall = self.stall_thumb(equivalent, following),
                        None => {
                            op.word = equivalent;
                            op.condition |= LATE;
                        }
                    }
                }
                op
            }
        };
        if self.architecture < Architecture::V5TE && word & 0xff00 == 0xbe00 {
            op.handler = ex::undefined;
        }
        op
    }

    fn thumb_only(&self, op: &mut Op, word: u32) {
        let v5 = self.architecture >= Architecture::V5TE;
        match word >> 11 {
            0b01001 => {
                op.immediate = (word & 0xff) << 2;
                op.handler = ex::thumb_load_literal;
            }
            0b10100 => {
                op.immediate = (word & 0xff) << 2;
                op.handler = ex::thumb_add_to_pc;
            }
            0b11010 | 0b11011 if word >> 8 & 15 < 14 => {
                // The branch buffer knows a skipped branch by the word of an ARM one.
                op.word = 0xea00_0000;
                op.condition = (word >> 8 & 15) as u8;
                op.immediate = sign_extend(word & 0xff, 8) << 1;
                op.handler = ex::branch;
            }
            0b11011 if word >> 8 & 15 == 15 => {
                op.word = word;
                op.handler = ex::supervisor_call;
            }
            0b11100 => {
                op.immediate = sign_extend(word & 0x7ff, 11) << 1;
                op.handler = ex::branch;
            }
            0b11110 => {
                op.immediate = sign_extend(word & 0x7ff, 11) << 12;
                op.handler = ex::thumb_link_prefix;
            }
            0b11111 => {
                op.immediate = (word & 0x7ff) << 1;
                op.handler = ex::thumb_link_suffix::<false>;
            }
            0b11101 if v5 && word & 1 == 0 => {
                op.immediate = (word & 0x7ff) << 1;
                op.handler = ex::thumb_link_suffix::<true>;
            }
            0b01000 if word & 0xff00 == 0x4700 => {
                if word & 0x80 == 0 {
                    op.handler = ex::branch_exchange::<false>;
                } else if v5 {
                    op.handler = ex::branch_exchange::<true>;
                }
            }
            0b10111 if v5 && word & 0xff00 == 0xbe00 => op.handler = ex::breakpoint,
            _ => {}
        }
    }
}

/// The ARM instruction that a Thumb instruction abbreviates, if there is one (A7.1).
fn thumb_as_arm(half: u16) -> Option<u32> {
    let word = u32::from(half);
    let (rd, rn, rm) = (word & 7, word >> 3 & 7, word >> 6 & 7);
    let high = word >> 8 & 7;
    let byte = word & 0xff;
    let five = word >> 6 & 31;
    const ALWAYS: u32 = 0xe000_0000;
    let arm = match word >> 11 {
        // Shifts by a constant: MOVS Rd, Rm, shift #n.
        kind @ 0..=2 => 0x01b0_0000 | rd << 12 | five << 7 | kind << 5 | rn,
        0b00011 => {
            let opcode = if word >> 9 & 1 != 0 { 0x0050_0000 } else { 0x0090_0000 };
            let constant = (word >> 10 & 1) << 25;
            opcode | constant | rn << 16 | rd << 12 | rm
        }
        0b00100 => 0x03b0_0000 | high << 12 | byte,
        0b00101 => 0x0350_0000 | high << 16 | byte,
        0b00110 => 0x0290_0000 | high << 16 | high << 12 | byte,
        0b00111 => 0x0250_0000 | high << 16 | high << 12 | byte,
        0b01000 if word >> 10 & 1 == 0 => thumb_register_form(word >> 6 & 15, rd, rn),
        0b01000 => {
            let rd = rd | word >> 4 & 8;
            let rm = word >> 3 & 15;
            match word >> 8 & 3 {
                0 => 0x0080_0000 | rd << 16 | rd << 12 | rm,
                1 => 0x0150_0000 | rd << 16 | rm,
                2 => 0x01a0_0000 | rd << 12 | rm,
                _ => return None,
            }
        }
        0b01010 | 0b01011 => match word >> 9 & 7 {
            0 => 0x0780_0000 | rn << 16 | rd << 12 | rm,
            1 => 0x0180_00b0 | rn << 16 | rd << 12 | rm,
            2 => 0x07c0_0000 | rn << 16 | rd << 12 | rm,
            3 => 0x0190_00d0 | rn << 16 | rd << 12 | rm,
            4 => 0x0790_0000 | rn << 16 | rd << 12 | rm,
            5 => 0x0190_00b0 | rn << 16 | rd << 12 | rm,
            6 => 0x07d0_0000 | rn << 16 | rd << 12 | rm,
            _ => 0x0190_00f0 | rn << 16 | rd << 12 | rm,
        },
        0b01100 => 0x0580_0000 | rn << 16 | rd << 12 | five << 2,
        0b01101 => 0x0590_0000 | rn << 16 | rd << 12 | five << 2,
        0b01110 => 0x05c0_0000 | rn << 16 | rd << 12 | five,
        0b01111 => 0x05d0_0000 | rn << 16 | rd << 12 | five,
        store @ (0b10000 | 0b10001) => {
            let offset = five << 1;
            let load = (store & 1) << 20;
            0x01c0_00b0 | load | rn << 16 | rd << 12 | (offset & 0xf0) << 4 | offset & 15
        }
        0b10010 => 0x058d_0000 | high << 12 | byte << 2,
        0b10011 => 0x059d_0000 | high << 12 | byte << 2,
        // ADD Rd, SP, #n: the immediate is a byte rotated by 30, which multiplies it by four.
        0b10101 => 0x028d_0f00 | high << 12 | byte,
        0b10110 | 0b10111 => match word >> 8 & 15 {
            0 if word >> 7 & 1 == 0 => 0x028d_df00 | word & 0x7f,
            0 => 0x024d_df00 | word & 0x7f,
            4 | 5 => 0x092d_0000 | (word >> 8 & 1) << 14 | byte,
            12 | 13 => 0x08bd_0000 | (word >> 8 & 1) << 15 | byte,
            _ => return None,
        },
        0b11000 => 0x08a0_0000 | high << 16 | byte,
        // The base is written back only if it is not loaded (A7.1.28).
        0b11001 => {
            let write_back = if byte >> high & 1 != 0 { 0 } else { 1 << 21 };
            0x0890_0000 | write_back | high << 16 | byte
        }
        _ => return None,
    };
    Some(ALWAYS | arm)
}

/// The sixteen two-register forms of Thumb.
fn thumb_register_form(opcode: u32, rd: u32, rm: u32) -> u32 {
    let two = |code: u32| code << 21 | 1 << 20 | rd << 16 | rd << 12 | rm;
    let shift = |kind: u32| 0x01b0_0010 | rd << 12 | rm << 8 | kind << 5 | rd;
    match opcode {
        0 => two(0),
        1 => two(1),
        2 => shift(0),
        3 => shift(1),
        4 => shift(2),
        5 => two(5),
        6 => two(6),
        7 => shift(3),
        8 => 0x0110_0000 | rd << 16 | rm,
        9 => 0x0270_0000 | rm << 16 | rd << 12,
        10 => 0x0150_0000 | rd << 16 | rm,
        11 => 0x0170_0000 | rd << 16 | rm,
        12 => two(12),
        // MULS Rd, Rm, Rd: the multiplier is the destination.
        13 => 0x0010_0090 | rd << 16 | rd << 8 | rm,
        14 => two(14),
        _ => 0x01f0_0000 | rd << 12 | rm,
    }
}

/// R15 in a set of registers.
const PC: u32 = 1 << 15;

/// BX R0.
const BRANCH_EXCHANGE: u32 = 0xe12f_ff10;

/// Registers that an ARM instruction reads in its first cycle, as a set.
fn sources(word: u32) -> u32 {
    let rn = 1 << (word >> 16 & 15);
    let rd = 1 << (word >> 12 & 15);
    let rs = 1 << (word >> 8 & 15);
    let rm = 1 << (word & 15);
    match word >> 25 & 7 {
        0 if word & 0x90 == 0x90 => {
            if word & 0x60 == 0 {
                let accumulated = if word >> 21 & 1 != 0 { rd } else { 0 };
                if word >> 24 & 1 != 0 { rn | rm } else { rs | rm | accumulated }
            } else {
                // Stored data is wanted a cycle later than an address.
                rn | if word >> 22 & 1 == 0 { rm } else { 0 }
            }
        }
        // Multiplies of half-words: the destination stands where others have Rn.
        0 if word & 0x0190_0090 == 0x0100_0080 => {
            rs | rm
                | match (word >> 21 & 3, word >> 5 & 1) {
                    (0, _) | (1, 0) => rd,
                    (2, _) => rd | rn,
                    _ => 0,
                }
        }
        // BX, BLX and CLZ; QADD and its like; the status registers.
        0 if word & 0x0190_0000 == 0x0100_0000 => match word >> 4 & 15 {
            1..=3 => rm,
            5 => rm | rn,
            0 if word >> 21 & 1 != 0 => rm,
            _ => 0,
        },
        1 if word & 0x0190_0000 == 0x0100_0000 => 0,
        0 => {
            let moves = matches!(word >> 21 & 15, 13 | 15);
            rm | if moves { 0 } else { rn } | if word & 0x10 != 0 { rs } else { 0 }
        }
        1 if matches!(word >> 21 & 15, 13 | 15) => 0,
        1 | 2 | 4 => rn,
        3 => rn | rm,
        7 if word >> 24 & 1 == 0 && word & 0x10 != 0 && word >> 20 & 1 == 0 => rd,
        _ => 0,
    }
}

/// Which flags let a condition pass: bit n of entry c is set if flags n satisfy condition c (A3.2).
pub static CONDITIONS: [u16; 16] = conditions();

const fn conditions() -> [u16; 16] {
    let mut table = [0; 16];
    let mut condition = 0;
    while condition < 16 {
        let mut flags = 0;
        while flags < 16 {
            let (n, z, c, v) = (flags & 8 != 0, flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
            let passes = match condition >> 1 {
                0 => z,
                1 => c,
                2 => n,
                3 => v,
                4 => c && !z,
                5 => n == v,
                6 => n == v && !z,
                _ => true,
            };
            if passes != (condition & 1 != 0 && condition < 14) {
                table[condition] |= 1 << flags;
            }
            flags += 1;
        }
        condition += 1;
    }
    table
}
