//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod calls;
mod damaged;
mod foreign;
mod fusion;
mod mmt_round_trip;
mod packed;
mod recording;
mod slice;
