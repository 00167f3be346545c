//! The few semihosting calls that end a run or print (ARM DUI 0203, semihosting), so that one image
//! ends on QEMU and here.

use crate::caches::CacheKind;
use mmulab_system::core::Flow;

use crate::cpu::{Bus, Cpu};

const WRITE_CHARACTER: u32 = 0x03;
const WRITE_STRING: u32 = 0x04;
const GET_COMMAND_LINE: u32 = 0x15;
const EXIT: u32 = 0x18;
const EXIT_EXTENDED: u32 = 0x20;
/// The reason that means a normal end.
const APPLICATION_EXIT: u32 = 0x2_0026;
/// A string without end is cut here.
const LONGEST_STRING: usize = 1 << 16;

/// Serves the call in R0, or returns `None` for one that is not served. Arguments are read as the
/// core would load them, with the cost of these loads.
pub fn call<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>) -> Option<Flow> {
    let argument = cpu.registers[1];
    match cpu.registers[0] {
        EXIT => bus.board.exit = Some(u8::from(argument != APPLICATION_EXIT)),
        EXIT_EXTENDED => {
            let reason = cpu.memory.load_word(bus, argument).ok()?;
            let status = cpu.memory.load_word(bus, argument.wrapping_add(4)).ok()?;
            bus.board.exit = Some(if reason == APPLICATION_EXIT { status as u8 } else { 1 });
        }
        GET_COMMAND_LINE => {
            let buffer = cpu.memory.load_word(bus, argument).ok()?;
            let size = cpu.memory.load_word(bus, argument.wrapping_add(4)).ok()?;
            let mut text = bus.board.command_line.clone().into_bytes();
            text.push(0);
            if text.len() > size as usize {
                cpu.registers[0] = !0;
                return Some(Flow::Synchronise);
            }
            for (offset, &character) in text.iter().enumerate() {
                let at = buffer.wrapping_add(offset as u32);
                cpu.memory.store_byte(bus, at, u32::from(character)).ok()?;
            }
            let length = text.len() as u32 - 1;
            cpu.memory.store_word(bus, argument.wrapping_add(4), length).ok()?;
            cpu.registers[0] = 0;
            return Some(Flow::Synchronise);
        }
        WRITE_CHARACTER => {
            let character = cpu.memory.load_byte(bus, argument).ok()?;
            bus.board.output.push(character as u8);
        }
        WRITE_STRING => {
            for offset in 0..LONGEST_STRING {
                let at = argument.wrapping_add(offset as u32);
                match cpu.memory.load_byte(bus, at) {
                    Ok(0) | Err(_) => break,
                    Ok(character) => bus.board.output.push(character as u8),
                }
            }
        }
        _ => return None,
    }
    cpu.memory.request_exit();
    Some(Flow::Synchronise)
}
