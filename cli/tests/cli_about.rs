//! The program's words about itself: version, manual pages, completions that know the ids of a log.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use binary::{Place, Ran, small_log};

/// Asks as a shell's script does for what may follow these words; the last one is being typed.
fn completed(place: &Place, words: &[&str]) -> Vec<String> {
    let mut command = place.command(["--"].iter().chain(words));
    command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
    let ran = Ran(command.output().unwrap()).ended(0);
    assert!(ran.err().is_empty(), "{}", ran.err());
    ran.out().lines().map(str::to_owned).collect()
}

#[test]
fn the_version_names_the_revision_and_the_features() {
    let place = Place::new();
    let short = place.run("-V").ended(0).out();
    assert_eq!(short.trim(), format!("taskreel {}", env!("CARGO_PKG_VERSION")));
    let long = place.run("--version").ended(0).out();
    let lines: Vec<_> = long.lines().collect();
    assert_eq!(lines[0], short.trim());
    let revision = lines[1].strip_prefix("revision ").expect("the revision");
    assert!(revision == "unknown" || revision.len() >= 7, "{long}");
    assert!(lines[2].contains("output-schema"), "{long}");
}

#[test]
fn completions_know_commands_and_the_ids_of_the_log() {
    let place = small_log();
    let commands = completed(&place, &["taskreel", ""]);
    for command in ["show", "events", "tail", "attention", "schema"] {
        assert!(commands.iter().any(|found| found == command), "{command} is not in {commands:?}");
    }
    let ids = completed(&place, &["taskreel", "show", ""]);
    for id in ["sum-0001", "bad-0001", "s:ask-0001", "@last"] {
        assert!(ids.iter().any(|found| found == id), "{id} is not in {ids:?}");
    }
    assert_eq!(completed(&place, &["taskreel", "show", "su"]), ["sum-0001"]);
    let shown = place.run("show sum-0001 --json").ended(0).json();
    let call = shown[0]["calls"][0]["call_id"].as_str().unwrap();
    assert!(completed(&place, &["taskreel", "prompt", "call_"]).iter().any(|found| found == call));
    let listed = place.run("artifact sum-0001 --json").ended(0).json();
    let output = listed[0]["artifact"].as_str().unwrap();
    let artifacts = completed(&place, &["taskreel", "artifact", "sum-0001", "art_"]);
    assert!(artifacts.iter().any(|found| found == output), "{output} is not in {artifacts:?}");
    let of = |words: &[&str]| completed(&place, words);
    // Of the task that was typed, and of no other one.
    let outputs = |task: &str| {
        let rows = place.run(&format!("artifact {task} --json")).ended(0).json();
        let mut ids: Vec<_> =
            rows.iter().filter_map(|row| row["artifact"].as_str().map(str::to_owned)).collect();
        ids.sort();
        ids
    };
    assert_ne!(outputs("sum-0001"), outputs("bad-0001"));
    for task in ["sum-0001", "bad-0001"] {
        let begins: Vec<_> = outputs(task).into_iter().filter(|id| id.starts_with("art_")).collect();
        assert_eq!(of(&["taskreel", "artifact", task, "art_"]), begins);
        assert_eq!(of(&["taskreel", "artifact", "--color", "never", task, "art_"]), begins);
    }
    assert!(of(&["taskreel", "artifact", "none-0001", "art_"]).is_empty());
    assert_eq!(of(&["taskreel", "prompt", "--task", "sum-0001", "call_"]), [call]);
    std::fs::rename(place.path().join("taskreel-log"), place.path().join("other")).unwrap();
    assert!(completed(&place, &["taskreel", "show", "su"]).is_empty(), "no log, no ids, no error");
    assert_eq!(completed(&place, &["taskreel", "show", "--data-dir", "other", "su"]), ["sum-0001"]);
}

#[test]
fn each_shell_gets_its_script() {
    let place = Place::new();
    for (shell, says) in [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")] {
        let script = place.run(&format!("completions {shell}")).ended(0).out();
        assert!(script.contains(says) && script.contains("COMPLETE"), "{script}");
    }
    place.run("completions csh").ended(2);
    let checked = std::process::Command::new("bash").arg("-n").stdin(std::process::Stdio::piped()).spawn();
    let Ok(mut bash) = checked else { return };
    let script = place.run("completions bash").ended(0).out();
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success(), "the script is not one of bash");
}

#[test]
fn a_manual_page_is_written_for_each_command() {
    let place = Place::new();
    let ran = place.run("man pages/man1").ended(0);
    let pages = place.files("pages/man1");
    assert_eq!(ran.out().lines().count(), pages.len());
    let page = |name: &str| {
        let found = pages.iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("no page {name}"));
        String::from_utf8(found.1.clone()).unwrap()
    };
    assert!(page("taskreel.1").contains(".TH"));
    assert!(page("taskreel.1").contains("Exit codes"));
    assert!(page("taskreel\\-events.1".replace('\\', "").as_str()).contains("since"));
    for name in ["taskreel-run.1", "taskreel-diff.1", "taskreel-prompt.1", "taskreel-approve.1"] {
        assert!(page(name).starts_with(".ie") || page(name).contains(".TH"), "{name}");
    }
    std::fs::write(place.path().join("file"), "").unwrap();
    place.run("man file").ended(2).told(&["file"]);
}

#[test]
fn each_exit_code_is_in_the_help_and_in_the_readme() {
    let help = Place::new().run("--help").ended(0).out();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let codes = help.split("Exit codes:").nth(1).unwrap();
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "7 ", "8 ", "130 "] {
        assert!(codes.contains(code), "{code} is not in {codes}");
    }
    assert!(readme.contains("8 the output could not be written"), "README names the exit codes");
    assert!(readme.contains("5 no log at the directory"), "README names the exit codes");
}
