//! Why an access got an old word: where the newer one is, and what would have brought it.

use mmulab_hardware::Line;

use super::report::Report;
use super::{Checker, Origin, on_line};
use crate::bus::Bus;
use crate::core::{Core, Mmu};
use crate::memory::CoreMemory;

/// Where the newer value is that an access missed, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newer {
    /// In memory: the copy that was used is old.
    Memory,
    /// In the second level.
    SecondLevel,
    /// In a dirty line with this modified virtual address.
    DirtyLine(u32),
    /// In a dirty line of another core: which core, and the line's address there.
    DirtyElsewhere(usize, u32),
    /// In the write buffer.
    Buffer,
    /// In the write buffer of another core.
    BufferElsewhere(usize),
    /// Dropped by an invalidate at this PC.
    Dropped(u32),
    /// Overwritten in memory by an older dirty line that was written back (its address).
    Overwritten(u32),
    /// Stored at this physical address instead, which was reported.
    Misplaced(u32),
    /// Overwritten by a store to a wrong place at this PC, which was reported.
    Misled(u32),
    /// Not found.
    Unknown,
}

mmulab_state::value_enum!(Newer {
    Memory,
    SecondLevel,
    DirtyLine(address),
    DirtyElsewhere(core, address),
    Buffer,
    BufferElsewhere(core),
    Dropped(pc),
    Overwritten(address),
    Misplaced(address),
    Misled(pc),
    Unknown,
});

/// The old copy of a word that an access used.
pub(super) enum OldCopy {
    /// None: it read memory.
    None,
    /// One that this operation drops.
    Clean(String),
    /// A dirty line, whose other words a late invalidate would lose: what drops it before the
    /// store.
    Dirty(String),
}

impl OldCopy {
    /// What is missing where an operation (perhaps none) brings the newest value to where the
    /// reader looks next.
    fn then_drop(&self, operation: &str) -> String {
        match (self, operation) {
            (OldCopy::None, operation) => operation.to_owned(),
            (OldCopy::Clean(drop), "") => drop.clone(),
            (OldCopy::Clean(drop), operation) => format!("{operation}, then {drop}"),
            (OldCopy::Dirty(drop), "") => format!("{drop} before that store"),
            (OldCopy::Dirty(drop), operation) => {
                format!("{drop} before that store, and {operation} after it")
            }
        }
    }
}

/// A dirty line with the newest value of a word: its tag.
fn dirty_line<C: Core>(core: &CoreMemory<C>, physical: u32, newest: u32) -> Option<u32> {
    let word = C::DataLine::word(physical);
    core.dcache.copies(physical).filter_map(|slot| core.dcache.held(slot)).find_map(|line| {
        let dirty = line.dirty & C::DataLine::half_of_word(word) != 0;
        (dirty && line.words[word] == newest).then_some(line.tag)
    })
}

/// Whether a word waits in the write buffer.
pub(super) fn is_buffered<C: Core>(core: &CoreMemory<C>, physical: u32) -> bool {
    let (line, word) = (C::DataLine::base(physical), C::DataLine::word(physical));
    core.write_buffer.entries().any(|entry| entry.line == line && entry.mask[word] != 0)
}

impl Checker {
    /// Where the newest value of a word is, when an access got an older one.
    pub(super) fn find_newer<C: Core>(
        &self,
        core: &CoreMemory<C>,
        bus: &Bus<C>,
        physical: u32,
        newest: u32,
    ) -> Newer {
        if let Some(tag) = dirty_line(core, physical, newest) {
            return Newer::DirtyLine(tag);
        }
        if is_buffered(core, physical) {
            return Newer::Buffer;
        }
        for peer in bus.peers() {
            if let Some(tag) = dirty_line(peer, physical, newest) {
                return Newer::DirtyElsewhere(peer.number, tag);
            }
            if is_buffered(peer, physical) {
                return Newer::BufferElsewhere(peer.number);
            }
        }
        if bus.ram.get(physical) == Some(newest) {
            return Newer::Memory;
        }
        if bus.word_below(physical) == Some(newest) {
            return Newer::SecondLevel;
        }
        self.lost.get(&(physical & !3)).copied().unwrap_or(Newer::Unknown)
    }

    /// Fills in why an access got an old word.
    pub(super) fn explain<C: Core>(
        &self,
        core: &CoreMemory<C>,
        report: &mut Report,
        newer: Newer,
        physical: u32,
        what: &str,
        copy: &OldCopy,
    ) {
        let writer = self.writer(physical);
        report.since(Origin { pc: writer.pc, core: writer.core });
        let stored = if writer.pc == 0 {
            "what the loader put there".to_owned()
        } else {
            format!("what was stored through {:#010x}", writer.address)
        };
        let (place, missing) = self.place_and_operation(core, newer, physical, copy);
        report.stale = format!("{what} is older than {stored}, which {place}");
        report.missing = missing;
    }

    /// Where the newest value of a word is, and the operation that would have brought it to a
    /// reader that has, or had not, an old copy.
    pub(super) fn place_and_operation<C: Core>(
        &self,
        core: &CoreMemory<C>,
        newer: Newer,
        physical: u32,
        copy: &OldCopy,
    ) -> (String, String) {
        let writer = self.writer(physical);
        let names = core.mmu.maintenance();
        let drain = names.drain;
        let clean = |address| on_line(names.clean_line, address);
        // What reads below the second level wants it cleaned through.
        let clean_to_memory = |address| match names.clean_to_memory {
            "" => clean(address),
            name => on_line(name, address),
        };
        // A clean is over for memory's readers when the write buffer is empty.
        let then_read = |dirty, where_: String| match copy {
            OldCopy::None => format!("{}, and {drain}{where_}", clean_to_memory(dirty)),
            _ => copy.then_drop(&format!("{}{where_}", clean(dirty))),
        };
        match newer {
            Newer::Memory => ("is in memory".to_owned(), copy.then_drop("")),
            // Which is enough for whoever reads below the first level.
            Newer::SecondLevel => {
                let first = match copy {
                    OldCopy::None => clean_to_memory(writer.address),
                    _ => String::new(),
                };
                ("is in the second level".to_owned(), copy.then_drop(&first))
            }
            Newer::DirtyLine(tag) => {
                (format!("is in the dirty line {tag:#010x}"), then_read(tag, String::new()))
            }
            Newer::DirtyElsewhere(other, tag) => (
                format!("is in the dirty line {tag:#010x} of core {other}"),
                then_read(tag, format!(" on core {other}")),
            ),
            Newer::Buffer => ("is in the write buffer".to_owned(), copy.then_drop(drain)),
            Newer::BufferElsewhere(other) => (
                format!("is in the write buffer of core {other}"),
                copy.then_drop(&format!("{drain} on core {other}")),
            ),
            Newer::Dropped(pc) => (
                "was dropped by an invalidate".to_owned(),
                // An invalidate reaches as far as memory.
                format!("{}, before the invalidate at {pc:#010x}", clean_to_memory(writer.address)),
            ),
            Newer::Overwritten(tag) => (
                format!("was overwritten by the older dirty line {tag:#010x}"),
                format!("clean and invalidate {tag:#010x} before the store"),
            ),
            Newer::Misplaced(place) => (
                format!("went to physical {place:#010x} instead"),
                "what the report of that store names".to_owned(),
            ),
            Newer::Misled(pc) => (
                format!("was overwritten by the store at {pc:#010x}, which went to a wrong place"),
                "what the report of that store names".to_owned(),
            ),
            Newer::Unknown => (
                "is in no one place: its bytes are in several, or were lost one by one".to_owned(),
                "maintenance between the accesses that stored them".to_owned(),
            ),
        }
    }
}
