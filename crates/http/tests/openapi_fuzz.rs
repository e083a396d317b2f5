//! schemathesis against the `OpenAPI` document of the live API: requests made from the document, right and wrong ones, get no 5xx
//! and no answer that the document does not describe. `TASKREEL_SCHEMATHESIS_PYTHON` names a Python that has it
//! (`tests/interop/venv`), `TASKREEL_SCHEMATHESIS_CASES` the number of cases of each operation, `TASKREEL_SCHEMATHESIS_SEED` their
//! seed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::process::Stdio;
use std::sync::Arc;

use support::{builder, model, tool_task};
use taskreel::{Part, PostedTask};
use taskreel_http::{LiveApi, Server};
use taskreel_log::audit;

/// The settings of schemathesis. No schema tells which texts are conditions, so that all requests have the same one.
const SETTINGS: &str = "[parameters]\n\"query.where\" = \"schema ~ taskreel\"\n";

/// The cases of each operation where nothing else is asked for.
const CASES: &str = "15";

#[tokio::test(flavor = "multi_thread")]
async fn requests_made_from_the_openapi_document_get_what_it_describes() {
    let Some(python) = std::env::var_os("TASKREEL_SCHEMATHESIS_PYTHON") else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "TASKREEL_SCHEMATHESIS_PYTHON is not set"
        );
        eprintln!("not tried: TASKREEL_SCHEMATHESIS_PYTHON is not set");
        return;
    };
    let cases = std::env::var("TASKREEL_SCHEMATHESIS_CASES").unwrap_or_else(|_| CASES.to_owned());
    let seed = std::env::var("TASKREEL_SCHEMATHESIS_SEED").unwrap_or_else(|_| "1".to_owned());
    let system = builder().infer(model(&["hello"])).start().await.unwrap();
    let text = tool_task("t-1", "echo", r#"{"text": "x"}"#);
    let posted = PostedTask::parse(&text, &mut taskreel::Ports::default()).unwrap();
    system.submit(posted).await.unwrap().finished().await.unwrap();
    system.session("s-1").send(Part::infer("Hi")).await.unwrap().finished().await.unwrap();
    let serving =
        Server::new().mount("/api", Arc::new(LiveApi::new(&system))).start("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), SETTINGS).unwrap();
    let output = tokio::process::Command::new(python)
        .args(["-m", "schemathesis.cli", "run", "--max-examples", &cases, "--seed", &seed, "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--request-timeout", "20"])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
             unsupported_method,positive_data_acceptance,negative_data_rejection",
        ])
        // What is followed does not end.
        .args(["--exclude-path-regex", "/(live|records)$"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .arg(format!("http://{}/api/openapi.json", serving.address()))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("generated"), "{said}");
    said.lines().filter(|line| line.contains("generated")).for_each(|line| println!("{}", line.trim()));
    serving.stop().await.unwrap();
    let verified = audit::verify(system.log().as_ref());
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    system.shutdown().await.unwrap();
}
