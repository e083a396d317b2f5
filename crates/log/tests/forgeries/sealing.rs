//! The prompts of a log that is being sealed: the version and the digest that an intent leaves open, filled in as the system
//! does it.

use std::collections::HashMap;

use proto_events::call::{CallEvent, PromptRef, read_digest};
use proto_events::codec::AnyEvent;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::task::TaskEvent;
use taskreel_log::api::StoredRecord;

use super::log::{Draft, body};

/// The records sealed so far, as prompts refer to them.
#[derive(Default)]
pub(crate) struct Sealing {
    /// The records of each stream.
    streams: HashMap<StreamId, Vec<StoredRecord>>,
}

impl Sealing {
    pub(crate) fn note(&mut self, stored: &StoredRecord) {
        self.streams.entry(stored.record.stream.clone()).or_default().push(stored.clone());
    }

    /// Fills in what the prompts of a draft leave open: the version read, and the digest.
    pub(crate) fn fill(&self, draft: &Draft, (first, previous): (u64, Digest)) -> Vec<AnyEvent> {
        let mut events = draft.events.clone();
        for at in 0..events.len() {
            let before = events[..at].iter().map(|event| {
                let body = body(event);
                Digest::of_parts(&[&body.salt, &body.body])
            });
            let own = (first + at as u64 - 1, read_digest(previous, before.collect::<Vec<_>>()));
            if let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = &mut events[at]
                && let Some(prompt) = &mut request.prompt
            {
                self.fill_prompt(draft, own, prompt);
            }
        }
        events
    }

    fn fill_prompt(&self, draft: &Draft, own: (u64, Digest), prompt: &mut PromptRef) {
        let session = prompt.session.as_ref().and_then(|session| StreamId::parse(session).ok());
        let (version, read) = match session.and_then(|session| self.streams.get(&session)) {
            Some(records) => {
                let last = records.last().unwrap();
                let events = last.record.events.iter().map(|event| event.digest);
                let same = last.record.set_id == [draft.set; 16];
                let digest = if same { read_digest(last.record.previous, events) } else { last.hash };
                (last.record.last_version().0, digest)
            }
            None => own,
        };
        if prompt.read_through == Version(0) {
            prompt.read_through = Version(version);
        }
        let agent = StreamId::of_agent(&draft.stream.agent()).ok().and_then(|agent| self.streams.get(&agent));
        let at = usize::try_from(prompt.revision).unwrap().checked_sub(1);
        let revision = agent.and_then(|records| records.get(at?)).map(|record| record.hash);
        if prompt.digest == Digest::default() {
            prompt.digest = prompt.sent_digest(revision.unwrap_or_default(), read);
        }
    }
}
