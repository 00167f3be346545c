//! A trace in stretches of several batches, of which one is decoded while another is replayed.

use mmulab_trace::{Batch, Block, TraceError};

use crate::counting::Counting;

/// How many batches a stretch has at most where several threads share the work: enough that waiting
/// for each other costs little beside it. On one thread a batch is decoded and replayed while the
/// host's caches hold it.
pub(crate) const BATCHES_BETWEEN_THREADS: usize = 16;

/// Batches in a row that one program executes, and of which all count or none does.
#[derive(Default)]
pub(crate) struct Stretch {
    /// As many as there are `known_blocks`; the rest is kept for its memory.
    batches: Vec<Batch>,
    /// For each batch, how many blocks the source knew when it had been read.
    known_blocks: Vec<usize>,
    charged_to: ChargedTo,
}

/// What a batch is charged to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChargedTo {
    /// Whether it counts.
    pub(crate) counts: bool,
    pub(crate) program: usize,
}

impl Stretch {
    /// The batches, each with how many blocks the source knew when it had been read.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (&Batch, usize)> + Clone {
        self.batches.iter().zip(self.known_blocks.iter().copied())
    }

    /// Whether it has no batch: the trace is at its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.known_blocks.is_empty()
    }

    pub(crate) fn charged_to(&self) -> ChargedTo {
        self.charged_to
    }

    /// Batches made on the spot, each with how many blocks are known.
    #[cfg(test)]
    pub(crate) fn of_batches(batches: Vec<(Batch, usize)>) -> Self {
        let (batches, known_blocks) = batches.into_iter().unzip();
        Self { batches, known_blocks, charged_to: ChargedTo::default() }
    }
}

/// Reads a trace in stretches.
pub(crate) struct ReadAhead<'a> {
    source: Counting<'a>,
    most_batches: usize,
    /// A batch that was read and is charged to something else than those before it, and how many
    /// blocks were known then.
    kept: Option<(Batch, usize, ChargedTo)>,
}

impl<'a> ReadAhead<'a> {
    /// Stretches of at most so many batches.
    pub(crate) fn new(source: Counting<'a>, most_batches: usize) -> Self {
        Self { source, most_batches, kept: None }
    }

    pub(crate) fn source(&self) -> &Counting<'a> {
        &self.source
    }

    /// All blocks that are known.
    pub(crate) fn blocks(&self) -> &[Block] {
        self.source.source().table().blocks()
    }

    /// Fills `stretch` with what comes next; it is empty at the end.
    ///
    /// # Errors
    /// The trace is damaged or cannot be read.
    pub(crate) fn fill(&mut self, stretch: &mut Stretch) -> Result<(), TraceError> {
        let Stretch { batches, known_blocks, charged_to } = stretch;
        known_blocks.clear();
        while known_blocks.len() < self.most_batches {
            let place = known_blocks.len();
            if place == batches.len() {
                batches.push(Batch::default());
            }
            let (known, batch_charged_to) = match self.kept.take() {
                Some((batch, known, batch_charged_to)) => {
                    batches[place] = batch;
                    (known, batch_charged_to)
                }
                None => {
                    let Some(counts) = self.source.next_batch(&mut batches[place])? else { break };
                    (self.blocks().len(), ChargedTo { counts, program: self.source.program() })
                }
            };
            if place > 0 && batch_charged_to != *charged_to {
                self.kept = Some((std::mem::take(&mut batches[place]), known, batch_charged_to));
                break;
            }
            *charged_to = batch_charged_to;
            known_blocks.push(known);
        }
        Ok(())
    }
}
