//! The limits of one run, and the check of what it used against them. Pure: the loop says what it used.
//!
//! # When the loop must check
//! Usage begins at zero with every infer part; explicit `tool_call` parts are not counted. To stop where
//! Protolink stops, the loop counts first and then checks, at these points of a step:
//!
//! 1. at its start: `steps + 1` (`max_steps` 2 lets two steps run and refuses the third: "observed 3");
//! 2. before the model call: `llm_calls + 1` and `input_tokens` + the estimate of the whole history, so that
//!    no call is paid for that was over the limit (retries of one call are one call);
//! 3. after the model call: `output_tokens` + what it reported, if it did;
//! 4. before a tool runs: `tool_calls + 1`, after the duplicate guard and after an unknown tool was told to
//!    the model, neither of which is a call. The assistant message is in the history by then.
//!
//! `runtime_seconds` is whatever time has passed at each of these points; deadlines of calls are the
//! router's.

use serde_json::Value;

use super::python::{float_repr, type_name};

/// Share of a limit from which a warning is due.
const WARN_FROM: f64 = 0.8;

/// The limits of one run; `None` is without limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    /// Steps of the infer loop.
    pub max_steps: Option<i64>,
    /// Calls of the model.
    pub max_llm_calls: Option<i64>,
    /// Tools run inside the loop.
    pub max_tool_calls: Option<i64>,
    /// Estimated tokens sent to the model.
    pub max_input_tokens: Option<i64>,
    /// Tokens that the model reported.
    pub max_output_tokens: Option<i64>,
    /// Time, in seconds.
    pub max_runtime_seconds: Option<f64>,
}

/// What a run used so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetUsage {
    /// Steps begun.
    pub steps: u64,
    /// Model calls begun.
    pub llm_calls: u64,
    /// Tools begun.
    pub tool_calls: u64,
    /// Estimated tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Time since the infer part began, in seconds.
    pub runtime_seconds: f64,
}

/// A run used more than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Run budget exceeded: {limit_name} observed {observed} > limit {limit}")]
pub struct BudgetExceeded {
    /// For example `max_steps`.
    pub limit_name: &'static str,
    /// What was, or would be, used.
    pub observed: String,
    /// What may be used.
    pub limit: String,
}

/// A budget that cannot be read. A run does not start on it: a limit that is dropped is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("budget.{field} must be a number, got {got}")]
pub struct BudgetError {
    /// Which limit.
    pub field: &'static str,
    /// What stands there.
    pub got: String,
}

impl Budget {
    /// Reads `metadata.run_context.budget`. Absent and null limits are none; numbers may stand in strings;
    /// fractions of counts are cut off; unknown fields belong to others.
    ///
    /// # Errors
    /// [`BudgetError`] if a limit is there and is no number.
    pub fn from_json(budget: &Value) -> Result<Self, BudgetError> {
        Ok(Self {
            max_steps: count(budget, "max_steps")?,
            max_llm_calls: count(budget, "max_llm_calls")?,
            max_tool_calls: count(budget, "max_tool_calls")?,
            max_input_tokens: count(budget, "max_input_tokens")?,
            max_output_tokens: count(budget, "max_output_tokens")?,
            max_runtime_seconds: number(budget, "max_runtime_seconds")?,
        })
    }

    /// Whether nothing is over its limit.
    ///
    /// # Errors
    /// [`BudgetExceeded`] naming the first limit that is, in the order of the fields.
    pub fn check(&self, usage: &BudgetUsage) -> Result<(), BudgetExceeded> {
        let over = self.lines(usage).into_iter().find(|line| line.observed > line.limit);
        over.map_or(Ok(()), |line| {
            Err(BudgetExceeded {
                limit_name: line.name,
                observed: line.text(line.observed),
                limit: line.text(line.limit),
            })
        })
    }

    /// Names of the limits of which four fifths are used.
    pub fn near(&self, usage: &BudgetUsage) -> Vec<&'static str> {
        let near = |line: &Line| line.limit > 0.0 && line.observed >= line.limit * WARN_FROM;
        self.lines(usage).iter().filter(|line| near(line)).map(|line| line.name).collect()
    }

    fn lines(&self, usage: &BudgetUsage) -> Vec<Line> {
        let counts = [
            ("max_steps", usage.steps, self.max_steps),
            ("max_llm_calls", usage.llm_calls, self.max_llm_calls),
            ("max_tool_calls", usage.tool_calls, self.max_tool_calls),
            ("max_input_tokens", usage.input_tokens, self.max_input_tokens),
            ("max_output_tokens", usage.output_tokens, self.max_output_tokens),
        ];
        let counted = counts
            .into_iter()
            .filter_map(|(name, observed, limit)| Some(Line::counted(name, observed, limit?)));
        let timed = self.max_runtime_seconds.map(|limit| Line {
            name: "max_runtime_seconds",
            observed: usage.runtime_seconds,
            limit,
            is_count: false,
        });
        counted.chain(timed).collect()
    }
}

/// One limit and what was used of it.
struct Line {
    name: &'static str,
    observed: f64,
    limit: f64,
    is_count: bool,
}

impl Line {
    /// Counts stay far below 2^53, up to which a float holds every integer.
    #[allow(clippy::cast_precision_loss)]
    fn counted(name: &'static str, observed: u64, limit: i64) -> Self {
        Self { name, observed: observed as f64, limit: limit as f64, is_count: true }
    }

    fn text(&self, value: f64) -> String {
        if self.is_count { format!("{value:.0}") } else { float_repr(value) }
    }
}

fn count(budget: &Value, field: &'static str) -> Result<Option<i64>, BudgetError> {
    // A float that is too large for an integer becomes the largest one, which is what was meant.
    #[allow(clippy::cast_possible_truncation)]
    let cut = |float: f64| float.trunc() as i64;
    Ok(number(budget, field)?.map(cut))
}

fn number(budget: &Value, field: &'static str) -> Result<Option<f64>, BudgetError> {
    let Some(value) = budget.get(field).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| BudgetError {
        field,
        got: match value {
            Value::String(text) => format!("the text {text:?}"),
            other => type_name(other).to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_limit_in_order_that_is_passed_is_named() {
        let budget = Budget::from_json(&json!({"max_tool_calls": 1, "max_steps": "2", "zz": []})).unwrap();
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
        let budget = Budget::from_json(&json!({"max_runtime_seconds": 1})).unwrap();
        let usage = BudgetUsage { runtime_seconds: 1.25, ..BudgetUsage::default() };
        assert_eq!(
            budget.check(&usage).unwrap_err().to_string(),
            "Run budget exceeded: max_runtime_seconds observed 1.25 > limit 1.0"
        );
    }

    #[test]
    fn limits_are_read_leniently_but_never_dropped() {
        let read = |value: Value| Budget::from_json(&value).map(|budget| budget.max_steps);
        assert_eq!(read(json!({"max_steps": 2.7})), Ok(Some(2)));
        assert_eq!(read(json!({"max_steps": true})), Ok(Some(1)));
        assert_eq!(read(json!({"max_steps": null})), Ok(None));
        assert_eq!(read(json!(null)), Ok(None));
        assert_eq!(
            read(json!({"max_steps": "x"})).unwrap_err().to_string(),
            "budget.max_steps must be a number, got the text \"x\""
        );
        assert!(read(json!({"max_steps": [1]})).is_err());
    }

    #[test]
    fn a_warning_is_due_from_four_fifths() {
        let budget = Budget::from_json(&json!({"max_steps": 5, "max_llm_calls": 100})).unwrap();
        let at = |steps| budget.near(&BudgetUsage { steps, ..BudgetUsage::default() });
        assert!(at(3).is_empty());
        assert_eq!(at(4), ["max_steps"]);
    }
}
