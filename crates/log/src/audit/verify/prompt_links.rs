//! Checks what an inference was shown: the revision of the agent's definition, the version up to which the session or
//! the task was read, the number of messages, and the digest over all of that.

use proto_events::call::{CallKind, CallRequested, PromptRef, read_digest};
use proto_events::id::{Category, Digest, StreamId};

use crate::api::record::StoredRecord;
use crate::audit::verify::finding::FindingKind;
use crate::audit::verify::prompts::count_fault;
use crate::audit::verify::stream::StreamCheck;
use crate::audit::verify::streams::CheckedStreams;
use crate::shown::RENDERER_VERSION;

/// A fault of a prompt.
type Fault = Option<(FindingKind, String)>;

/// Returns the fault of what an intent names as shown.
pub(crate) fn prompt_fault(
    request: &CallRequested,
    stored: &StoredRecord,
    version: u64,
    streams: &CheckedStreams<'_>,
) -> Fault {
    let id = &request.call_id;
    let fault = |what: String| Some((FindingKind::Call, format!("call `{id}` {what}")));
    let prompt = match (&request.prompt, request.kind) {
        (Some(prompt), CallKind::Infer) => prompt,
        (None, CallKind::Infer) => return fault("is an inference that names no prompt".to_owned()),
        (Some(_), _) => return fault("names a prompt, but is no inference".to_owned()),
        (None, _) => return None,
    };
    let read = match &prompt.session {
        Some(named) => of_session(id, prompt, named, stored, streams),
        None => of_task(id, prompt, stored, version),
    };
    let read = match read {
        Ok(read) => read,
        Err(fault) => return Some(fault),
    };
    let agent = stored.record.stream.agent();
    let known = StreamId::of_agent(&agent).ok().and_then(|stream| streams.get(&stream));
    let Some(definition) = known.and_then(|check| check.revision(prompt.revision)) else {
        return fault(format!("was shown revision {} of its agent, which does not exist", prompt.revision));
    };
    if prompt.renderer == 0 {
        return fault("names renderer 0, but the first one has the number 1".to_owned());
    }
    let digest = prompt.sent_digest(definition, read);
    if digest != prompt.digest {
        return fault(format!(
            "names a prompt of digest {}, but what it was shown has {digest}",
            prompt.digest
        ));
    }
    let session = prompt.session.as_ref().and_then(|named| StreamId::parse(named).ok());
    let session = session.and_then(|session| streams.get(&session));
    if session.is_some_and(|session| !is_rendered(prompt, session, stored, streams)) {
        return fault("was shown a system prompt that no definition of its agent renders".to_owned());
    }
    None
}

/// Returns the digest of the session that an intent names, as it stood then.
fn of_session(
    id: &str,
    prompt: &PromptRef,
    named: &str,
    stored: &StoredRecord,
    streams: &CheckedStreams<'_>,
) -> Result<Digest, (FindingKind, String)> {
    let session = StreamId::parse(named).ok();
    let of_its_agent = session.as_ref().is_some_and(|session| {
        session.category() == Some(Category::Session) && session.agent() == stored.record.stream.agent()
    });
    let known = session.as_ref().filter(|_| of_its_agent).and_then(|session| streams.get(session));
    let Some(check) = known else {
        let what = format!("call `{id}` was shown the session {named}, which its agent does not have");
        return Err((FindingKind::Call, what));
    };
    if check.open_task() != Some(stored.record.stream.as_str()) {
        let of = check
            .open_task()
            .map_or("no turn is open".to_owned(), |task| format!("the open turn is of {task}"));
        let what = format!("call `{id}` was shown {named}, in which {of}");
        return Err((FindingKind::Turn, what));
    }
    if let Some(open) = check.unanswered() {
        let what = format!("call `{id}` was intended while the tool call `{open}` of {named} has no answer");
        return Err((FindingKind::Turn, what));
    }
    if prompt.read_through != check.version() {
        let (read, end) = (prompt.read_through, check.version());
        let what = format!("call `{id}` was shown {named} through version {read}, not {end}");
        return Err((FindingKind::Call, what));
    }
    if let Some(what) = count_fault(prompt, check.messages(), &|number| check.is_answer(number)) {
        return Err((FindingKind::Call, format!("call `{id}` {what}")));
    }
    Ok(check.tail().read_in(stored.record.set_id))
}

/// Whether the system prompt that a session's turn began with is the rendering of a definition that its program had. Of
/// a turn that another program began it is not known which texts that one rendered.
fn is_rendered(
    prompt: &PromptRef,
    session: &StreamCheck,
    stored: &StoredRecord,
    streams: &CheckedStreams<'_>,
) -> bool {
    let record = &stored.record;
    let Some((system, _)) = session.system().filter(|(_, began)| *began == record.epoch) else { return true };
    let hint = streams.get(&record.stream).and_then(StreamCheck::hint);
    let agent = StreamId::of_agent(&record.stream.agent()).ok().and_then(|agent| streams.get(&agent));
    prompt.renderer != RENDERER_VERSION
        || agent.is_some_and(|agent| agent.renders(record.epoch, hint, system))
}

/// Returns the digest of the task up to its intent.
fn of_task(
    id: &str,
    prompt: &PromptRef,
    stored: &StoredRecord,
    version: u64,
) -> Result<Digest, (FindingKind, String)> {
    let before = version.saturating_sub(1);
    if prompt.read_through.0 != before {
        let what =
            format!("call `{id}` was shown its task through version {}, not {before}", prompt.read_through);
        return Err((FindingKind::Call, what));
    }
    let own = version.saturating_sub(stored.record.first_version.0);
    let events = stored.record.events.iter().take(usize::try_from(own).unwrap_or(usize::MAX));
    Ok(read_digest(stored.record.previous, events.map(|event| event.digest)))
}
