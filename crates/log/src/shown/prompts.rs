//! The prompts of a log, rendered again from its events alone: what each inference was shown.

use std::collections::HashMap;

use proto_events::call::{CallEvent, CallRequested, PromptRef, Selection};
use proto_events::definition::AgentHistory;
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::LlmMessage;
use proto_events::session::Session;
use proto_events::task::{Task, TaskEvent};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::read::fold::{FoldedStream, fold_stream};
use crate::shown::images::ImageRef;
use crate::shown::messages::{InferenceMessages, system_of};
use crate::shown::offer::Offer;
use crate::shown::system_prompt::{RENDERER_VERSION, for_task, system_prompt, with_output_schema};

/// The prompt of one inference, as the model was sent it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// The offer of the agent's definition: its tools are sent beside the messages too.
    pub offer: Offer,
    /// The leading system message.
    pub system: String,
    /// The messages behind it, oldest first, as they were sent.
    pub messages: Vec<LlmMessage>,
    /// The number of characters that were left out of each of these messages.
    pub omitted: Vec<u64>,
    /// The images that each of these messages names: they were sent with it, unless the model was replaced during the run by one
    /// that takes none.
    pub images: Vec<Vec<ImageRef>>,
    /// The number of messages of the history that were not sent.
    pub left_out: u32,
}

/// A prompt that cannot be rendered from the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The task has no inference of this id.
    #[error("{task} has no inference `{call_id}`; `taskreel calls` lists its calls")]
    NoInference {
        /// The task's stream.
        task: StreamId,
        /// The id.
        call_id: String,
    },
    /// Another version of the texts was shown than this release renders.
    #[error(
        "its prompt was rendered by version {theirs} of the texts, this release has version {RENDERER_VERSION}"
    )]
    Renderer {
        /// The version in the intent.
        theirs: u16,
    },
    /// The log does not hold what the intent refers to.
    #[error("its prompt cannot be rendered again: {0}")]
    Missing(String),
}

impl Prompt {
    /// Returns the messages, each with the number of characters that were left out of it, and with its images.
    pub fn sent(&self) -> impl Iterator<Item = (&LlmMessage, u64, &[ImageRef])> {
        let images = self.images.iter().map(Vec::as_slice);
        self.messages
            .iter()
            .zip(&self.omitted)
            .zip(images)
            .map(|((said, omitted), images)| (said, *omitted, images))
    }
}

/// Renders what one inference was shown. Reads the streams of the task, its session and its agent.
///
/// # Errors
/// [`PromptError`] if the inference does not exist, or the log does not hold what it was shown.
pub fn prompt_of(reader: &dyn EventReader, task: &StreamId, call_id: &str) -> Result<Prompt, PromptError> {
    let nothing = || PromptError::NoInference { task: task.clone(), call_id: call_id.to_owned() };
    let missing = |what: &str| PromptError::Missing(what.to_owned());
    let whole = fold_stream::<Task>(reader, task, None)?;
    let call = whole.state.calls().get(call_id).filter(|call| call.request.prompt.is_some());
    let request = call.map(|call| call.request.clone()).ok_or_else(nothing)?;
    let prompt = request.prompt.as_ref().ok_or_else(nothing)?;
    let agent = StreamId::of_agent(&task.agent()).map_err(|error| missing(&error.to_string()))?;
    let definitions = fold_stream::<AgentHistory>(reader, &agent, None)?.state;
    let session = match &prompt.session {
        None => None,
        Some(session) => {
            let session = StreamId::parse(session).map_err(|error| missing(&error.to_string()))?;
            Some(fold_stream::<Session>(reader, &session, Some(prompt.read_through))?)
        }
    };
    let task = match session {
        None => fold_stream::<Task>(reader, task, Some(prompt.read_through))?.state,
        Some(_) => whole.state,
    };
    render(&definitions, session.as_ref().map(|session| (&session.state, session.version)), &task, &request)
}

/// Renders a prompt from the states that its intent refers to.
fn render(
    definitions: &AgentHistory,
    session: Option<(&Session, Version)>,
    task: &Task,
    request: &CallRequested,
) -> Result<Prompt, PromptError> {
    let missing = |what: String| PromptError::Missing(what);
    let Some(prompt) = &request.prompt else { return Err(missing("it is no inference".to_owned())) };
    let PromptRef { renderer, revision, read_through, selection, .. } = prompt;
    if *renderer != RENDERER_VERSION {
        return Err(PromptError::Renderer { theirs: *renderer });
    }
    let definition = definitions.revision(*revision);
    let definition = definition.ok_or_else(|| missing(format!("the agent has no revision {revision}")))?;
    let offer = Offer::from_definition(definition)
        .map_err(|error| missing(format!("revision {revision}: {error}")))?;
    let of_agent = || for_task(&system_prompt(&offer), task);
    let kept = session.and_then(|(session, _)| system_of(session));
    let text = kept.map_or_else(of_agent, |message| message.content.clone());
    let system = match output_schema_of(&request.args) {
        Some(schema) => with_output_schema(&text, &schema),
        None => text,
    };
    let shown = match session {
        Some((_, at)) if at != *read_through => {
            return Err(missing(format!(
                "its session was read through version {read_through}, but is at {at}"
            )));
        }
        Some((session, _)) => InferenceMessages::in_session(session, system),
        None => InferenceMessages::in_task(task, request.origin.part, system),
    };
    let left_out = left_out(&shown, selection.as_ref())?;
    let (mut messages, mut omitted, mut images) = (Vec::new(), Vec::new(), Vec::new());
    let of_turn = shown.images();
    for (number, message, left_out) in shown.sent(selection.as_ref()) {
        let in_turn = usize::try_from(number).ok().and_then(|at| at.checked_sub(shown.history.len()));
        images.push(in_turn.and_then(|at| of_turn.get(at)).cloned().unwrap_or_default());
        messages.push(message.into_owned());
        omitted.push(left_out);
    }
    Ok(Prompt { offer, system: shown.system.clone(), messages, omitted, images, left_out })
}

/// Returns the number of messages that a selection does not send.
fn left_out(shown: &InferenceMessages<'_>, selection: Option<&Selection>) -> Result<u32, PromptError> {
    let Some(selection) = selection else { return Ok(0) };
    let there = u32::try_from(shown.count().saturating_sub(1)).unwrap_or(u32::MAX);
    let unfit = |why: String| PromptError::Missing(format!("its selection does not fit the history: {why}"));
    let kept = selection.count_of(there).map_err(|fault| unfit(fault.to_string()))?;
    let before = selection.sizes.as_ref().map(|sizes| sizes.messages_before);
    match before.filter(|before| *before != there.saturating_add(1)) {
        Some(before) => {
            let whole = there.saturating_add(1);
            Err(unfit(format!("it is one of {before} messages, but there were {whole}")))
        }
        None => Ok(there.saturating_sub(kept)),
    }
}

/// Returns the output schema that the intent of an inference names in its parameters.
pub fn output_schema_of(args: &JsonText) -> Option<JsonText> {
    args.read::<JsonObject>().ok()?.get("output_schema").cloned()
}

/// A reader of all prompts of a log, which is given its records in order. It holds the states of all streams.
#[derive(Debug, Default)]
pub struct PromptReader {
    tasks: HashMap<StreamId, FoldedStream<Task>>,
    sessions: HashMap<StreamId, FoldedStream<Session>>,
    agents: HashMap<StreamId, FoldedStream<AgentHistory>>,
}

/// An event of a call, and the prompt where it is the intent of an inference.
#[derive(Debug)]
#[non_exhaustive]
pub struct PromptedEvent {
    /// The event.
    pub event: CallEvent,
    /// The prompt, if the event is the intent of an inference.
    pub prompt: Option<Result<Prompt, PromptError>>,
}

impl PromptReader {
    /// Takes the log's next record and returns its events of calls.
    ///
    /// # Errors
    /// [`ReadError`] if the record does not follow those before it, or cannot be decoded.
    pub fn take(&mut self, stored: &StoredRecord) -> Result<Vec<PromptedEvent>, ReadError> {
        let stream = &stored.record.stream;
        let all = Version(u64::MAX);
        match stream.category() {
            Some(Category::Session) => {
                self.sessions.entry(stream.clone()).or_default().take_record(stored, all)?;
            }
            Some(Category::Agent) => {
                self.agents.entry(stream.clone()).or_default().take_record(stored, all)?;
            }
            Some(Category::Task) => return self.task(stored),
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Gives up the state of a task of which no further record is taken.
    pub fn forget(&mut self, task: &StreamId) {
        self.tasks.remove(task);
    }

    fn task(&mut self, stored: &StoredRecord) -> Result<Vec<PromptedEvent>, ReadError> {
        let stream = &stored.record.stream;
        let mut prompted = Vec::new();
        let mut folded = self.tasks.remove(stream).unwrap_or_default();
        folded.take_record_with(stored, Version(u64::MAX), |task, event: &TaskEvent| {
            let TaskEvent::Call(event) = event else { return };
            let prompt = match event {
                CallEvent::Requested(request) if request.prompt.is_some() => {
                    Some(self.render(stream, task, request))
                }
                _ => None,
            };
            prompted.push(PromptedEvent { event: event.clone(), prompt });
        })?;
        self.tasks.insert(stream.clone(), folded);
        Ok(prompted)
    }

    fn render(&self, stream: &StreamId, task: &Task, request: &CallRequested) -> Result<Prompt, PromptError> {
        let missing = |what: String| PromptError::Missing(what);
        let agent = StreamId::of_agent(&stream.agent()).map_err(|error| missing(error.to_string()))?;
        let definitions = self.agents.get(&agent).ok_or_else(|| missing(format!("{agent} is missing")))?;
        let named = request.prompt.as_ref().and_then(|prompt| prompt.session.as_ref());
        let session = match named {
            None => None,
            Some(named) => {
                let found = StreamId::parse(named).ok().and_then(|named| self.sessions.get(&named));
                Some(found.ok_or_else(|| missing(format!("{named} is missing")))?)
            }
        };
        let session = session.map(|folded| (&folded.state, folded.version));
        render(&definitions.state, session, task, request)
    }
}
