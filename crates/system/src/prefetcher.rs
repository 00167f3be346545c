//! The data prefetcher: fills lines ahead of misses that follow each other at one distance.
//!
//! So many misses in a row, each as many lines from the one before, at most so far up or down, are
//! a stream (three misses and four lines: Cortex-A7 TRM, ARM DDI 0464F, 6.5.2). Hits between them
//! make no difference. The next lines of a stream are filled beside execution, as many at a time as
//! a register permits (4.3.28), beside the places that preloads and misses have. Whoever uses the
//! next of these lines first carries the stream on.
//!
//! The manual leaves open, and it is so here: a stream stays in its page of 4 KB, behind which
//! physical memory may be anything's; loads and stores miss, and preloads, exclusive stores and
//! table walks do not count.

use mmulab_hardware::Line;
use mmulab_hardware::coherence::Request;
use mmulab_machine::PrefetcherShape;

use crate::bus::{Bus, Region};
use crate::cause::Cause;
use crate::core::Core;
use crate::memory::CoreMemory;

/// A fill ahead of its use.
#[derive(Clone, Copy, Default)]
struct Ahead {
    /// Physical address of the line.
    line: u32,
    ends_at: u64,
    /// Nobody has used it, and it is one of the stream.
    unused: bool,
}

mmulab_state::value!(Ahead { line, ends_at, unused });

/// What one core's prefetcher knows.
pub(crate) struct Prefetcher {
    shape: PrefetcherShape,
    /// Fills that may be under way at a time.
    limit: u32,
    /// The line of the last miss, or of the last use that carried the stream on.
    last: u32,
    /// Bytes from the line before it.
    stride: u32,
    /// Misses in a row at this distance, the first one included, as far as they count.
    misses: u32,
    places: Box<[Ahead]>,
    /// How many of these are unused, and when the last fill ends: most accesses need look no
    /// further.
    unused: u32,
    all_end_at: u64,
}

mmulab_state::state!(Prefetcher {
    limit,
    last,
    stride,
    misses,
    places,
    unused,
    all_end_at,
} built { shape });

impl Prefetcher {
    pub(crate) fn new(shape: &PrefetcherShape) -> Prefetcher {
        Prefetcher {
            shape: shape.clone(),
            limit: shape.outstanding,
            last: 0,
            stride: 0,
            misses: 0,
            places: vec![Ahead::default(); shape.outstanding as usize].into(),
            unused: 0,
            all_end_at: 0,
        }
    }

    fn is_in_stream(&self) -> bool {
        self.misses >= self.shape.misses
    }

    /// When the fill of a line ends, if it is under way.
    #[inline(always)]
    pub(crate) fn ends_at(&self, line: u32, now: u64) -> Option<u64> {
        if self.all_end_at <= now {
            return None;
        }
        let found = self.places.iter().find(|ahead| ahead.line == line && ahead.ends_at > now);
        found.map(|ahead| ahead.ends_at)
    }

    /// Whether a line was filled ahead and not used yet.
    #[inline(always)]
    pub(crate) fn has_unused(&self, line: u32) -> bool {
        self.unused > 0 && self.places.iter().any(|ahead| ahead.unused && ahead.line == line)
    }

    /// A line missed. Whether there is a stream.
    fn miss(&mut self, line: u32, line_bytes: u32) -> bool {
        let stride = line.wrapping_sub(self.last);
        let near = stride as i32 != 0
            && (stride as i32).unsigned_abs() <= self.shape.max_stride_lines * line_bytes;
        if stride != self.stride || !near {
            self.misses = if near { 1 } else { 0 };
            self.places.iter_mut().for_each(|ahead| ahead.unused = false);
            self.unused = 0;
        }
        (self.last, self.stride) = (line, stride);
        self.misses = (self.misses + 1).min(self.shape.misses);
        self.use_first(line);
        self.is_in_stream()
    }

    /// Notes the use of a line; whether it was filled ahead and not used before.
    fn use_first(&mut self, line: u32) -> bool {
        let found = self.places.iter_mut().find(|ahead| ahead.unused && ahead.line == line);
        let Some(ahead) = found else { return false };
        ahead.unused = false;
        self.unused -= 1;
        true
    }

    /// A line was used that is in the cache. Whether that carries a stream on.
    #[inline(always)]
    fn hit(&mut self, line: u32) -> bool {
        if self.unused == 0 {
            return false;
        }
        let next = self.last.wrapping_add(self.stride) == line;
        let carries_on = self.use_first(line) && next;
        if carries_on {
            self.last = line;
        }
        carries_on
    }

    /// A place for one more fill.
    fn free_place(&self, now: u64) -> Option<usize> {
        let under_way = self.places.iter().filter(|ahead| ahead.ends_at > now).count();
        let is_free = |ahead: &Ahead| ahead.ends_at <= now && !ahead.unused;
        (under_way < self.limit as usize).then(|| self.places.iter().position(is_free))?
    }
}

impl<C: Core> CoreMemory<C> {
    /// As many data prefetches may be outstanding from here on.
    pub fn limit_prefetches(&mut self, limit: u32) {
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.limit = limit.min(prefetcher.shape.outstanding);
        }
    }

    /// A load or store has used a line of RAM, which was missing or not: begins what the prefetcher
    /// makes of that.
    #[inline(always)]
    pub(crate) fn tell_prefetcher(&mut self, bus: &mut Bus<C>, physical: u32, missed: bool) {
        let Some(prefetcher) = &mut self.prefetcher else { return };
        let line = C::DataLine::base(physical);
        let goes_on =
            if missed { prefetcher.miss(line, C::DataLine::BYTES) } else { prefetcher.hit(line) };
        if goes_on {
            self.fill_ahead(bus, line);
        }
    }

    /// Fills the lines behind one of a stream, as far as there are places.
    #[inline(never)]
    fn fill_ahead(&mut self, bus: &mut Bus<C>, from: u32) {
        let Some(prefetcher) = &self.prefetcher else { return };
        let (stride, limit) = (prefetcher.stride, prefetcher.limit);
        let mut line = from;
        for _ in 0..limit {
            line = line.wrapping_add(stride);
            if (line ^ from) & !0xfff != 0 {
                return;
            }
            if bus.region(line) != Region::Ram {
                return;
            }
            if self.dcache.peek(line, line).is_some() {
                continue;
            }
            let now = self.now();
            let place = self.prefetcher.as_ref().and_then(|one| one.free_place(now));
            let Some(place) = place else { return };
            self.clock.begin_beside();
            let slot = self.fill_coherent(bus, line, Request::Read, Cause::DataMiss);
            let ends_at = now + self.clock.end_beside();
            self.statistics.counters.data_prefetches += 1;
            self.dcache.discard_hints(slot);
            if let Some(prefetcher) = &mut self.prefetcher {
                prefetcher.places[place] = Ahead { line, ends_at, unused: true };
                prefetcher.unused += 1;
                prefetcher.all_end_at = prefetcher.all_end_at.max(ends_at);
            }
        }
    }
}
