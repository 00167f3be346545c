//! Machines with an ARM core that execute kernels (`kind = "system"`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Fault;

/// A whole system around an ARM core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemMachine {
    /// The name users type; the file's name without `.toml`.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
}

impl SystemMachine {
    pub(crate) fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}
