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
        for line in ["seq sum-0001", "graph sum-0001", "trace sum-0001", "transcript sum-0001", "search echo"]
        {
            let ran = place.run(&format!("{line} --file cut.ndjson"));
            assert!(matches!(ran.code(), Some(3 | 5)), "{name}: {line}: {}", ran.err());
        }
        // What would be wrong without the rest is refused.
        place.run("ls --file cut.ndjson").ended(5);
        place.run("replay --all --file cut.ndjson").ended(5);
    }
    assert!(ends.iter().all(|end| *end > 0), "{ends:?}");
    assert_eq!(ends.last(), Some(&(events.len() as u64)));
    place.run("open nothing.ndjson").ended(3);
    std::fs::write(&file, "{}").unwrap();
    place.run("open cut.ndjson").ended(5).told(&["not an export"]);
}
