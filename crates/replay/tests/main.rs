//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod by_hand;
mod cachegrind;
mod common;
mod miss_curves;
mod nested;
mod prefetch;
mod progress;
mod reference;
mod region;
mod schedule;
#[path = "../../hardware/tests/slow/mod.rs"]
mod slow;
mod slow_replay;
mod sweep;
