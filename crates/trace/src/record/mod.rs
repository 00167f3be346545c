//! Records a program by running it under the Valgrind tool of `recorders/valgrind`, or under QEMU
//! with the plugin of `recorders/qemu`.

mod channel;
mod interrupt;
mod program;
mod stream;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use channel::{Channel, Listener, Newcomer};
use interrupt::{Interrupt, InterruptGuard};
use program::{InstructionSet, QEMU_PLUGIN, Runner, VALGRIND_TOOL};
use stream::{Progress, RunStream};

use crate::mmt::{check_unlocked, create_beside};
use crate::{Batch, BlockTable, Metadata, MmtWriter, Source, Termination, Totals, TraceError};

/// What a program gets after an interrupt to end by itself.
const GRACE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// What to record, and how.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The file to write. Other processes, if they are followed, go into files beside it: `t.mmt`
    /// is the first process, `t.1.mmt` its first child, `t.1.2.mmt` the second child of that one.
    /// What an earlier recording left under such names is removed.
    pub output: PathBuf,
    /// Record also what the program forks and executes.
    pub follow_children: bool,
    /// A process that has executed this many instructions is ended.
    pub max_instructions: Option<u64>,
    /// The folder with the Valgrind tool and the plugin for QEMU, made by `make recorder`.
    pub tool_directory: PathBuf,
    /// Let QEMU run the program though Valgrind could.
    pub qemu: bool,
    /// The program's environment in place of ours. Its memory then lies in the same place in
    /// whatever folder this runs: the stack begins below the environment, in which Valgrind names
    /// the folder of its tools, and a shell its own.
    pub environment: Option<Vec<(String, String)>>,
}

/// What a recording gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How the program ended.
    pub termination: Termination,
    /// Sums over the first process.
    pub totals: Totals,
    /// All files written, the first process first, each of the others before its children.
    pub files: Vec<PathBuf>,
    /// Whether an interrupt came, even one that found the program at its end.
    pub interrupt_came: bool,
    /// How long the program ran.
    pub seconds: f64,
    /// What Valgrind had to say, line by line, for instance of instructions that it does not know;
    /// mostly empty.
    pub messages: Vec<String>,
}

/// Records a program into a file (or several, where children are followed).
///
/// `progress` is called a few times a second with the instructions written so far; it returns
/// whether to continue. An interrupt (SIGINT, SIGTERM or SIGHUP) likewise ends the recording
/// cleanly: the file is complete up to that point.
///
/// # Errors
/// Valgrind, the tool or the program is not there, or the file cannot be written.
pub fn record(
    options: &RecordOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Summary, TraceError> {
    let start = Instant::now();
    check_writable(&options.output)?;
    let mut session = Session::start(options)?;
    let first = session.first_stream()?;
    let shared = session.shared.clone();
    let mut command = vec![options.program.clone()];
    command.extend_from_slice(&options.args);
    let recorded = record_process(&shared, first, String::new(), command, &mut |instructions| {
        if !progress(instructions) {
            shared.stop();
        }
    })
    .map_err(|error| not_written(options, error))?;
    session.wait_for_children()?;
    let (mut termination, messages) = session.finish(recorded.termination == Termination::Limit)?;
    // Its children may have been interrupted later.
    if let (Termination::Interrupted, Termination::Exited(_)) =
        (&termination, &recorded.termination)
    {
        termination = recorded.termination;
    }
    if let (true, Termination::Exited(code)) = (recorded.replaced, &termination) {
        termination = Termination::Replaced(*code);
    }
    let mut state = session.shared.state();
    state.files.sort_by_key(|file| numbers_of(file));
    let mut files = vec![options.output.clone()];
    files.extend(state.files.drain(..).filter(|file| *file != options.output));
    // Only now the program's end is known, and its file can be brought to its own.
    let finished = recorded.writer.finish(termination);
    let totals = finished.map_err(|error| not_written(options, error))?;
    if totals.instructions == 0 && termination != Termination::Interrupted {
        // QEMU lets the plugin begin before it finds that it cannot load the program.
        let _ = fs::remove_file(&options.output);
        return Err(TraceError::Recording {
            program: options.program.clone(),
            problem: format!(
                "{} executed nothing of it ({}); is the program's file whole?",
                shared.runner_name,
                termination.describe()
            ),
        });
    }
    Ok(Summary {
        termination,
        totals,
        files,
        interrupt_came: interrupt::received().is_some(),
        seconds: start.elapsed().as_secs_f64(),
        messages,
    })
}

/// The same error with what becomes of the program and of the trace, where the disk is full.
fn not_written(options: &RecordOptions, error: TraceError) -> TraceError {
    if !matches!(error, TraceError::Io { .. }) || !error.is_failure() {
        return error;
    }
    TraceError::Recording {
        program: options.program.clone(),
        problem: format!(
            "{error}; the program was ended; free space, or write elsewhere (--partial reads what \
             is whole of a file that is kept)"
        ),
    }
}

/// Starts a program and gives what it executes as a source, without a file.
///
/// # Errors
/// Valgrind, the tool or the program is not there.
pub fn record_live(options: &RecordOptions) -> Result<LiveRecording, TraceError> {
    let options = RecordOptions { follow_children: false, ..options.clone() };
    let mut command = vec![options.program.clone()];
    command.extend_from_slice(&options.args);
    let mut session = Session::start(&options)?;
    let stream = session.first_stream()?;
    Ok(LiveRecording { session, stream, command, ended: false, termination: None })
}

/// A program that runs, as a source. Dropping it ends the program.
pub struct LiveRecording {
    session: Session,
    stream: RunStream,
    command: Vec<String>,
    ended: bool,
    termination: Option<Termination>,
}

impl LiveRecording {
    /// How the program ended; known after the last batch.
    pub fn termination(&self) -> Option<Termination> {
        self.termination
    }
}

impl Source for LiveRecording {
    fn table(&self) -> &BlockTable {
        self.stream.table()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        while !self.ended {
            match self.session.shared.fill(&mut self.stream, batch)? {
                Progress::Full => break,
                Progress::Waiting => {}
                Progress::Ended => {
                    self.ended = true;
                    self.termination = Some(self.session.finish(self.stream.is_cut())?.0);
                }
            }
        }
        batch.find_crossings(self.table().blocks());
        Ok(!batch.blocks.is_empty() || !batch.events.is_empty())
    }

    fn command(&self) -> &[String] {
        &self.command
    }
}

/// A file whose recording has ended, but not yet the program.
struct Recorded {
    writer: MmtWriter,
    /// How the process ended, as far as its own stream tells.
    termination: Termination,
    /// Whether it loaded another program, which is not in the file.
    replaced: bool,
}

/// Records one process to the end of its stream, through all programs that it loads.
fn record_process(
    shared: &Arc<Shared>,
    mut stream: RunStream,
    suffix: String,
    command: Vec<String>,
    progress: &mut dyn FnMut(u64),
) -> Result<Recorded, TraceError> {
    let output = child_path(&shared.options.output, &suffix);
    let metadata = Metadata {
        command,
        recorder: format!("mmulab {} with {}", env!("CARGO_PKG_VERSION"), shared.runner_name),
        instruction_set: shared.instruction_set.into(),
    };
    let mut writer = MmtWriter::create(&output, &metadata)?;
    shared.state().files.push(output);
    let mut batch = Batch::default();
    let mut last_report = Instant::now();
    loop {
        let state = shared.fill(&mut stream, &mut batch)?;
        writer.write(stream.table(), &batch)?;
        batch.clear();
        if last_report.elapsed() >= TICK {
            last_report = Instant::now();
            progress(writer.instructions());
        }
        if state == Progress::Ended {
            let next = shared
                .options
                .follow_children
                .then(|| stream.exec())
                .flatten()
                .and_then(|forks_made| shared.wait_for_exec(stream.process(), forks_made));
            match next {
                Some((channel, command)) => {
                    stream.exec_done(channel, &mut batch);
                    writer.set_command(command);
                    writer.write(stream.table(), &batch)?;
                    batch.clear();
                }
                None => {
                    let termination = shared.termination_of(&stream);
                    return Ok(Recorded { writer, termination, replaced: stream.exec().is_some() });
                }
            }
        }
    }
}

/// `t.mmt` with suffix `.1.2` is `t.1.2.mmt`.
fn child_path(output: &Path, suffix: &str) -> PathBuf {
    if suffix.is_empty() {
        return output.to_owned();
    }
    let mut name = output.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

/// The numbers in the name of a process's file: a process stands before its children, the tenth
/// child after the second.
fn numbers_of(file: &Path) -> (Vec<u32>, PathBuf) {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let numbers: Vec<u32> = name.rsplit('.').map_while(|part| part.parse().ok()).collect();
    (numbers.into_iter().rev().collect(), file.to_owned())
}

/// Removes the files of child processes that an earlier recording into `output` left.
fn remove_children(output: &Path) -> std::io::Result<()> {
    let Some(stem) = output.file_stem().and_then(|stem| stem.to_str()) else { return Ok(()) };
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let numbers = path
            .file_stem()
            .and_then(|name| name.to_str()?.strip_prefix(stem)?.strip_prefix('.'))
            .unwrap_or_default();
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if path.extension() == output.extension() && numbers.split('.').all(is_number) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A running recording: Valgrind or QEMU, the program in it, and the processes that it makes.
struct Session {
    shared: Arc<Shared>,
    runner: Child,
    log: fs::File,
    /// The tool's folder, where Valgrind knows it by this descriptor.
    _tools: Option<fs::File>,
    acceptor: Option<JoinHandle<()>>,
    _interrupts: InterruptGuard,
    reaped: Option<(Termination, Vec<String>)>,
}

/// What the threads of a recording share.
struct Shared {
    options: RecordOptions,
    /// Valgrind or QEMU.
    runner_name: &'static str,
    instruction_set: &'static str,
    state: Mutex<State>,
    changed: Condvar,
    /// The acceptor may end.
    closing: AtomicBool,
    /// The user wants an end; when that was in milliseconds since `start`, plus one.
    stop_requested: AtomicU64,
    start: Instant,
}

#[derive(Default)]
struct State {
    /// Processes that announced a program and wait for their memory.
    newcomers: HashMap<u32, Newcomer>,
    /// How the name of each process continues after the first one's.
    suffixes: HashMap<u32, String>,
    children: Vec<JoinHandle<Result<Totals, TraceError>>>,
    files: Vec<PathBuf>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Asks for the end of the recording.
    fn stop(&self) {
        let now = self.start.elapsed().as_millis() as u64 + 1;
        let _ = self.stop_requested.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Fills a batch, and sees to it that limits and the user's wishes are obeyed.
    fn fill(&self, stream: &mut RunStream, batch: &mut Batch) -> Result<Progress, TraceError> {
        let limit = self.options.max_instructions.unwrap_or(u64::MAX);
        let progress = stream.fill(batch, limit).map_err(|problem| TraceError::Recording {
            program: self.options.program.clone(),
            problem: format!("the recorder wrote nonsense: {problem}"),
        })?;
        if stream.is_cut() {
            channel::signal(stream.process(), libc::SIGKILL);
            return Ok(Progress::Ended);
        }
        self.end_if_interrupted(stream.process());
        Ok(progress)
    }

    /// Passes an interrupt on, once; ends a process that has had its time to end by itself.
    fn end_if_interrupted(&self, process: u32) {
        if let Some(interrupt) = interrupt::received()
            && self.stop_requested.load(Ordering::Relaxed) == 0
        {
            self.stop();
            if let Interrupt::Signal(signal) = interrupt {
                channel::signal(process, signal);
            }
        }
        let stop = self.stop_requested.load(Ordering::Relaxed);
        if stop > 0 && self.start.elapsed() >= Duration::from_millis(stop) + GRACE {
            channel::signal(process, libc::SIGKILL);
        }
    }

    /// How a process ended whose stream is at its end. Of one that a signal ended its parent alone
    /// knows the signal.
    fn termination_of(&self, stream: &RunStream) -> Termination {
        if stream.is_cut() {
            Termination::Limit
        } else if let Some(status) = stream.exit_status() {
            Termination::Exited(status)
        } else if self.stop_requested.load(Ordering::Relaxed) > 0 {
            Termination::Interrupted
        } else {
            Termination::Unknown
        }
    }

    /// Waits for the process to come back with the program that it has loaded, and says which.
    fn wait_for_exec(&self, process: u32, forks_made: u32) -> Option<(Channel, Vec<String>)> {
        let mut state = self.state();
        loop {
            if let Some(mut newcomer) = state.newcomers.remove(&process) {
                let command = std::mem::take(&mut newcomer.command);
                return newcomer.welcome(forks_made).ok().map(|channel| (channel, command));
            }
            if !channel::exists(process) || self.closing.load(Ordering::Relaxed) {
                return None;
            }
            state = self
                .changed
                .wait_timeout(state, TICK)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }

    /// Waits for the program itself to begin; nothing if what runs it ends before.
    fn wait_for_first(&self, runner: &mut Child) -> Result<Option<Channel>, TraceError> {
        let mut state = self.state();
        loop {
            if let Some(newcomer) = state.newcomers.remove(&runner.id()) {
                // Now something will be recorded, and before the welcome there are no children.
                if self.options.follow_children {
                    let output = &self.options.output;
                    remove_children(output).map_err(|error| TraceError::io(output, error))?;
                }
                return Ok(newcomer.welcome(0).ok());
            }
            if !matches!(runner.try_wait(), Ok(None)) {
                return Ok(None);
            }
            state = self
                .changed
                .wait_timeout(state, TICK)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }

    /// Takes in a process that has announced itself.
    fn receive(self: &Arc<Self>, mut newcomer: Newcomer) {
        let mut state = self.state();
        if newcomer.forked_from == 0 {
            state.newcomers.insert(newcomer.process, newcomer);
            self.changed.notify_all();
            return;
        }
        let parent = state.suffixes.get(&newcomer.forked_from).cloned().unwrap_or_default();
        let suffix = format!("{parent}.{}", newcomer.fork_number);
        let process = newcomer.process;
        let command = std::mem::take(&mut newcomer.command);
        state.suffixes.insert(process, suffix.clone());
        let Ok(channel) = newcomer.welcome(0) else { return };
        let shared = self.clone();
        let stream = RunStream::new(channel);
        state.children.push(std::thread::spawn(move || {
            let child = record_process(&shared, stream, suffix, command, &mut |_| {})?;
            child.writer.finish(child.termination)
        }));
    }
}

/// Valgrind with the tool, before the program; and a folder that has to stay open while it runs.
fn valgrind(
    options: &RecordOptions,
    channel: &str,
    log_path: &str,
) -> Result<(Command, Option<fs::File>), TraceError> {
    // A recorder that was installed as a package has a launcher of its own version.
    let own_launcher = options.tool_directory.join("valgrind");
    let valgrind = program::find(&own_launcher.to_string_lossy())
        .or_else(|| program::find("valgrind"))
        .ok_or_else(|| TraceError::NotInstalled {
            what: "recording needs Valgrind, which is not installed".into(),
            help: "install it, on Debian or Ubuntu with `apt-get install valgrind`, and run \
                   `make recorder`"
                .into(),
        })?;
    let tools = folder_of(options, VALGRIND_TOOL)?;
    // Valgrind puts the folder into LD_PRELOAD, which is split at spaces and colons (ld.so(8)).
    let is_split = tools.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte));
    let open = is_split.then(|| fs::File::open(&tools)).transpose();
    let open = open.map_err(|error| TraceError::io(&tools, error))?;
    let follow = if options.follow_children { "yes" } else { "no" };
    let mut command = Command::new(valgrind);
    let mut tools = open.as_ref().map_or(tools, |folder| channel::path_of(folder).into());
    if let Some(environment) = &options.environment {
        command.env_clear().envs(environment.iter().cloned());
        tools = of_one_length(&tools);
        // Debian's valgrind is a script, whose shell says where it is; another variable makes up
        // for the length.
        if !environment.iter().any(|(name, _)| name == "PWD") {
            let here = std::env::current_dir().unwrap_or_default();
            command.env("MMULAB_PADDING", slashes_up_to_length(&here)).env("PWD", here);
        }
    }
    command
        .env("VALGRIND_LIB", tools)
        // Neither the user's settings nor a debugger's door, which costs time and leaves files.
        .args(["--command-line-only=yes", "--tool=mmulab", "--quiet", "--vgdb=no"])
        // Which instruction it does not know is worth telling.
        .arg("--sigill-diagnostics=yes")
        .arg(format!("--log-file={log_path}"))
        .arg(format!("--channel={channel}"))
        .arg(format!("--trace-children={follow}"))
        .arg(format!("--follow-children={follow}"));
    Ok((command, open))
}

/// The same path, which begins at the root, with as many slashes before it as make all such paths
/// equally long.
fn of_one_length(path: &Path) -> PathBuf {
    let mut padded = OsString::from(slashes_up_to_length(path));
    padded.push(path);
    padded.into()
}

/// As many slashes as make all such paths equally long, but for very long ones.
fn slashes_up_to_length(path: &Path) -> String {
    let length_bytes = path.as_os_str().len();
    "/".repeat(length_bytes.next_multiple_of(512) - length_bytes)
}

/// QEMU's user mode with the plugin, before the program.
fn qemu(
    options: &RecordOptions,
    set: &InstructionSet,
    libraries: Option<&Path>,
    channel: &str,
) -> Result<Command, TraceError> {
    let name = format!("qemu-{}", set.qemu_name);
    let qemu = program::find(&name).ok_or_else(|| TraceError::NotInstalled {
        what: format!("recording {} programs needs {name}, which is not installed", set.name),
        help: "install it, on Debian or Ubuntu with `apt-get install qemu-user`".into(),
    })?;
    let plugin = folder_of(options, QEMU_PLUGIN)?.join(QEMU_PLUGIN);
    // In an option's value QEMU takes two commas for one; without `file=` an equals sign in it
    // would end a name.
    let plugin = plugin.to_string_lossy().replace(',', ",,");
    let mut command = Command::new(qemu);
    if let Some(environment) = &options.environment {
        command.env_clear().envs(environment.iter().cloned());
    }
    command.arg("-plugin").arg(format!("file={plugin},channel={channel}"));
    if let Some(libraries) = libraries {
        command.arg("-L").arg(libraries);
    }
    Ok(command)
}

/// The folder that has a recorder, from the root on.
fn folder_of(options: &RecordOptions, recorder: &str) -> Result<PathBuf, TraceError> {
    let folder = &options.tool_directory;
    if !folder.join(recorder).is_file() {
        return Err(TraceError::NotInstalled {
            what: format!("the recorder is not in {}", folder.display()),
            help: "build it with `make recorder` in the project's folder".into(),
        });
    }
    fs::canonicalize(folder).map_err(|error| TraceError::io(folder, error))
}

impl Session {
    fn start(options: &RecordOptions) -> Result<Self, TraceError> {
        let failed =
            |problem: String| TraceError::Recording { program: options.program.clone(), problem };
        let cannot = |problem: String| TraceError::CannotBeRecorded {
            program: options.program.clone(),
            problem,
        };
        let program =
            program::find(&options.program).ok_or_else(|| {
                match program::why_no_program(&options.program) {
                    Some(problem) => cannot(problem),
                    None => TraceError::NoSuchProgram { program: options.program.clone() },
                }
            })?;
        let (runner, set) =
            program::runner(&program, &options.tool_directory, options.qemu).map_err(cannot)?;
        if options.follow_children && runner != Runner::Valgrind {
            return Err(cannot("QEMU records one process; leave out --follow-children".into()));
        }
        let io = |error: std::io::Error| failed(error.to_string());
        let listener = Listener::new().map_err(io)?;
        let (log, log_path) = channel::memory_file().map_err(io)?;
        let interrupts = InterruptGuard::install();
        let ((mut command, tools), runner_name) = match runner {
            Runner::Valgrind => (valgrind(options, listener.name(), &log_path)?, "Valgrind"),
            Runner::Qemu { libraries } => {
                ((qemu(options, set, libraries.as_deref(), listener.name())?, None), "QEMU")
            }
        };
        // Python ignores SIGXFSZ, and what is ignored stays so in a program that is started.
        // SAFETY: signal(2) may be called between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::signal(libc::SIGXFSZ, libc::SIG_DFL) {
                libc::SIG_ERR => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let runner = command.arg(program).args(&options.args).spawn().map_err(io)?;
        let shared = Arc::new(Shared {
            options: options.clone(),
            runner_name,
            instruction_set: set.name,
            state: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            stop_requested: AtomicU64::new(0),
            start: Instant::now(),
        });
        let for_acceptor = shared.clone();
        let acceptor = std::thread::spawn(move || {
            while !for_acceptor.closing.load(Ordering::Relaxed) {
                if let Some(newcomer) = listener.accept(TICK) {
                    for_acceptor.receive(newcomer);
                }
            }
        });
        Ok(Self {
            shared,
            runner,
            log,
            _tools: tools,
            acceptor: Some(acceptor),
            _interrupts: interrupts,
            reaped: None,
        })
    }

    /// Waits for the program itself to begin.
    fn first_stream(&mut self) -> Result<RunStream, TraceError> {
        match self.shared.wait_for_first(&mut self.runner)? {
            Some(channel) => Ok(RunStream::new(channel)),
            None => {
                let (termination, messages) = self.finish(false)?;
                let message = messages.first().cloned().unwrap_or_else(|| {
                    "what it said, if anything, stands above; is the program's file whole?".into()
                });
                Err(TraceError::Recording {
                    program: self.shared.options.program.clone(),
                    problem: format!(
                        "{} could not begin ({}): {message}",
                        self.shared.runner_name,
                        termination.describe()
                    ),
                })
            }
        }
    }

    fn wait_for_children(&self) -> Result<(), TraceError> {
        loop {
            // A child may be in the listener's queue still: give the acceptor a turn.
            std::thread::sleep(if self.shared.options.follow_children {
                2 * TICK
            } else {
                Duration::ZERO
            });
            let children = std::mem::take(&mut self.shared.state().children);
            if children.is_empty() {
                return Ok(());
            }
            for child in children {
                match child.join() {
                    Ok(result) => result?,
                    Err(_) => {
                        return Err(TraceError::Recording {
                            program: self.shared.options.program.clone(),
                            problem: "a thread that recorded a child failed".into(),
                        });
                    }
                };
            }
        }
    }

    /// Waits for the end of the program, whose stream may have been cut at the limit on
    /// instructions; how it ended, and what Valgrind said.
    fn finish(&mut self, cut: bool) -> Result<(Termination, Vec<String>), TraceError> {
        if let Some(reaped) = &self.reaped {
            return Ok(reaped.clone());
        }
        let failed = |error: std::io::Error| TraceError::Recording {
            program: self.shared.options.program.clone(),
            problem: error.to_string(),
        };
        let status = loop {
            if let Some(status) = self.runner.try_wait().map_err(failed)? {
                break status;
            }
            // What it has loaded in place of itself may run for long, unrecorded.
            self.shared.end_if_interrupted(self.runner.id());
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut messages = Vec::new();
        self.log.rewind().map_err(failed)?;
        self.log.read_to_end(&mut messages).map_err(failed)?;
        let termination = if cut {
            Termination::Limit
        } else if self.shared.stop_requested.load(Ordering::Relaxed) > 0 {
            Termination::Interrupted
        } else if let Some(signal) = status.signal() {
            Termination::Signalled(signal)
        } else {
            Termination::Exited(status.code().unwrap_or(0))
        };
        let reaped = (termination, messages_in(&String::from_utf8_lossy(&messages)));
        self.reaped = Some(reaped.clone());
        Ok(reaped)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if self.reaped.is_none() {
            let _ = self.runner.kill();
            let _ = self.runner.wait();
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Fails if a file cannot be written, before a program is run for nothing; leaves it as it is.
fn check_writable(path: &Path) -> Result<(), TraceError> {
    create_beside(path)
        .and_then(|(_, temporary)| fs::remove_file(temporary))
        .and_then(|()| check_unlocked(path))
        .map_err(|error| TraceError::io(path, error))
}

/// The lines of Valgrind's log that say something, without the process number before each.
fn messages_in(log: &str) -> Vec<String> {
    log.lines()
        .map(|line| match line.strip_prefix("==").and_then(|rest| rest.split_once("==")) {
            Some((process, text)) if process.bytes().all(|byte| byte.is_ascii_digit()) => text,
            _ => line,
        })
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stands_before_its_children_and_the_second_before_the_tenth() {
        let order = ["t.1.mmt", "t.2.mmt", "t.3.mmt", "t.3.1.mmt", "t.3.1.2.mmt", "t.10.mmt"];
        let mut files: Vec<_> = order.iter().rev().map(PathBuf::from).collect();
        files.sort_by_key(|file| numbers_of(file));
        assert_eq!(files, order.map(PathBuf::from));
    }
}
