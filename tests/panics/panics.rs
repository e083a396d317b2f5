//! A panic in a host's code, at every place where it is called: what a trait says of itself is asked once, and a panic
//! there fails the start by name; what is called for an attempt fails that attempt by name. The next run works.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::time::Duration;

use crate::fuse::{ALONE, asked, burnt, is_burnt, light};
use crate::host::{WAITS, describe};
use proto_events::call::{CallStatus, FailureClass};
use proto_events::json;
use taskreel::{Error, Part, System, TaskHandle, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

/// Fails the test if the work hangs.
async fn soon<T>(place: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(30), work).await;
    done.unwrap_or_else(|_| panic!("it hangs after a panic in {place}"))
}

async fn start(store: &Arc<MemoryStore>) -> Result<System, Error> {
    describe(System::builder("-").store(store.clone())).start().await
}

fn call(tool: &str) -> Part {
    Part::tool_call(tool, json!({})).unwrap()
}

async fn end_of(place: &str, task: &TaskHandle) -> TaskSnapshot {
    soon(place, task.finished()).await.unwrap()
}

/// Returns the whole task and its calls as text.
fn told(end: &TaskSnapshot) -> String {
    format!("{} {:?}", end.to_json(), end.task().calls())
}

#[tokio::test]
async fn a_panic_of_what_is_registered_is_an_error_of_the_start_that_names_it() {
    let _alone = ALONE.lock().await;
    for (place, named) in [
        ("IntoTool::into_tool", "tool `by-hand`"),
        ("Tool::is_blocking", "tool `by-hand`"),
        ("JsonSchema::json_schema", "tool `typed`"),
        ("InferBackend::backend", "the model"),
        ("InferBackend::model", "the model"),
        ("InferBackend::parameters", "the model host/model-1"),
        ("InferBackend::check", "the model host/model-1"),
        ("Peer::name", "a peer"),
        ("Peer::description", "peer `other`"),
        ("Peer::skills", "peer `other`"),
        ("Peer::policy", "peer `other`"),
    ] {
        let store = Arc::new(MemoryStore::new());
        light(place);
        let error = soon(place, start(&store)).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Builder(_)), "{place}: {text}");
        assert!(text.contains(named) && text.contains(&format!("BOOM in {place}")), "{place}: {text}");
        assert!(is_burnt(), "{place} was asked twice");
        let system = soon(place, start(&store)).await.unwrap();
        let task = system.submit(call("plain")).await.unwrap();
        assert_eq!(end_of(place, &task).await.state(), TaskState::Completed, "{place}");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_trait_says_of_itself_is_asked_once_for_a_start_and_all_its_runs() {
    let _alone = ALONE.lock().await;
    asked();
    let system = start(&Arc::new(MemoryStore::new())).await.unwrap();
    for _ in 0..2 {
        for part in [call("by-hand"), call("plain"), Part::infer("say"), Part::infer("ask the other")] {
            let task = system.submit(part).await.unwrap();
            assert_eq!(end_of("none", &task).await.state(), TaskState::Completed);
        }
    }
    soon("none", system.shutdown()).await.unwrap();
    let asked = asked();
    for place in [
        "IntoTool::into_tool",
        "Tool::is_blocking",
        "InferBackend::backend",
        "InferBackend::model",
        "InferBackend::parameters",
        "InferBackend::check",
        "Peer::name",
        "Peer::description",
        "Peer::skills",
        "Peer::policy",
    ] {
        assert_eq!(asked.get(place), Some(&1), "{place}: {asked:?}");
    }
    assert_eq!((asked.get("Tool::call"), asked.get("Peer::send")), (Some(&2), Some(&2)), "{asked:?}");
}

#[tokio::test]
async fn a_panic_of_what_is_called_fails_its_attempt_by_name_and_the_next_run_works() {
    let _alone = ALONE.lock().await;
    let system = start(&Arc::new(MemoryStore::new())).await.unwrap();
    let failed = TaskState::Failed;
    for (place, part, named, state) in [
        ("Tool::call", call("by-hand"), "by-hand", failed),
        ("Tool::call, later", call("by-hand"), "by-hand", failed),
        ("async fn", call("typed"), "typed", failed),
        ("Deserialize of arguments", call("typed"), "typed", failed),
        ("Serialize of a state's value", call("typed"), "typed", failed),
        ("Serialize of a result", call("typed"), "typed", failed),
        ("Display of an error", call("faulty"), "faulty", failed),
        ("blocking fn", call("plain"), "plain", failed),
        ("probe", call("loses"), "the probe of loses", TaskState::InputRequired),
        ("probe, later", call("loses"), "the probe of loses", TaskState::InputRequired),
        ("InferBackend::infer", Part::infer("say"), "host/model-1", failed),
        ("InferBackend::infer, later", Part::infer("say"), "host/model-1", failed),
        ("Peer::send", Part::infer("ask the other"), "other", failed),
        ("Peer::send, later", Part::infer("ask the other"), "other", failed),
    ] {
        light(place);
        let task = system.submit(part.clone()).await.unwrap();
        let end = end_of(place, &task).await;
        let said = told(&end);
        assert!(is_burnt(), "{place} was not called: {said}");
        assert_eq!(end.state(), state, "{place}: {said}");
        assert!(said.contains(&format!("{named} panicked: BOOM in {place}")), "{place}: {said}");
        let next = system.submit(part).await.unwrap();
        let next = end_of(place, &next).await;
        let works = next.state() == TaskState::Completed || !told(&next).contains("BOOM");
        assert!(works, "after {place}: {}", told(&next));
    }
    soon("all", system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn an_approval_handler_that_panics_leaves_the_question_to_a_person() {
    let _alone = ALONE.lock().await;
    for place in ["Approver::ask", "Approver::ask, later"] {
        let system = start(&Arc::new(MemoryStore::new())).await.unwrap();
        light(place);
        let task = system.submit(call("guarded")).await.unwrap();
        let end = end_of(place, &task).await;
        assert!(is_burnt(), "{place} was not called");
        assert_eq!(end.state(), TaskState::InputRequired, "{place}: {}", told(&end));
        let asked = task.approvals().await.unwrap().remove(0).request.approval_id;
        task.approve(&asked, "ada").await.unwrap();
        assert_eq!(end_of(place, &task).await.state(), TaskState::Completed, "{place}");
        let next = system.submit(call("guarded")).await.unwrap();
        assert_eq!(end_of(place, &next).await.state(), TaskState::Completed, "{place}");
        soon(place, system.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn a_lookup_of_secrets_that_panics_fails_its_call_before_the_tool_runs() {
    let _alone = ALONE.lock().await;
    let system = start(&Arc::new(MemoryStore::new())).await.unwrap();
    for place in ["SecretProvider::secret", "SecretProvider::secret, later"] {
        light(place);
        let locked = || Part::tool_call("locked", json!({"pin": "secret:pin"})).unwrap();
        let task = system.submit(locked()).await.unwrap();
        let end = end_of(place, &task).await;
        let status = end.task().calls().iter().next().unwrap().status.clone();
        let CallStatus::Failed(failure) = status else { panic!("{place}: {status:?}") };
        assert!(failure.message.contains(&format!("panicked: BOOM in {place}")), "{failure:?}");
        assert_eq!(failure.class, FailureClass::BeforeEffect, "{place}");
        let next = system.submit(locked()).await.unwrap();
        assert_eq!(end_of(place, &next).await.state(), TaskState::Completed, "{place}");
    }
    soon("all", system.shutdown()).await.unwrap();
}

#[tokio::test]
async fn what_panics_when_it_is_interrupted_keeps_no_shutdown_waiting() {
    let _alone = ALONE.lock().await;
    for (place, part) in [
        ("Drop of a tool's future", call("hangs")),
        ("Peer::cancel", Part::infer("ask the other and wait")),
        ("Peer::cancel, later", Part::infer("ask the other and wait")),
    ] {
        let system = start(&Arc::new(MemoryStore::new())).await.unwrap();
        light(place);
        let task = system.submit(part).await.unwrap();
        soon(place, WAITS.notified()).await;
        task.cancel(None).await.unwrap();
        let next = system.submit(call("plain")).await.unwrap();
        assert_eq!(end_of(place, &next).await.state(), TaskState::Completed, "{place}");
        soon(place, burnt()).await;
        soon(place, system.shutdown()).await.unwrap();
    }
}
