//! The content of an artifact of a task, or of a long result of one of its calls: whole, a range of lines, a part of the data, or the
//! summary that a model is shown.

use askama::Template;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonValue;
use taskreel_log::api::EventReader;
use taskreel_log::artifacts::{
    ArtifactError, ArtifactSettings, CharacterLimit, ColumnSelection, DataArtifacts, DataSelection,
    MinimizeLimits, MinimizedValue, RowSelection, TextArtifacts, TextSelection,
};
use taskreel_log::views::{FoundArtifact, find_artifact, shell_word};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::block::{Block, indented};
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::pages::content::{ContentPiece, pieces};
use crate::limits::INSPECT_BLOCK_MAX;

#[derive(Template)]
#[template(path = "inspect/artifact.html")]
struct ArtifactPage {
    frame: PageFrame,
    id: String,
    task: String,
    task_url: String,
    here: String,
    facts: Vec<(&'static str, String)>,
    has_text: bool,
    has_data: bool,
    lines: Value,
    path: Value,
    rows: Value,
    columns: Value,
    is_part: bool,
    pieces: Vec<ContentPiece>,
    why: Option<String>,
    whole_url: String,
    command: String,
}

/// Makes the page; with `whole`, the content alone as plain text, whatever its size.
///
/// # Errors
/// [`Problem`] if the task has no such artifact or part, or the log cannot be read.
pub(crate) fn page(
    cx: &Cx,
    log: &dyn EventReader,
    (task, id): (&StreamId, &str),
    query: &Query,
) -> Result<PageAnswer, Problem> {
    if log.stream_version(task).map_err(unread)? == Version(0) {
        return Err(Problem::not_found(format!("there is no task `{}`", task.id())));
    }
    let found = find_artifact(log, task, id).map_err(unread)?.found;
    let found = found.map_err(|error| Problem::not_found(error.to_string()))?;
    let here = cx.links.artifact(task, id);
    let whole_url = format!("{here}?whole=1");
    if query.text("whole").is_some() {
        let all = pieces(&found, usize::MAX, "").into_iter().map(|piece| piece.block.text);
        return Ok(PageAnswer::Text(all.collect::<Vec<_>>().join("\n")));
    }
    let shown = part(&found, query)?;
    let is_part = shown.is_some();
    let (shown, why) = match shown {
        None => (pieces(&found, INSPECT_BLOCK_MAX, &whole_url), None),
        Some(Ok((title, text))) => {
            let block = Block::text(&text, &whole_url);
            (vec![ContentPiece { title, class: "text", block }], None)
        }
        Some(Err(error)) => (Vec::new(), Some(error.to_string())),
    };
    let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
    let has = |kind: &str| found.parts.iter().any(|part| part.kind() == kind);
    let (text, data) = (has("text"), has("data"));
    answer::page(&ArtifactPage {
        frame: cx.frame(format!("Artifact {id}"), "Runs"),
        id: id.to_owned(),
        task: task.id(),
        task_url: format!("{}?tab=artifacts", cx.links.stream(task)),
        here,
        facts: vec![
            ("source", found.source.as_str().to_owned()),
            ("name", found.name.clone().unwrap_or_else(|| "–".to_owned())),
            ("parts", found.parts.len().to_string()),
            ("complete", if found.is_complete { "yes" } else { "no: more pieces are expected" }.to_owned()),
        ],
        has_text: text,
        has_data: data && !text,
        lines: value("lines"),
        path: value("path"),
        rows: value("rows"),
        columns: value("columns"),
        is_part,
        pieces: shown,
        why,
        whole_url,
        command: cx.log.command_line(&format!("artifact {} {}", shell_word(task.as_str()), shell_word(id))),
    })
}

/// A view: its title and its text.
type Viewed = Result<(String, String), ArtifactError>;

/// Returns the view that a query asks for; `None` if it asks for none.
fn part(found: &FoundArtifact, query: &Query) -> Result<Option<Viewed>, Problem> {
    if query.text("view") == Some("summary") {
        return Ok(Some(summary(found)));
    }
    if let Some(asked) = query.text("lines") {
        let (from, to) = asked.split_once('-').unwrap_or((asked, asked));
        let number = |text: &str| {
            let text = text.trim();
            let wrong = |_| Problem::malformed(format!("`lines` is no range such as 1-40: `{asked}`"));
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(wrong) }
        };
        let selection =
            TextSelection { line_start: number(from)?, line_end: number(to)?, ..TextSelection::default() };
        return Ok(Some(found.text().and_then(|text| {
            let shown = TextArtifacts::view(&text, &selection, CharacterLimit::new(usize::MAX)?)?;
            Ok((format!("lines {asked}"), shown.to_owned()))
        })));
    }
    let (path, rows, columns) = (query.text("path"), query.text("rows"), query.text("columns"));
    if path.is_none() && rows.is_none() && columns.is_none() {
        return Ok(None);
    }
    let selection = DataSelection {
        json_path: path.map(str::to_owned),
        rows: rows.map(RowSelection::from_text),
        columns: columns.map(ColumnSelection::from_text),
    };
    Ok(Some(found.data().and_then(|data| {
        let shown = DataArtifacts::view(&data, &selection, CharacterLimit::new(usize::MAX)?)?;
        Ok(("the part of the data".to_owned(), indented(&shown.to_string())))
    })))
}

/// Returns the form in which a model is shown a long artifact: of a text its head and tail, of data its statistics.
fn summary(found: &FoundArtifact) -> Viewed {
    let titled =
        |form: &JsonValue| ("the summary, as a model is shown it".to_owned(), indented(&form.to_string()));
    if found.parts.iter().any(|part| part.kind() == "text") {
        let form = TextArtifacts::minimize(&found.text()?, CharacterLimit::default(), None).to_json();
        return Ok(titled(&form));
    }
    let data = found.data()?;
    let usual = ArtifactSettings::default();
    let least = ArtifactSettings::new(2, usual.minimized_object_string_length(), 2)?.with_cap(usual.cap())?;
    let form = match DataArtifacts::minimize(&data, &MinimizeLimits::new(&least)) {
        // Where no summary fits, the head and the tail have the usual length.
        MinimizedValue::Text(_) => DataArtifacts::minimize(&data, &MinimizeLimits::new(&usual)).to_json(),
        summary => summary.to_json(),
    };
    Ok(titled(&form))
}
