//! A `.mmt` file whose checksums and compression are right and whose content is anything: what a
//! hostile writer could make, and what random bytes never reach.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

mod replay;

fn seal(bytes: &mut Vec<u8>, start: usize) {
    let checksum = xxh3_64(&bytes[start..]);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// Splits the input into the fields of a chunk header and its eight streams.
fn chunk(file: &mut Vec<u8>, number: u32, data: &[u8]) {
    let (fields, rest) = data.split_at(data.len().min(16));
    let field = |index: usize| fields.get(index).copied().map_or(0, u32::from);
    // Counts that fit the streams, give or take a little, get furthest.
    let mut lengths = [0; 8];
    let mut left = rest.len();
    for (index, length) in lengths.iter_mut().enumerate() {
        *length = (field(index) as usize).min(left);
        left -= *length;
    }
    let blocks = (lengths[3] as u32 * 4).saturating_sub(field(8) % 5);
    let addresses = (lengths[5] as u32 * 2).saturating_sub(field(9) % 3);
    let start = file.len();
    for word in [u32::from_le_bytes(*b"chnk"), number, blocks, addresses, field(10), 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for word in [field(11), field(12) % 4] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    let (mut body, mut rest) = (Vec::new(), rest);
    for length in lengths {
        let (stream, tail) = rest.split_at(length);
        rest = tail;
        let stored = zstd::bulk::compress(stream, 1).expect("memory");
        file.extend_from_slice(&(length as u32).to_le_bytes());
        file.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        body.extend(stored);
    }
    file.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    seal(file, start);
    file.extend(body);
}

fuzz_target!(|data: &[u8]| {
    let mut file = b"\x89MMT\r\n\x1a\n".to_vec();
    let metadata = br#"{"command":[],"recorder":"","instruction_set":""}"#;
    file.extend_from_slice(&mmulab_trace::MMT_VERSION.to_le_bytes());
    file.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    file.extend_from_slice(metadata);
    seal(&mut file, 0);
    let middle = data.len() / 2;
    chunk(&mut file, 0, &data[..middle]);
    chunk(&mut file, 1, &data[middle..]);
    replay::read(&file);
});
