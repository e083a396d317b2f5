//! A real server of A2A's SDK for Python as the peer, in both versions over both bindings. `TASKREEL_A2A_SDK` names a
//! Python with 1.3 and uvicorn (`tests/interop/venv`). Where `CI=true`, one that is missing is a failure.
#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use taskreel_http::a2a::{
    A2aError, Binding, Client, ErrorKind, Event, Interface, ListQuery, Message, Part, SendRequest, State,
    StreamItem, Version,
};
use taskreel_log::memory::MemoryStore;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::cuts::{Cut, relay};
use crate::forge::{options, say};
use crate::ours::{WAYS, client, task_of};
use crate::remote::{calls, near, stop, until};
use crate::restarts::Process;

/// Starts the server, and returns it with its address.
/// Returns the Python with the SDK; where there is none, the tests say that they tried nothing, and fail in CI.
fn python() -> Option<std::ffi::OsString> {
    let python = std::env::var_os("TASKREEL_A2A_SDK");
    if python.is_none() {
        let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!is_ci, "TASKREEL_A2A_SDK is not set");
        eprintln!("not tried with the SDK: TASKREEL_A2A_SDK is not set");
    }
    python
}

async fn server(python: &std::ffi::OsString) -> (tokio::process::Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/a2a/server.py");
    let mut command = tokio::process::Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().expect("the server prints its address");
    (child, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_sdk_answers_each_operation() {
    let Some(python) = python() else { return };
    let (_child, url) = server(&python).await;
    for way in WAYS {
        let client = client(&url, way).await;
        let done = task_of(client.send(&say("hello")).await.unwrap());
        assert_eq!(done.status.state, State::Completed, "{way:?}");
        assert_eq!(client.get(&done.id, None).await.unwrap().status, done.status);

        let asked = task_of(client.send(&say("ask")).await.unwrap());
        assert_eq!(asked.status.state, State::InputRequired, "{way:?}");
        let answer = Message::user("m2", vec![Part::text("Oslo")]).for_task(&asked.id);
        let answer = SendRequest::new(answer.in_context(&asked.context_id));
        assert_eq!(task_of(client.send(&answer).await.unwrap()).status.state, State::Completed);

        let mut stream = client.stream(&say("report")).await.unwrap();
        let (mut states, mut pieces) = (Vec::new(), 0);
        while let Some(item) = stream.next().await {
            match item.unwrap() {
                StreamItem::Event(Event::Artifact(_)) => pieces += 1,
                StreamItem::Event(event) => states.extend(event.state()),
                gap => panic!("{way:?}: {gap:?}"),
            }
        }
        assert_eq!(pieces, 2, "{way:?}");
        assert_eq!(states, [State::Submitted, State::Working, State::Completed], "{way:?}");

        let waiting = task_of(client.send(&say("wait").returning_immediately()).await.unwrap());
        let mut followed = client.subscribe(&waiting.id).await.unwrap();
        assert_eq!(client.cancel(&waiting.id).await.unwrap().status.state, State::Canceled, "{way:?}");
        let mut last = None;
        while let Some(item) = followed.next().await {
            if let StreamItem::Event(event) = item.unwrap() {
                last = event.state().or(last);
            }
        }
        assert_eq!(last, Some(State::Canceled), "{way:?}");

        let over = client.cancel(&done.id).await.unwrap_err();
        assert_eq!(over.kind(), Some(ErrorKind::TaskNotCancelable), "{way:?}: {over}");
        let unknown = client.get("unknown", None).await.unwrap_err();
        assert_eq!(unknown.kind(), Some(ErrorKind::TaskNotFound), "{way:?}: {unknown}");
        let listed = client.list(&ListQuery::new().page_size(2)).await;
        match way {
            (Version::V1, _) => assert_eq!(listed.unwrap().tasks.len(), 2),
            (_, Binding::JsonRpc) => assert!(matches!(listed, Err(A2aError::Request(_)))),
            _ => {
                listed.unwrap_err();
            }
        }
    }
}

/// Returns what each item says, and the error at the end if there is one.
async fn told(client: &Client) -> (Vec<String>, Option<A2aError>) {
    let mut words = Vec::new();
    let mut stream = match client.stream(&say("slow")).await {
        Ok(stream) => stream,
        Err(error) => return (words, Some(error)),
    };
    while let Some(item) = stream.next().await {
        words.push(match item {
            Err(error) => return (words, Some(error)),
            Ok(StreamItem::Gap(gap)) => format!("gap {:?}", gap.task.status.state),
            Ok(StreamItem::Event(event)) => {
                event.state().map_or("piece".to_owned(), |state| format!("{state:?}"))
            }
            Ok(other) => panic!("{other:?}"),
        });
    }
    (words, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_the_real_sdk_that_is_cut_anywhere_has_a_visible_gap_and_comes_to_its_end() {
    let Some(python) = python() else { return };
    let (_child, url) = server(&python).await;
    let cut = Cut::never();
    let through = relay(url.strip_prefix("http://").unwrap().parse().unwrap(), cut.clone()).await;
    for (version, binding) in WAYS {
        let path = if binding == Binding::JsonRpc { "/rpc" } else { "" };
        let client =
            Client::at(Interface::new(&format!("{through}{path}"), binding, version), &options()).unwrap();
        let mut gaps = 0;
        for at in (0..2_000).step_by(199) {
            cut.is_done.store(false, Ordering::SeqCst);
            cut.after.store(at, Ordering::SeqCst);
            let (words, error) = told(&client).await;
            let at = format!("{version:?} {binding:?} after {at} bytes: {words:?} {error:?}");
            let Some(last) = words.last() else {
                assert!(matches!(error, Some(A2aError::Transport(_))), "{at}");
                continue;
            };
            assert!(error.is_none() && last.ends_with("Completed"), "{at}");
            let has_gap = words.iter().any(|word| word.starts_with("gap"));
            assert!(has_gap || !cut.is_done.load(Ordering::SeqCst), "{at}");
            gaps += usize::from(has_gap);
        }
        assert!(gaps > 2, "{version:?} {binding:?}: only {gaps} streams were cut in the middle");
    }
}

/// Returns the ids of the server's tasks.
async fn listed(url: &str) -> Vec<String> {
    let client = client(url, WAYS[0]).await;
    let page = client.list(&ListQuery::new()).await.unwrap();
    page.tasks.into_iter().map(|task| task.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_sdk_is_asked_by_a_system_that_waits_for_it_cancels_it_and_is_killed_meanwhile() {
    let Some(python) = python() else { return };
    let (_child, url) = server(&python).await;
    let store = Arc::new(MemoryStore::new());
    let system = near(&store, &url, "ask").start().await.unwrap();
    let task = system.submit(taskreel::Part::infer("q")).await.unwrap();
    let waits = task.finished().await.unwrap();
    let question = waits.task().open_questions().next().unwrap().question_id();
    task.answer(&question, "Oslo", "ada").await.unwrap();
    let ended = task.finished().await.unwrap();
    assert_eq!(ended.state(), taskreel::TaskState::Completed, "{ended:?}");
    let call = ended.task().calls().iter().find(|call| call.request.target == "far").unwrap().clone();
    assert!(format!("{:?}", call.status).contains("heard Oslo"), "{call:?}");
    assert_eq!(listed(&url).await, [call.handle.unwrap()]);
    stop([system]).await;

    let system = near(&Arc::new(MemoryStore::new()), &url, "wait").start().await.unwrap();
    let task = system.submit(taskreel::Part::infer("q")).await.unwrap();
    until("the task is taken", async || calls(&system, &task).len() == 2).await;
    task.cancel(Some("enough")).await.unwrap();
    let direct = client(&url, WAYS[0]).await;
    let canceled = ListQuery::new().state(State::Canceled);
    until("it is canceled", async || direct.list(&canceled).await.unwrap().tasks.len() == 1).await;
    stop([system]).await;

    let base = tempfile::tempdir().unwrap();
    let mut first = Process::start(base.path(), &url, "think");
    first.says("taken").await;
    first.kill().await;
    let mut second = Process::start(base.path(), &url, "think");
    assert_eq!(second.says("end ").await, "completed after 2: succeeded");
    assert_eq!(listed(&url).await.len(), 3, "the process that was started again has sent nothing");
}
