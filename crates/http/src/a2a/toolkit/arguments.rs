//! The arguments of a call, read in either spelling.

use std::time::Duration;

use proto_events::json::{JsonText, JsonValue as Value};

use crate::a2a::toolkit::definitions::A2A_TOOLS;
use crate::a2a::toolkit::error::SessionError;
use crate::a2a::toolkit::monitor::LONGEST_WAIT;

/// The arguments of a call.
pub(crate) struct Arguments<'a>(pub(crate) &'a Value);

fn wrong(name: &str, must: &str) -> SessionError {
    SessionError::Argument(format!("The argument {name} {must}."))
}

impl<'a> Arguments<'a> {
    /// Returns an argument by its name, or by its name in the other spelling; `None` if it is absent or null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        let all = A2A_TOOLS.iter().flat_map(|tool| tool.parameters);
        let camel = all.into_iter().find(|parameter| parameter.name == name).map(|known| known.camel_name);
        let found = self.0.get(name).or_else(|| self.0.get(camel?));
        found.filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, SessionError> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| wrong(name, "must be a string"));
        self.get(name).map(text).transpose()
    }

    pub(crate) fn needed(&self, name: &str) -> Result<&'a str, SessionError> {
        self.text(name)?.ok_or_else(|| wrong(name, "is required"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, SessionError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        // Models write whole numbers as 1.0, too.
        #[allow(
            clippy::cast_possible_truncation,
            reason = "it is whole and within the range of i64's exact floats"
        )]
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
        let number = value.as_i64().or_else(|| value.as_f64().and_then(whole));
        number.map(Some).ok_or_else(|| wrong(name, "must be an integer"))
    }

    /// Returns a time in seconds; a negative one is refused, and one that no timer holds is the longest.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<Duration>, SessionError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let seconds = value.as_f64().ok_or_else(|| wrong(name, "must be a number of seconds"))?;
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_WAIT);
        Ok(Some(duration.min(LONGEST_WAIT)))
    }

    fn list(&self, name: &str) -> Result<&'a [Value], SessionError> {
        let Some(value) = self.get(name) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(name, "must be a list"))
    }

    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, SessionError> {
        let text = |item: &Value| item.as_str().map(str::to_owned);
        let texts: Option<Vec<String>> = self.list(name)?.iter().map(text).collect();
        texts.ok_or_else(|| wrong(name, "must be a list of strings"))
    }

    pub(crate) fn objects(&self, name: &str) -> Result<Vec<JsonText>, SessionError> {
        let object = |item: &Value| item.is_object().then(|| item.to_text());
        let objects: Option<Vec<JsonText>> = self.list(name)?.iter().map(object).collect();
        objects.ok_or_else(|| wrong(name, "must be a list of objects"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_both_spellings_and_wrong_ones_are_told() {
        let args = Value::parse(
            r#"{"agentId":"a","lineStart":2.0,"line_end":null,"timeout":1e300,"pollInterval":-1,"files":["x"],"data":[{}],"task_id":5}"#,
        )
        .unwrap();
        let args = Arguments(&args);
        assert_eq!((args.needed("agent_id").unwrap(), args.integer("line_start").unwrap()), ("a", Some(2)));
        assert_eq!(args.integer("line_end").unwrap(), None);
        assert_eq!(args.seconds("timeout").unwrap(), Some(LONGEST_WAIT));
        assert_eq!(args.seconds("poll_interval").unwrap(), Some(Duration::ZERO));
        assert_eq!((args.texts("files").unwrap().len(), args.objects("data").unwrap().len()), (1, 1));
        assert!(
            args.texts("data").is_err() && args.objects("files").is_err() && args.integer("files").is_err()
        );
        assert_eq!(args.text("task_id").unwrap_err().to_string(), "The argument task_id must be a string.");
        assert_eq!(args.needed("message").unwrap_err().to_string(), "The argument message is required.");
    }
}
