//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod caches;
mod coprocessor;
mod cortex_a7_memory;
mod debugger;
mod instructions;
mod lockdown;
mod machines;
mod overlapping_misses;
mod saved_states;
mod support;
mod timing;
mod two_cores;
mod waiting;
