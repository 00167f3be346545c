//! MACH: a three-tier table on MIPS, walked bottom-up by software.
//!
//! The user table lies in kernel space, the kernel table maps all of that space and lies in it too,
//! and a root table in physical memory maps the kernel table. A miss of the user handler's load
//! runs the kernel handler, a miss of that one's load the root handler, whose administrative loads
//! are accounted at the root tier, as in section 4.2 of the study.

use mmulab_machine::{Handler, ThreeTier};

use super::{PAGE_SHIFT, PageTlb, Walk, WalkTarget};
use crate::cause::Tier;

/// The walk of MACH.
#[derive(Clone, Debug)]
pub struct Mach {
    table: ThreeTier,
}

impl Mach {
    /// Walks the table that a machine file describes.
    pub fn new(table: &ThreeTier) -> Self {
        Self { table: table.clone() }
    }

    fn load_as_root(&self, kernel_entry: u32, target: &mut impl WalkTarget) {
        let table = &self.table;
        target.run_handler(Tier::Root, &table.root_handler);
        let loads = &table.administrative_loads;
        for number in 0..u64::from(loads.count) {
            target.load(Tier::Root, (loads.base_address + number * loads.stride_bytes) as u32);
        }
        let offset = kernel_entry.wrapping_sub(table.kernel_table.base_address as u32);
        let root_offset = (offset >> PAGE_SHIFT) * table.pte_bytes as u32;
        target.load(Tier::Root, (table.root_table.base_address as u32).wrapping_add(root_offset));
    }
}

impl Walk for Mach {
    fn handlers(&self) -> Vec<&Handler> {
        vec![&self.table.user_handler, &self.table.kernel_handler, &self.table.root_handler]
    }

    fn walk(&mut self, page: u32, data_tlb: &mut PageTlb, target: &mut impl WalkTarget) {
        let table = &self.table;
        let pte_bytes = table.pte_bytes as u32;
        let user_entry = (table.user_table.base_address as u32).wrapping_add(page * pte_bytes);
        let user_table_page = user_entry >> PAGE_SHIFT;
        target.run_handler(Tier::User, &table.user_handler);
        if !data_tlb.lookup_nested(user_table_page) {
            target.run_handler(Tier::Kernel, &table.kernel_handler);
            let kernel_entry =
                (table.kernel_table.base_address as u32).wrapping_add(user_table_page * pte_bytes);
            if !data_tlb.lookup_nested(kernel_entry >> PAGE_SHIFT) {
                self.load_as_root(kernel_entry, target);
                data_tlb.insert_protected(kernel_entry >> PAGE_SHIFT);
            }
            target.load(Tier::Kernel, kernel_entry);
            data_tlb.insert_protected(user_table_page);
        }
        target.load(Tier::User, user_entry);
    }
}
