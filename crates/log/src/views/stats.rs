//! Statistics of calls: their number, failures, durations and tokens; by tool, model, agent and session. Made
//! in one pass over the log. Figures are exact: every measured duration is kept (8 bytes for each call and
//! row) until the percentiles are computed.

use std::collections::{BTreeMap, HashMap};

use proto_events::call::{CallEvent, CallKind, CallRequested, Costs, Price, TokenUsage, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;

use crate::audit::json::{costs_json, number, object, text, text_or_null};
use crate::views::durations::Durations;
use crate::views::event_row::EventRow;
use crate::views::filter::Filter;
use crate::views::summaries::as_calls;

/// The calls that a row sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StatsGroup {
    /// All calls.
    All,
    /// The calls of one tool.
    Tool,
    /// The inferences of one model.
    Model,
    /// The tasks given to one other agent.
    Agent,
    /// The calls of the embedder's own code that does the work of runs, by agent.
    Handler,
    /// The calls of one session's tasks.
    Session,
}

impl StatsGroup {
    /// Returns its name on screens and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Tool => "tool",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Handler => "handler",
            Self::Session => "session",
        }
    }
}

/// Sums over calls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsRow {
    /// The kind of calls summed.
    pub group: StatsGroup,
    /// The tool, model, agent or session; none for all calls, and for the tasks that name no session.
    pub name: Option<String>,
    /// The number of intents.
    pub calls: u64,
    /// The number of attempts, the first ones included.
    pub attempts: u64,
    /// The number of calls that succeeded.
    pub succeeded: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// The number of calls whose outcome is unknown, and of which nobody has said more since.
    pub unknown: u64,
    /// The number of calls whose outcome was unknown until somebody found it out, or stopped the investigation.
    pub settled: u64,
    /// The number of calls given up.
    pub canceled: u64,
    /// The number of attempts that timed out.
    pub timed_out: u64,
    /// The number of calls without an outcome so far.
    pub open: u64,
    /// The tokens of all attempts that report their usage, failed ones too.
    pub usage: TokenUsage,
    /// The cost of these tokens, as far as the host stated prices.
    pub costs: Costs,
    /// The number of replies that report their usage.
    pub with_usage: u64,
    /// The durations of the calls, see [`Durations`].
    pub durations: Durations,
}

impl StatsRow {
    /// Returns the number of calls that failed or whose outcome is unknown.
    pub fn errors(&self) -> u64 {
        self.failed + self.unknown
    }

    fn add_usage(&mut self, price: Option<&Price>, usage: Option<TokenUsage>) {
        self.costs.add(price, usage);
        let Some(usage) = usage else { return };
        let all = &mut self.usage;
        all.input_tokens = all.input_tokens.saturating_add(usage.input_tokens);
        all.output_tokens = all.output_tokens.saturating_add(usage.output_tokens);
    }

    /// Returns the row as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.stats/1")),
            ("group", text(self.group.as_str())),
            ("name", text_or_null(self.name.as_deref())),
            ("calls", number(self.calls)),
            ("errors", number(self.errors())),
            ("succeeded", number(self.succeeded)),
            ("failed", number(self.failed)),
            ("unknown", number(self.unknown)),
            ("settled", number(self.settled)),
            ("canceled", number(self.canceled)),
            ("open", number(self.open)),
            ("attempts", number(self.attempts)),
            ("timed_out", number(self.timed_out)),
            ("measured", number(self.durations.count())),
            ("p50_us", micros(self.durations.percentile(50))),
            ("p95_us", micros(self.durations.percentile(95))),
            ("p99_us", micros(self.durations.percentile(99))),
            ("max_us", micros(self.durations.percentile(100))),
            ("with_usage", number(self.with_usage)),
            ("input_tokens", number(self.usage.input_tokens)),
            ("output_tokens", number(self.usage.output_tokens)),
            ("costs", costs_json(&self.costs)),
        ])
    }
}

fn micros(micros: Option<u64>) -> JsonText {
    micros.map_or_else(JsonText::null, number)
}

/// An open call.
struct TimedCall {
    kind: CallKind,
    target: String,
    session: Option<String>,
    price: Option<Price>,
    sent: Option<Timestamp>,
}

pub(super) type Key = (StatsGroup, Option<String>);

/// Statistics built from events in order.
#[derive(Default)]
pub struct Stats {
    filter: Filter,
    /// The number of calls that the filter took, and the number of these that are not counted.
    pub(super) taken: u64,
    skipped: u64,
    open: HashMap<(StreamId, String), TimedCall>,
    /// The calls whose outcome is unknown, with the rows in which each counts.
    unknown: HashMap<(StreamId, String), [Key; 3]>,
    /// The sessions that tasks name.
    sessions: HashMap<StreamId, String>,
    pub(super) rows: BTreeMap<Key, StatsRow>,
}

impl std::fmt::Debug for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stats").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl Stats {
    /// Returns the statistics of the calls that a filter takes, without the first ones of them.
    pub(super) fn new(filter: Filter, skipped: u64) -> Self {
        Self { filter, skipped, ..Self::default() }
    }

    /// Adds the next event.
    pub fn take(&mut self, row: &EventRow) {
        let event = match &row.event {
            Ok(AnyEvent::Task(event)) => event,
            Ok(AnyEvent::Session(event)) => return self.summary(row, event),
            _ => return,
        };
        match event {
            TaskEvent::Submitted(posted) => self.session(&row.stream, &posted.metadata),
            TaskEvent::MetadataMerged(entries) => self.session(&row.stream, entries),
            TaskEvent::Call(event) => self.call(row, event),
            _ => {}
        }
    }

    /// Returns the sums so far.
    pub fn rows(self) -> Vec<StatsRow> {
        let mut rows: Vec<_> = self.rows.into_values().collect();
        for row in &mut rows {
            row.durations.0.sort_unstable();
        }
        rows
    }

    /// Notes the session that a task names. A task that names none has its own id as session id, which is not
    /// noted.
    fn session(&mut self, stream: &StreamId, metadata: &JsonObject) {
        let Some(named) = metadata.get("session_id").and_then(JsonText::to_str) else { return };
        if !named.is_empty() && named != stream.id() {
            self.sessions.insert(stream.clone(), named);
        }
    }

    /// Counts a call for a summary of a session: it is an inference of one attempt, which is sent with its intent.
    fn summary(&mut self, row: &EventRow, event: &SessionEvent) {
        for event in as_calls(event) {
            self.sessions.entry(row.stream.clone()).or_insert_with(|| row.stream.id());
            self.call(row, &event);
        }
    }

    fn call(&mut self, row: &EventRow, event: &CallEvent) {
        let key = (row.stream.clone(), event.call_id().to_owned());
        if let CallEvent::Requested(request) = event {
            let session = self.sessions.get(&key.0).map(String::as_str);
            if self.filter.takes_intent((&key.0, session, row.at), request) {
                self.taken += 1;
                if self.taken > self.skipped {
                    self.requested(key, request);
                }
            }
            return;
        }
        let Some(open) = self.open.get_mut(&key) else { return self.settle(&key, event) };
        let (keys, took) = (keys(open), open.sent.map(|sent| row.at.0.saturating_sub(sent.0)));
        let price = open.price.clone();
        let price = price.as_ref();
        let took = took.and_then(|took| u64::try_from(took).ok());
        let mut over = true;
        let count: &dyn Fn(&mut StatsRow) = match event {
            CallEvent::Dispatched { .. } => {
                open.sent = Some(row.at);
                over = false;
                &|sums| sums.attempts += 1
            }
            CallEvent::RetryScheduled { failure, .. } => {
                over = false;
                &move |sums| sums.add_usage(price, failure.usage)
            }
            CallEvent::TimedOut { .. } => {
                over = false;
                &|sums| sums.timed_out += 1
            }
            CallEvent::Succeeded { usage, .. } => &move |sums| {
                sums.succeeded += 1;
                sums.durations.0.extend(took);
                sums.with_usage += u64::from(usage.is_some());
                sums.add_usage(price, *usage);
            },
            CallEvent::Failed { failure, .. } => &move |sums| {
                sums.failed += 1;
                sums.add_usage(price, failure.usage);
                sums.durations.0.extend(took);
            },
            CallEvent::Canceled { .. } => &|sums| sums.canceled += 1,
            CallEvent::OutcomeUnknown { .. } => {
                self.unknown.insert(key.clone(), keys.clone());
                &|sums| sums.unknown += 1
            }
            _ => return,
        };
        for key in keys {
            let sums = row_of(&mut self.rows, key);
            sums.open -= u64::from(over);
            count(sums);
        }
        if over {
            self.open.remove(&key);
        }
    }

    /// Takes what happens to a call whose outcome is unknown.
    fn settle(&mut self, key: &(StreamId, String), event: &CallEvent) {
        let settles = match event {
            CallEvent::Reconciled { verdict, .. } => !matches!(verdict, Verdict::Inconclusive(_)),
            CallEvent::Abandoned { .. } => true,
            _ => false,
        };
        for key in settles.then(|| self.unknown.remove(key)).flatten().into_iter().flatten() {
            let sums = row_of(&mut self.rows, key);
            sums.unknown -= 1;
            sums.settled += 1;
        }
    }

    fn requested(&mut self, key: (StreamId, String), request: &CallRequested) {
        let open = TimedCall {
            kind: request.kind,
            target: request.target.clone(),
            session: self.sessions.get(&key.0).cloned(),
            price: request.price.clone(),
            sent: None,
        };
        for key in keys(&open) {
            let sums = row_of(&mut self.rows, key);
            sums.calls += 1;
            sums.open += 1;
        }
        self.open.insert(key, open);
    }
}

/// Returns the rows in which a call counts.
fn keys(open: &TimedCall) -> [Key; 3] {
    let group = match open.kind {
        CallKind::Tool => StatsGroup::Tool,
        CallKind::Infer => StatsGroup::Model,
        CallKind::Delegate => StatsGroup::Agent,
        CallKind::Handler => StatsGroup::Handler,
    };
    [(StatsGroup::All, None), (group, Some(open.target.clone())), (StatsGroup::Session, open.session.clone())]
}

fn row_of(rows: &mut BTreeMap<Key, StatsRow>, key: Key) -> &mut StatsRow {
    rows.entry(key.clone()).or_insert_with(|| StatsRow {
        group: key.0,
        name: key.1,
        calls: 0,
        attempts: 0,
        succeeded: 0,
        failed: 0,
        unknown: 0,
        settled: 0,
        canceled: 0,
        timed_out: 0,
        open: 0,
        usage: TokenUsage::default(),
        costs: Costs::default(),
        with_usage: 0,
        durations: Durations::default(),
    })
}
