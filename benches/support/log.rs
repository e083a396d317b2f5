//! Logs to measure with: streams of tasks whose events have a given length, with records as the actors write
//! them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{Payload, Storable as _};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::{Digest, ExpectedVersion, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::TaskEvent;
use taskreel_log::api::{Append, AppendFuture, AppendPart, EventStore, Fence};

use super::Failure;

/// The bytes around a record in a value: its length and its leaf hash.
const FRAME_BYTES: u64 = 4 + 32;

/// The number of appends in flight while a log is filled: enough for full groups.
const IN_FLIGHT: usize = 4_096;

/// Returns a message with a text of `text` bytes.
fn said(n: u64, text: usize) -> Message {
    let mut words = "durable ".repeat(text.div_ceil(8));
    words.truncate(text);
    Message {
        id: Some(format!("msg_{n:016}")),
        role: Some("user".to_owned()),
        parts: vec![Part::text(&words)],
        timestamp: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

/// Returns a task with such a message.
fn posted(text: usize) -> PostedTask {
    PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "task_20261121T100000_00000000".to_owned(),
        state: TaskState::Submitted,
        messages: vec![said(0, text)],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }
}

/// Returns the name of one task's stream.
pub(crate) fn stream(n: usize) -> Result<StreamId, Failure> {
    Ok(StreamId::task("bench", &format!("task_20261121T100000_{n:08x}"))?)
}

/// The bodies of a task's first and later events.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    first: Payload,
    later: Payload,
}

impl Bodies {
    /// Returns events of about `bytes` bytes each.
    pub(crate) fn of(bytes: usize) -> Result<Self, Failure> {
        Ok(Self {
            first: sized(bytes, |text| TaskEvent::Submitted(Box::new(posted(text))))?,
            later: sized(bytes, |text| TaskEvent::MessageAppended(said(1, text)))?,
        })
    }

    fn at(&self, version: Version) -> &Payload {
        if version == Version(0) { &self.first } else { &self.later }
    }
}

/// Returns an event whose text fills it to about `bytes` bytes.
fn sized(bytes: usize, event: impl Fn(usize) -> TaskEvent) -> Result<Payload, Failure> {
    let without = event(0).encode()?.body.len();
    let payload = event(bytes.checked_sub(without).ok_or("an event is longer than that")?).encode()?;
    let found = payload.body.len();
    // The length prefixes of longer texts take a few bytes more.
    if found.abs_diff(bytes) <= 8 {
        Ok(payload)
    } else {
        Err(format!("an event's body has {found} bytes, not about {bytes}").into())
    }
}

/// The writer of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    stream: StreamId,
    version: Version,
    last_hash: Digest,
}

impl Lane {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self { stream, version: Version(0), last_hash: Digest::default() }
    }

    /// Returns the stream's next event as an append of its own, encoded and hashed as an actor does it.
    pub(crate) fn next(&mut self, fence: Fence, set: u128, bodies: &Bodies) -> Result<Append, Failure> {
        let set_id = set.to_be_bytes();
        let Payload { kind, schema, body } = bodies.at(self.version).clone();
        let id = format!("{set:032x}");
        let draft = RecordDraft {
            stream: self.stream.clone(),
            first_version: Version(self.version.0 + 1),
            set_id,
            part: 0,
            parts: 1,
            partition: fence.partition,
            epoch: fence.epoch,
            metadata: Metadata {
                at: Timestamp(1_795_000_000_123_456),
                command_digest: None,
                correlation_id: id.clone(),
                command_id: id,
                ..Metadata::default()
            },
            fields: Vec::new(),
            previous: self.last_hash,
            events: vec![EventBody { kind, schema, salt: set_id, body }],
        };
        let expected = ExpectedVersion::exactly(self.version);
        let record = draft.encode()?;
        (self.version, self.last_hash) = (record.last_version(), record.hash());
        let part = AppendPart { stream: self.stream.clone(), expected, record };
        Ok(Append { fence, set_id, parts: vec![part] })
    }
}

/// Returns the bytes that an append takes in the log.
pub(crate) fn stored_bytes(append: &Append) -> u64 {
    let of = |part: &AppendPart| FRAME_BYTES + u64::try_from(part.record.bytes().len()).unwrap_or(u64::MAX);
    append.parts.iter().map(of).sum()
}

/// The dimensions of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) streams: usize,
    pub(crate) events_each: usize,
    pub(crate) body_bytes: usize,
}

impl Shape {
    pub(crate) fn events(self) -> u64 {
        u64::try_from(self.streams * self.events_each).unwrap_or(u64::MAX)
    }
}

/// The size and time of filling a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    pub(crate) stored_bytes: u64,
    pub(crate) spent: Duration,
}

/// Fills a store: one event for each append, the streams in a pseudorandom order that is the same in every
/// run.
pub(crate) async fn fill(store: &dyn EventStore, shape: Shape) -> Result<Filled, Failure> {
    let bodies = Bodies::of(shape.body_bytes)?;
    let mut lanes = (0..shape.streams).map(|n| stream(n).map(Lane::new)).collect::<Result<Vec<_>, _>>()?;
    let fence = store.fence();
    let mut flying: VecDeque<AppendFuture> = VecDeque::with_capacity(IN_FLIGHT);
    let mut stored = 0;
    let begin = Instant::now();
    for (set, lane) in order(shape).into_iter().enumerate() {
        let lane = lanes.get_mut(lane).ok_or("no such stream")?;
        let append = lane.next(fence, 1 + u128::try_from(set)?, &bodies)?;
        stored += stored_bytes(&append);
        flying.push_back(store.append(append));
        if flying.len() >= IN_FLIGHT
            && let Some(oldest) = flying.pop_front()
        {
            oldest.await?;
        }
    }
    for rest in flying {
        rest.await?;
    }
    Ok(Filled { stored_bytes: stored, spent: begin.elapsed() })
}

/// Returns each stream as often as it has events, shuffled.
fn order(shape: Shape) -> Vec<usize> {
    let mut order: Vec<usize> = (0..shape.streams * shape.events_each).map(|at| at % shape.streams).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at + 1));
    }
    order
}

/// A pseudorandom generator (xorshift) with the same numbers in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}
