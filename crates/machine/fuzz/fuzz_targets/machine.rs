//! A shipped machine file, edited anywhere: it is refused in one line or describes a machine.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mmulab_machine::Machine;

const SHIPPED: [&str; 4] = [
    include_str!("../../../../machines/x86-64.toml"),
    include_str!("../../../../machines/mach.toml"),
    include_str!("../../../../machines/inverted-hw.toml"),
    include_str!("../../../../machines/sa1100.toml"),
];

/// Splits off a byte; 0 where there is none.
fn byte(data: &mut &[u8]) -> usize {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    first.into()
}

fn edited(mut data: &[u8]) -> Vec<u8> {
    let mut text = SHIPPED[byte(&mut data) % SHIPPED.len()].as_bytes().to_vec();
    while !data.is_empty() {
        let start = (byte(&mut data) << 8 | byte(&mut data)) % (text.len() + 1);
        let removed = (byte(&mut data) % 32).min(text.len() - start);
        let inserted = (byte(&mut data) % 16).min(data.len());
        let (new, rest) = data.split_at(inserted);
        text.splice(start..start + removed, new.iter().copied());
        data = rest;
    }
    text
}

fuzz_target!(|data: &[u8]| {
    for text in [data, &edited(data)] {
        let Ok(text) = std::str::from_utf8(text) else { continue };
        match Machine::parse(text, "fuzz.toml") {
            Ok(machine) => {
                // What is a machine stays one when it is written and read.
                machine.with(&[]).expect("unchanged");
            }
            Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        }
    }
});
