//! The state of tools, as the command line shows it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

mod binary;

use binary::Place;
use serde::Deserialize;
use taskreel::tool::{ToolContext, ToolError};
use taskreel::{JsonSchema, Part, System};

#[derive(Deserialize, JsonSchema)]
struct Order {
    number: u32,
    done: bool,
}

async fn order(cx: ToolContext, order: Order) -> Result<(), ToolError> {
    let key = format!("orders/{}", order.number);
    let version = cx.state().get(&key).map(|entry| entry.version).unwrap_or_default();
    if order.done { cx.state().delete(&key, version) } else { cx.state().put(&key, "open", version) }
}

/// Makes a log in which a tool's state holds two orders, and once held a third.
async fn orders() -> Place {
    let place = Place::new();
    let dir = place.path().join("log");
    let system = System::builder(dir).tool("order", "Takes orders", order).start().await.unwrap();
    for (number, done) in [(1, false), (2, false), (3, false), (2, true)] {
        let part = Part::tool_call("order", proto_events::json!({"number": number, "done": done})).unwrap();
        system.submit(part).await.unwrap().finished().await.unwrap();
    }
    system.shutdown().await.unwrap();
    place
}

#[tokio::test]
async fn a_tools_state_is_listed_shown_told_and_compared() {
    let place = orders().await;
    let run = |line: &str| place.run(&format!("{line} --data-dir log"));
    let rows = run("ls --tools --json").ended(0).json();
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["stream"], &rows[0]["keys"]), (&"tool-agent/order".into(), &2.into()));
    assert!(run("ls --tools").ended(0).out().contains("tool-agent/order"));

    let shown = run("show order").ended(0).out();
    assert!(shown.contains("2 keys, 4 events"), "{shown}");
    assert!(shown.contains("orders/3") && !shown.contains("orders/2"), "{shown}");
    let shown = run("show order --json").ended(0).json();
    assert_eq!(shown[0]["state"]["orders/1"], proto_events::json!({"value": "open", "version": 1}));

    let before = run("state order --at 3").ended(0).out();
    assert!(before.contains("orders/2"), "{before}");
    let changes = run("diff order 3 4 --json").ended(1).json();
    assert_eq!((&changes[0]["area"], &changes[0]["change"]), (&"key".into(), &"gone".into()));
    assert_eq!(changes[0]["which"], "orders/2");
    assert!(run("explain order").ended(0).out().contains("its state has 2 keys"));

    let events = run("events order").ended(0).out();
    assert!(events.contains("KeyPut") && events.contains("orders/1 = \"open\""), "{events}");
    assert!(events.contains("orders/2 deleted"), "{events}");
    assert!(run("events --all").ended(0).out().contains("t:order"));
}

#[tokio::test]
async fn a_log_with_tools_state_is_replayed_verified_exported_and_imported() {
    let place = orders().await;
    let replayed = place.run("replay --all --data-dir log --json").ended(0).json();
    assert_eq!((&replayed[0]["tools"], &replayed[0]["mismatches"]), (&1.into(), &0.into()));
    assert!(
        place
            .run("replay --all --data-dir log")
            .ended(0)
            .out()
            .contains("1 tool, 2 streams of systems and agents, 0 mismatches")
    );
    place.run("verify --data-dir log").ended(0);
    let exported = place.run("export --data-dir log").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), exported).unwrap();
    place.run("import log.ndjson --data-dir copy").ended(0);
    let state = |dir: &str| place.run(&format!("state order --data-dir {dir}")).ended(0).out();
    assert_eq!(state("log"), state("copy"));
}
