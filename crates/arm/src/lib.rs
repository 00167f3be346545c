//! A full-system simulator of ARM machines with virtually indexed, virtually tagged caches.

pub mod board;
mod branch;
mod buffer;
pub mod checker;
mod coprocessor;
pub mod cpu;
pub mod device_tree;
mod fetch;
pub mod gdb;
mod inspect;
mod isa;
pub mod loader;
pub mod memory;
pub mod mmu;
pub mod outcome;
mod read_buffer;
mod symbols;
pub mod system;
pub mod timeline;
mod timing;

pub use isa::CoprocessorAccess;
pub use loader::{File, LoadError, Loaded, Request, load};
pub use outcome::Outcome;
pub use symbols::Symbols;
pub use system::{Host, Stop, System, Transcript};
pub use timing::Cause;
