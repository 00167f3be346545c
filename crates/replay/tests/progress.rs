//! The caller of a replay is told how far it is, and can stop it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use mmulab_replay::{Options, ReplayError, replay};
use mmulab_trace::{Batch, BlockTable, Source, TraceError};

use crate::common;

/// Gives the small trace again and again, as a trace that has no end.
struct Endless(Box<dyn Source>);

impl Endless {
    fn small_trace() -> Box<dyn Source> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small.mmt");
        mmulab_trace::open(path.as_ref()).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Source for Endless {
    fn table(&self) -> &BlockTable {
        self.0.table()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        if !self.0.next_batch(batch)? {
            self.0 = Self::small_trace();
            self.0.next_batch(batch)?;
        }
        Ok(true)
    }
}

#[test]
fn the_caller_is_told_on_its_own_thread_up_to_the_end() {
    let caller = thread::current().id();
    let last = AtomicU64::new(0);
    let progress = |instructions| {
        assert_eq!(thread::current().id(), caller);
        assert!(last.swap(instructions, Relaxed) <= instructions);
        true
    };
    let options = Options { progress: Some(&progress), ..Options::default() };
    let machines = [common::machine("base", &[])];
    let outcomes = replay(&mut *Endless::small_trace(), &machines, options).unwrap();
    assert_eq!(last.into_inner(), outcomes[0].instructions);
}

#[test]
fn the_caller_can_stop_a_replay_that_would_not_end() {
    let progress = |instructions| instructions < 1_000_000;
    let options = Options { progress: Some(&progress), ..Options::default() };
    let machines = [common::machine("base", &[])];
    let stopped = replay(&mut Endless(Endless::small_trace()), &machines, options);
    assert!(matches!(stopped, Err(ReplayError::Stopped)));
}
