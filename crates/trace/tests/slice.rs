//! A slice has the instructions of the whole trace that it was asked for, and nothing else.

use mmulab_trace::{
    Access, AccessKind, Batch, Block, BlockTable, Event, Slice, Source, TraceError, dump, open,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// One executed instruction: address, size, its accesses.
type Instruction = (u64, u8, Vec<(AccessKind, u64, u16)>);

/// What a source delivers, flat: instructions, and events with the instruction before which they
/// happened. Checks that crossings are those that looking at each access finds.
fn flat(source: &mut dyn Source) -> (Vec<Instruction>, Vec<(usize, Event)>) {
    let (mut instructions, mut events) = (Vec::new(), Vec::new());
    let mut batch = Batch::default();
    while source.next_batch(&mut batch).unwrap() {
        let mut addresses = batch.addresses.iter();
        let mut pending = batch.events.iter().peekable();
        let table = source.table().blocks();
        for (place, &id) in batch.blocks.iter().enumerate() {
            while let Some((_, event)) = pending.next_if(|(at, _)| *at <= place) {
                events.push((instructions.len(), event.clone()));
            }
            let block = &table[id as usize];
            let mut address = block.address;
            for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
                let own = block.accesses.iter().filter(|one| usize::from(one.instruction) == index);
                let own = own.map(|one| (one.kind, *addresses.next().unwrap(), one.size_bytes));
                instructions.push((address, size, own.collect()));
                address = address.wrapping_add(u64::from(size));
            }
        }
        assert!(addresses.next().is_none());
        events.extend(pending.map(|(_, event)| (instructions.len(), event.clone())));
        let told = std::mem::take(&mut batch.crossings);
        batch.find_crossings(table);
        assert_eq!(told, batch.crossings);
    }
    (instructions, events)
}

/// A source of prepared batches.
#[derive(Clone, Debug)]
struct Prepared {
    table: BlockTable,
    batches: std::collections::VecDeque<Batch>,
}

impl Source for Prepared {
    fn table(&self) -> &BlockTable {
        &self.table
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        match self.batches.pop_front() {
            Some(next) => {
                *batch = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

fn block() -> impl Strategy<Value = Block> {
    (any::<u64>(), vec((1u8..16, 0usize..3), 1..6)).prop_map(|(address, instructions)| {
        let accesses = instructions.iter().enumerate().flat_map(|(index, &(_, count))| {
            let access =
                Access { instruction: index as u16, size_bytes: 8, kind: AccessKind::Load };
            std::iter::repeat_n(access, count)
        });
        Block {
            address,
            accesses: accesses.collect(),
            instruction_sizes_bytes: instructions.iter().map(|&(size, _)| size).collect(),
        }
    })
}

fn prepared() -> impl Strategy<Value = Prepared> {
    let event = (any::<prop::sample::Index>(), 0u32..4, any::<bool>());
    let batch = (vec(any::<prop::sample::Index>(), 0..12), vec(event, 0..4), any::<u64>());
    (vec(block(), 1..5), vec(batch, 0..6)).prop_map(|(blocks, batches)| {
        let mut table = BlockTable::default();
        for block in blocks {
            table.push(block);
        }
        let batches = batches.into_iter().map(|(chosen, events, seed)| {
            let mut batch = Batch::default();
            for index in chosen {
                let id = index.index(table.blocks().len());
                batch.blocks.push(id as u32);
                for _ in &table.blocks()[id].accesses {
                    let address = seed.wrapping_mul(batch.addresses.len() as u64 + 1);
                    batch.addresses.push(address);
                }
            }
            for (at, number, is_thread) in events {
                let event = if is_thread {
                    Event::Thread(number)
                } else {
                    Event::Unmap { address: number.into(), length_bytes: 1 }
                };
                batch.events.push((at.index(batch.blocks.len() + 1), event));
            }
            batch.events.sort_by_key(|(at, _)| *at);
            batch.find_crossings(table.blocks());
            batch
        });
        let batches = batches.collect();
        Prepared { table, batches }
    })
}

/// What comes before the slice: of the threads only the last, and all mappings, in order.
fn kept(events: &[(usize, Event)]) -> Vec<Event> {
    let is_thread = |event: &Event| matches!(event, Event::Thread(_));
    let last_thread = events.iter().rposition(|(_, event)| is_thread(event));
    let places = events.iter().enumerate();
    places
        .filter(|(place, (_, event))| !is_thread(event) || Some(*place) == last_thread)
        .map(|(_, (_, event))| event.clone())
        .collect()
}

proptest! {
    #[test]
    fn a_slice_is_that_part_of_the_whole(source in prepared(), skip in 0u64..40, count in 1u64..40) {
        let (whole, events) = flat(&mut source.clone());
        let begin = whole.len().min(skip as usize);
        let end = whole.len().min(begin + count as usize);
        let to_cut = Box::new(source.clone());
        let mut slice = Slice::new(Box::new(source), skip, Some(count));
        let (part, part_events) = flat(&mut slice);
        prop_assert_eq!(&part, &whole[begin..end]);
        if part.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(slice.is_truncated(), end < whole.len());
        let mut rest = Slice::new(to_cut, skip, Some((whole.len() - begin) as u64));
        flat(&mut rest);
        prop_assert!(!rest.is_truncated());
        let (before, later): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(at, _)| *at <= begin);
        let at_start = part_events.iter().filter(|(at, _)| *at == 0).map(|(_, event)| event);
        prop_assert_eq!(at_start.cloned().collect::<Vec<_>>(), kept(&before));
        let inside: Vec<_> = part_events.into_iter().filter(|(at, _)| *at > 0 && *at < part.len()).collect();
        let expected: Vec<_> = later
            .into_iter()
            .map(|(at, event)| (at - begin, event))
            .filter(|(at, _)| *at < part.len())
            .collect();
        prop_assert_eq!(inside, expected);
    }

    #[test]
    fn what_is_dumped_is_read_again(source in prepared()) {
        let (whole, _) = flat(&mut source.clone());
        prop_assume!(!whole.is_empty());
        let mut text = String::new();
        dump(&mut source.clone(), &mut |part, _| { text.push_str(part); true }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, &text).unwrap();
        let (again, _) = flat(&mut *open(&path).unwrap());
        prop_assert_eq!(again, whole);
    }
}
