//! What a person decides while no process has the log open: `approve`, `deny`, `reconcile`, `abandon`. One append, and
//! the log is let go; the task goes on when its host starts again.

use std::sync::Arc;

use proto_events::id::StreamId;
use proto_events::json::JsonText;
use taskreel::audit::json::{object, text};
use taskreel::inspect::cli::problem::EXIT_USAGE;
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{Problem, Screen, Verdict};
use taskreel::inspect::find::{FindError, find, find_call};
use taskreel::store::EventStore;
use taskreel::system::{Decided, Operator};
use taskreel::tool::Verdict as Found;
use taskreel::{Error, TaskState};

use crate::args::{AbandonArgs, ApproveArgs, Decider, DenyArgs, Global, ReconcileArgs};
use crate::dirs;
use crate::running::runtime;

/// What is decided, and about what.
enum Decision<'a> {
    Approve { approval: &'a str },
    Deny { approval: &'a str, reason: Option<&'a str> },
    Reconcile { call: &'a str, found: Found },
    Abandon { call: &'a str, reason: &'a str },
}

impl Decision<'_> {
    /// What is printed when it is done.
    fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Approve { approval } => ("approved", approval),
            Self::Deny { approval, .. } => ("denied", approval),
            Self::Reconcile { call, found } => (found.as_str(), call),
            Self::Abandon { call, .. } => ("abandoned", call),
        }
    }
}

pub(crate) fn approve(args: &ApproveArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let decision = Decision::Approve { approval: &args.approval };
    decide(&Place::Task(&args.task), &decision, &args.decider, global, screen)
}

pub(crate) fn deny(args: &DenyArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let decision = Decision::Deny { approval: &args.approval, reason: args.reason.as_deref() };
    decide(&Place::Task(&args.task), &decision, &args.decider, global, screen)
}

pub(crate) fn reconcile(
    args: &ReconcileArgs,
    global: &Global,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let found = match &args.landed {
        Some(result) => Found::Landed(result_of(result)?),
        None => Found::DidNotHappen,
    };
    let decision = Decision::Reconcile { call: &args.call, found };
    decide(&Place::of_call(&args.call, args.task.as_deref()), &decision, &args.decider, global, screen)
}

pub(crate) fn abandon(args: &AbandonArgs, global: &Global, screen: &mut Screen) -> Result<Verdict, Problem> {
    let decision = Decision::Abandon { call: &args.call, reason: &args.reason };
    decide(&Place::of_call(&args.call, args.task.as_deref()), &decision, &args.decider, global, screen)
}

/// Where to look for what is decided about.
enum Place<'a> {
    Task(&'a str),
    Call(&'a str),
}

impl<'a> Place<'a> {
    fn of_call(call: &'a str, task: Option<&'a str>) -> Self {
        task.map_or(Self::Call(call), Self::Task)
    }

    fn find(&self, store: &dyn EventStore) -> Result<StreamId, Problem> {
        let stream = match self {
            Self::Task(id) => find(store, id)?,
            Self::Call(id) => find_call(store, id).map_err(|error| match error {
                FindError::Ambiguous { .. } => Problem::new(
                    EXIT_USAGE,
                    "cannot tell which call is meant",
                    error.to_string(),
                    "name its task with --task",
                ),
                other => Problem::from(other),
            })?,
        };
        if stream.category() == "task" {
            return Ok(stream);
        }
        Err(Problem::new(
            EXIT_USAGE,
            "a task is to be named here",
            format!("{stream} is a session; approvals and calls belong to tasks"),
            "`taskreel calls` lists what waits, with the task of each",
        ))
    }
}

/// A result, as the tool would have given it.
fn result_of(typed: &str) -> Result<JsonText, Problem> {
    JsonText::parse(typed).map_err(|error| {
        Problem::new(
            EXIT_USAGE,
            "the result is no JSON",
            error.to_string(),
            "give it as the tool would have: --landed '\"a text\"', --landed 12, --landed '{\"id\": 7}', --landed null",
        )
    })
}

fn decide(
    place: &Place<'_>,
    decision: &Decision<'_>,
    decider: &Decider,
    global: &Global,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let dir = dirs::to_read(global);
    let runtime = runtime()?;
    let store: Arc<dyn EventStore> = Arc::new(dirs::open_existing(&dir)?);
    let by = decider.by.clone().unwrap_or_else(user);
    let answer = place.find(store.as_ref()).and_then(|stream| {
        let operator = Operator::new(Arc::clone(&store));
        let done = runtime.block_on(carry_out(&operator, &stream, decision, &by));
        let done = done.map_err(|error| Problem::system(&error, Some(&stream.id())))?;
        Ok((stream, done))
    });
    let closed = store.close();
    let (stream, done) = answer?;
    closed?;
    tell(&stream, decision, &done, &by, screen)
}

async fn carry_out(
    operator: &Operator,
    stream: &StreamId,
    decision: &Decision<'_>,
    by: &str,
) -> Result<Decided, Error> {
    match decision {
        Decision::Approve { approval } => operator.approve(stream, approval, by).await,
        Decision::Deny { approval, reason } => operator.deny(stream, approval, *reason, by).await,
        Decision::Reconcile { call, found } => operator.reconcile(stream, call, found.clone(), by).await,
        Decision::Abandon { call, reason } => operator.abandon(stream, call, reason, by).await,
    }
}

fn tell(
    stream: &StreamId,
    decision: &Decision<'_>,
    done: &Decided,
    by: &str,
    screen: &mut Screen,
) -> Result<Verdict, Problem> {
    let (word, about) = decision.words();
    let state = done.task.state();
    if screen.json {
        screen.json_line(&object([
            ("schema", text("taskreel.decision/1")),
            ("task", text(&stream.id())),
            ("stream", text(stream.as_str())),
            ("about", text(about)),
            ("decision", text(word)),
            ("by", text(by)),
            ("new", JsonText::of_model(&done.is_new)),
            ("state", text(state.as_str())),
            ("version", JsonText::of_model(&done.task.version().0)),
        ]))?;
    } else {
        let before = if done.is_new { "" } else { " before" };
        screen.line(&screen.plain(&format!("{about}: {word}{before}; task {} is {state}", stream.id())))?;
    }
    screen.flush()?;
    if done.is_new && state == TaskState::Working {
        note("it goes on when its host starts again");
    }
    Ok(Verdict::Yes)
}

/// Who is at the terminal, as far as the environment says.
fn user() -> String {
    let said = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    said.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}
