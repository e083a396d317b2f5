//! A model that plays a log back: what was answered is answered again, and what was never asked is refused.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto_events::call::{CallEvent, CallFailure, CallKind, CallRequested, FailureClass, TokenUsage};
use proto_events::id::{Digest, Position};
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::TaskEvent;

use super::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use super::registry::tools_digest;
use super::tool::BoxFuture;
use crate::store::fold::decode_record;
use crate::store::{EventReader, ReadError, StoredRecord};

/// Records read at a time.
const PAGE_RECORDS: usize = 256;

/// Why a log cannot be played back.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It holds no answer of a model, or none of the one that was named.
    #[error("the log holds no answer of {asked}; it holds answers of {found}")]
    NoAnswers {
        /// Which model was looked for.
        asked: String,
        /// Which ones there are.
        found: String,
    },
    /// It holds answers of several: say which with [`Recorded::read_model`].
    #[error("the log holds answers of several models: {found}; name one")]
    Several {
        /// Which ones there are.
        found: String,
    },
}

/// How an attempt ended in the log.
#[derive(Debug, Clone)]
enum End {
    Reply(InferReply),
    Error(InferError),
    /// There is no outcome that could be told again.
    Nothing(&'static str),
}

/// One inference of the log.
#[derive(Debug)]
struct Asked {
    request: CallRequested,
    /// Of the attempts that ended with something told, in order.
    ends: Vec<End>,
    timed_out: bool,
    epoch: u64,
}

/// What is played back, and how far.
#[derive(Debug, Default)]
struct Tape {
    asked: Vec<Asked>,
    by_prompt: HashMap<Digest, Vec<usize>>,
    /// How many recorded questions of a prompt have been given out.
    given: HashMap<Digest, usize>,
    /// Which recorded question answers which call of the present run.
    answering: HashMap<String, usize>,
}

/// A model that answers as a log says: found by the digest of all that the model was shown, in the order in which it was
/// asked. A failed attempt fails again, after the same wait. Whatever is not in the log is refused, in words that say what
/// differs.
///
/// It goes by the names and parameters of the recorded model, since these are part of the digest: the same tasks on a new
/// log leave the same events, but for ids and times. Clones share how far it has come; a process that starts again begins at
/// the first answer.
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
    /// The answers of the only model that the log knows. Reads the whole log: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`RecordedError`] if there is none, or more than one.
    pub fn read(reader: &dyn EventReader) -> Result<Self, RecordedError> {
        let mut models = inferences(reader)?;
        if models.len() > 1 {
            return Err(RecordedError::Several { found: names(&models) });
        }
        let only = models.pop_first().map(|(_, asked)| asked);
        Self::of(only.unwrap_or_default()).ok_or_else(|| RecordedError::NoAnswers {
            asked: "any model".to_owned(),
            found: "none".to_owned(),
        })
    }

    /// The answers of one model, named as the log names it: `openai-compatible/qwen3`. If its parameters were changed
    /// on the way, those of its newest inference count, and what was asked with others is refused.
    ///
    /// # Errors
    /// [`RecordedError`] if there is none.
    pub fn read_model(reader: &dyn EventReader, name: &str) -> Result<Self, RecordedError> {
        let mut models = inferences(reader)?;
        let found = names(&models);
        let asked = models.remove(name).unwrap_or_default();
        Self::of(asked).ok_or_else(|| RecordedError::NoAnswers { asked: name.to_owned(), found })
    }

    fn of(asked: Vec<Asked>) -> Option<Self> {
        let mut parameters: JsonObject = asked.last()?.request.args.read().unwrap_or_default();
        let mut named = |key: &str| parameters.remove(key).and_then(|text| text.to_str()).unwrap_or_default();
        let (backend, model) = (named("backend"), named("model"));
        parameters.remove("output_schema");
        let mut tape = Tape { asked, ..Tape::default() };
        for (at, asked) in tape.asked.iter().enumerate() {
            if let Some(prompt) = &asked.request.prompt {
                tape.by_prompt.entry(prompt.digest).or_default().push(at);
            }
        }
        Some(Self {
            backend: backend.into(),
            model: model.into(),
            parameters: Arc::new(parameters),
            tape: Arc::new(Mutex::new(tape)),
        })
    }

    /// How many recorded questions have not been asked again.
    pub fn left(&self) -> usize {
        let tape = self.lock();
        tape.asked.len().saturating_sub(tape.answering.len())
    }

    /// No code panics while it holds this lock.
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
            None => Err(refused(&self.backend, &self.model, request, "the recorded question has no outcome")),
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
    /// The recorded question that this one is, or what differs.
    fn next(&mut self, request: &InferRequest) -> Result<usize, String> {
        let given = self.given.entry(request.prompt_digest).or_default();
        let recorded = self.by_prompt.get(&request.prompt_digest).map_or(&[][..], Vec::as_slice);
        if let Some(at) = recorded.get(*given).copied() {
            *given += 1;
            self.answering.insert(request.call_id.clone(), at);
            return Ok(at);
        }
        if !recorded.is_empty() {
            return Err(format!("it was asked {} times then, and is asked once more now", recorded.len()));
        }
        let prompts = || self.asked.iter().filter_map(|asked| asked.request.prompt.as_ref());
        if !prompts().any(|prompt| prompt.tools == tools_digest(&request.tools)) {
            return Err("the tools that the model is offered are not those of the recording".to_owned());
        }
        if !prompts().any(|prompt| prompt.renderer == super::prompt::RENDERER_VERSION) {
            return Err("the recording was made with other wordings of the system prompt".to_owned());
        }
        let count = u32::try_from(request.messages.len()).unwrap_or(u32::MAX);
        let same = prompts().filter(|prompt| prompt.messages == count).count();
        Err(format!(
            "the recording holds {} questions, {same} of them with as many messages, and none that says the same",
            self.asked.len()
        ))
    }
}

fn refused(backend: &str, model: &str, request: &InferRequest, why: &str) -> InferError {
    let count = request.messages.len();
    let message = format!("not recorded: {backend}/{model}, asked with {count} messages: {why}");
    InferError::new(InferErrorKind::Failed, "NotRecorded", message)
}

fn names(models: &BTreeMap<String, Vec<Asked>>) -> String {
    let names: Vec<&str> = models.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// All inferences of a log, by model, each model's in the order of their intents.
fn inferences(reader: &dyn EventReader) -> Result<BTreeMap<String, Vec<Asked>>, ReadError> {
    let mut models: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    // Where the call of a stream and an id stands.
    let mut places: HashMap<(String, String), (String, usize)> = HashMap::new();
    let mut next = Position(1);
    loop {
        let page = reader.read_all(next, PAGE_RECORDS)?;
        let Some(last) = page.last() else { return Ok(models) };
        next = Position(last.last_position().0.saturating_add(1));
        for stored in page.iter().filter(|stored| stored.record.stream.category() == "task") {
            for event in call_events(stored)? {
                let place = (stored.record.stream.as_str().to_owned(), event.call_id().to_owned());
                if let CallEvent::Requested(request) = event {
                    if request.kind == CallKind::Infer {
                        let known = models.entry(request.target.clone()).or_default();
                        places.insert(place, (request.target.clone(), known.len()));
                        known.push(Asked { request: *request, ends: Vec::new(), timed_out: false, epoch: 0 });
                    }
                } else if let Some((model, at)) = places.get(&place)
                    && let Some(asked) = models.get_mut(model).and_then(|asked| asked.get_mut(*at))
                {
                    asked.take(event);
                }
            }
        }
    }
}

fn call_events(stored: &StoredRecord) -> Result<Vec<CallEvent>, ReadError> {
    let events = decode_record::<TaskEvent>(stored)?;
    let calls = events.into_iter().filter_map(|recorded| match recorded.event {
        TaskEvent::Call(event) => Some(event),
        _ => None,
    });
    Ok(calls.collect())
}

impl Asked {
    fn take(&mut self, event: CallEvent) {
        match event {
            CallEvent::Dispatched { attempt, epoch, delay_ms, cause, .. } => {
                // An attempt that was lost told nothing: a timeout, or a process that ended.
                let told = attempt > 1 && epoch == self.epoch && !self.timed_out;
                if told {
                    let kind =
                        InferErrorKind::Transient { retry_after: Some(Duration::from_millis(delay_ms)) };
                    self.ends.push(End::Error(InferError::new(kind, "RecordedError", cause)));
                }
                (self.epoch, self.timed_out) = (epoch, false);
            }
            CallEvent::TimedOut { .. } => self.timed_out = true,
            CallEvent::Succeeded { result, usage, .. } => self.ends.push(reply(&result, usage)),
            CallEvent::Failed { failure, .. } => self.ends.push(End::Error(error(failure))),
            CallEvent::Canceled { .. } => self.ends.push(End::Nothing("it was canceled then")),
            CallEvent::OutcomeUnknown { .. } | CallEvent::Abandoned { .. } => {
                self.ends.push(End::Nothing("nobody knew then what came of it"));
            }
            CallEvent::Requested(_) | CallEvent::Reconciled { .. } | CallEvent::LateResultIgnored { .. } => {}
        }
    }
}

fn reply(result: &JsonText, usage: Option<TokenUsage>) -> End {
    match InferReply::from_json(result) {
        Ok(reply) => End::Reply(InferReply { usage, ..reply }),
        Err(_) => End::Nothing("its recorded answer cannot be read"),
    }
}

fn error(failure: CallFailure) -> InferError {
    let kind = match failure.class {
        FailureClass::Rejected => InferErrorKind::Malformed,
        _ => InferErrorKind::Failed,
    };
    InferError::new(kind, failure.error_type, failure.message)
}
