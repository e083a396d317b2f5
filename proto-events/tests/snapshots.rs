//! Whole states as bytes: what a snapshot keeps is the fold, at every version, and no other fold's.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::fmt::Debug;
use std::path::PathBuf;

use proptest::prelude::*;
use proto_events::codec::Storable;
use proto_events::codec::state::Kept;
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{Task, TaskEvent};
use proto_events::tool_store::{ToolStore, ToolStoreEvent};

/// All golden events of a category, in the order of their kinds.
fn golden<E: Storable>() -> Vec<E> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let numbered = |path: PathBuf| {
        let kind: u16 = path.file_stem()?.to_str()?.split_once('_')?.0.parse().ok()?;
        Some((kind, std::fs::read(path).unwrap()))
    };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().filter_map(|file| numbered(file.unwrap().path())).collect();
    files.sort();
    files.iter().filter_map(|(kind, body)| E::decode(*kind, 1, body).ok()).collect()
}

/// The golden events, and the changes that begin a run.
fn task_events() -> Vec<TaskEvent> {
    let change = |from, to| TaskEvent::StateChanged { from, to };
    let mut events = golden();
    events.insert(1, change(TaskState::Submitted, TaskState::Working));
    events.push(change(TaskState::InputRequired, TaskState::Working));
    events
}

fn session_events() -> Vec<SessionEvent> {
    golden()
}

/// The golden events, and those that write another key and the same one again.
fn tool_events() -> Vec<ToolStoreEvent> {
    let put = |key: &str, value: &str| ToolStoreEvent::KeyPut {
        task: "task-agent/t".into(),
        call_id: "call_2".into(),
        key: key.into(),
        value: JsonText::parse(value).unwrap(),
    };
    let mut events = vec![put("a", "1"), put("b", "[2, 3]"), put("a", "1e400")];
    events.extend(golden());
    events
}

/// The states after each event, the empty one first.
fn states<D: Kept + Default>(events: &[D::Event]) -> Vec<D> {
    let mut states = vec![D::default()];
    for (event, at) in events.iter().zip(1..) {
        let mut next = states.last().unwrap().clone();
        next.evolve(event, &Metadata { at: Timestamp(at), ..Metadata::default() });
        states.push(next);
    }
    states
}

/// What is kept of any version folds on to the same end.
fn check<D: Kept + Default + PartialEq + Debug>(events: &[D::Event]) {
    let states = states::<D>(events);
    let last = states.last().unwrap();
    for (version, state) in states.iter().enumerate() {
        let bytes = state.keep().unwrap();
        let mut kept = D::kept(&bytes).unwrap();
        assert_eq!(&kept, state, "version {version}");
        for (event, at) in events.iter().zip(1..).skip(version) {
            kept.evolve(event, &Metadata { at: Timestamp(at), ..Metadata::default() });
        }
        assert_eq!(&kept, last, "from version {version} on");
        assert_eq!(kept.keep().unwrap(), last.keep().unwrap(), "from version {version} on");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_task_kept_at_any_version_folds_on_to_the_same_end(
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let pool = task_events();
        let events: Vec<_> = picks.iter().map(|pick| pick.get(&pool).clone()).collect();
        check::<Task>(&events);
    }

    #[test]
    fn a_session_kept_at_any_version_folds_on_to_the_same_end(
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let pool = session_events();
        let events: Vec<_> = picks.iter().map(|pick| pick.get(&pool).clone()).collect();
        check::<Session>(&events);
    }

    #[test]
    fn a_tool_store_kept_at_any_version_folds_on_to_the_same_end(
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let pool = tool_events();
        let events: Vec<_> = picks.iter().map(|pick| pick.get(&pool).clone()).collect();
        check::<ToolStore>(&events);
    }

    #[test]
    fn bytes_that_are_no_state_are_an_error_or_another_state(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut task = states::<Task>(&task_events()).pop().unwrap().keep().unwrap();
        let mut session = states::<Session>(&session_events()[..4]).pop().unwrap().keep().unwrap();
        let mut tool = states::<ToolStore>(&tool_events()[..3]).pop().unwrap().keep().unwrap();
        for bytes in [&mut task, &mut session, &mut tool] {
            for (at, with) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *with;
            }
        }
        for bytes in [&task, &session, &tool] {
            let cut = &bytes[..cut.index(bytes.len())];
            for bytes in [bytes.as_slice(), cut] {
                let _either_is_fine = (Task::kept(bytes).is_ok(), Session::kept(bytes).is_ok());
                let _either_is_fine = ToolStore::kept(bytes).is_ok();
            }
        }
    }
}

/// The digest of all that is kept along a stream.
fn digest<D: Kept + Default>(events: &[D::Event]) -> String {
    let kept: Vec<_> = states::<D>(events).iter().map(|state| state.keep().unwrap()).collect();
    Digest::of_parts(&kept.iter().map(Vec::as_slice).collect::<Vec<_>>()).to_string()
}

/// Each revision that was ever shipped, and what it made of the golden events. Lines are added, never changed.
const TASK_REVISIONS: &[(u32, &str)] = &[
    (1, "cc09dda0447b7755e06588b7e086be14c24a496c071feecbec3e4578d1225ba6"),
    (2, "4005c9cec9cf86505c512129c0df00e797a3eb25b7d9feb4958b0657c7781f07"),
    (3, "40c11cf5f8cc05b62ca12815891b3b674d4a343c58b3cc9a7d68c0e18bf0129f"),
];
const SESSION_REVISIONS: &[(u32, &str)] =
    &[(1, "80a9c3c8f5f1f63d8250e6845a05583f72933db40f6353a24b1c43caae08735b")];
const TOOL_STORE_REVISIONS: &[(u32, &str)] =
    &[(1, "beb001c01993e145d57a93485182893db529685276264457995b39571b0cee94")];

fn check_revision(name: &str, revision: u32, digest: &str, known: &[(u32, &str)]) {
    assert!(known.is_sorted_by(|one, next| one.0 < next.0), "{name}: a revision is given once");
    assert_eq!(
        known.last(),
        Some(&(revision, digest)),
        "the fold of a {name}, or the form in which it is kept, has changed, or a golden event was added: bump the revision ({name}::REVISION) and \
         add a line for it here, so that older snapshots are ignored"
    );
}

#[test]
fn whoever_changes_a_fold_or_its_kept_form_must_bump_the_revision() {
    check_revision("Task", Task::REVISION, &digest::<Task>(&task_events()), TASK_REVISIONS);
    let tools = digest::<ToolStore>(&tool_events());
    check_revision("ToolStore", ToolStore::REVISION, &tools, TOOL_STORE_REVISIONS);
    check_revision("Session", Session::REVISION, &digest::<Session>(&session_events()), SESSION_REVISIONS);
}
