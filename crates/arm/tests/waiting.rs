//! What wakes a core where every core waits and no timer runs: input, and interrupts of another
//! core.

use mmulab_arm::{CoherentCaches, Cpu};
use mmulab_system::{Host, Loaded, Stop, System, Transcript};

use crate::support::{self, Code};

const CORE_0: u32 = 0x4000_0000;
const CORE_1: u32 = 0x4001_0000;
const DISTRIBUTOR: u32 = 0x0800_0000;
const INTERFACE: u32 = 0x0801_0000;
const UART: u32 = 0x0900_0000;
const HVC: u32 = 0xe140_0070;
const SUBS_R1_1: u32 = 0xe251_1001;

/// Types two characters once everything waits.
#[derive(Default)]
struct Typist {
    asked: bool,
    looks: usize,
}

impl Host for Typist {
    fn output(&mut self, _: &[u8]) {}

    fn input(&mut self) -> Vec<u8> {
        self.looks += 1;
        assert!(self.looks < 1000, "nobody is woken by what was typed");
        if self.asked && self.looks < 900 {
            self.looks = 900;
            return b"ab".to_vec();
        }
        Vec::new()
    }

    fn wait_for_input(&mut self) -> bool {
        !std::mem::replace(&mut self.asked, true)
    }
}

/// Turns core 1 on, lets the UART interrupt core 0 only, waits, and ends with the character as
/// status.
fn interrupted_core() -> Code {
    let mut code = Code::new();
    code.set(0, 0x8400_0003).set(1, 1).set(2, CORE_1).word(HVC);
    code.put(DISTRIBUTOR, 1).put(DISTRIBUTOR + 0x104, 1 << 1).put(DISTRIBUTOR + 0x820, 1 << 8);
    code.put(INTERFACE + 4, 0xff).put(INTERFACE, 1).put(UART + 0x38, 1 << 4);
    code.system(0, 7, 0, 4).set(10, UART).load(0, 10, 0).exit_with(0);
    code
}

/// Counts and then waits for ever.
fn other_core(count: u32) -> Code {
    let mut code = Code::new();
    code.set(1, count);
    let again = code.here();
    code.word(SUBS_R1_1).branch_not_equal(again);
    code.system(0, 7, 0, 4).asm("b .");
    code
}

/// Turns core 1 on, counts, sends it a software generated interrupt, and waits for ever.
fn interrupting_core(count: u32) -> Code {
    let mut code = Code::new();
    code.set(0, 0x8400_0003).set(1, 1).set(2, CORE_1).word(HVC).put(DISTRIBUTOR, 1).set(1, count);
    let again = code.here();
    code.word(SUBS_R1_1).branch_not_equal(again);
    code.put(DISTRIBUTOR + 0xf00, 2 << 16).system(0, 7, 0, 4).asm("b .");
    code
}

/// Waits for an interrupt, and ends with status 7.
fn waiting_core() -> Code {
    let mut code = Code::new();
    code.put(DISTRIBUTOR + 0x100, 1).put(INTERFACE + 4, 0xff).put(INTERFACE, 1);
    code.system(0, 7, 0, 4).set(0, 7).exit_with(0);
    code
}

/// The machine with a program for each core, which take turns of so many cycles.
fn two_cores(programs: [Code; 2], turn_cycles: &str) -> System<Cpu<CoherentCaches>> {
    let changes = [("cores", "2"), ("interleave_cycles", turn_cycles)];
    let machine = support::machine("cortex-a7", &changes);
    let mut system = mmulab_arm::system::<CoherentCaches>(&machine).unwrap();
    let bytes = |code: Code| code.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let segments = [CORE_0, CORE_1].into_iter().zip(programs.map(bytes)).collect();
    system.load(&Loaded { segments, entry: CORE_0, ..Loaded::default() });
    system
}

#[test]
fn a_core_that_waits_is_woken_by_one_that_waits_then_itself() {
    for count in (1..40).map(|step| 97 * step) {
        // Long enough to interrupt the other and to wait in one turn.
        let mut system = two_cores([interrupting_core(count), waiting_core()], "10000");
        let stop = system.run(&mut Transcript::default(), 1_000_000);
        assert_eq!(stop, Stop::Exit(7), "core 0 counts to {count}");
    }
}

#[test]
fn input_wakes_the_core_that_it_interrupts_whichever_sleeps_last() {
    for count in [1, 0x4000] {
        let mut system = two_cores([interrupted_core(), other_core(count)], "100");
        let stop = system.run(&mut Typist::default(), 1_000_000);
        assert_eq!(stop, Stop::Exit(b'a'), "core 1 counts to {count}");
    }
}
