//! Memory with pages of a known size.

use std::io;
use std::ptr;

use crate::Error;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages that a mapping asks the kernel for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Pages of 4 KB, never collapsed into larger ones.
    Small,
    /// Transparent huge pages of 2 MB.
    Huge,
}

impl Pages {
    /// Bytes of a page.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Pages::Small => PAGE_BYTES,
            Pages::Huge => HUGE_PAGE_BYTES,
        }
    }
}

/// Private memory, readable, writable and executable, aligned to a huge page. Unmapped on drop.
pub(crate) struct Mapping {
    start: *mut u8,
    bytes: usize,
    page_bytes: usize,
    whole: *mut libc::c_void,
    whole_bytes: usize,
}

impl Mapping {
    /// Maps `bytes` without touching them.
    pub(crate) fn new(bytes: usize, pages: Pages) -> Result<Self, Error> {
        let whole_bytes = bytes + HUGE_PAGE_BYTES;
        let failed = |doing| Error::Memory { doing, bytes, source: io::Error::last_os_error() };
        // SAFETY: an anonymous mapping at an address of the kernel's choice overlaps nothing.
        let whole = unsafe {
            libc::mmap(
                ptr::null_mut(),
                whole_bytes,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if whole == libc::MAP_FAILED {
            return Err(failed("mapping"));
        }
        let start =
            whole.cast::<u8>().wrapping_add(whole.cast::<u8>().align_offset(HUGE_PAGE_BYTES));
        let mapping = Self { start, bytes, page_bytes: pages.bytes(), whole, whole_bytes };
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range lies within the mapping just made.
        if unsafe { libc::madvise(start.cast(), bytes, advice) } != 0 {
            return Err(failed("asking for pages of the right size of"));
        }
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes of one of its pages.
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody holds a reference into it.
        unsafe { libc::munmap(self.whole, self.whole_bytes) };
    }
}
