//! `artifact`: the list of a task's artifacts and long results, a part of one, and one as files.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use binary::{Place, small_log};
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::artifact::{ArtifactTools, CharacterLimit};
use taskreel::infer::{Entry, Scripted};
use taskreel::{JsonSchema, Part, System};

fn text() -> String {
    let lines: Vec<String> = (1..=300).map(|line| format!("line {line}\n")).collect();
    lines.concat()
}

/// A place with a task that was posted with artifacts of all kinds, and whose tool has a long result.
fn log() -> Place {
    let place = Place::new();
    let artifact = |id: &str, parts: Value| json!({"id": id, "parts": parts, "timestamp": "2020-01-01T00:00:00+00:00", "name": "An example"});
    let rows: Vec<Value> = (0..50).map(|n| json!({"name": format!("n{n}"), "age": n})).collect();
    let said: Vec<Value> =
        text().lines().map(|line| json!({"type": "text", "content": format!("{line}\n")})).collect();
    let artifacts = json!([
        artifact("art_text", Value::from(said)),
        artifact("art_data", json!([{"type": "json", "content": {"results": {"items": rows, "a.b": 1}}}])),
        artifact(
            "../../art_file",
            json!([
                {"type": "file", "content": {"name": "../../.secret.txt", "bytes": "aGk=", "mimeType": "text/plain"}},
                {"type": "file", "content": {"name": "x.bin", "uri": "https://example.org/x.bin"}},
                {"type": "text", "content": "beside it"}
            ])
        ),
    ]);
    let call = json!({"tool_name": "echo", "args": {"text": "é".repeat(1_500)}, "call_id": "c1"});
    let message = json!({"id": "m", "role": "user", "parts": [{"type": "tool_call", "content": call}],
        "timestamp": "2021-01-01T00:00:00+00:00"});
    let task = json!({"id": "with-0001", "messages": [message], "artifacts": artifacts});
    place.run_tasks(&format!("{task}\n"), "").ended(0);
    place
}

/// Returns the id of the echo's call.
fn call(place: &Place) -> String {
    let rows = place.run("artifact with-0001 --json").ended(0).json();
    let tool = rows.iter().find(|row| row["source"] == "tool").unwrap();
    tool["artifact"].as_str().unwrap().to_owned()
}

#[test]
fn the_artifacts_of_a_task_and_its_long_results_are_listed() {
    let place = log();
    let rows = place.run("artifact with-0001 --json").ended(0).json();
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["artifact"].as_str()).collect();
    assert_eq!(ids[..3], ["art_text", "art_data", "../../art_file"]);
    assert_eq!(
        (rows[0]["characters"].as_u64(), rows[0]["parts"].as_u64()),
        (Some(text().len() as u64), Some(300))
    );
    assert_eq!(rows[2]["kinds"], json!(["file", "text"]));
    let tool = rows.iter().find(|row| row["source"] == "tool").unwrap();
    assert_eq!((tool["name"].as_str(), tool["complete"].clone()), (Some("echo"), json!(true)));
    let shown = place.run("artifact with-0001").ended(0).out();
    for word in ["art_text", "An example", "file, text", "echo"] {
        assert!(shown.contains(word), "{shown}");
    }
    assert!(place.copies().is_empty(), "the copy that was read is gone");
    let place = small_log();
    assert!(place.run("artifact bad-0001").ended(0).out().contains("art_"), "the error is an output");
}

#[test]
fn a_part_of_a_text_or_of_data_is_printed_alone() {
    let place = log();
    let out = |line: &str| place.run(line).ended(0).out();
    assert_eq!(out("artifact with-0001 art_text --lines 2-3"), "line 2\nline 3\n");
    assert_eq!(out("artifact with-0001 art_text --lines 300-"), "line 300\n\n");
    assert_eq!(out("artifact with-0001 art_text --characters 0-6"), "line 1\n");
    assert_eq!(out("artifact with-0001 art_text"), text() + "\n");
    let rows = out("artifact with-0001 art_data --path results.items --rows 1-3 --columns name,age");
    assert_eq!(rows, "[{\"name\":\"n1\",\"age\":1},{\"name\":\"n2\",\"age\":2}]\n");
    assert_eq!(out(r"artifact with-0001 art_data --path results.a\.b"), "1\n");
    // An id may be named by its beginning or end.
    let call = call(&place);
    let end = &call[call.len() - 8..];
    assert_eq!(out(&format!("artifact with-0001 {end} --characters 0-2")), "éé\n");
    let view = place.run("artifact with-0001 art_text --lines 2 --json").ended(0).json().remove(0);
    assert_eq!((&view["content"], &view["kind"]), (&json!("line 2"), &json!("text")));
    let summary = place.run("artifact with-0001 art_data --summary --json").ended(0).json().remove(0);
    assert_eq!(summary["kind"], "summary");
    // What is read from an export is the same.
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    assert_eq!(out("artifact with-0001 art_text --lines 2 --file log.ndjson"), "line 2\n");
}

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_minimized_result_is_told_in_words_and_its_tip_leads_to_the_whole() {
    let place = Place::new();
    let said = [
        json!({"type": "tool_call", "tool": "report", "args": {}}),
        json!({"type": "final", "content": "done"}),
    ];
    let model = Scripted::new(said.map(|said| Entry::Text(said.to_string())));
    let report = |_: Nothing| async { Ok::<_, std::convert::Infallible>(text()) };
    let limit = CharacterLimit::new(400).unwrap();
    let system = System::builder(place.path().join("taskreel-log"))
        .tool("report", "A report", report)
        .artifact_tools(ArtifactTools::new().outputs_over(limit))
        .infer(model)
        .start()
        .await
        .unwrap();
    let task = system.session("s").send(Part::infer("go")).await.unwrap();
    task.finished().await.unwrap();
    system.shutdown().await.unwrap();
    let shown = place.run(&format!("show {}", task.id())).ended(0).out();
    assert!(shown.contains("  shown   minimize-outputs(400): 4 messages of 4, "), "{shown}");
    assert!(shown.contains(", 1 minimized"), "{shown}");
    let calls = place.run(&format!("show {} --json", task.id())).ended(0).json().remove(0);
    let call = calls["calls"].as_array().unwrap().last().unwrap()["call_id"].as_str().unwrap().to_owned();
    let prompt = place.run(&format!("prompt {call}")).ended(0).out();
    let (_, ids) = prompt.split_once("view_text_artifact shows the rest: task_id: ").unwrap();
    let (task_id, rest) = ids.split_once(", artifact_id: ").unwrap();
    let artifact_id = rest.split('"').next().unwrap();
    let whole = place.run(&format!("artifact {task_id} {artifact_id}")).ended(0).out();
    assert_eq!(whole, text() + "\n");
    place.run("verify").ended(0);
}

#[test]
fn an_artifact_is_saved_under_cleaned_names_and_no_file_is_replaced() {
    let place = log();
    let saved = place.run("artifact with-0001 ../../art_file --save out --json").ended(0);
    let paths: Vec<String> =
        saved.json().iter().map(|file| file["path"].as_str().unwrap().replace('\\', "/")).collect();
    assert_eq!(paths, ["out/art_file.txt", "out/secret.txt"]);
    assert!(saved.err().contains("https://example.org/x.bin is not fetched"), "{}", saved.err());
    let files = || place.files("out");
    assert_eq!(
        files(),
        [("art_file.txt".into(), b"beside it".to_vec()), ("secret.txt".into(), b"hi".to_vec())]
    );
    // Again it is the same file; where another content has the name, there is a number.
    place.run("artifact with-0001 ../../art_file --save out").ended(0);
    assert_eq!(files().len(), 2);
    std::fs::write(place.path().join("out/secret.txt"), "mine").unwrap();
    place.run("artifact with-0001 ../../art_file --save out").ended(0);
    assert_eq!(files().len(), 3);
    assert!(files().contains(&("secret.txt".into(), b"mine".to_vec())));
    assert!(files().contains(&("secret-2.txt".into(), b"hi".to_vec())));
    place.run("artifact with-0001 art_data --save data").ended(0);
    assert!(place.files("data")[0].0.ends_with("art_data.json"));
    std::fs::write(place.path().join("a-file"), "").unwrap();
    place.run("artifact with-0001 art_data --save a-file").ended(8).told(&["a-file", "cannot save"]);
}

#[test]
fn unknown_ids_wrong_ranges_and_flags_that_exclude_each_other_are_told() {
    let place = log();
    for (line, code, words) in [
        ("artifact none-such", 3, &["none-such"][..]),
        ("artifact with-0001 none-such", 3, &["Artifact 'none-such' not found", "taskreel artifact TASK"]),
        ("artifact with-0001 x", 3, &["Artifact 'x' not found"]),
        ("artifact s:with-0001", 3, &[]),
        ("artifact with-0001 art_ --lines 1", 3, &["the beginning or the end of"]),
        ("artifact with-0001 art_text --lines 900-901", 2, &["exceeds total lines", "counted from 1"]),
        ("artifact with-0001 art_text --lines 0-3", 2, &["range of lines"]),
        ("artifact with-0001 art_text --lines 3-1", 2, &["range of lines"]),
        ("artifact with-0001 art_text --characters 5", 2, &["range of characters"]),
        ("artifact with-0001 art_text --rows 0", 2, &["does not contain data", "--lines"]),
        ("artifact with-0001 art_data --path results.none", 2, &["Field 'none' not found"]),
        ("artifact with-0001 art_data --path results.items --rows=-1", 2, &["ambiguous"]),
        ("artifact with-0001 art_data --path results.items --columns size", 2, &["Column 'size' not found"]),
        ("artifact with-0001 --lines 1-2", 2, &["ARTIFACT"]),
        ("artifact with-0001 --save out", 2, &["ARTIFACT"]),
        ("artifact with-0001 art_text --lines 1 --rows 1", 2, &["cannot be used with"]),
        ("artifact with-0001 art_text --summary --save out", 2, &["cannot be used with"]),
        ("artifact", 2, &["ID"]),
    ] {
        place.run(line).ended(code).told(words);
    }
    assert!(!place.path().join("out").exists(), "nothing is saved by a command that is wrong");
    let empty = Place::new();
    empty.run("artifact with-0001").ended(5).told(&["no log"]);
    assert_eq!(empty.files("."), []);
    let place = small_log();
    let calls = place.run("show bad-0001 --json").ended(0).json();
    let failed = calls[0]["calls"][0]["call_id"].as_str().unwrap().to_owned();
    place.run(&format!("artifact bad-0001 {failed}")).ended(3).told(&["has no result", "it failed"]);
}
