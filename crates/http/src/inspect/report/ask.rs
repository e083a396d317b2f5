//! The report over HTTP: sent as it is made.

use std::sync::Arc;

use askama::filters::Escaper as _;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::EventReader as _;
use tokio::sync::Semaphore;

use crate::api::bounded_reads::{read, unread};
use crate::error::Problem;
use crate::inspect::answer::PageAnswer;
use crate::inspect::escape::HtmlEscaper;
use crate::inspect::page_pipe::piped;
use crate::inspect::page_request::Query;
use crate::inspect::report::report_writer::ReportOptions;
use crate::inspect::report::write_within;
use crate::inspect::source::InspectedLog;

/// Answers with the report of a task or a session.
///
/// # Errors
/// [`Problem`] if the stream does not exist, the log cannot be read, or too many others read.
pub(crate) async fn report(
    log: &Arc<InspectedLog>,
    stream: StreamId,
    query: &Query,
    turns: &Arc<Semaphore>,
) -> Result<PageAnswer, Problem> {
    let (asked, reader) = (stream.clone(), Arc::clone(log.reader()));
    let end = read(turns, reader, move |log| log.stream_version(&asked).map_err(unread)).await?;
    if end == Version(0) {
        return Err(Problem::not_found(format!("there is no stream `{stream}`")));
    }
    let options =
        if query.text("whole").is_some() { ReportOptions::complete() } else { ReportOptions::default() };
    let name = file_name(&stream);
    let of = Arc::clone(log);
    let pieces = piped(turns, log.reader(), move |reader, pipe| {
        if let Err(why) = write_within((reader, &of), &stream, options, pipe) {
            pipe.push(broken(&why.to_string()));
        }
    });
    Ok(PageAnswer::Report(pieces.await?, name))
}

/// Returns the last words of a report that ends in the middle.
fn broken(why: &str) -> String {
    let mut safe = String::new();
    let _ = HtmlEscaper.write_escaped_str(&mut safe, why);
    format!("<p class=\"alert bad\">The report ends here, in the middle: {safe}</p>\n</main></body></html>\n")
}

/// Returns the name under which a browser keeps the report: letters and digits of the stream's name.
fn file_name(stream: &StreamId) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = stream.id().chars().take(80).map(plain).collect();
    format!("report-{name}.html")
}
