//! A run with its live events: the answer as it grows, with nothing missed, until the run ends.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use proto_events::id::check_id;
use taskreel_log::read::{Step, Steps};

use crate::error::Error;
use crate::live::LiveFeed;
use crate::live::event::Live;
use crate::system::handles::{TaskHandle, TaskSnapshot};
use crate::system::input::TaskInput;
use crate::system::session::SessionHandle;
use crate::system::tasks::with_new_id;
use crate::tools::future::BoxFuture;

/// An event of a run for the person who waits for it, see [`SessionHandle::send_live`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunEvent {
    /// The next piece of the answer, without the model's grammar. Pieces of one call follow one another without a gap. What a
    /// model says beside its tool calls comes in this way too; the answer of the run is that of the last call.
    Answer {
        /// The inference that answers.
        call_id: Arc<str>,
        /// The piece.
        text: String,
    },
    /// The pieces of this inference are void: it is made again, or its answer is another one.
    Void {
        /// The inference.
        call_id: Arc<str>,
    },
    /// A tool reports its progress. Reports may be dropped.
    Progress {
        /// The call.
        call_id: Arc<str>,
        /// The tool's own text.
        text: Arc<str>,
    },
    /// The run has ended: the task is over, or waits for a person. It is the last event.
    Ended(TaskSnapshot),
}

/// The events of a run that was sent with [`SessionHandle::send_live`]. A stream, which ends with the run.
#[derive(Debug)]
pub struct LiveRun {
    task: TaskHandle,
    steps: Steps<RunFollower>,
}

/// The reading of a run.
struct RunFollower {
    feed: LiveFeed,
    end: Option<BoxFuture<'static, Result<TaskSnapshot, Error>>>,
    /// The answer that is being told: its call and attempt, and the text so far.
    told: Option<AnswerSoFar>,
    ready: VecDeque<RunEvent>,
}

#[derive(Debug)]
struct AnswerSoFar {
    call_id: Arc<str>,
    attempt: u32,
    text: String,
}

impl SessionHandle {
    /// Sends as [`SessionHandle::send`], and returns the run's events from its first moment on.
    ///
    /// # Errors
    /// As [`SessionHandle::send`].
    pub async fn send_live(&self, input: impl Into<TaskInput>) -> Result<LiveRun, Error> {
        check_id(self.id())?;
        let (system, input): (_, TaskInput) = (self.system().get()?, input.into());
        let makes_ids = system.makes_ids_of(&input);
        let (system, input) = (&system, &input);
        let sent = move || async move {
            let (posted, cause) = system.prepared(input.clone(), Some(self.id()))?;
            // Listened to before it begins, so that nothing is missed.
            let feed = system.task(&posted.id)?.live();
            Ok(LiveRun::new(system.submit_as(posted, cause).await?, feed))
        };
        if makes_ids { with_new_id(sent).await } else { sent().await }
    }
}

impl LiveRun {
    fn new(task: TaskHandle, feed: LiveFeed) -> Self {
        let waited = task.clone();
        let end: BoxFuture<'static, _> = Box::pin(async move { waited.finished().await });
        let running = RunFollower { feed, end: Some(end), told: None, ready: VecDeque::new() };
        Self { task, steps: Steps::new(running) }
    }

    /// The task.
    pub fn task(&self) -> &TaskHandle {
        &self.task
    }

    /// Waits for the next event; `None` after [`RunEvent::Ended`] or an error. Cancel-safe.
    ///
    /// # Errors
    /// As [`TaskHandle::finished`]; no event follows.
    pub async fn next(&mut self) -> Option<Result<RunEvent, Error>> {
        self.steps.next().await
    }
}

impl Stream for LiveRun {
    type Item = Result<RunEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.steps.poll_step(cx)
    }
}

impl Step for RunFollower {
    type Item = Result<RunEvent, Error>;

    async fn step(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let end = self.end.as_mut()?;
            let ended = tokio::select! {
                biased;
                live = self.feed.next() => match live {
                    Some(live) => {
                        self.on_live(live);
                        continue;
                    }
                    None => end.await,
                },
                ended = &mut *end => ended,
            };
            self.end = None;
            match ended {
                Ok(end) => self.on_end(end),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl RunFollower {
    fn on_live(&mut self, live: Live) {
        match live {
            Live::Began { call_id, attempt } => {
                if self.told.as_ref().is_some_and(|told| told.call_id == call_id && told.attempt != attempt) {
                    self.void();
                }
            }
            Live::Answer { call_id, attempt, at, text } => self.answer(call_id, attempt, at, &text),
            Live::Progress { call_id, text, .. } => {
                self.ready.push_back(RunEvent::Progress { call_id, text });
            }
            Live::Delta { .. } | Live::ContextReduced { .. } | Live::Waiting { .. } | Live::Lost { .. } => {}
        }
    }

    fn answer(&mut self, call_id: Arc<str>, attempt: u32, at: usize, text: &str) {
        let is_known =
            self.told.as_ref().is_some_and(|told| told.call_id == call_id && told.attempt == attempt);
        if !is_known {
            // The word that another attempt began may have been lost.
            if self.told.as_ref().is_some_and(|told| told.call_id == call_id) {
                self.void();
            }
            self.told = Some(AnswerSoFar { call_id: Arc::clone(&call_id), attempt, text: String::new() });
        }
        let Some(told) = &mut self.told else { return };
        // After lost pieces the rest follows at the end.
        if told.text.len() == at {
            told.text.push_str(text);
            self.ready.push_back(RunEvent::Answer { call_id, text: text.to_owned() });
        }
    }

    fn void(&mut self) {
        if let Some(told) = self.told.take().filter(|told| !told.text.is_empty()) {
            self.ready.push_back(RunEvent::Void { call_id: told.call_id });
        }
    }

    /// Tells what is left of the answer, and the end.
    fn on_end(&mut self, end: TaskSnapshot) {
        while let Some(live) = self.feed.try_next() {
            self.on_live(live);
        }
        let last = end.task().calls().iter().rev().find(|call| call.request.prompt.is_some());
        let answer = end.answer().map(|answer| answer.to_str().unwrap_or_else(|| answer.to_string()));
        let is_inferred = end.task().last_item().is_some_and(|item| {
            end.task().parts(item).last().is_some_and(|part| part.kind() == "infer_output")
        });
        if let (Some(call), Some(answer), true) = (last, answer, is_inferred) {
            let call_id: Arc<str> = Arc::from(call.request.call_id.as_str());
            if self.told.as_ref().is_some_and(|told| told.call_id != call_id) {
                self.told = None;
            }
            let known = self.told.as_ref().map(|told| told.text.as_str()).unwrap_or_default();
            let rest = answer.strip_prefix(known).map(str::to_owned);
            let rest = rest.unwrap_or_else(|| {
                self.void();
                answer
            });
            if !rest.is_empty() {
                self.ready.push_back(RunEvent::Answer { call_id, text: rest });
            }
        }
        self.ready.push_back(RunEvent::Ended(end));
    }
}
