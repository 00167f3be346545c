//! Predictive coding of one chunk: block numbers and addresses to byte streams and back.
//!
//! Coder and decoder keep the same state and make the same predictions; the streams say only
//! whether the prediction held, and what was instead. All state starts afresh in each chunk.
//!
//! Blocks: every block remembers the three blocks that followed it last. A two-bit token says which
//! of them comes next, or that the number stands in the escape stream.
//!
//! Addresses: every access of every block has a *base* and a remembered *distance*; it is predicted
//! at base + distance. The base is either its own last address (then the distance is a stride) or
//! the address of the access that many places earlier in the program (then it is an offset between
//! neighbours: fields of one object, slots of one stack frame). Which base predicts best is found
//! by the writer and said once in a chunk for each access. A four-bit token gives the length of the
//! new distance in the payload stream, or 0 where the old one held, so that decoding an address
//! takes no branch.

use crate::BlockId;

/// How many places back a base may lie.
pub(crate) const FARTHEST_BASE: usize = 15;

/// Most accesses in one block, so that decoding a block needs one bounds check.
pub(crate) const MAX_BLOCK_ACCESSES: usize = 4096;

/// Bytes of a new distance by token; the distance is sign-extended.
const PAYLOAD_BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8];

/// How often an access is looked at, at most, to choose its base.
const TRAINING_EXECUTIONS: u32 = 64;

/// Where each block's accesses stand when all accesses of all blocks are numbered through.
#[derive(Debug)]
pub(crate) struct Layout {
    /// First access of each block, and one entry more: the number of all accesses.
    first_access: Vec<u32>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { first_access: vec![0] }
    }
}

impl Layout {
    pub(crate) fn push(&mut self, accesses: usize) {
        self.first_access.push(self.accesses() as u32 + accesses as u32);
    }

    pub(crate) fn blocks(&self) -> usize {
        self.first_access.len() - 1
    }

    pub(crate) fn accesses(&self) -> usize {
        *self.first_access.last().unwrap_or(&0) as usize
    }

    fn of_block(&self, block: BlockId) -> std::ops::Range<usize> {
        self.first_access[block as usize] as usize..self.first_access[block as usize + 1] as usize
    }
}

/// The dynamic part of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// A four-bit base for each access of each block, two to a byte, the first low.
    pub bases: Vec<u8>,
    /// A two-bit token for each block, four to a byte, the first lowest.
    pub block_tokens: Vec<u8>,
    /// For each token 3: LEB128 of the zigzag distance from the block before, plus one.
    pub block_escapes: Vec<u8>,
    /// A four-bit token for each address, two to a byte, the first low.
    pub address_tokens: Vec<u8>,
    /// New distances, little-endian.
    pub payload: Vec<u8>,
}

impl Streams {
    pub(crate) fn clear(&mut self) {
        self.bases.clear();
        self.block_tokens.clear();
        self.block_escapes.clear();
        self.address_tokens.clear();
        self.payload.clear();
    }
}

#[derive(Clone, Copy)]
struct BlockState {
    /// The blocks that followed last, latest first.
    successors: [BlockId; 3],
    first_access: u32,
}

#[derive(Clone, Copy, Default)]
struct AccessState {
    last: u64,
    distance: u64,
    base: u8,
}

fn fresh_blocks(layout: &Layout, states: &mut Vec<BlockState>) {
    let last = layout.blocks().saturating_sub(1) as BlockId;
    states.clear();
    states.extend(layout.first_access.iter().enumerate().map(|(block, &first_access)| {
        let next = |distance| (block as BlockId).saturating_add(distance).min(last);
        BlockState { successors: [next(1), next(2), next(3)], first_access }
    }));
}

pub(crate) fn put_varint(stream: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        stream.push(value as u8 | 0x80);
        value >>= 7;
    }
    stream.push(value as u8);
}

pub(crate) fn take_varint(stream: &[u8], position: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *stream.get(*position)?;
        *position += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn payload_length(distance: u64) -> usize {
    let magnitude = (distance as i64 ^ ((distance as i64) >> 63)) as u64;
    // One bit more for the sign, and at least a byte: token 0 means something else.
    ((64 - magnitude.leading_zeros() as usize) / 8 + 1).min(8)
}

/// Writes tokens of `BITS` bits, lowest first.
struct TokenWriter<'a, const BITS: usize> {
    stream: &'a mut Vec<u8>,
    count: usize,
}

impl<const BITS: usize> TokenWriter<'_, BITS> {
    fn push(&mut self, token: u8) {
        let shift = self.count * BITS % 8;
        if shift == 0 {
            self.stream.push(token);
        } else if let Some(byte) = self.stream.last_mut() {
            *byte |= token << shift;
        }
        self.count += 1;
    }
}

/// Codes chunks; keeps its memory from one to the next.
#[derive(Default)]
pub(crate) struct Encoder {
    blocks: Vec<BlockState>,
    accesses: Vec<AccessState>,
}

impl Encoder {
    /// Codes `blocks` and the `addresses` that they access into `streams` (cleared first).
    pub(crate) fn encode(
        &mut self,
        layout: &Layout,
        blocks: &[BlockId],
        addresses: &[u64],
        streams: &mut Streams,
    ) {
        streams.clear();
        fresh_blocks(layout, &mut self.blocks);
        self.choose_bases(layout, blocks, addresses);
        let mut bases = TokenWriter::<4> { stream: &mut streams.bases, count: 0 };
        for access in &self.accesses {
            bases.push(access.base);
        }
        let mut block_tokens = TokenWriter::<2> { stream: &mut streams.block_tokens, count: 0 };
        let mut address_tokens = TokenWriter::<4> { stream: &mut streams.address_tokens, count: 0 };
        let mut previous = 0;
        let mut position = 0;
        for &block in blocks {
            let successors = &mut self.blocks[previous as usize].successors;
            let token = successors.iter().position(|&s| s == block).unwrap_or(3);
            block_tokens.push(token as u8);
            if token == 3 {
                let distance = i64::from(block) - i64::from(previous) - 1;
                put_varint(&mut streams.block_escapes, zigzag(distance));
            }
            remember_successor(successors, token, block);
            previous = block;
            for access in &mut self.accesses[layout.of_block(block)] {
                let address = addresses[position];
                let base = match access.base as usize {
                    0 => access.last,
                    back => position.checked_sub(back).map_or(0, |p| addresses[p]),
                };
                let distance = address.wrapping_sub(base);
                if distance == access.distance {
                    address_tokens.push(0);
                } else {
                    let length = payload_length(distance);
                    address_tokens.push(length as u8);
                    streams.payload.extend_from_slice(&distance.to_le_bytes()[..length]);
                }
                access.distance = distance;
                access.last = address;
                position += 1;
            }
        }
    }

    /// Finds for each access the base from which its first executions are best predicted.
    fn choose_bases(&mut self, layout: &Layout, blocks: &[BlockId], addresses: &[u64]) {
        #[derive(Clone, Copy, Default)]
        struct Training {
            executions: u32,
            last: u64,
            distances: [u64; FARTHEST_BASE + 1],
            cost_bytes: [u32; FARTHEST_BASE + 1],
        }
        let mut training = vec![Training::default(); layout.accesses()];
        let mut position = 0;
        for &block in blocks {
            for access in &mut training[layout.of_block(block)] {
                let address = addresses[position];
                if access.executions < TRAINING_EXECUTIONS {
                    access.executions += 1;
                    for back in 0..=FARTHEST_BASE {
                        let base = match back {
                            0 => access.last,
                            _ => position.checked_sub(back).map_or(0, |p| addresses[p]),
                        };
                        let distance = address.wrapping_sub(base);
                        if distance != access.distances[back] {
                            access.cost_bytes[back] += payload_length(distance) as u32;
                        }
                        access.distances[back] = distance;
                    }
                    access.last = address;
                }
                position += 1;
            }
        }
        self.accesses.clear();
        self.accesses.extend(training.iter().map(|access| {
            let cheapest = (0..=FARTHEST_BASE).min_by_key(|&back| access.cost_bytes[back]);
            AccessState { base: cheapest.unwrap_or(0) as u8, ..AccessState::default() }
        }));
    }
}

/// Moves `block`, found at `token`, to the front of the remembered successors.
#[inline(always)]
fn remember_successor(successors: &mut [BlockId; 3], token: usize, block: BlockId) {
    if token >= 1 {
        if token >= 2 {
            successors[2] = successors[1];
        }
        successors[1] = successors[0];
        successors[0] = block;
    }
}

/// Decodes a chunk in steps.
#[derive(Default)]
pub(crate) struct Decoder {
    blocks: Vec<BlockState>,
    accesses: Vec<AccessState>,
    streams: Streams,
    block_count: usize,
    address_count: usize,
    payload_bytes: usize,
    previous: BlockId,
    blocks_done: usize,
    addresses_done: usize,
    escapes_done: usize,
    payload_done: usize,
    /// The last addresses, latest last.
    recent: [u64; FARTHEST_BASE],
}

impl Decoder {
    /// The streams' memory, to be filled with a chunk before `start`.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    pub(crate) fn blocks_left(&self) -> usize {
        self.block_count - self.blocks_done
    }

    pub(crate) fn blocks_done(&self) -> usize {
        self.blocks_done
    }

    /// Nothing to decode until the next `start`.
    pub(crate) fn stop(&mut self) {
        self.block_count = 0;
        self.blocks_done = 0;
    }

    /// Makes ready to decode the chunk in `streams`.
    pub(crate) fn start(
        &mut self,
        layout: &Layout,
        block_count: usize,
        address_count: usize,
    ) -> Result<(), &'static str> {
        self.stop();
        if self.streams.bases.len() != layout.accesses().div_ceil(2) {
            return Err("the base stream has the wrong length");
        }
        if self.streams.block_tokens.len() != block_count.div_ceil(4) {
            return Err("the block token stream has the wrong length");
        }
        if self.streams.address_tokens.len() != address_count.div_ceil(2) {
            return Err("the address token stream has the wrong length");
        }
        if block_count > 0 && layout.blocks() == 0 {
            return Err("it executes blocks and none is defined");
        }
        fresh_blocks(layout, &mut self.blocks);
        self.accesses.clear();
        self.accesses.extend((0..layout.accesses()).map(|access| {
            let base = (self.streams.bases[access / 2] >> (access % 2 * 4)) & 15;
            AccessState { base, ..AccessState::default() }
        }));
        self.payload_bytes = self.streams.payload.len();
        // So that a block's payload can be loaded before it is known to be whole.
        self.streams.payload.resize(self.payload_bytes + 8 * MAX_BLOCK_ACCESSES + 8, 0);
        self.block_count = block_count;
        self.address_count = address_count;
        self.previous = 0;
        self.addresses_done = 0;
        self.escapes_done = 0;
        self.payload_done = 0;
        self.recent = [0; FARTHEST_BASE];
        Ok(())
    }

    /// Appends up to `max_blocks` blocks with their addresses.
    pub(crate) fn decode(
        &mut self,
        max_blocks: usize,
        blocks: &mut Vec<BlockId>,
        addresses: &mut Vec<u64>,
    ) -> Result<(), &'static str> {
        let end = self.block_count.min(self.blocks_done + max_blocks);
        let start = addresses.len();
        while self.blocks_done < end {
            let token =
                (self.streams.block_tokens[self.blocks_done / 4] >> (self.blocks_done % 4 * 2)) & 3;
            let defined = self.blocks.len() as i64 - 1;
            let state = &mut self.blocks[self.previous as usize];
            let block = if token < 3 {
                state.successors[token as usize]
            } else {
                let distance = take_varint(&self.streams.block_escapes, &mut self.escapes_done)
                    .ok_or("the block escape stream ends early")?;
                let block = (i64::from(self.previous) + 1).wrapping_add(unzigzag(distance));
                if block < 0 || block >= defined {
                    return Err("it executes a block that is not defined");
                }
                block as BlockId
            };
            remember_successor(&mut state.successors, token as usize, block);
            self.previous = block;
            blocks.push(block);
            let first = self.blocks[block as usize].first_access as usize;
            let after = self.blocks[block as usize + 1].first_access as usize;
            if self.addresses_done + (after - first) > self.address_count {
                return Err("it makes more accesses than it has addresses");
            }
            for access in &mut self.accesses[first..after] {
                let token = (self.streams.address_tokens[self.addresses_done / 2]
                    >> (self.addresses_done % 2 * 4))
                    & 15;
                let length = PAYLOAD_BYTES[token as usize] as usize;
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.streams.payload[self.payload_done..][..8]);
                let shift = 64 - 8 * length as u32;
                let base = match access.base as usize {
                    0 => access.last,
                    back if back <= addresses.len() - start => addresses[addresses.len() - back],
                    back => self.recent[FARTHEST_BASE + addresses.len() - start - back],
                };
                if token != 0 {
                    access.distance = ((i64::from_le_bytes(bytes) << shift) >> shift) as u64;
                }
                access.last = base.wrapping_add(access.distance);
                addresses.push(access.last);
                self.payload_done += length;
                self.addresses_done += 1;
            }
            if self.payload_done > self.payload_bytes {
                return Err("the payload stream ends early");
            }
            self.blocks_done += 1;
        }
        let new = &addresses[start..];
        if new.len() >= FARTHEST_BASE {
            self.recent.copy_from_slice(&new[new.len() - FARTHEST_BASE..]);
        } else {
            self.recent.copy_within(new.len().., 0);
            self.recent[FARTHEST_BASE - new.len()..].copy_from_slice(new);
        }
        if self.blocks_done == self.block_count
            && (self.addresses_done != self.address_count
                || self.payload_done != self.payload_bytes
                || self.escapes_done != self.streams.block_escapes.len())
        {
            return Err("it holds more than its blocks need");
        }
        Ok(())
    }
}
