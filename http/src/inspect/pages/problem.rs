//! The page of a request that was not carried out.

use askama::Template;

use crate::error::Problem;
use crate::inspect::answer::Answered;
use crate::inspect::frame::{Cx, Frame};

#[derive(Template)]
#[template(path = "inspect/problem.html")]
struct ProblemPage {
    frame: Frame,
    status: u16,
    what: String,
}

/// Returns the page of a problem, with its status.
pub(crate) fn page(cx: &Cx, problem: &Problem) -> Answered {
    let status = problem.status();
    let title = status.canonical_reason().unwrap_or("Problem");
    let page = ProblemPage {
        frame: cx.frame(title, "none"),
        status: status.as_u16(),
        what: problem.message().to_owned(),
    };
    // A template of plain texts; should it fail all the same, the text stands alone.
    page.render().map_or_else(|_| Answered::Text(page.what.clone()), |text| Answered::Page(status, text))
}
