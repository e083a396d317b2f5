//! A decision that is sent to the program that has the log open, through its local socket.

use proto_events::id::StreamId;
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
use taskreel_log::socket::{OperatorError, OperatorRefusal, OperatorRequest, RefusalKind, SocketReader};

use crate::args::decide::DecidedBy;
use crate::decide::decision::{Decision, DecisionOutcome, Target};
use crate::print::problem::{EXIT_HELD, EXIT_LOG, EXIT_NO, EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::print::screen::note;

/// Sends a decision and waits for its result.
pub(super) fn decide(
    socket: &SocketReader,
    target: &Target<'_>,
    decision: &Decision<'_>,
    decided_by: &DecidedBy,
) -> Result<(StreamId, String, DecisionOutcome), Problem> {
    let stream = target.find(socket).map_err(|problem| unread(socket, problem))?;
    let whole = decision.whole_id(socket, &stream).map_err(|problem| unread(socket, problem))?;
    let request = request(&decision.about(&whole), stream.to_string())?;
    let reply = socket.decide(request).map_err(|error| refused(&error, &stream.id()))?;
    let by = reply.by;
    if decided_by.by.as_ref().is_some_and(|name| *name != by) {
        note(&format!("note: the program that has the log open records the user of this process, {by}"));
    }
    Ok((
        stream,
        whole,
        DecisionOutcome { state: reply.state, version: reply.version, is_new: reply.is_new, by },
    ))
}

fn request(decision: &Decision<'_>, task: String) -> Result<OperatorRequest, Problem> {
    let owned = |text: &str| text.to_owned();
    Ok(match decision {
        Decision::Approve { approval } => OperatorRequest::Approve { task, approval: owned(approval) },
        Decision::Deny { approval, reason } => {
            OperatorRequest::Deny { task, approval: owned(approval), reason: reason.map(owned) }
        }
        Decision::Reconcile { call, verdict } => {
            let landed = match verdict {
                Verdict::Landed(result) => Some(result.as_str().to_owned()),
                Verdict::DidNotHappen => None,
                Verdict::Inconclusive(why) => {
                    let hint = "give --landed or --did-not-happen";
                    return Err(Problem::new(EXIT_USAGE, "this is no verdict", why.clone(), hint));
                }
            };
            OperatorRequest::Reconcile { task, call: owned(call), landed }
        }
        Decision::Abandon { call, reason } => {
            OperatorRequest::Abandon { task, call: owned(call), reason: owned(reason) }
        }
        Decision::Answer { question, answer } => {
            let answer = match answer {
                CallAnswer::Given(text) => Ok(text.clone()),
                CallAnswer::Declined(why) => Err(why.clone()),
            };
            OperatorRequest::Answer { task, question: owned(question), answer }
        }
        Decision::Cancel { reason, .. } => OperatorRequest::Cancel { task, reason: reason.map(owned) },
    })
}

/// Returns the problem of a task that could not be looked up: the link's, if it broke.
fn unread(socket: &SocketReader, problem: Problem) -> Problem {
    match SocketReader::connect(socket.dir()) {
        Err(error) if problem.code == EXIT_LOG => Problem::at_socket(&error),
        _ => problem,
    }
}

fn refused(error: &OperatorError, id: &str) -> Problem {
    let (kind, why) = match error {
        OperatorError::Refused(OperatorRefusal { kind, why }) => (kind, why),
        OperatorError::LocalSocket(error) => return Problem::at_socket(error),
        // The answer is not "no": it is not known.
        _ => {
            let what = format!("no answer for task `{id}`");
            let hint = "run the same command again: the same decision is made once only";
            return Problem::new(EXIT_HELD, what, error.to_string(), hint);
        }
    };
    let (code, hint) = match kind {
        RefusalKind::Unknown => (EXIT_UNKNOWN, "`taskreel calls` lists the calls that wait for a person"),
        RefusalKind::Input => (EXIT_USAGE, "check the command line"),
        RefusalKind::NotTaken => (EXIT_HELD, "wait until the program ends, or stop it"),
        RefusalKind::Rejected => (EXIT_NO, "`taskreel calls` lists the calls that wait for a person"),
        _ => (EXIT_NO, "run the same command again: the same decision is made once only"),
    };
    let what = if *kind == RefusalKind::Failed {
        format!("it is not known whether the decision about task `{id}` was made")
    } else {
        format!("task `{id}` was refused; nothing was added to the log")
    };
    Problem::new(code, what, why.clone(), hint)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use taskreel_log::socket::SocketError;

    use super::*;

    #[test]
    fn a_link_that_broke_is_no_refusal() {
        let broke = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let link = SocketError::Link { path: PathBuf::from("x"), source: broke() };
        for error in [OperatorError::NoAnswer(broke()), OperatorError::LocalSocket(link)] {
            let problem = refused(&error, "t");
            assert_eq!(problem.code, EXIT_HELD, "{problem}");
            assert!(problem.hint.contains("same command again"), "{problem}");
        }
        let refusal = OperatorRefusal { kind: RefusalKind::Rejected, why: "it is over".to_owned() };
        assert_eq!(refused(&OperatorError::Refused(refusal), "t").code, EXIT_NO);
    }
}
