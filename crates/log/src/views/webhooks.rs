//! The tasks that may owe their webhooks something, found in one pass over the log that reads few bodies, and the webhooks
//! whose deliveries fail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use proto_events::codec::{Storable as _, kind};
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId};
use proto_events::task::{Task, TaskEvent, WebhookEvent, WebhookRegistration};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::scan::{Compare, ScannedRecord};
use crate::read::fold::fold_stream;

/// Returns the streams of the tasks whose webhooks may still be owed something, each with the ids of these webhooks, in one
/// pass over the log.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn tasks_with_webhooks(reader: &dyn EventReader) -> Result<Vec<(StreamId, Vec<String>)>, ReadError> {
    let mut open = BTreeMap::<String, BTreeSet<String>>::new();
    reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
        record_webhooks(&mut open, scanned)?;
        Ok(ControlFlow::Continue(()))
    })?;
    let named = |(name, ids): (String, BTreeSet<String>)| match StreamId::parse(&name) {
        Ok(stream) => Ok((stream, ids.into_iter().collect())),
        Err(error) => Err(ReadError::corrupt(error.to_string(), None)),
    };
    open.into_iter().map(named).collect()
}

/// Notes what a record says of webhooks.
fn record_webhooks(
    open: &mut BTreeMap<String, BTreeSet<String>>,
    scanned: &ScannedRecord<'_>,
) -> Result<(), ReadError> {
    let stream = scanned.record.stream;
    if Category::from_stream(stream) != Some(Category::Task) {
        return Ok(());
    }
    for event in scanned.record.events() {
        let event = event.map_err(|error| scanned.corrupt(error.to_string()))?;
        if !(kind::WEBHOOK_SET..=kind::WEBHOOK_FAILED).contains(&event.kind) {
            continue;
        }
        let read = event.body.and_then(|body| TaskEvent::decode(event.kind, event.schema, body).ok());
        // What cannot be read here is left to the reader of the task.
        let Some(TaskEvent::Webhook(event)) = read else { continue };
        let owed = !matches!(
            event,
            WebhookEvent::Removed { .. }
                | WebhookEvent::Delivered { is_over: true, .. }
                | WebhookEvent::Failed { gives_up: true, .. }
        );
        if owed {
            open.entry(stream.to_owned()).or_default().insert(event.id().to_owned());
        } else if let Some(ids) = open.get_mut(stream) {
            ids.remove(event.id());
            if ids.is_empty() {
                open.remove(stream);
            }
        }
    }
    Ok(())
}

/// A webhook whose deliveries fail.
pub(crate) struct FailingWebhook {
    pub(crate) since: Timestamp,
    /// The failure in words.
    pub(crate) what: String,
    pub(crate) advice: &'static str,
}

/// Returns the webhooks of a task whose deliveries fail.
pub(crate) fn failing(reader: &dyn EventReader, stream: &StreamId) -> Result<Vec<FailingWebhook>, ReadError> {
    let folded = fold_stream::<Task>(reader, stream, None)?;
    let row = |registered: &WebhookRegistration| {
        let failure = registered.failure()?;
        let (webhook, attempts) = (&registered.webhook, failure.attempts);
        let tries = if attempts == 1 { "attempt" } else { "attempts" };
        let ended = if registered.is_open() { "is tried again" } else { "is not tried again" };
        let what = format!(
            "webhook `{}` at {} was not told what follows version {}, and {ended} after {attempts} {tries}: {}",
            webhook.id, webhook.url, registered.through, failure.error
        );
        let advice = if registered.is_open() {
            "correct what answers at the address; or have its client remove the webhook"
        } else {
            "correct what answers at the address, then have its client register the webhook again under the same id: it is \
             told everything from where it stopped"
        };
        Some(FailingWebhook { since: failure.at, what, advice })
    };
    Ok(folded.state.webhooks().iter().filter_map(row).collect())
}
