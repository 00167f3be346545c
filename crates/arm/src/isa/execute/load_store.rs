//! Loads, stores, block transfers and swaps (ARM DDI 0100, A3.11 to A3.13).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};
use crate::isa::op::{PackedOperands, modifier};
use mmulab_system::Cause;
use mmulab_system::core::{Fault, Flow, Mmu};
use mmulab_system::memory::CoreMemory;

use super::alu::shift_by_constant;
use super::late;

/// Thumb's loads and address computations relative to R15, whose bit 1 they ignore.
pub fn thumb_load_literal<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = (cpu.registers[15] & !3).wrapping_add(op.immediate);
    match cpu.memory.load_word_for(bus, address, late(op.rd())) {
        Ok(value) => {
            cpu.set_register(op.rd(), value);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// LDR, LDRB, STR, STRB with a constant offset and no write-back, not to R15: the common case.
pub fn word_or_byte_offset<K: CacheKind, const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn()).wrapping_add(op.immediate);
    match word_or_byte::<K, LOAD, BYTE>(cpu, bus, op, address, false) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

/// The same with a register offset, added, shifted left by a constant.
pub fn word_or_byte_indexed<K: CacheKind, const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn()).wrapping_add(cpu.register(op.rm()) << (op.rs() & 31));
    match word_or_byte::<K, LOAD, BYTE>(cpu, bus, op, address, false) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

#[inline(always)]
fn word_or_byte<K: CacheKind, const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
    address: u32,
    as_user: bool,
) -> Result<(), Fault> {
    if LOAD {
        let (memory, late) = (&mut cpu.memory, late(op.rd()));
        let value = match (BYTE, as_user) {
            (true, false) => memory.load_byte_for(bus, address, late)?,
            (true, true) => memory.as_user(|memory| memory.load_byte_for(bus, address, late))?,
            (false, false) => memory.load_word_for(bus, address, late)?,
            (false, true) => memory.as_user(|memory| memory.load_word_for(bus, address, late))?,
        };
        cpu.set_register(op.rd(), value);
    } else {
        let mut value = cpu.register(op.rd());
        if op.rd() == 15 {
            value = value.wrapping_add(cpu.stored_pc_distance());
        }
        match (BYTE, as_user) {
            (true, false) => cpu.memory.store_byte(bus, address, value)?,
            (true, true) => cpu.memory.as_user(|memory| memory.store_byte(bus, address, value))?,
            (false, false) => cpu.memory.store_word(bus, address, value)?,
            (false, true) => cpu.memory.as_user(|memory| memory.store_word(bus, address, value))?,
        }
    }
    Ok(())
}

/// Address and written-back base of a load or store in any addressing mode 2 or 3 (A5.2, A5.3).
#[inline(always)]
fn addresses<K: CacheKind>(cpu: &Cpu<K>, op: PackedOperands, offset: u32) -> (u32, Option<u32>) {
    let base = cpu.register(op.rn());
    let moved =
        if op.is(modifier::UP) { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
    match (op.is(modifier::BEFORE), op.is(modifier::WRITE_BACK)) {
        (true, false) => (moved, None),
        (true, true) => (moved, Some(moved)),
        (false, _) => (base, Some(moved)),
    }
}

/// LDR, LDRB, STR, STRB in any addressing mode, also to R15 and as user (LDRT and its like).
pub fn word_or_byte_general<K: CacheKind, const LOAD: bool, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let offset = if op.is(modifier::REGISTER_OFFSET) {
        shift_by_constant(cpu.register(op.rm()), op.shift(), op.rs(), cpu.carry()).0
    } else {
        op.immediate
    };
    let (address, written) = addresses(cpu, op, offset);
    let as_user = op.is(modifier::USER);
    let saved_base = cpu.register(op.rn());
    let link = cpu.registers[15];
    let mut result = Ok(());
    if LOAD && op.rd() == 15 {
        match cpu.memory.load_word(bus, address) {
            Ok(target) => {
                if let Some(base) = written {
                    cpu.set_register(op.rn(), base);
                }
                cpu.memory.charge(Cause::Branch, cpu.timing.load_pc_cycles);
                cpu.written_pc();
                return cpu.branch_loaded(target);
            }
            Err(fault) => result = Err(fault),
        }
    } else if LOAD {
        // The base is written before the load's result, which wins if both are the same register.
        if let Some(base) = written {
            cpu.set_register(op.rn(), base);
        }
        let loaded = word_or_byte::<K, LOAD, BYTE>(cpu, bus, op, address, as_user);
        if loaded.is_err() && written.is_some() && !cpu.base_updated_on_abort {
            cpu.set_register(op.rn(), saved_base);
        }
        result = loaded;
    } else {
        match word_or_byte::<K, LOAD, BYTE>(cpu, bus, op, address, as_user) {
            Ok(()) => {
                if let Some(base) = written {
                    cpu.set_register(op.rn(), base);
                }
            }
            Err(fault) => {
                if let (Some(base), true) = (written, cpu.base_updated_on_abort) {
                    cpu.set_register(op.rn(), base);
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

/// Refuses the address of LDRD and STRD: before ARMv7 it is a multiple of 8, then of 4.
#[inline(always)]
fn check_double<K: CacheKind>(memory: &CoreMemory<Cpu<K>>, address: u32) -> Result<(), Fault> {
    if memory.mmu.reads_unaligned() {
        memory.check_strict_alignment(address, 4)
    } else {
        memory.check_alignment(address, 8)
    }
}

#[inline(always)]
fn extra_at<K: CacheKind, const KIND: u8>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
    address: u32,
) -> Result<(), Fault> {
    let memory = &mut cpu.memory;
    match KIND {
        STORE_HALF => {
            let value = cpu.registers[usize::from(op.rd() & 15)];
            memory.store_half(bus, address, value)
        }
        LOAD_HALF => {
            let value = memory.load_half_for(bus, address, late(op.rd()))?;
            cpu.set_register(op.rd(), value);
            Ok(())
        }
        LOAD_SIGNED_BYTE => {
            let value = memory.load_byte_for(bus, address, late(op.rd()))?;
            cpu.set_register(op.rd(), value as i8 as u32);
            Ok(())
        }
        LOAD_SIGNED_HALF => {
            let value = memory.load_half_for(bus, address, late(op.rd()))?;
            cpu.set_register(op.rd(), value as i16 as u32);
            Ok(())
        }
        LOAD_DOUBLE => {
            check_double(memory, address)?;
            let low = memory.load_word_for(bus, address, late(op.rd()))?;
            let high = memory.load_word_for(bus, address.wrapping_add(4), late(op.rs()))?;
            cpu.set_register(op.rd(), low);
            cpu.set_register(op.rs(), high);
            Ok(())
        }
        _ => {
            check_double(memory, address).map_err(Fault::of_store)?;
            let low = cpu.registers[usize::from(op.rd() & 15)];
            let high = cpu.registers[usize::from(op.rs() & 15)];
            memory.store_block(bus, address, &[low, high])
        }
    }
}

/// The loads and stores of addressing mode 3, with a constant offset and no write-back.
pub fn extra_offset<K: CacheKind, const KIND: u8>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn()).wrapping_add(op.immediate);
    match extra_at::<K, KIND>(cpu, bus, op, address) {
        Ok(()) => Flow::Next,
        Err(fault) => cpu.data_abort(fault),
    }
}

/// The loads and stores of addressing mode 3 in any form.
pub fn extra_general<K: CacheKind, const KIND: u8>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let is_double = matches!(KIND, LOAD_DOUBLE | STORE_DOUBLE);
    let offset = match op.is(modifier::REGISTER_OFFSET) {
        false => op.immediate,
        // Of a double, the place of the amount has the second register.
        true if is_double => cpu.register(op.rm()),
        true => cpu.register(op.rm()) << op.rs(),
    };
    let (address, written) = addresses(cpu, op, offset);
    let saved_base = cpu.register(op.rn());
    let is_load = !matches!(KIND, STORE_HALF | STORE_DOUBLE);
    if let (Some(base), true) = (written, is_load) {
        cpu.set_register(op.rn(), base);
    }
    let done = if op.is(modifier::USER) {
        cpu.as_user(|cpu| extra_at::<K, KIND>(cpu, bus, op, address))
    } else {
        extra_at::<K, KIND>(cpu, bus, op, address)
    };
    match done {
        Ok(()) => {
            if let (Some(base), false) = (written, is_load) {
                cpu.set_register(op.rn(), base);
            }
            Flow::Next
        }
        Err(fault) => {
            if let Some(base) = written {
                let kept = if cpu.base_updated_on_abort { base } else { saved_base };
                cpu.set_register(op.rn(), kept);
            }
            cpu.data_abort(fault)
        }
    }
}

/// Lowest address and written-back base of a block transfer (A5.4).
#[inline(always)]
fn block_addresses<K: CacheKind>(cpu: &Cpu<K>, op: PackedOperands) -> (u32, u32) {
    let bytes = 4 * u32::from(op.rs());
    let base = cpu.register(op.rn());
    let (before, up) = (op.is(modifier::BEFORE), op.is(modifier::UP));
    let lowest = if up { base } else { base.wrapping_sub(bytes) };
    let start = if before == up { lowest.wrapping_add(4) } else { lowest };
    let moved = if up { base.wrapping_add(bytes) } else { lowest };
    // Block transfers ignore the low bits of the address (A5.4); with alignment checking on they
    // are refused by the access itself.
    (start, moved)
}

/// LDM, with `^` in both its meanings (A4.1.20 to A4.1.22).
pub fn load_multiple<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, op: PackedOperands) -> Flow {
    let (start, moved) = block_addresses(cpu, op);
    let list = op.immediate;
    let (write_back, special) = (op.is(modifier::WRITE_BACK), op.is(modifier::USER));
    let to_user = special && list >> 15 == 0;
    let mut loaded = [0; 16];
    let may_be_late = list >> 15 == 0 && !to_user;
    if let Err(fault) = cpu.memory.load_block(bus, start, list, &mut loaded, may_be_late) {
        if write_back && cpu.base_updated_on_abort {
            cpu.set_register(op.rn(), moved);
        }
        return cpu.data_abort(fault);
    }
    if write_back {
        cpu.set_register(op.rn(), moved);
    }
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
    cpu.memory.charge(Cause::Branch, cpu.timing.load_pc_cycles);
    cpu.written_pc();
    if special { cpu.return_from_exception(loaded[15]) } else { cpu.branch_loaded(loaded[15]) }
}

/// STM, with `^` for the registers of user mode (A4.1.97, A4.1.98).
pub fn store_multiple<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (start, moved) = block_addresses(cpu, op);
    let list = op.immediate;
    let (write_back, user) = (op.is(modifier::WRITE_BACK), op.is(modifier::USER));
    let mut values = [0; 16];
    let mut count = 0;
    let mut rest = list;
    while rest != 0 {
        let number = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        values[count] = match number {
            15 => cpu.registers[15].wrapping_add(cpu.stored_pc_distance()),
            _ if user => cpu.user_register(number),
            _ => cpu.registers[number],
        };
        count += 1;
    }
    match cpu.memory.store_block(bus, start, &values[..count]) {
        Ok(()) => {
            if write_back {
                cpu.set_register(op.rn(), moved);
            }
            Flow::Next
        }
        Err(fault) => {
            if write_back && cpu.base_updated_on_abort {
                cpu.set_register(op.rn(), moved);
            }
            cpu.data_abort(fault)
        }
    }
}

/// SWP and SWPB (A4.1.108). The write's permission is checked first, so that nothing happens by
/// half.
pub fn swap<K: CacheKind, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn());
    let value = cpu.register(op.rm());
    let swapped = if BYTE {
        cpu.memory.begin_swap(bus, address, 1).and_then(|()| {
            let old = cpu.memory.load_byte(bus, address)?;
            cpu.memory.store_byte(bus, address, value)?;
            Ok(old)
        })
    } else {
        cpu.memory.begin_swap(bus, address, 4).and_then(|()| {
            let old = cpu.memory.load_word(bus, address)?;
            cpu.memory.store_word(bus, address, value)?;
            Ok(old)
        })
    };
    match swapped {
        Ok(old) => {
            cpu.set_register(op.rd(), old);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// PLD. The ARM926EJ-S does no line fill for it (ARM DDI 0198D, 2.3); the XScale does.
pub fn preload<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, op: PackedOperands) -> Flow {
    if cpu.core.preload_fills {
        let offset = if op.is(modifier::REGISTER_OFFSET) {
            shift_by_constant(cpu.register(op.rm()), op.shift(), op.rs(), cpu.carry()).0
        } else {
            op.immediate
        };
        let address = addresses(cpu, op, offset).0;
        cpu.memory.preload(bus, address);
    }
    Flow::Next
}

/// RFE (ARM DDI 0406C, B9.3.13): PC and CPSR from memory. Unpredictable in user mode, which may not
/// leave it so.
pub fn return_from_exception<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.privileged() {
        return cpu.undefined();
    }
    let (start, moved) = block_addresses(cpu, op);
    let mut loaded = [0; 16];
    if let Err(fault) = cpu.memory.load_block(bus, start, 3, &mut loaded, false) {
        return cpu.data_abort(fault);
    }
    if op.is(modifier::WRITE_BACK) {
        cpu.set_register(op.rn(), moved);
    }
    cpu.memory.charge(Cause::Branch, cpu.timing.load_pc_cycles);
    cpu.memory.synchronise_context();
    cpu.written_pc();
    cpu.set_cpsr(loaded[1]);
    cpu.branch(loaded[0])
}

/// SRS (ARM DDI 0406C, B9.3.16): LR and SPSR to the stack of another mode. Unpredictable in user
/// mode, which has no right to that.
pub fn store_return_state<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.privileged() {
        return cpu.undefined();
    }
    let of_mode = op.immediate;
    let base = cpu.stack_of(of_mode);
    let (before, up) = (op.is(modifier::BEFORE), op.is(modifier::UP));
    let lowest = if up { base } else { base.wrapping_sub(8) };
    let start = if before == up { lowest.wrapping_add(4) } else { lowest };
    let values = [cpu.registers[14], cpu.spsr()];
    match cpu.memory.store_block(bus, start, &values) {
        Ok(()) => {
            if op.is(modifier::WRITE_BACK) {
                let moved = if up { base.wrapping_add(8) } else { lowest };
                cpu.set_stack_of(of_mode, moved);
            }
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}
