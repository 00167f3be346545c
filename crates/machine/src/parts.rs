//! Parts that several kinds of machine have: caches and TLBs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::ConfigurationError;

/// A name is for people: in tables, plots and messages.
pub(crate) fn check_name(name: &str) -> Result<(), ConfigurationError> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(ConfigurationError::new("name", "is empty or has a control character"));
    }
    Ok(())
}

/// What a hit in the first level takes is part of what instructions take: no latency there has an
/// effect.
pub(crate) fn check_first_level_latency(path: &str, cycles: u32) -> Result<(), ConfigurationError> {
    if cycles == 0 {
        return Ok(());
    }
    Err(ConfigurationError::new(
        format!("{path}.latency_cycles"),
        format!(
            "{cycles} would have no effect: hits of the first level are part of issue; write 0"
        ),
    ))
}

/// A cache, or with `split = true` two equal ones, one a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Second and third level only: whether each side has a cache of this size of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<bool>,
    /// Capacity (of each side, when split).
    pub size_bytes: u64,
    /// Line length.
    pub line_bytes: u32,
    /// Lines a set; 1 is direct-mapped, "full" fully associative.
    pub ways: Ways,
    /// Which line of a set gives way.
    pub replacement: Replacement,
    /// Where stores go.
    pub write_policy: WritePolicy,
    /// Whether a store that misses brings in the line.
    pub write_allocate: bool,
    /// Which address indexes and tags it.
    pub addressing: Addressing,
    /// Cycles added by a reference that comes to this cache because the one above missed; 0 in the
    /// first level, whose hits are part of issue. A reference that continues to memory has paid
    /// this too.
    pub latency_cycles: u32,
}

impl Cache {
    /// Number of sets. A line's set is its number modulo this.
    pub fn sets(&self) -> u64 {
        let lines = self.size_bytes / u64::from(self.line_bytes);
        lines / self.ways.count(lines)
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), ConfigurationError> {
        let line_bytes = u64::from(self.line_bytes);
        if !self.line_bytes.is_power_of_two() || !(4..=4096).contains(&self.line_bytes) {
            return Err(ConfigurationError::new(
                format!("{path}.line_bytes"),
                format!("{} is not a power of two between 4 and 4096", self.line_bytes),
            ));
        }
        if self.size_bytes == 0
            || !self.size_bytes.is_multiple_of(line_bytes)
            || self.size_bytes > MAXIMUM_CACHE_BYTES
        {
            return Err(ConfigurationError::new(
                format!("{path}.size_bytes"),
                format!(
                    "{} is not a multiple of line_bytes ({line_bytes}) up to {MAXIMUM_CACHE_BYTES}",
                    self.size_bytes
                ),
            ));
        }
        let lines = self.size_bytes / line_bytes;
        if lines > MAXIMUM_LINES {
            return Err(ConfigurationError::new(
                format!("{path}.size_bytes"),
                format!(
                    "{} makes more than {MAXIMUM_LINES} lines of {line_bytes} bytes",
                    self.size_bytes
                ),
            ));
        }
        check_sets(path, "size_bytes / line_bytes", lines, self.ways)?;
        check_replacement(path, self.ways.count(lines), self.replacement)
    }
}

/// More than any machine has; keeps a slip of the keyboard from asking for terabytes of tags.
const MAXIMUM_CACHE_BYTES: u64 = 1 << 32;
/// Likewise.
const MAXIMUM_LINES: u64 = 1 << 28;
/// As above, for TLBs.
const MAXIMUM_TLB_ENTRIES: u32 = 1 << 20;
/// Ways of a set that tag arrays can number.
const MAXIMUM_WAYS: u64 = u16::MAX as u64;

/// One array of a TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries, protected ones included.
    pub entries: u32,
    /// Entries a set; "full" is fully associative.
    pub ways: Ways,
    /// Which entry of a set gives way.
    pub replacement: Replacement,
    /// The lowest entries, which only kernel-level and root-level mappings may take; 0 for none.
    pub protected_entries: u32,
    /// Sizes of the pages it holds.
    pub page_sizes: Vec<PageSize>,
    /// Cycles added by a look-up that comes here because the level above missed; 0 in the first
    /// level.
    pub latency_cycles: u32,
}

impl Tlb {
    /// Number of sets.
    pub fn sets(&self) -> u32 {
        self.entries / self.ways.count(u64::from(self.entries)) as u32
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), ConfigurationError> {
        if self.entries == 0 || self.entries > MAXIMUM_TLB_ENTRIES {
            return Err(ConfigurationError::new(
                format!("{path}.entries"),
                format!("{} is not between 1 and {MAXIMUM_TLB_ENTRIES}", self.entries),
            ));
        }
        if self.protected_entries >= self.entries {
            return Err(ConfigurationError::new(
                format!("{path}.protected_entries"),
                format!(
                    "{} leaves none of {} entries for the program",
                    self.protected_entries, self.entries
                ),
            ));
        }
        if self.page_sizes.is_empty() {
            return Err(ConfigurationError::new(
                format!("{path}.page_sizes"),
                "needs at least one page size",
            ));
        }
        let twice = |(at, size): &(usize, &PageSize)| self.page_sizes[..*at].contains(size);
        if let Some((_, size)) = self.page_sizes.iter().enumerate().find(twice) {
            return Err(ConfigurationError::new(
                format!("{path}.page_sizes"),
                format!("has a size of 2^{} bytes twice", size.shift()),
            ));
        }
        check_sets(path, "entries", u64::from(self.entries), self.ways)?;
        check_replacement(path, self.ways.count(u64::from(self.entries)), self.replacement)
    }
}

fn check_sets(path: &str, of: &str, lines: u64, ways: Ways) -> Result<(), ConfigurationError> {
    let count = ways.count(lines);
    if count > MAXIMUM_WAYS {
        return Err(ConfigurationError::new(
            format!("{path}.ways"),
            format!("{count} ways a set are more than {MAXIMUM_WAYS}"),
        ));
    }
    if count > 0 && lines.is_multiple_of(count) && lines > 0 {
        return Ok(());
    }
    Err(ConfigurationError::new(
        format!("{path}.ways"),
        format!("{count} does not divide {of} ({lines}) into whole sets"),
    ))
}

fn check_replacement(
    path: &str,
    ways: u64,
    replacement: Replacement,
) -> Result<(), ConfigurationError> {
    if replacement == Replacement::Plru && !ways.is_power_of_two() {
        return Err(ConfigurationError::new(
            format!("{path}.replacement"),
            format!("\"plru\" is a binary tree and needs a power of two of ways, not {ways}"),
        ));
    }
    Ok(())
}

/// Associativity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// A number of lines or entries a set.
    Count(u32),
    /// One set.
    Full,
}

impl Ways {
    /// Ways of a structure that has `lines` lines or entries in all.
    pub fn count(self, lines: u64) -> u64 {
        match self {
            Ways::Count(count) => u64::from(count),
            Ways::Full => lines,
        }
    }
}

impl Serialize for Ways {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ways::Count(count) => serializer.serialize_u32(*count),
            Ways::Full => serializer.serialize_str("full"),
        }
    }
}

impl<'de> Deserialize<'de> for Ways {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Word {
            Count(u32),
            Text(String),
        }
        match Word::deserialize(deserializer)? {
            Word::Count(count) if count > 0 => Ok(Ways::Count(count)),
            Word::Text(text) if text == "full" => Ok(Ways::Full),
            _ => Err(D::Error::custom("ways must be a positive integer or \"full\"")),
        }
    }
}

impl JsonSchema for Ways {
    fn schema_name() -> Cow<'static, str> {
        "Ways".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "const": "full"}]
        })
    }
}

/// Which line or entry of a set gives way to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// An empty one, else any, by a seeded generator.
    Random,
    /// The next in turn, used or not; empty entries are not looked for.
    RoundRobin,
    /// The one unused for longest.
    Lru,
    /// An empty one, else that to which a binary tree of bits leads, which point away from what was
    /// used.
    Plru,
}

/// Where stores go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// To this cache and to the level below.
    WriteThrough,
    /// To this cache; the level below gets the line when it is replaced.
    WriteBack,
}

/// Which address indexes and tags a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Addressing {
    /// The program's.
    Virtual,
    /// The translated one.
    Physical,
}

/// Size of a page.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum PageSize {
    /// 4 KiB.
    #[serde(rename = "4K")]
    Size4K,
    /// 16 KiB.
    #[serde(rename = "16K")]
    Size16K,
    /// 64 KiB.
    #[serde(rename = "64K")]
    Size64K,
    /// 1 MiB.
    #[serde(rename = "1M")]
    Size1M,
    /// 2 MiB.
    #[serde(rename = "2M")]
    Size2M,
    /// 1 GiB.
    #[serde(rename = "1G")]
    Size1G,
}

impl PageSize {
    /// The base-two logarithm of its bytes.
    pub const fn shift(self) -> u32 {
        match self {
            PageSize::Size4K => 12,
            PageSize::Size16K => 14,
            PageSize::Size64K => 16,
            PageSize::Size1M => 20,
            PageSize::Size2M => 21,
            PageSize::Size1G => 30,
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> u64 {
        1 << self.shift()
    }
}
