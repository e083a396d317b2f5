//! `task download`: the results of a task as files.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proto_events::json::{JsonObject, JsonText};
use taskreel_http::a2a::{Artifact, Content, Part};

use crate::a2a::failure::Failure;
use crate::a2a::follow::Turn;
use crate::a2a::out::Out;
use crate::args::a2a::DownloadArgs;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// The most bytes of a file's name.
const NAME_MAX: usize = 150;

/// The most names that are tried for a file.
const TRIES: u32 = 10_000;

/// Saves the results.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn download(args: &DownloadArgs, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let task = turn.wait_answer(turn.agent.client.get(&args.id, Some(0))).await?;
    let all = task.artifacts.unwrap_or_default();
    let is_wanted = |one: &&Artifact| args.artifact.as_ref().is_none_or(|id| *id == one.id);
    let wanted: Vec<&Artifact> = all.iter().filter(is_wanted).collect();
    if let (Some(id), true) = (&args.artifact, wanted.is_empty()) {
        let hint = turn.agent.typed("task get", &args.id);
        return Err(Failure::internal(format!("the task has no result {id}"), format!("{hint} lists them")));
    }
    std::fs::create_dir_all(&args.dir).map_err(|error| unwritten(&args.dir, &error))?;
    if !out.json {
        crate::a2a::text::named(out, &task.id, &task.context_id, task.status.state.word())?;
    }
    if wanted.is_empty() {
        note("the task has no result");
    }
    let mut files = Vec::new();
    for artifact in wanted {
        for (place, part) in artifact.parts.iter().enumerate() {
            files.extend(save(artifact, part, place, &args.dir, out)?);
        }
    }
    if out.json {
        let mut whole = JsonObject::new();
        whole.set("schema", JsonText::string("taskreel.a2a-saved/1"));
        whole.set("task", JsonText::string(&task.id));
        whole.set("files", JsonText::of_model(&files));
        out.value(&whole.to_text())?;
    }
    Ok(out.flush()?)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::new(crate::a2a::failure::INTERNAL, EXIT_NO, message, "choose another folder with --dir")
}

/// Saves a part, and tells where; `None` for one that is not saved, or that was told already.
fn save(
    artifact: &Artifact,
    part: &Part,
    place: usize,
    dir: &Path,
    out: &mut Out,
) -> Result<Option<JsonText>, Failure> {
    let (bytes, ending) = match &part.content {
        Content::Text(text) => (text.clone().into_bytes(), "txt"),
        Content::Data(data) => (data.as_str().as_bytes().to_vec(), "json"),
        Content::Raw(_) => {
            let Some(bytes) = part.bytes() else {
                note(&format!("note: a file of the result {} is no base64, and was not saved", artifact.id));
                return Ok(None);
            };
            (bytes, "bin")
        }
        Content::Url(url) => {
            note(&format!("note: a file of the result {} is at {url}, and is not fetched", artifact.id));
            return Ok(None);
        }
        _ => return Ok(None),
    };
    let given = part.filename.as_deref().map(safe).filter(|name| !name.is_empty());
    let own = || {
        let base = artifact.name.as_deref().map(safe).filter(|name| !name.is_empty());
        let base = base.unwrap_or_else(|| safe(&artifact.id));
        let base = if base.is_empty() { "result".to_owned() } else { base };
        if place == 0 { format!("{base}.{ending}") } else { format!("{base}-{}.{ending}", place + 1) }
    };
    let path = write(dir, &given.unwrap_or_else(own), &bytes)?;
    let size = bytes.len();
    if out.json {
        let mut line = JsonObject::new();
        line.set("artifact", JsonText::string(&artifact.id));
        line.set("part", JsonText::of_model(&place));
        line.set("path", JsonText::string(&path.display().to_string()));
        line.set("bytes", JsonText::of_model(&size));
        let media_type = part.media_type.as_deref();
        line.set("media_type", media_type.map_or_else(JsonText::null, JsonText::string));
        return Ok(Some(line.to_text()));
    }
    out.field("Artifact", &artifact.id)?;
    out.field("File", &path.display().to_string())?;
    out.field("Size", &format!("{size} bytes"))?;
    Ok(None)
}

/// Returns the last part of a name that the agent gave, as one that stays in its folder and is shown as it is.
fn safe(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last
        .chars()
        .map(|letter| if letter.is_alphanumeric() || "._- ()+@,=".contains(letter) { letter } else { '_' })
        .collect();
    let plain = plain.trim().trim_start_matches(['.', '-']).trim_end_matches('.');
    let mut end = plain.len().min(NAME_MAX);
    while !plain.is_char_boundary(end) {
        end -= 1;
    }
    plain.get(..end).unwrap_or_default().to_owned()
}

/// Writes a new file: where the name is taken, one with a number.
fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let (base, ending) =
        name.rsplit_once('.').map_or((name, String::new()), |(base, end)| (base, format!(".{end}")));
    for number in 1..TRIES {
        let path = dir.join(if number == 1 { name.to_owned() } else { format!("{base}-{number}{ending}") });
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(bytes).and_then(|()| file.sync_all());
                return match written {
                    Ok(()) => Ok(path),
                    Err(error) => {
                        // Half a result does not count.
                        let _removed = std::fs::remove_file(&path);
                        Err(unwritten(&path, &error))
                    }
                };
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritten(&path, &error)),
        }
    }
    Err(Failure::internal(
        format!("{name} exists too often in {}", dir.display()),
        "choose another folder with --dir",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_agent_stays_in_its_folder() {
        for (given, kept) in [
            ("../../etc/passwd", "passwd"),
            ("..", ""),
            ("C:\\x\\y.txt", "y.txt"),
            (".bashrc", "bashrc"),
            ("-rf", "rf"),
            ("a\u{1b}[2Jb.txt", "a__2Jb.txt"),
            ("Bericht (1).pdf", "Bericht (1).pdf"),
        ] {
            assert_eq!(safe(given), kept, "{given}");
        }
        assert!(safe(&"ä".repeat(500)).len() <= NAME_MAX);
    }
}
