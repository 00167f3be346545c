//! Any bytes as a trace of some other program, told apart by content.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod replay;

fuzz_target!(|data: &[u8]| replay::read(data));
