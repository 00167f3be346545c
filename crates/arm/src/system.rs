//! The whole machine: cores and board, and the loop that runs them.

use std::time::Duration;

use mmulab_hardware::{Account, Cause as _, GeometryError};
use mmulab_machine::{AbortModel, ArmArchitecture, ArmCoprocessor, SystemMachine};

use crate::board::Board;
use crate::cpu::{Architecture, Cpu, Exception, FIQ_MASKED, Flow, IRQ_MASKED};
use crate::loader::Loaded;
use crate::memory::{Memory, Space, issue_cost, stall_cost};
use crate::timing::Cause;

/// Cycles after which the loop looks up at the latest. Small enough for the packed counters.
const LONGEST_RUN_CYCLES: u64 = 1 << 16;
/// Cycles that one of several cores may be ahead of the others.
const QUANTUM_CYCLES: u64 = 1000;
/// Cycles between two looks at the host.
const HOST_CYCLES: u64 = 1 << 21;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The guest ended with a status.
    Exit(u8),
    /// The guest rebooted.
    Reboot,
    /// The instruction limit was reached.
    Limit,
    /// The user wants it to end.
    Interrupted,
    /// A branch to itself with all interrupts masked.
    Hang,
    /// Waiting for an interrupt that cannot come.
    Deadlock,
    /// The instruction at an exception vector causes that exception.
    VectorLoop {
        /// The exception.
        exception: Exception,
        /// Its vector.
        vector: u32,
    },
    /// An exception was taken whose vector holds zero: nobody put a handler there.
    EmptyVector {
        /// The exception.
        exception: Exception,
        /// Its vector.
        vector: u32,
    },
    /// Instructions were fetched from where nothing is.
    LostFetch {
        /// Modified virtual address.
        address: u32,
        /// Physical address.
        physical: u32,
    },
    /// The debugger wants to look (breakpoint, step or watchpoint).
    Debugger,
}

/// What the world outside of the machine offers.
pub trait Host {
    /// The guest printed.
    fn output(&mut self, bytes: &[u8]);
    /// Characters typed since last time.
    fn input(&mut self) -> Vec<u8> {
        Vec::new()
    }
    /// The machine waits and nothing but input can wake it: waits for some. `false` if none can come.
    fn wait_for_input(&mut self) -> bool {
        false
    }
    /// The machine waits until its next event, for `length` of its time. Returns how much of that has
    /// passed when it shall look for input: all, and at once, for a host without a clock.
    fn idle(&mut self, length: Duration) -> Duration {
        length
    }
    /// Whether the run shall end.
    fn interrupted(&mut self) -> bool {
        false
    }
}

/// A host that keeps what the guest prints.
#[derive(Default)]
pub struct Transcript {
    /// All output.
    pub text: Vec<u8>,
}

impl Host for Transcript {
    fn output(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }
}

/// Breakpoints and single steps, for the debugger.
#[derive(Clone, Debug, Default)]
pub struct Debugging {
    /// Addresses to stop before.
    pub breakpoints: Vec<u32>,
    /// Stop after one instruction.
    pub step: bool,
}

/// Cycles and counts of one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseRow {
    /// Name of the cause.
    pub cause: &'static str,
    /// Events and cycles.
    pub account: Account,
}

/// The machine.
pub struct System {
    /// The description it was built from.
    pub machine: SystemMachine,
    /// Its cores.
    pub cores: Vec<Cpu>,
    /// What they share.
    pub board: Board,
    /// For the debugger.
    pub debugging: Debugging,
    /// Names for addresses.
    pub symbols: Option<crate::symbols::Symbols>,
    /// The timeline being drawn.
    pub timeline: Option<crate::timeline::Timeline>,
    /// No instruction was executed since the run began: it may start at a breakpoint.
    fresh: bool,
    host_at: u64,
}

impl System {
    /// A machine out of reset, with nothing loaded.
    ///
    /// # Errors
    /// A cache or TLB has an impossible shape.
    pub fn new(machine: &SystemMachine) -> Result<System, GeometryError> {
        let count = machine.cores as usize;
        let cores = (0..count)
            .map(|number| {
                let architecture = match machine.core.architecture {
                    ArmArchitecture::Armv4 => Architecture::V4,
                    ArmArchitecture::Armv4t => Architecture::V4T,
                    ArmArchitecture::Armv5te => Architecture::V5TE,
                };
                Ok(Cpu::new(
                    architecture,
                    machine.core.abort_model == AbortModel::BaseUpdated,
                    machine.timing.clone(),
                    machine.core.branch_buffer_entries,
                    Memory::new(machine, number)?,
                ))
            })
            .collect::<Result<Vec<_>, GeometryError>>()?;
        let zero_bank = machine.core.coprocessor == ArmCoprocessor::Sa1100;
        Ok(System {
            machine: machine.clone(),
            cores,
            board: Board::new(
                machine.memory.size_bytes as u32,
                machine.core.clock_hz,
                count,
                zero_bank,
            ),
            debugging: Debugging::default(),
            symbols: None,
            timeline: None,
            fresh: true,
            host_at: 0,
        })
    }

    /// Puts an image into memory and the cores at its entry.
    pub fn load(&mut self, image: &Loaded) {
        for (address, bytes) in &image.segments {
            self.board.load(*address, bytes);
        }
        self.board.command_line.clone_from(&image.command_line);
        for cpu in &mut self.cores {
            cpu.registers[1] = !0;
            cpu.registers[2] = image.device_tree.unwrap_or(0);
            cpu.memory.pc = 0;
            cpu.branch_exchange(image.entry);
        }
        if self.board.checker.is_some() {
            self.start_checking();
        }
    }

    /// Turns the checker on, on all cores.
    pub fn start_checking(&mut self) {
        self.board.checker = Some(Box::new(crate::checker::Checker::new(&self.board.ram)));
        for cpu in &mut self.cores {
            cpu.memory.update_watching(true);
        }
    }

    /// Instructions executed by all cores.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|cpu| cpu.memory.instructions()).sum()
    }

    /// The time of the core that is ahead.
    pub fn cycles(&self) -> u64 {
        self.cores.iter().map(|cpu| cpu.memory.now()).max().unwrap_or(0)
    }

    /// Runs until something ends it; `limit` is in instructions of all cores together.
    pub fn run(&mut self, host: &mut dyn Host, limit: u64) -> Stop {
        self.fresh = true;
        let stop = self.run_until_stop(host, limit);
        for cpu in &mut self.cores {
            cpu.memory.settle();
        }
        if !self.board.output.is_empty() {
            host.output(&self.board.output);
            self.board.output.clear();
        }
        stop
    }

    fn run_until_stop(&mut self, host: &mut dyn Host, limit: u64) -> Stop {
        let mut executed = self.instructions();
        loop {
            let turn = self.next_turn();
            if let Some(stop) = self.attend(host, turn) {
                return stop;
            }
            let left = limit.saturating_sub(executed);
            if left == 0 {
                return Stop::Limit;
            }
            let horizon = self.horizon(turn);
            let cpu = &mut self.cores[turn];
            cpu.memory.attention_at = horizon;
            let before = cpu.memory.pending_instructions();
            let debugged = self.debugging.step || !self.debugging.breakpoints.is_empty();
            // An instruction takes a cycle at least, so that the limit is not passed before the end
            // of the longest stretch.
            let run = if cpu.memory.watched || debugged || left < LONGEST_RUN_CYCLES {
                run_core::<true>
            } else {
                run_core::<false>
            };
            run(cpu, &mut self.board, left, &self.debugging, &mut self.fresh);
            executed += self.cores[turn].memory.pending_instructions() - before;
        }
    }

    /// The core that is furthest behind.
    fn next_turn(&self) -> usize {
        if self.cores.len() == 1 {
            return 0;
        }
        let times = self.cores.iter().map(|cpu| cpu.memory.now()).enumerate();
        times.min_by_key(|&(number, now)| (now, number)).map_or(0, |(number, _)| number)
    }

    /// Until when a core may run without looking up.
    fn horizon(&self, turn: usize) -> u64 {
        let now = self.cores[turn].memory.now();
        let mut horizon = now + LONGEST_RUN_CYCLES;
        if let Some(event) = self.board.next_event() {
            horizon = horizon.min(event.max(now + 1));
        }
        if self.cores.len() > 1 {
            horizon = horizon.min(now + QUANTUM_CYCLES);
        }
        horizon
    }

    /// Everything between two stretches of instructions: ends, phases, interrupts, waiting.
    fn attend(&mut self, host: &mut dyn Host, turn: usize) -> Option<Stop> {
        let alone = self.cores.len() == 1;
        loop {
            let cpu = &mut self.cores[turn];
            cpu.memory.settle();
            let now = cpu.memory.now();
            self.draw(turn);
            let cpu = &mut self.cores[turn];
            if let Some(stop) = cpu.stop.take() {
                return Some(stop);
            }
            if let Some((exception, vector)) = cpu.entered_vector.take()
                && cpu.memory.peek_instruction(&self.board, vector) == Some(0)
            {
                return Some(Stop::EmptyVector { exception, vector });
            }
            if cpu.memory.watch_hit.is_some() {
                return Some(Stop::Debugger);
            }
            if let Some((address, physical)) = cpu.memory.lost_fetch.take() {
                return Some(Stop::LostFetch { address, physical });
            }
            if self.board.rebooted {
                return Some(Stop::Reboot);
            }
            if let Some(status) = self.board.exit.or(self.board.lab.exit) {
                return Some(Stop::Exit(status));
            }
            if self.board.lab.phase_changed {
                self.board.lab.phase_changed = false;
                let name = self.board.lab.phase_name(self.board.lab.phase);
                for cpu in &mut self.cores {
                    cpu.memory.settle();
                    cpu.memory.ledger.enter_phase(&name);
                }
            }
            if now >= self.host_at {
                self.host_at = now + HOST_CYCLES;
                self.talk(host);
                if host.interrupted() {
                    return Some(Stop::Interrupted);
                }
            }
            let cpu = &mut self.cores[turn];
            // Interrupts go to core 0.
            let (irq, fiq) = if turn == 0 { self.board.interrupts(now) } else { (false, false) };
            if cpu.waiting {
                if irq || fiq {
                    cpu.waiting = false;
                } else if let Some(event) = self.board.next_event().filter(|_| turn == 0) {
                    let left = event.saturating_sub(now).max(1);
                    let clock_hz = self.board.clock_hz as f64;
                    if !self.board.output.is_empty() {
                        self.talk(host);
                    }
                    let length = Duration::from_secs_f64(left as f64 / clock_hz);
                    let passed = host.idle(length);
                    let cpu = &mut self.cores[turn];
                    if passed < length {
                        self.host_at = now;
                        let cycles = (passed.as_secs_f64() * clock_hz) as u64;
                        cpu.memory.spend(Cause::Idle, cycles.clamp(1, left));
                    } else {
                        cpu.memory.spend(Cause::Idle, left);
                    }
                    continue;
                } else if !alone {
                    cpu.memory.spend(Cause::Idle, QUANTUM_CYCLES);
                    return None;
                } else {
                    self.talk(host);
                    if !self.board.input.is_empty() && self.board.listens() {
                        continue;
                    }
                    if self.board.listens() && host.wait_for_input() {
                        continue;
                    }
                    if host.interrupted() {
                        return Some(Stop::Interrupted);
                    }
                    return Some(Stop::Deadlock);
                }
            }
            if fiq && cpu.control & FIQ_MASKED == 0 {
                cpu.take_exception(Exception::Fiq, cpu.memory.pc.wrapping_add(4));
            } else if irq && cpu.control & IRQ_MASKED == 0 {
                cpu.take_exception(Exception::Irq, cpu.memory.pc.wrapping_add(4));
            }
            return None;
        }
    }

    /// Hands what happened to the timeline.
    fn draw(&mut self, turn: usize) {
        let memory = &mut self.cores[turn].memory;
        let marks = &mut self.board.lab.marks;
        let Some(timeline) = &mut self.timeline else {
            marks.clear();
            return;
        };
        if let Some(events) = &mut memory.events {
            timeline.draw(turn, events);
            events.clear();
        }
        for (at, core, mark) in std::mem::take(marks) {
            let name = self.board.lab.mark_name(mark);
            timeline.mark(at, core, mark, &name);
        }
        timeline.count(turn, memory.now(), &memory.counters);
    }

    /// Draws a timeline from here on.
    pub fn start_timeline(&mut self, timeline: crate::timeline::Timeline) {
        for cpu in &mut self.cores {
            cpu.memory.events = Some(Vec::new());
        }
        self.timeline = Some(timeline);
    }

    /// Completes the timeline, if one is drawn.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish_timeline(&mut self) -> std::io::Result<()> {
        for turn in 0..self.cores.len() {
            self.cores[turn].memory.end_line_loop();
            self.draw(turn);
        }
        let now = self.cycles();
        self.timeline.take().map_or(Ok(()), |timeline| timeline.finish(now))
    }

    fn talk(&mut self, host: &mut dyn Host) {
        if !self.board.output.is_empty() {
            host.output(&self.board.output);
            self.board.output.clear();
        }
        self.board.input.extend(host.input());
    }

    /// The causes of all cores, in the ledger's order.
    pub fn causes(&self) -> Vec<CauseRow> {
        self.sum_causes(|memory, cause| memory.ledger.account(cause))
    }

    fn sum_causes(&self, account: impl Fn(&Memory, Cause) -> Account) -> Vec<CauseRow> {
        Cause::ALL
            .iter()
            .map(|&cause| {
                let mut sum = Account::default();
                for cpu in &self.cores {
                    let one = account(&cpu.memory, cause);
                    sum.count += one.count;
                    sum.cycles += one.cycles;
                }
                CauseRow { cause: cause.name(), account: sum }
            })
            .collect()
    }

    /// The phases in order of first entry, with their causes. What came before the first is "boot".
    pub fn phases(&self) -> Vec<(String, Vec<CauseRow>)> {
        let names: Vec<String> = self.cores[0].memory.ledger.phases().map(str::to_owned).collect();
        names
            .into_iter()
            .map(|name| {
                let rows = self.sum_causes(|memory, cause| memory.ledger.account_in(&name, cause));
                (if name.is_empty() { "0".to_owned() } else { name }, rows)
            })
            .collect()
    }

    /// Cycles by processor mode, over all cores.
    pub fn modes(&self) -> Vec<(&'static str, u64)> {
        let mut sums: Vec<(&'static str, u64)> = Vec::new();
        for (mode, cycles) in self.cores.iter().flat_map(|cpu| cpu.memory.cycles_by_mode()) {
            let name = crate::cpu::mode::name(mode);
            match sums.iter_mut().find(|(known, _)| *known == name) {
                Some(place) => place.1 += cycles,
                None => sums.push((name, cycles)),
            }
        }
        sums
    }

    /// Cycles by address space, over all cores.
    pub fn spaces(&self) -> Vec<(Space, u64)> {
        let mut sums: Vec<(Space, u64)> = Vec::new();
        for (space, cycles) in self.cores.iter().flat_map(|cpu| cpu.memory.cycles_by_space()) {
            match sums.iter_mut().find(|(known, _)| *known == space) {
                Some(place) => place.1 += cycles,
                None => sums.push((space, cycles)),
            }
        }
        sums
    }
}

/// Runs one core until its attention is wanted. With `WATCHED`, each instruction is looked at: for
/// the checker, the debugger, and the last stretch before the instruction limit.
fn run_core<const WATCHED: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    left: u64,
    debugging: &Debugging,
    first: &mut bool,
) {
    while cpu.memory.now() < cpu.memory.attention_at {
        if WATCHED && cpu.memory.pending_instructions() >= left {
            return;
        }
        let slot = match cpu.memory.fetch_slot(board, cpu.memory.pc) {
            Ok(slot) => slot,
            Err(fault) => {
                cpu.memory.record_fetch_fault(fault);
                cpu.take_exception(Exception::PrefetchAbort, cpu.memory.pc.wrapping_add(4));
                continue;
            }
        };
        if cpu.memory.fetch.late.is_some() {
            let stall = cpu.memory.fetch.stall_across(slot, cpu.memory.pc, cpu.thumb());
            cpu.memory.pending += stall_cost(stall);
        }
        if cpu.thumb() {
            run_line::<WATCHED, true>(cpu, board, slot, left, debugging, first);
        } else {
            run_line::<WATCHED, false>(cpu, board, slot, left, debugging, first);
        }
    }
}

/// Executes instructions of one line, until one leaves it.
#[inline(always)]
fn run_line<const WATCHED: bool, const THUMB: bool>(
    cpu: &mut Cpu,
    board: &mut Board,
    slot: usize,
    left: u64,
    debugging: &Debugging,
    first: &mut bool,
) {
    let (length, shift, per_line) = if THUMB { (2, 1, 16) } else { (4, 2, 8) };
    let mut place = (cpu.memory.pc >> shift) as usize & (per_line - 1);
    let one_only = cpu.memory.is_scratch(slot);
    if THUMB {
        cpu.memory.fetch.prepare_thumb(slot);
    }
    let line = cpu.memory.fetch.arm_line(slot);
    let mut was_first = false;
    loop {
        let op = if THUMB {
            cpu.memory.fetch.thumb_op(slot, place)
        } else {
            cpu.memory.fetch.arm_op(line, place)
        };
        // A device was written, or the like: what that starts comes before the next instruction.
        if cpu.memory.attention_at == 0 {
            return;
        }
        if WATCHED {
            if cpu.memory.pending_instructions() >= left {
                return;
            }
            if !*first && (debugging.step || debugging.breakpoints.contains(&cpu.memory.pc)) {
                cpu.stop = Some(Stop::Debugger);
                cpu.memory.request_attention();
                return;
            }
            was_first = std::mem::take(first);
            if board.checker.is_some() {
                cpu.memory.check_fetch(board, cpu.memory.pc, slot, length);
            }
        }
        cpu.registers[15] = cpu.memory.pc.wrapping_add(2 * length);
        if op.passes >> cpu.flags & 1 != 0 {
            cpu.memory.pending += op.cost;
            match (op.handler)(cpu, board, op.operands) {
                Flow::Next if op.late.is_some() => cpu.memory.fetch.late = op.late,
                Flow::Next => {}
                Flow::Jump => return,
                Flow::Synchronise => {
                    cpu.memory.pc = cpu.memory.pc.wrapping_add(length);
                    return;
                }
                Flow::Decoded => {
                    // It was not executed yet.
                    *first |= was_first;
                    continue;
                }
            }
        } else {
            cpu.memory.pending += issue_cost(1);
            cpu.skipped(op.operands);
        }
        cpu.memory.pc = cpu.memory.pc.wrapping_add(length);
        place += 1;
        if place == per_line || one_only {
            return;
        }
    }
}
