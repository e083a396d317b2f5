//! A cache of facts about the messages of a conversation, kept from one inference to the next, so that each message is read and
//! counted once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::LlmRole;

use crate::context::counter::MessageMeasure;
use crate::context::cut_text::is_result_note;
use crate::context::minimized_sizes::MinimizedSizes;
use crate::context::result_place::ResultPlace;
use crate::context::transcript::{MessageView, Transcript};

/// A cache of the messages of one conversation: their lengths, the calls that they answer, and their tokens for each
/// counter. It may be dropped at any time; the next inference then reads all messages again.
///
/// A conversation grows at its end. What was read is known by the messages' ids: those up to
/// [`ConversationFacts::settle`] by the last of them alone, the others each by its own. A message without an id is read at every inference.
#[derive(Debug, Default)]
pub struct ConversationFacts {
    entries: Vec<FactsEntry>,
    /// The newest message that asks for a call, by the call's id.
    asks: HashMap<String, u32>,
    orphans: u32,
    counts: Vec<Counts>,
    system: Option<(String, Vec<(String, i64)>)>,
    settled: usize,
    minimized: MinimizedSizes,
}

/// The facts about one message.
#[derive(Debug)]
struct FactsEntry {
    /// The hash of the message's id; `None` if it has none.
    id: Option<u64>,
    chars: u64,
    asker: Asker,
    /// The tip that says how to see the rest of the message's result; empty where it does not say where that stands.
    tip: Box<str>,
    /// Whether the message is a note of the system that tells a result.
    is_note: bool,
}

/// The message that asks for the call which a message answers. A tool's answer names its call; an answer of the system, in a
/// conversation without native calls, stands right behind the message of the model that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The message answers no call.
    None,
    /// The number of the message that asks.
    At(u32),
    /// A tool's answer that names no call, or one that no earlier message asks for.
    Missing,
}

/// The tokens of all messages for one way of counting.
#[derive(Debug)]
struct Counts {
    key: String,
    tokens: Vec<i64>,
    total: i64,
}

impl ConversationFacts {
    /// Returns a cache that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of messages that are known, a measure of the cache's size.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads the messages that are not known yet.
    pub fn read(&mut self, transcript: &dyn Transcript) {
        let known = self.known(transcript);
        if known < self.entries.len() {
            self.forget_after(known);
        }
        for number in index(self.entries.len())..transcript.count() {
            let Some(message) = transcript.message(number) else { break };
            let entry = self.entry(transcript, number, &message);
            self.entries.push(entry);
        }
    }

    /// Says that as many messages at the beginning are final: committed, and never another.
    pub fn settle(&mut self, messages: usize) {
        self.settled = messages.min(self.entries.len());
    }

    /// Returns the number of known messages that the transcript still has.
    fn known(&self, transcript: &dyn Transcript) -> usize {
        let same = |place: usize| {
            let entry = self.entries.get(place);
            entry.is_some_and(|entry| {
                let is_there = index(place) < transcript.count();
                entry.id.is_some() && is_there && entry.id == id_of(transcript, index(place))
            })
        };
        let settled = self.settled.checked_sub(1).is_none_or(same);
        let begin = if settled { self.settled } else { 0 };
        (begin..self.entries.len()).find(|place| !same(*place)).unwrap_or(self.entries.len())
    }

    /// Forgets the messages from this place on. The links of the others are read anew, their counts are kept.
    fn forget_after(&mut self, place: usize) {
        for counts in &mut self.counts {
            counts.tokens.truncate(place);
            counts.total = counts.tokens.iter().copied().fold(0, i64::saturating_add);
        }
        self.entries.clear();
        self.minimized.clear();
        self.asks.clear();
        (self.orphans, self.settled) = (0, 0);
    }

    fn entry(&mut self, transcript: &dyn Transcript, number: u32, message: &MessageView<'_>) -> FactsEntry {
        let asker = self.asker_of(transcript, number, message);
        self.orphans += u32::from(asker == Asker::Missing);
        if message.role == LlmRole::Assistant {
            for call in message.calls.into_iter().flat_map(call_ids) {
                self.asks.insert(call, number);
            }
        }
        let text = message.text();
        FactsEntry {
            id: id_of(transcript, number),
            chars: text.map_or(0, |text| text.chars().count() as u64),
            asker,
            tip: ResultPlace::tip_in(transcript.source(number)).into_boxed_str(),
            is_note: message.role == LlmRole::System && text.is_some_and(is_result_note),
        }
    }

    fn asker_of(&self, transcript: &dyn Transcript, number: u32, message: &MessageView<'_>) -> Asker {
        match message.role {
            LlmRole::Tool => {
                let asker = message.answers.and_then(JsonText::to_str).and_then(|call| self.asks.get(&call));
                asker.map_or(Asker::Missing, |asker| Asker::At(*asker))
            }
            LlmRole::System => {
                let before =
                    number.checked_sub(1).and_then(|before| Some((before, transcript.message(before)?)));
                let asker = before.filter(|(_, before)| before.role == LlmRole::Assistant);
                asker.map_or(Asker::None, |(asker, _)| Asker::At(asker))
            }
            _ => Asker::None,
        }
    }

    /// Returns the place of a counter among those that have counted all messages, after counting the new ones.
    pub(crate) fn count_with(&mut self, counting: &MessageMeasure, transcript: &dyn Transcript) -> usize {
        let key = counting.key();
        let place = self.counts.iter().position(|counts| counts.key == key).unwrap_or_else(|| {
            self.counts.push(Counts { key, tokens: Vec::new(), total: 0 });
            self.counts.len() - 1
        });
        if let Some(counts) = self.counts.get_mut(place) {
            for number in index(counts.tokens.len())..index(self.entries.len()) {
                let tokens = transcript.message(number).map_or(0, |message| counting.message(&message));
                counts.tokens.push(tokens);
                counts.total = counts.total.saturating_add(tokens);
            }
        }
        place
    }

    /// Returns the tokens of a whole message.
    pub(crate) fn tokens(&self, counter: usize, number: u32) -> i64 {
        let counts = self.counts.get(counter);
        counts.and_then(|counts| counts.tokens.get(array_index(number)).copied()).unwrap_or_default()
    }

    /// Returns the tokens of all messages.
    pub(crate) fn total(&self, counter: usize) -> i64 {
        self.counts.get(counter).map_or(0, |counts| counts.total)
    }

    /// Returns the tokens of the leading system message, counted once for each text.
    pub(crate) fn system_tokens(&mut self, counting: &MessageMeasure, text: &str) -> i64 {
        let known = self.system.take().filter(|(known, _)| known == text);
        let (known, mut counts) = known.unwrap_or_else(|| (text.to_owned(), Vec::new()));
        let key = counting.key();
        let tokens = counts.iter().find(|(counted, _)| *counted == key).map(|(_, tokens)| *tokens);
        let tokens = tokens.unwrap_or_else(|| {
            let tokens = counting.system(text);
            counts.push((key, tokens));
            tokens
        });
        self.system = Some((known, counts));
        tokens
    }

    /// Returns the characters of a message's text; 0 for one of parts.
    pub(crate) fn chars(&self, number: u32) -> u64 {
        self.entries.get(array_index(number)).map_or(0, |entry| entry.chars)
    }

    /// Returns the sizes of minimized messages.
    pub(crate) fn minimized(&self) -> &MinimizedSizes {
        &self.minimized
    }

    /// Returns the tip for a message; empty where it does not say where its result stands in the log.
    pub(crate) fn tip(&self, number: u32) -> &str {
        self.entries.get(array_index(number)).map_or("", |entry| &entry.tip)
    }

    /// Whether a message is a note of the system that tells a result.
    pub(crate) fn is_note(&self, number: u32) -> bool {
        self.entries.get(array_index(number)).is_some_and(|entry| entry.is_note)
    }

    /// Returns the message that asks for what a message answers.
    pub(crate) fn asker(&self, number: u32) -> Asker {
        self.entries.get(array_index(number)).map_or(Asker::None, |entry| entry.asker)
    }

    /// Whether a tool's answer names no call, or one that no earlier message asks for.
    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans > 0
    }
}

fn id_of(transcript: &dyn Transcript, number: u32) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    transcript.id(number)?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns the ids of the calls that a message asks for.
pub(crate) fn call_ids(calls: &JsonText) -> Vec<String> {
    let calls = calls.tree();
    let id = |call: &Value| call.get("id").and_then(Value::as_str).map(str::to_owned);
    calls.as_array().into_iter().flatten().filter_map(id).collect()
}

fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn array_index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
