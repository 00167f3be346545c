//! The trace as the machines see it: the program's blocks, and slices of their execution.

use mmulab_trace::{Access, AccessKind, Batch, Block, CROSSING_BYTES, Event, LineCrossing};

use crate::address_space::SMALL_SHIFT;
use crate::read_ahead::Stretch;
use crate::remap::{DoesNotFit, SharedRemapping};

/// The static part of a block, in a form that a replay can run through quickly.
#[derive(Clone, Copy, Debug)]
pub struct StaticBlock<A> {
    /// First byte of its code.
    pub first: A,
    /// Last byte of its code.
    pub last: A,
    /// Where its instructions begin in [`Program::instruction_sizes`].
    pub first_instruction: u32,
    /// How many instructions it has.
    pub instructions: u32,
    /// Where its data accesses begin in [`Program::accesses`].
    pub first_access: u32,
    /// How many data accesses it makes.
    pub accesses: u16,
    /// Which of the first [`STORES_AT_ONCE`] of these write, one bit each.
    first_stores: u8,
    /// [`is_long`] for lines of the usual size.
    pub(crate) is_long: bool,
}

/// The static part of a data access.
#[derive(Clone, Copy, Debug)]
pub struct StaticAccess {
    /// The instruction within the block that makes it.
    pub instruction: u16,
    /// Its width less one: what to add for its last byte.
    pub last_byte: u16,
}

/// log2 of the bytes of a line on nearly all machines of today.
pub(crate) const USUAL_LINE_SHIFT: u32 = 6;

/// Of so many accesses of a block it says itself whether they write. [`Program::stores`] has so
/// many beyond its last access, so that as many can be read from any.
pub(crate) const STORES_AT_ONCE: usize = 8;

/// All blocks known so far, as machines of one kind address them: remapped to 32 bits, or as
/// recorded.
#[derive(Clone, Debug)]
pub struct Program<A> {
    /// By block number.
    pub blocks: Vec<StaticBlock<A>>,
    /// Sizes of all instructions, block after block.
    pub instruction_sizes: Vec<u8>,
    /// All data accesses, block after block.
    pub accesses: Vec<StaticAccess>,
    /// For each of [`Program::accesses`], 1 if it writes, else 0. A modify is one reference that
    /// writes.
    stores: Vec<u8>,
}

impl<A> Default for Program<A> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            instruction_sizes: Vec::new(),
            accesses: Vec::new(),
            stores: vec![0; STORES_AT_ONCE],
        }
    }
}

impl Program<u32> {
    /// The blocks of `table` that have to be known to run `batch`, and are not: a trace may define
    /// others long before it executes them.
    fn new_blocks<'a>(&self, table: &'a [Block], batch: &Batch) -> &'a [Block] {
        let known = self.blocks.len();
        if known == table.len() {
            return &[];
        }
        let needed = batch.blocks.iter().max().map_or(0, |&last| last as usize + 1);
        &table[known..needed.max(known)]
    }

    /// Learns what `batch` brings before it is run: mappings, and the blocks of `table` that are
    /// new in it.
    ///
    /// # Errors
    /// The user space has no room left.
    pub fn learn_remapped(
        &mut self,
        table: &[Block],
        batch: &Batch,
        remapping: &SharedRemapping,
    ) -> Result<(), DoesNotFit> {
        let mut remapping = remapping.lock();
        let new = self.new_blocks(table, batch);
        if remapping.would_learn(batch, new) {
            for (_, event) in &batch.events {
                if let Event::Map { address, length_bytes, .. } = event {
                    remapping.map(*address, *length_bytes);
                }
            }
            // Code and data have their places in the order in which the program comes to them.
            let mut data = &batch.addresses[..];
            remapping.touch(batch.blocks.iter().flat_map(|&id| {
                let block = &table[id as usize];
                let (own, others) = data.split_at(block.accesses.len());
                data = others;
                std::iter::once(&block.address).chain(own)
            }))?;
        }
        for block in new {
            let first = remapping.remap(block.address)?;
            self.push(block, first, |bytes| first.wrapping_add(bytes as u32));
        }
        Ok(())
    }

    /// Learns what the batches of `stretch` bring before all of them are run. The user space is
    /// given as if each were run before the next one is learned of: where that matters, what
    /// earlier ones access gets its place first.
    ///
    /// # Errors
    /// The user space has no room left.
    pub(crate) fn learn_stretch(
        &mut self,
        table: &[Block],
        stretch: &Stretch,
        remapping: &SharedRemapping,
    ) -> Result<(), DoesNotFit> {
        let mut placed = 0;
        for (place, (batch, known)) in stretch.batches().enumerate() {
            let new = self.new_blocks(&table[..known], batch);
            if place > placed && remapping.lock().would_learn(batch, new) {
                for (earlier, _) in stretch.batches().take(place).skip(placed) {
                    remapping.lock().touch(&earlier.addresses)?;
                }
                placed = place;
            }
            self.learn_remapped(&table[..known], batch, remapping)?;
        }
        Ok(())
    }
}

impl Program<u64> {
    /// Learns of the blocks that are new in `table`.
    pub fn learn(&mut self, table: &[Block]) {
        for block in &table[self.blocks.len()..] {
            self.push(block, block.address, |bytes| block.address.wrapping_add(bytes));
        }
    }
}

impl<A> Program<A> {
    /// The slice that `batch` is; its blocks are known.
    pub fn slice<'a>(&'a self, batch: &'a Batch) -> BatchSlice<'a, A> {
        let Batch { blocks, addresses, crossings, events } = batch;
        BatchSlice { program: self, blocks, addresses, crossings, events }
    }

    fn push(&mut self, block: &Block, first: A, further_on: impl Fn(u64) -> A)
    where
        A: Copy + Into<u64>,
    {
        let sizes = &block.instruction_sizes_bytes;
        let length: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        let first_access = self.accesses.len();
        self.stores.truncate(first_access);
        self.stores.extend(block.accesses.iter().map(|access| u8::from(writes(access))));
        let last = further_on(length.saturating_sub(1));
        self.blocks.push(StaticBlock {
            first,
            last,
            is_long: is_long(first.into(), last.into(), USUAL_LINE_SHIFT),
            first_instruction: self.instruction_sizes.len() as u32,
            instructions: sizes.len() as u32,
            first_access: first_access as u32,
            accesses: u16::try_from(block.accesses.len())
                .unwrap_or_else(|_| unreachable!("readers refuse a block of so many accesses")),
            first_stores: bits_of_bytes(&self.stores[first_access..]),
        });
        self.stores.resize(self.stores.len() + STORES_AT_ONCE, 0);
        self.instruction_sizes.extend_from_slice(sizes);
        self.accesses.extend(block.accesses.iter().map(|access| StaticAccess {
            instruction: access.instruction,
            last_byte: access.size_bytes.saturating_sub(1),
        }));
    }

    /// Learns of the instructions of `program` that are new, each as a block of its own: a block's
    /// instructions begin at its [`StaticBlock::first_instruction`].
    pub(crate) fn learn_instructions(&mut self, program: &Self, after: impl Fn(A, u64) -> A)
    where
        A: Copy + Into<u64>,
    {
        let known = self.instruction_sizes.len();
        let first_new =
            program.blocks.partition_point(|block| (block.first_instruction as usize) < known);
        for block in &program.blocks[first_new..] {
            let mut first_access = block.first_access;
            let end = block.first_access + u32::from(block.accesses);
            let mut offset = 0;
            for instruction in 0..block.instructions {
                let at = block.first_instruction + instruction;
                let size_bytes = u64::from(program.instruction_sizes[at as usize]);
                let is_own = |access: &&StaticAccess| u32::from(access.instruction) == instruction;
                let accesses = program.accesses[first_access as usize..end as usize]
                    .iter()
                    .take_while(is_own)
                    .count();
                let writes = &program.stores[first_access as usize..][..accesses];
                let first = after(block.first, offset);
                let last = after(block.first, (offset + size_bytes).saturating_sub(1));
                self.blocks.push(StaticBlock {
                    first,
                    last,
                    is_long: is_long(first.into(), last.into(), USUAL_LINE_SHIFT),
                    first_instruction: at,
                    instructions: 1,
                    first_access,
                    accesses: accesses as u16,
                    first_stores: bits_of_bytes(writes),
                });
                first_access += accesses as u32;
                offset += size_bytes;
            }
        }
        self.instruction_sizes.extend_from_slice(&program.instruction_sizes[known..]);
        let new_accesses = &program.accesses[self.accesses.len()..];
        self.accesses
            .extend(new_accesses.iter().map(|access| StaticAccess { instruction: 0, ..*access }));
        self.stores.clone_from(&program.stores);
    }

    /// For each access of a block, 1 if it writes, else 0.
    #[inline]
    pub fn stores(&self, block: &StaticBlock<A>) -> &[u8] {
        &self.stores[block.first_access as usize..][..block.accesses as usize]
    }

    /// How many data accesses a block makes before it fetches the byte at `address`, which is in
    /// it.
    pub(crate) fn accesses_before(&self, block: &StaticBlock<A>, address: A) -> usize
    where
        A: Into<u64> + Copy,
    {
        let mut left = address.into() - block.first.into();
        let accesses = &self.accesses[block.first_access as usize..][..block.accesses as usize];
        let sizes = &self.instruction_sizes[block.first_instruction as usize..];
        // The instruction of this byte.
        let instruction = sizes[..block.instructions as usize]
            .iter()
            .take_while(|&&size| {
                let size = size.max(1);
                let is_before = u64::from(size) <= left;
                left = left.saturating_sub(size.into());
                is_before
            })
            .count();
        accesses.partition_point(|access| usize::from(access.instruction) < instruction)
    }

    /// Writes [`Program::stores`] of a block to `stores`, whose length must be [`STORES_AT_ONCE`]
    /// more than that of the block's accesses at least; what is behind them is overwritten, too.
    #[inline(always)]
    pub(crate) fn copy_stores(&self, block: &StaticBlock<A>, stores: &mut [u8]) {
        stores[..STORES_AT_ONCE].copy_from_slice(&bytes_of_bits(block.first_stores));
        if usize::from(block.accesses) > STORES_AT_ONCE {
            self.copy_more_stores(block, stores);
        }
    }

    fn copy_more_stores(&self, block: &StaticBlock<A>, stores: &mut [u8]) {
        let (first, accesses) = (block.first_access as usize, usize::from(block.accesses));
        // Copies of fixed length take no jump that depends on how many there are.
        for place in (STORES_AT_ONCE..accesses).step_by(STORES_AT_ONCE) {
            let some = &self.stores[first + place..][..STORES_AT_ONCE];
            stores[place..][..STORES_AT_ONCE].copy_from_slice(some);
        }
    }
}

/// Whether code from `first` to `last` has more than two lines of `1 << line_shift` bytes, or is in
/// two pages.
#[inline(always)]
pub(crate) fn is_long(first: u64, last: u64, line_shift: u32) -> bool {
    let lines_between = (last >> line_shift).wrapping_sub(first >> line_shift);
    lines_between >> 1 | (first ^ last) >> SMALL_SHIFT != 0
}

/// Whether an access is a reference that writes, as a modify is.
fn writes(access: &Access) -> bool {
    access.kind != AccessKind::Load
}

/// A bit for each of the first bytes of 0 or 1, the lowest first.
fn bits_of_bytes(bytes: &[u8]) -> u8 {
    (0..STORES_AT_ONCE).zip(bytes).fold(0, |bits, (bit, &byte)| bits | byte << bit)
}

/// A byte of 0 or 1 for each bit, the lowest first.
#[inline(always)]
fn bytes_of_bits(bits: u8) -> [u8; 8] {
    // The product has the seven bits eight times side by side, so that bit `i` of copy `i` is the
    // lowest of byte `i`.
    let low = u64::from(bits & 0x7f).wrapping_mul(0x0002_0408_1020_4081) & 0x0001_0101_0101_0101;
    (low | u64::from(bits >> 7) << 56).to_le_bytes()
}

/// A slice of the program's execution.
#[derive(Clone, Copy, Debug)]
pub struct BatchSlice<'a, A> {
    /// All blocks known.
    pub program: &'a Program<A>,
    /// The numbers of the executed blocks.
    pub blocks: &'a [u32],
    /// The addresses of their data accesses, in order and as recorded.
    pub addresses: &'a [u64],
    /// The accesses that span a multiple of [`CROSSING_BYTES`], in order.
    pub crossings: &'a [LineCrossing],
    /// Events, each with the index in `blocks` before which it happened, ascending.
    pub events: &'a [(usize, Event)],
}

impl<A> BatchSlice<'_, A> {
    /// Puts into `found` the accesses that span two lines of `1 << line_shift` bytes.
    pub fn find_crossings(&self, line_shift: u32, found: &mut Vec<LineCrossing>) {
        found.clear();
        let spans = |crossing: &LineCrossing| {
            let first = self.addresses[crossing.access as usize];
            let bits_that_differ = first ^ first.wrapping_add(crossing.last_byte.into());
            bits_that_differ >> line_shift != 0
        };
        if 1 << line_shift >= CROSSING_BYTES {
            found.extend(self.crossings.iter().copied().filter(spans));
        } else {
            let of_block = |&number: &u32| {
                let block = &self.program.blocks[number as usize];
                &self.program.accesses[block.first_access as usize..][..block.accesses as usize]
            };
            let accesses = self.blocks.iter().flat_map(of_block).zip(0..);
            let all = accesses
                .map(|(access, place)| LineCrossing { access: place, last_byte: access.last_byte });
            found.extend(all.filter(spans));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_accesses_write_is_copied_as_it_is() {
        let access = |writes: bool| Access {
            instruction: 0,
            size_bytes: 8,
            kind: if writes { AccessKind::Store } else { AccessKind::Load },
        };
        // Blocks of 0 to 19 accesses, and of 8 with all 256 choices of those that write.
        let table: Vec<Block> = (0..256u64)
            .map(|bits| Block {
                address: bits * 64,
                instruction_sizes_bytes: vec![4],
                accesses: (0..bits % 20)
                    .map(|place| access((bits | bits << 8 | bits << 11) >> place & 1 != 0))
                    .collect(),
            })
            .chain((0..256u64).map(|bits| Block {
                address: (1 << 20) + bits * 64,
                instruction_sizes_bytes: vec![4],
                accesses: (0..8).map(|place| access(bits >> place & 1 != 0)).collect(),
            }))
            .collect();
        let mut program = Program::default();
        // Learnt in two parts, as batches bring them.
        program.learn(&table[..100]);
        program.learn(&table);
        for (block, known) in program.blocks.iter().zip(&table) {
            let expected: Vec<u8> =
                known.accesses.iter().map(|one| u8::from(writes(one))).collect();
            let mut copied = vec![2; known.accesses.len() + STORES_AT_ONCE];
            program.copy_stores(block, &mut copied);
            assert_eq!(copied[..expected.len()], expected);
            assert_eq!(program.stores(block), expected);
        }
    }

    /// Want one slab of a user space of 2 GiB.
    const CODE: u64 = 0x1_2340_0000;
    const DATA: u64 = 0x2_2340_0000;

    /// A block that loads, and one at [`CODE`]; batches in which data is touched by the first, then
    /// the second is executed.
    fn data_before_code() -> ([Block; 2], [Batch; 2]) {
        let load = Access { instruction: 0, size_bytes: 4, kind: AccessKind::Load };
        let block =
            |address, accesses| Block { address, instruction_sizes_bytes: vec![4], accesses };
        let data = Batch { blocks: vec![0], addresses: vec![DATA], ..Batch::default() };
        let code = Batch { blocks: vec![1], ..Batch::default() };
        ([block(0x40_0000, vec![load]), block(CODE, vec![])], [data, code])
    }

    #[test]
    fn code_has_its_place_when_it_is_executed() {
        let (table, one_by_one) = data_before_code();
        let together = Batch { blocks: vec![0, 1], addresses: vec![DATA], ..Batch::default() };
        for batches in [vec![together], one_by_one.into()] {
            let remapping = SharedRemapping::new(1 << 31);
            let mut program = Program::<u32>::default();
            for batch in &batches {
                assert_eq!(program.learn_remapped(&table, batch, &remapping), Ok(()));
                assert_eq!(remapping.lock().remap(DATA), Ok(0x2340_0000));
            }
            assert_ne!(program.blocks[1].first, 0x2340_0000);
        }
    }

    #[test]
    fn a_stretch_is_learned_of_as_if_its_batches_ran_one_by_one() {
        let (table, [first, second]) = data_before_code();
        let stretch = Stretch::of_batches(vec![(first, 1), (second, 2)]);
        let remapping = SharedRemapping::new(1 << 31);
        let mut program = Program::<u32>::default();
        assert_eq!(program.learn_stretch(&table, &stretch, &remapping), Ok(()));
        assert_eq!(remapping.lock().remap(DATA), Ok(0x2340_0000));
        assert_ne!(program.blocks[1].first, 0x2340_0000);
    }
}
