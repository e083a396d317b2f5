//! A call that is not settled, as it is listed: with the reason why it waits and the commands that end the wait.

use proto_events::call::Costs;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};
use proto_events::json::JsonText;

use crate::audit::json::{costs_json, number, object, text, text_or_null};

/// A call that is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRow {
    /// The task's stream; for a summary of a session, the session's.
    pub stream: StreamId,
    /// The session that the task belongs to: the one that it names, else the one under its own id.
    pub session: String,
    /// The call's id; for a call that waits for approval, the id that it will have.
    pub call_id: String,
    /// The name of the question that waits for a person's answer, see [`Call::question_id`](proto_events::call::Call::question_id).
    pub question_id: Option<String>,
    /// The approval that the call waits for.
    pub approval_id: Option<String>,
    /// `tool`, `infer`, `delegate` or `handler`; `agent` for the question whether the task goes on under a changed agent.
    pub kind: &'static str,
    /// The tool, or backend and model.
    pub target: String,
    /// A tool's arguments, or an inference's parameters.
    pub args: JsonText,
    /// The arguments that were asked for, where the check against the tool's schema changed them.
    pub asked_args: Option<JsonText>,
    /// The name of the call's status.
    pub status: &'static str,
    /// The time when the intent was written or the approval requested.
    pub since: Timestamp,
    /// The reason for the wait, in words.
    pub waits_for: String,
    /// The next step once a process resumes the task; none if a person must decide.
    pub next_step: Option<String>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// The cost of the attempts so far, by currency.
    pub costs: Costs,
    /// The recovery mode; none before the intent is written.
    pub recovery: Option<&'static str>,
}

impl CallRow {
    /// Returns the id of the call's task; a call for a summary has none.
    pub fn task(&self) -> Option<String> {
        (self.stream.category() == Some(Category::Task)).then(|| self.stream.id())
    }

    /// Returns the commands that end the wait, as typed after the program's name, with the task named by its stream. Empty if no
    /// person needs to act.
    pub fn commands(&self) -> Vec<String> {
        // The id alone may be read as `@last`, as a stream or as an option, and several agents may have it.
        let (task, call) = (shell_word(self.stream.as_str()), shell_word(&self.call_id));
        if let Some(approval) = &self.approval_id {
            let approval = shell_word(approval);
            return vec![
                format!("approve {task} {approval}"),
                format!("deny {task} {approval} --reason WHY"),
            ];
        }
        if let Some(question) = &self.question_id {
            let question = shell_word(question);
            return vec![format!("answer {question} TEXT"), format!("answer {question} --decline WHY")];
        }
        if self.next_step.is_some() || self.status != "unknown" {
            return Vec::new();
        }
        vec![
            format!("reconcile {call} --landed RESULT"),
            format!("reconcile {call} --did-not-happen"),
            format!("abandon {call} --reason WHY"),
        ]
    }

    /// Returns the row as JSON.
    pub fn to_json(&self) -> JsonText {
        self.to_json_with(&self.commands())
    }

    /// Returns the row as JSON, with these commands, which may name the log.
    pub fn to_json_with(&self, commands: &[String]) -> JsonText {
        object([
            ("schema", text("taskreel.call/1")),
            ("task", text_or_null(self.task().as_deref())),
            ("stream", text(self.stream.as_str())),
            ("session", text(&self.session)),
            ("call_id", text(&self.call_id)),
            ("question_id", text_or_null(self.question_id.as_deref())),
            ("approval_id", text_or_null(self.approval_id.as_deref())),
            ("kind", text(self.kind)),
            ("target", text(&self.target)),
            ("args", self.args.clone()),
            ("asked_args", self.asked_args.clone().unwrap_or_else(JsonText::null)),
            ("status", text(self.status)),
            ("since", text(&self.since.to_string())),
            ("waits_for", text(&self.waits_for)),
            ("then", text_or_null(self.next_step.as_deref())),
            ("attempts", number(self.attempts)),
            ("max_attempts", number(self.max_attempts)),
            ("costs", costs_json(&self.costs)),
            ("recovery", text_or_null(self.recovery)),
            ("commands", JsonText::of_model(commands)),
        ])
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
