//! The committed JSON Schema is the one that the types give.

use mmulab_machine::json_schema;

/// After a change of the types: `MMULAB_UPDATE=1 cargo test --release -p mmulab-machine`.
#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/machine.schema.json");
    let current =
        serde_json::to_string_pretty(json_schema()).expect("a schema is plain JSON") + "\n";
    if std::env::var_os("MMULAB_UPDATE").is_some() {
        std::fs::write(path, &current).expect("writable");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == current, "{path} is out of date; run the tests with MMULAB_UPDATE=1");
}

#[test]
fn the_schema_is_closed() {
    fn check(schema: &serde_json::Value, path: &str) {
        if schema.get("properties").is_some() {
            assert_eq!(schema.get("additionalProperties"), Some(&false.into()), "{path}");
        }
        match schema {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, inner)| check(inner, &format!("{path}/{key}")));
            }
            serde_json::Value::Array(items) => {
                items.iter().for_each(|inner| check(inner, &format!("{path}[]")));
            }
            _ => {}
        }
    }
    check(json_schema(), "");
}
