//! `search`: what is found is compared with a search that is written otherwise, on every source of a log.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::ran;
use crate::binary::{Place, small_log};

/// A task that echoes a text.
pub(crate) fn echo(id: &str, text: &str) -> String {
    let part = json!({"type": "tool_call", "content": {"tool_name": "echo", "args": {"text": text}, "call_id": "c"}});
    json!({"id": id, "messages": [{"id": "m", "role": "user", "parts": [part]}]}).to_string()
}

fn named<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap()
}

/// Returns position and path of each text that holds the word, newest first, by a walk over serde's values.
fn by_hand(events: &[Value], word: &str) -> Vec<(u64, String)> {
    fn walk(value: &serde_json::Value, path: &str, word: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) if text.to_lowercase().contains(word) => {
                found.push(path.to_owned());
            }
            serde_json::Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(at, item)| walk(item, &format!("{path}[{at}]"), word, found));
            }
            serde_json::Value::Object(fields) => {
                fields.iter().for_each(|(name, inner)| walk(inner, &format!("{path}.{name}"), word, found));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    for event in events.iter().rev() {
        let mut found = Vec::new();
        walk(&event["payload"].clone().into(), "payload", word, &mut found);
        found.sort();
        all.extend(found.into_iter().map(|path| (event["position"].as_u64().unwrap(), path)));
    }
    all
}

fn found(rows: &[Value]) -> Vec<(u64, String)> {
    let mut found: Vec<(u64, String)> =
        rows.iter().map(|row| (row["position"].as_u64().unwrap(), named(row, "path").to_owned())).collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found
}

#[test]
fn each_text_that_holds_the_word_is_found_once_newest_first() {
    let place = Place::new();
    // More events than one piece of a search.
    let tasks: Vec<String> = (0..130)
        .map(|n| echo(&format!("echo-{n:04}"), if n % 40 == 0 { "a Needle here" } else { "hay" }))
        .collect();
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    let events = place.run("events --all --json").ended(0).json();
    assert!(events.len() > 1_000, "{}", events.len());
    let hits = place.run("search needle --json").ended(0).json();
    assert_eq!(found(&hits), by_hand(&events, "needle"));
    assert!(hits.is_sorted_by_key(|hit| std::cmp::Reverse(hit["position"].as_u64())), "newest first");
    let areas: std::collections::BTreeSet<_> = hits.iter().map(|hit| named(hit, "area")).collect();
    assert_eq!(areas, ["arguments", "message", "result"].into());
    assert_eq!(
        (named(&hits[0], "before"), named(&hits[0], "found"), named(&hits[0], "after")),
        ("a ", "Needle", " here")
    );
    let count = place.run("search needle --count").ended(0).out();
    assert_eq!(count.trim(), hits.len().to_string());
    assert_eq!(place.run("search needle --limit 3 --json").ended(0).json(), hits[..3]);
    // A filter that can only judge in order, and the source of one task.
    let of_tool = place.run("search needle --tool echo --json").ended(0).json();
    assert!(!of_tool.is_empty() && of_tool.iter().all(|hit| named(hit, "kind").starts_with("Call")));
    let of_task = place.run("search needle echo-0080 --json").ended(0).json();
    assert_eq!(
        of_task,
        hits.iter().filter(|hit| named(hit, "id") == "echo-0080").cloned().collect::<Vec<_>>()
    );
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    assert_eq!(place.run("search needle --file log.ndjson --json").ended(0).json(), hits);
    // The path is one that a condition takes.
    let condition = format!("{} = '{}'", named(&hits[0], "path"), "a Needle here");
    let events = ran(&place, &["events", "--all", "--json", "--where", &condition]).ended(0).json();
    assert!(events.iter().any(|event| event["position"] == hits[0]["position"]), "{condition}");
}

#[test]
fn a_search_answers_by_its_exit_code_and_faults_are_told_with_their_place() {
    let place = small_log();
    place.run("search Oslo").ended(0);
    let none = place.run("search nowhere").ended(1);
    assert!(none.out().is_empty() && none.err().contains("nothing was found"), "{}", none.err());
    assert_eq!(place.run("search nowhere --count").ended(1).out(), "0\n");
    assert_eq!(place.run("search nowhere --count --json").ended(1).json()[0]["hits"], 0);
    assert!(ran(&place, &["search", "--regex", "^[0-9]+ degrees$"]).ended(0).out().contains("20 degrees"));
    // A text is taken as it is without --regex.
    ran(&place, &["search", "20 .egrees"]).ended(1);
    let told = ran(&place, &["search", "--regex", "a(b"])
        .ended(2)
        .told(&["not a regular expression", "unclosed group"]);
    assert_eq!(told.err().lines().last(), Some("     ^"));
    place.run("search --regex (\\w{900}){900}").ended(2).told(&["too large"]);
    ran(&place, &["search", ""]).ended(2).told(&["nothing to search for"]);
    place.run("search x no-such-task").ended(3).told(&["no-such-task"]);
    let some = place.run("search Oslo --json").ended(0).json();
    let only = ran(&place, &["search", "Oslo", "--json", "--where", "area = arguments"]).ended(0).json();
    assert!(only.len() < some.len() && only.iter().all(|hit| named(hit, "area") == "arguments"));
}

#[test]
fn hostile_and_huge_texts_are_searched_and_shown_as_text() {
    let place = Place::new();
    let huge = format!("{}\u{1b}]0;x\u{7}<b>needle\u{202e}</b>{}", "x".repeat(500_000), "y".repeat(500_000));
    place.run_tasks(&echo("huge-0001", &huge), "").ended(0);
    let ran = place.run("search needle");
    let out = ran.ended(0).out();
    assert!(out.len() < 4_000, "only the surroundings are shown: {} bytes", out.len());
    assert!(out.contains("\\u001b]0;x\\u0007<b>needle\\u202e</b>"), "{out}");
    assert!(!out.contains(['\u{1b}', '\u{202e}', '\u{7}']));
    // A name of an argument is no text of it.
    place.run("search --regex ^text$").ended(1);
    // An expression on which a backtracking search would take forever.
    place.run("search --regex (x+x+)+z").ended(1);
}
