//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

mod damaged;
mod schema;
mod shipped;
