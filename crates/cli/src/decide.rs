//! The decisions of a person: `approve`, `deny`, `reconcile`, `abandon`, `answer`, `cancel`. A program that has the log open
//! is sent the decision through its local socket, a server through its live API. Otherwise each makes one append and closes the log; the task resumes when
//! the program that runs the system starts again.

mod at_server;
mod decision;
mod here;
#[cfg(unix)]
mod there;
#[cfg(any(feature = "inspector", feature = "tui"))]
mod wish;

use std::sync::Arc;

use proto_events::id::{StreamId, Version};
use taskreel::TaskState;
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
use taskreel_log::api::EventStore;
use taskreel_log::documents::decision_json;

use crate::args::Global;
use crate::args::decide::{
    AbandonArgs, AnswerArgs, ApproveArgs, CancelArgs, DecidedBy, DenyArgs, ReconcileArgs,
};
use crate::decide::decision::{Decision, DecisionOutcome, Target, result_of};
use crate::decide::here::{made_in, user};
use crate::dirs;
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::server;
use crate::signals::{Interrupts, runtime};

#[cfg(feature = "inspector")]
pub(crate) use crate::decide::wish::carry_out_in;
#[cfg(feature = "tui")]
pub(crate) use crate::decide::wish::{DecideAt, carry_out_at};
#[cfg(any(feature = "inspector", feature = "tui"))]
pub(crate) use crate::decide::wish::{Wish, WishKind};

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

pub(crate) fn cancel(args: &CancelArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let decision = Decision::Cancel { task: &args.task, reason: args.reason.as_deref() };
    decide(&Target::Task(&args.task), &decision, &args.decided_by, global, screen)
}

fn decide(
    target: &Target<'_>,
    decision: &Decision<'_>,
    decided_by: &DecidedBy,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    if let Some(log) = server::connect(&decided_by.server)? {
        let (stream, whole, made) = at_server::decide(&log, target, decision, decided_by)?;
        return print_decision(&stream, &decision.about(&whole), &made, screen);
    }
    let dir = dirs::to_read(global);
    #[cfg(unix)]
    {
        dirs::refuse_nothing(&dir)?;
        if let Some(socket) = dirs::socket_to_decide(&dir)? {
            let (stream, whole, made) = there::decide(&socket, target, decision, decided_by)?;
            return print_decision(&stream, &decision.about(&whole), &made, screen);
        }
    }
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    let store: Arc<dyn EventStore> = Arc::new(dirs::open_existing(&dir)?);
    if let Some(problem) = interrupts.now("type the same command again: nothing was decided") {
        store.close()?;
        return Err(problem);
    }
    let by = decided_by.by.clone().unwrap_or_else(user);
    let outcome = made_in(&store, &runtime, target, decision, &by);
    let closed = store.close();
    let (stream, whole, done) = outcome?;
    closed?;
    let (state, version) = (done.task.state().as_str().to_owned(), done.task.version().0);
    let resumes = done.is_new && done.task.state() == TaskState::Working;
    let decision = decision.about(&whole);
    print_decision(&stream, &decision, &DecisionOutcome { state, version, is_new: done.is_new, by }, screen)?;
    if resumes {
        note("the task continues when the program that runs its agent starts again");
    }
    interrupts.now("nothing is left to do: the decision is recorded").map_or(Ok(Answer::Yes), Err)
}

fn print_decision(
    stream: &StreamId,
    decision: &Decision<'_>,
    made: &DecisionOutcome,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let (word, about) = decision.words();
    let DecisionOutcome { state, version, is_new, by } = made;
    if screen.json {
        let now = (state.as_str(), Version(*version));
        screen.json_line(&decision_json(stream, (word, about), by, *is_new, now))?;
    } else {
        let before = if *is_new { "" } else { " before" };
        screen.line(&screen.plain(&format!("{about}: {word}{before}; task {} is {state}", stream.id())))?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
}
