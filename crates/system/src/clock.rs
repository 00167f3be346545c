//! A core's time: the ledger, and what the run loop has gathered for it.
//!
//! Nearly every instruction costs an issue cycle and perhaps a stall. These are summed in one word
//! and moved into the ledger now and then, so that an instruction costs one addition here. Nothing
//! outside of this file knows how the word is divided.

use mmulab_hardware::{Account, Ledger};

use crate::cause::Cause;

/// Bits of the packed word: cycles, then those of them that are stalls, then instructions.
const CYCLE_BITS: u32 = 24;
const STALL_BITS: u32 = 20;
const STALL_SHIFT: u32 = CYCLE_BITS;
const COUNT_SHIFT: u32 = CYCLE_BITS + STALL_BITS;

/// A deadline that sends the run loop to where it asks before each instruction which registers it
/// reads.
const HELD: u64 = 1;

/// The cost of an instruction that is known when it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost(u64);

impl Cost {
    /// What costs nothing and is no instruction.
    pub const NONE: Cost = Cost(0);

    /// One instruction of this many issue cycles.
    #[inline(always)]
    pub const fn issue(cycles: u8) -> Cost {
        Cost(cycles as u64 | 1 << COUNT_SHIFT)
    }

    /// No instruction: a wait for the result of one before.
    #[inline(always)]
    pub const fn stall(cycles: u8) -> Cost {
        Cost((cycles as u64) << STALL_SHIFT | cycles as u64)
    }

    /// The same, and a wait.
    pub const fn and_stall(self, cycles: u8) -> Cost {
        Cost(self.0 + Cost::stall(cycles).0)
    }
}

/// Cycles by cause and phase, the time, and the time when the run loop has to look up.
pub struct Clock {
    ledger: Ledger<Cause>,
    /// Costs of instructions that are not in the ledger yet.
    pending: u64,
    /// What the run loop compares the time with: when the turn ends, 0 to make it look up, or
    /// [`HELD`].
    deadline: u64,
    turn_ends_at: u64,
    /// What was charged while something happens beside execution.
    beside: Option<u64>,
}

mmulab_state::state!(Clock { ledger, pending, deadline, turn_ends_at, beside });

impl Clock {
    /// Cycles after which the run loop has to look up at the latest, so that no part of the packed
    /// word overflows: an instruction takes a cycle at least, and the last line's a few thousand at
    /// most.
    pub const LONGEST_RUN_CYCLES: u64 = 1 << 16;

    pub(crate) fn new() -> Clock {
        Clock { ledger: Ledger::new(), pending: 0, deadline: 0, turn_ends_at: 0, beside: None }
    }

    /// Cycles since reset.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.ledger.cycles() + (self.pending & ((1 << CYCLE_BITS) - 1))
    }

    /// Executes an instruction of this cost.
    #[inline(always)]
    pub fn issue(&mut self, cost: Cost) {
        self.pending += cost.0;
    }

    /// Spends cycles on `cause`.
    #[inline(always)]
    pub fn charge(&mut self, cause: Cause, cycles: u64) {
        if let Some(beside) = &mut self.beside {
            *beside += cycles;
            return;
        }
        self.ledger.charge(cause, cycles);
    }

    /// The time of what is charged next, which may happen beside execution.
    pub(crate) fn time_beside(&self) -> u64 {
        self.now() + self.beside.unwrap_or(0)
    }

    /// Waits until `time` on account of `cause`, if it is not past.
    pub fn charge_until(&mut self, cause: Cause, time: u64) {
        let now = self.time_beside();
        if time > now {
            self.charge(cause, time - now);
        }
    }

    /// What is charged from here on happens beside execution and takes none of its time.
    pub(crate) fn begin_beside(&mut self) {
        self.beside = Some(0);
    }

    /// The cycles that were charged since [`Clock::begin_beside`].
    pub(crate) fn end_beside(&mut self) -> u64 {
        self.beside.take().unwrap_or(0)
    }

    /// Moves the costs that were gathered into the ledger.
    pub fn flush_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let stall = pending >> STALL_SHIFT & ((1 << STALL_BITS) - 1);
        let issue = (pending & ((1 << CYCLE_BITS) - 1)) - stall;
        let count = pending >> COUNT_SHIFT;
        if count > 0 {
            self.ledger.charge_many(Cause::Issue, count, issue);
        }
        if stall > 0 {
            // Each stalled cycle counts: the stalls are gathered, not the instructions that had
            // them.
            self.ledger.charge_many(Cause::Interlock, stall, stall);
        }
    }

    /// Instructions since the costs were last moved into the ledger.
    #[inline(always)]
    pub fn pending_instructions(&self) -> u64 {
        self.pending >> COUNT_SHIFT
    }

    /// Instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.ledger.account(Cause::Issue).count + self.pending_instructions()
    }

    /// When the run loop has to look up.
    pub(crate) fn set_deadline(&mut self, time: u64) {
        self.turn_ends_at = time.max(HELD + 1);
        self.deadline = self.turn_ends_at;
    }

    /// Makes the run loop ask before each instruction which registers it reads.
    pub(crate) fn hold(&mut self) {
        if self.deadline != 0 {
            self.deadline = HELD;
        }
    }

    /// That is over.
    pub(crate) fn release(&mut self) {
        if self.deadline == HELD {
            self.deadline = self.turn_ends_at;
        }
    }

    /// Makes the run loop look up before the next instruction.
    #[inline(always)]
    pub fn request_exit(&mut self) {
        self.deadline = 0;
    }

    /// Whether something asked for that.
    #[inline(always)]
    pub(crate) fn exit_requested(&self) -> bool {
        self.deadline == 0
    }

    /// Whether something asked for that, or for a look before each instruction.
    #[inline(always)]
    pub(crate) fn exit_requested_or_held(&self) -> bool {
        self.deadline <= HELD
    }

    /// Whether the time to look up has come.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let now = self.now();
        now >= self.deadline && (self.deadline != HELD || now >= self.turn_ends_at)
    }

    pub(crate) fn enter_phase(&mut self, name: &str) {
        self.flush_pending();
        self.ledger.enter_phase(name);
    }

    /// Names of the phases in order of first entry; the first one is unnamed.
    pub fn phases(&self) -> impl Iterator<Item = &str> {
        self.ledger.phases()
    }

    /// What a cause has cost, over all phases.
    pub fn account(&self, cause: Cause) -> Account {
        self.ledger.account(cause)
    }

    /// What a cause has cost in one phase.
    pub fn account_in(&self, phase: &str, cause: Cause) -> Account {
        self.ledger.account_in(phase, cause)
    }
}
