//! Small programs for tests: an assembler of a few instructions, machines, and runs.

use std::path::Path;

use mmulab_arm::{System, VirtualCaches};
use mmulab_machine::{Machine, SystemMachine};
use mmulab_system::{Loaded, Outcome, Stop, Transcript};

mod assembly;
pub use assembly::*;

/// Where test programs start.
pub const START: u32 = 0x1_0000;
/// The instrumentation device.
pub const LAB: u32 = 0x101f_f000;

/// All machines.
pub const MACHINES: [&str; 4] = ["sa1100", "ixp425", "at91rm9200", "arm926ej-s"];

/// A machine of the repository, with changes.
pub fn machine(name: &str, changes: &[(&str, &str)]) -> SystemMachine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../machines/{name}.toml"));
    let machine = Machine::load(&path).unwrap().with(changes).unwrap();
    let Machine::System(machine) = machine else { panic!("{name} is not a system machine") };
    *machine
}

/// Machine code being written.
#[derive(Clone, Default)]
pub struct Code {
    pub words: Vec<u32>,
}

impl Code {
    pub fn new() -> Code {
        Code::default()
    }

    /// Address of the next word.
    pub fn here(&self) -> u32 {
        START + 4 * self.words.len() as u32
    }

    pub fn word(&mut self, word: u32) -> &mut Code {
        self.words.push(word);
        self
    }

    /// ARM instructions, with `;` between them; `.` is the address of the instruction itself.
    pub fn asm(&mut self, text: &str) -> &mut Code {
        self.words.extend(instructions(text).map(asm));
        self
    }

    /// Thumb instructions, likewise. A branch to itself fills up the last word.
    pub fn thumb(&mut self, text: &str) -> &mut Code {
        let mut halves: Vec<u32> = Vec::new();
        for instruction in instructions(text) {
            let bits = asm(&format!("thumb {instruction}"));
            if bits >> 16 != 0 {
                halves.push(bits >> 16);
            }
            halves.push(bits & 0xffff);
        }
        if !halves.len().is_multiple_of(2) {
            halves.push(asm("thumb b ."));
        }
        self.words.extend(halves.chunks(2).map(|pair| pair[0] | pair[1] << 16));
        self
    }

    /// Any constant, by MOV and ORR.
    pub fn set(&mut self, rd: u32, value: u32) -> &mut Code {
        self.word(mov(rd, value & 0xff));
        for (part, rotation) in [(8, 12), (16, 8), (24, 4)] {
            let byte = value >> part & 0xff;
            if byte != 0 {
                self.word(orr(rd, byte, rotation));
            }
        }
        self
    }

    pub fn load(&mut self, rd: u32, rn: u32, offset: u32) -> &mut Code {
        self.word(ldr(rd, rn, offset))
    }

    pub fn store(&mut self, rd: u32, rn: u32, offset: u32) -> &mut Code {
        self.word(str(rd, rn, offset))
    }

    /// MCR p15, 0, rd, cn, cm, opcode_2.
    pub fn system(&mut self, rd: u32, n: u32, m: u32, opcode_2: u32) -> &mut Code {
        self.word(mcr(0, rd, n, m, opcode_2))
    }

    /// MRC p15, 0, rd, cn, cm, opcode_2.
    pub fn read_system(&mut self, rd: u32, n: u32, m: u32, opcode_2: u32) -> &mut Code {
        self.word(mrc(0, rd, n, m, opcode_2))
    }

    /// BNE to an address.
    pub fn branch_not_equal(&mut self, target: u32) -> &mut Code {
        self.word(branch(self.here(), target) & 0x0fff_ffff | 1 << 28)
    }

    /// Stores a constant word at an address; spoils R10 and R11.
    pub fn put(&mut self, address: u32, value: u32) -> &mut Code {
        self.set(10, address).set(11, value).store(11, 10, 0)
    }

    /// Ends the run with the status in `rd`; spoils R10.
    pub fn exit_with(&mut self, rd: u32) -> &mut Code {
        self.set(10, LAB).store(rd, 10, 0x1c).asm("b .")
    }

    /// Turns the MMU, both caches, write buffer and branch prediction on, with all domains as
    /// clients; spoils R10 and R11. The tables are at 0x4000, whose entries the program has
    /// written.
    pub fn enable(&mut self) -> &mut Code {
        self.set(10, 0x4000).system(10, 2, 0, 0);
        self.set(10, 0x5555_5555).system(10, 3, 0, 0);
        self.read_system(10, 1, 0, 0).set(11, 0x180d).asm("orr r10, r10, r11").system(10, 1, 0, 0)
    }

    /// Writes a first-level descriptor.
    pub fn section(&mut self, virtual_megabyte: u32, descriptor: u32) -> &mut Code {
        self.put(0x4000 + 4 * virtual_megabyte, descriptor)
    }

    pub fn image(&self) -> Loaded {
        self.image_at(START)
    }

    pub fn image_at(&self, start: u32) -> Loaded {
        let bytes = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Loaded { segments: vec![(start, bytes)], entry: start, ..Loaded::default() }
    }
}

/// A section that both caches may hold, user and system read and write, domain 0.
pub fn cached(physical_megabyte: u32) -> u32 {
    physical_megabyte << 20 | 0xc1e
}

/// The same, uncached and unbuffered.
pub fn uncached(physical_megabyte: u32) -> u32 {
    physical_megabyte << 20 | 0xc12
}

/// A finished run.
pub struct Run {
    pub system: System<VirtualCaches>,
    pub stop: Stop,
    pub text: String,
    pub outcome: Outcome,
}

impl Run {
    pub fn register(&self, number: usize) -> u32 {
        self.system.core(0).registers[number]
    }
}

pub fn run_limited(machine: &SystemMachine, image: &Loaded, check: bool, limit: u64) -> Run {
    let mut system = mmulab_arm::system(machine).unwrap();
    system.load(image);
    if check {
        system.start_checking();
    }
    let mut host = Transcript::default();
    let stop = system.run(&mut host, limit);
    let outcome = system.outcome(stop, 0.0);
    Run { system, stop, text: String::from_utf8(host.text).unwrap(), outcome }
}

pub fn run(machine: &SystemMachine, code: &Code) -> Run {
    run_limited(machine, &code.image(), false, 1_000_000)
}

pub fn run_checked(machine: &SystemMachine, code: &Code) -> Run {
    run_limited(machine, &code.image(), true, 1_000_000)
}
