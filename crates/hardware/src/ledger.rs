//! Where every cycle goes.

/// A fixed set of reasons to spend cycles: an enumeration of the driver.
pub trait Cause: Copy + 'static {
    /// All causes; a cause's `index` is its place here. At most [`Ledger::MAXIMUM_CAUSES`].
    const ALL: &'static [Self];

    /// The place of this cause in [`Cause::ALL`].
    fn index(self) -> usize;

    /// The name under which results report it.
    fn name(self) -> &'static str;
}

/// What one cause has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How often.
    pub count: u64,
    /// For how many cycles in all.
    pub cycles: u64,
}

mmulab_state::value!(Account { count, cycles });

const MAXIMUM_CAUSES: usize = 64;

/// Counts and cycles by cause, summed by phase.
///
/// All costs go through [`Ledger::charge`], which also advances the clock: the sum of the causes
/// equals the cycle count because there is no other way to spend a cycle.
#[derive(Clone, Debug)]
pub struct Ledger<C> {
    accounts: [Account; MAXIMUM_CAUSES],
    cycles: u64,
    phase: usize,
    /// Accounts of the phases other than the current one, whose place is stale.
    phases: Vec<(String, [Account; MAXIMUM_CAUSES])>,
    causes: std::marker::PhantomData<C>,
}

mmulab_state::state!([C] Ledger<C> { accounts, cycles, phase, phases } built { causes });

impl<C: Cause> Default for Ledger<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cause> Ledger<C> {
    /// The most causes that a set may have.
    pub const MAXIMUM_CAUSES: usize = MAXIMUM_CAUSES;

    /// An empty ledger in an unnamed phase.
    pub fn new() -> Self {
        const { assert!(C::ALL.len() <= MAXIMUM_CAUSES) };
        Self {
            accounts: [Account::default(); MAXIMUM_CAUSES],
            cycles: 0,
            phase: 0,
            phases: vec![(String::new(), [Account::default(); MAXIMUM_CAUSES])],
            causes: std::marker::PhantomData,
        }
    }

    /// One event of `cause` that takes `cycles` (which may be none).
    #[inline]
    pub fn charge(&mut self, cause: C, cycles: u64) {
        self.charge_many(cause, 1, cycles);
    }

    /// `count` events of `cause` that take `cycles` together.
    #[inline]
    pub fn charge_many(&mut self, cause: C, count: u64, cycles: u64) {
        // The mask keeps the index within the array without a check.
        let account = &mut self.accounts[cause.index() & (MAXIMUM_CAUSES - 1)];
        account.count += count;
        account.cycles += cycles;
        self.cycles += cycles;
    }

    /// All cycles so far, over all phases.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// From here on costs belong to the phase `name`; entering it again adds to it.
    pub fn enter_phase(&mut self, name: &str) {
        self.phases[self.phase].1 = self.accounts;
        self.phase = match self.phases.iter().position(|(known, _)| known == name) {
            Some(phase) => phase,
            None => {
                self.phases.push((name.to_owned(), [Account::default(); MAXIMUM_CAUSES]));
                self.phases.len() - 1
            }
        };
        self.accounts = self.phases[self.phase].1;
    }

    /// The names of the phases in order of first entry; the first one is unnamed.
    pub fn phases(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().map(|(name, _)| name.as_str())
    }

    /// The account of `cause`, over all phases.
    pub fn account(&self, cause: C) -> Account {
        let mut sum = Account::default();
        for phase in 0..self.phases.len() {
            let account = self.accounts_of(phase)[cause.index()];
            sum.count += account.count;
            sum.cycles += account.cycles;
        }
        sum
    }

    /// The account of `cause` in one phase; zero for a phase that never was.
    pub fn account_in(&self, phase: &str, cause: C) -> Account {
        self.phases
            .iter()
            .position(|(known, _)| known == phase)
            .map(|phase| self.accounts_of(phase)[cause.index()])
            .unwrap_or_default()
    }

    fn accounts_of(&self, phase: usize) -> &[Account; MAXIMUM_CAUSES] {
        if phase == self.phase { &self.accounts } else { &self.phases[phase].1 }
    }
}
