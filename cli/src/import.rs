//! `import`: makes a new log from an export.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use taskreel_log::api::{AppendError, Durability};
use taskreel_log::audit;
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::audit::{ImportError, Imported};
use taskreel_log::jsonl::{ExportError, ExportLines};
use taskreel_log::sled::SledImport;

use crate::args::{Global, ImportArgs};
use crate::dirs;
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_LOG, Problem};
use crate::print::screen::{Screen, count, note};

pub(crate) fn import(args: &ImportArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let dir = dirs::to_write(global, LOG_DIR);
    let from: Box<dyn BufRead> = if args.file.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(&args.file).map_err(ExportError::from);
        Box::new(BufReader::new(file.map_err(|error| Problem::export(&error, &args.file))?))
    };
    let done = import_into(from, &args.file, &dir)?;
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.import/1")),
            ("records", number(done.records)),
            ("events", number(done.events)),
            ("faults", number(done.faults)),
            ("data_dir", text(&dir.display().to_string())),
        ]))?;
    } else {
        screen.line(&format!(
            "imported {} with {} into {}",
            count(done.records, "record", "records"),
            count(done.events, "event", "events"),
            dir.display()
        ))?;
    }
    screen.flush()?;
    if done.faults > 0 {
        let faults = count(done.faults, "fault", "faults");
        let verify = dirs::typed("verify", &dir, LOG_DIR);
        note(&format!(
            "the records are imported byte for byte, and their contents have {faults}; list them with: {verify}"
        ));
    }
    note(&format!("next: {}", dirs::typed("ls", &dir, LOG_DIR)));
    Ok(Answer::Yes)
}

/// Imports into a new log. A failed import leaves nothing: dropping it undoes it.
fn import_into(from: Box<dyn BufRead>, file: &Path, dir: &Path) -> Result<Imported, Problem> {
    let lines = ExportLines::begin(from).map_err(|error| Problem::export(&error, file))?;
    let name = &lines.header().durability;
    let durability = Durability::of_name(name).ok_or_else(|| {
        Problem::new(
            EXIT_LOG,
            format!("cannot import {}", file.display()),
            format!("its log has durability `{name}`, which this program does not know"),
            "use the release of taskreel that wrote it, or a newer one",
        )
    })?;
    let id = lines.header().id;
    let mut log = SledImport::begin(dir, id, durability).map_err(|error| Problem::open(&error, dir))?;
    let done = audit::import(lines, |append| log.take(append)).map_err(|error| refused(&error, file))?;
    log.finish().map_err(|error| Problem::open(&error, dir))?;
    Ok(done)
}

fn refused(error: &ImportError<AppendError>, file: &Path) -> Problem {
    let mut problem = match error {
        ImportError::Export(error) => Problem::export(error, file),
        error => Problem::new(
            EXIT_LOG,
            format!("cannot import {}", file.display()),
            error.to_string(),
            "check that the disk works and has free space, then import the file again",
        ),
    };
    problem.what = format!("{}; nothing was imported", problem.what);
    problem
}
