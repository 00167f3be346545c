//! The debugger's side: gdb over TCP by the `gdbstub` crate (docs/debugging.md).
//!
//! Memory is shown as the core sees it, with what its data cache holds; `monitor physical` shows
//! what is in memory. Looking changes nothing: no TLB entry, no line, no cycle.

use std::marker::PhantomData;
use std::net::{TcpListener, TcpStream};

use gdbstub::arch::{Arch, RegId, Registers};
use gdbstub::common::Signal;
use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, SingleThreadStopReason};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::singlethread::{
    SingleThreadBase, SingleThreadResume, SingleThreadResumeOps, SingleThreadSingleStep,
    SingleThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint, SwBreakpointOps,
    WatchKind,
};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::{Target, TargetResult};

use crate::system::{Host, Stop, System};

/// Instructions between two looks at the connection.
const SLICE_INSTRUCTIONS: u64 = 1 << 20;

/// A watchpoint on modified virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchpoint {
    /// First byte.
    pub address: u32,
    /// Bytes.
    pub length: u32,
    /// Stop at loads.
    pub on_load: bool,
    /// Stop at stores.
    pub on_store: bool,
}

/// Registers that gdb shows: the core's, then the system control coprocessor's.
const SYSTEM_REGISTERS: [&str; 9] =
    ["spsr", "control", "table", "domains", "dfsr", "ifsr", "far", "pid", "context"];
const CORE_REGISTERS: usize = 17;
const ALL_REGISTERS: usize = CORE_REGISTERS + SYSTEM_REGISTERS.len();

/// The values of all registers, in gdb's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegisterValues([u32; ALL_REGISTERS]);

impl Registers for RegisterValues {
    type ProgramCounter = u32;

    fn pc(&self) -> u32 {
        self.0[15]
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        for value in self.0 {
            for byte in value.to_le_bytes() {
                write_byte(Some(byte));
            }
        }
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        let mut words = bytes.chunks_exact(4);
        for value in &mut self.0 {
            *value = u32::from_le_bytes(words.next().ok_or(())?.try_into().map_err(|_| ())?);
        }
        Ok(())
    }
}

/// Registers are read and written all together.
#[derive(Debug)]
pub enum NoSingleRegister {}

impl RegId for NoSingleRegister {
    fn from_raw_id(_: usize) -> Option<(NoSingleRegister, Option<std::num::NonZeroUsize>)> {
        None
    }
}

/// ARM as gdb is told of it.
#[derive(Debug)]
pub enum ArmWithSystemRegisters {}

impl Arch for ArmWithSystemRegisters {
    type Usize = u32;
    type Registers = RegisterValues;
    type BreakpointKind = usize;
    type RegId = NoSingleRegister;

    fn target_description_xml() -> Option<&'static str> {
        Some(include_str!("gdb_target.xml"))
    }
}

struct Debuggee<'a> {
    system: &'a mut System,
    host: &'a mut dyn Host,
    limit: u64,
    /// How the guest ended, if it did.
    ended: Option<Stop>,
}

impl Target for Debuggee<'_> {
    type Arch = ArmWithSystemRegisters;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::SingleThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadBase for Debuggee<'_> {
    fn read_registers(&mut self, values: &mut RegisterValues) -> TargetResult<(), Self> {
        let cpu = &self.system.cores[0];
        let [core @ .., spsr] = cpu.visible();
        values.0[..CORE_REGISTERS].copy_from_slice(&core);
        let system = &cpu.memory.registers;
        values.0[CORE_REGISTERS..].copy_from_slice(&[
            spsr,
            system.control,
            system.table,
            system.domains,
            system.data_fault_status,
            system.fetch_fault_status,
            system.fault_address,
            system.process >> 25,
            system.context,
        ]);
        Ok(())
    }

    fn write_registers(&mut self, values: &RegisterValues) -> TargetResult<(), Self> {
        let cpu = &mut self.system.cores[0];
        cpu.set_cpsr(values.0[16]);
        cpu.registers[..15].copy_from_slice(&values.0[..15]);
        cpu.memory.pc = values.0[15];
        cpu.set_spsr(values.0[CORE_REGISTERS]);
        Ok(())
    }

    fn read_addrs(&mut self, start: u32, data: &mut [u8]) -> TargetResult<usize, Self> {
        let System { cores, board, .. } = &mut *self.system;
        for (offset, byte) in data.iter_mut().enumerate() {
            match cores[0].memory.peek(board, start.wrapping_add(offset as u32)) {
                Some(value) => *byte = value,
                None => return Ok(offset),
            }
        }
        Ok(data.len())
    }

    fn write_addrs(&mut self, start: u32, data: &[u8]) -> TargetResult<(), Self> {
        let System { cores, board, .. } = &mut *self.system;
        for (offset, &byte) in data.iter().enumerate() {
            let address = start.wrapping_add(offset as u32);
            cores[0].memory.poke(board, address, byte).ok_or(())?;
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<SingleThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadResume for Debuggee<'_> {
    fn resume(&mut self, _: Option<Signal>) -> Result<(), Self::Error> {
        self.system.debugging.step = false;
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<SingleThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadSingleStep for Debuggee<'_> {
    fn step(&mut self, _: Option<Signal>) -> Result<(), Self::Error> {
        self.system.debugging.step = true;
        Ok(())
    }
}

impl Breakpoints for Debuggee<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee<'_> {
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

fn watchpoint(address: u32, length: u32, kind: WatchKind) -> Watchpoint {
    Watchpoint {
        address,
        length,
        on_load: matches!(kind, WatchKind::Read | WatchKind::ReadWrite),
        on_store: matches!(kind, WatchKind::Write | WatchKind::ReadWrite),
    }
}

impl HwWatchpoint for Debuggee<'_> {
    fn add_hw_watchpoint(
        &mut self,
        address: u32,
        length: u32,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let checking = self.system.board.checker.is_some();
        let memory = &mut self.system.cores[0].memory;
        memory.watchpoints.push(watchpoint(address, length, kind));
        memory.update_watching(checking);
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u32,
        length: u32,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let checking = self.system.board.checker.is_some();
        let memory = &mut self.system.cores[0].memory;
        let gone = watchpoint(address, length, kind);
        memory.watchpoints.retain(|known| *known != gone);
        memory.update_watching(checking);
        Ok(true)
    }
}

impl MonitorCmd for Debuggee<'_> {
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
        let System { cores, board, .. } = &mut *self.system;
        let memory = &mut cores[0].memory;
        match words[..] {
            ["physical", address, ref rest @ ..] => {
                let (Some(address), count) =
                    (number(&address), rest.first().and_then(number).unwrap_or(4))
                else {
                    gdbstub::outputln!(out, "monitor physical ADDRESS [WORDS], in hexadecimal");
                    return Ok(());
                };
                for index in 0..count.min(1024) {
                    let at = (address & !3).wrapping_add(index * 4);
                    match board.ram.get((at >> 2) as usize) {
                        Some(word) => gdbstub::outputln!(out, "{at:#010x}: {word:#010x}"),
                        None => gdbstub::outputln!(out, "{at:#010x}: not in RAM"),
                    }
                }
            }
            ["translate", address] => match number(&address) {
                Some(address) => {
                    gdbstub::outputln!(out, "{}", memory.describe_translation(board, address));
                }
                None => gdbstub::outputln!(out, "monitor translate ADDRESS, in hexadecimal"),
            },
            ["tlb"] => {
                for line in memory.describe_tlbs() {
                    gdbstub::outputln!(out, "{line}");
                }
            }
            ["cycles"] => gdbstub::outputln!(
                out,
                "{} cycles, {} instructions",
                memory.now(),
                memory.instructions()
            ),
            _ => gdbstub::outputln!(
                out,
                "physical ADDRESS [WORDS]: what is in memory, past the caches\n\
                 translate ADDRESS: what the TLB and the tables say, and what the caches hold\n\
                 tlb: the entries of the TLBs\n\
                 cycles: the time"
            ),
        }
        Ok(())
    }
}

struct EventLoop<'a>(PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for EventLoop<'a> {
    type Target = Debuggee<'a>;
    type Connection = TcpStream;
    type StopReason = SingleThreadStopReason<u32>;

    fn wait_for_stop_reason(
        target: &mut Debuggee<'a>,
        connection: &mut TcpStream,
    ) -> Result<
        Event<Self::StopReason>,
        WaitForStopReasonError<&'static str, <TcpStream as Connection>::Error>,
    > {
        loop {
            if connection.peek().map_err(WaitForStopReasonError::Connection)?.is_some() {
                let byte = connection.read().map_err(WaitForStopReasonError::Connection)?;
                return Ok(Event::IncomingData(byte));
            }
            let until = target.limit.min(target.system.instructions() + SLICE_INSTRUCTIONS);
            let stop = target.system.run(target.host, until);
            let step = target.system.debugging.step;
            let reason = match stop {
                Stop::Limit if until < target.limit => continue,
                Stop::Debugger => match target.system.cores[0].memory.watch_hit.take() {
                    Some((address, store)) => SingleThreadStopReason::Watch {
                        tid: (),
                        kind: if store { WatchKind::Write } else { WatchKind::Read },
                        addr: address,
                    },
                    None if step => SingleThreadStopReason::DoneStep,
                    None => SingleThreadStopReason::SwBreak(()),
                },
                other => {
                    target.ended = Some(other);
                    let status = if let Stop::Exit(status) = other { status } else { 0 };
                    SingleThreadStopReason::Exited(status)
                }
            };
            return Ok(Event::TargetStopped(reason));
        }
    }

    fn on_interrupt(_: &mut Debuggee<'a>) -> Result<Option<Self::StopReason>, &'static str> {
        Ok(Some(SingleThreadStopReason::Signal(Signal::SIGINT)))
    }
}

/// Waits for gdb on a TCP port of this host, and runs the machine under it. When gdb detaches, the
/// machine runs on by itself.
///
/// # Errors
/// The port cannot be had, or the connection broke; the message says so.
pub fn serve(
    system: &mut System,
    host: &mut dyn Host,
    port: u16,
    limit: u64,
) -> Result<Stop, String> {
    let listener = TcpListener::bind(("127.0.0.1", port))
        .map_err(|error| format!("gdb port {port}: {error}"))?;
    let (connection, _) = listener.accept().map_err(|error| format!("gdb port {port}: {error}"))?;
    let mut debuggee = Debuggee { system, host, limit, ended: None };
    let stub = GdbStub::new(connection);
    let end = stub.run_blocking::<EventLoop<'_>>(&mut debuggee);
    let Debuggee { system, host, ended, .. } = debuggee;
    system.debugging = crate::system::Debugging::default();
    system.cores[0].memory.watchpoints.clear();
    let checking = system.board.checker.is_some();
    system.cores[0].memory.update_watching(checking);
    match (ended, end) {
        (Some(stop), _) => Ok(stop),
        (None, Ok(DisconnectReason::Disconnect)) => Ok(system.run(host, limit)),
        (None, Ok(_)) => Ok(Stop::Interrupted),
        (None, Err(error)) => Err(format!("gdb: {error}")),
    }
}
