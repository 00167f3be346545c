//! Single-pass simulation of many direct-mapped hierarchies that take the same references.
//!
//! It rests on inclusion: of two direct-mapped caches with lines of the same length that take the
//! same references, the larger holds all that the smaller holds: what was referenced last in a set
//! of the smaller was referenced last in its set of the larger, which has fewer lines to it. So a
//! reference that hits in the smallest first level hits in all, and a hit has no state to change;
//! one that misses goes up the sizes until it hits. A second level takes the references that its
//! own first level missed; the second levels of one shape under all first levels lie side by side
//! in memory, because a reference that misses several first levels looks in the same set of all of
//! them.

use std::ops::Range;

use mmulab_hardware::Ledger;
use mmulab_machine::Cache;

use crate::caches::{CacheCounters, Caches, DirectMapped, Location, Side, index_bits};
use crate::cause::{Cause, Role, Tier};

/// The most first levels of one side. Eight line numbers are half a cache line of the host.
pub(super) const MAX_FIRST_LEVELS: usize = 8;

/// On whose behalf a side is referenced, from 0.
const ROLES: [&[Role]; 2] = [
    &[Role::Fetch, Role::Handler],
    &[Role::Data, Role::Pte(Tier::User), Role::Pte(Tier::Kernel), Role::Pte(Tier::Root)],
];
const MAX_ROLES: usize = 4;

/// No line: lines are at least four bytes long, so numbers end well below it.
const EMPTY: u32 = u32::MAX;

/// Split two-level hierarchies of virtual, direct-mapped caches that allocate on every miss, all
/// with the same line length in the first level of a side.
#[derive(Clone, Debug)]
pub(super) struct SinglePass {
    sides: [SinglePassSide; 2],
}

/// Sizes and line length of a cache.
pub(super) type Shape = (u64, u32);

/// One hierarchy of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Shapes of the first level, by side.
    pub first: [Shape; 2],
    /// Shape of the second level of either side.
    pub second: Shape,
    /// Cycles added by a miss in each level.
    pub miss_cycles: [u64; 2],
}

pub(super) fn shape(cache: &Cache) -> Shape {
    (cache.size_bytes, cache.line_bytes)
}

impl SinglePass {
    /// A simulation that has these members; empty caches.
    pub fn new(members: &[Member]) -> Self {
        let side = |side: usize| {
            let mut firsts: Vec<Shape> = members.iter().map(|member| member.first[side]).collect();
            let mut seconds: Vec<Shape> = members.iter().map(|member| member.second).collect();
            for shapes in [&mut firsts, &mut seconds] {
                shapes.sort_unstable();
                shapes.dedup();
            }
            SinglePassSide::new(&firsts, &seconds)
        };
        Self { sides: [side(0), side(1)] }
    }

    /// Charges what `member` missed to `ledger`, and completes its counters: `counters` are those
    /// of [`Caches::counters`], which know only how many references there were.
    pub fn account(
        &self,
        member: &Member,
        ledger: &mut Ledger<Cause>,
        counters: &[CacheCounters],
    ) -> Vec<CacheCounters> {
        let mut first_levels = Vec::new();
        let mut second_levels = Vec::new();
        for (index, side) in self.sides.iter().enumerate() {
            let mut misses = [0; 2];
            for (role_index, role) in ROLES[index].iter().enumerate() {
                let of_role = side.misses(role_index, member.first[index], member.second);
                for level in 0..2 {
                    let cycles = of_role[level] * member.miss_cycles[level];
                    ledger.charge_many(role.miss(level, 2), of_role[level], cycles);
                    misses[level] += of_role[level];
                }
            }
            let counter = |name: String, references: u64, misses: u64| CacheCounters {
                name,
                hits: references.saturating_sub(misses),
                misses,
                store_misses: None,
                write_backs: 0,
            };
            let letter = ["i", "d"][index];
            let references = counters[index].hits;
            first_levels.push(counter(format!("L1{letter}"), references, misses[0]));
            second_levels.push(counter(format!("L2{letter}"), misses[0], misses[1]));
        }
        first_levels.append(&mut second_levels);
        first_levels
    }
}

impl Caches for SinglePass {
    #[inline(always)]
    fn line_shift(&self, side: Side) -> u32 {
        self.sides[side as usize].shift
    }

    #[inline(always)]
    fn reference(
        &mut self,
        role: Role,
        at: Location,
        _is_store: bool,
        _ledger: &mut Ledger<Cause>,
    ) {
        let role_index = match role {
            Role::Fetch | Role::Data => 0,
            Role::Handler | Role::Pte(Tier::User) => 1,
            Role::Pte(Tier::Kernel) => 2,
            Role::Pte(Tier::Root) => 3,
            Role::Pte(Tier::Host) => unreachable!("32-bit machines have no hypervisor"),
        };
        self.sides[role.side() as usize].reference(role_index, at.virtual_address as u32);
    }

    fn counters(&self, references: [u64; 2]) -> Vec<CacheCounters> {
        super::counters_without_misses(references)
    }
}

impl DirectMapped for SinglePass {
    fn first_level_sets(&self, side: Side) -> usize {
        self.sides[side as usize].smallest.len()
    }

    fn index_bits(&self, side: Side) -> Range<u32> {
        let side = &self.sides[side as usize];
        let seconds = side.seconds.iter().flat_map(|levels| {
            levels.sizes.iter().map(move |level| (level.sets.len(), levels.shift))
        });
        index_bits(seconds.chain([(side.smallest.len(), side.shift)]))
    }
}

#[derive(Clone, Debug)]
struct SinglePassSide {
    /// log2 of the line length of the first levels.
    shift: u32,
    /// The lines of the smallest first level.
    smallest: Box<[u32]>,
    /// The lines of the others, by ascending size.
    larger: Vec<Box<[u32]>>,
    firsts: Vec<Shape>,
    /// By role: how many references missed exactly N of the smallest first levels.
    missed: [[u64; MAX_FIRST_LEVELS + 1]; MAX_ROLES],
    seconds: Vec<SecondLevels>,
}

impl SinglePassSide {
    /// Both lists ascend; `firsts` are at most [`MAX_FIRST_LEVELS`], of one line length.
    fn new(firsts: &[Shape], seconds: &[Shape]) -> Self {
        let lines = |&(size_bytes, line_bytes): &Shape| -> Box<[u32]> {
            vec![EMPTY; (size_bytes / u64::from(line_bytes)) as usize].into()
        };
        let mut line_lengths: Vec<u32> = seconds.iter().map(|shape| shape.1).collect();
        line_lengths.sort_unstable();
        line_lengths.dedup();
        Self {
            shift: firsts[0].1.trailing_zeros(),
            smallest: lines(&firsts[0]),
            larger: firsts[1..].iter().map(lines).collect(),
            firsts: firsts.to_vec(),
            missed: Default::default(),
            seconds: line_lengths
                .into_iter()
                .map(|line_bytes| {
                    let of_length = seconds.iter().filter(|shape| shape.1 == line_bytes);
                    SecondLevels::new(line_bytes, of_length.map(|shape| shape.0))
                })
                .collect(),
        }
    }

    #[inline(always)]
    fn reference(&mut self, role: usize, address: u32) {
        let line = address >> self.shift;
        let set = line as usize & (self.smallest.len() - 1);
        if self.smallest[set] != line {
            self.smallest[set] = line;
            self.miss(role, address);
        }
    }

    /// The smallest first level missed.
    #[inline(never)]
    fn miss(&mut self, role: usize, address: u32) {
        let line = address >> self.shift;
        let mut missed = 1;
        for lines in &mut self.larger {
            let set = line as usize & (lines.len() - 1);
            if lines[set] == line {
                break;
            }
            lines[set] = line;
            missed += 1;
        }
        self.missed[role][missed] += 1;
        for second in &mut self.seconds {
            second.reference(role, address, missed);
        }
    }

    /// Misses of one role in the two levels of one hierarchy.
    fn misses(&self, role: usize, first: Shape, second: Shape) -> [u64; 2] {
        let Some(configuration) = self.firsts.iter().position(|shape| *shape == first) else {
            return [0; 2];
        };
        let second = self
            .seconds
            .iter()
            .filter(|levels| 1 << levels.shift == second.1)
            .flat_map(|levels| &levels.sizes)
            .find(|level| level.size_bytes == second.0);
        let in_first = self.missed[role][configuration + 1..].iter().sum();
        [in_first, second.map_or(0, |level| level.misses[role][configuration])]
    }
}

/// The second levels of one line length, under all first levels.
#[derive(Clone, Debug)]
struct SecondLevels {
    shift: u32,
    /// By ascending size.
    sizes: Vec<SecondLevel>,
}

/// The second levels of one shape: in each set, the line under each first level.
#[derive(Clone, Debug)]
struct SecondLevel {
    size_bytes: u64,
    sets: Box<[[u32; MAX_FIRST_LEVELS]]>,
    misses: [[u64; MAX_FIRST_LEVELS]; MAX_ROLES],
}

impl SecondLevels {
    fn new(line_bytes: u32, sizes: impl Iterator<Item = u64>) -> Self {
        let level = |size_bytes| SecondLevel {
            size_bytes,
            sets: vec![[EMPTY; MAX_FIRST_LEVELS]; (size_bytes / u64::from(line_bytes)) as usize]
                .into(),
            misses: Default::default(),
        };
        Self { shift: line_bytes.trailing_zeros(), sizes: sizes.map(level).collect() }
    }

    /// A reference that the `missed` smallest first levels pass on.
    #[inline]
    fn reference(&mut self, role: usize, address: u32, missed: usize) {
        let line = address >> self.shift;
        // One bit for each first level whose second level has not hit yet.
        let mut looking = (1_u32 << missed) - 1;
        for level in &mut self.sizes {
            let set = line as usize & (level.sets.len() - 1);
            let held = &mut level.sets[set];
            let mut configurations = looking;
            while configurations != 0 {
                let configuration = configurations.trailing_zeros() as usize;
                configurations &= configurations - 1;
                if held[configuration] == line {
                    looking &= !(1 << configuration);
                } else {
                    held[configuration] = line;
                    level.misses[role][configuration] += 1;
                }
            }
            if looking == 0 {
                return;
            }
        }
    }
}
