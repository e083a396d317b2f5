//! The message that is sent to an agent elsewhere, and the answer in its task in the end: without loss where it is one of ours, and as a text
//! or data where it is any other.

use proto_events::call::{Answer, CallQuestion};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{self, BudgetUsage, PostedTask, TaskState};
use taskreel::peer::PeerAnswer;

use crate::a2a::mapping::message::{self, MessagePlace};
use crate::a2a::mapping::notes::{Notes, RUN, USED};
use crate::a2a::mapping::task::to_ours;
use crate::a2a::mapping::{EXTENSION, part};
use crate::a2a::model::{Content, Message, Part, Role, State, Status, Task};
use crate::a2a::wire::{DataForm, write};

/// The most characters of an agent's question that a person is asked.
const QUESTION_MAX: usize = 4_000;

/// Returns the message that begins the task at the agent. Each attempt sends the same.
pub(crate) fn message_of(task: &PostedTask, is_lossless: bool) -> Message {
    let context = task.id.clone();
    let Some(last) = task.messages.last() else {
        return Message::user(&task.id, vec![Part::text("")]).in_context(&context);
    };
    if is_lossless {
        let place = MessagePlace { task: &task.id, context: &context };
        let mut message = message::to_a2a(last, place);
        let mut notes = Notes::extract(&mut message.metadata);
        notes.set_json(RUN, &task.metadata.to_text());
        notes.write_to(&mut message.metadata);
        return Message { task_id: None, role: Role::User, ..message };
    }
    let id = last.id.clone().unwrap_or_else(|| task.id.clone());
    Message::user(&id, last.parts.iter().flat_map(plain).collect()).in_context(&context)
}

/// Returns a part as an agent of any make reads it.
fn plain(own: &model::Part) -> Vec<Part> {
    let fields: JsonObject = own.content().read().unwrap_or_default();
    let text = |key: &str| fields.get(key).and_then(JsonText::to_str);
    match own.kind() {
        "infer" => vec![Part::text(&text("prompt").unwrap_or_else(|| own.content().to_string()))],
        "tool_call" => {
            let name = text("tool_name").unwrap_or_default();
            let args = fields.get("args").cloned().unwrap_or_else(JsonText::empty_object);
            let words = format!("Use your skill `{name}` with these arguments.");
            vec![Part::text(&words), Part::from_content(Content::Data(args))]
        }
        _ => vec![part::to_a2a(own, part::Beside::default())],
    }
}

/// Returns the id of the message that answers a question, by the question's number from 1.
pub(crate) fn answer_id(task_id: &str, number: usize) -> String {
    format!("{task_id}-answer-{number}")
}

/// Returns the message that answers the last question, and its number; `None` where nothing is answered.
pub(crate) fn answer_to(task_id: &str, questions: &[CallQuestion]) -> Option<(Message, usize)> {
    let number = questions.len();
    let text = match questions.last()?.answer.as_ref()? {
        Answer::Given(text) => text.clone(),
        Answer::Declined(why) if why.is_empty() => "No answer.".to_owned(),
        Answer::Declined(why) => format!("No answer: {why}"),
    };
    Some((Message::user(&answer_id(task_id, number), vec![Part::text(&text)]), number))
}

/// Returns what an agent says about its task: what it asks, or why it refuses it.
pub(crate) fn words_of(name: &str, status: &Status) -> String {
    let said = status.message.as_ref().map(|message| words(&message.parts)).unwrap_or_default();
    let said: String = said.trim().chars().take(QUESTION_MAX).collect();
    let does = match status.state {
        State::AuthRequired => "asks for authorization",
        State::Rejected => "refused the task",
        _ => "asks",
    };
    if said.is_empty() {
        format!("The agent '{name}' {does}.")
    } else {
        format!("The agent '{name}' {does}: {said}")
    }
}

/// Returns the texts of parts.
fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the answer in a task that is over.
pub(crate) fn answer_of(task: Task, is_lossless: bool) -> PeerAnswer {
    if is_lossless || task.metadata.get(EXTENSION).is_some() {
        let used = usage_in(&task);
        let answer = PeerAnswer::of_posted(&to_ours(task));
        return match used {
            Some(used) => answer.with_usage(used),
            None => answer,
        };
    }
    let state = state_of(task.status.state);
    let said = task.status.message.as_ref().map(|message| message.parts.clone());
    let error = (state == TaskState::Failed).then(|| {
        let words = said.as_deref().map(words).unwrap_or_default();
        if words.trim().is_empty() { "its task failed".to_owned() } else { words }
    });
    let results = task.artifacts.unwrap_or_default().into_iter().flat_map(|artifact| artifact.parts);
    let results: Vec<Part> = results.collect();
    let answered = task.history.iter().rev().find(|one| one.role == Role::Agent);
    let parts = if results.is_empty() {
        said.or_else(|| answered.map(|one| one.parts.clone())).unwrap_or_default()
    } else {
        results
    };
    PeerAnswer { state, result: content_of(&parts), error, used: BudgetUsage::default() }
}

/// Returns what one of our agents has used, as its task tells it.
fn usage_in(task: &Task) -> Option<BudgetUsage> {
    let notes = Notes::extract(&mut task.metadata.clone());
    Some(BudgetUsage::from_json(&notes.json(USED)?))
}

/// Returns the answer of an agent that makes no task.
pub(crate) fn answer_in(said: &Message, is_lossless: bool) -> PeerAnswer {
    let result = if is_lossless {
        let ours = message::to_ours(said.clone(), false);
        ours.parts.last().map(|part| part.content().clone())
    } else {
        None
    };
    let result = result.unwrap_or_else(|| content_of(&said.parts));
    PeerAnswer { state: TaskState::Completed, result, error: None, used: BudgetUsage::default() }
}

/// Returns the content of parts: texts as one text, a single piece of data as it is, and anything else as A2A writes it.
fn content_of(parts: &[Part]) -> JsonText {
    match parts {
        [] => JsonText::null(),
        [Part { content: Content::Data(data), .. }] => data.clone(),
        parts if parts.iter().all(|part| matches!(part.content, Content::Text(_))) => {
            JsonText::string(&words(parts))
        }
        parts => {
            let written: Vec<JsonText> = parts.iter().map(|part| write::part(DataForm::V1, part)).collect();
            JsonText::of_model(&written)
        }
    }
}

fn state_of(state: State) -> TaskState {
    match state {
        State::Completed => TaskState::Completed,
        State::Canceled => TaskState::Canceled,
        State::Failed | State::Rejected => TaskState::Failed,
        State::InputRequired | State::AuthRequired => TaskState::InputRequired,
        State::Submitted => TaskState::Submitted,
        State::Working => TaskState::Working,
        State::Unspecified => TaskState::Unknown,
    }
}
