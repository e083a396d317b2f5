//! Messages of a user to a running task are shown to the model before its next inference, once, or refused by name.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;

use proto_events::json;
use proto_events::task::TaskRejection;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, Error, JsonSchema, Message, Part, System, TaskCommand, TaskHandle, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::{Mutex, Notify, mpsc};

/// A model that shows each request to the test, and answers what the test says.
#[derive(Clone)]
struct Asked {
    requests: mpsc::UnboundedSender<InferRequest>,
    replies: Arc<Mutex<mpsc::UnboundedReceiver<String>>>,
}

/// The test's side of the model.
struct Person {
    requests: mpsc::UnboundedReceiver<InferRequest>,
    replies: mpsc::UnboundedSender<String>,
}

fn model() -> (Asked, Person) {
    let (asks, requests) = mpsc::unbounded_channel();
    let (replies, answers) = mpsc::unbounded_channel();
    (Asked { requests: asks, replies: Arc::new(Mutex::new(answers)) }, Person { requests, replies })
}

impl InferBackend for Asked {
    fn backend(&self) -> &'static str {
        "asked"
    }

    fn model(&self) -> &'static str {
        "person"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let model = self.clone();
        Box::pin(async move {
            model.requests.send(request).unwrap();
            let content = model.replies.lock().await.recv().await.unwrap();
            Ok(InferReply { content, ..InferReply::default() })
        })
    }
}

impl Person {
    /// Returns what the model is shown next, without the system message.
    async fn shown(&mut self) -> Vec<String> {
        let request = self.requests.recv().await.unwrap();
        request.messages.iter().skip(1).map(|message| message.content.clone()).collect()
    }

    fn answers(&self, content: &str) {
        self.replies.send(json!({"type": "final", "content": content}).to_string()).unwrap();
    }

    fn calls(&self, tool: &str) {
        self.replies.send(json!({"type": "tool_call", "tool": tool, "args": {}}).to_string()).unwrap();
    }
}

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

fn builder(store: Arc<dyn EventStore>, model: Asked, stateless: bool) -> Builder {
    let builder = System::builder("-").store(store).infer(model);
    let builder = builder.tool_with(
        "look",
        "Looks",
        |_: Nothing| async { Ok::<_, Infallible>("seen") },
        ToolPolicy::read_only(),
    );
    if stateless { builder.stateless() } else { builder }
}

async fn say(task: &TaskHandle, text: &str) -> Result<(), Error> {
    let message = Message::user(text, &mut Ports::default());
    task.command(TaskCommand::AppendMessage(message)).await.map(drop)
}

fn assert_sound(store: &dyn EventStore) {
    let verified = verify(&*store.reopen().unwrap());
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}

#[tokio::test]
async fn a_message_that_arrives_meanwhile_is_shown_before_the_next_inference_and_once() {
    for stateless in [false, true] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let (model, mut person) = model();
        let system = builder(store.clone(), model, stateless).start().await.unwrap();
        let task = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        assert_eq!(person.shown().await, ["Coat?"]);
        say(&task, "In Oslo.").await.unwrap();
        say(&task, "Tomorrow.").await.unwrap();
        person.calls("look");
        let shown = person.shown().await;
        assert_eq!(shown.len(), 5, "{shown:?}");
        assert!(shown[2].contains("seen"), "the call has its answer first: {shown:?}");
        assert_eq!(shown[3..], ["In Oslo.", "Tomorrow."]);
        person.calls("look");
        let again = person.shown().await;
        assert_eq!(again[..5], shown);
        assert_eq!(again.iter().filter(|text| *text == "In Oslo.").count(), 1);
        person.answers("yes");
        let end = task.finished().await.unwrap();
        assert_eq!((end.state(), end.answer().unwrap().as_str()), (TaskState::Completed, "\"yes\""));
        if !stateless {
            let history = system.session("s").history().await.unwrap();
            assert_eq!(history.messages().iter().filter(|message| message.content == "Tomorrow.").count(), 1);
        }
        system.shutdown().await.unwrap();
        assert_sound(&*store);
    }
}

#[tokio::test]
async fn an_answer_that_was_made_without_the_message_is_followed_by_one_that_knows_it() {
    for stateless in [false, true] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let (model, mut person) = model();
        let system = builder(store.clone(), model, stateless).start().await.unwrap();
        let task = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        person.shown().await;
        say(&task, "In Rome, I mean.").await.unwrap();
        person.answers("yes");
        let shown = person.shown().await;
        assert!(shown[1].contains("yes") && shown[2] == "In Rome, I mean.", "{shown:?}");
        person.answers("no");
        let end = task.finished().await.unwrap();
        assert_eq!((end.state(), end.answer().unwrap().as_str()), (TaskState::Completed, "\"no\""));
        assert_eq!(end.task().artifacts().len(), 1, "a part has one output");
        system.shutdown().await.unwrap();
        assert_sound(&*store);
    }
}

#[tokio::test]
async fn a_message_that_waits_when_the_program_ends_is_shown_by_the_next_one_once() {
    for stateless in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let (model_of_first, mut person) = model();
        let first = builder(store.clone(), model_of_first, stateless).start().await.unwrap();
        let task = first.session("s").send(Part::infer("Coat?")).await.unwrap();
        person.shown().await;
        say(&task, "In Oslo.").await.unwrap();
        // The program ends here, with the inference in flight.
        let store = Arc::new(store.reopened().unwrap());
        let (model_of_second, mut person) = model();
        let second = builder(store.clone(), model_of_second, stateless).start().await.unwrap();
        assert_eq!(person.shown().await, ["Coat?"], "the inference is sent again as it was intended");
        person.answers("where?");
        assert_eq!(person.shown().await.last().unwrap(), "In Oslo.");
        // The next program ends after the message was shown.
        let store = Arc::new(store.reopened().unwrap());
        let (model_of_third, mut person) = model();
        let third = builder(store.clone(), model_of_third, stateless).start().await.unwrap();
        let shown = person.shown().await;
        assert_eq!(shown.iter().filter(|text| *text == "In Oslo.").count(), 1, "{shown:?}");
        person.answers("yes");
        let end = third.task(task.id()).unwrap().finished().await.unwrap();
        assert_eq!(end.answer().unwrap().as_str(), "\"yes\"");
        third.shutdown().await.unwrap();
        drop((first, second));
        assert_sound(&*store);
    }
}

#[tokio::test]
async fn a_message_that_no_inference_could_show_is_refused_by_name_and_one_of_another_role_is_kept() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let (model, mut person) = model();
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, opens) = (Arc::clone(&started), Arc::clone(&gate));
    let waits = move |_: Nothing| {
        let (begins, opens) = (Arc::clone(&begins), Arc::clone(&opens));
        async move {
            begins.notify_one();
            opens.notified().await;
            Ok::<_, Infallible>("done")
        }
    };
    let system = builder(store.clone(), model, false).tool("wait", "Waits", waits).start().await.unwrap();
    let task = system.submit(Part::tool_call("wait", json!({})).unwrap()).await.unwrap();
    started.notified().await;
    let refused = say(&task, "hello?").await.unwrap_err();
    assert!(
        matches!(&refused, Error::Task(TaskRejection::NoInferenceFollows(id)) if id == task.id()),
        "{refused:?}"
    );
    let note = Message::agent("a note of the host", &mut Ports::default());
    task.command(TaskCommand::AppendMessage(note)).await.unwrap();
    gate.notify_one();
    let end = task.finished().await.unwrap();
    assert_eq!((end.state(), end.task().messages().len()), (TaskState::Completed, 2));
    say(&task, "thanks").await.unwrap();

    let task = system.session("s").send(Part::infer("Coat?")).await.unwrap();
    person.shown().await;
    let call = Message::tool_call("look", json!({}), &mut Ports::default()).unwrap();
    let refused = task.command(TaskCommand::AppendMessage(call)).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Task(TaskRejection::NotCarriedOut { kind }) if kind == "tool_call"),
        "{refused:?}"
    );
    person.answers("yes");
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    system.shutdown().await.unwrap();
    assert_sound(&*store);
}

/// No inference may follow, so the message is kept and the answer is the answer.
#[tokio::test]
async fn a_message_that_arrives_during_the_last_inference_that_is_allowed_does_not_cost_the_task_its_answer()
{
    for stateless in [false, true] {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let (model, mut person) = model();
        let system = builder(store.clone(), model, stateless).infer_steps(1).start().await.unwrap();
        let task = system.session("s").send(Part::infer("Coat?")).await.unwrap();
        assert_eq!(person.shown().await, ["Coat?"]);
        say(&task, "In Oslo.").await.unwrap();
        person.answers("Yes.");
        let end = task.finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        assert!(
            end.task().messages().iter().any(|message| message.parts[0].content().as_str().contains("Oslo"))
        );
        system.shutdown().await.unwrap();
        assert_sound(&*store);
    }
}
