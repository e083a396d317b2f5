//! The specification of a log: a vector of events in order, without anything of how a store keeps them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use taskreel_log::testing::AppendFault;

/// The number of streams in the model.
pub(crate) const STREAMS: u8 = 4;

/// A body, described by its length and the value of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) byte: u8,
    pub(crate) bytes: usize,
}

/// An event of the log.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) stream: u8,
    /// The number of its record; the events of one record are adjacent.
    pub(crate) record: u64,
    pub(crate) body: Body,
}

/// The events that an append adds to one stream.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) stream: u8,
    pub(crate) bodies: Vec<Body>,
}

/// The writer's view of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belief {
    Right,
    /// A stale view: the last stream it names is a record further than the writer thinks.
    Behind,
    /// A view too far ahead: the writer continues after another writer's record that was not written.
    Ahead,
    /// A fence of the previous process.
    OldFence,
}

/// An operation on the log.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Append {
        parts: Vec<Part>,
        belief: Belief,
        fault: Option<AppendFault>,
    },
    /// Several appends at once, each right if those before it are written.
    Group {
        appends: Vec<Vec<Part>>,
        fault: Option<AppendFault>,
    },
    /// The repetition of an append whose result is known.
    Repeat {
        which: prop::sample::Index,
    },
    /// Another append under a used id.
    Misuse {
        which: prop::sample::Index,
        stream: u8,
    },
    ReadAll {
        from: u64,
        limit: usize,
    },
    ReadStream {
        stream: u8,
        from: u64,
        limit: usize,
    },
    List {
        prefix: &'static str,
        after: Option<u8>,
        limit: usize,
    },
    SpoilReading {
        bit: Option<usize>,
    },
    FillDisk,
    FreeSpace,
    Reopen,
}

/// The result of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Version and position of each part's last event.
    Done(Vec<(u64, u64)>),
    /// The stream, and its actual end.
    Conflict(u8, u64),
    Fenced,
    Invalid,
    Ambiguous,
    NotWritten,
    Poisoned,
}

/// An append whose id the caller knows.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) number: u64,
    pub(crate) parts: Vec<Part>,
    /// The ends of its streams before it.
    pub(crate) before: Vec<u64>,
    /// The result, if the append is in the log.
    pub(crate) done: Option<Vec<(u64, u64)>>,
}

/// The log, and the state of its store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    /// All events, shown or not.
    pub(crate) events: Vec<Event>,
    /// The number of events shown.
    pub(crate) shown: usize,
    pub(crate) sets: Vec<Set>,
    pub(crate) poisoned: bool,
    /// Whether the store was poisoned before the last step.
    pub(crate) was_poisoned: bool,
    pub(crate) full: bool,
    /// The number of records written.
    pub(crate) records: u64,
    /// The results of the last step's appends, in order.
    pub(crate) answers: Vec<Answer>,
}

/// A record as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) position: u64,
    pub(crate) stream: u8,
    pub(crate) first_version: u64,
    pub(crate) bodies: Vec<Body>,
}

impl Row {
    pub(crate) fn last_position(&self) -> u64 {
        self.position + self.bodies.len() as u64 - 1
    }

    pub(crate) fn last_version(&self) -> u64 {
        self.first_version + self.bodies.len() as u64 - 1
    }
}

impl Model {
    /// Returns the records shown.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let mut versions: BTreeMap<u8, u64> = BTreeMap::new();
        let mut open = None;
        for (event, position) in self.events[..self.shown].iter().zip(1..) {
            let version = versions.entry(event.stream).or_default();
            *version += 1;
            match rows.last_mut() {
                Some(row) if open == Some(event.record) => row.bodies.push(event.body),
                _ => rows.push(Row {
                    position,
                    stream: event.stream,
                    first_version: *version,
                    bodies: vec![event.body],
                }),
            }
            open = Some(event.record);
        }
        rows
    }

    /// Returns the end of a stream for readers.
    pub(crate) fn version(&self, stream: u8) -> u64 {
        self.events[..self.shown].iter().filter(|event| event.stream == stream).count() as u64
    }

    /// Returns the streams that exist.
    pub(crate) fn streams(&self) -> BTreeSet<u8> {
        self.events[..self.shown].iter().map(|event| event.stream).collect()
    }

    fn end(&self, stream: u8) -> u64 {
        self.events.iter().filter(|event| event.stream == stream).count() as u64
    }

    /// Adds the events of an append, and returns their places.
    fn write(&mut self, parts: &[Part]) -> Vec<(u64, u64)> {
        let mut done = Vec::new();
        for part in parts {
            self.records += 1;
            let record = self.records;
            let events = part.bodies.iter().map(|body| Event { stream: part.stream, record, body: *body });
            self.events.extend(events);
            done.push((self.end(part.stream), self.events.len() as u64));
        }
        done
    }

    fn note(&mut self, parts: &[Part], done: Option<Vec<(u64, u64)>>, before: Vec<u64>) {
        let number = self.sets.len() as u64 + 1;
        self.sets.push(Set { number, parts: parts.to_vec(), before, done });
    }

    /// Returns the result of a right append with this fault.
    fn append(&mut self, parts: &[Part], fault: Option<AppendFault>, landing: &mut Option<usize>) -> Answer {
        let before = parts.iter().map(|part| self.end(part.stream)).collect();
        if self.poisoned {
            self.note(parts, None, before);
            return Answer::Poisoned;
        }
        let fault = if self.full { Some(AppendFault::OutOfSpace) } else { fault };
        if let Some(AppendFault::TearGroup { landing: first }) = fault {
            *landing = Some(first);
        }
        let (lands, shown, answer) = match (fault, landing.as_mut()) {
            (_, Some(left)) => {
                let lands = *left > 0;
                *left = left.saturating_sub(1);
                (lands, false, Answer::Ambiguous)
            }
            (None, None) => (true, true, Answer::Done(Vec::new())),
            (Some(AppendFault::AfterWrite), _) => (true, false, Answer::Ambiguous),
            (Some(AppendFault::LoseAnswer), _) => (true, true, Answer::Ambiguous),
            (Some(fault), _) => {
                self.full |= fault == AppendFault::OutOfSpace;
                (false, false, Answer::NotWritten)
            }
        };
        let done = lands.then(|| self.write(parts));
        if shown {
            self.shown = self.events.len();
        }
        // The other appends of a torn group are queued before its first caller gets a result.
        self.poisoned |= fault.is_some() && landing.is_none();
        self.note(parts, done.clone(), before);
        match answer {
            Answer::Done(_) => Answer::Done(done.unwrap_or_default()),
            other => other,
        }
    }

    /// Returns the result of an append whose writer has a wrong view of the log.
    fn refuse(&mut self, parts: &[Part], belief: Belief) -> Answer {
        let before = parts.iter().map(|part| self.end(part.stream)).collect();
        self.note(parts, None, before);
        if self.poisoned {
            return Answer::Poisoned;
        }
        match belief {
            Belief::OldFence => Answer::Fenced,
            _ => parts
                .last()
                .map_or(Answer::Invalid, |part| Answer::Conflict(part.stream, self.end(part.stream))),
        }
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Step> {
        let head = model.events.len() as u64;
        prop_oneof![
            10 => appends(),
            3 => (prop::collection::vec(parts(), 2..5), fault(3)).prop_map(|(appends, fault)| Step::Group { appends, fault }),
            2 => any::<prop::sample::Index>().prop_map(|which| Step::Repeat { which }),
            1 => (any::<prop::sample::Index>(), 0..STREAMS).prop_map(|(which, stream)| Step::Misuse { which, stream }),
            3 => (0..head + 3, 0..9_usize).prop_map(|(from, limit)| Step::ReadAll { from, limit }),
            3 => (0..STREAMS, 0..head + 3, 0..9_usize)
                .prop_map(|(stream, from, limit)| Step::ReadStream { stream, from, limit }),
            2 => (prop::sample::select(vec!["", "task-", "task-agent/s1", "flow-"]), prop::option::of(0..STREAMS), 0..6_usize)
                .prop_map(|(prefix, after, limit)| Step::List { prefix, after, limit }),
            1 => prop::option::of(0..100_000_usize).prop_map(|bit| Step::SpoilReading { bit }),
            1 => Just(Step::FillDisk),
            2 => Just(Step::FreeSpace),
            4 => Just(Step::Reopen),
        ]
        .boxed()
    }

    fn preconditions(model: &Self, step: &Step) -> bool {
        match step {
            Step::Append { parts, belief: Belief::Behind, .. } => {
                parts.last().is_some_and(|part| model.version(part.stream) > 0)
            }
            Step::Repeat { .. } | Step::Misuse { .. } => {
                !model.poisoned && model.sets.iter().any(|set| set.done.is_some())
            }
            _ => true,
        }
    }

    fn apply(mut model: Self, step: &Step) -> Self {
        model.was_poisoned = model.poisoned;
        model.answers = match step {
            Step::Append { parts, belief: Belief::Right, fault } => {
                let mut landing = None;
                let answer = model.append(parts, *fault, &mut landing);
                model.poisoned |= landing.is_some();
                vec![answer]
            }
            Step::Append { parts, belief, .. } => vec![model.refuse(parts, *belief)],
            Step::Group { appends, fault } => {
                let (mut fault, mut landing) = (*fault, None);
                let answers = appends.iter().map(|parts| model.append(parts, fault.take(), &mut landing));
                let answers = answers.collect();
                model.poisoned |= landing.is_some();
                answers
            }
            Step::Repeat { which } => {
                let done = model.done();
                vec![Answer::Done(done[which.index(done.len())].done.clone().unwrap_or_default())]
            }
            Step::Misuse { .. } => vec![Answer::Invalid],
            _ => Vec::new(),
        };
        match step {
            Step::FillDisk => model.full = true,
            Step::FreeSpace => model.full = false,
            Step::Reopen => {
                model.poisoned = false;
                model.shown = model.events.len();
            }
            _ => {}
        }
        model
    }
}

impl Model {
    /// Returns the appends in the log.
    pub(crate) fn done(&self) -> Vec<&Set> {
        self.sets.iter().filter(|set| set.done.is_some()).collect()
    }
}

fn body() -> impl Strategy<Value = Body> {
    // Small ones, ones that fill a value, ones that need several chunks.
    let bytes = prop_oneof![20 => 0..300_usize, 3 => 20_000..58_000_usize, 1 => 60_000..200_000_usize];
    (any::<u8>(), bytes).prop_map(|(byte, bytes)| Body { byte, bytes })
}

/// Generates the parts for one, two or three streams.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    let streams = prop::sample::subsequence((0..STREAMS).collect::<Vec<_>>(), 1..4).prop_shuffle();
    (streams, prop::collection::vec(prop::collection::vec(body(), 1..4), 3)).prop_map(|(streams, bodies)| {
        streams.into_iter().zip(bodies).map(|(stream, bodies)| Part { stream, bodies }).collect()
    })
}

fn appends() -> impl Strategy<Value = Step> {
    let belief = prop_oneof![
        12 => Just(Belief::Right),
        1 => Just(Belief::Behind),
        1 => Just(Belief::Ahead),
        1 => Just(Belief::OldFence),
    ];
    (parts(), belief, fault(6)).prop_map(|(parts, belief, fault)| Step::Append { parts, belief, fault })
}

/// Generates a fault in one of `one_in` cases.
fn fault(one_in: u32) -> impl Strategy<Value = Option<AppendFault>> {
    let fault = prop_oneof![
        Just(AppendFault::BeforeWrite),
        Just(AppendFault::AfterWrite),
        Just(AppendFault::LoseAnswer),
        Just(AppendFault::OutOfSpace),
        (0..4_usize).prop_map(|landing| AppendFault::TearGroup { landing }),
    ];
    prop_oneof![one_in => Just(None), 1 => fault.prop_map(Some)]
}
