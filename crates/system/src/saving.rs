//! Saved states of a machine: where a run ends for it, and the way to a file and back.

use std::path::Path;

use mmulab_state::{FileError, SavedState};

use crate::core::{Core, Mmu};
use crate::system::System;

/// Where a run ends by [`Stop::SavePoint`](crate::Stop::SavePoint): between the first two time
/// slices when it is reached, so that what follows is the same as if it had not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SavePoint {
    /// Nowhere.
    #[default]
    Never,
    /// As many instructions have been executed by all cores.
    Instructions(u64),
    /// The guest has printed a text.
    Text {
        /// The text.
        text: Vec<u8>,
        /// What may be its beginning: the end of what the host has taken.
        taken: Vec<u8>,
    },
}

impl SavePoint {
    /// Where the guest has printed a text, which is not empty.
    pub fn text(text: &str) -> SavePoint {
        SavePoint::Text { text: text.into(), taken: Vec::new() }
    }

    /// Whether it is reached, with what was printed and not taken by the host yet.
    #[inline(always)]
    pub(crate) fn is_reached(&self, executed: u64, printed: &[u8]) -> bool {
        match self {
            SavePoint::Never => false,
            SavePoint::Instructions(instructions) => executed >= *instructions,
            SavePoint::Text { text, taken } => {
                !printed.is_empty() && contains(taken, printed, text)
            }
        }
    }

    /// The host takes what was printed.
    pub(crate) fn take(&mut self, printed: &[u8]) {
        let SavePoint::Text { text, taken } = self else { return };
        taken.extend_from_slice(printed);
        let kept = taken.len().min(text.len().saturating_sub(1));
        taken.drain(..taken.len() - kept);
    }
}

/// Whether a text is in two others one after the other.
fn contains(first: &[u8], second: &[u8], text: &[u8]) -> bool {
    let whole = [first, second].concat();
    whole.windows(text.len().max(1)).any(|part| part == text)
}

impl<C: Core> System<C> {
    /// Writes the state to a file, with a text that says what it is of. Who looks on by
    /// [`System::attach`] has no part in it, nor has the debugger.
    ///
    /// # Errors
    /// The file cannot be written; nothing of it is left.
    pub fn save_state(&self, path: &Path, header: &str) -> std::io::Result<()> {
        mmulab_state::save(path, header, self)
    }

    /// Makes this machine what was saved of one like it, with the checker on or off as it was
    /// there. What goes on is the same, cycle by cycle, as what went on there.
    ///
    /// # Errors
    /// The state is of another machine; this one cannot be used any more.
    pub fn restore_state(&mut self, saved: &SavedState) -> Result<(), FileError> {
        let mmu = self.core(0).memory().mmu.clone();
        saved.restore(self, |restorer| {
            restorer.give(mmu.space());
            restorer.give(mmu);
            restorer.give(C::EXCEPTIONS);
        })?;
        for core in self.cores_mut() {
            core.memory_mut().update_watched();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SavePoint;

    #[test]
    fn a_text_is_found_however_it_is_taken() {
        let mut point = SavePoint::text("abcab");
        assert!(!point.is_reached(0, b""));
        assert!(!point.is_reached(0, b"xabca"));
        point.take(b"xabc");
        assert!(!point.is_reached(9, b"a"));
        assert!(point.is_reached(9, b"ab"));
        point.take(b"a");
        assert!(point.is_reached(9, b"b..."));
        point.take(b"x");
        assert!(!point.is_reached(9, b"ab"));
    }

    #[test]
    fn the_same_output_seen_twice_is_not_printed_twice() {
        let point = SavePoint::text("ab");
        assert!(!point.is_reached(0, b"ba"));
        assert!(!point.is_reached(1, b"ba"));
    }
}
