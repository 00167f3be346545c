//! MOESI: which caches may have copies of a line, and what a request of one does to the others'.
//!
//! P. Sweazey and A. J. Smith, "A Class of Compatible Cache Consistency Protocols and their Support
//! by the IEEE Futurebus", ISCA 1986. A dirty line goes from cache to cache without a write-back,
//! and stays dirty: in the Owned state where the old owner keeps a copy, as Modified where it does
//! not (as the snoop control unit of the Cortex-A7 MPCore has it, ARM DDI 0464F, 6.2).

/// What a cache knows of its copy of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Invalid,
    /// Clean here; others may have copies.
    Shared,
    /// The only copy, clean.
    Exclusive,
    /// Newer than memory; others may have copies, which are clean.
    Owned,
    /// The only copy, newer than memory.
    Modified,
}

/// What another cache wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A copy.
    Read,
    /// The only copy, to store to it.
    Unique,
}

/// What a cache does for a request of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snoop {
    /// The state of its copy from here on.
    pub next: State,
    /// Whether it gives the line to the other.
    pub supplies: bool,
    /// Whether the other has to write the line back from here on.
    pub passes_dirty: bool,
}

impl State {
    /// The state of a copy that is dirty or not, with others or not.
    pub fn of(dirty: bool, shared: bool) -> State {
        match (dirty, shared) {
            (false, true) => State::Shared,
            (false, false) => State::Exclusive,
            (true, true) => State::Owned,
            (true, false) => State::Modified,
        }
    }

    /// Whether the copy is newer than memory.
    pub fn is_dirty(self) -> bool {
        matches!(self, State::Owned | State::Modified)
    }

    /// What a request of another cache does to this copy.
    pub fn snooped(self, request: Request) -> Snoop {
        let next = match (request, self) {
            (Request::Unique, _) | (_, State::Invalid) => State::Invalid,
            (Request::Read, State::Owned | State::Modified) => State::Owned,
            (Request::Read, State::Shared | State::Exclusive) => State::Shared,
        };
        // Of clean copies only the one that is alone answers; else several would.
        let supplies = !matches!(self, State::Invalid | State::Shared);
        let passes_dirty = request == Request::Unique && self.is_dirty();
        Snoop { next, supplies, passes_dirty }
    }

    /// Whether two caches may have copies in these states: one writer, one owner.
    pub fn may_stand_beside(self, other: State) -> bool {
        matches!(
            (self, other),
            (State::Invalid, _)
                | (_, State::Invalid)
                | (State::Shared, State::Shared | State::Owned)
                | (State::Owned, State::Shared)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 5] =
        [State::Invalid, State::Shared, State::Exclusive, State::Owned, State::Modified];

    /// From every permitted pair of copies, a third cache's request leaves permitted copies, and
    /// the duty to write back is with one cache as long as it was with one.
    #[test]
    fn requests_keep_one_writer_and_one_owner() {
        for a in STATES {
            for b in STATES.into_iter().filter(|&b| a.may_stand_beside(b)) {
                for request in [Request::Read, Request::Unique] {
                    let (first, second) = (a.snooped(request), b.snooped(request));
                    let held = [first.next, second.next].into_iter().any(|s| s != State::Invalid);
                    let dirty = first.passes_dirty || second.passes_dirty;
                    let third = match request {
                        Request::Read => State::of(false, held),
                        Request::Unique => State::Modified,
                    };
                    assert!(first.next.may_stand_beside(second.next), "{a:?} {b:?} {request:?}");
                    assert!(first.next.may_stand_beside(third), "{a:?} {b:?} {request:?}");
                    assert!(second.next.may_stand_beside(third), "{a:?} {b:?} {request:?}");
                    assert!(!(first.supplies && second.supplies), "{a:?} {b:?}");
                    let owed = a.is_dirty() || b.is_dirty();
                    let owned = dirty || first.next.is_dirty() || second.next.is_dirty();
                    assert_eq!(owed, owned, "{a:?} {b:?} {request:?}");
                }
            }
        }
    }
}
