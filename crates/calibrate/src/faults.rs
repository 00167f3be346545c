//! What pages cost the kernel.

use crate::Error;
use crate::mapping::{Mapping, Pages};
use crate::timing::{cycle_ns, thread_time};

/// Cycles that a page costs the kernel: the first store, which waits until it is there and zeroed,
/// and giving it back, which each page that was touched is once; one a sample, each the mean over
/// `count` pages of a fresh mapping.
pub(crate) fn fault_cycles(pages: Pages, count: usize, samples: usize) -> Result<Vec<f64>, Error> {
    let page_bytes = pages.bytes();
    (0..samples)
        .map(|_| {
            let memory = Mapping::new(count * page_bytes, pages)?;
            let before = cycle_ns();
            let start = thread_time();
            for page in 0..count {
                // SAFETY: the page lies within the mapping.
                unsafe { memory.start().add(page * page_bytes).write_volatile(1) };
            }
            drop(memory);
            let elapsed = (thread_time() - start).as_nanos() as f64;
            Ok(elapsed / before.min(cycle_ns()) / count as f64)
        })
        .collect()
}
