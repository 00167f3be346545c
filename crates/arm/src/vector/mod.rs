//! The registers of VFP and Advanced SIMD, and what their data processing does with them. Nothing
//! here knows the core: an operation is a function of the registers and of the operands that
//! decoding found.

pub mod estimate;
pub mod float;
pub mod scalar;
pub mod shift;
pub mod three;
pub mod two;

use float::Environment;

/// FPSCR: a saturating instruction saturated.
const SATURATED: u32 = 1 << 27;
/// FPSCR: what software can write: flags, modes, cumulative exceptions (ARM DDI 0464F has no traps
/// and no short vectors).
const WRITABLE: u32 = 0xffc0_009f;

/// The registers.
#[derive(Clone)]
pub struct VectorRegisters {
    /// D0 to D31; two of them are a Q register, the halves of the first sixteen are S registers.
    pub d: [u64; 32],
    /// FPSCR: flags, modes and cumulative exceptions.
    pub fpscr: u32,
    /// FPEXC.EN.
    pub enabled: bool,
}

mmulab_state::state!(VectorRegisters { d, fpscr, enabled });

impl VectorRegisters {
    /// Registers after reset.
    pub fn new() -> VectorRegisters {
        VectorRegisters { d: [0; 32], fpscr: 0, enabled: false }
    }

    /// Writes FPSCR.
    pub fn set_fpscr(&mut self, value: u32) {
        self.fpscr = value & WRITABLE;
    }

    /// A register of 32 bits.
    pub fn single(&self, number: u8) -> u32 {
        (self.d[usize::from(number >> 1)] >> (32 * (number & 1))) as u32
    }

    /// Writes it.
    pub fn set_single(&mut self, number: u8, value: u32) {
        let shift = 32 * u32::from(number & 1);
        let register = &mut self.d[usize::from(number >> 1)];
        *register = *register & !(0xffff_ffff << shift) | u64::from(value) << shift;
    }

    /// Arithmetic in the modes that Advanced SIMD always has.
    fn standard<T>(&mut self, work: impl FnOnce(&mut Self, &mut Environment) -> T) -> T {
        let mut environment = Environment::standard(self.fpscr);
        let result = work(self, &mut environment);
        self.fpscr |= environment.raised;
        result
    }

    /// Keeps the low bits of a value that fits, or the nearest value that does.
    fn saturated(&mut self, value: i128, bits: u32, unsigned: bool) -> u64 {
        let (least, most) = if unsigned {
            (0, (1 << bits) - 1)
        } else {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        };
        let fitting = value.clamp(least, most);
        if fitting != value {
            self.fpscr |= SATURATED;
        }
        fitting as u64
    }
}

/// What a data-processing instruction works on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vector {
    /// Destination.
    pub d: u8,
    /// First operand.
    pub n: u8,
    /// Second operand.
    pub m: u8,
    /// Base-two logarithm of the bytes of an element.
    pub size: u8,
    /// Q registers.
    pub quad: bool,
    /// Elements are unsigned.
    pub unsigned: bool,
    /// Of a shift, the amount; of a scalar, which element; of a fixed-point number, its fraction
    /// bits; of an immediate, its eight bits.
    pub amount: u8,
    /// The second operand is one element for all.
    pub by_scalar: bool,
    /// What else tells an operation from its neighbours.
    pub kind: u8,
}

impl Vector {
    /// In one word.
    pub fn pack(self) -> u32 {
        u32::from(self.d)
            | u32::from(self.n) << 5
            | u32::from(self.m) << 10
            | u32::from(self.size) << 15
            | u32::from(self.quad) << 17
            | u32::from(self.unsigned) << 18
            | u32::from(self.amount) << 19
            | u32::from(self.by_scalar) << 27
            | u32::from(self.kind) << 28
    }

    /// From that word.
    pub fn unpack(word: u32) -> Vector {
        Vector {
            d: word as u8 & 31,
            n: (word >> 5) as u8 & 31,
            m: (word >> 10) as u8 & 31,
            size: (word >> 15) as u8 & 3,
            quad: word >> 17 & 1 != 0,
            unsigned: word >> 18 & 1 != 0,
            amount: (word >> 19) as u8,
            by_scalar: word >> 27 & 1 != 0,
            kind: (word >> 28) as u8,
        }
    }

    fn bits(self) -> u32 {
        8 << self.size
    }

    fn registers(self) -> usize {
        1 + usize::from(self.quad)
    }
}

/// What a data-processing instruction does.
pub type Operation = fn(&mut VectorRegisters, Vector);

fn mask(bits: u32) -> u64 {
    !0 >> (64 - bits)
}

/// An element of a word of elements.
fn lane(word: u64, index: u32, bits: u32) -> u64 {
    word >> (index * bits) & mask(bits)
}

/// An element's value.
fn value(element: u64, bits: u32, unsigned: bool) -> i128 {
    if unsigned {
        i128::from(element & mask(bits))
    } else {
        i128::from((element << (64 - bits)) as i64 >> (64 - bits))
    }
}

/// A word of elements, from a function of each one's index.
fn word_of(bits: u32, mut element: impl FnMut(u32) -> u64) -> u64 {
    (0..64 / bits).fold(0, |word, index| word | (element(index) & mask(bits)) << (index * bits))
}

/// All ones or zeros.
fn truth(holds: bool) -> u64 {
    if holds { !0 } else { 0 }
}
