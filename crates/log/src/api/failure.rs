//! An error of reading as JSON, for readers that get it over a wire.

use proto_events::id::{Position, StreamId, Version};
use serde::{Deserialize, Serialize};

use crate::api::error::ReadError;

/// A [`ReadError`] in a form that goes over a wire: the local socket and the live API write it so. What comes back is the error
/// that it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFailure {
    class: Class,
    what: String,
    stream: Option<String>,
    version: Option<u64>,
    position: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Class {
    Corrupt,
    Newer,
    Index,
    Ahead,
    Io,
    Closed,
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        let (class, what, stream, version, position) = match error {
            ReadError::Corrupt { what, stream, version, position } => {
                (Class::Corrupt, what, stream, version, position)
            }
            ReadError::Newer { what, stream, version, position } => {
                (Class::Newer, what, stream, version, position)
            }
            ReadError::Index { what, stream, version, position } => {
                (Class::Index, what, stream, version, position)
            }
            ReadError::Ahead { what, asked, head } => {
                (Class::Ahead, what, None, Some(Version(asked)), Some(Position(head)))
            }
            ReadError::Io(what) => (Class::Io, what, None, None, None),
            ReadError::Closed => (Class::Closed, text, None, None, None),
        };
        let (version, position) = (version.map(|version| version.0), position.map(|position| position.0));
        Self { class, what, stream: stream.map(|stream| stream.to_string()), version, position }
    }
}

impl From<ReadFailure> for ReadError {
    fn from(failure: ReadFailure) -> Self {
        let ReadFailure { class, what, stream, version, position } = failure;
        // A name that is not known is left out: the failure is told all the same.
        let stream = stream.and_then(|name| StreamId::parse(&name).ok());
        let (version, position) = (version.map(Version), position.map(Position));
        match class {
            Class::Corrupt => Self::Corrupt { what, stream, version, position },
            Class::Newer => Self::Newer { what, stream, version, position },
            Class::Index => Self::Index { what, stream, version, position },
            Class::Ahead => {
                let (asked, head) = (version.map_or(0, |asked| asked.0), position.map_or(0, |head| head.0));
                Self::Ahead { what, asked, head }
            }
            Class::Io => Self::Io(what),
            Class::Closed => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_back_as_the_error_that_it_was() {
        let (stream, version) = (Some(StreamId::parse("task-a/b").unwrap()), Some(Version(3)));
        let (what, position) = ("it is\ngone".to_owned(), Some(Position(9)));
        for error in [
            ReadError::Corrupt { what: what.clone(), stream: stream.clone(), version, position },
            ReadError::Newer { what: what.clone(), stream: None, version, position },
            ReadError::Index { what: what.clone(), stream, version: None, position: None },
            ReadError::Ahead { what: what.clone(), asked: 12, head: 9 },
            ReadError::Io(what),
            ReadError::Closed,
        ] {
            let text = serde_json::to_string(&ReadFailure::from(error.clone())).unwrap();
            assert_eq!(ReadError::from(serde_json::from_str::<ReadFailure>(&text).unwrap()), error, "{text}");
        }
        // The form of releases before this one.
        let text = r#"{"class":"ahead","what":"x","stream":null,"version":12,"position":9}"#;
        let ahead = ReadError::Ahead { what: "x".to_owned(), asked: 12, head: 9 };
        assert_eq!(serde_json::to_string(&ReadFailure::from(ahead)).unwrap(), text);
    }
}
