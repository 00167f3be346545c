//! ARM on top of [`mmulab_system`]: decoding and execution of ARMv4 to ARMv5TE, and of ARMv7-A with
//! VFP and NEON; their page tables, the system control coprocessor, and the cores.

mod attributes;
mod branch;
mod caches;
pub mod cores;
pub mod cp15;
pub mod cpu;
pub mod generic_timer;
mod isa;
pub mod mmu;
mod mmu_v7;
pub mod performance;
mod psci;
mod semihosting;
mod vector;

use std::ops::Range;

use mmulab_hardware::GeometryError;
use mmulab_machine::SystemMachine;
use mmulab_system::{ImageRules, LoadError, Loaded, Request};

pub use attributes::note_of_architecture;
pub use caches::{CacheKind, CoherentCaches, VirtualCaches};
pub use cpu::Cpu;
pub use isa::CoprocessorAccess;

/// A machine of ARM cores.
pub type System<K> = mmulab_system::System<Cpu<K>>;

/// What ARM's images are like.
const IMAGES: ImageRules = ImageRules {
    machine: object::Architecture::Arm,
    machine_name: "32-bit ARM",
    // As on QEMU.
    raw_address: 0x1_0000,
    // Behind the kernel's first page table.
    kernel_address: 0x8000,
    zimage_magic: Some((0x24, 0x016f_2818)),
    // What Linux maps at all times (Documentation/arch/arm/booting.rst, 4b and 5): the rest of 1 GB
    // less 240 MB for vmalloc and its gaps (arch/arm/mm/mmu.c).
    kernel_reach_bytes: 760 << 20,
};

/// A machine out of reset, with nothing loaded.
///
/// # Errors
/// A cache or TLB has an impossible shape.
pub fn system<K: CacheKind>(machine: &SystemMachine) -> Result<System<K>, GeometryError> {
    System::new(machine, machine.platform())
}

/// Lays an image out in the memory at these addresses ([`SystemMachine::ram`]).
///
/// # Errors
/// A file is not what it should be, or does not fit.
pub fn load(request: &Request, ram: Range<u32>) -> Result<Loaded, LoadError> {
    mmulab_system::load(request, ram, &IMAGES)
}
