//! The trace as the machines see it: blocks and addresses, decoded once and shared by all.

use std::collections::HashMap;

use mmulab_trace::{AccessKind, Batch, Block, Event};

use crate::fold::{DoesNotFit, Fold};

/// An address as a machine sees it: folded to 32 bits, or as recorded.
pub trait Address: Copy + Default + Into<u64> + Send + Sync + 'static {
    /// The address `bytes` further on.
    fn plus(self, bytes: u64) -> Self;

    /// The address bits in which the first and the last byte of an access differ.
    fn spread(self, last_byte: u16) -> u64;
}

impl Address for u32 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes as u32)
    }

    #[inline(always)]
    fn spread(self, last_byte: u16) -> u64 {
        u64::from(self ^ self.plus(last_byte.into()))
    }
}

impl Address for u64 {
    #[inline(always)]
    fn plus(self, bytes: u64) -> Self {
        self.wrapping_add(bytes)
    }

    #[inline(always)]
    fn spread(self, last_byte: u16) -> u64 {
        self ^ self.plus(last_byte.into())
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

/// A block that was executed: what a replay needs of most of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executed<A> {
    /// First byte of its code.
    pub first: A,
    /// Last byte of its code.
    pub last: A,
    /// Accesses of the stretch up to and with its own.
    pub accesses_end: u32,
}

/// A stretch of the program's execution, ready for replay.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a, A> {
    /// All blocks known.
    pub program: &'a Program<A>,
    /// The numbers of the executed blocks.
    pub blocks: &'a [u32],
    /// The executed blocks.
    pub executed: &'a [Executed<A>],
    /// The addresses of their data accesses, in order.
    pub addresses: &'a [A],
    /// The accesses that may span two lines, in order.
    pub straddles: &'a [Straddle],
    /// How many instructions it has.
    pub instructions: u64,
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
pub struct Execution<A> {
    executed: Vec<Executed<A>>,
    addresses: Vec<A>,
    straddles: Vec<Straddle>,
    instructions: u64,
}

impl<A> Default for Execution<A> {
    fn default() -> Self {
        Self { executed: Vec::new(), addresses: Vec::new(), straddles: Vec::new(), instructions: 0 }
    }
}

impl<A> Execution<A> {
    /// How many instructions it has.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The stretch that executes `blocks` of `program`.
    pub fn stretch<'a>(&'a self, program: &'a Program<A>, blocks: &'a [u32]) -> Stretch<'a, A> {
        let Self { executed, addresses, straddles, instructions } = self;
        Stretch { program, blocks, executed, addresses, straddles, instructions: *instructions }
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

    /// Where each of `addresses` is.
    ///
    /// # Errors
    /// The space has no room left.
    fn place_all(
        &mut self,
        addresses: &[u64],
        placed: &mut Vec<Self::Address>,
    ) -> Result<(), DoesNotFit>;
}

impl AddressSpace for Fold {
    type Address = u32;

    fn map(&mut self, address: u64, length_bytes: u64) {
        Fold::map(self, address, length_bytes);
    }

    fn place(&mut self, address: u64) -> Result<u32, DoesNotFit> {
        self.fold(address)
    }

    #[inline(always)]
    fn place_all(&mut self, addresses: &[u64], placed: &mut Vec<u32>) -> Result<(), DoesNotFit> {
        self.fold_all(addresses, placed)
    }
}

/// The program's own 64-bit addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flat;

impl AddressSpace for Flat {
    type Address = u64;

    fn map(&mut self, _address: u64, _length_bytes: u64) {}

    fn place(&mut self, address: u64) -> Result<u64, DoesNotFit> {
        Ok(address)
    }

    fn place_all(&mut self, addresses: &[u64], placed: &mut Vec<u64>) -> Result<(), DoesNotFit> {
        placed.clear();
        placed.extend_from_slice(addresses);
        Ok(())
    }
}

/// Brings batches into an address space. It keeps what it has prepared apart from the [`Program`]
/// until that is free: the machines read it while the next batch is on its way.
#[derive(Debug)]
pub struct Feed<S: AddressSpace> {
    /// The space.
    pub space: S,
    shortest_line_shift: u32,
    known: Vec<Known<S::Address>>,
    /// Of all accesses of blocks that have many, what to add for the last byte, by block.
    last_bytes: HashMap<u32, Box<[u16]>>,
    arrivals: Vec<(Block, S::Address)>,
    execution: Execution<S::Address>,
    /// Of the accesses of the batch, what to add for the last byte; padded at the end.
    reaches: Vec<u16>,
}

/// What the feed keeps of a block.
#[derive(Clone, Copy, Debug)]
struct Known<A> {
    first: A,
    last: A,
    accesses: u32,
    instructions: u32,
    /// Of the first accesses, what to add for the last byte.
    last_bytes: [u16; COPIED],
}

/// So many accesses of a block are copied in any case; few blocks have more.
const COPIED: usize = 8;

/// So many accesses are looked over at once for one that may span two lines; most do not.
const LOOKED_OVER: usize = 16;

impl<S: AddressSpace> Feed<S> {
    /// A feed into `space`, for machines whose data lines are at least `1 << shortest_line_shift`
    /// bytes long.
    pub fn new(space: S, shortest_line_shift: u32) -> Self {
        Self {
            space,
            shortest_line_shift,
            known: Vec::new(),
            last_bytes: HashMap::new(),
            arrivals: Vec::new(),
            execution: Execution::default(),
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
        for block in &table[self.known.len()..] {
            self.learn(block)?;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.prepare_modern(batch) };
        }
        self.prepare_anywhere(batch)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn prepare_modern(&mut self, batch: &Batch) -> Result<(), DoesNotFit> {
        self.prepare_anywhere(batch)
    }

    #[inline(always)]
    fn prepare_anywhere(&mut self, batch: &Batch) -> Result<(), DoesNotFit> {
        self.lay_out(batch);
        let Execution { addresses, straddles, .. } = &mut self.execution;
        self.space.place_all(&batch.addresses, addresses)?;
        straddles.clear();
        let shift = self.shortest_line_shift;
        let mut first = 0;
        for addresses in addresses.chunks(LOOKED_OVER) {
            let reaches = &self.reaches[first..first + addresses.len()];
            let spread = |(&address, &reach): (&S::Address, &u16)| address.spread(reach);
            let any = addresses.iter().zip(reaches).map(spread).fold(0, |any, bits| any | bits);
            if any >> shift != 0 {
                let each = addresses.iter().zip(reaches).enumerate();
                let spanning = each.filter(|&(_, access)| spread(access) >> shift != 0);
                straddles.extend(spanning.map(|(place, (_, &last_byte))| Straddle {
                    access: (first + place) as u32,
                    last_byte,
                }));
            }
            first += addresses.len();
        }
        Ok(())
    }

    fn learn(&mut self, block: &Block) -> Result<(), DoesNotFit> {
        let first = self.space.place(block.address)?;
        let length: u64 = block.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
        let reach = |access: &mmulab_trace::Access| access.size_bytes.saturating_sub(1);
        let all: Box<[u16]> = block.accesses.iter().map(reach).collect();
        let mut last_bytes = [0; COPIED];
        let copied = all.len().min(COPIED);
        last_bytes[..copied].copy_from_slice(&all[..copied]);
        if all.len() > COPIED {
            self.last_bytes.insert(self.known.len() as u32, all);
        }
        self.known.push(Known {
            first,
            last: first.plus(length.saturating_sub(1)),
            accesses: block.accesses.len() as u32,
            instructions: block.instruction_sizes_bytes.len() as u32,
            last_bytes,
        });
        self.arrivals.push((block.clone(), first));
        Ok(())
    }

    /// Lays out in the order of execution what is known of the blocks.
    #[inline(always)]
    fn lay_out(&mut self, batch: &Batch) {
        // Blocks make few accesses, but not equally few: copying a fixed number, of which the next
        // block overwrites the excess, spares a jump that could not be foretold.
        self.reaches.resize(batch.addresses.len() + COPIED, 0);
        let Execution { executed, instructions, .. } = &mut self.execution;
        executed.resize(batch.blocks.len(), Executed::default());
        let (known, reaches) = (&self.known[..], &mut self.reaches[..]);
        let mut sum = 0;
        let mut end = 0;
        for (executed, number) in executed.iter_mut().zip(&batch.blocks) {
            let Known { first, last, accesses, instructions, last_bytes } =
                &known[*number as usize];
            let count = *accesses as usize;
            if let Some(reaches) = reaches[end..].first_chunk_mut() {
                *reaches = *last_bytes;
            }
            if count > COPIED {
                reaches[end..end + count].copy_from_slice(&self.last_bytes[number]);
            }
            end += count;
            sum += u64::from(*instructions);
            *executed = Executed { first: *first, last: *last, accesses_end: end as u32 };
        }
        *instructions = sum;
    }

    /// Hands over what was prepared.
    pub fn deliver(
        &mut self,
        program: &mut Program<S::Address>,
        execution: &mut Execution<S::Address>,
    ) {
        for (block, first) in self.arrivals.drain(..) {
            program.push(&block, first);
        }
        std::mem::swap(&mut self.execution, execution);
    }
}
