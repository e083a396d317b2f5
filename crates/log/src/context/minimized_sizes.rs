//! A cache of the sizes of minimized messages: a form is made from the whole text, and one inference asks for its size several
//! times.

use std::cell::RefCell;
use std::collections::HashMap;

use proto_events::call::{Cut, CutRule};

use crate::context::counter::MessageMeasure;
use crate::context::cut_text::{PreparedCut, cut_text};
use crate::context::transcript::{Content, MessageView};

/// A cache of the sizes of the messages that are minimized, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct MinimizedSizes(RefCell<HashMap<u32, Sizes>>);

/// The sizes of one message in a minimized form.
#[derive(Debug)]
struct Sizes {
    limit: u64,
    tip: String,
    characters: u64,
    /// The tokens for each way of counting.
    tokens: Vec<(String, i64)>,
}

impl MinimizedSizes {
    /// Forgets all sizes.
    pub(crate) fn clear(&mut self) {
        self.0.get_mut().clear();
    }

    /// Returns the characters of a minimized message.
    pub(crate) fn characters(&self, cut: Cut, message: &MessageView<'_>, tip: &str) -> u64 {
        if let Some(known) = self.0.borrow().get(&cut.message).filter(|known| known.are_of(cut, tip)) {
            return known.characters;
        }
        let sizes = Sizes::new(cut, tip, &form(cut, message, tip));
        let found = sizes.characters;
        self.0.borrow_mut().insert(cut.message, sizes);
        found
    }

    /// Returns the tokens of a minimized message.
    pub(crate) fn tokens(
        &self,
        cut: Cut,
        message: &MessageView<'_>,
        tip: &str,
        counting: &MessageMeasure,
    ) -> i64 {
        let key = counting.key();
        let mut all = self.0.borrow_mut();
        let known = all.get(&cut.message).filter(|known| known.are_of(cut, tip));
        let counted = known.and_then(|known| known.tokens.iter().find(|(counted, _)| *counted == key));
        if let Some((_, tokens)) = counted {
            return *tokens;
        }
        let text = form(cut, message, tip);
        let tokens = counting.message(&MessageView { content: Content::Text(&text), ..*message });
        let known = all.remove(&cut.message).filter(|known| known.are_of(cut, tip));
        let mut sizes = known.unwrap_or_else(|| Sizes::new(cut, tip, &text));
        sizes.tokens.push((key, tokens));
        all.insert(cut.message, sizes);
        tokens
    }
}

impl Sizes {
    fn new(cut: Cut, tip: &str, form: &str) -> Self {
        Self {
            limit: cut.characters,
            tip: tip.to_owned(),
            characters: form.chars().count() as u64,
            tokens: Vec::new(),
        }
    }

    fn are_of(&self, cut: Cut, tip: &str) -> bool {
        self.limit == cut.characters && self.tip == tip
    }
}

fn form(cut: Cut, message: &MessageView<'_>, tip: &str) -> String {
    let cutting = PreparedCut { rule: CutRule::Minimized, characters: cut.characters, marker: "", tip };
    cut_text(cutting, message.role, message.text().unwrap_or_default()).into_owned()
}
