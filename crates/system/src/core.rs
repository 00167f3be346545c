//! What an instruction set brings to the system: a core that executes, and how it translates.

use mmulab_hardware::Line;
use mmulab_machine::Platform;
use mmulab_state::{State, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::bus::Bus;
use crate::memory::CoreMemory;

/// Which side of a core an access is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Instruction fetch.
    Instruction,
    /// Load or store.
    Data,
}

/// Which address chooses the set of a cache, or is compared with its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAddress {
    /// The address that the core translates.
    Virtual,
    /// What translation gives.
    Physical,
}

/// How a page may be cached: what its table entry says, decoded once, when its TLB entry is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryType(u8);

mmulab_state::value!(tuple MemoryType);

impl MemoryType {
    /// No cache holds it, and a store waits until memory has it.
    pub const STRONGLY_ORDERED: MemoryType = MemoryType(0);
    const CACHED: u8 = 1;
    const WRITE_BACK: u8 = 2;
    const WRITE_ALLOCATE: u8 = 4;
    const MINI: u8 = 8;
    const BUFFERED: u8 = 16;
    const BUFFERED_UNCACHED: u8 = 32;
    const SHAREABLE: u8 = 64;
    const NO_FILLS: u8 = 128;

    /// A page that no cache holds; `buffered` stores wait in the write buffer only.
    pub const fn uncached(buffered: bool) -> MemoryType {
        MemoryType(if buffered { Self::BUFFERED | Self::BUFFERED_UNCACHED } else { 0 })
    }

    /// A page that caches hold, with stores that go on to memory through the write buffer.
    pub const fn write_through() -> MemoryType {
        MemoryType(Self::CACHED | Self::BUFFERED)
    }

    /// A page that caches hold, with stores that stay where they hit.
    pub const fn write_back() -> MemoryType {
        MemoryType(Self::CACHED | Self::WRITE_BACK | Self::BUFFERED | Self::BUFFERED_UNCACHED)
    }

    const fn with(self, bit: u8, value: bool) -> MemoryType {
        MemoryType(if value { self.0 | bit } else { self.0 & !bit })
    }

    /// Whether a store that misses fetches its line.
    pub const fn allocating(self, value: bool) -> MemoryType {
        self.with(Self::WRITE_ALLOCATE, value)
    }

    /// Whether its lines go into the mini data cache.
    pub const fn in_mini(self, value: bool) -> MemoryType {
        self.with(Self::MINI, value)
    }

    /// Whether stores that leave the caches wait in the write buffer only.
    pub const fn buffered(self, value: bool) -> MemoryType {
        self.with(Self::BUFFERED, value)
    }

    /// The same for the time when the caches are off.
    pub const fn buffered_when_uncached(self, value: bool) -> MemoryType {
        self.with(Self::BUFFERED_UNCACHED, value)
    }

    /// Whether other cores are meant to see its stores.
    pub const fn shareable(self, value: bool) -> MemoryType {
        self.with(Self::SHAREABLE, value)
    }

    /// Whether a store that hits stays in the data cache.
    pub const fn writing_back(self, value: bool) -> MemoryType {
        self.with(Self::WRITE_BACK, value)
    }

    /// Whether an access that misses brings its line in.
    pub const fn filling(self, value: bool) -> MemoryType {
        self.with(Self::NO_FILLS, !value)
    }

    /// Whether an access that misses brings its line in.
    #[inline(always)]
    pub const fn fills(self) -> bool {
        self.0 & Self::NO_FILLS == 0
    }

    /// What is left of it while the caches are off.
    #[inline(always)]
    pub const fn with_caches_off(self) -> MemoryType {
        MemoryType::uncached(self.0 & Self::BUFFERED_UNCACHED != 0)
    }

    /// Whether caches hold it.
    #[inline(always)]
    pub const fn is_cached(self) -> bool {
        self.0 & Self::CACHED != 0
    }

    /// Whether a store that hits stays in the data cache.
    #[inline(always)]
    pub const fn is_write_back(self) -> bool {
        self.0 & Self::WRITE_BACK != 0
    }

    /// Whether a store that misses fetches its line.
    #[inline(always)]
    pub const fn allocates_on_write(self) -> bool {
        self.0 & Self::WRITE_ALLOCATE != 0
    }

    /// Whether its lines go into the mini data cache.
    #[inline(always)]
    pub const fn is_in_mini(self) -> bool {
        self.0 & Self::MINI != 0
    }

    /// Whether a store that leaves the caches waits in the write buffer only.
    #[inline(always)]
    pub const fn is_buffered(self) -> bool {
        self.0 & Self::BUFFERED != 0
    }

    /// Whether other cores are meant to see its stores.
    #[inline(always)]
    pub const fn is_shareable(self) -> bool {
        self.0 & Self::SHAREABLE != 0
    }

    /// For reports, in the architecture's words.
    pub fn name(self) -> &'static str {
        match (self.is_cached(), self.is_write_back(), self.allocates_on_write()) {
            (true, true, true) => "write-back write-allocate",
            (true, true, false) => "write-back",
            (true, false, _) => "write-through",
            (false, ..) if self.is_buffered() => "uncached",
            (false, ..) => "strongly-ordered",
        }
    }
}

/// What a TLB entry holds beside its address and its address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Physical address of the page.
    pub physical: u32,
    /// Access permissions, as the table format has them.
    pub permissions: u8,
    /// Protection domain, of formats that have one.
    pub domain: u8,
    /// The attribute bits as the tables have them: reports and the debugger show them.
    pub attributes: u8,
    /// What they mean.
    pub memory_type: MemoryType,
    /// Base-two logarithm of the page's bytes.
    pub page_shift: u8,
    /// Whether it holds in every address space.
    pub global: bool,
}

mmulab_state::value!(Translation {
    physical,
    permissions,
    domain,
    attributes,
    memory_type,
    page_shift,
    global,
});

impl Translation {
    /// The physical address of an address of the page.
    #[inline(always)]
    pub fn physical_of(&self, address: u32) -> u32 {
        let mask = (1u32 << self.page_shift) - 1;
        self.physical & !mask | address & mask
    }

    /// Where the page of an address begins.
    pub fn first_of_page(&self, address: u32) -> u32 {
        address & !((1u32 << self.page_shift) - 1)
    }
}

/// The most descriptors that a walk reads.
const MAX_LEVELS: usize = 4;

/// The outcome of reading the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The translation, or the fault status.
    pub result: Result<Translation, u32>,
    descriptors: [(u32, u32); MAX_LEVELS],
    levels: u8,
    /// The first descriptor was not read: the walk cache had it.
    first_was_kept: bool,
}

impl Walk {
    /// A walk that read these descriptors, each with its physical address.
    pub fn new(result: Result<Translation, u32>, read: &[(u32, u32)]) -> Walk {
        let mut descriptors = [(0, 0); MAX_LEVELS];
        descriptors[..read.len()].copy_from_slice(read);
        Walk { result, descriptors, levels: read.len() as u8, first_was_kept: false }
    }

    /// The same walk, whose first descriptor a walk cache had kept.
    pub(crate) fn with_kept_first(mut self, first: (u32, u32)) -> Walk {
        self.descriptors[0] = first;
        self.first_was_kept = true;
        self
    }

    /// The descriptors of the walk, in order: physical address and value.
    pub fn descriptors(&self) -> &[(u32, u32)] {
        &self.descriptors[..usize::from(self.levels)]
    }

    /// Those of them that were read.
    pub fn descriptors_read(&self) -> &[(u32, u32)] {
        &self.descriptors()[usize::from(self.first_was_kept)..]
    }

    /// Whether a walk cache had the first one.
    pub fn first_was_kept(&self) -> bool {
        self.first_was_kept
    }
}

/// Why the MMU refused an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address as the MMU saw it.
    pub address: u32,
    /// The fault status, as the instruction set's register has it.
    pub status: u32,
    /// A store was refused.
    pub write: bool,
}

impl Fault {
    /// Of a load or fetch.
    pub fn new(address: u32, status: u32) -> Fault {
        Fault { address, status, write: false }
    }

    /// The same, of a store.
    pub fn of_store(self) -> Fault {
        Fault { write: true, ..self }
    }
}

/// The most registers that tell address spaces apart.
const MAX_SPACE_REGISTERS: usize = 4;

/// What a descriptor of the tables is, for who judges changes of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// Nothing that a TLB may hold.
    Invalid,
    /// The next level's table is at this physical address.
    Table(u32),
    /// A page.
    Page(Translation),
}

mmulab_state::value_enum!(Descriptor { Invalid, Table(at), Page(page) });

/// How an instruction set tells address spaces apart, and how reports name one.
pub struct SpaceFormat {
    /// Names of the registers, as results have them.
    pub names: &'static [&'static str],
    /// A space in words, from the registers' values.
    pub describe: fn(&[u32]) -> String,
}

/// An address space, as far as the hardware can tell: the registers that choose it.
#[derive(Clone, Copy)]
pub struct Space {
    format: &'static SpaceFormat,
    values: [u32; MAX_SPACE_REGISTERS],
}

mmulab_state::state!(Space { values } built { format });
mmulab_state::value_like_given!(Space);

impl PartialEq for Space {
    fn eq(&self, other: &Space) -> bool {
        self.values == other.values
    }
}

impl Eq for Space {}

impl std::fmt::Debug for Space {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

impl Space {
    /// The space that these registers choose.
    pub fn new(format: &'static SpaceFormat, registers: &[u32]) -> Space {
        let mut values = [0; MAX_SPACE_REGISTERS];
        values[..registers.len()].copy_from_slice(registers);
        Space { format, values }
    }

    /// The values of the registers.
    pub fn registers(&self) -> &[u32] {
        &self.values[..self.format.names.len()]
    }

    /// The space in words.
    pub fn describe(&self) -> String {
        (self.format.describe)(self.registers())
    }
}

impl Serialize for Space {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.format.names.len()))?;
        for (name, value) in self.format.names.iter().zip(self.registers()) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What reports call the operation that was missing. `{line}` stands for the line's address.
#[derive(Clone, Copy, Debug)]
pub struct MaintenanceNames {
    /// Invalidates what the data TLB holds of a page.
    pub invalidate_data_translation: &'static str,
    /// The same for instruction fetches.
    pub invalidate_fetch_translation: &'static str,
    /// Writes a dirty line back.
    pub clean_line: &'static str,
    /// Writes a line back as far as memory, where there is a second level.
    pub clean_to_memory: &'static str,
    /// Drops a line of the data cache.
    pub invalidate_line: &'static str,
    /// Drops a line of the instruction cache.
    pub invalidate_instructions: &'static str,
    /// Waits until the write buffer is empty.
    pub drain: &'static str,
    /// Empties the read buffer.
    pub empty_read_buffer: &'static str,
    /// Invalidate all of what a [`Unit`](crate::maintenance::Unit) names, in its order.
    pub invalidate_whole: [&'static str; 3],
}

/// The registers that rule translation, and the format of the tables.
pub trait Mmu: Clone + Value + 'static {
    /// The sizes of pages that TLB entries may have, as base-two logarithms, ascending.
    const PAGE_SHIFTS: &'static [u32];
    /// The status of an access to an address that is not a multiple of its size.
    const ALIGNMENT_FAULT: u32;

    /// The address that the caches and TLBs see; another than the program's where a process ID
    /// relocates it.
    #[inline(always)]
    fn relocated(&self, address: u32) -> u32 {
        address
    }

    /// Whether addresses are translated.
    fn is_on(&self) -> bool;

    /// Whether an access to an address that is not a multiple of its size faults.
    fn checks_alignment(&self) -> bool;

    /// Whether a load or store of a word or half-word takes any address that is not checked, and
    /// one of several words faults unless its address is a multiple of four. Otherwise low bits of
    /// an address are ignored, and a loaded word is rotated.
    fn reads_unaligned(&self) -> bool {
        false
    }

    /// The address space that TLB entries are tagged with.
    fn asid(&self) -> u16 {
        0
    }

    /// The type of all memory while addresses are not translated.
    fn untranslated_type(&self, side: Side) -> MemoryType;

    /// A page's type as the control registers leave it for a side.
    fn effective_type(&self, page: MemoryType, side: Side) -> MemoryType;

    /// The permission of an address of a page, as a number that the debugger shows.
    fn permission(&self, page: &Translation, address: u32) -> u8;

    /// All of the state that a translation and its permissions depend on, other than privilege and
    /// the tables: also what tells address spaces apart.
    fn permission_state(&self) -> u64;

    /// Whether table walks for an address go through the data cache, on cores whose data caches are
    /// kept coherent.
    fn walks_through_data_cache(&self, _address: u32) -> bool {
        false
    }

    /// Walks the tables for an address; `read` gives a word of physical memory.
    fn walk(&self, address: u32, read: impl FnMut(u32) -> u32) -> Walk;

    /// Base-two logarithm of the bytes that a descriptor of a level of the tables stands for, the
    /// first level being 0. `None` where the architecture has no rules for changes of tables on
    /// several cores.
    fn level_shift(&self, _level: usize) -> Option<u32> {
        None
    }

    /// What a descriptor of a level is.
    fn descriptor(&self, _level: usize, _value: u32) -> Descriptor {
        Descriptor::Invalid
    }

    /// The fault status if an access is refused.
    fn refusal(
        &self,
        page: &Translation,
        address: u32,
        write: bool,
        privileged: bool,
    ) -> Option<u32>;

    /// The fault status if a fetch is refused.
    fn fetch_refusal(&self, page: &Translation, address: u32, privileged: bool) -> Option<u32> {
        self.refusal(page, address, false, privileged)
    }

    /// Whether all of the 4 KB around an address have one permission.
    fn is_uniform(&self, page: &Translation) -> bool;

    /// The space that the registers choose.
    fn space(&self) -> Space;

    /// What reports call the maintenance operations.
    fn maintenance(&self) -> &MaintenanceNames;
}

/// What a line has of an instruction.
#[derive(Clone, Copy, Debug)]
pub enum Following {
    /// An instruction of one word.
    Word(u32),
    /// A half-word of narrow code, and the next one if it is in the line.
    Halves(u16, Option<u16>),
}

/// Turns the words of instruction lines into what the core executes.
pub trait Decode {
    /// A decoded instruction.
    type Op: Copy;
    /// What an instruction delivers too late for the next one.
    type Late: Copy + Value;

    /// Stands for an instruction that was not decoded yet; executing it calls
    /// [`InstructionSide::decode`](crate::fetch::InstructionSide::decode) with `index`.
    fn undecoded(index: u32) -> Self::Op;

    /// Whether this is a decoded instruction, and not what stands for one.
    fn is_decoded(op: &Self::Op) -> bool;

    /// Decodes a word; `following` is the next one, where it is known.
    fn word(&mut self, word: u32, following: Option<u32>) -> Self::Op;

    /// Decodes the instruction that begins with a half-word of a narrow line; `following` are the
    /// next ones, as far as they are in the line.
    fn half(&mut self, half: u16, following: [Option<u16>; 3]) -> Self::Op;

    /// The stall of an instruction for what the one before delivers late; none if it ends in the
    /// next line, so that what it reads is not known.
    fn stall(&mut self, late: Self::Late, next: Following) -> Option<u8>;

    /// What an instruction delivers late, if the next one was not known when it was decoded.
    fn late(op: &Self::Op) -> Option<Self::Late>;

    /// Whether one instruction of four bytes may replace another while cores execute it: those that
    /// are not synchronised execute either.
    fn may_replace(_old: u32, _new: u32) -> bool {
        false
    }

    /// What an instruction is that this core does not have but another of the set does.
    fn lacking(&self, word: u32, narrow: bool) -> Option<String>;
}

/// What the run loop does after an instruction; the most frequent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Flow {
    /// The next instruction follows.
    Next,
    /// The same; the condition failed, so that this one delivers nothing.
    Skipped,
    /// `CoreMemory::pc` says where execution continues.
    Jump,
    /// The slot has been decoded: dispatch it again.
    Decoded,
    /// The next instruction follows, but look for interrupts and changed caches first.
    Synchronise,
}

/// The interrupt inputs of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptLines {
    /// The ordinary interrupt.
    pub irq: bool,
    /// The fast interrupt, of instruction sets that have one.
    pub fiq: bool,
}

mmulab_state::value!(InterruptLines { irq, fiq });

/// An exception that was taken: its name and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The exception.
    pub exception: &'static str,
    /// The address of its handler.
    pub vector: u32,
    /// The instruction that caused it.
    pub cause: u32,
    /// What the link register received.
    pub link: u32,
    /// For an undefined instruction: whether it is narrow.
    pub undefined: Option<bool>,
}

mmulab_state::value!(Taken { exception, vector, cause, link, undefined });

/// What a core asks of the run loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// It waits for an interrupt.
    pub waiting: bool,
    /// It waits for an event or an interrupt.
    pub waiting_for_event: bool,
    /// The run has to stop.
    pub stop: Option<crate::system::Stop>,
    /// An exception was taken that needs a handler: the loop looks whether there is one.
    pub entered_vector: Option<Taken>,
}

mmulab_state::value!(Requests { waiting, waiting_for_event, stop, entered_vector });

impl Requests {
    /// Whether it waits for anything.
    pub fn is_waiting(&self) -> bool {
        self.waiting || self.waiting_for_event
    }
}

/// A core of some instruction set.
pub trait Core: State + Sized + 'static {
    /// A line of the data cache: `[u32; WORDS]`.
    type DataLine: Line;
    /// A line of the instruction cache.
    type FetchLine: Line;
    /// Which address chooses the set of the data cache.
    const DATA_INDEX: CacheAddress;
    /// Which address the tags of the data cache hold.
    const DATA_TAG: CacheAddress;
    /// Which address chooses the set of the instruction cache.
    const FETCH_INDEX: CacheAddress;
    /// Which address the tags of the instruction cache hold.
    const FETCH_TAG: CacheAddress;
    /// Whether the data caches of all cores are kept coherent ([`crate::coherence`]). They are
    /// indexed and tagged with physical addresses then, and fetch the line of a store that misses;
    /// a page that caches hold is written back.
    const COHERENT: bool = false;
    /// Whether a load that misses lets execution go on ([`crate::line_fills`]), on a machine that
    /// has places for such fills.
    const OVERLAPS_MISSES: bool = false;
    /// Whether there are instructions of two bytes.
    const HAS_NARROW: bool;
    /// The names of the exceptions, by the number that the core notes.
    const EXCEPTIONS: &'static [&'static str];
    /// gdb's description of the registers.
    const TARGET_DESCRIPTION: &'static str;

    /// Registers and format of translation.
    type Mmu: Mmu;
    /// The decoder.
    type Decoder: Decode<Op = Self::Op>;
    /// A decoded instruction.
    type Op: Copy;
    /// What a core is made from, beside the platform.
    type Description;

    /// Core `number` out of reset.
    ///
    /// # Errors
    /// The shape of a cache or TLB is impossible.
    fn new(
        description: &Self::Description,
        platform: &Platform,
        number: usize,
    ) -> Result<Self, mmulab_hardware::GeometryError>;

    /// What answers on the bus before the devices do, if the core's chip has something there.
    fn zero_bank(_: &Self::Description) -> Option<std::ops::Range<u32>> {
        None
    }

    /// Its memory side.
    fn memory(&self) -> &CoreMemory<Self>;
    /// Its memory side.
    fn memory_mut(&mut self) -> &mut CoreMemory<Self>;
    /// What it asks of the run loop.
    fn requests(&mut self) -> &mut Requests;

    /// Starts at `entry`, as a boot loader does, with the address of a device tree.
    fn start(&mut self, entry: u32, device_tree: Option<u32>);

    /// Starts at `entry` with an argument, when it is turned on after others have started.
    fn turned_on(&mut self, entry: u32, argument: u32);

    /// Whether instructions are two bytes long at the moment.
    fn is_narrow(&self) -> bool;

    /// Bytes of a decoded instruction that came from narrow code.
    #[inline(always)]
    fn narrow_length(_: &Self::Op) -> u32 {
        2
    }

    /// The registers that a decoded instruction reads, a bit each, of cores that overlap misses.
    #[inline(always)]
    fn sources(_: &Self::Op) -> u16 {
        crate::line_fills::ALL_REGISTERS
    }

    /// Executes one decoded instruction at `memory().pc`, and charges what it costs. It leaves the
    /// PC unless it jumps.
    fn execute<const NARROW: bool>(&mut self, bus: &mut Bus<Self>, op: &Self::Op) -> Flow;

    /// The MMU refused the fetch at the PC.
    fn abort_fetch(&mut self, fault: Fault);

    /// Takes an interrupt, if one is there and not masked.
    fn interrupt(&mut self, lines: InterruptLines);

    /// The name of a processor mode.
    fn mode_name(mode: u32) -> &'static str;

    /// The register values as gdb has them in its order; `program_counter` among them.
    fn debug_registers(&self) -> Vec<u32>;
    /// The place of the program counter in that order.
    const DEBUG_PROGRAM_COUNTER: usize;
    /// Sets what of them can be set.
    fn set_debug_registers(&mut self, values: &[u32]);
    /// The place in that order of the register that gdb knows by a number.
    fn debug_register(number: usize) -> Option<usize>;
    /// Sets the one at a place, and no other; whether it can be set.
    fn set_debug_register(&mut self, place: usize, value: u32) -> bool;

    /// Things worth knowing about the guest, each with the address of an instruction, and perhaps
    /// one without.
    fn notes(&self) -> (Vec<(String, u32)>, Option<String>);
}
