//! The lines that are compared between a directory and a server: each command that reads, with each of its options.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::collections::BTreeSet;

use crate::binary::Place;

/// Returns the lines; `infer` is a call of a model, `output` and `rows` are results of tools.
pub(crate) fn lines(infer: &str, output: &str, rows: &str) -> Vec<String> {
    let lines = [
        "ls".to_owned(),
        "ls --sessions".to_owned(),
        "ls --tools".to_owned(),
        "ls --state failed,completed --limit 1".to_owned(),
        "show talk-0001".to_owned(),
        "show pay-0001".to_owned(),
        "show s:talk".to_owned(),
        "show t:keep".to_owned(),
        "events --all".to_owned(),
        "events talk-0001 --kind StateChanged".to_owned(),
        "event talk-0001 2".to_owned(),
        format!("prompt {infer}"),
        "artifact keep-0001".to_owned(),
        format!("artifact keep-0001 {output}"),
        "attention".to_owned(),
        "state talk-0001".to_owned(),
        "state talk-0001 --at 2".to_owned(),
        "replay --all".to_owned(),
        "replay talk-0001".to_owned(),
        "verify".to_owned(),
        "verify talk-0001".to_owned(),
        "diff talk-0001 1 3".to_owned(),
        "diff talk-0001 keep-0001".to_owned(),
        "explain pay-0001".to_owned(),
        "calls".to_owned(),
        "calls --tool pay".to_owned(),
        "stats".to_owned(),
        "export".to_owned(),
        "export --tool keep".to_owned(),
    ];
    lines.into_iter().chain(with_options(infer, output, rows)).chain(at_points(output)).collect()
}

/// Lines that show something as it was at a point.
fn at_points(output: &str) -> Vec<String> {
    vec![
        "ls --at @6".to_owned(),
        "show pay-0001 --at 2".to_owned(),
        "show s:talk --at -1".to_owned(),
        "events talk-0001 --at -3".to_owned(),
        "events --all --at @9".to_owned(),
        "trace talk-0001 --at 3".to_owned(),
        "trace s:talk".to_owned(),
        "seq talk-0001 --at 3".to_owned(),
        "graph talk-0001 --at 3".to_owned(),
        "transcript s:talk --at 3".to_owned(),
        format!("artifact keep-0001 {output} --at -0"),
    ]
}

/// The commands without `--url`: those that write or serve a log, those that examine or mend the files of a directory, and those
/// that look at no log.
const ONLY_HERE: [&str; 11] =
    ["a2a", "open", "demo", "run", "serve", "doctor", "import", "salvage", "completions", "man", "schema"];

/// Lines that use the options of reading commands which no other line uses.
fn with_options(infer: &str, output: &str, rows: &str) -> Vec<String> {
    let mut lines = vec![
        format!("prompt {infer} --task talk-0001"),
        format!("artifact keep-0001 {output} --summary"),
        format!("artifact keep-0001 {output} --lines 1"),
        format!("artifact keep-0001 {output} --characters 0-3"),
        format!("artifact rows-0001 {rows} --path rows"),
        format!("artifact rows-0001 {rows} --path rows --rows 0-2 --columns square"),
        "show pay-0001 --full".to_owned(),
        "diff talk-0001 1 3 --patch".to_owned(),
        "diff talk-0001 1 3 --full".to_owned(),
        "diff talk-0001 2 --with copy.ndjson".to_owned(),
        "events talk-0001 --follow --exit-at-end".to_owned(),
        "explain pay-0001 --at -1".to_owned(),
        "diff talk-0001 -3 -1".to_owned(),
        format!("verify --root {}", "0".repeat(64)),
        "events --all --full".to_owned(),
        "calls --full".to_owned(),
        "ls --where state=completed".to_owned(),
        "calls --where target=pay".to_owned(),
        "stats --where errors>=0".to_owned(),
        "events --all --where payload.tool=pay".to_owned(),
        "export --where kind=StateChanged".to_owned(),
        "attention --where kind!=none".to_owned(),
        "trace talk-0001".to_owned(),
        "trace hang-0001 --failed-only --full".to_owned(),
        "trace pay-0001 --depth 1".to_owned(),
        "trace talk-0001 --critical-path".to_owned(),
        "trace talk-0001 --where kind=infer".to_owned(),
        "seq talk-0001".to_owned(),
        "seq hang-0001 --width 60".to_owned(),
        "seq s:talk --format mermaid".to_owned(),
        "seq pay-0001 --format svg".to_owned(),
        "graph talk-0001 --width 60".to_owned(),
        "graph hang-0001 --format dot".to_owned(),
        "graph s:talk".to_owned(),
        "transcript s:talk".to_owned(),
        "transcript talk-0001 --format md --full".to_owned(),
        "transcript pay-0001 --no-tools".to_owned(),
        "transcript s:talk --where speaker=model".to_owned(),
        "search hello".to_owned(),
        "search hel+o --regex".to_owned(),
        "search hello --count".to_owned(),
        "search hello talk-0001 --full".to_owned(),
        "search hello --where area=message".to_owned(),
    ];
    for (command, kind, tool) in [
        ("events --all", "task", "keep"),
        ("calls", "tool", "pay"),
        ("stats", "tool", "keep"),
        ("export", "task", "keep"),
        ("search ke", "task", "keep"),
    ] {
        let options = [
            "--since 1h".to_owned(),
            "--until 2100-01-01".to_owned(),
            format!("--kind {kind}"),
            format!("--tool {tool}"),
            format!("--text {tool}"),
            "--session s".to_owned(),
            "--agent agent".to_owned(),
            "--not tool=none".to_owned(),
            "--limit 2".to_owned(),
        ];
        lines.extend(options.map(|option| format!("{command} {option}")));
    }
    lines
}

/// The options of every command, those that name the place, and those that follow or write files, for which there are tests of
/// their own.
const OTHERS: [&str; 14] = [
    "--no-pager",
    "--data-dir",
    "--url",
    "--file",
    "--token-file",
    "--scratch",
    "--json",
    "--color",
    "--log-level",
    "--log-format",
    "--help",
    "--follow",
    "--save",
    "--files",
];

/// Asserts that each option of a command that is compared stands in one of these lines.
pub(crate) fn assert_each_option_is_compared(place: &Place, lines: &[String]) {
    let commands: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    let mut missing = Vec::new();
    for command in commands {
        let help = place.run(&format!("{command} --help")).ended(0).out();
        let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let options =
            words.filter_map(|line| line.split([' ', ',', '=']).find(|word| word.starts_with("--")));
        for option in options.filter(|option| !OTHERS.contains(option)) {
            let uses = |line: &String| {
                let mut words = line.split(' ');
                words.next() == Some(command) && words.any(|word| word == option)
            };
            if !lines.iter().any(uses) {
                missing.push(format!("{command} {option}"));
            }
        }
    }
    assert!(missing.is_empty(), "no line compares {missing:?}");
}

/// Returns the commands whose help names `--url`; the others are those of a list.
pub(crate) fn with_url(place: &Place) -> BTreeSet<String> {
    let help = place.run("--help").ended(0).out();
    let commands = help.split("Commands:").nth(1).unwrap().lines().skip(1);
    let names = commands
        .take_while(|line| line.starts_with("  ") || line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let takes_url =
        |name: &String| place.run(&format!("{name} --help")).ended(0).out().contains("--url <URL>");
    let all = names.filter(|name| *name != "help").map(str::to_owned);
    let (taking, others): (BTreeSet<String>, BTreeSet<String>) = all.partition(takes_url);
    assert_eq!(others, ONLY_HERE.map(str::to_owned).into(), "a command that reads takes --url");
    // What these print is an address, a time or a screen of their own; tests of their own look at them.
    taking.into_iter().filter(|name| !matches!(name.as_str(), "inspect" | "report" | "tui")).collect()
}
