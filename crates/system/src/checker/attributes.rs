//! Memory that is used both through the caches and past them, which needs maintenance in between
//! whether or not a line happens to have left the cache by then (ARM DDI 0406C, A3.5.7;
//! docs/checker-rules.md, rule 11).

use crate::coherence::Point;
use crate::maintenance::LineOperation;

/// No line is longer; a word of a line has one bit of 16.
const LINE_SHIFT: u32 = 6;

/// What caches may hold of a line of memory.
#[derive(Clone, Copy, Default, PartialEq)]
struct LineUse {
    /// When it was noted, in operations by set and way.
    epoch: u32,
    /// Some access went through the caches since the line was last invalidated.
    held: bool,
    /// Words that were stored through the caches since the line was last cleaned, a bit each.
    dirty: u16,
    /// Words that were stored past the caches while these may have held the line.
    passed: u16,
}

mmulab_state::value!(LineUse { epoch, held, dirty, passed });

/// What caches may hold of all memory; nothing on machines without such rules.
pub(super) struct LineUses {
    base: u32,
    lines: Vec<LineUse>,
    /// Grows with each operation by set and way, which counts as one on all lines.
    epoch: u32,
    /// When the last of these invalidated, and when it cleaned.
    invalidated: u32,
    cleaned: u32,
}

mmulab_state::state!(LineUses { epoch, invalidated, cleaned } sparse { lines } built { base });

/// The bit of a word in its line.
fn bit(physical: u32) -> u16 {
    1 << (physical >> 2 & 15)
}

impl LineUses {
    /// Of a RAM of this many words from `base` on, none of which was used.
    pub(super) fn new(base: u32, words: usize) -> LineUses {
        let lines = ((words * 4) >> LINE_SHIFT) + 1;
        let lines = vec![LineUse::default(); lines];
        LineUses { base, lines, epoch: 0, invalidated: 0, cleaned: 0 }
    }

    /// What is noted of the line of an address, which is in RAM.
    #[inline(always)]
    fn line(&mut self, physical: u32) -> Option<&mut LineUse> {
        let index = (physical.wrapping_sub(self.base) >> LINE_SHIFT) as usize;
        let line = self.lines.get_mut(index)?;
        if line.epoch != self.epoch {
            if line.epoch < self.invalidated {
                *line = LineUse::default();
            } else if line.epoch < self.cleaned {
                line.dirty = 0;
            }
            line.epoch = self.epoch;
        }
        Some(line)
    }

    /// A word is stored through the caches.
    #[inline(always)]
    pub(super) fn store(&mut self, physical: u32, mask: u32) {
        if let Some(line) = self.line(physical) {
            line.held = true;
            line.dirty |= bit(physical);
            if mask == !0 {
                line.passed &= !bit(physical);
            }
        }
    }

    /// A word is loaded through the caches. Whether they may hold it as it was before a store past
    /// them.
    pub(super) fn load(&mut self, physical: u32) -> bool {
        let Some(line) = self.line(physical) else { return false };
        line.held = true;
        line.passed & bit(physical) != 0
    }

    /// Whether any word of a line was stored past the caches, so that loads of it have to be looked
    /// at.
    pub(super) fn was_passed(&mut self, physical: u32) -> bool {
        self.line(physical).is_some_and(|line| line.passed != 0)
    }

    /// A word is loaded past the caches. Whether these may hold a newer one.
    pub(super) fn load_past(&mut self, physical: u32) -> bool {
        self.line(physical).is_some_and(|line| line.dirty & bit(physical) != 0)
    }

    /// A word is stored past the caches. A word of its line that these may write back over it,
    /// which is then told once.
    pub(super) fn store_past(&mut self, physical: u32) -> Option<u32> {
        let line = self.line(physical)?;
        if line.held {
            line.passed |= bit(physical);
        }
        let first = physical >> LINE_SHIFT << LINE_SHIFT;
        let dirty = std::mem::take(&mut line.dirty);
        (dirty != 0).then(|| first + 4 * dirty.trailing_zeros())
    }

    /// A line is cleaned or invalidated.
    pub(super) fn operate(&mut self, physical: u32, operation: LineOperation, point: Point) {
        let Some(line) = self.line(physical) else { return };
        match (point, operation) {
            // It may be in the second level still.
            (Point::Unification, _) => {}
            (Point::Coherency, LineOperation::Clean) => line.dirty = 0,
            (Point::Coherency, _) => *line = LineUse { epoch: line.epoch, ..LineUse::default() },
        }
    }

    /// Some line is cleaned or invalidated by its set and way.
    pub(super) fn operate_by_slot(&mut self, operation: LineOperation) {
        self.epoch += 1;
        match operation {
            LineOperation::Clean => self.cleaned = self.epoch,
            _ => self.invalidated = self.epoch,
        }
    }
}
