//! The JSON Schema of a machine file, and a check of a file against it that says what to do.
//!
//! Serde alone would refuse the same files, but inside tagged tables it forgets where it stands.
//! This check keeps the path, and from it the line.

use std::sync::OnceLock;

use serde_json::{Map, Value as Json};
use toml::{Value, de::DeTable, de::DeValue};

use crate::{ConfigurationError, Machine};

/// The JSON Schema of a machine file, for editors and other tools.
pub fn json_schema() -> &'static Json {
    static SCHEMA: OnceLock<Json> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut settings = schemars::generate::SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let mut schema = settings.into_generator().into_root_schema_for::<Machine>();
        schema.insert("title".into(), Json::String("mmulab machine".into()));
        schema.to_value()
    })
}

/// Whether `value` has the shape of a machine.
pub(crate) fn check(value: &Value) -> Result<(), ConfigurationError> {
    check_value(value, json_schema(), "")
}

fn check_value(value: &Value, schema: &Json, path: &str) -> Result<(), ConfigurationError> {
    if let Some(variants) = schema.get("oneOf").and_then(Json::as_array) {
        return check_one_of(value, variants, path);
    }
    if let Some(options) = schema.get("anyOf").and_then(Json::as_array) {
        return check_any_of(value, options, path);
    }
    if let Some(expected) = schema.get("const").and_then(Json::as_str) {
        return check_word(value, &[expected], path);
    }
    if let Some(words) = schema.get("enum").and_then(Json::as_array) {
        let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
        return check_word(value, &words, path);
    }
    match type_of(schema) {
        Some("object") => check_table(value, schema, path),
        Some("array") => {
            let Value::Array(items) = value else {
                // Given from outside the file, a list that is no TOML came as text.
                let is_unquoted = value.as_str().is_some_and(|text| text.starts_with('['));
                let wanted = if is_unquoted {
                    "a list whose words are in quotes, such as [\"4K\", \"2M\"]"
                } else {
                    "a list in brackets"
                };
                return Err(wrong_type(value, wanted, path));
            };
            let item_schema = schema.get("items").unwrap_or(&Json::Null);
            items.iter().try_for_each(|item| check_value(item, item_schema, path))
        }
        Some("integer") => check_integer(value, schema, path),
        Some("number") if !matches!(value, Value::Float(_) | Value::Integer(_)) => {
            Err(wrong_type(value, "a number", path))
        }
        Some("boolean") if !value.is_bool() => Err(wrong_type(value, "true or false", path)),
        Some("string") if !value.is_str() => Err(wrong_type(value, "text in quotes", path)),
        _ => Ok(()),
    }
}

/// The type a schema asks for; an optional one lists "null" too, which TOML cannot say.
fn type_of(schema: &Json) -> Option<&str> {
    match schema.get("type")? {
        Json::String(name) => Some(name),
        Json::Array(names) => names.iter().filter_map(Json::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

fn check_integer(value: &Value, schema: &Json, path: &str) -> Result<(), ConfigurationError> {
    let Value::Integer(number) = value else {
        if let Some(bytes) = value.as_str().and_then(crate::size_with_suffix) {
            return Err(wrong_type(value, &format!("{bytes}, as files have plain integers"), path));
        }
        let wanted = if path.ends_with("_bytes") {
            "an integer, or a size such as 64K or 1M"
        } else {
            "an integer"
        };
        return Err(wrong_type(value, wanted, path));
    };
    let minimum = match schema.get("format").and_then(Json::as_str) {
        Some("int64") => i128::from(i64::MIN),
        Some("int32") => i128::from(i32::MIN),
        _ => schema.get("minimum").and_then(Json::as_i64).map_or(0, i128::from),
    };
    let maximum = match schema.get("format").and_then(Json::as_str) {
        Some("uint8") => i128::from(u8::MAX),
        Some("uint16") => i128::from(u16::MAX),
        Some("uint32") => i128::from(u32::MAX),
        Some("int32") => i128::from(i32::MAX),
        _ => i128::from(i64::MAX),
    };
    let number = i128::from(*number);
    let problem = if number < minimum {
        format!("{number} is less than {minimum}")
    } else if number > maximum {
        format!("{number} is more than {maximum}")
    } else {
        return Ok(());
    };
    Err(ConfigurationError::new(path, problem))
}

fn check_word(value: &Value, words: &[&str], path: &str) -> Result<(), ConfigurationError> {
    let list = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    let Value::String(word) = value else {
        return Err(wrong_type(value, &format!("one of {list}"), path));
    };
    if words.contains(&word.as_str()) {
        return Ok(());
    }
    let nearest = nearest(word, words.iter().copied());
    Err(ConfigurationError::new(path, format!("unknown word \"{word}\"; known: {list}{nearest}")))
}

/// A choice: words, or tables that a `kind` tells apart.
fn check_one_of(value: &Value, variants: &[Json], path: &str) -> Result<(), ConfigurationError> {
    let words: Option<Vec<&str>> =
        variants.iter().map(|variant| variant.get("const").and_then(Json::as_str)).collect();
    if let Some(words) = words {
        return check_word(value, &words, path);
    }
    let Value::Table(table) = value else {
        return Err(wrong_type(value, "a table", path));
    };
    let kind_of = |variant: &Json| -> Option<String> {
        Some(variant.pointer("/properties/kind/const")?.as_str()?.to_owned())
    };
    let kinds: Vec<String> = variants.iter().filter_map(kind_of).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let kind_path = join(path, "kind");
    let Some(kind) = table.get("kind") else {
        return Err(ConfigurationError::new(
            path,
            format!("key \"kind\" is missing; it is one of {}", kinds.join(", ")),
        ));
    };
    check_word(kind, &kinds, &kind_path)?;
    variants
        .iter()
        .find(|variant| kind_of(variant).as_deref() == kind.as_str())
        .map_or(Ok(()), |variant| check_table(value, variant, path))
}

/// A value that may be absent (one option is null), or of several types.
fn check_any_of(value: &Value, options: &[Json], path: &str) -> Result<(), ConfigurationError> {
    let options: Vec<&Json> = options
        .iter()
        .filter(|option| type_of(option).is_some() || option.get("oneOf").is_some())
        .collect();
    if let [only] = options[..] {
        return check_value(value, only, path);
    }
    if options.iter().any(|option| check_value(value, option, path).is_ok()) {
        return Ok(());
    }
    let wanted: Vec<String> = options
        .iter()
        .map(|option| match option.get("const") {
            Some(word) => word.to_string(),
            None => match option.get("minimum").and_then(Json::as_i64) {
                Some(minimum) => format!("an integer of at least {minimum}"),
                None => format!("a value of type {}", type_of(option).unwrap_or("any")),
            },
        })
        .collect();
    Err(ConfigurationError::new(path, format!("{value} is not {}", wanted.join(" or "))))
}

fn check_table(value: &Value, schema: &Json, path: &str) -> Result<(), ConfigurationError> {
    let Value::Table(table) = value else {
        return Err(wrong_type(value, "a table", path));
    };
    let none = Map::new();
    let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&none);
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    for (key, inner) in table {
        let inner_path = join(path, key);
        match (properties.get(key), others) {
            (Some(inner_schema), _) => check_value(inner, inner_schema, &inner_path)?,
            (None, Some(inner_schema)) => check_value(inner, inner_schema, &inner_path)?,
            (None, None) => {
                let known = || properties.keys().map(String::as_str);
                let mut mend = inside(key, properties).unwrap_or_else(|| nearest(key, known()));
                if mend.is_empty() {
                    mend = format!("; known: {}", known().collect::<Vec<_>>().join(", "));
                }
                return Err(ConfigurationError::new(inner_path, format!("unknown key{mend}")));
            }
        }
    }
    let required = schema.get("required").and_then(Json::as_array);
    for key in required.into_iter().flatten().filter_map(Json::as_str) {
        if !table.contains_key(key) {
            return Err(ConfigurationError::new(path, format!("key \"{key}\" is missing")));
        }
    }
    Ok(())
}

fn wrong_type(value: &Value, wanted: &str, path: &str) -> ConfigurationError {
    let found = match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    };
    ConfigurationError::new(path, format!("expected {wanted}, found {found}"))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// "; did you mean ...?", where a table of these properties has a key of this name.
fn inside(key: &str, properties: &Map<String, Json>) -> Option<String> {
    let table = properties.iter().find_map(|(name, schema)| {
        schema.get("properties")?.as_object()?.contains_key(key).then_some(name)
    })?;
    Some(format!("; did you mean \"{table}.{key}\"?"))
}

/// "; did you mean ...?", or nothing where no known word is near. The beginning of a known word is
/// (`size` of `size_bytes`, 0.88), a short word whose letters stand somewhere in a long one is not
/// (0.7).
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map_or_else(String::new, |(_, candidate)| format!("; did you mean \"{candidate}\"?"))
}

/// Line (from 1) of a byte of the text.
pub(crate) fn line_of_offset(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// Line (from 1) of the deepest part of a dotted path that the text contains.
pub(crate) fn line_of_path(text: &str, path: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 1 };
    let mut table = root.get_ref();
    let mut offset = 0;
    let mut left = Some(path);
    while let Some(path) = left {
        let (key, rest) =
            path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == key) else {
            break;
        };
        offset = name.span().start;
        left = rest;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            // The keys in tables of guesses are whole paths.
            DeValue::Array(items) => {
                let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                let mut names = tables.flat_map(|table| table.iter().map(|(name, _)| name));
                if let Some(name) = names.find(|name| rest == Some(name.get_ref())) {
                    offset = name.span().start;
                }
                break;
            }
            _ => break,
        }
    }
    line_of_offset(text, offset)
}
