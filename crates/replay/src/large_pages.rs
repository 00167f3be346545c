//! Where a program's pages are large, as transparent huge pages make them.

use std::collections::BTreeMap;

use mmulab_trace::Event;

/// log2 of a large page.
pub const LARGE_SHIFT: u32 = 21;

/// Decides for each aligned block of 2 MiB whether it is one large page.
///
/// The rule is that of Linux with `transparent_hugepage/enabled` set to `always` and a background
/// daemon (khugepaged, `max_ptes_none` at its default of 511) that never lags: a block is large as
/// long as it lies wholly within anonymous memory. So one that is touched while the heap covers only
/// part of it begins with small pages and is promoted when the heap has grown over it, and one of
/// which a part is unmapped goes back to small pages. Linux: Documentation/admin-guide/mm/transhuge.rst.
#[derive(Clone, Debug, Default)]
pub struct LargePages {
    /// Anonymous memory: end and name by start. Neighbours of one name are one.
    anonymous: BTreeMap<u64, (u64, String)>,
    /// Whether each block that was touched is large.
    touched: BTreeMap<u64, bool>,
}

impl LargePages {
    /// Learns of a mapping event; gives the first addresses of the touched blocks whose pages change
    /// their size by it.
    pub fn note(&mut self, event: &Event) -> Vec<u64> {
        let (start, length_bytes, name) = match event {
            Event::Map { address, length_bytes, name, .. } => (*address, *length_bytes, Some(name)),
            Event::Unmap { address, length_bytes } => (*address, *length_bytes, None),
            Event::Thread(_) => return Vec::new(),
        };
        let end = start.saturating_add(length_bytes);
        if start == end {
            return Vec::new();
        }
        self.remove_range(start, end);
        if let Some(name) = name.filter(|name| name.is_empty() || name.starts_with('[')) {
            self.join(start, end, name.clone());
        }
        let blocks = start >> LARGE_SHIFT..=(end - 1) >> LARGE_SHIFT;
        let anonymous = &self.anonymous;
        let mut changed = Vec::new();
        for (&block, is_large) in self.touched.range_mut(blocks) {
            let was_large = std::mem::replace(is_large, covers(anonymous, block));
            if was_large != *is_large {
                changed.push(block << LARGE_SHIFT);
            }
        }
        changed
    }

    /// Whether `address`, which is being touched, lies in a large page.
    pub fn is_large(&mut self, address: u64) -> bool {
        let block = address >> LARGE_SHIFT;
        let anonymous = &self.anonymous;
        *self.touched.entry(block).or_insert_with(|| covers(anonymous, block))
    }

    /// Forgets a range of anonymous memory.
    fn remove_range(&mut self, start: u64, end: u64) {
        while let Some((&old_start, &(old_end, _))) = self.anonymous.range(..end).next_back() {
            if old_end <= start {
                break;
            }
            let Some((_, name)) = self.anonymous.remove(&old_start) else { break };
            if old_end > end {
                self.anonymous.insert(end, (old_end, name.clone()));
            }
            if old_start < start {
                self.anonymous.insert(old_start, (start, name));
            }
        }
    }

    /// Adds anonymous memory that overlaps none.
    fn join(&mut self, mut start: u64, mut end: u64, name: String) {
        if let Some((&before, (before_end, before_name))) =
            self.anonymous.range(..start).next_back()
            && *before_end == start
            && *before_name == name
        {
            start = before;
        }
        if let Some((after_end, _)) = self.anonymous.get(&end).filter(|(_, after)| *after == name) {
            let after_end = *after_end;
            self.anonymous.remove(&end);
            end = after_end;
        }
        self.anonymous.insert(start, (end, name));
    }
}

/// Whether one piece of anonymous memory covers all of a block.
fn covers(anonymous: &BTreeMap<u64, (u64, String)>, block: u64) -> bool {
    let first = block << LARGE_SHIFT;
    let last = first + ((1 << LARGE_SHIFT) - 1);
    anonymous.range(..=first).next_back().is_some_and(|(_, (end, _))| *end > last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn map(address: u64, length_bytes: u64, name: &str) -> Event {
        Event::Map { address, length_bytes, executable: false, name: name.to_owned() }
    }

    #[test]
    fn a_heap_that_grows_is_promoted_when_it_covers_the_block() {
        let mut pages = LargePages::default();
        assert!(pages.note(&map(8 * MIB, MIB, "[heap]")).is_empty());
        assert!(!pages.is_large(8 * MIB));
        assert!(pages.note(&map(9 * MIB, MIB / 2, "[heap]")).is_empty());
        assert_eq!(pages.note(&map(9 * MIB + MIB / 2, MIB, "[heap]")), [8 * MIB]);
        assert!(pages.is_large(9 * MIB));
        // What was not touched has nothing to promote.
        assert!(pages.note(&map(10 * MIB + MIB / 2, 4 * MIB, "[heap]")).is_empty());
        assert!(pages.is_large(11 * MIB));
        assert!(!pages.is_large(14 * MIB));
    }

    #[test]
    fn a_block_is_split_when_part_of_it_goes_or_becomes_a_file() {
        let mut pages = LargePages::default();
        pages.note(&map(2 * MIB, 8 * MIB, ""));
        assert!(pages.is_large(2 * MIB) && pages.is_large(4 * MIB) && pages.is_large(6 * MIB));
        let unmap = Event::Unmap { address: 3 * MIB, length_bytes: 4096 };
        assert_eq!(pages.note(&unmap), [2 * MIB]);
        assert_eq!(pages.note(&map(5 * MIB, 3 * MIB, "/lib/c")), [4 * MIB, 6 * MIB]);
        assert_eq!(pages.note(&map(3 * MIB, 4096, "")), [2 * MIB]);
        assert!(pages.is_large(2 * MIB));
    }

    #[test]
    fn files_and_neighbours_of_another_name_make_no_large_page() {
        let mut pages = LargePages::default();
        pages.note(&map(2 * MIB, 2 * MIB, "/bin/program"));
        pages.note(&map(4 * MIB, MIB, "[heap]"));
        pages.note(&map(5 * MIB, MIB, ""));
        assert!(!pages.is_large(2 * MIB) && !pages.is_large(4 * MIB));
    }

    #[test]
    fn the_last_block_of_the_address_space_is_one() {
        let mut pages = LargePages::default();
        pages.note(&map(0u64.wrapping_sub(4 * MIB), u64::MAX, ""));
        assert!(pages.is_large(u64::MAX - 3 * MIB));
        assert!(!pages.is_large(u64::MAX));
    }
}
