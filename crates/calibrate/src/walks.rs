//! Page-table walks whose entries come from memory.

use std::io;
use std::ptr;

use crate::Error;
use crate::mapping::{HUGE_PAGE_BYTES, PAGE_BYTES};
use crate::timing::cycles_per_step;

/// A large range of addresses whose pages all lie in one file of 2 MB: its page tables are far
/// larger than the caches while its data fits into them.
pub(crate) struct Windows {
    start: *mut u8,
    bytes: usize,
}

impl Windows {
    /// Maps the file N times, one mapping behind the other, with all page tables filled.
    pub(crate) fn new(count: usize) -> Result<Self, Error> {
        let bytes = count * HUGE_PAGE_BYTES;
        let failed = |doing| Error::Memory { doing, bytes, source: io::Error::last_os_error() };
        // SAFETY: reserves addresses of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(failed("reserving addresses for"));
        }
        let windows = Self { start: start.cast(), bytes };
        // SAFETY: the name is a C string; a descriptor or -1 comes back.
        let file = unsafe { libc::memfd_create(c"mmulab".as_ptr(), 0) };
        if file < 0 {
            return Err(failed("making a file in memory for"));
        }
        // SAFETY: the descriptor is open; each window lies within the range reserved above.
        let mapped = unsafe {
            let sized = libc::ftruncate(file, HUGE_PAGE_BYTES as i64) == 0;
            let mapped = sized
                && (0..count).all(|window| {
                    libc::mmap(
                        windows.start.add(window * HUGE_PAGE_BYTES).cast(),
                        HUGE_PAGE_BYTES,
                        libc::PROT_READ,
                        libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                        file,
                        0,
                    ) != libc::MAP_FAILED
                });
            libc::close(file);
            mapped
        };
        if mapped { Ok(windows) } else { Err(failed("mapping a file over and over into")) }
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> usize {
        self.bytes / PAGE_BYTES
    }

    /// Cycles that a dependent load takes at random pages of the first `pages` (a power of two);
    /// one a sample. Each reads one of 64 lines of the file, so nearly all of what grows with the
    /// number of pages is the walk.
    pub(crate) fn load_cycles(&self, pages: usize, samples: usize) -> Vec<f64> {
        debug_assert!(pages.is_power_of_two() && pages * PAGE_BYTES <= self.bytes);
        let start = self.start;
        let mut index = 0_usize;
        cycles_per_step(samples, pages, 1, |steps| {
            for _ in 0..steps {
                // A full cycle through all pages in no order that a prefetcher knows.
                index =
                    index.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let page = (index >> 20) & (pages - 1);
                // SAFETY: the page lies within the range; the file reads as zero, so that the next
                // index waits for the load and is not changed by it.
                index = index.wrapping_add(unsafe {
                    start.add(page * PAGE_BYTES + page % 64 * 64).cast::<usize>().read_volatile()
                });
            }
            std::hint::black_box(index);
        })
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // SAFETY: the range is ours.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
