//! The writer fuses blocks that fall through into each other; what is executed stays the same.

use mmulab_trace::{
    Access, AccessKind, Batch, Block, BlockTable, Event, Metadata, MmtReader, MmtWriter,
    OpenOptions, Source, Termination, Totals,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens when a trace is executed step by step.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Instruction { address: u64, size_bytes: u8 },
    Access { kind: AccessKind, size_bytes: u16, address: u64 },
    Event(Event),
}

fn steps(table: &[Block], batch: &Batch, steps: &mut Vec<Step>) {
    let mut events = batch.events.iter().peekable();
    let mut addresses = batch.addresses.iter();
    for (index, &block) in batch.blocks.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(at, _)| *at == index) {
            steps.push(Step::Event(event.clone()));
        }
        let block = &table[block as usize];
        let mut address = block.address;
        let mut accesses = block.accesses.iter().peekable();
        for (number, &size_bytes) in block.instruction_sizes_bytes.iter().enumerate() {
            steps.push(Step::Instruction { address, size_bytes });
            address += u64::from(size_bytes);
            while let Some(access) = accesses.next_if(|a| usize::from(a.instruction) == number) {
                let (kind, size_bytes) = (access.kind, access.size_bytes);
                steps.push(Step::Access { kind, size_bytes, address: *addresses.next().unwrap() });
            }
        }
    }
    steps.extend(events.map(|(_, event)| Step::Event(event.clone())));
    assert!(addresses.next().is_none());
}

/// Writes the batches and reads them again: the steps before and after, the totals, the table.
fn written_and_read(
    table: &BlockTable,
    batches: &[Batch],
) -> (Vec<Step>, Vec<Step>, Totals, Vec<Block>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.mmt");
    let mut writer = MmtWriter::create(&path, &Metadata::default()).unwrap();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (number, batch) in batches.iter().enumerate() {
        steps(table.blocks(), batch, &mut before);
        writer.write(table, batch).unwrap();
        if number % 3 == 2 {
            writer.flush().unwrap();
        }
    }
    let totals = writer.finish(Termination::Unknown).unwrap();
    let mut reader = MmtReader::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(reader.information().totals, totals);
    let (mut batch, mut blocks) = (Batch::default(), 0);
    while reader.next_batch(&mut batch).unwrap() {
        blocks += batch.blocks.len() as u64;
        let crossings = batch.crossings.clone();
        batch.find_crossings(reader.table().blocks());
        assert_eq!(crossings, batch.crossings);
        steps(reader.table().blocks(), &batch, &mut after);
    }
    assert_eq!(blocks, totals.blocks);
    assert_eq!(reader.table().blocks().len() as u64, totals.distinct_blocks);
    (before, after, totals, reader.table().blocks().to_vec())
}

fn block(address: u64, sizes: Vec<u8>, accesses: usize) -> Block {
    let last = sizes.len() as u16 - 1;
    let access = |number| Access {
        instruction: (number as u16).min(last),
        size_bytes: 8,
        kind: if number % 2 == 0 { AccessKind::Load } else { AccessKind::Store },
    };
    Block { address, instruction_sizes_bytes: sizes, accesses: (0..accesses).map(access).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Blocks that are contiguous in memory, mostly executed so, with jumps and events between.
    #[test]
    fn every_step_stays(
        shapes in vec((vec(1u8..16, 1..9), 0usize..7), 2..12),
        start in prop_oneof![Just(0u64), 0xf80..0x1000u64, Just(u64::MAX - 60)],
        jumps in vec((1usize..30, any::<prop::sample::Index>()), 1..400),
        events in vec((any::<prop::sample::Index>(), 0u32..9), 0..6),
    ) {
        let mut table = BlockTable::default();
        let mut address = start;
        for (sizes, accesses) in shapes {
            let length: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
            // Nothing lies across the end of the address space; the next begins afresh.
            let next = address.checked_add(length).unwrap_or(0);
            if next > 0 {
                table.push(block(address, sizes, accesses));
            }
            address = next;
        }
        let blocks = table.blocks().len();
        prop_assume!(blocks > 0);
        let mut batches = vec![Batch::default()];
        let mut value = 0x1000u64;
        for (length, target) in jumps {
            let batch = batches.last_mut().unwrap();
            let target = target.index(blocks);
            for block in target..blocks.min(target + length) {
                batch.blocks.push(block as u32);
                for _ in &table.blocks()[block].accesses {
                    value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9);
                    batch.addresses.push(value);
                }
            }
            if batch.blocks.len() > 300 {
                batches.push(Batch::default());
            }
        }
        for (index, thread) in events {
            let batch = batches.first_mut().unwrap();
            batch.events.push((index.index(batch.blocks.len() + 1), Event::Thread(thread)));
            batch.events.sort_by_key(|(at, _)| *at);
        }
        let (before, after, totals, _) = written_and_read(&table, &batches);
        prop_assert_eq!(before, after);
        let executed: usize = batches.iter().map(|batch| batch.blocks.len()).sum();
        prop_assert!(totals.blocks <= executed as u64);
    }
}

/// Executes the blocks in turn, often.
fn loop_over(table: &BlockTable, rounds: usize) -> Batch {
    let mut batch = Batch::default();
    for round in 0..rounds {
        for (number, block) in table.blocks().iter().enumerate() {
            batch.blocks.push(number as u32);
            batch.addresses.extend(block.accesses.iter().map(|_| (round * 64) as u64));
        }
    }
    batch
}

#[test]
fn a_run_of_blocks_becomes_one() {
    let mut table = BlockTable::default();
    for number in 0..4 {
        table.push(block(0x2000 + 8 * number, vec![4, 4], 2));
    }
    let (before, after, totals, blocks) = written_and_read(&table, &[loop_over(&table, 10_000)]);
    assert_eq!(before, after);
    // But for the beginning, when pairs had not been seen often enough.
    assert!(totals.blocks < 10_000 + 500, "{} blocks", totals.blocks);
    assert_eq!(totals.instructions, 80_000);
    // The pairs, and on the way to the whole the first three.
    assert_eq!(totals.distinct_blocks, 4 + 3 + 2);
    let longest = blocks.iter().max_by_key(|block| block.accesses.len()).unwrap();
    assert_eq!(longest.address, 0x2000);
    assert_eq!(longest.instruction_sizes_bytes, [4; 8]);
    let instructions: Vec<u16> = longest.accesses.iter().map(|access| access.instruction).collect();
    assert_eq!(instructions, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn nothing_is_joined_across_a_page_an_event_or_a_jump() {
    let unchanged = |table: &BlockTable, batch: Batch| {
        let executed = batch.blocks.len() as u64;
        let (before, after, totals, _) = written_and_read(table, &[batch]);
        assert_eq!(before, after);
        assert_eq!(totals.blocks, executed);
        assert_eq!(totals.distinct_blocks, table.blocks().len() as u64);
    };
    let mut two_pages = BlockTable::default();
    two_pages.push(block(0x1ff8, vec![4, 4], 1));
    two_pages.push(block(0x2000, vec![4, 4], 1));
    unchanged(&two_pages, loop_over(&two_pages, 500));
    let mut apart = BlockTable::default();
    apart.push(block(0x2000, vec![4, 4], 1));
    apart.push(block(0x2010, vec![4, 4], 1));
    unchanged(&apart, loop_over(&apart, 500));
    let mut one_page = BlockTable::default();
    one_page.push(block(0x2000, vec![4, 4], 1));
    one_page.push(block(0x2008, vec![4, 4], 1));
    let mut batch = loop_over(&one_page, 500);
    batch.events = (0..500).map(|round| (2 * round + 1, Event::Thread(round as u32))).collect();
    unchanged(&one_page, batch);
}

#[test]
fn joined_blocks_stay_short() {
    let mut table = BlockTable::default();
    for number in 0..100 {
        table.push(block(0x3000 + 8 * number, vec![4, 4], (number % 4) as usize));
    }
    let (before, after, totals, blocks) = written_and_read(&table, &[loop_over(&table, 3000)]);
    assert_eq!(before, after);
    assert!(totals.blocks < 300_000 / 4);
    assert!(blocks.iter().all(|block| block.accesses.len() <= 16));
    assert!(blocks.iter().all(|block| block.instruction_sizes_bytes.len() <= 32));
}
