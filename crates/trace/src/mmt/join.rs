//! Joins blocks that are executed one after the other and lie one behind the other.
//!
//! A block ends where the recorder saw a way out, taken or not. Where it is mostly not taken, the
//! block and the one behind it may as well be one: a trace of fewer blocks is smaller and is read
//! and replayed faster. A joined block is a block like any other; what is executed stays the same.

use super::container::{MAX_ACCESSES, MAX_BLOCKS};
use crate::{Access, Block, BlockId};

/// How often a pair must have been executed before it is joined. Less, and the blocks that are
/// joined for nothing cost more than they save.
const WORTH_JOINING: u32 = 64;

/// How many source blocks, accesses and instructions a joined block may have.
const MAX_JOINED_BLOCKS: u8 = 16;
const MAX_JOINED_ACCESSES: usize = 16;
const MAX_JOINED_INSTRUCTIONS: usize = 512;

/// A joined block stays on one page of this length, where its instructions have one translation.
const PAGE_BYTES: u64 = 4096;

/// How much of what a trace may define is left for joined blocks.
pub(crate) const JOINED_BLOCKS: usize = MAX_BLOCKS / 4;
pub(crate) const JOINED_ACCESSES: usize = MAX_ACCESSES / 4;
/// As many may be defined in a chunk: less than a kilobyte each.
pub(crate) const CHUNK_JOINED_BLOCKS: usize = 1 << 15;

/// The block that may be joined to a block: the first that was executed behind it without a jump,
/// and mostly the only one.
#[derive(Clone, Copy, Default)]
struct Follower {
    /// Its number in the file.
    block: BlockId,
    /// What both together are; 0, which no joined block is, as long as they are not joined.
    joined: BlockId,
    /// How often it followed while they were not joined; 0 where nothing has followed.
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
pub(crate) struct Joiner {
    /// All blocks of the file.
    blocks: Vec<Block>,
    extents: Vec<Extent>,
    followers: Vec<Follower>,
    /// For each of the source's blocks its number in the file.
    numbers: Vec<BlockId>,
    joined_blocks: usize,
    joined_accesses: usize,
    /// Blocks that may still be joined in this chunk.
    may_join: usize,
}

impl Joiner {
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
        self.followers.push(Follower::default());
        self.blocks.push(block);
        (self.blocks.len() - 1) as BlockId
    }

    /// Begins a chunk.
    pub(crate) fn begin_chunk(&mut self) {
        let left = JOINED_BLOCKS - self.joined_blocks;
        self.may_join = left.min(CHUNK_JOINED_BLOCKS);
    }

    /// Appends to `joined` what is executed when the source's blocks `executed` are.
    pub(crate) fn join(&mut self, executed: &[BlockId], joined: &mut Vec<BlockId>) {
        let mut executed = executed.iter().map(|&block| block as usize);
        let Some(first) = executed.next() else { return };
        let mut current = self.numbers[first];
        for block in executed {
            let next = self.numbers[block];
            let follower = &mut self.followers[current as usize];
            if follower.seen == 0 {
                self.meet(current, next);
            } else if follower.block == next {
                if follower.joined > 0 {
                    current = follower.joined;
                    continue;
                }
                follower.seen = follower.seen.saturating_add(1);
                if follower.seen >= WORTH_JOINING && self.may_join > 0 {
                    self.join_pair(current, next);
                }
            }
            joined.push(current);
            current = next;
        }
        joined.push(current);
    }

    /// Notes that `next` was executed behind `current`, if they may become one.
    fn meet(&mut self, current: BlockId, next: BlockId) {
        let (first, second) = (self.extents[current as usize], self.extents[next as usize]);
        if first.end != second.start
            || (first.start ^ second.end.wrapping_sub(1)) >= PAGE_BYTES
            || first.blocks >= MAX_JOINED_BLOCKS
        {
            return;
        }
        let both = [current, next].map(|block| &self.blocks[block as usize]);
        let accesses: usize = both.iter().map(|block| block.accesses.len()).sum();
        let instructions: usize =
            both.iter().map(|block| block.instruction_sizes_bytes.len()).sum();
        if accesses > MAX_JOINED_ACCESSES || instructions > MAX_JOINED_INSTRUCTIONS {
            return;
        }
        self.followers[current as usize] = Follower { block: next, joined: 0, seen: 1 };
    }

    fn join_pair(&mut self, current: BlockId, next: BlockId) {
        let mut block = self.blocks[current as usize].clone();
        let second = &self.blocks[next as usize];
        let shift = block.instruction_sizes_bytes.len() as u16;
        block.instruction_sizes_bytes.extend_from_slice(&second.instruction_sizes_bytes);
        let shifted =
            |access: &Access| Access { instruction: access.instruction + shift, ..*access };
        block.accesses.extend(second.accesses.iter().map(shifted));
        if self.joined_accesses + block.accesses.len() > JOINED_ACCESSES {
            self.may_join = 0;
            return;
        }
        self.joined_accesses += block.accesses.len();
        self.joined_blocks += 1;
        self.may_join -= 1;
        let joined = self.push(block, self.extents[current as usize].blocks + 1);
        self.followers[current as usize].joined = joined;
    }
}
