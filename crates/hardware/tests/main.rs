//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ledger;
mod reference;
mod slow;
