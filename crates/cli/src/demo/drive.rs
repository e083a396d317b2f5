//! Drives a demo's tasks until nothing more happens: submits them, cancels one, answers for the person.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::id::Version;
use proto_events::model::{PostedTask, TaskState};
use proto_events::task::TaskEvent;
use taskreel::{Error, System, TaskSnapshot};
use taskreel_log::read::Delivery;
use taskreel_log::views::event_rows;

use crate::demo::plan::{DemoCase, DemoTask};

/// The number of concurrent tasks: enough to see them interleave, few enough to follow.
const AT_ONCE: usize = 3;

/// Drives all tasks, in order, some at a time. Tasks already in the log resume.
pub(crate) async fn all(system: &System, tasks: &[DemoTask]) -> Result<(), Error> {
    stream::iter(tasks)
        .map(|task| drive_task(system, task))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

async fn drive_task(system: &System, task: &DemoTask) -> Result<(), Error> {
    let handle = system.task(&task.posted.id)?;
    match handle.snapshot().await {
        Ok(_) => {}
        Err(Error::TaskNotFound(_)) => {
            system.submit(task.posted.clone()).await?;
        }
        Err(error) => return Err(error),
    }
    if task.kind == DemoCase::Canceled {
        cancel_in_flight(system, task).await?;
    }
    let rested = handle.finished().await?;
    if task.kind == DemoCase::Answered && waits_for_answer(task, &rested) {
        system.submit(answered(task, &rested)?).await?;
        handle.finished().await?;
    }
    Ok(())
}

/// Cancels a task as soon as its call is in flight.
async fn cancel_in_flight(system: &System, task: &DemoTask) -> Result<(), Error> {
    let mut events = system.subscribe_task(&task.posted.id, Version(1))?;
    while let Some(delivery) = events.next().await {
        let Delivery::Record(stored) = delivery? else {
            continue;
        };
        let sent = event_rows(&stored).iter().any(|row| {
            matches!(&row.event, Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Dispatched { .. }))))
        });
        if !sent {
            continue;
        }
        return match system.cancel(&task.posted.id, Some("nobody waits that long")).await {
            Ok(_) | Err(Error::TaskNotCancelable { .. }) => Ok(()),
            Err(error) => Err(error),
        };
    }
    Ok(())
}

fn waits_for_answer(task: &DemoTask, rested: &TaskSnapshot) -> bool {
    rested.state() == TaskState::InputRequired && !task.is_answered(rested.task().messages())
}

/// Returns the task as a client posts it again, with the person's answer appended.
fn answered(task: &DemoTask, rested: &TaskSnapshot) -> Result<PostedTask, Error> {
    let mut mint = taskreel::log::ports::Ports::default();
    let mut posted = PostedTask::from_json(&rested.to_json(), &mut mint)?;
    posted.messages.push(task.answer());
    Ok(posted)
}
