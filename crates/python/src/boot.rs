//! Booting images on system machines.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mmulab_arm::{CacheKind, CoherentCaches, VirtualCaches};
use mmulab_machine::SystemMachine;
use mmulab_state::SavedState;
use mmulab_system::core::Core as _;
use mmulab_system::timeline::Timeline;
use mmulab_system::{File, Host, LoadError, Loaded, Request, SavePoint, Stop, Symbols};
use pyo3::prelude::*;

use crate::errors::{
    IntoPython, cannot_write, impossible_machine, not_for_boot, refused_by_debugger,
};
use crate::machine::Machine;
use crate::watch::INTERVAL;

/// The console: an object of Python's with `write(bytes)`, `read(wait_seconds) -> bytes | None`,
/// `real_time`, `remark(text)` and `waits_for_gdb(port)`.
struct Console {
    object: Option<Py<PyAny>>,
    /// What stopped the run: an interrupt, or an exception of the console.
    stopped: Option<PyErr>,
    ended: bool,
    /// Typed while waiting.
    kept: Vec<u8>,
    /// Idle time passes as on a clock.
    real_time: bool,
    /// Is told now and then how many instructions have been executed, and their limit.
    progress: Option<Py<PyAny>>,
    max_instructions: Option<u64>,
    told: Instant,
}

impl Console {
    fn call<T: Default>(
        &mut self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> T {
        let Some(object) = &self.object else { return T::default() };
        let result = Python::attach(|python| call(python, object.bind(python)));
        result.unwrap_or_else(|error| {
            self.stopped.get_or_insert(error);
            T::default()
        })
    }

    /// Characters typed; `None` from Python means that the user wants the run to end.
    fn read(&mut self, wait_seconds: Option<f64>) -> Vec<u8> {
        if self.object.is_none() {
            return Vec::new();
        }
        let read = self.call(|_, console| -> PyResult<Option<Vec<u8>>> {
            console.call_method1("read", (wait_seconds,))?.extract()
        });
        self.ended |= read.is_none();
        read.unwrap_or_default()
    }
}

impl Host for Console {
    fn output(&mut self, bytes: &[u8]) {
        self.call(|_, console| console.call_method1("write", (bytes,)).map(drop));
    }

    fn input(&mut self) -> Vec<u8> {
        let mut typed = std::mem::take(&mut self.kept);
        typed.extend(self.read(Some(0.0)));
        typed
    }

    fn wait_for_input(&mut self) -> bool {
        self.kept = self.read(None);
        !self.kept.is_empty()
    }

    fn idle(&mut self, length: Duration) -> Duration {
        if !self.real_time {
            return length;
        }
        let started = Instant::now();
        let typed = self.read(Some(length.as_secs_f64()));
        let cut_short = !typed.is_empty() || self.ended || self.stopped.is_some();
        self.kept.extend(typed);
        if cut_short { started.elapsed().min(length / 2) } else { length }
    }

    fn waits_for_debugger(&mut self, port: u16) {
        self.call(|_, console| console.call_method1("waits_for_gdb", (port,)).map(drop));
    }

    fn advanced(&mut self, instructions: u64) {
        let Some(progress) = &self.progress else { return };
        if self.told.elapsed() < INTERVAL {
            return;
        }
        self.told = Instant::now();
        let limit = self.max_instructions;
        if let Err(error) =
            Python::attach(|python| progress.call1(python, (instructions, limit)).map(drop))
        {
            self.stopped.get_or_insert(error);
        }
    }

    fn interrupted(&mut self) -> bool {
        if self.stopped.is_none() {
            self.stopped = Python::attach(|python| python.check_signals()).err();
        }
        self.stopped.is_some() || self.ended
    }
}

/// Where a run is saved, unless its user ends it before.
#[derive(FromPyObject)]
pub(crate) enum SaveAt {
    /// Once so many instructions have been executed.
    Instructions(u64),
    /// Once the guest has printed a text.
    Text(String),
}

/// What a saved state says that it is of. All of the file is read, and damage found.
#[pyfunction]
pub(crate) fn saved_state_header(file: PathBuf) -> PyResult<String> {
    let saved = SavedState::read(&file).map_err(IntoPython::into_python)?;
    Ok(saved.header().to_owned())
}

/// Boots an image; gives the outcome as a dictionary. A `KeyboardInterrupt` ends the run and is
/// part of the outcome.
#[pyfunction]
#[pyo3(signature = (
    image, machine, *, initrd, dtb, append, check, timeline, gdb_port, max_instructions, max_seconds,
    symbols, console, save, save_at, save_header, restore, progress
))]
#[expect(clippy::too_many_arguments, reason = "they are the options of the command")]
pub(crate) fn boot<'py>(
    python: Python<'py>,
    image: PathBuf,
    machine: PyRef<'py, Machine>,
    initrd: Option<PathBuf>,
    dtb: Option<PathBuf>,
    append: Option<String>,
    check: bool,
    timeline: Option<PathBuf>,
    gdb_port: Option<u16>,
    max_instructions: Option<u64>,
    max_seconds: Option<f64>,
    symbols: Option<PathBuf>,
    console: Option<Py<PyAny>>,
    save: Option<PathBuf>,
    save_at: Option<SaveAt>,
    save_header: String,
    restore: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mmulab_machine::Machine::System(machine) = &machine.0 else {
        return Err(not_for_boot(machine.0.name()));
    };
    let read = |path: Option<PathBuf>| path.map(|path| File::read(&path)).transpose();
    let prepare = || -> Result<_, LoadError> {
        let request = Request {
            image: Some(File::read(&image)?),
            initrd: read(initrd)?,
            device_tree: read(dtb)?,
            append,
        };
        let loaded = mmulab_arm::load(&request, machine.ram())?;
        let image = request.image.map(|file| file.bytes).unwrap_or_default();
        let note = mmulab_arm::note_of_architecture(&image, machine);
        let symbols = match read(symbols)? {
            Some(file) => Some(Symbols::of(&file)?),
            None => Symbols::parse(&image),
        };
        Ok((loaded, symbols, note))
    };
    let (loaded, symbols, note) = prepare().map_err(IntoPython::into_python)?;
    let options = Options {
        check,
        timeline,
        gdb_port,
        max_instructions,
        max_seconds,
        console,
        note,
        save,
        save_at,
        save_header,
        restore,
        progress,
    };
    // Coherence comes with caches of another kind, which the engine has compiled in.
    if machine.coherence.is_some() {
        run::<CoherentCaches>(python, machine, &loaded, symbols, options)
    } else {
        run::<VirtualCaches>(python, machine, &loaded, symbols, options)
    }
}

/// How an image runs.
struct Options {
    check: bool,
    timeline: Option<PathBuf>,
    gdb_port: Option<u16>,
    max_instructions: Option<u64>,
    max_seconds: Option<f64>,
    console: Option<Py<PyAny>>,
    /// What is to be said of the image beside what the run itself notes.
    note: Option<String>,
    /// The file for its state, and where it is saved: where the user ends the run if nothing is
    /// said.
    save: Option<PathBuf>,
    save_at: Option<SaveAt>,
    save_header: String,
    /// The file with the state that it begins with, instead of at power-on.
    restore: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
}

/// Runs what was loaded on cores with caches of a kind.
fn run<'py, K: CacheKind>(
    python: Python<'py>,
    machine: &SystemMachine,
    loaded: &Loaded,
    symbols: Option<Symbols>,
    options: Options,
) -> PyResult<Bound<'py, PyAny>> {
    let Options { check, timeline, gdb_port, max_instructions, console, note, .. } = options;
    let mut system = mmulab_arm::system::<K>(machine)
        .map_err(|error| impossible_machine(&machine.name, &error))?;
    system.symbols = symbols;
    match &options.restore {
        Some(path) => {
            if check {
                system.start_checking();
            }
            let mut restored = || system.restore_state(&SavedState::read(path)?);
            restored().map_err(IntoPython::into_python)?;
        }
        None => {
            system.load(loaded);
            if check {
                system.start_checking();
            }
        }
    }
    let restored_at = (system.instructions(), system.cycles());
    if let Some(path) = &timeline {
        let clock_hz = machine.core.clock_hz;
        let drawn = Timeline::create(path, clock_hz, machine.cores as usize);
        system.start_timeline(drawn.map_err(|error| cannot_write(path, &error))?);
    }
    let real_time = match &console {
        Some(console) => console.getattr(python, "real_time")?.extract(python)?,
        None => false,
    };
    system.save_point = match &options.save_at {
        Some(SaveAt::Instructions(instructions)) => SavePoint::Instructions(*instructions),
        Some(SaveAt::Text(text)) => SavePoint::text(text),
        None => SavePoint::Never,
    };
    if let Some(seconds) = options.max_seconds {
        system.end_at_cycles = (seconds * machine.core.clock_hz as f64) as u64;
    }
    let mut console = Console {
        object: console,
        stopped: None,
        ended: false,
        kept: Vec::new(),
        real_time,
        progress: options.progress,
        max_instructions,
        told: Instant::now(),
    };
    if let Some(note) = &note {
        // It may be why the guest never prints nor ends.
        console.call(|_, object| object.call_method1("remark", (note,)).map(drop));
    }
    let limit = max_instructions.unwrap_or(u64::MAX);
    let (stop, seconds) = python.detach(|| {
        let started = Instant::now();
        let stop: Result<Stop, String> = match gdb_port {
            Some(port) => mmulab_system::gdb::serve(&mut system, &mut console, port, limit),
            None => Ok(system.run(&mut console, limit)),
        };
        (stop, started.elapsed().as_secs_f64())
    });
    let stop = stop.map_err(refused_by_debugger)?;
    if let Some(path) = &timeline {
        system.finish_timeline().map_err(|error| cannot_write(path, &error))?;
    }
    match &console.stopped {
        Some(error) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(python) => {
            return Err(error.clone_ref(python));
        }
        _ => {}
    }
    let by_user = options.save_at.is_none() && stop == Stop::Interrupted;
    // The guest may end by itself before the run notices an interrupt that came while it printed.
    let stop = if console.stopped.is_some() { Stop::Interrupted } else { stop };
    let mut outcome = system.outcome(stop, seconds);
    outcome.notes.extend(note);
    if let Some(path) = &options.save
        && (stop == Stop::SavePoint || by_user)
    {
        let (machine, header) = (&mut system, &options.save_header);
        let saved = python.detach(move || machine.save_state(path, header));
        saved.map_err(|error| cannot_write(path, &error))?;
        let pc = system.location(system.core(0).memory().pc);
        outcome.reason = Stop::SavePoint.word();
        outcome.end = format!("saved at {pc}, {} instructions", outcome.instructions);
    }
    let outcome = pythonize::pythonize(python, &outcome)?;
    let restored = options.restore.is_some().then_some(restored_at);
    outcome.set_item("restored_at", restored)?;
    Ok(outcome)
}
