//! The events of a task's run, as frames: Protolink's, each with the place after it.

use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use taskreel::{Error, ResumePoint, ResumePointError, System, TaskEvents, TaskStreamEvent, Version};

use crate::auth::owner::check_sender;
use crate::error::Problem;
use crate::protolink::operation_input::OperationInput;
use crate::protolink::tasks::{posted, submit};

/// The frames of a task's run, up to its final one.
pub(crate) struct TaskFrames {
    events: TaskEvents,
    is_over: bool,
}

/// A frame: an event of the run, or the reason why no event follows.
pub(crate) struct TaskFrame {
    /// The place after this frame.
    pub(crate) place: Option<String>,
    /// The event.
    pub(crate) event: Result<TaskStreamEvent, Problem>,
}

/// Accepts a task and returns the frames of its run. A task that is known is not run again: its newest run is shown, or
/// what follows the place after which the client continues.
pub(crate) async fn stream(system: &System, asked: OperationInput) -> Result<TaskFrames, Problem> {
    let posted = posted(&asked)?;
    check_sender(system, &posted.id, asked.caller.as_ref()).await?;
    let task = system.task(&posted.id)?;
    let after: Option<ResumePoint> = asked
        .last_event_id
        .as_deref()
        .map(|place| place.trim().parse())
        .transpose()
        .map_err(|error: ResumePointError| Problem::malformed(format!("`Last-Event-ID`: {error}")))?;
    let known = match task.snapshot().await {
        Ok(known) => known.version(),
        Err(Error::TaskNotFound(_)) => Version(0),
        Err(error) => return Err(error.into()),
    };
    if after.as_ref().is_some_and(|after| after.version() > known) {
        return Err(Problem::malformed("`Last-Event-ID` is a place that the task has not reached"));
    }
    // Listened to before the task begins, so that no piece of an answer is missed.
    let is_resumed = after.is_some();
    let listening = task.events_from(after.unwrap_or_else(|| known.into()));
    submit(system, posted).await?;
    let is_continued = task.snapshot().await?.version() > known;
    let events = if is_resumed || is_continued { listening } else { task.events().await? };
    Ok(TaskFrames { events, is_over: false })
}

impl TaskFrames {
    /// Returns the next frame; `None` after the final one.
    pub(crate) async fn next(&mut self) -> Option<TaskFrame> {
        if self.is_over {
            return None;
        }
        let event = self.events.next().await;
        let place = Some(self.events.resume_point().to_string());
        let frame = match event {
            Some(Ok(event)) => TaskFrame { place, event: Ok(event) },
            Some(Err(error)) => TaskFrame { place: None, event: Err(error.into()) },
            None => TaskFrame { place: None, event: Err(Error::Stopped.into()) },
        };
        self.is_over = frame.is_last();
        Some(frame)
    }
}

impl TaskFrame {
    /// Whether no frame follows.
    pub(crate) fn is_last(&self) -> bool {
        self.event.as_ref().map_or(true, TaskStreamEvent::is_last)
    }

    /// Returns the frame in Protolink's form, without its id. `head` are the members that stand before the others.
    pub(crate) fn to_json(&self, head: JsonObject) -> JsonText {
        let mut fields = head;
        let boolean = |yes: bool| JsonText::from(proto_events::json::JsonValue::from(yes));
        fields.set("ok", boolean(self.event.is_ok()));
        match &self.event {
            Ok(event) => fields.set("result", event.to_json()),
            Err(problem) => fields.set("error", error_of(problem)),
        }
        fields.set("final", boolean(self.is_last()));
        fields.to_text()
    }
}

/// Returns a problem as an error of Protolink's frames, with the name of the exception that Protolink has for it.
pub(crate) fn error_of(problem: &Problem) -> JsonText {
    let kind = match problem.code() {
        "malformed" => "ValueError",
        "not_found" => "TaskNotFoundError",
        "not_cancelable" => "TaskNotCancelableError",
        "already_running" => "TaskAlreadyRunningError",
        _ => "RuntimeError",
    };
    JsonText::from(json!({"message": problem.message(), "type": kind, "code": problem.code()}))
}
