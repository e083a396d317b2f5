//! The command line's errors: what happened, why, what to do; and the exit code. Only this module turns the
//! library's errors into these three lines.

pub(crate) mod at_server;
#[cfg(unix)]
pub(crate) mod at_socket;
pub(crate) mod condition_errors;
pub(crate) mod export;

use std::path::Path;
use std::{fmt, io};

use proto_events::call::CallRejection;
use proto_events::codec::CodecError;
use proto_events::model::TaskState;
use proto_events::task::{ApprovalRejection, TaskRejection};
use taskreel::Error;
use taskreel_log::api::{AppendError, CloseError, Holder, OpenError, ReadError};
use taskreel_log::views::FindError;

use crate::print::marked_text::MarkedText;
use crate::print::plain::without_control;

/// The answer is "no".
pub(crate) const EXIT_NO: u8 = 1;
/// The usage or the input is wrong.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The named task, session, stream or file does not exist.
pub(crate) const EXIT_UNKNOWN: u8 = 3;
/// The log is held by another process.
pub(crate) const EXIT_HELD: u8 = 4;
/// The log is unreadable or damaged, or the directory holds no log.
pub(crate) const EXIT_LOG: u8 = 5;
/// A newer release wrote a part of the log that this one cannot read.
pub(crate) const EXIT_NEWER: u8 = 7;
/// The output could not be written, for example because the disk is full; the answer is not known from it.
pub(crate) const EXIT_OUTPUT: u8 = 8;
/// The command was interrupted.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// An error in three lines, and the process's exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The failure.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The advice.
    pub hint: String,
    /// The exit code.
    pub code: u8,
    /// Whether to exit without printing, since the reader is gone.
    pub quiet: bool,
    /// The text with the fault, which is shown under the three lines.
    pub marked: Option<Box<MarkedText>>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", without_control(&self.what))?;
        writeln!(f, "  why: {}", without_control(&self.why))?;
        write!(f, "  try: {}", without_control(&self.hint))?;
        self.marked.as_ref().map_or(Ok(()), |marked| write!(f, "\n{marked}"))
    }
}

impl Problem {
    /// Returns a problem with these texts.
    pub(crate) fn new(
        code: u8,
        what: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), why: why.into(), hint: hint.into(), code, quiet: false, marked: None }
    }

    /// A failed write to stdout. A closed pipe ends the command quietly: its reader had enough.
    pub(crate) fn output(error: &io::Error) -> Self {
        let mut problem = Self::new(
            EXIT_OUTPUT,
            "cannot write the output",
            error.to_string(),
            "check that the destination of the output has free space",
        );
        if error.kind() == io::ErrorKind::BrokenPipe {
            problem.quiet = true;
            problem.code = 0;
        }
        problem
    }

    /// A directory without a log.
    pub(crate) fn no_log(dir: &Path, why: &str) -> Self {
        Self::new(
            EXIT_LOG,
            format!("there is no log in {}", dir.display()),
            why,
            "`taskreel demo` creates one; use --data-dir for another directory",
        )
    }

    /// A log that cannot be opened.
    pub(crate) fn open(error: &OpenError, dir: &Path) -> Self {
        let what = format!("cannot open the log in {}", dir.display());
        if let Some(why) = newer(error) {
            return Self::new(
                EXIT_NEWER,
                what,
                why,
                "use the release of taskreel that wrote it, or a newer one",
            );
        }
        let (code, why, hint) = match error {
            OpenError::NotALog { why, .. } => (
                EXIT_LOG,
                format!("it is not a taskreel log: {why}; nothing in it was changed"),
                "use --data-dir with the directory of a log, or with a new or empty directory".to_owned(),
            ),
            OpenError::NotEmpty { .. } => (
                EXIT_USAGE,
                "it is not empty; nothing in it was changed".to_owned(),
                "a log is imported into a new or an empty directory: choose one with --data-dir".to_owned(),
            ),
            OpenError::OlderFormat { found, known, .. } => (
                EXIT_LOG,
                format!(
                    "its format {found} is older than {known} and is not converted; nothing in it was changed"
                ),
                "read it with the build that wrote it, and use another directory with --data-dir".to_owned(),
            ),
            OpenError::OtherDurability { found, asked, .. } => (
                EXIT_USAGE,
                format!(
                    "it was created with durability {}, not {}, and a log keeps its durability",
                    found.name(),
                    asked.name()
                ),
                "omit `--durability` to use the log as it is, or use a new directory".to_owned(),
            ),
            OpenError::Held { holder, .. } => holder_problem(holder.as_ref()),
            OpenError::EndsBeforeHead { head, log, .. } => (
                EXIT_LOG,
                format!(
                    "its HEAD proves that position {head} was durable, but it ends at {log}: the end of the log is missing"
                ),
                "restore it from a copy; or move the file HEAD aside to continue without the lost events"
                    .to_owned(),
            ),
            OpenError::Corrupt { what, .. } => (
                EXIT_LOG,
                what.clone(),
                "copy the directory first, then restore the log from a backup, or save what can be read: taskreel salvage DIR FILE"
                    .to_owned(),
            ),
            OpenError::BlobsPresent { count, .. } => (
                EXIT_LOG,
                format!("its database has {count} blob file(s), which it never syncs"),
                "restore it from a copy".to_owned(),
            ),
            other => unopened(other),
        };
        Self::new(code, what, why, hint)
    }

    /// A command that a task refused.
    pub(crate) fn rejected(id: &str, rejection: &TaskRejection) -> Self {
        let what = format!("task `{id}` was refused; nothing was added to the log");
        let hint = match rejection {
            TaskRejection::InvalidTransition { from, .. } => next_states(*from),
            TaskRejection::NotFound => "`taskreel ls` lists the tasks".to_owned(),
            TaskRejection::AlreadyRunning(_) => "wait until its run has ended, then post it again".to_owned(),
            TaskRejection::Differs { .. } => {
                format!("give the new task another id; `taskreel show {id}` shows the stored one")
            }
            TaskRejection::Over(state) => format!("it is {state}; post a new task with another id"),
            TaskRejection::Approval(_) | TaskRejection::Call(_) => {
                "`taskreel calls` lists the calls that wait for a person".to_owned()
            }
            _ => format!("`taskreel show {id}` shows its state"),
        };
        let unknown = matches!(
            rejection,
            TaskRejection::NotFound
                | TaskRejection::Approval(ApprovalRejection::Unknown(_))
                | TaskRejection::Call(CallRejection::NotRequested(_))
        );
        Self::new(if unknown { EXIT_UNKNOWN } else { EXIT_NO }, what, rejection.to_string(), hint)
    }

    /// An error of the system, about the task `id` if one is named.
    pub(crate) fn system(error: &Error, id: Option<&str>) -> Self {
        let about = id.map_or_else(String::new, |id| format!(" for task `{id}`"));
        let failed = |hint: &str| Self::new(EXIT_NO, format!("no answer{about}"), error.to_string(), hint);
        let cause = match error {
            Error::InDoubt { source, .. } => source,
            other => other,
        };
        match cause {
            Error::Task(rejection) => Self::rejected(id.unwrap_or("(unnamed)"), rejection),
            Error::Read(error) => Self::from(error.clone()),
            Error::Append(AppendError::TooLarge { limit, bytes })
            | Error::Codec(CodecError::TooLarge { limit, bytes }) => Self::new(
                EXIT_NO,
                format!("nothing was stored{about}: the data is too large"),
                format!("{bytes} bytes exceed the limit of {limit}"),
                "make the task smaller, or split it into several tasks",
            ),
            Error::Append(
                AppendError::Poisoned { .. } | AppendError::Ambiguous { .. } | AppendError::NotWritten { .. },
            ) => failed("check that the disk works and has free space, then run the same command again"),
            Error::TaskNotFound(_) => Self::new(
                EXIT_UNKNOWN,
                format!("no answer{about}"),
                error.to_string(),
                "`taskreel ls` lists the tasks",
            ),
            Error::Id(wrong) => Self::new(
                EXIT_USAGE,
                format!("the id is not valid{about}"),
                wrong.to_string(),
                "use an id of 1 to 200 bytes",
            ),
            Error::Open(error) => Self::open(error, Path::new("(the data directory)")),
            _ => failed("run the same command again: acknowledged work is kept, and nothing is done twice"),
        }
    }
}

/// Returns code, reason and advice if another process holds the log.
fn holder_problem(holder: Option<&Holder>) -> (u8, String, String) {
    let Some(Holder { pid, program, started, .. }) = holder else {
        return (
            EXIT_HELD,
            "another process has it open; which one is unknown, because the file `holder` cannot be read"
                .to_owned(),
            "wait until it ends; `fuser` or `lsof` on the file `db` in the directory shows the process"
                .to_owned(),
        );
    };
    let why = format!(
        "process {pid} ({program}) has had it open since {started}; only one process can open it at a time"
    );
    (EXIT_HELD, why, format!("wait until it ends, or stop it: kill -INT {pid}"))
}

/// Returns code, reason and advice for a log that the disk or the system does not give.
fn unopened(error: &OpenError) -> (u8, String, String) {
    match error {
        OpenError::NoRoom { path, needed, free } => (
            EXIT_LOG,
            format!(
                "a private copy of it needs {needed} bytes (twice its size, at least 16 MiB), and {} has {free} free",
                path.display()
            ),
            "name a folder on another disk with --scratch, or read the log through the program that has it open"
                .to_owned(),
        ),
        OpenError::NotReopened { why } => {
            (EXIT_LOG, why.clone(), "run the command again: that opens the log from the start".to_owned())
        }
        OpenError::Io { path, what, source } => (
            EXIT_LOG,
            format!("{}: {what}: {source}", path.display()),
            after_refusal(source.kind()).to_owned(),
        ),
        other => (EXIT_LOG, other.to_string(), "check the directory and the disk".to_owned()),
    }
}

/// Returns the advice after the operating system refused to open a log.
fn after_refusal(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull => {
            "free some space on the disk, then run the same command again: acknowledged events are kept"
        }
        io::ErrorKind::PermissionDenied => {
            "a log can be read by its owner alone: become that user, or have the log opened with --group-readable"
        }
        _ => "check that the directory can be read and written",
    }
}

/// Returns the reason why this release cannot open a log that a newer one wrote; `None` for any other error.
fn newer(error: &OpenError) -> Option<String> {
    match error {
        OpenError::Newer { what, .. } => {
            Some(format!("a newer release wrote a part of it: {what}; nothing is damaged"))
        }
        OpenError::NewerFormat { found, known, .. } => Some(format!(
            "it has format {found}, but this program reads format {known}; nothing in it was changed"
        )),
        OpenError::UnknownDurability { found, .. } => {
            Some(format!("it was created with durability `{found}`, which this program does not know"))
        }
        _ => None,
    }
}

fn next_states(from: TaskState) -> String {
    let next: Vec<_> =
        TaskState::ALL.into_iter().filter(|to| from.can_become(*to)).map(TaskState::as_str).collect();
    if next.is_empty() {
        format!("a task that is {from} has ended; post a new one with another id")
    } else {
        format!("a task that is {from} can become {}", next.join(", "))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        let hint = match &error {
            ReadError::Newer { .. } => {
                let hint = "use the release of taskreel that wrote it, or a newer one";
                return Self::new(EXIT_NEWER, "cannot read the log", error.to_string(), hint);
            }
            ReadError::Index { .. } => "`taskreel doctor --rebuild-index` builds the index anew from the log",
            ReadError::Corrupt { .. } => "`taskreel verify` lists the damage; restore the log from a copy",
            _ => "check that the disk works, then run the same command again",
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
            "check that the disk works and has free space; acknowledged events are kept",
        )
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        let (code, hint) = match &error {
            FindError::Read(error) => return Self::from(error.clone()),
            FindError::Unknown(_) => (
                EXIT_UNKNOWN,
                "`taskreel ls` lists the tasks, with --sessions the sessions, with --tools the tools",
            ),
            FindError::UnknownCall(_) => (
                EXIT_UNKNOWN,
                "`taskreel calls` lists the waiting calls, `taskreel show TASK` the calls of a task",
            ),
            FindError::AmbiguousCall { .. } => {
                (EXIT_USAGE, "type more of the id, or name its task with --task")
            }
            FindError::TooShort(_) => (EXIT_UNKNOWN, "type more of the id; `taskreel ls` lists the tasks"),
            FindError::Empty => (EXIT_UNKNOWN, "`taskreel run FILE` adds tasks"),
            FindError::Ambiguous { .. } => (EXIT_USAGE, "type more of the id, or one of these names"),
            FindError::Id(_) => (EXIT_USAGE, "use an id of 1 to 200 bytes without control characters"),
            _ => (EXIT_USAGE, "`taskreel ls` lists the tasks"),
        };
        let what = match &error {
            FindError::UnknownCall(_) | FindError::AmbiguousCall { .. } => "the id does not name one call",
            _ => "the id does not name one task, session or tool",
        };
        Self::new(code, what, error.to_string(), hint)
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
             try: a task that is working can become input-required, completed, failed, canceled"
        );
        assert_eq!(problem.code, EXIT_NO);
        assert!(next_states(TaskState::Failed).contains("failed has ended"));
    }

    #[test]
    fn only_a_closed_pipe_is_quiet() {
        assert!(Problem::output(&io::ErrorKind::BrokenPipe.into()).quiet);
        let full = Problem::output(&io::ErrorKind::StorageFull.into());
        assert!(!full.quiet && full.code == EXIT_OUTPUT);
    }
}
