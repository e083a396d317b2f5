//! The tool trait: the code of a tool, and the context of a call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto_events::call::CallQuestion;
use proto_events::envelope::{Principal, Timestamp};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Artifact;
use taskreel_log::ports::{Clock, SystemClock};
use tokio_util::sync::CancellationToken;

use crate::tools::agent_requests::{AgentAnswer, AgentDispatch, AgentSink, AgentWork, ClosedSink};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::log_of_call::LogOfCall;
use crate::tools::secret::Mask;
use crate::tools::state::ToolState;
use crate::tools::tool_questions::ToolQuestions;

/// Code that carries out a call. Usually made from an `async fn`, see
/// [`IntoTool`](crate::tools::into_tool::IntoTool).
pub trait Tool: Send + Sync + 'static {
    /// Starts the call. `args` is an object that was checked against the tool's schema.
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>>;

    /// Whether the work occupies a thread, so that dropping the future does not end it. A cancel or a timeout
    /// then ends the attempt while the work continues, and a later result is recorded as evidence only.
    fn is_blocking(&self) -> bool {
        false
    }
}

/// A signal to a running tool that its result is no longer wanted.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(CancellationToken);

impl Cancellation {
    /// Creates the signal of a call that is not canceled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the call; each clone sees it. For code that calls tools.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether the call was canceled.
    pub fn is_canceled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the call is canceled; otherwise it never returns.
    pub async fn canceled(&self) {
        self.0.cancelled().await;
    }
}

/// A receiver of progress texts.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The parts of a [`ToolContext`]. For code that calls tools, and for tests of tools.
#[derive(Clone)]
pub struct ToolContextParts {
    /// The task on whose behalf the call is made.
    pub task_id: String,
    /// The conversation of the task.
    pub session_id: String,
    /// The metadata of the task when the attempt was sent.
    pub metadata: JsonObject,
    /// The principal that submitted the task.
    pub principal: Principal,
    /// The number of the task's run, from 1.
    pub run: u32,
    /// The call's id, the same for every attempt.
    pub call_id: String,
    /// The key that an idempotent tool passes on, the same for every attempt.
    pub idempotency_key: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The moment at which this attempt times out, by `clock`.
    pub deadline: Option<Timestamp>,
    /// The clock by which attempts are timed out; the machine's by default.
    pub clock: Arc<dyn Clock>,
    /// The signal of a cancel.
    pub cancellation: Cancellation,
    /// The receiver of progress texts; without it they are dropped.
    pub progress: Option<ProgressSink>,
    /// The values that the tool keeps between its calls.
    pub state: ToolState,
    /// The questions that earlier attempts of the call asked a person, with their answers, in order.
    pub questions: Vec<CallQuestion>,
    /// A replacement for other agents, for tests of tools; without it a test's tool reaches none.
    pub agents: Option<AgentSink>,
}

impl Default for ToolContextParts {
    fn default() -> Self {
        Self {
            task_id: String::new(),
            session_id: String::new(),
            metadata: JsonObject::new(),
            principal: Principal::default(),
            run: 0,
            call_id: String::new(),
            idempotency_key: String::new(),
            attempt: 0,
            deadline: None,
            clock: Arc::new(SystemClock),
            cancellation: Cancellation::default(),
            progress: None,
            state: ToolState::default(),
            questions: Vec::new(),
            agents: None,
        }
    }
}

impl fmt::Debug for ToolContextParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContextParts")
            .field("task_id", &self.task_id)
            .field("call_id", &self.call_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// The information that a tool gets about its call.
#[derive(Debug, Clone)]
pub struct ToolContext(
    Arc<ToolContextParts>,
    Arc<ToolQuestions>,
    Arc<dyn AgentDispatch>,
    Option<Duration>,
    Option<Arc<LogOfCall>>,
    Arc<Attachments>,
);

/// The artifacts of an attempt; `None` once it has ended.
#[derive(Debug)]
struct Attachments(Mutex<Option<Vec<Artifact>>>);

impl Default for Attachments {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl ToolContext {
    /// Creates a context from its parts.
    pub fn new(parts: ToolContextParts) -> Self {
        let dispatch = Arc::new(ClosedSink(parts.agents.clone()));
        Self::attended(parts, Mask::default(), dispatch)
    }

    /// Creates the context of an attempt: its way to other agents, and the secret values that neither a question nor a
    /// request to an agent repeats.
    pub(crate) fn attended(parts: ToolContextParts, mask: Mask, dispatch: Arc<dyn AgentDispatch>) -> Self {
        // By the reading that no step of the clock moves.
        let clock = &parts.clock;
        let until =
            parts.deadline.map(|deadline| clock.monotonic().saturating_add(deadline.since(clock.now())));
        Self(Arc::new(parts), Arc::new(ToolQuestions::masked(mask)), dispatch, until, None, Arc::default())
    }

    /// Adds the log, for the library's own tools.
    pub(crate) fn with_log(mut self, log: LogOfCall) -> Self {
        self.4 = Some(Arc::new(log));
        self
    }

    /// Returns the log of the system that runs the call; `None` in a test of a tool.
    pub(crate) fn log(&self) -> Option<&LogOfCall> {
        self.4.as_deref()
    }

    /// Returns the task on whose behalf the call is made.
    pub fn task_id(&self) -> &str {
        &self.0.task_id
    }

    /// Returns the conversation of the task.
    pub fn session_id(&self) -> &str {
        &self.0.session_id
    }

    /// Returns the metadata of the task when this attempt was sent, such as [`RunRequest::metadata`] sets.
    ///
    /// [`RunRequest::metadata`]: crate::RunRequest::metadata
    pub fn metadata(&self) -> &JsonObject {
        &self.0.metadata
    }

    /// Returns the principal that submitted the task, with the degree of trust in its name; the name is empty if it is
    /// unknown.
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// Returns the number of the task's run, from 1: a task that was continued after a person's answer has several.
    pub fn run(&self) -> u32 {
        self.0.run
    }

    /// Returns the call's id, the same for every attempt.
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// Returns the key to pass to a service that honours such keys: every attempt of this call has the same
    /// key, and no other call has it.
    pub fn idempotency_key(&self) -> &str {
        &self.0.idempotency_key
    }

    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Returns the moment at which this attempt times out, by the system's clock.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.0.deadline
    }

    /// Returns the time until this attempt times out; zero after that moment. A correction of the clock does not change it.
    pub fn remaining(&self) -> Option<Duration> {
        self.3.map(|until| until.saturating_sub(self.0.clock.monotonic()))
    }

    /// Returns the signal of a cancel.
    pub fn cancellation(&self) -> &Cancellation {
        &self.0.cancellation
    }

    /// Returns the values that the tool keeps between its calls: `get`, `put`, `list`, `delete`, written with
    /// the success of this call.
    pub fn state(&self) -> &ToolState {
        &self.0.state
    }

    /// Adds an artifact to the task, such as a file that the call made: it is appended together with the success of the call,
    /// or not at all. Returns its id, which is made from the call's if it has none. A result may name it; a model is sent
    /// images where its backend [takes them](crate::infer::InferBackend::takes_images). A call that attaches more than
    /// [`ATTACHED_ARTIFACTS_MAX`](crate::limits::ATTACHED_ARTIFACTS_MAX), or more bytes than the log takes at once, fails.
    pub fn attach(&self, mut artifact: Artifact) -> String {
        let mut attached = self.5.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = attached.as_ref().map_or(0, Vec::len).saturating_add(1);
        let id = artifact.id.get_or_insert_with(|| format!("{}_{number}", self.call_id())).clone();
        artifact.timestamp.get_or_insert_with(|| self.0.clock.now().to_string());
        if let Some(attached) = attached.as_mut() {
            attached.push(artifact);
        }
        id
    }

    /// Returns the artifacts of the attempt, which takes no more from then on.
    pub(crate) fn close_attached(&self) -> Vec<Artifact> {
        self.5.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Asks a person. Where the answer is recorded, it is returned. Otherwise the attempt is to end: propagate the
    /// error with `?`. The question is then on disk, the task waits for input, and with the person's answer the call is
    /// sent again as a new attempt, in which this question returns the answer.
    ///
    /// Each attempt runs from the beginning, so what stands before a question is done again: ask before any effect,
    /// pass on [`ToolContext::idempotency_key`], or make it repeatable. An attempt must ask the same questions in the
    /// same order. An attempt that ends with a question has not failed: it counts for no retry, a manual call is not
    /// unknown, and the time until the answer does not count for its deadline. If the call returns a result in spite of
    /// an open question, the result counts and the question is dropped.
    ///
    /// # Errors
    /// An error without an answer yet, if a person declined to answer, or if the question is not the one that was
    /// asked at this place before.
    pub fn ask(&self, question: &str) -> impl Future<Output = Result<String, ToolError>> + Send + use<> {
        std::future::ready(self.answer(question))
    }

    /// Gives work to another agent of this name, one of the agent's peers
    /// ([`Builder::peer`](crate::system::builder::Builder::peer)), and returns its answer.
    ///
    /// The request is a call of the same run: its intent is on disk before it is sent, its policy is the peer's, and it
    /// counts for the task's budget. It is made once for this call, however many attempts this call needs. The first
    /// request of each attempt is the first one recorded, and so on: where it was answered, the recorded answer is returned
    /// and nothing is sent; where its answer was lost, the peer's recovery mode decides. So an attempt must make the same
    /// requests in the same order. Requests that run at once have the order in which they are first polled.
    ///
    /// When this call ends, requests that are still open are canceled. The time limit of this call counts while it waits,
    /// its heartbeat too.
    ///
    /// # Errors
    /// An error with the failure of the request, with these types besides the peer's: `InvalidArguments` (the
    /// arguments of a tool call are no object), `Denied` (policy or a person),
    /// `UnknownAgent`, `CircularDelegation`, `BudgetExceeded`, `RequestChanged` (an earlier attempt asked for something else
    /// at this place), `OutcomeUnknown` (it may have taken effect, and may not be repeated), and `WaitsForApproval`: a
    /// person must approve it first, the attempt is to end as with [`ToolContext::ask`], so propagate the error with `?`.
    ///
    /// # Examples
    ///
    /// ```
    /// use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
    /// use taskreel::{JsonSchema, JsonText, Part, System};
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Trip { city: String }
    ///
    /// async fn plan(cx: ToolContext, trip: Trip) -> Result<String, ToolError> {
    ///     let weather = cx.delegate("weather", format!("The weather in {}?", trip.city)).await?;
    ///     Ok(format!("Take a coat: {}", weather.result.to_str().unwrap_or_default()))
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use taskreel::infer::{Entry, Scripted};
    /// # let model = Scripted::new([Entry::json(&proto_events::json!({"type": "final", "content": "4 degrees"}))]);
    /// # let memory = || std::sync::Arc::new(taskreel::log::memory::MemoryStore::new());
    /// let weather = System::builder("-").store(memory()).name("weather").infer(model).start().await?;
    /// let agent = System::builder("-")
    ///     .store(memory())
    ///     .tool_with("plan", "Plans a trip", plan, ToolPolicy::read_only())
    ///     .peer(weather.peer())
    ///     .start()
    ///     .await?;
    /// let call = Part::tool_call("plan", proto_events::json!({"city": "Oslo"}))?;
    /// let end = agent.submit(call).await?.finished().await?;
    /// assert!(end.answer().unwrap().as_str().contains("Take a coat: 4 degrees"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn delegate<W: Into<AgentWork>>(
        &self,
        agent: &str,
        work: W,
    ) -> impl Future<Output = Result<AgentAnswer, ToolError>> + Send + use<W> {
        let (dispatch, asking, agent) = (Arc::clone(&self.2), Arc::clone(&self.1), agent.to_owned());
        let work = work.into().checked();
        async move { dispatch.delegate(agent, work?, asking).await }
    }

    /// Returns the answer to the next question, see [`ToolContext::ask`].
    pub(crate) fn answer(&self, question: &str) -> Result<String, ToolError> {
        self.1.answer(&self.0.questions, question)
    }

    /// Returns the question with which the attempt ends, if it has reached one without an answer.
    pub(crate) fn open_question(&self) -> Option<String> {
        self.1.open_question()
    }

    /// Reports progress to observers. A hint: it may be dropped, and it is not stored.
    pub fn progress(&self, text: &str) {
        if let Some(sink) = &self.0.progress {
            sink(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn an_error_without_words_shows_its_type() {
        let error = ToolError::failed("  ").with_type("TimedOut");
        assert_eq!(error.to_string(), "TimedOut");
        assert_eq!(ToolError::failed("boom").message(), "boom");
    }

    #[test]
    fn progress_reaches_a_listener_and_is_dropped_without_one() {
        ToolContext::new(ToolContextParts::default()).progress("nobody hears");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let cx = ToolContext::new(ToolContextParts {
            progress: Some(Arc::new(move |text: &str| {
                sink.lock().unwrap().push(text.to_owned());
            })),
            ..ToolContextParts::default()
        });
        cx.progress("half");
        assert_eq!(*heard.lock().unwrap(), ["half"]);
    }

    #[tokio::test]
    async fn a_cancel_is_seen_by_every_clone() {
        let cancellation = Cancellation::new();
        let cx = ToolContext::new(ToolContextParts {
            cancellation: cancellation.clone(),
            ..ToolContextParts::default()
        });
        assert!(!cx.cancellation().is_canceled());
        cancellation.cancel();
        cx.clone().cancellation().canceled().await;
        assert!(cx.cancellation().is_canceled());
    }
}
