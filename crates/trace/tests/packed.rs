//! Damage to a packed trace is an error of one line, or ends a partial reading: never a panic, and
//! never an endless trace.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;

use mmulab_trace::{Batch, OpenOptions, open_with};
use proptest::prelude::*;

const MAGICS: [&[u8]; 4] =
    [b"BZh9", &[0x1f, 0x8b, 8], &[0xfd, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xb5, 0x2f, 0xfd]];

fn packed(packing: usize, content: &[u8]) -> Vec<u8> {
    match packing {
        0 => {
            let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            packer.write_all(content).unwrap();
            packer.finish().unwrap()
        }
        1 => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(content).unwrap();
            packer.finish().unwrap()
        }
        2 => {
            let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 0);
            packer.write_all(content).unwrap();
            packer.finish().unwrap()
        }
        _ => zstd::encode_all(content, 1).unwrap(),
    }
}

/// Reads to the end or the first error; gives the instructions and the error.
fn read(path: &Path, partial: bool) -> (usize, Option<String>) {
    let mut source = match open_with(path, &OpenOptions { partial, ..OpenOptions::default() }) {
        Ok(source) => source,
        Err(error) => return (0, Some(error.to_string())),
    };
    let (mut batch, mut instructions) = (Batch::default(), 0);
    loop {
        match source.next_batch(&mut batch) {
            Ok(true) => instructions += batch.blocks.len(),
            Ok(false) => return (instructions, None),
            Err(error) => return (instructions, Some(error.to_string())),
        }
        assert!(instructions < 10_000_000, "the trace does not end");
    }
}

fn check(content: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, content).unwrap();
    let (whole, error) = read(&path, false);
    if let Some(error) = &error {
        prop_assert!(error.starts_with(&path.display().to_string()), "{}", error);
        prop_assert!(!error.contains('\n'), "{}", error);
    }
    let (part, _) = read(&path, true);
    prop_assert!(part >= whole);
    // A pipe gives the same.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let through_pipe = std::thread::scope(|scope| {
        scope.spawn(move || drop(writer.write_all(content)));
        let read = read(format!("/proc/self/fd/{}", reader.as_raw_fd()).as_ref(), false);
        drop(reader);
        read
    });
    prop_assert_eq!(through_pipe.0, whole);
    prop_assert_eq!(through_pipe.1.is_some(), error.is_some());
    Ok(())
}

/// A trace of some text format, or of our own.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let din = (1usize..400).prop_map(|count| "2 400100\n0 7fff0000\n".repeat(count).into_bytes());
    let lackey =
        (1usize..400).prop_map(|count| "I  04001000,3\n L 1ff0,8\n".repeat(count).into_bytes());
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.mmt");
    let own = std::fs::read(small).unwrap()[..40_000].to_vec();
    prop_oneof![din, lackey, Just(own)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damage_to_a_packed_trace_is_told(
        content in content(),
        packing in 0usize..4,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        is_truncated in any::<bool>(),
    ) {
        let mut bytes = packed(packing, &content);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if is_truncated {
            bytes.truncate(length.index(bytes.len()));
        }
        check(&bytes)?;
    }

    #[test]
    fn nonsense_behind_a_packings_magic_number_is_told(
        packing in 0usize..4,
        rest in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        check(&[MAGICS[packing], &rest].concat())?;
    }
}
