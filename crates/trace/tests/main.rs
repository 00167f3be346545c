//! One test program for the whole crate: each would compile the generic models anew.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod calls;
mod damaged;
mod foreign;
mod fusion;
mod mmt_round_trip;
mod packed;
mod recording;
mod slice;
