//! Observers look on and change nothing: the checker, watchpoints, and what a caller attaches.
//!
//! With none attached a core takes its fast paths, where no observer is asked; the slow paths then
//! ask once whether there is any. With one, every access takes the slow path, and with the checker
//! alone what it knows to be right is left out ([`CoreMemory::load_known`] and its like). Events
//! with their numbers (time by mode and space, counts) are [`crate::statistics`]', which are always
//! kept.

use mmulab_hardware::HeldLine;

use crate::bus::Bus;
use crate::checker::Checker;
use crate::core::{Core, Mmu, Side, Walk};
use crate::maintenance::{Maintenance, Unit};
use crate::memory::CoreMemory;

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An instruction is fetched.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
}

/// What a load got its word from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of the data cache or the mini data cache.
    DataCache,
    /// The read buffer that software controls.
    ReadBuffer,
    /// Memory.
    Memory,
}

/// A load that was done. Addresses are as the MMU sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its address.
    pub address: u32,
    /// Where translation sent it.
    pub physical: u32,
    /// What it got its word from.
    pub source: Source,
    /// Bytes.
    pub size: u32,
    /// The aligned word that it got.
    pub word: u32,
}

/// A store that will be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Its instruction.
    pub pc: u32,
    /// Its address.
    pub address: u32,
    /// The address space that it is of.
    pub asid: u16,
    /// Where translation sends it.
    pub physical: u32,
    /// Whether caches hold the page.
    pub cached: bool,
    /// The aligned word, of which the masked bits are stored.
    pub value: u32,
    /// Which bits.
    pub mask: u32,
}

mmulab_state::value!(Store { pc, address, asid, physical, cached, value, mask });

/// Looks on. `core` is the core where it happens, `bus` the rest of the machine, with the other
/// cores.
pub trait Observer<C: Core> {
    /// An access will be translated. Whether the run is to stop after the instruction.
    fn accessing(&mut self, _core: &CoreMemory<C>, _address: u32, _size: u32, _: Access) -> bool {
        false
    }
    /// The instruction of `length` bytes at the PC will execute, from `slot` of the instruction
    /// cache.
    fn fetched(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _slot: usize, _length: u32) {}
    /// A load was done.
    fn loaded(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: &Load) {}
    /// A store will be done.
    fn storing(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: &Store) {}
    /// A store was executed and waits in the store buffer.
    fn putting_off(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: &Store) {}
    /// Such a store will be done, while the core executes something else.
    fn performing(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: &Store) {}
    /// A line came into `slot` of the cache of a side.
    fn filled(&mut self, _core: &CoreMemory<C>, _side: Side, _slot: usize) {}
    /// The MMU refused an access.
    fn refused(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: Access, _address: u32) {}
    /// The tables were walked for an address.
    fn walked(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: &Walk, _address: u32) {}
    /// Dirty halves of a line go towards memory.
    fn writing_back(
        &mut self,
        _core: &CoreMemory<C>,
        _bus: &Bus<C>,
        _line: &HeldLine<C::DataLine>,
    ) {
    }
    /// A dirty line of the data cache is emptied without being written back.
    fn discarding(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _line: &HeldLine<C::DataLine>) {}
    /// Software invalidated TLB entries.
    fn translations_changed(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>) {}
    /// The registers that choose the address space changed.
    fn space_changed(&mut self, _core: &CoreMemory<C>) {}
    /// Other tables count from here on, or translation was turned on or off.
    fn tables_changed(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>) {}
    /// A core does maintenance that others may have to wait for, or waits for its own.
    fn maintaining(&mut self, _core: &CoreMemory<C>, _bus: &Bus<C>, _: Maintenance) {}
    /// A core turns on caches or translation.
    fn enabling(&mut self, _core: &CoreMemory<C>, _: &[Unit]) {}
    /// Something outside of the cores wrote a word of memory.
    fn written_from_outside(&mut self, _physical: u32, _word: u32) {}
}

/// A watchpoint on addresses of the program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchpoint {
    /// First byte.
    pub address: u32,
    /// Bytes.
    pub length: u32,
    /// Stop at loads.
    pub on_load: bool,
    /// Stop at stores.
    pub on_store: bool,
}

/// An access that hit a watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchHit {
    /// The core that made it.
    pub core: usize,
    /// The first watched byte that it accesses, by its virtual address.
    pub address: u32,
    /// Whether it was a store.
    pub store: bool,
}

/// The debugger's watchpoints, on all cores.
#[derive(Default)]
pub struct Watchpoints {
    /// The watchpoints.
    pub points: Vec<Watchpoint>,
    /// The access that stops the run.
    pub hit: Option<WatchHit>,
}

impl<C: Core> Observer<C> for Watchpoints {
    fn accessing(&mut self, core: &CoreMemory<C>, address: u32, size: u32, access: Access) -> bool {
        let store = access == Access::Store;
        // The access is told by its address as the MMU sees it.
        let place = |point: &Watchpoint| core.relocated(point.address);
        let wanted = |point: &&Watchpoint| {
            (if store { point.on_store } else { point.on_load })
                && (address.wrapping_sub(place(point)) < point.length
                    || place(point).wrapping_sub(address) < size)
        };
        let Some(point) = self.points.iter().find(wanted) else { return false };
        // The debugger looks for a watchpoint with this address.
        let inside = place(point).wrapping_sub(address) < size;
        let distance = if inside { 0 } else { address.wrapping_sub(place(point)) };
        let address = point.address.wrapping_add(distance);
        self.hit = Some(WatchHit { core: core.number, address, store });
        true
    }
}

/// All that look on.
pub struct Observers<C: Core> {
    /// The staleness checker.
    pub checker: Option<Checker>,
    /// The debugger's watchpoints.
    pub watchpoints: Watchpoints,
    /// Others.
    pub attached: Vec<Box<dyn Observer<C> + Send>>,
}

impl<C: Core> Default for Observers<C> {
    fn default() -> Self {
        Observers { checker: None, watchpoints: Watchpoints::default(), attached: Vec::new() }
    }
}

impl<C: Core> Observers<C> {
    /// Whether anybody looks.
    pub(crate) fn any(&self) -> bool {
        self.checker.is_some() || !self.watchpoints.points.is_empty() || !self.attached.is_empty()
    }

    /// The checker, if nobody else looks.
    #[inline(always)]
    pub(crate) fn only_checker(&self) -> Option<&Checker> {
        let alone = self.attached.is_empty() && self.watchpoints.points.is_empty();
        self.checker.as_ref().filter(|_| alone)
    }

    /// The checker, if nobody else looks.
    #[inline(always)]
    pub(crate) fn only_checker_mut(&mut self) -> Option<&mut Checker> {
        let alone = self.attached.is_empty() && self.watchpoints.points.is_empty();
        self.checker.as_mut().filter(|_| alone)
    }

    fn each(&mut self, mut tell: impl FnMut(&mut dyn Observer<C>)) {
        if let Some(checker) = &mut self.checker {
            tell(checker);
        }
        for observer in &mut self.attached {
            tell(&mut **observer);
        }
    }
}

/// Tells each of them.
impl<C: Core> Observer<C> for Observers<C> {
    fn accessing(&mut self, core: &CoreMemory<C>, address: u32, size: u32, access: Access) -> bool {
        let mut stop = self.watchpoints.accessing(core, address, size, access);
        self.each(|observer| stop |= observer.accessing(core, address, size, access));
        stop
    }

    #[inline]
    fn fetched(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, slot: usize, length: u32) {
        if let Some(checker) = &mut self.checker {
            checker.fetched(core, bus, slot, length);
        }
        for observer in &mut self.attached {
            observer.fetched(core, bus, slot, length);
        }
    }

    fn loaded(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, load: &Load) {
        if let Some(checker) = &mut self.checker {
            checker.loaded(core, bus, load);
        }
        for observer in &mut self.attached {
            observer.loaded(core, bus, load);
        }
    }

    fn storing(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        if let Some(checker) = &mut self.checker {
            checker.storing(core, bus, store);
        }
        for observer in &mut self.attached {
            observer.storing(core, bus, store);
        }
    }

    fn putting_off(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        self.each(|observer| observer.putting_off(core, bus, store));
    }

    fn performing(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, store: &Store) {
        self.each(|observer| observer.performing(core, bus, store));
    }

    fn filled(&mut self, core: &CoreMemory<C>, side: Side, slot: usize) {
        self.each(|observer| observer.filled(core, side, slot));
    }

    fn refused(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, access: Access, address: u32) {
        self.each(|observer| observer.refused(core, bus, access, address));
    }

    fn walked(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, walk: &Walk, address: u32) {
        self.each(|observer| observer.walked(core, bus, walk, address));
    }

    fn writing_back(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, line: &HeldLine<C::DataLine>) {
        self.each(|observer| observer.writing_back(core, bus, line));
    }

    fn discarding(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, line: &HeldLine<C::DataLine>) {
        self.each(|observer| observer.discarding(core, bus, line));
    }

    fn translations_changed(&mut self, core: &CoreMemory<C>, bus: &Bus<C>) {
        self.each(|observer| observer.translations_changed(core, bus));
    }

    fn space_changed(&mut self, core: &CoreMemory<C>) {
        self.each(|observer| observer.space_changed(core));
    }

    fn tables_changed(&mut self, core: &CoreMemory<C>, bus: &Bus<C>) {
        self.each(|observer| observer.tables_changed(core, bus));
    }

    fn maintaining(&mut self, core: &CoreMemory<C>, bus: &Bus<C>, maintenance: Maintenance) {
        self.each(|observer| observer.maintaining(core, bus, maintenance));
    }

    fn enabling(&mut self, core: &CoreMemory<C>, units: &[Unit]) {
        self.each(|observer| observer.enabling(core, units));
    }

    fn written_from_outside(&mut self, physical: u32, word: u32) {
        self.each(|observer| observer.written_from_outside(physical, word));
    }
}

impl<C: Core> CoreMemory<C> {
    /// Tells whoever looks on. Meanwhile the bus has no observers.
    #[inline(always)]
    pub(crate) fn observe(
        &mut self,
        bus: &mut Bus<C>,
        tell: impl FnOnce(&mut Observers<C>, &CoreMemory<C>, &Bus<C>),
    ) {
        let Some(mut observers) = bus.observers.take() else { return };
        // What happened may concern the line that executes.
        self.fetch_known = false;
        tell(&mut observers, self, bus);
        bus.observers = Some(observers);
    }

    /// An access begins: somebody may want the run to stop after it.
    #[inline(always)]
    pub(crate) fn observe_access(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        size: u32,
        access: Access,
    ) {
        let Some(observers) = &mut bus.observers else { return };
        if observers.accessing(self, address, size, access) {
            self.request_exit();
        }
    }
    /// Whether the checker, which alone looks on, needs no look at the instructions of a line.
    #[inline(always)]
    pub(crate) fn knows_fetch_line(&self, bus: &Bus<C>, slot: usize) -> bool {
        let checker = bus.observers.as_ref().and_then(|observers| observers.only_checker());
        checker.is_some_and(|checker| checker.knows_fetch_line(self, slot))
    }

    /// Shows the checker, which alone looks on, an instruction.
    #[inline(never)]
    pub(crate) fn look_at_fetch(&mut self, bus: &mut Bus<C>, slot: usize, length: u32) {
        let Some(mut observers) = bus.observers.take() else { return };
        if let Some(checker) = &mut observers.checker {
            self.fetch_known = checker.look_at_fetch(self, bus, slot, length);
        }
        bus.observers = Some(observers);
    }

    /// The word that a load gets, where the checker alone looks on and knows the load to be right:
    /// no event is told.
    #[inline(always)]
    pub(crate) fn load_known(&self, bus: &Bus<C>, address: u32) -> Option<u32> {
        let checker = bus.observers.as_ref()?.only_checker()?;
        let (physical, slot, _) = self.known_hit(address, Access::Load)?;
        let right = checker.knows_load(self, address, physical, slot);
        right.then(|| self.dcache.word(slot, address))
    }

    /// Does a store that stays in the data cache, where the checker alone looks on and knows it to
    /// be right: no event is told. Returns whether it was done.
    #[inline(always)]
    pub(crate) fn store_known(
        &mut self,
        bus: &mut Bus<C>,
        address: u32,
        value: u32,
        mask: u32,
    ) -> bool {
        let checker = bus.observers.as_mut().and_then(|observers| observers.only_checker_mut());
        let Some(checker) = checker else { return false };
        let Some((physical, slot, page_type)) = self.known_hit(address, Access::Store) else {
            return false;
        };
        if !page_type.is_write_back() {
            return false;
        }
        let asid = self.mmu.asid();
        let store = Store { pc: self.pc, address, asid, physical, cached: true, value, mask };
        let Some(changed) = checker.store_known(self, &store, slot) else { return false };
        if changed {
            self.fetch_known = false;
        }
        self.dcache.set_word(slot, address, value, mask);
        self.dcache.mark_dirty(slot, address);
        true
    }
}
