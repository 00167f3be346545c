//! From words to [`Op`]s, with the stalls between neighbours.

use crate::caches::CacheKind;
use std::sync::LazyLock;

use mmulab_machine::ArmTiming;
use mmulab_system::clock::Cost;
use mmulab_system::core::{Core, Decode, Flow, Following};

use crate::cpu::{Architecture, Bus, Cpu};

use super::execute;
use super::op::{Late, Op, Operands, PackedOperands};
use super::table::{Choice, Row, Since, Table};
use super::{a32, t16, t32};

/// ARM instructions are told apart by bits 27 to 20 and 7 to 4.
const ARM_CHOICE: Choice = Choice { high: 20, bits: 8, low: 4 };
const THUMB_CHOICE: Choice = Choice { high: 8, bits: 8, low: 4 };

const WIDE_CHOICE: Choice = Choice { high: 20, bits: 9, low: 4 };

/// The tables of one generation of cores.
pub struct Tables<K: CacheKind> {
    pub conditional: Table<K>,
    pub unconditional: Table<K>,
    pub narrow: Table<K>,
    pub wide: Table<K>,
}

/// The tables of all generations, each made when it is first used.
pub struct Generations<K: CacheKind> {
    /// Cores before ARMv7, which have no instructions of ARMv7 and some encodings that it gave
    /// away.
    pub before_v7: LazyLock<Tables<K>>,
    /// Cores from ARMv7 on.
    pub from_v7: LazyLock<Tables<K>>,
}

impl<K: CacheKind> Generations<K> {
    /// None is made yet.
    pub const fn new() -> Generations<K> {
        Generations {
            before_v7: LazyLock::new(|| Tables::of(false)),
            from_v7: LazyLock::new(|| Tables::of(true)),
        }
    }
}

impl<K: CacheKind> Tables<K> {
    fn of(v7: bool) -> Tables<K> {
        let kept = |row: &Row<K>| match row.since {
            Since::Version(version) => v7 || version < Architecture::V7A,
            Since::Until(_) | Since::XScale => !v7,
        };
        Tables {
            conditional: Table::new(a32::conditional().filter(kept), ARM_CHOICE),
            unconditional: Table::new(a32::unconditional().filter(kept), ARM_CHOICE),
            narrow: Table::new(t16::rows().filter(kept), THUMB_CHOICE),
            wide: Table::new(t32::rows().filter(kept), WIDE_CHOICE),
        }
    }

    /// The row of an instruction.
    fn row(&self, word: u32, state: State) -> Option<&Row<K>> {
        match state {
            State::Arm if word >> 28 == 15 => self.unconditional.find(word),
            State::Arm => self.conditional.find(word),
            State::Narrow => self.narrow.find(word),
            State::Wide => self.wide.find(word),
        }
    }
}

/// Which instruction set a word is of: ARM, Thumb in 16 bits, Thumb in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Arm,
    Narrow,
    Wide,
}

/// What decoding depends on beside the words.
#[derive(Clone)]
pub struct Decoder<K: CacheKind> {
    /// The core's architecture version.
    pub architecture: Architecture,
    /// The core's instruction timing.
    pub timing: ArmTiming,
    /// Whether it has the XScale's coprocessors 0 (a 40-bit accumulator) and 14 (clock and power).
    pub xscale: bool,
    /// What the words read that followed lately, by a hash: this is asked whenever execution goes
    /// from one line to the next behind a load.
    sources: Box<[Sources; REMEMBERED]>,
    /// Instructions of 32 bits in Thumb state whose halves are in two lines, by a hash of the word.
    split: Box<[(u32, Op<K>)]>,
}

/// The registers that a word reads.
#[derive(Clone, Copy)]
struct Sources {
    word: u32,
    state: State,
    registers: u16,
}

const REMEMBERED: usize = 1024;
/// The hint; `MOV r0, r0`, which assemblers for ARMv6 and earlier make of this name, is another
/// instruction.
const NOP: u32 = 0xe320_f000;

/// An instruction without what comes after it.
pub struct Decoded<K: CacheKind> {
    /// The instruction; `late` is what it delivers late, whatever follows.
    pub op: Op<K>,
    /// Its operands, which are not in `op` yet.
    pub operands: Operands,
    /// Registers that it reads in its first cycle; bit n is register n.
    pub sources: u16,
    /// Those that are wanted later, such as stored data.
    pub later_sources: u16,
}

/// The handler of an instruction that is not decoded yet. `immediate` is its index.
fn decode_first<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, index: PackedOperands) -> Flow {
    cpu.memory.fetch.decode(index.immediate);
    Flow::Decoded
}

impl<K: CacheKind> Decode for Decoder<K> {
    type Op = Op<K>;
    type Late = Late;

    fn undecoded(index: u32) -> Op<K> {
        // It costs nothing to find out.
        let mut op = Op { cost: Cost::NONE, length: 0, ..Op::new(decode_first) };
        op.operands.immediate = index;
        op
    }

    fn is_decoded(op: &Op<K>) -> bool {
        op.length != 0
    }

    fn word(&mut self, word: u32, following: Option<u32>) -> Op<K> {
        self.with_stall(word, following.map(Following::Word), State::Arm)
    }

    fn half(&mut self, half: u16, following: [Option<u16>; 3]) -> Op<K> {
        let [second, third, fourth] = following;
        let halves = |first: Option<u16>, second| first.map(|half| Following::Halves(half, second));
        if !self.is_wide(half) {
            return self.with_stall(half.into(), halves(second, third), State::Narrow);
        }
        match second {
            Some(second) => {
                self.with_stall(joined(half, second), halves(third, fourth), State::Wide)
            }
            None => {
                let mut op = Op { cost: Cost::NONE, ..Op::new(execute_split) };
                op.operands.immediate = half.into();
                op
            }
        }
    }

    fn stall(&mut self, late: Late, next: Following) -> Option<u8> {
        let (word, state) = match next {
            Following::Word(word) => (word, State::Arm),
            Following::Halves(half, _) if !self.is_wide(half) => (half.into(), State::Narrow),
            Following::Halves(half, second) => (joined(half, second?), State::Wide),
        };
        Some(late.stall(self.sources(word, state)))
    }

    #[inline(always)]
    fn late(op: &Op<K>) -> Option<Late> {
        op.late.is_some().then_some(op.late)
    }

    /// B, BL, NOP, BKPT, SVC, HVC and SMC (ARM DDI 0406C, A3.5.4). Conditional ones are left out:
    /// with them the condition of one may go with the target of the other.
    fn may_replace(old: u32, new: u32) -> bool {
        let is_one = |word: u32| {
            let is_branch_or_svc = matches!(word >> 24, 0xea | 0xeb | 0xef);
            let is_call = matches!(word & 0xfff0_00f0, 0xe120_0070 | 0xe140_0070 | 0xe160_0070);
            is_branch_or_svc || is_call || word == NOP
        };
        is_one(old) && is_one(new)
    }

    /// What an instruction is that this core does not have but another does, with where to read of
    /// it.
    fn lacking(&self, word: u32, thumb: bool) -> Option<String> {
        let state = if thumb { State::Narrow } else { State::Arm };
        let Row { name, section, since, .. } = [&K::tables().before_v7, &K::tables().from_v7]
            .into_iter()
            .find_map(|tables| tables.row(word, state).filter(|row| !self.has(row.since)))?;
        let manual = match since {
            _ if !section.starts_with(['A', 'B']) => "Intel ",
            Since::Version(version) if *version >= Architecture::V7A => "ARM DDI 0406C, ",
            _ => "ARM DDI 0100I, ",
        };
        Some(format!("{name} ({manual}{section})"))
    }
}

/// An instruction of 32 bits in Thumb state.
fn joined(first: u16, second: u16) -> u32 {
    u32::from(first) << 16 | u32::from(second)
}

fn hash(word: u32) -> usize {
    (word.wrapping_mul(0x9e37_79b9) >> 16) as usize
}

/// Executes an instruction of 32 bits whose second half is in the next line: `op` has the first
/// half.
fn execute_split<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, op: PackedOperands) -> Flow {
    let late = cpu.memory.fetch.late.take();
    let second = match cpu.memory.fetch_half(bus, cpu.memory.pc.wrapping_add(2)) {
        Ok(second) => second,
        Err(fault) => {
            cpu.abort_fetch(fault);
            return Flow::Jump;
        }
    };
    let word = joined(op.immediate as u16, second);
    let decoder = cpu.memory.fetch.decoder_mut();
    let inner = decoder.split(word);
    let stall = late.map_or(0, |late| late.stall(decoder.sources(word, State::Wide)));
    cpu.memory.clock.issue(Cost::stall(stall));
    cpu.memory.await_registers(inner.sources);
    if inner.passes >> cpu.flags & 1 == 0 {
        cpu.memory.clock.issue(Cost::issue(1));
        cpu.skipped(inner.operands);
        return Flow::Skipped;
    }
    cpu.memory.clock.issue(inner.cost);
    let flow = (inner.handler)(cpu, bus, inner.operands);
    if flow == Flow::Next {
        cpu.memory.fetch.late = Decoder::late(&inner);
    }
    flow
}

impl<K: CacheKind> Decoder<K> {
    /// A decoder for a core; see the fields.
    pub fn new(architecture: Architecture, timing: ArmTiming, xscale: bool) -> Decoder<K> {
        // ANDEQ R0, R0, R0 reads R0.
        let first = Sources { word: 0, state: State::Arm, registers: 1 };
        // Zero is no instruction of 32 bits, so that no word finds it.
        let entries = if architecture >= Architecture::V7A { REMEMBERED } else { 0 };
        let split = vec![(0, Op::new(execute::undefined)); entries].into();
        Decoder { architecture, timing, xscale, sources: Box::new([first; REMEMBERED]), split }
    }

    /// Whether a half-word is the first of two.
    #[inline]
    fn is_wide(&self, half: u16) -> bool {
        half >= 0xe800 && self.architecture >= Architecture::V7A
    }

    /// An instruction of 32 bits in Thumb state, without a look at what follows.
    fn split(&mut self, word: u32) -> Op<K> {
        let place = hash(word) % REMEMBERED;
        if self.split[place].0 != word {
            self.split[place] = (word, self.with_stall(word, None, State::Wide));
        }
        self.split[place].1
    }

    /// The registers that an instruction reads in its first cycle; bit n is register n.
    fn sources(&mut self, word: u32, state: State) -> u16 {
        let index = hash(word) % REMEMBERED;
        let known = self.sources[index];
        if (known.word, known.state) == (word, state) {
            return known.registers;
        }
        let registers = self.decode(word, state).sources;
        self.sources[index] = Sources { word, state, registers };
        registers
    }

    fn tables(&self) -> &'static Tables<K> {
        if self.architecture >= Architecture::V7A {
            &K::tables().from_v7
        } else {
            &K::tables().before_v7
        }
    }

    /// The stall is charged to the instruction that causes it, so that a branch to `following` does
    /// not pay.
    fn with_stall(&mut self, word: u32, following: Option<Following>, state: State) -> Op<K> {
        let Decoded { mut op, operands, sources, later_sources } = self.decode(word, state);
        op.operands = operands.into();
        op.sources = sources | later_sources;
        op.length = if state == State::Narrow { 2 } else { 4 };
        if op.late.is_some()
            && let Some(stall) = following.and_then(|following| self.stall(op.late, following))
        {
            op.cost = op.cost.and_stall(stall);
            op.late = Late::NONE;
        }
        op
    }

    pub(super) fn decode(&self, word: u32, state: State) -> Decoded<K> {
        match self.tables().row(word, state) {
            Some(row) if self.has(row.since) => (row.form)(&row.pattern.fields(word), self),
            _ => self.undefined(word, state),
        }
    }

    /// A condition that fails keeps even an undefined instruction from doing anything (A3.13.1).
    fn undefined(&self, word: u32, state: State) -> Decoded<K> {
        let always = state != State::Arm || word >> 28 == 15;
        let condition = if always { 14 } else { (word >> 28) as u8 };
        Decoded::new(execute::undefined).when(condition)
    }

    fn has(&self, since: Since) -> bool {
        match since {
            Since::Version(version) => self.architecture >= version,
            Since::Until(version) => self.architecture <= version,
            Since::XScale => self.xscale,
        }
    }
}
