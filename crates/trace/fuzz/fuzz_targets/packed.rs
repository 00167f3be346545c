//! Any bytes behind the magic number of a packing; and any bytes, packed: the reader behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod replay;

const MAGICS: [&[u8]; 4] =
    [b"BZh9", &[0x1f, 0x8b, 8], &[0xfd, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xb5, 0x2f, 0xfd]];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    match MAGICS.get(usize::from(choice)) {
        Some(magic) => replay::read(&[magic, rest].concat()),
        None => replay::read(&zstd::encode_all(rest, 1).expect("memory")),
    }
});
