//! `prompt`: prints what the model was shown for one inference.

use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::LlmMessage;
use taskreel_log::api::EventReader;
use taskreel_log::audit::json::{object, text, text_or_null};
use taskreel_log::shown::{OfferedTool, Prompt, PromptDigest, PromptError, prompt_digest, prompt_of};

use crate::print::answer::Answer;
use crate::print::plain::without_control;
use crate::print::problem::{EXIT_LOG, EXIT_NEWER, EXIT_UNKNOWN, Problem};
use crate::print::screen::{Screen, note};

/// Prints the prompt of an inference as the model was sent it, and compares its digest with the one in the intent.
///
/// # Errors
/// [`Problem`] if there is no such inference, the log does not hold what it was shown, or the reader of the output is gone.
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
        for said in &shown.messages {
            let name = said.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
            message(&format!("{}{name}", said.role), &said.content, screen)?;
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

fn tool_text(tool: &OfferedTool) -> String {
    format!("{}\n{}", tool.description, tool.input_schema)
}

fn json(task: &StreamId, call_id: &str, shown: &Prompt, digest: &PromptDigest) -> JsonText {
    let system =
        object([("role", text("system")), ("content", text(&shown.system)), ("name", JsonText::null())]);
    let said = |message: &LlmMessage| {
        let (role, content) = (text(message.role.as_str()), text(&message.content));
        object([("role", role), ("content", content), ("name", text_or_null(message.name.as_deref()))])
    };
    let messages: Vec<JsonText> = std::iter::once(system).chain(shown.messages.iter().map(said)).collect();
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
        ("tools", JsonText::of_model(&tools)),
        ("digest", text(&digest.named.to_string())),
        ("recomputed", text(&digest.computed.to_string())),
        ("equal", JsonText::of_model(&digest.is_equal())),
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
