//! The acts of people in a run: they post tasks, say more, cancel; at a cut and at rest they decide, settle and answer.

use std::time::Duration;

use proto_events::call::{CallEvent, CallStatus, Verdict};
use proto_events::id::Category;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::task::{Task, TaskCommand, TaskEvent};
use taskreel::testing::Driver;
use taskreel::{Error, Message, TaskHandle, TaskState};
use taskreel_log::api::EventStore as _;
use taskreel_log::ports::Ports;
use taskreel_log::read::{decode_record, fold_stream};

use crate::run::Run;
use crate::setting::{Care, Hand};

/// An action at a given time of a run.
enum Act {
    Comes(usize),
    IsCanceled(usize),
    IsTold(usize),
    /// The clock of the machine is corrected by so many milliseconds.
    ClockSteps(i64),
}

/// Performs all actions of people in a run.
pub(crate) async fn people(run: Run, driver: Driver) -> Result<(), Error> {
    let (mut now, mut listening) = (0, Vec::new());
    for (at, act) in acts(&run) {
        driver.advance(Duration::from_millis(at - now)).await;
        now = at;
        match act {
            Act::Comes(number) => {
                legal(driver.submit(posted(&run, number)?).await)?;
                listening.push(driver.task(&name(number))?.live());
            }
            Act::IsTold(number) => legal(tell(&driver.task(&name(number))?).await)?,
            Act::IsCanceled(number) => legal(driver.task(&name(number))?.cancel(None).await)?,
            Act::ClockSteps(millis) => driver.step_clock(millis)?,
        }
    }
    driver.run_out_timers().await?;
    look_after_all(&run, &driver).await?;
    driver.run_out_timers().await
}

fn acts(run: &Run) -> Vec<(u64, Act)> {
    let mut acts: Vec<(u64, Act)> = Vec::new();
    for (number, task) in run.tasks.iter().enumerate() {
        acts.push((task.comes_at, Act::Comes(number)));
        acts.extend(task.canceled_at.map(|at| (at, Act::IsCanceled(number))));
        acts.extend(task.said_at.map(|at| (at, Act::IsTold(number))));
        if task.is_repeated {
            acts.push((task.canceled_at.unwrap_or(task.comes_at), Act::Comes(number)));
        }
    }
    acts.extend(run.setting.clock_steps.iter().map(|(at, by)| (*at, Act::ClockSteps(*by))));
    acts.sort_by_key(|(at, _)| *at);
    acts
}

/// Acts as the persons for all tasks of a run that are in the log, once nothing moves any more.
pub(crate) async fn look_after_all(run: &Run, driver: &Driver) -> Result<(), Error> {
    for (number, care) in run.care.iter().enumerate().take(run.tasks.len()) {
        legal(look_after(driver, &driver.task(&name(number))?, *care).await)?;
    }
    Ok(())
}

/// Acts as the persons for all tasks of a run while the system recovers: on whatever they find.
pub(crate) async fn intervene(run: &Run, driver: &Driver) -> Result<(), Error> {
    if let Some(first) = run.setting.hands.first().filter(|hand| hand.follows) {
        tokio::spawn(follow(driver.clone(), first.care));
    }
    for (number, hand) in run.setting.hands.iter().enumerate().take(run.tasks.len()) {
        let task = driver.task(&name(number))?;
        legal(settle(driver, &task, *hand).await)?;
        if hand.tells {
            legal(tell(&task).await)?;
        }
        if hand.posts {
            legal(driver.submit(posted(run, number)?).await)?;
        }
        if hand.cancels {
            legal(task.cancel(Some("not any more")).await)?;
        }
    }
    Ok(())
}

/// The number of calls that a program finds not done, before it gives up those that follow: a part whose call did not
/// happen is called again each time, however often that is said.
const CALLED_AGAIN_MAX: u32 = 8;

/// Settles each call at once whose outcome the log says is unknown, as a program does that follows the log; until the
/// log is closed.
async fn follow(driver: Driver, care: Care) -> Result<(), Error> {
    let (mut feed, mut called_again) = (driver.store().subscribe(), 0);
    while let Ok(record) = feed.next().await {
        if record.record.stream.category() != Some(Category::Task) {
            continue;
        }
        for recorded in decode_record::<TaskEvent>(&record)? {
            if let TaskEvent::Call(CallEvent::OutcomeUnknown { call_id, .. }) = &recorded.event {
                called_again += u32::from(care == Care::DidNotHappen);
                let care = if called_again > CALLED_AGAIN_MAX { Care::Abandon } else { care };
                legal(resolve(&driver.task(&record.record.stream.id())?, call_id, care).await)?;
            }
        }
    }
    Ok(())
}

/// Decides, settles and answers all that a task has open. What that is, the person knows from the log: the first command
/// comes as early as it can, in the middle of the recovery.
async fn settle(driver: &Driver, task: &TaskHandle, hand: Hand) -> Result<(), Error> {
    let now = fold_stream::<Task>(driver.store().as_ref(), task.stream(), None)?.state;
    for approval in now.approvals().iter().filter(|approval| approval.verdict().is_none()) {
        legal(decide(task, &approval.request.approval_id, hand.care).await)?;
    }
    for call in now.calls().iter() {
        let id = call.request.call_id.as_str();
        match &call.status {
            CallStatus::Unknown(_) => legal(resolve(task, id, hand.care).await)?,
            CallStatus::Asked(_) => legal(reply(task, &call.question_id(), hand.care).await)?,
            _ => {}
        }
    }
    Ok(())
}

async fn decide(task: &TaskHandle, id: &str, care: Care) -> Result<(), Error> {
    match care {
        Care::Nothing => {}
        Care::Abandon => drop(task.deny(id, Some("no"), "somebody").await?),
        _ => drop(task.approve(id, "somebody").await?),
    }
    Ok(())
}

async fn resolve(task: &TaskHandle, id: &str, care: Care) -> Result<(), Error> {
    match care {
        Care::Nothing | Care::Message => {}
        Care::Landed => {
            task.reconcile(id, Verdict::Landed(JsonText::string("found")), "somebody").await?;
        }
        Care::DidNotHappen => {
            task.reconcile(id, Verdict::DidNotHappen, "somebody").await?;
        }
        Care::Abandon => {
            task.abandon(id, "nobody knows", "somebody").await?;
        }
    }
    Ok(())
}

async fn reply(task: &TaskHandle, id: &str, care: Care) -> Result<(), Error> {
    match care {
        Care::Nothing => {}
        Care::Abandon => drop(task.decline(id, "ask somebody else", "somebody").await?),
        _ => drop(task.answer(id, "the red one", "somebody").await?),
    }
    Ok(())
}

/// Acts as the person for a task that waits.
async fn look_after(driver: &Driver, task: &TaskHandle, care: Care) -> Result<(), Error> {
    let now = task.snapshot().await?;
    if now.state() != TaskState::InputRequired {
        return Ok(());
    }
    if let Some(approval) = task.approvals().await?.first() {
        return decide(task, &approval.request.approval_id, care).await;
    }
    if let Some(call) = task.questions().await?.first()
        && care != Care::Message
    {
        return reply(task, &call.question_id(), care).await;
    }
    let unknown = now.task().calls().iter().find(|call| matches!(call.status, CallStatus::Unknown(_)));
    match (care, unknown) {
        (Care::Nothing, _) => Ok(()),
        (Care::Message, _) | (_, None) => {
            let mut posted = PostedTask::from_json(&now.to_json(), &mut Ports::default())?;
            let said = json!({"id": format!("answer{}", now.version()), "role": "user", "parts": [
                {"type": "tool_call", "content": {"tool_name": "read", "args": {"does": ["ok 5"], "probe": ""}, "call_id": "a"}},
                {"type": "infer", "content": {"prompt": "and now?"}},
            ]});
            posted.messages.push(Message::from_json(&JsonText::from(said), &mut Ports::default())?);
            driver.submit(posted).await.map(drop)
        }
        (care, Some(call)) => resolve(task, &call.request.call_id, care).await,
    }
}

async fn tell(task: &TaskHandle) -> Result<(), Error> {
    let said = Message::user("and mind the time", &mut Ports::default());
    task.command(TaskCommand::AppendMessage(said)).await.map(drop)
}

fn posted(run: &Run, number: usize) -> Result<PostedTask, Error> {
    let json = JsonText::from(run.tasks[number].posted(number));
    Ok(PostedTask::from_json(&json, &mut Ports::default())?)
}

fn name(number: usize) -> String {
    format!("t{number}")
}

/// Passes over the answers that a task may give to what it did not expect.
fn legal<T>(answer: Result<T, Error>) -> Result<(), Error> {
    match answer {
        Ok(_) | Err(Error::Task(_) | Error::TaskNotFound(_) | Error::TaskNotCancelable { .. }) => Ok(()),
        Err(error) if error.to_string().contains("the clock broke") => Ok(()),
        Err(error) => Err(error),
    }
}
