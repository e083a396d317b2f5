//! Two runs beside each other, aligned step by step, also of two logs; or one run at two of its versions. Ids and times do not count
//! between runs.

use askama::Template;
use proto_events::id::{Category, StreamId, Version};
use proto_events::task::Task;
use taskreel_log::api::EventReader;
use taskreel_log::audit::{FirstChanges, first_changes};
use taskreel_log::read::fold_stream;
use taskreel_log::views::{
    AlignedStep, FindError, PromptPair, RunRow, RunStep, align_steps, compare_prompts, find, run_steps,
};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::block::Block;
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::pages::artifacts_and_cost::{MadeView, made};
use crate::inspect::pages::changes::{ChangeView, change_views};
use crate::inspect::pages::tab::SHOWN_MAX;
use crate::inspect::words::{self, Mark};
use crate::limits::INSPECT_BLOCK_MAX;

/// The most aligned steps that a page shows.
const STEPS_MAX: usize = 1_000;

#[derive(Template)]
#[template(path = "inspect/compare.html")]
struct ComparePage {
    frame: PageFrame,
    left: Value,
    right: Value,
    left_at: Value,
    right_at: Value,
    /// The name of the other log, and whether the right side is looked for there.
    other: Option<(String, bool)>,
    sides: Option<(SideView, SideView)>,
    steps: Vec<StepView>,
    left_out: usize,
    changes: Option<Vec<ChangeView>>,
    changes_left: usize,
    made: Vec<MadeView>,
    is_same: bool,
    verdict: String,
}

struct SideView {
    name: String,
    url: String,
    mark: Mark,
    facts: Vec<(&'static str, String)>,
}

struct StepView {
    number: usize,
    word: &'static str,
    mark: &'static str,
    is_first_difference: bool,
    left: Option<ComparedStep>,
    right: Option<ComparedStep>,
    /// The comparison of the prompts, in words.
    prompts: Option<String>,
}

struct ComparedStep {
    title: String,
    url: String,
    args: Block,
    outcome: Block,
}

/// A run at one of its versions, in its log.
struct Side<'a> {
    cx: &'a Cx,
    log: &'a dyn EventReader,
    stream: StreamId,
    at: Version,
    is_newest: bool,
    task: taskreel_log::read::FoldedStream<Task>,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if one of the runs or versions is not valid, or a log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<PageAnswer, Problem> {
    let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
    let beside = cx.of_other();
    let is_beside = query.text("with").is_some();
    let mut page = ComparePage {
        frame: cx.frame("Compare", "none"),
        left: value("l"),
        right: value("r"),
        left_at: value("lat"),
        right_at: value("rat"),
        other: beside.as_ref().map(|other| (other.log.name().to_owned(), is_beside)),
        sides: None,
        steps: Vec::new(),
        left_out: 0,
        changes: None,
        changes_left: 0,
        made: Vec::new(),
        is_same: false,
        verdict: String::new(),
    };
    let Some(left) = query.text("l") else { return answer::page(&page) };
    // Two versions of one run are a comparison too.
    let Some(right) = query.text("r").or_else(|| query.text("rat").map(|_| left)) else {
        return answer::page(&page);
    };
    let left = Side::new((cx, log), left, query.number("lat")?)?;
    let right = match (&beside, is_beside) {
        (Some(other), true) => Side::new((other, other.log.reader().as_ref()), right, query.number("rat")?)?,
        (None, true) => {
            return Err(Problem::not_found("there is no other log here: start `inspect` with --with FILE"));
        }
        _ => Side::new((cx, log), right, query.number("rat")?)?,
    };
    if left.stream == right.stream && !is_beside && left.at != right.at {
        page.versions(&left, &right);
        if let Some(number) = query.number::<usize>("whole")? {
            let change = page.changes.into_iter().flatten().nth(number);
            let whole = change.map(|change| PageAnswer::Text(change.block.whole()));
            return whole.ok_or_else(|| Problem::not_found("there is no such change"));
        }
    } else {
        page.runs(&left, &right)?;
    }
    page.made = made(&left.task.state, &right.task.state);
    page.sides = Some((left.view()?, right.view()?));
    answer::page(&page)
}

impl ComparePage {
    /// Compares two versions of one run.
    fn versions(&mut self, left: &Side<'_>, right: &Side<'_>) {
        let FirstChanges { changes, count, .. } =
            first_changes(&left.task.state, &right.task.state, SHOWN_MAX);
        self.is_same = count == 0;
        self.verdict = match count {
            0 => "Between these versions nothing changed that a reader sees.".to_owned(),
            count => format!("{} between these versions.", words::of(count as u64, "change", "changes")),
        };
        self.changes_left = count - changes.len();
        let mut views = change_views(&changes, "");
        Block::fit(views.iter_mut().map(|change| &mut change.block));
        let (one, from, to) = (right.stream.as_str(), left.at.to_string(), right.at.to_string());
        for (number, change) in views.iter_mut().enumerate() {
            change.block.stands_at(|| {
                let asked = [("l", one), ("lat", &from), ("rat", &to), ("whole", &number.to_string())];
                right.cx.links.asked("compare", &asked)
            });
        }
        self.changes = Some(views);
    }

    /// Compares two runs step by step.
    fn runs(&mut self, left: &Side<'_>, right: &Side<'_>) -> Result<(), Problem> {
        let aligned = align_steps(&left.steps()?, &right.steps()?);
        let first = aligned.iter().position(|step| !matches!(step, AlignedStep::Same(..)));
        self.is_same = first.is_none();
        self.verdict = verdict(&aligned, first);
        self.left_out = aligned.len().saturating_sub(STEPS_MAX);
        let prompts = compare_prompts((left.log, &left.stream), (right.log, &right.stream), &aligned);
        let told = |number: usize| prompts.iter().find(|pair| pair.step == number).map(PromptPair::words);
        let view = |(number, step): (usize, &AlignedStep)| StepView {
            prompts: told(number),
            number: number + 1,
            word: step.as_str(),
            mark: if matches!(step, AlignedStep::Same(..)) { "=" } else { "≠" },
            is_first_difference: Some(number) == first,
            left: step.sides().0.map(|step| ComparedStep::new(left, step)),
            right: step.sides().1.map(|step| ComparedStep::new(right, step)),
        };
        self.steps = aligned.iter().enumerate().take(STEPS_MAX).map(view).collect();
        let steps = self.steps.iter_mut().flat_map(|step| [&mut step.left, &mut step.right]).flatten();
        Block::fit(steps.flat_map(|step| [&mut step.args, &mut step.outcome]));
        Ok(())
    }
}

fn verdict(aligned: &[AlignedStep], first: Option<usize>) -> String {
    let differ = aligned.iter().filter(|step| !matches!(step, AlignedStep::Same(..))).count();
    let steps = words::of(aligned.len() as u64, "step", "steps");
    match first {
        None => format!("All {steps} are the same."),
        Some(first) => {
            let differ = if differ == 1 { "1 differs".to_owned() } else { format!("{differ} differ") };
            format!("Of {steps} {differ}; the first difference is step {}.", first + 1)
        }
    }
}

impl<'a> Side<'a> {
    fn new((cx, log): (&'a Cx, &'a dyn EventReader), asked: &str, at: Option<u64>) -> Result<Self, Problem> {
        let stream = find(log, asked).map_err(|error| match error {
            FindError::Read(error) => unread(error),
            FindError::Id(error) => Problem::malformed(error.to_string()),
            other => Problem::not_found(other.to_string()),
        })?;
        if stream.category() != Some(Category::Task) {
            return Err(Problem::not_found(format!("{stream} is no task; two tasks are compared")));
        }
        let end = log.stream_version(&stream).map_err(unread)?;
        let at = at.map_or(end, Version);
        if at == Version(0) || at > end {
            let what = format!("{stream} has no version {at}: its versions are 1 to {end}");
            return Err(Problem::not_found(what));
        }
        let task = fold_stream::<Task>(log, &stream, Some(at)).map_err(unread)?;
        Ok(Self { cx, log, stream, at, is_newest: at == end, task })
    }

    fn steps(&self) -> Result<Vec<RunStep>, Problem> {
        let steps = run_steps(self.log, &self.stream).map_err(unread)?;
        Ok(steps.into_iter().filter(|step| step.version <= self.at).collect())
    }

    fn url(&self, at: Version) -> String {
        format!("{}?at={at}", self.cx.links.stream(&self.stream))
    }

    fn view(&self) -> Result<SideView, Problem> {
        let row = RunRow::new(self.log, &self.stream, &self.task).map_err(unread)?;
        let at = if self.is_newest { String::new() } else { format!(" at version {}", self.at) };
        Ok(SideView {
            name: format!("{}{at}", self.stream.id()),
            url: self.url(self.at),
            mark: words::state(row.task.state),
            facts: vec![
                ("agent", self.stream.agent()),
                ("events", words::count(self.at.0)),
                ("calls", words::count(row.calls)),
                ("tokens", words::tokens(row.usage)),
                ("cost", words::costs(&row.costs)),
                ("took", words::between(row.began_at, row.task.last_at)),
                ("artifacts", words::count(self.task.state.artifacts().len() as u64)),
            ],
        })
    }
}

impl ComparedStep {
    fn new(side: &Side<'_>, step: &RunStep) -> Self {
        let whole = side.cx.whole(&side.stream, step.version);
        Self {
            title: format!("{} {}", step.kind, step.target),
            url: side.url(step.version),
            args: Block::within(&step.args, INSPECT_BLOCK_MAX, &whole),
            outcome: Block::within(&step.outcome, INSPECT_BLOCK_MAX, &side.url(step.version)),
        }
    }
}
