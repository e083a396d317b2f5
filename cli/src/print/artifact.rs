//! `artifact`: prints the artifacts of a task, prints a part of one, and saves one as files.

use std::path::Path;

use proto_events::json::{JsonText, JsonValue};
use taskreel::files::{FileError, decode_base64, save_as};
use taskreel_log::artifacts::{
    A2aFile, A2aFileContent, ArtifactError, ArtifactErrorKind, ArtifactSettings, CharacterLimit,
    DataArtifacts, DataSelection, Minimizing, TextArtifacts, TextSelection,
};
use taskreel_log::audit::json::{number, object, text, text_or_null};
use taskreel_log::views::{ArtifactContent, ArtifactRow, FoundArtifact};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, spare, whole};
use crate::print::plain::without_control;
use crate::print::problem::{EXIT_OUTPUT, EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::print::time;

/// The part of an artifact to print.
pub(crate) enum Part {
    /// The text, or the data of an artifact without one.
    Whole,
    /// A range of the text.
    Text(TextSelection),
    /// A part of the data.
    Data(DataSelection),
    /// The form in which a model is shown a long one.
    Summary,
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
            whole("artifact"),
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

/// Prints a part of an artifact.
///
/// # Errors
/// [`Problem`] if it has no such part, or the reader of the output is gone.
pub(crate) fn print_part(found: &FoundArtifact, part: &Part, screen: &mut Screen) -> Result<Answer, Problem> {
    let (kind, content) = selected(found, part).map_err(|error| refused(&error))?;
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.artifact-view/1")),
            ("task", text(&found.task.id())),
            ("stream", text(found.task.as_str())),
            ("artifact", text(&found.id)),
            ("source", text(found.source.as_str())),
            ("name", text_or_null(found.name.as_deref())),
            ("complete", JsonText::of_model(&found.is_complete)),
            ("kind", text(kind)),
            ("content", JsonText::from(content)),
        ]))?;
    } else if let JsonValue::String(shown) = &content {
        // A terminal is not given what steers it; a file or a program gets the text as it is.
        let is_terminal = screen.is_terminal();
        let plain = |line: &str| if is_terminal { without_control(line) } else { line.to_owned() };
        shown.split('\n').map(plain).try_for_each(|line| screen.line(&line))?;
    } else {
        screen.json_value(&JsonText::from(content))?;
    }
    if !found.is_complete {
        note("the artifact is not complete: further pieces are expected");
    }
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Returns the kind of a part, and the part.
fn selected(found: &FoundArtifact, part: &Part) -> Result<(&'static str, JsonValue), ArtifactError> {
    let unlimited = CharacterLimit::new(usize::MAX)?;
    let has_text = found.parts.iter().any(|part| matches!(part, ArtifactContent::Text(_)));
    match part {
        Part::Text(selection) => {
            let whole = found.text()?;
            Ok(("text", TextArtifacts::view(&whole, selection, unlimited)?.into()))
        }
        Part::Whole if has_text => Ok(("text", found.text()?.into())),
        Part::Whole => Ok(("data", found.data()?)),
        Part::Data(selection) => {
            let data = found.data()?;
            Ok(("data", DataArtifacts::view(&data, selection, unlimited)?.into_owned()))
        }
        Part::Summary if has_text => {
            let form = TextArtifacts::minimize(&found.text()?, CharacterLimit::default(), None).to_json();
            Ok(("summary", form))
        }
        Part::Summary => {
            let limits = Minimizing::new(&ArtifactSettings::default());
            Ok(("summary", DataArtifacts::minimize(&found.data()?, &limits).to_json()))
        }
    }
}

/// Saves the text, the data and the files of an artifact. A file of the same content that is there already is the same file.
///
/// # Errors
/// [`Problem`] if a file cannot be written, or the reader of the output is gone.
pub(crate) fn save(found: &FoundArtifact, dir: &Path, screen: &mut Screen) -> Result<Answer, Problem> {
    let mut files: Vec<(Option<String>, Vec<u8>)> = Vec::new();
    let has = |kind: &str| found.parts.iter().any(|part| part.kind() == kind);
    if has("text") {
        let text = found.text().map_err(|error| refused(&error))?;
        files.push((Some(format!("{}.txt", found.id)), text.into_bytes()));
    }
    if has("data") {
        let data = found.data().map_err(|error| refused(&error))?;
        files.push((Some(format!("{}.json", found.id)), DataArtifacts::text(&data).into_bytes()));
    }
    for file in &found.parts {
        let ArtifactContent::File(A2aFile { name, content, .. }) = file else { continue };
        match content {
            A2aFileContent::Bytes(bytes) => {
                let bytes = decode_base64(bytes).map_err(|error| not_saved(&error, dir))?;
                files.push((name.clone(), bytes));
            }
            A2aFileContent::Uri(uri) => {
                note(&format!("the file at {} is not fetched", without_control(uri)));
            }
        }
    }
    for (number_of_file, (name, bytes)) in files.iter().enumerate() {
        let path =
            save_as(dir, name.as_deref(), number_of_file, bytes).map_err(|error| not_saved(&error, dir))?;
        if screen.json {
            screen.json_line(&object([
                ("schema", text("taskreel.artifact-file/1")),
                ("task", text(&found.task.id())),
                ("stream", text(found.task.as_str())),
                ("artifact", text(&found.id)),
                ("path", text(&path.to_string_lossy())),
                ("bytes", number(bytes.len() as u64)),
            ]))?;
        } else {
            let line = screen.plain(&path.to_string_lossy());
            screen.line(&line)?;
        }
    }
    screen.flush()?;
    Ok(Answer::Yes)
}

fn not_saved(error: &FileError, dir: &Path) -> Problem {
    let what = format!("cannot save the artifact in {}", dir.display());
    Problem::new(EXIT_OUTPUT, what, error.to_string(), "give a folder that can be written")
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
        _ => Some(error.hint())
            .filter(|hint| !hint.is_empty())
            .unwrap_or_else(|| "`taskreel artifact TASK ARTIFACT --summary` says what it holds".to_owned()),
    };
    Problem::new(if is_unknown { EXIT_UNKNOWN } else { EXIT_USAGE }, what, error.to_string(), hint)
}
