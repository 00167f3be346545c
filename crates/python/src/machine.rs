//! Machine descriptions.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{IntoPython, not_for_replay};

/// A machine's description.
#[pyclass(frozen, module = "mmulab._engine")]
pub(crate) struct Machine(pub(crate) mmulab_machine::Machine);

#[pymethods]
impl Machine {
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        mmulab_machine::Machine::load(&path).map(Self).map_err(IntoPython::into_python)
    }

    #[staticmethod]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        mmulab_machine::Machine::parse(text, name).map(Self).map_err(IntoPython::into_python)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn title(&self) -> &str {
        self.0.title()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            mmulab_machine::Machine::Replay(_) => "replay",
            mmulab_machine::Machine::System(_) => "system",
        }
    }

    fn check_replays(&self) -> PyResult<()> {
        match &self.0 {
            mmulab_machine::Machine::Replay(_) => Ok(()),
            mmulab_machine::Machine::System(machine) => Err(not_for_replay(&machine.name)),
        }
    }

    fn with_changes(&self, changes: Vec<(String, String)>) -> PyResult<Self> {
        let changes: Vec<(&str, &str)> =
            changes.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        self.0.with(&changes).map(Self).map_err(IntoPython::into_python)
    }

    fn toml(&self) -> PyResult<String> {
        toml::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The JSON Schema of machine files, as text.
#[pyfunction]
pub(crate) fn machine_schema() -> String {
    mmulab_machine::json_schema().to_string()
}
