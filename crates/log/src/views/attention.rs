//! The list of all that waits for somebody or is wrong, each with the command that ends it.

use std::collections::BTreeSet;

use proto_events::call::CallStatus;
use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Part, TaskState, asks_for_input};
use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::audit::words::{parts_text, tool_server};
use crate::read::fold::{FoldedStream, fold_stream};
use crate::views::attention_row::{Attention, AttentionRow, LogUse};
use crate::views::call_row::shell_word;
use crate::views::calls::unsettled_of;
use crate::views::candidates::AttentionWatch;
use crate::views::changed_tools::changed_tools_of;
use crate::views::readable::Readable;
use crate::views::tool_servers::tool_servers;
use crate::views::unclean_end::unclean_end;
use crate::views::webhooks::failing;

/// The time without an event after which a run counts as stalled although a program has the log open, in microseconds:
/// far longer than the actors take between two steps.
const STALLED_AFTER_US: i64 = 10 * 60 * 1_000_000;

/// Returns everything in a log that waits for somebody or is wrong, by kind, and by time within a kind. Tasks that a newer
/// release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn attention(
    reader: &dyn EventReader,
    used: LogUse,
    now: Timestamp,
) -> Result<Readable<AttentionRow>, ReadError> {
    attention_since(&mut AttentionWatch::default(), reader, used, now)
}

/// Returns what [`attention`] does, and reads of the log only what is new since the last look of this watch. A watch is one of one
/// log.
///
/// # Errors
/// As for [`attention`].
pub fn attention_since(
    watch: &mut AttentionWatch,
    reader: &dyn EventReader,
    used: LogUse,
    now: Timestamp,
) -> Result<Readable<AttentionRow>, ReadError> {
    let candidates = watch.candidates(reader)?;
    let calls = unsettled_of(reader, &candidates.unsettled, now)?;
    let mut found = Readable { newer: calls.newer, ..Readable::default() };
    found.rows.extend(calls.rows.into_iter().filter_map(AttentionRow::of_call));
    input_required(reader, &candidates.input_required, &mut found)?;
    if used != LogUse::Exported {
        stalled(reader, used, now, &mut found)?;
    }
    webhooks(reader, &candidates.webhooks, &mut found)?;
    tools(reader, candidates.unsettled, &mut found)?;
    for seen in tool_servers(reader)? {
        let what = format!("when a program last wrote here, {}", tool_server(&seen));
        let advice = "start the server, or correct it; a program with the log open tries it again by itself";
        found.rows.push(AttentionRow::new(Attention::Server, what, advice));
    }
    if used == LogUse::Closed {
        found.rows.extend(unclean_end(reader)?.map(|since| AttentionRow {
            since: Some(since),
            ..AttentionRow::new(
                Attention::UncleanEnd,
                "the last program did not end in order: it was killed, or the machine went down",
                "start it again: it resumes what was open, and repeats nothing that may not be repeated",
            )
        }));
    }
    found.rows.sort_by_key(|row| (row.kind, row.since));
    Ok(found)
}

/// Adds the webhooks of these tasks whose deliveries fail.
fn webhooks(
    reader: &dyn EventReader,
    tasks: &[StreamId],
    found: &mut Readable<AttentionRow>,
) -> Result<(), ReadError> {
    for task in tasks {
        match failing(reader, task) {
            Err(error @ ReadError::Newer { .. }) => name_newer(vec![error], found),
            rows => found.rows.extend(rows?.into_iter().map(|row| AttentionRow {
                task: Some(task.clone()),
                since: Some(row.since),
                ..AttentionRow::new(Attention::Webhook, row.what, row.advice)
            })),
        }
    }
    Ok(())
}

/// Adds the tools that have changed under these tasks, or under those that are working.
fn tools(
    reader: &dyn EventReader,
    unsettled: Vec<StreamId>,
    found: &mut Readable<AttentionRow>,
) -> Result<(), ReadError> {
    let tasks: BTreeSet<StreamId> = reader.open_work()?.into_iter().chain(unsettled).collect();
    let changed = changed_tools_of(reader, &tasks.into_iter().collect::<Vec<_>>())?;
    name_newer(changed.newer, found);
    found.rows.extend(changed.rows.into_iter().map(|changed| AttentionRow {
        task: Some(changed.task),
        ..AttentionRow::new(
            Attention::Tool,
            format!("tool {}, which the task needs: {}", changed.tool, changed.what),
            "register the tool as it was, or let the task go on without it",
        )
    }));
    Ok(())
}

/// Names what a newer release wrote, once for each stream.
fn name_newer(newer: Vec<ReadError>, found: &mut Readable<AttentionRow>) {
    let place = |error: &ReadError| match error {
        ReadError::Newer { stream, .. } => stream.clone(),
        _ => None,
    };
    for error in newer {
        if !found.newer.iter().any(|named| place(named) == place(&error)) {
            found.newer.push(error);
        }
    }
}

/// Adds the tasks that wait for a person without an approval, a question or a call of unknown outcome: an agent asked for
/// more, or the task was posted so.
fn input_required(
    reader: &dyn EventReader,
    tasks: &[StreamId],
    found: &mut Readable<AttentionRow>,
) -> Result<(), ReadError> {
    for stream in tasks {
        let folded = match fold_stream::<Task>(reader, stream, None) {
            Err(error @ ReadError::Newer { .. }) => {
                name_newer(vec![error], found);
                continue;
            }
            folded => folded?,
        };
        let task = &folded.state;
        let is_named = task.awaited_approvals().next().is_some()
            || task.open_questions().next().is_some()
            || task.lost_calls().next().is_some();
        if task.state() != TaskState::InputRequired || is_named {
            continue;
        }
        let named = shell_word(stream.as_str());
        let advice = format!(
            "give the task a message, in a program that runs agent {}; or save what `state {named} --json` prints, append a \
             message to its `messages`, and give that file to `run`, where that command ran the task",
            stream.agent()
        );
        found.rows.push(AttentionRow {
            since: Some(last_at(reader, stream, &folded)?),
            commands: vec![format!("cancel {named} --reason WHY")],
            task: Some(stream.clone()),
            ..AttentionRow::new(Attention::Input, what_is_asked(task), advice)
        });
    }
    Ok(())
}

/// Returns what a task asks a person: what its agent said, else the outputs by which it waits.
fn what_is_asked(task: &Task) -> String {
    let said = task.messages().iter().last();
    let is_agents = |role: &str| matches!(role, "agent" | "assistant");
    let said = said.filter(|message| message.role.as_deref().is_some_and(is_agents));
    let asked = match said {
        Some(message) => parts_text(&message.parts),
        None => task
            .all_outputs()
            .filter(|part| asks_for_input(part))
            .map(asked_by)
            .collect::<Vec<_>>()
            .join(" · "),
    };
    match asked.as_str() {
        "" => "the task waits for a person's message".to_owned(),
        asked => format!("the task waits for a person's message: {asked}"),
    }
}

/// Returns the text of an output that asks for input.
fn asked_by(output: &Part) -> String {
    let fields = output.content().read::<JsonObject>().unwrap_or_default();
    let said = fields.get("message").and_then(JsonText::to_str).filter(|said| !said.is_empty());
    said.unwrap_or_else(|| parts_text(std::slice::from_ref(output)))
}

/// Adds the tasks that are working while nothing goes on in them.
fn stalled(
    reader: &dyn EventReader,
    used: LogUse,
    now: Timestamp,
    found: &mut Readable<AttentionRow>,
) -> Result<(), ReadError> {
    for stream in reader.open_work()? {
        let folded = match fold_stream::<Task>(reader, &stream, None) {
            // Named among the calls already.
            Err(ReadError::Newer { .. }) => continue,
            folded => folded?,
        };
        let since = last_at(reader, &stream, &folded)?;
        if let Some(what) = why_stalled(&folded.state, used, since, now) {
            let advice = format!("start the program that runs agent {}: it resumes the task", stream.agent());
            found.rows.push(AttentionRow {
                since: Some(since),
                commands: vec![format!("cancel {} --reason WHY", shell_word(stream.as_str()))],
                task: Some(stream),
                ..AttentionRow::new(Attention::Stalled, what, advice)
            });
        }
    }
    Ok(())
}

fn why_stalled(task: &Task, used: LogUse, since: Timestamp, now: Timestamp) -> Option<String> {
    let waits_for_person = task.awaited_approvals().next().is_some()
        || task.open_questions().next().is_some()
        || task.state() != TaskState::Working;
    if waits_for_person {
        return None;
    }
    if used == LogUse::Closed {
        return Some("the task is working, but no program has the log open".to_owned());
    }
    let goes_on = |due: Timestamp| due.0.saturating_add(STALLED_AFTER_US) >= now.0;
    let in_time = task.calls().open().any(|call| {
        let timeout = i64::try_from(call.request.timeout_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
        match (&call.status, call.sent_at) {
            (CallStatus::RetryScheduled(due, _), _) => goes_on(*due),
            (_, Some(sent)) => goes_on(Timestamp(sent.0.saturating_add(timeout))),
            (_, None) => false,
        }
    });
    let minutes = now.0.saturating_sub(since.0) / 60_000_000;
    (!goes_on(since) && !in_time)
        .then(|| format!("the task is working, but nothing was recorded for {minutes} minutes"))
}

fn last_at(
    reader: &dyn EventReader,
    stream: &StreamId,
    folded: &FoldedStream<Task>,
) -> Result<Timestamp, ReadError> {
    let last = reader.read_stream(stream, folded.version, 1)?;
    Ok(last.first().map(|stored| stored.record.metadata.at).unwrap_or_default())
}
