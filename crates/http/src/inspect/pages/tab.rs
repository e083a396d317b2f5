//! A tab of a task: what is known at one of its versions, in one form for all tabs.

use crate::inspect::block::Block;
use crate::inspect::draw::diagrams::Diagram;
use crate::inspect::words;

/// The most changes, and the most things with an address, that a tab shows: a long task has tens of thousands.
pub(crate) const SHOWN_MAX: usize = 200;

/// A tab: facts, and sections with content.
#[derive(Debug, Default)]
pub(crate) struct Tab {
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) sections: Vec<Section>,
    /// Things with an address: name, address, words.
    pub(crate) links: Vec<(String, String, String)>,
    /// A diagram, and what it shows.
    pub(crate) diagram: Option<(&'static str, Diagram)>,
    /// The reason why there is nothing, or a note.
    pub(crate) note: Option<String>,
    /// The check that was made: whether it holds, in words.
    pub(crate) check: Option<(bool, String)>,
}

/// A section of a tab.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) class: &'static str,
    pub(crate) block: Block,
}

impl Tab {
    /// Returns a tab that says why there is nothing.
    pub(crate) fn with_note(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::default() }
    }

    /// Adds a section.
    pub(crate) fn section(&mut self, title: impl Into<String>, class: &'static str, block: Block) {
        self.sections.push(Section { title: title.into(), class, block });
    }

    /// Says where each section that is only a beginning stands whole, and leaves out what a page has no room for.
    pub(crate) fn fitted(mut self, whole_at: impl Fn(usize) -> String) -> Self {
        Block::fit(self.sections.iter_mut().map(|section| &mut section.block));
        for (number, section) in self.sections.iter_mut().enumerate() {
            section.block.stands_at(|| whole_at(number));
        }
        self
    }

    /// Returns the whole content of a section.
    pub(crate) fn whole(self, number: usize) -> Option<String> {
        self.sections.into_iter().nth(number).map(|section| section.block.whole())
    }

    /// Returns the tab with its first things with an address, and a note of how many others there are.
    pub(crate) fn bounded(mut self) -> Self {
        let left = self.links.len().saturating_sub(SHOWN_MAX);
        self.links.truncate(SHOWN_MAX);
        if left > 0 {
            let more = format!("{} more are not shown here.", words::count(left as u64));
            self.note = Some(self.note.map_or_else(|| more.clone(), |note| format!("{more} {note}")));
        }
        self
    }
}
