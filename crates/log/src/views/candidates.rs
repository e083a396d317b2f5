//! The tasks that may wait for somebody, found in one pass over the log that reads few bodies.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use proto_events::codec::record::EventView;
use proto_events::codec::{AnyEvent, kind, state_after};
use proto_events::id::{Category, IdError, Position, StreamId};
use proto_events::model::TaskState;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::scan::{Compare, ScannedRecord};

/// The tasks that may wait for somebody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// The tasks that have more intents than plain outcomes, or more approval requests than decisions, and those with an
    /// event of a newer release.
    pub(crate) unsettled: Vec<StreamId>,
    /// The sessions that have requested more summaries than have an outcome.
    pub(crate) summaries: Vec<StreamId>,
    /// The tasks whose last state is that a person is to answer.
    pub(crate) input_required: Vec<StreamId>,
    /// The tasks with a webhook whose deliveries failed at some time.
    pub(crate) webhooks: Vec<StreamId>,
}

/// Returns the tasks that may wait for somebody: one pass over the log, which reads no body but those that set a task's
/// state, and of a posted task the front only.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub(crate) fn candidates(reader: &dyn EventReader) -> Result<Candidates, ReadError> {
    AttentionWatch::default().candidates(reader)
}

/// The tasks of a log that may wait for somebody, kept between looks: each look reads what is new.
#[derive(Debug, Default)]
pub struct AttentionWatch {
    pass: CandidatePass,
    /// The position up to which the log was read.
    read: Position,
}

impl AttentionWatch {
    /// Reads what is new in the log, and returns the tasks that may wait for somebody.
    pub(crate) fn candidates(&mut self, reader: &dyn EventReader) -> Result<Candidates, ReadError> {
        let Self { pass, read } = self;
        let scanned = reader.scan(Position(read.0.saturating_add(1)), Compare::Checksums, &mut |scanned| {
            pass.accept_record(scanned)?;
            *read = scanned.last_position();
            Ok(ControlFlow::Continue(()))
        });
        if let Err(error) = scanned {
            // Half of a record may have been counted.
            *self = Self::default();
            return Err(error);
        }
        self.pass.finish()
    }
}

#[derive(Debug, Default)]
struct CandidatePass {
    /// The open intents and the open approvals of each task that has any.
    counts: HashMap<String, (i64, i64)>,
    /// The open calls for summaries of each session that has any.
    summaries: HashMap<String, i64>,
    newer: BTreeSet<String>,
    input_required: BTreeSet<String>,
    webhooks: BTreeSet<String>,
}

impl CandidatePass {
    fn finish(&self) -> Result<Candidates, ReadError> {
        let wrong = |error: IdError| ReadError::corrupt(error.to_string(), None);
        let named = |names: BTreeSet<&String>| -> Result<Vec<StreamId>, ReadError> {
            names.into_iter().map(|name| StreamId::parse(name).map_err(wrong)).collect()
        };
        Ok(Candidates {
            unsettled: named(self.newer.iter().chain(self.counts.keys()).collect())?,
            summaries: named(self.summaries.keys().collect())?,
            input_required: named(self.input_required.iter().collect())?,
            webhooks: named(self.webhooks.iter().collect())?,
        })
    }

    fn accept_record(&mut self, scanned: &ScannedRecord<'_>) -> Result<(), ReadError> {
        let stream = scanned.record.stream;
        let is_task = Category::from_stream(stream) == Some(Category::Task);
        let (mut calls, mut approvals, mut summaries) = (0, 0, 0);
        for event in scanned.record.events() {
            let event = event.map_err(|error| scanned.corrupt(error.to_string()))?;
            match event.kind {
                kind::CALL_REQUESTED => calls += 1,
                kind::CALL_SUCCEEDED | kind::CALL_FAILED | kind::CALL_CANCELED => calls -= 1,
                kind::SUMMARY_REQUESTED => summaries += 1,
                kind::SUMMARY_RECEIVED | kind::SUMMARY_FAILED => summaries -= 1,
                kind::APPROVAL_REQUESTED => approvals += 1,
                kind::APPROVAL_DECIDED => approvals -= 1,
                kind::WEBHOOK_FAILED => {
                    self.webhooks.insert(stream.to_owned());
                }
                kind::SUBMITTED | kind::STATE_CHANGED if is_task => self.state(stream, &event),
                _ => {}
            }
            // No event has an empty body, but a kind or version to come is noticed before the body is read.
            let decoded = AnyEvent::decode(Some(Category::Task), event.kind, event.schema, &[]);
            if is_task && decoded.is_err_and(|error| error.is_newer()) {
                self.newer.insert(stream.to_owned());
            }
        }
        if summaries != 0 {
            let open = self.summaries.entry(stream.to_owned()).or_default();
            *open += summaries;
            if *open == 0 {
                self.summaries.remove(stream);
            }
        }
        if (calls, approvals) != (0, 0) {
            let counts = self.counts.entry(stream.to_owned()).or_default();
            *counts = (counts.0 + calls, counts.1 + approvals);
            if *counts == (0, 0) {
                self.counts.remove(stream);
            }
        }
        Ok(())
    }

    /// Notes the state that an event sets. A body that is not shown or not understood counts as waiting: the fold tells.
    fn state(&mut self, stream: &str, event: &EventView<'_>) {
        let state = event.body.and_then(|body| state_after(event.kind, event.schema, body).ok()).flatten();
        if state.is_none_or(|state| state == TaskState::InputRequired) {
            self.input_required.insert(stream.to_owned());
        } else {
            self.input_required.remove(stream);
        }
    }
}
