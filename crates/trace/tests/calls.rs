//! Calls and returns, found in blocks and addresses.

use mmulab_trace::{Access, AccessKind, Block, BlockTable, Calls, Event};

/// No calls.
const NONE: [u64; 0] = [];

/// What a block of the program below ends with.
#[derive(Clone, Copy)]
enum End {
    Call(u64),
    Return(u64),
    Store(u64),
    Plain,
}

/// A program that is made while it runs: each step is a block of two instructions of four bytes.
#[derive(Default)]
struct Run {
    table: BlockTable,
    calls: Calls,
}

impl Run {
    /// Executes a block; the return addresses of the calls that are under way then.
    fn step(&mut self, address: u64, end: End) -> Vec<u64> {
        let (kind, at) = match end {
            End::Call(slot) | End::Store(slot) => (Some(AccessKind::Store), slot),
            End::Return(slot) => (Some(AccessKind::Load), slot),
            End::Plain => (None, 0),
        };
        let access = |kind| Access { instruction: 1, size_bytes: 8, kind };
        let block = Block {
            address,
            instruction_sizes_bytes: vec![4, 4],
            accesses: kind.map(access).into_iter().collect(),
        };
        let addresses = vec![at; block.accesses.len()];
        let number = self.table.push(block);
        self.calls.step(&self.table, number, &addresses);
        self.calls.frames().iter().map(|frame| frame.return_address).collect()
    }
}

#[test]
fn calls_nest_and_return() {
    let mut run = Run::default();
    assert_eq!(run.step(0x1000, End::Call(0x8000)), NONE);
    assert_eq!(run.step(0x2000, End::Call(0x7000)), [0x1008]);
    assert_eq!(run.step(0x3000, End::Return(0x7000)), [0x1008, 0x2008]);
    assert_eq!(run.step(0x2008, End::Return(0x8000)), [0x1008]);
    assert_eq!(run.step(0x1008, End::Plain), NONE);
}

#[test]
fn a_jump_into_a_function_returns_for_its_caller() {
    let mut run = Run::default();
    run.step(0x1000, End::Call(0x8000));
    assert_eq!(run.step(0x2000, End::Plain), [0x1008]);
    // Jumped to.
    assert_eq!(run.step(0x3000, End::Return(0x8000)), [0x1008]);
    assert_eq!(run.step(0x1008, End::Plain), NONE);
}

#[test]
fn a_store_that_goes_on_or_repeats_is_no_call() {
    let mut run = Run::default();
    run.step(0x1000, End::Store(0x8000));
    assert_eq!(run.step(0x1008, End::Store(0x9000)), NONE);
    // A repeated string instruction, the block's second.
    assert_eq!(run.step(0x100c, End::Plain), NONE);
}

#[test]
fn a_load_from_elsewhere_is_no_return() {
    let mut run = Run::default();
    run.step(0x1000, End::Call(0x8000));
    // A jump through a table, below and above the stack.
    assert_eq!(run.step(0x2000, End::Return(0x100)), [0x1008]);
    assert_eq!(run.step(0x3000, End::Return(0xffff)), [0x1008]);
    // A load of the return address that is no return.
    assert_eq!(run.step(0x4000, End::Return(0x8000)), [0x1008]);
    assert_eq!(run.step(0x4008, End::Plain), [0x1008]);
}

#[test]
fn frames_that_are_jumped_out_of_go_with_the_next_call_above_them() {
    let mut run = Run::default();
    run.step(0x1000, End::Call(0x8000));
    run.step(0x2000, End::Call(0x7000));
    run.step(0x3000, End::Call(0x6000));
    // longjmp into the function at 0x2000, which calls again.
    assert_eq!(run.step(0x4000, End::Plain).len(), 3);
    run.step(0x2100, End::Call(0x7000));
    assert_eq!(run.step(0x5000, End::Return(0x7000)), [0x1008, 0x2108]);
    assert_eq!(run.step(0x2108, End::Return(0x8000)), [0x1008]);
    assert_eq!(run.step(0x1008, End::Plain), NONE);
}

#[test]
fn each_thread_has_its_own_calls_and_another_program_none() {
    let mut run = Run::default();
    run.calls.note(&Event::Thread(1));
    run.step(0x1000, End::Call(0x8000));
    run.step(0x2000, End::Call(0x7000));
    run.calls.note(&Event::Thread(2));
    assert_eq!(run.step(0x5000, End::Call(0x4000)), NONE);
    assert_eq!(run.step(0x6000, End::Plain), [0x5008]);
    run.calls.note(&Event::Thread(1));
    // Said again of the thread that runs.
    run.calls.note(&Event::Thread(1));
    assert_eq!(run.step(0x3000, End::Plain), [0x1008, 0x2008]);
    run.calls.note(&Event::Unmap { address: 0, length_bytes: u64::MAX });
    assert_eq!(run.step(0x3000, End::Plain), NONE);
}
