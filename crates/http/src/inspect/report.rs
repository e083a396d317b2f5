//! The report of a task or a session: the same pages in one file that needs no server and no network, to be mailed or attached.
//!
//! The file is written as the log is read, event by event. What stands in memory at one time is a page of records, one prompt, and
//! what the system itself holds of a task: its state and its list of calls.

pub(crate) mod artifacts;
pub(crate) mod ask;
pub(crate) mod events;
pub(crate) mod merged_streams;
pub(crate) mod prompt_places;
pub(crate) mod prompts;
pub(crate) mod report_writer;
pub(crate) mod talk;
pub(crate) mod task;
pub(crate) mod verification;
pub(crate) mod whole;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use askama::Template;
use proto_events::id::{Category, StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::views::{LogUse, shell_word};

use crate::inspect::address::Links;
use crate::inspect::frame::Cx;
use crate::inspect::report::prompts::PromptsSoFar;
use crate::inspect::report::report_writer::{Ink, ReportError, ReportOptions, ReportSummary, ReportWriter};
use crate::inspect::report::whole::{Contents, contents};
use crate::inspect::source::InspectedLog;
use crate::inspect::style::{STYLE, policy};
use crate::inspect::words;

#[derive(Template)]
#[template(path = "inspect/report/head.html")]
struct ReportHead<'a> {
    title: String,
    policy: &'a str,
    style: &'a str,
    log: &'a str,
    use_word: &'static str,
    events: String,
    made_at: String,
    program: &'static str,
    note: Option<&'a str>,
    contents: Vec<(String, String)>,
    is_whole: bool,
}

#[derive(Template)]
#[template(path = "inspect/report/tail.html")]
struct Tail {
    commands: Vec<(&'static str, String)>,
}

/// Writes the report of a task or a session into a file, a pipe or a buffer.
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel_http::{InspectedLog, ReportError, ReportOptions, write_report};
/// # use taskreel_log::memory::MemoryStore;
/// # use proto_events::id::StreamId;
/// let log = Arc::new(InspectedLog::new(Arc::new(MemoryStore::new()), "a log in memory"));
/// let mut file = Vec::new();
/// let nothing = write_report(&log, &StreamId::task("ada", "order-17").unwrap(), ReportOptions::default(), &mut file);
/// assert!(matches!(nothing, Err(ReportError::Nothing(_))));
/// ```
///
/// # Errors
/// [`ReportError`] if the task or session does not exist, or the log cannot be read for another reason than damage, or the report
/// cannot be written. Damage ends what is being read, and is told in the report and in [`ReportSummary::damage`].
pub fn write_report(
    log: &Arc<InspectedLog>,
    stream: &StreamId,
    options: ReportOptions,
    out: &mut dyn io::Write,
) -> Result<ReportSummary, ReportError> {
    let reader = Arc::clone(log.reader());
    write_within((reader.as_ref(), log), stream, options, out)
}

/// Writes a report with this reader of the log.
pub(crate) fn write_within(
    (reader, log): (&dyn EventReader, &Arc<InspectedLog>),
    stream: &StreamId,
    options: ReportOptions,
    out: &mut dyn io::Write,
) -> Result<ReportSummary, ReportError> {
    if reader.stream_version(stream)? == Version(0) {
        return Err(ReportError::Nothing(stream.clone()));
    }
    if !matches!(stream.category(), Some(Category::Task | Category::Session)) {
        return Err(ReportError::Kind(stream.clone()));
    }
    let Contents { tasks, sessions, damage } = contents(reader, stream)?;
    let mut anchors = HashMap::new();
    anchors.extend(tasks.iter().zip(1..).map(|(task, number)| (task.clone(), format!("t{number}"))));
    anchors.extend(sessions.iter().zip(1..).map(|(talk, number)| (talk.clone(), format!("s{number}"))));
    let cx = Cx::new(Links::inside(anchors), "", "auto", Arc::clone(log)).at_head(reader);
    let mut done = ReportSummary { bytes: 0, faults: 0, prompts_wrong: 0, damage };
    let mut ink = Ink::new(out);
    ink.render(&head(&cx, stream, options, (&tasks, &sessions)))?;
    let mut so_far = PromptsSoFar::default();
    let mut writing = ReportWriter { cx: &cx, log: reader, options, ink: &mut ink, done: &mut done };
    let is_session = stream.category() == Some(Category::Session);
    if is_session {
        talk::session(&mut writing, stream)?;
    }
    for task in &tasks {
        task::task(&mut writing, task, &mut so_far)?;
    }
    if !is_session {
        for session in &sessions {
            talk::turns(&mut writing, session, stream)?;
        }
    }
    verification::checked(&mut writing, tasks.iter().chain(&sessions))?;
    ink.render(&Tail { commands: commands(&cx, stream) })?;
    done.bytes = ink.finish()?;
    Ok(done)
}

fn head<'a>(
    cx: &'a Cx,
    stream: &StreamId,
    options: ReportOptions,
    (tasks, sessions): (&[StreamId], &[StreamId]),
) -> ReportHead<'a> {
    let word = if stream.category() == Some(Category::Session) { "Session" } else { "Task" };
    let named = |stream: &StreamId, word: &str| (format!("{word} {}", stream.id()), cx.links.stream(stream));
    let own = (stream.category() == Some(Category::Session)).then(|| named(stream, "Conversation"));
    let others = sessions.iter().filter(|session| *session != stream);
    let contents = own
        .into_iter()
        .chain(tasks.iter().map(|task| named(task, "Task")))
        .chain(others.map(|session| named(session, "Conversation")))
        .chain([("Verification".to_owned(), "#checked".to_owned())]);
    ReportHead {
        title: format!("{word} {}", stream.id()),
        policy: policy(),
        style: STYLE,
        log: cx.log.name(),
        use_word: match cx.log.use_of() {
            LogUse::Open => "while a program had it open",
            LogUse::Closed => "while no program had it open",
            _ => "an export",
        },
        events: cx.head.map_or_else(|| "–".to_owned(), |head| words::count(head.0)),
        made_at: cx.at(cx.now).iso,
        program: concat!("taskreel ", env!("CARGO_PKG_VERSION")),
        note: cx.log.banner(),
        contents: contents.collect(),
        is_whole: options.whole,
    }
}

/// Returns the commands by which an auditor checks the report alone.
fn commands(cx: &Cx, stream: &StreamId) -> Vec<(&'static str, String)> {
    let word = shell_word(stream.as_str());
    vec![
        ("The log from end to end, with its root:", cx.log.command_line("verify")),
        ("The stream alone:", cx.log.command_line(&format!("verify {word}"))),
        ("Its states, computed again:", cx.log.command_line(&format!("replay {word}"))),
        ("This report, made again:", cx.log.command_line(&format!("report {word}"))),
    ]
}
