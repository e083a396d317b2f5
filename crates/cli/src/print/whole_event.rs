//! `event`: prints one event whole.

use taskreel_log::audit::event_json;
use taskreel_log::jsonl::hex;
use taskreel_log::views::{Summaries, WholeEvent};

use crate::print::answer::Answer;
use crate::print::plain::indented;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::time;

/// Prints an event with its header, its hashes, its place and its payload.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn whole_event(found: &WholeEvent, screen: &mut Screen) -> Result<Answer, Problem> {
    if screen.json {
        screen.json_line(&found.to_json())?;
    } else {
        header(found, screen)?;
        screen.line("")?;
        match &found.row.event {
            Ok(event) => screen.line(&indented(&event_json(event)))?,
            Err(why) => {
                let why = screen.plain(why);
                screen.line(&format!("its body cannot be read: {why}"))?;
            }
        }
    }
    screen.flush()?;
    if !found.is_intact() {
        note("the body does not have the digest that its record holds, or is missing from the log");
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

fn header(found: &WholeEvent, screen: &mut Screen) -> Result<(), Problem> {
    for (name, what) in facts(found) {
        let what = screen.plain(&what);
        screen.line(&format!("{name:<9} {what}"))?;
    }
    Ok(())
}

/// Returns what the record says of an event, and the hashes that hold it in its place.
pub(crate) fn facts(found: &WholeEvent) -> Vec<(&'static str, String)> {
    let (row, stored) = (&found.row, &found.record);
    let record = &stored.record;
    let summary = Summaries::default().of(row);
    let none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let (first, last) = (record.first_version, record.last_version());
    let digest = record.metadata.command_digest.as_ref().map(|command| command.digest.to_string());
    vec![
        ("event", format!("{} ({}, schema {})", row.kind, row.kind_number, row.schema)),
        ("stream", row.stream.to_string()),
        ("version", row.version.to_string()),
        ("position", row.position.to_string()),
        ("time", time::local(row.at)),
        ("summary", summary),
        ("command", row.command_id.clone()),
        ("content", none(digest.as_deref().unwrap_or_default())),
        ("caused by", none(&row.causation_id)),
        ("request", none(&row.correlation_id)),
        ("by", format!("{} ({})", none(&row.principal), row.principal_basis)),
        ("append", format!("{}, record {} of {}", row.set_id, record.part + 1, record.parts)),
        ("epoch", format!("{} of partition {}", record.epoch, record.partition)),
        ("record", format!("versions {first} to {last}, {} bytes", stored.bytes.len())),
        ("leaf hash", stored.hash.to_string()),
        ("previous", record.previous.to_string()),
        ("body", format!("{} bytes", found.event.body_len)),
        (
            "digest",
            format!(
                "{} {}",
                found.event.digest,
                if found.is_intact() { "(recomputed)" } else { "(NOT that of the body)" }
            ),
        ),
        ("salt", hex(found.event.salt())),
    ]
}
