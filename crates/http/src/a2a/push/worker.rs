//! The deliveries to one registration: one event after another, from the place that the log names.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::task::Task;
use taskreel::TaskHandle;
use taskreel::webhook::{WebhookRegistration, WebhookSecrets};
use taskreel_log::api::StoredRecord;
use taskreel_log::read::fold_stream;
use tokio::sync::{Notify, watch};

use crate::a2a::events::{Begin, Events};
use crate::a2a::model::Event;
use crate::a2a::push::format::{Place, is_of_1};
use crate::a2a::push::means::Means;
use crate::a2a::push::sender::NotDelivered;
use crate::a2a::wire::{DataForm, write};
use crate::limits::{
    PUSH_IDLE, PUSH_NOTED_AFTER, PUSH_PAGE, PUSH_PAUSE_LONGEST, PUSH_QUIET, PUSH_STOP_TIME, PUSH_TOLD_FROM,
};

/// The notes that are tried again before the worker begins anew.
const NOTES_MAX: u32 = 5;

/// The worker of a registration.
pub(crate) struct PushWorker {
    means: Arc<Means>,
    place: Place,
    wake: Arc<Notify>,
    stopping: watch::Receiver<bool>,
}

/// The end of a piece of work.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The worker delivers nothing more.
    Over,
    /// The task was quiet, and was let go.
    Quiet,
}

/// The reason why the work was interrupted.
type Why = String;

/// The deliveries as far as they have come.
struct Progress {
    task: TaskHandle,
    registered: WebhookRegistration,
    secrets: WebhookSecrets,
    /// The version up to which all was delivered.
    delivered: u64,
    /// The version that the log names.
    noted: u64,
    /// The deliveries since then.
    since: u32,
    /// The failed attempts of the next delivery.
    failed: u32,
    /// Whether the log says that the next delivery fails.
    is_failing: bool,
}

impl PushWorker {
    pub(crate) fn new(
        means: Arc<Means>,
        place: Place,
        wake: Arc<Notify>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self { means, place, wake, stopping }
    }

    /// Delivers until nothing more is owed.
    pub(crate) async fn run(mut self) {
        let mut interrupted = 0;
        loop {
            match self.work().await {
                Ok(End::Over) => return,
                Ok(End::Quiet) => interrupted = 0,
                Err(why) => {
                    interrupted += 1;
                    let (stream, webhook) = &self.place;
                    tracing::warn!(%stream, webhook, why, "deliveries to a webhook were interrupted");
                    let pause = self.means.retries.pause(interrupted, chance()).min(PUSH_PAUSE_LONGEST);
                    if self.pause(pause).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits; returns whether the deliveries end.
    async fn pause(&mut self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            () = stopped(&mut self.stopping) => true,
            () = tokio::time::sleep(pause) => false,
        }
    }

    /// Does blocking work on the log.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn taskreel_log::api::EventReader) -> Result<T, taskreel_log::api::ReadError>
        + Send
        + 'static,
    ) -> Result<T, Why> {
        let _turn = self.means.reads.acquire().await.map_err(|error| error.to_string())?;
        let store = self.means.system.log();
        let done = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
        done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// Returns the deliveries as the log names them; `None` if nothing is owed.
    async fn progress(&self) -> Result<Option<Progress>, Why> {
        let (stream, id) = self.place.clone();
        let Some(system) = self.means.system.agent(&stream.agent()) else { return Ok(None) };
        let task = system.task(&stream.id()).map_err(|error| error.to_string())?;
        let folded = self.read(move |log| fold_stream::<Task>(log, &stream, None)).await?;
        let registered = folded.state.webhooks().get(&id).filter(|known| known.is_open()).cloned();
        let Some(registered) = registered else { return Ok(None) };
        let secrets = task.webhook_secrets(&registered).map_err(|error| error.to_string())?;
        let failed = registered.failure().map_or(0, |failure| failure.attempts);
        let mut progress = Progress {
            delivered: registered.through,
            noted: registered.through,
            since: 0,
            failed,
            is_failing: failed > 0,
            secrets: WebhookSecrets::default(),
            task,
            registered,
        };
        let Some(secrets) = secrets else {
            let why = "its token or credentials are not kept beside this log; register it again";
            progress.failed += 1;
            progress.note_failure(why, true).await?;
            return Ok(None);
        };
        progress.secrets = secrets;
        Ok(Some(progress))
    }

    async fn work(&mut self) -> Result<End, Why> {
        let Some(mut progress) = self.progress().await? else { return Ok(End::Over) };
        let mut events = Events::fed(Begin::After(Version(progress.registered.through)));
        let mut next = Version(1);
        loop {
            let stream = self.place.0.clone();
            let page = self.read(move |log| log.read_stream(&stream, next, PUSH_PAGE)).await?;
            if page.is_empty() {
                match self.wait(&mut progress).await? {
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
            for record in &page {
                next = Version(record.record.last_version().0.saturating_add(1));
                if let Some(end) = self.accept_record(&mut progress, &mut events, record).await? {
                    return Ok(end);
                }
            }
        }
    }

    /// Delivers what a record tells.
    async fn accept_record(
        &mut self,
        progress: &mut Progress,
        events: &mut Events,
        record: &StoredRecord,
    ) -> Result<Option<End>, Why> {
        events.feed(record).map_err(|failure| format!("{failure:?}"))?;
        while let Some((version, event)) = events.pop() {
            let is_1 = is_of_1(&progress.registered.webhook.format);
            // 0.3 tells the task as it is: once for a record.
            if !is_1 && events.has_more() {
                continue;
            }
            let (media, body) = if is_1 {
                ("application/a2a+json", write::event(DataForm::V1, &event))
            } else {
                let task = Event::Task(Box::new(events.shown()));
                ("application/json", write::event(DataForm::V03, &task))
            };
            if !self.deliver(progress, media, &body).await? {
                return Ok(Some(End::Over));
            }
            progress.delivered = version.0;
            progress.since += 1;
            if progress.is_failing || progress.since >= PUSH_NOTED_AFTER {
                progress.set_over(false).await?;
            }
            if *self.stopping.borrow() {
                progress.set_over(false).await?;
                return Ok(Some(End::Over));
            }
        }
        if events.is_over() {
            progress.set_over(true).await?;
            return Ok(Some(End::Over));
        }
        Ok(None)
    }

    /// Delivers an event, with as many attempts as it takes. Returns false if the deliveries end.
    async fn deliver(
        &mut self,
        progress: &mut Progress,
        media: &'static str,
        body: &JsonText,
    ) -> Result<bool, Why> {
        loop {
            let NotDelivered { why, is_final, pause } = match self.attempt(progress, media, body).await {
                Some(Ok(())) => {
                    progress.failed = 0;
                    return Ok(true);
                }
                Some(Err(failure)) => failure,
                None => {
                    progress.set_over(false).await?;
                    return Ok(false);
                }
            };
            progress.failed = progress.failed.saturating_add(1);
            let retries = self.means.retries;
            let gives_up = is_final || progress.failed >= retries.attempts;
            if gives_up || progress.failed == PUSH_TOLD_FROM {
                progress.note_failure(&why, gives_up).await?;
            }
            if gives_up {
                return Ok(false);
            }
            let own = retries.pause(progress.failed, chance());
            let pause = pause.map_or(own, |named| named.clamp(own, retries.longest.max(own)));
            if self.pause(pause).await {
                progress.set_over(false).await?;
                return Ok(false);
            }
        }
    }

    /// Tries to deliver an event; `None` if the deliveries end first. A request that is under way then has a moment.
    async fn attempt(
        &self,
        progress: &Progress,
        media: &'static str,
        body: &JsonText,
    ) -> Option<Result<(), NotDelivered>> {
        let (webhook, secrets) = (&progress.registered.webhook, &progress.secrets);
        let sending = self.means.sender.deliver(webhook, secrets, media, body);
        let mut stopping = self.stopping.clone();
        let ends = async move {
            stopped(&mut stopping).await;
            tokio::time::sleep(PUSH_STOP_TIME).await;
        };
        tokio::select! {
            biased;
            sent = sending => Some(sent),
            () = ends => None,
        }
    }

    /// Waits for news of the task, and meanwhile notes the progress.
    async fn wait(&mut self, progress: &mut Progress) -> Result<Option<End>, Why> {
        let is_noted = progress.delivered == progress.noted;
        let quiet = if is_noted { PUSH_IDLE } else { PUSH_QUIET };
        tokio::select! {
            biased;
            () = stopped(&mut self.stopping) => {
                progress.set_over(false).await?;
                return Ok(Some(End::Over));
            }
            () = self.wake.notified() => return Ok(None),
            () = tokio::time::sleep(quiet) => {}
        }
        if !is_noted {
            progress.set_over(false).await?;
            return Ok(None);
        }
        // The task is let go; it is read again once it has news.
        let stop = tokio::select! {
            biased;
            () = stopped(&mut self.stopping) => true,
            () = self.wake.notified() => false,
        };
        Ok(Some(if stop { End::Over } else { End::Quiet }))
    }
}

impl Progress {
    /// Notes the progress, if there is any.
    async fn set_over(&mut self, is_over: bool) -> Result<(), Why> {
        if self.delivered == self.noted && !is_over && !self.is_failing {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            match self.task.webhook_delivered(&self.registered, self.delivered, is_over).await {
                Ok(_) => break,
                Err(error) if tries >= NOTES_MAX => return Err(error.to_string()),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(PUSH_QUIET).await;
        }
        (self.noted, self.since, self.is_failing) = (self.delivered, 0, false);
        Ok(())
    }

    /// Notes that the next delivery fails, after what was delivered before it.
    async fn note_failure(&mut self, why: &str, gives_up: bool) -> Result<(), Why> {
        if self.delivered > self.noted {
            self.set_over(false).await?;
        }
        let why: String = why.chars().take(500).collect();
        let noted = self.task.webhook_failed(&self.registered, self.failed, &why, gives_up).await;
        noted.map_err(|error| error.to_string())?;
        self.is_failing = true;
        Ok(())
    }
}

/// Waits until the deliveries end.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error says that nobody is left to end them: then they have ended.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Returns a number from 0 to 1, another one each time.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}
