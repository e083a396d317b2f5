//! The validator of the crate `jsonschema`, with the limits under which it runs.

use std::collections::BTreeMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ValidationError};
use proto_events::json::JsonValue as Value;

use crate::grammar::decode::cut;

/// The limit on backtracking steps of one pattern on one text.
const PATTERN_STEPS_MAX: usize = 10_000;

/// The largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// The most levels that are compiled on the caller's stack: as many as the deepest JSON that is read has.
const LEVELS_ON_ANY_STACK: usize = 128;

/// The stack for one level, with much to spare: the system gives memory only to what is used of it.
const LEVEL_STACK_BYTES: usize = 64 * 1024;

/// 2^63, the first whole float that no `i64` holds.
const WHOLE_FLOAT_MAX: f64 = 9_223_372_036_854_775_808.0;

/// A compiled schema.
#[derive(Debug)]
pub(super) struct CompiledSchema(jsonschema::Validator);

impl CompiledSchema {
    /// Compiles a schema of so many levels. A deep one is compiled on a thread whose stack is large enough.
    pub(super) fn new(schema: &Value, levels: usize) -> Result<Self, String> {
        if levels <= LEVELS_ON_ANY_STACK {
            return Self::compiled(schema);
        }
        std::thread::scope(|scope| {
            let stack = std::thread::Builder::new().stack_size(levels.saturating_mul(LEVEL_STACK_BYTES));
            match stack.spawn_scoped(scope, || Self::compiled(schema)) {
                Ok(compiling) => {
                    compiling.join().unwrap_or_else(|_| Err("its compilation panicked".to_owned()))
                }
                Err(error) => Err(format!("there is no thread to compile it: {error}")),
            }
        })
    }

    fn compiled(schema: &Value) -> Result<Self, String> {
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(PATTERN_STEPS_MAX).size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().should_validate_formats(false).with_pattern_options(patterns);
        let schema = plain(schema);
        let built = options.build(&schema);
        built.map(Self).map_err(|error| cut(&format!("at '{}': {error}", error.instance_path())))
    }

    /// Checks a value; the error names the first mismatch with its path.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.0.validate(&plain(value)).map_err(|error| misfit(&error))
    }
}

/// Converts a value for the validator, which inside of `const` and `enum` tells `1` from `1.0`, and objects by the
/// order of their keys if a crate of the program turns on `preserve_order`: a float that is a whole number becomes
/// an integer, and keys are sorted.
fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> =
                fields.iter().map(|(key, value)| (key.clone(), plain(value))).collect();
            sorted.into_iter().collect::<serde_json::Map<_, _>>().into()
        }
        Value::Number(number) if number.is_float() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < WHOLE_FLOAT_MAX);
            // Adding zero turns -0.0 into 0.0.
            let whole = whole.and_then(|float| format!("{:.0}", float + 0.0).parse::<i64>().ok());
            whole.map_or_else(|| value.clone().into(), Into::into)
        }
        other => other.clone().into(),
    }
}

/// Formats a mismatch with its path in the answer.
fn misfit(error: &ValidationError<'_>) -> String {
    let mut place = "answer".to_owned();
    for segment in error.instance_path() {
        match segment {
            LocationSegment::Property(name) => place.extend([".", &name]),
            LocationSegment::Index(index) => place.extend(["[", &index.to_string(), "]"]),
        }
    }
    let cannot = match error.kind() {
        ValidationErrorKind::BacktrackLimitExceeded { .. }
        | ValidationErrorKind::RegexEngineFailure { .. } => " cannot be checked",
        _ => "",
    };
    cut(&format!("{place}{cannot}: {error}"))
}
