//! Promise 2 where the disk fails: a call whose intent could not be written is not made, however the write failed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::json;
use serde::Deserialize;
use taskreel::tool::ToolPolicy;
use taskreel::{Error, JsonSchema, Part, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_call_whose_intent_could_not_be_written_is_not_made() {
    for fault in [AppendFault::BeforeWrite, AppendFault::AfterWrite, AppendFault::TearGroup { landing: 0 }] {
        let faults = Faults::none();
        let store = FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone());
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let tool = move |_: Nothing| {
            let counted = Arc::clone(&counted);
            async move { Ok::<_, Infallible>(counted.fetch_add(1, Ordering::SeqCst)) }
        };
        let builder = System::builder("-").store(Arc::new(store));
        let system = builder.tool_with("pay", "Pays", tool, ToolPolicy::manual()).start().await.unwrap();
        let call = || Part::tool_call("pay", json!({})).unwrap();
        system.submit(call()).await.unwrap().finished().await.unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        faults.at_next_append(fault);
        let refused = system.submit(call()).await;
        assert!(matches!(refused, Err(Error::InDoubt { .. })), "{fault:?}: {refused:?}");
        // The end waits for every call that was sent; that it cannot be written is no matter here.
        let _ = system.shutdown().await;
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{fault:?}");
    }
}
