//! Programs: where they are, and what runs them while they are recorded.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// As much of a script's first line as Linux looks at.
const START_BYTES: u64 = 256;
/// As many scripts may be each other's interpreter, in Linux.
const MAX_INTERPRETERS: usize = 5;
const SET_USER_OR_GROUP: u32 = 0o6000;
/// The recorders' files in the tool folder.
pub(super) const VALGRIND_TOOL: &str = "mmulab-amd64-linux";
const VALGRIND_TOOL_32: &str = "mmulab-x86-linux";
pub(super) const QEMU_PLUGIN: &str = "mmulab-qemu.so";

/// An instruction set whose programs can be recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InstructionSet {
    pub(super) name: &'static str,
    /// QEMU's name of it.
    pub(super) qemu_name: &'static str,
    /// EI_CLASS and e_machine (System V ABI, 4.1, and the supplements for each processor).
    elf: (u8, u16),
    /// Where Debian's cross compilers have the libraries of its programs.
    library_folders: &'static [&'static str],
    valgrind_tool: Option<&'static str>,
}

/// x86-64 is the first.
const INSTRUCTION_SETS: [InstructionSet; 5] = [
    InstructionSet {
        name: "x86-64",
        qemu_name: "x86_64",
        elf: (2, 62),
        library_folders: &[],
        valgrind_tool: Some(VALGRIND_TOOL),
    },
    InstructionSet {
        name: "x86",
        qemu_name: "i386",
        elf: (1, 3),
        library_folders: &["/usr/i686-linux-gnu"],
        valgrind_tool: Some(VALGRIND_TOOL_32),
    },
    InstructionSet {
        name: "AArch64",
        qemu_name: "aarch64",
        elf: (2, 183),
        library_folders: &["/usr/aarch64-linux-gnu"],
        valgrind_tool: None,
    },
    InstructionSet {
        name: "ARM",
        qemu_name: "arm",
        elf: (1, 40),
        library_folders: &["/usr/arm-linux-gnueabihf", "/usr/arm-linux-gnueabi"],
        valgrind_tool: None,
    },
    InstructionSet {
        name: "RISC-V",
        qemu_name: "riscv64",
        elf: (2, 243),
        library_folders: &["/usr/riscv64-linux-gnu"],
        valgrind_tool: None,
    },
];

/// What runs a program while it is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Runner {
    Valgrind,
    /// QEMU's user mode; where the program's libraries are, if not where it looks for them.
    Qemu {
        libraries: Option<PathBuf>,
    },
}

/// Where a program is, as a shell would find it.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// Why `find` finds nothing, where something of that name is in sight.
pub(super) fn why_no_program(name: &str) -> Option<String> {
    let path = Path::new(name);
    let file = path.metadata().ok()?;
    let written = if name.contains('/') { name.to_owned() } else { format!("./{name}") };
    Some(if file.is_dir() {
        "it is a directory; name a program in it".into()
    } else if !is_program(path) {
        format!("it is not executable; chmod +x {written}, or name what runs it before it")
    } else {
        format!("it is not in PATH; write {written}")
    })
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// What records a program, and its instruction set.
///
/// # Errors
/// Why it cannot be recorded, if that can be seen before it is started: Valgrind's own words come
/// late, or not at all.
pub(super) fn runner(
    program: &Path,
    tool_directory: &Path,
    qemu: bool,
) -> Result<(Runner, &'static InstructionSet), String> {
    let mut program = program.to_owned();
    for depth in 0..MAX_INTERPRETERS {
        if program.metadata().is_ok_and(|file| file.permissions().mode() & SET_USER_OR_GROUP != 0) {
            return Err("it is set-user-ID or set-group-ID; record a copy without that bit".into());
        }
        let start = start_of(&program).unwrap_or_default();
        if start.starts_with(b"\x7fELF") {
            let elf = start.get(4).copied().zip(number(&start, 18, 2));
            let set = INSTRUCTION_SETS
                .iter()
                .find(|set| elf == Some((set.elf.0, set.elf.1.into())))
                .ok_or("programs of its instruction set are not recorded")?;
            let for_valgrind = set.valgrind_tool.filter(|_| !qemu);
            if for_valgrind.is_some_and(|tool| tool_directory.join(tool).is_file()) {
                return Ok((Runner::Valgrind, set));
            }
            return match for_valgrind {
                Some(VALGRIND_TOOL_32) => Err("the recorder was built without its part for 32-bit \
                    programs; install gcc-multilib and run `make recorder`, or let QEMU record it (--qemu)"
                    .into()),
                Some(_) => Ok((Runner::Valgrind, set)),
                None if depth > 0 => Err(format!(
                    "it is a script, which QEMU does not run; record {} with the script as its argument",
                    program.display()
                )),
                None => libraries(&program, &start, set)
                    .map(|libraries| (Runner::Qemu { libraries }, set)),
            };
        }
        let Some(interpreter) = interpreter(&start) else { break };
        if !is_program(&interpreter) {
            return Err(format!(
                "its interpreter {} is not there; correct its first line",
                interpreter.display()
            ));
        }
        program = interpreter;
    }
    Ok((Runner::Valgrind, &INSTRUCTION_SETS[0]))
}

fn start_of(program: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(program)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// A little-endian number of some bytes at a place.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// The folder to which the dynamic linker that a program names belongs, if that is not the root.
///
/// # Errors
/// There is none with that file.
fn libraries(
    program: &Path,
    start: &[u8],
    set: &InstructionSet,
) -> Result<Option<PathBuf>, String> {
    let Some(linker) = dynamic_linker(program, start) else { return Ok(None) };
    let own = std::env::var_os("QEMU_LD_PREFIX").map(PathBuf::from);
    if own.is_some_and(|folder| folder.join(&linker).exists()) {
        return Ok(None);
    }
    let installed =
        set.library_folders.iter().map(Path::new).find(|folder| folder.join(&linker).exists());
    match installed {
        Some(folder) => Ok(Some(folder.to_owned())),
        None if Path::new("/").join(&linker).exists() => Ok(None),
        None => Err(format!(
            "its dynamic linker /{} is not there; set QEMU_LD_PREFIX to the folder that has the \
             libraries of its system",
            linker.display()
        )),
    }
}

/// What PT_INTERP of a program names, without the slash at its beginning (System V ABI, 5.1).
fn dynamic_linker(program: &Path, start: &[u8]) -> Option<PathBuf> {
    const PT_INTERP: u64 = 3;
    let is_64_bit = start.get(4) == Some(&2);
    // Of the header: e_phoff, e_phentsize, e_phnum; of each entry: p_offset, p_filesz.
    let (word, [table, size, count], [offset, length]) =
        if is_64_bit { (8, [32, 54, 56], [8, 32]) } else { (4, [28, 42, 44], [4, 16]) };
    let file = File::open(program).ok()?;
    let (table, size) = (number(start, table, word)?, number(start, size, 2)?);
    for entry in 0..number(start, count, 2)? {
        let mut bytes = [0; 56];
        let bytes = bytes.get_mut(..usize::try_from(size).ok()?)?;
        file.read_exact_at(bytes, table.checked_add(entry * size)?).ok()?;
        if number(bytes, 0, 4)? == PT_INTERP {
            let mut name = vec![0; number(bytes, length, word)?.min(4096) as usize];
            file.read_exact_at(&mut name, number(bytes, offset, word)?).ok()?;
            let name = name.split(|&byte| byte == 0).next()?;
            let name = name.strip_prefix(b"/").unwrap_or(name);
            return Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)));
        }
    }
    None
}

/// What the first line of a script names, if it is one.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    (!word.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}
