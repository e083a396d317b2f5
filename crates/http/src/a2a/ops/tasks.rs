//! Reading, canceling and following a task.

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::events::{Begin, Events};
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::model::Task;
use crate::a2a::pieces::AnswerPieces;
use crate::a2a::place::TaskPlace;
use crate::a2a::task_projection::{Extent, show_now};
use crate::a2a::wire::DataForm;
use crate::a2a::wire::fields::{Invalid, WireFields};

/// Reads the number of the newest messages that are shown; `None` is all of them.
pub(crate) fn history(fields: &WireFields) -> Result<Option<usize>, Invalid> {
    let Some(number) = fields.number("historyLength")? else { return Ok(None) };
    let number = usize::try_from(number);
    number.map(Some).map_err(|_| fields.wrong("historyLength", "must not be negative"))
}

/// Returns a task.
pub(crate) async fn get(asking: &A2aRequest, fields: &WireFields) -> Result<Task, A2aFailure> {
    let extent = Extent { history: history(fields)?, ..Extent::ALL };
    let (_, snapshot) = asking.task(&fields.needed("id")?).await?;
    Ok(show_now(&snapshot, extent))
}

/// Cancels a task and returns it. One that was canceled before is returned as it is.
pub(crate) async fn cancel(asking: &A2aRequest, fields: &WireFields) -> Result<Task, A2aFailure> {
    let (task, _) = asking.task(&fields.needed("id")?).await?;
    task.cancel(None).await?;
    let snapshot = task.snapshot().await?;
    Ok(show_now(&snapshot, Extent::ALL))
}

/// Returns the events of a task: the task as it is and what follows, or what follows a place. A task that is over is not
/// followed; only what comes after a place in it is told. 0.3 over JSON-RPC has no such rule: its clients send, and then follow a
/// task that may be over by then, and take an error for one of the message. They get the task as the only event.
pub(crate) async fn subscribe(asking: &A2aRequest, fields: &WireFields) -> Result<Events, A2aFailure> {
    let id = fields.needed("id")?;
    let (task, snapshot) = asking.task(&id).await?;
    // Listened to before the log is read, so that no piece of an answer is missed.
    let feed = task.live();
    let mut told = None;
    let begin = match asking.after.as_deref() {
        Some(place) => {
            let TaskPlace { version, told: answer, .. } = TaskPlace::read(place, &id)?;
            told = answer;
            if version > snapshot.version() {
                let what = "must be a place that the task has reached";
                return Err(Invalid::new("Last-Event-ID", what).into());
            }
            Begin::After(version)
        }
        None if snapshot.state().is_terminal() && asking.form != DataForm::V03 => {
            let text = format!("the task is {}; nothing of it follows", snapshot.state());
            return Err(A2aFailure::new(FailureKind::UnsupportedOperation, text).with("taskId", &id));
        }
        None => Begin::With(snapshot.version()),
    };
    let pieces = AnswerPieces::new(task.clone(), feed, told);
    Ok(Events::new(&asking.system, &task, begin, false, asking.stopping.clone()).with_pieces(pieces))
}
