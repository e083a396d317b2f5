//! The settings of the handler, and the extensions that a card declares.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use proto_events::json::JsonObject;
use tokio::sync::{Mutex, MutexGuard};

use crate::a2a::card_parts::card_cache::KeptCards;
use crate::a2a::card_parts::card_signature::CardKey;
use crate::a2a::card_parts::schemes::CardScheme;
use crate::a2a::push::PushDeliveries;
use crate::a2a::version::Version;

/// The settings of the handler.
#[derive(Debug, Clone, Default)]
pub(crate) struct A2aSettings {
    /// The address under which clients reach the root, if it is not the one of their requests.
    pub(crate) url: Option<String>,
    /// The ways in which callers present credentials; none if they present none.
    pub(crate) schemes: Vec<CardScheme>,
    /// The time for which a stream waits for a message that answers without a task; `None` if it shows the task at once.
    pub(crate) reply_wait: Option<Duration>,
    /// The only version that is spoken, if not all are.
    pub(crate) only: Option<Version>,
    /// The media types that messages may have; empty if all are taken.
    pub(crate) input_modes: Vec<String>,
    /// The media types of results; empty if they may be of any.
    pub(crate) output_modes: Vec<String>,
    /// The extensions of the host's own.
    pub(crate) extensions: Vec<Extension>,
    /// The skills that the public card shows; `None` if it shows all.
    pub(crate) public_skills: Option<Vec<String>>,
    /// The key by which cards are signed.
    pub(crate) key: Option<Arc<CardKey>>,
    /// The deliveries to webhooks, if there are any.
    pub(crate) push: Option<PushDeliveries>,
    /// The host and port of gRPC, once it is served.
    pub(crate) grpc: Arc<OnceLock<String>>,
    /// The tasks for which a message with a key is being taken.
    pub(crate) taking: Arc<TaskLocks>,
    /// The cards as they were made last.
    pub(crate) kept: Arc<KeptCards>,
}

impl A2aSettings {
    /// Whether callers present credentials.
    pub(crate) fn is_secured(&self) -> bool {
        !self.schemes.is_empty()
    }

    /// Whether a version is spoken.
    pub(crate) fn speaks(&self, version: Version) -> bool {
        self.only.is_none_or(|only| only == version)
    }

    /// Returns the URI of a required extension that is not one of these.
    pub(crate) fn lacking<'a>(&'a self, named: &[String]) -> Option<&'a str> {
        let required = self.extensions.iter().filter(|extension| extension.required);
        required.map(|extension| extension.uri.as_str()).find(|uri| !named.iter().any(|named| named == uri))
    }
}

/// The number of locks that tasks share.
const LOCKS: usize = 64;

/// The locks of tasks, each shared by a few: of two messages with one key to one task the second one sees the first.
#[derive(Debug)]
pub(crate) struct TaskLocks(Vec<Mutex<()>>);

impl Default for TaskLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::default()).collect())
    }
}

impl TaskLocks {
    /// Waits until nobody else takes a message with a key for this task; `None` only where locks are not kept.
    pub(crate) async fn lock(&self, task: &str) -> Option<MutexGuard<'_, ()>> {
        let sum = task.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Some(self.0.get(sum % LOCKS)?.lock().await)
    }
}

/// An extension that an agent's card declares.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extension {
    /// The URI, by which clients name it.
    pub uri: String,
    /// The description.
    pub description: String,
    /// Whether the agent answers only clients that name it.
    pub required: bool,
    /// The parameters; empty without any.
    pub params: JsonObject,
}

impl Extension {
    /// Returns an extension that clients may use.
    pub fn new(uri: &str, description: &str) -> Self {
        let (uri, description) = (uri.to_owned(), description.to_owned());
        Self { uri, description, required: false, params: JsonObject::new() }
    }

    /// Lets the agent answer only clients that name the extension in `A2A-Extensions`.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }
}
