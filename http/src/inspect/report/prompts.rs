//! The prompts of a task's models, exactly as they were sent, each rendered again from the log and checked against the digest in its
//! intent. A message that an earlier prompt of the report showed in the same place is not written again: the place is named.

use std::collections::HashMap;

use askama::Template;
use proto_events::call::CallEvent;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use sha2::{Digest as _, Sha256};
use taskreel_log::api::ReadError;
use taskreel_log::context::MessageView;
use taskreel_log::shown::{Prompt, PromptError, PromptReader, prompt_digest_from};
use taskreel_log::views::Course;

use crate::inspect::block::Block;
use crate::inspect::report::merged::Merged;
use crate::inspect::report::writing::{ReportError, Writing};

/// The digest of a message or of the tools that were offered.
type Mark = [u8; 32];

#[derive(Template)]
#[template(path = "inspect/report/prompt.html")]
struct PromptView {
    anchor: String,
    version: u64,
    target: String,
    call: String,
    check: (bool, String),
    facts: Vec<(&'static str, String)>,
    pieces: Vec<Piece>,
}

/// A piece of a prompt, or the words that name the place where it stands.
struct Piece {
    title: String,
    class: &'static str,
    block: Block,
    /// The version of the prompt where it is written.
    stands_at: Option<u64>,
    /// The number of the first message that is named.
    first: usize,
}

/// The prompt that was written last: its pieces, each with the version of the prompt where it stands.
#[derive(Default)]
struct Written {
    tools: Option<(Mark, u64)>,
    messages: Vec<(Mark, u64)>,
}

/// Writes the prompts of a task.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn prompts(
    writing: &mut Writing<'_, '_>,
    task: &StreamId,
    course: &Course,
) -> Result<(), ReportError> {
    if !course.calls.iter().any(|call| call.kind == "infer") {
        return Ok(());
    }
    let anchor = writing.cx.links.anchor(task).unwrap_or_default().to_owned();
    writing
        .ink
        .text(&format!("<section>\n<h2 id=\"{anchor}-prompts\">Prompts, as the models saw them</h2>\n"))?;
    if let Err(error) = written(writing, task, course) {
        match error {
            ReportError::Read(error) => writing.damaged(error)?,
            other => return Err(other),
        }
    }
    writing.ink.text("</section>\n")
}

fn written(writing: &mut Writing<'_, '_>, task: &StreamId, course: &Course) -> Result<(), ReportError> {
    let versions: HashMap<&str, Version> =
        course.calls.iter().map(|call| (call.call_id.as_str(), call.version)).collect();
    let sessions = course.newest.state.calls().iter().filter_map(|call| {
        let session = call.request.prompt.as_ref()?.session.as_ref()?;
        StreamId::parse(session).ok()
    });
    let mut streams: Vec<StreamId> = sessions.collect();
    streams.sort_unstable();
    streams.dedup();
    streams.extend(StreamId::of_agent(&task.agent()).ok());
    streams.push(task.clone());
    let (mut merged, mut reader) = (Merged::new(writing.log, streams), PromptReader::default());
    let (mut before, mut read_to) = (Written::default(), Version(0));
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
            let view = view(writing, task, (named, version), prompt, &mut before)?;
            writing.done.prompts_wrong += u64::from(!view.check.0);
            writing.ink.put(&view)?;
        }
    }
    Ok(())
}

fn view(
    writing: &Writing<'_, '_>,
    task: &StreamId,
    ((target, call), version): ((&str, &str), Version),
    prompt: Result<Prompt, PromptError>,
    before: &mut Written,
) -> Result<PromptView, ReadError> {
    let anchor = writing.cx.links.anchor(task).unwrap_or_default().to_owned();
    let mut view = PromptView {
        anchor,
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
    view.pieces = pieces(&prompt, version.0, writing.options.bytes_max(), before);
    Ok(view)
}

fn pieces(prompt: &Prompt, version: u64, bytes_max: usize, before: &mut Written) -> Vec<Piece> {
    let system = (("system".to_owned(), prompt.system.as_str()), None);
    let said = prompt.messages.iter().zip(&prompt.omitted).map(|(said, omitted)| {
        let view = MessageView::of(said);
        let mut title = said.role.as_str().to_owned();
        if let Some(answered) = view.answers.and_then(JsonText::to_str) {
            title = format!("{title}, the answer to {answered}");
        }
        if *omitted > 0 {
            title = format!("{title}, {omitted} characters are left out");
        }
        ((title, said.content.as_str()), view.calls)
    });
    let (mut pieces, mut messages) = (Vec::new(), Vec::new());
    let mut is_same = true;
    for (number, ((title, content), calls)) in std::iter::once(system).chain(said).enumerate() {
        let calls = calls.map_or("", JsonText::as_str);
        let mark = mark_of(&[&title, content, calls]);
        let known = before.messages.get(number).filter(|(known, _)| is_same && *known == mark);
        is_same = known.is_some();
        let stands_at = known.map(|(_, at)| *at);
        messages.push((mark, stands_at.unwrap_or(version)));
        if stands_at.is_some() {
            // Several in a row that stand in one place are named together.
            match pieces.last_mut() {
                Some(Piece { stands_at: last, title, first, .. }) if *last == stands_at => {
                    *title = format!("messages {first} to {number}");
                }
                _ => pieces.push(Piece {
                    title: format!("message {number}"),
                    class: "head",
                    block: Block::default(),
                    stands_at,
                    first: number,
                }),
            }
            continue;
        }
        let block = Block::within(content, bytes_max, "");
        pieces.push(Piece {
            title: format!("{number} {title}"),
            class: "text",
            block,
            stands_at: None,
            first: 0,
        });
        if !calls.is_empty() {
            let block = Block::within(calls, bytes_max, "");
            pieces.push(Piece {
                title: "calls asked for".to_owned(),
                class: "json",
                block,
                stands_at: None,
                first: 0,
            });
        }
    }
    before.messages = messages;
    pieces.extend(tools(prompt, version, bytes_max, before));
    pieces
}

fn tools(prompt: &Prompt, version: u64, bytes_max: usize, before: &mut Written) -> Vec<Piece> {
    let told: Vec<(String, String)> = prompt
        .offer
        .tools
        .iter()
        .map(|tool| (format!("tool {}", tool.name), format!("{}\n{}", tool.description, tool.input_schema)))
        .collect();
    if told.is_empty() {
        return Vec::new();
    }
    let all: Vec<&str> = told.iter().flat_map(|(name, schema)| [name.as_str(), schema.as_str()]).collect();
    let mark = mark_of(&all);
    if let Some((_, at)) = before.tools.filter(|(known, _)| *known == mark) {
        let title = "the tools offered".to_owned();
        return vec![Piece { title, class: "head", block: Block::default(), stands_at: Some(at), first: 0 }];
    }
    before.tools = Some((mark, version));
    let piece = |(title, schema): (String, String)| Piece {
        title,
        class: "text",
        block: Block::within(&schema, bytes_max, ""),
        stands_at: None,
        first: 0,
    };
    told.into_iter().map(piece).collect()
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
