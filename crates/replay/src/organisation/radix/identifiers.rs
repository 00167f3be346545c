//! Address-space identifiers, and who has them.

/// Which address spaces have one of the identifiers (PCIDs, ASIDs) by which TLBs and walk caches
/// tell them apart.
///
/// The operating system gives them in turn, as Linux does on x86 (`choose_new_asid` in
/// arch/x86/mm/tlb.c): an address space that has none takes that of the one that got its own
/// longest ago, whose translations are dropped. With one identifier a switch therefore drops all
/// that the other left: Intel SDM 3A, 4.10.4.1, MOV to CR3.
#[derive(Clone, Debug)]
pub(super) struct Identifiers {
    given: Vec<Option<Given>>,
    next: usize,
}

/// To which address space an identifier was given, and whether some of its translations should be
/// gone.
#[derive(Clone, Copy, Debug)]
struct Given {
    space: u32,
    is_outdated: bool,
}

impl Identifiers {
    pub(super) fn new(count: u32) -> Self {
        Self { given: vec![None; count.max(1) as usize], next: 0 }
    }

    /// Switches to an address space; the one whose translations are dropped for that, which may be
    /// the same.
    pub(super) fn switch_to(&mut self, space: u32) -> Option<u32> {
        if let Some(own) = self.of(space) {
            return std::mem::take(&mut own.is_outdated).then_some(space);
        }
        let gone = self.given[self.next].replace(Given { space, is_outdated: false });
        self.next = (self.next + 1) % self.given.len();
        gone.map(|gone| gone.space)
    }

    /// Translations of an address space that does not run here are no longer right: all are dropped
    /// when it does.
    pub(super) fn outdate(&mut self, space: u32) {
        if let Some(own) = self.of(space) {
            own.is_outdated = true;
        }
    }

    fn of(&mut self, space: u32) -> Option<&mut Given> {
        self.given.iter_mut().flatten().find(|given| given.space == space)
    }
}
