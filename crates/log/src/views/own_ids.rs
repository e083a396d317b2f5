//! The ids of a run, which differ between two runs of the same work, and texts without them.

use std::collections::HashSet;

use proto_events::id::StreamId;
use proto_events::task::Task;

/// The shortest id of a run that is looked for in texts, in bytes: a shorter one may be a word.
const OWN_ID_BYTES_MIN: usize = 8;

/// The word that stands for an id of the run in arguments and results.
pub(crate) const OWN_ID: &str = "<id>";

/// The ids of a run.
#[derive(Debug, Default)]
pub(crate) struct OwnIds {
    /// The ids in the order of their bytes, each once.
    sorted: Vec<String>,
    /// For each id, the place of the longest other one with which it begins.
    outer: Vec<Option<usize>>,
    /// The first bytes of all ids: at nearly every place of an ordinary text, one look here is enough.
    heads: HashSet<[u8; OWN_ID_BYTES_MIN]>,
}

impl OwnIds {
    /// Returns the ids of a task, of its calls and of its items.
    pub(crate) fn from_task(task: &Task, stream: &StreamId) -> Self {
        let calls = task.calls().iter();
        let of_calls =
            calls.flat_map(|call| [call.request.call_id.clone(), call.request.idempotency_key.clone()]);
        let approvals = task.approvals().iter().map(|approval| approval.request.approval_id.clone());
        let messages = task.messages().iter().filter_map(|message| message.id.clone());
        let artifacts = task.artifacts().iter().filter_map(|artifact| artifact.id.clone());
        let own = [stream.id(), stream.to_string()];
        Self::new(of_calls.chain(approvals).chain(messages).chain(artifacts).chain(own))
    }

    fn new(ids: impl Iterator<Item = String>) -> Self {
        let mut sorted: Vec<String> = ids.filter(|id| id.len() >= OWN_ID_BYTES_MIN).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let outer = outer_of(&sorted);
        let heads = sorted.iter().filter_map(|id| id.as_bytes().first_chunk::<OWN_ID_BYTES_MIN>());
        let heads = heads.copied().collect();
        Self { sorted, outer, heads }
    }

    /// Whether a text is an id of the run.
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.sorted.binary_search_by(|id| id.as_str().cmp(text)).is_ok()
    }

    /// Returns a text without the ids: from its beginning on, and at each place the longest one, so that the result does not
    /// depend on their order where one holds another.
    pub(crate) fn without(&self, text: String) -> String {
        let bytes = text.as_bytes();
        let (mut kept, mut from, mut at) = (String::new(), 0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= OWN_ID_BYTES_MIN) {
            let Some(length) = self.longest_before(rest) else {
                at += 1;
                continue;
            };
            // An id is whole characters, and so is what stands before and behind it.
            kept.push_str(text.get(from..at).unwrap_or_default());
            kept.push_str(OWN_ID);
            at += length;
            from = at;
        }
        if from == 0 {
            return text;
        }
        kept.push_str(text.get(from..).unwrap_or_default());
        kept
    }

    /// Returns the length of the longest id with which the rest of a text begins.
    fn longest_before(&self, rest: &[u8]) -> Option<usize> {
        if !self.heads.contains(rest.first_chunk::<OWN_ID_BYTES_MIN>()?) {
            return None;
        }
        // Each id with which the rest begins is this one, or this one begins with it too.
        let mut at = self.sorted.partition_point(|id| id.as_bytes() <= rest).checked_sub(1)?;
        let nearest = self.sorted.get(at)?.as_bytes();
        let common = nearest.iter().zip(rest).take_while(|(one, other)| one == other).count();
        loop {
            let length = self.sorted.get(at)?.len();
            if length <= common {
                return Some(length);
            }
            at = (*self.outer.get(at)?)?;
        }
    }
}

/// Returns for each id the place of the longest other one with which it begins. The ids are in order, each once.
fn outer_of(sorted: &[String]) -> Vec<Option<usize>> {
    // Those with which the id before began, and that id, the shortest first: what follows in order begins with none else.
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::with_capacity(sorted.len());
    for (at, id) in sorted.iter().enumerate() {
        let last = open.iter().rposition(|(_, before)| id.starts_with(*before));
        open.truncate(last.map_or(0, |last| last + 1));
        found.push(open.last().map(|(place, _)| *place));
        open.push((at, id));
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own<S: AsRef<str>>(ids: &[S]) -> OwnIds {
        OwnIds::new(ids.iter().map(|id| id.as_ref().to_owned()))
    }

    #[test]
    fn an_id_within_another_one_changes_nothing_whatever_their_order() {
        let mut ids = ["order-0001", "task-agent/order-0001", "order-0001-note", "agent/order", "order-00"];
        let text =
            "task-agent/order-0001 says order-0001, order-0001-note2 and order-0002 of agent/order-0001";
        for _ in 0..ids.len() {
            ids.rotate_left(1);
            let said = own(&ids).without(text.to_owned());
            assert_eq!(said, "<id> says <id>, <id>2 and <id>02 of <id>-0001", "{ids:?}");
        }
    }

    #[test]
    fn an_id_is_found_beside_letters_of_any_length_and_a_short_one_is_a_word() {
        let ids = own(&["überzahl", "zahl-1234☃", "blue"]);
        assert_eq!(ids.without("éüberzahl-1234☃é☃".to_owned()), "é<id>-1234☃é☃");
        assert_eq!(ids.without("überzahzahl-1234☃☃ blue".to_owned()), "überzah<id>☃ blue");
        assert!(ids.contains("überzahl") && !ids.contains("überzah") && !ids.contains("blue"));
        assert_eq!(own::<&str>(&[]).without("nothing to find".to_owned()), "nothing to find");
    }

    #[test]
    fn the_ids_of_a_long_run_are_found_in_a_long_text_in_one_pass() {
        let mut ids: Vec<String> = (0..50_000).map(|n| format!("call_20261126044032_{n:08x}")).collect();
        let mut text = ids.concat();
        // Ids each of which begins with all shorter ones; the longest has 199 letters.
        ids.extend((OWN_ID_BYTES_MIN..200).map(|length| "a".repeat(length)));
        text.push_str(&"a".repeat(199 * 50 + 3));
        text.push_str(&".".repeat(1 << 20));
        let expected = OWN_ID.repeat(50_000 + 50) + "aaa" + &".".repeat(1 << 20);
        assert!(own(&ids).without(text) == expected);
    }

    /// Returns what [`OwnIds::without`] does, by a look for each id at each place.
    fn by_hand(ids: &[String], text: &str) -> String {
        let (mut kept, mut rest) = (String::new(), text);
        while let Some(next) = rest.chars().next() {
            let fits = |id: &&String| id.len() >= OWN_ID_BYTES_MIN && rest.starts_with(id.as_str());
            let longest = ids.iter().filter(fits).map(String::len).max();
            let taken = if let Some(length) = longest {
                kept.push_str(OWN_ID);
                length
            } else {
                kept.push(next);
                next.len_utf8()
            };
            rest = &rest[taken..];
        }
        kept
    }

    proptest! {
        #[test]
        fn the_longest_id_at_each_place_is_replaced(
            ids in prop::collection::vec("[abé]{4,14}", 0..12),
            text in prop::collection::vec("[abé]{0,20}", 0..8),
            held in prop::collection::vec(0..12_usize, 0..8),
        ) {
            let held = held.iter().filter_map(|at| ids.get(*at)).cloned();
            let held = held.chain(std::iter::repeat(String::new()));
            let text: String = text.into_iter().zip(held).flat_map(|(said, id)| [said, id]).collect();
            prop_assert_eq!(own(&ids).without(text.clone()), by_hand(&ids, &text));
        }
    }
}
