//! From words to [`Op`]s, with the stalls between neighbours.

use std::sync::LazyLock;

use mmulab_machine::ArmTiming;
use mmulab_system::clock::Cost;
use mmulab_system::core::{Decode, Flow};

use crate::cpu::{Architecture, Bus, Cpu};

use super::execute;
use super::op::{Late, Op, Operands, PackedOperands};
use super::table::{Choice, Row, Since, Table};
use super::{a32, t16};

/// ARM instructions are told apart by bits 27 to 20 and 7 to 4.
const ARM_CHOICE: Choice = Choice { high: 20, bits: 8, low: 4 };
const THUMB_CHOICE: Choice = Choice { high: 8, bits: 8, low: 4 };

static ARM: LazyLock<Table> = LazyLock::new(|| Table::new(a32::conditional(), ARM_CHOICE));
static ARM_UNCONDITIONAL: LazyLock<Table> =
    LazyLock::new(|| Table::new(a32::UNCONDITIONAL.iter(), ARM_CHOICE));
static THUMB: LazyLock<Table> = LazyLock::new(|| Table::new(t16::ROWS.iter(), THUMB_CHOICE));

/// What decoding depends on beside the words.
#[derive(Clone)]
pub struct Decoder {
    /// The core's architecture version.
    pub architecture: Architecture,
    /// The core's instruction timing.
    pub timing: ArmTiming,
    /// Whether it has the XScale's coprocessors 0 (a 40-bit accumulator) and 14 (clock and power).
    pub xscale: bool,
    /// What the words read that followed lately, by a hash: this is asked whenever execution goes
    /// from one line to the next behind a load.
    sources: Box<[Sources; REMEMBERED]>,
}

/// The registers that a word reads.
#[derive(Clone, Copy)]
struct Sources {
    word: u32,
    thumb: bool,
    registers: u16,
}

const REMEMBERED: usize = 1024;

/// An instruction without what comes after it.
pub struct Decoded {
    /// The instruction; `late` is what it delivers late, whatever follows.
    pub op: Op,
    /// Its operands, which are not in `op` yet.
    pub operands: Operands,
    /// Registers that it reads in its first cycle; bit n is register n. Stored data is wanted a cycle
    /// later.
    pub sources: u16,
}

/// The handler of an instruction that is not decoded yet. `immediate` is its index.
fn decode_first(cpu: &mut Cpu, _: &mut Bus, index: PackedOperands) -> Flow {
    cpu.memory.fetch.decode(index.immediate);
    Flow::Decoded
}

impl Decode for Decoder {
    type Op = Op;
    type Late = Late;

    fn undecoded(index: u32) -> Op {
        // It costs nothing to find out.
        let mut op = Op { cost: Cost::NONE, ..Op::new(decode_first) };
        op.operands.immediate = index;
        op
    }

    fn word(&mut self, word: u32, following: Option<u32>) -> Op {
        self.with_stall(word, following, false)
    }

    fn half(&mut self, half: u16, following: Option<u16>) -> Op {
        self.with_stall(u32::from(half), following.map(u32::from), true)
    }

    /// The stall of an instruction for what the one before it delivers late.
    fn stall(&mut self, late: Late, word: u32, thumb: bool) -> u8 {
        let index = (word.wrapping_mul(0x9e37_79b9) >> 16) as usize % REMEMBERED;
        let known = self.sources[index];
        if (known.word, known.thumb) == (word, thumb) {
            return late.stall(known.registers);
        }
        let registers = self.decode(word, thumb).sources;
        self.sources[index] = Sources { word, thumb, registers };
        late.stall(registers)
    }

    #[inline(always)]
    fn late(op: &Op) -> Option<Late> {
        op.late.is_some().then_some(op.late)
    }

    /// What an instruction is that this core does not have but another does, with where to read of it.
    fn lacking(&self, word: u32, thumb: bool) -> Option<String> {
        let Row { name, section, since, .. } = row(word, thumb)?;
        let manual = if section.starts_with('A') { "ARM DDI 0100I, " } else { "Intel " };
        (!self.has(*since)).then(|| format!("{name} ({manual}{section})"))
    }
}

/// The row of a word in the table of its instruction set, whichever cores have it.
fn row(word: u32, thumb: bool) -> Option<&'static Row> {
    if thumb {
        THUMB.find(word)
    } else if word >> 28 == 15 {
        ARM_UNCONDITIONAL.find(word)
    } else {
        ARM.find(word)
    }
}

impl Decoder {
    /// A decoder for a core; see the fields.
    pub fn new(architecture: Architecture, timing: ArmTiming, xscale: bool) -> Decoder {
        // ANDEQ R0, R0, R0 reads R0.
        let first = Sources { word: 0, thumb: false, registers: 1 };
        Decoder { architecture, timing, xscale, sources: Box::new([first; REMEMBERED]) }
    }

    /// The stall is charged to the instruction that causes it, so that a branch to `following` does not
    /// pay.
    fn with_stall(&mut self, word: u32, following: Option<u32>, thumb: bool) -> Op {
        let Decoded { mut op, operands, .. } = self.decode(word, thumb);
        op.operands = operands.into();
        if let Some(following) = following
            && op.late.is_some()
        {
            op.cost = op.cost.and_stall(self.stall(op.late, following, thumb));
            op.late = Late::NONE;
        }
        op
    }

    fn decode(&self, word: u32, thumb: bool) -> Decoded {
        match row(word, thumb) {
            Some(row) if self.has(row.since) => (row.form)(&row.pattern.fields(word), self),
            _ => self.undefined(word, thumb),
        }
    }

    /// A condition that fails keeps even an undefined instruction from doing anything (A3.13.1).
    fn undefined(&self, word: u32, thumb: bool) -> Decoded {
        let always = thumb || word >> 28 == 15;
        let condition = if always { 14 } else { (word >> 28) as u8 };
        Decoded::new(execute::undefined).when(condition)
    }

    fn has(&self, since: Since) -> bool {
        match since {
            Since::Version(version) => self.architecture >= version,
            Since::XScale => self.xscale,
        }
    }
}
