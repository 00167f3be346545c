//! One test program for the whole crate: each would compile the generic models anew.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod coherence;
mod devices;
mod second_instruction_set;
mod store_buffer;
mod tlb_transfer;
mod toy;
mod virt_devices;
