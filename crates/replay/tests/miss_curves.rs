//! The miss curves against a list that is searched from its front.

use mmulab_machine::PageSize;
use mmulab_replay::{CURVE_PAGE_SIZES, MissCurves, Stream, miss_curves};
use mmulab_trace::{Access, AccessKind, Batch, Block, BlockTable, Source, TraceError};
use proptest::prelude::*;

/// A trace in memory, handed over in batches of a few blocks.
struct Memory {
    table: BlockTable,
    executions: Vec<(u32, Vec<u64>)>,
    next: usize,
}

impl Source for Memory {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        for (block, addresses) in self.executions.iter().skip(self.next).take(45) {
            batch.blocks.push(*block);
            batch.addresses.extend(addresses);
        }
        self.next += batch.blocks.len();
        batch.find_crossings(self.table.blocks());
        Ok(!batch.blocks.is_empty())
    }
}

fn memory(blocks: &[Block], executions: &[(u32, Vec<u64>)]) -> Memory {
    let mut table = BlockTable::default();
    for block in blocks {
        table.push(block.clone());
    }
    Memory { table, executions: executions.to_vec(), next: 0 }
}

/// Misses by TLB size, from a list in order of use.
fn naive_misses(pages: &[u64]) -> Vec<u64> {
    let mut list: Vec<u64> = Vec::new();
    let mut distances = Vec::new();
    for page in pages {
        let found = list.iter().position(|listed| listed == page);
        if let Some(place) = found {
            list.remove(place);
        }
        list.insert(0, *page);
        distances.push(found.unwrap_or(usize::MAX));
    }
    (1..=list.len())
        .map(|entries| distances.iter().filter(|distance| **distance >= entries).count() as u64)
        .collect()
}

/// Every look-up of the trace in program order: whether it is data, and its address.
fn lookups(blocks: &[Block], executions: &[(u32, Vec<u64>)]) -> Vec<(bool, u64)> {
    let mut lookups = Vec::new();
    let mut look_up = |is_data, address: u64, size: u64| {
        lookups.push((is_data, address));
        let last = address + size - 1;
        if last >> 12 != address >> 12 {
            lookups.push((is_data, last));
        }
    };
    for (block, addresses) in executions {
        let block = &blocks[*block as usize];
        let mut address = block.address;
        for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
            look_up(false, address, u64::from(size));
            address += u64::from(size);
            for (access, &address) in block.accesses.iter().zip(addresses) {
                if usize::from(access.instruction) == index {
                    look_up(true, address, u64::from(access.size_bytes));
                }
            }
        }
    }
    lookups
}

fn assert_same(result: &MissCurves, blocks: &[Block], executions: &[(u32, Vec<u64>)]) {
    let lookups = lookups(blocks, executions);
    for stream in Stream::ALL {
        let addresses: Vec<u64> = lookups
            .iter()
            .filter(|(is_data, _)| match stream {
                Stream::Instruction => !is_data,
                Stream::Data => *is_data,
                Stream::Unified => true,
            })
            .map(|(_, address)| *address)
            .collect();
        for page_size in CURVE_PAGE_SIZES {
            let pages: Vec<u64> =
                addresses.iter().map(|address| address >> page_size.shift()).collect();
            let curve = result.curve(stream, page_size).expect("counted");
            assert_eq!(curve.references, pages.len() as u64, "{stream:?}");
            assert_eq!(curve.misses, naive_misses(&pages), "{stream:?} {page_size:?}");
        }
    }
}

/// Addresses over few or many pages, near page ends as often as not, at two places far apart.
fn address(pages: u64) -> impl Strategy<Value = u64> {
    (0..pages, prop_oneof![0_u64..4096, 4080_u64..4096], any::<bool>())
        .prop_map(|(page, offset, far)| page * 4096 + offset + (u64::from(far) << 40))
}

fn block(pages: u64) -> impl Strategy<Value = Block> {
    let shape = prop::collection::vec((1_u8..=15, prop::collection::vec(1_u16..=32, 0..3)), 1..8);
    (address(pages), shape).prop_map(|(address, shape)| Block {
        address,
        instruction_sizes_bytes: shape.iter().map(|(size, _)| *size).collect(),
        accesses: (0_u16..)
            .zip(&shape)
            .flat_map(|(instruction, (_, sizes))| {
                sizes.iter().map(move |&size_bytes| Access {
                    instruction,
                    size_bytes,
                    kind: AccessKind::Load,
                })
            })
            .collect(),
    })
}

type Program = (Vec<Block>, Vec<(u32, Vec<u64>)>);

fn program(pages: u64, length: usize) -> impl Strategy<Value = Program> {
    prop::collection::vec(block(pages), 1..20).prop_flat_map(move |blocks| {
        let count = blocks.len() as u32;
        let most = blocks.iter().map(|block| block.accesses.len()).max().unwrap_or(0);
        let execution = (0..count, prop::collection::vec(address(pages), most));
        prop::collection::vec(execution, 0..length).prop_map(move |mut executions| {
            for (block, addresses) in &mut executions {
                addresses.truncate(blocks[*block as usize].accesses.len());
            }
            (blocks.clone(), executions)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn few_pages((blocks, executions) in program(6, 200)) {
        let result = miss_curves(&mut memory(&blocks, &executions), &|_| true).expect("readable");
        assert_same(&result, &blocks, &executions);
    }

    #[test]
    fn many_pages((blocks, executions) in program(900, 400)) {
        let result = miss_curves(&mut memory(&blocks, &executions), &|_| true).expect("readable");
        assert_same(&result, &blocks, &executions);
    }
}

/// Enough evictions from the window that the time axis is compacted several times, and more updates
/// than the counter collects before they go through its stacks.
#[test]
fn long_cycles_through_many_pages() {
    let blocks = [Block {
        address: 0x1000,
        instruction_sizes_bytes: vec![4],
        accesses: vec![Access { instruction: 0, size_bytes: 8, kind: AccessKind::Store }],
    }];
    let executions: Vec<(u32, Vec<u64>)> =
        (0..150_000_u64).map(|step| (0, vec![(step * step % 521) << 12 | 8])).collect();
    let result = miss_curves(&mut memory(&blocks, &executions), &|_| true).expect("readable");
    assert_same(&result, &blocks, &executions);
}

/// A cycle over `n` pages misses always with fewer entries and only at first with enough.
#[test]
fn a_cycle_has_one_step() {
    let blocks = [Block {
        address: 0x1000,
        instruction_sizes_bytes: vec![4],
        accesses: vec![Access { instruction: 0, size_bytes: 8, kind: AccessKind::Load }],
    }];
    let executions: Vec<(u32, Vec<u64>)> =
        (0..10_000_u64).map(|step| (0, vec![step % 100 * 4096 + (1 << 32)])).collect();
    let result = miss_curves(&mut memory(&blocks, &executions), &|_| true).expect("readable");
    let curve = result.curve(Stream::Data, PageSize::Size4K).expect("counted");
    assert_eq!(curve.pages(), 100);
    assert!((1..100).all(|entries| curve.misses_at(entries) == 10_000));
    assert_eq!(curve.misses_at(100), 100);
    assert_eq!(curve.misses_at(1_000_000), 100);
    assert_eq!(
        result.huge_page_verdict(64),
        "Huge pages would help, saving 100.0% of the page walks: with 2M pages instead of 4K, \
        a data TLB of 64 entries misses 0.000 instead of 990.000 times per thousand \
        instructions (the first use of each page, which is a page fault, not counted)."
    );
    assert_eq!(
        result.huge_page_verdict(1024),
        "Huge pages would help a little, saving second-level look-ups: with 2M pages instead of \
        4K, a data TLB of 1,024 entries misses 0.000 instead of 0.000 times per thousand \
        instructions, and one of 64 entries 0.000 instead of 990.000 times (the first use of each \
        page, which is a page fault, not counted)."
    );
}

/// However many pages a program uses once, larger ones would save it no walk that matters.
#[test]
fn first_uses_say_nothing_for_huge_pages() {
    let blocks = [Block {
        address: 0x1000,
        instruction_sizes_bytes: vec![4],
        accesses: vec![Access { instruction: 0, size_bytes: 8, kind: AccessKind::Load }],
    }];
    let executions: Vec<(u32, Vec<u64>)> =
        (0..10_000_u64).map(|step| (0, vec![step * 4096 + (1 << 32)])).collect();
    let result = miss_curves(&mut memory(&blocks, &executions), &|_| true).expect("readable");
    let verdict = result.huge_page_verdict(1536);
    assert!(verdict.starts_with("Huge pages would hardly help: "), "{verdict}");
}

#[test]
fn an_empty_trace_has_empty_curves() {
    let result = miss_curves(&mut memory(&[], &[]), &|_| true).expect("readable");
    let curve = result.curve(Stream::Unified, PageSize::Size1G).expect("counted");
    assert_eq!((curve.references, curve.pages(), curve.misses_at(1)), (0, 0, 0));
    assert!(result.curve(Stream::Data, PageSize::Size1M).is_none());
    assert!(result.huge_page_verdict(64).starts_with("Huge pages would hardly help"));
}
