//! Filters of events and calls, stated as data: who reads, prints or exports them decides with the same words.

use std::borrow::Cow;
use std::fmt;

use proto_events::codec::kind;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};
use proto_events::json::JsonValue;

/// The field that a term compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The kind of the event or of the call.
    Kind,
    /// The tool that is called, asked about, or whose state is written.
    Tool,
    /// Any text in the event or in the call's arguments.
    Text,
    /// The session of the task, or the session itself.
    Session,
    /// The agent.
    Agent,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 5] = [Self::Kind, Self::Tool, Self::Text, Self::Session, Self::Agent];

    /// Returns the name of the field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Tool => "tool",
            Self::Text => "text",
            Self::Session => "session",
            Self::Agent => "agent",
        }
    }
}

/// A condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    field: Field,
    value: String,
    /// The id that the value names in another of the forms in which lists print ids.
    id: Option<String>,
}

/// A term that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a condition; write FIELD=VALUE with one of the fields kind, tool, text, session, agent"
)]
pub struct TermError(String);

impl Term {
    /// Returns the condition that a field has this value. Kinds and texts are compared without regard to case; a text
    /// may stand anywhere. A session and a tool may be named as lists print them: shortened (`s:`, `t:`), or by their stream.
    pub fn new(field: Field, value: &str) -> Self {
        let folds = matches!(field, Field::Kind | Field::Text);
        let id = match field {
            Field::Session => id_of(value, "s:", Category::Session),
            Field::Tool => id_of(value, "t:", Category::Tool),
            _ => None,
        };
        Self { field, value: if folds { value.to_lowercase() } else { value.to_owned() }, id }
    }

    /// Parses a condition written as `FIELD=VALUE`.
    ///
    /// # Errors
    /// [`TermError`] if the field does not exist, or the value.
    pub fn parse(text: &str) -> Result<Self, TermError> {
        let wrong = || TermError(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let field = Field::ALL.into_iter().find(|field| field.as_str() == name).ok_or_else(wrong)?;
        if value.is_empty() { Err(wrong()) } else { Ok(Self::new(field, value)) }
    }

    /// Returns the field.
    pub const fn field(&self) -> Field {
        self.field
    }

    /// Whether the condition names this session or tool.
    fn names(&self, id: &str) -> bool {
        self.value == id || self.id.as_deref() == Some(id)
    }

    /// Returns the value, in lower case where case does not count.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Returns the id that is printed in its shortened form or as the name of its stream.
fn id_of(printed: &str, shortening: &str, category: Category) -> Option<String> {
    let shortened = printed.strip_prefix(shortening).map(str::to_owned);
    let of_stream =
        || Some(StreamId::parse(printed).ok().filter(|stream| stream.category() == Some(category))?.id());
    shortened.or_else(of_stream)
}

/// A filter: a time span, conditions that must hold, and conditions that must not. Of several conditions on one field one
/// must hold; those on different fields must all hold. The empty filter takes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// The first time that is taken.
    pub since: Option<Timestamp>,
    /// The first time that is not taken any more.
    pub until: Option<Timestamp>,
    /// The conditions that must hold.
    pub terms: Vec<Term>,
    /// The conditions of which none may hold.
    pub not: Vec<Term>,
}

/// The subject of a filter.
pub(crate) struct FilterFacts<'a> {
    pub(crate) at: Timestamp,
    pub(crate) kind: &'a str,
    /// The family of an event's kind; empty for a call.
    pub(crate) family: &'a str,
    pub(crate) tool: Option<&'a str>,
    pub(crate) session: Option<Cow<'a, str>>,
    pub(crate) agent: &'a str,
    /// The lookup of a text in lower case.
    pub(crate) has_text: &'a dyn Fn(&str) -> bool,
}

impl Filter {
    /// Whether the filter takes everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the kinds which the conditions name exist: kinds of events or of calls, by whatever the filter takes.
    ///
    /// # Errors
    /// [`KindError`] with the first one that does not.
    pub fn check_kinds(&self, kinds: KindsOf) -> Result<(), KindError> {
        let names = kinds.names();
        let is_known = |kind: &str| names.iter().any(|name| name.eq_ignore_ascii_case(kind));
        for term in self.terms.iter().chain(&self.not) {
            if term.field == Field::Kind && !is_known(&term.value) {
                return Err(KindError { kind: term.value.clone(), kinds });
            }
        }
        Ok(())
    }

    /// Whether one of the conditions compares the field.
    pub(crate) fn names(&self, field: Field) -> bool {
        self.terms.iter().chain(&self.not).any(|term| term.field == field)
    }

    pub(crate) fn takes(&self, facts: &FilterFacts<'_>) -> bool {
        let in_time = self.since.is_none_or(|since| facts.at >= since)
            && self.until.is_none_or(|until| facts.at < until);
        let of = |field: Field| self.terms.iter().filter(move |term| term.field == field);
        in_time
            && !self.not.iter().any(|term| facts.fits(term))
            && Field::ALL
                .into_iter()
                .all(|field| of(field).next().is_none() || of(field).any(|term| facts.fits(term)))
    }
}

impl FilterFacts<'_> {
    fn fits(&self, term: &Term) -> bool {
        let value = term.value.as_str();
        match term.field {
            Field::Kind => self.kind.eq_ignore_ascii_case(value) || self.family == value,
            Field::Tool => self.tool.is_some_and(|tool| term.names(tool)),
            Field::Text => (self.has_text)(value),
            Field::Session => self.session.as_deref().is_some_and(|session| term.names(session)),
            Field::Agent => self.agent == value,
        }
    }
}

/// The families of events, each with its first number and the first one after it.
const FAMILIES: [(&str, u16, u16); 8] = [
    ("task", 1, 100),
    ("session", 100, 200),
    ("call", 200, 300),
    ("state", 300, 400),
    ("system", 400, 500),
    ("definition", 500, 600),
    ("flow", 600, 700),
    ("registry", 700, 800),
];

/// Returns the family of an event's kind, by which a filter may name all of its kinds; empty for a kind to come.
pub fn family(kind: u16) -> &'static str {
    FAMILIES.iter().find(|(_, from, to)| (*from..*to).contains(&kind)).map_or("", |(name, ..)| name)
}

/// Returns all names by which a filter may name kinds of events: the names of the kinds, then of the families.
pub fn kind_names() -> impl Iterator<Item = &'static str> {
    let kinds = kind::ALL.iter().enumerate();
    let first = kinds.filter(|(at, (_, name))| !kind::ALL.iter().take(*at).any(|(_, before)| before == name));
    first.map(|(_, (_, name))| *name).chain(FAMILIES.iter().map(|(name, ..)| *name))
}

/// The kinds of calls.
pub const CALL_KINDS: [&str; 5] = ["tool", "infer", "delegate", "handler", "agent"];

/// The kinds among which a filter names some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindsOf {
    /// The kinds of events, and their families.
    Events,
    /// The kinds of calls.
    Calls,
}

impl KindsOf {
    /// Returns the names of the kinds.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Events => kind_names().collect(),
            Self::Calls => CALL_KINDS.to_vec(),
        }
    }
}

impl fmt::Display for KindsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Events => "events",
            Self::Calls => "calls",
        })
    }
}

/// A kind that the filter cannot name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` is not a kind of {kinds}; the kinds of {kinds} are {}", .kinds.names().join(", "))]
pub struct KindError {
    kind: String,
    kinds: KindsOf,
}

impl KindError {
    /// Returns the name that is not a kind's, in lower case.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the kinds among which it was looked for.
    pub const fn kinds(&self) -> KindsOf {
        self.kinds
    }
}

/// Whether a text in lower case stands in a JSON value: in a string, a key, or the text of a number.
pub(crate) fn json_has(value: &JsonValue, text: &str) -> bool {
    // A worklist, not recursion: the value may nest to any depth.
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        let found = match value {
            JsonValue::String(said) => said.to_lowercase().contains(text),
            JsonValue::Array(items) => {
                todo.extend(items);
                false
            }
            JsonValue::Object(fields) => {
                todo.extend(fields.iter().map(|(_, value)| value));
                fields.iter().any(|(key, _)| key.to_lowercase().contains(text))
            }
            other => other.to_string().contains(text),
        };
        if found {
            return true;
        }
    }
    false
}

/// Returns the session that a task belongs to: the one that it names, else the one under its own id.
pub(crate) fn session_of<'a>(stream: &StreamId, named: Option<&'a str>) -> Cow<'a, str> {
    named.filter(|named| !named.is_empty()).map_or_else(|| Cow::Owned(stream.id()), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    fn takes(filter: &Filter) -> bool {
        let has_text = |text: &str| json_has(&json!({"Args": ["Ünter", 12.5]}), text);
        filter.takes(&FilterFacts {
            at: Timestamp(100),
            kind: "CallFailed",
            family: "call",
            tool: Some("pay"),
            session: Some("s-1".into()),
            agent: "agent",
            has_text: &has_text,
        })
    }

    fn with(terms: &[&str], not: &[&str]) -> Filter {
        let parse = |terms: &[&str]| terms.iter().map(|term| Term::parse(term).unwrap()).collect();
        Filter { terms: parse(terms), not: parse(not), ..Filter::default() }
    }

    #[test]
    fn conditions_on_one_field_are_alternatives_and_those_on_several_all_hold() {
        for terms in [
            &[][..],
            &["kind=callfailed"],
            &["kind=call", "kind=StateChanged"],
            &["tool=pay", "session=s-1", "agent=agent", "text=ünTER", "text=none"],
            &["text=12.5"],
            &["text=arg"],
        ] {
            assert!(takes(&with(terms, &[])), "{terms:?}");
        }
        for terms in [&["kind=session"][..], &["tool=Pay"], &["kind=call", "tool=add"], &["text=none"]] {
            assert!(!takes(&with(terms, &[])), "{terms:?}");
        }
    }

    #[test]
    fn what_is_negated_must_not_hold_and_times_bound_from_both_sides() {
        assert!(takes(&with(&["tool=pay"], &["kind=CallSucceeded", "session=other"])));
        assert!(!takes(&with(&["tool=pay"], &["kind=CallSucceeded", "kind=call"])));
        let span = |since: Option<i64>, until: Option<i64>| Filter {
            since: since.map(Timestamp),
            until: until.map(Timestamp),
            ..Filter::default()
        };
        assert!(takes(&span(Some(100), Some(101))) && takes(&span(None, None)));
        assert!(!takes(&span(Some(101), None)) && !takes(&span(None, Some(100))));
    }

    #[test]
    fn a_session_and_a_tool_are_named_in_each_form_in_which_they_are_printed() {
        for fits in ["session=s:s-1", "session=session-agent/s-1", "session=s-1", "tool=t:pay", "tool=pay"] {
            assert!(takes(&with(&[fits], &[])), "{fits}");
            assert!(!takes(&with(&[], &[fits])), "{fits}");
        }
        for other in ["session=s:s-2", "session=t:s-1", "session=task-agent/s-1", "tool=s:pay"] {
            assert!(!takes(&with(&[other], &[])), "{other}");
        }
    }

    #[test]
    fn a_condition_is_a_known_field_and_a_value() {
        for wrong in ["kind", "kind=", "=x", "colour=red", ""] {
            assert!(Term::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Term::parse("text=a=b").unwrap().value(), "a=b");
    }

    #[test]
    fn kinds_are_looked_for_among_those_of_what_is_filtered() {
        for (term, kinds, is_known) in [
            ("kind=CALLFAILED", KindsOf::Events, true),
            ("kind=call", KindsOf::Events, true),
            ("kind=infer", KindsOf::Events, false),
            ("kind=Infer", KindsOf::Calls, true),
            ("kind=CallFailed", KindsOf::Calls, false),
            ("tool=infer", KindsOf::Events, true),
        ] {
            assert_eq!(with(&[term], &[]).check_kinds(kinds).is_ok(), is_known, "{term} of {kinds}");
            assert_eq!(with(&[], &[term]).check_kinds(kinds).is_ok(), is_known, "not {term} of {kinds}");
        }
        let error = with(&["kind=tool"], &["kind=Odd"]).check_kinds(KindsOf::Calls).unwrap_err();
        assert_eq!((error.kind(), error.kinds()), ("odd", KindsOf::Calls));
        let says =
            "`odd` is not a kind of calls; the kinds of calls are tool, infer, delegate, handler, agent";
        assert_eq!(error.to_string(), says);
    }

    #[test]
    fn every_kind_has_a_family_and_every_name_stands_once() {
        assert!(kind::ALL.iter().all(|(number, _)| !family(*number).is_empty()));
        let names: Vec<_> = kind_names().collect();
        let once: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(once.len(), names.len());
    }
}
