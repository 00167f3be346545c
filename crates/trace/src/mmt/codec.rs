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
//!
//! Line crossings: where the addresses are that span a multiple of sixteen bytes, so that nobody
//! need look at all of them.

use std::hint::select_unpredictable;
use std::ops::Range;

use super::container::MAX_ACCESSES;
use crate::{Access, Batch, BlockId, LineCrossing};

/// How many places back a base may lie.
pub(crate) const FARTHEST_BASE: usize = 15;

/// Most accesses in one block, so that a few blocks cannot fill a chunk.
pub(crate) const MAX_BLOCK_ACCESSES: usize = 4096;

/// How often an access is looked at, at most, in each chunk to choose its base.
const LEARNING_EXECUTIONS: u8 = 16;

/// Where each block's accesses stand when all accesses of all blocks are numbered through.
#[derive(Debug)]
pub(crate) struct Layout {
    /// First access of each block, and one entry more: the number of all accesses.
    first_access: Vec<u32>,
    /// What to add to the address of each access for its last byte.
    last_bytes: Vec<u16>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { first_access: vec![0], last_bytes: Vec::new() }
    }
}

impl Layout {
    pub(crate) fn push(&mut self, accesses: &[Access]) {
        self.last_bytes.extend(accesses.iter().map(Access::last_byte));
        self.first_access.push(self.last_bytes.len() as u32);
    }

    pub(crate) fn blocks(&self) -> usize {
        self.first_access.len() - 1
    }

    pub(crate) fn accesses(&self) -> usize {
        self.last_bytes.len()
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
    /// For each crossing the number of addresses since the one before, as LEB128.
    pub crossings: Vec<u8>,
}

impl Streams {
    pub(crate) fn clear(&mut self) {
        self.bases.clear();
        self.block_tokens.clear();
        self.block_escapes.clear();
        self.address_tokens.clear();
        self.payload.clear();
        self.crossings.clear();
    }
}

/// What is used at each execution of a block: eight bytes, for the processor's caches.
#[derive(Clone, Copy)]
struct BlockState {
    /// The block that followed last.
    successor: BlockId,
    /// The first access, and in the lowest `COUNT_BITS` how many there are, or `MANY`.
    accesses: u32,
}

/// The blocks that followed before the last, latest first.
type OtherSuccessors = [BlockId; 2];

const COUNT_BITS: u32 = u32::BITS - MAX_ACCESSES.ilog2();
/// This many accesses or more: the layout says how many.
const MANY: u32 = (1 << COUNT_BITS) - 1;

/// What is remembered of an access: sixteen bytes, four to a cache line.
#[derive(Clone, Copy)]
struct AccessState {
    last: u64,
    /// From the base to the last address, of which the highest bits are lost.
    distance: i32,
    /// Where the base is: how many places on, which is never ahead, or 0 for the own last address.
    base: i32,
}

impl AccessState {
    fn new(base: u8) -> Self {
        Self { last: 0, distance: 0, base: -i32::from(base) }
    }
}

fn fresh_blocks(
    layout: &Layout,
    states: &mut Vec<BlockState>,
    other_successors: &mut Vec<OtherSuccessors>,
) {
    let last = layout.blocks().saturating_sub(1) as BlockId;
    let next = |block: usize, distance| (block as BlockId).saturating_add(distance).min(last);
    states.clear();
    states.extend(layout.first_access.windows(2).enumerate().map(|(block, accesses)| {
        let count = (accesses[1] - accesses[0]).min(MANY);
        BlockState { successor: next(block, 1), accesses: accesses[0] << COUNT_BITS | count }
    }));
    other_successors.clear();
    other_successors.extend((0..layout.blocks()).map(|block| [next(block, 2), next(block, 3)]));
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

/// What is known of an access, from which its base is chosen.
#[derive(Clone, Copy, Default)]
struct Learned {
    /// How well each base predicted; older chunks count less.
    scores: [u16; FARTHEST_BASE + 1],
    /// Place of its last execution in the chunk, plus one.
    last_position: u32,
}

impl Learned {
    /// Looks at the execution at `position`: would the distance from each base at the execution
    /// before have been right, or at least short to say?
    fn look(&mut self, addresses: &[u64], position: usize) {
        let before = self.last_position as usize;
        self.last_position = position as u32 + 1;
        if before <= FARTHEST_BASE {
            return;
        }
        let before = before - 1;
        let now = &addresses[position - FARTHEST_BASE..=position];
        let then = &addresses[before - FARTHEST_BASE..=before];
        let (address, old_address) = (addresses[position], addresses[before]);
        for back in 1..=FARTHEST_BASE {
            let distance = address.wrapping_sub(now[FARTHEST_BASE - back]);
            let old_distance = old_address.wrapping_sub(then[FARTHEST_BASE - back]);
            self.scores[back] += score(distance, old_distance);
        }
        // Its stride is not kept; a distance of nothing is the commonest.
        self.scores[0] += score(address.wrapping_sub(old_address), 0);
    }

    /// The best base for access `index` of a block; forgets half of what led to it. Of those that
    /// are as good it is the own last address, or the farthest in the block: a reader then has to
    /// wait for fewer addresses one after the other.
    fn choose(&mut self, index: usize) -> u8 {
        let first = index.min(FARTHEST_BASE);
        let order = (first + 1..=FARTHEST_BASE).rev().chain(1..=first).chain([0]);
        let best = order.max_by_key(|&back| self.scores[back]);
        for score in &mut self.scores {
            *score /= 2;
        }
        self.last_position = 0;
        best.unwrap_or(0) as u8
    }
}

#[inline(always)]
fn score(distance: u64, expected: u64) -> u16 {
    4 * u16::from(distance == expected) + u16::from(distance.wrapping_add(1 << 15) < 1 << 16)
}

/// Codes chunks; keeps its memory, and what it knows of bases, from one to the next.
#[derive(Default)]
pub(crate) struct Encoder {
    blocks: Vec<BlockState>,
    other_successors: Vec<OtherSuccessors>,
    accesses: Vec<AccessState>,
    bases: Vec<u8>,
    learned: Vec<Learned>,
    /// Executions of each block that were looked at in this chunk.
    looked_at: Vec<u8>,
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
        fresh_blocks(layout, &mut self.blocks, &mut self.other_successors);
        self.learn_bases(layout, blocks, addresses);
        self.accesses.clear();
        self.accesses.extend(self.bases.iter().map(|&base| AccessState::new(base)));
        streams.clear();
        streams.bases.extend(
            self.bases.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |base| base << 4)),
        );
        self.encode_blocks(blocks, streams);
        self.encode_addresses(layout, blocks, addresses, streams);
    }

    fn encode_blocks(&mut self, blocks: &[BlockId], streams: &mut Streams) {
        streams.block_tokens.resize(blocks.len().div_ceil(4), 0);
        let mut previous = 0;
        for (index, &block) in blocks.iter().enumerate() {
            let state = &mut self.blocks[previous as usize];
            if state.successor != block {
                let others = &mut self.other_successors[previous as usize];
                let token = 1 + others.iter().position(|&other| other == block).unwrap_or(2);
                streams.block_tokens[index / 4] |= (token << (index % 4 * 2)) as u8;
                if token == 3 {
                    let distance = i64::from(block) - i64::from(previous) - 1;
                    put_varint(&mut streams.block_escapes, zigzag(distance));
                }
                remember_successor(state, others, token, block);
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
        let mut after_crossing = 0;
        for &block in blocks {
            let range = layout.of_block(block);
            let room = payload_done + 8 * range.len() + 8;
            if room > payload.len() {
                payload.resize(2 * room, 0);
            }
            let last_bytes = &layout.last_bytes[range.clone()];
            for (state, &last_byte) in self.accesses[range].iter_mut().zip(last_bytes) {
                let address = addresses[position];
                if LineCrossing::is_at(address, last_byte) {
                    put_varint(&mut streams.crossings, (position - after_crossing) as u64);
                    after_crossing = position + 1;
                }
                let base = match state.base {
                    0 => state.last,
                    base => position
                        .checked_add_signed(base as isize)
                        .map_or(0, |place| addresses[place]),
                };
                let distance = address.wrapping_sub(base);
                // Without a branch, which would be mispredicted: a distance that was expected takes
                // no room, and the next one overwrites it and what is too much of others.
                let length = payload_length(distance)
                    * usize::from(distance as i64 != i64::from(state.distance));
                streams.address_tokens[position / 2] |= (length << (position % 2 * 4)) as u8;
                payload[payload_done..payload_done + 8].copy_from_slice(&distance.to_le_bytes());
                payload_done += length;
                state.last = address;
                state.distance = distance as i32;
                position += 1;
            }
        }
        payload.truncate(payload_done);
    }

    /// Finds for each access the base from which some of its executions are best predicted.
    fn learn_bases(&mut self, layout: &Layout, blocks: &[BlockId], addresses: &[u64]) {
        self.learned.resize(layout.accesses(), Learned::default());
        self.bases.resize(layout.accesses(), 0);
        self.looked_at.clear();
        self.looked_at.resize(layout.blocks(), 0);
        let mut position = 0;
        for &block in blocks {
            let range = layout.of_block(block);
            let looked_at = &mut self.looked_at[block as usize];
            if *looked_at < LEARNING_EXECUTIONS {
                *looked_at += 1;
                for (access, known) in self.learned[range.clone()].iter_mut().enumerate() {
                    known.look(addresses, position + access);
                }
            }
            position += range.len();
        }
        for (block, &looked_at) in self.looked_at.iter().enumerate() {
            if looked_at > 0 {
                for (index, access) in layout.of_block(block as BlockId).enumerate() {
                    self.bases[access] = self.learned[access].choose(index);
                }
            }
        }
    }
}

/// Moves `block`, found at `token` (which is not 0), to the front of the remembered successors.
#[inline(always)]
fn remember_successor(
    state: &mut BlockState,
    others: &mut OtherSuccessors,
    token: usize,
    block: BlockId,
) {
    if token >= 2 {
        others[1] = others[0];
    }
    others[0] = state.successor;
    state.successor = block;
}

/// Decodes a chunk in steps, each in two passes over a batch: first the block numbers and the list
/// of all accesses of those blocks, then the addresses. So neither has a branch that depends on how
/// many accesses a block has, nor on the base or the payload of an access: a processor would
/// mispredict it.
#[derive(Default)]
pub(crate) struct Decoder {
    blocks: Vec<BlockState>,
    other_successors: Vec<OtherSuccessors>,
    accesses: Vec<AccessState>,
    streams: Streams,
    block_count: usize,
    address_count: usize,
    payload_end: usize,
    previous: BlockId,
    blocks_done: usize,
    addresses_done: usize,
    escapes_done: usize,
    payload_done: usize,
    crossings_done: usize,
    /// Place in the chunk of the next crossing; beyond all addresses after the last.
    next_crossing: usize,
    /// The accesses of the batch's blocks, each by the offset of its state in bytes; the rest is
    /// scratch.
    sequence: Vec<u32>,
    /// The last addresses, latest last.
    recent: [u64; FARTHEST_BASE],
}

/// Accesses of a block that are listed without a branch: as many as the writer fuses at most.
const LISTED_AT_ONCE: usize = 16;
/// As many as one word has tokens for.
const GROUP_ADDRESSES: usize = 16;
const STATE_BYTES: u32 = size_of::<AccessState>() as u32;
const LANES: [u32; LISTED_AT_ONCE] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// In the decoder's memory the payload begins here: the last eight bytes up to the end of any
/// distance can be read.
pub(crate) const PAYLOAD_START: usize = 8;
/// The payload is followed by this many bytes, so that an eighth as many addresses can be decoded
/// before one looks whether the stream had ended.
const PAYLOAD_PADDING_BYTES: usize = 8 * 32768;

impl Decoder {
    /// The streams' memory, to be filled with a chunk before `start`; the payload begins at
    /// `PAYLOAD_START`.
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
        // A payload has at most eight bytes. All pairs of tokens are looked at in any case, so that
        // the compiler makes vector code of it.
        let too_long = |pair: u8| pair & ((pair & 0x77) + 0x77) & 0x88;
        let tokens = &self.streams.address_tokens;
        if tokens.iter().fold(0, |found, &pair| found | too_long(pair)) != 0 {
            return Err("an address token stands for more than eight bytes");
        }
        if block_count > 0 && layout.blocks() == 0 {
            return Err("it executes blocks and none is defined");
        }
        fresh_blocks(layout, &mut self.blocks, &mut self.other_successors);
        // One more than there are if their number is odd, so that they go in pairs.
        self.accesses.resize(2 * self.streams.bases.len(), AccessState::new(0));
        for (states, pair) in self.accesses.as_chunks_mut().0.iter_mut().zip(&self.streams.bases) {
            *states = [AccessState::new(pair & 15), AccessState::new(pair >> 4)];
        }
        self.payload_end = self.streams.payload.len();
        self.streams.payload.resize(self.payload_end + PAYLOAD_PADDING_BYTES, 0);
        self.streams.block_tokens.resize(self.streams.block_tokens.len() + 8, 0);
        self.streams.address_tokens.resize(self.streams.address_tokens.len() + 8, 0);
        self.address_count = address_count;
        self.previous = 0;
        self.addresses_done = 0;
        self.escapes_done = 0;
        self.payload_done = PAYLOAD_START;
        self.crossings_done = 0;
        self.next_crossing = self.find_crossing(0)?;
        self.recent = [0; FARTHEST_BASE];
        self.block_count = block_count;
        Ok(())
    }

    /// Decodes up to `max_blocks` blocks with their addresses into the empty `batch`.
    pub(crate) fn decode(
        &mut self,
        layout: &Layout,
        max_blocks: usize,
        batch: &mut Batch,
    ) -> Result<(), &'static str> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.decode_avx2(layout, max_blocks, batch) };
        }
        self.decode_batch(layout, max_blocks, batch)
    }

    /// `decode_batch` for processors of the last ten years: a third faster.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn decode_avx2(
        &mut self,
        layout: &Layout,
        max_blocks: usize,
        batch: &mut Batch,
    ) -> Result<(), &'static str> {
        self.decode_batch(layout, max_blocks, batch)
    }

    #[inline(always)]
    fn decode_batch(
        &mut self,
        layout: &Layout,
        max_blocks: usize,
        batch: &mut Batch,
    ) -> Result<(), &'static str> {
        let Batch { blocks, addresses, crossings, .. } = batch;
        debug_assert!(blocks.is_empty() && addresses.is_empty());
        let count = self.decode_blocks(layout, max_blocks, blocks)?;
        if count > self.address_count - self.addresses_done {
            return Err("it makes more accesses than it has addresses");
        }
        self.decode_addresses(count, addresses)?;
        let first_address = self.addresses_done - count;
        while self.next_crossing < self.addresses_done {
            let access = self.next_crossing - first_address;
            let last_byte = layout.last_bytes[(self.sequence[access] / STATE_BYTES) as usize];
            crossings.push(LineCrossing { access: access as u32, last_byte });
            self.next_crossing = self.find_crossing(self.next_crossing + 1)?;
        }
        let kept = addresses.len().min(FARTHEST_BASE);
        self.recent.copy_within(kept.., 0);
        self.recent[FARTHEST_BASE - kept..].copy_from_slice(&addresses[addresses.len() - kept..]);
        if self.blocks_done == self.block_count
            && (self.addresses_done != self.address_count
                || self.payload_done != self.payload_end
                || self.escapes_done != self.streams.block_escapes.len())
        {
            return Err("it holds more than its blocks need");
        }
        Ok(())
    }

    /// The place in the chunk of the next crossing, which is not before `place`.
    fn find_crossing(&mut self, place: usize) -> Result<usize, &'static str> {
        if self.crossings_done == self.streams.crossings.len() {
            return Ok(usize::MAX);
        }
        take_varint(&self.streams.crossings, &mut self.crossings_done)
            .and_then(|step| place.checked_add(usize::try_from(step).ok()?))
            .filter(|&found| found < self.address_count)
            .ok_or("the crossing stream makes no sense")
    }

    /// Appends up to `max_blocks` blocks, lists their accesses in `self.sequence`, and returns how
    /// many accesses there are.
    #[inline(always)]
    fn decode_blocks(
        &mut self,
        layout: &Layout,
        max_blocks: usize,
        blocks: &mut Vec<BlockId>,
    ) -> Result<usize, &'static str> {
        let end = self.block_count.min(self.blocks_done + max_blocks);
        let mut listed = 0;
        while self.blocks_done < end {
            // As many as one word has tokens for, whatever place in its byte the first one has.
            let group_end = end.min(self.blocks_done + 28);
            listed = self.decode_group(layout, group_end - self.blocks_done, blocks, listed)?;
            self.blocks_done = group_end;
        }
        Ok(listed)
    }

    /// Appends up to 28 blocks and lists their accesses behind those that are `listed`.
    #[inline(always)]
    fn decode_group(
        &mut self,
        layout: &Layout,
        group_blocks: usize,
        blocks: &mut Vec<BlockId>,
        mut listed: usize,
    ) -> Result<usize, &'static str> {
        let mut tokens =
            word_at(&self.streams.block_tokens, self.blocks_done / 4) >> (self.blocks_done % 4 * 2);
        let room = listed + group_blocks * MANY as usize + LISTED_AT_ONCE;
        if room > self.sequence.len() {
            self.sequence.resize(2 * room, 0);
        }
        let Self { blocks: states, other_successors, sequence, streams, .. } = self;
        let states = &mut states[..];
        let defined = states.len() as i64;
        // Were the lanes known to the compiler, it would add them one by one.
        let lanes = std::hint::black_box(LANES);
        let mut sequence_start = sequence.as_mut_ptr();
        let mut previous = self.previous as usize;
        let group = blocks.len()..blocks.len() + group_blocks;
        blocks.resize(group.end, 0);
        for place in &mut blocks[group] {
            let token = (tokens & 3) as usize;
            tokens >>= 2;
            // SAFETY: every block number that is kept, here or as a successor, has a state.
            let state = unsafe { states.get_unchecked_mut(previous) };
            let block = if token == 0 {
                state.successor
            } else {
                let others = &mut other_successors[previous];
                let block = if token < 3 {
                    others[token - 1]
                } else {
                    let distance = take_varint(&streams.block_escapes, &mut self.escapes_done)
                        .ok_or("the block escape stream ends early")?;
                    let block = (previous as i64 + 1).wrapping_add(unzigzag(distance));
                    if block < 0 || block >= defined {
                        return Err("it executes a block that is not defined");
                    }
                    block as BlockId
                };
                remember_successor(state, others, token, block);
                block
            };
            *place = block;
            previous = block as usize;

            // SAFETY: as above.
            let accesses = unsafe { states.get_unchecked(previous) }.accesses;
            let first = accesses >> COUNT_BITS;
            let mut accesses = (accesses & MANY) as usize;
            let listing = lanes.map(|lane| first.wrapping_add(lane).wrapping_mul(STATE_BYTES));
            // SAFETY: `room` was made above for this many accesses of each block of the group.
            unsafe {
                sequence_start.add(listed).cast::<[u32; LISTED_AT_ONCE]>().write(listing);
            }
            if accesses > LISTED_AT_ONCE {
                if accesses == MANY as usize {
                    accesses = layout.of_block(block).len();
                    sequence.resize(sequence.len() + accesses, 0);
                    sequence_start = sequence.as_mut_ptr();
                }
                for (place, access) in sequence[listed..listed + accesses].iter_mut().zip(first..) {
                    *place = access * STATE_BYTES;
                }
            }
            listed += accesses;
        }
        self.previous = previous as BlockId;
        Ok(listed)
    }

    /// Appends the addresses of the first `count` accesses that are listed. `addresses` begins with
    /// the batch.
    #[inline(always)]
    fn decode_addresses(
        &mut self,
        count: usize,
        addresses: &mut Vec<u64>,
    ) -> Result<(), &'static str> {
        addresses.reserve(count);
        let mut done = 0;
        while done < count {
            let end = count.min(done + PAYLOAD_PADDING_BYTES / 8);
            self.decode_some_addresses(done..end, addresses);
            if self.payload_done > self.payload_end {
                return Err("the payload stream ends early");
            }
            done = end;
        }
        Ok(())
    }

    /// Appends the addresses of the listed accesses `range`, which is at most as long as the
    /// payload's padding allows, to `addresses`, which has room for them. All payload used so far
    /// lies inside the stream.
    #[inline(always)]
    fn decode_some_addresses(&mut self, range: Range<usize>, addresses: &mut Vec<u64>) {
        let sequence = &self.sequence[range];
        let count = sequence.len();
        let payload = &self.streams.payload;
        assert!(
            count <= addresses.capacity() - addresses.len()
                && self.payload_done >= PAYLOAD_START
                && self.payload_done + 8 * count <= payload.len()
                && (self.addresses_done + count) / 2 + 8 <= self.streams.address_tokens.len()
        );
        // SAFETY: `sequence` was made by `decode_blocks` from blocks that are defined, so it has
        // only places of states of accesses that there are; each access uses at most 8 bytes of
        // payload, for which the assertion leaves room, and reads 8 up to their end, which are
        // there from the beginning; it leaves room in `addresses` too, where all before the one
        // being decoded are written; a base is at most FARTHEST_BASE (four bits), and the first
        // FARTHEST_BASE addresses of a batch look into `recent` instead.
        unsafe {
            let mut payload_done = payload.as_ptr().add(self.payload_done);
            let out = addresses.as_mut_ptr();
            let states = self.accesses.as_mut_ptr();
            let recent_end = self.recent.as_mut_ptr().add(FARTHEST_BASE);
            // Decodes the address `number` places behind `place`. A base counts back from `number`
            // places behind `before`, which is the same but for the first of a batch.
            let decode = |access: u32,
                          number: usize,
                          place: *mut u64,
                          before: *mut u64,
                          encoded_end: *const u8,
                          implied_bits: u8| {
                let state = states.byte_add(access as usize);
                let back = (*state).base as isize;
                let own = (&raw mut (*state).last).wrapping_sub(number);
                let origin = select_unpredictable(back == 0, own, before);
                let base = *origin.wrapping_offset(back).wrapping_add(number);
                let encoded = i64::from_le(encoded_end.sub(8).cast::<i64>().read_unaligned());
                let encoded = encoded.wrapping_shr(implied_bits.into());
                let expected = i64::from((*state).distance);
                let distance = select_unpredictable(implied_bits == 64, expected, encoded);
                let address = base.wrapping_add(distance as u64);
                (*state).last = address;
                (*state).distance = distance as i32;
                place.add(number).write(address);
            };
            let (mut sequence, mut index) = (sequence, addresses.len());
            let mut token_place = self.addresses_done;
            while let Some((&access, behind)) = sequence.split_first() {
                let place = out.add(index);
                let group = sequence.split_first_chunk::<GROUP_ADDRESSES>();
                if let (Some((group, behind)), FARTHEST_BASE.., 0) = (group, index, token_place % 2)
                {
                    let tokens =
                        Tokens::new(word_at(&self.streams.address_tokens, token_place / 2));
                    let tokens = std::hint::black_box(tokens);
                    let decode_pair = |pair: usize| {
                        let number = 2 * pair;
                        let encoded_end = payload_done.add(tokens.even_ends[pair].into());
                        let implied_bits = tokens.even_implied_bits[pair];
                        decode(group[number], number, place, place, encoded_end, implied_bits);
                        let encoded_end = payload_done.add(tokens.odd_ends[pair].into());
                        let implied_bits = tokens.odd_implied_bits[pair];
                        decode(
                            group[number + 1],
                            number + 1,
                            place,
                            place,
                            encoded_end,
                            implied_bits,
                        );
                    };
                    // One by one, since the compiler would make a loop of a loop.
                    decode_pair(0);
                    decode_pair(1);
                    decode_pair(2);
                    decode_pair(3);
                    decode_pair(4);
                    decode_pair(5);
                    decode_pair(6);
                    decode_pair(7);
                    payload_done = payload_done.add(tokens.odd_ends[7].into());
                    token_place += GROUP_ADDRESSES;
                    index += GROUP_ADDRESSES;
                    sequence = behind;
                } else {
                    let back = (*states.byte_add(access as usize)).base as isize;
                    let is_near = index.checked_add_signed(back).is_some();
                    let before = if is_near { out } else { recent_end }.wrapping_add(index);
                    let length =
                        self.streams.address_tokens[token_place / 2] >> (token_place % 2 * 4) & 15;
                    payload_done = payload_done.add(length.into());
                    decode(access, 0, place, before, payload_done, 64 - 8 * length);
                    token_place += 1;
                    index += 1;
                    sequence = behind;
                }
            }
            self.payload_done = payload_done.offset_from(payload.as_ptr()) as usize;
            addresses.set_len(index);
        }
        self.addresses_done += count;
    }
}

/// The tokens of a group of addresses, taken apart: for the first, third and so on, and the others.
struct Tokens {
    /// Where in the group's payload the distance of each address ends.
    even_ends: [u8; 8],
    odd_ends: [u8; 8],
    /// How many of the 64 bits of each distance are not in the payload, but follow from its sign.
    even_implied_bits: [u8; 8],
    odd_implied_bits: [u8; 8],
}

impl Tokens {
    #[inline(always)]
    fn new(tokens: u64) -> Self {
        const ALL: u64 = 0x0101_0101_0101_0101;
        // A byte each: no length is more than 8, and so no sum of sixteen more than 128.
        let (even, odd) = (tokens & (15 * ALL), tokens >> 4 & (15 * ALL));
        let odd_ends = (even + odd).wrapping_mul(ALL);
        Self {
            even_ends: (odd_ends - odd).to_le_bytes(),
            odd_ends: odd_ends.to_le_bytes(),
            even_implied_bits: (64 * ALL - 8 * even).to_le_bytes(),
            odd_implied_bits: (64 * ALL - 8 * odd).to_le_bytes(),
        }
    }
}

/// Eight bytes from `position`, as a number.
#[inline(always)]
fn word_at(stream: &[u8], position: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&stream[position..position + 8]);
    u64::from_le_bytes(bytes)
}
