//! Recording, what traces say of themselves, and parts of them.

use std::path::{Path, PathBuf};

use mmulab_trace::{
    Batch, Information, Metadata, MmtReader, MmtWriter, OpenOptions, RecordOptions, Slice, Source,
    Termination, Totals, TraceError, open_with,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::IntoPython;
use crate::watch::{Watch, open_options};

/// What a trace says of itself; one that says nothing, or is incomplete, is read to its end.
#[pyfunction]
#[pyo3(signature = (path, *, partial, progress))]
pub(crate) fn trace_information(
    python: Python<'_>,
    path: PathBuf,
    partial: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut watch = Watch::new(progress);
    let read = python.detach(|| {
        let mut source = open_with(&path, &open_options(partial))?;
        let told = source.information().cloned();
        let mut information = match told {
            Some(told) if told.is_complete() => told,
            told => counted(&mut *source, told, &mut watch)?,
        };
        // A compressed .mmt is read where it was expanded.
        let on_disk = bytes_of(&path);
        if on_disk > 0 {
            information.file_bytes = on_disk;
        }
        Ok((source.format(), information, source.truncation().map(str::to_owned)))
    });
    watch.finish()?;
    let (format, information, cut) = read.map_err(|error: TraceError| error.into_python())?;
    information_dict(python, format, &information, cut.as_deref())
}

/// Of a file, or of the files in a folder and in its folder `trace`; 0 of what cannot be read.
fn bytes_of(path: &Path) -> u64 {
    let own = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    if !path.is_dir() {
        return own(path);
    }
    let folders = [path.to_owned(), path.join("trace")]
        .into_iter()
        .filter_map(|folder| folder.read_dir().ok());
    let files = folders.flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.is_file()).map(|path| own(&path)).sum()
}

/// What reading all of a trace tells.
fn counted(
    source: &mut dyn Source,
    told: Option<Information>,
    watch: &mut Watch,
) -> Result<Information, TraceError> {
    let (mut batch, mut totals) = (Batch::default(), Totals::default());
    while source.next_batch(&mut batch)? {
        totals.add(source.table(), &batch);
        if !watch.continues(totals.instructions, None) {
            break;
        }
    }
    let told = told.unwrap_or_else(|| Information {
        metadata: Metadata { command: source.command().to_vec(), ..Metadata::default() },
        totals,
        termination: None,
        chunks: 0,
        file_bytes: 0,
    });
    Ok(Information { totals, ..told })
}

/// How many instructions a trace has, where it can say so without being read.
#[pyfunction]
pub(crate) fn trace_length(python: Python<'_>, path: PathBuf) -> Option<u64> {
    let reader = python.detach(|| MmtReader::open(&path, &OpenOptions::default())).ok()?;
    Some(reader.information().totals.instructions)
}

fn information_dict<'py>(
    python: Python<'py>,
    format: &str,
    information: &Information,
    truncation: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let Information { metadata, totals, termination, file_bytes, .. } = information;
    let dict = PyDict::new(python);
    dict.set_item("format", format)?;
    dict.set_item("command", &metadata.command)?;
    dict.set_item("recorder", &metadata.recorder)?;
    dict.set_item("instruction_set", &metadata.instruction_set)?;
    dict.set_item("instructions", totals.instructions)?;
    dict.set_item("loads", totals.loads)?;
    dict.set_item("stores", totals.stores)?;
    dict.set_item("modifies", totals.modifies)?;
    dict.set_item("blocks", totals.blocks)?;
    dict.set_item("distinct_blocks", totals.distinct_blocks)?;
    dict.set_item("events", totals.events)?;
    dict.set_item("file_bytes", file_bytes)?;
    dict.set_item("termination", termination.as_ref().map(Termination::describe))?;
    dict.set_item("termination_kind", termination.as_ref().map(Termination::kind))?;
    dict.set_item("exit_status", termination.as_ref().and_then(Termination::exit_status))?;
    dict.set_item("truncation", truncation)?;
    Ok(dict)
}

/// The instructions from `skip` on, `count` of them or all.
fn open_slice(
    path: &Path,
    partial: bool,
    skip: u64,
    count: Option<u64>,
) -> Result<Slice, TraceError> {
    Ok(Slice::new(open_with(path, &open_options(partial))?, skip, count))
}

/// The instructions of a slice, where the trace says how many it has or the user how many are
/// wanted.
fn length_of(slice: &Slice, skip: u64, count: Option<u64>) -> Option<u64> {
    let whole = slice.source().information().filter(|whole| whole.is_complete());
    let rest = whole.map(|whole| whole.totals.instructions.saturating_sub(skip));
    rest.map_or(count, |rest| Some(count.map_or(rest, |count| count.min(rest))))
}

/// Writes a part of a trace as text, piece by piece, to `write(bytes)`.
#[pyfunction]
#[pyo3(signature = (path, *, partial, skip, count, write, progress))]
pub(crate) fn dump_trace(
    python: Python<'_>,
    path: PathBuf,
    partial: bool,
    skip: u64,
    count: Option<u64>,
    write: Py<PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let mut watch = Watch::new(progress);
    let mut stopped = None;
    let dumped = python.detach(|| {
        let mut slice = open_slice(&path, partial, skip, count)?;
        let total = length_of(&slice, skip, count);
        mmulab_trace::dump(&mut slice, &mut |text, done| {
            stopped =
                Python::attach(|python| write.call1(python, (text.as_bytes(),)).map(drop)).err();
            stopped.is_none() && watch.continues(done, total)
        })
    });
    watch.finish()?;
    stopped.map_or(Ok(()), Err)?;
    dumped.map_err(IntoPython::into_python)
}

/// Writes a part of a trace as a `.mmt` file; gives its instructions.
#[pyfunction]
#[pyo3(signature = (path, output, *, partial, skip, count, progress))]
pub(crate) fn slice_trace(
    python: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    partial: bool,
    skip: u64,
    count: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let mut watch = Watch::new(progress);
    let written = python.detach(|| {
        let mut slice = open_slice(&path, partial, skip, count)?;
        let whole = slice.source().information().cloned();
        let metadata = whole.as_ref().map_or_else(
            || Metadata {
                command: slice.command().to_vec(),
                recorder: slice.format().into(),
                instruction_set: String::new(),
            },
            |whole| whole.metadata.clone(),
        );
        let mut writer = MmtWriter::create(&output, &metadata)?;
        let total = length_of(&slice, skip, count);
        let mut batch = Batch::default();
        while slice.next_batch(&mut batch)? {
            writer.write(slice.table(), &batch)?;
            if !watch.continues(writer.instructions(), total) {
                break;
            }
        }
        let termination = if slice.is_truncated() {
            Termination::Limit
        } else {
            whole.and_then(|whole| whole.termination).unwrap_or(Termination::Unknown)
        };
        Ok(writer.finish(termination)?.instructions)
    });
    watch.finish()?;
    written.map_err(|error: TraceError| error.into_python())
}

/// Records a program; gives the files written and what the first one says of itself.
#[pyfunction]
#[pyo3(signature = (
    program, output, *, tool_directory, max_instructions, follow_children, qemu, environment, progress
))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
pub(crate) fn record(
    python: Python<'_>,
    program: Vec<String>,
    output: PathBuf,
    tool_directory: PathBuf,
    max_instructions: Option<u64>,
    follow_children: bool,
    qemu: bool,
    environment: Option<Vec<(String, String)>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut words = program.into_iter();
    let options = RecordOptions {
        program: words.next().unwrap_or_default(),
        args: words.collect(),
        output,
        follow_children,
        max_instructions,
        tool_directory,
        qemu,
        environment,
    };
    let mut watch = Watch::new(progress);
    let summary = python
        .detach(|| {
            mmulab_trace::record(&options, &mut |done| watch.continues(done, max_instructions))
        })
        .map_err(IntoPython::into_python)?;
    watch.finish()?;
    let dict = PyDict::new(python);
    let information = trace_information(python, options.output, false, None)?;
    dict.set_item("information", information)?;
    dict.set_item("files", summary.files)?;
    dict.set_item("messages", summary.messages)?;
    dict.set_item("interrupt_came", summary.interrupt_came)?;
    Ok(dict)
}
