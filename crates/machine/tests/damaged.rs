//! Files that are not quite machines: each gets one line with the location and what to do.

use mmulab_machine::{Machine, MachineError};

fn ultrix() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/ultrix.toml");
    std::fs::read_to_string(path).expect("ships")
}

/// The message for `ultrix.toml` with one piece of its text replaced.
fn message(from: &str, to: &str) -> String {
    let text = ultrix();
    assert!(text.contains(from), "{from:?} is not in ultrix.toml");
    let error = Machine::parse(&text.replacen(from, to, 1), "damaged.toml").expect_err("refused");
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// The line of `ultrix.toml` on which `piece` first stands.
fn line_of(piece: &str) -> usize {
    1 + ultrix().lines().position(|line| line.contains(piece)).expect("in the file")
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    assert_eq!(
        message("entries = 128", "entires = 128"),
        format!(
            "damaged.toml:{}: itlb.entires: unknown key; did you mean \"entries\"?",
            line_of("entries = 128")
        )
    );
    assert!(
        message("[dtlb]", "[dltb]").ends_with("dltb: unknown key; did you mean \"dtlb\"?"),
        "a table is a key too"
    );
    assert!(
        message("instructions = 10 ", "instruction = 10 ").contains(
            "organisation.user_handler.instruction: unknown key; did you mean \"instructions\"?"
        ),
        "inside a table that its kind tells apart"
    );
    assert!(
        message("[core]", "line_bytes = 32\n[core]").ends_with(".line_bytes\"?"),
        "a key of a table outside of it"
    );
}

#[test]
fn a_missing_key_is_named() {
    assert!(
        message("page_bytes = 4096", "").contains("organisation: key \"page_bytes\" is missing")
    );
    assert!(message("kind = \"replay\"", "").contains("key \"kind\" is missing"));
}

#[test]
fn a_wrong_word_or_type_is_answered_with_the_right_ones() {
    assert!(message("\"random\"", "\"randm\"").ends_with(
        "itlb.replacement: unknown word \"randm\"; known: \"random\", \"round-robin\", \"lru\", \
         \"plru\"; did you mean \"random\"?"
    ));
    assert!(
        message("kind = \"ultrix\"", "kind = \"vax\"")
            .contains("organisation.kind: unknown word \"vax\"")
    );
    assert!(
        message("entries = 128", "entries = \"many\"")
            .contains("itlb.entries: expected an integer, found \"many\"")
    );
    assert!(
        message("size_bytes = 65_536", "size_bytes = \"64K\"").contains(
            "l1i.size_bytes: expected 65536, as files have plain integers, found \"64K\""
        )
    );
    assert!(message("entries = 128", "entries = -1").contains("itlb.entries: -1 is less than 0"));
    assert!(message("ways = \"full\"", "ways = 0").contains("itlb.ways: 0 is not an integer of"));
    assert!(message("split = true", "split = 1").contains("l2.split: expected true or false"));
    for name in ["", "a\\u0007b", "a\\nb"] {
        let said = message("name = \"ultrix\"", &format!("name = \"{name}\""));
        assert!(said.ends_with("name: is empty or has a control character"), "{said}");
    }
}

#[test]
fn values_that_no_hardware_can_have_are_refused() {
    for (from, to, expected) in [
        ("line_bytes = 64", "line_bytes = 48", "l1i.line_bytes: 48 is not a power of two"),
        ("size_bytes = 65_536", "size_bytes = 65_537", "l1i.size_bytes: 65537 is not a multiple"),
        ("size_bytes = 65_536", "size_bytes = 0", "l1i.size_bytes: 0 is not a multiple"),
        ("ways = 1 ", "ways = 3 ", "l1i.ways: 3 does not divide"),
        ("entries = 128", "entries = 0", "itlb.entries: 0 is not between"),
        ("entries = 128", "entries = 16", "itlb.protected_entries: 16 leaves none of 16"),
        ("protected_entries = 16", "protected_entries = 0", "itlb.protected_entries: must be at"),
        ("split = true ", "#", "l2.split: is missing"),
        ("latency_cycles = 0", "latency_cycles = 1", "itlb.latency_cycles: 1 would have no effect"),
        (
            "latency_cycles = 0                  # table 2",
            "latency_cycles = 1 # table 2",
            "l1i.latency_cycles: 1 would have no effect",
        ),
        ("costs_cycles = [10, 50, 200]", "costs_cycles = []", "interrupts.costs_cycles: needs"),
        ("0x8000_1000", "0x8000_1004", "organisation.root_handler.base_address: 0x80001004"),
        ("0x8000_0000      #", "0x9000_0000 #", "organisation.user_space_bytes: 2415919104 is"),
        (
            "= 0x8000_0000          # guess",
            "= 0x7fff_f000 # guess",
            "organisation.user_handler.base_address: 0x7ffff000 is within the program's space, which ends at 0x80000000",
        ),
        (
            "0xc000_0000",
            "0x0040_0000",
            "organisation.user_table.base_address: 0x400000 is within the program's space",
        ),
        (
            "0xc000_0000",
            "0xc000_0002",
            "organisation.user_table.base_address: 0xc0000002 is not aligned on 4 bytes",
        ),
        (
            "0xc000_0000",
            "0xffe0_0004",
            "organisation.user_table.base_address: 0xffe00004 leaves no room for its 2097152 bytes below 0x100000000",
        ),
        (
            "0x8001_0000",
            "0x1_0000_0000",
            "organisation.root_table.base_address: 0x100000000 leaves",
        ),
        ("page_bytes = 4096", "page_bytes = 8192", "organisation.page_bytes: 8192 is not 4096"),
        ("[\"4K\"]", "[\"2M\"]", "itlb.page_sizes: must be [\"4K\"]"),
        ("per_cycle = 1", "per_cycle = 0", "core.instructions_per_cycle: must be at least 1"),
        (
            "latency_cycles = 500",
            "fragmentation_percent = 50\nlatency_cycles = 500",
            "memory.fragmentation_percent: is only for organisation radix",
        ),
        (
            "costs_cycles = [10, 50, 200]",
            "promotion_cycles = 9\ncosts_cycles = [10]",
            "interrupts.promotion_cycles: is only for organisation radix",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let message = message("entries = 128", "entries = = 128");
    assert!(
        message.starts_with(&format!("damaged.toml:{}: ", line_of("entries = 128"))),
        "{message}"
    );
    assert!(Machine::parse("", "empty.toml").is_err());
    assert!(Machine::parse("\u{0}\u{1}", "binary.toml").is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Machine::load(std::path::Path::new("/nowhere/at-all.toml")).expect_err("refused");
    assert!(matches!(error, MachineError::Read { .. }));
    assert!(error.to_string().starts_with("/nowhere/at-all.toml: "));
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/small.mmt");
    let error = Machine::load(std::path::Path::new(trace)).expect_err("refused");
    assert_eq!(error.to_string(), format!("{trace}: not text, so no machine's file"));
    let error = Machine::load(std::path::Path::new("/dev/zero")).expect_err("refused");
    assert_eq!(error.to_string(), "/dev/zero: larger than any machine's file");
}

#[test]
fn set_changes_one_value_or_nothing() {
    let mut machine = Machine::parse(&ultrix(), "ultrix.toml").expect("parses");
    let before = machine.clone();
    for (path, value, expected) in [
        ("dtlb.entires", "64", "dtlb.entires: unknown key; did you mean \"entries\"?"),
        ("l1d.size", "64K", "l1d.size: unknown key; did you mean \"size_bytes\"?"),
        (
            "victim.entries",
            "64",
            "victim: this machine has no such table; if machines of its kind have one, add it in a copy of its file",
        ),
        (
            "user_handler.instructions",
            "5",
            "user_handler: unknown key; did you mean \"organisation.user_handler.instructions\"?",
        ),
        ("page_bytes", "4K", "page_bytes: unknown key; did you mean \"organisation.page_bytes\"?"),
        ("dltb.entries", "64", "dltb: this machine has no such table; did you mean \"dtlb\"?"),
        ("dtlb.entries", "8", "dtlb.protected_entries: 16 leaves none of 8"),
        ("dtlb.entries.more", "8", "dtlb.entries: is a value, not a table"),
        ("dtlb..entries", "64", "dtlb..entries: a name is empty; write single dots"),
        (".dtlb.entries", "64", ".dtlb.entries: a name is empty; write single dots"),
        (
            "l1d.size_bytes",
            "64Q",
            "l1d.size_bytes: expected an integer, or a size such as 64K or 1M, found \"64Q\"",
        ),
        (
            "dtlb.page_sizes",
            "[4K]",
            "dtlb.page_sizes: expected a list whose words are in quotes, such as [\"4K\", \"2M\"], found \"[4K]\"",
        ),
        ("dtlb.page_sizes", "4K", "dtlb.page_sizes: expected a list in brackets, found \"4K\""),
    ] {
        let message = machine.set(path, value).expect_err("refused").to_string();
        assert_eq!(message.lines().count(), 1);
        assert!(message.starts_with("ultrix: ") && message.contains(expected), "{message}");
        assert_eq!(machine, before);
    }
    machine.set("dtlb.entries", "64").expect("fits");
    machine.set("l1d.size_bytes", "8K").expect("fits");
    machine.set("dtlb.replacement", "lru").expect("fits");
    machine.set("interrupts.copy_on_write_interval_instructions", "40_000").expect("optional");
    assert_eq!(machine.get("dtlb.entries"), Some(toml::Value::Integer(64)));
    assert_eq!(machine.get("l1d.size_bytes"), Some(toml::Value::Integer(8192)));
    let Machine::Replay(replay) = &machine else { panic!("kind changed") };
    assert_eq!(replay.interrupts.copy_on_write_interval_instructions, Some(40_000));
}

#[test]
fn a_key_that_is_like_no_other_is_told_which_there_are() {
    let mut machine = Machine::parse(&ultrix(), "ultrix.toml").expect("parses");
    for (path, known) in [
        ("memory.size", "fragmentation_percent, latency_cycles, placement"),
        (
            "organisation.walk_window_instructions",
            "kind, page_bytes, pte_bytes, root_handler, root_table, user_handler, user_space_bytes, user_table",
        ),
    ] {
        let error = machine.set(path, "224").expect_err("refused").to_string();
        assert_eq!(error, format!("ultrix: {path}: unknown key; known: {known}"));
    }
}

#[test]
fn a_first_level_has_no_latency() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/ixp425.toml");
    let machine = Machine::load(std::path::Path::new(path)).expect("ships");
    for cache in ["icache", "dcache", "mini_dcache"] {
        let key = format!("{cache}.latency_cycles");
        let error = machine.with(&[(&key, "1")]).expect_err("has no effect").to_string();
        assert!(error.contains(&format!("{key}: 1 would have no effect")), "{error}");
    }
}

/// Each table of each organisation may end where addresses do, and not behind that.
#[test]
fn the_tables_of_all_organisations_lie_within_32_bits() {
    for (name, tables) in [
        ("ultrix", &[("user_table", 0x20_0000), ("root_table", 0x800)][..]),
        ("notlb", &[("user_table", 0x20_0000), ("root_table", 0x800)]),
        (
            "mach",
            &[
                ("user_table", 0x20_0000),
                ("kernel_table", 0x40_0000),
                ("root_table", 0x1000),
                ("administrative_loads", 1280),
            ],
        ),
        ("intel", &[("user_table", 0x20_0000), ("root_table", 0x800)]),
        ("pa-risc", &[("hash_table", 0x1_0000), ("collision_table", 0x80_0000)]),
        ("inverted-hw", &[("hash_table", 0x1_0000), ("collision_table", 0x80_0000)]),
    ] {
        let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let mut machine = Machine::load(std::path::Path::new(&path)).expect("ships");
        if name == "mach" {
            // Out of the way of the others: it lies where addresses end.
            machine.set("organisation.kernel_table.base_address", "0x9000_0000").expect("is free");
        }
        for (table, bytes) in tables {
            let key = format!("organisation.{table}.base_address");
            let last = (1_u64 << 32) - bytes;
            assert!(machine.with(&[(&key, &last.to_string())]).is_ok(), "{name}: {table}");
            for wrong in [last + 16, 1 << 20] {
                let error = machine.with(&[(&key, &wrong.to_string())]).expect_err("refused");
                assert!(error.to_string().contains(&format!("{key}: {wrong:#x} ")), "{error}");
            }
        }
    }
}

/// A value that the core does not look at would be another machine with the same results.
#[test]
fn what_a_core_fixes_of_its_caches_cannot_be_changed() {
    let load = |name: &str| {
        let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        Machine::load(std::path::Path::new(&path)).expect("ships")
    };
    for (name, key, value, told) in [
        ("arm926ej-s", "icache.addressing", "physical", "this core has \"virtual\""),
        ("arm926ej-s", "dcache.addressing", "physical", "this core has \"virtual\""),
        ("arm926ej-s", "dcache.write_allocate", "true", "this core has false"),
        ("arm926ej-s", "dcache.split", "true", "this core has false"),
        ("arm926ej-s", "icache.write_policy", "write-through", "this core has \"write-back\""),
        ("sa1100", "dcache.write_policy", "write-through", "this core has \"write-back\""),
        ("ixp425", "dcache.write_policy", "write-through", "this core has \"write-back\""),
        ("ixp425", "mini_dcache.write_allocate", "true", "this core has false"),
        ("cortex-a7", "icache.addressing", "physical", "this core has \"virtual\""),
        ("cortex-a7", "dcache.addressing", "virtual", "this core has \"physical\""),
        ("cortex-a7", "dcache.write_allocate", "false", "this core has true"),
        ("cortex-a7", "level_2.write_policy", "write-through", "this core has \"write-back\""),
    ] {
        let error = load(name).with(&[(key, value)]).expect_err("has no effect").to_string();
        assert!(error.contains(&format!("{key}: ")) && error.ends_with(told), "{error}");
    }
    for (name, key, value) in [
        ("arm926ej-s", "dcache.write_policy", "write-through"),
        ("at91rm9200", "dcache.write_policy", "write-through"),
        ("ixp425", "dcache.write_allocate", "false"),
    ] {
        assert!(load(name).with(&[(key, value)]).is_ok(), "{name}: {key}");
    }
}

#[test]
fn a_window_of_walks_needs_walkers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/x86-64.toml");
    let machine = Machine::load(std::path::Path::new(path)).expect("ships");
    let window = ("organisation.walk_window_instructions", "224");
    for walkers in ["1", "2"] {
        assert!(machine.with(&[("organisation.walkers", walkers), window]).is_ok());
    }
    let error = machine.with(&[window]).expect_err("has no effect").to_string();
    assert!(
        error.ends_with("has no effect without organisation.walkers; set that, too"),
        "{error}"
    );
}

/// What a replay could not simulate, or would simulate as something else, is refused with the
/// description.
#[test]
fn shapes_that_a_replay_cannot_have_are_refused() {
    let load = |name: &str| {
        let path = format!("{}/../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        Machine::load(std::path::Path::new(&path)).expect("ships")
    };
    let message = |name: &str, changes: &[(&str, &str)]| {
        load(name).with(changes).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
    };
    for (name, changes, expected) in [
        (
            "x86-64",
            &[("stlb.entries", "65536"), ("stlb.ways", "full")][..],
            "stlb.ways: 65536 ways a set are more than 65535",
        ),
        ("x86-64", &[("stlb.entries", "65535"), ("stlb.ways", "full")], "accepted"),
        (
            "x86-64",
            &[("l3.ways", "full"), ("l3.replacement", "lru")],
            "l3.ways: 131072 ways a set are more than 65535",
        ),
        (
            "x86-64",
            &[("l2.size_bytes", "4G"), ("l2.line_bytes", "4")],
            "l2.size_bytes: 4294967296 makes more than 268435456 lines of 4 bytes",
        ),
        (
            "x86-64",
            &[("organisation.levels", "5"), ("organisation.index_bits", "13")],
            "organisation.levels: 5 of 13 index bits are more than 64-bit addresses have",
        ),
        ("x86-64", &[("organisation.levels", "4"), ("organisation.index_bits", "16")], "accepted"),
        (
            "x86-64",
            &[
                ("organisation.index_bits", "12"),
                (
                    "organisation.walk_cache_level_4",
                    "{ entries = 2, ways = 1, replacement = 'lru' }",
                ),
            ],
            "organisation.walk_cache_level_4: an entry of this level covers 2^48 bytes, more than 2^47; leave the table out",
        ),
        (
            "x86-64",
            &[("dtlb.page_sizes", "['2M']")],
            "dtlb.page_sizes: no array of this side holds pages of 2^12 bytes or a part of them",
        ),
        ("x86-64", &[("dtlb.page_sizes", "['2M']"), ("organisation.pages", "2M")], "accepted"),
        (
            "x86-64",
            &[
                ("dtlb.page_sizes", "['2M']"),
                ("organisation.pages", "2M"),
                ("organisation.host.pages", "4K"),
            ],
            "dtlb.page_sizes: no array of this side holds pages of 2^12 bytes or a part of them",
        ),
        (
            "pa-risc",
            &[("organisation.hash_table.entries", "8192")],
            "organisation.collision_table.base_address: 0x80110000 is too near: its 8388608 bytes overlap those of hash_table, which lie from 0x80100000 to 0x80120000",
        ),
        (
            "ultrix",
            &[("organisation.root_handler.base_address", "0xc000_1000")],
            "organisation.user_table.base_address: 0xc0000000 is too near: its 2097152 bytes overlap those of root_handler, which lie from 0xc0001000 to 0xc0001050",
        ),
        (
            "ultrix",
            &[
                ("organisation.root_handler.base_address", "0xc000_1000"),
                ("organisation.root_handler.instructions", "0"),
            ],
            "accepted",
        ),
        (
            "x86-64",
            &[("stlb.page_sizes", "['2M', '4K', '2M']")],
            "stlb.page_sizes: has a size of 2^21 bytes twice",
        ),
        (
            "x86-64",
            &[
                ("organisation.host.index_bits", "4"),
                ("organisation.host.guest_memory_bytes", "0x10_0000_0000"),
            ],
            "organisation.host.levels: 4 of 4 index bits translate 2^32 bytes, with 16 root tables side by side; guest_memory_bytes is 68719476736",
        ),
    ] {
        let message = message(name, changes);
        assert_eq!(message.strip_prefix(&format!("{name}: ")).unwrap_or(&message), expected);
    }
}

#[test]
fn rules_between_values_are_checked_after_all_changes() {
    let machine = Machine::parse(&ultrix(), "ultrix.toml").expect("parses");
    let smaller = machine.with(&[("dtlb.entries", "8"), ("dtlb.protected_entries", "2")]);
    assert!(smaller.is_ok());
}

/// Bytes changed, lost and doubled at places that a fixed generator chooses.
#[test]
fn mutilated_files_get_one_line_and_never_a_panic() {
    let original = ultrix().into_bytes();
    let mut state = 1998_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % bound
    };
    let mut refused = 0;
    for _ in 0..2_000 {
        let mut bytes = original.clone();
        for _ in 0..=below(3) {
            let place = below(bytes.len());
            match below(4) {
                0 => bytes[place] = below(128) as u8,
                1 => bytes.truncate(place + 1),
                2 => drop(bytes.remove(place)),
                _ => bytes.extend_from_within(place..),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = Machine::parse(&text, "mutilated.toml") {
            refused += 1;
            let message = error.to_string();
            assert_eq!(message.lines().count(), 1, "{message:?}");
            assert!(message.starts_with("mutilated.toml:"), "{message}");
        }
    }
    assert!(refused > 1_000, "only {refused} of 2000 refused");
}

/// The message for ultrix with one more table of guesses.
fn message_for_guess(guess: &str) -> String {
    let text = ultrix() + "\n[[guesses]]\n" + guess;
    Machine::parse(&text, "guessing.toml").expect_err("refused").to_string()
}

#[test]
fn guesses_that_say_nothing_are_refused() {
    for (guess, expected) in [
        ("", "guesses: a table is empty"),
        ("\"dtlb.entires\" = [64]", "guesses.dtlb.entires: unknown key; did you mean \"entries\"?"),
        ("\"dltb.entries\" = [64]", "guesses.dltb.entries: dltb: this machine has no such table"),
        (
            "\"memory.fragmentation_percent\" = [50]",
            "guesses.memory.fragmentation_percent: is only for organisation radix",
        ),
        (
            "\"interrupts.copy_on_write_interval_instructions\" = [50]",
            "guesses.interrupts.copy_on_write_interval_instructions: this machine has no such value",
        ),
        (
            "\"dtlb.entries\" = []",
            "guesses.dtlb.entries: the lists of a table must have one length",
        ),
        (
            "\"dtlb.entries\" = [64]\n\"itlb.entries\" = [32, 64]",
            "guesses.dtlb.entries: the lists of a table must have one length of at least 1",
        ),
        ("\"dtlb.entries\" = [128]", "guesses.dtlb.entries: 128 is the guess itself"),
        (
            "\"dtlb.entries\" = [3]",
            "guesses.dtlb.entries: dtlb.protected_entries: 16 leaves none of 3",
        ),
        ("\"dtlb.replacement\" = [\"rndom\"]", "guesses.dtlb.replacement: unknown word \"rndom\""),
        ("\"dtlb.entries\" = 64", "guesses.dtlb.entries: expected a list"),
    ] {
        let message = message_for_guess(guess);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_wrong_guess_is_told_with_its_own_line() {
    let wrong = "\"dtlb.entires\" = [64]\n\n[[guesses]]\n\"memory.latency_cycles\" = [9]";
    let text =
        format!("{}\n[[guesses]]\n\"l2.latency_cycles\" = [9]\n\n[[guesses]]\n{wrong}\n", ultrix());
    let line = 1 + text.lines().position(|line| line.contains("entires")).expect("is there");
    let message = Machine::parse(&text, "g.toml").expect_err("refused").to_string();
    assert!(message.starts_with(&format!("g.toml:{line}: guesses.dtlb.entires: ")), "{message}");
}

#[test]
fn a_value_that_is_set_is_no_guess_any_more() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/cortex-a55.toml");
    let machine = Machine::load(std::path::Path::new(path)).expect("parses");
    let guesses = |machine: &Machine| machine.guesses().len();
    let set = machine.with(&[("stlb.latency_cycles", "3")]).expect("fits");
    assert_eq!(guesses(&set), guesses(&machine) - 1);
    assert_eq!(
        guesses(&machine.with(&[("l2.line_bytes", "64")]).expect("fits")),
        guesses(&machine)
    );
}

/// A table that is set leaves no alternative to what is in it.
#[test]
fn the_values_of_a_table_that_is_set_are_no_guesses_any_more() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/golden-cove.toml");
    let machine = Machine::load(path.as_ref()).expect("ships");
    for (table, value) in [
        ("organisation.walk_cache_level_2", "{entries = 16, ways = 4, replacement = \"lru\"}"),
        ("memory", "{latency_cycles = 1, placement = \"random\"}"),
    ] {
        let set = machine.with(&[(table, value)]).expect("fits");
        let is_left = |path: &String| !path.starts_with(&format!("{table}."));
        let expected: Vec<_> =
            machine.guesses().iter().filter(|guess| guess.keys().all(is_left)).collect();
        assert!(expected.len() < machine.guesses().len(), "{table}");
        assert_eq!(set.guesses().iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn address_spaces_beyond_any_identifier_are_refused() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/x86-64.toml");
    let machine = Machine::load(path.as_ref()).expect("ships");
    let with = |count| machine.with(&[("organisation.address_spaces", count)]);
    for fits in ["1", "65536"] {
        with(fits).expect("fits");
    }
    for wrong in ["0", "65537", "4294967295"] {
        let message = with(wrong).expect_err("refused").to_string();
        let expected = format!("organisation.address_spaces: {wrong} is not between 1 and 65536");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn pages_that_no_level_of_the_tables_has_are_refused() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/x86-64.toml");
    let machine = Machine::load(path.as_ref()).expect("ships");
    for (table, pages, index_bits, shift) in [
        ("organisation", "2M", "10", 21),
        ("organisation", "on-fault", "8", 21),
        ("organisation", "1G", "10", 30),
        ("organisation.host", "1G", "10", 30),
    ] {
        let paths = [format!("{table}.pages"), format!("{table}.index_bits")];
        let changes = [(&*paths[0], pages), (&*paths[1], index_bits)];
        let message = machine.with(&changes).expect_err("refused").to_string();
        let expected = format!("{table}.pages: no level of {index_bits} index bits has pages of");
        assert!(message.contains(&format!("{expected} 2^{shift} bytes")), "{message}");
    }
    let nine = [("organisation.pages", "1G"), ("organisation.host.pages", "2M")];
    machine.with(&nine).expect("four levels of nine bits have these");
}
