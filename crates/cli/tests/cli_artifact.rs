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
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::ToolError;
use taskreel::{JsonSchema, Message, Part, System};

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
    assert_eq!(out("artifact with-0001 art_text --lines 2-3"), "line 2\nline 3", "not a byte more");
    assert_eq!(out("artifact with-0001 art_text --lines 300-"), "line 300\n");
    assert_eq!(out("artifact with-0001 art_text --characters 0-6"), "line 1");
    assert_eq!(out("artifact with-0001 art_text"), text());
    let rows = out("artifact with-0001 art_data --path results.items --rows 1-3 --columns name,age");
    assert_eq!(rows, "[{\"name\":\"n1\",\"age\":1},{\"name\":\"n2\",\"age\":2}]\n");
    assert_eq!(out(r"artifact with-0001 art_data --path results.a\.b"), "1\n");
    // An id may be named by its beginning or end.
    let call = call(&place);
    let end = &call[call.len() - 8..];
    assert_eq!(out(&format!("artifact with-0001 {end} --characters 0-2")), "éé");
    let view = place.run("artifact with-0001 art_text --lines 2 --json").ended(0).json().remove(0);
    assert_eq!((&view["content"], &view["kind"]), (&json!("line 2"), &json!("text")));
    let summary = place.run("artifact with-0001 art_data --summary --json").ended(0).json().remove(0);
    assert_eq!(summary["kind"], "summary");
    let items = summary["content"].pointer("/data/results/items").unwrap();
    assert_eq!(items["_total_rows"], 50, "a small table is summarized too: {items}");
    assert_eq!(items["_columns"].pointer("/1/types/0/maximum"), Some(&json!(49)));
    // What is read from an export is the same.
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    assert_eq!(out("artifact with-0001 art_text --lines 2 --file log.ndjson"), "line 2");
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
    assert_eq!(whole, text());
    place.run("verify").ended(0);
}

#[test]
fn an_artifact_is_saved_under_cleaned_names_and_no_file_is_replaced() {
    let place = log();
    let saved = place.run("artifact with-0001 ../../art_file --save out --json").ended(1);
    let paths: Vec<String> =
        saved.json().iter().map(|file| file["path"].as_str().unwrap().replace('\\', "/")).collect();
    assert_eq!(paths, ["out/art_file.txt", "out/secret.txt"]);
    saved.told(&[
        "1 of 3 files were not saved",
        "part 2 (x.bin) is only an address, https://example.org/x.bin",
    ]);
    let files = || place.files("out");
    assert_eq!(
        files(),
        [("art_file.txt".into(), b"beside it".to_vec()), ("secret.txt".into(), b"hi".to_vec())]
    );
    // Again it is the same file; where another content has the name, there is the beginning of its digest.
    place.run("artifact with-0001 ../../art_file --save out").ended(1);
    assert_eq!(files().len(), 2);
    std::fs::write(place.path().join("out/secret.txt"), "mine").unwrap();
    place.run("artifact with-0001 ../../art_file --save out").ended(1);
    assert_eq!(files().len(), 3);
    assert!(files().contains(&("secret.txt".into(), b"mine".to_vec())));
    assert!(files().contains(&("secret-8f434346648f6b96.txt".into(), b"hi".to_vec())));
    place.run("artifact with-0001 art_data --save data").ended(0);
    assert!(place.files("data")[0].0.ends_with("art_data.json"));
    std::fs::write(place.path().join("a-file"), "").unwrap();
    place.run("artifact with-0001 art_data --save a-file").ended(8).told(&["a-file", "cannot save"]);
    place.run("artifact with-0001 ../../art_file --save a-file").ended(8).told(&["cannot save", "x.bin"]);
}

/// A place with a task of one artifact of these parts, which more may be told of.
fn log_of(more: &Value, parts: &Value) -> Place {
    let place = Place::new();
    let mut task = json!({"id": "odd-0001", "state": "completed",
        "artifacts": [{"id": "odd", "name": "An example", "parts": parts}]});
    for (key, value) in more.as_object().unwrap() {
        task.as_object_mut().unwrap().insert(key.clone(), value.clone());
    }
    place.run_tasks(&format!("{task}\n"), "").ended(0);
    place
}

fn file(content: &Value) -> Value {
    json!({"type": "file", "content": content})
}

#[test]
fn what_cannot_be_saved_is_named_with_the_reason_and_all_else_is_saved() {
    let long = format!("https://example.org/{}", "x".repeat(10_000));
    let mut parts = vec![
        json!({"type": "text", "content": "a"}),
        file(&json!({"name": "bad.bin", "bytes": "abcde"})),
        file(&json!({"bytes": "YQ"})),
        file(&json!({"uri": long})),
        file(&json!({"name": "good.txt", "bytes": "aGk="})),
        file(&json!({"name": "evil\n\u{1b}[31m.txt", "bytes": "=="})),
        json!({"type": "json", "content": {"b": 1}}),
    ];
    let place = log_of(&json!({}), &Value::from(parts.clone()));
    let ran = place.run("artifact odd-0001 odd --save out").ended(1);
    assert_eq!(ran.out().replace('\\', "/"), "out/odd.txt\nout/odd.json\nout/good.txt\nout/evil[31m.txt\n");
    let ran = ran.told(&[
        "error: 3 of 7 files were not saved",
        "the content of part 2 (bad.bin) is not base64: Invalid base64-encoded string",
        "the content of part 3 (without a name) is not base64: Incorrect padding",
        "part 4 (without a name) is only an address, https://example.org/xxx",
        "--json` prints each part as the log holds it",
    ]);
    assert!(ran.err().len() < 2_000 && !ran.err().contains('\u{1b}'), "{}", ran.err());
    assert_eq!(place.files("out").len(), 4);
    parts = vec![file(&json!({"name": "bad", "bytes": "a"})); 500];
    let place = log_of(&json!({}), &Value::from(parts));
    let ran = place.run("artifact odd-0001 odd --save out").ended(1).told(&["500 of 500", "and 495 more"]);
    assert!(ran.out().is_empty() && ran.err().len() < 2_000, "{}", ran.err());
    let place = log_of(&json!({}), &json!([]));
    let ran = place.run("artifact odd-0001 odd --save out").ended(0);
    assert!(ran.out().is_empty() && ran.err().contains("has no parts"), "{}", ran.err());
    assert!(place.run("artifact odd-0001 odd").ended(0).err().contains("has no parts"));
}

#[test]
fn a_whole_artifact_is_shown_with_its_data_and_its_files_are_named() {
    let parts = json!([
        {"type": "text", "content": "one"}, {"type": "text", "content": " text"},
        {"type": "json", "content": {"a": [1]}},
        file(&json!({"name": "a.txt", "bytes": "aGk=", "mimeType": "text/plain"})),
        file(&json!({"name": "b", "uri": "https://example.org/b"})), file(&json!({"bytes": "a"})),
        {"type": "text", "content": "end\n"}
    ]);
    let place = log_of(&json!({}), &parts);
    let ran = place.run("artifact odd-0001 odd").ended(0);
    assert_eq!(
        ran.out().split("cannot be read").next().unwrap(),
        "one text\n{\n  \"a\": [\n    1\n  ]\n}\n[file a.txt, text/plain, 2 bytes]\n\
         [file b, at https://example.org/b, not fetched]\n[file without a name, "
    );
    assert!(ran.out().ends_with("]\nend\n"), "{}", ran.out());
    assert!(ran.err().contains("--save DIR saves"), "{}", ran.err());
    assert_eq!(place.run("artifact odd-0001 odd --characters 0-").ended(0).out(), "one textend\n");
    let ran = place.run("artifact odd-0001 odd --characters 900-").ended(0);
    assert!(ran.out().is_empty() && ran.err().contains("no text in this range"), "{}", ran.err());
    let ran = place.run("artifact odd-0001 odd --summary").ended(0);
    assert!(ran.err().contains("the artifact has parts with data and file too"), "{}", ran.err());
    let view = place.run("artifact odd-0001 odd --json").ended(0).json().remove(0);
    assert_eq!((&view["kind"], view["content"].as_array().unwrap().len()), (&json!("parts"), 6));
    assert_eq!(view["content"][0], json!({"kind": "text", "text": "one text"}));
    assert_eq!(view["content"][1], json!({"kind": "data", "data": {"a": [1]}}));
    let named = json!({"kind": "file", "name": "a.txt", "mime_type": "text/plain", "bytes": "aGk="});
    assert_eq!(view["content"][2], named);
    let only_files = log_of(&json!({}), &json!([file(&json!({"name": "a.txt", "bytes": "aGk="}))]));
    assert_eq!(only_files.run("artifact odd-0001 odd").ended(0).out(), "[file a.txt, 2 bytes]\n");
}

#[test]
fn the_help_names_one_backslash_and_each_flag_says_what_it_does() {
    let help = Place::new().run("artifact --help").ended(0).out();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains(r"a dot inside a key written as `\.`") && !help.contains(r"\\"), "{help}");
    for word in
        ["--save <DIR>", "exit 1", "gets the beginning of its SHA-256", "--rows <ROWS>", "counted from 0"]
    {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}

#[test]
fn ids_and_texts_of_any_characters_steer_no_screen_and_name_what_they_name() {
    let place = Place::new();
    let id = "line\n\u{1b}[2J\u{202e}end";
    let name = "\u{1b}]0;title\u{7}";
    let artifact = json!({"id": id, "name": name, "parts": [{"type": "text", "content": "\u{1b}[31mred\r\n"}, file(&json!({"name": id, "bytes": "aGk="}))]});
    let task = json!({"id": "odd-0001", "state": "completed", "artifacts": [artifact]});
    place.run_tasks(&format!("{task}\n"), "").ended(0);
    let listed = place.run("artifact odd-0001").ended(0).out();
    let is_harmless = |shown: &str| !shown.contains(['\u{1b}', '\u{202e}', '\u{7}']);
    assert!(is_harmless(&listed) && listed.lines().count() == 2, "{listed}");
    let run = |args: &[&str]| {
        let output = place.command(["artifact", "odd-0001"].iter().chain(args)).output().unwrap();
        binary::Ran(output)
    };
    assert_eq!(run(&[id, "--characters", "0-"]).ended(0).out(), "\u{1b}[31mred\r\n", "a file gets the text");
    let whole = run(&[id]).ended(0).out();
    let named = whole.lines().last().unwrap();
    assert!(is_harmless(named) && named.starts_with("[file line "), "{named}");
    let saved = run(&[id, "--save", "out"]).ended(0).out();
    assert!(is_harmless(&saved) && saved.lines().count() == 2, "{saved}");
    for wrong in ["no\nsuch\u{1b}[2J", "", "\n", "-1", "\u{202e}", &"x".repeat(100_000)] {
        let ran = run(&["--", wrong]).ended(3).told(&["not found"]);
        assert!(is_harmless(&ran.err()) && ran.err().len() < 1_500, "{}", ran.err());
    }
}

/// Appends the first piece of an artifact, and ends or waits without the last one.
async fn begins(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    cx.append_piece("begun", vec![Part::text("beginning")], false).await?;
    let is_question = message.parts[0].content().to_str().as_deref() == Some("ask");
    Ok(if is_question { HandlerEnd::InputRequired("more?".to_owned()) } else { HandlerEnd::Completed })
}

#[tokio::test]
async fn an_artifact_whose_last_piece_has_not_come_says_so() {
    let place = Place::new();
    let system = System::builder(place.path().join("taskreel-log")).handler(begins).start().await.unwrap();
    let mut tasks = Vec::new();
    for said in ["ask", "end"] {
        let task = system.session(said).send(Part::text(said)).await.unwrap();
        task.settled().await.unwrap();
        tasks.push(task.id().to_owned());
    }
    system.shutdown().await.unwrap();
    for (task, note) in tasks.iter().zip([
        "its task is input-required, and further pieces are expected",
        "its task ended (completed) before the last piece came",
    ]) {
        for more in ["", "--save out"] {
            let ran = place.run(&format!("artifact {task} begun {more}")).ended(0);
            assert!(ran.err().contains(&format!("the artifact is not complete: {note}")), "{}", ran.err());
            assert!(["beginning", "out/begun.txt\n"].contains(&ran.out().replace('\\', "/").as_str()));
        }
    }
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
        ("artifact with-0001 art_text --lines 900-901", 2, &["exceeds total lines", "`--lines 1-` prints"]),
        ("artifact with-0001 art_text --lines 0-3", 2, &["range of lines"]),
        ("artifact with-0001 art_text --lines 3-1", 2, &["range of lines"]),
        ("artifact with-0001 art_text --characters 5", 2, &["range of characters"]),
        ("artifact with-0001 art_text --rows 0", 2, &["does not contain data", "--lines"]),
        ("artifact with-0001 art_data --path results.none", 2, &["Field 'none' not found"]),
        ("artifact with-0001 art_data --path results.items --rows=-1", 2, &["ambiguous"]),
        (
            "artifact with-0001 art_data --path results.items --rows -1",
            2,
            &["write '49-' for the last 1 of 50"],
        ),
        ("artifact with-0001 art_text --lines -3", 2, &["range of lines"]),
        ("artifact with-0001 art_data --rows 0", 2, &["require list data", "--path enters"]),
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
