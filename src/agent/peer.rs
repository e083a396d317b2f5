//! Other agents that an agent may ask: what is known of them, what they are sent, and what they answer.
//!
//! Asking one is a call like any other: its intent, with the whole task for the other agent in it, is on disk before
//! anything is sent, and what may be done when the answer is lost is the peer's policy. An agent in the same process is
//! made by [`System::peer`](crate::system::System::peer); one elsewhere is a [`Peer`] of your own.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use proto_events::id::check_id;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, FinalState, LastItem, Part, PostedTask, TaskState, final_state};

use super::policy::ToolPolicy;
use super::prompt::AgentLine;
use super::tool::BoxFuture;

/// Another agent.
pub trait Peer: Send + Sync + 'static {
    /// The name by which a model asks for it.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// Names of its skills, which are its tools.
    fn skills(&self) -> Vec<String>;

    /// What may be done when an answer is lost, and how long one may take. Manual if nothing is said: a peer that cannot
    /// tell a repeated task from a new one must not be sent it twice.
    fn policy(&self) -> ToolPolicy {
        ToolPolicy::manual().declared_by("peer")
    }

    /// Sends a task and waits for its end. Every attempt of one call sends the same task, so that a peer that knows the
    /// task's id can give the first answer again.
    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>>;

    /// Gives up a task that was sent: its answer is no longer wanted. A task that is over already is no error; one that
    /// is not known (yet) is [`PeerErrorKind::NotFound`], and is asked for again a moment later.
    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>>;
}

/// What another agent is sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Delegation {
    /// The task, as its intent keeps it.
    pub task: PostedTask,
    /// The same for every attempt, and for no other call.
    pub idempotency_key: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl Delegation {
    /// For whoever runs calls, and for tests of peers.
    pub fn new(task: PostedTask, idempotency_key: impl Into<String>, attempt: u32) -> Self {
        Self { task, idempotency_key: idempotency_key.into(), attempt }
    }
}

/// What became of a task that another agent was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAnswer {
    /// The state in which the task stopped.
    pub state: TaskState,
    /// The content of its last part: what the model is told, whatever the state.
    pub result: JsonText,
    /// The error that ended its run in the middle, so that there is no output of it.
    pub broke: Option<String>,
}

impl PeerAnswer {
    /// The answer that a task stands for which came back as Protolink sends it. Which item is last is read off the
    /// times.
    pub fn of_posted(task: &PostedTask) -> Self {
        let last = task.last_item().and_then(|item| LastItem::parts(item).last());
        let error = task.metadata.get("error").and_then(JsonText::to_str);
        Self::of(task.state, last.map(Part::content), &task.artifacts, error)
    }

    /// The answer of a task in this state, with this content in its last part. Outputs that hold an error are a
    /// result as any other; a failed task without one has broken, in Protolink's words: its agent raised.
    pub fn of(
        state: TaskState,
        last: Option<&JsonText>,
        artifacts: &[Artifact],
        error: Option<String>,
    ) -> Self {
        let outputs: Vec<Part> =
            artifacts.iter().flat_map(|artifact| artifact.parts.iter().cloned()).collect();
        let broke = state == TaskState::Failed && !matches!(final_state(&outputs), FinalState::Failed { .. });
        let broke = broke.then(|| error.unwrap_or_else(|| "unknown error".to_owned()));
        Self { state, result: last.cloned().unwrap_or_else(JsonText::null), broke }
    }

    /// As an event keeps it.
    pub(crate) fn to_json(&self) -> JsonText {
        let fields: JsonObject = [
            ("state".to_owned(), JsonText::string(self.state.as_str())),
            ("result".to_owned(), self.result.clone()),
        ]
        .into_iter()
        .collect();
        fields.to_text()
    }

    /// The result in what an event keeps.
    pub(crate) fn result_in(kept: &JsonText) -> JsonText {
        let fields: JsonObject = kept.read().unwrap_or_default();
        fields.get("result").cloned().unwrap_or_else(JsonText::null)
    }
}

/// Which kind of failure a peer reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerErrorKind {
    /// The peer does not take this task. The model is told, and may try something else.
    Refused,
    /// It was certainly never sent. Ends the run.
    Unreachable,
    /// The peer took it and broke. Ends the run.
    Failed,
    /// It may have been taken in; its answer is lost. What follows is the policy's to say, as after a crash.
    Lost,
    /// The peer knows no such task.
    NotFound,
}

/// A peer's failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PeerError {
    kind: PeerErrorKind,
    message: String,
}

impl PeerError {
    /// A failure of a kind, in words for people and models.
    pub fn new(kind: PeerErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Which kind.
    pub fn kind(&self) -> PeerErrorKind {
        self.kind
    }
}

/// The agents that one agent may ask.
#[derive(Clone, Default)]
pub struct Peers {
    on: bool,
    known: Vec<Arc<dyn Peer>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.known.iter().map(|peer| peer.name()).collect();
        f.debug_struct("Peers").field("on", &self.on).field("known", &names).finish()
    }
}

impl Peers {
    /// Switches asking others on or off.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Adds one, and switches asking on.
    pub fn add(&mut self, peer: Arc<dyn Peer>) {
        self.on = true;
        self.known.push(peer);
    }

    /// Whether a model may ask others.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// All of them, in the order in which they were added; none while it is switched off.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Peer>> {
        self.known.iter().filter(|_| self.on)
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Peer>> {
        self.iter().find(|peer| peer.name() == name)
    }

    /// Whether an agent of this name can ask them.
    ///
    /// # Errors
    /// Why not: a name that cannot be one or comes twice, a policy that contradicts itself.
    pub fn check(&self, own: &str) -> Result<(), String> {
        let mut names = HashSet::from([own]);
        for peer in &self.known {
            let name = peer.name();
            check_id(name).map_err(|error| format!("peer `{name}`: {error}"))?;
            if let Some(why) = peer.policy().contradiction() {
                return Err(format!("peer `{name}`: {why}"));
            }
            if !names.insert(name) {
                return Err(format!("two agents are named `{name}`; a model could not tell them apart"));
            }
        }
        Ok(())
    }

    /// As the model is told of them.
    pub fn lines(&self) -> Vec<AgentLine> {
        let line = |peer: &Arc<dyn Peer>| AgentLine {
            name: peer.name().to_owned(),
            description: peer.description().to_owned(),
            skills: peer.skills(),
        };
        self.iter().map(line).collect()
    }

    /// Names and skills: they mend a reply that leaves out whom it means.
    pub fn skills(&self) -> Vec<(String, Vec<String>)> {
        self.iter().map(|peer| (peer.name().to_owned(), peer.skills())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl proto_events::id::Mint for Fixed {
        fn id(&mut self, prefix: &str) -> String {
            format!("{prefix}1")
        }

        fn uuid(&mut self) -> String {
            "u".to_owned()
        }

        fn timestamp(&mut self) -> String {
            "2026-11-21T07:03:20+00:00".to_owned()
        }
    }

    fn task(json: &str) -> PostedTask {
        PostedTask::parse(json, &mut Fixed).unwrap()
    }

    #[test]
    fn a_task_whose_output_is_an_error_answers_with_it_and_one_that_raised_has_broken() {
        let failed = task(
            r#"{"state":"failed","metadata":{"error":"boom"},"messages":[{"timestamp":"1","parts":[{"type":"infer","content":{"prompt":"p"}}]}],
                "artifacts":[{"timestamp":"2","parts":[{"type":"tool_output","content":{"call_id":"c","result":null,"error":{"message":"boom"}}}]}]}"#,
        );
        let answer = PeerAnswer::of_posted(&failed);
        assert_eq!(answer.broke, None);
        assert!(answer.result.as_str().contains("boom"), "{answer:?}");
        let raised = task(r#"{"state":"failed","metadata":{"error":"model down"}}"#);
        assert_eq!(PeerAnswer::of_posted(&raised).broke.as_deref(), Some("model down"));
        let done =
            task(r#"{"state":"completed","artifacts":[{"parts":[{"type":"infer_output","content":"ok"}]}]}"#);
        let answer = PeerAnswer::of_posted(&done);
        assert_eq!((answer.state, answer.result.as_str()), (TaskState::Completed, "\"ok\""));
        assert_eq!(PeerAnswer::result_in(&answer.to_json()).as_str(), "\"ok\"");
    }
}
