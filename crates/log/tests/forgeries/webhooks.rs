//! Forgeries of a task's webhooks: deliveries that do not follow from their registrations.

use super::Forgery;
use super::events::{webhook_delivered, webhook_failed, webhook_removed, webhook_set};

#[rustfmt::skip]
pub(crate) const WEBHOOKS: &[Forgery] = &[
    ("a webhook that is told what is not there yet", ("hooked", 0), "is told what follows a version that is not there yet", |log| *log.event("hooked", 0) = webhook_set("w", 3)),
    ("a webhook registered again without what it is owed", ("hooked again", 0), "and what it is owed is left out", |log| {
        *log.event("given up", 0) = webhook_failed("x", 16, false);
        *log.event("hooked again", 0) = webhook_set("x", 5);
    }),
    ("the end of a webhook that was not registered", ("hooked", 2), "webhook `y` is not registered", |log| log.insert("hooked", 2, webhook_removed("y"))),
    ("a delivery after the last one", ("told all", 1), "was told something after its deliveries had ended", |log| log.insert("told all", 1, webhook_delivered("w", 12, false))),
    ("a delivery of what is not there yet", ("told first", 0), "was told of a version that is not there yet", |log| *log.event("told first", 0) = webhook_delivered("w", 6, false)),
    ("a delivery of nothing new", ("told first", 1), "was told nothing new: it was at version 5", |log| log.insert("told first", 1, webhook_delivered("w", 5, false))),
    ("a failure after the last delivery", ("told all", 1), "failed after its deliveries had ended", |log| log.insert("told all", 1, webhook_failed("w", 1, false))),
];
