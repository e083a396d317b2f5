//! The program's words about itself: version, manual pages, completions that know the ids of a log.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod snippets;

use std::path::Path;

use binary::{Place, Ran, small_log};
use proto_events::json;
use serde::Deserialize;
use taskreel::tool::ToolContext;
use taskreel::{JsonSchema, Part, System, TaskState};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

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

/// The folder with the pages of the book.
const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// The variable with the path to which the page with the help of each command is written; `cargo xtask book` sets it.
const WRITES: &str = "TASKREEL_WRITE_DOCS";

#[test]
fn the_book_names_each_command_and_can_hold_the_help_of_each() {
    if !cfg!(all(feature = "a2a", feature = "import-protolink", feature = "tls")) {
        return;
    }
    let place = Place::new();
    let help =
        |line: &str| place.run(line).ended(0).out().lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let whole = help("--help");
    let mut page = format!("# The help of each command\n\n## taskreel\n\n```text\n{whole}\n```\n");
    let commands = whole.split("Commands:").nth(1).unwrap().lines().skip(1);
    let commands = commands.take_while(|line| line.starts_with("  ") || line.is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 30, "{names:?}");
    let table = std::fs::read_to_string(Path::new(BOOK).join("command-line.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter_map(|line| line.split('|').nth(1)).collect();
    for name in names.into_iter().filter(|name| *name != "help") {
        let is_named = |row: &&str| row.split([' ', '`', ',']).any(|word| word == name);
        assert!(rows.iter().any(is_named), "docs/command-line.md does not name {name}");
        let section = help(&format!("{name} --help"));
        assert!(section.contains("Usage:"), "{section}");
        page.extend(["\n## taskreel ", name, "\n\n```text\n", &section, "\n```\n"]);
    }
    if let Some(path) = std::env::var_os(WRITES) {
        std::fs::write(path, page).unwrap();
    }
}

/// The variables that are set where git itself starts the test, in a hook.
const OF_GIT: [&str; 3] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];

/// Runs the built build script of this package in a folder and returns what it prints.
fn built(script: &Path, folder: &Path) -> String {
    let mut command = std::process::Command::new(script);
    command.current_dir(folder).env_remove("TASKREEL_REVISION");
    for name in OF_GIT {
        command.env_remove(name);
    }
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_revision_of_changed_sources_says_so_and_a_linked_work_tree_is_watched_too() {
    let place = Place::new();
    let script = place.path().join("script");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let built_it =
        std::process::Command::new(rustc).args(["--edition", "2024", source, "-o"]).arg(&script).status();
    let git = |folder: &Path, line: &str| {
        let mut command = std::process::Command::new("git");
        for name in OF_GIT {
            command.env_remove(name);
        }
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        command.args(line.split(' ')).current_dir(folder).output().is_ok_and(|ran| ran.status.success())
    };
    let tree = place.path().join("tree");
    std::fs::create_dir_all(tree.join("crates/cli/src")).unwrap();
    std::fs::write(tree.join("crates/cli/src/main.rs"), "fn main() {}").unwrap();
    let is_ready = git(&tree, "init -q") && git(&tree, "add .") && git(&tree, "commit -q -m first");
    if !is_ready || !built_it.is_ok_and(|status| status.success()) {
        eprintln!("not tested: there is no git or no compiler here");
        return;
    }
    assert!(git(&tree, "worktree add -q ../linked"));
    for folder in [tree, place.path().join("linked")] {
        let package = folder.join("crates/cli");
        let revision = |said: &str| {
            let lines =
                said.lines().filter_map(|line| line.strip_prefix("cargo::rustc-env=TASKREEL_REVISION="));
            lines.collect::<Vec<_>>()[0].to_owned()
        };
        let clean = built(&script, &package);
        assert!(revision(&clean).len() >= 12 && !revision(&clean).contains("dirty"), "{clean}");
        let watched = clean.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
        let watched: Vec<&str> = watched.filter(|path| package.join(path).exists()).collect();
        for name in ["HEAD", "logs/HEAD", "crates/cli/src"] {
            assert!(watched.iter().any(|path| path.ends_with(name)), "{name} is not in {watched:?}");
        }
        std::fs::write(package.join("src/more.rs"), "").unwrap();
        assert_eq!(revision(&built(&script, &package)), format!("{}-dirty", revision(&clean)));
    }
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
    for command in ["reconcile", "abandon", "answer"] {
        assert_eq!(of(&["taskreel", command, "--task", "sum"]), ["sum-0001"], "{command}");
    }
    std::fs::rename(place.path().join("taskreel-log"), place.path().join("other")).unwrap();
    assert!(completed(&place, &["taskreel", "show", "su"]).is_empty(), "no log, no ids, no error");
    assert_eq!(completed(&place, &["taskreel", "show", "--data-dir", "other", "su"]), ["sum-0001"]);
}

#[test]
fn completions_know_the_questions_that_are_open() {
    let place = Place::new();
    let dir = place.path().join("taskreel-log");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let asks = |context: ToolContext, _: Nothing| async move { context.ask("Which one?").await };
        let system = System::builder(&dir).tool("choose", "Chooses", asks).start().await.unwrap();
        let waits = system.submit(Part::tool_call("choose", json!({})).unwrap()).await.unwrap();
        assert_eq!(waits.finished().await.unwrap().state(), TaskState::InputRequired);
        system.shutdown().await.unwrap();
    });
    let calls = place.run("calls --json").ended(0).json();
    let (question, task) = (calls[0]["question_id"].as_str().unwrap(), calls[0]["task"].as_str().unwrap());
    let asked = format!("call_{}", &question["call_".len()..question.len() - 4]);
    assert_eq!(completed(&place, &["taskreel", "answer", "--task", task, &asked]), [question]);
    assert_eq!(completed(&place, &["taskreel", "answer", &asked]), [question]);
    place.run(&format!("answer {question} this")).ended(0);
    assert!(completed(&place, &["taskreel", "answer", &asked]).is_empty());
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
fn each_exit_code_is_in_the_help_and_in_the_book() {
    let help = Place::new().run("--help").ended(0).out();
    let page = std::fs::read_to_string(Path::new(BOOK).join("command-line.md")).unwrap();
    let codes = help.split("Exit codes:").nth(1).unwrap();
    // Each at the beginning of its own words: `0` stands in `130` too.
    let named: Vec<&str> = codes.split([';', ',', '\n']).map(str::trim_start).collect();
    for code in ["0", "1", "2", "3", "4", "5", "7", "8", "130"] {
        let is_named = |said: &&&str| said.strip_prefix(code).is_some_and(|rest| rest.starts_with(' '));
        assert_eq!(named.iter().filter(is_named).count(), 1, "{code} is not once in {named:?}");
        assert_eq!(page.matches(&format!("\n| {code} | ")).count(), 1, "docs/command-line.md lacks {code}");
    }
}
