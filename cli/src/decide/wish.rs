//! A decision that owns its words, for who decides at a screen: it goes to the program that has the log open, or to a server.

use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;

use crate::args::deciding::DecidedBy;
use crate::args::source::ServerArgs;
use crate::decide::at_server::decide as at_server;
use crate::decide::decision::{Decision, Target, result_of};
#[cfg(unix)]
use crate::decide::there::decide as at_door;
use crate::print::problem::{EXIT_HELD, Problem};
use crate::server;

/// A decision about a task, which is named by its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The task's stream.
    pub(crate) task: String,
    /// The decision.
    pub(crate) kind: WishKind,
}

/// The kinds of decisions, each with the id that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WishKind {
    /// An approval.
    Approve(String),
    /// A denial, with its reason.
    Deny(String, String),
    /// The result of a call of unknown outcome, as JSON.
    Landed(String, String),
    /// The verdict that such a call did not happen.
    DidNotHappen(String),
    /// The end of the search for an outcome, with its reason.
    Abandon(String, String),
    /// The answer to a question.
    Answer(String, String),
    /// The refusal to answer, with its reason.
    Decline(String, String),
    /// The cancellation of the task, with its reason.
    Cancel(String),
}

/// The place at which a decision is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecideAt<'a> {
    /// The program that has the log in this directory open.
    #[cfg(unix)]
    Door(&'a std::path::Path),
    /// A server.
    Server(&'a ServerArgs),
}

/// Carries out a decision and returns it in words.
///
/// # Errors
/// [`Problem`] if it was refused, or nobody is there to take it.
pub(crate) fn carry_out_at(place: DecideAt<'_>, wish: &Wish) -> Result<String, Problem> {
    let decision = decision_of(wish)?;
    let target = Target::Task(&wish.task);
    let (stream, whole, made) = match place {
        DecideAt::Server(args) => {
            let log = server::connect(args)?.ok_or_else(nobody)?;
            let by = DecidedBy { by: None, server: args.clone() };
            at_server(&log, &target, &decision, &by)?
        }
        #[cfg(unix)]
        DecideAt::Door(dir) => {
            let door = crate::dirs::door_to_decide(dir)?.ok_or_else(nobody)?;
            let by = DecidedBy { by: None, server: ServerArgs::default() };
            at_door(&door, &target, &decision, &by)?
        }
    };
    let (word, about) = (decision.about(&whole).words().0, whole);
    let before = if made.is_new { "" } else { " before" };
    Ok(format!("{about}: {word}{before}; task {} is {}", stream.id(), made.state))
}

fn nobody() -> Problem {
    let why = "no program has the log open, or it takes no decisions";
    let hint = "type the command, which decides in the log itself";
    Problem::new(EXIT_HELD, "nobody is there to take the decision", why, hint)
}

fn decision_of(wish: &Wish) -> Result<Decision<'_>, Problem> {
    let said = |text: &'_ String| !text.trim().is_empty();
    Ok(match &wish.kind {
        WishKind::Approve(approval) => Decision::Approve { approval },
        WishKind::Deny(approval, reason) => {
            Decision::Deny { approval, reason: Some(reason.as_str()).filter(|_| said(reason)) }
        }
        WishKind::Landed(call, result) => {
            Decision::Reconcile { call, verdict: Verdict::Landed(result_of(result)?) }
        }
        WishKind::DidNotHappen(call) => Decision::Reconcile { call, verdict: Verdict::DidNotHappen },
        WishKind::Abandon(call, reason) => Decision::Abandon { call, reason },
        WishKind::Answer(question, text) => {
            Decision::Answer { question, answer: CallAnswer::Given(text.clone()) }
        }
        WishKind::Decline(question, why) => {
            Decision::Answer { question, answer: CallAnswer::Declined(why.clone()) }
        }
        WishKind::Cancel(reason) => {
            Decision::Cancel { task: &wish.task, reason: Some(reason.as_str()).filter(|_| said(reason)) }
        }
    })
}
