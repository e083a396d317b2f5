//! A question of an agent elsewhere, which a tool that asked it passes on to a person: an answer to either call is one to
//! both, and the tool's call goes on, also where the answer is given while no program has the log open.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::call_support::{Nothing, call, soon};
use proto_events::call::Answer;
use proto_events::json::JsonText;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Error, Operator, System, Task, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

/// A peer that asks these questions one after another, and then answers with what it was told.
#[derive(Clone)]
struct Far(&'static [&'static str]);

impl Peer for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn description(&self) -> &'static str {
        "Asks back"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let told = delegation.questions.iter().filter_map(|asked| given(asked.answer.as_ref()));
        let told = told.collect::<Vec<_>>().join(", ");
        let answer = if let Some(question) = self.0.get(delegation.questions.len()) {
            Err(PeerError::new(PeerErrorKind::Asks, *question))
        } else {
            let result = JsonText::string(&format!("heard {told}"));
            Ok(PeerAnswer::new(TaskState::Completed, Some(&result), [], None))
        };
        Box::pin(std::future::ready(answer))
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn given(answer: Option<&Answer>) -> Option<String> {
    match answer {
        Some(Answer::Given(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Returns an agent with a manual tool that asks the peer, and counts how often it runs.
fn agent(store: &Arc<MemoryStore>, far: &Far, runs: &Arc<AtomicU32>) -> Builder {
    let runs = Arc::clone(runs);
    let trip = move |cx: ToolContext, _: Nothing| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            let answer = cx.delegate("far", "plan").await?;
            Ok::<_, ToolError>(answer.result)
        }
    };
    let builder = System::builder("-").store(Arc::<MemoryStore>::clone(store));
    builder.tool_with("trip", "Plans", trip, ToolPolicy::manual()).peer(far.clone())
}

/// Returns the name of the open question of the call with this target.
fn question_of(task: &Task, target: &str) -> String {
    task.open_questions().find(|call| call.request.target == target).unwrap().question_id()
}

/// Returns each call's target and the number of its attempts.
fn attempts(task: &Task) -> Vec<(String, u32)> {
    task.calls().iter().map(|call| (call.request.target.clone(), call.attempts)).collect()
}

fn outputs(task: &Task) -> String {
    format!("{:?}", task.artifacts().iter().collect::<Vec<_>>())
}

#[tokio::test]
async fn an_answer_in_a_closed_log_to_either_call_sends_the_call_again_that_passed_the_question_on() {
    for target in ["trip", "far"] {
        let (far, runs) = (Far(&["Which city?"]), Arc::new(AtomicU32::new(0)));
        let store = Arc::new(MemoryStore::new());
        let first = agent(&store, &far, &runs).start().await.unwrap();
        let task = first.submit(call("trip")).await.unwrap();
        let waits = soon(task.finished()).await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired);
        assert_eq!(waits.task().open_questions().count(), 2, "{target}");
        let named = question_of(waits.task(), target);
        let closed = Arc::new(store.reopened().unwrap());
        soon(first.shutdown()).await.unwrap();

        let operator = Operator::new(Arc::clone(&closed) as Arc<dyn EventStore>);
        let oslo = || Answer::Given("Oslo".to_owned());
        let decided = operator.answer(task.stream(), &named, oslo(), "ada").await.unwrap();
        assert_eq!((decided.is_new, decided.task.state()), (true, TaskState::Working), "{target}");
        assert_eq!(decided.task.task().open_questions().count(), 0, "{target}: both are answered");
        let again = operator.answer(task.stream(), &named, oslo(), "ada").await.unwrap();
        assert!(!again.is_new, "{target}");
        operator.finish().await.unwrap();

        let store = Arc::new(closed.reopened().unwrap());
        let second = agent(&store, &far, &runs).start().await.unwrap();
        let done = soon(second.task(task.id()).unwrap().finished()).await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "{target}: {:?}", done.task().error());
        let expected = [("trip".to_owned(), 2), ("far".to_owned(), 2)];
        assert_eq!(attempts(done.task()), expected, "{target}: one call of the tool, with one request");
        assert_eq!(runs.load(Ordering::SeqCst), 2, "{target}: once for each attempt");
        assert!(outputs(done.task()).contains("heard Oslo"), "{target}: {}", outputs(done.task()));
        let found = verify(store.as_ref());
        assert!(found.is_sound(), "{target}: {:#?}", found.findings);
        soon(second.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_comes_again_answers_no_later_question_that_was_passed_on() {
    for target in ["trip", "far"] {
        let (far, runs) = (Far(&["Which city?", "Which street?"]), Arc::new(AtomicU32::new(0)));
        let store = Arc::new(MemoryStore::new());
        let system = agent(&store, &far, &runs).start().await.unwrap();
        let task = system.submit(call("trip")).await.unwrap();
        let waits = soon(task.finished()).await.unwrap();
        let first = question_of(waits.task(), target);
        task.answer(&first, "Oslo", "ada").await.unwrap();
        let waits = soon(task.finished()).await.unwrap();
        assert_eq!(waits.state(), TaskState::InputRequired, "{target}: {:?}", waits.task().error());
        let second = question_of(waits.task(), target);
        assert_ne!(first, second, "{target}");

        // A client sends its answer again, under the name of the question, and then under that of the call alone.
        task.answer(&first, "Oslo", "ada").await.unwrap();
        let call_id = first.rsplit_once(':').unwrap().0;
        let refused = task.answer(call_id, "Oslo", "ada").await;
        assert!(matches!(refused, Err(Error::Task(_))), "{target}: {refused:?}");
        let waits = task.snapshot().await.unwrap();
        assert_eq!(waits.task().open_questions().count(), 2, "{target}: nothing is answered");

        task.answer(&second, "Main", "ada").await.unwrap();
        let done = soon(task.finished()).await.unwrap();
        assert_eq!(done.state(), TaskState::Completed, "{target}: {:?}", done.task().error());
        assert_eq!(attempts(done.task()), [("trip".to_owned(), 3), ("far".to_owned(), 3)], "{target}");
        assert!(outputs(done.task()).contains("heard Oslo, Main"), "{target}: {}", outputs(done.task()));
        soon(system.shutdown()).await.unwrap();
    }
}
