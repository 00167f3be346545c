//! One test program for the whole crate: each would compile the generic models anew.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ledger;
mod reference;
mod slow;
