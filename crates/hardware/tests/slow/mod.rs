//! A slow and obvious model of sets and replacement, for tests of every crate that has caches.
//!
//! It keeps each set as a plain list of ways and each policy as the sentence that defines it: a
//! list of uses for LRU, a recursive tree of booleans for pseudo-LRU.

use mmulab_hardware::{Partition, Random, Replacement};

/// One set, in the most literal way.
pub struct SlowSet {
    pub ways: Vec<Option<u64>>,
    /// Ways in order of use, the latest last.
    uses: Vec<usize>,
    pointer: [usize; 2],
    tree: Option<Box<Node>>,
}

enum Node {
    Leaf(usize),
    Fork { victim_is_upper: bool, lower: Box<Node>, upper: Box<Node> },
}

impl Node {
    fn new(first: usize, width: usize) -> Box<Node> {
        Box::new(if width == 1 {
            Node::Leaf(first)
        } else {
            let half = width / 2;
            Node::Fork {
                victim_is_upper: false,
                lower: Node::new(first, half),
                upper: Node::new(first + half, half),
            }
        })
    }

    fn leaves(&self) -> Vec<usize> {
        match self {
            Node::Leaf(way) => vec![*way],
            Node::Fork { lower, upper, .. } => [lower.leaves(), upper.leaves()].concat(),
        }
    }

    /// Points the forks on the path to `way` away from it; the others stay.
    fn touch(&mut self, way: usize) {
        if !self.leaves().contains(&way) {
            return;
        }
        if let Node::Fork { victim_is_upper, lower, upper } = self {
            *victim_is_upper = lower.leaves().contains(&way);
            lower.touch(way);
            upper.touch(way);
        }
    }

    fn victim(&self, allowed: &[usize]) -> usize {
        match self {
            Node::Leaf(way) => *way,
            Node::Fork { victim_is_upper, lower, upper } => {
                let any = |node: &Node| node.leaves().iter().any(|way| allowed.contains(way));
                let go_up = if !any(upper) { false } else { !any(lower) || *victim_is_upper };
                if go_up { upper.victim(allowed) } else { lower.victim(allowed) }
            }
        }
    }
}

pub struct SlowSets {
    pub sets: Vec<SlowSet>,
    replacement: Replacement,
    random: Random,
    pub protected: usize,
    /// Ways that no fill takes.
    pub closed: Vec<usize>,
    /// The way of each set's next fill, where it was chosen.
    pub aimed: Vec<Option<usize>>,
}

impl SlowSets {
    pub fn new(sets: usize, ways: usize, replacement: Replacement, random: Random) -> Self {
        let set = || SlowSet {
            ways: vec![None; ways],
            uses: Vec::new(),
            pointer: [0, 0],
            tree: (replacement == Replacement::TreePseudoLru).then(|| Node::new(0, ways)),
        };
        Self {
            sets: (0..sets).map(|_| set()).collect(),
            replacement,
            random,
            protected: 0,
            closed: Vec::new(),
            aimed: vec![None; sets],
        }
    }

    pub fn find(&self, set: usize, tag: u64) -> Option<usize> {
        self.sets[set].ways.iter().position(|&held| held == Some(tag))
    }

    pub fn touch(&mut self, set: usize, way: usize) {
        let set = &mut self.sets[set];
        set.uses.retain(|&used| used != way);
        set.uses.push(way);
        if let Some(tree) = &mut set.tree {
            tree.touch(way);
        }
    }

    /// Software writes the victim pointers.
    #[allow(dead_code)] // the replay's tests share this model and have no such software
    pub fn aim(&mut self, way: usize) {
        let way = way.min(self.sets[0].ways.len() - 1);
        for set in &mut self.sets {
            set.pointer = [way, way];
        }
        self.aimed.fill((self.replacement != Replacement::RoundRobin).then_some(way));
    }

    pub fn victim(&mut self, set: usize, partition: Partition) -> usize {
        if let Some(way) = self.aimed[set].take() {
            return way;
        }
        let ways = self.sets[set].ways.len();
        let allowed: Vec<usize> = match partition {
            Partition::Normal => {
                (self.protected..ways).filter(|way| !self.closed.contains(way)).collect()
            }
            Partition::Protected => (0..self.protected).collect(),
        };
        let state = &mut self.sets[set];
        if self.replacement == Replacement::RoundRobin {
            let pointer = &mut state.pointer[usize::from(partition == Partition::Protected)];
            let next = allowed.iter().copied().find(|way| way >= pointer);
            let way = next.unwrap_or(allowed[0]);
            *pointer = way + 1;
            return way;
        }
        if let Some(&empty) = allowed.iter().find(|&&way| state.ways[way].is_none()) {
            return empty;
        }
        match self.replacement {
            Replacement::Random => allowed[self.random.below(allowed.len() as u32) as usize],
            Replacement::Lru => {
                *state.uses.iter().find(|way| allowed.contains(way)).expect("all were used")
            }
            Replacement::TreePseudoLru => state.tree.as_ref().expect("a tree").victim(&allowed),
            Replacement::RoundRobin => unreachable!(),
        }
    }
}
