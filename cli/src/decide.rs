//! The decisions of a person while no process has the log open: `approve`, `deny`, `reconcile`, `abandon`, `answer`.
//! Each makes one append and closes the log; the task resumes when the program that runs the system starts again.

use std::sync::Arc;

use proto_events::id::{Category, StreamId};
use proto_events::json::JsonText;
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
use taskreel::{Decided, Error, Operator, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::json::{object, text};
use taskreel_log::views::{FindError, find, find_approval, find_call, find_question, resolve_call};

use crate::args::Global;
use crate::args::deciding::{AbandonArgs, AnswerArgs, ApproveArgs, DecidedBy, DenyArgs, ReconcileArgs};
use crate::dirs;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::running::runtime;

/// A decision and its subject.
enum Decision<'a> {
    Approve { approval: &'a str },
    Deny { approval: &'a str, reason: Option<&'a str> },
    Reconcile { call: &'a str, verdict: Verdict },
    Abandon { call: &'a str, reason: &'a str },
    Answer { question: &'a str, answer: CallAnswer },
}

impl Decision<'_> {
    /// Returns the whole id of what is decided about, which may be typed as a unique beginning or end of it. An id that
    /// the task does not have stays as it was typed: the refusal names it.
    fn whole_id(&self, reader: &dyn EventReader, task: &StreamId) -> Result<String, Problem> {
        let found = match self {
            Self::Approve { approval } | Self::Deny { approval, .. } => {
                find_approval(reader, Some(task), approval)
            }
            Self::Reconcile { call, .. } | Self::Abandon { call, .. } => resolve_call(reader, Some(task), call),
            // The number of the question is a part of its name.
            Self::Answer { question, .. } => return Ok((*question).to_owned()),
        };
        match found {
            Ok((_, id)) => Ok(id),
            Err(FindError::UnknownCall(typed)) => Ok(typed),
            Err(error) => Err(Problem::from(error)),
        }
    }

    /// Returns the decision about the approval, call or question of this id.
    fn about<'a>(&'a self, id: &'a str) -> Decision<'a> {
        match self {
            Self::Approve { .. } => Decision::Approve { approval: id },
            Self::Deny { reason, .. } => Decision::Deny { approval: id, reason: *reason },
            Self::Reconcile { verdict, .. } => Decision::Reconcile { call: id, verdict: verdict.clone() },
            Self::Abandon { reason, .. } => Decision::Abandon { call: id, reason },
            Self::Answer { answer, .. } => Decision::Answer { question: id, answer: answer.clone() },
        }
    }

    /// Returns the words printed after the decision.
    fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Approve { approval } => ("approved", approval),
            Self::Deny { approval, .. } => ("denied", approval),
            Self::Reconcile { call, verdict } => (verdict.as_str(), call),
            Self::Abandon { call, .. } => ("abandoned", call),
            Self::Answer { question, answer: CallAnswer::Given(_) } => ("answered", question),
            Self::Answer { question, answer: CallAnswer::Declined(_) } => ("declined", question),
        }
    }
}

pub(crate) fn approve(args: &ApproveArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let decision = Decision::Approve { approval: &args.approval };
    decide(&Target::Task(&args.task), &decision, &args.decided_by, global, screen)
}

pub(crate) fn deny(args: &DenyArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let decision = Decision::Deny { approval: &args.approval, reason: args.reason.as_deref() };
    decide(&Target::Task(&args.task), &decision, &args.decided_by, global, screen)
}

pub(crate) fn reconcile(
    args: &ReconcileArgs,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let verdict = match &args.landed {
        Some(result) => Verdict::Landed(result_of(result)?),
        None => Verdict::DidNotHappen,
    };
    let decision = Decision::Reconcile { call: &args.call, verdict };
    decide(&Target::of_call(&args.call, args.task.as_deref()), &decision, &args.decided_by, global, screen)
}

pub(crate) fn abandon(args: &AbandonArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let decision = Decision::Abandon { call: &args.call, reason: &args.reason };
    decide(&Target::of_call(&args.call, args.task.as_deref()), &decision, &args.decided_by, global, screen)
}

pub(crate) fn answer(args: &AnswerArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let answer = match (&args.text, &args.decline) {
        (Some(text), _) => CallAnswer::Given(text.clone()),
        (None, why) => CallAnswer::Declined(why.clone().unwrap_or_default()),
    };
    let decision = Decision::Answer { question: &args.question, answer };
    let target = args.task.as_deref().map_or(Target::Question(&args.question), Target::Task);
    decide(&target, &decision, &args.decided_by, global, screen)
}

/// The typed name of the task, call or question.
enum Target<'a> {
    Task(&'a str),
    Call(&'a str),
    Question(&'a str),
}

impl<'a> Target<'a> {
    fn of_call(call: &'a str, task: Option<&'a str>) -> Self {
        task.map_or(Self::Call(call), Self::Task)
    }

    fn find(&self, store: &dyn EventStore) -> Result<StreamId, Problem> {
        let stream = match self {
            Self::Task(id) => find(store, id)?,
            Self::Call(id) => find_call(store, id).map_err(not_one_call)?,
            Self::Question(id) => find_question(store, id).map_err(not_one_call)?,
        };
        if stream.category() == Some(Category::Task) {
            return Ok(stream);
        }
        Err(Problem::new(
            EXIT_USAGE,
            "this command needs a task",
            format!("{stream} is a session; approvals and calls belong to tasks"),
            "`taskreel calls` lists the waiting calls, each with its task",
        ))
    }
}

fn not_one_call(error: FindError) -> Problem {
    match error {
        FindError::Ambiguous { .. } => Problem::new(
            EXIT_USAGE,
            "the id does not name one call",
            error.to_string(),
            "name its task with --task",
        ),
        other => Problem::from(other),
    }
}

/// Parses a typed result, in the form that the tool would have returned.
fn result_of(typed: &str) -> Result<JsonText, Problem> {
    JsonText::parse(typed).map_err(|error| {
        Problem::new(
            EXIT_USAGE,
            "the result is not JSON",
            error.to_string(),
            "give the result as the tool would have returned it: --landed '\"a text\"', --landed 12, --landed '{\"id\": 7}', --landed null",
        )
    })
}

fn decide(
    target: &Target<'_>,
    decision: &Decision<'_>,
    decided_by: &DecidedBy,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let dir = dirs::to_read(global);
    let runtime = runtime()?;
    let store: Arc<dyn EventStore> = Arc::new(dirs::open_existing(&dir)?);
    let by = decided_by.by.clone().unwrap_or_else(user);
    let outcome = target.find(store.as_ref()).and_then(|stream| {
        let whole = decision.whole_id(store.as_ref(), &stream)?;
        let decision = decision.about(&whole);
        let operator = Operator::new(Arc::clone(&store));
        let done = runtime.block_on(async {
            let done = carry_out(&operator, &stream, &decision, &by).await?;
            operator.finish().await.map(|()| done)
        });
        let done = done.map_err(|error| Problem::system(&error, Some(&stream.id())))?;
        Ok((stream, whole, done))
    });
    let closed = store.close();
    let (stream, whole, done) = outcome?;
    closed?;
    print_decision(&stream, &decision.about(&whole), &done, &by, screen)
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
        Decision::Reconcile { call, verdict } => operator.reconcile(stream, call, verdict.clone(), by).await,
        Decision::Abandon { call, reason } => operator.abandon(stream, call, reason, by).await,
        Decision::Answer { question, answer } => operator.answer(stream, question, answer.clone(), by).await,
    }
}

fn print_decision(
    stream: &StreamId,
    decision: &Decision<'_>,
    done: &Decided,
    by: &str,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
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
        note("the task continues when the program that runs its agent starts again");
    }
    Ok(Answer::Yes)
}

/// Returns the user's name from the environment.
fn user() -> String {
    let said = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    said.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}
