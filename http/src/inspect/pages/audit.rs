//! The audit: what the log holds, and the verification of all of it or of one stream, on demand, since it reads everything.

use std::time::Instant;

use askama::Template;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::audit::{Finding, Scope, Verified, verify_within};
use taskreel_log::views::shell_word;

use crate::api::reading::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, Answered};
use crate::inspect::asked::Query;
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, Frame};
use crate::inspect::words;

#[derive(Template)]
#[template(path = "inspect/audit.html")]
struct AuditPage {
    frame: Frame,
    /// The last record of the log: names and values.
    head: Vec<(&'static str, String)>,
    stream: Value,
    verified: Option<Report>,
    command: String,
}

struct Report {
    is_sound: bool,
    words: String,
    facts: Vec<(&'static str, String)>,
    findings: Vec<FindingView>,
    dropped: u64,
    unchecked: Vec<String>,
}

struct FindingView {
    kind: &'static str,
    place: String,
    url: Option<String>,
    what: String,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if there is no such stream, or the log cannot be read at all.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<Answered, Problem> {
    let only = query.text("stream").map(StreamId::parse).transpose();
    let only = only.map_err(|error| Problem::malformed(format!("`stream`: {error}")))?;
    if let Some(stream) = &only
        && log.stream_version(stream).map_err(unread)? == Version(0)
    {
        return Err(Problem::not_found(format!("there is no stream `{stream}`")));
    }
    let verified = query.text("verify").is_some().then(|| verified(cx, log, only.as_ref()));
    let head = log.head().map_err(unread)?;
    let last = log.read_all(head, 1).ok().and_then(|records| records.into_iter().next());
    let id = only.as_ref().map_or_else(String::new, |stream| format!(" {}", shell_word(stream.as_str())));
    let page = AuditPage {
        frame: cx.frame("Audit", "Audit"),
        head: head_facts(cx, head, last.as_ref()),
        stream: Value(only.as_ref().map(ToString::to_string).unwrap_or_default()),
        verified,
        command: cx.log.line(&format!("verify{id}")),
    };
    answer::page(&page)
}

fn head_facts(cx: &Cx, head: Position, last: Option<&StoredRecord>) -> Vec<(&'static str, String)> {
    let mut facts = vec![("events", words::count(head.0))];
    if let Some(last) = last {
        facts.extend([
            ("last record", format!("positions {} to {}", last.position, last.last_position())),
            ("its stream", last.record.stream.to_string()),
            ("its time", cx.at(last.record.metadata.at).iso),
            ("its leaf hash", last.hash.to_string()),
            ("epoch", last.record.epoch.to_string()),
        ]);
    }
    facts
}

fn verified(cx: &Cx, log: &dyn EventReader, only: Option<&StreamId>) -> Report {
    let began = Instant::now();
    let found = verify_within(log, &Scope { only, ..Scope::default() }, &mut |_| {});
    let micros = i64::try_from(began.elapsed().as_micros()).unwrap_or(i64::MAX);
    Report {
        is_sound: found.is_sound(),
        words: verdict(&found),
        facts: vec![
            ("streams", words::count(found.streams)),
            ("records", words::count(found.records)),
            ("events", words::count(found.events)),
            ("bytes hashed", words::count(found.bytes)),
            (
                "root",
                found.root.map_or_else(|| "–: not all records were read".to_owned(), |root| root.to_string()),
            ),
            ("up to position", found.end.to_string()),
            ("time", words::micros(micros)),
        ],
        findings: found.findings.iter().map(|finding| FindingView::of(cx, finding)).collect(),
        dropped: found.findings_dropped,
        unchecked: found.unchecked,
    }
}

fn verdict(found: &Verified) -> String {
    match (&found.failed, found.faults()) {
        (Some(error), _) => format!("the log could not be read to its end: {error}"),
        (None, 0) => "no fault was found".to_owned(),
        (None, 1) => "1 fault was found".to_owned(),
        (None, faults) => format!("{} faults were found", words::count(faults)),
    }
}

impl FindingView {
    fn of(cx: &Cx, finding: &Finding) -> Self {
        let place = match (&finding.stream, finding.version, finding.position) {
            (Some(stream), Some(version), _) => format!("{stream} version {version}"),
            (Some(stream), None, _) => stream.to_string(),
            (None, _, Some(position)) => format!("position {position}"),
            _ => "the log".to_owned(),
        };
        let url = finding.stream.as_ref().zip(finding.version);
        Self {
            kind: finding.kind.as_str(),
            place,
            url: url.map(|(stream, version)| cx.links.raw(stream, version)),
            what: finding.what.clone(),
        }
    }
}
