//! The settings of push notifications, and the handle on deliveries that go on.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use taskreel::System;
use taskreel::files::Hosts;

use crate::a2a::push::address::{LookUp, Reach, by_system};
use crate::a2a::push::format::Place;
use crate::a2a::push::means::Retries;
use crate::a2a::push::outbox::Outbox;
use crate::a2a::push::sender::Sender;
use crate::client::error::ClientError;
use crate::limits::{PUSH_ATTEMPTS, PUSH_PAUSE_FIRST, PUSH_PAUSE_LONGEST, PUSH_TIME, PUSH_WEBHOOKS_OF_TASK};

/// The settings of push notifications.
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel::System;
/// use taskreel_http::a2a::Push;
/// use taskreel_http::{A2a, Server};
///
/// # async fn run(system: System) -> Result<(), Box<dyn std::error::Error>> {
/// let pushing = Push::new().start(&system)?;
/// let serving =
///     Server::new().mount("/", Arc::new(A2a::new(system.clone()).push(&pushing))).start("127.0.0.1:0").await?;
/// # serving.stop().await?;
/// pushing.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Push {
    hosts: Hosts,
    look_up: Arc<LookUp>,
    per_task: usize,
    timeout: Duration,
    retries: Retries,
}

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hosts, per_task, timeout, retries, .. } = self;
        f.debug_struct("Push")
            .field("hosts", hosts)
            .field("per_task", per_task)
            .field("timeout", timeout)
            .field("retries", retries)
            .finish_non_exhaustive()
    }
}

impl Default for Push {
    fn default() -> Self {
        Self::new()
    }
}

impl Push {
    /// Returns the usual settings: webhooks on the public internet, 10 of a task, 15 seconds for each delivery, and 16 attempts,
    /// with pauses that grow from half a second to ten minutes, which is about an hour.
    pub fn new() -> Self {
        Self {
            hosts: Hosts::Public,
            look_up: Arc::new(by_system),
            per_task: PUSH_WEBHOOKS_OF_TASK,
            timeout: PUSH_TIME,
            retries: Retries {
                attempts: PUSH_ATTEMPTS,
                first: PUSH_PAUSE_FIRST,
                longest: PUSH_PAUSE_LONGEST,
            },
        }
    }

    /// Lets webhooks be on this machine too, at its loopback addresses. A caller that may register a webhook then reaches what
    /// listens there.
    #[must_use]
    pub fn allow_loopback(self) -> Self {
        Self { hosts: Hosts::PublicAndLoopback, ..self }
    }

    /// Sets how names of hosts are looked up. Each address that a name has is checked, and the connection is made to one of
    /// them.
    #[must_use]
    pub fn look_up(self, look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { look_up: Arc::new(look_up), ..self }
    }

    /// Sets the most webhooks of a task.
    #[must_use]
    pub fn per_task(self, webhooks: usize) -> Self {
        Self { per_task: webhooks, ..self }
    }

    /// Sets the time for one delivery, from the connection to the end of the answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the attempts of a delivery, at least one. After the last one nothing more is delivered to that registration, until it
    /// is made anew.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.retries.attempts = attempts.max(1);
        self
    }

    /// Sets the pause after the first failed attempt, and the longest one: each pause is twice the one before it.
    #[must_use]
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        (self.retries.first, self.retries.longest) = (first, longest.max(first));
        self
    }

    /// Begins to deliver, with what the log says is owed. Deliveries go on until [`PushDeliveries::stop`], or until the last clone of
    /// the handle is dropped; of the handlers, each has one. Call it within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::Setup`](crate::protolink::ClientError::Setup) if HTTP cannot be set up.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self, system: &System) -> Result<PushDeliveries, ClientError> {
        let reach = Reach::new(self.hosts, Arc::clone(&self.look_up));
        let sender = Sender::new(reach, self.timeout)?;
        let outbox = Outbox::start(system, sender, self.retries);
        Ok(PushDeliveries(Arc::new(Handle { outbox, per_task: self.per_task })))
    }
}

/// The handle on deliveries to webhooks that go on. Clones are the same deliveries.
#[derive(Debug, Clone)]
pub struct PushDeliveries(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    outbox: Outbox,
    per_task: usize,
}

impl PushDeliveries {
    /// Ends the deliveries: their progress is noted, and a request that is under way is broken off after a moment. What is owed is
    /// delivered after the next start. To be called before the system's shutdown.
    pub async fn stop(&self) {
        self.0.outbox.stop().await;
    }

    /// Checks the address of a webhook, with all that its name stands for now.
    ///
    /// # Errors
    /// A text for the caller that registers it.
    pub(crate) async fn check(&self, address: &str) -> Result<(), String> {
        self.0.outbox.sender().reach.check(address).await
    }

    /// Begins to deliver to a registration that was made or replaced.
    pub(crate) fn set(&self, place: Place) {
        self.0.outbox.set(place);
    }

    /// Ends the deliveries to a registration that was removed.
    pub(crate) fn removed(&self, place: &Place) {
        self.0.outbox.removed(place);
    }

    /// Returns the most webhooks of a task.
    pub(crate) fn per_task(&self) -> usize {
        self.0.per_task
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.outbox.end();
    }
}
