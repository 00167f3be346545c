//! The debugger's side: gdb over TCP by the `gdbstub` crate (docs/debugging.md).
//!
//! Each core is a thread, numbered from 1. Memory is shown as the chosen core sees it, with what
//! its data cache holds; `monitor physical` shows what is in memory. Looking changes nothing: no
//! TLB entry, no line, no cycle.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::time::Duration;

use gdbstub::arch::{Arch, RegId, Registers};
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps,
    SwBreakpoint, SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetResult};

use crate::core::Core;
use crate::observer::{Watchpoint, Watchpoints};
use crate::system::{Host, Stop, System};

/// Instructions between two looks at the connection.
const SLICE_INSTRUCTIONS: u64 = 1 << 20;
/// Time between two looks at the host while nothing runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The stub's buffer.
const LONGEST_PACKET_BYTES: usize = 4096;
/// The answer to a packet that the stub has acknowledged and cannot take.
const ERROR_PACKET: &[u8] = b"$E01#a6";
/// Words that `monitor physical` shows at most.
const MAX_SHOWN_WORDS: u32 = 1 << 10;
/// The answer to gdb's `kill`, which the stub leaves out.
const KILLED_PACKET: &[u8] = b"$OK#9a";

/// The values of all registers, in gdb's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegisterValues {
    values: Vec<u32>,
    program_counter: usize,
}

impl Registers for RegisterValues {
    type ProgramCounter = u32;

    fn pc(&self) -> u32 {
        self.values.get(self.program_counter).copied().unwrap_or(0)
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for value in &self.values {
            for byte in value.to_le_bytes() {
                write_byte(Some(byte));
            }
        }
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.values = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Ok(())
    }
}

/// The number by which gdb knows a register.
#[derive(Debug)]
pub struct RegisterNumber(usize);

impl RegId for RegisterNumber {
    fn from_raw_id(number: usize) -> Option<(RegisterNumber, Option<NonZeroUsize>)> {
        Some((RegisterNumber(number), NonZeroUsize::new(size_of::<u32>())))
    }
}

/// An instruction set as gdb is told of it.
pub struct InstructionSet<C>(PhantomData<C>);

impl<C: Core> Arch for InstructionSet<C> {
    type Usize = u32;
    type Registers = RegisterValues;
    type BreakpointKind = usize;
    type RegId = RegisterNumber;

    fn target_description_xml() -> Option<&'static str> {
        Some(C::TARGET_DESCRIPTION)
    }
}

struct Debuggee<'a, C: Core> {
    system: &'a mut System<C>,
    host: &'a mut dyn Host,
    limit: u64,
    /// The core that the monitor's commands are about.
    shown: usize,
    /// The cores that gdb asked to continue or to step.
    resumed: Vec<usize>,
    /// The core whose access a watchpoint has just stopped.
    accessed: Option<usize>,
    /// How the guest ended, if it did.
    ended: Option<Stop>,
}

impl<C: Core> Target for Debuggee<'_, C> {
    type Arch = InstructionSet<C>;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

/// The thread that a core is.
fn thread_of(core: usize) -> Tid {
    NonZeroUsize::MIN.saturating_add(core)
}

impl<C: Core> Debuggee<'_, C> {
    /// The core that a thread is.
    fn core_of(&self, thread: Tid) -> Result<usize, ()> {
        let core = thread.get() - 1;
        if core < self.system.bus.cores.len() { Ok(core) } else { Err(()) }
    }

    /// Lets the core that a thread is run on.
    fn resume(&mut self, thread: Tid) -> Result<usize, &'static str> {
        let core = self.core_of(thread).map_err(|()| "there is no such core")?;
        self.resumed.push(core);
        Ok(core)
    }
}

impl<C: Core> MultiThreadBase for Debuggee<'_, C> {
    fn read_registers(
        &mut self,
        values: &mut RegisterValues,
        thread: Tid,
    ) -> TargetResult<(), Self> {
        values.values = self.system.core(self.core_of(thread)?).debug_registers();
        values.program_counter = C::DEBUG_PROGRAM_COUNTER;
        Ok(())
    }

    fn write_registers(&mut self, values: &RegisterValues, thread: Tid) -> TargetResult<(), Self> {
        let core = self.core_of(thread)?;
        if values.values.len() < self.system.core(core).debug_registers().len() {
            return Err(().into());
        }
        self.system.core_mut(core).set_debug_registers(&values.values);
        Ok(())
    }

    fn read_addrs(
        &mut self,
        start: u32,
        data: &mut [u8],
        thread: Tid,
    ) -> TargetResult<usize, Self> {
        let memory = self.system.core(self.core_of(thread)?).memory();
        for (offset, byte) in data.iter_mut().enumerate() {
            match memory.peek(&self.system.bus, start.wrapping_add(offset as u32)) {
                Some(value) => *byte = value,
                None => return Ok(offset),
            }
        }
        Ok(data.len())
    }

    fn write_addrs(&mut self, start: u32, data: &[u8], thread: Tid) -> TargetResult<(), Self> {
        let core = self.core_of(thread)?;
        self.system.with_core(core, |core, bus| {
            for (offset, &byte) in data.iter().enumerate() {
                let address = start.wrapping_add(offset as u32);
                core.memory_mut().poke(bus, address, byte).ok_or(())?;
            }
            Ok(())
        })
    }

    fn list_active_threads(&mut self, is_active: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        (0..self.system.bus.cores.len()).for_each(|core| is_active(thread_of(core)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

/// gdb writes one register alone: with all of them it would also write those that it showed before
/// the mode changed, into the other mode's banks.
impl<C: Core> SingleRegisterAccess<Tid> for Debuggee<'_, C> {
    fn read_register(
        &mut self,
        thread: Tid,
        RegisterNumber(number): RegisterNumber,
        bytes: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let core = self.system.core(self.core_of(thread)?);
        let place = C::debug_register(number).ok_or(())?;
        let value = core.debug_registers().get(place).copied().ok_or(())?.to_le_bytes();
        bytes.get_mut(..value.len()).ok_or(())?.copy_from_slice(&value);
        Ok(value.len())
    }

    fn write_register(
        &mut self,
        thread: Tid,
        RegisterNumber(number): RegisterNumber,
        bytes: &[u8],
    ) -> TargetResult<(), Self> {
        let core = self.core_of(thread)?;
        let place = C::debug_register(number).ok_or(())?;
        let value = bytes.try_into().map(u32::from_le_bytes).map_err(|_| ())?;
        let is_set = self.system.core_mut(core).set_debug_register(place, value);
        if is_set { Ok(()) } else { Err(().into()) }
    }
}

impl<C: Core> ThreadExtraInfo for Debuggee<'_, C> {
    fn thread_extra_info(&self, thread: Tid, text: &mut [u8]) -> Result<usize, Self::Error> {
        let core = self.core_of(thread).map_err(|()| "there is no such core")?;
        let state = if self.system.bus.is_on(core) { "on" } else { "off" };
        let said = format!("core {core}, {state}");
        let length = said.len().min(text.len());
        text[..length].copy_from_slice(&said.as_bytes()[..length]);
        Ok(length)
    }
}

impl<C: Core> MultiThreadResume for Debuggee<'_, C> {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.resumed.clear();
        self.system.debugging.step = None;
        self.system.debugging.only = None;
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        thread: Tid,
        _: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.resume(thread)?;
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl<C: Core> MultiThreadSingleStep for Debuggee<'_, C> {
    fn set_resume_action_step(
        &mut self,
        thread: Tid,
        _: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.system.debugging.step = Some(self.resume(thread)?);
        Ok(())
    }
}

impl<C: Core> MultiThreadSchedulerLocking for Debuggee<'_, C> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        // Some of several cores cannot be stopped while others run: one alone, or all.
        if let [only] = self.resumed[..] {
            self.system.debugging.only = Some(only);
        }
        Ok(())
    }
}

impl<C: Core> Breakpoints for Debuggee<'_, C> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl<C: Core> SwBreakpoint for Debuggee<'_, C> {
    fn add_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        self.system.debugging.breakpoints.push(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        let breakpoints = &mut self.system.debugging.breakpoints;
        let before = breakpoints.len();
        breakpoints.retain(|&known| known != address);
        Ok(breakpoints.len() != before)
    }
}

/// The machine has as many as gdb wants, and none changes the guest's memory: both kinds are one.
impl<C: Core> HwBreakpoint for Debuggee<'_, C> {
    fn add_hw_breakpoint(&mut self, address: u32, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(address, kind)
    }

    fn remove_hw_breakpoint(&mut self, address: u32, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(address, kind)
    }
}

fn watchpoint(address: u32, length: u32, kind: WatchKind) -> Watchpoint {
    Watchpoint {
        address,
        length,
        on_load: matches!(kind, WatchKind::Read | WatchKind::ReadWrite),
        on_store: matches!(kind, WatchKind::Write | WatchKind::ReadWrite),
    }
}

impl<C: Core> HwWatchpoint for Debuggee<'_, C> {
    fn add_hw_watchpoint(
        &mut self,
        address: u32,
        length: u32,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let new = watchpoint(address, length, kind);
        self.system.change_observers(|observers| observers.watchpoints.points.push(new));
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u32,
        length: u32,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let gone = watchpoint(address, length, kind);
        self.system.change_observers(|observers| {
            observers.watchpoints.points.retain(|known| *known != gone);
        });
        Ok(true)
    }
}

impl<C: Core> MonitorCmd for Debuggee<'_, C> {
    fn handle_monitor_cmd(
        &mut self,
        command: &[u8],
        mut out: ConsoleOutput<'_>,
    ) -> Result<(), Self::Error> {
        let command = String::from_utf8_lossy(command);
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |text: &&str| {
            let digits = text.trim_start_matches("0x");
            u32::from_str_radix(digits, 16).ok()
        };
        let cores = self.system.bus.cores.len();
        if let ["core", chosen] = words[..] {
            match chosen.parse().ok().filter(|&core: &usize| core < cores) {
                Some(core) => self.shown = core,
                None => gdbstub::outputln!(out, "monitor core N, from 0 to {}", cores - 1),
            }
            return Ok(());
        }
        let bus = &self.system.bus;
        let memory = self.system.core(self.shown).memory();
        if let (["translate", _] | ["tlb"] | ["cycles"], 2..) = (&words[..], cores) {
            gdbstub::outputln!(out, "core {}:", self.shown);
        }
        match words[..] {
            ["physical", address, ref rest @ ..] => {
                let count = match rest {
                    [] => Some(4),
                    [count] => number(count).filter(|&count| count <= MAX_SHOWN_WORDS),
                    _ => None,
                };
                let (Some(address), Some(count)) = (number(&address), count) else {
                    let wrong = number(&address).map_or(address.into(), |_| rest.join(" "));
                    gdbstub::outputln!(
                        out,
                        "{wrong} is wrong: monitor physical ADDRESS [WORDS], in hexadecimal, up to {MAX_SHOWN_WORDS:x} words"
                    );
                    return Ok(());
                };
                let first = address & !3;
                for at in (0..count).map_while(|index| first.checked_add(index * 4)) {
                    match bus.ram.get(at) {
                        Some(word) => gdbstub::outputln!(out, "{at:#010x}: {word:#010x}"),
                        None => gdbstub::outputln!(out, "{at:#010x}: not in RAM"),
                    }
                }
            }
            ["translate", address] => match number(&address) {
                Some(address) => {
                    gdbstub::outputln!(out, "{}", memory.describe_translation(bus, address));
                }
                None => gdbstub::outputln!(
                    out,
                    "{address} is wrong: monitor translate ADDRESS, in hexadecimal"
                ),
            },
            ["tlb"] => {
                let lines = memory.describe_tlbs();
                if lines.is_empty() {
                    gdbstub::outputln!(out, "no entries");
                }
                for line in lines {
                    gdbstub::outputln!(out, "{line}");
                }
            }
            ["cycles"] => gdbstub::outputln!(
                out,
                "{} cycles, {} instructions",
                memory.now(),
                memory.clock.instructions()
            ),
            _ => gdbstub::outputln!(
                out,
                "physical ADDRESS [WORDS], in hexadecimal: what is in memory, past the caches\n\
                 translate ADDRESS, in hexadecimal: what the tables, the TLBs and the data cache hold for it\n\
                 tlb: the entries of the TLBs\n\
                 cycles: the time\n\
                 core N: the core that the others tell of, {} now",
                self.shown
            ),
        }
        Ok(())
    }
}

/// What came from gdb.
enum Received {
    /// A whole packet, or a single byte that is one: an acknowledgement or an interrupt.
    Packet(Vec<u8>),
    /// A packet whose checksum is wrong, or one that is too long.
    Damaged,
    /// Nothing yet.
    Nothing,
    /// The connection is gone.
    Closed,
}

/// Puts packets together from what comes in, so that the stub sees whole ones only.
struct Packets {
    stream: TcpStream,
    /// Came in and is not looked at yet.
    waiting: VecDeque<u8>,
    /// The packet that is being put together, from its `$` on.
    packet: Vec<u8>,
}

impl Packets {
    /// The next packet; waits for [`LOOK_INTERVAL`] at most if `wait`, else not at all.
    fn next(&mut self, wait: bool) -> Received {
        loop {
            while let Some(byte) = self.waiting.pop_front() {
                if let Some(received) = self.take(byte) {
                    return received;
                }
            }
            let mut bytes = [0; 1024];
            let count = self
                .stream
                .set_nonblocking(!wait)
                .and_then(|()| self.stream.read(&mut bytes))
                .and_then(|count| self.stream.set_nonblocking(false).map(|()| count));
            match count {
                Ok(0) => return Received::Closed,
                Ok(count) => self.waiting.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    // The stub writes, and waits for that.
                    let blocking = self.stream.set_nonblocking(false);
                    return if blocking.is_ok() { Received::Nothing } else { Received::Closed };
                }
                Err(_) => return Received::Closed,
            }
        }
    }

    fn take(&mut self, byte: u8) -> Option<Received> {
        if self.packet.is_empty() {
            match byte {
                b'$' => self.packet.push(byte),
                // An acknowledgement, or the interrupt.
                b'+' | 3 => return Some(Received::Packet(vec![byte])),
                // The stub cannot send anything again, and TCP loses nothing; noise is passed over.
                _ => {}
            }
            return None;
        }
        self.packet.push(byte);
        let end = self.packet.len().checked_sub(3).filter(|&end| self.packet[end] == b'#');
        if end.is_none() && self.packet.len() < LONGEST_PACKET_BYTES {
            return None;
        }
        let packet = std::mem::take(&mut self.packet);
        let sound = end.is_some_and(|end| {
            let sum = packet[1..end].iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
            let digits = std::str::from_utf8(&packet[end + 1..]);
            digits.is_ok_and(|digits| u8::from_str_radix(digits, 16) == Ok(sum))
        });
        Some(if sound { Received::Packet(packet) } else { Received::Damaged })
    }
}

/// How a session with gdb ended.
enum End {
    /// The guest or the user ended the run, or gdb killed it.
    Stop(Stop),
    /// gdb left: the machine runs on.
    Left,
}

type Session<'a, 'b, C> = GdbStubStateMachine<'a, Debuggee<'b, C>, TcpStream>;

/// What follows a step of a session.
enum Turn<'a, 'b, C: Core> {
    GoOn(Session<'a, 'b, C>),
    End(End),
    /// The stub could not take a packet, and gave up.
    Refused,
}

impl<C: Core> Debuggee<'_, C> {
    /// Runs until the next look at the connection; why it stopped, if it did.
    fn run_slice(&mut self) -> Option<MultiThreadStopReason<u32>> {
        // Of an ARM gdb expects to be told before the access, and steps over the instruction before
        // it looks (`have_nonsteppable_watchpoint` of its arm-tdep.c). Here that has executed: the
        // step is done.
        if let Some(core) = self.accessed.take()
            && self.system.debugging.step == Some(core)
        {
            let (tid, signal) = (thread_of(core), Signal::SIGTRAP);
            return Some(MultiThreadStopReason::SignalWithThread { tid, signal });
        }
        let until = self.limit.min(self.system.instructions() + SLICE_INSTRUCTIONS);
        let stop = self.system.run(self.host, until);
        let stopped = self.system.debugging.stopped;
        let thread = thread_of(stopped);
        let own = self.system.debugging.step == Some(stopped)
            || self.system.debugging.only == Some(stopped);
        Some(match stop {
            Stop::Limit if until < self.limit => return None,
            Stop::Debugger => match self.system.take_watch_hit() {
                Some(hit) => {
                    self.accessed = Some(hit.core);
                    MultiThreadStopReason::Watch {
                        tid: thread_of(hit.core),
                        kind: if hit.store { WatchKind::Write } else { WatchKind::Read },
                        addr: hit.address,
                    }
                }
                None if own => {
                    MultiThreadStopReason::SignalWithThread { tid: thread, signal: Signal::SIGTRAP }
                }
                None => MultiThreadStopReason::SwBreak(thread),
            },
            other => {
                self.ended = Some(other);
                let status = if let Stop::Exit(status) = other { status } else { 0 };
                MultiThreadStopReason::Exited(status)
            }
        })
    }
}

/// One step: a packet, some instructions of the guest, or a moment of waiting.
fn take_turn<'a, 'b, C: Core>(
    session: Session<'a, 'b, C>,
    target: &mut Debuggee<'b, C>,
    packets: &mut Packets,
) -> Turn<'a, 'b, C> {
    let running = matches!(session, GdbStubStateMachine::Running(_));
    let next = match session {
        GdbStubStateMachine::Disconnected(inner) => {
            return Turn::End(match (target.ended, inner.get_reason()) {
                (Some(stop), _) => End::Stop(stop),
                (None, DisconnectReason::Disconnect) => End::Left,
                (None, _) => {
                    // gdb may be gone already.
                    let _ = packets.stream.write_all(KILLED_PACKET);
                    End::Stop(Stop::Debugger)
                }
            });
        }
        GdbStubStateMachine::CtrlCInterrupt(inner) => {
            let reason = MultiThreadStopReason::Signal(Signal::SIGINT);
            inner.interrupt_handled(target, Some(reason))
        }
        session => match packets.next(!running) {
            Received::Packet(bytes) => feed(session, target, &bytes),
            Received::Damaged => {
                // gdb sends it again.
                let answered = packets.stream.write_all(b"-");
                return if answered.is_ok() { Turn::GoOn(session) } else { Turn::End(End::Left) };
            }
            Received::Closed => return Turn::End(End::Left),
            Received::Nothing => match session {
                GdbStubStateMachine::Running(inner) => match target.run_slice() {
                    Some(reason) => inner.report_stop(target, reason),
                    None => Ok(inner.into()),
                },
                _ if target.host.interrupted() => {
                    return Turn::End(End::Stop(Stop::Interrupted));
                }
                session => Ok(session),
            },
        },
    };
    match next {
        Ok(session) => Turn::GoOn(session),
        Err(error) if error.is_connection_error() => Turn::End(End::Left),
        Err(_) => Turn::Refused,
    }
}

fn feed<'a, 'b, C: Core>(
    mut session: Session<'a, 'b, C>,
    target: &mut Debuggee<'b, C>,
    bytes: &[u8],
) -> Result<Session<'a, 'b, C>, GdbStubError<&'static str, std::io::Error>> {
    for &byte in bytes {
        session = match session {
            GdbStubStateMachine::Idle(inner) => inner.incoming_data(target, byte)?,
            GdbStubStateMachine::Running(inner) => inner.incoming_data(target, byte)?,
            other => other,
        };
    }
    Ok(session)
}

/// Talks with gdb until one of the two leaves. A packet that the stub cannot take is answered by an
/// error, and a new stub continues.
fn converse<C: Core>(target: &mut Debuggee<'_, C>, packets: &mut Packets) -> std::io::Result<End> {
    loop {
        let stub = GdbStub::new(packets.stream.try_clone()?);
        let Ok(mut session) = stub.run_state_machine(target) else { return Ok(End::Left) };
        loop {
            session = match take_turn(session, target, packets) {
                Turn::GoOn(session) => session,
                Turn::End(end) => return Ok(end),
                Turn::Refused => {
                    packets.stream.write_all(ERROR_PACKET)?;
                    break;
                }
            };
        }
    }
}

/// Waits for gdb; `None` if the user wants the run to end instead.
fn accept(listener: &TcpListener, host: &mut dyn Host) -> std::io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LOOK_INTERVAL))?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if host.interrupted() {
                    return Ok(None);
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for gdb on a TCP port of this host, and runs the machine under it. When gdb detaches or
/// its connection breaks, the machine runs on by itself.
///
/// # Errors
/// The port cannot be had; the message says so.
pub fn serve<C: Core>(
    system: &mut System<C>,
    host: &mut dyn Host,
    port: u16,
    limit: u64,
) -> Result<Stop, String> {
    let no_port =
        |error: std::io::Error| format!("gdb port {port}: {error}; choose another, from 1024 on");
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(no_port)?;
    host.waits_for_debugger(port);
    let Some(stream) = accept(&listener, host).map_err(no_port)? else {
        return Ok(Stop::Interrupted);
    };
    let mut packets = Packets { stream, waiting: VecDeque::new(), packet: Vec::new() };
    let mut debuggee = Debuggee {
        system,
        host,
        limit,
        shown: 0,
        resumed: Vec::new(),
        accessed: None,
        ended: None,
    };
    let end = converse(&mut debuggee, &mut packets).unwrap_or(End::Left);
    let Debuggee { system, host, .. } = debuggee;
    system.debugging = crate::system::Debugging::default();
    system.change_observers(|observers| observers.watchpoints = Watchpoints::default());
    Ok(match end {
        End::Stop(stop) => stop,
        End::Left => system.run(host, limit),
    })
}
