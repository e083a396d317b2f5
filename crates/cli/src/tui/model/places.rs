//! Opening streams and events, and asking for their details.

use proto_events::id::{StreamId, Version};

use crate::tui::ask::Ask;
use crate::tui::data::{EventRef, Tab, is_task};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layout;
use crate::tui::model::list::List;
use crate::tui::model::parts::{Page, Pane};
use crate::tui::model::run::RunPane;
use crate::tui::tree;

impl Model {
    /// Opens a stream, at a version if one is named. The one that is open stays as it is.
    pub(crate) fn open(&mut self, stream: &StreamId, at: Option<Version>) {
        let wanted = at.map(|at| at.0);
        match &mut self.run {
            Some(run) if run.stream == *stream => {
                if let Some(wanted) = wanted {
                    run.select_version(wanted);
                }
            }
            _ => {
                self.run = Some(RunPane::new(stream.clone(), wanted));
                if let Some(at) = self.streams.rows.iter().position(|row| row.stream() == stream) {
                    self.streams.list.select(at);
                }
                self.ask_run();
            }
        }
        self.request_detail();
    }

    /// Asks for the stream that is open.
    pub(crate) fn ask_run(&mut self) {
        if let Some(run) = &self.run {
            let ask = Ask::Run(run.stream.clone(), run.filter.clone());
            self.ask(ask);
        }
    }

    /// Shows the page of the run, with the keys in a pane.
    pub(crate) fn show_run(&mut self, pane: Pane) {
        self.page = Page::Run;
        self.pane = pane;
        self.lay_out_detail();
    }

    /// Asks for the details of the event that is looked at, if others are shown.
    pub(crate) fn request_detail(&mut self) {
        let Some(place) = self.run.as_ref().filter(|run| run.is_read).and_then(RunPane::selected) else {
            return;
        };
        let of = (place.clone(), self.detail.tab, self.marked_version(&place.stream));
        if self.detail.of.as_ref() != Some(&of) {
            self.detail.of = Some(of.clone());
            self.ask(Ask::Detail(place, of.1, of.2));
        }
    }

    /// Returns the marked version, if it is one of this stream.
    pub(crate) fn marked_version(&self, stream: &StreamId) -> Option<Version> {
        self.mark.as_ref().filter(|mark| mark.stream == *stream).map(|mark| mark.at)
    }

    /// Shows another tab.
    pub(crate) fn show_tab(&mut self, tab: Tab) {
        if self.detail.tab != tab {
            self.detail.tab = tab;
            self.detail.list = List::default();
        }
        self.request_detail();
    }

    /// Makes the rows of the details anew, for the width that they have now.
    pub(crate) fn lay_out_detail(&mut self) {
        let width = layout::detail_width(self);
        let folds = self.detail.folds.entry(self.detail.tab).or_default();
        self.detail.rows = tree::rows(&self.detail.content, folds, width);
        self.detail.width = width;
    }

    /// Makes the rows of the details anew if their width has changed.
    pub(crate) fn fit_detail(&mut self) {
        if self.detail.width != layout::detail_width(self) {
            self.lay_out_detail();
        }
    }

    /// Marks the event that is looked at.
    pub(crate) fn set_mark(&mut self) {
        let Some(place) = self.run.as_ref().and_then(RunPane::selected) else { return };
        self.set_message(format!("marked: {} v{}", place.stream.id(), place.at), Tone::Good);
        self.mark = Some(place);
        self.request_detail();
    }

    /// Shows what changed since the mark: in the same run, or in the comparison of two.
    pub(crate) fn diff_mark(&mut self) {
        let Some(place) = self.run.as_ref().and_then(RunPane::selected) else { return };
        match self.mark.clone() {
            Some(mark) if mark.stream != place.stream => {
                if is_task(&mark.stream) && is_task(&place.stream) {
                    self.compare_runs(mark.stream, place.stream);
                } else {
                    self.set_message("only the runs of tasks are compared step by step", Tone::Asks);
                }
            }
            _ => {
                self.show_tab(Tab::Diff);
                self.show_run(Pane::Detail);
            }
        }
    }

    /// Compares two runs.
    pub(crate) fn compare_runs(&mut self, left: StreamId, right: StreamId) {
        self.page = Page::Compare;
        self.compare.runs = None;
        self.compare.list = List::default();
        self.ask(Ask::Compare(left, right));
    }

    /// Goes to a place of another stream or of this one.
    pub(crate) fn go_to(&mut self, place: &EventRef, pane: Pane) {
        self.open(&place.stream, Some(place.at));
        self.show_run(pane);
    }
}
