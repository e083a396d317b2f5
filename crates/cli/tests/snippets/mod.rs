//! The shell snippets of the pages: each is run in a folder of its own, with servers on free ports, or stands in a list with the
//! reason why it is not.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::binary::{Place, Ran};

/// The folder with the pages.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The snippets that are not run: the page, the beginning of the snippet, and the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo run --release -- demo", "it builds and installs the program"),
    ("docs/performance.md", "cargo bench", "`.ci/run` runs the benches"),
    ("docs/serve.md", "docker build", "it builds an image with the network"),
    (
        "docs/serve.md",
        "taskreel serve --register http://registry.example.org",
        "it names hosts of other machines",
    ),
    ("docs/testing.md", "cargo xtask check", "it is the gate itself"),
    ("docs/testing.md", "TASKREEL_WRITE_GOLDEN=1", "it writes golden files into the sources"),
];

/// The files that snippets need beside the program: the page, the beginning of the snippet, and the file with its name there.
const NEEDS: &[(&str, &str, &str, &str)] = &[(
    "docs/protolink.md",
    "taskreel import protolink weather.db",
    "crates/cli/tests/protolink_db/0.8.3.db",
    "weather.db",
)];

/// A block of a page that is written in the language of a shell.
#[derive(Debug)]
struct Snippet {
    page: String,
    line: usize,
    text: String,
}

impl Snippet {
    fn begins(&self, page: &str, beginning: &str) -> bool {
        self.page == page && self.text.starts_with(beginning)
    }
}

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.push(Path::new(ROOT).join("README.md"));
    pages.sort();
    pages
}

/// Returns the snippets of all pages. A console's lines that begin with `$ ` are what was typed.
fn snippets() -> Vec<Snippet> {
    let mut found = Vec::new();
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        let page = path.strip_prefix(ROOT).unwrap().display().to_string();
        let mut open: Option<(usize, &str, String)> = None;
        for (at, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            match (&mut open, trimmed.strip_prefix("```")) {
                (None, Some(language)) => open = Some((at + 1, language, String::new())),
                (Some(_), Some("")) => {
                    let (line, language, text) = open.take().unwrap();
                    if matches!(language, "sh" | "bash" | "shell" | "console") && !text.is_empty() {
                        found.push(Snippet { page: page.clone(), line, text });
                    }
                }
                (Some((_, language, text)), _) => {
                    let typed =
                        if *language == "console" { trimmed.strip_prefix("$ ") } else { Some(trimmed) };
                    text.extend(typed.into_iter().flat_map(|typed| [typed, "\n"]));
                }
                (None, None) => {}
            }
        }
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the snippet as a script that ends at its first failure. A server runs beside what follows it, at a free port.
fn script(text: &str) -> String {
    let (agents, registry) = (free_port().to_string(), free_port().to_string());
    let text = text.replace(":8080", &format!(":{agents}")).replace(":9000", &format!(":{registry}"));
    let mut script = String::from(
        "set -eu\npids=\ntrap 'for pid in $pids; do kill \"$pid\"; wait \"$pid\" || :; done' EXIT\n",
    );
    for line in text.lines() {
        let command = line.split(" #").next().unwrap_or(line).trim_end();
        if let Some(options) = command.strip_prefix("taskreel serve") {
            let options = options.trim_end_matches('&').trim_end();
            let started = format!(
                "taskreel serve{options} --listen 127.0.0.1:{agents} > serve.out 2> serve.err &\npids=\"$pids $!\"\n\
                 until grep -q '^listening' serve.out; do kill -0 $! || {{ cat serve.err; exit 1; }}; done\n"
            );
            script.push_str(&started);
        } else {
            // An answer of an error is a failure.
            script.push_str(&command.replace("curl -s ", "curl -sf "));
            script.push('\n');
        }
    }
    script
}

fn run(snippet: &Snippet) {
    let place = Place::new();
    for (page, beginning, from, name) in NEEDS {
        if snippet.begins(page, beginning) {
            std::fs::copy(Path::new(ROOT).join(from), place.path().join(name)).unwrap();
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_taskreel")).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(script(&snippet.text)).current_dir(place.path());
    command.env("PATH", format!("{program}:{path}")).env("HOME", place.path());
    for name in
        ["TASKREEL_DATA_DIR", "TASKREEL_TOKEN", "TASKREEL_AUTH_FILE", "TASKREEL_TOKEN_FILE", "XDG_CACHE_HOME"]
    {
        command.env_remove(name);
    }
    let ran = Ran(command.stdin(Stdio::null()).output().unwrap());
    let place = format!("{}:{}", snippet.page, snippet.line);
    assert_eq!(ran.code(), Some(0), "{place}\n{}\n{}{}", snippet.text, ran.out(), ran.err());
}

#[test]
fn each_snippet_of_the_pages_is_run_or_has_a_reason_why_not() {
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    for snippet in snippets() {
        let why = NOT_RUN.iter().find(|(page, beginning, _)| snippet.begins(page, beginning));
        let place = format!("{}:{}", snippet.page, snippet.line);
        if let Some((page, beginning, why)) = why {
            println!("not run: {place}: {why}");
            left_out.push((*page, *beginning));
        } else {
            run(&snippet);
            println!("ran {place}");
            ran.push(place);
        }
    }
    let listed: Vec<_> = NOT_RUN.iter().map(|(page, beginning, _)| (*page, *beginning)).collect();
    left_out.sort_unstable();
    assert!(
        listed.iter().all(|listed| left_out.contains(listed)),
        "a page lacks what is listed: {left_out:?}"
    );
    assert!(ran.len() >= 6, "few snippets were found: {ran:?}");
}

/// Commands that would go on.
const GOES_ON: &[&str] = &["serve", "inspect", "tail", "tui"];

#[test]
fn each_command_that_a_page_or_a_help_names_in_a_block_is_one_that_the_program_takes() {
    let place = Place::new();
    let mut tried = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut is_in_block = false;
        for line in text.lines().map(str::trim) {
            is_in_block ^= line.starts_with("```");
            let is_whole = !line.contains(['[', '<', '…', '|', '>', '"', '\'', '(', '`']);
            if !is_in_block || !is_whole || !line.starts_with("taskreel ") {
                continue;
            }
            let words: Vec<&str> =
                line.split(" #").next().unwrap_or(line).split_whitespace().skip(1).collect();
            let first = words.first().copied().unwrap_or_default();
            if GOES_ON.contains(&first) || first == "a2a" || words.last() == Some(&"\\") {
                continue;
            }
            let ran = Ran(place.command(&words).stdin(Stdio::null()).output().unwrap());
            let is_refused = ran.err().contains("the command line is not valid");
            assert!(!is_refused, "{}: {line}\n{}", page.display(), ran.err());
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried} lines");
}
