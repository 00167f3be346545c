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

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::BlockId;

/// How many places back a base may lie.
pub(crate) const FARTHEST_BASE: usize = 15;

/// Most accesses in one block, so that decoding a block needs one bounds check.
pub(crate) const MAX_BLOCK_ACCESSES: usize = 4096;

/// How often an access is looked at, at most, to choose its base.
const TRAINING_EXECUTIONS: u8 = 64;

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

    fn of_block(&self, block: BlockId) -> Range<usize> {
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

/// Sixteen bytes, because a program has hundreds of thousands of accesses.
#[derive(Clone, Copy, Default)]
struct AccessState {
    /// With its own last address as the base: that address. Else: the distance from the base.
    value: u64,
    /// The last distance, cut to what fits: the stride, where the base is the own last address.
    stride: i32,
    /// How many places back the base lies; 0 for the own last address.
    base: u32,
}

impl AccessState {
    /// The distance from the base that is expected.
    #[inline(always)]
    fn expected_distance(self) -> u64 {
        if self.base == 0 { i64::from(self.stride) as u64 } else { self.value }
    }

    #[inline(always)]
    fn remember(&mut self, address: u64, distance: u64) {
        self.value = if self.base == 0 { address } else { distance };
        self.stride = distance as i32;
    }
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

/// What is being learned of an access.
#[derive(Clone, Copy, Default)]
struct Training {
    last: u64,
    /// The last distance from each base, and what its changes would have cost so far.
    distances: [u64; FARTHEST_BASE + 1],
    cost_bytes: [u16; FARTHEST_BASE + 1],
}

/// Codes chunks; keeps its memory, and what it knows of bases, from one to the next.
#[derive(Default)]
pub(crate) struct Encoder {
    blocks: Vec<BlockState>,
    accesses: Vec<AccessState>,
    /// The best base so far and the number of executions that it was learned from.
    learned: Vec<(u8, u8)>,
    /// Accesses still being learned have a place in `training`, given by this; place 0 means none.
    training_places: Vec<u32>,
    training: Vec<Training>,
    free_places: Vec<u32>,
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
        fresh_blocks(layout, &mut self.blocks);
        self.learn_bases(layout, blocks, addresses);
        self.accesses.clear();
        self.accesses.extend(
            self.learned
                .iter()
                .map(|&(base, _)| AccessState { base: u32::from(base), ..AccessState::default() }),
        );
        streams.clear();
        streams.bases.extend(
            self.learned
                .chunks(2)
                .map(|pair| pair[0].0 | pair.get(1).map_or(0, |&(base, _)| base << 4)),
        );
        self.encode_blocks(blocks, streams);
        self.encode_addresses(layout, blocks, addresses, streams);
    }

    fn encode_blocks(&mut self, blocks: &[BlockId], streams: &mut Streams) {
        streams.block_tokens.resize(blocks.len().div_ceil(4), 0);
        let mut previous = 0;
        for (index, &block) in blocks.iter().enumerate() {
            let successors = &mut self.blocks[previous as usize].successors;
            if successors[0] != block {
                let token = successors.iter().position(|&s| s == block).unwrap_or(3);
                streams.block_tokens[index / 4] |= (token << (index % 4 * 2)) as u8;
                if token == 3 {
                    let distance = i64::from(block) - i64::from(previous) - 1;
                    put_varint(&mut streams.block_escapes, zigzag(distance));
                }
                remember_successor(successors, token, block);
            }
            previous = block;
        }
    }

    fn encode_addresses(
        &mut self,
        layout: &Layout,
        blocks: &[BlockId],
        addresses: &[u64],
        streams: &mut Streams,
    ) {
        streams.address_tokens.resize(addresses.len().div_ceil(2), 0);
        let payload = &mut streams.payload;
        let mut payload_done = 0;
        let mut position = 0;
        for &block in blocks {
            for access in &mut self.accesses[layout.of_block(block)] {
                let address = addresses[position];
                let base = match access.base as usize {
                    0 => access.value,
                    back => position.checked_sub(back).map_or(0, |p| addresses[p]),
                };
                let distance = address.wrapping_sub(base);
                if distance != access.expected_distance() {
                    let length = payload_length(distance);
                    streams.address_tokens[position / 2] |= (length << (position % 2 * 4)) as u8;
                    if payload_done + 8 > payload.len() {
                        payload.resize(2 * payload.len() + 4096, 0);
                    }
                    // The next distance overwrites what is too much.
                    payload[payload_done..payload_done + 8]
                        .copy_from_slice(&distance.to_le_bytes());
                    payload_done += length;
                }
                access.remember(address, distance);
                position += 1;
            }
        }
        payload.truncate(payload_done);
    }

    /// Finds for each access the base from which its first executions are best predicted.
    fn learn_bases(&mut self, layout: &Layout, blocks: &[BlockId], addresses: &[u64]) {
        self.learned.resize(layout.accesses(), (0, 0));
        self.training_places.resize(layout.accesses(), 0);
        let mut position = 0;
        for &block in blocks {
            for access in layout.of_block(block) {
                if self.learned[access].1 < TRAINING_EXECUTIONS {
                    self.learn_base(access, addresses, position);
                }
                position += 1;
            }
        }
    }

    #[cold]
    fn learn_base(&mut self, access: usize, addresses: &[u64], position: usize) {
        if self.training.is_empty() {
            self.training.push(Training::default());
        }
        let place = &mut self.training_places[access];
        if *place == 0 {
            *place = self.free_places.pop().unwrap_or_else(|| {
                self.training.push(Training::default());
                self.training.len() as u32 - 1
            });
            self.training[*place as usize] = Training::default();
        }
        let training = &mut self.training[*place as usize];
        let address = addresses[position];
        for back in 0..=FARTHEST_BASE {
            let base = match back {
                0 => training.last,
                _ => position.checked_sub(back).map_or(0, |p| addresses[p]),
            };
            let distance = address.wrapping_sub(base);
            if distance != training.distances[back] {
                training.cost_bytes[back] += payload_length(distance) as u16;
            }
            training.distances[back] = distance;
        }
        training.last = address;
        let cheapest = (0..=FARTHEST_BASE).min_by_key(|&back| training.cost_bytes[back]);
        let learned = &mut self.learned[access];
        *learned = (cheapest.unwrap_or(0) as u8, learned.1 + 1);
        if learned.1 == TRAINING_EXECUTIONS {
            self.free_places.push(std::mem::take(place));
        }
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

/// Decodes a chunk in steps, each in three passes over a batch, because each pass alone has a
/// simple inner loop: the block numbers; the list of all accesses of those blocks; the addresses.
/// None of them has a branch that depends on how many accesses a block has or how long a payload
/// is, for a processor would mispredict it.
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
    /// The accesses of the batch's blocks, as indices into `accesses`; the rest is scratch.
    sequence: Vec<u32>,
    /// The last addresses, latest last.
    recent: [u64; FARTHEST_BASE],
}

/// What one token says of its payload.
#[derive(Clone, Copy)]
struct PayloadShape {
    /// The bytes that belong to it.
    mask: u64,
    /// Its highest bit.
    sign: u64,
    length: usize,
}

const PAYLOAD_SHAPES: [PayloadShape; 16] = {
    let mut shapes = [PayloadShape { mask: 0, sign: 0, length: 0 }; 16];
    let mut token = 1;
    while token < 16 {
        let length = if token < 8 { token } else { 8 };
        shapes[token] =
            PayloadShape { mask: u64::MAX >> (64 - 8 * length), sign: 1 << (8 * length - 1), length };
        token += 1;
    }
    shapes
};

/// Accesses of a block that are listed without a branch.
const LISTED_AT_ONCE: usize = 8;

/// The payload stream is followed by this many bytes, so that a batch of half as many addresses as
/// a batch of the usual size has can be decoded without looking where the stream ends.
const PAYLOAD_PADDING_BYTES: usize = 8 * 32768;

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
            AccessState { base: u32::from(base), ..AccessState::default() }
        }));
        self.payload_bytes = self.streams.payload.len();
        self.streams.payload.resize(self.payload_bytes + PAYLOAD_PADDING_BYTES + 8, 0);
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
        let start = blocks.len();
        self.decode_blocks(max_blocks, blocks)?;
        let count = self.list_accesses(&blocks[start..]);
        if count > self.address_count - self.addresses_done {
            return Err("it makes more accesses than it has addresses");
        }
        self.decode_addresses(count, addresses)?;
        if self.blocks_done == self.block_count
            && (self.addresses_done != self.address_count
                || self.payload_done != self.payload_bytes
                || self.escapes_done != self.streams.block_escapes.len())
        {
            return Err("it holds more than its blocks need");
        }
        Ok(())
    }

    fn decode_blocks(
        &mut self,
        max_blocks: usize,
        blocks: &mut Vec<BlockId>,
    ) -> Result<(), &'static str> {
        let end = self.block_count.min(self.blocks_done + max_blocks);
        let defined = self.blocks.len() - 1;
        let mut previous = self.previous as usize;
        blocks.reserve(end - self.blocks_done);
        for index in self.blocks_done..end {
            let token = (self.streams.block_tokens[index / 4] >> (index % 4 * 2)) & 3;
            let successors = &mut self.blocks[previous].successors;
            let block = if token == 0 {
                successors[0]
            } else {
                let block = if token < 3 {
                    successors[token as usize]
                } else {
                    let distance = take_varint(&self.streams.block_escapes, &mut self.escapes_done)
                        .ok_or("the block escape stream ends early")?;
                    let block = (previous as i64 + 1).wrapping_add(unzigzag(distance));
                    if block < 0 || block >= defined as i64 {
                        return Err("it executes a block that is not defined");
                    }
                    block as BlockId
                };
                remember_successor(successors, token as usize, block);
                block
            };
            blocks.push(block);
            previous = block as usize;
        }
        self.previous = previous as BlockId;
        self.blocks_done = end;
        Ok(())
    }

    /// Lists the accesses of `blocks` in `self.sequence` and returns how many there are.
    fn list_accesses(&mut self, blocks: &[BlockId]) -> usize {
        let mut count = 0;
        for &block in blocks {
            let block = block as usize;
            let first = self.blocks[block].first_access;
            let accesses = (self.blocks[block + 1].first_access - first) as usize;
            let room = count + accesses.max(LISTED_AT_ONCE);
            if room > self.sequence.len() {
                self.sequence.resize(2 * room, 0);
            }
            let places = &mut self.sequence[count..room];
            for (place, access) in places[..LISTED_AT_ONCE].iter_mut().zip(first..) {
                *place = access;
            }
            if accesses > LISTED_AT_ONCE {
                for (place, access) in places.iter_mut().zip(first..) {
                    *place = access;
                }
            }
            count += accesses;
        }
        count
    }

    /// Decodes the addresses of the `count` accesses that are listed.
    fn decode_addresses(
        &mut self,
        count: usize,
        addresses: &mut Vec<u64>,
    ) -> Result<(), &'static str> {
        let start = addresses.len();
        addresses.reserve(count);
        let mut done = 0;
        while done < count {
            let end = count.min(done + PAYLOAD_PADDING_BYTES / 8);
            self.decode_some_addresses(done..end, &mut addresses.spare_capacity_mut()[..count]);
            if self.payload_done > self.payload_bytes {
                return Err("the payload stream ends early");
            }
            done = end;
        }
        // SAFETY: the loop has written all `count` places.
        unsafe { addresses.set_len(start + count) };
        self.addresses_done += count;
        let new = &addresses[start..];
        if new.len() >= FARTHEST_BASE {
            self.recent.copy_from_slice(&new[new.len() - FARTHEST_BASE..]);
        } else {
            self.recent.copy_within(new.len().., 0);
            self.recent[FARTHEST_BASE - new.len()..].copy_from_slice(new);
        }
        Ok(())
    }

    /// Decodes the addresses of the listed accesses `range` into their `places`; those before it
    /// are decoded already. The range is at most as long as the payload's padding allows, and all
    /// payload used so far lies inside the stream.
    fn decode_some_addresses(&mut self, range: Range<usize>, places: &mut [MaybeUninit<u64>]) {
        let sequence = &self.sequence[range.clone()];
        let tokens_done = self.addresses_done;
        let tokens = &self.streams.address_tokens[..(tokens_done + range.end).div_ceil(2)];
        let padded_payload = &self.streams.payload;
        let mut payload_done = self.payload_done;
        assert!(
            range.end <= places.len()
                && payload_done + 8 * sequence.len() + 8 <= padded_payload.len()
        );
        let out = places.as_mut_ptr().cast::<u64>();
        for (index, &access) in range.zip(sequence) {
            // SAFETY: `sequence` was made by `list_accesses` from blocks that are defined, so it
            // has only numbers of accesses that there are; the slice of tokens reaches to the
            // range's end; each round uses at most 8 bytes of payload, for which the assertion
            // leaves room, and 8 to read; `places` reaches to the range's end, and the places
            // before `index` are written; `base` is at most FARTHEST_BASE (four bits).
            unsafe {
                let state = self.accesses.get_unchecked_mut(access as usize);
                let token = tokens_done + index;
                let token = (tokens.get_unchecked(token / 2) >> (token % 2 * 4)) & 15;
                let shape = &PAYLOAD_SHAPES[token as usize];
                let payload = padded_payload.as_ptr().add(payload_done).cast::<u64>();
                let payload = u64::from_le(payload.read_unaligned()) & shape.mask;
                let payload = (payload ^ shape.sign).wrapping_sub(shape.sign);
                payload_done += shape.length;
                let back = state.base as usize;
                let base: *const u64 = if back == 0 {
                    &raw const state.value
                } else if back <= index {
                    out.add(index - back)
                } else {
                    self.recent.as_ptr().add(FARTHEST_BASE + index - back)
                };
                let expected = state.expected_distance();
                let distance = if token == 0 { expected } else { payload };
                let address = (*base).wrapping_add(distance);
                state.remember(address, distance);
                out.add(index).write(address);
            }
        }
        self.payload_done = payload_done;
    }
}
