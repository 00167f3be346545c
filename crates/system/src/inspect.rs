//! Looking without touching: what the debugger shows of memory, and what a run's end says of it.

use mmulab_hardware::Line;

use crate::bus::Bus;
use crate::core::{Core, MemoryType, Mmu, Side, Translation};
use crate::memory::CoreMemory;
use crate::observer::Observer;
use crate::tlb::Entry;

impl<C: Core> CoreMemory<C> {
    fn tables_say(&self, bus: &Bus<C>, address: u32) -> Option<Translation> {
        self.mmu.walk(address, |at| self.table_word(bus, address, at)).result.ok()
    }

    fn tlb_says(&self, address: u32, side: Side) -> Option<Translation> {
        self.peek_entry(address, side).map(|entry| entry.payload)
    }

    /// The physical address and memory type of an address as the MMU sees it, as a load would find
    /// them.
    fn translated(&self, bus: &Bus<C>, address: u32) -> Option<(u32, MemoryType)> {
        if !self.mmu.is_on() {
            return Some((address, self.mmu.untranslated_type(Side::Data)));
        }
        let found = self.tlb_says(address, Side::Data).or_else(|| self.tables_say(bus, address))?;
        let memory_type = self.mmu.effective_type(found.memory_type, Side::Data);
        Some((found.physical_of(address), memory_type))
    }

    /// The word that a load would get, without doing it.
    fn peek_word(&self, bus: &Bus<C>, address: u32) -> Option<u32> {
        let address = self.relocated(address);
        let (physical, memory_type) = self.translated(bus, address)?;
        if memory_type.is_cached() {
            if C::COHERENT && bus.is_ram(physical) {
                return Some(
                    self.store_buffer.forward(physical, self.coherent_word(bus, physical)),
                );
            }
            if let Some(slot) = self.slot_held_for(address, physical) {
                return Some(self.dcache.word(slot, address));
            }
        }
        let mut word = bus.ram.get(physical)?;
        let line = C::DataLine::base(physical);
        for entry in self.write_buffer.entries().filter(|entry| entry.line == line) {
            let index = C::DataLine::word(physical);
            word = word & !entry.mask[index] | entry.data[index] & entry.mask[index];
        }
        Some(word)
    }

    /// The byte that a load would get.
    pub fn peek(&self, bus: &Bus<C>, address: u32) -> Option<u8> {
        let word = self.peek_word(bus, address)?;
        Some((word >> (8 * (address & 3))) as u8)
    }

    /// The instruction at an address, as the tables and memory have it.
    pub(crate) fn peek_instruction(&self, bus: &Bus<C>, address: u32) -> Option<u32> {
        let address = self.relocated(address);
        let physical = if self.mmu.is_on() {
            self.tables_say(bus, address)?.physical_of(address)
        } else {
            address
        };
        bus.word_below(physical)
    }

    /// Writes a byte everywhere: memory, and the lines and buffers that have a copy.
    pub fn poke(&mut self, bus: &mut Bus<C>, address: u32, value: u8) -> Option<()> {
        let address = self.relocated(address);
        let (physical, _) = self.translated(bus, address)?;
        if !bus.is_ram(physical) {
            return None;
        }
        self.write_buffer.flush(&mut bus.ram);
        let shift = 8 * (physical & 3);
        let (value, mask) = (u32::from(value) << shift, 0xff << shift);
        let word = bus.ram.word_mut(physical);
        *word = *word & !mask | value;
        self.poke_copies(physical, value, mask);
        for core in bus.cores.iter_mut().flatten() {
            core.memory_mut().poke_copies(physical, value, mask);
        }
        if let Some(level_2) = &mut bus.level_2
            && let Some(slot) = level_2.peek(physical, physical)
        {
            level_2.set_word(slot, physical, value, mask);
        }
        let word = bus.ram.word(physical);
        if let Some(observers) = &mut bus.observers {
            observers.written_from_outside(physical, word);
        }
        Some(())
    }

    fn poke_copies(&mut self, physical: u32, value: u32, mask: u32) {
        let copies: Vec<usize> = self.dcache.copies(physical).collect();
        for slot in copies {
            self.dcache.set_word(slot, physical, value, mask);
        }
        let (line, word) = (C::FetchLine::base(physical), C::FetchLine::word(physical));
        self.fetch.poke(line, word, |word| *word = *word & !mask | value);
    }

    /// What TLB, tables and caches say of an address.
    pub fn describe_translation(&self, bus: &Bus<C>, address: u32) -> String {
        let address = self.relocated(address);
        let describe = |found: Option<Translation>| {
            found.map_or("nothing".to_owned(), |found| {
                format!(
                    "physical {:#010x}, domain {}, permission {}, attributes {:03b}, page of {} bytes",
                    found.physical_of(address),
                    found.domain,
                    self.mmu.permission(&found, address),
                    found.attributes,
                    1u32 << found.page_shift
                )
            })
        };
        let data = describe(self.tlb_says(address, Side::Data));
        let fetch = describe(self.tlb_says(address, Side::Instruction));
        let tables = if self.mmu.is_on() {
            describe(self.tables_say(bus, address))
        } else {
            "not used, the MMU is off".to_owned()
        };
        let physical = self.translated(bus, address).map_or(address, |(physical, _)| physical);
        let line = self.slot_held_for(address, physical).map_or("no line".to_owned(), |slot| {
            format!(
                "line of physical {:#010x}, dirty halves {:02b}",
                self.dcache.physical(slot),
                self.dcache.dirty(slot)
            )
        });
        format!(
            "modified address {address:#010x}\ntables: {tables}\ndata TLB: {data}\n\
             instruction TLB: {fetch}\ndata cache: {line}"
        )
    }

    /// The entries of the TLBs.
    pub fn describe_tlbs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let names = if self.dtlb.is_some() { ["instruction", "data"] } else { ["unified", ""] };
        let mut describe = |name: &str, entry: &Entry| {
            let quarters = [0, 1, 2, 3].map(|quarter| {
                self.mmu.permission(&entry.payload, quarter << (entry.page_shift - 2))
            });
            let permission = match quarters {
                [first, rest @ ..] if rest == [first; 3] => format!("permission {first}"),
                [a, b, c, d] => format!("permissions {a} {b} {c} {d} of its quarters"),
            };
            lines.push(format!(
                "{name} {:#010x} -> {:#010x}, {} bytes, domain {}, {permission}, attributes {:03b}",
                entry.virtual_address,
                entry.payload.physical,
                1u32 << entry.page_shift,
                entry.payload.domain,
                entry.payload.attributes
            ));
        };
        for (name, side) in [("micro instruction", Side::Instruction), ("micro data", Side::Data)] {
            self.micro_entries(side).for_each(|entry| describe(name, entry));
        }
        for (name, tlb) in names.into_iter().zip([Some(&self.itlb), self.dtlb.as_ref()]) {
            tlb.into_iter().flat_map(|tlb| tlb.entries()).for_each(|entry| describe(name, entry));
        }
        lines
    }
}
