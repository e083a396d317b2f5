//! The place of a page in a task: its version, its tab and the marked version, in an address that can be sent.

use proto_events::id::{StreamId, Version};

use crate::inspect::frame::Cx;

/// The address of the page in this task, with some of its values changed.
pub(crate) struct Here<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) stream: &'a StreamId,
    pub(crate) tab: &'static str,
    pub(crate) marked: Option<Version>,
}

impl Here<'_> {
    /// Returns the address of the page at a version.
    pub(crate) fn at(&self, version: Version) -> String {
        self.with(version, self.tab, self.marked)
    }

    /// Returns the address with another version, tab and mark.
    pub(crate) fn with(&self, version: Version, tab: &str, marked: Option<Version>) -> String {
        if self.cx.links.is_report() {
            return self.cx.links.event(self.stream, version);
        }
        let page = self.cx.links.stream(self.stream);
        let tab = if tab == "event" { String::new() } else { format!("&tab={tab}") };
        let marked = marked.map_or_else(String::new, |marked| format!("&cmp={marked}"));
        format!("{page}?at={version}{marked}{tab}")
    }
}
