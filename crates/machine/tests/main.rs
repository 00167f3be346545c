//! One test program for the whole crate: each would compile the generic models anew.

mod damaged;
mod schema;
mod shipped;
