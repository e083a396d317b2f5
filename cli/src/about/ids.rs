//! The ids that completions know: those of the log that the command line names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::id::{Category, Position};
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::jsonl::JsonLines;
use taskreel_log::read::{for_each_record, for_each_stream};
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions};
use taskreel_log::views::{artifact_rows, event_rows};

use crate::dirs::{DEMO_DIR, LOG_DIR};

/// The largest log that is copied for a completion: a person waits for it.
const COPIED_BYTES_MAX: u64 = 64 << 20;

/// The most ids that are offered.
const OFFERED_MAX: usize = 1_000;

/// The kind of ids that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Streams,
    Tasks,
    Sessions,
    Calls,
    Approvals,
    Artifacts,
}

/// The arguments that take ids, by command.
const ARGUMENTS: [(&str, &str, Ids); 27] = [
    ("show", "id", Ids::Streams),
    ("events", "id", Ids::Streams),
    ("events", "session", Ids::Sessions),
    ("event", "id", Ids::Streams),
    ("tail", "id", Ids::Streams),
    ("tail", "session", Ids::Sessions),
    ("state", "id", Ids::Streams),
    ("replay", "id", Ids::Streams),
    ("verify", "id", Ids::Streams),
    ("diff", "id", Ids::Streams),
    ("diff", "a", Ids::Tasks),
    ("explain", "id", Ids::Streams),
    ("calls", "id", Ids::Tasks),
    ("calls", "session", Ids::Sessions),
    ("stats", "session", Ids::Sessions),
    ("export", "session", Ids::Sessions),
    ("prompt", "call", Ids::Calls),
    ("prompt", "task", Ids::Tasks),
    ("artifact", "id", Ids::Tasks),
    ("artifact", "artifact", Ids::Artifacts),
    ("approve", "task", Ids::Tasks),
    ("approve", "approval", Ids::Approvals),
    ("deny", "task", Ids::Tasks),
    ("deny", "approval", Ids::Approvals),
    ("reconcile", "call", Ids::Calls),
    ("abandon", "call", Ids::Calls),
    ("cancel", "task", Ids::Tasks),
];

/// Returns the command line with the sources of ids at the arguments that take them.
pub(crate) fn with_candidates(mut command: clap::Command) -> clap::Command {
    for (name, argument, ids) in ARGUMENTS {
        let takes = |sub: &clap::Command| sub.get_arguments().any(|arg| arg.get_id() == argument);
        if command.find_subcommand(name).is_some_and(takes) {
            command = command.mut_subcommand(name, |sub| {
                // In their places: `mut_arg` would move an argument behind the others.
                sub.mut_args(|arg| {
                    if arg.get_id() == argument {
                        arg.add(ArgValueCandidates::new(move || candidates(ids)))
                    } else {
                        arg
                    }
                })
            });
        }
    }
    command
}

fn candidates(ids: Ids) -> Vec<CompletionCandidate> {
    // A completion that finds no log offers nothing; an error would stand in the middle of the typed line.
    let found = open().and_then(|log| found(log.as_ref(), ids).ok()).unwrap_or_default();
    found.into_iter().take(OFFERED_MAX).map(CompletionCandidate::new).collect()
}

/// Opens the log that the typed line names, quietly.
fn open() -> Option<Box<dyn EventReader>> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(file) = value_of(&words, "--file") {
        return JsonLines::open(file).ok().map(|log| Box::new(log) as Box<dyn EventReader>);
    }
    let named = value_of(&words, "--data-dir").map(PathBuf::from);
    let named = named.or_else(|| std::env::var_os("TASKREEL_DATA_DIR").map(PathBuf::from));
    let by_default = || [LOG_DIR, DEMO_DIR].into_iter().map(PathBuf::from).find(|dir| dir.exists());
    let dir = named.or_else(by_default)?;
    #[cfg(unix)]
    if let Ok(door) = taskreel_log::door::DoorReader::connect(&dir) {
        return Some(Box::new(door));
    }
    let scratch = value_of(&words, "--scratch");
    let options = ReadOnlyOptions::default();
    let options = match scratch {
        Some(folder) => options.scratch(folder),
        None => options,
    };
    let log =
        (size(&dir) <= COPIED_BYTES_MAX).then(|| ReadOnlyLog::open_with(&dir, &options).ok()).flatten()?;
    Some(Box::new(log))
}

/// Returns the value of an option among typed words.
fn value_of<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let next = words.iter().zip(words.iter().skip(1)).find(|(word, _)| *word == option);
    let joined = || words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    next.map(|(_, value)| value.as_str()).or_else(joined)
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
}

fn found(reader: &dyn EventReader, ids: Ids) -> Result<BTreeSet<String>, ReadError> {
    let mut all = BTreeSet::new();
    let mut of = |category: Category| {
        for_each_stream(reader, category.prefix(), |info| {
            all.insert(info.stream.id());
        })
    };
    match ids {
        Ids::Tasks => of(Category::Task)?,
        Ids::Sessions => of(Category::Session)?,
        Ids::Streams => {
            of(Category::Task)?;
            let mut shortened = |category: Category, before: &str| {
                for_each_stream(reader, category.prefix(), |info| {
                    all.insert(format!("{before}{}", info.stream.id()));
                })
            };
            shortened(Category::Session, "s:")?;
            shortened(Category::Tool, "t:")?;
            all.insert("@last".to_owned());
        }
        Ids::Artifacts => {
            let mut tasks = Vec::new();
            for_each_stream(reader, Category::Task.prefix(), |info| tasks.push(info.stream))?;
            for task in tasks {
                all.extend(artifact_rows(reader, &task)?.into_iter().filter_map(|row| row.id));
            }
        }
        Ids::Calls | Ids::Approvals => for_each_record(reader, Position(1), |stored| {
            for row in event_rows(stored) {
                match (ids, row.event) {
                    (Ids::Calls, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))))) => {
                        all.insert(request.call_id);
                    }
                    (Ids::Approvals, Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked)))) => {
                        all.insert(asked.approval_id);
                    }
                    _ => {}
                }
            }
            Ok::<_, ReadError>(())
        })?,
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_an_option_is_found_in_both_of_its_forms() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(value_of(&words("taskreel show --file a.x"), "--file"), Some("a.x"));
        assert_eq!(value_of(&words("taskreel --file=a.x show"), "--file"), Some("a.x"));
        assert_eq!(value_of(&words("taskreel show --file"), "--file"), None);
    }

    #[test]
    fn each_argument_that_takes_ids_is_one_of_its_command() {
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        for (name, argument, _) in ARGUMENTS {
            let Some(sub) = command.find_subcommand(name) else { continue };
            assert!(
                sub.get_arguments().any(|arg| arg.get_id() == argument),
                "{name} has no argument {argument}"
            );
        }
    }
}
