//! The watch over one attempt from its first step to its end: it may end by itself, time out, or be canceled.
//! A tool that is to stop is signaled, given a grace period, and then dropped; a model's answer is dropped at
//! once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix::{Message, Recipient};
use proto_events::call::{FailureClass, TimeLimit};
use proto_events::id::StreamId;
use taskreel_log::ports::Clock;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};

use crate::actors::router::attempt_context::failed;
use crate::actors::shared::messages::AttemptEnd;
use crate::actors::shared::permits::AttemptPermit;
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::within::Within;
use crate::limits::DROP_WITHIN;
use crate::tools::panics::caught_in;
use crate::tools::tool::Cancellation;

/// A report about an attempt that was sent.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AttemptReport {
    pub(crate) key: Key,
    pub(crate) attempt: u32,
    pub(crate) target: String,
    /// The outcome, if it is to be reported.
    pub(crate) end: Option<AttemptEnd>,
    /// Whether the attempt was given up before.
    pub(crate) late: bool,
    /// Whether the attempt's work has ended, or was abandoned.
    pub(crate) over: bool,
    pub(crate) span: Within,
}

/// The data needed to watch an attempt.
pub(crate) struct Watch {
    pub(crate) key: Key,
    pub(crate) attempt: u32,
    pub(crate) target: String,
    pub(crate) work: JoinHandle<AttemptEnd>,
    pub(crate) began: Arc<AtomicBool>,
    pub(crate) cancellation: Cancellation,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bound: Duration,
    /// The longest time without progress, and the notice of each report of it.
    pub(crate) heartbeat: Option<(Duration, Arc<Notify>)>,
    /// The grace period after the signal to stop.
    pub(crate) grace: Duration,
    /// Whether the work can be dropped: work on a thread of its own ends only by itself.
    pub(crate) can_be_dropped: bool,
    /// The permit, given back when the work is over.
    pub(crate) permit: Option<AttemptPermit>,
    /// The number of attempts that were given up and go on.
    pub(crate) stuck: Arc<AtomicUsize>,
    pub(crate) span: Within,
    pub(crate) tell: Recipient<AttemptReport>,
}

/// The first event of those that end the wait for an attempt.
enum WatchEvent {
    Ended(Result<AttemptEnd, JoinError>),
    TimeoutReached(TimeLimit),
    Canceled,
}

/// The state of an attempt's work after its grace period.
enum GraceEnd {
    Ended(AttemptEnd),
    /// The work was cut off, or panicked: nothing is left to wait for.
    Dropped,
    /// The work cannot be dropped, or was not in time, and goes on.
    Running,
}

impl GraceEnd {
    fn from_join(ended: Result<AttemptEnd, JoinError>) -> Self {
        ended.map_or(Self::Dropped, Self::Ended)
    }
}

impl Watch {
    /// Watches until the work is over. If the watch itself panics, the attempt is interrupted and its outcome is lost.
    pub(crate) async fn run(self) {
        let (tell, work) = (self.tell.clone(), self.work.abort_handle());
        let (key, attempt, target) = (self.key.clone(), self.attempt, self.target.clone());
        if let Err(panic) = caught_in(self.watch()).await {
            work.abort();
            let end = Some(AttemptEnd::Lost { why: format!("the watch over the call panicked: {panic}") });
            let (late, over, span) = (false, true, Within::default());
            tell.do_send(AttemptReport { key, attempt, target, end, late, over, span });
        }
    }

    async fn watch(mut self) {
        match self.next_event().await {
            WatchEvent::Ended(Ok(end)) => self.report(Some(end), false, true),
            WatchEvent::Ended(Err(error)) => self.report(Some(join_error(&error, &self.began)), false, true),
            WatchEvent::TimeoutReached(limit) => {
                let silence = self.heartbeat.as_ref().map(|(silence, _)| *silence);
                let bound = silence.filter(|_| limit == TimeLimit::Heartbeat).unwrap_or(self.bound);
                let after_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
                self.cancellation.cancel();
                let grace = self.end_within_grace().await;
                // Reported once no work is left that can be stopped: the next attempt must not run at the
                // same time.
                let dropped = matches!(grace, GraceEnd::Dropped);
                self.report(Some(AttemptEnd::TimedOut { after_ms, limit }), false, dropped);
                match grace {
                    GraceEnd::Ended(end) => self.report(Some(end), true, true),
                    GraceEnd::Dropped => {}
                    GraceEnd::Running => self.wait_for_end().await,
                }
            }
            WatchEvent::Canceled => match self.end_within_grace().await {
                // The outcome is on disk already; a late one is evidence.
                GraceEnd::Ended(end) => self.report(Some(end), true, true),
                GraceEnd::Dropped => self.report(None, true, true),
                GraceEnd::Running => {
                    // Nobody waits for its answer: another attempt may be the trial of an open circuit.
                    self.report(None, true, false);
                    self.wait_for_end().await;
                }
            },
        }
        let _permit = self.permit.take();
    }

    async fn next_event(&mut self) -> WatchEvent {
        let clock = Arc::clone(&self.clock);
        let time = sleep_on(&clock, self.bound);
        let silence = silence(&clock, self.heartbeat.as_ref());
        tokio::select! {
            biased;
            ended = Pin::new(&mut self.work) => WatchEvent::Ended(ended),
            () = self.cancellation.canceled() => WatchEvent::Canceled,
            () = time => WatchEvent::TimeoutReached(TimeLimit::Attempt),
            () = silence => WatchEvent::TimeoutReached(TimeLimit::Heartbeat),
        }
    }

    /// Waits for the grace period, then drops the work, if it can be dropped.
    async fn end_within_grace(&mut self) -> GraceEnd {
        if !self.grace.is_zero() {
            let clock = Arc::clone(&self.clock);
            let time = sleep_on(&clock, self.grace);
            tokio::select! {
                biased;
                ended = Pin::new(&mut self.work) => return GraceEnd::from_join(ended),
                () = time => {}
            }
        }
        if self.can_be_dropped {
            self.work.abort();
            // Work that blocks its thread never reaches the point at which it is dropped.
            let clock = Arc::clone(&self.clock);
            let time = sleep_on(&clock, DROP_WITHIN);
            tokio::select! {
                biased;
                ended = Pin::new(&mut self.work) => return GraceEnd::from_join(ended),
                () = time => {}
            }
        }
        GraceEnd::Running
    }

    /// Waits for work that cannot be dropped, and reports its end. A spare may take the place of its permit.
    async fn wait_for_end(&mut self) {
        let stuck = StuckCall::count(&self.stuck);
        let (target, call_id, in_all) = (&self.target, &self.key.1, self.stuck.load(Ordering::Relaxed));
        tracing::warn!(target, call_id, in_all, "a call that was given up cannot be stopped and goes on");
        if let Some(permit) = &self.permit {
            permit.note_stuck();
        }
        let end = Pin::new(&mut self.work).await.ok();
        drop(stuck);
        self.report(end, true, true);
    }

    fn report(&self, end: Option<AttemptEnd>, late: bool, over: bool) {
        let (key, target) = (self.key.clone(), self.target.clone());
        let (attempt, span) = (self.attempt, self.span.clone());
        self.tell.do_send(AttemptReport { key, attempt, target, end, late, over, span });
    }
}

/// Waits until an attempt has reported no progress for its longest time; for ever if it need not report any.
async fn silence(clock: &Arc<dyn Clock>, heartbeat: Option<&(Duration, Arc<Notify>)>) {
    let Some((silence, beats)) = heartbeat else { return std::future::pending().await };
    loop {
        tokio::select! {
            biased;
            () = beats.notified() => {}
            () = clock.sleep(*silence) => return,
        }
    }
}

/// Returns the outcome of work that did not finish, for a reason other than ours. If it began, its effect is
/// unknown.
fn join_error(error: &JoinError, began: &AtomicBool) -> AttemptEnd {
    if began.load(Ordering::Acquire) {
        return AttemptEnd::Lost { why: format!("the call was cut off: {error}") };
    }
    if error.is_cancelled() {
        let text = "the runtime for calls has ended; start the system on one that lives as long as it does";
        return failed(FailureClass::BeforeEffect, "RuntimeGone", text);
    }
    failed(FailureClass::AfterEffect, "Interrupted", &format!("the call was interrupted: {error}"))
}

pub(crate) type Key = (StreamId, String);

/// An attempt that was given up and goes on, counted.
struct StuckCall(Arc<AtomicUsize>);

impl StuckCall {
    fn count(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for StuckCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
