//! `trace`, `seq`, `graph` and `transcript` of runs, on a directory and on an export of it, with names that mean no good.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::ran;
use super::search::echo;
use crate::binary::{Place, small_log};

const HOSTILE: &str = "<script>alert(1)</script> \u{1b}[2J\u{202e}` ``` %% end; \"]--> #";

fn with_export(place: Place) -> Place {
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    place
}

/// Returns what a command prints of the directory, which is what it prints of the export.
fn out(place: &Place, line: &str) -> String {
    let out = place.run(line).ended(0).out();
    assert_eq!(place.run(&format!("{line} --file log.ndjson")).ended(0).out(), out, "{line}");
    out
}

fn rows(place: &Place, line: &str) -> Vec<Value> {
    out(place, &format!("{line} --json")).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn texts<'a>(rows: &'a [Value], field: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[field].as_str().unwrap_or("-")).collect()
}

#[test]
fn a_trace_tells_what_caused_what() {
    let place = with_export(small_log());
    let told = rows(&place, "trace ask-0001");
    assert_eq!(texts(&told, "kind"), ["task", "infer", "tool", "infer"]);
    let parents: Vec<_> = told.iter().map(|row| row["parent"].as_u64()).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(0)], "the tool was asked for by the first inference");
    let shown = out(&place, "trace ask-0001");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("task ask-0001  completed") && lines[1].starts_with("├─ infer "), "{shown}");
    assert!(
        lines[2].starts_with("│  └─ tool lookup  succeeded") && lines[3].starts_with("└─ infer "),
        "{shown}"
    );
    let failed = rows(&place, "trace bad-0001 --failed-only");
    assert_eq!(texts(&failed, "kind"), ["task", "tool"]);
    assert!(failed[1]["error"].as_str().unwrap().contains("no"), "{failed:?}");
    assert!(out(&place, "trace bad-0001").contains("✗ tool fail  failed"));
    assert!(rows(&place, "trace sum-0001 --failed-only").is_empty());
    assert_eq!(rows(&place, "trace ask-0001 --depth 1").len(), 3);
    assert_eq!(texts(&rows(&place, "trace ask-0001 --where kind=tool"), "kind"), ["task", "infer", "tool"]);
}

#[test]
fn a_trace_of_a_session_has_all_of_its_tasks_in_the_order_in_which_they_came() {
    let task = |id: &str, session: &str, part: &str| {
        format!(
            "{{\"id\":\"{id}\",\"metadata\":{{\"session_id\":\"{session}\"}},\"messages\":[{{\"id\":\"m-{id}\",\"role\":\"user\",\"parts\":[{part}]}}]}}\n"
        )
    };
    let infer = r#"{"type":"infer","content":{"prompt":"what is it?"}}"#;
    let tool = |name: &str| {
        format!(
            r#"{{"type":"tool_call","content":{{"tool_name":"{name}","args":{{"message":"no"}},"call_id":"c"}}}}"#
        )
    };
    let tasks = [
        task("z-first", "talk", infer),
        task("m-fails", "talk", &tool("fail")),
        task("a-last", "talk", infer),
        task("other-1", "elsewhere", infer),
    ];
    let place = Place::new();
    std::fs::write(place.path().join("script.json"), r#"{"what": [{"type":"final","content":"that"}]}"#)
        .unwrap();
    place.run_tasks(&tasks.concat(), "--script script.json").ended(1);
    let place = with_export(place);
    let told = rows(&place, "trace s:talk");
    assert_eq!(told[0]["kind"], "session");
    let tasks: Vec<&Value> = told.iter().filter(|row| row["kind"] == "task").collect();
    let ids: Vec<_> = tasks.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        ["z-first", "m-fails", "a-last"],
        "one of another session is not there, one without a turn is"
    );
    assert!(tasks.iter().all(|row| row["depth"] == 1 && row["parent"] == 0));
    assert_eq!(told.iter().filter(|row| row["kind"] == "infer").count(), 2);
    assert_eq!(texts(&rows(&place, "trace s:talk --depth 1"), "kind"), ["session", "task", "task", "task"]);
    assert_eq!(texts(&rows(&place, "trace s:talk --failed-only"), "kind"), ["session", "task", "tool"]);
    let critical = rows(&place, "trace s:talk --critical-path");
    assert!(critical.iter().any(|row| row["id"] == "a-last"), "{critical:?}");
    let shown = out(&place, "trace s:talk");
    assert!(
        shown.starts_with("session talk  at rest") && shown.contains("├─ ✗ task m-fails  failed"),
        "{shown}"
    );
    let earlier = place.run("trace s:talk --json --at -0").ended(0).out();
    assert_eq!(earlier, place.run("trace s:talk --json").ended(0).out());
    let begun = place.run("trace s:talk --json --at 1").ended(0).json();
    assert!(begun.len() < told.len() && begun[0]["kind"] == "session", "{begun:?}");
}

#[test]
fn only_a_task_or_a_session_has_a_trace() {
    let place = small_log();
    place.run("trace system-0").ended(2).told(&["has no trace"]);
    place.run("trace s:ask-0001").ended(0);
    place.run("trace nothing-here").ended(3).told(&["nothing-here"]);
    place.run("seq ask-0001 --width 39").ended(2);
}

#[test]
fn diagrams_hold_each_event_once_and_are_as_wide_as_asked() {
    let place = with_export(small_log());
    for id in ["ask-0001", "bad-0001", "s:ask-0001", "system-0"] {
        let events = place.run(&format!("events {id} --json")).ended(0).json();
        let versions: Vec<u64> = events.iter().map(|event| event["version"].as_u64().unwrap()).collect();
        for command in ["seq", "graph"] {
            let drawn = rows(&place, &format!("{command} {id}"));
            let found: Vec<u64> = drawn.iter().map(|row| row["version"].as_u64().unwrap()).collect();
            assert_eq!(found, versions, "{command} {id}");
            for width in [40, 60, 100] {
                let text = out(&place, &format!("{command} {id} --width {width}"));
                assert!(text.lines().all(|line| line.chars().count() <= width), "{command} {id}\n{text}");
                assert!(text.lines().count() >= versions.len(), "{text}");
            }
            let svg = out(&place, &format!("{command} {id} --format svg"));
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        }
    }
    let sequence = out(&place, "seq ask-0001 --format mermaid");
    assert!(sequence.starts_with("sequenceDiagram\n") && sequence.contains("as tool lookup"), "{sequence}");
    let caused = rows(&place, "graph ask-0001");
    assert!(
        caused.iter().skip(1).all(|row| row["caused_by"].as_u64() < row["version"].as_u64()),
        "{caused:?}"
    );
    assert!(out(&place, "graph ask-0001 --format dot").contains(" -> n"));
    assert!(out(&place, "graph ask-0001 --format mermaid").starts_with("flowchart TD\n"));
}

#[test]
fn a_session_is_told_as_a_conversation() {
    let place = with_export(small_log());
    let talk = rows(&place, "transcript s:ask-0001");
    assert_eq!(texts(&talk, "speaker"), ["system", "user", "call", "result", "model"]);
    assert_eq!(talk[2]["tool"], "lookup");
    assert_eq!((&talk[2]["text"], &talk[4]["text"]), (&json!(r#"{"city":"Oslo"}"#), &json!("20 degrees")));
    let of_task = rows(&place, "transcript ask-0001 --no-tools");
    assert_eq!(texts(&of_task, "speaker"), ["system", "user", "model"]);
    assert_eq!(out(&place, "transcript ask-0001 --format jsonl"), out(&place, "transcript ask-0001 --json"));
    let only =
        ran(&place, &["transcript", "ask-0001", "--json", "--where", "speaker = call or speaker = result"]);
    assert_eq!(only.ended(0).json().len(), 2);
    // A task without a session is told by its own items.
    let own = rows(&place, "transcript sum-0001");
    assert_eq!(texts(&own, "speaker"), ["user", "model"]);
    let text = out(&place, "transcript ask-0001");
    assert!(text.contains("call lookup") && text.contains("  20 degrees\n"), "{text}");
    let markdown = out(&place, "transcript ask-0001 --format md");
    assert!(
        markdown.starts_with("# ` session-agent/ask-0001 `\n")
            || markdown.starts_with("# ` task-agent/ask-0001 `\n"),
        "{markdown}"
    );
    assert!(
        markdown.contains("\n## call ` lookup ` · ") && markdown.contains("\n```text\n20 degrees\n```\n"),
        "{markdown}"
    );
}

#[test]
fn hostile_texts_are_drawn_as_text() {
    let place = Place::new();
    place.run_tasks(&echo("evil-0001", HOSTILE), "").ended(0);
    let place = with_export(place);
    for line in [
        "trace evil-0001",
        "seq evil-0001",
        "seq evil-0001 --format mermaid",
        "seq evil-0001 --format svg",
        "graph evil-0001",
        "graph evil-0001 --format dot",
        "graph evil-0001 --format mermaid",
        "graph evil-0001 --format svg",
        "transcript evil-0001",
        "transcript evil-0001 --format md",
        "search script",
    ] {
        let out = out(&place, line);
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{line}: {out:?}");
        if line.ends_with("svg") {
            assert!(!out.contains("<script") && out.contains("&lt;script&gt;"), "{out}");
        }
        if line.ends_with("mermaid") {
            assert!(!out.contains("<script") && !out.contains("end;"), "{out}");
        }
        if line.ends_with("md") {
            // Its own fence is longer than any in the text.
            assert!(out.contains("````text\n"), "{out}");
        }
    }
    let ascii = place.command(["seq", "evil-0001"]).env("LC_ALL", "C").output().unwrap();
    let ascii = String::from_utf8(ascii.stdout).unwrap();
    assert!(!ascii.contains(['│', '─', '▶']) && ascii.contains("->"), "{ascii}");
}

#[test]
fn a_reader_that_has_enough_ends_a_drawing_with_0() {
    let place = Place::new();
    let tasks: Vec<String> = (0..40).map(|n| echo(&format!("many-{n:04}"), &"long ".repeat(4_000))).collect();
    place.run_tasks(&tasks.join("\n"), "").ended(0);
    for line in ["search long --full", "events --all --full", "graph system-0", "transcript many-0001 --full"]
    {
        let mut child = place
            .command(line.split(' '))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(crate::binary::exit_code(&mut child), Some(0), "{line}");
    }
}
