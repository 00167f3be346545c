//! Long work in a thread of its own, so that whoever asked for it is told how far it is, and can
//! stop it, while it computes or waits for its input.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// How often progress is told.
const INTERVAL: Duration = Duration::from_millis(50);

/// What `work` gives. It tells what it has done to the function that it is handed, which says
/// whether to go on; `progress` is called now and then by the caller's thread with that number, and
/// `false` from it stops the work.
pub(crate) fn watched<T: Send>(
    progress: Option<&(dyn Fn(u64) -> bool + Sync)>,
    work: impl FnOnce(&(dyn Fn(u64) -> bool + Sync)) -> T + Send,
) -> T {
    let (done, is_stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let caller = thread::current();
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = work(&|so_far| {
                done.store(so_far, Relaxed);
                !is_stopped.load(Relaxed)
            });
            caller.unpark();
            result
        });
        if let Some(progress) = progress {
            loop {
                let is_finished = work.is_finished();
                if !progress(done.load(Relaxed)) {
                    is_stopped.store(true, Relaxed);
                }
                if is_finished {
                    break;
                }
                thread::park_timeout(INTERVAL);
            }
        }
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
