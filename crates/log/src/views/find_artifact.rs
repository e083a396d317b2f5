//! An artifact of a task, or the result of one of its calls, found in the log without the rest of the task in memory.

use std::ops::ControlFlow;

use proto_events::call::{CallEvent, CallKind, Verdict};
use proto_events::envelope::Metadata;
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::{Artifact, Part};
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::artifacts::ArtifactError;
use crate::read::fold::decode_record;
use crate::views::artifact_content::{ArtifactContent, shown};
use crate::views::task_owner::{TaskOwner, session_in};

/// The source of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArtifactSource {
    /// An artifact of the task.
    Artifact,
    /// The result of a call of this tool.
    Tool(String),
    /// The answer of this agent.
    Agent(String),
}

/// An artifact of a task, or the result of one of its calls under the call's id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundArtifact {
    /// The task's stream.
    pub task: StreamId,
    /// The id of the artifact or the call.
    pub id: String,
    /// The source.
    pub source: ArtifactSource,
    /// The display name: that of the artifact, the tool or the agent.
    pub name: Option<String>,
    /// Whether no further pieces are expected.
    pub is_complete: bool,
    /// The content, in order.
    pub parts: Vec<ArtifactContent>,
}

/// The answer to a look for an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactLookup {
    /// The owner of the task; `None` if the task does not exist.
    pub owner: Option<TaskOwner>,
    /// The artifact, or the reason why there is nothing to show.
    pub found: Result<FoundArtifact, ArtifactError>,
}

impl ArtifactSource {
    /// Returns the source's name in printed output.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Artifact => "artifact",
            Self::Tool(_) => "tool",
            Self::Agent(_) => "agent",
        }
    }
}

impl FoundArtifact {
    /// Returns all texts of the artifact as one, without anything between them, since a text that was streamed came in
    /// pieces; of an artifact without texts its data, as indented JSON.
    ///
    /// # Errors
    /// [`ArtifactError::WrongContent`] if it has neither.
    pub fn text(&self) -> Result<String, ArtifactError> {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(
                |part| if let ArtifactContent::Text(text) = part { Some(text.as_str()) } else { None },
            )
            .collect();
        if !texts.is_empty() {
            return Ok(texts.concat());
        }
        let data: Vec<String> = self.data_parts().map(shown).collect();
        if data.is_empty() { Err(self.wrong("text")) } else { Ok(data.join("\n")) }
    }

    /// Returns the data of the artifact: the one value, or a list of several.
    ///
    /// # Errors
    /// [`ArtifactError::WrongContent`] if it has none.
    pub fn data(&self) -> Result<JsonValue, ArtifactError> {
        let mut data: Vec<JsonValue> = self.data_parts().map(JsonText::tree).collect();
        match (data.pop(), data.is_empty()) {
            (None, _) => Err(self.wrong("data")),
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                data.push(last);
                Ok(JsonValue::from(data))
            }
        }
    }

    fn data_parts(&self) -> impl Iterator<Item = &JsonText> {
        self.parts
            .iter()
            .filter_map(|part| if let ArtifactContent::Data(data) = part { Some(data) } else { None })
    }

    fn wrong(&self, wanted: &'static str) -> ArtifactError {
        let mut found: Vec<&'static str> = self.parts.iter().map(ArtifactContent::part_type).collect();
        found.sort_unstable();
        found.dedup();
        ArtifactError::WrongContent { artifact: self.id.clone(), wanted, found }
    }
}

/// Shows `visit` the events of a task in order. Nothing is kept but a page of records.
pub(crate) fn each_event(
    reader: &dyn EventReader,
    task: &StreamId,
    mut visit: impl FnMut(TaskEvent, &Metadata) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    for_each_page_of(reader, task, Version(1), |page| {
        for stored in page {
            for recorded in decode_record::<TaskEvent>(&stored)? {
                if visit(recorded.event, &recorded.metadata).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })
}

/// Looks for an artifact of a task, or the result of a call, by its id. A call is found before an artifact of the same id,
/// and of several artifacts of one id the newest. Only what belongs to the id is kept in memory.
///
/// # Errors
/// [`ReadError`] if the task cannot be read.
pub fn find_artifact(
    reader: &dyn EventReader,
    task: &StreamId,
    id: &str,
) -> Result<ArtifactLookup, ReadError> {
    let mut search = Search { id, own_id: String::new(), owner: None, artifact: None, call: None };
    each_event(reader, task, |event, metadata| {
        search.accept_event(event, metadata);
        ControlFlow::Continue(())
    })?;
    Ok(search.answer(task))
}

/// Returns the stream of a task that a call of this one created at another agent, by its id.
///
/// # Errors
/// [`ReadError`] if the task cannot be read.
pub fn child_task(
    reader: &dyn EventReader,
    task: &StreamId,
    id: &str,
) -> Result<Option<StreamId>, ReadError> {
    let mut child = None;
    each_event(reader, task, |event, _| match event {
        TaskEvent::Call(CallEvent::Requested(request))
            if request.kind == CallKind::Delegate && task_in(&request.args).as_deref() == Some(id) =>
        {
            child = StreamId::task(&request.target, id).ok();
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })?;
    Ok(child)
}

/// Returns the id of the task that the intent of a request to another agent holds.
pub(crate) fn task_in(args: &JsonText) -> Option<String> {
    let field = |of: &JsonText, key: &str| of.read::<JsonObject>().ok()?.get(key).cloned();
    field(&field(args, "task")?, "id")?.to_str()
}

/// A search for one id in the events of a task.
struct Search<'a> {
    id: &'a str,
    /// The task's own id, which names its session where nothing else does.
    own_id: String,
    owner: Option<TaskOwner>,
    artifact: Option<InParts>,
    call: Option<FoundCall>,
}

/// An artifact as far as its pieces have come.
struct InParts {
    name: Option<String>,
    is_complete: bool,
    parts: Vec<ArtifactContent>,
}

/// A call and its newest state.
struct FoundCall {
    source: ArtifactSource,
    result: Result<ArtifactContent, String>,
}

impl Search<'_> {
    fn accept_event(&mut self, event: TaskEvent, metadata: &Metadata) {
        match event {
            TaskEvent::Submitted(posted) => {
                posted.artifacts.iter().for_each(|artifact| self.add_whole(artifact));
                self.owner = Some(TaskOwner::new(&posted, metadata));
                self.own_id = posted.id;
            }
            TaskEvent::MetadataMerged(entries) => {
                if let (Some(owner), Some(_)) = (&mut self.owner, entries.get("session_id")) {
                    owner.session_id = session_in(&entries).unwrap_or_else(|| self.own_id.clone());
                }
            }
            TaskEvent::ArtifactAppended { artifact, .. } => self.add_whole(&artifact),
            TaskEvent::ArtifactPartAppended { artifact, is_last } => self.piece(&artifact, is_last),
            TaskEvent::Call(event) if event.call_id() == self.id => self.call(event),
            _ => {}
        }
    }

    fn add_whole(&mut self, artifact: &Artifact) {
        if artifact.id.as_deref() == Some(self.id) {
            self.artifact = Some(InParts::new(artifact, true));
        }
    }

    /// Takes a piece as the fold of a task does: one behind the last begins another artifact.
    fn piece(&mut self, piece: &Artifact, is_last: bool) {
        if piece.id.as_deref() != Some(self.id) {
            return;
        }
        match self.artifact.as_mut().filter(|begun| !begun.is_complete) {
            Some(begun) => {
                begun.parts.extend(contents(&piece.parts));
                begun.is_complete = is_last;
            }
            None => self.artifact = Some(InParts::new(piece, is_last)),
        }
    }

    fn call(&mut self, event: CallEvent) {
        if let CallEvent::Requested(request) = event {
            let source = match request.kind {
                CallKind::Tool => ArtifactSource::Tool(request.target),
                CallKind::Delegate => ArtifactSource::Agent(request.target),
                CallKind::Infer | CallKind::Handler => return,
            };
            self.call = Some(FoundCall { source, result: Err("it has not ended yet".to_owned()) });
            return;
        }
        let Some(call) = &mut self.call else { return };
        match event {
            CallEvent::Succeeded { result, .. } => call.result = Ok(call.source.content(&result)),
            CallEvent::Reconciled { verdict: Verdict::Landed(result), .. } => {
                call.result = Ok(ArtifactContent::of_value(&result));
            }
            CallEvent::Failed { failure, .. } => {
                call.result = Err(format!("it failed: {}", failure.message.trim_end_matches('.')));
            }
            CallEvent::Canceled { .. } => call.result = Err("it was canceled".to_owned()),
            CallEvent::OutcomeUnknown { .. } => call.result = Err("its outcome is unknown".to_owned()),
            CallEvent::Abandoned { .. } => {
                call.result = Err("its outcome stays unknown".to_owned());
            }
            _ => {}
        }
    }

    fn answer(self, task: &StreamId) -> ArtifactLookup {
        let Self { id, owner, artifact, call, .. } = self;
        let found = |source, name, is_complete, parts| {
            Ok(FoundArtifact { task: task.clone(), id: id.to_owned(), source, name, is_complete, parts })
        };
        let found = match (call, artifact) {
            (Some(FoundCall { source, result: Ok(content) }), _) => {
                let name = source.target().map(str::to_owned);
                found(source, name, true, vec![content])
            }
            (Some(FoundCall { result: Err(why), .. }), _) => {
                Err(ArtifactError::NoResult { call: id.to_owned(), why })
            }
            (None, Some(InParts { name, is_complete, parts })) => {
                found(ArtifactSource::Artifact, name, is_complete, parts)
            }
            (None, None) => Err(ArtifactError::NoSuchArtifact { artifact: id.to_owned(), task: task.id() }),
        };
        ArtifactLookup { owner, found }
    }
}

impl ArtifactSource {
    /// Returns the tool or agent.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::Artifact => None,
            Self::Tool(target) | Self::Agent(target) => Some(target),
        }
    }

    /// Returns the content of a call's result as its event holds it: an agent's answer has its state beside it.
    pub(crate) fn content(&self, result: &JsonText) -> ArtifactContent {
        let answer = match self {
            Self::Agent(_) => {
                result.read::<JsonObject>().ok().and_then(|answer| answer.get("result").cloned())
            }
            _ => None,
        };
        ArtifactContent::of_value(answer.as_ref().unwrap_or(result))
    }
}

impl InParts {
    fn new(artifact: &Artifact, is_complete: bool) -> Self {
        Self { name: artifact.name.clone(), is_complete, parts: contents(&artifact.parts).collect() }
    }
}

fn contents(parts: &[Part]) -> impl Iterator<Item = ArtifactContent> {
    parts.iter().map(ArtifactContent::from_part)
}
