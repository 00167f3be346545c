//! The trace as the machines see it: blocks and addresses, decoded once and shared by all.

use mmulab_trace::{AccessKind, Batch, Block, Event};

use crate::fold::{DoesNotFit, Fold};

/// An address as a machine sees it: folded to 32 bits, or as recorded.
pub trait Address: Copy + Into<u64> + Send + Sync + 'static {
    /// The address `bytes` further on.
    fn plus(self, bytes: u64) -> Self;
}

impl Address for u32 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes as u32)
    }
}

impl Address for u64 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes)
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
    known: usize,
    blocks: Vec<(Block, S::Address)>,
    addresses: Vec<S::Address>,
}

impl<S: AddressSpace> Feed<S> {
    /// A feed into `space`.
    pub fn new(space: S) -> Self {
        Self { space, known: 0, blocks: Vec::new(), addresses: Vec::new() }
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
        }
        self.known = table.len();
        self.addresses.clear();
        self.addresses.reserve(batch.addresses.len());
        for &address in &batch.addresses {
            self.addresses.push(self.space.place(address)?);
        }
        Ok(())
    }

    /// Hands over what was prepared.
    pub fn deliver(&mut self, program: &mut Program<S::Address>, addresses: &mut Vec<S::Address>) {
        for (block, first) in self.blocks.drain(..) {
            program.push(&block, first);
        }
        std::mem::swap(&mut self.addresses, addresses);
    }
}
