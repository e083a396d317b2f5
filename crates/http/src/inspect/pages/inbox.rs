//! The inbox: everything that needs a person, with whole arguments, the one action that unblocks it, and who takes it.

use askama::Template;

use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::needs::{KnownNeeds, told};
use crate::inspect::page_request::Query;
use crate::inspect::pages::need::{NeedPlace, NeedView};
use crate::inspect::words;

/// The cards of a page.
const CARDS: usize = 20;

#[derive(Template)]
#[template(path = "inspect/inbox.html")]
struct InboxPage {
    frame: PageFrame,
    needs: Vec<NeedView>,
    needs_note: Option<String>,
    count: String,
    is_alone: bool,
    inbox_url: String,
    next: Option<String>,
    first: Option<String>,
    who: Option<String>,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if the place is not valid, or what is asked for needs nobody.
pub(crate) fn page(cx: &Cx, query: &Query, needs: Option<&KnownNeeds>) -> Result<PageAnswer, Problem> {
    let (all, needs_note) = told(cx, needs);
    let from = query.number::<usize>("from")?.unwrap_or(0);
    let (task, about) = (query.text("task"), query.text("about"));
    let is_alone = task.is_some() && about.is_some();
    let is_asked = |row: &&taskreel_log::views::AttentionRow| {
        task.is_none_or(|task| {
            row.task.as_ref().is_some_and(|known| known.as_str() == task || known.id() == task)
        }) && about.is_none_or(|about| row.about.as_deref() == Some(about))
    };
    let asked: Vec<_> = all.iter().filter(is_asked).collect();
    if is_alone && asked.is_empty() && needs.is_some_and(|known| known.rows.is_ok()) {
        return Err(Problem::not_found("this needs nobody any more: it is decided, or its task has ended"));
    }
    let place = if is_alone { NeedPlace::Alone } else { NeedPlace::Inbox };
    let at = |from: usize| {
        let from = from.to_string();
        let task = task.map(|task| ("task", task));
        let pairs: Vec<(&str, &str)> = task.into_iter().chain([("from", from.as_str())]).collect();
        cx.links.asked("inbox", &pairs)
    };
    let who = cx.signer.as_ref().map(|signer| signer.recorded_as.clone());
    answer::page(&InboxPage {
        frame: cx.frame("Inbox", "Inbox"),
        needs: asked.iter().skip(from).take(CARDS).map(|row| NeedView::new(cx, row, place)).collect(),
        needs_note,
        count: words::of(asked.len() as u64, "thing", "things"),
        is_alone,
        inbox_url: cx.links.page("inbox"),
        next: (asked.len() > from.saturating_add(CARDS)).then(|| at(from + CARDS)),
        first: (from > 0).then(|| at(0)),
        who,
    })
}
