//! Paths of calls: a tree of call sites.

use std::collections::HashMap;

use mmulab_trace::{BlockTable, Calls, Event};

/// A tree has no more paths than this; calls further down belong to the deepest path that is in it.
const MOST_PATHS: usize = 1 << 20;

/// All paths of calls that the program took, as a tree; path 0 is outside of all calls.
pub(crate) struct Paths {
    /// For each path the one that it continues, and an address within the instruction that called.
    nodes: Vec<(u32, u64)>,
    numbers: HashMap<(u32, u64), u32>,
    calls: Calls,
    /// By thread, the path of each frame that it is in.
    threads: HashMap<u32, Vec<u32>>,
    current: Vec<u32>,
    thread: u32,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            nodes: vec![(0, 0)],
            numbers: HashMap::new(),
            calls: Calls::default(),
            threads: HashMap::new(),
            current: Vec::new(),
            thread: 0,
        }
    }
}

impl Paths {
    pub(crate) fn nodes(&self) -> &[(u32, u64)] {
        &self.nodes
    }

    pub(crate) fn note(&mut self, event: &Event) {
        self.calls.note(event);
        if self.calls.thread() != self.thread {
            let next = self.threads.remove(&self.calls.thread()).unwrap_or_default();
            let before = std::mem::replace(&mut self.current, next);
            self.threads.insert(self.thread, before);
            self.thread = self.calls.thread();
        }
        if matches!(event, Event::Unmap { length_bytes: u64::MAX, .. }) {
            self.threads.clear();
            self.current.clear();
        }
    }

    /// The path on which a block is about to be executed.
    #[inline]
    pub(crate) fn step(&mut self, table: &BlockTable, block: u32, addresses: &[u64]) -> u32 {
        let change = self.calls.step(table, block, addresses);
        self.current.truncate(self.current.len() - change.left);
        if let Some(frame) = self.calls.frames().last().filter(|_| change.is_call) {
            let parent = self.current.last().copied().unwrap_or(0);
            let site = frame.return_address.wrapping_sub(1);
            let fresh = self.nodes.len();
            let path = match self.numbers.get(&(parent, site)) {
                Some(&path) => path,
                None if fresh == MOST_PATHS => parent,
                None => {
                    self.nodes.push((parent, site));
                    self.numbers.insert((parent, site), fresh as u32);
                    fresh as u32
                }
            };
            self.current.push(path);
        }
        self.current.last().copied().unwrap_or(0)
    }
}
