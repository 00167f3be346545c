//! Traces of other programs become the same blocks, whatever they are packed in.

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
    let damage = without_mend(&error.to_string());
    assert!(damage.ends_with(": line 3: `x` is not a label and an address; remove it"), "{damage}");
    let error = through_a_pipe(b"", |path| read(path).unwrap_err());
    assert!(error.to_string().ends_with("it is empty"), "{error}");
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
    // An instruction with more accesses than fit is counted again.
    let text = format!("2 400100\n{}2 400104\n", "0 20\n".repeat(600));
    let counted = |(address, _, accesses): &(u64, u8, Vec<_>)| (*address, accesses.len());
    assert_eq!(
        read(&file(&folder, "t", text.as_bytes())).unwrap().iter().map(counted).collect::<Vec<_>>(),
        [(0x40_0100, 256), (0x40_0100, 256), (0x40_0100, 88), (0x40_0104, 0)]
    );
}

fn refusal(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "t", content);
    let error = read(&path).unwrap_err().to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error.replace(path.to_str().unwrap(), "FILE")
}

/// Of content that is a trace up to some place: what is wrong there, without the mend.
fn damage(content: &[u8]) -> String {
    without_mend(&refusal(content))
}

fn without_mend(error: &str) -> String {
    let (damage, mend) = error.rsplit_once("; ").unwrap();
    assert!(mend.starts_with("--partial takes what is before it"), "{mend}");
    damage.to_owned()
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let unknown = "FILE: this is no trace of a known format (.mmt, drmemtrace, ChampSim, Valgrind \
                   lackey or Dinero din)";
    assert_eq!(refusal(b""), format!("{unknown}; it is empty"));
    assert_eq!(refusal(b"once upon a time\n"), unknown);
    assert_eq!(refusal(&[0; 4096]), unknown);
    let newer = drmemtrace(&[(kind::HEADER, 0, 8)]);
    let versions = "it begins like drmemtrace of version 8, and 1 to 7 are read";
    assert_eq!(refusal(&newer), format!("{unknown}; {versions}"));
    let lz4 = [&[0x04, 0x22, 0x4d, 0x18][..], &[0xa5; 200]].concat();
    assert_eq!(refusal(&lz4), format!("{unknown}; it is compressed by lz4: expand it first"));
    assert_eq!(refusal(&[0xff; 5000]), unknown);
    assert!(
        refusal(b"PK\x03\x04 and so on").starts_with("FILE: directory of the zip archive: "),
        "{}",
        refusal(b"PK\x03\x04 and so on")
    );
    let zipped = zip_of(&[b"once upon a time"]);
    assert_eq!(refusal(&zipped), format!("{unknown}; what the zip archive holds is none"));

    let fetches = "2 400100\n".repeat(1000);
    assert_eq!(
        damage(format!("{fetches}7 20\n").as_bytes()),
        "FILE: line 1001: `7 20` is not a label and an address; remove it"
    );
    assert_eq!(
        damage(format!("{fetches}2 {}", "0".repeat(1 << 20)).as_bytes()),
        "FILE: line 1001: the line is too long"
    );
    const LACKEY: &str = "a line of lackey's; remove it, or record with --log-file=FILE";
    // A bad line early on is no other format: most lines say what it is. Nothing is whole before
    // the second: it may have had data of the first's instruction.
    for (whole, bad, what) in [
        ("2 400100", "7 20", "a label and an address; remove it"),
        ("I  0401ab70,3", "Hello, world", LACKEY),
    ] {
        for line in 1..=5 {
            let mut lines = [whole; 5];
            lines[line - 1] = bad;
            let text = lines.join("\n");
            let told = if line <= 2 { refusal(text.as_bytes()) } else { damage(text.as_bytes()) };
            assert_eq!(told, format!("FILE: line {line}: `{bad}` is not {what}"));
        }
    }
    let lines = "I  0401ab70,3\n".repeat(1000);
    assert_eq!(
        damage(format!("{lines} X 10,4\n").as_bytes()),
        format!("FILE: line 1001: ` X 10,4` is not {LACKEY}")
    );
    assert_eq!(
        refusal(format!(" L 10,4\n{lines}").as_bytes()),
        "FILE: line 1: an access stands before any instruction; remove the lines before the first one"
    );
    assert_eq!(
        refusal(format!("I  0401ab70,3\n{}", " L 10,4\n".repeat(257)).as_bytes()),
        "FILE: line 258: an instruction has more than 256 accesses; is a line that begins with I missing?"
    );
    let (content, _) = champsim_program();
    let mut long = content.repeat(100);
    assert_eq!(damage(&long[..long.len() - 1]), "FILE: record 500: the file ends inside it");
    long[64 * 300 + 8] = 7;
    assert_eq!(damage(&long), "FILE: record 301: its branch flags are neither 0 nor 1");
}

#[test]
fn a_cut_compressed_file_is_refused() {
    let (content, _) = champsim_program();
    let long = content.repeat(10_000);
    let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 0);
    packer.write_all(&long).unwrap();
    let packed = packer.finish().unwrap();
    let error = damage(&packed[..packed.len() / 2]);
    assert!(error.starts_with("FILE: record ") && error.ends_with("is cut off"), "{error}");
    assert!(refusal(&packed[..20]).starts_with("FILE: "));
    let lines = "2 400100\n0 7fff0000\n".repeat(10_000);
    for packed in self::packed(lines.as_bytes()) {
        // Nothing is before it where a format's only block is what is cut.
        let error = refusal(&packed[..packed.len() - 12]);
        let damage = if error.contains("; ") { without_mend(&error) } else { error };
        assert!(damage.ends_with("is cut off"), "{damage}");
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
    assert_eq!(source.truncation(), Some("record 500: the file ends inside it"));
}

/// Records of drmemtrace: type, size, and an address or a value.
fn drmemtrace(records: &[(u16, u16, u64)]) -> Vec<u8> {
    let bytes = |&(kind, size, value): &(u16, u16, u64)| {
        let mut record = kind.to_le_bytes().to_vec();
        record.extend(size.to_le_bytes());
        record.extend(value.to_le_bytes());
        record
    };
    records.iter().flat_map(bytes).collect()
}

/// The numbers of `trace_entry.h` that the tests use.
mod kind {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const PREFETCH: u16 = 2;
    pub const INSTRUCTION: u16 = 10;
    pub const BUNDLE: u16 = 17;
    pub const THREAD: u16 = 22;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const MARKER: u16 = 28;
    pub const NO_FETCH: u16 = 29;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
}
const TIMESTAMP: u16 = 2;
const FILE_TYPE: u16 = 9;
const SYSTEM_CALL_BEGINS: u16 = 27;
const SYSTEM_CALL_ENDS: u16 = 28;

fn drmemtrace_program() -> (Vec<u8>, Executed) {
    use AccessKind::{Load, Modify, Store};
    let content = drmemtrace(&[
        (kind::HEADER, 0, 7),
        (kind::MARKER, FILE_TYPE, 0x240),
        (kind::THREAD, 4, 4711),
        (kind::MARKER, TIMESTAMP, 1000),
        (kind::ENCODING, 3, 0x48),
        (kind::INSTRUCTION, 3, 0x1000),
        (kind::READ, 8, 0x8000),
        (kind::INSTRUCTION, 4, 0x1003),
        (kind::READ, 4, 0x9000),
        (kind::WRITE, 4, 0x9000),
        (kind::PREFETCH, 1, 0xa000),
        (kind::READ, 4, 0x9008),
        (kind::WRITE, 8, 0x9008),
        (kind::BUNDLE, 2, 0x0502),
        (kind::WRITE, 1, 0x7000),
        // A string instruction that repeats.
        (kind::INSTRUCTION, 2, 0x2000),
        (kind::READ, 1, 0x8000),
        (kind::NO_FETCH, 2, 0x2000),
        (kind::READ, 1, 0x8001),
        (kind::MARKER, SYSTEM_CALL_BEGINS, 1),
        (kind::INSTRUCTION, 4, 0xffff_ffff_8000_0000),
        (kind::READ, 8, 0xffff_8880_0000_0000),
        (kind::MARKER, SYSTEM_CALL_ENDS, 1),
        (kind::TAKEN_JUMP, 5, 0x2002),
        (kind::FOOTER, 0, 0),
    ]);
    let executed = vec![
        (0x1000, 3, vec![(Load, 0x8000, 8)]),
        (0x1003, 4, vec![(Modify, 0x9000, 4), (Load, 0x9008, 4), (Store, 0x9008, 8)]),
        (0x1007, 2, vec![]),
        (0x1009, 5, vec![(Store, 0x7000, 1)]),
        (0x2000, 2, vec![(Load, 0x8000, 1)]),
        (0x2000, 2, vec![(Load, 0x8001, 1)]),
        (0x2002, 5, vec![]),
    ];
    (content, executed)
}

#[test]
fn drmemtrace_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (content, executed) = drmemtrace_program();
    assert_eq!(read(&file(&folder, "a.trace", &content)).unwrap(), executed);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&content).unwrap();
    assert_eq!(read(&file(&folder, "a.trace.gz", &gzip.finish().unwrap())).unwrap(), executed);
}

/// A zip archive of parts, deflated or stored in turn.
fn zip_of(parts: &[&[u8]]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (number, part) in parts.iter().enumerate() {
        let methods = [zip::CompressionMethod::Deflated, zip::CompressionMethod::Stored];
        let method = methods[number % 2];
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("chunk.{number:04}"), options).unwrap();
        archive.write_all(part).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn a_zip_archive_is_its_parts_one_behind_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (content, executed) = drmemtrace_program();
    // Parts end anywhere, also within a record.
    for cut in [12, 30, 100, content.len() - 1] {
        let (first, second) = content.split_at(cut);
        let path = file(&folder, "a.trace.zip", &zip_of(&[first, second]));
        assert_eq!(read(&path).unwrap(), executed);
    }
    let mut damaged = zip_of(&[&content]);
    damaged.truncate(damaged.len() - 30);
    let error = read(&file(&folder, "b.zip", &damaged)).unwrap_err().to_string();
    assert!(error.contains("b.zip: directory of the zip archive"), "{error}");
}

#[test]
fn what_drmemtrace_lacks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let with = |records: &[(u16, u16, u64)]| {
        let mut all = vec![(kind::HEADER, 0, 7), (kind::INSTRUCTION, 4, 0x1000)];
        all.extend(records);
        file(&folder, "bad.trace", &drmemtrace(&all))
    };
    for (records, expected) in [
        (vec![], "record 3: the file ends before the record that ends a trace"),
        (
            vec![(kind::MARKER, FILE_TYPE, 0x80)],
            "references are missing: record it without filters",
        ),
        (
            vec![(kind::MARKER, FILE_TYPE, 4)],
            "record 3: it was recorded without data references: record it with them",
        ),
        (vec![(51, 0, 0)], "record 3: its type is 51"),
        (vec![(kind::INSTRUCTION, 0, 0)], "record 3: an instruction of 0 bytes"),
        (vec![(kind::BUNDLE, 9, 0)], "record 3: a bundle of impossible instructions"),
    ] {
        let path = with(&records);
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let options = OpenOptions { partial: true, ..OpenOptions::default() };
        let mut source = open_with(&path, &options).unwrap();
        let mut batch = Batch::default();
        assert!(source.next_batch(&mut batch).unwrap() && batch.blocks.len() == 1);
        assert!(!source.next_batch(&mut batch).unwrap());
        assert!(source.truncation().unwrap().contains(expected));
    }
}

/// Threads in the order in which they run, with the addresses of their instructions.
fn read_threads(path: &Path) -> Vec<(u32, u64)> {
    let mut source = open(path).unwrap();
    let (mut batch, mut found, mut thread) = (Batch::default(), Vec::new(), 0);
    while source.next_batch(&mut batch).unwrap() {
        for (place, &id) in batch.blocks.iter().enumerate() {
            for (_, event) in batch.events.iter().filter(|(at, _)| *at == place) {
                let mmulab_trace::Event::Thread(number) = event else { panic!("{event:?}") };
                thread = *number;
            }
            found.push((thread, source.table().blocks()[id as usize].address));
        }
    }
    found
}

#[test]
fn the_files_of_a_folder_are_threads_in_the_order_of_their_timestamps() {
    let folder = tempfile::tempdir().unwrap();
    let thread = |number: u64, steps: &[(u64, u64)]| {
        let mut records = vec![(kind::HEADER, 0, 7), (kind::THREAD, 4, number)];
        for &(time, address) in steps {
            records.extend([(kind::MARKER, TIMESTAMP, time), (kind::INSTRUCTION, 4, address)]);
            records.push((kind::INSTRUCTION, 4, address + 4));
        }
        records.push((kind::FOOTER, 0, 0));
        drmemtrace(&records)
    };
    std::fs::create_dir(folder.path().join("trace")).unwrap();
    file(&folder, "trace/a.trace", &thread(77, &[(10, 0x100), (40, 0x200)]));
    file(&folder, "trace/b.trace.zip", &zip_of(&[&thread(5, &[(20, 0x300), (30, 0x400)])]));
    file(&folder, "trace/modules.log", b"not a trace");
    let expected: Vec<(u32, u64)> = [(1, 0x100), (2, 0x300), (2, 0x400), (1, 0x200)]
        .iter()
        .flat_map(|&(thread, address)| [(thread, address), (thread, address + 4)])
        .collect();
    assert_eq!(read_threads(folder.path()), expected);
    let missing = "trace/c.trace.lz4: this is no trace of a known format (.mmt, drmemtrace, ChampSim, Valgrind lackey or \
                   Dinero din); it is compressed by lz4: expand it first";
    let twice = "its files: a.trace and a.trace.xz are the same thread's: remove one";
    for (name, refusal) in [("trace/c.trace.lz4", missing), ("trace/a.trace.xz", twice)] {
        let path = file(&folder, name, b"any");
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(refusal), "{error}");
        std::fs::remove_file(path).unwrap();
    }
    // Beside what came of it, it does no harm.
    file(&folder, "trace/a.trace.lz4", b"any");
    assert_eq!(read_threads(folder.path()), expected);
    std::fs::remove_file(folder.path().join("trace/a.trace")).unwrap();
    for packed in packed(&thread(77, &[(10, 0x100), (40, 0x200)])) {
        file(&folder, "trace/a.trace.xz", &packed);
        assert_eq!(read_threads(folder.path()), expected);
    }
    let unknown = drmemtrace(&[(kind::HEADER, 0, 99), (kind::FOOTER, 0, 0)]);
    for (other, refusal) in [
        (champsim_program().0, "c.trace: record 1: it is no header of drmemtrace"),
        (unknown, "c.trace: record 1: it begins like drmemtrace of version 99"),
    ] {
        file(&folder, "trace/c.trace", &other);
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(refusal), "{error}");
    }
    let error = read(tempfile::tempdir().unwrap().path()).unwrap_err().to_string();
    assert!(error.contains("a directory without files"), "{error}");
    let unconverted = tempfile::tempdir().unwrap();
    std::fs::create_dir(unconverted.path().join("raw")).unwrap();
    let error = read(unconverted.path()).unwrap_err().to_string();
    assert!(error.contains("not converted yet: drrun -t drmemtrace -indir"), "{error}");
}

/// What a record does to what was executed, from the format's description.
fn expected_of(records: &[(u16, u16, u64)]) -> Executed {
    let mut executed: Executed = Vec::new();
    let mut is_kernel = false;
    for &(kind, size, value) in records {
        match kind {
            kind::MARKER if size == SYSTEM_CALL_BEGINS => is_kernel = true,
            kind::MARKER if size == SYSTEM_CALL_ENDS => is_kernel = false,
            _ if is_kernel => {}
            kind::INSTRUCTION | kind::NO_FETCH | kind::TAKEN_JUMP => {
                executed.push((value, size as u8, vec![]));
            }
            kind::READ | kind::WRITE => {
                let Some((.., accesses)) = executed.last_mut() else { continue };
                let is_store = kind == kind::WRITE;
                if is_store && accesses.last() == Some(&(AccessKind::Load, value, size)) {
                    accesses.last_mut().unwrap().0 = AccessKind::Modify;
                } else {
                    let kind = if is_store { AccessKind::Store } else { AccessKind::Load };
                    accesses.push((kind, value, size));
                }
            }
            _ => {}
        }
    }
    executed
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_records_of_drmemtrace_are_what_they_say(
        steps in proptest::collection::vec((0usize..12, 1u16..16, 0u64..0x40), 0..300)
    ) {
        let mut records = vec![(kind::HEADER, 0, 7), (kind::THREAD, 4, 1)];
        for (what, size, value) in steps {
            records.push(match what {
                0..=2 => (kind::INSTRUCTION, size, 0x1000 + value),
                3 => (kind::TAKEN_JUMP, size, 0x1000 + value),
                4 => (kind::NO_FETCH, size, 0x1000 + value),
                5 | 6 => (kind::READ, size % 3 + 1, 0x8000 + value % 4),
                7 | 8 => (kind::WRITE, size % 3 + 1, 0x8000 + value % 4),
                9 => (kind::ENCODING, 8, value),
                10 => (kind::MARKER, [SYSTEM_CALL_BEGINS, SYSTEM_CALL_ENDS][usize::from(size) % 2], value),
                _ => (kind::MARKER, 25, value),
            });
        }
        records.push((kind::FOOTER, 0, 0));
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, "random.trace", &drmemtrace(&records));
        proptest::prop_assert_eq!(read(&path).unwrap(), expected_of(&records));
    }

    /// Damage is an error that names the file, or goes unnoticed, and never more.
    #[test]
    fn damaged_drmemtrace_is_refused_or_read(
        place in 0usize..300, bits in 1u8.., cut in proptest::option::of(0usize..300)
    ) {
        let (mut content, _) = drmemtrace_program();
        let place = place % content.len();
        content[place] ^= bits;
        content.truncate(cut.unwrap_or(content.len()));
        let folder = tempfile::tempdir().unwrap();
        for content in [content.clone(), zip_of(&[&content])] {
            let path = file(&folder, "damaged.trace", &content);
            if let Err(error) = read(&path) {
                proptest::prop_assert!(error.to_string().contains("damaged.trace"), "{}", error);
            }
        }
    }
}
