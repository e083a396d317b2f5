//! `prompt`: prints what the model was shown for one inference.

use proto_events::id::StreamId;
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::LlmMessage;
use taskreel_log::api::EventReader;
use taskreel_log::audit::json::{object, text, text_or_null};
use taskreel_log::context::MessageView;
use taskreel_log::shown::{
    ImageRef, OfferedTool, Prompt, PromptDigest, PromptError, prompt_digest, prompt_of,
};

use crate::print::answer::Answer;
use crate::print::plain::without_control;
use crate::print::problem::{EXIT_LOG, EXIT_NEWER, EXIT_UNKNOWN, Problem};
use crate::print::screen::{Screen, note};

/// Prints the prompt of an inference as the model was sent it, and compares its digest with the one in the intent.
///
/// # Errors
/// [`Problem`] if the inference does not exist, the log does not hold what it was shown, or the reader of the output is gone.
pub(crate) fn prompt(
    reader: &dyn EventReader,
    task: &StreamId,
    call_id: &str,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let refused = |error| refused(error, call_id);
    let shown = prompt_of(reader, task, call_id).map_err(refused)?;
    let digest = prompt_digest(reader, task, call_id).map_err(refused)?;
    if screen.json {
        screen.json_line(&json(task, call_id, &shown, &digest))?;
    } else {
        message("system", &shown.system, screen)?;
        if shown.left_out > 0 {
            let head = format!("{} messages of the history are left out", shown.left_out);
            screen.line(&screen.bold(&format!("[{head}]")))?;
            screen.line("")?;
        }
        for (said, omitted, images) in shown.sent() {
            message(&head_of(said, omitted, images), &with_calls(said), screen)?;
        }
        for tool in &shown.offer.tools {
            message(&format!("tool {}", tool.name), &tool_text(tool), screen)?;
        }
    }
    screen.flush()?;
    if digest.is_equal() {
        note(&format!("the digest, computed again from the log, is the one in the intent: {}", digest.named));
        return Ok(Answer::Yes);
    }
    note(&format!(
        "the intent names the digest {}, but what the log holds has {}; `taskreel verify` finds what was changed",
        digest.named, digest.computed
    ));
    Ok(Answer::No)
}

fn message(head: &str, content: &str, screen: &mut Screen) -> Result<(), Problem> {
    let head = screen.bold(&screen.plain(&format!("[{head}]")));
    screen.line(&head)?;
    // The lines are the text's own, and nothing is cut: this is what the model saw.
    content.split('\n').try_for_each(|line| screen.line(&without_control(line)))?;
    screen.line("")
}

/// Returns the speaker of a message, the call that it answers, what is left out of it, and its images.
pub(crate) fn head_of(said: &LlmMessage, omitted: u64, images: &[ImageRef]) -> String {
    let name = said.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let answers = answered_by(said).map_or_else(String::new, |call| format!(", the answer to {call}"));
    let cut = if omitted == 0 { String::new() } else { format!(", {omitted} characters are left out") };
    let mut head = format!("{}{name}{answers}{cut}", said.role);
    for image in images {
        head = format!("{head}, with {image}");
    }
    head
}

/// Returns a message's text, and the calls that it asks for by the provider's own interface, one a line.
pub(crate) fn with_calls(said: &LlmMessage) -> String {
    let calls =
        calls_of(said).into_iter().map(|call| format!("call {}: {}({})", call.id, call.tool, call.args));
    let text = Some(said.content.clone()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

/// Returns the id of the call that a tool's message answers.
fn answered_by(said: &LlmMessage) -> Option<String> {
    MessageView::from_message(said).answers.and_then(JsonText::to_str)
}

/// A call that a message asks for.
struct RequestedCall {
    id: String,
    tool: String,
    /// The arguments, as the JSON text that the model gave.
    args: String,
}

fn calls_of(said: &LlmMessage) -> Vec<RequestedCall> {
    let calls = MessageView::from_message(said).calls.map(JsonText::tree).unwrap_or_default();
    let text = |value: Option<&JsonValue>| match value {
        Some(JsonValue::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let asked = |call: &JsonValue| RequestedCall {
        id: text(call.get("id")),
        tool: text(call.pointer("/function/name")),
        args: text(call.pointer("/function/arguments")),
    };
    calls.as_array().into_iter().flatten().map(asked).collect()
}

/// Returns the words and the schema of a tool as they were offered.
pub(crate) fn tool_text(tool: &OfferedTool) -> String {
    format!("{}\n{}", tool.description, tool.input_schema)
}

fn json(task: &StreamId, call_id: &str, shown: &Prompt, digest: &PromptDigest) -> JsonText {
    let system = object([
        ("role", text("system")),
        ("content", text(&shown.system)),
        ("name", JsonText::null()),
        ("calls", JsonText::of_model(&Vec::<JsonText>::new())),
        ("answers", JsonText::null()),
        ("omitted", JsonText::of_model(&0)),
        ("images", JsonText::of_model(&Vec::<JsonText>::new())),
    ]);
    let said = shown.sent().map(|(said, omitted, images)| message_json(said, omitted, images));
    let messages: Vec<JsonText> = std::iter::once(system).chain(said).collect();
    let tool = |tool: &OfferedTool| {
        object([
            ("name", text(&tool.name)),
            ("description", text(&tool.description)),
            ("input_schema", JsonText::from(tool.input_schema.clone())),
        ])
    };
    let tools: Vec<JsonText> = shown.offer.tools.iter().map(tool).collect();
    object([
        ("schema", text("taskreel.prompt/1")),
        ("task", text(&task.id())),
        ("stream", text(task.as_str())),
        ("call_id", text(call_id)),
        ("messages", JsonText::of_model(&messages)),
        ("left_out", JsonText::of_model(&shown.left_out)),
        ("tools", JsonText::of_model(&tools)),
        ("digest", text(&digest.named.to_string())),
        ("recomputed", text(&digest.computed.to_string())),
        ("equal", JsonText::of_model(&digest.is_equal())),
    ])
}

fn message_json(said: &LlmMessage, omitted: u64, images: &[ImageRef]) -> JsonText {
    let call = |RequestedCall { id, tool, args }| {
        // What the model gave is not JSON sometimes.
        let args = JsonText::parse(&args).unwrap_or_else(|_| JsonText::string(&args));
        object([("id", text(&id)), ("tool", text(&tool)), ("args", args)])
    };
    let calls: Vec<JsonText> = calls_of(said).into_iter().map(call).collect();
    object([
        ("role", text(said.role.as_str())),
        ("content", text(&said.content)),
        ("name", text_or_null(said.name.as_deref())),
        ("calls", JsonText::of_model(&calls)),
        ("answers", text_or_null(answered_by(said).as_deref())),
        ("omitted", JsonText::of_model(&omitted)),
        ("images", JsonText::of_model(&images)),
    ])
}

fn refused(error: PromptError, call_id: &str) -> Problem {
    let what = format!("cannot show the prompt of `{call_id}`");
    match error {
        PromptError::Read(error) => Problem::from(error),
        error @ PromptError::NoInference { .. } => {
            let hint = "`taskreel show TASK` lists the calls of a task; only an inference has a prompt";
            Problem::new(EXIT_UNKNOWN, what, error.to_string(), hint)
        }
        error @ PromptError::Renderer { .. } => {
            Problem::new(EXIT_NEWER, what, error.to_string(), "use the release of taskreel that wrote it")
        }
        other => {
            let hint = "`taskreel verify` lists what is missing or damaged";
            Problem::new(EXIT_LOG, what, other.to_string(), hint)
        }
    }
}
