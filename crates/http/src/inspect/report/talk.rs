//! A conversation in a report: of a session all of it with its events, of a task the turns that it had.

use std::ops::ControlFlow;

use askama::Template;
use proto_events::codec::AnyEvent;
use proto_events::id::{StreamId, Version};
use proto_events::session::SessionEvent;
use taskreel_log::api::ReadError;
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::event_rows;

use crate::inspect::pages::talk::{TalkLine, TalkReader};
use crate::inspect::report::events::events;
use crate::inspect::report::report_writer::{ReportError, ReportWriter};

#[derive(Template)]
#[template(path = "inspect/report/talk.html")]
struct TalkHead {
    anchor: String,
    id: String,
    title: &'static str,
}

#[derive(Template)]
#[template(path = "inspect/report/said.html")]
struct SaidView {
    said: TalkLine,
}

/// Writes the conversation of a session, and its events.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn session(writing: &mut ReportWriter<'_, '_>, session: &StreamId) -> Result<(), ReportError> {
    write_conversation(writing, session, None)?;
    events(writing, session)?;
    writing.ink.text("</article>\n")
}

/// Writes the turns of a conversation that a task had.
///
/// # Errors
/// As [`session`].
pub(crate) fn turns(
    writing: &mut ReportWriter<'_, '_>,
    session: &StreamId,
    task: &StreamId,
) -> Result<(), ReportError> {
    write_conversation(writing, session, Some(task))?;
    writing.ink.text("</article>\n")
}

fn write_conversation(
    writing: &mut ReportWriter<'_, '_>,
    session: &StreamId,
    only: Option<&StreamId>,
) -> Result<(), ReportError> {
    let anchor = writing.cx.links.anchor(session).unwrap_or_default().to_owned();
    let title = if only.is_some() { "Conversation, the turns of the task:" } else { "Session" };
    writing.ink.render(&TalkHead { anchor, id: session.id(), title })?;
    let (cx, log) = (writing.cx, writing.log);
    let (mut told, mut is_own) = (TalkReader::new(cx, session, None), only.is_none());
    let read = for_each_page_of(log, session, Version(1), |page| {
        let rows: Vec<_> = page.iter().flat_map(event_rows).collect();
        told.read_ahead(&rows);
        for row in &rows {
            if let (Ok(AnyEvent::Session(SessionEvent::TurnStarted { task, .. })), Some(only)) =
                (&row.event, only)
            {
                is_own = only.as_str() == task;
            }
            let mut said = told.said(row);
            if only.is_none() {
                // The events of the session, which follow, have the names of the places.
                said.place.clear();
            }
            if is_own {
                writing.ink.render(&SaidView { said })?;
            }
            let is_end = matches!(
                &row.event,
                Ok(AnyEvent::Session(SessionEvent::TurnCommitted { .. } | SessionEvent::TurnAborted { .. }))
            );
            is_own = is_own && !(is_end && only.is_some());
        }
        Ok::<_, ReportError>(ControlFlow::Continue(()))
    });
    writing.ink.text("</ol>\n")?;
    match read {
        Err(ReportError::Read(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. }))) => {
            writing.damaged(error)
        }
        read => read,
    }
}
