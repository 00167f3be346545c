//! What the cores share: memory, the board, and each other.

use mmulab_state::{Damaged, Restorer, Saver, State, Value, restore_optional, save_optional};

use crate::board::Board;
use crate::cause::Cause;
use crate::coherence::Level2;
use crate::core::{Core, Requests};
use crate::memory::CoreMemory;
use crate::observer::Observers;
use crate::ram::Ram;

/// What answers at a physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Memory.
    Ram,
    /// A bank that reads as zero.
    Zero,
    /// The instrumentation device.
    Instrumentation,
    /// Another device, or nothing.
    Device,
}

/// The bus, with all that is on it.
pub struct Bus<C: Core> {
    /// RAM.
    pub ram: Ram,
    zero_bank: std::ops::Range<u32>,
    /// The devices.
    pub board: Board,
    /// The cores. The one that runs is taken out for its turn, so that it can be changed while it
    /// looks into the others.
    pub(crate) cores: Vec<Option<Box<C>>>,
    /// The cores that are off, a bit each: their time stands still.
    off: u32,
    /// The second level that the cores share.
    pub(crate) level_2: Option<Level2<C>>,
    /// Who looks on, if anybody does.
    pub(crate) observers: Option<Box<Observers<C>>>,
}

/// Between time slices, when every core is in the list. Of those who look on the checker alone has
/// a state; it is there when the bus is restored, or it is not, as when it was saved.
impl<C: Core> State for Bus<C> {
    fn save(&self, to: &mut Saver<'_>) {
        let Bus { ram, zero_bank: _, board, cores, off, level_2, observers } = self;
        ram.save(to);
        board.save(to);
        cores.iter().flatten().for_each(|core| core.save(to));
        off.save(to);
        save_optional(level_2, to);
        let checker = observers.as_ref().and_then(|observers| observers.checker.as_ref());
        checker.is_some().save(to);
        if let Some(checker) = checker {
            checker.save(to);
        }
    }

    fn restore(&mut self, from: &mut Restorer<'_>) -> Result<(), Damaged> {
        let Bus { ram, zero_bank: _, board, cores, off, level_2, observers } = self;
        ram.restore(from)?;
        board.restore(from)?;
        cores.iter_mut().flatten().try_for_each(|core| core.restore(from))?;
        off.restore(from)?;
        restore_optional(level_2, from)?;
        let checker = observers.as_mut().and_then(|observers| observers.checker.as_mut());
        match (bool::load(from)?, checker) {
            (true, Some(checker)) => checker.restore(from),
            (false, None) => Ok(()),
            (true, None) => Err(Damaged("was saved with the checker on")),
            (false, Some(_)) => Err(Damaged("was saved with the checker off")),
        }
    }
}

impl<C: Core> Bus<C> {
    pub(crate) fn new(
        ram: Ram,
        zero_bank: Option<std::ops::Range<u32>>,
        board: Board,
        cores: Vec<C>,
        level_2: Option<Level2<C>>,
    ) -> Bus<C> {
        Bus {
            ram,
            zero_bank: zero_bank.unwrap_or(0..0),
            board,
            cores: cores.into_iter().map(|core| Some(Box::new(core))).collect(),
            off: 0,
            level_2,
            observers: None,
        }
    }

    /// What answers at a physical address.
    #[inline(always)]
    pub fn region(&self, physical: u32) -> Region {
        if self.ram.contains(physical) {
            Region::Ram
        } else if self.board.is_instrumentation(physical) {
            Region::Instrumentation
        } else if self.zero_bank.contains(&physical) {
            Region::Zero
        } else {
            Region::Device
        }
    }

    /// Whether an address is in RAM.
    pub fn is_ram(&self, physical: u32) -> bool {
        self.ram.contains(physical)
    }

    /// A word of the translation tables; outside of RAM there is none.
    #[inline]
    pub fn read_table_word(&self, physical: u32) -> u32 {
        self.ram.get(physical).unwrap_or(0)
    }

    /// The memory sides of the other cores, for who snoops or checks while one runs.
    pub fn peers(&self) -> impl Iterator<Item = &CoreMemory<C>> {
        self.cores.iter().flatten().map(|core| core.memory())
    }

    /// The memory side of another core than the one that runs, unless it is off.
    pub(crate) fn peer(&self, number: usize) -> Option<&CoreMemory<C>> {
        let core = self.cores.get(number)?.as_ref()?;
        self.is_on(number).then(|| core.memory())
    }

    /// How many cores there are.
    pub fn core_count(&self) -> usize {
        self.cores.len()
    }

    /// Whether a core is on.
    pub fn is_on(&self, number: usize) -> bool {
        self.off >> number & 1 == 0
    }

    /// Turns a core off; it has to wait from then on.
    pub fn turn_off(&mut self, number: usize) {
        self.off |= 1 << number;
    }

    /// Turns on a core that was off, at time `now`: it starts at `entry` with an argument.
    pub fn turn_on(&mut self, number: usize, entry: u32, argument: u32, now: u64) {
        let Some(Some(core)) = self.cores.get_mut(number) else { return };
        let memory = core.memory_mut();
        let since = memory.now();
        memory.charge(Cause::Off, now.saturating_sub(since));
        memory.statistics.was_off(since, memory.now(), memory.clock.instructions());
        core.turned_on(entry, argument);
        *core.requests() = Requests::default();
        self.off &= !(1 << number);
    }

    /// Whether anybody looks on.
    #[inline(always)]
    pub fn is_observed(&self) -> bool {
        self.observers.is_some()
    }

    /// How many causes the checker has reported; 0 without one.
    pub(crate) fn checker_reports(&self) -> usize {
        self.observers
            .as_ref()
            .and_then(|observers| observers.checker.as_ref())
            .map_or(0, |checker| checker.reports.len())
    }

    /// A register of the instrumentation device, as the core of `memory` reads it.
    pub(crate) fn read_instrumentation(&mut self, memory: &CoreMemory<C>, physical: u32) -> u32 {
        let reports = self.checker_reports();
        self.board.instrumentation.read(physical, memory, reports)
    }

    /// Puts bytes into RAM; they must fit.
    pub fn load(&mut self, address: u32, bytes: &[u8]) {
        for (offset, &byte) in bytes.iter().enumerate() {
            let at = address + offset as u32;
            let shift = 8 * (at % 4);
            let word = self.ram.word_mut(at);
            *word = *word & !(0xff << shift) | u32::from(byte) << shift;
        }
    }
}
