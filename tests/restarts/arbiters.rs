//! Actors that are spread over several arbiters: the same conversations, approvals and ends as on one.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use proto_events::json;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, SystemClock};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A clock that notes how often each thread of actors asks it for the time: each actor does for each command. The other
/// threads of the process (those of calls, of the pool, of the test) are not noted.
#[derive(Default)]
struct Asked(Mutex<BTreeMap<String, u32>>);

/// The fewest questions of a thread on which actors decide: one that only started its supervisor asks less.
const ASKED_MIN: u32 = 20;

impl Clock for Asked {
    fn now(&self) -> proto_events::envelope::Timestamp {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        if name == "taskreel-actors" || name.starts_with("actix-rt|") {
            *self.0.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        }
        SystemClock.now()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_and_tasks_end_alike_on_one_two_and_four_arbiters() {
    for arbiters in [1, 2, 4] {
        let clock = Arc::new(Asked::default());
        let ports = Ports { clock: Arc::<Asked>::clone(&clock), ..Ports::default() };
        let tool = |_: Nothing| async { Ok::<_, Infallible>("done") };
        let system = System::builder("-")
            .store(Arc::new(MemoryStore::new()))
            .ports(ports)
            .arbiters(arbiters)
            .live_actors(8)
            .tool_with("quick", "Does it", tool, ToolPolicy::idempotent())
            .infer(Scripted::from_json(r#"{"": [{"type": "final", "content": "yes"}]}"#).unwrap())
            .start()
            .await
            .unwrap();
        let turns = (0..60).map(|n| {
            let system = system.clone();
            async move {
                // Twelve conversations of five turns each, one after another in each.
                let said = if n % 2 == 0 {
                    Part::infer("hello")
                } else {
                    Part::tool_call("quick", json!({})).unwrap()
                };
                system
                    .session(&format!("s{}", n % 12))
                    .send(said)
                    .await
                    .unwrap()
                    .finished()
                    .await
                    .unwrap()
                    .state()
            }
        });
        assert!(join_all(turns).await.iter().all(|state| *state == TaskState::Completed));
        for n in (0..12).step_by(2) {
            let history = system.session(&format!("s{n}")).history().await.unwrap();
            assert!(history.messages().len() >= 5 * 2, "{arbiters} arbiters: {}", history.messages().len());
        }
        let verified = verify(system.log().as_ref());
        assert!(verified.findings.is_empty(), "{arbiters} arbiters: {:?}", verified.findings);
        let threads = clock.0.lock().unwrap().clone();
        assert_eq!(threads.len(), arbiters, "{threads:?} decided on {arbiters} arbiters");
        assert!(threads.values().all(|asked| *asked >= ASKED_MIN), "{arbiters} arbiters: {threads:?}");
        system.shutdown().await.unwrap();
    }
}
