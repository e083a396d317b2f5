//! The ids that completions know: the ids in the log that the command line names.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use proto_events::call::CallEvent;
use proto_events::codec::{AnyEvent, kind};
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError, StoredRecord};
use taskreel_log::jsonl::JsonLines;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::read::{for_each_page_of, for_each_record, for_each_stream};
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions};
use taskreel_log::views::{artifact_rows, event_rows, find, unsettled};

use crate::dirs::{DEMO_DIR, LOG_DIR};

/// The largest log that is copied for a completion: a person waits for it.
const COPIED_BYTES_MAX: u64 = 64 << 20;

/// The most ids that are offered.
const OFFERED_MAX: usize = 1_000;

/// The newest events that are searched for ids of calls, approvals and questions: through the socket, a log of any size is open.
const SEARCHED_EVENTS: u64 = 50_000;

/// The kind of ids that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Streams,
    Tasks,
    Sessions,
    Calls,
    Approvals,
    Questions,
    Artifacts,
}

/// The arguments that take ids, by command.
const ARGUMENTS: [(&str, &str, Ids); 37] = [
    ("show", "id", Ids::Streams),
    ("events", "id", Ids::Streams),
    ("events", "session", Ids::Sessions),
    ("search", "id", Ids::Streams),
    ("search", "session", Ids::Sessions),
    ("trace", "id", Ids::Tasks),
    ("seq", "id", Ids::Streams),
    ("graph", "id", Ids::Streams),
    ("transcript", "id", Ids::Streams),
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
    ("reconcile", "task", Ids::Tasks),
    ("abandon", "call", Ids::Calls),
    ("abandon", "task", Ids::Tasks),
    ("answer", "question", Ids::Questions),
    ("answer", "task", Ids::Tasks),
    ("cancel", "task", Ids::Tasks),
];

/// Returns the command line with the sources of ids at the arguments that take them.
pub(crate) fn with_candidates(mut command: clap::Command) -> clap::Command {
    for (name, argument, ids) in ARGUMENTS {
        let takes = |sub: &clap::Command| sub.get_arguments().any(|arg| arg.get_id() == argument);
        if command.find_subcommand(name).is_some_and(takes) {
            command = command.mut_subcommand(name, |sub| {
                let of = TaskArgument::from_command(&sub);
                // In their places: `mut_arg` would move an argument behind the others.
                sub.mut_args(|arg| {
                    if arg.get_id() == argument {
                        let of = of.clone();
                        arg.add(ArgValueCandidates::new(move || candidates(ids, of.as_ref())))
                    } else {
                        arg
                    }
                })
            });
        }
    }
    command
}

/// The argument of a command by which a task is named beside another id, and how it is found among typed words.
#[derive(Debug, Clone)]
struct TaskArgument {
    command: String,
    /// The option, for example `--task`; none for the first argument that is not an option.
    option: Option<String>,
    /// The options of the command that take a value.
    valued: Vec<String>,
}

impl TaskArgument {
    fn from_command(command: &clap::Command) -> Option<Self> {
        let is_task = |argument: &str| {
            ARGUMENTS.iter().any(|known| *known == (command.get_name(), argument, Ids::Tasks))
        };
        let task = command.get_arguments().find(|arg| is_task(arg.get_id().as_str()))?;
        let long = |arg: &clap::Arg| arg.get_long().map(|name| format!("--{name}"));
        let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values()).filter_map(long);
        let global = ["--data-dir", "--scratch", "--color", "--log-level", "--log-format"].map(str::to_owned);
        Some(Self {
            command: command.get_name().to_owned(),
            option: long(task),
            valued: valued.chain(global).collect(),
        })
    }

    /// Returns the task's id among typed words, of which the last is being typed.
    fn typed<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        if let Some(option) = &self.option {
            return value_of(words, option);
        }
        let at = words.iter().rposition(|word| *word == self.command)?;
        let (_, before) = words.get(at + 1..)?.split_last()?;
        let mut is_value = false;
        before.iter().map(String::as_str).find(|word| {
            let skipped = is_value || word.starts_with('-');
            is_value = !is_value && self.valued.iter().any(|option| option == word);
            !skipped
        })
    }
}

fn candidates(ids: Ids, of: Option<&TaskArgument>) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    // A completion that finds no log offers nothing; an error would stand in the middle of the typed line.
    let offered = || {
        let log = open(&words)?;
        let asked = of.and_then(|argument| argument.typed(&words));
        let inner = matches!(ids, Ids::Artifacts | Ids::Calls | Ids::Approvals | Ids::Questions);
        match asked.filter(|_| inner) {
            // A task that is not there has no artifacts and no calls.
            Some(asked) => of_task(log.as_ref(), &find(log.as_ref(), asked).ok()?, ids).ok(),
            None => find_ids(log.as_ref(), ids).ok(),
        }
    };
    let found = offered().unwrap_or_default();
    found.into_iter().take(OFFERED_MAX).map(CompletionCandidate::new).collect()
}

/// Opens the log that the typed line names, quietly.
fn open(words: &[String]) -> Option<Box<dyn EventReader>> {
    if value_of(words, "--url").is_some() {
        // A person waits: the log of another machine is not asked for ids, and that of a directory has others.
        return None;
    }
    if let Some(file) = value_of(words, "--file") {
        return JsonLines::open(file).ok().map(|log| Box::new(log) as Box<dyn EventReader>);
    }
    let named = value_of(words, "--data-dir").map(PathBuf::from);
    let named = named.or_else(|| std::env::var_os("TASKREEL_DATA_DIR").map(PathBuf::from));
    let by_default = || [LOG_DIR, DEMO_DIR].into_iter().map(PathBuf::from).find(|dir| dir.exists());
    let dir = named.or_else(by_default)?;
    #[cfg(unix)]
    if let Ok(socket) = taskreel_log::socket::SocketReader::connect(&dir) {
        return Some(Box::new(socket));
    }
    let scratch = value_of(words, "--scratch");
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

fn find_ids(reader: &dyn EventReader, ids: Ids) -> Result<BTreeSet<String>, ReadError> {
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
        Ids::Artifacts | Ids::Questions => {
            for task in newest_tasks(reader, ids)? {
                all.extend(of_task(reader, &task, ids)?);
            }
        }
        Ids::Calls | Ids::Approvals => for_each_record(reader, newest(reader)?, |stored| {
            all.extend(ids_in(stored, ids));
            Ok::<_, ReadError>(())
        })?,
    }
    Ok(all)
}

/// Returns the position from which the newest events are searched.
fn newest(reader: &dyn EventReader) -> Result<Position, ReadError> {
    Ok(Position(reader.head()?.0.saturating_sub(SEARCHED_EVENTS - 1).max(1)))
}

/// Returns the tasks of the newest events; for questions, those that have asked one.
fn newest_tasks(reader: &dyn EventReader, ids: Ids) -> Result<BTreeSet<StreamId>, ReadError> {
    let mut tasks = BTreeSet::new();
    for_each_record(reader, newest(reader)?, |stored| {
        let stream = &stored.record.stream;
        let asks = || stored.record.events.iter().any(|event| event.kind == kind::CALL_ASKED);
        if stream.category() == Some(Category::Task) && (ids != Ids::Questions || asks()) {
            tasks.insert(stream.clone());
        }
        Ok::<_, ReadError>(())
    })?;
    Ok(tasks)
}

/// Returns the ids of one task's artifacts, calls, approvals or questions.
fn of_task(reader: &dyn EventReader, task: &StreamId, ids: Ids) -> Result<BTreeSet<String>, ReadError> {
    if ids == Ids::Artifacts {
        return Ok(artifact_rows(reader, task)?.into_iter().filter_map(|row| row.id).collect());
    }
    if ids == Ids::Questions {
        let calls = unsettled(reader, Some(task), SystemClock.now())?.rows;
        return Ok(calls.into_iter().filter_map(|call| call.question_id).collect());
    }
    let mut all = BTreeSet::new();
    for_each_page_of(reader, task, Version(1), |page| {
        for stored in &page {
            all.extend(ids_in(stored, ids));
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

/// Returns the ids of the calls or the approvals that a record asks for.
fn ids_in(stored: &StoredRecord, ids: Ids) -> impl Iterator<Item = String> + use<> {
    event_rows(stored).into_iter().filter_map(move |row| match (ids, row.event) {
        (Ids::Calls, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))))) => {
            Some(request.call_id)
        }
        (Ids::Approvals, Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked)))) => Some(asked.approval_id),
        _ => None,
    })
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
    fn the_task_that_was_typed_is_found_behind_options_and_their_values() {
        let command = <crate::args::Cli as clap::CommandFactory>::command();
        let typed = |name: &str, line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let of = TaskArgument::from_command(command.find_subcommand(name).unwrap()).unwrap();
            of.typed(&words).map(str::to_owned)
        };
        for (line, task) in [
            ("taskreel artifact t-1 ", Some("t-1")),
            ("taskreel artifact t-1 ar", Some("t-1")),
            ("taskreel artifact --file log.ndjson t-1 ", Some("t-1")),
            ("taskreel artifact --json --data-dir=d --lines 1-2 t-1 x --save ", Some("t-1")),
            ("taskreel --data-dir artifact artifact --scratch s t-1 ", Some("t-1")),
            ("taskreel artifact ", None),
            ("taskreel artifact t-", None),
            ("taskreel artifact --file ", None),
        ] {
            assert_eq!(typed("artifact", line).as_deref(), task, "{line}");
        }
        assert_eq!(typed("prompt", "taskreel prompt --task t-1 ").as_deref(), Some("t-1"));
        assert_eq!(typed("approve", "taskreel approve t-1 ").as_deref(), Some("t-1"));
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

    /// A log of a million events whose records nobody may read but for the newest ones.
    struct Large(std::sync::atomic::AtomicU64);

    impl EventReader for Large {
        fn read_stream(&self, _: &StreamId, _: Version, _: usize) -> Result<Vec<StoredRecord>, ReadError> {
            Ok(Vec::new())
        }

        fn read_all(&self, from: Position, _: usize) -> Result<Vec<StoredRecord>, ReadError> {
            self.0.fetch_min(from.0, std::sync::atomic::Ordering::Relaxed);
            Ok(Vec::new())
        }

        fn head(&self) -> Result<Position, ReadError> {
            Ok(Position(1_000_000))
        }

        fn stream_version(&self, _: &StreamId) -> Result<Version, ReadError> {
            Ok(Version(0))
        }

        fn list_streams(
            &self,
            _: &str,
            _: Option<&StreamId>,
            _: usize,
        ) -> Result<Vec<taskreel_log::api::StreamInfo>, ReadError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_log_of_any_size_is_searched_for_ids_in_its_newest_events_only() {
        for ids in [Ids::Calls, Ids::Approvals, Ids::Questions, Ids::Artifacts] {
            let log = Large(u64::MAX.into());
            assert!(find_ids(&log, ids).unwrap().is_empty());
            assert_eq!(log.0.into_inner(), 1_000_000 - SEARCHED_EVENTS + 1, "{ids:?}");
        }
    }
}
