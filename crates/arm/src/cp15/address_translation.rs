//! Address translation by coprocessor operations, and the physical address register (ARM DDI 0406C,
//! B3.13 and B4.1.112).

use mmulab_system::core::{Fault, Mmu, Side, Translation};

use crate::caches::CacheKind;
use crate::cpu::{Bus, Cpu};
use crate::mmu::{ArmMmu, control};
use crate::mmu_v7::{WRITE_BACK, WRITE_BACK_ALLOCATE, WRITE_THROUGH};

/// What the register says of memory: inner attributes in bits 6:4.
const STRONGLY_ORDERED: u32 = 1 << 4;
const DEVICE: u32 = 3 << 4;
/// It is shareable.
const SHAREABLE: u32 = 1 << 7;
/// It is shareable among the inner domain only.
const NOT_OUTER_SHAREABLE: u32 = 1 << 10;

impl<K: CacheKind> Cpu<K> {
    /// Translates an address for a load or store, privileged or not: what the register holds
    /// afterwards.
    pub(super) fn translated_address(
        &mut self,
        bus: &mut Bus<K>,
        address: u32,
        write: bool,
        privileged: bool,
    ) -> u32 {
        if !self.memory.mmu.is_on() {
            return address & !0xfff | STRONGLY_ORDERED | SHAREABLE;
        }
        let found = self.memory.translation(bus, address, Side::Data).and_then(|page| {
            let refused = self.memory.mmu.refusal(&page, address, write, privileged);
            refused.map_or(Ok(page), |status| Err(Fault::new(address, status)))
        });
        match found {
            Ok(page) => {
                let place = match page.page_shift {
                    24 => page.physical & 0xff00_0000 | 1 << 1,
                    _ => page.physical_of(address) & !0xfff,
                };
                place | attributes(&self.memory.mmu, &page)
            }
            Err(fault) => (fault.status & 0xf) << 1 | 1,
        }
    }
}

/// The memory type of a page as the register has it.
fn attributes(mmu: &ArmMmu, page: &Translation) -> u32 {
    let normal = |inner: u32, outer: u32| {
        let inner = match inner {
            WRITE_BACK_ALLOCATE => 5,
            WRITE_THROUGH => 6,
            WRITE_BACK => 7,
            _ => 0,
        };
        inner << 4 | outer << 2
    };
    let bits = u32::from(page.attributes);
    let (kind, inner_only) = if mmu.has(control::TYPE_REMAP) {
        let region = bits & 7;
        let (prrr, nmrr) = (mmu.registers.prrr, mmu.registers.nmrr);
        let kind = match prrr >> (2 * region) & 3 {
            0 => STRONGLY_ORDERED,
            1 => DEVICE,
            _ => normal(nmrr >> (2 * region) & 3, nmrr >> (16 + 2 * region) & 3),
        };
        (kind, prrr >> (24 + region) & 1 != 0)
    } else {
        let kind = match bits & 0x1f {
            0 => STRONGLY_ORDERED,
            1 | 0b01000 => DEVICE,
            kind @ (2 | 3) => normal(kind, kind),
            7 => normal(WRITE_BACK_ALLOCATE, WRITE_BACK_ALLOCATE),
            kind @ 16.. => normal(kind & 3, kind >> 2 & 3),
            _ => normal(0, 0),
        };
        (kind, false)
    };
    let shareable = page.memory_type.is_shareable() || matches!(kind, STRONGLY_ORDERED | DEVICE);
    match (shareable, inner_only) {
        (false, _) => kind,
        (true, false) => kind | SHAREABLE,
        (true, true) => kind | SHAREABLE | NOT_OUTER_SHAREABLE,
    }
}
