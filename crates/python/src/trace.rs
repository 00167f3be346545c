//! Recording, and what traces say of themselves.

use std::path::PathBuf;

use mmulab_trace::{Ending, Information, MmtReader, OpenOptions, RecordOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::IntoPython;
use crate::watch::Watch;

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
    dict.set_item("ending", information.ending.as_ref().map(Ending::describe))?;
    Ok(dict)
}

/// Records a program; gives the files written and what the first one says of itself.
#[pyfunction]
#[pyo3(signature = (program, output, *, tool_directory, max_instructions, follow_children, progress))]
pub(crate) fn record(
    python: Python<'_>,
    program: Vec<String>,
    output: PathBuf,
    tool_directory: PathBuf,
    max_instructions: Option<u64>,
    follow_children: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut words = program.into_iter();
    let options = RecordOptions {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        output,
        follow_children,
        max_instructions,
        tool_directory,
    };
    let mut watch = Watch::new(progress);
    let summary = python
        .detach(|| {
            mmulab_trace::record(&options, &mut |done| watch.goes_on(done, max_instructions))
        })
        .map_err(IntoPython::into_python)?;
    watch.finish()?;
    let dict = PyDict::new(python);
    let information = trace_information(python, options.output, false)?;
    dict.set_item("information", information)?;
    dict.set_item("files", summary.files)?;
    dict.set_item("messages", summary.messages)?;
    Ok(dict)
}
