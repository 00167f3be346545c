//! Damaged traces: refused with one line that names the place, or read up to the damage.

use std::path::{Path, PathBuf};

use mmulab_trace::{
    Access, AccessKind, Batch, Block, BlockTable, Event, Metadata, MmtWriter, OpenOptions,
    Termination, TraceError, open, open_with,
};

const CHUNKS: usize = 5;
const BLOCKS_PER_CHUNK: usize = 1000;

/// Writes a trace of five chunks, and with `finish` its index; gives the offset of each chunk.
fn write(path: &Path, finish: bool) -> Vec<usize> {
    let mut writer = MmtWriter::create(path, &Metadata::default()).unwrap();
    let mut table = BlockTable::default();
    let mut offsets = Vec::new();
    for chunk in 0..CHUNKS {
        let mut batch = Batch::default();
        for index in 0..BLOCKS_PER_CHUNK {
            if index % 10 == 0 {
                table.push(Block {
                    address: (chunk * 0x10000 + index * 16) as u64,
                    instruction_sizes_bytes: vec![3, 4, 5],
                    accesses: vec![Access {
                        instruction: 1,
                        size_bytes: 8,
                        kind: AccessKind::Load,
                    }],
                });
            }
            let hash = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            batch.blocks.push((hash >> 40) as u32 % table.blocks().len() as u32);
            batch.addresses.push(hash);
        }
        writer.write(&table, &batch).unwrap();
        writer.flush().unwrap();
    }
    if finish {
        writer.finish(Termination::Exited(0)).unwrap();
    } else {
        drop(writer);
    }
    let bytes = std::fs::read(path).unwrap();
    for at in 0..bytes.len() - 4 {
        if &bytes[at..at + 4] == b"chnk" {
            offsets.push(at);
        }
    }
    assert_eq!(offsets.len(), CHUNKS);
    offsets
}

/// Reads to the end and counts the blocks; what was said of an early end.
fn read(path: &Path, partial: bool) -> Result<(usize, Option<String>), TraceError> {
    let mut source = open_with(path, &OpenOptions { partial, ..OpenOptions::default() })?;
    let (mut batch, mut blocks) = (Batch::default(), 0);
    while source.next_batch(&mut batch)? {
        blocks += batch.blocks.len();
        assert!(batch.blocks.iter().all(|&id| (id as usize) < source.table().blocks().len()));
        let accesses: usize = batch
            .blocks
            .iter()
            .map(|&id| source.table().blocks()[id as usize].accesses.len())
            .sum();
        assert_eq!(accesses, batch.addresses.len());
    }
    Ok((blocks, source.truncation().map(str::to_owned)))
}

struct Trace {
    _folder: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
    chunks: Vec<usize>,
}

impl Trace {
    fn new(finish: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.mmt");
        let chunks = write(&path, finish);
        let bytes = std::fs::read(&path).unwrap();
        Self { _folder: folder, path, bytes, chunks }
    }

    fn refusal(&self, content: &[u8]) -> String {
        std::fs::write(&self.path, content).unwrap();
        let error = read(&self.path, false).unwrap_err().to_string();
        assert!(!error.contains('\n'), "one line: {error}");
        error.replace(self.path.to_str().unwrap(), "FILE")
    }

    fn partial(&self, content: &[u8]) -> (usize, Option<String>) {
        std::fs::write(&self.path, content).unwrap();
        read(&self.path, true).unwrap()
    }
}

#[test]
fn a_whole_trace_is_read() {
    let trace = Trace::new(true);
    assert_eq!(read(&trace.path, false).unwrap(), (CHUNKS * BLOCKS_PER_CHUNK, None));
    assert_eq!(read(&trace.path, true).unwrap(), (CHUNKS * BLOCKS_PER_CHUNK, None));
}

#[test]
fn a_truncated_trace_names_the_chunk_and_gives_what_is_whole() {
    let trace = Trace::new(true);
    let instructions = 3 * BLOCKS_PER_CHUNK;
    for (cut, whole, place) in [
        (trace.chunks[3] + 5, 3, "chunk 3: the file ends inside its header"),
        (trace.chunks[4] - 1, 3, "it ends inside chunk 3"),
        (trace.chunks[2], 2, "it ends where chunk 2 or the index should begin"),
        (trace.bytes.len() - 1, 5, "chunk 5: the file ends inside its header"),
    ] {
        let problem = "it has no index at its end";
        let error = trace.refusal(&trace.bytes[..cut]);
        let expected = format!(
            "FILE: the trace is incomplete ({problem}): {place}; whole are {whole} chunks with {} \
             instructions; --partial reads those (mmulab trace slice --partial writes them)",
            whole * instructions
        );
        if whole < 5 {
            assert_eq!(error, expected);
        } else {
            assert!(error.contains("whole are 5 chunks"), "{error}");
        }
        let (blocks, why) = trace.partial(&trace.bytes[..cut]);
        assert_eq!(blocks, whole * BLOCKS_PER_CHUNK);
        assert!(why.unwrap().contains("incomplete"));
    }
    assert_eq!(
        trace.refusal(&trace.bytes[..trace.chunks[0] + 200]),
        "FILE: the trace is incomplete (it has no index at its end): it ends inside chunk 0; whole are 0 \
         chunks with 0 instructions; record it again"
    );
}

#[test]
fn an_unfinished_trace_says_so() {
    let trace = Trace::new(false);
    assert!(trace.refusal(&trace.bytes).contains("incomplete"));
    assert_eq!(trace.partial(&trace.bytes).0, CHUNKS * BLOCKS_PER_CHUNK);
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let trace = Trace::new(true);
    // Every byte of the headers, and a sample of the bodies.
    let interesting = (0..trace.bytes.len()).filter(|&at| {
        at % 499 == 0
            || at < 200
            || at + 200 > trace.bytes.len()
            || trace.chunks.iter().any(|&chunk| (chunk..chunk + 110).contains(&at))
    });
    for at in interesting {
        let mut bytes = trace.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let error = trace.refusal(&bytes);
        assert!(error.starts_with("FILE: "), "{error}");
        let chunk = trace.chunks.iter().rposition(|&chunk| chunk <= at);
        // The header of the file has to be right; of the rest, what stands before can be read.
        if let Some(chunk) = chunk {
            let index = at >= trace.chunks[4] && !error.contains("chunk 4:");
            if !index {
                assert!(error.contains(&format!("chunk {chunk}: ")), "byte {at}: {error}");
                // Before the first chunk nothing is whole.
                assert_eq!(error.ends_with("; record it again"), chunk == 0, "byte {at}: {error}");
            }
            let (blocks, why) = trace.partial(&bytes);
            assert_eq!(blocks, if index { CHUNKS } else { chunk } * BLOCKS_PER_CHUNK);
            assert!(why.is_some());
        }
    }
}

#[test]
fn absurd_lengths_ask_for_no_memory() {
    let trace = Trace::new(true);
    // With checksums that fit: what a hostile writer would make.
    // Fields 4 and 5 are the number of instructions, which asks for nothing.
    for field in (0..4).chain(6..26) {
        let mut bytes = trace.bytes.clone();
        let header = trace.chunks[1];
        let at = header + 4 * field;
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let sealed = header + 104;
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[header..sealed]);
        bytes[sealed..sealed + 8].copy_from_slice(&checksum.to_le_bytes());
        let error = trace.refusal(&bytes);
        assert!(error.starts_with("FILE: chunk 1: "), "field {field}: {error}");
        assert_eq!(trace.partial(&bytes).0, BLOCKS_PER_CHUNK, "field {field}");
    }
    let mut bytes = trace.bytes.clone();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        trace.refusal(&bytes),
        "FILE: header: its length is beyond the end of the file; record it again"
    );
}

/// The trace with another stream of crossings in its last chunk, and checksums that fit.
fn with_crossings(trace: &Trace, crossings: &[u8]) -> Vec<u8> {
    let header = trace.chunks[CHUNKS - 1];
    let lengths = header + 32 + 7 * 8;
    let mut bytes = trace.bytes.clone();
    let old = u32::from_le_bytes(bytes[lengths + 4..lengths + 8].try_into().unwrap());
    let stored = zstd::bulk::compress(crossings, 1).unwrap();
    bytes.truncate(bytes.len() - old as usize);
    bytes.extend_from_slice(&stored);
    bytes[lengths..lengths + 4].copy_from_slice(&(crossings.len() as u32).to_le_bytes());
    bytes[lengths + 4..lengths + 8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    for (place, sealed) in
        [(header + 96, header + 112..bytes.len()), (header + 104, header..header + 104)]
    {
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[sealed]);
        bytes[place..place + 8].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

#[test]
fn crossings_beyond_the_addresses_are_refused() {
    let trace = Trace::new(false);
    let whole = (CHUNKS - 1) * BLOCKS_PER_CHUNK;
    // The chunk has 1000 addresses.
    for good in [&[][..], &[0, 0, 0], &[0xe7, 7], &[0, 0xe6, 7]] {
        assert_eq!(trace.partial(&with_crossings(&trace, good)).0, whole + BLOCKS_PER_CHUNK);
    }
    for bad in [&[0xe8, 7][..], &[0, 0xe7, 7], &[0x80], &[5, 0xff], &[0xff; 9], &[0; 1001]] {
        let (blocks, why) = trace.partial(&with_crossings(&trace, bad));
        let why = why.unwrap();
        assert!(why.contains("incomplete"), "{why}");
        assert_eq!(blocks, whole, "{bad:?}");
    }
}

#[test]
fn other_files_are_refused() {
    let trace = Trace::new(true);
    assert!(trace.refusal(&trace.bytes[..4]).contains("no trace of a known format"));
    assert!(trace.refusal(&trace.bytes[..9]).contains("too short"));
    let mut newer = trace.bytes.clone();
    newer[8] = 9;
    assert_eq!(
        trace.refusal(&newer),
        "FILE: header: it is written in version 9 of the format and this mmulab reads version 3; record it again"
    );
    let text = trace.bytes.iter().flat_map(|&byte| match byte {
        b'\r' => vec![],
        byte => vec![byte],
    });
    assert!(trace.refusal(&text.collect::<Vec<_>>()).contains("as if it were text"));
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.contains("directory"), "{error}");
    let missing = folder.path().join("missing");
    let error = open(&missing).err().unwrap().to_string();
    assert!(error.starts_with(missing.to_str().unwrap()), "{error}");

    let secret = folder.path().join("secret");
    std::fs::write(&secret, "2 10\n").unwrap();
    let mut permissions = secret.metadata().unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o000);
    std::fs::set_permissions(&secret, permissions).unwrap();
    // The superuser may read everything; nobody else.
    match open(&secret) {
        Ok(_) => assert!(std::fs::read(&secret).is_ok()),
        Err(error) => assert!(error.to_string().contains("ermission"), "{error}"),
    }
}

#[test]
fn what_the_format_cannot_hold_is_refused_by_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let write = |block: Option<Block>, event: Option<Event>| {
        let metadata = Metadata::default();
        let mut writer = MmtWriter::create(&folder.path().join("t.mmt"), &metadata).unwrap();
        let mut table = BlockTable::default();
        let mut batch = Batch::default();
        block.map(|block| table.push(block));
        batch.events.extend(event.map(|event| (0, event)));
        writer.write(&table, &batch).and_then(|()| writer.finish(Termination::Unknown).map(drop))
    };
    let block = |accesses| Block {
        address: 0,
        instruction_sizes_bytes: vec![1],
        accesses: vec![Access { instruction: 0, size_bytes: 1, kind: AccessKind::Load }; accesses],
    };
    let map = |length| Event::Map {
        address: 0,
        length_bytes: 1,
        executable: false,
        name: "n".repeat(length),
    };
    write(Some(block(4096)), Some(map(1 << 20))).unwrap();
    assert!(write(Some(block(4097)), None).is_err());
    assert!(write(None, Some(map((1 << 20) + 1))).is_err());
}

#[test]
fn many_blocks_go_into_several_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.mmt");
    let mut writer = MmtWriter::create(&path, &Metadata::default()).unwrap();
    let mut table = BlockTable::default();
    let count = (1 << 20) + 7;
    for address in 0..count {
        let instruction_sizes_bytes = vec![1];
        table.push(Block { address, instruction_sizes_bytes, accesses: vec![] });
    }
    let blocks = vec![count as u32 - 1; 10];
    writer.write(&table, &Batch { blocks, ..Batch::default() }).unwrap();
    writer.finish(Termination::Unknown).unwrap();
    assert_eq!(read(&path, false).unwrap(), (10, None));
}
