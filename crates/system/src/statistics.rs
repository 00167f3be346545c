//! What a core did, in numbers: events, and its time by mode and by address space. It looks on from
//! the places where these change, and keeps a log for the timeline while one is recorded.

use crate::core::Space;

/// Two line operations that are further apart belong to different loops.
const LOOP_STEP_CYCLES: u64 = 200;
/// Processor modes that are told apart.
const MODES: usize = 32;
/// Exceptions that are told apart.
pub const EXCEPTIONS: usize = 16;

/// Event counts beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Walks for instruction fetches.
    pub itlb_misses: u64,
    /// Walks for data.
    pub dtlb_misses: u64,
    /// Misses of the micro TLBs of both sides.
    pub micro_tlb_misses: u64,
    /// Walks whose first descriptor the walk cache had.
    pub walk_cache_hits: u64,
    /// Fills of the instruction cache.
    pub icache_misses: u64,
    /// Fills of the data caches.
    pub dcache_misses: u64,
    /// Fills of the data caches that a prefetcher began.
    pub data_prefetches: u64,
    /// Half lines written back.
    pub write_backs: u64,
    /// Lines of which at least one half was.
    pub lines_written_back: u64,
    /// Loads and stores of the data cache, while [`crate::memory::CoreMemory::count_data_accesses`]
    /// has them counted.
    pub data_accesses: u64,
    /// Reads of the second level, and lines written back into it.
    pub level_2_accesses: u64,
    /// Reads that found nothing there.
    pub level_2_misses: u64,
    /// Changes of the registers that choose the tables or the process.
    pub space_switches: u64,
    /// Invalidations of a whole TLB.
    pub tlb_flushes: u64,
    /// Invalidations of single TLB entries.
    pub tlb_entry_flushes: u64,
    /// Invalidations of a whole instruction cache.
    pub icache_flushes: u64,
    /// Invalidations, or completed cleanings, of the whole data cache.
    pub dcache_flushes: u64,
    /// Clean or invalidate operations on single lines.
    pub line_operations: u64,
    /// Exceptions, by the instruction set's number.
    pub exceptions: [u64; EXCEPTIONS],
}

mmulab_state::value!(Counters {
    itlb_misses,
    dtlb_misses,
    micro_tlb_misses,
    walk_cache_hits,
    icache_misses,
    dcache_misses,
    data_prefetches,
    write_backs,
    lines_written_back,
    data_accesses,
    level_2_accesses,
    level_2_misses,
    space_switches,
    tlb_flushes,
    tlb_entry_flushes,
    icache_flushes,
    dcache_flushes,
    line_operations,
    exceptions,
});

/// Something for the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The address space is another one from here on.
    Space(Space),
    /// An exception is taken.
    Exception(usize),
    /// A maintenance operation on a whole cache or TLB, or a loop over lines, and its cycles.
    Maintenance(&'static str, u64),
    /// The processor mode is another one from here on, after so many instructions.
    Mode(u32, u64),
    /// The core is off from here on until another time, after so many instructions, and has these
    /// mode and space then.
    Off {
        /// When it is turned on.
        until: u64,
        /// What it has executed.
        instructions: u64,
        /// The processor mode.
        mode: u32,
        /// The address space.
        space: Space,
    },
}

/// The numbers of one core.
pub struct Statistics {
    /// Event counts.
    pub counters: Counters,
    mode: u32,
    mode_since: u64,
    mode_cycles: [u64; MODES],
    space_since: u64,
    spaces: Vec<(Space, u64)>,
    current_space: usize,
    /// Events with their time in cycles; kept only while a timeline is recorded.
    log: Option<Vec<(u64, Event)>>,
    /// The loop over lines that is going on: its start and end so far.
    line_loop: Option<(u64, u64)>,
}

// A timeline is no state: who records one begins anew.
mmulab_state::state!(Statistics {
    counters,
    mode,
    mode_since,
    mode_cycles,
    space_since,
    spaces,
    current_space,
} built { log, line_loop });

impl Statistics {
    pub(crate) fn new(mode: u32, space: Space) -> Statistics {
        Statistics {
            counters: Counters::default(),
            mode,
            mode_since: 0,
            mode_cycles: [0; MODES],
            space_since: 0,
            spaces: vec![(space, 0)],
            current_space: 0,
            log: None,
            line_loop: None,
        }
    }

    /// Keeps events from here on.
    pub(crate) fn start_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The events since last time, for who records them.
    pub(crate) fn take_log(&mut self) -> Vec<(u64, Event)> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&mut self, at: u64, event: Event) {
        if let Some(log) = &mut self.log {
            log.push((at, event));
        }
    }

    /// The processor mode.
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// The address space.
    pub(crate) fn space(&self) -> Space {
        self.spaces[self.current_space].0
    }

    /// Time from `now` on, after so many instructions, belongs to another mode.
    pub(crate) fn change_mode(&mut self, now: u64, instructions: u64, mode: u32) {
        self.mode_cycles[self.mode as usize % MODES] += now - self.mode_since;
        self.mode_since = now;
        self.mode = mode;
        self.note(now, Event::Mode(mode, instructions));
    }

    /// Time from `now` on belongs to another space.
    pub(crate) fn change_space(&mut self, now: u64, space: Space) {
        self.spaces[self.current_space].1 += now - self.space_since;
        self.space_since = now;
        // Recent spaces are near the end, and a switch goes mostly back to one of them.
        let found = self.spaces.iter().rposition(|(known, _)| *known == space);
        self.current_space = found.unwrap_or_else(|| {
            self.spaces.push((space, 0));
            self.spaces.len() - 1
        });
        self.note(now, Event::Space(space));
    }

    /// The core was off between two times, after so many instructions; they belong to no mode or
    /// space.
    pub(crate) fn was_off(&mut self, since: u64, until: u64, instructions: u64) {
        let (mode, space) = (self.mode, self.space());
        self.note(since, Event::Off { until, instructions, mode, space });
        self.mode_cycles[self.mode as usize % MODES] += since - self.mode_since;
        self.spaces[self.current_space].1 += since - self.space_since;
        (self.mode_since, self.space_since) = (until, until);
    }

    pub(crate) fn exception(&mut self, now: u64, number: usize) {
        self.counters.exceptions[number % EXCEPTIONS] += 1;
        self.note(now, Event::Exception(number));
    }

    /// A maintenance operation on a whole structure began at `since` and has ended.
    pub(crate) fn maintenance(&mut self, what: &'static str, since: u64, now: u64) {
        self.note(since, Event::Maintenance(what, now - since));
    }

    /// An operation on a line began at `since` and has ended: one more step of the loop over lines
    /// by which most cores clean their data cache, or the first one of the next loop.
    pub(crate) fn line_operation(&mut self, since: u64, now: u64) {
        if self.log.is_none() {
            return;
        }
        match &mut self.line_loop {
            Some((_, end)) if since <= *end + LOOP_STEP_CYCLES => *end = now,
            _ => {
                self.end_line_loop();
                self.line_loop = Some((since, now));
            }
        }
    }

    /// The last loop over lines is over.
    pub(crate) fn end_line_loop(&mut self) {
        if let Some((start, end)) = self.line_loop.take() {
            self.note(start, Event::Maintenance("line operations", end - start));
        }
    }

    /// Cycles by mode, for the modes that had any.
    pub fn cycles_by_mode(&self, now: u64) -> Vec<(u32, u64)> {
        let mut cycles = self.mode_cycles;
        cycles[self.mode as usize % MODES] += now - self.mode_since;
        (0..).zip(cycles).filter(|&(_, cycles)| cycles > 0).collect()
    }

    /// Cycles by address space, in order of first use.
    pub fn cycles_by_space(&self, now: u64) -> Vec<(Space, u64)> {
        let mut spaces = self.spaces.clone();
        spaces[self.current_space].1 += now - self.space_since;
        spaces
    }
}
