//! The digest of a prompt, computed again from the log and compared with the one in the intent.

use std::ops::ControlFlow;

use proto_events::call::{CallEvent, CallRequested, read_digest};
use proto_events::definition::AgentEvent;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::task::TaskEvent;

use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StoredRecord;
use crate::read::fold::decode_record;
use crate::shown::prompts::PromptError;

/// The digest of a prompt, twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptDigest {
    /// The digest that the intent names.
    pub named: Digest,
    /// The digest of what the log holds.
    pub computed: Digest,
}

impl PromptDigest {
    /// Whether the log holds what the intent names.
    pub fn is_equal(&self) -> bool {
        self.named == self.computed
    }
}

/// Computes the digest of what one inference was shown: from the renderer's version, the record of the agent's definition,
/// and the records of the session or of the task up to the version that was read.
///
/// # Errors
/// [`PromptError`] if the inference does not exist, or the log does not hold what its intent refers to.
pub fn prompt_digest(
    reader: &dyn EventReader,
    task: &StreamId,
    call_id: &str,
) -> Result<PromptDigest, PromptError> {
    prompt_digest_from(reader, task, (call_id, Version(1)))
}

/// Computes the digest as [`prompt_digest`] does, and looks for the intent from a version on: a caller that knows the version of the
/// intent does not read what stands before it.
///
/// # Errors
/// As there; an intent before the version is not found.
pub fn prompt_digest_from(
    reader: &dyn EventReader,
    task: &StreamId,
    (call_id, from): (&str, Version),
) -> Result<PromptDigest, PromptError> {
    let nothing = || PromptError::NoInference { task: task.clone(), call_id: call_id.to_owned() };
    let (stored, before, request) = intent(reader, task, (call_id, from))?.ok_or_else(nothing)?;
    let prompt = request.prompt.as_ref().ok_or_else(nothing)?;
    let definition = definition(reader, task, prompt.revision)?;
    let read = match &prompt.session {
        None => {
            let events = stored.record.events.iter().take(before);
            read_digest(stored.record.previous, events.map(|event| event.digest))
        }
        Some(session) => session_digest(reader, session, prompt.read_through, stored.record.set_id)?,
    };
    let computed = prompt.sent_digest(definition, read);
    Ok(PromptDigest { named: prompt.digest, computed })
}

/// Returns the record that holds the intent of a call, the number of the record's events before it, and the intent.
fn intent(
    reader: &dyn EventReader,
    task: &StreamId,
    (call_id, from): (&str, Version),
) -> Result<Option<(StoredRecord, usize, CallRequested)>, PromptError> {
    let mut found = None;
    for_each_page_of(reader, task, from, |page| {
        for stored in page {
            for (at, recorded) in decode_record::<TaskEvent>(&stored)?.into_iter().enumerate() {
                if let TaskEvent::Call(CallEvent::Requested(request)) = recorded.event
                    && request.call_id == call_id
                {
                    found = Some((stored, at, *request));
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok::<_, PromptError>(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Returns the leaf hash of the record that holds a revision of the task's agent.
fn definition(reader: &dyn EventReader, task: &StreamId, revision: u32) -> Result<Digest, PromptError> {
    let agent = StreamId::of_agent(&task.agent()).map_err(|error| PromptError::Missing(error.to_string()))?;
    let mut found = None;
    for_each_page_of(reader, &agent, Version(1), |page| {
        for stored in &page {
            let holds = |event: &AgentEvent| {
                let AgentEvent::Revised(revised) = event;
                revised.number == revision
            };
            if decode_record::<AgentEvent>(stored)?.iter().any(|recorded| holds(&recorded.event)) {
                found = Some(stored.hash);
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok::<_, PromptError>(ControlFlow::Continue(()))
    })?;
    found.ok_or_else(|| PromptError::Missing(format!("the agent has no revision {revision}")))
}

/// Returns the digest of a session up to a version, for an intent of the append with this id.
fn session_digest(
    reader: &dyn EventReader,
    named: &str,
    through: Version,
    set_id: [u8; 16],
) -> Result<Digest, PromptError> {
    let missing = |what: String| PromptError::Missing(what);
    let session = StreamId::parse(named).map_err(|error| missing(error.to_string()))?;
    let page = reader.read_stream(&session, through, 1)?;
    let stored = page.first().ok_or_else(|| missing(format!("{session} has no version {through}")))?;
    let record = &stored.record;
    if record.set_id != set_id && record.last_version() == through {
        return Ok(stored.hash);
    }
    let events = usize::try_from(through.0.saturating_sub(record.first_version.0)).unwrap_or(usize::MAX);
    let read = record.events.iter().take(events.saturating_add(1));
    Ok(read_digest(record.previous, read.map(|event| event.digest)))
}
