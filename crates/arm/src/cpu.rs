//! The state of one core: registers, modes, exceptions. What an instruction does is in
//! [`crate::isa`]; how memory answers is in [`crate::memory`].

use crate::isa::Late;
use crate::memory::{Fault, Memory};
use mmulab_machine::ArmTiming;

use crate::timing::Cause;

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

/// All exceptions, in their order.
pub const EXCEPTIONS: [Exception; 6] = [
    Exception::Undefined,
    Exception::SupervisorCall,
    Exception::PrefetchAbort,
    Exception::DataAbort,
    Exception::Irq,
    Exception::Fiq,
];

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
        match self {
            Exception::Undefined => "undefined instruction",
            Exception::SupervisorCall => "supervisor call",
            Exception::PrefetchAbort => "prefetch abort",
            Exception::DataAbort => "data abort",
            Exception::Irq => "irq",
            Exception::Fiq => "fiq",
        }
    }
}

/// What the run loop does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// The next instruction follows.
    Next,
    /// `Memory::pc` says where execution goes on.
    Jump,
    /// The slot has been decoded: dispatch it again.
    Decoded,
    /// The next instruction follows, but look for interrupts and changed caches first.
    Synchronise,
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

/// One core.
pub struct Cpu {
    /// R0 to R15 as the current mode sees them. While an instruction executes, R15 holds what the
    /// instruction reads: its own address plus 8 (ARM) or 4 (Thumb).
    pub registers: [u32; 16],
    /// The condition flags, N in bit 3 to V in bit 0.
    pub flags: u32,
    /// CPSR less the condition flags.
    pub control: u32,
    banked_13_14: [[u32; 2]; 6],
    banked_fiq: [u32; 5],
    banked_user: [u32; 5],
    spsr: [u32; 6],
    /// The XScale's accumulator, sign-extended from its 40 bits.
    pub accumulator: i64,
    /// The architecture version.
    pub architecture: Architecture,
    /// Whether a data abort leaves the base register updated.
    pub base_updated_on_abort: bool,
    /// The instruction timing.
    pub timing: ArmTiming,
    /// Caches, TLBs, buffers and the system control coprocessor.
    pub memory: Memory,
    /// Set by a wait for interrupt.
    pub waiting: bool,
    /// The vector of an exception that was taken just now, other than interrupts and calls.
    pub entered_vector: Option<(Exception, u32)>,
    /// Why the run has to stop, if it has to.
    pub stop: Option<crate::system::Stop>,
    /// The branch target buffer, on cores that have one.
    pub branch_buffer: Option<crate::branch::BranchBuffer>,
}

impl Cpu {
    /// A core just out of reset.
    pub fn new(
        architecture: Architecture,
        base_updated_on_abort: bool,
        timing: ArmTiming,
        branch_buffer_entries: u32,
        memory: Memory,
    ) -> Cpu {
        let branch_buffer = (branch_buffer_entries > 0)
            .then(|| crate::branch::BranchBuffer::new(branch_buffer_entries));
        Cpu {
            registers: [0; 16],
            flags: 0,
            control: mode::SUPERVISOR | IRQ_MASKED | FIQ_MASKED,
            banked_13_14: [[0; 2]; 6],
            banked_fiq: [0; 5],
            banked_user: [0; 5],
            spsr: [0; 6],
            accumulator: 0,
            architecture,
            base_updated_on_abort,
            timing,
            memory,
            waiting: false,
            entered_vector: None,
            stop: None,
            branch_buffer,
        }
    }

    /// Address of the instruction that executes, or comes next.
    pub fn pc(&self) -> u32 {
        self.memory.pc
    }

    /// The current program status register.
    pub fn cpsr(&self) -> u32 {
        self.flags << 28 | self.control
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
        let mut control = value & (0xff | SATURATED);
        if self.architecture < Architecture::V5TE {
            control &= !SATURATED;
        }
        if self.architecture == Architecture::V4 {
            control &= !THUMB;
        }
        // Bit 4 of the mode is always one on these cores: there are no 26-bit modes.
        control |= 0x10;
        let (old, new) = (self.mode(), control & 0x1f);
        if old != new {
            self.switch_bank(old, new);
            self.control = control;
            self.memory.set_mode(new);
        }
        self.control = control;
        // An interrupt that this unmasks is taken before the next instruction.
        self.memory.request_attention();
    }

    fn switch_bank(&mut self, old: u32, new: u32) {
        let (from, to) = (bank(old), bank(new));
        if from == to {
            return;
        }
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

    /// Enters an exception; `link` is what its R14 receives (ARM DDI 0100, A2.6).
    pub fn take_exception(&mut self, exception: Exception, link: u32) {
        let saved = self.cpsr();
        let new_mode = exception.mode();
        let old_mode = self.mode();
        self.switch_bank(old_mode, new_mode);
        let mut control = self.control & !(0x1f | THUMB) | new_mode | IRQ_MASKED;
        if exception == Exception::Fiq {
            control |= FIQ_MASKED;
        }
        self.control = control;
        self.set_spsr(saved);
        self.registers[14] = link;
        let base = if self.memory.high_vectors() { 0xffff_0000 } else { 0 };
        let vector = base + exception.vector();
        // The instruction at a vector that itself causes the vector's exception would do so forever.
        if vector == self.memory.pc && !matches!(exception, Exception::Irq | Exception::Fiq) {
            self.stop = Some(crate::system::Stop::VectorLoop { exception, vector });
            self.memory.request_attention();
        }
        if matches!(
            exception,
            Exception::Undefined | Exception::PrefetchAbort | Exception::DataAbort
        ) {
            // The loop looks whether there is a handler at all.
            self.entered_vector = Some((exception, vector));
            self.memory.request_attention();
        }
        self.memory.pc = vector;
        self.memory.fetch.late = Late::NONE;
        self.memory.spend(Cause::Exception, self.timing.exception_cycles);
        self.memory.note_exception(exception);
        if old_mode != new_mode {
            self.memory.set_mode(new_mode);
        }
    }

    /// A load or store was refused: the fault registers are set and the data abort is taken.
    #[cold]
    pub fn data_abort(&mut self, fault: Fault) -> Flow {
        self.memory.record_data_fault(fault);
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

    /// Goes on at `target` with bit 0 choosing the state (BX, and loads of R15 from version 5 on).
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

    /// Goes on at `target` in the present state.
    #[inline(always)]
    pub fn branch(&mut self, target: u32) -> Flow {
        self.memory.pc = if self.thumb() { target & !1 } else { target & !3 };
        Flow::Jump
    }

    /// What a load into R15 does: from version 5 on it may change the state (ARM DDI 0100, A4.1.23).
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
        self.set_cpsr(saved);
        self.branch(target)
    }

    /// All registers of all modes in a fixed order, for comparing and for the debugger: R0 to R15 of
    /// the current mode, CPSR, SPSR.
    pub fn visible(&self) -> [u32; 18] {
        let mut all = [0; 18];
        all[..15].copy_from_slice(&self.registers[..15]);
        all[15] = self.memory.pc;
        all[16] = self.cpsr();
        all[17] = self.spsr();
        all
    }
}
