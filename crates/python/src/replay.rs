//! Replaying traces.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use mmulab_machine::ReplayMachine;
use mmulab_replay::{Options, ReplayError};
use mmulab_trace::{OpenOptions, Slice, Source};
use pyo3::prelude::*;

use crate::errors::{IntoPython, not_for_replay};
use crate::machine::Machine;
use crate::watch::{Watch, open_options};

/// Replays a trace on machines, each with alternatives to it; gives one dictionary a machine, and a
/// list of them for its alternatives.
#[pyfunction]
#[pyo3(signature = (
    trace, machines, *, seed, threads, skip, warm_up, limit, region, partial, progress
))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
pub(crate) fn replay<'py>(
    python: Python<'py>,
    trace: PathBuf,
    machines: Vec<(PyRef<'py, Machine>, Vec<PyRef<'py, Machine>>)>,
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
    let options = open_options(partial);
    let watch = Mutex::new(Watch::new(progress));
    let outcomes = python.detach(|| {
        let (mut source, total) = open_part(&trace, &options, skip, warm_up, limit)?;
        mmulab_replay::replay_with_alternatives(
            &mut *source,
            &machines,
            Options {
                seed,
                threads: NonZeroUsize::new(threads),
                warm_up,
                region: region.as_deref(),
                progress: Some(&|done| {
                    watch.lock().is_ok_and(|mut watch| watch.continues(done, total))
                }),
            },
        )
    });
    finish(watch)?;
    let outcomes = outcomes.map_err(ReplayError::into_python)?;
    Ok(pythonize::pythonize(python, &outcomes)?)
}

/// Replays a trace on a machine and attributes the costs to the program's code: the outcome, and the profile.
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
    let options = open_options(partial);
    let watch = Mutex::new(Watch::new(progress));
    let profile = python.detach(|| {
        let (mut source, total) = open_part(&trace, &options, skip, warm_up, limit)?;
        mmulab_replay::profile(
            &mut *source,
            &machine,
            Options {
                seed,
                threads: None,
                warm_up,
                region: region.as_deref(),
                progress: Some(&|done| {
                    watch.lock().is_ok_and(|mut watch| watch.continues(done, total))
                }),
            },
        )
    });
    finish(watch)?;
    let profile = profile.map_err(ReplayError::into_python)?;
    Ok(pythonize::pythonize(python, &profile)?)
}

/// The part of a trace that is to be replayed, and its length where that is known.
fn open_part(
    trace: &Path,
    options: &OpenOptions,
    skip: u64,
    warm_up: u64,
    limit: Option<u64>,
) -> Result<(Box<dyn Source>, Option<u64>), ReplayError> {
    let source = mmulab_trace::open_with(trace, options)?;
    let count = limit.map(|limit| limit.saturating_add(warm_up));
    let after = |all: u64| all.saturating_sub(skip).min(count.unwrap_or(u64::MAX));
    let total = length_of(&*source).map(after);
    if skip == 0 && count.is_none() {
        return Ok((source, total));
    }
    Ok((Box::new(Slice::new(source, skip, count)), total))
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
