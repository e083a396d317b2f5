//! The real SDK of A2A for Python as the client, 1.x and 0.3, over JSON-RPC and REST. `TASKREEL_A2A_SDK` names a Python with 1.x
//! and `TASKREEL_A2A_PYTHON` one with a2a-utils, which has 0.3; `tests/interop/venv` makes them. Where `CI=true`, one that
//! is missing is a failure.
#![cfg(unix)]

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent::{Gate, agent};
use crate::asked::{handler, handler_with};
use crate::hook::quick;
use crate::support::actix;

/// Returns the versions of the SDK that can be had, each with its Python.
fn sdks() -> Vec<(&'static str, OsString)> {
    let of = |(version, name): (&'static str, &str)| {
        let python = std::env::var_os(name);
        if python.is_none() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{name} names no Python");
            eprintln!("not tried with the SDK {version}: {name} is not set");
        }
        python.map(|python| (version, python))
    };
    [("1.x", "TASKREEL_A2A_SDK"), ("0.3", "TASKREEL_A2A_PYTHON")].into_iter().filter_map(of).collect()
}

/// Runs a script of the client's, and returns what each step printed, by its name.
async fn steps(python: &OsString, script: &str, url: &str, binding: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/a2a").join(script);
    let mut command = tokio::process::Command::new(python);
    command
        .args(["-B".as_ref(), script.as_os_str()])
        .args([url, binding])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut steps = json!({});
    for line in printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        steps[line["step"].as_str().unwrap()] = line.clone();
    }
    assert!(output.status.success(), "{binding}: {printed}{}", String::from_utf8_lossy(&output.stderr));
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_sdk_sends_reads_lists_streams_follows_and_cancels() {
    for (version, python) in sdks() {
        let system = agent(&Gate::shut()).await;
        let host = actix(handler(&system)).await;
        let url = format!("http://{}", host.address);
        for binding in ["JSONRPC", "HTTP+JSON"] {
            let at = format!("{version} {binding}");
            let steps = steps(&python, "client.py", &url, binding).await;
            let step = |name: &str| {
                let mut step = steps[name].clone();
                step.as_object_mut().unwrap_or_else(|| panic!("{at}: no {name}")).remove("step");
                step
            };
            assert_eq!(
                step("send"),
                json!({"state": "completed", "said": "heard hello", "history": 2}),
                "{at}"
            );
            assert_eq!(step("get"), json!({"same": true, "state": "completed", "history": 2}), "{at}");
            assert_eq!(step("length"), json!({"history": 1}), "{at}");
            assert_eq!(step("ask"), json!({"state": "input_required", "said": "Which city?"}), "{at}");
            assert_eq!(step("answer"), json!({"same": true, "state": "completed"}), "{at}");
            let listed = if version == "1.x" { json!(true) } else { Value::Null };
            assert_eq!(step("list")["listed"], listed, "{at}");
            let piece = "artifact_update";
            let events = json!(["task", piece, piece, piece, "status_update"]);
            assert_eq!(step("stream")["kinds"], events, "{at}");
            assert_eq!(step("cancel"), json!({"was": "working", "state": "canceled"}), "{at}");
            assert_eq!(
                step("follow")["kinds"],
                json!(["task", "status_update", "status_update", "status_update"]),
                "{at}"
            );
            assert!(step("unknown")["error"].is_string(), "{at}: {}", step("unknown"));
        }
        host.stop().await;
        system.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_sdk_registers_a_webhook_of_its_own_and_reads_what_it_is_told() {
    for (version, python) in sdks() {
        let system = agent(&Gate::shut()).await;
        let pushing = quick().start(&system).unwrap();
        let host = actix(handler_with(&system, &pushing)).await;
        let url = format!("http://{}", host.address);
        for binding in ["JSONRPC", "HTTP+JSON"] {
            let at = format!("{version} {binding}");
            let steps = steps(&python, "webhook.py", &url, binding).await;
            let set = json!({"step": "set", "id": "mine", "same": true, "url": true, "listed": 1});
            assert_eq!(steps["set"], set, "{at}");
            let kind = if version == "1.x" { "status_update" } else { "task" };
            let told = json!({"step": "told", "kinds": [kind], "last": "completed", "token": true, "authorization": true});
            assert_eq!(steps["told"], told, "{at}");
            assert_eq!(steps["delete"]["listed"], 0, "{at}");
        }
        host.stop().await;
        pushing.stop().await;
        system.shutdown().await.unwrap();
    }
}
