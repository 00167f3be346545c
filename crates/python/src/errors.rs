//! The engine's errors as Python's, mapped here and nowhere else.

use mmulab_machine::MachineError;
use mmulab_replay::ReplayError;
use mmulab_system::LoadError;
use mmulab_trace::TraceError;
use pyo3::PyErr;

use crate::watch::interrupt;

/// Python's side of the hierarchy, `python/mmulab/errors.py`.
mod python {
    // The macro writes items that it does not document.
    #![allow(missing_docs)]
    pyo3::import_exception!(mmulab.errors, InputError);
    pyo3::import_exception!(mmulab.errors, MachineError);
    pyo3::import_exception!(mmulab.errors, MmulabError);
    pyo3::import_exception!(mmulab.errors, OutputError);
    pyo3::import_exception!(mmulab.errors, RecordError);
    pyo3::import_exception!(mmulab.errors, TraceError);
}

/// Errors that have a counterpart in Python.
pub(crate) trait IntoPython {
    /// The Python exception with the same one-line text.
    fn into_python(self) -> PyErr;
}

impl IntoPython for MachineError {
    fn into_python(self) -> PyErr {
        python::MachineError::new_err(match self {
            MachineError::Read { name, error } => format!("{name}: {}", in_words(&error)),
            other => other.to_string(),
        })
    }
}

/// What the system says, in small letters and without its number.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl IntoPython for mmulab_calibrate::Error {
    fn into_python(self) -> PyErr {
        python::MmulabError::new_err(self.to_string())
    }
}

impl IntoPython for LoadError {
    fn into_python(self) -> PyErr {
        python::InputError::new_err(match self {
            LoadError::Read { name, error } => format!("{name}: {}", in_words(&error)),
            other => other.to_string(),
        })
    }
}

impl IntoPython for mmulab_state::FileError {
    fn into_python(self) -> PyErr {
        python::InputError::new_err(match self {
            mmulab_state::FileError::System { path, error } => {
                format!("{}: {}", path.display(), in_words(&error))
            }
            other => other.to_string(),
        })
    }
}

impl IntoPython for TraceError {
    fn into_python(self) -> PyErr {
        if let Some(interrupt) = interrupt() {
            return interrupt;
        }
        match self {
            TraceError::NotInstalled { .. } | TraceError::Recording { .. } => {
                python::RecordError::new_err(self.to_string())
            }
            TraceError::NoSuchProgram { .. } | TraceError::CannotBeRecorded { .. } => {
                python::InputError::new_err(self.to_string())
            }
            _ if self.is_failure() => python::MmulabError::new_err(self.to_string()),
            _ => python::TraceError::new_err(self.to_string()),
        }
    }
}

impl IntoPython for ReplayError {
    fn into_python(self) -> PyErr {
        match self {
            ReplayError::Trace(error) => error.into_python(),
            ReplayError::DoesNotFit { .. } | ReplayError::Machine { .. } => {
                python::MachineError::new_err(self.to_string())
            }
            ReplayError::NoSuchRegion { .. } | ReplayError::NoCalls { .. } => {
                python::InputError::new_err(self.to_string())
            }
            ReplayError::Threads(_) | ReplayError::Stopped => {
                python::MmulabError::new_err(self.to_string())
            }
        }
    }
}

/// A machine of the other kind was given to replay.
pub(crate) fn not_for_replay(name: &str) -> PyErr {
    python::MachineError::new_err(format!(
        "machine {name} boots kernels (kind = \"system\"); a trace needs one of kind \"replay\""
    ))
}

/// A machine of the other kind was given to boot.
pub(crate) fn not_for_boot(name: &str) -> PyErr {
    python::MachineError::new_err(format!(
        "machine {name} replays traces (kind = \"replay\"); an image needs one of kind \"system\""
    ))
}

/// A machine whose caches or TLBs cannot be built.
pub(crate) fn impossible_machine(name: &str, error: &dyn std::fmt::Display) -> PyErr {
    python::MachineError::new_err(format!("machine {name}: {error}"))
}

/// A file that a run writes beside its result cannot be written.
pub(crate) fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let message = format!("{}: {}; it was not written", path.display(), in_words(error));
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => python::MmulabError::new_err(message),
        _ => python::OutputError::new_err(message),
    }
}

/// The debugger's connection failed.
pub(crate) fn refused_by_debugger(message: String) -> PyErr {
    python::InputError::new_err(message)
}
