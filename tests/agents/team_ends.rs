//! The ends of the wait for another agent's task that waits for a person: after a restart, at every cut of the log, by a
//! cancel on either side.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::team_support::{WAYS, Way, approve, assert_sound, bank, child_of, delegated, team, waits};
use proto_events::json;
use taskreel::testing::CrashMatrix;
use taskreel::{Builder, Part, StreamId, System, TaskState};

#[tokio::test]
async fn the_wait_survives_a_restart_and_the_other_agents_task_is_taken_up_and_not_sent_again() {
    for way in WAYS {
        for approved_before in [false, true] {
            let paid = Arc::new(AtomicUsize::new(0));
            let mut system = team(way, &paid).await;
            let (task, child) = waits(&system, way).await;
            if !approved_before {
                system = system.crash().await.unwrap();
            }
            let child = system.agent("bank").unwrap().task(child.id()).unwrap();
            approve(&child).await;
            if approved_before {
                system = system.crash().await.unwrap();
            }
            system.run_out_timers().await.unwrap();
            let task = system.task(task.id()).unwrap();
            let end = system.finish(&task).await.unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{way:?}: {}", end.to_json());
            assert_eq!(paid.load(Ordering::SeqCst), 1);
            child_of(&system).await;
            assert_sound(&system);
        }
    }
}

#[tokio::test]
async fn at_every_cut_of_the_log_the_wait_ends_once_a_person_has_decided() {
    for way in WAYS {
        let describe = move |builder: Builder| {
            let paid = Arc::new(AtomicUsize::new(0));
            way.describe(builder.name("desk").delegation(true)).agent("bank", bank(&paid))
        };
        let decides = async |system: &System| {
            for waiting in system.agent("bank").unwrap().waiting().await.unwrap() {
                for approval in waiting.approvals {
                    let id = approval.request.approval_id;
                    let _ = system.agent("bank").unwrap().approve(&waiting.task.id, &id, "ada").await;
                }
            }
        };
        let matrix = CrashMatrix::new(describe, move |driver| async move {
            let task = driver.session("s").send(way.part()).await?;
            driver.finish(&task).await?;
            decides(&driver).await;
            driver.run_out_timers().await?;
            driver.finish(&task).await.map(drop)
        });
        let matrix = matrix.afterwards(move |driver| async move {
            driver.run_out_timers().await?;
            decides(&driver).await;
            driver.run_out_timers().await?;
            for task in driver.tasks().page(10).await?.tasks {
                assert_eq!(task.state, TaskState::Completed, "{way:?}: {task:?}");
            }
            Ok(())
        });
        let report = matrix.run().await.unwrap_or_else(|broken| panic!("{way:?}: {broken}"));
        assert!(report.cuts > 5, "{report:?}");
    }
}

#[tokio::test]
async fn the_other_agents_task_is_canceled_with_the_one_that_waits_for_it() {
    for way in WAYS {
        let paid = Arc::new(AtomicUsize::new(0));
        let system = team(way, &paid).await;
        let (task, child) = waits(&system, way).await;
        task.cancel(Some("no longer needed")).await.unwrap();
        system.run_out_timers().await.unwrap();
        assert_eq!(child.snapshot().await.unwrap().state(), TaskState::Canceled, "{way:?}");
        assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        assert_sound(&system);
    }
}

#[tokio::test]
async fn a_task_goes_on_too_when_the_other_agents_task_was_denied_or_canceled() {
    for way in WAYS {
        for cancels in [false, true] {
            let paid = Arc::new(AtomicUsize::new(0));
            let system = team(way, &paid).await;
            let (task, child) = waits(&system, way).await;
            if cancels {
                child.cancel(None).await.unwrap();
            } else {
                let approval = child.approvals().await.unwrap()[0].request.approval_id.clone();
                child.deny(&approval, Some("too much"), "ada").await.unwrap();
            }
            system.run_out_timers().await.unwrap();
            let end = task.snapshot().await.unwrap();
            assert!(end.state().is_terminal(), "{way:?}, {cancels}: {}", end.to_json());
            assert!(!delegated(end.task()).status.is_open());
            if !cancels {
                assert!(end.to_json().as_str().contains("too much"), "{way:?}: {}", end.to_json());
            }
            assert_eq!(paid.load(Ordering::SeqCst), 0);
            assert_sound(&system);
        }
    }
}

#[tokio::test]
async fn a_forged_sender_in_a_tasks_metadata_changes_nothing() {
    let paid = Arc::new(AtomicUsize::new(0));
    let system = team(Way::Model, &paid).await;
    let (task, _) = waits(&system, Way::Model).await;
    let call = delegated(task.snapshot().await.unwrap().task()).request.call_id.clone();
    for forged in [task.stream().clone(), StreamId::task("nobody", "t").unwrap()] {
        let sender = json!({"task": forged.to_string(), "call_id": call.clone()});
        let run = system.agent("bank").unwrap().session("x").run(Part::text("note"));
        let forged = run.metadata("taskreel.sent_by", sender).await.unwrap();
        assert_eq!(system.finish(&forged).await.unwrap().state(), TaskState::Completed);
    }
    system.run_out_timers().await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::InputRequired, "it waits for its own");
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    assert_sound(&system);
}
