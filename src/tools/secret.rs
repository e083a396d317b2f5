//! Secret arguments of tools: the host's lookup of a value by name, and the mask that keeps values out of what a
//! tool says.

use std::fmt;
use std::future::Future;

use proto_events::json::{JsonMap, JsonText, JsonValue};
use proto_events::tool_store::ToolWrite;

use crate::tools::future::BoxFuture;

/// The shortest value that is masked in a tool's texts, in bytes: a shorter one would match ordinary text.
pub(crate) const MASKED_BYTES_MIN: usize = 4;

/// A request for the value of a secret argument.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretRequest {
    /// The name that the caller or the model wrote behind `secret:`. It comes from outside: a provider decides which
    /// names it serves to which tool.
    pub name: String,
    /// The tool that gets the value.
    pub tool: String,
    /// The argument that gets the value.
    pub argument: String,
    /// The task on whose behalf the call is made.
    pub task_id: String,
    /// The call's id, the same for every attempt.
    pub call_id: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// The host's lookup of secret values. Every `async fn(SecretRequest) -> Result<Option<String>, String>` implements
/// it. It is asked when a call is sent, once for each attempt, within the attempt's time limit; a value is stored
/// nowhere. `None` means that this tool has no such secret. Neither a text of an error nor a panic may repeat
/// a value.
pub trait SecretProvider: Send + Sync + 'static {
    /// Returns the value.
    fn secret(&self, request: SecretRequest) -> BoxFuture<'static, Result<Option<String>, String>>;
}

impl<F, Fut> SecretProvider for F
where
    F: Fn(SecretRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<String>, String>> + Send + 'static,
{
    fn secret(&self, request: SecretRequest) -> BoxFuture<'static, Result<Option<String>, String>> {
        Box::pin(self(request))
    }
}

/// The values of one call that must not be repeated, each with the reference that takes its place.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    texts: Vec<(String, String)>,
    /// The values that are texts as a whole: their references can be read back.
    whole: Vec<(String, String)>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.texts.len())
    }
}

impl Mask {
    /// Adds a value: its text, or the texts and numbers in it. A value that is part of another is masked after it.
    pub(crate) fn add(&mut self, value: &JsonText, reference: &str) {
        if let Some(text) = value.to_str() {
            self.whole.push((text, reference.to_owned()));
        }
        let mut texts = Vec::new();
        leaves(&value.tree(), &mut texts);
        for text in texts.into_iter().filter(|text| text.len() >= MASKED_BYTES_MIN) {
            let escaped = inner(&text);
            if escaped != text {
                self.texts.push((escaped, reference.to_owned()));
            }
            self.texts.push((text, reference.to_owned()));
        }
        self.texts.sort_by(|one, other| other.0.len().cmp(&one.0.len()).then_with(|| one.0.cmp(&other.0)));
    }

    /// Whether nothing is masked.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns the text with the values replaced.
    pub(crate) fn text(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (value, reference)| {
            if text.contains(value.as_str()) { text.replace(value.as_str(), reference) } else { text }
        })
    }

    /// Returns the text with the references of whole values replaced by the values, for the one who has them anyway.
    pub(crate) fn in_clear(&self, text: &str) -> String {
        self.whole.iter().fold(text.to_owned(), |text, (value, reference)| text.replace(reference, value))
    }

    /// Returns the JSON with the values replaced in its texts, keys and numbers.
    pub(crate) fn json(&self, json: JsonText) -> JsonText {
        if self.is_empty() {
            return json;
        }
        let before = json.tree();
        let after = self.tree(&before);
        if after == before { json } else { JsonText::from(after) }
    }

    /// Returns a write to a tool's state with the values replaced.
    pub(crate) fn write(&self, write: ToolWrite) -> ToolWrite {
        let ToolWrite { key, expected, value } = write;
        ToolWrite { key: self.text(&key), expected, value: value.map(|value| self.json(value)) }
    }

    fn tree(&self, value: &JsonValue) -> JsonValue {
        match value {
            JsonValue::String(text) => JsonValue::String(self.text(text)),
            JsonValue::Number(number) => {
                let text = number.to_string();
                let hidden = self.texts.iter().find(|(value, _)| *value == text);
                hidden.map_or_else(|| value.clone(), |(_, by)| JsonValue::String(by.clone()))
            }
            JsonValue::Array(items) => JsonValue::Array(items.iter().map(|item| self.tree(item)).collect()),
            JsonValue::Object(fields) => {
                let mut masked = JsonMap::new();
                for (key, value) in fields {
                    masked.insert(self.text(key), self.tree(value));
                }
                JsonValue::Object(masked)
            }
            JsonValue::Null | JsonValue::Bool(_) => value.clone(),
        }
    }
}

/// Returns a text as it stands between the quotes of a JSON string.
pub(crate) fn inner(text: &str) -> String {
    let quoted = JsonText::string(text);
    let quoted = quoted.as_str();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

fn leaves(value: &JsonValue, texts: &mut Vec<String>) {
    match value {
        JsonValue::String(text) => texts.push(text.clone()),
        JsonValue::Number(number) => texts.push(number.to_string()),
        JsonValue::Array(items) => items.iter().for_each(|item| leaves(item, texts)),
        JsonValue::Object(fields) => fields.values().for_each(|field| leaves(field, texts)),
        JsonValue::Null | JsonValue::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_masked_however_the_tool_repeats_it() {
        let mut mask = Mask::default();
        mask.add(&JsonText::string("a\"b c"), "secret:x");
        mask.add(&JsonText::parse(r#"{"pin":12345,"no":"abc"}"#).unwrap(), "secret:y");
        assert_eq!(mask.text(r#"bad "a"b c" or "a\"b c""#), r#"bad "secret:x" or "secret:x""#);
        let said = JsonText::parse(r#"{"k a\u0022b c":["12345",12345,123456,"abc"]}"#).unwrap();
        let shown = mask.json(said);
        assert_eq!(shown.as_str(), r#"{"k secret:x":["secret:y","secret:y",123456,"abc"]}"#);
        let harmless = JsonText::parse(r#"{ "a" : 1.0 }"#).unwrap();
        assert_eq!(mask.json(harmless.clone()).as_str(), harmless.as_str(), "nothing else is changed");
    }

    #[test]
    fn a_value_that_contains_another_is_masked_whole() {
        let mut mask = Mask::default();
        mask.add(&JsonText::string("hunter"), "secret:short");
        mask.add(&JsonText::string("hunter2000"), "secret:long");
        assert_eq!(mask.text("hunter2000 hunter"), "secret:long secret:short");
    }
}
