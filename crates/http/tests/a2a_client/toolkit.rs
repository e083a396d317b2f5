//! The toolkit on a real agent: the six tools of a system, restarts in the middle of a call, and what replaces what.

use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonObject;
use proto_events::json::JsonValue as Value;
use taskreel::artifact::ArtifactTools;
use taskreel::infer::Scripted;
use taskreel::tool::Recovery;
use taskreel::{Part, System, TaskState};
use taskreel_http::a2a::{
    A2A_TOOLS, A2aAgents, A2aBuilder as _, A2aSession, A2aTools, Binding, Event, JsonTasks, OutgoingMessage,
    SessionAnswer, State, StreamItem, Task, Version,
};
use taskreel_log::artifacts::KeyCase;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

use crate::agent::{Gate, agent};
use crate::forge::{card, forge, rpc, task, whole};
use crate::ours::handler;
use crate::support::{Host, PATIENCE, actix};

async fn served(gate: &Gate) -> (System, Host, String) {
    let system = agent(gate).await;
    let host = actix(handler(&system)).await;
    let url = format!("http://{}", host.address);
    (system, host, url)
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it hangs")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_answers_at_a_real_agent() {
    let (system, host, url) = served(&Gate::shut()).await;
    let tools = A2aTools::from(A2aAgents::new().agent("ours", &url).agent("gone", "http://127.0.0.1:1"));
    let known = tools.call("get_agents", &json!({})).await;
    assert!(known["agents"]["ours"]["name"].is_string(), "{known}");
    let error = known["errors"]["gone"].as_str().unwrap();
    assert!(
        error.starts_with("Failed to load agent: A2AClientHTTPError: HTTP Error 503: ")
            && !error.contains("127.")
    );
    let one = tools.call("get_agent", &json!({"agent_id": "ours"})).await;
    assert!(one["skills"].as_array().is_some_and(|skills| !skills.is_empty()), "{one}");

    let done = tools.call("send_message", &json!({"agent_id": "ours", "message": "report"})).await;
    assert_eq!(
        (done["kind"].as_str(), done["status"]["state"].as_str()),
        (Some("task"), Some("completed")),
        "{done}"
    );
    let artifacts = done["artifacts"].as_array().unwrap();
    assert_eq!(artifacts[0]["parts"][0]["text"], "one two");
    assert_eq!(artifacts[1]["parts"][0]["data"], json!({"data": {"count": 42}}), "{done}");
    let at = |artifact: usize| json!({"agent_id": "ours", "task_id": done["id"].clone(), "artifact_id": artifacts[artifact]["artifact_id"].clone()});
    let mut part = at(0);
    part["character_end"] = json!(3);
    assert_eq!(tools.call("view_text_artifact", &part).await["parts"][0]["text"], "one");
    let mut part = at(1);
    part["json_path"] = json!("count");
    assert_eq!(tools.call("view_data_artifact", &part).await["parts"][0]["data"], 42);
    // Another session has kept nothing, and asks the agent.
    let fresh = A2aTools::from(A2aAgents::new().agent("ours", &url)).keys(KeyCase::Camel);
    let shown = fresh.call("view_data_artifact", &part).await;
    assert_eq!(
        (shown["parts"][0]["data"].clone(), shown["artifactId"].clone()),
        (json!(42), part["artifact_id"].clone())
    );
    let told = fresh.call("get_task", &json!({"agentId": "ours", "taskId": done["id"].clone()})).await;
    assert_eq!(told["contextId"], done["context_id"]);

    let asked = tools.call("send_message", &json!({"agent_id": "ours", "message": "ask"})).await;
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    let answer = json!({"agent_id": "ours", "message": "Oslo", "task_id": asked["id"].clone(), "context_id": asked["context_id"].clone()});
    let answered = tools.call("send_message", &answer).await;
    assert_eq!((answered["status"]["state"].as_str(), &answered["id"]), (Some("completed"), &asked["id"]));
    let unknown = tools.call("get_task", &json!({"agent_id": "ours", "task_id": "none"})).await;
    assert!(
        unknown["error_message"]
            .as_str()
            .unwrap()
            .starts_with("Failed to get task: JSON-RPC Error code=-32001"),
        "{unknown}"
    );
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_at_work_is_returned_when_the_time_is_up_and_followed_to_its_end_later() {
    let gate = Gate::shut();
    let (system, host, url) = served(&gate).await;
    let session = A2aSession::new(A2aAgents::new().agent("ours", &url));
    let waits = OutgoingMessage::new("wait").timeout(std::time::Duration::from_millis(200));
    let SessionAnswer::Task(told) = soon(session.send("ours", waits)).await.unwrap() else {
        panic!("a message")
    };
    assert!(!told.task.status.state.is_terminal() && told.fault.is_none());
    let (again, id) = (session.clone(), told.task.id.clone());
    let followed = tokio::spawn(async move { again.get("ours", &id, None, None).await });
    gate.open();
    let end = soon(followed).await.unwrap().unwrap();
    assert_eq!((end.task.status.state, &end.task.id), (State::Completed, &told.task.id));
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_asks_agents_with_the_six_tools_and_each_is_a_recorded_call() {
    let (system, host, url) = served(&Gate::shut()).await;
    let script = r#"{"what is the count?":[
        {"type":"tool_call","tool":"get_agents","args":{}},
        {"type":"tool_call","tool":"send_message","args":{"agent_id":"ours","message":"report"}},
        {"type":"final","content":"42"}]}"#;
    let asking = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .name("asking")
        .infer(Scripted::from_json(script).unwrap())
        .a2a_tools(A2aAgents::new().agent("ours", &url))
        .start()
        .await
        .unwrap();
    let end = soon(asking.submit(Part::infer("what is the count?")).await.unwrap().finished()).await.unwrap();
    assert_eq!(end.answer().map(|answer| answer.as_str().to_owned()).as_deref(), Some("\"42\""));
    let called: Vec<_> =
        end.task().calls().iter().map(|call| (call.request.target.clone(), call.request.recovery)).collect();
    let of = |name: &str| called.iter().find(|(target, _)| target == name).map(|(_, recovery)| *recovery);
    assert_eq!(of("get_agents"), Some(Recovery::ReadOnly));
    assert_eq!(of("send_message"), Some(Recovery::Reconcile));
    asking.shutdown().await.unwrap();
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_six_tools_take_the_place_of_the_two_views_before_and_after() {
    let agents = || A2aAgents::new().agent("a", "http://127.0.0.1:1");
    let builder = || System::builder("-").store(Arc::new(MemoryStore::new()));
    let orders = [
        builder().artifact_tools(ArtifactTools::new()).a2a_tools(agents()),
        builder().a2a_tools(agents()).artifact_tools(ArtifactTools::new()),
        builder().a2a_tools(A2aTools::from(agents()).keys(KeyCase::Camel)),
    ];
    for (order, builder) in orders.into_iter().enumerate() {
        let system = builder.start().await.unwrap();
        let card = system.card();
        let names: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
        assert_eq!(names, A2A_TOOLS.map(|tool| tool.name), "{order}");
        let schema = card.skills[4].input_schema.to_string();
        assert!(schema.contains(if order == 2 { "agentId" } else { "agent_id" }), "{schema}");
        system.shutdown().await.unwrap();
    }
    // Without A2A the views have no such parameter.
    let system = builder().artifact_tools(ArtifactTools::new()).start().await.unwrap();
    assert!(!format!("{:?}", system.card()).contains("agent_id"));
    system.shutdown().await.unwrap();
}

/// Returns a system that sends messages with the tool, and the number of its sends so far.
async fn sender(store: Arc<MemoryStore>, session: A2aSession) -> System {
    System::builder("-").store(store).a2a_tools(session).start().await.unwrap()
}

/// Returns the number of tasks that a system has.
async fn listed(system: &System) -> usize {
    system.tasks().page(10).await.unwrap().tasks.len()
}

fn sends(message: &str) -> Part {
    Part::tool_call("send_message", json!({"agent_id": "ours", "message": message})).unwrap()
}

fn result(end: &taskreel::TaskSnapshot) -> Value {
    end.answer().map(|answer| answer.tree()["result"].clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_a_message_of_ours_is_not_carried_out_twice() {
    let gate = Gate::shut();
    let (system, host, url) = served(&gate).await;
    let session = || A2aSession::new(A2aAgents::new().agent("ours", &url));
    let store = Arc::new(MemoryStore::new());
    let first = sender(Arc::clone(&store), session()).await;
    let task = first.submit(sends("wait")).await.unwrap();
    soon(async {
        while listed(&system).await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let again = Arc::new(store.reopened().unwrap());
    let second = sender(again, session()).await;
    gate.open();
    let end = soon(second.task(task.id()).unwrap().finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", result(&end));
    assert_eq!(result(&end)["status"]["state"], "completed", "{}", result(&end));
    assert_eq!(listed(&system).await, 1, "sent once");
    for sender in [first, second] {
        sender.shutdown().await.unwrap();
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_the_task_that_was_kept_is_taken_up_at_any_agent() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    let (sent, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let url = Arc::new(std::sync::OnceLock::<String>::new());
    let server = (Arc::clone(&sent), Arc::clone(&is_over), Arc::clone(&url));
    let at = forge(move |asked| {
        let (sent, is_over, url) = &server;
        if asked.is("agent-card.json") {
            let streaming = card(url.get().unwrap(), &serde_json::json!([]))
                .replace("\"streaming\":true", "\"streaming\":false");
            return whole(200, &streaming);
        }
        let state = if is_over.load(Ordering::SeqCst) { "COMPLETED" } else { "WORKING" };
        if asked.is("SendMessage") {
            sent.fetch_add(1, Ordering::SeqCst);
            return rpc(asked, "result", &serde_json::json!({"task": task(state)}));
        }
        rpc(asked, "result", &task(state))
    })
    .await;
    url.set(at.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let session = || {
        let tasks = Arc::new(JsonTasks::new(folder.path()).unwrap());
        A2aSession::new(A2aAgents::new().agent("ours", &at)).task_store(tasks)
    };
    let store = Arc::new(MemoryStore::new());
    let first = sender(Arc::clone(&store), session()).await;
    let task = first.submit(sends("hi")).await.unwrap();
    soon(async {
        while std::fs::read_dir(folder.path().join("sent"))
            .unwrap()
            .filter_map(Result::ok)
            .all(|file| !file.file_name().to_string_lossy().ends_with(".json"))
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let [again, once_more] = [(); 2].map(|()| Arc::new(store.reopened().unwrap()));
    is_over.store(true, Ordering::SeqCst);
    let second = sender(again, session()).await;
    let end = soon(second.task(task.id()).unwrap().finished()).await.unwrap();
    assert_eq!(
        (end.state(), result(&end)["status"]["state"].as_str()),
        (TaskState::Completed, Some("completed"))
    );
    assert_eq!(sent.load(Ordering::SeqCst), 1, "sent once");
    // Without what was kept nobody can say, and nothing is sent again.
    let third = sender(once_more, A2aSession::new(A2aAgents::new().agent("ours", &at))).await;
    let waits = soon(third.task(task.id()).unwrap().finished()).await.unwrap();
    assert_eq!((waits.state(), sent.load(Ordering::SeqCst)), (TaskState::InputRequired, 1));
    for sender in [first, second, third] {
        sender.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_call_has_the_agent_cancel_its_task_at_once_and_after_a_restart() {
    for restarts in [false, true] {
        let gate = Gate::shut();
        let (system, host, url) = served(&gate).await;
        let session = || A2aSession::new(A2aAgents::new().agent("ours", &url));
        let store = Arc::new(MemoryStore::new());
        let mut sender_of = sender(Arc::clone(&store), session()).await;
        let task = sender_of.submit(sends("wait")).await.unwrap();
        soon(async {
            while listed(&system).await == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        if restarts {
            // What was kept in memory is gone: the agent is asked for the task.
            let again = Arc::new(store.reopened().unwrap());
            drop(sender_of);
            sender_of = sender(again, session()).await;
        }
        sender_of.cancel(task.id(), Some("enough")).await.unwrap();
        soon(async {
            let state = async || system.tasks().page(9).await.unwrap().tasks[0].state;
            while state().await != TaskState::Canceled {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let end = soon(sender_of.task(task.id()).unwrap().finished()).await.unwrap();
        assert_eq!((end.state(), listed(&system).await), (TaskState::Canceled, 1));
        // What is over is not canceled: nothing is asked of the agent.
        let over = sender_of.submit(sends("hello")).await.unwrap();
        assert_eq!(soon(over.finished()).await.unwrap().state(), TaskState::Completed);
        sender_of.cancel(over.id(), None).await.unwrap_err();
        let verified = verify(sender_of.log().as_ref());
        assert!(verified.is_sound(), "{verified:?}");
        sender_of.shutdown().await.unwrap();
        host.stop().await;
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_answer_is_late_is_canceled_once_the_agent_has_answered() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (sent, canceled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let url = Arc::new(std::sync::OnceLock::<String>::new());
    let server = (Arc::clone(&sent), Arc::clone(&canceled), Arc::clone(&url));
    let at = forge(move |asked| {
        let (sent, canceled, url) = &server;
        if asked.is("agent-card.json") {
            return whole(200, &card(url.get().unwrap(), &serde_json::json!([])));
        }
        if asked.is("SendMessage") {
            sent.fetch_add(1, Ordering::SeqCst);
            // Longer than the grace of a canceled call.
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            return rpc(asked, "result", &serde_json::json!({"task": task("WORKING")}));
        }
        if asked.is("CancelTask") {
            canceled.fetch_add(1, Ordering::SeqCst);
            return rpc(asked, "result", &task("CANCELED"));
        }
        rpc(asked, "error", &serde_json::json!({"code": -32001, "message": "none"}))
    })
    .await;
    url.set(at.clone()).unwrap();
    let session = A2aSession::new(A2aAgents::new().agent("ours", &at));
    let own = sender(Arc::new(MemoryStore::new()), session).await;
    let begun = own.submit(sends("hi")).await.unwrap();
    let counted = async |count: &AtomicUsize| {
        while count.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(counted(&sent)).await;
    own.cancel(begun.id(), None).await.unwrap();
    soon(counted(&canceled)).await;
    own.shutdown().await.unwrap();
    assert_eq!((sent.load(Ordering::SeqCst), canceled.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_0_3_that_was_over_before_it_is_followed_comes_as_the_only_event() {
    let (system, host, url) = served(&Gate::shut()).await;
    let client = crate::ours::client(&url, (Version::V03, Binding::JsonRpc)).await;
    let done = crate::ours::task_of(client.send(&crate::forge::say("hello")).await.unwrap());
    let mut events = client.subscribe(&done.id).await.unwrap();
    let first = soon(events.next()).await.unwrap().unwrap();
    let StreamItem::Event(Event::Task(told)) = first else { panic!("{first:?}") };
    // What the task has used stands in the answer of a request alone.
    let bare = |mut task: Task| {
        task.metadata = JsonObject::new();
        task
    };
    assert_eq!(bare(*told), bare(done));
    assert!(soon(events.next()).await.is_none());
    host.stop().await;
    system.shutdown().await.unwrap();
}
