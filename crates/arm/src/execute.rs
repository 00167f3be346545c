//! What the instructions do. Each function here is the handler of one decoded form; the decoder
//! ([`crate::decode`]) chooses it once, when the line is first executed.
//!
//! "A4.1.x" are sections of the ARM Architecture Reference Manual, ARM DDI 0100.

use crate::board::Board;
use crate::cpu::{Architecture, Cpu, Flow, SATURATED, THUMB};
use crate::memory::Fault;
use crate::timing::Cause;

/// Executes one decoded instruction.
pub type Handler = fn(&mut Cpu, &mut Board, &Op) -> Flow;

/// A decoded instruction.
#[derive(Clone, Copy)]
pub struct Op {
    /// What executes it.
    pub handler: Handler,
    /// Immediate operand, or signed offset.
    pub immediate: u32,
    /// The instruction word (of the ARM equivalent, for Thumb).
    pub word: u32,
    /// Condition, 14 being always, and [`crate::decode::LATE`].
    pub condition: u8,
    /// Register fields.
    pub rd: u8,
    /// First operand or base.
    pub rn: u8,
    /// Second operand or index.
    pub rm: u8,
    /// Shift amount, or the register that holds it.
    pub rs: u8,
    /// Shift type; for an immediate operand of a logical instruction, the carry (2 for unchanged).
    pub shift: u8,
    /// Issue cycles.
    pub issue: u8,
    /// Stall because the next instruction uses the result.
    pub stall: u8,
}

/// Second operand is an immediate.
pub const IMMEDIATE: u8 = 0;
/// Second operand is a register as it is.
pub const PLAIN: u8 = 1;
/// Second operand is a register shifted by a constant.
pub const SHIFTED: u8 = 2;
/// Second operand is a register shifted by a register.
pub const SHIFTED_BY_REGISTER: u8 = 3;

impl Cpu {
    #[inline(always)]
    fn register(&self, number: u8) -> u32 {
        self.registers[usize::from(number & 15)]
    }

    #[inline(always)]
    fn set_register(&mut self, number: u8, value: u32) {
        self.registers[usize::from(number & 15)] = value;
    }

    #[inline(always)]
    fn carry(&self) -> u32 {
        self.flags >> 1 & 1
    }

    #[inline(always)]
    fn set_logical_flags(&mut self, result: u32, carry: u32) {
        self.flags = result >> 31 << 3 | u32::from(result == 0) << 2 | carry << 1 | self.flags & 1;
    }

    #[inline(always)]
    fn set_arithmetic_flags(&mut self, result: u32, carry: bool, overflow: u32) {
        self.flags = result >> 31 << 3
            | u32::from(result == 0) << 2
            | u32::from(carry) << 1
            | overflow >> 31;
    }

    #[inline(always)]
    fn add_with_flags(&mut self, a: u32, b: u32, carry: u32) -> u32 {
        let wide = u64::from(a) + u64::from(b) + u64::from(carry);
        let result = wide as u32;
        self.set_arithmetic_flags(result, wide >> 32 != 0, (a ^ result) & (b ^ result));
        result
    }

    /// What a taken branch costs; `address` is the branch's own, for the branch target buffer.
    #[inline(always)]
    fn taken_branch(&mut self) {
        match &mut self.branch_buffer {
            None => {
                self.memory.spend(Cause::Branch, self.timing.taken_branch_cycles);
            }
            Some(buffer) => {
                if !buffer.taken(self.memory.pc) {
                    self.memory.spend(Cause::Branch, self.timing.branch_mispredicted_cycles);
                }
            }
        }
    }

    /// A conditional instruction was not executed; a branch buffer learns from branches.
    #[inline(always)]
    pub fn skipped(&mut self, op: &Op) {
        if let Some(buffer) = &mut self.branch_buffer
            && op.word >> 25 & 7 == 5
            && !buffer.not_taken(self.memory.pc)
        {
            self.memory.spend(Cause::Branch, self.timing.branch_mispredicted_cycles);
        }
    }

    /// What a write of R15 other than by a branch instruction costs: never predicted.
    #[inline(always)]
    fn written_pc(&mut self) {
        self.memory.spend(Cause::Branch, self.timing.taken_branch_cycles);
    }
}

/// A shift by a constant, with the shifter's carry (A5.1). Amount 0 encodes the special cases.
#[inline(always)]
fn shift_by_constant(value: u32, kind: u8, amount: u8, carry: u32) -> (u32, u32) {
    let amount = u32::from(amount);
    match (kind, amount) {
        (0, 0) => (value, carry),
        (0, _) => (value << amount, value >> (32 - amount) & 1),
        (1, 0) => (0, value >> 31),
        (1, _) => (value >> amount, value >> (amount - 1) & 1),
        (2, 0) => ((value as i32 >> 31) as u32, value >> 31),
        (2, _) => ((value as i32 >> amount) as u32, value >> (amount - 1) & 1),
        (_, 0) => (carry << 31 | value >> 1, value & 1),
        (_, _) => (value.rotate_right(amount), value >> (amount - 1) & 1),
    }
}

/// A shift by the low byte of a register (A5.1).
#[inline(always)]
fn shift_by_register(value: u32, kind: u8, amount: u32, carry: u32) -> (u32, u32) {
    let amount = amount & 0xff;
    if amount == 0 {
        return (value, carry);
    }
    match (kind, amount) {
        (0, 1..=31) => (value << amount, value >> (32 - amount) & 1),
        (0, 32) => (0, value & 1),
        (0, _) => (0, 0),
        (1, 1..=31) => (value >> amount, value >> (amount - 1) & 1),
        (1, 32) => (0, value >> 31),
        (1, _) => (0, 0),
        (2, 1..=31) => ((value as i32 >> amount) as u32, value >> (amount - 1) & 1),
        (2, _) => ((value as i32 >> 31) as u32, value >> 31),
        (_, _) => {
            let rotated = value.rotate_right(amount & 31);
            (rotated, rotated >> 31)
        }
    }
}

/// The second operand and the shifter's carry.
#[inline(always)]
fn second_operand<const FORM: u8>(cpu: &Cpu, op: &Op) -> (u32, u32) {
    match FORM {
        IMMEDIATE => {
            let carry = if op.shift == 2 { cpu.carry() } else { u32::from(op.shift) };
            (op.immediate, carry)
        }
        PLAIN => (cpu.register(op.rm), cpu.carry()),
        SHIFTED => shift_by_constant(cpu.register(op.rm), op.shift, op.rs, cpu.carry()),
        _ => {
            // The register read takes a cycle, after which R15 reads as the address plus 12.
            let value = cpu.register(op.rm).wrapping_add(if op.rm == 15 { 4 } else { 0 });
            shift_by_register(value, op.shift, cpu.register(op.rs), cpu.carry())
        }
    }
}

#[inline(always)]
fn compute<const OPCODE: u8, const FLAGS: bool>(
    cpu: &mut Cpu,
    a: u32,
    b: u32,
    shifter_carry: u32,
) -> u32 {
    let carry = cpu.carry();
    if FLAGS {
        match OPCODE {
            2 | 10 => cpu.add_with_flags(a, !b, 1),
            3 => cpu.add_with_flags(b, !a, 1),
            4 | 11 => cpu.add_with_flags(a, b, 0),
            5 => cpu.add_with_flags(a, b, carry),
            6 => cpu.add_with_flags(a, !b, carry),
            7 => cpu.add_with_flags(b, !a, carry),
            _ => {
                let result = logical::<OPCODE>(a, b);
                cpu.set_logical_flags(result, shifter_carry);
                result
            }
        }
    } else {
        match OPCODE {
            2 => a.wrapping_sub(b),
            3 => b.wrapping_sub(a),
            4 => a.wrapping_add(b),
            5 => a.wrapping_add(b).wrapping_add(carry),
            6 => a.wrapping_sub(b).wrapping_sub(1 - carry),
            7 => b.wrapping_sub(a).wrapping_sub(1 - carry),
            _ => logical::<OPCODE>(a, b),
        }
    }
}

#[inline(always)]
fn logical<const OPCODE: u8>(a: u32, b: u32) -> u32 {
    match OPCODE {
        0 | 8 => a & b,
        1 | 9 => a ^ b,
        12 => a | b,
        13 => b,
        14 => a & !b,
        _ => !b,
    }
}

/// Data processing (A3.4) that does not write R15.
pub fn data_processing<const OPCODE: u8, const FLAGS: bool, const FORM: u8>(
    cpu: &mut Cpu,
    _: &mut Board,
    op: &Op,
) -> Flow {
    let (b, shifter_carry) = second_operand::<FORM>(cpu, op);
    let mut a = cpu.register(op.rn);
    if FORM == SHIFTED_BY_REGISTER && op.rn == 15 {
        a = a.wrapping_add(4);
    }
    let result = compute::<OPCODE, FLAGS>(cpu, a, b, shifter_carry);
    if !matches!(OPCODE, 8..=11) {
        cpu.set_register(op.rd, result);
    }
    Flow::Next
}

/// Data processing that writes R15: a branch, or with S a return from an exception.
pub fn data_processing_to_pc<const OPCODE: u8, const FORM: u8>(
    cpu: &mut Cpu,
    _: &mut Board,
    op: &Op,
) -> Flow {
    let (b, _) = second_operand::<FORM>(cpu, op);
    let mut a = cpu.register(op.rn);
    if FORM == SHIFTED_BY_REGISTER && op.rn == 15 {
        a = a.wrapping_add(4);
    }
    let result = compute::<OPCODE, false>(cpu, a, b, 0);
    cpu.written_pc();
    if op.word >> 20 & 1 != 0 { cpu.return_from_exception(result) } else { cpu.branch(result) }
}

/// B and Thumb's branches (A4.1.5). The immediate is the offset from R15.
pub fn branch(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.taken_branch();
    let target = cpu.registers[15].wrapping_add(op.immediate);
    // A branch to itself with both interrupts masked can never end.
    if target == cpu.memory.pc && cpu.control & 0xc0 == 0xc0 {
        cpu.stop = Some(crate::system::Stop::Hang);
        cpu.memory.request_attention();
    }
    cpu.memory.pc = target;
    Flow::Jump
}

/// BL in ARM state.
pub fn branch_with_link(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.taken_branch();
    cpu.registers[14] = cpu.memory.pc.wrapping_add(4);
    cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    Flow::Jump
}

/// BLX with an immediate (A4.1.8): to Thumb state; the offset has the half-word bit in it.
pub fn branch_with_link_to_thumb(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.taken_branch();
    cpu.registers[14] = cpu.memory.pc.wrapping_add(4);
    cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    cpu.control |= THUMB;
    Flow::Jump
}

/// BX, and BLX with a register.
pub fn branch_exchange<const LINK: bool>(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.written_pc();
    let target = cpu.register(op.rm);
    if LINK {
        cpu.registers[14] = if cpu.thumb() {
            cpu.memory.pc.wrapping_add(2) | 1
        } else {
            cpu.memory.pc.wrapping_add(4)
        };
    }
    cpu.branch_exchange(target)
}

/// First half of Thumb's BL pair (A7.1.16): R14 = R15 + offset.
pub fn thumb_link_prefix(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.registers[14] = cpu.registers[15].wrapping_add(op.immediate);
    Flow::Next
}

/// Second half of Thumb's BL pair; `TO_ARM` is BLX.
pub fn thumb_link_suffix<const TO_ARM: bool>(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    cpu.taken_branch();
    let target = cpu.registers[14].wrapping_add(op.immediate);
    cpu.registers[14] = cpu.memory.pc.wrapping_add(2) | 1;
    if TO_ARM {
        cpu.control &= !THUMB;
        cpu.memory.pc = target & !3;
    } else {
        cpu.memory.pc = target & !1;
    }
    Flow::Jump
}

/// Thumb's loads and address computations relative to R15, whose bit 1 they ignore.
pub fn thumb_load_literal(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let address = (cpu.registers[15] & !3).wrapping_add(op.immediate);
    match cpu.memory.load_word(board, address) {
        Ok(value) => {
            cpu.set_register(op.rd, value);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// ADD Rd, PC, #immediate in Thumb state.
pub fn thumb_add_to_pc(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let value = (cpu.registers[15] & !3).wrapping_add(op.immediate);
    cpu.set_register(op.rd, value);
    Flow::Next
}

/// LDR, LDRB, STR, STRB with a constant offset and no write-back, not to R15: the common case.
pub fn transfer_offset<const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    op: &Op,
) -> Flow {
    let address = cpu.register(op.rn).wrapping_add(op.immediate);
    match transfer::<LOAD, BYTE>(cpu, board, op, address, false) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

/// The same with a register offset, added, shifted left by a constant.
pub fn transfer_indexed<const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    op: &Op,
) -> Flow {
    let address = cpu.register(op.rn).wrapping_add(cpu.register(op.rm) << (op.rs & 31));
    match transfer::<LOAD, BYTE>(cpu, board, op, address, false) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

#[inline(always)]
fn transfer<const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    op: &Op,
    address: u32,
    as_user: bool,
) -> Result<(), Fault> {
    if LOAD {
        let value = match (BYTE, as_user) {
            (true, false) => cpu.memory.load_byte(board, address)?,
            (true, true) => cpu.memory.as_user(|memory| memory.load_byte(board, address))?,
            (false, false) => cpu.memory.load_word(board, address)?,
            (false, true) => cpu.memory.as_user(|memory| memory.load_word(board, address))?,
        };
        cpu.set_register(op.rd, value);
    } else {
        // A store of R15 gives the instruction's address plus 12 on these cores (A2.4.3 leaves 8 or
        // 12 to the implementation).
        let mut value = cpu.register(op.rd);
        if op.rd == 15 {
            value = value.wrapping_add(4);
        }
        match (BYTE, as_user) {
            (true, false) => cpu.memory.store_byte(board, address, value)?,
            (true, true) => {
                cpu.memory.as_user(|memory| memory.store_byte(board, address, value))?
            }
            (false, false) => cpu.memory.store_word(board, address, value)?,
            (false, true) => {
                cpu.memory.as_user(|memory| memory.store_word(board, address, value))?
            }
        }
    }
    Ok(())
}

/// Address and written-back base of a load or store in any addressing mode 2 or 3 (A5.2, A5.3).
#[inline(always)]
fn addresses(cpu: &Cpu, op: &Op, offset: u32) -> (u32, Option<u32>) {
    let base = cpu.register(op.rn);
    let moved =
        if op.word >> 23 & 1 != 0 { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
    match (op.word >> 24 & 1 != 0, op.word >> 21 & 1 != 0) {
        (true, false) => (moved, None),
        (true, true) => (moved, Some(moved)),
        (false, _) => (base, Some(moved)),
    }
}

/// LDR, LDRB, STR, STRB in any addressing mode, also to R15 and as user (LDRT and its like).
pub fn transfer_general<const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    op: &Op,
) -> Flow {
    let offset = if op.word >> 25 & 1 != 0 {
        shift_by_constant(cpu.register(op.rm), op.shift, op.rs, cpu.carry()).0
    } else {
        op.immediate
    };
    let (address, written) = addresses(cpu, op, offset);
    let as_user = op.word & (1 << 24 | 1 << 21) == 1 << 21;
    let saved_base = cpu.register(op.rn);
    let link = cpu.registers[15];
    let mut result = Ok(());
    if LOAD && op.rd == 15 {
        match cpu.memory.load_word(board, address) {
            Ok(target) => {
                if let Some(base) = written {
                    cpu.set_register(op.rn, base);
                }
                cpu.memory.spend(Cause::Branch, cpu.timing.load_pc_cycles);
                cpu.written_pc();
                return cpu.branch_loaded(target);
            }
            Err(fault) => result = Err(fault),
        }
    } else if LOAD {
        // The base is written before the load's result, which wins if both are the same register.
        if let Some(base) = written {
            cpu.set_register(op.rn, base);
        }
        let loaded = transfer::<LOAD, BYTE>(cpu, board, op, address, as_user);
        if loaded.is_err() && written.is_some() && !cpu.base_updated_on_abort {
            cpu.set_register(op.rn, saved_base);
        }
        result = loaded;
    } else {
        match transfer::<LOAD, BYTE>(cpu, board, op, address, as_user) {
            Ok(()) => {
                if let Some(base) = written {
                    cpu.set_register(op.rn, base);
                }
            }
            Err(fault) => {
                if let (Some(base), true) = (written, cpu.base_updated_on_abort) {
                    cpu.set_register(op.rn, base);
                }
                result = Err(fault);
            }
        }
    }
    cpu.registers[15] = link;
    match result {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

/// STRH.
pub const STORE_HALF: u8 = 0;
/// LDRH.
pub const LOAD_HALF: u8 = 1;
/// LDRSB.
pub const LOAD_SIGNED_BYTE: u8 = 2;
/// LDRSH.
pub const LOAD_SIGNED_HALF: u8 = 3;
/// LDRD.
pub const LOAD_DOUBLE: u8 = 4;
/// STRD.
pub const STORE_DOUBLE: u8 = 5;

#[inline(always)]
fn transfer_extra_at<const KIND: u8>(
    cpu: &mut Cpu,
    board: &mut Board,
    op: &Op,
    address: u32,
) -> Result<(), Fault> {
    let memory = &mut cpu.memory;
    match KIND {
        STORE_HALF => {
            let value = cpu.registers[usize::from(op.rd & 15)];
            memory.store_half(board, address, value)
        }
        LOAD_HALF => {
            let value = memory.load_half(board, address)?;
            cpu.set_register(op.rd, value);
            Ok(())
        }
        LOAD_SIGNED_BYTE => {
            let value = memory.load_byte(board, address)?;
            cpu.set_register(op.rd, value as i8 as u32);
            Ok(())
        }
        LOAD_SIGNED_HALF => {
            let value = memory.load_half(board, address)?;
            cpu.set_register(op.rd, value as i16 as u32);
            Ok(())
        }
        LOAD_DOUBLE => {
            memory.check_double_alignment(address)?;
            let low = memory.load_word(board, address)?;
            let high = memory.load_word(board, address.wrapping_add(4))?;
            cpu.set_register(op.rd, low);
            cpu.set_register(op.rd + 1, high);
            Ok(())
        }
        _ => {
            memory.check_double_alignment(address)?;
            let low = cpu.registers[usize::from(op.rd & 15)];
            let high = cpu.registers[usize::from((op.rd + 1) & 15)];
            memory.store_word(board, address, low)?;
            memory.store_word(board, address.wrapping_add(4), high)
        }
    }
}

/// The loads and stores of addressing mode 3, with a constant offset and no write-back.
pub fn transfer_extra_offset<const KIND: u8>(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let address = cpu.register(op.rn).wrapping_add(op.immediate);
    match transfer_extra_at::<KIND>(cpu, board, op, address) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

/// The loads and stores of addressing mode 3 in any form.
pub fn transfer_extra_general<const KIND: u8>(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let offset = if op.word >> 22 & 1 != 0 { op.immediate } else { cpu.register(op.rm) };
    let (address, written) = addresses(cpu, op, offset);
    let saved_base = cpu.register(op.rn);
    let is_load = !matches!(KIND, STORE_HALF | STORE_DOUBLE);
    if let (Some(base), true) = (written, is_load) {
        cpu.set_register(op.rn, base);
    }
    match transfer_extra_at::<KIND>(cpu, board, op, address) {
        Ok(()) => {
            if let (Some(base), false) = (written, is_load) {
                cpu.set_register(op.rn, base);
            }
            Flow::Next
        }
        Err(fault) => {
            if let Some(base) = written {
                let kept = if cpu.base_updated_on_abort { base } else { saved_base };
                cpu.set_register(op.rn, kept);
            }
            cpu.data_abort(fault)
        }
    }
}

/// Lowest address and written-back base of a block transfer (A5.4).
#[inline(always)]
fn block_addresses(cpu: &Cpu, op: &Op) -> (u32, u32) {
    let bytes = (op.word & 0xffff).count_ones() * 4;
    let base = cpu.register(op.rn);
    let (before, up) = (op.word >> 24 & 1 != 0, op.word >> 23 & 1 != 0);
    let lowest = if up { base } else { base.wrapping_sub(bytes) };
    let start = if before == up { lowest.wrapping_add(4) } else { lowest };
    let moved = if up { base.wrapping_add(bytes) } else { lowest };
    // Block transfers ignore the low bits of the address (A5.4); with alignment checking on they
    // are refused by the access itself.
    (start, moved)
}

/// LDM, with `^` in both its meanings (A4.1.20 to A4.1.22).
pub fn load_multiple(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let (start, moved) = block_addresses(cpu, op);
    let list = op.word & 0xffff;
    let (write_back, special) = (op.word >> 21 & 1 != 0, op.word >> 22 & 1 != 0);
    let mut loaded = [0; 16];
    if let Err(fault) = cpu.memory.load_block(board, start, list, &mut loaded) {
        if write_back && cpu.base_updated_on_abort {
            cpu.set_register(op.rn, moved);
        }
        return cpu.data_abort(fault);
    }
    if write_back {
        cpu.set_register(op.rn, moved);
    }
    let to_user = special && list >> 15 == 0;
    let mut rest = list & 0x7fff;
    while rest != 0 {
        let number = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if to_user {
            cpu.set_user_register(number, loaded[number]);
        } else {
            cpu.registers[number] = loaded[number];
        }
    }
    if list >> 15 == 0 {
        return Flow::Next;
    }
    cpu.memory.spend(Cause::Branch, cpu.timing.load_pc_cycles);
    cpu.written_pc();
    if special { cpu.return_from_exception(loaded[15]) } else { cpu.branch_loaded(loaded[15]) }
}

/// STM, with `^` for the registers of user mode (A4.1.97, A4.1.98).
pub fn store_multiple(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let (start, moved) = block_addresses(cpu, op);
    let list = op.word & 0xffff;
    let (write_back, user) = (op.word >> 21 & 1 != 0, op.word >> 22 & 1 != 0);
    let mut values = [0; 16];
    let mut count = 0;
    let mut rest = list;
    while rest != 0 {
        let number = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        values[count] = match number {
            15 => cpu.registers[15].wrapping_add(4),
            _ if user => cpu.user_register(number),
            _ => cpu.registers[number],
        };
        count += 1;
    }
    match cpu.memory.store_block(board, start, &values[..count]) {
        Ok(()) => {
            if write_back {
                cpu.set_register(op.rn, moved);
            }
            Flow::Next
        }
        Err(fault) => {
            if write_back && cpu.base_updated_on_abort {
                cpu.set_register(op.rn, moved);
            }
            cpu.data_abort(fault)
        }
    }
}

/// SWP and SWPB (A4.1.108). The write's permission is checked first, so that nothing happens by half.
pub fn swap<const BYTE: bool>(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let address = cpu.register(op.rn);
    let value = cpu.register(op.rm);
    let swapped = if BYTE {
        cpu.memory.check_store(board, address, 1).and_then(|()| {
            let old = cpu.memory.load_byte(board, address)?;
            cpu.memory.store_byte(board, address, value)?;
            Ok(old)
        })
    } else {
        cpu.memory.check_store(board, address, 4).and_then(|()| {
            let old = cpu.memory.load_word(board, address)?;
            cpu.memory.store_word(board, address, value)?;
            Ok(old)
        })
    };
    match swapped {
        Ok(old) => {
            cpu.set_register(op.rd, old);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// Cycles that the early termination of a multiplier adds: it stops when the bits left are all
/// zeros, or (signed) all ones.
#[inline(always)]
fn early_termination(cpu: &mut Cpu, multiplier: u32, signed: bool) {
    let step = u32::from(cpu.timing.multiply_bits_a_cycle);
    if step == 0 {
        return;
    }
    let folded = if signed { multiplier ^ (multiplier as i32 >> 31) as u32 } else { multiplier };
    let significant = 32 - folded.leading_zeros();
    let extra = significant.div_ceil(step).max(1) - 1;
    cpu.memory.spend(Cause::Multiply, extra as u8);
}

/// MUL and MLA (A4.1.28, A4.1.40). The carry is left alone, as from version 5 on.
pub fn multiply<const ACCUMULATE: bool, const FLAGS: bool>(
    cpu: &mut Cpu,
    _: &mut Board,
    op: &Op,
) -> Flow {
    let multiplier = cpu.register(op.rs);
    let mut result = cpu.register(op.rm).wrapping_mul(multiplier);
    if ACCUMULATE {
        result = result.wrapping_add(cpu.register(op.rn));
    }
    early_termination(cpu, multiplier, true);
    cpu.set_register(op.rd, result);
    if FLAGS {
        cpu.set_logical_flags(result, cpu.carry());
    }
    Flow::Next
}

/// UMULL, UMLAL, SMULL, SMLAL. Rd is the high half, Rn the low one.
pub fn multiply_long<const SIGNED: bool, const ACCUMULATE: bool>(
    cpu: &mut Cpu,
    _: &mut Board,
    op: &Op,
) -> Flow {
    let (a, b) = (cpu.register(op.rm), cpu.register(op.rs));
    let mut result = if SIGNED {
        (i64::from(a as i32) * i64::from(b as i32)) as u64
    } else {
        u64::from(a) * u64::from(b)
    };
    if ACCUMULATE {
        let old = u64::from(cpu.register(op.rd)) << 32 | u64::from(cpu.register(op.rn));
        result = result.wrapping_add(old);
    }
    early_termination(cpu, b, SIGNED);
    cpu.set_register(op.rn, result as u32);
    cpu.set_register(op.rd, (result >> 32) as u32);
    if op.word >> 20 & 1 != 0 {
        let zero = u32::from(result == 0);
        cpu.flags = ((result >> 63) as u32) << 3 | zero << 2 | cpu.flags & 3;
    }
    Flow::Next
}

#[inline(always)]
fn half_of(value: u32, top: bool) -> i32 {
    i32::from(if top { (value >> 16) as i16 } else { value as i16 })
}

/// SMLAxy, SMLAWy, SMULWy, SMLALxy, SMULxy (A4.1.73 and on).
pub fn multiply_half(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let (x, y) = (op.word >> 5 & 1 != 0, op.word >> 6 & 1 != 0);
    let (rm, rs) = (cpu.register(op.rm), cpu.register(op.rs));
    match op.word >> 21 & 3 {
        0 => {
            let product = half_of(rm, x) * half_of(rs, y);
            accumulate_half(cpu, op, product);
        }
        1 => {
            let product = ((i64::from(rm as i32) * i64::from(half_of(rs, y))) >> 16) as i32;
            if x {
                cpu.set_register(op.rd, product as u32);
            } else {
                accumulate_half(cpu, op, product);
            }
        }
        2 => {
            let product = i64::from(half_of(rm, x) * half_of(rs, y));
            let old = u64::from(cpu.register(op.rd)) << 32 | u64::from(cpu.register(op.rn));
            let result = old.wrapping_add(product as u64);
            cpu.set_register(op.rn, result as u32);
            cpu.set_register(op.rd, (result >> 32) as u32);
        }
        _ => {
            let product = half_of(rm, x) * half_of(rs, y);
            cpu.set_register(op.rd, product as u32);
        }
    }
    Flow::Next
}

fn accumulate_half(cpu: &mut Cpu, op: &Op, product: i32) {
    let (result, overflow) = product.overflowing_add(cpu.register(op.rn) as i32);
    if overflow {
        cpu.control |= SATURATED;
    }
    cpu.set_register(op.rd, result as u32);
}

/// QADD, QSUB, QDADD, QDSUB (A4.1.45 and on).
pub fn saturating(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let a = cpu.register(op.rm) as i32;
    let mut b = cpu.register(op.rn) as i32;
    let mut saturated = false;
    if op.word >> 22 & 1 != 0 {
        saturated |= b.checked_mul(2).is_none();
        b = b.saturating_mul(2);
    }
    let result = if op.word >> 21 & 1 != 0 {
        saturated |= a.checked_sub(b).is_none();
        a.saturating_sub(b)
    } else {
        saturated |= a.checked_add(b).is_none();
        a.saturating_add(b)
    };
    if saturated {
        cpu.control |= SATURATED;
    }
    cpu.set_register(op.rd, result as u32);
    Flow::Next
}

/// CLZ.
pub fn count_leading_zeros(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let zeros = cpu.register(op.rm).leading_zeros();
    cpu.set_register(op.rd, zeros);
    Flow::Next
}

/// MRS.
pub fn status_read(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let value = if op.word >> 22 & 1 != 0 { cpu.spsr() } else { cpu.cpsr() };
    cpu.set_register(op.rd, value);
    Flow::Next
}

/// MSR, with a register or an immediate (A4.1.39).
pub fn status_write<const FORM: u8>(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    let value = if FORM == IMMEDIATE { op.immediate } else { cpu.register(op.rm) };
    let mut mask = 0;
    if op.word >> 16 & 1 != 0 {
        mask |= 0xff;
    }
    if op.word >> 19 & 1 != 0 {
        mask |= 0xf000_0000;
        if cpu.architecture >= Architecture::V5TE {
            mask |= SATURATED;
        }
    }
    if op.word >> 22 & 1 != 0 {
        let merged = cpu.spsr() & !mask | value & mask;
        cpu.set_spsr(merged);
        return Flow::Next;
    }
    if !cpu.privileged() {
        mask &= 0xff00_0000;
    }
    // The T bit is not written by MSR: states change by BX and exceptions only.
    mask &= !THUMB;
    let merged = cpu.cpsr() & !mask | value & mask;
    if mask & 0xff == 0 {
        cpu.flags = merged >> 28;
        cpu.control = cpu.control & !SATURATED | merged & SATURATED;
        return Flow::Next;
    }
    cpu.set_cpsr(merged);
    Flow::Synchronise
}

/// SVC, and the semihosting calls of privileged code (docs/board.md).
pub fn supervisor_call(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    let semihosting =
        if cpu.thumb() { op.word & 0xff == 0xab } else { op.word & 0xff_ffff == 0x12_3456 };
    if semihosting
        && cpu.privileged()
        && let Some(flow) = crate::board::semihosting::call(cpu, board)
    {
        return flow;
    }
    let length = if cpu.thumb() { 2 } else { 4 };
    cpu.take_exception(crate::cpu::Exception::SupervisorCall, cpu.memory.pc.wrapping_add(length));
    Flow::Jump
}

/// BKPT: with no debugger it is a prefetch abort (A4.1.7).
pub fn breakpoint(cpu: &mut Cpu, _: &mut Board, _: &Op) -> Flow {
    cpu.memory.record_breakpoint();
    cpu.take_exception(crate::cpu::Exception::PrefetchAbort, cpu.memory.pc.wrapping_add(4));
    Flow::Jump
}

/// PLD. The ARM926EJ-S does no line fill for it (ARM DDI 0198D, 2.3); the XScale does.
pub fn preload(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    if cpu.memory.preload_fills() {
        let offset = if op.word >> 25 & 1 != 0 {
            shift_by_constant(cpu.register(op.rm), op.shift, op.rs, cpu.carry()).0
        } else {
            op.immediate
        };
        let address = addresses(cpu, op, offset).0;
        cpu.memory.preload(board, address);
    }
    Flow::Next
}

/// Keeps 40 bits of a sum.
fn forty_bits(value: i64) -> i64 {
    value << 24 >> 24
}

/// MAR and MRA of the XScale (273473, 2.3.1.2).
pub fn accumulator_transfer(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    if !cpu.memory.accumulator_enabled() {
        return cpu.undefined();
    }
    if op.word >> 20 & 1 != 0 {
        let value = cpu.accumulator;
        cpu.set_register(op.rd, value as u32);
        cpu.set_register(op.rn, (value >> 32) as u32);
    } else {
        let value = u64::from(cpu.register(op.rn)) << 32 | u64::from(cpu.register(op.rd));
        cpu.accumulator = forty_bits(value as i64);
    }
    Flow::Next
}

/// MIA, MIAPH and MIAxy of the XScale (273473, 2.3.1.1).
pub fn accumulate(cpu: &mut Cpu, _: &mut Board, op: &Op) -> Flow {
    if !cpu.memory.accumulator_enabled() {
        return cpu.undefined();
    }
    let (rm, rs) = (cpu.register(op.rm), cpu.register(op.rd));
    let half = |x, y| i64::from(half_of(rm, x)) * i64::from(half_of(rs, y));
    let sum = match op.word >> 16 & 15 {
        0 => i64::from(rm as i32) * i64::from(rs as i32),
        8 => half(false, false) + half(true, true),
        kind @ 12..=15 => half(kind & 2 != 0, kind & 1 != 0),
        _ => return cpu.undefined(),
    };
    cpu.accumulator = forty_bits(cpu.accumulator.wrapping_add(sum));
    Flow::Next
}

/// MRC p15.
pub fn coprocessor_read(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    if !cpu.privileged() {
        return cpu.undefined();
    }
    match cpu.memory.coprocessor_read(board, op.word) {
        Some(value) if op.rd == 15 => {
            cpu.flags = value >> 28;
            Flow::Synchronise
        }
        Some(value) => {
            cpu.set_register(op.rd, value);
            Flow::Synchronise
        }
        None => cpu.undefined(),
    }
}

/// MCR p15.
pub fn coprocessor_write(cpu: &mut Cpu, board: &mut Board, op: &Op) -> Flow {
    if !cpu.privileged() && !cpu.memory.open_to_users(op.word) {
        return cpu.undefined();
    }
    let value = cpu.register(op.rd);
    match cpu.memory.coprocessor_write(board, op.word, value) {
        Some(crate::coprocessor::Effect::None) => Flow::Synchronise,
        Some(crate::coprocessor::Effect::Wait) => {
            cpu.waiting = true;
            cpu.memory.request_attention();
            Flow::Synchronise
        }
        Some(crate::coprocessor::Effect::BranchBuffer) => {
            if let Some(buffer) = &mut cpu.branch_buffer {
                buffer.invalidate();
            }
            Flow::Synchronise
        }
        None => cpu.undefined(),
    }
}

/// Anything that the core does not have.
pub fn undefined(cpu: &mut Cpu, _: &mut Board, _: &Op) -> Flow {
    cpu.undefined()
}
