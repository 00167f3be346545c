//! Replaying traces.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

use mmulab_machine::ReplayMachine;
use mmulab_replay::{Options, ReplayError};
use mmulab_trace::{OpenOptions, Source};
use pyo3::prelude::*;

use crate::errors::{IntoPython, not_for_replay};
use crate::machine::Machine;
use crate::watch::Watch;

/// Replays a trace on machines; gives one dictionary a machine.
#[pyfunction]
#[pyo3(signature = (trace, machines, *, seed, threads, partial, progress))]
pub(crate) fn replay<'py>(
    python: Python<'py>,
    trace: PathBuf,
    machines: Vec<PyRef<'py, Machine>>,
    seed: u64,
    threads: usize,
    partial: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let machines = replay_machines(&machines)?;
    let options = OpenOptions { partial };
    let watch = Mutex::new(Watch::new(progress));
    let outcomes = python.detach(|| {
        let mut source = mmulab_trace::open_with(&trace, &options)?;
        let total = length_of(&*source);
        mmulab_replay::replay(
            &mut *source,
            &machines,
            Options {
                seed,
                threads: NonZeroUsize::new(threads),
                progress: Some(&|done| {
                    watch.lock().is_ok_and(|mut watch| watch.goes_on(done, total))
                }),
            },
        )
    });
    finish(watch)?;
    let outcomes = outcomes.map_err(ReplayError::into_python)?;
    Ok(pythonize::pythonize(python, &outcomes)?)
}

/// The machines, all of which must be for replay.
pub(crate) fn replay_machines(machines: &[PyRef<'_, Machine>]) -> PyResult<Vec<ReplayMachine>> {
    machines
        .iter()
        .map(|machine| match &machine.0 {
            mmulab_machine::Machine::Replay(machine) => Ok((**machine).clone()),
            mmulab_machine::Machine::System(machine) => Err(not_for_replay(&machine.name)),
        })
        .collect()
}

/// How long a trace is, for those that say so.
pub(crate) fn length_of(source: &dyn Source) -> Option<u64> {
    Some(source.information()?.totals.instructions)
}

/// Raises what stopped the call, where something did.
pub(crate) fn finish(watch: Mutex<Watch>) -> PyResult<()> {
    watch.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).finish()
}
