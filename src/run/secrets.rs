//! Secret arguments that arrive in clear: each value is replaced by a reference before anything is decided or
//! written.

use proto_events::call::Answer;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, Message, Part, PostedTask};
use proto_events::secret::{KeptSecret, SecretRef};
use proto_events::task::{HandlerSays, Task, TaskCommand};

use crate::agent::card::Agent;
use crate::grammar::action::{Action, Reply, parse_action};
use crate::models::backend::{InferReply, ToolAsk};
use crate::tools::secret::{Mask, inner};

/// The text in place of arguments that are no object, where the tool has secret ones: nobody can tell them apart.
const NO_OBJECT: &str = "arguments that are no object are not kept, because the tool has secret arguments";

/// A value that was replaced.
#[derive(Clone)]
pub(crate) struct ReplacedSecret {
    pub(crate) tool: String,
    pub(crate) argument: String,
    pub(crate) reference: KeptSecret,
    pub(crate) value: JsonText,
}

/// The replacement of the values in one command.
pub(crate) struct SecretReplacement<'a> {
    agent: &'a Agent,
    task: &'a Task,
    /// The references that the task has already, by tool and argument: an equal value gets the same one, so that a
    /// repeated command is recognised. They are looked for with the first value: most commands bring none, and the
    /// search reads the whole task.
    known: Option<Vec<(String, String, KeptSecret)>>,
    salt: &'a mut dyn FnMut() -> [u8; 16],
    pub(crate) replaced: Vec<ReplacedSecret>,
}

impl<'a> SecretReplacement<'a> {
    /// Prepares the replacement in a command for this task. `None` if no tool of the agent has secret arguments.
    pub(crate) fn new(
        agent: &'a Agent,
        task: &'a Task,
        salt: &'a mut dyn FnMut() -> [u8; 16],
    ) -> Option<Self> {
        let has_secrets = agent.tools.have_secrets();
        has_secrets.then(|| Self { agent, task, known: None, salt, replaced: Vec::new() })
    }

    /// Returns the references in the task's parts and calls.
    fn learned(&self) -> Vec<(String, String, KeptSecret)> {
        let task = self.task;
        let messages = task.messages().iter().map(|message| &message.parts);
        let parts = messages.chain(task.artifacts().iter().map(|artifact| &artifact.parts)).flatten();
        let asked = parts.filter_map(|part| part.as_tool_call().ok());
        let mut known = Vec::new();
        for asked in asked {
            self.learn(&mut known, &asked.tool_name, &asked.args);
        }
        for call in task.calls().iter().filter(|call| !call.request.secrets.is_empty()) {
            self.learn(&mut known, &call.request.target, &call.request.args);
        }
        known
    }

    fn learn(&self, known: &mut Vec<(String, String, KeptSecret)>, tool: &str, args: &JsonText) {
        for (argument, reference) in proto_events::secret::references(args, self.secrets(tool)) {
            if let SecretRef::Kept(kept) = reference {
                known.push((tool.to_owned(), argument, kept));
            }
        }
    }

    fn secrets(&self, tool: &str) -> &'a [String] {
        self.agent.tools.secret_args(tool)
    }

    /// Replaces the values in a posted task.
    pub(crate) fn posted(&mut self, posted: &mut PostedTask) {
        posted.messages.iter_mut().for_each(|message| self.message(message));
        posted.artifacts.iter_mut().for_each(|artifact| self.artifact(artifact));
    }

    /// Replaces the values in a caller's own command.
    pub(crate) fn command(&mut self, command: &mut TaskCommand) {
        match command {
            TaskCommand::Submit(posted) => self.posted(posted),
            TaskCommand::AppendMessage(message) => self.message(message),
            TaskCommand::AppendArtifact { artifact, .. }
            | TaskCommand::AppendArtifactPart { artifact, .. } => self.artifact(artifact),
            _ => {}
        }
    }

    /// Replaces the values in what a handler says.
    pub(crate) fn replace_in_handler_output(&mut self, says: &mut HandlerSays) {
        match says {
            HandlerSays::Message(message) => self.message(message),
            HandlerSays::Artifact(artifact) | HandlerSays::ArtifactPart { artifact, .. } => {
                self.artifact(artifact);
            }
        }
    }

    /// Replaces the values in a message.
    pub(crate) fn message(&mut self, message: &mut Message) {
        message.parts.iter_mut().for_each(|part| self.part(part));
    }

    fn artifact(&mut self, artifact: &mut Artifact) {
        artifact.parts.iter_mut().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: &mut Part) {
        let Ok(asked) = part.as_tool_call() else { return };
        if let Some(args) = self.args(&asked.tool_name, &asked.args) {
            let mut content: JsonObject = part.content().read().unwrap_or_default();
            content.set("args", args);
            *part = Part::new(part.kind(), content.to_text());
        }
    }

    /// Replaces the values in a model's reply.
    pub(crate) fn reply(&mut self, reply: InferReply) -> InferReply {
        let first = self.replaced.len();
        let mut reply = reply;
        if reply.calls.is_empty() {
            if let Some(content) = self.action(&reply.content) {
                reply.content = content;
            }
            return reply;
        }
        for ToolAsk { tool, args, .. } in &mut reply.calls {
            if let Some(replaced) = self.args(tool, args) {
                *args = replaced;
            }
        }
        let new = self.replaced.get(first..).unwrap_or_default();
        reply.content = new.iter().fold(reply.content, |text, replaced| without(&text, replaced));
        reply
    }

    /// Returns the text of a reply in the grammar of actions without its values. What the model said around them is
    /// kept where the text is read as the same action afterwards.
    fn action(&mut self, text: &str) -> Option<String> {
        let (names, skills) = (self.agent.tools.names(), self.agent.peers.skills());
        // Read loosely: a value is taken out of an action that is only quoted, too.
        let Ok(Action::ToolCall { tool, args }) = parse_action(text, &names, &skills) else { return None };
        let first = self.replaced.len();
        let args = self.args(&tool, &args)?;
        let wanted = Action::ToolCall { tool, args };
        let new = self.replaced.get(first..).unwrap_or_default();
        let masked = new.iter().fold(text.to_owned(), |text, replaced| without(&text, replaced));
        let is_clean = new.iter().all(|replaced| {
            replaced.value.to_str().is_some_and(|value| !masked.contains(&value) && !value.is_empty())
        });
        // What is only quoted stays a quotation.
        if self.agent.asks_natively() || self.agent.parse_reply(text).is_err() {
            return (!new.is_empty()).then_some(masked);
        }
        let same = parse_action(&masked, &names, &skills).is_ok_and(|action| is_same(&action, &wanted));
        if !new.is_empty() && is_clean && same {
            return Some(masked);
        }
        Some(Reply { thought: None, action: wanted }.to_json().to_string())
    }

    /// Returns the arguments with references in place of the values of the tool's secret arguments; `None` if there is
    /// nothing to replace.
    fn args(&mut self, tool: &str, args: &JsonText) -> Option<JsonText> {
        let secrets = self.secrets(tool);
        if secrets.is_empty() || args.is_null() {
            return None;
        }
        let Ok(mut fields) = args.read::<JsonObject>() else {
            return Some(JsonText::string(NO_OBJECT));
        };
        let mut is_changed = false;
        for argument in secrets {
            let Some(value) = fields.get(argument).cloned() else { continue };
            if value.is_null() || SecretRef::of_value(&value).is_some() {
                continue;
            }
            let reference = self.reference(tool, argument, &value);
            fields.set(argument.as_str(), JsonText::string(&reference.to_string()));
            is_changed = true;
        }
        is_changed.then(|| fields.to_text())
    }

    fn reference(&mut self, tool: &str, argument: &str, value: &JsonText) -> KeptSecret {
        let fits = |known: &&(String, String, KeptSecret)| {
            known.0 == tool && known.1 == argument && known.2.fits(value)
        };
        let mut all = self.known.take().unwrap_or_else(|| self.learned());
        let known = all.iter().find(fits).map(|known| known.2);
        let reference = known.unwrap_or_else(|| KeptSecret::new((self.salt)(), value));
        let (tool, argument) = (tool.to_owned(), argument.to_owned());
        if known.is_none() {
            all.push((tool.clone(), argument.clone(), reference));
        }
        self.known = Some(all);
        self.replaced.push(ReplacedSecret { tool, argument, reference, value: value.clone() });
        reference
    }
}

/// Replaces the values of a task in what a handler says.
pub(crate) fn mask_said(mask: &Mask, says: &mut HandlerSays) {
    match says {
        HandlerSays::Message(message) => mask_parts(mask, &mut message.parts),
        HandlerSays::Artifact(artifact) | HandlerSays::ArtifactPart { artifact, .. } => {
            mask_artifact(mask, artifact);
        }
    }
}

/// Replaces the values of a task in an artifact.
pub(crate) fn mask_artifact(mask: &Mask, artifact: &mut Artifact) {
    mask_parts(mask, &mut artifact.parts);
    for text in [&mut artifact.name, &mut artifact.uri].into_iter().flatten() {
        *text = mask.text(text);
    }
    let metadata = artifact.metadata.to_text();
    artifact.metadata = mask.json(metadata).read().unwrap_or_default();
}

/// Replaces the values of a task in parts.
pub(crate) fn mask_parts(mask: &Mask, parts: &mut [Part]) {
    for part in parts {
        *part = Part::new(part.kind(), mask.json(part.content().clone()));
    }
}

/// Replaces the values of a task in a person's answer.
pub(crate) fn mask_answer(mask: &Mask, answer: &mut Answer) {
    let (Answer::Given(text) | Answer::Declined(text)) = answer;
    *text = mask.text(text);
}

/// Returns the text with a value replaced by its reference, as it is and as JSON writes it.
fn without(text: &str, replaced: &ReplacedSecret) -> String {
    let Some(value) = replaced.value.to_str().filter(|value| !value.is_empty()) else {
        return text.to_owned();
    };
    let reference = replaced.reference.to_string();
    text.replace(&inner(&value), &reference).replace(&value, &reference)
}

fn is_same(one: &Action, other: &Action) -> bool {
    match (one, other) {
        (Action::ToolCall { tool, args }, Action::ToolCall { tool: other, args: theirs }) => {
            tool == other && args.tree() == theirs.tree()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json;
    use taskreel_log::ports::Ports;

    use super::*;
    use crate::tools::into_tool::DynTool;
    use crate::tools::policy::ToolPolicy;
    use crate::tools::registry::RegisteredTool;

    #[test]
    fn the_task_is_read_for_its_references_with_the_first_value_only() {
        let mut agent = Agent::new("agent");
        let work = |_, args: JsonText| async move { Ok(args) };
        let policy = ToolPolicy::manual().secret_args(["password"]);
        let login = RegisteredTool::new("login", "", policy, DynTool::new(json!(null), work));
        agent.tools.register(login.unwrap()).unwrap();
        let (task, mut salt) = (Task::default(), || [7; 16]);
        let mut replacing = SecretReplacement::new(&agent, &task, &mut salt).unwrap();
        let says = |args| Part::tool_call("login", args).unwrap();
        let mut harmless = Message::new(
            "user",
            vec![Part::text("hello"), says(json!({"password": "secret:prod"})), says(json!({}))],
            &mut Ports::default(),
        );
        replacing.message(&mut harmless);
        assert!(replacing.known.is_none() && replacing.replaced.is_empty());
        let mut two = [says(json!({"password": "hunter2000"})), says(json!({"password": "hunter2000"}))];
        for part in &mut two {
            replacing.part(part);
        }
        assert_eq!(replacing.known.as_ref().map(Vec::len), Some(1), "an equal value has the same reference");
        assert_eq!(two.first(), two.last());
    }
}
