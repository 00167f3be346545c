//! Status registers, calls, breakpoints and coprocessor registers (ARM DDI 0100, A3.9, A3.15,
//! A3.16).

use crate::caches::CacheKind;
use crate::cpu::{Architecture, Bus, Cpu, Exception, SATURATED, THUMB};
use crate::isa::op::{PackedOperands, modifier};
use crate::mmu::status;
use mmulab_system::core::{Fault, Flow};

use super::alu::IMMEDIATE;

/// The bits of CPSR that MRS reads: the state of execution is not among them (ARM DDI 0406C,
/// B9.3.8).
const READABLE_V7: u32 = 0xf8ff_03df;

/// MRS.
pub fn status_read<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let value = match (op.is(modifier::SAVED), cpu.architecture >= Architecture::V7A) {
        (true, _) => cpu.spsr(),
        (false, true) => cpu.cpsr() & READABLE_V7,
        (false, false) => cpu.cpsr(),
    };
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// MSR, with a register or an immediate (A4.1.39).
pub fn status_write<K: CacheKind, const FORM: u8>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let value = if FORM == IMMEDIATE { op.immediate } else { cpu.register(op.rm()) };
    let mut mask = 0;
    if op.shift() & 1 != 0 {
        mask |= 0xff;
    }
    if op.shift() & 8 != 0 {
        mask |= 0xf000_0000;
        if cpu.architecture >= Architecture::V5TE {
            mask |= SATURATED;
        }
    }
    if cpu.architecture >= Architecture::V7A {
        mask |= status_mask_v7(op.shift(), op.is(modifier::SAVED));
    }
    if op.is(modifier::SAVED) {
        let merged = cpu.spsr() & !mask | value & mask;
        cpu.set_spsr(merged);
        return Flow::Next;
    }
    if !cpu.privileged() {
        mask &= 0xff0f_0000;
    }
    // The T bit is not written by MSR: states change by BX and exceptions only.
    mask &= !THUMB;
    let merged = cpu.cpsr() & !mask | value & mask;
    if mask & 0xff == 0 {
        cpu.flags = merged >> 28;
        let kept = mask & 0x0fff_ffff;
        cpu.control = cpu.control & !kept | merged & kept;
        return Flow::Next;
    }
    cpu.set_cpsr(merged);
    Flow::Synchronise
}

/// MRS of a register of another mode, which user mode may not read.
pub fn banked_read<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    if !cpu.privileged() {
        return cpu.undefined();
    }
    let Some(place) = cpu.banked(op.is(modifier::SAVED), op.immediate) else {
        return cpu.undefined();
    };
    let value = *place;
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// MSR of one.
pub fn banked_write<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    if !cpu.privileged() {
        return cpu.undefined();
    }
    let value = cpu.register(op.rm());
    match cpu.banked(op.is(modifier::SAVED), op.immediate) {
        Some(place) => *place = value,
        None => return cpu.undefined(),
    }
    Flow::Next
}

/// The bits that ARMv6 and ARMv7 added to what MSR writes: GE, and of the second byte A; of SPSR
/// the rest too (ARM DDI 0406C, B9.3.11).
fn status_mask_v7(fields: u8, saved: bool) -> u32 {
    let middle = if saved { 0xff00 } else { 0x0100 };
    let upper = if saved { 0x0700_0000 } else { 0 };
    [(2, middle), (4, 0x000f_0000), (8, upper)]
        .into_iter()
        .filter(|&(field, _)| fields & field != 0)
        .fold(0, |mask, (_, bits)| mask | bits)
}

/// SVC, and the semihosting calls of privileged code (docs/board.md).
pub fn supervisor_call<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let semihosting = if cpu.thumb() { 0xab } else { 0x12_3456 };
    if op.immediate == semihosting
        && cpu.privileged()
        && let Some(flow) = crate::semihosting::call(cpu, bus)
    {
        return flow;
    }
    let length = if cpu.thumb() { 2 } else { 4 };
    cpu.take_exception(Exception::SupervisorCall, cpu.memory.pc.wrapping_add(length));
    Flow::Jump
}

/// BKPT: with no debugger it is a prefetch abort (A4.1.7).
pub fn breakpoint<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, _: PackedOperands) -> Flow {
    cpu.record_breakpoint();
    cpu.take_exception(Exception::PrefetchAbort, cpu.memory.pc.wrapping_add(4));
    Flow::Jump
}

/// MRC.
pub fn coprocessor_read<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.privileged() && !cpu.open_to_users(op.into()) {
        return cpu.undefined();
    }
    match cpu.coprocessor_read(bus, op.into()) {
        Some(value) if op.rd() == 15 => {
            cpu.flags = value >> 28;
            Flow::Synchronise
        }
        Some(value) => {
            cpu.set_register(op.rd(), value);
            Flow::Synchronise
        }
        None => cpu.undefined(),
    }
}

/// MCR.
pub fn coprocessor_write<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.privileged() && !cpu.open_to_users(op.into()) {
        return cpu.undefined();
    }
    let value = cpu.register(op.rd());
    match cpu.coprocessor_write(bus, op.into(), value) {
        Ok(true) => Flow::Synchronise,
        Ok(false) => cpu.undefined(),
        // Of maintenance, which counts as a store (ARM DDI 0406C, DFSR: CM and WnR).
        Err(fault) => {
            let status = fault.status | status::MAINTENANCE;
            cpu.data_abort(Fault { status, ..fault.of_store() })
        }
    }
}

/// Anything that the core does not have.
pub fn undefined<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, _: PackedOperands) -> Flow {
    cpu.undefined()
}
