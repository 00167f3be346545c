//! System instructions of ARMv6 and ARMv7: barriers, hints, changes of state, calls of a higher
//! level, coprocessor registers of 64 bits (ARM DDI 0406C, A8.8 and B9.3).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu, MASKS};
use crate::isa::op::PackedOperands;
use crate::psci;
use mmulab_system::core::Flow;

/// What does nothing that can be seen here.
pub fn nothing<K: CacheKind>(_: &mut Cpu<K>, _: &mut Bus<K>, _: PackedOperands) -> Flow {
    Flow::Next
}

/// SETEND BE: data in big-endian order is not modelled.
pub fn undefined_big_endian<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    _: PackedOperands,
) -> Flow {
    cpu.undefined()
}

/// WFI.
pub fn wait_for_interrupt<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    _: PackedOperands,
) -> Flow {
    cpu.wait_for_interrupt();
    Flow::Synchronise
}

/// WFE. With no other core that could send one, the event comes at once: it may at any time.
pub fn wait_for_event<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, _: PackedOperands) -> Flow {
    if bus.core_count() > 1 && !cpu.memory.take_event() {
        cpu.requests.waiting_for_event = true;
    }
    cpu.memory.request_exit();
    Flow::Synchronise
}

/// SEV.
pub fn send_event<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, _: PackedOperands) -> Flow {
    cpu.memory.send_event(bus);
    Flow::Next
}

/// DSB: waits until what was stored is in memory, and maintenance is complete.
pub fn data_synchronization_barrier<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    _: PackedOperands,
) -> Flow {
    cpu.memory.complete_maintenance(bus);
    Flow::Next
}

/// DMB: what was stored is in memory first; maintenance need not be complete.
pub fn data_memory_barrier<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    _: PackedOperands,
) -> Flow {
    cpu.memory.drain_write_buffer(bus);
    Flow::Next
}

/// ISB: what comes after it is fetched again.
pub fn instruction_synchronization_barrier<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    _: PackedOperands,
) -> Flow {
    cpu.memory.synchronise_context();
    cpu.written_pc();
    Flow::Synchronise
}

/// CPS; in user mode it does nothing. The immediate has the masks to set, and above bit 16 the mode
/// with a bit that says whether it changes; Rn has the masks to clear.
pub fn change_state<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    if !cpu.privileged() {
        return Flow::Next;
    }
    let cleared = u32::from(op.rn()) << 6;
    let mut value = cpu.cpsr() & !cleared | op.immediate & MASKS;
    if op.immediate >> 24 != 0 {
        value = value & !0x1f | op.immediate >> 16 & 0x1f;
    }
    cpu.set_cpsr(value);
    Flow::Synchronise
}

/// HVC and SMC. There is neither a hypervisor nor a monitor mode: where the board has firmware that
/// takes calls, they go there, else they are undefined, as HVC is on a core whose secure state has
/// not enabled it (B9.3.4).
pub fn firmware_call<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, _: PackedOperands) -> Flow {
    psci::call(cpu, bus)
}

/// SUBS PC, LR, #n and ERET.
pub fn subtract_return<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let target = cpu.registers[14].wrapping_sub(op.immediate);
    cpu.written_pc();
    cpu.return_from_exception(target)
}

/// MCRR.
pub fn coprocessor_write_pair<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let value = u64::from(cpu.register(op.rn())) << 32 | u64::from(cpu.register(op.rd()));
    if !cpu.privileged() && !cpu.pair_open_to_users(op.into()) {
        return cpu.undefined();
    }
    if cpu.coprocessor_write_pair(bus, op.into(), value) {
        Flow::Synchronise
    } else {
        cpu.undefined()
    }
}

/// MRRC.
pub fn coprocessor_read_pair<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if !cpu.privileged() && !cpu.pair_open_to_users(op.into()) {
        return cpu.undefined();
    }
    match cpu.coprocessor_read_pair(bus, op.into()) {
        Some(value) => {
            cpu.set_register(op.rd(), value as u32);
            cpu.set_register(op.rn(), (value >> 32) as u32);
            Flow::Synchronise
        }
        None => cpu.undefined(),
    }
}
