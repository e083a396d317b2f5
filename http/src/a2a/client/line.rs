//! The asking: a question is sent, and sent again where that is safe.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use proto_events::json::JsonText;

use crate::a2a::client::call::{Asked, Written, json, unreadable};
use crate::a2a::client::card::Interface;
use crate::a2a::client::error::A2aError;
use crate::a2a::client::tap::{Opened, Tap, Watched};
use crate::a2a::model::{Event, Task};
use crate::a2a::ops::operation::Operation;
use crate::a2a::version::HEADER;
use crate::a2a::wire::{Form, read};
use crate::client::transport;
use crate::limits::{REPEAT_FIRST, REPEAT_LONGEST};

/// The way to an agent, with all that a question needs.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) http: transport::Client,
    pub(crate) interface: Interface,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) attempts: u32,
    pub(crate) tap: Tap,
    /// The version that requests name, where it is another than the interface's.
    pub(crate) signaled: Option<HeaderValue>,
}

/// The events of an answer.
#[derive(Debug)]
pub(crate) struct Frames {
    pieces: Watched,
    written: Written,
    form: Form,
}

/// Returns the pause before what failed so many times is tried again.
pub(crate) fn pause(failed: u32) -> Duration {
    REPEAT_FIRST.saturating_mul(1 << failed.saturating_sub(1).min(10)).min(REPEAT_LONGEST)
}

impl Line {
    /// Asks, and returns the result.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn ask(&self, asked: &Asked) -> Result<JsonText, A2aError> {
        let mut failed = 0;
        loop {
            // A new id each time: the answer to an earlier one is never taken for that of this one.
            let written = self.written(asked)?;
            let answered = self.tap.exchange(&self.http, &written.exchange).await;
            match answered.and_then(|answered| written.result(&answered)) {
                Err(error) if self.is_worth_repeating(asked, &error, &mut failed) => {
                    tokio::time::sleep(pause(failed)).await;
                }
                done => return done,
            }
        }
    }

    /// Asks for events, and returns them once they begin.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn open(&self, asked: &Asked) -> Result<Frames, A2aError> {
        let mut failed = 0;
        loop {
            match self.opened(asked).await {
                Err(error) if self.is_worth_repeating(asked, &error, &mut failed) => {
                    tokio::time::sleep(pause(failed)).await;
                }
                done => return done,
            }
        }
    }

    /// Asks for events once.
    pub(crate) async fn opened(&self, asked: &Asked) -> Result<Frames, A2aError> {
        let written = self.written(asked)?;
        match self.tap.begin(&self.http, &written.exchange).await? {
            Opened::Events(pieces) => Ok(Frames { pieces, written, form: self.interface.form() }),
            Opened::Whole(answered) => {
                written.result(&answered)?;
                Err(unreadable(&written.exchange.url, "it is no stream of events"))
            }
        }
    }

    fn written(&self, asked: &Asked) -> Result<Written, A2aError> {
        let mut written = self.interface.written(asked, &self.headers)?;
        if let Some(version) = &self.signaled {
            let headers = written.exchange.headers.iter_mut();
            headers.filter(|(name, _)| name == HEADER).for_each(|(_, value)| value.clone_from(version));
        }
        Ok(written)
    }

    /// Counts a failure, and tells whether the question is asked once more.
    fn is_worth_repeating(&self, asked: &Asked, error: &A2aError, failed: &mut u32) -> bool {
        *failed += 1;
        asked.may_repeat() && error.is_passing() && *failed < self.attempts
    }

    /// Returns a task as it is.
    pub(crate) async fn task(&self, id: &str) -> Result<Task, A2aError> {
        self.read_task(id, &self.ask(&Asked::about(Operation::Get, id)).await?)
    }

    /// Reads the task that an answer must be.
    pub(crate) fn read_task(&self, id: &str, json: &JsonText) -> Result<Task, A2aError> {
        let url = &self.interface.url;
        let task = read::task(self.interface.form(), json, "").map_err(|wrong| unreadable(url, wrong))?;
        if task.id == id { Ok(task) } else { Err(unreadable(url, "it is about another task")) }
    }
}

impl Frames {
    /// Returns the next event with its id; `None` at the end.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn next(&mut self) -> Result<Option<(Option<String>, Event)>, A2aError> {
        let url = &self.written.exchange.url;
        loop {
            let Some(frame) = self.pieces.next().await? else { return Ok(None) };
            if frame.data.trim().is_empty() {
                continue;
            }
            let json = json(url, frame.data.as_bytes())?;
            let result = self.written.unwrapped(&json, StatusCode::OK)?;
            let event = read::event(self.form, &result, "").map_err(|wrong| unreadable(url, wrong))?;
            return Ok(Some((frame.id, event)));
        }
    }
}
