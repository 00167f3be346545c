//! The binding crate: converts between Python and the engine, and holds no logic of its own.
//!
//! Long calls release Python's lock and come up for air now and then: see [`watch`].

mod boot;
mod calibrate;
mod errors;
mod machine;
mod miss_curves;
mod replay;
mod sweep;
mod trace;
mod watch;

use pyo3::prelude::*;

/// The engine of mmulab.
#[pymodule]
mod _engine {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const PROGRAMS_MAX: usize = mmulab_trace::MOST_PROGRAMS;

    #[pymodule_export]
    use crate::boot::{boot, saved_state_header};
    #[pymodule_export]
    use crate::calibrate::{Computer, reported_tlbs};
    #[pymodule_export]
    use crate::machine::{Machine, machine_schema};
    #[pymodule_export]
    use crate::miss_curves::miss_curves;
    #[pymodule_export]
    use crate::replay::{profile, replay};
    #[pymodule_export]
    use crate::sweep::{sweep_unit, sweep_units};
    #[pymodule_export]
    use crate::trace::{dump_trace, record, slice_trace, trace_information, trace_length};
}
