//! A decision, its target as it was typed, and its result.

use proto_events::id::{Category, StreamId};
use proto_events::json::JsonText;
use taskreel::handler::Answer as CallAnswer;
use taskreel::tool::Verdict;
use taskreel_log::api::EventReader;
use taskreel_log::views::{FindError, find, find_approval, find_call, find_question, resolve_call};

use crate::print::problem::{EXIT_USAGE, Problem};

/// A decision and its subject.
pub(super) enum Decision<'a> {
    Approve { approval: &'a str },
    Deny { approval: &'a str, reason: Option<&'a str> },
    Reconcile { call: &'a str, verdict: Verdict },
    Abandon { call: &'a str, reason: &'a str },
    Answer { question: &'a str, answer: CallAnswer },
    Cancel { task: &'a str, reason: Option<&'a str> },
}

impl Decision<'_> {
    /// Returns the whole id of what is decided about, which may be typed as a unique beginning or end of it. An id that
    /// the task does not have stays as it was typed: the refusal names it.
    pub(super) fn whole_id(&self, reader: &dyn EventReader, task: &StreamId) -> Result<String, Problem> {
        let found = match self {
            Self::Approve { approval } | Self::Deny { approval, .. } => {
                find_approval(reader, Some(task), approval)
            }
            Self::Reconcile { call, .. } | Self::Abandon { call, .. } => {
                resolve_call(reader, Some(task), call)
            }
            Self::Answer { question, .. } => question_of(reader, task, question),
            Self::Cancel { task, .. } => return Ok((*task).to_owned()),
        };
        match found {
            Ok((_, id)) => Ok(id),
            Err(FindError::UnknownCall(typed)) => Ok(typed),
            Err(error) => Err(Problem::from(error)),
        }
    }

    /// Returns the decision about the approval, call or question of this id.
    pub(super) fn about<'a>(&'a self, id: &'a str) -> Decision<'a> {
        match self {
            Self::Approve { .. } => Decision::Approve { approval: id },
            Self::Deny { reason, .. } => Decision::Deny { approval: id, reason: *reason },
            Self::Reconcile { verdict, .. } => Decision::Reconcile { call: id, verdict: verdict.clone() },
            Self::Abandon { reason, .. } => Decision::Abandon { call: id, reason },
            Self::Answer { answer, .. } => Decision::Answer { question: id, answer: answer.clone() },
            Self::Cancel { reason, .. } => Decision::Cancel { task: id, reason: *reason },
        }
    }

    /// Returns the words printed after the decision.
    pub(super) fn words(&self) -> (&'static str, &str) {
        match self {
            Self::Approve { approval } => ("approved", approval),
            Self::Deny { approval, .. } => ("denied", approval),
            Self::Reconcile { call, verdict } => (verdict.as_str(), call),
            Self::Abandon { call, .. } => ("abandoned", call),
            Self::Answer { question, answer: CallAnswer::Given(_) } => ("answered", question),
            Self::Answer { question, answer: CallAnswer::Declined(_) } => ("declined", question),
            Self::Cancel { task, .. } => ("canceled", task),
        }
    }
}

/// A decision that was made.
pub(super) struct DecisionOutcome {
    pub(super) state: String,
    pub(super) version: u64,
    pub(super) is_new: bool,
    pub(super) by: String,
}

/// The typed name of the task, call or question.
pub(super) enum Target<'a> {
    Task(&'a str),
    Call(&'a str),
    Question(&'a str),
}

impl<'a> Target<'a> {
    pub(super) fn of_call(call: &'a str, task: Option<&'a str>) -> Self {
        task.map_or(Self::Call(call), Self::Task)
    }

    pub(super) fn find(&self, store: &dyn EventReader) -> Result<StreamId, Problem> {
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

/// Parses a typed result, in the form that the tool would have returned.
pub(super) fn result_of(typed: &str) -> Result<JsonText, Problem> {
    JsonText::parse(typed).map_err(|error| {
        Problem::new(
            EXIT_USAGE,
            "the result is not JSON",
            error.to_string(),
            "give the result as the tool would have returned it: --landed '\"a text\"', --landed 12, --landed '{\"id\": 7}', --landed null",
        )
    })
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

/// Returns the whole name of a question: the number behind the colon is a part of it.
fn question_of(
    reader: &dyn EventReader,
    task: &StreamId,
    typed: &str,
) -> Result<(StreamId, String), FindError> {
    let numbered = typed.rsplit_once(':').filter(|(_, number)| number.parse::<u32>().is_ok());
    match (resolve_call(reader, Some(task), typed), numbered) {
        (Err(FindError::UnknownCall(typed)), Some((call, number))) => {
            match resolve_call(reader, Some(task), call) {
                Ok((stream, call)) => Ok((stream, format!("{call}:{number}"))),
                Err(FindError::UnknownCall(_)) => Err(FindError::UnknownCall(typed)),
                Err(error) => Err(error),
            }
        }
        (found, _) => found,
    }
}
