//! The rows of the tool itself: defaults, settings, help, completions.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::binary::Place;
use crate::forged::{Forged, Reply, task};
use crate::{run, run_with};

fn done() -> Forged {
    Forged::start(|_| Reply::Result(json!({"task": task("COMPLETED")})))
}

#[test]
fn a2acli_default_001_each_default_is_shown_and_a_flag_overrides_it() {
    let place = Place::new();
    let help =
        run(&place, &["send", "--help"]).ended(0).out().split_whitespace().collect::<Vec<_>>().join(" ");
    for default in [
        "[default: the first of the card that is spoken here]",
        "[default: wait]",
        "[default: text]",
        "[default: concise]",
        "[default: the highest that both speak, 1.0 at least]",
        "[default: TLS is verified]",
        "[default: 2s, and shorter ones at the beginning]",
        "[default: 5m; with --stream, none]",
    ] {
        assert!(help.contains(default), "{default} is not in {help}");
    }
    let agent = Forged::start(|call| match call.operation.as_str() {
        "SendMessage" => Reply::Result(json!({"task": task("WORKING")})),
        _ => Reply::Result(task("COMPLETED")),
    });
    let at = agent.url.as_str();
    let plain = run(&place, &["send", "x", "-a", at]).ended(0);
    assert_eq!(plain.field("State"), "TASK_STATE_COMPLETED", "it waits, and prints text");
    assert!(agent.calls()[0].head.starts_with("POST /rpc "), "the card's first interface");
    assert_eq!(agent.calls()[0].header("a2a-version"), Some("1.0"));
    assert!(!plain.out().contains("History"), "concise");
    let env = [("A2ACLI_ASYNC", "true"), ("A2ACLI_OUTPUT", "json"), ("A2ACLI_TRANSPORT", "HTTP+JSON")];
    let set = run_with(&place, &env, &["send", "x", "-a", at]).ended(0).document();
    assert_eq!(set["task"]["status"]["state"], "TASK_STATE_WORKING", "a setting overrides the default");
    assert!(agent.calls().last().unwrap().head.starts_with("POST /rest/"));
    let flags = ["send", "x", "-a", at, "--wait", "-o", "text", "--transport", "JSONRPC"];
    let flagged = run_with(&place, &env, &flags).ended(0);
    assert_eq!(flagged.field("State"), "TASK_STATE_COMPLETED", "a flag overrides the setting");
    assert!(agent.calls().last().unwrap().head.starts_with("POST /rpc "));
}

#[test]
fn a2acli_config_001_settings_are_shown_and_a_credential_that_others_can_read_is_refused() {
    let place = Place::new();
    let folder = place.path().join("home/.config/a2a-cli");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(".env");
    std::fs::write(&file, "A2ACLI_BEARER=of-the-file-1\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = run(&place, &["config", "show", "-o", "json"]).ended(2);
    assert_eq!(open.failed(), "A2ACLI_ERR_USAGE");
    assert!(open.err().contains("chmod 600") && !open.err().contains("of-the-file-1"), "{}", open.err());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let shown = run(&place, &["config", "show"]).ended(0);
    assert!(shown.field("bearer").starts_with("[redacted]   (from: file "), "{}", shown.out());
    let agent = done();
    let before = std::fs::read(&file).unwrap();
    run(&place, &["send", "x", "-a", &agent.url]).ended(0);
    assert_eq!(agent.calls()[0].header("authorization"), Some("Bearer of-the-file-1"));
    assert_eq!(std::fs::read(&file).unwrap(), before, "nothing is written");
    std::fs::remove_file(&file).unwrap();
    run(&place, &["send", "x", "-a", &agent.url]).ended(0);
    assert_eq!(agent.calls()[1].header("authorization"), None);
}

#[test]
fn a2acli_config_002_a_flag_counts_before_the_environment_and_files_before_the_default() {
    let place = Place::new();
    let (home, inner) = (place.path().join("home/.config/a2a-cli"), place.path().join("work/deep"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(
        home.join(".env"),
        "A2ACLI_TIMEOUT=1s\nA2ACLI_HISTORY=1\nA2ACLI_RECORD=global\nA2ACLI_A2A_VERSION=1.0\n",
    )
    .unwrap();
    std::fs::write(
        place.path().join("work/.env"),
        "A2ACLI_TIMEOUT=2s\nA2ACLI_HISTORY=2\nA2ACLI_RECORD=local\n",
    )
    .unwrap();
    std::fs::write(place.path().join("agent.env"), "A2ACLI_TIMEOUT=9s\nA2ACLI_AGENT_CARD=http://chosen\n")
        .unwrap();
    let shown = |args: &[&str]| {
        let mut command = crate::command(&place, &[&["config", "show", "-o", "json"], args].concat());
        let ran = command
            .current_dir(&inner)
            .envs([("A2ACLI_TIMEOUT", "3s"), ("A2ACLI_HISTORY", "3")])
            .output()
            .unwrap();
        let document = crate::binary::Ran(ran).ended(0).document();
        let all = document["settings"].as_array().unwrap().clone();
        move |name: &str| {
            let one = all.iter().find(|one| one["name"] == name).unwrap().clone();
            (one["value"].as_str().unwrap_or("none").to_owned(), one["source"].as_str().unwrap().to_owned())
        }
    };
    let of = shown(&["--timeout", "4s"]);
    assert_eq!(of("timeout"), ("4s".to_owned(), "flag".to_owned()));
    assert_eq!(of("history"), ("3".to_owned(), "environment A2ACLI_HISTORY".to_owned()));
    let (value, source) = of("record");
    assert!(value == "local" && source.ends_with("work/.env"), "{value} {source}");
    let (value, source) = of("a2a-version");
    assert!(value == "1.0" && source.ends_with(".config/a2a-cli/.env"), "{value} {source}");
    assert_eq!(of("poll-interval"), ("2s".to_owned(), "default".to_owned()));
    // A file of its own for an agent, in the place of the local one.
    let config = place.path().join("agent.env").display().to_string();
    let of = shown(&["--config", &config]);
    assert_eq!(of("agent-card").0, "http://chosen");
    assert_eq!(of("record").0, "global");
    assert_eq!(of("timeout").0, "3s", "the environment counts before it");
    run(&place, &["config", "show", "--config", "gone.env"]).ended(2);
}

#[test]
fn a2acli_cli_001_help_and_version_are_printed_for_the_tool_and_each_command() {
    let place = Place::new();
    let help = run(&place, &["help"]).ended(0).out();
    assert_eq!(help.lines().next(), run(&place, &["--help"]).ended(0).out().lines().next());
    for command in [
        &["send"][..],
        &["card"],
        &["card", "get"],
        &["task"],
        &["task", "get"],
        &["task", "cancel"],
        &["task", "list"],
        &["task", "subscribe"],
        &["task", "download"],
        &["task", "push-config"],
        &["config", "show"],
        &["check"],
        &["conformance"],
        &["completion"],
    ] {
        let asked = run(&place, &[command, &["--help"]].concat()).ended(0).out();
        assert!(asked.contains("Usage: taskreel a2a") || asked.contains("Commands:"), "{command:?}: {asked}");
    }
    for flag in ["-v", "--version"] {
        assert!(run(&place, &[flag]).ended(0).out().contains(env!("CARGO_PKG_VERSION")), "{flag}");
    }
}

#[test]
fn a2acli_cli_002_completions_are_printed_for_each_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&place, &["completion", shell]).ended(0).out();
        assert!(script.contains("taskreel"), "{shell}");
    }
    run(&place, &["completion", "cmd"]).ended(2);
    let mut command = place.command(["--", "taskreel", "a2a", "task", ""]);
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3").env("_CLAP_IFS", "\n");
    let found = String::from_utf8(command.output().unwrap().stdout).unwrap();
    for word in ["get", "cancel", "list", "subscribe", "download", "push-config"] {
        assert!(found.lines().any(|line| line == word), "{word} is not in {found}");
    }
}
