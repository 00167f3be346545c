//! Any bytes as a `.mmt` file, strictly and partially.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod replay;

fuzz_target!(|data: &[u8]| {
    let mut file = b"\x89MMT\r\n\x1a\n".to_vec();
    file.extend_from_slice(data);
    replay::read(&file);
});
