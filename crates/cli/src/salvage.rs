//! `salvage`: writes what is sound in a damaged log into an export.

use std::io::ErrorKind;

use taskreel_log::audit::json::{number, object, text};
use taskreel_log::doctor;
use taskreel_log::doctor::{Gap, SalvageError, SalvageReport};

use crate::args::SalvageArgs;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_OUTPUT, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::signals::UnfinishedFile;

pub(crate) fn salvage(args: &SalvageArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    let begun = UnfinishedFile::new(&args.out);
    let report = doctor::salvage(&args.dir, &args.out).map_err(|error| refused(&error, args))?;
    drop(begun);
    if screen.json {
        print_json(&report, args, screen)?;
    } else {
        screen.line(&format!(
            "salvaged {} with {} into {}",
            count(report.records, "record", "records"),
            count(report.events, "event", "events"),
            args.out.display()
        ))?;
        for Gap { first, last } in &report.gaps {
            screen.line(&format!("missing: positions {first} to {last}"))?;
        }
        if report.unreadable_bytes > 0 {
            screen.line(&format!(
                "the disk could not read {}",
                count(report.unreadable_bytes, "byte", "bytes")
            ))?;
        }
    }
    screen.flush()?;
    note(&format!("next: taskreel verify --file {}", args.out.display()));
    Ok(if report.is_whole() { Answer::Yes } else { Answer::No })
}

fn print_json(report: &SalvageReport, args: &SalvageArgs, screen: &mut Screen) -> Result<(), Problem> {
    for Gap { first, last } in &report.gaps {
        screen.json_line(&object([
            ("schema", text("taskreel.gap/1")),
            ("first", number(first.0)),
            ("last", number(last.0)),
        ]))?;
    }
    screen.json_line(&object([
        ("schema", text("taskreel.salvage/1")),
        ("records", number(report.records)),
        ("events", number(report.events)),
        ("gaps", number(report.gaps.len() as u64)),
        ("unreadable_bytes", number(report.unreadable_bytes)),
        ("file", text(&args.out.display().to_string())),
    ]))
}

fn refused(error: &SalvageError, args: &SalvageArgs) -> Problem {
    match error {
        SalvageError::Open(error) => Problem::open(error, &args.dir),
        other => Problem::new(
            if exists(other) { EXIT_USAGE } else { EXIT_OUTPUT },
            format!("cannot salvage {}", args.dir.display()),
            other.to_string(),
            "name a new file, on a disk with free space",
        ),
    }
}

/// Whether the file that was to be made is there already.
fn exists(error: &SalvageError) -> bool {
    matches!(error, SalvageError::Write { source, .. } if source.kind() == ErrorKind::AlreadyExists)
}
