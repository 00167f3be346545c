//! References of the first level whose misses the levels below are told of later, many at a time.
//!
//! Nothing that a cache does depends on those below it. So a miss waits here with others, and then
//! each level takes all of them, in order: the host runs through one level's code and tables at a
//! time.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use mmulab_hardware::{Ledger, Slot};

use super::hierarchy::Referenced;
use super::{Hierarchy, Location, Side};
use crate::cause::{Cause, Role};

/// What the levels below the first are still to be told.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferred {
    /// In order.
    requests: Vec<Request>,
    /// Those that a level makes of the next one; kept for its memory.
    below: Vec<Request>,
    /// Fetches that missed the first level ahead of data references, in order.
    fetches: VecDeque<FetchAhead>,
}

/// What a level asks of the one below it.
#[derive(Clone, Copy, Debug)]
enum Request {
    /// A reference that missed.
    Reference { role: Role, at: Location, is_store: bool },
    /// A store or a dirty line that nobody waits for.
    Write(Location),
}

/// A fetch that missed the first level ahead of data references.
#[derive(Clone, Debug)]
struct FetchAhead {
    /// Of its block.
    number: u32,
    at: Location,
    /// How many data references come before it, without and with those of its block.
    references: RangeInclusive<usize>,
}

/// How many requests wait at most: enough that each level is run through many times, and few enough
/// to stay in the host's cache.
const BATCH: usize = 48;

impl Hierarchy {
    /// [`Hierarchy::reference_slot`] that enters at the first level and tells those below later:
    /// nothing that the first does depends on them. What they charge is in the ledger that
    /// [`Hierarchy::settle`] is given.
    #[inline]
    pub(crate) fn reference_first_level(
        &mut self,
        role: Role,
        at: Location,
        is_store: bool,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        let levels = self.levels();
        let here = &mut self.caches[self.path[role.side() as usize][0]];
        let requests = &mut self.deferred.requests;
        let Referenced { slot, is_hit, dirty } = here.reference(at, is_store);
        if !is_hit {
            ledger.charge(role.miss(0, levels), self.miss_cycles[0]);
            requests.push(Request::Reference { role, at, is_store });
            requests.extend(dirty.map(Request::Write));
        }
        if is_store {
            match slot.filter(|_| here.is_write_back) {
                Some(slot) => here.cache.mark_dirty(slot, 1),
                None => requests.push(Request::Write(at)),
            }
        }
        if requests.len() >= BATCH {
            self.settle(ledger);
        }
        slot
    }

    /// A fetch of block `number` that is made ahead of data references that come before it, as many
    /// as `references` says, of which the block's own are the last: the levels below are told when
    /// these have been made ([`Hierarchy::release_fetches`]). The first level is split.
    #[inline]
    pub(crate) fn fetch_ahead(
        &mut self,
        at: Location,
        number: u32,
        references: RangeInclusive<usize>,
        ledger: &mut Ledger<Cause>,
    ) -> Option<Slot> {
        let levels = self.levels();
        let here = &mut self.caches[self.path[Side::Instruction as usize][0]];
        let Referenced { slot, is_hit, .. } = here.reference(at, false);
        if !is_hit {
            ledger.charge(Role::Fetch.miss(0, levels), self.miss_cycles[0]);
            self.deferred.fetches.push_back(FetchAhead { number, at, references });
        }
        slot
    }

    /// Of the data references of which fetches were made ahead, `made` have been made. `own_before`
    /// is how many of a block come before its fetch of an address; it is asked only where that
    /// tells.
    #[inline]
    pub(crate) fn release_fetches(&mut self, made: usize, own_before: impl Fn(u32, u64) -> usize) {
        while let Some(FetchAhead { number, at, references }) = self.deferred.fetches.front() {
            let (first, last, at) = (*references.start(), *references.end(), *at);
            let is_later = first > made
                || last > made && first + own_before(*number, at.virtual_address) > made;
            if is_later {
                break;
            }
            self.deferred.fetches.pop_front();
            self.deferred.requests.push(Request::Reference {
                role: Role::Fetch,
                at,
                is_store: false,
            });
        }
    }

    /// Tells the levels below the first what they have not been told yet.
    pub(crate) fn settle(&mut self, ledger: &mut Ledger<Cause>) {
        let Deferred { requests, below, .. } = &mut self.deferred;
        let [mut requests, mut below] = [requests, below].map(std::mem::take);
        if self.followers.is_empty() {
            for level in 1..self.levels() {
                for request in requests.drain(..) {
                    self.take(level, request, &mut below, ledger);
                }
                std::mem::swap(&mut requests, &mut below);
            }
        } else {
            // What follows takes each request with those that come of it.
            for request in &requests {
                match *request {
                    Request::Reference { role, at, is_store } => {
                        self.reference_from(1, role, at, is_store, 0, ledger);
                    }
                    Request::Write(at) => self.write_below(1, at),
                }
            }
        }
        requests.clear();
        [self.deferred.requests, self.deferred.below] = [requests, below];
    }

    /// A request comes to `level`; what this asks of the next one goes to `below`.
    #[inline(always)]
    fn take(
        &mut self,
        level: usize,
        request: Request,
        below: &mut Vec<Request>,
        ledger: &mut Ledger<Cause>,
    ) {
        match request {
            Request::Reference { role, at, is_store } => {
                let levels = self.levels();
                let here = &mut self.caches[self.path[role.side() as usize][level]];
                let Referenced { is_hit, dirty, .. } = here.reference(at, is_store);
                if !is_hit {
                    ledger.charge(role.miss(level, levels), self.miss_cycles[level]);
                    below.push(request);
                    below.extend(dirty.map(Request::Write));
                }
            }
            Request::Write(at) => {
                let here = &mut self.caches[self.path[Side::Data as usize][level]];
                let found = here.is_write_back.then(|| here.cache.find(here.address(at)));
                match found.flatten() {
                    Some(slot) => here.cache.mark_dirty(slot, 1),
                    None => below.push(request),
                }
            }
        }
    }
}
