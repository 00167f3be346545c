//! All test files of the crate in one program: as many programs would compile and link the same
//! again.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod coherence;
mod devices;
mod second_instruction_set;
mod store_buffer;
mod timeline;
mod tlb_transfer;
mod toy;
mod virt_devices;
