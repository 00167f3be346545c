//! An instruction set that the system crate does not know boots on it, with checker, debugger and
//! several cores.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use mmulab_system::bus::Bus;
use mmulab_system::checker::Kind;
use mmulab_system::memory::CoreMemory;
use mmulab_system::observer::{Load, Observer};
use mmulab_system::{Stop, System, Transcript, gdb};

use crate::toy::*;

/// The tables, and a page that holds data.
const TABLES: u32 = 0x8000;
const DATA: u32 = 0x2_0000;
const CODE_AND_DATA: u32 = VALID | WRITABLE | CACHED;

/// Descriptors: page 0 with the vector and page 1 with the code as they are, tables uncached, DATA
/// at virtual 0x40000.
fn tables() -> Vec<(u32, u32)> {
    vec![
        (TABLES, CODE_AND_DATA | GLOBAL),
        (TABLES + 4, START | CODE_AND_DATA | GLOBAL),
        (TABLES + 8 * 4, TABLES | VALID | WRITABLE | GLOBAL),
        (TABLES + 0x40 * 4, DATA | CODE_AND_DATA),
        // The handler of refused accesses: status 0x50 + fault status.
        (VECTOR, op(STATUS, 1, 0, 0, 0)),
        (VECTOR + 4, op(ADD, 1, 1, 0, 0x50)),
        (VECTOR + 8, op(EXIT, 1, 0, 0, 0)),
    ]
}

fn turn_on() -> Vec<u32> {
    let mut code = set(1, TABLES).to_vec();
    code.push(op(CONTROL, 1, 0, TABLE, 0));
    code.extend(set(1, 1));
    code.extend([op(CONTROL, 1, 0, ASID, 0), op(CONTROL, 1, 0, ON, 0)]);
    code
}

fn boot(code: &[u32], check: bool) -> (System<Toy>, Stop) {
    let mut system = System::<Toy>::new(&(), platform(1, 1000)).unwrap();
    system.load(&image(code, &tables()));
    if check {
        system.start_checking();
    }
    let stop = system.run(&mut Transcript::default(), 10_000);
    (system, stop)
}

#[test]
fn it_boots_translates_and_counts() {
    let mut code = turn_on();
    code.extend(set(2, 0x4_0000));
    code.extend(set(3, 42));
    code.extend([op(STORE, 3, 2, 0, 8), op(LOAD, 4, 2, 0, 8), op(EXIT, 4, 0, 0, 0)]);
    let (system, stop) = boot(&code, false);
    assert_eq!(stop, Stop::Exit(42));
    let outcome = system.outcome(stop, 0.0);
    assert_eq!(outcome.instructions, code.len() as u64);
    // Page 1 for code, page 0x40 for data; one line of data.
    assert_eq!((outcome.events.itlb_misses, outcome.events.dtlb_misses), (1, 1));
    assert_eq!(outcome.events.dcache_misses, 1);
    assert_eq!(outcome.causes.values().map(|cost| cost.cycles).sum::<u64>(), outcome.cycles);
    let spaces = serde_json::to_value(&outcome.spaces).unwrap();
    assert_eq!(spaces.as_array().unwrap().last().unwrap()["asid"], 1);
}

#[test]
fn a_refused_store_goes_to_the_vector() {
    let mut code = turn_on();
    code.extend(set(2, 0x9_0000));
    code.push(op(STORE, 2, 2, 0, 0));
    assert_eq!(boot(&code, false).1, Stop::Exit(0x52), "no translation");
}

/// Changes the descriptor of virtual page 0x40 from DATA to DATA + 0x1000 between two loads, with
/// an operation in between.
fn remap(operation: Option<u32>) -> Vec<u32> {
    let mut code = turn_on();
    code.extend(set(2, 0x4_0000));
    code.push(op(LOAD, 4, 2, 0, 0));
    code.extend(set(5, TABLES));
    code.extend(set(6, (DATA + 0x1000) | CODE_AND_DATA));
    code.push(op(STORE, 6, 5, 0, 0x40 * 4));
    if let Some(operation) = operation {
        let value = if operation == INVALIDATE_SPACE { 1 } else { 0x4_0000 };
        code.extend(set(7, value));
        code.push(op(OPERATE, 7, 0, operation, 0));
    }
    code.extend([op(LOAD, 4, 2, 0, 0), op(SET, 0, 0, 0, 0), op(EXIT, 0, 0, 0, 0)]);
    code
}

#[test]
fn the_checker_reports_a_stale_translation_in_its_words() {
    let (system, stop) = boot(&remap(None), true);
    assert_eq!(stop, Stop::Exit(0));
    let reports = system.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].kind, Kind::StaleTlbEntry);
    assert_eq!(reports[0].missing, "INVALIDATE_PAGE");
    assert!(reports[0].text.contains("space 1"), "{}", reports[0].text);
    for operation in [INVALIDATE_PAGE, INVALIDATE_SPACE] {
        let (system, stop) = boot(&remap(Some(operation)), true);
        assert_eq!((stop, system.reports().len()), (Stop::Exit(0), 0), "{operation}");
    }
    // Another space's entries are another's.
    assert_eq!(boot(&remap(Some(DRAIN)), true).0.reports().len(), 1);
}

#[test]
fn two_addresses_of_one_page_share_the_physically_tagged_line() {
    let mut code = turn_on();
    code.extend(set(5, TABLES));
    code.extend(set(6, DATA | CODE_AND_DATA));
    code.push(op(STORE, 6, 5, 0, 0x41 * 4));
    code.extend(set(2, 0x4_0000));
    code.extend(set(3, 0x4_1000));
    code.extend(set(4, 7));
    code.extend([op(STORE, 4, 2, 0, 4), op(LOAD, 1, 3, 0, 4), op(EXIT, 1, 0, 0, 0)]);
    let (system, stop) = boot(&code, true);
    assert_eq!((stop, system.reports().len()), (Stop::Exit(7), 0));
    assert_eq!(system.outcome(stop, 0.0).events.dcache_misses, 1);
}

/// Counts loads.
struct LoadCounter(std::sync::Arc<std::sync::atomic::AtomicU64>);

impl Observer<Toy> for LoadCounter {
    fn loaded(&mut self, _: &CoreMemory<Toy>, _: &Bus<Toy>, _: &Load) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn an_observer_of_ones_own_sees_every_load_and_changes_nothing() {
    let code = remap(Some(INVALIDATE_PAGE));
    let (plain, _) = boot(&code, false);
    let mut system = System::<Toy>::new(&(), platform(1, 1000)).unwrap();
    system.load(&image(&code, &tables()));
    let count = std::sync::Arc::default();
    system.attach(Box::new(LoadCounter(std::sync::Arc::clone(&count))));
    system.start_checking();
    system.run(&mut Transcript::default(), 10_000);
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert_eq!(system.cycles(), plain.cycles());
}

#[test]
fn the_debugger_shows_its_registers() {
    let mut code = turn_on();
    code.extend(set(4, 0x1234_5678));
    code.push(op(EXIT, 0, 0, 0, 0));
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let end = START + 4 * code.len() as u32 - 4;
    let served = std::thread::spawn(move || {
        let mut system = System::<Toy>::new(&(), platform(1, 1000)).unwrap();
        system.load(&image(&code, &tables()));
        gdb::serve(&mut system, &mut Transcript::default(), port, 10_000)
    });
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut ask = |text: &str| {
        let sum = text.bytes().fold(0_u8, u8::wrapping_add);
        stream.write_all(format!("${text}#{sum:02x}").as_bytes()).unwrap();
        let mut answer = String::new();
        while !answer.contains('$') || answer.as_bytes().iter().rev().nth(2) != Some(&b'#') {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(char::from(byte[0]));
        }
        stream.write_all(b"+").unwrap();
        // Run lengths: the last character again, as often as the one behind the star says.
        let mut pieces = answer.split('*');
        let mut plain = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (last, times) = (plain.pop().unwrap(), piece.as_bytes()[0] - 28);
            plain.extend(std::iter::repeat_n(last, times.into()));
            plain.push_str(&piece[1..]);
        }
        plain
    };
    ask("?");
    ask(&format!("Z0,{end:x},4"));
    ask("c");
    // Registers 0 to 15 and the program counter, low byte first.
    let registers = ask("g");
    assert!(registers.contains("78563412"), "{registers}");
    assert!(registers.contains(&format!("{:08x}", end.swap_bytes())), "{registers}");
    ask(&format!("z0,{end:x},4"));
    assert!(ask("c").contains("W00"));
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(0)));
}
