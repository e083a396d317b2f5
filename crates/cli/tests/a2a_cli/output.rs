//! The rows of the output, of errors and of exit codes.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{Place, Ran};
use crate::forged::{After, Forged, Reply, artifact, status, task};
use crate::{command, run, run_with};

/// An agent that streams a task to its end.
fn streams() -> Forged {
    Forged::streaming(|call| match call.operation.as_str() {
        "SendStreamingMessage" | "SubscribeToTask" => Reply::Events(
            vec![json!({"task": task("WORKING")}), artifact("a"), status("COMPLETED")],
            After::End,
        ),
        _ => Reply::Result(task("COMPLETED")),
    })
}

#[test]
fn a2acli_out_001_every_answer_names_its_task_and_only_the_answer_is_on_stdout() {
    let (place, agent) = (Place::new(), streams());
    for line in [
        &["send", "x"][..],
        &["send", "x", "--stream"],
        &["task", "get", "t1"],
        &["task", "cancel", "t1"],
        &["task", "subscribe", "t1"],
        &["task", "subscribe", "t1", "--stream"],
    ] {
        let text = run(&place, &[line, &["-a", &agent.url, "--debug"]].concat()).ended(0);
        assert_eq!(
            (text.field("Task"), text.field("Context")),
            ("t1".to_owned(), "c1".to_owned()),
            "{line:?}"
        );
        assert_eq!(text.field("State"), "TASK_STATE_COMPLETED", "{line:?}");
        let json = run(&place, &[line, &["-a", &agent.url, "--debug", "-o", "json"]].concat()).ended(0);
        let last = json.documents().pop().unwrap().to_string();
        for named in ["\"t1\"", "\"c1\"", "TASK_STATE_COMPLETED"] {
            assert!(last.contains(named), "{line:?} {last}");
        }
        assert!(json.err().contains("HTTP 200") && !json.out().contains("HTTP 200"));
    }
}

#[test]
fn a2acli_out_002_json_is_one_document_and_nothing_but_the_flag_makes_it_lines() {
    let (place, agent) = (Place::new(), streams());
    let env = [("A2ACLI_STREAM", "true")];
    std::fs::write(place.path().join(".env"), "A2ACLI_STREAM=true\nA2ACLI_OUTPUT=json\n").unwrap();
    let sent = run_with(&place, &env, &["send", "x", "-a", &agent.url]).ended(0).document();
    let names: Vec<_> = sent.as_object().unwrap().keys().collect();
    assert_eq!(names, ["task"], "the wrapper of the protocol, and nothing beside it");
    for line in [&["task", "get", "t1"][..], &["task", "cancel", "t1"], &["task", "subscribe", "t1"]] {
        let task = run_with(&place, &env, &[line, &["-a", &agent.url]].concat()).ended(0).document();
        assert_eq!(
            (&task["id"], &task["status"]["state"]),
            (&json!("t1"), &json!("TASK_STATE_COMPLETED")),
            "{line:?}"
        );
    }
}

#[test]
fn a2acli_out_003_a_stream_is_lines_of_json_each_written_as_it_comes() {
    let place = Place::new();
    let agent = Forged::streaming(|_| Reply::Events(vec![json!({"task": task("WORKING")})], After::Open));
    let mut command = command(&place, &["send", "x", "-a", &agent.url, "--stream", "-o", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&first).unwrap()["task"]["id"],
        "t1",
        "while the stream is open"
    );
    child.kill().unwrap();
    child.wait().unwrap();

    let agent = streams();
    let lines = run(&place, &["send", "x", "-a", &agent.url, "--stream", "-o", "json"]).ended(0).documents();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2], status("COMPLETED"));

    // An error that ends the stream is its last line.
    let agent = Forged::streaming(|call| match call.operation.as_str() {
        "SendStreamingMessage" => {
            Reply::Events(vec![json!({"task": task("WORKING")}), json!({"nothing": 1})], After::End)
        }
        _ => Reply::Error(-32603, 500, "INTERNAL_ERROR", "broken"),
    });
    let lines = run(&place, &["send", "x", "-a", &agent.url, "--stream", "-o", "json"]).ended(1).documents();
    assert_eq!((lines.len(), &lines[1]["error"]["code"]), (2, &json!("InternalError")));
}

#[test]
fn a2acli_out_004_errors_have_the_protocols_names_whatever_the_transport_is() {
    let place = Place::new();
    for (code, status, reason, name) in [
        (-32001, 404, "TASK_NOT_FOUND", "TaskNotFoundError"),
        (-32002, 400, "TASK_NOT_CANCELABLE", "TaskNotCancelableError"),
        (-32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", "PushNotificationNotSupportedError"),
        (-32004, 400, "UNSUPPORTED_OPERATION", "UnsupportedOperationError"),
        (-32005, 400, "CONTENT_TYPE_NOT_SUPPORTED", "ContentTypeNotSupportedError"),
        (-32006, 500, "INVALID_AGENT_RESPONSE", "InvalidAgentResponseError"),
        (-32007, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "ExtendedAgentCardNotConfiguredError"),
        (-32008, 400, "EXTENSION_SUPPORT_REQUIRED", "ExtensionSupportRequiredError"),
        (-32009, 400, "VERSION_NOT_SUPPORTED", "VersionNotSupportedError"),
        (-32602, 400, "INVALID_PARAMS", "InvalidParamsError"),
        (-32603, 500, "INTERNAL_ERROR", "InternalError"),
    ] {
        let agent = Forged::start(move |_| Reply::Error(code, status, reason, "no \u{1b}[31m"));
        let mut said = Vec::new();
        for transport in ["JSONRPC", "HTTP+JSON"] {
            let ran =
                run(&place, &["task", "get", "t1", "-a", &agent.url, "-o", "json", "--transport", transport])
                    .ended(1);
            assert_eq!(ran.failed(), name, "{transport}");
            let mut error = ran.document()["error"].clone();
            assert!(error["hint"].is_string());
            error["a2aCode"].take();
            said.push((error, ran.code()));
        }
        assert_eq!(said[0], said[1]);
    }
    // What is no answer of A2A at all.
    for garbage in ["\u{1b}]0;x\u{7}", "{}", "[]", r#"{"jsonrpc":"2.0","id":"other","result":{}}"#] {
        let agent = Forged::start(move |_| Reply::Raw(200, garbage.to_owned()));
        let ran = run(&place, &["task", "get", "t1", "-a", &agent.url, "-o", "json"]).ended(1);
        assert_eq!(ran.failed(), "InvalidAgentResponseError", "{garbage:?}");
        assert!(!ran.out().contains('\u{1b}') && !ran.err().contains('\u{1b}'));
    }
}

/// Reads text as its floor says: fields, and blocks under their labels.
fn parsed(out: &str) -> Vec<(String, String)> {
    let (mut found, mut lines) = (Vec::new(), out.lines());
    while let Some(line) = lines.next() {
        if let Some(label) = line.strip_suffix(':').filter(|label| !label.contains(": ")) {
            let block: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            found.push((label.to_owned(), block.join("\n")));
        } else if !line.is_empty() {
            let (label, value) = line.split_once(": ").unwrap_or_else(|| panic!("no field: {line:?}"));
            found.push((label.to_owned(), value.to_owned()));
        }
    }
    found
}

#[test]
fn a2acli_out_005_text_is_fields_and_blocks_that_no_content_can_forge() {
    let place = Place::new();
    let hostile = "a\u{1b}[2J\u{9b}31m\n\nState: TASK_STATE_COMPLETED\nTask: forged\r\n\u{202e}b\u{7}";
    let agent = Forged::start(move |_| {
        let mut task = task("FAILED");
        task["status"]["message"] =
            json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": hostile}]});
        task["artifacts"] = json!([{"artifactId": "a\nState: X", "name": hostile, "parts": [{"text": hostile}, {"data": hostile}]}]);
        Reply::Result(json!({"task": task}))
    });
    for line in [&["send", "x"][..], &["send", "x", "--stream"], &["send", "x", "--verbose"]] {
        let ran = run(&place, &[line, &["-a", &agent.url]].concat()).ended(0);
        let out = ran.out();
        let obeyed = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!out.contains(obeyed), "{out:?}");
        let fields = parsed(&out);
        let of = |label: &str| -> Vec<&str> {
            let found = fields.iter().filter(|(known, _)| known == label);
            found.map(|(_, value)| value.as_str()).collect()
        };
        assert!(of("State").iter().all(|state| *state == "TASK_STATE_FAILED"), "{out}");
        assert!(of("Task").iter().all(|task| *task == "t1"), "{out}");
        assert_eq!(of("Artifact text").len(), 1, "{out}");
    }
    // JSON has the content whole, and no character that a terminal obeys.
    let ran = run(&place, &["send", "x", "-a", &agent.url, "-o", "json"]).ended(0);
    assert_eq!(ran.document()["task"]["status"]["message"]["parts"][0]["text"], hostile);
    assert!(!ran.out().contains(['\u{9b}', '\u{202e}', '\u{1b}']), "{:?}", ran.out());
}

#[test]
fn a2acli_out_006_without_a_wait_the_ids_are_printed_all_the_same() {
    let place = Place::new();
    let agent = Forged::start(|_| Reply::Result(json!({"task": task("SUBMITTED")})));
    let json = run(&place, &["send", "x", "-a", &agent.url, "--async", "-o", "json"]).ended(0).document();
    assert_eq!((&json["task"]["id"], &json["task"]["contextId"]), (&json!("t1"), &json!("c1")));
    let text = run(&place, &["send", "x", "-a", &agent.url, "--async"]).ended(0);
    assert_eq!((text.field("Task"), text.field("Context")), ("t1".to_owned(), "c1".to_owned()));
}

#[test]
fn a2acli_exit_001_the_exit_code_agrees_with_the_error() {
    let place = Place::new();
    let agent = Forged::start(|call| match call.operation.as_str() {
        "CancelTask" => Reply::Raw(401, r#"{"detail":"who?"}"#.to_owned()),
        "ListTasks" => Reply::Hang,
        _ => Reply::Error(-32001, 404, "TASK_NOT_FOUND", "none"),
    });
    let expect = |line: &[&str], env: &[(&str, &str)], exit: i32, code: &str| {
        let ran = run_with(&place, env, &[line, &["-o", "json"]].concat()).ended(exit);
        assert_eq!(ran.failed(), code, "{line:?}");
        assert!(exit == 2 || ran.err().contains(code), "{}", ran.err());
    };
    let at = agent.url.as_str();
    expect(&["task", "get", "t1", "-a", at], &[], 1, "TaskNotFoundError");
    expect(&["task", "get", "-a", at], &[], 2, "A2ACLI_ERR_USAGE");
    expect(&["send", "-a", at, "--no-such-flag"], &[], 2, "A2ACLI_ERR_USAGE");
    expect(&["send", "-a", at, "x", "--metadata", "[1]"], &[], 2, "A2ACLI_ERR_USAGE");
    expect(&["task", "get", "t1", "-a", at, "--timeout", "soon"], &[], 2, "A2ACLI_ERR_USAGE");
    expect(&["task", "get", "t1", "-a", "http://127.0.0.1:1"], &[], 3, "A2ACLI_ERR_UNREACHABLE");
    expect(&["task", "get", "t1", "-a", "no-such-host.invalid"], &[], 3, "A2ACLI_ERR_UNREACHABLE");
    expect(&["task", "get", "t1", "-a", "file:///no/card.json"], &[], 3, "A2ACLI_ERR_CARD_NOT_FOUND");
    expect(&["task", "cancel", "t1", "-a", at], &[], 4, "A2ACLI_ERR_CREDENTIALS_MISSING");
    expect(
        &["task", "cancel", "t1", "-a", at],
        &[("A2ACLI_BEARER", "wrong-token")],
        4,
        "A2ACLI_ERR_AUTH_FAILED",
    );
    expect(&["task", "list", "-a", at, "--timeout", "200ms"], &[], 5, "A2ACLI_ERR_TIMEOUT");
}

#[test]
fn a2acli_exit_002_whatever_became_of_the_task_the_command_has_done_its_work() {
    let place = Place::new();
    for state in ["FAILED", "REJECTED", "CANCELED", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED"] {
        let agent = Forged::start(move |_| Reply::Result(json!({"task": task(state)})));
        let ran = run(&place, &["send", "x", "-a", &agent.url]).ended(0);
        assert_eq!(ran.field("State"), format!("TASK_STATE_{state}"));
        assert_eq!(ran.err().contains("warning: "), state != "COMPLETED", "{}", ran.err());
    }
}

#[test]
fn a2acli_out_007_debug_shows_the_messages_of_the_wire_on_stderr() {
    let (place, agent) = (Place::new(), streams());
    let ran: Ran = run(&place, &["send", "hello wire", "-a", &agent.url, "--debug"]).ended(0);
    for shown in [
        "GET http",
        "POST http",
        "a2a-version: 1.0",
        "hello wire",
        "HTTP 200",
        "data: {",
        "artifactUpdate",
        " ms #",
    ] {
        assert!(ran.err().contains(shown), "{shown} is not in {}", ran.err());
        assert!(!ran.out().contains("a2a-version"));
    }
}

#[test]
fn a_reader_that_goes_early_ends_the_command_quietly() {
    let place = Place::new();
    let agent = Forged::streaming(|_| {
        let mut events = vec![json!({"task": task("WORKING")})];
        events.extend((0..5_000).map(|_| artifact("piece")));
        events.push(status("COMPLETED"));
        Reply::Events(events, After::End)
    });
    let mut command = command(&place, &["send", "x", "-a", &agent.url, "--stream", "-o", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = crate::binary::end(child);
    assert_eq!((ended.code(), ended.err().as_str()), (Some(0), ""));
}
