//! Webhooks of a task: addresses that are told what happens to it. A registration is an event of the task, and so is how far
//! its deliveries have come; what is owed is what the task's stream holds beyond that.

use crate::envelope::{Principal, Timestamp};
use crate::secret::KeptSecret;

/// A registration of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The id, unique in its task.
    pub id: String,
    /// The address.
    pub url: String,
    /// The form of what is delivered: a word of the program that delivers it.
    pub format: String,
    /// The token that the webhook compares: a salted digest, whose value stands beside the log.
    pub token: Option<KeptSecret>,
    /// The scheme of the deliveries' authorization.
    pub scheme: Option<String>,
    /// The credentials of that scheme: a salted digest, whose value stands beside the log.
    pub credentials: Option<KeptSecret>,
    /// The version of the task's stream after which events are delivered.
    pub after: u64,
}

/// An event of a task's webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEvent {
    /// A webhook was registered, or its registration replaced.
    Set(Box<Webhook>),
    /// A registration was removed.
    Removed {
        /// The id of the registration.
        id: String,
    },
    /// A webhook was told everything up to a version.
    Delivered {
        /// The id of the registration.
        id: String,
        /// The version of the task's stream.
        through: u64,
        /// Whether nothing more follows: the task is over.
        is_over: bool,
    },
    /// A delivery has failed several times.
    Failed {
        /// The id of the registration.
        id: String,
        /// The number of attempts so far.
        attempts: u32,
        /// The reason of the last failure.
        error: String,
        /// Whether it is not tried again.
        gives_up: bool,
    },
}

impl WebhookEvent {
    /// Returns the id of the registration.
    pub fn id(&self) -> &str {
        match self {
            Self::Set(webhook) => &webhook.id,
            Self::Removed { id } | Self::Delivered { id, .. } | Self::Failed { id, .. } => id,
        }
    }
}

/// The state of a registration's deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookState {
    /// Deliveries go on.
    Active,
    /// The next delivery has failed several times and is tried again.
    Failing(WebhookFailure),
    /// The next delivery has failed too often. Nothing more is delivered until the webhook is registered again.
    GivenUp(WebhookFailure),
    /// The task is over, and everything was delivered.
    Over,
}

impl WebhookState {
    /// Returns its name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Failing(_) => "failing",
            Self::GivenUp(_) => "given-up",
            Self::Over => "over",
        }
    }
}

/// The failure of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookFailure {
    /// The number of attempts.
    pub attempts: u32,
    /// The reason of the last failure.
    pub error: String,
    /// The time when it was recorded.
    pub at: Timestamp,
}

/// A registration, and how far its deliveries have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRegistration {
    /// The registration.
    pub webhook: Webhook,
    /// The number of the registration among all that the task ever had: one that replaces another has a number of its own.
    pub number: u32,
    /// The principal who registered it.
    pub by: Principal,
    /// The time when it was registered.
    pub since: Timestamp,
    /// The version of the task's stream up to which everything was delivered, or is not owed.
    pub through: u64,
    /// The state of its deliveries.
    pub state: WebhookState,
}

impl WebhookRegistration {
    /// Whether deliveries may still be owed.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, WebhookState::Active | WebhookState::Failing(_))
    }

    /// Returns the failure that the state holds.
    pub const fn failure(&self) -> Option<&WebhookFailure> {
        match &self.state {
            WebhookState::Failing(failure) | WebhookState::GivenUp(failure) => Some(failure),
            WebhookState::Active | WebhookState::Over => None,
        }
    }

    /// Returns the secret values that deliveries need.
    pub fn secrets(&self) -> impl Iterator<Item = KeptSecret> + '_ {
        self.webhook.token.iter().chain(&self.webhook.credentials).copied()
    }
}

/// The webhooks of a task, oldest registration first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookBook {
    pub(super) all: Vec<WebhookRegistration>,
    /// The number of registrations so far.
    pub(super) count: u32,
}

impl WebhookBook {
    /// Returns the registrations.
    pub fn iter(&self) -> impl Iterator<Item = &WebhookRegistration> {
        self.all.iter()
    }

    /// Returns the registration with an id.
    pub fn get(&self, id: &str) -> Option<&WebhookRegistration> {
        self.all.iter().find(|known| known.webhook.id == id)
    }

    /// Folds in an event. It never fails, since an event is a fact.
    pub(super) fn fold(&mut self, event: &WebhookEvent, by: &Principal, at: Timestamp) {
        let place = self.all.iter().position(|known| known.webhook.id == event.id());
        let known = place.and_then(|place| self.all.get_mut(place));
        match (event, known) {
            (WebhookEvent::Set(webhook), known) => {
                self.count = self.count.saturating_add(1);
                let registered = WebhookRegistration {
                    webhook: Webhook::clone(webhook),
                    number: self.count,
                    by: by.clone(),
                    since: at,
                    through: webhook.after,
                    state: WebhookState::Active,
                };
                match known {
                    Some(known) => *known = registered,
                    None => self.all.push(registered),
                }
            }
            (WebhookEvent::Removed { .. }, Some(_)) => {
                self.all.retain(|known| known.webhook.id != event.id());
            }
            (WebhookEvent::Delivered { through, is_over, .. }, Some(known)) => {
                known.through = known.through.max(*through);
                known.state = if *is_over { WebhookState::Over } else { WebhookState::Active };
            }
            (WebhookEvent::Failed { attempts, error, gives_up, .. }, Some(known)) => {
                let failure = WebhookFailure { attempts: *attempts, error: error.clone(), at };
                known.state =
                    if *gives_up { WebhookState::GivenUp(failure) } else { WebhookState::Failing(failure) };
            }
            (_, None) => {}
        }
    }
}
