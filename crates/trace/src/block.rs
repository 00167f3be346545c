//! The static part of a trace: straight-line runs of instructions.

/// Index of a [`Block`] in its [`BlockTable`].
pub type BlockId = u32;

/// What an instruction does to memory at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, then writes the same bytes.
    Modify,
}

/// One data access of a block; its address is dynamic and stands in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Index within the block of the instruction that makes the access.
    pub instruction: u16,
    /// Width of the access.
    pub size_bytes: u16,
    /// Read, write or both.
    pub kind: AccessKind,
}

impl Access {
    /// What to add to its address for that of its last byte.
    pub fn last_byte(&self) -> u16 {
        self.size_bytes.saturating_sub(1)
    }
}

/// A straight-line run of instructions that is entered at its first and left after its last.
///
/// An access that depends on a run-time condition is never optional inside a block: the writer
/// makes a block of its own for each combination that occurred. Every execution of a block
/// therefore makes exactly its `accesses`, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Virtual address of the first instruction.
    pub address: u64,
    /// Length of each instruction, in order; the instructions are contiguous.
    pub instruction_sizes_bytes: Vec<u8>,
    /// Data accesses, ordered by instruction and, within one, by program order.
    pub accesses: Vec<Access>,
}

/// All blocks seen so far; grows while a trace is read and never changes what it holds.
#[derive(Clone, Debug, Default)]
pub struct BlockTable {
    blocks: Vec<Block>,
}

impl BlockTable {
    /// Adds a block and returns its number.
    pub fn push(&mut self, block: Block) -> BlockId {
        self.blocks.push(block);
        (self.blocks.len() - 1) as BlockId
    }

    /// The blocks, indexed by [`BlockId`].
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}
