//! How far a TLB of each size reaches: exact LRU stack distances over pages, in one pass.
//!
//! A fully associative LRU TLB of `n` entries holds the `n` most recently used pages, so a
//! look-up hits exactly when fewer than `n` other pages were used since the last use of its page
//! (Mattson and others, 1970). One pass that counts these distances therefore answers for all
//! sizes at once.
//!
//! The pass is quick because of three facts. Most look-ups repeat the page before them, and a
//! repeat at one page size is a repeat at all larger ones, so nothing happens at all. Most others
//! find their page among the few most recent ones, which are ranked directly. The rest, ordered by
//! the moment when they left those, are bits on a time line, and a distance is a count of bits.

use std::collections::HashMap;

use mmulab_machine::PageSize;
use mmulab_trace::{Access, Batch, Block, Source};

use crate::replay::ReplayError;

/// The page sizes that are counted, ascending; all at once.
pub const REACH_PAGE_SIZES: [PageSize; SIZES] =
    [PageSize::Size4K, PageSize::Size16K, PageSize::Size64K, PageSize::Size2M, PageSize::Size1G];

const SIZES: usize = 5;
const SMALLEST_PAGE_SHIFT: u32 = 12;
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
pub struct Reach {
    /// Instructions executed.
    pub instructions: u64,
    curves: [[Curve; SIZES]; 3],
}

impl Reach {
    /// The curve of `stream` at `page_size`; `None` for a page size that is not counted.
    pub fn curve(&self, stream: Stream, page_size: PageSize) -> Option<&Curve> {
        let size = REACH_PAGE_SIZES.iter().position(|counted| *counted == page_size)?;
        Some(&self.curves[stream as usize][size])
    }

    /// Misses a thousand instructions of a TLB of `entries` for `stream` at `page_size`.
    fn misses_per_thousand(&self, stream: Stream, page_size: PageSize, entries: usize) -> f64 {
        let misses = self.curve(stream, page_size).map_or(0, |curve| curve.misses_at(entries));
        misses as f64 * 1000.0 / self.instructions.max(1) as f64
    }

    /// Whether huge pages would help, in one sentence with its numbers, for a data TLB of `entries`.
    ///
    /// One that is larger than a first level of today is taken for a second level behind it.
    pub fn huge_page_verdict(&self, entries: usize) -> String {
        let misses = |entries| {
            let at = |size| self.misses_per_thousand(Stream::Data, size, entries);
            (at(PageSize::Size4K), at(PageSize::Size2M))
        };
        let (small, large) = misses(entries);
        let mut change = format!(
            "with 2M pages instead of 4K, a data TLB of {entries} entries misses {large:.3} \
             instead of {small:.3} times in a thousand instructions"
        );
        let (small_first, large_first) = misses(FIRST_LEVEL_ENTRIES.min(entries));
        if entries > FIRST_LEVEL_ENTRIES {
            let first = format!(
                ", and one of {FIRST_LEVEL_ENTRIES} entries {large_first:.3} instead of \
                 {small_first:.3} times"
            );
            change.push_str(&first);
        }
        // Ten cycles is a cheap walk and a hundred a dear one: below 0.1 misses in a thousand
        // instructions even dear ones cost one cycle in a hundred instructions. So do ten times as
        // many misses of a first level, which a second level answers in some ten cycles.
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

/// Counts the distances of a whole trace, on two threads: one reads ahead.
///
/// `progress` is called now and then with the number of instructions counted; `false` stops it.
///
/// # Errors
/// The trace is damaged or cannot be read, or `progress` said to stop.
pub fn reach(
    source: &mut dyn Source,
    progress: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Reach, ReplayError> {
    let mut counter = ReachCounter::default();
    let (mut current, mut next) = (Batch::default(), Batch::default());
    let mut more = source.next_batch(&mut next)?;
    while more {
        std::mem::swap(&mut current, &mut next);
        counter.learn(source.table().blocks());
        let (decoded, ()) =
            rayon::join(|| source.next_batch(&mut next), || counter.count(&current));
        more = decoded?;
        if !progress(counter.instructions) {
            return Err(ReplayError::Stopped);
        }
    }
    Ok(counter.finish())
}

/// Counts the distances of a trace that is handed over batch by batch.
#[derive(Default)]
pub struct ReachCounter {
    instructions: u64,
    pages: Pages,
    instruction: StackSet,
    data: StackSet,
    unified: StackSet,
    plans: Vec<Plan>,
    accesses: Vec<PlannedAccess>,
}

/// What is known of a block before it runs.
struct Plan {
    code: Code,
    instructions: u32,
    /// Its part of the planned accesses.
    accesses: std::ops::Range<usize>,
}

#[derive(Clone, Copy)]
struct PlannedAccess {
    size_bytes: u16,
    neighbours: Neighbours,
}

/// Where a block's instructions lie.
enum Code {
    /// All on this page.
    OnPage(Page),
    /// On several pages: these seldom run, and then instruction by instruction.
    AcrossPages(Box<Block>),
}

/// Which look-ups stand beside an access in the unified stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbours {
    /// A fetch from the block's page before it, and another after it.
    FetchOnBothSides,
    /// A fetch from the block's page after it; before it an access of the same instruction.
    FetchAfter,
    /// No fetch of this block after it.
    NoFetchAfter,
}

impl ReachCounter {
    /// Learns of the blocks that are new in the table.
    pub fn learn(&mut self, blocks: &[Block]) {
        for block in &blocks[self.plans.len()..] {
            self.plan(block);
        }
    }

    /// Counts one batch, all of whose blocks are known.
    pub fn count(&mut self, batch: &Batch) {
        let mut addresses = batch.addresses.as_slice();
        for &id in &batch.blocks {
            let plan = &self.plans[id as usize];
            self.instructions += u64::from(plan.instructions);
            let (of_block, rest) = addresses.split_at(plan.accesses.len());
            addresses = rest;
            match plan.code {
                Code::OnPage(page) => {
                    let accesses = plan.accesses.clone();
                    self.instruction.references += u64::from(plan.instructions);
                    self.unified.references += u64::from(plan.instructions);
                    self.instruction.access(&page);
                    self.unified.access(&page);
                    self.data.references += of_block.len() as u64;
                    self.unified.references += of_block.len() as u64;
                    for (access, &address) in self.accesses[accesses].iter().zip(of_block) {
                        let last = address.wrapping_add(u64::from(access.size_bytes.max(1)) - 1);
                        if address >> SMALLEST_PAGE_SHIFT == last >> SMALLEST_PAGE_SHIFT {
                            let data_page = self.pages.page(address >> SMALLEST_PAGE_SHIFT);
                            self.data.access(data_page);
                            match access.neighbours {
                                Neighbours::FetchOnBothSides => {
                                    self.unified.access_between(data_page);
                                }
                                Neighbours::FetchAfter => {
                                    self.unified.access(data_page);
                                    self.unified.access(&page);
                                }
                                Neighbours::NoFetchAfter => self.unified.access(data_page),
                            }
                        } else {
                            self.data.references += 1;
                            self.unified.references += 1;
                            for address in [address, last] {
                                let data_page = self.pages.page(address >> SMALLEST_PAGE_SHIFT);
                                self.data.access(data_page);
                                self.unified.access(data_page);
                            }
                            if access.neighbours != Neighbours::NoFetchAfter {
                                self.unified.access(&page);
                            }
                        }
                    }
                }
                Code::AcrossPages(_) => self.step_through(id as usize, of_block),
            }
        }
    }

    fn plan(&mut self, block: &Block) {
        let length_bytes: u64 =
            block.instruction_sizes_bytes.iter().map(|&size| u64::from(size)).sum();
        let last = block.address.wrapping_add(length_bytes.max(1) - 1);
        let first_page = block.address >> SMALLEST_PAGE_SHIFT;
        let code = if first_page == last >> SMALLEST_PAGE_SHIFT {
            Code::OnPage(*self.pages.page(first_page))
        } else {
            Code::AcrossPages(Box::new(block.clone()))
        };
        let first = self.accesses.len();
        let last_instruction = block.instruction_sizes_bytes.len().saturating_sub(1);
        for (index, access) in block.accesses.iter().enumerate() {
            let same_instruction = |other: Option<&Access>| {
                other.is_some_and(|other| other.instruction == access.instruction)
            };
            let neighbours = if usize::from(access.instruction) == last_instruction
                || same_instruction(block.accesses.get(index + 1))
            {
                Neighbours::NoFetchAfter
            } else if same_instruction(block.accesses[..index].last()) {
                Neighbours::FetchAfter
            } else {
                Neighbours::FetchOnBothSides
            };
            self.accesses.push(PlannedAccess { size_bytes: access.size_bytes, neighbours });
        }
        self.plans.push(Plan {
            code,
            instructions: block.instruction_sizes_bytes.len() as u32,
            accesses: first..self.accesses.len(),
        });
    }

    /// A block that crosses a page: instruction by instruction.
    #[cold]
    fn step_through(&mut self, number: usize, addresses: &[u64]) {
        let Self { pages, instruction, data, unified, plans, .. } = self;
        let Code::AcrossPages(block) = &plans[number].code else { return };
        let mut look_up = |own: &mut StackSet, address: u64, size_bytes: u64| {
            let last = address.wrapping_add(size_bytes.max(1) - 1) >> SMALLEST_PAGE_SHIFT;
            let first = address >> SMALLEST_PAGE_SHIFT;
            for number in first..=last {
                let page = pages.page(number);
                for stacks in [&mut *own, &mut *unified] {
                    stacks.references += 1;
                    stacks.access(page);
                }
            }
        };
        let mut accesses = block.accesses.iter().zip(addresses).peekable();
        let mut address = block.address;
        for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
            look_up(instruction, address, u64::from(size));
            address = address.wrapping_add(u64::from(size));
            while let Some((access, &address)) =
                accesses.next_if(|(access, _)| usize::from(access.instruction) == index)
            {
                look_up(data, address, u64::from(access.size_bytes));
            }
        }
    }

    /// The curves.
    pub fn finish(self) -> Reach {
        Reach {
            instructions: self.instructions,
            curves: [self.instruction.finish(), self.data.finish(), self.unified.finish()],
        }
    }
}

/// A page, by the numbers that it and the larger pages around it have in their stacks.
type Page = [u32; SIZES];

const NO_PAGE: u32 = u32::MAX;

/// Numbers pages in the order in which they are first used, at each page size.
struct Pages {
    /// By the address at the smallest page size, the pages found last: most look-ups end here.
    recent: Box<[(u64, Page); RECENT_PAGES]>,
    pages: HashMap<u64, Page>,
    larger: [HashMap<u64, u32>; SIZES - 1],
}

const RECENT_PAGES: usize = 1 << 10;

impl Default for Pages {
    fn default() -> Self {
        Self {
            recent: Box::new([(u64::MAX, [NO_PAGE; SIZES]); RECENT_PAGES]),
            pages: HashMap::new(),
            larger: Default::default(),
        }
    }
}

impl Pages {
    /// The page with this number in the address space, counted in the smallest size.
    #[inline]
    fn page(&mut self, number: u64) -> &Page {
        let index = number as usize % RECENT_PAGES;
        if self.recent[index].0 != number {
            self.find(number);
        }
        &self.recent[index].1
    }

    #[inline(never)]
    fn find(&mut self, number: u64) {
        let next = self.pages.len() as u32;
        let page = *self.pages.entry(number).or_insert_with(|| {
            let mut page = [next; SIZES];
            for (size, numbers) in self.larger.iter_mut().enumerate() {
                let shift = REACH_PAGE_SIZES[size + 1].shift() - SMALLEST_PAGE_SHIFT;
                let next = numbers.len() as u32;
                page[size + 1] = *numbers.entry(number >> shift).or_insert(next);
            }
            page
        });
        self.recent[number as usize % RECENT_PAGES] = (number, page);
    }
}

/// The LRU stacks of one stream at all page sizes.
struct StackSet {
    references: u64,
    top: Page,
    /// The page that the last [`StackSet::access_between`] left below the top; [`NO_PAGE`] where
    /// something else came since.
    below: u32,
    /// At how many sizes `below` is not the top's page as well.
    below_sizes: usize,
    /// Repetitions of that same access, by those sizes: they move nothing, so they are only counted.
    repeats: [u64; SIZES + 1],
    stacks: [Stack; SIZES],
}

impl Default for StackSet {
    fn default() -> Self {
        Self {
            references: 0,
            top: [NO_PAGE; SIZES],
            below: NO_PAGE,
            below_sizes: 0,
            repeats: [0; SIZES + 1],
            stacks: Default::default(),
        }
    }
}

impl StackSet {
    #[inline]
    fn access(&mut self, page: &Page) {
        if page[0] == self.top[0] {
            return;
        }
        // A repeat at one size is a repeat at all larger ones.
        for (size, stack) in self.stacks.iter_mut().enumerate() {
            if page[size] == self.top[size] {
                break;
            }
            stack.access(page[size]);
        }
        self.top = *page;
        self.below = NO_PAGE;
    }

    /// An access to `page` between two to the top's page, the first of which was made last: it
    /// leaves `page` just below the top.
    #[inline]
    fn access_between(&mut self, page: &Page) {
        if page[0] == self.below {
            self.repeats[self.below_sizes] += 1;
            return;
        }
        let mut sizes = 0;
        for (size, stack) in self.stacks.iter_mut().enumerate() {
            if page[size] == self.top[size] {
                break;
            }
            stack.access_below_top(page[size]);
            sizes += 1;
        }
        self.below = page[0];
        self.below_sizes = sizes;
    }

    fn finish(mut self) -> [Curve; SIZES] {
        for (sizes, repeats) in self.repeats.into_iter().enumerate() {
            for stack in &mut self.stacks[..sizes] {
                stack.near_found[1] += 2 * repeats;
            }
        }
        self.stacks.map(|stack| Curve { references: self.references, misses: stack.misses() })
    }
}

/// How many of the most recent pages are ranked directly.
const NEAR: usize = 32;

/// One LRU stack, with counts of the distances at which pages were found in it.
struct Stack {
    /// Where each page is.
    places: Vec<Place>,
    /// The most recent pages, in any order: a page keeps its slot as long as it is near.
    near: [u32; NEAR],
    /// The distance of each of them from the top, so that a use changes 16 bytes and moves nothing.
    ranks: [u8; NEAR],
    near_found: [u64; NEAR],
    far: Far,
    /// By distance beyond [`NEAR`].
    far_found: Vec<u64>,
    first_uses: u64,
}

/// Where a page of a stack is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(u32);

impl Place {
    /// Not in the stack: never used.
    const NOWHERE: Place = Place(u32::MAX);
    const FAR: u32 = 1 << 31;

    fn near(slot: usize) -> Self {
        Place(slot as u32)
    }

    /// At a moment of the time line of [`Far`].
    fn far(moment: u32) -> Self {
        Place(moment | Self::FAR)
    }

    #[inline]
    fn slot(self) -> Option<usize> {
        (self.0 < NEAR as u32).then_some(self.0 as usize)
    }

    fn moment(self) -> Option<u32> {
        (self != Self::NOWHERE).then_some(self.0 & !Self::FAR)
    }
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            near: [NO_PAGE; NEAR],
            ranks: std::array::from_fn(|slot| slot as u8),
            near_found: [0; NEAR],
            far: Far::default(),
            far_found: Vec::new(),
            first_uses: 0,
        }
    }
}

impl Stack {
    /// Finds `page`, counts its distance and brings it to the top.
    #[inline]
    fn access(&mut self, page: u32) {
        self.bring_to::<0>(page);
    }

    /// Finds `page`, which is not the top, counts its distance and brings it below the top; and
    /// counts the second of the two accesses to the top around it.
    #[inline]
    fn access_below_top(&mut self, page: u32) {
        self.bring_to::<1>(page);
        self.near_found[1] += 1;
    }

    #[inline]
    fn bring_to<const RANK: u8>(&mut self, page: u32) {
        let place = self.places.get(page as usize).copied().unwrap_or(Place::NOWHERE);
        match place.slot() {
            Some(slot) => {
                let rank = self.ranks[slot];
                self.near_found[usize::from(rank) % NEAR] += 1;
                self.rank::<RANK>(rank);
            }
            None => self.bring_from_far::<RANK>(page, place),
        }
    }

    /// Moves the page at rank `old` to `RANK`. The loop is a handful of vector instructions: no
    /// branch depends on where the page was, which nothing could predict.
    #[inline]
    fn rank<const RANK: u8>(&mut self, old: u8) {
        for rank in &mut self.ranks {
            let moves_down = *rank < old && *rank >= RANK;
            *rank = if *rank == old { RANK } else { *rank + u8::from(moves_down) };
        }
    }

    /// `page` is not near: the last of the near ones leaves for it.
    #[inline(never)]
    fn bring_from_far<const RANK: u8>(&mut self, page: u32, place: Place) {
        match place.moment() {
            Some(moment) => {
                let distance = self.far.remove(moment);
                if distance >= self.far_found.len() {
                    self.far_found.resize(distance + 1, 0);
                }
                self.far_found[distance] += 1;
            }
            None => self.first_uses += 1,
        }
        let last = NEAR as u8 - 1;
        let slot = self.ranks.iter().position(|rank| *rank == last).unwrap_or(0);
        let displaced = self.near[slot];
        if displaced != NO_PAGE {
            self.far.push(displaced, &mut self.places);
        }
        self.near[slot] = page;
        self.rank::<RANK>(last);
        if page as usize >= self.places.len() {
            self.places.resize(page as usize + 1, Place::NOWHERE);
        }
        self.places[page as usize] = Place::near(slot);
    }

    fn misses(&self) -> Vec<u64> {
        // From the largest TLB, which misses first uses alone, to the smallest.
        let mut misses = self.first_uses;
        let pages = self.first_uses as usize;
        let found = self.near_found.iter().chain(&self.far_found).copied();
        let found: Vec<u64> = found.chain(std::iter::repeat(0)).take(pages).collect();
        let mut curve = vec![0; pages];
        for (entries, curve) in curve.iter_mut().enumerate().rev() {
            *curve = misses;
            misses += found[entries];
        }
        curve
    }
}

/// The part of a stack below the near pages, in the order in which they left those.
///
/// Pages lie on a time line in the order of their departure, one bit each; the number of bits
/// after a page's own is its distance. A Fenwick tree over words of the line sums them.
struct Far {
    line: Vec<u64>,
    /// `sums[i]` counts the bits of the words from `i & (i + 1)` to `i`.
    sums: Vec<u32>,
    /// Which page lies at each moment, or lay there.
    page_at: Vec<u32>,
    pages: u32,
}

const SHORTEST_LINE: usize = 1 << 10;

impl Default for Far {
    fn default() -> Self {
        Self {
            line: vec![0; SHORTEST_LINE / 64],
            sums: vec![0; SHORTEST_LINE / 64],
            page_at: Vec::new(),
            pages: 0,
        }
    }
}

impl Far {
    /// Takes out the page at `moment` and returns how many pages left the near ones after it did.
    fn remove(&mut self, moment: u32) -> usize {
        let (word, bit) = (moment as usize / 64, moment % 64);
        let up_to_bit = self.line[word] & (u64::MAX >> (63 - bit));
        let before = self.bits_before(word) + up_to_bit.count_ones();
        let distance = self.pages - before;
        self.line[word] &= !(1 << bit);
        self.add(word, -1);
        self.pages -= 1;
        distance as usize
    }

    /// Puts `page`, which is not here, on top.
    fn push(&mut self, page: u32, places: &mut [Place]) {
        if self.page_at.len() == self.line.len() * 64 {
            self.begin_new_line(places);
        }
        let moment = self.page_at.len();
        self.page_at.push(page);
        self.line[moment / 64] |= 1 << (moment % 64);
        self.add(moment / 64, 1);
        self.pages += 1;
        places[page as usize] = Place::far(moment as u32);
    }

    /// Bits in the words before `word`.
    fn bits_before(&self, word: usize) -> u32 {
        let mut bits = 0;
        let mut end = word;
        while end > 0 {
            bits += self.sums[end - 1];
            end &= end - 1;
        }
        bits
    }

    fn add(&mut self, word: usize, change: i32) {
        let mut index = word;
        while index < self.sums.len() {
            self.sums[index] = self.sums[index].wrapping_add_signed(change);
            index |= index + 1;
        }
    }

    /// Moves the pages together, on a line long enough that this comes seldom.
    #[cold]
    fn begin_new_line(&mut self, places: &mut [Place]) {
        let is_here = |moment: usize| self.line[moment / 64] >> (moment % 64) & 1 == 1;
        let pages: Vec<u32> = (0..self.page_at.len())
            .filter(|moment| is_here(*moment))
            .map(|moment| self.page_at[moment])
            .collect();
        let words = (pages.len() * 4).next_power_of_two().max(SHORTEST_LINE) / 64;
        *self = Self { line: vec![0; words], sums: vec![0; words], ..Self::default() };
        for page in pages {
            self.push(page, places);
        }
    }
}
