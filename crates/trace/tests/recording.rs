//! Real recordings. They need Valgrind and the recorder (`make recorder`); without either, the
//! tests say so and pass.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mmulab_trace::{
    AccessKind, Batch, Event, MmtReader, OpenOptions, RecordOptions, Source, Summary, Termination,
    TraceError, open, record, record_live,
};

fn tool_directory() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/valgrind");
    let ready = directory.join("mmulab-amd64-linux").is_file()
        && Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    if !ready {
        eprintln!("not tested: Valgrind or the recorder is not there");
    }
    ready.then_some(directory)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, program: &[&str]) -> Option<RecordOptions> {
        Some(RecordOptions {
            program: program[0].into(),
            args: program[1..].iter().map(|&arg| arg.into()).collect(),
            output: self.path("t.mmt"),
            tool_directory: tool_directory()?,
            ..RecordOptions::default()
        })
    }
}

fn finish(options: &RecordOptions) -> Summary {
    record(options, &mut |_| true).unwrap()
}

/// Executed instructions, each with its accesses.
type Executed = Vec<(u64, u8, Vec<(AccessKind, u64, u16)>)>;

fn executed(source: &mut dyn Source) -> Executed {
    let (mut batch, mut executed) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        let mut addresses = batch.addresses.iter();
        for &id in &batch.blocks {
            let block = &source.table().blocks()[id as usize];
            let mut accesses = block.accesses.iter().peekable();
            let mut address = block.address;
            for (index, &size) in block.instruction_sizes_bytes.iter().enumerate() {
                let mut own = Vec::new();
                while let Some(access) =
                    accesses.next_if(|access| usize::from(access.instruction) == index)
                {
                    own.push((access.kind, *addresses.next().unwrap(), access.size_bytes));
                }
                executed.push((address, size, own));
                address += u64::from(size);
            }
            assert!(accesses.next().is_none(), "accesses are ordered by instruction");
        }
    }
    executed
}

/// Compiles a C program; the recorder was built with the same compiler.
fn compile(folder: &Folder, source: &str) -> String {
    let (file, program) = (folder.path("program.c"), folder.path("program"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &file])
        .status()
        .expect("the C compiler");
    assert!(status.success());
    program.to_str().unwrap().into()
}

/// Runs this test binary again, as a process of its own that records `program` into `t.mmt`, and
/// its children.
fn recording_process(folder: &Folder, program: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recording::record_for_another_test", "--ignored"])
        .env("RECORD_PROGRAM", program)
        .env("RECORD_OUTPUT", folder.path("t.mmt"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "only run by other tests, in a process that they kill"]
fn record_for_another_test() {
    let program = std::env::var("RECORD_PROGRAM").unwrap();
    finish(&RecordOptions {
        program,
        output: std::env::var_os("RECORD_OUTPUT").unwrap().into(),
        follow_children: true,
        tool_directory: tool_directory().unwrap(),
        ..RecordOptions::default()
    });
}

/// Whether a process has `program` on its command line.
fn is_running(program: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().any(|entry| {
        let command = std::fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(program)
    })
}

fn wait_for_bytes(path: &Path, bytes: u64) {
    let start = Instant::now();
    while path.metadata().map_or(0, |file| file.len()) < bytes {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing is recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs until it is stopped, with accesses that are hard to predict.
const ENDLESS: &str = "
    unsigned table[1 << 20];
    int main(void) {
        for (unsigned i = 1;; i = i * 1664525 + 1013904223) table[i >> 12] += i;
    }";

/// Valgrind's own tracer sees the same instructions and the same accesses.
#[test]
fn lackey_agrees() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["/bin/true"]) else { return };
    // One folder for both tools: its name is in the program's environment, which the loader reads.
    let tools = folder.path("tools");
    std::fs::create_dir(&tools).unwrap();
    let installed = options.tool_directory.join("default.supp").canonicalize().unwrap();
    let installed = installed.parent().unwrap();
    for part in ["default.supp", "vgpreload_core-amd64-linux.so", "lackey-amd64-linux"] {
        symlink(installed.join(part), tools.join(part)).unwrap();
    }
    let recorder = options.tool_directory.canonicalize().unwrap().join("mmulab-amd64-linux");
    symlink(recorder, tools.join("mmulab-amd64-linux")).unwrap();

    finish(&RecordOptions { tool_directory: tools.clone(), ..options.clone() });
    let text = folder.path("lackey.txt");
    let status = Command::new("valgrind")
        .env("VALGRIND_LIB", tools.canonicalize().unwrap())
        .args(["--command-line-only=yes", "--tool=lackey", "--quiet", "--vgdb=no"])
        .args(["--trace-mem=yes", "--basic-counts=no", "--vex-guest-chase=no"])
        .arg(format!("--log-file={}", text.display()))
        .arg("/bin/true")
        .status()
        .unwrap();
    assert!(status.success());
    let ours = executed(&mut *open(&options.output).unwrap());
    let lackeys = executed(&mut *open(&text).unwrap());
    // The kernel gives each run random bytes, and the loader's use of them is seen at the end.
    let same = ours.iter().zip(&lackeys).filter(|(ours, lackeys)| ours == lackeys).count();
    assert!(lackeys.len() > 50_000, "{}", lackeys.len());
    assert!(ours.len().abs_diff(lackeys.len()) < 500, "{} {}", ours.len(), lackeys.len());
    assert!(same * 100 > lackeys.len() * 95, "{same} of {}", lackeys.len());
    let equal_at_start = ours.iter().zip(&lackeys).take_while(|(a, b)| a == b).count();
    assert!(equal_at_start > 20_000, "{equal_at_start}");
}

/// Names of all files that a recorded program had mapped.
fn mapped(trace: &Path) -> BTreeSet<String> {
    let mut reader = MmtReader::open(trace, &OpenOptions::default()).unwrap();
    let names = reader.all_events().unwrap().into_iter().filter_map(|event| match event {
        Event::Map { name, .. } => Some(name),
        _ => None,
    });
    names.collect()
}

/// Such as one that the dynamic linker splits or QEMU takes for options.
#[test]
fn the_recorders_folder_may_have_any_name() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["sh", "-c", "/bin/true; exit 5"]) else { return };
    let record_in = |name: &str, qemu: bool| {
        let tools = folder.path(name);
        std::fs::create_dir_all(&tools).unwrap();
        for file in std::fs::read_dir(&options.tool_directory).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), tools.join(file.file_name())).unwrap();
        }
        let tool_directory = tools.clone();
        let options =
            RecordOptions { tool_directory, qemu, follow_children: !qemu, ..options.clone() };
        let summary = finish(&options);
        assert_eq!((summary.termination, summary.messages), (Termination::Exited(5), vec![]));
        let tools = tools.canonicalize().unwrap();
        let without_folder = |name: String| name.replace(tools.to_str().unwrap(), "");
        let maps = |file| mapped(file).into_iter().map(without_folder).collect();
        summary.files.iter().map(|file| maps(file)).collect::<Vec<BTreeSet<_>>>()
    };
    let plain = record_in("plain", false);
    assert_eq!(plain.len(), 2);
    for maps in &plain {
        assert!(maps.contains("/vgpreload_core-amd64-linux.so"), "{maps:?}");
    }
    for name in ["a space", "a:colon", "a=b, c"] {
        assert_eq!(record_in(name, false), plain, "{name}");
    }
    if Command::new("qemu-x86_64").arg("--version").stdout(Stdio::null()).status().is_ok() {
        for name in ["a space", "a=b,,c, d"] {
            assert_eq!(record_in(name, true).len(), 1, "{name}");
        }
    }
}

#[test]
fn a_program_ends_as_without_recording() {
    let folder = Folder::new();
    for (script, termination) in [
        ("exit 7", Termination::Exited(7)),
        ("true", Termination::Exited(0)),
        ("kill -9 $$", Termination::Signalled(9)),
        ("kill -15 $$", Termination::Signalled(15)),
        ("kill -11 $$", Termination::Signalled(11)),
        ("exec sh -c 'exit 4'", Termination::Replaced(4)),
        ("exec /nonexistent", Termination::Exited(127)),
    ] {
        let Some(options) = folder.options(&["sh", "-c", script]) else { return };
        let summary = finish(&options);
        assert_eq!(summary.termination, termination, "{script}");
        let reader = MmtReader::open(&options.output, &OpenOptions::default()).unwrap();
        assert_eq!(reader.information().termination, Some(termination));
        assert_eq!(reader.information().totals, summary.totals);
        assert_eq!(reader.command(), ["sh", "-c", script]);
        assert!(summary.totals.instructions > 50_000);
    }
}

#[test]
fn special_instructions_make_the_accesses_that_they_make() {
    let folder = Folder::new();
    let program = compile(
        &folder,
        r#"
        #include <stdint.h>
        char from[64], to[64]; uint64_t word; float masked[8]; uint32_t mask[8] = {~0u, 0, ~0u};
        void start(void) { __asm__ volatile("" ::: "memory"); }
        int main(void) {
            char *s = from, *d = to; long n = 5;
            __asm__ volatile("nop; nop; nop; nop; rep movsb; nop; nop; nop"
                             : "+S"(s), "+D"(d), "+c"(n) :: "memory");
            __asm__ volatile("lock xaddq %%rax, %0; nop; nop; incq %0; nop; nop" : "+m"(word) :: "rax");
            if (__builtin_cpu_supports("avx"))
                __asm__ volatile("vmovups %1, %%ymm1; nop; nop; vmaskmovps %0, %%ymm1, %%ymm2"
                                 :: "m"(masked), "m"(mask) : "xmm1", "xmm2");
            return 0;
        }"#,
    );
    let Some(options) = folder.options(&[&program]) else { return };
    finish(&options);
    let executed = executed(&mut *open(&options.output).unwrap());
    // The program's own part: four instructions of one byte each, then the copy.
    let start = executed
        .windows(5)
        .position(|five| {
            five[..4].iter().all(|(_, size, accesses)| *size == 1 && accesses.is_empty())
                && five[4].1 == 2
                && five[4].2.len() == 2
        })
        .unwrap()
        + 4;
    let copy = &executed[start..start + 6];
    for (index, (_, _, accesses)) in copy.iter().enumerate() {
        let kinds: Vec<_> = accesses.iter().map(|access| (access.0, access.2)).collect();
        if index < 5 {
            assert_eq!(kinds, [(AccessKind::Load, 1), (AccessKind::Store, 1)], "byte {index}");
            assert_eq!(accesses[0].1, copy[0].2[0].1 + index as u64);
            assert_eq!(accesses[1].1, copy[0].2[1].1 + index as u64);
        } else {
            assert_eq!(kinds, [], "the end of the copy");
        }
    }
    let modifies: Vec<_> = executed[start..]
        .iter()
        .flat_map(|(_, _, accesses)| accesses)
        .filter(|(kind, _, size)| *kind == AccessKind::Modify && *size == 8)
        .take(2)
        .collect();
    assert_eq!(modifies[0].1, modifies[1].1, "the locked and the plain one");
    if std::fs::read_to_string("/proc/cpuinfo").unwrap().contains(" avx ") {
        let last_four_byte_loads: Vec<_> = executed[start..]
            .iter()
            .filter(|(_, _, accesses)| {
                accesses.len() == 2
                    && accesses
                        .iter()
                        .all(|(kind, _, size)| *kind == AccessKind::Load && *size == 4)
                    && accesses[0].1 + 8 == accesses[1].1
            })
            .collect();
        assert_eq!(last_four_byte_loads.len(), 1, "only the two elements that the mask has");
    }
}

#[test]
fn threads_and_mappings_are_events() {
    let folder = Folder::new();
    let program = compile(
        &folder,
        r"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <unistd.h>
        void *place = (void *)0x123450000000;
        void *work(void *p) { for (volatile int i = 0; i < 1000; i++); return p; }
        int main(void) {
            for (int i = 0; i < 3; i++) {
                pthread_t thread;
                pthread_create(&thread, 0, work, 0);
                pthread_join(thread, 0);
            }
            int prot = PROT_READ | PROT_WRITE;
            mmap(place, 0x5000, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            munmap(place, 0x2000);
            sbrk(0x10000);
            return 0;
        }",
    );
    let Some(options) = folder.options(&[&program]) else { return };
    finish(&options);
    let mut source = open(&options.output).unwrap();
    let (mut batch, mut events) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        events.extend(batch.events.drain(..).map(|(_, event)| event));
    }
    let threads: BTreeSet<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::Thread(number) => Some(*number),
            _ => None,
        })
        .collect();
    assert_eq!(threads, BTreeSet::from([1, 2, 3, 4]), "a number is not used again");
    let mapped = |wanted: &str, code: bool| {
        events.iter().any(|event| {
            matches!(event, Event::Map { name, executable, .. }
                if name.contains(wanted) && (*executable || !code))
        })
    };
    assert!(mapped("/program", true) && mapped("libc", true));
    assert!(mapped("[stack]", false) && mapped("[heap]", false));
    assert!(events.contains(&Event::Map {
        address: 0x1234_5000_0000,
        length_bytes: 0x5000,
        executable: false,
        name: String::new()
    }));
    assert!(events.contains(&Event::Unmap { address: 0x1234_5000_0000, length_bytes: 0x2000 }));
    let stack_first = events
        .iter()
        .position(|event| matches!(event, Event::Map { name, .. } if name == "[stack]"));
    let thread_first = events.iter().position(|event| matches!(event, Event::Thread(1)));
    assert!(stack_first < thread_first, "what is mapped is known before anything is executed");
}

#[test]
fn children_get_files_of_their_own() {
    let folder = Folder::new();
    // The first child forks a child itself; the second is replaced by another program.
    let script = "(/bin/true; :); /bin/echo -n; exit 3";
    let Some(options) = folder.options(&["sh", "-c", script]) else { return };
    let options = RecordOptions { follow_children: true, ..options };
    let summary = finish(&options);
    assert_eq!(summary.termination, Termination::Exited(3));
    let names: Vec<_> = summary
        .files
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["t.mmt", "t.1.mmt", "t.1.1.mmt", "t.2.mmt"]);
    for file in &summary.files {
        let mut source = open(file).unwrap();
        let (mut batch, mut blocks, mut replaced) = (Batch::default(), 0, false);
        while source.next_batch(&mut batch).unwrap() {
            blocks += batch.blocks.len();
            let everything = Event::Unmap { address: 0, length_bytes: u64::MAX };
            replaced |= batch.events.iter().any(|(_, event)| *event == everything);
        }
        assert!(blocks > 100, "{file:?}");
        let name = file.file_name().unwrap().to_str().unwrap();
        let command: &[&str] = match name {
            "t.1.1.mmt" => &["/bin/true"],
            "t.2.mmt" => &["/bin/echo", "-n"],
            _ => &["-c", script],
        };
        assert!(
            source
                .command()
                .ends_with(&command.iter().map(|&word| word.into()).collect::<Vec<String>>()),
            "{name}: {:?}",
            source.command()
        );
        assert_eq!(replaced, ["t.1.1.mmt", "t.2.mmt"].contains(&name), "{name}");
    }
    // Without being asked to, only the program itself is recorded, and its children still run.
    let output = folder.path("alone.mmt");
    let summary = finish(&RecordOptions { follow_children: false, output, ..options });
    assert_eq!((summary.termination, summary.files.len()), (Termination::Exited(3), 1));
}

#[test]
fn the_limit_that_a_child_reaches_is_its_own() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["sh", "-c", "seq 1 1000000 > /dev/null; exit 7"]) else {
        return;
    };
    let options =
        RecordOptions { follow_children: true, max_instructions: Some(2_000_000), ..options };
    let summary = finish(&options);
    assert_eq!(summary.termination, Termination::Exited(7));
    let child = MmtReader::open(&summary.files[1], &OpenOptions::default()).unwrap();
    assert_eq!(child.information().termination, Some(Termination::Limit));
}

#[test]
fn a_child_that_ends_in_the_block_in_which_it_reaches_the_limit_ended_by_itself() {
    let folder = Folder::new();
    // The child executes more than its parent, and always as much.
    let program = compile(
        &folder,
        "#include <sys/syscall.h>\n#include <sys/wait.h>\n#include <unistd.h>\n
         int main(void) {
             if (fork() == 0) {
                 for (volatile int i = 0; i < 1000000; i++) {}
                 __asm__ volatile(\"syscall\" : : \"a\"(SYS_exit_group), \"D\"(7));
             }
             return wait(0) < 0;
         }",
    );
    let Some(options) = folder.options(&[&program]) else { return };
    let child_with = |max_instructions| {
        let options = RecordOptions { follow_children: true, max_instructions, ..options.clone() };
        let summary = finish(&options);
        assert_eq!(summary.termination, Termination::Exited(0));
        let child = MmtReader::open(&summary.files[1], &OpenOptions::default()).unwrap();
        (child.information().termination, child.information().totals.instructions)
    };
    let (ended, length) = (Some(Termination::Exited(7)), child_with(None).1);
    assert_eq!(child_with(Some(length)), (ended, length));
    assert_eq!(child_with(Some(length - 1)), (ended, length));
    assert_eq!(child_with(Some(length / 2)).0, Some(Termination::Limit));
}

#[test]
fn the_end_of_each_child_is_known_and_nothing_of_an_earlier_recording_stays() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["sh", "-c", "(exit 7); sh -c 'kill -9 $$'; exit 0"])
    else {
        return;
    };
    let stale = ["t.1.mmt", "t.9.mmt", "t.9.1.mmt"].map(|name| folder.path(name));
    let others = ["t.notes.mmt", "t.1.txt", "tt.1.mmt", "t..mmt"].map(|name| folder.path(name));
    for file in stale.iter().chain(&others) {
        std::fs::write(file, "old").unwrap();
    }
    // Only a recording that makes such files takes their names.
    finish(&options);
    assert!(stale.iter().all(|file| file.exists()));
    let options = RecordOptions { follow_children: true, ..options };
    let refused = RecordOptions { tool_directory: folder.path("nowhere"), ..options.clone() };
    record(&refused, &mut |_| true).unwrap_err();
    assert!(stale.iter().all(|file| file.exists()));
    let summary = finish(&options);
    let termination = |file: &PathBuf| {
        let reader = MmtReader::open(file, &OpenOptions::default()).unwrap();
        reader.information().termination
    };
    let terminations: Vec<_> = summary.files.iter().map(termination).collect();
    let expected = [Termination::Exited(0), Termination::Exited(7), Termination::Unknown];
    assert_eq!(terminations, expected.map(Some));
    assert!(!stale[1].exists() && !stale[2].exists());
    assert!(others.iter().all(|file| file.exists()));
}

#[test]
fn a_limit_ends_the_recording() {
    let folder = Folder::new();
    let program = compile(&folder, ENDLESS);
    let Some(options) = folder.options(&[&program]) else { return };
    let limit = 3_000_000;
    let options = RecordOptions { max_instructions: Some(limit), ..options };
    let summary = finish(&options);
    assert_eq!(summary.termination, Termination::Limit);
    assert!((limit..limit + 200).contains(&summary.totals.instructions));
    // The same without a file.
    let mut live = record_live(&options).unwrap();
    let recorded = executed(&mut *open(&options.output).unwrap());
    let live_executed = executed(&mut live);
    assert_eq!(live.termination(), Some(Termination::Limit));
    // Another run of the same program: the kernel's random bytes may lead it a little elsewhere.
    let count = |executed: &Executed| {
        executed.iter().fold(BTreeMap::new(), |mut counts, (address, ..)| {
            *counts.entry(*address).or_insert(0u64) += 1;
            counts
        })
    };
    let (live_counts, counts) = (count(&live_executed), count(&recorded));
    let different: u64 = counts
        .iter()
        .map(|(address, &count)| live_counts.get(address).unwrap_or(&0).abs_diff(count))
        .sum();
    assert!(different < limit / 100, "{different}");
}

#[test]
fn a_callback_ends_the_recording() {
    let folder = Folder::new();
    let program = compile(&folder, ENDLESS);
    let Some(options) = folder.options(&[&program]) else { return };
    let summary = record(&options, &mut |instructions| instructions < 1_000_000).unwrap();
    assert_eq!(summary.termination, Termination::Interrupted);
    let reader = MmtReader::open(&options.output, &OpenOptions::default()).unwrap();
    assert!(reader.information().totals.instructions >= 1_000_000);
}

#[test]
fn an_interrupted_recording_is_complete() {
    let folder = Folder::new();
    let program = compile(&folder, ENDLESS);
    if tool_directory().is_none() {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let _ = std::fs::remove_file(folder.path("t.mmt"));
        let mut process = recording_process(&folder, &program);
        wait_for_bytes(&folder.path("t.mmt"), 1_000_000);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::kill(process.id() as i32, signal) }, 0);
        assert!(process.wait().unwrap().success());
        let reader = MmtReader::open(&folder.path("t.mmt"), &OpenOptions::default()).unwrap();
        assert_eq!(reader.information().termination, Some(Termination::Interrupted));
    }
}

#[test]
fn a_program_that_had_ended_when_its_child_was_interrupted_ended_by_itself() {
    let folder = Folder::new();
    let program = compile(
        &folder,
        "#include <unistd.h>\n
         unsigned table[1 << 20];
         int main(void) {
             int parent = getpid();
             if (fork()) return 7;
             while (getppid() == parent) usleep(1000);
             for (unsigned i = 1;; i = i * 1664525 + 1013904223) table[i >> 12] += i;
         }",
    );
    if tool_directory().is_none() {
        return;
    }
    let mut process = recording_process(&folder, &program);
    wait_for_bytes(&folder.path("t.1.mmt"), 1_000_000);
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(process.id() as i32, libc::SIGINT) }, 0);
    assert!(process.wait().unwrap().success());
    let termination = |name| {
        let file = MmtReader::open(&folder.path(name), &OpenOptions::default()).unwrap();
        file.information().termination
    };
    assert_eq!(termination("t.mmt"), Some(Termination::Exited(7)));
    assert_eq!(termination("t.1.mmt"), Some(Termination::Interrupted));
}

#[test]
fn a_killed_recording_is_incomplete_and_readable() {
    let folder = Folder::new();
    let program = compile(&folder, ENDLESS);
    if tool_directory().is_none() {
        return;
    }
    for bytes in [1, 1_000_000, 30_000_000] {
        let path = folder.path("t.mmt");
        let _ = std::fs::remove_file(&path);
        let mut process = recording_process(&folder, &program);
        wait_for_bytes(&path, bytes);
        process.kill().unwrap();
        process.wait().unwrap();
        let error = MmtReader::open(&path, &OpenOptions::default()).err().unwrap();
        assert!(matches!(error, TraceError::Incomplete { .. }), "{error}");
        let mut reader =
            MmtReader::open(&path, &OpenOptions { partial: true, ..OpenOptions::default() })
                .unwrap();
        let (mut batch, mut blocks) = (Batch::default(), 0);
        while reader.next_batch(&mut batch).unwrap() {
            blocks += batch.blocks.len() as u64;
        }
        assert_eq!(blocks, reader.information().totals.blocks);
        assert!(blocks > 0 || bytes < 30_000_000);
        assert!(!reader.information().is_complete() && reader.truncation().is_some());
        // Nobody reads any more: the program does not continue alone.
        let start = Instant::now();
        while is_running(&program) {
            assert!(start.elapsed() < Duration::from_secs(60), "the program still runs");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn what_cannot_be_recorded_is_refused_without_a_file() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["no-such-program-anywhere"]) else { return };
    let error = record(&options, &mut |_| true).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no program no-such-program-anywhere; give a path or a name in PATH"
    );
    let refusal = |name: &str, content: &[u8], mode: u32| {
        let file = folder.path(name);
        std::fs::write(&file, content).unwrap();
        let mut permissions = file.metadata().unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, mode);
        std::fs::set_permissions(&file, permissions).unwrap();
        let program = file.to_str().unwrap().to_owned();
        let error =
            record(&RecordOptions { program, ..options.clone() }, &mut |_| true).unwrap_err();
        assert!(!options.output.exists());
        error.to_string()
    };
    // The headers of programs for another processor and of 32 bits, as far as they are looked at.
    let sparc = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x2b\0";
    let error = refusal("sparc", sparc, 0o755);
    assert!(error.ends_with("programs of its instruction set are not recorded"), "{error}");
    let i386 = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0";
    if !options.tool_directory.join("mmulab-x86-linux").exists() {
        let error = refusal("i386", i386, 0o755);
        assert!(error.contains("install gcc-multilib and run `make recorder`"), "{error}");
    }
    let error = refusal("script", b"#! /no/such/shell -e\nexit\n", 0o755);
    assert!(error.contains("its interpreter /no/such/shell is not there"), "{error}");
    let error = refusal("setuid", b"#!/bin/sh\n", 0o4755);
    assert!(error.contains("it is set-user-ID"), "{error}");
    let error = refusal("plain", b"#!/bin/sh\n", 0o644);
    assert!(error.contains("it is not executable; chmod +x /"), "{error}");
    let a_folder = folder.path(".").to_str().unwrap().to_owned();
    let a_folder = RecordOptions { program: a_folder, ..options.clone() };
    let error = record(&a_folder, &mut |_| true).unwrap_err().to_string();
    assert!(error.ends_with("it is a directory; name a program in it"), "{error}");
    // What can only be found out by Valgrind.
    let mut broken = vec![0; 4096];
    broken[..20].copy_from_slice(sparc);
    broken[18] = 62;
    broken[20] = 1;
    broken[32] = 64;
    broken[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
    let error = refusal("broken", &broken, 0o755);
    assert!(error.contains("Valgrind could not begin"), "{error}");

    let elsewhere = RecordOptions {
        program: "true".into(),
        tool_directory: folder.path("nowhere"),
        ..options.clone()
    };
    let error = record(&elsewhere, &mut |_| true).unwrap_err();
    assert!(matches!(error, TraceError::NotInstalled { .. }));
    assert!(error.to_string().contains("make recorder"), "{error}");
    assert!(!options.output.exists());

    let unwritable =
        RecordOptions { program: "true".into(), output: folder.path("no-folder/t.mmt"), ..options };
    let error = record(&unwritable, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("no-folder/t.mmt"), "{error}");
}

#[test]
fn an_instruction_that_valgrind_does_not_know_is_named() {
    let folder = Folder::new();
    let source = folder.path("avx512.c");
    std::fs::write(&source, "int main() { __asm__(\".byte 0x62,0xf1,0x7d,0x48,0xef,0xc0\"); }\n")
        .unwrap();
    let program = folder.path("avx512");
    let compiled = Command::new("gcc").arg(&source).arg("-o").arg(&program).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return;
    }
    let Some(options) = folder.options(&[program.to_str().unwrap()]) else { return };
    let summary = finish(&options);
    assert_eq!(summary.termination, Termination::Signalled(libc::SIGILL));
    assert_eq!(summary.termination.exit_status(), Some(128 + libc::SIGILL));
    let named = "unhandled instruction bytes: 0x62 0xF1 0x7D 0x48 0xEF 0xC0";
    assert!(summary.messages.iter().any(|line| line.contains(named)), "{:?}", summary.messages);
    assert!(summary.messages.iter().all(|line| !line.contains("==") && !line.is_empty()));
}

#[test]
fn mappings_name_no_folder_of_the_recorder() {
    let folder = Folder::new();
    let Some(options) = folder.options(&["true"]) else { return };
    finish(&options);
    let names = mapped(&options.output);
    assert!(names.contains("[valgrind]"), "{names:?}");
    assert!(names.iter().all(|name| !name.contains("mmulab")), "{names:?}");
}
