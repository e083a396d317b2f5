//! The texts of errors, in a2a-utils' words. None names an address: a model reads them.

use proto_events::json::JsonText;
use proto_events::model::python;

use crate::a2a::client::error::{A2aError, ErrorReply};
use crate::client::error::ClientError;

/// The most characters of a word that an error repeats.
const WORD_MAX: usize = 200;

/// The most characters that an error repeats of what an agent said.
const SAID_MAX: usize = 1_000;

/// The most names that an error lists.
const NAMES_MAX: usize = 100;

/// Returns the beginning of a text.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Returns a word as an error repeats it, and the number of characters that are left out.
pub(crate) fn quoted(word: &str) -> String {
    let shown = beginning(word, WORD_MAX);
    match word.len() - shown.len() {
        0 => word.to_owned(),
        _ => format!("{shown}... [{} more chars]", word.chars().count() - WORD_MAX),
    }
}

/// Returns names as an error lists them.
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quoted(name)).collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown.join(", "),
        more => format!("{} ... [{more} more]", shown.join(", ")),
    }
}

/// An error in words, with the name of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribedError {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// Returns an error of the client in words.
pub(crate) fn told(error: &A2aError) -> DescribedError {
    let (kind, text) = match error {
        A2aError::Refused { reply, .. } => (refused_kind(reply), refused(reply)),
        A2aError::Transport(error) => of_transport(error),
        A2aError::Card { why, .. } | A2aError::Answer { why, .. } => {
            ("A2AClientJSONError", format!("JSON Error: {why}"))
        }
        A2aError::Credentials { why, .. } => ("A2AClientError", format!("Credentials are missing: {why}")),
        A2aError::Observer(why) => ("A2AClientError", format!("The exchange could not be noted: {why}")),
        A2aError::Request(why) => ("A2AClientInvalidArgsError", format!("Invalid arguments error: {why}")),
    };
    DescribedError { kind, text: beginning(&text, SAID_MAX).to_owned() }
}

/// Whether an error says that no answer came in time.
pub(crate) fn is_timeout(error: &A2aError) -> bool {
    matches!(error, A2aError::Transport(ClientError::TimedOut { .. }))
}

fn of_transport(error: &ClientError) -> (&'static str, String) {
    let (kind, text) = match error {
        ClientError::TimedOut { .. } => {
            return ("A2AClientTimeoutError", "Timeout Error: Client Request timed out".to_owned());
        }
        ClientError::Status { status, body, .. } => {
            return ("A2AClientHTTPError", format!("HTTP Error {}: {body}", status.as_u16()));
        }
        ClientError::TooLarge { limit, .. } => {
            ("A2AClientError", format!("The answer has more than {limit} bytes"))
        }
        ClientError::Unreachable { .. } => {
            ("A2AClientHTTPError", "HTTP Error 503: Network communication error: no connection".to_owned())
        }
        ClientError::Url { .. } => ("A2AClientError", "The address is none of an agent".to_owned()),
        _ => (
            "A2AClientHTTPError",
            "HTTP Error 503: Network communication error: the connection broke".to_owned(),
        ),
    };
    (kind, text)
}

fn refused_kind(reply: &ErrorReply) -> &'static str {
    if reply.code.is_some() { "A2AClientJSONRPCError" } else { "A2AClientHTTPError" }
}

fn refused(reply: &ErrorReply) -> String {
    let Some(code) = reply.code else { return format!("HTTP Error {}: {}", reply.status, reply.message) };
    let data = match reply.details.as_slice() {
        [] => "None".to_owned(),
        [one] => python::repr_of(one),
        several => python::repr_of(&JsonText::of_model(&several)),
    };
    format!("JSON-RPC Error code={code} data={data} message={}", python::repr_str(&reply.message))
}
