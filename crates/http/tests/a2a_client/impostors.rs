//! Agents elsewhere that answer wrongly: the call has its outcome, nothing is sent twice, and the log is sound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto_events::call::{CallStatus, FailureClass};
use serde_json::{Value, json};
use taskreel::{Part, System, TaskState};
use taskreel_http::a2a::{Options, Remote};
use taskreel_log::memory::MemoryStore;

use crate::forge::{Answer, Asked, events, forge, rpc, task, whole};
use crate::remote::{asks, stop};
use crate::support::PATIENCE;

/// Starts an agent that answers so behind its card, and returns its address, and the number of messages and of cancels that it
/// was sent.
async fn impostor(
    streams: bool,
    answer: impl Fn(&Asked) -> Answer + Clone + Send + Sync + 'static,
) -> (String, Arc<[AtomicUsize; 2]>) {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let seen = Arc::clone(&counts);
    let url = forge(move |asked| {
        if asked.is("agent-card.json") {
            let host = asked.header("host").unwrap();
            return whole(200, &json!({
                "name": "forged", "description": "d", "version": "1",
                "supportedInterfaces": [{"url": format!("http://{host}"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
                "capabilities": {"streaming": streams},
            }).to_string());
        }
        let is_sending = asked.is("SendMessage") || asked.is("SendStreamingMessage");
        seen[0].fetch_add(usize::from(is_sending), Ordering::SeqCst);
        seen[1].fetch_add(usize::from(asked.is("CancelTask")), Ordering::SeqCst);
        answer(asked)
    })
    .await;
    (url, counts)
}

/// Asks the agent, and returns the state of the task that asked, the status of the call, and the numbers of messages and cancels.
async fn asked(
    streams: bool,
    answer: impl Fn(&Asked) -> Answer + Clone + Send + Sync + 'static,
) -> (TaskState, CallStatus, [usize; 2]) {
    asked_for(PATIENCE, streams, answer).await
}

/// Asks the agent as [`asked`] does, with this time for each attempt.
async fn asked_for(
    time: Duration,
    streams: bool,
    answer: impl Fn(&Asked) -> Answer + Clone + Send + Sync + 'static,
) -> (TaskState, CallStatus, [usize; 2]) {
    let (url, counts) = impostor(streams, answer).await;
    let options = Options::new().timeout(PATIENCE).attempts(2);
    let remote = Remote::at(&url).named("far").options(options).timeout(time);
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let near = builder.infer(asks("q")).peer(remote).start().await.unwrap();
    let task = near.submit(Part::infer("q")).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, task.finished()).await.expect("it comes to rest").unwrap();
    let call = ended.task().calls().iter().find(|call| call.request.target == "far").unwrap().clone();
    stop([near]).await;
    (ended.state(), call.status, [0, 1].map(|at| counts[at].load(Ordering::SeqCst)))
}

fn done(id: &str, context: &str, parts: &Value) -> Value {
    json!({"id": id, "contextId": context, "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": "a", "parts": parts}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_another_context_is_answered_and_one_that_changes_its_name_is_not() {
    let text = json!([{"text": "fine"}]);
    let answer = move |asked: &Asked| match asked {
        asked if asked.is("SendMessage") => rpc(asked, "result", &json!({"task": done("t", "other", &text)})),
        asked => rpc(asked, "result", &done("t", "other", &text)),
    };
    let (state, call, counts) = asked(false, answer).await;
    let CallStatus::Succeeded(answer) = call else { panic!("{call:?}") };
    assert!(answer.as_str().contains("fine"));
    assert_eq!((state, counts), (TaskState::Completed, [1, 0]));

    let answer = |asked: &Asked| match asked {
        asked if asked.is("SendMessage") => rpc(asked, "result", &json!({"task": task("WORKING")})),
        asked => rpc(asked, "result", &done("another", "c", &json!([{"text": "x"}]))),
    };
    let (state, call, counts) = asked(false, answer).await;
    assert!(
        matches!(&call, CallStatus::Failed(failure) if failure.message.contains("another task")),
        "{call:?}"
    );
    assert_eq!((state, counts), (TaskState::Failed, [1, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_leaves_the_outcome_unknown_and_is_not_asked_for_twice() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let odd = [
        r#"{"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WEIRD"}}}"#.to_owned(),
        r#"{"task": {"id": 5}}"#.to_owned(),
        r#"{"task": {}, "message": {}}"#.to_owned(),
        format!(
            r#"{{"task": {{"id": "t", "contextId": "c", "status": {{"state": "TASK_STATE_COMPLETED"}},
            "artifacts": [{{"artifactId": "a", "parts": [{{"data": {deep}}}]}}]}}}}"#
        ),
        format!(
            r#"{{"task": {{"id": "{}", "contextId": "c", "status": {{"state": "TASK_STATE_WORKING"}}}}}}"#,
            "t".repeat(2_000)
        ),
    ];
    for result in odd {
        let shown: String = result.chars().take(60).collect();
        let answer = move |asked: &Asked| {
            if asked.is("ListTasks") {
                return rpc(asked, "error", &json!({"code": -32601, "message": "no such method"}));
            }
            let id = &asked.body["id"];
            whole(200, &format!(r#"{{"jsonrpc": "2.0", "id": {id}, "result": {result}}}"#))
        };
        let (state, call, counts) = asked(false, answer).await;
        assert!(matches!(call, CallStatus::Unknown(_)), "{shown}: {call:?}");
        assert_eq!((state, counts), (TaskState::InputRequired, [1, 0]), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_twenty_megabytes_is_no_answer_that_a_log_keeps() {
    let answer = |asked: &Asked| {
        let parts = json!([{"text": "x".repeat(20_000_000)}]);
        let done = done("t", "c", &parts);
        let result = if asked.is("SendMessage") { json!({"task": task("WORKING")}) } else { done };
        rpc(asked, "result", &result)
    };
    let (state, call, counts) = asked(false, answer).await;
    assert!(matches!(&call, CallStatus::Failed(failure) if failure.error_type == "TooLarge"), "{call:?}");
    assert_eq!((state, counts[0]), (TaskState::Failed, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_an_end_ends_with_the_time_of_the_call_and_the_task_is_canceled() {
    let answer = |asked: &Asked| {
        if asked.is("Get") || asked.is("Cancel") {
            return rpc(asked, "result", &task(if asked.is("GetTask") { "WORKING" } else { "CANCELED" }));
        }
        let first = events(asked, &[json!({"task": task("WORKING")})], false);
        let status = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}});
        let data = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": status});
        let frame = format!("data: {data}\n\n");
        Answer(first.0, format!("{:x}\r\n{frame}\r\n", frame.len()).into_bytes())
    };
    let (state, call, counts) = asked_for(Duration::from_millis(300), true, answer).await;
    assert!(
        matches!(&call, CallStatus::Failed(failure) if failure.class == FailureClass::Exhausted),
        "{call:?}"
    );
    assert_eq!((state, counts), (TaskState::Failed, [1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_alone_is_an_answer_and_an_empty_stream_is_none() {
    let said = |asked: &Asked| {
        let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]});
        events(asked, &[json!({"message": message})], true)
    };
    let (state, call, counts) = asked(true, said).await;
    assert!(matches!(&call, CallStatus::Succeeded(answer) if answer.as_str().contains("hello")), "{call:?}");
    assert_eq!((state, counts), (TaskState::Completed, [1, 0]));
    let empty = |asked: &Asked| {
        if asked.is("ListTasks") {
            return rpc(
                asked,
                "result",
                &json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}),
            );
        }
        events(asked, &[], true)
    };
    let (state, call, counts) = asked(true, empty).await;
    assert!(matches!(call, CallStatus::Unknown(_)), "{call:?}");
    assert_eq!((state, counts), (TaskState::InputRequired, [1, 0]));
}
