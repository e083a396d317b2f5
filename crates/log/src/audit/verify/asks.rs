//! Checks each intent of a task against what asked for it: a part of the run's item, a reply of the model, or the message that a
//! handler is given. What a tool's or a handler's own code asks of other agents is in no event.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallKind, CallOrigin, CallRequested, FailureClass};
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::{Artifact, LastItem, Message, Part, PostedTask, ToolCallView};
use proto_events::task::{ApprovalRequested, approved_args};

use crate::audit::verify::approvals::is_approved_task;
use crate::audit::verify::replies::{AGENT_CALL, Wish, Wishes};
use crate::audit::verify::suits::{FilledIn, compare};

/// A part of an item that a run carries out.
#[derive(Debug, Clone)]
pub(super) enum ExecutablePart {
    Tool(ToolCallView),
    /// The output schema that an inference is asked for; null without one.
    Infer(JsonText),
    /// A part that cannot be read, which ends its run.
    Unreadable,
}

impl ExecutablePart {
    fn from_part(part: &Part) -> Option<Self> {
        match part.kind() {
            "tool_call" => Some(part.as_tool_call().map_or(Self::Unreadable, Self::Tool)),
            // One that cannot be read asks without a prompt.
            "infer" => Some(Self::Infer(
                part.as_infer().map_or_else(|_| JsonText::null(), |asked| asked.output_schema),
            )),
            _ => None,
        }
    }
}

/// The item of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Item {
    /// The executable parts by their places; `None` of an artifact that was added in pieces.
    pub(super) parts: Option<BTreeMap<u32, ExecutablePart>>,
    /// The place of the message, if it is one.
    pub(super) message: Option<u64>,
}

impl Item {
    fn new(parts: &[Part], message: Option<u64>) -> Self {
        let parts = (0..).zip(parts).filter_map(|(at, part)| Some((at, ExecutablePart::from_part(part)?)));
        Self { parts: Some(parts.collect()), message }
    }
}

/// A reply of the model, and how far its calls are made.
#[derive(Debug)]
struct ModelReply {
    call_id: String,
    part: u32,
    wishes: Wishes,
    /// The number of the first call that may be made next.
    next: usize,
}

/// The asks of a run.
#[derive(Debug, Default)]
pub(super) struct RunAsks {
    pub(super) item: Item,
    /// The numbers of the inferences of each part, without those that others replaced.
    steps: BTreeMap<u32, u32>,
    /// The newest inference, and its part.
    inference: Option<(String, u32)>,
    /// The newest reply.
    reply: Option<ModelReply>,
}

/// A call that is intended, or for which an approval is requested.
struct MadeCall<'a> {
    kind: CallKind,
    target: &'a str,
    args: &'a JsonText,
    origin: &'a CallOrigin,
}

/// The members that an intent, or a request for an approval, has and nobody asked for.
pub(crate) struct FilledMembers {
    pub(crate) version: u64,
    /// The name of the event, with its id.
    pub(crate) of: String,
    pub(crate) tool: String,
    pub(crate) values: FilledIn,
}

/// The asks of a task read so far.
#[derive(Default)]
pub(crate) struct AsksCheck {
    /// The last item: a run that begins carries it out.
    last: Item,
    run: Option<RunAsks>,
    /// The members filled in by the intents of the open record, until the next one.
    filled: Vec<FilledMembers>,
}

/// A fault of an intent, in words that follow its name.
type Fault = Option<String>;

impl AsksCheck {
    /// Returns what the intents of the newest record have that nobody asked for.
    pub(crate) fn filled_in(&self) -> &[FilledMembers] {
        &self.filled
    }

    /// Takes the beginning of a record.
    pub(super) fn begin_record(&mut self) {
        self.filled.clear();
    }

    pub(super) fn run(&self) -> Option<&RunAsks> {
        self.run.as_ref()
    }

    /// Returns the part of an inference of the run, if it is the newest one.
    pub(super) fn part_of(&self, call_id: &str) -> Option<u32> {
        let (id, part) = self.run.as_ref()?.inference.as_ref()?;
        (id == call_id).then_some(*part)
    }

    /// Takes the task as it was submitted.
    pub(super) fn posted(&mut self, posted: &PostedTask) {
        let messages = u64::try_from(posted.messages.len()).unwrap_or(u64::MAX);
        self.last = posted.last_item().map_or_else(
            || Item::new(&[], None),
            |item| {
                let message = matches!(item, LastItem::Message(_)).then(|| messages.saturating_sub(1));
                Item::new(item.parts(), message)
            },
        );
    }

    /// Takes a message at this place.
    pub(super) fn message(&mut self, message: &Message, at: u64) {
        self.last = Item::new(&message.parts, Some(at));
    }

    pub(super) fn artifact(&mut self, artifact: &Artifact) {
        self.last = Item::new(&artifact.parts, None);
    }

    pub(super) fn piece(&mut self) {
        self.last = Item::default();
    }

    pub(super) fn begin_run(&mut self) {
        self.run = Some(RunAsks { item: self.last.clone(), ..RunAsks::default() });
    }

    /// Takes the end of a run. A task that is over needs nothing any more.
    pub(super) fn end_run(&mut self, is_over: bool) {
        self.run = None;
        if is_over {
            self.last = Item::default();
        }
    }

    /// Takes what happened to a call of this kind.
    pub(super) fn happened(&mut self, event: &CallEvent, kind: Option<CallKind>) {
        let Some(run) = self.run.as_mut().filter(|_| kind == Some(CallKind::Infer)) else { return };
        match event {
            CallEvent::Succeeded { call_id, result, .. } => {
                let Some((_, part)) = run.inference.as_ref().filter(|(id, _)| id == call_id) else { return };
                let (call_id, wishes) = (call_id.clone(), Wishes::from_reply(result));
                run.reply = Some(ModelReply { call_id, part: *part, wishes, next: 0 });
            }
            CallEvent::Failed { call_id, failure, .. } if failure.class == FailureClass::Superseded => {
                let Some((_, part)) = run.inference.take_if(|(id, _)| id == call_id) else { return };
                if let Some(steps) = run.steps.get_mut(&part) {
                    *steps = steps.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Takes an intent of this task and version and returns its fault. `messages` is the number of the task's messages.
    pub(super) fn intended(
        &mut self,
        request: &CallRequested,
        (task, version): (&StreamId, u64),
        messages: u64,
    ) -> Fault {
        let CallRequested { call_id, kind, target, args, origin, .. } = request;
        let run = self.run.as_mut()?;
        let made = MadeCall { kind: *kind, target, args, origin };
        let fault = match kind {
            CallKind::Handler if *target != task.agent() => {
                Some(format!("is of the handler of `{target}`, but the task is of `{}`", task.agent()))
            }
            CallKind::Handler if *origin != (CallOrigin { run: origin.run, ..CallOrigin::default() }) => {
                Some("of the handler has another origin than its run".to_owned())
            }
            CallKind::Handler => run.handler_fault(args, messages),
            CallKind::Infer => run.infer_fault(request),
            CallKind::Delegate if !is_approved_task(request) || !names_agent(args, target) => {
                Some("sends another agent another task than it asks for".to_owned())
            }
            CallKind::Delegate | CallKind::Tool if origin.parent.is_some() => None,
            CallKind::Delegate => {
                let args = approved_args(request);
                run.reply_fault(&MadeCall { args: &args, ..made }, true).err()
            }
            CallKind::Tool => match run.tool_fault(&made, true) {
                Ok(values) => {
                    self.fill(version, format!("call `{call_id}`"), target, values);
                    None
                }
                Err(fault) => Some(fault),
            },
        };
        fault.map(|fault| format!("call `{call_id}` {fault}"))
    }

    fn fill(&mut self, version: u64, of: String, tool: &str, values: FilledIn) {
        if !values.is_empty() {
            self.filled.push(FilledMembers { version, of, tool: tool.to_owned(), values });
        }
    }

    /// Takes a request of this version for the approval of a call and returns its fault.
    pub(super) fn approval(&mut self, asked: &ApprovalRequested, version: u64) -> Fault {
        let ApprovalRequested { approval_id, tool, args, origin, .. } = asked;
        let is_of_run = asked.changed_agent().is_some() || asked.exceeded_budget().is_some();
        let run = self.run.as_mut().filter(|_| !is_of_run && origin.parent.is_none())?;
        let fields: JsonObject = args.read().unwrap_or_default();
        let is_request = fields.get("type").and_then(JsonText::to_str).as_deref() == Some("agent_call");
        let is_request = is_request && origin.infer_call.is_some();
        let kind = if is_request { CallKind::Delegate } else { CallKind::Tool };
        let made = MadeCall { kind, target: tool, args, origin };
        let fault = if is_request { run.reply_fault(&made, false) } else { run.tool_fault(&made, false) };
        match fault {
            Ok(values) => {
                self.fill(version, format!("approval `{approval_id}`"), tool, values);
                None
            }
            Err(fault) => Some(format!("approval `{approval_id}` is for a call that {fault}")),
        }
    }
}

impl RunAsks {
    /// Returns the fault of a handler's call: it is given the message of its run.
    fn handler_fault(&self, args: &JsonText, messages: u64) -> Fault {
        let wanted = self.item.message.or_else(|| messages.checked_sub(1));
        let fields: JsonObject = args.read().unwrap_or_default();
        let named = fields.get("message").and_then(|message| message.read::<u64>().ok());
        (named != wanted).then(|| "of the handler names another message than that of its run".to_owned())
    }

    /// Takes an inference and returns its fault.
    fn infer_fault(&mut self, request: &CallRequested) -> Fault {
        let CallRequested { target, args, origin, .. } = request;
        let steps = self.steps.entry(origin.part).or_default();
        *steps = steps.saturating_add(1);
        let expected = *steps;
        self.inference = Some((request.call_id.clone(), origin.part));
        if origin.infer_call.is_some() || origin.part_call_id.is_some() || origin.parent.is_some() {
            return Some("is an inference, but names another call that asked for it".to_owned());
        }
        if origin.step != expected {
            return Some(format!("is step {} of its part, but follows step {}", origin.step, expected - 1));
        }
        let args: JsonObject = args.read().unwrap_or_default();
        let text = |name: &str| args.get(name).and_then(JsonText::to_str).unwrap_or_default();
        if *target != format!("{}/{}", text("backend"), text("model")) {
            return Some(format!("is of the model `{target}`, but its parameters name another one"));
        }
        let parts = self.item.parts.as_ref()?;
        let Some(ExecutablePart::Infer(schema)) = parts.get(&origin.part) else {
            return Some(format!("is an inference of part {}, which asks for none", origin.part));
        };
        let asked = args.get("output_schema").map_or(JsonValue::Null, JsonText::tree);
        (asked != schema.tree()).then(|| "asks for another output than its part".to_owned())
    }

    /// Returns what a tool's call has that nobody asked for.
    ///
    /// # Errors
    /// The fault of the call.
    fn tool_fault(&mut self, made: &MadeCall<'_>, is_intent: bool) -> Result<FilledIn, String> {
        let CallOrigin { part, step, infer_call, part_call_id, .. } = made.origin;
        if infer_call.is_some() {
            return self.reply_fault(made, is_intent);
        }
        let Some(parts) = &self.item.parts else { return Ok(FilledIn::new()) };
        let Some(ExecutablePart::Tool(asked)) = parts.get(part) else {
            return Err(format!("is of part {part}, which asks for no tool"));
        };
        if *step != 0 || asked.call_id != *part_call_id {
            return Err(format!("has another origin than part {part}"));
        }
        if asked.tool_name != made.target {
            return Err(format!("is of `{}`, but part {part} asks for `{}`", made.target, asked.tool_name));
        }
        compare(&asked.args, made.args)
            .ok_or_else(|| format!("has other arguments than part {part} asks for"))
    }

    /// Returns what a call that a reply asks for has beyond that.
    ///
    /// # Errors
    /// The fault of the call.
    fn reply_fault(&mut self, made: &MadeCall<'_>, is_intent: bool) -> Result<FilledIn, String> {
        let CallOrigin { part, step, infer_call, part_call_id, .. } = made.origin;
        let Some(infer_call) = infer_call else {
            return Err("asks another agent, but no reply asked for it".to_owned());
        };
        let reply = self.reply.as_mut().filter(|reply| reply.call_id == *infer_call);
        let Some(reply) = reply else {
            return Err(format!("names the inference `{infer_call}`, whose reply is not the newest"));
        };
        if *part != reply.part || Some(step) != self.steps.get(part) || part_call_id.is_some() {
            return Err("has another origin than the reply that asks for it".to_owned());
        }
        let wishes = reply.wishes.all.get(reply.next..).unwrap_or_default();
        let found = (0..).zip(wishes).find_map(|(at, wish)| Some((at, suits(wish, made)?)));
        let Some((at, values)) = found else {
            let target = made.target;
            return Err(format!(
                "is of `{target}` with arguments for which the reply of `{infer_call}` did not ask"
            ));
        };
        if is_intent {
            // The calls are made in their order; of a text one is.
            reply.next = if reply.wishes.is_native { reply.next + at + 1 } else { usize::MAX };
        }
        Ok(values)
    }
}

/// Returns what a call has beyond a wish; `None` if it is another one.
fn suits(wish: &Wish, made: &MadeCall<'_>) -> Option<FilledIn> {
    match (wish, made.kind) {
        (Wish::Tool { tool, args }, CallKind::Tool) if tool == made.target => compare(args, made.args),
        (Wish::Agent(wish), CallKind::Delegate) => {
            let is_its = wish.get("agent").and_then(JsonValue::as_str) == Some(made.target);
            (is_its && *wish == made.args.tree()).then(FilledIn::new)
        }
        // A host's own tool may have the function's name.
        (Wish::Agent(_), CallKind::Tool) if made.target == AGENT_CALL => Some(FilledIn::new()),
        (Wish::Repaired, _) => Some(FilledIn::new()),
        _ => None,
    }
}

/// Whether the arguments of a request to an agent name it.
fn names_agent(args: &JsonText, agent: &str) -> bool {
    let fields: JsonObject = args.read().unwrap_or_default();
    fields.get("agent").and_then(JsonText::to_str).as_deref() == Some(agent)
}
