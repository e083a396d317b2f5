//! `artifact`: the artifacts and long results of a task, and a part of one.

use proto_events::id::{Category, StreamId};
use taskreel_log::api::{EventReader, StreamInfo};
use taskreel_log::artifacts::{ArtifactError, ColumnSelection, DataSelection, RowSelection, TextSelection};
use taskreel_log::views::{ArtifactRow, FoundArtifact, artifact_rows, find_artifact, task_row};

use crate::args::Global;
use crate::args::artifact::{ArtifactArgs, Range};
use crate::look::file_stores;
use crate::look::open_log::OpenLog;
use crate::print::answer::Answer;
use crate::print::artifact::{Part, list, print_part, refused};
use crate::print::artifact_files::save;
use crate::print::problem::{EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};

/// The shortest beginning or end of an id that is looked up, in characters.
const PART_OF_ID_CHARACTERS_MIN: usize = 4;

pub(crate) fn artifact(args: &ArtifactArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    OpenLog::show(&args.from, global, |log| {
        let (task, then) = log.find_at(&args.id, args.point.at)?;
        artifact_of(then.reader(), &task, args, screen)
    })
}

fn artifact_of(
    reader: &dyn EventReader,
    task: &StreamId,
    args: &ArtifactArgs,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    if task.category() != Some(Category::Task) {
        let what = format!("{task} has no artifacts");
        let why = "only tasks have artifacts and results of calls";
        return Err(Problem::new(EXIT_USAGE, what, why, "`taskreel ls` lists the tasks"));
    }
    let Some(asked) = &args.artifact else {
        return list(&artifact_rows(reader, task)?, screen);
    };
    let found = look_up(reader, task, asked)?;
    let missing = if found.is_complete { None } else { Some(incomplete(reader, &found)?) };
    let answer = match &args.save {
        Some(dir) => {
            let beside = file_stores(&args.files)?;
            save(&found, dir, beside.as_ref(), screen)
        }
        None => print_part(&found, &part(args), screen),
    };
    if let (Some(missing), false) = (missing, answer.as_ref().is_err_and(|problem| problem.quiet)) {
        note(&missing);
    }
    answer
}

/// Returns why an artifact has no end, in a note: more of it may come as long as its task goes on.
fn incomplete(reader: &dyn EventReader, found: &FoundArtifact) -> Result<String, Problem> {
    let version = reader.stream_version(&found.task)?;
    let state = task_row(reader, &StreamInfo { stream: found.task.clone(), version })?.state;
    Ok(if state.is_terminal() {
        format!("the artifact is not complete: its task ended ({state}) before the last piece came")
    } else {
        format!("the artifact is not complete: its task is {state}, and further pieces are expected")
    })
}

/// Returns the artifact that a person names: by its id, or by a unique beginning or end of a listed one.
fn look_up(reader: &dyn EventReader, task: &StreamId, asked: &str) -> Result<FoundArtifact, Problem> {
    let unknown = match find_artifact(reader, task, asked)?.found {
        Err(error @ ArtifactError::NoSuchArtifact { .. }) => error,
        found => return found.map_err(|error| refused(&error)),
    };
    if asked.chars().count() < PART_OF_ID_CHARACTERS_MIN {
        return Err(refused(&unknown));
    }
    let rows = artifact_rows(reader, task)?;
    let is_meant = |id: &&str| id.starts_with(asked) || id.ends_with(asked);
    let mut meant: Vec<&str> = rows.iter().filter_map(id_of).filter(is_meant).collect();
    meant.sort_unstable();
    meant.dedup();
    match meant.as_slice() {
        [] => Err(refused(&unknown)),
        [id] => find_artifact(reader, task, id)?.found.map_err(|error| refused(&error)),
        several => {
            let what = format!("`{asked}` is the beginning or the end of {} ids", several.len());
            let first: Vec<&str> = several.iter().take(5).copied().collect();
            Err(Problem::new(EXIT_UNKNOWN, what, first.join(", "), "type more of the id"))
        }
    }
}

fn id_of(row: &ArtifactRow) -> Option<&str> {
    row.id.as_deref()
}

fn part(args: &ArtifactArgs) -> Part {
    let text = |range: Range| (Some(range.start), range.end);
    if let Some((line_start, line_end)) = args.lines.map(text) {
        return Part::Text(TextSelection { line_start, line_end, ..TextSelection::default() });
    }
    if let Some((character_start, character_end)) = args.characters.map(text) {
        return Part::Text(TextSelection { character_start, character_end, ..TextSelection::default() });
    }
    if args.summary {
        return Part::Summary;
    }
    if args.path.is_none() && args.rows.is_none() && args.columns.is_none() {
        return Part::Whole;
    }
    Part::Data(DataSelection {
        json_path: args.path.clone(),
        rows: args.rows.as_deref().map(RowSelection::from_text),
        columns: args.columns.as_deref().map(ColumnSelection::from_text),
    })
}
