//! Who is asked when a policy requires approval: nobody, code of the embedder's, or a person who may take days.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::task::ApprovalRequested;

use serde_json::{Value, json};

use super::prompt::tool_result;
use super::python::python_json;
use super::tool::BoxFuture;

/// Most of a call's arguments that a person is shown in the question itself, in characters.
const ARGS_SHOWN: usize = 400;

/// Who decides for an approval handler, as it stands in the log.
pub const BY_HANDLER: &str = "approval handler";

/// What is asked for: a tool call that is not intended yet. It is on disk before anybody hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The approval's id.
    pub approval_id: String,
    /// The task that wants to make the call.
    pub task_id: String,
    /// The id that the call will have.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What the tool does, as it was registered.
    pub description: String,
    /// The checked arguments. The approval is good for these alone.
    pub args: JsonText,
    /// SHA-256 of the text of `args`.
    pub args_digest: Digest,
    /// The capabilities that require approval.
    pub capabilities: Vec<String>,
}

impl ApprovalRequest {
    /// What a task asks for.
    pub(crate) fn of(task_id: &str, description: &str, asked: &ApprovalRequested) -> Self {
        let ApprovalRequested { approval_id, call_id, tool, args, args_digest, capabilities, .. } =
            asked.clone();
        let (task_id, description) = (task_id.to_owned(), description.to_owned());
        Self { approval_id, task_id, call_id, tool, description, args, args_digest, capabilities }
    }
}

/// What a handler answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// The call may be made.
    Approved,
    /// It may not: the task fails, with this reason or with the capabilities that it would have needed.
    Denied {
        /// Why.
        reason: Option<String>,
    },
    /// A person must decide: the task waits for input, and its session is free meanwhile.
    AskPerson,
}

/// Code that decides. Every `async fn(ApprovalRequest) -> ApprovalVerdict` is one.
pub trait Approver: Send + Sync + 'static {
    /// Decides, or hands it on to a person.
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict>;
}

impl<F, Fut> Approver for F
where
    F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ApprovalVerdict> + Send + 'static,
{
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'static, ApprovalVerdict> {
        Box::pin(self(request))
    }
}

/// Who is asked.
#[derive(Clone, Default)]
pub enum Approvals {
    /// Nobody is there: the task fails, as Protolink's does without a handler.
    #[default]
    Nobody,
    /// This code, which may hand it on to a person.
    Handler(Arc<dyn Approver>),
    /// A person, who may take as long as it takes.
    Person,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Handler(_) => "Handler",
            Self::Person => "Person",
        })
    }
}

/// The question that a person finds as the task's last message.
pub fn for_person(task_id: &str, asked: &ApprovalRequested) -> String {
    let ApprovalRequested { approval_id, tool, args, capabilities, .. } = asked;
    let mut shown: String = args.as_str().chars().take(ARGS_SHOWN).collect();
    if shown.len() < args.as_str().len() {
        shown.push('…');
    }
    let needed = capabilities.join(", ");
    let typed = format!("{} {}", shell_word(task_id), shell_word(approval_id));
    format!(
        "The call of {tool} with {shown} needs approval ({needed}). It has not been made. Approve it with `taskreel approve \
         {typed}`, or refuse it with `taskreel deny {typed} --reason WHY`."
    )
}

/// What stands in a conversation for a call that waits for a person.
pub fn waiting(tool: &str) -> String {
    let error = "waiting for approval: the call has not been made; it will be made if it is approved";
    python_json(&json!({"type": "tool_result", "tool": tool, "result": Value::Null, "error": error}))
}

/// A model is told that the call which it asked for was approved, and what it answered.
pub fn told_result(tool: &str, result: &JsonText) -> String {
    format!(
        "The call to '{tool}' that waited for approval was approved and made. Do not make it again. {}",
        tool_result(tool, result)
    )
}

/// A model is told that it may ask another agent what it wanted to ask it.
pub fn told_approved(agent: &str) -> String {
    format!(
        "The call to agent '{agent}' that waited for approval was approved. It was not made yet: make it again now,          exactly as before."
    )
}

/// A model is told that the call which it asked for was refused.
pub fn told_denied(tool: &str, reason: &str) -> String {
    format!(
        "The call to '{tool}' that waited for approval was denied ({reason}). It was not made. Do not ask for it again; \
         go on without it."
    )
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+=,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use proto_events::call::CallOrigin;

    use super::*;

    #[test]
    fn a_person_is_shown_what_is_asked_for_and_what_to_type() {
        let asked = |args: &str| ApprovalRequested {
            approval_id: "approval_1".to_owned(),
            call_id: "c".to_owned(),
            tool: "pay".to_owned(),
            args: JsonText::parse(args).unwrap(),
            args_digest: Digest::default(),
            capabilities: vec!["a".to_owned(), "b".to_owned()],
            origin: CallOrigin::default(),
        };
        assert_eq!(
            for_person("it's", &asked(r#"{"cents":1}"#)),
            "The call of pay with {\"cents\":1} needs approval (a, b). It has not been made. Approve it with `taskreel \
             approve 'it'\\''s' approval_1`, or refuse it with `taskreel deny 'it'\\''s' approval_1 --reason WHY`."
        );
        let long = for_person("t", &asked(&format!("\"{}\"", "ü".repeat(1_000))));
        assert!(long.contains("ü…") && long.chars().count() < 700, "{long}");
    }
}
