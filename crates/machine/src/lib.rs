//! The typed description of a machine, as read from `machines/*.toml`.
//!
//! No hardware value has a default: a file says everything, or is refused. What a file may say is
//! written once, in the types; [`json_schema`] is derived from them, and [`schema`] checks a file
//! against it before the types are filled, so that a slip is reported with its line, its dotted
//! path and the nearest known word. Rules that a schema cannot express stand in each type's
//! `check`.

mod arm;
mod organisation;
mod parts;
mod replay;
mod schema;
mod system;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Value;

pub use arm::*;
pub use organisation::*;
pub use parts::*;
pub use replay::*;
pub use schema::json_schema;
pub use system::*;

/// More than any machine takes to describe: what is read of a file without an end.
const BYTES_MAX: u64 = 1 << 20;

/// A machine, by what drives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Machine {
    /// Driven by a recorded program.
    Replay(Box<ReplayMachine>),
    /// Driven by an ARM core that executes a kernel.
    System(Box<SystemMachine>),
}

/// Why a description is refused, in one line: the file, the location in it, what to do.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The file cannot be read.
    #[error("{name}: {error}")]
    Read {
        /// The file.
        name: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// The text is not TOML, or not a machine.
    #[error("{name}:{line}: {message}")]
    Text {
        /// The file.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, with the dotted path where there is one.
        message: String,
    },
    /// A value given from outside the file does not fit, or the whole file.
    #[error("{name}: {message}")]
    Set {
        /// The machine.
        name: String,
        /// What is wrong, with the dotted path where there is one.
        message: String,
    },
}

/// A rule that a description breaks.
#[derive(Debug)]
pub(crate) struct ConfigurationError {
    path: String,
    what: String,
}

impl ConfigurationError {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl std::fmt::Display for ConfigurationError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return write!(formatter, "{}", self.what);
        }
        write!(formatter, "{}: {}", self.path, self.what)
    }
}

impl Machine {
    /// Reads a machine file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or does not describe a machine.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let name = path.display().to_string();
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(length) if length as u64 == BYTES_MAX => {
                Err(MachineError::Set { name, message: "larger than any machine's file".into() })
            }
            Ok(_) => Self::parse(&text, &name),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(MachineError::Set { name, message: "not text, so no machine's file".into() })
            }
            Err(error) => Err(MachineError::Read { name, error }),
        }
    }

    /// Reads a machine from text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// It is not TOML, or does not describe a machine.
    pub fn parse(text: &str, name: &str) -> Result<Self, MachineError> {
        let table = text.parse::<toml::Table>().map_err(|error| MachineError::Text {
            name: name.into(),
            line: error.span().map_or(1, |span| schema::line_of_offset(text, span.start)),
            message: error.message().lines().collect::<Vec<_>>().join("; "),
        })?;
        let checked = Self::from_table(table).and_then(|machine| {
            machine.check_guesses()?;
            Ok(machine)
        });
        checked.map_err(|fault| MachineError::Text {
            name: name.into(),
            line: schema::line_of_path(text, &fault.path),
            message: fault.to_string(),
        })
    }

    /// Other values that are as likely as those which the file guesses.
    pub fn guesses(&self) -> &[Guess] {
        match self {
            Machine::Replay(machine) => &machine.guesses,
            Machine::System(machine) => &machine.guesses,
        }
    }

    /// Whether every alternative to a guess names a value of this machine and makes a machine.
    fn check_guesses(&self) -> Result<(), ConfigurationError> {
        for guess in self.guesses() {
            let Some((first, steps)) = guess.iter().map(|(path, list)| (path, list.len())).next()
            else {
                let what = "a table is empty; name a value and its alternatives";
                return Err(ConfigurationError::new("guesses", what));
            };
            let refuse = |path: &str, what: String| {
                Err(ConfigurationError::new(format!("guesses.{path}"), what))
            };
            if steps == 0 || guess.values().any(|alternatives| alternatives.len() != steps) {
                let what = "the lists of a table must have one length of at least 1";
                return refuse(first, what.into());
            }
            for step in 0..steps {
                let mut table = toml::Table::try_from(self)
                    .map_err(|error| ConfigurationError::new("", error.to_string()))?;
                table.remove("guesses");
                for (path, alternatives) in guess {
                    let value = Value::try_from(&alternatives[step])
                        .map_err(|error| ConfigurationError::new("", error.to_string()))?;
                    if self.get(path).as_ref() == Some(&value) {
                        return refuse(path, format!("{value} is the guess itself"));
                    }
                    if let Err(fault) = place(&mut table, path, &value.to_string()) {
                        return refuse(path, fault.to_string());
                    }
                }
                if let Err(fault) = Self::from_table(table) {
                    if guess.contains_key(&fault.path) {
                        return refuse(&fault.path, fault.what);
                    }
                    return refuse(first, fault.to_string());
                }
            }
            if let Some(path) = guess.keys().find(|path| self.get(path).is_none()) {
                return refuse(path, "this machine has no such value".into());
            }
        }
        Ok(())
    }

    /// Changes one value by its dotted path, as in `set("dtlb.entries", "64")`.
    ///
    /// The value is written as in the file, but a word needs no quotes, and a size may be written
    /// `64K`, `2M` or `1G`. The machine is unchanged when this fails.
    ///
    /// # Errors
    /// There is no such path, or the machine would break a rule.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), MachineError> {
        *self = self.with(&[(path, value)])?;
        Ok(())
    }

    /// The machine with several values changed at once, so that rules between them are checked only
    /// for the whole (a longer line together with a larger cache, say). What is given here is no
    /// guess any more.
    ///
    /// # Errors
    /// There is no such path, or the machine would break a rule.
    pub fn with(&self, changes: &[(&str, &str)]) -> Result<Self, MachineError> {
        self.changed(changes).map_err(|fault| {
            let paths = changes.iter().map(|(path, _)| *path);
            let near = paths
                .filter(|path| is_at_or_below(path, &fault.path))
                .find_map(|path| self.path_further_in(path));
            let message = match near {
                Some(near) => format!("{}: unknown key; did you mean \"{near}\"?", fault.path),
                None => fault.to_string(),
            };
            MachineError::Set { name: self.name().into(), message }
        })
    }

    fn changed(&self, changes: &[(&str, &str)]) -> Result<Self, ConfigurationError> {
        let mut table = toml::Table::try_from(self)
            .map_err(|error| ConfigurationError::new("", error.to_string()))?;
        for (path, text) in changes {
            place(&mut table, path, text)?;
        }
        // A table that is set has its values set.
        let is_set = |guessed: &str| changes.iter().any(|(path, _)| is_at_or_below(guessed, path));
        if let Some(Value::Array(guesses)) = table.get_mut("guesses") {
            let is_left = |guess: &toml::Table| !guess.keys().any(|guessed| is_set(guessed));
            guesses.retain(|guess| guess.as_table().is_some_and(is_left));
        }
        Self::from_table(table)
    }

    /// The path of a value of a table within the machine, where `path` lacks that table's own:
    /// `organisation.host.pages` for `host.pages`.
    fn path_further_in(&self, path: &str) -> Option<String> {
        fn within(table: &toml::Table, path: &str) -> Option<String> {
            table.iter().find_map(|(name, value)| {
                let inner = value.as_table()?;
                let rest = match value_at(inner, path) {
                    Some(_) => Some(path.to_owned()),
                    None => within(inner, path),
                };
                rest.map(|rest| format!("{name}.{rest}"))
            })
        }
        let table = toml::Table::try_from(self).ok()?;
        if value_at(&table, path).is_some() { None } else { within(&table, path) }
    }

    /// The value at a dotted path, as TOML; `None` where there is none.
    pub fn get(&self, path: &str) -> Option<Value> {
        let table = toml::Table::try_from(self).ok()?;
        value_at(&table, path).cloned()
    }

    /// The machine's name.
    pub fn name(&self) -> &str {
        match self {
            Machine::Replay(machine) => &machine.name,
            Machine::System(machine) => &machine.name,
        }
    }

    /// What it is, in one line.
    pub fn title(&self) -> &str {
        match self {
            Machine::Replay(machine) => &machine.title,
            Machine::System(machine) => &machine.title,
        }
    }

    fn from_table(table: toml::Table) -> Result<Self, ConfigurationError> {
        let value = Value::Table(table);
        schema::check(&value)?;
        let machine = Machine::deserialize(value)
            .map_err(|error| ConfigurationError::new("", error.message().to_owned()))?;
        match &machine {
            Machine::Replay(machine) => machine.check()?,
            Machine::System(machine) => machine.check()?,
        }
        Ok(machine)
    }
}

/// Whether a dotted path is `table`, or that of something in it.
fn is_at_or_below(path: &str, table: &str) -> bool {
    path.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn value_at<'a>(table: &'a toml::Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let value = table.get(first)?;
    rest.map_or(Some(value), |rest| value_at(value.as_table()?, rest))
}

/// Puts `text` at `path`; the tables on the way must exist, the last key need not.
fn place(table: &mut toml::Table, path: &str, text: &str) -> Result<(), ConfigurationError> {
    // It would be another path than that of a guess of the same value, which would stay.
    if path.starts_with('.') || path.contains("..") {
        let message = "a name is empty; write single dots, as in dtlb.entries";
        return Err(ConfigurationError::new(path, message));
    }
    let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut parent = table;
    let mut walked = String::new();
    for name in parents.split('.').filter(|name| !name.is_empty()) {
        let tables = parent.iter().filter(|(_, value)| value.is_table());
        let known: Vec<String> = tables.map(|(name, _)| name.clone()).collect();
        walked.push_str(if walked.is_empty() { "" } else { "." });
        walked.push_str(name);
        parent = match parent.get_mut(name) {
            Some(Value::Table(inner)) => inner,
            Some(_) => return Err(ConfigurationError::new(walked, "is a value, not a table")),
            None => {
                let nearest = schema::nearest(name, known.iter().map(String::as_str));
                let mend = if nearest.is_empty() {
                    "; if machines of its kind have one, add it in a copy of its file"
                } else {
                    &nearest
                };
                return Err(ConfigurationError::new(
                    walked,
                    format!("this machine has no such table{mend}"),
                ));
            }
        };
    }
    let is_integer = matches!(parent.get(key), Some(Value::Integer(_)));
    let value = match size_with_suffix(text) {
        Some(bytes) if is_integer => Value::Integer(bytes),
        _ => format!("value = {text}")
            .parse::<toml::Table>()
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(text.into())),
    };
    parent.insert(key.into(), value);
    Ok(())
}

/// `64K`, `2M`, `1G` in bytes.
pub(crate) fn size_with_suffix(text: &str) -> Option<i64> {
    let shift = match text.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u32>().ok().map(|number| i64::from(number) << shift)
}
