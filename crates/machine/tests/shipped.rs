//! The files in `machines/`: all parse, all say where each value comes from.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mmulab_machine::Machine;

fn shipped() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("machines/ exists")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 9, "machines/ holds {} files", files.len());
    files
}

#[test]
fn every_file_is_a_machine_and_bears_its_name() {
    for path in shipped() {
        let machine = Machine::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(path.file_stem().and_then(|stem| stem.to_str()), Some(machine.name()));
        assert!(!machine.title().is_empty());
    }
}

/// In a replay machine each value has a source of its own; a system machine's table may name one
/// for several values, which then stand in one paragraph with it.
#[test]
fn every_value_has_its_source_beside_it() {
    for path in shipped() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let shares = text.contains("kind = \"system\"");
        let mut paragraph_has_one = false;
        for (number, line) in text.lines().enumerate() {
            let source = line.split_once('#').map_or("", |(_, comment)| comment.trim());
            if line.trim().is_empty() {
                paragraph_has_one = false;
            }
            paragraph_has_one |= source.len() >= 4;
            let is_value = line.contains('=') && !line.trim_start().starts_with('#');
            let names_itself = ["kind", "name", "title", "cores"]
                .iter()
                .any(|key| line.starts_with(&format!("{key} =")));
            let has_one = source.len() >= 4 || (shares && paragraph_has_one);
            let place = format!("{}:{}", path.display(), number + 1);
            assert!(!is_value || names_itself || has_one, "{place}: no source: {line}");
        }
    }
}

#[test]
fn a_machine_survives_the_way_to_toml_and_back() {
    for path in shipped() {
        let machine = Machine::load(&path).expect("parses");
        let text = toml::to_string(&machine).expect("serialises");
        assert_eq!(Machine::parse(&text, "again").expect("parses"), machine);
    }
}

/// The dotted paths of the values whose comment says `guess`.
fn guessed_paths(text: &str) -> BTreeSet<String> {
    let mut table = String::new();
    let mut paths = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = format!("{name}.");
        }
        let Some((value, comment)) = line.split_once('#') else { continue };
        if let Some((key, _)) = value.split_once('=').filter(|_| comment.contains("guess")) {
            paths.insert(format!("{table}{}", key.trim()));
        }
    }
    paths
}

#[test]
fn every_guess_has_alternatives_and_nothing_else_has() {
    for path in shipped() {
        let machine = Machine::load(&path).expect("parses");
        let text = std::fs::read_to_string(&path).expect("readable");
        let listed: BTreeSet<String> =
            machine.guesses().iter().flat_map(|guess| guess.keys().cloned()).collect();
        assert_eq!(listed, guessed_paths(&text), "{}", path.display());
    }
}
