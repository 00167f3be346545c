//! Decode tables: from a word to its row.

use crate::caches::CacheKind;
use crate::cpu::Architecture;

use super::decode::{Decoded, Decoder};
use super::pattern::{Fields, Pattern};

/// What has to be there for an encoding to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// A version of the architecture, or a later one.
    Version(Architecture),
    /// A version of the architecture, or an earlier one: later ones have other encodings there.
    Until(Architecture),
    /// The XScale's coprocessors 0 and 14.
    XScale,
}

/// Turns the fields of a word into an instruction.
pub type Form<K> = fn(&Fields, &Decoder<K>) -> Decoded<K>;

/// One encoding.
pub struct Row<K: CacheKind> {
    /// What the manual calls it.
    pub name: &'static str,
    /// The section of ARM DDI 0100I (of ARM DDI 0406C from [`Architecture::V7A`] on), or Intel's
    /// document and its section.
    pub section: &'static str,
    /// Cores that have it.
    pub since: Since,
    /// Its words.
    pub pattern: Pattern,
    /// What they mean.
    pub form: Form<K>,
}

/// The encodings of one instruction set.
pub struct Table<K: CacheKind> {
    rows: Box<[Row<K>]>,
    choice: Choice,
    /// Where the candidates of each choice begin in `candidates`; they end where the next begin.
    starts: Box<[u16]>,
    candidates: Box<[u16]>,
}

/// The bits of a word that choose its candidates: `bits` from `high` on and four from `low` on.
#[derive(Clone, Copy)]
pub struct Choice {
    /// Lowest of the upper bits.
    pub high: u32,
    /// How many upper bits.
    pub bits: u32,
    /// Lowest of the lower bits.
    pub low: u32,
}

impl Choice {
    #[inline]
    fn of(self, word: u32) -> usize {
        let upper = word >> self.high & ((1 << self.bits) - 1);
        (upper << 4 | word >> self.low & 15) as usize
    }

    /// The word that has the bits of a choice, and no others.
    fn word(self, choice: u32) -> u32 {
        choice >> 4 << self.high | (choice & 15) << self.low
    }

    fn count(self) -> u32 {
        1 << (self.bits + 4)
    }
}

impl<K: CacheKind> Table<K> {
    /// Sorts rows by the given bits of their words.
    pub fn new(rows: impl Iterator<Item = Row<K>>, choice: Choice) -> Table<K> {
        let rows: Box<[Row<K>]> = rows.collect();
        debug_assert!(rows.iter().all(|row| row.pattern.width == rows[0].pattern.width));
        let looked_at = choice.word(choice.count() - 1);
        let mut candidates = Vec::new();
        let mut starts = Vec::new();
        for number in 0..choice.count() {
            starts.push(candidates.len() as u16);
            let word = choice.word(number);
            let possible =
                |row: &Row<K>| (word ^ row.pattern.value) & row.pattern.mask & looked_at == 0;
            candidates.extend((0..rows.len() as u16).filter(|&row| possible(&rows[row as usize])));
        }
        starts.push(candidates.len() as u16);
        Table { rows, choice, starts: starts.into(), candidates: candidates.into() }
    }

    /// All rows.
    #[cfg(test)]
    pub fn rows(&self) -> &[Row<K>] {
        &self.rows
    }

    /// The row of a word, if there is one.
    #[inline]
    pub fn find(&self, word: u32) -> Option<&Row<K>> {
        let choice = self.choice.of(word);
        let (start, end) = (self.starts[choice], self.starts[choice + 1]);
        self.candidates[usize::from(start)..usize::from(end)]
            .iter()
            .map(|&row| &self.rows[usize::from(row)])
            .find(|row| row.pattern.matches(word))
    }
}
