//! The result of a verification, and its findings.

use proto_events::id::StreamId;
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text, text_or_null};
use crate::audit::verify::finding::Finding;
use crate::audit::verify::report::VerifyReport;

/// Returns a finding in the form `taskreel.finding/1`.
pub fn finding_json(finding: &Finding) -> JsonText {
    let place = |place: Option<u64>| place.map_or_else(JsonText::null, number);
    object([
        ("schema", text("taskreel.finding/1")),
        ("kind", text(finding.kind.as_str())),
        ("stream", text_or_null(finding.stream.as_ref().map(StreamId::as_str))),
        ("version", place(finding.version.map(|version| version.0))),
        ("position", place(finding.position.map(|position| position.0))),
        ("what", text(&finding.what)),
    ])
}

/// Returns the result of a verification in the form `taskreel.verify/1`. It took this many seconds.
pub fn verified_json(found: &VerifyReport, seconds: f64, mb_per_s: f64) -> JsonText {
    object([
        ("schema", text("taskreel.verify/1")),
        ("events", number(found.events)),
        ("records", number(found.records)),
        ("streams", number(found.streams)),
        ("faults", number(found.faults())),
        ("root", text_or_null(found.root.map(|root| root.to_string()).as_deref())),
        ("end", number(found.end.0)),
        ("covered", found.covered.map_or_else(JsonText::null, |covered| number(covered.0))),
        ("bytes", number(found.bytes)),
        ("seconds", JsonText::of_model(&seconds)),
        ("mb_per_s", JsonText::of_model(&mb_per_s)),
        ("notes", JsonText::of_model(&found.notes)),
        ("not_checked", JsonText::of_model(&found.unchecked)),
    ])
}
