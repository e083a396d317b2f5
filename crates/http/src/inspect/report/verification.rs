//! The verification of the streams of a report, and what it could not check.

use std::collections::BTreeSet;

use askama::Template;
use proto_events::id::StreamId;
use taskreel_log::audit::{Scope, verify_within};

use crate::inspect::pages::verification::VerifiedView;
use crate::inspect::report::report_writer::{ReportError, ReportWriter};

#[derive(Template)]
#[template(path = "inspect/report/checked.html")]
struct CheckedView {
    stream: String,
    report: VerifiedView,
}

#[derive(Template)]
#[template(path = "inspect/report/unchecked.html")]
struct UncheckedParts {
    unchecked: Vec<String>,
}

/// Verifies streams and writes what was found.
///
/// # Errors
/// [`ReportError`] if the report cannot be written.
pub(crate) fn checked<'a>(
    writing: &mut ReportWriter<'_, '_>,
    streams: impl Iterator<Item = &'a StreamId>,
) -> Result<(), ReportError> {
    writing.ink.text(
        "<section aria-labelledby=\"checked\">\n<h1 id=\"checked\">Verification of these streams</h1>\n",
    )?;
    let mut unchecked = BTreeSet::new();
    for stream in streams {
        let scope = Scope { only: Some(stream), ..Scope::default() };
        let mut found = verify_within(writing.log, &scope, &mut |_| {});
        unchecked.extend(std::mem::take(&mut found.unchecked));
        writing.done.faults = writing.done.faults.saturating_add(found.faults());
        if let Some(error) = &found.failed {
            return Err(error.clone().into());
        }
        let is_there: Vec<bool> = found
            .findings
            .iter()
            .map(|finding| {
                let place = finding.stream.as_ref().zip(finding.version);
                place.is_some_and(|(stream, version)| writing.ink.has_shown(stream, version))
            })
            .collect();
        let mut report = VerifiedView::new(writing.cx, found, None);
        for (finding, is_there) in report.findings.iter_mut().zip(is_there) {
            // Of a damaged stream, not every event stands above.
            if !is_there {
                finding.url.clear();
            }
        }
        writing.ink.render(&CheckedView { stream: stream.to_string(), report })?;
    }
    let own = [
        "whether the streams of this report agree with the other streams of the log, and the root over all of them: `verify` \
         without a stream checks it",
        "whether this file is the one that was made: its maker can sign it, or it can be made again from the log",
    ];
    unchecked.extend(own.map(str::to_owned));
    writing.ink.render(&UncheckedParts { unchecked: unchecked.into_iter().collect() })?;
    writing.ink.text("</section>\n")
}
