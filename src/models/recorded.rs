//! A model that replays the answers of a log and refuses requests that are not in it.

mod content;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::call::{CallEvent, CallFailure, CallKind, CallRequested, FailureClass, TokenUsage};
use proto_events::envelope::Timestamp;
use proto_events::id::{Digest, Position};
use proto_events::json::{JsonObject, JsonText};
use taskreel_log::api::{EventReader, Page, ReadError};
use taskreel_log::shown::{PromptError, PromptReader, RENDERER_VERSION};

use crate::models::backend::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use crate::models::recorded::content::RequestContent;
use crate::tools::future::BoxFuture;

/// The reason why a log cannot be played back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log holds no answer of a model, or none of the named model.
    #[error("the log holds no replies of {asked}; it holds replies of {found}")]
    NoAnswers {
        /// The model that was looked for.
        asked: String,
        /// The models in the log.
        found: String,
    },
    /// The log holds answers of several models: name one with [`Recorded::read_model`].
    #[error("the log holds replies of several models: {found}; select one")]
    Several {
        /// The models in the log.
        found: String,
    },
}

/// The end of an attempt in the log.
#[derive(Debug, Clone)]
enum End {
    Reply(InferReply),
    Error(InferError),
    /// No outcome that could be repeated, with the reason.
    Nothing(&'static str),
}

/// An inference in the log.
#[derive(Debug)]
struct RecordedInference {
    request: CallRequested,
    /// The content of the prompt; `None` where this release renders other texts than the recording had.
    shown: Option<RequestContent>,
    /// The ends of the attempts that got an answer or an error, in order.
    ends: Vec<End>,
}

/// The recorded inferences and the progress of the playback.
#[derive(Debug, Default)]
struct Tape {
    asked: Vec<RecordedInference>,
    by_prompt: HashMap<(Digest, Digest), Vec<usize>>,
    /// The number of recorded inferences already used, by their content.
    given: HashMap<(Digest, Digest), usize>,
    /// The recorded inference that answers each call of the present process, by call id.
    answering: HashMap<String, usize>,
}

/// A model that gives the answers of a log. An answer is found by all that the model was shown, rendered again from
/// the log, in the order of the requests. A failed attempt fails again, after the same wait. A request that is not in
/// the log is refused with an error that names the difference.
///
/// The name and the parameters belong to the recorded model, since they are recorded with each request: the same
/// tasks on a new log produce the same events, except for ids and times. Clones share their progress; a
/// restarted process begins at the first answer.
#[derive(Clone)]
pub struct Recorded {
    backend: Arc<str>,
    model: Arc<str>,
    parameters: Arc<JsonObject>,
    tape: Arc<Mutex<Tape>>,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("backend", &self.backend)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Recorded {
    /// Reads the answers of the only model in the log. Reads the whole log: call it where blocking is
    /// allowed.
    ///
    /// # Errors
    /// [`RecordedError`] if the log holds answers of no model or of several.
    pub fn read(reader: &dyn EventReader) -> Result<Self, RecordedError> {
        let mut models = inferences(reader)?;
        if models.len() > 1 {
            return Err(RecordedError::Several { found: names(&models) });
        }
        let only = models.pop_first().map(|(_, asked)| asked);
        Self::from_inferences(only.unwrap_or_default()).ok_or_else(|| RecordedError::NoAnswers {
            asked: "any model".to_owned(),
            found: "none".to_owned(),
        })
    }

    /// Reads the answers of one model, named as in the log: `openai-compatible/qwen3`. If its parameters
    /// changed over time, the parameters of its newest inference count, and requests that were made with others are
    /// refused.
    ///
    /// # Errors
    /// [`RecordedError`] if the log holds no answer of the model.
    pub fn read_model(reader: &dyn EventReader, name: &str) -> Result<Self, RecordedError> {
        let mut models = inferences(reader)?;
        let found = names(&models);
        let asked = models.remove(name).unwrap_or_default();
        Self::from_inferences(asked).ok_or_else(|| RecordedError::NoAnswers { asked: name.to_owned(), found })
    }

    fn from_inferences(asked: Vec<RecordedInference>) -> Option<Self> {
        let mut parameters = parameters_of(&asked.last()?.request);
        let mut named = |key: &str| parameters.remove(key).and_then(|text| text.to_str()).unwrap_or_default();
        let (backend, model) = (named("backend"), named("model"));
        let mut tape = Tape { asked, ..Tape::default() };
        let newest = tape.asked.last().map(|asked| parameters_of(&asked.request).to_text());
        for (at, asked) in tape.asked.iter().enumerate() {
            let is_same = Some(parameters_of(&asked.request).to_text()) == newest;
            if let Some(shown) = asked.shown.filter(|_| is_same) {
                tape.by_prompt.entry(shown.key()).or_default().push(at);
            }
        }
        Some(Self {
            backend: backend.into(),
            model: model.into(),
            parameters: Arc::new(parameters),
            tape: Arc::new(Mutex::new(tape)),
        })
    }

    /// Returns the number of recorded inferences that have not been repeated.
    pub fn remaining(&self) -> usize {
        let tape = self.lock();
        tape.asked.len().saturating_sub(tape.answering.len())
    }

    /// Locks the tape. A poisoned lock stays usable: no code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &InferRequest) -> Result<InferReply, InferError> {
        let mut tape = self.lock();
        let at = match tape.answering.get(&request.call_id) {
            Some(at) => *at,
            None => tape.next(request).map_err(|why| refused(&self.backend, &self.model, request, &why))?,
        };
        let ends = tape.asked.get(at).map_or(&[][..], |asked| &asked.ends);
        let attempt = usize::try_from(request.attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        match ends.get(attempt).or_else(|| ends.last()) {
            Some(End::Reply(reply)) => Ok(reply.clone()),
            Some(End::Error(error)) => Err(error.clone()),
            Some(End::Nothing(why)) => Err(refused(&self.backend, &self.model, request, why)),
            None => {
                Err(refused(&self.backend, &self.model, request, "the recorded inference has no outcome"))
            }
        }
    }
}

impl InferBackend for Recorded {
    fn backend(&self) -> &str {
        &self.backend
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn parameters(&self) -> JsonObject {
        JsonObject::clone(&self.parameters)
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let answer = self.answer(&request);
        if let Ok(reply) = &answer {
            request.deltas.say(&reply.content);
        }
        Box::pin(std::future::ready(answer))
    }
}

impl Tape {
    /// Returns the recorded inference that matches the request, or a description of the difference.
    fn next(&mut self, request: &InferRequest) -> Result<usize, String> {
        let content = RequestContent::of_request(request);
        let given = self.given.entry(content.key()).or_default();
        let recorded = self.by_prompt.get(&content.key()).map_or(&[][..], Vec::as_slice);
        if let Some(at) = recorded.get(*given).copied() {
            *given += 1;
            self.answering.insert(request.call_id.clone(), at);
            return Ok(at);
        }
        if !recorded.is_empty() {
            return Err(format!(
                "the recording holds {} inferences of this prompt, and one more is requested",
                recorded.len()
            ));
        }
        let prompts = || self.asked.iter().filter_map(|asked| asked.request.prompt.as_ref());
        if !prompts().any(|prompt| prompt.renderer == RENDERER_VERSION) {
            return Err("the recording was made with another version of the system prompt".to_owned());
        }
        let shown = || self.asked.iter().filter_map(|asked| asked.shown.as_ref());
        if !shown().any(|shown| shown.tools == content.tools) {
            return Err("the tools offered to the model differ from those of the recording".to_owned());
        }
        let same = shown().filter(|shown| shown.count == content.count).count();
        Err(format!(
            "the recording holds {} inferences, {same} of them with the same number of messages, and none with the same prompt",
            self.asked.len()
        ))
    }
}

/// Returns the backend, the model and the parameters of an inference.
fn parameters_of(request: &CallRequested) -> JsonObject {
    let mut parameters: JsonObject = request.args.read().unwrap_or_default();
    parameters.remove("output_schema");
    parameters
}

fn refused(backend: &str, model: &str, request: &InferRequest, why: &str) -> InferError {
    let count = request.messages.len();
    let message = format!("not recorded: {backend}/{model}, request of {count} messages: {why}");
    InferError::new(InferErrorKind::Failed, "NotRecorded", message)
}

fn names(models: &BTreeMap<String, Vec<RecordedInference>>) -> String {
    let names: Vec<&str> = models.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns all inferences of a log by model, each model's in the order of their intents.
fn inferences(reader: &dyn EventReader) -> Result<BTreeMap<String, Vec<RecordedInference>>, ReadError> {
    let mut models: BTreeMap<String, Vec<RecordedInference>> = BTreeMap::new();
    // Maps a stream and a call id to a model and the index of its inference.
    let mut places: HashMap<(String, String), (String, usize)> = HashMap::new();
    let (mut prompts, mut next) = (PromptReader::default(), Position(1));
    loop {
        let page = reader.page_all(next, Page::default())?;
        let Some(last) = page.last() else { return Ok(models) };
        next = Position(last.last_position().0.saturating_add(1));
        for stored in &page {
            let time = stored.record.metadata.at;
            for prompted in prompts.take(stored)? {
                let event = prompted.event;
                let place = (stored.record.stream.as_str().to_owned(), event.call_id().to_owned());
                if let CallEvent::Requested(request) = event {
                    if request.kind == CallKind::Infer {
                        let shown = match prompted.prompt.transpose() {
                            Ok(prompt) => prompt.map(|prompt| RequestContent::of_prompt(&prompt)),
                            Err(PromptError::Read(error)) => return Err(error),
                            Err(_) => None,
                        };
                        let known = models.entry(request.target.clone()).or_default();
                        places.insert(place, (request.target.clone(), known.len()));
                        known.push(RecordedInference { request: *request, shown, ends: Vec::new() });
                    }
                } else if let Some((model, at)) = places.get(&place)
                    && let Some(asked) = models.get_mut(model).and_then(|asked| asked.get_mut(*at))
                {
                    asked.accept_event(event, time);
                }
            }
        }
    }
}

impl RecordedInference {
    fn accept_event(&mut self, event: CallEvent, at: Timestamp) {
        match event {
            CallEvent::RetryScheduled { failure, due, .. } => {
                let kind = InferErrorKind::Transient { retry_after: Some(due.since(at)) };
                self.ends.push(End::Error(InferError::new(kind, failure.error_type, failure.message)));
            }
            CallEvent::Succeeded { result, usage, .. } => self.ends.push(reply(&result, usage)),
            // Another inference took its place, and has the answer.
            CallEvent::Failed { failure, .. } if failure.class == FailureClass::Superseded => {
                self.shown = None;
            }
            CallEvent::Failed { failure, .. } => self.ends.push(End::Error(error(failure))),
            CallEvent::Canceled { .. } => self.ends.push(End::Nothing("the recorded inference was canceled")),
            CallEvent::OutcomeUnknown { .. } | CallEvent::Abandoned { .. } => {
                self.ends.push(End::Nothing("the outcome of the recorded inference is unknown"));
            }
            // A lost attempt (a timeout, or the end of the process) has no answer and no error.
            CallEvent::Requested(_)
            | CallEvent::Dispatched { .. }
            | CallEvent::TimedOut { .. }
            | CallEvent::Reconciled { .. }
            | CallEvent::Asked { .. }
            | CallEvent::Accepted { .. }
            | CallEvent::Answered { .. }
            | CallEvent::LateResultIgnored { .. } => {}
        }
    }
}

fn reply(result: &JsonText, usage: Option<TokenUsage>) -> End {
    match InferReply::from_json(result) {
        Ok(reply) => End::Reply(InferReply { usage, ..reply }),
        Err(_) => End::Nothing("its recorded reply cannot be read"),
    }
}

fn error(failure: CallFailure) -> InferError {
    let kind = match failure.class {
        FailureClass::Rejected => InferErrorKind::Malformed,
        _ => InferErrorKind::Failed,
    };
    InferError::new(kind, failure.error_type, failure.message)
}
