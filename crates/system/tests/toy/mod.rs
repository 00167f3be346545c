//! An instruction set for the tests: 16 instructions of 32 bits, 16 registers, and page tables
//! of one level, one for each half of the addresses, with address-space identifiers. Its data cache
//! has lines of 64 bytes, indexed and tagged with physical addresses; its instruction cache has
//! lines of 16 bytes, indexed with virtual and tagged with physical ones. `Toy<true>` keeps its
//! data caches coherent and walks through them. The system crate knows nothing of it.

use mmulab_hardware::GeometryError;
use mmulab_machine::{
    Addressing, BoardKind, BufferShape, Cache, CachesAtReset, CoherenceShape, MemoryShape,
    Platform, Replacement, TlbShape, Ways, WritePolicy,
};
use mmulab_system::bus::Bus;
use mmulab_system::clock::Cost;
use mmulab_system::coherence::Point;
use mmulab_system::core::{
    CacheAddress, Core, Decode, Fault, Flow, Following, InterruptLines, MaintenanceNames,
    MemoryType, Mmu, Requests, Side, Space, SpaceFormat, Translation, Walk,
};
use mmulab_system::maintenance::LineOperation;
use mmulab_system::memory::CoreMemory;
use mmulab_system::{Loaded, Stop};

/// Where programs start.
pub const START: u32 = 0x1000;
/// Where a refused access goes.
pub const VECTOR: u32 = 0x800;

/// Operations: bits 31 to 24; registers a, b, c in bits 23 to 20, 19 to 16, 15 to 12; a constant of
/// 12 bits below, of 16 for [`SET`].
pub const SET: u32 = 1; // a = constant
pub const HIGH: u32 = 2; // a |= constant << 16
pub const ADD: u32 = 3; // a = b + c + constant
pub const LOAD: u32 = 4; // a = word at b + constant
pub const STORE: u32 = 5; // word at b + constant = a
pub const BRANCH_NOT_EQUAL: u32 = 6; // if a != b: to constant * 4
pub const CONTROL: u32 = 7; // register c of the MMU = a
pub const OPERATE: u32 = 8; // maintenance operation c on the address in a
pub const NUMBER: u32 = 9; // a = number of the core
pub const EXIT: u32 = 10; // ends with status a
pub const STATUS: u32 = 11; // a = fault status
pub const RETURN: u32 = 12; // to where the exception came from
pub const LOAD_EXCLUSIVE: u32 = 13; // as LOAD
pub const STORE_EXCLUSIVE: u32 = 14; // word at b + constant = a; c = 0 if it was stored, 1 if not
pub const SEND_EVENT: u32 = 15;
pub const WAIT_FOR_EVENT: u32 = 16;

/// Registers of the MMU.
pub const TABLE: u32 = 0;
pub const ASID: u32 = 1;
pub const ON: u32 = 2;
/// Of the upper half of the addresses.
pub const TABLE_HIGH: u32 = 3;

/// Maintenance operations.
pub const CLEAN: u32 = 0;
pub const INVALIDATE: u32 = 1;
pub const INVALIDATE_INSTRUCTIONS: u32 = 2;
pub const INVALIDATE_PAGE: u32 = 3;
pub const INVALIDATE_SPACE: u32 = 4;
pub const DRAIN: u32 = 5;
/// On all cores.
pub const INVALIDATE_PAGE_EVERYWHERE: u32 = 6;
pub const INVALIDATE_INSTRUCTIONS_EVERYWHERE: u32 = 7;
pub const CLEAN_TO_UNIFICATION: u32 = 8;

/// Bits of a descriptor, whose high 20 bits are the page.
pub const VALID: u32 = 1;
pub const WRITABLE: u32 = 2;
pub const CACHED: u32 = 4;
pub const GLOBAL: u32 = 8;

pub fn op(code: u32, a: u32, b: u32, c: u32, constant: u32) -> u32 {
    code << 24 | a << 20 | b << 16 | c << 12 | constant & 0xfff
}

/// Sets a register to any word.
pub fn set(register: u32, value: u32) -> [u32; 2] {
    let low = SET << 24 | register << 20 | value & 0xffff;
    [low, HIGH << 24 | register << 20 | value >> 16]
}

#[derive(Clone)]
pub struct ToyMmu {
    pub registers: [u32; 4],
    walks_through_data_cache: bool,
}

mmulab_state::value!(ToyMmu { registers, walks_through_data_cache });

static SPACE: SpaceFormat = SpaceFormat {
    names: &["table", "asid"],
    describe: |registers| match registers {
        [table, asid] => format!("table {table:#x}, space {asid}"),
        _ => String::new(),
    },
};

static NAMES: MaintenanceNames = MaintenanceNames {
    invalidate_data_translation: "INVALIDATE_PAGE",
    invalidate_fetch_translation: "INVALIDATE_PAGE",
    clean_line: "CLEAN {line}",
    clean_to_memory: "",
    invalidate_line: "INVALIDATE of {line}",
    invalidate_instructions: "INVALIDATE_INSTRUCTIONS of {line}",
    drain: "DRAIN",
    empty_read_buffer: "",
    invalidate_whole: [""; 3],
};

impl Mmu for ToyMmu {
    const PAGE_SHIFTS: &'static [u32] = &[12];
    const ALIGNMENT_FAULT: u32 = 1;

    fn is_on(&self) -> bool {
        self.registers[ON as usize] != 0
    }

    fn checks_alignment(&self) -> bool {
        true
    }

    fn asid(&self) -> u16 {
        self.registers[ASID as usize] as u16
    }

    fn walks_through_data_cache(&self, _address: u32) -> bool {
        self.walks_through_data_cache
    }

    fn untranslated_type(&self, _: Side) -> MemoryType {
        MemoryType::STRONGLY_ORDERED
    }

    fn effective_type(&self, page: MemoryType, _: Side) -> MemoryType {
        page
    }

    fn permission(&self, page: &Translation, _: u32) -> u8 {
        page.permissions
    }

    fn permission_state(&self) -> u64 {
        u64::from(self.registers[ON as usize]) << 32 | u64::from(self.asid())
    }

    fn walk(&self, address: u32, mut read: impl FnMut(u32) -> u32) -> Walk {
        let table = if address >> 31 == 0 { TABLE } else { TABLE_HIGH };
        let at = self.registers[table as usize] + ((address & 0x7fff_ffff) >> 12) * 4;
        let descriptor = read(at);
        let uncached = MemoryType::uncached(false);
        let cached = MemoryType::write_back().allocating(true);
        let translation = Translation {
            physical: descriptor & !0xfff,
            permissions: (descriptor & WRITABLE) as u8,
            domain: 0,
            attributes: (descriptor & CACHED) as u8,
            memory_type: if descriptor & CACHED != 0 { cached } else { uncached },
            page_shift: 12,
            global: descriptor & GLOBAL != 0,
        };
        let result = if descriptor & VALID != 0 { Ok(translation) } else { Err(2) };
        Walk::new(result, &[(at, descriptor)])
    }

    fn refusal(&self, page: &Translation, _: u32, write: bool, _: bool) -> Option<u32> {
        (write && page.permissions == 0).then_some(3)
    }

    fn is_uniform(&self, _: &Translation) -> bool {
        true
    }

    fn space(&self) -> Space {
        Space::new(&SPACE, &self.registers[..2])
    }

    fn maintenance(&self) -> &MaintenanceNames {
        &NAMES
    }
}

#[derive(Clone, Copy)]
pub struct ToyOp {
    code: u32,
    word: u32,
    cost: Cost,
}

/// The code of what is not decoded yet.
const UNDECODED: u32 = 0xff;

pub struct ToyDecoder;

impl Decode for ToyDecoder {
    type Op = ToyOp;
    type Late = ();

    fn undecoded(index: u32) -> ToyOp {
        ToyOp { code: UNDECODED, word: index, cost: Cost::NONE }
    }

    fn is_decoded(op: &ToyOp) -> bool {
        op.code != UNDECODED
    }

    fn word(&mut self, word: u32, _: Option<u32>) -> ToyOp {
        ToyOp { code: word >> 24, word, cost: Cost::issue(1) }
    }

    fn half(&mut self, half: u16, _: [Option<u16>; 3]) -> ToyOp {
        self.word(half.into(), None)
    }

    fn late(_: &ToyOp) -> Option<()> {
        None
    }

    fn stall(&mut self, (): (), _: Following) -> Option<u8> {
        Some(0)
    }

    fn lacking(&self, _: u32, _: bool) -> Option<String> {
        None
    }
}

pub struct Toy<const COHERENT: bool = false> {
    pub registers: [u32; 16],
    memory: CoreMemory<Toy<COHERENT>>,
    requests: Requests,
    fault_status: u32,
    return_to: u32,
}

mmulab_state::state!(
    [const COHERENT: bool] Toy<COHERENT> { registers, memory, requests, fault_status, return_to }
);

impl<const COHERENT: bool> Toy<COHERENT> {
    fn refuse(&mut self, fault: Fault) -> Flow {
        self.fault_status = fault.status;
        self.return_to = self.memory.pc.wrapping_add(4);
        self.memory.note_exception(0);
        self.memory.pc = VECTOR;
        Flow::Jump
    }

    fn control(&mut self, bus: &mut Bus<Self>, register: u32, value: u32) {
        self.memory.mmu.registers[register as usize % 4] = value;
        self.memory.space_changed(bus, true);
        self.memory.renew_pages();
        self.memory.tables_changed(bus);
    }

    pub fn operate(&mut self, bus: &mut Bus<Self>, operation: u32, address: u32) {
        let memory = &mut self.memory;
        match operation {
            CLEAN => memory.operate_on_line(bus, address, LineOperation::Clean),
            INVALIDATE => memory.operate_on_line(bus, address, LineOperation::Invalidate),
            INVALIDATE_INSTRUCTIONS => memory.invalidate_instruction_line(bus, address),
            INVALIDATE_PAGE => memory.invalidate_translation(bus, address, true, true),
            INVALIDATE_SPACE => memory.invalidate_address_space(bus, address as u16),
            INVALIDATE_PAGE_EVERYWHERE => {
                let asid = memory.mmu.asid();
                memory.broadcast(bus, |memory, bus| {
                    memory.invalidate_translation_of(bus, address, Some(asid));
                });
            }
            INVALIDATE_INSTRUCTIONS_EVERYWHERE => {
                let Ok(physical) = memory.physical_of(bus, address) else { return };
                memory.broadcast(bus, |memory, _| {
                    memory.invalidate_instruction_line_of(address, physical);
                });
            }
            CLEAN_TO_UNIFICATION => {
                let (clean, point) = (LineOperation::Clean, Point::Unification);
                let _ = memory.operate_to(bus, address, clean, point);
            }
            _ => memory.drain_write_buffer(bus),
        }
    }
}

impl<const COHERENT: bool> Core for Toy<COHERENT> {
    const COHERENT: bool = COHERENT;
    type DataLine = [u32; 16];
    type FetchLine = [u32; 4];
    const DATA_INDEX: CacheAddress = CacheAddress::Physical;
    const DATA_TAG: CacheAddress = CacheAddress::Physical;
    const FETCH_INDEX: CacheAddress = CacheAddress::Virtual;
    const FETCH_TAG: CacheAddress = CacheAddress::Physical;
    const HAS_NARROW: bool = false;
    const EXCEPTIONS: &'static [&'static str] = &["fault"];
    const TARGET_DESCRIPTION: &'static str = "<target/>";
    const DEBUG_PROGRAM_COUNTER: usize = 16;

    type Mmu = ToyMmu;
    type Decoder = ToyDecoder;
    type Op = ToyOp;
    type Description = ();

    fn new((): &(), platform: &Platform, number: usize) -> Result<Self, GeometryError> {
        let mmu = ToyMmu { registers: [0; 4], walks_through_data_cache: COHERENT };
        Ok(Toy {
            registers: [0; 16],
            memory: CoreMemory::new(platform, number, mmu, ToyDecoder, 0)?,
            requests: Requests::default(),
            fault_status: 0,
            return_to: 0,
        })
    }

    fn memory(&self) -> &CoreMemory<Self> {
        &self.memory
    }

    fn memory_mut(&mut self) -> &mut CoreMemory<Self> {
        &mut self.memory
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }

    fn start(&mut self, entry: u32, _: Option<u32>) {
        self.memory.pc = entry;
    }

    fn turned_on(&mut self, entry: u32, argument: u32) {
        self.registers[0] = argument;
        self.memory.pc = entry;
    }

    fn is_narrow(&self) -> bool {
        false
    }

    fn execute<const NARROW: bool>(&mut self, bus: &mut Bus<Self>, op: &ToyOp) -> Flow {
        self.memory.clock.issue(op.cost);
        let word = op.word;
        let [a, b, c] = [20, 16, 12].map(|shift| (word >> shift & 15) as usize);
        let constant = word & 0xfff;
        let address = self.registers[b].wrapping_add(constant);
        match op.code {
            UNDECODED => {
                self.memory.fetch.decode(word);
                return Flow::Decoded;
            }
            SET => self.registers[a] = word & 0xffff,
            HIGH => self.registers[a] |= word << 16,
            ADD => self.registers[a] = address.wrapping_add(self.registers[c]),
            LOAD => match self.memory.load_word(bus, address) {
                Ok(value) => self.registers[a] = value,
                Err(fault) => return self.refuse(fault),
            },
            STORE => {
                if let Err(fault) = self.memory.store_word(bus, address, self.registers[a]) {
                    return self.refuse(fault);
                }
            }
            BRANCH_NOT_EQUAL if self.registers[a] != self.registers[b] => {
                self.memory.pc = constant * 4;
                return Flow::Jump;
            }
            BRANCH_NOT_EQUAL => {}
            CONTROL => {
                self.control(bus, c as u32, self.registers[a]);
                return Flow::Synchronise;
            }
            OPERATE => {
                self.operate(bus, c as u32, self.registers[a]);
                return Flow::Synchronise;
            }
            NUMBER => self.registers[a] = self.memory.number as u32,
            EXIT => {
                self.requests.stop = Some(Stop::Exit(self.registers[a] as u8));
                self.memory.request_exit();
            }
            LOAD_EXCLUSIVE => match self.memory.load_exclusive(bus, address, 4) {
                Ok(value) => self.registers[a] = value,
                Err(fault) => return self.refuse(fault),
            },
            STORE_EXCLUSIVE => {
                match self.memory.store_exclusive(bus, address, 4, self.registers[a]) {
                    Ok(stored) => self.registers[c] = u32::from(!stored),
                    Err(fault) => return self.refuse(fault),
                }
            }
            SEND_EVENT => self.memory.send_event(bus),
            WAIT_FOR_EVENT => {
                if !self.memory.take_event() {
                    self.requests.waiting_for_event = true;
                    self.memory.request_exit();
                }
            }
            STATUS => self.registers[a] = self.fault_status,
            RETURN => {
                self.memory.pc = self.return_to;
                return Flow::Jump;
            }
            _ => return self.refuse(Fault::new(self.memory.pc, 4)),
        }
        Flow::Next
    }

    fn abort_fetch(&mut self, fault: Fault) {
        self.refuse(fault);
    }

    fn interrupt(&mut self, _: InterruptLines) {}

    fn mode_name(_: u32) -> &'static str {
        "only"
    }

    fn debug_registers(&self) -> Vec<u32> {
        let mut all = self.registers.to_vec();
        all.push(self.memory.pc);
        all
    }

    fn set_debug_registers(&mut self, values: &[u32]) {
        self.registers.copy_from_slice(&values[..16]);
        self.memory.pc = values[16];
    }

    fn debug_register(number: usize) -> Option<usize> {
        (number <= 16).then_some(number)
    }

    fn set_debug_register(&mut self, place: usize, value: u32) -> bool {
        match self.registers.get_mut(place) {
            Some(register) => *register = value,
            None => self.memory.pc = value,
        }
        true
    }

    fn notes(&self) -> (Vec<(String, u32)>, Option<String>) {
        (Vec::new(), None)
    }
}

fn cache(size_bytes: u64, line_bytes: u32) -> Cache {
    Cache {
        split: None,
        size_bytes,
        line_bytes,
        ways: Ways::Count(2),
        replacement: Replacement::Lru,
        write_policy: WritePolicy::WriteBack,
        write_allocate: true,
        addressing: Addressing::Physical,
        latency_cycles: 0,
    }
}

/// A machine of toys; core 0 first, then every core in turns of `interleave_cycles`.
pub fn platform(cores: u32, interleave_cycles: u32) -> Platform {
    Platform {
        name: "toy".into(),
        cores,
        interleave_cycles,
        caches_at_reset: CachesAtReset::Invalid,
        clock_hz: 100_000_000,
        icache: cache(1024, 16),
        dcache: cache(4096, 64),
        mini_dcache: None,
        level_2: None,
        coherence: None,
        board: BoardKind::Versatilepb {},
        itlb: TlbShape {
            entries: 16,
            ways: Ways::Full,
            replacement: Replacement::Lru,
            lockdown_entries: 0,
        },
        dtlb: None,
        micro_tlb: None,
        walk_cache: None,
        prefetcher: None,
        buffers: BufferShape {
            write_entries: 4,
            write_words: 16,
            write_entry_words: 4,
            write_coalesces: false,
            write_back_entries: 1,
            read_entries: 0,
            outstanding_misses: 0,
            store_lines: 0,
        },
        memory: MemoryShape {
            size_bytes: 1 << 20,
            line_fill_cycles: 20,
            walk_read_cycles: 10,
            word_read_cycles: 10,
            write_first_cycles: 10,
            write_next_cycles: 2,
            zero_bank_fill_cycles: 0,
        },
        line_operation_cycles: 1,
        whole_operation_cycles: 1,
        line_allocation_translates: true,
    }
}

/// The same with coherent data caches and a second level, which is small so that lines leave it.
pub fn coherent_platform(cores: u32, interleave_cycles: u32) -> Platform {
    let coherence = CoherenceShape {
        transfer_cycles: 8,
        upgrade_cycles: 5,
        walk_hit_cycles: 1,
        walks_pass_first_level: false,
    };
    Platform {
        dcache: cache(1024, 64),
        level_2: Some(Cache { latency_cycles: 6, ..cache(4096, 64) }),
        coherence: Some(coherence),
        ..platform(cores, interleave_cycles)
    }
}

/// A program, with other words of memory.
pub fn image(words: &[u32], others: &[(u32, u32)]) -> Loaded {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut segments = vec![(START, bytes(words))];
    segments.extend(others.iter().map(|&(at, word)| (at, bytes(&[word]))));
    Loaded { segments, entry: START, ..Loaded::default() }
}
