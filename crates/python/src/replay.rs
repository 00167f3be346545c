//! Replaying traces.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

use mmulab_machine::ReplayMachine;
use mmulab_replay::{Options, ReplayError};
use mmulab_trace::{Cores, RoundRobin, Slice, Source};
use pyo3::prelude::*;

use crate::errors::{IntoPython, not_for_replay};
use crate::machine::Machine;
use crate::watch::{Watch, open_options};

/// What a core executes before the next one goes on: some microseconds, so that what they share
/// sees them side by side.
const TURN_INSTRUCTIONS: u64 = 10_000;

/// Replays a trace on machines, each with alternatives to it; gives one dictionary a machine, and a
/// list of them for its alternatives. With a time slice the traces take turns; without one there is
/// one trace.
#[pyfunction]
#[pyo3(signature = (
    traces, machines, *, time_slice_instructions, cores, one_queue, seed, threads, skip, warm_up, limit, region, partial, progress
))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
pub(crate) fn replay<'py>(
    python: Python<'py>,
    traces: Vec<PathBuf>,
    machines: Vec<(PyRef<'py, Machine>, Vec<PyRef<'py, Machine>>)>,
    time_slice_instructions: Option<u64>,
    cores: usize,
    one_queue: bool,
    seed: u64,
    threads: usize,
    skip: u64,
    warm_up: u64,
    limit: Option<u64>,
    region: Option<String>,
    partial: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let machines = machines
        .iter()
        .map(|(machine, alternatives)| {
            let own = replay_machine(machine)?;
            Ok((own, replay_machines(alternatives)?))
        })
        .collect::<PyResult<Vec<_>>>()?;
    let schedule = time_slice_instructions.map(|slice| {
        (slice, Cores { count: cores, one_queue, turn_instructions: TURN_INSTRUCTIONS })
    });
    let part = Part { traces, schedule, skip, warm_up, limit, region, partial };
    let threads = NonZeroUsize::new(threads);
    let outcomes = part.run(python, seed, threads, progress, |source, options| {
        mmulab_replay::replay_with_alternatives(source, &machines, options)
    })?;
    Ok(pythonize::pythonize(python, &outcomes)?)
}

/// Replays a trace on a machine and attributes the costs to the program's code: the outcome, and
/// the profile.
#[pyfunction]
#[pyo3(signature = (trace, machine, *, seed, skip, warm_up, limit, region, partial, progress))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
pub(crate) fn profile<'py>(
    python: Python<'py>,
    trace: PathBuf,
    machine: PyRef<'py, Machine>,
    seed: u64,
    skip: u64,
    warm_up: u64,
    limit: Option<u64>,
    region: Option<String>,
    partial: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let machine = replay_machine(&machine)?;
    let (traces, schedule) = (vec![trace], None);
    let part = Part { traces, schedule, skip, warm_up, limit, region, partial };
    let profile = part.run(python, seed, None, progress, |source, options| {
        mmulab_replay::profile(source, &machine, options)
    })?;
    Ok(pythonize::pythonize(python, &profile)?)
}

/// The part of a trace, or of several that take turns, that is to be replayed.
struct Part {
    traces: Vec<PathBuf>,
    /// Instructions of a time slice, and the cores; `None` for the one trace.
    schedule: Option<(u64, Cores)>,
    skip: u64,
    warm_up: u64,
    limit: Option<u64>,
    region: Option<String>,
    partial: bool,
}

impl Part {
    /// Runs `replay` over the part, without Python's lock and with progress shown.
    fn run<T: Send>(
        &self,
        python: Python<'_>,
        seed: u64,
        threads: Option<NonZeroUsize>,
        progress: Option<Py<PyAny>>,
        replay: impl FnOnce(&mut dyn Source, Options<'_>) -> Result<T, ReplayError> + Send,
    ) -> PyResult<T> {
        let watch = Mutex::new(Watch::new(progress));
        let result = python.detach(|| {
            let (mut source, total) = self.open()?;
            let options = Options {
                seed,
                threads,
                warm_up: self.warm_up,
                region: self.region.as_deref(),
                progress: Some(&|done| {
                    watch.lock().is_ok_and(|mut watch| watch.continues(done, total))
                }),
            };
            replay(&mut *source, options)
        });
        finish(watch)?;
        result.map_err(ReplayError::into_python)
    }

    /// What is replayed, and its length where that is known.
    fn open(&self) -> Result<(Box<dyn Source>, Option<u64>), ReplayError> {
        let options = open_options(self.partial);
        let opened = self.traces.iter().map(|trace| mmulab_trace::open_with(trace, &options));
        let mut sources = opened.collect::<Result<Vec<_>, _>>()?;
        let total: Option<u64> = sources.iter().map(|source| length_of(&**source)).sum();
        let source: Box<dyn Source> = match self.schedule {
            Some((slice, cores)) => Box::new(RoundRobin::new(sources, slice, cores)),
            None => sources.remove(0),
        };
        let count = self.limit.map(|limit| limit.saturating_add(self.warm_up));
        let after = |all: u64| all.saturating_sub(self.skip).min(count.unwrap_or(u64::MAX));
        let total = total.map(after);
        if self.skip == 0 && count.is_none() {
            return Ok((source, total));
        }
        Ok((Box::new(Slice::new(source, self.skip, count)), total))
    }
}

/// The machines, all of which must be for replay.
pub(crate) fn replay_machines(machines: &[PyRef<'_, Machine>]) -> PyResult<Vec<ReplayMachine>> {
    machines.iter().map(replay_machine).collect()
}

fn replay_machine(machine: &PyRef<'_, Machine>) -> PyResult<ReplayMachine> {
    match &machine.0 {
        mmulab_machine::Machine::Replay(machine) => Ok((**machine).clone()),
        mmulab_machine::Machine::System(machine) => Err(not_for_replay(&machine.name)),
    }
}

/// How long a trace is, for those that say so.
pub(crate) fn length_of(source: &dyn Source) -> Option<u64> {
    Some(source.information()?.totals.instructions)
}

/// Raises what stopped the call, where something did.
pub(crate) fn finish(watch: Mutex<Watch>) -> PyResult<()> {
    watch.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).finish()
}
