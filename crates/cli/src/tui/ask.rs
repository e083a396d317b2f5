//! The questions that the screen has about the log, and their answers. They are carried out beside the screen, which never waits.

use std::time::Duration;

use proto_events::id::{Position, StreamId, Version};
use taskreel_log::views::{Filter, Point, RunCursor, RunFilter};

use crate::decide::Wish;
use crate::tui::data::{
    ComparedRuns, Content, DrawingKind, EventRef, InboxRow, LineDrawing, RunData, StreamPage, Tab,
};

/// The streams that are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamList {
    /// Tasks, those with the newest events first.
    Tasks(RunFilter),
    /// Streams whose names begin so.
    Named(String),
}

/// A page of a list of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListPage {
    /// The first one, in place of so many rows: it has as many of them as can be read at once.
    First {
        /// The rows.
        rows: usize,
        /// The place before which no task was looked at for them.
        reached: Position,
    },
    /// The one behind this place.
    Further(RunCursor),
}

/// A question.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// A page of streams.
    Streams(StreamList, ListPage),
    /// A stream whole.
    Run(StreamId, Filter),
    /// The details of an event; changes are those since the marked version, if there is one.
    Detail(EventRef, Tab, Option<Version>),
    /// A drawing in so many columns.
    Drawing(StreamId, DrawingKind, usize),
    /// The version that caused another one.
    Cause(EventRef),
    /// The versions of a stream that hold a text.
    Search(StreamId, String),
    /// All that waits.
    Inbox,
    /// Two runs, the second one of the other log if there is one.
    Compare(StreamId, StreamId),
    /// A stream by its typed name, and a point in it.
    Find(String, Option<Point>),
    /// Two runs by their typed names.
    FindTwo(String, String),
    /// An event as JSON.
    Json(EventRef),
    /// A decision to be carried out.
    Decide(Wish),
}

/// The kind of a question. Of several questions of one kind that wait, only the last one is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum AskKind {
    /// The first page of streams.
    Streams,
    /// A further page of streams.
    MoreStreams,
    /// A stream whole.
    Run,
    /// The details of an event.
    Detail,
    /// A drawing.
    Drawing,
    /// A cause.
    Cause,
    /// A search.
    Search,
    /// All that waits.
    Inbox,
    /// A comparison.
    Compare,
    /// A lookup.
    Find,
    /// An event as JSON.
    Json,
    /// A decision.
    Decide,
}

impl Ask {
    /// Returns the kind.
    pub(crate) const fn kind(&self) -> AskKind {
        match self {
            Self::Streams(_, ListPage::First { .. }) => AskKind::Streams,
            Self::Streams(_, ListPage::Further(_)) => AskKind::MoreStreams,
            Self::Run(..) => AskKind::Run,
            Self::Detail(..) => AskKind::Detail,
            Self::Drawing(..) => AskKind::Drawing,
            Self::Cause(_) => AskKind::Cause,
            Self::Search(..) => AskKind::Search,
            Self::Inbox => AskKind::Inbox,
            Self::Compare(..) => AskKind::Compare,
            Self::Find(..) | Self::FindTwo(..) => AskKind::Find,
            Self::Json(_) => AskKind::Json,
            Self::Decide(_) => AskKind::Decide,
        }
    }

    /// Whether it may take a pass over the log, so that it is answered beside the others.
    pub(crate) const fn is_slow(&self) -> bool {
        matches!(self, Self::Streams(..) | Self::Inbox | Self::Find(..) | Self::FindTwo(..))
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct AskAnswer {
    /// The question.
    pub(crate) ask: Ask,
    /// The answer, or the reason why it is missing.
    pub(crate) answer: Result<AnswerContent, String>,
    /// The time that it took.
    pub(crate) took: Duration,
}

/// The contents of an answer.
#[derive(Debug)]
pub(crate) enum AnswerContent {
    /// A page of streams.
    Streams(StreamPage),
    /// A stream whole.
    Run(RunData),
    /// The details of an event.
    Detail(Content),
    /// A drawing.
    Drawing(LineDrawing),
    /// The version that caused another one; otherwise the cause in words.
    Cause(Result<Version, String>),
    /// The versions that hold a text, in their order.
    Found(Vec<u64>),
    /// All that waits.
    Inbox(Vec<InboxRow>),
    /// Two runs beside each other.
    Compared(Box<ComparedRuns>),
    /// A stream, and a version in it.
    Stream(StreamId, Option<Version>),
    /// Two streams.
    TwoStreams(StreamId, StreamId),
    /// A text to copy.
    Text(String),
    /// A decision that was made, in words.
    Decided(String),
}
