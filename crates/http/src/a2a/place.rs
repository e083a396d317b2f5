//! The place in a task's events from which a stream continues: what a frame of a stream has as its id.

use std::fmt;

use proto_events::id::Digest;
use taskreel::Version;

use crate::a2a::wire::fields::Invalid;

/// The parameter of the query that names a place, as `Last-Event-ID` does.
pub(crate) const AFTER: &str = "after";

/// A place in a task's events: its id, a version of its stream, and in the middle of an answer what was told of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskPlace {
    pub(crate) task: String,
    pub(crate) version: Version,
    pub(crate) told: Option<ToldAnswer>,
}

/// The beginning of a model's answer that was told while it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldAnswer {
    /// The first letters of the digest of the call's id.
    call: String,
    attempt: u32,
    /// The bytes that were told.
    pub(crate) bytes: usize,
}

impl ToldAnswer {
    /// Returns that nothing was told of an attempt.
    pub(crate) fn new(call_id: &str, attempt: u32) -> Self {
        Self { call: format!("{:.8}", Digest::compute(call_id.as_bytes()).to_string()), attempt, bytes: 0 }
    }

    /// Whether it is of this attempt.
    pub(crate) fn is_of(&self, call_id: &str, attempt: u32) -> bool {
        *self == Self { bytes: self.bytes, ..Self::new(call_id, attempt) }
    }
}

impl fmt::Display for TaskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.task, self.version.0)?;
        match &self.told {
            Some(ToldAnswer { call, attempt, bytes }) => write!(f, "~{call}.{attempt}.{bytes}"),
            None => Ok(()),
        }
    }
}

impl TaskPlace {
    /// Reads a place in a task's events. The task may be left out.
    ///
    /// # Errors
    /// [`Invalid`] if the text is not a place, or one of another task.
    pub(crate) fn read(text: &str, task: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let place = text.strip_prefix(task).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text);
        let read = || {
            let (version, told) =
                place.split_once('~').map_or((place, None), |(version, told)| (version, Some(told)));
            let told = match told {
                Some(told) => Some(read_told(told)?),
                None => None,
            };
            Some(Self { task: task.to_owned(), version: Version(version.parse().ok()?), told })
        };
        let what = "must be a place in the events of this task";
        read().ok_or_else(|| Invalid::new("Last-Event-ID", what))
    }
}

fn read_told(text: &str) -> Option<ToldAnswer> {
    let mut fields = text.split('.');
    let (call, attempt, bytes) = (fields.next()?, fields.next()?, fields.next()?);
    let is_digest = call.len() == 8 && call.bytes().all(|byte| byte.is_ascii_hexdigit());
    let told =
        ToldAnswer { call: call.to_owned(), attempt: attempt.parse().ok()?, bytes: bytes.parse().ok()? };
    (is_digest && fields.next().is_none()).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_and_anything_else_is_refused() {
        let told = ToldAnswer { bytes: 12, ..ToldAnswer::new("call_1", 2) };
        for (task, told) in [("t", None), ("a:b~c.d", Some(told.clone())), ("7", Some(told.clone()))] {
            let place = TaskPlace { task: task.to_owned(), version: Version(7), told };
            assert_eq!(TaskPlace::read(&place.to_string(), task), Ok(place));
        }
        assert_eq!(TaskPlace::read(" 9 ", "t").unwrap().version, Version(9));
        assert!(told.is_of("call_1", 2) && !told.is_of("call_1", 1) && !told.is_of("call_2", 2));
        for wrong in [
            "",
            "t",
            "t:",
            "u:7",
            "t:7~",
            "t:7~x.1.2",
            "t:7~0011223.1.2",
            "t:7~00112233.1",
            "t:7~00112233.1.2.3",
            "t:-1",
        ] {
            assert!(TaskPlace::read(wrong, "t").is_err(), "{wrong}");
        }
    }
}
