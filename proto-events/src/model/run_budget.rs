//! The budget of a run, and the check of usage against it. Pure: the caller supplies the usage.
//!
//! # When the loop must check
//! [`BudgetScope`] says what is counted. To stop where Protolink stops, the loop counts first and then checks, at these
//! points of a step:
//!
//! 1. at its start: `steps + 1` (`max_steps` 2 permits two steps and refuses the third: "observed 3");
//! 2. before the model call: `llm_calls + 1` and `input_tokens` + the estimate of the whole history, so that
//!    no call over the limit is paid for (retries of one call count as one call);
//! 3. after the model call: `output_tokens` + the reported count, or an estimate of the reply;
//! 4. before a tool runs: `tool_calls + 1`, after the duplicate guard and the check for unknown tools, since
//!    neither of those makes a call. The assistant message is in the history by then.
//!
//! `runtime_seconds` is the time that has passed at each of these points; the router enforces the deadlines
//! of calls.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Serialize;

use crate::json;
use crate::json::{JsonObject, JsonText, JsonValue};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::python;

/// The budget of a run; a limit that is `None` does not apply.
///
/// On the wire an object of the fields below in their order; unknown keys are read into the metadata.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunBudget {
    /// The limit on steps of the inference loop.
    pub max_steps: Option<i64>,
    /// The limit on model calls.
    pub max_llm_calls: Option<i64>,
    /// The limit on tool calls requested by a model.
    pub max_tool_calls: Option<i64>,
    /// The limit on wall-clock time, in seconds.
    pub max_runtime_seconds: Option<f64>,
    /// The limit on input tokens of all calls together.
    pub max_input_tokens: Option<i64>,
    /// The limit on output tokens of all calls together.
    pub max_output_tokens: Option<i64>,
    /// The fields that this program does not interpret.
    pub metadata: JsonObject,
}

/// The work that one budget covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BudgetScope {
    /// The whole task: all its runs, parts and calls, and the tasks that it delegates.
    #[default]
    Task,
    /// Each infer part of a run for itself, as in Protolink: explicit tool calls are not counted, and a delegated task
    /// gets the same budget again.
    Part,
}

/// The usage of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetUsage {
    /// The number of steps begun.
    pub steps: u64,
    /// The number of model calls begun.
    pub llm_calls: u64,
    /// The number of tool calls begun.
    pub tool_calls: u64,
    /// The estimated number of tokens sent.
    pub input_tokens: u64,
    /// The number of tokens received.
    pub output_tokens: u64,
    /// The time since the run began, in seconds.
    pub runtime_seconds: f64,
}

impl BudgetUsage {
    /// Returns the usage as JSON, under the names of its fields.
    pub fn to_json(&self) -> JsonText {
        JsonText::from(json!({
            "steps": self.steps,
            "llm_calls": self.llm_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "runtime_seconds": self.runtime_seconds,
        }))
    }

    /// Reads a usage that [`BudgetUsage::to_json`] wrote; what is absent or no number is zero.
    pub fn from_json(json: &JsonText) -> Self {
        let fields = json.tree();
        let count = |name: &str| fields.get(name).and_then(JsonValue::as_u64).unwrap_or_default();
        Self {
            steps: count("steps"),
            llm_calls: count("llm_calls"),
            tool_calls: count("tool_calls"),
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            runtime_seconds: fields.get("runtime_seconds").and_then(JsonValue::as_f64).unwrap_or_default(),
        }
    }

    /// Adds the usage of another task.
    pub fn add(&mut self, other: &Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.llm_calls = self.llm_calls.saturating_add(other.llm_calls);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.runtime_seconds += other.runtime_seconds;
    }
}

/// A limit of a budget; the variants are in the order in which limits are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetLimit {
    /// Steps of the inference loop.
    Steps,
    /// Model calls.
    LlmCalls,
    /// Tool calls that a model requests.
    ToolCalls,
    /// Input tokens of all calls together.
    InputTokens,
    /// Output tokens of all calls together.
    OutputTokens,
    /// Wall-clock time in seconds.
    RuntimeSeconds,
}

impl BudgetLimit {
    /// All limits, in the order in which they are checked.
    pub const ALL: [Self; 6] = [
        Self::Steps,
        Self::LlmCalls,
        Self::ToolCalls,
        Self::InputTokens,
        Self::OutputTokens,
        Self::RuntimeSeconds,
    ];

    /// Returns the key of the limit in a budget, for example `max_steps`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "max_steps",
            Self::LlmCalls => "max_llm_calls",
            Self::ToolCalls => "max_tool_calls",
            Self::InputTokens => "max_input_tokens",
            Self::OutputTokens => "max_output_tokens",
            Self::RuntimeSeconds => "max_runtime_seconds",
        }
    }

    /// Formats a value as Protolink prints it: a count without a fraction, time as a float.
    fn figure(self, value: f64) -> String {
        match self {
            Self::RuntimeSeconds => python::repr_float(value),
            _ => format!("{value:.0}"),
        }
    }
}

/// A limit of a budget with its usage. As an error, the usage exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitUse {
    /// The limit.
    pub limit: BudgetLimit,
    /// The usage, including the next step where that is counted.
    pub used: f64,
    /// The value of the limit.
    pub allowed: f64,
}

impl LimitUse {
    /// Returns the usage as a JSON number.
    pub fn used_text(&self) -> String {
        self.limit.figure(self.used)
    }

    /// Returns the limit's value as a JSON number.
    pub fn allowed_text(&self) -> String {
        self.limit.figure(self.allowed)
    }
}

impl fmt::Display for LimitUse {
    /// Writes the text of Protolink's error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, used, allowed) = (self.limit.name(), self.used_text(), self.allowed_text());
        write!(f, "Run budget exceeded: {name} observed {used} > limit {allowed}")
    }
}

impl std::error::Error for LimitUse {}

/// The share of a limit from which a warning is due.
const WARN_FROM: f64 = 0.8;

const KNOWN: [&str; 7] = [
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
    "metadata",
];

impl RunBudget {
    /// Returns a budget without a limit, to which the methods add some.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the steps of the inference loop.
    #[must_use]
    pub fn steps(self, most: u32) -> Self {
        Self { max_steps: Some(most.into()), ..self }
    }

    /// Limits the model calls.
    #[must_use]
    pub fn llm_calls(self, most: u32) -> Self {
        Self { max_llm_calls: Some(most.into()), ..self }
    }

    /// Limits the tool calls that a model requests.
    #[must_use]
    pub fn tool_calls(self, most: u32) -> Self {
        Self { max_tool_calls: Some(most.into()), ..self }
    }

    /// Limits the time.
    #[must_use]
    pub fn runtime(self, most: Duration) -> Self {
        Self { max_runtime_seconds: Some(most.as_secs_f64()), ..self }
    }

    /// Limits the input tokens of all calls together.
    #[must_use]
    pub fn input_tokens(self, most: u32) -> Self {
        Self { max_input_tokens: Some(most.into()), ..self }
    }

    /// Limits the output tokens of all calls together.
    #[must_use]
    pub fn output_tokens(self, most: u32) -> Self {
        Self { max_output_tokens: Some(most.into()), ..self }
    }

    /// Reads a budget. Numbers may be strings; unknown keys go to the metadata.
    ///
    /// # Errors
    /// [`ModelError`] if a limit is not a number.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        // By far the most, as it is written.
        static NONE: LazyLock<JsonText> = LazyLock::new(|| JsonText::of_model(&RunBudget::default()));
        if *json == *NONE {
            return Ok(Self::default());
        }
        let fields = ModelFields::of_optional(json)?;
        let mut metadata = fields.object("metadata")?;
        for (key, value) in fields.others(&KNOWN) {
            metadata.set(key, value.clone());
        }
        let seconds = fields.get("max_runtime_seconds").filter(|value| !value.is_null());
        Ok(Self {
            max_steps: fields.optional_int("max_steps")?,
            max_llm_calls: fields.optional_int("max_llm_calls")?,
            max_tool_calls: fields.optional_int("max_tool_calls")?,
            max_runtime_seconds: seconds
                .map(|value| python::float(value, "max_runtime_seconds"))
                .transpose()?,
            max_input_tokens: fields.optional_int("max_input_tokens")?,
            max_output_tokens: fields.optional_int("max_output_tokens")?,
            metadata,
        })
    }

    /// Checks usage against all limits.
    ///
    /// # Errors
    /// The first exceeded limit, in the order of [`BudgetLimit::ALL`].
    pub fn check(&self, usage: &BudgetUsage) -> Result<(), LimitUse> {
        let over = self.uses(usage).find(|one| one.used > one.allowed);
        over.map_or(Ok(()), Err)
    }

    /// Returns what this usage leaves of the budget.
    #[must_use]
    pub fn remaining(&self, used: &BudgetUsage) -> Self {
        let count = |limit: Option<i64>, used: u64| {
            limit.map(|limit| limit.saturating_sub(i64::try_from(used).unwrap_or(i64::MAX)).max(0))
        };
        Self {
            max_steps: count(self.max_steps, used.steps),
            max_llm_calls: count(self.max_llm_calls, used.llm_calls),
            max_tool_calls: count(self.max_tool_calls, used.tool_calls),
            max_runtime_seconds: self
                .max_runtime_seconds
                .map(|limit| (limit - used.runtime_seconds).max(0.0)),
            max_input_tokens: count(self.max_input_tokens, used.input_tokens),
            max_output_tokens: count(self.max_output_tokens, used.output_tokens),
            metadata: self.metadata.clone(),
        }
    }

    /// Returns the limits of which at least four fifths are used.
    pub fn near(&self, usage: &BudgetUsage) -> Vec<LimitUse> {
        self.uses(usage).filter(|one| one.allowed > 0.0 && one.used >= one.allowed * WARN_FROM).collect()
    }

    // Counts stay far below 2^53, up to which a float holds every integer.
    #[allow(clippy::cast_precision_loss)]
    fn uses(&self, usage: &BudgetUsage) -> impl Iterator<Item = LimitUse> {
        let counted = |used: u64, allowed: Option<i64>| (used as f64, allowed.map(|most| most as f64));
        let pairs = BudgetLimit::ALL.map(|limit| {
            let (used, allowed) = match limit {
                BudgetLimit::Steps => counted(usage.steps, self.max_steps),
                BudgetLimit::LlmCalls => counted(usage.llm_calls, self.max_llm_calls),
                BudgetLimit::ToolCalls => counted(usage.tool_calls, self.max_tool_calls),
                BudgetLimit::InputTokens => counted(usage.input_tokens, self.max_input_tokens),
                BudgetLimit::OutputTokens => counted(usage.output_tokens, self.max_output_tokens),
                BudgetLimit::RuntimeSeconds => (usage.runtime_seconds, self.max_runtime_seconds),
            };
            (limit, used, allowed)
        });
        pairs
            .into_iter()
            .filter_map(|(limit, used, allowed)| Some(LimitUse { limit, used, allowed: allowed? }))
    }

    /// Returns the budget as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(json: &str) -> Result<RunBudget, ModelError> {
        RunBudget::from_json(&JsonText::parse(json).unwrap())
    }

    #[test]
    fn the_first_limit_in_order_that_is_passed_is_named() {
        let budget = budget(r#"{"max_tool_calls": 1, "max_steps": "2", "zz": []}"#).unwrap();
        let mut usage = BudgetUsage { steps: 2, tool_calls: 1, ..BudgetUsage::default() };
        assert_eq!(budget.check(&usage), Ok(()));
        usage.tool_calls = 2;
        assert_eq!(
            budget.check(&usage).unwrap_err().to_string(),
            "Run budget exceeded: max_tool_calls observed 2 > limit 1"
        );
        usage.steps = 3;
        assert_eq!(
            budget.check(&usage).unwrap_err().to_string(),
            "Run budget exceeded: max_steps observed 3 > limit 2"
        );
    }

    #[test]
    fn time_is_printed_as_a_float() {
        let budget = budget(r#"{"max_runtime_seconds": 1}"#).unwrap();
        let usage = BudgetUsage { runtime_seconds: 1.25, ..BudgetUsage::default() };
        assert_eq!(
            budget.check(&usage).unwrap_err().to_string(),
            "Run budget exceeded: max_runtime_seconds observed 1.25 > limit 1.0"
        );
    }

    #[test]
    fn limits_are_read_as_python_reads_them_and_never_dropped() {
        let read = |json: &str| budget(json).map(|budget| budget.max_steps);
        assert_eq!(read(r#"{"max_steps": 2.7}"#), Ok(Some(2)));
        assert_eq!(read(r#"{"max_steps": true}"#), Ok(Some(1)));
        assert_eq!(read(r#"{"max_steps": null}"#), Ok(None));
        assert_eq!(read("null"), Ok(None));
        assert!(read(r#"{"max_steps": "x"}"#).unwrap_err().to_string().contains("'x'"));
        assert!(read(r#"{"max_steps": [1]}"#).is_err());
    }

    #[test]
    fn a_warning_is_due_from_four_fifths() {
        let budget = budget(r#"{"max_steps": 5, "max_llm_calls": 100}"#).unwrap();
        let at = |steps| budget.near(&BudgetUsage { steps, ..BudgetUsage::default() });
        assert!(at(3).is_empty());
        assert_eq!(at(4).iter().map(|one| one.limit).collect::<Vec<_>>(), [BudgetLimit::Steps]);
    }
}
