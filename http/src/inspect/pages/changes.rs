//! The changes between two states of a task, as a diff and a comparison show them.

use proto_events::json::JsonText;
use taskreel_log::audit::Change;

use crate::inspect::block::{Block, indented};

/// A change.
#[derive(Debug)]
pub(crate) struct ChangeView {
    pub(crate) title: String,
    pub(crate) class: &'static str,
    pub(crate) block: Block,
}

/// Returns changes as they are shown; what is long stands whole at an address.
pub(crate) fn change_views(changes: &[Change], whole_at: &str) -> Vec<ChangeView> {
    changes.iter().map(|change| view(change, whole_at)).collect()
}

fn view(change: &Change, whole_at: &str) -> ChangeView {
    let text = |json: &JsonText| indented(json.as_str());
    let content = match (&change.before, &change.after) {
        (None, None) => String::new(),
        (None, Some(only)) | (Some(only), None) => text(only),
        (Some(before), Some(after)) => format!("before {}\nafter  {}", text(before), text(after)),
    };
    let (kind, area) = (change.kind.as_str(), change.area.as_str());
    ChangeView {
        title: format!("{kind} {area} {}: {}", change.which, change.words),
        class: match kind {
            "added" | "opened" => "added",
            "gone" => "gone",
            _ => "changed",
        },
        block: Block::text(&content, whole_at),
    }
}
