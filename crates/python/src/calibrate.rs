//! Measurements of this computer.

use mmulab_calibrate::{Computer as Measured, Error, Pages, Pattern, ReportedTlb};
use pyo3::prelude::*;

use crate::errors::IntoPython;

/// Lines at a regular distance: pages ("4K" or "2M"), how many, bytes from one to the next, and
/// whether each lies at another place within its stride.
type Part = (String, usize, usize, bool);

/// See `mmulab_calibrate::Computer`.
#[pyclass(unsendable)]
pub(crate) struct Computer(Measured);

#[pymethods]
impl Computer {
    #[new]
    fn new() -> Self {
        Self(Measured::default())
    }

    fn cycle_ns(&self) -> f64 {
        self.0.cycle_ns()
    }

    fn issue_cycles(&self, samples: usize) -> Vec<f64> {
        self.0.issue_cycles(samples)
    }

    fn load_cycles(&mut self, parts: Vec<Part>, samples: usize) -> PyResult<Vec<f64>> {
        let parts: Vec<_> = parts.iter().map(pattern_of).collect();
        self.0.load_cycles(&parts, samples).map_err(Error::into_python)
    }

    fn jump_cycles(&mut self, part: Part, samples: usize) -> PyResult<Vec<f64>> {
        let (pages, pattern) = pattern_of(&part);
        self.0.jump_cycles(pages, pattern, samples).map_err(Error::into_python)
    }

    fn walk_cycles(&mut self, pages: usize, samples: usize) -> PyResult<Vec<f64>> {
        self.0.walk_cycles(pages, samples).map_err(Error::into_python)
    }

    fn fault_cycles(&self, pages: &str, count: usize, samples: usize) -> PyResult<Vec<f64>> {
        self.0.fault_cycles(pages_of(pages), count, samples).map_err(Error::into_python)
    }

    /// What the thread that unmaps waits, and what the other one loses.
    fn shootdown_cycles(&self, samples: usize) -> PyResult<(Vec<f64>, Vec<f64>)> {
        let measured = self.0.shootdown_cycles(samples);
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
