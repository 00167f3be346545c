//! While a program is recorded, SIGINT asks for a clean end instead of killing the recorder.

use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// 0: none; 1: sent by the terminal, to the program too; 2: sent to this process only.
static RECEIVED: AtomicU8 = AtomicU8::new(0);

/// How many guards there are, and what the first one found.
static FORMER: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

/// Whether an interrupt came, and whether it came from the terminal.
pub(super) fn received() -> Option<bool> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => None,
        origin => Some(origin == 1),
    }
}

extern "C" fn note(_: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes valid information to a handler with SA_SIGINFO.
    let from_terminal = unsafe { (*information).si_code } == libc::SI_KERNEL;
    RECEIVED.store(if from_terminal { 1 } else { 2 }, Ordering::Relaxed);
}

/// As long as one of these lives, SIGINT is only noted.
pub(super) struct InterruptGuard(());

impl InterruptGuard {
    pub(super) fn install() -> Self {
        let mut former = FORMER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if former.0 == 0 {
            RECEIVED.store(0, Ordering::Relaxed);
            let mut old = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: the handler only stores to an atomic, which is allowed in a handler.
            unsafe {
                let mut action: libc::sigaction = zeroed();
                let handler: extern "C" fn(_, _, _) = note;
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                if libc::sigaction(libc::SIGINT, &action, old.as_mut_ptr()) == 0 {
                    former.1 = Some(old.assume_init());
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
        if let (0, Some(old)) = (former.0, former.1.take()) {
            // SAFETY: puts back what `install` found.
            unsafe { libc::sigaction(libc::SIGINT, &old, ptr::null_mut()) };
        }
    }
}
