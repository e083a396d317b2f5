//! Code shared by the backends of different providers: tool names that their APIs accept, errors, and the
//! delay that a busy server asks for.

use std::time::Duration;

use proto_events::json::{JsonObject, JsonText};
use taskreel_log::ports::{Clock, SystemClock};

use crate::models::backend::{InferError, InferErrorKind};
use crate::models::message::{ChatMessage, Image};
use crate::tools::registry::ToolSpec;

/// The longest name of a tool or speaker that the APIs accept, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The offered names of tools with their own names, in the order of the tools.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(String, String)>);

impl Names {
    pub(crate) fn from_tools(tools: &[ToolSpec]) -> Self {
        let mut names = Self::default();
        // Valid names are reserved first, so that no generated name takes one of them.
        let mut taken: Vec<String> =
            tools.iter().map(|tool| tool.name.clone()).filter(|name| is_plain(name)).collect();
        for tool in tools {
            let alias = if is_plain(&tool.name) { tool.name.clone() } else { alias(&tool.name, &taken) };
            taken.push(alias.clone());
            names.0.push((alias, tool.name.clone()));
        }
        names
    }

    /// Whether no tool is offered.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the offered names, in the order of the tools.
    pub(crate) fn offered(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(alias, _)| alias.as_str())
    }

    /// Returns the name under which a tool is offered. One that is gone keeps a name that the API accepts.
    pub(crate) fn alias(&self, tool: &str) -> String {
        let known = self.0.iter().find(|(_, own)| own == tool).map(|(alias, _)| alias.clone());
        known.unwrap_or_else(|| if is_plain(tool) { tool.to_owned() } else { alias(tool, &[]) })
    }

    /// Returns the tool for a name in an answer; an unknown name is returned unchanged.
    pub(crate) fn tool<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|(alias, _)| alias == name).map_or(name, |(_, tool)| tool)
    }
}

pub(crate) fn is_plain(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain_byte)
}

fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns the name with other characters replaced by `_`, and with a number at the end if it is taken.
fn alias(name: &str, taken: &[String]) -> String {
    let plain: String = name
        .chars()
        .map(|char| if u8::try_from(char).is_ok_and(is_plain_byte) { char } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    let plain = if plain.is_empty() { "tool".to_owned() } else { plain };
    let numbered = (2_usize..).map(|number| {
        let end = format!("_{number}");
        let start: String = plain.chars().take(NAME_BYTES_MAX - end.len()).collect();
        start + &end
    });
    std::iter::once(plain.clone()).chain(numbered).find(|alias| !taken.contains(alias)).unwrap_or(plain)
}

/// Returns the model settings that an inference's intent records: the address, the form of tool calls and
/// notes where they differ from the default, the parameters. The order of the fields affects the intent's
/// digest.
pub(crate) fn described(
    base_url: Option<&str>,
    native_tools: bool,
    notes: Option<&str>,
    parameters: &JsonObject,
) -> JsonObject {
    let mut said = JsonObject::new();
    let texts =
        [("base_url", base_url), ("tools", (!native_tools).then_some("json-actions")), ("notes", notes)];
    for (name, text) in texts {
        if let Some(text) = text {
            said.set(name, JsonText::string(text));
        }
    }
    if !parameters.is_empty() {
        said.set("parameters", parameters.to_text());
    }
    said
}

/// A message of a conversation, or images of tools in a message of their own.
pub(crate) enum SentMessage<'a> {
    Message(&'a ChatMessage),
    /// Images of the answers before.
    Images {
        images: Vec<&'a Image>,
        /// Whether a tool's answer stands before. Some servers, Mistral's among them, refuse a message of the user there.
        follows_answer: bool,
    },
}

/// The text that the model is made to say between the answers of tools and their images.
pub(crate) const IMAGES_PLEASE: &str = "Show me the images of these results.";

/// Returns the messages with the images of tools apart, behind all answers to one message of the model: most providers take
/// images in messages of the user alone.
pub(crate) fn with_images_apart(messages: &[ChatMessage]) -> Vec<SentMessage<'_>> {
    let mut sent = Vec::with_capacity(messages.len());
    let mut images: Vec<&Image> = Vec::new();
    let mut messages = messages.iter().peekable();
    while let Some(message) = messages.next() {
        sent.push(SentMessage::Message(message));
        images.extend(&message.images);
        let answers_go_on = messages.peek().is_some_and(|next| next.answers.is_some());
        if !images.is_empty() && !answers_go_on {
            let follows_answer = message.answers.is_some();
            sent.push(SentMessage::Images { images: std::mem::take(&mut images), follows_answer });
        }
    }
    sent
}

/// Returns the words before an image.
pub(crate) fn caption(image: &Image) -> String {
    format!("{}, artifact {}:", image.media_type, image.artifact_id)
}

/// Returns the arguments of a call as a history is sent them: always an object, since servers refuse anything else for good.
pub(crate) fn sent_arguments(args: &JsonText) -> JsonText {
    if args.as_str().trim_start().starts_with('{') {
        return args.clone();
    }
    let mut object = JsonObject::new();
    object.set("invalid", args.clone());
    object.to_text()
}

/// Returns a permanent error.
pub(crate) fn failed(type_name: &str, message: String) -> InferError {
    InferError::new(InferErrorKind::Failed, type_name, message)
}

/// Returns an error that a retry may resolve, after the delay that the server asks for.
pub(crate) fn passing(type_name: &str, message: String, retry_after: Option<Duration>) -> InferError {
    InferError::new(InferErrorKind::Transient { retry_after }, type_name, message)
}

/// Returns the error for an unusable answer.
pub(crate) fn malformed(type_name: &str, message: String) -> InferError {
    InferError::new(InferErrorKind::Malformed, type_name, message)
}

/// Returns the reason for which a provider says that a reply ended, if it says one: some send an empty text in each
/// piece of a stream.
pub(crate) fn end_reason(word: &str) -> Option<&str> {
    Some(word.trim()).filter(|word| !word.is_empty() && *word != "null")
}

/// Returns the failure that the reason of a reply's end stands for; `None` for a good end and for the token limit. A
/// word that is not known as a good end is a failure.
pub(crate) fn failed_end(reason: &str) -> Option<InferError> {
    const GOOD: [&str; 11] = [
        "stop",
        "tool_calls",
        "tool_call",
        "tool_use",
        "function_call",
        "stop_sequence",
        "end_turn",
        "eos",
        "eos_token",
        "complete",
        "completed",
    ];
    const PASSING: [&str; 8] =
        ["error", "network", "insufficient_system", "abort", "overload", "timeout", "unavailable", "server"];
    let word = reason.to_ascii_lowercase();
    if GOOD.contains(&word.as_str()) || is_token_limit(reason) {
        return None;
    }
    if word == "content_filter" {
        let why = "the provider's content filter stopped the answer";
        return Some(failed("ContentFilter", why.to_owned()));
    }
    let why = format!("the model's server ended the answer with `{reason}`");
    if PASSING.iter().any(|sign| word.contains(sign)) {
        return Some(passing("BrokenAnswer", why, None));
    }
    Some(failed("BrokenAnswer", why))
}

/// Whether a reply ended at the limit of its tokens.
pub(crate) fn is_token_limit(reason: &str) -> bool {
    let limits = ["length", "max_tokens", "max_output_tokens", "model_length"];
    limits.iter().any(|limit| limit.eq_ignore_ascii_case(reason))
}

/// Returns the delay that the server asks for: in seconds, as a date, or in milliseconds. `header` returns a
/// header by its name.
pub(crate) fn retry_after<'h>(header: impl Fn(&'static str) -> Option<&'h str>) -> Option<Duration> {
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok()) {
        return seconds(millis / 1_000.0);
    }
    let wait = header("retry-after")?.trim();
    if let Ok(given) = wait.parse::<f64>() {
        return seconds(given);
    }
    let micros = |text: &str| {
        let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
        parser.parse_timestamp(text).ok().map(jiff::Timestamp::as_microsecond)
    };
    // The server's own clock, if it sends the time: ours may be wrong.
    let now = header("date").and_then(|date| micros(date.trim())).unwrap_or_else(|| SystemClock.now().0);
    let wait = micros(wait)?.saturating_sub(now);
    Some(Duration::from_micros(u64::try_from(wait).unwrap_or(0)))
}

fn seconds(given: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(given.max(0.0)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto_events::json::JsonValue as Value;

    use super::*;
    use crate::tools::policy::ToolPolicy;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: Arc::new(Value::Null),
            policy: ToolPolicy::read_only(),
        }
    }

    #[test]
    fn names_that_the_api_refuses_are_exchanged_and_found_again() {
        let long = "x".repeat(70);
        let tools: Vec<_> = ["a.b", "a_b", "a b", "", &long, &(long.clone() + "y")].map(tool).into();
        let names = Names::from_tools(&tools);
        let offered: Vec<_> = names.0.iter().map(|(alias, _)| alias.as_str()).collect();
        assert_eq!(offered.get(..4).unwrap(), ["a_b_2", "a_b", "a_b_3", "tool"]);
        for (alias, own) in &names.0 {
            assert!(is_plain(alias), "{alias}");
            assert_eq!(names.tool(alias), own);
        }
        assert_eq!(names.tool("other"), "other");
    }

    #[test]
    fn only_a_reason_that_is_known_as_good_ends_a_reply_well() {
        for good in ["stop", "STOP", "tool_calls", "end_turn", "eos", "length", "MAX_TOKENS"] {
            assert_eq!(failed_end(good), None, "{good}");
        }
        let passes = ["error", "abort", "network_error", "insufficient_system_resource", "overloaded"];
        for word in passes {
            let error = failed_end(word).unwrap();
            assert!(error.is_transient() && error.message.contains(word), "{error:?}");
        }
        for word in ["sensitive", "model_context_window_exceeded", "pause_turn", "OTHER", "content_filter"] {
            assert_eq!(failed_end(word).unwrap().kind, InferErrorKind::Failed, "{word}");
        }
        assert_eq!([end_reason(""), end_reason(" "), end_reason("stop")], [None, None, Some("stop")]);
    }

    fn waits(headers: &[(&'static str, &str)]) -> Option<f64> {
        let header = |asked: &str| headers.iter().find(|(name, _)| *name == asked).map(|(_, value)| *value);
        retry_after(header).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn a_wait_is_read_in_each_of_its_forms() {
        assert_eq!(waits(&[("retry-after", "7")]), Some(7.0));
        assert_eq!(waits(&[("retry-after", "0.5")]), Some(0.5));
        assert_eq!(waits(&[("retry-after", "-3")]), Some(0.0));
        assert_eq!(waits(&[("retry-after", "9"), ("retry-after-ms", "250")]), Some(0.25));
        let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(waits(&[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT"), date]), Some(30.0));
        assert_eq!(waits(&[("retry-after", "Wed, 21 Oct 2015 07:27:00 GMT"), date]), Some(0.0));
        assert_eq!(waits(&[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]), Some(0.0));
        for odd in ["soon", "", "NaN", "inf", "1e300"] {
            assert_eq!(waits(&[("retry-after", odd)]).filter(|wait| *wait > 0.0), None, "{odd}");
        }
        assert_eq!(waits(&[]), None);
    }
}
