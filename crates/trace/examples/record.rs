//! Records a program: `cargo run --release --example record -- OUTPUT PROGRAM ARGS...`
//!
//! The environment may set `LIMIT` to a number of instructions, `FOLLOW` to anything for recording
//! children too, and `MMULAB_RECORDER` to the folder of the Valgrind tool (`build/valgrind`).

use std::path::PathBuf;

use mmulab_trace::{MmtReader, OpenOptions, RecordOptions, TraceError, record};

fn main() -> Result<(), TraceError> {
    let mut args = std::env::args().skip(1);
    let options = RecordOptions {
        output: PathBuf::from(args.next().expect("an output file")),
        program: args.next().expect("a program"),
        args: args.collect(),
        follow_children: std::env::var_os("FOLLOW").is_some(),
        max_instructions: std::env::var("LIMIT").ok().and_then(|limit| limit.parse().ok()),
        tool_directory: std::env::var_os("MMULAB_RECORDER")
            .map_or_else(|| PathBuf::from("build/valgrind"), PathBuf::from),
    };
    let summary = record(&options, &mut |_| true)?;
    eprintln!("{summary:#?}");
    let reader = MmtReader::open(&options.output, &OpenOptions::default())?;
    eprintln!("{:.2} bits an instruction", reader.information().bits_per_instruction());
    Ok(())
}
