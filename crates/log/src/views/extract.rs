//! The records of a log that hold a selected event, in the lines of an export. Such an extract is not a whole log: it is
//! read by people and programs, never imported.

use std::collections::VecDeque;

use proto_events::id::{LogId, Position};
use proto_events::json::JsonText;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::artifacts::KeptFileAt;
use crate::audit::export::{EXTRACT_END_SCHEMA, EXTRACT_SCHEMA, ExportSummary, record_line};
use crate::audit::json::{number, object, one_line, text};
use crate::audit::kept_files::kept_files_in;
use crate::read::for_each::for_each_record;
use crate::views::event_row::event_rows;
use crate::views::selection::Selection;

/// Passes the records that hold a selected event to `write`, line by line, each whole and with its bytes and its hash;
/// with a limit the newest ones only. `id` and `durability` are the log's own.
///
/// # Errors
/// The error of `write`, or a converted [`ReadError`] at the first record that cannot be read.
pub fn extract<E: From<ReadError>>(
    reader: &dyn EventReader,
    log: (LogId, &str),
    selection: Selection,
    limit: Option<usize>,
    write: impl FnMut(&str) -> Result<(), E>,
) -> Result<ExportSummary, E> {
    extract_with_files(reader, log, selection, limit, write, |_| {})
}

/// Extracts as [`extract`] does, and shows the files beside the log to which the events of these records refer.
///
/// # Errors
/// As [`extract`].
pub fn extract_with_files<E: From<ReadError>>(
    reader: &dyn EventReader,
    (id, durability): (LogId, &str),
    mut selection: Selection,
    limit: Option<usize>,
    mut write: impl FnMut(&str) -> Result<(), E>,
    mut show: impl FnMut(&KeptFileAt),
) -> Result<ExportSummary, E> {
    let head = reader.head()?;
    let mut done = ExportSummary::default();
    write(&one_line(&object([
        ("schema", text(EXTRACT_SCHEMA)),
        ("log", text(&id.to_string())),
        ("durability", text(durability)),
        ("head", number(head.0)),
    ])))?;
    let mut newest: VecDeque<Position> = VecDeque::new();
    let mut put = |stored: &StoredRecord| {
        done.records += 1;
        done.events += stored.record.events.len() as u64;
        kept_files_in(stored).iter().for_each(&mut show);
        write(&record_line(stored))
    };
    for_each_record(reader, Position(1), |stored| {
        // Each event is shown to the selection, since later ones may name it.
        let mut taken = false;
        for row in event_rows(stored) {
            taken |= selection.takes(&row);
        }
        match limit {
            _ if !taken || stored.position > head => Ok(()),
            None => put(stored),
            Some(most) => {
                newest.push_back(stored.position);
                if newest.len() > most {
                    newest.pop_front();
                }
                Ok(())
            }
        }
    })?;
    for position in newest {
        reader.read_all(position, 1)?.first().map_or(Ok(()), &mut put)?;
    }
    write(&end_line(done))?;
    Ok(done)
}

fn end_line(done: ExportSummary) -> String {
    let end: JsonText = object([
        ("schema", text(EXTRACT_END_SCHEMA)),
        ("records", number(done.records)),
        ("events", number(done.events)),
    ]);
    one_line(&end)
}
