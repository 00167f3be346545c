//! Costs of instructions, gathered by function, line and path of calls.

use std::collections::HashMap;
use std::ops::AddAssign;

use mmulab_symbols::{Place, ProgramSymbols};
use mmulab_trace::Block;
use serde::Serialize;

use super::paths::Paths;

/// What a piece of the program did and cost, beside issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeCost {
    /// Instructions.
    pub instructions: u64,
    /// Walks that its references led to.
    pub walks: u64,
    /// Cycles of these, of second-level TLB look-ups and of the interrupts of miss handlers.
    pub translation_cycles: u64,
    /// Cycles of page faults and promotions.
    pub page_fault_cycles: u64,
    /// Cycles of the program's own cache misses.
    pub cache_cycles: u64,
}

impl CodeCost {
    /// What was added after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            walks: self.walks - before.walks,
            translation_cycles: self.translation_cycles - before.translation_cycles,
            page_fault_cycles: self.page_fault_cycles - before.page_fault_cycles,
            cache_cycles: self.cache_cycles - before.cache_cycles,
        }
    }
}

impl AddAssign for CodeCost {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.walks += other.walks;
        self.translation_cycles += other.translation_cycles;
        self.page_fault_cycles += other.page_fault_cycles;
        self.cache_cycles += other.cache_cycles;
    }
}

/// A function of the program, or all code of a file that no symbol names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Function {
    /// The file that is mapped there.
    pub object: String,
    /// Its name; empty where it has none.
    pub name: String,
    /// First address in the program; 0 where it has no name.
    pub address: u64,
}

/// What a source line did and cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineCost {
    /// Place in [`Profile::functions`].
    pub function: u32,
    /// The source file; empty where it is not known.
    pub file: String,
    /// The line; 0 where it is not known.
    pub line: u32,
    /// What it cost.
    pub cost: CodeCost,
}

/// What a function did and cost on one path of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathCost {
    /// The path of the caller, an earlier place in [`Profile::paths`]; `None` for what nobody
    /// called.
    pub parent: Option<u32>,
    /// Place in [`Profile::functions`].
    pub function: u32,
    /// How often its first instruction was executed on this path.
    pub calls: u64,
    /// What it cost itself, without what it called.
    pub cost: CodeCost,
}

/// Costs by function, line and path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// All functions that were executed.
    pub functions: Vec<Function>,
    /// In the order of functions, files and lines.
    pub lines: Vec<LineCost>,
    /// A path stands behind the one that it continues.
    pub paths: Vec<PathCost>,
}

/// What instructions did, by path.
#[derive(Default)]
pub(crate) struct Code {
    /// Executions by path and block.
    executions: HashMap<(u32, u32), u64>,
    /// Costs by path and instruction, numbered through all blocks.
    costs: HashMap<(u32, u32), CodeCost>,
    /// Path and instruction that the program is at.
    last: (u32, u32),
}

impl Code {
    #[inline]
    pub(crate) fn execute(&mut self, path: u32, block: u32) {
        *self.executions.entry((path, block)).or_default() += 1;
    }

    pub(crate) fn spend(&mut self, path: u32, instruction: u32, cost: CodeCost) {
        *self.costs.entry((path, instruction)).or_default() += cost;
    }

    /// The program executes up to an instruction.
    #[inline]
    pub(crate) fn reach(&mut self, path: u32, instruction: u32) {
        self.last = (path, instruction);
    }

    /// What is spent behind the instruction that was executed last.
    pub(crate) fn spend_last(&mut self, cost: CodeCost) {
        let (path, instruction) = self.last;
        self.spend(path, instruction, cost);
    }

    /// Everything with names; `blocks` are those of the trace.
    pub(crate) fn profile(
        self,
        blocks: &[Block],
        paths: &Paths,
        symbols: &mut ProgramSymbols,
    ) -> Profile {
        let mut executions: Vec<_> = self.executions.into_iter().collect();
        executions.sort_unstable();
        let mut costs: Vec<_> = self.costs.into_iter().collect();
        costs.sort_unstable_by_key(|(key, _)| *key);
        let first_instructions: Vec<u32> = blocks
            .iter()
            .scan(0, |sum, block| {
                let first = *sum;
                *sum += block.instruction_sizes_bytes.len() as u32;
                Some(first)
            })
            .collect();
        let mut naming = Naming::new(paths.nodes(), symbols);
        for ((path, number), count) in executions {
            let block = &blocks[number as usize];
            let mut address = block.address;
            for &size_bytes in &block.instruction_sizes_bytes {
                let cost = CodeCost { instructions: count, ..CodeCost::default() };
                let is_entry = naming.add(path, address, cost);
                if is_entry {
                    naming.count_call(path, address, count);
                }
                address = address.wrapping_add(size_bytes.into());
            }
        }
        for ((path, instruction), cost) in costs {
            let number = first_instructions.partition_point(|&first| first <= instruction) - 1;
            let block = &blocks[number];
            let place = (instruction - first_instructions[number]) as usize;
            let before = block.instruction_sizes_bytes[..place].iter();
            let offset: u64 = before.map(|&size_bytes| u64::from(size_bytes)).sum();
            naming.add(path, block.address.wrapping_add(offset), cost);
        }
        let Naming { functions, mut lines, tree, .. } = naming;
        lines.list.sort_by(|one, other| {
            let key = |it: &LineCost| (it.function, it.line);
            key(one).cmp(&key(other)).then_with(|| one.file.cmp(&other.file))
        });
        Profile { functions: functions.list, lines: lines.list, paths: tree.list }
    }
}

/// Gives functions numbers in the order in which they are met.
#[derive(Default)]
struct Functions {
    list: Vec<Function>,
    numbers: HashMap<Function, u32>,
}

impl Functions {
    fn number(&mut self, place: &Place) -> u32 {
        let function = Function {
            object: place.object.clone(),
            name: place.function.clone(),
            address: place.function_address,
        };
        *self.numbers.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            self.list.len() as u32 - 1
        })
    }
}

/// Source lines.
#[derive(Default)]
struct Lines {
    list: Vec<LineCost>,
    numbers: HashMap<(u32, String, u32), u32>,
}

impl Lines {
    fn number(&mut self, function: u32, place: Place) -> u32 {
        let Place { file, line, .. } = place;
        *self.numbers.entry((function, file, line)).or_insert_with_key(|(_, file, line)| {
            let (file, line) = (file.clone(), *line);
            self.list.push(LineCost { function, file, line, cost: CodeCost::default() });
            self.list.len() as u32 - 1
        })
    }
}

/// Paths of functions.
#[derive(Default)]
struct Tree {
    list: Vec<PathCost>,
    numbers: HashMap<(Option<u32>, u32), u32>,
}

impl Tree {
    fn number(&mut self, parent: Option<u32>, function: u32) -> u32 {
        *self.numbers.entry((parent, function)).or_insert_with(|| {
            self.list.push(PathCost { parent, function, calls: 0, cost: CodeCost::default() });
            self.list.len() as u32 - 1
        })
    }
}

/// What is known of an address.
#[derive(Clone, Copy)]
struct Numbers {
    function: u32,
    line: u32,
    /// Whether the function begins there.
    is_entry: bool,
}

struct Naming<'a> {
    symbols: &'a mut ProgramSymbols,
    nodes: &'a [(u32, u64)],
    functions: Functions,
    lines: Lines,
    tree: Tree,
    places: HashMap<u64, Numbers>,
    /// For each of `nodes` the path of the functions that called; `None` inside if not yet found.
    callers: Vec<Option<Option<u32>>>,
}

impl<'a> Naming<'a> {
    fn new(nodes: &'a [(u32, u64)], symbols: &'a mut ProgramSymbols) -> Self {
        let mut callers = vec![None; nodes.len()];
        callers[0] = Some(None);
        Self {
            symbols,
            nodes,
            functions: Functions::default(),
            lines: Lines::default(),
            tree: Tree::default(),
            places: HashMap::new(),
            callers,
        }
    }

    /// Adds a cost of the instruction at `address` on a path; whether a function begins there.
    fn add(&mut self, path: u32, address: u64, cost: CodeCost) -> bool {
        let Numbers { function, line, is_entry } = self.place(address);
        let place = self.leaf(path, function);
        self.tree.list[place].cost += cost;
        self.lines.list[line as usize].cost += cost;
        is_entry
    }

    fn count_call(&mut self, path: u32, address: u64, count: u64) {
        let function = self.place(address).function;
        let place = self.leaf(path, function);
        self.tree.list[place].calls += count;
    }

    fn leaf(&mut self, path: u32, function: u32) -> usize {
        let parent = self.callers(path);
        self.tree.number(parent, function) as usize
    }

    fn place(&mut self, address: u64) -> Numbers {
        let Self { symbols, functions, lines, places, .. } = self;
        *places.entry(address).or_insert_with(|| {
            let place = symbols.place(address);
            let is_entry = place.function_address == address;
            let function = functions.number(&place);
            Numbers { function, line: lines.number(function, place), is_entry }
        })
    }

    /// The path of the functions in which the calls of a path were made.
    fn callers(&mut self, path: u32) -> Option<u32> {
        // A path stands behind the one that it continues, so that this needs no recursion.
        let mut unknown = Vec::new();
        let mut at = path;
        while self.callers[at as usize].is_none() {
            unknown.push(at);
            at = self.nodes[at as usize].0;
        }
        for at in unknown.into_iter().rev() {
            let (parent, site) = self.nodes[at as usize];
            let function = self.place(site).function;
            let above = self.callers[parent as usize].flatten();
            self.callers[at as usize] = Some(Some(self.tree.number(above, function)));
        }
        self.callers[path as usize].flatten()
    }
}
