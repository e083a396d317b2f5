//! Errors as the command line tells them: what happened, why, what to do; and the exit code. The one place where
//! the library's errors become these three lines.

use std::fmt;
use std::io;
use std::path::Path;

use proto_events::call::CallRejection;
use proto_events::codec::CodecError;
use proto_events::model::TaskState;
use proto_events::task::{ApprovalRejection, TaskRejection};

use super::screen::harmless;
use crate::error::Error;
use crate::inspect::find::FindError;
use crate::store::jsonl::ExportError;
use crate::store::{AppendError, CloseError, Holder, OpenError, ReadError};

/// The answer is "no".
pub const EXIT_NO: u8 = 1;
/// Wrong usage, wrong input.
pub const EXIT_USAGE: u8 = 2;
/// No such task, session, stream or file.
pub const EXIT_UNKNOWN: u8 = 3;
/// The log is held by another process.
pub const EXIT_HELD: u8 = 4;
/// The log is unreadable, damaged, or no log.
pub const EXIT_LOG: u8 = 5;
/// Interrupted.
pub const EXIT_INTERRUPTED: u8 = 130;

/// What is told in three lines, and the code that the process ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What happened.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do.
    pub hint: String,
    /// Exit code.
    pub code: u8,
    /// Nobody reads any more: end without a word.
    pub quiet: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", harmless(&self.what))?;
        writeln!(f, "  why: {}", harmless(&self.why))?;
        write!(f, "  try: {}", harmless(&self.hint))
    }
}

impl Problem {
    /// A problem in words.
    pub fn new(code: u8, what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: hint.into(), code, quiet: false }
    }

    /// What became of writing to stdout. A closed pipe ends the command quietly: its reader had enough.
    pub fn output(error: &io::Error) -> Self {
        let mut problem = Self::new(
            EXIT_NO,
            "cannot write the output",
            error.to_string(),
            "see that there is room where the output goes",
        );
        if error.kind() == io::ErrorKind::BrokenPipe {
            problem.quiet = true;
            problem.code = 0;
        }
        problem
    }

    /// Why a file cannot be read as an exported log.
    pub fn export(error: &ExportError, file: &Path) -> Self {
        let (code, hint) = match error {
            ExportError::Io { missing: true, .. } => {
                (EXIT_UNKNOWN, "name a file that `taskreel export` wrote, or `-` for stdin in `import`")
            }
            ExportError::NotAnExport { .. } => (EXIT_LOG, "`taskreel export > FILE` writes one"),
            ExportError::NewerFormat { .. } => (EXIT_LOG, "use the release of taskreel that wrote it"),
            ExportError::Damaged(_) | ExportError::Cut { .. } => {
                (EXIT_LOG, "`taskreel verify --file FILE` lists all that is wrong; export the log again")
            }
            _ => (EXIT_LOG, "see that it can be read, then run the same command again"),
        };
        Self::new(code, format!("cannot read the export {}", file.display()), error.to_string(), hint)
    }

    /// There is no log in a directory.
    pub fn no_log(dir: &Path, why: &str) -> Self {
        Self::new(
            EXIT_UNKNOWN,
            format!("there is no log in {}", dir.display()),
            why,
            "`taskreel demo` makes one to look at; --data-dir names another directory",
        )
    }

    /// Why a log cannot be opened.
    pub fn open(error: &OpenError, dir: &Path) -> Self {
        let what = format!("cannot open the log in {}", dir.display());
        let (code, why, hint) = match error {
            OpenError::NotALog { why, .. } => (
                EXIT_LOG,
                format!("it is no taskreel log: {why}; nothing in it was touched"),
                "name the right directory, or an empty or new one, with --data-dir".to_owned(),
            ),
            OpenError::NotEmpty { .. } => (
                EXIT_USAGE,
                "it is not empty; nothing in it was touched".to_owned(),
                "a log is imported whole: name a new or an empty directory with --data-dir".to_owned(),
            ),
            OpenError::NewerFormat { found, known, .. } => (
                EXIT_LOG,
                format!(
                    "it has format {found}, this program reads format {known}; nothing in it was touched"
                ),
                "use the release of taskreel that wrote it, or a newer one".to_owned(),
            ),
            OpenError::UnknownDurability { found, .. } => (
                EXIT_LOG,
                format!("it was made with durability `{found}`, which this program does not know"),
                "use the release of taskreel that made it, or a newer one".to_owned(),
            ),
            OpenError::OtherDurability { found, asked, .. } => (
                EXIT_USAGE,
                format!("it was made with durability {}, not {}, and keeps it", found.name(), asked.name()),
                "leave `--durability` out to take the log as it is, or name a new directory".to_owned(),
            ),
            OpenError::Held { holder, .. } => held(holder.as_ref()),
            OpenError::EndsBeforeHead { head, log, .. } => (
                EXIT_LOG,
                format!(
                    "its HEAD says that position {head} was durable, but it ends at {log}: the end was cut off"
                ),
                "restore it from a copy; or move the file HEAD aside to go on without the lost events"
                    .to_owned(),
            ),
            OpenError::Corrupt { what, .. } => (
                EXIT_LOG,
                what.clone(),
                "copy the directory before anything else, then restore the log from a backup".to_owned(),
            ),
            OpenError::BlobsPresent { count, .. } => (
                EXIT_LOG,
                format!("its database keeps {count} blob file(s), which are never synced"),
                "restore it from a copy".to_owned(),
            ),
            OpenError::NotReopened { why } => {
                (EXIT_LOG, why.clone(), "run the command again: that opens the log from the start".to_owned())
            }
            OpenError::Io { path, what, source } => (
                EXIT_LOG,
                format!("{}: {what}: {source}", path.display()),
                after_refusal(source.kind()).to_owned(),
            ),
        };
        Self::new(code, what, why, hint)
    }

    /// What a task's refusal means for whoever sent it.
    pub fn rejected(id: &str, rejection: &TaskRejection) -> Self {
        let what = format!("task `{id}` was refused; nothing was added to the log");
        let hint = match rejection {
            TaskRejection::InvalidTransition { from, .. } => next_states(*from),
            TaskRejection::NotFound => "`taskreel ls` lists the tasks there are".to_owned(),
            TaskRejection::AlreadyRunning(_) => "wait until it is at rest, then post it again".to_owned(),
            TaskRejection::Differs { .. } => {
                format!("give the new task an id of its own; `taskreel show {id}` shows the stored one")
            }
            TaskRejection::Over(state) => format!("it is {state}; post a new task under an id of its own"),
            TaskRejection::Approval(_) | TaskRejection::Call(_) => {
                "`taskreel calls` lists what waits for a person".to_owned()
            }
            _ => format!("`taskreel show {id}` shows where it stands"),
        };
        let unknown = matches!(
            rejection,
            TaskRejection::NotFound
                | TaskRejection::Approval(ApprovalRejection::Unknown(_))
                | TaskRejection::Call(CallRejection::NotRequested(_))
        );
        Self::new(if unknown { EXIT_UNKNOWN } else { EXIT_NO }, what, rejection.to_string(), hint)
    }

    /// A problem of the system, about the task `id` if one is named.
    pub fn system(error: &Error, id: Option<&str>) -> Self {
        let about = id.map_or_else(String::new, |id| format!(" for task `{id}`"));
        let failed = |hint: &str| Self::new(EXIT_NO, format!("no answer{about}"), error.to_string(), hint);
        match error {
            Error::Task(rejection) => Self::rejected(id.unwrap_or("(unnamed)"), rejection),
            Error::Read(error) => Self::from(error.clone()),
            Error::Append(AppendError::TooLarge { limit, bytes })
            | Error::Codec(CodecError::TooLarge { limit, bytes }) => Self::new(
                EXIT_NO,
                format!("nothing was stored{about}: it is too large"),
                format!("{bytes} bytes are over the limit of {limit}"),
                "make it smaller, or split it into several tasks",
            ),
            Error::Append(
                AppendError::Poisoned { .. } | AppendError::Ambiguous { .. } | AppendError::NotWritten { .. },
            ) => failed(
                "see that the disk works, make room on it if it is full, then run the same command again",
            ),
            Error::TaskNotFound(_) => Self::new(
                EXIT_UNKNOWN,
                format!("no answer{about}"),
                error.to_string(),
                "`taskreel ls` lists the tasks there are",
            ),
            Error::Id(wrong) => Self::new(
                EXIT_USAGE,
                format!("this cannot be an id{about}"),
                wrong.to_string(),
                "use an id of 1 to 200 bytes",
            ),
            Error::Open(error) => Self::open(error, Path::new("(the data directory)")),
            _ => failed("run the same command again: what was acknowledged is kept, nothing is done twice"),
        }
    }
}

/// Code, reason and advice where another process holds the log.
fn held(holder: Option<&Holder>) -> (u8, String, String) {
    let Some(Holder { pid, program, started }) = holder else {
        return (
            EXIT_HELD,
            "another process holds it and has not written its name down".to_owned(),
            "wait for its end; `fuser` or `lsof` on the file `db` in there names it".to_owned(),
        );
    };
    let why = format!(
        "process {pid} ({program}) has held it since {started}; one process at a time can have it open"
    );
    (EXIT_HELD, why, format!("wait for its end, or stop it: kill -INT {pid}"))
}

/// What to do when the operating system refused to open a log.
fn after_refusal(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull => {
            "make room on that disk, then run the same command again: what was acknowledged is kept"
        }
        _ => "see that the directory can be read and written",
    }
}

fn next_states(from: TaskState) -> String {
    let next: Vec<_> =
        TaskState::ALL.into_iter().filter(|to| from.can_become(*to)).map(TaskState::as_str).collect();
    if next.is_empty() {
        format!("a task that is {from} is over; post a new one under an id of its own")
    } else {
        format!("from {from} it may become {}", next.join(", "))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let hint = match &error {
            ReadError::Corrupt { .. } => {
                "`taskreel verify` names what is damaged; restore the log from a copy"
            }
            _ => "see that the disk works, then run the same command again",
        };
        Self::new(EXIT_LOG, "cannot read the log", error.to_string(), hint)
    }
}

impl From<CloseError> for Problem {
    fn from(error: CloseError) -> Self {
        Self::new(
            EXIT_LOG,
            "the log was not closed cleanly",
            error.to_string(),
            "see that the disk has room and works; what was acknowledged is kept",
        )
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        let (code, hint) = match &error {
            FindError::Read(error) => return Self::from(error.clone()),
            FindError::Unknown(_) => {
                (EXIT_UNKNOWN, "`taskreel ls`, with --sessions or --tools too, lists what there is")
            }
            FindError::UnknownCall(_) => {
                (EXIT_UNKNOWN, "`taskreel calls` lists those that wait, `taskreel show TASK` those of a task")
            }
            FindError::TooShort(_) => (EXIT_UNKNOWN, "type more of it; `taskreel ls` lists what there is"),
            FindError::Empty => (EXIT_UNKNOWN, "`taskreel run FILE` puts tasks into it"),
            FindError::Ambiguous { .. } => (EXIT_USAGE, "type more of it, or one of these names"),
            FindError::Id(_) => (EXIT_USAGE, "use an id of 1 to 200 bytes without control characters"),
        };
        Self::new(code, "cannot tell which task, session or tool is meant", error.to_string(), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_that_cannot_be_is_told_with_both_states_and_where_it_may_go() {
        let rejection =
            TaskRejection::InvalidTransition { from: TaskState::Working, to: TaskState::Submitted };
        let problem = Problem::system(&Error::Task(rejection), Some("t-1"));
        assert_eq!(
            problem.to_string(),
            "error: task `t-1` was refused; nothing was added to the log\n  \
             why: Invalid task state transition: working -> submitted\n  \
             try: from working it may become input-required, completed, failed, canceled"
        );
        assert_eq!(problem.code, EXIT_NO);
        assert!(next_states(TaskState::Failed).contains("failed is over"));
    }

    #[test]
    fn only_a_closed_pipe_is_quiet() {
        assert!(Problem::output(&io::ErrorKind::BrokenPipe.into()).quiet);
        let full = Problem::output(&io::ErrorKind::StorageFull.into());
        assert!(!full.quiet && full.code == EXIT_NO);
    }
}
