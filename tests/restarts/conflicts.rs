//! Commands whose append meets another writer: each is decided again on what the log holds, whole, once, and in vain only
//! after many conflicts in a row.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{Payload, Storable as _};
use proto_events::envelope::Metadata;
use proto_events::id::{Category, ExpectedVersion, StreamId, Version};
use proto_events::json;
use proto_events::task::{Task, TaskCommand, TaskEvent};
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::{JsonSchema, Message, Part, PostedTask, System, TaskState};
use taskreel_log::api::{Append, AppendError, AppendFuture, AppendPart, AppendToken, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::fold_stream;
use taskreel_log::testing::{DelegatingStore, Overrides};

/// A store that refuses some appends as if another writer had come first.
struct Contested {
    /// The number of appends from now on that are refused.
    refused: AtomicUsize,
    /// Whether answers come through tokens.
    by_sink: bool,
    /// Whether the other writer has really extended the task's stream.
    extends: bool,
}

impl Contested {
    fn conflict(&self, log: &dyn EventStore, append: &Append) -> Option<AppendError> {
        let takes = |left: usize| left.checked_sub(1);
        self.refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, takes).ok()?;
        let part = append.parts.iter().find(|part| part.stream.category() == Some(Category::Task));
        let stream = part.unwrap_or(append.parts.first().unwrap()).stream.clone();
        if self.extends && log.stream_version(&stream).unwrap() > Version(0) {
            extend(log, &stream);
        }
        let actual = log.stream_version(&stream).unwrap();
        Some(AppendError::Conflict { stream, expected: ExpectedVersion::Exact(Version(77)), actual })
    }
}

/// Appends a note of another writer's to a task.
fn extend(log: &dyn EventStore, stream: &StreamId) {
    let folded = fold_stream::<Task>(log, stream, None).unwrap();
    let entries = [(format!("noted_at_{}", folded.version), json!(true).into())].into_iter().collect();
    let Payload { kind, schema, body } = TaskEvent::MetadataMerged(entries).encode().unwrap();
    let set_id = Ports::default().ids.random();
    let draft = RecordDraft {
        stream: stream.clone(),
        first_version: Version(folded.version.0 + 1),
        set_id,
        part: 0,
        parts: 1,
        partition: log.fence().partition,
        epoch: log.fence().epoch,
        metadata: Metadata {
            at: Ports::default().clock.now(),
            command_id: format!("other-{}", folded.version),
            ..Metadata::default()
        },
        fields: Vec::new(),
        previous: folded.last_hash,
        events: vec![EventBody { kind, schema, salt: set_id, body }],
    };
    let expected = ExpectedVersion::Exact(folded.version);
    let part = AppendPart { stream: stream.clone(), expected, record: draft.encode().unwrap() };
    let append = Append { fence: log.fence(), set_id, parts: vec![part] };
    log.append(append).now_or_never().unwrap().unwrap();
}

impl Overrides for Contested {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        match self.conflict(log, &append) {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => log.append(append),
        }
    }

    fn append_with(&self, log: &dyn EventStore, append: Append, token: AppendToken) -> Option<AppendFuture> {
        let answer = self.append(log, append);
        if !self.by_sink {
            token.withdraw();
            return Some(answer);
        }
        std::thread::spawn(move || {
            let answer = answer.now_or_never().unwrap();
            let mut answers = taskreel_log::api::AnswersBySink::default();
            answers.add(token, answer);
            answers.hand_over();
        });
        None
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn contested(by_sink: bool, extends: bool) -> (Arc<DelegatingStore<Contested>>, System) {
    let contested = Contested { refused: AtomicUsize::new(0), by_sink, extends };
    let store = Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), contested));
    let tool = |_: Nothing| async { Ok::<_, Infallible>("done") };
    let model = Scripted::from_json(r#"{"": [{"type": "final", "content": "yes"}]}"#).unwrap();
    let builder = System::builder("-").store(store.clone()).tool("quick", "Does it", tool);
    (store, builder.infer(model).start().await.unwrap())
}

fn said(text: &str) -> Message {
    Message::agent(text, &mut Ports::default())
}

#[tokio::test]
async fn each_command_is_decided_again_after_conflicts_and_written_once_and_whole() {
    for (by_sink, extends) in [(false, false), (true, false), (true, true)] {
        for conflicts in [1, 2, 7] {
            let (store, system) = contested(by_sink, extends).await;
            let others = if extends { conflicts as u64 } else { 0 };
            let again = || store.overrides().refused.store(conflicts, Ordering::SeqCst);
            // A task that is posted, by both ways, with all that it holds.
            again();
            let mut posted: PostedTask = PostedTask::new(said("posted"), &mut Ports::default());
            posted.id = "t".to_owned();
            posted.metadata.set("tenant", json!("acme").into());
            let task = system.task("t").unwrap();
            task.command(TaskCommand::Submit(Box::new(posted.clone()))).await.unwrap();
            again();
            let message = said("first");
            let end = task.command(TaskCommand::AppendMessage(message.clone())).await.unwrap();
            let snapshot = task.snapshot().await.unwrap();
            assert_eq!((end.version, snapshot.task().messages().len()), (Version(2 + others), 2));
            assert_eq!(snapshot.task().messages().last(), Some(&message));
            assert_eq!(snapshot.task().metadata().get("tenant").unwrap().as_str(), "\"acme\"");
            again();
            let entries = [("note".to_owned(), json!("kept").into())].into_iter().collect();
            task.command(TaskCommand::MergeMetadata(entries)).await.unwrap();
            again();
            let canceled = task.once("stop").cancel(Some("enough")).await.unwrap();
            again();
            assert_eq!(
                task.once("stop").cancel(Some("enough")).await.unwrap(),
                canceled,
                "the first answer again"
            );
            store.overrides().refused.store(0, Ordering::SeqCst);
            let end = task.snapshot().await.unwrap();
            assert_eq!((end.state(), end.version()), (TaskState::Canceled, canceled.version));
            // A run: each of its appends may meet another writer, the session's and the outcome's too.
            for part in [Part::tool_call("quick", json!({})).unwrap(), Part::infer("go")] {
                again();
                let run = system.session("s").send(part).await.unwrap();
                again();
                let end =
                    tokio::time::timeout(Duration::from_secs(60), run.finished()).await.unwrap().unwrap();
                assert_eq!(end.state(), TaskState::Completed);
                assert_eq!(end.task().calls().iter().map(|call| call.attempts).collect::<Vec<_>>(), [1]);
            }
            store.overrides().refused.store(0, Ordering::SeqCst);
            let verified = verify(system.log().as_ref());
            assert!(verified.findings.is_empty(), "{:?}", verified.findings);
            system.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_command_that_always_meets_another_writer_is_refused_and_leaves_nothing_behind() {
    let (store, system) = contested(true, false).await;
    let task = system.submit(Part::text("hello")).await.unwrap();
    let before = task.finished().await.unwrap().version();
    store.overrides().refused.store(usize::MAX, Ordering::SeqCst);
    let refused = task.command(TaskCommand::AppendMessage(said("lost"))).await.unwrap_err();
    assert!(refused.to_string().contains("another writer"), "{refused}");
    store.overrides().refused.store(0, Ordering::SeqCst);
    assert_eq!(task.snapshot().await.unwrap().version(), before);
    task.command(TaskCommand::AppendMessage(said("kept"))).await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().version(), Version(before.0 + 1));
    system.shutdown().await.unwrap();
}
