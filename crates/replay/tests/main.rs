//! One test program for the whole crate: each would compile the generic models anew.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod by_hand;
mod cachegrind;
mod common;
mod miss_curves;
mod nested;
mod progress;
mod reference;
mod region;
mod schedule;
#[path = "../../hardware/tests/slow/mod.rs"]
mod slow;
mod slow_replay;
mod sweep;
