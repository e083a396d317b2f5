//! The pages: each reads views and fills a template.

pub(crate) mod artifact;
pub(crate) mod artifacts_and_cost;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod content;
pub(crate) mod effects;
pub(crate) mod event;
pub(crate) mod follow;
pub(crate) mod inbox;
pub(crate) mod need;
pub(crate) mod overview;
pub(crate) mod problem;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod tab;
pub(crate) mod talk;
pub(crate) mod task;
pub(crate) mod task_calls;
pub(crate) mod task_place;
pub(crate) mod task_tabs;
pub(crate) mod tools;
pub(crate) mod tree;
pub(crate) mod verification;

use taskreel_log::api::EventReader;
use taskreel_log::views::{FindError, find};

use crate::api::bounded_reads::{internal, unread};
use crate::error::Problem;
use crate::inspect::answer::PageAnswer;
use crate::inspect::frame::Cx;
use crate::inspect::page_request::{Page, Query};

/// Makes a page that reads the log.
///
/// # Errors
/// [`Problem`] if it does not exist in the log, or it cannot be read.
pub(crate) fn page(
    page: &Page,
    cx: &Cx,
    log: &dyn EventReader,
    query: &Query,
) -> Result<PageAnswer, Problem> {
    match page {
        Page::Task(stream) => task::page(cx, log, stream, query),
        Page::Sessions => sessions::page(cx, log, query),
        Page::Session(stream) => session::page(cx, log, stream, query),
        Page::Artifact(task, id) => artifact::page(cx, log, (task, id), query),
        Page::Event(stream, version) => event::page(cx, log, stream, *version),
        Page::Body(stream, version) => event::body(log, stream, *version),
        Page::Tools => tools::page(cx, log, query),
        Page::Live => follow::page(cx, log, query),
        Page::Compare => compare::page(cx, log, query),
        Page::Open => open(cx, log, query),
        other => Err(internal(&format!("{other:?} is made elsewhere"))),
    }
}

/// Leads to the page of what has an id, or a unique beginning of one.
fn open(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<PageAnswer, Problem> {
    let asked = query.text("id").ok_or_else(|| Problem::malformed("type an id, or the beginning of one"))?;
    let stream = find(log, asked).map_err(|error| match error {
        FindError::Read(error) => unread(error),
        FindError::Id(error) => Problem::malformed(error.to_string()),
        other => Problem::not_found(other.to_string()),
    })?;
    Ok(PageAnswer::Other(cx.links.stream(&stream), None))
}
