//! Traces of other programs become the same blocks, whatever they are packed in.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};

use mmulab_trace::{Access, AccessKind, Batch, OpenOptions, TraceError, open, open_with};

/// Executed instructions with their accesses: address, size, (kind, address, size).
type Executed = Vec<(u64, u8, Vec<(AccessKind, u64, u16)>)>;

fn read(path: &Path) -> Result<Executed, TraceError> {
    let mut source = open(path)?;
    let (mut batch, mut executed) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch)? {
        let mut addresses = batch.addresses.iter();
        for &id in &batch.blocks {
            let block = &source.table().blocks()[id as usize];
            let [size] = block.instruction_sizes_bytes[..] else { panic!("one instruction each") };
            let access =
                |access: &Access| (access.kind, *addresses.next().unwrap(), access.size_bytes);
            executed.push((block.address, size, block.accesses.iter().map(access).collect()));
        }
        assert!(addresses.next().is_none());
    }
    Ok(executed)
}

fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// One ChampSim record.
fn champsim(ip: u64, flags: [u8; 2], written: [u64; 2], read: [u64; 4]) -> Vec<u8> {
    let mut record = ip.to_le_bytes().to_vec();
    record.extend(flags);
    record.extend([1, 2, 3, 4, 5, 6]);
    record.extend(written.iter().chain(&read).flat_map(|address| address.to_le_bytes()));
    record
}

fn champsim_program() -> (Vec<u8>, Executed) {
    use AccessKind::{Load, Modify, Store};
    let content = [
        champsim(0x1000, [0, 0], [0, 0], [0x8000, 0, 0, 0]),
        champsim(0x1003, [0, 0], [0x9000, 0], [0x8008, 0, 0x9000, 0]),
        champsim(0x1010, [1, 1], [0x7ff8, 0], [0; 4]),
        champsim(0x1000, [0, 0], [0, 0], [0; 4]),
        champsim(0x1003, [0, 0], [0x9008, 0], [0; 4]),
    ]
    .concat();
    let executed = vec![
        (0x1000, 3, vec![(Load, 0x8000, 8)]),
        (0x1003, 13, vec![(Load, 0x8008, 8), (Modify, 0x9000, 8)]),
        // Followed by something far away: the size is not known.
        (0x1010, 4, vec![(Store, 0x7ff8, 8)]),
        (0x1000, 3, vec![]),
        (0x1003, 4, vec![(Store, 0x9008, 8)]),
    ];
    (content, executed)
}

#[test]
fn champsim_is_read_raw_and_packed() {
    let folder = tempfile::tempdir().unwrap();
    let (content, executed) = champsim_program();
    assert_eq!(read(&file(&folder, "t.champsim", &content)).unwrap(), executed);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(&content).unwrap();
    assert_eq!(
        read(&file(&folder, "misleading.mmt", &packer.finish().unwrap())).unwrap(),
        executed
    );
    for packed in packed(&content) {
        assert_eq!(read(&file(&folder, "t.packed", &packed)).unwrap(), executed);
        // Two streams one behind the other, as parallel packers write them.
        let twice = [packed.clone(), packed].concat();
        let doubled = read(&file(&folder, "t.packed", &twice)).unwrap();
        assert_eq!(doubled.len(), 2 * executed.len());
    }
}

/// The content in every packing that is read.
fn packed(content: &[u8]) -> [Vec<u8>; 4] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(content).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(content).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip2.write_all(content).unwrap();
    [
        gzip.finish().unwrap(),
        xz.finish().unwrap(),
        bzip2.finish().unwrap(),
        zstd::encode_all(content, 3).unwrap(),
    ]
}

/// Gives a pipe's path to `read`, with `content` coming through it.
fn through_a_pipe<T>(content: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::thread::scope(|scope| {
        // A reader that has enough closes the pipe.
        scope.spawn(move || drop(writer.write_all(content)));
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let result = read(path.as_ref());
        drop(reader);
        result
    })
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let (content, executed) = champsim_program();
    assert_eq!(through_a_pipe(&content, |path| read(path).unwrap()), executed);
    for packed in packed(&content) {
        assert_eq!(through_a_pipe(&packed, |path| read(path).unwrap()), executed);
    }
    let error = through_a_pipe(b"2 400100\n2 400104\nx\n", |path| read(path).unwrap_err());
    assert!(error.to_string().ends_with(": line 3: `x` is not a label and an address"), "{error}");
    let error = through_a_pipe(b"", |path| read(path).unwrap_err());
    assert!(error.to_string().ends_with("the file is empty"), "{error}");
}

#[test]
fn the_own_format_is_read_packed_and_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.mmt");
    let count = |path: &Path, partial: bool| {
        let mut source = open_with(path, &OpenOptions { partial, ..OpenOptions::default() })?;
        let (mut batch, mut addresses) = (Batch::default(), Vec::new());
        while source.next_batch(&mut batch)? {
            addresses.extend_from_slice(&batch.addresses);
        }
        Ok::<_, TraceError>(addresses)
    };
    let expected = count(&small, false).unwrap();
    let content = std::fs::read(&small).unwrap();
    assert_eq!(through_a_pipe(&content, |path| count(path, false).unwrap()), expected);
    for packed in packed(&content) {
        let whole = file(&folder, "t.mmt.packed", &packed);
        assert_eq!(count(&whole, false).unwrap(), expected);
        assert_eq!(through_a_pipe(&packed, |path| count(path, false).unwrap()), expected);
        let cut = file(&folder, "cut", &packed[..packed.len() / 2]);
        let error = count(&cut, false).unwrap_err().to_string();
        assert!(error.ends_with("the compressed file is cut off"), "{error}");
        // Bzip2 gives nothing before it has seen its whole first block.
        if let Ok(beginning) = count(&cut, true) {
            assert!(expected.starts_with(&beginning));
        }
    }
}

#[test]
fn champsim_of_cloudsuite_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut content = Vec::new();
    for ip in [0x1000u64, 0x1004, 0x1008] {
        let mut record = vec![0; 96];
        record[..8].copy_from_slice(&ip.to_le_bytes());
        record[48..56].copy_from_slice(&0x5000u64.to_le_bytes());
        record[56..64].copy_from_slice(&0x6000u64.to_le_bytes());
        record[88] = 255;
        content.extend(record);
    }
    let accesses = vec![(AccessKind::Load, 0x6000, 8), (AccessKind::Store, 0x5000, 8)];
    assert_eq!(
        read(&file(&folder, "t", &content)).unwrap(),
        [0x1000, 0x1004, 0x1008].map(|ip| (ip, 4, accesses.clone()))
    );
}

#[test]
fn lackey_is_read() {
    use AccessKind::{Load, Modify, Store};
    let folder = tempfile::tempdir().unwrap();
    let text = "==77== Lackey, an example\n\nI  0401ab70,3\n S 1fff000758,8\nI  0401b770,1\n \
                L 10,4\n M ff8,2\n==77== done\nI  0401ab70,3\n";
    let executed = vec![
        (0x401_ab70, 3, vec![(Store, 0x1f_ff00_0758, 8)]),
        (0x401_b770, 1, vec![(Load, 0x10, 4), (Modify, 0xff8, 2)]),
        (0x401_ab70, 3, vec![]),
    ];
    assert_eq!(read(&file(&folder, "t", text.as_bytes())).unwrap(), executed);
}

#[test]
fn din_is_read() {
    use AccessKind::{Load, Store};
    let folder = tempfile::tempdir().unwrap();
    let text = "2 400100\n0 7fff0000\n1 10008\n\n2 400104 extra\n4 0\n2 0x400108\n0 20\n";
    let executed = vec![
        (0x40_0100, 4, vec![(Load, 0x7fff_0000, 4), (Store, 0x1_0008, 4)]),
        (0x40_0104, 4, vec![]),
        (0x40_0108, 4, vec![(Load, 0x20, 4)]),
    ];
    assert_eq!(read(&file(&folder, "t", text.as_bytes())).unwrap(), executed);
    // Data alone belongs to an instruction at address 0.
    let executed = vec![(0, 4, vec![(Load, 0x20, 4), (Store, 0x24, 4)])];
    assert_eq!(read(&file(&folder, "t", b"0 20\n1 24\n")).unwrap(), executed);
}

fn refusal(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "t", content);
    let error = read(&path).unwrap_err().to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error.replace(path.to_str().unwrap(), "FILE")
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let unknown = "FILE: this is no trace of a known format (.mmt, ChampSim, Valgrind lackey or \
                   Dinero din)";
    assert_eq!(refusal(b""), format!("{unknown}; the file is empty"));
    assert_eq!(refusal(b"once upon a time\n"), unknown);
    assert_eq!(refusal(&[0; 4096]), unknown);
    assert_eq!(refusal(&[0xff; 5000]), unknown);
    assert_eq!(
        refusal(b"PK\x03\x04 and so on"),
        format!("{unknown}; it may be a zip of drmemtrace, which is not read: convert it first")
    );

    let fetches = "2 400100\n".repeat(1000);
    assert_eq!(
        refusal(format!("{fetches}7 20\n").as_bytes()),
        "FILE: line 1001: `7 20` is not a label and an address"
    );
    assert_eq!(
        refusal(format!("{fetches}2 {}", "0".repeat(1 << 20)).as_bytes()),
        "FILE: line 1001: the line is too long"
    );
    // A bad line early on is no other format: most lines say what it is.
    for line in 1..=5 {
        let mut lines = ["2 400100"; 5];
        lines[line - 1] = "7 20";
        assert_eq!(
            refusal(lines.join("\n").as_bytes()),
            format!("FILE: line {line}: `7 20` is not a label and an address")
        );
        let mut lines = ["I  0401ab70,3"; 5];
        lines[line - 1] = "Hello, world";
        assert_eq!(
            refusal(lines.join("\n").as_bytes()),
            format!("FILE: line {line}: `Hello, world` is not a line of lackey's")
        );
    }
    let lines = "I  0401ab70,3\n".repeat(1000);
    assert_eq!(
        refusal(format!("{lines} X 10,4\n").as_bytes()),
        "FILE: line 1001: ` X 10,4` is not a line of lackey's"
    );
    let (content, _) = champsim_program();
    let mut long = content.repeat(100);
    assert_eq!(refusal(&long[..long.len() - 1]), "FILE: record 499: the file ends inside it");
    long[64 * 300 + 8] = 7;
    assert_eq!(refusal(&long), "FILE: record 300: its branch flags are neither 0 nor 1");
}

#[test]
fn a_cut_compressed_file_is_refused() {
    let (content, _) = champsim_program();
    let long = content.repeat(10_000);
    let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 0);
    packer.write_all(&long).unwrap();
    let packed = packer.finish().unwrap();
    let error = refusal(&packed[..packed.len() / 2]);
    assert!(error.starts_with("FILE: record ") && error.ends_with("is cut off"), "{error}");
    assert!(refusal(&packed[..20]).starts_with("FILE: "));
    let lines = "2 400100\n0 7fff0000\n".repeat(10_000);
    for packed in self::packed(lines.as_bytes()) {
        let error = refusal(&packed[..packed.len() - 12]);
        assert!(error.ends_with("is cut off"), "{error}");
    }
}

#[test]
fn what_stands_before_the_damage_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (content, executed) = champsim_program();
    let path = file(&folder, "t", &content.repeat(100)[..64 * 499 + 5]);
    let mut source =
        open_with(&path, &OpenOptions { partial: true, ..OpenOptions::default() }).unwrap();
    let (mut batch, mut instructions) = (Batch::default(), 0);
    while source.next_batch(&mut batch).unwrap() {
        instructions += batch.blocks.len();
    }
    assert_eq!(instructions, 100 * executed.len() - 1);
    assert_eq!(source.truncation(), Some("record 499: the file ends inside it"));
}
