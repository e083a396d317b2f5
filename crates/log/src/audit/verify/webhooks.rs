//! Checks the webhooks of a task: what is noted of a registration follows it, and its deliveries go forward.

use std::collections::BTreeMap;

use proto_events::task::WebhookEvent;

/// A registration as read so far.
struct Registration {
    through: u64,
    is_open: bool,
}

/// The webhooks of a task as read so far.
#[derive(Default)]
pub(crate) struct WebhooksCheck(BTreeMap<String, Registration>);

impl WebhooksCheck {
    /// Takes the next event of a webhook, which has this version, and returns its fault.
    pub(crate) fn accept_event(&mut self, event: &WebhookEvent, version: u64) -> Option<String> {
        let id = event.id();
        let known = self.0.get_mut(id);
        match (event, known) {
            (WebhookEvent::Set(webhook), known) => {
                let owed = known.filter(|known| known.is_open).map(|known| known.through);
                let registration = Registration { through: webhook.after, is_open: true };
                self.0.insert(id.to_owned(), registration);
                if webhook.after >= version {
                    return Some(format!(
                        "webhook `{id}` is told what follows a version that is not there yet"
                    ));
                }
                let skipped = owed.is_some_and(|owed| webhook.after > owed);
                skipped
                    .then(|| format!("webhook `{id}` was registered again, and what it is owed is left out"))
            }
            (_, None) => Some(format!("webhook `{id}` is not registered")),
            (WebhookEvent::Removed { .. }, Some(_)) => {
                self.0.remove(id);
                None
            }
            (WebhookEvent::Delivered { through, is_over, .. }, Some(known)) => {
                let (was, was_open) = (known.through, known.is_open);
                known.through = was.max(*through);
                known.is_open = was_open && !is_over;
                if !was_open {
                    return Some(format!("webhook `{id}` was told something after its deliveries had ended"));
                }
                if *through >= version {
                    return Some(format!("webhook `{id}` was told of a version that is not there yet"));
                }
                let stands = *through < was || (*through == was && !is_over);
                stands
                    .then(|| format!("webhook `{id}` was told nothing new: it was at version {was} already"))
            }
            (WebhookEvent::Failed { gives_up, .. }, Some(known)) => {
                let was_open = known.is_open;
                known.is_open = was_open && !gives_up;
                (!was_open)
                    .then(|| format!("a delivery to webhook `{id}` failed after its deliveries had ended"))
            }
        }
    }
}
