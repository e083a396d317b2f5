//! The prompts of a task's models, exactly as they were sent, each rendered again from the log and checked against the digest in its
//! intent. A message that an earlier prompt of the report showed is not written again: the place is named.

use std::collections::HashMap;

use askama::Template;
use proto_events::call::{CallBook, CallEvent};
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use sha2::{Digest as _, Sha256};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::context::MessageView;
use taskreel_log::shown::{Prompt, PromptError, PromptReader, prompt_digest_from};
use taskreel_log::views::Course;

use crate::inspect::block::Block;
use crate::inspect::report::merged_streams::MergedStreams;
use crate::inspect::report::prompt_places::{
    Mark, PromptNames, PromptPiece, PromptPlace, Stands, WrittenPrompts,
};
use crate::inspect::report::report_writer::{ReportError, ReportWriter};

#[derive(Template)]
#[template(path = "inspect/report/prompt.html")]
struct PromptView {
    anchor: String,
    /// The task's id.
    id: String,
    version: u64,
    target: String,
    call: String,
    check: (bool, String),
    facts: Vec<(&'static str, String)>,
    pieces: Vec<PromptPiece>,
}

/// Writes the prompts of a task.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn prompts<'a>(
    writing: &mut ReportWriter<'a, '_>,
    task: &StreamId,
    course: &Course,
    so_far: &mut PromptsSoFar<'a>,
) -> Result<(), ReportError> {
    if !course.calls.iter().any(|call| call.kind == "infer") {
        return Ok(());
    }
    let anchor = writing.cx.links.anchor(task).unwrap_or_default().to_owned();
    writing
        .ink
        .text(&format!("<section>\n<h2 id=\"{anchor}-prompts\">Prompts, as the models saw them</h2>\n"))?;
    if let Err(error) = written(writing, (task, course), so_far) {
        match error {
            ReportError::Read(error) => writing.damaged(error)?,
            other => return Err(other),
        }
    }
    writing.ink.text("</section>\n")
}

/// The prompts that the report has read and written. The tasks of one conversation are read on from one to the next, so that
/// each record of it is read once.
#[derive(Default)]
pub(crate) struct PromptsSoFar<'a> {
    written: WrittenPrompts,
    conversation: Option<Conversation<'a>>,
}

/// The streams that the prompts of tasks are rendered from, as far as they were read.
struct Conversation<'a> {
    /// The streams of sessions and of the agent.
    streams: Vec<StreamId>,
    merged: MergedStreams<'a>,
    reader: PromptReader,
}

impl<'a> Conversation<'a> {
    fn new(log: &'a dyn EventReader, streams: Vec<StreamId>) -> Self {
        Self {
            merged: MergedStreams::new(log, streams.iter().cloned()),
            streams,
            reader: PromptReader::default(),
        }
    }

    /// Whether the prompts of these calls can be rendered from here on: no session was read further than the first of them was.
    fn is_before(&self, calls: &CallBook) -> bool {
        let prompts = calls.iter().filter_map(|call| call.request.prompt.as_ref());
        let mut read = prompts.filter_map(|prompt| {
            Some((StreamId::parse(prompt.session.as_ref()?).ok()?, prompt.read_through))
        });
        read.all(|(session, through)| self.merged.returned(&session) <= through)
    }
}

fn written<'a>(
    writing: &mut ReportWriter<'a, '_>,
    (task, course): (&StreamId, &Course),
    so_far: &mut PromptsSoFar<'a>,
) -> Result<(), ReportError> {
    let calls = course.newest.state.calls();
    let sessions =
        calls.iter().filter_map(|call| StreamId::parse(call.request.prompt.as_ref()?.session.as_ref()?).ok());
    let mut streams: Vec<StreamId> = sessions.collect();
    streams.sort_unstable();
    streams.dedup();
    streams.extend(StreamId::of_agent(&task.agent()).ok());
    let before = so_far.conversation.take();
    let before = before.filter(|before| before.streams == streams && before.is_before(calls));
    let mut conversation = before.unwrap_or_else(|| Conversation::new(writing.log, streams));
    conversation.merged.add(task.clone());
    of_task(writing, (task, course), &mut conversation, &mut so_far.written)?;
    conversation.merged.remove(task);
    conversation.reader.forget(task);
    so_far.conversation = Some(conversation);
    Ok(())
}

fn of_task(
    writing: &mut ReportWriter<'_, '_>,
    (task, course): (&StreamId, &Course),
    Conversation { merged, reader, .. }: &mut Conversation<'_>,
    written: &mut WrittenPrompts,
) -> Result<(), ReportError> {
    let versions: HashMap<&str, Version> =
        course.calls.iter().map(|call| (call.call_id.as_str(), call.version)).collect();
    let mut read_to = Version(0);
    while read_to < course.end {
        let Some(stored) = merged.next()? else { break };
        if stored.record.stream == *task {
            read_to = stored.record.last_version();
        }
        for prompted in reader.take(&stored)? {
            let (CallEvent::Requested(request), Some(prompt)) = (&prompted.event, prompted.prompt) else {
                continue;
            };
            let version = versions.get(request.call_id.as_str()).copied().unwrap_or(read_to);
            let named = (request.target.as_str(), request.call_id.as_str());
            let view = view(writing, task, (named, version), (prompt, written))?;
            writing.done.prompts_wrong += u64::from(!view.check.0);
            writing.ink.render(&view)?;
        }
    }
    Ok(())
}

fn view(
    writing: &ReportWriter<'_, '_>,
    task: &StreamId,
    ((target, call), version): ((&str, &str), Version),
    (prompt, written): (Result<Prompt, PromptError>, &mut WrittenPrompts),
) -> Result<PromptView, ReadError> {
    let anchor = writing.cx.links.anchor(task).unwrap_or_default().to_owned();
    let mut view = PromptView {
        anchor,
        id: task.id(),
        version: version.0,
        target: target.to_owned(),
        call: call.to_owned(),
        check: (false, String::new()),
        facts: Vec::new(),
        pieces: Vec::new(),
    };
    let prompt = match prompt {
        Ok(prompt) => prompt,
        Err(why) => {
            view.check = (false, format!("the prompt cannot be rendered again: {why}"));
            return Ok(view);
        }
    };
    view.check = match prompt_digest_from(writing.log, task, (call, version)) {
        Ok(digest) if digest.is_equal() => (
            true,
            format!("rendered again from the log; its digest is the one in the intent: {}", digest.named),
        ),
        Ok(digest) => (
            false,
            format!(
                "the intent names the digest {}, but what the log holds has {}",
                digest.named, digest.computed
            ),
        ),
        Err(PromptError::Read(error)) if error.is_of_reader() => return Err(error),
        Err(why) => (false, format!("its digest cannot be computed: {why}")),
    };
    view.facts = vec![
        ("messages", (prompt.messages.len() + 1).to_string()),
        ("left out", format!("{} messages of the history", prompt.left_out)),
        ("tools offered", prompt.offer.tools.len().to_string()),
    ];
    let at =
        PromptPlace { anchor: format!("{}-p{version}", view.anchor), task: task.id(), version: version.0 };
    view.pieces = prompt_pieces(&prompt, at, writing.options.bytes_max(), written);
    Ok(view)
}

fn prompt_pieces(
    prompt: &Prompt,
    at: PromptPlace,
    bytes_max: usize,
    written: &mut WrittenPrompts,
) -> Vec<PromptPiece> {
    let system = (("system".to_owned(), prompt.system.as_str()), None);
    let said = prompt.sent().map(|(said, omitted, images)| {
        let view = MessageView::from_message(said);
        let mut title = said.role.as_str().to_owned();
        if let Some(answered) = view.answers.and_then(JsonText::to_str) {
            title = format!("{title}, the answer to {answered}");
        }
        if omitted > 0 {
            title = format!("{title}, {omitted} characters are left out");
        }
        for image in images {
            title = format!("{title}, with {image}");
        }
        ((title, said.content.as_str()), view.calls)
    });
    let (mut pieces, mut naming) = (Vec::new(), written.start_prompt(at));
    for (number, ((title, content), calls)) in std::iter::once(system).chain(said).enumerate() {
        let calls = calls.map_or("", JsonText::as_str);
        if naming.is_named(number, mark_of(&[&title, content, calls]), &mut pieces) {
            continue;
        }
        pieces.push(PromptPiece::text(format!("{number} {title}"), "text", content, bytes_max));
        if !calls.is_empty() {
            pieces.push(PromptPiece::text("calls asked for".to_owned(), "json", calls, bytes_max));
        }
    }
    tools(prompt, bytes_max, &mut naming, &mut pieces);
    naming.end();
    pieces
}

fn tools(prompt: &Prompt, bytes_max: usize, naming: &mut PromptNames<'_>, pieces: &mut Vec<PromptPiece>) {
    let told: Vec<(String, String)> = prompt
        .offer
        .tools
        .iter()
        .map(|tool| (format!("tool {}", tool.name), format!("{}\n{}", tool.description, tool.input_schema)))
        .collect();
    if told.is_empty() {
        return;
    }
    let all: Vec<&str> = told.iter().flat_map(|(name, schema)| [name.as_str(), schema.as_str()]).collect();
    match naming.place_of(mark_of(&all)) {
        Some(place) => pieces.push(PromptPiece {
            title: "the tools offered".to_owned(),
            class: "head",
            block: Block::default(),
            stands_at: Some(Stands { place, messages: None }),
        }),
        None => {
            pieces.extend(
                told.into_iter().map(|(title, schema)| PromptPiece::text(title, "text", &schema, bytes_max)),
            );
        }
    }
}

/// Returns the digest of texts, in which each is told apart from the next.
fn mark_of(texts: &[&str]) -> Mark {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
