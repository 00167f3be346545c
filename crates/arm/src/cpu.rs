//! The state of one core: registers, modes, exceptions. What an instruction does is in
//! [`crate::isa`]; how memory answers is the system's.

use crate::caches::CacheKind;
use mmulab_hardware::GeometryError;
use mmulab_machine::{AbortModel, ArmArchitecture, ArmTiming, Platform, SystemMachine};
use mmulab_system::Cause;
use mmulab_system::clock::Cost;
use mmulab_system::core::{CacheAddress, Core, Fault, Flow, InterruptLines, Requests, Taken};
use mmulab_system::line_fills::ALL_REGISTERS;
use mmulab_system::memory::CoreMemory;

use crate::branch::BranchBuffer;
use crate::cores::CoreDescription;
use crate::cp15::{Cp15, Lack};
use crate::isa::{Decoder, Op};
use crate::mmu::{ArmMmu, Registers, control, status};
use crate::vector::VectorRegisters;

/// The bus of a machine of ARM cores.
pub type Bus<K> = mmulab_system::bus::Bus<Cpu<K>>;

/// Processor modes by their five bits (ARM DDI 0100, A2.2).
pub mod mode {
    /// User.
    pub const USER: u32 = 0x10;
    /// Fast interrupt.
    pub const FIQ: u32 = 0x11;
    /// Interrupt.
    pub const IRQ: u32 = 0x12;
    /// Supervisor.
    pub const SUPERVISOR: u32 = 0x13;
    /// Abort.
    pub const ABORT: u32 = 0x17;
    /// Undefined instruction.
    pub const UNDEFINED: u32 = 0x1b;
    /// System: privileged, with the registers of user mode.
    pub const SYSTEM: u32 = 0x1f;

    /// A short name for reports.
    pub fn name(mode: u32) -> &'static str {
        match mode {
            USER => "user",
            FIQ => "fiq",
            IRQ => "irq",
            SUPERVISOR => "supervisor",
            ABORT => "abort",
            UNDEFINED => "undefined",
            SYSTEM => "system",
            _ => "reserved",
        }
    }
}

/// CPSR bit: instructions are Thumb.
pub const THUMB: u32 = 1 << 5;
/// CPSR bit: FIQ masked.
pub const FIQ_MASKED: u32 = 1 << 6;
/// CPSR bit: IRQ masked.
pub const IRQ_MASKED: u32 = 1 << 7;
/// CPSR bits: asynchronous aborts, IRQ and FIQ masked.
pub const MASKS: u32 = ABORTS_MASKED | IRQ_MASKED | FIQ_MASKED;
/// CPSR bit: asynchronous aborts masked (ARMv6).
const ABORTS_MASKED: u32 = 1 << 8;
/// CPSR bits: greater than or equal, of parallel additions and subtractions (ARMv6).
const GREATER: u32 = 0xf << 16;
/// CPSR bit: a saturating instruction saturated (version 5TE).
pub const SATURATED: u32 = 1 << 27;

/// The architecture version of a core, which decides what is an undefined instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Architecture {
    /// ARMv4: no Thumb state.
    V4,
    /// ARMv4T.
    V4T,
    /// ARMv5T: BLX, CLZ, BKPT.
    V5T,
    /// ARMv5TE: the DSP instructions, LDRD, STRD and PLD.
    V5TE,
    /// ARMv7-A: all that ARMv6 and ARMv6T2 brought, with Thumb-2.
    V7A,
}

/// The exceptions, each with its vector (ARM DDI 0100, A2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// An instruction that the core does not have.
    Undefined,
    /// SVC.
    SupervisorCall,
    /// An instruction fetch that the MMU refused.
    PrefetchAbort,
    /// A load or store that the MMU refused.
    DataAbort,
    /// Interrupt.
    Irq,
    /// Fast interrupt.
    Fiq,
}

/// The names of the exceptions, in the order of [`Exception`].
const EXCEPTIONS: [&str; 6] =
    ["undefined instruction", "supervisor call", "prefetch abort", "data abort", "irq", "fiq"];

impl Exception {
    fn vector(self) -> u32 {
        match self {
            Exception::Undefined => 0x04,
            Exception::SupervisorCall => 0x08,
            Exception::PrefetchAbort => 0x0c,
            Exception::DataAbort => 0x10,
            Exception::Irq => 0x18,
            Exception::Fiq => 0x1c,
        }
    }

    fn mode(self) -> u32 {
        match self {
            Exception::Undefined => mode::UNDEFINED,
            Exception::SupervisorCall => mode::SUPERVISOR,
            Exception::PrefetchAbort | Exception::DataAbort => mode::ABORT,
            Exception::Irq => mode::IRQ,
            Exception::Fiq => mode::FIQ,
        }
    }

    /// A short name for reports and the timeline.
    pub fn name(self) -> &'static str {
        EXCEPTIONS[self as usize]
    }
}

/// Index of a mode's bank of R13, R14 and SPSR.
fn bank(mode: u32) -> usize {
    match mode & 0x1f {
        mode::FIQ => 1,
        mode::IRQ => 2,
        mode::SUPERVISOR => 3,
        mode::ABORT => 4,
        mode::UNDEFINED => 5,
        _ => 0,
    }
}

/// The bits of CPSR that hold the state of an IT block.
fn it_bits(state: u8) -> u32 {
    u32::from(state & 3) << 25 | u32::from(state & 0xfc) << 8
}

/// One core.
pub struct Cpu<K: CacheKind> {
    /// R0 to R15 as the current mode sees them. While an instruction executes, R15 holds what the
    /// instruction reads: its own address plus 8 (ARM) or 4 (Thumb).
    pub registers: [u32; 16],
    /// The condition flags, N in bit 3 to V in bit 0.
    pub flags: u32,
    /// CPSR less the condition flags and the state of an IT block.
    pub control: u32,
    /// State of an IT block, as after the instruction that executes (ARM DDI 0406C, A2.5.2).
    pub it: u8,
    /// The same as before the instruction of an IT block that executes; 0 for one outside of a
    /// block.
    pub it_of_instruction: u8,
    /// What the exclusive monitor holds: address and bytes of the last exclusive load.
    pub exclusive: Option<(u32, u32)>,
    banked_13_14: [[u32; 2]; 6],
    banked_fiq: [u32; 5],
    banked_user: [u32; 5],
    spsr: [u32; 6],
    /// The XScale's accumulator, sign-extended from its 40 bits.
    pub accumulator: i64,
    /// Registers of VFP and Advanced SIMD, on cores that have them.
    pub vector: VectorRegisters,
    /// The architecture version.
    pub architecture: Architecture,
    /// Whether a data abort leaves the base register updated.
    pub base_updated_on_abort: bool,
    /// The instruction timing.
    pub timing: ArmTiming,
    /// Which core it is.
    pub core: &'static CoreDescription,
    /// The system control coprocessor.
    pub cp15: Cp15,
    /// Caches, TLBs, buffers and time.
    pub memory: CoreMemory<Cpu<K>>,
    /// What the run loop shall know.
    pub requests: Requests,
    /// The branch target buffer, on cores that have one.
    pub branch_buffer: Option<BranchBuffer>,
}

mmulab_state::state!([K: CacheKind] Cpu<K> {
    registers,
    flags,
    control,
    it,
    it_of_instruction,
    exclusive,
    banked_13_14,
    banked_fiq,
    banked_user,
    spsr,
    accumulator,
    vector,
    cp15,
    memory,
    requests,
} optional { branch_buffer } built { architecture, base_updated_on_abort, timing, core });

impl<K: CacheKind> Cpu<K> {
    /// Address of the instruction that executes, or comes next.
    pub fn pc(&self) -> u32 {
        self.memory.pc
    }

    /// The current program status register.
    pub fn cpsr(&self) -> u32 {
        self.flags << 28 | self.control | it_bits(self.it)
    }

    /// The mode bits.
    pub fn mode(&self) -> u32 {
        self.control & 0x1f
    }

    /// Whether instructions are Thumb.
    #[inline(always)]
    pub fn thumb(&self) -> bool {
        self.control & THUMB != 0
    }

    /// Whether the mode is other than user mode.
    pub fn privileged(&self) -> bool {
        self.mode() != mode::USER
    }

    /// The saved status register of the mode; user and system mode have none and give the CPSR
    /// (reading it there is unpredictable, ARM DDI 0100 A4.1.38).
    pub fn spsr(&self) -> u32 {
        match bank(self.mode()) {
            0 => self.cpsr(),
            bank => self.spsr[bank],
        }
    }

    /// Writes the saved status register of the mode, if it has one.
    pub fn set_spsr(&mut self, value: u32) {
        let bank = bank(self.mode());
        if bank != 0 {
            self.spsr[bank] = value;
        }
    }

    /// Writes the whole CPSR: banks are switched, and time from here on belongs to the new mode.
    pub fn set_cpsr(&mut self, value: u32) {
        self.flags = value >> 28;
        let control = value
            & match self.architecture {
                Architecture::V4 => 0xff & !THUMB,
                Architecture::V4T | Architecture::V5T => 0xff,
                Architecture::V5TE => 0xff | SATURATED,
                Architecture::V7A => 0xff | SATURATED | ABORTS_MASKED | GREATER,
            };
        if self.architecture >= Architecture::V7A {
            self.it = (value >> 25 & 3 | value >> 8 & 0xfc) as u8;
        }
        // Bit 4 of the mode is always one on these cores: there are no 26-bit modes.
        let control = control | 0x10;
        let (old, new) = (self.mode(), control & 0x1f);
        if old != new {
            self.switch_bank(old, new);
            self.control = control;
            self.memory.set_mode(new, new != mode::USER);
        }
        self.control = control;
        // An interrupt that this unmasks is taken before the next instruction.
        self.memory.request_exit();
    }

    fn switch_bank(&mut self, old: u32, new: u32) {
        let (from, to) = (bank(old), bank(new));
        if from == to {
            return;
        }
        // What is late is known by the numbers of registers.
        self.memory.await_registers(ALL_REGISTERS);
        self.banked_13_14[from] = [self.registers[13], self.registers[14]];
        [self.registers[13], self.registers[14]] = self.banked_13_14[to];
        if from == 1 {
            self.banked_fiq.copy_from_slice(&self.registers[8..13]);
            self.registers[8..13].copy_from_slice(&self.banked_user);
        } else if to == 1 {
            self.banked_user.copy_from_slice(&self.registers[8..13]);
            self.registers[8..13].copy_from_slice(&self.banked_fiq);
        }
    }

    /// A register of user mode, whatever the current mode (LDM and STM with `^`).
    pub fn user_register(&self, number: usize) -> u32 {
        match (number, bank(self.mode())) {
            (8..=12, 1) => self.banked_user[number - 8],
            (13 | 14, other) if other != 0 => self.banked_13_14[0][number - 13],
            _ => self.registers[number],
        }
    }

    /// Writes a register of user mode.
    pub fn set_user_register(&mut self, number: usize, value: u32) {
        match (number, bank(self.mode())) {
            (8..=12, 1) => self.banked_user[number - 8] = value,
            (13 | 14, other) if other != 0 => self.banked_13_14[0][number - 13] = value,
            _ => self.registers[number] = value,
        }
    }

    /// R13 of a mode, whatever the current one (SRS).
    pub fn stack_of(&self, mode: u32) -> u32 {
        if bank(mode) == bank(self.mode()) {
            self.registers[13]
        } else {
            self.banked_13_14[bank(mode)][0]
        }
    }

    /// Writes it.
    pub fn set_stack_of(&mut self, mode: u32, value: u32) {
        if bank(mode) == bank(self.mode()) {
            self.registers[13] = value;
        } else {
            self.banked_13_14[bank(mode)][0] = value;
        }
    }

    /// The register of any mode by its number in MRS and MSR, or with `saved` the SPSR (ARM DDI
    /// 0406C, B9.2.3); nothing where there is none, as of the modes of monitors and hypervisors.
    pub(crate) fn banked(&mut self, saved: bool, number: u32) -> Option<&mut u32> {
        // What is late is known by the numbers of registers.
        self.memory.await_registers(ALL_REGISTERS);
        let (mode, register) = match number {
            0..=6 => (mode::USER, number + 8),
            8..=14 => (mode::FIQ, number),
            16..=23 => {
                const MODES: [u32; 4] = [mode::IRQ, mode::SUPERVISOR, mode::ABORT, mode::UNDEFINED];
                (MODES[(number as usize - 16) / 2], 14 - (number & 1))
            }
            _ => return None,
        };
        let (bank, present, register) = (bank(mode), bank(self.mode()), register as usize);
        if saved {
            return (bank != 0 && register == 14).then(|| &mut self.spsr[bank]);
        }
        Some(match register {
            13 | 14 if bank != present => &mut self.banked_13_14[bank][register - 13],
            8..=12 if bank == 1 && present != 1 => &mut self.banked_fiq[register - 8],
            8..=12 if bank == 0 && present == 1 => &mut self.banked_user[register - 8],
            _ => &mut self.registers[register],
        })
    }

    /// Runs `access` with the rights of user mode.
    pub fn as_user<T>(&mut self, access: impl FnOnce(&mut Cpu<K>) -> T) -> T {
        let privileged = self.memory.set_privileged(false);
        let result = access(self);
        self.memory.set_privileged(privileged);
        result
    }

    /// What a store of R15 adds to what R15 reads as: the manual leaves 8 or 12 from the
    /// instruction (ARM DDI 0100, A2.4.3), and from ARMv7 on says 8 (ARM DDI 0406C, A2.3.2).
    pub fn stored_pc_distance(&self) -> u32 {
        if self.architecture >= Architecture::V7A { 0 } else { 4 }
    }

    /// Enters an exception; `link` is what its R14 receives (ARM DDI 0100, A2.6).
    pub fn take_exception(&mut self, exception: Exception, link: u32) {
        // An instruction of an IT block that is to be executed again has the state of before.
        if self.it_of_instruction != 0 && exception != Exception::SupervisorCall {
            self.it = self.it_of_instruction;
        }
        let saved = self.cpsr();
        self.it = 0;
        let new_mode = exception.mode();
        let old_mode = self.mode();
        self.switch_bank(old_mode, new_mode);
        let mut control = self.control & !(0x1f | THUMB) | new_mode | IRQ_MASKED;
        if exception == Exception::Fiq {
            control |= FIQ_MASKED;
        }
        if self.architecture >= Architecture::V7A {
            let sctlr = self.memory.mmu.registers.sctlr;
            if sctlr & control::THUMB_EXCEPTIONS != 0 {
                control |= THUMB;
            }
            if !matches!(exception, Exception::Undefined | Exception::SupervisorCall) {
                control |= ABORTS_MASKED;
            }
        }
        self.control = control;
        self.set_spsr(saved);
        self.registers[14] = link;
        let high_vectors = self.memory.mmu.registers.sctlr & control::HIGH_VECTORS != 0;
        let base = if high_vectors { 0xffff_0000 } else { self.memory.mmu.registers.vbar };
        let vector = base + exception.vector();
        let taken = Taken {
            exception: exception.name(),
            vector,
            cause: self.memory.pc,
            link,
            undefined: (exception == Exception::Undefined).then_some(saved & THUMB != 0),
        };
        // The instruction at a vector that itself causes the vector's exception would do so
        // forever.
        if vector == self.memory.pc && !matches!(exception, Exception::Irq | Exception::Fiq) {
            self.requests.stop = Some(mmulab_system::Stop::VectorLoop(taken));
            self.memory.request_exit();
        }
        // The loop looks whether there is a handler at all; of the exceptions that come often, when
        // the first is taken.
        let is_rare = matches!(
            exception,
            Exception::Undefined | Exception::PrefetchAbort | Exception::DataAbort
        );
        if is_rare || self.memory.statistics.counters.exceptions[exception as usize] == 0 {
            self.requests.entered_vector = Some(taken);
            self.memory.request_exit();
        }
        self.memory.pc = vector;
        self.memory.fetch.late = None;
        self.memory.charge(Cause::Exception, self.timing.exception_cycles);
        self.memory.note_exception(exception as usize);
        if old_mode != new_mode {
            self.memory.set_mode(new_mode, true);
        }
    }

    /// A load or store was refused: the fault registers are set and the data abort is taken.
    #[cold]
    pub fn data_abort(&mut self, fault: Fault) -> Flow {
        let write = fault.write && self.architecture >= Architecture::V7A;
        self.memory.mmu.registers.dfsr = fault.status | if write { status::WRITE } else { 0 };
        self.memory.mmu.registers.far = fault.address;
        self.take_exception(Exception::DataAbort, self.memory.pc.wrapping_add(8));
        Flow::Jump
    }

    /// Takes the undefined instruction exception for the current instruction.
    #[cold]
    pub fn undefined(&mut self) -> Flow {
        let length = if self.thumb() { 2 } else { 4 };
        self.take_exception(Exception::Undefined, self.memory.pc.wrapping_add(length));
        Flow::Jump
    }

    /// Continues at `target` with bit 0 choosing the state (BX, and loads of R15 from version 5
    /// on).
    #[inline(always)]
    pub fn branch_exchange(&mut self, target: u32) -> Flow {
        if target & 1 != 0 && self.architecture != Architecture::V4 {
            self.control |= THUMB;
            self.memory.pc = target & !1;
        } else {
            self.control &= !THUMB;
            self.memory.pc = target & !3;
        }
        Flow::Jump
    }

    /// Continues at `target` in the present state.
    #[inline(always)]
    pub fn branch(&mut self, target: u32) -> Flow {
        self.memory.pc = if self.thumb() { target & !1 } else { target & !3 };
        Flow::Jump
    }

    /// What data processing into R15 does: from ARMv7 on it may change the state in ARM state (ARM
    /// DDI 0406C, A2.3.1).
    #[inline(always)]
    pub fn branch_computed(&mut self, target: u32) -> Flow {
        if self.architecture >= Architecture::V7A && !self.thumb() {
            self.branch_exchange(target)
        } else {
            self.branch(target)
        }
    }

    /// What a load into R15 does: from version 5 on it may change the state (ARM DDI 0100,
    /// A4.1.23).
    #[inline(always)]
    pub fn branch_loaded(&mut self, target: u32) -> Flow {
        if self.architecture >= Architecture::V5TE {
            self.branch_exchange(target)
        } else {
            self.branch(target)
        }
    }

    /// Returns from an exception: CPSR from SPSR, then `target` in the state that it asks for.
    pub fn return_from_exception(&mut self, target: u32) -> Flow {
        let saved = self.spsr();
        self.memory.synchronise_context();
        self.set_cpsr(saved);
        self.branch(target)
    }

    /// BKPT: the instruction fault status says debug event (ARM DDI 0100, A2.6.5).
    pub fn record_breakpoint(&mut self) {
        self.memory.mmu.registers.ifsr = 2;
    }
}

impl<K: CacheKind> Core for Cpu<K> {
    type DataLine = K::DataLine;
    type FetchLine = K::FetchLine;
    const DATA_INDEX: CacheAddress = K::DATA;
    const DATA_TAG: CacheAddress = K::DATA;
    const FETCH_INDEX: CacheAddress = CacheAddress::Virtual;
    const FETCH_TAG: CacheAddress = K::FETCH_TAG;
    const COHERENT: bool = K::COHERENT;
    // Where a machine's file says so: that needs coherence.
    const OVERLAPS_MISSES: bool = K::COHERENT;
    const HAS_NARROW: bool = true;
    const EXCEPTIONS: &'static [&'static str] = &EXCEPTIONS;
    const TARGET_DESCRIPTION: &'static str = include_str!("gdb_target.xml");
    const DEBUG_PROGRAM_COUNTER: usize = 15;

    type Mmu = ArmMmu;
    type Decoder = Decoder<K>;
    type Op = Op<K>;
    type Description = SystemMachine;

    fn new(
        machine: &SystemMachine,
        platform: &Platform,
        number: usize,
    ) -> Result<Cpu<K>, GeometryError> {
        let architecture = match machine.core.architecture {
            ArmArchitecture::Armv4 => Architecture::V4,
            ArmArchitecture::Armv4t => Architecture::V4T,
            ArmArchitecture::Armv5te => Architecture::V5TE,
            ArmArchitecture::Armv7a => Architecture::V7A,
        };
        let core = CoreDescription::of(machine.core.coprocessor);
        let timing = machine.timing.clone();
        let xscale = core.has_accumulator;
        let decoder = Decoder::new(architecture, timing.clone(), xscale);
        let mmu = ArmMmu::new(machine, core);
        let entries = machine.core.branch_buffer_entries;
        let aborts = if architecture >= Architecture::V7A { ABORTS_MASKED } else { 0 };
        Ok(Cpu {
            registers: [0; 16],
            flags: 0,
            control: mode::SUPERVISOR | aborts | IRQ_MASKED | FIQ_MASKED,
            it: 0,
            it_of_instruction: 0,
            exclusive: None,
            banked_13_14: [[0; 2]; 6],
            banked_fiq: [0; 5],
            banked_user: [0; 5],
            spsr: [0; 6],
            accumulator: 0,
            vector: VectorRegisters::new(),
            architecture,
            base_updated_on_abort: machine.core.abort_model == AbortModel::BaseUpdated,
            timing,
            core,
            cp15: Cp15::new(machine, core),
            memory: CoreMemory::new(platform, number, mmu, decoder, mode::SUPERVISOR)?,
            requests: Requests::default(),
            branch_buffer: (entries > 0).then(|| BranchBuffer::new(entries)),
        })
    }

    fn zero_bank(machine: &SystemMachine) -> Option<std::ops::Range<u32>> {
        let (start, end) = CoreDescription::of(machine.core.coprocessor).zero_bank?;
        Some(start..end)
    }

    #[inline(always)]
    fn memory(&self) -> &CoreMemory<Cpu<K>> {
        &self.memory
    }

    #[inline(always)]
    fn memory_mut(&mut self) -> &mut CoreMemory<Cpu<K>> {
        &mut self.memory
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// As Linux wants it: R1 holds no machine number, R2 the device tree.
    fn start(&mut self, entry: u32, device_tree: Option<u32>) {
        self.registers[1] = !0;
        self.registers[2] = device_tree.unwrap_or(0);
        self.memory.pc = 0;
        self.branch_exchange(entry);
    }

    /// As firmware does it: supervisor mode, everything masked, the argument in R0 (ARM DEN 0022,
    /// 6.4).
    fn turned_on(&mut self, entry: u32, argument: u32) {
        self.set_cpsr(mode::SUPERVISOR | MASKS);
        self.registers[0] = argument;
        self.exclusive = None;
        self.branch_exchange(entry);
    }

    #[inline(always)]
    fn is_narrow(&self) -> bool {
        self.thumb()
    }

    #[inline(always)]
    fn narrow_length(op: &Op<K>) -> u32 {
        // One that is not decoded yet is not executed either.
        u32::from(op.length)
    }

    #[inline(always)]
    fn sources(op: &Op<K>) -> u16 {
        op.sources
    }

    #[inline(always)]
    fn execute<const NARROW: bool>(&mut self, bus: &mut Bus<K>, op: &Op<K>) -> Flow {
        self.registers[15] = self.memory.pc.wrapping_add(if NARROW { 4 } else { 8 });
        if NARROW && self.it != 0 {
            return self.execute_in_it(bus, op);
        }
        if u32::from(op.passes).wrapping_shr(self.flags) & 1 == 0 {
            self.memory.clock.issue(Cost::issue(1));
            self.skipped(op.operands);
            return Flow::Skipped;
        }
        self.memory.clock.issue(op.cost);
        (op.handler)(self, bus, op.operands)
    }

    fn abort_fetch(&mut self, fault: Fault) {
        let registers = &mut self.memory.mmu.registers;
        if let Some(status) = self.core.fetch_fault_in_dfsr {
            registers.dfsr = status;
        }
        registers.ifsr = fault.status;
        registers.ifar = fault.address;
        self.take_exception(Exception::PrefetchAbort, self.memory.pc.wrapping_add(4));
    }

    fn interrupt(&mut self, lines: InterruptLines) {
        if lines.fiq && self.control & FIQ_MASKED == 0 {
            self.take_exception(Exception::Fiq, self.memory.pc.wrapping_add(4));
        } else if lines.irq && self.control & IRQ_MASKED == 0 {
            self.take_exception(Exception::Irq, self.memory.pc.wrapping_add(4));
        }
    }

    fn mode_name(mode: u32) -> &'static str {
        mode::name(mode)
    }

    /// R0 to R15 of the current mode, CPSR, SPSR, then the system control coprocessor.
    fn debug_registers(&self) -> Vec<u32> {
        let mut all = self.registers[..15].to_vec();
        let Registers { sctlr, ttbr, dacr, dfsr, ifsr, far, fcse_pid, context_id, .. } =
            self.memory.mmu.registers;
        all.extend([self.memory.pc, self.cpsr(), self.spsr()]);
        all.extend([sctlr, ttbr, dacr, dfsr, ifsr, far, fcse_pid >> 25, context_id]);
        all
    }

    fn set_debug_registers(&mut self, values: &[u32]) {
        self.set_cpsr(values[16]);
        self.registers[..15].copy_from_slice(&values[..15]);
        self.memory.pc = values[15];
        self.set_spsr(values[17]);
    }

    /// As `gdb_target.xml` numbers them.
    fn debug_register(number: usize) -> Option<usize> {
        match number {
            0..=15 => Some(number),
            25..=34 => Some(number - 9),
            _ => None,
        }
    }

    fn set_debug_register(&mut self, place: usize, value: u32) -> bool {
        match place {
            0..=14 => self.registers[place] = value,
            15 => self.memory.pc = value,
            16 => self.set_cpsr(value),
            17 => self.set_spsr(value),
            _ => return false,
        }
        true
    }

    fn notes(&self) -> (Vec<(String, u32)>, Option<String>) {
        let ignored = &self.cp15.ignored;
        let operations = ignored.operations.iter().map(|&(access, pc, lack)| {
            let why = match (lack, access.is_read()) {
                (Lack::Core, _) => "does not exist on this core and did nothing",
                (Lack::Model, true) => "is not modelled and read as zero",
                (Lack::Model, false) => "is not modelled, at least for the value written",
            };
            (format!("{access} {why}"), pc)
        });
        let further = (ignored.further > 0).then(|| {
            format!("{} uses of further coprocessor operations did nothing", ignored.further)
        });
        (operations.collect(), further)
    }
}
