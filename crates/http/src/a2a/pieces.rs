//! The pieces of a model's answer, which come while it answers and are not in the log. They are told as chunks of the artifact
//! that the answer becomes: its id follows from the call. The log then tells the whole artifact, which replaces what was
//! told, so that a subscriber for whom pieces are missing ends with the same.

use std::collections::VecDeque;

use proto_events::call::{CallKind, CallStatus};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model;
use proto_events::task::Task;
use taskreel::{Live, LiveFeed, System, TaskHandle};

use crate::a2a::mapping::artifact;
use crate::a2a::mapping::task::context_of;
use crate::a2a::model::ArtifactUpdate;
use crate::a2a::place::ToldAnswer;

/// The most pieces that are kept for a part of the log that was not read yet.
const EARLY_MAX: usize = 1024;

/// The live events of a task, and what was told of them.
pub(crate) struct AnswerPieces {
    task: TaskHandle,
    feed: LiveFeed,
    is_over: bool,
    told: Option<ToldAnswer>,
    /// Pieces that belong to a part of the log that was not read yet.
    early: VecDeque<Live>,
}

impl AnswerPieces {
    /// Returns the pieces of a task's answers from when the feed was taken; what was told before is not told again.
    pub(crate) fn new(task: TaskHandle, feed: LiveFeed, told: Option<ToldAnswer>) -> Self {
        Self { task, feed, is_over: false, told, early: VecDeque::new() }
    }

    /// Waits for the next live event, for ever once the feed has ended.
    pub(crate) async fn next(&mut self) -> Live {
        if !self.is_over {
            if let Some(live) = self.feed.next().await {
                return live;
            }
            self.is_over = true;
        }
        std::future::pending().await
    }

    /// Returns the chunk that a live event is, if its answer is under way and nothing is missing before it, and what was told
    /// with it.
    pub(crate) fn take(&mut self, task: &Task, live: Live) -> Option<(ToldAnswer, ArtifactUpdate)> {
        let Live::Answer { call_id, attempt, at, text } = &live else { return None };
        let call =
            task.calls().get(call_id).filter(|call| call.attempts >= *attempt || !call.status.is_open());
        let Some(call) = call else {
            self.defer(live);
            return None;
        };
        let is_current = call.status == CallStatus::Dispatched && call.attempts == *attempt;
        if !is_current || call.request.kind != CallKind::Infer || text.is_empty() {
            return None;
        }
        let told = self.told.take().filter(|told| told.is_of(call_id, *attempt));
        let told = told.unwrap_or_else(|| ToldAnswer::new(call_id, *attempt));
        // What was told before is left out; after a gap nothing is told until the answer is complete.
        let new =
            told.bytes.checked_sub(*at).and_then(|known| text.get(known..)).filter(|new| !new.is_empty());
        let Some(new) = new else {
            self.told = Some(told);
            return None;
        };
        let update = ArtifactUpdate {
            task_id: task.id().to_owned(),
            context_id: context_of(task.id(), task.metadata()),
            artifact: artifact::to_a2a(&piece(System::output_id(task, self.task.stream(), call), new)),
            append: told.bytes > 0,
            last_chunk: false,
            metadata: JsonObject::new(),
        };
        let mut told = told;
        told.bytes += new.len();
        self.told = Some(told.clone());
        Some((told, update))
    }

    /// Keeps a live event that came too early.
    pub(crate) fn defer(&mut self, live: Live) {
        // The oldest are dropped: the whole answer has them.
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(live);
    }

    /// Returns the live events that came too early, for another try.
    pub(crate) fn early(&mut self) -> VecDeque<Live> {
        std::mem::take(&mut self.early)
    }
}

fn piece(id: String, text: &str) -> model::Artifact {
    model::Artifact {
        id: Some(id),
        parts: vec![model::Part::infer_output(JsonText::string(text))],
        metadata: JsonObject::new(),
        timestamp: None,
        kind: "result".to_owned(),
        name: None,
        uri: None,
        media_type: None,
        action_id: None,
    }
}
