//! The words of an export are compared whole with its bytes: whatever is added, removed, doubled or replaced in any
//! line, in the project's own fields or in a user's JSON, is a finding of `verify --file`, and `import` refuses it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

#[path = "forgeries/asking.rs"]
mod asking;
#[path = "forgeries/events.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod events;
#[path = "forgeries/log.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod log;
#[path = "forgeries/sealing.rs"]
mod sealing;
#[path = "forgeries/sound.rs"]
#[allow(dead_code, reason = "the forgeries use all of it")]
mod sound;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Cursor;
use std::ops::{ControlFlow, Range};

use proto_events::codec::AnyEvent;
use proto_events::id::{LogId, StreamId, Version};
use proto_events::task::TaskEvent;
use taskreel_log::api::ReadError;
use taskreel_log::audit::{self, ImportSummary, Scope, VerifyReport, verify_within};
use taskreel_log::jsonl::{ExportLines, JsonLines};
use taskreel_log::read::for_each_page_of;

/// JSON of a user, with what printers and parsers like to change.
const USERS: &str =
    r#"{"z":1.0,"a":[1e16,-0.0,{"deep":{"x":null,"y":[]}},"é \u00e9"],"n":2361183241434822606848}"#;

/// Returns the export of a log with every kind of event.
fn export() -> String {
    let mut log = sound::sound();
    let entries = [("users".to_owned(), events::json(USERS))].into_iter().collect();
    log.insert("remark", 0, AnyEvent::Task(TaskEvent::MetadataMerged(entries)));
    let mut text = String::new();
    audit::export(&log.seal(), LogId::default(), "strict", |line| {
        text.push_str(line);
        text.push('\n');
        Ok::<(), ReadError>(())
    })
    .unwrap();
    text
}

fn verified(text: &str) -> VerifyReport {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let log = JsonLines::open_damaged(file.path()).unwrap();
    verify_within(&log, &Scope { file: Some(&log), ..Scope::default() }, &mut |_| {})
}

fn import(text: &str) -> Option<ImportSummary> {
    let lines = ExportLines::open(Cursor::new(text.as_bytes())).ok()?;
    audit::import(lines, |_| Ok::<(), Infallible>(())).ok()
}

/// A member of an object or an element of an array, in a line.
struct Member {
    whole: Range<usize>,
    value: Range<usize>,
    key: Option<Range<usize>>,
}

/// Finds all members of a line of JSON without blanks, at every depth.
fn members(line: &str) -> Vec<Member> {
    let mut found = Vec::new();
    value(line.as_bytes(), 0, &mut found);
    found
}

/// Reads the value at a place, and returns its end.
fn value(text: &[u8], at: usize, found: &mut Vec<Member>) -> usize {
    match text[at] {
        b'"' => string(text, at),
        open @ (b'{' | b'[') => {
            let mut at = at + 1;
            while !matches!(text[at], b'}' | b']') {
                let begin = at;
                let key = (open == b'{').then(|| begin..string(text, begin));
                let from = key.as_ref().map_or(begin, |key| key.end + 1);
                let end = value(text, from, found);
                found.push(Member { whole: begin..end, value: from..end, key });
                at = end + usize::from(text[end] == b',');
            }
            at + 1
        }
        _ => at + text[at..].iter().take_while(|byte| !matches!(byte, b',' | b'}' | b']')).count(),
    }
}

fn string(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while text[end] != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    end + 1
}

/// Returns each line that differs from this one by one member.
fn mutations(line: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (found, Member { whole, value, key }) in members(line).into_iter().enumerate() {
        let member = &line[whole.clone()];
        let short: String = member.chars().take(40).collect();
        let mut add = |what: &str, new: String| {
            if new != line {
                all.push((format!("{what} {short}"), new));
            }
        };
        let (before, after) = (&line[..whole.start], &line[whole.end..]);
        let without = match after.strip_prefix(',') {
            Some(after) => format!("{before}{after}"),
            None => format!("{}{after}", before.strip_suffix(',').unwrap_or(before)),
        };
        add("removed", without);
        add("doubled", format!("{before}{member},{member}{after}"));
        let added = if key.is_some() { "\"added\":1" } else { "1" };
        add("added", format!("{before}{added},{member}{after}"));
        add("replaced", format!("{}\"other\"{after}", &line[..value.start]));
        if found % 3 != 0 {
            continue;
        }
        add("emptied", format!("{}null{after}", &line[..value.start]));
        add("blank before", format!("{before} {member}{after}"));
        if let Some(key) = key {
            add("added after", format!("{before}{member},\"added\":{{\"x\":[]}}{after}"));
            add("renamed", format!("{before}\"renamed\"{}{after}", &line[key.end..whole.end]));
        }
    }
    all
}

#[test]
fn whatever_is_changed_in_a_line_is_found_in_that_line() {
    let text = export();
    assert!(verified(&text).is_sound(), "{:?}", verified(&text).findings);
    let lines: Vec<&str> = text.lines().collect();
    // The first and the last line have a test of their own.
    let (last, records) = lines[1..].split_last().unwrap();
    let mutations: Vec<_> = records.iter().map(|line| mutations(line)).collect();
    let most = mutations.iter().map(Vec::len).max().unwrap();
    let positions: Vec<u64> = records
        .iter()
        .map(|line| line.strip_prefix("{\"position\":").unwrap().split(',').next().unwrap().parse().unwrap())
        .collect();
    let mut passed = Vec::new();
    // One change in each line at once: verification goes on after each.
    for round in 0..most {
        let changed: Vec<Option<&(String, String)>> = mutations.iter().map(|all| all.get(round)).collect();
        let texts = changed.iter().zip(records).map(|(change, line)| change.map_or(*line, |(_, new)| new));
        let file = std::iter::once(lines[0]).chain(texts).chain([*last]).collect::<Vec<_>>().join("\n");
        let found = verified(&file);
        let at: BTreeSet<u64> = found.findings.iter().filter_map(|found| Some(found.position?.0)).collect();
        let named =
            |line: usize| found.findings.iter().any(|found| found.what.starts_with(&format!("line {line}:")));
        let findings = changed.iter().zip(&positions).enumerate();
        passed.extend(findings.filter_map(|(number, (change, position))| {
            let (what, _) = (*change)?;
            (!at.contains(position) && !named(number + 2)).then(|| format!("line {}: {what}", number + 2))
        }));
    }
    let all: usize = mutations.iter().map(Vec::len).sum();
    assert!(all > 5_000, "{all}");
    assert!(passed.is_empty(), "{} of {all} passed:\n{}", passed.len(), passed.join("\n"));
}

#[test]
fn whatever_is_changed_in_a_line_is_refused_by_an_import() {
    let text = export();
    assert!(import(&text).is_some());
    let lines: Vec<&str> = text.lines().collect();
    let mut tried = 0_usize;
    for (number, line) in lines.iter().enumerate() {
        // A prime step reaches members of every kind; all of them are tried in the first lines.
        let step = if number < 2 { 1 } else { 41 };
        for (what, changed) in mutations(line).into_iter().step_by(step) {
            let mut lines = lines.clone();
            lines[number] = &changed;
            tried += 1;
            assert!(import(&lines.join("\n")).is_none(), "line {}: {what}", number + 1);
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn a_first_or_last_line_with_other_words_is_a_finding() {
    let text = export();
    let (first, last) = (text.lines().next().unwrap(), text.lines().next_back().unwrap());
    let mut tried = 0;
    let of_last = mutations(last).into_iter().map(|(what, changed)| (what, text.replacen(last, &changed, 1)));
    let of_first =
        mutations(first).into_iter().map(|(what, changed)| (what, text.replacen(first, &changed, 1)));
    for (what, changed) in of_first.chain(of_last) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), changed).unwrap();
        // A first line that describes no log is refused as a whole.
        let Ok(log) = JsonLines::open_damaged(file.path()) else { continue };
        tried += 1;
        let found = verify_within(&log, &Scope { file: Some(&log), ..Scope::default() }, &mut |_| {});
        assert!(!found.is_sound(), "{what}");
    }
    assert!(tried > 20, "{tried}");
}

/// Returns the export with two records of a stream exchanged, each with the position of the other one, which no hash covers.
fn exchanged(lines: &[&str], one: usize, other: usize) -> Option<String> {
    let position = |line: &str| {
        let (_, rest) = line.split_once("\"position\":")?;
        Some(format!("\"position\":{}", rest.split_once([',', '}'])?.0))
    };
    let (first, second) = (position(lines[one])?, position(lines[other])?);
    let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    changed[one] = lines[other].replacen(&second, &first, 1);
    changed[other] = lines[one].replacen(&first, &second, 1);
    Some(changed.join("\n") + "\n")
}

#[test]
fn a_stream_whose_records_were_exchanged_with_their_positions_is_read_to_its_end() {
    let text = export();
    let lines: Vec<&str> = text.lines().collect();
    let stream = |line: &str| Some(line.split_once("\"stream\":\"")?.1.split_once('"')?.0.to_owned());
    let of_streams: Vec<Option<String>> = lines.iter().map(|line| stream(line)).collect();
    let mut tried = 0;
    for one in 1..lines.len() {
        let next = |after: usize| (after + 1..lines.len()).find(|at| of_streams[*at] == of_streams[one]);
        let Some(other) = next(one).filter(|_| of_streams[one].is_some()) else { continue };
        for other in [Some(other), next(other)].into_iter().flatten() {
            let Some(forged) = exchanged(&lines, one, other) else { continue };
            tried += 1;
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), forged).unwrap();
            let log = JsonLines::open_damaged(file.path()).unwrap();
            let name = StreamId::parse(of_streams[one].as_deref().unwrap()).unwrap();
            let mut pages = 0;
            for_each_page_of(&log, &name, Version(1), |page| {
                pages += page.len();
                assert!(pages < lines.len(), "lines {one} and {other}: it is read for ever");
                Ok::<_, ReadError>(ControlFlow::Continue(()))
            })
            .unwrap();
            let found = verify_within(&log, &Scope { file: Some(&log), ..Scope::default() }, &mut |_| {});
            assert!(!found.is_sound(), "lines {one} and {other}");
        }
    }
    assert!(tried > 100, "{tried}");
}
