//! The places of the messages of prompts in a report: each stands once, and later prompts name where. A report has so about as
//! many bytes as the conversation, although each of its prompts holds all of it up to then.

use std::collections::HashMap;
use std::sync::Arc;

use crate::inspect::block::Block;

/// The digest of a message or of the tools that were offered.
pub(crate) type Mark = [u8; 32];

/// The place of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PromptPlace {
    pub(crate) anchor: String,
    /// The id of the task, and the version of the intent.
    pub(crate) task: String,
    pub(crate) version: u64,
}

/// The place where pieces of a prompt stand.
pub(crate) struct Stands {
    pub(crate) place: Arc<PromptPlace>,
    /// The numbers of the messages that have others there: the first ones here and there, and their count.
    pub(crate) messages: Option<(usize, usize, usize)>,
}

impl Stands {
    /// Returns the numbers that the messages have there, if they are other ones.
    pub(crate) fn moved(&self) -> Option<String> {
        let (_, there, count) = self.messages.filter(|(here, there, _)| here != there)?;
        Some(if count == 1 {
            format!("message {there}")
        } else {
            format!("messages {there} to {}", (there + count).saturating_sub(1))
        })
    }
}

/// A piece of a prompt, or the words that name the place where it stands.
pub(crate) struct PromptPiece {
    pub(crate) title: String,
    pub(crate) class: &'static str,
    pub(crate) block: Block,
    /// The prompt where it stands.
    pub(crate) stands_at: Option<Stands>,
}

impl PromptPiece {
    pub(crate) fn text(title: String, class: &'static str, text: &str, bytes_max: usize) -> Self {
        Self { title, class, block: Block::within(text, bytes_max, ""), stands_at: None }
    }
}

/// The messages and offers that were written so far, each with its place, and the messages of the prompt that was written last.
#[derive(Default)]
pub(crate) struct WrittenPrompts {
    places: HashMap<Mark, Arc<PromptPlace>>,
    last: Option<(Arc<PromptPlace>, Vec<Mark>)>,
}

impl WrittenPrompts {
    /// Begins a prompt.
    pub(crate) fn start_prompt(&mut self, at: PromptPlace) -> PromptNames<'_> {
        let (before, marks) = self.last.take().unzip();
        PromptNames {
            places: &mut self.places,
            last: &mut self.last,
            place: Arc::new(at),
            before,
            marks_before: marks.unwrap_or_default(),
            next_before: 0,
            marks: Vec::new(),
        }
    }
}

/// A prompt that is being written.
pub(crate) struct PromptNames<'a> {
    places: &'a mut HashMap<Mark, Arc<PromptPlace>>,
    last: &'a mut Option<(Arc<PromptPlace>, Vec<Mark>)>,
    place: Arc<PromptPlace>,
    before: Option<Arc<PromptPlace>>,
    marks_before: Vec<Mark>,
    /// The number behind the message of the prompt before that was named last.
    next_before: usize,
    marks: Vec<Mark>,
}

impl PromptNames<'_> {
    /// Returns the place where this stands; `None` if it is written here.
    pub(crate) fn place_of(&mut self, mark: Mark) -> Option<Arc<PromptPlace>> {
        if let Some(place) = self.places.get(&mark) {
            return Some(Arc::clone(place));
        }
        self.places.insert(mark, Arc::clone(&self.place));
        None
    }

    /// Takes the prompt's next message. Names it, or several in a row together, if it stands elsewhere.
    pub(crate) fn is_named(&mut self, number: usize, mark: Mark, pieces: &mut Vec<PromptPiece>) -> bool {
        self.marks.push(mark);
        let Some(stood) = self.place_of(mark) else { return false };
        let found = self.number_before(&mark);
        if let Some(there) = found {
            self.next_before = there + 1;
        }
        let (place, there) = match (found, &self.before) {
            (Some(there), Some(before)) => (Arc::clone(before), Some(there)),
            _ => (stood, None),
        };
        if let (Some(there), Some(PromptPiece { title, stands_at: Some(last), .. })) =
            (there, pieces.last_mut())
            && let Some((first, first_there, count)) = &mut last.messages
            && last.place == place
            && *first_there + *count == there
        {
            *count += 1;
            *title = format!("messages {first} to {number}");
            return true;
        }
        pieces.push(PromptPiece {
            title: format!("message {number}"),
            class: "head",
            block: Block::default(),
            stands_at: Some(Stands { place, messages: there.map(|there| (number, there, 1)) }),
        });
        true
    }

    /// Returns the number of the message with this mark in the prompt before: most follow the one before them.
    fn number_before(&self, mark: &Mark) -> Option<usize> {
        let next = self.next_before;
        let in_part = |marks: &[Mark]| marks.iter().position(|known| known == mark);
        let behind = self.marks_before.get(next..).and_then(in_part).map(|at| next + at);
        behind.or_else(|| self.marks_before.get(..next).and_then(in_part))
    }

    /// Ends the prompt: the next one names its messages.
    pub(crate) fn end(self) {
        *self.last = Some((self.place, self.marks));
    }
}
