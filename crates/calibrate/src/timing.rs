//! Time in cycles of the core, without a counter of cycles.

use std::arch::asm;
use std::time::Duration;

/// Dependent additions in one run of the yardstick, about 100 us.
const ADDITIONS: u32 = 320_000;

/// A sample is shorter than a time slice, so that most are not interrupted.
const SAMPLE_NS: f64 = 1_000_000.0;

/// Steps that say how long a step takes; at least 16 us even if all of them hit.
const TRIAL_STEPS: usize = 1 << 14;

/// Time that this thread has run: what others run meanwhile does not count.
pub(crate) fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds that a cycle of the core takes now.
///
/// An addition of registers that waits for the one before takes one cycle on every core that this
/// is built for; the frequency changes with load, so this is asked again beside each sample.
pub(crate) fn cycle_ns() -> f64 {
    let start = thread_time();
    let mut sum = 1_u64;
    for _ in 0..ADDITIONS / 32 {
        // SAFETY: arithmetic on one register.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!(".rept 32", "add {0}, {0}", ".endr", inout(reg) sum, options(nomem, nostack));
        }
        // SAFETY: arithmetic on one register.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!(".rept 32", "add {0}, {0}, {0}", ".endr", inout(reg) sum, options(nomem, nostack));
        }
    }
    let elapsed = thread_time() - start;
    std::hint::black_box(sum);
    elapsed.as_nanos() as f64 / f64::from(ADDITIONS)
}

/// Cycles that a step of `run` takes, `samples` times; `run(steps)` does `steps` of them, a
/// multiple of `unit`.
///
/// A first run of `round` steps brings in all that the steps touch; how long a second takes says
/// how many steps fill a sample. A sample continues where the one before stopped.
pub(crate) fn cycles_per_step(
    samples: usize,
    round: usize,
    unit: usize,
    mut run: impl FnMut(usize),
) -> Vec<f64> {
    run(round.next_multiple_of(unit));
    let trial = round.min(TRIAL_STEPS).next_multiple_of(unit);
    let start = thread_time();
    run(trial);
    let step_ns = ((thread_time() - start).as_nanos() as f64).max(1.0) / trial as f64;
    let steps = ((SAMPLE_NS / step_ns) as usize).next_multiple_of(unit).max(unit);
    (0..samples)
        .map(|_| {
            let before = cycle_ns();
            let start = thread_time();
            run(steps);
            let elapsed = (thread_time() - start).as_nanos() as f64;
            // An interrupt only ever makes the yardstick longer.
            elapsed / before.min(cycle_ns()) / steps as f64
        })
        .collect()
}

/// Cycles that a NOP takes among NOPs; one a sample.
pub(crate) fn issue_cycles(samples: usize) -> Vec<f64> {
    const BLOCK: usize = 1024;
    cycles_per_step(samples, BLOCK, BLOCK, |steps| {
        for _ in 0..steps / BLOCK {
            // SAFETY: does nothing. BLOCK instructions: the assembler can't be given the constant.
            unsafe {
                asm!(".rept 1024", "nop", ".endr", options(nomem, nostack, preserves_flags));
            }
        }
    })
}
