//! A decision that owns its words, for who decides at a screen: it goes to the program that has the log open, or to a server.

#[cfg(feature = "inspector")]
use std::sync::Arc;

#[cfg(feature = "inspector")]
use proto_events::json::JsonText;
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
#[cfg(feature = "inspector")]
use taskreel_log::api::EventStore;
#[cfg(feature = "inspector")]
use taskreel_log::documents::decision_json;
#[cfg(feature = "inspector")]
use taskreel_log::sled::{SledOptions, SledStore};

#[cfg(feature = "tui")]
use crate::args::decide::DecidedBy;
#[cfg(feature = "tui")]
use crate::args::source::ServerArgs;
#[cfg(feature = "tui")]
use crate::decide::at_server::decide as at_server;
use crate::decide::decision::{Decision, Target, result_of};
#[cfg(feature = "inspector")]
use crate::decide::here::{made_in, user};
#[cfg(all(unix, feature = "tui"))]
use crate::decide::there::decide as at_socket;
#[cfg(feature = "tui")]
use crate::print::problem::EXIT_HELD;
use crate::print::problem::Problem;
#[cfg(feature = "tui")]
use crate::server;
#[cfg(feature = "inspector")]
use crate::signals::runtime;

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
#[cfg(feature = "tui")]
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecideAt<'a> {
    /// The program that has the log in this directory open.
    #[cfg(unix)]
    LocalSocket(&'a std::path::Path),
    /// A server.
    Server(&'a ServerArgs),
}

/// Makes a decision in the log of a directory that no program has open, as the command does that decides there. Returns what a server
/// answers.
///
/// # Errors
/// [`Problem`] if it was refused, or a program has the log open.
#[cfg(feature = "inspector")]
pub(crate) fn carry_out_in(dir: &std::path::Path, wish: &Wish) -> Result<JsonText, Problem> {
    let (decision, target, by) = (decision_of(wish)?, Target::Task(&wish.task), user());
    let runtime = runtime()?;
    let options = SledOptions { create: false, ..SledOptions::default() };
    let store = SledStore::open_with(dir, options).map_err(|error| Problem::open(&error, dir))?;
    let store: Arc<dyn EventStore> = Arc::new(store);
    let outcome = made_in(&store, &runtime, &target, &decision, &by);
    let closed = store.close();
    let (stream, whole, done) = outcome?;
    closed?;
    let (state, version) = (done.task.state().as_str(), done.task.version());
    Ok(decision_json(&stream, decision.about(&whole).words(), &by, done.is_new, (state, version)))
}

/// Carries out a decision and returns it in words.
///
/// # Errors
/// [`Problem`] if it was refused, or nobody is there to take it.
#[cfg(feature = "tui")]
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
        DecideAt::LocalSocket(dir) => {
            let socket = crate::dirs::socket_to_decide(dir)?.ok_or_else(nobody)?;
            let by = DecidedBy { by: None, server: ServerArgs::default() };
            at_socket(&socket, &target, &decision, &by)?
        }
    };
    let (word, about) = (decision.about(&whole).words().0, whole);
    let before = if made.is_new { "" } else { " before" };
    Ok(format!("{about}: {word}{before}; task {} is {}", stream.id(), made.state))
}

#[cfg(feature = "tui")]
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
