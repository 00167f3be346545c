//! Fuses blocks that are executed one after the other and are contiguous in memory.
//!
//! A block ends where the recorder saw a way out, taken or not. Where it is mostly not taken, the
//! block and the one behind it may as well be one: a trace of fewer blocks is smaller and is read
//! and replayed faster. A fused block is a block like any other; what is executed stays the same.

use super::container::{MAX_ACCESSES, MAX_BLOCKS};
use crate::{Access, Block, BlockId};

/// How often a pair must have been executed before it is fused. Less, and the blocks that are
/// fused for nothing cost more than they save.
const FUSION_THRESHOLD: u32 = 64;

/// How many source blocks, accesses and instructions a fused block may have.
const MAX_FUSED_BLOCKS: u8 = 16;
const MAX_FUSED_ACCESSES: usize = 16;
const MAX_FUSED_INSTRUCTIONS: usize = 512;

/// A fused block stays on one page of this length, where its instructions have one translation.
const PAGE_BYTES: u64 = 4096;

/// How much of what a trace may define is left for fused blocks.
pub(crate) const FUSED_BLOCKS: usize = MAX_BLOCKS / 4;
pub(crate) const FUSED_ACCESSES: usize = MAX_ACCESSES / 4;
/// As many may be defined in a chunk: less than a kilobyte each.
pub(crate) const CHUNK_FUSED_BLOCKS: usize = 1 << 15;

/// The block that may be fused to a block: the first that was executed behind it without a jump,
/// and mostly the only one.
#[derive(Clone, Copy, Default)]
struct Successor {
    /// Its number in the file.
    block: BlockId,
    /// What both together are; 0, which no fused block is, as long as they are not fused.
    fused: BlockId,
    /// How often it followed while they were not fused; 0 where nothing has followed.
    seen: u32,
}

/// Where a block lies, and how many of the source's blocks it is.
#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    end: u64,
    blocks: u8,
}

/// Gives blocks the numbers that they have in the file.
#[derive(Default)]
pub(crate) struct BlockFusion {
    /// All blocks of the file.
    blocks: Vec<Block>,
    extents: Vec<Extent>,
    successors: Vec<Successor>,
    /// For each of the source's blocks its number in the file.
    numbers: Vec<BlockId>,
    fused_blocks: usize,
    fused_accesses: usize,
    /// Blocks that may still be fused in this chunk.
    may_fuse: usize,
}

impl BlockFusion {
    /// All blocks of the file, so far.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Takes in the next block of the source.
    pub(crate) fn define(&mut self, block: Block) {
        let number = self.push(block, 1);
        self.numbers.push(number);
    }

    fn push(&mut self, block: Block, blocks: u8) -> BlockId {
        let length: u64 = block.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
        let (start, end) = (block.address, block.address.wrapping_add(length));
        self.extents.push(Extent { start, end, blocks });
        self.successors.push(Successor::default());
        self.blocks.push(block);
        (self.blocks.len() - 1) as BlockId
    }

    /// Begins a chunk.
    pub(crate) fn begin_chunk(&mut self) {
        let left = FUSED_BLOCKS - self.fused_blocks;
        self.may_fuse = left.min(CHUNK_FUSED_BLOCKS);
    }

    /// Appends to `fused` what is executed when the source's blocks `executed` are.
    pub(crate) fn fuse(&mut self, executed: &[BlockId], fused: &mut Vec<BlockId>) {
        let mut executed = executed.iter().map(|&block| block as usize);
        let Some(first) = executed.next() else { return };
        let mut current = self.numbers[first];
        for block in executed {
            let next = self.numbers[block];
            let successor = &mut self.successors[current as usize];
            if successor.seen == 0 {
                self.meet(current, next);
            } else if successor.block == next {
                if successor.fused > 0 {
                    current = successor.fused;
                    continue;
                }
                successor.seen = successor.seen.saturating_add(1);
                if successor.seen >= FUSION_THRESHOLD && self.may_fuse > 0 {
                    self.fuse_pair(current, next);
                }
            }
            fused.push(current);
            current = next;
        }
        fused.push(current);
    }

    /// Notes that `next` was executed behind `current`, if they may become one.
    fn meet(&mut self, current: BlockId, next: BlockId) {
        let (first, second) = (self.extents[current as usize], self.extents[next as usize]);
        if first.end != second.start
            || (first.start ^ second.end.wrapping_sub(1)) >= PAGE_BYTES
            || first.blocks >= MAX_FUSED_BLOCKS
        {
            return;
        }
        let both = [current, next].map(|block| &self.blocks[block as usize]);
        let accesses: usize = both.iter().map(|block| block.accesses.len()).sum();
        let instructions: usize =
            both.iter().map(|block| block.instruction_sizes_bytes.len()).sum();
        if accesses > MAX_FUSED_ACCESSES || instructions > MAX_FUSED_INSTRUCTIONS {
            return;
        }
        self.successors[current as usize] = Successor { block: next, fused: 0, seen: 1 };
    }

    fn fuse_pair(&mut self, current: BlockId, next: BlockId) {
        let mut block = self.blocks[current as usize].clone();
        let second = &self.blocks[next as usize];
        let shift = block.instruction_sizes_bytes.len() as u16;
        block.instruction_sizes_bytes.extend_from_slice(&second.instruction_sizes_bytes);
        let shifted =
            |access: &Access| Access { instruction: access.instruction + shift, ..*access };
        block.accesses.extend(second.accesses.iter().map(shifted));
        if self.fused_accesses + block.accesses.len() > FUSED_ACCESSES {
            self.may_fuse = 0;
            return;
        }
        self.fused_accesses += block.accesses.len();
        self.fused_blocks += 1;
        self.may_fuse -= 1;
        let fused = self.push(block, self.extents[current as usize].blocks + 1);
        self.successors[current as usize].fused = fused;
    }
}
