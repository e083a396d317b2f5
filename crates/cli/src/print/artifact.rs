//! `artifact`: prints the artifacts of a task, and one of them whole or in part.

use proto_events::json::{JsonText, JsonValue};
use taskreel::files::decode_base64;
use taskreel_log::artifacts::{
    A2aFile, A2aFileContent, ArtifactError, ArtifactErrorKind, ArtifactSettings, CharacterLimit,
    DataArtifacts, DataSelection, KeptFile, MinimizeLimits, MinimizedValue, TextArtifacts, TextSelection,
};
use taskreel_log::audit::json::{number, object, text, text_or_null};
use taskreel_log::views::{ArtifactContent, ArtifactRow, FoundArtifact};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, spare, uncut};
use crate::print::plain::indented;
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The part of an artifact to print.
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// A range of the text.
    Text(TextSelection),
    /// A part of the data.
    Data(DataSelection),
    /// The form in which a model is shown a long one.
    Summary,
}

/// The printed content of an artifact.
enum PrintedArtifact {
    /// A single text, as it is.
    Text(String),
    /// A JSON value, of the kind that its line names.
    Value(&'static str, JsonValue),
    /// Parts of several kinds, or files, in their order.
    Parts(Vec<ArtifactContent>),
}

/// Lists artifacts and long results.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn list(rows: &[ArtifactRow], screen: &mut Screen) -> Result<Answer, Problem> {
    if screen.json {
        rows.iter().try_for_each(|row| screen.json_line(&row.to_json()))?;
    } else if rows.is_empty() {
        note("the task has no artifacts and no long results");
    } else {
        let mut table = Screen::table(&[
            uncut("artifact"),
            spare("source"),
            spare("name"),
            spare("content"),
            spare("parts"),
            spare("characters"),
            spare("age"),
        ]);
        for row in rows {
            let kinds: Vec<&str> = row.kinds.iter().copied().collect();
            let content =
                if row.is_complete { kinds.join(", ") } else { format!("{} …", kinds.join(", ")) };
            table.row(vec![
                screen.bold_cell(row.id.as_deref().unwrap_or("-")),
                Cell::new(row.source.as_str().to_owned()),
                Cell::new(screen.plain(row.name.as_deref().unwrap_or_default())),
                Cell::new(screen.plain(&content)),
                Cell::figure(row.parts),
                Cell::figure(row.characters),
                Cell::figure(time::age(row.at)),
            ]);
        }
        screen.print(&table)?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Prints an artifact or a part of it. One text alone is printed as it is, and nothing is added to it where stdout is no
/// terminal. Of an artifact of several kinds texts and data are printed, and files are named.
///
/// # Errors
/// [`Problem`] if it has no such part, or the reader of the output is gone.
pub(crate) fn print_part(found: &FoundArtifact, part: &Part, screen: &mut Screen) -> Result<Answer, Problem> {
    let printed = printed(found, part).map_err(|error| refused(&error))?;
    if screen.json {
        screen.json_line(&as_json(found, &printed))?;
    } else {
        match &printed {
            PrintedArtifact::Text(text) | PrintedArtifact::Value(_, JsonValue::String(text)) => {
                screen.text(text)?;
            }
            PrintedArtifact::Value(_, value) => screen.json_value(&JsonText::from(value.clone()))?,
            PrintedArtifact::Parts(parts) => parts.iter().try_for_each(|part| print_one(part, screen))?,
        }
    }
    note_rest(found, part, &printed);
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Prints one of several parts, so that the next one begins on a line of its own.
fn print_one(part: &ArtifactContent, screen: &mut Screen) -> Result<(), Problem> {
    match part {
        ArtifactContent::Text(text) => {
            screen.text(text)?;
            if screen.is_terminal() || text.ends_with('\n') { Ok(()) } else { screen.line("") }
        }
        ArtifactContent::Data(data) => screen.line(&indented(data)),
        ArtifactContent::File(file) => {
            let line = screen.plain(&named(file));
            screen.line(&line)
        }
        ArtifactContent::KeptFile(kept) => {
            let line = screen.plain(&named_kept(kept));
            screen.line(&line)
        }
        other => screen.line(other.kind()),
    }
}

/// Returns what a file beside the log is: its name, its media type, its size and its digest.
fn named_kept(kept: &KeptFile) -> String {
    let name = kept.name.as_deref().unwrap_or("without a name");
    let media_type = kept.mime_type.as_ref().map_or_else(String::new, |media_type| format!(", {media_type}"));
    let (size, sha256) = (kept.size, &kept.sha256);
    format!("[file {name}{media_type}, {size} bytes, beside the log: sha256 {sha256}]")
}

/// Returns what a file is: its name, its media type, and its size or its address.
fn named(file: &A2aFile) -> String {
    let content = match &file.content {
        A2aFileContent::Bytes(bytes) => match decode_base64(bytes) {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(error) => format!("cannot be read as base64: {error}"),
        },
        A2aFileContent::Uri(address) => format!("at {address}, not fetched"),
    };
    let name = file.name.as_deref().unwrap_or("without a name");
    let media_type = file.mime_type.as_ref().map_or_else(String::new, |media_type| format!(", {media_type}"));
    format!("[file {name}{media_type}, {content}]")
}

/// Notes what is not printed: the content of files, kinds of parts that the selection leaves out, and a range without text.
fn note_rest(found: &FoundArtifact, part: &Part, printed: &PrintedArtifact) {
    match printed {
        PrintedArtifact::Parts(parts) if parts.is_empty() => note("the artifact has no parts"),
        PrintedArtifact::Parts(_) if has(found, "file") => {
            note("--save DIR saves the texts, the data and the files of the artifact");
        }
        PrintedArtifact::Text(shown) if shown.is_empty() && matches!(part, Part::Text(_)) => {
            note("there is no text in this range; `--characters 0-` prints all of it");
        }
        _ => {}
    }
    if matches!(part, Part::Summary) {
        // The summary is one of the texts, else of the data.
        let shown = if has(found, "text") { "text" } else { "data" };
        let others: Vec<&str> =
            ["data", "file"].into_iter().filter(|kind| *kind != shown && has(found, kind)).collect();
        if !others.is_empty() {
            note(&format!(
                "the summary is that of the {shown}; the artifact has parts with {} too",
                others.join(" and ")
            ));
        }
    }
}

/// Whether an artifact has a part of this kind.
fn has(found: &FoundArtifact, kind: &str) -> bool {
    found.parts.iter().any(|part| part.kind() == kind)
}

fn as_json(found: &FoundArtifact, printed: &PrintedArtifact) -> JsonText {
    let (kind, content) = match printed {
        PrintedArtifact::Text(shown) => ("text", text(shown)),
        PrintedArtifact::Value(kind, value) => (*kind, JsonText::from(value.clone())),
        PrintedArtifact::Parts(parts) => {
            let parts: Vec<JsonText> = parts.iter().map(part_json).collect();
            ("parts", JsonText::of_model(&parts))
        }
    };
    object([
        ("schema", text("taskreel.artifact-view/1")),
        ("task", text(&found.task.id())),
        ("stream", text(found.task.as_str())),
        ("artifact", text(&found.id)),
        ("source", text(found.source.as_str())),
        ("name", text_or_null(found.name.as_deref())),
        ("complete", JsonText::of_model(&found.is_complete)),
        ("kind", text(kind)),
        ("content", content),
    ])
}

fn part_json(part: &ArtifactContent) -> JsonText {
    let kind = ("kind", text(part.kind()));
    match part {
        ArtifactContent::Text(shown) => object([kind, ("text", text(shown))]),
        ArtifactContent::Data(data) => object([kind, ("data", data.clone())]),
        ArtifactContent::File(A2aFile { name, mime_type, content }) => {
            let content = match content {
                A2aFileContent::Bytes(bytes) => ("bytes", text(bytes)),
                A2aFileContent::Uri(address) => ("uri", text(address)),
            };
            let name = ("name", text_or_null(name.as_deref()));
            object([kind, name, ("mime_type", text_or_null(mime_type.as_deref())), content])
        }
        ArtifactContent::KeptFile(KeptFile { sha256, size, name, mime_type }) => object([
            kind,
            ("name", text_or_null(name.as_deref())),
            ("mime_type", text_or_null(mime_type.as_deref())),
            ("sha256", text(sha256)),
            ("size", number(*size)),
        ]),
        _ => object([kind]),
    }
}

fn printed(found: &FoundArtifact, part: &Part) -> Result<PrintedArtifact, ArtifactError> {
    let unlimited = CharacterLimit::new(usize::MAX)?;
    let is_all = |kind: &str| !found.parts.is_empty() && found.parts.iter().all(|part| part.kind() == kind);
    match part {
        Part::Text(selection) => {
            let whole = found.text()?;
            Ok(PrintedArtifact::Text(TextArtifacts::view(&whole, selection, unlimited)?.to_owned()))
        }
        Part::Whole if is_all("text") => Ok(PrintedArtifact::Text(found.text()?)),
        Part::Whole if is_all("data") => Ok(PrintedArtifact::Value("data", found.data()?)),
        Part::Whole => Ok(PrintedArtifact::Parts(joined(&found.parts))),
        Part::Data(selection) => {
            let data = found.data()?;
            Ok(PrintedArtifact::Value("data", DataArtifacts::view(&data, selection, unlimited)?.into_owned()))
        }
        Part::Summary if has(found, "text") => {
            let form = TextArtifacts::minimize(&found.text()?, CharacterLimit::default(), None).to_json();
            Ok(PrintedArtifact::Value("summary", form))
        }
        Part::Summary => Ok(PrintedArtifact::Value("summary", summary(&found.data()?)?)),
    }
}

/// Returns what data hold: of a small value, too, its statistics, unless they are larger than it.
fn summary(data: &JsonValue) -> Result<JsonValue, ArtifactError> {
    let usual = ArtifactSettings::default();
    let least = ArtifactSettings::new(2, usual.minimized_object_string_length(), 2)?.with_cap(usual.cap())?;
    Ok(match DataArtifacts::minimize(data, &MinimizeLimits::new(&least)) {
        // Where no summary fits, the head and the tail have the usual length.
        MinimizedValue::Text(_) => DataArtifacts::minimize(data, &MinimizeLimits::new(&usual)).to_json(),
        summary => summary.to_json(),
    })
}

/// Returns the parts with texts that follow one another as one, since a text that was streamed came in pieces.
fn joined(parts: &[ArtifactContent]) -> Vec<ArtifactContent> {
    let mut joined: Vec<ArtifactContent> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(ArtifactContent::Text(before)), ArtifactContent::Text(more)) => before.push_str(more),
            _ => joined.push(part.clone()),
        }
    }
    joined
}

/// Returns the problem of a part that cannot be shown.
pub(crate) fn refused(error: &ArtifactError) -> Problem {
    let what = match error.kind() {
        ArtifactErrorKind::NotFound | ArtifactErrorKind::NoResult => "there is nothing to show",
        _ => "the artifact cannot be shown like this",
    };
    let is_unknown = matches!(error, ArtifactError::NoSuchArtifact { .. } | ArtifactError::NoResult { .. });
    let hint = match error {
        ArtifactError::NoSuchArtifact { .. } | ArtifactError::NoResult { .. } => {
            "`taskreel artifact TASK` lists the artifacts of a task, `taskreel show TASK` its calls"
                .to_owned()
        }
        ArtifactError::WrongContent { wanted, .. } if *wanted == "text" => {
            "--save DIR saves the files of an artifact".to_owned()
        }
        ArtifactError::WrongContent { .. } => {
            "--lines and --characters print a part of a text, --save DIR saves files".to_owned()
        }
        ArtifactError::NoFields { .. } | ArtifactError::NotAList { .. } => {
            "--path enters the fields of an object, --rows and --columns select from a list".to_owned()
        }
        ArtifactError::LineEndPastTotal { .. } => {
            "lines are counted from 1; `--lines 1-` prints all of them".to_owned()
        }
        ArtifactError::LeadingDash { .. } => "`--rows 0-10` prints the first ten rows".to_owned(),
        _ => Some(error.hint())
            .filter(|hint| !hint.is_empty())
            .unwrap_or_else(|| "`taskreel artifact TASK ARTIFACT --summary` says what it holds".to_owned()),
    };
    Problem::new(if is_unknown { EXIT_UNKNOWN } else { EXIT_USAGE }, what, error.to_string(), hint)
}
