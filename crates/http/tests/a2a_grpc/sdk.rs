//! The real SDK of A2A for Python as the client over gRPC. `TASKREEL_A2A_SDK` names a Python with it; `tests/interop/venv` makes
//! one. Where `CI=true`, one that is missing is a failure.
#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use taskreel_http::A2a;

use crate::agent::{Gate, agent};
use crate::peer::peer_of;
use crate::support::actix;

#[tokio::test(flavor = "multi_thread")]
async fn the_real_sdk_sends_reads_lists_streams_follows_and_cancels_over_grpc() {
    let Some(python) = std::env::var_os("TASKREEL_A2A_SDK") else {
        let must = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!must, "TASKREEL_A2A_SDK names no Python");
        eprintln!("not tried with the SDK: TASKREEL_A2A_SDK is not set");
        return;
    };
    let system = agent(&Gate::shut()).await;
    let a2a = A2a::new(system.clone());
    let peer = peer_of(Arc::new(a2a.grpc())).await;
    a2a.grpc_at(&peer.address());
    let host = actix(Arc::new(a2a)).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/a2a/client.py");
    let mut command = tokio::process::Command::new(python);
    let command = command.arg(script).args([&format!("http://{}", host.address), "GRPC"]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let steps: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let update = "status_update";
    let piece = "artifact_update";
    let expected = [
        json!({"step": "send", "state": "completed", "said": "heard hello", "history": 2}),
        json!({"step": "get", "same": true, "state": "completed", "history": 2}),
        json!({"step": "length", "history": 1}),
        json!({"step": "ask", "state": "input_required", "said": "Which city?"}),
        json!({"step": "answer", "same": true, "state": "completed"}),
        json!({"step": "list", "listed": true}),
        json!({"step": "stream", "kinds": ["task", piece, piece, piece, update]}),
        json!({"step": "cancel", "was": "working", "state": "canceled"}),
        json!({"step": "follow", "kinds": ["task", update, update, update]}),
    ];
    assert_eq!(steps[..expected.len()], expected, "{printed}");
    let unknown = &steps[expected.len()];
    assert_eq!(unknown["error"], "TaskNotFoundError", "{unknown}");
    host.stop().await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}
