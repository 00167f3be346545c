//! A machine that executes a kernel, whatever its instruction set: cores with their caches, TLBs
//! and buffers, the bus with memory and devices, the run loop, and who looks on.
//!
//! An instruction set is a type that implements [`core::Core`]: it decodes and executes, and its
//! [`core::Mmu`] walks its tables. Nothing here names one.

pub mod board;
pub mod bus;
pub mod cause;
pub mod checker;
pub mod clock;
pub mod coherence;
pub mod core;
pub mod device_tree;
pub mod fetch;
pub mod gdb;
mod inspect;
pub mod line_fills;
pub mod loader;
pub mod maintenance;
pub mod memory;
mod micro_tlb;
pub mod observer;
pub mod outcome;
mod prefetcher;
pub mod ram;
pub mod read_buffer;
mod run;
mod saving;
pub mod statistics;
mod store_buffer;
mod symbols;
pub mod system;
pub mod timeline;
pub mod tlb;
mod tlb_transfer;
mod walk_cache;
mod write_buffer;

pub use cause::Cause;
pub use loader::{File, ImageRules, LoadError, Loaded, Request, load};
pub use outcome::Outcome;
pub use saving::SavePoint;
pub use symbols::Symbols;
pub use system::{Host, Stop, System, Transcript};
