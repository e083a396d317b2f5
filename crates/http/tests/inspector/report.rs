//! The report of a task or a session: one file that needs nothing else, with everything that the pages show.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use proto_events::id::{LogId, StreamId};
use sha2::{Digest as _, Sha256};
use taskreel_http::{InspectedLog, ReportError, ReportOptions, ReportSummary, write_report};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::audit::{Scope, export, verify_within};
use taskreel_log::jsonl::{JsonLines, hex};
use taskreel_log::views::{LogUse, event_rows, streams};

use crate::asked::{Pages, percent};
use crate::markup::{Tag, tags, unescaped};
use crate::seeded::{post, seeded};
use crate::support::{builder, tool_task};

fn task(id: &str) -> StreamId {
    StreamId::task("agent", id).unwrap()
}

fn written(log: &Arc<InspectedLog>, stream: &StreamId, options: ReportOptions) -> (String, ReportSummary) {
    let mut file = Vec::new();
    let done = write_report(log, stream, options, &mut file).unwrap();
    assert_eq!(done.bytes, file.len() as u64);
    (String::from_utf8(file).unwrap(), done)
}

/// Checks that a report loads, runs and asks for nothing, and that each of its links leads to a place inside of it.
fn complete_in_itself(report: &str) -> Vec<Tag> {
    let (before, rest) = report.split_once("<style>").unwrap();
    let (style, after) = rest.split_once("</style>").unwrap();
    for asks in ["url(", "@import", "http:", "https:", "//", "</"] {
        assert!(!style.contains(asks), "the style has {asks}");
    }
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style));
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">"
    );
    let (head, after_policy) = before.split_once(&policy).unwrap_or_else(|| panic!("{before}"));
    let (tags, text) = tags(&format!("{head}{after_policy}{after}"));
    assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{0}']));
    let places: BTreeSet<&str> = of(&tags, "id").collect();
    assert_eq!(places.len(), of(&tags, "id").count(), "two places have one name");
    for tag in &tags {
        assert!(!["script", "link", "form", "input", "button"].contains(&tag.name.as_str()), "{tag:?}");
        for (name, value) in &tag.attributes {
            assert!(!["src", "action", "data-follow", "style"].contains(&name.as_str()), "{tag:?}");
            if name == "href" {
                let place =
                    value.strip_prefix('#').unwrap_or_else(|| panic!("{tag:?} leads out of the report"));
                assert!(places.contains(place), "{tag:?} leads to a place that is not there");
            }
        }
    }
    tags
}

fn of<'a>(tags: &'a [Tag], name: &'a str) -> impl Iterator<Item = &'a str> {
    tags.iter()
        .flat_map(|tag| &tag.attributes)
        .filter(move |(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_of_each_task_and_session_is_complete_in_itself_and_holds_every_event_with_its_hashes() {
    let system = seeded().await;
    let log = Arc::new(InspectedLog::of(&system));
    let reader: Arc<dyn EventReader> = system.log();
    let mut looked = 0;
    for info in ["task-", "session-"].into_iter().flat_map(|prefix| streams(reader.as_ref(), prefix).unwrap())
    {
        let (report, done) = written(&log, &info.stream, ReportOptions::default());
        let tags = complete_in_itself(&report);
        assert_eq!((done.faults, done.prompts_wrong, done.damage), (0, 0, None), "{}", info.stream);
        let places: BTreeSet<&str> = of(&tags, "id").collect();
        let anchor = if info.stream.as_str().starts_with("task-") { "t1" } else { "s1" };
        for stored in reader.read_stream(&info.stream, proto_events::id::Version(1), 10_000).unwrap() {
            assert!(report.contains(&stored.hash.to_string()) && report.contains(&hex(&stored.bytes)));
            for (row, event) in event_rows(&stored).iter().zip(&stored.record.events) {
                assert!(places.contains(format!("{anchor}-v{}", row.version).as_str()), "{}", row.version);
                assert!(report.contains(row.kind) && report.contains(&event.digest.to_string()));
            }
        }
        let scope = Scope { only: Some(&info.stream), ..Scope::default() };
        for unchecked in verify_within(reader.as_ref(), &scope, &mut |_| {}).unchecked {
            assert!(unescaped(&report).contains(&unchecked), "{unchecked}");
        }
        assert!(report.contains("no fault was found") && report.contains("End of the report."));
        looked += 1;
    }
    assert_eq!(looked, 10, "six tasks, three of a conversation, and the conversation");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_stand_as_the_models_saw_them_and_what_was_shown_before_is_named() {
    let system = seeded().await;
    let log = Arc::new(InspectedLog::of(&system));
    let (report, _) = written(&log, &StreamId::session("agent", "talk").unwrap(), ReportOptions::default());
    assert_eq!(report.matches("✓ checked:").count(), 4);
    for said in ["Hi", "hello", "And now?"] {
        assert!(report.contains(&format!(">{said}</pre>")), "{said}");
    }
    // The conversation, and the three tasks that had its turns.
    assert_eq!(report.matches("<article id=").count(), 4);
    let ids = streams(system.log().as_ref(), "task-").unwrap();
    let talked = ids.iter().find(|info| {
        let id = info.stream.id();
        !id.contains("-0001") && id != "../odd"
    });
    let (alone, _) = written(&log, &talked.unwrap().stream, ReportOptions::default());
    complete_in_itself(&alone);
    assert!(alone.contains("Conversation, the turns of the task:") && alone.contains("✓ checked:"));
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_prompts_of_a_task_name_what_an_earlier_one_showed() {
    let calls = r#"{"tool_calls":[{"id":"c1","name":"echo","arguments":{"text":"one"}}]}"#;
    let system = builder().infer(crate::support::model(&[calls, "done"])).start().await.unwrap();
    let run = system.session("long").send(taskreel::Part::infer("Say one.")).await.unwrap();
    run.finished().await.unwrap();
    let log = Arc::new(InspectedLog::of(&system));
    let (report, done) =
        written(&log, &StreamId::session("agent", "long").unwrap(), ReportOptions::default());
    complete_in_itself(&report);
    assert_eq!(done.prompts_wrong, 0);
    let prompts = report.matches("class=\"prompt\"").count();
    if prompts > 1 {
        assert!(report.contains(": the same as in <a href=\"#t1-p"), "{report}");
    }
    assert!(prompts >= 1);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_of_a_session_grows_with_its_turns_and_shows_each_message_once() {
    let answers: Vec<String> = (0..48).map(|turn| format!("answer-{turn}.")).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let system = builder().infer(crate::support::model(&answers)).start().await.unwrap();
    let log = Arc::new(InspectedLog::of(&system));
    let stream = StreamId::session("agent", "long").unwrap();
    let mut bytes = Vec::new();
    for turn in 0..48 {
        let said = format!("question-{turn}. {}", "x".repeat(1_000));
        let run = system.session("long").send(taskreel::Part::infer(said.as_str())).await.unwrap();
        run.finished().await.unwrap();
        if [11, 23, 47].contains(&turn) {
            let (report, done) = written(&log, &stream, ReportOptions::default());
            assert_eq!((done.prompts_wrong, done.faults), (0, 0));
            let of_prompts = report.split("class=\"prompt\"").skip(1).collect::<String>();
            assert_eq!(of_prompts.matches(">answer-0.</pre>").count(), 1);
            complete_in_itself(&report);
            bytes.push(report.len());
        }
    }
    let (first, second) = (bytes[1] - bytes[0], bytes[2] - bytes[1]);
    assert!(second < first * 5 / 2, "twice the turns have {second} bytes, and half of them {first}");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_content_is_text_in_a_report_and_a_long_payload_stands_by_its_beginning_or_whole() {
    let system = builder().start().await.unwrap();
    let hostile = "</style></pre><script>alert(1)</script>\"><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J";
    let id = "</title><script>alert(2)</script>\u{202e}";
    let posted = tool_task("THE-ID", "echo", &serde_json::json!({"text": hostile}).to_string())
        .replace("\"THE-ID\"", &serde_json::to_string(id).unwrap());
    let posted = proto_events::model::PostedTask::parse(&posted, &mut taskreel::Ports::default()).unwrap();
    system.submit(posted).await.unwrap().finished().await.unwrap();
    let payload = "x<b>".repeat(64 * 1024);
    post(&system, "long-0001", "echo", &serde_json::json!({"text": payload}).to_string()).await;
    let log = Arc::new(InspectedLog::of(&system));
    let (report, _) = written(&log, &task(id), ReportOptions::default());
    complete_in_itself(&report);
    assert!(unescaped(&report).contains("<script>alert(1)</script>") && report.contains("⟨U+202E⟩"));
    let (cut, _) = written(&log, &task("long-0001"), ReportOptions::default());
    complete_in_itself(&cut);
    assert!(cut.len() < 600_000 && cut.contains("Only the beginning of"), "{}", cut.len());
    let (whole, _) = written(&log, &task("long-0001"), ReportOptions::complete());
    complete_in_itself(&whole);
    assert!(unescaped(&whole).contains(&payload) && !whole.contains("Only the beginning of"));
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_is_reported_up_to_where_it_can_be_read() {
    let system = seeded().await;
    let mut lines = Vec::new();
    let write = |line: &str| {
        lines.push(line.to_owned());
        Ok::<_, ReadError>(())
    };
    export(system.log().as_ref(), LogId([7; 16]), "os", write).unwrap();
    system.shutdown().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.ndjson");
    let records: Vec<usize> = (1..lines.len() - 1)
        .filter(|at| lines[*at].contains("\"stream\":\"task-agent/echo-0001\""))
        .collect();
    assert!(records.len() > 1);
    for at in &records {
        let mut damaged = lines.clone();
        let bytes = damaged[*at].find("\"bytes\":\"").unwrap() + 49;
        let other = if damaged[*at].as_bytes()[bytes] == b'0' { "1" } else { "0" };
        damaged[*at].replace_range(bytes..=bytes, other);
        std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
        let reader = Arc::new(JsonLines::open_damaged(&path).unwrap());
        let log = Arc::new(InspectedLog::new(reader, "damaged").used(LogUse::Exported).noted("its <end>"));
        let mut file = Vec::new();
        match write_report(&log, &task("echo-0001"), ReportOptions::default(), &mut file) {
            Ok(done) => {
                let report = String::from_utf8(file).unwrap();
                complete_in_itself(&report);
                assert!(report.contains("its &lt;end&gt;") && report.contains("End of the report."));
                assert!(
                    done.damage.is_some() || done.faults > 0 || report.contains("✗"),
                    "line {at}: {done:?}"
                );
            }
            Err(ReportError::Nothing(_)) => {}
            Err(error) => panic!("line {at}: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_sends_the_report_as_a_file_with_a_policy_of_its_own_and_ends_with_its_reader() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let page = pages.page("/t/agent/pay-0001").await;
    assert!(page.contains("href=\"/inspect/report/t/agent/pay-0001\""), "{page}");
    let got = pages.get("/report/t/agent/pay-0001").await;
    assert_eq!(got.header("content-disposition"), "attachment; filename=\"report-pay-0001.html\"");
    assert!(got.header("content-security-policy").starts_with("default-src 'none'; style-src 'sha256-"));
    complete_in_itself(&got.body);
    assert!(pages.page("/s/agent/talk").await.contains("href=\"/inspect/report/s/agent/talk\""));
    complete_in_itself(&pages.get("/report/s/agent/talk").await.body);
    let odd = pages.get(&format!("/report/t/agent/~{}", percent("../odd"))).await;
    assert_eq!(odd.header("content-disposition"), "attachment; filename=\"report----odd.html\"");
    assert_eq!(pages.get("/report/t/agent/nobody").await.status.as_u16(), 404);
    system.shutdown().await.unwrap();
}
