//! Reading, canceling and following a task.

use crate::a2a::asking::Asking;
use crate::a2a::events::{Begin, Events};
use crate::a2a::failure::{Failure, Kind};
use crate::a2a::model::Task;
use crate::a2a::pieces::Pieces;
use crate::a2a::place::Place;
use crate::a2a::shown::{Extent, show_now};
use crate::a2a::wire::Form;
use crate::a2a::wire::fields::{Fields, Invalid};

/// Reads the number of the newest messages that are shown; `None` is all of them.
pub(crate) fn history(fields: &Fields) -> Result<Option<usize>, Invalid> {
    let Some(number) = fields.number("historyLength")? else { return Ok(None) };
    let number = usize::try_from(number);
    number.map(Some).map_err(|_| fields.wrong("historyLength", "must not be negative"))
}

/// Returns a task.
pub(crate) async fn get(asking: &Asking, fields: &Fields) -> Result<Task, Failure> {
    let extent = Extent { history: history(fields)?, ..Extent::ALL };
    let (_, snapshot) = asking.task(&fields.needed("id")?).await?;
    Ok(show_now(&snapshot, extent))
}

/// Cancels a task and returns it. One that was canceled before is returned as it is.
pub(crate) async fn cancel(asking: &Asking, fields: &Fields) -> Result<Task, Failure> {
    let (task, _) = asking.task(&fields.needed("id")?).await?;
    task.cancel(None).await?;
    let snapshot = task.snapshot().await?;
    Ok(show_now(&snapshot, Extent::ALL))
}

/// Returns the events of a task: the task as it is and what follows, or what follows a place. A task that is over is not
/// followed; only what comes after a place in it is told. 0.3 over JSON-RPC has no such rule: its clients send, and then follow a
/// task that may be over by then, and take an error for one of the message. They get the task as the only event.
pub(crate) async fn subscribe(asking: &Asking, fields: &Fields) -> Result<Events, Failure> {
    let id = fields.needed("id")?;
    let (task, snapshot) = asking.task(&id).await?;
    // Listened to before the log is read, so that no piece of an answer is missed.
    let feed = task.live();
    let mut told = None;
    let begin = match asking.after.as_deref() {
        Some(place) => {
            let Place { version, told: answer, .. } = Place::read(place, &id)?;
            told = answer;
            if version > snapshot.version() {
                let what = "must be a place that the task has reached";
                return Err(Invalid::new("Last-Event-ID", what).into());
            }
            Begin::After(version)
        }
        None if snapshot.state().is_terminal() && asking.form != Form::V03 => {
            let text = format!("the task is {}; nothing of it follows", snapshot.state());
            return Err(Failure::new(Kind::UnsupportedOperation, text).with("taskId", &id));
        }
        None => Begin::With(snapshot.version()),
    };
    let pieces = Pieces::of(task.clone(), feed, told);
    Ok(Events::of(&asking.system, &task, begin, false, asking.stopping.clone()).with_pieces(pieces))
}
