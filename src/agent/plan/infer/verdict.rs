//! What a part's inferences so far mean: read off their outcomes alone.

use std::collections::VecDeque;

use proto_events::call::{Call, CallStatus, FailureClass};

use crate::agent::Agent;
use crate::agent::action::{Action, parse_action, signature};
use crate::agent::infer::InferReply;

/// How many of the newest actions an action is compared with, Protolink's figure.
const REMEMBERED_ACTIONS: usize = 5;

/// What one reply asks for.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The model could not be reached, or broke.
    Broken(String),
    /// The reply is no action.
    Malformed(String),
    /// The action was done before; its kind.
    Repeated(&'static str),
    /// An action, with the reply as it came.
    Action { action: Action, raw: String },
}

/// All replies of a part, read in order.
#[derive(Debug)]
pub(crate) struct Reading {
    /// What the last reply asks for.
    pub(crate) last: Verdict,
    /// Malformed replies at the end, without another between them.
    pub(crate) malformed_in_a_row: u32,
    /// How many inferences there were.
    pub(crate) steps: u32,
}

impl Reading {
    pub(crate) fn of(agent: &Agent, calls: &[&Call]) -> Self {
        let mut reading =
            Self { last: Verdict::Broken("no inference yet".to_owned()), malformed_in_a_row: 0, steps: 0 };
        let mut done: VecDeque<String> = VecDeque::with_capacity(REMEMBERED_ACTIONS);
        for call in calls {
            reading.steps += 1;
            reading.last = verdict(agent, call);
            match &reading.last {
                Verdict::Malformed(_) => reading.malformed_in_a_row += 1,
                Verdict::Action { action, .. } => {
                    reading.malformed_in_a_row = 0;
                    let signature = signature(action);
                    if done.contains(&signature) {
                        reading.last = Verdict::Repeated(action.kind());
                        continue;
                    }
                    if done.len() == REMEMBERED_ACTIONS {
                        done.pop_front();
                    }
                    done.push_back(signature);
                }
                Verdict::Broken(_) | Verdict::Repeated(_) => {}
            }
        }
        reading
    }
}

fn verdict(agent: &Agent, call: &Call) -> Verdict {
    match &call.status {
        CallStatus::Succeeded(reply) => match InferReply::from_json(reply) {
            Ok(reply) => match parse_action(&reply.content, &agent.tools.names(), &[]) {
                Ok(action) => Verdict::Action { action, raw: reply.content },
                Err(error) => Verdict::Malformed(error.to_string()),
            },
            Err(error) => Verdict::Malformed(error),
        },
        CallStatus::Failed(failure) if failure.class == FailureClass::Rejected => {
            Verdict::Malformed(failure.message.clone())
        }
        CallStatus::Failed(failure) => Verdict::Broken(failure.message.clone()),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => Verdict::Broken(why.clone()),
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::Unsent
        | CallStatus::Reconciled(_)
        | CallStatus::Canceled => Verdict::Broken("the inference has no outcome".to_owned()),
    }
}
