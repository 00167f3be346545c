//! Miss curves.

use std::path::PathBuf;
use std::sync::Mutex;

use mmulab_replay::{CURVE_PAGE_SIZES, ReplayError, Stream};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::IntoPython;
use crate::replay::{finish, length_of};
use crate::watch::{Watch, open_options};

/// Counts stack distances; gives the curves of all streams at all page sizes, their misses as
/// native 64-bit words.
#[pyfunction]
#[pyo3(signature = (trace, *, entries, partial, progress))]
pub(crate) fn miss_curves(
    python: Python<'_>,
    trace: PathBuf,
    entries: usize,
    partial: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let options = open_options(partial);
    let watch = Mutex::new(Watch::new(progress));
    let curves = python.detach(|| {
        let mut source = mmulab_trace::open_with(&trace, &options)?;
        let total = length_of(&*source);
        mmulab_replay::miss_curves(&mut *source, &|done| {
            watch.lock().is_ok_and(|mut watch| watch.continues(done, total))
        })
    });
    finish(watch)?;
    let curves = curves.map_err(ReplayError::into_python)?;
    let mut lists = Vec::new();
    for stream in Stream::ALL {
        for page_size in CURVE_PAGE_SIZES {
            let Some(curve) = curves.curve(stream, page_size) else { continue };
            let dict = PyDict::new(python);
            dict.set_item("stream", stream.name())?;
            dict.set_item("page_size", pythonize::pythonize(python, &page_size)?)?;
            dict.set_item("references", curve.references)?;
            let words: Vec<u8> =
                curve.misses.iter().flat_map(|count| count.to_ne_bytes()).collect();
            dict.set_item("misses", PyBytes::new(python, &words))?;
            lists.push(dict);
        }
    }
    let dict = PyDict::new(python);
    dict.set_item("instructions", curves.instructions)?;
    dict.set_item("verdict", curves.huge_page_verdict(entries))?;
    dict.set_item("curves", lists)?;
    Ok(dict)
}
