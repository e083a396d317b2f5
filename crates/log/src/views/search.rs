//! The search for a text in messages, arguments and results, newest first.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use proto_events::json::JsonText;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::json::{event_json, number, object, text};
use crate::views::event_row::EventRow;
use crate::views::newest_first::{newest_first, oldest_first};
use crate::views::pattern::Pattern;
use crate::views::searched_texts::{SearchedArea, each_text, unescaped};
use crate::views::selection::Selection;

/// The characters that are shown before and after what was found.
const AROUND_CHARACTERS: usize = 60;

/// The most characters of what was found that are shown.
const FOUND_CHARACTERS_MAX: usize = 200;

/// A text that was found, once for each value that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hit {
    /// The event's stream.
    pub stream: StreamId,
    /// The version in the stream.
    pub version: Version,
    /// The position in the log.
    pub position: Position,
    /// The time.
    pub at: Timestamp,
    /// The name of the event's kind.
    pub kind: &'static str,
    /// The kind of text.
    pub area: SearchedArea,
    /// The path of the value in the event's JSON.
    pub path: String,
    /// The text before it, as far as it is shown.
    pub before: String,
    /// The first place that fits, as far as it is shown.
    pub found: String,
    /// The text after it, as far as it is shown.
    pub after: String,
    /// Whether the value begins before or ends after what is shown.
    pub is_cut: bool,
}

/// The end of a search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SearchEnd {
    /// The number of texts that were found.
    pub hits: u64,
    /// The number of events that hold them.
    pub events: u64,
    /// The records that could not be read, newest first; at most one for each piece of the log.
    pub damage: Vec<ReadError>,
}

/// Shows `visit` each text of the selected events that the expression finds, newest first, until it answers `Break`. With a
/// stream only its events are searched.
///
/// Takes time in proportion to what is read. The first place in each value is found, not all of them.
///
/// # Errors
/// The error of `visit`, or a converted [`ReadError`] that is not the damage of one record.
pub fn search<E: From<ReadError>>(
    reader: &dyn EventReader,
    of: Option<&StreamId>,
    asked: &Pattern,
    mut selection: Selection,
    mut visit: impl FnMut(Hit) -> Result<ControlFlow<()>, E>,
) -> Result<SearchEnd, E> {
    // What can only be judged in order is judged before, and kept as positions.
    let taken = if selection.needs_order() { Some(taken(reader, of, &mut selection)?) } else { None };
    let mut searched = SearchEnd::default();
    let pick = |row: &EventRow| {
        let is_taken = match &taken {
            Some(taken) => taken.contains(&row.position),
            None => selection.takes(row),
        };
        is_taken.then(|| hits(row, asked)).filter(|hits| !hits.is_empty())
    };
    let damage = newest_first(reader, of, pick, |hits: Vec<Hit>| {
        searched.events += 1;
        for hit in hits {
            searched.hits += 1;
            if visit(hit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok::<_, E>(ControlFlow::Continue(()))
    })?;
    searched.damage = damage;
    Ok(searched)
}

/// Returns the positions of the selected events, as far as they can be read: the search itself meets the damage again, and tells
/// it. What selects an event stands in its own stream.
fn taken(
    reader: &dyn EventReader,
    of: Option<&StreamId>,
    selection: &mut Selection,
) -> Result<BTreeSet<Position>, ReadError> {
    let mut taken = BTreeSet::new();
    oldest_first(reader, of, |row| {
        if selection.takes(row) {
            taken.insert(row.position);
        }
    })?;
    Ok(taken)
}

/// Returns what the expression finds in an event.
fn hits(row: &EventRow, asked: &Pattern) -> Vec<Hit> {
    let Ok(event) = &row.event else { return Vec::new() };
    let payload = event_json(event).tree();
    let mut hits = Vec::new();
    each_text(&payload, &mut |area, path, text| {
        let read;
        let (text, found) = if let Some(found) = asked.find(text) {
            (text, found)
        } else {
            // What stands there as JSON, as tools and programs of Python write it, is found as a person reads it.
            let Some(unescaped) = unescaped(text) else { return };
            read = unescaped;
            let Some(found) = asked.find(&read) else { return };
            (read.as_str(), found)
        };
        let (before, inner, after) =
            (text.get(..found.start), text.get(found.clone()), text.get(found.end..));
        let before = last_characters(before.unwrap_or_default(), AROUND_CHARACTERS);
        let inner = first_characters(inner.unwrap_or_default(), FOUND_CHARACTERS_MAX);
        let after = first_characters(after.unwrap_or_default(), AROUND_CHARACTERS);
        hits.push(Hit {
            stream: row.stream.clone(),
            version: row.version,
            position: row.position,
            at: row.at,
            kind: row.kind,
            area,
            path: path.to_owned(),
            is_cut: before.len() + inner.len() + after.len() < text.len(),
            before: before.to_owned(),
            found: inner.to_owned(),
            after: after.to_owned(),
        });
    });
    hits
}

fn first_characters(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn last_characters(text: &str, most: usize) -> &str {
    let begin =
        most.checked_sub(1).and_then(|most| text.char_indices().rev().nth(most)).map(|(begin, _)| begin);
    begin.and_then(|begin| text.get(begin..)).unwrap_or(text)
}

impl Hit {
    /// Returns the hit as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.hit/1")),
            ("position", number(self.position.0)),
            ("stream", text(self.stream.as_str())),
            ("id", text(&self.stream.id())),
            ("version", number(self.version.0)),
            ("at", text(&self.at.to_string())),
            ("kind", text(self.kind)),
            ("area", text(self.area.as_str())),
            ("path", text(&self.path)),
            ("before", text(&self.before)),
            ("found", text(&self.found)),
            ("after", text(&self.after)),
            ("cut", JsonText::of_model(&self.is_cut)),
        ])
    }
}

impl SearchEnd {
    /// Returns the number of hits as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.search/1")),
            ("hits", number(self.hits)),
            ("events", number(self.events)),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto_events::call::{CallEvent, CallKind, CallOrigin};
    use proto_events::task::TaskEvent;

    use super::*;
    use crate::api::page::Page;
    use crate::api::record::StoredRecord;
    use crate::api::store::EventStore;
    use crate::memory::MemoryStore;
    use crate::testing::{DelegatingStore, Overrides};
    use crate::views::filter::{Field, Filter, Term};
    use crate::views::pattern::pattern_of_text;
    use crate::views::sample;

    /// A log whose record at this position is damaged.
    struct Damaged(u64);

    impl Damaged {
        fn without_it(&self, page: Vec<StoredRecord>) -> Result<Vec<StoredRecord>, ReadError> {
            let has_it = |stored: &StoredRecord| {
                stored.position <= Position(self.0) && Position(self.0) <= stored.last_position()
            };
            if page.iter().any(has_it) {
                return Err(ReadError::corrupt("a bit has changed", Some(Position(self.0))));
            }
            Ok(page)
        }
    }

    impl Overrides for Damaged {
        fn page_stream(
            &self,
            log: &dyn EventStore,
            stream: &StreamId,
            from: Version,
            page: Page,
        ) -> Result<Vec<StoredRecord>, ReadError> {
            self.without_it(log.page_stream(stream, from, page)?)
        }

        fn page_all(
            &self,
            log: &dyn EventStore,
            from: Position,
            page: Page,
        ) -> Result<Vec<StoredRecord>, ReadError> {
            self.without_it(log.page_all(from, page)?)
        }
    }

    /// A call of a tool, whose result has the word. Only the intent names the tool.
    fn called(tool: &str) -> [TaskEvent; 2] {
        let request = sample::requested("c1", CallKind::Tool, tool, CallOrigin::default());
        let result = JsonText::string("a needle");
        let done = CallEvent::Succeeded { call_id: "c1".to_owned(), attempt: 1, result, usage: None };
        [TaskEvent::Call(CallEvent::Requested(Box::new(request))), TaskEvent::Call(done)]
    }

    #[test]
    fn with_a_filter_that_is_judged_in_order_what_can_be_read_of_a_damaged_log_is_searched_too() {
        let store = Arc::new(MemoryStore::new());
        let streams: Vec<_> = (1..=9)
            .map(|number| sample::append(&*store, number, &called(if number == 9 { "add" } else { "pay" })))
            .collect();
        // The first event of the third task.
        let log = DelegatingStore::new(store, Damaged(5));
        let found = |of: Option<&StreamId>, filter: Filter| {
            let (asked, mut hits) = (pattern_of_text("needle").unwrap(), Vec::new());
            let searched = search(&log, of, &asked, Selection::new(filter), |hit| {
                hits.push(hit);
                Ok::<_, ReadError>(ControlFlow::Continue(()))
            });
            (hits, searched.unwrap().damage.len())
        };
        let of_pay = || Filter { terms: vec![Term::new(Field::Tool, "pay")], ..Filter::default() };
        let (all, damage) = found(None, Filter::default());
        assert_eq!((all.len(), damage), (8, 1));
        let of_tool: Vec<_> = all.into_iter().filter(|hit| hit.stream != streams[8]).collect();
        assert_eq!(found(None, of_pay()), (of_tool, 1));
        for (number, stream) in streams.iter().enumerate().take(8) {
            let by_filter = found(Some(stream), of_pay());
            assert_eq!(by_filter, found(Some(stream), Filter::default()), "{stream}");
            let expected = if number == 2 { (0, 1) } else { (1, 0) };
            assert_eq!((by_filter.0.len(), by_filter.1), expected, "{stream}");
        }
    }
}
