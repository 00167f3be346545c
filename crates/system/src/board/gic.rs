//! Generic Interrupt Controller, version 2, without the Security Extensions (ARM IHI 0048B): the
//! distributor, and an interface for each core. Priorities have 8 bits and lines are numbered as on
//! QEMU's `virt`: 16 software-generated interrupts and 16 private ones of each core, and 256 that
//! all share.

use crate::core::InterruptLines;

/// The most cores that a GIC has.
pub const MAX_CORES: usize = 8;
const LINES: usize = 288;
const WORDS: usize = LINES / 32;
/// Interrupts that each core has of its own: software-generated ones, then private ones of devices.
const PRIVATE: usize = 32;
const SOFTWARE: u32 = 0xffff;
/// No interrupt is pending, or none that this register may tell (3.2.3).
const NONE: u32 = 1023;
/// One is, but it is of group 1 and asked for as of group 0 (4.4.4).
const OTHER_GROUP: u32 = 1022;
/// Lower than any priority: no interrupt is active.
const IDLE_PRIORITY: u32 = 0x100;

/// GICC_CTLR (4.4.1).
mod control {
    pub const GROUP_0: u32 = 1;
    pub const GROUP_1: u32 = 1 << 1;
    /// Group 1 is acknowledged like group 0.
    pub const ACKNOWLEDGE_ALL: u32 = 1 << 2;
    /// Group 0 is signalled as FIQ.
    pub const FIQ: u32 = 1 << 3;
    /// One binary point for both groups.
    pub const COMMON_BINARY_POINT: u32 = 1 << 4;
    /// The end of an interrupt drops its priority only.
    pub const SPLIT_END: u32 = 1 << 9;
    pub const WRITABLE: u32 = 0x21f;
}

/// A bit for each interrupt; the first word is each core's own.
#[derive(Clone, Copy, Default)]
struct Bits {
    private: [u32; MAX_CORES],
    shared: [u32; WORDS],
}

mmulab_state::value!(Bits { private, shared });

impl Bits {
    fn word(&self, core: usize, word: usize) -> u32 {
        if word == 0 { self.private[core] } else { self.shared[word] }
    }

    fn word_mut(&mut self, core: usize, word: usize) -> &mut u32 {
        if word == 0 { &mut self.private[core] } else { &mut self.shared[word] }
    }

    fn is_set(&self, core: usize, id: u32) -> bool {
        self.word(core, id as usize / 32) >> (id % 32) & 1 != 0
    }

    fn set(&mut self, core: usize, id: u32, value: bool) {
        let word = self.word_mut(core, id as usize / 32);
        *word = *word & !(1 << (id % 32)) | u32::from(value) << (id % 32);
    }
}

/// The interface of one core (4.4).
#[derive(Clone, Copy)]
struct Interface {
    control: u32,
    priority_mask: u32,
    binary_point: u32,
    binary_point_1: u32,
    /// The group priorities that are active, a bit each, of group 0 and of group 1.
    active: [[u32; 4]; 2],
}

mmulab_state::value!(Interface { control, priority_mask, binary_point, binary_point_1, active });

impl Interface {
    /// The highest active priority.
    fn running_priority(&self) -> u32 {
        (0..4)
            .find_map(|word| {
                let active = self.active[0][word] | self.active[1][word];
                (active != 0).then(|| (word as u32 * 32 + active.trailing_zeros()) << 1)
            })
            .unwrap_or(IDLE_PRIORITY)
    }
}

/// The controller.
pub struct Gic {
    cores: usize,
    control: u32,
    /// Interrupts of group 1.
    group_1: Bits,
    enabled: Bits,
    /// Made pending by software, or by an edge; of software-generated ones, that there is a source.
    latched: Bits,
    active: Bits,
    level: Bits,
    edge: Bits,
    private_priorities: [[u8; PRIVATE]; MAX_CORES],
    priorities: [u8; LINES],
    /// The cores that an interrupt goes to, as a mask.
    targets: [u8; LINES],
    /// Who sent each software-generated interrupt to a core, as a mask.
    sources: [[u8; 16]; MAX_CORES],
    interfaces: [Interface; MAX_CORES],
    outputs: [InterruptLines; MAX_CORES],
    /// Something changed since `outputs` was right.
    changed: bool,
}

mmulab_state::state!(Gic {
    control,
    group_1,
    enabled,
    latched,
    active,
    level,
    edge,
    private_priorities,
    priorities,
    targets,
    sources,
    interfaces,
    outputs,
    changed,
} built { cores });

impl Gic {
    /// The controller after reset.
    pub fn new(cores: usize) -> Gic {
        let interface = Interface {
            control: 0,
            priority_mask: 0,
            binary_point: 0,
            binary_point_1: 1,
            active: [[0; 4]; 2],
        };
        let of_software = Bits { private: [SOFTWARE; MAX_CORES], shared: [0; WORDS] };
        Gic {
            cores,
            control: 0,
            group_1: Bits::default(),
            enabled: of_software,
            latched: Bits::default(),
            active: Bits::default(),
            level: Bits::default(),
            edge: of_software,
            private_priorities: [[0; PRIVATE]; MAX_CORES],
            priorities: [0; LINES],
            // All interrupts of a single core go to it (4.3.12).
            targets: [u8::from(cores == 1); LINES],
            sources: [[0; 16]; MAX_CORES],
            interfaces: [interface; MAX_CORES],
            outputs: [InterruptLines::default(); MAX_CORES],
            changed: true,
        }
    }

    fn all_cores(&self) -> u8 {
        (0xff_u16 >> (MAX_CORES - self.cores)) as u8
    }

    /// Sets the level of an input; private ones are of the given core.
    pub fn set_line(&mut self, core: usize, id: u32, level: bool) {
        let before = self.level.is_set(core, id);
        if before == level {
            return;
        }
        self.level.set(core, id, level);
        if level && self.edge.is_set(core, id) {
            self.latched.set(core, id, true);
        }
        self.changed = true;
    }

    /// The outputs to a core.
    pub fn outputs(&mut self, core: usize) -> InterruptLines {
        if self.changed {
            self.changed = false;
            for core in 0..self.cores {
                self.outputs[core] = self.output(core);
            }
        }
        self.outputs[core]
    }

    /// Pending: latched, or the level of an input that is not edge-triggered (4.3.7).
    fn pending(&self, core: usize, word: usize) -> u32 {
        let level = self.level.word(core, word) & !self.edge.word(core, word);
        self.latched.word(core, word) | level
    }

    fn priority(&self, core: usize, id: u32) -> u32 {
        let id = id as usize;
        u32::from(if id < PRIVATE {
            self.private_priorities[core][id]
        } else {
            self.priorities[id]
        })
    }

    fn group(&self, core: usize, id: u32) -> usize {
        usize::from(self.group_1.is_set(core, id))
    }

    /// The bits of a priority that decide about preemption (3.3.3).
    fn group_priority(&self, core: usize, id: u32) -> u32 {
        let interface = &self.interfaces[core];
        let common = interface.control & control::COMMON_BINARY_POINT != 0;
        let point = match self.group(core, id) {
            1 if !common => interface.binary_point_1 - 1,
            _ => interface.binary_point,
        };
        self.priority(core, id) & !0 << (point + 1)
    }

    /// The pending interrupt of highest priority that the priority mask lets through, of those
    /// groups that the distributor forwards and the interface signals (4.3.1, 4.4.1). Of equal ones
    /// the lowest.
    fn highest(&self, core: usize) -> Option<u32> {
        let interface = &self.interfaces[core];
        let groups = self.control & interface.control;
        if groups & 3 == 0 {
            return None;
        }
        let mut best = None;
        let mut limit = interface.priority_mask;
        for word in 0..WORDS {
            let group_1 = self.group_1.word(core, word);
            let of_groups = if groups & control::GROUP_0 != 0 { !group_1 } else { 0 }
                | if groups & control::GROUP_1 != 0 { group_1 } else { 0 };
            let mut candidates = self.pending(core, word)
                & self.enabled.word(core, word)
                & !self.active.word(core, word)
                & of_groups;
            while candidates != 0 {
                let id = word as u32 * 32 + candidates.trailing_zeros();
                candidates &= candidates - 1;
                let here = word == 0 || self.targets[id as usize] >> core & 1 != 0;
                let priority = self.priority(core, id);
                if here && priority < limit {
                    limit = priority;
                    best = Some(id);
                }
            }
        }
        best
    }

    fn preempts(&self, core: usize, id: u32) -> bool {
        self.group_priority(core, id) < self.interfaces[core].running_priority()
    }

    fn output(&self, core: usize) -> InterruptLines {
        match self.highest(core) {
            Some(id) if self.preempts(core, id) => {
                let fiq =
                    self.group(core, id) == 0 && self.interfaces[core].control & control::FIQ != 0;
                InterruptLines { irq: !fiq, fiq }
            }
            _ => InterruptLines::default(),
        }
    }

    // ---- The distributor -----------------------------------------------------------------------

    /// A register of the distributor.
    pub fn read_distributor(&self, core: usize, offset: u32) -> u32 {
        let word = (offset & 0x7f) as usize / 4;
        let in_range = word < WORDS;
        match offset {
            0x000 => self.control,
            0x004 => (self.cores as u32 - 1) << 5 | (WORDS as u32 - 1),
            // GICD_IIDR: ARM's (4.3.3), as QEMU's has it.
            0x008 => 0x0000_043b,
            0x080..=0x0fc if in_range => self.group_1.word(core, word),
            0x100..=0x1fc if in_range => self.enabled.word(core, word),
            0x200..=0x2fc if in_range => self.pending(core, word),
            0x300..=0x3fc if in_range => self.active.word(core, word),
            0x400..=0x7fc => self.of_bytes(offset - 0x400, |id| self.priority(core, id) as u8),
            0x800..=0xbfc if self.cores > 1 => self.of_bytes(offset - 0x800, |id| {
                if id < PRIVATE as u32 { 1 << core } else { self.targets[id as usize] }
            }),
            0xc00..=0xcfc => {
                // Two bits each; the lower one reads as zero (4.3.13).
                let first = (offset - 0xc00) * 4;
                (0..16).filter(|&place| ((first + place) as usize) < LINES).fold(
                    0,
                    |word, place| {
                        word | u32::from(self.edge.is_set(core, first + place)) << (2 * place + 1)
                    },
                )
            }
            0xf10..=0xf1c | 0xf20..=0xf2c => {
                self.of_bytes(offset & 0xf, |id| self.sources[core][id as usize])
            }
            // The identification of a version 2 (4.3.18), as QEMU's has it.
            0xfd0..=0xffc => {
                const IDENTITY: [u8; 12] =
                    [0x04, 0, 0, 0, 0x90, 0xb4, 0x2b, 0, 0x0d, 0xf0, 0x05, 0xb1];
                u32::from(IDENTITY[(offset - 0xfd0) as usize / 4])
            }
            _ => 0,
        }
    }

    /// The word of a register of bytes, one an interrupt.
    fn of_bytes(&self, first: u32, byte: impl Fn(u32) -> u8) -> u32 {
        (0..4)
            .filter(|&place| ((first + place) as usize) < LINES)
            .fold(0, |word, place| word | u32::from(byte(first + place)) << (8 * place))
    }

    /// A register of the distributor; `mask` has the bytes that are written.
    pub fn write_distributor(&mut self, core: usize, offset: u32, value: u32, mask: u32) {
        let word = (offset & 0x7f) as usize / 4;
        let in_range = word < WORDS;
        let value = value & mask;
        // Software-generated interrupts are always enabled, and are not made pending here (4.3.5 to
        // 4.3.8).
        let bits = if word == 0 { value & !SOFTWARE } else { value };
        self.changed = true;
        match offset {
            0x000 => self.control = (self.control & !mask | value) & 3,
            0x080..=0x0fc if in_range => {
                let group = self.group_1.word_mut(core, word);
                *group = *group & !mask | value;
            }
            0x100..=0x17c if in_range => *self.enabled.word_mut(core, word) |= bits,
            0x180..=0x1fc if in_range => *self.enabled.word_mut(core, word) &= !bits,
            0x200..=0x27c if in_range => *self.latched.word_mut(core, word) |= bits,
            0x280..=0x2fc if in_range => *self.latched.word_mut(core, word) &= !bits,
            0x300..=0x37c if in_range => *self.active.word_mut(core, word) |= value,
            0x380..=0x3fc if in_range => *self.active.word_mut(core, word) &= !value,
            0x400..=0x7fc => {
                for (id, byte) in written_bytes(offset - 0x400, value, mask) {
                    if id < PRIVATE {
                        self.private_priorities[core][id] = byte;
                    } else {
                        self.priorities[id] = byte;
                    }
                }
            }
            0x800..=0xbfc if self.cores > 1 => {
                let all = self.all_cores();
                for (id, byte) in written_bytes(offset - 0x800, value, mask) {
                    if id >= PRIVATE {
                        self.targets[id] = byte & all;
                    }
                }
            }
            0xc00..=0xcfc => {
                let first = (offset - 0xc00) * 4;
                for place in (0..16).filter(|place| mask >> (2 * place) & 2 != 0) {
                    let id = first + place;
                    if (16..LINES as u32).contains(&id) {
                        self.edge.set(core, id, value >> (2 * place) & 2 != 0);
                    }
                }
            }
            0xf00 => self.generate(core, value),
            0xf10..=0xf1c => {
                for (id, byte) in written_bytes(offset - 0xf10, value, mask) {
                    self.sources[core][id] &= !byte;
                    let any = self.sources[core][id] != 0;
                    self.latched.set(core, id as u32, any);
                }
            }
            0xf20..=0xf2c => {
                for (id, byte) in written_bytes(offset - 0xf20, value, mask) {
                    self.sources[core][id] |= byte & self.all_cores();
                    let any = self.sources[core][id] != 0;
                    self.latched.set(core, id as u32, any);
                }
            }
            _ => {}
        }
    }

    /// GICD_SGIR (4.3.15): an interrupt to the listed cores, all but the sender, or the sender.
    fn generate(&mut self, core: usize, value: u32) {
        let id = value & 15;
        let own = 1 << core;
        let targets = self.all_cores()
            & match value >> 24 & 3 {
                0 => (value >> 16) as u8,
                1 => !own,
                2 => own,
                // Reserved.
                _ => 0,
            };
        for target in (0..self.cores).filter(|target| targets >> target & 1 != 0) {
            self.sources[target][id as usize] |= own;
            self.latched.set(target, id, true);
        }
    }

    // ---- The interface of a core ---------------------------------------------------------------

    /// A register of a core's interface.
    pub fn read_interface(&mut self, core: usize, offset: u32) -> u32 {
        let interface = &self.interfaces[core];
        match offset {
            0x00 => interface.control,
            0x04 => interface.priority_mask,
            0x08 => interface.binary_point,
            0x0c => self.acknowledge(core, 0),
            0x14 => interface.running_priority().min(0xff),
            0x18 => self.highest_of(core, 0),
            0x1c => interface.binary_point_1,
            0x20 => self.acknowledge(core, 1),
            0x28 => self.highest_of(core, 1),
            0xd0..=0xdc => interface.active[0][(offset & 0xf) as usize / 4],
            0xe0..=0xec => interface.active[1][(offset & 0xf) as usize / 4],
            // GICC_IIDR: ARM's, version 2 of the architecture (4.4.15).
            0xfc => 0x0002_043b,
            _ => 0,
        }
    }

    /// A register of a core's interface.
    pub fn write_interface(&mut self, core: usize, offset: u32, value: u32, mask: u32) {
        let interface = &mut self.interfaces[core];
        let value = value & mask;
        self.changed = true;
        match offset {
            0x00 => {
                interface.control = (interface.control & !mask | value) & control::WRITABLE;
            }
            0x04 => interface.priority_mask = value & 0xff,
            0x08 => interface.binary_point = value & 7,
            0x10 | 0x24 => self.end(core, value & 0x3ff),
            // The least value is one more than that of the other (4.4.9).
            0x1c => interface.binary_point_1 = (value & 7).max(1),
            0xd0..=0xdc => interface.active[0][(offset & 0xf) as usize / 4] = value,
            0xe0..=0xec => interface.active[1][(offset & 0xf) as usize / 4] = value,
            0x1000 => {
                let id = value & 0x3ff;
                if interface.control & control::SPLIT_END != 0 && (id as usize) < LINES {
                    self.active.set(core, id, false);
                }
            }
            _ => {}
        }
    }

    /// GICC_HPPIR and GICC_AHPPIR (4.4.7, 4.4.12): group 0, or group 1, and with AckCtl both as
    /// one.
    fn highest_of(&self, core: usize, group: usize) -> u32 {
        let Some(id) = self.highest(core) else { return NONE };
        let both = self.interfaces[core].control & control::ACKNOWLEDGE_ALL != 0;
        let source = match self.sources[core].get(id as usize) {
            Some(sources) => sources.trailing_zeros().min(7) << 10,
            None => 0,
        };
        match (group, self.group(core, id)) {
            (0, 1) if !both => OTHER_GROUP,
            (1, 0) => NONE,
            _ => id | source,
        }
    }

    /// GICC_IAR and GICC_AIAR (4.4.4): takes the interrupt of highest priority, if it preempts.
    fn acknowledge(&mut self, core: usize, group: usize) -> u32 {
        let found = self.highest_of(core, group);
        let id = found & 0x3ff;
        if id >= OTHER_GROUP {
            return found;
        }
        if !self.preempts(core, id) {
            return NONE;
        }
        let level = (self.group_priority(core, id) >> 1) as usize;
        let own_group = self.group(core, id);
        self.interfaces[core].active[own_group][level / 32] |= 1 << (level % 32);
        self.active.set(core, id, true);
        let more = match self.sources[core].get_mut(id as usize) {
            Some(sources) => {
                // The sender of the lowest number first; the rest stays pending.
                *sources &= sources.wrapping_sub(1);
                *sources != 0
            }
            None => false,
        };
        self.latched.set(core, id, more);
        self.changed = true;
        found
    }

    /// GICC_EOIR (4.4.5): drops the running priority, and ends the interrupt unless that is split.
    fn end(&mut self, core: usize, id: u32) {
        if id as usize >= LINES {
            return;
        }
        let interface = &mut self.interfaces[core];
        let running = interface.running_priority();
        if running == IDLE_PRIORITY {
            return;
        }
        let level = (running >> 1) as usize;
        // Of equal priorities that of the group that is ended.
        let bit = 1 << (level % 32);
        let group = usize::from(self.group_1.is_set(core, id));
        let of_group =
            if interface.active[group][level / 32] & bit != 0 { group } else { 1 - group };
        interface.active[of_group][level / 32] &= !bit;
        if interface.control & control::SPLIT_END == 0 {
            self.active.set(core, id, false);
        }
    }
}

/// The bytes that a store to a register of bytes writes, each with the number of its interrupt.
fn written_bytes(first: u32, value: u32, mask: u32) -> impl Iterator<Item = (usize, u8)> {
    (0..4)
        .filter(move |place| mask >> (8 * place) & 0xff != 0)
        .map(move |place| ((first + place) as usize, (value >> (8 * place)) as u8))
        .filter(|&(id, _)| id < LINES)
}
