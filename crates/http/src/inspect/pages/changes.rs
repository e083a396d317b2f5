//! The changes between two states of a task, as a diff and a comparison show them.

use proto_events::json::JsonText;
use taskreel_log::audit::Change;
use taskreel_log::views::cut;

use crate::inspect::block::{Block, indented};
use crate::limits::INSPECT_BLOCK_MAX;

/// The columns of a change in words: what it holds stands below, and may have megabytes.
const WORDS_COLUMNS: usize = 400;

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
    let bytes = |json: &Option<JsonText>| json.as_ref().map_or(0, |json| json.as_str().len());
    // Of what is too long to be shown, only a beginning is.
    let is_long = bytes(&change.before).saturating_add(bytes(&change.after)) > INSPECT_BLOCK_MAX;
    let text = |json: &JsonText| if is_long { json.as_str().to_owned() } else { indented(json.as_str()) };
    let content = match (&change.before, &change.after) {
        (None, None) => String::new(),
        (None, Some(only)) | (Some(only), None) => text(only),
        (Some(before), Some(after)) => format!("before {}\nafter  {}", text(before), text(after)),
    };
    let (kind, area) = (change.kind.as_str(), change.area.as_str());
    ChangeView {
        title: format!("{kind} {area} {}: {}", change.which, cut(&change.words, WORDS_COLUMNS, "…")),
        class: match kind {
            "added" | "opened" => "added",
            "gone" => "gone",
            _ => "changed",
        },
        block: Block::text(&content, whole_at),
    }
}
