//! `replay`, `verify`, `export`: prints the results of audit.

use proto_events::id::{LogId, StreamId};
use proto_events::json::JsonText;
use taskreel::files::StoredFiles;
use taskreel_log::api::EventReader;
use taskreel_log::artifacts::{KeptFileAt, KeptFiles as _};
use taskreel_log::audit;
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::audit::{Mismatch, ReplaySummary, Scope, VerifyReport};
use taskreel_log::documents::{finding_json, verified_json};
use taskreel_log::views::{Selection, extract_with_files};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, uncut, words};
use crate::print::newer::name_left_out;
use crate::print::plain::plain_json;
use crate::print::problem::Problem;
use crate::print::progress::{Bar, Speed};
use crate::print::screen::{Screen, count, note};

/// Replays one stream, or all, and compares with the live fold.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn replay(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let report = match only {
        Some(stream) => audit::replay_stream(reader, stream)?,
        None => audit::replay_all(reader)?,
    };
    print_replayed(&report, screen)
}

fn print_replayed(report: &ReplaySummary, screen: &mut Screen) -> Result<Answer, Problem> {
    let mismatches = u64::from(report.mismatch.is_some());
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.replay/1")),
            ("events", number(report.events)),
            ("tasks", number(report.tasks)),
            ("sessions", number(report.sessions)),
            ("tools", number(report.tools)),
            ("others", number(report.others)),
            ("mismatches", number(mismatches)),
            ("first", report.mismatch.as_ref().map_or_else(JsonText::null, mismatch_json)),
        ]))?;
    } else {
        screen.line(&format!(
            "{}, {}, {}{}{}, {}",
            count(report.events, "event", "events"),
            count(report.tasks, "task", "tasks"),
            count(report.sessions, "session", "sessions"),
            // Few agents have tools with state, and a single task has no other streams.
            unless_none(report.tools, "tool", "tools"),
            unless_none(report.others, "stream of a system or an agent", "streams of systems and agents"),
            count(mismatches, "mismatch", "mismatches")
        ))?;
        if let Some(mismatch) = &report.mismatch {
            screen.line(&format!("first difference: {} in {}", mismatch.path, mismatch.stream))?;
            screen.line(&format!("  rebuilt from zero: {}", screen.plain(&mismatch.rebuilt)))?;
            screen.line(&format!("  live fold:         {}", screen.plain(&mismatch.live)))?;
        }
    }
    screen.flush()?;
    let read = name_left_out(&report.newer, "not replayed");
    Ok(if mismatches == 0 { read } else { Answer::No })
}

fn unless_none(number: u64, one: &str, many: &str) -> String {
    if number == 0 { String::new() } else { format!(", {}", count(number, one, many)) }
}

fn mismatch_json(mismatch: &Mismatch) -> JsonText {
    object([
        ("stream", text(mismatch.stream.as_str())),
        ("place", text(&mismatch.path)),
        ("rebuilt", text(&mismatch.rebuilt)),
        ("live", text(&mismatch.live)),
    ])
}

/// Verifies what the scope names, with a progress bar if stderr is a terminal.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn verify_log(
    reader: &dyn EventReader,
    scope: &Scope<'_>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let mut bar = Bar::new("verifying");
    let found = audit::verify_within(reader, scope, &mut |progress| bar.show(progress));
    let speed = bar.finish(found.bytes);
    print_verified(&found, &speed, screen)
}

/// Prints what was found in an extract.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn verified(found: &VerifyReport, screen: &mut Screen) -> Result<Answer, Problem> {
    print_verified(found, &Bar::new("verifying").finish(found.bytes), screen)
}

fn print_verified(found: &VerifyReport, speed: &Speed, screen: &mut Screen) -> Result<Answer, Problem> {
    if screen.json {
        for finding in &found.findings {
            screen.json_line(&finding_json(finding))?;
        }
        screen.json_line(&verified_json(found, speed.seconds, speed.mb_per_s()))?;
    } else {
        findings(found, speed, screen)?;
    }
    screen.flush()?;
    match &found.failed {
        // A failure of the reader says nothing of the log; damage that was found all the same does.
        Some(error) if found.findings.is_empty() || found.is_newer() => Err(Problem::from(error.clone())),
        _ if found.is_sound() => Ok(Answer::Yes),
        _ if found.is_newer() => Ok(Answer::Newer),
        _ => Ok(Answer::No),
    }
}

fn findings(found: &VerifyReport, speed: &Speed, screen: &mut Screen) -> Result<(), Problem> {
    if !found.findings.is_empty() {
        let mut table = Screen::table(&[
            uncut("fault"),
            uncut("stream"),
            uncut("version"),
            uncut("position"),
            words("what"),
        ]);
        for finding in &found.findings {
            let show = |place: Option<String>| place.unwrap_or_else(|| "-".to_owned());
            table.row(vec![
                Cell::new(finding.kind),
                Cell::new(screen.plain(&show(finding.stream.as_ref().map(ToString::to_string)))),
                Cell::figure(show(finding.version.map(|version| version.to_string()))),
                Cell::figure(show(finding.position.map(|position| position.to_string()))),
                Cell::new(screen.plain(&finding.what)),
            ]);
        }
        screen.print(&table)?;
        if found.findings_dropped > 0 {
            screen.line(&format!("and {} more faults", found.findings_dropped))?;
        }
    }
    screen.line(&format!(
        "{} in {} of {}: {}   ({speed})",
        count(found.events, "event", "events"),
        count(found.records, "record", "records"),
        count(found.streams, "stream", "streams"),
        count(found.faults(), "fault", "faults")
    ))?;
    if let Some(root) = found.root {
        screen.line(&format!("Merkle root {root} up to position {}", found.end))?;
    }
    if let Some(covered) = found.covered {
        screen.line(&format!("the given root covers the log up to position {covered}"))?;
    }
    for what in &found.notes {
        screen.line(&format!("note: {what}"))?;
    }
    if found.notes_dropped > 0 {
        screen.line(&format!("and {} more notes", found.notes_dropped))?;
    }
    for what in &found.unchecked {
        screen.line(&format!("not checked: {what}"))?;
    }
    Ok(())
}

/// Exports the whole log.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn export_log(
    reader: &dyn EventReader,
    id: LogId,
    durability: &str,
    gaps: &mut Gaps<'_>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let done =
        audit::export_with_files(reader, id, durability, json_to(screen), |kept| gaps.accept_file(kept))?;
    screen.flush()?;
    note(&format!(
        "{} with {}",
        count(done.records, "record", "records"),
        count(done.events, "event", "events")
    ));
    gaps.finish();
    Ok(Answer::Yes)
}

/// Returns what prints the lines of an export: as they are, and on a terminal without what it would obey, with the same values.
fn json_to(screen: &mut Screen) -> impl FnMut(&str) -> Result<(), Problem> {
    let is_terminal = screen.is_terminal();
    move |line| if is_terminal { screen.line(&plain_json(line)) } else { screen.line(line) }
}

/// Names the files beside the log that an export of it lacks: the files of a store that are missing or changed, else how many there
/// are. The lines of an export are what the log holds, so that the names stand on stderr.
pub(crate) struct Gaps<'a> {
    files: Option<&'a StoredFiles>,
    all: u64,
    missing: u64,
}

impl<'a> Gaps<'a> {
    pub(crate) fn new(files: Option<&'a StoredFiles>) -> Self {
        Self { files, all: 0, missing: 0 }
    }

    fn accept_file(&mut self, kept: &KeptFileAt) {
        self.all += 1;
        let Some(what) = self.files.and_then(|files| files.fault(kept)) else { return };
        self.missing += 1;
        if self.missing <= GAPS_NAMED_MAX {
            note(&format!("a gap: {what} ({} version {})", kept.stream, kept.version));
        }
    }

    fn finish(&self) {
        let (files, gaps) = (count(self.all, "file", "files"), self.missing);
        match self.files {
            _ if self.all == 0 => {}
            None => note(&format!(
                "artifacts refer to {files} beside the log, which the export does not carry; --files DIR names those that are missing"
            )),
            Some(_) => note(&format!(
                "of {files} beside the log, which the export does not carry, {gaps} are missing or changed"
            )),
        }
    }
}

/// The gaps that are named one by one.
const GAPS_NAMED_MAX: u64 = 100;

/// Writes the records of a log that hold a selected event.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn extract_log(
    reader: &dyn EventReader,
    log: (LogId, &str),
    selection: Selection,
    limit: Option<usize>,
    gaps: &mut Gaps<'_>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let done =
        extract_with_files(reader, log, selection, limit, json_to(screen), |kept| gaps.accept_file(kept))?;
    screen.flush()?;
    note(&format!(
        "an extract of {} with {}; it cannot be imported",
        count(done.records, "record", "records"),
        count(done.events, "event", "events")
    ));
    gaps.finish();
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use taskreel_log::api::ReadError;

    use super::*;
    use crate::print::problem::EXIT_LOG;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_failed_is_no_fault_of_the_log_and_no_sound_log_either() {
        let mut found = VerifyReport::default();
        (found.events, found.failed) = (6, Some(ReadError::Closed));
        found.unchecked = vec!["all of the index: the reader of the log failed".to_owned()];
        for json in [false, true] {
            let page = Page::default();
            let mut screen = Screen::onto(page.clone(), json);
            let problem = verified(&found, &mut screen).unwrap_err();
            assert_eq!((problem.code, problem.quiet), (EXIT_LOG, false), "{problem}");
            let shown = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
            assert!(shown.contains("the reader of the log failed"), "{shown}");
            assert!(shown.contains("0 faults") || shown.contains(r#""faults":0"#), "{shown}");
        }
    }

    #[test]
    fn a_mismatch_is_shown_with_its_stream_and_is_a_no() {
        let stream = StreamId::task("agent", "t").unwrap();
        let (path, rebuilt, live) = ("version".to_owned(), "6".to_owned(), "4".to_owned());
        let mismatch = Some(Mismatch { stream, path, rebuilt, live });
        let mut report = ReplaySummary::default();
        (report.events, report.tasks, report.mismatch) = (6, 1, mismatch);
        let page = Page::default();
        let mut screen = Screen::onto(page.clone(), false);
        assert_eq!(print_replayed(&report, &mut screen).unwrap(), Answer::No);
        let shown = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        assert!(shown.contains("1 mismatch\n") && shown.contains("task-agent/t"), "{shown}");
    }

    #[test]
    fn the_lines_of_an_export_are_exact_in_a_file_and_steer_no_terminal() {
        let line = "{\"text\":\"\u{9b}2J\u{202e}turned\"}";
        let shown = |is_terminal: bool| {
            let page = Page::default();
            let screen = Screen::onto(page.clone(), false);
            let mut screen = if is_terminal { screen.onto_terminal() } else { screen };
            json_to(&mut screen)(line).unwrap();
            screen.flush().unwrap();
            String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
        };
        assert_eq!(shown(false), format!("{line}\n"));
        assert_eq!(shown(true), "{\"text\":\"\\u009b2J\\u202eturned\"}\n");
    }
}
