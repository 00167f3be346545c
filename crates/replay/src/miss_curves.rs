//! Miss-rate curves of TLBs: exact LRU stack distances over pages, for all sizes in one pass.
//!
//! A fully associative LRU TLB of `n` entries holds the `n` most recently used pages, so a
//! look-up hits exactly when fewer than `n` other pages were used since the last use of its page
//! (Mattson and others, 1970). One pass that counts these distances therefore answers for all
//! sizes at once.
//!
//! The pass is quick because of three facts. Most look-ups are of one of the two pages used last:
//! for those, it suffices to count how often the page changed. A page that is one of these two at
//! one page size is one of them at all larger sizes, so that only what arrives there at one size is
//! looked at for the next. And hardly a branch depends on the pages, which nothing could predict.

use std::collections::HashMap;

use mmulab_machine::PageSize;
use mmulab_trace::{Batch, Block, BlockId, Source};

use crate::counting::Counting;
use crate::read_ahead::{BATCHES_BETWEEN_THREADS, ReadAhead, Stretch};
use crate::replay::ReplayError;
use crate::watched::watched;
use stack::Stack;

mod stack;

/// The page sizes that are counted, ascending; all at once.
pub const CURVE_PAGE_SIZES: [PageSize; SIZES] =
    [PageSize::Size4K, PageSize::Size16K, PageSize::Size64K, PageSize::Size2M, PageSize::Size1G];

const SIZES: usize = 5;
const SMALLEST_PAGE_SHIFT: u32 = 12;
/// What a page's number in the address space, counted in the smallest, loses at each size.
const SHIFTS: [u32; SIZES] = {
    let mut shifts = [0; SIZES];
    let mut size = 0;
    while size < SIZES {
        shifts[size] = CURVE_PAGE_SIZES[size].shift() - SMALLEST_PAGE_SHIFT;
        size += 1;
    }
    shifts
};
/// Data TLB of a core's first level, for the verdict on huge pages: what most have had since 2008.
const FIRST_LEVEL_ENTRIES: usize = 64;

/// Which references a TLB sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Instruction fetches: an instruction TLB.
    Instruction,
    /// Loads and stores: a data TLB.
    Data,
    /// Both in program order: a TLB that both sides share.
    Unified,
}

impl Stream {
    /// All streams.
    pub const ALL: [Stream; 3] = [Stream::Instruction, Stream::Data, Stream::Unified];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Instruction => "instruction",
            Stream::Data => "data",
            Stream::Unified => "unified",
        }
    }
}

/// The miss curve of one stream at one page size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Look-ups. One instruction or access makes one, or two where it crosses a 4 KiB boundary,
    /// whatever the page size, so that the curves of a stream compare.
    pub references: u64,
    /// Misses of a fully associative LRU TLB of 1, 2, 3, ... entries, up to the number of
    /// different pages; a larger TLB misses no less than that last number.
    pub misses: Vec<u64>,
}

impl Curve {
    /// Misses of a TLB of `entries` (at least 1).
    pub fn misses_at(&self, entries: usize) -> u64 {
        self.misses.get(entries - 1).or(self.misses.last()).copied().unwrap_or(0)
    }

    /// How many different pages were used.
    pub fn pages(&self) -> usize {
        self.misses.len()
    }
}

/// What a trace asks of a TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissCurves {
    /// Instructions executed.
    pub instructions: u64,
    curves: [[Curve; SIZES]; 3],
}

impl MissCurves {
    /// The curve of `stream` at `page_size`; `None` for a page size that is not counted.
    pub fn curve(&self, stream: Stream, page_size: PageSize) -> Option<&Curve> {
        let size = CURVE_PAGE_SIZES.iter().position(|counted| *counted == page_size)?;
        Some(&self.curves[stream as usize][size])
    }

    /// Misses per thousand instructions of a data TLB of `entries` at `page_size`, but for the
    /// first use of each page: that is a page fault, beside which its walk counts for nothing.
    fn repeated_misses_per_thousand(&self, page_size: PageSize, entries: usize) -> f64 {
        let repeated = |curve: &Curve| curve.misses_at(entries) - curve.pages() as u64;
        let misses = self.curve(Stream::Data, page_size).map_or(0, repeated);
        misses as f64 * 1000.0 / self.instructions.max(1) as f64
    }

    /// Whether huge pages would help, in one sentence with its numbers, for a data TLB of
    /// `entries`.
    ///
    /// First uses of pages are not counted. One that is larger than a first level of today is taken
    /// for a second level behind it.
    pub fn huge_page_verdict(&self, entries: usize) -> String {
        let misses = |entries| {
            let at = |size| self.repeated_misses_per_thousand(size, entries);
            (at(PageSize::Size4K), at(PageSize::Size2M))
        };
        let (small, large) = misses(entries);
        let mut change = format!(
            "with 2M pages instead of 4K, a data TLB of {} entries misses {large:.3} \
             instead of {small:.3} times per thousand instructions",
            with_commas(entries)
        );
        let (small_first, large_first) = misses(FIRST_LEVEL_ENTRIES.min(entries));
        if entries > FIRST_LEVEL_ENTRIES {
            let first = format!(
                ", and one of {FIRST_LEVEL_ENTRIES} entries {large_first:.3} instead of \
                 {small_first:.3} times"
            );
            change.push_str(&first);
        }
        change.push_str(" (the first use of each page, which is a page fault, not counted)");
        // Ten cycles is a cheap walk and a hundred an expensive one: below 0.1 misses per thousand
        // instructions even expensive ones cost one cycle in a hundred instructions. So do ten
        // times as many misses of a first level, which a second level answers in some ten cycles.
        if small >= 0.1 && large <= small / 2.0 {
            // Rounded down, so that 100% means none at all.
            let fewer = (1000.0 * (1.0 - large / small)).floor() / 10.0;
            format!("Huge pages would help, saving {fewer:.1}% of the page walks: {change}.")
        } else if small_first >= 1.0 && large_first <= small_first / 2.0 {
            format!("Huge pages would help a little, saving second-level look-ups: {change}.")
        } else if small < 0.1 {
            format!("Huge pages would hardly help: {change}.")
        } else {
            format!("Huge pages would help little: {change}.")
        }
    }
}

/// Counts the distances of a whole trace, on two threads, which share reading ahead and the stacks
/// of the streams.
///
/// `progress` is called now and then with the number of instructions counted; `false` stops it.
///
/// # Errors
/// The trace is damaged or cannot be read, or `progress` said to stop.
pub fn miss_curves(
    source: &mut dyn Source,
    progress: &(dyn Fn(u64) -> bool + Sync),
) -> Result<MissCurves, ReplayError> {
    watched(Some(progress), |goes_on| count(source, goes_on))
}

/// All of a trace, of which one stretch is decoded while another is counted.
fn count(
    source: &mut dyn Source,
    goes_on: &(dyn Fn(u64) -> bool + Sync),
) -> Result<MissCurves, ReplayError> {
    let mut counter = MissCurveCounter::default();
    let mut reader = ReadAhead::new(Counting::new(source, 0, None)?, BATCHES_BETWEEN_THREADS);
    let (mut current, mut next) = (Stretch::default(), Stretch::default());
    reader.fill(&mut next)?;
    while !next.is_empty() {
        std::mem::swap(&mut current, &mut next);
        counter.learn(reader.blocks());
        let count = || current.batches().for_each(|(batch, _)| counter.count(batch));
        let (decoded, ()) = rayon::join(|| reader.fill(&mut next), count);
        decoded?;
        if !goes_on(counter.instructions) {
            return Err(ReplayError::Stopped);
        }
    }
    Ok(counter.finish())
}

/// Counts the distances of a trace that is handed over batch by batch.
#[derive(Default)]
pub struct MissCurveCounter {
    instructions: u64,
    /// A copy of the source's table, which grows while a batch is counted.
    blocks: Vec<Block>,
    plans: Vec<Plan>,
    pages: Pages,
    /// By [`Stream`].
    streams: [StreamCounter; 3],
    data_changes: Changes,
}

/// What is known of a block before it runs.
struct Plan {
    /// The number in the address space of the page it begins on.
    number: u64,
    /// That page's own number.
    page: u32,
    instructions: u32,
    /// How many; or [`u32::MAX`] for a block that must be stepped through, as few must: it lies on
    /// several pages, makes several accesses without a fetch between them, or very many.
    accesses: u32,
    /// Whether no instruction is fetched after its last access.
    ends_with_access: bool,
}

/// How many blocks are counted without a look at anything else.
const BLOCKS_AT_ONCE: usize = 32;
/// How many accesses each of them may make, so that [`changes_between`] can be added up for all.
const ACCESSES_AT_ONCE: usize = 62;
/// At most this many updates come from them, and as many from a block that is stepped through.
const UPDATES_AT_ONCE: usize = BLOCKS_AT_ONCE * (1 + ACCESSES_AT_ONCE);

impl MissCurveCounter {
    /// Learns of the blocks that are new in the table.
    pub fn learn(&mut self, blocks: &[Block]) {
        for block in &blocks[self.plans.len()..] {
            let plan = self.plan(block);
            self.plans.push(plan);
            self.blocks.push(block.clone());
        }
    }

    fn plan(&mut self, block: &Block) -> Plan {
        let instructions = block.instruction_sizes_bytes.len();
        let length_bytes: u64 =
            block.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
        let number = page_number(block.address);
        let last_number = page_number(block.address.wrapping_add(length_bytes.max(1) - 1));
        let has_pairs =
            block.accesses.windows(2).any(|pair| pair[0].instruction == pair[1].instruction);
        let last_access = block.accesses.last();
        let is_stepped =
            number != last_number || has_pairs || block.accesses.len() > ACCESSES_AT_ONCE;
        Plan {
            number,
            page: self.pages.page(number),
            instructions: instructions as u32,
            accesses: if is_stepped { u32::MAX } else { block.accesses.len() as u32 },
            ends_with_access: last_access
                .is_some_and(|access| usize::from(access.instruction) + 1 == instructions),
        }
    }

    /// Counts one batch, all of whose blocks are known.
    pub fn count(&mut self, batch: &Batch) {
        let mut spanning = batch
            .crossings
            .iter()
            .map(|crossing| {
                let first = batch.addresses[crossing.access as usize];
                (crossing.access as usize, first, first.wrapping_add(crossing.last_byte.into()))
            })
            .filter(|&(_, first, last)| page_number(first) != page_number(last))
            .peekable();
        let mut counted = 0;
        let mut made = 0;
        let mut compared = 0;
        loop {
            let next_spanning = spanning.peek().map_or(batch.addresses.len(), |next| next.0);
            let (blocks, accesses) =
                self.count_at_once(&batch.blocks[counted..], &batch.addresses[made..next_spanning]);
            counted += blocks;
            made += accesses;
            self.drain_beyond(MAX_UPDATES - UPDATES_AT_ONCE);
            if blocks < BLOCKS_AT_ONCE {
                let Some(&id) = batch.blocks.get(counted) else { break };
                counted += 1;
                let first = made;
                made += self.blocks[id as usize].accesses.len();
                self.step_through(id as usize, &batch.addresses[first..made]);
                while let Some((access, first, last)) = spanning.next_if(|next| next.0 < made) {
                    self.data_changes.count(&batch.addresses[compared..=access]);
                    self.data_changes.count(&[first, last]);
                    compared = access + 1;
                }
            }
        }
        self.data_changes.count(&batch.addresses[compared..]);
    }

    /// Counts blocks up to one that must be stepped through or for which `addresses` does not
    /// suffice, and says how many, and how many accesses they made.
    fn count_at_once(&mut self, blocks: &[BlockId], addresses: &[u64]) -> (usize, usize) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.count_at_once_avx2(blocks, addresses) };
        }
        self.count_at_once_portable(blocks, addresses)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn count_at_once_avx2(&mut self, blocks: &[BlockId], addresses: &[u64]) -> (usize, usize) {
        self.count_at_once_portable(blocks, addresses)
    }

    #[inline(always)]
    fn count_at_once_portable(&mut self, blocks: &[BlockId], addresses: &[u64]) -> (usize, usize) {
        let Self { plans, pages, streams: [instruction, data, unified], .. } = self;
        // In registers for the while.
        let (mut fetches, mut accesses, mut both) =
            (instruction.recent, data.recent, unified.recent);
        let (mut fetch_changes, mut changes) = (0, 0);
        let (mut counted, mut made, mut instructions) = (0, 0, 0);
        for &id in blocks.iter().take(BLOCKS_AT_ONCE) {
            let plan = &plans[id as usize];
            let end = made + plan.accesses as usize;
            let Some(of_block) = addresses.get(made..end) else { break };
            made = end;
            counted += 1;
            instructions += u64::from(plan.instructions);
            fetch_changes += changes_between(fetches.number, plan.number);
            fetches.number = plan.number;
            fetches.reference(plan.page, &mut instruction.updates);
            changes += changes_between(both.number, plan.number);
            both.number = plan.number;
            both.reference(plan.page, &mut unified.updates);
            let mut last = (plan.number, plan.page);
            for &address in of_block {
                let number = page_number(address);
                let page = pages.page(number);
                accesses.reference(page, &mut data.updates);
                both.reference_between(page, &mut unified.updates);
                changes += 2 * changes_between(plan.number, number);
                last = (number, page);
            }
            if plan.ends_with_access {
                changes -= changes_between(plan.number, last.0);
                both.number = last.0;
                both.reference_again(last.1);
            }
        }
        (instruction.recent, data.recent, unified.recent) = (fetches, accesses, both);
        instruction.add_changes(fetch_changes);
        unified.add_changes(changes);
        instruction.references += instructions;
        data.references += made as u64;
        self.instructions += instructions;
        (counted, made)
    }

    /// A block of any kind, instruction by instruction.
    #[cold]
    fn step_through(&mut self, id: usize, addresses: &[u64]) {
        let blocks = std::mem::take(&mut self.blocks);
        let block = &blocks[id];
        self.instructions += block.instruction_sizes_bytes.len() as u64;
        let mut accesses = block.accesses.iter().zip(addresses).peekable();
        let mut address = block.address;
        for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
            self.look_up(Stream::Instruction, address, u64::from(size));
            address = address.wrapping_add(u64::from(size));
            while let Some((access, &address)) =
                accesses.next_if(|(access, _)| usize::from(access.instruction) == index)
            {
                self.look_up(Stream::Data, address, u64::from(access.size_bytes));
            }
        }
        self.blocks = blocks;
    }

    fn look_up(&mut self, stream: Stream, address: u64, size_bytes: u64) {
        let first = page_number(address);
        let last = page_number(address.wrapping_add(size_bytes.max(1) - 1));
        let numbers = [first, last];
        for &number in if first == last { &numbers[..1] } else { &numbers } {
            let page = self.pages.page(number);
            self.streams[stream as usize].references += 1;
            for stream in [stream, Stream::Unified] {
                let stream = &mut self.streams[stream as usize];
                if page == stream.recent.top {
                    continue;
                }
                stream.add_changes(changes_between(stream.recent.number, number));
                stream.recent.number = number;
                stream.recent.reference(page, &mut stream.updates);
            }
        }
        self.drain_beyond(MAX_UPDATES - UPDATES_AT_ONCE);
    }

    /// Sends the updates through the stacks where there are more than `updates`.
    fn drain_beyond(&mut self, updates: usize) {
        // Those of the other streams are never more.
        if self.streams[Stream::Unified as usize].recent.updates > updates {
            let Self { pages, streams: [instruction, data, unified], .. } = self;
            let of_one_side = || {
                instruction.drain(pages);
                data.drain(pages);
            };
            rayon::join(|| unified.drain(pages), of_one_side);
        }
    }

    /// The curves.
    pub fn finish(mut self) -> MissCurves {
        self.drain_beyond(0);
        let [instruction, mut data, mut unified] = self.streams;
        unified.references = instruction.references + data.references;
        // Data pages follow each other as in the batches, whatever the blocks.
        data.changes = self.data_changes.changes;
        MissCurves {
            instructions: self.instructions,
            curves: [instruction.finish(), data.finish(), unified.finish()],
        }
    }
}

/// The number in the address space of the smallest page at `address`.
fn page_number(address: u64) -> u64 {
    address >> SMALLEST_PAGE_SHIFT
}

/// No page: own numbers of pages begin after it, at every size.
const NO_PAGE: u32 = 0;

/// Gives pages numbers of their own, from 1 in the order in which they are first used, at each
/// size.
struct Pages {
    /// The number in the address space and the own number of the pages found last: most look-ups
    /// end here.
    found: Box<[(u64, u32); FOUND_PAGES]>,
    smallest: HashMap<u64, u32>,
    larger: [HashMap<u64, u32>; SIZES - 1],
    /// By a page's own number, that of the page of the next larger size enclosing it.
    enclosing: [Vec<u32>; SIZES - 1],
}

const FOUND_PAGES: usize = 1 << 10;

impl Default for Pages {
    fn default() -> Self {
        Self {
            found: Box::new([(u64::MAX, NO_PAGE); FOUND_PAGES]),
            smallest: HashMap::new(),
            larger: Default::default(),
            enclosing: std::array::from_fn(|_| vec![NO_PAGE]),
        }
    }
}

impl Pages {
    /// The own number of the smallest page with this number in the address space.
    #[inline(always)]
    fn page(&mut self, number: u64) -> u32 {
        let (found, page) = self.found[number as usize % FOUND_PAGES];
        if found == number { page } else { self.find(number) }
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> u32 {
        let next = self.smallest.len() as u32 + 1;
        let page = *self.smallest.entry(number).or_insert(next);
        if page == next {
            for (size, numbers) in self.larger.iter_mut().enumerate() {
                let next = numbers.len() as u32 + 1;
                let page = *numbers.entry(number >> SHIFTS[size + 1]).or_insert(next);
                self.enclosing[size].push(page);
                if page != next {
                    break;
                }
            }
        }
        self.found[number as usize % FOUND_PAGES] = (number, page);
        page
    }

    /// How many pages there are at this size, with [`NO_PAGE`].
    fn count(&self, size: usize) -> usize {
        1 + if size == 0 { self.smallest.len() } else { self.larger[size - 1].len() }
    }
}

/// How many updates a stream can collect before they go through the stacks, on two threads: enough
/// that these wait for each other seldom.
const MAX_UPDATES: usize = 1 << 16;

/// A page that becomes one of the two used last; of the two before, one kept.
#[derive(Clone, Copy, Default)]
struct StackUpdate {
    page: u32,
    kept: u32,
}

/// One stream, at all page sizes.
struct StreamCounter {
    references: u64,
    /// Look-ups of another page than the look-up before, by page size.
    changes: [u64; SIZES],
    recent: Recent,
    /// Those of the smallest pages that have not gone through the stacks.
    updates: Box<[StackUpdate; MAX_UPDATES]>,
    stacks: [Stack; SIZES],
}

impl Default for StreamCounter {
    fn default() -> Self {
        let updates: Box<[_]> = vec![StackUpdate::default(); MAX_UPDATES].into();
        Self {
            references: 0,
            changes: [0; SIZES],
            recent: Recent { number: u64::MAX, top: NO_PAGE, below: NO_PAGE, updates: 0 },
            updates: updates.try_into().unwrap_or_else(|_| unreachable!("made with this length")),
            stacks: Default::default(),
        }
    }
}

impl StreamCounter {
    /// Adds a sum of [`changes_between`].
    fn add_changes(&mut self, packed: u64) {
        for (size, changes) in self.changes.iter_mut().enumerate() {
            *changes += packed >> (size * CHANGES_BITS) & ((1 << CHANGES_BITS) - 1);
        }
    }

    /// Sends the updates through the stacks, from size to size.
    fn drain(&mut self, pages: &Pages) {
        let mut count = std::mem::take(&mut self.recent.updates);
        for size in 0..SIZES {
            let enclosing = pages.enclosing.get(size).map_or(&[][..], |enclosing| enclosing);
            let larger_recent = self.stacks.get(size + 1).map_or([NO_PAGE; 2], |l| l.recent);
            count = self.stacks[size].update(
                &mut self.updates[..count],
                pages.count(size),
                enclosing,
                larger_recent,
            );
        }
    }

    fn finish(self) -> [Curve; SIZES] {
        let mut changes = self.changes.into_iter();
        self.stacks.map(|stack| {
            let misses = stack.misses(changes.next().unwrap_or_default());
            Curve { references: self.references, misses }
        })
    }
}

/// The two pages used last.
#[derive(Clone, Copy)]
struct Recent {
    /// The number in the address space of the one used last.
    number: u64,
    top: u32,
    below: u32,
    /// How many updates there were.
    updates: usize,
}

impl Recent {
    /// The next look-up is one of `page`.
    #[inline(always)]
    fn reference(&mut self, page: u32, updates: &mut [StackUpdate; MAX_UPDATES]) {
        self.push_update(page, updates);
        self.reference_again(page);
    }

    /// The next look-ups are one of `page` and another of the page that was used last.
    #[inline(always)]
    fn reference_between(&mut self, page: u32, updates: &mut [StackUpdate; MAX_UPDATES]) {
        self.push_update(page, updates);
        self.below = if page == self.top { self.below } else { page };
    }

    /// The next look-up is one of `page`, which is one of the two.
    #[inline(always)]
    fn reference_again(&mut self, page: u32) {
        self.below = if page == self.top { self.below } else { self.top };
        self.top = page;
    }

    /// No branch depends on whether the page is one of the two, which nothing could predict.
    #[inline(always)]
    fn push_update(&mut self, page: u32, updates: &mut [StackUpdate; MAX_UPDATES]) {
        updates[self.updates % MAX_UPDATES] = StackUpdate { page, kept: self.top };
        self.updates += usize::from((page != self.top) & (page != self.below));
    }
}

/// Bits for each page size in a sum of [`changes_between`].
const CHANGES_BITS: usize = 12;
const _: () = assert!(BLOCKS_AT_ONCE * (1 + 2 * ACCESSES_AT_ONCE) < 1 << CHANGES_BITS);

/// One in the bits of each page size at which two smallest pages are not on the same page.
#[inline(always)]
fn changes_between(number: u64, other: u64) -> u64 {
    CHANGES[(number ^ other).leading_zeros() as usize]
}

/// By how many leading bits are equal.
const CHANGES: [u64; 65] = {
    let mut changes = [0; 65];
    let mut size = 0;
    while size < SIZES {
        let mut equal = 0;
        while equal < 64 - SHIFTS[size] {
            changes[equal as usize] += 1 << (size * CHANGES_BITS);
            equal += 1;
        }
        size += 1;
    }
    changes
};

/// Counts changes of page from one address to the next.
#[derive(Default)]
struct Changes {
    last: Option<u64>,
    changes: [u64; SIZES],
}

impl Changes {
    fn count(&mut self, addresses: &[u64]) {
        let (Some(&first), Some(&last)) = (addresses.first(), addresses.last()) else { return };
        let before = self.last.replace(last).unwrap_or(!first);
        self.count_pairs(&[before], &[first]);
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.count_pairs_avx2(addresses, &addresses[1..]) };
        }
        self.count_pairs(addresses, &addresses[1..]);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn count_pairs_avx2(&mut self, before: &[u64], after: &[u64]) {
        self.count_pairs(before, after);
    }

    #[inline(always)]
    fn count_pairs(&mut self, before: &[u64], after: &[u64]) {
        let mut counts = [0; SIZES];
        for (before, after) in before.iter().zip(after) {
            for (count, shift) in counts.iter_mut().zip(SHIFTS) {
                *count += u64::from((before ^ after) >> (SMALLEST_PAGE_SHIFT + shift) != 0);
            }
        }
        for (changes, count) in self.changes.iter_mut().zip(counts) {
            *changes += count;
        }
    }
}

/// As prose has it: 1,536.
fn with_commas(number: usize) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", with_commas(number / 1000), number % 1000),
    }
}

/// Whether the processor is one of the last ten years, for which the hot functions are compiled
/// too.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}
