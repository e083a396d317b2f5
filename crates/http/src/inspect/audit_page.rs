//! The audit over HTTP: a verification is sent as it goes on, readable without a script.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::Semaphore;

use crate::api::bounded_reads::read;
use crate::error::Problem;
use crate::inspect::answer::PageAnswer;
use crate::inspect::frame::Cx;
use crate::inspect::page_pipe::piped;
use crate::inspect::page_request::Query;
use crate::inspect::pages::audit;

/// Answers with the audit, and with a verification if one is asked for.
///
/// # Errors
/// [`Problem`] if the stream does not exist, the log cannot be read, or too many others read.
pub(crate) async fn audit(cx: &Cx, query: &Query, turns: &Arc<Semaphore>) -> Result<PageAnswer, Problem> {
    let (asked, query) = (cx.clone(), query.clone());
    let page =
        read(turns, Arc::clone(cx.log.reader()), move |log| audit::page(&asked.at_head(log), log, &query))
            .await?;
    let Some(after) = page.after.clone() else { return Ok(PageAnswer::Page(StatusCode::OK, page.before)) };
    let cx = cx.clone();
    let log = Arc::clone(cx.log.reader());
    let pieces = piped(turns, &log, move |log, pipe| {
        pipe.push(page.before.clone());
        if let Err(problem) = page.verify(&cx, log, &mut |piece| pipe.push(piece)) {
            pipe.push(format!("</ol><p>{}</p>", problem.code()));
        }
        pipe.push(after);
    });
    Ok(PageAnswer::Making(pieces.await?))
}
