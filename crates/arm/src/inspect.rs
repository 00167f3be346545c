//! Looking without touching: what the debugger shows of memory, and what a run's end says of it.

use crate::board::Board;
use crate::memory::{Memory, Side, control};
use crate::mmu::{Translation, walk};

fn physical_of(translation: &Translation, address: u32) -> u32 {
    let mask = (1u32 << translation.page_shift) - 1;
    translation.physical & !mask | address & mask
}

impl Memory {
    fn tables_say(&self, board: &Board, address: u32) -> Option<Translation> {
        let extended = self.kind == mmulab_machine::ArmCoprocessor::Xscale;
        let found = walk(self.registers.table, address, extended, |at| board.read_table_word(at));
        found.result.ok()
    }

    fn tlb_says(&mut self, address: u32, side: Side) -> Option<Translation> {
        let tlb = match (side, &mut self.dtlb) {
            (Side::Data, Some(dtlb)) => dtlb,
            _ => &mut self.itlb,
        };
        tlb.lookup(address).map(|entry| entry.payload)
    }

    /// The physical address of a modified virtual one, as a load would find it.
    fn physical(&mut self, board: &Board, address: u32) -> Option<u32> {
        if self.registers.control & control::MMU == 0 {
            return Some(address);
        }
        let found =
            self.tlb_says(address, Side::Data).or_else(|| self.tables_say(board, address))?;
        Some(physical_of(&found, address))
    }

    /// The word that a load would get, without doing it.
    fn peek_word(&mut self, board: &Board, address: u32) -> Option<u32> {
        let address = self.modified(address);
        let physical = self.physical(board, address)?;
        if self.registers.control & control::DATA_CACHE != 0
            && let Some(slot) = self.line_of(address)
        {
            return Some(self.lines[slot][(address >> 2 & 7) as usize]);
        }
        let mut word = *board.ram.get((physical >> 2) as usize)?;
        for entry in self.buffer.entries().filter(|entry| entry.line == physical & !31) {
            let index = (physical >> 2 & 7) as usize;
            word = word & !entry.mask[index] | entry.data[index] & entry.mask[index];
        }
        Some(word)
    }

    /// The byte that a load would get.
    pub fn peek(&mut self, board: &Board, address: u32) -> Option<u8> {
        let word = self.peek_word(board, address)?;
        Some((word >> (8 * (address & 3))) as u8)
    }

    /// The instruction at an address, as the tables and memory have it.
    pub(crate) fn peek_instruction(&self, board: &Board, address: u32) -> Option<u32> {
        let address = self.modified(address);
        let physical = if self.registers.control & control::MMU == 0 {
            address
        } else {
            physical_of(&self.tables_say(board, address)?, address)
        };
        board.ram.get((physical >> 2) as usize).copied()
    }

    /// Writes a byte everywhere: memory, and the lines and buffers that have a copy.
    pub fn poke(&mut self, board: &mut Board, address: u32, value: u8) -> Option<()> {
        let address = self.modified(address);
        let physical = self.physical(board, address)?;
        if !board.is_ram(physical) {
            return None;
        }
        self.buffer.flush(&mut board.ram);
        let shift = 8 * (physical & 3);
        let put = |word: &mut u32| *word = *word & !(0xff << shift) | u32::from(value) << shift;
        let (line, index) = (physical & !31, (physical >> 2 & 7) as usize);
        put(&mut board.ram[(physical >> 2) as usize]);
        for slot in 0..self.line_tags.len() {
            if self.line_tags[slot] != 0 && self.line_physical[slot] == line {
                put(&mut self.lines[slot][index]);
            }
        }
        self.fetch.poke(line, index, put);
        let word = board.ram[(physical >> 2) as usize];
        if let Some(checker) = &mut board.checker {
            checker.written_from_outside(physical, word);
        }
        Some(())
    }

    /// What TLB, tables and caches say of an address.
    pub fn describe_translation(&mut self, board: &Board, address: u32) -> String {
        let address = self.modified(address);
        let describe = |found: Option<Translation>| {
            found.map_or("nothing".to_owned(), |found| {
                format!(
                    "physical {:#010x}, domain {}, permission {}, attributes {:03b}, page of {} bytes",
                    physical_of(&found, address),
                    found.domain,
                    found.permission(address),
                    found.attributes,
                    1u32 << found.page_shift
                )
            })
        };
        let data = describe(self.tlb_says(address, Side::Data));
        let fetch = describe(self.tlb_says(address, Side::Instruction));
        let tables = describe(self.tables_say(board, address));
        let line = self.line_of(address).map_or("no line".to_owned(), |slot| {
            format!(
                "line of physical {:#010x}, dirty halves {:02b}",
                self.line_physical[slot],
                self.dirty(slot)
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
        for (name, tlb) in names.into_iter().zip([Some(&self.itlb), self.dtlb.as_ref()]) {
            for entry in tlb.into_iter().flat_map(|tlb| tlb.entries()) {
                lines.push(format!(
                    "{name} {:#010x} -> {:#010x}, {} bytes, domain {}, permissions {:02x}, attributes {:03b}",
                    entry.virtual_address,
                    entry.payload.physical,
                    1u32 << entry.page_shift,
                    entry.payload.domain,
                    entry.payload.permissions,
                    entry.payload.attributes
                ));
            }
        }
        lines
    }
}
