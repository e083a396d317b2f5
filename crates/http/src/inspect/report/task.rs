//! A task in a report: its overview, its diagrams, its events, the prompts of its models, its artifacts.

use askama::Template;
use proto_events::id::{StreamId, Version};
use taskreel_log::api::ReadError;
use taskreel_log::views::{Course, CourseAsked, task_course};

use crate::inspect::draw::diagrams::{Diagram, causation, sequence};
use crate::inspect::pages::overview::Overview;
use crate::inspect::pages::task_place::Here;
use crate::inspect::pages::tree::{TreeRow, tree};
use crate::inspect::report::artifacts::artifacts;
use crate::inspect::report::events::events;
use crate::inspect::report::prompts::{PromptsSoFar, prompts};
use crate::inspect::report::report_writer::{ReportError, ReportWriter};
use crate::limits::INSPECT_EVENTS;

/// The most events of which diagrams are drawn.
const DRAWN_MAX: u64 = 400;

#[derive(Template)]
#[template(path = "inspect/report/task.html")]
struct TaskHead {
    anchor: String,
    view: Overview,
    tree: Vec<TreeRow>,
    diagrams: Vec<(&'static str, Diagram)>,
    not_drawn: bool,
}

/// Writes a task.
///
/// # Errors
/// [`ReportError`] if the log cannot be read for another reason than damage, or the report cannot be written.
pub(crate) fn task<'a>(
    writing: &mut ReportWriter<'a, '_>,
    stream: &StreamId,
    so_far: &mut PromptsSoFar<'a>,
) -> Result<(), ReportError> {
    let asked = CourseAsked { window: INSPECT_EVENTS, ..CourseAsked::default() };
    let course = match task_course(writing.log, stream, asked) {
        Err(error @ (ReadError::Corrupt { .. } | ReadError::Newer { .. })) => {
            let anchor = writing.cx.links.anchor(stream).unwrap_or_default();
            writing.ink.text(&format!("<article id=\"{anchor}\">\n"))?;
            writing.ink.write_note(&format!("The task {} cannot be read.", stream.id()))?;
            writing.damaged(error)?;
            return writing.ink.text("</article>\n");
        }
        course => course?,
    };
    if let Some(damage) = &course.damage {
        writing.done.damage.get_or_insert(damage.clone());
    }
    let head = head(writing, stream, &course)?;
    writing.ink.render(&head)?;
    events(writing, stream)?;
    prompts(writing, stream, &course, so_far)?;
    artifacts(writing, stream)?;
    writing.ink.text("</article>\n")
}

fn head(writing: &ReportWriter<'_, '_>, stream: &StreamId, course: &Course) -> Result<TaskHead, ReadError> {
    let here = Here { cx: writing.cx, stream, tab: "event", marked: None };
    let is_drawn = course.end.0 <= DRAWN_MAX && course.damage.is_none();
    let all = (Version(1), course.end);
    let address = |version: Version| writing.cx.links.raw(stream, version);
    let diagrams = if is_drawn {
        vec![
            ("Who sent what to whom", sequence(writing.log, stream, all, &address)?),
            ("Which event caused which", causation(writing.log, stream, all, &address)?),
        ]
    } else {
        Vec::new()
    };
    Ok(TaskHead {
        anchor: writing.cx.links.anchor(stream).unwrap_or_default().to_owned(),
        view: Overview::new(&here, writing.log, course, course.times.1)?,
        tree: tree(writing.cx, writing.log, course, stream)?,
        diagrams,
        not_drawn: !is_drawn && course.damage.is_none(),
    })
}
