//! The page that a request asks for, and the values of its query.

use std::str::FromStr;

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use taskreel_log::views::{Field, Filter, Term};

use crate::error::Problem;
use crate::handler::path::{pairs, segments};
use crate::handler::time::{Bound, time_of};
use crate::inspect::address::of_piece;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Page {
    /// The runs of the log.
    Runs,
    /// A task.
    Task(StreamId),
    /// The inbox, with all that needs a person.
    Inbox,
    /// The place to which forms are sent.
    Decide,
    /// The list of sessions.
    Sessions,
    /// A session.
    Session(StreamId),
    /// An event as it is stored.
    Event(StreamId, Version),
    /// The payload of an event, whole.
    Body(StreamId, Version),
    /// Tools and models.
    Tools,
    /// The verification of the log.
    Audit,
    /// The page that follows the log.
    Live,
    /// The events that this page takes.
    LiveEvents,
    /// The comparison of two runs.
    Compare,
    /// The report of a task or a session.
    Report(StreamId),
    /// The content of an artifact, or of a long result, of a task.
    Artifact(StreamId, String),
    /// The page of whatever has an id.
    Open,
    /// The choice of colours.
    Theme,
    /// A file of the pages.
    Asset(String),
}

impl Page {
    /// Returns the page at a path.
    ///
    /// # Errors
    /// [`Problem`] if the page does not exist.
    pub(crate) fn from_path(path: &str) -> Result<Self, Problem> {
        let given = segments(path).map_err(|error| Problem::malformed(error.to_string()))?;
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let wrong = |error: proto_events::id::IdError| Problem::malformed(error.to_string());
        let version = |text: &str| {
            let parsed = text.parse().map_err(|_| Problem::malformed(format!("`{text}` is not a version")));
            parsed.map(Version)
        };
        let stream = |text: &str| StreamId::parse(of_piece(text)).map_err(wrong);
        Ok(match given.as_slice() {
            [""] => Self::Runs,
            ["t", agent, id] => Self::Task(StreamId::task(of_piece(agent), of_piece(id)).map_err(wrong)?),
            ["s", agent, id] => {
                Self::Session(StreamId::session(of_piece(agent), of_piece(id)).map_err(wrong)?)
            }
            ["e", name, at] => Self::Event(stream(name)?, version(at)?),
            ["e", name, at, "body"] => Self::Body(stream(name)?, version(at)?),
            ["report", "t", agent, id] => {
                Self::Report(StreamId::task(of_piece(agent), of_piece(id)).map_err(wrong)?)
            }
            ["report", "s", agent, id] => {
                Self::Report(StreamId::session(of_piece(agent), of_piece(id)).map_err(wrong)?)
            }
            ["a", agent, task, id] => {
                let task = StreamId::task(of_piece(agent), of_piece(task)).map_err(wrong)?;
                Self::Artifact(task, of_piece(id).to_owned())
            }
            ["inbox"] => Self::Inbox,
            ["decide"] => Self::Decide,
            ["sessions"] => Self::Sessions,
            ["tools"] => Self::Tools,
            ["audit"] => Self::Audit,
            ["live"] => Self::Live,
            ["live", "events"] => Self::LiveEvents,
            ["compare"] => Self::Compare,
            ["open"] => Self::Open,
            ["theme"] => Self::Theme,
            ["assets", name] => Self::Asset((*name).to_owned()),
            _ => return Err(Problem::not_found(format!("there is no page at `{path}`"))),
        })
    }
}

/// The values of a query. A name without a value counts as not there: forms send all of their fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// [`Problem`] if it is not well formed.
    pub(crate) fn from_query(query: Option<&str>) -> Result<Self, Problem> {
        let pairs =
            pairs(query.unwrap_or_default()).map_err(|error| Problem::malformed(error.to_string()))?;
        let trimmed = pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned()));
        Ok(Self(trimmed.filter(|(_, value)| !value.is_empty()).collect()))
    }

    /// Returns the first value of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).next()
    }

    /// Returns all values of a name.
    pub(crate) fn texts<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a number.
    ///
    /// # Errors
    /// [`Problem`] if the value is not valid.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Problem> {
        let wrong = |text: &str| Problem::malformed(format!("`{name}` is not a number that fits: `{text}`"));
        self.text(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Returns the time of a bound, see [`time_of`].
    ///
    /// # Errors
    /// [`Problem`] if the value is not valid.
    pub(crate) fn time(&self, bound: Bound) -> Result<Option<Timestamp>, Problem> {
        let name = bound.as_str();
        let wrong = |text: &str| {
            Problem::malformed(format!(
                "`{name}` is not a time such as 2026-11-21T07:03 or 2026-11-21: `{text}`"
            ))
        };
        self.text(name).map(|text| time_of(text, bound).ok_or_else(|| wrong(text))).transpose()
    }

    /// Returns the filter of events or calls that the query states. The page checks the kinds, which depend on what it shows.
    ///
    /// # Errors
    /// [`Problem`] if a value is not valid.
    pub(crate) fn filter(&self) -> Result<Filter, Problem> {
        let mut filter = Filter::default();
        for field in Field::ALL {
            filter.terms.extend(self.texts(field.as_str()).map(|value| Term::new(field, value)));
        }
        (filter.since, filter.until) = (self.time(Bound::Since)?, self.time(Bound::Until)?);
        Ok(filter)
    }
}

/// Returns the conditions in a text: a text search goes on to its end, others end at a space.
pub(crate) fn conditions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = if rest.starts_with("text=") { rest.len() } else { rest.find(' ').unwrap_or(rest.len()) };
        found.push(rest.get(..end).unwrap_or_default());
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_path_names_a_page_or_is_refused() {
        assert_eq!(Page::from_path("/").unwrap(), Page::Runs);
        let task = Page::Task(StreamId::task("ada", "a/b").unwrap());
        assert_eq!(Page::from_path("/t/ada/a%2Fb").unwrap(), task);
        for (path, status) in [
            ("/nothing", StatusCode::NOT_FOUND),
            ("/t/ada", StatusCode::NOT_FOUND),
            ("/t/ada/", StatusCode::BAD_REQUEST),
            ("/e/task-ada/x/one", StatusCode::NOT_FOUND),
            ("/e/task-ada%2Fx/one", StatusCode::BAD_REQUEST),
            ("/e/nonsense/1", StatusCode::BAD_REQUEST),
            ("/%ff", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(Page::from_path(path).unwrap_err().status(), status, "{path}");
        }
    }

    #[test]
    fn what_is_left_out_is_stated_by_conditions() {
        assert_eq!(conditions("state=failed tool=pay"), ["state=failed", "tool=pay"]);
        assert_eq!(conditions(" tool=pay  text=no more of it "), ["tool=pay", "text=no more of it"]);
    }

    #[test]
    fn a_query_is_read_as_a_form_sends_it() {
        let asked = "state=failed&state=&agent=+&text=a+b&since=2026-11-21&until=2026-11-21&at=x";
        let query = Query::from_query(Some(asked)).unwrap();
        assert_eq!(query.texts("state").collect::<Vec<_>>(), ["failed"]);
        assert_eq!((query.text("agent"), query.text("text")), (None, Some("a b")));
        assert_eq!(query.time(Bound::Since).unwrap().unwrap().to_string(), "2026-11-21T00:00:00+00:00");
        let until = query.time(Bound::Until).unwrap().unwrap();
        assert_eq!(until.to_string(), "2026-11-22T00:00:00+00:00", "a date is taken with all of its day");
        assert!(query.number::<u64>("at").is_err());
        assert!(Query::from_query(Some("until=yesterday")).unwrap().time(Bound::Until).is_err());
    }
}
