//! The timeline: what happened when, as a file for the Perfetto viewer (Trace Event Format, JSON).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::board::Mark;
use crate::core::{Core, Space};
use crate::statistics::{Counters, Event, Statistics};

/// Cycles between two points of the counters.
const COUNTER_CYCLES: u64 = 1 << 18;

/// Rows of the picture, as thread numbers.
const SPACES: u32 = 1;
const MODES: u32 = 2;
const EXCEPTIONS: u32 = 3;
const FLUSHES: u32 = 4;
const PHASES: u32 = 5;
const GUEST: u32 = 6;
const ROWS: [(u32, &str); 6] = [
    (SPACES, "address space"),
    (MODES, "mode"),
    (EXCEPTIONS, "exceptions"),
    (FLUSHES, "flushes"),
    (PHASES, "phases"),
    (GUEST, "guest events"),
];

/// What is drawn at the moment on a core's rows.
#[derive(Default)]
struct Open {
    space: Option<(u64, String)>,
    /// With the instructions of the core before it.
    mode: Option<(u64, &'static str, u64)>,
    phase: Option<(u64, String)>,
    counted_at: u64,
    counted: Counters,
}

/// The file being written. It gets its name when it is complete.
pub struct Timeline {
    out: BufWriter<File>,
    path: PathBuf,
    unfinished: PathBuf,
    clock_hz: u64,
    open: Vec<Open>,
    started: bool,
    /// The first error; it ends the writing.
    failed: Option<std::io::Error>,
}

impl Timeline {
    /// Starts a timeline that will be `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, clock_hz: u64, cores: usize) -> std::io::Result<Timeline> {
        let unfinished = mmulab_state::unfinished_name(path);
        let mut timeline = Timeline {
            out: BufWriter::new(File::create(&unfinished)?),
            path: path.to_owned(),
            unfinished,
            clock_hz,
            open: (0..cores).map(|_| Open::default()).collect(),
            started: false,
            failed: None,
        };
        timeline.put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for core in 0..cores {
            timeline.event(&format!(
                r#""ph":"M","name":"process_name","pid":{core},"args":{{"name":"core {core}"}}"#
            ));
            for (row, name) in ROWS {
                timeline.event(&format!(
                    r#""ph":"M","name":"thread_name","pid":{core},"tid":{row},"args":{{"name":"{name}"}}"#
                ));
                timeline.event(&format!(
                    r#""ph":"M","name":"thread_sort_index","pid":{core},"tid":{row},"args":{{"sort_index":{row}}}"#
                ));
            }
        }
        Ok(timeline)
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    fn event(&mut self, fields: &str) {
        let comma = if self.started { "," } else { "" };
        self.started = true;
        self.put(&format!("{comma}\n{{{fields}}}"));
    }

    fn microseconds(&self, cycles: u64) -> String {
        format!("{:.4}", cycles as f64 * 1e6 / self.clock_hz as f64)
    }

    fn slice(&mut self, core: usize, row: u32, name: &str, since: u64, until: u64) {
        self.slice_with(core, row, name, since, until, "");
    }

    /// The same with more arguments.
    fn slice_with(
        &mut self,
        core: usize,
        row: u32,
        name: &str,
        since: u64,
        until: u64,
        more: &str,
    ) {
        let (start, length) =
            (self.microseconds(since), self.microseconds(until.saturating_sub(since)));
        let name = escaped(name);
        self.event(&format!(
            r#""ph":"X","name":"{name}","pid":{core},"tid":{row},"ts":{start},"dur":{length},"args":{{"cycles":{}{more}}}"#,
            until.saturating_sub(since)
        ));
    }

    fn mode_slice(&mut self, core: usize, name: &str, since: u64, until: u64, instructions: u64) {
        let executed = format!(r#","instructions":{instructions}"#);
        self.slice_with(core, MODES, name, since, until, &executed);
    }

    fn instant(&mut self, core: usize, row: u32, name: &str, at: u64) {
        let (name, at) = (escaped(name), self.microseconds(at));
        self.event(&format!(
            r#""ph":"i","s":"t","name":"{name}","pid":{core},"tid":{row},"ts":{at}"#
        ));
    }

    /// The points of a core's counters say what came after `now`.
    pub(crate) fn begin(&mut self, core: usize, now: u64, counters: &Counters) {
        let open = &mut self.open[core];
        (open.counted_at, open.counted) = (now, *counters);
    }

    /// A core is on: draws its space and mode from `now` on, if nothing of it is drawn yet.
    pub(crate) fn stands<C: Core>(
        &mut self,
        core: usize,
        now: u64,
        statistics: &Statistics,
        instructions: u64,
    ) {
        if self.open[core].mode.is_none() {
            self.draw::<C>(core, now, statistics.space(), statistics.mode(), instructions);
        }
    }

    /// Draws a space and a mode of a core from `now` on.
    fn draw<C: Core>(&mut self, core: usize, now: u64, space: Space, mode: u32, instructions: u64) {
        let open = &mut self.open[core];
        open.space = Some((now, space_name(space)));
        open.mode = Some((now, C::mode_name(mode), instructions));
    }

    /// Records what a core did.
    pub fn record<C: Core>(&mut self, core: usize, events: &[(u64, Event)]) {
        for &(at, event) in events {
            match event {
                Event::Space(space) => {
                    let next = Some((at, space_name(space)));
                    let open = &mut self.open[core].space;
                    if let Some((since, name)) = std::mem::replace(open, next)
                        && since < at
                    {
                        self.slice(core, SPACES, &name, since, at);
                    }
                }
                Event::Mode(mode, instructions) => {
                    let next = Some((at, C::mode_name(mode), instructions));
                    let open = &mut self.open[core].mode;
                    if let Some((since, name, before)) = std::mem::replace(open, next)
                        && since < at
                    {
                        self.mode_slice(core, name, since, at, instructions - before);
                    }
                }
                Event::Off { until, instructions, mode, space } => {
                    self.end_state(core, at, instructions);
                    self.draw::<C>(core, until, space, mode, instructions);
                }
                Event::Exception(exception) => {
                    self.instant(core, EXCEPTIONS, C::EXCEPTIONS[exception], at);
                }
                Event::Maintenance(name, cycles) => {
                    self.slice(core, FLUSHES, name, at, at + cycles)
                }
            }
        }
    }

    /// Draws what the guest said of itself; `name` gives the names of its numbers.
    pub fn mark(&mut self, at: u64, core: usize, mark: Mark, name: &str) {
        match mark {
            Mark::Phase(_) => {
                // One phase is that of all cores, whichever began it.
                (0..self.open.len()).for_each(|core| self.end_phase(core, at));
                self.open[core].phase = Some((at, name.to_owned()));
            }
            Mark::Event(_) => self.instant(core, GUEST, name, at),
            Mark::Begin(_) | Mark::End(_) => {
                let kind = if matches!(mark, Mark::Begin(_)) { "B" } else { "E" };
                let (name, at) = (escaped(name), self.microseconds(at));
                self.event(&format!(
                    r#""ph":"{kind}","name":"{name}","pid":{core},"tid":{GUEST},"ts":{at}"#
                ));
            }
        }
    }

    /// Draws a point of the counters, if it is time.
    pub fn count(&mut self, core: usize, now: u64, counters: &Counters) {
        if now >= self.open[core].counted_at + COUNTER_CYCLES {
            self.count_now(core, now, counters);
        }
    }

    /// Draws a point of the counters: the misses since the last one, where the viewer draws a value
    /// from.
    fn count_now(&mut self, core: usize, now: u64, counters: &Counters) {
        let open = &mut self.open[core];
        let before = std::mem::replace(&mut open.counted, *counters);
        let since = std::mem::replace(&mut open.counted_at, now);
        let at = self.microseconds(since);
        self.event(&format!(
            r#""ph":"C","name":"misses","pid":{core},"ts":{at},"args":{{"icache":{},"dcache":{},"itlb":{},"dtlb":{}}}"#,
            counters.icache_misses - before.icache_misses,
            counters.dcache_misses - before.dcache_misses,
            counters.itlb_misses - before.itlb_misses,
            counters.dtlb_misses - before.dtlb_misses,
        ));
    }

    /// Ends the space and mode of a core at `now`, when it has executed so many instructions.
    fn end_state(&mut self, core: usize, now: u64, instructions: u64) {
        let open = &mut self.open[core];
        let (space, mode) = (open.space.take(), open.mode.take());
        if let Some((since, name)) = space {
            self.slice(core, SPACES, &name, since, now);
        }
        if let Some((since, name, before)) = mode {
            self.mode_slice(core, name, since, now, instructions - before);
        }
    }

    /// Ends the phase that a core began, if it is the present one.
    fn end_phase(&mut self, core: usize, now: u64) {
        if let Some((since, name)) = self.open[core].phase.take() {
            self.slice(core, PHASES, &name, since, now);
        }
    }

    /// Ends all that is open of a core at `now`, and draws the last point of its counters.
    pub(crate) fn end(&mut self, core: usize, now: u64, instructions: u64, counters: &Counters) {
        self.end_state(core, now, instructions);
        self.end_phase(core, now);
        self.count_now(core, now, counters);
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Something could not be written; nothing of it is left.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.put("\n]}\n");
        let written = self.failed.take().map_or_else(|| self.out.flush(), Err);
        let named = written.and_then(|()| std::fs::rename(&self.unfinished, &self.path));
        if named.is_err() {
            // What cannot be removed either is told by the error that there is.
            let _ = std::fs::remove_file(&self.unfinished);
        }
        named
    }
}

fn space_name(space: Space) -> String {
    space.describe().replace(", ", " ")
}

/// A guest's names go into JSON strings.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if control < ' ' => out.push('?'),
            other => out.push(other),
        }
    }
    out
}
