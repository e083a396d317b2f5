//! Differences of any two tasks, beside a comparison that looks at each pair.

use proptest::prelude::*;
use proto_events::decider::Decider as _;
use proto_events::envelope::Metadata;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, Message, Part, PostedTask, TaskState};
use proto_events::task::{Task, TaskEvent};

use super::*;

/// Returns a task with messages and artifacts that say these numbers.
fn task(messages: &[u8], artifacts: &[u8]) -> Task {
    let part = |said: &u8| vec![Part::text(said.to_string())];
    let message =
        |said: &u8| Message { id: None, role: Some("user".to_owned()), parts: part(said), timestamp: None };
    let artifact = |said: &u8| Artifact {
        id: None,
        parts: part(said),
        metadata: JsonObject::new(),
        timestamp: None,
        kind: "result".to_owned(),
        name: None,
        uri: None,
        media_type: None,
        action_id: None,
    };
    let posted = PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "order-0001".to_owned(),
        state: TaskState::Submitted,
        messages: messages.iter().map(message).collect(),
        artifacts: artifacts.iter().map(artifact).collect(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    };
    let mut task = Task::default();
    task.evolve(&TaskEvent::Submitted(Box::new(posted)), &Metadata::default());
    task
}

/// Returns what is gone and what was added, by a search in the whole list for each.
fn by_search(before: &[u8], after: &[u8]) -> Vec<(ChangeKind, String)> {
    let mut left = after.to_vec();
    let mut found = Vec::new();
    for said in before {
        match left.iter().position(|there| there == said) {
            Some(at) => drop(left.remove(at)),
            None => found.push((ChangeKind::Gone, said.to_string())),
        }
    }
    found.extend(left.iter().map(|said| (ChangeKind::Added, said.to_string())));
    found
}

fn some() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..4_u8, 0..9)
}

proptest! {
    #[test]
    fn artifacts_are_compared_as_by_a_search_for_each(before in some(), after in some()) {
        let changes = diff_tasks(&task(&[], &before), &task(&[], &after));
        let of_artifacts = changes.iter().filter(|change| change.area == Area::Artifact);
        let found: Vec<_> = of_artifacts.map(|change| (change.kind, change.words.clone())).collect();
        prop_assert_eq!(found, by_search(&before, &after));
    }

    #[test]
    fn the_first_changes_are_the_beginning_of_all_and_are_counted(
        before in (some(), some()),
        after in (some(), some()),
        limit in 0..12_usize,
    ) {
        let (before, after) = (task(&before.0, &before.1), task(&after.0, &after.1));
        let all = diff_tasks(&before, &after);
        let first = first_changes(&before, &after, limit);
        prop_assert_eq!(first.count, all.len());
        prop_assert_eq!(&first.changes, &all[..limit.min(all.len())]);
        prop_assert_eq!(all.is_empty(), before == after);
    }
}
