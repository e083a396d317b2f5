//! An attempt of a handler: its context, its way to the task's log, and its outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto_events::call::FailureClass;
use proto_events::call::recovery::RetryWish;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::Message;
use proto_events::task::{HandlerSays, Task};
use taskreel_log::ports::Clock;
use tokio::sync::oneshot;

use crate::actors::router::agents::Agents;
use crate::actors::router::attempt_context::{AttemptContext, failed, failure};
use crate::actors::router::tool_attempt::{masked, tool_failed, watched};
use crate::actors::shared::messages::{AttemptEnd, Cause, Order, TaskOp, ToTask};
use crate::actors::shared::route::Route;
use crate::agent::card::Agent;
use crate::agent::handler::{HandlerContext, HandlerContextParts, HandlerEnd, HandlerSink};
use crate::error::Error;
use crate::files::beside::{FilesBeside, references, taken};
use crate::limits::QUESTION_BYTES_MAX;
use crate::models::backend::retry_delay;
use crate::run::call_of::CallOf;
use crate::run::handler::message;
use crate::tools::current_call::{CurrentCall, within};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::panics::caught_masked;
use crate::tools::secret::Mask;
use crate::tools::texts::shorten_to;
use crate::tools::tool::{ToolContext, ToolContextParts};

/// Runs the handler on the message that the intent names.
pub(crate) async fn handler(agent: &Agent, order: Box<Order>, context: AttemptContext) -> AttemptEnd {
    let AttemptContext { secrets, ports, live, cancellation, beats, jitter, to_task, .. } = context;
    let mask = secrets.of_task;
    let Some(known) = agent.handler_of(&order.request.target) else {
        return failed(FailureClass::BeforeEffect, "NoHandler", "the agent has no handler any more");
    };
    let Some(task) = order.task.clone() else {
        return failed(FailureClass::BeforeEffect, "NoTask", "the handler was sent no task");
    };
    let Some(message) = message(&task, &order.request.args).cloned() else {
        return failed(FailureClass::BeforeEffect, "NoMessage", "the task has no such message");
    };
    let agents = Agents::new(&order, to_task.clone());
    let (call_id, attempt) = (order.request.call_id.clone(), order.attempt);
    let sink = AttemptSink {
        to_task,
        stream: order.stream,
        call_id: call_id.clone(),
        attempt,
        said: AtomicU64::new(0),
        files: TaskFiles::new(&agent.files, &ports.clock, &order.task_id, &task),
    };
    let (system, of_call) = (live.system(), sink.stream.clone());
    let current = CurrentCall { system, task: of_call, call_id: call_id.clone(), session: None };
    let CallOf { session_id, metadata, principal, run } = order.whose;
    let parts = ToolContextParts {
        session_id: session_id.clone(),
        metadata,
        principal,
        run,
        task_id: order.task_id,
        call_id,
        idempotency_key: order.request.idempotency_key,
        attempt,
        deadline: Some(ports.clock.now().plus_millis(order.request.timeout_ms)),
        clock: Arc::clone(&ports.clock),
        cancellation,
        progress: Some(watched(masked(live.progress(), &mask), beats)),
        questions: order.questions,
        ..ToolContextParts::default()
    };
    let cx = ToolContext::attended(parts, mask.clone(), agents);
    let mut mint = ports.clone();
    let cx = HandlerContext::new(HandlerContextParts { cx, session_id, task, sink: Arc::new(sink), ports });
    // The code runs only when the attempt is polled, within the catch.
    let code = within(current, async { known.code.run(cx.clone(), message).await });
    let ran = caught_masked(code, |text| mask.text(text)).await;
    match ran {
        Ok(Ok(HandlerEnd::Rejected(why))) => final_end(FailureClass::Rejected, "Rejected", &mask.text(&why)),
        Ok(Ok(HandlerEnd::Failed(why))) => final_end(FailureClass::AfterEffect, "Failed", &mask.text(&why)),
        Ok(Ok(HandlerEnd::Answered(parts))) => {
            let says = vec![HandlerSays::Message(Message::new("agent", parts, &mut mint))];
            let result = HandlerEnd::Completed.to_json();
            AttemptEnd::Succeeded { result, usage: None, writes: Vec::new(), says }
        }
        Ok(Ok(end)) => AttemptEnd::succeeded(result_of(end, &mask)),
        Ok(Err(error)) => {
            if let Some(question) = cx.open_question() {
                return AttemptEnd::Asked { question };
            }
            let error = error.masked(|text| mask.text(text));
            tool_failed(&error, retry_delay(attempt.saturating_sub(1), jitter))
        }
        Err(panic) => {
            let text = format!("{} panicked: {panic}", order.request.target);
            failed(FailureClass::AfterEffect, "panic", &text)
        }
    }
}

/// Returns the result under which an end is recorded. A question that is too long is shortened: the handler has ended and cannot
/// ask in other words.
fn result_of(end: HandlerEnd, mask: &Mask) -> JsonText {
    let shown = |question: &str| {
        let mut question = mask.text(question);
        shorten_to(&mut question, QUESTION_BYTES_MAX);
        question
    };
    match end {
        HandlerEnd::AuthRequired(text) => HandlerEnd::AuthRequired(shown(&text)).to_json(),
        HandlerEnd::InputRequired(text) => HandlerEnd::InputRequired(shown(&text)).to_json(),
        other => mask.json(other.to_json()),
    }
}

/// Returns the end with which a handler fails its task: no retry would change it.
fn final_end(class: FailureClass, error_type: &str, why: &str) -> AttemptEnd {
    let why = if why.trim().is_empty() { error_type } else { why };
    AttemptEnd::Failed { failure: failure(class, error_type, why), retry: RetryWish::Never }
}

/// The way of one attempt to its task's actor.
struct AttemptSink {
    to_task: Route<Box<ToTask>>,
    stream: StreamId,
    call_id: String,
    attempt: u32,
    /// The number of things said so far: each is a command of its own.
    said: AtomicU64,
    /// The store for the files of artifacts.
    files: TaskFiles,
}

impl HandlerSink for AttemptSink {
    fn append(&self, says: HandlerSays) -> BoxFuture<'static, Result<(), ToolError>> {
        let artifact = match &says {
            HandlerSays::Artifact(artifact) | HandlerSays::ArtifactPart { artifact, .. } => Some(artifact),
            HandlerSays::Message(_) => None,
        };
        let sent = self.numbered();
        if artifact.is_some_and(|artifact| self.files.store.concerns(artifact)) {
            return Box::pin(self.files.clone().around(says, sent));
        }
        sent(says)
    }
}

impl AttemptSink {
    /// Returns what sends the next command of the attempt: its number is the order in which the handler said it.
    fn numbered(
        &self,
    ) -> impl FnOnce(HandlerSays) -> BoxFuture<'static, Result<(), ToolError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        let number = self.said.fetch_add(1, Ordering::AcqRel);
        let (call_id, attempt) = (self.call_id.clone(), self.attempt);
        let cause = Cause::from_system(format_args!("handler:{call_id}:{attempt}:{number}"), &call_id);
        let (to_task, stream) = (self.to_task.clone(), self.stream.clone());
        move |says| {
            let op = TaskOp::OfHandler { call_id, attempt, says: Box::new(says) };
            to_task.do_send(Box::new(ToTask { stream, op, cause, reply: Some(reply) }));
            Box::pin(async move {
                match answer.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(refused)) => Err(not_appended(refused.error.to_string())),
                    Err(_) => Err(not_appended("the system has stopped".to_owned())),
                }
            })
        }
    }
}

fn not_appended(why: String) -> ToolError {
    ToolError::failed(why).with_type("NotAppended")
}

/// The file store for what a handler says of its task.
#[derive(Clone)]
struct TaskFiles {
    store: FilesBeside,
    clock: Arc<dyn Clock>,
    task_id: String,
    /// The task as it was when the attempt began.
    task: Arc<Task>,
}

impl TaskFiles {
    fn new(store: &FilesBeside, clock: &Arc<dyn Clock>, task_id: &str, task: &Arc<Task>) -> Self {
        let (clock, task) = (Arc::clone(clock), Arc::clone(task));
        Self { store: store.clone(), clock, task_id: task_id.to_owned(), task }
    }

    /// Writes the files of an artifact that stand beside the log instead of in it, sends the artifact, and copies its other files.
    async fn around(
        self,
        mut says: HandlerSays,
        send: impl FnOnce(HandlerSays) -> BoxFuture<'static, Result<(), ToolError>>,
    ) -> Result<(), ToolError> {
        let (HandlerSays::Artifact(place) | HandlerSays::ArtifactPart { artifact: place, .. }) = &mut says
        else {
            return send(says).await;
        };
        let given = vec![taken(place)];
        let known =
            if references(&given).is_empty() { Vec::new() } else { references(self.task.artifacts()) };
        let kept = self.store.check_and_store(&*self.clock, &self.task_id, given, known).await;
        let mut kept = kept.map_err(|not| {
            not_appended(Error::FileNotKept { artifact: not.artifact, why: not.why }.to_string())
        })?;
        if let Some(kept) = kept.artifacts.pop() {
            *place = kept;
        }
        send(says).await?;
        self.store.copy(&*self.clock, &self.task_id, kept.to_copy).await;
        Ok(())
    }
}
