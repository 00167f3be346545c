//! What the instructions do. Each handler executes one decoded form; the forms choose it once, when
//! the instruction is decoded.

pub mod alu;
pub mod branch;
pub mod exclusive;
pub mod load_store;
pub mod media;
pub mod multiply;
pub mod system;
pub mod thumb2;
pub mod v7;
pub mod vector;

use crate::caches::CacheKind;
use crate::cpu::Cpu;

pub use system::undefined;

/// The bit of a register that a load may deliver late; none of R15, which is used at once.
#[inline(always)]
fn late(register: u8) -> u16 {
    1 << (register & 15) & 0x7fff
}

impl<K: CacheKind> Cpu<K> {
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
}
