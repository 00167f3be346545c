//! Cores as their manuals say, the ledger, the loader's refusals, and runs that go wrong.

use mmulab_arm::{VirtualCaches, load};
use mmulab_hardware::{Cause as _, Random};
use mmulab_system::{Cause, File, Loaded, Request, Stop, Transcript};

use crate::support::{
    self, Code, MACHINES, START, asm, branch, cached, machine, run, run_limited, uncached,
};

#[test]
fn the_process_id_relocates_the_lowest_32_megabytes() {
    // The SA-1100 has 6 bits of it (278088-004, 5.2.10), the others 7.
    for (name, written, kept) in [
        ("sa1100", 0xffff_ffff, 0x7e00_0000),
        ("ixp425", 0xffff_ffff, 0xfe00_0000),
        ("at91rm9200", 0x8200_0001, 0x8200_0000),
        ("arm926ej-s", 0x0400_0000, 0x0400_0000),
    ] {
        let mut code = Code::new();
        code.section(0, uncached(0)).section(0x101, uncached(0x101));
        // The program's own megabyte and the next one, as the process sees them.
        code.section(kept >> 20, uncached(0)).section((kept >> 20) + 1, uncached(4));
        code.put(0x40_0000, 0x77).enable();
        code.set(1, written).system(1, 13, 0, 0).read_system(2, 13, 0, 0);
        code.set(3, 0x10_0000).load(4, 3, 0).set(0, 0).exit_with(0);
        let run = run(&machine(name, &[]), &code);
        assert_eq!((run.stop, run.register(2)), (Stop::Exit(0), kept), "{name}");
        assert_eq!(run.register(4), 0x77, "{name}");
    }
}

#[test]
fn operations_that_a_core_lacks_do_nothing_and_are_told() {
    let mut code = Code::new();
    code.system(0, 7, 14, 1).set(0, 0).exit_with(0); // clean and invalidate one line
    let lacking = run(&machine("sa1100", &[]), &code);
    assert_eq!(lacking.stop, Stop::Exit(0));
    assert!(lacking.outcome.notes[0].contains("p15, 0, c7, c14, 1"), "{:?}", lacking.outcome.notes);
    assert_eq!(run(&machine("arm926ej-s", &[]), &code).outcome.notes, [""; 0]);
}

#[test]
fn user_mode_has_no_system_registers() {
    let mut code = Code::new();
    code.put(4, asm("mov r0, #9")).asm("msr cpsr_c, #0x10").read_system(0, 1, 0, 0);
    let steps = code.words.len() as u64 + 1;
    let run = run_limited(&machine("arm926ej-s", &[]), &code.image(), false, steps);
    assert_eq!((run.register(0), run.system.core(0).mode()), (9, 0x1b));
}

/// A load with write-back from an address without translation, and the fault registers after it.
fn aborted(model: &str) -> (u32, u32, u32) {
    let mut code = Code::new();
    code.section(0, uncached(0)).section(0x101, uncached(0x101));
    // The data abort vector: read the fault registers and end.
    let handler = START + 0x400;
    code.put(0x10, branch(0x10, handler)).enable();
    code.set(1, 0x5000_0000).asm("ldr r0, [r1, #4]!");
    while code.here() < handler {
        code.asm("mov r0, r0");
    }
    code.read_system(2, 5, 0, 0).read_system(3, 6, 0, 0).set(0, 0).exit_with(0);
    let run = run(&machine("arm926ej-s", &[("core.abort_model", model)]), &code);
    assert_eq!(run.stop, Stop::Exit(0));
    (run.register(1), run.register(2), run.register(3))
}

#[test]
fn an_abort_leaves_the_base_as_the_core_does_and_says_where() {
    // Status 5: no section; the address that the load used.
    assert_eq!(aborted("base-restored"), (0x5000_0000, 0x5, 0x5000_0004));
    assert_eq!(aborted("base-updated"), (0x5000_0004, 0x5, 0x5000_0004));
}

#[test]
fn the_causes_sum_to_the_cycles_and_the_modes_and_spaces_too() {
    for name in MACHINES {
        let mut code = Code::new();
        code.section(0, cached(0)).section(0x101, uncached(0x101)).enable();
        code.set(1, 0x8000).set(2, 500).set(3, 0);
        code.asm("ldr r4, [r1], #32; add r3, r3, r4; str r3, [r1]");
        code.asm("subs r2, r2, #1; bne . - 16");
        code.put(support::LAB + 0x18, 5).system(0, 7, 10, 4).set(0, 0).exit_with(0);
        let run = run(&machine(name, &[]), &code);
        let outcome = &run.outcome;
        assert_eq!(run.stop, Stop::Exit(0), "{name}");
        let sum: u64 = outcome.causes.values().map(|cost| cost.cycles).sum();
        assert_eq!(sum, outcome.cycles, "{name}: causes");
        assert_eq!(outcome.modes.iter().map(|mode| mode.cycles).sum::<u64>(), sum, "{name}: modes");
        assert_eq!(outcome.spaces.iter().map(|one| one.cycles).sum::<u64>(), sum, "{name}: spaces");
        assert_eq!(outcome.phases.iter().map(|one| one.cycles).sum::<u64>(), sum, "{name}: phases");
        assert_eq!(
            outcome.phases.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["0", "5"]
        );
        assert_eq!(outcome.causes[Cause::Issue.name()].count, outcome.instructions, "{name}");
    }
}

#[test]
fn equal_runs_give_equal_outcomes_on_one_core_and_on_two() {
    for cores in ["1", "2"] {
        let mut code = Code::new();
        code.set(1, 0x20_0000).set(2, 20_000);
        code.asm("ldr r4, [r1], #32; subs r2, r2, #1; bne . - 8");
        code.set(0, 0).exit_with(0);
        let machine = machine("arm926ej-s", &[("cores", cores)]);
        let (first, second) = (run(&machine, &code), run(&machine, &code));
        assert_eq!(first.outcome, second.outcome);
        assert_eq!(first.stop, Stop::Exit(0));
    }
}

#[test]
fn waiting_without_a_timer_is_a_deadlock_and_with_one_it_is_idle_time() {
    let mut code = Code::new();
    code.system(0, 7, 0, 4);
    let stuck = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(stuck.stop, Stop::Deadlock);
    assert!(stuck.outcome.end.contains("nothing listens"), "{}", stuck.outcome.end);

    // The PL011's receive interrupt, which nobody can bring about any more.
    let mut code = Code::new();
    code.put(0x101f_1038, 1 << 4).put(0x1014_0010, 1 << 12).system(0, 7, 0, 4);
    let stuck = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(stuck.stop, Stop::Deadlock);
    assert!(stuck.outcome.end.contains("input is at its end"), "{}", stuck.outcome.end);

    // A timer that runs, whose interrupt the VIC does not let through.
    let mut code = Code::new();
    code.put(0x101e_2000, 1000).put(0x101e_2008, 0xe2).system(0, 7, 0, 4);
    let stuck = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(stuck.stop, Stop::Deadlock);
    let why = "no timer runs whose interrupt is enabled, ";
    assert!(stuck.outcome.end.contains(why), "{}", stuck.outcome.end);

    // SP804 at 1 MHz: 1,000 ticks, one shot, with interrupt; the VIC lets line 4 through.
    let mut code = Code::new();
    code.put(0x101e_2000, 1000).put(0x101e_2008, 0xa3).put(0x1014_0010, 1 << 4);
    code.system(0, 7, 0, 4).set(0, 0).exit_with(0);
    let woken = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(woken.stop, Stop::Exit(0));
    let idle = woken.outcome.causes["idle"].cycles;
    assert!((265_000..266_100).contains(&idle), "{idle}");
}

#[test]
fn a_lost_guest_is_told_where_it_lost_itself() {
    // A jump to where nothing is.
    let mut code = Code::new();
    code.set(1, 0x7000_0000).asm("mov pc, r1");
    let lost = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(lost.outcome.reason, "lost-fetch");
    assert!(lost.outcome.end.contains("0x70000000"), "{}", lost.outcome.end);
    // Garbage with no handler at the vector.
    let mut code = Code::new();
    code.asm("udf #0");
    let empty = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(empty.outcome.reason, "empty-vector");
    assert!(empty.outcome.end.contains("0x00010000"), "{}", empty.outcome.end);
    // A call that is no semihosting, and an interrupt: the SP804's, which the VIC lets through.
    let mut code = Code::new();
    code.asm("svc #0x123457");
    let call = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(call.outcome.reason, "empty-vector");
    assert!(
        call.outcome.end.contains("supervisor call at 0x00010000 went to the vector 0x00000008"),
        "{}",
        call.outcome.end
    );
    let mut code = Code::new();
    code.put(0x101e_2000, 100).put(0x101e_2008, 0xa3).put(0x1014_0010, 1 << 4);
    code.asm("msr cpsr_c, #0x53").asm("b .");
    let interrupt = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(interrupt.outcome.reason, "empty-vector", "{}", interrupt.outcome.end);
    assert!(interrupt.outcome.end.contains("irq at"), "{}", interrupt.outcome.end);
    // The same with an instruction that only later cores have: CLZ.
    let mut code = Code::new();
    code.asm("clz r0, r1");
    let lacking = run(&machine("at91rm9200", &[]), &code).outcome.end;
    assert!(lacking.ends_with("this core does not have CLZ (ARM DDI 0100I, A4.1.13)"), "{lacking}");
    assert!(!empty.outcome.end.contains("does not have"), "{}", empty.outcome.end);
    // Vectors that are not mapped: every fetch from there aborts again.
    let mut code = Code::new();
    code.put(0x4000 + 4 * 0x101, uncached(0x101)).section(1, uncached(0)).enable();
    let unmapped = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(unmapped.outcome.reason, "vector-loop");
    // A store to where nothing is continues, with a note.
    let mut code = Code::new();
    code.put(0x6000_0000, 1).set(0, 0).exit_with(0);
    let noted = run(&machine("arm926ej-s", &[]), &code);
    assert_eq!(noted.stop, Stop::Exit(0));
    assert!(noted.outcome.notes[0].contains("0x60000000"), "{:?}", noted.outcome.notes);
}

#[test]
fn the_guest_prints_and_ends_by_semihosting() {
    let mut code = Code::new();
    // SYS_WRITE0 of "ok", then SYS_EXIT_EXTENDED with status 5.
    code.put(0x8000, u32::from_le_bytes(*b"ok\0\0")).put(0x8010, 0x2_0026).put(0x8014, 5);
    code.set(0, 4).set(1, 0x8000).asm("svc #0x123456");
    code.set(0, 0x20).set(1, 0x8010).asm("svc #0x123456");
    let run = run(&machine("sa1100", &[]), &code);
    assert_eq!((run.stop, run.text.as_str()), (Stop::Exit(5), "ok"));
}

fn refusal(name: &str, bytes: &[u8], device_tree: Option<&[u8]>) -> String {
    let file = |bytes: &[u8]| File { name: name.into(), bytes: bytes.to_vec() };
    let request = Request {
        image: Some(file(bytes)),
        device_tree: device_tree.map(file),
        ..Request::default()
    };
    load(&request, 0..1 << 20).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn bad_images_are_refused_in_one_line() {
    assert!(refusal("a.elf", b"\x7fELF\x01\x01\x01", None).starts_with("a.elf: is a damaged ELF"));
    assert!(refusal("tiny", &[1, 2], None).contains("less than one instruction"));
    assert!(refusal("big", &vec![0; 2 << 20], None).contains("do not fit into 1048576 bytes"));
    assert!(refusal("tree", &[0; 64], Some(b"no tree")).contains("is not a device tree blob"));
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(refusal("host", &own, None).contains("32-bit ARM"), "a program of this computer");
}

/// The smallest device tree, made by hand: a root with a memory node.
fn small_tree() -> Vec<u8> {
    let mut structure: Vec<u8> = Vec::new();
    let mut word = |word: u32| structure.extend(word.to_be_bytes());
    for token in [1, 0, 1] {
        word(token);
    }
    structure.extend(b"memory\0\0");
    for token in [3_u32, 8, 0, 0, 0x100, 2, 2, 9] {
        structure.extend(token.to_be_bytes());
    }
    let strings = b"reg\0";
    let total = 40 + 16 + structure.len() + strings.len();
    let header = [
        0xd00d_feed,
        total as u32,
        56,
        56 + structure.len() as u32,
        40,
        17,
        16,
        0,
        strings.len() as u32,
        structure.len() as u32,
    ];
    let mut tree: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    tree.extend([0; 16]);
    tree.extend(structure);
    tree.extend(strings);
    tree
}

#[test]
fn a_device_tree_gets_the_command_line_and_the_size_of_memory() {
    let tree = small_tree();
    let patched =
        mmulab_system::device_tree::with_chosen(&tree, Some("quiet"), Some((16, 32)), 0..1 << 20)
            .unwrap();
    let has = |bytes: &[u8]| patched.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"chosen\0") && has(b"bootargs\0") && has(b"quiet\0"));
    assert!(has(&[0, 0, 0, 0, 0, 0x10, 0, 0]), "the memory node says 1 MB");
    assert!(has(b"linux,initrd-end\0"));
    assert!(
        mmulab_system::device_tree::with_chosen(&tree[..60], None, None, 0..1 << 20)
            .unwrap_err()
            .contains("cut off")
    );
}

#[test]
fn device_tree_and_ram_disk_lie_where_linux_reads_them() {
    // Documentation/arch/arm/booting.rst, 4b and 5: in memory that the kernel maps at all times,
    // which on a machine of 1 GB is not all.
    let file = |bytes: Vec<u8>| File { name: "file".into(), bytes };
    let request = Request {
        image: Some(file(vec![0; 64])),
        initrd: Some(file(vec![0; 5000])),
        device_tree: Some(file(small_tree())),
        ..Request::default()
    };
    for (megabytes, end) in [(256, 0x5000_0000), (760, 0x6f80_0000), (1024, 0x6f80_0000)] {
        let loaded = load(&request, 0x4000_0000..0x4000_0000 + (megabytes << 20)).unwrap();
        let (initrd, bytes) = &loaded.segments[1];
        assert_eq!((*initrd, bytes.len()), (end - 0x2000, 5000), "{megabytes} MB");
        assert_eq!(loaded.device_tree, Some(end - 0x3000), "{megabytes} MB");
    }
}

#[test]
fn a_ram_disk_where_a_kernel_unpacks_itself_is_refused() {
    let mut image = vec![0; 4096];
    let mut put = |offset: usize, words: &[u32]| {
        for (index, word) in words.iter().enumerate() {
            image[offset + 4 * index..][..4].copy_from_slice(&word.to_le_bytes());
        }
    };
    put(0x24, &[0x016f_2818, 0, 4096, 0x0403_0201, 0x4545_4545, 0x80]);
    // 2 MB behind 32 KB; then the packed kernel and 64 KB, which are more than the zeros.
    put(0x80, &[6, 0x5a53_4c4b, 0xffc, 0x100, 0x8000, 0x1_0000]);
    put(0xffc, &[2 << 20]);
    let unpacked_end = 0x4000_0000 + 0x8000 + (2 << 20) + 4096 + 0x1_0000;
    let end = 0x4040_0000;
    let with_ram_disk = |image: &[u8], length: u32, end: u32| {
        let file = |bytes: Vec<u8>| File { name: "file".into(), bytes };
        let request = Request {
            image: Some(file(image.to_vec())),
            initrd: Some(file(vec![0; length as usize])),
            device_tree: Some(file(small_tree())),
            ..Request::default()
        };
        load(&request, 0x4000_0000..end)
    };
    // The device tree takes a page.
    assert!(with_ram_disk(&image, end - unpacked_end - 4096, end).is_ok());
    let refused = with_ram_disk(&image, end - unpacked_end + 1, end).unwrap_err().to_string();
    let said = "do not fit between the image's end, unpacked, at 0x40219000 and 0x40400000: the \
                machine has too little memory (memory.size_bytes)";
    assert!(refused.ends_with(said), "{refused}");
    // On a machine of 1 GB, more memory would not help.
    let refused = with_ram_disk(&image, 760 << 20, 0x8000_0000).unwrap_err().to_string();
    assert!(refused.ends_with(": a kernel reads none that lies further up"), "{refused}");
    // What says nothing, or nonsense, is taken as it is.
    for (offset, word) in [(0x34, 0), (0x38, u32::MAX), (0x80, 5), (0x84, 1), (0x88, u32::MAX)] {
        let mut image = image.clone();
        image[offset..offset + 4].copy_from_slice(&u32::to_le_bytes(word));
        assert!(with_ram_disk(&image, end - unpacked_end + 1, end).is_ok(), "{offset:#x}");
    }
}

#[test]
fn a_timeline_is_json_with_the_guests_own_events() {
    let directory = std::env::temp_dir().join(format!("mmulab-timeline-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("timeline.json");
    let machine = machine("arm926ej-s", &[]);
    let mut code = Code::new();
    code.section(0, support::cached(0)).section(0x101, support::uncached(0x101)).enable();
    code.put(support::LAB + 0x18, 3).put(support::LAB + 0x20, 7).system(0, 8, 7, 0);
    // To FIQ mode, three instructions and the one that returns.
    code.asm("msr cpsr_c, #0xd1").set(1, 1).set(1, 2).set(1, 3).asm("msr cpsr_c, #0xd3");
    code.set(0, 0).exit_with(0);
    let mut system = mmulab_arm::system::<VirtualCaches>(&machine).unwrap();
    let clock_hz = machine.core.clock_hz;
    let create = || mmulab_system::timeline::Timeline::create(&path, clock_hz, 1).unwrap();
    system.start_timeline(create());
    // Another one into the same file ends first.
    create().finish().unwrap();
    system.load(&code.image());
    assert_eq!(system.run(&mut Transcript::default(), 1000), Stop::Exit(0));
    system.finish_timeline().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let names: Vec<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert!(names.contains(&"event 7") && names.contains(&"TLB flush") && names.contains(&"3"));
    let fiq = events.iter().find(|event| event["name"] == "fiq" && event["ph"] == "X").unwrap();
    assert_eq!(fiq["args"]["instructions"], 4);
    // The rows of modes and address spaces have no gap, from the first cycle to the last.
    let sum = |row: u64, what: &str| -> u64 {
        let slices = events.iter().filter(|event| event["tid"] == row && event["ph"] == "X");
        slices.map(|event| event["args"][what].as_u64().unwrap()).sum()
    };
    let total = (system.cycles(), system.instructions());
    assert_eq!((sum(2, "cycles"), sum(2, "instructions")), total);
    assert_eq!(sum(1, "cycles"), total.0);
    let counted = |name: &str| -> u64 {
        let points = events.iter().filter(|event| event["ph"] == "C");
        points.map(|event| event["args"][name].as_u64().unwrap()).sum()
    };
    let counters = &system.cores().next().unwrap().memory.statistics.counters;
    assert!(counters.icache_misses > 0);
    assert_eq!(counted("icache"), counters.icache_misses);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "only the timeline is left");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn garbage_never_breaks_the_simulator() {
    for (number, name) in MACHINES.into_iter().enumerate() {
        let machine = machine(name, &[("memory.size_bytes", "1M")]);
        let mut random = mmulab_hardware::Random::new(number as u64);
        for round in 0..150 {
            let mut code = Code::new();
            // Handlers that step over whatever happened, random tables, registers and code; every
            // second round with the MMU on.
            for vector in [4, 8, 0xc, 0x10] {
                code.put(
                    vector,
                    if vector < 0xc { asm("movs pc, lr") } else { asm("subs pc, lr, #4") },
                );
            }
            for megabyte in 0..8 {
                code.section(megabyte, random.next_u64() as u32);
            }
            code.section(0, cached(0));
            if round % 2 == 0 {
                code.enable();
            }
            for register in 0..15 {
                code.set(register, random.next_u64() as u32 & 0x81ff_ffff);
            }
            for _ in 0..400 {
                let word = random.next_u64() as u32;
                // Every eighth is a coprocessor operation.
                code.word(if word & 7 == 0 { word & 0x00ff_f0ff | 0xee00_0f10 } else { word });
            }
            let run = run_limited(&machine, &code.image(), round % 3 == 0, 20_000);
            let causes: u64 = run.outcome.causes.values().map(|cost| cost.cycles).sum();
            assert_eq!(causes, run.outcome.cycles, "{name}, round {round}");
        }
    }
}

/// Words that make much happen: operations of the system control coprocessor, loads and stores of
/// all kinds, changes of mode, and anything else.
fn wild_word(random: &mut Random) -> u32 {
    let word = random.next_u64() as u32 & 0x0fff_ffff | 0xe000_0000;
    match random.below(8) {
        0 | 1 => word & 0x000f_f0ef | 0xee00_0f10, // MCR p15
        2 => word & 0x000f_f0ef | 0xee10_0f10,     // MRC p15
        3 => word & 0x03ff_ffff | 0xe400_0000,     // LDR, STR
        4 => word & 0x01ff_ffff | 0xe800_0000,     // LDM, STM
        5 => word & 0x0040_f00f | 0xe129_f000,     // MSR
        _ => word,
    }
}

#[test]
fn wild_code_never_ends_in_a_panic() {
    for name in MACHINES {
        let machine = machine(name, &[("memory.size_bytes", "0x100000")]);
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let bytes = (0..0x1_8000).flat_map(|_| wild_word(&mut random).to_le_bytes()).collect();
            let image = Loaded { segments: vec![(0, bytes)], entry: START, ..Loaded::default() };
            let run = run_limited(&machine, &image, seed % 2 == 0, 5_000);
            assert!(run.outcome.instructions <= 5_000, "{name}, {seed}");
        }
    }
}
