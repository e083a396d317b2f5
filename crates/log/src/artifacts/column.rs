//! The statistics of a list of values, taken in one pass and grouped by type.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::model::python_json::line_characters;

use crate::artifacts::characters::characters;
use crate::artifacts::json_start::beginning;
use crate::artifacts::short_texts::{grouped, shortened};
use crate::artifacts::spread::{Read, Spread, rounded};
use crate::artifacts::unique::Unique;

/// The characters that a sample keeps where samples are shortened.
const SAMPLE_CHARACTERS: usize = 100;

/// The characters that JSON writes around a string.
const QUOTES: usize = 2;

/// The characters of statistics as JSON on one line, at least.
pub(super) const STATISTICS_CHARACTERS_MIN: usize =
    r#"{"count": 1, "unique_count": 1, "types": [{"name": "", "count": 1, "percentage": 0.0, "sample_value": 1}]}"#.len();

/// The detail of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// Samples stand whole, and a list stands instead of its summary if it is not larger.
    Whole,
    /// Samples are shortened, and a summary always stands.
    Short,
}

/// The values of one type.
#[derive(Debug)]
struct TypeGroup<'a> {
    kind: &'static str,
    count: usize,
    sample: &'a Value,
    spread: Spread<'a>,
}

/// The values added so far. A table may have as many columns as values, so that a column of one value is no more than it.
#[derive(Debug, Default)]
pub(super) enum Column<'a> {
    /// No value.
    #[default]
    Empty,
    /// A single value, and the characters of its JSON on one line.
    One(&'a Value, usize),
    /// The statistics of several.
    Many(Box<Collected<'a>>),
}

/// The statistics of the values added so far.
#[derive(Debug, Default)]
pub(super) struct Collected<'a> {
    count: usize,
    /// The characters of the values as items of a list on one line, without brackets and separators.
    characters: usize,
    unique: Unique,
    groups: Vec<TypeGroup<'a>>,
}

impl<'a> Column<'a> {
    /// Adds a value whose JSON on one line has this number of characters.
    pub(super) fn add(&mut self, value: &'a Value, line_characters: usize) {
        match self {
            Self::Empty => *self = Self::One(value, line_characters),
            Self::One(first, characters) => {
                let mut statistics = Box::new(Collected::of_one(first, *characters));
                statistics.add(value, line_characters);
                *self = Self::Many(statistics);
            }
            Self::Many(groups) => groups.add(value, line_characters),
        }
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(..) => 1,
            Self::Many(groups) => groups.count,
        }
    }

    /// Returns the characters of the values as a list on one line.
    pub(super) fn list_characters(&self) -> usize {
        let characters = match self {
            Self::Empty => 0,
            Self::One(_, characters) => *characters,
            Self::Many(groups) => groups.characters,
        };
        2 + characters + 2 * self.len().saturating_sub(1)
    }

    /// Returns the statistics with the characters of their JSON on one line; `None` if samples stand whole and the list of the
    /// values is not larger.
    pub(super) fn summary(&self, samples: Samples) -> Option<(JsonMap, usize)> {
        let summary = match self {
            Self::Empty => {
                JsonMap::from_iter([("count", Value::from(0)), ("types", Value::Array(Vec::new()))])
            }
            // A list of a few short values is shorter than what is said about them, and a list of one value always is.
            Self::One(..) if samples == Samples::Whole => return None,
            Self::Many(_)
                if samples == Samples::Whole && self.list_characters() < STATISTICS_CHARACTERS_MIN =>
            {
                return None;
            }
            Self::One(value, characters) => Collected::of_one(value, *characters).summary(samples),
            Self::Many(groups) => groups.summary(samples),
        };
        let summary = Value::from(summary);
        let characters = line_characters(&summary);
        let is_guarded = samples == Samples::Whole && self.len() > 0;
        match summary {
            Value::Object(summary) if !is_guarded || characters <= self.list_characters() => {
                Some((summary, characters))
            }
            _ => None,
        }
    }
}

impl<'a> Collected<'a> {
    fn of_one(value: &'a Value, line_characters: usize) -> Self {
        let mut statistics = Self { groups: Vec::with_capacity(1), ..Self::default() };
        statistics.add(value, line_characters);
        statistics
    }

    fn add(&mut self, value: &'a Value, line_characters: usize) {
        self.count += 1;
        self.characters += line_characters;
        match value {
            Value::Null => {
                self.unique.add(value);
                self.group("null", value);
            }
            Value::Bool(_) => {
                self.unique.add(value);
                self.group("bool", value);
            }
            Value::Number(number) => {
                let read = Read::from_number(number);
                self.unique.add_number(read);
                let kind = if matches!(read, Read::Float(_)) { "float" } else { "int" };
                self.group(kind, value).add_number(number, read);
            }
            Value::String(text) => {
                self.unique.add_text(text);
                // Every other character has more characters in JSON than bytes.
                let is_plain = line_characters == text.len() + QUOTES;
                let length = if is_plain { text.len() } else { characters(text) };
                self.group("string", value).add_count(length);
            }
            Value::Array(items) => {
                self.unique.add(value);
                self.group("list", value).add_count(items.len());
            }
            Value::Object(_) => {
                self.unique.add(value);
                self.group("object", value).add_count(line_characters);
            }
        }
    }

    /// Counts a value in its group and returns the spread of that.
    fn group(&mut self, kind: &'static str, value: &'a Value) -> &mut Spread<'a> {
        let same = |group: &TypeGroup<'_>| std::ptr::eq(group.kind, kind) || group.kind == kind;
        let at = self.groups.iter().position(same).unwrap_or(self.groups.len());
        if at == self.groups.len() {
            self.groups.push(TypeGroup { kind, count: 0, sample: value, spread: Spread::default() });
        }
        let group = self.groups.get_mut(at).expect("the group was found or added above");
        group.count += 1;
        &mut group.spread
    }

    fn summary(&self, samples: Samples) -> JsonMap {
        let mut groups: Vec<&TypeGroup<'_>> = self.groups.iter().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        let types = groups.into_iter().map(|group| Value::from(group.entry(self.count, samples)));
        JsonMap::from_iter([
            ("count", Value::from(self.count)),
            ("unique_count", self.unique.count().into()),
            ("types", types.collect()),
        ])
    }
}

impl TypeGroup<'_> {
    fn entry(&self, of: usize, samples: Samples) -> JsonMap {
        let mut entry = JsonMap::new();
        entry.insert("name", self.kind.into());
        entry.insert("count", self.count.into());
        if let Some(percentage) = rounded(percentage(self.count, of), 1) {
            entry.insert("percentage", Value::Number(percentage));
        }
        entry.insert("sample_value", sample(self.sample, samples));
        let prefix = match self.kind {
            "object" => "json_length_",
            "int" | "float" => "",
            _ => "length_",
        };
        self.spread.write(&mut entry, prefix);
        entry
    }
}

#[allow(clippy::cast_precision_loss, reason = "a count of values is far below 2^53")]
fn percentage(count: usize, of: usize) -> f64 {
    (count as f64 / of as f64) * 100.0
}

fn sample(value: &Value, samples: Samples) -> Value {
    if samples == Samples::Whole {
        return value.clone();
    }
    if let Value::String(text) = value {
        return shortened(text, SAMPLE_CHARACTERS).map_or_else(|| value.clone(), Value::from);
    }
    match line_characters(value).checked_sub(SAMPLE_CHARACTERS) {
        None | Some(0) => value.clone(),
        Some(more) => {
            format!("{}... [{} more chars]", beginning(value, SAMPLE_CHARACTERS), grouped(more)).into()
        }
    }
}
