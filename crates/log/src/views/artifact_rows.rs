//! The artifacts and the long results of a task's calls, as a list without their content.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use proto_events::call::{CallEvent, CallKind, Verdict};
use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::Artifact;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::json::{number, object, text, text_or_null};
use crate::views::artifact_content::ArtifactContent;
use crate::views::find_artifact::{ArtifactSource, each_event};

/// The characters from which on the result of a call is listed.
const LONG_RESULT_CHARACTERS: u64 = 1_000;

/// An artifact or a call's result in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactRow {
    /// The task's stream.
    pub task: StreamId,
    /// The id of the artifact or the call; `None` for an artifact that was posted without one, which no view can name.
    pub id: Option<String>,
    /// The source.
    pub source: ArtifactSource,
    /// The display name: that of the artifact, the tool or the agent.
    pub name: Option<String>,
    /// The kinds of content: `data`, `file`, `text`.
    pub kinds: BTreeSet<&'static str>,
    /// The number of parts.
    pub parts: usize,
    /// The number of characters of all parts, as [`ArtifactContent::characters`] counts them.
    pub characters: u64,
    /// Whether no further pieces are expected.
    pub is_complete: bool,
    /// The time of the last piece or of the result.
    pub at: Timestamp,
}

impl ArtifactRow {
    fn new(task: &StreamId, id: Option<String>, source: ArtifactSource, name: Option<String>) -> Self {
        let (kinds, at) = (BTreeSet::new(), Timestamp::default());
        Self { task: task.clone(), id, source, name, kinds, parts: 0, characters: 0, is_complete: true, at }
    }

    fn add(&mut self, content: &ArtifactContent) {
        self.kinds.insert(content.kind());
        self.parts += 1;
        self.characters = self.characters.saturating_add(content.characters());
    }

    /// Returns the row as one line of JSON.
    pub fn to_json(&self) -> JsonText {
        let kinds: Vec<&str> = self.kinds.iter().copied().collect();
        object([
            ("schema", text("taskreel.artifact/1")),
            ("task", text(&self.task.id())),
            ("stream", text(self.task.as_str())),
            ("artifact", text_or_null(self.id.as_deref())),
            ("source", text(self.source.as_str())),
            ("name", text_or_null(self.name.as_deref())),
            ("kinds", JsonText::of_model(&kinds)),
            ("parts", number(self.parts as u64)),
            ("characters", number(self.characters)),
            ("complete", JsonText::of_model(&self.is_complete)),
            ("at", text(&self.at.to_string())),
        ])
    }
}

/// Returns the artifacts of a task and the results of its calls of tools and agents of 1,000 characters and more, in the
/// order in which they began. No content is kept.
///
/// # Errors
/// [`ReadError`] if the task cannot be read.
pub fn artifact_rows(reader: &dyn EventReader, task: &StreamId) -> Result<Vec<ArtifactRow>, ReadError> {
    let mut list = List { task, rows: Vec::new(), open: HashMap::new(), calls: HashMap::new() };
    each_event(reader, task, |event, metadata| {
        list.accept_event(event, metadata.at);
        ControlFlow::Continue(())
    })?;
    Ok(list.rows)
}

struct List<'a> {
    task: &'a StreamId,
    rows: Vec<ArtifactRow>,
    /// The places of artifacts that are in pieces, by their ids.
    open: HashMap<String, usize>,
    /// The tools and agents of calls without a result.
    calls: HashMap<String, ArtifactSource>,
}

impl List<'_> {
    fn accept_event(&mut self, event: TaskEvent, at: Timestamp) {
        match event {
            TaskEvent::Submitted(posted) => {
                posted.artifacts.iter().for_each(|artifact| self.artifact(artifact, at));
            }
            TaskEvent::ArtifactAppended { artifact, .. } => self.artifact(&artifact, at),
            TaskEvent::ArtifactPartAppended { artifact, is_last } => self.piece(&artifact, is_last, at),
            TaskEvent::Call(event) => self.call(event, at),
            _ => {}
        }
    }

    fn artifact(&mut self, artifact: &Artifact, at: Timestamp) {
        let (id, name) = (artifact.id.clone(), artifact.name.clone());
        let mut row = ArtifactRow::new(self.task, id, ArtifactSource::Artifact, name);
        artifact.parts.iter().for_each(|part| row.add(&ArtifactContent::from_part(part)));
        self.rows.push(ArtifactRow { at, ..row });
    }

    fn piece(&mut self, piece: &Artifact, is_last: bool, at: Timestamp) {
        let known = piece.id.as_ref().and_then(|id| self.open.remove(id));
        let place = known.unwrap_or(self.rows.len());
        match self.rows.get_mut(place) {
            Some(row) => piece.parts.iter().for_each(|part| row.add(&ArtifactContent::from_part(part))),
            None => self.artifact(piece, at),
        }
        if let Some(row) = self.rows.get_mut(place) {
            (row.is_complete, row.at) = (is_last, at);
        }
        if let (Some(id), false) = (&piece.id, is_last) {
            self.open.insert(id.clone(), place);
        }
    }

    fn call(&mut self, event: CallEvent, at: Timestamp) {
        match event {
            CallEvent::Requested(request) => {
                let source = match request.kind {
                    CallKind::Tool => ArtifactSource::Tool(request.target),
                    CallKind::Delegate => ArtifactSource::Agent(request.target),
                    CallKind::Infer | CallKind::Handler => return,
                };
                self.calls.insert(request.call_id, source);
            }
            CallEvent::Succeeded { call_id, result, .. } => {
                self.result(call_id, at, |source| source.content(&result));
            }
            CallEvent::Reconciled { call_id, verdict: Verdict::Landed(result), .. } => {
                self.result(call_id, at, |_| ArtifactContent::of_value(&result));
            }
            CallEvent::Failed { call_id, .. } => drop(self.calls.remove(&call_id)),
            _ => {}
        }
    }

    fn result(
        &mut self,
        call_id: String,
        at: Timestamp,
        content: impl FnOnce(&ArtifactSource) -> ArtifactContent,
    ) {
        let Some(source) = self.calls.remove(&call_id) else { return };
        let content = content(&source);
        if content.characters() < LONG_RESULT_CHARACTERS {
            return;
        }
        let name = source.target().map(str::to_owned);
        let mut row = ArtifactRow::new(self.task, Some(call_id), source, name);
        row.add(&content);
        self.rows.push(ArtifactRow { at, ..row });
    }
}
