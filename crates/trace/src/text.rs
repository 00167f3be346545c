//! A trace as text: that of Valgrind's lackey, which this project and other simulators read.

use std::fmt::Write;

use crate::{AccessKind, Batch, Event, Source, TraceError};

/// Writes a trace as text, a line for each instruction, access and event: `I  address,size`, then
/// ` L`, ` S` or ` M` for each of its loads, stores and modifies. Events begin with `--`, as
/// Valgrind's own remarks do, and are passed over by readers of that format.
///
/// `write` is called with the text of a few thousand blocks and the instructions so far; it returns
/// whether to continue.
///
/// # Errors
/// The trace is damaged or cannot be read; what stands before that was written.
pub fn dump(
    source: &mut dyn Source,
    write: &mut dyn FnMut(&str, u64) -> bool,
) -> Result<(), TraceError> {
    let (mut batch, mut text, mut instructions) = (Batch::default(), String::new(), 0);
    while source.next_batch(&mut batch)? {
        text.clear();
        instructions += put_batch(source, &batch, &mut text);
        if !write(&text, instructions) {
            break;
        }
    }
    Ok(())
}

/// Gives the number of instructions.
fn put_batch(source: &dyn Source, batch: &Batch, text: &mut String) -> u64 {
    let mut events = batch.events.iter().peekable();
    let mut addresses = batch.addresses.iter();
    let mut instructions = 0;
    for (place, &id) in batch.blocks.iter().enumerate() {
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= place) {
            put_event(event, text);
        }
        let block = &source.table().blocks()[id as usize];
        let mut accesses = block.accesses.iter().peekable();
        let mut address = block.address;
        for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "I  {address:08x},{size}");
            address = address.wrapping_add(u64::from(size));
            while let Some(access) =
                accesses.next_if(|access| usize::from(access.instruction) == index)
            {
                let kind = match access.kind {
                    AccessKind::Load => 'L',
                    AccessKind::Store => 'S',
                    AccessKind::Modify => 'M',
                };
                let at = addresses.next().copied().unwrap_or_default();
                let _ = writeln!(text, " {kind} {at:08x},{}", access.size_bytes);
            }
        }
        instructions += block.instruction_sizes_bytes.len() as u64;
    }
    for (_, event) in events {
        put_event(event, text);
    }
    instructions
}

fn put_event(event: &Event, text: &mut String) {
    let _ = match event {
        Event::Thread(number) => writeln!(text, "-- thread {number}"),
        Event::Map { address, length_bytes, executable, name } => {
            let kind = if *executable { "code" } else { "data" };
            // A name with a line end must not become a line.
            let name = name.escape_debug();
            writeln!(text, "-- map {address:08x},{length_bytes} {kind} {name}")
        }
        Event::Unmap { address, length_bytes } => {
            writeln!(text, "-- unmap {address:08x},{length_bytes}")
        }
        Event::AddressSpace(number) => writeln!(text, "-- program {number}"),
        Event::Core(number) => writeln!(text, "-- core {number}"),
        Event::Mark { name, begins } => {
            let what = if *begins { "begins" } else { "ends" };
            writeln!(text, "-- region {what} {}", name.escape_debug())
        }
    };
}
