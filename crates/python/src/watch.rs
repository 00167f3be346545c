//! Coming up for air: during a long call, look for signals and report progress.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How often at most; a person does not notice more, and taking Python's lock costs little then.
const INTERVAL: Duration = Duration::from_millis(100);

/// Calls back into Python now and then.
pub(crate) struct Watch {
    callback: Option<Py<PyAny>>,
    last: Instant,
    /// What stopped the call: an interrupt, or an exception of the callback.
    stopped: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, last: Instant::now(), stopped: None }
    }

    /// Whether the call may continue; `total` is what there is to do, where that is known.
    pub(crate) fn continues(&mut self, done: u64, total: Option<u64>) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        if self.last.elapsed() < INTERVAL {
            return true;
        }
        self.last = Instant::now();
        let seen = Python::attach(|python| {
            python.check_signals()?;
            match &self.callback {
                Some(callback) => callback.call1(python, (done, total)).map(drop),
                None => Ok(()),
            }
        });
        self.stopped = seen.err();
        self.stopped.is_none()
    }

    /// The exception that stopped the call, where one did.
    pub(crate) fn finish(self) -> PyResult<()> {
        self.stopped.map_or(Ok(()), Err)
    }
}
