//! A decision that is sent to a server, through the control routes of its live API.

use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
use taskreel_http::HttpLog;

use crate::args::decide::DecidedBy;
use crate::decide::decision::{Decision, DecisionOutcome, Target};
use crate::print::problem::{EXIT_LOG, EXIT_USAGE, Problem};
use crate::print::screen::note;

/// Sends a decision and waits for its result.
pub(super) fn decide(
    log: &HttpLog,
    target: &Target<'_>,
    decision: &Decision<'_>,
    decided_by: &DecidedBy,
) -> Result<(StreamId, String, DecisionOutcome), Problem> {
    let stream = target.find(log)?;
    let whole = decision.whole_id(log, &stream)?;
    let (route, body) = request(&decision.about(&whole))?;
    let made = log.decide(&stream, route, &body);
    let made = made.map_err(|error| Problem::decided_at_server(&error, log.url(), &stream.id()))?;
    let made = read(&made).ok_or_else(|| {
        let why = "its answer is not the decision that was sent";
        let hint = "`taskreel show TASK` shows whether the decision was made";
        Problem::new(EXIT_LOG, format!("the answer of {} cannot be read", log.url()), why, hint)
    })?;
    if decided_by.by.as_ref().is_some_and(|name| *name != made.by) {
        note(&format!("note: the server records the caller of this process, {}", made.by));
    }
    Ok((stream, whole, made))
}

fn read(made: &JsonText) -> Option<DecisionOutcome> {
    let fields: JsonObject = made.read().ok()?;
    let text = |name: &str| fields.get(name)?.to_str();
    (text("schema")? == "taskreel.decision/1").then_some(())?;
    let version = fields.get("version")?.read().ok()?;
    Some(DecisionOutcome {
        state: text("state")?,
        version,
        is_new: fields.get("new")?.read().ok()?,
        by: text("by")?,
    })
}

/// Returns the last piece of the decision's route, and its body.
fn request(decision: &Decision<'_>) -> Result<(&'static str, JsonText), Problem> {
    let text = |text: &str| Some(JsonText::string(text));
    let (route, members) = match decision {
        Decision::Approve { approval } => ("approve", vec![("approval", text(approval))]),
        Decision::Deny { approval, reason } => {
            ("deny", vec![("approval", text(approval)), ("reason", reason.and_then(text))])
        }
        Decision::Reconcile { call, verdict } => {
            let landed = match verdict {
                Verdict::Landed(result) => Some(result.clone()),
                Verdict::DidNotHappen => None,
                Verdict::Inconclusive(why) => {
                    let hint = "give --landed or --did-not-happen";
                    return Err(Problem::new(EXIT_USAGE, "this is no verdict", why.clone(), hint));
                }
            };
            ("reconcile", vec![("call", text(call)), ("landed", landed)])
        }
        Decision::Abandon { call, reason } => {
            ("abandon", vec![("call", text(call)), ("reason", text(reason))])
        }
        Decision::Answer { question, answer } => {
            let answer = match answer {
                CallAnswer::Given(answer) => ("answer", text(answer)),
                CallAnswer::Declined(why) => ("declined", text(why)),
            };
            ("answer", vec![("question", text(question)), answer])
        }
        Decision::Cancel { reason, .. } => ("cancel", vec![("reason", reason.and_then(text))]),
    };
    let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok((route, given.collect::<JsonObject>().to_text()))
}
