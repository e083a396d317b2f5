//! The steps of a sequence diagram, taken from events in their order.

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::call::{CallEvent, CallKind, CallRequested, VerdictBy};
use proto_events::codec::AnyEvent;
use proto_events::id::{Category, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::task::{TaskEvent, WebhookEvent};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::views::event_row::{EventRow, event_rows};
use crate::views::sequence::diagram::{Participant, ParticipantKind, SequenceDiagram, SequenceStep};
use crate::views::summary::Summaries;
use crate::views::visible::visible_cut;

/// The most columns of a step's words that are kept.
const WORDS_COLUMNS_MAX: usize = 300;

/// The most columns of a participant's name that are kept.
const NAME_COLUMNS_MAX: usize = 80;

/// Returns the sequence diagram of a stream. Takes time and memory in proportion to the number of events.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn sequence(reader: &dyn EventReader, stream: &StreamId) -> Result<SequenceDiagram, ReadError> {
    sequence_between(reader, stream, (Version(1), Version(u64::MAX)))
}

/// Returns the sequence diagram of the events between two versions, both included. Takes time in proportion to the number of events
/// up to there, and memory in proportion to those between.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn sequence_between(
    reader: &dyn EventReader,
    stream: &StreamId,
    (first, last): (Version, Version),
) -> Result<SequenceDiagram, ReadError> {
    let mut steps = SequenceSteps::new(stream);
    for_each_page_of(reader, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            if row.version > last {
                return Ok(ControlFlow::Break(()));
            }
            if row.version < first {
                steps.record_row(&row);
            } else {
                steps.accept_row(&row);
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    let mut diagram = steps.finish();
    if first > Version(1) {
        diagram.leave_out_who_takes_no_part();
    }
    Ok(diagram)
}

/// A diagram that grows by events.
pub(super) struct SequenceSteps {
    diagram: SequenceDiagram,
    numbers: HashMap<(ParticipantKind, String), usize>,
    summaries: Summaries,
    /// The participant that each call is sent to.
    targets: HashMap<String, usize>,
    /// The participant that holds the turn of a session.
    turn_of: Option<usize>,
}

impl SequenceSteps {
    pub(super) fn new(stream: &StreamId) -> Self {
        let mut steps = Self {
            diagram: SequenceDiagram::default(),
            numbers: HashMap::new(),
            summaries: Summaries::default(),
            targets: HashMap::new(),
            turn_of: None,
        };
        let word = match stream.category() {
            Some(Category::Task) => "task",
            Some(category) => category.as_str(),
            None => "stream",
        };
        steps.participant(ParticipantKind::Subject, &format!("{word} {}", stream.id()));
        steps
    }

    /// Takes an event that is not drawn, so that later ones find who takes part.
    fn record_row(&mut self, row: &EventRow) {
        self.summaries.record(row);
        self.arrow(row);
    }

    pub(super) fn accept_row(&mut self, row: &EventRow) {
        let words = visible_cut(&self.summaries.of(row), WORDS_COLUMNS_MAX, "…");
        let (from, to, is_failed) = self.arrow(row);
        self.diagram.steps.push(SequenceStep {
            version: row.version,
            at: row.at,
            kind: row.kind,
            from,
            to,
            text: words,
            is_failed,
        });
    }

    /// Orders the participants: callers and persons left of the stream, its targets right of it, as they came.
    pub(super) fn finish(self) -> SequenceDiagram {
        let SequenceDiagram { participants, mut steps } = self.diagram;
        let mut order: Vec<usize> = (0..participants.len()).collect();
        let rank = |at: &usize| {
            participants.get(*at).map(|participant| participant.kind.min(ParticipantKind::Model))
        };
        order.sort_by_key(|at| (rank(at), *at));
        let mut places = vec![0; order.len()];
        for (place, at) in order.iter().enumerate() {
            if let Some(placed) = places.get_mut(*at) {
                *placed = place;
            }
        }
        let place = |at: usize| places.get(at).copied().unwrap_or_default();
        for step in &mut steps {
            (step.from, step.to) = (place(step.from), place(step.to));
        }
        let participants = order.iter().filter_map(|at| participants.get(*at).cloned()).collect();
        SequenceDiagram { participants, steps }
    }

    fn participant(&mut self, kind: ParticipantKind, name: &str) -> usize {
        let key = (kind, name.to_owned());
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let number = self.diagram.participants.len();
        self.numbers.insert(key, number);
        self.diagram
            .participants
            .push(Participant { kind, name: visible_cut(name, NAME_COLUMNS_MAX, "…") });
        number
    }

    fn caller(&mut self) -> usize {
        self.participant(ParticipantKind::Caller, "caller")
    }

    fn person(&mut self) -> usize {
        self.participant(ParticipantKind::Person, "person")
    }

    /// Returns from whom to whom an event goes, and whether it tells of a failure.
    fn arrow(&mut self, row: &EventRow) -> (usize, usize, bool) {
        match &row.event {
            Ok(AnyEvent::Task(event)) => self.task(event),
            Ok(AnyEvent::Session(event)) => self.session(event),
            Ok(_) => (0, 0, false),
            Err(_) => (0, 0, true),
        }
    }

    fn task(&mut self, event: &TaskEvent) -> (usize, usize, bool) {
        match event {
            TaskEvent::Submitted(_) | TaskEvent::PostedAgain { .. } | TaskEvent::CancelRequested { .. } => {
                (self.caller(), 0, false)
            }
            TaskEvent::MessageAppended(message) if message.role.as_deref() == Some("user") => {
                (self.caller(), 0, false)
            }
            TaskEvent::MessageAppended(_)
            | TaskEvent::ArtifactAppended { .. }
            | TaskEvent::ArtifactPartAppended { .. } => (0, self.caller(), false),
            TaskEvent::StateChanged { to, .. } if to.is_terminal() => {
                (0, self.caller(), *to == TaskState::Failed)
            }
            TaskEvent::ApprovalRequested(_) => (0, self.person(), false),
            TaskEvent::ApprovalDecided(decided) => (self.person(), 0, !decided.approved),
            TaskEvent::Call(event) => self.call(event),
            TaskEvent::Webhook(WebhookEvent::Failed { .. }) => (0, 0, true),
            TaskEvent::StateChanged { .. }
            | TaskEvent::MetadataMerged(_)
            | TaskEvent::InferMessageAppended(_)
            | TaskEvent::Webhook(_) => (0, 0, false),
        }
    }

    fn requested(&mut self, request: &CallRequested) -> (usize, usize, bool) {
        let kind = match request.kind {
            CallKind::Tool => ParticipantKind::Tool,
            CallKind::Infer => ParticipantKind::Model,
            CallKind::Delegate => ParticipantKind::Agent,
            CallKind::Handler => ParticipantKind::Handler,
        };
        let target = self.participant(kind, &format!("{} {}", kind.as_str(), request.target));
        self.targets.insert(request.call_id.clone(), target);
        (0, 0, false)
    }

    fn call(&mut self, event: &CallEvent) -> (usize, usize, bool) {
        if let CallEvent::Requested(request) = event {
            return self.requested(request);
        }
        let target = self.targets.get(event.call_id()).copied().unwrap_or_default();
        match event {
            CallEvent::Dispatched { .. } => (0, target, false),
            CallEvent::Accepted { .. }
            | CallEvent::Succeeded { .. }
            | CallEvent::LateResultIgnored { .. }
            | CallEvent::Reconciled { by: VerdictBy::Probe, .. } => (target, 0, false),
            CallEvent::Failed { .. } | CallEvent::RetryScheduled { .. } => (target, 0, true),
            CallEvent::TimedOut { .. } | CallEvent::OutcomeUnknown { .. } => (target, target, true),
            CallEvent::Asked { .. } => (target, self.person(), false),
            CallEvent::Answered { .. } | CallEvent::Reconciled { .. } | CallEvent::Abandoned { .. } => {
                (self.person(), 0, false)
            }
            CallEvent::Requested(_) | CallEvent::Canceled { .. } => (0, 0, false),
        }
    }

    fn session(&mut self, event: &SessionEvent) -> (usize, usize, bool) {
        match event {
            SessionEvent::TurnStarted { task, .. } => {
                let id = StreamId::parse(task).map_or_else(|_| task.clone(), |stream| stream.id());
                let task = self.participant(ParticipantKind::Task, &format!("task {id}"));
                self.turn_of = Some(task);
                (task, 0, false)
            }
            SessionEvent::MessageAppended(_) | SessionEvent::SystemPromptSet(_) => {
                (self.turn_of.unwrap_or_default(), 0, false)
            }
            SessionEvent::TurnCommitted { .. } => (0, self.turn_of.take().unwrap_or_default(), false),
            SessionEvent::TurnAborted { .. } => (0, self.turn_of.take().unwrap_or_default(), true),
            SessionEvent::SummaryRequested(request) => {
                let model = self.participant(ParticipantKind::Model, &format!("model {}", request.target));
                self.targets.insert(request.call_id.clone(), model);
                (0, model, false)
            }
            SessionEvent::SummaryReceived { call_id, .. } => {
                (self.targets.get(call_id).copied().unwrap_or_default(), 0, false)
            }
            SessionEvent::SummaryFailed { call_id, .. } => {
                (self.targets.get(call_id).copied().unwrap_or_default(), 0, true)
            }
            SessionEvent::Opened { .. }
            | SessionEvent::HistoryCompacted(_)
            | SessionEvent::Cleared { .. } => (0, 0, false),
        }
    }
}
