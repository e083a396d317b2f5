//! The webhooks of a task as JSON: their events, and their registrations. The values of their secrets are not in the log.

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::secret::KeptSecret;
use proto_events::task::{WebhookEvent, WebhookRegistration};

use crate::audit::json::values::{number, object, text, text_or_null};

fn reference(kept: Option<KeptSecret>) -> JsonText {
    text_or_null(kept.map(|kept| kept.to_string()).as_deref())
}

fn flag(flag: bool) -> JsonText {
    JsonText::from(Value::from(flag))
}

/// Returns the fields of an event.
pub(super) fn webhook_event(event: &WebhookEvent) -> JsonText {
    match event {
        WebhookEvent::Set(webhook) => object([
            ("webhook", text(&webhook.id)),
            ("url", text(&webhook.url)),
            ("format", text(&webhook.format)),
            ("token", reference(webhook.token)),
            ("scheme", text_or_null(webhook.scheme.as_deref())),
            ("credentials", reference(webhook.credentials)),
            ("after", number(webhook.after)),
        ]),
        WebhookEvent::Removed { id } => object([("webhook", text(id))]),
        WebhookEvent::Delivered { id, through, is_over } => {
            object([("webhook", text(id)), ("through", number(*through)), ("over", flag(*is_over))])
        }
        WebhookEvent::Failed { id, attempts, error, gives_up } => object([
            ("webhook", text(id)),
            ("attempts", number(u64::from(*attempts))),
            ("error", text(error)),
            ("gives_up", flag(*gives_up)),
        ]),
    }
}

/// Returns a registration, and how far its deliveries have come.
pub fn webhook_json(registered: &WebhookRegistration) -> JsonText {
    let webhook = &registered.webhook;
    let failure = registered.failure().map_or_else(JsonText::null, |failure| {
        object([
            ("attempts", number(u64::from(failure.attempts))),
            ("error", text(&failure.error)),
            ("at", text(&failure.at.to_string())),
        ])
    });
    object([
        ("webhook", text(&webhook.id)),
        ("url", text(&webhook.url)),
        ("format", text(&webhook.format)),
        ("token", reference(webhook.token)),
        ("scheme", text_or_null(webhook.scheme.as_deref())),
        ("credentials", reference(webhook.credentials)),
        ("principal", text(&registered.by.name)),
        ("since", text(&registered.since.to_string())),
        ("state", text(registered.state.as_str())),
        ("through", number(registered.through)),
        ("failure", failure),
    ])
}
