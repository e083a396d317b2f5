//! Two runs beside each other, aligned step by step, or one run at two versions. Ids and times do not count.

use askama::Template;
use proto_events::id::{StreamId, Version};
use proto_events::task::Task;
use taskreel_log::api::EventReader;
use taskreel_log::read::fold_stream;
use taskreel_log::views::{AlignedStep, FindError, RunRow, RunStep, align_steps, find, run_steps};

use crate::api::reading::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, Answered};
use crate::inspect::asked::Query;
use crate::inspect::block::Block;
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, Frame};
use crate::inspect::words::{self, Mark};

/// The most aligned steps that a page shows.
const STEPS_MAX: usize = 1_000;

#[derive(Template)]
#[template(path = "inspect/compare.html")]
struct ComparePage {
    frame: Frame,
    left: Value,
    right: Value,
    sides: Option<(SideView, SideView)>,
    steps: Vec<StepView>,
    left_out: usize,
    verdict: String,
}

struct SideView {
    id: String,
    url: String,
    mark: Mark,
    facts: Vec<(&'static str, String)>,
}

struct StepView {
    number: usize,
    word: &'static str,
    mark: &'static str,
    is_first_difference: bool,
    left: Option<Step>,
    right: Option<Step>,
}

struct Step {
    title: String,
    url: String,
    args: Block,
    outcome: Block,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if one of the runs is none, or the log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<Answered, Problem> {
    let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
    let mut page = ComparePage {
        frame: cx.frame("Compare", "none"),
        left: value("l"),
        right: value("r"),
        sides: None,
        steps: Vec::new(),
        left_out: 0,
        verdict: String::new(),
    };
    if let (Some(left), Some(right)) = (query.text("l"), query.text("r")) {
        let (left, right) = (task(log, left)?, task(log, right)?);
        let steps = |stream: &StreamId| run_steps(log, stream).map_err(unread);
        let aligned = align_steps(&steps(&left)?, &steps(&right)?);
        let first = aligned.iter().position(|step| !matches!(step, AlignedStep::Same(..)));
        page.verdict = verdict(&aligned, first);
        page.left_out = aligned.len().saturating_sub(STEPS_MAX);
        let view = |(number, step): (usize, &AlignedStep)| StepView {
            number: number + 1,
            word: step.as_str(),
            mark: if matches!(step, AlignedStep::Same(..)) { "=" } else { "≠" },
            is_first_difference: Some(number) == first,
            left: step.sides().0.map(|step| Step::of(cx, &left, step)),
            right: step.sides().1.map(|step| Step::of(cx, &right, step)),
        };
        page.steps = aligned.iter().enumerate().take(STEPS_MAX).map(view).collect();
        page.sides = Some((SideView::of(cx, log, &left)?, SideView::of(cx, log, &right)?));
    }
    answer::page(&page)
}

fn task(log: &dyn EventReader, asked: &str) -> Result<StreamId, Problem> {
    let found = find(log, asked).map_err(|error| match error {
        FindError::Read(error) => unread(error),
        FindError::Id(error) => Problem::malformed(error.to_string()),
        other => Problem::not_found(other.to_string()),
    })?;
    if found.category() == Some(proto_events::id::Category::Task) {
        return Ok(found);
    }
    Err(Problem::not_found(format!("{found} is no task; two tasks are compared")))
}

fn verdict(aligned: &[AlignedStep], first: Option<usize>) -> String {
    let differ = aligned.iter().filter(|step| !matches!(step, AlignedStep::Same(..))).count();
    match first {
        None => format!("All {} steps are the same.", aligned.len()),
        Some(first) => {
            format!("Of {} steps {differ} differ; the first difference is step {}.", aligned.len(), first + 1)
        }
    }
}

impl SideView {
    fn of(cx: &Cx, log: &dyn EventReader, stream: &StreamId) -> Result<Self, Problem> {
        let folded = fold_stream::<Task>(log, stream, None).map_err(unread)?;
        let row = RunRow::of(log, stream, &folded).map_err(unread)?;
        Ok(Self {
            id: stream.id(),
            url: cx.links.stream(stream),
            mark: words::state(row.task.state),
            facts: vec![
                ("agent", stream.agent()),
                ("events", words::count(row.task.events)),
                ("calls", words::count(row.calls)),
                ("tokens", words::tokens(row.usage)),
                ("cost", words::costs(&row.costs)),
                ("took", words::between(row.began_at, row.task.last_at)),
                ("artifacts", words::count(folded.state.artifacts().len() as u64)),
            ],
        })
    }
}

impl Step {
    fn of(cx: &Cx, stream: &StreamId, step: &RunStep) -> Self {
        let whole = cx.whole(stream, step.version);
        Self {
            title: format!("{} {}", step.kind, step.target),
            url: format!("{}?at={}", cx.links.stream(stream), Version(step.version.0)),
            args: Block::text(&step.args, &whole),
            outcome: Block::text(&step.outcome, &whole),
        }
    }
}
