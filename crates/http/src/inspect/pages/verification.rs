//! The result of a verification, as the audit and a report show it.

use std::time::Duration;

use taskreel_log::audit::{Finding, VerifyReport};
use taskreel_log::views::shell_word;

use crate::inspect::frame::Cx;
use crate::inspect::words;

/// The result of a verification.
#[derive(Debug)]
pub(crate) struct VerifiedView {
    pub(crate) is_sound: bool,
    pub(crate) words: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) findings: Vec<FindingView>,
    pub(crate) dropped: u64,
    pub(crate) unchecked: Vec<String>,
}

/// A fault that was found.
#[derive(Debug)]
pub(crate) struct FindingView {
    pub(crate) kind: &'static str,
    pub(crate) place: String,
    pub(crate) url: String,
    pub(crate) what: String,
    /// The command that shows the place; none for a place that is not an event.
    pub(crate) command: String,
}

impl VerifiedView {
    /// Returns the view of a result, which took this time.
    pub(crate) fn new(cx: &Cx, found: VerifyReport, took: Option<Duration>) -> Self {
        let mut facts = vec![
            ("streams", words::count(found.streams)),
            ("records", words::count(found.records)),
            ("events", words::count(found.events)),
            ("bytes hashed", words::count(found.bytes)),
        ];
        if found.kept_files > 0 {
            facts.push(("files beside the log", words::count(found.kept_files)));
        }
        match found.root {
            Some(root) => {
                facts.extend([("root", root.to_string()), ("up to position", found.end.to_string())]);
            }
            None => facts.push(("root", "–: not all records were read".to_owned())),
        }
        if let Some(took) = took {
            facts.push(("time", words::micros(i64::try_from(took.as_micros()).unwrap_or(i64::MAX))));
        }
        Self {
            is_sound: found.is_sound(),
            words: verdict(&found),
            facts,
            findings: found.findings.iter().map(|finding| FindingView::new(cx, finding)).collect(),
            dropped: found.findings_dropped,
            unchecked: found.unchecked,
        }
    }
}

fn verdict(found: &VerifyReport) -> String {
    match (&found.failed, found.faults()) {
        (Some(error), _) => format!("the log could not be read to its end: {error}"),
        (None, 0) => "no fault was found".to_owned(),
        (None, 1) => "1 fault was found".to_owned(),
        (None, faults) => format!("{} faults were found", words::count(faults)),
    }
}

impl FindingView {
    fn new(cx: &Cx, finding: &Finding) -> Self {
        let place = match (&finding.stream, finding.version, finding.position) {
            (Some(stream), Some(version), _) => format!("{stream} version {version}"),
            (Some(stream), None, _) => stream.to_string(),
            (None, _, Some(position)) => format!("position {position}"),
            _ => "the log".to_owned(),
        };
        let url = finding.stream.as_ref().zip(finding.version);
        let command = url.map(|(stream, version)| format!("event {} {version}", shell_word(stream.as_str())));
        Self {
            kind: finding.kind.as_str(),
            place,
            url: url.map(|(stream, version)| cx.links.raw(stream, version)).unwrap_or_default(),
            what: finding.what.clone(),
            command: command.map(|command| cx.log.command_line(&command)).unwrap_or_default(),
        }
    }
}
