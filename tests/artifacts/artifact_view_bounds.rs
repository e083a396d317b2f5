//! The bounds of the tools that view artifacts: what they read of a task out of reach, what they answer to arguments and names of
//! any size, and how many are at work.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use crate::artifact_tool_support::calls::{call, desk, first_call, result, started, text, view};
use proptest::prelude::*;
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue};
use proto_events::model::PostedTask;
use taskreel::artifact::{ArtifactTools, TaskOwner};
use taskreel::tool::ToolContext;
use taskreel::{Part, Ports, System};
use taskreel_log::api::{EventStore, Page, ReadError, StoredRecord};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};

/// The characters of an answer that shows nothing: its message, its subject and what is around them, as JSON.
const REFUSAL_CHARACTERS_MAX: usize = 15_000;

/// The reads of records of one stream.
#[derive(Default)]
struct Watched {
    stream: Mutex<Option<StreamId>>,
    /// The reads that were begun, whichever method made them.
    begun: Mutex<usize>,
    /// The pages: the version at which each began, and the records that it returned.
    pages: Mutex<Vec<(u64, usize)>>,
}

impl Watched {
    fn is_watched(&self, stream: &StreamId) -> bool {
        self.stream.lock().unwrap().as_ref() == Some(stream)
    }

    /// Watches a stream from now on.
    fn watch(&self, stream: StreamId) {
        *self.begun.lock().unwrap() = 0;
        self.pages.lock().unwrap().clear();
        *self.stream.lock().unwrap() = Some(stream);
    }
}

impl Overrides for Watched {
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        if let StoreRead::Stream(stream) = read
            && self.is_watched(stream)
        {
            *self.begun.lock().unwrap() += 1;
        }
        Ok(())
    }

    fn page_stream(
        &self,
        log: &dyn EventStore,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let read = log.page_stream(stream, from, page)?;
        if self.is_watched(stream) {
            self.pages.lock().unwrap().push((from.0, read.len()));
        }
        Ok(read)
    }
}

async fn watched(tools: ArtifactTools) -> (Arc<DelegatingStore<Watched>>, System) {
    let store = Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), Watched::default()));
    let system = desk(&store, tools).start().await.unwrap();
    (store, system)
}

/// Asserts that no more of the watched stream was read than its first record, this many times.
#[track_caller]
fn assert_only_begun(watched: &Watched, times: usize) {
    assert_eq!(*watched.pages.lock().unwrap(), vec![(1, 1); times]);
    assert_eq!(*watched.begun.lock().unwrap(), times, "no other method reads it");
}

#[tokio::test]
async fn a_task_of_a_foreign_session_or_principal_is_not_read_past_its_first_record() {
    let (store, system) = watched(ArtifactTools::new()).await;
    let made = call(&system, ("s", "ada"), "report", json!({})).await;
    let (task, id) = (made.task().id().to_owned(), first_call(&made));
    let stream = StreamId::task("desk", &task).unwrap();
    for of in [("s", "eve"), ("other", "ada"), ("other", "eve")] {
        store.overrides().watch(stream.clone());
        assert_eq!(view(&system, of, &task, &id).await["kind"].as_str(), Some("not_found"));
        assert_only_begun(store.overrides(), 1);
        // By its stream a task is a host's to allow, and without a rule it is not looked at.
        store.overrides().watch(stream.clone());
        assert_eq!(view(&system, of, stream.as_str(), &id).await["kind"].as_str(), Some("not_found"));
        assert_only_begun(store.overrides(), 0);
    }
    store.overrides().watch(stream);
    assert_eq!(text(&view(&system, ("s", "ada"), &task, &id).await), Some("line"));
    assert!(store.overrides().pages.lock().unwrap().iter().any(|(_, records)| *records > 1));
}

#[tokio::test]
async fn a_rule_of_the_host_is_asked_before_the_task_is_read() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let rule = move |cx: &ToolContext, task: &StreamId, owner: &TaskOwner| {
        log.lock().unwrap().push((task.clone(), owner.session_id.clone()));
        cx.principal().name == "root"
    };
    let (store, system) = watched(ArtifactTools::new().reach(rule)).await;
    let made = call(&system, ("s", "ada"), "report", json!({})).await;
    let (task, id) = (made.task().id().to_owned(), first_call(&made));
    let stream = StreamId::task("desk", &task).unwrap();
    for named in [task.as_str(), stream.as_str()] {
        store.overrides().watch(stream.clone());
        assert_eq!(view(&system, ("t", "eve"), named, &id).await["kind"].as_str(), Some("not_found"));
        assert_only_begun(store.overrides(), 1);
        assert_eq!(text(&view(&system, ("t", "root"), named, &id).await), Some("line"));
    }
    assert!(asked.lock().unwrap().iter().all(|seen| *seen == (stream.clone(), "s".to_owned())));
}

#[tokio::test]
async fn a_task_that_metadata_moves_to_another_session_is_seen_from_neither() {
    let system = started().await;
    let posted = json!({"id": "moved", "metadata": {"session_id": "s"}, "state": "completed",
        "artifacts": [{"id": "a", "parts": [{"type": "text", "content": "line"}]}]});
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let system = system.acting_as("ada");
    system.submit(posted).await.unwrap();
    assert_eq!(text(&view(&system, ("s", "ada"), "moved", "a").await), Some("line"));
    let entries = [("session_id".to_owned(), JsonText::parse("\"t\"").unwrap())].into_iter().collect();
    let merge = taskreel::TaskCommand::MergeMetadata(entries);
    system.task("moved").unwrap().command(merge).await.unwrap();
    for session in ["s", "t"] {
        assert_eq!(view(&system, (session, "ada"), "moved", "a").await["kind"].as_str(), Some("not_found"));
    }
}

#[tokio::test]
async fn arguments_of_megabytes_are_answered_with_a_few_lines() {
    let system = started().await;
    let text = "é\"\u{1}.".repeat(200_000);
    let row = JsonValue::from([(text.clone(), JsonValue::from(1))].into_iter().collect::<JsonMap>());
    let parts = json!([{"type": "json", "content": [row]}]);
    let posted = json!({"id": "t", "metadata": {"session_id": "s"}, "state": "completed",
        "artifacts": [{"id": "a", "name": text.as_str(), "parts": parts}]});
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    system.acting_as("ada").submit(posted).await.unwrap();
    for args in [
        json!({"task_id": text.as_str(), "artifact_id": "a"}),
        json!({"task_id": "t", "artifact_id": text.as_str()}),
        json!({"task_id": "t", "artifact_id": "a", "json_path": text.as_str()}),
        json!({"task_id": "t", "artifact_id": "a", "rows": text.as_str()}),
        json!({"task_id": "t", "artifact_id": "a", "columns": text.as_str()}),
    ] {
        let shown = result(&call(&system, ("s", "ada"), "view_data_artifact", args).await);
        assert_eq!(shown["error"], json!(true));
        assert!(shown.to_string().chars().count() <= REFUSAL_CHARACTERS_MAX, "{}", shown.to_string().len());
    }
    // What is shown keeps to its limit with the name that the artifact's author chose.
    let args = json!({"task_id": "t", "artifact_id": "a", "line_start": 1, "line_end": 1});
    let shown = result(&call(&system, ("s", "ada"), "view_text_artifact", args).await);
    assert_eq!(shown.pointer("/parts/0/text"), Some(&json!("[")));
    assert_eq!(shown["name"].as_str().unwrap().chars().count(), 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn no_text_of_an_argument_makes_an_answer_long(
        task in "\\PC{0,30}", artifact in "\\PC{0,30}", path in "\\PC{0,30}", rows in "\\PC{0,30}",
        columns in "\\PC{0,30}", times in 1_usize..3_000, is_known in any::<bool>(), of_rows in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let system = started().await;
            let made = call(&system, ("s", "ada"), "table", json!({})).await;
            let (task, artifact) = if is_known {
                (made.task().id().to_owned(), first_call(&made))
            } else {
                (task.repeat(times), artifact.repeat(times))
            };
            let path = if of_rows { "rows".to_owned() } else { path.repeat(times) };
            let args = json!({"task_id": task, "artifact_id": artifact, "json_path": path,
                "rows": rows.repeat(times), "columns": columns.repeat(times)});
            let shown: JsonValue = result(&call(&system, ("s", "ada"), "view_data_artifact", args).await);
            assert!(shown.to_string().chars().count() <= REFUSAL_CHARACTERS_MAX, "{shown}");
        });
    }
}

#[tokio::test]
async fn data_that_nests_too_deeply_for_an_answer_is_refused_with_advice_that_works() {
    let system = started().await.acting_as("ada");
    let lists = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for (number, levels) in [120, 125, 126, 127].into_iter().enumerate() {
        for (kind, content) in [("l", lists(levels)), ("o", objects(levels))] {
            let id = format!("{kind}{number}");
            let part = format!(r#"{{"type":"json","content":{content}}}"#);
            let posted = format!(
                r#"{{"id":"{id}","metadata":{{"session_id":"s"}},"state":"completed","artifacts":[{{"id":"a","parts":[{part}]}}]}}"#
            );
            let posted = JsonText::parse_stored(&posted).unwrap();
            let posted = PostedTask::from_json(&posted, &mut Ports::default()).unwrap();
            system.submit(posted).await.unwrap();
            let view = |tool: &'static str, path: Option<&'static str>| {
                let mut args = json!({"task_id": id, "artifact_id": "a"});
                if let Some(path) = path {
                    args["json_path"] = path.into();
                }
                let system = &system;
                async move { result(&call(system, ("s", "ada"), tool, args).await) }
            };
            let shown = view("view_data_artifact", None).await;
            assert_eq!(shown["error"] == json!(true), levels > 125, "{levels}: {shown}");
            if levels > 125 {
                let said = shown["error_message"].as_str().unwrap();
                assert!(said.ends_with(
                    "Use json_path to enter it, or view_text_artifact, which shows data as text."
                ));
                assert_eq!(shown["kind"], json!("too_large"));
            }
            assert!(view("view_text_artifact", None).await.pointer("/parts/0/text").is_some());
            if kind == "o" {
                assert!(view("view_data_artifact", Some("a.a.a")).await.pointer("/parts/0/data").is_some());
            }
        }
    }
}

/// The views that are at work, and the most that ever were.
#[derive(Default)]
struct AtWork {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_both_tools_in_one_message_are_made_four_at_once() {
    let (at_work, four) = (Arc::new(AtWork::default()), Arc::new(Barrier::new(4)));
    let (counted, together) = (Arc::clone(&at_work), Arc::clone(&four));
    // Asked in the middle of each view of the task of another session. Fewer than four at once would wait here for ever.
    let rule = move |_: &ToolContext, _: &StreamId, _: &TaskOwner| {
        let now = counted.now.fetch_add(1, Ordering::SeqCst) + 1;
        counted.most.fetch_max(now, Ordering::SeqCst);
        together.wait();
        counted.now.fetch_sub(1, Ordering::SeqCst);
        together.wait();
        true
    };
    let system = desk(&Arc::new(MemoryStore::new()), ArtifactTools::new().reach(rule)).start().await.unwrap();
    let made = call(&system, ("t", ""), "report", json!({})).await;
    let tools = ["view_text_artifact", "view_data_artifact"];
    let args = json!({"task_id": made.task().id(), "artifact_id": first_call(&made)});
    let views: Vec<Part> = (0..40).map(|n| Part::tool_call(tools[n % 2], args.clone()).unwrap()).collect();
    let message = taskreel::Message::new("user", views, &mut Ports::default());
    let end = system.session("s").send(message).await.unwrap().finished().await.unwrap();
    assert_eq!((end.state(), end.task().artifacts().len()), (taskreel::TaskState::Completed, 40));
    assert_eq!(at_work.most.load(Ordering::SeqCst), 4);
}
