//! The back-off before a retry: its end is in the log, a restart waits the rest of it, and only an attempt that was sent
//! counts.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::envelope::Timestamp;
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::testing::{TestSystem, assert_well_formed};
use taskreel::{BoxFuture, Builder, Part, TaskState, testing};

/// A model behind a rate limit: it asks for 30 s three times, then answers. It notes when it was asked.
#[derive(Clone, Default)]
struct Limited(Arc<Mutex<Vec<u32>>>);

impl Limited {
    fn attempts(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

impl InferBackend for Limited {
    fn backend(&self) -> &'static str {
        "limited"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.lock().unwrap().push(request.attempt);
        Box::pin(async move {
            if request.attempt < 4 {
                let kind = InferErrorKind::Transient { retry_after: Some(Duration::from_secs(30)) };
                return Err(InferError::new(kind, "RateLimit", "slow down"));
            }
            let content = r#"{"type": "final", "content": "at last"}"#.to_owned();
            Ok(InferReply { content, model: "m".to_owned(), ..InferReply::default() })
        })
    }
}

async fn started(model: &Limited) -> TestSystem {
    let model = model.clone();
    testing::system(move |builder: Builder| builder.infer(model.clone())).await.unwrap()
}

async fn due(system: &TestSystem, id: &str) -> Timestamp {
    let snapshot = system.task(id).unwrap().snapshot().await.unwrap();
    let call = snapshot.task().calls().open().next().unwrap().clone();
    match call.status {
        CallStatus::RetryScheduled(due, _) => due,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn restarts_during_a_back_off_wait_its_rest_and_use_up_no_attempt() {
    let model = Limited::default();
    let mut system = started(&model).await;
    let id = system.submit(Part::infer("hello")).await.unwrap().id().to_owned();
    for attempt in 1..4 {
        system.until_idle().await;
        let ends = due(&system, &id).await;
        assert_eq!(model.attempts().len(), attempt);
        for _ in 0..3 {
            system.advance(Duration::from_secs(9)).await;
            system = system.crash().await.unwrap();
            system.until_idle().await;
            assert_eq!(model.attempts().len(), attempt, "it is not asked before {ends}");
            assert_eq!(due(&system, &id).await, ends);
        }
        system.advance(Duration::from_secs(3)).await;
        assert_eq!(model.attempts().len(), attempt + 1, "it is asked once {ends} has come");
    }
    let end = system.finish(&system.task(&id).unwrap()).await.unwrap();
    assert_eq!(
        (end.state(), model.attempts()),
        (TaskState::Completed, vec![1, 2, 3, 4]),
        "{}",
        end.to_json()
    );
    assert_well_formed(&**system.store());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_back_off_that_ended_while_no_process_ran_is_over() {
    let model = Limited::default();
    let system = started(&model).await;
    let id = system.submit(Part::infer("hello")).await.unwrap().id().to_owned();
    system.until_idle().await;
    let ends = due(&system, &id).await;
    system.clock().advance(Duration::from_secs(3_600));
    let system = system.crash().await.unwrap();
    system.until_idle().await;
    assert_eq!(model.attempts().get(..2), Some(&[1, 2][..]), "{ends}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_cancel_during_a_back_off_ends_the_task_at_once_and_nothing_is_sent_any_more() {
    let model = Limited::default();
    let system = started(&model).await;
    let task = system.submit(Part::infer("hello")).await.unwrap();
    system.until_idle().await;
    system.run(task.cancel(None)).await.unwrap().unwrap();
    assert_eq!(system.run(task.snapshot()).await.unwrap().unwrap().state(), TaskState::Canceled);
    system.advance(Duration::from_secs(600)).await;
    assert_eq!(model.attempts(), [1]);
    assert_well_formed(&**system.store());
    system.shutdown().await.unwrap();
}
