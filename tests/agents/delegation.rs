//! Questions to other agents: what they are sent, what the model is shown, and the results of crashes,
//! cancels and lost replies.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::peers::{Does, Noted};
use proto_events::call::{CallEvent, CallKind, CallStatus, Recovery};
use proto_events::id::{Category, Position};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{PostedTask, RunContext};
use proto_events::task::{Task, TaskEvent};
use serde::Deserialize;
use taskreel::infer::{Entry, Scripted};
use taskreel::peer::{Peer, PeerAnswer, PeerError};
use taskreel::{Builder, Error, JsonSchema, Part, System, TaskSnapshot, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::decode_record;
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Returns a model that asks the agent `other` with this action, and then answers.
fn asks(action: &Value) -> Scripted {
    let mut action = action.clone();
    action["type"] = json!("agent_call");
    action["agent"] = action.get("agent").cloned().unwrap_or_else(|| json!("other"));
    Scripted::new([Entry::json(&action), Entry::json(&json!({"type": "final", "content": "done"}))])
}

fn asks_for_an_answer() -> Scripted {
    asks(&json!({"action": "infer", "prompt": "Coat?"}))
}

fn on(store: &Arc<MemoryStore>) -> Builder {
    System::builder("-").store(Arc::<MemoryStore>::clone(store))
}

fn in_memory() -> Builder {
    on(&Arc::new(MemoryStore::new()))
}

/// Starts the agent `other` with this model.
async fn other(model: Scripted) -> System {
    in_memory().name("other").infer(model).start().await.unwrap()
}

fn answers(text: &str) -> Scripted {
    Scripted::new([Entry::json(&json!({"type": "final", "content": text}))])
}

async fn run(system: &System) -> TaskSnapshot {
    system.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap()
}

/// Returns the last messages shown to the model after its first reply: the reply itself, and the note on it.
fn told(model: &Scripted) -> (String, String) {
    let requests = model.requests();
    let said = &requests[1].messages[2..];
    assert_eq!(said.len(), 2, "{said:?}");
    (said[0].content.clone(), said[1].content.clone())
}

fn delegated(end: &TaskSnapshot) -> &proto_events::call::Call {
    end.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap()
}

/// Returns the task in the intent.
fn sent_task(end: &TaskSnapshot) -> PostedTask {
    let args = delegated(end).request.args.tree();
    PostedTask::from_json(&JsonText::from(args["task"].clone()), &mut Ports::default()).unwrap()
}

fn context(task: &Task) -> RunContext {
    RunContext::from_json(task.metadata().get("run_context").unwrap(), &mut Ports::default()).unwrap()
}

#[tokio::test]
async fn another_agents_answer_is_told_to_the_model_and_its_run_names_ours_as_its_parent() {
    let other = other(answers("Yes, 4 degrees.")).await;
    let model = asks_for_an_answer();
    let peer = other.peer().described("Knows the weather");
    let system = in_memory().infer(model.clone()).peer(peer).start().await.unwrap();
    let end = run(&system).await;
    assert_eq!(end.answer().unwrap().as_str(), "\"done\"");
    let (asked, answer) = told(&model);
    assert!(asked.contains("agent_call"), "{asked}");
    let expected =
        r#"{"type": "agent_result", "agent": "other", "action": "infer", "result": "Yes, 4 degrees."}"#;
    assert_eq!(answer, expected);
    let prompt = &model.requests()[0].messages[0].content;
    assert!(prompt.contains(r#"{"name":"other","description":"Knows the weather","skills":[]}"#), "{prompt}");

    let child = other.task(&sent_task(&end).id).unwrap().snapshot().await.unwrap();
    assert_eq!(child.state(), TaskState::Completed);
    let (ours, theirs) = (context(end.task()), context(child.task()));
    assert_eq!(theirs.parent_run_id.as_deref(), Some(ours.run_id.as_str()));
    assert_ne!(theirs.run_id, ours.run_id);
    assert_eq!(
        (theirs.session_id, theirs.agent_chain.join(" > ")),
        (Some("s".into()), "agent > other".into())
    );
    let said = other.session("s").history().await.unwrap();
    assert_eq!(said.len(), 3, "the same session, in a conversation of the other agent's own");
    for system in [system, other] {
        assert_eq!(taskreel_log::audit::verify(system.log().as_ref()).findings, []);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn another_agent_is_asked_to_call_one_of_its_tools() {
    let forecast = async |ask: City| Ok::<_, Infallible>(format!("4 degrees in {}", ask.city));
    let other = in_memory().name("other").tool("forecast", "Weather", forecast).start().await.unwrap();
    // The agent's name is left out: only one agent has that skill.
    let reply = r#"{"type":"agent_call","action":"tool_call","tool":"forecast","args":{"city":"Oslo"}}"#;
    let last = Entry::json(&json!({"type": "final", "content": "done"}));
    let model = Scripted::new([Entry::Text(reply.to_owned()), last]);
    let system = in_memory().infer(model.clone()).peer(other.peer()).start().await.unwrap();
    let end = run(&system).await;
    let result: Value = serde_json::from_str(&told(&model).1).unwrap();
    assert_eq!(result["result"]["result"], json!("4 degrees in Oslo"), "the last part's content: {result}");
    let task = sent_task(&end);
    assert_eq!(task.messages[0].role.as_deref(), Some("agent"));
    let call_id = task.messages[0].parts[0].as_tool_call().unwrap().call_id;
    assert_eq!(result["result"]["call_id"], json!(call_id.unwrap()), "a repeat sends the same call");
    other.shutdown().await.unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_model_that_asks_nobody_itself_or_in_a_circle_is_told_so() {
    let told_of = async |peer: Option<Noted>, agent: &str, chain: Value| {
        let model = asks(&json!({"agent": agent, "action": "infer", "prompt": "p"}));
        let builder = in_memory().infer(model.clone()).delegation(true);
        let builder = match peer {
            Some(peer) => builder.peer(peer),
            None => builder,
        };
        let system = builder.start().await.unwrap();
        let mut task = PostedTask::parse(
            r#"{"messages":[{"parts":[{"type":"infer","content":{"prompt":"go"}}]}]}"#,
            &mut Ports::default(),
        )
        .unwrap();
        let run = json!({"run_id": "r", "agent_chain": chain});
        task.metadata.set("run_context", JsonText::from(run));
        let end = system.submit(task).await.unwrap().finished().await.unwrap();
        assert_eq!(end.answer().unwrap().as_str(), "\"done\"", "the run goes on");
        assert_eq!(
            end.task().calls().iter().filter(|call| call.request.kind == CallKind::Delegate).count(),
            0
        );
        system.shutdown().await.unwrap();
        told(&model).1
    };
    let peer = || Some(Noted::says("x"));
    let text = told_of(None, "other", json!([])).await;
    assert_eq!(text, "Agent call failed: Agent 'other' not found in registry.");
    let text = told_of(None, "agent", json!([])).await;
    assert_eq!(text, "Agent call failed: Agent 'agent' not found in registry.");
    let text = told_of(peer(), "agent", json!([])).await;
    assert!(text.starts_with("Agent call failed: Self-delegation is not allowed. You are 'agent'"), "{text}");
    let text = told_of(peer(), "other", json!(["other"])).await;
    assert!(text.starts_with("Agent call failed: Agent 'other' waits for this run"), "{text}");
}

#[tokio::test]
async fn agents_that_a_model_could_not_tell_apart_are_refused() {
    let builder = in_memory().peer(Noted::says("x")).peer(Noted::says("y"));
    assert!(matches!(builder.start().await, Err(Error::Builder(text)) if text.contains("`other`")));
    let builder = in_memory().name("other").peer(Noted::says("x"));
    assert!(matches!(builder.start().await, Err(Error::Builder(_))));
}

#[tokio::test]
async fn the_intent_with_the_whole_task_is_on_disk_before_anything_is_sent() {
    struct Looks(Noted, Arc<MemoryStore>);
    impl Peer for Looks {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn description(&self) -> &str {
            self.0.description()
        }
        fn skills(&self) -> Vec<String> {
            self.0.skills()
        }
        fn send(
            &self,
            sent: taskreel::peer::Delegation,
        ) -> taskreel::tool::BoxFuture<'static, Result<PeerAnswer, PeerError>> {
            let mut calls = Vec::new();
            for record in self.1.read_all(Position(1), usize::MAX).unwrap() {
                if record.record.stream.category() == Some(Category::Task) {
                    let events = decode_record::<TaskEvent>(&record).unwrap();
                    calls.extend(events.into_iter().filter_map(|recorded| match recorded.event {
                        TaskEvent::Call(event) => Some(event),
                        _ => None,
                    }));
                }
            }
            let [.., CallEvent::Requested(request), CallEvent::Dispatched { call_id, .. }] = &calls[..]
            else {
                panic!("{calls:?}")
            };
            assert_eq!((&request.call_id, request.recovery), (call_id, Recovery::Manual));
            assert!(request.args.as_str().contains(&sent.task.id));
            self.0.send(sent)
        }
        fn cancel(&self, id: &str, why: &str) -> taskreel::tool::BoxFuture<'static, Result<(), PeerError>> {
            self.0.cancel(id, why)
        }
    }
    let store = Arc::new(MemoryStore::new());
    let noted = Noted::says("x");
    let peer = Looks(noted.clone(), Arc::clone(&store));
    let system = on(&store).infer(asks_for_an_answer()).peer(peer).start().await.unwrap();
    assert_eq!(run(&system).await.state(), TaskState::Completed);
    assert_eq!(noted.tasks().len(), 1, "it was asked, and found what it looked for");
    system.shutdown().await.unwrap();
}

/// A tool that signals when it runs, and ends on a signal.
#[derive(Clone, Default)]
struct Slow {
    runs: Arc<AtomicU32>,
    started: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Slow {
    /// Starts the agent `other` with this tool.
    async fn start(&self) -> System {
        let slow = self.clone();
        let tool = move |_: Nothing| {
            let slow = slow.clone();
            async move {
                slow.runs.fetch_add(1, Ordering::SeqCst);
                slow.started.notify_one();
                slow.go_on.notified().await;
                Ok::<_, Infallible>("slept")
            }
        };
        in_memory().name("other").tool("slow", "Waits", tool).start().await.unwrap()
    }
}

fn asks_for_slow() -> Scripted {
    asks(&json!({"action": "tool_call", "tool": "slow", "args": {}}))
}

#[tokio::test]
async fn a_question_that_was_in_flight_in_a_crash_is_asked_again_and_done_once() {
    let (slow, store) = (Slow::default(), Arc::new(MemoryStore::new()));
    let other = slow.start().await;
    let first = on(&store).infer(asks_for_slow()).peer(other.peer()).start().await.unwrap();
    let task = first.session("s").send(Part::infer("go")).await.unwrap();
    slow.started.notified().await;

    let store = Arc::new(store.reopened().unwrap());
    let model = answers("done");
    let second = on(&store).infer(model.clone()).peer(other.peer()).start().await.unwrap();
    let waiting = second.task(task.id()).unwrap();
    slow.go_on.notify_one();
    let end = waiting.finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"done\"");
    let call = delegated(&end);
    assert_eq!((call.attempts, call.request.recovery), (2, Recovery::Idempotent));
    assert_eq!(slow.runs.load(Ordering::SeqCst), 1, "the other agent took it for the task that it is");
    let told = model.requests()[0].messages.last().unwrap().content.clone();
    assert!(told.contains("slept"), "{told}");
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_may_not_be_sent_a_task_twice_is_not_and_a_person_is_asked() {
    let (peer, store) = (Noted::that(Does::Hangs), Arc::new(MemoryStore::new()));
    let first = on(&store).infer(asks_for_an_answer()).peer(peer.clone()).start().await.unwrap();
    let task = first.session("s").send(Part::infer("go")).await.unwrap();
    peer.was_sent.notified().await;
    let store = Arc::new(store.reopened().unwrap());
    let second = on(&store).infer(answers("never")).peer(peer.clone()).start().await.unwrap();
    let end = second.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::InputRequired);
    assert!(matches!(delegated(&end).status, CallStatus::Unknown(_)));
    assert_eq!(peer.tasks().len(), 1);
    assert!(
        peer.canceled.lock().unwrap().is_empty(),
        "a person who examines the child may find an answer there"
    );
    let said = second.session("s").history().await.unwrap();
    let last = &said.as_slice().last().unwrap().content;
    assert!(last.contains("agent_result") && last.contains("outcome unknown"), "{last}");
    second.shutdown().await.unwrap();
}
