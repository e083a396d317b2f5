//! Two logs beside each other, two versions of one run, artifacts, the tree of tasks, diagrams, and the audit as it goes on.

use std::sync::Arc;

use proto_events::id::Position;
use taskreel::{Part, System};
use taskreel_http::{HeadFile, InspectedLog, Inspector, Mounted};
use taskreel_log::sled::Head;
use taskreel_log::views::{LogUse, streams};

use crate::asked::{PLACE, Pages};
use crate::markup::{harmless, unescaped};
use crate::seeded::{post, seeded};
use crate::support::{builder, model};

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_logs_are_compared_and_each_link_leads_into_its_own_log() {
    let (one, other) = (seeded().await, builder().start().await.unwrap());
    post(&other, "echo-0001", "echo", r#"{"text": "a\nb"}"#).await;
    post(&other, "echo-0002", "echo", r#"{"text": "another"}"#).await;
    let beside = InspectedLog::new(other.log(), "the other log").used(LogUse::Exported);
    let pages = Inspector::from_system(&one).beside(beside);
    let pages = Pages(Arc::new(Mounted::new().mount(PLACE, Arc::new(pages))));
    let same = pages.page("/compare?l=echo-0001&r=echo-0001&with=1").await;
    harmless("same", &same);
    assert!(
        same.contains("steps are the same.") && same.contains("href=\"/inspect/with/t/agent/echo-0001?at=")
    );
    let differ = pages.page("/compare?l=echo-0001&r=echo-0002&with=1").await;
    harmless("differ", &differ);
    assert!(differ.contains("the first difference is step") && differ.contains("artifact "), "{differ}");
    // What is not there is looked for in the log that was named.
    assert_eq!(pages.get("/compare?l=echo-0001&r=echo-0002").await.status.as_u16(), 404);
    for path in ["/with/", "/with/t/agent/echo-0002", "/with/inbox", "/with/live"] {
        let page = pages.page(path).await;
        harmless(path, &page);
        assert!(page.contains("the other log"), "{path}");
    }
    assert!(pages.page("/").await.contains("href=\"/inspect/with/\""));
    let alone = Pages::of(InspectedLog::of(&one));
    assert_eq!(alone.get("/with/").await.status.as_u16(), 404);
    assert_eq!(alone.get("/compare?l=echo-0001&r=echo-0001&with=1").await.status.as_u16(), 404);
    one.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn any_two_versions_of_a_run_are_compared_by_what_changed() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let page = pages.page("/compare?l=echo-0001&lat=1&rat=4").await;
    harmless("versions", &page);
    assert!(page.contains("What changed") && page.contains(" between these versions."), "{page}");
    let back = pages.page("/compare?l=echo-0001&lat=4&r=echo-0001&rat=1").await;
    assert!(back.contains("What changed"), "{back}");
    // The same version twice is a run beside itself.
    assert!(pages.page("/compare?l=echo-0001&r=echo-0001&lat=4&rat=4").await.contains("steps are the same."));
    for (path, status) in [
        ("/compare?l=echo-0001&rat=0", 404),
        ("/compare?l=echo-0001&rat=99999", 404),
        ("/compare?l=echo-0001&rat=x", 400),
        ("/compare?l=s%3Atalk&rat=1", 404),
    ] {
        assert_eq!(pages.get(path).await.status.as_u16(), status, "{path}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_is_shown_whole_by_lines_as_a_summary_and_as_plain_text() {
    let system = builder().start().await.unwrap();
    let lines: Vec<String> = (1..=3_000).map(|number| format!("line {number} <b>")).collect();
    post(&system, "long-0001", "echo", &serde_json::json!({"text": lines.join("\n")}).to_string()).await;
    let pages = Pages::of(InspectedLog::of(&system));
    let tab = pages.page("/t/agent/long-0001?tab=artifacts").await;
    let tags = harmless("artifacts", &tab);
    let urls: Vec<String> = tags
        .iter()
        .flat_map(|tag| &tag.attributes)
        .filter(|(name, value)| name == "href" && value.starts_with("/inspect/a/"))
        .map(|(_, value)| value.trim_start_matches(PLACE).to_owned())
        .collect();
    assert!(!urls.is_empty(), "{tab}");
    for url in &urls {
        let page = pages.page(url).await;
        harmless(url, &page);
        assert!(unescaped(&page).contains("line 1 <b>"), "{page}");
        let whole = pages.get(&format!("{url}?whole=1")).await;
        assert_eq!(whole.header("content-type"), "text/plain; charset=utf-8");
        assert!(whole.body.contains("line 3000 <b>"));
        let part = unescaped(&pages.page(&format!("{url}?lines=10-11")).await);
        assert!(part.contains("line 10 <b>\nline 11 <b>") && !part.contains("line 12 <b>"), "{part}");
        harmless(url, &pages.page(&format!("{url}?view=summary")).await);
        // A part that is not there is said, not shown.
        harmless(url, &pages.page(&format!("{url}?lines=9999-")).await);
        harmless(url, &pages.page(&format!("{url}?path=a.b")).await);
        assert_eq!(pages.get(&format!("{url}?lines=x")).await.status.as_u16(), 400);
    }
    assert_eq!(pages.get("/a/agent/long-0001/nothing").await.status.as_u16(), 404);
    assert_eq!(pages.get("/a/agent/nobody/nothing").await.status.as_u16(), 404);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn diagrams_have_a_row_for_each_event_with_a_link_to_it() {
    let system = seeded().await;
    let pages = Pages::of(InspectedLog::of(&system));
    for id in ["echo-0001", "pay-0001", "fail-0001"] {
        for tab in ["sequence", "graph"] {
            let page = pages.page(&format!("/t/agent/{id}?tab={tab}")).await;
            harmless(tab, &page);
            let drawn = page
                .split("class=\"scroll diagram\"")
                .nth(1)
                .unwrap()
                .split("</svg>")
                .next()
                .unwrap()
                .to_owned();
            let stream = proto_events::id::StreamId::task("agent", id).unwrap();
            let end = taskreel_log::api::EventReader::stream_version(system.log().as_ref(), &stream).unwrap();
            for version in 1..=end.0 {
                let link = format!("href=\"/inspect/t/agent/{id}?at={version}&amp;tab={tab}\"");
                assert!(drawn.contains(&link), "{id} {tab} {version}: {drawn}");
            }
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_is_sent_as_it_goes_on_and_names_the_commands_of_an_auditor() {
    let system = seeded().await;
    let log = InspectedLog::of(&system).typed(|command| format!("prog {command} --here"));
    let pages = Pages::of(log);
    let got = pages.get("/audit?verify=1").await;
    harmless("audit", &got.body);
    assert!(got.body.contains("✓ sound:") && got.body.contains("Progress of the verification"));
    let root = got.body.split("verify --root ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(root.len(), 64, "{root}");
    assert!(
        got.body.contains(&format!("<dd>{root}</dd>")) && got.body.ends_with("</html>\n")
            || got.body.ends_with("</html>")
    );
    // The effects: what people were asked, and what is not known of calls whose outcome was lost.
    let row = |page: &str, name: &str| {
        let row = page.split(&format!("<th scope=\"row\">{name}</th>")).nth(1);
        row.map(|row| row.split("</tr>").next().unwrap().to_owned())
    };
    assert!(row(&got.body, "pay").unwrap().contains(">1 asked<"), "{}", got.body);
    let hang = row(&got.body, "hang").unwrap();
    assert!(hang.contains("manual 1") && hang.contains("1 lost, 1 still unknown"), "{hang}");
    let echo = row(&got.body, "echo").unwrap();
    assert!(echo.starts_with("<td class=\"figure\">2</td>"), "{echo}");
    let one = pages.page("/audit?verify=1&stream=task-agent%2Fecho-0001").await;
    assert!(row(&one, "echo").unwrap().starts_with("<td class=\"figure\">1</td>"), "{one}");
    assert!(row(&one, "hang").is_none(), "{one}");
    assert!(one.contains("prog verify task-agent/echo-0001 --here") && !one.contains("--root"), "{one}");
    let plain = pages.page("/audit").await;
    assert!(!plain.contains("Progress of the verification") && plain.contains("prog verify --here"));
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_shows_the_file_head_beside_the_end_of_the_log_and_compares_them() {
    let system = seeded().await;
    let head = |position: u64| {
        let head = Head { position: Position(position), ..Head::default() };
        Ok(Some(HeadFile { head, written: Some(std::time::SystemTime::now()) }))
    };
    let end = system.log().head().unwrap().0;
    let page = async |read: Result<Option<HeadFile>, String>, query: &str| {
        let log = InspectedLog::of(&system).with_head(move || read.clone());
        Pages::of(log).page(&format!("/audit{query}")).await
    };
    let same = page(head(end), "").await;
    assert!(same.contains("The log ends where the file says.") && same.contains("written at"), "{same}");
    let behind = page(head(end - 3), "").await;
    assert!(behind.contains("3 events behind it"), "{behind}");
    let newer = page(head(end + 3), "?verify=1").await;
    assert!(newer.contains("older than the file") && newer.contains("✓ sound:"), "{newer}");
    let unread = page(Err("its text is damaged".to_owned()), "").await;
    assert!(unread.contains("It cannot be read: its text is damaged"), "{unread}");
    assert!(!page(Ok(None), "").await.contains("The file HEAD"));
    system.shutdown().await.unwrap();
}

/// Returns a system whose model gave this answer to this prompt, and the id of the task.
async fn answered(prompt: &str, answer: &str) -> (System, String) {
    let system = builder().infer(model(&[answer])).start().await.unwrap();
    system.session("talk").send(Part::infer(prompt)).await.unwrap().finished().await.unwrap();
    let tasks = streams(system.log().as_ref(), "task-").unwrap();
    (system, tasks[0].stream.id())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_says_whether_the_model_was_shown_the_same_where_two_runs_part() {
    let one = answered("Hi", "hello").await;
    for (prompt, answer, told) in [
        ("Hi", "hello", "prompts equal: "),
        // The model itself made the difference.
        ("Hi", "good day", "prompts equal: "),
        ("Hi there", "hello", "prompts differ from message 2 on: "),
    ] {
        let other = answered(prompt, answer).await;
        let beside = InspectedLog::new(other.0.log(), "the other log").used(LogUse::Exported);
        let pages = Inspector::from_system(&one.0).beside(beside);
        let pages = Pages(Arc::new(Mounted::new().mount(PLACE, Arc::new(pages))));
        let page = pages.page(&format!("/compare?l={}&r={}&with=1", one.1, other.1)).await;
        harmless(told, &page);
        assert!(page.contains(told), "{prompt} {answer}: {page}");
        other.0.shutdown().await.unwrap();
    }
    one.0.shutdown().await.unwrap();
}
