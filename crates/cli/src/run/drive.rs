//! Drives the tasks of an input: a bounded number at once, each printed as it ends.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use proto_events::id::Version;
use proto_events::json::JsonText;
use proto_events::model::{PostedTask, TaskState};
use taskreel::{Error, System, TaskSnapshot};

use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::progress::Tally;
use crate::print::screen::{Screen, count, note};
use crate::run::input::{BadInput, Input};
use crate::signals::Interrupts;

/// The number of tasks at work or waiting for the one before them: enough to fill the groups that one flush makes durable.
const AT_ONCE: usize = 64;

/// The advice after an interrupted run.
const GO_ON: &str = "run the same command again: tasks with an id continue, and nothing is done twice";

/// The end of one task.
struct DrivenTask {
    /// The conversation that the task took its turn in.
    lane: String,
    id: String,
    /// Whether the task had ended before this run, and was given something new.
    too_late: bool,
    result: Result<TaskSnapshot, Error>,
}

/// The progress of an input's tasks.
pub(crate) struct Driver<'a> {
    system: &'a System,
    screen: &'a mut Screen,
    /// The tasks that wait for the one before them in their conversation, by conversation.
    lanes: HashMap<String, VecDeque<PostedTask>>,
    waiting: usize,
    read: u64,
    tally: Tally,
    answer: Answer,
    /// The first error of the output: what runs is let end all the same.
    failure: Option<Problem>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(system: &'a System, screen: &'a mut Screen) -> Self {
        let tally = Tally::new(screen.is_terminal());
        let lanes = HashMap::new();
        Self { system, screen, lanes, waiting: 0, read: 0, tally, answer: Answer::Yes, failure: None }
    }

    /// Submits the tasks in their order and prints each as it ends. Tasks of one conversation run one after another. When
    /// the reader of the output is gone, nothing more is submitted, and what runs is let end.
    ///
    /// # Errors
    /// [`Problem`] if the process was asked to end, the input cannot be used, or the output cannot be written.
    pub(crate) async fn drive(
        mut self,
        (first, mut input): (PostedTask, Input),
        interrupts: &Interrupts,
    ) -> Result<Answer, Problem> {
        let mut interrupt = std::pin::pin!(interrupts.first(GO_ON));
        let mut running = FuturesUnordered::new();
        let mut bad: Option<BadInput> = None;
        let mut is_open = true;
        self.read += 1;
        running.extend(self.admit(first).map(|(lane, task)| drive_task(self.system, lane, task)));
        loop {
            let may_read = is_open && !self.is_over() && running.len() + self.waiting < AT_ONCE;
            if running.is_empty() && !may_read {
                break;
            }
            tokio::select! {
                biased;
                problem = &mut interrupt => return Err(problem),
                Some(ended) = running.next(), if !running.is_empty() => {
                    let next = self.finish_task(&ended);
                    running.extend(next.map(|task| drive_task(self.system, ended.lane, task)));
                }
                item = input.recv(), if may_read => match item {
                    Some(Ok(task)) => {
                        self.read += 1;
                        running.extend(self.admit(task).map(|(lane, task)| drive_task(self.system, lane, task)));
                    }
                    Some(Err(fault)) => (bad, is_open) = (Some(fault), false),
                    None => is_open = false,
                },
            }
        }
        self.tally.clear();
        match (self.failure, bad) {
            (Some(failure), _) => Err(failure),
            (None, Some(bad)) => {
                let before = count(self.read, "task before it was", "tasks before it were");
                Err(bad.refused(&format!("the {before} executed")))
            }
            (None, None) => Ok(self.answer),
        }
    }

    /// Whether nothing more is to be submitted.
    fn is_over(&self) -> bool {
        self.failure.is_some() || self.screen.is_unread()
    }

    /// Returns the task and its conversation if it may start at once.
    fn admit(&mut self, task: PostedTask) -> Option<(String, PostedTask)> {
        let named = task.metadata.get("session_id").and_then(JsonText::to_str);
        let lane = named.filter(|named| !named.is_empty()).unwrap_or_else(|| task.id.clone());
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.push_back(task);
            self.waiting += 1;
            return None;
        }
        self.lanes.insert(lane.clone(), VecDeque::new());
        Some((lane, task))
    }

    /// Prints the end of a task and returns the next one of its conversation.
    fn finish_task(&mut self, ended: &DrivenTask) -> Option<PostedTask> {
        self.tally.clear();
        let failed = match &ended.result {
            Ok(rested) => {
                let printed = self.screen.json_value(&rested.to_json()).and_then(|()| self.screen.flush());
                if let Err(problem) = printed {
                    self.failure.get_or_insert(problem);
                }
                report(rested, ended.too_late)
            }
            Err(error) => {
                note(&Problem::system(error, Some(&ended.id)).to_string());
                true
            }
        };
        if failed {
            self.answer = Answer::No;
        }
        self.tally.count(failed);
        let next = self.lanes.get_mut(&ended.lane).and_then(VecDeque::pop_front);
        match &next {
            Some(_) => self.waiting -= 1,
            None => drop(self.lanes.remove(&ended.lane)),
        }
        if !self.is_over() {
            return next;
        }
        self.waiting -= self.lanes.remove(&ended.lane).map_or(0, |queue| queue.len());
        None
    }
}

/// Submits one task and waits for its end.
async fn drive_task(system: &System, lane: String, task: PostedTask) -> DrivenTask {
    let id = task.id.clone();
    let executed = async {
        let before = over_before(system, &id).await?;
        let rested = system.submit(task).await?.finished().await?;
        let too_late = before.is_some_and(|before| rested.version() > before);
        Ok((rested, too_late))
    };
    let (result, too_late) = match executed.await {
        Ok((rested, too_late)) => (Ok(rested), too_late),
        Err(error) => (Err(error), false),
    };
    DrivenTask { lane, id, too_late, result }
}

/// Returns the version of a task that had ended before it is posted.
async fn over_before(system: &System, id: &str) -> Result<Option<Version>, Error> {
    let handle = system.task(id)?;
    if system.log().stream_version(handle.stream())?.0 == 0 {
        return Ok(None);
    }
    let before = handle.snapshot().await?;
    Ok(before.state().is_terminal().then(|| before.version()))
}

/// Reports on stderr a task that ended badly, waits, or was not executed, and returns whether it ended badly; the task
/// itself is on stdout.
fn report(rested: &TaskSnapshot, too_late: bool) -> bool {
    let task = rested.task();
    if too_late {
        note(&format!(
            "task {} was {} before: the new message was added to it, and nothing was executed; post a new task with another id",
            task.id(),
            rested.state()
        ));
        return true;
    }
    match rested.state() {
        TaskState::Failed | TaskState::Canceled => {
            let why = task.error().unwrap_or_else(|| "no reason was given".to_owned());
            note(&format!("task {} {}: {why}", task.id(), rested.state()));
            true
        }
        TaskState::InputRequired => {
            note(&format!("task {} waits for a person", task.id()));
            false
        }
        _ => false,
    }
}
