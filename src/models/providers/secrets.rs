//! Redaction of secrets in answers and error texts, also where a secret comes in pieces.

use std::fmt;
use std::sync::Arc;

use proto_events::json::{JsonObject, JsonText};

use crate::models::backend::{InferError, InferReply, ToolAsk};

/// The replacement of a redacted secret.
const REDACTED: &str = "[REDACTED]";

/// The shortest secret that is redacted, in bytes: shorter ones would match ordinary text.
const SECRET_BYTES_MIN: usize = 4;

/// The texts that must be redacted.
#[derive(Clone, Default)]
pub(crate) struct SecretTexts(Vec<Arc<str>>);

impl fmt::Debug for SecretTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl SecretTexts {
    /// Adds a secret.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= SECRET_BYTES_MIN {
            self.0.push(Arc::from(secret));
        }
    }

    /// Replaces the secrets in a text: some servers echo the key that they refuse. Secrets that overlap are
    /// replaced as one.
    pub(crate) fn redact(&self, text: String) -> String {
        if !self.0.iter().any(|secret| text.contains(&**secret)) {
            return text;
        }
        let mut filter = self.filter();
        let start = filter.pass(&text);
        start + &filter.flush()
    }

    /// Returns a filter for a text that comes in pieces.
    pub(crate) fn filter(&self) -> SecretFilter<'_> {
        SecretFilter { secrets: self, held: String::new(), hidden: 0 }
    }

    /// Replaces the secrets in a tool call that a model asks for.
    fn redact_ask(&self, ask: ToolAsk) -> ToolAsk {
        let args = self.redact(ask.args.as_str().to_owned());
        // What replaces a secret stands in a string of the JSON, which stays JSON.
        let args = JsonText::parse(&args).unwrap_or_else(|_| JsonText::string(&args));
        ToolAsk { tool: self.redact(ask.tool), args, provider: self.redact_object(&ask.provider) }
    }

    fn redact_object(&self, object: &JsonObject) -> JsonObject {
        let text = self.redact(object.to_text().as_str().to_owned());
        JsonText::parse_stored(&text).ok().and_then(|text| text.read().ok()).unwrap_or_default()
    }

    /// Replaces the secrets in the answer or error of a call.
    pub(crate) fn redact_outcome(
        &self,
        outcome: Result<InferReply, InferError>,
    ) -> Result<InferReply, InferError> {
        match outcome {
            Ok(reply) => Ok(InferReply {
                content: self.redact(reply.content),
                calls: reply.calls.into_iter().map(|ask| self.redact_ask(ask)).collect(),
                model: self.redact(reply.model),
                usage: reply.usage,
                reasoning: reply.reasoning.map(|reasoning| self.redact(reasoning)),
                provider: self.redact_object(&reply.provider),
                without_reason: reply.without_reason,
            }),
            Err(error) => Err(InferError {
                kind: error.kind,
                type_name: self.redact(error.type_name),
                message: self.redact(error.message),
                usage: error.usage,
            }),
        }
    }

    /// Returns where the secrets stand in the text, in order; places that overlap are one, also with the bytes at
    /// its start that are `hidden` already.
    fn places(&self, text: &str, hidden: usize) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for secret in &self.0 {
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| rest.find(&**secret)) {
                all.push((from + at, from + at + secret.len()));
                let first = secret.chars().next().map_or(1, char::len_utf8);
                from += at + first;
            }
        }
        all.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(all.len() + 1);
        merged.extend((hidden > 0).then_some((0, hidden)));
        for (start, end) in all {
            match merged.last_mut() {
                Some((_, last)) if start < *last => *last = end.max(*last),
                _ => merged.push((start, end)),
            }
        }
        merged
    }

    /// Returns the first place from which the text, up to its end, may be the beginning of a secret.
    fn open_from(&self, text: &str) -> usize {
        let longest = self.0.iter().map(|secret| secret.len()).max().unwrap_or_default();
        let mut from = text.len().saturating_sub(longest.saturating_sub(1));
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let rest = text.get(from..).unwrap_or_default();
        let begins =
            |tail: &str| self.0.iter().any(|secret| secret.len() > tail.len() && secret.starts_with(tail));
        rest.char_indices()
            .map(|(at, _)| from + at)
            .find(|at| begins(text.get(*at..).unwrap_or_default()))
            .unwrap_or(text.len())
    }
}

/// The secrets of a text that comes in pieces, redacted: what may be the beginning of a secret is held back until
/// the next piece shows that it is not a secret. Its pieces together are the whole text as [`SecretTexts::redact`] returns it.
#[derive(Debug)]
pub(crate) struct SecretFilter<'a> {
    secrets: &'a SecretTexts,
    /// The end of the text so far, which may be the beginning of a secret: shorter than the longest one.
    held: String,
    /// The number of bytes at the start of what is held that belong to a secret that is replaced already.
    hidden: usize,
}

impl SecretFilter<'_> {
    /// Takes the next piece and returns what can be shown; it may be empty.
    pub(crate) fn pass(&mut self, piece: &str) -> String {
        if self.secrets.0.is_empty() {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        self.show(self.secrets.open_from(&self.held))
    }

    /// Returns what is held back. No piece follows.
    pub(crate) fn flush(&mut self) -> String {
        self.show(self.held.len())
    }

    /// Returns the text held up to this byte, redacted, and keeps the rest.
    fn show(&mut self, end: usize) -> String {
        let text = std::mem::take(&mut self.held);
        let (mut shown, mut at, mut hidden) = (String::with_capacity(end), 0, 0);
        let is_replaced = self.hidden > 0;
        for (index, (start, stop)) in self.secrets.places(&text, self.hidden).into_iter().enumerate() {
            if index > 0 || !is_replaced {
                if start >= end {
                    break;
                }
                shown.push_str(text.get(at..start).unwrap_or_default());
                shown.push_str(REDACTED);
            }
            at = stop.min(end);
            hidden = stop.saturating_sub(end);
        }
        shown.push_str(text.get(at..end).unwrap_or_default());
        text.get(end..).unwrap_or_default().clone_into(&mut self.held);
        self.hidden = hidden;
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(all: &[&str]) -> SecretTexts {
        let mut secrets = SecretTexts::default();
        for secret in all {
            secrets.add(secret);
        }
        secrets
    }

    #[test]
    fn a_secret_is_printed_nowhere() {
        let secrets = secrets(&["sk-secret", "sk-secret-long", "abc"]);
        assert_eq!(format!("{secrets:?}"), "2 secrets");
        let text = "wrong key sk-secret-long, sk-secret; abc".to_owned();
        assert_eq!(secrets.redact(text), "wrong key [REDACTED], [REDACTED]; abc");
    }

    #[test]
    fn secrets_that_overlap_are_one_and_those_that_touch_are_two() {
        assert_eq!(secrets(&["abcd", "cdefg"]).redact("xabcdefgx".to_owned()), "x[REDACTED]x");
        assert_eq!(secrets(&["abcd"]).redact("abcdabcd".to_owned()), "[REDACTED][REDACTED]");
        assert_eq!(secrets(&["abab"]).redact("xabababx".to_owned()), "x[REDACTED]x");
    }

    #[test]
    fn only_what_may_begin_a_secret_is_held_back() {
        let secrets = secrets(&["sk-é-secret"]);
        let mut filter = secrets.filter();
        assert_eq!(filter.pass("the key sk-"), "the key ");
        assert_eq!(filter.pass("é-s"), "");
        assert_eq!(filter.pass("ad"), "sk-é-sad");
        assert_eq!(filter.pass(" sk-é-secre"), " ");
        assert_eq!(filter.pass("t."), "[REDACTED].");
        assert_eq!(filter.pass("sk-"), "");
        assert_eq!(filter.flush(), "sk-", "the text ends");
    }

    proptest! {
        #[test]
        fn no_split_of_a_text_lets_a_secret_through(
            keys in prop::collection::vec("[abé]{2,6}", 0..4),
            pieces in prop::collection::vec("[abé-]{0,5}", 0..16),
        ) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let secrets = secrets(&keys);
            let (mut filter, mut shown) = (secrets.filter(), String::new());
            for piece in &pieces {
                shown.push_str(&filter.pass(piece));
                prop_assert!(filter.held.len() < 12, "more is held than a secret can have: {}", filter.held);
            }
            shown.push_str(&filter.flush());
            prop_assert_eq!(&shown, &secrets.redact(pieces.concat()));
            let plain = shown.replace(REDACTED, "|");
            for secret in &secrets.0 {
                prop_assert!(!plain.contains(&**secret), "{} in {}", secret, shown);
            }
        }
    }
}
