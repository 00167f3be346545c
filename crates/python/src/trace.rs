//! Recording, and what traces say of themselves.

use std::path::PathBuf;

use mmulab_trace::{Ending, Information, MmtReader, OpenOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::IntoPython;

/// What an `.mmt` file says of itself.
#[pyfunction]
#[pyo3(signature = (path, *, partial))]
pub(crate) fn trace_information(
    python: Python<'_>,
    path: PathBuf,
    partial: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let reader = python
        .detach(|| MmtReader::open(&path, &OpenOptions { partial }))
        .map_err(IntoPython::into_python)?;
    information_dict(python, reader.information())
}

fn information_dict<'py>(
    python: Python<'py>,
    information: &Information,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(python);
    dict.set_item("command", &information.metadata.command)?;
    dict.set_item("instructions", information.totals.instructions)?;
    dict.set_item("loads", information.totals.loads)?;
    dict.set_item("stores", information.totals.stores)?;
    dict.set_item("modifies", information.totals.modifies)?;
    dict.set_item("file_bytes", information.file_bytes)?;
    dict.set_item("ending", ending_text(information.ending))?;
    Ok(dict)
}

fn ending_text(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::Exited(status)) => format!("exited with status {status}"),
        Some(Ending::Signalled(signal)) => format!("was ended by signal {signal}"),
        Some(Ending::Limit) => "reached the limit".into(),
        Some(Ending::Interrupted) => "was interrupted".into(),
        Some(Ending::Unknown) => "ended in an unknown way".into(),
        None => "was cut off".into(),
    }
}
