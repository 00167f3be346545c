//! The whole machine: cores and board, and the loop that runs them.

use std::time::Duration;

use mmulab_hardware::{Account, Cause as _, DataCache, GeometryError, Random};
use mmulab_machine::Platform;

use crate::board::Board;
use crate::bus::Bus;
use crate::cause::Cause;
use crate::checker::Checker;
use crate::clock::Clock;
use crate::coherence::Level2;
use crate::core::{Core, Space, Taken};
use crate::loader::Loaded;
use crate::memory::{CoreMemory, cache_of_lines};
use crate::observer::{Observer, Observers, WatchHit};
use crate::ram::Ram;
use crate::run::{LOOK_AT_ALL, LOOK_AT_NOTHING, LOOK_AT_UNKNOWN, run_core};
use crate::saving::SavePoint;
use crate::symbols::Symbols;
use crate::timeline::Timeline;

/// Cycles between two looks at the host.
const HOST_CYCLES: u64 = 1 << 21;
/// What several cores sleep through is waited for in steps of at least this.
const SHORTEST_WAIT_SECONDS: f64 = 1e-3;

/// The phase in which a run begins, which the ledger does not name.
const FIRST_PHASE: &str = "0";

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The guest ended with a status.
    Exit(u8),
    /// The guest rebooted.
    Reboot,
    /// The instruction limit was reached.
    Limit,
    /// [`System::end_at_cycles`] was reached.
    TimeLimit,
    /// [`System::save_point`] was reached.
    SavePoint,
    /// The user wants it to end.
    Interrupted,
    /// A branch to itself with all interrupts masked.
    Hang,
    /// Waiting for an interrupt that cannot come.
    Deadlock,
    /// The instruction at an exception vector causes that exception.
    VectorLoop(Taken),
    /// An exception was taken whose vector holds zero: nobody put a handler there.
    EmptyVector(Taken),
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

mmulab_state::value_enum!(Stop {
    Exit(status),
    Reboot,
    Limit,
    TimeLimit,
    SavePoint,
    Interrupted,
    Hang,
    Deadlock,
    VectorLoop(taken),
    EmptyVector(taken),
    LostFetch { address, physical },
    Debugger,
});

/// What the world outside of the machine offers.
pub trait Host {
    /// The guest printed.
    fn output(&mut self, bytes: &[u8]);
    /// Characters typed since last time.
    fn input(&mut self) -> Vec<u8> {
        Vec::new()
    }
    /// The machine waits and nothing but input can wake it: waits for some. `false` if none can
    /// come.
    fn wait_for_input(&mut self) -> bool {
        false
    }
    /// The machine waits until its next event, for `length` of its time. Returns how much of that
    /// has passed when it shall look for input: all, and at once, for a host without a clock.
    fn idle(&mut self, length: Duration) -> Duration {
        length
    }
    /// A debugger can connect to the port from now on, and the machine waits for it.
    fn waits_for_debugger(&mut self, _port: u16) {}
    /// The machine has executed so many instructions on all cores.
    fn advanced(&mut self, _instructions: u64) {}
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
    /// Addresses to stop before, on any core.
    pub breakpoints: Vec<u32>,
    /// The core to stop after one of its instructions.
    pub step: Option<usize>,
    /// The only core that runs; all of them if none.
    pub only: Option<usize>,
    /// The core that stopped last.
    pub stopped: usize,
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
pub struct System<C: Core> {
    /// The description it was built from, less the instruction set.
    pub platform: Platform,
    /// Memory, board and cores.
    pub bus: Bus<C>,
    /// For the debugger.
    pub debugging: Debugging,
    /// Names for addresses.
    pub symbols: Option<Symbols>,
    /// The time at which the run ends, in cycles of all cores; sleep counts.
    pub end_at_cycles: u64,
    /// Where the run ends to be saved, once.
    pub save_point: SavePoint,
    /// The timeline being recorded.
    timeline: Option<Timeline>,
    /// The cores that have executed no instruction since the run began, a bit for each: a step of
    /// theirs is still to be made.
    fresh: u64,
    host_at: u64,
    /// Up to when several cores have slept, and how much of that the host has not waited for yet.
    paced_to: u64,
    owed_cycles: u64,
}

mmulab_state::state!(
    [C: Core] System<C> { bus, host_at } built { platform, debugging, symbols, timeline, save_point, end_at_cycles, fresh, paced_to, owed_cycles }
);

/// The second level of a machine.
fn level_2_model<C: Core>(shape: &mmulab_machine::Cache) -> Result<Level2<C>, GeometryError> {
    if !C::COHERENT {
        return Err(GeometryError("level_2: these cores have none".to_owned()));
    }
    // Streams 0 to 7 of each core are its own; see CoreMemory::new.
    Ok(DataCache::new(cache_of_lines::<C::DataLine>("level_2", shape, Random::stream(2, 0))?, None))
}

impl<C: Core> System<C> {
    /// A machine out of reset, with nothing loaded.
    ///
    /// # Errors
    /// A cache or TLB has an impossible shape.
    pub fn new(
        description: &C::Description,
        platform: Platform,
    ) -> Result<System<C>, GeometryError> {
        let count = platform.cores as usize;
        let cores = (0..count)
            .map(|number| C::new(description, &platform, number))
            .collect::<Result<Vec<_>, _>>()?;
        let level_2 = platform.level_2.as_ref();
        let level_2 = level_2.map(level_2_model::<C>).transpose()?;
        let board = Board::new(platform.board, platform.clock_hz, count);
        let ram = Ram::new(platform.board.ram_base(), platform.memory.size_bytes as u32);
        Ok(System {
            bus: Bus::new(ram, C::zero_bank(description), board, cores, level_2),
            platform,
            debugging: Debugging::default(),
            symbols: None,
            save_point: SavePoint::Never,
            end_at_cycles: u64::MAX,
            timeline: None,
            fresh: u64::MAX,
            host_at: 0,
            paced_to: 0,
            owed_cycles: 0,
        })
    }

    // ---- Cores and observers ---------------------------------------------------------------

    /// The cores.
    pub fn cores(&self) -> impl Iterator<Item = &C> {
        self.bus.cores.iter().flatten().map(|core| &**core)
    }

    pub(crate) fn cores_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.bus.cores.iter_mut().flatten().map(|core| &mut **core)
    }

    /// One core.
    ///
    /// # Panics
    /// There is none of this number.
    pub fn core(&self, number: usize) -> &C {
        self.bus.cores[number].as_ref().expect("between time slices every core is in the list")
    }

    /// One core.
    ///
    /// # Panics
    /// There is none of this number.
    pub fn core_mut(&mut self, number: usize) -> &mut C {
        self.bus.cores[number].as_mut().expect("between time slices every core is in the list")
    }

    /// Takes a core out of its place, so that it can be changed together with the bus.
    pub fn with_core<T>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut C, &mut Bus<C>) -> T,
    ) -> T {
        let mut core =
            self.bus.cores[number].take().expect("between time slices every core is in the list");
        let result = work(&mut core, &mut self.bus);
        self.bus.cores[number] = Some(core);
        result
    }

    /// Changes who looks on.
    pub fn change_observers(&mut self, change: impl FnOnce(&mut Observers<C>)) {
        let mut observers = self.bus.observers.take().unwrap_or_default();
        change(&mut observers);
        let watched = observers.any();
        self.bus.observers = watched.then_some(observers);
        for core in self.cores_mut() {
            core.memory_mut().set_observed(watched);
        }
    }

    /// Attaches an observer from here on.
    pub fn attach(&mut self, observer: Box<dyn Observer<C> + Send>) {
        self.change_observers(|observers| observers.attached.push(observer));
    }

    /// Turns the checker on, on all cores.
    pub fn start_checking(&mut self) {
        let checker =
            Checker::new::<C>(&self.bus.ram, self.bus.core_count(), self.platform.caches_at_reset);
        self.change_observers(|observers| observers.checker = Some(checker));
    }

    /// The checker, if it is on.
    pub fn checker(&self) -> Option<&Checker> {
        self.bus.observers.as_ref()?.checker.as_ref()
    }

    fn watch_hit(&self) -> Option<WatchHit> {
        self.bus.observers.as_ref()?.watchpoints.hit
    }

    /// The watchpoint that was hit.
    pub(crate) fn take_watch_hit(&mut self) -> Option<WatchHit> {
        self.bus.observers.as_mut()?.watchpoints.hit.take()
    }

    /// Puts an image into memory and the cores at its entry.
    pub fn load(&mut self, image: &Loaded) {
        for (address, bytes) in &image.segments {
            self.bus.load(*address, bytes);
        }
        self.bus.board.command_line.clone_from(&image.command_line);
        for core in self.cores_mut() {
            core.start(image.entry, image.device_tree);
        }
        if self.bus.board.has_power_firmware() {
            for number in 1..self.bus.cores.len() {
                self.bus.turn_off(number);
                self.core_mut(number).requests().waiting = true;
            }
        }
        if self.checker().is_some() {
            self.start_checking();
        }
    }

    /// Instructions executed by all cores.
    pub fn instructions(&self) -> u64 {
        self.cores().map(|core| core.memory().clock.instructions()).sum()
    }

    /// The time of the core that is ahead.
    pub fn cycles(&self) -> u64 {
        self.cores().map(|core| core.memory().now()).max().unwrap_or(0)
    }

    // ---- The run loop ------------------------------------------------------------------------

    /// Runs until something ends it; `limit` is in instructions of all cores together.
    pub fn run(&mut self, host: &mut dyn Host, limit: u64) -> Stop {
        self.fresh = u64::MAX;
        let stop = self.run_until_stop(host, limit);
        for core in self.cores_mut() {
            core.memory_mut().clock.flush_pending();
        }
        // When the host is asked for input may depend on what waits for it.
        if stop != Stop::SavePoint && !self.bus.board.output.is_empty() {
            host.output(&self.bus.board.output);
            self.bus.board.output.clear();
        }
        stop
    }

    fn run_until_stop(&mut self, host: &mut dyn Host, limit: u64) -> Stop {
        let mut executed = self.instructions();
        loop {
            if self.save_point.is_reached(executed, &self.bus.board.output) {
                self.save_point = SavePoint::Never;
                return Stop::SavePoint;
            }
            let Some(number) = self.next_core() else { return Stop::Deadlock };
            let Some(mut core) = self.bus.cores[number].take() else { continue };
            let left = limit.saturating_sub(executed);
            let ran = self.take_turn(host, &mut core, left);
            self.bus.cores[number] = Some(core);
            match ran {
                Ok(instructions) => executed += instructions,
                Err(stop) => return stop,
            }
        }
    }

    /// The core that is furthest behind, of those that are on.
    fn next_core(&self) -> Option<usize> {
        if let Some(only) = self.debugging.only {
            return Some(only);
        }
        if self.bus.cores.len() == 1 {
            return self.bus.is_on(0).then_some(0);
        }
        let (mut next, mut earliest) = (None, u64::MAX);
        for (number, core) in self.cores().enumerate() {
            let now = core.memory().now();
            if now < earliest && self.bus.is_on(number) {
                (next, earliest) = (Some(number), now);
            }
        }
        next
    }

    /// Runs a core, which has been taken out of its place, until it has to be looked after; gives
    /// the instructions that it executed.
    fn take_turn(&mut self, host: &mut dyn Host, core: &mut C, left: u64) -> Result<u64, Stop> {
        core.memory_mut().perform_ready_stores(&mut self.bus);
        match self.service(host, core) {
            Some(stop) => {
                if !matches!(stop, Stop::Debugger | Stop::Exit(_) | Stop::Reboot) {
                    self.debugging.stopped = core.memory().number;
                }
                return Err(stop);
            }
            None if left == 0 => return Err(Stop::Limit),
            None if core.requests().is_waiting() => return Ok(0),
            None => {}
        }
        let deadline = self.deadline(core);
        let memory = core.memory_mut();
        memory.advance_tlb_transfer(&mut self.bus);
        memory.clock.set_deadline(deadline);
        let before = memory.clock.pending_instructions();
        let debugged = self.debugging.step.is_some() || !self.debugging.breakpoints.is_empty();
        // An instruction takes a cycle at least, so that the limit is not passed before the end of
        // the longest run.
        let all = debugged || left < Clock::LONGEST_RUN_CYCLES;
        let only_checker =
            self.bus.observers.as_ref().is_some_and(|observers| observers.only_checker().is_some());
        let run = match (memory.watched, all, only_checker) {
            (false, false, _) => run_core::<C, LOOK_AT_NOTHING>,
            (true, false, true) => run_core::<C, LOOK_AT_UNKNOWN>,
            _ => run_core::<C, LOOK_AT_ALL>,
        };
        let bit = 1 << (core.memory().number & 63);
        let mut first = self.fresh & bit != 0;
        run(core, &mut self.bus, left, &self.debugging, &mut first);
        core.memory_mut().perform_ready_stores(&mut self.bus);
        if self.board_ends().is_some() {
            self.debugging.stopped = core.memory().number;
        }
        self.fresh = if first { self.fresh | bit } else { self.fresh & !bit };
        Ok(core.memory().clock.pending_instructions() - before)
    }

    /// Until when a core may run without being looked after.
    fn deadline(&self, core: &C) -> u64 {
        let now = core.memory().now();
        let mut deadline = (now + Clock::LONGEST_RUN_CYCLES).min(self.end_at_cycles);
        if let Some(event) = self.bus.board.next_event() {
            deadline = deadline.min(event.max(now + 1));
        }
        if self.bus.cores.len() > 1 {
            deadline = deadline.min(now + u64::from(self.platform.interleave_cycles));
        }
        deadline
    }

    /// Why the run has to end, if it has to.
    fn wanted_stop(&mut self, core: &mut C) -> Option<Stop> {
        if let Some(stop) = core.requests().stop.take() {
            // A core that loops for ever is parked while another runs.
            let parked =
                stop == Stop::Hang && self.cores_mut().any(|peer| !peer.requests().is_waiting());
            if !parked {
                self.debugging.stopped = core.memory().number;
                return Some(stop);
            }
            core.requests().waiting = true;
        }
        if let Some(taken) = core.requests().entered_vector.take()
            && core.memory().peek_instruction(&self.bus, taken.vector) == Some(0)
        {
            return Some(Stop::EmptyVector(taken));
        }
        if let Some(hit) = self.watch_hit() {
            self.debugging.stopped = hit.core;
            return Some(Stop::Debugger);
        }
        if let Some((address, physical)) = core.memory_mut().unmapped_fetch.take() {
            return Some(Stop::LostFetch { address, physical });
        }
        self.board_ends()
    }

    /// The end that a device was asked for, by the core that ran last.
    fn board_ends(&self) -> Option<Stop> {
        let board = &self.bus.board;
        if board.rebooted {
            return Some(Stop::Reboot);
        }
        board.exit.or(board.instrumentation.exit).map(Stop::Exit)
    }

    /// Everything between two runs of instructions: ends, phases, the host, interrupts, waiting.
    fn service(&mut self, host: &mut dyn Host, core: &mut C) -> Option<Stop> {
        let number = core.memory().number;
        loop {
            core.memory_mut().clock.flush_pending();
            let now = core.memory().now();
            self.record_timeline(core);
            if let Some(stop) = self.wanted_stop(core) {
                return Some(stop);
            }
            if now >= self.end_at_cycles {
                return Some(Stop::TimeLimit);
            }
            self.enter_phase(core);
            if now >= self.host_at {
                self.host_at = now + HOST_CYCLES;
                self.poll_host(host);
                // This core is out of its place among the others.
                host.advanced(self.instructions() + core.memory().clock.instructions());
                if host.interrupted() {
                    return Some(Stop::Interrupted);
                }
            }
            let lines = self.bus.board.interrupts(number, now);
            if lines.irq || lines.fiq {
                core.requests().waiting = false;
                core.requests().waiting_for_event = false;
            }
            if core.requests().waiting_for_event && core.memory_mut().take_event() {
                core.requests().waiting_for_event = false;
            }
            if core.requests().is_waiting() {
                if self.debugger_waits(number) {
                    self.debugging.stopped = number;
                    return Some(Stop::Debugger);
                }
                match self.wait(host, core, now) {
                    Wait::Again => continue,
                    Wait::NextCore => return None,
                    Wait::Stop(stop) => return Some(stop),
                }
            }
            core.interrupt(lines);
            return None;
        }
    }

    /// Whether the debugger shall be told that a core waits: it was to step, or is the only one to
    /// run.
    fn debugger_waits(&self, number: usize) -> bool {
        let stepped = self.debugging.step == Some(number) && self.fresh >> (number & 63) & 1 == 0;
        stepped || self.debugging.only == Some(number)
    }

    /// A core waits for an interrupt: lets its time pass.
    fn wait(&mut self, host: &mut dyn Host, core: &mut C, now: u64) -> Wait {
        let reached = self.bus.board.interrupts_reach(core.memory().number);
        if let Some(event) = self.bus.board.next_event().filter(|_| reached) {
            return self.sleep(host, core, now, event);
        }
        let others_have_events = self.bus.board.next_event().is_some();
        if self.others_continue() || others_have_events {
            core.memory_mut().charge(Cause::Idle, self.platform.interleave_cycles);
            return Wait::NextCore;
        }
        self.poll_host(host);
        let (listens, has_input) = (self.bus.board.listens(), !self.bus.board.input.is_empty());
        if listens && !has_input && self.end_at_cycles != u64::MAX {
            return self.sleep(host, core, now, self.end_at_cycles);
        }
        if listens && (has_input || host.wait_for_input()) {
            if self.bus.cores.len() == 1 {
                return Wait::Again;
            }
            // It may wake another core.
            core.memory_mut().charge(Cause::Idle, self.platform.interleave_cycles);
            return Wait::NextCore;
        }
        Wait::Stop(if host.interrupted() { Stop::Interrupted } else { Stop::Deadlock })
    }

    /// Whether another core executes instructions when its turn comes: it does not wait, or what it
    /// waits for is there.
    fn others_continue(&mut self) -> bool {
        let bus = &mut self.bus;
        (0..bus.cores.len()).any(|number| {
            if !bus.is_on(number) {
                return false;
            }
            // The core that asks is out of its place.
            let Some(peer) = &mut bus.cores[number] else { return false };
            let has_event = peer.requests().waiting_for_event && peer.memory().event;
            !peer.requests().is_waiting() || has_event || bus.board.is_interrupted(number)
        })
    }

    /// A core that waits lets its time pass until something happens that may wake it, or the run
    /// ends.
    fn sleep(&mut self, host: &mut dyn Host, core: &mut C, now: u64, until: u64) -> Wait {
        // Another core may send something before.
        let several = self.bus.cores.len() > 1;
        let most = if several { self.platform.interleave_cycles.into() } else { u64::MAX };
        let left = until.min(self.end_at_cycles).saturating_sub(now).clamp(1, most);
        if self.others_continue() {
            core.memory_mut().charge(Cause::Idle, left);
            return Wait::NextCore;
        }
        let clock_hz = self.bus.board.clock_hz as f64;
        if !self.bus.board.output.is_empty() {
            self.poll_host(host);
        }
        // Of several cores each sleeps through the same time, in steps of a turn: too short to wait
        // for one by one.
        let from = if several { self.paced_to.max(now) } else { now };
        self.owed_cycles += (now + left).saturating_sub(from);
        self.paced_to = from.max(now + left);
        if several && (self.owed_cycles as f64) < clock_hz * SHORTEST_WAIT_SECONDS {
            core.memory_mut().charge(Cause::Idle, left);
            return Wait::NextCore;
        }
        let owed = std::mem::take(&mut self.owed_cycles);
        let length = Duration::from_secs_f64(owed as f64 / clock_hz);
        let passed = host.idle(length);
        let is_cut_short = passed < length;
        if is_cut_short {
            self.host_at = now;
        }
        if is_cut_short && !several {
            let cycles = (passed.as_secs_f64() * clock_hz) as u64;
            core.memory_mut().charge(Cause::Idle, cycles.clamp(1, left));
        } else {
            core.memory_mut().charge(Cause::Idle, left);
        }
        if several { Wait::NextCore } else { Wait::Again }
    }

    fn enter_phase(&mut self, core: &mut C) {
        let instrumentation = &mut self.bus.board.instrumentation;
        if std::mem::take(&mut instrumentation.phase_changed) {
            let name = instrumentation.phase_name(instrumentation.phase);
            let name = if name == FIRST_PHASE { "" } else { &name };
            core.memory_mut().clock.enter_phase(name);
            for peer in self.cores_mut() {
                peer.memory_mut().clock.enter_phase(name);
            }
        }
    }

    fn poll_host(&mut self, host: &mut dyn Host) {
        let board = &mut self.bus.board;
        if !board.output.is_empty() {
            host.output(&board.output);
            self.save_point.take(&board.output);
            board.output.clear();
        }
        board.input.extend(host.input());
    }

    // ---- The timeline --------------------------------------------------------------------------

    /// Hands what happened to the timeline.
    fn record_timeline(&mut self, core: &mut C) {
        let is_on = self.bus.is_on(core.memory().number);
        let instrumentation = &mut self.bus.board.instrumentation;
        let Some(timeline) = &mut self.timeline else {
            instrumentation.marks.clear();
            return;
        };
        let memory = core.memory_mut();
        let number = memory.number;
        if is_on {
            let instructions = memory.clock.instructions();
            timeline.stands::<C>(number, memory.now(), &memory.statistics, instructions);
        }
        timeline.record::<C>(number, &memory.statistics.take_log());
        for (at, core, mark) in std::mem::take(&mut instrumentation.marks) {
            let name = instrumentation.mark_name(mark);
            timeline.mark(at, core, mark, &name);
        }
        timeline.count(number, memory.now(), &memory.statistics.counters);
    }

    /// Records a timeline from here on.
    pub fn start_timeline(&mut self, timeline: Timeline) {
        let mut timeline = timeline;
        for core in self.cores_mut() {
            let memory = core.memory_mut();
            memory.statistics.start_log();
            timeline.begin(memory.number, memory.now(), &memory.statistics.counters);
        }
        self.timeline = Some(timeline);
    }

    /// Completes the timeline, if one is recorded.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish_timeline(&mut self) -> std::io::Result<()> {
        for number in 0..self.bus.cores.len() {
            let Some(mut core) = self.bus.cores[number].take() else { continue };
            core.memory_mut().statistics.end_line_loop();
            self.record_timeline(&mut core);
            let memory = core.memory();
            if let Some(timeline) = &mut self.timeline {
                let counters = &memory.statistics.counters;
                timeline.end(number, memory.now(), memory.clock.instructions(), counters);
            }
            self.bus.cores[number] = Some(core);
        }
        self.timeline.take().map_or(Ok(()), Timeline::finish)
    }

    // ---- Sums over the cores ---------------------------------------------------------------------

    /// The causes of all cores, in the ledger's order.
    pub fn causes(&self) -> Vec<CauseRow> {
        self.sum_causes(|memory, cause| memory.clock.account(cause))
    }

    fn sum_causes(&self, account: impl Fn(&CoreMemory<C>, Cause) -> Account) -> Vec<CauseRow> {
        Cause::ALL
            .iter()
            .map(|&cause| {
                let mut sum = Account::default();
                for core in self.cores() {
                    let one = account(core.memory(), cause);
                    sum.count += one.count;
                    sum.cycles += one.cycles;
                }
                CauseRow { cause: cause.name(), account: sum }
            })
            .collect()
    }

    /// The phases in order of first entry, with their causes.
    pub fn phases(&self) -> Vec<(String, Vec<CauseRow>)> {
        let names = self.core(0).memory().clock.phases();
        names
            .map(|name| {
                let rows = self.sum_causes(|memory, cause| memory.clock.account_in(name, cause));
                (if name.is_empty() { FIRST_PHASE } else { name }.to_owned(), rows)
            })
            .collect()
    }

    /// Cycles by processor mode, over all cores.
    pub fn modes(&self) -> Vec<(&'static str, u64)> {
        sum_by_key(self.cores().flat_map(|core| {
            let memory = core.memory();
            let modes = memory.statistics.cycles_by_mode(memory.now());
            modes.into_iter().map(|(mode, cycles)| (C::mode_name(mode), cycles))
        }))
    }

    /// Cycles by address space, over all cores.
    pub fn spaces(&self) -> Vec<(Space, u64)> {
        sum_by_key(self.cores().flat_map(|core| {
            let memory = core.memory();
            memory.statistics.cycles_by_space(memory.now())
        }))
    }
}

/// What a waiting core's turn came to.
enum Wait {
    /// Time passed: look again.
    Again,
    /// Time passed: another core is next.
    NextCore,
    /// The run ends.
    Stop(Stop),
}

/// Sums by key, in order of first appearance.
fn sum_by_key<K: PartialEq>(rows: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: Vec<(K, u64)> = Vec::new();
    for (key, value) in rows {
        match sums.iter_mut().find(|(known, _)| *known == key) {
            Some(place) => place.1 += value,
            None => sums.push((key, value)),
        }
    }
    sums
}
