//! `doctor`: prints the condition of a log.

use std::time::Duration;

use proto_events::json::JsonText;
use taskreel_log::api::Holder;
use taskreel_log::audit::json::{number, object, text};
use taskreel_log::doctor::{Advice, Examination, HeadState, PartSize};
use taskreel_log::sled::TreeSize;

use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count};

/// Prints the result of an examination.
///
/// # Errors
/// A quiet [`Problem`] if the reader of the output is gone.
pub(crate) fn doctor(found: &Examination, screen: &mut Screen) -> Result<Answer, Problem> {
    if screen.json {
        screen.json_line(&report_json(found))?;
    } else {
        for (name, what) in lines(found) {
            let what = screen.plain(&what);
            screen.line(&format!("{name:<11} {what}"))?;
        }
        for Advice { part, what, advice, .. } in &found.findings {
            let what = screen.plain(what);
            screen.line(&format!("finding: {part}: {what}"))?;
            screen.line(&format!("  try: {advice}"))?;
        }
        for what in &found.notes {
            let what = screen.plain(what);
            screen.line(&format!("note: {what}"))?;
        }
        for what in &found.unchecked {
            screen.line(&format!("not checked: {what}"))?;
        }
        screen.line(&count(found.findings.len() as u64, "finding", "findings"))?;
    }
    screen.flush()?;
    Ok(if found.is_sound() { Answer::Yes } else { Answer::No })
}

fn lines(found: &Examination) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("directory", found.dir.display().to_string()),
        ("format", found.header.format.to_string()),
        ("log", found.header.id.to_string()),
        ("durability", durability(found)),
        ("held by", holder(found)),
        ("size", sizes(found)),
        ("fdatasync", sync(found)),
        ("HEAD", head(&found.head)),
        (
            "blobs/",
            if found.blobs == 0 { "empty".to_owned() } else { count(found.blobs as u64, "file", "files") },
        ),
    ];
    if let Some(verified) = &found.verified {
        let events = count(verified.events, "event", "events");
        let records = count(verified.records, "record", "records");
        let streams = count(verified.streams, "stream", "streams");
        let faults = count(verified.findings.len() as u64 + verified.findings_dropped, "fault", "faults");
        lines.push(("log", format!("{events} in {records} of {streams}")));
        lines.push(("chain", format!("{faults}, index included")));
    }
    if !found.trees.is_empty() {
        let tree = |tree: &TreeSize| match tree.values {
            0 => format!("{} empty", tree.name),
            values => format!("{} {} in {}", tree.name, bytes(tree.bytes), count(values, "value", "values")),
        };
        lines.push(("trees", found.trees.iter().map(tree).collect::<Vec<_>>().join(", ")));
    }
    lines
}

fn durability(found: &Examination) -> String {
    let durability = found.header.durability;
    durability.warning().map_or_else(
        || format!("{}: acknowledged events survive a power failure", durability.name()),
        |warning| warning.strip_prefix("durability ").unwrap_or(warning).to_owned(),
    )
}

fn holder(found: &Examination) -> String {
    match (&found.holder, found.is_held) {
        (Some(Holder { pid, program, started, .. }), _) => {
            format!("process {pid} ({program}) since {started}")
        }
        (None, true) => "an unknown process: the file `holder` cannot be read".to_owned(),
        (None, false) => "no process".to_owned(),
    }
}

fn sizes(found: &Examination) -> String {
    let all = found.sizes.iter().map(|size| size.bytes).sum();
    let part = |size: &PartSize| format!("{} {}", size.part, bytes(size.bytes));
    format!("{}: {}", bytes(all), found.sizes.iter().map(part).collect::<Vec<_>>().join(", "))
}

fn sync(found: &Examination) -> String {
    match &found.sync {
        Ok(cost) => {
            format!("median {}, slowest {}", milliseconds(cost.median), milliseconds(cost.slowest))
        }
        Err(why) => format!("could not be measured: {why}"),
    }
}

fn head(head: &HeadState) -> String {
    match head {
        HeadState::Missing => "missing".to_owned(),
        HeadState::Unreadable(why) => format!("unreadable: {why}"),
        HeadState::Whole { head, age } => {
            let age = age.map_or_else(String::new, |age| format!(", written {} s ago", age.as_secs()));
            let records = count(head.frontier.size(), "record", "records");
            format!("position {}, {records}{age}", head.position)
        }
    }
}

/// Formats bytes with a unit and one decimal digit.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1024, "KiB");
    for next in UNITS.into_iter().skip(1) {
        if tenths < 10 * 1024 {
            break;
        }
        (tenths, unit) = (tenths / 1024, next);
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

fn milliseconds(time: Duration) -> String {
    format!("{}.{:02} ms", time.as_millis(), time.as_micros() % 1_000 / 10)
}

fn micros(time: Duration) -> JsonText {
    number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn list(items: impl IntoIterator<Item = JsonText>) -> JsonText {
    JsonText::of_model(&items.into_iter().collect::<Vec<_>>())
}

fn maybe(value: Option<JsonText>) -> JsonText {
    value.unwrap_or_else(JsonText::null)
}

fn report_json(found: &Examination) -> JsonText {
    let bool = |value: bool| JsonText::of_model(&value);
    let file = |size: &PartSize| {
        object([("part", text(size.part)), ("files", number(size.files)), ("bytes", number(size.bytes))])
    };
    let tree = |tree: &TreeSize| {
        object([("tree", text(tree.name)), ("values", number(tree.values)), ("bytes", number(tree.bytes))])
    };
    let advice = |one: &Advice| {
        object([("part", text(one.part)), ("what", text(&one.what)), ("advice", text(one.advice))])
    };
    let verified = found.verified.as_ref().map(|verified| {
        object([
            ("events", number(verified.events)),
            ("records", number(verified.records)),
            ("streams", number(verified.streams)),
            ("faults", number(verified.findings.len() as u64 + verified.findings_dropped)),
        ])
    });
    let sync = found
        .sync
        .as_ref()
        .ok()
        .map(|cost| object([("median_us", micros(cost.median)), ("slowest_us", micros(cost.slowest))]));
    object([
        ("schema", text("taskreel.doctor/1")),
        ("directory", text(&found.dir.display().to_string())),
        ("format", number(found.header.format)),
        ("log_id", text(&found.header.id.to_string())),
        ("durability", text(found.header.durability.name())),
        ("held", bool(found.is_held)),
        ("holder", maybe(found.holder.as_ref().map(holder_json))),
        ("files", list(found.sizes.iter().map(file))),
        ("trees", list(found.trees.iter().map(tree))),
        ("fdatasync", maybe(sync)),
        ("head", head_json(&found.head)),
        ("blobs", number(found.blobs as u64)),
        ("log", maybe(verified)),
        ("notes", JsonText::of_model(&found.notes)),
        ("findings", list(found.findings.iter().map(advice))),
        ("not_checked", JsonText::of_model(&found.unchecked)),
    ])
}

fn holder_json(holder: &Holder) -> JsonText {
    object([
        ("pid", number(holder.pid)),
        ("program", text(&holder.program)),
        ("started", text(&holder.started)),
    ])
}

fn head_json(head: &HeadState) -> JsonText {
    match head {
        HeadState::Missing => object([("state", text("missing"))]),
        HeadState::Unreadable(why) => object([("state", text("unreadable")), ("why", text(why))]),
        HeadState::Whole { head, age } => object([
            ("state", text("whole")),
            ("position", number(head.position.0)),
            ("records", number(head.frontier.size())),
            ("age_s", maybe(age.map(|age| number(age.as_secs())))),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_people_would_choose() {
        let told = [0, 1023, 1024, 1536, 1024 * 1024 - 1, 4 * 1024 * 1024, 5 << 40].map(bytes);
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1023.9 KiB", "4.0 MiB", "5.0 TiB"]);
        assert_eq!(milliseconds(Duration::from_micros(1_250)), "1.25 ms");
    }
}
