//! The audit: what the log holds, and the verification of all of it or of one stream, on demand, since it reads everything. Its progress
//! is sent as it goes on, as lines of the page.

use std::time::{Duration, Instant, UNIX_EPOCH};

use askama::Template;
use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{EventReader, StoredRecord};
use taskreel_log::audit::{Scope, VerifyProgress, verify_within};
use taskreel_log::sled::Head;
use taskreel_log::views::{effects, shell_word};

use crate::api::bounded_reads::{internal, unread};
use crate::error::Problem;
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::pages::effects::EffectsView;
use crate::inspect::pages::verification::VerifiedView;
use crate::inspect::source::HeadFile;
use crate::inspect::words;

/// The pause between two lines about the progress.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The mark in the page where the verification stands. No content can hold it: `<` is escaped there.
const MARK: &str = "<!-- verification -->";

#[derive(Template)]
#[template(path = "inspect/audit.html")]
struct AuditPage {
    frame: PageFrame,
    /// The last record of the log: names and values.
    head: Vec<(&'static str, String)>,
    /// The file HEAD, and what is to be said of it beside the end of the log.
    head_file: Option<(Vec<(&'static str, String)>, String)>,
    stream: Value,
    verifies: bool,
    command: String,
}

#[derive(Template)]
#[template(path = "inspect/audit_step.html")]
struct AuditStep {
    words: String,
}

#[derive(Template)]
#[template(path = "inspect/audit_found.html")]
struct AuditResult {
    report: VerifiedView,
    with_root: Option<String>,
    effects: EffectsView,
}

/// The page around a verification.
pub(crate) struct Audit {
    /// The page up to the verification, or all of it without one.
    pub(crate) before: String,
    /// The rest of the page; none without a verification.
    pub(crate) after: Option<String>,
    only: Option<StreamId>,
    /// The contents of the file HEAD before the log was read.
    head: Option<Head>,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if the stream does not exist, or the log cannot be read at all.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<Audit, Problem> {
    let only = query.text("stream").map(StreamId::parse).transpose();
    let only = only.map_err(|error| Problem::malformed(format!("`stream`: {error}")))?;
    if let Some(stream) = &only
        && log.stream_version(stream).map_err(unread)? == Version(0)
    {
        return Err(Problem::not_found(format!("there is no stream `{stream}`")));
    }
    // Read first: a program that has the log open may write it anew at any time.
    let head_file = cx.log.head_file();
    let head = log.head().map_err(unread)?;
    let last = log.read_all(head, 1).ok().and_then(|records| records.into_iter().next());
    let page = AuditPage {
        frame: cx.frame("Audit", "Audit"),
        head: head_facts(cx, head, last.as_ref()),
        head_file: head_file_facts(cx, &head_file, head),
        stream: Value(only.as_ref().map(ToString::to_string).unwrap_or_default()),
        verifies: query.text("verify").is_some(),
        command: command(cx, only.as_ref(), ""),
    };
    let page = page.render().map_err(|error| internal(&error))?;
    // What is read may be a copy that is older than the file. A log that was damaged cannot be opened further than it is read.
    let is_comparable = |file: &HeadFile| file.head.position <= head || cx.log.banner().is_some();
    let head = head_file.ok().flatten().filter(is_comparable).map(|file| file.head);
    Ok(match page.split_once(MARK) {
        Some((before, after)) => {
            Audit { before: before.to_owned(), after: Some(after.to_owned()), only, head }
        }
        None => Audit { before: page, after: None, only, head },
    })
}

/// Returns what the file HEAD says, and how the end of the log stands to it.
fn head_file_facts(
    cx: &Cx,
    read: &Result<Option<HeadFile>, String>,
    end: Position,
) -> Option<(Vec<(&'static str, String)>, String)> {
    let file = match read {
        Ok(None) => return None,
        Err(why) => return Some((Vec::new(), format!("It cannot be read: {why}"))),
        Ok(Some(file)) => file,
    };
    let durable = file.head.position;
    let mut facts = vec![
        ("last durable position", words::count(durable.0)),
        ("records", words::count(file.head.frontier.size())),
        ("end of the log", words::count(end.0)),
    ];
    if let Some(at) = file.written.and_then(|written| written.duration_since(UNIX_EPOCH).ok()) {
        let at = Timestamp(i64::try_from(at.as_micros()).unwrap_or(i64::MAX));
        facts.push(("written at", cx.at(at).iso));
    }
    let told = if durable == end {
        "The log ends where the file says.".to_owned()
    } else if durable < end {
        let more = words::of(end.0 - durable.0, "event", "events");
        format!("The log has {more} behind it: the file is written once a second and at an orderly end.")
    } else if cx.log.banner().is_some() {
        "The log ends before it: the end of the log is missing.".to_owned()
    } else {
        "What is read here is older than the file: load the page again.".to_owned()
    };
    Some((facts, told))
}

fn command(cx: &Cx, only: Option<&StreamId>, options: &str) -> String {
    let id = only.map_or_else(String::new, |stream| format!(" {}", shell_word(stream.as_str())));
    cx.log.command_line(&format!("verify{id}{options}"))
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

impl Audit {
    /// Verifies, and shows `put` each line about the progress, then what was found. It ends early if `put` says that nobody reads it.
    ///
    /// # Errors
    /// [`Problem`] if a template fails.
    pub(crate) fn verify(
        &self,
        cx: &Cx,
        log: &dyn EventReader,
        put: &mut dyn FnMut(String),
    ) -> Result<(), Problem> {
        let began = Instant::now();
        let mut told = began;
        let only = self.only.as_ref();
        let scope = Scope { only, head: self.head.as_ref(), ..Scope::default() };
        let found = verify_within(log, &scope, &mut |progress| {
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                if let Ok(line) = (AuditStep { words: in_words(progress, began.elapsed()) }).render() {
                    put(line);
                }
            }
        });
        let with_root = found.root.filter(|_| self.only.is_none());
        let with_root = with_root.map(|root| command(cx, None, &format!(" --root {root}")));
        let report = VerifiedView::new(cx, found, Some(began.elapsed()));
        let effects = EffectsView::from_effects(&effects(log, only, &|| true));
        put(AuditResult { report, with_root, effects }.render().map_err(|error| internal(&error))?);
        Ok(())
    }
}

fn in_words(progress: VerifyProgress, took: Duration) -> String {
    let percent = progress.at.saturating_mul(100) / progress.of.max(1);
    let hashed = words::bytes(usize::try_from(progress.bytes).unwrap_or(usize::MAX));
    format!(
        "{} of {} events, {percent} %, {hashed} hashed, after {} s",
        words::count(progress.at),
        words::count(progress.of),
        took.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_said_in_figures_and_in_parts_of_a_hundred() {
        let progress = VerifyProgress { at: 412_000, of: 1_200_000, bytes: 3 << 20 };
        let said = in_words(progress, Duration::from_secs(4));
        assert_eq!(said, "412,000 of 1,200,000 events, 34 %, 3.0 MiB hashed, after 4 s");
        let nothing = in_words(VerifyProgress { at: 0, of: 0, bytes: 0 }, Duration::ZERO);
        assert_eq!(nothing, "0 of 0 events, 0 %, 0 B hashed, after 0 s");
    }
}
