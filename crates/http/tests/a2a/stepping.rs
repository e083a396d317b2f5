//! A clock that steps back and forth, as one does that is set right, and what it must not change; and a log that is reopened.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use serde_json::json;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Message, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, SystemClock};

use crate::agent::Gate;
use crate::asked::{Binding, handler};
use crate::support::{actix, connect};

/// An hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// A clock that steps; the time since its start does not.
#[derive(Default)]
pub(crate) struct Stepping(AtomicI64);

impl Stepping {
    /// Steps: by an hour forth, or back, or to the right time.
    pub(crate) fn step(&self, which: usize) {
        let hours = [0, 1, -1][which % 3];
        self.0.store(hours * HOUR, Ordering::SeqCst);
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports { clock: Arc::<Self>::clone(self), ..Ports::default() }
    }
}

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_who_waits_is_answered_although_the_log_is_reopened_meanwhile() {
    let gate = Gate::shut();
    let at_the_gate = gate.clone();
    let begun = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&begun);
    let work = move |cx: HandlerContext, _: Message| {
        let gate = at_the_gate.clone();
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            gate.pass().await;
            cx.say("late").await?;
            Ok::<_, ToolError>(HandlerEnd::Completed)
        }
    };
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = builder.handler_with(work, ToolPolicy::idempotent()).start().await.unwrap();
    let host = actix(handler(&system)).await;
    let params = json!({"message": Binding::Rpc1.message("go", &json!({}))});
    let mut sender = connect(&host).await;
    sender.write_all(&Binding::Rpc1.request("send", &params, &[])).await.unwrap();
    for attempt in 1..=3 {
        crate::push::until(async || begun.load(Ordering::SeqCst) == attempt).await;
        if attempt < 3 {
            system.reopen().await.unwrap();
        }
    }
    gate.open();
    let answer = sender.answer().await;
    let task = &answer.json()["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");
    assert_eq!(system.tasks().page(9).await.unwrap().tasks.len(), 1);
    host.stop().await;
    system.shutdown().await.unwrap();
}
