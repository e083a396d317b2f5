//! The events of a stream, each with its payload, its record as it is stored, and the hashes that hold them in their place.

use std::ops::ControlFlow;

use askama::Template;
use proto_events::codec::record::StoredEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::StoredRecord;
use taskreel_log::audit::event_json;
use taskreel_log::jsonl::hex;
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::{EventRow, Summaries, event_rows};

use crate::inspect::block::Block;
use crate::inspect::report::report_writer::{ReportError, ReportWriter};
use crate::inspect::words::{self, At, Mark};

/// The most characters of an event in words.
const LINE_CHARACTERS: usize = 400;

#[derive(Template)]
#[template(path = "inspect/report/record.html")]
struct RecordView {
    title: String,
    facts: Vec<(&'static str, String)>,
    bytes: Block,
}

#[derive(Template)]
#[template(path = "inspect/report/event.html")]
struct ReportEvent {
    anchor: String,
    version: u64,
    kind: &'static str,
    mark: Mark,
    line: String,
    at: At,
    delta: String,
    fault: Option<String>,
    is_intact: bool,
    payload: Option<Block>,
    facts: Vec<(&'static str, String)>,
}

/// Writes the events of a stream.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn events(writing: &mut ReportWriter<'_, '_>, stream: &StreamId) -> Result<(), ReportError> {
    let (log, anchor) = (writing.log, writing.cx.links.anchor(stream).unwrap_or_default().to_owned());
    writing
        .ink
        .text(&format!("<section>\n<h2 id=\"{anchor}-events\">Events</h2>\n<ol class=\"record\">\n"))?;
    let (mut summaries, mut last) = (Summaries::default(), None);
    let read = for_each_page_of(log, stream, Version(1), |page| {
        for stored in &page {
            let view = RecordView::new(writing, stored);
            writing.ink.render(&view)?;
            for (row, event) in event_rows(stored).iter().zip(&stored.record.events) {
                let line = summaries.of(row).chars().take(LINE_CHARACTERS).collect();
                let view = ReportEvent::new(writing, &anchor, (row, event), (line, last));
                writing.ink.render(&view)?;
                writing.ink.note_shown(stream, row.version);
                last = Some(row.at);
            }
        }
        Ok::<_, ReportError>(ControlFlow::Continue(()))
    });
    writing.ink.text("</ol>\n")?;
    match read {
        Err(ReportError::Read(error)) => writing.damaged(error)?,
        read => read?,
    }
    writing.ink.text("</section>\n")
}

impl RecordView {
    fn new(writing: &ReportWriter<'_, '_>, stored: &StoredRecord) -> Self {
        let record = &stored.record;
        let metadata = &record.metadata;
        let digest = metadata.command_digest.as_ref().map(|command| command.digest.to_string());
        let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { text.to_owned() };
        let (first, last) = (record.first_version, record.last_version());
        let versions =
            if first == last { format!("version {first}") } else { format!("versions {first} to {last}") };
        Self {
            title: format!("Record of {versions}, leaf hash {}", stored.hash),
            facts: vec![
                ("leaf hash", stored.hash.to_string()),
                ("previous", record.previous.to_string()),
                ("positions in the log", format!("{} to {}", stored.position, stored.last_position())),
                ("time", metadata.at.to_string()),
                ("command", metadata.command_id.clone()),
                ("content", or_dash(digest.as_deref().unwrap_or_default())),
                ("caused by", or_dash(&metadata.causation_id)),
                ("request", or_dash(&metadata.correlation_id)),
                (
                    "by",
                    format!("{} ({})", or_dash(&metadata.principal.name), metadata.principal.basis.as_str()),
                ),
                (
                    "append",
                    format!("{}, record {} of {}", hex(&record.set_id), record.part + 1, record.parts),
                ),
                ("epoch", format!("{} of partition {}", record.epoch, record.partition)),
                ("bytes", words::count(stored.bytes.len() as u64)),
            ],
            bytes: Block::within(&hex(&stored.bytes), writing.options.bytes_max(), ""),
        }
    }
}

impl ReportEvent {
    fn new(
        writing: &ReportWriter<'_, '_>,
        anchor: &str,
        (row, event): (&EventRow, &StoredEvent),
        (line, last): (String, Option<Timestamp>),
    ) -> Self {
        let payload = row.event.as_ref().ok();
        let payload =
            payload.map(|event| Block::json_within(&event_json(event), writing.options.bytes_max(), ""));
        Self {
            anchor: anchor.to_owned(),
            version: row.version.0,
            kind: row.kind,
            mark: words::event(row.kind),
            line,
            at: writing.cx.at(row.at),
            delta: last.map_or_else(String::new, |last| format!("+{}", words::between(last, row.at))),
            fault: row.event.as_ref().err().cloned(),
            is_intact: event.matches_digest(),
            payload,
            facts: vec![
                ("kind", format!("{} (schema {})", row.kind_number, row.schema)),
                ("position in the log", row.position.to_string()),
                ("body", words::of(event.body_len.into(), "byte", "bytes")),
                ("digest of the body", event.digest.to_string()),
                ("salt", hex(event.salt())),
            ],
        }
    }
}
