//! The asking: a question is sent, and sent again where that is safe.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use proto_events::json::JsonText;

use crate::a2a::client::auth::ShownCredentials;
use crate::a2a::client::call::{AgentQuestion, WrittenQuestion, json, misread, unreadable};
use crate::a2a::client::card::Interface;
use crate::a2a::client::error::A2aError;
use crate::a2a::client::tap::{ObservedEvents, OpenedAnswer, Tap};
use crate::a2a::model::{Event, Task};
use crate::a2a::ops::operation::A2aOperation;
use crate::a2a::version::HEADER;
use crate::a2a::wire::{DataForm, read};
use crate::client::transport;
use crate::limits::{A2A_RETRY_AFTER_MAX, REPEAT_FIRST, REPEAT_LONGEST};

/// The way to an agent, with all that a question needs.
#[derive(Debug, Clone)]
pub(crate) struct AgentConnection {
    pub(crate) http: transport::Client,
    pub(crate) interface: Interface,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The credentials that the card's schemes ask for.
    pub(crate) shown: ShownCredentials,
    pub(crate) attempts: u32,
    pub(crate) tap: Tap,
    /// The version that requests name, where it is another than the interface's.
    pub(crate) signaled: Option<HeaderValue>,
}

/// The events of an answer.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The stream; none where the answer is not a stream.
    pieces: Option<ObservedEvents>,
    /// The event in an answer that is not a stream.
    first: Option<Event>,
    written: WrittenQuestion,
    form: DataForm,
}

/// Returns the pause before what failed so many times is tried again.
pub(crate) fn pause(failed: u32) -> Duration {
    REPEAT_FIRST.saturating_mul(1 << failed.saturating_sub(1).min(10)).min(REPEAT_LONGEST)
}

impl AgentConnection {
    /// Writes a question, with what the client shows of itself.
    fn written(&self, asked: &AgentQuestion) -> Result<WrittenQuestion, A2aError> {
        let mut written = self.interface.written(asked, &self.headers)?;
        let headers = &mut written.exchange.headers;
        headers.extend(self.shown.headers.iter().cloned());
        if let Some(version) = &self.signaled {
            let named = headers.iter_mut().filter(|(name, _)| name == HEADER);
            named.for_each(|(_, value)| value.clone_from(version));
        }
        Ok(written)
    }

    /// Asks, and returns the result.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn ask(&self, asked: &AgentQuestion) -> Result<JsonText, A2aError> {
        let mut failed = 0;
        loop {
            // A new id each time: the answer to an earlier one is never taken for that of this one.
            let written = self.written(asked)?;
            let (answer, wanted) = match self.tap.exchange(&self.http, &written.exchange).await {
                Ok(answered) => (written.result(&answered), answered.retry_after()),
                Err(error) => (Err(error), None),
            };
            match answer {
                Err(error) => self.wait_to_repeat(asked, error, wanted, &mut failed).await?,
                done => return done,
            }
        }
    }

    /// Asks for events, and returns them once they begin.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn open(&self, asked: &AgentQuestion) -> Result<Frames, A2aError> {
        let mut failed = 0;
        loop {
            match self.open_events(asked).await {
                Err((error, wanted)) => self.wait_to_repeat(asked, error, wanted, &mut failed).await?,
                Ok(frames) => return Ok(frames),
            }
        }
    }

    /// Asks for events once.
    pub(crate) async fn opened(&self, asked: &AgentQuestion) -> Result<Frames, A2aError> {
        self.open_events(asked).await.map_err(|(error, _)| error)
    }

    /// Asks for events once; a failure comes with the time after which the agent wants to be asked again.
    async fn open_events(&self, asked: &AgentQuestion) -> Result<Frames, (A2aError, Option<Duration>)> {
        let written = self.written(asked).map_err(|error| (error, None))?;
        let form = self.interface.form();
        match self.tap.open_stream(&self.http, &written.exchange).await.map_err(|error| (error, None))? {
            OpenedAnswer::Events(pieces) => Ok(Frames { pieces: Some(pieces), first: None, written, form }),
            // An agent that does not stream has carried out the question all the same.
            OpenedAnswer::Whole(answered) => {
                let url = &written.exchange.url;
                let event = written.result(&answered).and_then(|result| {
                    let wrong =
                        |wrong| misread(url, format_args!("it is no stream of events, and {wrong}"), &result);
                    read::event(form, &result, "").map_err(wrong)
                });
                match event {
                    Ok(event) => Ok(Frames { pieces: None, first: Some(event), written, form }),
                    Err(error) => Err((error, answered.retry_after())),
                }
            }
        }
    }

    /// Counts a failure, and waits until the question may be asked once more: as long as the agent wants, where that is not
    /// longer than anybody waits for an answer.
    ///
    /// # Errors
    /// The failure, if the question is not asked again.
    async fn wait_to_repeat(
        &self,
        asked: &AgentQuestion,
        error: A2aError,
        wanted: Option<Duration>,
        failed: &mut u32,
    ) -> Result<(), A2aError> {
        *failed += 1;
        let is_too_long = wanted.is_some_and(|wanted| wanted > A2A_RETRY_AFTER_MAX);
        if !asked.may_repeat() || !error.is_passing() || *failed >= self.attempts || is_too_long {
            return Err(error);
        }
        tokio::time::sleep(wanted.map_or_else(|| pause(*failed), |wanted| wanted.max(pause(*failed)))).await;
        Ok(())
    }

    /// Returns a task as it is.
    pub(crate) async fn task(&self, id: &str) -> Result<Task, A2aError> {
        self.read_task(id, &self.ask(&AgentQuestion::about(A2aOperation::Get, id)).await?)
    }

    /// Reads the task that an answer must be.
    pub(crate) fn read_task(&self, id: &str, json: &JsonText) -> Result<Task, A2aError> {
        let url = &self.interface.url;
        let task = read::task(self.interface.form(), json, "").map_err(|wrong| misread(url, wrong, json))?;
        if task.id == id { Ok(task) } else { Err(unreadable(url, "it is about another task")) }
    }
}

impl Frames {
    /// Returns the next event with its id; `None` at the end.
    ///
    /// # Errors
    /// [`A2aError`].
    pub(crate) async fn next(&mut self) -> Result<Option<(Option<String>, Event)>, A2aError> {
        if let Some(event) = self.first.take() {
            return Ok(Some((None, event)));
        }
        let Some(pieces) = &mut self.pieces else { return Ok(None) };
        let url = &self.written.exchange.url;
        loop {
            let Some(frame) = pieces.next().await? else { return Ok(None) };
            if frame.data.trim().is_empty() {
                continue;
            }
            let json = json(url, frame.data.as_bytes())?;
            let result = self.written.unwrapped(&json, StatusCode::OK)?;
            let event = read::event(self.form, &result, "").map_err(|wrong| misread(url, wrong, &result))?;
            return Ok(Some((frame.id, event)));
        }
    }
}
