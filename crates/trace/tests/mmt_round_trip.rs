//! Whatever a source delivers, a written file gives back exactly.

use mmulab_trace::{
    Access, AccessKind, Batch, Block, BlockTable, Event, Metadata, MmtReader, MmtWriter,
    OpenOptions, Source, Termination,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn block() -> impl Strategy<Value = Block> {
    let access = (any::<u16>(), 0u16..512, 0usize..3);
    (any::<u64>(), vec(1u8..16, 1..20), vec(access, 0..12)).prop_map(
        |(address, sizes, accesses)| {
            let mut accesses: Vec<_> = accesses
                .into_iter()
                .map(|(instruction, size_bytes, kind)| Access {
                    instruction: instruction % sizes.len() as u16,
                    size_bytes,
                    kind: [AccessKind::Load, AccessKind::Store, AccessKind::Modify][kind],
                })
                .collect();
            accesses.sort_by_key(|access| access.instruction);
            Block { address, instruction_sizes_bytes: sizes, accesses }
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u32>().prop_map(Event::Thread),
        (any::<u64>(), any::<u64>(), any::<bool>(), ".{0,20}").prop_map(
            |(address, length_bytes, executable, name)| Event::Map {
                address,
                length_bytes,
                executable,
                name
            }
        ),
        (any::<u64>(), any::<u64>())
            .prop_map(|(address, length_bytes)| Event::Unmap { address, length_bytes }),
    ]
}

/// Addresses of every kind of predictability.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..64u64, 0x7fff_0000..0x7fff_1000u64, Just(u64::MAX)]
}

#[derive(Clone, Debug)]
struct Step {
    new_blocks: Vec<Block>,
    executed: Vec<prop::sample::Index>,
    events: Vec<(prop::sample::Index, Event)>,
    flush: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    (vec(block(), 1..5), vec(index(), 0..60), vec((index(), event()), 0..4), any::<bool>())
        .prop_map(|(new_blocks, executed, events, flush)| Step {
            new_blocks,
            executed,
            events,
            flush,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_traces_survive(steps in vec(step(), 0..8), pool in vec(address(), 1..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.mmt");
        let metadata = Metadata {
            command: vec!["a program".into(), "ünd its arguments".into()],
            recorder: "a test".into(),
            instruction_set: "none".into(),
        };
        let mut writer = MmtWriter::create(&path, &metadata).unwrap();
        let mut table = BlockTable::default();
        let (mut blocks, mut addresses, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut next_address = pool.iter().cycle();
        for step in steps {
            for block in step.new_blocks {
                table.push(block);
            }
            let mut batch = Batch::default();
            for index in step.executed {
                let block = index.index(table.blocks().len());
                batch.blocks.push(block as u32);
                let count = table.blocks()[block].accesses.len();
                batch.addresses.extend(next_address.by_ref().take(count));
            }
            for (index, event) in step.events {
                batch.events.push((index.index(batch.blocks.len() + 1), event));
            }
            batch.events.sort_by_key(|(at, _)| *at);
            writer.write(&table, &batch).unwrap();
            if step.flush {
                writer.flush().unwrap();
            }
            events.extend(batch.events.into_iter().map(|(at, event)| (at + blocks.len(), event)));
            blocks.extend(batch.blocks);
            addresses.extend(batch.addresses);
        }
        let totals = writer.finish(Termination::Exited(3)).unwrap();

        let mut reader = MmtReader::open(&path, &OpenOptions::default()).unwrap();
        prop_assert_eq!(&reader.information().metadata, &metadata);
        prop_assert_eq!(reader.information().totals, totals);
        prop_assert_eq!(reader.information().termination, Some(Termination::Exited(3)));
        let only_events = reader.all_events().unwrap();
        let mut batch = Batch::default();
        let (mut read_blocks, mut read_addresses, mut read_events) = (vec![], vec![], vec![]);
        while reader.next_batch(&mut batch).unwrap() {
            prop_assert!(batch.events.is_sorted_by_key(|(at, _)| *at));
            let crossings = batch.crossings.clone();
            batch.find_crossings(reader.table().blocks());
            prop_assert_eq!(crossings, &batch.crossings[..]);
            let start = read_blocks.len();
            read_events.extend(batch.events.iter().map(|(at, event)| (at + start, event.clone())));
            read_blocks.extend_from_slice(&batch.blocks);
            read_addresses.extend_from_slice(&batch.addresses);
        }
        prop_assert_eq!(read_blocks, blocks);
        prop_assert_eq!(read_addresses, addresses);
        prop_assert!(only_events.iter().eq(read_events.iter().map(|(_, event)| event)));
        prop_assert_eq!(read_events, events);
        prop_assert!(reader.table().blocks() == table.blocks());
        prop_assert_eq!(reader.truncation(), None);
    }
}

/// Many try at once, where there is no file and where there is one: one has the name, and what it
/// writes stays its own.
#[test]
fn one_writer_at_a_time_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.mmt");
    for round in 0..50 {
        let start = std::sync::Barrier::new(8);
        let try_it = |number: u32| {
            let command = vec![format!("{round}/{number}")];
            let metadata = Metadata { command: command.clone(), ..Metadata::default() };
            start.wait();
            let writer = MmtWriter::create(&path, &metadata);
            // All have tried before the first ends.
            start.wait();
            writer.map(|writer| {
                writer.finish(Termination::Exited(0)).unwrap();
                command
            })
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|number| scope.spawn(move || try_it(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (written, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(written.len(), 1);
        assert!(
            refused.iter().all(|error| error
                .as_ref()
                .unwrap_err()
                .to_string()
                .contains("another mmulab"))
        );
        let reader = MmtReader::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(reader.command(), written[0].as_ref().unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
