//! The streams of a report: of a task the conversations that its models were shown, of a session the tasks that had its turns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::id::{Category, StreamId, Version};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::event_rows;

/// The streams of a report.
pub(crate) struct Contents {
    pub(crate) tasks: Vec<StreamId>,
    pub(crate) sessions: Vec<StreamId>,
    /// The reason why the stream of the report cannot be read to its end.
    pub(crate) damage: Option<ReadError>,
}

/// Returns the streams of the report of a task or a session.
///
/// # Errors
/// [`ReadError`] if the log cannot be read for another reason than damage.
pub(crate) fn contents(log: &dyn EventReader, stream: &StreamId) -> Result<Contents, ReadError> {
    let is_session = stream.category() == Some(Category::Session);
    let (mut others, mut seen): (Vec<StreamId>, BTreeSet<StreamId>) = (Vec::new(), BTreeSet::new());
    let read = for_each_page_of(log, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            let named = match &row.event {
                Ok(AnyEvent::Session(SessionEvent::TurnStarted { task, .. })) => Some(task.clone()),
                Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request)))) => {
                    request.prompt.as_ref().and_then(|prompt| prompt.session.clone())
                }
                _ => None,
            };
            let Some(named) = named.and_then(|named| StreamId::parse(&named).ok()) else { continue };
            if seen.insert(named.clone()) && log.stream_version(&named)? > Version(0) {
                others.push(named);
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    });
    let damage = match read {
        Err(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => Some(error),
        read => read.map(|()| None)?,
    };
    Ok(if is_session {
        Contents { tasks: others, sessions: vec![stream.clone()], damage }
    } else {
        Contents { tasks: vec![stream.clone()], sessions: others, damage }
    })
}
