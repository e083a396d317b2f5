//! The bytes of every event version ever shipped. Golden files may be added, but never changed: a log written
//! today must be readable by every later release. Missing files are written with `TASKREEL_WRITE_GOLDEN=1`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

mod golden_events {
    pub(crate) mod calls;
    pub(crate) mod messages;
    pub(crate) mod others;
    pub(crate) mod tasks;
}

use std::collections::BTreeSet;
use std::path::PathBuf;

use golden_events::calls::{requested, requested_with_minimized, requested_with_rules, requested_with_sizes};
use golden_events::others::{agent_event, registry_events, session_events, system_events, tool_events};
use golden_events::tasks::task_events;
use proto_events::call::{CallEvent, CallRequested, Verdict, VerdictBy};
use proto_events::codec::{AnyEvent, Payload, Storable, kind};
use proto_events::envelope::Principal;
use proto_events::id::Category;
use proto_events::json::JsonText;
use proto_events::model::{BudgetLimit, LimitUse, TaskState};
use proto_events::task::TaskEvent;

fn path(payload: &Payload, variant: &str) -> PathBuf {
    let Payload { kind, schema, .. } = payload;
    let file = format!("tests/golden/v2/{kind:03}_{}{variant}_v{schema}.bin", kind::name(*kind));
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Compares an event with its golden bytes, in both directions.
fn check<E: Storable + PartialEq + std::fmt::Debug>(event: &E) -> u16 {
    check_variant(event, "")
}

/// Compares an event of a kind that has several golden files with the one of this name.
fn check_variant<E: Storable + PartialEq + std::fmt::Debug>(event: &E, variant: &str) -> u16 {
    let payload = event.encode().unwrap();
    let path = path(&payload, variant);
    if !path.exists() && std::env::var_os("TASKREEL_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &payload.body).unwrap();
    }
    let golden = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(payload.body, golden, "{} has other bytes than its golden file", path.display());
    let back = E::decode(payload.kind, payload.schema, &golden).unwrap();
    assert_eq!(&back, event, "{}", path.display());
    payload.kind
}

#[test]
fn every_event_has_the_bytes_of_its_golden_file_and_is_read_back_from_them() {
    let mut seen: BTreeSet<u16> = task_events().iter().map(check).collect();
    seen.extend(session_events().iter().map(check));
    seen.extend(tool_events().iter().map(check));
    seen.extend(system_events().iter().map(check));
    seen.insert(check(&agent_event()));
    seen.extend(registry_events().iter().map(check));
    let minimized = TaskEvent::Call(CallEvent::Requested(Box::new(requested_with_minimized())));
    seen.insert(check_variant(&minimized, "Minimized"));
    seen.insert(check(&TaskEvent::Call(CallEvent::Requested(Box::new(requested_with_rules())))));
    let all: BTreeSet<u16> = kind::ALL.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(seen, all, "an event kind has no golden file");
}

#[test]
fn every_golden_file_ever_shipped_is_still_read() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let Some((number, rest)) = name.split_once('_') else {
            continue;
        };
        let Ok(number) = number.parse::<u16>() else {
            continue;
        };
        let schema: u8 = rest.rsplit_once("_v").unwrap().1.parse().unwrap();
        let category = match number {
            100..200 => Category::Session,
            300..400 => Category::Tool,
            400..500 => Category::System,
            500..600 => Category::Agent,
            700..800 => Category::Registry,
            _ => Category::Task,
        };
        let body = std::fs::read(&path).unwrap();
        AnyEvent::decode(Some(category), number, schema, &body)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        read += 1;
    }
    assert!(read >= kind::ALL.len());
}

#[test]
fn an_intent_of_the_first_version_has_no_sizes_and_no_markers() {
    let golden = |schema| {
        let file = format!("tests/golden/v2/200_CallRequested_v{schema}.bin");
        let body = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        match TaskEvent::decode(kind::CALL_REQUESTED, schema, &body).unwrap() {
            TaskEvent::Call(CallEvent::Requested(request)) => request.prompt.unwrap().selection.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let (first, second) = (golden(1), golden(2));
    assert_eq!((golden(2).rules, golden(3).rules.len()), (Vec::new(), 2));
    assert_eq!((first.sizes, first.markers, first.cuts[0].marker), (None, Vec::new(), None));
    assert_eq!((first.kept, first.cuts[0].characters), (second.kept, second.cuts[0].characters));
    let encoded =
        |request: CallRequested| TaskEvent::Call(CallEvent::Requested(Box::new(request))).encode().unwrap();
    let plain = CallRequested { prompt: None, ..requested_with_sizes() };
    assert_eq!((encoded(plain).schema, encoded(requested()).schema), (1, 1), "earlier releases read them");
    assert_eq!((encoded(requested_with_sizes()).schema, encoded(requested_with_rules()).schema), (2, 3));
}

#[test]
fn every_limit_that_ends_a_run_is_read_back() {
    for limit in BudgetLimit::ALL {
        let budget = Some(LimitUse { limit, used: 3.0, allowed: -1.5 });
        let event = TaskEvent::StateChanged { from: TaskState::Working, to: TaskState::Failed, budget };
        let payload = event.encode().unwrap();
        assert_eq!(TaskEvent::decode(payload.kind, payload.schema, &payload.body).unwrap(), event);
        let mut wrong = payload.body;
        wrong[3] = 77;
        assert!(TaskEvent::decode(payload.kind, payload.schema, &wrong).is_err());
    }
}

#[test]
fn every_verdict_is_read_back() {
    for verdict in
        [Verdict::Landed(JsonText::null()), Verdict::DidNotHappen, Verdict::Inconclusive("no answer".into())]
    {
        for by in [VerdictBy::Probe, VerdictBy::Operator(Principal::default())] {
            let event = TaskEvent::Call(CallEvent::Reconciled {
                call_id: "c".into(),
                attempt: 2,
                verdict: verdict.clone(),
                by,
            });
            let stored = event.encode().unwrap();
            assert_eq!(TaskEvent::decode(stored.kind, stored.schema, &stored.body).unwrap(), event);
        }
    }
}

#[test]
fn an_event_of_another_category_and_a_newer_version_are_refused_by_name() {
    let session = session_events().remove(0).encode().unwrap();
    assert!(TaskEvent::decode(session.kind, session.schema, &session.body).is_err());
    let task = task_events().remove(1).encode().unwrap();
    let newer = TaskEvent::decode(task.kind, task.schema + 1, &task.body).unwrap_err();
    assert!(newer.to_string().contains("newer"), "{newer}");
}
