//! The tasks of a system by state and session: an index that is made from the log when it is first asked, and follows it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use proto_events::call::{Call, CallEvent, FailureClass};
use proto_events::codec::kind;
use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{Category, Position, StreamId};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::{Approval, Task, TaskEvent};
use taskreel_log::api::{EventReader, ReadError, StoredRecord};
use taskreel_log::read::{decode_record, fold_stream, for_each_record};
use tokio::sync::Mutex;

use crate::agent::handler::HandlerEnd;
use crate::run::child_wait;
use crate::system::task_info::{Conditions, TaskInfo};
use crate::system::task_order::{Group, NamedEnd, Place, TaskOrder};

/// A task that waits for a person, and what for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WaitingTask {
    /// The task.
    pub task: TaskInfo,
    /// The calls to approve or deny. That of a task whose agent has changed is the run itself.
    pub approvals: Vec<Approval>,
    /// The calls whose questions are to be answered, see [`Call::open_question`].
    pub questions: Vec<Call>,
    /// The tasks of other agents of the system, which wait for a person themselves: this task goes on when they have ended.
    pub tasks: Vec<StreamId>,
    /// The calls whose outcome is to be found out.
    pub unknown: Vec<Call>,
}

/// A page of tasks, see [`TaskQuery::page`](crate::TaskQuery::page).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, oldest first.
    pub tasks: Vec<TaskInfo>,
    /// The place after which the next page begins; `None` if this one is the last.
    pub next: Option<Position>,
}

/// A page of tasks, the one whose state changed last first, see [`TaskQuery::newest`](crate::TaskQuery::newest).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewestTasks {
    /// The tasks.
    pub tasks: Vec<TaskInfo>,
    /// The number of all tasks that fulfil the conditions, tasks of other pages too.
    pub total: usize,
    /// The place after which the next page begins; `None` if this one is the last.
    pub next: Option<(Timestamp, Position)>,
}

/// The index, empty until it is first asked.
#[derive(Debug, Default)]
pub(crate) struct SharedTaskIndex(pub(crate) Mutex<TaskIndex>);

/// The tasks of one agent up to a position of the log.
#[derive(Debug, Default)]
pub(crate) struct TaskIndex {
    /// The position up to which the log was read.
    through: Position,
    /// The tasks, by the position of their first event.
    tasks: BTreeMap<Position, IndexRow>,
    places: HashMap<StreamId, Position>,
    /// The places of tasks that may wait for a person.
    waiting: BTreeSet<Position>,
    /// The principals that have submitted tasks, each once.
    principals: HashMap<String, Vec<Arc<Principal>>>,
    order: TaskOrder,
    /// The agent whose tasks these are.
    agent: String,
}

#[derive(Debug)]
struct IndexRow {
    info: TaskInfo,
    /// The number of approvals without a decision.
    open_approvals: usize,
    /// Whether the task had ended when the state was reset.
    is_reset: bool,
    submitted_by: Arc<Principal>,
    /// The end of the newest run as its handler has named it.
    named: NamedEnd,
}

/// The key of the metadata that a reset of the state merges into a task that has ended: the command of the reset.
pub(crate) const STATE_RESET: &str = "state_reset";

/// The kinds of events that the index reads.
const READ: [u16; 5] = [
    kind::SUBMITTED,
    kind::STATE_CHANGED,
    kind::METADATA_MERGED,
    kind::APPROVAL_REQUESTED,
    kind::APPROVAL_DECIDED,
];

impl TaskIndex {
    /// Reads what was added to the log.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    pub(crate) fn follow(&mut self, log: &dyn EventReader, agent: &str) -> Result<(), ReadError> {
        let from = Position(self.through.0 + 1);
        if self.agent != agent {
            agent.clone_into(&mut self.agent);
        }
        for_each_record(log, from, |stored| {
            let stream = &stored.record.stream;
            if stream.category() == Some(Category::Task) && stream.agent() == agent {
                self.accept_record(stored)?;
            }
            self.through = stored.last_position();
            Ok::<(), ReadError>(())
        })
    }

    fn accept_record(&mut self, stored: &StoredRecord) -> Result<(), ReadError> {
        let (record, last) = (&stored.record, stored.record.last_version());
        if let Some(row) = self.places.get(&record.stream).and_then(|place| self.tasks.get_mut(place)) {
            row.info.version = last;
        }
        if !record.events.iter().any(|event| READ.contains(&event.kind)) {
            return Ok(());
        }
        let before =
            self.places.get(&record.stream).and_then(|place| self.tasks.get(place)).map(IndexRow::placed);
        for recorded in decode_record::<TaskEvent>(stored)? {
            if let TaskEvent::Submitted(posted) = &recorded.event {
                let info = TaskInfo {
                    id: posted.id.clone(),
                    session_id: session(posted.metadata.get("session_id")),
                    run_id: session(posted.metadata.get("run_id")),
                    state: posted.state,
                    since: recorded.metadata.at,
                    version: last,
                    submitted_at: recorded.position,
                };
                self.places.insert(record.stream.clone(), recorded.position);
                let submitted_by = self.principal(&recorded.metadata.principal);
                let row = IndexRow {
                    info,
                    open_approvals: 0,
                    is_reset: false,
                    submitted_by,
                    named: NamedEnd::Nothing,
                };
                self.tasks.insert(recorded.position, row);
            }
            let Some(place) = self.places.get(&record.stream).copied() else { continue };
            let Some(row) = self.tasks.get_mut(&place) else { continue };
            row.evolve(&recorded.event, recorded.metadata.at);
            if row.may_wait() {
                self.waiting.insert(place);
            } else {
                self.waiting.remove(&place);
            }
        }
        if let Some(row) = self.places.get(&record.stream).and_then(|place| self.tasks.get(place)) {
            let (group, place, conversation) = row.placed();
            let before = before.as_ref();
            self.order.move_to(before.map(|(group, place, _)| (*group, *place)), (group, place));
            let known = before.and_then(|(.., conversation)| conversation.as_deref());
            self.order.converse(place.1, known, conversation.as_deref());
        }
        Ok(())
    }

    /// Returns the one copy of a principal.
    fn principal(&mut self, named: &Principal) -> Arc<Principal> {
        let known = self.principals.entry(named.name.clone()).or_default();
        if let Some(known) = known.iter().find(|known| ***known == *named) {
            return Arc::clone(known);
        }
        let one = Arc::new(named.clone());
        known.push(Arc::clone(&one));
        one
    }

    /// Returns the tasks that fulfil the conditions and whose state changed before a place, the last one first, at most
    /// `limit`.
    pub(crate) fn newest(
        &self,
        wanted: &Conditions,
        before: Option<(Timestamp, Position)>,
        limit: usize,
    ) -> NewestTasks {
        // One more than is asked for shows that there is a next page.
        let limit_more = limit.saturating_add(1);
        let (mut found, total) = if wanted.is_grouped() {
            let by = wanted.submitted_by.as_ref().map(|wanted| self.known(wanted));
            let is_wanted = |group: &Group| {
                by.as_ref().is_none_or(|by| by.as_ref().is_some_and(|by| group.is_by(by)))
                    && wanted.hold_for_named(group.state, group.named)
            };
            let (places, total) = self.order.newest(is_wanted, wanted.since, before, limit_more);
            let rows = places.iter().filter_map(|(_, place)| self.tasks.get(place));
            (rows.map(|row| &row.info).collect::<Vec<_>>(), total)
        } else {
            let mut held: Vec<&TaskInfo> = self.matching(wanted).collect();
            let total = held.len();
            let place = |info: &TaskInfo| (info.since, info.submitted_at);
            held.retain(|info| before.is_none_or(|before| place(info) < before));
            held.sort_unstable_by_key(|info| std::cmp::Reverse(place(info)));
            held.truncate(limit_more);
            (held, total)
        };
        let is_more = found.len() > limit;
        found.truncate(limit);
        let tasks: Vec<TaskInfo> = found.into_iter().cloned().collect();
        let next = tasks.last().map(|last| (last.since, last.submitted_at)).filter(|_| is_more);
        NewestTasks { tasks, total, next }
    }

    /// Returns the one copy of a principal that has submitted a task.
    fn known(&self, named: &Principal) -> Option<Arc<Principal>> {
        self.principals.get(&named.name)?.iter().find(|known| ***known == *named).map(Arc::clone)
    }

    /// Returns the tasks that fulfil the conditions, oldest first: of a conversation, where one is named, or of all.
    fn matching<'a>(&'a self, wanted: &'a Conditions) -> Box<dyn Iterator<Item = &'a TaskInfo> + 'a> {
        let Some(conversation) = &wanted.conversation else {
            let rows = self.tasks.values().filter(|row| row.holds(wanted));
            return Box::new(rows.map(|row| &row.info));
        };
        let places = self.of_conversation(conversation).into_iter();
        let rows = places.filter_map(|place| self.tasks.get(&place)).filter(|row| row.holds(wanted));
        Box::new(rows.map(|row| &row.info))
    }

    /// Returns the places of a conversation's tasks: of those that name it, and of the one whose own it is.
    fn of_conversation(&self, conversation: &str) -> BTreeSet<Position> {
        let own = StreamId::task(&self.agent, conversation).ok();
        let own = own.and_then(|own| self.places.get(&own)).copied();
        own.into_iter().chain(self.order.of_conversation(conversation)).collect()
    }

    /// Returns who submitted the first task of a conversation; `None` if it has no task.
    pub(crate) fn opened_by(&self, conversation: &str) -> Option<Principal> {
        let first =
            self.of_conversation(conversation).into_iter().find_map(|place| self.tasks.get(&place))?;
        Some(Principal::clone(&first.submitted_by))
    }

    /// Returns the tasks that fulfil the conditions, at most `limit`.
    pub(crate) fn page(&self, wanted: &Conditions, limit: usize) -> TaskPage {
        let rows = self.tasks.range(Position(wanted.after.0.saturating_add(1))..);
        let listed = rows.filter(|(_, row)| row.holds(wanted));
        let mut found = listed.map(|(_, row)| &row.info);
        let tasks: Vec<TaskInfo> = found.by_ref().take(limit).cloned().collect();
        let is_more = found.next().is_some();
        let next = tasks.last().map(|last| last.submitted_at).filter(|_| is_more);
        TaskPage { tasks, next }
    }

    /// Returns the streams of the tasks that may wait for a person, oldest first.
    pub(crate) fn candidates(&self) -> Vec<TaskInfo> {
        self.waiting.iter().filter_map(|place| Some(self.tasks.get(place)?.info.clone())).collect()
    }
}

impl IndexRow {
    fn evolve(&mut self, event: &TaskEvent, at: Timestamp) {
        match event {
            TaskEvent::Call(CallEvent::Failed { failure, .. }) => {
                // That of a handler; a tool's arguments are refused as `ArgumentError`.
                let is_it = failure.class == FailureClass::Rejected && failure.error_type == "Rejected";
                self.named = if is_it { NamedEnd::Rejected } else { NamedEnd::Nothing };
            }
            TaskEvent::Call(CallEvent::Succeeded { result, .. }) => {
                self.named = match HandlerEnd::of_result(result) {
                    HandlerEnd::AuthRequired(_) => NamedEnd::AuthRequired,
                    HandlerEnd::Replied => NamedEnd::Replied,
                    _ => NamedEnd::Nothing,
                };
            }
            // The result of a tool or a model is put into an artifact, whatever it says.
            TaskEvent::ArtifactAppended { .. } if self.named != NamedEnd::Rejected => {
                self.named = NamedEnd::Nothing;
            }
            TaskEvent::StateChanged { to, .. } => {
                self.info.state = *to;
                self.info.since = at;
                let is_its = match self.named {
                    NamedEnd::Nothing => true,
                    NamedEnd::Rejected => *to == TaskState::Failed,
                    NamedEnd::AuthRequired => *to == TaskState::InputRequired,
                    NamedEnd::Replied => *to == TaskState::Completed,
                };
                if !is_its {
                    self.named = NamedEnd::Nothing;
                }
                // A task that goes on is listed again.
                self.is_reset = false;
            }
            TaskEvent::MetadataMerged(entries) => {
                if let Some(named) = session(entries.get("session_id")) {
                    self.info.session_id = Some(named);
                }
                if let Some(named) = session(entries.get("run_id")) {
                    self.info.run_id = Some(named);
                }
                self.is_reset |= entries.get(STATE_RESET).is_some();
            }
            TaskEvent::ApprovalRequested(_) => self.open_approvals += 1,
            TaskEvent::ApprovalDecided(_) => self.open_approvals = self.open_approvals.saturating_sub(1),
            _ => {}
        }
    }

    fn holds(&self, wanted: &Conditions) -> bool {
        wanted.hold_for(&self.info, &self.submitted_by, self.named, self.is_reset)
    }

    /// Returns where the task stands in the order, and the conversation that it names if that is not its own.
    fn placed(&self) -> (Group, Place, Option<String>) {
        let TaskInfo { id, session_id, state, since, submitted_at, .. } = &self.info;
        let group = Group::new(&self.submitted_by, *state, self.named);
        (group, (*since, *submitted_at), session_id.clone().filter(|session| session != id))
    }

    fn may_wait(&self) -> bool {
        match self.info.state {
            TaskState::InputRequired => true,
            // A run whose agent has changed waits as it is.
            TaskState::Working => self.open_approvals > 0,
            _ => false,
        }
    }
}

fn session(named: Option<&JsonText>) -> Option<String> {
    named.and_then(JsonText::to_str).filter(|id| !id.is_empty())
}

/// Reads what these tasks wait for. One that went on meanwhile is left out.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub(crate) fn waiting(
    log: &dyn EventReader,
    agent: &str,
    candidates: Vec<TaskInfo>,
) -> Result<Vec<WaitingTask>, ReadError> {
    let mut found = Vec::new();
    for info in candidates {
        let Ok(stream) = StreamId::task(agent, &info.id) else { continue };
        let folded = fold_stream::<Task>(log, &stream, None)?;
        let task = folded.state;
        if task.state() != TaskState::InputRequired && !task.is_held() {
            continue;
        }
        let approvals: Vec<Approval> = if task.is_held() {
            task.approvals().iter().filter(|approval| approval.decision.is_none()).cloned().collect()
        } else {
            task.awaited_approvals().cloned().collect()
        };
        found.push(WaitingTask {
            approvals,
            questions: questions(&task),
            tasks: awaited_tasks(&task),
            unknown: task.lost_calls().cloned().collect(),
            task: TaskInfo { state: task.state(), version: folded.version, ..info },
        });
    }
    Ok(found)
}

/// Returns the calls whose questions a person is to answer.
pub(crate) fn questions(task: &Task) -> Vec<Call> {
    task.open_questions().filter(|call| !task.waits_for_agent(call)).cloned().collect()
}

/// Returns the tasks of other agents for which calls of this task wait.
pub(crate) fn awaited_tasks(task: &Task) -> Vec<StreamId> {
    child_wait::waiting(task).map(|(_, child)| child).collect()
}
