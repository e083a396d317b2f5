//! Exports that are cut or damaged half way: what stands before is shown, and where it ends.

use crate::binary::small_log;

#[test]
fn what_stands_before_the_fault_is_shown_and_the_fault_is_named() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    let events = place.run("events --all --json").ended(0).json();
    std::fs::write(place.path().join("whole.ndjson"), &export).unwrap();
    let opened = place.run("open whole.ndjson").ended(0).out();
    assert!(
        opened.contains("3 tasks: 2 completed, 1 failed") && opened.contains("ls --file whole.ndjson"),
        "{opened}"
    );
    let lines: Vec<&str> = export.lines().collect();
    let records = lines.len() - 2;
    let middle = lines[records / 2];
    let damaged = export.replacen(middle, &middle.replacen("\"hash\":\"", "\"hash\":\"0", 1), 1);
    let file = place.path().join("cut.ndjson");
    let mut ends = Vec::new();
    for (name, text) in [
        ("cut", lines[..=records / 2].join("\n")),
        ("cut in a line", export[..export.len() / 2].to_owned()),
        ("damaged", damaged),
        ("without its last line", lines[..=records].join("\n")),
    ] {
        std::fs::write(&file, text).unwrap();
        let summed = place.run("open cut.ndjson --json").ended(5).told(&["cut.ndjson"]).json();
        let end = summed[0]["events"].as_u64().unwrap();
        assert_eq!(summed[0]["whole"], false, "{name}");
        ends.push(end);
        let shown = place.run("events --all --json --file cut.ndjson").ended(5);
        assert!(
            shown.json() == events[..usize::try_from(end).unwrap()],
            "{name}: {} events",
            shown.json().len()
        );
        assert!(shown.told(&["up to position"]).err().contains(&format!("up to position {end}")), "{name}");
        let cut = |line: &str| {
            let cut = place.run(&format!("{line} --file cut.ndjson")).ended(5).told(&["cut.ndjson"]);
            assert!(cut.err().contains(&format!("position {end}")), "{name}: {line}: {}", cut.err());
            cut.json()
        };
        // The log as it was at the position at which what can be read ends is the same log.
        let then = |line: &str| place.run(&format!("{line} --at @{end} --file whole.ndjson")).ended(0).json();
        for line in ["ls --json", "ls --sessions --json", "ls --tools --json"] {
            assert_eq!(cut(line), then(line), "{name}: {line}");
        }
        for task in then("ls --json") {
            let id = task["id"].as_str().unwrap();
            for command in ["show", "state", "events", "transcript", "trace", "seq", "graph"] {
                let line = format!("{command} {id} --json");
                assert_eq!(cut(&line), then(&line), "{name}: {line}");
            }
            for line in [format!("explain {id} --json"), format!("event {id} 1 --json")] {
                assert!(!cut(&line).is_empty(), "{name}: {line}");
            }
        }
        assert_eq!(cut("replay --all --json")[0]["events"].as_u64(), Some(end), "{name}");
        for line in ["calls --json", "stats --json", "attention --json", "search echo --json"] {
            cut(line);
        }
        let unknown = place.run("show none-such --file cut.ndjson").ended(5);
        unknown.told(&["what can be read ends at position", "none-such"]);
        // What would be wrong without the rest is refused.
        assert_eq!(place.run("export --file cut.ndjson").ended(5).out(), "", "{name}");
    }
    assert!(ends.iter().all(|end| *end > 0), "{ends:?}");
    assert_eq!(ends.last(), Some(&(events.len() as u64)));
    place.run("open nothing.ndjson").ended(3);
    std::fs::write(&file, "{}").unwrap();
    place.run("open cut.ndjson").ended(5).told(&["not an export"]);
}

#[test]
fn a_file_that_is_not_there_is_not_called_damaged() {
    let place = small_log();
    for line in [
        "inspect --file nope.ndjson",
        "ls --file nope.ndjson",
        "show sum-0001 --file nope.ndjson",
        "open nope.ndjson",
    ] {
        let told = place.run(line).ended(3).told(&["nope.ndjson"]).err();
        assert_eq!(told.lines().count(), 3, "{line}: {told}");
        assert!(!told.contains("damaged"), "{line}: {told}");
    }
    std::fs::write(place.path().join("text.ndjson"), "no export").unwrap();
    let told = place.run("inspect --file text.ndjson").ended(5).told(&["not an export"]).err();
    assert_eq!(told.lines().count(), 3, "{told}");
}
