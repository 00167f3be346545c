//! Rings of lines: each load gives the address of the next one, so that none can begin early.

use mmulab_hardware::Random;

use crate::Error;
use crate::mapping::Mapping;
use crate::timing::cycles_per_step;

/// Bytes of a line; all cores that this is built for have it.
pub const LINE_BYTES: usize = 64;

/// Loads between two tests of the loop that counts them.
const UNROLLED: usize = 16;

/// Which lines a ring visits; the order is random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// How many lines.
    pub lines: usize,
    /// From one to the next in memory, a multiple of the line.
    pub stride_bytes: usize,
    /// Whether each line lies at another place, within its stride and its page, so that together
    /// they fill the sets of every cache evenly; else all lie at the beginning of their strides.
    pub spread: bool,
}

impl Pattern {
    /// Bytes from the first line to the end of the last.
    pub(crate) fn bytes(&self) -> usize {
        self.lines * self.stride_bytes
    }

    fn offsets(&self, page_bytes: usize) -> impl Iterator<Item = usize> {
        let Self { lines, stride_bytes, spread } = *self;
        let places = stride_bytes.min(page_bytes) / LINE_BYTES;
        (0..lines).map(move |line| {
            // An odd multiple visits every place of a power of two before it comes back; each round
            // is shifted, so that places and low bits of the page number are not tied to each
            // other.
            let place = if spread { (line * 29 + line / 64) % places } else { 0 };
            line * stride_bytes + place * LINE_BYTES
        })
    }
}

/// The addresses of all patterns' lines in one random cycle.
pub(crate) fn cycle(parts: &[(&Mapping, Pattern)]) -> Result<Vec<*mut u8>, Error> {
    let mut addresses = Vec::new();
    for (memory, pattern) in parts {
        if pattern.bytes() > memory.bytes() || pattern.stride_bytes < LINE_BYTES {
            return Err(Error::Pattern { wanted: pattern.bytes(), available: memory.bytes() });
        }
        addresses.extend(
            pattern.offsets(memory.page_bytes()).map(|offset| memory.start().wrapping_add(offset)),
        );
    }
    if addresses.is_empty() {
        return Err(Error::Pattern { wanted: 0, available: 0 });
    }
    let mut random = Random::new(1);
    for last in (1..addresses.len()).rev() {
        addresses.swap(last, random.below(last as u32 + 1) as usize);
    }
    Ok(addresses)
}

/// Cycles that a dependent load takes which goes round all lines of the patterns; one a sample.
pub(crate) fn load_cycles(
    parts: &[(&Mapping, Pattern)],
    samples: usize,
) -> Result<Vec<f64>, Error> {
    let ring = cycle(parts)?;
    for (at, next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        // SAFETY: both are lines within mappings that live as long as this call.
        unsafe { at.cast::<*mut u8>().write(*next) };
    }
    let mut line = ring[0];
    Ok(cycles_per_step(samples, ring.len(), UNROLLED, |steps| {
        for _ in 0..steps / UNROLLED {
            for _ in 0..UNROLLED {
                // SAFETY: each line of the ring holds the address of another.
                line = unsafe { line.cast::<*mut u8>().read_volatile() };
            }
        }
    }))
}
