//! The sessions of the log, in the order of their names.

use askama::Template;
use proto_events::id::{Category, StreamId};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::views::{SessionRow, session_row};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::words::{self, At};
use crate::limits::INSPECT_ROWS;

#[derive(Template)]
#[template(path = "inspect/sessions.html")]
struct SessionsPage {
    frame: PageFrame,
    rows: Vec<SessionView>,
    unreadable: Vec<(String, String)>,
    next: Option<String>,
    first: Option<String>,
}

struct SessionView {
    id: String,
    url: String,
    agent: String,
    turns: String,
    messages: String,
    events: String,
    turn_of: Option<(String, String)>,
    last: At,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if the place is not valid, or the log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<PageAnswer, Problem> {
    let after = query.text("after").map(StreamId::parse).transpose();
    let after = after.map_err(|error| Problem::malformed(format!("`after`: {error}")))?;
    let infos = log.list_streams(Category::Session.prefix(), after.as_ref(), INSPECT_ROWS).map_err(unread)?;
    let next = infos.last().filter(|_| infos.len() == INSPECT_ROWS);
    let next = next.map(|last| cx.links.asked("sessions", &[("after", last.stream.as_str())]));
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for info in &infos {
        match session_row(log, info) {
            Ok(row) => rows.push(view(cx, &row)),
            Err(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => {
                unreadable.push((info.stream.id(), error.to_string()));
            }
            Err(error) => return Err(unread(error)),
        }
    }
    let first = after.is_some().then(|| cx.links.page("sessions"));
    answer::page(&SessionsPage { frame: cx.frame("Sessions", "Sessions"), rows, unreadable, next, first })
}

fn view(cx: &Cx, row: &SessionRow) -> SessionView {
    let agent = row.stream.agent();
    let turn_of = row.turn_of.as_ref().map(|task| {
        let url = StreamId::task(&agent, task).map(|task| cx.links.stream(&task)).unwrap_or_default();
        (task.clone(), url)
    });
    SessionView {
        id: row.id.clone(),
        url: cx.links.stream(&row.stream),
        agent,
        turns: words::count(row.turns),
        messages: words::count(row.messages as u64),
        events: words::count(row.events),
        turn_of,
        last: cx.at(row.last_at),
    }
}
