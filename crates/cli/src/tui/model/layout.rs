//! The places of the panes: three beside each other where there is room, two where there is less, one on a small screen.

use ratatui::layout::Rect;

use crate::tui::model::Model;
use crate::tui::model::parts::{Page, Pane};

/// The least columns of a screen with three panes.
const THREE_MIN: u16 = 110;

/// The least columns of a screen with two panes.
const TWO_MIN: u16 = 64;

/// The places of the panes; none of one that is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Panes {
    /// The streams.
    pub(crate) streams: Option<Rect>,
    /// The events.
    pub(crate) events: Option<Rect>,
    /// The details.
    pub(crate) detail: Option<Rect>,
}

/// The places on the page of all that waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InboxAreas {
    /// The list.
    pub(crate) list: Rect,
    /// The rows of the list.
    pub(crate) list_rows: usize,
    /// The chosen thing, whole.
    pub(crate) text: Rect,
    /// The rows of the text.
    pub(crate) text_rows: usize,
}

/// Returns the part of the screen between the first row and the last two.
pub(crate) fn body(model: &Model) -> Rect {
    let (width, height) = model.size;
    Rect::new(0, 1.min(height), width, height.saturating_sub(3))
}

/// Returns the places of the panes.
pub(crate) fn panes(model: &Model) -> Panes {
    let body = body(model);
    let is_open = model.run.is_some();
    let pane = if is_open { model.pane } else { Pane::Streams };
    let beside = |x: u16, width: u16| Some(Rect::new(body.x + x, body.y, width, body.height));
    if body.width >= TWO_MIN && !is_open {
        let left = body.width * 3 / 5;
        let right = beside(left + 1, body.width.saturating_sub(left + 1));
        return Panes { streams: beside(0, left), events: right, detail: None };
    }
    if body.width >= THREE_MIN {
        let streams = (body.width / 4).clamp(28, 44);
        let rest = body.width.saturating_sub(streams + 1);
        let events = if pane == Pane::Detail { rest * 2 / 5 } else { rest / 2 };
        return Panes {
            streams: beside(0, streams),
            events: beside(streams + 1, events),
            detail: beside(streams + events + 2, rest.saturating_sub(events + 1)),
        };
    }
    if body.width >= TWO_MIN {
        let left = match pane {
            Pane::Streams => body.width / 2,
            Pane::Events | Pane::Time => body.width * 11 / 20,
            Pane::Detail => body.width * 2 / 5,
        };
        let (one, other) = (beside(0, left), beside(left + 1, body.width.saturating_sub(left + 1)));
        return match pane {
            Pane::Streams => Panes { streams: one, events: other, detail: None },
            _ => Panes { streams: None, events: one, detail: other },
        };
    }
    let whole = beside(0, body.width);
    match pane {
        Pane::Streams => Panes { streams: whole, ..Panes::default() },
        Pane::Events | Pane::Time => Panes { events: whole, ..Panes::default() },
        Pane::Detail => Panes { detail: whole, ..Panes::default() },
    }
}

/// Returns the columns of the texts of the details.
pub(crate) fn detail_width(model: &Model) -> usize {
    let shown = panes(model).detail;
    // Where they are not shown, the rows are made for the place that they will have.
    let width = shown.map_or(model.size.0, |area| area.width);
    usize::from(width.saturating_sub(1))
}

/// Returns the places on the page of all that waits.
pub(crate) fn inbox(model: &Model) -> InboxAreas {
    let body = body(model);
    if body.width >= TWO_MIN {
        let left = (body.width / 2).min(70);
        let list = Rect::new(body.x, body.y, left, body.height);
        let text = Rect::new(left + 1, body.y, body.width.saturating_sub(left + 1), body.height);
        let rows = usize::from(body.height);
        return InboxAreas { list, list_rows: rows, text, text_rows: rows.saturating_sub(1) };
    }
    let above = (body.height / 3).max(1).min(body.height);
    let list = Rect::new(body.x, body.y, body.width, above);
    let text = Rect::new(body.x, body.y + above, body.width, body.height.saturating_sub(above));
    InboxAreas {
        list,
        list_rows: usize::from(above),
        text,
        text_rows: usize::from(text.height).saturating_sub(1),
    }
}

/// Returns the title of the page in a word.
pub(crate) const fn title(page: Page) -> &'static str {
    match page {
        Page::Inbox => "inbox",
        Page::Run => "run",
        Page::Compare => "compare",
    }
}
