//! The ledger's one promise: the causes sum to the cycles, whatever happens.

use mmulab_hardware::{Account, Cause, Ledger};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    Issue,
    Miss,
    Walk,
}

impl Cause for Reason {
    const ALL: &'static [Self] = &[Self::Issue, Self::Miss, Self::Walk];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        ["issue", "miss", "walk"][self as usize]
    }
}

proptest! {
    #[test]
    fn causes_sum_to_cycles_in_all_and_by_phase(
        charges in prop::collection::vec((0usize..3, 0u64..5, 0u64..1000, 0usize..4), 0..200),
    ) {
        let phases = ["", "boot", "switch", "idle"];
        let mut ledger = Ledger::new();
        let mut expected = std::collections::BTreeMap::new();
        for (cause, count, cycles, phase) in charges {
            ledger.enter_phase(phases[phase]);
            ledger.charge_many(Reason::ALL[cause], count, cycles);
            let account: &mut Account = expected.entry((phase, cause)).or_default();
            account.count += count;
            account.cycles += cycles;
        }
        let total: u64 = Reason::ALL.iter().map(|&cause| ledger.account(cause).cycles).sum();
        prop_assert_eq!(total, ledger.cycles());
        for (phase, name) in phases.iter().enumerate() {
            for (cause, &reason) in Reason::ALL.iter().enumerate() {
                let account = expected.get(&(phase, cause)).copied().unwrap_or_default();
                prop_assert_eq!(ledger.account_in(name, reason), account);
            }
        }
    }
}

#[test]
fn a_phase_entered_again_goes_on() {
    let mut ledger = Ledger::new();
    ledger.charge(Reason::Issue, 1);
    ledger.enter_phase("switch");
    ledger.charge(Reason::Walk, 10);
    ledger.enter_phase("");
    ledger.charge(Reason::Issue, 1);
    ledger.enter_phase("switch");
    ledger.charge(Reason::Walk, 30);
    assert_eq!(ledger.account_in("switch", Reason::Walk), Account { count: 2, cycles: 40 });
    assert_eq!(ledger.account_in("", Reason::Issue), Account { count: 2, cycles: 2 });
    assert_eq!(ledger.account_in("never", Reason::Issue), Account::default());
    assert_eq!(ledger.phases().collect::<Vec<_>>(), ["", "switch"]);
    assert_eq!(ledger.cycles(), 42);
}
