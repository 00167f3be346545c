//! Which calls a thread of the program is in, from blocks and addresses alone.
//!
//! On x86 a call is a block whose last instruction stores a return address and after which
//! execution does not continue at the next address; a return is one whose last instruction loads
//! from where such an address is. This needs no symbols and no knowledge of instructions.

use std::collections::HashMap;

use crate::{AccessKind, Block, BlockId, BlockTable, Event};

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where the return address is.
    pub slot: u64,
    /// First byte after the calling instruction: where the call returns to.
    pub return_address: u64,
    /// The first block that the call executed.
    pub callee: u64,
}

/// The calls of all threads of a program.
///
/// What leaves frames without a return (`longjmp`, exceptions) is noticed at the next call or
/// return that the stack pointer tells to be above them. A call into a function by a jump (a tail
/// call, a linkage stub) is no frame of its own. Programs that switch stacks within a thread have
/// frames that are never left.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// By block number.
    ends: Vec<End>,
    threads: HashMap<u32, Thread>,
    current: Thread,
    current_number: u32,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    frames: Vec<Frame>,
    /// What the block executed last may turn out to be.
    last: Option<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    is_store: bool,
    slot: u64,
    last_instruction: u64,
    end: u64,
}

/// How a block ends.
#[derive(Clone, Copy, Debug)]
struct End {
    address: u64,
    last_instruction: u64,
    end: u64,
    accesses: u32,
    /// Whether its last instruction's last access is one of a word, and a store; `None` if neither.
    is_store: Option<bool>,
}

impl End {
    fn of(block: &Block) -> Self {
        let sizes = &block.instruction_sizes_bytes;
        let length: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
        let end = block.address.wrapping_add(length);
        let last = block.accesses.last().filter(|access| {
            usize::from(access.instruction) + 1 == sizes.len() && matches!(access.size_bytes, 4 | 8)
        });
        let is_store = last.and_then(|access| match access.kind {
            AccessKind::Load => Some(false),
            AccessKind::Store => Some(true),
            AccessKind::Modify => None,
        });
        Self {
            address: block.address,
            last_instruction: end.wrapping_sub(sizes.last().map_or(0, |&size| size.into())),
            end,
            accesses: block.accesses.len() as u32,
            is_store,
        }
    }
}

/// What executing a block did to the calls of its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Frames that are no more.
    pub left: usize,
    /// Whether one was entered after that.
    pub is_call: bool,
}

impl Calls {
    /// Learns of an event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Thread(number) if *number != self.current_number => {
                let next = self.threads.remove(number).unwrap_or_default();
                let before = std::mem::replace(&mut self.current, next);
                self.threads.insert(self.current_number, before);
                self.current_number = *number;
            }
            // Another program is loaded.
            Event::Unmap { address: 0, length_bytes: u64::MAX } => {
                self.threads.clear();
                self.current = Thread::default();
            }
            _ => {}
        }
    }

    /// The number of the thread that runs; 0 before the first event that tells.
    pub fn thread(&self) -> u32 {
        self.current_number
    }

    /// The calls that the running thread is in, the innermost last.
    pub fn frames(&self) -> &[Frame] {
        &self.current.frames
    }

    /// The running thread is about to execute a block of `table`; `addresses` begin with those of
    /// its accesses.
    #[inline]
    pub fn step(&mut self, table: &BlockTable, block: BlockId, addresses: &[u64]) -> Change {
        while let Some(new) = table.blocks().get(self.ends.len()) {
            self.ends.push(End::of(new));
        }
        let end = self.ends[block as usize];
        let mut change = Change::default();
        if let Some(ended) = self.current.last.take()
            && ended.end != end.address
        {
            change = self.current.transfer(ended, end.address);
        }
        if let Some(is_store) = end.is_store {
            self.current.last = Some(Ended {
                is_store,
                slot: addresses[end.accesses as usize - 1],
                last_instruction: end.last_instruction,
                end: end.end,
            });
        }
        change
    }
}

impl Thread {
    /// A block that ended so is followed by one that is not the next in memory.
    fn transfer(&mut self, ended: Ended, to: u64) -> Change {
        let Ended { is_store, slot, last_instruction, end } = ended;
        let depth = self.frames.len();
        if is_store {
            // A repeated string instruction stores, too, and is followed by itself.
            if to == last_instruction {
                return Change::default();
            }
            while self.frames.last().is_some_and(|frame| frame.slot <= slot) {
                self.frames.pop();
            }
            let left = depth - self.frames.len();
            self.frames.push(Frame { slot, return_address: end, callee: to });
            return Change { left, is_call: true };
        }
        let below = self.frames.iter().rev().take_while(|frame| frame.slot < slot).count();
        let returns = depth > below && self.frames[depth - 1 - below].slot == slot;
        if returns {
            self.frames.truncate(depth - 1 - below);
        }
        Change { left: depth - self.frames.len(), is_call: false }
    }
}
