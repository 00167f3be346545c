//! Coming up for air: during a long call, look for signals and report progress.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mmulab_trace::OpenOptions;
use pyo3::prelude::*;

/// How often at most; a person does not notice more, and taking Python's lock costs little then.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

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
        if let (Some(stopped), Ok(mut interrupted)) = (&self.stopped, INTERRUPTED.lock()) {
            *interrupted = Some(Python::attach(|python| stopped.clone_ref(python)));
        }
        self.stopped.is_none()
    }

    /// The exception that stopped the call, where one did.
    pub(crate) fn finish(self) -> PyResult<()> {
        if self.stopped.is_some() {
            interrupt();
        }
        self.stopped.map_or(Ok(()), Err)
    }
}

/// The interrupt that ended the wait for a silent pipe. One for the process: signals are the
/// process's.
static INTERRUPTED: Mutex<Option<PyErr>> = Mutex::new(None);

/// How traces are opened here: a wait for a pipe ends with Ctrl-C.
pub(crate) fn open_options(partial: bool) -> OpenOptions {
    OpenOptions { partial, keep_waiting }
}

/// Whether no interrupt has come. Only Python's main thread learns of signals by asking for them;
/// where another one reads, the main thread waits for it in [`Watch::continues`].
fn keep_waiting() -> bool {
    let Ok(mut interrupted) = INTERRUPTED.lock() else { return false };
    if interrupted.is_none() {
        *interrupted = Python::attach(|python| python.check_signals()).err();
    }
    interrupted.is_none()
}

/// The interrupt that ended a wait, once.
pub(crate) fn interrupt() -> Option<PyErr> {
    INTERRUPTED.lock().ok()?.take()
}
