//! What only Thumb has since ARMv6T2: IT blocks, compare and branch, table branches, 32-bit
//! branches, and loads relative to R15 (ARM DDI 0406C, A8.8).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu, THUMB};
use crate::isa::op::{ALWAYS, CONDITIONS, InIt, Op, PackedOperands};
use mmulab_system::Cause;
use mmulab_system::clock::Cost;
use mmulab_system::core::{Fault, Flow};

/// The state of an IT block after one of its instructions (A2.5.2).
pub fn advanced(state: u8) -> u8 {
    if state & 7 == 0 { 0 } else { state & 0xe0 | state << 1 & 0x1f }
}

impl<K: CacheKind> Cpu<K> {
    /// Executes an instruction of an IT block.
    pub fn execute_in_it(&mut self, bus: &mut Bus<K>, op: &Op<K>) -> Flow {
        if op.length == 0 {
            // Not decoded yet.
            return (op.handler)(self, bus, op.operands);
        }
        let state = self.it;
        self.it = advanced(state);
        let condition = CONDITIONS[usize::from(state >> 4)];
        // A conditional branch has its own condition, and no place here.
        let passes = if op.in_it == InIt::Unconditional { ALWAYS } else { condition & op.passes };
        if passes >> self.flags & 1 == 0 {
            self.memory.clock.issue(Cost::issue(1));
            self.skipped(op.operands);
            return Flow::Skipped;
        }
        self.memory.clock.issue(op.cost);
        let flags = self.flags;
        self.it_of_instruction = state;
        let flow = (op.handler)(self, bus, op.operands);
        self.it_of_instruction = 0;
        if op.in_it == InIt::Quiet {
            self.flags = flags;
        }
        flow
    }
}

/// IT.
pub fn if_then<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    cpu.it = op.immediate as u8;
    Flow::Next
}

/// CBZ and CBNZ.
pub fn compare_and_branch<K: CacheKind, const NONZERO: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if (cpu.register(op.rn()) != 0) != NONZERO {
        cpu.skipped(op);
        return Flow::Next;
    }
    cpu.taken_branch();
    cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    Flow::Jump
}

/// TBB and TBH.
pub fn table_branch<K: CacheKind, const HALF: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let (base, index) = (cpu.register(op.rn()), cpu.register(op.rm()));
    let loaded = if HALF {
        cpu.memory.load_half(bus, base.wrapping_add(index << 1))
    } else {
        cpu.memory.load_byte(bus, base.wrapping_add(index))
    };
    match loaded {
        Ok(distance) => {
            cpu.memory.charge(Cause::Branch, cpu.timing.load_pc_cycles);
            cpu.written_pc();
            cpu.memory.pc = cpu.registers[15].wrapping_add(2 * distance);
            Flow::Jump
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// BL and BLX with an immediate.
pub fn branch_with_link<K: CacheKind, const TO_ARM: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    cpu.taken_branch();
    cpu.registers[14] = cpu.memory.pc.wrapping_add(4) | 1;
    if TO_ARM {
        cpu.control &= !THUMB;
        cpu.memory.pc = (cpu.registers[15] & !3).wrapping_add(op.immediate);
    } else {
        cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    }
    Flow::Jump
}

/// LDRB.
pub const BYTE: u8 = 0;
/// LDRH.
pub const HALF: u8 = 1;
/// LDR.
pub const WORD: u8 = 2;
/// LDRSB.
pub const SIGNED_BYTE: u8 = 3;
/// LDRSH.
pub const SIGNED_HALF: u8 = 4;

fn literal_address<K: CacheKind>(cpu: &Cpu<K>, op: PackedOperands) -> u32 {
    (cpu.registers[15] & !3).wrapping_add(op.immediate)
}

fn literal_value<K: CacheKind, const KIND: u8>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    address: u32,
) -> Result<u32, Fault> {
    match KIND {
        BYTE => cpu.memory.load_byte(bus, address),
        HALF => cpu.memory.load_half(bus, address),
        WORD => cpu.memory.load_word(bus, address),
        SIGNED_BYTE => Ok(cpu.memory.load_byte(bus, address)? as i8 as u32),
        _ => Ok(cpu.memory.load_half(bus, address)? as i16 as u32),
    }
}

/// A load relative to R15.
pub fn literal<K: CacheKind, const KIND: u8>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = literal_address(cpu, op);
    match literal_value::<K, KIND>(cpu, bus, address) {
        Ok(target) if KIND == WORD && op.rd() == 15 => {
            cpu.memory.charge(Cause::Branch, cpu.timing.load_pc_cycles);
            cpu.written_pc();
            cpu.branch_loaded(target)
        }
        Ok(value) => {
            cpu.set_register(op.rd(), value);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// LDRD relative to R15.
pub fn literal_double<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = literal_address(cpu, op);
    let loaded = literal_value::<K, WORD>(cpu, bus, address)
        .and_then(|low| Ok((low, literal_value::<K, WORD>(cpu, bus, address.wrapping_add(4))?)));
    match loaded {
        Ok((low, high)) => {
            cpu.set_register(op.rd(), low);
            cpu.set_register(op.rs(), high);
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}
