//! The causes of the ledger, under the names of the 1998 study.

use mmulab_machine::{Interrupts, ReplayMachine};

use mmulab_hardware::Cause as _;

/// Why a replayed program spends cycles.
///
/// The names are those of Jacob and Mudge's tables 2 and 3; those that their machines did not need
/// (a third cache level, a second TLB level) are formed alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// Instructions of the program leave the core.
    Issue,
    /// An instruction fetch of the program missed the first level.
    L1iMiss,
    /// An instruction fetch of the program missed the second level.
    L2iMiss,
    /// An instruction fetch of the program missed the third level.
    L3iMiss,
    /// A data reference of the program missed the first level.
    L1dMiss,
    /// A data reference of the program missed the second level.
    L2dMiss,
    /// A data reference of the program missed the third level.
    L3dMiss,
    /// The user-level handler, or the walking state machine, works.
    Uhandler,
    /// A user-level page-table entry was not in the first level.
    UpteL2,
    /// A user-level page-table entry was not in the second level, and there is a third.
    UpteL3,
    /// A user-level page-table entry was in no cache.
    UpteMem,
    /// The kernel-level handler works.
    Khandler,
    /// A kernel-level page-table entry was not in the first level.
    KpteL2,
    /// A kernel-level page-table entry was not in the second level, and there is a third.
    KpteL3,
    /// A kernel-level page-table entry was in no cache.
    KpteMem,
    /// The root-level handler works.
    Rhandler,
    /// An upper-level page-table entry was not in the first level.
    RpteL2,
    /// An upper-level page-table entry was not in the second level, and there is a third.
    RpteL3,
    /// An upper-level page-table entry was in no cache.
    RpteMem,
    /// The tables of a hypervisor are walked.
    HostWalk,
    /// An entry of a hypervisor's table was not in the first level.
    HpteL2,
    /// An entry of a hypervisor's table was not in the second level, and there is a third.
    HpteL3,
    /// An entry of a hypervisor's table was in no cache.
    HpteMem,
    /// A walk for the next page beside the program, which does not wait for it.
    TlbPrefetch,
    /// A walk ran beside others: what the program waited for beyond these.
    OverlappedWalk,
    /// A core that took a mapping away waited for the others.
    Shootdown,
    /// A core was interrupted because another took a mapping away.
    ShootdownInterrupt,
    /// Handler code was not in the first level.
    HandlerL2,
    /// Handler code was not in the second level, and there is a third.
    HandlerL3,
    /// Handler code was in no cache.
    HandlerMem,
    /// A first-level TLB missed and the second level was asked.
    Stlb,
    /// A miss handler was entered by a precise interrupt.
    Interrupt,
    /// A copy-on-write fault interrupted the program.
    CowInterrupt,
    /// A page of 4 KiB of anonymous memory was touched for the first time.
    SmallPageFault,
    /// 2 MiB of anonymous memory in a large page were touched for the first time.
    LargePageFault,
    /// A page of a file was touched for the first time, and those around it.
    FilePageFault,
    /// A block's small pages became a large one.
    Promotion,
}

impl Cause {
    const NAMES: [&'static str; 37] = [
        "issue",
        "L1i-miss",
        "L2i-miss",
        "L3i-miss",
        "L1d-miss",
        "L2d-miss",
        "L3d-miss",
        "uhandler",
        "upte-L2",
        "upte-L3",
        "upte-MEM",
        "khandler",
        "kpte-L2",
        "kpte-L3",
        "kpte-MEM",
        "rhandler",
        "rpte-L2",
        "rpte-L3",
        "rpte-MEM",
        "host-walk",
        "hpte-L2",
        "hpte-L3",
        "hpte-MEM",
        "tlb-prefetch",
        "overlapped-walk",
        "shootdown",
        "shootdown-interrupt",
        "handler-L2",
        "handler-L3",
        "handler-MEM",
        "stlb",
        "interrupt",
        "cow-interrupt",
        "small-page-fault",
        "large-page-fault",
        "file-page-fault",
        "promotion",
    ];

    /// What one event costs on `machine`, for causes that are page faults or their like.
    pub(crate) fn page_fault_cycles(self, machine: &ReplayMachine) -> Option<u64> {
        let Interrupts {
            small_page_fault_cycles,
            large_page_fault_cycles,
            file_page_fault_cycles,
            promotion_cycles,
            ..
        } = machine.interrupts;
        let cycles = match self {
            Cause::SmallPageFault => small_page_fault_cycles,
            Cause::LargePageFault => large_page_fault_cycles,
            Cause::FilePageFault => file_page_fault_cycles,
            Cause::Promotion => promotion_cycles,
            _ => return None,
        };
        Some(cycles.unwrap_or(0).into())
    }

    /// Whether this cause is part of MCPI: cache misses of the program itself.
    pub fn is_mcpi(self) -> bool {
        (Cause::L1iMiss as u8..=Cause::L3dMiss as u8).contains(&(self as u8))
    }

    /// Whether this cause is part of VMCPI: finding translations, and telling other cores which are
    /// gone, without the interrupts that enter a handler.
    pub fn is_vmcpi(self) -> bool {
        (Cause::Uhandler as u8..=Cause::Stlb as u8).contains(&(self as u8))
    }
}

impl mmulab_hardware::Cause for Cause {
    const ALL: &'static [Self] = &[
        Cause::Issue,
        Cause::L1iMiss,
        Cause::L2iMiss,
        Cause::L3iMiss,
        Cause::L1dMiss,
        Cause::L2dMiss,
        Cause::L3dMiss,
        Cause::Uhandler,
        Cause::UpteL2,
        Cause::UpteL3,
        Cause::UpteMem,
        Cause::Khandler,
        Cause::KpteL2,
        Cause::KpteL3,
        Cause::KpteMem,
        Cause::Rhandler,
        Cause::RpteL2,
        Cause::RpteL3,
        Cause::RpteMem,
        Cause::HostWalk,
        Cause::HpteL2,
        Cause::HpteL3,
        Cause::HpteMem,
        Cause::TlbPrefetch,
        Cause::OverlappedWalk,
        Cause::Shootdown,
        Cause::ShootdownInterrupt,
        Cause::HandlerL2,
        Cause::HandlerL3,
        Cause::HandlerMem,
        Cause::Stlb,
        Cause::Interrupt,
        Cause::CowInterrupt,
        Cause::SmallPageFault,
        Cause::LargePageFault,
        Cause::FilePageFault,
        Cause::Promotion,
    ];

    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// A tier of a page table, and of the handlers that search it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Entries that map the program's pages.
    User,
    /// Entries that map pages of the user table, where it has a table of its own above the root's.
    Kernel,
    /// Everything above, and the administrative data that a root handler loads.
    Root,
    /// Entries of a hypervisor's table.
    Host,
}

impl Tier {
    /// The cause under which the handler's instructions go.
    pub fn handler(self) -> Cause {
        match self {
            Tier::User => Cause::Uhandler,
            Tier::Kernel => Cause::Khandler,
            Tier::Root => Cause::Rhandler,
            Tier::Host => Cause::HostWalk,
        }
    }
}

/// On whose behalf a cache is referenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The program fetches an instruction.
    Fetch,
    /// The program loads, stores or modifies.
    Data,
    /// A walk loads a page-table entry of this tier.
    Pte(Tier),
    /// A handler fetches an instruction.
    Handler,
}

impl Role {
    /// The cause of a miss in level `level` (0 is the first) of `levels`.
    #[inline]
    pub fn miss(self, level: usize, levels: usize) -> Cause {
        let (first, is_program) = match self {
            Role::Fetch => (Cause::L1iMiss, true),
            Role::Data => (Cause::L1dMiss, true),
            Role::Pte(Tier::User) => (Cause::UpteL2, false),
            Role::Pte(Tier::Kernel) => (Cause::KpteL2, false),
            Role::Pte(Tier::Root) => (Cause::RpteL2, false),
            Role::Pte(Tier::Host) => (Cause::HpteL2, false),
            Role::Handler => (Cause::HandlerL2, false),
        };
        // The program's misses are named after the level that missed, a walk's after the level that
        // it continues to; each group stands in the order first level, second level, memory.
        let step = if !is_program && level + 1 == levels { 2 } else { level.min(2) };
        Cause::ALL[first.index() + step]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_agree_with_the_order_of_names() {
        for (index, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(cause.index(), index);
        }
        assert_eq!(Cause::ALL.len(), Cause::NAMES.len());
    }

    #[test]
    fn misses_carry_the_names_of_the_study() {
        let names = |role: Role, levels| -> Vec<_> {
            (0..levels).map(|level| role.miss(level, levels).name()).collect()
        };
        assert_eq!(names(Role::Fetch, 2), ["L1i-miss", "L2i-miss"]);
        assert_eq!(names(Role::Data, 3), ["L1d-miss", "L2d-miss", "L3d-miss"]);
        assert_eq!(names(Role::Pte(Tier::User), 2), ["upte-L2", "upte-MEM"]);
        assert_eq!(names(Role::Pte(Tier::Kernel), 1), ["kpte-MEM"]);
        assert_eq!(names(Role::Pte(Tier::Root), 3), ["rpte-L2", "rpte-L3", "rpte-MEM"]);
        assert_eq!(names(Role::Pte(Tier::Host), 3), ["hpte-L2", "hpte-L3", "hpte-MEM"]);
        assert_eq!(names(Role::Handler, 2), ["handler-L2", "handler-MEM"]);
    }
}
