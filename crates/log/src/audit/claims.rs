//! Checks an exported line against itself. A line states everything twice: in bytes, which hashes cover, and
//! in words, which people and other programs read. The words must be those that an export of these bytes prints,
//! character by character: a member that was added, removed or doubled changes what a reader sees.

use proto_events::json::JsonText;

use crate::api::record::StoredRecord;
use crate::audit::difference::first_difference;
use crate::audit::export::record_json;
use crate::audit::json::one_line;
use crate::jsonl::line::ExportHeader;

/// The length of the pieces that are shown of two texts that differ, in characters.
const SHOWN_CHARS: usize = 40;

/// Returns the first contradiction between a line's words and its bytes, if there is one.
pub(crate) fn contradiction(line: &str, stored: &StoredRecord) -> Option<String> {
    let meant = record_json(stored);
    let ours = one_line(&meant);
    if ours == line {
        return None;
    }
    // An exported line nests a little deeper than a stored value; a hostile line could nest without limit.
    let said = match JsonText::parse_stored(line) {
        Ok(said) => said,
        Err(error) => return Some(error.to_string()),
    };
    let found = first_difference(&said.tree(), &meant.tree());
    let found = found.map(|found| match found.path.as_str() {
        "" => format!("its words are {}, but its bytes say {}", found.left, found.right),
        path => format!("its `{path}` is {}, but its bytes say {}", found.left, found.right),
    });
    Some(found.unwrap_or_else(|| otherwise(line, &ours)))
}

/// Returns the contradiction in the first line of an export, if there is one.
pub(crate) fn header_contradiction(header: &ExportHeader) -> Option<String> {
    (!header.is_exact)
        .then(|| format!("the first line is not that of an export, which writes {}", header.to_line()))
}

/// Describes two texts of equal values that are not the same text: members are doubled or in another order, or
/// blanks, escapes or digits differ.
fn otherwise(line: &str, ours: &str) -> String {
    let same: usize = line
        .chars()
        .zip(ours.chars())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one.len_utf8())
        .sum();
    let piece =
        |text: &str| text.get(same..).unwrap_or_default().chars().take(SHOWN_CHARS).collect::<String>();
    format!("from its byte {same} on it says {:?}, but its bytes are written {:?}", piece(line), piece(ours))
}
