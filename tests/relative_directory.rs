//! A system whose log was named by a relative path works in that directory when the program changes its own. This program has one
//! test, since the working directory is that of the whole process.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;

use taskreel::{JsonSchema, Part, System, TaskState};

#[derive(serde::Serialize, serde::Deserialize, JsonSchema)]
struct Said {
    text: String,
}

#[tokio::test]
async fn a_system_whose_log_has_a_relative_path_stays_in_its_directory_when_the_program_leaves() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::env::set_current_dir(folder.path()).unwrap();
    let echo = |said: Said| async move { Ok::<_, Infallible>(said.text) };
    let system = System::builder("log").tool("echo", "Says it again", echo).start().await.unwrap();
    std::env::set_current_dir(elsewhere.path()).unwrap();
    let dir = system.directory().unwrap().to_owned();
    assert!(dir.is_absolute() && dir.ends_with("log") && dir.join("HEAD").exists(), "{}", dir.display());
    assert!(system.health().await.unwrap().disk_free.is_some());
    let said = Part::tool_call("echo", Said { text: "hello".to_owned() }).unwrap();
    let end = system.run_to_end(said).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    system.shutdown().await.unwrap();
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert!(!dir.join("holder").exists(), "an orderly end");
    std::env::set_current_dir(std::env::temp_dir()).unwrap();
}
