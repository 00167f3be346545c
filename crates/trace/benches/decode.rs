//! How fast a trace is decoded and coded on one core: `MMULAB_TRACE=t.mmt cargo bench -p
//! mmulab-trace`; without the variable it takes the small trace that the project ships.

use std::path::{Path, PathBuf};

use mmulab_trace::{
    Batch, Metadata, MmtReader, MmtWriter, OpenOptions, Source, Termination, TraceError,
};

/// Processor time of this process, all threads: what counts on a machine that others use too.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one value that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() -> Result<(), TraceError> {
    let path = std::env::var_os("MMULAB_TRACE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/small.mmt"),
        PathBuf::from,
    );
    let mut batch = Batch::default();
    for round in 0..3 {
        let mut reader = MmtReader::open(&path, &OpenOptions::default())?;
        let totals = reader.information().totals;
        let bits = reader.information().bits_per_instruction();
        let start = processor_seconds();
        let mut sum = 0u64;
        while reader.next_batch(&mut batch)? {
            sum = sum.wrapping_add(batch.blocks.iter().map(|&block| u64::from(block)).sum());
            sum = batch.addresses.last().map_or(sum, |&address| sum ^ address);
        }
        let seconds = processor_seconds() - start;
        let speed = totals.instructions as f64 / seconds / 1e6;
        println!(
            "decode, round {round}: {speed:.0} M instructions/s, {:.2} ns a block, {:.2} ns an \
             access, {bits:.3} bits an instruction (sum {sum:x})",
            seconds * 1e9 / totals.blocks as f64,
            seconds * 1e9 / (totals.loads + totals.stores + totals.modifies) as f64,
        );
    }
    let copy = std::env::temp_dir().join(format!("mmulab-bench-{}.mmt", std::process::id()));
    let mut reader = MmtReader::open(&path, &OpenOptions::default())?;
    let start = processor_seconds();
    let mut writer = MmtWriter::create(&copy, &Metadata::default())?;
    while reader.next_batch(&mut batch)? {
        writer.write(reader.table(), &batch)?;
    }
    let totals = writer.finish(Termination::Unknown)?;
    let speed = totals.instructions as f64 / (processor_seconds() - start) / 1e6;
    let bytes = copy.metadata().map_or(0, |file| file.len());
    println!(
        "decode and code again: {speed:.0} M instructions/s, {:.3} bits an instruction",
        8.0 * bytes as f64 / totals.instructions as f64
    );
    let _ = std::fs::remove_file(copy);
    Ok(())
}
