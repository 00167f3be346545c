//! The trace as the machines see it: blocks and addresses, decoded once and shared by all.

use mmulab_trace::{AccessKind, Batch, Block, Event};

use crate::fold::{DoesNotFit, Fold};

/// An address as a machine sees it: folded to 32 bits, or as recorded.
pub trait Address: Copy + Into<u64> + Send + Sync + 'static {
    /// The address `bytes` further on.
    fn plus(self, bytes: u64) -> Self;

    /// Whether two addresses are in different aligned pieces of `1 << shift` bytes.
    fn is_apart(self, other: Self, shift: u32) -> bool;
}

impl Address for u32 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes as u32)
    }

    #[inline(always)]
    fn is_apart(self, other: Self, shift: u32) -> bool {
        (self ^ other) >> shift != 0
    }
}

impl Address for u64 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes)
    }

    #[inline(always)]
    fn is_apart(self, other: Self, shift: u32) -> bool {
        (self ^ other) >> shift != 0
    }
}

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
    pub accesses: u32,
}

/// The static part of a data access.
#[derive(Clone, Copy, Debug)]
pub struct StaticAccess {
    /// The instruction within the block that makes it.
    pub instruction: u16,
    /// Its width less one: what to add for its last byte.
    pub last_byte: u16,
    /// Whether it writes. A modify is one reference that writes.
    pub is_store: bool,
}

/// All blocks known so far.
#[derive(Clone, Debug)]
pub struct Program<A> {
    /// By block number.
    pub blocks: Vec<StaticBlock<A>>,
    /// Sizes of all instructions, block after block.
    pub instruction_sizes: Vec<u8>,
    /// All data accesses, block after block.
    pub accesses: Vec<StaticAccess>,
}

impl<A> Default for Program<A> {
    fn default() -> Self {
        Self { blocks: Vec::new(), instruction_sizes: Vec::new(), accesses: Vec::new() }
    }
}

impl<A: Address> Program<A> {
    fn push(&mut self, block: &Block, first: A) {
        let sizes = &block.instruction_sizes_bytes;
        let length: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        self.blocks.push(StaticBlock {
            first,
            last: first.plus(length.saturating_sub(1)),
            first_instruction: self.instruction_sizes.len() as u32,
            instructions: sizes.len() as u32,
            first_access: self.accesses.len() as u32,
            accesses: block.accesses.len() as u32,
        });
        self.instruction_sizes.extend_from_slice(sizes);
        self.accesses.extend(block.accesses.iter().map(|access| StaticAccess {
            instruction: access.instruction,
            last_byte: access.size_bytes.saturating_sub(1),
            is_store: access.kind != AccessKind::Load,
        }));
    }
}

/// A stretch of the program's execution, ready for replay.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a, A> {
    /// All blocks known.
    pub program: &'a Program<A>,
    /// The executed blocks.
    pub blocks: &'a [u32],
    /// The addresses of their data accesses, in order.
    pub addresses: &'a [A],
    /// The accesses that may span two lines, in order.
    pub straddles: &'a [Straddle],
}

/// An access that may span two lines of a machine: it does so in the machine with the shortest lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Straddle {
    /// Its place among the accesses of the stretch.
    pub access: u32,
    /// What to add to its address for its last byte.
    pub last_byte: u16,
}

/// The dynamic part of a batch in an address space.
#[derive(Clone, Debug)]
pub struct References<A> {
    /// The addresses of all accesses.
    pub addresses: Vec<A>,
    /// Those that may span two lines.
    pub straddles: Vec<Straddle>,
}

impl<A> Default for References<A> {
    fn default() -> Self {
        Self { addresses: Vec::new(), straddles: Vec::new() }
    }
}

/// Where the machines of one kind see the program.
pub trait AddressSpace: Send {
    /// How they write an address.
    type Address: Address;

    /// Learns of a mapping of the program.
    fn map(&mut self, address: u64, length_bytes: u64);

    /// Where `address` is.
    ///
    /// # Errors
    /// The space has no room left.
    fn place(&mut self, address: u64) -> Result<Self::Address, DoesNotFit>;
}

impl AddressSpace for Fold {
    type Address = u32;

    fn map(&mut self, address: u64, length_bytes: u64) {
        Fold::map(self, address, length_bytes);
    }

    #[inline(always)]
    fn place(&mut self, address: u64) -> Result<u32, DoesNotFit> {
        self.fold(address)
    }
}

/// The program's own 64-bit addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flat;

impl AddressSpace for Flat {
    type Address = u64;

    fn map(&mut self, _address: u64, _length_bytes: u64) {}

    #[inline(always)]
    fn place(&mut self, address: u64) -> Result<u64, DoesNotFit> {
        Ok(address)
    }
}

/// Brings batches into an address space. It keeps what it has prepared apart from the [`Program`]
/// until that is free: the machines read it while the next batch is on its way.
#[derive(Debug)]
pub struct Feed<S: AddressSpace> {
    /// The space.
    pub space: S,
    shortest_line_shift: u32,
    known: usize,
    blocks: Vec<(Block, S::Address)>,
    /// For each block, where its accesses begin in `last_bytes`, and how many it has.
    accesses: Vec<(u32, u32)>,
    /// Of all accesses, block after block, what to add for the last byte; padded at the end.
    last_bytes: Vec<u16>,
    references: References<S::Address>,
    /// Of the accesses of the batch, what to add for the last byte.
    reaches: Vec<u16>,
}

/// So many accesses of a block are copied at once; most blocks have fewer.
const COPIED: usize = 8;

impl<S: AddressSpace> Feed<S> {
    /// A feed into `space`, for machines whose data lines are at least `1 << shortest_line_shift`
    /// bytes long.
    pub fn new(space: S, shortest_line_shift: u32) -> Self {
        Self {
            space,
            shortest_line_shift,
            known: 0,
            blocks: Vec::new(),
            accesses: Vec::new(),
            last_bytes: vec![0; COPIED],
            references: References::default(),
            reaches: Vec::new(),
        }
    }

    /// Prepares also for a machine with data lines of `1 << line_shift` bytes.
    pub fn include_line(&mut self, line_shift: u32) {
        self.shortest_line_shift = self.shortest_line_shift.min(line_shift);
    }

    /// Prepares a batch, and the blocks of `table` that it brought.
    ///
    /// # Errors
    /// The space has no room left.
    pub fn prepare(&mut self, table: &[Block], batch: &Batch) -> Result<(), DoesNotFit> {
        for (_, event) in &batch.events {
            if let Event::Map { address, length_bytes, .. } = event {
                self.space.map(*address, *length_bytes);
            }
        }
        for block in &table[self.known..] {
            self.blocks.push((block.clone(), self.space.place(block.address)?));
            self.last_bytes.truncate(self.last_bytes.len() - COPIED);
            self.accesses.push((self.last_bytes.len() as u32, block.accesses.len() as u32));
            let reach = |access: &mmulab_trace::Access| access.size_bytes.saturating_sub(1);
            self.last_bytes.extend(block.accesses.iter().map(reach));
            self.last_bytes.extend([0; COPIED]);
        }
        self.known = table.len();
        self.collect_reaches(batch);
        let References { addresses, straddles } = &mut self.references;
        addresses.clear();
        straddles.clear();
        addresses.reserve(batch.addresses.len());
        for (access, (&address, &last_byte)) in
            batch.addresses.iter().zip(&self.reaches).enumerate()
        {
            let address = self.space.place(address)?;
            addresses.push(address);
            if address.is_apart(address.plus(last_byte.into()), self.shortest_line_shift) {
                straddles.push(Straddle { access: access as u32, last_byte });
            }
        }
        Ok(())
    }

    /// Lays the accesses' widths out in the order of execution.
    fn collect_reaches(&mut self, batch: &Batch) {
        // Blocks make few accesses, but not equally few: copying a fixed number, of which the next
        // block overwrites the excess, spares a jump that could not be foretold.
        self.reaches.resize(batch.addresses.len() + COPIED, 0);
        let mut end = 0;
        for &block in &batch.blocks {
            let (first, count) = self.accesses[block as usize];
            let (first, count) = (first as usize, count as usize);
            let source = &self.last_bytes[first..first + COPIED];
            self.reaches[end..end + COPIED].copy_from_slice(source);
            if count > COPIED {
                let rest = &self.last_bytes[first + COPIED..first + count];
                self.reaches.resize(self.reaches.len().max(end + count + COPIED), 0);
                self.reaches[end + COPIED..end + count].copy_from_slice(rest);
            }
            end += count;
        }
        self.reaches.truncate(end);
    }

    /// Hands over what was prepared.
    pub fn deliver(
        &mut self,
        program: &mut Program<S::Address>,
        references: &mut References<S::Address>,
    ) {
        for (block, first) in self.blocks.drain(..) {
            program.push(&block, first);
        }
        std::mem::swap(&mut self.references, references);
    }
}
