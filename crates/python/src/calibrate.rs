//! Measurements of this computer.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use mmulab_calibrate::{Computer as Measured, Error, Pages, Pattern, ReportedTlb};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::IntoPython;
use crate::watch::{INTERVAL, Watch};

/// Lines at a regular distance: pages ("4K" or "2M"), how many, bytes from one to the next, and
/// whether each lies at another place within its stride.
type Part = (String, usize, usize, bool);

/// What a thread does with the computer.
type Work = Box<dyn FnOnce(&mut Measured) + Send>;

/// See `mmulab_calibrate::Computer`. It is measured by a thread of its own, so that a call ends
/// with Ctrl-C at once; that thread ends after what it is at then.
#[pyclass]
pub(crate) struct Computer(Sender<Work>);

impl Computer {
    fn measure<T: Send + 'static>(
        &self,
        python: Python<'_>,
        work: impl FnOnce(&mut Measured) -> T + Send + 'static,
    ) -> PyResult<T> {
        let (sender, receiver) = channel();
        let work = move |computer: &mut Measured| drop(sender.send(work(computer)));
        let gone = |_| PyRuntimeError::new_err("the measuring thread has ended");
        self.0.send(Box::new(work)).map_err(|_| gone(RecvTimeoutError::Disconnected))?;
        python.detach(move || {
            let mut watch = Watch::new(None);
            let mut result = receiver.recv_timeout(INTERVAL);
            while matches!(result, Err(RecvTimeoutError::Timeout)) && watch.continues(0, None) {
                result = receiver.recv_timeout(INTERVAL);
            }
            watch.finish()?;
            result.map_err(gone)
        })
    }
}

#[pymethods]
impl Computer {
    #[new]
    fn new() -> Self {
        let (sender, receiver) = channel::<Work>();
        std::thread::spawn(move || {
            let mut computer = Measured::default();
            receiver.into_iter().for_each(|work| work(&mut computer));
        });
        Self(sender)
    }

    fn cycle_ns(&self, python: Python<'_>) -> PyResult<f64> {
        self.measure(python, |computer| computer.cycle_ns())
    }

    fn issue_cycles(&self, python: Python<'_>, samples: usize) -> PyResult<Vec<f64>> {
        self.measure(python, move |computer| computer.issue_cycles(samples))
    }

    fn load_cycles(
        &self,
        python: Python<'_>,
        parts: Vec<Part>,
        samples: usize,
    ) -> PyResult<Vec<f64>> {
        let parts: Vec<_> = parts.iter().map(pattern_of).collect();
        self.measure(python, move |computer| computer.load_cycles(&parts, samples))?
            .map_err(Error::into_python)
    }

    fn jump_cycles(&self, python: Python<'_>, part: Part, samples: usize) -> PyResult<Vec<f64>> {
        let (pages, pattern) = pattern_of(&part);
        self.measure(python, move |computer| computer.jump_cycles(pages, pattern, samples))?
            .map_err(Error::into_python)
    }

    fn walk_cycles(&self, python: Python<'_>, pages: usize, samples: usize) -> PyResult<Vec<f64>> {
        self.measure(python, move |computer| computer.walk_cycles(pages, samples))?
            .map_err(Error::into_python)
    }

    fn fault_cycles(
        &self,
        python: Python<'_>,
        pages: &str,
        count: usize,
        samples: usize,
    ) -> PyResult<Vec<f64>> {
        let pages = pages_of(pages);
        self.measure(python, move |computer| computer.fault_cycles(pages, count, samples))?
            .map_err(Error::into_python)
    }

    /// What the thread that unmaps waits, and what the other one loses.
    fn shootdown_cycles(
        &self,
        python: Python<'_>,
        samples: usize,
    ) -> PyResult<(Vec<f64>, Vec<f64>)> {
        let measured = self.measure(python, move |computer| computer.shootdown_cycles(samples))?;
        let cycles = measured.map_err(Error::into_python)?;
        Ok((cycles.wait, cycles.interrupt))
    }
}

fn pages_of(name: &str) -> Pages {
    if name == "2M" { Pages::Huge } else { Pages::Small }
}

fn pattern_of((pages, lines, stride_bytes, spread): &Part) -> (Pages, Pattern) {
    (pages_of(pages), Pattern { lines: *lines, stride_bytes: *stride_bytes, spread: *spread })
}

/// A TLB: level, whether for data, whether for instructions, page sizes, entries, ways.
type Tlb = (u8, bool, bool, Vec<&'static str>, u32, u32);

/// What the processor says of its TLBs.
#[pyfunction]
pub(crate) fn reported_tlbs() -> Vec<Tlb> {
    mmulab_calibrate::reported_tlbs()
        .into_iter()
        .map(|ReportedTlb { level, data, instructions, page_sizes, entries, ways }| {
            (level, data, instructions, page_sizes, entries, ways)
        })
        .collect()
}
