//! Telling another core that a page is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::mapping::{Mapping, PAGE_BYTES, Pages};
use crate::timing::{cycle_ns, thread_time};

/// Unmapped pages in a sample; a few milliseconds.
const UNMAPS: usize = 512;
/// How often a sample is taken again because the other thread did not run all the time.
const TRIES: usize = 20;
/// The part of a sample for which the other thread has to run.
const LEAST_SHARE: f64 = 0.95;

/// What unmapping a page of which another core may know costs, in cycles; a sample each.
pub struct ShootdownCycles {
    /// What the thread that unmaps waits longer than alone.
    pub wait: Vec<f64>,
    /// What the thread on the other core loses.
    pub interrupt: Vec<f64>,
}

/// What a thread did that counts until it is told to stop.
struct Counted {
    rounds: u64,
    time: Duration,
    /// Of the time that went by, the part for which it ran.
    share: f64,
}

/// Measures with one other thread of this process, which runs on another core.
pub(crate) fn shootdown_cycles(samples: usize) -> Result<ShootdownCycles, Error> {
    let mut cycles = ShootdownCycles { wait: Vec::new(), interrupt: Vec::new() };
    for _ in 0..samples {
        let before = cycle_ns();
        let alone = unmap()?;
        let ((), undisturbed) = beside_a_counter(|| thread::sleep(alone))?;
        let (together, disturbed) = beside_a_counter(unmap)?;
        let cycle_ns = before.min(cycle_ns());
        let of_one = |ns: f64| ns / cycle_ns / UNMAPS as f64;
        let round_ns = undisturbed.time.as_nanos() as f64 / undisturbed.rounds.max(1) as f64;
        let lost_ns = disturbed.time.as_nanos() as f64 - disturbed.rounds as f64 * round_ns;
        let waited_ns = together?.as_nanos() as f64 - alone.as_nanos() as f64;
        cycles.wait.push(of_one(waited_ns).max(0.0));
        cycles.interrupt.push(of_one(lost_ns).max(0.0));
    }
    Ok(cycles)
}

/// Maps, touches and unmaps pages one by one; the time of this thread.
fn unmap() -> Result<Duration, Error> {
    let start = thread_time();
    for _ in 0..UNMAPS {
        let page = Mapping::new(PAGE_BYTES, Pages::Small)?;
        // SAFETY: the byte lies within the mapping.
        unsafe { page.start().write_volatile(1) };
    }
    Ok(thread_time() - start)
}

/// Runs `work` while another thread counts all the time.
fn beside_a_counter<T>(work: impl Fn() -> T) -> Result<(T, Counted), Error> {
    // SAFETY: asks for a number.
    let own = unsafe { libc::sched_getcpu() };
    for _ in 0..TRIES {
        let has_begun = AtomicBool::new(false);
        let ends = AtomicBool::new(false);
        let done = thread::scope(|scope| {
            let counter = scope.spawn(|| {
                let is_elsewhere = leave_processor(own);
                let counted = count(&has_begun, &ends);
                is_elsewhere.then_some(counted)
            });
            while !has_begun.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let result = work();
            ends.store(true, Ordering::Relaxed);
            (result, counter.join().ok().flatten())
        });
        match done {
            (_, None) => return Err(Error::OneProcessor),
            (result, Some(counted)) if counted.share >= LEAST_SHARE => {
                return Ok((result, counted));
            }
            _ => {}
        }
    }
    Err(Error::Busy)
}

/// Lets this thread run on all processors but one, whatever the rest of the process is confined to;
/// whether there are any.
fn leave_processor(number: i32) -> bool {
    // SAFETY: a set of processors is an array of bits, and empty if they are zero.
    let mut others: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for other in 0..libc::CPU_SETSIZE {
        if other != number {
            // SAFETY: the number is below the size of the set.
            unsafe { libc::CPU_SET(other as usize, &mut others) };
        }
    }
    // SAFETY: the set is ours, and of the size that is told. The kernel leaves out the processors
    // that there are not.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &others) == 0 }
}

fn count(has_begun: &AtomicBool, ends: &AtomicBool) -> Counted {
    let (begin, start) = (Instant::now(), thread_time());
    has_begun.store(true, Ordering::Relaxed);
    let mut rounds = 0;
    while !ends.load(Ordering::Relaxed) {
        rounds += 1;
    }
    let time = thread_time() - start;
    Counted { rounds, time, share: time.as_secs_f64() / begin.elapsed().as_secs_f64() }
}
