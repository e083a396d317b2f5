//! The crash matrix over runs generated from seeds: all recovery modes, cancels, retries, timeouts, errors,
//! panics, turns in shared sessions, people who reply. Each run is cut after every append, recovered, and
//! checked against R7; together (200 or more of them) they must meet every cell of its table.
//! `TASKREEL_MATRIX_RUNS` sets the number of runs, `TASKREEL_SEED` names the one to repeat.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

#[path = "crash_matrix/agent.rs"]
mod agent;
#[path = "crash_matrix/delegation.rs"]
mod delegation;
#[path = "crash/dice.rs"]
mod dice;
#[path = "crash_matrix/run.rs"]
mod run;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto_events::call::{CallEvent, CallStatus, Recovery, Verdict, VerdictBy};
use proto_events::id::{Category, Position};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::PostedTask;
use proto_events::session::SessionEvent;
use proto_events::task::{TaskCommand, TaskEvent, TaskRejection};
use proto_events::turn::TurnMessage;
use run::{Care, Run};
use taskreel::testing::{Broken, Cells, CrashMatrix, CrashReport, Driver, Row};
use taskreel::{Error, Message, TaskHandle, TaskState};
use taskreel_log::api::EventReader as _;
use taskreel_log::ports::Ports;
use taskreel_log::read::decode_record;

/// The number of runs without `TASKREEL_MATRIX_RUNS`.
const RUNS: u64 = 200;

/// An action at a given time of a run.
enum Act {
    Comes(usize),
    IsCanceled(usize),
    IsTold(usize),
}

/// Performs all actions of people in a run.
async fn people(run: Run, driver: Driver) -> Result<(), Error> {
    let mut acts: Vec<(u64, Act)> = Vec::new();
    for (number, task) in run.tasks.iter().enumerate() {
        acts.push((task.comes_at, Act::Comes(number)));
        acts.extend(task.canceled_at.map(|at| (at, Act::IsCanceled(number))));
        acts.extend(task.said_at.map(|at| (at, Act::IsTold(number))));
        if task.is_repeated {
            acts.push((task.canceled_at.unwrap_or(task.comes_at), Act::Comes(number)));
        }
    }
    acts.sort_by_key(|(at, _)| *at);
    let mut now = 0;
    for (at, act) in acts {
        driver.advance(Duration::from_millis(at - now)).await;
        now = at;
        match act {
            Act::Comes(number) => {
                let posted = JsonText::from(run.tasks[number].posted(number));
                driver.submit(PostedTask::from_json(&posted, &mut Ports::default())?).await?;
            }
            Act::IsTold(number) => {
                let said = Message::user("and mind the time", &mut Ports::default());
                let told =
                    driver.task(&format!("t{number}"))?.command(TaskCommand::AppendMessage(said)).await;
                match told {
                    Ok(_) | Err(Error::Task(TaskRejection::NoInferenceFollows(_))) => {}
                    Err(error) => return Err(error),
                }
            }
            Act::IsCanceled(number) => match driver.task(&format!("t{number}"))?.cancel(None).await {
                Ok(_) | Err(Error::TaskNotCancelable { .. }) => {}
                Err(error) => return Err(error),
            },
        }
    }
    driver.run_out_timers().await?;
    look_after_all(&run, &driver).await?;
    driver.run_out_timers().await?;
    note_what_happened(&driver);
    Ok(())
}

/// Acts as the persons for all tasks of a run that are in the log.
async fn look_after_all(run: &Run, driver: &Driver) -> Result<(), Error> {
    for (number, care) in run.care.iter().enumerate().take(run.tasks.len()) {
        match look_after(driver, &driver.task(&format!("t{number}"))?, *care).await {
            Ok(()) | Err(Error::TaskNotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The cases met in any run, without a crash.
static HAPPENED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The cases that must be met in some run.
const MUST_HAPPEN: [&str; 16] = [
    "absent",
    "asked an agent",
    "approved",
    "canceled",
    "denied",
    "failed",
    "landed",
    "late",
    "panicked",
    "sent again",
    "timed out",
    "unknown",
    "unsure",
    "settled",
    "several at once",
    "told meanwhile",
];

fn note_what_happened(driver: &Driver) {
    let mut happened = HAPPENED.lock().unwrap();
    for record in driver.store().read_all(Position(1), usize::MAX).unwrap() {
        if record.record.stream.category() == Some(Category::Session) {
            for recorded in decode_record::<SessionEvent>(&record).unwrap() {
                if let SessionEvent::MessageAppended(message) = recorded.event {
                    happened.extend(said(&message));
                }
            }
        }
        if record.record.stream.category() != Some(Category::Task) {
            continue;
        }
        for recorded in decode_record::<TaskEvent>(&record).unwrap() {
            happened.extend(match recorded.event {
                TaskEvent::ApprovalDecided(decided) => {
                    Some(if decided.approved { "approved" } else { "denied" })
                }
                TaskEvent::InferMessageAppended(message) => said(&message),
                TaskEvent::Call(event) => word(&event),
                _ => None,
            });
        }
    }
}

fn said(message: &TurnMessage) -> Option<&'static str> {
    if message.message.content == "and mind the time" {
        return Some("told meanwhile");
    }
    (message.asks.len() > 1).then_some("several at once")
}

fn word(event: &CallEvent) -> Option<&'static str> {
    match event {
        CallEvent::Requested(request) if request.origin.parent.is_some() => Some("asked an agent"),
        CallEvent::Dispatched { attempt: 2.., .. } => Some("sent again"),
        CallEvent::Failed { failure, .. } if failure.error_type == "panic" => Some("panicked"),
        CallEvent::Failed { .. } => Some("failed"),
        CallEvent::TimedOut { .. } => Some("timed out"),
        CallEvent::Canceled { .. } => Some("canceled"),
        CallEvent::OutcomeUnknown { .. } => Some("unknown"),
        CallEvent::LateResultIgnored { .. } => Some("late"),
        CallEvent::Reconciled { by: VerdictBy::Operator(_), .. } | CallEvent::Abandoned { .. } => {
            Some("settled")
        }
        CallEvent::Reconciled { verdict: Verdict::Landed(_), .. } => Some("landed"),
        CallEvent::Reconciled { verdict: Verdict::DidNotHappen, .. } => Some("absent"),
        CallEvent::Reconciled { verdict: Verdict::Inconclusive(_), .. } => Some("unsure"),
        _ => None,
    }
}

/// Acts as the person for a task that waits.
async fn look_after(driver: &Driver, task: &TaskHandle, care: Care) -> Result<(), Error> {
    let now = task.snapshot().await?;
    if now.state() != TaskState::InputRequired {
        return Ok(());
    }
    if let Some(approval) = task.approvals().await?.first() {
        let id = approval.request.approval_id.clone();
        match care {
            Care::Nothing => {}
            Care::Abandon => drop(task.deny(&id, Some("no"), "somebody").await?),
            _ => drop(task.approve(&id, "somebody").await?),
        }
        return Ok(());
    }
    let unknown = now.task().calls().iter().find(|call| matches!(call.status, CallStatus::Unknown(_)));
    let call_id = unknown.map(|call| call.request.call_id.clone());
    match (care, call_id) {
        (Care::Nothing, _) => {}
        (Care::Landed, Some(id)) => {
            task.reconcile(&id, Verdict::Landed(JsonText::string("found")), "somebody").await?;
        }
        (Care::DidNotHappen, Some(id)) => {
            task.reconcile(&id, Verdict::DidNotHappen, "somebody").await?;
        }
        (Care::Abandon, Some(id)) => {
            task.abandon(&id, "nobody knows", "somebody").await?;
        }
        (_, _) => {
            let mut posted = PostedTask::from_json(&now.to_json(), &mut Ports::default())?;
            let said = json!({"id": "answer", "role": "user", "parts": [
                {"type": "tool_call", "content": {"tool_name": "read", "args": {"does": ["ok 5"], "probe": ""}, "call_id": "a"}},
                {"type": "infer", "content": {"prompt": "and now?"}},
            ]});
            posted.messages.push(Message::from_json(&JsonText::from(said), &mut Ports::default())?);
            driver.submit(posted).await?;
        }
    }
    Ok(())
}

fn matrix(run: &Run) -> CrashMatrix {
    let (described, worked, cared) = (run.clone(), run.clone(), run.clone());
    CrashMatrix::of(
        move |builder| agent::describe(&described, builder),
        move |driver| people(worked.clone(), driver),
    )
    .afterwards(move |driver| {
        let run = cared.clone();
        async move { look_after_all(&run, &driver).await }
    })
    .down_for(Duration::from_millis(run.down_for))
}

/// Runs `run` on a thread of its own.
fn try_run(run: &Run) -> Result<CrashReport, Broken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(matrix(run).run())
}

/// Removes from a broken run all that it does not need to fail.
fn shrink(mut run: Run, mut broken: Broken) -> (Run, Broken) {
    while let Some((smaller, why)) =
        run.smaller().into_iter().find_map(|smaller| try_run(&smaller).err().map(|why| (smaller, why)))
    {
        (run, broken) = (smaller, why);
    }
    (run, broken)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs all seeds on as many threads as there are processors.
fn run_all(seeds: u64) -> (CrashReport, Option<(Run, Broken)>) {
    let (next, all, first) = (AtomicU64::new(0), Mutex::new(CrashReport::default()), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds || first.lock().unwrap().is_some() {
                return;
            }
            let run = Run::of(seed);
            match try_run(&run) {
                Ok(report) => all.lock().unwrap().merge(&report),
                Err(broken) => *first.lock().unwrap() = Some((run, broken)),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
    (all.into_inner().unwrap(), first.into_inner().unwrap())
}

fn missing(cells: &Cells) -> Vec<(Row, &'static str)> {
    let modes =
        [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Reconcile, Recovery::Manual, Recovery::Reissue];
    let rows = [Row::RequestedOnly, Row::InFlight, Row::OutcomePresent, Row::CanceledInFlight];
    let table = rows.into_iter().flat_map(|row| modes.map(|mode| (row, mode.as_str())));
    table.filter(|cell| !cells.contains_key(cell)).collect()
}

#[test]
fn what_follows_a_crash_behind_any_append_is_what_each_calls_mode_allows() {
    if let Some(seed) = number("TASKREEL_SEED") {
        let report = try_run(&Run::of(seed)).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        println!("seed {seed}: {report:?}");
        return;
    }
    let runs = number("TASKREEL_MATRIX_RUNS").unwrap_or(RUNS);
    let (report, broken) = run_all(runs);
    if let Some((run, broken)) = broken {
        let seed = run.seed;
        let (run, broken) = shrink(run, broken);
        panic!("TASKREEL_SEED={seed}; what is left of it still goes wrong: {run:#?}\n{broken}");
    }
    println!(
        "{runs} runs, {} appends, {} calls of tools, {:#?}",
        report.appends, report.executions, report.cells
    );
    // With fewer runs, the whole table is not expected.
    if runs >= RUNS {
        assert_eq!(missing(&report.cells), [], "cells of R7's table that no run came to");
        let happened = HAPPENED.lock().unwrap();
        let never: Vec<_> = MUST_HAPPEN.iter().filter(|word| !happened.contains(*word)).collect();
        assert!(never.is_empty(), "{never:?} happened in no run");
    }
}
