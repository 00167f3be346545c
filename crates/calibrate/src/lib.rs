//! Measures the caches, TLBs, page-table walks, page faults and shootdowns of the computer that it
//! runs on.
//!
//! It only measures: each call answers with samples in cycles. What they say about the computer is
//! found in `python/mmulab/calibrate`.

mod faults;
mod jumps;
mod mapping;
mod reported;
mod ring;
mod shootdowns;
mod timing;
mod walks;

use std::io;

use mapping::{HUGE_PAGE_BYTES, Mapping};
use walks::Windows;

pub use mapping::Pages;
pub use reported::{ReportedTlb, reported_tlbs};
pub use ring::Pattern;
pub use shootdowns::ShootdownCycles;

/// Why something can't be measured here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel gives no such memory.
    #[error("{doing} {bytes} bytes of memory: {source}")]
    Memory {
        /// What was tried.
        doing: &'static str,
        /// How much.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A ring has no lines, or more than its memory.
    #[error("a ring over {wanted} bytes does not fit into {available} bytes of memory")]
    Pattern {
        /// Bytes of the ring.
        wanted: usize,
        /// Bytes of the memory.
        available: usize,
    },
    /// No way is known to write jumps for this instruction set.
    #[error("instruction fetches are measured on x86-64 only")]
    Architecture,
    /// There is no other core.
    #[error("a shootdown needs two processors, and there is one")]
    OneProcessor,
    /// Others take the processors.
    #[error("other programs take the second processor; measure on a quiet computer")]
    Busy,
}

/// The memory that measurements use. It grows to the largest one asked for and is kept between
/// calls.
#[derive(Default)]
pub struct Computer {
    small: Option<Mapping>,
    huge: Option<Mapping>,
    windows: Option<Windows>,
}

impl Computer {
    /// Nanoseconds that a cycle of the core takes now.
    pub fn cycle_ns(&self) -> f64 {
        timing::cycle_ns()
    }

    /// Cycles that an instruction takes which does nothing, among others of the kind; one a sample.
    /// Its inverse is how many the core issues in a cycle.
    pub fn issue_cycles(&self, samples: usize) -> Vec<f64> {
        timing::issue_cycles(samples)
    }

    /// Cycles from a load to the next that needs its value, going round the lines of all `parts` in
    /// one random cycle; one a sample.
    ///
    /// # Errors
    /// [`Error::Memory`] without enough memory, [`Error::Pattern`] for an empty ring.
    pub fn load_cycles(
        &mut self,
        parts: &[(Pages, Pattern)],
        samples: usize,
    ) -> Result<Vec<f64>, Error> {
        for (pages, pattern) in parts {
            self.grow(*pages, pattern.bytes())?;
        }
        let parts: Vec<_> = parts
            .iter()
            .filter_map(|(pages, pattern)| Some((self.memory(*pages)?, *pattern)))
            .collect();
        ring::load_cycles(&parts, samples)
    }

    /// Cycles from a jump to the next, going round the lines of the pattern in a random cycle; one
    /// a sample.
    ///
    /// # Errors
    /// As of [`Computer::load_cycles`], and [`Error::Architecture`] where no jumps can be written.
    pub fn jump_cycles(
        &mut self,
        pages: Pages,
        pattern: Pattern,
        samples: usize,
    ) -> Result<Vec<f64>, Error> {
        self.grow(pages, pattern.bytes() + pattern.stride_bytes)?;
        let memory = self.memory(pages).ok_or(Error::Pattern { wanted: 0, available: 0 })?;
        jumps::jump_cycles(memory, pattern, samples)
    }

    /// Cycles that a dependent load takes at random ones of N pages, whose data stay in the
    /// caches while their page-table entries (8 bytes each) take more and more room; one a sample.
    /// `pages` is rounded up to a power of two.
    ///
    /// # Errors
    /// [`Error::Memory`] where the kernel gives no memory for page tables.
    pub fn walk_cycles(&mut self, pages: usize, samples: usize) -> Result<Vec<f64>, Error> {
        let pages = pages.next_power_of_two();
        let count = (pages * mapping::PAGE_BYTES).div_ceil(HUGE_PAGE_BYTES);
        if self.windows.as_ref().is_none_or(|windows| windows.pages() < pages) {
            self.windows = None;
            self.windows = Some(Windows::new(count)?);
        }
        Ok(self
            .windows
            .as_ref()
            .map_or_else(Vec::new, |windows| windows.load_cycles(pages, samples)))
    }

    /// Cycles from the first store to a page until the kernel has brought it; one a sample.
    ///
    /// # Errors
    /// [`Error::Memory`] without enough memory.
    pub fn fault_cycles(
        &self,
        pages: Pages,
        count: usize,
        samples: usize,
    ) -> Result<Vec<f64>, Error> {
        faults::fault_cycles(pages, count, samples)
    }

    /// Cycles that unmapping a page costs more, here and on another core, where that runs the same
    /// program.
    ///
    /// # Errors
    /// [`Error::Memory`] without enough memory, [`Error::OneProcessor`], [`Error::Busy`].
    pub fn shootdown_cycles(&self, samples: usize) -> Result<ShootdownCycles, Error> {
        shootdowns::shootdown_cycles(samples)
    }

    fn grow(&mut self, pages: Pages, bytes: usize) -> Result<(), Error> {
        let memory = match pages {
            Pages::Small => &mut self.small,
            Pages::Huge => &mut self.huge,
        };
        if memory.as_ref().is_none_or(|memory| memory.bytes() < bytes) {
            *memory = None;
            *memory = Some(Mapping::new(bytes.next_multiple_of(HUGE_PAGE_BYTES), pages)?);
        }
        Ok(())
    }

    fn memory(&self, pages: Pages) -> Option<&Mapping> {
        match pages {
            Pages::Small => self.small.as_ref(),
            Pages::Huge => self.huge.as_ref(),
        }
    }
}
