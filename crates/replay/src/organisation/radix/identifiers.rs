//! Address-space identifiers, and who has them.

/// Which address spaces have one of the identifiers (PCIDs, ASIDs) by which TLBs and walk caches tell them apart.
///
/// The operating system gives them in turn, as Linux does on x86 (`choose_new_asid` in arch/x86/mm/tlb.c): an address space
/// that has none takes that of the one that got its own longest ago, whose translations are dropped. With one
/// identifier a switch therefore drops all that the other left: Intel SDM 3A, 4.10.4.1, MOV to CR3.
#[derive(Clone, Debug)]
pub(super) struct Identifiers {
    spaces: Vec<Option<u32>>,
    next: usize,
}

impl Identifiers {
    pub(super) fn new(count: u32) -> Self {
        Self { spaces: vec![None; count.max(1) as usize], next: 0 }
    }

    /// Switches to an address space; the one whose translations are dropped for that.
    pub(super) fn switch_to(&mut self, space: u32) -> Option<u32> {
        if self.spaces.contains(&Some(space)) {
            return None;
        }
        let gone = self.spaces[self.next].replace(space);
        self.next = (self.next + 1) % self.spaces.len();
        gone
    }
}
