//! Branches, with and without link (ARM DDI 0100, A3.3).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu, THUMB};
use crate::isa::op::{PackedOperands, modifier};
use crate::mmu::control;
use mmulab_system::Cause;
use mmulab_system::core::Flow;

impl<K: CacheKind> Cpu<K> {
    /// What a taken branch costs.
    #[inline(always)]
    pub(super) fn taken_branch(&mut self) {
        match &mut self.branch_buffer {
            // Off after reset (273411, 5.2.1).
            Some(buffer) if self.memory.mmu.has(control::BRANCH_PREDICTION) => {
                if !buffer.taken(self.memory.pc) {
                    self.memory.charge(Cause::Branch, self.timing.branch_mispredicted_cycles);
                }
            }
            _ => {
                self.memory.charge(Cause::Branch, self.timing.taken_branch_cycles);
            }
        }
    }

    /// A conditional instruction was not executed; a branch target buffer learns from branches.
    #[inline(always)]
    pub fn skipped(&mut self, op: PackedOperands) {
        if let Some(buffer) = &mut self.branch_buffer
            && self.memory.mmu.has(control::BRANCH_PREDICTION)
            && op.is(modifier::PREDICTED)
            && !buffer.not_taken(self.memory.pc)
        {
            self.memory.charge(Cause::Branch, self.timing.branch_mispredicted_cycles);
        }
    }

    /// What a write of R15 other than by a branch instruction costs: never predicted.
    #[inline(always)]
    pub(super) fn written_pc(&mut self) {
        self.memory.charge(Cause::Branch, self.timing.taken_branch_cycles);
    }
}

/// B and Thumb's branches (A4.1.5). The immediate is the offset from R15.
pub fn branch<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    cpu.taken_branch();
    let target = cpu.registers[15].wrapping_add(op.immediate);
    // A branch to itself with both interrupts masked can never end.
    if target == cpu.memory.pc && cpu.control & 0xc0 == 0xc0 {
        cpu.requests.stop = Some(mmulab_system::Stop::Hang);
        cpu.memory.request_exit();
    }
    cpu.memory.pc = target;
    Flow::Jump
}

/// BL in ARM state.
pub fn branch_with_link<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    cpu.taken_branch();
    cpu.registers[14] = cpu.memory.pc.wrapping_add(4);
    cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    Flow::Jump
}

/// BLX with an immediate (A4.1.8): to Thumb state; the offset has the half-word bit in it.
pub fn branch_with_link_to_thumb<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    cpu.taken_branch();
    cpu.registers[14] = cpu.memory.pc.wrapping_add(4);
    cpu.memory.pc = cpu.registers[15].wrapping_add(op.immediate);
    cpu.control |= THUMB;
    Flow::Jump
}

/// BX, and BLX with a register.
pub fn branch_exchange<K: CacheKind, const LINK: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    cpu.written_pc();
    let target = cpu.register(op.rm());
    if LINK {
        cpu.registers[14] = if cpu.thumb() {
            cpu.memory.pc.wrapping_add(2) | 1
        } else {
            cpu.memory.pc.wrapping_add(4)
        };
    }
    cpu.branch_exchange(target)
}

/// First half of Thumb's BL pair (A7.1.17): R14 = R15 + offset.
pub fn thumb_link_prefix<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    cpu.registers[14] = cpu.registers[15].wrapping_add(op.immediate);
    Flow::Next
}

/// Second half of Thumb's BL pair; `TO_ARM` is BLX.
pub fn thumb_link_suffix<K: CacheKind, const TO_ARM: bool>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
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
