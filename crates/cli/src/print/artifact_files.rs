//! `artifact --save`: the text, the data and the files of an artifact as files, and which of them could not be saved.

use std::path::Path;

use taskreel::files::{FileError, StoredFiles, decode_base64, save_as};
use taskreel_log::artifacts::{A2aFile, A2aFileContent, DataArtifacts, KeptFile};
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::views::{ArtifactContent, FoundArtifact};

use crate::print::answer::Answer;
use crate::print::artifact::refused;
use crate::print::problem::{EXIT_NO, EXIT_OUTPUT, Problem};
use crate::print::screen::{Screen, count, note};

/// The files that are named one by one where they could not be saved.
const NAMED_MAX: usize = 5;

/// The characters of a name or of an address in a reason.
const NAME_CHARACTERS_MAX: usize = 200;

/// A file that is not saved.
struct NotSaved {
    /// The exit code that belongs to the reason.
    code: u8,
    what: String,
    hint: &'static str,
}

const WRONG_CONTENT: &str = "`taskreel artifact TASK ARTIFACT --json` prints each part as the log holds it; \
                             the content of a file is base64, with its padding";
const AN_ADDRESS: &str = "nothing is fetched: fetch the address with a program of your choice, such as curl";
const BESIDE: &str = "give the folder of the file store with --files DIR";
const NOT_BESIDE: &str = "look for the file in a copy of the store; the log has its digest alone";
const NOT_WRITTEN: &str =
    "give a folder that can be written, on a disk with free space; what was saved is not saved twice";

/// Saves the text, the data and the files of an artifact, each that can be saved, and prints where. A file of the same content
/// that is there already is the same file.
///
/// # Errors
/// [`Problem`] that names the files that are not saved, if there are any, or if the reader of the output is gone.
pub(crate) fn save(
    found: &FoundArtifact,
    dir: &Path,
    beside: Option<&StoredFiles>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let (files, mut not_saved) = contents(found, beside)?;
    let all = files.len() + not_saved.len();
    for (number_of_file, (name, bytes)) in files.iter().enumerate() {
        match save_as(dir, name.as_deref(), number_of_file, bytes) {
            Ok(path) => print_saved(found, &path, bytes.len(), screen)?,
            Err(error) => not_saved.push(NotSaved::of_write(name.as_deref(), &error)),
        }
    }
    screen.flush()?;
    if all == 0 {
        note("the artifact has no parts: there is nothing to save");
    }
    // A folder that cannot be written is worse than a part that is not a file.
    let Some(code) = not_saved.iter().map(|file| file.code).max() else { return Ok(Answer::Yes) };
    let what = match (code, not_saved.len() == all) {
        (EXIT_OUTPUT, true) => format!("cannot save the artifact in {}", dir.display()),
        _ => format!("{} of {} not saved", not_saved.len(), count(all as u64, "file was", "files were")),
    };
    let mut why: Vec<&str> = not_saved.iter().take(NAMED_MAX).map(|file| file.what.as_str()).collect();
    let more = format!("and {} more", not_saved.len().saturating_sub(NAMED_MAX));
    if not_saved.len() > NAMED_MAX {
        why.push(&more);
    }
    let mut hints: Vec<&str> = Vec::new();
    for file in &not_saved {
        if !hints.contains(&file.hint) {
            hints.push(file.hint);
        }
    }
    Err(Problem::new(code, what, why.join("; "), hints.join("; ")))
}

type Files = Vec<(Option<String>, Vec<u8>)>;

/// Returns the files of an artifact, and the parts that are not files.
fn contents(found: &FoundArtifact, beside: Option<&StoredFiles>) -> Result<(Files, Vec<NotSaved>), Problem> {
    let (mut files, mut not_saved) = (Files::new(), Vec::new());
    let has = |kind: &str| found.parts.iter().any(|part| part.kind() == kind);
    if has("text") {
        let text = found.text().map_err(|error| refused(&error))?;
        files.push((Some(format!("{}.txt", found.id)), text.into_bytes()));
    }
    if has("data") {
        let data = found.data().map_err(|error| refused(&error))?;
        files.push((Some(format!("{}.json", found.id)), DataArtifacts::text(&data).into_bytes()));
    }
    for (index, part) in found.parts.iter().enumerate() {
        if let ArtifactContent::KeptFile(kept) = part {
            match read_kept(found, index, kept, beside) {
                Ok(bytes) => files.push((kept.name.clone(), bytes)),
                Err(not) => not_saved.push(not.of_part(index + 1, kept.name.as_deref())),
            }
            continue;
        }
        let ArtifactContent::File(A2aFile { name, content, .. }) = part else { continue };
        let label = || format!("part {} ({})", index + 1, short(name.as_deref().unwrap_or("without a name")));
        match content {
            A2aFileContent::Bytes(bytes) => match decode_base64(bytes) {
                Ok(bytes) => files.push((name.clone(), bytes)),
                Err(error) => {
                    let what = format!("the content of {} is not base64: {error}", label());
                    not_saved.push(NotSaved { code: EXIT_NO, what, hint: WRONG_CONTENT });
                }
            },
            A2aFileContent::Uri(address) => {
                let what = format!("{} is only an address, {}", label(), short(address));
                not_saved.push(NotSaved { code: EXIT_NO, what, hint: AN_ADDRESS });
            }
        }
    }
    Ok((files, not_saved))
}

/// Returns the content of a file beside the log, compared with its digest.
fn read_kept(
    found: &FoundArtifact,
    index: usize,
    kept: &KeptFile,
    beside: Option<&StoredFiles>,
) -> Result<Vec<u8>, NotSaved> {
    let not = |what: String, hint| NotSaved { code: EXIT_NO, what, hint };
    let store = beside.ok_or_else(|| not("it stands beside the log".to_owned(), BESIDE))?;
    let read = store.content(&found.task.id(), &found.id, index, kept);
    read.map_err(|why| not(why, NOT_BESIDE))
}

impl NotSaved {
    /// Names the part that is not saved.
    fn of_part(self, number: usize, name: Option<&str>) -> Self {
        let what = format!("part {number} ({}): {}", short(name.unwrap_or("without a name")), self.what);
        Self { what, ..self }
    }

    fn of_write(name: Option<&str>, error: &FileError) -> Self {
        let what = format!("{}: {error}", short(name.unwrap_or("a file without a name")));
        Self { code: EXIT_OUTPUT, what, hint: NOT_WRITTEN }
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

fn print_saved(found: &FoundArtifact, path: &Path, bytes: usize, screen: &mut Screen) -> Result<(), Problem> {
    if !screen.json {
        let line = screen.plain(&path.to_string_lossy());
        return screen.line(&line);
    }
    screen.json_line(&object([
        ("schema", text("taskreel.artifact-file/1")),
        ("task", text(&found.task.id())),
        ("stream", text(found.task.as_str())),
        ("artifact", text(&found.id)),
        ("path", text(&path.to_string_lossy())),
        ("bytes", number(bytes as u64)),
    ]))
}
