//! The deadline of a task: a moment in its budget after which nothing of it is begun and nothing goes on.
//!
//! Protolink's budgets have no such field. It stands in the budget's metadata, where Protolink puts each field that it does
//! not know: so its agents hand it on with the budget, and a task that they send to one of ours keeps it.

use super::iso;
use super::run_budget::RunBudget;
use crate::envelope::Timestamp;
use crate::json::JsonText;
use crate::model::error::ModelError;

/// The key of the deadline, in a budget or in a budget's metadata.
pub const DEADLINE: &str = "deadline";

impl RunBudget {
    /// Sets the deadline: the moment at which the task fails unless it is over. Unlike
    /// [`runtime`](RunBudget::runtime), it does not move while a person is waited for.
    #[must_use]
    pub fn until(mut self, deadline: impl Into<Timestamp>) -> Self {
        self.metadata.set(DEADLINE, JsonText::string(&deadline.into().to_string()));
        self
    }

    /// Returns the deadline, if the budget has one.
    ///
    /// # Errors
    /// [`ModelError`] if it is not a text that states a time with its offset.
    pub fn deadline(&self) -> Result<Option<Timestamp>, ModelError> {
        let Some(given) = self.metadata.get(DEADLINE).filter(|given| !given.is_null()) else {
            return Ok(None);
        };
        let moment = given.to_str().and_then(|text| iso::moment(&text)).map(Timestamp);
        moment.map(Some).ok_or_else(|| {
            ModelError::Invalid(format!(
                "the budget's `{DEADLINE}` must be a time with its offset, such as \"2026-11-25T17:00:00+00:00\", got {given}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(json: &str) -> RunBudget {
        RunBudget::from_json(&JsonText::parse(json).unwrap()).unwrap()
    }

    #[test]
    fn a_deadline_is_read_from_the_budget_and_from_its_metadata_and_written_where_protolink_keeps_it() {
        let at = Timestamp(1_700_000_000_123_456);
        for json in
            [format!(r#"{{"deadline": "{at}"}}"#), format!(r#"{{"metadata": {{"deadline": "{at}"}}}}"#)]
        {
            assert_eq!(budget(&json).deadline(), Ok(Some(at)), "{json}");
            assert_eq!(budget(budget(&json).to_json().as_str()).deadline(), Ok(Some(at)), "{json}");
        }
        let set = RunBudget::new().until(at);
        assert_eq!(set.deadline(), Ok(Some(at)));
        assert!(
            set.to_json().as_str().contains(r#""metadata":{"deadline":"2023-11-14T"#),
            "{}",
            set.to_json()
        );
        assert_eq!(
            set.remaining(&crate::model::BudgetUsage::default()).deadline(),
            Ok(Some(at)),
            "a child has it too"
        );
        assert_eq!(RunBudget::new().deadline(), Ok(None));
        assert_eq!(budget(r#"{"deadline": null}"#).deadline(), Ok(None));
    }

    #[test]
    fn a_deadline_that_names_no_moment_is_an_error_that_says_what_it_must_be() {
        for wrong in
            [r#""soon""#, "17", "true", r#""2026-11-25T17:00:00""#, "{}", r#""9999999-01-01T00:00:00Z""#]
        {
            let error = budget(&format!(r#"{{"deadline": {wrong}}}"#)).deadline().unwrap_err().to_string();
            assert!(error.contains("a time with its offset"), "{wrong}: {error}");
        }
    }
}
