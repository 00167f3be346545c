//! VFP and Advanced SIMD: whether they may be used, moves between their registers and those of the
//! core, loads and stores (ARM DDI 0406C, A7.6 to A7.9, B1.11). What they compute is in
//! [`crate::vector`].

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};
use crate::isa::op::{PackedOperands, modifier};
use crate::vector::{Operation, Vector, VectorRegisters, two};
use mmulab_system::core::{Fault, Flow};

/// CPACR: the access that coprocessors 10 and 11 permit.
const ACCESS_SHIFT: u32 = 20;
/// FPEXC: on.
const ENABLED: u32 = 1 << 30;
/// FPSCR: the condition flags.
const FLAGS: u32 = 0xf000_0000;

impl<K: CacheKind> Cpu<K> {
    /// Whether CPACR permits the registers of the system at all (B4.1.40).
    fn permits_vectors(&self) -> bool {
        match self.memory.mmu.registers.coprocessor_access >> ACCESS_SHIFT & 3 {
            3 => true,
            1 => self.privileged(),
            _ => false,
        }
    }

    /// The registers, if they may be used.
    fn vectors(&mut self) -> Option<&mut VectorRegisters> {
        (self.permits_vectors() && self.vector.enabled).then_some(&mut self.vector)
    }
}

/// Data processing.
#[inline(always)]
pub fn data<K: CacheKind>(cpu: &mut Cpu<K>, op: PackedOperands, operation: Operation) -> Flow {
    match cpu.vectors() {
        Some(registers) => {
            operation(registers, Vector::unpack(op.immediate));
            Flow::Next
        }
        None => cpu.undefined(),
    }
}

/// VMOV from a register of the core to an element.
pub fn element_from_core<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let value = u64::from(cpu.register(op.rd()));
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    let o = Vector::unpack(op.immediate);
    let bits = 8u32 << o.size;
    let (mask, shift) = (!0u64 >> (64 - bits), u32::from(o.amount) * bits);
    let d = &mut registers.d[usize::from(o.d)];
    *d = *d & !(mask << shift) | (value & mask) << shift;
    Flow::Next
}

/// VMOV from an element to a register of the core.
pub fn element_to_core<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    let o = Vector::unpack(op.immediate);
    let bits = 8u32 << o.size;
    let element = (registers.d[usize::from(o.d)] >> (u32::from(o.amount) * bits)) as u32;
    let unused = 32 - bits;
    let value = if o.unsigned {
        element << unused >> unused
    } else {
        ((element << unused) as i32 >> unused) as u32
    };
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// VDUP from a register of the core.
pub fn fill_from_core<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let value = cpu.register(op.rd());
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    two::fill(registers, Vector::unpack(op.immediate), value.into());
    Flow::Next
}

/// VMOV from a register of the core to a single one.
pub fn single_from_core<K: CacheKind>(
    cpu: &mut Cpu<K>,
    _: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    let value = cpu.register(op.rd());
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    registers.set_single(Vector::unpack(op.immediate).d, value);
    Flow::Next
}

/// And back.
pub fn single_to_core<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    let value = registers.single(Vector::unpack(op.immediate).d);
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// VMOV from two registers of the core to a double one or two single ones.
pub fn pair_from_core<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let (low, high) = (cpu.register(op.rd()), cpu.register(op.rn()));
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    let o = Vector::unpack(op.immediate);
    if o.size == 3 {
        registers.d[usize::from(o.d)] = u64::from(high) << 32 | u64::from(low);
    } else {
        registers.set_single(o.d, low);
        // Two from S31 on are unpredictable.
        registers.set_single((o.d + 1) & 31, high);
    }
    Flow::Next
}

/// And back.
pub fn pair_to_core<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let Some(registers) = cpu.vectors() else { return cpu.undefined() };
    let o = Vector::unpack(op.immediate);
    let (low, high) = if o.size == 3 {
        let value = registers.d[usize::from(o.d)];
        (value as u32, (value >> 32) as u32)
    } else {
        (registers.single(o.d), registers.single((o.d + 1) & 31))
    };
    cpu.set_register(op.rd(), low);
    cpu.set_register(op.rn(), high);
    Flow::Next
}

/// VMRS: FPSCR from any mode; what else there is from privileged ones, also while VFP is off
/// (B1.11.3).
pub fn status_read<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    if op.rn() == 1 {
        let Some(registers) = cpu.vectors() else { return cpu.undefined() };
        let fpscr = registers.fpscr;
        if op.rd() == 15 {
            cpu.flags = (fpscr & FLAGS) >> 28;
        } else {
            cpu.set_register(op.rd(), fpscr);
        }
        return Flow::Next;
    }
    if !cpu.privileged() || !cpu.permits_vectors() {
        return cpu.undefined();
    }
    let value = match op.rn() {
        0 => cpu.cp15.fixed("fpsid"),
        6 => cpu.cp15.fixed("mvfr1"),
        7 => cpu.cp15.fixed("mvfr0"),
        8 if cpu.vector.enabled => ENABLED,
        8 => 0,
        _ => return cpu.undefined(),
    };
    cpu.set_register(op.rd(), value);
    Flow::Next
}

/// VMSR.
pub fn status_write<K: CacheKind>(cpu: &mut Cpu<K>, _: &mut Bus<K>, op: PackedOperands) -> Flow {
    let value = cpu.register(op.rd());
    if op.rn() == 1 {
        let Some(registers) = cpu.vectors() else { return cpu.undefined() };
        registers.set_fpscr(value);
        return Flow::Next;
    }
    if !cpu.privileged() || !cpu.permits_vectors() {
        return cpu.undefined();
    }
    match op.rn() {
        // A write to FPSID is ignored.
        0 => {}
        8 => cpu.vector.enabled = value & ENABLED != 0,
        _ => return cpu.undefined(),
    }
    Flow::Next
}

// ---- Loads and stores of registers ----------------------------------------------------------------------

/// First address, moved base, words, first register.
fn words<K: CacheKind>(cpu: &Cpu<K>, op: PackedOperands) -> (u32, u32, u32, u8) {
    let offset = (op.immediate as i32 >> 16) * 4;
    let count = op.immediate >> 8 & 0xff;
    let base = if op.rn() == 15 { cpu.registers[15] & !3 } else { cpu.register(op.rn()) };
    let first = base.wrapping_add(offset as u32);
    let moved = if op.is(modifier::UP) { base.wrapping_add(4 * count) } else { first };
    (first, moved, count, op.immediate as u8)
}

/// What is moved: address, words, first register.
type Registers = (u32, u32, u8);
type Move<K> = fn(&mut Cpu<K>, &mut Bus<K>, Registers) -> Result<(), Fault>;

fn transfer_registers<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
    move_registers: Move<K>,
) -> Flow {
    if cpu.vectors().is_none() {
        return cpu.undefined();
    }
    let (address, moved, count, first) = words(cpu, op);
    if let Err(fault) = move_registers(cpu, bus, (address, count, first)) {
        return cpu.data_abort(fault);
    }
    if op.is(modifier::WRITE_BACK) {
        cpu.set_register(op.rn(), moved);
    }
    Flow::Next
}

fn load_registers<K: CacheKind, const DOUBLE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    (mut address, count, first): Registers,
) -> Result<(), Fault> {
    cpu.memory.check_strict_alignment(address, 4)?;
    for number in 0..if DOUBLE { count / 2 } else { count } as u8 {
        let low = cpu.memory.load_word(bus, address)?;
        address = address.wrapping_add(4);
        if DOUBLE {
            let high = cpu.memory.load_word(bus, address)?;
            address = address.wrapping_add(4);
            let value = u64::from(high) << 32 | u64::from(low);
            cpu.vector.d[usize::from(first + number)] = value;
        } else {
            cpu.vector.set_single(first + number, low);
        }
    }
    Ok(())
}

/// VLDR and VLDM.
pub fn load<K: CacheKind, const DOUBLE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    transfer_registers(cpu, bus, op, load_registers::<K, DOUBLE>)
}

fn store_registers<K: CacheKind, const DOUBLE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    (mut address, count, first): Registers,
) -> Result<(), Fault> {
    cpu.memory.check_strict_alignment(address, 4).map_err(Fault::of_store)?;
    for number in 0..if DOUBLE { count / 2 } else { count } as u8 {
        if DOUBLE {
            let value = cpu.vector.d[usize::from(first + number)];
            cpu.memory.store_word(bus, address, value as u32)?;
            cpu.memory.store_word(bus, address.wrapping_add(4), (value >> 32) as u32)?;
            address = address.wrapping_add(8);
        } else {
            let value = cpu.vector.single(first + number);
            cpu.memory.store_word(bus, address, value)?;
            address = address.wrapping_add(4);
        }
    }
    Ok(())
}

/// VSTR and VSTM.
pub fn store<K: CacheKind, const DOUBLE: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    transfer_registers(cpu, bus, op, store_registers::<K, DOUBLE>)
}

// ---- Loads and stores of elements and structures -------------------------------------------------------

/// What VLD1 to VLD4 and VST1 to VST4 transfer.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// First register.
    pub d: u8,
    /// Elements of a structure, each in a register of its own.
    pub elements: u8,
    /// How far apart those registers are.
    pub spacing: u8,
    /// How many registers follow one another for each of the elements.
    pub repeats: u8,
    /// Base-two logarithm of the bytes of an element.
    pub size: u8,
    /// What the address has to be a multiple of; 0 for what its elements ask.
    pub alignment: u8,
    /// Of a single structure, which element.
    pub index: u8,
}

impl List {
    /// In one word.
    pub fn pack(self) -> u32 {
        let fields = [
            (self.d, 0),
            (self.elements, 5),
            (self.spacing, 8),
            (self.repeats, 10),
            (self.size, 13),
            (self.alignment, 15),
            (self.index, 21),
        ];
        fields.iter().fold(0, |word, &(field, low)| word | u32::from(field) << low)
    }

    fn unpack(word: u32) -> List {
        let field = |low: u32, bits: u32| (word >> low & ((1 << bits) - 1)) as u8;
        List {
            d: field(0, 5),
            elements: field(5, 3),
            spacing: field(8, 2),
            repeats: field(10, 3),
            size: field(13, 2),
            alignment: field(15, 6),
            index: field(21, 3),
        }
    }

    fn bytes(self) -> u32 {
        1 << self.size
    }

    fn register(self, repeat: u8, element: u8) -> usize {
        usize::from(self.d + repeat + element * self.spacing)
    }
}

fn load_element<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    address: u32,
    bytes: u32,
) -> Result<u64, Fault> {
    Ok(match bytes {
        1 => cpu.memory.load_byte(bus, address)?.into(),
        2 => cpu.memory.load_half(bus, address)?.into(),
        4 => cpu.memory.load_word(bus, address)?.into(),
        _ => {
            let low = cpu.memory.load_word(bus, address)?;
            let high = cpu.memory.load_word(bus, address.wrapping_add(4))?;
            u64::from(high) << 32 | u64::from(low)
        }
    })
}

fn store_element<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    address: u32,
    bytes: u32,
    value: u64,
) -> Result<(), Fault> {
    match bytes {
        1 => cpu.memory.store_byte(bus, address, value as u32 & 0xff),
        2 => cpu.memory.store_half(bus, address, value as u32 & 0xffff),
        4 => cpu.memory.store_word(bus, address, value as u32),
        _ => {
            cpu.memory.store_word(bus, address, value as u32)?;
            cpu.memory.store_word(bus, address.wrapping_add(4), (value >> 32) as u32)
        }
    }
}

/// Which elements of the registers a transfer is of.
#[derive(Clone, Copy, PartialEq)]
enum Lanes {
    /// All, each with its own structure.
    Each,
    /// One.
    One,
    /// All, with one structure.
    Same,
}

fn transfer<K: CacheKind, const LOAD: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
    lanes: Lanes,
) -> Flow {
    if cpu.vectors().is_none() {
        return cpu.undefined();
    }
    let list = List::unpack(op.immediate);
    let base = cpu.register(op.rn());
    let mut address = base;
    let done = elements::<K, LOAD>(cpu, bus, list, lanes, &mut address);
    if let Err(fault) = done {
        return cpu.data_abort(if LOAD { fault } else { fault.of_store() });
    }
    match op.rm() {
        15 => {}
        13 => cpu.set_register(op.rn(), address),
        index => {
            let moved = base.wrapping_add(cpu.register(index));
            cpu.set_register(op.rn(), moved);
        }
    }
    Flow::Next
}

fn elements<K: CacheKind, const LOAD: bool>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    list: List,
    lanes: Lanes,
    address: &mut u32,
) -> Result<(), Fault> {
    let bytes = list.bytes();
    if list.alignment != 0 {
        cpu.memory.check_strict_alignment(*address, list.alignment.into())?;
    }
    if bytes == 8 {
        // Its words would ask for less.
        cpu.memory.check_alignment(*address, 8)?;
    }
    let bits = 8 * bytes;
    let mask = !0u64 >> (64 - bits);
    let (repeats, indexes) = match lanes {
        Lanes::Each => (list.repeats, 0..8 / bytes),
        Lanes::One => (1, list.index.into()..u32::from(list.index) + 1),
        Lanes::Same => (1, 0..1),
    };
    for repeat in 0..repeats {
        for index in indexes.clone() {
            for element in 0..list.elements {
                let register = list.register(repeat, element);
                if LOAD {
                    let value = load_element(cpu, bus, *address, bytes)?;
                    if lanes == Lanes::Same {
                        // Of one element two registers may follow one another.
                        for further in 0..usize::from(list.repeats) {
                            let o = Vector {
                                d: (register + further) as u8,
                                size: list.size,
                                ..Vector::default()
                            };
                            two::fill(&mut cpu.vector, o, value);
                        }
                    } else {
                        let d = &mut cpu.vector.d[register];
                        *d = *d & !(mask << (index * bits)) | value << (index * bits);
                    }
                } else {
                    let value = cpu.vector.d[register] >> (index * bits) & mask;
                    store_element(cpu, bus, *address, bytes, value)?;
                }
                *address = address.wrapping_add(bytes);
            }
        }
    }
    Ok(())
}

/// VLD1 to VLD4 of all elements.
pub fn load_structures<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    transfer::<K, true>(cpu, bus, op, Lanes::Each)
}

/// VST1 to VST4 of all elements.
pub fn store_structures<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    transfer::<K, false>(cpu, bus, op, Lanes::Each)
}

/// VLD1 to VLD4 of one element.
pub fn load_lane<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, op: PackedOperands) -> Flow {
    transfer::<K, true>(cpu, bus, op, Lanes::One)
}

/// VST1 to VST4 of one element.
pub fn store_lane<K: CacheKind>(cpu: &mut Cpu<K>, bus: &mut Bus<K>, op: PackedOperands) -> Flow {
    transfer::<K, false>(cpu, bus, op, Lanes::One)
}

/// VLD1 to VLD4 of one structure to all elements.
pub fn load_all_lanes<K: CacheKind>(
    cpu: &mut Cpu<K>,
    bus: &mut Bus<K>,
    op: PackedOperands,
) -> Flow {
    transfer::<K, true>(cpu, bus, op, Lanes::Same)
}
