//! The page of a request that was not carried out.

use askama::Template;
use http::StatusCode;

use crate::error::Problem;
use crate::inspect::answer::PageAnswer;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Page;

#[derive(Template)]
#[template(path = "inspect/problem.html")]
struct ProblemPage {
    frame: PageFrame,
    status: u16,
    what: String,
}

/// Returns the page of a problem, with its status.
pub(crate) fn page(cx: &Cx, problem: &Problem) -> PageAnswer {
    let status = problem.status();
    let title = status.canonical_reason().unwrap_or("Problem");
    let page =
        ProblemPage { frame: cx.frame(title, "none"), status: status.as_u16(), what: what(cx, problem) };
    // A template of plain texts; should it fail all the same, the text stands alone.
    page.render().map_or_else(|_| PageAnswer::Text(page.what.clone()), |text| PageAnswer::Page(status, text))
}

/// Returns the problem in words. What is not found in a log of which not all can be read may be there all the same.
fn what(cx: &Cx, problem: &Problem) -> String {
    let path = cx.here.split('?').next().unwrap_or_default();
    if problem.status() != StatusCode::NOT_FOUND
        || cx.log.banner().is_none()
        || Page::from_path(path).is_err()
    {
        return problem.message().to_owned();
    }
    format!("{}; not all of the log can be read, and it may stand behind the damage", problem.message())
}
