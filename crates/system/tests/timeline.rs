//! What is drawn for several cores; `crates/arm/tests/machines.rs` draws a run.

use mmulab_system::board::Mark;
use mmulab_system::timeline::Timeline;

#[test]
fn a_phase_ends_whichever_core_begins_the_next() {
    let name = format!("mmulab-phases-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut timeline = Timeline::create(&path, 1_000_000, 2).unwrap();
    for (at, core, phase) in [(100, 0, 1), (130, 1, 2), (190, 0, 3)] {
        timeline.mark(at, core, Mark::Phase(phase), &phase.to_string());
    }
    timeline.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let drawn: Vec<String> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| format!("{} {} {}", event["pid"], event["name"], event["args"]["cycles"]))
        .collect();
    assert_eq!(drawn, ["0 \"1\" 30", "1 \"2\" 60"]);
}
