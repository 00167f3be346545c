//! The binding crate: converts between Python and the engine, and holds no logic of its own.
use pyo3::prelude::*;

/// The engine of mmulab.
#[pymodule]
mod _engine {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
