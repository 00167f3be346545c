//! The debugger's side, spoken to in gdb's remote protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use mmulab_arm::VirtualCaches;
use mmulab_hardware::Random;
use mmulab_system::gdb;
use mmulab_system::{Host, Stop, Transcript};

use crate::support::{Code, LAB, Run, START, cached, machine, mov, run, uncached};

struct Gdb(TcpStream);

impl Gdb {
    /// Connects as soon as the machine listens.
    fn connect(port: u16) -> Gdb {
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => return Gdb(stream),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }

    fn send(&mut self, text: &str) {
        let sum = text.bytes().fold(0_u8, u8::wrapping_add);
        self.0.write_all(format!("${text}#{sum:02x}").as_bytes()).unwrap();
    }

    /// Sends a packet and gives the answer.
    fn ask(&mut self, text: &str) -> String {
        self.send(text);
        self.answer()
    }

    /// The next packet, which is acknowledged.
    fn answer(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut answer = Vec::new();
        loop {
            match self.byte() {
                b'#' => break,
                // Run lengths: the last character again, as often as this one says.
                b'*' => {
                    let again = *answer.last().unwrap();
                    let times = usize::from(self.byte() - 29);
                    answer.extend(std::iter::repeat_n(again, times));
                }
                byte => answer.push(byte),
            }
        }
        self.byte();
        self.byte();
        self.0.write_all(b"+").unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// As gdb goes on from a breakpoint: takes it away, lets the thread that it was told of step,
    /// and puts it back.
    fn go_on(&mut self, kind: &str, place: u32, thread: &str) -> String {
        assert_eq!(self.ask(&format!("{},{place:x},4", kind.to_lowercase())), "OK");
        let stepped = self.ask(&format!("vCont;s:{thread}"));
        if stepped.contains("watch:") {
            // The step over an access, which has been made.
            assert!(self.ask(&format!("vCont;s:{thread}")).contains(thread));
        }
        assert_eq!(self.ask(&format!("{kind},{place:x},4")), "OK");
        self.ask("vCont;c")
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Runs a program under the debugger, and connects to it.
fn serve<H: Host + Send + 'static>(code: Code, host: H) -> (Gdb, JoinHandle<Result<Stop, String>>) {
    serve_on("1", code, host)
}

/// The same on several cores.
fn serve_on<H: Host + Send + 'static>(
    cores: &'static str,
    code: Code,
    mut host: H,
) -> (Gdb, JoinHandle<Result<Stop, String>>) {
    let port = free_port();
    let served = std::thread::spawn(move || {
        let described = machine("arm926ej-s", &[("cores", cores)]);
        let mut system = mmulab_arm::system::<VirtualCaches>(&described).unwrap();
        system.load(&code.image());
        gdb::serve(&mut system, &mut host, port, 1_000_000)
    });
    (Gdb::connect(port), served)
}

/// Ends with status 7 if it is left alone.
fn ends_with_seven() -> Code {
    let mut code = Code::new();
    code.set(0, 7).exit_with(0);
    code
}

/// A host whose user presses Ctrl-C when the flag is set.
struct Impatient(Arc<AtomicBool>);

impl Host for Impatient {
    fn output(&mut self, _: &[u8]) {}

    fn interrupted(&mut self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_user_who_interrupts_need_not_wait_for_gdb() {
    let mut system = mmulab_arm::system::<VirtualCaches>(&machine("arm926ej-s", &[])).unwrap();
    let mut host = Impatient(Arc::new(AtomicBool::new(true)));
    let stop = gdb::serve(&mut system, &mut host, free_port(), 1_000_000);
    assert_eq!(stop, Ok(Stop::Interrupted));
}

#[test]
fn a_user_who_interrupts_ends_a_session_that_stands_still() {
    let pressed = Arc::new(AtomicBool::new(false));
    let (mut gdb, served) = serve(ends_with_seven(), Impatient(pressed.clone()));
    gdb.ask("?");
    pressed.store(true, Ordering::Relaxed);
    assert_eq!(served.join().unwrap(), Ok(Stop::Interrupted));
}

#[test]
fn damaged_packets_end_neither_session_nor_run() {
    let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
    gdb.0.write_all(b"$g#00").unwrap(); // the checksum is wrong: to be sent again
    assert_eq!(gdb.byte(), b'-');
    gdb.0.write_all(b"noise-$g#zz").unwrap();
    assert_eq!(gdb.byte(), b'-');
    gdb.send("vCont;x:y:z;;"); // the checksum is right, and it means nothing
    let answer = [gdb.byte(), gdb.byte()];
    assert_eq!(&answer, b"+$");
    gdb.0.write_all(&[b'$'; 4096]).unwrap(); // longer than any packet
    while gdb.byte() != b'-' {}
    assert!(gdb.ask("g").len() > 128);
    assert_eq!(gdb.ask("c"), "W07");
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(7)));
}

#[test]
fn a_run_goes_on_when_the_connection_breaks_and_ends_when_gdb_kills_it() {
    let (gdb, served) = serve(ends_with_seven(), Transcript::default());
    drop(gdb);
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(7)));
    let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
    gdb.send("k");
    assert_eq!(served.join().unwrap(), Ok(Stop::Debugger));
    let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
    assert_eq!(gdb.ask("vKill;1"), "OK");
    assert_eq!(served.join().unwrap(), Ok(Stop::Debugger));
}

#[test]
fn random_packets_break_nothing() {
    const STARTS: [&str; 18] = [
        "",
        "m",
        "M",
        "X",
        "g",
        "G",
        "p",
        "P",
        "Z0",
        "Z2",
        "z3",
        "Z4",
        "vCont",
        "vCont;s",
        "qRcmd,",
        "qXfer:features:read:",
        "H",
        "qSupported",
    ];
    for seed in 0..20 {
        let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
        let mut random = Random::new(seed);
        for _ in 0..50 {
            let mut text = STARTS[random.below(STARTS.len() as u32) as usize].to_owned();
            for _ in 0..random.below(20) {
                let characters = b"0123456789abcdef,;:-f";
                text.push(characters[random.below(characters.len() as u32) as usize].into());
            }
            let sum = text.bytes().fold(0_u8, u8::wrapping_add);
            // The session may be over.
            let _ = gdb.0.write_all(format!("${text}#{sum:02x}").as_bytes());
        }
        drop(gdb);
        // Whatever it was told, it ends, and does not panic.
        assert!(served.join().unwrap().is_ok(), "seed {seed}");
    }
}

#[test]
fn break_step_watch_and_look() {
    let mut code = Code::new();
    code.set(1, 0x8000).set(2, 0x55);
    let store_at = code.here();
    code.store(2, 1, 0);
    let after = code.here();
    code.store(1, 1, 0).load(3, 1, 0).set(0, 0).exit_with(0);
    let (mut gdb, served) = serve(code, Transcript::default());
    gdb.ask("qSupported:swbreak+;hwbreak+;xmlRegisters=arm");
    let pc = |gdb: &mut Gdb| {
        let registers = gdb.ask("g");
        let hex = &registers[15 * 8..16 * 8];
        u32::from_str_radix(hex, 16).unwrap().swap_bytes()
    };
    assert_eq!(pc(&mut gdb), START);
    assert_eq!(gdb.ask("s"), "T05thread:01;");
    assert_eq!(pc(&mut gdb), START + 4);
    assert_eq!(gdb.ask(&format!("Z0,{store_at:x},4")), "OK");
    // The second is gdb's `jump *$pc`, which sends no register: to go on it takes the breakpoint
    // away.
    for _ in 0..2 {
        assert!(gdb.ask("c").starts_with('T'));
        assert_eq!(pc(&mut gdb), store_at);
    }
    assert_eq!(gdb.ask(&format!("z0,{store_at:x},4")), "OK");
    assert_eq!(gdb.ask("Z2,8000,4"), "OK");
    assert!(gdb.ask("c").contains("watch"));
    assert_eq!(pc(&mut gdb), after);
    assert_eq!(gdb.ask("m8000,4"), "55000000");
    assert_eq!(gdb.ask("M8000,1:66"), "OK");
    assert_eq!(gdb.ask("m8000,4"), "66000000");
    // What gdb does before it shows the stop; it would miss the next store if that were executed.
    assert_eq!(gdb.ask("z2,8000,4"), "OK");
    assert_eq!(gdb.ask("s"), "T05thread:01;");
    assert_eq!(pc(&mut gdb), after);
    assert_eq!(gdb.ask("Z2,8000,4"), "OK");
    assert!(gdb.ask("c").contains("watch"));
    assert_eq!((pc(&mut gdb), gdb.ask("m8000,4")), (after + 4, "00800000".to_owned()));
    // One that is narrower than the access is told by its own address.
    assert_eq!(gdb.ask("z2,8000,4"), "OK");
    assert_eq!(gdb.ask("s"), "T05thread:01;");
    assert_eq!(gdb.ask("Z3,8002,1"), "OK");
    let stop = gdb.ask("c");
    assert!(stop.contains("rwatch:8002") || stop.contains("rwatch:00008002"), "{stop}");
    assert_eq!(gdb.ask("z3,8002,1"), "OK");
    // A second step is one.
    for place in [after + 8, after + 12] {
        assert_eq!(gdb.ask("s"), "T05thread:01;");
        assert_eq!(pc(&mut gdb), place);
    }
    assert_eq!(gdb.ask("c"), "W00");
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(0)));
}

/// gdb's `set $cpsr` chooses the other mode's registers and changes none of them.
#[test]
fn a_register_is_written_alone() {
    let (abort_mode, supervisor_mode) = (0xe321_f0d7, 0xe321_f0d3); // MSR CPSR_c
    let mut code = Code::new();
    code.word(abort_mode).word(mov(13, 7)).word(mov(14, 8)).word(0xe361_f0d0); // MSR SPSR_c, #0xd0
    code.word(supervisor_mode).word(mov(13, 3)).word(mov(14, 4)).word(0xe361_f0df);
    let place = code.here();
    code.asm("mov r0, r0").set(0, 0).exit_with(0);
    let (mut gdb, served) = serve(code, Transcript::default());
    let register = |gdb: &mut Gdb, number: usize| {
        let hex = gdb.ask(&format!("p{number:x}"));
        u32::from_str_radix(&hex, 16).unwrap().swap_bytes()
    };
    let of_mode = |gdb: &mut Gdb| [13, 14, 26].map(|number| register(gdb, number));
    assert_eq!(gdb.ask(&format!("Z0,{place:x},4")), "OK");
    assert!(gdb.ask("c").starts_with('T'));
    assert_eq!((register(&mut gdb, 15), register(&mut gdb, 25)), (place, 0xd3));
    assert_eq!(of_mode(&mut gdb), [3, 4, 0xdf]);
    assert_eq!(gdb.ask("P19=d7000000"), "OK");
    assert_eq!(of_mode(&mut gdb), [7, 8, 0xd0]);
    assert_eq!(gdb.ask("Pb=ef000000"), "OK");
    assert_eq!(gdb.ask("P19=d3000000"), "OK");
    assert_eq!((of_mode(&mut gdb), register(&mut gdb, 11)), ([3, 4, 0xdf], 0xef));
    // The fault address register can be looked at only, and there is no number 24.
    assert!(gdb.ask("P20=00000000").starts_with('E'));
    assert!(gdb.ask("p18").starts_with('E'));
    assert_eq!(gdb.ask(&format!("z0,{place:x},4")), "OK");
    assert_eq!(gdb.ask("c"), "W00");
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(0)));
}

/// A watchpoint is on an address of the program that runs, as gdb's other commands have it: the
/// process ID relocates it.
#[test]
fn a_watchpoint_is_on_an_address_of_the_process() {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x20, cached(0)).section(0x101, uncached(0x101)).enable();
    code.set(1, 1 << 25).set(2, 0x8000).set(3, 0x0200_8000).set(0, 0);
    code.system(1, 13, 0, 0);
    let first = code.here();
    code.store(2, 2, 0).store(3, 3, 4).system(0, 13, 0, 0);
    code.load(4, 3, 0).exit_with(0);
    let (mut gdb, served) = serve(code, Transcript::default());
    assert_eq!(gdb.ask("Z2,8000,8"), "OK");
    let pc = |gdb: &mut Gdb| {
        let hex = gdb.ask("pf");
        u32::from_str_radix(&hex, 16).unwrap().swap_bytes()
    };
    for (address, after) in [("8000", first + 4), ("8004", first + 8)] {
        let stop = gdb.ask("c");
        assert!(stop.contains(&format!("watch:{address};")), "{stop}");
        assert_eq!(pc(&mut gdb), after);
        assert_eq!(gdb.ask("s"), "T05thread:01;");
    }
    // Without the process ID its place is reached by the modified address alone.
    assert_eq!(gdb.ask("z2,8000,8"), "OK");
    assert_eq!(gdb.ask("Z3,2008000,4"), "OK");
    let stop = gdb.ask("c");
    assert!(stop.contains("rwatch:02008000;"), "{stop}");
    assert_eq!(gdb.ask("z3,2008000,4"), "OK");
    assert_eq!(gdb.ask("s"), "T05thread:01;");
    assert_eq!(gdb.ask("c"), "W00");
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(0)));
}

/// What is fetched past the caches is fetched once, though the run ends before it and goes on: with
/// the caches off and on, on every kind of core, ARM and Thumb.
#[test]
fn single_steps_and_breakpoints_take_no_time() {
    let mut code = Code::new();
    code.set(1, 0x8000).set(2, 100);
    let again = code.here();
    code.store(2, 1, 0).load(3, 1, 0).asm("subs r2, r2, #1").branch_not_equal(again);
    code.asm("add r4, pc, #1").asm("bx r4").thumb("mov r2, #9; sub r2, #1; bx pc; nop");
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.enable().set(2, 100);
    let again = code.here();
    code.store(2, 1, 0).load(3, 1, 0).asm("subs r2, r2, #1").branch_not_equal(again);
    code.set(0, 0).exit_with(0);
    for name in ["arm926ej-s", "at91rm9200", "ixp425"] {
        let everywhere: Vec<u32> = (0..64).map(|word| START + 4 * word).collect();
        let ways = [(false, None), (true, None), (false, Some(everywhere))];
        let [alone, stepped, stopped] = ways.map(|(steps, breakpoints): (_, Option<Vec<u32>>)| {
            let mut system = mmulab_arm::system::<VirtualCaches>(&machine(name, &[])).unwrap();
            system.load(&code.image());
            let breakpoints = breakpoints.unwrap_or_default();
            system.debugging.step = steps.then_some(0);
            system.debugging.breakpoints.clone_from(&breakpoints);
            let (mut host, mut stops) = (Transcript::default(), 0);
            let stop = loop {
                match system.run(&mut host, 1_000_000) {
                    Stop::Debugger => stops += 1,
                    other => break other,
                }
                if !breakpoints.is_empty() {
                    // As gdb goes on: by a step without breakpoints, then with them.
                    let debugging = &mut system.debugging;
                    debugging.step = debugging.step.is_none().then_some(0);
                    debugging.breakpoints.clear();
                    if debugging.step.is_none() {
                        debugging.breakpoints.clone_from(&breakpoints);
                    }
                }
            };
            assert_eq!(stop, Stop::Exit(0), "{name}");
            (system.instructions(), system.causes(), stops)
        });
        assert_eq!(alone.2, 0);
        assert!(stepped.2 > 800 && stopped.2 > 700, "{name}: {} {}", stepped.2, stopped.2);
        assert_eq!((&stepped.0, &stepped.1), (&alone.0, &alone.1), "{name}, step by step");
        assert_eq!((&stopped.0, &stopped.1), (&alone.0, &alone.1), "{name}, by breakpoints");
    }
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// What a command says comes as `O` and its text in hexadecimal (gdb's manual, E.2, qRcmd).
#[test]
fn empty_tlbs_are_said_to_be_empty() {
    let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
    let said = gdb.ask(&format!("qRcmd,{}", hexadecimal("tlb")));
    assert_eq!(said, format!("O{}", hexadecimal("no entries\n")));
    // The command's own end comes before what is asked next.
    assert_eq!(gdb.ask("c"), "OK");
    drop(gdb);
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(7)));
}

#[test]
fn the_last_word_of_physical_memory_is_the_last_that_is_shown() {
    let (mut gdb, served) = serve(ends_with_seven(), Transcript::default());
    for (asked, expected) in [
        ("physical ffffffff", "0xfffffffc: not in RAM\n"),
        (
            "physical 1g",
            "1g is wrong: monitor physical ADDRESS [WORDS], in hexadecimal, up to 400 words\n",
        ),
        (
            "physical 0 401",
            "401 is wrong: monitor physical ADDRESS [WORDS], in hexadecimal, up to 400 words\n",
        ),
        ("translate 1g", "1g is wrong: monitor translate ADDRESS, in hexadecimal\n"),
    ] {
        let said = gdb.ask(&format!("qRcmd,{}", hexadecimal(asked)));
        assert_eq!(said, format!("O{}", hexadecimal(expected)));
        assert_eq!(gdb.answer(), "OK", "{asked}");
    }
    drop(gdb);
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(7)));
}

#[test]
fn on_several_cores_a_command_says_of_which_it_tells() {
    let (mut gdb, served) = serve_on("2", ends_with_seven(), Transcript::default());
    assert_eq!(gdb.ask(&format!("qRcmd,{}", hexadecimal("core 1"))), "OK");
    let said = gdb.ask(&format!("qRcmd,{}", hexadecimal("tlb")));
    assert_eq!(said, format!("O{}", hexadecimal("core 1:\nno entries\n")));
    drop(gdb);
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(7)));
}

/// Small pages have a permission for each quarter (ARM DDI 0100, B3.3.3).
#[test]
fn a_permission_is_the_same_of_an_address_and_of_an_entry() {
    let mut code = Code::new();
    code.section(0, cached(0)).section(0x101, uncached(0x101));
    code.put(0x4008, 0x8001).put(0x8000, 0x97f2);
    code.enable().set(1, 0x20_0000).load(0, 1, 0).set(0, 0).exit_with(0);
    let Run { system, stop, .. } = run(&machine("sa1100", &[]), &code);
    assert_eq!(stop, Stop::Exit(0));
    let memory = &system.core(0).memory;
    let entries = memory.describe_tlbs().join("\n");
    assert!(
        entries.contains("4096 bytes, domain 0, permissions 3 3 3 1 of its quarters,"),
        "{entries}"
    );
    for (address, permission) in [(0x20_0000, 3), (0x20_0c00, 1)] {
        let shown = memory.describe_translation(&system.bus, address);
        assert!(shown.contains(&format!("domain 0, permission {permission},")), "{shown}");
    }
    let section = memory.describe_translation(&system.bus, 0);
    assert!(section.contains("domain 0, permission 3,"), "{section}");
    assert!(entries.contains("1048576 bytes, domain 0, permission 3,"), "{entries}");
}

#[test]
fn while_the_mmu_is_off_a_translation_is_not_that_of_the_tables() {
    let mut code = Code::new();
    code.set(0, 0).exit_with(0);
    let Run { system, .. } = run(&machine("sa1100", &[]), &code);
    let shown = system.core(0).memory.describe_translation(&system.bus, 0x1_0000);
    assert!(shown.contains("tables: not used, the MMU is off\n"), "{shown}");
}

/// A step onto an address that cannot be fetched from, and one from there to the vector.
#[test]
fn a_fetch_that_is_refused_is_a_step() {
    const NOWHERE: u32 = 0x30_0000;
    let mut code = Code::new();
    code.put(0xc, 0xe1a0_f004); // MOV PC, R4
    code.section(0, cached(0)).section(0x101, uncached(0x101)).enable().set(5, NOWHERE);
    let jump = code.here();
    code.asm("add r4, pc, #0").asm("bx r5");
    let handler = code.here();
    code.set(0, 0).exit_with(0);
    let mut system = mmulab_arm::system::<VirtualCaches>(&machine("arm926ej-s", &[])).unwrap();
    system.load(&code.image());
    system.debugging.step = Some(0);
    let mut stood = Vec::new();
    while system.run(&mut Transcript::default(), 1_000_000) == Stop::Debugger {
        stood.push(system.core(0).pc());
    }
    let jumped = stood.iter().position(|&pc| pc == jump).unwrap();
    assert_eq!(stood[jumped..jumped + 5], [jump, jump + 4, NOWHERE, 0xc, handler]);
}

/// Each core is a thread: it is found where it stands, stops by itself and steps alone.
#[test]
fn two_cores_are_two_threads() {
    const CORE_NUMBER: u32 = 0x38;
    let mut code = Code::new();
    code.set(9, LAB).set(1, 0x8000).load(0, 9, CORE_NUMBER);
    let store_at = code.here();
    code.store(0, 1, 0);
    let after = code.here();
    code.set(3, 1).word(0xeaff_fffd); // B after
    let (mut gdb, served) = serve_on("2", code, Transcript::default());
    gdb.ask("qSupported:swbreak+;hwbreak+;vContSupported+;xmlRegisters=arm");
    assert_eq!(gdb.ask("qfThreadInfo"), "m01,02");
    let register = |gdb: &mut Gdb, thread: u32, number: usize| {
        assert_eq!(gdb.ask(&format!("Hg{thread}")), "OK");
        let registers = gdb.ask("g");
        let hex = &registers[number * 8..(number + 1) * 8];
        u32::from_str_radix(hex, 16).unwrap().swap_bytes()
    };
    // Both come to the breakpoint, each in its turn.
    assert_eq!(gdb.ask(&format!("Z0,{store_at:x},4")), "OK");
    let stops = [gdb.ask("vCont;c"), gdb.go_on("Z0", store_at, "01")];
    assert!(stops[0].contains("thread:01") && stops[1].contains("thread:02"), "{stops:?}");
    assert_eq!([register(&mut gdb, 1, 0), register(&mut gdb, 2, 0)], [0, 1]);
    assert_eq!(register(&mut gdb, 2, 15), store_at);
    assert_eq!(gdb.ask(&format!("z0,{store_at:x},4")), "OK");
    // One steps, and the other stands still; an access is told of the core that made it.
    let other = register(&mut gdb, 1, 15);
    assert_eq!(gdb.ask("Z2,8000,4"), "OK");
    let stop = gdb.ask("vCont;s:2");
    assert!(stop.contains("thread:02") && stop.contains("watch:8000"), "{stop}");
    assert_eq!([register(&mut gdb, 1, 15), register(&mut gdb, 2, 15)], [other, after]);
    assert_eq!(gdb.ask("z2,8000,4"), "OK");
    for pc in [after, after + 4] {
        assert!(gdb.ask("vCont;s:2").contains("thread:02"));
        assert_eq!([register(&mut gdb, 1, 15), register(&mut gdb, 2, 15)], [other, pc]);
    }
    assert_eq!(gdb.ask("m8000,4"), "01000000");
    gdb.send("k");
    assert_eq!(served.join().unwrap(), Ok(Stop::Debugger));
}

/// One core stands at a breakpoint while another's access is told: the first is told when all go
/// on.
#[test]
fn a_core_at_a_breakpoint_is_told_after_the_watchpoint_of_another() {
    let mut code = Code::new();
    code.set(1, 0x8000).asm("mov r0, r0");
    let place = code.here();
    code.store(1, 1, 0).word(0xeaff_fffe); // B to itself
    let (mut gdb, served) = serve_on("2", code, Transcript::default());
    gdb.ask("qSupported:swbreak+;hwbreak+;vContSupported+;xmlRegisters=arm");
    assert_eq!(gdb.ask(&format!("Z0,{place:x},4")), "OK");
    assert_eq!(gdb.ask("Z2,8000,4"), "OK");
    let mut told = [false; 2];
    let mut stop = gdb.ask("vCont;c");
    loop {
        let core = usize::from(stop.contains("thread:02"));
        if stop.contains("watch:") {
            assert!(told[core], "core {core} passed the breakpoint untold: {stop}");
        } else {
            assert!(!told[core], "core {core} is told of one arrival twice: {stop}");
            told[core] = true;
        }
        if told == [true; 2] {
            break;
        }
        stop = match stop.contains("watch:") {
            true => gdb.ask("vCont;c"),
            false => gdb.go_on("Z0", place, if core == 0 { "01" } else { "02" }),
        };
    }
    gdb.send("k");
    assert_eq!(served.join().unwrap(), Ok(Stop::Debugger));
}

/// As gdb goes on: it takes the breakpoint away, lets the core that it was told of step, and puts
/// it back. The others may have come to it meanwhile, untold.
#[test]
fn cores_that_come_to_a_breakpoint_together_stop_one_after_the_other() {
    const CORES: usize = 4;
    let mut code = Code::new();
    code.asm("mov r0, r0").asm("mov r0, r0");
    let place = code.here();
    code.asm("mov r0, r0").word(0xeaff_fffe); // B to itself
    let (mut gdb, served) = serve_on("4", code, Transcript::default());
    gdb.ask("qSupported:swbreak+;hwbreak+;vContSupported+;xmlRegisters=arm");
    for kind in ["Z0", "Z1"] {
        // A jump to where the breakpoint is stops there, too.
        let registers = |gdb: &mut Gdb, thread: usize, pc: u32| {
            assert_eq!(gdb.ask(&format!("Hg{thread:02x}")), "OK");
            let mut all = gdb.ask("g");
            all.replace_range(15 * 8..16 * 8, &format!("{:08x}", pc.swap_bytes()));
            assert_eq!(gdb.ask(&format!("G{all}")), "OK");
        };
        (1..=CORES).for_each(|thread| registers(&mut gdb, thread, place));
        assert_eq!(gdb.ask(&format!("{kind},{place:x},4")), "OK");
        let mut stopped = Vec::new();
        let mut stop = gdb.ask("vCont;c");
        for _ in 0..CORES {
            let thread = stop.split_once("thread:").unwrap().1[..2].to_owned();
            stop = match stopped.len() < CORES - 1 {
                true => gdb.go_on(kind, place, &thread),
                false => String::new(),
            };
            stopped.push(thread);
        }
        stopped.sort();
        assert_eq!(stopped, ["01", "02", "03", "04"], "{kind}");
        assert_eq!(gdb.ask(&format!("{},{place:x},4", kind.to_lowercase())), "OK");
    }
    gdb.send("k");
    assert_eq!(served.join().unwrap(), Ok(Stop::Debugger));
}
