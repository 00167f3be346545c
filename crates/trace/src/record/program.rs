//! Programs: where they are, and why Valgrind could not run one.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// As much of a script's first line as Linux looks at.
const START_BYTES: u64 = 256;
/// As many scripts may be each other's interpreter, in Linux.
const MAX_INTERPRETERS: usize = 5;
const SET_USER_OR_GROUP: u32 = 0o6000;
/// EI_CLASS and e_machine of the programs that are recorded (System V ABI, supplements for AMD64 and
/// Intel386, 4.1).
const X86_64: (u8, [u8; 2]) = (2, [62, 0]);
const X86_32: (u8, [u8; 2]) = (1, [3, 0]);
/// The tools' files in the tool folder.
pub(super) const TOOL: &str = "mmulab-amd64-linux";
const TOOL_32: &str = "mmulab-x86-linux";

/// Where a program is, as a shell would find it.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Why a program cannot be recorded, if that can be seen before it is started: Valgrind's own words
/// come late, or not at all.
pub(super) fn obstacle(program: &Path, tool_directory: &Path) -> Option<String> {
    let mut program = program.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        if program.metadata().is_ok_and(|file| file.permissions().mode() & SET_USER_OR_GROUP != 0) {
            return Some(
                "it is set-user-ID or set-group-ID; record a copy without that bit".into(),
            );
        }
        let mut start = Vec::new();
        File::open(&program)
            .and_then(|file| file.take(START_BYTES).read_to_end(&mut start))
            .ok()?;
        if start.starts_with(b"\x7fELF") {
            let is = |(class, machine): (u8, [u8; 2])| {
                start.get(4) == Some(&class) && start.get(18..20) == Some(&machine)
            };
            if is(X86_64) || is(X86_32) && tool_directory.join(TOOL_32).is_file() {
                return None;
            }
            return Some(if is(X86_32) {
                "the recorder was built without its part for 32-bit programs; install \
                 gcc-multilib and run `make recorder`"
                    .into()
            } else {
                "it is no x86 program, and only those are recorded".into()
            });
        }
        let interpreter = interpreter(&start)?;
        if !is_program(&interpreter) {
            return Some(format!(
                "its interpreter {} is not there; correct its first line",
                interpreter.display()
            ));
        }
        program = interpreter;
    }
    None
}

/// What the first line of a script names, if it is one.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    (!word.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}
