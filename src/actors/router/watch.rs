//! Watching one attempt from its first step to its end: it may end by itself, take too long, or be canceled. A tool that
//! is to stop is told so, has a moment to come to an end, and is then dropped; a model's answer is dropped at once.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::{Context, Handler, Message, Recipient};
use proto_events::call::FailureClass;
use tokio::task::{JoinError, JoinHandle};

use super::{Key, Router, failed};
use crate::actors::messages::AttemptEnd;
use crate::actors::places::Place;
use crate::actors::spans::{self, Within};
use crate::agent::tool::Cancellation;
use crate::ports::Clock;

/// Something about an attempt that was sent.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Watched {
    pub(super) key: Key,
    pub(super) attempt: u32,
    pub(super) target: String,
    /// How it ended, if it did so in a way that is to be told.
    pub(super) end: Option<AttemptEnd>,
    /// It was given up before.
    pub(super) late: bool,
    /// Its work is over, or was left behind.
    pub(super) over: bool,
    pub(super) span: Within,
}

/// What is needed to watch an attempt.
pub(super) struct Watch {
    pub(super) key: Key,
    pub(super) attempt: u32,
    pub(super) target: String,
    pub(super) work: JoinHandle<AttemptEnd>,
    pub(super) began: Arc<AtomicBool>,
    pub(super) cancellation: Cancellation,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) bound: Duration,
    /// How long it may go on after it was told to stop.
    pub(super) grace: Duration,
    /// Whether it can be dropped at all: what runs on a thread of its own ends when it ends.
    pub(super) can_be_dropped: bool,
    /// Given back when the work is over.
    pub(super) place: Option<Place>,
    pub(super) span: Within,
    pub(super) tell: Recipient<Watched>,
}

/// Which of the things happened that an attempt waits for.
enum Happened {
    Ended(Result<AttemptEnd, JoinError>),
    TimeUp,
    Canceled,
}

impl Watch {
    /// Watches until the work is over.
    pub(super) async fn run(mut self) {
        match self.first().await {
            Happened::Ended(Ok(end)) => self.say(Some(end), false, true),
            Happened::Ended(Err(error)) => self.say(Some(broken(&error, &self.began)), false, true),
            Happened::TimeUp => {
                let after_ms = u64::try_from(self.bound.as_millis()).unwrap_or(u64::MAX);
                self.cancellation.cancel();
                let late = self.settle().await;
                // Told when nothing runs any more that can be stopped: what runs next must not run beside it.
                let over = late.is_none() && self.can_be_dropped;
                self.say(Some(AttemptEnd::TimedOut { after_ms }), false, over);
                match late {
                    Some(end) => self.say(Some(end), true, true),
                    None if over => {}
                    None => self.wait_for_the_last().await,
                }
            }
            Happened::Canceled => match self.settle().await {
                // The outcome is on disk already: this is evidence.
                Some(end) => self.say(Some(end), true, true),
                None if self.can_be_dropped => self.say(None, true, true),
                None => self.wait_for_the_last().await,
            },
        }
        let _given_back = self.place.take();
    }

    async fn first(&mut self) -> Happened {
        let time = self.clock.sleep(self.bound);
        tokio::select! {
            biased;
            ended = Pin::new(&mut self.work) => Happened::Ended(ended),
            () = self.cancellation.canceled() => Happened::Canceled,
            () = time => Happened::TimeUp,
        }
    }

    /// Lets the work come to an end by itself for a moment; then it is dropped, if it can be.
    async fn settle(&mut self) -> Option<AttemptEnd> {
        if !self.grace.is_zero() {
            let time = self.clock.sleep(self.grace);
            tokio::select! {
                biased;
                ended = Pin::new(&mut self.work) => return ended.ok(),
                () = time => {}
            }
        }
        if self.can_be_dropped {
            self.work.abort();
            return Pin::new(&mut self.work).await.ok();
        }
        None
    }

    /// Work that cannot be dropped comes to its end at some time.
    async fn wait_for_the_last(&mut self) {
        let end = Pin::new(&mut self.work).await.ok();
        self.say(end, true, true);
    }

    fn say(&self, end: Option<AttemptEnd>, late: bool, over: bool) {
        let (key, target) = (self.key.clone(), self.target.clone());
        let (attempt, span) = (self.attempt, self.span.clone());
        self.tell.do_send(Watched { key, attempt, target, end, late, over, span });
    }
}

impl Handler<Watched> for Router {
    type Result = ();

    fn handle(&mut self, watched: Watched, _: &mut Context<Self>) {
        let Watched { key, attempt, target, end, late, over, span } = watched;
        if let Some(end) = end {
            if !late {
                self.note_end(&target, &end);
                spans::note_end(&span, &end);
            }
            self.finish(&key, attempt, end, late, span);
        } else {
            self.breakers.let_go(&target);
            self.tell_drained();
        }
        if over {
            self.ended();
        }
    }
}

/// The work never ran to its end, and not because of us. If it began, nobody can say what it did.
fn broken(error: &JoinError, began: &AtomicBool) -> AttemptEnd {
    if began.load(Ordering::Acquire) {
        return AttemptEnd::Lost { why: format!("the call was cut off: {error}") };
    }
    if error.is_cancelled() {
        let text = "the runtime for calls has ended; start the system on one that lives as long as it does";
        return failed(FailureClass::BeforeEffect, "RuntimeGone", text);
    }
    failed(FailureClass::AfterEffect, "Interrupted", &format!("the call was interrupted: {error}"))
}
