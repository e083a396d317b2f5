//! A thing that needs a person, as a card: what it is, its whole arguments, the commands that decide it, and the buttons where they are
//! allowed.

use proto_events::id::{Category, StreamId};
use taskreel_log::views::{Attention, AttentionRow, LogUse, cut};

use crate::inspect::block::Block;
use crate::inspect::control::digest_of;
use crate::inspect::escape::Value;
use crate::inspect::frame::Cx;
use crate::inspect::words::{At, Mark};
use crate::limits::INSPECT_BLOCK_MAX;

/// The columns of a thing in words among others: a question may have megabytes, and stands whole where it is alone.
const WHAT_COLUMNS: usize = 2_000;

/// A thing that needs a person.
#[derive(Debug)]
pub(crate) struct NeedView {
    pub(crate) mark: Mark,
    pub(crate) what: String,
    /// The task's name and address.
    pub(crate) task: Option<(String, String)>,
    pub(crate) since: Option<At>,
    pub(crate) args: Option<Block>,
    /// The arguments that were asked for, where they were changed.
    pub(crate) asked_args: Option<Block>,
    /// The digest of the arguments.
    pub(crate) digest: String,
    /// The address of the call that it is about.
    pub(crate) call_url: Option<String>,
    /// The address of the page where it stands alone, and whole.
    pub(crate) alone_url: Option<String>,
    pub(crate) commands: Vec<String>,
    pub(crate) advice: Option<String>,
    pub(crate) offer: Option<Offer>,
}

/// The decisions that a caller is offered.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) action: String,
    pub(crate) task: Value,
    pub(crate) about: Value,
    /// The subject, as it is read.
    pub(crate) name: String,
    pub(crate) shown: String,
    pub(crate) token: String,
    pub(crate) by: String,
    /// The kind of the decision.
    pub(crate) kind: &'static str,
}

/// The place where a thing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeedPlace {
    /// Among the runs, where arguments are cut and nothing is decided.
    Runs,
    /// In the inbox, where arguments of a usual length are whole.
    Inbox,
    /// Alone, where arguments of any length are whole.
    Alone,
}

impl NeedView {
    /// Returns the card of a row.
    pub(crate) fn new(cx: &Cx, row: &AttentionRow, place: NeedPlace) -> Self {
        let class = match row.kind.as_str() {
            "stalled" | "unclean-end" | "poisoned" | "disk" | "server" => "bad",
            _ => "asks",
        };
        let page = row.task.as_ref().map(|task| cx.links.stream(task)).unwrap_or_default();
        let decides = cx.log.use_of() != LogUse::Exported;
        let bytes_max = if place == NeedPlace::Alone { usize::MAX } else { INSPECT_BLOCK_MAX };
        let alone_url = row
            .task
            .as_ref()
            .zip(row.about.as_ref())
            .map(|(task, about)| cx.links.asked("inbox", &[("task", task.as_str()), ("about", about)]));
        let args = row
            .args
            .as_ref()
            .map(|args| Block::json_within(args, bytes_max, alone_url.as_deref().unwrap_or(&page)));
        let asked_args = row.asked_args.as_ref().map(|asked| Block::json_within(asked, bytes_max, &page));
        // Nobody decides about what was not shown whole.
        let what =
            if place == NeedPlace::Alone { row.what.clone() } else { cut(&row.what, WHAT_COLUMNS, "…") };
        let is_whole = args.as_ref().is_none_or(|args| args.rest.is_none()) && what.len() == row.what.len();
        let offer = row.task.as_ref().filter(|_| decides && is_whole && place != NeedPlace::Runs);
        let call = row.task.as_ref().zip(row.call_id.as_ref());
        Self {
            mark: Mark { word: row.kind.as_str(), sign: if class == "bad" { "!" } else { "?" }, class },
            what,
            task: row.task.as_ref().map(|task| (task.id(), page.clone())),
            since: row.since.map(|since| cx.at(since)),
            args,
            asked_args,
            digest: digest_of(row.args.as_ref()),
            call_url: call.map(|(task, call)| cx.links.call(task, call)),
            alone_url,
            commands: row
                .commands
                .iter()
                .filter(|_| decides)
                .map(|command| cx.log.command_line(command))
                .collect(),
            advice: if decides {
                row.advice.clone()
            } else {
                Some("this is an export: decide where the log itself is".to_owned())
            },
            offer: offer.and_then(|task| Offer::from_row(cx, task, row)),
        }
    }
}

impl Offer {
    /// Returns what a caller is offered to decide of a row; `None` if nothing, or if the caller may decide nothing.
    fn from_row(cx: &Cx, task: &StreamId, row: &AttentionRow) -> Option<Self> {
        let kind = match row.kind {
            Attention::Approval => "approval",
            Attention::Question => "question",
            Attention::Unknown => "unknown",
            Attention::Input | Attention::Stalled => return Self::cancel(cx, task),
            _ => return None,
        };
        Self::new(cx, task, (kind, row.about.as_ref()?), digest_of(row.args.as_ref()))
    }

    /// Returns the offer to cancel a task.
    pub(crate) fn cancel(cx: &Cx, task: &StreamId) -> Option<Self> {
        let is_task = task.category() == Some(Category::Task) && cx.log.use_of() != LogUse::Exported;
        is_task.then(|| Self::new(cx, task, ("cancel", &task.id()), String::new())).flatten()
    }

    fn new(cx: &Cx, task: &StreamId, (kind, about): (&'static str, &str), shown: String) -> Option<Self> {
        let signer = cx.signer.as_ref()?;
        Some(Self {
            action: cx.links.page("decide"),
            task: Value(task.to_string()),
            about: Value(about.to_owned()),
            name: about.to_owned(),
            token: signer.token(task, about, &shown),
            shown,
            by: signer.recorded_as.clone(),
            kind,
        })
    }
}
