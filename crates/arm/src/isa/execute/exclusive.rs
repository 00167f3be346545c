//! Exclusive loads and stores, and what is left of swaps (ARM DDI 0406C, A3.4 and A8.8).

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};
use crate::isa::op::PackedOperands;
use crate::mmu::control;
use mmulab_system::core::{Fault, Flow};

use super::load_store;

fn loaded<K: CacheKind, const BYTES: u32>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    address: u32,
) -> Result<(u32, u32), Fault> {
    cpu.memory.check_strict_alignment(address, BYTES)?;
    if K::COHERENT {
        // The line is watched from here on.
        let low = cpu.memory.load_exclusive(bus, address, BYTES.min(4))?;
        let high = if BYTES < 8 { 0 } else { cpu.memory.load_word(bus, address + 4)? };
        return Ok((low, high));
    }
    Ok(match BYTES {
        1 => (cpu.memory.load_byte(bus, address)?, 0),
        2 => (cpu.memory.load_half(bus, address)?, 0),
        4 => (cpu.memory.load_word(bus, address)?, 0),
        _ => {
            let low = cpu.memory.load_word(bus, address)?;
            (low, cpu.memory.load_word(bus, address.wrapping_add(4))?)
        }
    })
}

/// LDREX, LDREXB, LDREXH, LDREXD.
pub fn load<K: CacheKind, const BYTES: u32>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn()).wrapping_add(op.immediate);
    match loaded::<K, BYTES>(cpu, bus, address) {
        Ok((low, high)) => {
            cpu.exclusive = Some((address, BYTES));
            cpu.set_register(op.rd(), low);
            if BYTES == 8 {
                cpu.set_register(op.rs(), high);
            }
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

fn stored<K: CacheKind, const BYTES: u32>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
    address: u32,
) -> Result<bool, Fault> {
    cpu.memory.check_strict_alignment(address, BYTES).map_err(Fault::of_store)?;
    // A store that has lost its reservation faults as one that has it would.
    cpu.memory.check_store(bus, address, BYTES)?;
    if cpu.exclusive.take() != Some((address, BYTES)) {
        return Ok(false);
    }
    let value = cpu.register(op.rm());
    if K::COHERENT {
        let done = cpu.memory.store_exclusive(bus, address, BYTES.min(4), value)?;
        if done && BYTES == 8 {
            cpu.memory.store_word(bus, address + 4, cpu.register(op.rs()))?;
        }
        return Ok(done);
    }
    match BYTES {
        1 => cpu.memory.store_byte(bus, address, value)?,
        2 => cpu.memory.store_half(bus, address, value)?,
        4 => cpu.memory.store_word(bus, address, value)?,
        _ => {
            let high = cpu.register(op.rs());
            cpu.memory.store_word(bus, address, value)?;
            cpu.memory.store_word(bus, address.wrapping_add(4), high)?;
        }
    }
    Ok(true)
}

/// STREX, STREXB, STREXH, STREXD: Rd is 0 if the store was done. The core's own monitor tells apart
/// addresses and sizes, which is the finest that the architecture permits; where caches are
/// coherent, the line must also not have been stored to by others.
pub fn store<K: CacheKind, const BYTES: u32>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let address = cpu.register(op.rn()).wrapping_add(op.immediate);
    match stored::<K, BYTES>(cpu, bus, op, address) {
        Ok(done) => {
            cpu.set_register(op.rd(), u32::from(!done));
            Flow::Next
        }
        Err(fault) => cpu.data_abort(fault),
    }
}

/// CLREX.
pub fn clear<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, _: PackedOperands) -> Flow {
    cpu.exclusive = None;
    cpu.memory.clear_exclusive();
    Flow::Next
}

/// SWP and SWPB, which are undefined unless SCTLR.SW permits them (ARM DDI 0464F, 4.3.27).
pub fn swap_if_enabled<K: CacheKind, const BYTE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    if cpu.memory.mmu.registers.sctlr & control::SWAP == 0 {
        return cpu.undefined();
    }
    load_store::swap::<K, BYTE>(cpu, bus, op)
}
