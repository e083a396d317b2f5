//! The toolkit against agents that mean ill, or fail in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proto_events::json::JsonValue as Value;
use serde_json::json;
use taskreel::files::LocalFileStore;
use taskreel_http::a2a::{
    A2aAgents, A2aSession, A2aTools, AgentDetail, InMemoryTaskStore, KeptTask, OutgoingMessage,
    SessionAnswer, SessionError, Task, TaskStore, TaskStoreError,
};

use crate::forge::{Answer, forge, rpc, whole};
use crate::support::PATIENCE;

/// A card of 0.3 that does not stream.
fn card(url: &str) -> serde_json::Value {
    json!({"name": "n", "description": "d", "version": "1", "protocolVersion": "0.3.0", "url": url,
        "capabilities": {}, "skills": [], "defaultInputModes": [], "defaultOutputModes": []})
}

/// Starts an agent whose card is this, and which answers each request with these results.
async fn answering(
    card_of: impl Fn(&str) -> String + Send + Sync + 'static,
    result: serde_json::Value,
) -> String {
    let url = Arc::new(std::sync::OnceLock::<String>::new());
    let (known, card_of) = (Arc::clone(&url), Arc::new(card_of));
    let at = forge(move |asked| {
        if asked.is("agent-card.json") {
            return whole(200, &card_of(known.get().unwrap()));
        }
        rpc(asked, "result", &result)
    })
    .await;
    url.set(at.clone()).unwrap();
    at
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it hangs")
}

fn characters(value: &Value) -> usize {
    value.to_string().chars().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_card_floods_a_model_or_breaks_the_registry() {
    let large = |bytes: usize| {
        move |url: &str| {
            let mut card = card(url);
            card["description"] = "x".repeat(bytes).into();
            card.to_string()
        }
    };
    let skills = |url: &str| {
        let mut card = card(url);
        let skill = |at: usize| json!({"id": "i", "name": format!("s{at}"), "description": "d".repeat(50), "tags": []});
        card["skills"] = (0..10_000).map(skill).collect();
        card["name"] = "<script>\u{1b}[31m</script>\u{202e}\"}],\u{0}".into();
        card.to_string()
    };
    let odd = |url: &str| {
        let mut card = card(url);
        card["skills"] = json!([5, null, {"name": 5}, {"name": "ok", "description": []}]);
        card["capabilities"] = json!({"extensions": []});
        card.to_string()
    };
    let agents = A2aAgents::new()
        .agent("ten megabytes", &answering(large(10 * 1024 * 1024), json!({})).await)
        .agent("half a megabyte", &answering(large(500_000), json!({})).await)
        .agent("skills", &answering(skills, json!({})).await)
        .agent("odd", &answering(odd, json!({})).await)
        .agent("no card", &answering(|_| "[[[".to_owned(), json!({})).await)
        .agent("wrong", &answering(|_| r#"{"name":{},"url":[]}"#.to_owned(), json!({})).await)
        .agent("no address", "nowhere");
    let shown = soon(agents.get_agents_for_llm(AgentDetail::Full)).await;
    let ids: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(ids, ["half a megabyte", "odd", "skills"]);
    assert!(characters(&shown) < 200_000, "{}", characters(&shown));
    assert_eq!(
        shown["skills"]["skills"].as_array().unwrap().len() as u64
            + shown["skills"]["_skills_left_out"].as_u64().unwrap(),
        10_000
    );
    assert!(shown["skills"]["name"].as_str().unwrap().contains("<script>"));
    assert_eq!(shown["odd"]["skills"].to_string(), r#"[{"name":"ok","description":""}]"#);
    let errors = agents.initialization_errors();
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(
        errors.iter().all(|(_, error)| error.len() < 1_500 && !error.contains("127.0.0.1")),
        "{errors:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_delays_no_other_and_is_told_as_late() {
    let hangs = forge(|_| Answer(Vec::new(), b" ".to_vec())).await;
    let works = answering(|url| card(url).to_string(), json!({})).await;
    let mut agents = A2aAgents::new().agent("works", &works).timeout(Duration::from_secs(1));
    for number in 0..100 {
        agents = agents.agent(&format!("hangs {number}"), &hangs);
    }
    let begun = Instant::now();
    assert!(soon(agents.get_agent("works")).await.is_some());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(soon(agents.get_agents()).await.len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(agents.initialization_errors().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_failed_is_read_again_a_moment_later() {
    let asked_for = Arc::new(AtomicUsize::new(0));
    let (counted, url) = (Arc::clone(&asked_for), Arc::new(std::sync::OnceLock::<String>::new()));
    let known = Arc::clone(&url);
    let at = forge(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => whole(500, "no"),
        _ => whole(200, &card(known.get().unwrap()).to_string()),
    })
    .await;
    url.set(at.clone()).unwrap();
    let agents = A2aAgents::new().agent("a", &at);
    assert!(agents.get_agent("a").await.is_none());
    assert!(agents.initialization_errors()[0].1.contains("HTTP Error 500"));
    assert!(agents.get_agent("a").await.is_none());
    assert_eq!(asked_for.load(Ordering::SeqCst), 1, "not at once");
    soon(async {
        while agents.get_agent("a").await.is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(agents.initialization_errors().is_empty());
}

fn with_artifacts(artifacts: &serde_json::Value) -> serde_json::Value {
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}, "artifacts": artifacts.clone()})
}

async fn send(tools: &A2aTools) -> Value {
    let args = proto_events::json!({"agent_id": "a", "message": "m"});
    soon(tools.call("send_message", &args)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_are_shown_within_bounds_and_viewed_in_part() {
    // Tests are built without optimizations: `TASKREEL_TOOLKIT_MEGABYTES=20` is what a client may well be sent.
    let megabytes =
        std::env::var("TASKREEL_TOOLKIT_MEGABYTES").map_or(2, |megabytes| megabytes.parse().unwrap());
    let text = "line\n".repeat(megabytes * 200_000);
    let rows: Vec<_> =
        (0..10_000).map(|at| json!({"n": at, "text": "some words that fill the row"})).collect();
    let artifacts = json!([
        {"artifactId": "text", "parts": [{"kind": "text", "text": text}]},
        {"artifactId": "rows", "parts": [{"kind": "data", "data": {"rows": rows}}]}]);
    let url = answering(|url| card(url).to_string(), with_artifacts(&artifacts)).await;
    let tools = A2aTools::from(A2aAgents::new().agent("a", &url));
    let shown = send(&tools).await;
    assert_eq!(shown["artifacts"].as_array().map(Vec::len), Some(2), "{shown}");
    assert!(characters(&shown) < 250_000, "{}", characters(&shown));
    let view = |args: &str| Value::parse(args).unwrap();
    let lines = view(r#"{"agent_id":"a","task_id":"t","artifact_id":"text","line_start":-2}"#);
    assert_eq!(soon(tools.call("view_text_artifact", &lines)).await["parts"][0]["text"], "line\n");
    let row = view(
        r#"{"agent_id":"a","task_id":"t","artifact_id":"rows","json_path":"rows","rows":"9999","columns":"n"}"#,
    );
    assert_eq!(
        soon(tools.call("view_data_artifact", &row)).await["parts"][0]["data"].to_string(),
        r#"[{"n":9999}]"#
    );
    let all = view(r#"{"agent_id":"a","task_id":"t","artifact_id":"text"}"#);
    assert!(
        soon(tools.call("view_text_artifact", &all)).await["error_message"]
            .as_str()
            .unwrap()
            .starts_with("Selected text")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_artifacts_long_names_and_long_messages_stay_within_bounds() {
    let artifact = |at: usize| json!({"artifactId": format!("a{at}"), "name": "n".repeat(6_000), "parts": [{"kind": "text", "text": "x".repeat(2_000)}]});
    let artifacts: Vec<_> = (0..800).map(artifact).collect();
    let mut many = with_artifacts(&artifacts.into());
    many["status"]["message"] = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [
        {"kind": "text", "text": "y".repeat(300_000)}, {"kind": "data", "data": {"z": "z".repeat(300_000)}}]});
    let url = answering(|url| card(url).to_string(), many).await;
    let shown = send(&A2aTools::from(A2aAgents::new().agent("a", &url))).await;
    assert!(characters(&shown) < 1_500_000, "{}", characters(&shown));
    assert!(shown["_artifacts_left_out"].as_u64().is_some_and(|count| count > 300));
    for levels in [100, 122, 123, 124, 125, 500] {
        let deep = format!("{}1{}", "{\"d\":".repeat(levels), "}".repeat(levels));
        let nested = move |asked: &crate::forge::Asked| {
            let id = &asked.body["id"];
            let part = format!(r#"{{"kind":"data","data":{deep}}}"#);
            whole(
                200,
                &format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"kind":"message","messageId":"m","role":"agent","parts":[{part}]}}}}"#
                ),
            )
        };
        let rpc = forge(nested).await;
        let url = answering(move |_| card(&rpc).to_string(), json!({})).await;
        let shown = send(&A2aTools::from(A2aAgents::new().agent_with("a", &url, []))).await;
        assert_eq!(shown["error"] == true, levels > 124, "{levels}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_with_paths_in_their_names_stay_in_their_folder_and_one_that_fails_takes_no_other() {
    let file = |name: &str, bytes: &str| json!({"kind": "file", "file": {"name": name, "bytes": bytes, "mimeType": "text/plain"}});
    let artifacts = json!([
        {"artifactId": "a1", "parts": [file("../../evil", "aGk="), file("/etc/passwd", "aGk="), file("..\\x\u{0}", "aGk=")]},
        {"artifactId": "a2", "parts": [{"kind": "file", "file": {"uri": "https://127.0.0.1/secret"}}]},
        {"artifactId": "a3", "parts": [file("fine.txt", "aGk=")]}]);
    let url = answering(|url| card(url).to_string(), with_artifacts(&artifacts)).await;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("files");
    let store = Arc::new(LocalFileStore::new(&root).unwrap());
    let session = A2aSession::new(A2aAgents::new().agent("a", &url)).file_store(store);
    let shown = send(&A2aTools::from(session)).await;
    let saved =
        |artifact: usize| shown["artifacts"][artifact]["parts"][0]["bytes"]["_saved_to"].as_array().cloned();
    let paths = saved(0).unwrap();
    assert_eq!(paths.len(), 3, "{shown}");
    let root = root.canonicalize().unwrap();
    for path in paths.iter().chain(&saved(2).unwrap()) {
        let path = std::path::Path::new(path.as_str().unwrap());
        assert!(path.starts_with(&root) && path.is_file(), "{}", path.display());
    }
    assert!(shown["artifacts"][1]["parts"][0]["uri"].is_string(), "{shown}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_neither_take_anothers_task_nor_use_an_id_as_a_path() {
    let own = with_artifacts(&json!([{"artifactId": "x", "parts": [{"kind": "text", "text": "own"}]}]));
    let forged = with_artifacts(&json!([{"artifactId": "x", "parts": [{"kind": "text", "text": "forged"}]}]));
    let (good, bad) = (
        answering(|url| card(url).to_string(), own).await,
        answering(|url| card(url).to_string(), forged).await,
    );
    let session = A2aSession::new(A2aAgents::new().agent("a", &good).agent("b", &bad));
    let tools = A2aTools::from(session.clone());
    send(&tools).await;
    let refused = session.send("b", OutgoingMessage::new("m")).await.unwrap_err();
    assert_eq!(refused, SessionError::ForeignTask { task: "t".to_owned() });
    assert!(matches!(session.get("b", "t", None, None).await, Err(SessionError::ForeignTask { .. })));
    let view = Value::parse(r#"{"agent_id":"a","task_id":"t","artifact_id":"x"}"#).unwrap();
    assert_eq!(tools.call("view_text_artifact", &view).await["parts"][0]["text"], "own");
    for (id, artifact, message) in [("../t", "x", "m"), ("t", "a/b", "m"), ("t", "x", ".."), ("", "x", "m")] {
        let mut task = with_artifacts(&json!([{"artifactId": artifact, "parts": []}]));
        task["id"] = id.into();
        task["status"]["message"] = json!({"kind": "message", "messageId": message, "role": "agent", "parts": [{"kind": "text", "text": "t"}]});
        let url = answering(|url| card(url).to_string(), task).await;
        let shown = send(&A2aTools::from(A2aAgents::new().agent("a", &url))).await;
        assert_eq!(shown["error"], true, "{id} {artifact} {message}: {shown}");
    }
}

/// A store that fails after so many operations.
struct Failing(InMemoryTaskStore, AtomicUsize);

impl Failing {
    fn next(&self) -> Result<(), TaskStoreError> {
        if self.1.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.1.store(0, Ordering::SeqCst);
            return Err(TaskStoreError("the disk is full".to_owned()));
        }
        Ok(())
    }
}

impl TaskStore for Failing {
    fn save(&self, agent: &str, task: &Task) -> Result<(), TaskStoreError> {
        self.next()?;
        self.0.save(agent, task)
    }

    fn get(&self, task_id: &str) -> Result<Option<KeptTask>, TaskStoreError> {
        self.next()?;
        self.0.get(task_id)
    }

    fn delete(&self, task_id: &str) -> Result<(), TaskStoreError> {
        self.0.delete(task_id)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_store_that_fails_anywhere_loses_no_answer() {
    let artifacts = json!([{"artifactId": "x", "parts": [{"kind": "text", "text": "own"}]}]);
    let url = answering(|url| card(url).to_string(), with_artifacts(&artifacts)).await;
    for operations in 0..6 {
        let store = Arc::new(Failing(InMemoryTaskStore::new(), AtomicUsize::new(operations)));
        let session = A2aSession::new(A2aAgents::new().agent("a", &url)).task_store(store);
        let SessionAnswer::Task(told) = session.send("a", OutgoingMessage::new("m")).await.unwrap() else {
            panic!()
        };
        assert_eq!(told.task.id, "t", "{operations}");
        let view = Value::parse(r#"{"agent_id":"a","task_id":"t","artifact_id":"x"}"#).unwrap();
        let shown = A2aTools::from(session).call("view_text_artifact", &view).await;
        assert_eq!(shown["parts"][0]["text"], "own", "{operations}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_an_agent_go_to_no_other_host_and_stand_in_no_text() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let elsewhere = forge(move |asked| {
        counted.fetch_add(usize::from(asked.header("x-key").is_some()), Ordering::SeqCst);
        rpc(asked, "result", &with_artifacts(&json!([])))
    })
    .await;
    // The card is on 127.0.0.1, and leads to localhost.
    let lured = elsewhere.replace("127.0.0.1", "localhost");
    let home = answering(move |_| card(&lured).to_string(), json!({})).await;
    let agents = A2aAgents::new().agent_with("a", &home, [("X-Key", "hush")]);
    let shown = send(&A2aTools::from(agents.clone())).await;
    assert!(shown["error_message"].as_str().is_some_and(|text| text.contains("other hosts")), "{shown}");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let wrong = A2aAgents::new().agent_with("a", &home, [("X-Key", "hush\n")]);
    assert!(wrong.get_agent("a").await.is_none());
    let texts =
        format!("{agents:?} {:?} {:?} {shown}", wrong.initialization_errors(), agents.get_agent("a").await);
    assert!(!texts.contains("hush"), "{texts}");
    let allowed = agents.headers_for_other_hosts("a");
    let shown = send(&A2aTools::from(allowed)).await;
    assert_eq!(shown["kind"], "task", "{shown}");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}
