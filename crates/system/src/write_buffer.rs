//! The write buffer and the write-back buffer: stores and dirty lines on their way to memory.
//!
//! Both are one queue that memory serves in order. What is in it has left the caches and has not
//! reached memory: a table walk, which reads memory, does not see it. Entries carry the time at
//! which memory has them, and are applied when somebody looks.

use std::collections::VecDeque;

use mmulab_hardware::Line;
use mmulab_machine::{BufferShape, MemoryShape};

use crate::ram::Ram;

/// What waits for memory: part of a line of the data cache.
#[derive(Clone, Copy, Debug)]
pub struct Entry<L> {
    /// Physical address of the line.
    pub line: u32,
    /// The words.
    pub data: L,
    /// Which bits of them are written.
    pub mask: L,
    /// How many words it takes of the buffer's capacity.
    words: u32,
    /// How many addresses it takes of the buffer's capacity.
    addresses: u32,
    /// The aligned block that it covers.
    block: u32,
    /// When memory has it.
    ready_at: u64,
    /// Whether it is a dirty line in the separate write-back buffer.
    write_back: bool,
}

mmulab_state::value!([L: Line] Entry<L> {
    line,
    data,
    mask,
    words,
    addresses,
    block,
    ready_at,
    write_back,
});

/// The queue.
pub struct WriteBuffer<L> {
    queue: VecDeque<Entry<L>>,
    words: u32,
    stores: u32,
    write_backs: u32,
    /// When memory is free for the next transfer.
    memory_free_at: u64,
    /// Whether a store joins an entry that an earlier instruction made.
    coalesces: bool,
    shape: BufferShape,
    write_first_cycles: u64,
    write_next_cycles: u64,
}

mmulab_state::state!([L: Line] WriteBuffer<L> {
    queue,
    words,
    stores,
    write_backs,
    memory_free_at,
    coalesces,
} built { shape, write_first_cycles, write_next_cycles });

impl<L: Line> WriteBuffer<L> {
    /// An empty buffer.
    pub fn new(shape: &BufferShape, memory: &MemoryShape) -> WriteBuffer<L> {
        WriteBuffer {
            queue: VecDeque::with_capacity(
                (shape.write_entries + shape.write_back_entries) as usize,
            ),
            words: 0,
            stores: 0,
            write_backs: 0,
            memory_free_at: 0,
            coalesces: shape.write_coalesces,
            shape: shape.clone(),
            write_first_cycles: u64::from(memory.write_first_cycles),
            write_next_cycles: u64::from(memory.write_next_cycles),
        }
    }

    /// Whether nothing waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What waits, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<L>> {
        self.queue.iter()
    }

    /// Puts into `ram` what memory has by `now`.
    #[inline(always)]
    pub fn retire(&mut self, now: u64, ram: &mut Ram) {
        while self.queue.front().is_some_and(|entry| entry.ready_at <= now) {
            self.retire_front(ram);
        }
    }

    fn retire_front(&mut self, ram: &mut Ram) {
        let Some(entry) = self.queue.pop_front() else { return };
        if entry.write_back {
            self.write_backs -= 1;
        } else {
            self.words -= entry.words;
            self.stores -= entry.addresses;
        }
        let words = entry.data.as_ref().iter().zip(entry.mask.as_ref());
        for (offset, (&data, &mask)) in words.enumerate() {
            if mask != 0 {
                let word = ram.word_mut(entry.line + 4 * offset as u32);
                *word = *word & !mask | data & mask;
            }
        }
    }

    /// When a store to `address` can enter, given that everything ready by `now` was retired.
    /// `joins` tells whether it continues the burst of the store before.
    #[inline(always)]
    pub fn room_for_store(&self, now: u64, address: u32, joins: bool) -> u64 {
        if self.can_join(address, joins) && self.words < self.shape.write_words {
            return now;
        }
        if self.stores < self.shape.write_entries && self.words < self.shape.write_words {
            return now;
        }
        // The first store to leave makes room.
        self.queue
            .iter()
            .find(|entry| !entry.write_back)
            .map_or(now, |entry| entry.ready_at.max(now))
    }

    /// Whether a store joins an entry that an earlier instruction made, from now on.
    pub fn set_coalescing(&mut self, coalesces: bool) {
        self.coalesces = coalesces;
    }

    fn can_join(&self, address: u32, joins: bool) -> bool {
        (joins || self.coalesces)
            && self
                .queue
                .back()
                .is_some_and(|entry| !entry.write_back && entry.block == self.block_of(address))
    }

    fn block_of(&self, address: u32) -> u32 {
        address & !(self.shape.write_entry_words * 4 - 1)
    }

    /// Takes a store; there must be room.
    pub fn push_store(&mut self, now: u64, address: u32, data: u32, mask: u32, joins: bool) {
        let word = L::word(address);
        if self.can_join(address, joins) {
            let next = self.write_next_cycles;
            if let Some(entry) = self.queue.back_mut() {
                let new_word = entry.mask[word] == 0;
                entry.data[word] = entry.data[word] & !mask | data & mask;
                entry.mask[word] |= mask;
                if new_word {
                    entry.words += 1;
                    self.words += 1;
                    entry.ready_at += next;
                    self.memory_free_at += next;
                }
                return;
            }
        }
        let mut entry = Entry {
            line: L::base(address),
            data: L::ZERO,
            mask: L::ZERO,
            words: 1,
            addresses: 1,
            block: self.block_of(address),
            ready_at: self.memory_free_at.max(now) + self.write_first_cycles,
            write_back: false,
        };
        entry.data[word] = data;
        entry.mask[word] = mask;
        self.memory_free_at = entry.ready_at;
        self.words += 1;
        self.stores += 1;
        self.queue.push_back(entry);
    }

    /// When the dirty halves of a line can enter.
    pub fn room_for_line(&self, now: u64, words: u32) -> u64 {
        let separate = self.shape.write_back_entries > 0;
        let fits = if separate {
            self.write_backs < self.shape.write_back_entries
        } else {
            let addresses = words.div_ceil(self.shape.write_entry_words);
            self.stores == 0
                || self.stores + addresses <= self.shape.write_entries
                    && self.words + words <= self.shape.write_words
        };
        if fits {
            return now;
        }
        self.queue
            .iter()
            .find(|entry| entry.write_back == separate)
            .map_or(now, |entry| entry.ready_at.max(now))
    }

    /// Takes the dirty halves (bit 0 the lower) of a line; there must be room.
    pub fn push_line(&mut self, now: u64, line: u32, data: &L, halves: u8) {
        let separate = self.shape.write_back_entries > 0;
        let mut mask = L::ZERO;
        for word in 0..L::WORDS {
            if halves & L::half_of_word(word) != 0 {
                mask[word] = !0;
            }
        }
        let words = halves.count_ones() * (L::WORDS as u32 / 2);
        let cycles = self.write_first_cycles + u64::from(words - 1) * self.write_next_cycles;
        let ready_at = self.memory_free_at.max(now) + cycles;
        self.memory_free_at = ready_at;
        let addresses = words.div_ceil(self.shape.write_entry_words);
        if separate {
            self.write_backs += 1;
        } else {
            self.words += words;
            self.stores += addresses;
        }
        self.queue.push_back(Entry {
            line,
            data: *data,
            mask,
            words,
            addresses,
            block: line | 1,
            ready_at,
            write_back: separate,
        });
    }

    /// When memory has everything that is in here now.
    pub fn empty_at(&self, now: u64) -> u64 {
        self.queue.back().map_or(now, |entry| entry.ready_at.max(now))
    }

    /// When memory has everything that touches the line at `address`; `now` if nothing does.
    pub fn line_ready_at(&self, now: u64, address: u32) -> u64 {
        self.queue
            .iter()
            .rfind(|entry| entry.line == L::base(address))
            .map_or(now, |entry| entry.ready_at.max(now))
    }

    /// When the transfer of an entry begins.
    fn begins_at(&self, entry: &Entry<L>) -> u64 {
        let next = u64::from(entry.words - 1) * self.write_next_cycles;
        entry.ready_at - self.write_first_cycles - next
    }

    /// When the transfer that memory is busy with ends: a read waits for it and goes ahead of the
    /// others.
    pub fn transfer_ends_at(&self, now: u64) -> u64 {
        let next = self.queue.iter().find(|entry| entry.ready_at > now);
        next.filter(|entry| self.begins_at(entry) <= now).map_or(now, |entry| entry.ready_at)
    }

    /// A read has memory from `start` to `end`: what memory does not have by then begins later.
    pub fn give_way(&mut self, start: u64, end: u64) {
        let next = self.queue.iter().find(|entry| entry.ready_at > start);
        let begins_at = next.map_or(self.memory_free_at, |entry| self.begins_at(entry));
        let delay = end.saturating_sub(begins_at);
        for entry in self.queue.iter_mut().filter(|entry| entry.ready_at > start) {
            entry.ready_at += delay;
        }
        self.memory_free_at += delay;
    }

    /// Puts everything into `ram`, whatever the time: for the debugger and the end of a run.
    pub fn flush(&mut self, ram: &mut Ram) {
        while !self.queue.is_empty() {
            self.retire_front(ram);
        }
    }
}
