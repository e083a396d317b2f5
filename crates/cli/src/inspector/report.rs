//! `report`: a task or session in one file.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taskreel_http::{ReportError, ReportOptions, ReportSummary, write_report};

use crate::args::Global;
use crate::args::inspect::ReportArgs;
use crate::inspector::inspected;
use crate::opened_log::OpenedLog;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_LOG, EXIT_OUTPUT, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::signals::UnfinishedFile;

pub(crate) fn report(args: &ReportArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    if screen.json {
        let hint = "leave --json out, or use `taskreel show ID --json`, `taskreel events ID --json` or `taskreel export`";
        return Err(Problem::new(
            EXIT_USAGE,
            "a report is not JSON",
            "it is one file of HTML for people",
            hint,
        ));
    }
    let opened = OpenedLog::new(&args.from, global)?;
    let (log, stream) = (Arc::new(inspected(&opened)), opened.find(&args.id)?);
    let options = if args.whole { ReportOptions::complete() } else { ReportOptions::default() };
    screen.flush()?;
    let write = |out: &mut dyn io::Write| write_report(&log, &stream, options, out);
    let done = match &args.output {
        None => write(&mut io::stdout().lock()).map_err(|error| unwritten(error, None)),
        Some(path) => in_place(path, write),
    }?;
    print_summary(&done, args.output.as_deref());
    if let Some(damage) = &done.damage {
        let what = format!("the report of {stream} ends before its log does");
        let hint = "the report says where it ends; `taskreel verify` lists what is damaged";
        return Err(Problem::new(EXIT_LOG, what, damage.to_string(), hint));
    }
    Ok(if done.faults + done.prompts_wrong == 0 { Answer::Yes } else { Answer::No })
}

/// Writes a file beside its place and moves it there once it is whole: nobody takes a beginning for a report.
fn in_place(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<ReportSummary, ReportError>,
) -> Result<ReportSummary, Problem> {
    let part = temporary_path(path)?;
    remove_left(path);
    let begun = UnfinishedFile::new(&part);
    let made = || -> Result<ReportSummary, ReportError> {
        let mut file = File::create(&part)?;
        let done = write(&mut file)?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        Ok(done)
    };
    let done = made();
    if done.is_err() {
        // The reason why it was not written is what counts.
        let _gone = std::fs::remove_file(&part);
    }
    drop(begun);
    done.map_err(|error| unwritten(error, Some(path)))
}

/// Removes what commands that were killed have left beside the file: beginnings of it whose process has ended.
fn remove_left(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beginning = format!(".{name}.");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let left = left.to_str().and_then(|left| left.strip_prefix(&beginning)?.strip_suffix(".part"));
        let pid = left.and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !is_running(pid)) {
            // One that stays is in nobody's way.
            let _stays = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether a process may be running: where nothing tells, it is.
fn is_running(pid: u32) -> bool {
    !Path::new("/proc/self").exists() || Path::new("/proc").join(pid.to_string()).exists()
}

fn temporary_path(path: &Path) -> Result<PathBuf, Problem> {
    let name = path.file_name().ok_or_else(|| {
        let what = format!("{} is no file", path.display());
        Problem::new(
            EXIT_USAGE,
            what,
            "a report is written into a file",
            "give a name, such as -o report.html",
        )
    })?;
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(part))
}

fn unwritten(error: ReportError, path: Option<&Path>) -> Problem {
    match (error, path) {
        (ReportError::Write(error), None) => Problem::output(&error),
        (ReportError::Write(error), Some(path)) => Problem::new(
            EXIT_OUTPUT,
            format!("cannot write {}", path.display()),
            error.to_string(),
            "check that the folder exists, that this user may write there, and that the disk has space",
        ),
        (ReportError::Read(error), _) => Problem::from(error),
        (error, _) => Problem::new(
            EXIT_USAGE,
            "there is nothing to report",
            error.to_string(),
            "`taskreel ls` lists the tasks, `taskreel ls --sessions` the sessions",
        ),
    }
}

fn print_summary(done: &ReportSummary, path: Option<&Path>) {
    if let Some(path) = path {
        note(&format!("{} in {}", count(done.bytes, "byte", "bytes"), path.display()));
    }
    if done.faults > 0 {
        note(&format!("{} found in its streams", count(done.faults, "fault was", "faults were")));
    }
    if done.prompts_wrong > 0 {
        let prompts = count(done.prompts_wrong, "prompt is", "prompts are");
        note(&format!("{prompts} not the one whose digest the log holds"));
    }
}
