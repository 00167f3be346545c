//! The debugger's side, spoken to in gdb's remote protocol.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use mmulab_arm::{Stop, System, Transcript};
use support::{Code, START, machine};

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

    /// Sends a packet and gives the answer, which is acknowledged.
    fn ask(&mut self, text: &str) -> String {
        self.send(text);
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
}

#[test]
fn break_step_watch_and_look() {
    let mut code = Code::new();
    code.set(1, 0x8000).set(2, 0x55);
    let store_at = code.here();
    code.store(2, 1, 0);
    let after = code.here();
    code.set(0, 0).exit_with(0);
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let mut system = System::new(&machine("arm926ej-s", &[])).unwrap();
        system.load(&code.image());
        mmulab_arm::gdb::serve(&mut system, &mut Transcript::default(), port, 1_000_000)
    });
    let mut gdb = Gdb::connect(port);
    gdb.ask("qSupported:swbreak+;hwbreak+;xmlRegisters=arm");
    let pc = |gdb: &mut Gdb| {
        let registers = gdb.ask("g");
        let hex = &registers[15 * 8..16 * 8];
        u32::from_str_radix(hex, 16).unwrap().swap_bytes()
    };
    assert_eq!(pc(&mut gdb), START);
    assert_eq!(gdb.ask("s"), "S05");
    assert_eq!(pc(&mut gdb), START + 4);
    assert_eq!(gdb.ask(&format!("Z0,{store_at:x},4")), "OK");
    assert!(gdb.ask("c").starts_with('T'));
    assert_eq!(pc(&mut gdb), store_at);
    assert_eq!(gdb.ask(&format!("z0,{store_at:x},4")), "OK");
    assert_eq!(gdb.ask("Z2,8000,4"), "OK");
    assert!(gdb.ask("c").contains("watch"));
    assert_eq!(pc(&mut gdb), after);
    assert_eq!(gdb.ask("m8000,4"), "55000000");
    assert_eq!(gdb.ask("M8000,1:66"), "OK");
    assert_eq!(gdb.ask("m8000,4"), "66000000");
    assert_eq!(gdb.ask("z2,8000,4"), "OK");
    assert_eq!(gdb.ask("c"), "W00");
    assert_eq!(served.join().unwrap(), Ok(Stop::Exit(0)));
}
