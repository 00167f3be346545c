//! While a program is recorded, SIGINT, SIGTERM and SIGHUP ask for a clean end instead of killing
//! the recorder, unless they are ignored.

use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// No signal came.
const NONE: i32 = 0;
/// The terminal sent one, to the program too.
const FROM_TERMINAL: i32 = -1;

/// One of these two, or the number of a signal that was sent to this process only.
static RECEIVED: AtomicI32 = AtomicI32::new(NONE);

/// How many guards there are, and what the first one found.
static FORMER: Mutex<(usize, Vec<(i32, libc::sigaction)>)> = Mutex::new((0, Vec::new()));

/// What asks for the end of a recording.
pub(super) enum Interrupt {
    /// A key; the terminal has told the program itself.
    Terminal,
    /// A signal that the program has to be passed.
    Signal(i32),
}

/// The interrupt that came last.
pub(super) fn received() -> Option<Interrupt> {
    match RECEIVED.load(Ordering::Relaxed) {
        NONE => None,
        FROM_TERMINAL => Some(Interrupt::Terminal),
        signal => Some(Interrupt::Signal(signal)),
    }
}

extern "C" fn note(signal: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes valid information to a handler with SA_SIGINFO.
    let from_terminal = unsafe { (*information).si_code } == libc::SI_KERNEL;
    RECEIVED.store(if from_terminal { FROM_TERMINAL } else { signal }, Ordering::Relaxed);
}

/// As long as one of these lives, the signals are only noted.
pub(super) struct InterruptGuard(());

impl InterruptGuard {
    pub(super) fn install() -> Self {
        let mut former = FORMER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if former.0 == 0 {
            RECEIVED.store(NONE, Ordering::Relaxed);
            for signal in SIGNALS {
                let mut old = MaybeUninit::<libc::sigaction>::uninit();
                // SAFETY: the handler only stores to an atomic, which is allowed in a handler;
                // `old` is read where the call has filled it in.
                unsafe {
                    let mut action: libc::sigaction = zeroed();
                    let handler: extern "C" fn(_, _, _) = note;
                    action.sa_sigaction = handler as usize;
                    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                    if libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) != 0 {
                        continue;
                    }
                    let old = old.assume_init();
                    if old.sa_sigaction != libc::SIG_IGN
                        && libc::sigaction(signal, &action, ptr::null_mut()) == 0
                    {
                        former.1.push((signal, old));
                    }
                }
            }
        }
        former.0 += 1;
        Self(())
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        let mut former = FORMER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        former.0 -= 1;
        if former.0 == 0 {
            for (signal, old) in former.1.drain(..) {
                // SAFETY: puts back what `install` found.
                unsafe { libc::sigaction(signal, &old, ptr::null_mut()) };
            }
        }
    }
}
