//! Checks the calls for summaries of a session: what the model was shown is made again from the session's messages and compared
//! with the digest in the intent, and what was put in place of the messages is the summary in the model's reply.
//!
//! This needs the messages themselves, which the pass over the log does not keep: a session with summaries is read once more.

use std::ops::ControlFlow;

use proto_events::decider::Decider as _;
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::LlmRole;
use proto_events::session::{HistoryCompacted, Session, SessionEvent, SummaryRequested};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StoredRecord;
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::context::SUMMARY_HEADING;
use crate::read::fold::decode_record;
use crate::shown::{SummaryPrompt, extract_summary};

/// Returns the faults of a session's summaries. An event that cannot be decoded ends the check: it is a finding already.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub(crate) fn faults(reader: &dyn EventReader, stream: &StreamId) -> Result<Vec<Finding>, ReadError> {
    let mut check = Check::default();
    for_each_page_of(reader, stream, Version(1), |page| {
        for stored in &page {
            if check.record(stored).is_none() {
                return Ok::<_, ReadError>(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(check.faults)
}

#[derive(Default)]
struct Check {
    session: Session,
    /// The newest reply: the id of its call, and the summary in it.
    reply: Option<(String, String)>,
    /// The version of the newest event that is not an end of an earlier call, which is written together with the next intent.
    changed: Version,
    faults: Vec<Finding>,
}

impl Check {
    fn record(&mut self, stored: &StoredRecord) -> Option<()> {
        for recorded in decode_record::<SessionEvent>(stored).ok()? {
            let version = recorded.version.0;
            let fault = match &recorded.event {
                SessionEvent::SummaryRequested(request) => self.requested(version, request),
                SessionEvent::SummaryReceived { call_id, reply, .. } => {
                    self.reply = Some((call_id.clone(), summary_of(reply)));
                    None
                }
                SessionEvent::HistoryCompacted(compacted) => self.compacted(compacted),
                _ => None,
            };
            if let Some(what) = fault {
                self.faults.push(Finding::new(stored, version, FindingKind::Turn, what));
            }
            if !matches!(recorded.event, SessionEvent::SummaryFailed { .. }) {
                self.changed = recorded.version;
            }
            self.session.evolve(&recorded.event, &recorded.metadata);
        }
        Some(())
    }

    fn requested(&self, version: u64, request: &SummaryRequested) -> Option<String> {
        let SummaryRequested { call_id, read_through, messages, max_tokens, digest, .. } = request;
        if read_through.0 >= version || *read_through < self.changed {
            return Some(format!(
                "the call `{call_id}` for a summary names version {read_through} as what was read, but the session was at {}",
                self.changed
            ));
        }
        // More messages than there are is a finding of its own.
        let removed = usize::try_from(*messages).unwrap_or(usize::MAX);
        let older = self.session.body().get(..removed)?;
        let shown = SummaryPrompt::new(older, *max_tokens);
        (shown.digest() != *digest).then(|| {
            format!("the call `{call_id}` for a summary names another digest than what it shows of the session has")
        })
    }

    fn compacted(&self, compacted: &HistoryCompacted) -> Option<String> {
        let (summary, call_id) = compacted.summary.as_ref().zip(compacted.call_id.as_deref())?;
        // A summary that was not received is a finding of its own.
        let (_, said) = self.reply.as_ref().filter(|(of, _)| of == call_id)?;
        let is_said = summary.role == LlmRole::System
            && summary.content.strip_prefix(SUMMARY_HEADING).and_then(|rest| rest.strip_prefix('\n'))
                == Some(said);
        (!is_said).then(|| format!("the summary of the call `{call_id}` is not what the model's reply says"))
    }
}

/// Returns the summary in the model's reply, as the log has it.
fn summary_of(reply: &JsonText) -> String {
    let fields: JsonObject = reply.read().unwrap_or_default();
    extract_summary(&fields.get("content").and_then(JsonText::to_str).unwrap_or_default())
}
