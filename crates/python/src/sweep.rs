//! Many configurations of machines on one trace.

use std::path::PathBuf;
use std::sync::Mutex;

use mmulab_machine::ReplayMachine;
use mmulab_replay::{ReplayError, sweep};
use pyo3::prelude::*;

use crate::errors::IntoPython;
use crate::machine::Machine;
use crate::replay::{finish, replay_machines};
use crate::watch::Watch;

/// Cuts configurations into units that one pass over a trace serves together: the places of each.
#[pyfunction]
pub(crate) fn sweep_units(machines: Vec<PyRef<'_, Machine>>) -> PyResult<Vec<Vec<usize>>> {
    let machines: Vec<ReplayMachine> = replay_machines(&machines)?;
    Ok(sweep::units(&machines).into_iter().map(|unit| unit.places).collect())
}

/// Replays a trace on the configurations of one unit; gives one dictionary for each.
#[pyfunction]
#[pyo3(signature = (trace, machines, *, seed, progress))]
pub(crate) fn sweep_unit<'py>(
    python: Python<'py>,
    trace: PathBuf,
    machines: Vec<PyRef<'py, Machine>>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let machines = replay_machines(&machines)?;
    let watch = Mutex::new(Watch::new(progress));
    let outcomes = python.detach(|| {
        let mut outcomes = Vec::new();
        for unit in sweep::units(&machines) {
            let mut source = mmulab_trace::open(&trace)?;
            outcomes.extend(unit.run(&mut *source, seed, &|done| {
                watch.lock().is_ok_and(|mut watch| watch.continues(done, None))
            })?);
        }
        Ok(outcomes)
    });
    finish(watch)?;
    let outcomes = outcomes.map_err(ReplayError::into_python)?;
    Ok(pythonize::pythonize(python, &outcomes)?)
}
