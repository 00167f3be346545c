//! The inner loop: runs one core, line by line, until it has to be looked after.

use mmulab_hardware::Line;

use crate::bus::Bus;
use crate::clock::Cost;
use crate::core::{Core, Decode, Flow};
use crate::observer::Observer;
use crate::system::{Debugging, Stop};

/// Which instructions are looked at before they execute: none,
pub(crate) const LOOK_AT_NOTHING: u8 = 0;
/// those of lines that the checker does not know to be right,
pub(crate) const LOOK_AT_UNKNOWN: u8 = 1;
/// or each, for any observers, the debugger, and the last run before the instruction limit.
pub(crate) const LOOK_AT_ALL: u8 = 2;

/// Runs one core until it has to be looked after.
pub(crate) fn run_core<C: Core, const LOOK: u8>(
    core: &mut C,
    bus: &mut Bus<C>,
    left: u64,
    debugging: &Debugging,
    first: &mut bool,
) {
    while !core.memory().clock.is_due() {
        let memory = core.memory_mut();
        let waits = memory.has_late_registers();
        if LOOK == LOOK_AT_ALL {
            if memory.clock.pending_instructions() >= left {
                return;
            }
            // Before the fetch, since one past the cache would be made and paid for again when the
            // run goes on.
            let pc = memory.pc;
            if stops_before(core, pc, debugging, *first) {
                return;
            }
        }
        let memory = core.memory_mut();
        let slot = match memory.fetch_slot(bus, memory.pc) {
            Ok(slot) => slot,
            Err(fault) => {
                *first = false;
                core.abort_fetch(fault);
                continue;
            }
        };
        if memory.fetch.late.is_some() {
            let narrow = core.is_narrow();
            let memory = core.memory_mut();
            let stall = memory.fetch.stall_across(slot, memory.pc, narrow);
            memory.clock.issue(Cost::stall(stall));
        }
        match (C::HAS_NARROW && core.is_narrow(), C::OVERLAPS_MISSES && waits) {
            (false, false) => {
                run_line::<C, LOOK, false, false>(core, bus, slot, left, debugging, first);
            }
            (true, false) => {
                run_line::<C, LOOK, true, false>(core, bus, slot, left, debugging, first);
            }
            (false, true) => {
                run_line::<C, LOOK, false, true>(core, bus, slot, left, debugging, first);
            }
            (true, true) => {
                run_line::<C, LOOK, true, true>(core, bus, slot, left, debugging, first);
            }
        }
    }
}

/// Whether the debugger is to look before the instruction at `pc` executes; the run then ends. To
/// go on from a breakpoint gdb takes it away for a step (`first` is that step's instruction).
fn stops_before<C: Core>(core: &mut C, pc: u32, debugging: &Debugging, first: bool) -> bool {
    let stops = match debugging.step == Some(core.memory().number) {
        true => !first,
        false => debugging.breakpoints.contains(&pc),
    };
    if stops {
        core.memory_mut().request_exit();
        core.requests().stop = Some(Stop::Debugger);
    }
    stops
}

/// Executes instructions of one line, until one leaves it. With `WAITS` each waits for the
/// registers that it reads; otherwise one that makes a register late is the last.
#[inline(always)]
fn run_line<C: Core, const LOOK: u8, const NARROW: bool, const WAITS: bool>(
    core: &mut C,
    bus: &mut Bus<C>,
    slot: usize,
    left: u64,
    debugging: &Debugging,
    first: &mut bool,
) {
    let (unit, shift) = if NARROW { (2, 1) } else { (4, 2) };
    let per_line = C::FetchLine::BYTES as usize >> shift;
    let memory = core.memory_mut();
    let mut pc = memory.pc;
    let mut index = (pc >> shift) as usize & (per_line - 1);
    if NARROW {
        memory.fetch.prepare_narrow(slot);
        index += slot * per_line;
    } else {
        index += memory.fetch.decoded_line(slot);
    }
    let end = if memory.is_scratch(slot) {
        pc.wrapping_add(unit)
    } else {
        C::FetchLine::base(pc).wrapping_add(C::FetchLine::BYTES)
    };
    if LOOK == LOOK_AT_UNKNOWN {
        memory.fetch_known = memory.knows_fetch_line(bus, slot);
    }
    let mut was_first = false;
    // Whether the instruction was looked at before it was decoded: as far as one unit, since its
    // length was not known.
    let mut was_looked_at = false;
    loop {
        let memory = core.memory_mut();
        memory.pc = pc;
        // A device was written, or the like: what that starts comes before the next instruction.
        if WAITS && memory.clock.exit_requested() || !WAITS && memory.clock.exit_requested_or_held()
        {
            return;
        }
        let op = memory.fetch.op::<NARROW>(index);
        let length = if NARROW { C::narrow_length(&op) } else { 4 };
        // The line holds the second half too.
        let is_long = NARROW && length > unit && pc.wrapping_add(unit) != end;
        if LOOK == LOOK_AT_UNKNOWN && !memory.fetch_known {
            if !was_looked_at {
                memory.look_at_fetch(bus, slot, unit);
            }
            if is_long {
                memory.pc = pc.wrapping_add(unit);
                memory.look_at_fetch(bus, slot, unit);
                memory.pc = pc;
            }
        }
        if LOOK == LOOK_AT_ALL {
            if memory.clock.pending_instructions() >= left {
                return;
            }
            if stops_before(core, pc, debugging, *first) {
                return;
            }
            was_first = std::mem::take(first);
            let memory = core.memory_mut();
            if !was_looked_at {
                memory.observe(bus, |observer, core, bus| observer.fetched(core, bus, slot, unit));
            }
            if is_long {
                memory.observe_fetch_at(bus, pc.wrapping_add(unit), slot);
            }
        }
        if WAITS {
            core.memory_mut().await_registers(C::sources(&op));
        }
        let flow = core.execute::<NARROW>(bus, &op);
        if flow > Flow::Skipped {
            match flow {
                Flow::Decoded => {
                    // It was not executed yet.
                    *first |= was_first;
                    was_looked_at = true;
                    continue;
                }
                Flow::Jump => {}
                _ => core.memory_mut().pc = pc.wrapping_add(length),
            }
            return;
        }
        was_looked_at = false;
        pc = pc.wrapping_add(length);
        index += length as usize >> shift;
        // A long instruction of narrow code may end behind the line.
        let left = if NARROW { pc.wrapping_sub(end) <= unit } else { pc == end };
        let late = C::Decoder::late(&op);
        // In narrow code the next one may be that which ends behind the line.
        if left || NARROW && late.is_some() {
            let memory = core.memory_mut();
            memory.pc = pc;
            // An instruction that ends behind the line says so itself.
            if flow == Flow::Next && late.is_some() {
                memory.fetch.late = late;
            }
            return;
        }
    }
}
