//! The artifacts and the long results of a task in a report.

use askama::Template;
use proto_events::id::StreamId;
use taskreel_log::api::ReadError;
use taskreel_log::views::{artifact_rows, find_artifact};

use crate::inspect::pages::content::{ContentPiece, in_words, pieces};
use crate::inspect::report::report_writer::{ReportError, ReportWriter};

/// The most artifacts whose content stands in its own place: each takes a pass over the task. The content of others stands in their
/// events.
const SHOWN_MAX: usize = 100;

#[derive(Template)]
#[template(path = "inspect/report/artifact.html")]
struct ArtifactView {
    id: String,
    words: String,
    pieces: Vec<ContentPiece>,
    why: Option<String>,
}

/// Writes the artifacts of a task.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn artifacts(writing: &mut ReportWriter<'_, '_>, task: &StreamId) -> Result<(), ReportError> {
    let rows = match artifact_rows(writing.log, task) {
        // The events above say where the task ends.
        Err(ReadError::Corrupt { .. } | ReadError::Newer { .. }) => return Ok(()),
        rows => rows?,
    };
    if rows.is_empty() {
        return Ok(());
    }
    let anchor = writing.cx.links.anchor(task).unwrap_or_default().to_owned();
    writing
        .ink
        .text(&format!("<section>\n<h2 id=\"{anchor}-artifacts\">Artifacts and long results</h2>\n"))?;
    for (number, row) in rows.iter().enumerate() {
        let mut view = ArtifactView {
            id: row.id.clone().unwrap_or_else(|| "without an id".to_owned()),
            words: in_words(row),
            pieces: Vec::new(),
            why: None,
        };
        match &row.id {
            Some(id) if number < SHOWN_MAX => match find_artifact(writing.log, task, id)?.found {
                Ok(found) => view.pieces = pieces(&found, writing.options.bytes_max(), ""),
                Err(why) => view.why = Some(why.to_string()),
            },
            _ => view.why = Some("its content stands in its events".to_owned()),
        }
        writing.ink.render(&view)?;
    }
    writing.ink.text("</section>\n")
}
