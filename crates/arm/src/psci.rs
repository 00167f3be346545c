//! The calls of a board's firmware that turn cores on and off: Power State Coordination Interface
//! 1.1 (ARM DEN 0022), by HVC or SMC.

use crate::caches::CacheKind;
use mmulab_system::Cause;
use mmulab_system::core::Flow;
use mmulab_system::maintenance::{Maintenance, Scope};

use crate::cpu::{Bus, Cpu};

const VERSION: u32 = 0x8400_0000;
const CPU_SUSPEND: u32 = 0x8400_0001;
const CPU_OFF: u32 = 0x8400_0002;
const CPU_ON: u32 = 0x8400_0003;
const AFFINITY_INFO: u32 = 0x8400_0004;
const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
const SYSTEM_OFF: u32 = 0x8400_0008;
const SYSTEM_RESET: u32 = 0x8400_0009;
const FEATURES: u32 = 0x8400_000a;

const VERSION_1_1: u32 = 0x0001_0001;
const SUCCESS: u32 = 0;
const NOT_SUPPORTED: u32 = -1_i32 as u32;
const INVALID_PARAMETERS: u32 = -2_i32 as u32;
const ALREADY_ON: u32 = -4_i32 as u32;
const IS_ON: u32 = 0;
const IS_OFF: u32 = 1;
/// No trusted system has to be moved before a core is turned off (5.10).
const NOTHING_TO_MIGRATE: u32 = 2;
/// CPU_SUSPEND: the core loses its state (5.4.2).
const POWER_DOWN: u32 = 1 << 16;

/// A call: the function and its arguments in R0 to R3, the result in R0. A board without such
/// firmware, or user mode, makes it an undefined instruction.
pub fn call<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>) -> Flow {
    if !cpu.privileged() || !bus.board.has_power_firmware() {
        return cpu.undefined();
    }
    // An exception to another level, and the return from it.
    cpu.memory.synchronise_context();
    let cycles = cpu.timing.exception_cycles;
    cpu.memory.charge(Cause::Exception, cycles);
    let [function, first, second, third, ..] = cpu.registers;
    cpu.registers[0] = match function {
        VERSION => VERSION_1_1,
        CPU_SUSPEND if first & POWER_DOWN == 0 => {
            cpu.wait_for_interrupt();
            SUCCESS
        }
        CPU_SUSPEND => INVALID_PARAMETERS,
        CPU_OFF => {
            turn_off(cpu, bus);
            SUCCESS
        }
        CPU_ON => match core_of(bus, first) {
            None => INVALID_PARAMETERS,
            Some(number) if bus.is_on(number) => ALREADY_ON,
            Some(number) => {
                bus.turn_on(number, second, third, cpu.memory.now());
                SUCCESS
            }
        },
        AFFINITY_INFO => match core_of(bus, first) {
            // Everything above a single core is always on.
            _ if second != 0 => IS_ON,
            None => INVALID_PARAMETERS,
            Some(number) if bus.is_on(number) => IS_ON,
            Some(_) => IS_OFF,
        },
        MIGRATE_INFO_TYPE => NOTHING_TO_MIGRATE,
        SYSTEM_OFF => {
            bus.board.exit = Some(0);
            SUCCESS
        }
        SYSTEM_RESET => {
            bus.board.rebooted = true;
            SUCCESS
        }
        FEATURES => match first {
            VERSION..=AFFINITY_INFO | MIGRATE_INFO_TYPE | SYSTEM_OFF..=FEATURES => SUCCESS,
            _ => NOT_SUPPORTED,
        },
        _ => NOT_SUPPORTED,
    };
    cpu.memory.request_exit();
    Flow::Synchronise
}

/// The core of an affinity value, as the cores' MPIDR have it.
fn core_of<K: CacheKind>(bus: &Bus<K>, affinity: u32) -> Option<usize> {
    let number = affinity as usize;
    (number < bus.core_count()).then_some(number)
}

/// The core goes off with clean caches, as its memory may be another's when it comes back.
fn turn_off<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>) {
    cpu.memory.drain_write_buffer(bus);
    while !cpu.memory.clean_next_line(bus, true) {}
    cpu.memory.invalidate_instructions(bus, false);
    // Complete before the core is off, as software would have to do it.
    let all_here = Maintenance::Translations { scope: Scope::All, everywhere: false };
    for maintenance in [Maintenance::Complete, all_here, Maintenance::Complete] {
        cpu.memory.announce(bus, maintenance);
    }
    cpu.memory.invalidate_translations(bus, true, true);
    cpu.reset_system(bus);
    cpu.vector.enabled = false;
    cpu.memory.synchronise_context();
    cpu.wait_for_interrupt();
    bus.turn_off(cpu.memory.number);
}
